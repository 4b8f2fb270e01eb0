"""Configs, flags and rows from strangers run no code; who calls Python, or says so, may name it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.adapters.rows import rows
from rlvr.adapters.spec import EpisodeSession, TaskSpec, _maker, grade
from rlvr.cli import main
from rlvr.envs.core.code_rule import CodeRefused, command_line, make_env, settings_are_data
from rlvr.envs.tools import MCP

EVIL = """
import os
open(os.environ["RAN"], "w").close()
import gymnasium, rlvr
def f(*given): open(os.environ["RAN"], "w").close(); return "x"
class Task: pass
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that anybody could have put there, importable on purpose; the path tells whether it ran."""
    (tmp_path / "evil_module.py").write_text(EVIL)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    monkeypatch.delenv("RLVR_ALLOW_CODE", raising=False)
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)
    _maker.cache_clear()
    return tmp_path / "ran"


TOUCH = [sys.executable, "-c", "import os; open(os.environ['RAN'], 'w').close()"]
TASKS = [{"question": "?"}]
WORDS = {"env": "Taxi-v4", "success": 1}
NESTED = {"env": "rlvr/MCP-v0", "success": 1}
MCP_SETTINGS = {"server": {"command": TOUCH, "env": {"RAN": "ran"}}, "tasks": TASKS, "checker": "evil_module:f"}
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "the command of an MCP server": ("rlvr/MCP-v0", MCP_SETTINGS),
    "a checker": ("rlvr/MCP-v0", {"server": {"url": "http://127.0.0.1:1"}, "tasks": TASKS, "checker": "evil_module:f"}),
    "to_text": ("rlvr/Gymnasium-v0", {**WORDS, "to_text": "evil_module:f"}),
    "to_text of Python's own": ("rlvr/Gymnasium-v0", {**WORDS, "to_text": "builtins:exec"}),
    "to_action": ("rlvr/Gymnasium-v0", {**WORDS, "to_action": "evil_module:f"}),
    "success": ("rlvr/Gymnasium-v0", {**WORDS, "success": "evil_module:f"}),
    "an id with a module": ("evil_module:rlvr/GuessNumber-v0", {}),
    "an id inside of words": ("rlvr/Gymnasium-v0", {**WORDS, "env": "evil_module:Taxi-v4"}),
    "a nested environment": ("rlvr/Gymnasium-v0", {**NESTED, "settings": MCP_SETTINGS}),
    "another task under a known id": ("rlvr/GuessNumber-v0", {"task": "evil_module:Task"}),
    "a part of a mixture": ("rlvr/Mixture-v0", {"envs": ["evil_module:rlvr/GuessNumber-v0"]}),
    "a task of a part": ("rlvr/Mixture-v0", {"envs": [{"id": "rlvr/GuessNumber-v0", "task": "evil_module:Task"}]}),
    "an environment in PettingZoo's words": ("rlvr/PettingZoo-v0", {"env": "evil_module:f", "to_text": "json:x"}),
    "an old environment by its address": ("GymV26Environment-v0", {"env_id": "evil_module:f"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_settings_from_somebody_else_run_nothing(name: str, ran: Path):
    env_id, settings = ATTACKS[name]
    with command_line(allow_code=False), pytest.raises(CodeRefused, match="--allow-code"):
        make_env(env_id, **settings)
    with settings_are_data(), pytest.raises(CodeRefused, match="RLVR_ALLOW_CODE=1"):
        make_env(env_id, **settings)
    assert not ran.exists()
    assert "evil_module" not in sys.modules


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in ("to_text of Python's own",)])
def test_the_same_settings_run_where_they_may(name: str, ran: Path):
    """The control: without the rule each of them imports the module, starts the command or reaches for it."""
    env_id, settings = ATTACKS[name]
    if "GymV26" in env_id or "PettingZoo" in env_id or name == "a checker":
        pytest.importorskip({"G": "shimmy", "r": "pettingzoo"}[env_id[0]])
    try:
        with command_line(allow_code=True):
            make_env(env_id, **settings).close()
    except CodeRefused:
        raise
    except Exception:
        pass  # the stand-in is no environment; it ran
    assert ran.exists()


SURFACES = {
    "play": ["play", "{env}", "--set", "{name}={value}"],
    "eval": ["eval", "--env", "{env}", "--agent", "expert", "--episodes", "1", "--set", "{name}={value}"],
    "audit": ["audit", "{env}", "--tasks", "1", "--set", "{name}={value}"],
    "serve": ["serve", "{env}", "--port", "0", "--set", "{name}={value}"],
    "train": ["train", "--env.id", "{env}", "--steps", "0", "--env.settings", '{{"{name}": {value}}}'],
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(
    ("env", "name", "value"),
    [
        ("rlvr/GuessNumber-v0", "task", "evil_module:Task"),
        ("evil_module:rlvr/GuessNumber-v0", "max_turns", 3),
        ("rlvr/Mixture-v0", "envs", ["evil_module:rlvr/GuessNumber-v0"]),
    ],
)
def test_every_command_refuses_in_one_line(surface: str, env: str, name: str, value: Any, ran: Path, capsys: Any):
    if surface == "train":
        pytest.importorskip("torch")
    words = [word.format(env=env, name=name, value=json.dumps(value)) for word in SURFACES[surface]]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("rlvr: ")
    assert said.count("\n") == 1
    assert "--allow-code" in said
    assert not ran.exists()


def test_a_card_imports_no_module(ran: Path, capsys: Any):
    assert main(["card", "evil_module:rlvr/GuessNumber-v0"]) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert not ran.exists()


def test_the_flag_and_the_variable_allow_it(ran: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch):
    words = ["eval", "--env", "evil_module:rlvr/GuessNumber-v0", "--agent", "expert", "--episodes", "1"]
    assert main([*words, "--allow-code"]) == 0
    assert ran.exists()
    ran.unlink()
    monkeypatch.delitem(sys.modules, "evil_module")
    monkeypatch.setenv("RLVR_ALLOW_CODE", "1")
    assert main(words) == 0
    assert ran.exists()
    assert os.environ["RLVR_ALLOW_CODE"] == "1", "a command leaves the variable as it was"


def test_a_run_that_is_gone_on_with_is_a_config_too(ran: Path, capsys: Any):
    pytest.importorskip("torch")
    run = ran.parent / "run"
    run.mkdir()
    text = "env: {id: rlvr/Gymnasium-v0, settings: {env: Taxi-v4, success: 1, to_text: 'evil_module:f'}}"
    (run / "config.yaml").write_text(text)
    (run / "config.sha256").write_text(f"{hashlib.sha256(text.encode()).hexdigest()}  config.yaml\n")
    assert main(["train", "--resume", "--out", str(run)]) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert not ran.exists()


def test_what_is_registered_needs_no_leave(capsys: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RLVR_ALLOW_CODE", raising=False)
    for words in (
        ["--env", "rlvr/GuessNumber-v0", "--level", "2"],
        ["--env", "rlvr/Mixture-v0", "--set", 'envs=["rlvr/Countdown-v0", {"id": "rlvr/GuessNumber-v0", "level": 2}]'],
        ["--env", "rlvr/Calculator-v0", "--set", "prompt_style=tags"],
    ):
        status = main(["eval", "--agent", "expert", "--episodes", "2", *words])
        said = capsys.readouterr()
        assert "--allow-code" not in said.err
        assert status == 0 or "setting" in said.err


# rows


@pytest.mark.parametrize("name", ATTACKS)
def test_rows_run_nothing(name: str, ran: Path):
    env_id, settings = ATTACKS[name]
    row = json.dumps({"env_id": env_id, "seed": 0, "kwargs": settings})
    for use in (EpisodeSession, lambda given: grade(given, ""), lambda spec: TaskSpec.parse(spec).make()):
        with pytest.raises(CodeRefused):
            use(row)
    assert not ran.exists()


def test_the_module_of_a_row(ran: Path, monkeypatch: pytest.MonkeyPatch):
    record = {"env_id": "evil/Unknown-v0", "seed": 0, "module": "evil_module"}
    with pytest.raises(CodeRefused, match="the module 'evil_module'"):
        EpisodeSession(json.dumps(record))
    assert not ran.exists()
    EpisodeSession({**record, "env_id": "rlvr/GuessNumber-v0"}).close()  # it is registered: nothing need be imported
    assert not ran.exists()
    monkeypatch.setenv("RLVR_ALLOW_CODE", "1")
    EpisodeSession({**record, "env_id": "rlvr/GuessNumber-v0"}).close()
    assert ran.exists()


def test_python_may_name_what_it_likes(ran: Path):
    assert rows("evil_module:rlvr/GuessNumber-v0", 1)
    assert ran.exists()
    with settings_are_data(), pytest.raises(CodeRefused):
        MCP(command=TOUCH)


def test_a_level_that_is_played_later_keeps_to_the_rule(ran: Path):
    """What level 2 is made of is not looked at before it is asked for, in whatever thread that is."""
    levels = [{}, {"env": "evil_module:Taxi-v4", "success": 1}]
    with settings_are_data():
        env = gym.make("rlvr/Gymnasium-v0", env="rlvr/Gymnasium-v0", success=1, to_action=None,
                       settings=[{"env": "Taxi-v4", "success": 1, **level} for level in levels])  # fmt: skip
    env.reset(seed=0, options={"level": 1})
    with pytest.raises(CodeRefused):
        env.reset(seed=0, options={"level": 2})
    assert not ran.exists()


def test_rows_that_are_nested_deep_are_one_sentence():
    for depth in (500, 100_000):
        with pytest.raises(ValueError, match="a task's spec is a JSON object"):
            TaskSpec.parse('{"env_id": "x", "seed": 0, "kwargs": {"a": ' + "[" * depth + "]" * depth + "}}")


# the working folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gymnasium", "numpy", "yaml", "evil_plug"])
def test_python_m_does_not_look_into_the_working_folder(tmp_path: Path, name: str):
    """As the script does not; a plug-in that lies there is none either. The control is ``python -c``."""
    (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\nraise SystemExit(9)\n")
    (tmp_path / "evil-1.dist-info").mkdir()
    (tmp_path / "evil-1.dist-info" / "entry_points.txt").write_text(f"[rlvr.envs]\nevil = {name}\n")
    (tmp_path / "evil-1.dist-info" / "METADATA").write_text("Name: evil\nVersion: 1\n")
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONSAFEPATH", "PYTHONPATH")}
    for words in (["-m", "rlvr"], ["-X", "utf8", "-mrlvr"]):
        done = subprocess.run(
            [sys.executable, *words, "envs", "Calculator"], cwd=tmp_path, env=clean, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout.split()[:1]) == (0, ["rlvr/Calculator-v0"]), done.stderr
        assert not (tmp_path / "ran").exists()
    subprocess.run([sys.executable, "-c", f"import {name}"], cwd=tmp_path, env=clean, capture_output=True)
    assert (tmp_path / "ran").exists()


# vLLM's options


@pytest.mark.parametrize("options", ['{"trust_remote_code": true}', '{"worker_cls": "evil_module.f"}'])
def test_options_that_load_code_need_leave(options: str, ran: Path, capsys: Any):
    words = ["eval", "--env", "rlvr/GuessNumber-v0", "--vllm", "some/model", "--options", options]
    assert main(words) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert not ran.exists()


# terminals


ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"


def test_what_is_printed_cannot_steer_a_terminal(tmp_path: Path, capsys: Any):
    """Errors quote configs, paths and policies."""
    (tmp_path / "c.yaml").write_text(json.dumps({ESCAPE: 1}, ensure_ascii=True))
    for words in (
        ["train", "--config", str(tmp_path / "c.yaml")],
        ["eval", "--env", f"rlvr/{ESCAPE}-v0", "--agent", "expert"],
        ["card", ESCAPE],
        ["envs", ESCAPE],
        ["eval", "--env", "rlvr/GuessNumber-v0", "--agent", "expert", "--set", f"{ESCAPE}=1"],
    ):
        assert main(words) in (1, 2)
        said = capsys.readouterr()
        assert "\\x1b" in said.err
        assert not {"\x1b", "\x07", "\x9b"} & set(said.out + said.err)


def test_a_rendered_episode_cannot_steer_a_terminal():
    env = gym.make("rlvr/GuessNumber-v0", render_mode="ansi")
    env.reset(seed=0)
    env.step(f"one\ntwo {ESCAPE}")
    shown = str(env.render())
    assert "one\ntwo \\x1b]0;owned\\x07" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_links_beside_a_record_are_not_followed(tmp_path: Path, capsys: Any):
    victims = {tmp_path / "one": "precious", tmp_path / "two": ""}
    for victim, content in victims.items():
        victim.write_text(content)
    record = tmp_path / "episodes.jsonl"
    options = record.with_name("episodes.jsonl.options.json")
    options.symlink_to(tmp_path / "one")
    words = ["eval", "--env", "rlvr/GuessNumber-v0", "--agent", "expert", "--episodes", "1", "--out", str(record)]
    assert main(words) == 2
    options.unlink()
    record.symlink_to(tmp_path / "two")
    assert main(words) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert {victim: victim.read_text() for victim in victims} == victims
