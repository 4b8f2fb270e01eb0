"""Games with teams and with words: what is common, what is true of a clue, and what only one of a team may see."""

from __future__ import annotations

import random

import pytest

from rlvr.envs.players.bots import known_bots, make_bot
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.chains import ChainState, following, mover_wins
from rlvr.envs.players.clues import CluesState
from rlvr.envs.players.game import CHANCE, Referee
from rlvr.envs.players.guide_and_walker import FAR, GUIDE, WALKER, WalkState, distances
from rlvr.envs.players.hanabi import HINTS, PAR
from rlvr.envs.players.nouns import NOUNS, PROPERTIES
from rlvr.envs.players.single import MATES, AsSingleAgent

TEAMS = ("HanabiSmall", "GuideAndWalker", "Clues")


def mean_outcome(name, bots, matches=12):
    """The mean outcome of seat 0 where seat i is played by bot i."""
    game, total = make_game(name), 0.0
    referee = Referee(game)
    for key in range(matches):
        match, rng = referee.begin(str(key)), random.Random(key)
        while movers := referee.to_move(match):
            view = game.view(match.state, movers[0])
            match = referee.play(match, movers[0], make_bot(bots[movers[0]]).choose(game, view, movers[0], rng))
        total += game.outcome(referee.returns(match), 0) / matches
    return total


def test_a_team_wins_and_loses_together():
    for name in TEAMS:
        game = make_game(name)
        referee = Referee(game, tries=1)
        match = referee.begin("0")
        seat = referee.to_move(match)[0]
        returns = referee.returns(referee.act(match, seat, "nothing"))
        for other, value in enumerate(returns):
            assert (value == game.lowest) == (game.teams[other] == game.teams[seat])


@pytest.mark.parametrize(("name", "seats"), [("HanabiSmall", 2), ("GuideAndWalker", 2)])
def test_two_experts_do_well_together_and_one_random_seat_spoils_it(name, seats):
    assert mean_outcome(name, ["expert"] * seats) > 0.85
    for spoiler in range(seats):
        assert mean_outcome(name, ["random" if seat == spoiler else "expert" for seat in range(seats)]) < 0.5


def test_experts_at_clues_beat_random_seats():
    assert mean_outcome("Clues", ["expert", "expert", "random", "random"]) > 0.8
    assert mean_outcome("Clues", ["random", "random", "expert", "expert"]) < 0.2


def test_mates_of_the_policy_play_well_and_others_by_the_level():
    for level, mates, others in ((1, MATES[0], "random"), (3, MATES[2], "expert")):
        episode = AsSingleAgent(game="Clues", seat=1).start(random.Random(0), level)
        assert episode.opponents == (mates[0], "", others, others)
    episode = AsSingleAgent(game="HanabiSmall", seat=0, opponents=["random"]).start(random.Random(0), 1)
    assert episode.opponents == ("", "random")


def test_searching_players_refuse_the_games_of_teams():
    for name in TEAMS:
        game = make_game(name)
        assert known_bots(game) == ["random", "first", "expert", "mixed"]
        for bot in ("minimax", "mcts"):
            with pytest.raises(ValueError, match="hides something"):
                make_bot(bot).choose(game, game.view(game.start(), 0), 0, random.Random(0))
    assert {"mcts", "minimax"} <= {*known_bots(make_game("WordChain")), *known_bots(make_game("Checkers"))}


# Hanabi


def dealt(game, cards):
    state = game.start()
    for card in cards:
        state = game.apply(state, CHANCE, card)
    return state


def test_a_hint_tells_of_all_cards_that_it_fits_and_of_no_other():
    game = make_game("HanabiSmall")
    state = dealt(game, ["r1", "r2", "g1", "b1", "b3", "r1"])
    assert "hint seat 1 green" not in game.legal(state, 0)
    state = game.apply(state, 0, "hint seat 1 blue")
    assert [(each.colours, each.named) for each in state.known[1]] == [("b", True), ("b", True), ("rg", False)]
    assert state.hints == HINTS - 1
    state = game.apply(state, 1, "hint seat 0 rank 1")
    assert [(each.ranks, each.named) for each in state.known[0]] == [("1", True), ("23", False), ("1", True)]
    text = game.show(game.view(state, 0), 0)
    assert "Your hand, by what you know: (any colour, 1), (any colour, 2 or 3), (any colour, 1)." in text
    assert "red 2" not in text


def test_a_wrong_play_costs_a_life_and_all_lives_the_score():
    game = make_game("HanabiSmall")
    state = dealt(game, ["r1", "r3", "g3", "b1", "b3", "g1"])
    assert "discard 1" not in game.legal(state, 0)
    for seat, move, draw in ((0, "play 1", "b1"), (1, "play 2", "r2"), (0, "play 1", "b2"), (1, "play 2", "r1")):
        state = game.apply(state, seat, move)
        assert game.actors(state) == (CHANCE,)
        state = game.apply(state, CHANCE, draw)
    assert (state.stacks, state.lives) == ((1, 1, 0), 1)
    state = game.apply(state, 0, "play 1")
    assert (game.actors(state), game.returns(state)) == ((), (0.0, 0.0))
    assert game.outcome((float(PAR), float(PAR)), 0) == 1.0


def test_hints_are_read_as_people_write_them():
    referee = Referee(make_game("HanabiSmall"))
    match = referee.begin("0")
    colour = next(move for move in referee.legal(match, 0) if move.startswith("hint") and "rank" not in move)
    name = colour.split()[-1]
    for text in (colour, f"hint 1 {name}", f"hint {name} to seat 1", f"\\boxed{{Hint seat 1 {name}}}"):
        assert referee.read(match, 0, text) == colour
    assert referee.read(match, 0, "I play card 2") == "play 2"
    table = make_game("HanabiSmall", seats=3)
    state = dealt(table, ["r1", "r2", "g1", "r2", "b1", "g3", "r1", "g2", "b1"])
    assert {"hint seat 1 rank 2", "hint seat 2 rank 1"} <= {*table.legal(state, 0)}
    for text in (
        "hint seat 1 rank 2",
        "hint rank 2 to seat 1",
        "hint number 2 to seat 1",
        "hint 2s to seat 1",
        "hint 2 to seat 1",
        "hint seat 1 2s",
        "hint 1 2",
    ):
        assert table.parse(state, 0, text) == "hint seat 1 rank 2", text
    for text in ("hint rank 2 rank 1", "hint seat 1 seat 2", "hint red rank 2", "hint rank"):
        assert table.parse(state, 0, text) not in table.legal(state, 0)
    for seats in (1, 5):
        with pytest.raises(ValueError, match="2 to 4"):
            make_game("HanabiSmall", seats=seats)


# guide and walker


def test_the_guide_does_not_see_the_walker_and_the_walker_no_map():
    game = make_game("GuideAndWalker")
    referee = Referee(game)
    match = referee.begin("4")
    guide, walker = (referee.observe(match, seat) for seat in (GUIDE, WALKER))
    assert "The map; the goal is" in guide
    assert "You see a" not in guide
    assert "The map" not in walker
    assert "You see a" in walker
    assert game.view(match.state, GUIDE).at == -1
    assert game.view(match.state, WALKER)._replace(seen=()) == WalkState()


def test_a_walk_ends_at_the_goal_or_after_its_rounds():
    game = make_game("GuideAndWalker", rounds=4)
    referee = Referee(game)
    match = referee.begin("0")
    for _ in range(4):
        for seat, move in ((WALKER, "tree"), (GUIDE, "wait"), (WALKER, "stay")):
            assert referee.to_move(match) == (seat,)
            match = referee.act(match, seat, move)
    assert referee.returns(match) == (0.0, 0.0)
    assert "and the rounds are over" in referee.observe(match, GUIDE)
    with pytest.raises(ValueError, match="4 to 40"):
        make_game("GuideAndWalker", rounds=3)


@pytest.mark.parametrize("rounds", [4, 5, 12])
def test_every_walk_can_be_won_in_its_rounds(rounds):
    game = make_game("GuideAndWalker", rounds=rounds, size=7)
    referee, far = Referee(game), set()
    assert f"at least {FAR} and at most {rounds} steps" in game.rules()
    for key in range(60):
        state = referee.begin(str(key)).state
        far.add(distances(game.size, state.blocked, state.goal)[state.at])
        view = game.view(game.apply(state, WALKER, state.seen[-1][0]), GUIDE)
        assert state.at in game.candidates(view)
    assert min(far) == FAR
    assert max(far) <= rounds
    assert rounds == FAR or len(far) > 1


# words


def test_a_chain_is_won_by_who_plays_last():
    game = make_game("WordChain")
    words = ("bear", "radio", "rose", "egg", "grape")
    assert following(words, ("bear",)) == ("radio", "rose")
    assert mover_wins(words, frozenset({"bear"}), "r")  # radio: no word begins with o
    state = ChainState(words, ("bear", "radio"))
    assert following(state.words, state.played) == ()
    assert game.returns(state) == (-1.0, 1.0)


def test_the_expert_of_word_chains_wins_every_list_that_can_be_won():
    game = make_game("WordChain", words=9)
    referee, won = Referee(game), 0

    def wins(state, own):
        actors = game.actors(state)
        if not actors:
            return game.returns(state)[own] == 1
        if actors[0] == own:
            return wins(game.apply(state, own, game.expert(state, own, random.Random(0))), own)
        return all(wins(game.apply(state, actors[0], move), own) for move in game.legal(state, actors[0]))

    for key in range(10):
        state = referee.begin(str(key)).state
        could = any(not mover_wins(state.words, frozenset({word}), word[-1]) for word in state.words)
        assert wins(state, 0) == could
        won += could
    assert won > 0


def test_every_word_has_something_true_of_it():
    assert len(NOUNS) == len(set(NOUNS)) > 100
    assert all(PROPERTIES.values())
    assert not {*NOUNS} & {name for names in PROPERTIES.values() for name in names}


WORDS = ("bear", "lion", "apple", "cake", "fish", "boat", "lamp", "sword", "rain")
ROLES = ("red", "red", "red", "red", "blue", "blue", "blue", "trap", "neutral")


def test_a_clue_must_be_true_of_words_of_the_own_team():
    game = make_game("Clues")
    state = CluesState(WORDS, ROLES)
    legal = game.legal(state, 0)
    assert {"animal 1", "animal 2", "food 2", "sweet 2"} <= {*legal}
    assert not {"animal 3", "metal 1", "water 1"} & {*legal}
    assert game.expert(state, 0, random.Random(0)) in ("food 2", "sweet 2", "large 2")
    assert all(" red" not in game.show(game.view(state, seat), seat) for seat in (1, 3))
    assert "bear, red (animal, large, wild)" in game.show(game.view(state, 0), 0)


def test_guesses_end_with_a_wrong_word_and_the_trap_loses():
    game = make_game("Clues")
    state = game.apply(CluesState(WORDS, ROLES), 0, "animal 2")
    assert game.actors(state) == (1,)
    assert "stop" not in game.legal(state, 1)
    state = game.apply(state, 1, "bear")
    assert (game.actors(state), game.legal(state, 1)[-1]) == ((1,), "stop")
    wrong = game.apply(state, 1, "fish")
    assert (game.actors(wrong), wrong.found) == ((2,), (("bear", "red"), ("fish", "blue")))
    trapped = game.apply(state, 1, "sword")
    assert (game.actors(trapped), game.returns(trapped)) == ((), (-1.0, -1.0, 1.0, 1.0))
    assert game.actors(game.apply(state, 1, "stop")) == (2,)


def test_the_other_team_may_find_a_teams_last_word_for_it():
    game = make_game("Clues")
    found = tuple((word, "red") for word in WORDS[:3])
    state = game.apply(CluesState(WORDS, ROLES, found, (), 1), 2, "water 2")
    state = game.apply(state, 3, "cake")
    assert (game.actors(state), game.returns(state)) == ((), (1.0, 1.0, -1.0, -1.0))
