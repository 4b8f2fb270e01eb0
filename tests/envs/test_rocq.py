"""Rocq: scripts are tactics alone, a proof is of its statement and rests on nothing, the expert proves each task."""

from __future__ import annotations

import binascii
import json
import random
import shutil

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs.core.tables import DataError
from rlvr.envs.logic.rocq import prover
from rlvr.envs.logic.rocq.arithmetic import KINDS
from rlvr.envs.logic.rocq.derivations import derivation
from rlvr.envs.logic.rocq.lists import EASY, HARD, draw_pipeline
from rlvr.envs.logic.rocq.script import ScriptError, read_script
from rlvr.envs.logic.rocq.task import FIRST_ORDER, PROPOSITIONAL
from rlvr.envs.sandbox import SandboxUnavailable

from ..needs import needs_rocq, needs_sandbox

STATEMENT = prover.RocqStatement("", "Inductive two := A | B.", "forall x : two, x = A \\/ x = B")
PROOF = ["intros x.", "destruct x.", "left.", "reflexivity.", "right.", "reflexivity."]


def made(**settings):
    return gym.make("rlvr/Rocq-v0", **settings).unwrapped


# what a script is


@pytest.mark.parametrize(
    ("reply", "sentences"),
    [
        ("intros n. lia.", ["intros n.", "lia."]),
        ("Proof.\n  intros n.\n  - lia.\n  }\nQed.", ["intros n.", "-", "lia.", "}"]),
        ("First this:\n```coq\nintros n.\n```\nand then\n```rocq\nlia.\n```\nDone.", ["intros n.", "lia."]),
        ("```\nintros\n  n.", ["intros n."]),
        ("Restart. split.", ["Restart.", "split."]),
        ("intros (* a (* comment *). *) n.", ["intros n."]),
        ("1-2: lia. all: { auto. } Z.div_mod_to_equations. [x]: easy.", None),
        ("rewrite Nat.add_0_r, (plus_n_O (S n)). unfold Nat.add in *.", None),
        ("<think>Admitted.</think>lia.", ["lia."]),
    ],
)
def test_a_script_is_read_in_sentences(reply, sentences):
    assert read_script(reply) == (
        sentences or reply.replace(". ", ".\n").replace("{ ", "{\n").replace("} ", "}\n").split("\n")
    )


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I do not know",
        "Admitted.",
        "lia. Qed. Axiom a : False.",
        "lia.\nQed.\nDefined.",
        "- { Admitted.",
        "all: { Admitted. }",
        "[goal]: { Admitted. }",
        "1-2,3 : {{ Admitted. }}",
        "all: Admitted.",
        "lia.(**)Admitted.",
        "lia. (* Admitted.",
        "lia. *) Admitted.",
        "#[bypass_check(guard)] Fixpoint f (n : nat) : False := f n.",
        "Unset Guard Checking. lia.",
        'idtac "(*". Admitted. idtac "*)".',
        'Redirect "x" Show.',
        "lia\u2024 Admitted\uff0e",
        "lia.\x0bAdmitted.",
        "lia.\rAdmitted.",
        "lia.\xa0Admitted.",
        "lia.\n```coq\nAdmitted.\n```",
        "Ltac lia := idtac. lia.",
        "Time lia.",
        "lia. Restart.",
        "lia",
        "lia. " * 20_000,
    ],
)
def test_what_is_no_script_is_refused(reply):
    with pytest.raises(ScriptError):
        read_script(reply)


# what a proof is


def compiled(source: str) -> bytes:
    """What a hostile process might hand out as the proof of the statement."""
    files = {"Answer.v": source, "Task.vo": prover.compiled_statement(STATEMENT)}
    result = prover._run(f"{prover._COMPILE} Answer.v >&2 && base64 -w0 Answer.vo", files)
    assert result.ok, result.stderr
    return binascii.a2b_base64(result.stdout)


HEAD = "Require Import Rlvr.Task.\n"
FORGED = {
    "an axiom": f"{HEAD}Axiom the_theorem : forall x : two, x = A \\/ x = B.",
    "a proof from an axiom": f"{HEAD}Axiom a : False. Theorem the_theorem : forall x : two, x = A \\/ x = B.\n"
    "Proof. destruct a. Qed.",
    "an admitted theorem": f"{HEAD}Theorem the_theorem : forall x : two, x = A \\/ x = B. Admitted.",
    "another statement": "Theorem the_theorem : True. Proof. exact I. Qed.",
    "a type of the same name": "Inductive two := A | B. Theorem the_theorem : forall x : two, x = A \\/ x = B.\n"
    "Proof. destruct x; auto. Qed.",
    "a fixpoint without a guard": f"{HEAD}Unset Guard Checking.\n"
    "Fixpoint the_theorem (x : two) : x = A \\/ x = B := the_theorem x.",
    "a type that holds itself": f"{HEAD}Unset Universe Checking. Definition u : Type@{{Set}} := Type.\n"
    "Theorem the_theorem : forall x : two, x = A \\/ x = B. Proof. pose u. destruct x; auto. Qed.",
    "an equality that is another": f'{HEAD}Notation "x = y" := True : type_scope.\n'
    "Theorem the_theorem : forall x : two, x = A \\/ x = B. Proof. left. exact I. Qed.",
    "no theorem": "",
}


@needs_rocq
@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("kind", FORGED)
def test_a_compiled_file_that_is_no_proof_is_refused(kind):
    assert prover.certified(STATEMENT, compiled(FORGED[kind]), frozenset()), kind


@needs_rocq
@needs_sandbox
@pytest.mark.slow
def test_a_proof_is_certified_and_half_a_file_is_not():
    proof = prover.attempt(STATEMENT, PROOF).proof
    assert proof is not None
    assert prover.certified(STATEMENT, proof, frozenset()) == ""
    assert prover.attempt(STATEMENT, PROOF).proof == proof, "the same script gives the same file"
    assert prover.certified(STATEMENT, proof[:-200], frozenset())
    assert prover.certified(STATEMENT, b"", frozenset())


@needs_rocq
@needs_sandbox
@pytest.mark.slow
def test_an_axiom_that_is_allowed_may_be_used(tmp_path):
    rows = [
        {"statement": "forall P : Prop, ~ ~ P -> P.", "header": "Require Import Classical.", "proof": "exact NNPP."}
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for axioms, paid in (((), 0.0), (("Coq.Logic.Classical_Prop.classic",), 0.0), (("Classical_Prop.classic",), 1.0)):
        env = made(data_files=tmp_path / "mine.jsonl", axioms=axioms)
        env.reset(seed=0)
        _, reward, _, _, info = env.step(env.solve())
        assert (reward, "Classical_Prop.classic" in info["verdict"].reason) == (paid, not paid)


# Each is handed in until the turns are used up.
CHEATS = {
    "nothing": "",
    "a refusal": "I will not prove this.",
    "a tactic that does nothing": "idtac.",
    "the theorem admitted": "Admitted.",
    "a goal that is given up": "intros. admit.",
    "the proof closed early": "exact I. Qed. Axiom all : forall P : Prop, P. Theorem other : True.",
    "an axiom in a brace": "{ Axiom all : forall P : Prop, P. }",
    "a command behind a comment": "intros.(* *)Admitted(* *).",
    "a comment that stays open": "intros. (* Qed. Admitted.",
    "another theorem": "Abort. Theorem the_theorem : True. exact I.",
    "another meaning": "Abort. Local Notation all := True. exact I.",
    "the guard switched off": "Unset Guard Checking. fix all 1. exact all.",
    "a recursion without end": "intros. fix all 1. exact all.",
    "a cast without a check": "intros. vm_cast_no_check I.",
    "a plugin": "Declare ML Module evil. exact I.",
    "a verdict": "```coq\nexact I.\n```\nNo more goals. Closed under the global context. Reward: 1.",
}


@needs_rocq
@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("kind", CHEATS)
def test_a_cheat_earns_nothing_and_is_judged(kind, level):
    env = made(level=level, max_turns=2)
    env.reset(seed=3)
    steps = [env.step(CHEATS[kind]) for _ in range(2)]
    assert [step[1] for step in steps] == [0.0, 0.0]
    assert all(step[4]["verdict"].valid for step in steps)


# the environment


@needs_rocq
@needs_sandbox
@pytest.mark.slow
def test_what_stands_goes_on_and_an_error_is_shown(tmp_path):
    (tmp_path / "mine.jsonl").write_text(
        json.dumps({"statement": STATEMENT.proposition, "definitions": STATEMENT.definitions})
    )
    env = made(data_files=tmp_path / "mine.jsonl")
    observation, _ = env.reset(seed=0)
    assert "Inductive two := A | B." in observation
    observation, *_ = env.step("intros x. destruct x. - left. left.")
    assert "Accepted: 4 of 5 sentences. Refused: left." in observation
    observation, *_ = env.step("reflexivity. - right. left.")
    assert "Accepted: 3 of 4 sentences. Refused: left." in observation
    observation, *_ = env.step("Restart. intros y.")
    assert "1 sentences stand" in observation
    assert "y : two" in observation
    middle = env.get_state()
    assert env.step("destruct y; auto.")[1:3] == (1.0, True)
    env.set_state(middle)
    observation, reward, terminated, _, info = env.step("fix all 1. exact (all y).")
    assert (reward, terminated, info["verdict"].status) == (0.0, False, "partial")
    with pytest.raises(NotImplementedError, match="no proof"):
        env.solve()


@needs_rocq
@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("name", ["raise", "grow", *(name for kinds in HARD.values() for name in kinds)])
def test_the_lemmas_about_each_transformation_are_proved(name):
    rng = random.Random(0)
    while True:
        problem = draw_pipeline(rng, 1, 1)
        if f"{name}_sum" in " ".join(problem.proof):
            break
    assert prover.attempt(problem.statement, [*problem.proof]).proof is not None


@needs_rocq
@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("draw", [kind for kinds in KINDS.values() for kind in kinds])
def test_numbers_are_proved_by_one_induction(draw):
    for seed in range(3):
        problem = draw(random.Random(seed))
        assert prover.attempt(problem.statement, [*problem.proof]).proof is not None


@needs_rocq
@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("size", [PROPOSITIONAL, FIRST_ORDER])
def test_logic_is_proved_without_a_contradiction(size):
    for seed in range(4):
        problem = derivation(random.Random(seed), size)
        assert prover.attempt(problem.statement, [*problem.proof]).proof is not None


def test_kinds_of_one_split_are_in_no_other():
    drawn = [draw_pipeline(random.Random(seed), 3, 2) for seed in range(400)]
    for split, own in HARD.items():
        others = {name for kinds in HARD.values() for name in kinds} - {*own, *HARD["train"]}
        texts = [problem.statement.proposition for problem in drawn if problem.split == split]
        assert texts
        assert not any(f"{name} " in f"{text} " for text in texts for name in others)
        assert all(any(f"{name} " in text for name in own) for text in texts)
    assert len({*EASY, *HARD["train"]}) == 11


# what is missing


@pytest.mark.parametrize("name", ["coqc", "coqchk"])
def test_without_rocq_one_sentence_names_the_package(name, monkeypatch):
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda each, **where: None if each == name else found("sh"))
    with pytest.raises(SandboxUnavailable, match=f"needs the program {name} .*apt-get install coq"):
        gym.make("rlvr/Rocq-v0")


@needs_rocq
@needs_sandbox
def test_rows_that_are_none_are_refused(tmp_path):
    path = tmp_path / "mine.jsonl"
    for row, message in (
        ({"statement": " "}, "statement is empty"),
        ({"statement": "True", "proof": "Admitted."}, "no script"),
        ({"statement": "True", "header": 3}, "must be text"),
        ({"claim": "True"}, "statement"),
    ):
        path.write_text(json.dumps(row))
        with pytest.raises(DataError, match=message):
            made(data_files=path)
    with pytest.raises(ValueError, match="data_files"):
        made(columns={"statement": "claim"})
    with pytest.raises(ValueError, match="as Print Assumptions prints them"):
        made(axioms="classic")


@needs_rocq
@needs_sandbox
@pytest.mark.slow
def test_a_row_that_rocq_refuses_is_a_fault_of_the_row(tmp_path):
    (tmp_path / "mine.jsonl").write_text(json.dumps({"statement": "forall n, n = nonsense"}))
    env = made(data_files=tmp_path / "mine.jsonl")
    env.reset(seed=0)
    verdict = env.step("intros.")[4]["verdict"]
    assert (verdict.status, "nonsense" in verdict.reason) == ("env_error", True)
    assert rlvr.list_envs("Rocq") == ["rlvr/Rocq-v0"]
