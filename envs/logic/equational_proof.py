"""EquationalProof: turn one term into another by the laws of an algebra, a law a step; a kernel checks each step.

Many turns; reward 1 for reaching the other term.
"""

from __future__ import annotations

import random
import re
from typing import Final, NamedTuple

from rlvr.envs.core.seeding import SPLITS, split_of
from rlvr.envs.core.task import DRAWS, Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.logic.equations import (
    LETTERS,
    MAX_CHARS,
    VARIABLES,
    AlgebraTerm,
    EquationalTheory,
    TermError,
    algebras,
    filled,
    is_step,
    matches,
    read_term,
    replaced,
    subterms,
    term_text,
)
from rlvr.envs.rewards.extraction import visible_text


class WalkSize(NamedTuple):
    """Letters of the first term, steps of the proof, and letters that a term on the way may have."""

    letters: int
    min_steps: int
    max_steps: int
    max_letters: int


LEVELS: Final = (
    WalkSize(4, 2, 2, 6),
    WalkSize(4, 3, 4, 7),
    WalkSize(5, 5, 6, 9),
    WalkSize(5, 7, 9, 10),
    WalkSize(6, 10, 14, 12),
)
TURNS: Final = (3, 4, 5, 7, 9)
EXPERT_LINES: Final = 4  # in a turn
MAX_STEPS: Final = 200
_LINE: Final = re.compile(r"=([^\[\]=]*)\[ *law +([0-9]{1,2})( +backwards)? *\]", re.ASCII)
UNREAD: Final = "No step was found: it begins with =, such as = a * b [law 1], or = a * b [law 1 backwards]."


class Rewriting(NamedTuple):
    """A step: the term that it leads to, the index of the law, and whether that is used from right to left."""

    term: AlgebraTerm
    law: int
    backwards: bool

    def __str__(self) -> str:
        return f"= {term_text(self.term)} [law {self.law + 1}{' backwards' * self.backwards}]"


class EquationState(NamedTuple):
    """The algebra, the first term, the known proof, the steps that stand, and what the last submission led to."""

    algebra: EquationalTheory
    level: int
    first: AlgebraTerm
    proof: tuple[Rewriting, ...]
    steps: tuple[Rewriting, ...] = ()
    turn: int = 0
    message: str = ""

    def now(self) -> AlgebraTerm:
        """The term that the steps have led to."""
        return self.steps[-1].term if self.steps else self.first


class EquationalProof(Task[EquationState]):
    """Prove an equation in an algebra, by steps that each use one law once.

    Levels 1 to 5: proofs of 2, 3 or 4, 5 or 6, 7 to 9 and 10 to 14 steps, on first terms of four to six letters.

    A walk of random steps gives the equation and its proof; no two of its terms are nearer to each other by a single
    step than they are on the walk. There are eight algebras in the train split (groups, rings, lattices, …), two in the
    validation split and two others in the test split, Boolean algebras and involutory quandles.

    Observation: the laws and the equation; then which steps were accepted, and why the first other one was not.
    Actions: one or more steps such as ``= a * (b * c) [law 1]`` or ``= (a * b) * c [law 1 backwards]``, up to the whole
        proof; position and substitution are found by the kernel.
    Reward: 1 when the steps have led to the right side of the equation, else 0.
    Episode end: the equation is proved, or the turns are used up.
    """

    levels = len(LEVELS)
    system = (
        "You prove an equation. Begin with its left side and reply with the next steps, one or more, each on a line of "
        "its own: = and the new term, then in brackets the law that was used once, at one position: [law 1] from left "
        "to right, or [law 1 backwards]."
    )

    def start(self, rng: random.Random, level: int) -> EquationState:
        """A first term that is of the split of its algebra, and a walk from it."""
        split = SPLITS[max(0, rng.randrange(10) - 7)]  # eight in ten are of the train split
        size = LEVELS[level - 1]
        for _ in range(DRAWS):
            each = rng.choice(algebras()[split])
            first = _first_term(rng, each, size.letters)
            if split_of(_content(each, first)) == split and (proof := _walk(rng, each, first, size)):
                return EquationState(each, level, first, proof)
        raise RuntimeError(f"no walk of level {level} was found in {DRAWS} draws")

    def content(self, state: EquationState) -> str:
        """The algebra, and the first term with letters by their first occurrence."""
        return _content(state.algebra, state.first)

    def difficulty(self, state: EquationState) -> float:
        """Steps of the proof that is known."""
        return float(len(state.proof))

    def turns(self, level: int) -> int:
        """About twice as many as the expert needs."""
        return TURNS[level - 1]

    def observe(self, state: EquationState) -> str:
        """The laws and the equation; then the kernel's answer and the turns left."""
        if state.turn:
            return f"{state.message}\nTurns left: {TURNS[state.level - 1] - state.turn}."
        laws = "\n".join(f"law {number}: {law}" for number, law in enumerate(state.algebra.laws, 1))
        return (
            f"These laws hold for all {', '.join(VARIABLES)}:\n{laws}\n\nProve: {term_text(state.first)} = "
            f"{term_text(state.proof[-1].term)}\n"
            "An operation between two terms has brackets around it inside of another one. "
            f"You have {TURNS[state.level - 1]} turns. Steps that are accepted stand; a refused one is explained."
        )

    def apply(self, state: EquationState, action: str) -> Transition:
        """The kernel takes step after step, up to the right side or the first that uses no law once."""
        lines = [line for line in map(str.strip, visible_text(action).split("\n")) if line[:1] == "="]
        after = state._replace(turn=state.turn + 1, message=UNREAD)
        if not lines:
            return Transition(after, Verdict(0.0, "unparsable", reason=UNREAD))
        goal = state.proof[-1].term
        for number, line in enumerate(lines, 1):
            try:
                step = _checked_step(after, line)
            except TermError as error:
                message = f"Step {number} of your {len(lines)} is refused: {error}. {_standing(after)}"
                return Transition(after._replace(message=message), Verdict(0.0, "partial", reason=message))
            after = after._replace(steps=(*after.steps, step))
            if step.term == goal:
                return Transition(after, correct(str(step), "the equation is proved"), terminated=True)
        message = f"Accepted. {_standing(after)} That is not the right side yet."
        return Transition(after._replace(message=message), Verdict(0.0, "partial", reason=message))

    def solve(self, state: EquationState) -> str:
        """The next four steps of the known proof; from a term that it has not, back along the steps that led there."""
        known = [state.first, *(step.term for step in state.proof)]
        terms = [state.first, *(step.term for step in state.steps)]
        lines: list[Rewriting] = []
        while terms[-1] not in known:
            step = state.steps[len(terms) - 2]
            terms.pop()
            lines.append(Rewriting(terms[-1], step.law, not step.backwards))
        lines += state.proof[known.index(terms[-1]) :]
        return "\n".join(map(str, lines[:EXPERT_LINES]))

    def sample_action(self, state: EquationState, rng: random.Random) -> str:
        """A step by a law, at a position of chance."""
        return str(rng.choice(_steps_from(rng, state.algebra, state.now())))

    def out_of_turns(self, state: EquationState, turns: int) -> Verdict:
        """Wrong, however near the last term is."""
        return wrong(reason=f"the equation was not proved in {turns} turns")


def _checked_step(state: EquationState, line: str) -> Rewriting:
    """The step that a line writes.

    Raises:
        TermError: it is none, or the law does not lead there.
    """
    match = _LINE.fullmatch(line) if len(line) <= 2 * MAX_CHARS else None
    if match is None:
        raise TermError(f"{line[:60]!r} is no step: write = and a term, then [law 1] or [law 1 backwards]")
    laws, index = state.algebra.laws, int(match[2]) - 1
    if not 0 <= index < len(laws):
        raise TermError(f"the laws have the numbers 1 to {len(laws)}")
    if len(state.steps) >= MAX_STEPS:
        raise TermError(f"a proof has {MAX_STEPS} steps at most")
    step = Rewriting(
        read_term(match[1], state.algebra.operations, LETTERS + state.algebra.constants), index, bool(match[3])
    )
    if not is_step(state.now(), step.term, laws[index], step.backwards):
        left, right = laws[index].sides(step.backwards)
        raise TermError(f"no single use of {term_text(left)} = {term_text(right)} leads there")
    return step


def _standing(state: EquationState) -> str:
    return f"The term is now {term_text(state.now())}."


# drawing an equation


def _content(each: EquationalTheory, first: AlgebraTerm) -> str:
    order = dict.fromkeys(letter for _, letter in subterms(first) if isinstance(letter, str) and letter in LETTERS)
    return f"{each.name}: {term_text(filled(first, dict(zip(order, LETTERS, strict=False))))}"


def _first_term(rng: random.Random, each: EquationalTheory, letters: int) -> AlgebraTerm:
    """A random term of so many letters and constants."""
    binary = [name for name, count in each.operations.items() if count == 2]
    unary = [name for name, count in each.operations.items() if count == 1]

    def term(size: int) -> AlgebraTerm:
        if unary and rng.random() < 0.2:
            return (rng.choice(unary), term(size) if size > 1 else rng.choice(LETTERS[:3]))
        if size == 1:
            return rng.choice(LETTERS[:3] + each.constants)
        cut = rng.randrange(1, size)
        return (rng.choice(binary), term(cut), term(size - cut))

    return term(letters)


def _letters(term: AlgebraTerm) -> int:
    return 1 if isinstance(term, str) else sum(map(_letters, term[1:]))


def _steps_from(rng: random.Random, each: EquationalTheory, term: AlgebraTerm) -> list[Rewriting]:
    """The steps from a term; a variable that only the new side has stands for a part of the term by chance."""
    parts = [*subterms(term)]
    found = []
    for path, part in parts:
        for index, law in enumerate(each.laws):
            for backwards in (False, True):
                left, right = law.sides(backwards)
                values: dict[str, AlgebraTerm] = {}
                if matches(left, part, values):
                    for variable in VARIABLES:
                        if variable not in values:
                            values[variable] = rng.choice(parts)[1]
                    new = filled(right, values)
                    if new != part:
                        found.append(Rewriting(replaced(term, path, new), index, backwards))
    return found


def _walk(rng: random.Random, each: EquationalTheory, first: AlgebraTerm, size: WalkSize) -> tuple[Rewriting, ...]:
    """A walk without a shorter way between two of its terms by one step; empty where none is long enough."""
    aim = rng.randint(size.min_steps, size.max_steps)
    terms, steps = [first], list[Rewriting]()
    for _ in range(2 * aim + 6):
        possible = [
            step
            for step in _steps_from(rng, each, terms[-1])
            if step.term not in terms and _letters(step.term) <= size.max_letters
        ]
        if not possible:
            return ()
        laws = sorted({step.law for step in possible})
        law = rng.choice(laws)
        step = rng.choice([step for step in possible if step.law == law])
        if any(_is_near(each, term, step.term) for term in terms[:-1]):
            continue
        terms.append(step.term)
        steps.append(step)
        if len(steps) == aim:
            return tuple(steps)
    return ()


def _is_near(each: EquationalTheory, before: AlgebraTerm, after: AlgebraTerm) -> bool:
    return any(is_step(before, after, law, backwards) for law in each.laws for backwards in (False, True))
