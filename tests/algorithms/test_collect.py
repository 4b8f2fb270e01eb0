"""Collecting a step: which tasks are drawn, which groups are refilled or dropped, what is added to rewards."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode, RolloutRequest, Turn
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.filters.lengths import longest_completion
from rlvr.algorithms.sampling.collect import Collector, TaskOrder, TaskPool
from rlvr.envs import Verdict
from rlvr.envs.curriculum.controllers import RateSampler
from rlvr.envs.rewards.shaping import kimi_length, soft_overlong

LIMIT = 10


class Table:
    """Stands for an environment with so many rows; None for one without end."""

    def __init__(self, size: int | None) -> None:
        self.size = size


class FakeRollout:
    """Plays requests by a rule: (task index, sample) -> (success, tokens, cut)."""

    def __init__(self, rule) -> None:
        self.rule, self.asked = rule, []
        self.parts = lambda sample: {}

    def __call__(self, requests: list[RolloutRequest]) -> list[Episode]:
        self.asked += requests
        return [self._play(request) for request in requests]

    def _play(self, request: RolloutRequest) -> Episode:
        success, tokens, cut = self.rule(request.index, request.sample)
        status = {True: "correct", False: "wrong", None: "env_error"}[success]
        episode = Episode("env", request.key("env"), request.seed, request.group, request.sample, request.index)
        episode.tokens = TokenSequence([1] * (tokens + 2), [0, 0] + [1] * tokens, [0.0] * (tokens + 2))
        verdict = Verdict(float(bool(success)), status, parts=self.parts(request.sample))
        episode.turns = [Turn("o", "user", "a", "length" if cut else "stop", verdict.reward, verdict, tokens + 2)]
        episode.verdict = verdict
        return episode


def collector(rule, filters=(), size=None, **changes) -> tuple[Collector, FakeRollout]:
    config = load_config(
        {
            "prompts": 3,
            "group_size": 4,
            "steps": 10,
            "sampling": {"max_new_tokens": LIMIT, "max_length": 64},
            "selection": {"filters": list(filters), "max_rounds": 3} | changes,
        }
    )
    rollout = FakeRollout(rule)
    return Collector(rollout, TaskOrder(Table(size), "train", 0), config, config.filters()), rollout


def some(index: int, sample: int):
    """Every third task is solved by half of its group, the others by none."""
    return (index % 3 == 0 and sample % 2 == 0), 4, False


def test_without_filters_every_task_is_played_once_and_kept():
    collect, rollout = collector(some)
    first, second = collect(0), collect(1)
    assert [r.index for r in rollout.asked] == [i for i in range(6) for _ in range(4)]
    assert [e.group for e in second.episodes] == [g for g in range(3) for _ in range(4)]
    assert first.stats == {"groups_kept": 3, "sequences_masked": 0}
    assert {r.salt for r in rollout.asked} == {"step 0", "step 1"}


def test_dynamic_sampling_refills_until_the_batch_is_full():
    collect, rollout = collector(some, ["dynamic_sampling"], max_rounds=9)
    got = collect(0)
    assert {e.index for e in got.episodes} == {0, 3, 6}
    assert got.stats["groups_kept"] == 3
    assert got.stats["rounds"] == 4
    assert got.stats["groups_drawn"] == len(rollout.asked) / 4 == len(got.played) / 4 == 7
    assert collect(1).played[0].index == 7  # no task is asked again


def test_refills_are_capped():
    collect, _ = collector(lambda index, sample: (False, 4, False), ["dynamic_sampling"])
    got = collect(0)
    assert got.episodes == []
    assert got.stats["rounds"] == 3
    assert got.stats["groups_drawn"] == 9


def test_active_sampling_asks_for_different_rewards():
    collect, _ = collector(lambda index, sample: (index != 1, 4, False), ["active_sampling"])
    assert collect(0).episodes == []
    collect, _ = collector(some, ["active_sampling"], max_rounds=9)
    assert collect(0).stats["groups_kept"] == 3


def test_the_zero_gradient_filter_drops_without_refill():
    collect, rollout = collector(some, ["zero_gradient"])
    got = collect(0)
    assert {e.index for e in got.episodes} == {0}
    assert got.stats["groups_dropped"] == 2
    assert len(rollout.asked) == 12
    assert len(got.rewards) == len(got.masked) == len(got.episodes) == 4


def test_faults_that_are_not_the_policys_are_left_out():
    collect, _ = collector(lambda index, sample: (None if sample == 0 else sample == 1, 4, False))
    got = collect(0)
    assert len(got.played) == 12
    assert len(got.episodes) == 9


def test_overlong_rows_are_masked_and_still_counted():
    collect, _ = collector(lambda index, sample: (sample > 1, LIMIT, sample == 0), ["overlong_filter"])
    got = collect(0)
    assert got.masked == [True, False, False, False] * 3
    assert got.stats["sequences_masked"] == 3
    assert got.rewards == [0.0, 0.0, 1.0, 1.0] * 3


def test_soft_overlong_is_added_before_the_group_statistics():
    collect, _ = collector(lambda index, sample: (True, 7 + sample, False), ["soft_overlong", "zero_gradient"])
    got = collect(0)  # all succeed, so without the punishment every group would be dropped
    assert got.rewards[:4] == [1.0 + soft_overlong(7 + n, max_length=LIMIT, buffer=2) for n in range(4)]
    assert got.rewards[0] == 1.0 > got.rewards[3]
    assert got.stats["groups_dropped"] == 0


def test_the_audit_withholds_the_reward_of_hacks_that_it_reads():
    def worth(index, sample):
        return sample > 0, 4, False

    for share in (1.0, 0.5):
        collect, rollout = collector(worth, ["audit"], audit_share=share)
        rollout.parts = lambda sample: {"true_reward": float(sample == 1)} if sample < 3 else {}
        rewards = [collect(step).rewards for step in range(40)]
        flat = [reward for step in rewards for reward in step]
        # failed; right; paid and not right; nobody says what it was worth
        assert {*flat[0::4]} == {0.0}
        assert {*flat[1::4]} == {*flat[3::4]} == {1.0}
        assert sum(flat[2::4]) / len(flat[2::4]) == pytest.approx(1 - share, abs=0.15)
        collect, rollout = collector(worth, ["audit"], audit_share=share)
        rollout.parts = lambda sample: {"true_reward": float(sample == 1)} if sample < 3 else {}
        assert [collect(step).rewards for step in range(40)] == rewards, "which are read is no chance"


def test_the_length_reward_comes_late():
    collect, _ = collector(lambda index, sample: (sample < 2, 2 + sample, False), ["length_reward"], length_weight=2.0)
    assert collect(4).rewards[:4] == [1.0, 1.0, 0.0, 0.0]
    extra = kimi_length([2, 3, 4, 5], [True, True, False, False])
    assert collect(5).rewards[:4] == [r + 2 * e for r, e in zip([1.0, 1.0, 0.0, 0.0], extra, strict=True)]


def test_solved_rows_of_a_table_are_not_asked_again():
    collect, rollout = collector(lambda index, sample: (index < 2, 4, False), ["no_positive_resampling"], size=5)
    for step in range(4):
        collect(step)
    asked = [r.index for r in rollout.asked if r.sample == 0]
    assert asked.count(0) == asked.count(1) == 1
    assert len(asked) == 12
    assert collect(4).stats["tasks_retired"] == 2


def test_a_table_that_is_solved_whole_is_asked_all_the_same():
    collect, rollout = collector(lambda index, sample: (True, 4, False), ["no_positive_resampling"], size=2)
    for step in range(3):
        collect(step)
    assert len(rollout.asked) == 36


def test_the_curriculum_asks_solved_tasks_less():
    collect, rollout = collector(lambda index, sample: (index != 3, 4, False), ["curriculum"], size=8)
    for step in range(40):
        collect(step)
    asked = [r.index for r in rollout.asked if r.sample == 0]
    assert asked.count(3) > 0.5 * len(asked)
    assert set(asked) == set(range(8))


def test_the_curriculum_of_endless_tasks_is_over_levels():
    pool = TaskPool(TaskOrder(Table(None), "train", 0), level=3, curriculum=RateSampler([1, 2, 3]))
    levels = []
    for place in range(300):
        request = pool.draw(salt="")
        assert request.index == place
        levels.append(request.level)
        pool.record(request, [request.level == 1] * 4)
    assert levels.count(1) < 0.2 * len(levels)
    assert set(levels) == {1, 2, 3}


@given(st.integers(0, 6), st.sampled_from([(), ("dynamic_sampling",), ("curriculum",), ("no_positive_resampling",)]))
def test_a_run_that_goes_on_draws_what_it_would_have_drawn(steps: int, filters: tuple[str, ...]):
    def rule(index: int, sample: int):
        return (index * 7 + sample) % 3 == 0, 4, False

    whole, _ = collector(rule, filters, size=11)
    for step in range(steps):
        whole(step)
    resumed, _ = collector(rule, filters, size=11)
    resumed.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    for step in range(steps, steps + 2):
        assert [e.key for e in resumed(step).played] == [e.key for e in whole(step).played]


class SlowRollout(FakeRollout):
    """Puts every second member of a group on pause twice."""

    def __call__(self, requests: list) -> list[Episode]:
        return [self._go_on(item) if isinstance(item, Episode) else self._begin(item) for item in requests]

    def _begin(self, request: RolloutRequest) -> Episode:
        self.asked.append(request)
        whole = self._play(request)
        if request.sample % 2:
            whole.verdict, whole.partial_completion = None, TokenSequence([7], [1], [-1.0])
        return whole

    def _go_on(self, episode: Episode) -> Episode:
        episode.partial_completion.extend(TokenSequence([7], [1], [-1.0]))
        if len(episode.partial_completion) == 3:
            episode.verdict, episode.partial_completion = episode.turns[-1].verdict, TokenSequence()
        return episode


def test_groups_wait_for_their_members_over_steps_and_checkpoints():
    def made() -> Collector:
        collect, _ = collector(some, ["partial_rollouts"])
        collect.rollout = SlowRollout(some)
        return collect

    whole, resumed = made(), made()
    seen = []
    for step in range(5):
        got = whole(step)
        seen.append((len(got.episodes), got.stats["groups_paused"]))
        assert all(episode.done for episode in got.played)
        assert [e.group for e in got.episodes] == sorted(e.group for e in got.episodes)
        fresh = made()
        fresh.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
        assert [e.to_dict() for e in fresh(step).played] == [e.to_dict() for e in got.played]
        resumed = fresh
    assert seen == [(0, 3), (0, 6), (12, 6), (12, 6), (12, 6)]


def test_the_longest_completion_counts_sampled_tokens_only():
    episode = Episode("env", "key", 0)
    episode.tokens = TokenSequence(list(range(9)), [0, 1, 1, 0, 1, 0, 1, 1, 0], [0.0] * 9)
    episode.turns = [Turn("", "user", "", "stop", end=3), Turn("", "tool", "", "stop", end=9)]
    assert longest_completion(episode) == 3


def test_filters_without_effect_are_named():
    collect, _ = collector(some, ["thinking_budget", "no_positive_resampling", "partial_rollouts"])
    assert all(word in collect.notes()[0] for word in ("thinking_budget", "never return", "segment"))
    assert collector(some)[0].notes() == []


def test_partial_rollouts_do_not_go_with_refills():
    with pytest.raises(ConfigError, match="refills"):
        load_config({"sampling": {"segment": 8}, "selection": {"filters": ["partial_rollouts", "active_sampling"]}})


def test_the_config_overrides_a_presets_filters():
    assert load_config({"algorithm": "dapo"}).filters() == ("dynamic_sampling", "soft_overlong", "overlong_filter")
    assert load_config({"algorithm": "dapo", "selection": {"filters": []}}).filters() == ()
    with pytest.raises(ConfigError, match="did you mean 'dynamic_sampling'"):
        load_config({"selection": {"filters": ["dynamic_samplin"]}})
