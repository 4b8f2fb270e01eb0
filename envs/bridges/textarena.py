"""TextArena's games for one player as environments: their rules and boards, our seeds, resets, ends and restore.

A state is the game's seed and the actions so far; workers hold the games themselves, and play one again where they do
not have it. So a fork, a snapshot and a pickle go on exactly, whatever the game keeps in global variables. Every
episode is a new game object, observations hold what is new and nothing else, and the reward is 1 for a game that was
won, 0 for all else: an invalid move, a limit reached and partial credit are no wins.
"""

from __future__ import annotations

import random
from typing import Any, Final, NamedTuple

from rlvr.envs.bridges.kept import named
from rlvr.envs.bridges.names import TEXTARENA
from rlvr.envs.bridges.pools import call, verdict_on_fault
from rlvr.envs.core.seeding import digest
from rlvr.envs.core.tables import DataError
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards.extraction import extract, visible_text
from rlvr.envs.rewards.workers import WorkerError
from rlvr.envs.tools.sessions import Handle

WORKER: Final = "textarena"
SECONDS: Final = 60.0
LONGEST: Final = 500  # characters of an action that a game is told; no move of any game is longer
DRAWS: Final = 50


class TextArenaMatch(NamedTuple):
    """A game so far: what names it, and what the player reads next."""

    level: int
    seed: int
    actions: tuple[str, ...]
    text: str
    content: str
    record: str = ""
    live: Handle | None = None


class TextArena(Task[TextArenaMatch]):
    """Args:
    name: the game's name in TextArena without its version, such as ``Sokoban``.

    Raises:
        ValueError: there is no such game, or it is refused.
    """

    system = "Think step by step. Put your move, and nothing else, in \\boxed{}, written as the game asks for it."
    source = "TextArena, the installed version"
    licence = "MIT"
    always_solvable = False

    def __init__(self, *, name: str) -> None:
        if name not in TEXTARENA:
            raise ValueError(f"the bridge has no game {name!r} of TextArena; docs/bridges.md lists them")
        self.game = name
        self.levels = len(TEXTARENA[name].settings)
        self.asks = f"TextArena's {name}: {TEXTARENA[name].note or 'a game for one player'}"

    def turns(self, level: int) -> int:
        return TEXTARENA[self.game].turns[level - 1]

    def start(self, rng: random.Random, level: int) -> TextArenaMatch:
        """A new game that can be won, as far as is known.

        Raises:
            DataError: the game needs words that nltk has not downloaded.
        WorkerError: the game cannot be made.
        """
        for _ in range(DRAWS):
            seed = digest(self.game, level, rng.getrandbits(64)) & 0x7FFFFFFF
            try:
                made = call(WORKER, "begin", [self.game, level, seed, (live := Handle()).number], SECONDS)
            except WorkerError as error:
                if "LookupError" in str(error):  # nltk's, whose message is a page
                    raise DataError(f"{self.game} needs a list of words: python -m nltk.downloader words") from None
                raise
            if made["winnable"]:
                return TextArenaMatch(level, seed, (), made["text"], made["content"], made["record"], live)
        raise WorkerError(f"none of {DRAWS} games of {self.game} can be won")

    def detached(self, state: TextArenaMatch) -> TextArenaMatch:
        return state._replace(live=None)

    def content(self, state: TextArenaMatch) -> str:
        return f"{state.content} {state.text if not state.actions else ''}"

    def observe(self, state: TextArenaMatch) -> str:
        return state.text

    def apply(self, state: TextArenaMatch, action: str) -> Transition:
        actions = (*state.actions, move(action))
        try:
            game = [self.game, state.level, state.seed, list(actions)]
            played = call(WORKER, "play", [*game, named(state.live, live := Handle(), state.record)], SECONDS)
        except WorkerError as error:
            return Transition(state, verdict_on_fault(error, lambda: self._begin_again(state)), True)
        after = state._replace(actions=actions, text=played["text"], record=played["record"], live=None)
        if not played["done"]:
            return Transition(after._replace(live=live), Verdict(0.0, "partial", reason="the game goes on"))
        return Transition(after, self._ended(played), True)

    def _begin_again(self, state: TextArenaMatch) -> None:
        """Begin the same game without any action of the policy.

        Raises:
            WorkerError: that fails, too.
        """
        call(WORKER, "begin", [self.game, state.level, state.seed, None], SECONDS)

    def _ended(self, played: dict[str, Any]) -> Verdict:
        reason, score = " ".join(played["reason"].split())[:500], played["score"]
        if played["legal"] and score >= 1.0:
            return correct(reason=reason)
        verdict = wrong(reason=reason)
        return verdict.replace(parts={"its own score": score}) if score else verdict


def move(action: str) -> str:
    """What of an action a game is told: the last box, else the end of the text after the thinking."""
    found = extract(action, ("boxed", "tag"))
    text = found.answer if found.answer is not None else visible_text(action)
    return text.encode("utf-8", "replace").decode().replace("\x00", "").strip()[-LONGEST:].strip()
