"""What a policy is reminded of: the whole transcript, its last turns, its own notes, or a summary.

For policies that are shown nothing but the last observation. A chat that keeps its messages, as this project's rollouts
do, has the whole transcript already.

Each line of the policy's own words begins with "> ", so that no reply can pass for the words of the environment. An
observation never gets longer than the observation space allows: the oldest turns are left out first, and it says so.
Images are not remembered: where an environment shows them, the current one stands beside the transcript.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from rlvr.envs.core.images import text_of, text_space, with_text
from rlvr.envs.wrappers.base import Step, TextWrapper, whole

MAX_CHARS = 100_000  # of the view, where the space does not say


class Exchange(NamedTuple):
    """An action, and what the environment said to it."""

    action: str
    observation: str


class HistoryState(NamedTuple):
    """What is remembered of an episode: its first observation, exchanges, how many were let go, and a note."""

    first: str
    exchanges: tuple[Exchange, ...] = ()
    dropped: int = 0
    note: str = ""


class History(TextWrapper):
    """The first observation and the turns since, in every observation.

    Args:
        turns: how many of the last turns are shown; None for all of them, 0 for the current observation alone.
        max_chars: characters that an observation may have; None for what the observation space allows.
    """

    label = "Notes"  # what stands over the note

    def __init__(self, env: gym.Env[str, str], *, turns: int | None = None, max_chars: int | None = None) -> None:
        super().__init__(env, turns=turns, max_chars=max_chars)
        self._configure(turns, max_chars)

    def _configure(self, turns: int | None, max_chars: int | None) -> None:
        self.turns = turns if turns is None else whole("turns", turns, 0)
        allowed = getattr(text_space(self.observation_space), "max_length", MAX_CHARS)
        self.max_chars = allowed if max_chars is None else min(allowed, whole("max_chars", max_chars))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the observation is the whole history so far."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory = HistoryState(text_of(observation))
        return observation, info

    def step(self, action: str) -> Step:
        """Step; the observation holds the transcript or its last turns."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.memory is not None and not (terminated or truncated):
            self.memory = self.remember(self.memory, Exchange(action, text_of(observation)))
            observation = with_text(observation, self.view(self.memory))
            info = {**info, "role": "user"}  # the view is nobody's words but ours
        return observation, float(reward), terminated, truncated, info

    def remember(self, history: HistoryState, exchange: Exchange) -> HistoryState:
        """What is remembered after one more exchange."""
        exchanges = (*history.exchanges, exchange)
        # The last exchange holds the current observation, so one more than the turns shown is kept.
        surplus = 0 if self.turns is None else max(0, len(exchanges) - max(1, self.turns))
        for old in exchanges[:surplus]:
            history = self.let_go(history, old)
        return history._replace(exchanges=exchanges[surplus:], dropped=history.dropped + surplus)

    def let_go(self, history: HistoryState, exchange: Exchange) -> HistoryState:
        """What is kept of an exchange that leaves the window: nothing, here."""
        return history

    def view(self, history: HistoryState) -> str:
        """The observation that the policy gets."""
        shown = [f"{quoted(action)}\n\n{observation}" for action, observation in history.exchanges]
        if self.turns == 0:
            shown = [history.exchanges[-1].observation]
        return self._fitted(history, shown)

    def _fitted(self, history: HistoryState, shown: list[str]) -> str:
        """First observation, note, and as many of the last turns as there is room for."""
        head = [history.first, *([f"{self.label}:\n{quoted(history.note)}"] if history.note else [])]
        left_out, room = history.dropped, self.max_chars - sum(len(part) + 2 for part in head) - 60
        kept: list[str] = []
        for number, part in enumerate(reversed(shown)):
            room -= len(part) + 2
            if room < 0:
                left_out += len(shown) - number
                break
            kept.append(part)
        if left_out:
            head.append(f"[{left_out:,} earlier turn{'s' * (left_out > 1)} left out]")
        if not kept:  # not even the current observation has room beside the first
            return history.exchanges[-1].observation[: self.max_chars]
        return "\n\n".join([*head, *reversed(kept)])


class Scratchpad(History):
    """The first observation, the policy's own notes, and the current observation.

    Notes stand in tags in a reply, the last ones count, and stay until others are written. They are cut out of what the
    environment gets. The system prompt says so.

    Args:
        tag: name of the tags.
        turns: how many of the last turns are shown beside the notes.
        max_notes: characters of notes that are kept, from their beginning.
    """

    def __init__(self, env: gym.Env[str, str], *, tag: str = "notes", turns: int = 0, max_notes: int = 2_000) -> None:
        TextWrapper.__init__(self, env, tag=tag, turns=turns, max_notes=max_notes)
        if not tag.isalnum():
            raise ValueError(f"tag must be letters and digits, got {tag!r}")
        self._configure(turns, None)
        self.tag, self.max_notes = tag, whole("max_notes", max_notes)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode without notes."""
        observation, info = super().reset(seed=seed, options=options)
        rule = (
            f"You will not see earlier turns again. What you write between <{self.tag}> and </{self.tag}> is shown to "
            f"you in the next turns (at most {self.max_notes:,} characters), and to nobody else."
        )
        return observation, {**info, "system": f"{info['system']}\n{rule}" if info.get("system") else rule}

    def step(self, action: str) -> Step:
        """Cut the notes out of the action, step, and show the notes."""
        if self.memory is None or not isinstance(action, str):
            return super().step(action)
        spoken, notes = without_notes(action, self.tag)
        if notes is not None:
            before, self.memory = self.memory, self.memory._replace(note=notes.strip()[: self.max_notes])
            try:
                return super().step(spoken)
            except BaseException:
                self.memory = before
                raise
        return super().step(spoken)


class SummaryHistory(History):
    """The first observation, a summary of the older turns, and the last ones.

    Args:
        summarise: a function of (summary so far, action, observation) to the next summary; it is called once for each
            turn that leaves the window, so it may be a model. What it raises is raised by ``step``.
        turns: how many of the last turns are shown as they were; at least 1.
        max_summary: characters of the summary that are kept, from its beginning.
    """

    label = "Summary"

    def __init__(
        self,
        env: gym.Env[str, str],
        summarise: Callable[[str, str, str], str],
        *,
        turns: int = 1,
        max_summary: int = 10_000,
    ) -> None:
        TextWrapper.__init__(self, env, summarise=summarise, turns=turns, max_summary=max_summary)
        if not callable(summarise):
            raise TypeError(f"summarise must be a function of (summary, action, observation), got {summarise!r}")
        self._configure(whole("turns", turns), None)
        self.summarise, self.max_summary = summarise, whole("max_summary", max_summary)

    def let_go(self, history: HistoryState, exchange: Exchange) -> HistoryState:
        """Folds the exchange into the summary, cut at ``max_summary`` characters."""
        summary = self.summarise(history.note, exchange.action, exchange.observation)
        if not isinstance(summary, str):
            raise TypeError(f"summarise must return a text, got {type(summary).__name__}")
        return history._replace(note=summary[: self.max_summary])


def quoted(text: str) -> str:
    """Each line behind "> "; whatever ends a line anywhere ends it here."""
    return "\n".join(f"> {line}" for line in text.splitlines()) or ">"


def without_notes(text: str, tag: str) -> tuple[str, str | None]:
    """A reply without its closed notes, and the last of them; None when there are none. In linear time."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    kept: list[str] = []
    notes, position = None, 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        kept.append(text[position:start])
        notes, position = text[start + len(opening) : end], end + len(closing)
    return "".join([*kept, text[position:]]), notes
