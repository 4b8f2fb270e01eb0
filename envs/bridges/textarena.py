"""TextArena's games for one player as environments: their rules and boards, our seeds, resets, ends and restore.

The reward is 1 for a game that was won, 0 for all else: an invalid move, a limit reached and partial credit are no
wins.
"""

from __future__ import annotations

from typing import Any

from rlvr.envs.bridges.matches import WorkerGame, WorkerMatch
from rlvr.envs.bridges.names import TEXTARENA
from rlvr.envs.core.verdict import Verdict, correct, wrong


class TextArena(WorkerGame):
    """Args:
    name: the game's name in TextArena without its version, such as ``Sokoban``.

    Raises:
        ValueError: there is no such game, or it is refused.
    """

    worker, suite, games = "textarena", "TextArena", TEXTARENA
    source = "TextArena, the installed version"
    licence = "MIT"

    def content(self, state: WorkerMatch) -> str:
        """What the worker says identifies the game, with its first observation, which may hold the rest."""
        return f"{state.content} {state.text if not state.actions else ''}"

    def judge(self, played: dict[str, Any]) -> Verdict:
        """Correct for a full score by legal moves; a lower score is a part of the verdict."""
        reason, score = " ".join(played["reason"].split())[:500], played["score"]
        if played["legal"] and score >= 1.0:
            return correct(reason=reason)
        verdict = wrong(reason=reason)
        return verdict.replace(parts={"its own score": score}) if score else verdict
