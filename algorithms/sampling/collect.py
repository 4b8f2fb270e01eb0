"""Collecting the episodes of a step: drawing tasks, refilling groups, shaping rewards, masking sequences.

Which task a step asks is an order that depends on the seed alone, or a curriculum that learns from what was solved.
Which groups are refilled, shaped or masked is the preset's ``filters``, or the config's (`rlvr.algorithms.filters`).
All of them are functions of (seed, step, episodes), and what the collector remembers is plain state for the checkpoint,
so a run that goes on draws what it would have drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from typing import Any

import gymnasium as gym

from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.filters.order import acting
from rlvr.algorithms.filters.selection import fill_batch
from rlvr.algorithms.recipe.episode_filter import EpisodeFilter
from rlvr.algorithms.sampling.prefixes import ExpertPrefixes
from rlvr.envs.core.seeding import digest, stream
from rlvr.envs.curriculum.controllers import EasyToHard, LevelController, RateSampler, SignalSampler
from rlvr.envs.curriculum.rates import PassRates, Retirement

# Plays requests, or paused episodes, to the end; a `Rollout` is one.
Play = Callable[[Sequence[RolloutRequest | Episode]], list[Episode]]
STEPS_WITHOUT_VALID = 3  # without a valid episode, after which a run ends
Curriculum = LevelController | EasyToHard | RateSampler


class TaskOrder:
    """Which task has which index: every row of a table in a shuffle, again and again; or an endless stream."""

    def __init__(self, env: Any, purpose: str, seed: int) -> None:
        self.size: int | None = getattr(env, "size", None)
        # purposes have streams of their own: an evaluation asks no task of the training
        self.seed = digest(purpose, seed) % 2**32
        self._epoch, self._order = -1, list[int]()

    def request(self, index: int, **member: Any) -> RolloutRequest:
        """Task ``index`` of the order; ConfigError for an empty table. A later epoch samples with other noise."""
        if self.size is None:
            return RolloutRequest(seed=self.seed, index=index, **member)
        if not self.size:
            raise ConfigError("the data set has no rows")
        epoch, index = divmod(index, self.size)  # a table is asked whole before a row comes again
        if epoch != self._epoch:
            self._epoch, self._order = epoch, list(range(self.size))
            rng: random.Random = stream("task order", self.seed, epoch)
            rng.shuffle(self._order)
        member["salt"] += f", epoch {epoch}"  # a step may hold the end of one and the beginning of the next
        return RolloutRequest(seed=self.seed, index=self._order[index], **member)


class TaskPool:
    """The tasks of a run, drawn one after another; a curriculum and the retirement of solved tasks change the draw.

    A task of a table is known by its row, so it can be retired when it is nearly always solved, or drawn the less the
    more often it is solved. Tasks made without end never return: a curriculum draws their level.

    Attributes:
        drawn: how many tasks were drawn, retired ones too.
    """

    def __init__(
        self,
        order: TaskOrder,
        *,
        level: int,
        retirement: Retirement | None = None,
        curriculum: Curriculum | None = None,
    ) -> None:
        self.order, self.level = order, level
        self.curriculum = curriculum
        self.retirement = retirement if order.size is not None else None
        self.drawn = 0
        self.rates = PassRates()

    def draw(self, **member: Any) -> RolloutRequest:
        """The next task, as a request for one member of its group."""
        if self.curriculum is not None:
            return self._chosen(self.curriculum, member)
        for _ in range(self.order.size or 1):
            request = self.order.request(self.drawn, **member)
            self.drawn += 1
            if self.retirement is None or self.key(request) not in self.retirement:
                return request
        return request  # every task is retired: better to go on with them than to stop

    def _chosen(self, curriculum: Curriculum, member: dict[str, Any]) -> RolloutRequest:
        index, self.drawn = self.drawn, self.drawn + 1
        if self.order.size is None:
            return RolloutRequest(seed=self.order.seed, index=index, level=curriculum.draw(), **member)
        if isinstance(curriculum, RateSampler) and not curriculum.open:
            return self.order.request(index, **member)
        member["salt"] += f", draw {index}"  # one row may be drawn twice in a step, and is sampled with other noise
        return RolloutRequest(seed=self.order.seed, index=curriculum.draw(), **member)

    def level_at(self, index: int) -> int | None:
        """For demonstrations: the levels in turn, where a curriculum will draw them; None is the environment's own."""
        # demonstrations show each level once before the first comes again
        if self.curriculum is None or self.order.size is not None or self.level == 1:
            return None
        return 1 + index % self.level

    def key(self, request: RolloutRequest) -> int:
        """What a task is known by: its row, or its level."""
        if self.order.size is None:
            # tasks without end never return, so what is learned of one holds for its level
            return request.level or self.level
        return request.index or 0

    def record(self, request: RolloutRequest, successes: list[bool], tokens: float = 1.0) -> None:
        """Tells the curriculum, or the pass rates that retire rows, how a group did, and the tokens of an episode."""
        key, outcomes = self.key(request), [float(success) for success in successes]
        if request.prefix and self._retirement is not None:
            return  # a task that is solved behind the expert's turns is not solved
        if isinstance(self.curriculum, SignalSampler):
            self.curriculum.record(key, outcomes, tokens)
        elif self.curriculum is not None:
            self.curriculum.record(key, outcomes)
        elif self.retirement is not None:
            self.rates.record(key, outcomes)
            self.retirement.look(key, self.rates)

    @property
    def _retirement(self) -> Retirement | None:
        """What retires rows: of the curriculum, where it draws them."""
        return self.curriculum.retirement if isinstance(self.curriculum, RateSampler) else self.retirement

    def stats(self) -> dict[str, float]:
        """For the log: how many rows of a table are retired, how difficult the curriculum is."""
        retired = self._retirement
        stats: dict[str, float] = {} if retired is None else {"tasks_retired": len(retired)}
        if isinstance(self.curriculum, LevelController | EasyToHard):
            stats["difficulty"] = self.curriculum.difficulty
        return stats

    def state_dict(self) -> dict[str, Any]:
        return {
            "drawn": self.drawn,
            "rates": self.rates.state(),
            "retirement": None if self.retirement is None else self.retirement.state_dict(),
            "curriculum": None if self.curriculum is None else self.curriculum.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on drawing from there."""
        self.drawn, self.rates = state["drawn"], PassRates.restore(state["rates"])
        if self.retirement is not None:
            self.retirement.load_state_dict(state["retirement"])
        if self.curriculum is not None:
            self.curriculum.load_state_dict(state["curriculum"])


def build_pool(order: TaskOrder, config: TrainConfig) -> TaskPool:
    """The pool that the section `curriculum` and the filters of a config ask for.

    Raises:
        ConfigError: a curriculum of levels for a table, which has none.
    """
    retirement = None
    if any(each.retires for each in acting(config.filters())):
        retirement = Retirement(config.selection.retire_at, config.selection.retire_after)
    curriculum = _curriculum(order, config, retirement)
    return TaskPool(order, level=config.env.level, retirement=retirement, curriculum=curriculum)


def _curriculum(order: TaskOrder, config: TrainConfig, retirement: Retirement | None) -> Curriculum | None:
    settings, levels, seed = config.curriculum, config.env.level, order.seed
    if settings.kind in ("target", "easy_to_hard") and order.size is not None:
        raise ConfigError(
            f"curriculum.kind {settings.kind} goes by levels, and {config.env.id} is a table without any; "
            "by_rate and by_signal draw its rows"
        )
    if settings.kind == "target":
        return LevelController(
            levels,
            target=settings.target,
            gain=settings.gain,
            start=min(settings.start, levels),
            rehearsal=settings.rehearsal,
            seed=seed,
        )
    if settings.kind == "easy_to_hard":
        stage = settings.stage or -(-config.steps * config.prompts // levels) or 1
        return EasyToHard(levels, stage=stage, rehearsal=settings.rehearsal, seed=seed)
    by_signal = settings.kind == "by_signal"
    if by_signal or settings.kind == "by_rate" or any(each.draws_by_rate for each in acting(config.filters())):
        keys = range(1, levels + 1) if order.size is None else range(order.size)
        sampling: dict[str, Any] = {
            "floor": settings.floor,
            "decay": settings.decay or (0.9 if by_signal else 1.0),
            "retire_at": retirement.at if retirement is not None and order.size is not None else None,
            "min_episodes": config.selection.retire_after,
            "seed": seed,
        }
        return SignalSampler(keys, group=config.group_size, **sampling) if by_signal else RateSampler(keys, **sampling)
    return None


@dataclass(slots=True)
class Collected:
    """What one step learns from.

    Attributes:
        played: every episode, in the order of the requests.
        episodes: the valid ones of the groups that were kept.
        rewards: of each of these, with what shaping added.
        masked: whether it loses its tokens; its reward counts all the same.
        traced: whether each episode notes in `Episode.training` what becomes of its tokens.
        stats: what the filters did, plain numbers.
    """

    played: list[Episode]
    episodes: list[Episode]
    rewards: list[float]
    masked: list[bool]
    stats: dict[str, float] = field(default_factory=dict)
    traced: bool = False


@dataclass(slots=True)
class _Group:
    request: RolloutRequest
    episodes: list[Episode]

    @property
    def whole(self) -> bool:
        return all(episode.done for episode in self.episodes)

    @property
    def usable(self) -> list[Episode]:
        """Episodes whose verdict is about the policy, and which have something to train on."""
        return [episode for episode in self.episodes if episode.valid and episode.tokens.sampled]


class Collector:
    """Plays the episodes of each step.

    Args:
        rollout: who plays.
        order: which tasks there are.
        filters: names of filters.
        prefixes: what the expert plays first.
    """

    def __init__(
        self,
        rollout: Play,
        order: TaskOrder,
        config: TrainConfig,
        filters: Sequence[str],
        prefixes: ExpertPrefixes | None = None,
    ) -> None:
        self.rollout, self.config, self.filters = rollout, config, acting(filters)
        self._drawn: dict[int, list[_Group]] = {}  # of steps that are sampled ahead
        self.paused_groups: list[_Group] = []  # groups with episodes that were paused in the middle of a completion
        self.pool, self.prefixes = build_pool(order, config), prefixes

    def notes(self) -> list[str]:
        """What a person should know of filters that do nothing here."""
        endless = self.pool.order.size is None
        reasons = {each.name: each.idle(self.config, endless) for each in self.filters}
        without = [f"{name} ({reason})" for name, reason in reasons.items() if reason]
        return [f"filters of {self.config.algorithm} without effect in this run: {', '.join(without)}"] * bool(without)

    def __call__(self, step: int, *, traced: bool = False) -> Collected:
        """Play a step; with ``traced``, note in every episode why it was dropped, or its shaped reward."""
        played: list[Episode] = []
        numbered = 0

        def draw(count: int) -> list[_Group]:
            nonlocal numbered
            groups = self._play(step, count, numbered)
            numbered += len(groups)
            played.extend(episode for group in groups for episode in group.episodes)
            return groups

        want, settings = self.config.prompts, self.config.selection
        stats: dict[str, float] = {}
        if any(each.refills for each in self.filters):
            rounds = settings.max_rounds
            filled = fill_batch(draw, want, self._keeps, over_sampling=settings.over_sampling, max_rounds=rounds)
            groups = filled.groups
            for group in filled.left_over:
                _note(group.episodes, dropped="left over: the batch was full")
            stats |= {"groups_drawn": filled.drawn, "groups_left_over": len(filled.left_over), "rounds": filled.rounds}
        else:
            groups = draw(want)
        collected = self._shaped(step, groups, played)
        collected.traced = traced
        for each in self.filters:
            if each.drops and collected.episodes:
                dropped = _keep(collected, each, self.config)
                stats |= {"groups_dropped": stats.get("groups_dropped", 0) + dropped} if each.drops_groups else {}
        kept = len({episode.group for episode in collected.episodes})
        collected.stats |= stats | {"groups_kept": kept, "sequences_masked": sum(collected.masked)}
        if any(each.pauses for each in self.filters):
            collected.stats["groups_paused"] = len(self.paused_groups)
        collected.stats |= self.pool.stats() | (self.prefixes.stats(played) if self.prefixes is not None else {})
        return collected

    def _play(self, step: int, count: int, first: int) -> list[_Group]:
        """Draw so many tasks and play a group on each; groups are numbered from ``first``.

        With partial rollouts the groups that others wait for are played on, and those come back that are whole.
        """
        members = self.config.group_size
        ahead = None if first else self._drawn.pop(step, None)
        new = self._draw(step, count, first) if ahead is None else ahead
        paused = [
            (group, member) for group in self.paused_groups for member, e in enumerate(group.episodes) if not e.done
        ]
        asked = self._members(new)
        played = self.rollout([*(group.episodes[member] for group, member in paused), *asked])
        for (group, member), episode in zip(paused, played, strict=False):  # those paused come first
            group.episodes[member] = episode
        for number, group in enumerate(new):
            start = len(paused) + number * members
            group.episodes = played[start : start + members]
        groups = [*self.paused_groups, *new]
        # an advantage compares the members of a group, so all of them must be over
        self.paused_groups = [group for group in groups if not group.whole]
        whole = [group for group in groups if group.whole]
        for number, group in enumerate(whole, first):
            for episode in group.episodes:
                episode.group = number  # a group that was paused has the number of an earlier step
            valid = [episode for episode in group.episodes if episode.valid]
            tokens = sum(len(episode.tokens) for episode in valid) / max(1, len(valid))
            self.pool.record(group.request, [episode.success for episode in valid], max(1.0, tokens))
            if self.prefixes is not None:
                self.prefixes.record(valid)
        return whole

    def _draw(self, step: int, count: int, first: int) -> list[_Group]:
        requests = [self.pool.draw(group=first + number, salt=f"step {step}") for number in range(count)]
        if self.prefixes is not None:
            # before there are groups: all members of one begin alike
            requests = self.prefixes.put_before(requests)
        return [_Group(request, []) for request in requests]

    def _members(self, groups: list[_Group]) -> list[RolloutRequest]:
        return [replace(group.request, sample=sample) for group in groups for sample in range(self.config.group_size)]

    def draw_ahead(self, step: int) -> list[RolloutRequest]:
        """The requests that a later step begins with, drawn now, if they have not been; it will ask for these."""
        if step not in self._drawn:
            want, settings = self.config.prompts, self.config.selection
            refills = any(each.refills for each in self.filters)
            self._drawn[step] = self._draw(step, round(want * settings.over_sampling) if refills else want, 0)
        return self._members(self._drawn[step])

    def _keeps(self, group: _Group) -> bool:
        """Whether every filter that refills keeps a group."""
        episodes = group.usable
        reason = "" if episodes else "no episode of its group is valid"
        for each in self.filters:
            if not reason and not each.keeps_group(episodes):
                reason = f"{each.name}: {each.reason}"
        if reason:
            _note(group.episodes, dropped=reason)
        return not reason

    # rewards

    def _shaped(self, step: int, groups: list[_Group], played: list[Episode]) -> Collected:
        out = Collected(played, [], [], [])
        added = 0.0
        for group in groups:
            episodes = group.usable
            extra = self._extra(step, episodes)
            added += sum(extra)
            out.episodes += episodes
            out.rewards += [episode.reward + more for episode, more in zip(episodes, extra, strict=True)]
            for episode in group.episodes:
                if not episode.valid:
                    _note([episode], dropped="the fault was not the policy's")
                elif not episode.tokens.sampled:
                    _note([episode], dropped="it has no sampled token")
            masked_by = self._masked_by(episodes)
            for episode, more, by in zip(episodes, extra, masked_by, strict=True):
                _note([episode], shaped_reward=episode.reward + more, **({"masked": by} if by else {}))
            out.masked += [bool(by) for by in masked_by]
        if any(each.shapes for each in self.filters):
            out.stats["shaping"] = added / max(1, len(out.episodes))
        return out

    def _extra(self, step: int, episodes: list[Episode]) -> list[float]:
        """What shaping adds to the reward of each episode of one group."""
        extra = [0.0] * len(episodes)  # [G]
        for each in self.filters:
            added = _one_each(each, "added_rewards", each.added_rewards(episodes, self.config, step), len(episodes))
            # R_i <- R_i + what each filter adds                        [G]
            extra = [before + float(more) for before, more in zip(extra, added, strict=True)]
        return extra

    def _masked_by(self, episodes: list[Episode]) -> list[str]:
        """Of each episode of one group the filter that takes its tokens; "" where it keeps them."""
        by = [""] * len(episodes)  # [G]
        for each in self.filters:
            # no gradient, but the reward counts in the mean of the group
            masked = _one_each(each, "masked", each.masked(episodes), len(episodes))
            by = [name or each.name * bool(off) for name, off in zip(by, masked, strict=True)]
        return by

    # state

    def state_dict(self) -> dict[str, Any]:
        paused = [
            {"request": asdict(g.request), "episodes": [e.to_dict() for e in g.episodes]} for g in self.paused_groups
        ]
        state = {"pool": self.pool.state_dict(), "paused_groups": paused}
        if self.prefixes is not None:
            state["prefixes"] = self.prefixes.state_dict()
        if self._drawn:  # tasks that are being played: whoever goes on plays them again, and draws none twice
            state["drawn"] = {str(step): [asdict(g.request) for g in groups] for step, groups in self._drawn.items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with these tasks, these paused groups, and what was drawn ahead."""
        self.pool.load_state_dict(state["pool"])
        self._drawn = {
            int(step): [_Group(_request(record), []) for record in requests]
            for step, requests in state.get("drawn", {}).items()
        }
        self.paused_groups = [
            _Group(_request(group["request"]), [Episode.from_dict(record) for record in group["episodes"]])
            for group in state["paused_groups"]
        ]
        if self.prefixes is not None:
            self.prefixes.load_state_dict(state["prefixes"])


def _request(record: dict[str, Any]) -> RolloutRequest:
    """The request of a record in a checkpoint: JSON has no tuples."""
    return RolloutRequest(**{**record, "prefix": tuple(record["prefix"])})


def _note(episodes: Sequence[Episode], **entries: Any) -> None:
    for episode in episodes:
        episode.training |= entries


def _keep(collected: Collected, rule: EpisodeFilter, config: TrainConfig) -> int:
    """Leave out what a filter does not keep; the denominators shrink with it. How many groups are gone."""
    before = {episode.group for episode in collected.episodes}
    values = rule.keeps(collected.episodes, collected.rewards, config)
    keep = [bool(value) for value in _one_each(rule, "keeps", values, len(collected.episodes))]  # [B]
    left_out = [episode for episode, stays in zip(collected.episodes, keep, strict=True) if not stays]
    _note(left_out, dropped=f"{rule.name}: {rule.reason}")
    for name in ("episodes", "rewards", "masked"):
        setattr(collected, name, list(compress(getattr(collected, name), keep)))
    return len(before - {episode.group for episode in collected.episodes})


def _one_each(rule: EpisodeFilter, method: str, values: Sequence[Any], count: int) -> Sequence[Any]:
    """What a filter returned for each of so many episodes.

    Raises:
        ValueError: it is of another length.
    """
    # another length would pair values with the wrong episodes
    if len(values) != count:
        raise ValueError(f"the filter {rule.name!r} returns {len(values)} values in {method} for {count} episodes")
    return values


class NoValidEpisodeError(gym.error.Error):
    """The environment fails in every episode."""


class ValidSteps:
    """Ends a run whose steps have no valid episode: nothing is learned from them, and they would be over in no time.

    Attributes:
        count: of such steps, one after another.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, episodes: list[Episode]) -> None:
        """Count a step.

        Raises:
            NoValidEpisodeError: it is the last of so many.
        """
        self.count = 0 if any(episode.valid for episode in episodes) else self.count + 1
        if self.count >= STEPS_WITHOUT_VALID:
            verdict = episodes[-1].verdict if episodes else None
            reason = verdict.reason if verdict is not None else "there was no episode"
            raise NoValidEpisodeError(
                f"no episode of {self.count} steps in a row was valid, so nothing was learned; the last failed: "
                f"{reason}. Mend that, and go on with --resume"
            )
