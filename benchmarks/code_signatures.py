"""How the signatures of CodeTests and CodeRepair are found: walks through the blocks, and trials of what comes of them.

    python benchmarks/code_signatures.py

writes ``envs/agentic/programs/signatures.txt`` anew, in about three minutes.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rlvr.envs.agentic import mutations
from rlvr.envs.agentic.programs.block_classes import COLLECTIONS, RULES
from rlvr.envs.agentic.programs.classes import slots_of
from rlvr.envs.agentic.programs.families import BLOCKS, CORES, family_of
from rlvr.envs.agentic.programs.inputs import MAKERS
from rlvr.envs.agentic.programs.structure import CodeBlock, Family, chain, filled, is_long

SIGNATURES = Path(__file__).parents[1] / "envs" / "agentic" / "programs" / "signatures.txt"
CHAINS, CORE_CLASSES, BLOCK_CLASSES = 260, 20, 180  # signatures of a level; at level 5 of each core, and of blocks
SEEDS, INPUTS, FUEL = 3, 40, 3_000
MIN_DIFFERENT, MAX_COMMON = 8, 0.4  # results of a program: how many differ, and the share of the most common


class ChainShape(NamedTuple):
    """What the chains of a level are.

    Attributes:
        sources: the types that they begin with.
        lengths: how many blocks they may have.
        long_blocks: how many of these may be long, from and to.
    """

    sources: tuple[str, ...]
    lengths: tuple[int, ...]
    long_blocks: tuple[int, int]


WALKS = (
    ChainShape(("numbers", "words", "letters", "value"), (2,), (0, 0)),
    ChainShape(("numbers", "words", "text", "letters", "pairs", "value", "groups"), (3,), (0, 1)),
    ChainShape(
        ("numbers", "text", "letters", "pairs", "spans", "grid", "jobs", "links", "fields", "times"), (4,), (1, 2)
    ),
    ChainShape(
        ("numbers", "spans", "grid", "jobs", "links", "fields", "marks", "formula", "lines", "times"), (5, 6), (2, 4)
    ),
)
SELECTING = {"keep", "until", "after", "drop_groups", "pass", "unique", "every", "records", "ladder", "podium"}


@cache
def _frames() -> dict[str, dict[str, list[CodeBlock]]]:
    """The blocks by the type that they take and by their frames."""
    frames: dict[str, dict[str, list[CodeBlock]]] = defaultdict(lambda: defaultdict(list))
    for block in BLOCKS.values():
        frames[block.takes][block.frame].append(block)
    return frames


def _fits(blocks: Sequence[CodeBlock], block: CodeBlock, last: bool) -> bool:
    """Whether a block may come after others: each frame once, two that leave elements out, a single result last."""
    frames = [each.frame for each in blocks]
    selects = block.frame in SELECTING and sum(frame in SELECTING for frame in frames) > 1
    return block.frame not in frames and not selects and (last or block.gives not in ("value", "line"))


def _walked(rng: random.Random, walk: ChainShape) -> list[CodeBlock] | None:
    """A chain of blocks, each drawn by frame and then by what fills it in; None at a dead end."""
    kind, blocks, length = rng.choice(walk.sources), list[CodeBlock](), rng.choice(walk.lengths)
    while len(blocks) < length:
        last = len(blocks) == length - 1
        frames = [fit for each in _frames()[kind].values() if (fit := [b for b in each if _fits(blocks, b, last)])]
        if not frames:
            return None
        blocks.append(rng.choice(rng.choice(frames)))
        kind = blocks[-1].gives
    low, high = walk.long_blocks
    return blocks if low <= sum(map(is_long, blocks)) <= high else None


def drawn(rng: random.Random, family: Family) -> tuple[str, list[list[Any]]]:
    """A source of the family, and inputs for it."""
    values = {name: rng.choice(allowed) for name, allowed in family.parameters.items()}
    cases = [[MAKERS[kind](rng) for kind in family.inputs] for _ in range(INPUTS)]
    return filled(family.source, values), cases


def is_telling(family: Family, blocks: Sequence[CodeBlock] = ()) -> bool:
    """Whether its programs give many different results, each block changes some, and two small changes are bugs."""
    for seed in range(SEEDS):
        source, cases = drawn(random.Random(seed), family)
        results = [repr(value) for value in mutations.results(source, family.entry, cases, fuel=FUEL)]
        counts = Counter(results)
        if (
            repr(mutations.RAISED) in counts
            or len(counts) < MIN_DIFFERENT
            or counts.most_common(1)[0][1] > MAX_COMMON * INPUTS
        ):
            return False
    return all(_matters(blocks, at) for at in range(len(blocks))) and _bugs(family, source, cases, results) >= 2


def _matters(blocks: Sequence[CodeBlock], at: int) -> bool:
    """Whether a program without one of its blocks gives something else; True where it cannot be left out."""
    if blocks[at].takes != blocks[at].gives or len(blocks) == 1:
        return True
    shorter = chain([*blocks[:at], *blocks[at + 1 :]])
    whole = chain(blocks)
    values = {name: random.Random(name).choice(allowed) for name, allowed in whole.parameters.items()}
    # The parameters of the blocks behind it are counted one lower there.
    moved = {_moved_back(name, at + 1): value for name, value in values.items() if not name.endswith(str(at + 1))}
    _, cases = drawn(random.Random(0), whole)
    results = mutations.results(filled(whole.source, values), whole.entry, cases, fuel=FUEL)
    others = mutations.results(filled(shorter.source, moved), shorter.entry, cases, fuel=FUEL)
    differing = sum(repr(one) != repr(other) for one, other in zip(results, others, strict=True))
    return differing >= INPUTS // 8


def _moved_back(name: str, at: int) -> str:
    position = int(name[-1])
    return f"{name[:-1]}{position - (position > at)}"


def _bugs(family: Family, source: str, cases: Sequence[Sequence[Any]], results: Sequence[str]) -> int:
    """How many small changes fail some tests but not nearly all."""
    bugs = 0
    for change in range(mutations.count_changes(source)):
        try:
            values = mutations.results(source, family.entry, cases, [change])
        except mutations.OutOfFuel:
            continue
        bugs += 0 < sum(repr(value) != result for value, result in zip(values, results, strict=True)) <= 3 * INPUTS // 4
        if bugs >= 2:
            break
    return bugs


def chain_signatures(level: int) -> Iterator[str]:
    """The signatures of a level below 5, without end or repetition."""
    rng, tried = random.Random(f"the programs of level {level}"), set[str]()
    while True:
        if blocks := _walked(rng, WALKS[level - 1]):
            family = chain(blocks)
            if family.name not in tried and is_telling(family, blocks):
                yield family.name
            tried.add(family.name)


def core_signatures() -> Iterator[str]:
    """`CORE_CLASSES` signatures of each core."""
    for core in CORES.values():
        slots = slots_of(core)
        fillings = list(itertools.product(*slots.values()))
        random.Random(core.entry).shuffle(fillings)
        names = (_signature(core.entry, {s: r.name for s, r in zip(slots, rules, strict=True)}) for rules in fillings)
        yield from itertools.islice((name for name in names if is_telling(family_of(name))), CORE_CLASSES)


def _signature(entry: str, rules: Mapping[str, str]) -> str:
    return ":".join((entry, *(f"{slot}_{name}" for slot, name in rules.items())))


def block_class_signatures() -> Iterator[str]:
    """Signatures of classes of blocks, no two of one kind, without end."""
    rng, kinds = random.Random("classes of blocks"), set[str]()
    while True:
        entry = rng.choice(list(COLLECTIONS))
        if rules := _drawn_rules(rng, entry):
            family = family_of(_signature(entry, rules))
            if family.kind not in kinds and is_telling(family) and _all_matter(entry, rules):
                kinds.add(family.kind)
                yield family.name


def _drawn_rules(rng: random.Random, entry: str) -> dict[str, str] | None:
    """A rule for each slot, and one or two blocks each that ``change`` and ``view`` go through."""
    kind = COLLECTIONS[entry].type
    same = [block for block in BLOCKS.values() if block.takes == kind == block.gives and not _grows(block)]
    changes, views = list[CodeBlock](), list[CodeBlock]()
    for chosen, blocks in ((changes, lambda _: same), (views, _blocks_of)):
        takes = kind
        for _ in range(rng.choice((1, 2, 2))):
            fits = [block for block in blocks(takes) if _fits([*changes, *views], block, last=chosen is views)]
            if not fits or takes in ("value", "line"):
                break
            frame = rng.choice(sorted({block.frame for block in fits}))
            chosen.append(rng.choice([block for block in fits if block.frame == frame]))
            takes = chosen[-1].gives
    if not changes or not views:
        return None
    rules = {slot: rng.choice(fills).name for slot, fills in RULES.items()}
    steps = {f"{slot}{at}": b.name for slot, bs in (("change", changes), ("view", views)) for at, b in enumerate(bs, 1)}
    return {**{slot: rules[slot] for slot in RULES if slot != "history"}, **steps, "history": rules["history"]}


def _blocks_of(kind: str) -> list[CodeBlock]:
    return [block for block in BLOCKS.values() if block.takes == kind]


def _grows(block: CodeBlock) -> bool:
    """Whether numbers grow without bound if it is applied again and again."""
    return block.frame in ("running", "steps") or block.name.endswith(("_square", "_scaled"))


def _all_matter(entry: str, rules: Mapping[str, str]) -> bool:
    """Whether each block that can be left out, and each rule that has a plain form, changes some results."""
    whole = family_of(_signature(entry, rules))
    values = {name: random.Random(name).choice(allowed) for name, allowed in whole.parameters.items()}
    _, cases = drawn(random.Random(0), whole)
    results = mutations.results(filled(whole.source, values), whole.entry, cases, fuel=FUEL)
    for slot, name in rules.items():
        left_out = {each: rule for each, rule in rules.items() if each != slot}
        if slot == "full" and name != "plain":
            left_out = {**rules, "full": "plain"}
        elif name not in BLOCKS or BLOCKS[name].takes != BLOCKS[name].gives or not _is_one_of_two(slot, rules):
            continue
        family = family_of(_signature(entry, left_out))
        others = mutations.results(filled(family.source, values), family.entry, cases, fuel=FUEL)
        if sum(repr(one) != repr(other) for one, other in zip(results, others, strict=True)) < INPUTS // 8:
            return False
    return True


def _is_one_of_two(slot: str, rules: Mapping[str, str]) -> bool:
    return sum(other[:-1] == slot[:-1] for other in rules) == 2


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    lines = [f"{level} {name}" for level in range(1, 5) for name in itertools.islice(chain_signatures(level), CHAINS)]
    classes = itertools.chain(core_signatures(), itertools.islice(block_class_signatures(), BLOCK_CLASSES))
    SIGNATURES.write_text("\n".join([*lines, *(f"5 {name}" for name in classes)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
