"""Invalid episodes: how many there are, of what cause, and whether they gather in few tasks or in one tool.

An invalid episode enters no mean. So an agent that fares ill on hard tasks looks better for each of them that turns out
invalid; whoever reads a success must see how many were left out, and which.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rlvr.agents.episode import Episode
from rlvr.envs.core.verdict import PROVOKED
from rlvr.envs.tools.tool import FAULTY_TOOL

MAX_SHARE: Final = 0.01  # of invalid episodes, from which on there is a warning
MIN_GATHERED: Final = 3  # invalid episodes, below which nothing is said of where they are
MOST: Final = 0.8  # of the invalid episodes
FEW: Final = 0.2  # of the tasks
MAX_CAUSE: Final = 160  # characters
NO_FAULT: Final = "failed through no fault of the policy"
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InvalidCause:
    """Episodes of one status and one reason, the numbers in the reason left out: invalid ones, or provoked faults."""

    status: str
    cause: str
    episodes: int

    def __str__(self) -> str:
        return f"{self.episodes} {self.status}: {self.cause}"


def without_numbers(reason: str) -> str:
    """A reason on one line with # for each number, so that episodes of one cause have the same."""
    return _NUMBER.sub("#", " ".join(reason.split()))[:MAX_CAUSE]


def invalid_causes(episodes: Iterable[Episode]) -> tuple[InvalidCause, ...]:
    """The causes of the invalid episodes, the commonest first; an episode without a verdict is unfinished."""
    verdicts = (episode.verdict for episode in episodes if not episode.valid)
    counts = Counter((v.status, without_numbers(v.reason)) if v else ("unfinished", "") for v in verdicts)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(InvalidCause(status, cause, count) for (status, cause), count in ranked)


def provoked_causes(episodes: Iterable[Episode]) -> tuple[InvalidCause, ...]:
    """The causes of episodes that got 0 because the environment failed on what the policy wrote; they are valid."""
    verdicts = (episode.verdict for episode in episodes if episode.valid and episode.verdict is not None)
    counts = Counter((v.status, without_numbers(v.reason)) for v in verdicts if PROVOKED in v.reason)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(InvalidCause(status, cause, count) for (status, cause), count in ranked)


def gathered_in(episodes: Sequence[Episode], tasks: Sequence[Hashable]) -> tuple[str, ...]:
    """A sentence for each way in which the invalid episodes gather: in few tasks, or in one tool.

    Few tasks: at most a fifth of them hold four fifths of the invalid episodes, two each at least. One tool: the
    verdicts of half of the invalid episodes name it.

    Args:
        tasks: the task of each episode.
    """
    invalid = [(episode, task) for episode, task in zip(episodes, tasks, strict=True) if not episode.valid]
    if len(invalid) < MIN_GATHERED:
        return ()
    sentences = []
    by_task = [count for _, count in Counter(task for _, task in invalid).most_common()]
    in_all, share = len(set(tasks)), 0
    for few, count in enumerate(by_task, 1):
        share += count
        if share >= MOST * len(invalid):
            if few <= FEW * in_all and share >= 2 * few:
                sentences.append(f"{share} of the {len(invalid)} invalid episodes are of {few} of the {in_all} tasks")
            break
    names = (FAULTY_TOOL.match(episode.verdict.reason) for episode, _ in invalid if episode.verdict)
    for name, count in Counter(match[1] for match in names if match).most_common(1):
        if 2 * count >= len(invalid):
            sentences.append(f"{count} of the {len(invalid)} invalid episodes are faults of the tool {name}")
    return tuple(sentences)


def invalid_warning(invalid: int, episodes: int, valid_success: float, causes: Sequence[InvalidCause]) -> str:
    """One sentence where more than 1 % of the episodes are invalid; "" otherwise.

    Args:
        valid_success: success over the valid ones.
    """
    if not episodes or invalid <= MAX_SHARE * episodes:
        return ""
    over_all = valid_success * (episodes - invalid) / episodes
    text = f"{invalid} of {episodes} episodes ({invalid / episodes:.1%}) {NO_FAULT}: success is {valid_success:.3f} "
    text += f"over the valid ones, {over_all:.3f} over all"
    return text + (f"; most often {causes[0].status}: {causes[0].cause}" if causes else "")


def read_causes(records: Iterable[Any]) -> tuple[InvalidCause, ...]:
    """The causes that JSON holds; a part that is none is left out."""
    return tuple(
        InvalidCause(str(record["status"]), str(record.get("cause", "")), int(record["episodes"]))
        for record in records
        if isinstance(record, dict) and isinstance(record.get("episodes"), int) and "status" in record
    )
