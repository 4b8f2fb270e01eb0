"""Results of several agents as one table, a row for each and a column for each environment: Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.same_tasks import digest_notes
from rlvr.agents.evaluation.summary import Evaluation, TaskKey, summarise, task_of
from rlvr.envs.core.terminal import printable

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem }
table { border-collapse: collapse } td, th { padding: .3rem .8rem; border-bottom: 1px solid #8886 }
th { text-align: left } td { font-variant-numeric: tabular-nums } small { opacity: .7 }
"""


@dataclass(frozen=True, slots=True)
class ResultTable:
    """What several results amount to.

    Attributes:
        agents: the rows' names.
        envs: the columns' ids.
        cells: by agent and environment; none where there is no result.
        notes: what keeps two cells of a column from being compared, or one from being trusted, a sentence each.
    """

    agents: tuple[str, ...]
    envs: tuple[str, ...]
    cells: Mapping[tuple[str, str], Evaluation]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: a result for each agent and environment that has one, and the notes."""
        results = [{"agent": agent, "env": env, **cell.to_dict()} for (agent, env), cell in self.cells.items()]
        return {"agents": list(self.agents), "envs": list(self.envs), "results": results, "notes": list(self.notes)}

    def to_markdown(self, width: int | None = None) -> str:
        """A table of GitHub's Markdown, then the notes.

        Args:
            width: a table whose lines would have more characters has a row for each agent and environment.
        """
        rows = [
            ["agent", *self.envs],
            *([agent, *(self._text(agent, env) for env in self.envs)] for agent in self.agents),
        ]
        lines = ["| " + " | ".join(map(_markdown, row)) + " |" for row in rows]
        if width is not None and max(map(len, lines)) > width:
            rows = [["environment", "agent", "success"]]
            rows += [[env, agent, self._text(agent, env)] for env in self.envs for agent in self.agents]
            lines = ["| " + " | ".join(map(_markdown, row)) + " |" for row in rows]
        lines.insert(1, "|---" * len(rows[0]) + "|")
        notes = [EXPLAINED, *self.notes]
        return "\n".join([*lines, "", *(f"- {_markdown(note)}" for note in notes)]) + "\n"

    def to_html(self) -> str:
        """A page that needs nothing else and runs nothing."""
        head = "".join(f"<th>{_html(env)}</th>" for env in self.envs)
        rows = "".join(f"<tr><th>{_html(agent)}</th>{self._row(agent)}</tr>" for agent in self.agents)
        notes = "".join(f"<li>{_html(note)}</li>" for note in (EXPLAINED, *self.notes))
        return (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            "<meta name='viewport' content='width=device-width'>"
            f"<title>Results</title><style>{STYLE}</style></head><body><table><thead><tr><th>agent</th>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table><ul>{notes}</ul></body></html>\n"
        )

    def _row(self, agent: str) -> str:
        return "".join(f"<td>{_html(self._text(agent, env))}</td>" for env in self.envs)

    def _text(self, agent: str, env: str) -> str:
        result = self.cells.get((agent, env))
        if result is None:
            return "–"
        if not result.valid:
            return f"unknown, 0.000 of all, {_faults(result.episodes)}"
        text = f"{result.success:.3f} ({result.low:.3f} to {result.high:.3f})"
        if result.episodes == result.valid:
            return text
        return f"{text}, {result.success_all:.3f} of all, {_faults(result.episodes - result.valid)}"


EXPLAINED = (
    "success, and its 95 % interval, the samples of a task as one cluster; faults are episodes that failed through no "
    "fault of the agent and are not counted, except as failures in the success of all, which is the same without faults"
)


# Options of `rlvr eval` that say who plays and how often, and those that a scripted agent does not heed.
_WHO = frozenset("agent model vllm endpoint tool_messages options samples seed device dtype command".split())
_RUNNING = frozenset({"traceback", "allow_code"})
_SAMPLING = frozenset({"temperature", "max_new_tokens", "no_system"})


def setting_notes(results: Sequence[tuple[str, Mapping[str, object]]]) -> list[str]:
    """A sentence for each setting that is not the same in all results.

    Args:
        results: the name of each, and the options that `rlvr eval` wrote beside it.
    """
    notes = []
    for setting in sorted({name for _, options in results for name in options} - _WHO - _RUNNING):
        values: dict[str, list[str]] = {}
        for name, options in results:
            scripted = options.get("model", "None") == options.get("vllm", "None") == "None"
            if not (setting in _SAMPLING and scripted):
                value = str(options.get(setting, "None"))
                values.setdefault("not set" if value == "None" else value, []).append(name)
        if len(values) > 1:
            which = "; ".join(f"{value}: {', '.join(dict.fromkeys(names))}" for value, names in values.items())
            notes.append(f"{setting} was not the same in all results ({which}): they measured different things")
    return notes


def result_table(results: Sequence[tuple[str, Sequence[Episode]]], notes: Sequence[str] = ()) -> ResultTable:
    """The table of some results, each with its agent's name; several of one agent are one row.

    ``notes`` are added to those on tasks that differ, as `setting_notes` makes them.

    Raises:
        ValueError: there is no episode, or two results of one agent hold the same episode.
    """
    episodes: dict[tuple[str, str], dict[str, Episode]] = {}
    for agent, played in results:
        for episode in {episode.key: episode for episode in played}.values():  # of one played again the last
            cell = episodes.setdefault((agent, episode.env_id), {})
            if episode.key in cell:
                raise ValueError(f"two results of {agent} hold episode {episode.key}: give each a name, NAME=FILE")
            cell[episode.key] = episode
    if not episodes:
        raise ValueError("the results hold no episode")
    agents = tuple(dict.fromkeys(agent for agent, _ in results))
    envs = tuple(dict.fromkeys(env for _, env in episodes))
    cells = {name: summarise(list(cell.values())) for name, cell in episodes.items()}
    played_on = digest_notes([(agent, cell.values()) for (agent, _), cell in episodes.items()])
    doubts = (f"{agent} on {env}: {text}" for (agent, env), cell in cells.items() for text in cell.warnings)
    return ResultTable(agents, envs, cells, (*_notes(episodes, agents, envs), *played_on, *doubts, *notes))


def _notes(
    episodes: Mapping[tuple[str, str], Mapping[str, Episode]], agents: Sequence[str], envs: Sequence[str]
) -> list[str]:
    notes = []
    for env in envs:
        tasks: dict[frozenset[TaskKey], list[str]] = {}
        for agent in agents:
            if cell := episodes.get((agent, env)):
                tasks.setdefault(frozenset(map(task_of, cell.values())), []).append(agent)
        if len(tasks) > 1:
            groups = "; ".join(f"{', '.join(names)}: {len(played)} tasks" for played, names in tasks.items())
            notes.append(
                f"the tasks of {env} are not the same for all agents ({groups}): its column does not rank them"
            )
    return notes


def name_of(record: Path, options: object) -> str:
    """The name of a result's agent: as its options, which `rlvr eval` wrote beside it, say; else the file's."""
    agent = options.get("agent") if isinstance(options, dict) else None
    return agent if isinstance(agent, str) and agent else record.stem


def _faults(count: int) -> str:
    return "1 fault" if count == 1 else f"{count} faults"


def _markdown(text: str) -> str:
    """Text without markup of Markdown or HTML, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#~&!])", r"\\\1", printable(text).replace("\n", " "))


def _html(text: str) -> str:
    return escape(printable(text))
