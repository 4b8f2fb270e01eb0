"""NaturalDeduction: prove theorems line by line; a kernel checks each line and says what is wrong with it.

Many turns; reward 1 for a whole proof.
"""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Final, NamedTuple

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.logic.deduction_kernel import (
    FIRST_ORDER,
    NEW_NAME,
    PROPOSITIONAL,
    RULES,
    InferenceRule,
    Proof,
    ProofError,
    ProofStep,
    read_step,
)
from rlvr.envs.logic.formulas import written
from rlvr.envs.logic.theorems import Theorem, TheoremSize, draw_theorem, skeleton
from rlvr.envs.rewards.extraction import visible_text

LEVELS: Final = (
    TheoremSize(2, 3, max_premises=3, letters=5),
    TheoremSize(4, 6, max_premises=4, letters=5),
    TheoremSize(7, 11, max_premises=6, letters=6),
    TheoremSize(7, 12, max_premises=6, letters=5, first_order=True),
    TheoremSize(13, 22, max_premises=9, letters=8, first_order=True),
)
TURNS: Final = (4, 5, 7, 8, 12)
EXPERT_LINES: Final = 4  # in a turn
# What a line of a proof begins with; other lines of a reply are words beside the proof.
_NUMBERED: Final = re.compile(r"[ \t]*[0-9]{1,9}\.", re.ASCII)
_CITED_AS: Final = (("i", "j"), ("j-k", "m-n"))
UNREAD: Final = "No line of a proof was found: it begins with its number and a full stop, such as 4. P [repeat 1]."


class ProofState(NamedTuple):
    """The theorem, the lines that stand, the turns used, and what the kernel said of the last submission."""

    theorem: Theorem
    level: int
    proof: Proof
    turn: int = 0
    message: str = ""


class NaturalDeduction(Task[ProofState]):
    """Prove a theorem by natural deduction, in lines that a kernel checks.

    Levels 1 to 5: proofs of 2 or 3, 4 to 6 and 7 to 11 lines below the premises in propositional logic, of 7 to 12 and
    13 to 22 in first-order logic.

    Proofs are in Fitch's form, and classical. A derivation is drawn rule by rule and its leaves are the premises, so
    that a proof is known; no premise is idle, and from level 2 on no single rule leads to the goal. No two splits have
    theorems that differ in letters, names and the order of premises alone.

    Observation: the rules, the premises and the goal; then which lines were accepted, and what is wrong with the first
        that was not.
    Actions: one or more lines such as ``4. | P and Q [and-intro 1, 3]``, up to the whole proof.
    Reward: 1 when the goal stands under no assumption, else 0.
    Episode end: the goal is proved, or the turns are used up.
    """

    levels = len(LEVELS)
    system = (
        "You write a proof by natural deduction. Reply with its next lines, one or more, such as\n"
        "3. P and Q [and-intro 1, 2]\n"
        "A line has its number, a formula, and in brackets the rule and the lines that it cites."
    )

    def start(self, rng: random.Random, level: int) -> ProofState:
        """A theorem whose proof has the level's length."""
        theorem = draw_theorem(rng, LEVELS[level - 1])
        return ProofState(theorem, level, Proof.begin(theorem.premises))

    def content(self, state: ProofState) -> str:
        """The theorem without its letters and names."""
        return skeleton(state.theorem)

    def difficulty(self, state: ProofState) -> float:
        """Lines of the proof that is known."""
        return float(len(state.theorem.proof))

    def turns(self, level: int) -> int:
        """At least twice as many as the expert needs, or two more."""
        return TURNS[level - 1]

    def observe(self, state: ProofState) -> str:
        """Rules and theorem; then the kernel's answer and the turns left."""
        if state.turn:
            return f"{state.message}\nTurns left: {TURNS[state.level - 1] - state.turn}."
        size = LEVELS[state.level - 1]
        premises = "\n".join(str(line.step) for line in state.proof.lines) or "none"
        return (
            f"{guide(size.first_order)}\n\nPremises:\n{premises}\n\nProve: {written(state.theorem.goal)}\n"
            f"You have {TURNS[state.level - 1]} turns. Lines that are accepted stand; a refused one is explained."
        )

    def apply(self, state: ProofState, action: str) -> Transition:
        """The kernel takes line after line, up to the goal or the first that does not follow."""
        texts = [text for text in visible_text(action).split("\n") if _NUMBERED.match(text)]
        after = state._replace(turn=state.turn + 1, message=UNREAD)
        if not texts:
            return Transition(after, Verdict(0.0, "unparsable", reason=UNREAD))
        proof, goal = state.proof, state.theorem.goal
        for text in texts:
            try:
                step = read_step(text)
                if step.number <= len(proof.lines) and proof.lines[step.number - 1].step == step:
                    continue  # it is written again
                proof = proof.extended(step)
            except ProofError as error:
                label = text.strip().partition(".")[0][:9]
                message = f"Line {label} is refused: {error}. {_standing(proof)}"
                return Transition(after._replace(proof=proof, message=message), Verdict(0.0, "partial", reason=message))
            if proof.proves(goal):
                return Transition(
                    after._replace(proof=proof), correct(str(step), "the goal is proved"), terminated=True
                )
        message = f"Accepted. {_standing(proof)} The goal is not proved yet."
        return Transition(after._replace(proof=proof, message=message), Verdict(0.0, "partial", reason=message))

    def solve(self, state: ProofState) -> str:
        """The next four lines of the known proof; below other lines it begins anew."""
        lines, (premises, _, known) = state.proof.lines, state.theorem
        written_steps = tuple(line.step for line in lines[len(premises) :])
        ways = [[_shifted(step, shift, len(premises)) for step in known] for shift in range(len(written_steps) + 1)]
        shift, steps = next(
            (n, way) for n, way in enumerate(ways) if (*way,)[: len(written_steps) - n] == written_steps[n:]
        )
        return "\n".join(map(str, steps[len(written_steps) - shift :][:EXPERT_LINES]))

    def sample_action(self, state: ProofState, rng: random.Random) -> str:
        """A formula that stands already, by a rule and with lines of chance."""
        lines = state.proof.lines
        number = len(lines) + 1
        formula = rng.choice([state.theorem.goal, *(line.step.formula for line in lines)])
        rule = rng.choice([name for name, rule in RULES.items() if "s" not in rule.cites])
        cited = tuple((rng.randrange(1, number), 0) for _ in RULES[rule].cites) if lines else ()
        return str(ProofStep(number, 0, formula, rule, cited))

    def out_of_turns(self, state: ProofState, turns: int) -> Verdict:
        """Wrong, however many lines stand."""
        return wrong(reason=f"the goal was not proved in {turns} turns")


def _standing(proof: Proof) -> str:
    return f"{len(proof.lines)} lines stand; the next one is line {len(proof.lines) + 1}."


def _shifted(step: ProofStep, shift: int, premises: int) -> ProofStep:
    """The step with its number, and those that it cites below the premises, moved by ``shift``."""

    def moved(number: int) -> int:
        return number + shift if number > premises else number

    cited = tuple((moved(first), moved(last)) for first, last in step.cited)
    return step._replace(number=moved(step.number), cited=cited)


@cache
def guide(first_order: bool) -> str:
    """How formulas and proofs are written, and the rules."""
    quantifiers = ", all x: and some x:, with the names a to t and the variables u to z" if first_order else ""
    rules = PROPOSITIONAL | FIRST_ORDER if first_order else PROPOSITIONAL
    new = f"\n{NEW_NAME}" if first_order else ""
    return (
        f"Formulas are made of letters with not, and, or, implies, false{quantifiers}. A formula of two parts has "
        "brackets around it inside of another. An assumption, such as 4. | P [assume], opens a subproof, whose lines "
        "have one bar more. A line may cite lines above it that stand in no closed subproof, and the closed subproof "
        "of lines 4 to 6 as 4-6.\nRules, with what is cited before => and what follows behind it:\n"
        + "\n".join(_rule_line(name, rule) for name, rule in rules.items())
        + new
    )


def _rule_line(name: str, rule: InferenceRule) -> str:
    lines, subproofs = (labels[: rule.cites.count(kind)] for kind, labels in zip("ls", _CITED_AS, strict=True))
    return f"[{name} {', '.join((*lines, *subproofs))}]: {rule.text}"
