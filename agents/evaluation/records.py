"""Episodes in JSONL files: one a line. A last line without its end is torn, or is being written by somebody."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from rlvr.agents.episode import Episode
from rlvr.envs.core.files import open_plain
from rlvr.envs.core.json_text import load_json

BEGINNING = b'{"env_id": '  # of a line that `Episode.to_dict` makes
BESIDE_EPISODES = ("metrics.jsonl", "timing.jsonl", "provenance.jsonl")


def is_beside_episodes(path: Path) -> bool:
    """Whether a JSONL file stands beside episodes: figures of a run, or the turns of an interrupted evaluation."""
    return path.name in BESIDE_EPISODES or path.name.endswith(".turns.jsonl")


def read_episodes(path: Path) -> list[Episode]:
    """The episodes of a JSONL file; none when there is no file. A torn last line is left out, and stays in the file.

    Raises:
        ValueError: a line before the last is not an episode, or the path is a folder.
    """
    if not path.exists():
        return []
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a JSONL file of episodes in it")
    whole = path.read_bytes().split(b"\n")[:-1]
    return [episode_of_line(line, number, path) for number, line in enumerate(whole, 1) if line.strip()]


def cut_torn_line(path: Path) -> None:
    """Cut off a torn last line, for whoever is about to append to the file.

    Raises:
        ValueError: the last line is not torn off an episode: somebody else wrote it, and it stays.
        OSError: the file is a link or no plain file, or cannot be written.
    """
    if not path.exists():
        return
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        torn = content[content.rfind(b"\n") + 1 :]
        if torn[: len(BEGINNING)] != BEGINNING[: len(torn)]:
            raise ValueError(f"the last line of {path} is no part of an episode, and is not cut off: give another file")
        with open_plain(path, "r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


def write_episodes(path: Path, episodes: Iterable[Episode]) -> None:
    """Write a JSONL file with one episode a line.

    Raises:
        OSError: the path is a link or no plain file, or cannot be written.
    """
    with open_plain(path) as file:
        file.writelines(json.dumps(episode.to_dict()) + "\n" for episode in episodes)


def episode_of_line(line: bytes, number: int, path: Path) -> Episode:
    """The episode that a line of a JSONL file holds.

    Raises:
        ValueError: it holds none; the line's number and the file are named.
    """
    try:
        record = load_json(line)
        if not isinstance(record, dict):
            raise ValueError("it is no JSON object")
        return Episode.from_dict(record)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"line {number} of {path} is not an episode: {error}") from error
