"""Which recorded episodes are exported, and why the others are not."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlvr.adapters.export.foreign import NotAnEpisode, read_file
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.records import is_beside_episodes

TEST = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What an episode must be to be exported. None and () ask for nothing.

    Attributes:
        success: its verdict is a success.
        min_reward: the least return.
        envs: ids, of which one is its environment's.
        splits: it is of one of them. Without any, all but the test split: nobody trains on that unawares.
        levels: it is of one of them.
        max_turns: the most turns.
        max_tokens: the most tokens of the whole episode; one that was recorded without tokens is left out.
        best_of: of each task only the episode with the highest return; of equals, the shortest.
        dedupe: of episodes that say the same, word for word, only the first.
    """

    success: bool = False
    min_reward: float | None = None
    envs: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    max_turns: int | None = None
    max_tokens: int | None = None
    best_of: bool = False
    dedupe: bool = False

    def refuses(self, episode: Episode) -> str:
        """Why an episode by itself is left out, as the end of "12 …"; "" if it is not."""
        verdict = episode.verdict
        if verdict is None or not episode.turns:
            return "not finished or not graded"
        if not episode.valid:
            return f"{verdict.status}, which is no fault of the policy"
        if self.splits and episode.split not in self.splits:
            return f"not of split {' or '.join(self.splits)}"
        if not self.splits and episode.split == TEST:
            return "of the test split, which only --split test exports"
        if self.envs and episode.env_id not in self.envs:
            return f"not of {' or '.join(self.envs)}"
        if self.levels and episode.level not in self.levels:
            return f"not of level {' or '.join(map(str, self.levels))}"
        if self.success and not episode.success:
            return "without success"
        if self.min_reward is not None and not episode.reward >= self.min_reward:
            return f"with a reward below {self.min_reward:g}"
        if self.max_turns is not None and len(episode.turns) > self.max_turns:
            return f"with over {self.max_turns} turns"
        if self.max_tokens is not None and not len(episode.tokens):
            return "recorded without tokens, which --max-tokens counts"
        if self.max_tokens is not None and len(episode.tokens) > self.max_tokens:
            return f"with over {self.max_tokens} tokens"
        return ""


@dataclass(slots=True)
class Selection:
    """What was looked at: how many episodes were left out by each reason, and lines that hold no episode."""

    seen: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def take(self, episodes: Iterable[Episode], wanted: Filter) -> Iterator[Episode]:
        """The episodes that are wanted, in their order; the others are counted.

        With ``best_of`` one episode of each task is held in memory, and nothing is yielded before all are seen.
        """
        passing = self._passing(episodes, wanted)
        yield from self._best(passing) if wanted.best_of else passing

    def _passing(self, episodes: Iterable[Episode], wanted: Filter) -> Iterator[Episode]:
        digests: set[bytes] = set()
        for episode in episodes:
            self.seen += 1
            reason = wanted.refuses(episode)
            if not reason and wanted.dedupe:
                text = digest(episode)
                reason = "word for word as another" if text in digests else ""
                digests.add(text)
            if reason:
                self.left_out[reason] += 1
            else:
                yield episode

    def _best(self, episodes: Iterable[Episode]) -> Iterator[Episode]:
        best: dict[tuple[object, ...], tuple[tuple[float, ...], Episode]] = {}
        for episode in episodes:
            task, score = task_of(episode), _score(episode)
            if task not in best:
                best[task] = score, episode
                continue
            self.left_out["not the best of their task"] += 1
            if score > best[task][0]:
                best[task] = score, episode
        yield from (episode for _, episode in best.values())


def task_of(episode: Episode) -> tuple[object, ...]:
    """What two episodes of one task share: its coordinates, and what was asked, which other settings change."""
    first = episode.turns[0].observation if episode.turns else ""
    asked = json.dumps([episode.opening(), first])
    return (episode.env_id, episode.split, episode.level, episode.seed, episode.index, asked)


def _score(episode: Episode) -> tuple[float, ...]:
    """A higher return first, then fewer sampled tokens, then fewer characters."""
    characters = sum(len(turn.action) for turn in episode.turns)
    return episode.reward, float(episode.success), -float(episode.tokens.sampled), -float(characters)


def digest(episode: Episode) -> bytes:
    """The hash of all that an episode's messages say."""
    text = json.dumps([episode.messages(), episode.tools])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def episode_files(paths: Sequence[Path]) -> list[Path]:
    """The files of episodes that paths stand for: a JSONL file, a run's folder, or a folder of such files.

    Raises:
        FileNotFoundError: a path is not there, or holds no file of episodes.
    """
    all_files: list[Path] = []
    for path in paths:
        if path.is_dir():
            folder = path / "episodes" if (path / "episodes").is_dir() else path
            files = sorted(file for file in folder.glob("*.jsonl") if not is_beside_episodes(file))
            if not files:
                raise FileNotFoundError(f"{folder} holds no file of episodes (*.jsonl)")
            all_files += files
        elif path.is_file():
            all_files.append(path)
        else:
            raise FileNotFoundError(f"there is no file or folder {path}")
    return all_files


def read_all(files: Iterable[Path], selection: Selection) -> Iterator[Episode]:
    """The episodes of files, one at a time. A torn last line is left as it is, and noted; a log of another tool that is
    no episode is counted as left out.

    Raises:
        ValueError: a file, or another line, is none that is read here.
    """
    for path in files:
        for episode in read_file(path, selection.problems):
            if isinstance(episode, NotAnEpisode):
                selection.seen += 1
                selection.left_out[str(episode)] += 1
            else:
                yield episode
