"""A price that is bargained for, a number of twenty bits, and sensors."""

from __future__ import annotations

import random
import re
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable

from .bases import ToolBench, call, text_space


class Bargain(gym.Env[str, str]):
    """Find the price at which a dealer sells. At most 30 turns; reward 1 for exactly that price, at the end."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.lowest = int(self.np_random.integers(100, 2000))
        self.price = self.lowest + int(self.np_random.integers(0, 500))
        self.turn = 0
        rules = f"The dealer wants between {self.lowest} and {self.lowest + 499}."
        return f"{rules} Reply: offer N, which is answered, or pay N, which ends the talk.", {}

    def turn_reward(self) -> float:
        return 0.05

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        move = re.fullmatch("(offer|pay) ([0-9]{1,5})", action.strip())
        if move is not None and move[1] == "pay":
            return "The talk is over.", float(int(move[2]) == self.price), True, False, {}
        reply = "The dealer waits."
        if move is not None:
            reply = "Too little." if int(move[2]) < self.price else "Enough."
        return reply, self.turn_reward(), False, self.turn >= 30, {}


class MendedBargain(Bargain):
    def turn_reward(self) -> float:
        return 0.0


class Bits(NamedTuple):
    number: int
    bits: str = ""


class BitByBit(Task[Bits]):
    """Write a number in binary, a bit a turn, and say when it is complete.

    Actions: 0, 1, or end.
    Reward: 1 for the number, at the end.
    """

    system = "Write the number in binary from the first bit to the last, without leading zeros. Each turn: 0, 1 or end."

    def turns(self, level: int) -> int:
        return 24

    def start(self, rng: random.Random, level: int) -> Bits:
        return Bits(rng.randint(70, 4000))

    def observe(self, state: Bits) -> str:
        return f"Number: {state.number}. Bits so far: {state.bits or 'none'}."

    def bit_reward(self) -> float:
        return 0.04

    def apply(self, state: Bits, action: str) -> Transition:
        bit = action.strip()
        if bit == "end":
            is_right = state.bits == f"{state.number:b}"
            return Transition(state, correct() if is_right else Verdict(0.0, "wrong"), terminated=True)
        if bit not in ("0", "1"):
            return Transition(state, unparsable("the actions are 0, 1 and end"), terminated=True)
        reward = self.bit_reward()
        return Transition(Bits(state.number, state.bits + bit), Verdict(reward, "partial" if reward else "wrong"))

    def solve(self, state: Bits) -> str:
        bits = f"{state.number:b}"
        return "end" if state.bits == bits else bits[len(state.bits)]


class MendedBitByBit(BitByBit):
    def bit_reward(self) -> float:
        return 0.0


class SensorRound(ToolBench):
    """Read sensors by tools and report the warmest. At most 15 turns; reward 1 for that sensor, else 0."""

    tools = "read(sensor), with a number from 1 to 40; report(sensor)"

    def scene(self, rng: np.random.Generator) -> str:
        self.values = rng.choice(np.arange(100, 900), size=40, replace=False).tolist()
        self.row = int(rng.integers(0, 5))
        first = 8 * self.row + 1
        return f"Which of the sensors {first} to {first + 7} is the warmest?"

    def reading_reward(self) -> float:
        return 0.1

    def tool_read(self, sensor: int) -> str:
        if not 1 <= sensor <= 40:
            return "no such sensor"
        self.reward = self.reading_reward()
        return f"sensor {sensor}: {self.values[sensor - 1] / 10} degrees"

    def warmest(self) -> int:
        sensors = range(8 * self.row + 1, 8 * self.row + 9)
        return max(sensors, key=lambda sensor: self.values[sensor - 1])

    def tool_report(self, sensor: int) -> str:
        return self.finish(sensor == self.warmest())

    def solve(self) -> str:
        return call("report", sensor=self.warmest())


class MendedSensorRound(SensorRound):
    def reading_reward(self) -> float:
        return 0.0
