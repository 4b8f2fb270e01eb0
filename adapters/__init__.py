"""Adapters: one file for each foreign framework, under its name. None is imported before it is asked for.

`trainers` and `suites` hold the frameworks, `serving` what crosses a network. Here is what they share: a task as a row
(`rows`), as JSON (`spec`), one episode of it (`spec`, `token_session`), and the tests of an adapter (`testing`). Other
frameworks' environments, played here, are in `rlvr.envs.bridges`.
"""

import sys

from rlvr.adapters.rows import read_spec, rows, write_rows
from rlvr.adapters.serving.connect import connect, connect_vector
from rlvr.adapters.spec import EpisodeSession, TaskSpec, grade, initial_messages
from rlvr.envs.core.deprecation import moved_modules, renamed_in_module

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

__getattr__ = renamed_in_module(__name__, {"Session": "EpisodeSession"}, globals())
moved_modules(
    __name__,
    {
        "trainers": ("datasets", "openrlhf", "renderers", "skyrl", "tinker_cookbook", "trl", "verl"),
        "suites": ("gem", "inspect_ai", "lm_eval", "nemo_gym", "openenv", "verifiers"),
        "serving": (
            *("answers", "bounded_json", "connection", "generate_server", "guard", "loopback", "policy_endpoint"),
            *("ray", "serve", "sessions", "wire"),
        ),
    },
)
# Without a warning: as a name of this package, `connect` is the function.
sys.modules[f"{__name__}.connect"] = sys.modules["rlvr.adapters.serving.connect"]
