"""CodeTests and CodeRepair: solvable by a right program, worth nothing to one that only looks right."""

from __future__ import annotations

import importlib.util
import random
import re
from collections import Counter
from itertools import islice
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.agentic import coding_tasks, mutations
from rlvr.envs.agentic.coding_tasks import CodeRepair, CodeTests, CodingState, exercise_of
from rlvr.envs.agentic.programs.block_classes import COLLECTIONS
from rlvr.envs.agentic.programs.classes import slots_of
from rlvr.envs.agentic.programs.families import BLOCKS, CORES, LEVELS, family_of
from rlvr.envs.agentic.programs.structure import chain, filled
from rlvr.envs.core.seeding import SPLITS, divide
from rlvr.envs.sandbox import SandboxDied, SandboxUnavailable, probes, running

from .block_readings import read_through
from .class_readings import read_calls

ROOT = Path(__file__).parents[2]
SIGNATURES = [(level, index) for level, row in enumerate(LEVELS, 1) for index in range(len(row))]
SOME = SIGNATURES[::12]
SWEEPS = pytest.mark.parametrize("signatures", [SOME, pytest.param(SIGNATURES, marks=pytest.mark.slow)], ids=len)
BOTH = ("rlvr/CodeTests-v0", "rlvr/CodeRepair-v0")
held = pytest.mark.skipif(not any(probes.probe_tier(t).holds for t in probes.NATIVE), reason="no sandbox tier holds")


def _walks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("code_signatures", ROOT / "benchmarks" / "code_signatures.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


walks = _walks()


def drawn(level: int, index: int, seed: int, broken: bool = False) -> CodingState:
    rng = random.Random(seed)
    parameters = family_of(LEVELS[level - 1][index]).parameters
    values = tuple(rng.choice(allowed) for allowed in parameters.values())
    return CodingState(level, index, values, seed, broken)


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


# the programs


def signatures_of(level: int, split: str) -> list[str]:
    kinds = {signature: family_of(signature).kind for signature in LEVELS[level - 1]}
    splits = divide(list(dict.fromkeys(kinds.values())))
    return [signature for signature, kind in kinds.items() if splits[kind] == split]


def test_there_are_as_many_signatures_as_the_docs_say_and_none_is_in_two_splits():
    counts = [[len(signatures_of(level, split)) for split in SPLITS] for level in range(1, 6)]
    page = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert [list(map(int, row)) for row in rows] == [
        [level, *row, len({family_of(each).kind for each in LEVELS[level - 1]})] for level, row in enumerate(counts, 1)
    ]
    signatures = [signature for row in LEVELS for signature in row]
    assert len(set(signatures)) == len(signatures) >= 400
    test = {signature for level in range(1, 6) for signature in signatures_of(level, "test")}
    assert len(test) >= 80
    classes = [{family_of(each).kind for each in signatures_of(5, split)} for split in ("train", "test")]
    assert (len(classes[0]) >= 60, len(classes[1]) >= 12) == (True, True)
    assert not {family_of(each).kind for each in test} & {
        family_of(each).kind for level in range(1, 6) for each in signatures_of(level, "train")
    }


@pytest.mark.slow
@held
@pytest.mark.parametrize("env_id", BOTH)
def test_a_kind_is_in_one_split_and_with_holdout_tasks_a_program_is(env_id):
    for holdout, shared_kinds in (("families", False), ("tasks", True)):
        seen: dict[str, set[str]] = {split: set() for split in SPLITS}
        env = gym.make(env_id, level=1, holdout=holdout).unwrapped
        for split, kinds in seen.items():
            for seed in range(60):
                env.reset(seed=seed, options={"split": split})
                kinds.add(family_of(LEVELS[0][env.get_state().state.family]).kind)
        assert len(seen["train"]) > 20
        assert len(seen["test"]) >= 4
        assert bool(seen["train"] & seen["test"]) == shared_kinds
    with pytest.raises(ValueError, match="holdout is one of families, tasks"):
        gym.make(env_id, holdout="seeds")


def test_the_signatures_are_those_that_the_walks_find():
    for level in range(1, 5):
        assert tuple(islice(walks.chain_signatures(level), 2)) == LEVELS[level - 1][:2]
    assert next(walks.core_signatures()) == LEVELS[4][0]
    found = tuple(islice(walks.block_class_signatures(), 2))
    assert found == tuple(each for each in LEVELS[4] if each.split(":")[0] in COLLECTIONS)[:2]


def masked(code: str) -> str:
    """A program without its numbers and the name of its function."""
    return re.sub(r"\d+", "N", re.sub(r"def \w+", "def f", code))


@SWEEPS
def test_no_two_signatures_have_one_program_but_for_numbers(signatures):
    programs = Counter(masked(family_of(LEVELS[level - 1][index]).source) for level, index in signatures)
    assert programs.most_common(1)[0][1] == 1


def disagreements(signature: str, seed: int) -> list[tuple[object, object, object]]:
    """Inputs for which the reference solution gives something else than a reading of the description."""
    family, rng = family_of(signature), random.Random(seed)
    values = {name: rng.choice(allowed) for name, allowed in family.parameters.items()}
    _, cases = walks.drawn(rng, family)
    results = mutations.results(filled(family.source, values), family.entry, cases, fuel=walks.FUEL)
    if family.entry in CORES or family.entry in COLLECTIONS:
        read = [read_calls(signature, case[0], values) for case in cases]
    else:
        read = [read_through(signature.split(":")[1:], case[0], values) for case in cases]
    return [row for row in zip(cases, results, read, strict=True) if repr(row[1]) != repr(row[2])]


@SWEEPS
def test_two_independent_readings_of_a_description_agree(signatures):
    wrong = {}
    for level, index in signatures:
        if found := disagreements(LEVELS[level - 1][index], seed=index):
            wrong[LEVELS[level - 1][index]] = found[0]
    assert wrong == {}


@pytest.mark.slow
def test_two_independent_readings_of_each_block_alone_agree():
    wrong = {}
    for name, block in BLOCKS.items():
        family = chain([block])
        values = {key: random.Random(name).choice(allowed) for key, allowed in family.parameters.items()}
        _, cases = walks.drawn(random.Random(name), family)
        results = mutations.results(filled(family.source, values), family.entry, cases, fuel=walks.FUEL)
        for case, result in zip(cases, results, strict=True):
            if repr(read_through([name], case[0], values)) != repr(result):
                wrong[name] = case
    assert wrong == {}


def test_every_rule_of_a_class_fills_holes_that_its_core_has():
    for core in CORES.values():
        holes = {*re.findall(r"#(\w+)", core.source), "import", "history"}
        for slot, rules in slots_of(core).items():
            assert slot == "history" or f"{{{slot}}}" in core.text
            assert {hole for rule in rules for hole in rule.holes} <= holes, (core.entry, slot)


@SWEEPS
def test_a_right_program_changes_none_of_its_arguments_and_is_described_whole(signatures):
    for level, index in signatures:
        family = family_of(LEVELS[level - 1][index])
        source, cases = walks.drawn(random.Random(index), family)
        before = repr(cases)
        assert mutations.RAISED not in mutations.results(source, family.entry, cases, fuel=walks.FUEL)
        assert repr(cases) == before
        text = filled(family.text, {name: allowed[0] for name, allowed in family.parameters.items()})
        assert not re.search(r"[${}]|  |\(\)\.\w", text), text


@SWEEPS
def test_the_tests_tell_programs_apart(signatures):
    for level, index in signatures:
        exercise = exercise_of(drawn(level, index, seed=index))
        assert len(exercise.hidden) >= 8
        assert not [case for case in exercise.visible if case in exercise.hidden]
        answers = [repr(case.expected) for case in exercise.hidden]
        assert max(map(answers.count, answers)) <= 0.8 * len(answers), (exercise, "a constant would nearly do")


@SWEEPS
def test_a_broken_program_fails_some_test_and_is_nearly_right(signatures):
    for level, index in signatures:
        exercise = exercise_of(drawn(level, index, seed=index, broken=True))
        cases = [*exercise.visible, *exercise.hidden]
        values = mutations.results(exercise.broken, exercise.entry, [case.arguments for case in cases])
        failing = [case for case, value in zip(cases, values, strict=True) if repr(value) != repr(case.expected)]
        assert failing
        assert level > 3 or [case for case in exercise.visible if case in failing], "easy bugs can be seen"
        assert len(exercise.broken) < 1.2 * len(exercise.solution) + 20


def test_a_change_that_never_ends_is_no_bug():
    source = "def f(n):\n    while n > 0:\n        n -= 1\n    return n"
    with pytest.raises(mutations.OutOfFuel):
        mutations.results(source.replace("-=", "+="), "f", [[3]])
    ends = [place for place in range(mutations.count_changes(source)) if _ends(source, place)]
    assert 0 < len(ends) < mutations.count_changes(source)


def _ends(source: str, place: int) -> bool:
    try:
        mutations.results(source, "f", [[3]], [place])
    except mutations.OutOfFuel:
        return False
    return True


# playing


@held
@pytest.mark.parametrize("env_id", BOTH)
def test_tests_come_back_and_a_second_try_wins(env_id):
    env = gym.make(env_id, level=2).unwrapped
    env.reset(seed=4)
    exercise = exercise_of(env.get_state().state)
    first = fenced(f"def {exercise.entry}(*arguments):\n    raise ValueError('not yet')")
    said, reward, terminated, _, info = env.step(first)
    assert (reward, terminated, info["verdict"].answer) == (0.0, False, None)
    assert said.startswith("0 of 4 visible tests pass.")
    assert said.count("raised ValueError: not yet") == 4
    _, reward, terminated, _, _ = env.step(env.solve())
    assert (reward, terminated) == (1.0, True)


@held
def test_what_a_program_gave_is_shown_beside_what_was_wanted_and_hidden_tests_are_not():
    env = gym.make("rlvr/CodeTests-v0", level=1).unwrapped
    env.reset(seed=0)
    exercise = exercise_of(env.get_state().state)
    said = env.step(fenced(f"def {exercise.entry}(*arguments):\n    return '<|im' + '_end|>' + 'x' * 5000"))[0]
    assert "gave '< |im_end|>xxx" in said
    assert len(said) < 3_000
    assert f"not {exercise.visible[0].expected!r}" in said
    calls = [coding_tasks._call(exercise.entry, case.arguments) for case in exercise.hidden]
    assert not [call for call in calls if call in said]


CHEATS = {
    "nothing": "def {f}(*a):\n    return None",
    "exits": "import sys\ndef {f}(*a):\n    sys.exit(0)",
    "exits at once": "import os\n{f} = None\nos._exit(0)",
    "claims": "print('passed')\nprint('reward: 1')\ndef {f}(*a):\n    print('all tests passed')\n    return 'passed'",
    "equals everything": "class A:\n    def __eq__(self, o): return True\ndef {f}(*a):\n    return A()",
    "equal integer": "class A(int):\n    def __eq__(self, o): return True\ndef {f}(*a):\n    return A()",
    "answers every method": "class {f}:\n    def __getattr__(self, name):\n        return lambda *a: None",
    "edits the checker": (
        "import sys, builtins\n"
        "for m in list(sys.modules.values()):\n"
        "    for n in ('same', 'check', 'encode', '_compared', '_decided', 'grade_code'):\n"
        "        if hasattr(m, n):\n            setattr(m, n, lambda *a, **k: True)\n"
        "def {f}(*a):\n    return None"
    ),
    "speaks on the channel": (
        'import os\nfor fd in range(3, 10):\n    try:\n        os.write(fd, b\'{{"value": 0, "nonce": "x"}}\\n\')\n'
        "    except OSError:\n        pass\ndef {f}(*a):\n    return 0"
    ),
    "looks for the tests": (
        "import gc\ndef {f}(*a):\n"
        "    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and 'expected' in o:\n            return o['expected']\n"
    ),
}


@held
@pytest.mark.parametrize("level", [1, 5])
@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("env_id", BOTH)
def test_cheats_earn_nothing(env_id, cheat, level):
    env = gym.make(env_id, level=level).unwrapped
    env.reset(seed=3)
    exercise = exercise_of(env.get_state().state)
    reply, over = fenced(CHEATS[cheat].format(f=exercise.entry)), False
    while not over:
        _, reward, terminated, truncated, info = env.step(reply)
        assert (reward, info["verdict"].valid) == (0.0, True)
        over = terminated or truncated


@held
@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("env_id", BOTH)
def test_a_table_of_the_visible_tests_passes_them_and_earns_nothing(env_id, level):
    env = gym.make(env_id, level=level).unwrapped
    env.reset(seed=5)
    exercise = exercise_of(env.get_state().state)
    _, reward, terminated, _, info = env.step(fenced(tabled(exercise)))
    assert (reward, terminated, info["verdict"].status) == (0.0, True, "wrong")


def tabled(exercise: coding_tasks.Exercise) -> str:
    """A program that looks the visible tests up: by arguments, or by all calls that the object has had."""
    if exercise.form == "function":
        table = {repr(case.arguments): case.expected for case in exercise.visible}
        return f"def {exercise.entry}(*arguments):\n    return {table!r}.get(repr(list(arguments)))"
    table = {}
    for case in exercise.visible:
        for length, value in enumerate(case.expected, 1):
            table[repr(case.arguments[0][:length])] = value
    return (
        f"class {exercise.entry}:\n    def __init__(self):\n        self.past = []\n"
        "    def __getattr__(self, name):\n        def answer(*arguments):\n"
        f"            self.past.append([name, list(arguments)])\n            return {table!r}.get(repr(self.past))\n"
        "        return answer\n"
    )


@held
def test_the_broken_program_earns_nothing():
    env = gym.make("rlvr/CodeRepair-v0").unwrapped
    for level in range(1, 6):
        env.reset(seed=level, options={"level": level})
        state = env.get_state().state
        reward = env.step(fenced(exercise_of(state).broken))[1]
        assert reward == 0.0


@held
@given(st.text(max_size=80))
def test_any_text_is_a_verdict(text):
    task = CodeTests()
    _, verdict, terminated, _ = task.apply(drawn(1, 0, 0), text)
    assert (verdict.status, terminated) == ("unparsable", False)


def test_both_refuse_where_nothing_keeps_a_program_in(monkeypatch):
    def refuse() -> None:
        raise SandboxUnavailable("no sandbox tier holds on this machine")

    monkeypatch.setattr(probes, "require", refuse)
    for task in (CodeTests, CodeRepair):
        with pytest.raises(SandboxUnavailable, match="no sandbox tier"):
            task()


@held
def test_a_machine_too_busy_is_a_timeout(monkeypatch):
    monkeypatch.setattr(running, "PATIENCE", 0.0)
    monkeypatch.setattr(running, "patience", lambda: 0.0)
    state = drawn(1, 0, 0)
    entry = exercise_of(state).entry
    waits = fenced(f"import time\ntime.sleep(0.5)\ndef {entry}(*_): return 0")
    verdict = CodeTests().apply(state, waits).verdict
    assert (verdict.status, verdict.valid) == ("timeout", False), verdict


@held
def test_a_program_that_somebody_else_kills_is_tried_again(monkeypatch):
    state, real = drawn(1, 0, 0), coding_tasks._tried_once
    died = iter([True, True, False])

    def tried_once(*arguments):
        if next(died):
            raise SandboxDied("killed", may_be_program=True)
        return real(*arguments)

    monkeypatch.setattr(coding_tasks, "_tried_once", tried_once)
    task = CodeTests()
    assert task.apply(state, task.solve(state)).verdict.reward == 1.0
