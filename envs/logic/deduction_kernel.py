"""The kernel of natural deduction: whether a line follows by a rule from the lines that it cites.

Proofs are in Fitch's form: an assumption opens a subproof, whose lines have one bar more. A line may cite lines of its
own subproof and of those around it, and closed subproofs as ``4-6``. Whatever else writes proofs, this file alone
decides what is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, Final, NamedTuple

from rlvr.envs.logic.formulas import FALSE, Formula, FormulaError, instance_name, names_of, read_formula, written

MAX_LINES: Final = 150
MAX_SUBPROOFS: Final = 12  # inside of each other
_STEP: Final = re.compile(r"([0-9]{1,3})\.[ \t]*((?:\|[ \t]*)*)([^\[\]|]*)\[([^\[\]]*)\]", re.ASCII)
_CITED: Final = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", re.ASCII)


class ProofError(ValueError):
    """A line that is refused; the message says why, for whoever wrote it."""


class ProofStep(NamedTuple):
    """A line as it is written: its number, bars, formula, rule, and the lines (n, 0) and subproofs (a, b) it cites."""

    number: int
    bars: int
    formula: Formula
    rule: str
    cited: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        cited = ", ".join(f"{first}-{last}" if last else str(first) for first, last in self.cited)
        reason = f"{self.rule} {cited}" if cited else self.rule
        return f"{self.number}. {'| ' * self.bars}{written(self.formula)} [{reason}]"


class ProofLine(NamedTuple):
    """An accepted line: its step, and the numbers of the open assumptions that it stands under."""

    step: ProofStep
    path: tuple[int, ...]


class Inference(NamedTuple):
    """What a rule looks at: the line's formula, what it cites, and the names that premises and open assumptions have.

    A cited line is its formula, a cited subproof the pair of its assumption and its last line.
    """

    formula: Formula
    cited: Sequence[Any]
    names: frozenset[str]


class InferenceRule(NamedTuple):
    """A rule: what it cites, l for a line and s for a subproof; how it goes, in words; and whether it holds."""

    cites: str
    text: str
    holds: Callable[[Inference], bool]


def _or_elim(facts: Inference) -> bool:
    either, *cases = facts.cited
    return either[0] == "or" and any(
        cases_in_order == [(either[1], facts.formula), (either[2], facts.formula)]
        for cases_in_order in (cases, cases[::-1])
    )


def _all_intro(facts: Inference) -> bool:
    if facts.formula[0] != "all":
        return False
    name = instance_name(facts.formula[1], facts.cited[0])
    return name is not None and name not in facts.names | names_of(facts.formula)


def _some_elim(facts: Inference) -> bool:
    some, (assumed, last) = facts.cited
    if some[0] != "some" or last != facts.formula:
        return False
    name = instance_name(some[1], assumed)
    return name is not None and name not in facts.names | names_of(some) | names_of(last)


def _instance_of(quantifier: str, formula: Formula, sentence: Formula) -> bool:
    return bool(formula[0] == quantifier and instance_name(formula[1], sentence) is not None)


PROPOSITIONAL: Final[dict[str, InferenceRule]] = {
    "repeat": InferenceRule("l", "A => A", lambda f: f.formula == f.cited[0]),
    "and-intro": InferenceRule("ll", "A; B => A and B", lambda f: f.formula == ("and", *f.cited)),
    "and-elim": InferenceRule(
        "l", "A and B => A, or B", lambda f: f.cited[0][0] == "and" and f.formula in f.cited[0][1:]
    ),
    "or-intro": InferenceRule(
        "l", "A => A or B, or B or A", lambda f: f.formula[0] == "or" and f.cited[0] in f.formula[1:]
    ),
    "or-elim": InferenceRule("lss", "A or B; subproof from A to C; subproof from B to C => C", _or_elim),
    "implies-intro": InferenceRule(
        "s", "subproof from A to B => A implies B", lambda f: f.formula == ("implies", *f.cited[0])
    ),
    "implies-elim": InferenceRule(
        "ll", "A implies B; A => B", lambda f: f.cited[0] == ("implies", f.cited[1], f.formula)
    ),
    "not-intro": InferenceRule(
        "s",
        "subproof from A to false => not A",
        lambda f: f.cited[0][1] == FALSE and f.formula == ("not", f.cited[0][0]),
    ),
    "not-elim": InferenceRule(
        "ll", "not A; A => false", lambda f: f.formula == FALSE and f.cited[0] == ("not", f.cited[1])
    ),
    "false-elim": InferenceRule("l", "false => A", lambda f: f.cited[0] == FALSE),
    "by-contradiction": InferenceRule(
        "s",
        "subproof from not A to false => A",
        lambda f: f.cited[0] == (("not", f.formula), FALSE),
    ),
}
FIRST_ORDER: Final[dict[str, InferenceRule]] = {
    "all-elim": InferenceRule("l", "all x: A(x) => A(c)", lambda f: _instance_of("all", f.cited[0], f.formula)),
    "all-intro": InferenceRule("l", "A(c) => all x: A(x), where c is new", _all_intro),
    "some-intro": InferenceRule("l", "A(c) => some x: A(x)", lambda f: _instance_of("some", f.formula, f.cited[0])),
    "some-elim": InferenceRule("ls", "some x: A(x); subproof from A(c) to B => B, where c is new", _some_elim),
}
RULES: Final = PROPOSITIONAL | FIRST_ORDER
NEW_NAME: Final = (
    "A new name c stands in no premise, in no assumption that is still open and not in the line that is concluded, and "
    "for some-elim not in the line some x: A(x)."
)


def read_step(text: str) -> ProofStep:
    """The step that a line of text writes, such as ``5. | Q and R [and-intro 2, 4]``.

    Raises:
        ProofError: it is none.
    """
    match = _STEP.fullmatch(text.strip()) if len(text) <= 1_000 else None
    if match is None:
        raise ProofError(f"{text.strip()[:60]!r} is no line of a proof: write a number, a formula and [rule lines]")
    number, bars, formula_text, reason = match.groups()
    rule, _, cited_text = reason.strip().partition(" ")
    if rule not in RULES and rule not in ("assume", "premise"):
        raise ProofError(f"there is no rule {rule[:30]!r}")
    cited = []
    for part in cited_text.split(",") if cited_text.strip() else ():
        each = _CITED.fullmatch(part.strip())
        if each is None:
            raise ProofError(f"{part.strip()[:30]!r} cites neither a line, such as 3, nor a subproof, such as 4-6")
        cited.append((int(each[1]), int(each[2] or 0)))
    try:
        formula = read_formula(formula_text)
    except FormulaError as error:
        raise ProofError(str(error)) from None
    return ProofStep(int(number), bars.count("|"), formula, rule, tuple(cited))


class Proof(NamedTuple):
    """The lines that the kernel has accepted. Made by ``begin`` and ``extended`` alone."""

    lines: tuple[ProofLine, ...]

    @classmethod
    def begin(cls, premises: Sequence[Formula]) -> Proof:
        """The proof of no more than its premises, the first lines."""
        return cls(
            tuple(ProofLine(ProofStep(number, 0, each, "premise"), ()) for number, each in enumerate(premises, 1))
        )

    def proves(self, goal: Formula) -> bool:
        """Whether the last line is the goal and stands under no assumption."""
        return bool(self.lines) and self.lines[-1].step.formula == goal and not self.lines[-1].path

    def extended(self, step: ProofStep) -> Proof:
        """The proof with one line more.

        Raises:
            ProofError: the line does not follow.
        """
        if len(self.lines) >= MAX_LINES:
            raise ProofError(f"a proof has {MAX_LINES} lines at most")
        if step.number != len(self.lines) + 1:
            raise ProofError(f"the next line has the number {len(self.lines) + 1}")
        open_path = self.lines[-1].path if self.lines else ()
        if step.rule == "assume":
            return self._assumed(step, open_path)
        if step.rule == "premise":
            raise ProofError("no premise can be added: write assume, with one bar more")
        if step.bars > len(open_path):
            raise ProofError(f"it stands behind {_count(step.bars, 'bar')}, where at most {len(open_path)} may be")
        line = ProofLine(step, open_path[: step.bars])
        self._check(line)
        return Proof((*self.lines, line))

    def _assumed(self, step: ProofStep, open_path: tuple[int, ...]) -> Proof:
        """An assumption stands behind one bar more than the lines around it; deeper subproofs are closed."""
        if not 1 <= step.bars <= len(open_path) + 1:
            raise ProofError(f"an assumption stands here behind 1 to {len(open_path) + 1} bars, not {step.bars}")
        if step.bars > MAX_SUBPROOFS:
            raise ProofError(f"at most {MAX_SUBPROOFS} subproofs may stand inside of each other")
        if step.cited:
            raise ProofError("an assumption cites nothing")
        return Proof((*self.lines, ProofLine(step, (*open_path[: step.bars - 1], step.number))))

    def _check(self, line: ProofLine) -> None:
        step, rule = line.step, RULES[line.step.rule]
        kinds = "".join("s" if last else "l" for _, last in step.cited)
        if kinds != rule.cites:
            wanted = " and ".join(
                _count(rule.cites.count(kind), noun) for kind, noun in _CITED_NOUNS if kind in rule.cites
            )
            raise ProofError(f"{step.rule} cites {wanted}: {rule.text}")
        cited = [
            self._subproof(first, last, line.path) if last else self._line(first, line.path).step.formula
            for first, last in step.cited
        ]
        names = frozenset[str]()
        if step.rule in FIRST_ORDER:
            open_lines = [each for each in self.lines if each.step.rule == "premise" or each.step.number in line.path]
            names = frozenset().union(*(names_of(each.step.formula) for each in open_lines))
        orders = permutations(cited) if rule.cites == "ll" else (cited,)
        if not any(rule.holds(Inference(step.formula, order, names)) for order in orders):
            new = f"; {NEW_NAME}" if "new" in rule.text else ""
            raise ProofError(f"it does not follow by {step.rule}: {rule.text}{new}")

    def _line(self, number: int, path: tuple[int, ...]) -> ProofLine:
        """A line that may be cited under the assumptions of ``path``."""
        if not 1 <= number <= len(self.lines):
            raise ProofError(f"line {number} does not stand above it")
        line = self.lines[number - 1]
        if line.path != path[: len(line.path)]:
            raise ProofError(f"line {number} stands in a subproof that is closed")
        return line

    def _subproof(self, first: int, last: int, path: tuple[int, ...]) -> tuple[Formula, Formula]:
        """Assumption and last line of a closed subproof that stands right under the assumptions of ``path``."""
        if not 1 <= first <= last <= len(self.lines):
            raise ProofError(f"lines {first}-{last} do not stand above it")
        begin, end = self.lines[first - 1], self.lines[last - 1]
        if begin.step.rule != "assume" or begin.path != (*path, first) or end.path != begin.path:
            raise ProofError(
                f"lines {first}-{last} are no subproof that can be cited here: it begins with its assumption, ends "
                "with a line of its own, and has one bar more than the line that cites it"
            )
        return begin.step.formula, end.step.formula


_CITED_NOUNS: Final = (("l", "line"), ("s", "subproof"))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
