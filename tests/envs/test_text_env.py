"""The shell: tables, levels, turns, and what a task of one's own needs."""

from __future__ import annotations

import pickle
import random
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils import seeding

import rlvr
from rlvr.envs import TextEnv
from rlvr.envs.core.seeding import split_of
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, question_of


class Colours(Task[str]):
    """A table of seven rows; the answer is the row's own text."""

    splits = ("train", "test")
    size = 7

    def row(self, index: int, rng: random.Random) -> str:
        return f"colour {index} {rng.random()}"

    def observe(self, state: str) -> str:
        return state

    def apply(self, state: str, action: str) -> Transition:
        return Transition(state, correct() if action == state else wrong(), terminated=True)


class Walk(NamedTuple):
    place: int
    steps: int = 0


class Walking(Task[Walk]):
    """Three turns at most; "stop" ends it. Half a point a step."""

    levels = 3

    def __init__(self, *, stride: int = 1) -> None:
        self.stride = stride

    def start(self, rng: random.Random, level: int) -> Walk:
        return Walk(rng.randint(1, 1000) * level)

    def turns(self, level: int) -> int:
        return 3

    def observe(self, state: Walk) -> str:
        return f"{state.place} after {state.steps}"

    def apply(self, state: Walk, action: str) -> tuple[Walk, Verdict, bool, str]:
        if action == "stop":
            return state, correct(), True, "tool"
        return Walk(state.place + self.stride, state.steps + 1), Verdict(0.5, "partial"), False, "tool"


class Impossible(Walking):
    def start(self, rng: random.Random, level: int) -> Walk:
        return Walk(5)


def rows_of(env: TextEnv, count: int, seed: int) -> list[int]:
    rows = [env.reset(seed=seed)[1]["index"]]
    while len(rows) < count:
        rows.append(env.reset()[1]["index"])
    return rows


def test_a_table_is_walked_row_by_row_in_an_order_of_the_seeds_own():
    env = TextEnv(Colours())
    walk = rows_of(env, 21, seed=3)
    epochs = [walk[i : i + 7] for i in (0, 7, 14)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3, "every pass has an order of its own"
    assert rows_of(TextEnv(Colours()), 21, seed=3) == walk
    assert rows_of(env, 21, seed=4) != walk


def test_asking_for_a_row_gives_that_row_and_leaves_the_walk_where_it_was():
    env = TextEnv(Colours())
    walk = rows_of(env, 6, seed=3)
    env.reset(seed=3)
    env.reset()
    assert env.reset(options={"index": 5})[0].startswith("colour 5 ")
    assert [env.reset()[1]["index"] for _ in range(4)] == walk[2:]


def test_a_generated_task_goes_on_behind_the_index_that_was_asked_for():
    env = TextEnv(Walking())
    assert [env.reset(seed=0, options={"index": i})[1]["index"] for i in (4, 9)] == [4, 9]
    assert env.reset()[1]["index"] == 10


def test_numpy_integers_are_whole_numbers():
    env = TextEnv(Walking(), level=np.int64(2))
    _, info = env.reset(seed=0, options={"index": np.int32(4), "level": np.int64(3)})
    assert (info["index"], info["level"]) == (4, 3)
    assert type(info["index"]) is type(info["level"]) is int
    plain = TextEnv(Walking())
    assert (
        plain.reset(seed=0, options={"index": 4, "level": 3})[0]
        == env.reset(seed=0, options={"index": np.int64(4), "level": np.int64(3)})[0]
    )


def test_options_hold_for_one_reset():
    env = TextEnv(Walking(), level=2)
    assert env.reset(seed=0, options={"level": 3, "split": "test"})[1]["level"] == 3
    _, info = env.reset()
    assert (info["level"], info["split"]) == (2, "train")


def test_turns_are_counted_and_running_out_is_truncation_with_its_own_verdict():
    env = TextEnv(Walking())
    env.reset(seed=0)
    steps = [env.step("go") for _ in range(3)]
    assert [step[1] for step in steps] == [0.5, 0.5, 0.0]
    assert [step[2:4] for step in steps] == [(False, False), (False, False), (False, True)]
    assert [step[4]["role"] for step in steps] == ["tool"] * 3
    assert steps[-1][0] == steps[-1][4]["verdict"].reason == "no final answer within 3 turns"


def test_an_answer_on_the_last_turn_still_counts():
    env = TextEnv(Walking())
    env.reset(seed=0)
    env.step("go")
    env.step("go")
    _, reward, terminated, truncated, info = env.step("stop")
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)


def test_earlier_infos_and_snapshots_do_not_change_afterwards():
    env = TextEnv(Walking())
    _, first = env.reset(seed=0)
    snapshot = env.get_state()
    kept = (pickle.dumps(first), pickle.dumps(snapshot))
    _, _, _, _, second = env.step("go")
    second["split"] = "changed by a wrapper"
    first["index"] = 99
    assert env.step("go")[4]["split"] == "train"
    first["index"] = 0
    assert (pickle.dumps(first), pickle.dumps(snapshot)) == kept


def test_a_split_without_tasks_is_an_error_and_not_an_endless_search():
    only = split_of(Impossible().content(Walk(5)))
    TextEnv(Impossible(), split=only).reset(seed=0)
    for split in {"train", "validation", "test"} - {only}:
        with pytest.raises(ValueError, match=f"no task of level 1 in split '{split}'; use split=None"):
            TextEnv(Impossible(), split=split).reset(seed=0)
    TextEnv(Impossible(), split=None).reset(seed=0)


def test_a_table_is_read_for_one_split():
    env = TextEnv(Colours(), split="train")
    with pytest.raises(ValueError, match="make Colours with split='test'"):
        env.reset(seed=0, options={"split": "test"})
    env.reset(seed=0, options={"split": "train"})


def test_settings_of_a_task_built_already_are_refused():
    with pytest.raises(TypeError, match=r"\['stride'\] belong to the task"):
        TextEnv(Walking(), stride=2)


def test_a_task_without_an_expert_or_random_actions_says_so_or_plays_text():
    env = TextEnv(Walking())
    env.reset(seed=0)
    with pytest.raises(NotImplementedError, match="Walking has no expert"):
        env.solve()
    rng = random.Random(0)
    action = env.sample_action(rng)
    assert action in env.action_space
    assert env.sample_action(rng) != action
    assert env.sample_action(random.Random(0)) == action


def test_a_task_of_ones_own_is_registered_in_one_line():
    rlvr.register("rlvr/TestWalking-v0", "rlvr.envs.puzzles.countdown:Countdown", level=2)
    try:
        assert "rlvr/TestWalking-v0" in rlvr.list_envs("TESTwalk")
        env = gym.make("rlvr/TestWalking-v0")
        assert env.unwrapped.level == 2
        assert gym.make("rlvr/TestWalking-v0", level=3).unwrapped.level == 3
    finally:
        del gym.registry["rlvr/TestWalking-v0"]


def test_replay_stops_where_the_episode_ends():
    env = TextEnv(Walking())
    steps = rlvr.replay(env, 0, ["go", "stop", "go", "go"], options={"level": 2})
    assert [step[2] for step in steps] == [False, False, True]
    assert steps[0][4]["level"] == 2
    assert steps == rlvr.replay(TextEnv(Walking()), 0, ["go", "stop"], options={"level": 2})


def test_a_transcript_is_kept_only_for_those_who_render():
    env = TextEnv(Walking())
    env.reset(seed=0)
    env.step("go")
    assert env.get_state().transcript == ()


def test_an_unseeded_environment_still_names_the_seed_that_replays_it():
    env = TextEnv(Walking())
    observation, info = env.reset()
    assert TextEnv(Walking()).reset(seed=info["seed"], options={"index": info["index"]})[0] == observation
    assert TextEnv(Walking()).reset()[1]["seed"] != info["seed"]


# Gymnasium's generator, made on demand


def test_the_generator_is_made_when_asked_for_and_seeded_as_gymnasium_seeds_it():
    env = TextEnv(Walking())
    for seed in (0, 7, 2**70):
        env.reset(seed=seed)
        assert env.np_random_seed == seed
        assert env.np_random.random(3).tolist() == seeding.np_random(seed)[0].random(3).tolist()
    ahead = seeding.np_random(2**70)[0].random(5)
    env.reset()
    assert env.np_random.random() == ahead[3], "a reset without a seed goes on with the generator"
    env.reset(seed=2**70)
    assert env.np_random.random() == ahead[0], "and one with the same seed begins it again"


def test_a_generator_of_ones_own_is_kept_and_its_seed_is_unknown():
    env = TextEnv(Walking())
    env.reset(seed=3)
    env.np_random = np.random.default_rng(5)
    assert env.np_random_seed == -1
    assert env.np_random.random() == np.random.default_rng(5).random()
    env.reset(seed=4)
    assert env.np_random_seed == 4
    assert env.np_random.random() == seeding.np_random(4)[0].random()


def test_an_unseeded_environment_draws_a_seed_for_its_generator():
    env, other = TextEnv(Walking()), TextEnv(Walking())
    assert env.np_random_seed >= 0
    assert env.np_random_seed == env.np_random_seed
    assert env.np_random.random() == seeding.np_random(env.np_random_seed)[0].random()
    assert env.np_random_seed != other.np_random_seed


@pytest.mark.parametrize("asked", ["before", "after", "never"])
def test_a_snapshot_restores_the_generator_whenever_it_is_made(asked):
    env = TextEnv(Walking())
    env.reset(seed=11)
    if asked == "before":
        env.np_random.random(4)
    snapshot = pickle.loads(pickle.dumps(env.get_state()))
    if asked == "after":
        env.np_random.random(4)
    twin = TextEnv(Walking())
    twin.reset(seed=12)
    twin.np_random.random()
    twin.set_state(snapshot)
    fresh = TextEnv(Walking())
    fresh.reset(seed=11)
    fresh.np_random.random(4 if asked == "before" else 0)
    assert twin.np_random_seed == 11
    assert twin.np_random.random() == fresh.np_random.random()


@pytest.mark.parametrize("seed", [-1, 1.5, "3"])
def test_a_seed_that_gymnasium_refuses_is_refused_and_changes_nothing(seed):
    env = TextEnv(Walking())
    env.reset(seed=5)
    before = pickle.dumps(env.get_state())
    with pytest.raises(gym.error.Error, match=f"seed must be a whole number from 0, got {seed!r}"):
        env.reset(seed=seed)
    assert pickle.dumps(env.get_state()) == before


def test_resets_make_no_generator_of_numpy(monkeypatch):
    env = TextEnv(Walking())
    monkeypatch.setattr(np.random, "PCG64", None)
    for seed in range(3):
        env.reset(seed=seed)
        env.step("go")


# a table of any size


class Long(Colours):
    size = 10**9


def test_a_table_of_any_length_is_reset_without_reading_its_order():
    env = TextEnv(Long())
    rows = [env.reset(seed=seed)[1]["index"] for seed in range(1_000)]
    assert len(set(rows)) == 1_000
    assert sum(rows) / 1_000 == pytest.approx(5e8, rel=0.1)
    assert rows_of(TextEnv(Long()), 3, seed=8) == rows_of(env, 3, seed=8)


class Asks(ExactAnswerTask):
    def ask(self, rng: random.Random, level: int) -> Question:
        number = rng.randrange(10**6)
        return Question(f"Say {number}.", number)


class OwnContent(Asks):
    def content(self, state: Question) -> str:
        return f"the number {state.answer}"


class OwnStart(Asks):
    def start(self, rng: random.Random, level: int) -> Question:
        return self.ask(rng, level)._replace(text="Say it.", content=f"{rng.randrange(10**6)}")


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("made", [Asks, OwnContent, OwnStart])
def test_a_question_is_in_its_split_by_the_content_that_its_task_gives(made, split):
    env = TextEnv(made(), split=split)
    for seed in range(40):
        text, _ = env.reset(seed=seed)
        assert split_of(env.content) == split
        assert (text == "Say it.") == (made is OwnStart)


def test_a_question_of_six_parts_is_the_one_that_names_them():
    made = question_of(("What?", 1, "By hand.", "one", "what", 2))
    assert type(made) is Question
    assert made == Question("What?", 1, working="By hand.", answer_text="one", content="what", operations=2)
