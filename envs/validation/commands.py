"""What the texts of an environment and its expert's actions name as commands and tools, and calls of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.declared import declared_calls

READS: Final = re.compile(
    r"^(?:read|cat|open|view|show|get|less|head|type|print|file_?read|read_?file|git|log|history|diff|blame|checkout|inspect)",
    re.I,
)
LISTS: Final = re.compile(
    r"^(?:ls|list|dir|find|tree|files|keys|list_?files|look|help|status|values|settings|inventory)|^(?:get|show|read)_?all",
    re.I,
)
HISTORY: Final = re.compile(
    r"^(?:git|log|history|stash|diff|blame|reflog|commits?|changes|revisions?|versions?|backups?|trash|undo|branch)",
    re.I,
)
WRITES: Final = re.compile(
    r"^(?:write|edit|put|save|set|create|append|replace|patch|update|echo|write_?file|edit_?file)", re.I
)
ENDS: Final = re.compile(r"^(?:submit|done|finish|end|test|run|check|complete|close|stop|<done>)", re.I)
_SIGNATURE: Final = re.compile(r"(?<![\w.])([a-z_]\w{1,30})\(([^()\n]{0,120})\)")
_TOOL_KEYS: Final = ("tool", "name", "function", "action", "command", "type", "method")
_LISTED: Final = re.compile(
    r"(?i)(?:\b(?:commands?|actions?|moves?|verbs?|options|tools?|can|may)\b[^:\n.]{0,40}:|\breply with)\s*([^.\n]+)"
)
# What a prompt writes in capitals behind a command, or in brackets, is an argument.
_ARGUMENT: Final = r"(?:[A-Z][A-Z_]*\d?|<[a-z_ ]+>|\[[a-z_ ]+\])"
_FORM: Final = re.compile(rf"(?<!\w)([a-z][a-z_-]*(?: [a-z]+){{0,2}})((?:(?: >)? {_ARGUMENT})+)(?!\w)")
NAMED: Final = re.compile(r"(?<![\w./-])[\w-]+\.[a-z]{1,5}\b")


def verbs(v: Validation) -> list[str]:
    """First words of the expert's actions, and words of the prompt that stand where commands are explained."""
    names = [action.split(maxsplit=1)[0] for episode in v.experts[:4] for action in episode.actions if action.split()]
    prompt = v.opening(v.refs[0]).asked
    quoted = re.findall(r"[`'\"]([A-Za-z_<][\w_>-]*)(?: [^`'\"\n]*)?[`'\"]", prompt)
    lists = re.findall(r"(?im)^.*?(?:commands?|actions?|tools?)\b[^:\n]*:\s*(.+)$", prompt)
    listed = [each.split()[0] for line in lists for each in re.split(r"[,;|.]", line) if each.split()]
    lines = re.findall(r"(?m)^\s*[-*]?\s*([a-z_]+)\s*(?:<|\[|\(|[A-Z]{2,}|:|-)", prompt)
    words = [word.strip("`'\"<>()[],.:") for word in (*names, *quoted, *listed, *lines)]
    return [word for word in dict.fromkeys(words) if re.fullmatch(r"[A-Za-z_][\w-]{0,30}", word)][:24]


def templates(v: Validation) -> list[dict[str, Any]]:
    """JSON calls: as the expert makes them, as the prompt shows them, and of the tools that it names in that form."""
    texts = [action for episode in v.experts[:3] for action in episode.actions]
    prompt = v.opening(v.refs[0]).asked
    texts += re.findall(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", prompt)
    calls: dict[tuple[str, ...], dict[str, Any]] = {}
    for text in texts:
        try:
            call = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(call, dict) and call:
            calls.setdefault((*map(str, call), str(next(iter(call.values())))), call)
    shown = list(calls.values())[:12]
    return [*shown, *_signed(prompt, shown)][:24]


def _signed(prompt: str, shown: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A call of each tool that the prompt writes as name(arguments) and ``shown`` does not hold."""
    form = next((call for call in shown for key in _TOOL_KEYS if isinstance(call.get(key), str)), None)
    if form is None:
        return
    tool_key = next(key for key in _TOOL_KEYS if isinstance(form.get(key), str))
    arguments_key = next((key for key, value in form.items() if isinstance(value, dict)), None)
    for name, listed in dict(_SIGNATURE.findall(prompt)).items():
        if any(call.get(tool_key) == name for call in shown):
            continue
        arguments = {each.split(":")[0].strip(): 1 for each in listed.split(",") if each.strip().isidentifier()}
        yield {tool_key: name, arguments_key: arguments} if arguments_key else {tool_key: name, **arguments}


def tool_of(call: Mapping[str, Any]) -> str:
    """The tool that a call names; "" where none is."""
    return next((call[key] for key in _TOOL_KEYS if isinstance(call.get(key), str)), "")


def enders(v: Validation) -> list[str]:
    """Actions that hand in, or stop: the one that the expert always ends by, and those whose names say so."""
    if not v.subject.texts:
        return []  # words of an observation name no action of a space of numbers
    lasts = {episode.actions[-1] for episode in v.experts if len(episode.actions) > 1}
    several = any(len(episode.actions) > 1 for episode in v.experts)
    named = [json.dumps(call) for call in templates(v) if ENDS.match(tool_of(call)) and not has_arguments(call)]
    words = [word for word in verbs(v) if ENDS.match(word)]
    listed = _listed_enders(v) if not v.experts else []
    return list(dict.fromkeys([*(lasts if several and len(lasts) == 1 else ()), *named, *words, *listed]))[:8]


def _listed_enders(v: Validation) -> list[str]:
    """Commands of the prompt, and calls of declared tools, that always end the episode at once where others do not."""
    commands = unargued_commands(v.opening(v.refs[0]).asked)
    commands += [texts[0] for texts in declared_calls(v).values()]
    ending = [each for each in commands if all(v.opening(ref, each).ended for ref in v.refs[:3])]
    return ending if len(ending) < len(commands) else []


def has_arguments(call: Mapping[str, Any]) -> bool:
    """Whether a call has an argument that is not empty."""
    return any(bool(value) for key, value in call.items() if key not in _TOOL_KEYS)


def plain_commands(prompt: str) -> list[str]:
    """The commands of a prompt that lists them, where none takes an argument: all that there is to do."""
    for listed in _LISTED.findall(prompt):
        commands = [each.strip(" `'\"") for each in re.split(r",|;|\bor\b|\band\b", listed)]
        commands = [each for each in commands if each]
        if len(commands) >= 2 and all(re.fullmatch(r"[a-z][a-z_-]{0,20}", each) for each in commands):
            return list(dict.fromkeys(commands))
    return []


def unargued_commands(prompt: str) -> list[str]:
    """The commands that a prompt lists and that take no argument, beside others that may."""
    listed = [
        each.strip(" `'\"()") for text in _LISTED.findall(prompt) for each in re.split(r"[,;|]|\bor\b|\band\b", text)
    ]
    listed += re.findall(r"[`'\"]([a-z][a-z_-]{1,20})[`'\"]", prompt)
    return [each for each in dict.fromkeys(listed) if re.fullmatch(r"[a-z][a-z_-]{1,20}(?: [a-z]{1,12})?", each)][:12]


def filled(prompt: str, values: Iterable[str], more: Iterable[str] = ()) -> Iterator[str]:
    """Commands of the forms that a prompt shows, such as ``write PATH``, with values in the places of arguments.

    Args:
        prompt: all that is asked.
        values: what the last argument may be, the likeliest first.
        more: what other arguments may be, beside the words and numbers of the prompt.
    """
    values, files = list(dict.fromkeys(values)), list(dict.fromkeys(NAMED.findall(prompt)))
    words = list(dict.fromkeys([*more, *re.findall(r"[A-Za-z][\w-]*|\d[\w.]*\w|\d", prompt)]))
    shown = []
    for verb, arguments in dict.fromkeys(_FORM.findall(prompt)):
        parts, names = verb.split(), re.findall(_ARGUMENT, arguments)
        # Of "or answer N", the command is "answer".
        shown += [(" ".join(parts[begin:]), arguments, names) for begin in range(len(parts))]
    signed = [name for name, _ in dict.fromkeys(_SIGNATURE.findall(prompt))]
    for value in values:
        for verb, arguments, names in shown:
            pools = [files if re.search("PATH|FILE|path|file", name) else [] for name in names]
            if len(names) == 1:
                yield f"{verb} {value}"
                yield from (f"{verb} {path}\n{value}" for path in pools[0][:4])
            elif len(names) == 2 and pools[1]:
                put = arguments.replace(names[0], value, 1)
                yield from (verb + put.replace(names[1], path) for path in pools[1][:4])
            elif len(names) == 2:
                first = pools[0][:4] or [word for word in words if word.lower() not in verb][:40]
                yield from (verb + arguments.replace(names[1], value).replace(names[0], word, 1) for word in first)
        yield from (f"{name}({value})" for name in signed)


def call_text(call: dict[str, Any], values: dict[str, str]) -> str:
    """A JSON call with texts by the kind of their names: a path, a content, else as they are."""

    def filled(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(key, each) for key, each in value.items()}
        kind = "path" if re.search(r"path|file|name$", name) and name not in ("name", "tool") else ""
        kind = kind or ("content" if re.search(r"content|text|body|data|value", name) else "")
        return values.get(kind, value) if kind else value

    return json.dumps({key: filled(key, value) for key, value in call.items()})


# what is near a legal action, and is none

NUMBERS: Final = (0, -1, 99, 999, 99_999, 10**9)


def out_of_range(action: str) -> Iterator[str]:
    """The action with numbers that it cannot have; a JSON call with its tool and texts as they were."""
    call = _as_call(action)
    for number in NUMBERS:
        if call is not None:
            changed = _mapped(call, lambda value, number=number: number if _is_number(value) else value)
            if changed != call:
                yield json.dumps(changed)
        elif (text := re.sub(r"-?\d+(?:\.\d+)?", str(number), action)) != action:
            yield text


def of_another_form(action: str) -> Iterator[str]:
    """A JSON call whose arguments are left out, or are of another type."""
    call = _as_call(action)
    if call is None:
        return
    values: tuple[Any, ...] = (None, [], {}, "zzz", -1, 1.5, "9" * 400)
    for path in list(_paths(call)):
        for value in values:
            yield json.dumps(_put(call, path, value))
        yield json.dumps(_put(call, path, None, leave_out=True))
    yield json.dumps({**call, "zzz": 1})
    yield json.dumps([call])


def _as_call(action: str) -> dict[str, Any] | None:
    try:
        call = json.loads(action)
    except (ValueError, RecursionError):
        return None
    return call if isinstance(call, dict) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    return change(value)


def _paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, each in value.items() if isinstance(value, dict) else ():
        yield (*path, key)
        yield from _paths(each, (*path, key))


def _put(call: dict[str, Any], path: tuple[str, ...], value: Any, leave_out: bool = False) -> dict[str, Any]:
    head, *rest = path
    if rest:
        return {**call, head: _put(call[head], tuple(rest), value, leave_out)}
    return {key: each for key, each in call.items() if key != head} if leave_out else {**call, head: value}
