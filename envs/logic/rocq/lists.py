"""Theorems about programs on lists: what a measure of a list is after a pipeline of transformations.

Each transformation is linear in the sum and the length of a list, and its two laws have known proofs, most of them by
lemmas about helpers: an accumulator that has to be generalised, an insertion, an induction over two elements at once.
From these laws the theorem about a pipeline follows by rewriting.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Final, NamedTuple

from rlvr.envs.core.seeding import SPLITS
from rlvr.envs.logic.rocq.problem import ProvenTheorem, problem
from rlvr.envs.logic.rocq.prover import RocqStatement

HEADER: Final = "Require Import Arith Lia List.\nImport ListNotations."
STEP: Final = "induction l as [| x r IH]; intros; cbn; rewrite ?IH; cbn; lia."


class Fact(NamedTuple):
    """What the sum and the length of ``call`` are, for all ``binders``; {m} in a text is either measure."""

    name: str
    binders: str
    call: str
    sum: str
    length: str
    proof: tuple[str, ...] = (STEP,)


class Transformation(NamedTuple):
    """A function of lists with its helpers' facts.

    The sum of the result is ``scale`` times the sum plus ``shift`` times the length, and the length ``copies`` times
    the length. {k} in texts is a constant, for which 0 stands in ``scale`` and -1 in ``shift``.
    """

    definitions: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    proof: tuple[str, ...] = (STEP,)
    scale: int = 1
    shift: int = 0
    copies: int = 1


def _recursive(head: str, *cases: str) -> str:
    return "\n".join([f"Fixpoint {head} :=", *(f"  {case}" for case in cases), "  end."])


def _mapped(name: str, *elements: str) -> str:
    case = f"| x :: r => {' :: '.join(elements)} :: {name} r"
    return _recursive(f"{name} (l : list nat) : list nat", "match l with", "| [] => []", case)


def _filtered(name: str, small: str, large: str) -> str:
    cases = ("match l with", "| [] => []", f"| x :: r => if x <=? k then {small}{name} k r else {large}{name} k r")
    return _recursive(f"{name} (k : nat) (l : list nat) : list nat", *cases)


LIST: Final = "(l : list nat) : list nat"
TWO_LISTS: Final = "(l t : list nat)"
STEPS_AND_LIST: Final = "(n : nat) (l : list nat)"
APP: Final = Fact("app", TWO_LISTS, "l ++ t", "sum l + sum t", "length l + length t")
BY_APP: Final = ("induction l as [| x r IH]; cbn; [reflexivity |].", "rewrite app_{m}, IH; cbn; lia.")
EASY: Final = {
    "raise": Transformation((_mapped("raise", "x + {k}"),), shift=-1),
    "grow": Transformation((_mapped("grow", "{k} * x"),), scale=0),
    "repeat_each": Transformation((_mapped("repeat_each", "x", "x"),), scale=2, copies=2),
    "follow": Transformation((_mapped("follow", "x", "{k}"),), shift=-1, copies=2),
    "ladder": Transformation((_mapped("ladder", "x", "S x"),), scale=2, shift=1, copies=2),
}
HARD: Final[dict[str, dict[str, Transformation]]] = {
    "train": {
        "reverse": Transformation(
            (_recursive(f"reverse {LIST}", "match l with", "| [] => []", "| x :: r => reverse r ++ [x]"),),
            (APP,),
            BY_APP,
        ),
        "palindrome": Transformation(
            (_recursive(f"palindrome {LIST}", "match l with", "| [] => []", "| x :: r => x :: palindrome r ++ [x]"),),
            (APP,),
            BY_APP,
            scale=2,
            copies=2,
        ),
        "turn": Transformation(
            (
                _recursive("turn_onto (l t : list nat) : list nat", "match l with", "| [] => t",
                           "| x :: r => turn_onto r (x :: t)"),
                f"Definition turn {LIST} := turn_onto l [].",
            ),
            (Fact("turn_onto", TWO_LISTS, "turn_onto l t", "sum l + sum t", "length l + length t"),),
            ("intros; unfold turn; rewrite turn_onto_{m}; cbn; lia.",),
        ),
        "stack": Transformation(
            (
                _recursive("stack_onto (l t : list nat) : list nat", "match l with", "| [] => t",
                           "| x :: r => stack_onto r (x + {k} :: t)"),
                f"Definition stack {LIST} := stack_onto l [].",
            ),
            (Fact("stack_onto", TWO_LISTS, "stack_onto l t", "sum l + {k} * length l + sum t", "length l + length t"),),
            ("intros; unfold stack; rewrite stack_onto_{m}; cbn; lia.",),
            shift=-1,
        ),
        "sort": Transformation(
            (
                _recursive(f"insert (y : nat) {LIST}", "match l with", "| [] => [y]",
                           "| x :: r => if y <=? x then y :: x :: r else x :: insert y r"),
                _recursive(f"sort {LIST}", "match l with", "| [] => []", "| x :: r => insert x (sort r)"),
            ),
            (
                Fact("insert", "(l : list nat) (y : nat)", "insert y l", "y + sum l", "1 + length l", (
                    "induction l as [| x r IH]; intros; cbn; [lia |].",
                    "destruct (y <=? x); cbn; rewrite ?IH; cbn; lia.",
                )),
            ),
            ("induction l as [| x r IH]; cbn; [reflexivity |].", "rewrite insert_{m}, IH; cbn; lia."),
        ),
        "by_tree": Transformation(
            (
                "Inductive tree := Leaf | Node (a : tree) (x : nat) (b : tree).",
                _recursive("put (y : nat) (t : tree) : tree", "match t with", "| Leaf => Node Leaf y Leaf",
                           "| Node a x b => if y <=? x then Node (put y a) x b else Node a x (put y b)"),
                _recursive("walk (t : tree) : list nat", "match t with", "| Leaf => []",
                           "| Node a x b => walk a ++ x :: walk b"),
                _recursive("plant (l : list nat) : tree", "match l with", "| [] => Leaf",
                           "| x :: r => put x (plant r)"),
                f"Definition by_tree {LIST} := walk (plant l).",
            ),
            (
                APP,
                Fact("put", "(t : tree) (y : nat)", "walk (put y t)", "y + sum (walk t)", "1 + length (walk t)", (
                    "induction t as [| a IHa x b IHb]; intros; cbn; [lia |].",
                    "destruct (y <=? x); cbn; rewrite !app_{m}; cbn; rewrite ?IHa, ?IHb; lia.",
                )),
            ),
            ("unfold by_tree; induction l as [| x r IH]; cbn; [reflexivity |].", "rewrite put_{m}, IH; lia."),
        ),
    },
    "validation": {
        "rotate": Transformation(
            (
                _recursive(f"rotate_by (n : nat) {LIST}", "match n, l with", "| S m, x :: r => rotate_by m (r ++ [x])",
                           "| _, _ => l"),
                f"Definition rotate {LIST} := rotate_by {{k}} l.",
            ),
            (
                APP,
                Fact("rotate_by", STEPS_AND_LIST, "rotate_by n l", "sum l", "length l", (
                    "induction n as [| n IH]; intros [| x r]; cbn; try reflexivity.",
                    "rewrite IH, app_{m}; cbn; lia.",
                )),
            ),
            ("intros; unfold rotate; rewrite rotate_by_{m}; lia.",),
        ),
        "partition": Transformation(
            (
                _filtered("low", "x :: ", ""),
                _filtered("high", "", "x :: "),
                f"Definition partition {LIST} := low {{k}} l ++ high {{k}} l.",
            ),
            (
                APP,
                Fact("parts", "(k : nat) (l : list nat)", "{m} (low k l) + {m} (high k l)", "sum l", "length l", (
                    "induction l as [| x r IH]; cbn; [reflexivity |].",
                    "destruct (x <=? k); cbn; lia.",
                )),
            ),
            ("intros; unfold partition; rewrite app_{m}; apply parts_{m}.",),
        ),
    },
    "test": {
        "swap": Transformation(
            (_recursive(f"swap {LIST}", "match l with", "| x :: y :: r => y :: x :: swap r", "| _ => l"),),
            (
                Fact("swap_upto", STEPS_AND_LIST, "length l <= n -> {m} (swap l)", "sum l", "length l", (
                    "induction n as [| n IH]; intros [| x [| y r]] H; cbn in *; try lia.",
                    "rewrite IH; lia.",
                )),
            ),
            ("intros; rewrite (swap_upto_{m} (length l)); lia.",),
        ),
        "deal": Transformation(
            (
                _recursive(f"evens {LIST}", "match l with", "| x :: _ :: r => x :: evens r", "| _ => l"),
                _recursive(f"odds {LIST}", "match l with", "| _ :: y :: r => y :: odds r", "| _ => []"),
                f"Definition deal {LIST} := evens l ++ odds l.",
            ),
            (
                APP,
                Fact("both", STEPS_AND_LIST, "length l <= n -> {m} (evens l) + {m} (odds l)", "sum l", "length l", (
                    "induction n as [| n IH]; intros [| x [| y r]] H; cbn in *; try lia.",
                    "specialize (IH r); lia.",
                )),
            ),
            ("intros; unfold deal; rewrite app_{m}, (both_{m} (length l)); lia.",),
        ),
        "weave": Transformation(
            (
                _recursive("weave_with (l t : list nat) : list nat", "match l, t with",
                           "| x :: r, y :: s => x :: y :: weave_with r s", "| [], _ => t", "| _, [] => l"),
                f"Definition weave {LIST} := weave_with l l.",
            ),
            (
                Fact("weave_with", TWO_LISTS, "weave_with l t", "sum l + sum t", "length l + length t", (
                    "induction l as [| x r IH]; intros [| y s]; cbn; try lia.",
                    "rewrite IH; lia.",
                )),
            ),
            ("intros; unfold weave; rewrite weave_with_{m}; lia.",),
            scale=2,
            copies=2,
        ),
    },
}  # fmt: skip


def draw_pipeline(rng: random.Random, hard: int, easy: int) -> ProvenTheorem:
    """A theorem about so many transformations; one of them at least its split alone has, where that is not train."""
    split = SPLITS[max(0, rng.randrange(10) - 7)]
    own = HARD[split]
    names = [rng.choice(sorted(own))]
    others = sorted({*own, *HARD["train"]} - {*names})
    names += [*rng.sample(others, hard - 1), *rng.sample(sorted(EASY), easy)]
    rng.shuffle(names)
    known = {**EASY, **HARD["train"], **own}
    # Behind a function that gives two elements a step, swap needs no lemma.
    while any(after == "swap" and known[before].copies == 2 for before, after in pairwise(names)):
        rng.shuffle(names)
    weights = (rng.randint(1, 6), rng.randint(1, 9))
    return _pipeline([(name, known[name], rng.randint(2, 9)) for name in names], weights)._replace(split=split)


def _pipeline(stages: list[tuple[str, Transformation, int]], weights: tuple[int, int]) -> ProvenTheorem:
    """The theorem about stages, the first of them innermost, each with its constant."""
    by_sum, by_length = weights
    cases = ("match l with", "| [] => 0", f"| x :: r => {by_sum} * x + {by_length} + measure r")
    definitions = [
        _recursive("sum (l : list nat) : nat", "match l with", "| [] => 0", "| x :: r => x + sum r"),
        _recursive("measure (l : list nat) : nat", *cases),
    ]
    lemmas, rewrites, call = dict[str, tuple[str, ...]](), ["measure_law"], "l"
    for name, stage, k in stages:
        definitions += [each.replace("{k}", str(k)) for each in stage.definitions]
        scale, shift = stage.scale or k, k if stage.shift < 0 else stage.shift
        law = Fact(name, "l", f"{name} l", _linear(scale, shift), _linear(0, stage.copies), stage.proof)
        for fact in (*stage.facts, law):
            for measure in ("sum", "length"):
                lemma = _lemma(fact, measure, str(k))
                lemmas[lemma[0]] = lemma
        call = f"{name} ({call})" if " " in call else f"{name} {call}"
    for name, stage, k in reversed(stages):
        scale, shift = stage.scale or k, k if stage.shift < 0 else stage.shift
        by_sum, by_length = by_sum * scale, by_sum * shift + by_length * stage.copies
        rewrites += [f"{name}_sum", f"{name}_length"]
    begin = f"assert (measure_law : forall l, measure l = {_linear(*weights)})."
    proof = [begin, f"{{ {STEP}", "}", *(line for lemma in lemmas.values() for line in lemma)]
    proof += ["intros l.", f"rewrite {', '.join(rewrites)}.", "lia."]
    claim = f"forall l, measure ({call}) = {_linear(by_sum, by_length)}"
    source = "\n\n".join(definitions)
    return problem(RocqStatement(HEADER, source, claim), proof, f"{source} {claim}")


def _linear(by_sum: int, by_length: int) -> str:
    terms = [(by_sum, "sum l"), (by_length, "length l")]
    return " + ".join(f"{factor} * {each}" if factor > 1 else each for factor, each in terms if factor)


def _lemma(fact: Fact, measure: str, k: str) -> tuple[str, ...]:
    call = fact.call if "{m}" in fact.call else f"{{m}} ({fact.call})"
    texts = (f"assert ({fact.name}_{{m}} : forall {fact.binders}, {call} = {getattr(fact, measure)}).",
             f"{{ {fact.proof[0]}", *fact.proof[1:], "}")  # fmt: skip
    return tuple(text.replace("{m}", measure).replace("{k}", k) for text in texts)
