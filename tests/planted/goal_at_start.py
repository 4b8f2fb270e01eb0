"""A thermostat, a shelf of books, and a calendar."""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, unparsable, wrong

from .bases import ToolBench, call, text_space

TITLES = "Atlas Botany Chess Drama Euclid Fables Gothic Hamlet Iliad Jazz".split()


class Thermostat(gym.Env[str, str]):
    """Bring a room to a temperature. At most 10 turns; reward 1 when the room is there, else 0."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def first_temperature(self) -> int:
        return int(self.np_random.integers(self.goal - 2, self.goal + 3))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.goal = int(self.np_random.integers(15, 26))
        self.temperature, self.turn = 0, 0
        self.temperature = self.first_temperature()
        return f"Bring the room to {self.goal} degrees. {self.reading()} Commands, one a turn: heat N, cool N.", {}

    def reading(self) -> str:
        return f"It has {self.temperature} degrees."

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        order = re.fullmatch(r"(heat|cool) ([0-9]{1,2})", action.strip())
        if order is not None:
            self.temperature += int(order[2]) if order[1] == "heat" else -int(order[2])
        reached = self.temperature == self.goal
        return self.reading(), float(reached), reached, not reached and self.turn >= 10, {}


class MendedThermostat(Thermostat):
    def first_temperature(self) -> int:
        return self.goal + int(self.np_random.integers(11, 60)) * int(self.np_random.choice([-1, 1]))


class Shelf(NamedTuple):
    books: tuple[str, ...]


class BookShelf(Task[Shelf]):
    """Put the books of a shelf in alphabetical order.

    Actions: swap N M, or done.
    Reward: 1 for the order, else 0.
    """

    system = "Put the books in alphabetical order. One action a turn: swap N M (positions from 1), or done."

    def turns(self, level: int) -> int:
        return 12

    def shuffled(self, books: list[str], rng: random.Random) -> list[str]:
        rng.shuffle(books)
        return sorted(books)

    def start(self, rng: random.Random, level: int) -> Shelf:
        return Shelf(tuple(self.shuffled(rng.sample(TITLES, 7), rng)))

    def observe(self, state: Shelf) -> str:
        return "\n".join(f"{number}. {title}" for number, title in enumerate(state.books, 1))

    def apply(self, state: Shelf, action: str) -> Transition:
        if action.strip() == "done":
            is_sorted = sorted(state.books) == list(state.books)
            return Transition(state, correct() if is_sorted else wrong(reason="not in order"), terminated=True)
        order = re.fullmatch(r"swap ([1-7]) ([1-7])", action.strip())
        if order is None:
            return Transition(state, unparsable("the actions are swap N M and done"))
        books, first, second = list(state.books), int(order[1]) - 1, int(order[2]) - 1
        books[first], books[second] = books[second], books[first]
        return Transition(Shelf(tuple(books)), wrong(reason="not done"))

    def solve(self, state: Shelf) -> str:
        for number, title in enumerate(sorted(state.books), 1):
            if state.books[number - 1] != title:
                return f"swap {number} {state.books.index(title) + 1}"
        return "done"


class MendedBookShelf(BookShelf):
    def shuffled(self, books: list[str], rng: random.Random) -> list[str]:
        while books[0] == min(books):
            rng.shuffle(books)
        return books


class MeetingRoom(ToolBench):
    """Book a meeting room by tools. At most 15 turns; reward 1 if the calendar is as asked, else 0."""

    tools = "book(room, hour, who), with a whole number as hour; bookings(); finish()"

    def scene(self, rng: np.random.Generator) -> str:
        names = rng.choice(["Ines", "Jonas", "Kemal", "Lotte", "Marek"], size=3, replace=False).tolist()
        hours = rng.choice(np.arange(8, 18), size=3, replace=False).tolist()
        rooms = rng.integers(1, 90, size=3).tolist()
        self.goal = [list(booking) for booking in zip(rooms, hours, names, strict=True)]
        self.booked = self.first_bookings()
        room, hour, who = self.goal[-1]
        return f"Book room {room} at {hour} o'clock for {who}. Leave the other bookings as they are."

    def first_bookings(self) -> list[list[Any]]:
        return list(self.goal)

    def tool_book(self, room: int, hour: int, who: str) -> str:
        if [room, hour, who] in self.booked:
            return "booked already"
        self.booked.append([room, hour, who])
        return "booked"

    def tool_bookings(self) -> str:
        return "\n".join(f"room {room}, {hour} o'clock: {who}" for room, hour, who in self.booked)

    def tool_finish(self) -> str:
        return self.finish(self.booked == self.goal)

    def solve(self) -> str:
        room, hour, who = self.goal[-1]
        return call("finish") if self.booked == self.goal else call("book", room=room, hour=hour, who=who)


class MendedMeetingRoom(MeetingRoom):
    def first_bookings(self) -> list[list[Any]]:
        return self.goal[:-1]
