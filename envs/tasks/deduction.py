"""What constraints over few values force, step by step, in the words of an expert that shows its working.

``deduction`` is a proof: what follows at once, and suppositions that lead to a contradiction. It reads constraints
alone, never a solution.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

Value = Hashable
Domains = dict[str, frozenset[Value]]
# A variable and the values that are left for it, as a clause: "Ann is a knight".
Say = Callable[[str, frozenset[Value]], str]


class Constraint(NamedTuple):
    """Which values some variables may have together, and what says so."""

    scope: tuple[str, ...]
    holds: Callable[..., bool]
    reason: str


class Step(NamedTuple):
    """What is left for a variable, and the constraint that says so."""

    name: str
    left: frozenset[Value]
    by: Constraint


def propagated(
    domains: Domains, constraints: Sequence[Constraint], start: Iterable[str] | None = None
) -> tuple[list[Step], Constraint | None]:
    """The steps that constraints force one by one, and the constraint that cannot hold any more; changes ``domains``.

    ``start`` names the variables that are new since the last call; all of them when it is None.
    """
    steps: list[Step] = []
    fresh = set(domains if start is None else start)
    while fresh:
        changed: set[str] = set()
        for constraint in constraints:
            if fresh.isdisjoint(constraint.scope) and changed.isdisjoint(constraint.scope):
                continue
            choices = [sorted(domains[name], key=str) for name in constraint.scope]
            fitting = [values for values in product(*choices) if constraint.holds(*values)]
            if not fitting:
                return steps, constraint
            for name, values in zip(constraint.scope, zip(*fitting, strict=True), strict=True):
                if (left := frozenset(values)) != domains[name]:
                    domains[name] = left
                    changed.add(name)
                    steps.append(Step(name, left, constraint))
        fresh = changed
    return steps, None


def needed(steps: Sequence[Step], failed: Constraint) -> list[Step]:
    """The steps that a contradiction rests on, in their order."""
    names, kept = set(failed.scope), list[Step]()
    for step in reversed(steps):
        if step.name in names:
            names.update(step.by.scope)
            kept.append(step)
    return kept[::-1]


def refuted(domains: Mapping[str, frozenset[Value]], constraints: Sequence[Constraint], say: Say) -> dict[str, str]:
    """Of all suppositions that fail at once the one with the shortest proof: the variable's new values and the text."""
    best: tuple[int, str, Value, str] | None = None
    for name, values in domains.items():
        for value in sorted(values, key=str) if len(values) > 1 else ():
            trial = {**domains, name: frozenset([value])}
            steps, failed = propagated(trial, constraints, [name])
            if failed is None:
                continue
            kept = needed(steps, failed)
            if best is None or len(kept) < best[0]:
                chain = "; ".join(f"{say(step.name, step.left)} ({step.by.reason})" for step in kept)
                text = f"Suppose {say(name, frozenset([value]))}. " + (f"Then {chain}. " if chain else "")
                best = len(kept), name, value, f"{text}That contradicts {failed.reason}. "
    if best is None:
        return {}
    _, name, value, text = best
    return {name: f"{text}So {say(name, domains[name] - {value})}.", "": str(value)}


def deduction(domains: Domains, constraints: Sequence[Constraint], say: Say, tried: str = "") -> list[str]:
    """The lines of a proof, until every variable has one value or nothing more is found; changes ``domains``.

    Args:
        domains: each variable's values; what is found is left in it.
        constraints: what must hold.
        say: a variable and the values left for it, as a clause without a capital at its beginning.
        tried: the prefix of lines in which a supposition is tried out.
    """
    lines: list[str] = []
    fresh: list[str] | None = None
    while True:
        steps, failed = propagated(domains, constraints, fresh)
        lines += [f"{tried}{begun(say(step.name, step.left))} ({step.by.reason})." for step in steps]
        if failed is not None:
            domains.clear()
            return [*lines, f"{tried}That contradicts {failed.reason}."]
        if all(len(values) == 1 for values in domains.values()):
            return lines
        if refutation := refuted(domains, constraints, say):
            wrong = refutation.pop("")
            ((name, text),) = refutation.items()
            lines.append(tried + text)
            domains[name] = frozenset(value for value in domains[name] if str(value) != wrong)
            fresh = [name]
            continue
        if tried or not (longer := nested(domains, constraints, say)):
            return lines
        name, left, more = longer
        lines += more
        domains[name] = left
        fresh = [name]


def nested(
    domains: Domains, constraints: Sequence[Constraint], say: Say
) -> tuple[str, frozenset[Value], list[str]] | None:
    """A supposition that only further suppositions refute: what is left for its variable, and the lines."""
    best: tuple[str, frozenset[Value], list[str]] | None = None
    for name, values in domains.items():
        for value in sorted(values, key=str) if len(values) > 1 else ():
            trial = {**domains, name: frozenset([value])}
            lines = deduction(trial, constraints, say, tried="- ")
            if not trial and (best is None or len(lines) < len(best[2]) - 2):
                left = values - {value}
                first = f"Suppose {say(name, frozenset([value]))}."
                best = name, left, [first, *lines, f"So {say(name, left)}."]
    return best


def begun(clause: str) -> str:
    """A clause with a capital at its beginning."""
    return clause[:1].upper() + clause[1:]
