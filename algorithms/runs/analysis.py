"""What the episodes of a run were like, file by file: length by outcome, truncation, format, diversity, faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes

COLUMNS = (
    "episodes",
    "success",
    "tokens, right",
    "tokens, wrong",
    "truncated",
    "unparsable",
    "distinct in a group",
    "faults",
)


def analyse(run: Path) -> list[tuple[str, tuple[float | None, ...]]]:
    """For each file of episodes its name and `COLUMNS`; None where there is nothing to count.

    Shares are of the valid episodes: succeeded, with a reply that ran into a limit, with a last reply that was not
    understood. Tokens are means of the sampled ones, of characters where an agent deals in text alone. *Distinct in a
    group* is the mean share of different first actions among the samples of a group of two at least.

    Raises:
        ValueError: a line before the last is no episode.
    """
    files = sorted((run / "episodes").glob("*.jsonl"))
    return [(file.stem, _figures(read_episodes(file))) for file in files]


def _figures(episodes: Sequence[Episode]) -> tuple[float | None, ...]:
    valid = [episode for episode in episodes if episode.valid]
    right = [_length(episode) for episode in valid if episode.success]
    wrong = [_length(episode) for episode in valid if not episode.success]
    return (
        float(len(episodes)),
        _mean(episode.success for episode in valid),
        _mean(right),
        _mean(wrong),
        _mean(episode.hit_token_limit for episode in valid),
        _mean(episode.verdict is not None and episode.verdict.status == "unparsable" for episode in valid),
        _distinct(valid),
        float(len(episodes) - len(valid)),
    )


def _length(episode: Episode) -> int:
    return episode.tokens.sampled or sum(len(turn.action) for turn in episode.turns)


def _distinct(episodes: Sequence[Episode]) -> float | None:
    groups: dict[int, list[str]] = {}
    for episode in episodes:
        if episode.turns:
            groups.setdefault(episode.group, []).append(episode.turns[0].action)
    return _mean(len(set(actions)) / len(actions) for actions in groups.values() if len(actions) > 1)


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None
