"""`rlvr completion`: real shells complete commands, options and their values."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr.cli import main


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command `rlvr` on the path: this interpreter's."""
    command = tmp_path / "bin" / "rlvr"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rlvr "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=":")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def completed(folder: Path, line: str) -> list[str]:
    """What bash offers for the last word of a line."""
    lines = f"""source <(rlvr completion bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9
    _python_argcomplete rlvr; printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "--norc", "-c", lines], capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("rlvr ev", {"eval"}, {"envs"}),
        ("rlvr ", {"eval", "play", "export"}, set()),
        ("rlvr export --fo", {"--format", "--force"}, {"--out"}),
        ("rlvr export --format ", {"chat", "openai", "atif"}, {"--out"}),
        ("rlvr new my_env --kind t", {"turns", "tools"}, {"single"}),
        ("rlvr eval --agent e", {"expert", "empty"}, {"random"}),
        ("rlvr eval --env rlvr/Countdo", {"rlvr/Countdown-v0"}, {"Countdown", "rlvr/Calculator-v0"}),
        ("rlvr eval --env Countdo", {"Countdown"}, {"rlvr/Countdown-v0", "Calculator"}),
        ("rlvr eval --suite ", {"core", "quick"}, {"--env"}),
        ("rlvr play rlvr/GuessN", {"rlvr/GuessNumber-v0"}, {"rlvr/Countdown-v0"}),
        ("rlvr serve GuessN", {"GuessNumber"}, {"Countdown"}),
        ("rlvr algorithms gs", {"gspo"}, {"grpo"}),
        ("rlvr launch v", {"verl"}, {"skyrl"}),
        ("rlvr completion ", {"bash", "zsh", "fish"}, set()),
        ("rlvr train --learner.l", {"--learner.lr"}, {"--steps"}),
        ("rlvr train --con", {"--config"}, {"--learner.lr"}),
        ("rlvr train --algorithm gs", {"gspo"}, {"grpo"}),
        ("rlvr train --model.dtype ", {"float32", "bfloat16", "float16"}, set()),
        ("rlvr train --env.system ", {"true", "false"}, set()),
        ("rlvr train --env.id rlvr/GuessN", {"rlvr/GuessNumber-v0"}, {"rlvr/Countdown-v0"}),
        ("rlvr plan config.yaml --learner.l", {"--learner.lr"}, {"--resume"}),
    ],
)
def test_bash_offers_what_may_stand_there(on_path: Path, line: str, offered: set[str], not_offered: set[str]):
    found = set(completed(on_path, line))
    assert offered <= found
    assert not found & not_offered


class Zsh:
    """An interactive zsh in a terminal of its own, which has read the script as its first line says."""

    def __init__(self, folder: Path) -> None:
        self.process, self._terminal = pty.fork()
        if not self.process:
            os.chdir(folder)
            os.environ.update(TERM="dumb", PS1="> ", ZDOTDIR=str(folder))
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.type("autoload -U compinit && compinit -u; source <(rlvr completion zsh); echo re''ady\n", "ready\r\n")

    def type(self, keys: str, wanted: str) -> str:
        """What is shown after these keys, once it holds what is wanted, or for a minute."""
        os.write(self._terminal, keys.encode())
        shown, end = "", time.monotonic() + 60
        while wanted not in shown and time.monotonic() < end:
            if select.select([self._terminal], [], [], 1.0)[0]:
                shown += os.read(self._terminal, 65_536).decode("utf-8", "replace")
        return shown

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self.process, 0)


@pytest.fixture
def zsh(on_path: Path) -> Iterator[Zsh]:
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    shell = Zsh(on_path)
    yield shell
    shell.close()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("rlvr ev", "rlvr eval "),
        ("rlvr eval --ag", "--agent "),
        ("rlvr eval --agent ex", "expert "),
        ("rlvr eval --env rlvr/Countdo", "rlvr/Countdown-v0 "),
        ("rlvr play rlvr/GuessN", "rlvr/GuessNumber-v0 "),
        ("rlvr new my_env --kind si", "single "),
        ("rlvr view recor", "record.jsonl "),
    ],
)
def test_zsh_completes_what_may_stand_there(zsh: Zsh, on_path: Path, line: str, completed: str):
    (on_path / "record.jsonl").touch()
    shown = zsh.type(f"{line}\t", completed)
    assert completed in shown
    assert "not found" not in shown


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("rlvr ev", {"eval"}, {"envs"}),
        ("rlvr eval --agent ", {"expert", "random", "empty"}, {"--env"}),
        ("rlvr eval --env rlvr/Countdo", {"rlvr/Countdown-v0"}, {"rlvr/Calculator-v0"}),
        ("rlvr new my_env --kind t", {"turns", "tools"}, {"single"}),
    ],
)
def test_fish_offers_what_may_stand_there(on_path: Path, line: str, offered: set[str], not_offered: set[str]):
    lines = f"rlvr completion fish | source; complete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", lines], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    found = {each.partition("\t")[0] for each in done.stdout.splitlines()}
    assert offered <= found
    assert not found & not_offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_and_its_shell_can_read_it(capsys, tmp_path: Path, shell: str):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "rlvr" in text
    if shutil.which(shell):
        (tmp_path / "s").write_text(text)
        done = subprocess.run([shell, "-n", tmp_path / "s"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "there is no 'tcsh'; there are bash, zsh, fish" in capsys.readouterr().err
