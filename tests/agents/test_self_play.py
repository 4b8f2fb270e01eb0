"""Self-play: one agent in all seats, one trained seat an episode, nothing of the others in its tokens or loss."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

from rlvr.agents import Rollout, RolloutRequest
from rlvr.agents.conversation import Reply, TokenSequence
from rlvr.agents.players.self_play import SelfPlayRollout, plays_models, without_models, without_self
from rlvr.algorithms.advantages.roles import one_role

REQUESTS = [RolloutRequest(seed=seed, group=seed, sample=member) for seed in range(12) for member in range(2)]


class Listed:
    """Takes the listed move of a number, keeps what it was asked, and writes one token a reply."""

    def __init__(self, choose=lambda conversation, moves: moves[0]):
        self.choose, self.seen = choose, {}

    def act(self, conversations):
        replies = []
        for each in conversations:
            text = each.messages[-1]["content"]
            assert each.messages[-1]["role"] == "user"
            self.seen.setdefault(each.key, []).append(text)
            moves = re.search(r"Your legal moves: (.*)\.", text)[1].split(", ")
            move = self.choose(each, moves)
            context = TokenSequence()
            context.append_sampled([7], [-0.5])
            replies.append(Reply(move, "stop", context=[1] * (len(each.messages) - each.rendered), completion=context))
        return replies


def played(game, agent, **settings):
    rollout = SelfPlayRollout(f"rlvr/{game}-v0", agent, env_settings={"opponents": ["self"], **settings})
    return rollout(REQUESTS)


@pytest.mark.parametrize("game", ["KuhnPoker", "TicTacToeDuel", "Goofspiel", "LiarsDiceTable", "DotsAndBoxes"])
def test_every_seat_is_played_by_the_agent_and_one_is_the_episodes(game):
    agent = Listed()
    episodes = played(game, agent)
    assert len(episodes) == len(REQUESTS)
    roles = set()
    for episode in episodes:
        assert episode.done
        assert episode.valid, episode.verdict
        roles.add(episode.training["role"])
        assert episode.tokens.sampled == len(episode.turns)
        assert [turn.observation for turn in episode.turns] == agent.seen[episode.key]
    others = [key for key in agent.seen if "/seat " in key]
    assert len(others) >= len(episodes) - 2
    assert len(roles) > 1
    (first, *_), groups = episodes, {}
    for episode in episodes:
        groups.setdefault(episode.group, set()).add((episode.training["role"], episode.turns[0].observation[:900]))
    assert all(len({role for role, _ in seen}) == 1 for seen in groups.values()), "a group has one seat"
    assert first.env_id == f"rlvr/{game}-v0"


def test_a_match_of_two_copies_has_returns_that_add_up_to_nothing():
    by_seat = {}
    for episode in played("KuhnPoker", Listed(), reward="payoff"):
        by_seat.setdefault(episode.training["role"], []).append(episode.verdict.parts["return"])
    assert set(by_seat) == {"seat 0", "seat 1"}
    # Both check always: the higher card wins one chip.
    assert {abs(value) for values in by_seat.values() for value in values} == {1.0}


def test_a_seat_that_forfeits_loses_and_the_other_wins():
    own = played("TicTacToeDuel", Listed(lambda each, moves: moves[0] if "/seat " in each.key else "nonsense"))
    assert {episode.verdict.status for episode in own} == {"unparsable"}
    assert all(len(episode.turns) == 3 for episode in own)
    other = played("TicTacToeDuel", Listed(lambda each, moves: "nonsense" if "/seat " in each.key else moves[0]))
    moved = [episode for episode in other if episode.turns]
    assert moved
    assert {episode.verdict.status for episode in moved} == {"correct"}
    unmoved = [episode for episode in other if not episode.turns]
    assert all(not episode.valid and "before this seat had moved" in episode.verdict.reason for episode in unmoved)


def test_an_agent_without_a_reply_for_another_seat_is_nobodys_loss():
    class Silent(Listed):
        def act(self, conversations):
            replies = super().act(conversations)
            return [
                Reply("", "error", error="gone") if "/seat " in each.key else reply
                for each, reply in zip(conversations, replies, strict=True)
            ]

    for episode in played("KuhnPoker", Silent()):
        assert not episode.valid or episode.turns
        if not episode.valid:
            assert "gone" in episode.verdict.reason


class Deaf(Listed):
    """Plays as it is listed, and has no reply for another seat where its conversation is as ``deaf`` says."""

    def __init__(self, deaf, stop="error"):
        super().__init__()
        self.deaf, self.stop = deaf, stop

    def act(self, conversations):
        return [
            Reply("", self.stop, error="gone") if "/seat " in each.key and self.deaf(each) else reply
            for each, reply in zip(conversations, super().act(conversations), strict=True)
        ]


@pytest.mark.parametrize("stop", ["error", "context"])
def test_another_seat_that_has_no_reply_to_what_the_policy_wrote_costs_the_policy_its_match(stop):
    def deaf(conversation):  # to a1, which is listed first
        return conversation.messages[-1]["content"].count("Seat 0: a1.") > 0

    episodes = played("TicTacToeDuel", Deaf(deaf, stop))
    provoked = [each for each in episodes if "another seat failed on what the policy wrote" in each.verdict.reason]
    assert provoked
    for episode in provoked:
        assert (episode.valid, episode.reward, episode.terminated) == (True, 0.0, True)
        assert episode.turns[-1].action == "a1"


def test_another_seat_whose_context_is_too_short_for_any_match_is_nobodys_loss():
    def deaf(conversation):
        return sum(message["role"] == "user" for message in conversation.messages) > 1

    episodes = played("TicTacToeDuel", Deaf(deaf, "context"))
    assert {episode.verdict.status for episode in episodes if not episode.terminated} == {"env_error"}
    assert all("what the policy wrote" not in episode.verdict.reason for episode in episodes)


def test_another_seat_that_was_away_for_a_moment_is_asked_again():
    asked = []

    def away(conversation):
        asked.append(conversation.key)
        read = sum(message["role"] == "user" for message in conversation.messages)
        return read == 2 and not conversation.key.endswith("control") and asked.count(conversation.key) == 2

    healthy = [(each.reward, each.valid) for each in played("TicTacToeDuel", Listed())]
    assert [(each.reward, each.valid) for each in played("TicTacToeDuel", Deaf(away))] == healthy
    assert any(key.endswith("control") for key in asked)


def test_a_game_that_fails_on_another_seats_move_by_the_policys_doing_is_its_own(monkeypatch):
    def reasons(breaks):
        rollout = SelfPlayRollout("rlvr/TicTacToeDuel-v0", Listed(), env_settings={"opponents": ["self"]})
        begin = {}

        def play(match, seat, move):
            if rollout.agent.seen and breaks(match.log[begin.setdefault(match.key, len(match.log)) :], seat):
                raise ZeroDivisionError("the rules")
            return type(rollout.task.referee).play(rollout.task.referee, match, seat, move)

        monkeypatch.setattr(rollout.task.referee, "play", play)
        return [(each.valid, each.reward, each.verdict.reason) for each in rollout(REQUESTS)]

    after_a1 = reasons(lambda log, seat: seat == 1 and any((each.actor, each.move) == (0, "a1") for each in log))
    provoked = [each for each in after_a1 if "the game failed on what the policy wrote" in each[2]]
    assert provoked
    assert {(valid, reward) for valid, reward, _ in provoked} == {(True, 0.0)}
    always = reasons(lambda log, seat: seat == 1)
    assert not any("what the policy wrote" in reason for *_, reason in always)


def test_fixed_opponents_are_mixed_in_and_stand_alone_in_evaluations():
    settings = {"opponents": ["self", "random", "expert"], "brief": True}
    assert plays_models(settings)
    assert without_self(settings) == {"opponents": ["random", "expert"], "brief": True, "rounds": 1}
    assert without_self({"opponents": ["self"]}) == {"opponents": None, "rounds": 1}
    assert without_self({"seat": 1}) == {"seat": 1}
    models = {"opponents": ["pool", "model:x", "self", "first"]}
    assert plays_models({"opponents": ["model:x"]})
    assert not plays_models({"opponents": ["first"]})
    assert not plays_models({"opponents": None})
    assert without_self(models) == {"opponents": ["model:x", "first"], "rounds": 1}
    assert without_models(models | {"rounds": 4}) == {"opponents": ["first"], "rounds": 4}
    for name in ("KuhnPoker", "Chess", "LiarsDiceTable"):  # demonstrations and evaluations play the game of training
        games = [
            Rollout(f"rlvr/{name}-v0", Listed(), env_settings=each).env.unwrapped.task.game
            for each in ({"opponents": ["self"]}, without_self({"opponents": ["self"]}))
        ]
        assert games[0].decisions == games[1].decisions
    agent = Listed()
    rollout = SelfPlayRollout("rlvr/KuhnPoker-v0", agent, env_settings=settings)
    episodes = rollout([RolloutRequest(seed=seed) for seed in range(40)])
    asked = {key for key in agent.seen if "/seat " in key}
    assert 0 < len(asked) < len(episodes)


def test_each_model_is_asked_in_one_batch_for_its_own_seats_alone():
    class Named:
        def __init__(self):
            self.agents = {"a": Listed(), "b": Listed(lambda each, moves: moves[-1])}

        def choose(self, opponent, request, seat):
            return opponent.removeprefix("model:") if opponent != "pool" else "ab"[request.seed % 2]

        def agent(self, name):
            return self.agents[name]

    agent, others = Listed(), Named()
    settings = {"opponents": ["self", "model:a", "pool"]}
    episodes = SelfPlayRollout("rlvr/KuhnPoker-v0", agent, opponents=others, env_settings=settings)(REQUESTS)
    assert all(episode.valid for episode in episodes)
    drawn = {episode.key: episode.training.get("opponents", {}) for episode in episodes}
    assert {name for names in drawn.values() for name in names.values()} == {"a", "b"}
    for name, player in others.agents.items():
        asked = {tuple(key.split("/seat ")) for key in player.seen}
        assert asked <= {(key, seat) for key, names in drawn.items() for seat, who in names.items() if who == name}
        assert asked
    itself = {key for key, names in drawn.items() if not names}
    assert {key.split("/seat ")[0] for key in agent.seen if "/seat " in key} <= itself
    with pytest.raises(ValueError, match="nobody plays the opponent 'pool' here"):
        SelfPlayRollout("rlvr/KuhnPoker-v0", agent, env_settings={"opponents": ["pool"]})(REQUESTS)


def test_self_is_refused_where_nobody_plays_it_and_where_there_are_no_seats():
    env = gym.make("rlvr/KuhnPoker-v0", opponents=["self"], seat=1).unwrapped
    with pytest.raises(ValueError, match="name a bot to play outside of it"):
        env.reset(seed=0)
    with pytest.raises(TypeError, match="no game of several seats"):
        SelfPlayRollout("rlvr/Countdown-v0", Listed())
    (episode,) = Rollout("rlvr/KuhnPoker-v0", Listed(), env_settings={"opponents": ["first"]})([RolloutRequest(0)])
    with pytest.raises(ValueError, match="partial rollouts"):
        SelfPlayRollout("rlvr/KuhnPoker-v0", Listed(), env_settings={"opponents": ["self"]})([episode])


def test_roles_of_self_play_have_baselines_of_their_own():
    class Sources:
        role_baselines = None

    class Played:
        episodes = played("KuhnPoker", Listed())

    found = set(one_role(Played, Sources)["roles"])
    assert found == {f"rlvr/KuhnPoker-v0, level 1, seat {seat}" for seat in (0, 1)}
