"""CodeTests: write a function or class from its description. CodeRepair: mend a broken one. Several turns, with tests.

A reply with a program is tried on the visible tests, and what it gave comes back. The first program that passes them
is final: the hidden tests decide, reward 1 if all pass and 0 otherwise. Programs run in the sandbox; no expected
value enters it (see the ``code`` grader).
"""

from __future__ import annotations

import ast
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from rlvr.envs.agentic import mutations
from rlvr.envs.agentic.programs.families import LEVELS, family_of
from rlvr.envs.agentic.programs.inputs import MAKERS
from rlvr.envs.agentic.programs.structure import Family, filled
from rlvr.envs.agentic.python_syntax import parse_python
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, unparsable
from rlvr.envs.rewards.extraction import MAX_COMPLETION_CHARS
from rlvr.envs.rewards.graders.code import MAX_CODE_CHARS, defines, extract_code, grade_code, sandbox_fault
from rlvr.envs.sandbox import Limits, SandboxDied, SandboxError, SandboxUnavailable, probes, shared
from rlvr.envs.sandbox.inside import wire
from rlvr.envs.sandbox.running import ProgramEnded
from rlvr.envs.sandbox.sandbox import Channel
from rlvr.envs.tasks.prompts import PROGRAM
from rlvr.envs.tools.tool import shown

DRAWN, KEPT = 40, 18  # inputs that are drawn for a task, and those of them that become tests
MAX_DRAWS = 20  # of tests, until some change of the program fails one of them
HOLDOUTS = ("families", "tasks")  # what is not in two splits
VISIBLE = (4, 4, 3, 3, 3)  # by level
BUGS = (1, 1, 1, 2, 2)
SECONDS, TOTAL_SECONDS = 4.0, 20.0  # for one call, and for all tests of a program
MAX_SHOWN = 200  # characters of a value in the feedback


BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.BoolOp, ast.comprehension)


class CodingState(NamedTuple):
    """A family of programs, the values of its parameters, the seed of its tests, and the feedback on the last reply.

    ``family`` counts the signatures of the level.
    """

    level: int
    family: int
    values: tuple[int | str, ...]
    seed: int
    broken: bool = False
    feedback: str = ""


class TestCase(NamedTuple):
    """One call and what it must give; for a class, calls [name, arguments] of a new object and the list of values."""

    arguments: list[Any]
    expected: Any


class Exercise(NamedTuple):
    """What a problem amounts to; ``broken`` is the program to repair, where one is to be repaired."""

    entry: str
    text: str
    solution: str
    broken: str
    visible: tuple[TestCase, ...]
    hidden: tuple[TestCase, ...]

    @property
    def form(self) -> str:
        """What ``entry`` is: a function, or a class, whose name has a capital letter."""
        return "class" if self.entry[0].isupper() else "function"

    def calls(self, test: TestCase) -> list[tuple[str, Sequence[Any], Any]]:
        """Name, arguments and value of each call of a test; the calls of a class are those of its object's methods."""
        if self.form == "function":
            return [(self.entry, test.arguments, test.expected)]
        pairs = zip(test.arguments[0], test.expected, strict=True)
        return [(name, arguments, value) for (name, arguments), value in pairs]

    def row(self, test: TestCase) -> dict[str, Any]:
        """A test as the code grader reads it."""
        if self.form == "function":
            return {"args": test.arguments, "expected": test.expected}
        return {"calls": [[self.entry, []], *test.arguments[0]], "expected": [None, *test.expected]}

    def listed(self) -> str:
        """The visible tests as lines of Python."""
        owner = f"{self.entry.lower()}." if self.form == "class" else ""
        blocks = []
        for test in self.visible:
            lines = [f"{owner[:-1]} = {self.entry}()"] if owner else []
            lines += [f"{owner}{_call(name, values)} {_equals(value)}" for name, values, value in self.calls(test)]
            blocks.append("\n".join(lines))
        return ("\n\n" if owner else "\n").join(blocks)


class _CodingTask(Task[CodingState]):
    """Base of both; a subclass writes ``observe``.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine; the message says what would change that.
    """

    levels = len(LEVELS)
    repair: ClassVar[bool] = False
    holdout = "families"
    patience: ClassVar[float] = 5.0  # seconds a grade may take, for the audit: it starts processes
    system = (
        f"{PROGRAM} Return results from functions; what is printed does not count. You see what your program "
        "gives for the visible tests. The first program that passes them all is final: hidden tests then decide."
    )

    def __init__(self, *, holdout: str = "families") -> None:
        if holdout not in HOLDOUTS:
            raise ValueError(f"holdout is one of {', '.join(HOLDOUTS)}, got {holdout!r}")
        self.holdout = holdout
        probes.require()

    def turns(self, level: int) -> int:
        return 4

    def start(self, rng: random.Random, level: int) -> CodingState:
        index = rng.randrange(len(LEVELS[level - 1]))
        values = tuple(rng.choice(allowed) for allowed in family_of(LEVELS[level - 1][index]).parameters.values())
        return CodingState(level, index, values, rng.getrandbits(32), self.repair)

    def difficulty(self, state: CodingState) -> float:
        """Statements, branches and loops of the solution, for each bug where it is to be repaired."""
        tree = parse_python(exercise_of(state._replace(feedback="")).solution)
        parts = sum(isinstance(node, ast.stmt) + isinstance(node, BRANCHES) for node in ast.walk(tree))
        return float(parts * (BUGS[state.level - 1] if state.broken else 1))

    def content(self, state: CodingState) -> str:
        """What is in one split: a kind of programs, or a program; whatever its tests and its bugs."""
        family = _family(state)
        if self.holdout == "families":
            return family.kind
        arguments = ", ".join(f"{key}={value}" for key, value in zip(family.parameters, state.values, strict=True))
        return f"{family.name}({arguments})"

    def enumerate_contents(self, level: int) -> Sequence[str] | None:
        if self.holdout == "tasks":
            return None
        return list(dict.fromkeys(family_of(signature).kind for signature in LEVELS[level - 1]))

    def apply(self, state: CodingState, action: str) -> Transition:
        exercise = exercise_of(state._replace(feedback=""))
        code = None if len(action) > MAX_COMPLETION_CHARS else extract_code(action, exercise.entry)
        if code is None or len(code) > MAX_CODE_CHARS or not defines(code, exercise.entry):
            feedback = f"There is no program in the reply that defines {exercise.entry}."
            return Transition(state._replace(feedback=feedback), unparsable(feedback))
        try:
            outcomes = _run_visible_tests(code, exercise)
        except SandboxUnavailable:
            raise
        except (SandboxError, OSError) as error:
            return Transition(state, sandbox_fault(error), terminated=True)
        if not any(outcomes):
            return Transition(state, _grade_hidden(code, exercise), terminated=True)
        passed = f"{outcomes.count('')} of {len(outcomes)} visible tests pass"
        lines = []
        for number, (test, fault) in enumerate(zip(exercise.visible, outcomes, strict=True), 1):
            label = f"test {number}" if exercise.form == "class" else _call(exercise.entry, test.arguments)
            lines.append(f"{label}: {fault or 'ok'}")
        feedback = shown("\n".join([f"{passed}.", *lines]))
        return Transition(state._replace(feedback=feedback), Verdict(0.0, "partial", reason=passed))

    def solve(self, state: CodingState) -> str:
        return f"```python\n{exercise_of(state._replace(feedback='')).solution}\n```"

    def direct_answer(self, state: CodingState) -> str:
        return self.solve(state)

    def sample_action(self, state: CodingState, rng: random.Random) -> str:
        """A program that gives the same for everything."""
        entry, value = _family(state).entry, rng.choice(("0", "1", "[]", "None"))
        if entry[0].isupper():
            return (
                f"```python\nclass {entry}:\n    def __getattr__(self, name):\n        return lambda *a: {value}\n```"
            )
        return f"```python\ndef {entry}(*a):\n    return {value}\n```"


class CodeTests(_CodingTask):
    """Write a program from its description: functions of 2, 3, 4 and 5 or 6 operations at levels 1 to 4, classes at 5.

    A program is a row of typed blocks (conditions, measures, groups, tables, texts, spans, grids, graphs, schedules,
    grammars), or a class whose methods follow rules that meet. Descriptions, reference solutions and hidden tests are
    made from this structure. No kind of program is in two splits: no sequence of operations of the test split is one of
    the train split, whatever its conditions and numbers, and no class of level 5. ``holdout="tasks"`` divides the
    single programs instead.

    Observation: the description and the visible tests; then what the last program gave for each of them.
    Actions: a program in a fence that defines the function or the class.
    Reward: 1 if the first program that passes the visible tests passes the hidden ones too, else 0.
    Episode end: a program passes the visible tests, or four turns are used up.

    Args:
        holdout: what is in one split alone: ``"families"`` of programs of one kind, or ``"tasks"``, single programs.
    """

    def observe(self, state: CodingState) -> str:
        """Description and visible tests at first; then what the last program gave for each of them."""
        if state.feedback:
            return state.feedback
        exercise = exercise_of(state)
        task = f"Write a Python {exercise.form} {exercise.entry}. {exercise.text}"
        return f"{task}\n\nVisible tests:\n{exercise.listed()}"


class CodeRepair(_CodingTask):
    """Repair a program. Levels as in CodeTests, with one bug at levels 1 to 3 and two at 4 and 5.

    A bug is a small change (an operator, a bound, a constant, a name) after which some tests fail and, where there is
    such a change, a quarter of them still pass. That is proven when a task is shown. A program is a task many times
    over, with other bugs and tests.

    Observation: the broken program, what it must do and the visible tests; then what the last program gave.
    Actions: the whole program, repaired, in a fence.
    Reward: 1 if the first program that passes the visible tests passes the hidden ones too, else 0.
    Episode end: a program passes the visible tests, or four turns are used up.

    Args:
        holdout: as in ``CodeTests``.
    """

    repair = True

    def observe(self, state: CodingState) -> str:
        """The broken program, what it must do and the visible tests; then what the last program gave."""
        if state.feedback:
            return state.feedback
        exercise = exercise_of(state)
        bugs = "a bug" if BUGS[state.level - 1] == 1 else f"{BUGS[state.level - 1]} bugs"
        return (
            f"This {exercise.form} has {bugs}. Repair it, and write the whole program.\n\n"
            f"What {exercise.entry} must do: {exercise.text}\n\n```python\n{exercise.broken}\n```\n\n"
            f"Visible tests:\n{exercise.listed()}"
        )


# making tasks


def _family(state: CodingState) -> Family:
    return family_of(LEVELS[state.level - 1][state.family])


@lru_cache(maxsize=1024)
def exercise_of(problem: CodingState) -> Exercise:
    """The description, the programs and the tests of a problem; the same every time."""
    family = _family(problem)
    values = dict(zip(family.parameters, problem.values, strict=True))
    solution = mutations.mutated(filled(family.source, values))
    rng = random.Random(problem.seed)
    for _ in range(MAX_DRAWS):
        tests = _tests(rng, family, solution)
        bugs = BUGS[problem.level - 1]
        broken, failing = _broken(rng, family, solution, tests, bugs) if problem.broken else ("", [])
        if failing or not problem.broken:
            break
    else:
        raise LookupError(f"no change of {family.name} is a bug")
    shown_first = [test for test in tests if test in failing[:1] and problem.level <= 3]
    short = sorted((test for test in tests if test not in shown_first), key=lambda test: len(repr(test)))
    count = VISIBLE[problem.level - 1]
    # Half of the shortest, so that what is shown is small and does not cover all that the rest asks for.
    visible = (shown_first + rng.sample(short[: KEPT // 2], count))[:count]
    hidden = tuple(test for test in tests if test not in visible)
    text = filled(family.text, values)
    return Exercise(family.entry, text, solution, broken, tuple(visible), hidden)


def _tests(rng: random.Random, family: Family, solution: str) -> list[TestCase]:
    """Tests with as many different results as the inputs drawn have."""
    cases = [[MAKERS[kind](rng) for kind in family.inputs] for _ in range(DRAWN)]
    cases = [case for index, case in enumerate(cases) if case not in cases[:index]]
    tests = [
        TestCase(case, value)
        for case, value in zip(cases, mutations.results(solution, family.entry, cases), strict=True)
    ]
    occurrences: Counter[str] = Counter()
    order = []
    for test in tests:
        order.append(occurrences[repr(test.expected)])
        occurrences[repr(test.expected)] += 1
    return [test for _, test in sorted(zip(order, tests, strict=True), key=lambda pair: pair[0])][:KEPT]


def _broken(
    rng: random.Random, family: Family, solution: str, tests: Sequence[TestCase], bugs: int
) -> tuple[str, list[TestCase]]:
    """A program with so many bugs, each of which alone fails a test, and the tests that it fails; "" where none is."""
    order = list(range(mutations.count_changes(solution)))
    rng.shuffle(order)
    for fair in (3 * len(tests) // 4, len(tests)):  # of some programs every change fails most tests
        changes: list[int] = []
        failing: list[TestCase] = []
        for index in order:
            alone = _fails(family, solution, [index], tests, fair)
            together = alone and (_fails(family, solution, [*changes, index], tests, fair) if changes else alone)
            if together:
                changes, failing = [*changes, index], together
            if len(changes) == bugs:
                return mutations.mutated(solution, tuple(changes)), failing
    return "", []


def _fails(family: Family, solution: str, chosen: list[int], tests: Sequence[TestCase], fair: int) -> list[TestCase]:
    """The tests that a changed program fails; none if it does not end, or fails more than is fair."""
    try:
        values = mutations.results(solution, family.entry, [test.arguments for test in tests], chosen)
    except mutations.OutOfFuel:
        return []
    # By their look, so that True is not 1.
    failing = [test for test, value in zip(tests, values, strict=True) if repr(value) != repr(test.expected)]
    return failing if len(failing) <= fair else []


# showing and trying


def _equals(value: Any) -> str:
    return f"is {value}" if value is None or isinstance(value, bool) else f"== {value!r}"


def _call(name: str, arguments: Sequence[Any]) -> str:
    return f"{name}({', '.join(map(repr, arguments))})"


def _run_visible_tests(code: str, exercise: Exercise) -> list[str]:
    """What became of each visible test: empty if it passed, else what the program gave instead.

    Raises:
        SandboxError: the sandbox failed.
    """
    started = time.monotonic()
    for number in itertools.count():
        try:
            return _tried_once(code, exercise)
        except SandboxDied as died:  # somebody else may have killed it
            if not died.try_again(number, late=time.monotonic() - started > TOTAL_SECONDS):
                break
    return ["the program brought its sandbox down", *["not run"] * (len(exercise.visible) - 1)]


def _tried_once(code: str, exercise: Exercise) -> list[str]:
    outcomes: list[str] = []
    try:
        with shared().channel("calls", code, Limits(seconds=TOTAL_SECONDS)) as channel:
            answer = channel.ask({"op": "load"}, SECONDS)
            if "error" in answer:
                return [f"not run, the program fails before: {_error(answer)}"] * len(exercise.visible)
            for test in exercise.visible:
                outcomes.append(_outcome(channel, exercise, test))
    except (ProgramEnded, wire.NotPlain) as ended:
        late = getattr(ended, "reason", "") == "time_limit"
        outcomes.append("took too long" if late else "the program ended, or spoke out of turn")
    return outcomes + ["not run"] * (len(exercise.visible) - len(outcomes))


def _outcome(channel: Channel, exercise: Exercise, test: TestCase) -> str:
    """What is wrong with a test's first wrong value; "" if all are right."""
    is_class = exercise.form == "class"
    if is_class:
        answer = channel.ask({"op": "new", "name": exercise.entry, "args": []}, SECONDS)
        if "error" in answer:
            return f"{exercise.entry}() raised {_error(answer)}"
    for name, arguments, expected in exercise.calls(test):
        trees = [wire.encode(argument) for argument in arguments]
        message: dict[str, Any] = {"op": "method" if is_class else "call", "name": name, "args": trees, "kwargs": {}}
        if fault := _compared(channel.ask(message, SECONDS), expected):
            return f"{_call(name, arguments)} {fault}" if is_class else fault
    return ""


def _compared(answer: dict[str, Any], expected: Any) -> str:
    if "error" in answer:
        return f"raised {_error(answer)}"
    got = wire.check(answer.get("value"))
    if wire.same(wire.encode(expected), got, tolerance=0.0):
        return ""
    try:
        value = repr(wire.decode(got))
    except (ValueError, TypeError):  # an integer of thousands of digits, a set of lists
        value = "what cannot be shown"
    return f"gave {value[:MAX_SHOWN]}, not {expected!r}"


def _error(answer: dict[str, Any]) -> str:
    return f"{answer['error']}: {answer.get('message', '')}"[:MAX_SHOWN]


def _grade_hidden(code: str, exercise: Exercise) -> Verdict:
    """All tests again, the hidden ones too, in a fresh process."""
    rows = [exercise.row(test) for test in (*exercise.visible, *exercise.hidden)]
    reference = json.loads(json.dumps({"entry_point": exercise.entry, "tests": rows}))
    fenced = f"~~~~~~~~~~python\n{code}\n~~~~~~~~~~"
    return grade_code(fenced, reference, seconds=SECONDS, total_seconds=TOTAL_SECONDS)
