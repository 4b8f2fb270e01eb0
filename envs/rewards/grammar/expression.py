"""The own grammar of ``math`` answers: tokens in, a small tree out. No names are looked up and nothing is evaluated.

One value or one structure: sums, products, powers, roots, functions, percent, degrees, bases, plus-minus, equations,
inequalities, intervals, unions, sets, tuples, matrices, lists, quantities with a unit, words. ``terms`` reads what is
within a relation.
"""

from __future__ import annotations

from rlvr.envs.rewards.grammar.latex import MathSyntaxError, tokenize
from rlvr.envs.rewards.grammar.terms import TermParser
from rlvr.envs.rewards.grammar.tree import Node, symbol
from rlvr.envs.rewards.grammar.units import is_unit_phrase
from rlvr.envs.rewards.grammar.vocabulary import ALIASES, RELATIONS, SHORT_WORDS, WORD_COMMANDS
from rlvr.envs.rewards.grammar.words import denies


def parse(text: str) -> Node:
    """The tree of an answer.

    Raises:
        MathSyntaxError: outside the grammar.
        MathLimitError: over a cap on tokens, digits or depth.
    """
    return _Parser(tokenize(text)).answer()


class _Parser(TermParser):
    """A whole answer: items of a list, each a relation, a quantity or words."""

    def answer(self) -> Node:
        if not self.tokens:
            raise MathSyntaxError("nothing to read")
        if len(self.tokens) > 1 and self.tokens[-1][:2] == ("char", ".") != self.tokens[-2][:2]:
            self.tokens.pop()
        words = self._words()
        if words is not None:
            return words
        items, joints = [self.item()], set[str]()
        while self.position < len(self.tokens):
            joints.add(self._separator())
            items.append(self.item())
        if len(items) == 1:
            return items[0]
        are_bounds = joints == {"and"} and all(
            item.op == "rel" and item.name in ("<", ">", "<=", ">=") for item in items
        )
        return Node("list", tuple(items), name="and" if are_bounds else "")

    def _words(self) -> Node | None:
        """The answer as words, when it holds nothing else and is more than a name or a product of letters."""
        if any(
            token.kind not in ("text", "word") and token.value not in (".", "'", "-", "(", ")") for token in self.tokens
        ):
            return None
        letters = [token for token in self.tokens if token.kind in ("text", "word")]
        plain = [token.value.lower() for token in letters if token.kind == "word"]
        texts = any(token.kind == "text" for token in letters)
        if len(plain) == 1 == len(self.tokens) and plain[0] in SHORT_WORDS:
            return Node("text", name=plain[0])
        if not letters or (
            not texts and all(len(word) < 3 or word in WORD_COMMANDS or word in ALIASES for word in plain)
        ):
            return None
        return Node("text", name=" ".join(token.value for token in letters))

    def _separator(self) -> str:
        """What stands between two items: a word, or "" for a sign alone."""
        sign = self.accept(",", ";")
        word = self.peek().lower().strip(" ,") if self.kind() in ("text", "word") else ""
        if word in ("and", "or"):
            self.take()
            return word
        if not sign:
            raise MathSyntaxError(f"{self.peek()[:20]!r} stands where nothing may")
        return ""

    def item(self) -> Node:
        end = 0
        while self.kind(end) in ("text", "word") or self.peek(end) == "'":
            end += 1
        if end and self.peek(end) == "=" and any(denies(self.peek(index)) for index in range(end)):
            raise MathSyntaxError("a word before the equals sign is not a name")
        first = self._label() or self.ratio()
        operators: list[str] = []
        operands = [first]
        while self.kind() in ("cmd", "char") and self.peek() in RELATIONS:
            operators.append(self._relation())
            operands.append(self.ratio())
        if not operators:
            return first
        return Node("rel", tuple(operands), name=" ".join(operators))

    def _relation(self) -> str:
        sign = RELATIONS[self.take().value]
        if sign in ("<", ">") and self.peek() == "=":
            self.take()
            sign += "="
        return sign

    def _label(self) -> Node | None:
        """Words in front of an equals sign, ``\\text{Area} = 5``: a name."""
        end = 0
        while self.kind(end) == "text" or (self.kind(end) == "word" and len(self.peek(end)) > 3):
            end += 1
        if not end or self.peek(end) != "=" or self.kind(end) != "char":
            return None
        words = " ".join(self.take().value for _ in range(end))
        return symbol(words)

    def ratio(self) -> Node:
        parts = [self.union()]
        while self.accept(":", "\\colon"):
            parts.append(self.union())
        return parts[0] if len(parts) == 1 else Node("tuple", tuple(parts), name="::")

    def union(self) -> Node:
        parts = [self.quantity()]
        names = []
        while True:
            operator = self.accept("\\cup", "\\cap", "\\setminus")
            if not operator:
                break
            names.append(operator[1:])
            parts.append(self.quantity())
        if not names:
            return parts[0]
        if len(set(names)) > 1:
            raise MathSyntaxError("unions and intersections mixed without brackets")
        return Node(names[0], tuple(parts))

    def quantity(self) -> Node:
        value = self.sum()
        if self.accept("\\bmod", "\\mod") or (self.kind() in ("word", "text") and self.peek() == "mod" and self.take()):
            return self._remainder(value)
        phrase: list[str] = []
        start = self.position
        while self._in_unit(bool(phrase)):
            phrase.append(self.take().value.strip("{}"))
        if not phrase:
            return value
        text = " ".join(phrase).replace("^ ", "^").strip(" .")
        if text.lower() in ("and", "or"):
            self.position = start
            return value
        if not is_unit_phrase(text):
            raise MathSyntaxError(f"{text[:40]!r} is not a unit")
        return Node("quantity", (value,), name=text.lower())

    def _remainder(self, value: Node) -> Node:
        """``17 \\bmod 5``; of a sum it is not clear what is divided."""
        divisor = self.sum()
        if {"add", "neg", "pm", "mp"} & {value.op, divisor.op}:
            raise MathSyntaxError("what a remainder is of is not clear")
        return Node("call", (value, divisor), name="mod")

    def _in_unit(self, begun: bool) -> bool:
        kind, value = self.kind(), self.peek()
        if kind in ("text", "word"):
            return value.lower().strip(" ,") not in ("and", "or")
        if not begun or kind not in ("char", "num"):
            return False
        previous = self.tokens[self.position - 1].value
        if value in ("^", "/", "."):
            return previous not in ("^", "/")
        if value == "{":
            return previous == "^" and self.peek(1) in ("2", "3") and self.peek(2) == "}"
        return (value in ("2", "3") and previous in ("^", "{")) or (value == "}" and previous in ("2", "3"))
