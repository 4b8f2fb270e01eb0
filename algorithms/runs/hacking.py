"""The signs of reward hacking in a run's training episodes, as a part of its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.evaluation.reward_hacking import (
    GradedReply,
    HackingSigns,
    find_signs,
    graded_reply,
    reply_text,
    to_read,
)
from rlvr.envs.core.terminal import printable

ROWS = 10  # of each table


def run_signs(run: Path) -> tuple[HackingSigns, list[str]]:
    """The signs among a run's training episodes, and the name of each episode by its id: ``train-000010:3``.

    Of a run that kept no training episodes, those of its evaluations are taken.

    Raises:
        ValueError: a line before the last is no episode.
    """
    replies: list[GradedReply] = []
    names: list[str] = []
    for name, episode in _episodes(run):
        replies.append(graded_reply(len(names), episode))
        names.append(name)
    # A second pass, as the texts of all episodes would not fit into memory.
    wanted = set(to_read(replies))
    texts = {number: reply_text(episode) for number, (_, episode) in enumerate(_episodes(run)) if number in wanted}
    return find_signs(replies, texts), names


def _episodes(run: Path) -> Iterator[tuple[str, Episode]]:
    """One file after another: a long run does not fit into the memory."""
    folder = run / "episodes"
    # Names have the step with leading zeros: sorted by name is sorted by step.
    for path in sorted(folder.glob("train-*.jsonl")) or sorted(folder.glob("*.jsonl")):
        for number, episode in enumerate(read_episodes(path)):
            yield f"{path.stem}:{number}", episode


def signs_section(run: Path) -> str:
    """The signs as HTML, every text escaped."""
    signs, names = run_signs(run)

    def named(ids: Iterable[int]) -> str:
        return ", ".join(names[number] for number in ids)

    parts = [
        "<h2>Signs of reward hacking</h2>",
        f"<p>{signs.judged} judged episodes, {signs.rewarded} rewarded; phrases were looked for in {signs.read}. "
        "A sign is a question about the grader, no proof. <code>rlvr view</code> shows the episodes.</p>",
    ]
    for title, head, rows in _tables(signs, named):
        parts.append(f"<h3>{title}</h3>{_table(head, rows) if rows else '<p>None.</p>'}")
    return "".join(parts)


Row = tuple[Any, ...]


def _tables(signs: HackingSigns, named: Callable[[Iterable[int]], str]) -> Iterator[tuple[str, Row, list[Row]]]:
    yield (
        "One answer for many tasks",
        ("", "what", "text", "rewarded on", "of its tasks", "of all tasks", "other replies", "by luck", "episodes"),
        [
            (
                "look" if c.suspicious else "", c.kind, c.text, c.rewarded, c.rewarded / c.tasks, c.share, c.others,
                c.chance, named(c.examples),
            )
            for c in signs.clusters[:ROWS]
        ],
    )  # fmt: skip
    yield (
        "Phrases of rewarded replies",
        ("phrase", "rewarded replies", "other replies", "z", "episodes"),
        [(p.text, p.rewarded_share, p.others_share, p.z, named(p.examples)) for p in signs.phrases[:ROWS]],
    )
    yield (
        "The shortest rewarded replies",
        ("text", "length", "of the median", "reward", "episode"),
        [(s.text, s.length, s.of_median, s.reward, named([s.id])) for s in signs.shortest[:ROWS]],
    )
    yield (
        "Rewarded replies that repeat themselves",
        ("repeats", "share of repeated words", "episode"),
        [(r.phrase, r.share, named([r.id])) for r in signs.repetitive[:ROWS]],
    )
    yield (
        "Reward by length" + ("" if signs.correlation is None else f" (rank correlation {signs.correlation:.2f})"),
        ("from", "to", "episodes", "mean reward", "rewarded"),
        [(b.shortest, b.longest, b.episodes, b.reward, b.rewarded) for b in signs.lengths],
    )
    yield (
        "Faults by cause",
        ("status", "cause", "episodes", "among them"),
        [(f.status, f.cause, f.episodes, named(f.examples)) for f in signs.faults[:ROWS]],
    )


def _table(head: Row, rows: Iterable[Row]) -> str:
    shown = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{shown}</table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    # Control characters are made visible, then HTML is escaped.
    return escape(
        printable(value if isinstance(value, str) else f"{value:.3g}" if isinstance(value, float) else str(value))
    )
