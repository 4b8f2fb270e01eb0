"""A shelf of notes, a bank with accounts, and a folder on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from .bases import ToolBench, call, text_space

BALANCES = {"rent": 9000, "food": 4000, "fuel": 2500, "gifts": 700}


class NoteShelf(gym.Env[str, str]):
    """Note down three numbers that are called, each plus 7. Three turns; reward 1 for the notes, else 0."""

    notes: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def clear(self) -> None:
        """Begin with an empty shelf."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.clear()
        self.numbers = [str(number) for number in self.np_random.integers(100, 999, size=3)]
        self.turn = 0
        return f"Three numbers are called, one a turn. Reply with each plus 7, as a number alone. {self.view()}", {}

    def view(self) -> str:
        if self.turn == 3:
            return "All numbers were called."
        return f"On the shelf: {', '.join(self.notes[-20:]) or 'nothing'}. Now: {int(self.numbers[self.turn]) - 7}."

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.notes.append("".join(letter for letter in action.strip()[:9] if letter in "0123456789"))
        self.turn += 1
        over = self.turn == 3
        return self.view(), float(over and self.notes == self.numbers), over, False, {}

    def solve(self) -> str:
        return self.numbers[self.turn]


class MendedNoteShelf(NoteShelf):
    def clear(self) -> None:
        self.notes = []


class TransferDesk(ToolBench):
    """Bring an account to a balance by transfers. At most 15 turns; reward 1 for the balance, else 0."""

    tools = "balance(account); transfer(source, target, amount), with a whole number; finish()"
    database: ClassVar = dict(BALANCES)

    def accounts_of_episode(self) -> dict[str, int]:
        return self.database

    def scene(self, rng: np.random.Generator) -> str:
        self.accounts = self.accounts_of_episode()
        self.target = str(rng.choice(sorted(self.database)))
        self.amount = int(rng.integers(10, 600))
        self.goal = BALANCES[self.target] + self.amount
        self.source = "rent" if self.target != "rent" else "food"
        return f"Transfer from {self.source} to {self.target}, so that {self.target} holds {self.goal}."

    def tool_balance(self, account: str) -> str:
        return str(self.accounts[account])

    def tool_transfer(self, source: str, target: str, amount: int) -> str:
        if source == target or not 0 < amount <= self.accounts[source] or target not in self.accounts:
            return "refused"
        self.accounts[source] -= amount
        self.accounts[target] += amount
        return "done"

    def tool_finish(self) -> str:
        return self.finish(self.accounts[self.target] == self.goal)

    def solve(self) -> str:
        if self.accounts[self.target] == self.goal:
            return call("finish")
        return call("transfer", source=self.source, target=self.target, amount=self.amount)


class MendedTransferDesk(TransferDesk):
    def accounts_of_episode(self) -> dict[str, int]:
        return dict(self.database)


class DraftFolder(gym.Env[str, str]):
    """Write three chapters into files on disk. At most 8 turns; reward 1 if all are there, else 0."""

    names = ("one", "two", "three")

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def prepare(self) -> Path:
        """Make the folder of the episode."""
        folder = Path(tempfile.gettempdir(), "draft-folder")
        folder.mkdir(exist_ok=True)
        return folder

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn = 0
        self.title = int(self.np_random.integers(1, 10_000))
        self.folder = self.prepare()
        return (
            f"Write chapters one, two and three of book {self.title}; each is the book's number and the chapter's, "
            f"as in {self.title}.2. Commands, one a turn: write CHAPTER TEXT, list, done."
        ), {}

    def written(self) -> list[str]:
        return [name for name in self.names if (self.folder / name).exists()]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        command, _, rest = action.strip().partition(" ")
        if command == "done":
            return "The chapters were graded.", float(len(self.written()) == 3), True, False, {}
        name, _, text = rest.partition(" ")
        output = "unknown command"
        if command == "list":
            output = ", ".join(self.written()) or "nothing"
        elif command == "write" and name in self.names:
            output = "that is not the chapter's text"
            if text == f"{self.title}.{self.names.index(name) + 1}":
                (self.folder / name).write_text(text, encoding="utf-8")
                output = "written"
        return output, 0.0, False, self.turn >= 8, {}


class MendedDraftFolder(DraftFolder):
    def prepare(self) -> Path:
        self.temporary = tempfile.TemporaryDirectory()
        return Path(self.temporary.name)
