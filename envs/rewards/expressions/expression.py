"""The own grammar of ``math`` answers: tokens in, a small tree out. No names are looked up and nothing is evaluated.

One value or one structure: sums, products, powers, roots, functions, percent, degrees, bases, plus-minus, equations,
inequalities, intervals, unions, sets, tuples, matrices, lists, quantities with a unit, words.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from rlvr.envs.rewards.expressions.latex import MathLimitError, MathSyntaxError, Token, tokenize
from rlvr.envs.rewards.expressions.units import UNITS, is_unit_phrase
from rlvr.envs.rewards.expressions.vocabulary import (
    ALIASES,
    BASES,
    DIVIDE,
    FUNCTIONS,
    GREEK,
    MATRICES,
    MULTIPLY,
    RELATIONS,
    SHORT_WORDS,
    WORD_COMMANDS,
)
from rlvr.envs.rewards.expressions.words import denies

MAX_DEPTH: Final = 40
MAX_FACTORS: Final = 100


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree: an operation, its operands, a name (of a symbol, function, relation, unit) or a number."""

    op: str
    args: tuple[Node, ...] = ()
    name: str = ""
    value: Fraction = Fraction(0)


def number(value: Fraction | int) -> Node:
    return Node("num", value=Fraction(value))


def symbol(name: str) -> Node:
    return Node("sym", name=name)


def parse(text: str) -> Node:
    """The tree of an answer.

    Raises:
        MathSyntaxError: outside the grammar.
        MathLimitError: over a cap on tokens, digits or depth.
    """
    return _Parser(tokenize(text)).answer()


class _Parser:
    """Recursive descent with one token of look-ahead and a cap on depth."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0

    # -- reading tokens

    def peek(self, offset: int = 0) -> str:
        index = self.position + offset
        return self.tokens[index].value if index < len(self.tokens) else ""

    def kind(self, offset: int = 0) -> str:
        index = self.position + offset
        return self.tokens[index].kind if index < len(self.tokens) else "end-of-text"

    def take(self) -> Token:
        if self.position >= len(self.tokens):
            raise MathSyntaxError("the answer ends too early")
        token = self.tokens[self.position]
        self.position += 1
        return token

    def accept(self, *values: str) -> str:
        if self.kind() in ("cmd", "char") and self.peek() in values:
            return self.take().value
        return ""

    def expect(self, value: str) -> None:
        if not self.accept(value):
            raise MathSyntaxError(f"{value!r} is missing before {self.peek()[:20]!r}")

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise MathLimitError(f"an answer may nest {MAX_DEPTH} deep")

    # -- the whole answer: items of a list, each a relation, a quantity or words

    def answer(self) -> Node:
        if not self.tokens:
            raise MathSyntaxError("nothing to read")
        while len(self.tokens) > 1 and self.tokens[-1][:2] == ("char", "."):
            self.tokens.pop()
        words = self._words()
        if words is not None:
            return words
        items = [self.item()]
        while self.position < len(self.tokens):
            self._separator()
            items.append(self.item())
        return items[0] if len(items) == 1 else Node("list", tuple(items))

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

    def _separator(self) -> None:
        if self.accept(",", ";"):
            if self.kind() in ("text", "word") and self.peek().lower() in ("and", "or"):
                self.take()
        elif self.kind() in ("text", "word") and self.peek().lower().strip(" ,") in ("and", "or"):
            self.take()
        else:
            raise MathSyntaxError(f"{self.peek()[:20]!r} stands where nothing may")

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

    # -- arithmetic

    def sum(self) -> Node:
        self.enter()
        terms: list[Node] = []
        sign = self._sign()
        while True:
            is_negative = bool(terms) and sign in ("+", "-") and self.accept("+", "-") == "-"  # 3 + -2
            term = self.term()
            if is_negative:
                term = Node("neg", (term,))
            if sign in ("\\pm", "\\mp"):
                term = Node(sign[1:], (term,))
            terms.append(Node("neg", (term,)) if sign == "-" else term)
            if self.kind() not in ("cmd", "char") or self.peek() not in ("+", "-", "\\pm", "\\mp"):
                break
            sign = self.take().value
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def _sign(self) -> str:
        sign = self.accept("+", "-", "\\pm", "\\mp")
        return "" if sign == "+" else sign

    def term(self) -> Node:
        result = self.factor()
        mixed = self._mixed(result)
        if mixed is not None:
            result = mixed
        for _ in range(MAX_FACTORS):
            operator = self.peek() if self.kind() in ("cmd", "char") else ""
            if operator in MULTIPLY:
                self.take()
                result = Node("mul", (result, self.signed_factor()))
            elif operator in DIVIDE:
                self.take()
                result = Node("div", (result, self.signed_factor()))
            elif self._starts_factor():
                if self.kind() == "num":
                    raise MathSyntaxError("two numbers side by side")
                result = Node("mul", (result, self.factor()), name="implicit")
            else:
                return result
        raise MathLimitError(f"a product may have {MAX_FACTORS} factors")

    def _mixed(self, whole: Node) -> Node | None:
        """``1\\frac{1}{2}`` and ``1 1/2``: a whole number and a proper fraction."""
        previous = self.tokens[self.position - 1]
        if whole.op != "num" or previous.kind != "num" or "." in previous.value:
            return None
        if self.peek() == "\\frac" and self.kind() == "cmd":
            saved = self.position
            part = self.factor()
            top_bottom = [arg for arg in part.args if arg.op == "num"]
            if part.op == "div" and len(top_bottom) == 2 and 0 < top_bottom[0].value < top_bottom[1].value:
                return Node("add", (whole, part))
            self.position = saved
        elif (
            self.kind() == "num" and self.tokens[self.position].spaced and self.peek(1) == "/" and self.kind(2) == "num"
        ):
            top, bottom = self.peek(), self.peek(2)
            if top.isdigit() and bottom.isdigit() and 0 < int(top) < int(bottom):
                self.position += 3
                return Node("add", (whole, number(Fraction(int(top), int(bottom)))))
        return None

    def signed_factor(self) -> Node:
        sign = self._sign()
        factor = self.factor()
        if sign in ("\\pm", "\\mp"):
            return Node(sign[1:], (factor,))
        return Node("neg", (factor,)) if sign == "-" else factor

    def _starts_factor(self) -> bool:
        kind, value = self.kind(), self.peek()
        if kind == "num" or kind == "name" or kind == "begin":
            return True
        if kind == "word":
            return self._is_letters(value)
        if kind == "char":
            return value in "([" or (value == "{")
        return kind == "cmd" and (
            value[1:] in FUNCTIONS
            or value[1:] in GREEK
            or value
            in ("\\frac", "\\cfrac", "\\sqrt", "\\pi", "\\infty", "\\binom", "\\dbinom", "\\tbinom", "\\{", "\\lbrace")
            or value in ("\\lfloor", "\\lceil", "\\lvert", "\\langle", "\\overline", "\\prime")
        )

    def _is_letters(self, word: str) -> bool:
        lowered = word.lower()
        if lowered in ("and", "or", "not", "is", "per"):
            return False
        if word in ("min", "sec") and self.kind(1) == "end-of-text":
            return False
        if word in WORD_COMMANDS or word in ALIASES or len(word) == 1:
            return True
        return len(word) < 4 and lowered not in UNITS

    def factor(self) -> Node:
        self.enter()
        base = self.postfix(self.atom())
        self.depth -= 1
        return base

    def postfix(self, base: Node) -> Node:
        while self.kind() in ("char", "cmd"):
            value = self.peek()
            if value == "^":
                self.take()
                if self.accept("\\circ"):
                    base = self._degree(base)
                    continue
                base = Node("pow", (base, self.exponent()))
            elif value == "!":
                self.take()
                base = Node("call", (base,), name="factorial")
            elif value in ("%", "\\%"):
                self.take()
                base = Node("percent", (base,))
            elif value == "_":
                base = self._subscript(base)
            elif value in ("'", "\\prime") and base.op == "sym":
                self.take()
                base = symbol(base.name + "'")
            elif value == "\\degree":
                self.take()
                base = self._degree(base)
            else:
                break
        return base

    def _degree(self, base: Node) -> Node:
        if self.kind() in ("word", "text") and self.peek() in ("C", "F"):
            self.take()
        return Node("degree", (base,))

    def exponent(self) -> Node:
        """What follows ``^``: a braced group, or one signed factor with its own exponent."""
        if self.peek() == "{" and self.kind() == "char":
            return self.group()
        if self.accept("*"):
            raise MathSyntaxError("'^*' is not read")
        sign = self._sign()
        self.enter()
        base = self.atom()
        if self.peek() == "^" and self.kind() == "char":
            self.take()
            base = Node("pow", (base, self.exponent()))
        self.depth -= 1
        return Node("neg", (base,)) if sign == "-" else base

    def _subscript(self, base: Node) -> Node:
        self.take()
        if self.peek() == "{":
            self.take()
            parts = []
            while self.peek() != "}" or self.kind() != "char":
                parts.append(self.take().value)
            self.take()
            label = "".join(parts)
        else:
            label = self.take().value
        if base.op == "sym":
            return symbol(f"{base.name}_{label}")
        previous, label = base.name, BASES.get(label.lower(), label)
        if base.op == "num" and previous.isdigit() and label.isdigit() and len(label) < 3 and 2 <= int(label) <= 36:
            return Node("based", name=f"{previous}_{int(label)}")
        raise MathSyntaxError("a subscript stands where none may")

    def group(self) -> Node:
        self.expect("{")
        return self._braced()

    def _braced(self) -> Node:
        inner = self.sum()
        if self.accept("\\choose"):
            inner = Node("call", (inner, self.sum()), name="binom")
        self.expect("}")
        return inner

    # -- atoms

    def atom(self) -> Node:
        token = self.take()
        if token.kind == "num":
            return self._number(token.value)
        if token.kind == "name":
            return symbol(token.value.replace(" ", ""))
        if token.kind == "word":
            return self._word(token)
        if token.kind == "begin":
            return self._matrix(token.value)
        if token.kind == "char":
            return self._bracketed(token.value)
        if token.kind == "cmd":
            return self._command(token.value)
        raise MathSyntaxError(f"{token.value[:20]!r} stands where a value should")

    def _number(self, literal: str) -> Node:
        if self.peek() == "\\overline" and self.kind() == "cmd":
            return self._repeating(literal)
        name = literal if literal.isdigit() else ""
        return Node("num", value=Fraction(literal), name=name)

    def _repeating(self, literal: str) -> Node:
        """``0.1\\overline{6}``: a repeating decimal."""
        if self.kind(1) != "char" or self.kind(2) != "num" or not self.peek(2).isdigit() or self.peek(3) != "}":
            raise MathSyntaxError("an overline stands where none may")
        digits = self.peek(2)
        self.position += 4
        if "." not in literal:
            raise MathSyntaxError("an overline stands behind a whole number")
        decimals = len(literal.partition(".")[2])
        repeated = Fraction(int(digits), (10 ** len(digits) - 1) * 10**decimals)
        return number(Fraction(literal.removesuffix(".")) + repeated)

    def _word(self, token: Token) -> Node:
        word = ALIASES.get(token.value, token.value)
        if word in WORD_COMMANDS or word in ALIASES.values():
            return self._command("\\" + word)
        if len(word) == 1:
            return symbol(word)
        if len(word) > 3:
            raise MathSyntaxError(f"{word[:20]!r} stands where a value should")
        rest = [Token("word", letter) for letter in word[1:]]
        self.tokens[self.position : self.position] = rest
        return symbol(word[0])

    def _command(self, command: str) -> Node:
        name = command[1:]
        if name in ("frac", "cfrac"):
            top = self.argument()
            return Node("div", (top, self.argument()))
        if name == "sqrt":
            return self._root()
        if name in ("binom", "dbinom", "tbinom"):
            top = self.argument()
            return Node("call", (top, self.argument()), name="binom")
        if name == "pi":
            return Node("const", name="pi")
        if name == "infty":
            return Node("const", name="inf")
        if name in ("emptyset", "varnothing"):
            return Node("set")
        if name in GREEK:
            return symbol(name)
        if name in FUNCTIONS:
            return self._function(ALIASES.get(name, name))
        if name in ("{", "lbrace"):
            return self._items("\\}", "\\rbrace", opening="{")
        if name == "langle":
            return self._items("\\rangle", opening="(")
        if name in ("lfloor", "lceil", "lvert"):
            inner = self.sum()
            self.expect("\\r" + name[1:])
            return Node("call", (inner,), name={"lvert": "abs", "lfloor": "floor", "lceil": "ceil"}[name])
        raise MathSyntaxError(f"{command[:20]!r} is not read")

    def argument(self) -> Node:
        """A LaTeX argument: a braced group, or one token; of a number that is its first digit."""
        if self.peek() == "{" and self.kind() == "char":
            return self.group()
        token = self.take()
        if token.kind == "num" and token.value.isdigit():
            if len(token.value) > 1:
                self.tokens.insert(self.position, Token("num", token.value[1:]))
            return Node("num", value=Fraction(int(token.value[0])), name=token.value[0])
        if token.kind == "word" and len(token.value) == 1:
            return symbol(token.value)
        if token.kind == "word" and token.value not in WORD_COMMANDS:
            self.tokens.insert(self.position, Token("word", token.value[1:]))
            return symbol(token.value[0])
        if (token.kind == "cmd" and token.value in ("\\pi", "\\sqrt", "\\frac")) or token.value[1:] in GREEK:
            return self._command(token.value)
        raise MathSyntaxError(f"{token.value[:20]!r} is not an argument")

    def _root(self) -> Node:
        index = number(2)
        if self.peek() == "[" and self.kind() == "char":
            self.take()
            index = self.sum()
            self.expect("]")
        if self.kind() == "char" and self.peek() == "{":
            radicand = self.group()
        elif self.kind() == "num":
            radicand = self._number(self.take().value)
        else:
            radicand = self.atom()
        return Node("root", (radicand, index))

    def _function(self, name: str) -> Node:
        base, exponent = None, None
        while self.kind() == "char" and self.peek() in ("_", "^"):
            if self.take().value == "_":
                base = self.argument()
            else:
                exponent = self.exponent()
        argument = self._function_argument()
        if exponent is not None and exponent == Node("neg", (Node("num", value=Fraction(1), name="1"),)):
            name, exponent = "arc" + name, None
        call = Node("call", argument if base is None else (*argument, base), name=name if base is None else name + "_")
        return call if exponent is None else Node("pow", (call, exponent))

    def _function_argument(self) -> tuple[Node, ...]:
        if self.kind() == "char" and self.peek() in ("(", "[", "{"):
            inner = self.atom()
            if inner.op == "tuple":
                return inner.args
            return (self.postfix(inner) if self.peek() in ("!", "\\degree") else inner,)
        sign = self._sign()
        result = self.factor()
        while self._starts_factor() and self.peek()[1:] not in FUNCTIONS and self.peek() not in ("(", "["):
            result = Node("mul", (result, self.factor()))
        if self.peek() == "/" and self.kind(1) == "num":
            self.take()
            result = Node("div", (result, self.factor()))
        return (Node("neg", (result,)) if sign == "-" else result,)

    def _bracketed(self, opening: str) -> Node:
        if opening == "{":
            return self._braced()
        if opening == "|":
            inner = self.sum()
            self.expect("|")
            return Node("call", (inner,), name="abs")
        if opening not in "([":
            raise MathSyntaxError(f"{opening!r} stands where a value should")
        return self._items(")", "]", opening=opening)

    def _items(self, *closings: str, opening: str) -> Node:
        self.enter()
        items: list[Node] = []
        closing = self.accept(*closings)
        while not closing:
            items.append(self.item())
            if opening == "{" and len(items) == 1 and self.accept("|", "\\mid"):
                items = [Node("such", (items[0], self.item()))]
            closing = self.accept(*closings)
            if not closing and not self.accept(",", ";"):
                raise MathSyntaxError("a bracket is not closed")
        self.depth -= 1
        if opening == "{":
            return items[0].args[1] if items and items[0].op == "such" else Node("set", tuple(items))
        if len(items) == 1 and (opening == "(") == (closing in (")", "\\rangle")):
            return items[0] if items[0].op != "num" else Node("num", value=items[0].value)
        if not items:
            raise MathSyntaxError("an empty bracket")
        return Node("tuple", tuple(items), name=opening + (")" if closing == "\\rangle" else closing))

    def _matrix(self, name: str) -> Node:
        if name not in MATRICES:
            raise MathSyntaxError(f"the environment {name!r} is not read")
        self.enter()
        rows: list[Node] = []
        cells: list[Node] = [self.sum()]
        while True:
            if self.accept("&"):
                cells.append(self.sum())
                continue
            rows.append(Node("row", tuple(cells)))
            last = not self.accept("\\\\")
            if self.kind() == "end" and self.take().value == name:
                break
            if last:
                raise MathSyntaxError("a matrix is not closed")
            cells = [self.sum()]
        self.depth -= 1
        if len({len(row.args) for row in rows}) != 1:
            raise MathSyntaxError("the rows of a matrix differ in length")
        return Node("matrix", tuple(rows))
