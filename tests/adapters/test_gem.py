"""GEM's own make, make_vec and wrappers over our environments; bad input without GEM."""

from __future__ import annotations

import importlib.util
import pickle
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rlvr
from rlvr.adapters import testing as kit
from rlvr.adapters import versions
from rlvr.envs.validation.targets import resolve
from rlvr.envs.validation.watched import validate_target

GUESS = "rlvr/GuessNumber-v0"


def test_a_missing_gem_is_one_clear_error(monkeypatch):
    from rlvr.adapters.suites import gem as adapter

    def missing(package):
        raise versions.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(versions.metadata, "version", missing)
    for ask in (lambda: adapter.register(GUESS), lambda: adapter.GemEnv(GUESS)):
        with pytest.raises(ImportError, match=r"gem-llm>=0\.1\.0,<0\.2"):
            ask()


@pytest.fixture
def gem_env(monkeypatch):
    """The class without GEM: it needs nothing of it but the name."""
    from rlvr.adapters.suites import gem as adapter

    monkeypatch.setattr(adapter, "require", lambda *_: "")
    return adapter.GemEnv


def test_it_is_stepped_as_directly(gem_env):
    env, direct = gem_env(GUESS, level=2), rlvr_env(level=2)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        first, said = direct.reset(seed=seed)
        assert observation == f"{said['system']}\n\n{first}"
        assert info == {**said, "valid": True}
        over = False
        while not over:
            action = direct.solve()
            text, reward, terminated, truncated, info = env.step(action)
            expected = direct.step(action)
            over = expected[2] or expected[3]
            assert (text, reward, terminated, truncated) == (*expected[:2], over, expected[3])
            assert info["verdict"] == expected[4]["verdict"]
        assert info["success"] is info["metrics"]["success"] is True
        with pytest.raises(rlvr_error(), match="reset"):
            env.step("again")


def rlvr_env(**settings):
    import gymnasium as gym

    return gym.make(GUESS, **settings).unwrapped


def rlvr_error():
    import gymnasium as gym

    return gym.error.ResetNeeded


def test_episodes_that_are_cut_off_end_as_in_gem(gem_env):
    env = gem_env(GUESS, max_turns=1)
    env.reset(seed=0)
    assert env.step("?")[2:4] == (True, True)


def test_seeds_of_the_constructor_and_a_system_prompt_apart(gem_env):
    one, same, other = (gem_env(GUESS, seed=seed, use_system=False, level=3) for seed in (4, 4, 5))
    walks = [[env.reset()[1]["seed"], env.reset()[1]["index"]] for env in (one, same, other)]
    assert walks == [[4, 1], [4, 1], [5, 1]]
    observation, info = one.reset()
    assert info["env_instruction"] == info["system"]
    assert info["system"] not in observation


def test_spawn_and_snapshots(gem_env):
    env = gem_env(GUESS, level=2)
    env.reset(seed=3)
    env.step("\\boxed{1}")
    twin, fresh = env.spawn(same_state=True), env.spawn(max_turns=1)
    stored = pickle.loads(pickle.dumps(env.get_state()))
    ahead = env.step("\\boxed{2}")
    assert twin.step("\\boxed{2}") == ahead
    twin.set_state(stored)
    assert twin.step("\\boxed{2}") == ahead
    fresh.reset(seed=3)
    assert fresh.step("\\boxed{2}")[3] is True
    assert isinstance(env.sample_random_action(), str)
    env.close()


@pytest.mark.parametrize("fault", kit.FAULTS)
def test_a_fault_of_ours_is_flagged_or_raised(gem_env, fault):
    env = gem_env(f"{kit.MODULE}:{kit.SAY}", fault=fault)
    env.reset(seed=0)
    for _ in range(3):
        _, reward, terminated, truncated, info = env.step("x")
        if terminated:
            break
    assert (reward, terminated, truncated, info["valid"]) == (0.0, True, True, False)
    assert not info["verdict"].valid
    strict = env.spawn(on_invalid="raise")
    from rlvr.adapters.suites.gem import InvalidEpisode

    def play():
        strict.reset(seed=0)
        for _ in range(3):
            strict.step("x")

    with pytest.raises(InvalidEpisode, match="on purpose"):
        play()


def test_bad_input(gem_env):
    with pytest.raises(ValueError, match="on_invalid must be one of flag, raise"):
        gem_env(GUESS, on_invalid="ignore")
    with pytest.raises(TypeError, match="no setting 'levle'"):
        gem_env(GUESS, levle=2)
    env = gem_env(GUESS)
    with pytest.raises(rlvr_error(), match="reset"):
        env.step("")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="text"):
        env.step(3)


# with GEM

foreign = pytest.mark.foreign
needs_gem = pytest.mark.skipif(importlib.util.find_spec("gem") is None, reason="GEM is not installed")


@pytest.fixture
def say():
    import gem
    from gem.envs.registration import ENV_REGISTRY

    from rlvr.adapters.suites.gem import register

    names = {register(f"{kit.MODULE}:{kit.SAY}")}
    names.add(register(f"{kit.MODULE}:{kit.DRAW}"))
    names.add(register(f"{kit.MODULE}:{kit.SAY}", "say-has_tool", has_tool=True))
    for fault in kit.FAULTS:
        names.add(register(f"{kit.MODULE}:{kit.SAY}", f"say-{fault}", fault=fault))
    yield gem
    for name in names:
        del ENV_REGISTRY[name]


def gem_name(spec):
    if spec.kwargs:
        return f"say-{spec.kwargs.get('fault', 'has_tool')}"
    return spec.env_id.replace("/", ":")


@foreign
@needs_gem
def test_the_adapter_conforms_under_gems_make(say):
    from gem.wrappers.episode_tracking_wrapper import EpisodeTrackingWrapper
    from gem.wrappers.observation_wrapper import ObservationWrapper

    def play(specs, engine):
        episodes = []
        for spec in specs:
            inner = say.make(gem_name(spec))
            env = EpisodeTrackingWrapper(ObservationWrapper(inner, include_chat_template=False))
            observation, info = env.reset(seed=spec.seed)
            played, over = kit.PlayedEpisode(spec, 0.0), False
            while not over:
                played.actions.append(engine.reply(observation))
                observation, _, terminated, truncated, info = env.step(played.actions[-1])
                over = terminated or truncated
            played.reward, played.verdict = info["cumulative_rewards"], info["verdict"]
            played.weight = float(info["valid"])
            episodes.append(played)
        return episodes

    print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False)))


@foreign
@needs_gem
@pytest.mark.parametrize("async_mode", [False, True])
def test_make_vec_plays_and_starts_again(say, async_mode):
    from rlvr.adapters.suites.gem import register

    name = register("rlvr/GuessNumber-v0", f"guess-{async_mode}")
    vector = say.make_vec([name] * 4, async_mode=async_mode, seed=7)
    _, infos = vector.reset()
    assert [info["seed"] for info in infos] == [7, 8, 9, 10]
    direct = [rlvr_env() for _ in range(4)]
    for place, env in enumerate(direct):
        env.reset(seed=7 + place)
    actions = [env.solve() for env in direct]
    expected = [env.step(action) for env, action in zip(direct, actions, strict=True)]
    _, rewards, terminations, _, infos = vector.step(actions)
    assert rewards.tolist() == [step[1] for step in expected]
    assert terminations.tolist() == [step[2] or step[3] for step in expected]
    for _ in range(12):
        vector.step({0: "\\boxed{1}", 2: "nothing"})  # some of them alone, over the ends of episodes


@foreign
@needs_gem
def test_an_environment_that_raises_leaves_the_others_of_the_batch_alone(say):
    vector = say.make_vec(["rlvr-testing:Say-v0", "say-step"], async_mode=True, seed=0)
    vector.autoreset_mode = type(vector.autoreset_mode).NEXT_STEP
    vector.reset()
    for _ in range(2):
        _, _, terminations, truncations, infos = vector.step(["x", "x"])
    assert (terminations | truncations).tolist() == [False, True]
    assert [info["valid"] for info in infos] == [True, False]


@foreign
@needs_gem
def test_all_are_registered_and_nothing_global_is_seeded(say):
    from rlvr.adapters.suites.gem import register_all

    names = register_all("GuessNumber")
    assert names == [env_id.replace("/", ":") for env_id in rlvr.list_envs("GuessNumber")]
    with pytest.raises(ValueError, match="already"):
        register_all("GuessNumber")
    env = say.make(names[0])
    before = random.getstate()
    env.reset(seed=3)
    env.step("\\boxed{1}")
    assert random.getstate() == before
    assert isinstance(env, say.Env)


@foreign
@needs_gem
def test_the_page_runs():
    page = (Path(__file__).parents[2] / "docs" / "adapters" / "gem.md").read_text(encoding="utf-8")
    block = re.search(r"```py\n(.*?)```", page, re.DOTALL)[1]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr


@foreign
@needs_gem
def test_another_version_is_named(monkeypatch):
    from rlvr.adapters.suites.gem import GemEnv

    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.0.4")
    with pytest.raises(ImportError, match=r"gem-llm 0\.0\.4 is too old"):
        GemEnv(GUESS)
    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.2.0")
    with pytest.warns(RuntimeWarning, match="newer"):
        GemEnv(GUESS)


# its games as they are shipped, under `rlvr validate`


@foreign
@needs_gem
def test_a_board_is_part_of_the_observation_of_a_game_that_is_validated():
    env = resolve("gem:game:Sudoku-v0-easy", {}).make()
    first, info = env.reset(seed=0)
    assert info["suffix"]
    assert info["suffix"] in first
    second, *_, info = env.step("\\boxed{1 1 1}")
    assert info.get("suffix", "") in second


@foreign
@needs_gem
def test_commands_in_boxes_leave_no_maximum_out_of_reach():
    report = validate_target("gem:game:Game2048-v0-easy", tasks=2, checks=["semantic.oracle_max"])
    assert not report.at_least("low"), str(report)
