"""Clear: the texts ask for what is checked, and do not hold the answer."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rlvr.envs.validation.attacks import boxed
from rlvr.envs.validation.context import Skip, Validation, check, common_form
from rlvr.envs.validation.declared import declared_calls, declared_tools, unknown_tools
from rlvr.envs.validation.probes import probe_messages, probe_prompt, probe_reads, probe_state, probe_writes, readable
from rlvr.envs.validation.report import CheckResult, Severity
from rlvr.envs.validation.subject import NotApplicable, ValidationEpisode

CLEAR: Final = "Clear"
LEAKS: Final = 0.5  # share of prompts that may hold the answer by chance
MATERIAL: Final = 400  # words from which on a prompt is a text to read, which holds its answers
TELLING: Final = re.compile(
    r"answer|solution|expected|gold|target|correct|truth|reference|secret|hint|result|label|key\b|fix\b", re.IGNORECASE
)
TOKENS: Final = re.compile(
    r"<\|(?:im_start|im_end|endoftext|eot_id|start_header_id|end_header_id|eom_id)\|>|\[/?INST\]|<</?SYS>>"
)
ROLES: Final = re.compile(r"^(?:assistant|system):", re.IGNORECASE | re.MULTILINE)
CODE: Final = re.compile(r"```|\b(?:def|import|return|lambda|SELECT|#include|function)\b")
NAMING: Final = ("seed", "index", "level", "split", "env_id", "turn", "task_id", "id", "step", "episode")


@check(
    "semantic.no_solution_leakage",
    CLEAR,
    "The answer stands in nothing that the policy reads before it has worked for it.",
    number=30,
    remedy="Take the solution out of the prompt, the files and the tools' output.",
)
def no_solution_leakage(v: Validation, result: CheckResult) -> None:
    """Look for the answer in prompts, learn where it stands, and copy it from there; read files whose names tell."""
    if not v.experts:
        raise Skip("no answer is known to look for")
    _stands_in_prompts(v, result)
    _copied(v, result)
    probe_prompt(v, result)
    probe_reads(v, result)
    probe_messages(v, result)
    probe_state(v, result)


def _stands_in_prompts(v: Validation, result: CheckResult) -> None:
    """Where answers are in boxes and moves are not listed, most prompts, but for texts to read, do not hold them."""
    env = v.subject.text_env
    if env is None:
        return
    if env.task.lists_moves:
        result.measured["the prompt lists the moves"] = 1
        return
    held = tried = 0
    example = None
    for index, episode in enumerate(v.experts):
        answer = v.core(v.gold[index]) if "\\boxed" in v.gold[index] else None
        if len(episode.actions) > 1:
            v.plays(episode.ref, ())
            action = v.subject.env.unwrapped.direct_answer()  # type: ignore[attr-defined]
            answer = v.core(action) if action else None
        if answer is None or len(answer) < 2:
            continue
        prompt = episode.observations[0] + str(episode.first_info.get("system", ""))
        if len(prompt.split()) > MATERIAL:
            continue
        tried += 1
        if re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", prompt):
            held, example = held + 1, episode
    result.tries += tried
    result.measured |= {"answers in prompts": held, "prompts": tried}
    if tried >= 10 and held > LEAKS * tried and example is not None:
        text = f"the answer stands in {held} of {tried} prompts"
        result.add("the answer is not in the prompt", text, replay=example.replay, share=held / tried)


def _copied(v: Validation, result: CheckResult) -> None:
    """Copy what stands behind the same words of every prompt; where these words tell what it is, that is a leak."""
    answers = [v.core(reply) for reply in v.gold]
    if len(set(answers)) < 3:
        return
    contexts: Counter[str] = Counter()
    for episode, answer in zip(v.experts, answers, strict=True):
        if len(answer) < 1 or not v.full(episode):
            continue
        contexts.update({_context(before) for before in _befores(episode.asked, answer)})
    for context, count in contexts.most_common(3):
        if not context or count < max(3, 0.8 * len(v.experts)) or not TELLING.search(context):
            continue
        copied = []
        for index, episode in enumerate(v.experts[:12]):
            if (text := _after(episode.asked, context, answers[index])) is not None:
                copied.append((episode, text))
        result.tries += len(copied)
        if len(copied) >= 3 and len(copied) >= 0.8 * min(12, len(v.experts)):
            text = f"what stands behind {context[-40:]!r} in the prompt is the answer"
            text += f", in {count} of {len(v.experts)} tasks"
            result.add("copied from the prompt", text, replay=copied[0][0].replay, share=count / len(v.experts))
            return


def _befores(text: str, answer: str) -> Iterator[str]:
    for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text):
        yield text[: match.start()]


def _context(before: str) -> str:
    """The last few words before a place, on its line; digits do not count."""
    line = before.rpartition("\n")[2] or before[-60:]
    return re.sub(r"\d+", "0", " ".join(line.split()[-4:]))


def _after(text: str, context: str, answer: str) -> str | None:
    return next((answer for before in _befores(text, answer) if _context(before) == context), None)


@check(
    "runtime.oracle_containment",
    CLEAR,
    "What info holds before the first action is not the answer, and nobody can write what decides the reward.",
    number=22,
    remedy="Keep the answer in the environment; keep tests and reward files where the policy cannot write.",
)
def oracle_containment(v: Validation, result: CheckResult) -> None:
    """Look for the answer in the first info, under one name in most tasks; write to files that decide the reward."""
    if v.experts:
        _in_info(v, result)
    probe_writes(v, result)


def _in_info(v: Validation, result: CheckResult) -> None:
    paths: Counter[str] = Counter()
    answers = [v.core(reply) for reply in v.gold]
    if len(set(answers)) < 3:
        return
    for episode, answer in zip(v.experts, answers, strict=True):
        if answer:
            paths.update({path for path, text in leaves(episode.first_info) if text.strip() == answer.strip()})
            paths.update({path for path, text in leaves(episode.first_info) if len(answer) >= 6 and answer in text})
    result.tries += len(v.experts)
    for path, count in paths.most_common(1):
        known = path.rpartition(".")[2] in NAMING
        if count >= max(3, 0.8 * len(v.experts)):
            text = f"info{path} holds the answer in {count} of {len(v.experts)} tasks"
            severity: Severity = "medium" if known else "high"
            result.add("info", text, severity=severity, replay=v.experts[0].replay, share=count / len(v.experts))


def leaves(value: Any, path: str = "", depth: int = 5) -> Iterator[tuple[str, str]]:
    """The texts and numbers in an info with their paths; what is told to the policy as system, tools or examples is
    the prompt's."""
    if isinstance(value, Mapping) and depth:
        for key, each in value.items():
            if path or key not in ("system", "tools", "examples", "legal_actions", "action_mask"):
                yield from leaves(each, f"{path}.{key}", depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for each in value:
            yield from leaves(each, path, depth - 1)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield path, str(value)


@check(
    "sound.form",
    CLEAR,
    "The texts ask for the form and for every word that the checker needs.",
    remedy="Say in the prompt which form is wanted, with an example, or accept the others.",
)
def form(v: Validation, result: CheckResult) -> None:
    """Leave out each word that all solutions share; vary case, blanks, number formats, JSON and paths of solutions."""
    if not v.solved:
        raise Skip("no solution is known to vary")
    _unasked_wrapping(v, result)
    _unasked_words(v, result)
    _variants(v, result)


def _unasked_wrapping(v: Validation, result: CheckResult) -> None:
    """Leave out what stands around all answers, such as tags: no text shows it, and nothing is paid without it."""
    solved = [episode for episode in v.solved if len(episode.actions) == 1][:6]
    replies = [episode.actions[0] for episode in solved]
    if len(set(replies)) < 3 or max(map(len, replies)) > 200 or any(reply[:1] in "{[" for reply in replies):
        return
    head, tail = common_form(replies)
    if any((head + tail).count(opens) != (head + tail).count(closes) for opens, closes in ("()", "[]", "{}")):
        return  # which by chance all answers begin or end with
    marks = [each for each in re.findall(r"[^\s\w]+\w*[^\s\w]*", f"{head} {tail}") if each.strip(".,!?\"' ")]
    if not marks or any(mark in episode.asked for mark in marks for episode in solved[:2]):
        return
    refused = []
    for episode in solved:
        text = episode.actions[0][len(head) : len(episode.actions[0]) - len(tail)].strip()
        with contextlib.suppress(NotApplicable):
            played = v.plays(episode.ref, [text])
            result.tries += 1
            if v.full(played):
                return
            refused.append(played)
    if refused and v.shown(refused[0], v.not_full):
        text = f"the answer alone, {refused[0].actions[0][:60]!r}, is paid {refused[0].total:g}"
        around = " … ".join(each.strip() for each in (head, tail) if each.strip())
        text += f", and no text asks for {around[:60]!r} around it"
        result.add("unasked form", text, replay=refused[0].replay)


def _unasked_words(v: Validation, result: CheckResult) -> None:
    """A word is needed if no reply is paid without it, and unasked if no text of the environment has it."""
    solved = [episode for episode in v.solved if episode.actions][:6]
    if len({tuple(episode.actions) for episode in solved}) < 2:
        return
    known = readable(v, solved[0].ref).lower() + " tool_call name arguments " * bool(declared_tools(v))
    for episode in solved[:2]:
        infos = json.dumps(episode.infos[0], default=str)[:5_000]
        known += "\n".join([episode.asked, *episode.observations, infos]).lower()
    for turn in range(min(min(len(episode.actions) for episode in solved), 6)):
        replies = [episode.actions[turn] for episode in solved]
        if max(map(len, replies)) > 400 or any(CODE.search(text) for text in replies):
            continue
        for word in sorted(set.intersection(*map(_words, replies))):
            if word.lower() in known or re.fullmatch(r"-?[\d.]+", word):
                continue
            needed = _needed(v, result, solved, turn, word)
            if needed is not None:
                reply, pay = needed.actions[turn][:60], needed.total
                text = f"{word!r} is needed in every reply, and no text asks for it: {reply!r} is paid {pay:g}"
                result.add("unasked word", text, replay=needed.replay)
                return


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{2,}", text)) | {
        match[0] for match in re.finditer(r"[^\s{}\\<>/:=,;()\[\]\"'.]{2,}|\\\w+", text)
    }


def _needed(
    v: Validation, result: CheckResult, solved: list[ValidationEpisode], turn: int, word: str
) -> ValidationEpisode | None:
    """A solution that is not paid without a word, if none is; lines and the other words stay where they are."""
    refused = []
    for episode in solved:
        text = episode.actions[turn]
        without = re.sub(rf"(?<!\w){re.escape(word)}(?!\w) ?", "", text)
        without = without if without.strip() else "That is all."  # a word alone: another text in its place
        try:
            played = v.plays(episode.ref, [*episode.actions[:turn], without, *episode.actions[turn + 1 :]])
        except NotApplicable:
            return None
        result.tries += 1
        if not played.valid or v.full(played):
            return None
        refused.append(played)
    return refused[0] if v.shown(refused[0], v.not_full) else None


def _variants(v: Validation, result: CheckResult) -> None:
    """Replies that mean the same: refused ones are a finding where no text says that the form matters."""
    tried: Counter[str] = Counter()
    refused: dict[str, list[ValidationEpisode]] = {}
    for episode in v.solved[:6]:
        text = episode.actions[-1]
        for name, variant in variants(text):
            try:
                played = v.plays(episode.ref, [*episode.actions[:-1], variant])
            except NotApplicable:
                continue
            tried[name] += 1
            result.tries += 1
            if played.valid and not v.full(played):
                refused.setdefault(name, []).append(played)
    asked = v.solved[0].asked
    for name, episodes in refused.items():
        always = len(episodes) == tried[name] and len(episodes) >= min(2, len(v.solved))
        if not always or any(word in asked.lower() for word in EXCUSES[name]) or _shows_form(v, name):
            continue
        if v.shown(episodes[0], v.not_full):
            reply, pay = episodes[0].actions[-1][:80], episodes[0].total
            severity = "high" if name == "other case" and _as_written(v, episodes) else WEIGHT[name]
            text = f"{name}: {reply!r} is paid {pay:g}, and no text says that this matters"
            result.add(name, text, severity=severity, replay=episodes[0].replay, refused=len(episodes))


def _shows_form(v: Validation, name: str) -> bool:
    """Whether the prompt itself has something in the form that the expert answers in."""
    form = FORMS.get(name)
    return form is not None and re.search(form, v.solved[0].asked) is not None


def _as_written(v: Validation, episodes: list[ValidationEpisode]) -> bool:
    """Whether the texts have the word as it is refused, and not as it is wanted."""
    solved = {id(episode.ref): episode for episode in v.solved}
    pairs = [(each.actions[-1], solved[id(each.ref)].actions[-1], each.asked) for each in episodes]
    return all(len(reply) > 1 and reply in asked and wanted not in asked for reply, wanted, asked in pairs)


# Words by which a text says that a form matters.
EXCUSES: Final = {
    "a line end after it": ("exact",),
    "blanks around it": ("exact",),
    "other case": ("case", "upper", "lower", "capital", "exact", "letter"),
    "number without zeros after the point": ("decimal", "digit", "round", "places", "format", "exact"),
    "a full stop after it": ("exact", "nothing else", "only", "just", "single", "format", "command", "move"),
    "JSON keys in another order": ("order", "sorted", "exact"),
    "JSON with other blanks": ("compact", "whitespace", "blank", "exact", "space"),
    "./ before a path": ("exact", "absolute"),
    "a date in another form": ("format", "form ", "digits", "yyyy", "iso", "as in", "e.g.", "for example", "written"),
    "zeros before a number left out": ("digit", "zero", "format", "places", "exact", "as in", "padded"),
    "other blanks after commas": ("blank", "space", "format", "exact", "separated", "as in", "form"),
    "no commas between thousands": ("comma", "thousand", "format", "exact", "as in"),
}
# What in a prompt shows the form that is varied.
FORMS: Final = {
    "a date in another form": r"\b\d{4}-\d\d-\d\d\b|\b(?:19|20)\d{6}\b",
    "zeros before a number left out": r"\b0\d",
    "other blanks after commas": r"\w,\s?\w",
    "no commas between thousands": r"\d,\d{3}\b",
}
WEIGHT: Final[dict[str, Severity]] = {
    "a line end after it": "low",
    "blanks around it": "low",
    "other case": "low",
    "number without zeros after the point": "high",
    "a full stop after it": "note",
    "JSON keys in another order": "high",
    "JSON with other blanks": "high",
    "./ before a path": "medium",
    "a date in another form": "high",
    "zeros before a number left out": "high",
    "other blanks after commas": "high",
    "no commas between thousands": "high",
}


def variants(text: str) -> Iterator[tuple[str, str]]:
    """Replies that mean what ``text`` means, with names."""
    yield "a line end after it", text + "\n"
    yield "blanks around it", f"  {text} "
    inside = boxed(text)
    for name, other in _values(text if inside is None else inside):
        yield name, other if inside is None else text.replace(f"{{{inside}}}", f"{{{other}}}")
    if inside is not None:
        return
    if len(text) <= 40 and text.swapcase() != text and "\n" not in text and " " not in text.strip():
        yield "other case", text.swapcase()
    if re.search(r"\d\.\d*0\b", text):
        yield "number without zeros after the point", re.sub(r"(\d\.\d*?)0+\b", lambda m: m[1].rstrip("."), text)
    if len(text) <= 40 and text[-1:].isalnum():
        yield "a full stop after it", text + "."
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        if len(value) > 1:
            yield "JSON keys in another order", json.dumps(dict(reversed(value.items())))
        other = json.dumps(value, separators=(",", ":"))
        yield "JSON with other blanks", other if other != text else json.dumps(value, indent=1)
    if (path := re.search(r"(?<![\w./])[A-Za-z_][\w-]*/[\w./-]+", text)) and "://" not in text:
        yield "./ before a path", text.replace(path[0], f"./{path[0]}", 1)


def _values(answer: str) -> Iterator[tuple[str, str]]:
    """Other ways to write a value, with names."""
    if match := re.fullmatch(r"((?:19|20)\d\d)(-?)(\d\d)\2(\d\d)", answer):
        with contextlib.suppress(ValueError):
            day = datetime.date(int(match[1]), int(match[3]), int(match[4]))
            yield "a date in another form", f"{day:%Y%m%d}" if match[2] else day.isoformat()
            yield "a date in another form", f"{day:%B} {day.day}, {day.year}"
    if re.fullmatch(r"0+[1-9]\d*", answer):
        yield "zeros before a number left out", answer.lstrip("0")
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", answer):
        yield "no commas between thousands", answer.replace(",", "")
    elif "," in answer and len(answer) <= 80 and "\n" not in answer and answer[:1] not in "{[":
        yield "other blanks after commas", re.sub(r",\s*", "," if ", " in answer else ", ", answer)


@check(
    "sound.special_tokens",
    CLEAR,
    "Observations hold no control tokens of chat templates and no forged roles.",
    severity="medium",
    remedy="Escape what looks like a control token in texts of others.",
)
def special_tokens(v: Validation, result: CheckResult) -> None:
    """Look through the observations of the expert's episodes."""
    for episode in v.experts[:20] or [v.opening(ref) for ref in v.refs[:20]]:
        for text in episode.observations:
            result.tries += 1
            if match := TOKENS.search(text):
                result.add("token", f"an observation of {episode.ref} holds {match[0]!r}", replay=episode.replay)
                return


@check(
    "runtime.observation_schema",
    CLEAR,
    "Observations lie in the observation space that is declared.",
    number=29,
    severity="medium",
    remedy="Declare the space that observations are of.",
)
def observation_schema(v: Validation, result: CheckResult) -> None:
    """Ask the space of the first observations, and look whether text is empty."""
    space = getattr(v.subject.env, "observation_space", None)
    for ref in v.refs[:20]:
        v.at = ref
        observation, _ = v.subject.env.reset(seed=ref.seed, options=dict(ref.options) or None)
        result.tries += 1
        if space is not None and hasattr(space, "contains") and not _contains(space, observation):
            text = f"the first observation of {ref}, {str(observation)[:60]!r}, is not in {str(space)[:80]}"
            result.add(
                "space",
                text,
                replay=v.opening(ref).replay,
                severity="low" if isinstance(observation, str) else "medium",
            )
            return


def _contains(space: Any, observation: Any) -> bool:
    import gymnasium as gym

    if type(space) is gym.spaces.Text and isinstance(observation, str):  # whose alphabet few authors set
        return len(observation) <= space.max_length
    if isinstance(space, gym.spaces.Dict) and isinstance(observation, Mapping):
        return set(space) == set(observation) and all(_contains(space[key], observation[key]) for key in space)
    if isinstance(space, gym.spaces.Sequence) and isinstance(observation, (list, tuple)):
        return all(_contains(space.feature_space, each) for each in observation)
    return bool(space.contains(observation))


@check(
    "runtime.tool_declaration_accuracy",
    CLEAR,
    "Every tool that is declared has a name and parameters that are an object, and is there to be called.",
    number=34,
    severity="medium",
    remedy="Declare tools by JSON schemas, with the names that the environment takes.",
)
def tool_declaration_accuracy(v: Validation, result: CheckResult) -> None:
    """Read the schemas in the first info, and call each tool by its schema."""
    tools = v.opening(v.refs[0]).first_info.get("tools")
    if not tools:
        raise Skip("no tools are declared")
    names = []
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
        result.tries += 1
        names.append(str(function.get("name", "")))
        parameters = function.get("parameters", function.get("inputSchema", {}))
        if not names[-1] or not isinstance(parameters, Mapping):
            result.add("schema", f"{str(tool)[:80]!r} is no declaration of a tool")
        elif not set(parameters.get("required", ())) <= set(parameters.get("properties", ())):
            result.add("required", f"{names[-1]} requires parameters that it does not have")
    if len(set(names)) < len(names):
        result.add("names", f"two tools have one name: {sorted(names)}")
    calls = declared_calls(v)
    result.tries += sum(map(len, calls.values()))
    result.measured["tools called"] = len(calls)
    for text in unknown_tools(v, calls):
        replay = v.plays(v.refs[0], [text]).replay
        result.add("not there", f"{text!r:.80} is answered as a call of no tool is", replay=replay)
