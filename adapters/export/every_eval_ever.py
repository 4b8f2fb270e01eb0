"""A recorded evaluation as a record of Every Eval Ever (arXiv:2606.14516), which compares figures across harnesses.

The form is version 0.3.0 of its ``eval.schema.json``. A record holds one model's results, one of each environment,
split and level: the share of valid episodes that succeeded, with its 95 % interval. The form wants details as texts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.summary import summarise

VERSION = "0.3.0"


def evaluation_record(episodes: Iterable[Episode]) -> dict[str, Any]:
    """The record of all graded episodes of one evaluation, those of failed environments among them, which are counted.

    Raises:
        ValueError: they are of several models or of none, or an environment has no valid episode.
    """
    from rlvr import __version__

    groups: dict[tuple[str, str | None, int | None], list[Episode]] = {}
    agents: dict[str, dict[str, Any]] = {}
    for episode in episodes:
        groups.setdefault((episode.env_id, episode.split, episode.level), []).append(episode)
        agents[json.dumps(episode.agent, sort_keys=True)] = episode.agent
    if len(agents) != 1 or not (agent := next(iter(agents.values()))).get("model"):
        models = " and ".join(str(each.get("model", "an unnamed agent")) for each in agents.values())
        raise ValueError(f"a record is of one model with one sampling, not of {models or 'no graded episode'}")
    now, name = str(time.time()), str(agent["model"])
    if name.startswith(("/", ".", "~")):  # a folder here, whose path is nobody's business
        name = Path(name).name
    developer = name.partition("/")[0] if "/" in name else "unknown"
    more = {key: agent[key] for key in ("revision", "endpoint") if agent.get(key)}
    more |= {"deployment_type": "unknown" if "endpoint" in more else "self_deployed", "model_availability": "unknown"}
    return {
        "schema_version": VERSION,
        "evaluation_id": "/".join(["+".join(sorted({env_id for env_id, *_ in groups})), name, now]),
        "retrieved_timestamp": now,
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "rlvr", "version": __version__},
        "model_info": {"name": name, "id": name, "developer": developer, "additional_details": _texts(more)},
        "evaluation_results": [_result(*key, group, agent.get("sampling") or {}) for key, group in groups.items()],
    }


def _result(
    env_id: str, split: str | None, level: int | None, episodes: list[Episode], sampling: Mapping[str, Any]
) -> dict[str, Any]:
    figures = summarise(episodes)
    if not figures.valid:
        raise ValueError(f"{env_id} has no valid episode, so it has no score")
    digests = sorted({episode.env_digest for episode in episodes if episode.env_digest})
    tasks = {"split": split, "level": level, "tasks": figures.tasks, "env_digest": ", ".join(digests) or None}
    limit = sampling.get("max_tokens") or sampling.get("max_new_tokens")
    settings = {key: sampling[key] for key in ("temperature", "top_p", "top_k") if key in sampling}
    interval = {"lower": figures.low, "upper": figures.high, "confidence_level": 0.95}
    score = {
        "score": figures.success,
        "uncertainty": {"confidence_interval": interval, "num_samples": figures.valid},
        "details": _texts({key: value for key, value in figures.to_dict().items() if value not in (None, {}, [], ())}),
    }
    return {
        "evaluation_name": "/".join(str(part) for part in (env_id, split, level) if part is not None),
        "source_data": {"dataset_name": env_id, "source_type": "other", "additional_details": _texts(tasks)},
        "metric_config": {
            "evaluation_description": "share of the valid episodes that succeeded",
            "metric_id": "rlvr.success",
            "metric_kind": "pass_rate",
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": score,
        "generation_config": {
            "generation_args": settings | ({"max_tokens": limit} if limit else {}),
            "additional_details": _texts(sampling),
        },
    }


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    held = {key: value for key, value in values.items() if value is not None}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in held.items()}
