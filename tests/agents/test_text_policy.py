"""A language policy's moves at every information state, and what a best response wins from it."""

from __future__ import annotations

import math

import gymnasium as gym
import pytest

from rlvr.agents.players.text_policy import conversations, model_scorer, text_policy
from rlvr.cli import main
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import exploitability, information_states
from rlvr.envs.players.game import SYSTEM, Referee


def always(*moves):
    """A scorer of a model that writes one of these texts, each as often, and nothing else."""
    return lambda asked: [-math.log(len(moves)) if reply in moves else -math.inf for _, reply in asked]


def test_a_game_that_is_too_large_or_forgets_is_refused():
    with pytest.raises(ValueError, match="more than 500 states"):
        conversations(Referee(make_game("LeducPoker")), most=500)
    with pytest.raises(ValueError, match="read two things in one information state"):
        conversations(Referee(make_game("TicTacToeDuel")))  # a board does not tell the order of the moves
    with pytest.raises(ValueError, match="moves at once"):
        conversations(Referee(make_game("RockPaperScissors")))


@pytest.mark.parametrize("name", ["KuhnPoker", "LeducPoker"])
def test_every_information_state_has_one_conversation(name):
    referee = Referee(make_game(name))
    found = conversations(referee)
    assert {(each.seat, each.view) for each in found} == {
        (each.seat, each.view) for each in information_states(referee.game)
    }
    assert len({str(prompt) + str(where.seat) for where, prompt in found.items()}) == len(found)


@pytest.mark.parametrize("brief", [False, True])
def test_a_conversation_is_what_the_environment_shows(brief):
    known = conversations(Referee(make_game("KuhnPoker")), system=not brief, brief=brief)
    shown = list(known.values())
    env = gym.make("rlvr/KuhnPoker-v0", brief=brief, opponents=["random"], rounds=1, reward="payoff")
    for seed in range(40):
        observation, info = env.reset(seed=seed)
        prompt = [] if brief else [{"role": "system", "content": info["system"]}]
        assert info["system"] == SYSTEM
        done = False
        while not done:
            prompt.append({"role": "user", "content": observation})
            assert prompt in shown
            move = "check" if "check, bet" in observation else "call"
            prompt.append({"role": "assistant", "content": f"\\boxed{{{move}}}"})
            observation, _, terminated, truncated, _ = env.step(prompt[-1]["content"])
            done = terminated or truncated


def test_a_model_that_writes_each_move_as_often_is_the_uniform_policy():
    referee = Referee(make_game("KuhnPoker"))
    moves = ("check", "bet", "fold", "call")
    policy = text_policy(referee, always(*moves))
    assert policy.mean_mass == policy.least_mass == pytest.approx(0.5)  # the other half is of moves that are not legal
    assert exploitability(referee.game, policy).value == pytest.approx(0.4583, abs=1e-4)


def test_spellings_of_one_move_add_up():
    referee = Referee(make_game("KuhnPoker"))
    policy = text_policy(referee, always("check", "\\boxed{check}", "bet", "call", "\\boxed{fold}"))
    assert {tuple(round(share, 9) for share in each.values()) for each in policy.shares.values()} == {
        (0.666666667, 0.333333333),  # check and bet
        (0.5, 0.5),  # fold and call
    }


def test_a_model_that_writes_no_move_has_no_policy():
    with pytest.raises(ValueError, match="score other spellings"):
        text_policy(Referee(make_game("KuhnPoker")), always("check"))


def test_scores_are_the_log_probabilities_of_sampling():
    torch = pytest.importorskip("torch")
    from rlvr.agents import Conversation
    from rlvr.agents.models.tiny import load_policy
    from rlvr.agents.models.transformers import TransformersAgent
    from rlvr.agents.rendering import Renderer

    torch.manual_seed(0)
    model, tokenizer = load_policy("rlvr/tiny")
    agent = TransformersAgent(model, tokenizer, max_new_tokens=40, seed=1, temperature=0.7)
    prompt = [
        {"role": "user", "content": "Your moves: check, bet."},
        {"role": "assistant", "content": "bet"},
        {"role": "user", "content": "Your moves: fold, call."},
    ]
    score = model_scorer(model, Renderer(tokenizer), temperature=0.7, batch_size=3)
    checked = 0
    for number in range(60):
        (reply,) = agent.act([Conversation(f"k{number}", prompt)])
        # A reply that the tokenizer spells as it was sampled has one log-probability, whoever computes it.
        spelled = Renderer(tokenizer).render_demonstration([*prompt, {"role": "assistant", "content": reply.text}])[0]
        if reply.stop == "stop" and [*reply.context, *reply.completion.ids] == spelled:
            found = score([(prompt, "bet"), (prompt, reply.text), (prompt[:1], "call")])[1]
            assert found == pytest.approx(sum(reply.completion.logprobs), abs=1e-3)
            checked += 1
    assert checked
    with pytest.raises(ValueError, match="temperature must be positive"):
        model_scorer(model, Renderer(tokenizer), temperature=0.0)


def test_the_command_prints_it(capsys):
    pytest.importorskip("torch")
    arguments = [
        "arena",
        "KuhnPoker",
        "model:rlvr/tiny",
        "random",
        "--matches",
        "2",
        "--max-new-tokens",
        "4",
        "--brief",
    ]
    assert main([*arguments, "--exploitability"]) == 0
    assert "exploitability, and the probability of the texts that were scored" in capsys.readouterr().out
    assert main(["arena", "KuhnPoker", "expert", "random", "--matches", "2", "--exploitability"]) == 2
    assert "name one as model:FOLDER" in capsys.readouterr().err
