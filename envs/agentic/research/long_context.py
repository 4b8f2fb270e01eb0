"""LongContext: the questions of Research, with the documents in the prompt."""

from __future__ import annotations

import random
from typing import Final

from rlvr.envs.agentic.research.library import catalogue, written
from rlvr.envs.agentic.research.questions import LEVELS
from rlvr.envs.agentic.research.task import ANSWER, ResearchKey, answered, asked, evidence, judged, posed, steps
from rlvr.envs.core.seeding import stream
from rlvr.envs.core.task import Task, Transition

CHARACTERS: Final = (4_000, 8_000, 16_000, 32_000, 64_000)  # by level; about four to a token
MAX_CHARACTERS: Final = 600_000


class LongContext(Task[ResearchKey]):
    r"""Answer a question about a made-up history from documents in the prompt, most of which do not matter.

    Levels 1 to 5: 4,000, 8,000, 16,000, 32,000 and 64,000 characters of documents; the questions are those of
    ``rlvr/Research-v0``, from level 3 on with sources that differ, pen names and citations.

    Observation: the documents in any order, and the question.
    Actions: the answer in ``\boxed{}``, with its citations where they are asked for.
    Reward: 1 for the right answer that rests on words of the right documents, else 0.
    Episode end: the answer.

    Args:
        characters: about how many characters of documents there are, from 4,000 to 600,000 (128,000 tokens or so, as
            far as the documents of a level reach); the level decides if None. What the answer needs is always there.
    """

    levels = len(LEVELS)
    system = ANSWER

    def __init__(self, *, characters: int | None = None) -> None:
        least = CHARACTERS[0]
        if characters is not None and (type(characters) is not int or not least <= characters <= MAX_CHARACTERS):
            raise ValueError(f"characters must be a whole number from {least} to {MAX_CHARACTERS}, got {characters!r}")
        self.characters = characters

    def start(self, rng: random.Random, level: int) -> ResearchKey:
        """Draws a world and a seed; everything else follows from these when it is needed."""
        return ResearchKey(level, rng.randrange(LEVELS[level - 1].worlds), rng.getrandbits(48), 0)

    def content(self, state: ResearchKey) -> str:
        """The key, whose split decides which world it is and what may be asked."""
        return state.content

    def difficulty(self, state: ResearchKey) -> float:
        """Documents that the answer needs, times the characters among which they stand."""
        return float(len(self._needed(state)) * self._characters(state))

    def observe(self, state: ResearchKey) -> str:
        """The documents and the question."""
        return "\n\n".join([*self._documents(state), f"# Question\n\n{posed(state)}"])

    def _characters(self, key: ResearchKey) -> int:
        return CHARACTERS[key.level - 1] if self.characters is None else self.characters

    def _needed(self, key: ResearchKey) -> list[str]:
        """What a careful person reads."""
        read = [str(call.arguments["title"]) for call in steps(key.world, asked(key)) if call.name == "read"]
        return list(dict.fromkeys(read))

    def _documents(self, key: ResearchKey) -> list[str]:
        """What the answer needs, and others until there are enough characters, in any order."""
        rng = random.Random(stream("rlvr/LongContext-v0", *key).getrandbits(64))
        known, needed = catalogue(key.world), self._needed(key)
        chosen, length = {}, 0
        others = rng.sample(list(known.titles), len(known.titles))
        for number, title in enumerate(dict.fromkeys((*needed, *others))):
            text = f"# {title}\n\n{written(key.world, title).text}"
            if number >= len(needed) and length + len(text) > self._characters(key):
                break
            chosen[title], length = text, length + len(text)
        return rng.sample(list(chosen.values()), len(chosen))

    def apply(self, state: ResearchKey, action: str) -> Transition:
        """Judges the answer."""
        return Transition(state, judged(state, action), terminated=True)

    def solve(self, state: ResearchKey) -> str:
        """What the documents say, then the answer with its citations."""
        found = [f"{title} has: {stated.sentence}" for (title, stated), *_ in evidence(state.world, asked(state))]
        return "\n".join([*found, *["Nothing says more."] * bool(asked(state).missing), answered(state)])

    def direct_answer(self, state: ResearchKey) -> str:
        """The answer with its citations alone."""
        return answered(state)

    def sample_action(self, state: ResearchKey, rng: random.Random) -> str:
        """A boxed number."""
        return f"\\boxed{{{rng.randint(1800, 2020)}}}"
