"""Arrays, trees and grids.

Observation: a structure, what is done to it, and how to write its content then.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import ClassVar

from rlvr.envs.algorithmic import workings
from rlvr.envs.tasks.answers import Board, ListAnswerTask, listed
from rlvr.envs.tasks.questions import Question, explained
from rlvr.envs.tasks.wording import often

METHODS = {
    "bubble": "A round goes once from left to right and exchanges each two neighbours that are in the wrong order.",
    "selection": "Round k exchanges the smallest number from place k on with the one at place k.",
    "insertion": "Round k takes the number at place k + 1 and inserts it in order among the k numbers before it.",
    "cocktail": "Odd rounds go once from left to right and exchange each two neighbours that are in the wrong order; "
    "even rounds do so from right to left.",
    "gaps": "Round k compares, from left to right, each number with the one 4 - (k mod 3) places further right, and "
    "exchanges them if the left one is larger.",
}


def sorting_round(method: str, numbers: list[int], k: int) -> None:
    """Carry out round k, counted from 1, of a method of ``METHODS``."""
    if method == "selection":
        least = min(range(k - 1, len(numbers)), key=numbers.__getitem__)
        numbers[k - 1], numbers[least] = numbers[least], numbers[k - 1]
    elif method == "insertion":
        number, slot = numbers.pop(k), k
        while slot and numbers[slot - 1] > number:
            slot -= 1
        numbers.insert(slot, number)
    else:
        gap = 4 - k % 3 if method == "gaps" else 1
        slots = range(len(numbers) - gap)
        for i in reversed(slots) if method == "cocktail" and k % 2 == 0 else slots:
            if numbers[i] > numbers[i + gap]:
                numbers[i], numbers[i + gap] = numbers[i + gap], numbers[i]


class SortingTrace(ListAnswerTask):
    """Say what a list is after some rounds of a sorting method.

    Levels 1 to 5: 6, 8, 10, 12 and 16 numbers after 2 to 6 rounds of one of two to five methods.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Level n draws from the first n + 1 of ``METHODS``; the question states the rule, so no name must be known."""
        size, rounds = (6, 8, 10, 12, 16)[level - 1], 1 + level
        method = rng.choice(list(METHODS)[: min(5, level + 1)])
        numbers = rng.sample(range(10, 100), size)
        text = f"A list is sorted in rounds; places count from 1. {METHODS[method]}\nThe list: {listed(numbers)}\n"
        steps = []
        for k in range(1, rounds + 1):
            sorting_round(method, numbers, k)
            steps.append(f"round {k}: {listed(numbers)}")
        return Question(f"{text}What is the list after round {rounds}?", tuple(numbers), "\n".join(steps))


class SearchTree(ListAnswerTask):
    """Build a binary search tree and list it level by level.

    Levels 1 to 5: 6 to 16 keys, listed level by level; removals from level 3 on.
    """

    explain = explained(workings.search_tree, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Inserts in the order told, no balancing; a removed key with two children gives way to its successor."""
        keys = rng.sample(range(10, 100), (6, 8, 9, 12, 16)[level - 1])
        removed = rng.sample(keys, level - 1) if level >= 3 else []
        order = [key for key in keys if key not in removed]
        children: dict[int, list[int | None]] = {}
        self.insert(children, keys)
        root: int | None = keys[0]
        for key in removed:
            root = self.remove(children, root, key)
        gold = []
        row = [root]
        while row:
            nodes = [node for node in row if node is not None]
            gold += nodes
            row = [child for node in nodes for child in children[node]]
        text = f"These keys are inserted into an empty binary search tree, one after the other: {listed(keys)}.\n"
        if removed:
            text += (
                f"Then these are removed, one after the other: {listed(removed)}. (A key with two children is replaced "
            )
            text += "by the next larger key of the tree; one with a single child by that child.)\n"
        text += "List the keys of the tree level by level from the root, each level from left to right."
        return Question(text, tuple(gold), f"{len(order)} keys remain." if removed else "")

    @staticmethod
    def insert(children: dict[int, list[int | None]], keys: list[int]) -> None:
        """Insert the keys; ``children`` holds the left and the right child of each."""
        for key in keys:
            children[key] = [None, None]
            node: int | None = keys[0]
            while node is not None and node != key:
                side = key > node
                if children[node][side] is None:
                    children[node][side] = key
                node = children[node][side]

    def remove(self, children: dict[int, list[int | None]], root: int | None, key: int) -> int | None:
        """Remove a key below ``root``; returns the root afterwards."""
        if root is None:
            return None
        if key != root:
            children[root][key > root] = self.remove(children, children[root][key > root], key)
            return root
        left, right = children.pop(root)
        if left is None or right is None:
            return right if left is None else left
        successor = right
        while (lower := children[successor][0]) is not None:
            successor = lower
        right = self.remove(children, right, successor)
        children[successor] = [left, right]
        return successor


class HashTable(ListAnswerTask):
    """Fill a hash table with open addressing.

    Levels 1 to 5: 4 to 14 keys in 7 to 23 places; steps of one, from level 3 on squares, at 5 a second hash.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Linear probing, then quadratic (3, 4), then double hashing; no key is left out, since every table has room.

        Operations are the places tried.
        """
        slots, count = (7, 11, 17, 23, 17)[level - 1], (4, 7, 9, 12, 14)[level - 1]
        keys = rng.sample(range(20, 500), count)
        table: list[int | None] = [None] * slots
        steps, probes = [], 0
        for key in keys:
            for i in range(slots):
                probes += 1
                step = i if level < 3 else i * i if level < 5 else i * (1 + key % (slots - 1))
                slot = (key % slots + step) % slots
                if table[slot] is None:
                    table[slot] = key
                    steps.append(f"{key}: place {slot}")
                    break
        offset = {3: "i * i", 4: "i * i", 5: f"i * (1 + k mod {slots - 1})"}.get(level, "i")
        text = f"A hash table has the places 0 to {slots - 1}. Key k goes to the first free of the places "
        text += (
            f"(k mod {slots} + {offset}) mod {slots}, for i = 0, 1, 2, ...\nInserted in this order: {listed(keys)}.\n"
        )
        text += "What stands at the places 0, 1, 2, ...? Answer with a list of them all, with 0 for an empty place."
        return Question(text, tuple(key or 0 for key in table), "\n".join(steps), operations=probes)


class BinaryHeap(ListAnswerTask):
    """Carry out insertions and removals on a binary heap.

    Levels 1 to 5: 6 to 15 insertions into a heap with the smallest on top, and 0 to 4 removals of the top.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A min-heap in an array; the working lists the array after each operation."""
        numbers = rng.sample(range(10, 100), (6, 8, 10, 12, 15)[level - 1])
        removals = level - 1
        heap: list[int] = []
        steps = []
        for number in numbers:
            heap.append(number)
            slot = len(heap) - 1
            while slot and heap[(slot - 1) // 2] > heap[slot]:
                above = (slot - 1) // 2
                heap[above], heap[slot] = heap[slot], heap[above]
                slot = above
            steps.append(f"insert {number}: {listed(heap)}")
        for _ in range(removals):
            heap[0] = heap[-1]
            heap.pop()
            self.sink(heap)
            steps.append(f"remove the top: {listed(heap)}")
        text = (
            f"Into an empty binary heap with the smallest on top, kept in an array, are inserted: {listed(numbers)}.\n"
        )
        if removals:
            text += f"Then the top is removed {often(removals)} (the last of the array takes its place and sinks).\n"
        return Question(f"{text}What is the array at the end?", tuple(heap), "\n".join(steps))

    @staticmethod
    def sink(heap: list[int]) -> None:
        """Let the top of an array sink to its place."""
        slot = 0
        while (below := 2 * slot + 1) < len(heap):
            below += below + 1 < len(heap) and heap[below + 1] < heap[below]
            if heap[slot] <= heap[below]:
                break
            heap[slot], heap[below] = heap[below], heap[slot]
            slot = below


Matrix = list[tuple[int, ...]]
_CHANGES: dict[str, Callable[[Matrix], Matrix]] = {
    "turn it by 90 degrees clockwise": lambda matrix: list(zip(*matrix[::-1], strict=True)),
    "turn it by 90 degrees anticlockwise": lambda matrix: list(zip(*matrix, strict=True))[::-1],
    "mirror it left to right": lambda matrix: [row[::-1] for row in matrix],
    "make its rows the columns": lambda matrix: list(zip(*matrix, strict=True)),
}
_CHANGE_NAMES = [*_CHANGES]
_ROW_PAIRS = {rows: list(itertools.combinations(range(rows), 2)) for rows in (3, 4, 5, 6)}
_WAYS = ("row by row", "in a spiral, clockwise from the top left corner")
_TO_99 = bytes(1 + byte % 99 for byte in range(256))
_EXCHANGE = re.compile("exchange rows ([0-9]) and ([0-9])")


def spiral(matrix: Matrix) -> Iterator[int]:
    """The numbers from the top left corner inwards, clockwise."""
    while matrix:
        yield from matrix[0]
        matrix = list(zip(*matrix[1:], strict=True))[::-1]


def with_rows_exchanged(matrix: Matrix, a: int, b: int) -> Matrix:
    """The matrix with rows ``a`` and ``b``, counted from 0, in each other's place."""
    matrix = list(matrix)
    matrix[a], matrix[b] = matrix[b], matrix[a]
    return matrix


class MatrixWalk(ListAnswerTask):
    """Change a matrix step by step, then read it out.

    Levels 1 to 5: 3 x 3 to 5 x 6 matrices after 1 to 6 changes, read by rows or as a spiral.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Turns, mirrors, transposes or exchanges rows at random; from level 4 on always read as a spiral."""
        height, width = ((3, 3), (3, 4), (4, 4), (4, 5), (5, 6))[level - 1]
        numbers = rng.randbytes(height * width).translate(_TO_99)
        matrix = [tuple(numbers[start : start + width]) for start in range(0, height * width, width)]
        shown = "\n".join([" ".join(map(str, row)) for row in matrix])
        steps: list[str] = []
        count = (1, 2, 3, 4, 6)[level - 1]
        spirally, code = divmod(rng.randrange(2 * 150**count), 150**count)
        for _ in range(count):
            code, kind = divmod(code, 5)
            code, pair = divmod(code, 30)  # 3 to 6 rows have 3, 6, 10 or 15 pairs
            if kind < 4:
                what = _CHANGE_NAMES[kind]
                matrix = _CHANGES[what](matrix)
            else:
                rows = _ROW_PAIRS[len(matrix)]
                a, b = rows[pair % len(rows)]
                matrix, what = with_rows_exchanged(matrix, a, b), f"exchange rows {a + 1} and {b + 1}"
            steps.append(what)
        way = _WAYS[spirally or level >= 4]
        gold = tuple(spiral(matrix)) if way is _WAYS[1] else tuple(itertools.chain.from_iterable(matrix))
        text = f"A matrix:\n{shown}\nOne after the other: {', '.join(steps)}.\nThen it is read {way}. "
        return Question(text + "Answer with the numbers.", gold)

    def explain(self, state: Question) -> str:
        """The matrix after all changes."""
        shown, rest = state.text.removeprefix("A matrix:\n").split("\nOne after the other: ")
        matrix: Matrix = [tuple(map(int, row.split())) for row in shown.split("\n")]
        for what in rest.split(".")[0].split(", "):
            if exchange := _EXCHANGE.fullmatch(what):
                matrix = with_rows_exchanged(matrix, int(exchange[1]) - 1, int(exchange[2]) - 1)
            else:
                matrix = _CHANGES[what](matrix)
        after = "\n".join(" ".join(map(str, row)) for row in matrix)
        return f"After the changes:\n{after}"


def next_generation(rows: list[str]) -> list[str]:
    """Conway's rule; what lies beyond the edge is dead."""
    width = len(rows[0])
    grid = [[0] * (width + 2), *([0, *map(int, row), 0] for row in rows), [0] * (width + 2)]
    after = []
    for above, row, below in zip(grid, grid[1:], grid[2:], strict=False):
        sums = [a + b + c for a, b, c in zip(above, row, below, strict=True)]
        counts = [sums[i - 1] + sums[i] + sums[i + 1] for i in range(1, width + 1)]
        after.append("".join("1" if n == 3 or (n == 4 and row[i]) else "0" for i, n in enumerate(counts, 1)))
    return after


class GameOfLife(Board):
    """Carry Conway's Game of Life on by some generations.

    Levels 1 to 5: 5 x 5 to 8 x 8 cells after one, one, two, two and three generations.
    """

    symbols: ClassVar[str] = "01"
    explain = explained(workings.generations, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws boards until three cells live in the end and the board has changed; beyond the edge all is dead."""
        size, count = (5, 6, 6, 7, 8)[level - 1], (1, 1, 2, 2, 3)[level - 1]
        while True:
            rows = first = ["".join(rng.choices("001", k=size)) for _ in range(size)]
            for _ in range(count):
                rows = next_generation(rows)
            if sum(row.count("1") for row in rows) >= 3 and rows != first:
                break
        text = "In the Game of Life a live cell (1) with two or three live neighbours of its eight lives on, a dead "
        text += "one (0) with exactly three comes to life, every other cell is dead next; beyond the edge all is "
        text += "dead.\n"
        text += (
            "\n".join(first)
            + f"\nWhat is the board after {count} generation{'s' * (count > 1)}? Answer with its rows, "
        )
        return Question(f"{text}one per line.", tuple(rows))


class CellularAutomaton(ListAnswerTask):
    """Run a one-dimensional cellular automaton on a ring.

    Levels 1 to 5: a ring of 14 to 30 cells after 1 to 6 steps of a random rule.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A random rule of three neighbours; draws until no state repeats and the last is not all but one alike."""
        width, count = 10 + 4 * level, (1, 2, 3, 4, 6)[level - 1]
        while True:
            rule = rng.choices("01", k=8)
            states = ["".join(rng.choices("01", k=width))]
            for _ in range(count):
                ring = states[-1][-1] + states[-1] + states[-1][0]
                states.append("".join(rule[int(ring[i : i + 3], 2)] for i in range(width)))
            if len(set(states)) == count + 1 and 1 < states[-1].count("1") < width - 1:
                break
        table = listed(f"{code:03b} -> {new}" for code, new in enumerate(rule))
        text = f"Cells in a ring change all at once by what they, with their left and right neighbour, are: {table}.\n"
        text += f"Cells: {states[0]} (the last stands to the left of the first).\nWhat are they after {count} "
        text += f"step{'s' * (count > 1)}? Answer with all {width} digits."
        return Question(text, (states[-1],))

    def explain(self, state: Question) -> str:
        """Each cell with its neighbours, step by step."""
        rule = dict(re.findall(r"([01]{3}) -> ([01])", state.text))
        cells, lines = re.findall(r"Cells: ([01]+)", state.text)[0], list[str]()
        while cells != state.answer[0] or not lines:
            ring = cells[-1] + cells + cells[0]
            around = [ring[k : k + 3] for k in range(len(cells))]
            new = "".join(rule[triple] for triple in around)
            lines.append(f"{cells}, each cell between its neighbours: {' '.join(around)}\nThese become {new}")
            cells = new
        return "\n".join(lines)
