"""Theorems with a proof each: a derivation is drawn rule by rule, and its leaves are the premises.

No premise is idle: where there is only one thing, so that quantifiers say nothing, the premises hold together and the
goal does not follow without any one of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Final, NamedTuple

from rlvr.envs.logic.deduction_kernel import RULES, Inference, ProofStep
from rlvr.envs.logic.formulas import (
    BINARY,
    FALSE,
    Formula,
    abstraction,
    atom,
    atoms_of,
    instance,
    names_of,
    written,
)

LETTERS: Final = "PQRSTUVW"
PREDICATES: Final = "FGHJKLMN"  # of one thing
RELATIONS: Final = "RS"  # of two
NAMES: Final = "ab"
NEW_NAMES: Final = "cdefghijk"


class Subproof(NamedTuple):
    """A subproof: what is assumed, and the derivation of what follows."""

    assumed: Formula
    body: Derivation


class Derivation(NamedTuple):
    """A derivation: its last formula, the rule, and the derivations that the rule needs; "leaf" needs none."""

    formula: Formula
    rule: str = "leaf"
    parts: tuple[Derivation | Subproof, ...] = ()


class TheoremSize(NamedTuple):
    """How many lines the proof may have below the premises, and what the theorem is about."""

    min_lines: int
    max_lines: int
    max_premises: int
    letters: int
    first_order: bool = False


class Theorem(NamedTuple):
    """Premises, a goal, and the lines of a proof of it."""

    premises: tuple[Formula, ...]
    goal: Formula
    proof: tuple[ProofStep, ...]


def draw_theorem(rng: random.Random, size: TheoremSize) -> Theorem:
    """A theorem whose proof has that many lines; where it has four or more, no single rule leads to the goal."""
    while True:
        drawer = _TheoremDrawer(rng, size.first_order, size.letters)
        aim = rng.randint(size.min_lines, size.max_lines)
        tree = drawer.prove(drawer.goal(aim), aim)
        premises = [*dict.fromkeys(drawer.premises)]
        if tree.formula in premises or len(premises) > size.max_premises or _has_detour(tree):
            continue
        rng.shuffle(premises)
        lines = written_proof(tree, premises)
        if not size.min_lines <= len(lines) <= size.max_lines or not _are_needed(premises, tree.formula):
            continue
        if size.min_lines < 4 or not _is_one_rule_away(premises, tree.formula):
            return Theorem(tuple(premises), tree.formula, tuple(lines))


def skeleton(theorem: Theorem) -> str:
    """The theorem without its letters, names and order of premises: what makes it another one in kind."""

    def bare(formula: Formula) -> Formula:
        return ("atom", "_", ()) if formula[0] == "atom" else (formula[0], *map(bare, formula[1:]))

    return f"{'; '.join(sorted(written(bare(each)) for each in theorem.premises))} |- {written(bare(theorem.goal))}"


class _TheoremDrawer:
    """Draws a derivation from its goal upwards; ``premises`` are its leaves."""

    def __init__(self, rng: random.Random, first_order: bool, letters: int) -> None:
        self.rng, self.first_order = rng, first_order
        self.premises: list[Formula] = []
        self.names = list(NAMES)  # those in scope; behind the first two stand new ones
        self.new_names = iter(NEW_NAMES)
        self.predicates = rng.sample(PREDICATES if first_order else LETTERS, letters)

    # formulas

    def atom(self) -> Formula:
        rng = self.rng
        if not self.first_order:
            return atom(rng.choice(self.predicates))
        name = rng.choice(self.names[-2:])
        if rng.random() < 0.2:
            return atom(rng.choice(RELATIONS), *rng.sample([name, rng.choice(self.names)], 2))
        return atom(rng.choice(self.predicates), name)

    def literal(self) -> Formula:
        return ("not", self.atom()) if self.rng.random() < 0.25 else self.atom()

    def another(self, formula: Formula) -> Formula:
        """A literal, of an atom that does not occur in the formula where there is one."""
        atoms, literal = [*atoms_of(formula)], self.literal()
        for _ in range(9):
            if next(atoms_of(literal)) not in atoms:
                break
            literal = self.literal()
        return literal

    def pair(self, kinds: Sequence[str]) -> Formula:
        left = self.pair(BINARY) if not self.first_order and self.rng.random() < 0.35 else self.literal()
        return (self.rng.choice(kinds), *self.rng.sample((left, self.another(left)), 2))

    def small(self) -> Formula:
        """A literal, or at times two of them."""
        return self.literal() if self.rng.random() < (0.75 if self.first_order else 0.4) else self.pair(BINARY)

    def goal(self, aim: int) -> Formula:
        """What is to be proved by about ``aim`` lines."""
        rng = self.rng
        if self.first_order and rng.random() < 0.75:
            body = self.pair(BINARY) if rng.random() < 0.7 else self.literal()
            return (rng.choice(("all", "some")), abstraction(body, rng.choice(sorted(names_of(body)))))
        kinds = ("and", "or") if aim < 4 else BINARY
        if rng.random() < 0.6:
            return (rng.choice(kinds), *rng.sample((self.small(), self.pair(BINARY)), 2))
        return self.pair(kinds) if rng.random() < 0.7 else self.literal()

    # derivations

    def leaf(self, formula: Formula) -> Derivation:
        """A premise that says it; of all things, where a name in it is a new one, and at times elsewhere."""
        names = [name for name in self.names if name in names_of(formula)]
        kept = [name for name in names if name in NAMES and self.rng.random() < 0.5]
        bound = [name for name in names if name not in kept]
        general = formula
        for name in reversed(bound):
            general = ("all", abstraction(general, name))
        node = Derivation(general)
        self.premises.append(general)
        for name in bound:
            node = Derivation(instance(node.formula[1], name), "all-elim", (node,))
        return node

    def prove(self, goal: Formula, size: int, use: Derivation | None = None) -> Derivation:
        """A derivation of about ``size`` rules; it uses ``use``, where there is one."""
        if use is not None and use.formula == goal:
            return use
        if goal == FALSE:
            return self.refute(size, use)
        if size <= 1:
            return self.leaf(goal) if use is None else self.applied(goal, use)
        if use is not None and self.rng.random() < 0.6:
            return self.unfolded(goal, size, use)
        if goal[0] in ("and", "or", "all", "some") + ("implies", "not") * (use is None) and self.rng.random() < 0.8:
            return self.introduced(goal, size - 1, use)
        return self.reached(goal, size, use)

    def applied(self, goal: Formula, use: Derivation) -> Derivation:
        return Derivation(goal, "implies-elim", (self.leaf(("implies", use.formula, goal)), use))

    def divided(self, size: int) -> tuple[int, int]:
        left = self.rng.randint(0, max(0, size))
        return left, max(0, size) - left

    def introduced(self, goal: Formula, size: int, use: Derivation | None) -> Derivation:
        """By the rule that makes a formula of this kind."""
        rng, kind = self.rng, goal[0]
        if kind == "and":
            (left, right), uses = self.divided(size), rng.sample((use, None), 2)
            return Derivation(
                goal, "and-intro", (self.prove(goal[1], left, uses[0]), self.prove(goal[2], right, uses[1]))
            )
        if kind == "or":
            return Derivation(goal, "or-intro", (self.prove(rng.choice(goal[1:]), size, use),))
        if kind in ("implies", "not"):
            aim = goal[2] if kind == "implies" else FALSE
            return Derivation(goal, f"{kind}-intro", (self.case(goal[1], aim, size),))
        if kind == "some":
            return Derivation(goal, "some-intro", (self.prove(instance(goal[1], rng.choice(self.names)), size, use),))
        name = next(self.new_names, "")
        if not name:
            return self.leaf(goal) if use is None else self.applied(goal, use)
        self.names.append(name)
        body = self.prove(instance(goal[1], name), size, use)
        self.names.remove(name)
        return Derivation(goal, "all-intro", (body,))

    def case(self, assumed: Formula, aim: Formula, size: int) -> Subproof:
        """A subproof that uses its assumption."""
        return Subproof(assumed, self.prove(aim, size, Derivation(assumed)))

    def reached(self, goal: Formula, size: int, use: Derivation | None, refutes: bool = False) -> Derivation:
        """By a rule that takes a larger formula apart."""
        rng, free = self.rng, use is None
        indirect = free and size > 3 and goal[0] == "atom" and not refutes
        rule = rng.choices(
            ("implies-elim", "and-elim", "or-elim", "by-contradiction", "some-elim"),
            (5, 2 * free, 2 * (free and size > 3), indirect, 3 * (free and self.first_order and size > 2)),
        )[0]
        if rule == "implies-elim":
            left, right = self.divided(size - 1)
            minor = self.prove(use.formula if use and rng.random() < 0.5 else self.small(), left, use)
            return Derivation(goal, rule, (self.major(("implies", minor.formula, goal), right), minor))
        if rule == "and-elim":
            both = rng.sample((goal, self.another(goal)), 2)
            return Derivation(goal, rule, (self.major(("and", *both), size - 1),))
        if rule == "by-contradiction":
            opposite: Formula = ("not", goal)
            return Derivation(goal, rule, (self.case(opposite, FALSE, size - 1),))
        if rule == "some-elim":
            return self.of_some(goal, size, None)
        return self.by_cases(goal, size, self.major(self.pair(("or",)), size // 4))

    def major(self, formula: Formula, size: int) -> Derivation:
        """A large formula, which is taken out of a larger one where there is room for it."""
        return self.reached(formula, min(size, 2), None) if size > 1 and self.rng.random() < 0.5 else self.leaf(formula)

    def by_cases(self, goal: Formula, size: int, either: Derivation) -> Derivation:
        left, right = self.divided(size - 2)
        cases = (self.case(each, goal, part) for each, part in zip(either.formula[1:], (left, right), strict=True))
        return Derivation(goal, "or-elim", (either, *cases))

    def of_some(self, goal: Formula, size: int, some: Derivation | None) -> Derivation:
        """From what holds of something, with a new name for it."""
        name = next(self.new_names, "")
        if not name:
            return self.leaf(goal) if some is None else self.applied(goal, some)
        self.names.append(name)
        if some is None:
            body = self.pair(("and", "or"))
            self.names.remove(name)
            some = self.leaf(("some", abstraction(body, name)))
            self.names.append(name)
        case = self.case(instance(some.formula[1], name), goal, size - 2)
        self.names.remove(name)
        return Derivation(goal, "some-elim", (some, case))

    def unfolded(self, goal: Formula, size: int, use: Derivation) -> Derivation:
        """By what the formula that is to be used says."""
        kind = use.formula[0]
        if kind == "and":
            return self.prove(goal, size - 1, Derivation(self.rng.choice(use.formula[1:]), "and-elim", (use,)))
        if kind == "or":
            return self.by_cases(goal, size, use)
        if kind == "implies":
            minor = self.prove(use.formula[1], size // 2)
            return self.prove(goal, size - size // 2 - 1, Derivation(use.formula[2], "implies-elim", (use, minor)))
        if kind == "all":
            fact = instance(use.formula[1], self.rng.choice(self.names))
            return self.prove(goal, size - 1, Derivation(fact, "all-elim", (use,)))
        if kind == "some":
            return self.of_some(goal, size, use)
        step = self.literal()
        return self.prove(goal, size - 1, self.applied(step, use)) if step != use.formula else self.applied(goal, use)

    def refute(self, size: int, use: Derivation | None) -> Derivation:
        """Two formulas of which one is the negation of the other."""
        if use is not None and size > 2 and use.formula[0] in ("and", "or", "implies", "all", "some"):
            return self.unfolded(FALSE, size, use)
        fact = use if use is not None and use.rule != "leaf" else self.prove(self.literal(), size // 2, use)
        is_negation = fact.formula[0] == "not"
        opposite = fact.formula[1] if is_negation else ("not", fact.formula)
        if size <= 2:
            other = self.leaf(opposite)
        elif is_negation and opposite[0] in BINARY:
            other = self.introduced(opposite, size - 1, None)
        else:
            other = self.reached(opposite, size - 1, None, refutes=True)
        return Derivation(FALSE, "not-elim", (fact, other) if is_negation else (other, fact))


# the derivation as lines


def written_proof(tree: Derivation, premises: Sequence[Formula]) -> list[ProofStep]:
    """The lines below the premises; what stands already is not proved again."""
    writer = _Writer(premises)
    writer.write(tree)
    return writer.steps


class _Writer:
    """Writes line after line; ``scopes`` hold the numbers of the formulas that may be cited, the innermost last."""

    def __init__(self, premises: Sequence[Formula]) -> None:
        self.steps: list[ProofStep] = []
        self.begin = len(premises)
        self.scopes = [{formula: number for number, formula in enumerate(premises, 1)}]

    def write(self, node: Derivation) -> int:
        for scope in self.scopes:
            if node.formula in scope:
                return scope[node.formula]
        cited = [self.subproof(part) if isinstance(part, Subproof) else (self.write(part), 0) for part in node.parts]
        return self.line(node.formula, node.rule, tuple(cited))

    def line(self, formula: Formula, rule: str, cited: tuple[tuple[int, int], ...] = ()) -> int:
        number = self.begin + len(self.steps) + 1
        self.steps.append(ProofStep(number, len(self.scopes) - 1, formula, rule, cited))
        self.scopes[-1].setdefault(formula, number)
        return number

    def subproof(self, case: Subproof) -> tuple[int, int]:
        self.scopes.append({})
        first = self.line(case.assumed, "assume")
        last = self.write(case.body)
        if last not in self.scopes[-1].values():
            last = self.line(case.body.formula, "repeat", ((last, 0),))
        self.scopes.pop()
        return first, last


# theorems that are not trivial


def _has_detour(node: Derivation) -> bool:
    """Whether some subproof assumes what its rule would have said without it, or writes an implication anew."""
    if node.rule in ("not-intro", "by-contradiction", "implies-intro"):
        case = next(part for part in node.parts if isinstance(part, Subproof))
        facts = {part.formula for part in case.body.parts if isinstance(part, Derivation)}
        if node.formula in facts or case.assumed in _assumed_within(case.body):
            return True
    return any(_has_detour(part.body if isinstance(part, Subproof) else part) for part in node.parts)


def _assumed_within(node: Derivation) -> set[Formula]:
    assumed = {part.assumed for part in node.parts if isinstance(part, Subproof)}
    return assumed.union(*(_assumed_within(part.body if isinstance(part, Subproof) else part) for part in node.parts))


def _are_needed(premises: Sequence[Formula], goal: Formula) -> bool:
    """Whether the premises hold together, and each is needed, in a world of one thing: by truth tables."""
    letters = sorted({each[1] for formula in (*premises, goal) for each in atoms_of(formula)})
    rows = 1 << len(letters)
    every = (1 << rows) - 1
    columns = {each: sum(1 << row for row in range(rows) if row >> bit & 1) for bit, each in enumerate(letters)}
    masks = [_table(each, columns, every) for each in premises]
    target = _table(goal, columns, every)
    if not _meet(masks, every):
        return False
    return all(_meet(masks[:index] + masks[index + 1 :], every) & ~target for index in range(len(masks)))


def _meet(masks: Iterable[int], every: int) -> int:
    for mask in masks:
        every &= mask
    return every


def _table(formula: Formula, columns: dict[str, int], every: int) -> int:
    """The truth table of a formula as a mask of rows, with quantifiers and terms left out."""
    kind, *parts = formula
    if kind == "atom":
        return columns[formula[1]]
    if kind == "false":
        return 0
    tables = [_table(part, columns, every) for part in parts]
    if kind == "not":
        return every ^ tables[0]
    if kind == "and":
        return tables[0] & tables[1]
    if kind == "or":
        return tables[0] | tables[1]
    return (every ^ tables[0]) | tables[1] if kind == "implies" else tables[0]


def _is_one_rule_away(premises: Sequence[Formula], goal: Formula) -> bool:
    names = frozenset[str]().union(*(names_of(each) for each in premises))
    return any(
        rule.holds(Inference(goal, cited, names))
        for rule in RULES.values()
        if "s" not in rule.cites
        for cited in permutations(premises, len(rule.cites))
    )
