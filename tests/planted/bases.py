"""Three small bases, as a suite of many environments has them: a question, a folder of files, a set of tools."""

from __future__ import annotations

import json
import string
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Text

LONGEST = 4000  # characters of an observation, and of an action of the action space


def text_space() -> Text:
    """Printable text, perhaps empty."""
    return Text(LONGEST, min_length=0, charset=string.printable)


def printable(text: str) -> str:
    """The text as the observation space holds it: what an agent wrote may be anything."""
    return "".join(letter if letter in string.printable else "?" for letter in text[:LONGEST])


class Question(gym.Env[str, str]):
    """One question and one answer."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def draw(self, rng: np.random.Generator) -> str:
        """Draw a question; its text."""
        raise NotImplementedError

    def score(self, answer: str) -> float:
        """What an answer earns."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return self.draw(self.np_random), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "The answer was graded.", float(self.score(action.strip())), True, False, {}


class Workspace(gym.Env[str, str]):
    """Files that are listed, read and written by one command a turn, and graded when the agent is done."""

    limit = 20
    commands = "ls; cat PATH; write PATH, with the text on the lines below it; done"

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def fill(self, rng: np.random.Generator) -> str:
        """Put files into ``self.files``; the instruction."""
        raise NotImplementedError

    def grade(self) -> float:
        """What the files are worth."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.files: dict[str, str] = {}
        self.turn = 0
        ticket = f"Ticket {self.np_random.integers(1000, 9999)}."
        return f"{ticket} {self.fill(self.np_random)}\nCommands, one a turn: {self.commands}.", {}

    def run(self, command: str, path: str, body: str) -> str:
        """The output of a command."""
        if command == "ls":
            return "\n".join(sorted(self.files))
        if command == "cat":
            return self.files.get(path, "no such file")
        if command == "write":
            self.files[path] = body
            return "written"
        return "unknown command"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        head, _, body = action.partition("\n")
        command, _, path = head.strip().partition(" ")
        if command == "done":
            return "The files were graded.", float(self.grade()), True, False, {}
        output = printable(self.run(command, path.strip(), body))
        return output, 0.0, False, self.turn >= self.limit, {}


class ToolBench(gym.Env[str, str]):
    """Tools that are called by one JSON object a turn; each method ``tool_NAME`` is a tool."""

    limit = 15
    tools = ""  # what the prompt says of them

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def scene(self, rng: np.random.Generator) -> str:
        """Draw a task; what is asked."""
        raise NotImplementedError

    def finish(self, reward: float) -> str:
        """End the episode with this reward."""
        self.reward, self.finished = float(reward), True
        return "The episode is over."

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn, self.reward, self.finished = 0, 0.0, False
        form = 'Call one tool a turn with a JSON object: {"tool": "NAME", "args": {}}.'
        return f"{self.scene(self.np_random)}\n{form} Tools: {self.tools}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn, self.reward = self.turn + 1, 0.0
        try:
            call = json.loads(action)
            output = getattr(self, "tool_" + call["tool"])(**call["args"])
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            output = "error: no such tool, or not its arguments"
        return printable(output), self.reward, self.finished, not self.finished and self.turn >= self.limit, {}


def call(tool: str, **args: Any) -> str:
    """The action that calls a tool."""
    return json.dumps({"tool": tool, "args": args})
