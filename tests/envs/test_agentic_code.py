"""CodeTests and CodeRepair: solvable by a right program, worth nothing to one that only looks right."""

from __future__ import annotations

import random
import re
from string import Template

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.agentic import coding_tasks, mutations
from rlvr.envs.agentic.coding_tasks import CodeRepair, CodeTests, CodingState, exercise_of
from rlvr.envs.agentic.program_inputs import MAKERS
from rlvr.envs.agentic.programs_advanced import LEVELS
from rlvr.envs.sandbox import SandboxDied, SandboxUnavailable, probes, running

FAMILIES = [(level, place) for level, row in enumerate(LEVELS, 1) for place in range(len(row))]
BOTH = ("rlvr/CodeTests-v0", "rlvr/CodeRepair-v0")
held = pytest.mark.skipif(not any(probes.probe_tier(t).holds for t in probes.NATIVE), reason="no sandbox tier holds")


def drawn(level: int, place: int, seed: int, broken: bool = False) -> CodingState:
    rng = random.Random(seed)
    values = tuple(rng.choice(allowed) for allowed in LEVELS[level - 1][place].parameters.values())
    return CodingState(level, place, values, seed, broken)


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


# the programs


def test_there_are_as_many_families_as_are_promised():
    names = [LEVELS[level - 1][place].name for level, place in FAMILIES]
    assert len(set(names)) == len(names)
    assert all(len(row) >= 40 for row in LEVELS)


@pytest.mark.slow
@held
@pytest.mark.parametrize("env_id", BOTH)
def test_a_family_is_in_one_split_and_with_holdout_tasks_a_program_is(env_id):
    for holdout, shared_families in (("families", False), ("tasks", True)):
        seen: dict[str, set[str]] = {"train": set(), "validation": set(), "test": set()}
        env = gym.make(env_id, level=3, holdout=holdout).unwrapped
        for split, families in seen.items():
            for seed in range(60):
                env.reset(seed=seed, options={"split": split})
                families.add(LEVELS[2][env.get_state().state.family].name)
        assert len(seen["train"]) > 20
        assert len(seen["test"]) >= 4
        assert bool(seen["train"] & seen["test"]) == shared_families
    with pytest.raises(ValueError, match="holdout is one of families, tasks"):
        gym.make(env_id, holdout="seeds")


def masked(code: str) -> str:
    """A program without its numbers and the name of its function."""
    return re.sub(r"\d+", "N", re.sub(r"def \w+", "def f", code))


def test_no_two_families_have_one_program_but_for_numbers():
    programs = [masked(exercise_of(drawn(level, place, 0)).solution) for level, place in FAMILIES]
    assert len(set(programs)) == len(programs)


@pytest.mark.parametrize(("level", "place"), FAMILIES)
def test_a_right_program_ends_soon_and_changes_none_of_its_arguments(level, place):
    family = LEVELS[level - 1][place]
    for seed in range(3):
        rng = random.Random(seed)
        values = {name: rng.choice(allowed) for name, allowed in family.parameters.items()}
        assert "$" not in Template(family.text).substitute(values)
        cases = [[MAKERS[kind](rng) for kind in family.inputs] for _ in range(20)]
        before = repr(cases)
        found = mutations.results(Template(family.source).substitute(values), family.name, cases, fuel=3_000)
        assert mutations.RAISED not in found
        assert repr(cases) == before


@pytest.mark.parametrize(("level", "place"), FAMILIES)
def test_the_tests_tell_programs_apart(level, place):
    for seed in range(4):
        exercise = exercise_of(drawn(level, place, seed))
        assert len(exercise.hidden) >= 8
        assert not [case for case in exercise.visible if case in exercise.hidden]
        answers = [repr(case.expected) for case in exercise.hidden]
        assert max(map(answers.count, answers)) <= 0.8 * len(answers), "a constant would nearly do"


@pytest.mark.parametrize(("level", "place"), FAMILIES)
def test_a_broken_program_fails_some_test_and_is_nearly_right(level, place):
    for seed in range(2):
        exercise = exercise_of(drawn(level, place, seed, broken=True))
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
    calls = [coding_tasks._call(exercise, case) for case in exercise.hidden]
    assert not [call for call in calls if call in said]


CHEATS = {
    "nothing": "def {f}(*a):\n    return None",
    "exits": "import sys\ndef {f}(*a):\n    sys.exit(0)",
    "exits at once": "import os\n{f} = None\nos._exit(0)",
    "claims": "print('passed')\nprint('reward: 1')\ndef {f}(*a):\n    print('all tests passed')\n    return 'passed'",
    "equals everything": "class A:\n    def __eq__(self, o): return True\ndef {f}(*a):\n    return A()",
    "equal integer": "class A(int):\n    def __eq__(self, o): return True\ndef {f}(*a):\n    return A()",
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
@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("env_id", BOTH)
def test_cheats_earn_nothing(env_id, cheat):
    env = gym.make(env_id, level=1).unwrapped
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
    table = {repr(case.arguments): case.expected for case in exercise.visible}
    code = f"def {exercise.entry}(*arguments):\n    return {table!r}.get(repr(list(arguments)))"
    _, reward, terminated, _, info = env.step(fenced(code))
    assert (reward, terminated, info["verdict"].status) == (0.0, True, "wrong")


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
