"""Rocq: prove theorems by tactics; the prover checks them, and a second process checks the proof.

Many turns; reward 1 for a whole proof.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from itertools import count
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.core.seeding import split_of
from rlvr.envs.core.tables import DataError, Source, load_rows
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.logic.rocq import prover
from rlvr.envs.logic.rocq.arithmetic import draw_arithmetic
from rlvr.envs.logic.rocq.derivations import derivation
from rlvr.envs.logic.rocq.lists import draw_pipeline
from rlvr.envs.logic.rocq.problem import ProvenTheorem
from rlvr.envs.logic.rocq.script import MAX_SENTENCES, ScriptError, read_script
from rlvr.envs.logic.theorems import TheoremSize
from rlvr.envs.rewards.graders.code import sandbox_fault
from rlvr.envs.sandbox import SandboxError, SandboxUnavailable
from rlvr.envs.tools.tool import shown

PROPOSITIONAL: Final = TheoremSize(4, 6, max_premises=4, letters=5)
FIRST_ORDER: Final = TheoremSize(5, 9, max_premises=6, letters=5, first_order=True)
TURNS: Final = (6, 8, 8, 10, 20)
EXPERT_SENTENCES: Final = 16  # in a turn
ROWS: Final = Source(
    folder="rocq", hub=None, revision="main", columns=("statement",), optional=("header", "definitions", "proof")
)
RANDOM: Final = ("intros.", "split.", "left.", "right.", "assumption.", "reflexivity.", "constructor.", "Restart.")


class RocqState(NamedTuple):
    """The problem, the sentences that stand, the turns used, and what the prover said of the last reply."""

    problem: ProvenTheorem
    level: int
    script: tuple[str, ...] = ()
    turn: int = 0
    message: str = ""


class Rocq(Task[RocqState]):
    """Prove a theorem in the Rocq prover (Coq), by tactics.

    Levels 1 to 5: propositional logic; first-order logic; sums, powers, bounds and divisibility of numbers, by a lemma
    and two inductions; a measure of a list after two transformations, with lemmas about helpers; after five of them. A
    known proof has about 8, 15, 20, 34 and 77 sentences.

    The kinds of theorem of levels 3 to 5 are held out: divisibility, bounds and five of the eleven transformations that
    need lemmas are in one split alone. On levels 1 and 2 no two splits share a theorem but for names.

    Observation: the theorem with all definitions; then which sentences were accepted, the prover's error, the goals.
    Actions: tactics, up to the whole proof, alone or in a fence; those that were accepted stand, and ``Restart.``
        begins anew. Commands are not taken.
    Reward: 1 when the proof is whole, the compiled proof has the statement's type in a process that has not seen the
        script, rests on no axiom, and ``coqchk`` accepts it; else 0.
    Episode end: the theorem is proved, or the turns are used up.

    Args:
        data_files: a file of theorems of your own, or a folder that holds ``train``: rows with ``statement``, and if
            need be ``header`` (imports and scopes, for every file), ``definitions`` and ``proof`` (for the expert).
        columns: your names for these columns.
        axioms: those that a proof may rest on, as ``Print Assumptions`` prints them: ``Classical_Prop.classic``.

    Raises:
        SandboxUnavailable: ``coqc`` or ``coqchk`` is missing, or no sandbox tier holds on this machine.
    """

    levels = len(TURNS)
    patience: ClassVar[float] = 30.0  # seconds a turn may take, for the audit: it runs the prover
    system = (
        "You prove a theorem in the Rocq prover (Coq). Reply with tactics, one sentence or more, up to the whole "
        "proof. Sentences that are accepted stand, and the next reply goes on behind them; Restart. as the first "
        "sentence begins the proof anew. Proof. and Qed. may be left out. Commands are not taken: lemmas are proved "
        "inside of the proof, by assert."
    )

    def __init__(
        self,
        *,
        data_files: str | os.PathLike[str] | None = None,
        columns: Mapping[str, str] | None = None,
        axioms: tuple[str, ...] | list[str] = (),
    ) -> None:
        prover.require()
        if isinstance(axioms, str) or not all(isinstance(each, str) for each in axioms):
            raise ValueError(f"axioms is a list of names as Print Assumptions prints them, got {axioms!r}")
        self.axioms = frozenset(axioms)
        self.problems: list[ProvenTheorem] = []
        if data_files is not None:
            rows = load_rows(ROWS, "train", data_files, columns=columns)
            self.problems = [_problem(number, row) for number, row in enumerate(rows)]
            self.size, self.levels = len(rows), 1
        elif columns is not None:
            raise ValueError("columns are those of data_files, which is missing")

    def start(self, rng: random.Random, level: int) -> RocqState:
        """A theorem of the level."""
        if level <= 2:
            return RocqState(derivation(rng, (PROPOSITIONAL, FIRST_ORDER)[level - 1]), level)
        problem = draw_arithmetic(rng) if level == 3 else draw_pipeline(rng, *((1, 1) if level == 4 else (3, 2)))
        return RocqState(problem, level)

    def row(self, index: int, rng: random.Random) -> RocqState:
        """The theorem of a row."""
        return RocqState(self.problems[index], len(TURNS))

    def content(self, state: RocqState) -> str:
        """Of logic the theorem without letters and names; else definitions and claim, in the split of their kind."""
        base, split = state.problem.content, state.problem.split
        return next(text for number in count() if split_of(text := f"{base} {number}") == split) if split else base

    def difficulty(self, state: RocqState) -> float:
        """Sentences of the proof that is known."""
        return float(len(state.problem.proof))

    def turns(self, level: int) -> int:
        """Two or three times as many as the expert needs."""
        return TURNS[-1] if self.problems else TURNS[level - 1]

    def observe(self, state: RocqState) -> str:
        """The theorem; then what the prover said, and the turns left."""
        if state.turn:
            return f"{state.message}\nTurns left: {TURNS[state.level - 1] - state.turn}."
        return f"Prove:\n\n```coq\n{state.problem.statement}\n```\n\nYou have {TURNS[state.level - 1]} turns."

    def apply(self, state: RocqState, action: str) -> Transition:
        """Runs the script so far and the reply's sentences; a whole proof is checked by itself."""
        after = state._replace(turn=state.turn + 1)
        try:
            sentences = read_script(action)
        except ScriptError as error:
            return _refused(after, unparsable(f"The reply is refused: {error}."))
        if sentences[:1] == ["Restart."]:
            after, sentences = after._replace(script=()), sentences[1:]
        script = [*after.script, *sentences]
        if len(script) > MAX_SENTENCES:
            return _refused(
                after, wrong(reason=f"A script has {MAX_SENTENCES} sentences at most; Restart. begins anew.")
            )
        try:
            return self._tried(after, script)
        except SandboxUnavailable:
            raise
        except prover.StatementError as error:
            return Transition(after, Verdict(0.0, "env_error", reason=str(error)[:300]), terminated=True)
        except (SandboxError, OSError) as error:
            return Transition(after, sandbox_fault(error, "env_error"), terminated=True)

    def _tried(self, state: RocqState, script: list[str]) -> Transition:
        statement, before = state.problem.statement, len(state.script)
        result = prover.attempt(statement, script)
        if result.proof is not None:
            fault = prover.certified(statement, result.proof, self.axioms)
            if not fault:
                return Transition(state._replace(script=tuple(script)), correct(reason="proved"), terminated=True)
            return _refused(state, wrong(reason=f"All sentences stand, and yet {fault}."))
        standing = result.standing
        if result.error is None:
            text = f"Accepted; {standing} sentences stand."
        elif standing == len(script):
            standing, text = before, f"The reply is refused at Qed: {result.error}"
        elif standing < before:  # a limit was hit, by no sentence that is known
            standing, text = before, f"The reply is refused: {result.error}"
        else:
            text = f"Accepted: {standing - before} of {len(script) - before} sentences. Refused: {script[standing]}\n"
            text += result.error
        state = state._replace(script=tuple(script[:standing]))
        text = f"{text}\n\n{shown(prover.goals(statement, script[:standing]), prover.MAX_SHOWN)}"
        return _refused(state, Verdict(0.0, "partial", reason=text))

    def solve(self, state: RocqState) -> str:
        """The next sixteen sentences of the known proof; behind other sentences it begins anew."""
        known, begin = state.problem.proof, len(state.script)
        if not known:
            raise NotImplementedError("the row has no proof: no expert is known")
        if state.script == known[:begin]:
            return "\n".join(known[begin:][:EXPERT_SENTENCES])
        return "\n".join(["Restart.", *known[:EXPERT_SENTENCES]])

    def sample_action(self, state: RocqState, rng: random.Random) -> str:
        """One of eight sentences; none of them is an automation tactic."""
        return rng.choice(RANDOM)

    def out_of_turns(self, state: RocqState, turns: int) -> Verdict:
        """Wrong, however many sentences stand."""
        return wrong(reason=f"the theorem was not proved in {turns} turns")


def _refused(state: RocqState, verdict: Verdict) -> Transition:
    return Transition(state._replace(message=verdict.reason), verdict)


def _problem(number: int, row: Mapping[str, object]) -> ProvenTheorem:
    """The problem of a row.

    Raises:
        DataError: a column is no text, or the proof no script.
    """
    texts = {name: row.get(name) or "" for name in ("statement", "header", "definitions", "proof")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise DataError(f"row {number}: {name} must be text, got {text!r:.60}")
    proposition = str(texts["statement"]).strip().removesuffix(".")
    if not proposition:
        raise DataError(f"row {number}: statement is empty; it is a proposition, such as forall n, n + 0 = n")
    try:
        proof = tuple(read_script(str(texts["proof"]))) if texts["proof"] else ()
    except ScriptError as error:
        raise DataError(f"row {number}: the proof is no script: {error}") from None
    statement = prover.RocqStatement(str(texts["header"]).strip(), str(texts["definitions"]).strip(), proposition)
    return ProvenTheorem(statement, proof, str(statement))
