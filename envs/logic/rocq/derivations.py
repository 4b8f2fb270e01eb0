"""Theorems of intuitionistic logic with a proof each: those of natural deduction without a proof by contradiction."""

from __future__ import annotations

import random
from typing import Final

from rlvr.envs.logic.deduction_kernel import ProofStep
from rlvr.envs.logic.formulas import VARIABLES, Formula, atoms_of, instance, instance_name, names_of
from rlvr.envs.logic.rocq.problem import ProvenTheorem, problem
from rlvr.envs.logic.rocq.prover import RocqStatement
from rlvr.envs.logic.theorems import NAMES, Theorem, TheoremSize, draw_theorem, skeleton

SIGNS: Final = {"and": r"/\ ", "or": r"\/ ", "implies": "-> "}
KINDS: Final = ("Prop", "D -> Prop", "D -> D -> Prop")


def derivation(rng: random.Random, size: TheoremSize) -> ProvenTheorem:
    """A theorem, and the derivation that is known of it as tactics."""
    while True:
        theorem = draw_theorem(rng, size)
        formulas = [*theorem.premises, theorem.goal, *(step.formula for step in theorem.proof)]
        if all(step.rule != "by-contradiction" for step in theorem.proof) and not any(map(_binds_nothing, formulas)):
            break
    letters = {(name, len(terms)) for each in formulas for _, name, terms in atoms_of(each)}
    fixed = [name for name in NAMES if any(name in names_of(each) for each in formulas)]
    groups = [("Type", ["D"]), ("D", fixed)] if size.first_order else []
    groups += [(kind, sorted(name for name, terms in letters if terms == count)) for count, kind in enumerate(KINDS)]
    binders = " ".join(f"({' '.join(names)} : {kind})" for kind, names in groups if names)
    sides = [*(gallina(each, inner=True) for each in theorem.premises), gallina(theorem.goal)]
    hypotheses = [f"h{number}" for number in range(1, len(sides))]
    begin = f"intros {' '.join([name for _, names in groups for name in names] + hypotheses)}."
    tactics = _Tactics(theorem).prove(len(sides) - 1 + len(theorem.proof), frozenset(range(1, len(sides))))
    kind = "first-order" if size.first_order else "propositional"
    statement = RocqStatement("", "", f"forall {binders},\n  " + " ->\n  ".join(sides))
    return problem(statement, [begin, *tactics], f"{kind} {skeleton(theorem)}")


def _binds_nothing(formula: Formula) -> bool:
    """Whether a quantifier in it has no use: what it says of a thing would need one."""
    if formula[0] == "atom":
        return False
    idle = formula[0] in ("all", "some") and instance(formula[1], "") == formula[1]
    return idle or any(map(_binds_nothing, formula[1:]))


def gallina(formula: Formula, depth: int = 0, inner: bool = False) -> str:
    """A formula as Rocq writes it; ``depth`` quantifiers stand around it."""
    kind = formula[0]
    if kind == "atom":
        terms = [term if isinstance(term, str) else VARIABLES[depth - 1 - term] for term in formula[2]]
        return " ".join([formula[1], *terms])
    if kind == "false":
        return "False"
    if kind == "not":
        return f"~ {gallina(formula[1], depth, True)}"
    if kind in ("all", "some"):
        text = f"{'forall' if kind == 'all' else 'exists'} {VARIABLES[depth]} : D, {gallina(formula[1], depth + 1)}"
    else:
        left, right = (gallina(part, depth, True) for part in formula[1:])
        text = f"{left} {SIGNS[kind]}{right}"
    return f"({text})" if inner else text


class _Tactics:
    """Writes a derivation from its goal upwards; the hypothesis of line n is called hn."""

    def __init__(self, theorem: Theorem) -> None:
        self.formulas = dict(enumerate(theorem.premises, 1))
        self.formulas |= {step.number: step.formula for step in theorem.proof}
        self.steps = {step.number: step for step in theorem.proof}

    def prove(self, number: int, known: frozenset[int]) -> list[str]:
        """Tactics for the goal that a line states; ``known`` lines are hypotheses."""
        if number in known:
            return [f"exact h{number}."]
        step = self.steps[number]
        first = step.cited[0][0]
        if step.rule == "repeat":
            return self.prove(first, known)
        if step.rule.endswith("-intro"):
            return self._introduced(step, known)
        if step.rule == "false-elim":
            return ["exfalso.", *self.prove(first, known)]
        before = [] if first in known else [f"assert (h{first} : {gallina(self.formulas[first])}).",
                                            *self._block(first, known)]  # fmt: skip
        return before + self._eliminated(step, known | {first})

    def _block(self, number: int, known: frozenset[int]) -> list[str]:
        begin, *rest = self.prove(number, known)
        return [f"{{ {begin}", *rest, "}"]

    def _introduced(self, step: ProofStep, known: frozenset[int]) -> list[str]:
        (first, last), formula = step.cited[0], step.formula
        if step.rule == "and-intro":
            return ["split.", *self._block(first, known), *self._block(step.cited[1][0], known)]
        if step.rule == "or-intro":
            return ["left." if self.formulas[first] == formula[1] else "right.", *self.prove(first, known)]
        if last:
            return [f"intro h{first}.", *self.prove(last, known | {first})]
        name = instance_name(formula[1], self.formulas[first])
        return [f"intro {name}." if step.rule == "all-intro" else f"exists {name}.", *self.prove(first, known)]

    def _eliminated(self, step: ProofStep, known: frozenset[int]) -> list[str]:
        first = step.cited[0][0]
        major = self.formulas[first]
        if step.rule == "and-elim":
            return [f"exact (proj{1 if major[1] == step.formula else 2} h{first})."]
        if step.rule == "all-elim":
            return [f"exact (h{first} {instance_name(major[1], step.formula)})."]
        if step.rule in ("implies-elim", "not-elim"):
            return [f"apply h{first}.", *self.prove(step.cited[1][0], known)]
        cases = step.cited[1:]
        if step.rule == "or-elim":
            begin = f"pose proof h{first} as [{' | '.join(f'h{assumed}' for assumed, _ in cases)}]."
            return [begin, *(line for assumed, last in cases for line in self._block(last, known | {assumed}))]
        ((assumed, last),) = cases  # some-elim
        name = instance_name(major[1], self.formulas[assumed])
        return [f"pose proof h{first} as [{name} h{assumed}].", *self.prove(last, known | {assumed})]
