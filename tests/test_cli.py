"""The command line: what it prints, how it ends, and that what a user did wrong is one line."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

import rlvr
from rlvr.agents.models.tiny import build_tiny
from rlvr.cli import main
from rlvr.cli.eval import determinism
from rlvr.envs import list_envs

CALCULATOR, GUESS, GSM8K = "rlvr/Calculator-v0", "rlvr/GuessNumber-v0", "rlvr/GSM8K-v0"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Status, standard output and standard error of a command."""
    try:
        status = main(list(map(str, arguments)))
    except SystemExit as stop:
        status = int(stop.code or 0)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def wrong(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command says that cannot be done; checks that it is one line, with status 2."""
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("rlvr: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


# bad input


@pytest.mark.parametrize("command", [("serve-model", "rlvr/tiny"), ("view", "."), ("serve", CALCULATOR)])
@pytest.mark.parametrize("port", ["99999", "-1", "eighty"])
def test_a_port_that_is_none_is_said_and_no_traceback(capsys, command, port):
    status, out, err = run(capsys, *command, f"--port={port}")
    assert (status, out) == (2, "")
    told = f"argument --port: a port is a number from 0 to 65535, got '{port}'; see `rlvr {command[0]} --help`"
    assert err == f"rlvr: {told}\n"


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "soon"])
@pytest.mark.parametrize(
    "command",
    [("conform", "http://127.0.0.1:9/v1", "--timeout"), ("validate", GUESS, "--minutes"), ("serve", GUESS, "--ttl")],
    ids=lambda command: command[0],
)
def test_a_time_that_is_none_is_one_sentence(capsys, command, value):
    text = wrong(capsys, *command[:-1], f"{command[-1]}={value}")
    assert f"argument {command[-1]}: a number from 0 on is wanted, got '{value}'" in text


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--episodes=0", "--episodes must be at least 1, got 0"),
        ("--episodes=1000001", "--episodes must be at most 1,000,000, got 1000001"),
        ("--temperature=nan", "--temperature must be at least 0, got nan"),
        ("--temperature=inf", "--temperature must be at most 100, got inf"),
        ("--temperature=-1", "--temperature must be at least 0, got -1"),
        ("--out=/dev/full", "/dev/full is no plain file: name a JSONL file of episodes"),
        ("--samples=0", "--samples must be at least 1, got 0"),
        ("--seed=-1", "--seed must be at least 0, got -1"),
        ("--batch-size=0", "--batch-size must be at least 1, got 0"),
        ("--concurrency=0", "--concurrency must be at least 1, got 0"),
    ],
)
def test_numbers_with_which_nothing_can_be_measured_are_refused_before_anything_is_played(capsys, option, message):
    assert message in wrong(capsys, "eval", "--env", GUESS, "--agent", "random", option)


def test_an_unknown_setting_is_said_without_what_gymnasium_adds(capsys):
    text = wrong(capsys, "eval", "--env", "Countdown", "--agent", "random", "--set", "colour=1")
    assert text.startswith("rlvr: Countdown has no setting 'colour'; it has split, level")
    assert "environment creator" not in text


@pytest.mark.parametrize("command", [("regrade",), ("compare", "whole.jsonl")])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("folder", "folder is a folder: name a JSONL file of episodes in it"),
        ("empty.jsonl", "empty.jsonl holds no episode"),
        ("list.jsonl", "line 1 of list.jsonl is not an episode: it is no JSON object"),
    ],
)
def test_what_holds_no_episodes_is_one_sentence(capsys, tmp_path, monkeypatch, command, given, message):
    monkeypatch.chdir(tmp_path)
    run(capsys, "eval", "--env", GUESS, "--agent", "random", "--episodes", 2, "--out", "whole.jsonl")
    Path("folder").mkdir()
    Path("empty.jsonl").touch()
    Path("list.jsonl").write_text("[1, 2]\n")
    assert wrong(capsys, *command, given) == f"rlvr: {message}\n"


@pytest.mark.parametrize("command", [("report",), ("merge", "--out", "merged")])
def test_a_folder_that_is_not_there_is_said_so(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert wrong(capsys, *command, "nowhere") == "rlvr: there is no folder nowhere\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("evl",), "there is no command 'evl'; did you mean 'eval'?"),
        (("eval", "--epsodes", 3, "--env", GUESS), "unrecognized arguments: --epsodes 3; did you mean --episodes?"),
        (("eval", "--env", GUESS, "--agent", "exprt"), "argument --agent: there is no 'exprt'; did you mean 'expert'?"),
        (
            ("eval", "--env", GUESS, "--max-turns", 3),  # no --max-new-tokens
            "unrecognized arguments: --max-turns 3; a setting of the environment is given as --set max_turns=VALUE; "
            "see `rlvr eval --help`",
        ),
        (("eval", GUESS), f"one of the arguments --env --suite is required; did you mean --env {GUESS}?"),
        (("eval", "--env", GUESS, "Countdown"), "unrecognized arguments: Countdown; did you mean --env Countdown?"),
        (
            ("view", "config.yaml"),
            "config.yaml holds no run and no file of episodes (*.jsonl, *.eval, *.parquet, *.json)",
        ),
        (("play",), "the following arguments are required: env; see `rlvr play --help`"),
        (("plan", "config.yaml", "--gpuz", 8), "unrecognized arguments: --gpuz 8; did you mean --gpu?"),
        (
            ("train", "--overrides.kl_coef", ".1"),
            "unrecognized arguments: --overrides.kl_coef .1; --overrides takes one value, in JSON",
        ),
        (("train", "mine.yaml"), "unrecognized arguments: mine.yaml; did you mean --config mine.yaml?"),
        (
            ("eval", "--env", GUESS, "--data-files", "a"),
            "unrecognized arguments: --data-files a; a setting of the environment is given as --set data_files=VALUE; "
            "see `rlvr eval --help`",
        ),
        (
            ("eval", "--env", GUESS, "--endpoint", "http://127.0.0.1:1", "--model", "m", "--api-key", "sk-secret"),
            "--api-key-env takes the name of an environment variable that holds the key, not the key",
        ),
        (
            ("card", "--allow-code", "mine_only:mine/Lock-v0"),
            "Python finds no module 'mine_only': PYTHONPATH=. before the command lets it find mine_only.py of this "
            "folder",
        ),
        (("card", "--allow-code", "nowhere_at_all:mine/Lock-v0"), "Python finds no module 'nowhere_at_all'"),
        *(
            (
                (command, "nobodys/Lock-v0"),
                "nothing of nobodys/ is registered: install its package, or name the module that registers the id, "
                "such as my_file:nobodys/Lock-v0",
            )
            for command in ("card", "validate")
        ),
        (
            ("card", "mine_only.py"),
            "'mine_only.py' is a file: name its module and the id that it registers, such as mine_only:mine/Task-v0",
        ),
        (
            ("table", "theirs.jsonl"),
            "line 1 of theirs.jsonl is not an episode: it has neither env_id nor turns; logs of other tools are "
            "read by `rlvr view` and `rlvr export`",
        ),
        (("train", "--env", GUESS), "--env takes JSON, and --env.id VALUE one of its fields"),
        (("train", "--warm-start", "yes"), "--warm-start takes JSON, and --warm-start.steps VALUE one of its fields"),
        (("train", "--warm-start", 20), "warm_start has fields of its own, such as warm_start.steps, and is no 20"),
        (("train", "--overrides", "kl"), "--overrides takes JSON"),
        (("train", "--env.id", "GuesNumber"), f"there is no environment 'GuesNumber'; did you mean {GUESS}?"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest_or_what_to_do(capsys, tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    Path("mine_only.py").touch()
    Path("theirs.jsonl").write_text('{"env": "gsm8k", "reward": 1.0}\n')
    Path("config.yaml").write_text("steps: 3\n")
    assert wrong(capsys, *arguments) == f"rlvr: {told}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "--env", GUESS, "--model"),
        ("eval", "--env", GUESS, "--vllm"),
        ("serve-model",),
        ("sft", "chats.jsonl", "--out", "new", "--model"),
        ("train", "--model.name"),
    ],
)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("./nowhere", "there is no folder ./nowhere"),
        ("runs/a/policy", "there is no folder runs/a/policy"),
        ("runs/frist", "there is no folder runs/frist; did you mean runs/first?"),
    ],
)
def test_the_path_of_no_model_is_refused_before_anything_heavy_is_imported(
    capsys, tmp_path, monkeypatch, arguments, name, told
):
    monkeypatch.chdir(tmp_path)
    for module in ("torch", "transformers", "vllm"):
        monkeypatch.setitem(sys.modules, module, None)
    Path("runs/first").mkdir(parents=True)
    Path("runs/first/config.yaml").touch()
    assert wrong(capsys, *arguments, name) == f"rlvr: {told}\n"


@pytest.mark.parametrize("kind", [TypeError, KeyError, AttributeError, IndexError, AssertionError])
def test_a_bug_of_ours_is_said_to_be_one_and_not_the_users_mistake(capsys, monkeypatch, kind):
    found = {
        TypeError: lambda: len(3),
        KeyError: lambda: {}["x"],
        AttributeError: lambda: (3).x,
        IndexError: lambda: [][0],
    }

    def broken(options, rest):
        found[kind]()

    def false(options, rest):
        raise kind

    monkeypatch.setattr("rlvr.cli.environments.doctor", broken if kind in found else false)
    status, out, err = run(capsys, "doctor")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"rlvr: this is a bug, and no mistake of yours: {kind.__name__} at {__file__}:")
    assert "report it with what --traceback shows" in err
    assert "Traceback (most recent call last)" in run(capsys, "doctor", "--traceback")[2]


def test_a_type_that_code_refuses_by_a_sentence_is_the_users_mistake(capsys):
    assert "did you mean 'split'?" in wrong(capsys, "audit", GUESS, "--set", "splitt=test")


def test_an_interrupt_while_the_parser_is_made_is_no_traceback(capsys, monkeypatch):
    def interrupted() -> argparse.ArgumentParser:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlvr.cli._parser", interrupted)
    assert run(capsys, "envs") == (130, "", "rlvr: interrupted\n")


# envs


def test_envs_lists_every_id(capsys):
    status, out, _ = run(capsys, "envs")
    assert status == 0
    assert out.split() == list_envs()


def test_envs_can_be_narrowed(capsys):
    status, out, _ = run(capsys, "envs", "GuessNumber")
    assert (status, out.split()) == (0, [GUESS])
    status, out, err = run(capsys, "envs", "nothing like it")
    assert (status, out) == (1, "")
    assert "nothing like it" in err


def test_envs_long_has_a_sentence_on_each(capsys):
    status, out, _ = run(capsys, "envs", "-l")
    assert status == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == list_envs()
    sentences = [line.split(maxsplit=1)[1] for line in lines]
    assert all(sentence.endswith(".") for sentence in sentences)
    own = [sentence for line, sentence in zip(lines, sentences, strict=True) if "." not in line.split()[0]]
    assert len(set(own)) > 0.95 * len(own), "sentences that do not tell the ids apart"


def test_listing_the_ids_imports_no_agent_no_algorithm_and_no_adapter():
    code = "import sys; from rlvr.cli import main; main(['envs', '-l']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    modules = done.stderr.split()
    assert "rlvr.envs.core.text_env" in modules
    assert not [name for name in modules if name.startswith(("rlvr.agents", "rlvr.algorithms", "rlvr.adapters"))]


# play


def play(arguments: list[str], said: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlvr", "play", *arguments]
    return subprocess.run(command, input=said, capture_output=True, text=True, timeout=120)


def test_a_person_calls_the_tool_and_answers(capsys):
    import gymnasium as gym

    env = gym.make(CALCULATOR)
    env.reset(seed=5)
    call = env.unwrapped.solve()
    env.step(call)
    answer = env.unwrapped.solve()
    ended = play([CALCULATOR, "--seed", "5"], f"{call}\n{answer}\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.search(r"^\[system\] ", ended.stdout, re.MULTILINE)
    assert "[tool] " in ended.stdout
    assert ended.stdout.endswith("correct: reward 1\n")


def test_a_wrong_answer_is_said_to_be_wrong():
    ended = play([CALCULATOR, "--seed", "5", "--level", "2"], "\\boxed{0}\n")
    assert ended.returncode == 0
    assert ended.stdout.endswith("wrong: reward 0 (wrong answer)\n")


def test_no_more_input_ends_the_game():
    ended = play([CALCULATOR], "")
    assert ended.returncode == 130
    assert "Traceback" not in ended.stderr


# A process with a pseudo-terminal of its own: what is typed there, Ctrl-C too, reaches it and nobody else.
ON_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "status"), [(b"\\boxed{0}\n", 0), (b"\x03", 130)])
def test_a_game_on_a_terminal(child, typed: bytes, status: int):
    """A person reads and types; Ctrl-C leaves."""
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, "-m", "rlvr", "play", CALCULATOR, "--seed", "1"]
    with child(command, stdin=theirs, stdout=theirs, stderr=theirs) as game:
        os.close(theirs)
        seen, asked = b"", 0
        with contextlib.suppress(OSError):  # what reading a terminal that nobody holds any more gives
            while True:
                # A signal between the prompt and the wait for a line is seen only after the line, so give one. A second
                # Ctrl-C might come while the game ends, and be its traceback.
                if not select.select([terminal], [], [], 2.0)[0] and asked and typed == b"\x03":
                    os.write(terminal, b"\n")
                    continue
                seen += os.read(terminal, 4096)
                if seen.count(b"> ") > asked:
                    asked = seen.count(b"> ")
                    os.write(terminal, typed)
        game.wait(timeout=60)
    os.close(terminal)
    assert game.returncode == status, seen
    assert b"Traceback" not in seen


# eval


def share(out: str) -> tuple[int, int]:
    found = re.search(r"success (\d+)/(\d+) = ", out)
    assert found
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(("agent", "right"), [("expert", 30), ("empty", 0)])
def test_eval_of_agents_without_a_model(capsys, agent: str, right: int):
    status, out, err = run(capsys, "eval", "--env", CALCULATOR, "--agent", agent, "--episodes", 30)
    assert (status, err) == (0, "")
    assert share(out) == (right, 30)
    assert "95 %" in out
    assert "verdicts: " in out


def test_eval_of_random_play_is_of_its_seed(capsys):
    arguments = ("eval", "--env", GUESS, "--agent", "random", "--episodes", 60)
    first, again, other = (run(capsys, *arguments, "--seed", seed)[1] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert 0 < share(first)[0] < 60


def test_eval_of_a_table_plays_every_row_once(capsys):
    status, out, _ = run(capsys, "eval", "--env", GSM8K, "--split", "test", "--agent", "expert")
    assert status == 0
    right, of = share(out)
    rows = (Path(os.environ["RLVR_DATA"]) / "gsm8k" / "test.jsonl").read_text().count("\n")
    assert right == of == rows
    assert "split test" in out


def test_eval_of_a_model(capsys, tmp_path: Path):
    out = tmp_path / "new" / "episodes.jsonl"
    arguments = ("eval", "--env", CALCULATOR, "--model", "rlvr/tiny", "--episodes", 2, "--max-new-tokens", 4)
    status, first, _ = run(capsys, *arguments, "--samples", 3, "--temperature", 1, "--out", out)
    assert status == 0
    assert "agent rlvr/tiny" in first
    assert share(first)[1] == 6
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted((r["index"], r["sample"]) for r in records) == [(i, s) for i in range(2) for s in range(3)]
    assert len({str(r["tokens"]["ids"]) for r in records}) > 2, "samples differ"


def test_eval_finds_the_policy_of_a_run(capsys, tmp_path):
    build_tiny(tmp_path / "run" / "policy", hidden=32, layers=1)
    (tmp_path / "run" / "config.yaml").write_text("{}")
    status, printed, _ = run(
        capsys, "eval", "--env", CALCULATOR, "--model", tmp_path / "run", "--episodes", 1, "--max-new-tokens", 4
    )
    assert status == 0
    assert f"agent {tmp_path / 'run'}" in printed


def test_eval_plays_every_environment_it_is_given_on_the_test_split(capsys, tmp_path: Path):
    arguments = ("eval", "--env", CALCULATOR, "--env", GUESS, "--agent", "expert", "--episodes", 3)
    status, out, err = run(capsys, *arguments, "--out", tmp_path / "e.jsonl")
    assert (status, err) == (0, "")
    assert [line.split()[:3] for line in out.splitlines() if " split " in line] == [
        [CALCULATOR, "split", "test"], [GUESS, "split", "test"]
    ]  # fmt: skip
    records = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert {(r["env_id"], r["split"]) for r in records} == {(CALCULATOR, "test"), (GUESS, "test")}
    _, listed, _ = run(capsys, *arguments, "--json")
    assert [(r["env"], r["split"], r["successes"], r["tasks"]) for r in json.loads(listed)] == [
        (CALCULATOR, "test", 3, 3), (GUESS, "test", 3, 3)
    ]  # fmt: skip
    _, planned, _ = run(capsys, *arguments, "--dry-run", "--split", "train")
    assert planned.count("3 tasks, 1 samples each; nothing was played") == 2
    assert "split train" in planned


def test_eval_names_no_agent_by_itself(capsys):
    assert "say who plays: --agent expert, --model NAME or --vllm MODEL" in wrong(capsys, "eval", "--env", CALCULATOR)


def test_ctrl_c_keeps_and_sums_up_what_was_played(capsys, tmp_path: Path, monkeypatch):
    from rlvr.agents import RandomAgent

    act, calls = RandomAgent.act, []

    def interrupted(self, conversations):
        calls.append(len(conversations))
        if len(calls) == 12:
            raise KeyboardInterrupt
        return act(self, conversations)

    record = tmp_path / "e.jsonl"
    arguments = ("eval", "--env", GUESS, "--agent", "random", "--episodes", 20, "--batch-size", 2, "--out", record)
    with monkeypatch.context() as patch:
        patch.setattr(RandomAgent, "act", interrupted)
        status, out, err = run(capsys, *arguments)
    assert (status, err) == (130, "rlvr: interrupted\n")
    kept = len(record.read_text().splitlines())
    assert 0 < kept < 20
    assert f"stopped after {kept} new episodes; they are in {record}" in out
    status, resumed, _ = run(capsys, *arguments)
    other = tmp_path / "other.jsonl"
    _, whole, _ = run(capsys, *arguments[:-1], other)
    assert (status, resumed) == (0, whole.replace(str(other), str(record)))


def test_compare_and_regrade_read_what_eval_wrote(capsys, tmp_path: Path):
    a, b, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "again.jsonl"
    run(capsys, "eval", "--env", GUESS, "--agent", "random", "--samples", 4, "--episodes", 10, "--out", a)
    run(capsys, "eval", "--env", GUESS, "--agent", "expert", "--episodes", 12, "--out", b)
    status, out, _ = run(capsys, "compare", a, b, "--tasks", 2)
    assert status == 0
    assert "10 tasks in both (0 in A alone, 2 in B alone)" in out
    assert out.count("gained: ") == 2
    _, plain, _ = run(capsys, "compare", a, b, "--json")
    assert json.loads(plain)["success"] > 0.3
    status, out, _ = run(capsys, "regrade", a, "--out", again)
    assert status == 0
    assert "40 episodes, 0 verdicts changed, 0 saw another observation than now" in out
    assert sorted(again.read_text().splitlines()) == sorted(a.read_text().splitlines())
    lines = [json.loads(line) for line in b.read_text().splitlines()]
    lines[0]["verdict"]["status"] = "wrong"
    b.write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, out, _ = run(capsys, "regrade", b)
    assert f"{lines[0]['key']}: wrong 1 -> correct 1" in out
    assert "no file" in wrong(capsys, "compare", a, tmp_path / "none.jsonl")


def test_eval_goes_on_where_it_stopped(capsys, tmp_path: Path):
    arguments = ("eval", "--env", GUESS, "--agent", "random", "--out")
    _, whole, _ = run(capsys, *arguments, tmp_path / "whole.jsonl", "--episodes", 12)
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines)[: -len(lines[-1]) * 3 // 2])
    if (side := tmp_path / "whole.jsonl.of").exists():
        (tmp_path / "torn.jsonl.of").write_bytes(side.read_bytes())
    status, again, _ = run(capsys, *arguments, torn, "--episodes", 12)
    assert status == 0
    assert again.replace("torn.jsonl", "whole.jsonl") == whole
    records = [json.loads(line) for line in torn.read_text().splitlines()]
    assert sorted(r["index"] for r in records if "index" in r) == list(range(12))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--env", "rlvr/Calculater-v0"], "Calculat"),
        (["--env", "nothing"], "nothing"),
        (["--env", CALCULATOR, "--split", "dev"], "dev"),
        (["--env", CALCULATOR, "--level", "99"], "99"),
        (["--env", CALCULATOR, "--level", "0"], "0"),
        (["--env", CALCULATOR, "--set", "colour=red"], "colour"),
        (["--env", CALCULATOR, "--set", "colour"], "name=value"),
        (["--env", GSM8K, "--split", "test", "--episodes", "100000"], "100000 episodes"),
        (["--env", GSM8K, "--set", "data_files=/no/such/file.jsonl"], "/no/such/file.jsonl"),
        (["--env", CALCULATOR, "--batch-size", "0"], "--batch-size must be at least 1"),
        (["--env", CALCULATOR, "--model", "/no/such/model"], "/no/such/model"),
        (["--env", CALCULATOR, "--model", "rlvr/tiny", "--dtype", "int3"], "int3"),
        (["--env", CALCULATOR, "--model", "rlvr/tiny", "--device", "toaster"], "toaster"),
        (["--env", CALCULATOR, "--model", "rlvr/tiny", "--temperature", "-1"], "temperature"),
        (["--env", CALCULATOR, "--out", "/proc/none/x.jsonl"], "/proc/none"),
        (["--env", CALCULATOR, "--samples", "4"], "samples that can differ: --agent expert does the same each time"),
        (["--env", CALCULATOR, "--samples", "0"], "--samples must be at least 1"),
        (["--env", CALCULATOR, "--model", "rlvr/tiny", "--samples", "4"], "--temperature 0 takes the likeliest token"),
        (["--env", CALCULATOR, "--env", CALCULATOR], "named twice"),
    ],
)
def test_what_eval_cannot_do_is_one_line(capsys, arguments: list[str], words: str):
    agent = [] if "--model" in arguments else ["--agent", "expert"]
    assert words in wrong(capsys, "eval", *agent, *arguments)


def test_a_file_that_is_no_record_is_refused_and_kept(capsys, tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    assert "notes.txt" in wrong(
        capsys, "eval", "--env", CALCULATOR, "--agent", "expert", "--episodes", 2, "--out", path
    )
    assert path.read_text() == "my notes\n"


# what all commands share


def test_a_name_stands_for_its_id_whatever_the_case(capsys):
    for name in ("GuessNumber", "guessnumber", "GuessNumber-v0"):
        assert GUESS in run(capsys, "eval", "--env", name, "--agent", "empty", "--episodes", 2)[1]
    assert run(capsys, "card", "countdown")[1] == run(capsys, "card", "rlvr/Countdown-v0")[1] != ""
    assert "did you mean rlvr/Countdown-v0?" in wrong(capsys, "card", "Countdwn")
    assert "MCPWorld needs the setting server, tasks, checker" in wrong(capsys, "audit", "mcp")  # not in the list
    assert "`rlvr envs` lists all" in wrong(capsys, "play", "qqqqqqqq")


def test_a_traceback_is_shown_where_it_is_asked_for(capsys):
    status, _, err = run(capsys, "card", "Countdwn", "--traceback")
    assert status == 2
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1] == wrong(capsys, "card", "Countdwn").strip()


def test_the_version_and_the_defaults_are_said(capsys):
    assert run(capsys, "--version") == (0, f"rlvr {rlvr.__version__}\n", "")
    told = " ".join(run(capsys, "serve", "--help")[1].split())
    for words in ("where to listen (127.0.0.1)", "0 takes any that is free (8765)", "at once (256)"):
        assert words in told
    assert "decides the tasks and the sampling (0)" in " ".join(run(capsys, "eval", "--help")[1].split())


def test_an_algorithm_is_described_by_its_choices(capsys):
    from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS

    status, out, _ = run(capsys, "algorithms", *ALGORITHMS)
    assert status == 0
    assert [line for line in out.splitlines() if line and not line.startswith(" ")] == list(ALGORITHMS)
    assert max(map(len, out.splitlines())) <= 100
    assert "ratio_level        sequence" in run(capsys, "algorithms", "gspo")[1]
    assert "there is no algorithm 'gpso'; did you mean 'gspo'?" in wrong(capsys, "algorithms", "gpso")


def test_an_audit_of_everything_says_what_it_has_no_data_for(capsys, monkeypatch):
    monkeypatch.delenv("RLVR_DATA")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("rlvr.cli.environments.list_envs", lambda: [GSM8K, GUESS])
    status, out, _ = run(capsys, "audit", "--tasks", 1)
    assert status == 0
    assert f"{GSM8K}: skipped, no data for gsm8k" in out
    assert f"{GUESS}: clean" in out
    assert "1 environments without data were not audited" in out
    assert "no data for gsm8k" in wrong(capsys, "audit", GSM8K)


# train


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--stepz", "3"], "--steps"),
        (["--steps", "-3"], "steps: Input should be greater than or equal to 0"),
        (["--config", "/no/such.yaml"], "/no/such.yaml"),
        (["--algorithm", "gpro"], "did you mean"),
        (["--resume"], "--resume takes --out FOLDER"),
        (["--resume", "--out", "/no/such"], "no run to go on with"),
        (["--env.id", "rlvr/Nothing-v0", "--out", "OUT"], "Nothing"),
        (["--env.level", "77", "--out", "OUT"], "77"),
        (["--model.name", "/no/such/model", "--out", "OUT"], "/no/such/model"),
        (["--out", "/proc/none/run"], "/proc/none"),
    ],
)
def test_what_train_cannot_do_is_one_line(capsys, tmp_path: Path, arguments: list[str], words: str):
    out = str(tmp_path / "run")
    assert words in wrong(capsys, "train", *(word.replace("OUT", out) for word in arguments))
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_train_refuses_a_folder_that_holds_something(capsys, tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("words")
    assert "not empty" in wrong(capsys, "train", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


# the rest


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["eval"], ["eval", "--env"], ["envs", "--colour"], ["play"]])
def test_words_that_are_no_command_have_status_2(capsys, arguments: list[str]):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert "rlvr" in err


@pytest.mark.parametrize("arguments", [["--help"], ["eval", "--help"], ["play", "-h"], ["envs", "-h"], ["train", "-h"]])
def test_help_has_status_0(capsys, arguments: list[str]):
    status, out, err = run(capsys, *arguments)
    assert (status, err) == (0, "")
    assert "usage: rlvr" in out


def test_algorithms_shows_the_table(capsys):
    from rlvr.algorithms.recipe.presets import PRESETS

    status, out, _ = run(capsys, "algorithms")
    assert status == 0
    first = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert set(PRESETS) <= set(first)


def test_as_a_module_and_into_a_closed_pipe():
    command = f"{sys.executable} -m rlvr envs | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0
    assert ended.stdout.strip() in list_envs()
    assert ended.stderr == ""


def test_without_the_extra_training_names_it(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "rlvr.cli.train_command", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic_settings", None)
    assert 'pip install "rlvr[train]"' in wrong(capsys, "train", "--steps", 1)


def test_what_the_end_of_a_run_needs_is_asked_for_at_its_beginning(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    told = wrong(capsys, "train", "--steps", 1, "--out", tmp_path / "run")
    assert 'training needs matplotlib: pip install "rlvr[train]"' in told
    assert not (tmp_path / "run").exists()


# what was seeded


def eval_options(**given) -> argparse.Namespace:
    return argparse.Namespace(**{"seed": 3, "temperature": 0.0, "endpoint": None, **given})


@pytest.mark.parametrize(
    ("given", "scripted", "seeded", "loose"),
    [
        ({}, True, "the agent's actions", ""),
        ({}, False, "nothing is sampled", "the last bits of the model's numbers"),
        ({"temperature": 1.0}, False, "the sampling of each turn", "the last bits of the model's numbers"),
        ({"endpoint": "http://x"}, False, "tasks (--seed 3)", "without a seed"),
        (
            {"endpoint": "http://x", "temperature": 1.0},
            False,
            "a seed that is sent",
            "whether the server heeds the seed",
        ),
    ],
)
def test_eval_names_what_was_seeded_and_what_was_not(given, scripted, seeded, loose):
    found = determinism(eval_options(**given), scripted)
    assert seeded in " ".join(found["seeded"])
    assert loose in " ".join(found["not_seeded"])
    assert bool(found["not_seeded"]) == bool(loose)


def test_eval_prints_it_and_a_second_run_does_as_it_says(tmp_path, capsys):
    words = ["eval", "--env", "rlvr/Countdown-v0", "--agent", "random", "--episodes", "3"]
    for name in ("a", "b"):
        assert main([*words, "--out", str(tmp_path / name)]) == 0
    assert "not seeded: nothing; a second run plays the same episodes" in capsys.readouterr().out
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert main([*words, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["determinism"] == {"seeded": ["tasks (--seed 0)", "the agent's actions"], "not_seeded": []}
