"""Games on boards and grids: what no play can change, which moves there are, and when a game is won.

Each game is played by a state machine beside a naive reference of its rules; experts and generators are checked
against searches that share no code with them.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from itertools import pairwise, permutations
from math import prod

import gymnasium as gym
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rlvr.envs import TextEnv
from rlvr.envs.games.board_game import WAYS, BoardGame, cheapest, distances, shortest
from rlvr.envs.games.colour_boards import FloodIt, LightsOutGame, fewest, presses
from rlvr.envs.games.grid_walks import FogMaze, FrozenLake, KeyDoor
from rlvr.envs.games.hanoi import HanoiGame
from rlvr.envs.games.peg_jump import PegJump, holes
from rlvr.envs.games.river_crossing import RiverCrossing
from rlvr.envs.games.rush_hour import SIZE, RushHour, draw_crowd, drives, filled, random_bit
from rlvr.envs.games.sliding_boards import Game2048, SlidingPuzzle, merged, stages
from rlvr.envs.games.snake import Snake, cycle
from rlvr.envs.games.sokoban import Sokoban
from rlvr.envs.games.taxi import Taxi
from rlvr.envs.games.tetris import DRAWN, Tetris
from rlvr.envs.games.two_player import ConnectFour, Nim, TicTacToe, losing
from rlvr.envs.games.water_jugs import WaterJugs
from rlvr.envs.games.water_sort import WaterSort
from rlvr.envs.games.word_ladder import WordLadder, steps

GAMES = {
    game: game()
    for game in (
        Sokoban, SlidingPuzzle, Game2048, HanoiGame, PegJump, LightsOutGame, FloodIt, RushHour, FrozenLake, KeyDoor,
        FogMaze, Nim, TicTacToe, ConnectFour, WaterJugs, WaterSort, RiverCrossing, Snake,
        WordLadder, Taxi, Tetris,
    )
}  # fmt: skip
SURE = [game for game in GAMES.values() if game.always_solvable]
NAMES = [type(game).__name__ for game in SURE]


def dealt(game: BoardGame, seed: int, level: int):
    return game.deal(random.Random(f"{seed} {level}"), level)


class Played(RuleBasedStateMachine):
    """A game under random play, legal and not, with what must hold after every reply."""

    game: BoardGame

    @initialize(seed=st.integers(0, 10**6), level=st.integers(1, 5))
    def begin(self, seed, level):
        self.state = self.game.start(random.Random(seed), level)
        self.over = False
        self.start = self.state.board

    @precondition(lambda self: self.over)
    @rule(seed=st.integers(0, 10**6))
    def begin_again(self, seed):
        self.begin(seed, 1 + seed % 5)

    @precondition(lambda self: not self.over)
    @rule(choice=st.randoms(use_true_random=False))
    def legal_move(self, choice):
        before = self.state.board
        move = choice.choice(self.game.legal(before))
        self.state, verdict, self.over, _ = self.game.apply(self.state, f"\\boxed{{{move}}}")
        assert (verdict.status == "correct") == self.game.reached(self.state.board) == (verdict.reward == 1.0)
        assert self.over == (self.game.reached(self.state.board) or bool(self.game.failed(self.state.board)))
        self.moved(before, move, self.state.board)

    @precondition(lambda self: not self.over)
    @rule(
        text=st.sampled_from(
            ["", "jump", "\\boxed{up left}", "\\boxed{z9}", "a 99", "\\boxed{-1}", "<think>up</think>"]
        )
    )
    def illegal_move(self, text):
        before = self.state
        self.state, verdict, over, _ = self.game.apply(before, text)
        assert (verdict.reward, verdict.status, over) == (0.0, "unparsable", False)
        assert (self.state.board, self.state.turn) == (before.board, before.turn + 1)
        assert self.game.form(before.board) in self.state.message

    @invariant()
    def the_expert_knows_a_legal_move(self):
        if not getattr(self, "over", True) and self.state.turn < 3:
            move = self.game.solve(self.state).removeprefix("\\boxed{").removesuffix("}")
            assert self.game.named(move) in self.game.legal(self.state.board)

    @invariant()
    def the_board_is_sound(self):
        if hasattr(self, "state"):
            assert sorted(self.game.legal(self.state.board)) == sorted(set(self.game.legal(self.state.board)))
            self.sound(self.state.board)

    def sound(self, board):
        """What no play can change."""

    def moved(self, before, move, after):
        """What a move must have done, and which moves there were."""


def signs(board, game):
    """The cells of a drawn board without its letters and numbers, by place."""
    lines = [line[3:] for line in game.show(board).splitlines()[1:]]
    return {(y, x): line[2 * x] for y, line in enumerate(lines) for x in range((len(line) + 1) // 2)}


class SokobanPlay(Played):
    game = GAMES[Sokoban]

    def sound(self, board):
        text = self.game.show(board)
        assert text.count("$") + text.count("*") == board.goals.bit_count() == board.boxes.bit_count()
        assert text.count("@") + text.count("+") == 1
        assert board.boxes & board.walls == 0
        assert (board.walls | board.boxes) >> board.player & 1 == 0
        assert board.walls == self.start.walls

    def moved(self, before, move, after):
        rows = self.game.show(before).splitlines()
        y, x = divmod(before.player, before.width)
        free = []
        for way, (dy, dx) in WAYS.items():
            one, two = rows[y + dy][x + dx], rows[y + 2 * dy][x + 2 * dx] if rows[y + dy][x + dx] in "$*" else "-"
            if one in "-." or (one in "$*" and two in "-."):
                free.append(way)
        assert self.game.legal(before) == (free or ["up"])
        if free:
            assert abs(after.player - before.player) in (1, before.width)


class SlidingPlay(Played):
    game = GAMES[SlidingPuzzle]

    def sound(self, board):
        assert sorted(board.tiles) == list(range(board.height * board.width))

    def moved(self, before, move, after):
        gap = divmod(before.tiles.index(0), before.width)
        near = {
            str(tile)
            for place, tile in enumerate(before.tiles)
            if sum(abs(a - b) for a, b in zip(divmod(place, before.width), gap, strict=True)) == 1
        }
        assert set(self.game.legal(before)) == near
        assert sum(a != b for a, b in zip(before.tiles, after.tiles, strict=True)) == 2


class Play2048(Played):
    game = GAMES[Game2048]

    def moved(self, before, move, after):
        total = [sum(2**tile for row in board.rows for tile in row if tile) for board in (before, after)]
        assert total[1] - total[0] in (2, 4)


class HanoiPlay(Played):
    game = GAMES[HanoiGame]

    def moved(self, before, move, after):
        piles = [[disc for disc, on in enumerate(before.at) if on == peg] for peg in range(before.pegs)]
        legal = {
            "abcd"[source] + "abcd"[target]
            for source in range(before.pegs)
            for target in range(before.pegs)
            if source != target and piles[source] and min(piles[source]) < min(piles[target], default=99)
            if not before.stepwise or abs(source - target) == 1
        }
        assert set(self.game.legal(before)) == legal
        assert sum(a != b for a, b in zip(before.at, after.at, strict=True)) == 1


class PegPlay(Played):
    game = GAMES[PegJump]

    def moved(self, before, move, after):
        assert after.standing.bit_count() == before.standing.bit_count() - 1
        shown = signs(before, self.game)
        lines = [(0, 1), (1, 0), *([(1, 1)] if before.shape != "cross" else [])]
        jumps = set()
        for (y, x), sign in shown.items():
            for dy, dx in [*lines, *((-dy, -dx) for dy, dx in lines)]:
                over, to = (y + dy, x + dx), (y + 2 * dy, x + 2 * dx)
                if sign == "o" and shown.get(over) == "o" and shown.get(to) == ".":
                    jumps.add(f"{'abcdefg'[x]}{y + 1} {'abcdefg'[to[1]]}{to[0] + 1}")
        assert set(self.game.legal(before)) == jumps


class LampPlay(Played):
    game = GAMES[LightsOutGame]

    def moved(self, before, move, after):
        cells = {(divmod(k, before.size)) for k in range(before.size**2) if (before.lit ^ after.lit) >> k & 1}
        y, x = int(move[1:]) - 1, "abcdef".index(move[0])
        if before.pattern == "plus":
            assert cells == {(r, c) for r in range(5) for c in range(5) if abs(r - y) + abs(c - x) <= 1} & {
                (r, c) for r in range(before.size) for c in range(before.size)
            }
        assert fewest(*after).bit_count() in (fewest(*before).bit_count() - 1, fewest(*before).bit_count() + 1) or (
            before.pattern != "plus" or before.size != 3
        )


class FloodPlay(Played):
    game = GAMES[FloodIt]

    def sound(self, board):
        assert sum(mask.bit_count() for mask in board.masks) == board.size**2

    def moved(self, before, move, after):
        old, new = signs(before, self.game), signs(after, self.game)
        area, edge = {(0, 0)}, [(0, 0)]
        while edge:
            y, x = edge.pop()
            for cell in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                if cell not in area and old.get(cell) == old[0, 0]:
                    area.add(cell)
                    edge.append(cell)
        assert new == {cell: move[0] if cell in area else sign for cell, sign in old.items()}


class TrafficPlay(Played):
    game = GAMES[RushHour]

    def sound(self, board):
        sizes = Counter(sign for sign in signs(board, self.game).values() if sign != ".")
        assert sizes == {"abcdefghijklmno"[car]: shape.length for car, shape in enumerate(board.cars)}

    def moved(self, before, move, after):
        car, way, count = move.split()
        old, new = signs(before, self.game), signs(after, self.game)
        dy, dx = WAYS[way][0] * int(count), WAYS[way][1] * int(count)
        assert {cell for cell, sign in new.items() if sign == car} == {
            (y + dy, x + dx) for (y, x), sign in old.items() if sign == car
        }
        assert dict(self.others(old, car)) == dict(self.others(new, car))

    @staticmethod
    def others(shown, car):
        return [(cell, sign) for cell, sign in shown.items() if sign not in (car, ".")]


class DoorPlay(Played):
    game = GAMES[KeyDoor]

    def sound(self, board):
        sign = board.rows[board.at[0]][board.at[1]]
        assert sign != "#"
        assert sign not in "ABCD" or sign.lower() in board.keys

    def moved(self, before, move, after):
        assert set(before.keys) <= set(after.keys)
        y, x = before.at
        around = {way: before.rows[y + dy][x + dx] for way, (dy, dx) in WAYS.items()}
        free = [way for way, sign in around.items() if sign in ".Gabcd" or sign.lower() in before.keys]
        assert self.game.legal(before) == free


class FogPlay(Played):
    game = GAMES[FogMaze]

    def sound(self, board):
        assert board.rows[board.at[0]][board.at[1]] != "#"
        assert len(self.game.show(board).splitlines()[0]) == 3


class LakePlay(Played):
    game = FrozenLake(slippery=True)

    def moved(self, before, move, after):
        assert sum(abs(a - b) for a, b in zip(before.at, after.at, strict=True)) <= 1


class NimPlay(Played):
    game = GAMES[Nim]

    def moved(self, before, move, after):
        heap, count = "abcde".index(move[0]), int(move[2:])
        mine = [size - count * (place == heap) for place, size in enumerate(before.sizes)]
        changed = [a - b for a, b in zip(mine, after.sizes, strict=True) if a != b]
        assert len(changed) == (1 if any(mine) else 0)
        assert all(0 < taken <= (before.limit or 99) for taken in [*changed, count])


class TicTacToePlay(Played):
    game = GAMES[TicTacToe]

    def sound(self, board):
        assert board.mine & board.theirs == 0
        assert 0 <= board.mine.bit_count() - board.theirs.bit_count() <= 1


class ConnectFourPlay(Played):
    game = GAMES[ConnectFour]

    def sound(self, board):
        lines = [line.split() for line in self.game.show(board).splitlines()[:-1]]
        for column in zip(*lines, strict=True):
            assert "".join(column).lstrip(".").count(".") == 0, "a stone hangs in the air"
        count = Counter(sign for line in lines for sign in line)
        assert 0 <= count["X"] - count["O"] <= 1
        runs = []
        cells = {(y, x): sign for y, line in enumerate(lines) for x, sign in enumerate(line)}
        for y, x in cells:
            for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
                runs.append("".join(cells.get((y + k * dy, x + k * dx), " ") for k in range(4)))
        assert self.game.reached(board) == ("XXXX" in runs)
        assert self.game.failed(board).startswith("the opponent") == ("OOOO" in runs)


class JugPlay(Played):
    game = GAMES[WaterJugs]

    def sound(self, board):
        assert all(0 <= amount <= size for amount, size in zip(board.amounts, board.sizes, strict=True))
        assert board.tap or sum(board.amounts) == sum(self.start.amounts)


class SortPlay(Played):
    game = GAMES[WaterSort]

    def sound(self, board):
        assert sorted(unit for tube in board.tubes for unit in tube) == sorted(
            unit for tube in self.start.tubes for unit in tube
        )
        assert all(len(tube) <= board.height for tube in board.tubes)
        alone = all(len({*tube}) == 1 and len(tube) == board.height for tube in board.tubes if tube)
        assert self.game.reached(board) == alone

    def moved(self, before, move, after):
        """Pours unit by unit, as the words of the game say."""
        poured = {}
        for source, target in permutations(range(len(before.tubes)), 2):
            tubes = [[*tube] for tube in before.tubes]
            one, other = tubes[source], tubes[target]
            colour = one[-1] if one else None
            if not other or other[-1] == colour:
                while one and one[-1] == colour and len(other) < before.height:
                    other.append(one.pop())
            if one != [*before.tubes[source]]:
                poured[f"{source + 1} {target + 1}"] = tuple(map(tuple, tubes))
        assert set(self.game.legal(before)) == {*poured}
        assert after.tubes == poured[move]


class TetrisPlay(Played):
    game = GAMES[Tetris]

    def sound(self, board):
        full = 2**board.width - 1
        assert len(board.rows) <= board.height
        assert all(0 < row < full for row in board.rows)
        cells = sum(row.bit_count() for row in board.rows) + board.width * (self.start.left - board.left)
        fallen = len(self.start.pieces) - len(board.pieces)
        assert cells == sum(row.bit_count() for row in self.start.rows) + 4 * fallen

    def moved(self, before, move, after):
        """Turns the picture of a piece and lets its cells fall one by one over a set of filled cells."""
        filled = {(y, x) for y, row in enumerate(before.rows) for x in range(before.width) if row >> x & 1}
        shapes, picture = [], DRAWN[before.pieces[0]]
        for _ in range(4):
            cells = {
                (len(picture) - 1 - y, x) for y, row in enumerate(picture) for x, sign in enumerate(row) if sign == "#"
            }
            shapes += [cells] if cells not in shapes else []
            picture = ["".join(row[x] for row in reversed(picture)) for x in range(len(picture[0]))]
        wells = {}
        for number, shape in enumerate(shapes, 1):
            for left in range(before.width - max(x for _, x in shape)):
                at = 30
                while at and not any((at - 1 + y, left + x) in filled for y, x in shape):
                    at -= 1
                now = filled | {(at + y, left + x) for y, x in shape}
                if max(y for y, _ in now) < before.height:
                    lines = [{x for y, x in now if y == level} for level in range(before.height)]
                    kept = [sum(1 << x for x in line) for line in lines if 0 < len(line) < before.width]
                    wells[f"{number} {'abcdefghij'[left]}"] = tuple(kept)
        assert set(self.game.legal(before)) == {*wells}
        assert after.rows == wells[move]
        assert before.pieces[1:] == after.pieces


class RiverPlay(Played):
    game = GAMES[RiverCrossing]

    def sound(self, board):
        lonely = ~board.here if board.near else board.here
        assert not any(lonely >> one & lonely >> other & 1 for one, other in board.quarrels)

    def moved(self, before, move, after):
        assert after.near is not before.near
        assert (before.here ^ after.here).bit_count() <= before.room


class SnakePlay(Played):
    game = GAMES[Snake]

    def moved(self, before, move, after):
        assert len(after.body) == len(before.body) + (after.left < before.left)
        if not self.over:
            assert len(set(after.body)) == len(after.body)
            assert after.apple not in after.body
            for one, other in pairwise(divmod(cell, after.size) for cell in after.body):
                assert abs(one[0] - other[0]) + abs(one[1] - other[1]) == 1


class LadderPlay(Played):
    game = GAMES[WordLadder]

    def moved(self, before, move, after):
        assert sum(a != b for a, b in zip(before.word, after.word, strict=True)) == 1


class TaxiPlay(Played):
    game = GAMES[Taxi]

    def sound(self, board):
        assert 0 <= board.fuel <= board.tank
        assert not board.walls >> board.at & 1
        assert board.stage.count(1) <= 1

    def moved(self, before, move, after):
        assert before.fuel - after.fuel == (1 if move in WAYS else 0) or move == "fill"
        assert after.at == before.at or move in WAYS


for machine in Played.__subclasses__():
    machine.TestCase.settings = settings(max_examples=12, stateful_step_count=15)
    globals()[f"Test{machine.__name__}"] = machine.TestCase


# experts and generators


@pytest.mark.slow
@pytest.mark.parametrize("game", SURE, ids=NAMES)
def test_the_expert_wins_on_every_level(game):
    for level in range(1, 6):
        env = TextEnv(game, level=level)
        for seed in range(12):
            env.reset(seed=seed)
            over = False
            while not over:
                _, reward, terminated, truncated, _ = env.step(env.solve())
                over = terminated or truncated
            assert (reward, terminated) == (1.0, True), (level, seed)


@pytest.mark.slow
@pytest.mark.parametrize("game", SURE, ids=NAMES)
def test_the_expert_recovers_from_a_first_move_that_can_be_taken_back(game):
    if isinstance(game, (PegJump, Nim, TicTacToe, ConnectFour, FloodIt, Snake, Tetris)):
        pytest.skip("a move cannot be taken back")
    env = TextEnv(game, level=2)
    for seed in range(6):
        env.reset(seed=seed)
        board = env.get_state().state.board
        for move in game.legal(board):
            then = game.after(board, move)
            if then == board or game.failed(then) or game.reached(then):
                continue
            if isinstance(game, SlidingPuzzle) or solved_by_breadth(game, then, 60_000) is not None:
                env.step(f"\\boxed{{{move}}}")
                break
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.solve())
            over = terminated or truncated
        assert reward == 1.0, seed


def solved_by_breadth(game: BoardGame, start, most: int) -> int | None:
    """The fewest moves to the goal, by trying everything."""
    far = {start: 0}
    queue = deque([start])
    while queue and len(far) < most:
        board = queue.popleft()
        if game.reached(board):
            return far[board]
        for move in game.legal(board):
            then = game.after(board, move)
            if then not in far and not game.failed(then):
                far[then] = far[board] + 1
                queue.append(then)
    return None


EXACT = [HanoiGame, PegJump, RushHour, FrozenLake, KeyDoor, WaterJugs, RiverCrossing, LightsOutGame, WordLadder, Taxi]


@pytest.mark.parametrize("kind", [Sokoban, *EXACT], ids=lambda kind: kind.__name__)
def test_generated_tasks_can_be_solved_and_not_in_one_move(kind):
    game = GAMES[kind]
    for seed in range(6):
        fewest_moves = solved_by_breadth(game, dealt(game, seed, 1), 60_000)
        assert fewest_moves is not None
        assert 2 <= fewest_moves <= game.turns(1)


@pytest.mark.parametrize("kind", EXACT, ids=lambda kind: kind.__name__)
def test_experts_that_search_waste_no_move(kind):
    game = GAMES[kind]
    for seed in range(4):
        state = game.start(random.Random(seed), 1)
        count = 0
        over = False
        while not over:
            state, _, over, _ = game.apply(state, game.solve(state))
            count += 1
        assert count == solved_by_breadth(game, state.first, 60_000)


@pytest.mark.parametrize(("level", "moves"), [(1, (2, 3)), (2, (4,)), (3, (5,)), (4, (6, 7)), (5, range(8, 41))])
def test_a_traffic_jam_needs_as_many_moves_as_its_level_says(level, moves):
    game = GAMES[RushHour]
    for seed in range(3):
        fewest_moves = solved_by_breadth(game, dealt(game, seed, level), 60_000)
        assert fewest_moves in moves
        assert fewest_moves <= game.turns(level)


@pytest.mark.parametrize(("level", "moves"), [(1, {2, 3}), (2, {4})])
def test_a_jam_made_with_its_plan_has_no_shorter_solution(level, moves):
    game, found = GAMES[RushHour], set()
    for seed in range(60):
        board = dealt(game, seed, level)
        assert len({cell for cell, sign in signs(board, game).items() if sign != "."}) == sum(
            car.length for car in board.cars
        ), "no two cars cover one cell"
        found.add(len(shortest(board.at, lambda at, cars=board.cars: drives(cars, at), lambda at: at[0] == 4)))
    assert found == moves


def test_jams_are_drawn_from_all_over_an_arrangements_space():
    """Neither the cars nor where they stand are few: hardly two jams are alike, and no cell is always taken."""
    game = GAMES[RushHour]
    boards = [game.show(dealt(game, seed, 2)) for seed in range(150)]
    assert len({*boards}) > 145
    taken = Counter(cell for board in boards for cell, sign in enumerate(board.replace("\n", "")) if sign == ".")
    assert all(10 < count < 150 for count in taken.values())
    assert len(taken) == 36


@pytest.mark.parametrize("seed", range(12))
def test_arrangements_by_their_moves_from_the_exit_are_those_of_a_plain_search(seed):
    """Beside a search that looks at one jam after the other, and at every arrangement for its first layer."""
    crowd = draw_crowd(random.Random(seed), 3_000)
    jams = {number: crowd.jam(number) for number in range(prod(crowd.counts))}
    covered = sum(car.length for car in crowd.cars)
    legal = {jam.at: number for number, jam in jams.items() if filled(jam).bit_count() == covered}
    layer = {at for at in legal if at[0] == SIZE - 2}
    met, layers = set[tuple[int, ...]](), []
    while layer:
        layers.append(sum(1 << legal[at] for at in layer))
        met |= layer
        layer = {to for at in layer for _, to in drives(crowd.cars, at)} - met
    assert crowd.legal() == sum(1 << number for number in legal.values())
    assert crowd.layers(1_000) == layers
    assert crowd.layers(2) == layers[:3]


def test_members_of_a_set_are_drawn_alike():
    members = (1 << 3) | (1 << 4) | (1 << 60) | (1 << 1_000)
    rng = random.Random(1)
    counts = Counter(random_bit(rng, members) for _ in range(4_000))
    assert set(counts) == {3, 4, 60, 1_000}
    assert all(900 < count < 1_100 for count in counts.values())


def test_a_search_follows_a_shortest_way_and_says_when_there_is_none():
    def neighbours(node):
        return [(f"{node}{by:+}", node + by) for by in (1, -2, 5) if -9 <= node + by <= 30]

    for goal in range(-9, 31):
        ways = [shortest(0, neighbours, lambda node, goal=goal: node == goal)]
        ways.append(cheapest(0, neighbours, lambda node, goal=goal: -(-abs(goal - node) // 5)))
        assert len(ways[0]) == len(ways[1]) == distances_by_hand(goal, neighbours)
    assert shortest(0, neighbours, lambda node: node == 31) is None
    assert cheapest(0, neighbours, lambda node: 1 + abs(31 - node), limit=50) is None
    assert distances([0], lambda node: [(node + 1) % 5, (node - 1) % 5]) == {0: 0, 1: 1, 4: 1, 2: 2, 3: 2}


def distances_by_hand(goal, neighbours):
    layer, count = {0}, 0
    while goal not in layer:
        layer |= {other for node in layer for _, other in neighbours(node)}
        count += 1
    return count


# single facts


def test_every_sliding_stage_can_reach_its_home_from_everywhere():
    for height, width in ((3, 3), (3, 4), (4, 4)):
        free = height * width
        for tiles, table in stages(height, width):
            count = 1
            for taken in range(len(tiles) + 1):
                count *= free - taken
            last = free == 4
            assert len(table) == (count // 2 if last else count), "the last four cells: half of the orders"
            free -= len(tiles)


@pytest.mark.parametrize(
    ("row", "after"),
    [
        ((1, 1, 1, 1), (2, 2, 0, 0)),
        ((0, 1, 0, 1), (2, 0, 0, 0)),
        ((1, 1, 2, 0), (2, 2, 0, 0)),
        ((3, 0, 2, 2), (3, 3, 0, 0)),
    ],
)
def test_tiles_merge_once_a_move(row, after):
    assert merged(row) == after


def test_the_english_cross_has_33_holes_and_a_triangle_of_side_5_has_15():
    assert (len(holes("cross")), len(holes("triangle 5"))) == (33, 15)


def test_lost_heaps_are_those_from_which_every_move_leads_to_a_won_one():
    for most, misere in ((0, False), (3, False), (0, True)):
        won = {}
        for sizes in sorted(((a, b, c) for a in range(5) for b in range(5) for c in range(5)), key=sum):
            moves = [
                (*sizes[:k], sizes[k] - n, *sizes[k + 1 :])
                for k in range(3)
                for n in range(1, min(sizes[k], most or 9) + 1)
            ]
            won[sizes] = any(not won[after] for after in moves) if moves else misere
            assert losing(sizes, most, misere) == (not won[sizes]), (sizes, most, misere)


def test_lamps_pressed_as_the_solution_says_go_out():
    for seed in range(20):
        for level in range(1, 6):
            size, pattern, lit = dealt(GAMES[LightsOutGame], seed, level)
            for cell in range(size * size):
                if fewest(size, pattern, lit) >> cell & 1:
                    lit ^= presses(size, pattern)[cell]
    assert lit == 0


def test_the_fog_hides_all_but_the_cells_around():
    game = GAMES[FogMaze]
    board = dealt(game, 3, 4)
    others = [dealt(game, seed, 4) for seed in range(400)]
    y, x = board.at
    alike = [
        other
        for other in others
        if other.at == board.at and other.rows[y][x - 1 : x + 2] == board.rows[y][x - 1 : x + 2]
    ]
    pictures = {game.show(other) for other in alike}
    assert len({other.rows for other in alike}) > len(pictures)


def test_ice_slips_as_often_as_it_says():
    game = FrozenLake(slippery=True)
    board = dealt(game, 1, 5)._replace(rows=("........",) * 8, at=(4, 4))
    slips = Counter(game.after(board._replace(turn=turn), "up").at for turn in range(2_000))
    assert set(slips) == {(3, 4), (4, 3), (4, 5)}
    assert 1_500 < slips[3, 4] < 1_700
    with pytest.raises(TypeError, match="slippery must be True or False"):
        FrozenLake(slippery="very")


def test_doors_need_their_keys():
    """With all keys taken away no goal can be reached."""
    game = GAMES[KeyDoor]
    for seed in range(10):
        board = dealt(game, seed, 3)
        bare = board._replace(rows=tuple(row.translate({ord(key): "." for key in "abcd"}) for row in board.rows))
        assert solved_by_breadth(game, board, 60_000) is not None
        assert solved_by_breadth(game, bare, 60_000) is None


def test_the_snakes_cycle_is_one():
    for size in (4, 6, 8):
        order = cycle(size)
        assert sorted(order) == list(range(size * size))
        for one, other in pairwise([*order, order[0]]):
            assert abs(one // size - other // size) + abs(one % size - other % size) == 1


def test_ladders_go_both_ways_over_at_least_500_words():
    near = steps()
    assert len(near) >= 500
    assert all(word in near[other] for word in near for other in near[word])
    assert all(len(word) == 4 and word.isascii() and word.islower() for word in near)


def test_the_classic_crossing_takes_seven_trips():
    game = GAMES[RiverCrossing]
    board = dealt(game, 0, 1)._replace(names=("cabbage", "goat", "wolf"), quarrels=((0, 1), (1, 2)), room=1, here=7)
    assert len(game.search(board)) == 7
    assert game.legal(board) == ["goat"]


def test_the_classic_jugs_measure_four_litres_in_six_moves():
    game = GAMES[WaterJugs]
    board = dealt(game, 0, 1)._replace(sizes=(5, 3), amounts=(0, 0), target=4)
    assert len(game.search(board)) == 6
    assert all(a != b for a, b in pairwise(game.search(board)))


def test_a_board_of_2048_that_begins_a_task_of_one_split_begins_none_of_another():
    """Small boards come again with other tiles to follow: what is learnt on one is not tested on it."""
    env = gym.make("rlvr/Game2048-v0").unwrapped
    boards = {
        split: {env.reset(seed=1, options={"split": split, "index": index})[0] for index in range(200)}
        for split in ("train", "validation", "test")
    }
    assert all(len(some) > 50 for some in boards.values())
    assert not boards["train"] & boards["test"]
    assert not boards["train"] & boards["validation"]


def test_a_rack_with_other_colours_is_the_same_task():
    game = GAMES[WaterSort]
    board = dealt(game, 1, 3)
    assert game.identity(board._replace(names=board.names[::-1])) == game.identity(board)
    other = board._replace(tubes=tuple(tuple(len(board.names) - 1 - unit for unit in tube) for tube in board.tubes))
    assert game.identity(other) == game.identity(board)
    assert len({game.identity(dealt(game, seed, 1)) for seed in range(200)}) == 200
