"""Forks: an episode goes on from any turn of a recorded one, and names it."""

from __future__ import annotations

import json

import pytest

from rlvr.agents import ConstantAgent, ExpertAgent, RandomAgent, Rollout, task_requests
from rlvr.agents.conversation import Reply
from rlvr.agents.episode import Episode
from rlvr.agents.fork import OneAction, fork, go_on

ENV = "rlvr/BullsAndCows-v0"


@pytest.fixture(scope="module")
def rollout() -> Rollout:
    return Rollout(ENV, RandomAgent(0))


@pytest.fixture(scope="module")
def recorded(rollout) -> Episode:
    """An episode of some turns that does not succeed."""
    (episode,) = rollout(task_requests(None, 1, seed=5))
    assert not episode.success
    assert len(episode.turns) > 3
    return episode


@pytest.mark.parametrize("turn", [0, 1, 3])
def test_an_expert_wins_from_any_turn_of_an_episode_that_was_lost(rollout, recorded, turn):
    before = json.dumps(recorded.to_dict())
    made = go_on(rollout, fork(recorded, turn, {"file": "a.jsonl"}), ExpertAgent(), "expert")
    assert made.success
    assert [t.action for t in made.turns[:turn]] == [t.action for t in recorded.turns[:turn]]
    assert [t.observation for t in made.turns[: turn + 1]] == [t.observation for t in recorded.turns[: turn + 1]]
    assert made.forked_from == {"file": "a.jsonl", "key": recorded.key, "turn": turn, "by": ["expert"]}
    assert made.key != recorded.key
    assert Episode.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert json.dumps(recorded.to_dict()) == before
    assert "forked_from" not in recorded.to_dict()


def test_actions_by_hand_lead_where_the_recorded_ones_led(rollout, recorded):
    made = go_on(rollout, fork(recorded, 1), OneAction(None))
    assert not made.done
    for number, turn in enumerate(recorded.turns[1:], 1):
        assert made.turns[-1].observation == turn.observation
        assert len(made.turns) == number + 1
        made = go_on(rollout, made, OneAction(turn.action), "hand")
    assert made.done
    assert (made.verdict, made.reward, made.final_observation) == (
        recorded.verdict, recorded.reward, recorded.final_observation,
    )  # fmt: skip
    assert made.forked_from["by"] == ["hand"] * (len(recorded.turns) - 1)


@pytest.mark.parametrize("turn", [-1, 99])
def test_a_turn_that_is_not_there_is_refused(recorded, turn):
    with pytest.raises(ValueError, match="the episode has turns 0 to"):
        fork(recorded, turn)


def test_an_environment_that_leads_elsewhere_is_refused(rollout, recorded):
    made = fork(recorded, 2)
    made.seed += 1
    with pytest.raises(ValueError, match="cannot be played again up to this turn"):
        go_on(rollout, made, OneAction(None))


def test_an_agent_that_fails_leaves_the_fork_as_it_was(rollout, recorded):
    class Failing(ConstantAgent):
        def act(self, conversations):
            return [Reply("", "error", error="the server is gone") for _ in conversations]

    made = fork(recorded, 2)
    before = json.dumps(made.to_dict())
    with pytest.raises(ValueError, match="the agent gave no action: the server is gone"):
        go_on(rollout, made, Failing())
    assert json.dumps(made.to_dict()) == before
