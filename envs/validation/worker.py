"""The process in which a target is validated: `python -m rlvr.envs.validation.worker`, started by `watched`.

It reads a request from a file, and writes lines of JSON to a pipe; what is under way stands in a shared file.
"""

from __future__ import annotations

import datetime
import json
import mmap
import os
import struct
import sys
import time
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any, Final

from rlvr.envs.validation import validate
from rlvr.envs.validation.clock import OTHERS, now
from rlvr.envs.validation.report import CheckResult, Replay
from rlvr.envs.validation.source import source_text
from rlvr.envs.validation.subject import ApiFault, NotApplicable, Subject, in_order
from rlvr.envs.validation.suites import end_servers
from rlvr.envs.validation.targets import resolve

SIZE: Final = 1 << 16
HEAD: Final = struct.Struct("<?dI")  # whether a call is under way, since when, and the length of its replay
WAITS: Final = struct.Struct("<d")  # at the end, by the parent: seconds that others of the target had no processor
ROOM: Final = SIZE - HEAD.size - WAITS.size  # for the replay
PROCESSES: Final = 64  # that a target may have at once
LATER: Final = 40 * 86_400.0 + 5 * 3_600.0  # seconds that the other clock is ahead


class CallTrace:
    """The call under way, in a file that the parent reads."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)
        self.written, self.length = Replay(None), 0  # what stands there, and where it ends; 0 where it is cut

    def __call__(self, replay: Replay | None) -> None:
        """A call begins, or none is under way any more."""
        if replay is None:
            while _children() > PROCESSES:  # until the parent sees them: it looks from time to time
                time.sleep(0.1)
            self.memory[0] = 0
            return
        actions, before = replay.actions, self.written
        goes_on = actions[:-1] == before.actions and (replay.seed, replay.options) == (before.seed, before.options)
        start, text = 0, b""
        if not (goes_on and actions):
            text = json.dumps(replay.to_dict()).encode()
        elif self.length:  # the last action alone: the whole at each turn grows with the square of the turns
            start = self.length - len("]}")
            text = f"{', ' * (len(actions) > 1)}{json.dumps(actions[-1])}]}}".encode()
        self.written, self.length = replay, start + len(text)
        if not text or self.length > ROOM:
            record = {**replay.to_dict(), "actions": [each[:1_000] for each in actions[-1:]], "cut": True}
            start, text, self.length = 0, json.dumps(record).encode(), 0
        self.memory[HEAD.size + start : HEAD.size + start + len(text)] = text
        self.memory[: HEAD.size] = HEAD.pack(True, now(), start + len(text))

    def read(self) -> tuple[float | None, dict[str, Any]]:
        """Since when the call has been under way, None where none is; and its replay."""
        under_way, since, length = HEAD.unpack(self.memory[: HEAD.size])
        try:
            replay = json.loads(self.memory[HEAD.size : HEAD.size + min(length, ROOM)] or b"{}")
        except ValueError:
            replay = {}
        return since if under_way else None, replay

    def write_waits(self, seconds: float) -> None:
        """How long those that the worker waits for had no processor, as the parent counts it."""
        self.memory[SIZE - WAITS.size :] = WAITS.pack(seconds)

    def read_waits(self) -> float:
        """What the parent has last written."""
        return float(WAITS.unpack(self.memory[SIZE - WAITS.size :])[0])


def _children() -> int:
    """How many processes this one has started and not yet reaped; 0 where the kernel does not list them."""
    try:
        tasks = os.listdir("/proc/self/task")
        return sum(len(Path(f"/proc/self/task/{task}/children").read_bytes().split()) for task in tasks)
    except OSError:
        return 0


def main() -> None:
    """Answer one request."""
    folder, pipe = Path(sys.argv[1]), int(sys.argv[2])
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))

    def send(**message: Any) -> None:
        data = json.dumps(message, default=str).encode("utf-8", "replace") + b"\n"
        while data:
            data = data[os.write(pipe, data) :]

    trace = CallTrace(folder / "trace")
    OTHERS.append(trace.read_waits)
    if request.get("later"):
        _shift_clock(LATER)
    trace(Replay(None))
    try:
        target = resolve(request["target"], request["settings"])
        if request["do"] == "validate":
            _validate(request, target, trace, send)
        elif request["do"] == "read":
            env = target.make()
            send(source=source_text(type(getattr(env.unwrapped, "task", env.unwrapped))))
            env.close()
        else:
            send(transcripts=_replayed(request, target, trace))
    except (ValueError, ImportError, OSError) as error:
        send(refused=" ".join(str(error).split()))
    except BaseException as error:
        send(failed=f"{type(error).__name__}: {' '.join(str(error).split())}"[:400])
    trace(None)
    end_servers()
    send(ended=True)


def _validate(request: dict[str, Any], target: Any, trace: CallTrace, send: Any) -> None:
    def done(result: CheckResult) -> None:
        send(result=result.to_dict())

    def begins(id: str) -> None:
        send(begins=id)

    report = validate(
        target.make,
        tasks=request["tasks"],
        seed=request["seed"],
        minutes=request["minutes"],
        checks=request["checks"],
        name=target.name,
        make_split=target.make_split,
        proposals=request.get("proposals", ()),
        watch=trace,
        begins=begins,
        done=done,
    )
    send(assumed=report.assumed, source_digest=report.source_digest, played=report.played)


def _replayed(request: dict[str, Any], target: Any, trace: CallTrace) -> list[Any]:
    """The transcripts of replays, each on a new environment."""
    from rlvr.envs.validation.subject import TaskRef

    subject = Subject(target.make, target.name, watch=trace)
    transcripts: list[Any] = []
    for record in request["replays"]:
        replay = Replay.from_dict(record)
        try:
            episode = subject.fresh(TaskRef(replay.seed or 0, replay.options), in_order(replay.actions))
        except (ApiFault, NotApplicable) as error:
            transcripts.append({"error": str(error)})
            continue
        transcripts.append(
            {
                "observations": episode.observations,
                "rewards": episode.rewards,
                "terminated": episode.terminated,
                "truncated": episode.truncated,
                "error": episode.error,
                "info": {key: str(value)[:500] for key, value in episode.last.items()},
            }
        )
    subject.close()
    return transcripts


def _shift_clock(seconds: float) -> None:
    """Let the target's code see a later time of day; the interpreter's own clocks stay."""
    real_time, real_ns, shift = time.time, time.time_ns, datetime.timedelta(seconds=seconds)

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return super().now(tz) + shift

        @classmethod
        def today(cls) -> Any:
            return super().today() + shift

        @classmethod
        def utcnow(cls) -> Any:
            return super().now(datetime.UTC).replace(tzinfo=None) + shift

    class LaterDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return super().today() + shift

    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)
    real = datetime.datetime, datetime.date
    datetime.datetime, datetime.date = Later, LaterDate  # type: ignore[misc]

    def with_real_classes(load: Any) -> Any:
        """A compiled module that reads datetime while it is loaded counts on the layout of its classes."""

        def loading(*args: Any) -> Any:
            before = datetime.datetime, datetime.date
            datetime.datetime, datetime.date = real  # type: ignore[misc]
            try:
                return load(*args)
            finally:
                datetime.datetime, datetime.date = before  # type: ignore[misc]

        return loading

    for name in ("create_module", "exec_module"):
        setattr(ExtensionFileLoader, name, with_real_classes(getattr(ExtensionFileLoader, name)))


if __name__ == "__main__":
    main()
