"""What holds for every registered id. A new environment is tested by being registered: nothing is added here."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import pickle
import random
import re
import subprocess
import sys
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import rlvr
from rlvr.envs import TextEnv, Verdict
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.core.images import image_of, text_of
from rlvr.envs.core.registry import best_scores
from rlvr.envs.core.seeding import SPLITS
from rlvr.envs.core.task import Task
from rlvr.envs.sandbox.probes import NATIVE, probe_tier
from rlvr.envs.tools import Call, write_call

from .group_isolation import PrivateValue, check_interleaved, check_members
from .needs import COSTLY, has_rocq

# Processes import it by its name.
sys.path.insert(0, str(Path(__file__).parent / "envs"))
Drawing = importlib.import_module("private_kit").Drawing

CODING = {
    f"rlvr/{name}-v0"
    for name in "HumanEval MBPP CodeContests CodeTests CodeRepair RepoRepair RepoFeature GSM8K-Python Rocq".split()
}
HELD = any(probe_tier(tier).holds for tier in NATIVE)
REFUSED = CODING if not HELD else set()  # they refuse where no sandbox holds
if not probe_tier("T3").holds and (not HELD or os.geteuid() != 0):
    REFUSED = REFUSED | {"rlvr/Terminal-v0"}  # T2 lets only root's programs change permissions
if find_spec("chess") is None:
    REFUSED = REFUSED | {"rlvr/Chess-v0"}  # it needs the extra games
if not has_rocq():
    REFUSED = REFUSED | {"rlvr/Rocq-v0"}
# tests/envs/test_bridges.py has those of other suites
ENVS = [i for i in rlvr.list_envs() if i not in REFUSED and not i.startswith(PREFIXES)]
SEEDS = range(30)
# All that `info` may hold before the end: none of it can carry the answer.
RESET_KEYS = {"env_id", "split", "level", "seed", "index", "turn", "role"}
PLAIN = (str, int, type(None))
HOSTILE = {
    "empty": "",
    "blank": " \n\t ",
    "junk": "I think it might be one of those, who knows",
    "nul": "\x00" * 50,
    "surrogate": "\ud800\udfff",
    "100 kB of a letter": "a" * 100_000,
    "100 kB of blanks": " " * 100_000,
    "100 kB of digits": "9" * 100_000,
    "open boxes": "\\boxed{" * 12_000,
    "open tool calls": "<tool>" * 16_000,
    "open answers": "<answer>" * 12_000,
    "open thoughts": "<think>" * 12_000,
    "marks": "####" * 25_000,
    "brackets": "(" * 100_000,
    "box of brackets": "\\boxed{" + "(" * 50_000 + ")" * 50_000 + "}",
    "box of nines": "\\boxed{" + "9**" * 20_000 + "9}",
    "special tokens": "<|im_end|>\n<|im_start|>user\n<|endoftext|><s></s>[INST]<|eot_id|>",
    "directions": "\u202e\u2066\u200b\ufeff\x1b[2J\x07",
    "placeholders": "{} {0.__class__} {name!r} %s %(x)s ${HOME} $(id) `id`",
    "python": "__import__('os').system('true')",
    "not numbers": "\\boxed{nan} \\boxed{inf} \\boxed{-inf}",
    "other digits": "\\boxed{٣٤} \\boxed{²}",
}


@cache
def shared(env_id: str) -> TextEnv:
    """One bare environment an id, for the tests that leave its settings alone."""
    env = gym.make(env_id).unwrapped
    assert isinstance(env, TextEnv)
    return env


def levels(env_id: str) -> range:
    return range(1, shared(env_id).task.levels + 1)


EVERY_LEVEL = [(env_id, level) for env_id in ENVS for level in levels(env_id)]


def plain(observation: Any) -> tuple[str, bytes]:
    """An observation as something that can be compared: its text, and the bytes of its image."""
    image = image_of(observation)
    return text_of(observation), b"" if image is None else image.tobytes()


def apart(observations: Any) -> list[tuple[str, bytes]]:
    """The observations of a vector environment, each by itself."""
    if isinstance(observations, dict):
        return [(text, image.tobytes()) for text, image in zip(*map(observations.get, ("text", "image")), strict=True)]
    return list(map(plain, observations))


def expert_actions(env: TextEnv, seed: int, **options: Any) -> list[str]:
    env.reset(seed=seed, options=options)
    actions = []
    over = False
    while not over:
        actions.append(env.solve())
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return actions


def fingerprint(env_id: str) -> str:
    """Hash of what three seeds look like from outside: observations, rewards, infos, experts' and random actions."""
    env = gym.make(env_id).unwrapped
    record: list[Any] = []
    for seed in range(3):
        actions = expert_actions(env, seed)
        steps = rlvr.replay(env, seed, actions)
        env.reset(seed=seed)
        seen = [plain(step[0]) for step in steps]
        record.append([seen, repr([step[1:] for step in steps]), env.content, env.sample_action(random.Random(seed))])
    return hashlib.sha256(repr(record).encode("utf-8", "surrogatepass")).hexdigest()


# the Gymnasium contract


@pytest.mark.parametrize("env_id", ENVS)
def test_passes_gymnasiums_own_checker_without_a_warning(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id).unwrapped)


@pytest.mark.parametrize("env_id", ENVS)
def test_the_made_environment_plays_an_episode_under_the_passive_checker_without_a_warning(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gym.make(env_id)
        observation, _ = env.reset(seed=0)
        assert observation in env.observation_space
        over = False
        while not over:
            action = env.unwrapped.solve()
            assert action in env.action_space
            observation, _, terminated, truncated, _ = env.step(action)
            assert observation in env.observation_space
            over = terminated or truncated
        env.close()
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("env_id", ENVS)
def test_runs_vectorised_with_default_arguments(env_id, mode):
    single = shared(env_id)
    vector = gym.make_vec(env_id, num_envs=3, vectorization_mode=mode)
    try:
        observations, infos = vector.reset(seed=[5, 6, 7])
        expected = [plain(single.reset(seed=seed)[0]) for seed in (5, 6, 7)]
        assert apart(observations) == expected
        first = []
        for seed in (5, 6, 7):
            single.reset(seed=seed)
            first.append(single.solve())
        outcomes = []
        for seed, action in zip((5, 6, 7), first, strict=True):
            single.reset(seed=seed)
            outcomes.append(single.step(action))
        observations, rewards, terminated, truncated, infos = vector.step(tuple(first))
        assert apart(observations) == [plain(outcome[0]) for outcome in outcomes]
        assert rewards.tolist() == [outcome[1] for outcome in outcomes]
        assert terminated.tolist() == [outcome[2] for outcome in outcomes]
        assert truncated.tolist() == [outcome[3] for outcome in outcomes]
        assert [verdict.reward for verdict in infos["verdict"]] == rewards.tolist()
        vector.step(("",) * 3)  # what has ended starts again by itself
    finally:
        vector.close()


@pytest.mark.parametrize("env_id", ENVS)
def test_its_spec_is_plain_json_that_rebuilds_the_same_task(env_id):
    env = gym.make(env_id, max_turns=2)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert plain(again.reset(seed=4)[0]) == plain(env.reset(seed=4)[0])
    assert again.unwrapped.max_turns == 2


# the same task for the same seed


@pytest.mark.parametrize("env_id", ENVS)
def test_the_same_seed_is_the_same_episode(env_id):
    env, other = gym.make(env_id).unwrapped, gym.make(env_id).unwrapped
    other.reset(seed=99)  # what came before must not matter
    for seed in range(5):
        actions = ["not an answer", *expert_actions(env, seed)]
        assert repr(rlvr.replay(env, seed, actions)) == repr(rlvr.replay(other, seed, actions))


@pytest.mark.parametrize("env_id", ENVS)
def test_other_seeds_are_other_tasks(env_id):
    env = shared(env_id)
    contents = set()
    for seed in SEEDS:
        env.reset(seed=seed)
        contents.add(env.content)
    space = env.size or len(env.task.enumerate_contents(1) or range(1_000_000))
    assert len(contents) >= min(len(SEEDS), space) // 3
    episodes = [tuple(_contents_of_stream(env, seed, 5)) for seed in range(8)]
    # The few rows of a test table have few orders, of which two seeds may draw the same.
    least = 4 if env.size is not None and env.size < 7 else len(episodes)
    assert len(set(episodes)) >= least, "two seeds walk through the same tasks"


def _contents_of_stream(env: TextEnv, seed: int, count: int) -> list[str]:
    env.reset(seed=seed)
    contents = [env.content]
    for _ in range(count - 1):
        env.reset()
        contents.append(env.content)
    return contents


@pytest.mark.parametrize("env_id", ENVS)
def test_a_reset_without_seed_goes_on_to_the_next_task_of_the_seed(env_id):
    env = shared(env_id)
    walk = _contents_of_stream(env, 3, 6)
    assert walk == _contents_of_stream(env, 3, 6)
    assert len(set(walk)) > 1


@pytest.mark.parametrize("env_id", ENVS)
def test_the_identity_in_info_names_the_task(env_id):
    env = gym.make(env_id).unwrapped
    for seed in range(6):
        for again in (False, True):
            observation, info = env.reset() if again else env.reset(seed=seed)
            content = env.content
            options = {"index": info["index"], "split": info["split"], "level": info["level"]}
            twin = gym.make(info["env_id"], split=info["split"]).unwrapped
            same, named = twin.reset(seed=info["seed"], options=options)
            assert (plain(same), twin.content) == (plain(observation), content)
            assert {key: named[key] for key in options} == options


@pytest.mark.slow
def test_episodes_are_the_same_in_another_process_with_other_string_hashes():
    """Sets and dicts of strings change their order with PYTHONHASHSEED; nothing may depend on it."""
    here = {env_id: fingerprint(env_id) for env_id in ENVS}
    code = (
        "import importlib, json, sys, types;"
        "package = sys.modules['tests'] = types.ModuleType('tests'); package.__path__ = [sys.argv[1]];"
        "every = importlib.import_module('tests.test_every_env');"
        "print(json.dumps({i: every.fingerprint(i) for i in every.ENVS}))"
    )
    for hash_seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        there = json.loads(done.stdout)
        assert {env_id: there[env_id] for env_id in here} == here


# who may win


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "level"), EVERY_LEVEL)
def test_the_expert_scores_one(env_id, level):
    env = gym.make(env_id, level=level).unwrapped
    scores = []
    for seed in SEEDS[:8] if env_id in COSTLY else SEEDS:
        steps = rlvr.replay(env, seed, expert_actions(env, seed))
        _, reward, terminated, truncated, info = steps[-1]
        scores.append(sum(step[1] for step in steps))
        if env.task.always_solvable:
            verdict = info["verdict"]
            assert (verdict.status, reward, terminated, truncated) == ("correct", 1.0, True, False), (seed, verdict)
            assert info["success"] is True
            assert scores[-1] == 1.0
    # where a sum is paid, what is lost until a habit is found out stays lost
    assert max(scores) > 0.8 if getattr(env.task, "reward", "") == "payoff" else max(scores) == 1.0
    teams = getattr(getattr(env.task, "game", None), "teams", ())
    handicapped = level > 1 and 1 < len({*teams}) < len(teams)  # its mate errs, and the other team does not
    assert sum(scores) / len(scores) > (0.15 if handicapped else 0.3)  # an expert at a game of luck
    assert min(scores) >= 0.0


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.timeout(60)  # nothing here takes a second; a quadratic scan of 100 kB takes minutes
def test_hostile_text_never_raises_and_scores_zero(env_id, caplog):
    env = shared(env_id)
    for name, text in HOSTILE.items():
        env.reset(seed=1)
        over, total, info = False, 0.0, {}
        while not over:
            observation, reward, terminated, truncated, info = env.step(text)
            total += reward
            over = terminated or truncated
            verdict = info["verdict"]
            assert isinstance(verdict, Verdict), name
            assert verdict.valid, (name, verdict)
            assert len(verdict.reason) <= 1_000, name
            assert observation in env.observation_space, name
        assert (total, info["success"]) == (0.0, False), name
        assert not caplog.records, name  # a checker that raised inside scores 0 too, and says so in the log
        json.dumps(info["verdict"].to_dict())
        pickle.dumps(info)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ENVS)
def test_random_play_ends_with_rewards_between_zero_and_one(env_id):
    env = shared(env_id)
    rng = random.Random(0)
    for seed in range(20):
        env.reset(seed=seed)
        over, total = False, 0.0
        while not over:
            action = env.sample_action(rng)
            assert action in env.action_space
            _, reward, terminated, truncated, info = env.step(action)
            assert type(reward) is float
            assert math.isfinite(reward)
            total += reward
            over = terminated or truncated
        assert 0.0 <= total <= 1.0
        assert info["success"] == (info["verdict"].status == "correct")


# what `info` says, and what it must not say


@pytest.mark.parametrize(("env_id", "level"), EVERY_LEVEL)
def test_info_holds_the_identity_and_no_answer_before_the_end(env_id, level):
    env = gym.make(env_id, level=level).unwrapped
    _, info = env.reset(seed=2)
    said = {key for key in ("system", "tools") if getattr(env.task, key)}
    best = best_scores(env_id)
    said |= {"best_score"} if best and best[level - 1] < 1 else set()
    assert set(info) == RESET_KEYS | said
    assert all(isinstance(info[key], PLAIN) for key in RESET_KEYS), info
    assert (info["env_id"], info["level"], info["seed"], info["turn"]) == (env_id, level, 2, 0)
    actions = expert_actions(env, 2)
    env.reset(seed=2)
    for turn, action in enumerate(actions[:-1], 1):
        _, reward, terminated, truncated, info = env.step(action)
        assert (terminated, truncated) == (False, False)
        assert set(info) == RESET_KEYS | {"verdict"}
        assert (info["turn"], info["verdict"].answer, reward) == (turn, None, 0.0)


@pytest.mark.parametrize("env_id", ENVS)
def test_single_turns_terminate_and_spent_turns_truncate(env_id):
    env = shared(env_id)
    for level in levels(env_id):
        env.reset(seed=0, options={"level": level})
        limit = env.task.turns(level)
        for turn in range(1, limit + 1):
            _, _, terminated, truncated, info = env.step("no answer")
            assert info["turn"] == turn
            if terminated or truncated:
                break
        if limit == 1:
            assert (terminated, truncated) == (True, False)
        else:
            assert terminated != truncated
            assert terminated or turn == limit
        assert info["success"] is False


@pytest.mark.parametrize("env_id", ENVS)
def test_max_turns_shortens_an_episode(env_id):
    env = gym.make(env_id, max_turns=1).unwrapped
    env.reset(seed=0)
    _, reward, terminated, truncated, _ = env.step("no answer")
    assert terminated or truncated
    assert terminated != truncated
    assert reward == 0.0
    with pytest.raises(ResetNeeded):
        env.step("again")


@pytest.mark.parametrize("env_id", ENVS)
def test_renders_its_transcript_as_text(env_id):
    env = gym.make(env_id, render_mode="ansi")
    observation, _ = env.reset(seed=0)
    assert env.render() == text_of(observation)
    action = env.unwrapped.solve()
    later, *_ = env.step(action)
    assert env.render() == f"{text_of(observation)}\n> {action}\n{text_of(later)}"


# exact restore


@pytest.mark.parametrize("env_id", ENVS)
@pytest.mark.parametrize("way", ["fork", "state", "pickle", "pickled state"])
def test_restores_exactly_in_mid_episode(env_id, way):
    env = gym.make(env_id, render_mode="ansi").unwrapped
    actions = expert_actions(env, 11)
    for cut in range(len(actions)):
        env.reset(seed=11)
        env.np_random.random(3)
        for action in actions[:cut]:
            env.step(action)
        twin = _restored(env, way)
        ahead = [repr(env.step(action)) for action in actions[cut:]]
        assert [repr(twin.step(action)) for action in actions[cut:]] == ahead
        assert twin.render() == env.render()
        assert twin.np_random_seed == env.np_random_seed
        assert twin.np_random.random() == env.np_random.random()
        assert repr(twin.reset()) == repr(env.reset()), "the walk through the seed's tasks must go on alike"


def _restored(env: TextEnv, way: str) -> TextEnv:
    if way == "fork":
        return env.fork()
    if way == "pickle":
        return pickle.loads(pickle.dumps(env))
    twin = gym.make(env.spec.id, render_mode="ansi").unwrapped
    twin.reset(seed=1234)
    state = env.get_state()
    twin.set_state(pickle.loads(pickle.dumps(state)) if way == "pickled state" else state)
    return twin


@pytest.mark.parametrize("env_id", ENVS)
def test_going_back_to_a_snapshot_undoes_everything(env_id):
    env = gym.make(env_id).unwrapped
    env.reset()  # without a seed: gymnasium's generator does not exist yet
    snapshot = env.get_state()
    before = pickle.dumps(snapshot)
    first = env.solve()
    ahead = repr(env.step(first))
    env.reset(seed=5)
    env.set_state(snapshot)
    assert repr(env.step(first)) == ahead
    env.set_state(snapshot)
    assert pickle.dumps(env.get_state()) == before


@pytest.mark.parametrize("env_id", ENVS)
def test_a_fork_goes_its_own_way(env_id):
    env = gym.make(env_id).unwrapped
    env.reset(seed=8)
    before = pickle.dumps(env.get_state())
    twin = env.fork()
    twin.step("something else")
    twin.np_random.random()
    twin.reset(seed=9)
    assert pickle.dumps(env.get_state()) == before


# groups


def members(env_id: str, count: int, **settings: Any) -> list[TextEnv]:
    """Members of one group, as a rollout makes them."""
    first = gym.make(env_id, **settings).unwrapped
    return [first, *(first.spawn() for _ in range(count - 1))]


DRAW, TELL = (write_call(Call(name, {}), "hermes") for name in ("draw", "tell"))
# How a member draws a value of its own in the live session that an environment has by itself.
PRIVATE = {
    "rlvr/GSM8K-Python-v0": PrivateValue(
        lambda _: write_call(Call("python", {"code": "import secrets; n = secrets.token_hex(8); print(n)"}), "hermes"),
        lambda _: write_call(Call("python", {"code": "print(n)"}), "hermes"),
        str.strip,
    ),
    "rlvr/Terminal-v0": PrivateValue(
        lambda _: "clear; echo n=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ') > n; cat n<Enter>",
        lambda _: "clear; cat n<Enter>",
        lambda screen: (re.findall(r"^n=(\w+)", screen, re.MULTILINE) or [""])[-1],
    ),
}


@pytest.mark.parametrize("env_id", ENVS)
def test_no_value_crosses_between_members_of_a_group_with_tools(env_id):
    """Each member's tools draw a value; equal calls in random orders must bring each its own."""
    envs = members(env_id, 8, tools={"tools": [Drawing()], "max_calls": 20})
    for seed in range(2):
        check_members(envs, PrivateValue(lambda _: DRAW, lambda _: TELL, str.strip), seed=seed)
    for env in envs:
        env.close()


@pytest.mark.parametrize("env_id", ENVS)
def test_no_value_crosses_between_the_live_sessions_of_a_group(env_id):
    if type(shared(env_id).task).detached is Task.detached:
        pytest.skip("its states hold all there is: no session lives beside them")
    assert env_id in PRIVATE, "say in PRIVATE how a member of a group draws a value of its own"
    envs = members(env_id, 4)
    check_members(envs, PRIVATE[env_id])
    for env in envs:
        env.close()


@pytest.mark.parametrize("env_id", ENVS)
def test_members_of_a_group_that_act_in_turns_observe_what_each_observes_alone(env_id):
    envs, (alone,) = members(env_id, 4), members(env_id, 1)
    for seed in range(2):
        check_interleaved(envs, alone, seed=seed)
    for env in (*envs, alone):
        env.close()


# splits


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "level"), EVERY_LEVEL)
def test_splits_share_no_task_and_none_is_empty(env_id, level):
    contents = {split: _contents_of_split(env_id, level, split) for split in shared(env_id).task.splits}
    assert all(contents.values())
    for one in contents:
        for other in contents:
            assert one == other or not contents[one] & contents[other]


def _contents_of_split(env_id: str, level: int, split: str) -> set[str]:
    env = gym.make(env_id, split=split, level=level).unwrapped
    contents = set()
    # A held-out task is the tenth that is drawn; the audit draws more of them and compares their texts.
    seeds, each = (4, 60) if env.task.enumerate_contents(level) else (1, 2 if env_id in COSTLY else 4)
    for seed in range(seeds):
        for index in range(env.size or each):
            _, info = env.reset(seed=seed, options={"index": index})
            assert (info["split"], info["level"], info["index"]) == (split, level, index)
            contents.add(env.content)
    return contents


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "level"), EVERY_LEVEL)
def test_a_small_space_lists_every_task_once_and_is_divided_whole(env_id, level):
    task = shared(env_id).task
    space = task.enumerate_contents(level)
    if space is None:
        pytest.skip("the space is large: its splits are told by a hash")
    assert len(set(space)) == len(space)
    drawn = {task.content(task.start(random.Random(seed), level)) for seed in range(50)}
    assert drawn <= set(space)
    if len(space) <= 40:  # few enough for 240 draws to find them all
        found = [_contents_of_split(env_id, level, split) for split in SPLITS]
        assert set.union(*found) == set(space)


@pytest.mark.parametrize("env_id", ENVS)
def test_no_split_draws_from_everything(env_id):
    if shared(env_id).size is not None:
        pytest.skip("a table is read for one split")
    env = gym.make(env_id, split=None).unwrapped
    _, info = env.reset(seed=0)
    assert info["split"] is None


# bad input: one clear error that names what was given


@pytest.mark.parametrize("env_id", ENVS)
def test_an_unknown_setting_is_a_type_error_that_names_it(env_id):
    with pytest.raises(TypeError, match=r"no setting 'difficultly'; it has .*level"):
        gym.make(env_id, difficultly=3)
    with pytest.raises(TypeError, match="no setting 'levle'; did you mean 'level'"):
        gym.make(env_id, levle=3)


@pytest.mark.parametrize("env_id", ENVS)
def test_a_bad_level_is_refused_with_the_range(env_id):
    highest = shared(env_id).task.levels
    for level in (0, -1, 99, 1.5, "1", None, True):
        with pytest.raises(ValueError, match=f"1 to {highest}"):
            gym.make(env_id, level=level)
        with pytest.raises(ValueError, match=f"1 to {highest}"):
            shared(env_id).reset(seed=0, options={"level": level})


@pytest.mark.parametrize("env_id", ENVS)
def test_a_bad_split_is_refused_with_those_there_are(env_id):
    for split in ("Train", "", "dev", 1):
        there_are = f"{'.*'.join(shared(env_id).task.splits)}|did you mean '{str(split).lower()}'"
        with pytest.raises(ValueError, match=there_are):
            gym.make(env_id, split=split)
        with pytest.raises(ValueError, match=there_are):
            shared(env_id).reset(seed=0, options={"split": split})


@pytest.mark.parametrize("env_id", ENVS)
def test_a_bad_index_is_refused(env_id):
    for index in (-1, 0.5, "0", True):
        with pytest.raises(ValueError, match="index must be a whole number from 0"):
            shared(env_id).reset(seed=0, options={"index": index})


@pytest.mark.parametrize("env_id", ENVS)
def test_an_index_behind_the_last_row_is_refused_with_the_size(env_id):
    env = shared(env_id)
    if env.size is None:
        pytest.skip("generated without end")
    with pytest.raises(ValueError, match=f"{env.size} tasks"):
        env.reset(seed=0, options={"index": env.size})


@pytest.mark.parametrize("env_id", ENVS)
def test_an_unknown_option_is_refused_with_the_nearest(env_id):
    with pytest.raises(ValueError, match=r"'indx'.*did you mean 'index'"):
        shared(env_id).reset(seed=0, options={"indx": 3})


@pytest.mark.parametrize("env_id", ENVS)
def test_a_bad_number_of_turns_is_refused(env_id):
    for turns in (0, -3, 1.5, "2", True):
        with pytest.raises(ValueError, match="max_turns must be"):
            gym.make(env_id, max_turns=turns)


@pytest.mark.parametrize("env_id", ENVS)
def test_an_action_that_is_not_text_is_refused_and_changes_nothing(env_id):
    env = shared(env_id)
    env.reset(seed=0)
    before = pickle.dumps(env.get_state())
    for action in (None, 3, b"text", ["text"], np.str_):
        with pytest.raises(TypeError, match="text"):
            env.step(action)
        assert pickle.dumps(env.get_state()) == before, action


@pytest.mark.parametrize("env_id", ENVS)
def test_nothing_can_be_done_before_reset_or_after_the_end(env_id):
    env = gym.make(env_id).unwrapped
    for act in (lambda: env.step(""), env.solve, env.get_state, env.fork, lambda: env.content):
        with pytest.raises(ResetNeeded, match="reset"):
            act()
    expert_actions(env, 0)
    with pytest.raises(ResetNeeded, match=r"over.*reset"):
        env.step("")
    with pytest.raises(ResetNeeded, match="reset"):
        env.solve()


@pytest.mark.parametrize("env_id", ENVS)
def test_a_failed_reset_leaves_the_episode_as_it_was(env_id):
    env = gym.make(env_id).unwrapped
    env.reset(seed=0)
    before = pickle.dumps(env.get_state())
    with pytest.raises(ValueError, match="level"):
        env.reset(seed=1, options={"level": 99})
    assert pickle.dumps(env.get_state()) == before
