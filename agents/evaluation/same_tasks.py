"""Whether episodes were played on the same tasks: the rows, settings and code of their environment, by its digest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlvr.agents.episode import Episode
from rlvr.envs.tasks.digests import PARTS, UNKNOWN, differing_parts, digest_parts

MEANING = {
    "rows": "equal seeds and indices name different questions",
    "settings": "they measured different things",
    "code": "a difference may be the environment's",
}


def digest_notes(results: Sequence[tuple[str, Iterable[Episode]]]) -> list[str]:
    """What keeps results from being compared, a sentence each: other rows, settings or code, digests not known, or
    tools that were native in one alone.

    Args:
        results: the name of each, and its episodes.
    """
    digests: dict[tuple[str, str | None], dict[str, dict[str, None]]] = {}
    native: dict[str, dict[bool, dict[str, None]]] = {}
    for name, episodes in results:
        for episode in episodes:
            native.setdefault(episode.env_id, {}).setdefault(bool(episode.tools), {})[name] = None
            digests.setdefault((episode.env_id, episode.split), {}).setdefault(episode.env_digest, {})[name] = None
    notes = [
        f"{env_id}: tools were native in {', '.join(ways[True])}, and not in {', '.join(ways[False])}"
        for env_id, ways in native.items()
        if len(ways) > 1
    ]
    for (env_id, split), names in digests.items():
        where = env_id if split is None else f"{env_id}, split {split}"
        for part in PARTS:
            values: dict[str, dict[str, None]] = {}
            for digest, those in names.items():
                values.setdefault(digest_parts(digest).get(part, UNKNOWN), {}).update(those)
            values.pop(UNKNOWN, None)
            if len(values) > 1:
                which = "; ".join(f"{', '.join(those)}: {value}" for value, those in values.items())
                notes.append(f"{where}: {part} {'differs' if part == 'code' else 'differ'} ({which}): {MEANING[part]}")
        if unknown := names.get(""):
            notes.append(
                f"{where}: digest unknown in {', '.join(unknown)}: nothing tells whether its rows were the same"
            )
    return notes


def refusal(before: str, now: str) -> str:
    """Why a record of episodes with the digest ``before`` is not gone on with; "" where it may be."""
    differing = [part for part in differing_parts(before, now) if part != "code"]
    if not differing:
        return ""
    return f"was played on other {' and other '.join(differing)} of the environment ({before}; now {now})"
