"""Chores of several steps, each of which goes on with what another one left."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple

from rlvr.envs.agentic.chore_kinds import builds, folders, history, live, settings, tables, texts
from rlvr.envs.agentic.chore_kinds.draft import FILES, NOTHING, ChoreDraft, StepKind, Unfit, WorkItem, fresh
from rlvr.envs.agentic.chores import Chore
from rlvr.envs.core.seeding import stream

KINDS: Final[tuple[StepKind, ...]] = (
    *texts.KINDS, *tables.KINDS, *folders.KINDS, *settings.KINDS, *history.KINDS, *builds.KINDS, *live.KINDS,
)  # fmt: skip
FAMILIES: Final = tuple(dict.fromkeys(kind.family for kind in KINDS))
EASY: Final = (
    "text", "cleaning", "formats", "logs", "files", "archives", "permissions", "configuration", "encryption",
)  # fmt: skip
HELD_OUT: Final = {
    "test": (3, 9),
    "validation": (6,),
}  # which kinds of each family, counted from 0, one split has alone
BRANCH: Final = 0.1  # how often a step begins something new though there is something to go on with
BRANCH_OF_VALUE: Final = 0.35  # the same where the newest item is a value, with which few families do anything


class ChoreSize(NamedTuple):
    """How long the chores of a level are.

    Attributes:
        steps: how many there are.
        look: how often the expert looks at what a step made.
        turns: actions that an episode may have; the expert needs two in three of them at most.
    """

    steps: int
    look: float
    turns: int
    families: tuple[str, ...] = FAMILIES


SIZES: Final = (
    ChoreSize(1, 1.0, 12, EASY),
    ChoreSize(2, 0.6, 24),
    ChoreSize(4, 0.5, 36),
    ChoreSize(6, 0.4, 48),
    ChoreSize(10, 0.35, 72),
)


def _splits() -> dict[str, str]:
    """The split of each kind by its name; that of the train split are in all others too."""
    splits = {}
    for family in FAMILIES:
        for number, kind in enumerate(kind for kind in KINDS if kind.family == family):
            splits[kind.name] = next((split for split, held in HELD_OUT.items() if number in held), "train")
    return splits


SPLITS: Final = _splits()


class Composed(NamedTuple):
    """A chore, and the names of the kinds of its steps."""

    chore: Chore
    kinds: tuple[str, ...]


def split_of_seed(seed: int) -> str:
    """The split whose kinds the chore of a seed has."""
    return ("test", "validation", *["train"] * 8)[seed % 10]


@lru_cache(maxsize=1024)
def composed(level: int, seed: int, split: str) -> Composed:
    """The chore of a seed; the same on every machine.

    Args:
        split: "train" has its kinds alone; in "test" and "validation" the first step is of a kind that no other split
            has; "" takes no account of splits.
    """
    for attempt in count():
        drawn = _drawn(stream("rlvr/Terminal-v0", level, seed, attempt), SIZES[level - 1], split)
        if drawn is not None:
            return drawn
    raise AssertionError("unreachable")


def _drawn(rng: random.Random, size: ChoreSize, split: str) -> Composed | None:
    kinds = [
        kind for kind in KINDS if kind.family in size.families and (not split or SPLITS[kind.name] in (split, "train"))
    ]
    held = [kind for kind in kinds if SPLITS[kind.name] == split != "train"]
    draft, items, used = ChoreDraft(rng, size.look), list[WorkItem](), list[StepKind]()
    for _ in range(size.steps * 8):
        if len(used) == size.steps:
            chore = draft.chore()
            too_long = 3 * len(chore.commands) > 2 * size.turns
            return None if too_long else Composed(chore, tuple(kind.name for kind in used))
        left = [kind for kind in kinds if kind not in used]
        preferred = [kind for kind in held if kind not in used] if not used or rng.random() < 0.5 else []
        trial = draft.copy()
        try:
            kind, item = next_step(trial, [preferred, left], items, Counter(kind.family for kind in used))
            items.append(kind.play(trial, item))
        except Unfit:
            continue
        draft = trial
        used.append(kind)
    return None


def next_step(
    draft: ChoreDraft, choices: Sequence[Sequence[StepKind]], items: Sequence[WorkItem], used: Mapping[str, int]
) -> tuple[StepKind, WorkItem]:
    """A kind of step and what it works on: the newest item that suits any kind of the first choice, or else
    something new. ``used`` counts the steps that the chore has of each family."""
    branch = BRANCH_OF_VALUE if items and items[-1].form == "value" else BRANCH
    if items and (len(items) == 1 or draft.rng.random() >= branch):
        for kinds in choices:
            for item in reversed(items):
                suitable = [kind for kind in kinds if kind.suits(item)]
                if suitable:
                    return _any(draft.rng, suitable, used), item
    kind = _any(draft.rng, next(filter(None, choices), ()), used)
    form = draft.rng.choice(FILES) if kind.takes == "file" else kind.takes
    if not form:
        return kind, NOTHING
    if form == "folder":
        return kind, folders.a_folder(draft)
    if form == "database":
        return kind, builds.a_database(draft)
    return kind, draft.give_item(form, fresh(draft.rng, form))


def _any(rng: random.Random, kinds: Sequence[StepKind], used: Mapping[str, int]) -> StepKind:
    """A kind of a family drawn first: seldom one that the chore has already, and a large one not much more often."""
    if not kinds:
        raise Unfit
    counts = Counter(kind.family for kind in kinds)
    families = sorted(counts)
    weights = [counts[family] ** 0.5 / (1 + used.get(family, 0)) ** 2 for family in families]
    family = rng.choices(families, weights)[0]
    return rng.choice([kind for kind in kinds if kind.family == family])
