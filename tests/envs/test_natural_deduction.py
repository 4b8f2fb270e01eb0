"""Natural deduction: what the kernel accepts is true in every world, and nothing but a proof is paid."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.logic.deduction_kernel import RULES, Proof, ProofError, ProofLine, ProofStep, read_step
from rlvr.envs.logic.formulas import (
    FALSE,
    Formula,
    FormulaError,
    abstraction,
    atom,
    atoms_of,
    instance,
    names_of,
    read_formula,
    written,
)
from rlvr.envs.logic.natural_deduction import LEVELS, NaturalDeduction
from rlvr.envs.logic.theorems import Theorem, draw_theorem, skeleton

ID = "rlvr/NaturalDeduction-v0"
World = tuple[int, dict[str, int], dict[tuple[str, int], set[tuple[int, ...]]]]


# worlds: what sentences mean, written anew


def holds(formula: Formula, world: World, bound: tuple[int, ...] = ()) -> bool:
    size, things, extensions = world
    kind, *parts = formula
    if kind == "atom":
        values = tuple(things[term] if isinstance(term, str) else bound[term] for term in parts[1])
        return values in extensions[parts[0], len(values)]
    if kind == "false":
        return False
    if kind == "not":
        return not holds(parts[0], world, bound)
    if kind in ("all", "some"):
        return (all if kind == "all" else any)(holds(parts[0], world, (each, *bound)) for each in range(size))
    left, right = (holds(part, world, bound) for part in parts)
    return {"and": left and right, "or": left or right, "implies": not left or right}[kind]


def worlds(formulas: Sequence[Formula], rng: random.Random, count: int) -> Iterator[World]:
    """All worlds of letters alone where there are few, else worlds of chance with one to three things."""
    symbols = sorted({(each[1], len(each[2])) for formula in formulas for each in atoms_of(formula)})
    names = sorted(set[str]().union(*map(names_of, formulas)))
    if all(arity == 0 for _, arity in symbols) and len(symbols) <= 6:
        for values in product((set[tuple[int, ...]](), {()}), repeat=len(symbols)):
            yield 1, {}, dict(zip(symbols, values, strict=True))
        return
    for _ in range(count):
        size = rng.randint(1, 3)
        density = rng.choice((0.2, 0.5, 0.8, 0.95))
        extensions = {
            (name, arity): {each for each in product(range(size), repeat=arity) if rng.random() < density}
            for name, arity in symbols
        }
        yield size, {name: rng.randrange(size) for name in names}, extensions


def refuted(assumed: Sequence[Formula], conclusion: Formula, rng: random.Random, count: int = 60) -> bool:
    """Whether a world was found in which the conclusion fails and what is assumed holds."""
    return any(
        all(holds(each, world) for each in assumed) and not holds(conclusion, world)
        for world in worlds((*assumed, conclusion), rng, count)
    )


def open_formulas(proof: Proof, line: ProofLine) -> list[Formula]:
    return [each.step.formula for each in proof.lines if each.step.rule == "premise" or each.step.number in line.path]


def theorem_of(level: int, seed: int) -> Theorem:
    return draw_theorem(random.Random(seed), LEVELS[level - 1])


def proof_of(theorem: Theorem, steps: Sequence[ProofStep] | None = None) -> Proof:
    proof = Proof.begin(theorem.premises)
    for step in theorem.proof if steps is None else steps:
        proof = proof.extended(step)
    return proof


# the kernel


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_every_line_of_a_known_proof_is_accepted_and_true_in_worlds(level: int) -> None:
    for seed in range(8):
        theorem = theorem_of(level, seed)
        proof = proof_of(theorem)
        assert proof.proves(theorem.goal)
        assert LEVELS[level - 1].min_lines <= len(theorem.proof) <= LEVELS[level - 1].max_lines
        for line in proof.lines:
            assert not refuted(open_formulas(proof, line), line.step.formula, random.Random(seed), count=12)


def mutated(step: ProofStep, proof: Proof, rng: random.Random) -> ProofStep:
    """A line with one part changed: formula, rule, citations, bars, or a name in it."""
    formulas = [line.step.formula for line in proof.lines]
    parts = [part for each in formulas for part in each[1:] if each[0] not in ("atom", "false", "all", "some")]
    what = rng.choice(("formula", "rule", "cited", "bars", "name", "quantifier"))
    if what == "formula":
        return step._replace(formula=rng.choice([*formulas, *parts, ("not", step.formula), FALSE]))
    if what == "rule":
        rule = rng.choice([*RULES])
        cited = [(rng.randrange(1, step.number), 0) for _ in RULES[rule].cites] if step.number > 1 else []
        return step._replace(rule=rule, cited=tuple(cited))
    if what == "cited" and step.cited and step.number > 1:
        changed = [*step.cited]
        first, last = changed[rng.randrange(len(changed))]
        changed[rng.randrange(len(changed))] = (max(1, first - rng.randint(0, 2)), last and last - rng.randint(0, 1))
        return step._replace(cited=tuple(changed))
    if what == "bars":
        return step._replace(bars=max(0, step.bars + rng.choice((-1, 1))))
    names = sorted(set[str]().union(*map(names_of, formulas)))
    if names and what == "name":
        name = rng.choice(names)
        return step._replace(formula=instance(abstraction(step.formula, name), rng.choice(names)))
    if names and what == "quantifier":
        return step._replace(formula=(rng.choice(("all", "some")), abstraction(step.formula, rng.choice(names))))
    return step._replace(formula=("not", step.formula))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(1, 5), st.integers(0, 40), st.randoms(use_true_random=False))
def test_whatever_the_kernel_accepts_is_true_in_every_world(level: int, seed: int, rng: random.Random) -> None:
    """Mutated lines of known proofs: most are refused, and those that are not follow all the same."""
    theorem = theorem_of(level, seed)
    proof = Proof.begin(theorem.premises)
    for step in theorem.proof:
        for _ in range(3):
            try:
                other = proof.extended(mutated(step, proof, rng))
            except ProofError:
                continue
            line = other.lines[-1]
            assert not refuted(open_formulas(other, line), line.step.formula, rng, count=10), str(line.step)
            if rng.random() < 0.1:
                proof = other  # the known lines are then cited where they may not be
                break
        try:
            proof = proof.extended(step._replace(number=len(proof.lines) + 1))
        except ProofError:
            return
        line = proof.lines[-1]
        assert not refuted(open_formulas(proof, line), line.step.formula, rng, count=10), str(line.step)


@pytest.mark.parametrize("level", [1, 3, 4])
def test_a_proof_whose_conclusion_is_changed_to_what_does_not_follow_is_refused(level: int) -> None:
    rng, tried = random.Random(level), 0
    for seed in range(16):
        theorem = theorem_of(level, seed)
        *first, last = theorem.proof
        false_goal = ("not", theorem.goal)
        if not refuted(theorem.premises, false_goal, rng, count=60):
            continue
        tried += 1
        with pytest.raises(ProofError):
            proof_of(theorem, (*first, last._replace(formula=false_goal)))
    assert tried > 6


PROPOSITIONAL = ("P or Q", "not P")
CHEATS = {
    "a line cites itself": (PROPOSITIONAL, "3. Q [repeat 3]"),
    "a line cites a later one": (PROPOSITIONAL, "3. P and Q [and-intro 1, 4]\n4. Q [repeat 1]"),
    "line 0": (PROPOSITIONAL, "3. Q [repeat 0]"),
    "the goal is called a premise": (PROPOSITIONAL, "3. Q [premise]"),
    "the goal is assumed and stays open": (PROPOSITIONAL, "3. | Q [assume]"),
    "the goal is assumed without a bar": (PROPOSITIONAL, "3. Q [assume]"),
    "the goal is taken out of a closed subproof": (PROPOSITIONAL, "3. | Q [assume]\n4. Q [repeat 3]"),
    "a subproof is cited before it is closed": (PROPOSITIONAL, "3. | Q [assume]\n4. | Q implies Q [implies-intro 3-3]"),
    "a range that is no subproof": (PROPOSITIONAL, "3. P implies P [implies-intro 1-2]"),
    "two subproofs as one": (PROPOSITIONAL, "3. | P [assume]\n4. | Q [assume]\n5. P implies Q [implies-intro 3-4]"),
    "a part of a formula": (PROPOSITIONAL, "3. Q [and-elim 1]"),
    "no such rule": (PROPOSITIONAL, "3. Q [sorry]"),
    "no rule": (PROPOSITIONAL, "3. Q []"),
    "letters that look alike": (("Q",), "2. \u051a [repeat 1]"),
    "digits of another script": (("Q",), "2. Q or P [or-intro \u0661]"),
    "a formula that is none": (PROPOSITIONAL, "3. P or or Q [repeat 1]"),
    "the variable is captured": (("all x: some y: R(x, y)",), "2. some y: R(y, y) [all-elim 1]"),
    "a name that is not new": (("P(a)",), "2. all x: P(x) [all-intro 1]"),
    "a name of an open assumption": ((), "1. | P(a) [assume]\n2. | all x: P(x) [all-intro 1]"),
    "a name that stays": (("all x: R(x, x)",), "2. R(c, c) [all-elim 1]\n3. all x: R(x, c) [all-intro 2]"),
    "two names as one": (("all x: all y: R(x, y)", "P(a)"), "3. R(a, b) [all-elim 1]"),
    "the name of something comes out": (("some x: P(x)",), "2. | P(c) [assume]\n3. P(c) [some-elim 1, 2-2]"),
    "something has a known name": (
        ("some x: P(x)", "Q(a)"),
        "3. | P(a) [assume]\n4. | P(a) and Q(a) [and-intro 3, 2]\n5. | some x: (P(x) and Q(x)) [some-intro 4]\n"
        "6. some x: (P(x) and Q(x)) [some-elim 1, 3-5]",
    ),
    "all of some": (("some x: P(x)",), "2. P(a) [all-elim 1]"),
    "a free variable": (("all x: P(x)",), "2. P(x) [all-elim 1]"),
}


@pytest.mark.parametrize("name", CHEATS)
def test_what_is_no_proof_is_refused(name: str) -> None:
    premises, text = CHEATS[name]
    proof = Proof.begin([read_formula(each) for each in premises])
    reason = ""
    for line in text.split("\n"):
        try:
            proof = proof.extended(read_step(line))
        except ProofError as error:
            reason = str(error)
            break
    stays_open = bool(proof.lines and proof.lines[-1].path)
    assert 3 < len(reason) < 400 or (stays_open and name.endswith("stays open"))
    assert "\n" not in reason


RIGHT = {
    "an implication": (("P implies Q",), "2. | not Q [assume]\n3. | | P [assume]\n4. | | Q [implies-elim 3, 1]\n"
     "5. | | false [not-elim 4, 2]\n6. | not P [not-intro 3-5]\n7. not Q implies not P [implies-intro 2-6]"),
    "the excluded middle": ((), "1. | not (P or not P) [assume]\n2. | | P [assume]\n3. | | P or not P [or-intro 2]\n"
     "4. | | false [not-elim 1, 3]\n5. | not P [not-intro 2-4]\n6. | P or not P [or-intro 5]\n"
     "7. | false [not-elim 6, 1]\n"
     "8. P or not P [by-contradiction 1-7]"),
    "cases in either order": (("P or Q",), "2. | Q [assume]\n3. | Q or P [or-intro 2]\n4. | P [assume]\n"
     "5. | Q or P [or-intro 4]\n6. Q or P [or-elim 1, 2-3, 4-5]"),
    "quantifiers": (("some x: all y: R(x, y)",), "2. | all y: R(c, y) [assume]\n3. | R(c, d) [all-elim 2]\n"
     "4. | some x: R(x, d) [some-intro 3]\n5. some x: R(x, d) [some-elim 1, 2-4]\n"
     "6. all z: some x: R(x, z) [all-intro 5]"),
    "other variables": (("all x: P(x)",), "2. all u: P(u) [repeat 1]"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_proofs_of_textbooks_are_accepted(name: str) -> None:
    premises, text = RIGHT[name]
    steps = [read_step(line) for line in text.split("\n")]
    proof = proof_of(Theorem(tuple(map(read_formula, premises)), FALSE, ()), steps)
    assert not proof.lines[-1].path


# formulas


FORMULAS = st.recursive(
    st.sampled_from([atom("P"), atom("Q", "a"), atom("R", "a", "b"), FALSE]),
    lambda part: (
        st.tuples(st.just("not"), part)
        | st.tuples(st.sampled_from(["and", "or", "implies"]), part, part)
        | st.tuples(st.sampled_from(["all", "some"]), st.builds(abstraction, part, st.sampled_from(["a", "b"])))
    ),
    max_leaves=6,
)


@given(FORMULAS)
def test_a_formula_is_read_as_it_is_written(formula: Formula) -> None:
    try:
        text = written(formula)
    except IndexError:
        return  # more quantifiers inside of each other than there are variables
    assert read_formula(text) == formula
    assert read_formula(f"({text})") == formula


@given(st.text(alphabet="PQabx()&|,: notandrimplesfw\u00ac", max_size=40))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = read_formula(text)
    except FormulaError:
        pass
    else:
        assert read_formula(written(formula)) == formula


# the environment


def made(level: int, seed: int, **settings_: object) -> TextEnv:
    env = gym.make(ID, level=level, disable_env_checker=True, **settings_).unwrapped
    assert isinstance(env, TextEnv)
    env.reset(seed=seed)
    return env


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_expert_proves_every_theorem(level: int) -> None:
    env = made(level, 0)
    for seed in range(60):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, terminated, truncated, info = env.step(env.solve())
            over = terminated or truncated
        assert (reward, info["success"]) == (1.0, True), seed
        assert 2 * info["turn"] <= env.task.turns(level)


def test_a_whole_proof_may_be_written_at_once_with_its_premises_and_words_around() -> None:
    for level in range(1, 6):
        env = made(level, 3)
        theorem = env.get_state().state.theorem
        lines = [line.step for line in Proof.begin(theorem.premises).lines]
        text = "\n".join(map(str, (*lines, *theorem.proof)))
        assert env.step(f"<think>1. sorry</think>Here it is.\n\n```\n{text}\n```\nThat is all.")[1] == 1.0


def test_a_line_that_is_refused_is_explained_and_those_before_it_stand() -> None:
    env = made(2, 1)
    steps = env.get_state().state.theorem.proof
    wrong = steps[1]._replace(bars=0, formula=FALSE, rule="repeat", cited=((1, 0),))
    observation, reward, *_, info = env.step(f"{steps[0]}\n{wrong}\n{steps[2]}")
    assert (reward, info["verdict"].status) == (0.0, "partial")
    assert f"Line {wrong.number} is refused: it does not follow by repeat: A => A" in observation
    assert f"the next one is line {wrong.number}." in observation
    assert env.solve().startswith(str(steps[1]))


def test_the_expert_proves_it_below_lines_that_it_did_not_write() -> None:
    for level in range(1, 6):
        env = made(level, 5)
        state = env.get_state().state
        begin = len(state.proof.lines) + 1
        env.step(f"{begin}. | P [assume]\n{begin + 1}. | P or Q [or-intro {begin}]")
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.solve())
            over = terminated or truncated
        assert reward == 1.0


@pytest.mark.parametrize("level", [2, 3, 4, 5])
def test_no_theorem_is_trivial(level: int) -> None:
    for seed in range(20):
        theorem = theorem_of(level, seed)
        assert theorem.goal not in theorem.premises
        number = len(theorem.premises) + 1
        for rule in RULES:
            for cited in product(range(1, number), repeat=len(RULES[rule].cites)):
                step = ProofStep(number, 0, theorem.goal, rule, tuple((each, 0) for each in cited))
                with pytest.raises(ProofError):
                    proof_of(theorem, [step])


@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_premise_is_needed(level: int) -> None:
    for seed in range(20):
        theorem, rng = theorem_of(level, seed), random.Random(seed)
        for index in range(len(theorem.premises)):
            others = theorem.premises[:index] + theorem.premises[index + 1 :]
            assert refuted(others, theorem.goal, rng, count=2_000), (written(theorem.premises[index]), theorem)


def test_letters_names_and_the_order_of_premises_do_not_make_another_kind() -> None:
    first = Theorem((read_formula("P implies Q"), read_formula("P")), read_formula("Q"), ())
    second = Theorem((read_formula("R(a)"), read_formula("R(a) implies T(b)")), read_formula("T(b)"), ())
    assert skeleton(first) == skeleton(second) == "_; _ implies _ |- _"


def test_goals_are_not_proved_by_repeating_the_state_of_others() -> None:
    """Cheats through the environment: none of them is paid at any level."""
    task = NaturalDeduction()
    for level in range(1, 6):
        for seed in range(10):
            state = task.start(random.Random(seed), level)
            goal, number = written(state.theorem.goal), len(state.proof.lines) + 1
            for reply in (
                f"{number}. {goal} [premise]",
                f"{number}. {goal} [assume]",
                f"{number}. | {goal} [assume]",
                f"{number}. | {goal} [assume]\n{number + 1}. {goal} [repeat {number}]",
                f"{number}. {goal} [repeat {number}]",
                f"{number}. {goal} [repeat {number + 1}]\n{number + 1}. {goal} [repeat {number}]",
                f"{number}. false [premise]\n{number + 1}. {goal} [false-elim {number}]",
                f"1. {goal} [premise]\n{number}. {goal} [repeat 1]",
                f"{number}. {goal} [sorry]",
                f"{number}. {goal}",
                f"{number}. {goal} [repeat]",
                f"{goal} \\boxed{{{goal}}}",
            ):
                after = task.apply(state, reply)
                assert after.verdict.reward == 0.0, reply
                assert not after.terminated


@pytest.mark.parametrize(
    "text",
    [
        "4. P [repeat 1]\n" * 100_000,
        "4. " + "(" * 1_000_000,
        "4. " + "not " * 250_000 + "P [repeat 1]",
        "4. " + "not " * 60 + "P [repeat 1]",
        "4. " + "| " * 100 + "P [assume]",
        "4. P [repeat " + "1, " * 300_000 + "1]",
        "9" * 1_000_000,
        "\n".join(f"{n}. | P [assume]" for n in range(4, 2_000)),
    ],
)
@pytest.mark.timeout(20)
def test_large_replies_are_read_in_linear_time(text: str) -> None:
    env = made(1, 0)
    _, reward, *_, info = env.step(text)
    assert (reward, info["verdict"].valid) == (0.0, True)
    assert len(info["verdict"].reason) < 600
