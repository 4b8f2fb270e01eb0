"""Expert prefixes in a run: nothing of them is learned, one rule says how long they are, and no evaluation has one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.adapters.launch.common import classify_rest
from rlvr.adapters.launch.translation import Translation
from rlvr.agents.episode import Episode, RolloutRequest, Turn
from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.advantages.hindsight import behind_condition
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.config.flat_settings import plain_settings
from rlvr.algorithms.config.sections import PrefixSection
from rlvr.algorithms.losses.policy import policy_loss
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.sampling.collect import TaskOrder, build_pool
from rlvr.algorithms.sampling.prefixes import ExpertPrefixes
from rlvr.algorithms.train.policy_gradient import later_observations
from rlvr.algorithms.train.run import Trainer
from rlvr.envs import Verdict

from .runs import CALCULATOR, GUESS, Callback, content, differences, small, stop_and_resume

SHORT: dict[str, Any] = {"warm_start": {"steps": 0, "mixed_steps": 0}, "sampling": {"max_new_tokens": 6}}
FIRST = RolloutRequest(seed=0)


class Demonstrations:
    """Stands for a rollout of an expert: so many turns for each task index, None where it fails."""

    def __init__(self, turns: Any) -> None:
        self.turns = turns

    def __call__(self, requests: list[RolloutRequest]) -> list[Episode]:
        return [self._play(request) for request in requests]

    def _play(self, request: RolloutRequest) -> Episode:
        count = self.turns(request.index or 0)
        episode = Episode("env", request.key("env"), request.seed, index=request.index, level=request.level)
        episode.turns = [Turn("o", "user", f"move {number}", "stop") for number in range(count or 1)]
        episode.verdict = Verdict(float(count is not None), "correct" if count is not None else "wrong")
        return episode


def prefixes(turns: Any = lambda index: 5, **changes: Any) -> ExpertPrefixes:
    return ExpertPrefixes(Demonstrations(turns), PrefixSection(**{"share": 0.5, **changes}), FIRST)


def group(rate: float, level: int = 1) -> list[Episode]:
    """Ten episodes, of which so many succeed."""
    episodes = [Episode("env", "key", 0, level=level) for _ in range(10)]
    for index, episode in enumerate(episodes):
        episode.verdict = Verdict(1.0, "correct") if index < 10 * rate else Verdict(0.0, "wrong")
    return episodes


# the rule


@settings(max_examples=60)
@given(st.floats(0, 1), st.integers(1, 12), st.integers(0, 200))
def test_the_last_turn_is_the_policys(share: float, turns: int, index: int):
    rule = prefixes(lambda _: turns, share=share)
    (request,) = rule.put_before([RolloutRequest(seed=0, index=index, salt="step 1")])
    assert request.prefix == tuple(f"move {number}" for number in range(len(request.prefix)))
    assert len(request.prefix) <= turns - 1
    assert abs(share * (turns - 1) - len(request.prefix)) < 1 + 1e-9
    assert rule.put_before([replace(request, prefix=())]) == [request]


def test_the_expert_plays_its_share_in_the_mean():
    """Of four of five turns, up to the top: a share that fell from 1 hands a turn over at once."""
    for share in (0.3, 0.9):
        requests = prefixes(share=share).put_before([RolloutRequest(seed=0, index=index) for index in range(2000)])
        assert sum(len(request.prefix) for request in requests) / 2000 == pytest.approx(4 * share, abs=0.05)


@settings(max_examples=60)
@given(st.floats(0, 1), st.lists(st.integers(0, 10), max_size=30))
def test_the_share_moves_against_the_success_and_stays_a_share(share: float, rates: list[int]):
    rule = prefixes(share=share, gain=0.1)
    for rate in rates:
        rule.put_before([FIRST])
        before = rule.stats([])["prefix_share"]
        rule.record(group(rate / 10))
        after = rule.stats([])["prefix_share"]
        assert 0 <= after <= 1
        assert (after > before) <= (rate < 5)
        assert (after < before) <= (rate > 5)


@pytest.mark.parametrize("start", [0.0, 0.5, 1.0])
def test_the_share_settles_where_half_of_the_episodes_succeed(start: float):
    rule = prefixes(share=start, gain=0.05)
    for _ in range(300):
        rule.record(group(rule.stats([])["prefix_share"] ** 2))  # at a share of .71 half
    assert rule.stats([])["prefix_share"] == pytest.approx(0.71, abs=0.1)


def test_each_level_has_a_share_of_its_own():
    rule = prefixes()
    rule.record(group(1.0, level=1))
    rule.record(group(0.0, level=2))
    rule.record([])
    assert rule.shares == {"env, level 1": pytest.approx(0.49), "env, level 2": pytest.approx(0.51)}
    resumed = prefixes()
    resumed.load_state_dict(json.loads(json.dumps(rule.state_dict())))
    assert resumed.shares == rule.shares


def test_a_task_that_the_expert_does_not_solve_begins_without_its_turns():
    rule = prefixes(lambda index: None if index == 1 else 5, share=1.0)
    with pytest.warns(UserWarning, match="the expert does not solve 1 of 3 tasks, so they begin without its turns"):
        asked = rule.put_before([RolloutRequest(seed=0, index=index) for index in range(3)])
    assert [len(request.prefix) for request in asked] == [4, 0, 4]


class Table:
    size = 2


def test_a_row_that_is_solved_behind_the_experts_turns_is_not_retired():
    config = load_config({"selection": {"filters": ["no_positive_resampling"]}})
    pool = build_pool(TaskOrder(Table(), "train", 0), config)
    for prefix, retired in ((("move",), 0), ((), 1)):
        pool.record(RolloutRequest(seed=0, index=0, prefix=prefix), [True] * 8)
        assert pool.stats() == {"tasks_retired": retired}


# in a run


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A trainer, and a step whose episodes have prefixes."""
    out = tmp_path_factory.mktemp("prefixes") / "run"
    run = Trainer(small(out, prefix={"share": 0.6}, **SHORT, group_size=3), Callback())
    run.prepare()
    run.begin()
    yield run, run.collect().collected
    run.close()


def test_the_tokens_of_a_prefix_have_no_gradient(sample):
    run, collected = sample
    batch, _ = run.method.credit(collected)
    batch = run.method.score(batch)
    logprobs = batch.inputs.behaviour_logprobs.clone().requires_grad_()
    advantages = torch.ones_like(batch.inputs.advantages)  # a policy that never succeeds has none of its own
    inputs = replace(batch.inputs, advantages=advantages, old_logprobs=logprobs.detach(), ref_logprobs=None)
    loss, _ = policy_loss(logprobs, inputs, PRESETS["reinforce"])
    loss.backward()
    assert sum(episode.prefix for episode in collected.episodes) > 0
    for episode, gradient in zip(collected.episodes, logprobs.grad, strict=True):
        first = episode.tokens.mask.index(1)
        assert episode.turns[episode.prefix].end > first
        assert (gradient[:first] == 0).all()
        assert (gradient[: len(episode.tokens)] != 0).tolist() == [bool(each) for each in episode.tokens.mask]


def test_members_of_a_group_have_one_prefix(sample):
    _, collected = sample
    for number in {episode.group for episode in collected.played}:
        starts = {
            tuple(turn.action for turn in episode.turns[: episode.prefix])
            for episode in collected.played
            if episode.group == number
        }
        assert len(starts) == 1


def test_what_follows_the_experts_actions_is_no_observation_of_the_policys(sample):
    _, collected = sample
    mask = torch.zeros(len(collected.episodes), max(len(e.tokens) for e in collected.episodes), dtype=torch.bool)
    for row, episode in enumerate(collected.episodes):
        mask[row, : len(episode.tokens)] = torch.tensor(episode.tokens.mask, dtype=torch.bool)
    observed = later_observations(collected.episodes, mask)
    for row, episode in enumerate(collected.episodes):
        assert not observed[row, : episode.tokens.mask.index(1)].any()


def test_a_condition_stands_before_the_task_and_the_prefix_stays(sample):
    run, collected = sample
    episode = max(collected.episodes, key=lambda each: each.prefix)
    tokens = behind_condition(run.renderer, episode, "Feedback: correct")
    text = run.renderer.decode(tokens.ids)
    assert text.index("Feedback: correct") < text.index(episode.turns[0].action) < len(text)
    plain = behind_condition(run.renderer, episode, "")
    assert (plain.ids, plain.mask) == (episode.tokens.ids, episode.tokens.mask)


GATHERED = [name for name, preset in PRESETS.items() if preset.estimator.gather and not preset.estimator.teacher]


@pytest.mark.slow
@pytest.mark.parametrize("name", GATHERED)
def test_every_advantage_goes_with_prefixes(tmp_path: Path, name: str):
    changes = {"overrides": {"continuations": 2}} if name == "vineppo" else {"overrides": {}}
    callback = Callback()
    Trainer(small(tmp_path, algorithm=name, prefix={"share": 0.7}, steps=1, **changes, **SHORT), callback).run()
    (record,) = callback.of("train")
    assert record["prefix_turns"] > 0


@pytest.mark.parametrize("changes", [{}, pytest.param({"schedule": {"kind": "async"}}, marks=pytest.mark.slow)])
def test_an_evaluation_has_no_prefix_and_training_does(tmp_path: Path, changes: dict[str, Any]):
    callback = Callback()
    if changes:
        changes["schedule"]["correction"] = "tis"
    Trainer(small(tmp_path / "run", prefix={"share": 0.8}, **SHORT, **changes), callback).run()
    counts = {
        path.stem.split("-")[0]: [episode.prefix for episode in read_episodes(path)]
        for path in sorted((tmp_path / "run" / "episodes").glob("*.jsonl"))
    }
    assert set(counts["evaluation"]) == {0}
    assert max(counts["train"]) > 0
    shares = [record["prefix_share"] for record in callback.of("train")]
    assert shares == sorted(shares), "nothing is solved, so the expert plays more"
    assert all(record["prefix_turns"] > 0 for record in callback.of("train"))


def test_tasks_that_were_drawn_ahead_keep_their_prefixes(sample):
    run, _ = sample
    asked = run.collector.draw_ahead(7)
    assert any(request.prefix for request in asked)
    run.collector.load_state_dict(json.loads(json.dumps(run.collector.state_dict())))
    assert run.collector.draw_ahead(7) == asked
    assert len({*asked}) == len(asked), "whoever plays ahead knows them by what they are"


PAUSES = {"selection": {"filters": ["partial_rollouts"]}, "sampling": {"max_new_tokens": 6, "segment": 3}}


@pytest.mark.parametrize("more", [{}, pytest.param(PAUSES, marks=pytest.mark.slow)])
def test_a_run_that_goes_on_ends_in_the_same_bytes(tmp_path: Path, monkeypatch, more: dict[str, Any]):
    changes = {"prefix": {"share": 0.5, "gain": 0.2}, "steps": 4, **SHORT, **more}
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "stopped", 3, monkeypatch, **changes)
    assert differences(tmp_path / "whole", tmp_path / "stopped") == []


def test_a_share_of_nothing_is_a_run_without_prefixes(tmp_path: Path):
    Trainer(small(tmp_path / "none", **SHORT, steps=2), Callback()).run()
    Trainer(small(tmp_path / "zero", **SHORT, steps=2, prefix={"share": 0.0, "gain": 1e-12}), Callback()).run()
    none, zero = content(tmp_path / "none"), content(tmp_path / "zero")
    assert none.keys() == zero.keys()
    apart = [name for name in none if none[name] != zero[name]]
    # the log has the share, and so has the collector's state
    assert {Path(name).name for name in apart} <= {"metrics.jsonl", "counters.json", "manifest.json"}, apart


# bad input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix": {"share": 1.5}}, "prefix.share"),
        ({"prefix": {"share": 0.5, "target": 1.0}}, "prefix.target"),
        (
            {"prefix": {"share": 0.5}, "curriculum": {"kind": "target"}, "env": {"level": 2}},
            "prefix.share and curriculum.kind target both hold the success rate: leave one of them out",
        ),
    ],
)
def test_a_config_that_cannot_be_run_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        load_config(changes)


def test_an_environment_without_an_expert_is_refused(tmp_path: Path, monkeypatch):
    from rlvr.envs.games.guess_number import GuessNumber

    def nobody(self: Any, state: Any) -> str:
        raise NotImplementedError("GuessNumber has no expert")

    monkeypatch.setattr(GuessNumber, "solve", nobody)
    with pytest.raises(ConfigError, match=f"prefix.share needs an expert, and that of {GUESS} fails: .*has no expert"):
        Trainer(small(tmp_path, prefix={"share": 0.5}, **SHORT), Callback())


def test_models_as_opponents_are_refused(tmp_path: Path):
    game = {"env": {"id": "rlvr/KuhnPoker-v0", "settings": {"opponents": ["self"]}}}
    with pytest.raises(ConfigError, match=r"prefix.share: what the expert does depends on opponents .* name bots"):
        Trainer(small(tmp_path, prefix={"share": 0.5}, **game, **SHORT), Callback())


def test_a_task_of_one_turn_is_the_policys_alone(tmp_path: Path):
    callback = Callback()
    changes = {"env": {"id": "rlvr/Countdown-v0"}, "prefix": {"share": 1.0}, "steps": 1}
    Trainer(small(tmp_path, **changes, **SHORT), callback).run()
    assert callback.of("train")[0]["prefix_turns"] == 0


@pytest.mark.parametrize("share", [None, 0.5])
def test_another_trainer_plays_no_prefix_and_says_so(share: float | None):
    config = load_config({"env": {"id": CALCULATOR}, "prefix": {"share": share}})
    values = {name: value for name, value in plain_settings(config).items() if name.startswith("prefix.")}
    translation = Translation("trainer", values)
    classify_rest(translation)
    consent = [line.setting for line in translation.lines.values() if line.consent]
    assert translation.lines.keys() == values.keys()
    assert consent == ([] if share is None else ["prefix.share"])
