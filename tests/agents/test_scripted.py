"""Agents that need no model."""

from __future__ import annotations

import io
import itertools

import gymnasium as gym
import pytest

from rlvr.agents import ConstantAgent, Conversation, ExpertAgent, HumanAgent, RandomAgent, Rollout, RolloutRequest
from rlvr.agents.scripted import printable

GUESS = "rlvr/GuessNumber-v0"


def asked(count: int = 12, samples: int = 1) -> list[RolloutRequest]:
    return [RolloutRequest(seed=1, index=i, sample=sample) for i in range(count) for sample in range(samples)]


def actions(episodes) -> list[list[str]]:
    return [[turn.action for turn in episode.turns] for episode in episodes]


def test_the_expert_always_wins_and_says_what_solve_says():
    episodes = Rollout(GUESS, ExpertAgent())(asked())
    assert all(episode.success for episode in episodes)
    env = gym.make(GUESS).unwrapped
    for episode in episodes:
        env.reset(seed=1, options={"index": episode.index})
        for turn in episode.turns:
            assert turn.action == env.solve()
            env.step(turn.action)


def test_a_share_of_the_experts_episodes_takes_the_shortcut_and_wins_too():
    requests = asked(300)
    long = Rollout("rlvr/Calculator-v0", ExpertAgent())(requests)
    mixed = Rollout("rlvr/Calculator-v0", ExpertAgent(shortcut_share=0.3))(requests)
    assert all(len(episode.turns) == 2 for episode in long)
    assert all(episode.success for episode in mixed)
    short = sum(len(episode.turns) == 1 for episode in mixed)
    assert 60 <= short <= 120  # 90 expected, a standard deviation is 8
    again = Rollout("rlvr/Calculator-v0", ExpertAgent(shortcut_share=0.3), batch_size=7)(requests)
    assert actions(again) == actions(mixed)


def test_a_task_without_a_shortcut_is_played_in_full():
    episodes = Rollout("rlvr/Countdown-v0", ExpertAgent(shortcut_share=1.0))(asked(3))
    assert all(episode.success for episode in episodes)


def test_random_play_depends_on_seed_episode_and_turn_and_on_nothing_else():
    first = Rollout(GUESS, RandomAgent(5), batch_size=64)(asked(10, samples=3))
    alone = [Rollout(GUESS, RandomAgent(5))([request])[0] for request in asked(10, samples=3)]
    assert actions(alone) == actions(first)
    assert actions(Rollout(GUESS, RandomAgent(6))(asked(10, samples=3))) != actions(first)
    by_sample = [episode.turns[0].action for episode in first]
    assert len(set(by_sample)) > 5
    turns = [turn.action for episode in first for turn in episode.turns]
    assert any(a != b for a, b in itertools.pairwise(turns))


def test_the_constant_agent_is_the_floor():
    episodes = Rollout(GUESS, ConstantAgent())(asked())
    assert {episode.reward for episode in episodes} == {0.0}
    assert {action for episode in actions(episodes) for action in episode} == {""}


@pytest.mark.parametrize("agent", [ExpertAgent(), RandomAgent()])
@pytest.mark.parametrize("env", [None, gym.make("CartPole-v1").unwrapped])
def test_asking_an_environment_that_knows_no_expert_is_a_clear_error(agent, env):
    with pytest.raises(TypeError, match="asks the environment itself"):
        agent.act([Conversation("key", [{"role": "user", "content": "hi"}], env=env)])


def test_a_person_sees_what_is_new_and_answers():
    shown, answers = [], iter(["\\boxed{8}", "\\boxed{4}", "12", "14"])
    agent = HumanAgent(ask=lambda prompt: next(answers), show=lambda role, text: shown.append((role, text)))
    (episode,) = Rollout(GUESS, agent)([RolloutRequest(seed=0)])
    said = [turn.observation for turn in episode.turns]
    assert [text for _, text in shown] == [episode.system, *said]
    assert [role for role, _ in shown] == ["system"] + ["user"] * len(said)


def test_a_person_at_the_end_of_input_ends_the_rollout(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(EOFError):
        Rollout(GUESS, HumanAgent())([RolloutRequest(seed=0)])


@pytest.mark.parametrize(
    "text",
    ["\x1b[2J\x1b[31m", "\x9b31m", "a\rb", "\x07\x00", "\u202eabc", "\u2066", "\ud800", "\u200b", "\u2028", "\t"],
)
def test_text_from_a_model_or_a_tool_cannot_steer_the_terminal(text, capsys):
    shown = printable(f"before {text} after\nnext")
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert shown.startswith("before ")
    assert shown.endswith(" after\nnext")
    HumanAgent(ask=lambda prompt: "").act([Conversation("key", [{"role": "tool", "content": text}])])
    assert text not in capsys.readouterr().out


def test_ordinary_text_is_shown_as_it_is():
    assert printable("日本 é 🙂 \\boxed{3}\nsecond") == "日本 é 🙂 \\boxed{3}\nsecond"
