"""Terminal: chores in a real shell on a real pseudo-terminal, graded on what the workspace holds in the end.

An action is key presses: what stands there is typed, and ``<Enter>``, ``<C-c>``, ``<Up>`` are keys (``keys``). What is
printed is drawn by a terminal emulator (``pyte``); the observation is the screen and where the cursor is. So programs
that take over the screen work as they do for a person. ``<Done>`` ends the episode.

After each key the terminal is left to rest before the next: the same keys give the same screens. A state holds the
keys of the episode, and a terminal that is not there any more (a fork, a restored state) is made again by pressing
them again; what stands on its screen and in its workspace must then be what it was, or the restored episode ends as
``env_error``, with the reason.

In the end the workspace is copied out of the sandbox and compared out here. Reward 1 if all is as it was asked and the
other files are as they were, otherwise 0; what is printed earns nothing.
"""

from __future__ import annotations

import random
import zlib
from itertools import count
from typing import ClassVar, NamedTuple

from rlvr.envs.agentic.chore_kinds.compose import SIZES, composed, split_of_seed
from rlvr.envs.agentic.chores import VARIABLES, Chore, judged
from rlvr.envs.agentic.keys import Key, read_keys
from rlvr.envs.agentic.screens import COLUMNS, ROWS, Screen
from rlvr.envs.core.seeding import nameless, split_of
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, unparsable, wrong
from rlvr.envs.rewards.extraction import command_text
from rlvr.envs.rewards.graders.code import sandbox_fault
from rlvr.envs.sandbox import (
    Limits,
    PseudoTerminal,
    SandboxError,
    SandboxStarved,
    SandboxUnavailable,
    plans,
    probes,
    shared,
)
from rlvr.envs.sandbox.running import ProgramEnded
from rlvr.envs.tools.sessions import Handle, Sessions
from rlvr.envs.tools.tool import shown

MAX_TYPED = 4_000  # characters of an action
ACTION_SECONDS = 10.0  # after so many, of its own time, an action is over, whatever still runs
LIMITS = Limits(seconds=20.0, processes=48)
PRESSED = Verdict(0.0, "partial", reason="pressed keys")
BROKEN = Verdict(0.0, "wrong", reason="the shell and all that stands around it were brought down")
LATE = Verdict(0.0, "timeout", reason="the sandbox did not answer in time")
PROMPT = "~$ "

HOLDOUTS = ("families", "tasks")  # what is not in two splits: a kind of chore, or one chore


class _LiveTerminal:
    """A terminal of the sandbox and the screen in front of it."""

    def __init__(self, terminal: PseudoTerminal) -> None:
        self.terminal, self.screen = terminal, Screen()
        self.screen.feed(PROMPT.encode())

    def press(self, keys: list[Key]) -> tuple[str, int]:
        """What the screen shows then, and the checksum of the workspace."""
        left, untyped, rests = ACTION_SECONDS, 0, True
        for number, key in enumerate(keys, 1):
            rests, left = self._type(key.sent, key.pause, left)
            if not rests:
                untyped = len(keys) - number
                break
        row, column = self.screen.cursor()
        status = f"row {row}, column {column}" + ("" if rests else "; still running")
        status += f"; time was up, {untyped} keys were not pressed" if untyped else ""
        return shown(f"{self.screen.text()}\n[{status}]", 8_000), self.terminal.mark()

    def _type(self, text: str, pause: float, left: float) -> tuple[bool, float]:
        """Type within the seconds left and draw what comes of it: whether the terminal rests, and what is left."""
        for _ in range(4):  # what a program asks a terminal, such as where its cursor is, is answered at once
            typed = self.terminal.type([(text.encode(), pause)], max(0.1, left))
            left -= typed.spent
            text, pause = self.screen.feed(typed.printed), 0.0
            if not text or not typed.rests:
                break
        return typed.rests, left

    def close(self) -> None:
        self.terminal.close()


# Terminals that nobody types into at the moment, each of one episode instance; of all environments of this process.
_TERMINALS = Sessions[_LiveTerminal](_LiveTerminal.close)


class TerminalState(NamedTuple):
    """A chore, by what it is drawn from; the actions so far; what the screen shows, and the workspace's checksum; what
    was wrong with the last action; a hold on the terminal."""

    level: int
    seed: int
    split: str  # whose kinds of steps the chore has; "" for all
    typed: tuple[str, ...] = ()
    screen: str = ""
    mark: int = 0
    problem: str = ""
    live: Handle | None = None


class Terminal(Task[TerminalState]):
    """Do a chore in a shell. Levels 1 to 5: 1, 2, 4, 6 and 10 steps, most of which work on what an earlier one left, of
    229 kinds in 15 families: files, text, cleaning, tables and JSON, logs, archives, permissions, settings, encryption,
    HTTP, git, make, databases, processes, and services that are down. An expert types about 3, 6, 12, 17 and 28
    commands; at level 5 one mistake in any of them is found out.

    Observation: the screen of 30 rows and where the cursor is; at first the chore and a prompt.
    Actions: key presses: text is typed, and names such as ``<Enter>``, ``<C-c>`` and ``<Wait>`` are keys.
    Reward: 1 if the workspace is as it was asked and all else as it was, else 0; what is printed earns nothing.
    Episode end: ``<Done>`` alone, or the actions are used up (12, 24, 36, 48 and 72).

    Args:
        holdout: what is in one split alone. With ``"families"`` kinds of steps: each chore of the test split has some
            that no task of the train split has. With ``"tasks"`` one chore, with its names and numbers.

    Raises:
        ValueError: another ``holdout``.
        SandboxUnavailable: no tier holds on this machine in which a program may change its files' permissions.
        ImportError: ``pyte`` is not installed.
    """

    levels = len(SIZES)
    patience: ClassVar[float] = 15.0  # seconds a turn may take, for the audit: it waits for the shell
    system = (
        f"You work at a terminal of {ROWS} rows and {COLUMNS} columns: your reply is typed, key by key, into bash, in "
        "a folder of your own without network, and the screen comes back. Write key presses only, no explanation: text "
        "stands for itself, <Enter>, <Tab>, <Esc>, <BS>, <Up>, <Down>, <Left>, <Right>, <PgDn>, <C-c> and the like "
        "are keys, <Down*3> is a key three times, <Wait> waits, <Lt> is the character <. A command needs its <Enter>. "
        "Files that the task does not name must stay as they are, and each line of a text, the last too, ends in a "
        "newline. When it is finished, reply with <Done> alone."
    )

    def __init__(self, *, holdout: str = "families") -> None:
        if holdout not in HOLDOUTS:
            raise ValueError(f"holdout is one of {', '.join(HOLDOUTS)}, got {holdout!r}")
        self.holdout = holdout
        Screen()
        require()

    def start(self, rng: random.Random, level: int) -> TerminalState:
        """The seed of a chore, and the split of its kinds; no terminal is started yet."""
        seed = rng.getrandbits(32)
        return TerminalState(level, seed, split_of_seed(seed) if self.holdout == "families" else "")

    def turns(self, level: int) -> int:
        """Actions, however many keys each presses."""
        return SIZES[level - 1].turns

    def difficulty(self, state: TerminalState) -> float:
        """Characters and keys that an expert types."""
        return float(sum(map(len, chore_of(state).actions)))

    def content(self, state: TerminalState) -> str:
        """With ``holdout="families"`` the chore's seed, which decides the split whose kinds it has; else its text and a
        checksum of its files and daemons."""
        if state.split:
            base = f"chore {state.level} {state.seed}"
            return next(text for number in count() if split_of(text := f"{base} {number}") == state.split)
        chore = chore_of(state)
        return f"{chore.text} {zlib.crc32(nameless((sorted(chore.files.items()), chore.daemons)).encode()):08x}"

    def observe(self, state: TerminalState) -> str:
        """The screen and the cursor, with what was wrong with the last action; at first the chore and a prompt."""
        screen = state.screen or f"{chore_of(state).text}\n\n{PROMPT.rstrip()}\n[row 1, column {len(PROMPT) + 1}]"
        return f"{screen}\n[{state.problem}]" if state.problem else screen

    def solve(self, state: TerminalState) -> str:
        """The next of the chore's own key presses, then ``<Done>``; it does not read the screen."""
        actions = chore_of(state).actions
        return actions[len(state.typed)] if len(state.typed) < len(actions) else "<Done>"

    def sample_action(self, state: TerminalState, rng: random.Random) -> str:
        """One of seven harmless actions, ``<Done>`` among them."""
        return rng.choice(
            ("ls<Enter>", "pwd<Enter>", "cat *<Enter>", "<Up><Enter>", "cd data<Enter>", "<C-c>", "<Done>")
        )

    def apply(self, state: TerminalState, action: str) -> Transition:
        """Presses the keys in the live terminal; ``<Done>`` compares the workspace, a fault of ours is
        ``env_error``.
        """
        text = command_text(action).strip()
        state = state._replace(problem="")
        try:
            keys = _pressed(text)
        except ValueError as error:
            return Transition(state._replace(problem=str(error)), unparsable(str(error)))
        try:
            live = self._live_terminal(state)
            if not keys:
                return self._finish(state, live)
            screen, mark = _press(live, keys)
        except ProgramEnded as ended:
            return Transition(state, LATE if ended.reason == "time_limit" else BROKEN, terminated=True)
        except SandboxUnavailable:
            raise
        except SandboxStarved as starved:
            return Transition(state, LATE.replace(reason=str(starved)[:300]), terminated=True)
        except (SandboxError, OSError) as error:
            return Transition(state, sandbox_fault(error, "env_error"), terminated=True)
        typed = (*state.typed, text)
        return Transition(state._replace(typed=typed, screen=screen, mark=mark, live=_TERMINALS.give(live)), PRESSED)

    def out_of_turns(self, state: TerminalState, turns: int) -> Verdict:
        """Wrong without a look at the workspace: only ``<Done>`` hands it in; the terminal is closed."""
        live = _TERMINALS.take(state.live)
        if live is not None:
            live.close()
        return wrong(reason=f"not done within {turns} turns")

    def detached(self, state: TerminalState) -> TerminalState:
        """The state without its terminal: the copy types everything again in a new one."""
        return state._replace(live=None)

    def _live_terminal(self, state: TerminalState) -> _LiveTerminal:
        """The terminal that has lived through what was typed; a new one goes through it again."""
        live = _TERMINALS.take(state.live)
        if live is not None:
            if live.terminal.alive:
                return live
            live.close()
        for _ in range(2):
            live, screen, mark = _replayed(state)
            if not state.typed or (screen, mark) == (state.screen, state.mark):
                return live
            live.close()
        raise SandboxError(
            "this terminal cannot be brought back to where it was: the same keys, pressed again, led to another "
            f"{'screen' if screen != state.screen else 'workspace'}"
        )

    def _finish(self, state: TerminalState, live: _LiveTerminal) -> Transition:
        try:
            workspace = live.terminal.copy()
        finally:
            live.close()
        return Transition(state, judged(chore_of(state), workspace), terminated=True)


def require() -> None:
    """Fail unless programs can be run where they may change permissions.

    Raises:
        SandboxUnavailable: no tier holds, or only T2 where it can mount nothing.
    """
    if probes.require() == "T2" and not plans.can_mount():
        raise SandboxUnavailable(
            "rlvr/Terminal-v0 needs sandbox tier T3, or T2 where a mount namespace can be made: programs must be able "
            "to change permissions and times; `rlvr doctor` shows what is missing"
        )


def chore_of(state: TerminalState) -> Chore:
    """The chore that a state is about."""
    return composed(state.level, state.seed, state.split).chore


def _pressed(text: str) -> list[Key]:
    """The keys of an action; none if it is <Done>.

    Raises:
        ValueError: the action is no key presses.
    """
    if not text:
        raise ValueError("no key was pressed")
    if len(text) > MAX_TYPED:
        raise ValueError(f"no more than {MAX_TYPED:,} characters can be typed at once")
    lowered = text.lower()
    if lowered == "<done>":
        return []
    if lowered.endswith("<done>"):
        raise ValueError("<Done> ends the task and must stand alone; nothing was typed")
    return read_keys(text)


def _press(live: _LiveTerminal, keys: list[Key]) -> tuple[str, int]:
    try:
        return live.press(keys)
    except BaseException:
        live.close()
        raise


def _replayed(state: TerminalState) -> tuple[_LiveTerminal, str, int]:
    """A new terminal in which everything was typed again, its screen and the checksum of its workspace."""
    chore = chore_of(state)
    live = _LiveTerminal(
        shared(terminals=True).terminal(
            LIMITS, chore.files, rows=ROWS, columns=COLUMNS, setup=chore.setup, daemons=chore.daemons, env=VARIABLES
        )
    )
    screen, mark = "", 0
    for text in state.typed:
        screen, mark = _press(live, read_keys(text))
    return live, screen, mark
