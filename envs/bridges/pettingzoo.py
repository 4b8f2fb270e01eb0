"""PettingZoo's games of several players (its AEC interface), one seat for the policy, the others for a function.

    gym.make("rlvr/PettingZoo-v0", env="classic/tictactoe-v3", to_text="my_module:board",
             actions=["1", "2", …], opponents="my_module:player")

The policy hears the game when it is its turn, or when it is over for it; the others have moved meanwhile.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rlvr.envs.bridges.bridged_task import (
    BridgedStep,
    BridgedTask,
    NoAction,
    OverTooSoon,
    choice,
    function_of,
    package_of,
)
from rlvr.envs.core.code_rule import require_plain

MAX_TURNS: Final = 100
# The other player's next action, from its observation, its info, its name, and a generator of this episode.
Opponent = Callable[[Any, Mapping[str, Any], str, random.Random], Any]
SYSTEM: Final = "You play a game. Think step by step. Put your move, and nothing else, in \\boxed{}."


@dataclass(slots=True)
class PettingZooState:
    """A game under way: PettingZoo's environment, who the policy is, and chance for the others."""

    env: Any
    seat: str = ""
    chance: random.Random | None = None


class PettingZooSeat(BridgedTask[PettingZooState]):
    """Args:
        env: an id of PettingZoo's registry, or a function that makes an AEC environment, or "module:function".
        settings: given to it; or a list of such mappings, one for each level.
        to_text: from the seat's observation and info to text: a function, or "module:function".
        to_action: from the policy's words (what it boxed) to an action; raises ValueError for words that name none,
            which then cost a turn and are explained. By default a name or a number of a discrete action. What the
            observation's or the info's ``action_mask`` forbids is refused in the same way.
        actions: names of discrete actions, in their order.
        seat: the policy's agent, as its name or its number; None draws one for each episode.
        opponents: who the others are: a function of (observation, info, agent, generator), or "module:function";
            "random" moves at random among what is allowed.
        success: what counts as done, see `BridgedTask`; by default an own return of at least 1.
        reward, system, global_random: see `BridgedTask`.
        turns: how many actions an episode may take.

    Raises:
        ValueError: a setting that is not allowed.
    """

    def __init__(
        self,
        *,
        env: str | Callable[..., Any],
        to_text: str | Callable[[Any, Mapping[str, Any]], str],
        settings: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        to_action: str | Callable[[str], Any] | None = None,
        actions: Sequence[str] | None = None,
        seat: str | int | None = None,
        opponents: str | Opponent = "random",
        success: float | str | Callable[[float, bool, Mapping[str, Any]], bool] = 1.0,
        reward: str = "success",
        turns: int = MAX_TURNS,
        system: str | None = SYSTEM,
        global_random: bool = True,
    ) -> None:
        super().__init__(success, reward, turns, system, global_random)
        self.env = env
        self.packages = (package_of(env) if callable(env) or ":" in env else "pettingzoo",)
        self.settings = [dict(settings)] if isinstance(settings, Mapping) else [dict(each) for each in settings] or [{}]
        self.levels = len(self.settings)
        self.to_text, self.to_action, self.seat, self.opponents = to_text, to_action, seat, opponents
        self.names = list(actions) if actions is not None else None
        self._make = self._maker()
        for function in (to_text, to_action, None if opponents == "random" else opponents):
            if function is not None:
                function_of(function)
        if not isinstance(success, (int, float)):
            function_of(success)
        self.asks = f"{self.name_of} of PettingZoo, one seat of it"

    @property
    def name_of(self) -> str:
        """The game's module, or the name of the function that makes it."""
        return self.env if isinstance(self.env, str) else getattr(self.env, "__qualname__", "a game")

    def _maker(self) -> Callable[..., Any]:
        if not isinstance(self.env, str) or ":" in self.env:
            return function_of(self.env)
        for settings in self.settings:
            require_plain(f"PettingZoo's {self.env}", settings)
        try:
            registry: Any = importlib.import_module("pettingzoo")
            registry.spec("aec", self.env)
        except ImportError as error:
            raise ImportError("pettingzoo is not installed: pip install 'pettingzoo[classic]>=1.27'") from error
        except Exception as error:  # its own kinds of error, or no registry
            raise ValueError(f"PettingZoo (from 1.27) has no environment {self.env!r}: {error!s:.200}") from error
        return partial(registry.make, "aec", self.env)

    @property
    def name(self) -> str:
        """``PettingZoo`` and the game's id or the function's name: what seeds are keyed by."""
        return f"PettingZoo {self.name_of}"

    # the bridge

    def begin(self, level: int) -> PettingZooState:
        """Makes the game with the level's settings; it is reset in ``first``."""
        return PettingZooState(self._make(**self.settings[level - 1]))

    def first(self, live: PettingZooState, seed: int) -> str:
        """Resets, draws the seat if none is set, and lets the others move until it is that seat's turn."""
        live.chance = random.Random(seed)
        live.env.reset(seed=seed)
        agents = list(live.env.possible_agents)
        if self.seat is None:
            live.seat = live.chance.choice(agents)
        else:
            live.seat = agents[self.seat] if isinstance(self.seat, int) else self.seat
        if live.seat not in agents:
            raise ValueError(f"{self.name_of} has no seat {self.seat!r}; it has {', '.join(agents)}")
        observation, _, terminated, truncated, info = self._ours(live)
        if terminated or truncated:
            live.env.close()
            raise OverTooSoon(f"{self.name_of} was over before {live.seat} had a turn")
        text = str(function_of(self.to_text)(observation, info))
        return f"{text}\n\nMoves: {', '.join(self.names)}" if self.names and not self.to_action else text

    def play(self, live: PettingZooState, action_text: str) -> BridgedStep:
        """Plays the seat's move, unless the mask forbids it, then lets the others move."""
        observation, _, _, _, info = live.env.last()
        live.env.step(self._action(live, action_text, _mask(observation, info)))
        observation, reward, terminated, truncated, info = self._ours(live)
        text = "" if terminated or truncated else str(function_of(self.to_text)(observation, info))
        return BridgedStep(text, float(reward), bool(terminated), bool(truncated), info)

    def end(self, live: PettingZooState) -> None:
        """Closes the game."""
        live.env.close()

    def _ours(self, live: PettingZooState) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
        """Let the others move until it is the seat's turn; what PettingZoo tells it then."""
        env = live.env
        while env.agents:
            agent = env.agent_selection
            observation, reward, terminated, truncated, info = env.last()
            if agent == live.seat:
                return observation, reward, terminated, truncated, info
            env.step(None if terminated or truncated else self._other(live, observation, info, agent))
        raise RuntimeError(f"{self.name_of} ended without a word to {live.seat}")

    def _other(self, live: PettingZooState, observation: Any, info: Mapping[str, Any], agent: str) -> Any:
        chance = live.chance or random.Random(0)
        if self.opponents != "random":
            return function_of(self.opponents)(observation, info, agent, chance)
        mask, space = _mask(observation, info), live.env.action_space(agent)
        allowed = [number for number, may in enumerate(mask) if may] if mask is not None else range(int(space.n))
        return chance.choice(allowed) + int(space.start)

    def _action(self, live: PettingZooState, action_text: str, mask: Sequence[int] | None) -> Any:
        space = live.env.action_space(live.seat)
        if self.to_action is not None:
            try:
                action = function_of(self.to_action)(action_text)
            except ValueError as error:
                raise NoAction(str(error) or f"{action_text[:60]!r} is no move") from error
        else:
            action = choice(action_text, self.names, int(space.n), int(space.start))
        if not space.contains(action):
            raise NoAction(f"{action_text[:60]!r} is no move of {space}")
        if mask is not None and not mask[int(action) - int(space.start)]:
            raise NoAction(f"{action_text[:60]!r} is not allowed now")
        return action


def _mask(observation: Any, info: Mapping[str, Any]) -> Sequence[int] | None:
    """Which discrete actions are allowed, where the game says so."""
    mask = observation.get("action_mask") if isinstance(observation, Mapping) else None
    mask = info.get("action_mask") if mask is None else mask
    return None if mask is None else list(mask)


# how the registered games look


def tic_tac_toe(observation: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """The board of ``tictactoe_v3``, whose cells are counted down the columns."""
    mine, theirs = (observation["observation"][:, :, plane] for plane in (0, 1))
    marks = [["X" if mine[c, r] else "O" if theirs[c, r] else "." for c in range(3)] for r in range(3)]
    lines = "\n".join(f"{r + 1} {' '.join(row)}" for r, row in enumerate(marks))
    return (
        f"Tic-tac-toe. You are X, the other is O. Three in a line win. A move is a row, a column.\n\n  1 2 3\n{lines}"
    )


def connect_four(observation: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """The board of ``connect_four_v3``."""
    mine, theirs = (observation["observation"][:, :, plane] for plane in (0, 1))
    rows = [" ".join("X" if mine[r, c] else "O" if theirs[r, c] else "." for c in range(7)) for r in range(6)]
    board = "\n".join(rows)
    return f"Connect Four. You are X, the other is O. Four in a line win. A move is a column.\n\n1 2 3 4 5 6 7\n{board}"


def leduc_holdem(observation: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """A hand of ``leduc_holdem_v4``: a card of one's own, perhaps one on the table, and the chips."""
    planes = observation["observation"]
    hand, table = ([card for card, bit in zip("JQK", planes[at : at + 3], strict=True) if bit] for at in (0, 3))
    chips = [int(planes[at : at + 15].argmax()) for at in (6, 21)]
    allowed = [name for name, may in zip(LEDUC, observation["action_mask"], strict=True) if may]
    return (
        f"Leduc Hold'em: two each of J, Q and K; a pair with the table's card wins, else the higher card.\n\n"
        f"Your card: {hand[0]}. On the table: {table[0] if table else 'nothing yet'}. "
        f"You have put in {chips[0]} chips, the other {chips[1]}. You may: {', '.join(allowed)}."
    )


LEDUC: Final = ("call", "raise", "fold", "check")
HERE: Final = "rlvr.envs.bridges.pettingzoo"
GAMES: Final[dict[str, dict[str, Any]]] = {
    "TicTacToe": {
        "env": "classic/tictactoe-v3",
        "to_text": f"{HERE}:tic_tac_toe",
        "actions": [f"{position % 3 + 1} {position // 3 + 1}" for position in range(9)],
        "turns": 9,
    },
    "ConnectFour": {
        "env": "classic/connect_four-v3",
        "to_text": f"{HERE}:connect_four",
        "actions": [str(column) for column in range(1, 8)],
        "turns": 30,
    },
    "LeducHoldem": {
        "env": "classic/leduc_holdem-v4",
        "to_text": f"{HERE}:leduc_holdem",
        "actions": list(LEDUC),
        "turns": 12,
        "success": 0.5,
    },
}


class PettingZooGame(PettingZooSeat):
    """Args:
    name: of a game whose board is put into words here, such as ``TicTacToe``; the other player moves at random.

    Raises:
        ValueError: there is no such game.
    """

    def __init__(self, *, name: str) -> None:
        if name not in GAMES:
            raise ValueError(f"the bridge has no game {name!r} of PettingZoo; docs/bridges.md lists them")
        shows = globals()[GAMES[name]["to_text"].partition(":")[2]]  # ours, whatever settings may name
        super().__init__(**{**GAMES[name], "to_text": shows})
