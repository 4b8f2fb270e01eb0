"""Chess: perft counts, the draws, the ways to write a move, and what is said without python-chess."""

from __future__ import annotations

import random
import sys

import gymnasium as gym
import pytest

from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import IllegalText, Referee

chess = pytest.importorskip("chess")
KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
ENDING = "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1"
PROMOTIONS = "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1"


def leaves(game, state, depth):
    (seat,) = game.actors(state) or (None,)
    if depth == 0 or seat is None:
        return 1
    return sum(leaves(game, game.apply(state, seat, move), depth - 1) for move in game.legal(state, seat))


@pytest.mark.parametrize(
    ("fen", "counts"),
    [("", (20, 400)), (KIWIPETE, (48, 2039)), (ENDING, (14, 191, 2812)), (PROMOTIONS, (6, 264))],
    ids=["start", "kiwipete", "ending", "promotions"],
)
def test_the_tree_has_as_many_leaves_as_everybody_counts(fen, counts):
    game = make_game("Chess", fen=fen)
    assert tuple(leaves(game, game.start(), depth + 1) for depth in range(len(counts))) == counts


def after(fen, *moves, **settings):
    """The game and its state after moves from a position."""
    game = make_game("Chess", fen=fen, **settings)
    referee = Referee(game)
    match = referee.begin("0")
    for move in moves:
        match = referee.play(match, *referee.to_move(match), referee.read(match, referee.to_move(match)[0], move))
    return referee, match


@pytest.mark.parametrize(
    ("fen", "moves", "settings", "said", "returns"),
    [
        ("", ["f3", "e5", "g4", "Qh4#"], {}, "Seat 0 is checkmated", (-1, 1)),
        ("7k/5Q2/8/8/8/8/8/K7 w - - 0 1", ["Kb1"], {}, "stalemate", (0, 0)),
        ("", ["Nf3", "Nf6", "Ng1", "Ng8"] * 2, {}, "three times", (0, 0)),
        ("7k/8/8/8/8/8/1p6/K7 w - - 0 1", ["Kxb2"], {}, "too few pieces", (0, 0)),
        ("7k/8/8/8/8/8/8/KR6 w - - 99 80", ["Rb2"], {}, "fifty moves", (0, 0)),
        ("7k/8/6K1/8/8/8/8/1R6 w - - 99 80", ["Rb8#"], {}, "Seat 1 is checkmated", (1, -1)),
        ("", ["e4", "e5", "d4", "d5"], {"moves": 2}, "2 moves of each seat", (0, 0)),
    ],
    ids=["mate", "stalemate", "repetition", "pieces", "fifty", "mate comes before fifty", "cap"],
)  # fmt: skip
def test_a_game_ends_by_the_rule_that_ends_it(fen, moves, settings, said, returns):
    referee, before = after(fen, *moves[:-1], **settings)
    assert referee.to_move(before), "the rule does not end the game a move too early"
    referee, match = after(fen, *moves, **settings)
    assert referee.to_move(match) == ()
    assert referee.returns(match) == returns
    assert said in referee.observe(match, 0)


def test_a_position_with_other_rights_is_not_the_same_one():
    """The rook's way there and back costs the right to castle, so the first position does not count."""
    moves = ["Rg1", "Rg8", "Rh1", "Rh8"]
    fen = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1"
    referee, match = after(fen, *moves * 2)
    assert referee.to_move(match), "it has occurred twice without the rights, and once with them"
    referee, match = after(fen, *moves * 2, *moves[:2])
    assert referee.to_move(match) == ()


WRITTEN = {
    KIWIPETE: {
        "e5f7": ["Nxf7", "nxf7", "knight takes f7", "e5-f7", "e5 to f7", "My move is \\boxed{Nxf7}.", "**Nxf7**"],
        "d5e6": ["dxe6", "pawn takes e6", "d5xe6", "1. dxe6", "Move: dxe6"],
        "e1g1": ["O-O", "0-0", "o-o", "castle kingside", "castles short", "Kg1", "\\boxed{O-O}"],
        "e1c1": ["O-O-O", "0-0-0", "castles queenside", "castle long"],
        "e2a6": ["Bxa6", "bxa6", "bishop takes a6", "\\boxed{Bxa6}", "I play Bxa6"],
        "a2a4": ["a4", "a2a4", "a2-a4", "pawn to a4"],
    },
    "4k3/8/8/8/8/8/1p6/R3K3 b - - 0 1": {
        "b2a1q": ["bxa1=Q", "bxa1Q", "b2a1q", "bxa1=queen", "b2xa1=Q"],
        "b2a1b": ["bxa1=B", "bxa1=bishop", "b2a1b"],
        "b2b1n": ["b1=N", "b1=knight", "b2b1n"],
    },
    "4k3/8/8/8/2p5/1P2n3/8/2B1K3 w - - 0 1": {"b3c4": ["bxc4", "\\boxed{bxc4}"], "c1e3": ["Bxe3", "bishop takes e3"]},
    "4k3/8/8/8/2p5/1P1B4/8/4K3 w - - 0 1": {"b3c4": ["bxc4"], "d3c4": ["Bxc4", "I will play Bxc4", "**Bxc4**",
        "BXC4", "I PLAY BXC4", "BXc4", "BDXC4"]},
}  # fmt: skip


@pytest.mark.parametrize("fen", WRITTEN)
def test_moves_are_read_as_people_write_them(fen):
    game = make_game("Chess", fen=fen)
    referee, (seat,) = Referee(game), game.actors(game.start())
    match = referee.begin("0")
    for move, texts in WRITTEN[fen].items():
        for text in texts:
            assert referee.read(match, seat, text) == move, text


@pytest.mark.parametrize(
    ("fen", "text"),
    [
        ("", "e5"), ("", "Nd2"), ("", "e2e4 or d2d4"), ("", "not e4"), ("", "e4 e5"), ("", "Ke2"), ("", "--"),
        ("", "0000"),
        ("7k/8/8/8/8/8/8/K1N1N3 w - - 0 1", "Nd3"), ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a8"),
        ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8"), ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a8=K"),
        ("4k3/4r3/8/8/8/8/4N3/4K3 w - - 0 1", "Nc3"), ("4k3/4r3/8/8/8/8/4N3/4K3 w - - 0 1", "O-O"),
    ],
)  # fmt: skip
def test_what_names_no_move_or_two_is_no_move(fen, text):
    referee = Referee(make_game("Chess", fen=fen))
    with pytest.raises(IllegalText, match="not a legal move"):
        referee.read(referee.begin("0"), 0, text)


def test_every_move_of_random_games_is_read_in_both_notations():
    game = make_game("Chess")
    referee, rng = Referee(game), random.Random(3)
    for key in range(2):
        match = referee.begin(str(key))
        while movers := referee.to_move(match):
            board = chess.Board(match.state.fen)
            legal = list(board.legal_moves)
            assert sorted(move.uci() for move in legal) == list(referee.legal(match, *movers))
            for move in rng.sample(legal, min(6, len(legal))) if rng.random() < 0.15 else ():
                for text in (
                    board.san(move),
                    board.lan(move),
                    f"\\boxed{{{board.san(move)}}}",
                    f"I play {board.san(move)}",
                ):
                    assert referee.read(match, *movers, text) == move.uci(), (match.state.fen, text)
            match = referee.play(match, *movers, rng.choice(legal).uci())
        board = chess.Board(match.state.fen)
        ended = board.is_checkmate() or board.is_stalemate() or board.is_insufficient_material()
        assert ended or game.drawn_by(match.state)


def test_the_expert_mates_and_beats_random_moves():
    game = make_game("Chess", fen="6k1/5ppp/8/8/8/8/8/K2R4 w - - 0 1")
    assert game.expert(game.start(), 0, random.Random(0)) == "d1d8"
    won = 0.0
    for seed in range(4):
        env = gym.make("rlvr/Chess-v0", level=1).unwrapped
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, over, _, _ = env.step(env.solve())
        won += float(reward)
    assert won >= 3


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"fen": "what"}, "no position of chess"), ({"fen": "8/8/8/8/8/8/8/K7 w - - 0 1"}, "no legal position"),
        ({"fen": 5}, "fen must be a text"), ({"fen": ["a"]}, "fen must be a text"),
        ({"fen": None}, "fen must be a text"),
        ({"fen": "R5k1/5ppp/8/8/8/8/8/K7 b - - 0 1"}, "the game is over: checkmate"),
        ({"fen": "7k/5Q2/8/8/8/8/8/1K6 b - - 0 1"}, "the game is over: a draw by stalemate"),
        ({"fen": "7k/8/8/8/8/8/8/K7 w - - 0 1"}, "the game is over: a draw by too few pieces"),
        ({"fen": "7k/8/8/8/8/8/8/KR6 w - - 100 80"}, "the game is over: a draw by fifty moves"),
        ({"moves": 0}, "from 1 to 1000"), ({"moves": True}, "from 1 to 1000"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_clear_error(settings, reason):
    with pytest.raises(ValueError, match=reason):
        make_game("Chess", **settings)


def test_without_python_chess_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "chess", None)
    with pytest.raises(ImportError, match=r'python-chess, which is not installed: pip install "rlvr\[games\]"'):
        gym.make("rlvr/Chess-v0")
