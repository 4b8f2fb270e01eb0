"""ProposerSolver: one seat writes tasks in a small checked language, and the others solve them.

A task is an arithmetic expression over numbers that chance has dealt, so its value is exact, no text of the proposer
reaches a solver, and no task can be learned by heart. Chance adds to the numbers once the proposal is made, so that a
pair cannot agree on a value. The difficulty of a task is counted, not claimed.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.core.seeding import stream
from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly

DEALT: Final = 6  # numbers of a round
SMALLEST, LARGEST = 2, 99  # of the numbers that are dealt
GROWTH: Final = 9  # the most that chance adds to a number of a proposal
LEAST, MOST = 2, 999_999  # values of a task and of each part of it
FULL: Final = 16  # digit operations from which a task has the full difficulty
EXAMPLES: Final = 60  # expressions of a hand that are given as examples of legal moves
ANSWERS: Final = tuple(map(str, range(LEAST, 1000)))  # examples of answers
_TEXT: Final = re.compile(r"[0-9+*() -]{1,80}")
_ANSWER: Final = re.compile(r"[1-9][0-9]{0,6}")
_SIGNS: Final[dict[type, str]] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_SPELLINGS: Final = (("\\times", "*"), ("\\cdot", "*"), ("×", "*"), ("·", "*"), ("−", "-"))
PAYS: Final = ("difficulty", "learnability", "absolute_zero")


class CheckedTask(NamedTuple):
    """An expression in its usual spelling, its value, its numbers in order, and its digit operations."""

    text: str
    value: int
    numbers: tuple[int, ...]
    work: int


class ProposalState(NamedTuple):
    """A match so far.

    Attributes:
        dealt: the numbers, six for each round.
        proposals: an expression for each round.
        added: what chance added to the numbers of the proposals, in their order.
        answers: of each round those of all solvers.
    """

    dealt: tuple[int, ...] = ()
    proposals: tuple[str, ...] = ()
    added: tuple[int, ...] = ()
    answers: tuple[tuple[int, ...], ...] = ()


class ProposerSolver(SeatGame[ProposalState]):
    """Proposer and solver: one seat writes arithmetic tasks, the others solve them; hard tasks pay if they are solved.

    Args:
        rounds: tasks of a match, 1 to 8.
        solvers: seats that solve, 1 to 8; several answer at once.
        pays: what a task pays the proposer, where p is the share of the solvers that were right. ``difficulty``: p
            times the share of 16 digit operations that the task takes. ``learnability``: 4 p (1 - p), four times the
            variance of a success (2408.15099). ``absolute_zero``: 1 - p, but 0 where p is 0 (2505.03335, eq. 4). The
            last two want several solvers.
    """

    title = "Proposer and solver"
    first_state = ProposalState()
    zero_sum = False
    lists_all = False
    lowest = -1.0  # of a forfeit; no play is worse than 0
    nouns = ("task", "propose", "my", "i")

    def __init__(self, *, rounds: int = 3, solvers: int = 1, pays: str = "difficulty") -> None:
        check_range("rounds", rounds, 1, 8)
        check_range("solvers", solvers, 1, 8)
        if pays not in PAYS:
            raise ValueError(f"pays must be one of {', '.join(PAYS)}, not {pays!r}")
        if pays != "difficulty" and solvers == 1:
            raise ValueError(f"pays {pays!r} compares several solvers: set solvers to 2 or more")
        self.rounds, self.pays = rounds, pays
        self.seats = 1 + solvers
        self.in_turn = solvers == 1
        self.decisions = self.rounds  # one in each round

    def rules(self) -> str:
        several = self.seats > 2
        solvers = f"Seats 1 to {self.seats - 1} solve" if several else "Seat 1 solves"
        pay = {
            "difficulty": f"n/{FULL}, at most 1, times the share of solvers that answer rightly",
            "learnability": "4 p (1 - p), where p is the share of solvers that answer rightly",
            "absolute_zero": "the share of solvers that answer wrongly, but nothing if all of them do",
        }[self.pays]
        if not several:
            pay = f"n/{FULL}, at most 1, if seat 1 answers rightly, and nothing otherwise"
        return (
            f"Proposer and solver, {self.rounds} {'round' if self.rounds == 1 else 'rounds'}. Seat 0 proposes a task. "
            f"{solvers} it{', all at once' if several else ''}. In each round "
            f"{DEALT} different numbers are dealt, which all see and which never come again. Seat 0 proposes an "
            "expression of two to six of them, each used at most once, joined by + - * and brackets, such as "
            f"(12 + 7) * 40. Chance then adds 0 to {GROWTH} to each of its numbers, and this is the task. Whatever is "
            f"added, every part must have a value from {LEAST} to {MOST}. An answer is the value of the task, a whole "
            "number. Count the non-zero digits of the two numbers of an operation: a product takes the one count times "
            "the other in digit operations, a sum or a difference the smaller count. A task of n digit operations in "
            f"all pays the proposer {pay}. A right answer pays its solver 1. Each seat wins the mean over the rounds."
        )

    def actors(self, state: ProposalState) -> tuple[int, ...]:
        done = len(state.answers)
        if done == self.rounds:
            return ()
        if len(state.dealt) < DEALT * (done + 1):
            return (CHANCE,)
        if len(state.proposals) == done:
            return (0,)
        return tuple(range(1, self.seats)) if self.is_posed(state) else (CHANCE,)

    @staticmethod
    def is_posed(state: ProposalState) -> bool:
        """Whether chance has added to all numbers of the proposals."""
        return len(state.added) == sum(len(checked_task(text).numbers) for text in state.proposals)

    @staticmethod
    def task(state: ProposalState, at: int) -> CheckedTask:
        """The task of a round: its proposal with what was added."""
        first = sum(len(checked_task(text).numbers) for text in state.proposals[:at])
        proposal = checked_task(state.proposals[at])
        return grown(proposal.text, state.added[first : first + len(proposal.numbers)])

    def chance(self, state: ProposalState) -> list[tuple[str, float]]:
        if len(state.proposals) > len(state.answers):
            return [(str(number), 1 / (GROWTH + 1)) for number in range(GROWTH + 1)]
        return evenly([number for number in range(SMALLEST, LARGEST + 1) if number not in state.dealt])

    @staticmethod
    def hand(state: ProposalState) -> tuple[int, ...]:
        """The numbers of the round."""
        return state.dealt[DEALT * len(state.answers) : DEALT * (len(state.answers) + 1)]

    def legal(self, state: ProposalState, seat: int) -> Sequence[str]:
        return ANSWERS if seat else examples(self.hand(state))

    def is_legal(self, state: ProposalState, seat: int, move: str) -> bool:
        """Any checked task of the hand in its usual spelling, any whole number of up to seven digits."""
        if seat:
            return _ANSWER.fullmatch(move) is not None
        task = checked(move)
        return task is not None and task.text == move and {*task.numbers} <= {*self.hand(state)}

    def spelled(self, text: str) -> str:
        """Signs of LaTeX and of typography as those of the language."""
        for written, sign in _SPELLINGS:
            text = text.replace(written, sign)
        return text

    def parse(self, view: ProposalState, seat: int, words: str) -> str:
        """A task without ``= ?`` behind it, in its usual spelling; an answer without the commas of thousands."""
        if seat:
            return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", words)
        task = checked(words.removesuffix("?").rstrip().removesuffix("=").strip())
        return task.text if task else words

    def apply(self, state: ProposalState, seat: int, move: str) -> ProposalState:
        if seat == CHANCE and len(state.proposals) > len(state.answers):
            return state._replace(added=(*state.added, int(move)))
        if seat == CHANCE:
            return state._replace(dealt=(*state.dealt, int(move)))
        if seat:
            return state._replace(answers=(*state.answers, (int(move),)))
        return state._replace(proposals=(*state.proposals, move))

    def apply_all(self, state: ProposalState, moves: Mapping[int, str]) -> ProposalState:
        if len(moves) == 1:
            return super().apply_all(state, moves)
        return state._replace(answers=(*state.answers, tuple(int(moves[seat]) for seat in sorted(moves))))

    def pay(self, task: CheckedTask, right: float) -> float:
        """What a task pays the proposer where a share of the solvers was right."""
        if self.pays == "learnability":
            return 4 * right * (1 - right)
        if self.pays == "absolute_zero":
            return 1 - right if right else 0.0
        return right * difficulty_of(task)

    def returns(self, state: ProposalState) -> tuple[float, ...]:
        count = self.seats - 1
        won, paid = [0.0] * count, 0.0
        for at, answers in enumerate(state.answers):
            task = self.task(state, at)
            right = [float(answer == task.value) for answer in answers]
            won = [so_far + each for so_far, each in zip(won, right, strict=True)]
            paid += self.pay(task, sum(right) / count)
        return tuple(value / self.rounds for value in (paid, *won))

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return max(0.0, returns[seat])

    def payoff(self, returns: Sequence[float], seat: int) -> float:
        return self.outcome(returns, seat)

    def forfeited(self, seat: int, state: ProposalState) -> tuple[float, ...]:
        return tuple(self.lowest if other == seat else float(seat == 0) for other in range(self.seats))

    def relies_on(self, seat: int) -> Sequence[int]:
        return () if seat else range(1, self.seats)

    def effort(self, view: ProposalState, seat: int) -> int:
        """The digit operations of a task: who errs at times errs more often in a harder one."""
        return self.task(view, len(view.answers)).work if seat else 1

    def show(self, view: ProposalState, seat: int) -> str:
        lines = []
        for at, answers in enumerate(view.answers):
            task = self.task(view, at)
            answered = ", ".join(
                f"seat {solver} answered {answer}, {'right' if answer == task.value else 'wrong'}"
                for solver, answer in enumerate(answers, 1)
            )
            became = f"{view.proposals[at]} became {task.text}"
            lines.append(f"Round {at + 1}: {became}, which is {task.value}, {operations(task)}; {answered}.")
        if len(view.answers) < self.rounds:
            hand = ", ".join(map(str, self.hand(view)))
            lines.append(f"Round {len(view.answers) + 1} of {self.rounds}. Numbers: {hand}.")
            if len(view.proposals) > len(view.answers) and self.is_posed(view):
                task = self.task(view, len(view.answers))
                lines.append(f"Proposed: {view.proposals[-1]}")
                lines.append(f"The task, of {operations(task)}: {task.text}")
        return "\n".join(lines)

    def expert(self, view: ProposalState, seat: int, rng: random.Random) -> str:
        """Solvers compute; the proposer makes the next task harder where half or more solved the last, else easier."""
        if seat:
            return str(self.task(view, len(view.answers)).value)
        target = 3 * FULL / 4 if self.pays == "difficulty" else FULL / 2
        for at, answers in enumerate(view.answers):
            task = self.task(view, at)
            solved = sum(answer == task.value for answer in answers) * 2 >= len(answers)
            target = min(1.5 * target, FULL) if solved else max(target / 2, 1)
        tasks = [checked_task(text) for text in self.legal(view, 0)]
        return min(tasks, key=lambda task: (abs(min(task.work, FULL) - target), rng.random())).text


def difficulty_of(task: CheckedTask) -> float:
    """The share of sixteen digit operations that a task takes, at most 1."""
    return min(1.0, task.work / FULL)


def operations(task: CheckedTask) -> str:
    """``1 digit operation``, ``12 digit operations``."""
    return f"{task.work} digit operation{'s' * (task.work != 1)}"


def checked_task(text: str) -> CheckedTask:
    """A task that was checked before."""
    task = checked(text)
    if task is None:
        raise ValueError(f"{text!r} is no task")
    return task


@lru_cache(maxsize=4096)
def checked(text: str) -> CheckedTask | None:
    """The proposal that a text is, as it stands.

    None where it is none: another sign, a number twice, or a part that may leave the bounds once chance has added.
    """
    if not _TEXT.fullmatch(text):
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    numbers: list[int] = []
    part = _part(tree, numbers, GROWTH)
    if part is None or not 2 <= len(numbers) == len({*numbers}) <= DEALT or max(numbers) > LARGEST:
        return None
    return CheckedTask(ast.unparse(tree), part.value, tuple(numbers), part.work)


@lru_cache(maxsize=4096)
def grown(proposal: str, added: tuple[int, ...]) -> CheckedTask:
    """The task that a proposal becomes, with what chance adds to its numbers from the left to the right."""
    more = iter(added)
    text = re.sub("[0-9]+", lambda number: str(int(number[0]) + next(more)), proposal)
    numbers: list[int] = []
    part = _part(ast.parse(text, mode="eval").body, numbers, 0)
    if part is None:
        raise ValueError(f"{text!r} is no task")
    return CheckedTask(text, part.value, tuple(numbers), part.work)


class ExpressionPart(NamedTuple):
    """A part of an expression: its value and work as it stands, and the least and the most that it may become."""

    value: int
    work: int
    least: int
    greatest: int


def _part(node: ast.AST, numbers: list[int], growth: int) -> ExpressionPart | None:
    """What a part is, whose numbers are added to a list; None where it is no task."""
    if isinstance(node, ast.Constant):
        if type(node.value) is not int or not SMALLEST <= node.value <= LARGEST + GROWTH:
            return None
        numbers.append(node.value)
        return ExpressionPart(node.value, 0, node.value, node.value + growth)
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SIGNS:
        return None
    left, right = _part(node.left, numbers, growth), _part(node.right, numbers, growth)
    if left is None or right is None:
        return None
    return joined(_SIGNS[type(node.op)], left, right)


def joined(sign: str, left: ExpressionPart, right: ExpressionPart) -> ExpressionPart | None:
    """One operation; None where it may leave the bounds, which are sharp: numbers are positive and occur once."""
    against = (right.greatest, right.least) if sign == "-" else (right.least, right.greatest)
    least, greatest = combined(sign, left.least, against[0]), combined(sign, left.greatest, against[1])
    if least < LEAST or greatest > MOST:
        return None
    work = left.work + right.work + digit_operations(sign, left.value, right.value)
    return ExpressionPart(combined(sign, left.value, right.value), work, least, greatest)


def combined(sign: str, left: int, right: int) -> int:
    """The value of one operation."""
    return left + right if sign == "+" else left - right if sign == "-" else left * right


def digit_operations(sign: str, left: int, right: int) -> int:
    """How many steps the method of school takes; zeros take none.

    >>> digit_operations("*", 120, 34), digit_operations("+", 1999, 7)
    (4, 1)
    """
    digits = [len(str(number).replace("0", "")) for number in (left, right)]
    return digits[0] * digits[1] if sign == "*" else min(digits)


@lru_cache(maxsize=1024)
def examples(hand: tuple[int, ...]) -> tuple[str, ...]:
    """Sixty different tasks of a hand, from two numbers to all of them; equal hands have equal examples."""
    rng, texts = stream("ProposerSolver", "examples", *hand), dict[str, Any]()
    while len(texts) < EXAMPLES:
        drawn = rng.sample(hand, rng.randint(2, rng.randint(2, len(hand))))
        parts = [(str(number), ExpressionPart(number, 0, number, number + GROWTH)) for number in drawn]
        while len(parts) > 1:
            (left, a), (right, b) = (parts.pop(rng.randrange(len(parts))) for _ in range(2))
            fits = [(sign, part) for sign in "+-**" if (part := joined(sign, a, b))]
            if not fits:
                break
            sign, part = rng.choice(fits)
            parts.append((f"({left} {sign} {right})", part))
        else:
            texts[checked_task(parts[0][0]).text] = None
    return tuple(texts)
