"""Environments of others, in this process, as tasks of ours: what the bridges to Gymnasium and PettingZoo share.

A state is the episode's seed, the actions so far, a digest of what came of them, and a hold on the foreign environment
that has lived through them. That environment belongs to one episode instance (``rlvr.envs.tools.sessions``). A fork, a
snapshot or a pickle has none, and plays the episode again from its seed in an environment of its own. So they are exact
for any environment that repeats itself from a seed. One that does not is told apart by the digest, and the episode that
was to be brought back ends with an ``env_error`` verdict.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rlvr.envs.core.code_rule import import_named
from rlvr.envs.core.seeding import digest
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import (
    Verdict,
    correct,
    env_error,
    fails_again,
    goes_through,
    provoked_verdict,
    unparsable,
    wrong,
)
from rlvr.envs.rewards.extraction import extract, visible_text
from rlvr.envs.tools.sessions import Handle, Sessions

DRAWS: Final = 100
OTHERS: Final = 10  # actions, by their numbers, that are tried in place of one on which the environment fails
REMEMBERED: Final = 4_096  # beginnings of episodes
LONGEST: Final = 10_000  # characters of an action that a foreign environment is told
Live = TypeVar("Live")
_turn = threading.RLock()  # held in calls into environments that draw from global generators


class BridgedEpisode(NamedTuple):
    """A foreign episode so far: what names it, and what came of the last action.

    Attributes:
        actions: the texts that were actions; what was none is not among them.
        note: why the last text was none, if it was.
        earned: the environment's own return; ``last`` is its last reward.
        record: a digest of all that the environment has said, and of its rewards.
        live: a hold on the foreign environment.
    """

    level: int
    seed: int
    actions: tuple[str, ...]
    text: str
    turn: int = 0
    note: str = ""
    earned: float = 0.0
    last: float = 0.0
    over: bool = False
    record: str = ""
    live: Handle | None = None


class BridgedStep(NamedTuple):
    """What a foreign environment answered. The text is of no use after the end."""

    text: str
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]


class NoAction(ValueError):
    """A text that names no action, or none that is allowed now; the message is told to the policy."""


class OverTooSoon(RuntimeError):
    """An episode that ended before the policy had a turn: another is drawn."""


class BridgedTask(Task[BridgedEpisode], Generic[Live]):
    """Base of tasks that play a foreign environment; the four methods at the end are the bridge.

    Args:
        success: what counts as done: an own return of at least so much, or a function (or "module:function") of the
            return, whether the episode terminated by itself, and the last info.
        reward: "success" gives 1 for an episode that succeeded and 0 for all else, "return" the foreign rewards.
        limit: how many actions an episode may take, texts that are none included.
        system: what the policy is told before the first observation.
        global_random: whether the environment may draw from Python's or numpy's global generators. They are then
            seeded for each call and restored after it, and calls wait for one another. Without, they may overlap.

    Raises:
        ValueError: a setting that is not allowed.
    """

    always_solvable = False
    held_out = "seeds"

    def __init__(
        self,
        success: float | str | Callable[[float, bool, Mapping[str, Any]], bool],
        reward: str,
        limit: int,
        system: str | None,
        global_random: bool,
    ) -> None:
        if reward not in ("success", "return"):
            raise ValueError(f"reward must be success or return, got {reward!r}")
        self.success = success
        self.reward = reward
        self.limit = limit
        self.system = system
        self.global_random = global_random
        self._live: Sessions[Live] = Sessions(self._end_quietly)
        self._begun: dict[tuple[int, int], int] = {}  # a digest of the first text, by level and seed

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_live"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._live = Sessions(self._end_quietly)

    def turns(self, level: int) -> int:
        """The same limit at every level; texts that are no action count."""
        return self.limit

    def start(self, rng: random.Random, level: int) -> BridgedEpisode:
        """Draws seeds until an episode lasts to the policy's first turn; 100 failures raise RuntimeError."""
        for _ in range(DRAWS):
            seed = rng.getrandbits(31)
            try:
                live, text = self._begin(level, seed)
            except OverTooSoon:
                continue
            return BridgedEpisode(level, seed, (), text, record=_recorded("", text), live=self._live.give(live))
        raise RuntimeError(f"none of {DRAWS} episodes of {self.name} lasted until the policy's first turn")

    def content(self, state: BridgedEpisode) -> str:
        """The seed: what hides behind the first observation cannot be seen from outside."""
        return f"{state.level} {state.seed}"

    def observe(self, state: BridgedEpisode) -> str:
        """The environment's text; above it why the last words were no action, if they were none."""
        return f"{state.note}\n\n{state.text}" if state.note else state.text

    def apply(self, state: BridgedEpisode, action: str) -> Transition:
        """Plays the action in the live environment; a text that is no action is a turn. What that raises is
        ``env_error``, or 0 where only this action raises it. A state that cannot be restored is ``env_error``.
        """
        if state.over:
            return Transition(state, self._verdict(state, False, {}), True)
        action_text = self.action_text(action)
        try:
            live = self._take_live(state)
        except Exception as error:
            return Transition(state, env_error(error), True)
        try:
            try:
                with self._own_random(state.seed, len(state.actions) + 1):
                    step = self.play(live, action_text)
            except NoAction as error:
                kept = self._live.give(live)
                after = state._replace(turn=state.turn + 1, note=str(error)[:500], last=0.0, live=kept)
                return Transition(after, unparsable(str(error)[:500]))
            except BaseException:
                self._end_quietly(live)
                raise
            if not math.isfinite(step.reward):
                self._end_quietly(live)
                raise ValueError(f"the reward was {step.reward!r}")
        except Exception as error:
            if self._is_provoked(state, action_text):
                return Transition(state, provoked_verdict(f"the environment {self.name}", error), True)
            return Transition(state, env_error(error), True)
        return self._after(state, action_text, step, live)

    def _is_provoked(self, state: BridgedEpisode, action_text: str) -> bool:
        """Whether the environment, brought to this state again, fails on the action again, and not on another one."""
        sample = self.sample_action(state, random.Random(state.seed))
        others = map(str, range(OTHERS)) if sample is None else [self.action_text(sample)]

        def once(text: str) -> Callable[[], None]:
            return partial(self._play_and_end, self._take_live(state._replace(live=None)), state, text)

        try:
            return fails_again(once(action_text)) and any(goes_through(once(other)) for other in others)
        except Exception:  # the state cannot be restored
            return False

    def _play_and_end(self, live: Live, state: BridgedEpisode, text: str) -> None:
        try:
            with self._own_random(state.seed, len(state.actions) + 1):
                if not math.isfinite(reward := self.play(live, text).reward):
                    raise ValueError(f"the reward was {reward!r}")
        finally:
            self._end_quietly(live)

    def _after(self, state: BridgedEpisode, action_text: str, step: BridgedStep, live: Live) -> Transition:
        actions, turn = (*state.actions, action_text), state.turn + 1
        over = step.terminated or step.truncated
        earned = state.earned + step.reward
        record = _recorded(state.record, step.text, step.reward)
        after = BridgedEpisode(state.level, state.seed, actions, step.text, turn, "", earned, step.reward, over, record)
        if not over:
            after = after._replace(live=self._live.give(live))
            reward = step.reward if self.reward == "return" else 0.0
            return Transition(after, Verdict(reward, "partial", reason="it goes on"))
        self.end(live)
        if step.truncated and not step.terminated and turn >= self.limit:
            return Transition(after, Verdict(0.0, "partial"))  # its limit is ours: `out_of_turns` has the last word
        return Transition(after, self._verdict(after, step.terminated, step.info), True)

    def out_of_turns(self, state: BridgedEpisode, turns: int) -> Verdict:
        """Judged as an end that the environment did not reach: an own return that is enough still counts."""
        verdict = self._verdict(state, False, {})
        if verdict.success:
            return verdict
        refused = state.turn - len(state.actions)
        reason = f"not done within {turns} turns"
        return verdict.replace(reason=reason + f", {refused} of which were no action: {state.note}" * bool(state.note))

    def _verdict(self, state: BridgedEpisode, terminated: bool, info: Mapping[str, Any]) -> Verdict:
        success = self.success
        if isinstance(success, (int, float)):
            done = state.earned >= success - 1e-9
        else:
            done = bool(function_of(success)(state.earned, terminated, info))
        verdict = correct(reason="done") if done else wrong(reason="not done")
        reward = state.last if self.reward == "return" else verdict.reward
        return verdict.replace(reward=reward, parts={"its own return": state.earned})

    def detached(self, state: BridgedEpisode) -> BridgedEpisode:
        """The state without the environment: a copy plays the actions again from the seed."""
        return state._replace(live=None)

    def close(self) -> None:
        """Ends the environments that no episode is stepping."""
        self._live.clear()

    # the foreign environments

    def _take_live(self, state: BridgedEpisode) -> Live:
        """The foreign environment of this state, or one that has lived through the same; nobody else has it then."""
        reused = self._live.take(state.live)
        if reused is not None:
            return reused
        live, text = self._begin(state.level, state.seed)
        record = _recorded("", text)
        try:
            for index, action in enumerate(state.actions):
                with self._own_random(state.seed, index + 1):
                    step = self.play(live, action)
                record = _recorded(record, step.text, step.reward)
            if record != state.record:
                raise RuntimeError(
                    "the environment does not repeat itself from a seed, so the episode cannot be restored"
                )
        except BaseException:
            self._end_quietly(live)
            raise
        return live

    def _begin(self, level: int, seed: int) -> tuple[Live, str]:
        with self._own_random(seed, 0):
            live = self.begin(level)
            try:
                text = self.first(live, seed)
                self._require_repeated(level, seed, text)
            except BaseException:
                self._end_quietly(live)
                raise
            return live, text

    def _require_repeated(self, level: int, seed: int, text: str) -> None:
        """Check that a seed begins as it did before: the members of a group are compared on one task."""
        begun = digest("begun", text)
        if self._begun.setdefault((level, seed), begun) != begun:
            raise RuntimeError(f"the environment does not repeat itself from a seed: {seed} began otherwise before")
        if len(self._begun) > REMEMBERED:
            self._begun.pop(next(iter(self._begun)), None)

    def _end_quietly(self, live: Live) -> None:
        # `suppress` is a name of the module, which at the interpreter's end is gone before the last sessions are.
        try:  # noqa: SIM105
            self.end(live)
        except Exception:
            pass

    @contextmanager
    def _own_random(self, seed: int, turn: int) -> Iterator[None]:
        """Python's and numpy's global generators as the episode's own, meanwhile."""
        if not self.global_random:
            yield
            return
        import numpy as np

        with _turn:
            before = random.getstate(), np.random.get_state()
            number = digest("played", seed, turn) & 0xFFFFFFFF
            random.seed(number)
            np.random.seed(number)
            try:
                yield
            finally:
                random.setstate(before[0])
                np.random.set_state(before[1])

    # the bridge

    def action_text(self, action: str) -> str:
        """What of a reply is the action."""
        return clean_action(action)

    def begin(self, level: int) -> Live:
        """A new foreign environment of this level, not reset yet."""
        raise NotImplementedError

    def first(self, live: Live, seed: int) -> str:
        """Reset it; the first observation."""
        raise NotImplementedError

    def play(self, live: Live, action_text: str) -> BridgedStep:
        """What comes of the policy's words. Raises `NoAction` before anything has changed."""
        raise NotImplementedError

    def end(self, live: Live) -> None:
        """Close a foreign environment that no state needs any more."""


def _recorded(before: str, text: str, reward: float = 0.0) -> str:
    return f"{digest('record', before, text, repr(reward)):032x}"


def clean_action(action: str) -> str:
    """What of a reply is the action: the last box, else the text after the thinking."""
    answer = extract(action, ("boxed", "tag"))
    return plain_text(answer.answer if answer.answer is not None else visible_text(action))


def plain_text(text: str) -> str:
    """A text as UTF-8 can hold it, of at most ``LONGEST`` characters, without blanks around it."""
    return text.encode("utf-8", "replace").decode().strip()[-LONGEST:].strip()


def choice(action_text: str, names: Sequence[str] | None, count: int, start: int = 0) -> int:
    """The number of an action that is said by its name or by its number.

    Raises:
        NoAction: it is neither.
    """
    text = " ".join(action_text.split()).casefold()
    folded_names = [name.casefold() for name in names or ()]
    if text in folded_names:
        return start + folded_names.index(text)
    if not folded_names and text.isascii() and text.isdigit() and len(text) < 10 and start <= int(text) < start + count:
        return int(text)
    allowed = ", ".join(names) if names else f"{start} to {start + count - 1}"
    raise NoAction(f"{action_text[:60]!r} is no action; there are: {allowed}")


def function_of(value: Any) -> Callable[..., Any]:
    """A function, or the one that "module:function" names.

    Raises:
        ValueError: it names none, or settings may not name code (`CodeRefused`).
    """
    if callable(value):
        return value  # type: ignore[no-any-return]
    function = import_named(str(value))
    if not callable(function):
        raise ValueError(f"{value!r} is no function")
    return function  # type: ignore[no-any-return]


def package_of(value: Any) -> str:
    """The package that a function, or what "module:function" names, is in; "" where nobody knows."""
    module = value.partition(":")[0] if isinstance(value, str) else getattr(value, "__module__", None) or ""
    return module.partition(".")[0]
