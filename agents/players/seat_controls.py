"""The control beside what a trained seat wrote: the same match with another player in that seat.

The law of docs/verification.md: where another seat has no reply, or the game fails on its move, that is the trained
seat's doing if it does not happen in the control.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from rlvr.agents.conversation import Message
from rlvr.envs.players.game import IllegalText
from rlvr.envs.players.single import AsSingleAgent, SeatEpisode

MATCHES: Final = 20  # tried for one that lasts as long


def control_match(
    task: AsSingleAgent, start: SeatEpisode, seat: int, texts: Mapping[int, Sequence[str]]
) -> tuple[SeatEpisode, list[Message]]:
    """The match with another player in the trained seat, up to the turn of ``seat`` that follows its last text.

    The expert has the trained seat, or random moves where the expert's match ends before that or there is none.

    Args:
        start: before the first move.
        seat: of another player.
        texts: what each of the other seats wrote, in order.

    Returns:
        The match there, or at its end where all that were tried end before; and what ``seat`` has read and written
        until then, which ends with what it reads.
    """
    longest: tuple[SeatEpisode, list[Message]] | None = None
    for seed in range(MATCHES):
        tried = _played(task, start, seat, texts, random.Random(seed) if seed else None)
        if task.waits_for(tried[0]) == seat:
            return tried
        if longest is None or len(tried[1]) > len(longest[1]):
            longest = tried
    assert longest is not None  # for the type checker
    return longest


def _played(
    task: AsSingleAgent,
    start: SeatEpisode,
    seat: int,
    texts: Mapping[int, Sequence[str]],
    player_rng: random.Random | None,
) -> tuple[SeatEpisode, list[Message]]:
    state, rng = start, player_rng or random.Random(0)
    left = {other: deque(written) for other, written in texts.items()}
    messages: list[Message] = []
    read: int | None = None
    while task.referee.to_move(state.match):
        mover = task.waits_for(state)
        if mover is None:
            state = task.apply(state, _own_action(task, state, player_rng, rng)).state
            continue
        text = left[mover].popleft() if left.get(mover) else None
        if mover == seat:
            messages.append({"role": "user", "content": observed(task, state, seat, read)})
            read = len(state.match.log)
            if text is None:
                break
            messages.append({"role": "assistant", "content": text})
        state = moved(task, state, mover, text or "", rng)
    if messages and messages[-1]["role"] == "assistant":
        messages.pop()
    return state, messages or [{"role": "user", "content": observed(task, start, seat, None)}]


def observed(task: AsSingleAgent, state: SeatEpisode, seat: int, read: int | None) -> str:
    """What a seat reads that has read so many events; None before its first turn."""
    if read is None:
        return task.first_text(state.match, seat)
    return task.referee.observe(state.match, seat, read)


def moved(task: AsSingleAgent, state: SeatEpisode, seat: int, text: str, rng: random.Random) -> SeatEpisode:
    """The match after a seat's text, or after a random move where that is illegal: a control forfeits nothing."""
    referee, match = task.referee, state.match
    try:
        move = referee.read(match, seat, text)
    except IllegalText:
        move = rng.choice(referee.legal(match, seat))
    return task.advanced(state._replace(match=referee.play(match, seat, move)))


def _own_action(task: AsSingleAgent, state: SeatEpisode, player_rng: random.Random | None, rng: random.Random) -> str:
    """The expert's, where there is one and no ``player_rng``, else a random one."""
    if player_rng is None:
        with suppress(NotImplementedError):
            return task.solve(state)
    return task.sample_action(state, rng)
