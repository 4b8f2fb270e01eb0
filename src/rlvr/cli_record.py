"""The file that `rlvr eval` keeps its episodes in, and how far it is."""

from __future__ import annotations

import copy
import json
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.envs.core.files import make_folder, open_plain, write_whole
from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from rlvr.agents import Episode, Rollout
    from rlvr.agents.models.openai import Usage

FOLDER = Path("runs/eval")
VARIABLE = "RLVR_RESULTS"
LINE_SECONDS = 10.0  # between two lines on the progress, where there is no terminal

# Options of `rlvr eval` that change how long it takes, or how much of it there is, and no episode.
NOT_MEASURED = (
    "out", "episodes", "batch_size", "set", "concurrency", "deadline", "api_key_env", "json", "dry_run", "env", "price",
    "traceback", "allow_code", "new",
)  # fmt: skip


def new_record(what: str, agent: str) -> Path | None:
    """A new, empty file for the episodes of an evaluation, named after the time, what is played, and who plays.

    It is in the folder that the environment variable RLVR_RESULTS names, else in runs/eval. A folder that is made here
    has a .gitignore of its own. None where the variable is empty, or where nothing can be written, which is said.
    """
    named = os.environ.get(VARIABLE)
    if named == "":
        return None
    folder = FOLDER if named is None else Path(named)
    parts = (re.sub(r"[^A-Za-z0-9._+-]+", "_", part)[-60:].strip("._") for part in (what, agent))
    name = "-".join((time.strftime("%Y%m%d-%H%M%S"), *parts))
    try:
        if not folder.exists():
            make_folder(folder)
            write_whole(folder / ".gitignore", "*\n")
        for number in count(1):
            path = folder / (f"{name}.jsonl" if number == 1 else f"{name}-{number}.jsonl")
            with suppress(FileExistsError):
                open_plain(path, "x").close()
                return path
    except OSError as error:
        why = f"{folder}: {error.strerror or error}"
        print(f"rlvr: the episodes are not kept, {why}; --out FILE keeps them elsewhere", file=sys.stderr)
    return None


def remove_if_empty(record: Path) -> None:
    """Remove the file of `new_record`, and what is beside it, where no episode came."""
    if record.is_file() and not record.stat().st_size:
        record.unlink()
        options_beside(record).unlink(missing_ok=True)


def options_beside(record: Path) -> Path:
    """The file beside a record that says what was measured."""
    return record.with_name(record.name + ".options.json")


def same_evaluation(record: Path, options: dict[str, Any]) -> None:
    """Write what is measured beside the record; refuse to go on with a record of something else."""
    given = {name: str(value) for name, value in options.items() if name not in NOT_MEASURED}
    beside = options_beside(record)
    record.parent.mkdir(parents=True, exist_ok=True)
    if beside.exists():
        try:
            before = load_json(beside.read_text(encoding="utf-8"))
        except ValueError:
            before = None
        if not isinstance(before, dict) or "command" not in before:
            raise ValueError(f"{beside} does not hold the options of an evaluation: remove it, or give another --out")
        changed = sorted(
            name for name in {*before, *given} - {*NOT_MEASURED} if before.get(name, "None") != given.get(name, "None")
        )
        if changed and record.exists():
            raise ValueError(f"{record} was made with another {', '.join(changed)}: give another --out")
    write_whole(beside, json.dumps(given, indent=1))


class EvaluationProgress:
    """The new episodes of an evaluation, and a line on how far it is: one that is written anew on a terminal, and a new
    one every ten seconds elsewhere."""

    def __init__(self, rollout: Rollout, total: int, price: tuple[float, float] | None) -> None:
        from rlvr.agents.conversation import capability

        self.episodes: list[Episode] = []
        self._env_id, self._total, self._price = rollout.env_id, total, price
        self._usage: Usage | None = capability(rollout.agent, "usage")
        self.scripted = bool(capability(rollout.agent, "in_any_thread"))
        self._before = copy.copy(self._usage)
        self._live = getattr(sys.__stderr__, "isatty", bool)()
        self._began = time.monotonic()
        self._shown = 0.0 if self._live else self._began

    def usage(self) -> Usage | None:
        """What the endpoint has been asked for so far; None where there is none."""
        return self._usage.since(self._before) if self._usage is not None else None

    def spent(self) -> dict[str, Any]:
        """`usage` as plain JSON, with the cost where there is a price."""
        usage = self.usage()
        if usage is None:
            return {}
        cost = {"cost": usage.cost(self._price)} if self._price is not None else {}
        return {"usage": asdict(usage), **cost}

    def taken(self) -> dict[str, Any]:
        """The seconds that the new episodes took together, and how many there are; nothing of scripted play."""
        if not self.episodes or self.scripted:
            return {}
        return {"seconds": time.monotonic() - self._began, "new_episodes": len(self.episodes)}

    def take(self, episode: Episode) -> None:
        """Take in an episode that has ended."""
        self.episodes.append(episode)
        now = time.monotonic()
        if now - self._shown < (0.2 if self._live else LINE_SECONDS):
            return
        self._shown = now
        done, valid = len(self.episodes), [e for e in self.episodes if e.valid]
        right = sum(e.success for e in valid)
        share = f"{right / len(valid):.3f}" if valid else "unknown"
        faults = f" ({right / done:.3f} of all)  faults {done - len(valid)}" if done > len(valid) else ""
        left = (now - self._began) / done * (self._total - done)
        self._write(f"{self._env_id}  {done}/{self._total}  success {share}{faults}  {self._paid()}  {left:.0f} s left")

    def _paid(self) -> str:
        usage = self.usage()
        if usage is None:
            return f"{sum(e.tokens.sampled for e in self.episodes):,} tokens"
        cost = f"  cost {usage.cost(self._price):.2f}" if self._price is not None else ""
        return f"{usage.calls} calls  {usage.requests - usage.calls} again  {usage.completion_tokens:,} tokens{cost}"

    def clear(self) -> None:
        """Take the line away."""
        if self._live:
            self._write("")

    def _write(self, text: str) -> None:
        if sys.__stderr__ is not None:
            sys.__stderr__.write(f"\r\x1b[K{text[:110]}" if self._live else f"rlvr: {text}\n")
            sys.__stderr__.flush()
