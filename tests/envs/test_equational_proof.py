"""Equational proofs: what the kernel accepts holds in models of the laws, and nothing but a proof is paid."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.core.seeding import SPLITS
from rlvr.envs.logic.equational_proof import LEVELS, EquationalProof, EquationState, Rewriting
from rlvr.envs.logic.equations import (
    LETTERS,
    AlgebraTerm,
    EquationalTheory,
    TermError,
    algebra,
    algebras,
    is_step,
    read_term,
    replaced,
    subterms,
    term_text,
)

ID = "rlvr/EquationalProof-v0"
Model = tuple[Sequence[Any], Mapping[str, Callable[..., Any]], Mapping[str, Any]]
PAIRS = tuple(product(range(2), repeat=2))
PERMUTATIONS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0))
MODELS: dict[str, Model] = {
    "group": (
        PERMUTATIONS,
        {"*": lambda f, g: tuple(f[g[i]] for i in range(3)), "inv": lambda f: tuple(f.index(i) for i in range(3))},
        {"e": (0, 1, 2)},
    ),
    "abelian group": (range(5), {"*": lambda x, y: (x + y) % 5, "inv": lambda x: -x % 5}, {"e": 0}),
    "commutative monoid": (range(6), {"*": lambda x, y: x * y % 6}, {"e": 1}),
    "semilattice": (range(8), {"*": lambda x, y: x & y}, {}),
    "rectangular band": (PAIRS, {"*": lambda x, y: (x[0], y[1])}, {}),
    "ring": (
        [*product(range(2), repeat=4)],
        {
            "+": lambda x, y: tuple((a + b) % 2 for a, b in zip(x, y, strict=True)),
            "neg": lambda x: x,
            "*": lambda x, y: (
                (x[0] * y[0] + x[1] * y[2]) % 2,
                (x[0] * y[1] + x[1] * y[3]) % 2,
                (x[2] * y[0] + x[3] * y[2]) % 2,
                (x[2] * y[1] + x[3] * y[3]) % 2,
            ),
        },
        {"0": (0, 0, 0, 0)},
    ),
    "lattice": (
        range(5),  # the diamond, which is not distributive: 0 below 1, 2, 3, which are below 4
        {
            "&": lambda x, y: x if x == y else min(x, y) if {x, y} & {0, 4} else 0,
            "|": lambda x, y: x if x == y else max(x, y) if {x, y} & {0, 4} else 4,
        },
        {},
    ),
    "quasigroup": (
        range(5),
        {
            "*": lambda x, y: (x + 2 * y) % 5,
            "\\": lambda x, y: (y - x) * 3 % 5,
            "/": lambda x, y: (x - 2 * y) % 5,
        },
        {},
    ),
    "monoid with an involution": (
        [*product(range(2), repeat=4)],
        {
            "*": lambda x, y: (
                (x[0] * y[0] + x[1] * y[2]) % 2,
                (x[0] * y[1] + x[1] * y[3]) % 2,
                (x[2] * y[0] + x[3] * y[2]) % 2,
                (x[2] * y[1] + x[3] * y[3]) % 2,
            ),
            "star": lambda x: (x[0], x[2], x[1], x[3]),
        },
        {"e": (1, 0, 0, 1)},
    ),
    "implication algebra": (range(4), {">": lambda x, y: (3 & ~x) | y}, {}),
    "Boolean algebra": (
        range(4),
        {"&": lambda x, y: x & y, "|": lambda x, y: x | y, "not": lambda x: 3 & ~x},
        {"0": 0, "1": 3},
    ),
    "involutory quandle": (range(5), {"*": lambda x, y: (2 * x - y) % 5}, {}),
}
EVERY = [each for split in algebras().values() for each in split]


def value(term: AlgebraTerm, model: Model, letters: Mapping[str, Any]) -> Any:
    if isinstance(term, str):
        return letters[term] if term in letters else model[2][term]
    return model[1][term[0]](*(value(part, model, letters) for part in term[1:]))


def are_equal(first: AlgebraTerm, second: AlgebraTerm, each: EquationalTheory, names: str, rng: random.Random) -> bool:
    """Whether they are equal in the model, for values of chance."""
    model = MODELS[each.name]
    for _ in range(12):
        letters = {name: rng.choice(model[0]) for name in names}
        if value(first, model, letters) != value(second, model, letters):
            return False
    return True


def state_of(level: int, seed: int) -> EquationState:
    return EquationalProof().start(random.Random(seed), level)


# the laws and the kernel


@pytest.mark.parametrize("each", EVERY, ids=lambda each: each.name)
def test_the_laws_hold_in_a_model_in_which_not_all_is_equal(each: EquationalTheory) -> None:
    elements = MODELS[each.name][0]
    assert len(set(elements)) > 1
    for law in each.laws:
        for values in product(elements, repeat=3) if len(elements) < 9 else [()] * 200:
            drawn = values or random.Random(str(law)).choices(elements, k=3)
            letters = dict(zip("xyz", drawn, strict=True))
            assert value(law.left, MODELS[each.name], letters) == value(law.right, MODELS[each.name], letters), str(law)


def test_no_algebra_is_in_two_splits() -> None:
    laws = {split: {frozenset(map(str, each.laws)) for each in algebras()[split]} for split in SPLITS}
    assert not laws["train"] & laws["test"]
    assert not laws["train"] & laws["validation"]
    assert len({each.name for each in EVERY}) == len(EVERY) == len(MODELS) == 12
    for split in SPLITS:
        env = gym.make(ID, split=split, disable_env_checker=True).unwrapped
        names = set()
        for seed in range(12):
            env.reset(seed=seed)
            names.add(env.content.partition(":")[0])
        assert names <= {each.name for each in algebras()[split]}
        assert len(names) > 1


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_every_step_of_a_known_proof_is_one_and_holds_in_a_model(level: int) -> None:
    for seed in range(10):
        state, rng = state_of(level, seed), random.Random(seed)
        assert LEVELS[level - 1].min_steps <= len(state.proof) <= LEVELS[level - 1].max_steps
        terms = [state.first, *(step.term for step in state.proof)]
        assert len(set(terms)) == len(terms)
        for before, step in zip(terms, state.proof, strict=False):
            assert is_step(before, step.term, state.algebra.laws[step.law], step.backwards)
            assert are_equal(before, step.term, state.algebra, LETTERS, rng)
        for begin, before in enumerate(terms):
            for after in terms[begin + 2 :]:
                assert not any(is_step(before, after, law, way) for law in state.algebra.laws for way in (False, True))


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(0, 40), st.randoms(use_true_random=False))
def test_whatever_the_kernel_accepts_holds_in_a_model(level: int, seed: int, rng: random.Random) -> None:
    """Steps of known proofs with another subterm, law or direction: most are refused."""
    state = state_of(level, seed)
    before = state.first
    for step in state.proof:
        for _ in range(6):
            path, _ = rng.choice([*subterms(step.term)])
            part = rng.choice([each for _, each in subterms(before)])
            after = rng.choice((replaced(step.term, path, part), step.term))
            law, backwards = rng.choice(state.algebra.laws), rng.random() < 0.5
            if is_step(before, after, law, backwards):
                assert are_equal(before, after, state.algebra, LETTERS, rng)
        before = step.term


GROUP = algebras()["train"][0]
REFUSED = {
    "another law": ("a * e", "= a [law 3]"),
    "the wrong direction": ("a * e", "= a [law 2 backwards]"),
    "two positions at once": ("(a * e) * (b * e)", "= a * b [law 2]"),
    "two steps at once": ("(a * e) * e", "= a [law 2]"),
    "one variable, two values": ("a * inv(b)", "= e [law 4]"),
    "what is commuted": ("a * b", "= b * a [law 1]"),
    "the same term": ("a * e", "= a * e [law 2]"),
    "law 0": ("a * e", "= a [law 0]"),
    "a law that there is not": ("a * e", "= a [law 6]"),
    "no law": ("a * e", "= a"),
    "another justification": ("a * e", "= a [sorry]"),
    "two laws": ("(a * e) * e", "= a [law 2, law 2]"),
    "two equations on a line": ("a * e", "= b = a [law 2]"),
    "a variable of the laws": ("a * e", "= x [law 2]"),
    "a letter that looks alike": ("a * e", "= \u0430 [law 2]"),
    "a digit of another script": ("a * e", "= a [law \u0662]"),
    "a bracket that is not closed": ("a * e", "= (a [law 2]"),
    "more than a term": ("a * e", "= a * b * c [law 2]"),
    "the goal": ("a * (b * e)", "= b * a [law 2]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_step_is_refused_with_a_reason_in_a_sentence(name: str) -> None:
    first, line = REFUSED[name]
    term = read_term(first, GROUP.operations, LETTERS + GROUP.constants)
    state = EquationState(GROUP, 1, term, (Rewriting("d", 0, False),))
    after = EquationalProof().apply(state, line)
    assert after.state.steps == ()
    assert (after.verdict.reward, after.terminated) == (0.0, False)
    assert after.state.message.startswith("Step 1 of your 1 is refused: ")
    assert len(after.state.message) < 400


def test_a_step_may_stand_anywhere_and_bring_in_any_term() -> None:
    letters = LETTERS + GROUP.constants
    for first, second, law, backwards in (
        ("(a * e) * b", "a * b", 1, False),
        ("inv(a * (b * c))", "inv((a * b) * c)", 0, True),
        ("a * e", "a * ((b * c) * inv(b * c))", 3, True),
        ("e", "inv(e) * e", 4, True),
    ):
        terms = [read_term(each, GROUP.operations, letters) for each in (first, second)]
        assert is_step(*terms, GROUP.laws[law], backwards)
        assert is_step(*terms[::-1], GROUP.laws[law], not backwards)


def test_variables_of_a_law_are_no_letters_of_a_term() -> None:
    """Capture: a law about x used on a term that has an x of its own."""
    strange = algebra("strange", {"*": 2}, "", "x * y = y")
    assert is_step(("*", "a", "b"), "b", strange.laws[0], False)
    with pytest.raises(TermError, match="'x' is no letter of this theorem"):
        read_term("x * a", strange.operations, LETTERS)


@given(st.integers(1, 5), st.integers(0, 60))
def test_a_term_is_read_as_it_is_written(level: int, seed: int) -> None:
    state = state_of(level, seed)
    letters = LETTERS + state.algebra.constants
    for step in state.proof:
        assert read_term(term_text(step.term), state.algebra.operations, letters) == step.term
        assert read_term(f"({term_text(step.term)})", state.algebra.operations, letters) == step.term


# the environment


def made(level: int, seed: int, **options: Any) -> TextEnv:
    env = gym.make(ID, level=level, disable_env_checker=True, **options).unwrapped
    assert isinstance(env, TextEnv)
    env.reset(seed=seed)
    return env


def finished(env: TextEnv) -> tuple[float, int]:
    over = False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.solve())
        over = terminated or truncated
    return float(reward), info["turn"]


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_expert_proves_every_equation(level: int, split: str) -> None:
    env = made(level, 0, split=split)
    for seed in range(60 if split == "train" else 10):
        env.reset(seed=seed)
        reward, turns = finished(env)
        assert reward == 1.0
        assert 2 * turns <= env.task.turns(level) + 1


def test_the_expert_goes_back_from_a_term_that_is_not_on_its_way() -> None:
    for level in range(2, 6):
        for seed in range(4):
            env = made(level, seed)
            for other in range(20):
                fork = env.fork()
                fork.step(env.sample_action(random.Random(other)))
                if fork.get_state().state.steps and not fork.get_state().over:
                    assert finished(fork)[0] == 1.0


def test_a_whole_proof_may_be_written_at_once_with_words_around() -> None:
    env = made(5, 2)
    proof = "\n".join(map(str, env.get_state().state.proof))
    assert env.step(f"<think>= e [law 1]</think>We rewrite the left side.\n\n{proof}\n\nDone.")[1] == 1.0


def test_steps_before_the_one_that_is_refused_stand() -> None:
    env = made(3, 1)
    proof = env.get_state().state.proof
    observation, reward, *_, info = env.step(f"{proof[0]}\n= a [law 99]\n{proof[1]}")
    assert (reward, info["verdict"].status) == (0.0, "partial")
    assert observation.startswith("Step 2 of your 3 is refused: the laws have the numbers 1 to ")
    assert f"The term is now {term_text(proof[0].term)}." in observation


@pytest.mark.parametrize(
    "text",
    [
        "= " + "(" * 1_000_000,
        "= a [law 1]\n" * 100_000,
        "= " + "inv(" * 90 + "a" + ")" * 90 + " [law 1]",
        "=" * 1_000_000,
        "= a" + " " * 1_000_000 + "[law 1]",
        "= a [law " + "1" * 1_000_000 + "]",
    ],
)
@pytest.mark.timeout(20)
def test_large_replies_are_read_in_linear_time(text: str) -> None:
    env = made(1, 0)
    _, reward, *_, info = env.step(text)
    assert (reward, info["verdict"].valid) == (0.0, True)
    assert len(info["verdict"].reason) < 700
