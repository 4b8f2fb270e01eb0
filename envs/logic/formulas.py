"""Sentences of first-order logic: how they are built, read and written.

A formula is a tuple that begins with its kind: ``("atom", "R", ("a", 0))``, ``("not", A)``, ``("and", A, B)``, ``"or"``
and ``"implies"`` alike, ``("all", A)``, ``("some", A)``, ``("false",)``. A term is a name, or the number of quantifiers
between a bound variable and its own (de Bruijn 1972), so that formulas that differ in their variables are equal and no
substitution captures one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

Formula = tuple[Any, ...]
Term = str | int

BINARY: Final = ("and", "or", "implies")
FALSE: Final[Formula] = ("false",)
VARIABLES: Final = "xyzuvw"
MAX_CHARS: Final = 300
MAX_DEPTH: Final = 30  # brackets, negations and quantifiers inside of each other
_TOKEN: Final = re.compile(r"[A-Za-z]+|[(),:]|[^\sA-Za-z(),:]")


class FormulaError(ValueError):
    """A text that is no sentence; the message says why, for whoever wrote it."""


def atom(predicate: str, *terms: Term) -> Formula:
    """A letter of propositional logic, or a predicate of names."""
    return ("atom", predicate, terms)


def instance(body: Formula, term: str, depth: int = 0) -> Formula:
    """What ``body`` says of a name: the variable of the quantifier around it is replaced."""
    return _with_terms(body, lambda each, inner: term if each == inner else each, depth)


def abstraction(formula: Formula, name: str) -> Formula:
    """The body of a quantifier that binds every occurrence of a name."""
    return _with_terms(formula, lambda each, inner: inner if each == name else each, 0)


def _with_terms(formula: Formula, change: Callable[[Term, int], Term], depth: int) -> Formula:
    kind = formula[0]
    if kind == "atom":
        return ("atom", formula[1], tuple([change(term, depth) for term in formula[2]])) if formula[2] else formula
    inner = depth + (kind in ("all", "some"))
    return (kind, *[_with_terms(part, change, inner) for part in formula[1:]])


def atoms_of(formula: Formula) -> Iterator[Formula]:
    """Every occurrence of an atom, from the left."""
    if formula[0] == "atom":
        yield formula
    else:
        for part in formula[1:]:
            yield from atoms_of(part)


def names_of(formula: Formula) -> set[str]:
    """The names that occur in it."""
    return {term for each in atoms_of(formula) for term in each[2] if isinstance(term, str)}


def instance_name(body: Formula, sentence: Formula) -> str | None:
    """The name of which ``sentence`` says what ``body`` says: "" where it binds nothing, None where there is none."""
    names = [
        name
        for pattern, fact in zip(atoms_of(body), atoms_of(sentence), strict=False)
        for variable, name in zip(pattern[2], fact[2], strict=False)
        if isinstance(variable, int) and isinstance(name, str)
    ]
    if body == sentence:
        return ""
    return names[0] if names and instance(body, names[0]) == sentence else None


# written and read


def written(formula: Formula, depth: int = 0, inner: bool = False) -> str:
    """The text that ``read_formula`` reads; ``depth`` quantifiers stand around it."""
    kind = formula[0]
    if kind == "atom":
        terms = [term if isinstance(term, str) else VARIABLES[depth - 1 - term] for term in formula[2]]
        return f"{formula[1]}({', '.join(terms)})" if terms else str(formula[1])
    if kind == "false":
        return "false"
    if kind == "not":
        return f"not {written(formula[1], depth, True)}"
    if kind in BINARY:
        text = f"{written(formula[1], depth, True)} {kind} {written(formula[2], depth, True)}"
        return f"({text})" if inner else text
    return f"{kind} {VARIABLES[depth]}: {written(formula[1], depth + 1, True)}"


def read_formula(text: str) -> Formula:
    """The sentence of a text such as ``all x: (P(x) implies not Q(x))``.

    Raises:
        FormulaError: it is none.
    """
    if len(text) > MAX_CHARS:
        raise FormulaError(f"a formula has {MAX_CHARS} characters at most, not {len(text)}")
    if not text.isascii():
        strange = next(each for each in text if not each.isascii())
        raise FormulaError(f"the character U+{ord(strange):04X} stands in no formula: write not, and, or, implies")
    reader = _Reader(_TOKEN.findall(text))
    formula = reader.formula(())
    if reader.ahead():
        hint = "put brackets around one of the two" if reader.ahead() in BINARY else "nothing may follow there"
        raise FormulaError(f"{reader.ahead()!r} stands behind a whole formula: {hint}")
    return formula


class _Reader:
    """Reads by recursive descent; a formula of two parts needs brackets wherever it is a part of another."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.next, self.depth = tokens, 0, 0

    def ahead(self) -> str:
        """The next token; empty at the end."""
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        """The next token, which is passed."""
        token = self.ahead()
        if wanted and token != wanted:
            raise FormulaError(f"{wanted!r} is missing before {token!r}" if token else f"{wanted!r} is missing")
        self.next += 1
        return token

    def formula(self, bound: tuple[str, ...]) -> Formula:
        """A formula, of two parts or one; ``bound`` are the variables, the innermost first."""
        left = self.part(bound)
        if self.ahead() not in BINARY:
            return left
        return (self.take(), left, self.part(bound))

    def part(self, bound: tuple[str, ...]) -> Formula:
        """A formula that needs no brackets around it."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise FormulaError(f"a formula has at most {MAX_DEPTH} parts inside of each other")
        formula = self._part(bound)
        self.depth -= 1
        return formula

    def _part(self, bound: tuple[str, ...]) -> Formula:
        token = self.take()
        if token == "(":
            formula = self.formula(bound)
            self.take(")")
            return formula
        if token == "not":
            return ("not", self.part(bound))
        if token == "false":
            return FALSE
        if token in ("all", "some"):
            variable = self.take()
            if variable not in tuple(VARIABLES) or variable in bound:
                raise FormulaError(
                    f"behind {token!r} stands a variable of {', '.join(VARIABLES)} that is not bound yet"
                )
            self.take(":")
            return (token, self.part((variable, *bound)))
        if len(token) == 1 and token.isupper():
            return atom(token, *(self.terms(bound) if self.ahead() == "(" else ()))
        raise FormulaError(f"{token!r} begins no formula" if token else "a part of a formula is missing")

    def terms(self, bound: tuple[str, ...]) -> Iterator[Term]:
        """The names and variables of a predicate, in brackets and with commas between."""
        end = "("
        while end != ")":
            self.take(end)
            term = self.take()
            if term in bound:
                yield bound.index(term)
            elif len(term) == 1 and term.islower() and term not in VARIABLES:
                yield term
            else:
                raise FormulaError(f"{term!r} is neither a name from a to t nor a variable of a quantifier around it")
            end = ")" if self.ahead() == ")" else ","
        self.take(")")
