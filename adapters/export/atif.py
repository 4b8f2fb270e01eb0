"""Episodes as trajectories of ATIF, the Agent Trajectory Interchange Format of Harbor, and back.

The form is version 1.8 of https://github.com/laude-institute/harbor/blob/main/docs/rfcs/0001-trajectory-format.md;
1.7, which lacks audio alone, is read as well. What it has no field for stands in ``extra`` under our name: the task,
the verdicts, the loss mask and the tokens that the policy did not sample. `episode_of` gives back the same episode.

An observation with the role ``tool`` is the ``observation`` of the step before it, any other a step of the user. The
observation after the last action is the last step's. Turns of worked examples are steps before them, marked ``example``
in their ``extra``; these and the turns of a prefix are copied context, which the form keeps out of training. Halves of
surrogate pairs have no place in the format: where there is one, the steps show replacements, and ``extra`` holds the
episode as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from rlvr.adapters.export.chat import split_at_calls, tools_of, whole_pairs
from rlvr.agents.conversation import Message, TokenSequence
from rlvr.agents.episode import Episode, Turn
from rlvr.envs.core.json_text import load_json
from rlvr.envs.tools.tool import argument_names

VERSION = "ATIF-v1.8"
OURS = "rlvr"
THINK, THOUGHT = "<think>", "</think>"
# what an episode took, by the fields of the form
_TOTALS = {
    "prompt_tokens": "total_prompt_tokens",
    "completion_tokens": "total_completion_tokens",
    "cached_tokens": "total_cached_tokens",
}
# of a turn, beside its texts
_KEPT = ("stop", "reward", "verdict", "end", "limit", "flaw", "option_logprobs", "branch", "native")


class NotOurs(ValueError):
    """A trajectory that another tool wrote, or none."""


def atif_record(episode: Episode, *, images: str = "") -> dict[str, Any]:
    """The trajectory of an episode of at least one turn.

    Args:
        images: the folder that holds `turn_images`, seen from where the trajectory is written: the format wants paths,
            and Harbor looks for the files. Without it a path is the image itself, as a data URL.
    """
    from rlvr import __version__

    record = episode.to_dict()
    tokens = record["tokens"]
    spans = _spans(episode)
    schemas = tools_of(episode)
    names = argument_names(schemas or [])
    steps: list[dict[str, Any]] = []
    if episode.system is not None:
        _add(steps, "system", message=episode.system)
    for message in episode.examples:
        source = "agent" if message["role"] == "assistant" else "user"
        _add(steps, source, message=message["content"], is_copied_context=True, extra={"example": True})
    for number, turn in enumerate(episode.turns):
        copied = {"is_copied_context": True} if number < episode.prefix else {}
        if turn.role == "tool" and number:
            ids = [call["tool_call_id"] for call in steps[-1].get("tool_calls", [])]
            if _is_shared_out(turn, ids):
                pairs = zip(ids, turn.outputs, strict=True)
                results: list[dict[str, Any]] = [{"source_call_id": name, "content": text} for name, text in pairs]
            else:
                content = {"content": _content(turn, number, images), **_extra(turn, images)}
                results = [({"source_call_id": ids[0]} if ids else {}) | content]
            steps[-1]["observation"] = {"results": results}
        else:
            other_role = {} if turn.role == "user" else {"role": turn.role}
            _add(steps, "user", message=_content(turn, number, images), **copied, **_extra(turn, images, **other_role))
        _add(steps, "agent", **_agent_step(record["turns"][number], len(steps), names), **copied)
        if turn.foreign:
            steps[-1]["extra"]["foreign"] = turn.foreign
        if spans is not None:
            steps[-1]["metrics"] = _metrics(episode.tokens, *spans[number])
    if episode.final_observation and episode.turns:
        steps[-1]["observation"] = {"results": [{"content": episode.final_observation}]}
    left = {"turns", "system", "examples", "final_observation"} | ({"tokens"} if spans is not None else set())
    extra = {name: value for name, value in record.items() if name not in left}
    agent = {"name": OURS, "version": __version__} | ({"tool_definitions": schemas} if schemas else {})
    agent |= {"model_name": model} if isinstance(model := episode.agent.get("model"), str) else {}
    totals: dict[str, Any] = {
        field: int(episode.usage[name]) for name, field in _TOTALS.items() if name in episode.usage
    }
    totals |= {"total_cost_usd": episode.usage["cost"]} if "cost" in episode.usage else {}
    totals |= {"total_completion_tokens": episode.sampled_tokens} if tokens["ids"] else {}
    trajectory = {
        "schema_version": VERSION,
        "session_id": episode.key,
        "trajectory_id": episode.key,
        "agent": agent,
        "steps": steps,
        "final_metrics": {"total_steps": len(steps), **totals, "extra": {"reward": episode.reward}},
        "extra": {OURS: extra},
    }
    try:
        json.dumps(trajectory, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return {**whole_pairs({**trajectory, "extra": {}}), "extra": {OURS: {"json": json.dumps(record)}}}
    return trajectory


def turn_images(episode: Episode) -> dict[str, bytes]:
    """The images of an episode as files, by their names."""
    return {
        _image_name(number): base64.b64decode(turn.image.partition(",")[2])
        for number, turn in enumerate(episode.turns)
        if turn.image
    }


def episode_of(record: Mapping[str, Any]) -> Episode:
    """The episode that `atif_record` wrote.

    Raises:
        NotOurs: another tool wrote it.
        KeyError, TypeError, ValueError: it was changed since.
    """
    extra = record.get("extra")
    if not isinstance(extra, Mapping) or not isinstance(extra.get(OURS), Mapping):
        raise NotOurs("its extra holds no episode of rlvr")
    fields = dict(extra[OURS])
    if fields.keys() == {"json"}:
        return Episode.from_dict(json.loads(fields["json"]))
    turns: list[dict[str, Any]] = []
    tokens = TokenSequence()
    examples: list[Message] = []
    system = None
    waiting: dict[str, Any] = {}
    for step in record["steps"]:
        if step["source"] == "system":
            system = step["message"]
        elif (step.get("extra") or {}).get("example"):
            examples.append({"role": "assistant" if step["source"] == "agent" else "user", "content": step["message"]})
        elif step["source"] == "user":
            waiting = _observed("user", step["message"], step.get("extra"))
        else:
            held = step["extra"]
            turn = {"observation": "", "role": "user", **waiting, "action": held.get("action", step["message"])}
            turns.append(turn | {name: held[name] for name in _KEPT if name in held} | held.get("foreign", {}))
            if step.get("metrics"):
                tokens.extend(_sequence(step["metrics"]))
            results = (step.get("observation") or {}).get("results", [])
            waiting = _observed("tool", results[0]["content"], results[0].get("extra")) if results else {}
            if len(results) > 1:
                waiting["outputs"] = [result["content"] for result in results]
                waiting["observation"] = "\n".join(waiting["outputs"])
    fields |= {
        "turns": turns,
        "system": system,
        "examples": examples,
        "final_observation": waiting.get("observation", ""),
    }
    fields.setdefault("tokens", tokens.to_dict())
    return Episode.from_dict(fields)


def _add(steps: list[dict[str, Any]], source: str, **fields: Any) -> None:
    steps.append({"step_id": len(steps) + 1, "source": source, **fields})


def _agent_step(turn: Mapping[str, Any], number: int, names: Mapping[str, list[str]]) -> dict[str, Any]:
    """A step's fields: thinking and calls apart from the message, the action as it was written in ``extra``."""
    action = str(turn["action"])
    native = turn.get("native")
    text = native["words"] if native else action
    fields: dict[str, Any] = {}
    if text.startswith(THINK) and THOUGHT in text:
        fields["reasoning_content"], _, text = text.removeprefix(THINK).partition(THOUGHT)
    if native:
        calls = [(call["id"], call["name"], _object(call["arguments"])) for call in native["calls"]]
    else:
        text, written = split_at_calls(text, names)
        calls = [(f"call_{number}_{index}", call.name, dict(call.arguments)) for index, call in enumerate(written)]
    if calls:
        form = ("tool_call_id", "function_name", "arguments")
        fields["tool_calls"] = [dict(zip(form, call, strict=True)) for call in calls]
    extra = {name: turn[name] for name in _KEPT if name in turn} | ({"action": action} if text != action else {})
    return {"message": text, **fields, "extra": extra}


def _object(text: str) -> dict[str, Any]:
    """The arguments of a native call; none of one that is no JSON object, which stands in ``extra`` as it was."""
    try:
        value = load_json(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _is_shared_out(turn: Turn, ids: list[str]) -> bool:
    """Whether the outputs of native calls are all that the observation says, one for each of several calls."""
    whole = len(turn.outputs) == len(ids) > 1 and turn.observation == "\n".join(turn.outputs)
    return whole and not turn.image


def _image_name(number: int) -> str:
    return f"{number + 1:04d}.png"


def _content(turn: Turn, number: int, images: str) -> str | list[dict[str, Any]]:
    if not turn.image:
        return turn.observation
    media_type = turn.image.removeprefix("data:").partition(";")[0]
    path = f"{images}/{_image_name(number)}" if images else turn.image
    image = {"type": "image", "source": {"media_type": media_type, "path": path}}
    return [{"type": "text", "text": turn.observation}, image]


def _extra(turn: Turn, images: str, **held: Any) -> dict[str, Any]:
    """An ``extra`` of what is to be kept of a turn's observation; none if that is nothing."""
    if turn.outputs:
        held["outputs"] = turn.outputs
    if turn.image and images:  # beside the path, so that the trajectory alone holds the episode
        held["image"] = turn.image
    return {"extra": held} if held else {}


def _observed(role: str, content: Any, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a turn that an observation is read into."""
    held = dict(extra or {})
    if isinstance(content, list):
        text, image = content
        content, held["image"] = text["text"], held.get("image") or image["source"]["path"]
    return {"role": role, "observation": content or ""} | {
        name: held[name] for name in ("role", "image", "outputs") if name in held
    }


def _spans(episode: Episode) -> list[tuple[int, int]] | None:
    """Where each turn's tokens begin and end; None where the turns do not share them out, as without tokens."""
    ends = [turn.end for turn in episode.turns]
    starts = [0, *ends[:-1]]
    whole = bool(len(episode.tokens)) and bool(ends) and ends[-1] == len(episode.tokens)
    plain = all(on or not logprob for on, logprob in zip(episode.tokens.mask, episode.tokens.logprobs, strict=True))
    if not (whole and plain and ends == sorted(ends)):
        return None
    return list(zip(starts, ends, strict=True))


def _metrics(tokens: TokenSequence, start: int, stop: int) -> dict[str, Any]:
    """The sampled tokens in the fields of the form, the others in ``extra`` with the mask that puts them together."""
    piece = tokens.piece(start, stop)
    sampled = [index for index, on in enumerate(piece.mask) if on]
    extra: dict[str, Any] = {
        "context_token_ids": [token for token, on in zip(piece.ids, piece.mask, strict=True) if not on],
        "mask": piece.mask,
    }
    if piece.versions:
        extra["versions"] = piece.versions
    return {
        "prompt_tokens": start + (sampled[0] if sampled else len(piece)),
        "completion_tokens": len(sampled),
        "completion_token_ids": [piece.ids[index] for index in sampled],
        "logprobs": [piece.logprobs[index] for index in sampled],
        "extra": extra,
    }


def _sequence(metrics: Mapping[str, Any]) -> TokenSequence:
    extra = metrics["extra"]
    context, sampled = iter(extra["context_token_ids"]), iter(metrics["completion_token_ids"])
    logprobs = iter(metrics["logprobs"])
    mask = list(extra["mask"])
    ids = [next(sampled if on else context) for on in mask]
    return TokenSequence(ids, mask, [next(logprobs) if on else 0.0 for on in mask], list(extra.get("versions", [])))
