"""What a package says of itself: a sound folder, the same folder with one defect, and what `rlvr validate` says."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.envs.validation import validate
from rlvr.envs.validation.packages import package_checks

MANIFEST = """\
app: server.app:app
validation:
  resources: {cpu: 1.0, memory_mb: 256, disk_mb: 512, episode_timeout_s: 600.0}
"""
TASK = 'schema_version = "1.4"\n[agent]\ntimeout_sec = 600.0\n[verifier]\ntimeout_sec = 300.0\n'
PROJECT = """\
[project]
name = "sums"
dependencies = ["openenv==0.10.0", "numpy==2.4.1; python_version > '3'"]
"""
IMAGE = """\
ARG BASE=python:3.11-slim
FROM ${BASE} AS builder
RUN pip install --no-cache-dir \\
    'uvicorn[standard]==0.41.0' .
# pip install numpy
FROM builder
RUN pip install -r requirements.txt && pip install ./wheels/a.whl
"""
OPENENV = {
    "openenv.yaml": MANIFEST,
    "pyproject.toml": PROJECT,
    "server/Dockerfile": IMAGE,
    "server/requirements.txt": "# none of them moves\nfastapi==0.135.0\n-r more.txt\n",
    "data/rows.jsonl": "{}\n",
}
HARBOR = {
    "first/task.toml": TASK,
    "first/environment/Dockerfile": "FROM python:3.11-bookworm\n",
    "first/tests/test.sh": "",
}
MB = 1 << 20


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def found(folder: Path, resident: int = 100 * MB) -> dict[str, list[str]]:
    return {
        result.check.id: [finding.text for finding in result.findings]
        for result in package_checks(folder, resident)
        if result.findings
    }


@pytest.mark.parametrize("files", [OPENENV, HARBOR])
def test_a_sound_package(files, tmp_path):
    assert found(written(tmp_path, files)) == {}
    tried = {result.check.number for result in package_checks(tmp_path, MB) if result.tries}
    assert tried == ({4, 10, 11, 12, 41} if files is OPENENV else {4, 12, 41})


DEFECTS = [
    ("static.layout", {"data/rows.tar.gz": "x"}, "data/rows.tar.gz"),
    ("static.resource_declaration", {"openenv.yaml": MANIFEST.replace("disk_mb: 512, ", "")}, "disk_mb is not"),
    ("static.resource_declaration", {"openenv.yaml": MANIFEST.replace("cpu: 1.0", "cpu: 0")}, "cpu is 0"),
    ("static.resource_declaration", {"openenv.yaml": "app: [\n"}, "it cannot be read"),
    ("static.resource_declaration", {"openenv.yaml": "- app\n"}, "no mapping"),
    ("static.timeout_ceiling", {"openenv.yaml": MANIFEST.replace("600.0", "7200")}, "is 7200, above 3600"),
    ("static.dependency_pinning", {"pyproject.toml": PROJECT.replace("==2", ">=2")}, "numpy>=2"),
    ("static.dependency_pinning", {"pyproject.toml": PROJECT.replace("0.10.0", "0.10.*")}, "openenv==0.10.*"),
    ("static.dependency_pinning", {"server/requirements.txt": "fastapi\n"}, "server/requirements.txt: fastapi"),
    ("static.dependency_pinning", {"server/Dockerfile": IMAGE.replace(":3.11-slim", "")}, "FROM python"),
    ("static.dependency_pinning", {"server/Dockerfile": IMAGE.replace("3.11-slim", "latest")}, "python:latest"),
    ("static.dependency_pinning", {"server/Dockerfile": IMAGE.replace("==0.41.0", "")}, "uvicorn[standard]"),
]
HARBORS = [
    ("static.layout", {"first/environment/repo.zip": "x"}, "first/environment/repo.zip"),
    ("static.timeout_ceiling", {"second/task.toml": TASK.replace("600.0", "3601")}, "second/task.toml: agent"),
    ("static.dependency_pinning", {"first/tests/Dockerfile": "FROM a:1\nRUN cd / && pip install pytest\n"}, "pytest"),
]


@pytest.mark.parametrize(
    ("files", "check", "defect", "said"),
    [*((OPENENV, *each) for each in DEFECTS), *((HARBOR, *each) for each in HARBORS)],
)
def test_a_package_with_one_defect(files, check, defect, said, tmp_path):
    texts = found(written(tmp_path, {**files, **defect}))
    assert list(texts) == [check]
    assert said in " ".join(texts[check])


def test_a_lock_file_holds_the_versions(tmp_path):
    loose = PROJECT.replace("==", ">=")
    assert list(found(written(tmp_path, {**OPENENV, "pyproject.toml": loose}))) == ["static.dependency_pinning"]
    assert found(written(tmp_path, {"uv.lock": "version = 1\n"})) == {}


def test_a_server_that_takes_more_memory_than_declared(tmp_path):
    written(tmp_path, OPENENV)
    assert found(tmp_path, 256 * MB) == {}
    assert found(tmp_path, 300 * MB) == {
        "semantic.resource_envelope": ["the server took 300 MB; openenv.yaml declares 256"]
    }


def test_a_folder_that_is_no_package(tmp_path):
    assert package_checks(written(tmp_path, {"rows.jsonl": "{}"}), 0) == []


class Served(gym.Env):
    """A server's session: three turns, and the state that it serves."""

    action_space = gym.spaces.Text(100)
    observation_space = gym.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.count = self.named(options or {}), 0
        return f"Ticket {self.np_random.integers(1000)}: say done.", {}

    def named(self, options):
        return options.get("episode_id")

    def counted(self):
        return self.count + 1

    def step(self, action):
        self.count = self.counted()
        return "", 0.0, self.count == 3, False, {}

    def server_state(self):
        return {"episode_id": self.episode, "step_count": self.count}


class NamesItself(Served):
    def named(self, options):
        return f"its own {self.np_random.integers(1000)}"


class CountsTwice(Served):
    def counted(self):
        return self.count + 2


@pytest.mark.parametrize(("env", "name"), [(Served, None), (NamesItself, "episode_id"), (CountsTwice, "step_count")])
def test_the_state_that_is_served(env, name):
    (result,) = validate(env(), checks=["runtime.state_contract"], tasks=2).results
    assert result.tries >= 1
    assert [finding.name for finding in result.findings][:1] == ([name] if name else [])
    assert all(finding.replay is not None for finding in result.findings)
    assert json.dumps(result.to_dict())
