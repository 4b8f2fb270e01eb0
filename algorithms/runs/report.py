"""The report of a run: one picture of the curve, and one HTML page that needs nothing else.

Transcripts are written by policies and are hostile: everything is escaped, and the page forbids scripts.
"""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.scripted import printable
from rlvr.algorithms.runs.run_folder import read_jsonl

TRANSCRIPTS = 8  # episodes shown from before and after
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
img { max-width: 100% }
table { border-collapse: collapse } td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #ddd }
pre { background: #f6f6f4; padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 }
.columns { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem }
.correct { border-left: 4px solid #2a8a4a } .other { border-left: 4px solid #b8502f }
.episode { padding-left: .6rem; margin-bottom: 1rem } .role { color: #777; font-size: 12px }
"""


def write_report(folder: Path) -> Path:
    """Write ``curve.png`` and ``report.html`` from what a run folder holds; returns the page."""
    metrics = read_jsonl(folder / "metrics.jsonl")
    curve = folder / "curve.png"
    draw_curve(metrics, curve)
    evaluations = [record for record in metrics if record["phase"] == "evaluation"]
    columns = []
    for name in ("before", "after"):
        episodes = read_episodes(folder / "episodes" / f"evaluation-{name}-greedy.jsonl")[:TRANSCRIPTS]
        columns.append(f"<div><h2>{name}</h2>{''.join(map(_transcript, episodes))}</div>")
    config = (folder / "config.yaml").read_text(encoding="utf-8")
    picture = base64.b64encode(curve.read_bytes()).decode()
    page = folder / "report.html"
    page.write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(folder.name)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(folder.name)}</h1><img alt='reward and success by step' src='data:image/png;base64,{picture}'>"
        f"{_table(evaluations)}<h2>Held-out episodes, greedy</h2><div class='columns'>{''.join(columns)}</div>"
        f"<h2>Config</h2><pre>{escape(config)}</pre></body></html>",
        encoding="utf-8",
    )
    return page


def draw_curve(metrics: list[dict[str, Any]], path: Path) -> None:
    """Reward of the sampled training episodes by step, and success on held-out tasks where it was measured.

    Where tools were called, a second panel shows how often.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    train = [record for record in metrics if record["phase"] == "train"]
    evaluations = [record for record in metrics if record["phase"] == "evaluation"]
    called = any(record.get("tool_calls") for record in train)
    figure = Figure(figsize=(7.2, 5.6 if called else 3.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1 + called, sharex=True, squeeze=False, height_ratios=[2, 1][: 1 + called])[:, 0]
    _lines(panels[0], train, evaluations, ("reward", "reward, sampled, train tasks"), ("success", "success"))
    panels[0].set(ylim=(-0.02, 1.02))
    if called:
        _lines(panels[1], train, evaluations, ("tool_calls", "sampled, train tasks"), ("tool_calls", "tool calls"))
        panels[1].set(ylabel="tool calls an episode", ylim=(-0.05, None))
        panels[1].get_legend().remove()
    panels[-1].set(xlabel="reinforcement learning step")
    figure.savefig(path, metadata={"Software": None})


def _lines(
    axes: Any,
    train: list[dict[str, Any]],
    evaluations: list[dict[str, Any]],
    trained: tuple[str, str],
    measured: tuple[str, str],
) -> None:
    """A figure of the training steps, and one of the evaluations, both ways; each with its name in the legend."""
    name, label = trained
    axes.plot([record["step"] for record in train], [record[name] for record in train], color="#3465a4", label=label)
    name, label = measured
    for way, colour, marker in (("greedy", "#2a8a4a", "o"), ("sampled", "#b8502f", "s")):
        axes.plot(
            [record["step"] for record in evaluations],
            [record[f"{way}_{name}"] for record in evaluations],
            marker=marker,
            color=colour,
            linestyle=":",
            label=f"{label}, {way}, held-out tasks",
        )
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)


def _table(evaluations: list[dict[str, Any]]) -> str:
    head = "<tr><th>evaluation</th><th>step</th><th>tasks</th><th>greedy success</th><th>sampled success</th></tr>"
    rows = (
        f"<tr><td>{escape(record['name'])}</td><td>{record['step']}</td><td>{record['tasks']}</td>"
        f"<td>{record['greedy_success']:.3f}</td><td>{record['sampled_success']:.3f}</td></tr>"
        for record in evaluations
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _transcript(episode: Episode) -> str:
    verdict = episode.verdict
    status = verdict.status if verdict else "unfinished"
    said = "".join(
        f"<div class='role'>{_shown(message['role'])}</div><pre>{_shown(message['content'])}</pre>"
        for message in episode.messages()
    )
    reason = _shown(f"{status}, reward {episode.reward:g}: {verdict.reason}" if verdict else status)
    kind = "correct" if episode.success else "other"
    return f"<div class='episode {kind}'>{said}<div class='role'>{reason}</div></div>"


def _shown(text: str) -> str:
    """Text that can neither be markup nor steer what shows it: control and direction characters as escapes."""
    return escape(printable(text))
