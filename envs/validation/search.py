"""Search: what an environment without an expert is solved by, among actions that its own texts name."""

from __future__ import annotations

import copy
import pickle
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.validation.commands import filled, plain_commands, unargued_commands
from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.declared import declared_calls
from rlvr.envs.validation.report import CheckResult, Replay
from rlvr.envs.validation.source import compared_values, words_looked_for
from rlvr.envs.validation.subject import (
    NotApplicable,
    OutOfTime,
    TaskRef,
    ValidationEpisode,
    in_order,
    legal_actions,
    words_of,
)

TRIES: Final = 300  # episodes that the search plays of each task
TASKS: Final = 4
DEPTH: Final = 6  # actions of a plan that is searched breadth first
BY_SOURCE: Final = 240  # episodes that are played of each task for a solution by the code
BREADTH: Final = 24  # actions that are tried after each observation
_QUOTED: Final = re.compile(r"[`\"']([^`\"'\n]{1,60})[`\"']")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")


def search_solution(v: Validation, result: CheckResult) -> None:
    """Look for the maximum by the actions that texts, options and infos name; a note where it is not reached."""
    if v.experts:
        result.measured |= {"tasks searched": len(v.refs), "maximum reached": len(v.solved)}
        return
    best, tries = -float("inf"), 0
    refs = v.refs[:: max(1, len(v.refs) // TASKS)][:TASKS]
    for ref in refs:
        v.at = ref
        solution, tried, total = _searched(v, ref)
        tries, best = tries + tried, max(best, total)
        if solution is not None:
            v.solved.append(solution)
    _all_tried(v, result, refs[:2])
    result.tries += tries
    result.measured |= {"tasks searched": len(refs), "maximum reached": len(v.solved), "best return": best}
    if not v.solved and not result.findings:
        text = f"it has no expert, and {tries} searched episodes were paid {best:g} of {v.range.high:g} at most"
        result.add("maximum not shown", text, severity="note", best=best)


# by what the code compares actions with


def solutions_by_source(v: Validation) -> list[ValidationEpisode]:
    """A solution of each task, made of what the code compares actions with; empty where one has none."""
    first, word = _first_by_source(v, v.refs[0])
    if first is None:
        return []
    rest = [_by_source(v, ref, word) for ref in v.refs[1:]]
    solved = [first, *(each for each in rest if each is not None)]
    return solved if len(solved) == len(v.refs) and len({tuple(each.actions) for each in solved}) > 1 else []


def _first_by_source(v: Validation, ref: TaskRef) -> tuple[ValidationEpisode | None, str]:
    """A solution, and the word beside the compared values that it needs; "" for none."""
    asked = v.opening(ref).asked
    for word in ("", *islice((each for each in words_looked_for(v.author) if each not in asked), 12)):
        if (episode := _by_source(v, ref, word)) is not None:
            return episode, word
    return None, ""


def _by_source(v: Validation, ref: TaskRef, word: str) -> ValidationEpisode | None:
    waiting: list[list[str]] = [[]]
    tries = 0
    while waiting and tries < BY_SOURCE:
        plan = waiting.pop(0)
        seen = v.subject.play(ref, in_order(plan))
        if seen.ended or seen.error:
            continue
        values = list(dict.fromkeys(compared_values(v.subject.env.unwrapped)))
        if word:
            values = [text for value in values for text in (f"{word}\n{value}", f"{word} {value}", f"{value} {word}")]
        bare = unargued_commands(seen.asked)
        not_understood = v.subject.play(ref, in_order([*plan, "zzkq"])).observations[-1:]
        calls = [text for texts in declared_calls(v, values).values() for text in texts]
        commands = [*calls, *islice(filled(seen.asked, values), BY_SOURCE // 3), *values, *bare]
        for action in dict.fromkeys(commands):
            for actions in ([*plan, action], *([*plan, action, end] for end in bare if end != action)):
                try:
                    played = v.subject.play(ref, in_order(actions))
                except NotApplicable:
                    break
                tries += 1
                if v.full(played) and v.shown(played, v.full):
                    return played
                if played.ended or played.error or played.observations[-1:] == not_understood:
                    break  # nothing to hand in
                if actions[-1] == action and len(plan) < 3 and action not in plan:
                    waiting.append(actions)
            if tries >= BY_SOURCE:
                break
    return None


def _searched(v: Validation, ref: TaskRef) -> tuple[ValidationEpisode | None, int, float]:
    """A solution, how many episodes were played, and the best return."""
    waiting: list[list[str]] = [[]]
    tries, best = 0, -float("inf")
    while waiting and tries < TRIES:
        plan = waiting.pop(0)
        seen = v.subject.play(ref, in_order(plan))
        if seen.ended or seen.error:
            continue
        compared = list(compared_values(v.subject.env.unwrapped))
        compared += [text for texts in declared_calls(v, compared).values() for text in texts]
        compared += islice(filled(seen.asked, compared), BREADTH)
        named = islice(candidates(seen, v.subject.space), BREADTH if plan else 4 * BREADTH)
        for action in dict.fromkeys([*compared, *named]):
            try:
                played = v.subject.play(ref, in_order([*plan, action]))
            except NotApplicable:
                continue
            tries, best = tries + 1, max(best, played.total)
            if v.full(played) and v.shown(played, v.full):
                return played, tries, best
            new = played.observations[-1:] != seen.observations[-1:]
            if not played.ended and not played.error and len(plan) + 1 < DEPTH and new:
                # What the code compares actions with comes before all that texts name.
                waiting.insert(0 if action in compared else len(waiting), [*plan, action])
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
    hidden = [str(value) for value in plain_values(episode.last or episode.first_info) if len(str(value)) < 200]
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


def plain_values(value: Any, depth: int = 4) -> Iterable[Any]:
    """All plain values in a mapping of mappings and lists."""
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, Mapping) and depth:
        for each in value.values():
            yield from plain_values(each, depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for each in value:
            yield from plain_values(each, depth - 1)


# every command again and again, until all episodes have ended

STATES: Final = 3_000  # that are looked at in a task


def _all_tried(v: Validation, result: CheckResult, refs: list[TaskRef]) -> None:
    """Play all that there is to play, where it is little; where nothing of it is paid, nothing can be."""
    never = []
    for ref in refs if not v.solved else ():
        best, solution, complete = _exhausted(v, ref)
        if solution is not None and v.shown(solution, v.full):
            v.solved.append(solution)
        elif complete and best <= 0:
            never.append(solution)
    result.measured["tasks without a solution"] = len(never)
    if refs and len(never) == len(refs):
        text = f"every order of all commands was played on {len(refs)} tasks to the end, and nothing is paid in any"
        result.add("maximum out of reach", text, replay=Replay(refs[0].seed, dict(refs[0].options)))


def _exhausted(v: Validation, ref: TaskRef) -> tuple[float, ValidationEpisode | None, bool]:
    """The best return of all orders of all commands, what reached the maximum, and whether none was left out."""
    env, best = v.subject.make(), -float("inf")
    space = getattr(env, "action_space", None)
    waiting = [(env, v.subject.begin(ref, env))]
    if _all_misunderstood(v, ref, _all_actions(v, waiting[0][1])):
        return best, None, False
    looked_at = 0
    while waiting:
        following: dict[bytes, tuple[Any, ValidationEpisode]] = {}
        for env, episode in waiting:
            actions = _all_actions(v, episode)
            looked_at += 1
            if not actions or looked_at > STATES:
                return best, None, False
            for action in actions:
                try:
                    copied, played = copy.deepcopy((env, episode), {id(space): space})
                    v.subject.step(copied, played, action)
                    state = pickle.dumps((_state(copied), played.observations[-1:], played.total))
                except OutOfTime:
                    raise
                except Exception:  # what cannot be copied, or played
                    return best, None, False
                best = max(best, played.total)
                if v.full(played):
                    return best, played, False
                if not played.ended and not played.error:
                    following.setdefault(state, (copied, played))
        waiting = list(following.values())
    return best, None, True


def _all_misunderstood(v: Validation, ref: TaskRef, actions: list[str]) -> bool:
    """Whether every command comes to what a word without meaning does: they are wanted in another form."""
    if not v.subject.texts or not actions:
        return False
    ends = [v.subject.play(ref, in_order([action])) for action in ["zzkq", *actions]]
    return all(end.transcript() == ends[0].transcript() for end in ends)


def _all_actions(v: Validation, episode: ValidationEpisode) -> list[str]:
    """All that can be done now; empty where it is not known."""
    space = v.subject.space
    if isinstance(space, gym.spaces.Discrete):
        return list(map(str, range(space.start, space.start + space.n))) if space.n <= 12 else []
    commands = plain_commands(episode.asked)
    if "\\boxed" in episode.asked:
        commands = [f"\\boxed{{{command}}}" for command in commands]
    return legal_actions(episode) or commands


def _state(env: Any) -> dict[str, Any]:
    bare = env.unwrapped
    return {key: value for key, value in vars(bare).items() if not isinstance(value, gym.Space)}
