"""Theorems about natural numbers that are proved by two inductions: sums, powers, bounds and divisibility.

What is claimed of a sum follows from a lemma about its terms, which the statement does not give. The steps of both
inductions are linear in the monomials that occur, so that ``lia`` proves them once they are set up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Final

from rlvr.envs.core.seeding import SPLITS
from rlvr.envs.logic.rocq.problem import ProvenTheorem, problem
from rlvr.envs.logic.rocq.prover import RocqStatement

HEADER: Final = "Require Import Arith Lia."
RECURSION: Final = "Fixpoint {name} (n : nat) : nat :=\n  match n with\n  | 0 => {zero}\n  | S m => {step}\n  end."


def draw_arithmetic(rng: random.Random) -> ProvenTheorem:
    """A theorem, whose kind its split alone has."""
    split = SPLITS[max(0, rng.randrange(10) - 7)]  # eight in ten are of the train split
    return rng.choice(KINDS[split])(rng)._replace(split=split)


def _sum(rng: random.Random) -> ProvenTheorem:
    """The closed form of a sum of sums of a polynomial."""
    zeros, steps = (rng.randint(0, 9), rng.randint(0, 9)), _steps(rng)
    first = _summed(steps, zeros[0])
    claims = [
        f"{_times(scale)}{name} n{_plus(left)} = {_polynomial(right, 'n')}"
        for name, (scale, left, right) in (("f", _whole(first)), ("g", _whole(_summed(first, zeros[1]))))
    ]
    return _theorem(zeros, f"f m + ({_polynomial(steps, 'm')})", claims)


def _power(rng: random.Random) -> ProvenTheorem:
    """The closed form of the sum of a linear recurrence."""
    zeros, base, added = (rng.randint(0, 20), rng.randint(0, 20)), rng.randint(2, 9), rng.randint(1, 20)
    less = base - 1
    top = less * zeros[0] + added
    claims = [
        f"{_times(less)}f n + {added} = {top} * {base} ^ n",
        f"{_times(less * less)}g n + {_times(less * added)}n + {top} = {top} * {base} ^ n + {less * less * zeros[1]}",
    ]
    return _theorem(zeros, f"{base} * f m + {added}", claims)


def _bound(rng: random.Random) -> ProvenTheorem:
    """The sum of a linear recurrence grows faster than a parabola."""
    zeros, base, added = (rng.randint(1, 20), rng.randint(0, 20)), rng.randint(2, 9), rng.randint(0, 20)
    slope = rng.randint(1, (base - 1) * zeros[0] + added)
    claims = [
        f"{_times(slope)}n + {zeros[0]} <= f n",
        f"{_polynomial((2 * zeros[1], 2 * zeros[0], slope), 'n')} <= 2 * g n + {_times(slope)}n",
    ]
    return _theorem(zeros, f"{base} * f m + {added}", claims)


def _divisible(rng: random.Random) -> ProvenTheorem:
    """A number that divides all values of a polynomial, and not its coefficients; the quotients of another add up."""
    while True:
        zeros, steps = (rng.randint(0, 4), rng.randint(0, 4)), _steps(rng)
        sums = [first := _summed(steps, zeros[0]), _summed(first, zeros[1])]
        (inner, *_), (outer, *_) = whole = [_whole(each) for each in sums]
        if inner > 1 and outer % inner == 0 and outer > inner:
            break
    claims = [f"exists q, {_polynomial(right, 'n')} = {scale} * q{_plus(left)}" for scale, left, right in whole]
    again = ("cbn. lia.", "- destruct IH as [q IH].")
    proof = (
        f"assert (inner : forall n, {claims[0]}).",
        "{ induction n as [| n IH].",
        f"- exists {zeros[0]}.",
        *again,
        f"exists (q + ({_polynomial(steps, 'n')})). lia.",
        "}",
        "intros n. induction n as [| n IH].",
        f"- exists {zeros[1]}.",
        *again,
        "destruct (inner n) as [r H].",
        "exists (q + r). lia.",
    )
    return problem(RocqStatement(HEADER, "", f"forall n, {claims[1]}"), proof, claims[1])


KINDS: Final[dict[str, tuple[Callable[[random.Random], ProvenTheorem], ...]]] = {
    "train": (_sum, _power),
    "validation": (_bound,),
    "test": (_divisible,),
}


def _theorem(zeros: tuple[int, int], step: str, claims: list[str]) -> ProvenTheorem:
    """What holds of g, which sums the values of f, by what holds of f."""
    definitions = [
        RECURSION.format(name="f", zero=zeros[0], step=step),
        RECURSION.format(name="g", zero=zeros[1], step="g m + f m"),
    ]
    proof = (
        f"assert (first : forall n, {claims[0]}).",
        "{ induction n as [| n IH].",
        "- cbn. lia.",
        "- cbn [f Nat.pow]. lia.",
        "}",
        "intros n. induction n as [| n IH].",
        "- cbn. lia.",
        "- cbn [g Nat.pow]. specialize (first n). lia.",
    )
    source = "\n\n".join(definitions)
    return problem(RocqStatement(HEADER, source, f"forall n, {claims[1]}"), proof, f"{source} {claims[1]}")


def _steps(rng: random.Random) -> list[int]:
    """The coefficients of a polynomial of degree 1 or 2, from the constant on."""
    return [*(rng.choice((0, rng.randint(1, 9))) for _ in range(rng.randint(1, 2))), rng.randint(1, 6)]


def _summed(steps: Sequence[int | Fraction], zero: int) -> list[Fraction]:
    """The coefficients of ``zero`` + the sum of a polynomial over 0, ..., n - 1."""
    values = [sum((each * at**power for power, each in enumerate(steps)), Fraction(0)) for at in range(len(steps))]
    total, basis = [Fraction(zero)] + [Fraction(0)] * len(steps), [Fraction(0), Fraction(1)]  # n over 1
    for index in range(len(steps)):  # Newton's form: differences times binomial coefficients
        for power, each in enumerate(basis):
            total[power] += values[0] * each
        values = [after - before for before, after in pairwise(values)]
        lower, higher = [-(index + 1) * each for each in basis] + [Fraction(0)], [Fraction(0), *basis]
        basis = [(a + b) / (index + 2) for a, b in zip(lower, higher, strict=True)]
    return total


def _whole(total: Sequence[Fraction]) -> tuple[int, list[int], list[int]]:
    """``scale`` times a polynomial is ``right`` without ``left``, all of whose coefficients are natural numbers."""
    scale = lcm(*(each.denominator for each in total))
    whole = [int(scale * each) for each in total]
    return scale, [max(0, -each) for each in whole], [max(0, each) for each in whole]


def _polynomial(coefficients: Sequence[int], name: str) -> str:
    """A polynomial as it is written, from the highest power on."""
    terms = [
        " * ".join([*([str(each)] if each > 1 or not power else []), *([name] * power)])
        for power, each in enumerate(coefficients)
        if each
    ]
    return " + ".join(reversed(terms)) or "0"


def _plus(coefficients: Sequence[int]) -> str:
    return f" + {_polynomial(coefficients, 'n')}" if any(coefficients) else ""


def _times(factor: int) -> str:
    return f"{factor} * " if factor > 1 else ""
