"""Evaluation: play each task once or k times, count, and say how sure the count is.

`play` plays, `summary` sums up, `statistics` has the formulae, `compare` sets two evaluations side by side, `regrade`
grades recorded episodes anew, `records` reads and writes them, `journal` keeps the replies of those that have not
ended, `suites` pins what is played, `likelihood` plays the likeliest option of a multiple choice.
"""

from rlvr.agents.evaluation.play import evaluate, task_requests
from rlvr.agents.evaluation.records import read_episodes, write_episodes
from rlvr.agents.evaluation.statistics import wilson
from rlvr.agents.evaluation.summary import Evaluation, summarise

__all__ = ["Evaluation", "evaluate", "read_episodes", "summarise", "task_requests", "wilson", "write_episodes"]
