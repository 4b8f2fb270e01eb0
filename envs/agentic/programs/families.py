"""The families of programs of each level, by their signatures: chains of blocks, and at level 5 classes.

``signatures.txt`` lists them, as ``benchmarks/code_signatures.py`` found them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rlvr.envs.agentic.programs.block_classes import COLLECTIONS, collection_family
from rlvr.envs.agentic.programs.class_cores import ACCOUNTS, CACHE, QUEUE
from rlvr.envs.agentic.programs.class_cores_ordered import CALENDAR, EDITOR, STOCK
from rlvr.envs.agentic.programs.classes import Core, class_family, slots_of
from rlvr.envs.agentic.programs.elements import ELEMENTS
from rlvr.envs.agentic.programs.lists import LISTS
from rlvr.envs.agentic.programs.structure import CodeBlock, Family, chain
from rlvr.envs.agentic.programs.structures import STRUCTURES

BLOCKS: Mapping[str, CodeBlock] = {block.name: block for block in (*ELEMENTS, *LISTS, *STRUCTURES)}
CORES: Mapping[str, Core] = {core.entry: core for core in (ACCOUNTS, QUEUE, CACHE, CALENDAR, EDITOR, STOCK)}


@cache
def _levels() -> tuple[tuple[str, ...], ...]:
    levels: dict[int, list[str]] = {}
    for line in Path(__file__).with_name("signatures.txt").read_text(encoding="utf-8").splitlines():
        level, _, signature = line.partition(" ")
        levels.setdefault(int(level), []).append(signature)
    return tuple(tuple(levels[level]) for level in sorted(levels))


LEVELS = _levels()


@cache
def family_of(signature: str) -> Family:
    """The family of a signature."""
    first, *parts = signature.split(":")
    if core := CORES.get(first):
        rules = {f"{slot}_{rule.name}": (slot, rule) for slot, rules in slots_of(core).items() for rule in rules}
        return class_family(core, dict(rules[part] for part in parts))
    if first in COLLECTIONS:
        return collection_family(first, dict(part.split("_", 1) for part in parts), BLOCKS)
    return chain([BLOCKS[part] for part in parts])
