"""Validation: attacks anybody's environment, and says what was found with the command that shows it.

    report = validate("rlvr/Countdown-v0")
    print(report)
    assert not report.at_least("high")

`rlvr validate` is the same as a command, where a stranger's code runs in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.validation import clear, contracts, hack, isolation, learnable, parts, reward_search, sound
from rlvr.envs.validation.clock import now
from rlvr.envs.validation.context import CHECKS, Validation, run_check
from rlvr.envs.validation.report import GROUPS, CheckResult, Finding, Replay, ValidationReport
from rlvr.envs.validation.search import solutions_by_source
from rlvr.envs.validation.subject import (
    ApiFault,
    NotApplicable,
    OutOfTime,
    Subject,
    ValidationEpisode,
    Watch,
    described,
)

__all__ = ["CHECKS", "CheckResult", "Finding", "Replay", "ValidationReport", "validate"]

MODULES: Final = (sound, isolation, contracts, parts, clear, hack, reward_search, learnable)
TASKS: Final = 8  # of each level
MANY: Final = 24  # tasks of all levels together, unless more are asked for


def validate(
    env: gym.Env[Any, Any] | Callable[[], gym.Env[Any, Any]],
    *,
    tasks: int | None = None,
    seed: int = 0,
    minutes: float = 5.0,
    checks: Iterable[str] | None = None,
    name: str | None = None,
    make_split: Callable[[str], gym.Env[Any, Any]] | None = None,
    proposals: Sequence[Sequence[str]] = (),
    watch: Watch | None = None,
    begins: Callable[[str], None] | None = None,
    done: Callable[[CheckResult], None] | None = None,
) -> ValidationReport:
    """Run the checks on an environment in this process, so that a call that never returns is waited for.

    Args:
        env: an environment, or a function that makes a new one. Of an environment alone, new ones are made by its
            spec, or by its class without arguments.
        tasks: how many of each level; by default 8, and 24 of all levels, or fewer where the minutes are for fewer.
        seed: which tasks.
        minutes: after which no check goes on; what was found until then stands. Waiting for a busy processor does not
            count.
        checks: ids of ``CHECKS``; all by default.
        name: how the report names it.
        make_split: makes an environment of a split, for those that are no ``TextEnv``.
        proposals: lists of actions to try on many tasks, as a language model proposes that has seen none.
        watch: told of each call before it is made.
        begins: told of each check's id before it is run.
        done: told of each check's result.

    Raises:
        ValueError: there is no check of an id, nothing can be asked for, or a package is not installed.
        Exception: the environment cannot be made.
    """
    began = now()
    ids = ordered() if checks is None else list(checks)
    if unknown := [id for id in ids if id not in CHECKS]:
        raise ValueError(f"there is no check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    if minutes <= 0 or (tasks is not None and tasks < 1):
        raise ValueError(f"minutes must be above 0 and tasks at least 1, got {minutes} and {tasks}")
    make = maker(env)
    subject = Subject(make, name or named(env), make_split=make_split, deadline=began + 60 * minutes, watch=watch)
    try:
        count = tasks if tasks is not None else max(3, min(TASKS, MANY // subject.levels))
        validation = Validation(subject, count, seed, solutions_by_source, proposals)
        return _validated(validation, ids, began, minutes, begins, done, may_thin=tasks is None)
    finally:
        subject.close()


def ordered() -> list[str]:
    """The ids of all checks in the order in which they are run."""
    # What is looked for in isolation shows best before other checks have left their traces.
    first = ("runtime.startup", "runtime.episode_isolation")
    return sorted(CHECKS, key=lambda id: (GROUPS.index(CHECKS[id][0].group), (*first, id).index(id)))


def _validated(
    validation: Validation,
    ids: list[str],
    began: float,
    minutes: float,
    begins: Callable[[str], None] | None,
    done: Callable[[CheckResult], None] | None,
    may_thin: bool,
) -> ValidationReport:
    subject = validation.subject
    report = ValidationReport(subject.name, [], source_digest=digest_of(subject.env))
    fatal = ""
    for id in ids:
        share = max(2.0, (began + 60 * minutes - now()) / 2)
        if begins is not None:
            begins(id)
        result = CheckResult(CHECKS[id][0], skipped=fatal) if fatal else run_check(validation, id, share)
        if id == "runtime.startup" and result.status == "fail":
            fatal = "it does not start"
        elif id == "runtime.startup" and may_thin:
            fewer = validation.thin(result.seconds / max(1, result.tries), began + 60 * minutes - now())
            report.assumed |= {"tasks": fewer} if fewer else {}
        report.results.append(result)
        if done is not None:
            done(result)
    if not fatal:
        try:
            reward = validation.range
            report.assumed["rewards"] = f"from {reward.low:g} to {reward.high:g} ({reward.source})"
        except Exception as error:
            report.assumed["rewards"] = f"unknown: {described(error)}"
        report.played = [episode.replay.to_dict() for episode in _few(validation)]
    report.results.sort(key=lambda result: GROUPS.index(result.check.group))
    report.seconds = now() - began
    return report


def _few(validation: Validation) -> list[ValidationEpisode]:
    """A few episodes to play again elsewhere: the expert's, and idle ones."""
    if "experts" not in vars(validation):
        return []
    few = validation.experts[:: max(1, len(validation.experts) // 6)][:6]
    try:
        return [*few, *(validation.plays(ref, ["", "1", "yes"]) for ref in validation.refs[:2])]
    except (ApiFault, NotApplicable, OutOfTime):
        return few


def maker(env: Any) -> Callable[[], gym.Env[Any, Any]]:
    """A function that makes new environments like ``env``, or ``env`` itself where it is one."""
    if not isinstance(env, gym.Env):
        return env  # type: ignore[no-any-return]
    bare = env.unwrapped
    if isinstance(bare, TextEnv):
        return bare.spawn
    if env.spec is not None:
        return env.spec.make
    return type(env)


def named(env: Any) -> str:
    """How an environment is named in a report."""
    spec = getattr(env, "spec", None)
    if spec is not None:
        return str(spec.id)
    bare = env.unwrapped if isinstance(env, gym.Env) else env
    if isinstance(bare, TextEnv):
        return bare.name
    kind = bare if callable(bare) and hasattr(bare, "__name__") else type(bare)
    return f"{kind.__module__}:{kind.__qualname__}"


def digest_of(env: gym.Env[Any, Any]) -> str:
    """The digest of an environment's tasks and code; "" where it has none."""
    if not isinstance(env.unwrapped, TextEnv):
        return ""
    from rlvr.envs.tasks.digests import env_digest

    try:
        return env_digest(env)
    except Exception:
        return ""
