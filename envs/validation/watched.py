"""Validates a target in a process of its own, which may hang, crash, fork, print without end or eat memory: each is a
finding, and the validation ends within its minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rlvr.envs.endpoint import Endpoint
from rlvr.envs.sandbox.inside import kernel
from rlvr.envs.validation import CHECKS, ordered
from rlvr.envs.validation.clock import ProcessorWaits, listening
from rlvr.envs.validation.language_model import proposals
from rlvr.envs.validation.packages import package_checks
from rlvr.envs.validation.report import GROUPS, Check, CheckResult, Replay, ValidationReport
from rlvr.envs.validation.worker import PROCESSES, SIZE, CallTrace

CALL_SECONDS: Final = 60.0  # that one reset or step may take
SLOW: Final = 10.0  # seconds of a call that a target may well take: where fewer are left, it is not said to hang
MEMORY: Final = 4 << 30  # bytes of all processes of the target
OUTPUT: Final = 64 << 20  # bytes that it may print
POLL: Final = 0.2
STARTS: Final = 4  # how often the process is started again after it ended in a check
OVER: Final = "not run: the time was over"
BUSY: Final = 8  # how many times as long it may take on a machine that does other work
GRACE: Final = 10.0  # seconds after its minutes in which a worker may end by itself

BOUNDS: Final = Check(
    "runtime.resource_bounds",
    "Sound",
    "Every call returns, and none ends the process, forks without end, or takes more memory or output than is allowed.",
    20,
    "high",
    "Bound the time and memory of step by what an action can ask for, and never exit.",
)
PORTABLE: Final = Check(
    "semantic.verifier_portability",
    "Sound",
    "Another process, order, folder, time zone, locale and hour give the same episodes.",
    40,
    "high",
    "Read no clock, locale, folder, environment variable or order of a set.",
)


@dataclass(slots=True)
class Outcome:
    """What a worker sent, and how it ended."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False  # by itself, after its last message
    fault: str = ""  # what it did that a target may not, in words
    late: bool = False  # whether that is only that there was too little time
    call: dict[str, Any] = field(default_factory=dict)  # the replay of the call under way
    memory: int = 0  # most bytes at once
    started: int = 0  # of them, those of what it has started, as of a folder's server
    left: int = 0  # processes that were left behind
    waited: float = 0.0  # seconds in which it had no processor, or what it waited for had none

    def last(self, name: str) -> Any:
        """The value of the last message of this name; None without one."""
        return next((message[name] for message in reversed(self.messages) if name in message), None)


def validate_target(
    target: str,
    settings: Mapping[str, Any] | None = None,
    *,
    tasks: int | None = None,
    seed: int = 0,
    minutes: float = 5.0,
    checks: list[str] | None = None,
    endpoint: Endpoint | None = None,
    requests: int = 8,
) -> ValidationReport:
    """Run all checks on what ``target`` names (`rlvr.envs.validation.targets`), in processes that are watched.

    Args:
        target: what is validated.
        settings: given to whatever makes it.
        tasks: how many of each level.
        seed: which tasks.
        minutes: after which no check goes on; those of the language model come before.
        checks: ids; all by default.
        endpoint: of a language model that reads the source and proposes what would be paid without work.
        requests: of it, each of at most ``endpoint.max_tokens`` tokens.

    Raises:
        ValueError: the target names nothing, needs what is not installed or not allowed, or its source or the language
            model is not reached.
    """
    asked, took = _proposed(target, settings or {}, endpoint, requests) if endpoint is not None else ([], "")
    began, queued, started = time.monotonic(), 0.0, 0
    waiting = ordered() if checks is None else list(checks)
    report = ValidationReport(target, [])
    bounds = CheckResult(BOUNDS)
    request = {
        "do": "validate", "target": target, "settings": dict(settings or {}), "tasks": tasks, "seed": seed,
        "proposals": asked,
    }  # fmt: skip
    if took:
        report.assumed["language model"] = took
    for _ in range(STARTS):
        left = 60 * minutes - (time.monotonic() - began - queued)
        if left <= 1:
            break
        outcome = run_worker(
            {**request, "checks": waiting, "minutes": left / 60}, left + GRACE, min(CALL_SECONDS, left / 3)
        )
        queued += outcome.waited
        bounds.tries += 1
        bounds.measured["peak megabytes"] = max(bounds.measured.get("peak megabytes", 0), outcome.memory >> 20)
        started = max(started, outcome.started)
        _collect(report, outcome, waiting)
        if outcome.ended:
            if outcome.fault:
                bounds.add("ends", f"the target {outcome.fault}, which live on after the last check")
            break
        interrupted = next((m["begins"] for m in reversed(outcome.messages) if "begins" in m), None)
        if outcome.late:
            bounds.unfinished = f"the target {outcome.fault}: give it more minutes"
            report.results += [CheckResult(CHECKS[id][0], unfinished=bounds.unfinished) for id in waiting]
            waiting = []
            break
        queued += _judge(bounds, outcome, request, interrupted, min(20.0, max(2.0, left / 6)))
        if interrupted is None:
            report.results += [CheckResult(CHECKS[id][0], skipped="it does not start") for id in waiting]
            waiting = []
            break
        waiting = [id for id in waiting if id != interrupted]
        report.results.append(CheckResult(CHECKS[interrupted][0], unfinished=f"the target {outcome.fault}"))
        if interrupted == "runtime.startup":
            report.results += [CheckResult(CHECKS[id][0], skipped="it does not start") for id in waiting]
            waiting = []
        if not waiting:
            break
    else:
        report.results += [
            CheckResult(CHECKS[id][0], unfinished=f"not run: {STARTS} processes ended") for id in waiting
        ]
        waiting = []
    report.results += [CheckResult(CHECKS[id][0], unfinished=OVER) for id in waiting]
    report.results.append(bounds)
    report.seconds = time.monotonic() - began - queued
    if checks is None:
        report.results.append(_elsewhere(report, request, 60 * minutes - report.seconds))
        report.seconds += report.results[-1].seconds
        report.results += package_checks(Path(target), started) if Path(target).is_dir() else []
    report.results.sort(key=lambda result: GROUPS.index(result.check.group))
    return report


def _proposed(target: str, settings: Mapping[str, Any], endpoint: Endpoint, requests: int) -> tuple[Any, str]:
    outcome = run_worker({"do": "read", "target": target, "settings": dict(settings)}, CALL_SECONDS, CALL_SECONDS)
    _require_accepted(outcome)
    source = outcome.last("source")
    if not source:
        raise ValueError(f"a language model has nothing to read: the source of {target!r} is not there")
    return proposals(endpoint, source, requests)


def replayed(target: str, settings: Mapping[str, Any], replay: Replay) -> dict[str, Any]:
    """The transcript of a replay, played in a process of its own.

    Raises:
        ValueError: the target names nothing, or ends the process.
    """
    request = {"do": "replay", "target": target, "settings": dict(settings), "replays": [replay.to_dict()]}
    outcome = run_worker(request, 10 * CALL_SECONDS, CALL_SECONDS)
    _require_accepted(outcome)
    transcripts = outcome.last("transcripts")
    if not transcripts:
        raise ValueError(f"the target {outcome.fault or outcome.last('failed')}")
    return dict(transcripts[0])


def _require_accepted(outcome: Outcome) -> None:
    refused = outcome.last("refused")
    if refused is not None:
        raise ValueError(refused)


def _collect(report: ValidationReport, outcome: Outcome, waiting: list[str]) -> None:
    """Take what a worker has sent into the report."""
    results = [message["result"] for message in outcome.messages if "result" in message]
    if not results:
        _require_accepted(outcome)
    for record in results:
        report.results.append(CheckResult.from_dict(CHECKS[record["check"]][0], record))
        waiting.remove(record["check"])
    report.assumed |= outcome.last("assumed") or {}
    report.source_digest = outcome.last("source_digest") or report.source_digest
    report.played = outcome.last("played") or report.played
    failed = outcome.last("failed")
    if failed is not None:
        check = CHECKS["runtime.startup"][0]
        result = next((each for each in report.results if each.check.id == check.id), None) or CheckResult(check)
        begun = outcome.last("begins")
        where = f"it raises in check {begun}" if begun else "the environment cannot be made"
        result.add("makes", f"{where}: {failed}", severity="high")
        report.results = [each for each in report.results if each.check.id != check.id] + [result]
        report.results += [CheckResult(CHECKS[id][0], skipped="it does not start") for id in waiting if id != check.id]
        waiting.clear()
    elif outcome.left and outcome.ended:
        report.assumed["processes"] = f"{outcome.left} were left behind, and were ended"


def _judge(bounds: CheckResult, outcome: Outcome, request: dict[str, Any], check: str | None, seconds: float) -> float:
    """Add a finding for how the process ended, high where a second process ends so on the same call.

    Gives the seconds in which the second one had no processor.
    """
    call = outcome.call
    replay = Replay.from_dict(call) if "actions" in call and not call.get("cut") else None
    again = run_worker({**request, "do": "replay", "replays": [call] if replay else []}, 3 * seconds, seconds)
    alike = again.fault and all(again.call.get(key) == call.get(key) for key in ("seed", "actions"))
    severity = "high" if alike else "medium"
    where = (
        f"in {'step' if call.get('actions') else 'reset'} of seed {call.get('seed')}"
        if call.get("seed") is not None
        else "while it is made"
    )
    text = f"the target {outcome.fault} {where} (in check {check})"
    if not alike:
        text += "; a second process did not do so"
    bounds.add("ends", text, severity=severity, replay=replay)  # type: ignore[arg-type]
    return again.waited


def _elsewhere(report: ValidationReport, request: dict[str, Any], left: float) -> CheckResult:
    """Play a few episodes again in two other processes: alike, and in another folder, zone, locale and hour."""
    result = CheckResult(PORTABLE)
    if not report.played:
        result.skipped = "there are no episodes to play again"
        return result
    if left < 5:
        result.unfinished = OVER
        return result
    began = time.monotonic()
    asked = {
        **request,
        "do": "replay",
        "replays": report.played,
    }  # in the reverse order elsewhere: nothing may stay of the episodes before
    with tempfile.TemporaryDirectory() as elsewhere:
        target = request["target"]
        head, _, tail = target.rpartition(":")
        if head.endswith(".py"):
            target = f"{Path(head).resolve()}:{tail}"
        elif target.endswith(".py") or Path(target).exists():
            target = str(Path(target).resolve())
        settings = {name: _absolute(value) if name != "split" else value for name, value in request["settings"].items()}
        others = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "4711", "HOME": elsewhere}
        first = run_worker(asked, left, left / 3, {"PYTHONHASHSEED": "0"})
        second = run_worker(
            {**asked, "target": target, "settings": settings, "later": True, "replays": report.played[::-1]},
            left,
            left / 3,
            others,
            elsewhere,
        )
    result.seconds = time.monotonic() - began - first.waited - second.waited
    ours, theirs = first.last("transcripts"), second.last("transcripts")
    theirs = theirs[::-1] if theirs else theirs
    if ours is None or theirs is None:
        reason = second.fault or second.last("failed") or second.last("refused") or first.fault or "no answer"
        result.unfinished = f"it could not be played elsewhere: {reason}"
        return result
    for record, here, there in zip(report.played, ours, theirs, strict=True):
        result.tries += 1
        names = [
            name
            for name in ("observations", "rewards", "terminated", "truncated", "error")
            if here.get(name) != there.get(name)
        ]
        if names:
            text = f"seed {record['seed']} differs in {names[0]} elsewhere: {_differing(here, there, names[0])}"
            result.add("elsewhere", text, replay=Replay.from_dict(record))
            break
    return result


def _absolute(value: Any) -> Any:
    """A setting; where it is the path of a file or folder, as it is named from another folder."""
    return os.path.abspath(value) if isinstance(value, str) and value and os.path.exists(value) else value


def _differing(here: Mapping[str, Any], there: Mapping[str, Any], name: str) -> str:
    pairs = (
        zip(here[name], there[name], strict=False)
        if isinstance(here.get(name), list)
        else [(here.get(name), there.get(name))]
    )
    first, second = next(((a, b) for a, b in pairs if a != b), (here.get(name), there.get(name)))
    return f"{str(first)[:60]!r} and {str(second)[:60]!r}"


# processes


def run_worker(
    request: Mapping[str, Any],
    seconds: float,
    call_seconds: float,
    variables: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> Outcome:
    """Start a worker, and end it when it does what a target may not.

    Args:
        request: what it is to do.
        seconds: after which it is ended; waiting for a processor does not count, up to `BUSY` times as many.
        call_seconds: that one call may take, counted alike.
        variables: of its environment, beside ours.
        folder: in which it runs; ours, if left out.
    """
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as scratch, _adopting() as before:
        (Path(scratch) / "request.json").write_text(json.dumps(request), encoding="utf-8")
        (Path(scratch) / "trace").write_bytes(b"\0" * SIZE)
        trace = CallTrace(Path(scratch) / "trace")
        ours, theirs = os.pipe()
        command = [sys.executable, "-P", "-m", "rlvr.envs.validation.worker", scratch, str(theirs)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs,),
            start_new_session=True,
            env={**os.environ, **_absolute_folders(), **(variables or {})},
            cwd=folder,
        )
        os.close(theirs)
        try:
            queue = ProcessorWaits(process.pid, listening(json.dumps(request)))
            _listen(outcome, process, ours, trace, seconds, call_seconds, queue)
        finally:
            outcome.left = _end_all(process, before)
            if outcome.left > PROCESSES and not outcome.fault:
                outcome.fault = f"starts more than {PROCESSES} processes"
            os.close(ours)
    return outcome


def _absolute_folders() -> dict[str, str]:
    """``PYTHONPATH`` and ``RLVR_DATA`` as they are from every folder: a worker may run elsewhere."""
    folders = {name: os.environ.get(name, "").split(os.pathsep) for name in ("PYTHONPATH", "RLVR_DATA")}
    absolute = {name: [os.path.abspath(each) for each in parts if each] for name, parts in folders.items()}
    return {name: os.pathsep.join(parts) for name, parts in absolute.items() if parts}


def _listen(
    outcome: Outcome,
    process: Any,
    pipe: int,
    trace: CallTrace,
    seconds: float,
    call_seconds: float,
    queue: ProcessorWaits,
) -> None:
    began = time.monotonic()
    printed, pending, tail, next_look = 0, b"", b"", 0.0
    sources = {pipe: "pipe", process.stdout.fileno(): "output"}
    while True:
        readable, _, _ = select.select(list(sources), [], [], POLL)
        for number in readable:
            data = os.read(number, 1 << 16)
            if not data:
                del sources[number]
            elif sources[number] == "output":
                printed += len(data)
                tail = (tail + data)[-2_000:]
            else:
                *lines, pending = (pending + data).split(b"\n")
                outcome.messages += [json.loads(line) for line in lines]
        outcome.ended = bool(outcome.messages and "ended" in outcome.messages[-1])
        if outcome.ended:
            return
        now = time.monotonic()
        since, outcome.call = trace.read() if now >= next_look or pipe not in sources else (None, outcome.call)
        if process.poll() is not None and pipe not in sources:
            outcome.fault = _exit_in_words(process.returncode, tail)
            return
        if now < next_look:
            continue
        next_look = now + POLL
        members = family(process.pid)
        queue.look(members)
        trace.write_waits(queue.others)
        outcome.waited = queue.seconds
        sizes = [*map(resident, members[:PROCESSES])]
        if sum(sizes) > MEMORY:
            sizes = [*map(own_memory, members[:PROCESSES])]
        memory, outcome.started = sum(sizes), max(outcome.started, sum(sizes[1:]))
        outcome.memory = max(outcome.memory, memory)
        if since is not None and now - outcome.waited - since > call_seconds:
            outcome.fault, outcome.late = f"does not return within {call_seconds:.0f} s", call_seconds < SLOW
        elif len(members) > PROCESSES:
            outcome.fault = f"starts more than {PROCESSES} processes"
        elif memory > MEMORY:
            outcome.fault = f"takes more than {MEMORY >> 20} MB of memory"
        elif printed > OUTPUT:
            outcome.fault = f"prints more than {OUTPUT >> 20} MB"
        elif now - began - outcome.waited > seconds or now - began > BUSY * seconds:
            outcome.fault, outcome.late = "does not end in time", True
        if outcome.fault:
            return


def _exit_in_words(status: int, tail: bytes) -> str:
    last = tail.decode("utf-8", "replace").strip().rpartition("\n")[2][:120]
    printed = f", and last printed {last!r}" if last else ""
    if status < 0:
        return f"ends its process by {signal.Signals(-status).name}{printed}"
    return f"ends its process with status {status}{printed}"


@contextlib.contextmanager
def _adopting() -> Iterator[set[int]]:
    """Within, orphans of what is started become children of this process; gives the children that there were."""
    with contextlib.suppress(OSError):
        kernel.become_subreaper()
    yield set(process_tree().get(os.getpid(), []))


def _end_all(process: Any, before: set[int]) -> int:
    """Kill the worker and all that came of it, and reap it; how many processes there were beside it."""
    others: set[int] = set()
    for _ in range(50):
        process.poll()  # which reaps it
        tree = process_tree()
        alive = set(descendants(set(tree.get(os.getpid(), [])) - before, tree))
        others |= alive - {process.pid}
        if not alive:
            break
        for number in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        for number in alive - {process.pid}:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(number, os.WNOHANG)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    process.stdout.close()
    return len(others)


def process_tree() -> dict[int, list[int]]:
    """By its number, what each process has started that lives."""
    tree: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                text = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace")
                tree.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry))
    return tree


def descendants(numbers: Iterable[int], tree: Mapping[int, list[int]]) -> Iterator[int]:
    """Processes and all that came of them."""
    waiting = list(numbers)
    while waiting:
        each = waiting.pop()
        yield each
        waiting += tree.get(each, [])


def family(number: int) -> list[int]:
    """A process and all that came of it: as the kernel lists them, in a tenth of the time that all processes take."""
    found = [number]
    for each in found:
        try:
            for task in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{task}/children", "rb") as file:
                    found += map(int, file.read().split())
        except ProcessLookupError:
            continue
        except FileNotFoundError:  # it has ended, or this kernel lists none
            if os.path.exists(f"/proc/{each}"):
                return list(descendants([number], process_tree()))
    return found


def resident(number: int) -> int:
    """Bytes of memory that a process holds, shared pages among them; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{number}/statm").read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def own_memory(number: int) -> int:
    """As `resident`, of shared pages its part: the kernel takes milliseconds to count that."""
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    except (OSError, StopIteration):
        return 0
