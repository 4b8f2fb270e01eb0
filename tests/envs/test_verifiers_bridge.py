"""verifiers' tasksets as environments: made-up packages, written as theirs are, in the real package's loop."""

from __future__ import annotations

import importlib.util
import pickle
import random
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from rlvr.adapters import testing as kit
from rlvr.envs.audit import audit
from rlvr.envs.bridges import pools
from rlvr.envs.bridges.verifiers import Verifiers

TEMPLATE = "rlvr/verifiers.Taskset-v0"
HEAD = """
import asyncio, random
import verifiers.v1 as vf
class Data(vf.TaskData):
    answer: str = ""
class Setting(vf.TasksetConfig):
    size: int = 40
    fault: str = ""
"""
# What a package of tasks looks like: one module each, a Taskset in its ``__all__``.
PACKAGES = {
    "sums": """
class Sum(vf.Task[Data]):
    @vf.reward(weight=0.75)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)
    @vf.reward(weight=0.25)
    async def brief(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 5)
class Sums(vf.Taskset[Sum, Setting]):
    def load(self):
        for i in range(self.config.size):
            yield Sum(Data(prompt=f"{i} + {i * 7}?", system_prompt="Add.", answer=str(i * 8)), self.config.task)
__all__ = ["Sums"]
""",
    # Several turns, opened by the environment; draws from the global generator, as some of theirs do.
    "echoes": """
class Count(vf.State):
    right: int = 0
class Echo(vf.Task[Data, Count, vf.TaskConfig]):
    @vf.reward
    async def said(self, trace: vf.Trace) -> float:
        if self.data.answer == "raises":
            raise OSError("a scorer that fails, on purpose")
        return trace.state.right / 2
    @vf.stop
    async def enough(self, trace: vf.Trace) -> bool:
        return "stop" in trace.last_reply
class Seats(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
class Game(vf.Env[Seats]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as talk:
            for _ in range(2):
                word = random.choice(["left", "right", "up"]) + str(random.randrange(10**6))
                heard = await talk.turn(f"Say {word}")
                if heard.terminated:
                    break
                if heard.last_reply == "break the game" or task.data.answer == "breaks":
                    raise ValueError("the game broke, on purpose")
                talk.trace.state.right += heard.last_reply == word
class Echoes(vf.Taskset[Echo, Setting]):
    INFINITE = True
    def load(self):
        i = 0
        while True:
            yield Echo(Data(name=f"e{i}", description=f"episode {i}", answer=self.config.fault), self.config.task)
            i += 1
__all__ = ["Echoes", "Game"]
""",
    "boxed": """
class Run(vf.Task[Data]):
    @vf.reward
    async def right(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        return 1.0
class Runs(vf.Taskset[Run, Setting]):
    def load(self):
        return [Run(Data(prompt="?"), self.config.task)]
__all__ = ["Runs"]
""",
    "couple": """
class Both(vf.EnvConfig):
    one: vf.AgentConfig = vf.AgentConfig()
    two: vf.AgentConfig = vf.AgentConfig()
class Pair(vf.Env[Both]):
    async def run(self, task, agents): ...
class Pairs(vf.Taskset[vf.Task, Setting]):
    def load(self):
        return [vf.Task(vf.TaskData(prompt="?"))]
__all__ = ["Pairs", "Pair"]
""",
    "unscored": """
class Nothings(vf.Taskset[vf.Task, Setting]):
    def load(self):
        return [vf.Task(vf.TaskData(prompt=f"What is there to do in {i}?")) for i in range(20)]
__all__ = ["Nothings"]
""",
}


@pytest.mark.parametrize("wrong", [{"tasks": 0}, {"turns": 0}])
def test_numbers_below_one_are_refused(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        Verifiers(taskset="sums", **wrong)


def test_a_configuration_is_json():
    with pytest.raises(TypeError, match="JSON"):
        Verifiers(taskset="sums", config={"size": object()})


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The packages, where the workers find them: the path is theirs from when their pool starts."""
    pytest.importorskip("verifiers")
    folder = tmp_path_factory.mktemp("packages")
    for name, text in PACKAGES.items():
        (folder / f"{name}.py").write_text(HEAD + text)
    sys.path.insert(0, str(folder))
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
        restart()


def restart():
    for pool in list(pools._pools.values()):
        pool.close()
    pools._pools.clear()


def make(packages, taskset, **settings):
    return gym.make(TEMPLATE, taskset=taskset, split=settings.pop("split", None), **settings).unwrapped


def words(observation):
    return observation.rpartition("Say ")[2]


def play(env, answers, seed=0):
    observation, _ = env.reset(seed=seed)
    steps = []
    for answer in answers:
        steps.append(env.step(answer(observation) if callable(answer) else answer))
        observation = steps[-1][0]
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


@pytest.mark.foreign
def test_one_turn(packages):
    env = make(packages, "sums")
    observation, _ = env.reset(seed=3)
    assert observation.startswith("Add.\n\n")
    a, b = map(int, observation.removeprefix("Add.\n\n").removesuffix("?").split(" + "))
    _, reward, terminated, _, info = env.step(f"<think>{a} and {b}</think>{a + b}")
    assert (reward, terminated, info["success"]) == (1.0, True, True)
    assert dict(info["verdict"].parts) == {"its own score": 1.0, "right": 0.75, "brief": 0.25}
    for text in ("", "I do not know", "(" * 100_000, "\ud800", "None"):  # a part of the reward is no reward
        (step,) = play(env, [text])
        assert (step[1], step[4]["verdict"].status) == (0.0, "wrong")


@pytest.mark.foreign
def test_a_bound_below_one_takes_parts_for_the_whole(packages):
    (step,) = play(make(packages, "sums", full=0.25), ["no"])
    assert step[1] == 1.0


@pytest.mark.foreign
def test_turns_and_stops(packages):
    env = make(packages, "echoes", tasks=50)
    steps = play(env, [words, words])
    assert [step[1] for step in steps] == [0.0, 1.0]
    assert [step[2] for step in steps] == [False, True]
    assert play(env, [words, "something else"])[-1][4]["verdict"].parts["its own score"] == 0.5
    stopped = play(env, ["stop", words])
    assert len(stopped) == 1
    assert "ended: enough" in stopped[0][4]["verdict"].reason


@pytest.mark.foreign
def test_what_breaks_is_not_the_policys_fault(packages):
    for taskset, config, answers, said in (
        ("echoes", {"fault": "raises"}, [words, words], "a scorer that fails, on purpose"),
        ("echoes", {"fault": "breaks"}, ["x"], "the game broke, on purpose"),
        ("unscored", {}, ["x"], "a reward was not given"),
    ):
        verdict = play(make(packages, taskset, config=config), answers)[-1][4]["verdict"]
        assert (verdict.valid, verdict.status) == (False, "env_error")
        assert said in verdict.reason


@pytest.mark.foreign
def test_words_that_break_a_game_are_an_empty_reply(packages):
    """Nothing is to be had from breaking it, not even that the episode does not count."""
    env = make(packages, "echoes")
    broken, empty = play(env, ["break the game", words]), play(env, ["", words])
    assert [step[:4] for step in broken] == [step[:4] for step in empty]
    assert broken[-1][4]["verdict"].parts["its own score"] == 0.5
    assert broken[-1][4]["verdict"].valid


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("taskset", "config", "said"),
    [
        ("boxed", {}, "right needs a sandbox"),
        ("couple", {}, "it seats one, two"),
        ("no-such-taskset", {}, "not found"),
        ("sums", {"size": 0}, "no tasks"),
        ("sums", {"sise": 3}, "sise"),
    ],
)
def test_what_cannot_be_played_says_why(packages, taskset, config, said):
    env = make(packages, taskset, config=config)
    with pytest.raises(ValueError, match=said):
        env.reset(seed=0)


@pytest.mark.foreign
def test_seeds_workers_and_restore(packages):
    """The same seed is the same episode in other workers, forked, pickled and with what is random in the game."""
    env = make(packages, "echoes")
    random.seed(1)
    before = random.getstate()
    first = repr(play(env, [words, words], seed=5))
    assert random.getstate() == before
    restart()
    other = make(packages, "echoes")
    play(other, [words], seed=77)
    assert repr(play(other, [words, words], seed=5)) == first
    assert repr(play(other, [words, words], seed=6)) != first
    env.reset(seed=5)
    observation = env.step("wrong")[0]
    snapshot = pickle.loads(pickle.dumps(env.get_state()))
    expected = repr(env.step(words(observation)))
    restart()
    other.set_state(snapshot)
    assert repr(other.step(words(observation))) == expected


@pytest.mark.foreign
def test_splits_share_nothing(packages):
    seen = {}
    for split in ("train", "test"):
        env = make(packages, "sums", split=split)
        seen[split] = {env.reset(seed=seed)[0] for seed in range(30)}
    assert seen["train"]
    assert seen["test"]
    assert not seen["train"] & seen["test"]


@pytest.mark.foreign
def test_checker_and_audit(packages):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(packages, "sums"))
    report = audit(make(packages, "sums"), tasks=2)
    assert not [f.text for f in report.at_least("low") if "grading took" not in f.text]


@pytest.mark.foreign
def test_there_and_back(packages):
    """Our own environment as their taskset, played here: the rewards of direct stepping."""
    settings = {"env": f"{kit.MODULE}:{kit.SAY}", "n": 5}
    env = make(packages, "rlvr-gym", config=settings)
    for seed in range(3):
        steps = play(env, [kit.obey] * 3, seed=seed)
        assert [step[1] for step in steps] == [0.0, 0.0, 1.0]
    steps = play(env, ["nothing", kit.obey, kit.obey])
    assert steps[-1][4]["verdict"].parts["return"] == pytest.approx(6 / 7)


@pytest.mark.foreign
def test_known_packages_get_ids_where_they_are(packages, tmp_path):
    for name, files in {"reverse_text": ("__init__", "taskset"), "wordle": ("__init__",)}.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / f"{file}.py").write_text("")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import rlvr; print(*rlvr.list_envs('rlvr/verifiers.'))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["rlvr/verifiers.reverse_text-v0"]
    assert Path(importlib.util.find_spec("verifiers").origin).exists()
