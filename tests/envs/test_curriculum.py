"""What is asked next: controllers that converge, prompts that retire for good, mixtures in their proportions."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections import Counter
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import rlvr
from rlvr.agents import ExpertAgent, Rollout, RolloutRequest
from rlvr.envs import TextEnv
from rlvr.envs.core.seeding import SPLITS
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong
from rlvr.envs.curriculum import (
    EasyToHard,
    LevelController,
    MixtureEnv,
    PassRates,
    RateSampler,
    Retirement,
    SignalSampler,
    difficulty_filter,
    easy_to_hard,
)

GUESS, CALCULATOR, COUNTDOWN, GSM8K = (
    f"rlvr/{name}-v0" for name in ("GuessNumber", "Calculator", "Countdown", "GSM8K")
)


def chance_of(skill: float, level: int) -> float:
    """A policy whose success falls with the level: even odds at its skill."""
    return 1 / (1 + math.exp(1.5 * (level - skill)))


def train(controller: Any, skill: float, groups: int, rng: random.Random, size: int = 8) -> list[tuple[int, float]]:
    """Play so many groups; the level and the success rate of each."""
    seen = []
    for _ in range(groups):
        level = controller.draw()
        outcomes = [float(rng.random() < chance_of(skill, level)) for _ in range(size)]
        controller.record(level, outcomes)
        seen.append((level, sum(outcomes) / size))
    return seen


# the level controller


@settings(max_examples=30)
@given(
    skill=st.floats(2.5, 8.5),
    target=st.sampled_from([0.3, 0.5, 0.7]),
    start=st.floats(1, 10),
    seed=st.integers(0, 999),
)
def test_the_controller_holds_its_target_wherever_it_begins(skill, target, start, seed):
    controller = LevelController(10, target=target, start=start, rehearsal=0.0, seed=seed)
    rng = random.Random(seed)
    train(controller, skill, 400, rng)
    rates = [rate for _, rate in train(controller, skill, 600, rng)]
    assert sum(rates) / len(rates) == pytest.approx(target, abs=0.06)


@pytest.mark.parametrize(("skill", "end"), [(-20.0, 1.0), (40.0, 10.0)])
def test_where_the_target_is_out_of_reach_it_stays_at_the_end(skill, end):
    controller = LevelController(10, start=5)
    train(controller, skill, 300, random.Random(0))
    assert controller.difficulty == end


def test_it_follows_a_policy_that_learns_and_one_that_forgets():
    controller, rng = LevelController(10, rehearsal=0.1), random.Random(0)
    path = []
    for skill in [1 + n / 40 for n in range(320)] + [3.0] * 300:
        train(controller, skill, 1, rng)
        path.append(controller.difficulty)
    assert max(path) > 7
    assert 2 < sum(path[-100:]) / 100 < 4
    levels = Counter(level for level, _ in train(controller, 3.0, 300, rng))
    assert set(levels) >= {1, 2, 3}


@settings(max_examples=15)
@given(st.floats(1, 6), st.integers(0, 99))
def test_draws_lie_beside_the_difficulty_and_rehearsals_below(difficulty, seed):
    exact = LevelController(6, start=difficulty, rehearsal=0.0, seed=seed)
    assert {exact.draw() for _ in range(50)} <= {math.floor(difficulty), math.ceil(difficulty)}
    mean = sum(exact.draw() for _ in range(1_000)) / 1_000
    assert mean == pytest.approx(difficulty, abs=0.06)
    everywhere = LevelController(6, start=difficulty, rehearsal=1.0, seed=seed)
    assert {everywhere.draw() for _ in range(200)} == set(range(1, math.floor(difficulty) + 1))


def test_outcomes_far_from_the_difficulty_and_empty_groups_move_nothing():
    controller = LevelController(9, start=5.5)
    for level, outcomes in ((1, [1.0] * 8), (9, [0.0] * 8), (5, [])):
        controller.record(level, outcomes)
    assert controller.difficulty == 5.5
    controller.record(6, [1.0])
    assert controller.difficulty == pytest.approx(5.55)
    for _ in range(100):  # a batch that was drawn before the difficulty moved cannot carry it far
        controller.record(6, [1.0])
    assert controller.difficulty == pytest.approx(7.0, abs=0.06)


# easy to hard


def test_stages_follow_one_another_and_the_last_stays():
    order = EasyToHard(3, stage=2)
    assert [order.draw() for _ in range(8)] == [1, 1, 2, 2, 3, 3, 3, 3]
    rehearsing = EasyToHard(3, stage=1, rehearsal=0.5)
    drawn = Counter(rehearsing.draw() for _ in range(600))
    assert set(drawn) == {1, 2, 3}
    assert drawn[3] > 350


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1)))
def test_prompts_are_ordered_by_difficulty(difficulty):
    order = easy_to_hard(difficulty)
    assert sorted(order) == sorted(difficulty)
    assert [difficulty[prompt] for prompt in order] == sorted(difficulty.values())


# pass rates, retirement, samplers


def test_draws_are_in_proportion_to_one_minus_the_success_rate():
    sampler = RateSampler("abcd", weights={"d": 2.0}, floor=0.1)
    for key, solved in (("a", 0), ("b", 5), ("c", 10), ("d", 5)):
        sampler.record(key, [1.0] * solved + [0.0] * (10 - solved))
    count = Counter(sampler.draw() for _ in range(8_000))
    expected = {"a": 1.0, "b": 0.5, "c": 0.1, "d": 1.0}
    for key, share in expected.items():
        assert count[key] / 8_000 == pytest.approx(share / 2.6, abs=0.02)


def test_what_is_solved_more_and_more_is_asked_less_and_less():
    sampler, rng = RateSampler(range(1, 6)), random.Random(0)
    levels = Counter(level for level, _ in train(sampler, 3.0, 2_000, rng))
    assert levels[1] < levels[2] < levels[3] < levels[4]


@settings(max_examples=25)
@given(
    skills=st.lists(st.floats(0, 1), min_size=2, max_size=8),
    at=st.floats(0.5, 1.0),
    least=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_retired_prompts_never_come_back(skills, at, least, seed):
    """Even when outcomes that were under way come in later and lower their rate; and state does not forget them."""
    sampler = RateSampler(range(len(skills)), retire_at=at, min_episodes=least, seed=seed)
    rng = random.Random(seed)
    gone: set[int] = set()
    for _ in range(120):
        if not sampler.open:
            with pytest.raises(LookupError, match="are retired"):
                sampler.draw()
            break
        key = sampler.draw()
        assert key not in gone
        sampler.record(key, [float(rng.random() < skills[key]) for _ in range(4)])
        if rng.random() < 0.2:  # what is recorded of them later does not matter
            for late in gone:
                sampler.record(late, [0.0] * 9)
        gone |= {key for key in range(len(skills)) if key in sampler.retirement}
        assert set(sampler.open) == set(range(len(skills))) - gone
        fresh = RateSampler(range(len(skills)), retire_at=at, min_episodes=least, seed=seed)
        fresh.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
        sampler = fresh
    assert len(sampler.retirement) == len(gone)


def test_a_prompt_is_retired_after_enough_episodes_only():
    retirement, rates = Retirement(0.9, min_episodes=8), PassRates()
    for number in range(1, 9):
        rates.record("p", [1.0])
        retirement.look("p", rates)
        assert ("p" in retirement) == (number == 8)


def test_old_outcomes_fade():
    fading, whole = PassRates(decay=0.5), PassRates()
    for rates in (fading, whole):
        for outcome in [0.0] * 20 + [1.0] * 5:
            rates.record("p", [outcome])
    assert whole.rate("p") == 0.2
    assert fading.rate("p") > 0.95
    assert PassRates.restore(json.loads(json.dumps(fading.state())), 0.5) == fading


def test_the_filter_keeps_what_some_attempts_solve():
    attempts = {"never": [0, 0, 0, 0], "once": [0, 1, 0, 0], "mostly": [1, 1, 1, 0], "always": [1, 1, 1, 1]}
    assert difficulty_filter(attempts) == ["once", "mostly"]
    assert difficulty_filter(attempts, high=0.75) == ["once"]
    assert difficulty_filter(attempts, low=0.25) == ["mostly"]


# state


MAKERS = {
    "controller": lambda seed: LevelController(6, seed=seed),
    "easy to hard": lambda seed: EasyToHard(6, stage=7, rehearsal=0.3, seed=seed),
    "sampler": lambda seed: RateSampler(range(1, 7), retire_at=0.9, min_episodes=20, decay=0.9, seed=seed),
    "signal": lambda seed: SignalSampler(range(1, 7), group=4, retire_at=0.9, min_episodes=20, seed=seed),
}


@settings(max_examples=40)
@given(st.sampled_from(sorted(MAKERS)), st.integers(0, 60), st.integers(0, 99))
def test_a_run_that_goes_on_draws_what_it_would_have_drawn(name, groups, seed):
    whole, resumed = MAKERS[name](seed), MAKERS[name](seed)
    train(whole, 3.0, groups, random.Random(seed))
    resumed.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    assert train(resumed, 3.0, 20, random.Random(1)) == train(whole, 3.0, 20, random.Random(1))
    assert resumed.state_dict() == whole.state_dict()


def test_signal_is_the_chance_of_both_outcomes_per_token():
    """With so many outcomes that Beta is a point: draws by 1 - p^G - (1 - p)^G + floor, over the cost."""
    sampler = SignalSampler(["never", "half", "dear half", "tenth"], group=4, floor=0.01, decay=1.0)
    n = 100_000
    for key, p, cost in (("never", 0.0, 10), ("half", 0.5, 10), ("dear half", 0.5, 40), ("tenth", 0.1, 10)):
        sampler.record(key, [1.0] * int(n * p) + [0.0] * int(n * (1 - p)), cost)
    draws = Counter(sampler.draw() for _ in range(4_000))
    weights = {
        "never": 0.01 / 10, "half": (1 - 2 * 0.5**4 + 0.01) / 10, "dear half": (1 - 2 * 0.5**4 + 0.01) / 40,
        "tenth": (1 - 0.1**4 - 0.9**4 + 0.01) / 10,
    }  # fmt: skip
    for key, weight in weights.items():
        assert draws[key] / 4_000 == pytest.approx(weight / sum(weights.values()), abs=0.03)


def test_what_was_seldom_asked_is_tried():
    """A key that failed once keeps a chance; one that failed a thousand times has hardly any."""
    sampler = SignalSampler("ab", group=4, decay=1.0)
    sampler.record("a", [0.0])
    sampler.record("b", [0.0] * 1_000)
    draws = Counter(sampler.draw() for _ in range(400))
    assert draws["a"] > 4 * draws["b"]


def test_keys_may_be_tuples_and_come_back_from_json():
    sampler = RateSampler([("gsm8k", 1), ("gsm8k", 2)], retire_at=0.9)
    sampler.record(("gsm8k", 1), [1.0])
    again = RateSampler([("gsm8k", 1), ("gsm8k", 2)], retire_at=0.9)
    again.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert again.open == [("gsm8k", 2)]


def test_other_seeds_draw_otherwise():
    for make in (MAKERS["controller"], MAKERS["sampler"]):
        draws = []
        for seed in range(4):
            drawer = make(seed)
            if isinstance(drawer, LevelController):
                drawer.difficulty = 3.5
            draws.append(tuple(drawer.draw() for _ in range(30)))
        assert len(set(draws)) == 4


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LevelController(0), ValueError, "levels must be a whole number from 1, got 0"),
        (lambda: LevelController(2.0), ValueError, "levels must be"),
        (lambda: LevelController(3, target=1.0), ValueError, r"target must be in \(0, 1\), got 1.0"),
        (lambda: LevelController(3, gain=0), ValueError, "gain must be a positive number"),
        (lambda: LevelController(3, gain=float("nan")), ValueError, "gain must be"),
        (lambda: LevelController(3, start=4), ValueError, "start must be a level from 1 to 3"),
        (lambda: LevelController(3, rehearsal=2), ValueError, "rehearsal must be"),
        (lambda: LevelController(3).record(1, [2.0]), ValueError, r"outcomes must lie in \[0, 1\]"),
        (lambda: EasyToHard(3, stage=0), ValueError, "stage must be at least 1"),
        (lambda: RateSampler([]), ValueError, "at least one key"),
        (lambda: RateSampler("ab", weights={"a": 0}), ValueError, "positive weights"),
        (lambda: RateSampler("ab", weights={"c": 1}), ValueError, r"weights for \['c'\]"),
        (lambda: RateSampler("ab", floor=0), ValueError, "floor and decay must be"),
        (lambda: RateSampler("ab", retire_at=1.5), ValueError, "the pass rate to retire at"),
        (lambda: RateSampler("ab").record("c", [1]), ValueError, "'c' is not one of the 2 keys"),
        (lambda: SignalSampler("ab", group=0), ValueError, "group must be a whole number from 1, got 0"),
        (lambda: SignalSampler("ab", group=4).record("a", [1], 0), ValueError, "a cost must be a positive number"),
        (lambda: Retirement(0.9, 0), ValueError, "min_episodes must be at least 1"),
        (lambda: difficulty_filter({"a": []}), ValueError, "no attempt at 'a'"),
        (lambda: difficulty_filter({}, low=0.5, high=0.5), ValueError, "0 <= low < high <= 1"),
        (lambda: easy_to_hard({"a": float("nan")}), ValueError, "the difficulty of 'a' is no number"),
    ],
)
def test_bad_arguments_are_one_clear_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make()


# mixtures


MIXED = {"envs": [GUESS, CALCULATOR, {"id": COUNTDOWN, "level": 2}], "weights": [1, 2, 5]}


def mixed(**options: Any) -> MixtureEnv:
    env = gym.make("rlvr/Mixture-v0", **{**MIXED, **options}).unwrapped
    assert isinstance(env, MixtureEnv)
    return env


@settings(max_examples=10)
@given(weights=st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any), seed=st.integers(0, 2**32))
def test_environments_come_in_proportion_to_their_weights(weights, seed):
    env = mixed(weights=weights)
    count = Counter(env.reset(seed=seed, options={"index": index})[1]["part"] for index in range(300))
    for env_id, weight in zip((GUESS, CALCULATOR, COUNTDOWN), weights, strict=True):
        share = weight / sum(weights)
        assert count[env_id] / 300 == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 300))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    index=st.integers(0, 999),
    level=st.integers(1, 5),
    split=st.sampled_from(SPLITS),
)
def test_a_task_of_a_mixture_is_the_task_of_its_part(seed, index, level, split):
    """So its split, too, is the one that it has alone: no mixture trains on what its parts test on."""
    env = mixed()
    observation, info = env.reset(seed=seed, options={"index": index, "level": level, "split": split})
    assert (info["env_id"], info["level"], info["index"]) == ("rlvr/Mixture-v0", level, index)
    part = gym.make(info["part"]).unwrapped
    options = {"index": info["part_index"], "level": info["part_level"], "split": split}
    alone, there = part.reset(seed=info["seed"], options=options)
    assert (alone, there.get("system"), part.content) == (
        observation,
        info.get("system"),
        env.content.split(": ", 1)[1],
    )
    assert info["part_level"] == (2 if info["part"] == COUNTDOWN else level)
    for _ in range(30):
        action = env.solve()
        assert action == part.solve()
        one, other = env.step(action), part.step(action)
        assert one[:4] == other[:4]
        assert {name: one[4].get(name) for name in ("verdict", "turn", "role", "success")} == {
            name: other[4].get(name) for name in ("verdict", "turn", "role", "success")
        }
        if one[2] or one[3]:
            break
    assert one[1] == 1.0


def test_each_part_keeps_its_own_limit_of_turns():
    env = mixed(level=2)
    limits = {}
    for seed in range(40):
        _, info = env.reset(seed=seed)
        turns = 0
        while not any(env.step("<tool>1</tool> no guess")[2:4]):
            turns += 1
        limits[info["part"]] = turns + 1
    assert limits == {GUESS: 5, CALCULATOR: 4, COUNTDOWN: 1}
    assert mixed(max_turns=1, weights=[1, 0, 0]).reset(seed=0)
    short = mixed(envs=[{"id": GUESS, "max_turns": 2}], weights=None)
    short.reset(seed=0)
    assert [short.step("x")[3] for _ in range(2)] == [False, True]


def test_a_mixture_is_an_environment_like_every_other():
    env = mixed(level=2)
    check_env(env)
    assert repr(rlvr.replay(env, 3, ["x"] * 9)) == repr(rlvr.replay(mixed(level=2), 3, ["x"] * 9))
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=4) == env.reset(seed=4)
    vector = gym.make_vec("rlvr/Mixture-v0", num_envs=3, vectorization_mode="async", **MIXED)
    try:
        observations, infos = vector.reset(seed=[5, 6, 7])
        alone = mixed()
        assert [(o, p) for o, p in zip(observations, infos["part"], strict=True)] == [
            (o, i["part"]) for o, i in (alone.reset(seed=seed) for seed in (5, 6, 7))
        ]
        vector.step(("",) * 3)
    finally:
        vector.close()
    assert "rlvr/Mixture-v0" not in rlvr.list_envs(), "it cannot be made without parts"


@settings(max_examples=30)
@given(seed=st.integers(0, 99), cut=st.integers(0, 3), way=st.sampled_from(["fork", "state", "pickle"]))
def test_a_mixture_is_restored_in_mid_episode(seed, cut, way):
    env = mixed(level=3, render_mode="ansi")
    env.reset(seed=seed)
    for _ in range(cut):
        if any(env.step("nothing")[2:4]):
            env.reset()
    if way == "fork":
        twin = env.fork()
    elif way == "pickle":
        twin = pickle.loads(pickle.dumps(env))
    else:
        twin = mixed(level=3, render_mode="ansi")
        twin.set_state(pickle.loads(pickle.dumps(env.get_state())))
    for _ in range(12):
        action = env.solve()
        steps = [repr(one.step(action)) for one in (env, twin)]
        assert steps[0] == steps[1]
        if "success" in steps[0]:
            assert repr(env.reset()) == repr(twin.reset())
    assert twin.render() == env.render()


class Rows(Task[int]):
    """A table of seven rows."""

    splits = ("train", "test")
    size = 7

    def row(self, index: int, rng: random.Random) -> int:
        return index

    def observe(self, state: int) -> str:
        return f"row {state}"

    def apply(self, state: int, action: str) -> Transition:
        return Transition(state, correct() if action == str(state) else wrong(), terminated=True)


def test_rows_of_a_table_come_without_repetition(data_folder):
    gym.register("rlvr-test/Rows-v0", "rlvr.envs.core.text_env:TextEnv", kwargs={"task": Rows()})
    try:
        env = MixtureEnv(["rlvr-test/Rows-v0", GUESS], weights=[3, 1])
        rows = []
        for index in range(70):
            _, info = env.reset(seed=2, options={"index": index})
            if info["part"] == "rlvr-test/Rows-v0":
                rows.append((index // 7, info["part_index"]))
        assert len(set(rows)) == len(rows) > 40
        first = next(index for index in range(9) if env.reset(seed=2, options={"index": index})[1]["part"] != GUESS)
        with pytest.raises(ValueError, match="a table is read for one split"):
            env.reset(seed=2, options={"split": "test", "index": first})
        assert env.task.splits == ("train", "test")
        with pytest.raises(ValueError, match="no split 'validation'"):
            MixtureEnv(["rlvr-test/Rows-v0", GUESS], split="validation")
    finally:
        gym.registry.pop("rlvr-test/Rows-v0")
    table = MixtureEnv([GSM8K, COUNTDOWN], split="test")
    assert {table.reset(seed=seed)[1]["part"] for seed in range(20)} == {GSM8K, COUNTDOWN}


def test_the_pure_task_draws_by_itself_too():
    task = mixed().task
    rng = random.Random(0)
    states = [task.start(rng, 5) for _ in range(30)]
    assert {task.env_id(state) for state in states} == {GUESS, CALCULATOR, COUNTDOWN}
    assert task.levels == 5
    assert task.turns(5) == 20
    assert all(isinstance(task.sample_action(state, rng), str) for state in states)


def test_rollouts_play_mixtures():
    rollout = Rollout("rlvr/Mixture-v0", ExpertAgent(), env_settings={**MIXED, "level": 2})
    episodes = rollout([RolloutRequest(seed=1, index=index) for index in range(12)])
    assert all(episode.success for episode in episodes)


def test_controllers_and_mixtures_go_together():
    """The sampler over environments says which to ask; the mixture's own weights are for those who do not choose."""
    sampler = RateSampler([GUESS, CALCULATOR])
    for _ in range(200):
        env_id = sampler.draw()
        sampler.record(env_id, [float(env_id == GUESS)] * 4)
    assert Counter(sampler.draw() for _ in range(200))[CALCULATOR] > 150


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"envs": []}, ValueError, "a mixture needs parts: envs="),
        ({"envs": GUESS}, TypeError, "envs must be a sequence of ids, got str"),
        ({"envs": [GUESS, 3]}, TypeError, "a part of a mixture is an id, or a table with an id in it; got 3"),
        ({"envs": [{"level": 2}]}, TypeError, "with an id in it"),
        ({"envs": [{"id": GUESS, "split": "test"}]}, ValueError, "the split is the mixture's"),
        ({"envs": [{"id": GUESS, "levle": 1}]}, TypeError, "did you mean 'level'"),
        ({"envs": ["CartPole-v1"]}, TypeError, "CartPole"),
        ({"envs": ["rlvr/NoSuch-v0"]}, gym.error.NameNotFound, "NoSuch"),
        ({"envs": [GUESS], "weights": [1, 2]}, ValueError, "weights must be 1 numbers from 0"),
        ({"envs": [GUESS], "weights": [0]}, ValueError, "weights must be"),
        ({"envs": [GUESS], "weights": [-1]}, ValueError, "weights must be"),
        ({"envs": [GUESS], "weights": [float("inf")]}, ValueError, "weights must be"),
        ({"envs": [GUESS, CALCULATOR], "level": 9}, ValueError, "levels 1 to 5"),
        ({"envs": [{"id": GUESS, "level": 3}], "level": 2}, ValueError, "levels 1 to 1"),
        ({"envs": [GUESS], "split": "dev"}, ValueError, "no split 'dev'"),
    ],
)
def test_a_bad_mixture_is_one_clear_sentence(options, error, message):
    with pytest.raises(error, match=message):
        MixtureEnv(**options)


def test_a_mixture_of_mixtures_is_refused():
    with pytest.raises((TypeError, ValueError), match="mixture"):
        MixtureEnv([{"id": "rlvr/Mixture-v0", "envs": [GUESS]}])
    assert isinstance(mixed(), TextEnv)
