"""The digest of an environment: equal for equal tasks, another for other rows, settings or code; never by chance."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv, list_envs
from rlvr.envs.core.code_rule import make_env
from rlvr.envs.core.tables import DataError
from rlvr.envs.puzzles.countdown import Countdown
from rlvr.envs.sandbox import SandboxUnavailable
from rlvr.envs.tasks.digests import differing_parts, digest_parts, env_digest

from ..needs import needs_sandbox

ROWS = [{"question": f"What is {number} plus {number}?", "answer": 2 * number} for number in range(20)]
PLUGIN = """
import rlvr
from rlvr.envs.core.task import Task, Transition
from digested_plugin.words import WORD
from rlvr.envs import Verdict

class Say(Task):
    def start(self, rng, level):
        return rng.random()

    def observe(self, state):
        return f"Say {WORD}. {state}"

    def apply(self, state, action):
        return Transition(state, Verdict(1.0, "correct"), True)

rlvr.register("digested_plugin/Say-v0", "digested_plugin:Say")
"""


def write(path, rows, **dump):
    path.write_text("".join(json.dumps(row, **dump) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def digest(file, **settings):
    return env_digest(gym.make("rlvr/Dataset-v0", data_files=file, **{"grader": "number", **settings}))


def other(first, second):
    return differing_parts(first, second)


def test_equal_rows_have_one_digest_wherever_and_however_they_are_written(tmp_path):
    here = digest(write(tmp_path / "a.jsonl", ROWS))
    renamed = [{"q": row["question"], "a": row["answer"], "unused": 1} for row in ROWS]
    for file, settings in (
        (write(tmp_path / "b.jsonl", ROWS, indent=None, separators=(",", ":")), {}),
        (write(tmp_path / "c.jsonl", renamed), {"columns": {"question": "q", "answer": "a"}}),
        (write(tmp_path / "d.jsonl", [*ROWS, ROWS[0]]), {"limit": len(ROWS)}),
        (write(tmp_path / "e.jsonl", [dict(reversed(row.items())) for row in ROWS]), {}),
    ):
        assert digest(file, **settings) == here
    (tmp_path / "f.json").write_text(json.dumps(ROWS), encoding="utf-8")
    assert digest(str(tmp_path / "f.json")) == here


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:-1],
        lambda rows: [*rows, rows[0]],
        lambda rows: rows[::-1],
        lambda rows: [*rows[:3], {**rows[3], "answer": 7}, *rows[4:]],
        lambda rows: [*rows[:3], {**rows[3], "question": "What is 3 plus 3 ?"}, *rows[4:]],
        lambda rows: [{**row, "solution": "By counting."} for row in rows],
        lambda rows: [{"question": str(row["answer"]), "answer": 1} for row in rows],
    ],
)
def test_other_rows_are_other_rows(change, tmp_path):
    before = digest(write(tmp_path / "a.jsonl", ROWS))
    assert other(before, digest(write(tmp_path / "b.jsonl", change(ROWS)))) == ("rows",)
    write(tmp_path / "a.jsonl", change(ROWS))  # under the path of before
    assert other(before, digest(str(tmp_path / "a.jsonl"))) == ("rows",)


def test_any_order_but_the_same_is_another(tmp_path):
    before = digest(write(tmp_path / "a.jsonl", ROWS))
    for seed in range(20):
        shuffled = random.Random(seed).sample(ROWS, len(ROWS))
        assert (digest(write(tmp_path / "b.jsonl", shuffled)) == before) == (shuffled == ROWS)


def test_settings_that_change_what_is_asked_or_paid_are_others(tmp_path):
    file = write(tmp_path / "a.jsonl", ROWS)
    before = digest(file)
    assert digest(file, grader_options={}) != before  # None was said before
    assert digest(file, few_shot=0) == before  # the default, said
    assert other(before, digest(file, grader="math")) == ("settings",)
    assert other(before, digest(file, prompt_style="none")) == ("settings",)
    assert other(before, digest(file, max_turns=2)) == ("settings",)
    assert other(before, digest(file, tools=["calculator"])) == ("settings",)
    assert "rows" in other(before, digest(file, few_shot=2))  # examples stand in the prompt
    assert digest(file, split="test") == before  # each episode names its own


def test_generated_tasks_are_their_version_and_settings():
    one, two = (env_digest(gym.make("rlvr/Countdown-v0", level=level)) for level in (1, 2))
    assert one == two
    assert digest_parts(one)["rows"] == "generated2"
    assert other(one, env_digest(gym.make("rlvr/Countdown-v0", tools=["calculator"]))) == ("settings",)
    assert other(one, env_digest(gym.make("rlvr/Zebra-v0"))) == ("settings",)
    assert digest_parts(env_digest(TextEnv(Countdown())))["rows"] == "generated2"


@needs_sandbox
def test_every_id_has_a_digest_of_its_own_settings():
    found = {}
    for env_id in list_envs():
        try:
            found[env_id] = env_digest(gym.make(env_id))
        except (DataError, SandboxUnavailable):
            continue
    assert len(found) > 250
    assert all("unknown" not in digest for digest in found.values())


def test_a_mixture_has_the_rows_and_settings_of_its_parts(tmp_path):
    file = write(tmp_path / "a.jsonl", ROWS)

    def mixed(*parts, **settings):
        return env_digest(gym.make("rlvr/Mixture-v0", envs=list(parts), **settings))

    part = {"id": "rlvr/Dataset-v0", "data_files": file, "grader": "number"}
    before = mixed("rlvr/Countdown-v0", part)
    copied = write(tmp_path / "b.jsonl", ROWS)
    assert mixed("rlvr/Countdown-v0", {**part, "data_files": copied}) == before
    assert other(before, mixed("rlvr/Countdown-v0", {**part, "grader": "math"})) == ("settings",)
    assert other(before, mixed("rlvr/Countdown-v0", part, weights=[1, 2])) == ("settings",)
    write(tmp_path / "a.jsonl", ROWS[:-1])
    assert other(before, mixed("rlvr/Countdown-v0", part)) == ("rows",)


def test_it_is_the_same_in_another_process(tmp_path):
    file = write(tmp_path / "a.jsonl", ROWS)
    code = (
        "import gymnasium as gym, rlvr; from rlvr.envs.tasks.digests import env_digest;"
        f"print(env_digest(gym.make('rlvr/Dataset-v0', data_files={file!r}, grader='number')));"
        "print(env_digest(gym.make('rlvr/Zebra-v0', tools=['calculator'])))"
    )
    runs = {
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert runs == {f"{digest(file)}\n{env_digest(gym.make('rlvr/Zebra-v0', tools=['calculator']))}\n"}


def test_a_plug_ins_code_is_its_whole_package(tmp_path):
    package = tmp_path / "digested_plugin"
    package.mkdir()
    (package / "__init__.py").write_text(PLUGIN, encoding="utf-8")
    code = (
        "import gymnasium as gym, rlvr; from rlvr.envs.tasks.digests import env_digest;"
        "print(env_digest(gym.make('digested_plugin:digested_plugin/Say-v0')))"
    )

    def played(word):
        (package / "words.py").write_text(f"WORD = {word!r}\n", encoding="utf-8")
        command = [sys.executable, "-B", "-c", code]
        variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=variables).stdout.strip()

    before = played("yes")
    assert played("yes") == before
    assert other(before, played("oh")) == ("code",)


def test_what_is_unknown_differs_in_nothing():
    known = env_digest(make_env("rlvr/Countdown-v0"))
    assert differing_parts("", known) == differing_parts(known, "") == differing_parts("", "") == ()
    assert digest_parts(env_digest(gym.make("CartPole-v1")))["rows"] == "unknown"
