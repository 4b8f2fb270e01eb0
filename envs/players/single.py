"""AsSingleAgent: one seat of a game as a task, the other seats played by bots. A game's id is this with its name."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from rlvr.envs.core.seeding import stream
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, env_error, goes_through, provoked_verdict, wrong
from rlvr.envs.players.bots import bot_for, can_be_foretold, make_bot
from rlvr.envs.players.catalogue import make_game, sentence_of
from rlvr.envs.players.game import ILLEGAL, SYSTEM, TRIES, IllegalText, Match, Referee, SeatGame, SeatTexts
from rlvr.envs.players.rounds import Rounds

OPPONENTS: Final = (("random",), ("mixed",), ("expert",))  # of levels 1 to 3
MATES: Final = (("expert",), ("mixed:0.1",), ("mixed:0.2",))  # of the policy's team: the worse, the harder
AT_TABLES: Final = (("random",), ("mixed:0.75",), ("mixed",))  # where three teams or more play, and one wins
SELF: Final = "self"
POOL: Final = "pool"  # earlier policies of the run
HABIT: Final = "habit:"  # before a rule without chance that the game knows
MODEL, ENDPOINT = "model:", "endpoint:"  # before a folder, and before MODEL@URL
OTHER_MOVES: Final = 20  # drawn for one that is not the policy's
REWARDS: Final = ("outcome", "payoff", "expected")
DRAWS: Final = 1_000  # games tried for one in which the policy's seat moves at all
EXPECTED: Final = (
    "Your reward is 1 for the moves that win most on average against seats that play so, whatever chance brings. It "
    "falls by what your moves give away: {:g} a round on average leave nothing."
)
PAYOFF: Final = "Your reward grows evenly with your return, from 0 for {:g} to 1 for {:g}."
HABITUAL: Final = (
    "Seat {0} has one habit in all rounds: a rule without chance that names its next move from the moves before. Your "
    "reward grows evenly with your sum, from 0 for the least that {1} to 1 for the most."
)
UNREAD: Final = Verdict(0.0, "unparsable", reason="not a legal move")
PLAYED: Final = Verdict(0.0, "partial", reason="the game goes on")


def is_language_model(opponent: str) -> bool:
    """Whether an opponent is a policy that writes text, so that a rollout plays it, and not the environment."""
    return opponent in (SELF, POOL) or opponent.startswith((MODEL, ENDPOINT))


class SeatEpisode(NamedTuple):
    """A match as one seat plays it: who the others are, and what that seat has read so far.

    ``given_away`` is how much less its moves return in expectation than the best ones.
    """

    match: Match
    seat: int
    opponents: tuple[str, ...]
    turn: int = 0
    since: int = 0
    message: str = ""
    given_away: float = 0.0


class AsSingleAgent(Task[SeatEpisode]):
    """One seat of a game of several; the others are bots, drawn with the seat from the task's seed.

    Levels 1 to 3: the others move at random, play half of their moves well, or play them all well; where more than two
    teams play, a quarter of them on level 2 and half of them on level 3. Seats of the policy's own team, and others
    that it relies on, play well on level 1; a tenth of their moves is random on level 2, and a fifth on level 3. A game
    without an expert has level 1 alone, on which all other seats move at random. Stratego has five levels, with
    boards of their own.

    Observation: the rules, the seat's view and its legal moves; then what others did, the view and the moves.
    Actions: a legal move, boxed or alone.
    Reward: by default 1 for a win, 0.5 for a draw and 0 for a loss; see ``reward``.
    Episode end: the game is over, or the policy's seat has made as many illegal moves as ``tries``.

    Args:
        game: a name of the catalogue, such as ``KuhnPoker``.
        game_settings: of the game, as it takes them.
        seat: the policy's seat, or several to draw one from for each task; None draws from all.
        opponents: names of bots to draw all other seats from; None takes those of the level. The seats of ``self``,
            ``pool``, ``model:FOLDER`` and ``endpoint:MODEL@URL`` are played in the learner's rollouts
            (`rlvr.agents.players.self_play`), and by nobody elsewhere.
        tries: illegal moves that forfeit the game.
        brief: leave the rules out of the first observation, for policies that are trained on one game.
        reward: ``outcome`` pays 1 for more than every other team has, 0.5 for as much as the best of them; ``payoff``
            pays where the return lies between the lowest and the highest that there is, and in a negotiation the own
            gain as a share of twice that in the Nash solution; ``expected`` pays 1 less what the own moves gave away of
            the expected return against these opponents, as a share of the game's ``stake`` for each round. None: what
            the game names, with ``payoff`` for ``expected`` where an opponent cannot be foretold.
        rounds: how often the game is played; the returns add up. None: as often as the game says, and once where a
            language model has a seat.

    Raises:
        ValueError: there is no such game, seat or bot, or a setting is not allowed.
    """

    system = SYSTEM
    levels = 3
    always_solvable = False
    lists_moves = True

    def __init__(
        self,
        *,
        game: str,
        game_settings: Mapping[str, Any] | None = None,
        seat: int | Sequence[int] | None = None,
        opponents: Sequence[str] | None = None,
        tries: int = TRIES,
        brief: bool = False,
        reward: str | None = None,
        rounds: int | None = None,
    ) -> None:
        self.game = _game_of_rounds(make_game(game, **dict(game_settings or {})), rounds, opponents)
        self.referee = Referee(self.game, tries)
        chosen = range(self.game.seats) if seat is None else (seat,) if isinstance(seat, int) else tuple(seat)
        for each in chosen or (None,):
            if type(each) is not int or not 0 <= each < self.game.seats:
                raise ValueError(f"there is no seat {each!r}: {self.game.name} has seats 0 to {self.game.seats - 1}")
        if reward not in (None, *REWARDS):
            raise ValueError(f"reward must be one of {', '.join(REWARDS)}, not {reward!r}")
        if opponents is not None:
            if isinstance(opponents, str) or not opponents:
                raise ValueError(f"opponents is a list of bots' names, not {opponents!r}")
            for name in opponents:
                if not is_language_model(name):
                    bot_for(self.game, name)
        self.game_name, self.brief = game, brief
        self.reward = self._checked_reward(reward, opponents)
        self.players = tuple(chosen)  # that the policy may have
        self.self_play = False  # whether somebody plays the seats of language models; set by who does
        self.opponents = tuple(opponents) if opponents is not None else None
        if not self.game.has_expert:
            self.levels = 1  # the others move at random
        elif self.game.level_bots:
            self.levels = len(self.game.level_bots)
        self.asks = self.describe(game)

    @staticmethod
    def describe(game: str, **settings: Any) -> str:
        """The first sentence of the game's docstring, for lists of ids."""
        return sentence_of(game)

    def _checked_reward(self, reward: str | None, opponents: Sequence[str] | None) -> str:
        foretold = all(not is_language_model(name) and can_be_foretold(name) for name in opponents or ())
        if reward == "expected" and not (self.game.reward == "expected" and foretold):
            others = ", ".join(opponents or ["bots"])
            raise ValueError(
                f"the reward 'expected' is not computed for {self.game.name} against {others}: it needs a game and "
                "bots whose odds are known, so use 'payoff'"
            )
        usual = self.game.reward
        return reward or ("payoff" if usual == "expected" and not foretold else usual)

    @property
    def name(self) -> str:
        return f"AsSingleAgent {self.game.name}"

    def turns(self, level: int) -> int:
        return self.game.on_level(level).decisions + self.referee.tries - 1

    def start(self, rng: random.Random, level: int) -> SeatEpisode:
        seats = self.game.seats
        # one number of the stream where there is a choice, and none where there is not
        seat = self.players[rng.randrange(len(self.players))] if len(self.players) > 1 else self.players[0]
        opponents = tuple(
            "" if other == seat else rng.choice(self._names(seat, other, level)) for other in range(seats)
        )
        for name in self.opponents or ():
            # At once: else an episode in which the policy moves first is void, and no error.
            if is_language_model(name):
                self._needs_rollout(name)
        referee = Referee(self.game.on_level(level), self.referee.tries)
        for _ in range(DRAWS):
            match = self._opened(referee.begin(f"{rng.getrandbits(64):016x}"), rng.randint(*self.game.opening), rng)
            episode = self.advanced(SeatEpisode(match, seat, opponents))
            if self.referee.to_move(episode.match):
                return episode
        raise ValueError(f"in {DRAWS} games of {self.game.name} seat {seat} never came to move")

    def _needs_rollout(self, opponent: str) -> None:
        """Refuse a language model's seat where nobody plays it."""
        if not self.self_play:
            raise ValueError(
                f"the opponent {opponent!r} is played where a policy is trained: name a bot to play outside of it"
            )

    def _names(self, seat: int, other: int, level: int) -> Sequence[str]:
        """The bots that another seat is drawn from."""
        if not self.game.has_expert:
            return self.opponents or OPPONENTS[0]
        if self.opponents is None and (habits := self.game.habits(level)):
            return [f"{HABIT}{habit}" for habit in habits]
        if self.opponents is None and self.game.level_bots and other not in self.game.relies_on(seat):
            return (self.game.level_bots[level - 1],)
        usual = MATES if other in self.game.relies_on(seat) else AT_TABLES if self._many_teams else OPPONENTS
        return self.opponents or usual[level - 1]

    @cached_property
    def _many_teams(self) -> bool:
        """Whether more than two teams play, so that one of many wins; the roles that chance draws are teams."""
        if len({*self.game.teams}) <= 2:
            return False
        return len({*self.game.teams_in(self.referee.begin("teams").state)}) > 2

    def _opened(self, match: Match, moves: int, rng: random.Random) -> Match:
        """The match after random moves of all seats; none is played that would end the game."""
        for _ in range(moves):
            (mover,) = self.referee.to_move(match)
            after = self.referee.play(match, mover, rng.choice(self.referee.legal(match, mover)))
            if not (movers := self.referee.to_move(after)) or self.game.can_end(after.state, movers[0]):
                break  # a task that begins with a move that ends the game is decided by luck
            match = after
        return match

    def advanced(self, episode: SeatEpisode) -> SeatEpisode:
        """The episode after the bots' moves, until the own seat or a language model's moves, or the match is over."""
        match, referee, seat = episode.match, self.referee, episode.seat
        while (movers := referee.to_move(match)) and seat not in movers:
            name = episode.opponents[movers[0]]
            if is_language_model(name):
                self._needs_rollout(name)
                break
            match = self._moved(match, movers[0], name)
        return episode._replace(match=match)

    def waits_for(self, episode: SeatEpisode) -> int | None:
        """The language model's seat that must move before the episode's own does; None where it need not wait."""
        movers = self.referee.to_move(episode.match)
        return None if not movers or episode.seat in movers else movers[0]

    def moved_by(self, episode: SeatEpisode, seat: int, text: str) -> SeatEpisode:
        """The episode after what another seat wrote. It may forfeit the game."""
        return self.advanced(episode._replace(match=self.referee.act(episode.match, seat, text)))

    def verdict(self, episode: SeatEpisode) -> Verdict | None:
        """The verdict on the episode's own seat; None while the match goes on."""
        return None if self.referee.to_move(episode.match) else self._verdict(episode)

    def _moved(self, match: Match, mover: int, name: str) -> Match:
        view = self.game.view(match.state, mover)
        rng = stream(self.name, match.key, "bot", mover, len(match.log), len(match.pending))
        return self.referee.play(match, mover, make_bot(name).choose(self.game, view, mover, rng))

    def content(self, state: SeatEpisode) -> str:
        return f"{self.game.name} {state.match.key} {state.seat} {' '.join(state.opponents)}"

    def first_text(self, match: Match, seat: int) -> str:
        """What a seat reads at its first turn."""
        return self.referee.first_observation(match, seat, self.brief)

    def observe(self, state: SeatEpisode) -> str:
        if state.turn == 0:
            return self.first_text(state.match, state.seat) + self._about_opponents(state)
        text = self.referee.observe(state.match, state.seat, state.since)
        return f"{state.message}\n{text}" if state.message else text

    def _about_opponents(self, state: SeatEpisode) -> str:
        """How the others play where that is not left to be found out, and what the reward is where none has won."""
        if self.brief or self.reward == "outcome":
            return ""
        others = [(at, name) for at, name in enumerate(state.opponents) if at != state.seat]
        if self.reward == "expected":
            lines = [f"Seat {at} {manner(name)}." for at, name in others]
            return "\n" + "\n".join([*lines, EXPECTED.format(self.game.stake)])
        if not any(name.startswith(HABIT) for _, name in others):
            if not isinstance(self.game, Rounds):
                return ""
            low, high = self.game.lowest, self.game.highest
            if self.game.swing is not None:
                high = self.game.swing * self.game.rounds
                low = -high
            return f"\n{PAYOFF.format(low, high)}"
        best = "there is" if self.game.zero_sum else "can be had against this habit"
        return f"\n{HABITUAL.format(others[0][0], best)}"

    def _given_away(self, state: SeatEpisode, move: str) -> float:
        """How much less a move returns in expectation than the best one."""
        if self.reward != "expected":
            return 0.0
        values = self._move_values(state)
        return max(values.values()) - values[move]

    def _move_values(self, state: SeatEpisode) -> Mapping[str, float]:
        view = self.game.view(state.match.state, state.seat)
        values = self.game.move_values(view, state.seat, state.opponents)
        if values is None:
            raise NotImplementedError(f"{self.game.name} does not compute the values of its moves")
        return values

    def apply(self, state: SeatEpisode, action: str) -> Transition:
        referee, seat, match = self.referee, state.seat, state.match
        try:
            move = referee.read(match, seat, action)
        except IllegalText:
            match = referee.act(match, seat, action)
            after = state._replace(match=match, turn=state.turn + 1, since=len(match.log), message=ILLEGAL)
            if match.loser < 0:
                return Transition(after, UNREAD)
            return Transition(after, self._forfeited(), True)
        since = len(match.log)
        try:
            given_away = state.given_away + self._given_away(state, move)
            match = referee.play(match, seat, move)
            after = SeatEpisode(match, seat, state.opponents, state.turn + 1, since, "", given_away)
            after = self.advanced(after)
        except Exception as error:  # the rules or a bot failed
            if self._is_provoked(state, move):
                return Transition(state, provoked_verdict("the game or an opponent", error), True)
            return Transition(state, env_error(error, "the game or an opponent"), True)
        if referee.to_move(after.match):
            return Transition(after, PLAYED)
        return Transition(after, self._verdict(after), True)

    def _forfeited(self) -> Verdict:
        return UNREAD.replace(reason=f"the game is forfeited after {self.referee.tries} illegal moves")

    def _is_provoked(self, state: SeatEpisode, move: Any) -> bool:
        """Whether the game goes on after another move than this one."""
        referee, rng = self.referee, random.Random(0)
        texts = (self.sample_action(state, rng) for _ in range(OTHER_MOVES))
        moves = (referee.read(state.match, state.seat, text) for text in texts)
        other = next((each for each in moves if each != move), None)
        if other is None:
            return False
        return goes_through(
            lambda: self.advanced(
                state._replace(match=referee.play(state.match, state.seat, other), turn=state.turn + 1)
            )
        )

    def _verdict(self, state: SeatEpisode) -> Verdict:
        returns, game, loser = self.referee.returns(state.match), self.game, state.match.loser
        share, won = game.outcome(returns, state.seat), returns[state.seat]
        parts = {"return": won, "outcome": share}
        if self.reward == "expected":
            parts["given_away"] = state.given_away
            rounds = game.rounds if isinstance(game, Rounds) else 1
            share = reward = max(0.0, 1 - state.given_away / (rounds * game.stake))
        elif self.reward == "payoff":
            habit = state.opponents[1 - state.seat] if game.seats == 2 else ""
            if habit.startswith(HABIT):
                reward = game.payoff_against(habit.removeprefix(HABIT), returns, state.seat)
                share = reward if not game.zero_sum else share
            else:
                reward = game.payoff(returns, state.seat)
        else:
            reward = share
        mine = state.seat
        if loser == mine:
            return self._forfeited()
        if loser >= 0 and (teams := game.teams_in(state.match.state))[loser] == teams[mine]:
            share = reward = 0.0  # in a game of one team the lowest return is the best that any other team has
        text = ", ".join(f"seat {at}{' (you)' * (at == mine)} {value + 0.0:g}" for at, value in enumerate(returns))
        end = game.show(game.view(state.match.state, state.seat), state.seat)
        reason = f"The game is over. Returns: {text}.\n{end}"[:900]
        status = "correct" if share >= 1 else "partial" if reward > 0 else "wrong"
        return Verdict(float(reward), status, reason=reason, parts=parts)  # type: ignore[arg-type]

    def solve(self, state: SeatEpisode) -> str:
        """The game's expert; where it mixes, its choice is drawn from a stream keyed by what the seat has read.

        With the reward ``expected`` a best reply to the others, whose play the first observation states.
        """
        view = self.game.view(state.match.state, state.seat)
        if self.reward == "expected":
            values = self._move_values(state)
            return f"\\boxed{{{max(values, key=lambda move: values[move])}}}"
        has_habit = any(name.startswith(HABIT) for name in state.opponents)
        rng = stream(self.name, "expert", self.game.show(view, state.seat), state.seat, state.turn)
        expert = self.game.answer_to_habits if has_habit else self.game.expert
        return f"\\boxed{{{expert(view, state.seat, rng)}}}"

    def legal_actions(self, state: SeatEpisode) -> list[str]:
        return [f"\\boxed{{{move}}}" for move in self.referee.legal(state.match, state.seat)]

    def sample_action(self, state: SeatEpisode, rng: random.Random) -> str:
        return f"\\boxed{{{rng.choice(self.referee.legal(state.match, state.seat))}}}"

    def out_of_turns(self, state: SeatEpisode, turns: int) -> Verdict:
        return wrong(reason=f"the game was not finished in {turns} turns")


def manner(name: str) -> str:
    """How a bot plays, in words that follow its seat."""
    kind, _, number = name.partition(":")
    if kind == "mixed":
        share = round(100 * float(number or 0.5))
        return f"plays well, but makes {share} of 100 moves at random"
    return {"random": "makes every move at random", "first": "always makes the first legal move"}.get(
        kind, "always plays well"
    )


def _game_of_rounds(game: SeatGame[Any], rounds: int | None, opponents: Sequence[str] | None) -> SeatGame[Any]:
    """The game itself, or several rounds of it."""
    if rounds is None:
        rounds = 1 if any(map(is_language_model, opponents or ())) else game.default_rounds
    return game if rounds == 1 else Rounds(game, rounds)


def game_task(env: Any) -> AsSingleAgent | None:
    """The task of an environment that is a game of several seats; None where it is none."""
    task = getattr(env.unwrapped, "task", None)
    return task if isinstance(task, AsSingleAgent) else None


class OpenMatch:
    """The match of a task with all of its seats open: what each reads, what it writes, and what it has earned.

    Attributes:
        open: the seats that no bot has.
        left: the seat that broke off the match, or -1.

    Args:
        task: of an environment whose ``opponents`` are ``[self]`` and which has been reset.
        state: of that environment.
        bots: the names of bots by seat; all other seats are open.

    Raises:
        ValueError: there is no such seat or bot, or no seat is open.
    """

    def __init__(self, task: AsSingleAgent, state: SeatEpisode, bots: Mapping[int, str] | None = None) -> None:
        bots, seats = dict(bots or {}), range(task.game.seats)
        for seat, name in bots.items():
            if seat not in seats:
                raise ValueError(f"there is no seat {seat}: {task.game.name} has seats 0 to {task.game.seats - 1}")
            bot_for(task.game, name)
        self.open = tuple(seat for seat in seats if seat not in bots)
        if not self.open:
            raise ValueError(f"all {task.game.seats} seats of {task.game.name} have bots: leave one open")
        self.left = -1
        self.task, self.texts = task, SeatTexts(task.referee, task.brief)
        names = tuple(bots.get(seat, SELF) for seat in seats)
        self._state = task.advanced(state._replace(seat=self.open[0], opponents=names))

    @property
    def match(self) -> Match:
        """The match as it stands."""
        return self._state.match

    def to_move(self) -> tuple[int, ...]:
        """The open seats that must move now; none when the match is over."""
        return tuple(seat for seat in self.task.referee.to_move(self.match) if seat in self.open)

    def text(self, seat: int) -> str:
        """What a seat reads now."""
        return self.texts.text(self.match, seat)

    def act(self, seat: int, text: str) -> None:
        """Play what a seat wrote, and the bots' moves that follow.

        Raises:
            NotThisSeat: the seat does not move now.
        """
        before = self.match
        self._state = self.task.moved_by(self._state, seat, text)
        self.texts.acted(before, self.match, seat)

    def break_off(self, seat: int) -> None:
        """End the match: a seat answers no more, and forfeits it."""
        self.left = seat
        self._state = self._state._replace(match=self.match._replace(loser=seat))

    def verdict(self, seat: int) -> Verdict:
        """The verdict on one seat.

        Raises:
            ValueError: the match is not over.
        """
        if seat == self.left:
            return wrong(reason="the game is forfeited: the seat answered no more")
        verdict = self.task.verdict(self._state._replace(seat=seat))
        if verdict is None:
            raise ValueError("the match is not over: no seat has a verdict yet")
        return verdict
