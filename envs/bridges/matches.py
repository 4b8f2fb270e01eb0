"""Games of other suites that run in our workers: what the bridges to GEM and TextArena share.

A state is the game's seed and the actions so far. Workers hold the games themselves, and play one again where they do
not have it. So a fork, a snapshot and a pickle go on exactly, whatever the game keeps in global variables. Every
episode is a new game object, and observations hold what is new and nothing else.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from rlvr.envs.bridges.pools import call, verdict_on_fault
from rlvr.envs.bridges.suite_games import BridgedGame
from rlvr.envs.bridges.worker_episodes import named
from rlvr.envs.core.seeding import digest
from rlvr.envs.core.tables import DataError
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.extraction import extract, visible_text
from rlvr.envs.rewards.workers import WorkerError
from rlvr.envs.tools.sessions import Handle

SECONDS: Final = 60.0
LONGEST: Final = 500  # characters of an action that a game is told; no move of any game is longer
DRAWS: Final = 50


class WorkerMatch(NamedTuple):
    """A game so far: what names it, and what the player reads next."""

    level: int
    seed: int
    actions: tuple[str, ...]
    text: str
    content: str
    record: str = ""
    live: Handle | None = None


class WorkerGame(Task[WorkerMatch]):
    """A game that a worker plays.

    Args:
        name: the game's name in its suite without its version.

    Attributes:
        worker: the name of the workers that hold the games.
        suite: the suite's name.
        games: its games by name.

    Raises:
        ValueError: there is no such game, or it is refused.
    """

    worker: ClassVar[str]
    suite: ClassVar[str]
    games: ClassVar[Mapping[str, BridgedGame]]
    system = "Think step by step. Put your move, and nothing else, in \\boxed{}, written as the game asks for it."
    always_solvable = False

    def __init__(self, *, name: str) -> None:
        if name not in self.games:
            raise ValueError(f"the bridge has no game {name!r} of {self.suite}; docs/bridges.md lists them")
        self.game = name
        self.levels = len(self.games[name].settings)
        self.asks = f"{self.suite}'s {name}: {self.games[name].note or 'a game for one player'}"

    def turns(self, level: int) -> int:
        """The game's own limit at the level's settings, from the table of names."""
        return self.games[self.game].turns[level - 1]

    def start(self, rng: random.Random, level: int) -> WorkerMatch:
        """A new game that can be won, as far as is known.

        Raises:
            DataError: the game needs words that nltk has not downloaded.
            WorkerError: the game cannot be made.
        """
        for _ in range(DRAWS):
            seed = digest(self.game, level, rng.getrandbits(64)) & 0x7FFFFFFF
            try:
                begun = call(self.worker, "begin", [self.game, level, seed, (live := Handle()).number], SECONDS)
            except WorkerError as error:
                if "LookupError" in str(error):  # nltk's, whose message is a page
                    raise DataError(f"{self.game} needs a list of words: python -m nltk.downloader words") from None
                raise
            if begun["winnable"]:
                return WorkerMatch(level, seed, (), begun["text"], begun["content"], begun["record"], live)
        raise WorkerError(f"none of {DRAWS} games of {self.game} can be won")

    def detached(self, state: WorkerMatch) -> WorkerMatch:
        """The same state without its game in a worker: a fork plays the actions again."""
        return state._replace(live=None)

    def content(self, state: WorkerMatch) -> str:
        """What the worker says identifies the game: its board, word or number."""
        return state.content

    def observe(self, state: WorkerMatch) -> str:
        """What the game has printed since the last action."""
        return state.text

    def apply(self, state: WorkerMatch, action: str) -> Transition:
        """Hand the action to the game; a fault counts for the policy only if the game begins without its actions."""
        actions = (*state.actions, self.read_move(action))
        try:
            game = [self.game, state.level, state.seed, list(actions)]
            played = call(self.worker, "play", [*game, named(state.live, live := Handle(), state.record)], SECONDS)
        except WorkerError as error:
            return Transition(state, verdict_on_fault(error, lambda: self._begin_again(state)), True)
        after = state._replace(actions=actions, text=played["text"], record=played["record"], live=None)
        if not played["done"]:
            return Transition(after._replace(live=live), Verdict(0.0, "partial", reason="the game goes on"))
        return Transition(after, self.judge(played), True)

    def read_move(self, action: str) -> str:
        """What of an action the game is told."""
        return read_move(action)

    @abstractmethod
    def judge(self, played: dict[str, Any]) -> Verdict:
        """The verdict on a game that is over, from what the worker answered last."""

    def _begin_again(self, state: WorkerMatch) -> None:
        """Begin the same game without any action of the policy.

        Raises:
            WorkerError: that fails, too.
        """
        call(self.worker, "begin", [self.game, state.level, state.seed, None], SECONDS)


def read_move(action: str) -> str:
    """The last box of an action, else the end of its text after the thinking."""
    answer = extract(action, ("boxed", "tag"))
    text = answer.answer if answer.answer is not None else visible_text(action)
    return text.encode("utf-8", "replace").decode().replace("\x00", "").strip()[-LONGEST:].strip()
