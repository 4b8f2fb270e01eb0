"""Commands and tools of worlds of others used against them: what can be read that tells, and written that is graded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from rlvr.envs.validation.commands import (
    HISTORY,
    LISTS,
    READS,
    WRITES,
    call_text,
    enders,
    of_another_form,
    templates,
    tool_of,
    verbs,
)
from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.search import plain_values
from rlvr.envs.validation.subject import NotApplicable, TaskRef, ValidationEpisode, in_order, legal_actions

PROBES: Final = 120  # commands that are tried in a task
WORLDS: Final = 3
FILE: Final = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w-]*\.?[\w-]+\.\w{1,6}\b|(?<![\w./])\.?[\w-]+/(?=\s|$)")
TELLING: Final = re.compile(
    r"answer|solution|solved|expected|gold|secret|hidden|grade|reward|score|verif|truth|\.git|oracle|private|key\b|log\b"
    r"|history|tests?/|backup|\.bak|\.orig|~$|fixed|patch|reference",
    re.I,
)
GRADES: Final = re.compile(
    r"test|grade|grading|reward|score|verif|check|result|expected|judge|metric|pass|case|rubric|verdict|eval|log", re.I
)
SETTINGS: Final = re.compile(
    r"toleran|threshold|limit|margin|pass|score|reward|weight|max_|min_|allowed|required|strict|grade|points|bonus",
    re.I,
)
PATHS: Final = (
    "answer.txt", "solution.txt", "expected.txt", "solution.py", ".git/HEAD", ".git/logs/HEAD", ".git", "tests.py",
    "test.py", "grader.py", "secret.txt", ".answer", ".env", "tests/expected.txt",
)  # fmt: skip
GRADING_PATHS: Final = (
    "reward.txt", "score.txt", "result.txt", "results.json", "reward.json", "/logs/verifier/reward.txt", "tests.py",
    "test.py", "tests/test.py", "grader.py", "expected.txt", "verdict.txt",
)  # fmt: skip
CONTENTS: Final = ("1", "1.0", "pass", "PASS", '{"reward": 1.0}', "def test(): pass", "", "[]", "{}")


def is_world(v: Validation) -> bool:
    """Whether commands are given over several turns."""
    if v.subject.discrete or not v.subject.texts:
        return False
    if v.experts:
        return any(len(episode.actions) > 1 for episode in v.experts) or bool(v.experts[0].first_info.get("tools"))
    return not v.plays(v.refs[0], "I am waiting.", turns=2).ended


def probe_reads(v: Validation, result: CheckResult) -> None:
    """List and read what can be; the answer under a telling name or in the history, which no work needs, is a leak."""
    hits: dict[str, list[tuple[ValidationEpisode, str]]] = {}
    solved = [episode for episode in v.solved if episode.actions][:WORLDS]
    for episode in solved if is_world(v) else ():
        answers, own = _answers(v, episode), set(episode.actions)
        for played, tells in islice(_explored(v, episode.ref), PROBES):
            result.tries += 1
            command = played.actions[0]
            if command in own or not tells or _named_in(command, episode.asked):
                continue
            shown_text = _shown_text(played)
            for answer in answers:
                if answer in shown_text and answer not in episode.asked and answer not in command:
                    hits.setdefault(command, []).append((played, answer))
                    break
    for command, shown in hits.items():
        if len(shown) >= min(2, len(solved)) and _is_shown(v, *shown[0]):
            played, answer = shown[0]
            text = f"{command!r} shows {answer[:40]!r}, which solves {played.ref}"
            result.add("read by a command", text, replay=played.replay, tasks=len(shown))
            return


def readable(v: Validation, ref: TaskRef) -> str:
    """What commands that list and read show at the start of a task; "" where there are none."""
    if not is_world(v):
        return ""
    return "\n".join(_shown_text(played) for played, _ in islice(_explored(v, ref), PROBES))


def probe_messages(v: Validation, result: CheckResult) -> None:
    """Ask wrongly: a message on what is not there, or was not understood, does not quote the answer."""
    solved = [episode for episode in v.solved if episode.actions][:WORLDS]
    # Moves of which there are few stand in many a message.
    differ = len(solved) > 1 and len(set(v.gold)) >= 0.8 * len(v.gold)
    if not differ or not is_world(v) or _lists_moves(v):
        return
    hits = []
    for episode in solved:
        for command in islice(_wrong_commands(v, episode), PROBES // 2):
            played = _played(v, episode.ref, command)
            if played is None or played.ended:
                continue
            result.tries += 1
            shown_text = _shown_text(played)
            pieces = _answers(v, episode, last_alone=True)
            pieces = [each for each in pieces if len(each) >= 4 and each not in command]
            pieces = [each for each in pieces if not any(each in move for move in legal_actions(played))]
            answer = next((each for each in pieces if _holds(shown_text, each) and each not in episode.asked), None)
            if answer is not None:
                hits.append((played, answer))
                break
    if len(hits) == len(solved) and len({answer for _, answer in hits}) >= 2 and _is_shown(v, *hits[0]):
        played, answer = hits[0]
        text = f"the output of {played.actions[0][:40]!r}, which asks for nothing that is there, holds {answer[:40]!r}"
        result.add("told by a message", f"{text}, which solves {played.ref}", replay=played.replay, tasks=len(hits))


def probe_writes(v: Validation, result: CheckResult) -> None:
    """Write to files and settings that decide the reward, then hand in; paid, it is a hole."""
    if not is_world(v):
        return
    words, calls = verbs(v), [call for call in templates(v) if any(WRITES.match(str(each)) for each in call.values())]
    writers = [word for word in words if WRITES.match(word)]
    ends = enders(v) or ["submit", "done"]
    own = {action for episode in v.experts[:4] for action in episode.actions}
    for ref in v.refs[:2]:
        listing = [v.plays(ref, ()).asked]
        listing += [_shown_text(played) for played, _ in islice(_explored(v, ref, lists_only=True), 12)]
        attempts = [*_settings(templates(v), listing), *_written(v, writers, calls, listing, own)]
        for attempt in dict.fromkeys(attempts):
            for ender in ends[:2]:
                played = v.subject.play(ref, in_order([attempt, ender]))
                result.tries += 1
                if v.paid(played) and not v.paid(v.subject.play(ref, in_order([ender]))) and v.shown(played, v.paid):
                    text = f"{attempt[:60]!r} and then {ender[:20]!r} is paid {played.total:g} at {ref}"
                    result.add("written", text, replay=played.replay)
                    return


def _written(
    v: Validation, writers: list[str], calls: list[dict[str, Any]], listing: list[str], own: set[str]
) -> Iterator[str]:
    """Commands that write to what is named like a part of the grading, and is no part of the work."""
    paths = dict.fromkeys([*FILE.findall("\n".join(listing)), *GRADING_PATHS])
    for path in [path for path in paths if GRADES.search(path) and not path.endswith("/")][:14]:
        if any(path in action for action in own):
            continue  # the work itself is to write it
        for content in CONTENTS:
            for verb in writers:
                yield f"{verb} {path} {content}".strip()
                yield f"{verb} {path}\n{content}"
            yield from (call_text(call, {"path": path, "content": content}) for call in calls)


def _settings(calls: list[dict[str, Any]], listing: list[str]) -> Iterator[str]:
    """Calls that set what is named like a rule of the grading, and is no part of the work."""
    names = [word for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w+", "\n".join(listing))) if SETTINGS.search(word)]
    for call in calls:
        arguments = next((value for value in call.values() if isinstance(value, dict)), call)
        texts = [key for key, value in arguments.items() if isinstance(value, str) and value != tool_of(call)]
        numbers = [key for key, value in arguments.items() if isinstance(value, (int, float))]
        if len(texts) != 1 or len(numbers) != 1:
            continue
        for name in names[:12]:
            for value in (10**6, 0):
                changed = {**arguments, texts[0]: name, numbers[0]: value}
                yield json.dumps(
                    changed if arguments is call else {k: changed if v is arguments else v for k, v in call.items()}
                )


def _explored(v: Validation, ref: TaskRef, lists_only: bool = False) -> Iterator[tuple[ValidationEpisode, bool]]:
    """Each command that lists or reads, played alone, and whether what it reads is told by its name or the history."""
    words, calls = verbs(v), templates(v)
    names: dict[str, bool] = {}
    lists = [
        f"{word}{more}" for word in words if LISTS.match(word) or HISTORY.match(word) for more in ("", " .", " -a")
    ]
    lists += [f"{word} log -p" for word in words if word == "git"]
    lists += [json.dumps(call) for call in calls if LISTS.match(tool_of(call)) or HISTORY.match(tool_of(call))]
    for command in lists:
        if (played := _played(v, ref, command)) is not None:
            past = bool(HISTORY.match(command) or HISTORY.match(tool_of(_call_of(command))))
            shown_text = _shown_text(played)
            if past:
                names |= dict.fromkeys(re.findall(r"(?m)^\W*([\w./-]{2,40})\b", shown_text), True)
            names |= {path: bool(TELLING.search(path)) for path in FILE.findall(shown_text)}
            yield played, past
    names |= dict.fromkeys(PATHS, True)
    for path, tells in sorted(names.items(), key=lambda item: not item[1]) if not lists_only else ():
        commands = [f"{word} {path}" for word in words if READS.match(word)]
        commands += [call_text(call, {"path": path}) for call in calls if READS.match(tool_of(call))]
        for command in commands:
            if (played := _played(v, ref, command)) is not None:
                yield played, tells


def _wrong_commands(v: Validation, episode: ValidationEpisode) -> Iterator[str]:
    """The commands that there are, with arguments of which there are none."""
    yield from ("zzz", "help")
    for action in dict.fromkeys(episode.actions[:6]):
        if len(words := action.split(maxsplit=1)) == 2 and not action.startswith("{"):
            yield from (f"{words[0]} zzz", words[0])
        yield from islice(of_another_form(action), 12)
    asked = episode.asked
    for verb in verbs(v):
        for phrase in dict.fromkeys([verb, *re.findall(rf"\b({re.escape(verb)} [a-z]+)(?= [A-Z])", asked)]):
            yield from (f"{phrase} zzz", phrase)
    for call in templates(v):
        yield from islice(of_another_form(json.dumps(call)), 12)


def _lists_moves(v: Validation) -> bool:
    """Whether its texts list what can be done, and so the right move among others."""
    return v.subject.text_env is not None and v.subject.text_env.task.lists_moves


def _call_of(command: str) -> dict[str, Any]:
    try:
        call = json.loads(command)
    except (ValueError, RecursionError):
        return {}
    return call if isinstance(call, dict) else {}


def _played(v: Validation, ref: TaskRef, command: str) -> ValidationEpisode | None:
    try:
        played = v.subject.play(ref, in_order([command]), turns=1)
    except NotApplicable:
        return None
    return None if played.error or not played.actions else played


def _shown_text(played: ValidationEpisode) -> str:
    info = [str(value) for key, value in played.last.items() if key != "verdict" for value in plain_values(value)]
    return "\n".join([played.observations[-1], *info])


def _named_in(command: str, asked: str) -> bool:
    """Whether the prompt itself names the file that a command reads."""
    return any(path in asked for path in FILE.findall(command) if len(path) > 3)


def _holds(text: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) is not None


def _is_shown(v: Validation, played: ValidationEpisode, answer: str) -> bool:
    return v.shown(played, lambda again: answer in _shown_text(again))


def _answers(v: Validation, episode: ValidationEpisode, last_alone: bool = False) -> list[str]:
    """What the last action of a solution says, and the longer texts that its actions write."""
    texts = [v.core(episode.actions[-1]), *episode.actions[-1].split(maxsplit=1)[1:]]
    if not last_alone:
        texts += [action.split(maxsplit=2)[-1] for action in episode.actions if len(action.split(maxsplit=2)) == 3]
        texts += [action.partition("\n")[2] for action in episode.actions]
    for action in episode.actions[-1:] if last_alone else episode.actions:
        texts += [str(value) for value in plain_values(_call_of(action)) if len(str(value)) > 3]
    return [text.strip() for text in dict.fromkeys(texts) if len(text.strip()) >= 3]


# the fix in the report, the question itself as its example

_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`\"'])|\n+")
_EXAMPLE: Final = re.compile(r"\b(?:for example|for instance|e\.g\.|example|sample|worked|demonstration|hint)\b", re.I)
_FIX: Final = re.compile(
    r"\b(?:fixed|the fix|fix is|resolved|solved by|patched|corrected (?:in|by|to)|the patch|the solution|solution is|"
    r"the answer is|correct answer|closed by|merged|reverted)\b",
    re.I,
)


def probe_prompt(v: Validation, result: CheckResult) -> None:
    """A sentence of the prompt that gives an example, or says what the fix was, does not hold the answer."""
    if _lists_moves(v):
        return
    for name, words, shortest in (("the example", _EXAMPLE, 2), ("what says how it was solved", _FIX, 4)):
        hits, pieces = [], set()
        for episode in v.experts:
            piece = _prompted(v, episode, words, shortest) if v.full(episode) else None
            if piece is not None:
                hits.append(episode)
                pieces.add(piece)
        result.tries += len(v.experts)
        if len(hits) >= max(3, 0.8 * len(v.experts)) and len(pieces) >= 3:
            text = f"{name} in the prompt holds {piece or min(pieces)!r}, of the solution, at {hits[-1].ref}"
            text += f", and so in {len(hits)} of {len(v.experts)} tasks"
            result.add("told in the prompt", text, replay=hits[-1].replay, share=len(hits) / len(v.experts))
            return


def _prompted(v: Validation, episode: ValidationEpisode, words: re.Pattern[str], shortest: int) -> str | None:
    """The piece of a solution that such a sentence holds; None without one."""
    if len(episode.actions) == 1:
        pieces = [v.core(episode.actions[0])]
    else:
        pieces = [line for action in episode.actions for line in action.split("\n")[1:]]
        pieces += [str(value) for action in episode.actions for value in plain_values(_call_of(action))]
    everywhere = v.experts[0].asked, v.experts[-1].asked
    sentences = [sentence for sentence in _SENTENCE.split(episode.asked) if words.search(sentence)]
    sentences = [sentence for sentence in sentences if not all(sentence in asked for asked in everywhere)]
    pieces = [piece.strip() for piece in pieces if len(piece.strip()) >= shortest]
    return next((piece for piece in pieces for sentence in sentences if _holds(sentence, piece)), None)
