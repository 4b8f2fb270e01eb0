"""Rules of the games of several seats, compared with OpenSpiel's by random playouts; and exploitability."""

from __future__ import annotations

import random

import pytest

from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import exploitability, uniform
from rlvr.envs.players.game import CHANCE, COLUMNS, Referee

pytestmark = pytest.mark.foreign
PLAYOUTS = 10_000  # of each game


def cell(text):
    """``(row, column)`` of OpenSpiel as a cell of ours."""
    row, column = text.split(",")
    return f"{COLUMNS[int(column)]}{int(row) + 1}"


def same(text, ours):
    return text.lower()


def poker(text, legal):
    """Pass and Bet of Kuhn's game in our words."""
    return legal[0] if text == "Pass" else legal[1]


def dots(text, ours):
    kind, row, column = text[3:-1].split(",")
    return f"{kind}{int(row) + 1}{int(column) + 1}"


def nim(text, ours):
    pile, take = (part.split(":")[1].strip(" ;") for part in text.split(","))
    return f"{COLUMNS[int(pile) - 1]} {take}"


def breakthrough(text, ours):
    """Theirs writes black's rows from the top: a6 is our a1."""
    text = text.rstrip("*")
    return " ".join(f"{text[at]}{7 - int(text[at + 1])}" for at in (0, 2))


def mancala(text, ours):
    return str(int(text) if int(text) < 7 else int(text) - 7)


def roll(text):
    return text.split()[1]


def holdem(text, ours):
    """``player=0 move=Bet6``: theirs counts chips since the deal as well."""
    word = text.rpartition("=")[2].lower()
    return word.replace("bet", "raise ")


HOLDEM = (
    "universal_poker(betting=nolimit,numPlayers=2,numRounds=2,blind=1 2,firstPlayer=1 2,numSuits=4,numRanks=6,"
    "numHoleCards=2,numBoardCards=0 3,stack=20 20,bettingAbstraction=fullgame)"
)

HANABI = "hanabi(players=2,colors=3,ranks=3,hand_size=3,max_information_tokens=5,max_life_tokens=3)"
COLOURS = {"R": "red", "Y": "green", "G": "blue"}


def hanabi(text, ours):
    words = text.strip("()").lower().split()
    if words[0] in ("play", "discard"):
        return f"{words[0]} {int(words[1]) + 1}"
    head = next(move for move in ours if move.startswith("hint"))[: len("hint seat 0")]
    return f"{head} {COLOURS[text[-2]] if words[3] == 'color' else 'rank ' + words[4]}"


# Our game, OpenSpiel's, how a move of theirs reads here, and how a draw of chance does.
PAIRS = {
    "KuhnPoker": ("kuhn_poker", poker, lambda text: "jqk"[int(text.split(":")[-1])]),
    "LeducPoker": ("leduc_poker", same, lambda text: "jqk"[int(text.split(":")[-1]) // 2]),
    "TicTacToeDuel": ("tic_tac_toe", lambda text, ours: cell(text[2:-1]), None),
    "ConnectFourDuel": ("connect_four", lambda text, ours: COLUMNS[int(text[1:])], None),
    "NimDuel": ("nim", nim, None),
    "DotsAndBoxes": ("dots_and_boxes", dots, None),
    "Othello": ("othello", lambda text, ours: text.split()[0], None),
    "Breakthrough": ("breakthrough(rows=6,columns=6)", breakthrough, None),
    "Hex": ("hex(board_size=5)", same, None),
    "Mancala": ("mancala", mancala, None),
    "Checkers": ("checkers", lambda text, ours: f"{text[:2]} {text[2:4]}", None),
    "NoLimitHoldem": (HOLDEM, holdem, lambda text: "9tjqka"[int(text[-2]) - 2] + text[-1]),
    "HanabiSmall": (HANABI, hanabi, lambda text: COLOURS[text[-3]][0] + text[-2]),
    "LiarsDice": ("liars_dice(numdice=2)", same, roll),
    "Pig": ("pig(winscore=30)", same, roll),
    "PigTable": ("pig(players=4,winscore=30)", same, roll),
}


@pytest.mark.parametrize("name", PAIRS)
def test_random_playouts_have_the_same_moves_and_returns_as_openspiels(name):
    pyspiel = pytest.importorskip("pyspiel")
    theirs, read, read_chance = PAIRS[name]
    game, other = make_game(name), pyspiel.load_game(theirs)
    for seed in range(PLAYOUTS):
        rng = random.Random(seed)
        state, there = game.start(), other.new_initial_state()
        while not there.is_terminal():
            if there.is_chance_node():
                action = rng.choice(there.legal_actions())
                drawn = read_chance(there.action_to_string(there.current_player(), action))
                assert game.actors(state) == (CHANCE,)
                outcomes = dict(game.chance(state))
                theirs_of = {}
                for each, share in there.chance_outcomes():
                    word = read_chance(there.action_to_string(there.current_player(), each))
                    theirs_of[word] = theirs_of.get(word, 0) + share
                assert outcomes == pytest.approx(theirs_of)
                there.apply_action(action)
                state = game.apply(state, CHANCE, drawn)
            else:
                seat = there.current_player()
                assert game.actors(state) == (seat,), (name, seed)
                legal = game.legal(state, seat)
                words = {read(there.action_to_string(seat, each), legal): each for each in there.legal_actions()}
                assert set(words) == set(legal), (name, seed)
                move = rng.choice(sorted(words))
                there.apply_action(words[move])
                state = game.apply(state, seat, move)
        assert game.actors(state) == (), (name, seed)
        assert list(game.returns(state)) == there.returns(), (name, seed)


def their_plays(there, seat, before=""):
    """The whole plays of OpenSpiel's backgammon by their words; equal dice are played by two actions there."""
    found = {}
    for action in there.legal_actions():
        text = there.action_to_string(seat, action).partition(" - ")[2].lower()
        words = " ".join(word for word in f"{before} {text}".split() if word != "pass") or "pass"
        after = there.child(action)
        if not before and after.is_player_node() and after.current_player() == seat:
            found |= {more: (action, *rest) for more, rest in their_plays(after, seat, words).items()}
        else:
            found[words] = (action,)
    return found


@pytest.mark.timeout(1_200)
def test_random_games_of_backgammon_have_the_plays_and_returns_of_openspiels():
    """Whole games. Of equal dice OpenSpiel plays two after two, and may so leave some unplayed that could be."""
    pyspiel = pytest.importorskip("pyspiel")
    game, other = make_game("Backgammon"), pyspiel.load_game("backgammon(scoring_type=full_scoring)")
    left = plays = 0
    for seed in range(PLAYOUTS // 100):
        rng = random.Random(seed)
        state, there = game.start(), other.new_initial_state()
        while not there.is_terminal():
            if there.is_chance_node():
                actions, shares = {}, {}
                for action, share in there.chance_outcomes():
                    text = there.action_to_string(-1, action)
                    low, high = sorted(text.rstrip(")")[-2:])
                    word = f"{low}-{high}" if "O starts" in text else f"{high}-{low}"
                    actions[word], shares[word] = action, shares.get(word, 0.0) + share
                assert dict(game.chance(state)) == pytest.approx(shares)
                word = rng.choice(sorted(actions))
                there.apply_action(actions[word])
                state = game.apply(state, CHANCE, word)
                continue
            seat = there.current_player()
            assert game.actors(state) == (seat,)
            legal = game.legal(state, seat)
            read = {words: game.parse(state, seat, words) for words in their_plays(there, seat)}
            assert {*read.values()} & {*legal} == {*legal}, (seed, state)
            short = {words for words, move in read.items() if move not in legal}
            assert not short or state.dice[0] == state.dice[1], (seed, state, short)
            left, plays = left + bool(short), plays + 1
            words = rng.choice(sorted({*read} - short))
            for action in their_plays(there, seat)[words]:
                there.apply_action(action)
            state = game.apply(state, seat, read[words])
        assert game.actors(state) == (), seed
        assert list(game.returns(state)) == there.returns(), seed
    assert left < plays / 100


def test_random_games_of_chess_have_the_same_moves_and_ends_as_openspiels():
    """Whole games, without our limit of moves. Black is OpenSpiel's player 0."""
    pyspiel = pytest.importorskip("pyspiel")
    pytest.importorskip("chess")
    game, other = make_game("Chess", moves=1000), pyspiel.load_game("chess")
    referee = Referee(game)
    ended = 0
    for seed in range(60):
        rng = random.Random(seed)
        match, there = referee.begin(str(seed)), other.new_initial_state()
        for _ in range(600):
            assert bool(referee.to_move(match)) != there.is_terminal(), match.state
            if there.is_terminal():
                assert list(referee.returns(match)) == there.returns()[::-1], match.state
                ended += 1
                break
            (seat,) = referee.to_move(match)
            words = {there.action_to_string(each): each for each in there.legal_actions()}
            read = {referee.read(match, seat, word): word for word in words} if rng.random() < 0.02 else None
            legal = referee.legal(match, seat)
            assert len(words) == len(legal)
            assert read is None or set(read) == set(legal)
            word = rng.choice(sorted(words))
            match = referee.act(match, seat, word)
            assert not any(match.faults), word
            there.apply_action(words[word])
    assert ended > 40


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_ten_thousand_playouts_of_chess_have_openspiels_positions_and_moves():
    """To our limit of moves, which OpenSpiel has not; the positions are compared as FEN, the moves by their number."""
    pyspiel = pytest.importorskip("pyspiel")
    chess = pytest.importorskip("chess")
    game, other = make_game("Chess"), pyspiel.load_game("chess")
    referee = Referee(game)
    ended = 0
    for seed in range(10_000):
        rng = random.Random(seed)
        match, there, board = referee.begin(str(seed)), other.new_initial_state(), chess.Board()
        while movers := referee.to_move(match):
            assert not there.is_terminal(), match.state
            assert str(there).split()[:3] == match.state.fen.split()[:3], match.state
            (seat,) = movers
            actions = there.legal_actions()
            assert len(actions) == len(referee.legal(match, seat)), match.state
            action = rng.choice(actions)
            move = board.push_san(there.action_to_string(action)).uci()
            match = referee.play(match, seat, move)
            there.apply_action(action)
        if there.is_terminal():
            assert list(referee.returns(match)) == there.returns()[::-1], match.state
            ended += 1
    assert ended > 100


@pytest.mark.parametrize(
    ("name", "theirs"), [("Goofspiel", "goofspiel(num_cards=5,points_order=random)"), ("Blotto", "blotto")]
)
def test_simultaneous_games_have_the_same_returns_as_openspiels(name, theirs):
    pyspiel = pytest.importorskip("pyspiel")
    game, other = make_game(name), pyspiel.load_game(theirs)
    for seed in range(PLAYOUTS):
        rng = random.Random(seed)
        state, there = game.start(), other.new_initial_state()
        while not there.is_terminal():
            if there.is_chance_node():
                action, _ = rng.choice(there.chance_outcomes())
                prize = there.action_to_string(there.current_player(), action).rpartition(" ")[2]
                assert prize in dict(game.chance(state))
                there.apply_action(action)
                state = game.apply(state, CHANCE, prize)
                continue
            moves, actions = {}, []
            for seat in (0, 1):
                legal = there.legal_actions(seat)
                words = [there.action_to_string(seat, each).rpartition(": ")[2] for each in legal]
                words = [word.strip("[]").replace(",", " ") for word in words]
                assert sorted(words) == sorted(game.legal(state, seat))
                at = rng.randrange(len(legal))
                moves[seat] = words[at]
                actions.append(legal[at])
            there.apply_actions(actions)
            state = game.apply_all(state, moves)
        while game.actors(state):  # theirs does not ask for the last card, which is forced
            if game.actors(state) == (CHANCE,):
                ((prize, _),) = game.chance(state)
                state = game.apply(state, CHANCE, prize)
            forced = [game.legal(state, seat) for seat in (0, 1)]
            assert [len(each) for each in forced] == [1, 1]
            state = game.apply_all(state, {0: forced[0][0], 1: forced[1][0]})
        assert list(game.returns(state)) == there.returns()


def test_ultimate_tic_tac_toe_has_the_same_moves_and_returns_as_openspiels():
    """Theirs chooses the board first where any will do; ours names it in every move."""
    pyspiel = pytest.importorskip("pyspiel")
    game, other = make_game("UltimateTicTacToe"), pyspiel.load_game("ultimate_tic_tac_toe")
    for seed in range(PLAYOUTS):
        rng = random.Random(seed)
        state, there = game.start(), other.new_initial_state()
        while not there.is_terminal():
            seat = there.current_player()
            assert game.actors(state) == (seat,)
            chosen = state.target
            if chosen < 0:
                words = {there.action_to_string(seat, each): each for each in there.legal_actions()}
                boards = {game.names[int(word.rpartition(" ")[2])] for word in words}
                assert boards == {move.split()[0] for move in game.legal(state, seat)}, seed
                word = rng.choice(sorted(words))
                there.apply_action(words[word])
                chosen = int(word.rpartition(" ")[2])
            board = game.names[chosen]
            cells = {
                f"{board} {cell(there.action_to_string(seat, each).partition('(')[2].strip(')'))}": each
                for each in there.legal_actions()
            }
            assert set(cells) == {move for move in game.legal(state, seat) if move.startswith(f"{board} ")}, seed
            move = rng.choice(sorted(cells))
            there.apply_action(cells[move])
            state = game.apply(state, seat, move)
        assert game.actors(state) == (), seed
        assert list(game.returns(state)) == there.returns(), seed


@pytest.mark.parametrize(("name", "theirs"), [("RockPaperScissors", "matrix_rps"), ("MatchingPennies", "matrix_mp")])
def test_rounds_of_a_matrix_game_have_the_same_returns_as_openspiels(name, theirs):
    pyspiel = pytest.importorskip("pyspiel")
    game = make_game(name)
    other = pyspiel.load_game(f"repeated_game(stage_game={theirs}(),num_repetitions={game.length})")
    for seed in range(PLAYOUTS):
        rng = random.Random(seed)
        state, there = game.start(), other.new_initial_state()
        while not there.is_terminal():
            moves, actions = {}, []
            for seat in (0, 1):
                words = {there.action_to_string(seat, each).lower(): each for each in there.legal_actions(seat)}
                assert set(words) == set(game.legal(state, seat))
                moves[seat] = rng.choice(sorted(words))
                actions.append(words[moves[seat]])
            there.apply_actions(actions)
            state = game.apply_all(state, moves)
        assert game.actors(state) == ()
        assert list(game.returns(state)) == there.returns()


def test_an_auction_has_the_same_values_and_returns_as_openspiels():
    """Theirs allows no bid as high as the value, and chance chooses among equal bids, where ours takes the first."""
    pyspiel = pytest.importorskip("pyspiel")
    game, other = make_game("SealedAuction"), pyspiel.load_game("first_sealed_auction(players=3,max_value=20)")
    ties = 0
    for seed in range(PLAYOUTS):
        rng = random.Random(seed)
        state, there, bids = game.start(), other.new_initial_state(), {}
        while not there.is_terminal():
            seat = there.current_player()
            outcomes = there.chance_outcomes() if there.is_chance_node() else ()
            if len(bids) == game.seats:
                assert len(outcomes) == list(bids.values()).count(max(bids.values(), key=int)) or not outcomes
                ties += len(outcomes) > 1
                there.apply_action(outcomes[0][0])
            elif outcomes:
                values = {str(each): share for each, share in outcomes}
                assert values == pytest.approx(dict(game.chance(state)))
                value = rng.choice(sorted(values))
                there.apply_action(int(value))
                state = game.apply(state, CHANCE, value)
            else:
                words = {there.action_to_string(seat, each).rpartition(" ")[2]: each for each in there.legal_actions()}
                assert set(words) <= set(game.legal(state, seat))
                bids[seat] = rng.choice(sorted(words))
                there.apply_action(words[bids[seat]])
        state = game.apply_all(state, bids)
        assert list(game.returns(state)) == there.returns()
    assert ties > PLAYOUTS / 100


@pytest.mark.parametrize(("name", "theirs"), [("KuhnPoker", "kuhn_poker"), ("LeducPoker", "leduc_poker")])
def test_exploitability_is_openspiels(name, theirs):
    pyspiel = pytest.importorskip("pyspiel")
    from open_spiel.python import policy
    from open_spiel.python.algorithms import exploitability as their_exploitability

    other = pyspiel.load_game(theirs)
    found = their_exploitability.exploitability(other, policy.UniformRandomPolicy(other))
    assert exploitability(make_game(name), uniform).value == pytest.approx(found, abs=1e-9)
