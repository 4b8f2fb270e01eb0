"""Search: what an environment without an expert is solved by, among actions that its own texts name."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import re
import string
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from types import CodeType
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.validation.commands import plain_commands
from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.report import CheckResult, Replay
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
    _all_tried(v, result, refs[:2])
    result.tries += tries
    result.measured |= {"tasks searched": len(refs), "maximum reached": reached, "best return": best}
    if not reached and not v.solved and not result.findings:
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
        compared = list(compared_values(v.subject.env.unwrapped))
        named = islice(candidates(seen, v.subject.env.action_space), BREADTH if plan else 4 * BREADTH)
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


# what the code compares an action with: the form that is read, where no text says it

_SAFE: Final = ("str", "int", "float", "len", "min", "max", "sum", "round", "abs", "sorted", "join", "lower", "upper")


def compared_values(env: Any) -> Iterator[str]:
    """Texts that a method of the environment compares something with, as they are now, where its source can be read."""
    kind: Any = type(env)
    for code, names in _compared(kind):
        try:
            value = eval(code, names, {"self": env})  # an attribute of its own, read as its own method does
        except Exception:
            continue
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and 0 < len(str(value)) < 400:
            yield str(value)


@cache
def _compared(kind: type) -> tuple[tuple[CodeType, dict[str, Any]], ...]:
    """The expressions of attributes and constants that stand beside `==` in a class, compiled, and their names."""
    codes = []
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] in (*sys.stdlib_module_names, "rlvr", "gymnasium"):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            for side in (node.left, *node.comparators) if isinstance(node, ast.Compare) else ():
                if isinstance(side, (ast.JoinedStr, ast.Call, ast.Constant, ast.Attribute)) and _is_safe(side):
                    code = compile(ast.Expression(side), "<compared>", "eval")
                    codes.append((code, vars(sys.modules[each.__module__])))
    return tuple(codes)


def _is_safe(side: ast.AST) -> bool:
    """Whether evaluating it changes nothing: it reads attributes of self, and calls what only makes a value of them."""
    for node in ast.walk(side):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name not in _SAFE:
                return False
        elif isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.Lambda)):
            return False
    return True


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
    waiting = [(env, v.subject.begin(ref, env))]
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
                    copied, played = copy.deepcopy((env, episode), {id(env.action_space): env.action_space})
                    v.subject.step(copied, played, action)
                    state = pickle.dumps((_state(copied), played.observations[-1:], played.total))
                except Exception:  # what cannot be copied, or played
                    return best, None, False
                best = max(best, played.total)
                if v.full(played):
                    return best, played, False
                if not played.ended and not played.error:
                    following.setdefault(state, (copied, played))
        waiting = list(following.values())
    return best, None, True


def _all_actions(v: Validation, episode: ValidationEpisode) -> list[str]:
    """All that can be done now; empty where it is not known."""
    space = v.subject.env.action_space
    if isinstance(space, gym.spaces.Discrete):
        return list(map(str, range(space.start, space.start + space.n))) if space.n <= 12 else []
    return legal_actions(episode) or plain_commands(episode.asked)


def _state(env: Any) -> dict[str, Any]:
    bare = env.unwrapped
    return {key: value for key, value in vars(bare).items() if not isinstance(value, gym.Space)}
