"""GEM's games as environments: their rules and boards, our seeds, resets, ends, experts and restore.

The reward is 1 for a game that was won, 0 for all else: GEM's own rewards for coming near a number, for parts of a
board and for running out of turns at the right moment stand in the verdict's ``parts``.
"""

from __future__ import annotations

from typing import Any

from rlvr.envs.bridges.matches import SECONDS, WorkerGame, WorkerMatch, read_move
from rlvr.envs.bridges.pools import call
from rlvr.envs.bridges.suite_games import GEM
from rlvr.envs.bridges.worker_episodes import named
from rlvr.envs.core.verdict import Verdict, correct, wrong


class GemGame(WorkerGame):
    """Args:
    name: the game's name in GEM without its version, such as ``Mastermind``.

    Raises:
        ValueError: there is no such game, or it is refused.
    """

    worker, suite, games = "gem", "GEM", GEM
    source = "GEM, the installed version of gem-llm"
    licence = "Apache-2.0"
    packages = ("gem",)

    def read_move(self, action: str) -> str:
        """The move in ASCII: GEM's patterns take the digits of any script."""
        return read_move(action).encode("ascii", "replace").decode()

    def judge(self, played: dict[str, Any]) -> Verdict:
        """Correct if the game says that it was won; its own score is a part of the verdict."""
        reason = " ".join(played["text"].split())[:500]
        verdict = correct(reason=reason) if played["won"] else wrong(reason=reason)
        return verdict.replace(parts={"its own score": played["score"]})

    def solve(self, state: WorkerMatch) -> str:
        """The move of the worker's expert, which sees the game.

        Raises:
            NotImplementedError: the game has none.
        """
        game = [self.game, state.level, state.seed, list(state.actions)]
        move = call(self.worker, "solve", [*game, named(state.live, None, state.record)], SECONDS)
        if move is None:
            raise NotImplementedError(f"no expert is known for {self.game} at level {state.level}")
        return f"\\boxed{{{move}}}"
