"""`ForwardingEnv`: what an environment that is elsewhere forwards to it, however it gets there."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class ForwardingEnv(gym.Env[Any, str]):
    """Base of environments in another process; ``reset`` and ``step`` are the subclass's, and so is the way there."""

    def render(self) -> Any:
        """What the environment renders."""
        return self._call("render")

    def solve(self) -> str:
        """The expert's next action; a server gives it only with ``--expert``."""
        return self._call("solve")  # type: ignore[no-any-return]

    def direct_answer(self) -> str | None:
        """The final answer without the work that leads to it; None where there is no work to skip."""
        return self._call("direct_answer")  # type: ignore[no-any-return]

    def get_state(self) -> Any:
        """A snapshot of the episode: of a server its name, which lives as long as the session."""
        return self._call("get_state")

    def set_state(self, state: Any) -> None:
        """Go on from a snapshot: of this session, or, where it is no name, of any environment spawned from this one."""
        self._call("set_state", state=state)

    def _call(self, name: str, **arguments: Any) -> Any:
        """The result of a method of the environment; ``ResetNeeded`` without an episode."""
        raise NotImplementedError
