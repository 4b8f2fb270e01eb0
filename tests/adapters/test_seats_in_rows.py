"""One trained seat with the others as its environment, in the rows of trainers: what TRL, verl and others are given."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from rlvr.adapters.rows import FORMATS, read_spec, rows
from rlvr.adapters.trainers.trl import ToolEnvironment

GAMES = ("KuhnPoker", "TicTacToeDuel", "LiarsDiceTable", "HiddenRoles", "Taboo")


@pytest.mark.parametrize("format", sorted(FORMATS))
@pytest.mark.parametrize("game", GAMES)
def test_a_row_holds_a_seat_and_whoever_has_it_plays_the_same_match(game, format):
    kwargs = {"opponents": ["expert"], "seat": 1}
    table = rows(f"rlvr/{game}-v0", 3, format, kwargs=kwargs, group_size=2)
    for at, row in enumerate(table):
        env, text, _ = read_spec(json.loads(json.dumps(row))).start()
        state = env.unwrapped.get_state().state
        assert state.seat == 1
        assert {name for seat, name in enumerate(state.opponents) if seat != 1} == {"expert"}
        again = gym.make(f"rlvr/{game}-v0", **kwargs).unwrapped
        assert again.reset(seed=0, options={"index": at // 2})[0] == text, "members of a group have one match"
        over = False
        while not over:
            action = again.solve()
            text, reward, over, _, info = again.step(action)
            assert env.step(action)[:3] == (text, reward, over)
        assert info["verdict"].valid


@pytest.mark.parametrize("game", GAMES)
def test_trls_tool_plays_a_seat_to_its_end_and_an_illegal_seat_forfeits(game):
    for row in rows(f"rlvr/{game}-v0", 3, "trl", kwargs={"opponents": ["mixed:0.5"]}):
        tool, env = ToolEnvironment(), read_spec(row).start()[0]
        tool.reset(**row)
        over = False
        while not over:
            action = env.unwrapped.solve()
            _, reward, over, _, _ = env.step(action)
            text = tool.act(action)
        assert "over" in text
        assert tool.get_reward() == pytest.approx(reward)
        tool.reset(**row)
        for _ in range(3):
            text = tool.act("Seat 0: I resign.")
        assert "over" in text
        assert tool.get_reward() == 0


@pytest.mark.parametrize("opponent", ["self", "pool", "model:runs/mine/policy", "endpoint:m@http://127.0.0.1:1/v1"])
@pytest.mark.parametrize("seat", [0, 1])
def test_a_seat_that_only_our_learner_plays_is_refused_before_there_are_rows(opponent, seat):
    """Where the policy moves first, rows were made whose every episode had no valid verdict."""
    kwargs = {"opponents": ["random", opponent], "seat": seat}
    with pytest.raises(ValueError, match="is played where a policy is trained: name a bot"):
        rows("rlvr/KuhnPoker-v0", 4, "trl", kwargs=kwargs)
    env = gym.make("rlvr/KuhnPoker-v0", **kwargs)
    with pytest.raises(ValueError, match="name a bot"):
        env.reset(seed=0)
