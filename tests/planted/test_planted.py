"""Each planted environment has its defect, its twin has it not, and the two differ in one small part."""

from __future__ import annotations

import ast
import inspect
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env

from .catalogue import PAIRS, Pair, make_env, table
from .replays import SHOWS, play, prompt_of, returns, right_returns

FORMS = {"single turn", "multi-turn", "tools", "files"}
MEND_LINES = 10  # of a twin: its class line, one method or attribute
# Replies that nobody should be paid for, and that must not make an environment fail.
WORTHLESS = [
    *("", " ", "done", "0", "1", "yes", "A", "end", "answer 1", "play 1/0", "write x", "()[]{}\\", "\ud800", "１２"),
    *("null", "[]", "[" * 5000, '{"tool": "finish", "args": {}}', '{"tool": "close", "args": {}}', '{"tool": []}'),
    *("7" * 5000, "-1", "1e999", "nan", "\\boxed{1}", "Score: 10", "\x00", "deliver", "grip", "take 0", "word x"),
]


@pytest.fixture(autouse=True)
def _own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What leaks through the machine's temporary folder, or through a class, stays within a test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def maker(pair: Pair, *, mended: bool) -> Any:
    """A function that makes the environment; each call of ``maker`` begins with what its class holds at first."""
    cls = pair.load(mended)
    if pair.name == "SumRepository" and shutil.which("git") is None:
        pytest.skip("needs git")
    if pair.interface == "Task":
        return partial(make_env, cls)
    held = {name: type(value)(value) for name, value in vars(cls.__mro__[1 if mended else 0]).items() if name in HELD}
    return type(cls.__name__, (cls,), held)


HELD = ("notes", "database")
PARAMETERS = [pytest.param(pair, id=pair.name) for pair in PAIRS]


@pytest.mark.parametrize("pair", PARAMETERS)
def test_the_planted_one_has_its_defect_and_its_twin_has_it_not(pair):
    assert SHOWS[pair.name](maker(pair, mended=False))
    assert not SHOWS[pair.name](maker(pair, mended=True))


@pytest.mark.slow
@pytest.mark.parametrize("pair", PARAMETERS)
def test_right_play_of_a_twin_earns_one(pair):
    seeds = range(3 if pair.name == "SumRepository" else 20)
    assert right_returns(maker(pair, mended=True), seeds) == [1.0] * len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PARAMETERS)
def test_a_twin_pays_nobody_for_nothing_and_takes_any_reply(pair):
    make = maker(pair, mended=True)
    seeds = range(1 if pair.name == "SumRepository" else 3)
    for reply in WORTHLESS[: 5 if pair.name == "SumRepository" else None]:
        paid = returns(make, *[reply] * 30, seeds=seeds)
        assert min(paid) == 0, f"{reply[:40]!r} is paid"
        assert max(paid) <= 1
    echo = play(make(), [prompt_of(make())] * 30)
    assert echo == 0, "the prompt itself is paid"


@pytest.mark.slow
@pytest.mark.parametrize("pair", PARAMETERS)
def test_a_twin_gives_the_same_task_for_the_same_seed_and_others_for_others(pair):
    make = maker(pair, mended=True)
    assert prompt_of(make(), 5) == prompt_of(make(), 5)
    assert len({prompt_of(make(), seed) for seed in range(6)}) > 1


@pytest.mark.slow
@pytest.mark.parametrize("pair", [pair for pair in PARAMETERS if pair.values[0].interface == "Env"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_twin_passes_gymnasiums_own_check(pair):
    check_env(maker(pair, mended=True)(), skip_render_check=True)


@pytest.mark.parametrize("pair", PARAMETERS)
def test_a_twin_differs_in_one_part_of_few_lines(pair):
    planted, twin = pair.load(), pair.load(mended=True)
    assert twin.__bases__ == (planted,)
    (node,) = ast.parse(inspect.getsource(twin)).body
    assert isinstance(node, ast.ClassDef)
    assert len(node.body) == 1, "one method or one attribute"
    assert node.end_lineno <= MEND_LINES
    assert hasattr(planted, pair.mended_part), "the part that is mended is there before"


def test_there_are_three_pairs_of_each_of_24_kinds():
    assert [pair.kind.number for pair in PAIRS] == [number for number in range(1, 25) for _ in range(3)]
    assert len({pair.name for pair in PAIRS}) == 72
    assert {pair.form for pair in PAIRS} == FORMS
    assert SHOWS.keys() == {pair.name for pair in PAIRS}


def test_the_readme_lists_every_pair():
    assert table() in Path(__file__).with_name("README.md").read_text(encoding="utf-8")
