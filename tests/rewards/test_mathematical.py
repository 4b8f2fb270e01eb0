"""Mathematical answers: what is equal, what is not, and what happens where exact rules end."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.rewards import BadOption, grade, grade_batch
from rlvr.envs.rewards.expressions.algebra import Algebra, is_decisive
from rlvr.envs.rewards.expressions.compare import same
from rlvr.envs.rewards.expressions.numeric import NoValue, are_apart, enclose
from rlvr.envs.rewards.expressions.polynomial import factorise, integer_root, is_prime
from rlvr.envs.rewards.expressions.scalars import Undecided
from rlvr.envs.rewards.graders.mathematical import as_lists, read_gold
from rlvr.envs.rewards.grammar.expression import parse
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError, tokenize
from rlvr.envs.rewards.grammar.tree import Node, number
from rlvr.envs.rewards.grammar.units import measure


def equal(left: str, right: str) -> bool:
    return same(parse(left), parse(right))


# -- trees that are known, written in two ways


def leaf() -> st.SearchStrategy[Node]:
    names = st.sampled_from("xyzab").map(lambda name: Node("sym", name=name))
    return st.one_of(st.integers(0, 99).map(number), names)


def branch(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda args: Node("add", tuple(args))),
        st.tuples(inner, inner).map(lambda args: Node("mul", args)),
        inner.map(lambda arg: Node("neg", (arg,))),
        st.tuples(inner, st.integers(0, 3).map(number)).map(lambda args: Node("pow", args)),
    )


trees = st.recursive(leaf(), branch, max_leaves=6)


def written(node: Node) -> str:
    """A tree as LaTeX, brackets everywhere."""
    parts = [written(arg) for arg in node.args]
    if node.op == "num":
        return str(node.value)
    if node.op == "sym":
        return node.name
    if node.op == "neg":
        return f"(-{parts[0]})"
    if node.op == "pow":
        return f"({parts[0]})^{{{parts[1]}}}"
    return "\\left(" + {"add": " + ", "mul": " \\cdot "}[node.op].join(parts) + "\\right)"


@given(trees)
def test_what_is_written_is_read_back(tree: Node) -> None:
    try:
        form = Algebra().normal(tree)
    except MathSyntaxError:  # 0 ** 0
        return
    read = Algebra().normal(parse(written(tree)))
    assert not Algebra().difference(form, read)


@given(trees, trees)
def test_equality_agrees_with_numbers(left: Node, right: Node) -> None:
    try:
        verdict = same(left, right)
        differ = are_apart(left, right, 256, (1, 2, 3))
    except (MathSyntaxError, NoValue):
        return
    assert verdict == (not differ)


@given(trees)
def test_a_sum_in_another_order_is_equal_and_plus_one_is_not(tree: Node) -> None:
    try:
        Algebra().normal(tree)
    except MathSyntaxError:
        return
    other = Node("add", (Node("sym", name="q"), tree))
    assert same(Node("add", (tree, Node("sym", name="q"))), other)
    assert not same(Node("add", (tree, number(1))), tree)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 5))
def test_radicals_have_one_form(a: int, b: int, degree: int) -> None:
    left, right = f"\\sqrt[{degree}]{{{a}}} \\cdot \\sqrt[{degree}]{{{b}}}", f"\\sqrt[{degree}]{{{a * b}}}"
    assert equal(left, right)
    assert not equal(left, f"\\sqrt[{degree}]{{{a * b + 1}}}")


def test_sines_and_cosines_of_multiples_of_fifteen_degrees_are_exact() -> None:
    texts = [f"\\{name} {15 * step}^\\circ" for name in ("sin", "cos") for step in range(-12, 25)]
    forms = [Algebra().normal(parse(text)) for text in texts]
    values = [enclose(parse(text)) for text in texts]
    for form, value in zip(forms, values, strict=True):
        for other, other_value in zip(forms, values, strict=True):
            rest = Algebra().difference(form, other)
            assert (not rest) == value.overlaps(other_value)
            assert is_decisive(rest)


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        ("x", "|x|", False),
        ("|x|", "x", False),
        ("\\sqrt{x^2}", "x", False),
        ("\\sqrt{x^2}", "|x|", True),
        ("|-x|", "|x|", True),
    ],
)
def test_the_sign_of_a_symbol_is_open(answer: str, gold: str, verdict: bool) -> None:
    assert grade("math", f"\\boxed{{{answer}}}", gold, timeout=20.0).reward == float(verdict)


@given(st.integers(1, 10**30))
def test_factors_multiply_back(value: int) -> None:
    value = min(value, 10**14) if value % 2 else value
    product = 1
    for key, power in factorise(value).items():
        product *= key[1] ** power
        assert key[0] == "p" or value > 10**14
    assert product == value
    assert integer_root(value, 3) ** 3 <= value < (integer_root(value, 3) + 1) ** 3


def test_primes_are_proven_as_far_as_is_known() -> None:
    assert [n for n in range(43, 2000, 2) if is_prime(n)] == [
        n for n in range(43, 2000) if all(n % k for k in range(2, n))
    ]
    assert is_prime(2**61 - 1)
    assert not is_prime((2**31 - 1) * 100_000_007)
    assert not is_prime(3_215_031_751)  # a strong pseudoprime to the bases 2, 3, 5 and 7
    assert not is_prime(2**127 - 1)  # prime, but beyond the proven range


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=999))
def test_rational_answers(value: Fraction) -> None:
    text = f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
    for spelling in (text, f"{value.numerator}/{value.denominator}", f"x = {text}", f"{text} \\text{{ cm}}"):
        assert grade("math", f"\\boxed{{{spelling}}}", str(value)).reward == 1, spelling
    assert grade("math", f"\\boxed{{{text}}}", str(value + Fraction(1, 10**9))).reward == 0


# -- structures


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        ("(1, 2)", "(1, 2)", True),
        ("(1, 2)", "[1, 2)", False),
        ("\\{2, 1\\}", "\\{1, 2\\}", True),
        ("\\{1, 1, 2\\}", "\\{1, 2\\}", True),
        ("1, 1, 2", "1, 2", False),
        ("x = 1 \\text{ or } x = 2", "2, 1", True),
        ("x = 1, y = 2", "y = 2, x = 1", True),
        ("2 \\pm 1", "1, 3", True),
        ("(-\\infty, 1) \\cup (2, \\infty)", "x < 1 \\text{ or } x > 2", True),
        ("1 < x \\le 2", "(1, 2]", True),
        ("2 > x > 1", "(1, 2)", True),
        ("x \\ge 1", "1 \\le x", True),
        ("2x + 4y = 6", "x + 2y = 3", True),
        ("2x + 4y < 6", "-x - 2y > -3", True),
        ("2x + 4y < 6", "x + 2y > 3", False),
        ("y = 2x", "2x", True),
        ("y = y + 1", "y + 1", False),
        ("f(x) = x^2", "x^2", True),
        ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\begin{bmatrix} 1&2\\\\3&4\\end{bmatrix}", True),
        ("\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\begin{pmatrix} 1 & 3 \\\\ 2 & 4 \\end{pmatrix}", False),
        ("(1, 2)", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", True),
        ("50 \\text{ cm}", "0.5 \\text{ m}", True),
        ("50 \\text{ cm}", "50 \\text{ m}", False),
        ("50 \\text{ cm}^2", "50 \\text{ cm}", False),
        ("3 \\text{ apples}", "3 \\text{ fruits}", True),
        ("90^\\circ", "\\frac{\\pi}{2}", True),
        ("\\frac{\\pi}{2}", "90^\\circ", True),
        ("11_2", "11_2", True),
        ("11_2", "11_3", False),
        ("11_2", "3", False),
        ("\\text{The end}", "end", True),
        ("\\text{end}", "dne", False),
    ],
)
def test_structures(answer: str, gold: str, verdict: bool) -> None:
    assert grade("math", f"\\boxed{{{answer}}}", gold).reward == float(verdict)


@pytest.mark.parametrize(
    "text", ["1 2", "x +", "\\frac{1}", "(1", "1)", "\\foo", "x_", "\\sqrt[0]{2}", "2 # 3", "７", "$"]
)
def test_not_read(text: str) -> None:
    with pytest.raises(MathSyntaxError):
        Algebra().normal(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9^9}}", "2^{10^9}", "(10^9)!", "\\binom{10^9}{10^8}", "(x+y+z+w)^{40}", "(x+1)^{41}", "x+" * 300 + "x",
        "(" * 60 + "1" + ")" * 60, "9" * 1500, "*".join("2" * 150), "\\sqrt[200]{2}", "(1+x)^{30}(1+y)^{30}(1+z)^{30}",
    ],
)  # fmt: skip
def test_caps_are_refused_and_named(text: str) -> None:
    with pytest.raises(MathLimitError, match="may"):
        Algebra().normal(parse(text))
    if len(text) < 2000:
        verdict = grade("math", f"\\boxed{{{text}}}", "72")
        assert verdict.status == "unparsable"
        assert "over a cap" in verdict.reason


def test_tokens_keep_what_matters() -> None:
    assert [token.value for token in tokenize("\\dfrac{1}{2} \\text{ cm}")] == [
        "\\frac",
        "{",
        "1",
        "}",
        "{",
        "2",
        "}",
        "cm",
    ]
    assert [token.value for token in tokenize("1,234")] == ["1234"]
    assert [token.value for token in tokenize("(1,234)")] == ["(", "1", ",", "234", ")"]


def test_units_have_dimensions() -> None:
    assert measure("km/h") == measure("kilometers per hour")
    assert measure("square inches") == measure("in^2")
    assert measure("apples") is None


def test_references() -> None:
    assert read_gold("\\boxed{\\frac{1}{2}}").tree == parse("\\frac{1}{2}")
    assert read_gold(0.5).tree == read_gold("0.5").tree
    assert read_gold("\\int_0^1 x\\,dx").tree is None
    for bad in (None, True, "", " ", [1], "x" * 5000):
        assert grade("math", "\\boxed{1}", bad).status == "verifier_error"
    with pytest.raises(BadOption, match="timeout"):
        grade("math", "\\boxed{\\sin^2 x + \\cos^2 x}", "\\sin^2 y + \\cos^2 y + \\sin z - \\sin z", timeout=-1)


# -- computer algebra in the worker pool


UNDECIDED = [
    ("\\sqrt{2+\\sqrt{3}}+\\sqrt{2-\\sqrt{3}}", "\\sqrt{6}", True),
    ("\\arctan 1 + \\arctan 2 + \\arctan 3", "\\pi", True),
    ("\\sin 2x", "2 \\sin x \\cos x", True),
    ("\\int_0^1 y\\,dy", "\\int_0^1 x\\,dx", True),
    ("\\int_0^1 y\\,dy", "\\int_0^2 x\\,dx", False),
    ("\\text{__import__('os')}", "\\int_0^1 x\\,dx", False),
]


@pytest.mark.parametrize(("answer", "gold", "verdict"), UNDECIDED)
def test_what_exact_rules_leave_open_goes_to_computer_algebra(answer: str, gold: str, verdict: bool) -> None:
    result = grade("math", f"\\boxed{{{answer}}}", gold, timeout=20.0)
    assert result.valid
    assert result.reward == float(verdict)


def test_what_is_proven_here_needs_no_computer_algebra() -> None:
    assert not equal("1 + \\sin(10^{-20})", "1")
    assert equal("\\arctan 1 + \\arctan 2 + \\arctan 3", "\\pi")
    assert equal("\\sin 2x", "2 \\sin x \\cos x")
    with pytest.raises(Undecided):
        equal("\\arctan x + \\arctan \\frac{1}{x}", "\\frac{\\pi}{2}")


def test_a_batch_keeps_its_order_and_one_bad_pair_leaves_the_rest() -> None:
    pairs = [("\\boxed{1}", "1"), ("\\boxed{1}", None), (UNDECIDED[0][0], "x"), ("\\boxed{2}", "1")]
    pairs += [(f"\\boxed{{{answer}}}", gold) for answer, gold, _ in UNDECIDED]
    verdicts = grade_batch("math", [text for text, _ in pairs], [gold for _, gold in pairs], timeout=20.0)
    assert [verdict.status for verdict in verdicts[:4]] == ["correct", "verifier_error", "unparsable", "wrong"]
    assert [verdict.reward for verdict in verdicts[4:]] == [float(expected) for *_, expected in UNDECIDED]
    with pytest.raises(ValueError, match="shorter"):
        grade_batch("math", ["\\boxed{1}"], [])


def test_trees_travel_as_plain_data() -> None:
    assert as_lists(parse("x + 1/2")) == [
        "add", "", "0", "1",
        [["sym", "x", "0", "1", []],
         ["div", "", "0", "1", [["num", "1", "1", "1", []], ["num", "2", "2", "1", []]]]],
    ]  # fmt: skip


# -- TeX's \over

over_sides = st.recursive(
    st.sampled_from(["2", "3", "x", "\\sqrt{3}", "x^{2}", "(y + 1)"]).map(lambda side: (side, side)),
    lambda inner: st.tuples(inner, inner).map(
        lambda sides: (
            f"{{{sides[0][0]} \\over {sides[1][0]}}}",
            f"\\frac{{{sides[0][1]}}}{{{sides[1][1]}}}",
        )
    ),
    max_leaves=5,
)


@given(over_sides)
def test_a_fraction_with_over_is_the_one_with_frac_at_every_depth(both: tuple[str, str]) -> None:
    over, frac = both
    assert equal(over, frac)
    assert equal(f"{over} \\over 7", f"\\frac{{{frac}}}{{7}}")
    assert not equal(over, f"\\frac{{{frac}}}{{5}}")


@pytest.mark.parametrize("text", [r"1 \over 2 \over 3", r"{a \over b \over c}", r"{1 \over 2", r"1 \over 2}"])
def test_what_tex_refuses_to_put_over_is_not_read(text: str) -> None:
    with pytest.raises(MathSyntaxError):
        parse(text)


@pytest.mark.parametrize(
    ("answer", "reference", "reward"),
    [
        (r"x > 2 \text{ and } x \le 5", "(2, 5]", 1),
        (r"x > 2 \text{ and } x < 5", "2 < x < 5", 1),
        (r"x \le -2 \text{ and } x > 3", r"(-\infty, -2] \cup (3, \infty)", 0),
        (r"x \le -2 \text{ or } x > 3", r"(-\infty, -2] \cup (3, \infty)", 1),
        (r"x > 2 \text{ and } y < 5", "(2, 5)", 0),
        (r"x > 2 \text{ and } x > 5", r"(2, \infty)", 0),
        (r"x > 5 \text{ and } x < 2", r"(2, 5)", 0),
    ],
)
def test_conditions_that_hold_together(answer: str, reference: str, reward: float) -> None:
    assert grade("math", f"\\boxed{{{answer}}}", reference).reward == reward


@pytest.mark.parametrize("inequality", ["x^2 > 3", "2x^2 > 6", "|x| > \\sqrt{3}"])
def test_an_inequality_that_is_not_solved_is_not_wrong(inequality: str) -> None:
    verdict = grade("math", f"\\boxed{{{inequality}}}", r"(-\infty, -\sqrt{3}) \cup (\sqrt{3}, \infty)")
    assert verdict.status == "unparsable"
    assert "an inequality is not solved" in verdict.reason


INEQUALITIES = (
    ("x^2 > 3", "x < -\\sqrt3 \\text{ or } x > \\sqrt3", True),
    ("x^2 > 3", "(-\\infty, -\\sqrt3) \\cup (\\sqrt3, \\infty)", True),
    ("x^2 > 3", "(-\\infty, -\\sqrt3] \\cup (\\sqrt3, \\infty)", False),
    ("x^2 > 3", "x > \\sqrt3", False),
    ("x^2 > 3", "x^4 > 9", True),
    ("x^2 > 3", "x^4 > 8", False),
    ("\\frac{x}{x-1} \\ge 2", "(1, 2]", True),
    ("\\frac{x}{x-1} \\ge 2", "[1, 2]", False),
    ("1 < x^2 < 4", "(-2, -1) \\cup (1, 2)", True),
    ("x^2 < -1", "\\emptyset", True),
    ("x^2 \\ge 0", "\\mathbb{R}", True),
)


@pytest.mark.slow
@pytest.mark.parametrize(("reference", "answer", "right"), INEQUALITIES)
def test_an_inequality_of_rational_functions_is_the_set_of_its_solutions(reference, answer, right):
    assert grade("math", f"\\boxed{{{answer}}}", reference).reward == right


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("\\sin x > 0", "(0, \\pi)"),
        ("(-\\infty, -\\sqrt3) \\cup (\\sqrt3, \\infty)", "x^2 > 3"),  # it may be the question itself
    ],
)
def test_an_inequality_that_stays_unsolved_is_not_decided(reference, answer):
    verdict = grade("math", f"\\boxed{{{answer}}}", reference)
    assert (verdict.status, verdict.reason) == ("unparsable", "not decided: an inequality is not solved")
