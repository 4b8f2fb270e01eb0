"""What a server of the wire may say: every field of a greeting and of an answer, with its type and its bounds.

A server is a stranger too. What does not fit is no answer: `read_greeting` and `read_answer` raise ValueError, which
`rlvr.adapters.connect` turns into a ConnectionError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr.adapters.serving.bounded_json import kind_of
from rlvr.adapters.serving.wire import (
    CODES,
    MAX_FRAME,
    MAX_IMAGE_PIXELS,
    MAX_ITEMS,
    MAX_REWARD,
    VERSION,
    Pixels,
    is_number,
    unpack,
)
from rlvr.envs import Verdict
from rlvr.envs.tasks.digests import differing_parts

MAX_SECONDS = 1e6  # of a time limit: more than a wait of Python's can take
MAX_NAME = 200  # characters of a name
MAX_MESSAGE = 2_000  # characters of an error's message
Range = tuple[float, float]
Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server says of itself.

    Attributes:
        instance: another one is another server.
        expert: whether it serves ``solve`` and snapshots.
        numbered: whether requests may bear a number, and ``open`` a client.
        frame, items, sessions: the most bytes of a message, items of a request, sessions.
        free: sessions that could be opened when the connection was made.
        timeout: seconds that a step may take; None for no limit.
        env_id, size, split, level, max_turns, render_mode: of the environment.
        observation_length, action_length: the most characters of a text.
        image: [H, W, 3] of its observations, if they have an image.
        rewards: the least and the greatest reward of a step.
        env_digest: what its tasks and grades depend on, see `rlvr.envs.tasks.digests`; "" from a server that says none.
    """

    instance: str
    expert: bool
    numbered: bool
    frame: int
    items: int
    sessions: int
    free: int
    timeout: float | None
    env_id: str
    size: int | None
    split: str | None
    level: int | None
    max_turns: int | None
    render_mode: str | None
    observation_length: int
    action_length: int
    image: tuple[int, int, int] | None
    rewards: Range
    env_digest: str = ""


# What two servers of the same environment have in common.
_SERVED = ("env_id", "size", "split", "level", "max_turns", "render_mode", "image")


def differs(first: Greeting, other: Greeting, besides: Collection[str] = ()) -> str:
    """What two servers do not have in common; "" if they serve the same.

    Args:
        first, other: the greetings.
        besides: fields that may differ.
    """
    for name in _SERVED:
        if name not in besides and getattr(first, name) != getattr(other, name):
            return f"{name} is {getattr(other, name)!r:.60} there, and {getattr(first, name)!r:.60} elsewhere"
    differing = [part for part in differing_parts(first.env_digest, other.env_digest) if part != "code"]
    return f"its {' and '.join(differing)} are others" if differing else ""


def _ANY(value: Any) -> bool:  # what is looked at after it is unpacked
    return True


def _whole(lower: int, upper: int) -> Check:
    return lambda value: type(value) is int and lower <= value <= upper


def _text(longest: int, shortest: int = 0) -> Check:
    return lambda value: isinstance(value, str) and shortest <= len(value) <= longest


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _seconds(value: Any) -> bool:
    return is_number(value) and bool(0 < value <= MAX_SECONDS)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _image(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3 or not all(type(n) is int and n > 0 for n in value):
        return False
    return bool(value[2] == 3 and value[0] * value[1] <= MAX_IMAGE_PIXELS)


def _rewards(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not all(map(is_number, value)):
        return False
    low, high = float(value[0]), float(value[1])
    return -MAX_REWARD <= low <= high <= MAX_REWARD


_COUNT = _or_none(_whole(0, 1 << 62))
HELLO: dict[str, Check] = {
    "version": lambda value: type(value) is int and value == VERSION,
    "instance": _text(64, 1),
    "expert": _flag,
    "limits": lambda value: isinstance(value, dict),
    "env": lambda value: isinstance(value, dict),
}
LIMITS: dict[str, Check] = {
    "frame": _whole(1, 1 << 40),
    "items": _whole(1, 1 << 30),
    "under_way": _whole(1, 1 << 30),
    "sessions": _whole(1, 1 << 30),
    "ttl": lambda value: is_number(value) and value > 0,
    "timeout": _or_none(_seconds),
}
ENV: dict[str, Check] = {
    "id": _text(MAX_NAME, 1),
    "size": _COUNT,
    "split": _or_none(_text(MAX_NAME)),
    "level": _or_none(_whole(-(1 << 62), 1 << 62)),
    "max_turns": _COUNT,
    "observation_length": _whole(1, 1 << 40),
    "image": _or_none(_image),
    "action_length": _whole(1, 1 << 40),
    "render_mode": _or_none(_text(MAX_NAME)),
}


def _fields(record: Any, where: str, needed: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> None:
    """Raise ValueError unless these are the fields, and their values pass."""
    if not isinstance(record, dict):
        raise ValueError(f"{where} is {kind_of(record)}, and must be an object")
    optional = optional or {}
    if record.keys() != needed.keys():
        if missing := sorted(needed.keys() - record.keys()):
            raise ValueError(f"{where} has no {missing[0]}")
        if unknown := sorted(record.keys() - needed.keys() - optional.keys()):
            raise ValueError(f"{where} has a field {unknown[0]!r:.60}, which is none of the wire")
    for name, value in record.items():
        if needed.get(name) is _ANY:
            continue
        if not (needed.get(name) or optional[name])(value):
            raise ValueError(f"{where} has {name}={_shown(value)}, which is not allowed there")


def _shown(value: Any) -> str:
    return f"{value!r:.60}" if isinstance(value, str | int | float | bool | None) else kind_of(value)


def read_greeting(message: Mapping[str, Any], rewards: Range | None = None) -> Greeting:
    """The first message of a server.

    Args:
        message: JSON.
        rewards: the range that the caller allows; None for the server's own.

    Raises:
        ValueError: it is no greeting of this version of the wire; says why.
    """
    hello = message.get("hello")
    version = hello.get("version") if isinstance(hello, dict) else "something else"
    if not isinstance(hello, dict) or type(version) is not int or version != VERSION:
        raise ValueError(f"it speaks {_shown(version)}, and this client version {VERSION} of the wire")
    _fields(message, "the greeting", {"hello": lambda value: True})
    _fields(hello, "the greeting", HELLO, {"numbered": _flag, "free": _whole(0, 1 << 30)})
    limits, env = hello["limits"], hello["env"]
    _fields(limits, "the greeting's limits", LIMITS)
    _fields(env, "the greeting's env", ENV, {"rewards": _rewards, "digest": _text(MAX_NAME)})
    low, high = env.get("rewards") or (-MAX_REWARD, MAX_REWARD)
    if rewards is not None:
        low, high = max(low, rewards[0]), min(high, rewards[1])
    image = env["image"]
    return Greeting(
        instance=hello["instance"],
        expert=hello["expert"],
        numbered=hello.get("numbered", False),
        frame=min(limits["frame"], MAX_FRAME),
        items=min(limits["items"], MAX_ITEMS),
        sessions=limits["sessions"],
        free=hello.get("free", limits["sessions"]),
        timeout=limits["timeout"],
        env_id=env["id"],
        **{name: env[name] for name in ("size", "split", "level", "max_turns", "render_mode")},
        observation_length=env["observation_length"],
        action_length=env["action_length"],
        image=None if image is None else (image[0], image[1], image[2]),
        rewards=(low, high),
        env_digest=env.get("digest", ""),
    )


ERROR: dict[str, Check] = {
    "code": lambda value: isinstance(value, str) and value in CODES,
    "message": _text(MAX_MESSAGE),
}
RESULTS: dict[str, dict[str, Check]] = {
    "reset": {"observation": _ANY, "info": _ANY},
    "step": {"observation": _ANY, "reward": _ANY, "terminated": _flag, "truncated": _flag, "info": _ANY},
    "call": {"value": _ANY},
    "close": {},
    "ping": {},
}


def error_in(message: Mapping[str, Any]) -> dict[str, str] | None:
    """The error in an answer, or in a result; None if it is none.

    Raises:
        ValueError: it is no error of the wire.
    """
    if "error" not in message:
        return None
    error = message["error"]
    _fields(error, "an error", ERROR)
    return {"code": error["code"], "message": "".join(c if c.isprintable() else " " for c in error["message"])}


def read_answer(
    message: Mapping[str, Any], op: str, items: Sequence[Mapping[str, Any]], count: int, greeting: Greeting
) -> list[Any]:
    """What an answer holds: the names of sessions for ``open``; a dict for each item otherwise, with values unpacked,
    or with an ``error``.

    Args:
        message: JSON, an answer to this request and no error.
        op, items, count: of the request.
        greeting: of this server.

    Raises:
        ImportError: there is an image, and Pillow is missing.
        ValueError: it is no answer to the request; says why.
    """
    name = "sessions" if op == "open" else "results"
    _fields(message, "an answer", {"id": _ANY, name: lambda value: isinstance(value, list)})
    results: list[Any] = message[name]
    if len(results) != (count if op == "open" else len(items)):
        raise ValueError(f"{op} was asked of {count if op == 'open' else len(items)}, and {len(results)} were answered")
    if op == "open":
        if not all(map(_text(64, 1), results)) or len(set(results)) < count:
            raise ValueError("sessions are different texts of 1 to 64 characters")
        return results
    pixels = Pixels()
    return [_result(result, op, item, greeting, pixels) for result, item in zip(results, items, strict=True)]


def _result(result: Any, op: str, item: Mapping[str, Any], greeting: Greeting, pixels: Pixels) -> dict[str, Any]:
    if isinstance(result, dict) and "error" in result:
        _fields(result, "a result", {"error": _ANY})
        return {"error": error_in(result)}
    _fields(result, f"a result of {op}", RESULTS[op])
    if op == "call":
        return {"value": _value(unpack(result["value"], pixels), item["name"])}
    if op not in ("reset", "step"):
        return {}
    unpacked = {
        "observation": _observation(unpack(result["observation"], pixels), greeting),
        "info": _info(unpack(result["info"], pixels), greeting),
    }
    if op == "step":
        _reward(result["reward"], greeting.rewards, "a reward")
    return {**result, **unpacked}


def _reward(value: Any, allowed: Range, what: str) -> None:
    if not is_number(value) or not allowed[0] <= value <= allowed[1]:
        raise ValueError(f"{what} is {_shown(value)}, and must be a number from {allowed[0]:g} to {allowed[1]:g}")


def _observation(value: Any, greeting: Greeting) -> Any:
    text = value
    if greeting.image is not None:
        if not isinstance(value, dict) or value.keys() != {"text", "image"}:
            raise ValueError("an observation is not text and image, as the greeting says")
        image, text = value["image"], value["text"]
        if not isinstance(image, np.ndarray) or image.shape != greeting.image or image.dtype != np.uint8:
            raise ValueError(f"an observation's image is not {list(greeting.image)} of uint8, as the greeting says")
    if not isinstance(text, str):
        raise ValueError(f"an observation is {kind_of(text)}, and must be a text")
    if len(text) > greeting.observation_length:
        raise ValueError(f"an observation has {len(text)} characters, over {greeting.observation_length}")
    return value


def _info(value: Any, greeting: Greeting) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"an info is {kind_of(value)}, and must be an object")
    verdict = value.get("verdict")
    if isinstance(verdict, Verdict):
        _reward(verdict.reward, greeting.rewards, "a verdict's reward")
    elif verdict is not None:
        raise ValueError(f"an info's verdict is {kind_of(verdict)}, and must be a verdict or null")
    return value


def _value(value: Any, call: str) -> Any:
    if call == "set_state" and value is not None:
        raise ValueError("set_state has a value, and must have none")
    if call == "get_state" and not _text(64, 1)(value):
        raise ValueError("a state's name is no text of 1 to 64 characters")
    if (call == "solve" or (call == "direct_answer" and value is not None)) and not _text(MAX_FRAME)(value):
        raise ValueError(f"the expert's action is {kind_of(value)}, and must be a text")
    return value


def checked_range(rewards: Any) -> Range | None:
    """A caller's range of rewards.

    Raises:
        ValueError: it is none.
    """
    if rewards is None:
        return None
    low, high = rewards
    if not (is_number(low) and is_number(high) and low <= high):
        raise ValueError(f"reward_range must be two finite numbers, the least and the greatest; got {rewards!r}")
    return float(low), float(high)


def checked_timeout(timeout: float | None) -> float | None:
    """A caller's limit.

    Raises:
        ValueError: it is none.
    """
    if timeout is not None and not (math.isfinite(timeout) and 0 < timeout <= MAX_SECONDS):
        raise ValueError(f"timeout must be a positive number of seconds, at most {MAX_SECONDS:g}; got {timeout!r}")
    return timeout
