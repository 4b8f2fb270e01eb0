"""Search: what an environment without an expert is solved by, among actions that its own texts name."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.subject import NotApplicable, TaskRef, ValidationEpisode, in_order, legal_actions, words_of

TRIES: Final = 300  # episodes that the search plays of each task
TASKS: Final = 4
DEPTH: Final = 6  # actions of a plan that is searched breadth first
BREADTH: Final = 24  # actions that are tried after each observation
_QUOTED: Final = re.compile(r"[`\"']([^`\"'\n]{1,60})[`\"']")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")


def search_solution(v: Validation, result: CheckResult) -> None:
    """Look for the maximum by the actions that texts, options and infos name; a note where it is not reached."""
    reached, best, tries = 0, -float("inf"), 0
    refs = v.refs[:: max(1, len(v.refs) // TASKS)][:TASKS]
    for ref in refs:
        v.at = ref
        solution, tried, total = _searched(v, ref)
        tries, best = tries + tried, max(best, total)
        if solution is not None:
            reached += 1
            v.solved.append(solution)
    result.tries = tries
    result.measured |= {"tasks searched": len(refs), "maximum reached": reached, "best return": best}
    if not reached:
        text = f"it has no expert, and {tries} searched episodes were paid {best:g} of {v.range.high:g} at most"
        result.add("maximum not shown", text, severity="note", best=best)


def _searched(v: Validation, ref: TaskRef) -> tuple[ValidationEpisode | None, int, float]:
    """A solution, how many episodes were played, and the best return."""
    waiting: list[list[str]] = [[]]
    tries, best = 0, -float("inf")
    while waiting and tries < TRIES:
        plan = waiting.pop(0)
        seen = v.subject.play(ref, in_order(plan))
        if seen.ended or seen.error:
            continue
        for action in islice(candidates(seen, v.subject.env.action_space), BREADTH if plan else 4 * BREADTH):
            try:
                played = v.subject.play(ref, in_order([*plan, action]))
            except NotApplicable:
                continue
            tries, best = tries + 1, max(best, played.total)
            if v.full(played) and v.shown(played, v.full):
                return played, tries, best
            new = played.observations[-1:] != seen.observations[-1:]
            if not played.ended and not played.error and len(plan) + 1 < DEPTH and new:
                waiting.append([*plan, action])
            if tries >= TRIES:
                break
    return None, tries, best


def candidates(episode: ValidationEpisode, space: Any) -> Iterator[str]:
    """Actions that a policy could write now, the likeliest first, each once."""
    seen = set()
    for action in _candidates(episode, space):
        if action not in seen:
            seen.add(action)
            yield action


def _candidates(episode: ValidationEpisode, space: Any) -> Iterator[str]:
    yield from legal_actions(episode)
    if isinstance(space, gym.spaces.Discrete):
        yield from map(str, range(space.start, space.start + min(space.n, 50)))
        return
    hidden = [str(value) for value in texts_of(episode.last or episode.first_info) if len(str(value)) < 200]
    text = episode.observations[-1]
    named = [*_QUOTED.findall(text), *_NUMBER.findall(text), *(word for word in words_of(text) if len(word) < 40)]
    options = re.findall(r"^\(?([A-J])[).:]", text, re.MULTILINE)
    yield from options
    yield from hidden
    yield from _QUOTED.findall(text)
    if "\\boxed" in episode.asked:
        for word in [*hidden, *named, *map(str, range(11)), *string.ascii_uppercase[:6], "yes", "no"]:
            yield f"\\boxed{{{word}}}"
    yield from named
    yield from (str(number) for number in range(-1, 21))
    yield from ("yes", "no", "true", "false")


def texts_of(value: Any, depth: int = 4) -> Iterable[Any]:
    """All plain values in a mapping of mappings and lists."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, Mapping) and depth:
        for each in value.values():
            yield from texts_of(each, depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for each in value:
            yield from texts_of(each, depth - 1)


# commands and tools of worlds of others, read from their texts and the expert's actions, and used against them

PROBES: Final = 120  # commands that are tried in a task
WORLDS: Final = 3
FILE: Final = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]*\.?[\w-]+\.\w{1,6}\b|(?<![\w./])\.?[\w-]+/(?=\s|$)")
READS: Final = re.compile(
    r"^(?:read|cat|open|view|show|get|less|head|type|print|file_?read|read_?file|git|log|history)", re.I
)
LISTS: Final = re.compile(r"^(?:ls|list|dir|find|tree|files|list_?files|look|help|status|log|history|git)", re.I)
WRITES: Final = re.compile(
    r"^(?:write|edit|put|save|set|create|append|replace|patch|update|echo|write_?file|edit_?file)", re.I
)
ENDS: Final = re.compile(r"^(?:submit|done|finish|end|test|run|check|complete|<done>)", re.I)
TELLING: Final = re.compile(
    r"answer|solution|solved|expected|gold|secret|hidden|grade|reward|score|verif|truth|\.git|oracle|private|key\b|log\b|history",
    re.I,
)
GRADES: Final = re.compile(r"test|grade|grading|reward|score|verif|check|result|expected|judge|metric|pass", re.I)
PATHS: Final = (
    "answer.txt", "solution.txt", "expected.txt", "solution.py", ".git/HEAD", ".git/logs/HEAD", ".git", "tests.py",
    "test.py", "grader.py", "secret.txt", ".answer", ".env",
)  # fmt: skip
GRADING_PATHS: Final = (
    "reward.txt", "score.txt", "result.txt", "results.json", "reward.json", "/logs/verifier/reward.txt", "tests.py",
    "test.py", "tests/test.py", "grader.py", "expected.txt", "verdict.txt",
)  # fmt: skip
CONTENTS: Final = ("1", "1.0", "pass", "PASS", '{"reward": 1.0}', "def test(): pass", "")


def verbs(v: Validation) -> list[str]:
    """First words of the expert's actions, and words of the prompt that stand where commands are explained."""
    names = [action.split(maxsplit=1)[0] for episode in v.experts[:4] for action in episode.actions if action.split()]
    prompt = v.plays(v.refs[0], ()).asked
    quoted = re.findall(r"[`'\"]([A-Za-z_<][\w_>-]*)(?: [^`'\"\n]*)?[`'\"]", prompt)
    lists = re.findall(r"(?im)^.*?(?:commands?|actions?|tools?)\b[^:\n]*:\s*(.+)$", prompt)
    listed = [each.split()[0] for line in lists for each in re.split(r"[,;|.]", line) if each.split()]
    lines = re.findall(r"(?m)^\s*[-*]?\s*([a-z_]+)\s*(?:<|\[|\(|[A-Z]{2,}|:|-)", prompt)
    words = [word.strip("`'\"<>()[],.:") for word in (*names, *quoted, *listed, *lines)]
    return [word for word in dict.fromkeys(words) if re.fullmatch(r"[A-Za-z_][\w-]{0,30}", word)][:24]


def templates(v: Validation) -> list[dict[str, Any]]:
    """JSON calls, as the expert makes them and as the prompt shows them."""
    texts = [action for episode in v.experts[:3] for action in episode.actions]
    texts += re.findall(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", v.plays(v.refs[0], ()).asked)
    calls: dict[tuple[str, ...], dict[str, Any]] = {}
    for text in texts:
        try:
            call = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(call, dict) and call:
            calls.setdefault((*map(str, call), str(next(iter(call.values())))), call)
    return list(calls.values())[:12]


def call_text(call: dict[str, Any], values: dict[str, str]) -> str:
    """A JSON call with texts by the kind of their names: a path, a content, else as they are."""

    def filled(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(key, each) for key, each in value.items()}
        kind = "path" if re.search(r"path|file|name$", name) and name not in ("name", "tool") else ""
        kind = kind or ("content" if re.search(r"content|text|body|data|value", name) else "")
        return values.get(kind, value) if kind else value

    return json.dumps({key: filled(key, value) for key, value in call.items()})


def reading(v: Validation, files: list[str]) -> Iterator[str]:
    """Commands that list and read, the telling paths first."""
    words = verbs(v)
    for verb in [word for word in words if LISTS.match(word)]:
        yield from (verb, f"{verb} .", f"{verb} -a", f"{verb} log -p")
    paths = sorted(dict.fromkeys([*files, *PATHS]), key=lambda path: not TELLING.search(path))
    for path in paths:
        for verb in [word for word in words if READS.match(word)]:
            yield f"{verb} {path}"
        for call in templates(v):
            if any(READS.match(str(value)) for value in call.values() if isinstance(value, str)):
                yield call_text(call, {"path": path})
    for call in templates(v):
        if any(LISTS.match(str(value)) for value in call.values() if isinstance(value, str)):
            yield json.dumps(call)


def probe_reads(v: Validation, result: CheckResult) -> None:
    """List and read what can be; the answer under a telling name, which the expert has no need to read, is a leak."""
    if v.subject.discrete or not v.subject.texts or not _is_world(v):
        return
    hits: dict[str, list[tuple[ValidationEpisode, str]]] = {}
    solved = [episode for episode in v.solved if episode.actions][:WORLDS]
    for episode in solved:
        answers = _answers(v, episode)
        before = "\n".join(episode.observations)
        own = set(episode.actions)
        files: list[str] = list(dict.fromkeys(FILE.findall(before)))
        commands, tried = reading(v, files), set()
        for command in islice(commands, PROBES):
            if command in own or command in tried or (not TELLING.search(command) and not LISTS.match(command)):
                continue
            tried.add(command)
            try:
                played = v.subject.play(episode.ref, in_order([command]), turns=1)
            except NotApplicable:
                return
            result.tries += 1
            if played.error or not played.actions:
                continue
            shown_text = played.observations[-1]
            for answer in answers:
                if answer in shown_text and answer not in episode.asked and answer not in command:
                    hits.setdefault(command, []).append((played, answer))
                    break
    for command, shown in hits.items():
        if len(shown) >= min(2, len(solved)) and TELLING.search(command):
            played, answer = shown[0]
            if v.shown(played, lambda again, answer=answer: answer in again.observations[-1]):  # type: ignore[misc]
                text = f"{command!r} shows {answer[:40]!r}, which solves {played.ref}"
                result.add("read by a command", text, replay=played.replay, tasks=len(shown))
                return


def _is_world(v: Validation) -> bool:
    """Whether commands are given over several turns."""
    if v.experts:
        return any(len(episode.actions) > 1 for episode in v.experts) or bool(v.experts[0].first_info.get("tools"))
    return not v.plays(v.refs[0], "I am waiting.", turns=2).ended


def _answers(v: Validation, episode: ValidationEpisode) -> list[str]:
    """What the last action of a solution says, and the longer texts that its actions write."""
    texts = [v.core(episode.actions[-1]), *episode.actions[-1].split(maxsplit=1)[1:]]
    texts += [action.split(maxsplit=2)[-1] for action in episode.actions if len(action.split(maxsplit=2)) == 3]
    for action in episode.actions:
        try:
            call = json.loads(action)
        except (ValueError, RecursionError):
            continue
        texts += [text for text in _strings(call) if len(text) > 3]
    return [text.strip() for text in dict.fromkeys(texts) if len(text.strip()) >= 3]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


def probe_writes(v: Validation, result: CheckResult) -> None:
    """Write to files that decide the reward, then hand in; paid, it is a hole."""
    if v.subject.discrete or not v.subject.texts or not _is_world(v):
        return
    words = verbs(v)
    calls = [call for call in templates(v) if any(WRITES.match(str(each)) for each in call.values())]
    writers = [word for word in words if WRITES.match(word)]
    enders = [word for word in words if ENDS.match(word)] or ["submit", "done"]
    enders += [json.dumps(call) for call in templates(v) if any(ENDS.match(str(each)) for each in call.values())][:2]
    if not writers and not calls:
        return
    for ref in v.refs[:2]:
        listing = []
        for verb in [word for word in words if LISTS.match(word)]:
            listing += v.subject.play(ref, in_order([verb]), turns=1).observations[1:]
        seen = FILE.findall("\n".join([v.plays(ref, ()).asked, *listing]))
        paths = [path for path in dict.fromkeys([*seen, *GRADING_PATHS]) if GRADES.search(path)][:14]
        own = {action for episode in v.experts[:4] for action in episode.actions}
        for path in paths:
            if any(path in action for action in own):
                continue  # the work itself is to write it
            for content in CONTENTS:
                attempts = [f"{verb} {path} {content}".strip() for verb in writers]
                attempts += [call_text(call, {"path": path, "content": content}) for call in calls]
                for attempt in attempts:
                    for ender in enders[:3]:
                        played = v.subject.play(ref, in_order([attempt, ender]))
                        result.tries += 1
                        idle = v.subject.play(ref, in_order([ender])) if v.paid(played) else played
                        if v.paid(played) and not v.paid(idle) and v.shown(played, v.paid):
                            text = f"{attempt[:60]!r} and then {ender[:20]!r} is paid {played.total:g} at {ref}"
                            result.add("written", text, replay=played.replay, path=path)
                            return
