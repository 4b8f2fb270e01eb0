"""What the episodes of a run were like, file by file: length by outcome, truncation, reflection, diversity, faults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes

COLUMNS = (
    "episodes",
    "success",
    "success, all",
    "tokens, right",
    "tokens, wrong",
    "truncated",
    "unparsable",
    "distinct in a group",
    "reflect",
    "success, reflecting",
    "success, not",
    "difference in a group",
    "faults",
)

# The words of arXiv 2503.20783, and "wait".
REFLECTION = re.compile(
    r"\b(?:wait|re-?(?:check|think|assess|evaluat|examin|consider|analy[sz])\w*|double[- ]check\w*"
    r"|(?:check|think|verify) again|go over the steps)\b",
    re.IGNORECASE,
)


def analyse(run: Path) -> list[tuple[str, tuple[float | None, ...]]]:
    """For each file of episodes its name and `COLUMNS`; None where there is nothing to count.

    Shares are of the valid episodes: succeeded, with a reply that ran into a limit, with a last reply that was not
    understood. *Success, all* is of all episodes, an invalid one as a failure. Tokens are means of the sampled
    ones, of characters where an agent deals in text alone. *Distinct in a group* is the mean share of different
    first actions among the samples of a group of two at least. An episode reflects if an action has one of the
    words of `REFLECTION`; *difference in a group* is the success of those that do less that of those that do not,
    mean over the groups that have both: hard tasks make a policy reflect, so that the difference between all of
    them says nothing of what reflection brings.

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
        _mean(episode.success for episode in episodes),
        _mean(right),
        _mean(wrong),
        _mean(episode.hit_token_limit for episode in valid),
        _mean(episode.verdict is not None and episode.verdict.status == "unparsable" for episode in valid),
        _distinct(valid),
        *_reflection(valid),
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


def _reflection(episodes: Sequence[Episode]) -> tuple[float | None, ...]:
    """Share that reflects, success of those and of the others, and the mean difference within a group."""
    reflects = [any(REFLECTION.search(turn.action) for turn in episode.turns) for episode in episodes]
    groups: dict[int, tuple[list[bool], list[bool]]] = {}
    for episode, does in zip(episodes, reflects, strict=True):
        groups.setdefault(episode.group, ([], []))[does].append(episode.success)
    without, among = ([success for sides in groups.values() for success in sides[side]] for side in (0, 1))
    # A group is one task, so that its difficulty is the same on both sides.
    paired = (sum(a) / len(a) - sum(b) / len(b) for b, a in groups.values() if a and b)
    return _mean(reflects), _mean(among), _mean(without), _mean(paired)


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else None
