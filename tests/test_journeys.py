"""From outside: a package that adds one of each is installed, and every name of it is used without a change here.

Each is one file of the package and an entry point in its `pyproject.toml`, as CONTRIBUTING says; an adapter needs none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "journeys"
version = "1.0"

[project.entry-points."rlvr.envs"]
doubles = "journeys:register"

[project.entry-points."rlvr.algorithms"]
a_preset = "journeys.preset"
an_advantage = "journeys.advantage"
a_filter = "journeys.filter"

[project.entry-points."rlvr.graders"]
within = "journeys.grader"

[project.entry-points."rlvr.tools"]
halve = "journeys.tool"

[tool.setuptools]
packages = ["journeys"]
"""
FILES = {
    "__init__": """
def register():
    import rlvr

    rlvr.register("journeys/Doubles-v0", "journeys.environment:Doubles")
""",
    "environment": """
from rlvr.envs.tasks.questions import ExactAnswerTask, Question


class Doubles(ExactAnswerTask):
    "Double a number."

    kind = "within"
    levels = 2

    def start(self, rng, level):
        number = rng.randrange(10**level, 10 ** (level + 1))
        return Question(f"What is 2 * {number}?", 2 * number)

    def content(self, state):
        return state.text
""",
    "grader": """
from rlvr.envs.rewards import register_grader
from rlvr.envs.rewards.extraction import extract


def within(reply, answer, *, margin=0):
    return abs(int(extract(reply).answer) - int(answer)) <= margin


register_grader(within)
""",
    "tool": """
from rlvr.envs.tools import register_tool


def halve(number: int) -> int:
    \"\"\"Halve a number.

    Args:
        number: an even one.
    \"\"\"
    return number // 2


register_tool(halve)
""",
    "advantage": """
from rlvr.algorithms import register_advantage


def doubled(inputs, choices):
    "A_i = 2 (R_i - mean R)"
    return 2 * (inputs.rewards - inputs.rewards.mean())


register_advantage(doubled)
""",
    "filter": """
from rlvr.algorithms import EpisodeFilter, register_filter


class FirstOfGroup(EpisodeFilter):
    name, reason = "without_first", "the first of its group"

    def keeps(self, episodes, rewards, config):
        return [episode.sample > 0 for episode in episodes]


register_filter(FirstOfGroup())
""",
    "preset": """
from rlvr.algorithms import PRESETS, register_preset

register_preset(PRESETS["dr_grpo"].replace(name="journey", advantage="doubled", filters=("without_first",)))
""",
    "adapter": """
from rlvr.adapters import EpisodeSession
from rlvr.adapters.testing import PlayedEpisode


def play(specs, engine):
    "What a trainer does that knows texts alone."
    episodes = []
    for spec in specs:
        session = EpisodeSession(spec)
        observation, actions = "\\n".join(message["content"] for message in session.messages), []
        while not session.done:
            actions.append(engine.reply(observation))
            message = session.step(actions[-1])
            observation = message["content"] if message else ""
        weight = float(session.valid)
        episodes.append(PlayedEpisode(spec, session.reward, None, actions, session.verdict, weight))
        session.env.close()
    return episodes
""",
}
USED = {
    "environment": """
import gymnasium, rlvr
assert "journeys/Doubles-v0" in rlvr.list_envs()
env = gymnasium.make("journeys/Doubles-v0", level=2)
env.reset(seed=0)
assert env.step(env.unwrapped.solve())[1] == 1.0
env.reset(seed=0)
verdict = env.step("no number")[4]["verdict"]
assert verdict.valid and verdict.reward == 0.0
""",
    "grader": """
from rlvr.envs.rewards import GRADERS, grade
assert "within" in GRADERS
assert grade("within", "\\\\boxed{41}", 42, margin=1).success
""",
    "tool": """
import gymnasium, rlvr
from rlvr.envs.tools import Call, write_call
env = gymnasium.make("journeys/Doubles-v0", tools=["halve"])
env.reset(seed=0)
assert env.step(write_call(Call("halve", {"number": 84}), "hermes"))[0] == "42"
""",
    "advantage": """
from rlvr.algorithms import ADVANTAGES, PRESETS, compute_advantages
preset = PRESETS["grpo"].replace(advantage="doubled")
assert compute_advantages([1.0, 0.0], [0, 0], preset).tolist() == [1.0, -1.0]
""",
    "filter": """
from rlvr.algorithms.config import load_config
assert load_config({"selection": {"filters": ["without_first"]}}).filters() == ("without_first",)
""",
    "preset": """
import torch
from rlvr.algorithms import ALGORITHMS, journey_loss
assert "A_i = 2 (R_i - mean R)" in journey_loss.__doc__
assert ALGORITHMS["journey"].filters == ("without_first",)
""",
    "adapter": """
from journeys.adapter import play
from rlvr.adapters.testing import RecordingEngine, conform
report = conform(play, RecordingEngine(), tokens=False)
assert report[-1] == "no thread and no process is left"
""",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "journeys").mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT)
    for name, text in FILES.items():
        (folder / "journeys" / f"{name}.py").write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    target = folder / "site"
    run(*pip, "--no-build-isolation", "--no-deps", "--target", target, folder, cwd=folder)
    return target


def run(*command: object, cwd: Path) -> str:
    env = os.environ | {"PYTHONPATH": str(cwd), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "Warning" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("journey", USED)
def test_what_a_package_adds_is_there_by_its_name(journey: str, site: Path):
    run(sys.executable, "-c", USED[journey], cwd=site)


def test_the_command_line_trains_with_all_of_it(site: Path):
    """Without --allow-code: these are names, no code."""
    command = ["rlvr", "train", "--env.id", "journeys/Doubles-v0", "--algorithm", "journey", "--steps", "1"]
    command += ["--warm-start.steps", "2", "--evaluation.episodes", "2", "--out", "run"]
    assert "run/report.html" in run(sys.executable, "-m", *command, cwd=site)
