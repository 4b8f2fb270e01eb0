"""Adapters: one file for each foreign framework, under its name. None is imported before it is asked for.

`trainers` and `suites` hold the frameworks, `serving` what crosses a network. Here is what they share: a task as a row
(`rows`), as JSON (`spec`), one episode of it (`spec`, `token_session`), and the tests of an adapter (`testing`). Other
frameworks' environments, played here, are in `rlvr.envs.bridges`.
"""

from rlvr.adapters.rows import read_spec, rows, write_rows
from rlvr.adapters.serving.connect import connect, connect_vector
from rlvr.adapters.spec import EpisodeSession, TaskSpec, grade, initial_messages

__all__ = [
    "EpisodeSession",
    "TaskSpec",
    "connect",
    "connect_vector",
    "grade",
    "initial_messages",
    "read_spec",
    "rows",
    "write_rows",
]
