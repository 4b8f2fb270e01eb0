"""SeatGame: a pure description of a game of several seats, and Referee: the rules of playing one in text.

A state holds all of the game, hidden cards too. A seat is shown ``show(view(state, seat), seat)``: the view lacks what
the seat may not know, so that no text can tell it. Chance is a seat of its own, ``CHANCE``, as in OpenSpiel, and each
of its draws comes from a stream keyed by the seed of the match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from rlvr.envs.core.seeding import stream
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.dressing import MAX_MOVE_CHARS, plainer_moves

CHANCE: Final = -1
TRIES: Final = 3  # illegal moves of one seat in one game; the last of them forfeits it
MOST_LISTED: Final = 60  # legal moves that a text names
ILLEGAL: Final = "That is not a legal move."
SYSTEM: Final = "Play the game. Reply with your move in \\boxed{}, or with the move alone."
MOST_SPELLED: Final = 100_000  # characters of a text that a game may rewrite
COLUMNS: Final = "abcdefghijklmnopqrstuvwxyz"
_BOX: Final = re.compile(r"\s*\\boxed\{([^{}\\]{0,200})\}\s*")

S = TypeVar("S")


class SeatGame(Generic[S]):
    """The rules of a game. No method may touch global randomness, files, clocks or the network.

    Attributes:
        title: the game's name for people.
        seats: how many there are; they count from 0.
        decisions: an upper bound of the moves of one seat in one game.
        first_state: the state before the first move or draw; settings that decide it need ``start``.
        lowest, highest: bounds of one seat's return.
        zero_sum: whether the returns of all seats add up to 0.
        spared: the return of the others where a seat forfeits a game that is not zero-sum.
        perfect_information: whether every seat may know all of the state.
        in_turn: whether one seat moves at a time; searching players need it and perfect information.
        has_expert: whether ``expert`` knows a move.
        lists_all: whether ``legal`` lists every legal move; False where these are too many, and it gives examples.
        version: counts changes after which earlier matches can no longer be compared with new ones.
        nouns: words that a move may have besides, without another meaning.
        opening: random moves of both sides before a single-agent task begins, fewest and most.
        level_bots: the bots of all other seats on each level, where those of other games make a constant move good or
            there are not three levels.
        default_rounds: how often a single-agent task plays the game, where luck decides one round.
        reward: what a single-agent task pays by default: ``outcome``, ``payoff`` or ``expected``.
        stake: the return of a round that counts as all: given away (``move_values``) it leaves no reward.
        swing: the mean return of a round, up or down, that pays 1 or 0 over several rounds; None: the bounds.
    """

    title: str = ""
    seats: int = 2
    decisions: int
    first_state: Any = None
    lowest: float = -1.0
    highest: float = 1.0
    zero_sum: bool = True
    spared: float = 0.0
    perfect_information: bool = True
    in_turn: bool = True
    has_expert: bool = True
    lists_all: bool = True
    version: int = 1
    nouns: ClassVar[Sequence[str]] = ("cell", "square", "column", "at", "in")
    opening: ClassVar[tuple[int, int]] = (0, 0)
    level_bots: ClassVar[tuple[str, ...]] = ()
    default_rounds: int = 1
    reward: str = "outcome"
    stake: float = 1.0
    swing: float | None = None

    @property
    def name(self) -> str:
        """What streams of chance are keyed by."""
        return type(self).__name__

    @cached_property
    def teams(self) -> tuple[int, ...]:
        """The team of each seat."""
        return tuple(range(self.seats))

    def rules(self) -> str:
        """The rules, the form of a move and what is won, in whole sentences."""
        raise NotImplementedError

    def start(self) -> S:
        """The state before the first move or draw."""
        state: S = self.first_state
        return state

    def on_level(self, level: int) -> SeatGame[S]:
        """The game that a task of a level begins, where the levels differ in more than bots: this one plays it on."""
        return self

    def actors(self, state: S) -> tuple[int, ...]:
        """Who moves now: one seat, several that move at once, ``(CHANCE,)``, or nobody when the game is over."""
        raise NotImplementedError

    def chance(self, state: S) -> Sequence[tuple[str, float]]:
        """What chance may draw and the probability of each; only asked when ``CHANCE`` moves."""
        raise NotImplementedError(f"{self.name} has no chance")

    def legal(self, state: S, seat: int) -> Sequence[str]:
        """Every legal move of a seat that moves now, or examples, in one order; small letters, single blanks."""
        raise NotImplementedError

    def apply(self, state: S, seat: int, move: str) -> S:
        """The state after a legal move or a draw of chance."""
        raise NotImplementedError

    def apply_all(self, state: S, moves: Mapping[int, str]) -> S:
        """The state after the legal moves of seats that move at once."""
        ((seat, move),) = moves.items()
        return self.apply(state, seat, move)

    def can_end(self, state: S, seat: int) -> bool:
        """Whether a legal move of the seat that moves ends the game."""
        return any(not self.actors(self.apply(state, seat, move)) for move in self.legal(state, seat))

    def returns(self, state: S) -> tuple[float, ...]:
        """What each seat has won; asked when the game is over."""
        raise NotImplementedError

    def view(self, state: S, seat: int) -> Any:
        """The state without what a seat may not know. The seat's legal moves can be read from it."""
        return state

    def show(self, view: Any, seat: int) -> str:
        """What a seat reads of its view."""
        raise NotImplementedError

    def witnesses(self, state: S, actor: int) -> Sequence[int]:
        """The seats that learn which move or draw this actor makes; it may be fewer than all where that is secret."""
        return range(self.seats)

    def spelled(self, text: str) -> str:
        """A text before its letters are made small; written anew where a capital letter has a meaning."""
        return text

    def parse(self, view: Any, seat: int, words: str) -> str:
        """The spelling in ``legal`` of what a seat wrote, such as ``b2`` for ``(b, 2)``; any text may come."""
        return " ".join(words.strip("()[]").replace(",", " ").split())

    def foul(self, view: Any, seat: int, text: str) -> str:
        """The move that a text counts as which names no legal one but breaks a rule of the game; empty for none."""
        return ""

    def is_legal(self, state: S, seat: int, move: str) -> bool:
        """Whether a move is legal; written anew where that is known without listing all, or not all are listed."""
        return move in self.legal(state, seat)

    def expert(self, view: Any, seat: int, rng: Any) -> str:
        """A strong move; it depends on the view alone.

        Raises:
            NotImplementedError: none is known; searching players still play games of perfect information.
        """
        raise NotImplementedError(f"{self.name} has no expert")

    def expert_odds(self, view: Any, seat: int) -> Mapping[str, float]:
        """The probability of each move that ``expert`` may choose.

        Raises:
            NotImplementedError: it is not known.
        """
        raise NotImplementedError(f"{self.name} does not know the odds of its expert")

    def move_values(self, view: Any, seat: int, opponents: tuple[str, ...]) -> Mapping[str, float] | None:
        """The expected return of each legal move to a seat that plays on as well as it can, or None if not computed.

        Args:
            view: of the seat, which moves.
            seat: whose return it is.
            opponents: the bot of each seat; that of the own seat is not read.
        """
        return None

    def habits(self, level: int) -> Sequence[str]:
        """The habits of the other seat on a level, one of which it keeps to; none: the level's bots play it."""
        return ()

    def habitual(self, habit: str, view: Any, seat: int, past: Sequence[Any] = ()) -> str:
        """The move that a habit makes; ``past`` has the views of the rounds before.

        Raises:
            NotImplementedError: the game knows no habits.
        """
        raise NotImplementedError(f"{self.name} has no habits")

    def answer_to_habits(self, view: Any, seat: int, rng: Any, past: Sequence[Any] = ()) -> str:
        """A strong move against a seat that keeps to one habit of those that there are, not known which."""
        raise NotImplementedError(f"{self.name} has no habits")

    def payoff_against(self, habit: str, returns: Sequence[float], seat: int) -> float:
        """Where the own return lies between the lowest and the highest that can be had against a habit, 0 to 1."""
        return self.payoff(returns, seat)

    def effort(self, view: Any, seat: int) -> int:
        """How many steps lead to a good move; a ``mixed`` bot errs in each of them."""
        return 1

    def relies_on(self, seat: int) -> Sequence[int]:
        """The other seats without whose good play a seat wins nothing: bots play them as they play its mates."""
        teams = self.teams
        return [other for other, team in enumerate(teams) if team == teams[seat] and other != seat]

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        """The share of a success that returns are to a seat: 1 better than every other team, 0.5 equal to the best."""
        mine = self.teams[seat]
        others = [value for other, value in enumerate(returns) if self.teams[other] != mine]
        best = max(others, default=self.lowest)
        return 1.0 if returns[seat] > best else 0.5 if returns[seat] == best else 0.0

    def payoff(self, returns: Sequence[float], seat: int) -> float:
        """Where the own return lies between the lowest and the highest that there is, 0 to 1."""
        return (returns[seat] - self.lowest) / (self.highest - self.lowest)

    def teams_in(self, state: S) -> tuple[int, ...]:
        """The team of each seat in a state; another than ``teams`` where chance decides and seats may not know."""
        return self.teams

    def forfeited(self, seat: int, state: S) -> tuple[float, ...]:
        """The returns where a seat breaks off the game: the worst for its team; what that is worth for the others."""
        teams = self.teams_in(state)
        team = teams[seat]
        losers = sum(other == team for other in teams)
        gain = self.spared
        if self.zero_sum and losers < self.seats:
            gain = -self.lowest * losers / (self.seats - losers)
        return tuple(self.lowest if other == team else min(gain, self.highest) for other in teams)


class Event(NamedTuple):
    """A move or a draw that was played. ``seen_by`` has one bit for each seat that learns what it was."""

    actor: int
    move: str
    seen_by: int


class Match(NamedTuple):
    """A game under way: immutable and picklable, so that it can be kept, restored and continued twice.

    Attributes:
        key: what chance is keyed by.
        state: all of the game.
        draws: how many draws chance has made.
        pending: moves of seats that move at once and whose turn is not complete, which no other seat sees.
        faults: illegal moves of each seat so far.
        log: all moves and draws that were played.
        loser: the seat that forfeited, or -1.
    """

    key: str
    state: Any
    draws: int = 0
    pending: tuple[tuple[int, str], ...] = ()
    faults: tuple[int, ...] = ()
    log: tuple[Event, ...] = ()
    loser: int = -1


class IllegalText(ValueError):
    """A text that is no legal move; the message is for the seat and names what is legal."""


class NotThisSeat(ValueError):
    """A move of a seat that does not move now, or that does not exist."""


class Referee:
    """Plays a game in text. It holds settings alone; all that changes is in the `Match`.

    Args:
        game: the rules.
        tries: how many illegal moves a seat may make in one game; the last of them forfeits it.

    Raises:
        ValueError: fewer than one try.
    """

    def __init__(self, game: SeatGame[Any], tries: int = TRIES) -> None:
        if tries < 1:
            raise ValueError(f"tries must be at least 1, got {tries}")
        self.game, self.tries = game, tries
        self._all = (1 << game.seats) - 1

    def begin(self, key: object) -> Match:
        """A new match, played until a seat must move. Equal keys draw the same chance on every machine."""
        return self._settled(Match(str(key), self.game.start(), faults=(0,) * self.game.seats))

    def to_move(self, match: Match) -> tuple[int, ...]:
        """The seats that must move now; none when the match is over."""
        if match.loser >= 0:
            return ()
        actors = self.game.actors(match.state)
        if not match.pending:
            return actors
        moved = {seat for seat, _ in match.pending}
        return tuple(seat for seat in actors if seat not in moved)

    def legal(self, match: Match, seat: int) -> Sequence[str]:
        """The legal moves of a seat that moves now."""
        self._check_seat(match, seat)
        return self.game.legal(match.state, seat)

    def read(self, match: Match, seat: int, text: str) -> str:
        """The legal move that a text names.

        Raises:
            IllegalText: it names none.
        """
        game = self.game
        view = game.view(match.state, seat)
        if len(text) <= MOST_SPELLED:
            text = game.spelled(text)
        box = _BOX.fullmatch(text) if len(text) <= 2 * MAX_MOVE_CHARS else None
        words = box[1] if box else text if len(text) <= 100 else ""
        if words and words.isascii() and "<" not in words and "\\" not in words:
            move = game.parse(view, seat, " ".join(words.lower().split()))
            if game.is_legal(match.state, seat, move):
                return move
        for words in plainer_moves(text, (), game.nouns):
            move = game.parse(view, seat, words)
            if game.is_legal(match.state, seat, move):
                return move
        if foul := game.foul(view, seat, text):
            return foul
        legal = game.legal(match.state, seat)
        if not game.lists_all:
            raise IllegalText(f"That is not a legal move. Moves of the right form: {', '.join(legal[:3])}.")
        listed = f"Some of the {len(legal)} that are: " if len(legal) > MOST_LISTED else "Legal moves: "
        raise IllegalText(f"That is not a legal move. {listed}{', '.join(legal[:MOST_LISTED])}.")

    def act(self, match: Match, seat: int, text: str) -> Match:
        """The match after what a seat wrote; an illegal text counts against the seat and changes nothing else.

        Raises:
            NotThisSeat: the seat does not move now.
            TypeError: the action is no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"a move is a text, a str; got {type(text).__name__}")
        self._check_seat(match, seat)
        try:
            return self.play(match, seat, self.read(match, seat, text))
        except IllegalText:
            faults = (*match.faults[:seat], match.faults[seat] + 1, *match.faults[seat + 1 :])
            return match._replace(faults=faults, loser=seat if faults[seat] >= self.tries else -1)

    def play(self, match: Match, seat: int, move: str) -> Match:
        """The match after a legal move, and after the draws of chance that follow."""
        game, state = self.game, match.state
        actors = game.actors(state)
        if len(actors) > 1:
            pending = (*match.pending, (seat, move))
            if len(pending) < len(actors):
                return match._replace(pending=pending)
            moves = dict(sorted(pending))
            log = match.log + tuple(Event(each, moves[each], self._bits(state, each)) for each in moves)
            after = Match(match.key, game.apply_all(state, moves), match.draws, (), match.faults, log)
        else:
            after = self.branch(match, seat, move)
        return self._settled(after)

    def branch(self, match: Match, actor: int, move: str) -> Match:
        """The match after one legal move or draw of chance, and nothing else: for walks of the whole tree."""
        event = Event(actor, move, self._bits(match.state, actor))
        state = self.game.apply(match.state, actor, move)
        return Match(match.key, state, match.draws + (actor == CHANCE), (), match.faults, (*match.log, event))

    def returns(self, match: Match) -> tuple[float, ...]:
        """What each seat has won.

        Raises:
            ValueError: the match is not over.
        """
        if match.loser >= 0:
            return self.game.forfeited(match.loser, match.state)
        if self.game.actors(match.state):
            raise ValueError("the match is not over: it has no returns yet")
        return self.game.returns(match.state)

    # what a seat reads

    def observe(self, match: Match, seat: int, since: int = 0, *, own_moves: bool = False) -> str:
        """What a seat reads: what others did since event ``since``, its view, and its legal moves when it moves.

        It is a function of the seat's own information: of its view, the events it witnessed and its own faults. With
        ``own_moves`` the seat's own moves are among those events.
        """
        game = self.game
        if not 0 <= seat < game.seats:
            raise NotThisSeat(f"there is no seat {seat}: seats are 0 to {game.seats - 1}")
        view = game.view(match.state, seat)
        hidden = (CHANCE,) if own_moves else (CHANCE, seat)
        lines = [
            f"Seat {event.actor}{' (you)' if event.actor == seat else ''}: {event.move}."
            for event in match.log[since:]
            if event.actor not in hidden and event.seen_by >> seat & 1
        ]
        lines.append(game.show(view, seat))
        if match.loser >= 0:
            lines.append(f"Seat {match.loser} forfeits the game after {self.tries} illegal moves.")
        elif seat in self.to_move(match):
            legal = game.legal(match.state, seat)
            few = len(legal) <= MOST_LISTED
            listed = ", ".join(legal if few else legal[:3])
            if not game.lists_all:
                lines.append(f"You move. Moves of the right form: {', '.join(legal[:3])}.")
            else:
                lines.append(
                    f"Your legal moves: {listed}." if few else f"{len(legal)} moves are legal, such as {listed}."
                )
            if match.faults[seat]:
                lines.append(f"Illegal moves so far: {match.faults[seat]}; {self.tries} forfeit the game.")
        return "\n".join(lines)

    def first_observation(self, match: Match, seat: int, brief: bool = False) -> str:
        """What a seat reads at its first turn: the rules, unless they are left out, and what it observes."""
        if brief:
            return f"Seat {seat}. {self.observe(match, seat)}"
        last = self.game.seats - 1
        seats = f"seats {'0 and 1' if last == 1 else f'0 to {last}'}"
        faults = (
            "An illegal move forfeits the game."
            if self.tries == 1
            else f"After an illegal move you move again, but {self.tries} illegal moves forfeit the game."
        )
        head = f"{self.game.rules()}\n{faults}\nYou are seat {seat}; there are {seats}."
        return f"{head}\n\n{self.observe(match, seat, own_moves=True)}"

    def record(self, match: Match) -> dict[str, Any]:
        """All seats' moves in plain JSON; ``replay`` makes the same match of it."""
        return {
            "key": match.key,
            "moves": [[event.actor, event.move] for event in match.log],
            "faults": list(match.faults),
            "loser": match.loser,
        }

    def replay(self, record: Mapping[str, Any]) -> Match:
        """The match of a record.

        Raises:
            ValueError: the record is not one of this game.
        """
        match = self.begin(record["key"])
        for actor, move in record["moves"]:
            if actor == CHANCE:
                continue  # drawn again from the key
            if actor not in self.to_move(match) or not self.game.is_legal(match.state, actor, move):
                raise ValueError(f"the record is not one of {self.game.name}: seat {actor} cannot play {move!r} there")
            match = self.play(match, actor, move)
        return match._replace(faults=tuple(record["faults"]), loser=record["loser"])

    def view_of_record(self, match: Match, seat: int) -> list[list[Any]]:
        """The events of a match as one seat knows them; a move that was secret is None."""
        return [[event.actor, event.move if event.seen_by >> seat & 1 else None] for event in match.log]

    # inside

    def _check_seat(self, match: Match, seat: int) -> None:
        if not 0 <= seat < self.game.seats:
            raise NotThisSeat(f"there is no seat {seat}: seats are 0 to {self.game.seats - 1}")
        movers = self.to_move(match)
        if seat not in movers:
            whose = "the match is over" if not movers else f"seat {', '.join(map(str, movers))} moves now"
            raise NotThisSeat(f"seat {seat} cannot move: {whose}")

    def _bits(self, state: Any, actor: int) -> int:
        witnesses = self.game.witnesses(state, actor)
        if len(witnesses) == self.game.seats:
            return self._all
        return sum(1 << seat for seat in witnesses)

    def _settled(self, match: Match) -> Match:
        """The match after the draws of chance that are due."""
        game = self.game
        while game.actors(match.state) == (CHANCE,):
            rng = stream(game.name, match.key, "chance", match.draws)
            outcomes = game.chance(match.state)
            (move,) = rng.choices([move for move, _ in outcomes], [weight for _, weight in outcomes])
            match = self.branch(match, CHANCE, move)
        return match


class SeatTexts:
    """What each seat of a match reads next: the rules first, then what is new to it, and that its text was no move.

    Attributes:
        read: how many events of the match's log each seat has read; a seat that is not there has not read the rules.
        notes: what each seat is told before its next text.

    Args:
        referee: of the match.
        brief: leave the rules out of the first text.
    """

    def __init__(self, referee: Referee, brief: bool = False) -> None:
        self.referee, self.brief = referee, brief
        self.read: dict[int, int] = {}
        self.notes: dict[int, str] = {}

    def text(self, match: Match, seat: int) -> str:
        """What a seat reads now; asking again gives the same."""
        referee, since = self.referee, self.read.get(seat)
        first = since is None
        text = referee.first_observation(match, seat, self.brief) if first else referee.observe(match, seat, since or 0)
        note = self.notes.get(seat)
        return f"{note}\n{text}" if note else text

    def acted(self, before: Match, after: Match, seat: int) -> None:
        """Note that a seat has written something: it has read all that stood in the log before."""
        self.notes[seat] = ILLEGAL if after.faults[seat] > before.faults[seat] else ""
        self.read[seat] = len(before.log)


def verdict_of(referee: Referee, match: Match, seat: int) -> Verdict:
    """The verdict on one seat of a match that is over; its reward is the seat's return."""
    returns = referee.returns(match)
    share, text = referee.game.outcome(returns, seat), ", ".join(f"{value:g}" for value in returns)
    parts = {"return": returns[seat], "outcome": share}
    if match.loser >= 0:
        reason = f"seat {match.loser} forfeited after {referee.tries} illegal moves; returns {text}"
        teams = referee.game.teams_in(match.state)
        share = share if teams[match.loser] != teams[seat] else 0.0
    else:
        reason = f"the returns are {text}"
    status = "correct" if share >= 1 else "partial" if share else "wrong"
    return Verdict(float(returns[seat]), status, reason=reason, parts=parts)  # type: ignore[arg-type]


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise ValueError where a setting is not from ``low`` to ``high``."""
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, not {value!r}")


def evenly(options: Sequence[object]) -> list[tuple[str, float]]:
    """Draws of chance: each option with the same probability."""
    return [(str(option), 1 / len(options)) for option in options]


def drawn(rows: Sequence[Sequence[str]]) -> str:
    """A board with column letters above and row numbers to the left; one symbol a cell, the first row is row 1."""
    lines = [f"{number} {' '.join(row)}" for number, row in enumerate(rows, 1)]
    pad = len(str(len(rows)))
    lines = [f"{' ' * (pad - len(line.split(' ')[0]))}{line}" for line in lines]
    return "\n".join([" " * pad + " " + " ".join(COLUMNS[: len(rows[0])]), *lines])


@lru_cache(maxsize=64)
def cell_names(height: int, width: int) -> tuple[str, ...]:
    """``a1, b1, …``: the cells of a board, row by row."""
    return tuple(f"{COLUMNS[column]}{row + 1}" for row in range(height) for column in range(width))
