"""Game: what all text worlds share as tasks. A subclass describes one game; this turns it into turns and verdicts.

The first observation tells the goal, the rules and the forms of commands. Whatever is no command, or cannot be done
now, costs its turn and is answered by what can be. Reward 1 for reaching the goal; nothing on the way is paid.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rlvr.envs.core.seeding import nameless
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.worlds.commands import Command, Grammar, Impossible

T = TypeVar("T")

ON_THE_WAY = Verdict(0.0, "partial", reason="the goal is not reached yet")
NOT_READ = Verdict(0.0, "unparsable", reason="no command was found in the reply")
UNREADABLE = "No command was found. Write one command, such as \\boxed{{{example}}}. Commands: {shapes}."


class WorldState(NamedTuple, Generic[T]):
    """A game under way.

    Attributes:
        level: its level.
        key: a hash of the game as it began: what makes it this game.
        now: the game's own state.
        message: what the player was told last; empty before the first command.
    """

    level: int
    key: str
    now: T
    message: str = ""


class CommandOutcome(NamedTuple):
    """What a command led to. ``won`` is None while the game goes on, False when it is lost."""

    now: Any
    message: str
    won: bool | None = None


class WorldGame(Task[WorldState[T]]):
    r"""Base of the text worlds; T is the type of a game's own state.

    A subclass writes ``begin``, ``rules``, ``view``, ``act``, ``plan`` and ``options``.

    Observation: the goal, the rules, the commands and the first view; then the answer to each command.
    Actions: one of the commands listed there, in ``\boxed{}`` or alone on one line; articles and synonyms are free.
    Reward: 1 for the goal, 0 for all else; nothing is paid on the way.
    Episode end: the goal is reached or can be no more, or the level's turns are used up.

    Attributes:
        grammar: the commands.
        limits: for each level, the number of commands that an episode may have.
    """

    system = "You play a text game. Reply with one command in \\boxed{}, or with the command alone."
    levels = 5
    grammar: ClassVar[Grammar]
    limits: ClassVar[tuple[int, ...]]

    def begin(self, rng: random.Random, level: int) -> T:
        """A new game of this level."""
        raise NotImplementedError

    def rules(self, now: T) -> str:
        """The goal and the rules, in full."""
        raise NotImplementedError

    def view(self, now: T) -> str:
        """What the player sees at first."""
        raise NotImplementedError

    def act(self, now: T, command: Command) -> CommandOutcome:
        """The consequence of a command that was understood.

        Raises:
            Impossible: it cannot be carried out; nothing changes, and the player reads the text.
        """
        raise NotImplementedError

    def plan(self, now: T) -> str:
        """The expert's next command, from what a player could know."""
        raise NotImplementedError

    def options(self, now: T) -> list[str]:
        """Some commands that can be carried out now; never empty."""
        raise NotImplementedError

    def start(self, rng: random.Random, level: int) -> WorldState[T]:
        """Begins a game and hashes all that it holds; class and field names stay out, so a rename moves no task."""
        now = self.begin(rng, level)
        return WorldState(level, blake2b(nameless(now).encode(), digest_size=16).hexdigest(), now)

    def turns(self, level: int) -> int:
        """One command a turn; a command that fails costs its turn too."""
        return self.limits[level - 1]

    def content(self, state: WorldState[T]) -> str:
        """The hash of the whole game as it began, names of rooms and things included."""
        return state.key

    def observe(self, state: WorldState[T]) -> str:
        """Goal, rules, commands and first view at the start; after that the answer to the last command."""
        if state.message:
            return state.message
        return (
            f"{self.rules(state.now)}\n"
            f"Commands: {self.grammar.shapes}. One command a turn, "
            f"{self.turns(state.level)} turns at most; what cannot be done costs its turn too.\n\n"
            f"{self.view(state.now)}"
        )

    def apply(self, state: WorldState[T], action: str) -> Transition:
        """Reads one command by the ``grammar``; text that is none changes nothing but the message, at reward 0."""
        text, command = self.grammar.read(action)
        if not text:
            example = self.grammar.forms[0].shape
            message = UNREADABLE.format(example=example, shapes=self.grammar.shapes)
            return Transition(state._replace(message=message), NOT_READ)
        if isinstance(command, str):
            return Transition(state._replace(message=command), NOT_READ)
        try:
            now, message, won = self.act(state.now, command)
        except Impossible as refusal:
            now, message, won = state.now, str(refusal), None
        state = state._replace(now=now, message=message)
        if won is None:
            return Transition(state, ON_THE_WAY)
        return Transition(state, correct(text, message) if won else wrong(text, message), terminated=True)

    def solve(self, state: WorldState[T]) -> str:
        """The expert's next command in a box."""
        return f"\\boxed{{{self.plan(state.now)}}}"

    def sample_action(self, state: WorldState[T], rng: random.Random) -> str:
        """One of ``options``, each with the same chance, in a box."""
        return f"\\boxed{{{rng.choice(self.options(state.now))}}}"

    def out_of_turns(self, state: WorldState[T], turns: int) -> Verdict:
        """Wrong: nothing on the way to the goal is paid."""
        return wrong(reason=f"the goal was not reached within {turns} turns")
