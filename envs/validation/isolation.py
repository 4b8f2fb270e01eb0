"""Isolation: an episode is the same, whatever is played before it and beside it."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Final

from rlvr.envs.validation.commands import filled, has_arguments, templates, unargued_commands
from rlvr.envs.validation.context import Skip, Validation, check
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.sound import SOUND, idle_text
from rlvr.envs.validation.subject import TaskRef, ValidationEpisode, in_order

STIRS: Final = 180  # commands that are given in other environments
TOGETHER: Final = 6  # of them in one episode


@check(
    "runtime.episode_isolation",
    SOUND,
    "An episode is the same after other episodes, and beside another environment.",
    number=21,
    remedy="Keep an episode's state in the instance, and clear it in reset; use no globals and no fixed files.",
)
def episode_isolation(v: Validation, result: CheckResult) -> None:
    """Play an idle and an expert's episode alone, after a solved one, and with another environment in between."""
    refs = v.refs[:: max(1, len(v.refs) // 5)]
    if len(refs) < 2:
        raise Skip("one task alone has no neighbours")
    _stirred(v, result, refs[0], refs[-1])
    if result.findings:
        return
    experts = {id(episode.ref): episode.actions for episode in v.experts}
    idle = idle_text(v)
    for ref, other in zip(refs, refs[1:] + refs[:1], strict=True):
        v.at = ref
        solution, other_solution = experts.get(id(ref), []), experts.get(id(other), [])
        for actions in filter(None, ([idle] * 3, solution)):
            with v.subject.new() as env:
                alone = v.subject.play(ref, in_order(actions), env=env)
            with v.subject.new() as env:
                v.subject.play(other, in_order(other_solution or [idle] * 3), env=env)
                v.subject.play(ref, in_order(solution or [idle] * 3), env=env)
                after = v.subject.play(ref, in_order(actions), env=env)
            with v.subject.new() as env, v.subject.new() as neighbour:
                beside = _beside(v, env, ref, actions, neighbour, other, other_solution or [idle] * 3)
            result.tries += 1
            for name, episode in (("after", after), ("beside", beside)):
                if episode.transcript() != alone.transcript():
                    words = {
                        "after": f"after an episode of {other} and one of its own",
                        "beside": f"while another environment plays {other}",
                    }[name]
                    text = f"{ref} differs {words}: return {episode.total:g}, alone {alone.total:g}"
                    result.add(name, text, replay=alone.replay, alone=alone.total, then=episode.total)
            if result.findings:
                return


def _stirred(v: Validation, result: CheckResult, ref: TaskRef, other: TaskRef) -> None:
    """Give every command that the prompt shows, with many arguments, elsewhere: no new environment differs."""
    if v.subject.discrete or not v.subject.texts:
        return
    asked, prompt = v.opening(ref).asked, v.opening(other).asked
    # Solutions that are searched for want of an expert are tried out, and would leave traces before the first look.
    calls = [] if v.subject.expert(v.subject.env) is None else templates(v)
    looks = [*unargued_commands(asked), *(json.dumps(call) for call in calls if not has_arguments(call))]
    looks += [command for command in ("list", "ls", "show", "status") if command in asked]

    def seen() -> list[ValidationEpisode]:
        return [v.subject.fresh(ref, in_order([look])) for look in list(dict.fromkeys(looks))[:8]]

    before = seen()
    if [each.transcript() for each in seen()] != [each.transcript() for each in before]:
        return  # other checks say so
    words = [word for word in re.findall(r"[a-z]{3,}", prompt) if prompt.count(word) > 1]
    values = re.findall(r"\d[\w.]*\w|\d", prompt) + words
    commands = [*dict.fromkeys(islice(filled(prompt, values), STIRS)), *map(json.dumps, calls)]
    for begin in range(0, len(commands), TOGETHER):
        v.subject.fresh(other, in_order(commands[begin : begin + TOGETHER]))
    result.tries += 1
    for first, then in zip(before, seen(), strict=True):
        if then.transcript() != first.transcript():
            text = f"{first.actions[-1]!r} at {ref} shows something else after other environments were used:"
            text += f" {then.observations[-1][:60]!r}, before {first.observations[-1][:60]!r}"
            result.add("others", text, replay=first.replay)
            return


def _beside(
    v: Validation, env: Any, ref: TaskRef, actions: list[str], neighbour: Any, other: TaskRef, others: list[str]
) -> ValidationEpisode:
    """An episode of ``ref`` between whose steps another environment plays ``other``."""
    mine = v.subject.begin(ref, env)
    theirs = v.subject.begin(other, neighbour)
    for index, action in enumerate(actions):
        if index < len(others) and not theirs.ended and not theirs.error:
            v.subject.step(neighbour, theirs, others[index])
        if mine.ended or mine.error:
            break
        v.subject.step(env, mine, action)
    return mine
