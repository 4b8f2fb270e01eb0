"""docs/code_tour.md names the files that run in a GRPO step: a step is profiled, and compared with the page."""

from __future__ import annotations

import gc
import re
import sys
import threading
from pathlib import Path

import pytest

from rlvr.algorithms.config import load_config
from rlvr.algorithms.train.run import Trainer

from .architecture import ROOMS, ROOT

pytestmark = pytest.mark.slow
MOST_FILES = 45
PAGE = ROOT / "docs" / "code_tour.md"


class Quiet:
    def phase(self, name, steps):
        pass

    def step(self, record):
        pass

    def say(self, text):
        pass


@pytest.fixture(scope="module")
def files_of_a_step(tmp_path_factory) -> set[str]:
    """The project's files in which a function is called in a step; the second, as the first fills caches."""
    config = {
        "env": {"id": "rlvr/GuessNumber-v0"},
        "model": {"hidden": 16, "layers": 1},
        "sampling": {"max_new_tokens": 8, "max_length": 256},
        "evaluation": {"episodes": 1},
        "algorithm": "grpo",
        "steps": 3,
        "prompts": 2,
        "group_size": 2,
        "out": str(tmp_path_factory.mktemp("tour") / "run"),
    }
    trainer = Trainer(load_config(config), Quiet())
    trainer.prepare()
    trainer.begin()
    trainer.learn(trainer.collect())
    called: set[str] = set()

    def note(frame, event, argument):
        if event == "call":
            called.add(frame.f_code.co_filename)

    gc.disable()  # collecting calls functions of files that are imported, and no part of a step
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        trainer.learn(trainer.collect())
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
        trainer.close()
    paths = {Path(name).resolve() for name in called if name.endswith(".py")}
    ours = {path.relative_to(ROOT) for path in paths if path.is_relative_to(ROOT)}
    return {path.as_posix() for path in ours if path.parts[0] in ROOMS}


def test_a_step_runs_code_in_few_files(files_of_a_step: set[str]):
    assert len(files_of_a_step) > 30, "the step was not profiled"
    assert len(files_of_a_step) <= MOST_FILES


def test_the_tour_names_the_files_of_a_step_and_no_others(files_of_a_step: set[str]):
    named = re.findall(r"^- `([\w/]+\.py)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == len({*named}), "each file once"
    assert {*named} == files_of_a_step


def test_the_loop_fits_on_a_page_and_has_its_steps_in_order():
    text = (ROOT / "algorithms" / "train" / "run.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    numbers = [int(number) for number in re.findall(r'(?:# |, |and |""")(\d)\. [A-Za-z]', text)]
    assert numbers == [*range(1, 10)]
