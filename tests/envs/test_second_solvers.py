"""Second solvers that see the observation alone find the expert's answer, on both splits."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv
from rlvr.envs.rewards.extraction import extract

from .plain_solvers import SOLVERS as OTHERS

TASKS = 60  # of each level and split


def numbers(text: str) -> list[int]:
    return [int(word) for word in re.findall(r"\d+", text)]


def line(text: str, start: str) -> str:
    return next(found for found in text.split("\n") if found.startswith(start))[len(start) :]


def robot_walk(text: str) -> str:
    """Steps as complex numbers: a turn is a factor, a step a summand."""
    position, look = 0j, 1j
    for told in text.split("\n")[1:-1]:
        count, _, orders = told.rpartition(" times: ")
        for order in int(count or 1) * orders.split(", "):
            *_, word, last = order.split()
            if order == "turn around":
                look = -look
            elif word == "turn":
                look *= 1j if last == "left" else -1j
            else:
                position += look * int(last) * (1 if word == "forward" else -1)
    names = {1j: "north", -1j: "south", 1: "east", -1: "west"}
    return f"{int(position.real)}, {int(position.imag)}, {names[look]}"


def queue_machine(text: str) -> str:
    first, *orders, _ = text.split("\n")
    queue = deque(numbers(first))
    for order in orders:
        found = numbers(order)
        if order.startswith("take"):
            queue.popleft() if order.endswith("front") else queue.pop()
        elif order.startswith("put"):
            queue.appendleft(found[0]) if order.endswith("front") else queue.append(found[0])
        elif order.startswith("move"):
            queue.rotate(-found[0])
        elif order.startswith("reverse"):
            queue.reverse()
        else:
            queue[0], queue[-1] = queue[-1], queue[0]
    return ", ".join(map(str, queue))


def turing_machine(text: str) -> str:
    found = re.findall(r"state (\w) on (\d): write (\d), move (left|right), state (\w)", text)
    rules = {(state, read): (write, move, after) for state, read, write, move, after in found}
    shown = re.search(r"The tape is (\d+); it starts in state (\w) on the first cell. .* after (\d+) step", text)
    assert shown
    tape, state, at = list(shown[1]), shown[2], 0
    for _ in range(int(shown[3])):
        tape[at], move, state = rules[state, tape[at]]
        at = (at + (1 if move == "right" else -1)) % len(tape)
    return "".join(tape)


def finite_automaton(text: str) -> str:
    table = {(int(a), sign): int(b) for a, rest in re.findall(r"state (\d+): (.*)", text)
             for sign, b in re.findall(r"(\w) -> (\d+)", rest)}  # fmt: skip
    ends = []
    for word in text.partition("in order.\n")[2].split("\n"):
        state = 0
        for sign in word:
            state = table[state, sign]
        ends.append(state)
    return ", ".join(map(str, ends))


def hash_table(text: str) -> str:
    size = numbers(text)[1] + 1
    rule = re.search(r"places \(k mod \d+ \+ (.*)\) mod \d+, for", text)
    assert rule
    steps: dict[str, Callable[[int, int], int]] = {
        "i": lambda i, k: i, "i * i": lambda i, k: i * i,
        f"i * (1 + k mod {size - 1})": lambda i, k: i * (1 + k % (size - 1)),
    }  # fmt: skip
    table = [0] * size
    for key in numbers(line(text, "Inserted in this order: ")):
        places = ((key % size + steps[rule[1]](i, key)) % size for i in range(size * size))
        table[next(place for place in places if not table[place])] = key
    return ", ".join(map(str, table))


def pattern_match(text: str) -> str:
    pattern = re.search(r'match the pattern "(.*?)"', text)
    assert pattern
    regex = re.compile(pattern[1].replace("?", ".").replace("*", ".*"))
    words = re.findall(r"^(\d+)\. (\w+)$", text, re.MULTILINE)
    return ", ".join(number for number, word in words if regex.fullmatch(word))


def anagrams(text: str) -> str:
    words = [(number, "".join(sorted(word))) for number, word in re.findall(r"^(\d+)\. (\w+)$", text, re.MULTILINE)]
    counts = Counter(letters for _, letters in words)
    return ", ".join(number for number, letters in words if counts[letters] > 1)


def letter_counts(text: str) -> str:
    asked, words = text.split("\n")
    listed = re.search(r"each of the letters (.*) occur", asked)
    assert listed
    return ", ".join(str(words.count(letter)) for letter in re.findall(r"\b\w\b", listed[1]))


def cellular_automaton(text: str) -> str:
    rules = dict(re.findall(r"([01]{3}) -> ([01])", text))
    shown = re.search(r"Cells: ([01]+) .*\nWhat are they after (\d+) step", text)
    assert shown
    cells = shown[1]
    for _ in range(int(shown[2])):
        cells = "".join(rules[cells[k - 1] + cells[k] + cells[(k + 1) % len(cells)]] for k in range(len(cells)))
    return cells


SOLVERS = {
    "RobotWalk": robot_walk, "QueueMachine": queue_machine, "TuringMachine": turing_machine,
    "FiniteAutomaton": finite_automaton, "HashTable": hash_table, "PatternMatch": pattern_match, "Anagrams": anagrams,
    "LetterCounts": letter_counts, "CellularAutomaton": cellular_automaton, **OTHERS,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_second_solver_finds_the_same_answer(name: str, level: int, split: str) -> None:
    env = gym.make(f"rlvr/{name}-v0", split=split, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    for index in range(TASKS):
        observation, _ = env.reset(seed=31, options={"level": level, "index": index})
        answer = SOLVERS[name](str(observation))
        assert extract(env.solve()).answer == answer, observation
        assert env.task.apply(env.get_state().state, f"\\boxed{{{answer}}}")[1].reward == 1
