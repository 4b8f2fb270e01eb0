"""reasoning-gym's data sets as environments: their questions, our seeds, splits and scoring. One turn each.

Their items are made in workers, from seeds of 32 bits that are a hash of ours: item 1 of seed 0 is no item of seed 1.
Levels are those of their curriculum that work. A reward is 1 or 0: partial credit, which there is paid for containing
the answer, for being near it, or for text at all, is not passed on. Answers are compared by us; where many answers
are right the item's own scorer is asked, in a worker, and believed when it says 1. The four scorers that evaluate
answers as Python are never asked: expressions and integrals are read by our own parsers.
"""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from typing import Any, Final, NamedTuple

from rlvr.envs.bridges.pools import call, verdict_on_fault
from rlvr.envs.bridges.suite_games import REASONING_GYM
from rlvr.envs.core.seeding import digest
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.extraction import extract
from rlvr.envs.rewards.grading import grade
from rlvr.envs.rewards.workers import WorkerError, WorkerTimeout

WORKER: Final = "reasoning_gym"
GENERATE_SECONDS: Final = 60.0
SCORE_SECONDS: Final = 10.0
DRAWS: Final = 20
# Many answers are right: their own scorer decides, and evaluates nothing.
THEIRS: Final = frozenset(
    """bitwise_arithmetic boxnet cryptarithm graph_color group_anagrams jugs kakurasu knight_swap knights_knaves
    n_queens palindrome_generation palindrome_partitioning pool_matrix power_function prime_factorization quantum_lock
    rubiks_cube rush_hour shortest_path sokoban tower_of_hanoi word_ladder""".split()
)
# What an answer to these must be as a whole: their scorers look for what they like and skip the rest.
FORMS: Final = {
    name: re.compile(form, re.IGNORECASE | re.ASCII)
    for name, form in {
        "bitwise_arithmetic": r"-?(?:0x[0-9a-f]+|0b[01]+|\d+)",
        "cryptarithm": r"[a-z] ?= ?\d(?:, ?[a-z] ?= ?\d)*",
        "kakurasu": r"[01\s]+",
        "knights_knaves": r"[a-z ,.]+",
        "n_queens": r"[q_\s]+",
        "palindrome_generation": r"[a-z]+",
        "pool_matrix": r"[\d.\s-]+",
        "power_function": r"-?\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?",
        "prime_factorization": r"[\d\s×x*]+",
        "quantum_lock": r"[abc](?:[ ,→>-]+[abc])*",
        "rubiks_cube": r"[udfblr'2\s]+",
        "rush_hour": r"[a-z][+-]\d(?:[ ,\n]+[a-z][+-]\d)*",
        "shortest_path": r"(?:(?:up|down|left|right)\s*)+|infeasible",
        "sokoban": r"[udlr\s]+",
        "tower_of_hanoi": r"(?:move disk \d+ from peg \d+ to peg \d+\s*)+",
        "word_ladder": r"[a-z]+(?:, ?[a-z]+)*",
    }.items()
}
EXPRESSIONS: Final = frozenset({"countdown", "puzzle24"})
INTEGRALS: Final = frozenset({"simple_integration", "intermediate_integration"})
SCALAR: Final = frozenset("num const sym call add neg mul div pow root".split())


class Item(NamedTuple):
    """An item: what names it, what is asked, and the answer if their own scorer gives that 1."""

    seed: int
    level: int | None
    text: str
    answer: str | None
    facts: str


class ReasoningGym(Task[Item]):
    """Args:
    name: the data set's name in reasoning-gym, such as ``countdown``.

    Raises:
        ValueError: there is no such data set, or it is refused.
    """

    system = "Think step by step. Put the final answer, and nothing else, in \\boxed{}."
    source = "reasoning-gym, the installed version"
    licence = "Apache-2.0"
    packages = ("reasoning_gym",)

    def __init__(self, *, name: str) -> None:
        if name not in REASONING_GYM:
            raise ValueError(f"the bridge has no data set {name!r} of reasoning-gym; docs/bridges.md lists them")
        self.dataset = name
        self.curriculum = REASONING_GYM[name].levels
        self.levels = len(self.curriculum) or 1
        self.asks = f"reasoning-gym's {name}: {REASONING_GYM[name].note or 'one question, one answer'}"

    def start(self, rng: random.Random, level: int) -> Item:
        """The next item that can be made and that its own answer solves, where it has an answer.

        Raises:
            WorkerError: the package cannot make one, or takes too long.
        """
        index = self.curriculum[level - 1] if self.curriculum else None
        fault: WorkerError | None = None
        for _ in range(DRAWS):
            seed = digest(self.dataset, level, rng.getrandbits(64)) & 0xFFFFFFFF
            try:
                entry = call(WORKER, "generate", [self.dataset, index, seed], GENERATE_SECONDS)
            except WorkerTimeout:
                raise
            except WorkerError as error:  # some of their generators give up on some seeds
                fault = error
                continue
            item = Item(seed, index, entry["question"], entry["answer"], json.dumps(entry["facts"], sort_keys=True))
            if not REASONING_GYM[self.dataset].solved:
                return item._replace(answer=None)
            if item.answer is not None and self._judge(item, self.solve(item)).success:
                return item
        raise fault or WorkerError(f"none of {DRAWS} items of {self.dataset} is solved by its own answer")

    def observe(self, state: Item) -> str:
        """The item's question, in reasoning-gym's words."""
        return state.text

    def apply(self, state: Item, action: str) -> Transition:
        """1 or 0 by our comparison or, where many answers are right, by the item's own scorer at a full score."""
        return Transition(state, self._judge(state, action), terminated=True)

    def solve(self, state: Item) -> str:
        """The item's own answer; NotImplementedError where its own scorer does not accept one."""
        if state.answer is None:
            raise NotImplementedError(f"reasoning-gym gives no answer to {self.dataset} that its own scorer accepts")
        return f"\\boxed{{{state.answer}}}"

    def _judge(self, state: Item, action: str) -> Verdict:
        if self.dataset in EXPRESSIONS:
            facts = json.loads(state.facts)
            return grade("countdown", action, {"numbers": facts["numbers"], "target": facts.get("target", 24)})
        extracted = extract(action)
        if extracted.answer is None:
            return unparsable(extracted.reason)
        answer = extracted.answer.encode("utf-8", "replace").decode()
        try:
            if self.dataset in FORMS and not FORMS[self.dataset].fullmatch(answer):
                return unparsable("the answer is not written as the question asks for it", answer)
            if self.dataset in THEIRS:
                right = self._score(state, answer) >= 1.0
            elif self.dataset in INTEGRALS:
                right = _same_integral(answer, state.answer or "", json.loads(state.facts)["variable"])
            elif self.dataset == "polynomial_multiplication":
                return grade("math", f"\\boxed{{{_notation(answer)}}}", _notation(state.answer or ""))
            else:
                right = state.answer is not None and same(answer, state.answer)
        except WorkerError as error:
            return verdict_on_fault(error, lambda: self._reference_alone(state), answer, "verifier_error")
        except ValueError as error:
            return unparsable(str(error)[:200], answer)
        return correct(answer) if right else wrong(answer)

    def _score(self, state: Item, answer: str) -> float:
        score: float = call(WORKER, "score", [self.dataset, state.level, state.seed, answer], SCORE_SECONDS)
        return score

    def _reference_alone(self, state: Item) -> None:
        """Score the reference as an answer, or "0" where there is none.

        Raises:
            WorkerError: that fails, too.
        """
        gold = "0" if state.answer is None else state.answer
        if self.dataset in INTEGRALS:
            _same_integral(gold, gold, json.loads(state.facts)["variable"])
        else:
            self._score(state, gold)


def same(answer: str, gold: str) -> bool:
    """Whether two answers are the same text, number or JSON value; blanks and case do not count."""
    if _lines(answer) == _lines(gold):
        return True
    try:
        wanted = _value(gold)
        return wanted is not None and wanted == _value(answer)
    except (ValueError, RecursionError):
        return False


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()).casefold() for line in text.strip().splitlines() if line.strip()]


def _value(text: str) -> Any:
    """A number, or lists and objects of JSON with their numbers; None for other text."""
    text = text.strip().replace("\u2212", "-").removesuffix(".")
    if (number := _number(text)) is not None:
        return number
    if text[:1] + text[-1:] in ("[]", "{}"):
        return _plain(json.loads(text.replace("'", '"')))
    return None


def _number(text: str) -> Fraction | None:
    """``-1,234.50`` as a number; no powers of ten, which can be too large to build."""
    digits = text.replace(",", "").removeprefix("+")
    body = digits.removeprefix("-")
    if not body.isascii() or len(body) > 60 or body.count(".") > 1 or not body.replace(".", "", 1).isdigit():
        return None
    return Fraction(digits)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        raise ValueError("not a number")
    number = _number(str(value)) if isinstance(value, (int, float, str)) else None
    return value if number is None else number


def _notation(text: str) -> str:
    """sympy's way of writing in the letters of our own grammar: powers, and the natural logarithm."""
    return text.replace("**", "^").replace("log(", "ln(").replace("E^", "e^")


def _same_integral(answer: str, gold: str, variable: str) -> bool:
    from rlvr.envs.rewards.graders.mathematical import as_lists, check_cost
    from rlvr.envs.rewards.grammar.expression import parse

    lists = []
    for text in (answer, gold):
        tree = parse(_notation(text))
        check_cost(tree)
        lists.append(as_lists(tree))
        if not _operations(lists[-1]) <= SCALAR:
            raise ValueError("the answer is no function")
    return bool(call(WORKER, "same_up_to_constant", [*lists, variable], SCORE_SECONDS))


def _operations(tree: list[Any]) -> set[str]:
    return {str(tree[0])}.union(*(_operations(branch) for branch in tree[4]))
