"""Commands and tools of worlds of others used against them: what can be read that tells, and written that is graded."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from rlvr.envs.validation.commands import (
    HISTORY,
    LISTS,
    NAMED,
    READS,
    WRITES,
    call_text,
    enders,
    has_arguments,
    of_another_form,
    templates,
    tool_of,
    unargued_commands,
    verbs,
)
from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.declared import declared_calls
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.search import plain_values
from rlvr.envs.validation.source import names_in_code
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
# What shows files and the past, where commands of a shell are understood.
SHELL: Final = (
    "ls -la", "find .", "git log -p --all", "git show", "git stash list", "git stash show -p", "git reflog",
    "git diff HEAD~1", "git branch -a", "env", "history",
)  # fmt: skip
SETS: Final = re.compile(r"^(?:set|put|update)", re.I)  # a key
CONTENTS: Final = ("1", "1.0", "pass", "PASS", '{"reward": 1.0}', "def test(): pass", "", "[]", "{}")


def is_world(v: Validation) -> bool:
    """Whether commands are given over several turns."""
    if v.subject.discrete or not v.subject.texts:
        return False
    if any(len(episode.actions) > 1 or episode.first_info.get("tools") for episode in v.experts):
        return True
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
            named = not HISTORY.match(command) and _named_in(command, episode.asked)
            if command in own or not tells or named:
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


def probe_state(v: Validation, result: CheckResult) -> None:
    """A command without arguments shows what the solution needs several turns to learn, and never sees."""
    solved = [episode for episode in v.solved if len(episode.actions) >= 3][:WORLDS]
    if len(solved) < 2 or not is_world(v) or _lists_moves(v):
        return
    own = {action for episode in v.solved for action in episode.actions}
    bare = [json.dumps(call) for call in templates(v) if not has_arguments(call)]
    bare += [text for texts in declared_calls(v).values() for text in texts[:2]]
    commands = [each for each in [*bare, *unargued_commands(solved[0].asked), *STATES] if each not in own]
    for command in dict.fromkeys(commands):
        hits = []
        for episode in solved:
            answers = set(re.findall(r"\w*\d\w*", episode.actions[-1]))
            seen = "\n".join([episode.asked, *episode.observations[:-1]])
            played, nonsense = _played(v, episode.ref, command), _played(v, episode.ref, "zzkq")
            seen += _shown_text(nonsense) if nonsense is not None else ""  # an example of what can be done
            result.tries += 1
            shown = next(
                (
                    a
                    for a in answers
                    if len(a) >= 2 and played and _holds(_shown_text(played), a) and not _holds(seen, a)
                ),
                None,
            )
            hits += [(played, shown)] if played is not None and shown is not None else []
        if len(hits) == len(solved) and len({answer for _, answer in hits}) >= 2 and _is_shown(v, *hits[0]):
            text = f"{command!r} shows {hits[0][1]!r}, which the solution of {hits[0][0].ref} learns in several turns"
            result.add("shown by a command", text, replay=hits[0][0].replay, tasks=len(hits))
            return


STATES: Final = ("status", "state", "debug", "info", "dump", "help", "cheat", "hint", "reveal", "solution", "answer")


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
        listing = [v.opening(ref).asked]
        listing += [_shown_text(played) for played, _ in islice(_explored(v, ref, lists_only=True), 12)]
        shell = _answers_shell(v, ref)
        chunks = [[call] for call in _settings(templates(v), [*listing, *names_in_code(v.author)])]
        writes = list(dict.fromkeys(_written(v, writers, calls, listing, own, shell)))
        chunks += [writes[begin : begin + TOGETHER] for begin in range(0, len(writes), TOGETHER)]
        others = [episode.actions for episode in v.experts if episode.ref is not ref and episode.actions]
        differs = [actions for actions in others if actions[-1] != others[0][-1]] and max(map(len, others)) == 1
        endings = [*([ender] for ender in ends[:2]), *(others[:1] if differs else ())]
        for together, end in itertools.product(chunks, endings):
            played = _paid_attempt(v, result, ref, together, end)
            if played is not None:
                text = f"{played.actions[0][:60]!r} and then {end[-1][:60]!r} is paid {played.total:g} at {ref}"
                result.add("written", text, replay=played.replay)
                return


TOGETHER: Final = 6  # attempts that are played in one episode


def _paid_attempt(
    v: Validation, result: CheckResult, ref: TaskRef, attempts: list[str], end: list[str]
) -> ValidationEpisode | None:
    """An episode of one of the attempts and an end, if it is paid and the end alone is not."""
    played = v.subject.play(ref, in_order([*attempts, *end]))
    result.tries += 1
    if len(attempts) > 1:
        if len(played.actions) == len(attempts) + len(end) and played.valid and not v.paid(played):
            return None
        each = (_paid_attempt(v, result, ref, [attempt], end) for attempt in attempts)
        return next((episode for episode in each if episode is not None), None)
    is_paid = v.paid(played) and not v.paid(v.subject.play(ref, in_order(end))) and v.shown(played, v.paid)
    return played if is_paid else None


def _written(
    v: Validation, writers: list[str], calls: list[dict[str, Any]], listing: list[str], own: set[str], shell: bool
) -> Iterator[str]:
    """Commands that write to what is named like a part of the grading, and is no part of the work."""
    in_code = [name for name in names_in_code(v.author) if re.search(r"[./]", name)]
    paths = dict.fromkeys([*FILE.findall("\n".join(listing)), *in_code, *GRADING_PATHS])
    graded = [path for path in paths if GRADES.search(path) and not path.endswith("/")][:14]
    words = dict.fromkeys(re.findall(r"[A-Za-z_]\w+", "\n".join(listing)))
    keys = [word for word in words if GRADES.search(word)][:14]
    graded, keys = (
        [name for name in names if not any(name in action for action in own)]  # to write it is the work
        for names in (graded, keys)
    )
    for content in CONTENTS:
        yield from (f"{verb} {key} {content}" for verb in writers if SETS.match(verb) for key in keys if content)
        for verb in writers:
            yield from (f"{verb} {path} {content}".strip() for path in graded)
            yield from (f"{verb} {path}\n{content}" for path in graded)
        for call in calls:
            yield from (call_text(call, {"path": path, "content": content}) for path in graded)
        for name, texts in declared_calls(v, graded).items() if content == CONTENTS[0] else ():
            yield from (text for text in texts if WRITES.match(name) and any(path in text for path in graded))
        if shell:
            yield from (f"echo {shlex.quote(content)} > {path}" for path in graded)
            yield from (f"echo {content} > {path}" for path in graded)


def _settings(calls: list[dict[str, Any]], listing: list[str]) -> Iterator[str]:
    """Calls that set what is named like a rule of the grading, and is no part of the work."""
    names = [word for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w+", "\n".join(listing))) if SETTINGS.search(word)]
    for value, call in itertools.product((10**6, 0, -1), calls):
        arguments = next((each for each in call.values() if isinstance(each, dict)), call)
        texts = [key for key, each in arguments.items() if isinstance(each, str) and each != tool_of(call)]
        numbers = [key for key, each in arguments.items() if isinstance(each, (int, float))]
        if len(texts) == 1 and len(numbers) == 1:
            pairs = [(texts[0], numbers[0])]
        elif len(texts) + len(numbers) == 2 and re.search("set|config|option|param|prefer", tool_of(call)):
            first, second = [*texts, *numbers]
            pairs = [(first, second), (second, first)]
        else:
            continue
        for (name_key, value_key), name in itertools.product(pairs, names[:12]):
            changed = {**arguments, name_key: name, value_key: value}
            yield json.dumps(
                changed if arguments is call else {k: changed if v is arguments else v for k, v in call.items()}
            )


def _explored(v: Validation, ref: TaskRef, lists_only: bool = False) -> Iterator[tuple[ValidationEpisode, bool]]:
    """Each command that lists or reads, played alone, and whether what it reads is told by its name or the history."""
    words, calls = verbs(v), templates(v)
    names: dict[str, bool] = {}
    past_names: dict[str, bool] = {}
    files = NAMED.findall(v.opening(ref).asked)[:3]
    lists = [
        f"{word}{more}" for word in words if LISTS.match(word) or HISTORY.match(word) for more in ("", " .", " -a")
    ]
    lists += [command for command in SHELL if command.startswith("git") and "git" in words]
    lists += [command for command in SHELL if _answers_shell(v, ref)]
    lists += [changed for call in calls for command in SHELL for changed in _shell_calls(call, command)]
    lists += [json.dumps(call) for call in calls if LISTS.match(tool_of(call)) or HISTORY.match(tool_of(call))]
    lists += [text for name, texts in declared_calls(v).items() if not WRITES.match(name) for text in texts]
    for command in lists:
        if (played := _played(v, ref, command)) is not None:
            tool = tool_of(_call_of(command))
            past = bool(HISTORY.match(command) or HISTORY.match(tool))
            shown_text = _shown_text(played)
            if past:
                past_names |= dict.fromkeys(re.findall(r"(?m)^\W*([\w./-]{2,40})\b", shown_text), True)
                names |= past_names
            names |= {path: bool(TELLING.search(path)) for path in FILE.findall(shown_text)}
            yield played, past or bool(TELLING.search(tool))
    names |= dict.fromkeys(PATHS, True)
    in_code = [name for name in names_in_code(v.author) if re.search(r"[./]", name)]
    names = {name: bool(TELLING.search(name)) for name in in_code} | names
    reads = {name: texts for name, texts in declared_calls(v, tuple(names)).items() if READS.match(name)}
    for path, tells in sorted(names.items(), key=lambda item: not item[1]) if not lists_only else ():
        commands = [f"{word} {path}" for word in words if READS.match(word)]
        if "git" in words and path in past_names:
            commands += [f"git show {path}", *(f"git show {path}:{file}" for file in files)]
        commands += [f"cat {path}"] if "cat" not in words and _answers_shell(v, ref) else []
        commands += [changed for call in calls for changed in _shell_calls(call, f"cat {path}")]
        read = [(call, call_text(call, {"path": path})) for call in calls if READS.match(tool_of(call))]
        commands += [text for call, text in read if text != json.dumps(call)]
        commands += [text for texts in reads.values() for text in texts if json.dumps(path) in text]
        for command in commands:
            if (played := _played(v, ref, command)) is not None:
                yield played, tells


def _answers_shell(v: Validation, ref: TaskRef) -> bool:
    """Whether commands of a shell are understood: listing is answered otherwise than nonsense is."""
    listed, nonsense = _played(v, ref, "ls -la"), _played(v, ref, "zzkq -la")
    if listed is None or nonsense is None:
        return False
    return _shown_text(listed) != _shown_text(nonsense).replace("zzkq", "ls")  # where it is said again


def _shell_calls(call: dict[str, Any], command: str) -> Iterator[str]:
    """The call with a command of a shell, where it has an argument for one."""
    arguments = next((value for value in call.values() if isinstance(value, dict)), call)
    for key in arguments:
        if re.fullmatch(r"cmd|command|commands|script|bash|shell|keystrokes|input", key) and arguments[key] != tool_of(
            call
        ):
            changed = {**arguments, key: command}
            yield json.dumps(
                changed if arguments is call else {k: changed if v is arguments else v for k, v in call.items()}
            )


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
        call = json.loads(re.sub(r"</?tool_call>", "", command))
    except (ValueError, RecursionError):
        return {}
    return call if isinstance(call, dict) else {}


def _played(v: Validation, ref: TaskRef, command: str) -> ValidationEpisode | None:
    try:
        played = v.opening(ref, command)
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
        texts += _varying_words(v, episode)
    for action in episode.actions[-1:] if last_alone else episode.actions:
        texts += [str(value) for value in plain_values(_call_of(action)) if len(str(value)) > 3]
    return [text.strip() for text in dict.fromkeys(texts) if len(text.strip()) >= 3]


def _varying_words(v: Validation, episode: ValidationEpisode) -> list[str]:
    """The words of a solution that stand in no other task's."""
    others = " ".join(action for each in v.experts if each is not episode for action in each.actions)
    words = [word for action in episode.actions for word in re.findall(r"[\w.-]{4,}", action)]
    return [word for word in dict.fromkeys(words) if word not in others]


# the fix in the report, the question itself as its example

_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`\"'])|\n+")
_EXAMPLE: Final = re.compile(
    r"\b(?:for example|for instance|e\.g\.|example|sample|worked|demonstration|hint|such as)\b", re.I
)
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
        pieces += _varying_words(v, episode)
        pieces += [str(value) for action in episode.actions for value in plain_values(_call_of(action))]
    everywhere = v.experts[0].asked, v.experts[-1].asked
    sentences = [sentence for sentence in _SENTENCE.split(episode.asked) if words.search(sentence)]
    sentences = [sentence for sentence in sentences if not all(sentence in asked for asked in everywhere)]
    pieces = [piece.strip() for piece in pieces if len(piece.strip()) >= shortest]
    return next((piece for piece in pieces for sentence in sentences if _holds(sentence, piece)), None)
