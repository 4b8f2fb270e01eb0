"""A recorded evaluation as a log of Inspect (``.eval``), which ``inspect view`` and its data frames read, and back.

The form is what inspect-ai 0.3.285 reads: a zip with ``header.json``, ``summaries.json`` and a file for each sample. A
sample is an episode, its epoch the place among the samples of a task, its scores those of our scorers under Inspect;
messages are those of the first conversation. What the form has no field for stands in the sample's store, with all
else: the whole record, as JSON in one text.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any

from rlvr.adapters.export.atif import OURS, THINK, THOUGHT, NotOurs
from rlvr.adapters.export.chat import openai_record, whole_pairs
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.records import figures_only
from rlvr.agents.evaluation.summary import Evaluation, summarise

VERSION = 2  # of Inspect's log
STOPS = {"stop": "stop", "length": "max_tokens", "context": "model_length"}
USAGE = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "input_tokens_cache_read",
    "reasoning_tokens": "reasoning_tokens",
}
SAMPLING = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "seed": "seed"}
SUMMARY = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "completed_at", "total_time")
SHORT = 1_000  # characters of a text in a summary; Inspect reads those of all samples at once
TASK = ("env_id", "split", "level", "seed", "index", "sample", "group", "env_digest")


def write_log(episodes: Iterable[Episode], file: IO[bytes], folder: Path) -> int:
    """Write the graded episodes of one agent as a log, one at a time; how many there were. Without any, nothing.

    The same episodes give the same bytes. The list of samples, which comes last, waits in a file without a name in
    ``folder``.

    Raises:
        ValueError: they are of several agents.
    """
    held: list[Episode] = []
    names: dict[str, int] = {}
    seen: Counter[tuple[str, int]] = Counter()
    with zipfile.ZipFile(file, "w") as packed, TemporaryFile(dir=folder) as summaries:
        for episode in episodes:
            if episode.verdict is None:
                continue
            held.append(figures_only(episode))
            if episode.agent != held[0].agent:
                models = " and ".join(str(each.agent.get("model", "an unnamed agent")) for each in (held[0], episode))
                raise ValueError(f"a log of Inspect is of one model with one sampling, not of {models}")
            sample = _sample(episode, seen)
            names[sample["id"]] = max(names.get(sample["id"], 0), sample["epoch"])
            packed.writestr(_entry(f"samples/{sample['id']}_epoch_{sample['epoch']}.json"), json.dumps(sample))
            summaries.write(b"[" if len(held) == 1 else b",")
            summaries.write(json.dumps(_summary(sample)).encode())
        if held:
            summaries.write(b"]")
            summaries.seek(0)
            with packed.open(_entry("summaries.json"), "w", force_zip64=True) as entry:
                copyfileobj(summaries, entry)
            packed.writestr(_entry("header.json"), json.dumps(_header(held, names)))
    return len(held)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # dated 1980: the clock is no part of what was played
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in the list of samples, with texts cut short, as Inspect cuts them."""
    summary = {name: sample[name] for name in SUMMARY if name in sample} | {"completed": True}
    summary["input"] = _cut(sample["input"])
    if sample["scores"]:
        summary["scores"] = {
            name: {part: _cut(value) if isinstance(value, str) else value for part, value in score.items()}
            for name, score in sample["scores"].items()
        }
    if "error" in sample:
        summary["error"] = _cut(sample["error"]["message"])
    return summary


def _cut(text: str) -> str:
    return text if len(text) <= SHORT else f"{text[:SHORT]} …"


def episode_of_sample(sample: Mapping[str, Any]) -> Episode:
    """The episode that `write_log` wrote a sample of.

    Raises:
        NotOurs: another tool wrote it.
        KeyError, TypeError, ValueError: it was changed since.
    """
    store = sample.get("store")
    if not isinstance(store, Mapping) or not isinstance(store.get(OURS), str):
        raise NotOurs("its store holds no episode of rlvr")
    return Episode.from_dict(json.loads(store[OURS]))


def _sample(episode: Episode, seen: Counter[tuple[str, int]]) -> dict[str, Any]:
    verdict, usage, model = episode.verdict, episode.usage, _model(episode)
    assert verdict is not None
    named = (episode.env_id, episode.split, episode.level, episode.seed, episode.index)
    task = re.sub(r"[^A-Za-z0-9._-]+", ".", "_".join(map(str, named)))  # a file's name, too
    seen[task, episode.sample] += 1
    if (again := seen[task, episode.sample]) > 1:  # in another step of a run, say
        task += f"_again{again - 1}"
    messages = [_message(message, model) for message in openai_record(episode)["messages"]]
    if episode.final_observation:
        messages.append({"role": "user", "content": episode.final_observation})
    given = {"status": verdict.status, "parts": dict(verdict.parts)}
    about = {"answer": verdict.answer, "explanation": verdict.reason or None, "metadata": given}
    sample: dict[str, Any] = {
        "id": task,
        "epoch": episode.sample + 1,
        "input": episode.turns[0].observation if episode.turns else "",
        "target": "",
        "messages": messages,
        "metadata": {name: getattr(episode, name) for name in TASK},
        "turn_count": len(episode.turns),
        "scores": None,
    }
    if verdict.valid:
        sample["scores"] = {
            "verified_return": {"value": float(episode.reward), **about},
            "success": {"value": "C" if verdict.success else "I", **about},
        }
    else:  # unscored, as it is no 0
        sample["error"] = {"message": f"{verdict.status}: {verdict.reason}", "traceback": "", "traceback_ansi": ""}
    if own := [turn for turn in episode.turns if not turn.branch]:
        last = next(message for message in reversed(messages) if message["role"] == "assistant")
        choice = {"message": last, "stop_reason": STOPS.get(own[-1].stop, "unknown")}
        sample["output"] = {"model": model, "choices": [choice]}
    tokens = {field: int(usage[name]) for name, field in USAGE.items() if name in usage}
    if tokens:
        tokens["total_tokens"] = tokens.get("input_tokens", 0) + tokens.get("output_tokens", 0)
        sample["model_usage"] = {model: tokens}
    if seconds := [usage[name] for name in ("model_seconds", "env_seconds") if name in usage]:
        sample["total_time"] = sample["working_time"] = sum(seconds)
    if "ended" in usage:
        sample["completed_at"] = _date(usage["ended"])
    return {**whole_pairs(sample), "store": {OURS: json.dumps(episode.to_dict())}}


def _message(message: Mapping[str, Any], model: str) -> dict[str, Any]:
    """A message of OpenAI's form in Inspect's: images as texts, thinking apart, calls with objects."""
    content = message["content"]
    if isinstance(content, list):
        images = ({"type": "image", "image": part["image_url"]["url"]} for part in content if "image_url" in part)
        content = [*(part for part in content if "image_url" not in part), *images]
    written: dict[str, Any] = {"role": message["role"], "content": content}
    if message["role"] == "assistant":
        written["model"] = model
        if content.startswith(THINK) and THOUGHT in content:
            thought, _, text = content.removeprefix(THINK).partition(THOUGHT)
            written["content"] = [{"type": "reasoning", "reasoning": thought}, {"type": "text", "text": text}]
    if calls := message.get("tool_calls"):
        functions = [(call["id"], call["function"]) for call in calls]
        written["tool_calls"] = [
            {"id": name, "function": function["name"], "arguments": json.loads(function["arguments"])}
            for name, function in functions
        ]
    if "tool_call_id" in message:
        written["tool_call_id"] = message["tool_call_id"]
    return written


def _header(episodes: list[Episode], names: Mapping[str, int]) -> dict[str, Any]:
    """``names`` are the samples' with the last epoch of each."""
    from rlvr import __version__

    first, figures = episodes[0], summarise(episodes)
    # The form asks for a date: 1970 where no episode has one, so that it is not taken for a real one.
    created = _date(max((episode.usage["ended"] for episode in episodes if "ended" in episode.usage), default=0.0))
    task = "+".join(sorted({episode.env_id for episode in episodes}))
    named = hashlib.sha256(json.dumps([task, first.agent, created, next(iter(names))]).encode()).hexdigest()[:22]
    sampling = first.agent.get("sampling") or {}
    config = {field: sampling[name] for name, field in SAMPLING.items() if sampling.get(name) is not None}
    limit = sampling.get("max_tokens") or sampling.get("max_new_tokens")
    evaluation = {
        **dict.fromkeys(("eval_id", "run_id", "task_id"), named),
        "created": created,
        "task": task,
        "dataset": {"name": task, "samples": figures.tasks, "sample_ids": list(names)},
        "model": _model(first),
        "model_generate_config": config | ({"max_tokens": limit} if limit else {}),
        "config": {"epochs": max(names.values())},
        "packages": {"rlvr": __version__},
        "metadata": {"agent": first.agent},
    }
    results = {"total_samples": len(episodes), "completed_samples": figures.valid, "scores": _scores(figures)}
    stats = {"started_at": created, "completed_at": created, "model_usage": _used(episodes)}
    return {"version": VERSION, "status": "success", "eval": evaluation, "results": results, "stats": stats}


def _scores(figures: Evaluation) -> list[dict[str, Any]]:
    """The means, and how many episodes they are over; our interval of the success stands beside them."""
    interval = {"low": figures.low, "high": figures.high, "confidence": 0.95} if figures.valid else None
    counted = {"scored_samples": figures.valid, "unscored_samples": figures.episodes - figures.valid}
    named = (("verified_return", "mean", figures.reward, None), ("success", "accuracy", figures.success, interval))
    return [
        {"name": score, "scorer": score, "metadata": bounds, **counted}
        | {"metrics": {metric: {"name": metric, "value": value}} if figures.valid else {}}
        for score, metric, value, bounds in named
    ]


def _used(episodes: list[Episode]) -> dict[str, dict[str, int]]:
    sums: Counter[str] = Counter()
    for episode in episodes:
        sums.update({field: int(episode.usage[name]) for name, field in USAGE.items() if name in episode.usage})
    total = sums["input_tokens"] + sums["output_tokens"]
    return {_model(episodes[0]): {**sums, "total_tokens": total}} if total else {}


def _model(episode: Episode) -> str:
    return str(episode.agent.get("model") or "unknown")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
