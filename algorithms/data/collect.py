"""Collecting the episodes of a step: drawing tasks, refilling groups, shaping rewards, masking sequences.

Which of these happen is the preset's ``filters``, or the config's. All of them are functions of (seed, step, episodes),
and what they remember is plain state for the checkpoint, so a run that goes on draws what it would have drawn.

filter                  here
dynamic_sampling        groups with 0 < successes < G are kept, the others replaced, in at most `max_rounds` rounds
active_sampling         groups whose rewards differ are kept, the others replaced; in a loop that waits for its
                        episodes the queue of OlmoRL is these rounds
zero_gradient           groups whose (shaped) rewards do not differ are dropped, not replaced
no_positive_resampling  a row of a table that was solved in `retire_at` of its episodes is not drawn again
curriculum              tasks are drawn in proportion to 1 - pass rate, unless the config's `curriculum` says otherwise
soft_overlong           a punishment is added to the reward of replies that come near their limit, before group means
length_reward           Kimi's reward of length is added to the reward, in the second part of training
overlong_filter         episodes with a reply cut at its limit lose their tokens; their reward stays in the group mean
thinking_budget         done by the agent, if `sampling.thinking_budget` is set
keep_short              only the shortest sequences of a group are kept (GFPO), before its mean
keep_correct            done by the algorithm `rft`
partial_rollouts        replies that take more than `sampling.segment` tokens go on in the next step, with the policy of
                        then; a group is learned from when all of it is over
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.algorithms._torch import Tensor, torch
from rlvr.algorithms.advantages.group_baselines import gfpo_keep
from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.data.selection import fill_batch, has_reward_variance, mixed_outcome
from rlvr.algorithms.data.tasks import TaskOrder, build_pool
from rlvr.envs.rewards.shaping import kimi_length, soft_overlong

# Plays requests, or paused episodes, to the end; a `Rollout` is one.
Play = Callable[[Sequence[RolloutRequest | Episode]], list[Episode]]
REFILLING = ("dynamic_sampling", "active_sampling")


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
        filters: names of filters, those of the table above.
    """

    def __init__(self, rollout: Play, order: TaskOrder, config: TrainConfig, filters: Sequence[str]) -> None:
        self.rollout, self.config, self.filters = rollout, config, tuple(filters)
        self._drawn: dict[int, list[_Group]] = {}  # of steps that are sampled ahead
        self.paused_groups: list[_Group] = []  # groups with episodes that were paused in the middle of a completion
        self.pool = build_pool(order, config)

    def notes(self) -> list[str]:
        """What a person should know of filters that do nothing here."""
        without = []
        if "thinking_budget" in self.filters and not self.config.sampling.thinking_budget:
            without.append("thinking_budget (set sampling.thinking_budget)")
        if "no_positive_resampling" in self.filters and self.pool.order.size is None:
            without.append("no_positive_resampling (tasks made without end never return)")
        if "partial_rollouts" in self.filters and not self.config.sampling.segment:
            without.append("partial_rollouts (set sampling.segment)")
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
        if any(name in REFILLING for name in self.filters):
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
        if "keep_short" in self.filters:
            _keep(collected, _short(collected, self.config.preset().group_keep or 1), "keep_short: too long")
        if "zero_gradient" in self.filters and collected.episodes:
            groups_before = {episode.group for episode in collected.episodes}
            varied = has_reward_variance(collected.rewards, [episode.group for episode in collected.episodes])
            _keep(collected, varied, "zero_gradient: all rewards of its group are equal")
            stats["groups_dropped"] = len(groups_before - {episode.group for episode in collected.episodes})
        kept = len({episode.group for episode in collected.episodes})
        collected.stats |= stats | {"groups_kept": kept, "sequences_masked": sum(collected.masked)}
        if "partial_rollouts" in self.filters:
            collected.stats["groups_paused"] = len(self.paused_groups)
        collected.stats |= self.pool.stats()
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
            self.pool.record(group.request, [episode.success for episode in group.episodes if episode.valid])
        return whole

    def _draw(self, step: int, count: int, first: int) -> list[_Group]:
        return [_Group(self.pool.draw(group=first + number, salt=f"step {step}"), []) for number in range(count)]

    def _members(self, groups: list[_Group]) -> list[RolloutRequest]:
        return [replace(group.request, sample=sample) for group in groups for sample in range(self.config.group_size)]

    def draw_ahead(self, step: int) -> list[RolloutRequest]:
        """The requests that a later step begins with, drawn now, if they have not been; it will ask for these."""
        if step not in self._drawn:
            want, settings = self.config.prompts, self.config.selection
            refills = any(name in REFILLING for name in self.filters)
            self._drawn[step] = self._draw(step, round(want * settings.over_sampling) if refills else want, 0)
        return self._members(self._drawn[step])

    def _keeps(self, group: _Group) -> bool:
        """Whether dynamic or active sampling keeps a group."""
        episodes = group.usable
        ids = [0] * len(episodes)  # [G], one group
        reason = ""
        if not episodes:
            reason = "no episode of its group is valid"
        elif "dynamic_sampling" in self.filters and not mixed_outcome([float(e.success) for e in episodes], ids)[0]:
            reason = "dynamic_sampling: all of its group succeeded, or none"
        elif "active_sampling" in self.filters and not has_reward_variance([e.reward for e in episodes], ids)[0]:
            reason = "active_sampling: all rewards of its group are equal"
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
            # a completion that was cut off says nothing of its quality: no gradient, but its reward counts in the mean
            filtered = "overlong_filter" in self.filters
            masked = [filtered and episode.hit_token_limit for episode in episodes]
            for episode, more, off in zip(episodes, extra, masked, strict=True):
                _note([episode], shaped_reward=episode.reward + more, **({"masked": "overlong_filter"} if off else {}))
            out.masked += masked
        if any(name in self.filters for name in ("soft_overlong", "length_reward")):
            out.stats["shaping"] = added / max(1, len(out.episodes))
        return out

    def _extra(self, step: int, episodes: list[Episode]) -> list[float]:
        """What shaping adds to the reward of each episode of one group."""
        extra = [0.0] * len(episodes)  # [G]
        settings, limit = self.config.selection, self.config.sampling.max_new_tokens
        if "soft_overlong" in self.filters:
            buffer = settings.overlong_buffer or max(1, limit // 5)  # DAPO: 4,096 of 20,480
            for index, episode in enumerate(episodes):
                # R_i <- R_i + punish(|y_i|)                                  DAPO, 2503.14476 eq. 13
                extra[index] += soft_overlong(longest_completion(episode), max_length=limit, buffer=buffer)
        if "length_reward" in self.filters and episodes and 2 * step >= self.config.steps:
            lengths = [episode.tokens.sampled for episode in episodes]
            for index, value in enumerate(kimi_length(lengths, [episode.success for episode in episodes])):
                extra[index] += settings.length_weight * value
        return extra

    # state

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint, plain."""
        paused = [
            {"request": asdict(g.request), "episodes": [e.to_dict() for e in g.episodes]} for g in self.paused_groups
        ]
        state = {"pool": self.pool.state_dict(), "paused_groups": paused}
        if self._drawn:  # tasks that are being played: whoever goes on plays them again, and draws none twice
            state["drawn"] = {str(step): [asdict(g.request) for g in groups] for step, groups in self._drawn.items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with these tasks, these paused groups, and what was drawn ahead."""
        self.pool.load_state_dict(state["pool"])
        self._drawn = {
            int(step): [_Group(RolloutRequest(**request), []) for request in requests]
            for step, requests in state.get("drawn", {}).items()
        }
        self.paused_groups = [
            _Group(RolloutRequest(**group["request"]), [Episode.from_dict(record) for record in group["episodes"]])
            for group in state["paused_groups"]
        ]


def longest_completion(episode: Episode) -> int:
    """Sampled tokens of the longest completion: the limit is one of completions, not of episodes."""
    start, longest = 0, 0
    for turn in episode.turns:
        longest = max(longest, sum(episode.tokens.mask[start : turn.end]))
        start = turn.end
    return longest


def _short(collected: Collected, k: int) -> Tensor:
    groups = [episode.group for episode in collected.episodes]
    lengths = torch.tensor([float(episode.tokens.sampled) for episode in collected.episodes])  # [B]
    return gfpo_keep(collected.rewards, groups, lengths, k)


def _note(episodes: Sequence[Episode], **entries: Any) -> None:
    for episode in episodes:
        episode.training |= entries


def _keep(collected: Collected, keep: Tensor, reason: str) -> None:
    """Only these sequences; the denominators shrink with them."""
    _note([e for e, kept in zip(collected.episodes, keep.tolist(), strict=True) if not kept], dropped=reason)
    for name in ("episodes", "rewards", "masked"):
        column = getattr(collected, name)
        setattr(collected, name, [item for item, kept in zip(column, keep.tolist(), strict=True) if kept])
