"""Countdown: reach a target with given numbers, each used exactly once, under exact rational arithmetic.

The expression stands in ``<answer>``, else in ``\\boxed{}``, behind ``####`` or ``Answer:``. Only ``+ - * /`` and
brackets; ``= target`` may follow. Powers, ``//``, decimals, joined digits and names are refused by the parser.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.dressing import undressed, without_text_macro
from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.expressions.arithmetic import ArithmeticSyntaxError, DivisionByZero, parse_expression, plain
from rlvr.envs.rewards.extraction import TAG_FIRST, extract


def grade_countdown(
    completion: str,
    reference: Mapping[str, Any],
    *,
    use_all: bool = True,
    operators: str = "+-*/",
    markers: Sequence[str] = TAG_FIRST,
) -> Verdict:
    """Grade a Countdown expression.

    Args:
        completion: the model's reply.
        reference: ``{"numbers": [19, 36, 55, 7], "target": 65}``, all integers.
        use_all: every number must be used; otherwise each may be used at most once.
        operators: the operators allowed, out of ``+-*/``.
        markers: which answer markers count, see ``extraction``.

    Raises:
        BadReference, BadOption: the reference or an option is malformed.
    """
    numbers, target = _reference(reference)
    if not operators or set(operators) - set("+-*/"):
        raise BadOption(f"operators must be some of '+-*/', got {operators!r}")
    extraction = extract(completion, markers)
    if extraction.answer is None:
        return unparsable(extraction.reason)
    answer = extraction.answer
    text, separator, right = _unwrap(answer).partition("=")
    try:
        expression = parse_expression(text, operators, decimals=False)
        claimed = parse_expression(right, "-", decimals=False).value if separator else expression.value
    except DivisionByZero:
        return wrong(answer, "the expression divides by zero")
    except ArithmeticSyntaxError as error:
        return unparsable(f"not an expression: {error}", answer)
    used, available = Counter(expression.integers), Counter(numbers)
    if used - available or (use_all and available - used):
        return wrong(answer, f"uses {sorted(used.elements())}, the numbers are {sorted(numbers)}"[:200])
    if expression.value != target:
        return wrong(answer, f"the value is not {target}")
    if claimed != expression.value:
        return wrong(answer, "the right-hand side is not the value of the expression")
    return correct(answer)


def _unwrap(answer: str) -> str:
    text = without_text_macro(undressed(answer))
    text = text.strip("`*").strip() if text[:1] in "`*" else text
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("\\boxed{", "}"), ("{", "}")):
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing):
            text = text[len(opening) : len(text) - len(closing)].strip()
    return plain(text.removesuffix("."))


def _reference(reference: Mapping[str, Any]) -> tuple[list[int], int]:
    try:
        numbers, target = reference["numbers"], reference["target"]
    except (KeyError, TypeError, IndexError):
        numbers, target = None, None
    if not isinstance(numbers, (list, tuple)) or not numbers or not all(type(n) is int for n in [*numbers, target]):
        raise BadReference(
            f"a countdown reference is {{'numbers': [int, ...], 'target': int}}, got {reference!r}"[:300]
        )
    return list(numbers), target
