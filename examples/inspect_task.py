"""A task of Inspect AI, for its command line: GuessNumber at a level of your choice.

    pip install inspect-ai
    inspect eval examples/inspect_task.py -T level=2 --model openai/gpt-4o-mini
    inspect eval examples/inspect_task.py --model mockllm/model        # without a model: scores 0

Any other environment: another id. The solver plays all turns; what is not the model's fault is left unscored.
"""

from inspect_ai import Task, task

from rlvr.adapters.suites.inspect_ai import episodes


@task
def guess_number(n: int = 20, level: int = 1, split: str = "test") -> Task:
    return episodes("rlvr/GuessNumber-v0", n, settings={"level": level, "split": split})
