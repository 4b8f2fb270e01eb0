"""Episodes in JSONL files: one a line. A last line without its end is torn, or is being written by somebody.

They are read from Parquet as well, where a column holds the line of each.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from pathlib import Path
from sys import intern
from typing import Any

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode, Turn
from rlvr.envs import Verdict
from rlvr.envs.core.files import make_folder, open_plain, write_whole
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.tables import scan_table

BEGINNING = b'{"env_id": '  # of a line that `Episode.to_dict` makes
BLOCK = 1 << 20  # bytes that are looked at to find the last line
COLUMN = "record"  # of Parquet, with each episode as its line of JSONL
BESIDE_EPISODES = ("metrics.jsonl", "timing.jsonl", "provenance.jsonl")


def is_beside_episodes(path: Path) -> bool:
    """Whether a JSONL file stands beside episodes: figures of a run, or the turns of an interrupted evaluation."""
    return path.name in BESIDE_EPISODES or path.name.endswith(".turns.jsonl")


def read_episodes(path: Path, kept: Callable[[Episode], Episode] = lambda episode: episode) -> list[Episode]:
    """The episodes of a file, as of `scan_episodes`.

    Args:
        kept: what to hold of each in memory; `figures_only` where texts and tokens are not asked for.
    """
    return list(map(kept, scan_episodes(path)))


def scan_episodes(path: Path) -> Iterator[Episode]:
    """The episodes of a file, one at a time: JSONL, or the Parquet of ``rlvr export``; none when there is no file.

    A torn last line is left out, and stays in the file.

    Raises:
        ValueError: a line before the last is not an episode, or the path is a folder or a device, or Parquet that
            holds something else or cannot be read.
    """
    if not path.exists():
        return
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a JSONL file of episodes in it")
    if path.is_char_device():  # reading /dev/full never ends
        raise ValueError(f"{path} is a device: name a JSONL file of episodes")
    if path.suffix == ".parquet":
        for number, row in enumerate(scan_table(path), 1):
            if not isinstance(row.get(COLUMN), str):
                raise ValueError(f"{path} holds no episodes: row {number} has no text in the column {COLUMN!r}")
            yield episode_of_record(record_of_line(row[COLUMN], number, path), number, path)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n") and line.strip():
                yield episode_of_record(record_of_line(line, number, path), number, path)


def figures_only(episode: Episode) -> Episode:
    """What `summarise`, `compare` and tables read of an episode, in about 1 kB. It is for reading alone: what equals
    another episode's is the same object.

    Texts and tokens are left out. Samples that say the same are counted, so the first action is a digest of all.
    """
    spoken = blake2b(digest_size=12)
    for turn in episode.turns:
        spoken.update(turn.action.encode(errors="surrogatepass") + b"\xff")
    turns = [_shared_turn(json.dumps(_figures_of_turn(turn))) for turn in episode.turns]
    if turns:
        turns[0] = replace(turns[0], action=spoken.hexdigest())
    return replace(
        _NOTHING,
        **{name: getattr(episode, name) for name in ("key", "seed", "group", "sample", "index", "level")},
        env_id=intern(episode.env_id),
        split=episode.split and intern(episode.split),
        tools=intern(episode.tools),
        env_digest=intern(episode.env_digest),
        turns=turns,
        tokens=_token_count(episode.tokens.sampled),
        verdict=episode.verdict and _shared_verdict(json.dumps(episode.verdict.to_dict())),
        agent=_shared_json(json.dumps(episode.agent)),
        usage=episode.usage or _NOTHING.usage,
    )


def _figures_of_turn(turn: Turn) -> dict[str, Any]:
    return Turn("", "", "", turn.stop, turn.reward, turn.verdict, flaw=turn.flaw).to_dict()


_NOTHING = Episode("", "", 0)
_shared_json = lru_cache(1_000)(json.loads)
_token_count = lru_cache(1_000)(lambda sampled: TokenSequence(mask=[sampled]))  # of which the sum is taken
_shared_turn = lru_cache(10_000)(lambda text: Turn.from_dict(json.loads(text)))
_shared_verdict = lru_cache(10_000)(lambda text: Verdict.from_dict(json.loads(text)))


def cut_torn_line(path: Path) -> None:
    """Cut off a torn last line, for whoever is about to append to the file.

    Raises:
        ValueError: the last line is not torn off an episode: somebody else wrote it, and it stays.
        OSError: the file is a link or no plain file, or cannot be written.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        end = length = file.seek(0, os.SEEK_END)
        torn = b""
        while end and b"\n" not in torn:  # backwards: a file may be larger than memory
            end = max(0, end - BLOCK)
            file.seek(end)
            torn = file.read(min(BLOCK, length - end - len(torn))) + torn
    torn = torn[torn.rfind(b"\n") + 1 :]
    if torn:
        if torn[: len(BEGINNING)] != BEGINNING[: len(torn)]:
            raise ValueError(f"the last line of {path} is no part of an episode, and is not cut off: give another file")
        with open_plain(path, "r+b") as file:
            file.truncate(length - len(torn))


def require_lines(path: Path) -> None:
    """Check that a file that lines are written to does not say that it is Parquet.

    Raises:
        ValueError: it does.
    """
    if path.suffix == ".parquet":
        raise ValueError(f"{path} would hold JSONL: name X.jsonl, and rlvr export --format parquet makes Parquet of it")


def write_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Write a JSONL file with one episode a line.

    Raises:
        ValueError: the path says that it is Parquet.
        OSError: the path is a link or no plain file, or cannot be written.
    """
    require_lines(path)
    with open_plain(path) as file:
        file.writelines(json.dumps(episode.to_dict()) + "\n" for episode in episodes)


def record_of_line(line: str | bytes, number: int, path: Path) -> Any:
    """The JSON of a line of a file.

    Raises:
        ValueError: it is none; the line's number and the file are named.
    """
    try:
        return load_json(line)
    except ValueError as error:
        raise ValueError(f"line {number} of {path} is not an episode: {error}") from error


def episode_of_record(record: Any, number: int, path: Path) -> Episode:
    """The episode of a line's JSON.

    Raises:
        ValueError: it is none; the line's number and the file are named.
    """
    try:
        if not isinstance(record, dict):
            raise ValueError("it is no JSON object")
        if not {"env_id", "turns"} & record.keys():
            raise ValueError(
                "it has neither env_id nor turns; logs of other tools are read by `rlvr view` and `rlvr export`"
            )
        return Episode.from_dict(record)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"line {number} of {path} is not an episode: {error}") from error


def results_folder() -> Path | None:
    """Where `new_record` makes its files; None where the variable RLVR_RESULTS is empty."""
    named = os.environ.get("RLVR_RESULTS")
    return None if named == "" else Path("runs/eval") if named is None else Path(named)


def new_record(what: str, agent: str) -> Path | None:
    """A new, empty file for the episodes of an evaluation, named after the time, what is played, and who plays.

    It is in the folder that the environment variable RLVR_RESULTS names, else in runs/eval. A folder that is made here
    has a .gitignore of its own. None where the variable is empty.

    Raises:
        OSError: nothing can be written there.
    """
    folder = results_folder()
    if folder is None:
        return None
    parts = (re.sub(r"[^A-Za-z0-9._+-]+", "_", part)[-60:].strip("._") for part in (what, agent))
    name = "-".join((time.strftime("%Y%m%d-%H%M%S"), *parts))
    if not folder.exists():
        make_folder(folder)
        write_whole(folder / ".gitignore", "*\n")
    numbers = count(1)
    while True:
        path = folder / (f"{name}.jsonl" if (number := next(numbers)) == 1 else f"{name}-{number}.jsonl")
        with suppress(FileExistsError):
            open_plain(path, "x").close()
            return path


def remove_if_empty(record: Path) -> None:
    """Remove the file of `new_record`, and what is beside it, where no episode came."""
    if record.is_file() and not record.stat().st_size:
        record.unlink()
        options_beside(record).unlink(missing_ok=True)


def options_beside(record: Path) -> Path:
    """The file beside a record that says what was measured."""
    return record.with_name(record.name + ".options.json")
