"""Harbor's own code: it loads the folders that we export, runs them, and reads and writes the trajectories.

A trial of Harbor begins an agent's environment and a verifier's from the folder. Its built-in ones need docker, so
`Roots` gives it roots of bubblewrap: what a Dockerfile copies lies there, and Harbor moves files and runs commands.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given, settings

import rlvr  # noqa: F401
from rlvr.adapters.export.atif import atif_record, episode_of
from rlvr.adapters.export.harbor import write_tasks
from rlvr.adapters.viewer.foreign import trace_of
from rlvr.agents import Episode, ExpertAgent, RandomAgent, Rollout, task_requests
from rlvr.agents.evaluation.records import write_episodes
from rlvr.cli import main
from rlvr.envs.core.text_env import TextEnv

from ..agents.test_episode import EPISODE
from ..needs import needs_images
from .harbor_roots import CHEATS, PROGRAMS, needs_roots, rooted
from .test_export import PNG, made, odd_role, token_episode

pytest.importorskip("harbor")
from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import (
    VerifierEnvironmentMode,
    resolve_verifier_environment_definition,
)
from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.trial.trial import Trial
from harbor.utils.trajectory_validator import TrajectoryValidator

pytestmark = pytest.mark.foreign
EVERY_KIND = [
    *(("rlvr/Terminal-v0", level) for level in range(1, 6)),
    *((f"rlvr/{name}-v0", level) for name in ("CodeRepair", "CodeTests") for level in (1, 5)),
]
FOLDERS = ("app", "tests", "logs", "solution", "usr/local/bin")  # that a command may write to


class Roots(BaseEnvironment):
    """An environment of Harbor: the root that a Dockerfile of ours describes, without docker."""

    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        if not (self.environment_dir / "Dockerfile").is_file():
            raise FileNotFoundError(f"{self.environment_dir} has no Dockerfile")

    async def start(self, force_build: bool) -> None:
        self.root, self.variables, self.workdir = Path(tempfile.mkdtemp(prefix="harbor-")), dict[str, str](), "/"
        self.root.chmod(0o755)
        for name in (*FOLDERS, "logs/agent", "logs/verifier", "logs/artifacts"):
            (self.root / name).mkdir(parents=True)
            (self.root / name).chmod(0o777 if name.startswith("logs") else 0o755)
        for line in (self.environment_dir / "Dockerfile").read_text().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "COPY":
                source, target = rest.split()
                shutil.copytree(self.environment_dir / source, self._at(target), dirs_exist_ok=True)
            elif kind == "ENV":
                name, _, text = rest.partition("=")
                self.variables[name] = text.strip("'")
            elif kind == "WORKDIR":
                self.workdir = rest
            else:
                assert kind == "FROM", line

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.root)

    def _at(self, path: str) -> Path:
        assert path.strip("/").startswith(FOLDERS), path
        return self.root / path.strip("/")

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        shutil.copy(source_path, self._at(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        _copied(Path(source_dir), self._at(target_dir))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._at(source_path), target_path, follow_symlinks=False)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        _copied(self._at(source_dir), Path(target_dir))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        assert self._resolve_user(user) in (None, "root")
        binds = {self.root / name: f"/{name}" for name in FOLDERS}
        variables = self.variables | (self._merge_env(env) or {})
        folder = cwd or self.task_env_config.workdir or self.workdir
        done = await asyncio.to_thread(rooted, command, binds, folder, variables)
        return ExecResult(stdout=done.stdout, stderr=done.stderr, return_code=done.returncode)


def _copied(source: Path, target: Path) -> None:
    """As docker copies: links as links, whatever they lead to."""
    with tempfile.TemporaryFile() as moved:
        with tarfile.open(fileobj=moved, mode="w") as tar:
            tar.add(source, arcname=".")
        moved.seek(0)
        with tarfile.open(fileobj=moved) as tar:
            tar.extractall(target, filter="fully_trusted")


class Scripted(BaseAgent):
    """An agent of Harbor that runs one command, and keeps what it printed."""

    def __init__(self, *args: Any, command: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.command = command

    @staticmethod
    def name() -> str:
        return "scripted"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: BaseEnvironment) -> None: ...

    async def run(self, instruction: str, environment: BaseEnvironment, context: Any) -> None:
        done = await environment.exec(self.command)
        (self.logs_dir / "printed.txt").write_text(f"{done.stdout}{done.stderr}")


ORACLE, NOTHING = AgentConfig(name="oracle"), AgentConfig(name="nop")


def scripted(command: str) -> AgentConfig:
    return AgentConfig(import_path=f"{__name__}:Scripted", kwargs={"command": command})


def tried(task: Path, at: Path, agent: AgentConfig) -> Any:
    """The result of Harbor's own trial of a folder."""
    config = TrialConfig(
        task=TaskConfig(path=task),
        trial_name=agent.name or "scripted",
        trials_dir=at,
        agent=agent,
        environment=EnvironmentConfig(import_path=f"{__name__}:Roots"),
    )

    async def run() -> Any:
        return await (await Trial.create(config)).run()

    return asyncio.run(run())


def reward(result: Any) -> float:
    assert result.exception_info is None, result.exception_info
    assert result.reward_valid
    assert result.verifier_environment_mode == VerifierEnvironmentMode.SEPARATE
    return result.verifier_result.rewards["reward"]


def folders(out: Path, env_id: str, count: int = 1, **settings: Any) -> list[Path]:
    write_tasks(env_id, out, count, **settings)
    return sorted(out.iterdir())


# the folders that we write


@pytest.mark.parametrize(("env_id", "level"), EVERY_KIND)
def test_harbor_loads_every_folder(tmp_path: Path, env_id: str, level: int) -> None:
    for path in folders(tmp_path / "out", env_id, 12, level=level):
        assert Task.is_valid_dir(path)
        task = Task(path)
        assert task.name == f"rlvr/{path.name}"
        assert task.instruction == (path / "instruction.md").read_text()
        assert task.config.schema_version == "1.4"
        assert [str(each) for each in task.config.artifacts] == ["/app"]
        assert not task.config.model_extra
        assert task.config.metadata["rlvr"]["level"] == level
        definition = resolve_verifier_environment_definition(task.config, task.paths)
        assert (definition.directory, definition.bundled_tests) == (path.resolve() / "tests", True)


@needs_roots
@pytest.mark.parametrize(("env_id", "level"), EVERY_KIND)
def test_its_oracle_gets_1_and_its_nop_gets_0(tmp_path: Path, env_id: str, level: int) -> None:
    for path in folders(tmp_path / "out", env_id, 2, level=level):
        at = tmp_path / path.name
        assert reward(tried(path, at, ORACLE)) == 1
        assert reward(tried(path, at, NOTHING)) == 0


TERMINAL, REPAIR, TESTS = "rlvr/Terminal-v0", "rlvr/CodeRepair-v0", "rlvr/CodeTests-v0"


@needs_roots
@pytest.mark.parametrize("env_id", [TERMINAL, REPAIR])
@pytest.mark.parametrize("cheat", CHEATS)
def test_what_an_agent_changes_beside_its_work_earns_nothing(tmp_path: Path, env_id: str, cheat: str) -> None:
    (path,) = folders(tmp_path / "out", env_id)
    command, proof = CHEATS[cheat]
    assert reward(tried(path, tmp_path / "trials", scripted(command))) == 0
    assert proof in (tmp_path / "trials" / "scripted" / "agent" / "printed.txt").read_text()


@needs_roots
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_cheats_while_it_is_judged_gets_0(tmp_path: Path, program: str) -> None:
    (path,) = folders(tmp_path / "out", TESTS)
    entry = json.loads((path / "tests" / "expected.json").read_text())["entry"]
    command = f"cat > solution.py <<'END'\n{PROGRAMS[program].format(entry=entry)}\nEND\n"
    assert reward(tried(path, tmp_path / "trials", scripted(command))) == 0
    assert (tmp_path / "trials" / "scripted" / "verifier" / "proof.txt").read_text() == "PermissionError"


@needs_roots
def test_an_emptied_workspace_gets_0_and_a_broken_verifier_no_reward(tmp_path: Path) -> None:
    for env_id in (TERMINAL, TESTS):
        (path,) = folders(tmp_path / env_id[5:9], env_id)
        assert reward(tried(path, tmp_path / f"{env_id[5:9]}-trials", scripted("rm -rf /app/* /app/.[!.]*"))) == 0
    (path / "tests" / "expected.json").write_text("{")
    result = tried(path, tmp_path / "broken", ORACLE)
    assert result.exception_info.exception_type == "RewardFileNotFoundError"
    assert (result.verifier_result, result.reward_valid) == (None, False)


# the folders that it writes, here


def initialised(at: Path, *words: str) -> Path:
    harbor = Path(sys.executable).with_name("harbor")
    done = subprocess.run(
        [harbor, "init", "acme/hello", "--task", "-o", at, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return at / "hello"


@needs_images
@pytest.mark.parametrize("mode", ["shared", "separate"])
def test_its_own_template_is_played_here(tmp_path: Path, mode: str) -> None:
    task = initialised(tmp_path, "--verifier-mode", mode, "--no-pytest")
    config = (task / "task.toml").read_text().replace("artifacts = []", 'artifacts = ["/app"]')
    (task / "task.toml").write_text(config)
    (task / "instruction.md").write_text("Write done into result.txt.\n")
    (task / "solution" / "solve.sh").write_text("#!/bin/bash\necho done > result.txt\n")
    with (task / "tests" / "test.sh").open("a") as script:
        script.write("\ngrep -sx done /app/result.txt | wc -l > /logs/verifier/reward.txt\n")
    assert Task.is_valid_dir(task)
    env = gym.make("rlvr/harbor.Tasks-v0", folder=str(task), split=None).unwrapped
    assert isinstance(env, TextEnv)
    assert env.reset(seed=0)[0] == Task(task).instruction.strip()
    env.step(env.solve())
    assert env.step("<Done>")[1] == 1.0
    env.reset(seed=0)
    _, paid, _, _, info = env.step("<Done>")
    assert (paid, info["verdict"].status) == (0.0, "wrong")


@needs_images
def test_its_template_that_installs_pytest_is_a_fault_here_and_no_0(tmp_path: Path) -> None:
    task = initialised(tmp_path, "--verifier-mode", "shared")
    env = gym.make("rlvr/harbor.Tasks-v0", folder=str(task), split=None).unwrapped
    env.reset(seed=0)
    _, _, terminated, _, info = env.step("<Done>")
    assert (terminated, info["verdict"].status) == (True, "verifier_error")
    assert "where there is no network" in info["verdict"].reason


# the trajectories


def thinking() -> Episode:
    episode = made(1)
    episode.turns[0].action = "<think>é \U0001f600</think>So <b>42</b>"
    return episode


def halved() -> Episode:
    """With halves of a pair of surrogates, in the task's key and in all that is said."""
    episode = made(1, action="<think>\ud800</think>a\udfff", system="\ud801")
    episode.turns[0].observation = episode.final_observation = "b\ud83d"
    return episode


def faulty() -> Episode:
    return made(1, 0.0, "env_error")


def played(env_id: str, agent: Any, count: int = 3, **settings: Any) -> list[Episode]:
    return Rollout(env_id, agent, env_settings=settings)(task_requests(None, count))


MADE: list[Callable[[], Episode]] = [lambda: made(1), token_episode, odd_role, thinking, halved, faulty]


@pytest.mark.parametrize("make", MADE, ids=["plain", "tokens", "roles", "thinking", "surrogates", "fault"])
@pytest.mark.parametrize("nulls", [False, True], ids=["without nulls", "with nulls"])
def test_a_trajectory_is_the_same_episode_after_harbors_models(make: Callable[[], Episode], nulls: bool) -> None:
    episode = make()
    trajectory = Trajectory.model_validate_json(json.dumps(atif_record(episode)))
    back = json.loads(json.dumps(trajectory.to_json_dict(exclude_none=not nulls)))
    assert episode_of(back).to_dict() == episode.to_dict()


@pytest.mark.parametrize("version", ["ATIF-v1.7", "ATIF-v1.8"])
@settings(max_examples=50, deadline=None)
@given(EPISODE.filter(lambda episode: episode.turns))
def test_any_trajectory_is_the_same_bytes_after_harbors_models(version: str, episode: Episode) -> None:
    line = json.dumps(episode.to_dict())
    trajectory = Trajectory.model_validate_json(json.dumps(atif_record(episode) | {"schema_version": version}))
    assert json.dumps(episode_of(trajectory.to_json_dict()).to_dict()) == line


def test_real_episodes_pass_its_validator_file_by_file(tmp_path: Path) -> None:
    episodes = played("rlvr/GuessNumber-v0", RandomAgent(0), max_turns=4) + played("rlvr/SQL-v0", ExpertAgent())
    episodes += played("rlvr/Calculator-v0", ExpertAgent()) + played("rlvr/Calculator-v0", RandomAgent(0))
    write_episodes(tmp_path / "a.jsonl", [*episodes, *(make() for make in MADE)])
    assert main(["export", str(tmp_path / "a.jsonl"), "--format", "atif", "--out", str(tmp_path / "b")]) == 0
    written = sorted((tmp_path / "b").glob("*.trajectory.json"))
    assert len(written) == len(episodes) + len(MADE) - 1  # all but the fault
    for path in written:
        validator = TrajectoryValidator()
        assert validator.validate(path), validator.errors
        record = json.loads(path.read_text())
        again = Trajectory.model_validate(record).to_json_dict()
        assert episode_of(again).to_dict() == episode_of(record).to_dict()


def test_images_lie_beside_a_trajectory_and_in_it(tmp_path: Path) -> None:
    write_episodes(tmp_path / "a.jsonl", [token_episode()])
    assert main(["export", str(tmp_path / "a.jsonl"), "--format", "atif", "--out", str(tmp_path / "b")]) == 0
    (path,) = (tmp_path / "b").glob("*.trajectory.json")
    record = json.loads(path.read_text())
    assert Trajectory.model_validate(record).has_multimodal_content()
    source = record["steps"][1]["message"][1]["source"]
    assert source["path"] == "000001.images/0001.png"
    assert (path.parent / source["path"]).read_bytes() == base64.b64decode(PNG.partition(",")[2])
    assert TrajectoryValidator().validate(path)
    assert episode_of(record).to_dict() == token_episode().to_dict()
    (path.parent / source["path"]).unlink()
    assert not TrajectoryValidator().validate(path)


def test_a_trajectory_of_its_models_is_read_here() -> None:
    image = {"type": "image", "source": {"media_type": "image/png", "path": PNG}}
    sound = {"type": "audio", "source": {"media_type": "audio/mp3", "path": "a.mp3"}}
    calls = [{"tool_call_id": f"c{n}", "function_name": "add", "arguments": {"n": n}} for n in range(2)]
    results = [{"source_call_id": f"c{n}", "content": f"= {n}"} for n in (1, 0)]
    metrics = {"completion_token_ids": [5, 6], "logprobs": [-0.5, -1.0], "prompt_token_ids": [1, 2]}
    trajectory = Trajectory.model_validate(
        {
            "session_id": "run",
            "trajectory_id": "t",
            "agent": {"name": "a", "version": "1", "tool_definitions": [{"type": "function"}]},
            "steps": [
                {"step_id": 1, "source": "system", "message": "Be brief."},
                {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Add."}, image, sound]},
                {
                    "step_id": 3,
                    "source": "agent",
                    "message": "I add.",
                    "reasoning_content": "two calls",
                    "tool_calls": calls,
                    "observation": {"results": results},
                    "metrics": metrics,
                },
                {"step_id": 4, "source": "agent", "message": "Done.", "metrics": metrics},
            ],
            "final_metrics": {"extra": {"reward": 0.5}},
            "subagent_trajectories": [
                {
                    "trajectory_id": "u",
                    "agent": {"name": "b", "version": "1"},
                    "steps": [{"step_id": 1, "source": "user", "message": "x"}],
                }
            ],
        }
    )
    for nulls in (True, False):
        trace = trace_of(trajectory.to_json_dict(exclude_none=not nulls))
        assert (trace.source, trace.env, trace.key, trace.reward, trace.status) == ("atif", "a", "t", 0.5, "partial")
        assert [m.role for m in trace.messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]
        asked, called, first, second, answer = trace.messages[1:]
        assert asked.images == [PNG]
        assert asked.text == "Add.\n(audio that is not in the file: a.mp3)"
        assert (called.text, called.reasoning, answer.text) == ("I add.", "two calls", "Done.")
        assert [(c["id"], json.loads(c["arguments"])) for c in called.calls] == [("c0", {"n": 0}), ("c1", {"n": 1})]
        assert [(m.call_id, m.text) for m in (first, second)] == [("c1", "= 1"), ("c0", "= 0")]
        assert trace.ids == [5, 6, 5, 6]
        assert trace.columns["log-prob"] == [-0.5, -1.0, -0.5, -1.0]
        assert trace.notes["subagent_trajectories"][0]["trajectory_id"] == "u"
