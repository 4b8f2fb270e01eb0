"""A plain environment of Gymnasium, by its id, class or function: played in words, whatever it does wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, MultiDiscrete, Text

from rlvr.agents import ConstantAgent, Rollout, RolloutRequest
from rlvr.agents.evaluation import evaluate, read_episodes, task_requests
from rlvr.agents.evaluation.play import evaluate_env
from rlvr.cli import main
from rlvr.envs.cards import card
from rlvr.envs.core.code_rule import make_env

SOURCE = """
import gymnasium as gym
from gymnasium.spaces import Text


class Echo(gym.Env):
    \"\"\"Say a word.

    Observation: the word.
    \"\"\"

    observation_space = action_space = Text(100)

    def __init__(self, render_mode=None, letters="abcdef"):
        self.render_mode, self.letters = render_mode, letters

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.word = "".join(self.np_random.choice(list(self.letters), 4))
        return f"Say {self.word}.", {}

    def step(self, action):
        return "", float(action == self.word), True, False, {}


def make_echo(**settings):
    return Echo(**settings)


class NoEnv:
    pass


gym.register("plain/Echo-v0", "plain_echo:Echo")
gym.register("plain/Made-v0", make_echo, kwargs={"letters": "ghij"})
"""
NAMES = ("Echo", "make_echo", "plain/Echo-v0", "plain/Made-v0")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "plain_echo.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield "plain_echo"
    for env_id in ("plain/Echo-v0", "plain/Made-v0"):
        gym.registry.pop(env_id, None)
    sys.modules.pop("plain_echo", None)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_evaluated_on_tasks_that_differ(module, tmp_path, capsys, name):
    words = ["eval", "--env", f"{module}:{name}", "--agent", "empty", "--episodes", "5", "--out", "a.jsonl"]
    assert main([*words, "--allow-code", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["valid"], result["success"], result["statuses"]) == (5, 0.0, {"unparsable": 5})
    episodes = read_episodes(tmp_path / "a.jsonl")
    assert len({episode.turns[0].observation for episode in episodes}) > 1
    assert {episode.split for episode in episodes} == {"test"}
    assert {episode.env_id for episode in episodes} == {name if "/" in name else f"{module}:{name}"}


@pytest.mark.parametrize("name", NAMES)
def test_its_own_settings_are_given_to_it_and_a_second_making_repeats_it(module, name):
    first, second = (make_env(f"{module}:{name}", letters="xyz", level=1, split="train") for _ in range(2))
    seen = {first.reset(seed=seed)[0] for seed in range(20)}
    assert seen == {second.reset(seed=seed)[0] for seed in range(20)}
    assert len(seen) > 10
    assert set("".join(text.split()[1].strip(".") for text in seen)) == set("xyz")
    with pytest.raises(TypeError, match="colour"):
        make_env(f"{module}:{name}", colour=1)


def test_a_class_and_a_function_are_taken_as_they_are(module):
    sys.modules.pop(module, None)
    echo = __import__(module)
    for make in (echo.Echo, echo.make_echo, lambda: echo.Echo(letters="xyz")):
        rollout = Rollout(make, ConstantAgent("\\boxed{abcd}"))
        episodes = rollout([RolloutRequest(seed=0, index=index) for index in range(8)])
        assert len({episode.turns[0].observation for episode in episodes}) > 4
        assert {episode.env_id for episode in episodes} == {"Echo"}
        again = rollout([RolloutRequest(seed=0, index=3, sample=1)])[0]
        assert again.turns[0].observation == episodes[3].turns[0].observation


def test_its_card_says_how_it_is_taken_in(module, capsys):
    assert main(["card", f"{module}:Echo", f"{module}:plain/Echo-v0", "--allow-code"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("asks        Say a word.") == 2
    assert "observation the word." in printed
    assert "without end" not in printed
    assert "how many tasks there are" in printed
    assert "licence     that of plain_echo" in printed
    assert "a return of at least 1" in printed


@pytest.mark.slow
def test_it_is_audited_and_validated(module, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ".")
    assert main(["audit", f"{module}:Echo", "--allow-code", "--tasks", "2"]) == 0
    assert main(["validate", f"{module}:Echo", "--allow-code", "--tasks", "2", "--fail-on", "high"]) == 0
    assert "NO END" not in capsys.readouterr().out


def test_it_is_code_and_needs_leave(module, capsys):
    for name in NAMES:
        assert main(["eval", "--env", f"{module}:{name}", "--agent", "empty", "--episodes", "1"]) == 2
        assert "--allow-code" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["NoEnv", "Missing"])
@pytest.mark.parametrize("command", [["eval", "--agent", "empty", "--env"], ["card"]])
def test_what_is_no_environment_is_refused(module, name, command, capsys):
    assert main([*command, f"{module}:{name}", "--allow-code"]) == 2
    assert name in capsys.readouterr().err


# what an environment may do wrong


class Plain(gym.Env):
    """Says a number, and pays for the same."""

    observation_space = Text(1_000)
    action_space = Text(20)
    REWARD: object = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = str(self.np_random.integers(10**9))
        return f"Say {self.number}.", {}

    def step(self, action):
        return "over", self.REWARD, True, False, {}


class WithoutSeed(Plain):
    def reset(self):
        return "Say 1.", {}


class OldReset(Plain):
    def reset(self, *, seed=None, options=None):
        return "Say 1."


class TwoLetters(Plain):
    def reset(self, *, seed=None, options=None):
        return "ab"


class OldStep(Plain):
    def step(self, action):
        return "over", 1.0, True, {}


class NoInfo(Plain):
    def step(self, action):
        return "over", 1.0, True, False, None


class Numbers(Plain):
    def step(self, action):
        return 7, 1.0, True, False, {}


class Raises(Plain):
    def step(self, action):
        raise KeyError("on purpose")


class RaisesAtReset(Plain):
    def reset(self, *, seed=None, options=None):
        raise KeyError("on purpose")


class Paid(Plain):
    def __init__(self, reward):
        self.REWARD = reward


class Endless(Plain):
    def step(self, action):
        return "go on", 0.0, False, False, {}


class NumpyText(Plain):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.str_(f"Say {self.number}."), {}

    def step(self, action):
        return np.str_("over"), np.float32(1), np.True_, np.False_, {}


class Forgetful(Plain):
    """Takes a seed, and does not heed it."""

    rng = np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        return f"Say {self.rng.integers(10**9)}.", {}


class Global(Plain):
    def reset(self, *, seed=None, options=None):
        return f"Say {np.random.randint(10**9)}.", {}


class Digits(Plain):
    action_space = Text(min_length=2, max_length=3, charset="0123456789")


class Boxes(Plain):
    """Reads a box of its own."""

    action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return f"Put {self.number} into \\boxed{{}}.", {}

    def step(self, action):
        return "over", float(action == f"It is \\boxed{{{self.number}}}"), True, False, {}


class Success(Plain):
    REWARD = 5.0

    def step(self, action):
        return "over", 5.0, True, False, {"success": np.False_}


def played(make, action="\\boxed{12}", count=3, samples=1):
    rollout = Rollout(make, ConstantAgent(action))
    return rollout(task_requests(None, count, samples=samples))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (WithoutSeed, "takes no seed: write reset"),
        (OldReset, "reset must return"),
        (TwoLetters, "reset must return"),
    ],
)
def test_a_reset_that_breaks_the_api_is_refused_when_it_is_made(kind, complaint):
    with pytest.raises((TypeError, ValueError), match=complaint):
        Rollout(kind, ConstantAgent("x"))


@pytest.mark.parametrize("space", [Box(0, 1), MultiDiscrete([2, 2]), Dict({"a": Text(3)})])
def test_spaces_of_other_kinds_are_refused_with_what_to_say(space):
    gym.register("plain-test/Other-v0", type("Other", (Plain,), {"observation_space": space}))
    try:
        with pytest.raises(ValueError, match="become text: to_text"):
            make_env("plain-test/Other-v0")
    finally:
        del gym.registry["plain-test/Other-v0"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (OldStep, "step must return"),
        (NoInfo, "info of step must be a mapping, and was NoneType"),
        (Numbers, "an observation must be a text, and was int 7"),
        (Raises, "KeyError"),
        (RaisesAtReset, "KeyError"),
        (lambda: Paid(float("nan")), "nan"),
        (lambda: Paid(float("inf")), "inf"),
        (lambda: Paid(None), "the reward must be a number, and was None"),
        (lambda: Paid("1.0"), "the reward must be a number, and was '1.0'"),
        (lambda: Paid([1]), "list"),
    ],
)
def test_what_fails_is_a_fault_of_the_environment_and_no_reward_of_0(kind, reason):
    for episode in played(kind):
        assert episode.verdict is not None
        assert (episode.verdict.status, episode.reward, episode.valid) == ("env_error", 0.0, False)
        assert reason in episode.verdict.reason


@pytest.mark.parametrize("reward", [True, 1, np.float64(1), np.int8(1), np.bool_(True)])
def test_a_reward_is_any_number(reward):
    assert [episode.reward for episode in played(lambda: Paid(reward))] == [1.0] * 3


def test_texts_of_numpy_become_texts_of_pythons():
    for episode in played(NumpyText):
        assert type(episode.turns[0].observation) is str
        assert (episode.reward, type(episode.terminated), episode.verdict.success) == (1.0, bool, True)


def test_one_that_never_ends_is_cut():
    (episode,) = played(Endless, count=1)
    assert (len(episode.turns), episode.truncated, episode.verdict.status) == (100, True, "wrong")
    assert episode.verdict.reason == "not done within 100 turns"


def test_no_step_after_the_end_reaches_it():
    env = gym.make("rlvr/Gymnasium-v0", env=Plain, reward="return").unwrapped
    env.reset(seed=0)
    assert env.step("\\boxed{12}")[2]
    with pytest.raises(gym.error.ResetNeeded):
        env.step("\\boxed{12}")


def test_what_does_not_repeat_itself_is_in_no_group():
    episodes = played(Forgetful, samples=3)
    assert [episode.valid for episode in episodes] == [True, False, False] * 3
    assert "does not repeat itself from a seed" in episodes[1].verdict.reason


def test_what_draws_from_a_global_generator_repeats_itself():
    first, second = (played(Global, samples=2) for _ in range(2))
    texts = [[episode.turns[0].observation for episode in episodes] for episodes in (first, second)]
    assert texts[0] == texts[1]
    assert texts[0][0] == texts[0][1] != texts[0][2]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("\\boxed{1a b}", "'1a b' is no action, for ' ', 'a', 'b': an action has 2 to 3 characters, of 0-9 alone"),
        ("\\boxed{1234}", "it has 4 characters, and an action has 2 to 3"),
        ("", "it has 0 characters"),
    ],
)
def test_a_space_that_refuses_words_says_so_before_and_after(action, reason):
    (episode,) = played(Digits, action, count=1)
    assert episode.system.endswith("An action has 2 to 3 characters, of 0-9 alone.")
    assert reason in episode.turns[1].observation
    assert episode.verdict.status == "unparsable"
    assert "100 of which were no action" in episode.verdict.reason
    assert reason in episode.verdict.reason


def test_the_default_characters_of_gymnasium_refuse_nothing():
    (episode,) = played(Plain, "\\boxed{2 + 2 = 4.}", count=1)
    assert (len(episode.turns), episode.reward) == (1, 1.0)
    assert episode.system.endswith("An action has 1 to 20 characters.")


def test_one_that_asks_for_a_box_reads_it_itself():
    env = gym.make("rlvr/Gymnasium-v0", env=Boxes, reward="return").unwrapped
    observation, info = env.reset(seed=1)
    assert "system" not in info
    number = observation.split()[1]
    assert env.step(f"<think>\\boxed{{3}}</think> It is \\boxed{{{number}}}")[1] == 1.0


def test_a_warm_start_without_an_expert_is_one_sentence():
    pytest.importorskip("torch", reason="training needs torch")
    from rlvr.agents import ExpertAgent
    from rlvr.algorithms.train.warm_start import demonstrations

    with pytest.raises(ValueError, match="Plain has no expert to imitate: leave the warm start out"):
        demonstrations(Rollout(Plain, ExpertAgent()), None, [RolloutRequest(seed=0)])


def test_what_the_last_info_says_of_success_is_believed():
    result = evaluate(Rollout(Success, ConstantAgent("\\boxed{12}")), task_requests(None, 2))
    assert (result.success, result.reward) == (0.0, 5.0)
    env = gym.make("rlvr/Gymnasium-v0", env=Success, success=2.0, reward="return").unwrapped
    env.reset(seed=0)
    assert env.step("12")[4]["success"], "what the user says is believed before"


def test_one_of_gymnasiums_is_played_by_its_id():
    result = evaluate_env("FrozenLake-v1", ConstantAgent("\\boxed{1}"), episodes=2, settings={"is_slippery": False})
    assert result.valid == 2
    assert "FrozenLake" in card("FrozenLake-v1").source
    with pytest.raises(ValueError, match="no card"):  # what it shows has no words
        card("CartPole-v1")
