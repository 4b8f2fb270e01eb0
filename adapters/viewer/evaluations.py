"""Evaluations as the viewer shows them: what `rlvr eval`, `table` and `compare` say of the episodes of a source.

The index keeps of each episode what these count, without its texts; from it an `Episode` is made that they take as they
take a whole one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.light import light_episode
from rlvr.adapters.viewer.traces import mapping_of
from rlvr.agents import Episode
from rlvr.agents.evaluation.compare import compare
from rlvr.agents.evaluation.records import options_beside
from rlvr.agents.evaluation.suites import score_suite
from rlvr.agents.evaluation.summary import Evaluation, TaskKey, samples_by_task, summarise
from rlvr.agents.evaluation.table import result_table, setting_notes
from rlvr.envs.core.json_text import load_json

MAX_AGENTS = 20  # that are named of a source
MAX_TASKS = 500  # gained or lost, that are named
MAX_SOURCES = 8  # side by side


class Evaluations:
    """What the sources of an index amount to.

    Args:
        index: the episodes.
    """

    def __init__(self, index: EpisodeIndex) -> None:
        self._index = index
        self._episodes: dict[str, tuple[Any, dict[str, Episode]]] = {}  # by source: their state, and by lasting id
        self._working = threading.Lock()  # who asks for figures that are being worked out waits for these

    def listed(self) -> list[dict[str, Any]]:
        """Each source with its figures, those without an episode too."""
        return [self._row(source.name, source.folder is not None) for source in self._index.sources]

    def page(self, name: str) -> dict[str, Any]:
        """One source: who played, with which settings, and the figures of all episodes and of each environment.

        Raises:
            KeyError: there is no such source.
        """
        return {
            **self._row(name, self._source(name).folder is not None),
            "agents": self._agents(name),
            "options": self._options(name),
            **self._figures(name),
        }

    def prepare(self, stopped: Callable[[], bool]) -> None:
        """Work out the figures of the sources that have none yet, so that the first who opens one need not wait."""
        for source in self._index.sources:
            if not stopped() and not self._index.has_figures(source.name):
                self._figures(source.name)

    def _figures(self, name: str) -> dict[str, Any]:
        """The figures of all episodes and of each environment, from the index where it has those of now."""
        state = str(self._index.state_of(name))
        body = self._index.figures(name, state)
        if body is None:
            with self._working:
                body = self._index.figures(name, state) or self._worked_out(name)
        figures_of_now: dict[str, Any] = json.loads(body)
        return figures_of_now

    def _worked_out(self, name: str) -> str:
        self._of(name)
        state, episodes = self._episodes.get(name, ((0, 0, 0), {}))
        body = json.dumps(_summed(episodes.values()))
        self._index.keep_figures(name, str(state), body)
        return body

    def compared(self, names: Sequence[str]) -> dict[str, Any]:
        """Sources side by side: the table of `rlvr table`, and of each after the first what `rlvr compare` says.

        Raises:
            KeyError: there is no such source.
            ValueError: there are not two to eight of them.
        """
        if not 2 <= len(set(names)) == len(names) <= MAX_SOURCES:
            raise ValueError(f"two to {MAX_SOURCES} different results are compared, got {len(names)}")
        each = {name: self._of(name) for name in names}
        settings = [(name, options) for name in names if (options := self._options(name))]
        table = result_table([(name, list(each[name].values())) for name in names], setting_notes(settings))
        first, *others = names
        return {
            "table": _shown(table.to_dict()),
            "pairs": [self._pair(first, other, each[first], each[other]) for other in others],
        }

    def _pair(self, a: str, b: str, of_a: Mapping[str, Episode], of_b: Mapping[str, Episode]) -> dict[str, Any]:
        try:
            result = compare(list(of_a.values()), list(of_b.values()))
        except ValueError as error:
            return {"a": a, "b": b, "error": str(error)}
        record = result.to_dict()
        ids = [{id(episode): uid for uid, episode in episodes.items()} for episodes in (of_a, of_b)]
        tasks = [samples_by_task(e for e in episodes.values() if e.valid) for episodes in (of_a, of_b)]

        def named(task: TaskKey) -> dict[str, Any]:
            """The task, and of each result the first sample whose outcome tells it from the other."""
            gained = task in gained_tasks
            wanted = (not gained, gained)
            pair = [
                next((e for e in samples[task] if e.success is success), samples[task][0])
                for samples, success in zip(tasks, wanted, strict=True)
            ]
            uids = [known[id(episode)] for known, episode in zip(ids, pair, strict=True)]
            return {"env": task.env_id, "level": task.level, "seed": task.seed, "index": task.index, "episodes": uids}

        gained_tasks = set(result.gained)
        for way in ("gained", "lost"):
            shown: Sequence[TaskKey] = getattr(result, way)
            record[way], record[f"{way}_tasks"] = len(shown), [named(task) for task in shown[:MAX_TASKS]]
        for each in record["environments"].values():
            each["gained"], each["lost"] = len(each["gained"]), len(each["lost"])
        return {"a": a, "b": b, **record}

    def _source(self, name: str) -> Any:
        source = next((source for source in self._index.sources if source.name == name), None)
        if source is None:
            raise KeyError(f"there is no run or file {name}")
        return source

    def _row(self, name: str, is_run: bool) -> dict[str, Any]:
        summed = self._figures(name)
        models = [agent.get("model", "") for agent in self._agents(name)]
        changed = [file.stat().st_mtime for file in self._source(name).files if file.exists()]
        return {
            "name": name,
            "run": is_run,
            "model": ", ".join(dict.fromkeys(str(model) for model in models if model)),
            "changed": max(changed, default=None),
            "environments_played": len(summed["environments"]),
            **{field: summed["figures"][field] for field in _ROW},
        }

    def _of(self, name: str) -> dict[str, Episode]:
        """The episodes of a source by their lasting ids, of one that was played again the last; new ones are added."""
        self._source(name)
        reader = self._index.reader
        count, last, first = self._index.state_of(name)
        before, held = self._episodes.get(name, ((0, 0, 0), {}))
        if before == (count, last, first):
            return held
        query = "SELECT uid, light FROM episodes WHERE source = ? AND id > ? ORDER BY id"
        rows = reader.execute(query, (name, before[1])).fetchall()
        if before[0] + len(rows) != count or (before[0] and before[2] != first):  # some were forgotten
            held = {}
            rows = reader.execute(query, (name, 0)).fetchall()
        is_record = self._source(name).folder is None
        uids = {episode.key: uid for uid, episode in held.items() if episode.key and is_record}
        held = dict(held)
        for uid, light in rows:
            episode = light_episode(load_json(light))
            if episode.key and is_record:
                held.pop(uids.pop(episode.key, ""), None)
                uids[episode.key] = uid
            held[uid] = episode
        self._episodes[name] = (count, last, first), held
        return held

    def _agents(self, name: str) -> list[dict[str, Any]]:
        """Who played, each that differs once."""
        query = "SELECT DISTINCT agent FROM episodes WHERE source = ? AND agent != '' LIMIT ?"
        rows = self._index.reader.execute(query, (name, MAX_AGENTS)).fetchall()
        return [dict(mapping_of(load_json(row[0]))) for row in rows]

    def _options(self, name: str) -> dict[str, str]:
        """The options that `rlvr eval` wrote beside the record."""
        source = self._source(name)
        beside = options_beside(source.files[0]) if source.folder is None and source.files else Path()
        try:
            options = mapping_of(load_json(beside.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}
        return {str(key): str(value) for key, value in options.items() if str(value) != "None"}


_ROW = ("episodes", "valid", "success", "low", "high", "success_all", "invalid_share", "reward", "usage", "tokens")


def _summed(episodes: Collection[Episode]) -> dict[str, Any]:
    """The figures of all episodes and of each environment, and the mean of these where there are several."""
    by_env: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_env.setdefault(episode.env_id, []).append(episode)
    results = {env_id: summarise(played) for env_id, played in by_env.items()}
    several = len(results) > 1 and any(result.valid for result in results.values())
    suite = score_suite(list(results.values())) if several else None
    total = next(iter(results.values())) if len(results) == 1 else summarise(list(episodes))
    return {
        "figures": figures(total),
        "suite": None if suite is None else {"success": suite.success, "low": suite.low, "high": suite.high},
        "environments": [
            {
                "env": env_id,
                "digests": sorted({episode.env_digest for episode in by_env[env_id]} - {""}),
                "figures": figures(result),
                "levels": _levels(by_env[env_id]),
            }
            for env_id, result in results.items()
        ],
    }


def figures(result: Evaluation) -> dict[str, Any]:
    """An evaluation as plain JSON; what is not known without a valid episode is None."""
    record = result.to_dict() | {"warnings": result.warnings}
    return record if result.valid else record | dict.fromkeys(("success", "reward", "turns", "low", "high"))


def _levels(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """The levels, each with its figures where there are several."""
    by_level: dict[int | None, list[Episode]] = {}
    for episode in episodes:
        by_level.setdefault(episode.level, []).append(episode)
    if len(by_level) < 2:
        return [{"level": level, "figures": None} for level in by_level]
    ordered = sorted(by_level, key=lambda level: (level is None, level))
    return [{"level": level, "figures": figures(summarise(by_level[level]))} for level in ordered]


def _shown(table: dict[str, Any]) -> dict[str, Any]:
    """The table without what the page does not show."""
    shown = ("agent", "env", "episodes", "valid", "success", "low", "high", "success_all", "reward")
    table["results"] = [{name: cell[name] for name in shown} for cell in table["results"]]
    return table
