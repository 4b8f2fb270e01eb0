"""What all checks share: the tasks, the expert's episodes, the range of rewards, and what counts as paid."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.validation.attacks import boxed
from rlvr.envs.validation.clock import now
from rlvr.envs.validation.report import Check, CheckResult, Severity
from rlvr.envs.validation.subject import (
    ApiFault,
    NotApplicable,
    OutOfTime,
    Policy,
    Subject,
    TaskRef,
    ValidationEpisode,
    always,
    described,
    in_order,
)

HARD: Final = "Hard to game"
SLACK: Final = 0.02  # of the range of rewards: less than this is no pay
NOT_INSTALLED: Final = (ImportError, gym.error.DependencyNotInstalled)
NOT_REACHED: Final = (ConnectionError, ConnectionRefusedError)  # what is lost in the middle has another type
FEWEST: Final = 4  # tasks that are left of a slow environment
EXPERT_TURNS: Final = 1_000  # of its episode, which may be far longer than others are played
PER_TASK: Final = 180  # episodes of it that all checks play together, at most about
NOTHING_TRIED: Final = "nothing of it could be tried here"  # which passes no check
Run = Callable[["Validation", CheckResult], None]
CHECKS: Final[dict[str, tuple[Check, Run]]] = {}


class Skip(Exception):
    """A check does not apply; the text says why."""


def check(
    id: str, group: str, sentence: str, *, remedy: str, number: int | None = None, severity: Severity = "high"
) -> Callable[[Run], Run]:
    """Register a check under its id, in the order of the file."""

    def registered(run: Run) -> Run:
        CHECKS[id] = Check(id, group, sentence, number, severity, remedy), run
        return run

    return registered


@dataclass(frozen=True, slots=True)
class RewardRange:
    """The lowest and highest return, and where they come from."""

    low: float
    high: float
    source: str
    declared: bool


class Validation:
    """One environment under validation.

    Args:
        subject: the environment.
        tasks: how many tasks of each level a check plays.
        seed: which tasks.
        search: finds a solution of each task where there is no expert, or none at all.
        proposals: lists of actions of one who has seen no task, and looks for what is paid without one.
    """

    def __init__(
        self,
        subject: Subject,
        tasks: int,
        seed: int,
        search: Callable[[Validation], list[ValidationEpisode]] | None = None,
        proposals: Sequence[Sequence[str]] = (),
    ) -> None:
        self.subject, self.count, self.seed, self.search = subject, tasks, seed, search
        self.proposals = proposals
        self.refs = subject.refs(tasks, seed)
        self.at: TaskRef | None = None
        self._openings: dict[tuple[str, str | None], ValidationEpisode] = {}

    # what is known of it

    @cached_property
    def experts(self) -> list[ValidationEpisode]:
        """A solution of each task, in the order of ``refs``: the expert's, else by the code; empty without either."""
        policy = self.subject.expert(self.subject.env)
        if policy is None:
            return self._by_source()
        try:
            return [self._by_expert(ref, policy) for ref in self.refs]
        except NotImplementedError:
            return []

    def _by_source(self) -> list[ValidationEpisode]:
        if self.search is None or self.subject.discrete or not self.subject.texts:
            return []
        self.__dict__["experts"] = []  # while they are searched
        limit = self.subject.check_deadline
        if limit is not None:
            self.subject.check_deadline = now() + (limit - now()) / 3
        try:
            return self.search(self)
        except OutOfTime:
            return []
        finally:
            self.subject.check_deadline = limit

    def _by_expert(self, ref: TaskRef, policy: Policy) -> ValidationEpisode:
        self.at = ref
        return self.subject.play(ref, policy, turns=EXPERT_TURNS)

    @cached_property
    def solved(self) -> list[ValidationEpisode]:
        """The expert's episodes that reached the maximum, else what a search found."""
        return [episode for episode in self.experts if self.full(episode)]

    @cached_property
    def range(self) -> RewardRange:
        """Declared by the environment, else from 0 to 1, else what the expert was paid."""
        bare = self.subject.env.unwrapped
        metadata = getattr(bare, "metadata", None)
        declared = getattr(bare, "reward_range", None)
        declared = declared or (metadata.get("reward_range") if isinstance(metadata, Mapping) else None)
        try:
            low, high = map(float, declared or ())
            if math.isfinite(low) and math.isfinite(high) and low < high:
                return RewardRange(low, high, "declared", True)
        except (TypeError, ValueError):
            pass
        spec = getattr(self.subject.env, "spec", None)
        threshold = getattr(spec, "reward_threshold", None)
        if threshold is not None and math.isfinite(threshold):  # which counts as solved, and bounds nothing
            low = 0.0 if threshold > 0 else min(2.0 * threshold, -1.0)
            return RewardRange(low, float(threshold), "the id's reward threshold", False)
        best = max((episode.total for episode in self.experts), default=1.0)
        if best > 1.0 + 1e-6:
            return RewardRange(0.0, best, "assumed: from 0 to the expert's best return", False)
        return RewardRange(0.0, 1.0, "assumed: from 0 to 1", False)

    @property
    def width(self) -> float:
        """Of the range of rewards."""
        return self.range.high - self.range.low

    def full(self, episode: ValidationEpisode) -> bool:
        """Whether an episode was paid the maximum, or the environment says that it succeeded."""
        if not episode.valid or not episode.actions:
            return False
        if not episode.ended and min(episode.rewards, default=0.0) < 0:
            return False  # what each turn takes away counts when all of it is taken
        if episode.success is not None and self.subject.text_env is not None:
            return episode.success
        return episode.total >= self.range.high - 1e-6 - 0.001 * self.width or episode.success is True

    def not_full(self, episode: ValidationEpisode) -> bool:
        """Whether an episode about the policy was paid less than the maximum."""
        return episode.valid and not self.full(episode)

    def paid(self, episode: ValidationEpisode) -> bool:
        """Whether an episode was paid anything, above 0 and above the lowest return."""
        floor = max(0.0, self.range.low)
        return episode.valid and (episode.total > floor + SLACK * self.width or self.full(episode))

    def by_moves(self, episode: ValidationEpisode) -> bool:
        """Whether, of a game of others without an expert, a part is paid in the course of it: a text named moves."""
        game = self.subject.text_env is None and not self.experts
        return game and (len(episode.actions) > 1 or not episode.ended) and not self.full(episode)

    def thin(self, seconds: float, left: float) -> str:
        """Leave out tasks of which there is no time to play all, the hard ones first; how many there are then.

        Args:
            seconds: that a short episode took.
            left: for all checks.
        """
        kept, all_tasks = max(FEWEST, int(left / (PER_TASK * max(seconds, 1e-6)))), len(self.refs)
        if kept >= all_tasks:
            return ""
        while self.count > 1 and len(self.refs) > kept:
            self.count -= 1
            self.refs = self.subject.refs(self.count, self.seed)
        self.refs = self.refs[:kept]
        self.__dict__["many_refs"] = self.refs
        return f"{len(self.refs)} of {all_tasks}, as an episode takes {seconds:.1f} s: more minutes are for more"

    @cached_property
    def many_refs(self) -> list[TaskRef]:
        """Tasks for what is wrong on a few alone: at least 40 of all levels, where there are as many."""
        return self.subject.refs(max(self.count, 40 // self.subject.levels), self.seed)

    @cached_property
    def wrong_pay(self) -> float:
        """The mean return of other tasks' solutions: what well-formed wrong answers earn, as in part they may."""
        solutions = [episode.actions for episode in self.experts]
        totals = []
        for ref, own, other in zip(self.refs[:8], solutions, solutions[1:] + solutions[:1], strict=False):
            if other and other != own:
                try:
                    totals.append(self.plays(ref, other).total)
                except NotApplicable:
                    continue
        return sum(totals) / len(totals) if totals else 0.0

    @property
    def author(self) -> type:
        """The class that somebody wrote: of the task, or of the environment."""
        env = self.subject.text_env
        return type(env.task if env is not None else self.subject.env.unwrapped)

    @property
    def has_luck(self) -> bool:
        """Whether the environment says that luck has a part, so that its expert may fail."""
        env = self.subject.text_env
        return not getattr(env.task if env is not None else self.subject.env.unwrapped, "always_solvable", True)

    @property
    def pays_each_turn(self) -> bool:
        """Whether rewards are for turns that go by, as where a pole is balanced: doing nothing is paid a little."""
        return not self.subject.texts

    # playing

    def plays(self, ref: TaskRef, policy: Policy | Sequence[str], **limits: Any) -> ValidationEpisode:
        """An episode on the environment that most are played on; the same text again and again, if it is one."""
        self.at = ref
        if isinstance(policy, str):
            return self.subject.play(ref, always(policy), **limits)
        return self.subject.play(ref, policy if callable(policy) else in_order(policy), **limits)

    def opening(self, ref: TaskRef, action: str | None = None) -> ValidationEpisode:
        """An episode after its reset, or after one action, to be read: it is played once, and kept for all checks."""
        self.at, key = ref, (str(ref), action)
        if key not in self._openings:
            self._openings[key] = self.plays(ref, () if action is None else (action,), turns=1)
        return self._openings[key]

    def attempt(self, ref: TaskRef, text: str) -> ValidationEpisode:
        """The same text until the episode ends or pays; with an invalid verdict it has ended, too."""
        return self.plays(ref, text, until=self.paid)

    def shown(self, episode: ValidationEpisode, holds: Callable[[ValidationEpisode], bool]) -> bool:
        """Whether the same actions show the same twice more, each time on a new environment."""
        return all(holds(self.subject.fresh(episode.ref, in_order(episode.actions))) for _ in range(2))

    # answers

    @cached_property
    def gold(self) -> list[str]:
        """The last action of each of the expert's episodes: what holds the answer; "" without one."""
        return [episode.actions[-1] if episode.actions else "" for episode in self.experts]

    @cached_property
    def form(self) -> tuple[str, str]:
        """What all of the expert's last actions begin and end with, where they differ."""
        return common_form(self.gold)

    def core(self, reply: str) -> str:
        """The answer in one of the expert's replies: what is in its box, else what differs between tasks."""
        inside = boxed(reply)
        if inside is not None:
            return inside
        head, tail = self.form
        return reply[len(head) : len(reply) - len(tail)].strip()

    @cached_property
    def single_turn(self) -> bool:
        """Whether the expert needs one action."""
        return bool(self.experts) and all(len(episode.actions) == 1 for episode in self.experts)


def common_form(replies: Sequence[str]) -> tuple[str, str]:
    """The head and tail that all replies share, cut at the ends of words; empty where fewer than three differ."""
    distinct = sorted(set(replies))
    if len(distinct) < 3:
        return "", ""
    first, last = distinct[0], distinct[-1]
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    head = re.match(r"(?s)(.*[^\w.+-])?", first[:size])
    head_text = head[0] if head else ""
    rest = [reply[len(head_text) :] for reply in distinct]
    turned = sorted(each[::-1] for each in rest)
    size = next(
        (i for i, (a, b) in enumerate(zip(turned[0], turned[-1], strict=False)) if a != b),
        min(len(turned[0]), len(turned[-1])),
    )
    tail = re.match(r"(?s)(.*[^\w.+-])?", turned[0][:size])
    return head_text, (tail[0] if tail else "")[::-1]


def run_check(validation: Validation, id: str, seconds: float) -> CheckResult:
    """One check's result; what it raises is part of it, unless a package or a server that the first reset needs is
    not there.

    Args:
        validation: the environment.
        id: of the check.
        seconds: how long it may take; where it takes longer, what it found until then stands.

    Raises:
        ValueError: the environment needs a package that is not installed, or a server that is not reached.
    """
    described_check, run = CHECKS[id]
    result = CheckResult(described_check)
    began = now()
    subject = validation.subject
    before = subject.steps
    limits = [limit for limit in (subject.deadline, began + seconds) if limit is not None]
    subject.check_deadline = min(limits)
    try:
        run(validation, result)
        if not result.tries and not result.findings:
            result.skipped = NOTHING_TRIED
    except Skip as reason:
        result.skipped = str(reason)
    except OutOfTime:
        result.unfinished = f"its {seconds:.0f} s were over"
    except ApiFault as fault:
        if id == "runtime.startup" and isinstance(fault.__cause__, NOT_INSTALLED):
            raise ValueError(f"{subject.name} needs what is not installed: {fault.__cause__}") from fault
        if id == "runtime.startup" and not result.tries and type(fault.__cause__) in NOT_REACHED:
            raise ValueError(f"{subject.name}: {fault.__cause__}") from fault
        result.add("API", f"{fault} (in check {id})", severity="high", replay=_reset_of(validation))
    except NotApplicable as reason:
        result.skipped = str(reason)
    except Exception as error:
        result.error = f"at {validation.at}: {described(error)}"
    finally:
        subject.check_deadline = subject.deadline
        result.seconds, result.actions = now() - began, subject.steps - before
    return result


def _reset_of(validation: Validation) -> Any:
    from rlvr.envs.validation.report import Replay

    ref = validation.at or validation.refs[0]
    return Replay(ref.seed, dict(ref.options))
