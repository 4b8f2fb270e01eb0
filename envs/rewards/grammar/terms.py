"""The grammar of terms: sums, products, powers, roots, functions, brackets and matrices."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from rlvr.envs.rewards.grammar import functions
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError, Token
from rlvr.envs.rewards.grammar.tree import Node, number, symbol
from rlvr.envs.rewards.grammar.units import SPEEDS, UNITS
from rlvr.envs.rewards.grammar.vocabulary import (
    ALIASES,
    BASES,
    DIVIDE,
    FUNCTIONS,
    GREEK,
    MATRICES,
    MULTIPLY,
    NAMED_FUNCTIONS,
    OTHER_NAMES,
    WORD_COMMANDS,
)

MAX_DEPTH: Final = 40
MAX_FACTORS: Final = 100


class TermParser:
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

    def item(self) -> Node:
        """An item of a list or of a bracket."""
        raise NotImplementedError

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
        if kind in ("num", "name", "begin", "function"):
            return True
        if kind == "word":
            return self._is_letters(value)
        if kind == "char":
            is_beside_percent = self.position > 0 and self.tokens[self.position - 1].value in ("%", "\\%")
            return (value in "([" and not is_beside_percent) or value == "{"
        return kind == "cmd" and (
            value[1:] in NAMED_FUNCTIONS
            or value[1:] in OTHER_NAMES
            or value[1:] in GREEK
            or value
            in ("\\frac", "\\cfrac", "\\sqrt", "\\pi", "\\infty", "\\binom", "\\dbinom", "\\tbinom", "\\{", "\\lbrace")
            or value in ("\\lfloor", "\\lceil", "\\lvert", "\\langle", "\\overline", "\\prime", "\\Re", "\\Im")
        )

    def _is_letters(self, word: str) -> bool:
        lowered = word.lower()
        if lowered in ("and", "or", "not", "is", "per", "mod", "of"):
            return False
        if self.position and self.tokens[self.position - 1].value in ("%", "\\%"):
            return False  # 20% off
        if lowered in ("sq", "cu") and self.kind(1) in ("word", "text"):
            return False
        if word in ("min", "sec") and self.kind(1) == "end-of-text":
            return False
        if word in WORD_COMMANDS or word in ALIASES or len(word) == 1 or self._is_applied(word):
            return True
        return len(word) < 4 and lowered not in UNITS and lowered not in SPEEDS

    def _is_applied(self, word: str) -> bool:
        """Whether a word at the current position is the name of a function with a bracket behind it."""
        return (word in NAMED_FUNCTIONS or word in OTHER_NAMES) and self.peek(1) == "(" and self.kind(1) == "char"

    def factor(self) -> Node:
        self.enter()
        base = self.postfix(self.atom())
        if base.op == "sym" and self.peek() == "(" and self.kind() == "char":
            base = self._applied_symbol(base)
        elif functions.is_derivative(base) and self._starts_factor():
            raise MathSyntaxError("a derivative is not worked out here")
        self.depth -= 1
        return base

    def _applied_symbol(self, base: Node) -> Node:
        """A letter in front of a bracket, where it is a function and not a factor."""
        if name := functions.special_function(base.name):
            inner = self.atom()
            if not functions.mentions(inner, base):
                return self.postfix(functions.applied(name, inner.args if inner.op == "tuple" else (inner,)))
            return Node("mul", (base, self.postfix(inner)), name="implicit")
        end = 1
        while functions.is_function_letter(base.name) and self._is_plain(end):
            end += 2
            if self.peek(end - 1) == ")" and self.kind(end - 1) == "char":
                inner = self.atom()
                args = inner.args if inner.op == "tuple" else (inner,)
                return self.postfix(Node("call", args, name="\\" + base.name.removeprefix("\\")))
            if self.peek(end - 1) != ",":
                break
        return base

    def _is_plain(self, offset: int) -> bool:
        """Whether a token is a whole number, a letter, or a Greek one."""
        kind, value = self.kind(offset), self.peek(offset)
        if kind == "cmd":
            return value[1:] in GREEK
        return (kind == "num" and value.isdigit()) or (kind == "word" and len(value) == 1)

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
                base = self._factorial(base)
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

    def _factorial(self, base: Node) -> Node:
        """``n!``; ``n!!`` is the product of every second number, not a factorial of a factorial."""
        step = 0
        while self.accept("!"):
            step += 1
        if step == 1:
            return Node("call", (base,), name="factorial")
        return Node("call", (base, number(step)), name="multifactorial")

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
            name = token.value.replace(" ", "")
            return functions.conjugate(symbol("i")) if name in ("\\overline{i}", "\\bar{i}") else symbol(name)
        if token.kind == "word":
            return self._word(token)
        if token.kind == "function":
            return self._function(OTHER_NAMES.get(token.value, token.value))
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
        self.position -= 1
        is_applied = self._is_applied(token.value)
        self.position += 1
        if is_applied:
            return self._function(OTHER_NAMES.get(token.value, token.value))
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
            return functions.quotient(top, self.argument())
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
        if name in NAMED_FUNCTIONS or name in OTHER_NAMES:
            return self._function(OTHER_NAMES.get(name, name))
        if name == "overline":
            return functions.conjugate(self.argument())
        if name in ("{", "lbrace"):
            return self._items("\\}", "\\rbrace", opening="{")
        if name == "langle":
            return self._items("\\rangle", opening="(")
        if name in ("lfloor", "lceil", "lvert"):
            inner = self.sum()
            self.expect("\\r" + name[1:])
            return functions.applied({"lvert": "abs", "lfloor": "floor", "lceil": "ceil"}[name], (inner,))
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
        name = name if name in NAMED_FUNCTIONS or ("arc" + name[3:] == name and name[3:] in FUNCTIONS) else "\\" + name
        call = functions.applied(name, argument) if base is None else Node("call", (*argument, base), name=name + "_")
        return call if exponent is None else Node("pow", (call, exponent))

    def _function_argument(self) -> tuple[Node, ...]:
        if self.kind() == "char" and self.peek() in ("(", "[", "{"):
            inner = self.atom()
            if inner.op == "tuple" and inner.name == "()":
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
            return functions.applied("abs", (inner,))
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
        if name == "vmatrix":
            return functions.determinant([row.args for row in rows])
        return Node("matrix", tuple(rows))
