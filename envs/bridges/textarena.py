"""TextArena's games for one and for two players as environments: their rules and boards, our seeds and restore.

The reward is 1 for a game that was won, 0.5 for a draw with the other player, 0 for all else: an invalid move, a limit
reached and partial credit are no wins.
"""

from __future__ import annotations

import re
from typing import Any, Final

from rlvr.envs.bridges.duels import DUELS
from rlvr.envs.bridges.matches import WorkerGame, WorkerMatch
from rlvr.envs.bridges.suite_games import TEXTARENA
from rlvr.envs.core.verdict import Verdict, correct, wrong

_MOVE: Final = re.compile(r"\[?\s*([\w ,:]{1,40})\]?", re.ASCII)


class TextArena(WorkerGame):
    """Args:
    name: the game's name in TextArena without its version, such as ``Sokoban``.

    Raises:
        ValueError: there is no such game, or it is refused.
    """

    worker, suite, games = "textarena", "TextArena", TEXTARENA
    source = "TextArena, the installed version"
    licence = "MIT"
    packages = ("textarena",)

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


class TextArenaDuel(WorkerGame):
    """A game for two players: the policy is one of them, drawn from the seed; the other makes random legal moves.

    Args:
        name: the game's name in TextArena without its version, such as ``TicTacToe``.

    Raises:
        ValueError: there is no such game, or it is refused.
    """

    worker, suite, games = "textarena_duels", "TextArena", DUELS
    source, licence, packages = TextArena.source, TextArena.licence, TextArena.packages
    lists_moves = True

    def read_move(self, action: str) -> str:
        """A move alone, in brackets: TextArena takes the first of any text, so that an echo of the prompt is a move."""
        words = super().read_move(action)
        match = _MOVE.fullmatch(words)
        return f"[{match[1]}]" if match else ""

    def judge(self, played: dict[str, Any]) -> Verdict:
        """1 for a game that was won by legal moves, 0.5 for a draw."""
        reason, score = " ".join(played["reason"].split())[:500], played["score"]
        if played["legal"] and score > 0:
            return correct(reason=reason)
        if played["legal"] and not score:
            return Verdict(0.5, "partial", reason=reason)
        return wrong(reason=reason)
