"""What is gathered from episodes: turns, steps, budgets, clusters, values; on episodes played by the tiny policy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
from gymnasium.envs.registration import EnvSpec

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode, Turn
from rlvr.algorithms.advantages import compute_advantages
from rlvr.algorithms.advantages.gather import (
    earned_per_token,
    parts_of_rewards,
    shaped_turn_rewards,
    token_turns,
    turns,
)
from rlvr.algorithms.advantages.monte_carlo import budget_answers, reply_steps, sampled_position, vine_steps
from rlvr.algorithms.advantages.semantic import answer_clusters
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.recipe.advantage import Played, Sources
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.sampling.collect import Collected
from rlvr.algorithms.train.policy_gradient import later_observations, turn_values
from rlvr.algorithms.train.run import Trainer
from rlvr.envs import Verdict
from rlvr.envs.rewards.rubric import Score
from rlvr.envs.wrappers.rewards import OwnVerdict, RubricReward

from .runs import SMALL, Callback, differences, small, stop_and_resume


def made(ends: list[int], mask: list[int], rewards: list[float], answer: str | None = None, group: int = 0) -> Episode:
    """An episode with turns that end at these places; token t has the id t."""
    episode = Episode("env", "key", 0, group=group)
    episode.turns = [
        Turn("o", "user", f"says {answer}", "stop", r, None, e) for e, r in zip(ends, rewards, strict=True)
    ]
    episode.tokens = TokenSequence(list(range(len(mask))), mask, [-1.0 * m for m in mask])
    episode.verdict = Verdict(sum(rewards), "correct", answer)
    return episode


TWO_TURNS = made([4, 7], [0, 0, 1, 1, 0, 1, 1], [0.25, 1.0])


def test_every_token_knows_its_turn():
    assert token_turns([TWO_TURNS]).tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    cut = made([4, 4], [0, 0, 1, 1], [0.0, 0.0])  # no room for the second reply
    assert token_turns([TWO_TURNS, cut]).tolist()[1] == [0, 0, 0, 0, 0, 0, 0]


def test_shaping_is_earned_in_the_last_turn():
    assert shaped_turn_rewards(TWO_TURNS, 1.25) == [0.25, 1.0]
    assert shaped_turn_rewards(TWO_TURNS, 1.0) == [0.25, 0.75]


def test_parts_are_summed_over_the_turns_and_the_reward_is_the_shaped_one():
    graded, other = (made([4, 7], [0, 0, 1, 1, 0, 1, 1], [0.0, 0.5]) for _ in range(2))
    for turn, parts in zip(graded.turns, ({"form": 1.0}, {"form": 0.5, "fact": 1.0, "true_reward": 1.0}), strict=True):
        turn.verdict = Verdict(turn.reward, "partial", parts=parts)
    sources = Sources(None, None, None, None, None, part_weights={"fact": 2.0, "form": 1.0, "reward": 0.5})
    entries = parts_of_rewards(Played([graded, other], [0.75, 0.5]), sources)
    assert entries["reward_parts"].tolist() == [[1.0, 1.5, 0.75], [0.0, 0.0, 0.5]]
    assert entries["part_weights"] == (2.0, 1.0, 0.5)
    sources.part_weights = {"from": 1.0}
    with pytest.warns(UserWarning, match="no verdict of this step has from, which counts as 0; there are fact, form, "):
        assert parts_of_rewards(Played([graded], [0.75]), sources)["reward_parts"].tolist() == [[0.0]]


def graded_calculator(**settings: Any) -> RubricReward:
    env = gym.make("rlvr/Calculator-v0", **settings)
    return RubricReward(env, OwnVerdict() + 0.5 * Score("brevity", lambda sample: 1 / (1 + len(sample.completion))))


@pytest.mark.slow
def test_a_run_on_two_parts_learns_from_both_and_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch):
    monkeypatch.setitem(gym.registry, "own/Graded-v0", EnvSpec("own/Graded-v0", graded_calculator))
    parts = {"environment": 1.0, "brevity": 0.25}
    changes = {"algorithm": "gdpo", "env": {"id": "own/Graded-v0"}, "credit": {"part_weights": parts}}
    whole = Trainer(small(tmp_path / "whole", **changes), Callback())
    whole.prepare()
    batch, _ = whole.method.credit(whole.collect().collected)
    assert len(set(batch.inputs.advantages.tolist())) > 4, "no reply is right, and replies differ in length"
    whole.close()
    shutil.rmtree(tmp_path / "whole")
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "broken", 3, monkeypatch, **changes)
    assert differences(tmp_path / "broken", tmp_path / "whole") == []


@pytest.mark.parametrize("weights", [{}, {"reward": float("nan")}])
def test_weights_of_parts_are_some_and_finite(weights: dict[str, float]):
    with pytest.raises(ConfigError, match=r"credit\.part_weights"):
        load_config({"algorithm": "gdpo", "credit": {"part_weights": weights}})


def test_turns_have_the_values_of_the_steps_that_they_begin():
    """A prefix, a reply of two steps, one that begins within the last step, and one without a token."""
    episode = made([0, 4, 6, 7, 7], [0, 0, 1, 1, 0, 1, 1], [0.0] * 5)
    entries = {"step": torch.tensor([[0, 0, 0, 1, 2, 2, 2]]), "step_values": torch.tensor([[0.25, 0.5, 0.75]])}
    assert turn_values([episode], entries) == [[None, 0.25, 0.75, None, None]]
    assert turn_values([episode], {"step": entries["step"]}) == []


def test_answers_cluster_by_what_was_extracted():
    episodes = [made([1], [1], [1.0], answer) for answer in ("7", "8", "7", None, None)]
    episodes += [made([1], [1], [1.0], "7", group=1)]
    episodes[4].turns[0].action = "something else"
    clusters = answer_clusters(episodes)
    assert clusters[0] == clusters[2]
    assert len(set(clusters)) == 5


def test_budgets_are_counted_in_sampled_tokens():
    assert [sampled_position(TWO_TURNS, n) for n in range(5)] == [2, 3, 5, 6, None]


def test_a_reply_and_each_of_its_lines_begin_a_step():
    episode = made([6, 9], [0, 0, 1, 1, 1, 1, 0, 1, 1], [0.0, 1.0])
    texts = {3: "\n"}
    steps = reply_steps(episode, lambda ids: texts.get(ids[0], "x"))
    assert steps == [0, 0, 0, 0, 1, 1, 2, 2, 2]


@pytest.fixture
def trainer(tmp_path):
    """Makes a trainer of the small config with an algorithm."""
    made = []

    def make(algorithm: str, **changes) -> Trainer:
        config = {**SMALL, "algorithm": algorithm, "overrides": {}, "out": str(tmp_path / algorithm)}
        config |= {"env": {"id": "rlvr/Calculator-v0", "system": False}, **changes}
        one = Trainer(load_config(config), Callback())
        one.learner.freeze_reference()
        made.append(one)
        return one

    yield make
    for one in made:
        one.folder.close()


def collected(trainer: Trainer) -> Collected:
    """All that was played, whatever the filters say."""
    played = trainer.collector(0).played
    return Collected(played, played, [episode.reward for episode in played], [False] * len(played))


GATHERED = [name for name, p in PRESETS.items() if p.estimator.gather and not p.estimator.teacher]


def gathered(trainer: Trainer, got: Collected, gather) -> dict:
    return gather(Played(got.episodes, got.rewards), trainer.method.sources)


@pytest.mark.parametrize("name", GATHERED)
def test_what_a_preset_needs_is_gathered(trainer, name: str):
    one = trainer(name, overrides={"continuations": 2} if name == "vineppo" else {}, credit={"budgets": [2, 5, 9]})
    got = collected(one)
    batch, _ = one.method.credit(got)
    assert len(batch) == len(got.episodes)
    advantages = batch.inputs.advantages
    assert advantages.isfinite().all()
    assert (advantages.dim() == 2) <= (one.learner.preset.estimator.per_token or one.learner.preset.whiten)
    if advantages.dim() == 2:
        assert (advantages[~batch.inputs.mask] == 0).all()


def test_vine_values_are_those_of_forks(trainer):
    """With one continuation a state, each step's value is what that very continuation earned."""
    one = trainer("vineppo", overrides={"continuations": 1})
    got = collected(one)
    batch = gathered(one, got, vine_steps)
    first = {episode.group: [] for episode in got.episodes}
    for episode, values in zip(got.episodes, batch["step_values"].tolist(), strict=True):
        first[episode.group].append(values[0])
    assert all(len(set(values)) == 1 for values in first.values())  # one first state a task
    assert 0 < batch["continuations"] <= sum(max(row) + 1 for row in batch["step"].tolist())
    again = gathered(one, got, vine_steps)
    assert torch.equal(batch["step_values"], again["step_values"])


def test_a_thought_shorter_than_a_budget_scores_its_own_reward(trainer):
    one = trainer("brpo", credit={"budgets": [3, 500]})
    got = collected(one)
    got.rewards = [index + 2.0 for index in range(len(got.rewards))]
    batch = gathered(one, got, budget_answers)
    assert batch["budget_scores"][:, 1].tolist() == got.rewards
    assert batch["budget_slice"].max() == 1
    spent = [sum(e.tokens.mask[: t + 1]) for e in got.episodes[:1] for t in range(len(e.tokens))]
    assert batch["budget_slice"][0, : len(spent)].tolist() == [int(n > 3) for n in spent]


def test_token_rewards_add_up_and_stand_where_turns_end(trainer):
    got = Collected([], [TWO_TURNS], [2.0], [False])
    batch = gathered(trainer("reinforce"), got, earned_per_token)
    assert batch["token_rewards"].tolist() == [[0, 0, 0, 0.25, 0, 0, 1.75]]


def test_masked_rows_count_without_tokens(trainer):
    one = trainer("grpo")
    got = collected(one)
    got.rewards = [float(i % 2) for i in range(len(got.rewards))]
    got.masked = [i == 0 for i in range(len(got.masked))]
    batch, _ = one.method.credit(got)
    assert not batch.inputs.mask[0].any()
    assert got.episodes[0].tokens.sampled > 0  # the episode itself is as it was
    assert batch.inputs.advantages[0] < 0
    assert one.learner.count(batch).n_sequences == len(batch)


def test_gfpo_leaves_rows_out(trainer):
    one = trainer("gfpo", overrides={"group_keep": 2})
    got = one.collector(0)
    batch, _ = one.method.credit(got)
    assert len(batch) == 2 * one.config.prompts
    for group in range(one.config.prompts):
        played = sorted(e.tokens.sampled for e in got.played if e.group == group)
        assert sorted(e.tokens.sampled for e in got.episodes if e.group == group) == played[:2]


def test_roles_remember(trainer):
    one = trainer("spiral")
    got = collected(one)
    got.rewards = [1.0] * len(got.rewards)
    first, _ = one.method.credit(got)
    state = one.method.state_dict()
    other = trainer("spiral", out=str(one.folder.path) + "-other")
    other.method.load_state_dict(state)
    ours, theirs = one.method.credit(got)[0].inputs, other.method.credit(got)[0].inputs
    assert torch.equal(ours.advantages, theirs.advantages)
    assert ours.advantages.mean() < first.inputs.advantages.mean()


def test_an_episode_is_credited_as_the_definition_says(trainer):
    """Turn returns by hand: ReBN of two turns with gamma 0.9."""
    one = trainer("gem_rebn")
    got = Collected([], [TWO_TURNS, made([4, 7], [0, 0, 1, 1, 0, 1, 1], [0.0, 0.0])], [1.25, 0.0], [False, False])
    batch = gathered(one, got, turns)
    mask = torch.tensor([TWO_TURNS.tokens.mask] * 2, dtype=torch.bool)
    advantages = compute_advantages([1.25, 0.0], [0, 0], PRESETS["gem_rebn"], {**batch, "mask": mask})
    returns = torch.tensor([0.25 + 0.9 * 1.0, 1.0, 0.0, 0.0])
    normal = (returns - returns.mean()) / (returns.std() + 1e-9)
    torch.testing.assert_close(advantages[0, [2, 3, 5, 6]], normal[[0, 0, 1, 1]])


# ECHO


def test_observations_stand_between_actions():
    phrase = made([6, 9], [0, 1, 1, 0, 0, 1, 0, 0, 1], [0.0, 1.0])  # tokens 3 and 4 were forced within the first reply
    cut = made([4, 4], [0, 0, 1, 1], [0.0, 0.0])
    mask = torch.zeros(4, 9, dtype=torch.bool)
    for index, episode in enumerate((TWO_TURNS, phrase, cut)):
        mask[index, : len(episode.tokens)] = torch.tensor(episode.tokens.mask, dtype=torch.bool)
    observed = later_observations([TWO_TURNS, phrase, cut, TWO_TURNS], mask)
    assert observed.nonzero().tolist() == [[0, 4], [1, 6], [1, 7]]  # the last one's tokens are masked


@pytest.mark.parametrize("kl_coef", [0.0, 0.04])
def test_the_policy_learns_what_the_environment_says(trainer, kl_coef: float):
    """The whole batch's mean over observations, by the model's own logits; also where no reward differs."""
    overrides = {"observation_coef": 0.5, "kl_coef": kl_coef}
    one = trainer("grpo", overrides=overrides, env=SMALL["env"])  # a game of several turns
    got = collected(one)
    got.rewards = [0.0] * len(got.rewards)
    batch, _ = one.method.credit(got)
    assert batch.inputs.observations.any()
    total = tokens = 0.0
    for episode, observed in zip(got.episodes, batch.inputs.observations.tolist(), strict=True):
        ids = episode.tokens.ids
        with torch.no_grad():
            logs = one.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        for t in range(1, len(ids)):
            total -= float(logs[t - 1, ids[t]]) * observed[t]
            tokens += observed[t]
    metrics = one.method.update(
        one.method.score(batch), one.learner.new_optimiser(lambda step: 1e-3, betas=(0.9, 0.95))
    )
    assert metrics["observation_loss"] == pytest.approx(0.5 * total / tokens, rel=1e-6)
    assert metrics["loss"] == pytest.approx(metrics["observation_loss"], abs=1e-6)
    assert metrics["grad_norm"] > 0


@pytest.mark.slow
def test_a_run_that_learns_observations_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    changes = {"overrides": {"observation_coef": 0.05}}
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "broken", 3, monkeypatch, **changes)
    assert differences(tmp_path / "broken", tmp_path / "whole") == []
