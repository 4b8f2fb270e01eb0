"""Machines that are run by hand.

Observation: the rules of a machine, its start, its program or its input, and what is asked of the end.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from rlvr.envs.algorithmic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, listed
from rlvr.envs.tasks.questions import Question, explained, question_of


class FiniteAutomaton(ListAnswerTask):
    """Find the states in which a finite automaton ends.

    Levels 1 to 5: 3 to 7 states, and 2 to 4 words of 6 to 22 letters.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A random transition table; each word starts in state 0 again."""
        states, letters = 2 + level, "abc"[: 2 + (level > 2)]
        table = {(state, letter): rng.randrange(states) for state in range(states) for letter in letters}
        words = ["".join(rng.choices(letters, k=2 + 4 * level)) for _ in range(2 + level // 2)]
        ends, steps = [], []
        for text in words:
            path = [0]
            for letter in text:
                path.append(table[path[-1], letter])
            ends.append(path[-1])
            steps.append(f"{text}: {' '.join(map(str, path))}")
        lines = [f"state {s}: " + ", ".join(f"{x} -> {table[s, x]}" for x in letters) for s in range(states)]
        text = "A finite automaton starts each word in state 0 and moves by this table:\n" + "\n".join(lines)
        text += "\nIn which state does it end after each of these words? Answer with the numbers, in order.\n"
        return Question(text + "\n".join(words), tuple(ends), "\n".join(steps))


# Name -> how many values it needs on the stack, and what it does to it.
STACK_WORDS = {
    "add": (2, "add: replace the top two by their sum"),
    "sub": (2, "sub: replace the top two by the lower minus the top"),
    "max": (2, "max: replace the top two by the larger"),
    "dup": (1, "dup: copy the top"),
    "swap": (2, "swap: exchange the top two"),
    "drop": (2, "drop: remove the top"),
    "over": (2, "over: copy the second from the top to the top"),
    "rot": (3, "rot: move the third from the top to the top"),
}


def stack_step(stack: list[int], step: str) -> None:
    """Carry out one step: a number is pushed, a word does what ``STACK_WORDS`` says."""
    if step not in STACK_WORDS:
        stack.append(int(step))
    elif step in ("add", "sub", "max"):
        top, low = stack.pop(), stack.pop()
        stack.append(low + top if step == "add" else low - top if step == "sub" else max(low, top))
    elif step == "dup":
        stack.append(stack[-1])
    elif step == "swap":
        stack[-2:] = stack[:-3:-1]
    elif step == "drop":
        stack.pop()
    elif step == "over":
        stack.append(stack[-2])
    else:
        stack.append(stack.pop(-3))


class StackMachine(ListAnswerTask):
    """Run a program on a stack machine.

    Levels 1 to 5: 10, 14, 18, 24 and 32 steps, from 4 up to 8 different operations.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Only words that the stack has values for are drawn, and at least two values stay."""
        commands = ["add", "sub", "swap", *rng.sample(("max", "dup", "drop", "over", "rot"), level)]
        stack: list[int] = []
        steps: list[str] = []
        states: list[str] = []
        while len(steps) < (10, 14, 18, 24, 32)[level - 1] or len(stack) < 2:
            can = [name for name in commands if STACK_WORDS[name][0] <= len(stack)]
            step = rng.choice(can) if can and rng.random() < 0.35 + 0.1 * len(stack) else str(rng.randint(1, 20))
            stack_step(stack, step)
            steps.append(step)
            states.append(f"{step}: {' '.join(map(str, stack))}")
        rules = "\n".join(STACK_WORDS[name][1] for name in commands)
        text = f"A stack machine pushes each number; its words mean:\n{rules}\nProgram: {' '.join(steps)}\n"
        text += "What is on the stack at the end? Answer with the numbers from the bottom to the top."
        return Question(text, tuple(stack), "\n".join(states))


class QueueMachine(ListAnswerTask):
    """Follow a queue with two ends through its commands.

    Levels 1 to 5: 10, 14, 18, 24 and 32 steps; turning the queue from level 2 on, reversing it from level 4 on.
    """

    explain = explained(workings.queue_machine, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws from both ends; a queue of three or fewer only grows, so it never runs empty."""
        queue, steps = rng.sample(range(10, 100), 4), []
        first = list(queue)
        kinds = ["front", "back", "off front", "off back"] + ["turn"] * (level > 1) + ["swap", "reverse"] * (level > 3)
        for _ in range((10, 14, 18, 24, 32)[level - 1]):
            kind = rng.choice(kinds if len(queue) > 3 else kinds[:2])
            value, times = rng.randint(10, 99), rng.randint(1, 3)
            if kind in ("front", "back"):
                queue.insert(0 if kind == "front" else len(queue), value)
                steps.append(f"put {value} at the {kind}")
            elif kind in ("off front", "off back"):
                queue.pop(0 if kind == "off front" else -1)
                steps.append(f"take one away from the {kind[4:]}")
            elif kind == "turn":
                queue = queue[times:] + queue[:times]
                steps.append(f"move the first {times} to the back, keeping their order")
            elif kind == "swap":
                queue[0], queue[-1] = queue[-1], queue[0]
                steps.append("exchange the first and the last")
            else:
                queue.reverse()
                steps.append("reverse the whole queue")
        text = f"A queue holds, from front to back, {listed(first)}. Then:\n" + "\n".join(steps)
        text += "\nWhat does it hold at the end? Answer with the numbers from front to back."
        return Question(text, tuple(queue))


class TuringMachine(ListAnswerTask):
    """Run a Turing machine on a ring of cells.

    Levels 1 to 5: two to four states, a ring of 12 to 20 cells, 6 to 30 steps; three symbols from level 3 on.
    """

    explain = explained(workings.turing_machine, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws rules until the tape has changed and the head has been on more than three cells."""
        states, symbols = ("AB", "AB", "ABC", "ABC", "ABCD")[level - 1], "01" if level < 3 else "012"
        length, count = 10 + 2 * level, 6 * level
        while True:
            rules = {
                (state, symbol): (rng.choice(symbols), rng.choice((-1, 1)), rng.choice(states))
                for state in states
                for symbol in symbols
            }
            tape = rng.choices(symbols, k=length)
            first, state, index = "".join(tape), "A", 0
            visited = {index}
            for _ in range(count):
                tape[index], move, state = rules[state, tape[index]]
                index = (index + move) % length
                visited.add(index)
            if "".join(tape) != first and len(visited) > 3:
                break
        lines = [
            f"state {state} on {symbol}: write {new}, move {'right' if move > 0 else 'left'}, state {then}"
            for (state, symbol), (new, move, then) in rules.items()
        ]
        text = f"A Turing machine works on a ring of {length} cells (right of the last is the first). Rules:\n"
        text += "\n".join(lines) + f"\nThe tape is {first}; it starts in state A on the first cell. What is the tape "
        return Question(f"{text}after {count} steps? Answer with its {length} symbols.", ("".join(tape),))


_NAMED_STAND = re.compile(
    r"\(?(?:x ?[=:] ?)?(-?\d{1,6}), ?(?:y ?[=:] ?)?(-?\d{1,6})\)?,? ?(?:(?:and )?(?:facing|looking|direction ?[=:])? ?)"
    r"(north|east|south|west)\)?",
    re.IGNORECASE,
)
HEADINGS = ((0, 1, "north"), (1, 0, "east"), (0, -1, "south"), (-1, 0, "west"))


class RobotWalk(ListAnswerTask):
    """Find where a robot ends up, and which way it looks.

    Levels 1 to 5: 8, 12, 16, 20 and 26 commands; jumps back from level 2 on, repeated groups from level 3 on.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Runs turns and steps, repeats included; the answer is x, y and the direction."""
        x = y = heading = 0
        lines, path, left = [], [], (8, 12, 16, 20, 26)[level - 1]
        while left > 0:
            repeats = rng.randint(2, 4) if level >= 3 and rng.random() < 0.4 else 1
            group = [self.command(rng, level) for _ in range(rng.randint(2, 3) if repeats > 1 else 1)]
            left -= len(group)
            for _ in range(repeats):
                for turn, steps, _ in group:
                    heading = (heading + turn) % 4
                    dx, dy, name = HEADINGS[heading]
                    x, y = x + steps * dx, y + steps * dy
                    path.append(f"({x}, {y}) {name}")
            group_text = ", ".join(text for _, _, text in group)
            lines.append(f"{repeats} times: {group_text}" if repeats > 1 else group_text)
        text = "A robot stands at (0, 0) and looks north; x grows to the east, y to the north. It is told:\n"
        text += "\n".join(lines) + "\nWhere is it at the end, and where does it look? Answer as x, y, direction."
        return Question(text, (x, y, HEADINGS[heading][2]), "\n".join(path))

    def check(self, question: Question, answer: str) -> str | None:
        """Reads the names of the parts, too, which the question gives in this order: ``x = 3, y = 1, facing east``."""
        stand = _NAMED_STAND.fullmatch(answer)
        return super().check(question, ", ".join(stand.groups()) if stand else answer)

    @staticmethod
    def command(rng: random.Random, level: int) -> tuple[int, int, str]:
        """How often it turns right, how far it goes, and the words for it."""
        kind = rng.choice("rlfff" if level < 2 else "rlufffb")
        steps = rng.randint(1, 9)
        return {
            "r": (1, 0, "turn right"),
            "l": (3, 0, "turn left"),
            "u": (2, 0, "turn around"),
            "f": (0, steps, f"go forward {steps}"),
            "b": (0, -steps, f"go backward {steps}"),
        }[kind]


_BITS = [f"{value:08b}" for value in range(256)]
_BEGINNINGS = [f"Start with the eight bits {bits}. Then, one after the other:" for bits in _BITS]
BitOperation = tuple[str, bytes]  # its text, and what it makes of each of the 256 values


@cache
def bit_operations() -> dict[str, list[BitOperation]]:
    """For each kind, the operation that each of 256 numbers stands for.

    AND keeps two bits at least and OR leaves two as they are, so that no step forgets what came before.
    """
    every, operands = range(256), [1, *range(1, 255), 254]
    operations: dict[str, list[BitOperation]] = {
        "AND": [(f"AND {_BITS[n | 0x88]}", bytes([value & (n | 0x88) for value in every])) for n in operands],
        "OR": [(f"OR {_BITS[n & 0x77]}", bytes([value | (n & 0x77) for value in every])) for n in operands],
        "XOR": [(f"XOR {_BITS[n]}", bytes([value ^ n for value in every])) for n in operands],
        "NOT": [("NOT", bytes([value ^ 255 for value in every]))] * 256,
        "add": [
            (f"add {_BITS[n]} as a binary number, without the ninth bit", bytes([value + n & 255 for value in every]))
            for n in operands
        ],
        "reverse": [("reverse the order of the bits", bytes([int(_BITS[value][::-1], 2) for value in every]))] * 256,
    }
    moves: dict[str, Callable[[int, int], int]] = {
        "shift left by {}, filling with 0": lambda value, by: value << by,
        "shift right by {}, filling with 0": lambda value, by: value >> by,
        "rotate left by {}": lambda value, by: value << by | value >> 8 - by,
        "rotate right by {}": lambda value, by: value >> by | value << 8 - by,
    }
    for text, move in moves.items():
        three = [(text.format(by), bytes([move(value, by) & 255 for value in every])) for by in (1, 2, 3)]
        operations[text.partition(" by")[0]] = [three[n % 3] for n in every]
    return operations


@cache
def bit_choices(kinds: tuple[str, ...]) -> list[Any]:
    """For each of 256 numbers the operations of a kind, and the choices that follow it: never the same kind again.

    The choices at the beginning are returned, those that follow are reached from them.
    """
    operations = bit_operations()
    following: dict[str, list[Any]] = {kind: [] for kind in ("", *kinds)}
    for last, choices in following.items():
        others = [kind for kind in kinds if kind != last]
        drawn = [others[number * len(others) >> 8] for number in range(256)]
        choices += [(operations[kind], following[kind]) for kind in drawn]
    return following[""]


@cache
def _bit_table(text: str) -> bytes:
    return next(table for kind in bit_operations().values() for name, table in kind if name == text)


class BitManipulation(ListAnswerTask):
    """Carry out operations on eight bits.

    Levels 1 to 5: 3, 5, 7, 9 and 12 operations on eight bits; turning them round from level 2 on.
    """

    KINDS = ("AND", "OR", "XOR", "XOR", "NOT", "shift left", "shift right")
    MORE = (*KINDS, "rotate left", "rotate right", "add", "reverse")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Eight bits, never the same operation twice in a row, operands that keep some of the bits before."""
        count, choices = (3, 5, 7, 9, 12)[level - 1], bit_choices(self.MORE if level > 1 else self.KINDS)
        drawn = rng.randbytes(1 + 2 * count)
        value = drawn[0]
        lines = [_BEGINNINGS[value]]
        for kind, operand in zip(drawn[1::2], drawn[2::2]):  # noqa: B905 (of equal length; the check costs 4 % of an item)
            operations, choices = choices[kind]
            text, table = operations[operand]
            value = table[value]
            lines.append(text)
        lines.append("What are the bits at the end? Answer with all eight.")
        return question_of(("\n".join(lines), (_BITS[value],), "", "", "", 0))

    def explain(self, state: Question) -> str:
        """The bits after each operation."""
        first, *texts, _ = state.text.split("\n")
        value, steps = int(first.partition(".")[0][-8:], 2), []
        for text in texts:
            value = _bit_table(text)[value]
            steps.append(f"{text}: {_BITS[value]}")
        return "\n".join(steps)


class RegisterMachine(ListAnswerTask):
    """Run a program of loops on a register machine.

    Levels 1 to 5: loops of 2 to 5 instructions run 2 to 9 times, one to three one after the other.
    """

    explain = explained(workings.register_machine, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counted loops on N, whose count is at least 2; the registers may become negative or large."""
        names = "ABC" if level < 4 else "ABCD"
        registers = {name: rng.randint(1, 30) for name in names}
        start = ", ".join(f"{name} = {value}" for name, value in registers.items())
        program: list[tuple[str, str, str | int]] = []
        for _ in range(1 if level < 3 else 2 if level < 5 else 3):
            program.append(("set", "N", rng.randint(2, 2 + level)))
            head = len(program)
            for _ in range(rng.randint(2, 1 + level) if level > 1 else 2):
                name = rng.choice(names)
                kind = rng.choice(("add", "sub", "set") if level > 2 else ("add", "sub"))
                other: str | int = rng.randint(1, 9)
                if rng.random() < 0.7:
                    other = rng.choice([register for register in names if register != name])
                program.append((kind, name, other))
            program += [("sub", "N", 1), ("jump", "N", head + 1)]
        self.run(program, registers)
        lines = [f"{number}. {self.say(*line)}" for number, line in enumerate(program, 1)]
        text = f"A machine has the registers {start}. It runs this program from line 1 to its end:\n" + "\n".join(lines)
        gold = tuple(registers[name] for name in names)
        return Question(f"{text}\nWhat do {listed(names)} hold at the end? Answer with the numbers, in order.", gold)

    @staticmethod
    def say(kind: str, name: str, other: str | int) -> str:
        """An instruction as the program's text shows it."""
        if kind == "jump":
            return f"if {name} is above 0, go to line {other}"
        return f"{name} = {other}" if kind == "set" else f"{name} = {name} {'+' if kind == 'add' else '-'} {other}"

    @staticmethod
    def run(program: list[tuple[str, str, str | int]], registers: dict[str, int]) -> None:
        """Run it to its end on the registers; N, the counter, is none of theirs afterwards."""
        index = 0
        while index < len(program):
            kind, name, other = program[index]
            value = registers[other] if isinstance(other, str) else other
            index += 1
            if kind == "jump":
                index = value - 1 if registers[name] > 0 else index
            elif kind == "set":
                registers[name] = value
            else:
                registers[name] += value if kind == "add" else -value
        del registers["N"]
