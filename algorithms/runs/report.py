"""The report of a run: one picture of the curve, and one HTML page that needs nothing else.

Transcripts, and all else that is read from the folder, are hostile: every value is escaped. What is shown stands in a
frame with ``sandbox``, in which scripts, forms, links out and a refresh by ``<meta>`` do nothing, under a policy that
forbids scripts and the network.
"""

from __future__ import annotations

import base64
import io
import math
import sys
from collections import Counter
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.evaluation.summary import read_causes
from rlvr.algorithms.runs.analysis import COLUMNS, analyse
from rlvr.algorithms.runs.hacking import signs_section
from rlvr.algorithms.runs.health import health
from rlvr.algorithms.runs.run_folder import RunFolderError, read_jsonl
from rlvr.envs.core.files import write_whole
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.terminal import printable

TRANSCRIPTS = 8  # episodes shown from before and after
MAX_CAUSES = 50  # of invalid episodes
WAYS = ("greedy", "sampled")
HACKS = ("hack rate", "clean success")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
FRAME = "html, body { height: 100%; margin: 0 } iframe { width: 100%; height: 100%; border: 0; display: block }"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
img { max-width: 100% }
table { border-collapse: collapse } td, th { padding: .2rem .8rem; text-align: left; border-bottom: 1px solid #ddd }
td { overflow-wrap: anywhere }
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
    evaluations = [record for record in metrics if record.get("phase") == "evaluation"]
    columns = []
    for name in ("before", "after"):
        episodes = read_episodes(folder / "episodes" / f"evaluation-{name}-greedy.jsonl")[:TRANSCRIPTS]
        columns.append(f"<div><h2>{name}</h2>{''.join(map(_transcript, episodes))}</div>")
    config = (folder / "config.yaml").read_text(encoding="utf-8")
    picture = base64.b64encode(curve.read_bytes()).decode()
    page = folder / "report.html"
    content = (
        f"<h1>{_shown(folder.name)}</h1><img alt='reward and success by step' src='data:image/png;base64,{picture}'>"
        f"{_complaints(metrics)}{_table(evaluations)}"
        f"<h2>Held-out episodes, greedy</h2><div class='columns'>{''.join(columns)}</div>"
        f"<h2>Invalid episodes by cause</h2>{_invalid(metrics)}"
        f"<h2>Episodes by file</h2>{_analysis(folder)}{signs_section(folder)}"
        f"<h2>Config</h2><pre>{_shown(config)}</pre>{_provenance(folder / 'provenance.jsonl')}"
    )
    inner = _document(folder.name, STYLE, content)
    frame = f'<iframe sandbox title="report" srcdoc="{escape(inner)}"></iframe>'
    write_whole(page, _document(folder.name, FRAME, frame))
    return page


def _document(title: str, style: str, body: str) -> str:
    """A page of HTML; the title is escaped here."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{_shown(title)}</title><style>{style}</style></head><body>{body}</body></html>"
    )


def draw_curve(metrics: list[dict[str, Any]], path: Path) -> None:
    """Reward of the sampled training episodes by step, and success on held-out tasks where it was measured.

    Where tools were called, a second panel shows how often.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    train = [record for record in metrics if record.get("phase") == "train"]
    evaluations = [record for record in metrics if record.get("phase") == "evaluation"]
    called = any(record.get("tool_calls") for record in train)
    figure = Figure(figsize=(7.2, 5.6 if called else 3.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1 + called, sharex=True, squeeze=False, height_ratios=[2, 1][: 1 + called])[:, 0]
    _lines(panels[0], train, evaluations, ("reward", "reward, sampled, train tasks"), ("success", "success"))
    for name, colour in zip(HACKS, ("#c00000", "#7a5ca8"), strict=True):
        rates = _values(train, name.replace(" ", "_"))
        if not all(map(math.isnan, rates)):
            panels[0].plot(_values(train, "step"), rates, color=colour, label=f"{name}, sampled, train tasks")
            panels[0].legend(loc="lower right", frameon=False)
    panels[0].set(ylim=(-0.02, 1.02))
    if called:
        _lines(panels[1], train, evaluations, ("tool_calls", "sampled, train tasks"), ("tool_calls", "tool calls"))
        panels[1].set(ylabel="tool calls an episode", ylim=(-0.05, None))
        panels[1].get_legend().remove()
    panels[-1].set(xlabel="reinforcement learning step")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": None})
    write_whole(path, drawn.getvalue())


def _lines(
    axes: Any,
    train: list[dict[str, Any]],
    evaluations: list[dict[str, Any]],
    trained: tuple[str, str],
    measured: tuple[str, str],
) -> None:
    """A figure of the training steps, and one of the evaluations, both ways; each with its name in the legend."""
    name, label = trained
    axes.plot(_values(train, "step"), _values(train, name), color="#3465a4", label=label)
    name, label = measured
    for way, colour, marker in zip(WAYS, ("#2a8a4a", "#b8502f"), "os", strict=True):
        axes.plot(
            _values(evaluations, "step"),
            _values(evaluations, f"{way}_{name}"),
            marker=marker,
            color=colour,
            linestyle=":",
            label=f"{label}, {way}, held out",
        )
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)


def _values(records: list[dict[str, Any]], name: str) -> list[float]:
    """A column of figures; null is NaN, which is not drawn.

    Raises:
        RunFolderError: a value is no number.
    """
    return [math.nan if record.get(name) is None else _number(record[name], name) for record in records]


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        raise RunFolderError(f"{name} must be a number, not {value!r:.80}")
    return float(value)


def _figure(record: dict[str, Any], name: str, digits: int = 0) -> str:
    """A figure as text that holds no markup."""
    value = record.get(name)
    return "" if value is None else escape(f"{_number(value, name):.{digits}f}")


def _complaints(metrics: list[dict[str, Any]]) -> str:
    """What was wrong with the run at its end; nothing where it was well."""
    return "".join(f"<p><b>At the end:</b> {_shown(text)}</p>" for text in health(metrics))


def _table(evaluations: list[dict[str, Any]]) -> str:
    shown = {
        f"{way} success{', all' * (over == '_all')}": f"{way}_success{over}" for way in WAYS for over in ("", "_all")
    }
    if any("sampled_hack_rate" in record for record in evaluations):
        shown |= {f"{way} {name}": f"{way}_{name.replace(' ', '_')}" for way in WAYS for name in HACKS}
    head = "".join(f"<th>{title}</th>" for title in ("evaluation", "step", "tasks", *shown))
    head = f"<tr>{head}</tr>"
    rows = (
        f"<tr><td>{_shown(str(record.get('name')))}</td><td>{_figure(record, 'step')}</td>"
        f"<td>{_figure(record, 'tasks')}</td>"
        f"{''.join(f'<td>{_figure(record, name, 3)}</td>' for name in shown.values())}</tr>"
        for record in evaluations
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _invalid(metrics: list[dict[str, Any]]) -> str:
    """The invalid episodes of the run by cause, in training and in evaluations."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for record in metrics:
        for way in ("", *(f"{way}_" for way in WAYS)):
            causes = record.get(f"{way}invalid_causes")
            for cause in read_causes(causes if isinstance(causes, list) else ()):
                counts[str(record.get("phase")), cause.status, cause.cause] += cause.episodes
    if not counts:
        return "<p>No episode is invalid.</p>"
    head = "<tr><th>phase</th><th>status</th><th>cause</th><th>episodes</th></tr>"
    rows = (
        f"<tr><td>{_shown(phase)}</td><td>{_shown(status)}</td><td>{_shown(cause)}</td><td>{count}</td></tr>"
        for (phase, status, cause), count in counts.most_common(MAX_CAUSES)
    )
    return f"<table>{head}{''.join(rows)}</table>"


def _analysis(folder: Path) -> str:
    """A row for each file of episodes; its columns are explained in docs/training.md."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("file", *COLUMNS))
    rows = (
        f"<tr><td>{_shown(name)}</td>{''.join(f'<td>{_short(value)}</td>' for value in figures)}</tr>"
        for name, figures in analyse(folder)
    )
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _provenance(path: Path) -> str:
    """What each start of the run was made with; nothing of a line that cannot be read."""
    starts = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else ():
        # A start may have been killed while it was written down.
        with suppress(ValueError):
            starts.append(load_json(line))
    return "<h2>Provenance</h2>" * bool(starts) + "".join(_start(start) for start in starts if isinstance(start, dict))


def _start(start: dict[str, Any]) -> str:
    parts: dict[str, dict[str, Any]] = {
        name: start[name] if isinstance(start.get(name), dict) else {} for name in ("versions", "seeds")
    }
    diff = start.get("diff") or ""
    lines = [
        f"{start.get('time')}: {start.get('command')}",
        f"commit {start.get('commit') or 'unknown'}{', with changes' if diff else ''}",
        ", ".join(f"{name} {value}" for name, value in parts["versions"].items()),
        f"Python {start.get('python')}, {start.get('machine')}",
        ", ".join(f"{name} {value}" for name, value in parts["seeds"].items()),
    ]
    changes = f"<details><summary>changes</summary><pre>{_shown(str(diff))}</pre></details>" if diff else ""
    return f"<pre>{_shown(chr(10).join(lines))}</pre>{changes}"


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _transcript(episode: Episode) -> str:
    verdict = episode.verdict
    status = verdict.status if verdict else "unfinished"
    turns_html = "".join(
        f"<div class='role'>{_shown(str(message['role']))}</div><pre>{_shown(str(message['content']))}</pre>"
        for message in episode.all_messages()
    )
    earned = _number(episode.reward, "the reward of an episode")
    reason = _shown(f"{status}, reward {earned:g}: {verdict.reason}" if verdict else str(status))
    kind = "correct" if episode.success else "other"
    return f"<div class='episode {kind}'>{turns_html}<div class='role'>{reason}</div></div>"


def _shown(text: str) -> str:
    """Text that can neither be markup nor steer what shows it: control and direction characters as escapes."""
    return escape(printable(text))
