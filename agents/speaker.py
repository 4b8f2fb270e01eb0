"""The old place of `rlvr.agents.chat_function`."""

from __future__ import annotations

from rlvr.agents.chat_function import as_chat_function as as_chat_function
from rlvr.envs.core.deprecation import renamed_in_module

__getattr__ = renamed_in_module(__name__, {"speaker": "as_chat_function"}, globals())
