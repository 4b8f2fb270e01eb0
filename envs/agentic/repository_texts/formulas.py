"""Formulas of whole numbers, names and + - * / with brackets."""


def tokens_of(text: str) -> list[str]:
    """The numbers, names and signs of a formula, without blanks; ValueError for any other sign."""
    tokens: list[str] = []
    index = 0
    while index < len(text):
        sign = text[index]
        end = index + 1
        if sign.isalnum():
            while end < len(text) and text[end].isalnum():
                end += 1
            tokens.append(text[index:end])
        elif sign in "+-*/(),":
            tokens.append(sign)
        elif not sign.isspace():
            raise ValueError(f"a formula has no {sign}")
        index = end
    return tokens


class FormulaReader:
    """Works a formula out by its tokens; "/" rounds down, and names are looked up in values."""

    def __init__(self, text: str, values: dict[str, int]) -> None:
        self._tokens = tokens_of(text)
        self._values = values
        self._next = 0

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def result(self) -> int:
        """The value of the whole; ValueError if something is left, or missing."""
        value = self.total()
        if self._next < len(self._tokens):
            raise ValueError(f"not expected: {self._peek()}")
        return value

    def total(self) -> int:
        """Products that are added and subtracted, from left to right."""
        value = self.product()
        while self._peek() in ("+", "-"):
            if self._take() == "+":
                value += self.product()
            else:
                value -= self.product()
        return value

    def product(self) -> int:
        """Factors that are multiplied and divided, from left to right; ValueError for a division by 0."""
        value = self.factor()
        while self._peek() in ("*", "/"):
            sign, other = self._take(), self.factor()
            if sign == "*":
                value *= other
            elif other == 0:
                raise ValueError("division by 0")
            else:
                value //= other
        return value

    def factor(self) -> int:
        """A number, a name, a call such as max(a, b), something in brackets, or one of them with "-" before it."""
        token = self._take()
        if token == "-":
            return -self.factor()
        if token == "(":
            value = self.total()
            self._close()
            return value
        if token.isdigit():
            return int(token)
        if token in ("sum", "max", "min") and self._peek() == "(":
            return self._called(token)
        if token not in self._values:
            raise ValueError(f"unknown: {token}")
        return self._values[token]

    def _called(self, name: str) -> int:
        self._take()
        values = [self.total()]
        while self._peek() == ",":
            self._take()
            values.append(self.total())
        self._close()
        if name == "sum":
            return sum(values)
        return max(values) if name == "max" else min(values)

    def _close(self) -> None:
        if self._take() != ")":
            raise ValueError("a bracket is not closed")


def evaluate_formula(text: str, values: dict[str, int]) -> int:
    """The value of a formula, whose names have these values."""
    return FormulaReader(text, values).result()


def names_in(text: str) -> list[str]:
    """The names that a formula looks up, each once, sorted; functions are none."""
    return sorted({token for token in tokens_of(text) if token[0].isalpha() and token not in ("sum", "max", "min")})


MODULE = ("formulas", "expressions", "arithmetic")
ALIASES = {"evaluate_formula": ("value_of_formula",), "names_in": ("formula_names",), "tokens_of": ("formula_tokens",)}
SCENARIOS = (
    "tokens_of('<1..99>+ <w>*(<1..9> -<w>)')",
    "tokens_of('<1..9> <%|+|!> 2')",
    "evaluate_formula('<2..9> - <2..9> - <2..9> * <2..4>', {})",
    "evaluate_formula('<20..90> / <2..6> / <2..3> * <2..4>', {})",
    "evaluate_formula('(<2..9> + a) * -<2..4> - b', {'a': <1..9>, 'b': -<1..9>})",
    "evaluate_formula('<max|min|sum>(<1..20>, a, <1..20> - 5) + 1', {'a': <1..20>})",
    "evaluate_formula('<5..9> / (a - <2..3>)', {'a': <2..3>})",
    "evaluate_formula('(<1..9> + 2<)|> * 2', {})",
    "evaluate_formula('<1..9> <+|> <2..4> <-|)|>', {})",
    "evaluate_formula('-<2..9> / <2..4> - -a', {'a': <1..9>})",
    "evaluate_formula('a + <a|b>', {'a': <1..9>})",
    "names_in('<w> * max(<w>, a1, 7) - <w>')",
)
