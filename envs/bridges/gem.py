"""GEM's games as environments: their rules and boards, our seeds, resets, ends, experts and restore.

A state is the game's seed and the actions so far; workers hold the games themselves, as for TextArena. The reward is 1
for a game that was won, 0 for all else: GEM's own rewards for coming near a number, for parts of a board and for
running out of turns at the right moment stand in the verdict's ``parts``.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from rlvr.envs.bridges.kept import named
from rlvr.envs.bridges.names import GEM
from rlvr.envs.bridges.pools import call, verdict_on_fault
from rlvr.envs.bridges.textarena import move
from rlvr.envs.core.seeding import digest
from rlvr.envs.core.tables import DataError
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards.workers import WorkerError
from rlvr.envs.tools.sessions import Handle

WORKER: Final = "gem"
SECONDS: Final = 60.0
DRAWS: Final = 50


class GemMatch(NamedTuple):
    """A game so far: what names it, and what the player reads next."""

    level: int
    seed: int
    actions: tuple[str, ...]
    text: str
    content: str
    record: str = ""
    live: Handle | None = None


class GemGame(Task[GemMatch]):
    """Args:
    name: the game's name in GEM without its version, such as ``Mastermind``.

    Raises:
        ValueError: there is no such game, or it is refused.
    """

    system = "Think step by step. Put your move, and nothing else, in \\boxed{}, written as the game asks for it."
    source = "GEM, the installed version of gem-llm"
    licence = "Apache-2.0"
    always_solvable = False

    def __init__(self, *, name: str) -> None:
        if name not in GEM:
            raise ValueError(f"the bridge has no game {name!r} of GEM; docs/bridges.md lists them")
        self.game = name
        self.levels = len(GEM[name].settings)
        self.asks = f"GEM's {name}: {GEM[name].note or 'a game for one player'}"

    def turns(self, level: int) -> int:
        return GEM[self.game].turns[level - 1]

    def start(self, rng: random.Random, level: int) -> GemMatch:
        """A new game that can be won.

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
                return GemMatch(level, seed, (), made["text"], made["content"], made["record"], live)
        raise WorkerError(f"none of {DRAWS} games of {self.game} can be won")

    def detached(self, state: GemMatch) -> GemMatch:
        return state._replace(live=None)

    def content(self, state: GemMatch) -> str:
        return state.content

    def observe(self, state: GemMatch) -> str:
        return state.text

    def apply(self, state: GemMatch, action: str) -> Transition:
        # GEM's patterns take the digits of any script.
        actions = (*state.actions, move(action).encode("ascii", "replace").decode())
        try:
            game = [self.game, state.level, state.seed, list(actions)]
            played = call(WORKER, "play", [*game, named(state.live, live := Handle(), state.record)], SECONDS)
        except WorkerError as error:
            return Transition(state, verdict_on_fault(error, lambda: self._begin_again(state)), True)
        after = state._replace(actions=actions, text=played["text"], record=played["record"], live=None)
        if not played["done"]:
            return Transition(after._replace(live=live), Verdict(0.0, "partial", reason="the game goes on"))
        reason = " ".join(played["text"].split())[:500]
        verdict = correct(reason=reason) if played["won"] else wrong(reason=reason)
        return Transition(after, verdict.replace(parts={"its own score": played["score"]}), True)

    def _begin_again(self, state: GemMatch) -> None:
        """Begin the same game without any action of the policy.

        Raises:
            WorkerError: that fails, too.
        """
        call(WORKER, "begin", [self.game, state.level, state.seed, None], SECONDS)

    def solve(self, state: GemMatch) -> str:
        game = [self.game, state.level, state.seed, list(state.actions)]
        found = call(WORKER, "solve", [*game, named(state.live, None, state.record)], SECONDS)
        if found is None:
            raise NotImplementedError(f"no expert is known for {self.game} at level {state.level}")
        return f"\\boxed{{{found}}}"
