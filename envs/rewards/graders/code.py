"""Code: does the program do what the tests say? Expected values never enter the process that runs the program.

The program runs in the sandbox (``rlvr.envs.sandbox``) and is asked for values, one question at a time under a fresh
nonce; they come back as strict JSON and are compared here. What it prints and what it claims decide nothing, and one
word out of turn makes the whole run 0. Where its output is judged, an exit code other than 0 fails the test. Where
tests are code of the data set (HumanEval, MBPP), that code runs in a second sandbox that holds the expected values but
never the program. Forms of a row:

- calls: ``{"entry_point": "f", "tests": [{"args": [1, 2], "kwargs": {}, "expected": 3}, …]}``; an entry point
  ``"Solution.f"`` makes a new ``Solution()`` for each call, or calls ``f`` where there is no such class. ``any_of`` in
  the place of ``expected`` lists several right values.
- class: ``{"tests": [{"calls": [["Stack", []], ["push", [1]], ["pop", []]], "expected": [None, None, 1]}, …]}``.
- standard input and output: ``{"tests": [{"stdin": "2 3\\n", "stdout": "5\\n"}, …]}``.
- APPS, LiveCodeBench, SYNTHETIC-1: as published (``code_rows``).
- HumanEval (arXiv 2107.03374): ``{"prompt", "entry_point", "test"}``.
- MBPP (arXiv 2108.07732): ``{"test_list", "test_setup_code", "test_imports", "challenge_test_list"}``.
"""

from __future__ import annotations

import itertools
import re
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rlvr.envs.core.verdict import Status, Verdict, unparsable, wrong
from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.extraction import MAX_COMPLETION_CHARS, visible_text
from rlvr.envs.rewards.graders.code_imports import imports_for
from rlvr.envs.rewards.graders.code_rows import normalized_row
from rlvr.envs.sandbox import (
    Limits,
    Result,
    Sandbox,
    SandboxDied,
    SandboxError,
    SandboxStarved,
    SandboxUnavailable,
    shared,
)
from rlvr.envs.sandbox.inside import wire
from rlvr.envs.sandbox.running import OutOfTurn, ProgramEnded
from rlvr.envs.sandbox.sandbox import Channel

MAX_CODE_CHARS: Final = 100_000
# Possessive, and bounded: a hostile line is read once.
_STATEMENT = re.compile(r"[=(]|^[ \t]{0,40}+(?:return|yield|pass|raise|import|from|def|class)\b", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}+(`{3,40}+|~{3,40}+)[ \t]{0,8}+([\w+-]{0,40}+)[^\n`]{0,200}+$", re.MULTILINE)
_PYTHON = ("", "python", "py", "python3")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?")


@dataclass(frozen=True, slots=True)
class _Options:
    scoring: Literal["all", "fraction"]
    seconds: float
    total_seconds: float
    memory_mb: int
    tolerance: float
    strict_sequences: bool
    compare: Literal["lines", "tokens"]

    def __post_init__(self) -> None:
        if self.scoring not in ("all", "fraction"):
            raise BadOption(f"scoring must be 'all' or 'fraction', got {self.scoring!r}")
        if self.compare not in ("lines", "tokens"):
            raise BadOption(f"compare must be 'lines' or 'tokens', got {self.compare!r}")
        if not 0 <= self.tolerance < 1:
            raise BadOption(f"tolerance must be in [0, 1), got {self.tolerance!r}")
        try:
            self.limits(self.total_seconds), self.limits(self.seconds)
        except (ValueError, TypeError) as error:
            raise BadOption(str(error)) from None

    def limits(self, seconds: float) -> Limits:
        return Limits(seconds=seconds, memory_mb=self.memory_mb)

    def same(self, expected: wire.Tree, got: wire.Tree) -> bool:
        return wire.same(expected, got, tolerance=self.tolerance, strict_sequences=self.strict_sequences)


class _Outcome:
    """What became of each test, and why the first one failed."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}
        self.reason = ""
        self.cheated = False

    def note(self, name: str, reason: str = "") -> None:
        """Record a test; an empty reason means that it passed."""
        self.passed[name] = not reason
        if reason and not self.reason:
            self.reason = f"{name}: {reason}"

    def cheat(self) -> None:
        self.cheated, self.reason = True, "the program spoke out of turn on the channel of its grader"

    def verdict(self, code: str, scoring: str) -> Verdict:
        held = sum(self.passed.values())
        share = held / len(self.passed) if self.passed and not self.cheated else 0.0
        parts = {name: float(ok and not self.cheated) for name, ok in self.passed.items()}
        if share == 1.0 and not self.reason:
            return Verdict(1.0, "correct", code, f"all {held} tests pass", parts)
        reason = f"{held} of {len(self.passed)} tests pass; {self.reason}"[:500]
        if scoring == "fraction" and share > 0.0:
            return Verdict(min(share, 1.0), "partial", code, reason, parts)
        return Verdict(0.0, "wrong", code, reason, parts)


_Runner = Callable[[str, Sandbox, _Options], _Outcome]


def grade_code(
    completion: str,
    reference: Mapping[str, Any],
    *,
    scoring: Literal["all", "fraction"] = "all",
    seconds: float = 6.0,
    total_seconds: float = 60.0,
    memory_mb: int = 512,
    tolerance: float = 1e-9,
    strict_sequences: bool = False,
    compare: Literal["lines", "tokens"] = "lines",
    sandbox: Sandbox | None = None,
) -> Verdict:
    """Run a model's program against tests.

    Args:
        completion: the reply; its last Python block counts (the last one that defines the entry point, if any
            does), or all of it where there is no block. For HumanEval a bare function body continues the prompt.
        reference: the tests, in one of the forms above.
        scoring: ``all`` pays 1 for all tests and 0 for less; ``fraction`` pays the share of tests that pass.
        seconds: for each test, of the program's own time (``Limits.seconds``); a program over it is wrong, not excused.
        total_seconds: for all tests of a program together.
        memory_mb: address space of each of its processes.
        tolerance: how far floats may differ, relatively or absolutely; 0 for not at all. Integers are exact, and
            no type stands in for another: not True for 1, not 1 for 1.0.
        strict_sequences: refuse a tuple where a list is expected (JSON rows cannot say which they mean).
        compare: standard output by ``lines`` (blanks at ends of lines and blank last lines do not count) or by
            ``tokens`` (all white space is equal, and numbers with a point may differ by ``tolerance``).
        sandbox: where to run; the shared one by default.

    Returns:
        A verdict with one part for each test; a sandbox that fails, or a row of no use, gives ``verifier_error``, and a
        machine too busy to let the program spend its time ``timeout``.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine.
        BadOption: an option has a value that makes no sense.
    """
    options = _Options(scoring, seconds, total_seconds, memory_mb, tolerance, strict_sequences, compare)
    try:
        prepare, runner, entry = _problem(reference)
    except BadReference as error:
        return Verdict(0.0, "verifier_error", reason=str(error)[:300])
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        return Verdict(0.0, "verifier_error", reason=f"the row has none of the forms: {error}"[:300])
    if len(completion) > MAX_COMPLETION_CHARS:
        return wrong(None, f"the reply is over the cap of {MAX_COMPLETION_CHARS:,} characters")
    code = extract_code(completion, entry)
    if code is None:
        return unparsable("the reply holds no program")
    if len(code) > MAX_CODE_CHARS:
        return wrong(None, f"the program is over the cap of {MAX_CODE_CHARS:,} characters")
    program = prepare(code)
    where, started = sandbox or shared(), time.monotonic()
    try:
        for number in itertools.count():
            try:
                return runner(program, where, options).verdict(code, scoring)
            except SandboxDied as died:
                if not died.try_again(number, late=time.monotonic() - started > total_seconds):
                    break
    except SandboxUnavailable:
        raise
    except (SandboxError, BadReference, OSError) as error:
        return sandbox_fault(error, answer=code)
    return wrong(code, "the program was killed or brought its sandbox down, again and again")


def sandbox_fault(error: Exception, status: Status = "verifier_error", answer: str | None = None) -> Verdict:
    """The invalid verdict for a sandbox that failed: ``timeout`` where the machine was too busy, else ``status``."""
    if isinstance(error, SandboxStarved):
        return Verdict(0.0, "timeout", answer, str(error)[:300])
    return Verdict(0.0, status, answer, f"{type(error).__name__}: {error}"[:300])


# --- the program -----------------------------------------------------------------------------------------


def extract_code(completion: str, entry_point: str | None = None) -> str | None:
    """The program of a reply, or None: its last Python block that defines the entry point, else its last Python
    block, else (where there is no block at all) everything that is visible, if a statement of Python may be there."""
    text = visible_text(completion)
    blocks = _blocks(text)
    if not blocks:
        return text.rstrip() if _STATEMENT.search(text) and not _FENCE.search(text) else None
    if entry_point:
        defining = [block for block in blocks if defines(block, entry_point)]
        blocks = defining or blocks
    return blocks[-1] if blocks[-1].strip() else None


def _blocks(text: str) -> list[str]:
    """Fenced Python blocks; one that is never closed runs to the end."""
    blocks, opened = [], None
    for match in _FENCE.finditer(text):
        fence, language = match.group(1), match.group(2)
        if opened is None:
            opened = (fence, language, match.end() + 1)
        elif not language and fence[0] == opened[0][0] and len(fence) >= len(opened[0]):
            if opened[1].lower() in _PYTHON:
                blocks.append(text[opened[2] : max(opened[2], match.start())])
            opened = None
    if opened is not None and opened[1].lower() in _PYTHON:
        blocks.append(text[opened[2] :])
    return blocks


def defines(code: str, name: str) -> bool:
    """Whether code binds a name at its top level, by the look of it: hostile text is not parsed here."""
    head = re.escape(name.partition(".")[0])
    return re.search(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{head}\b|^{head}[ \t]*=", code, re.MULTILINE) is not None


def _continued(prompt: str, entry_point: str) -> Callable[[str], str]:
    def prepare(code: str) -> str:
        if defines(code, entry_point):
            return f"{prompt}\n\n{code}"
        first = next((line for line in code.splitlines() if line.strip()), "")
        body = code if first[:1] in (" ", "\t") else textwrap.indent(code, "    ")
        return prompt + ("" if prompt.endswith("\n") else "\n") + body + "\n"

    return prepare


# --- rows ------------------------------------------------------------------------------------------------


def _problem(row: Mapping[str, Any]) -> tuple[Callable[[str], str], _Runner, str | None]:
    """How to make the program of a row, how to run its tests, and the name the program must define."""
    row = normalized_row(row)
    if "test" in row:
        entry, prompt = _text(row, "entry_point"), _text(row, "prompt", "")
        judged = _Judged(prompt, _text(row, "test"), entry)
        return (_continued(prompt, entry) if prompt else str), judged.run, entry
    if "test_list" in row:
        asserts = [*row["test_list"], *row.get("challenge_test_list", ())]
        setup = "\n".join([*row.get("test_imports", ()), _text(row, "test_setup_code", "")])
        return str, _Judged(setup, "\n".join(asserts), row.get("entry_point")).run, row.get("entry_point")
    tests: Sequence[Any] = row.get("tests") or ()
    if not tests or not all(isinstance(test, Mapping) for test in tests):
        raise BadReference("a row needs 'tests', 'test', 'test_list' or 'inputs' and 'outputs', and at least one test")
    if "stdout" in tests[0]:
        return str, _Streams(tests).run, None
    if "calls" in tests[0]:
        return str, _Asked([_class_case(test) for test in tests], with_imports=True).run, None
    entry = _text(row, "entry_point")
    cases = [_call_case(test, entry) for test in tests]
    return str, _Asked(cases, with_imports="." in entry).run, entry


def _text(row: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = row.get(key, default)
    if not isinstance(value, str):
        raise BadReference(f"{key!r} must be text, got {value!r}"[:200])
    return value


# One test as questions: the message to send, and the trees of which one is expected (none of them: any value will do).
_Case = list[tuple[dict[str, Any], list[wire.Tree]]]


def _trees(values: Sequence[Any]) -> list[wire.Tree]:
    try:
        return [wire.encode(value) for value in values]
    except (wire.NotPlain, TypeError) as error:
        raise BadReference(f"a test holds what cannot be sent: {error}") from None


def _call_case(test: Mapping[str, Any], entry: str) -> _Case:
    if "expected" not in test and not test.get("any_of"):
        raise BadReference(f"a test needs 'expected', got only {sorted(test)}")
    kwargs = test.get("kwargs", {})
    named = dict(zip(kwargs, _trees(list(kwargs.values())), strict=True))
    message = {"op": "call", "name": entry, "args": _trees(test.get("args", ())), "kwargs": named}
    return [(message, _trees(test["any_of"] if "any_of" in test else [test["expected"]]))]


def _class_case(test: Mapping[str, Any]) -> _Case:
    calls, expected = test["calls"], test.get("expected", ())
    if not calls or len(calls) != len(expected):
        raise BadReference(f"{len(calls)} calls but {len(expected)} expected values")
    case: _Case = []
    for number, ((name, args), value) in enumerate(zip(calls, expected, strict=True)):
        message = {"op": "method" if number else "new", "name": name, "args": _trees(args)}
        case.append((message, _trees([value]) if number else []))
    return case


# --- function and class problems -------------------------------------------------------------------------


class _Asked:
    """Tests that are questions with known answers: the answers stay here.

    Args:
        cases: the tests.
        with_imports: whether the program may use customary names that it does not import.
    """

    def __init__(self, cases: list[_Case], with_imports: bool) -> None:
        self._cases, self._with_imports = cases, with_imports

    def run(self, code: str, sandbox: Sandbox, options: _Options) -> _Outcome:
        outcome, done = _Outcome(), 0
        while done < len(self._cases) and not outcome.cheated:
            # A program that ended takes its process with it; the tests behind it get a new one.
            done = self._run_from(done, code, sandbox, options, outcome)
            if outcome.reason and options.scoring == "all":
                break
        for number in range(done, len(self._cases)):
            outcome.note(f"test {number}", "not run after the failure before it")
        return outcome

    def _run_from(self, start: int, code: str, sandbox: Sandbox, options: _Options, outcome: _Outcome) -> int:
        """Run tests in one process until it ends or they do; returns the number of the first test not run."""
        number = start
        try:
            imports = imports_for(code) if self._with_imports else ""
            limits = options.limits(options.total_seconds)
            with sandbox.channel("calls", code, limits, imports=imports) as channel:
                failed = _load(channel, options)
                for number in range(start, len(self._cases)):
                    outcome.note(f"test {number}", failed or _ask(channel, self._cases[number], options))
                    if outcome.reason and options.scoring == "all":
                        break
                if not channel.hang_up():
                    outcome.cheat()
        except OutOfTurn:
            outcome.cheat()
        except ProgramEnded as ended:
            outcome.note(f"test {number}", _ending(ended))
        return number + 1


def _load(channel: Channel, options: _Options) -> str:
    """Run the program's top level; the reason why it failed, if it did."""
    answer = channel.ask({"op": "load"}, options.seconds)
    return f"the program fails before the tests: {_error(answer)}" if "error" in answer else ""


def _ask(channel: Channel, case: _Case, options: _Options) -> str:
    for message, expected in case:
        answer = channel.ask(message, options.seconds)
        if "error" in answer:
            return f"{message['name']} raised {_error(answer)}"
        try:
            got = wire.check(answer.get("value"))
        except wire.NotPlain:
            raise OutOfTurn("killed") from None
        if expected and not any(options.same(tree, got) for tree in expected):
            return f"{message['name']} returned something else"
    return ""


def _error(answer: Mapping[str, Any]) -> str:
    text = f"{answer['error']}: {answer.get('message', '')}"[:200]
    return "".join(c if c.isprintable() else " " for c in text)


def _ending(ended: ProgramEnded) -> str:
    return "the program ended" if ended.reason == "killed" else ended.reason.replace("_", " ")


# --- standard input and output ---------------------------------------------------------------------------


class _Streams:
    """Tests that are texts: each one is a run of its own."""

    def __init__(self, tests: Sequence[Mapping[str, Any]]) -> None:
        self._tests = [(_stream(test, "stdin", ""), _stream(test, "stdout")) for test in tests]

    def run(self, code: str, sandbox: Sandbox, options: _Options) -> _Outcome:
        outcome, left = _Outcome(), options.total_seconds
        for number, (stdin, stdout) in enumerate(self._tests):
            if (outcome.reason and options.scoring == "all") or left <= 0:
                outcome.note(f"test {number}", "not run after the failure before it" if left > 0 else "time limit")
                continue
            result = sandbox.run_python(code, stdin, limits=options.limits(min(options.seconds, left)))
            left -= result.seconds - result.held_seconds
            if result.ok:
                same = _same_output(stdout, result.stdout, options)
                outcome.note(f"test {number}", "" if same else f"the output is not the expected one{_last(result)}")
            elif result.status == "error":
                outcome.note(f"test {number}", f"the program failed with exit code {result.exit_code}{_last(result)}")
            else:
                outcome.note(f"test {number}", result.status.replace("_", " "))
        return outcome


def _stream(test: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = test.get(key, default)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else _text(test, key, default)


def _last(result: Result) -> str:
    """The last line of the program's errors, in brackets."""
    last = (result.stderr.strip().splitlines() or [""])[-1]
    return f" ({last[:200]})" if last else ""


def _same_output(expected: str, got: str, options: _Options) -> bool:
    if options.compare == "lines":
        return _lines(expected) == _lines(got)
    wanted, printed = expected.split(), got.split()
    return len(wanted) == len(printed) and all(
        w == g or _close(w, g, options.tolerance) for w, g in zip(wanted, printed, strict=True)
    )


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _close(expected: str, got: str, tolerance: float) -> bool:
    if "." not in expected or len(got) > 64 or not _NUMBER.fullmatch(expected) or not _NUMBER.fullmatch(got):
        return False
    return wire.same(float(expected), float(got), tolerance=tolerance)


# --- tests that are code ---------------------------------------------------------------------------------


class _Judged:
    """Tests that are code with assertions: a second sandbox runs them, and its calls are passed on from here."""

    def __init__(self, setup: str, test: str, entry_point: str | None) -> None:
        self._fields = {"test": test, "entry_point": entry_point}
        self._setup = setup

    def run(self, code: str, sandbox: Sandbox, options: _Options) -> _Outcome:
        outcome = _Outcome()
        limits = options.limits(options.total_seconds)
        with (
            sandbox.channel("calls", code, limits) as candidate,
            sandbox.channel("referee", self._setup, limits, wait=False, **self._fields) as referee,
        ):
            relay = _Relay(candidate, options, outcome)
            done = _judge(referee, relay)
            if relay.alive and not outcome.cheated and not candidate.hang_up():
                outcome.cheat()
        if done is not None:
            _count(done, relay, outcome)
        return outcome


def _judge(referee: Channel, relay: _Relay) -> Mapping[str, Any] | None:
    """Carry calls to the candidate and values back until the tests are done; None if a cheat ends it before."""
    message: dict[str, Any] = {"op": "load"}
    try:
        while True:
            answer = referee.ask(message)
            if "done" in answer:
                return answer
            message = relay.call(answer)
            if relay.outcome.cheated:
                return None
    except ProgramEnded as ended:
        if not relay.calls:
            raise SandboxError(f"the row's own tests do not run: {_ending(ended)}") from None
        # The tests broke a limit on values that the candidate gave them: bombs must not pay.
        relay.outcome.note("tests", relay.ended or f"{_ending(ended)} while the tests looked at its values")
        return None


class _Relay:
    """The candidate's side of judged tests."""

    def __init__(self, candidate: Channel, options: _Options, outcome: _Outcome) -> None:
        self._candidate, self._options, self.outcome = candidate, options, outcome
        self.calls, self.values, self.alive, self.ended, self.raised = 0, 0, True, "", ""
        self._loaded = False

    def call(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the candidate; what it answered, in the words that the referee understands."""
        if "call" not in wanted:  # the arguments are over the limit of a message
            return self._over_limit(wanted)
        self.calls += 1
        if not self.alive:
            return {"error": "CandidateFailed"}
        try:
            return self._ask(wanted)
        except OutOfTurn:
            self.outcome.cheat()
        except ProgramEnded as ended:
            self.ended = _ending(ended)
        self.alive = False
        return {"error": "CandidateFailed"}

    def _over_limit(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What the tests are told in place of a value that they cannot have asked for.

        Raises:
            BadReference: the candidate has given no value yet, so that the arguments are the row's own.
        """
        if not self.values:
            raise BadReference(f"the row's own arguments are too large: {_error(wanted)}")
        self.raised = self.raised or "the tests pass on a value that is too large to be sent"
        return {"error": "CandidateFailed"}

    def _ask(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        if not self._loaded:
            self._loaded = True
            self.ended = _load(self._candidate, self._options)
            if self.ended:
                self.alive = False
                return {"error": "CandidateFailed"}
        message = {"op": "call", "name": wanted["call"], "args": wanted["args"], "kwargs": wanted["kwargs"]}
        answer = self._candidate.ask(message, self._options.seconds)
        if "error" in answer:
            self.raised = self.raised or f"{wanted['call']} raised {_error(answer)}"
            return {"error": str(answer["error"])[:100]}
        try:
            value = wire.check(answer.get("value"))
        except wire.NotPlain:
            raise OutOfTurn("killed") from None
        self.values += 1
        return {"value": value}


def _count(done: Mapping[str, Any], relay: _Relay, outcome: _Outcome) -> None:
    """Turn what the referee found into tests passed and failed."""
    fault = str(done.get("fault") or "")
    if fault and (not relay.values or fault.endswith("is not plain data")):  # a type is the row's, a size its program's
        raise BadReference(fault)
    if not done.get("total"):
        raise BadReference("the row's tests assert nothing")
    for number, held in done["done"]:
        outcome.note(f"test {number}", "" if held is True else relay.raised or "the assertion does not hold")
    failure = relay.ended or fault or done.get("error") or ("" if done["done"] else "no assertion was reached")
    if failure:
        outcome.note("all tests run", str(failure))
