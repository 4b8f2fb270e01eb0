"""Repositories of installed packages: a part that stands alone, broken in what its examples run."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from rlvr.envs.agentic.repositories.distributions import Distribution, distribution, of_split
from rlvr.envs.agentic.repositories.faults import CodeChange, changes
from rlvr.envs.agentic.repositories.package import Package
from rlvr.envs.agentic.repositories.recorded import Material, copied, find_copies, material, run_programs
from rlvr.envs.agentic.repositories.repository import (
    Fault,
    Program,
    Repository,
    RepositoryDraft,
    broken_repository,
    split_of_seed,
)
from rlvr.envs.agentic.repositories.scenarios import UNENDING
from rlvr.envs.agentic.repositories.workspace import MAX_FILE
from rlvr.envs.core.seeding import stream

ATTEMPTS: Final = 30  # parts that are drawn for a seed
APART: Final = 12  # lines between two faults
TARGETS: Final = 8  # parts of a distribution that are tried until one is of use


@lru_cache(maxsize=64)
def checked_packages(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of distributions that may be used.

    Raises:
        ValueError: one of them may not; one sentence says why.
    """
    for name in names:
        distribution(name)
    find_copies(names)
    for name in names:
        targets = list(distribution(name).parts)
        if copied(name).issuperset(targets):
            raise ValueError(f"programs in the sandbox can read a copy of {name}: a fault would be mended by copying")
        if not any(material(name, target) for target in targets[:TARGETS]):
            raise ValueError(f"{name} has no module whose examples run alone and give plain values that stay the same")
    return names


@lru_cache(maxsize=64)
def installed_repository(level: int, seed: int, names: tuple[str, ...]) -> Repository:
    """The repository of a seed among installed distributions; the same while their versions are.

    Raises:
        ValueError: no fault of this level is found.
        SandboxError: the sandbox failed.
    """
    split = split_of_seed(seed)
    pool = of_split(names, split)
    for attempt in range(ATTEMPTS):
        rng = stream("rlvr/RepoRepair-v0 installed", level, seed, attempt)
        source = distribution(rng.choice(pool))
        target = rng.choice(list(source.parts))
        found = material(source.name, target)
        drawn = broken_repository(InstalledDraft(rng, split, level, source, target, found)) if found else None
        # else an answer of the shown calls alone might be right
        if drawn is not None and len({repr(value) for _, value in drawn.hidden[: drawn.failing]}) > len(drawn.faults):
            return drawn
    raise ValueError(
        f"no fault of level {level} of the {split} split is found in {', '.join(pool)}: name more packages"
    )


class InstalledDraft(RepositoryDraft):
    """A repository under way of a part of a distribution. Distances count calls, from the one that a program makes."""

    def __init__(
        self, rng: random.Random, split: str, level: int, source: Distribution, target: str, found: Material
    ) -> None:
        name = target.partition(".")[0]
        inner = {module: module.removeprefix(f"{name}.") for module in found.sources}
        edges = {inner[module]: tuple(inner[each] for each in others) for module, others in found.edges.items()}
        modules = {inner[module]: text for module, text in reversed(list(found.sources.items()))}
        package = Package(name, modules, edges, {}, {}, dict.fromkeys(modules, source.name))
        extra = {"LICENSE": source.licence} if source.licence else {}
        super().__init__(rng, split, level, package, list(modules), extra)
        self._reached = {text: recording.reached for text, recording in found.recordings.items()}
        self._mendable = {inner[module] for module in found.mendable}
        self.programs = [
            Program(inner[module], number, draw, text, found.recordings[text].value)
            for module, number, draw, text in found.programs
        ]
        self._lines: dict[str, set[int]] = {}
        for reached in self._reached.values():
            for path, lines in reached.items():
                self._lines.setdefault(path, set()).update(map(int, lines))

    def values(self, modules: Mapping[str, str], programs: Sequence[Program]) -> list[Any] | None:
        """What programs give with these modules, in the sandbox."""
        sources = {f"{self.package.name}.{module}": text for module, text in modules.items()}
        recordings = run_programs(sources, [program.text for program in programs])
        if recordings is None or any(each.value == UNENDING for each in recordings if isinstance(each.value, str)):
            return None
        return [each.value for each in recordings]

    def changes_of(self, module: str) -> Sequence[CodeChange]:
        """The changes of lines that programs run, where a tool can edit the module and the sandbox holds no copy."""
        text = self.package.modules[module]
        plain = text.isascii() and text.splitlines() == text.removesuffix("\n").split("\n")
        if module not in self._mendable or not plain or len(text) > MAX_FILE - 1000:
            return ()
        lines = self._lines.get(self.package.path(module), set())
        return [each for each in changes(text) if text.count("\n", 0, each.start) + 1 in lines]

    def is_free(self, module: str, change: CodeChange, faults: Sequence[Fault]) -> bool:
        """Whether a change is so many lines from the others: a part may have one module alone."""
        text = self.package.modules[module]
        return all(
            module != each.module or text.count("\n", *sorted((change.start, each.change.start))) >= APART
            for each in faults
        )

    def distance(self, program: Program, module: str, change: CodeChange) -> int | None:
        """Over how many calls a program comes to the line of a change."""
        line = self.package.modules[module].count("\n", 0, change.start) + 1
        if module not in self.standing[program.module]:
            return None
        return self._reached[program.text].get(self.package.path(module), {}).get(str(line))

    def deepest(self) -> int:
        """The greatest number of calls between a program and a line that it runs."""
        return max((depth for each in self._reached.values() for lines in each.values() for depth in lines.values()),
                   default=0)  # fmt: skip
