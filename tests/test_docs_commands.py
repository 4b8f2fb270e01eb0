"""The commands of the README, the docs and the skills are run, page by page, in a folder of their own.

A command that cannot be run here says on its line what it needs: `# needs a GPU`. The files of a page, blocks of code
whose first line is their name, are written before its commands run. Only what takes long is made shorter: training has
a few steps, and arenas have few matches. What a user walks from the first command to the last is not (`WALKS`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md"]
PAGES += [path for folder in ("docs", "skills") for path in sorted((ROOT / folder).rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.(?:py|yaml))\n")
NEEDS = re.compile(r"  # needs \w+")
SHORT = {
    r"^(\S+=\S+ )?rlvr train (?!--help)": " --steps 1 --prompts 2 --group-size 2 --evaluation.episodes 2",
    # the environment of the page on bridges has no expert
    r"^(\S+=\S+ )?rlvr train (?!--help|.*--env.id echo:)": " --warm-start.steps 2 --warm-start.mixed-steps 1",
    r"^rlvr arena": " --matches 2",
    r"rlvr audit|rlvr validate (?!.*--replay)": " --tasks 2",
    r"^rlvr eval .*--model|^rlvr export --(harbor|nemo-gym)": " --episodes 2",
}
SERVERS = re.compile(r"^rlvr (serve|serve-ors|view(?!.*--export))\b")
VIEWED = re.compile(r"^rlvr view .*--export ")
TRAINED = re.compile(r"^rlvr train --config examples/calculator\.yaml .*--out (runs/[\w-]+)")
# a package that a command of the page has written: installed into a folder of the page's, without the network
INSTALL = re.compile(r'^pip install -e "?(\./\w+)')
INSTALLED = "python -m pip install --quiet --no-deps --no-index --no-build-isolation --target site"
# Pages walked to their end: the run that they train, and the held-out success that it must reach, from .66 and .83.
WALKS = {"data": ("runs/my-data", "greedy_success", 0.95), "one_file": ("runs/reverse", "sampled_success", 0.88)}
ELSEWHERE = re.compile(
    r"^(make|pip install(?! -e \"?\./)|export|torchrun|source|python3\.12) "
)  # what installs, and what torchrun starts


def commands(page: Path) -> list[str]:
    """The lines of the page's blocks of bash that can be run here, without their remarks."""
    lines = []
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in code.replace("\\\n", " ").splitlines() if language == "bash" else ():
            if line.strip() and not NEEDS.search(line) and not ELSEWHERE.match(line):
                lines.append(re.sub(r"\s#\s.*", "", line).strip())
    return lines


def shortened(line: str) -> str:
    if package := INSTALL.match(line):
        return f"{INSTALLED} {package[1]}"
    line = line.replace("0.0.0.0", "127.0.0.1")
    line = line.replace("runs/mine --success", "runs/mine")  # ten steps have found nothing yet
    return line + "".join(more for pattern, more in SHORT.items() if re.search(pattern, line))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run as `runs/mine` is: what pages look at, explain and export."""
    folder = tmp_path_factory.mktemp("trained")
    config = ROOT / "examples" / "calculator.yaml"
    flags = (
        "--steps 10 --prompts 2 --group-size 4 --warm-start.steps 20 --warm-start.mixed-steps 2 --evaluation.episodes 4"
    )
    command = ["rlvr", "train", "--config", config, *flags.split(), "--out", folder / "mine"]
    ended = subprocess.run(command, env=environment(folder), cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return folder / "mine"


def environment(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    packages = f"{folder}{os.pathsep}{folder / 'site'}"
    return {**os.environ, "PATH": path, "PYTHONPATH": packages, "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = commands(page)
    if any("runs" in line for line in lines):
        shutil.copytree(trained, tmp_path / "runs" / "mine")
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = FILE.match(code)
        if named:
            (tmp_path / named[1]).write_text(code, encoding="utf-8")
            if language == "python":
                subprocess.run([sys.executable, named[1]], cwd=tmp_path, env=environment(tmp_path), check=True)
    for line in lines:
        if made := TRAINED.match(line):  # the fixture has run it, a little shorter
            shutil.copytree(trained, tmp_path / made[1], dirs_exist_ok=True)
        else:
            (serve if SERVERS.match(line) else run)(line if page.stem in WALKS else shortened(line), tmp_path)
    if page.stem in WALKS:
        trained_run, figure, least = WALKS[page.stem]
        *_, last = map(json.loads, (tmp_path / trained_run / "metrics.jsonl").read_text().splitlines())
        assert last[figure] >= least, last


def run(line: str, folder: Path) -> None:
    answers = "1\n" * 500  # of whoever plays
    ended = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment(folder), input=answers, capture_output=True, text=True
    )
    assert ended.returncode == 0, f"{line}\n{ended.stdout[-1000:]}\n{ended.stderr[-1000:]}"
    if VIEWED.match(line):
        assert re.search(r": [1-9]\d* episodes", ended.stdout), f"{line}\n{ended.stdout}"


def serve(line: str, folder: Path) -> None:
    """Start a server, wait for its address, and interrupt it as Ctrl-C does."""
    port = " --port 0"
    child = subprocess.Popen(
        ["bash", "-c", f"exec {line}{port}"],
        cwd=folder,
        env=environment(folder) | {"RLVR_TOKEN": "a-token-of-this-test", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    killer = threading.Timer(300, child.kill)
    killer.start()
    printed: list[str] = []
    try:
        assert child.stdout is not None
        for words in child.stdout:
            printed.append(words)
            if "://" in words:
                child.send_signal(signal.SIGINT)
                break
        printed += list(child.stdout)
        assert child.wait() in (0, 130, -signal.SIGINT), f"{line}\n{''.join(printed)}"
        assert any("://" in each for each in printed), f"{line}\n{''.join(printed)}"
    finally:
        killer.cancel()
        child.kill()


def test_a_command_that_is_left_out_says_what_it_needs_where_the_reader_sees_it() -> None:
    """Nothing is left out by a list of this file but what installs."""
    for page in PAGES:
        for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "bash":
                for line in code.replace("\\\n", " ").splitlines():
                    if re.search(r"--(vllm|endpoint|device)\b|sampler\.kind vllm|python examples/|^inspect ", line):
                        assert NEEDS.search(line), f"{page.name}: {line}"


def walk(page: str, within: str) -> list[str]:
    """The commands of the one block of a page that holds this, what they need left out."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (block,) = [code for language, code in BLOCK.findall(text) if language == "bash" and within in code]
    return [line.partition("  #")[0] for line in block.strip().splitlines()]


@pytest.mark.slow
def test_the_walk_from_a_served_model_to_its_evaluation(tmp_path: Path) -> None:
    """The commands of the page on agents, as they stand there but for the port."""
    serving, *others = walk("agents.md", "serve-model")
    child = subprocess.Popen(
        ["bash", "-c", "exec " + serving.replace("--port 8000", "--port 0")],
        cwd=tmp_path, env=environment(tmp_path) | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    killer = threading.Timer(300, child.kill)
    killer.start()
    try:
        assert child.stdout is not None
        address = next(match[0] for line in child.stdout if (match := re.search(r"http://[\d.:]+", line)))
        for line in others:
            run(line.replace("http://127.0.0.1:8000", address), tmp_path)
        assert len((tmp_path / "tiny.jsonl").read_text().splitlines()) == 4
    finally:
        killer.cancel()
        child.kill()
        child.wait()


@pytest.mark.slow
def test_the_walk_from_a_log_of_verifiers_to_a_model(tmp_path: Path) -> None:
    """The commands of the page on verifiers, on a log that its own command wrote."""
    pytest.importorskip("torch")
    from rlvr.agents.models.tiny import tiny_policy

    shutil.copy(ROOT / "tests" / "data" / "foreign" / "verifiers_traces.jsonl", tmp_path / "traces.jsonl")
    model, tokenizer = tiny_policy(hidden=16, layers=1)
    tokenizer.chat_template = "{%- if tools -%}{{- tools | tojson -}}{%- endif -%}" + tokenizer.chat_template
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    for line in walk("adapters/verifiers.md", "rlvr sft"):
        # in place of a model of the hub; the log's successes are of one prompt, of which none can be held out
        command = line.replace("Qwen/Qwen3-0.6B", "./model --held-out 0")
        run(command.replace("--episodes 20", "--episodes 4 --max-new-tokens 16"), tmp_path)
    assert len((tmp_path / "chats.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "trained" / "sft.json").is_file()
    assert len((tmp_path / "after.jsonl").read_text().splitlines()) == 4
