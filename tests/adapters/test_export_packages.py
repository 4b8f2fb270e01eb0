"""Environments in the forms of other suites: what each package requires and names, and what has no such form."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import gymnasium as gym
import pytest

import rlvr
from rlvr.adapters.export import openenv, verifiers
from rlvr.adapters.export.package import packaged
from rlvr.cli import main
from rlvr.envs.tasks.digests import env_digest

from .plugin_site import ID, NAME, export_plugin, install_plugin, seeing

PACKAGES = {"--openenv": openenv.write_package, "--verifiers": verifiers.write_package}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("flag", PACKAGES)
def test_a_package_is_the_same_each_time_and_has_the_digest_of_its_tasks(flag, tmp_path, capsys):
    for name in ("a", "b"):
        assert main(["export", flag, "GuessNumber", "--level", "2", "--out", str(tmp_path / name)]) == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    digest = env_digest(gym.make("rlvr/GuessNumber-v0", level=2))
    assert project(tmp_path / "a")["tool"]["rlvr"] == {"env_digest": digest}
    assert digest in (tmp_path / "a" / "README.md").read_text()
    assert '"level": 2' in "".join(path.read_text() for path in (tmp_path / "a").rglob("*.py"))
    assert "the package rlvr" in capsys.readouterr().out
    assert main(["export", flag, "GuessNumber", "--out", str(tmp_path / "a")]) == 2
    assert "no empty folder" in capsys.readouterr().err


@pytest.mark.parametrize("flag", PACKAGES)
def test_what_chooses_tasks_or_episodes_is_refused(flag, tmp_path, capsys):
    for words, complaint in {
        ("--episodes", "3"): "choose tasks",
        ("--seed", "3"): "choose tasks",
        ("--success",): f"{flag} writes a package",
        ("--format", "atif"): f"--format is for episodes, and {flag}",
        ("--expert", "GuessNumber"): "say what to export",
        ("--harbor", "Terminal"): "say what to export",
    }.items():
        assert main(["export", flag, "GuessNumber", "--out", str(tmp_path / "c"), *words]) == 2
        assert complaint in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("write", PACKAGES.values(), ids=PACKAGES)
def test_what_pip_could_not_install_elsewhere_is_refused(write, tmp_path):
    gym.register("rlvr/Elsewhere-v0", lambda: gym.Wrapper(gym.make("CartPole-v1")))
    try:
        for foreign_id in ("CartPole-v1", "rlvr/Elsewhere-v0"):  # a plug-in may register under rlvr/, too
            with pytest.raises(ValueError, match="neither rlvr's own nor of an installed plug-in"):
                write(foreign_id, tmp_path / "d")
    finally:
        del gym.registry["rlvr/Elsewhere-v0"]
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("env_id", "name", "requirement"),
    [
        ("rlvr/GuessNumber-v0", "rlvr_guess_number", "rlvr"),
        ("rlvr/Chess-v0", "rlvr_chess", "rlvr[games]"),
        ("rlvr/SQL-v0", "rlvr_sql", "rlvr[tools]"),
    ],
)
def test_a_package_requires_this_version_and_what_the_family_needs(env_id, name, requirement):
    env = packaged(env_id)
    assert (env.name, env.requirements) == (name, (f"{requirement}=={rlvr.__version__}",))


@pytest.mark.slow
def test_the_packages_of_a_plug_in_require_it_and_can_be_installed(tmp_path):
    variables = install_plugin(tmp_path / "site")
    wanted = [f"rlvr=={rlvr.__version__}", f"{NAME}==0.1.0"]
    for flag in PACKAGES:
        package = tmp_path / flag.strip("-")
        assert f"made{'-' if flag == '--verifiers' else '_'}up" in export_plugin(variables, flag, package)
        assert project(package)["project"]["dependencies"][1:] == wanted
        assert contents(package).keys() & {f"{NAME}.py", f"{NAME}/__init__.py"} == set()  # its name is taken
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        command += ["--no-build-isolation", "--target", str(tmp_path / "installed"), str(package)]
        subprocess.run(command, check=True, capture_output=True)
    assert {"rlvr_made_up_env.py", "rlvr_made_up_env"} <= {path.name for path in (tmp_path / "installed").iterdir()}
    out = export_plugin(variables, "--nemo-gym", tmp_path / "gym", "--episodes", "3", "--seed", "5")
    assert "gym env validate" in out
    server = tmp_path / "gym" / "resources_servers" / "rlvr"
    assert (server / "requirements.txt").read_text().splitlines() == wanted
    rows = [json.loads(line) for line in (server / "data" / "example.jsonl").read_text().splitlines()]
    assert [json.loads(row["spec"])["env_id"] for row in rows] == [ID] * 3
    alone = subprocess.run(
        [sys.executable, "-m", "rlvr", "export", "--verifiers", ID, "--out", str(tmp_path / "none")],
        env=seeing(), capture_output=True, text=True,
    )  # fmt: skip
    assert alone.returncode == 2


def test_a_project_of_nemo_gym_has_the_rows_that_are_asked_for(tmp_path, capsys):
    folder = tmp_path / "gym"
    words = ["export", "--nemo-gym", "GuessNumber", "--level", "2", "--episodes", "4", "--out", str(folder)]
    assert main(words) == 0
    named = "resources_servers/rlvr/configs/rlvr.yaml"
    assert named in capsys.readouterr().out
    rows = (folder / "resources_servers" / "rlvr" / "data" / "example.jsonl").read_text().splitlines()
    assert [json.loads(json.loads(row)["spec"])["kwargs"] for row in rows] == [{"level": 2}] * 4
    (folder / named).write_text("mine")
    assert main(words) == 2
    assert "is not overwritten" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as its own client asks for when a folder is uploaded; ``files`` is what it was given."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = urlsplit(self.path).path
        said = {"url": f"http://{self.headers['Host']}/datasets/me/mine"}
        if path.endswith("/preupload/main"):
            said = {
                "files": [
                    {**each, "uploadMode": "regular", "shouldIgnore": False} for each in json.loads(body)["files"]
                ]
            }
        elif path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            said |= {"success": True, "commitOid": "0" * 40, "commitUrl": said["url"]}
        elif path == "/api/repos/create":
            self.server.made.append(json.loads(body))
        self.answer(said)

    def do_GET(self):
        self.answer({"id": "me/mine", "sha": "0" * 40, "siblings": [], "private": True, "tags": []})

    def answer(self, said):
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.made = {}, []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def push(folder, hub, programs, *words):
    """The command in a process of its own, whose client of the hub asks ours."""
    code = "import sys; from rlvr.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "export", "--openenv", "GuessNumber", "--out", str(folder), *words]
    variables = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_TOKEN": "hf_a", "HF_HUB_OFFLINE": "0"}
    variables |= {"PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("status", [0, 1, None])
def test_a_folder_is_uploaded_once_the_suites_own_check_has_passed(hub, tmp_path, status):
    pytest.importorskip("huggingface_hub")
    programs = tmp_path / "bin"
    programs.mkdir()
    if status is not None:
        (programs / "openenv").write_text(f"#!/bin/sh\necho looked at $2\nexit {status}\n")
        (programs / "openenv").chmod(0o755)
    done = push(tmp_path / "to", hub, programs, "--push", "me/mine")
    assert done.returncode == (2 if status else 0), done.stderr
    if status:
        assert f"ends with 1, and nothing is uploaded: looked at {tmp_path / 'to'}" in done.stderr
        assert hub.files == {}
        return
    assert ("passed" if status == 0 else "not checked by the suite itself: openenv is not here") in done.stdout
    assert hub.files == contents(tmp_path / "to")
    (made,) = hub.made
    assert (made["type"], made.get("visibility", "private" if made.get("private") else "")) == ("dataset", "private")


def test_an_upload_that_fails_is_one_sentence_and_an_error(hub, tmp_path, capsys):
    pytest.importorskip("huggingface_hub")
    hub.server_close()
    done = push(tmp_path / "to", hub, tmp_path, "--push", "me/mine")
    assert done.returncode == 2
    assert "could not be uploaded to me/mine" in done.stderr
    assert main(["export", "x.jsonl", "--out", str(tmp_path / "y.jsonl"), "--push", "me/mine"]) == 2
    assert "--push is for an environment (--harbor, --openenv" in capsys.readouterr().err
