"""Checkers, small no-limit hold'em and the negotiations: the fine points of their rules, and what a verdict states."""

from __future__ import annotations

import random
from itertools import product

import gymnasium as gym
import pytest

from rlvr.envs.players.bots import make_bot
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.checkers import CELL_OF, QUIET, CheckersState
from rlvr.envs.players.deals import PriceState, SharesState, all_worths, nash_points, pareto_points
from rlvr.envs.players.game import IllegalText, Referee
from rlvr.envs.players.holdem import DECK, HoldemState, equity, strength


def checkers(turn=0, **pieces):
    cells = ["."] * 64
    for name, piece in pieces.items():
        cells[CELL_OF[name]] = piece
    return CheckersState("".join(cells), turn)


def test_who_can_jump_must_and_goes_on_with_the_same_piece():
    game = make_game("Checkers")
    state = checkers(c3="x", g3="x", d4="o", d6="o", h8="o")
    assert game.legal(state, 0) == ("c3 e5",)
    state = game.apply(state, 0, "c3 e5")
    assert (game.actors(state), game.legal(state, 0)) == ((0,), ("e5 c7",))
    state = game.apply(state, 0, "e5 c7")
    assert game.actors(state) == (1,)
    assert state.cells.count("o") == 1


def test_a_jump_into_the_first_cell_of_the_board_is_seen():
    game = make_game("Checkers")
    state = game.apply(checkers(turn=1, e5="o", d4="x", b2="x", h2="x"), 1, "e5 c3")
    assert game.legal(state, 1) == ("c3 a1",)


def test_a_man_that_is_crowned_does_not_jump_on_and_a_king_goes_back():
    game = make_game("Checkers")
    state = game.apply(checkers(b6="x", c7="o", e7="o", h2="o"), 0, "b6 d8")
    assert game.actors(state) == (1,)  # a king on d8 could take e7
    assert state.cells[CELL_OF["d8"]] == "X"
    state = game.apply(state, 1, "h2 g1")
    assert "d8 f6" in game.legal(state, 0)


def test_checkers_is_drawn_after_quiet_moves_and_lost_without_a_move():
    game = make_game("Checkers")
    state = checkers(a1="X", h8="O")._replace(quiet=QUIET - 1)
    over = game.apply(state, 0, "a1 b2")
    assert (game.actors(over), game.returns(over)) == ((), (0.0, 0.0))
    blocked = checkers(turn=1, a1="o", h8="x")
    assert (game.actors(blocked), game.returns(blocked)) == ((), (1.0, -1.0))
    referee = Referee(game)
    match = referee.begin("0")
    assert {referee.read(match, 0, text) for text in ("a3-b4", "a3 to b4", r"\boxed{A3B4}", "(a3, b4)")} == {"a3 b4"}


def test_poker_hands_are_ranked_as_everywhere():
    ordered = [
        "9c tc jd kh ah", "9c 9d jd kh ah", "9c 9d jd jh ah", "9c 9d 9h jh ah", "9c td jd qh kh", "9c tc qc kc ac",
        "9c 9d 9h jh jd", "9c 9d 9h 9s jd", "9c tc jc qc kc", "td jd qd kd ad",
    ]  # fmt: skip
    found = [strength(tuple(hand.split())) for hand in ordered]
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert strength(("ac", "ad", "9h", "td", "jd")) > strength(("kc", "kd", "ah", "td", "jd"))
    assert equity(("ac", "ad"), ("ah", "as", "kd")) == 1.0


def dealt(game, *cards):
    state = game.start()
    for card in cards:
        state = game.apply(state, -1, card)
    return state


def test_a_raise_is_at_least_the_last_one_and_at_most_all_chips():
    game = make_game("NoLimitHoldem", stack=20)
    state = dealt(game, "9c", "9d", "kh", "ad")
    assert game.legal(state, 0)[:3] == ["fold", "call", "raise 4"]
    state = game.apply(state, 0, "raise 9")
    assert game.legal(state, 1)[:3] == ["fold", "call", "raise 16"]
    state = game.apply(state, 1, "raise 20")
    assert game.legal(state, 0) == ["fold", "call"]
    assert game.returns(game.apply(state, 0, "fold")) == (-9.0, 9.0)
    state = game.apply(state, 0, "call")
    for card in ("jh", "js", "ts"):
        assert game.actors(state) == (-1,)
        state = game.apply(state, -1, card)
    assert (game.actors(state), game.returns(state)) == ((), (20.0, -20.0))
    with pytest.raises(ValueError, match="4 to 50"):
        make_game("NoLimitHoldem", stack=2)


def test_bets_are_read_as_the_rules_count_them_and_no_others():
    game = make_game("NoLimitHoldem")
    referee = Referee(game)
    match = referee.begin("0")
    for text in ("raise 6", "raise to 6", r"\boxed{Raise to 6}", "raise 6 chips"):
        assert referee.read(match, 0, text) == "raise 6", text
    assert referee.read(match, 0, "all in") == "raise 20"
    for text in ("bet 6", "check"):  # a bet is in addition to what was put in; the small blind has 1 chip to pay
        with pytest.raises(IllegalText):
            referee.read(match, 0, text)
    match = referee.act(match, 0, "call")
    assert referee.read(match, 1, "check") == "call"


def test_a_hand_is_shown_at_a_showdown_and_not_after_a_fold():
    game = make_game("NoLimitHoldem")
    state = dealt(game, "9c", "9d", "kh", "ad")
    assert "kh" not in game.show(game.view(game.apply(state, 0, "fold"), 0), 0)
    for seat, move in ((0, "call"), (1, "call"), (-1, "jh"), (-1, "js"), (-1, "ts"), (1, "call")):
        state = game.apply(state, seat, move)
        assert "kh" not in game.show(game.view(state, 0), 0)
    assert "Seat 1 shows kh ad." in game.show(game.view(game.apply(state, 0, "call"), 0), 0)
    assert isinstance(game.view(state, 0), HoldemState)
    assert len({*DECK}) == 24


def test_the_experts_win_chips_and_gains_from_random_moves():
    for name, matches, least in (
        ("NoLimitHoldem", 200, 0.3),
        ("PriceNegotiation", 40, 0.5),
        ("ShareNegotiation", 40, 0.1),
    ):
        game, ahead = make_game(name), 0.0
        for key in range(matches):
            match, rng, own = Referee(game).begin(str(key)), random.Random(key), key % 2
            while movers := Referee(game).to_move(match):
                bot = make_bot("expert" if movers[0] == own else "random")
                move = bot.choose(game, game.view(match.state, movers[0]), movers[0], rng)
                match = Referee(game).play(match, movers[0], move)
            returns = Referee(game).returns(match)
            ahead += (returns[own] - returns[1 - own]) / matches
        assert ahead > least, name


def test_the_frontier_and_the_nash_solution_are_those_of_all_deals():
    rng = random.Random(0)
    for counts in ((2, 2, 1), (1, 3, 1), (3, 2, 2)):
        for _ in range(20):
            worths = tuple(tuple(map(int, rng.choice(all_worths(counts))[0].split())) for _ in (0, 1))
            assert all(sum(map(int.__mul__, counts, own)) == 10 for own in worths)
            deals = [
                tuple(sum(map(int.__mul__, share, own)) for share, own in zip((first, second), worths, strict=True))
                for first in product(*(range(count + 1) for count in counts))
                for second in [tuple(a - b for a, b in zip(counts, first, strict=True))]
            ]
            frontier = pareto_points(counts, worths)
            for deal in deals:
                beaten = any(a >= deal[0] and b >= deal[1] and (a, b) != deal for a, b in deals)
                assert (deal in frontier) == (not beaten)
            best = nash_points(counts, worths)
            assert best[0] * best[1] == max(a * b for a, b in deals) > 0


def test_a_deal_over_a_price_is_paid_by_the_share_of_the_nash_solution():
    game = make_game("PriceNegotiation")
    state = game.apply(PriceState((5, 15), ("offer 12",)), 1, "accept")
    assert game.actors(state) == ()
    assert game.returns(state) == (1.4, 0.6)
    assert game.outcome(game.returns(state), 0) == 1.0
    for seat in (0, 1):
        text = game.show(game.view(state, seat), seat)
        assert (
            "every price from 5 to 15 is on the Pareto frontier, and the Nash solution is 10 with the product 25"
            in text
        )
        assert "the product is 21" in text
    assert game.returns(PriceState((5, 15), ("offer 12",), "quit")) == (0.0, 0.0)
    loss = PriceState((5, 15), ("offer 20",), "accept")
    assert game.returns(loss)[1] == -1.0
    assert game.outcome(game.returns(loss), 1) == 0.0


def test_a_deal_over_things_gives_the_other_what_the_offer_leaves():
    game = make_game("ShareNegotiation")
    state = SharesState((2, 2, 1), ((4, 1, 0), (0, 3, 4)), ("keep 2 2 0", "keep 0 2 1"), "accept")
    assert game.points(state) == (8, 10)
    text = game.show(game.view(state, 0), 0)
    assert "The Nash solution is 8-10 with the product 80; yours is 80." in text
    assert "this is on the Pareto frontier" in text
    assert game.returns(state) == (1.0, 1.0)
    assert game.points(state._replace(offers=("keep 2 2 1",))) == (10, 0)


@pytest.mark.parametrize("name", ["PriceNegotiation", "ShareNegotiation"])
def test_a_negotiation_ends_without_a_deal_after_its_turns(name):
    referee = Referee(make_game(name, turns=4))
    match = referee.begin("0")
    for turn in range(3):
        assert ("accept" in referee.legal(match, turn % 2)) == (turn > 0)
        match = referee.act(match, turn % 2, referee.legal(match, turn % 2)[-1])
    assert referee.legal(match, 1) == ["accept", "quit"]
    match = referee.act(match, 1, "quit")
    assert referee.returns(match) == (0.0, 0.0)
    with pytest.raises(ValueError, match="2 to 20"):
        make_game(name, turns=1)


def test_offers_are_read_as_people_write_them():
    prices, shares = Referee(make_game("PriceNegotiation")), Referee(make_game("ShareNegotiation"))
    match = prices.begin("0")
    assert {prices.read(match, 0, text) for text in ("offer 12", "12", "I offer 12 coins.", r"\boxed{Offer 12}")} == {
        "offer 12"
    }
    match = shares.begin("0")
    texts = ("keep 1 0 1", "keep 1, 0, 1", "1 0 1", "keep 1 book, 0 hats and 1 ball", r"\boxed{keep 1 0 1}")
    assert {shares.read(match, 0, text) for text in texts} == {"keep 1 0 1"}


def test_an_offer_in_another_order_is_read_by_its_nouns_or_refused():
    game = make_game("ShareNegotiation")
    referee = Referee(game)
    match = referee.begin("0")._replace(state=SharesState((2, 2, 2), ((1, 2, 2), (3, 1, 1))))
    for text in (
        "keep 0 1 2",
        "keep 0 books, 1 hat, 2 balls",
        "keep 2 balls, 1 hat, 0 books",
        "keep 1 hat, 2 balls and 0 books",
        "keep balls 2, hats 1, books 0",
        "keep books: 0, hats: 1, balls: 2",
        "2 balls, 1 hat, 0 books",
        "I keep 2 balls, 1 hat and 0 books.",
        r"My offer is this: \boxed{keep 2 balls, 1 hat, 0 books}",
        r"\boxed{offer keep 2 balls, 1 hat, 0 books}",
    ):
        assert referee.read(match, 0, text) == "keep 0 1 2", text
    for text in (
        "keep 2 balls, 1 hat, 0 balls",  # no books
        "keep 2 balls, 1 hat, 0",
        "keep 2 balls and 1 hat",
        "keep 2 1 0 balls",
        "keep 2 balls 1 hats books 0",
        "keep 2 balls, 1 hat, 0 books, 1 ball",
        "keep balls hats books 2 1 0",
        "give 2 balls, 1 hat, 0 books",
        "keep 2 hats, 1 book, 3 balls",  # there are two
    ):
        with pytest.raises(IllegalText):
            referee.read(match, 0, text)


@pytest.mark.parametrize("name", ["PriceNegotiation", "ShareNegotiation"])
def test_no_deal_is_worth_nothing_and_the_nash_deal_half_of_the_payoff(name):
    game = make_game(name)
    for seat in (0, 1):
        assert game.payoff((0.0, 0.0), seat) == 0.0
        assert game.payoff((1.0, 1.0), seat) == 0.5
        assert game.payoff((game.lowest, game.lowest), seat) == 0.0
        assert game.payoff((game.highest, game.highest), seat) == 1.0


@pytest.mark.parametrize("name", ["PriceNegotiation", "ShareNegotiation"])
@pytest.mark.parametrize("reward", ["outcome", "payoff"])
def test_refusing_to_deal_is_paid_nothing(name, reward):
    env = gym.make(f"rlvr/{name}-v0", level=3, seat=0, reward=reward).unwrapped
    for seed in range(5):
        env.reset(seed=seed)
        _, paid, over, _, info = env.step(r"\boxed{quit}")
        assert (paid, over, info["verdict"].status) == (0.0, True, "wrong")
    env.reset(seed=3)
    over = False
    while not over:  # the control: a deal is paid
        _, paid, over, _, _ = env.step(env.solve())
    assert paid > 0


def test_the_bounds_of_a_price_are_those_of_the_worst_deal():
    game = make_game("PriceNegotiation")
    deals = [
        game.returns(PriceState((cost, cost + room), (f"offer {price}",), "accept"))
        for cost in range(1, 16)
        for room in range(4, 13)
        for price in range(game.highest_price + 1)
    ]
    assert min(map(min, deals)) == game.lowest
    assert max(map(max, deals)) == game.highest


def test_the_verdict_of_a_negotiation_states_frontier_and_nash_product():
    env = gym.make("rlvr/ShareNegotiation-v0", level=3).unwrapped
    env.reset(seed=3)
    over = False
    while not over:
        observation, _, over, _, info = env.step(env.solve())
        assert over or "other seat:" not in observation
    assert "Pareto frontier" in info["verdict"].reason
    assert "The Nash solution is" in info["verdict"].reason
