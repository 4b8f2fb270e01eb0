"""Traces that other tools wrote, each as a `Trace`: chats, results and message graphs of verifiers, completions of TRL,
logs of Inspect, trajectories of Harbor (ATIF), rollouts of NeMo Gym and of tinker-cookbook.

Lines of JSON are told apart by their fields, whatever the file is called. Inspect's ``.eval`` is a zip of JSON files;
TRL's completions are Parquet.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from rlvr.adapters.viewer.messages import message_of, messages_of
from rlvr.adapters.viewer.nemo_gym_records import is_nemo_gym, nemo_gym_trace
from rlvr.adapters.viewer.traces import (
    ChatMessage,
    NotATrace,
    Trace,
    episode_trace,
    mapping_of,
    named_numbers,
    number_of,
    text_of,
    whole_of,
)
from rlvr.adapters.viewer.trajectories import (
    atif_trace,
    is_atif,
    is_logtree,
    is_tinker,
    logtree_traces,
    tinker_trace,
)
from rlvr.adapters.viewer.verifiers_records import is_verifiers, verifiers_trace
from rlvr.agents.evaluation.records import COLUMN
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.tables import scan_table

ZSTANDARD = 93  # the number of this compression in zip files
MAX_ENTRY = 256 << 20  # bytes of one entry of a zip, unpacked


def trace_of(record: Any) -> Trace:
    """The trace of one JSON object, by its fields.

    Raises:
        NotATrace: it is none of the forms that are read.
    """
    if not isinstance(record, dict):
        raise NotATrace("it is no JSON object")
    if isinstance(record.get("turns"), list) and "env_id" in record:
        return episode_trace(record)
    if is_atif(record):
        return atif_trace(record)
    if is_tinker(record):
        return tinker_trace(record)
    if is_verifiers(record):
        return verifiers_trace(record)
    if is_nemo_gym(record):
        return nemo_gym_trace(record)
    if isinstance(record.get("messages"), list) and "epoch" in record and "scores" in record:
        return inspect_trace(record)
    if "prompt" in record and "completion" in record:
        return completion_trace(record)
    for name in ("messages", "conversation", "conversations"):
        if isinstance(record.get(name), list):
            return chat_trace(record, record[name])
    raise NotATrace("it has none of the fields turns, messages, or prompt and completion")


def _take_result(trace: Trace, record: Mapping[str, Any]) -> None:
    """The reward and the outcome under the names that tools use."""
    reward = next((n for n in map(number_of, (record.get("reward"), record.get("score"))) if n is not None), None)
    trace.take_reward(reward if reward is not None else trace.reward)
    correct = record.get("correct", record.get("success"))
    if isinstance(correct, bool):
        trace.take_success(correct)
    if record.get("error"):
        trace.take_error(text_of(record["error"]))
    trace.step = whole_of(record.get("step"))


def _without(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in names}


def chat_trace(record: Mapping[str, Any], messages: Sequence[Any]) -> Trace:
    """A line of a chat data set, or of what OpenEnv collects (``openenv collect``), whose task may be anything."""
    is_collected = "episode_id" in record and "verify_metrics" in record
    names = ("episode_id",) if is_collected else ("id", "key")
    key = next((text_of(record[name]) for name in names if record.get(name)), "")
    trace = Trace("openenv" if is_collected else "chat", messages=messages_of(messages), key=key)
    if not is_collected:
        trace.env = text_of(record.get("env_id") or record.get("task") or record.get("source"))
    trace.tools = text_of(record.get("tools"))
    trace.split, trace.sample = text_of(record.get("split")), whole_of(record.get("sample")) or 0
    trace.level, trace.seed, trace.index, trace.group = (
        whole_of(record.get(name)) for name in ("level", "seed", "index", "group")
    )
    trace.env_digest = text_of(record.get("env_digest"))
    _take_result(trace, record)
    trace.notes = _without(record, "messages", "conversation", "conversations", "tools")
    return trace


def completion_trace(record: Mapping[str, Any]) -> Trace:
    """A result of verifiers before 0.4 (``results.jsonl``), or a row of TRL's completions."""
    prompt, completion = record["prompt"], record["completion"]
    messages = messages_of(prompt) if isinstance(prompt, list) else [ChatMessage("user", text_of(prompt))]
    if isinstance(completion, list):
        messages += messages_of(completion)
    else:
        messages.append(message_of({"role": "assistant", "content": text_of(completion)}))
    is_trl = "advantage" in record
    trace = Trace(
        "trl" if is_trl else "verifiers", messages=messages, env=text_of(record.get("task") or record.get("env_id"))
    )
    fields = ("prompt", "completion", "reward", "step", "task", "answer", "example_id", "id", "advantage")
    trace.parts = named_numbers(_without(record, *fields))
    if is_trl and trace.parts:
        trace.reward = sum(trace.parts.values())  # TRL writes a column for each reward function, and no sum
    _take_result(trace, record)
    example = record.get("example_id", record.get("id"))
    trace.group = whole_of(example)
    trace.key = text_of(example) if example is not None else ""
    trace.reason = f"expected: {text_of(record['answer'])}" if record.get("answer") else ""
    trace.notes = _without(record, "prompt", "completion")
    return trace


def inspect_trace(record: Mapping[str, Any]) -> Trace:
    """A sample of an Inspect log; one that `rlvr export` wrote is shown as its episode is."""
    from rlvr.adapters.export.atif import OURS, NotOurs  # imports every tool, and few files need it
    from rlvr.adapters.export.inspect_log import episode_of_sample

    with suppress(NotOurs, KeyError, TypeError, ValueError, AttributeError):  # somebody changed it since
        trace = episode_trace(episode_of_sample(record).to_dict(), "inspect")
        trace.line = record["store"][OURS]
        return trace
    trace = Trace("inspect", messages=messages_of(record["messages"]), key=text_of(record.get("id")))
    trace.group, trace.sample = whole_of(record.get("id")), whole_of(record.get("epoch")) or 0
    for name, score in mapping_of(record.get("scores")).items():
        value = score.get("value") if isinstance(score, dict) else score
        number = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}.get(value) if isinstance(value, str) else None
        number = float(value) if isinstance(value, bool) else number_of(value) if number is None else number
        if number is not None:
            trace.parts[str(name)] = number
        if isinstance(score, dict) and not trace.reason:
            trace.reason, trace.answer = text_of(score.get("explanation")), text_of(score.get("answer"))
    if trace.parts:
        trace.take_reward(next(iter(trace.parts.values())))
    if error := record.get("error"):
        trace.take_error(text_of(error.get("message") if isinstance(error, dict) else error))
    models = mapping_of(record.get("model_usage"))
    if model := next(iter(models), ""):
        tokens = mapping_of(models[model])
        trace.agent = {"model": text_of(model)}
        trace.take_usage(
            prompt_tokens=tokens.get("input_tokens"),
            completion_tokens=tokens.get("output_tokens"),
            cached_tokens=tokens.get("input_tokens_cache_read"),
            reasoning_tokens=tokens.get("reasoning_tokens"),
        )
    trace.notes = {
        name: record[name] for name in ("target", "metadata", "model_usage", "total_time") if record.get(name)
    }
    return trace


# --- files that are no lines of JSON ---


def read_inspect(path: Path, start: int = 0) -> Iterator[Trace]:
    """The traces of `inspect_records`, from number ``start`` on."""
    skipped = start if path.suffix == ".eval" else 0  # a file beside it may hold several traces in a record
    logged = inspect_records(path, skipped)
    traces = (trace for record, evaluation in logged for trace in log_traces(record, evaluation))
    yield from islice(traces, start - skipped, None)


def log_traces(record: Any, evaluation: Mapping[str, Any]) -> Iterator[Trace]:
    """The traces of what `inspect_records` yields: one, but for a log of tinker-cookbook."""
    if not evaluation and is_logtree(record):
        yield from logtree_traces(record)
        return
    trace = trace_of(record)
    trace.env = trace.env or text_of(evaluation.get("task"))
    yield trace


def inspect_records(path: Path, start: int = 0) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """The samples of an Inspect log, ``.eval`` or ``.json``, with its evaluation; another tool's ``.json`` as it is.

    Args:
        start: the sample of an ``.eval`` to begin with.

    Raises:
        ImportError: zstandard is missing.
        ValueError: it is none, or an entry is damaged or larger than `MAX_ENTRY`.
    """
    if path.suffix == ".json":
        log = load_json(path.read_bytes())
        if isinstance(log, dict) and (is_atif(log) or is_logtree(log)):
            yield log, {}
            return
        if not isinstance(log, dict) or "eval" not in log:
            raise ValueError(f"{path.name} is no log of Inspect, log of tinker-cookbook or trajectory of Harbor (ATIF)")
        for sample in log.get("samples") or []:
            yield sample, mapping_of(log["eval"])
        return
    try:
        with zipfile.ZipFile(path) as packed:
            header = _entry(packed, "header.json" if "header.json" in packed.namelist() else "_journal/start.json")
            for name in sorted(name for name in packed.namelist() if name.startswith("samples/"))[start:]:
                yield _entry(packed, name), mapping_of(header.get("eval"))
    except (zipfile.BadZipFile, NotImplementedError, KeyError, EOFError, struct.error) as error:
        raise ValueError(f"{path.name} cannot be read as a log of Inspect: {error}") from error


def _entry(packed: zipfile.ZipFile, name: str) -> Any:
    if packed.getinfo(name).file_size > MAX_ENTRY:
        raise ValueError(f"{name} has over {MAX_ENTRY >> 20} MiB")
    if packed.getinfo(name).compress_type == ZSTANDARD:
        return load_json(_zstandard(packed, packed.getinfo(name)))
    return load_json(packed.read(name))


def _zstandard(packed: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """An entry that Python's own zipfile cannot unpack before 3.14; Inspect writes them by default.

    Raises:
        ImportError: zstandard is missing.
        ValueError: it is damaged, or larger than it says.
    """
    try:
        import zstandard
    except ImportError:
        raise ImportError('logs of Inspect need zstandard: pip install "rlvr[hub]"') from None
    assert packed.fp is not None
    packed.fp.seek(entry.header_offset)
    head = packed.fp.read(30)  # the local header: two lengths at its end, then a name and more fields
    packed.fp.seek(sum(struct.unpack("<HH", head[26:30])), os.SEEK_CUR)
    compressed = packed.fp.read(entry.compress_size)
    try:
        with zstandard.ZstdDecompressor(max_window_size=MAX_ENTRY).stream_reader(compressed) as reader:
            data: bytes = reader.read(entry.file_size + 1)
    except zstandard.ZstdError as error:
        raise ValueError(f"{entry.filename} is damaged: {error}") from error
    if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
        raise ValueError(f"{entry.filename} is damaged")
    return data


def read_parquet(path: Path, start: int = 0) -> Iterator[Trace]:
    """The rows of TRL's completions, or of any Parquet file with an episode, a chat or a prompt and completion in each,
    from row ``start`` on.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        for row in scan_table(path, start):
            trace = trace_of(_record_of_row(row))
            trace.line = _line_of_row(row) or ""
            yield trace
    except NotATrace as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def parquet_records(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file as JSON; of a row that holds an episode of ours, its record."""
    return map(_record_of_row, scan_table(path))


def _record_of_row(row: Mapping[str, Any]) -> Any:
    line = _line_of_row(row)
    return load_json(line) if line is not None else json.loads(json.dumps(row, default=str))


def _line_of_row(row: Mapping[str, Any]) -> str | None:
    line = row.get(COLUMN)
    return line if isinstance(line, str) and "env_digest" in row else None


READERS = {".eval": read_inspect, ".json": read_inspect, ".parquet": read_parquet}
