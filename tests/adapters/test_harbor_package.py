"""Harbor's own code: it loads the folders that we export, runs them, and reads and writes the trajectories.

A trial of Harbor begins an agent's environment and a verifier's from the folder. Its built-in ones need docker, so
`Roots` gives it roots of bubblewrap: what a Dockerfile copies lies there, and Harbor moves files and runs commands.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.foreign
pytest.importorskip("harbor")

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.task.task import Task
from harbor.models.task.verifier_mode import VerifierEnvironmentMode, resolve_verifier_environment_definition
from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.trial.trial import Trial

from rlvr.adapters.export.harbor import write_tasks

from .harbor_roots import needs_roots, rooted

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
    for path in folders(tmp_path / "out", env_id, 3, level=level):
        at = tmp_path / path.name
        assert reward(tried(path, at, ORACLE)) == 1
        assert reward(tried(path, at, NOTHING)) == 0
