"""MATH-style answers, LaTeX or plain: exact comparison on an own grammar, computer algebra where that is undecided.

Almost every answer is settled in this process within a millisecond. Two kinds go to the worker pool, where they can be
killed: values that are not proven equal or different here, and references outside the grammar.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.core.verdict import Status, Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.dressing import undressed
from rlvr.envs.rewards.errors import BadOption, BadReference, WorkerError
from rlvr.envs.rewards.expressions.algebra import Algebra
from rlvr.envs.rewards.expressions.compare import same
from rlvr.envs.rewards.expressions.scalars import Undecided
from rlvr.envs.rewards.expressions.simplest import why_not_simplest
from rlvr.envs.rewards.extraction import MARKERS, extract, first_sentence
from rlvr.envs.rewards.graders.number import NotANumber, read_other_notation
from rlvr.envs.rewards.grammar.expression import parse
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError
from rlvr.envs.rewards.grammar.remarks import without_aside, without_lead_words
from rlvr.envs.rewards.grammar.tree import Node, number
from rlvr.envs.rewards.grammar.written import denied_name, in_grammar, without_exceptions

MAX_REFERENCE_CHARS: Final = 4_000
MAX_FOREIGN_CHARS: Final = 400

SAME_TREES: Final = "rlvr.envs.rewards.expressions.symbolic:same_trees"
SAME_LATEX: Final = "rlvr.envs.rewards.expressions.symbolic:same_latex"

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_SPACE = re.compile(r"\s+|\\[,;:! ]|\\left(?![A-Za-z])|\\right(?![A-Za-z])|\$")
_LOOSE = re.compile(r"(?<![0-9A-Za-z.]) | (?![0-9A-Za-z.])")
_SCIENTIFIC = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,40})?[eE][-+]?[0-9]{1,2}")
# Words that answer a question for a value: there is none, or not one.
_NO_VALUE = re.compile(r"\b(?:no|none|not|never|nothing|undefined|impossible|empty|infinit\w*|all|any|every)\b", re.I)
# What the grammar leaves to latex2sympy's; other notations that it does not know would be read as products.
_WORKED_OUT = re.compile(
    r"\\(?:i{0,3}nt|oint|sum|prod|lim(?:sup|inf)?)(?![A-Za-z])|[\u222b\u2211\u220f]"
    r"|\\[dt]?frac\s*\{\s*d(?:\^\{?[0-9]\}?)?\s*\}"
)
_ITEM = re.compile(r"[ \t]{0,8}(?:[-*\u2022]|[0-9]{1,2}[.)])[ \t]{1,8}(\S.*)")
# 150 minutes (2.5 hours), 5\sqrt{3} (about 8.66)
_BESIDE = re.compile(
    r"(?P<value>[^=~\u2248]*[0-9A-Za-z}\u03c0]) {1,3}\((?:(?P<about>about|approximately|approx\.?|roughly"
    r"|\u2248|~|\\approx)|=|i\.e\.|that is,?)? {0,2}"
    r"(?P<equal>[0-9$][^()=,]*)\)"
)
_TEXT_MACRO = re.compile(r"\\(?:text|mathrm|textbf)\s?\{([^{}]{0,200})\}")
_DISPLAY = ((r"\(", r"\)"), (r"\[", r"\]"), ("$$", "$$"), ("$", "$"))


class Gold(NamedTuple):
    """A reference, read once: its text, its tree (None when it is outside the grammar), its bare spelling."""

    text: str
    tree: Node | None
    spelling: str


class Pending(NamedTuple):
    """A grade that needs the worker pool: what to call there, the answer it is about, and the reference."""

    target: str
    arguments: tuple[Any, ...]
    answer: str
    gold: Gold

    def controls(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The reference alone: jobs that no answer can make harder or easier."""
        if self.gold.tree is None:
            return [(SAME_LATEX, (self.gold.text, self.gold.text)), (SAME_LATEX, ("0", self.gold.text))]
        tree = as_lists(self.gold.tree)
        return [(SAME_TREES, (tree, tree)), (SAME_TREES, (tree, ["num", "", "0", "1", []]))]


def grade_math(
    completion: str,
    reference: str | int | float | Fraction,
    *,
    markers: Sequence[str] = MARKERS,
    timeout: float = 2.0,
    simplest: bool = False,
) -> Verdict:
    """Grade a mathematical answer by value.

    Args:
        completion: the model's reply.
        reference: the right answer, LaTeX or plain.
        markers: which answer markers count, see ``extraction``.
        timeout: seconds of processor time that computer algebra may take in the worker pool, when it is asked at all.
        simplest: whether an equal answer must be worked out as well, see ``rlvr.envs.rewards.expressions.simplest``.

    Returns:
        1 for an answer that is proven equal to the reference. An answer over a cap, and one that is proven neither
        equal nor different, is ``unparsable``, and the reason says so; also where computer algebra runs out of time or
        memory on it, or fails. Where the reference alone does not go through either, the verdict is ``timeout`` or
        ``verifier_error``, as it is for a fault of the machine: both not valid.

    Raises:
        BadReference, BadOption: the reference or an option is malformed.
    """
    _check_timeout(timeout)
    result = _settle(completion, reference, markers)
    if isinstance(result, Verdict):
        return _worked_out(result, simplest)
    from rlvr.envs.rewards.workers import shared_pool

    outcome = shared_pool().attempt(result.target, result.arguments, timeout)
    alone = reference_alone(result, timeout) if _may_be_its_own_doing(outcome) else ""
    return _worked_out(_from_pool(result, outcome, alone), simplest)


async def agrade_math(
    threads: Executor,
    completion: str,
    reference: Any,
    *,
    markers: Sequence[str] = MARKERS,
    timeout: float = 2.0,
    simplest: bool = False,
) -> Verdict:
    """``grade_math`` for asyncio, in these threads; none is held while computer algebra works on an answer."""
    _check_timeout(timeout)
    loop = asyncio.get_running_loop()
    result = await loop.run_in_executor(threads, _settled, completion, reference, markers)
    if isinstance(result, Verdict):
        return _worked_out(result, simplest)
    from rlvr.envs.rewards.workers import shared_pool

    outcome = await shared_pool().aattempt(result.target, result.arguments, timeout)
    alone = ""
    if _may_be_its_own_doing(outcome):
        alone = await loop.run_in_executor(None, reference_alone, result, timeout)
    return _worked_out(_from_pool(result, outcome, alone), simplest)


def grade_math_batch(
    pairs: Sequence[tuple[str, Any]],
    *,
    markers: Sequence[str] = MARKERS,
    timeout: float = 2.0,
    simplest: bool = False,
) -> list[Verdict]:
    """``grade_math`` on pairs of completion and reference; computer algebra runs side by side in the worker pool."""
    _check_timeout(timeout)
    results = [_settled(text, gold, markers) for text, gold in pairs]
    pending = [(index, result) for index, result in enumerate(results) if isinstance(result, Pending)]
    verdicts: dict[int, Verdict] = {}
    if pending:
        from rlvr.envs.rewards.workers import shared_pool

        jobs = [(result.target, result.arguments) for _, result in pending]
        for (index, result), outcome in zip(pending, shared_pool().map(jobs, timeout), strict=True):
            alone = reference_alone(result, timeout) if _may_be_its_own_doing(outcome) else ""
            verdicts[index] = _from_pool(result, outcome, alone)
    graded = [verdicts[index] if isinstance(result, Pending) else result for index, result in enumerate(results)]
    return [_worked_out(verdict, simplest) for verdict in graded]


def _worked_out(verdict: Verdict, simplest: bool) -> Verdict:
    """The verdict, or that a right value is not worked out where it is asked to be."""
    if not simplest or verdict.status != "correct":
        return verdict
    fault = why_not_simplest(verdict.answer or "")
    return wrong(verdict.answer, f"of the right value, but {fault}") if fault else verdict


def _check_timeout(timeout: float) -> None:
    if not 0 < timeout <= 60:
        raise BadOption(f"timeout must be in (0, 60] seconds, got {timeout!r}")


def _settled(completion: str, reference: Any, markers: Sequence[str]) -> Verdict | Pending:
    """``_settle`` for a batch, where one bad pair must not end the others."""
    try:
        if not isinstance(completion, str):
            raise TypeError(f"a completion is text, got {type(completion).__name__}")
        return _settle(completion, reference, markers)
    except BadOption:
        raise
    except Exception as error:
        return Verdict(0.0, "verifier_error", reason=f"{type(error).__name__}: {error}"[:300])


def equal_by_value(first: str, second: str) -> bool:
    """Whether exact rules find two answers equal; what only computer algebra could tell is not.

    It takes about a millisecond, and no process.
    """
    verdict = _settled(f"\\boxed{{{first}}}", second, ("boxed",))
    return isinstance(verdict, Verdict) and verdict.status == "correct"


def _settle(completion: str, reference: Any, markers: Sequence[str]) -> Verdict | Pending:
    integer = type(reference) is str and _INTEGER.fullmatch(reference) is not None
    gold = None if integer else read_gold(reference)
    extraction = extract(completion, markers)
    if extraction.answer is None:
        return unparsable(extraction.reason)
    answer = extraction.answer if extraction.marker in ("boxed", "tag") else first_sentence(extraction)
    if integer and _INTEGER.fullmatch(answer):
        return correct(answer) if int(answer) == int(reference) else wrong(answer)
    gold = gold or read_gold(reference)
    text = without_exceptions(undelimited(undressed(answer)))
    if spelling(text) == gold.spelling:
        return correct(text)
    if denied_name(text):
        return unparsable("a word before the equals sign denies the value", answer)
    result = _compare_written(text, gold)
    if isinstance(result, Pending) or result.status == "correct" or gold.tree is None:
        return result
    for other in _other_forms(answer, text, extraction.block if extraction.below else ""):
        verdict = _compare_written(undelimited(undressed(other)), gold)
        if isinstance(verdict, Pending) or verdict.status == "correct":
            return verdict
    return correct(text) if _is_in_other_notation(text, gold.tree) else result


def _is_in_other_notation(text: str, gold: Node) -> bool:
    """Whether the reference is a number, written in words, as a ratio, or with other marks between thousands."""
    if gold.op not in ("num", "neg", "div"):
        return False
    try:
        answer = read_other_notation(" ".join(_TEXT_MACRO.sub(r" \1 ", text).split()))
    except NotANumber:
        return False
    return answer is not None and not answer.percent and same(number(answer.value), gold)


def _other_forms(answer: str, text: str, block: str) -> Iterator[str]:
    """An answer without a remark behind it, or words before it; with what stands in brackets behind it as its equal,
    or its estimate; and of a list in lines all of these.
    """
    if (bare := answer.rstrip().rstrip(",;:")) != answer:
        yield bare
    if (bare := without_aside(answer)) != answer:
        yield bare
    if (value := without_lead_words(text)) != text:
        yield value
        yield without_aside(value)
    if equal := _BESIDE.fullmatch(text):
        sign = "\\approx" if equal["about"] else "="
        yield f"{equal['value']} {sign} {equal['equal']}"
    lines = [_ITEM.fullmatch(line) for line in block.split("\n")]
    if len(lines) > 1 and all(lines):
        yield ", ".join(undelimited(undressed(line[1])) for line in lines if line)


def _compare_written(text: str, gold: Gold) -> Verdict | Pending:
    kind = "ratio" if gold.tree and gold.tree.name == "::" else gold.tree.op if gold.tree else ""
    return _compare(in_grammar(text, kind), gold)


def _compare(answer: str, gold: Gold) -> Verdict | Pending:
    if gold.tree is None:
        return _foreign(answer, gold)
    try:
        return _compare_trees(answer, gold, gold.tree, is_costly=False)
    except MathLimitError as error:
        if not _is_costly(gold.tree):
            return unparsable(f"over a cap: {error}", answer)
    try:
        return _compare_trees(answer, gold, gold.tree, is_costly=True)
    except MathLimitError as error:
        return unparsable(f"over a cap: {error}", answer)


def _compare_trees(answer: str, gold: Gold, gold_tree: Node, is_costly: bool) -> Verdict | Pending:
    """``_compare`` with a reference that is read; raises MathLimitError."""
    tree = None
    try:
        if _SCIENTIFIC.fullmatch(answer) and same(number(Fraction(answer)), gold_tree, is_costly=is_costly):
            return correct(answer)
        tree = parse(answer)
        if same(tree, gold_tree, is_costly=is_costly):
            return correct(answer)
        if tree.op == "text" != gold_tree.op and not _NO_VALUE.search(tree.name):
            return unparsable("words, where a value is asked for", answer)
        return wrong(answer)
    except RecursionError:
        return unparsable("over a cap: the answer nests too deep", answer)
    except MathLimitError:
        raise
    except MathSyntaxError as error:
        return unparsable(f"not read: {error}", answer)
    except Undecided:
        tree = tree or number(Fraction(answer))
        return Pending(SAME_TREES, (as_lists(tree), as_lists(gold_tree)), answer, gold)


def _is_costly(tree: Node) -> bool:
    """Whether a reference is over the caps on normal forms itself."""
    try:
        check_cost(tree)
    except MathLimitError:
        return True
    return False


def _foreign(answer: str, gold: Gold) -> Verdict | Pending:
    if not _WORKED_OUT.search(gold.text):
        return unparsable("not decided: the reference is not read, and not spelled so", answer)
    if len(answer) > MAX_FOREIGN_CHARS:
        return unparsable(f"over a cap: an answer to this reference may have {MAX_FOREIGN_CHARS} characters", answer)
    return Pending(SAME_LATEX, (answer, gold.text), answer, gold)


def _may_be_its_own_doing(outcome: tuple[str, Any]) -> bool:
    """Whether an answer can have caused an outcome; the machine's load and a worker killed from outside it cannot."""
    return outcome[0] in ("spent", "failed")


def _from_pool(pending: Pending, outcome: tuple[str, Any], alone: str) -> Verdict:
    """The verdict on what the pool said; ``alone`` says what is wrong with the reference alone, if anything."""
    status, value = outcome
    if status == "done":
        if isinstance(value, str):
            return unparsable(f"not decided: {value}", pending.answer)
        return correct(pending.answer, "equal by computer algebra") if value else wrong(pending.answer)
    if _may_be_its_own_doing(outcome) and not alone:
        return unparsable(f"not decided: {value}"[:300], pending.answer)
    reason = f"the reference alone: {alone}" if alone else str(value)
    fault: Status = "timeout" if status in ("timeout", "spent") else "verifier_error"
    return Verdict(0.0, fault, pending.answer, reason[:300])


def reference_alone(pending: Pending, timeout: float) -> str:
    """What keeps computer algebra from working on the reference of a grade alone; empty when nothing does."""
    try:
        return _reference_alone(json.dumps(pending.controls()), timeout)
    except WorkerError as error:
        return str(error)


@lru_cache(maxsize=4096)
def _reference_alone(controls: str, timeout: float) -> str:
    """Kept for the next answer, unless the machine was at fault: then it raises."""
    from rlvr.envs.rewards.workers import shared_pool

    for target, arguments in json.loads(controls):
        outcome = shared_pool().attempt(target, arguments, timeout)
        if _may_be_its_own_doing(outcome):
            return str(outcome[1])
        if outcome[0] != "done":
            raise WorkerError(str(outcome[1]))
    return ""


@lru_cache(maxsize=4096, typed=True)
def read_gold(reference: str | int | float | Fraction) -> Gold:
    """The reference, read once and kept.

    Raises:
        BadReference: it is neither text nor a number, empty, or too long.
    """
    if isinstance(reference, bool) or not isinstance(reference, (str, int, float, Fraction)):
        raise BadReference(f"a math reference is text or a number, got {reference!r}"[:200])
    text = str(reference).strip()
    if _INTEGER.fullmatch(text):
        digits = Node("num", value=Fraction(int(text.removeprefix("-"))), name=text.removeprefix("-"))
        return Gold(text, Node("neg", (digits,)) if text[0] == "-" else digits, text)
    if "\\boxed" in text:
        text = extract(text, ("boxed",)).answer or ""
    text = undelimited(text)
    if not text or len(text) > MAX_REFERENCE_CHARS:
        raise BadReference(f"a math reference has 1 to {MAX_REFERENCE_CHARS:,} characters, got {len(text):,}")
    try:
        return Gold(text, parse(text), spelling(text))
    except (MathSyntaxError, RecursionError):
        return Gold(text, None, spelling(text))


def check_cost(tree: Node) -> None:
    """Raise MathLimitError for a tree whose normal form, or that of one of its parts, is over the caps."""
    try:
        Algebra().normal(tree)
    except MathLimitError:
        raise
    except MathSyntaxError:  # no scalar: compared part by part
        for arg in tree.args:
            check_cost(arg)


def undelimited(text: str) -> str:
    """Without math delimiters, emphasis and a final full stop around the whole."""
    text = text.strip()
    for _ in range(3):
        before = text
        for opening, closing in _DISPLAY:
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                inner = text[len(opening) : -len(closing)]
                if opening not in inner:
                    text = inner.strip()
        text = text.strip("*")
        text = (text if text.endswith("..") else text.removesuffix(".")).rstrip("\\ \t\n")
        if text == before:
            break
    return text


def spelling(text: str) -> str:
    """The text without the blanks that mean nothing, so that the same LaTeX compares equal; ``1 2`` keeps its own."""
    if "\\" in text:
        text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    return _LOOSE.sub("", " ".join(_SPACE.sub(" ", text).split()))


def as_lists(node: Node) -> list[Any]:
    """A tree as JSON: ``[op, name, numerator, denominator, [args]]``; integers as text."""
    value = [str(node.value.numerator), str(node.value.denominator)]
    return [node.op, node.name, *value, [as_lists(arg) for arg in node.args]]
