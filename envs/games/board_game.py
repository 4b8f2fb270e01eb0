"""What the games on boards share: the frame of a game whose moves can be listed, and two searches for experts.

A game is a pure description of its board: how one is dealt, which moves are legal, what each leads to, when the goal
is reached. Replies, feedback and the count of turns are the frame's.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rlvr.envs.core.verdict import Verdict, wrong
from rlvr.envs.games.common import PLAYED, Game, Step, boxed, go_on, lost, won

MOST_LISTED = 60  # legal moves that feedback names
WAYS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
SHORT = {"u": "up", "d": "down", "l": "left", "r": "right"}

B = TypeVar("B", bound=Hashable)
N = TypeVar("N", bound=Hashable)
Neighbours = Callable[[N], Iterable[tuple[str, N]]]


class BoardState(NamedTuple):
    """A game under way: its board, the board it began with, turns allowed and used, and the last feedback."""

    board: Any
    first: Any
    limit: int
    turn: int = 0
    message: str = ""


class BoardGame(Game[BoardState], Generic[B]):
    """A game with one board, all of which can be seen, and moves that can be listed.

    A subclass writes ``deal``, ``guide``, ``show``, ``legal``, ``after``, ``reached`` and ``best``; ``failed`` where
    the game can be lost before the turns are used up, ``comment`` where a move has a consequence that the board does
    not show.
    """

    nouns: ClassVar[Collection[str]] = ("one", "step", "cell", "square", "direction")
    move_form: ClassVar[str] = "A move is up, down, left or right."

    def deal(self, rng: random.Random, level: int) -> B:
        """The board that a game begins with, drawn from ``rng`` alone."""
        raise NotImplementedError

    def guide(self, board: B) -> str:
        """The rules and the goal; the form of a move, the board and the number of turns are added."""
        raise NotImplementedError

    def show(self, board: B) -> str:
        """All that the player may see of the board."""
        raise NotImplementedError

    def legal(self, board: B) -> Sequence[str]:
        """Every legal move, in one order."""
        raise NotImplementedError

    def is_legal(self, board: B, move: str) -> bool:
        """Whether a move is one of ``legal``; written anew where that is known without listing all."""
        return move in self.legal(board)

    def after(self, board: B, move: str) -> B:
        """The board after a legal move, and after what answers it."""
        raise NotImplementedError

    def reached(self, board: B) -> bool:
        """Whether the goal is reached."""
        raise NotImplementedError

    def failed(self, board: B) -> str:
        """Why the game is lost; empty while it is not."""
        return ""

    def comment(self, before: B, move: str, after: B) -> str:
        """What else the player is told after a legal move."""
        return ""

    def best(self, board: B) -> str:
        """The expert's move; any legal one where nothing helps any more."""
        raise NotImplementedError

    def identity(self, board: B) -> str:
        """What makes a first board this one."""
        return self.show(board)

    def named(self, move: str) -> str:
        """The spelling of a move in ``legal``: without commas and brackets around parts; ``u`` is ``up``, and so on."""
        name = " ".join(move.strip("()[]").replace(",", " ").split())
        return SHORT.get(name, name) if "up, down, left" in self.move_form else name

    # the frame

    def start(self, rng: random.Random, level: int) -> BoardState:
        """Deals a board and keeps it as ``first``, which the content is taken from."""
        board = self.deal(rng, level)
        return BoardState(board, board, self.turns(level))

    def content(self, state: BoardState) -> str:
        """``identity`` of the first board; moves do not change which task it is."""
        return self.identity(state.first)

    def rules(self, state: BoardState) -> str:
        """The guide, the form of a move, the turns and the board; legal moves are not listed."""
        allowed = f"You have {state.limit} turns; a reply that is no legal move uses one as well."
        return f"{self.guide(state.board)}\n{self.form(state.board)} {allowed}\n\n{self.show(state.board)}"

    def reminder(self, state: BoardState) -> str:
        """The class's ``move_form``, without the legal moves."""
        return self.form(state.board)

    def form(self, board: B) -> str:
        """What a move looks like on this board."""
        return self.move_form

    def observe(self, state: BoardState) -> str:
        """After the first turn: what the last move led to, the board, and the turns left."""
        if not state.turn:
            return self.rules(state)
        board, _, limit, turn, message = state
        shown = f"{self.show(board)}\nTurns left: {limit - turn}."
        return f"{message}\n{shown}" if message else shown

    def play(self, state: BoardState, move: str) -> Step[BoardState]:
        """An illegal move changes nothing and is answered with up to 60 legal ones; the goal counts before a loss."""
        board, name = state.board, self.named(move)
        if not self.is_legal(board, name):
            refusal = self.refusal(board, move, self.legal(board))
            return go_on(state, refusal, Verdict(0.0, "unparsable", reason="not a legal move"))
        after = self.after(board, name)
        if self.reached(after):
            return won(state, reason="the goal is reached", board=after)
        if fault := self.failed(after):
            return lost(state, fault, board=after)
        _, first, limit, turn, _ = state
        return BoardState(after, first, limit, turn + 1, self.comment(board, name, after)), PLAYED, False, "user"

    def refusal(self, board: B, move: str, legal: Sequence[str]) -> str:
        """What the player reads after an illegal move: the form of a move, and the legal ones."""
        names = ", ".join(legal[:MOST_LISTED]) + (", ..." if len(legal) > MOST_LISTED else "")
        return f"{move[:40]!r} is not a legal move. {self.form(board)} Legal now: {names or 'nothing'}."

    def solve(self, state: BoardState) -> str:
        """``best`` on the present board: the expert may join at any point."""
        return boxed(self.best(state.board))

    def legal_actions(self, state: BoardState) -> list[str]:
        """The moves of ``legal``, boxed."""
        return [boxed(move) for move in self.legal(state.board)]

    def sample_action(self, state: BoardState, rng: random.Random) -> str:
        """One of the legal moves, each with the same chance."""
        return boxed(rng.choice(self.legal(state.board)))

    def out_of_turns(self, state: BoardState, turns: int) -> Verdict:
        """Wrong: a board near the goal is paid as little as any other."""
        return wrong(reason=f"the goal was not reached in {turns} turns")


class SearchedGame(BoardGame[B]):
    """A game whose expert searches: ``search`` gives a whole solution, which is followed while it is kept to.

    Off that road the expert searches again for each move. Shortest solutions make that safe: each move of one leaves
    a shorter way.
    """

    def search(self, board: B) -> Sequence[str] | None:
        """Moves that reach the goal, as few as there can be; None when it is out of reach."""
        raise NotImplementedError

    def solve(self, state: BoardState) -> str:
        """The next move of the solution from the first board, searched once; off it, ``best`` searches again."""
        solution_moves = _solution_moves(self, state.first)
        return boxed(solution_moves[state.board] if state.board in solution_moves else self.best(state.board))

    def best(self, board: B) -> str:
        """The first move of a new solution; the first legal move where there is none."""
        return next(iter(self.search(board) or ()), "") or self.legal(board)[0]


@lru_cache(maxsize=512)
def _solution_moves(game: SearchedGame[Any], first: Hashable) -> dict[Hashable, str]:
    """What the expert does on each board of its solution from the first one."""
    solution_moves: dict[Hashable, str] = {}
    board = first
    for move in game.search(first) or ():
        solution_moves[board] = move
        board = game.after(board, move)
    return solution_moves


def shortest(start: N, neighbours: Neighbours[N], reached: Callable[[N], bool], limit: int = 10**9) -> list[str] | None:
    """The moves of a shortest way, breadth first; None when there is none among the first ``limit`` positions."""
    if reached(start):
        return []
    came: dict[N, tuple[N, str] | None] = {start: None}
    queue = deque([start])
    while queue and len(came) <= limit:
        node = queue.popleft()
        for move, other in neighbours(node):
            if other not in came:
                came[other] = (node, move)
                if reached(other):
                    return _way(came, other)
                queue.append(other)
    return None


def cheapest(start: N, neighbours: Neighbours[N], bound: Callable[[N], int], limit: int = 10**9) -> list[str] | None:
    """The moves of a shortest way, by A*; None when there is none among the first ``limit`` positions.

    Args:
        start: where to begin.
        neighbours: the moves from a position, and where each leads; a move costs 1.
        bound: a lower bound on the moves still needed: 0 at the goal and only there.
        limit: how many positions to look at.
    """
    came: dict[N, tuple[N, str] | None] = {start: None}
    cost = {start: 0}
    count = 0  # ties: the position found last, which is mostly the nearest to the goal
    heap = [(bound(start), 0, start)]
    done: set[N] = set()
    while heap and len(done) <= limit:
        estimate, _, node = heapq.heappop(heap)
        if node in done:
            continue
        done.add(node)
        so_far = cost[node]
        if estimate == so_far:
            return _way(came, node)
        for move, other in neighbours(node):
            if other not in cost or cost[other] > so_far + 1:
                cost[other] = so_far + 1
                came[other] = (node, move)
                count -= 1
                heapq.heappush(heap, (so_far + 1 + bound(other), count, other))
    return None


def distances(goals: Iterable[N], neighbours: Callable[[N], Iterable[N]]) -> dict[N, int]:
    """How many moves each position is from the nearest goal, for moves that can be taken back."""
    far = dict.fromkeys(goals, 0)
    queue = deque(far)
    while queue:
        node = queue.popleft()
        for other in neighbours(node):
            if other not in far:
                far[other] = far[node] + 1
                queue.append(other)
    return far


def _way(came: dict[N, tuple[N, str] | None], node: N) -> list[str]:
    moves = []
    while (step := came[node]) is not None:
        node, move = step
        moves.append(move)
    return moves[::-1]
