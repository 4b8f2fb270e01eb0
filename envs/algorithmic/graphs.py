"""Graphs, with numbers for nodes.

Observation: nodes, the edges between them, and what is asked of the graph.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from heapq import heappop, heappush
from itertools import combinations, pairwise
from typing import ClassVar

from rlvr.envs.algorithmic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, listed
from rlvr.envs.tasks.draws import distinct, permuted, picked
from rlvr.envs.tasks.questions import (
    CheckedAnswerTask,
    ExactAnswerTask,
    Question,
    explained,
    question_of,
    whole_numbers,
)

Edge = tuple[int, int]
SIZES = (6, 8, 10, 13, 16)  # nodes of levels 1 to 5


def labels(rng: random.Random, size: int) -> list[int]:
    """The nodes 1 to ``size`` in a random order."""
    return rng.sample(range(1, size + 1), size)


def tree(rng: random.Random, nodes: list[int]) -> set[Edge]:
    """A random tree on the nodes; each edge has its smaller end first."""
    edges = set()
    for index in range(1, len(nodes)):
        a, b = nodes[index], nodes[rng.randrange(index)]
        edges.add((min(a, b), max(a, b)))
    return edges


@lru_cache(64)
def pairs(size: int) -> tuple[Edge, ...]:
    """All edges that a graph on 1 to ``size`` may have, each with its smaller end first."""
    return tuple(combinations(range(1, size + 1), 2))


@cache
def written_edges() -> list[list[str]]:
    """For two nodes below 32 the edge between them as it is written, its smaller end first."""
    return [[f"{min(a, b)}-{max(a, b)}" for b in range(32)] for a in range(32)]


@cache
def unlike_pairs(size: int, colours: int) -> tuple[int, bytes, bytes]:
    """The pairs of indices below ``size`` with unlike remainders on division by the number of colours.

    How many there are, and the first and the second index of each, as tables for ``bytes.translate``.
    """
    pairs = [(i, j) for i, j in combinations(range(size), 2) if i % colours != j % colours]
    first, second = (bytes(ends).ljust(256, b"\0") for ends in zip(*pairs, strict=True))
    return len(pairs), first, second


def connected(rng: random.Random, size: int, extra: int) -> list[Edge]:
    """The edges of a connected graph on 1 to ``size``, in a random order: a tree and ``extra`` more."""
    edges = tree(rng, labels(rng, size))
    others = [pair for pair in pairs(size) if pair not in edges]
    chosen = sorted(edges) + rng.sample(others, min(extra, len(others)))
    rng.shuffle(chosen)
    return chosen


def edge_list(edges: Iterable[Edge], sign: str = "-") -> str:
    return listed(f"{a}{sign}{b}" for a, b in edges)


def reached(start: int, edges: Iterable[Edge]) -> list[int]:
    """The nodes that can be reached along the arrows, in the order they are found."""
    following: dict[int, list[int]] = {}
    for a, b in edges:
        following.setdefault(a, []).append(b)
    visited = [start]
    for node in visited:
        visited += [other for other in dict.fromkeys(following.get(node, ())) if other not in visited]
    return visited


def both_ways(edges: Iterable[Edge]) -> list[Edge]:
    return [edge for a, b in edges for edge in ((a, b), (b, a))]


_SIZE = re.compile("nodes 1 to ([0-9]+)")
_EDGE = re.compile("([0-9]+)-([0-9]+)")


_ROADS, _FROM = re.compile("([0-9]+)([->])([0-9]+): ([0-9]+)"), re.compile("way from ([0-9]+)")


def steps_from(start: int, roads: Mapping[int, list[int]] | Sequence[list[int]]) -> list[int]:
    """Dijkstra (1959): every node that can be reached, from the nearest, as 32 times its distance plus itself.

    ``roads`` has for each node 32 times the length of each road plus where it leads; numbers below 32 are nodes.
    """
    distances: list[int] = []
    queue = [start]
    best = [1 << 30] * 32
    best[start] = start
    while queue:
        step = heappop(queue)
        node = step & 31
        if step == best[node]:  # else a shorter way was found after this one
            distances.append(step)
            step -= node
            for road in roads[node]:
                further = step + road
                if further < best[node := road & 31]:
                    best[node] = further
                    heappush(queue, further)
    return distances


@cache
def road_texts(sign: str) -> list[tuple[list[str], int, int]]:
    """The roads from a to b of each length, with a and b: both ways for each pair of nodes up to 16, by the larger."""
    ends = [(a, b) for b in range(1, 17) for a in range(1, b)]
    lengths = range(max(_LENGTHS) + 1)
    return [([f"{x}{sign}{y}: {length}" for length in lengths], x, y) for a, b in ends for x, y in ((a, b), (b, a))]


_LENGTHS = [2 + (byte >> 1) % 29 for byte in range(256)]  # the last bit of a byte is for the direction


class ShortestPath(ExactAnswerTask):
    """Find the length of the shortest way between two nodes.

    Levels 1 to 5: 6, 8, 10, 13 and 16 nodes with 9, 13, 17, 23 and 29 roads; from level 3 on one-way.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The goal has no direct road from the start, above level 1 it is the farthest node."""
        sign, kind = (">", "one-way roads (a>b leads from a to b)") if level >= 3 else ("-", "roads")
        size = SIZES[level - 1]
        while True:
            shown, following = self.roads(rng, size, sign)
            choice, first = divmod(rng.getrandbits(32), size)
            for start in (*range(first + 1, size + 1), *range(1, first + 1)):
                near = {start, *[road & 31 for road in following[start]]}
                steps = steps_from(start, following)
                if level > 1:  # the farthest is the last one that is not near: it is looked for from the end
                    while steps and steps[-1] & 31 in near:
                        steps.pop()
                    goals = steps[-1:]
                else:
                    goals = [step for step in steps if step & 31 not in near]
                if goals:
                    distance, goal = divmod(goals[choice % len(goals)], 32)
                    ask = f"How long is the shortest way from {start} to {goal}?"
                    text = f"These {kind} have these lengths: {shown}.\n{ask}"
                    return question_of((text, distance, "", "", shown, 0))

    @staticmethod
    def roads(rng: random.Random, size: int, sign: str) -> tuple[str, list[list[int]]]:
        """Random roads, as they are shown, and for ``steps_from``; with the sign ``-`` they lead both ways."""
        count, ends, both = 2 * size - 3, road_texts(sign), sign == "-"
        shown: list[str] = []
        following: list[list[int]] = [[] for _ in range(size + 1)]  # list[int]() takes fifteen times as long
        for code, byte in zip(distinct(rng, size * (size - 1) // 2, count), rng.randbytes(count), strict=True):
            texts, a, b = ends[2 * code + (byte & 1)]
            length = _LENGTHS[byte]
            shown.append(texts[length])
            length <<= 5
            following[a].append(length | b)
            if both:
                following[b].append(length | a)
        return ", ".join(shown), following

    def explain(self, state: Question) -> str:
        """The distances of all nodes, from the nearest."""
        start = int(_FROM.findall(state.text)[0])
        following: dict[int, list[int]] = defaultdict(list)
        for a, sign, b, length in _ROADS.findall(state.text):
            following[int(a)].append(int(length) << 5 | int(b))
            if sign == "-":
                following[int(b)].append(int(length) << 5 | int(a))
        distances = [divmod(step, 32) for step in steps_from(start, following)]
        return f"Distances from {start}: {', '.join(f'{node}: {distance}' for distance, node in distances)}"


class Components(ListAnswerTask):
    """Find the sizes of a graph's connected components.

    Levels 1 to 5: 12, 16, 20, 26 and 34 nodes in two to seven components.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A random tree for each component and a few edges more; sizes are listed from the largest."""
        size = (12, 16, 20, 26, 34)[level - 1]
        nodes = permuted(rng, bytes(range(1, size + 1)))
        cuts = sorted(picked(rng, range(1, size), 1 + rng.randrange(1 + level)))
        drawn = iter(rng.randbytes(2 * size))  # one for each edge of a tree, two for each of the others
        edges: dict[Edge, bool] = {}
        sizes, start = [], 0
        for end in (*cuts, size):
            others = [start + 1 + (next(drawn) * (end - start - 1) >> 8) for _ in range((end - start) // 4)]
            for index in (*range(start + 1, end), *others):
                byte = next(drawn)
                edges[index, start + (byte * (index - start) >> 8)] = byte & 1 > 0
            sizes.append(end - start)
            start = end
        sizes.sort(reverse=True)
        shown = [f"{nodes[b]}-{nodes[a]}" if back else f"{nodes[a]}-{nodes[b]}" for (a, b), back in edges.items()]
        text = (
            f"A graph has the nodes 1 to {size} and the edges {', '.join(picked(rng, shown, len(shown)))}.\nWhat are "
            "the sizes of its connected components, those of single nodes included? Answer with the sizes, the "
            "largest first."
        )
        return Question(text, tuple(sizes))

    def explain(self, state: Question) -> str:
        """The members of each component."""
        size = int(_SIZE.findall(state.text)[0])
        edges = both_ways((int(a), int(b)) for a, b in _EDGE.findall(state.text))
        left, rows = set(range(1, size + 1)), ["The components:"]
        while left:
            part = sorted(reached(min(left), edges))
            rows.append(" ".join(map(str, part)))
            left.difference_update(part)
        return "\n".join(rows)


class Reachability(ListAnswerTask):
    """Find all nodes that can be reached along arrows.

    Levels 1 to 5: 8, 11, 14, 18 and 24 nodes, and about 1.3 arrows for each.
    """

    ordered: ClassVar[bool] = False

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws arrows until at least two nodes can be reached and two cannot."""
        size = (8, 11, 14, 18, 24)[level - 1]
        while True:
            arrows = list({tuple(rng.sample(range(1, size + 1), 2)): 0 for _ in range(size * 4 // 3)})
            edges = [(a, b) for a, b in arrows]
            visited = reached(start := rng.randint(1, size), edges)
            if 3 <= len(visited) <= size - 2:
                break
        arrow_list = edge_list(edges, ">")
        text = f"A graph has the nodes 1 to {size} and the arrows {arrow_list}.\nWhich nodes can be reached from "
        text += f"{start} along the arrows, in any number of steps? Answer with all of them, without {start} itself."
        return Question(text, tuple(sorted(visited[1:])), f"Found one after the other: {' '.join(map(str, visited))}")


class TopologicalOrder(CheckedAnswerTask):
    """Put tasks in an order that respects what comes before what.

    Levels 1 to 5: 6, 8, 10, 13 and 16 tasks, each with 1.5 conditions on the average.
    """

    explain = explained(workings.topological, "text", "answer_text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Arrows agree with a drawn order, so that one exists; most neighbours in it are tied by an arrow."""
        size = SIZES[level - 1]
        order = picked(rng, range(1, size + 1), size)
        edges = {pair: None for byte, pair in zip(rng.randbytes(size - 1), pairwise(order), strict=True) if byte < 154}
        every, count = pairs(size), size * 3 // 2
        while len(edges) < count:
            for byte in rng.randbytes(2 * size):
                i, j = every[byte * len(every) >> 8]
                edges[order[i - 1], order[j - 1]] = None
                if len(edges) >= count:
                    break
        arrows = picked(rng, edges, len(edges))
        text = f"Tasks 1 to {size} are to be done one at a time, where a>b means that a must be done before b: "
        text += f"{edge_list(arrows, '>')}.\nGive an order of all the tasks that respects this."
        return Question(text, (size, tuple(arrows)), answer_text=listed(order))

    def check(self, question: Question, answer: str) -> str | None:
        """Every task once, and no arrow backwards; any such order is right."""
        size, arrows = question.answer
        numbers = whole_numbers(answer)
        if sorted(numbers) != list(range(1, size + 1)):
            return f"it does not name each of 1 to {size} once"
        position = {number: index for index, number in enumerate(numbers)}
        return next((f"{a} does not come before {b}" for a, b in arrows if position[a] > position[b]), None)


class SpanningTree(ExactAnswerTask):
    """Find the lowest price of cables that connect everything.

    Levels 1 to 5: 6, 8, 10, 13 and 16 nodes with 5 to 15 edges more than a tree.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """The optimum by Kruskal's rule: cheapest cables first, none that closes a ring."""
        size = SIZES[level - 1]
        weights = {edge: rng.randint(1, 40) for edge in connected(rng, size, size - 1)}
        root, taken = list(range(size + 1)), []
        for (a, b), weight in sorted(weights.items(), key=lambda item: (item[1], item[0])):
            if root[a] != root[b]:
                root = [root[a] if other == root[b] else other for other in root]
                taken.append((a, b, weight))
        total = sum(weight for _, _, weight in taken)
        cables = listed(f"{a}-{b}: {weight}" for (a, b), weight in weights.items())
        text = f"These cables are possible, with their prices: {cables}.\n"
        text += f"What is the lowest total price that connects all of 1 to {size}?"
        steps = "\n".join(f"{a}-{b}: {weight}" for a, b, weight in taken)
        return Question(text, total, f"Cheapest first, without closing rings:\n{steps}\nTogether {total}.")


class Bipartition(ListAnswerTask):
    """Divide people into two teams, given pairs that are in different ones.

    Levels 1 to 5: 8, 10, 13, 16 and 20 nodes with a third more edges than a tree has.
    """

    ordered: ClassVar[bool] = False
    explain = explained(workings.bipartition, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """A tree of conflicts decides every team; further pairs agree with it, so the answer is unique."""
        size = (8, 10, 13, 16, 20)[level - 1]
        nodes = labels(rng, size)
        side, edges = {nodes[0]: 0}, {}
        for index in range(1, size):
            a, b = nodes[index], rng.choice(nodes[:index])
            side[a] = 1 - side[b]
            edges[a, b] = 0
        for _ in range(size // 3):
            a, b = rng.sample(nodes, 2)
            if side[a] != side[b] and (b, a) not in edges:
                edges[a, b] = 0
        order = rng.sample(sorted(edges), len(edges))
        text = f"People 1 to {size} form two teams. These pairs are in different teams: {edge_list(order)}.\n"
        gold = [node for node in range(1, size + 1) if side[node] == side[1]]
        return Question(f"{text}Who is in the team of 1? Answer with all its members, 1 included.", tuple(gold))


class Colouring(CheckedAnswerTask):
    """Colour a graph so that neighbours differ.

    Levels 1 to 5: 7, 9, 12, 15 and 18 nodes, three colours (four at level 5), and twice as many edges as nodes.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws edges only between differently coloured nodes of a hidden colouring."""
        size, colours = (7, 9, 12, 15, 18)[level - 1], 3 + (level == 5)
        among, first, second = unlike_pairs(size, colours)
        nodes = permuted(rng, bytes(range(1, size + 1)))  # the nodes k, k + colours, k + 2 colours, ... have one colour
        drawn = distinct(rng, among, 2 * size if level < 5 else 3 * size)
        written, table = written_edges(), nodes.ljust(256, b"\0")
        ends = zip(drawn.translate(first.translate(table)), drawn.translate(second.translate(table)), strict=True)
        edges = ", ".join([written[a][b] for a, b in ends])
        text = (
            f"Give each of the nodes 1 to {size} one of the colours 1 to {colours} so that these pairs differ: {edges}."
            "\nAnswer with the colours of the nodes 1, 2, 3, ... in this order."
        )
        return question_of((text, (colours, nodes), "", "", "", 0))

    @staticmethod
    def hidden(state: Question) -> str:
        """The colouring that the edges were drawn for."""
        colours, nodes = state.answer
        return listed(nodes.index(node) % colours + 1 for node in range(1, len(nodes) + 1))

    def explain(self, state: Question) -> str:
        """The nodes with the fewest colours left first; a check of each pair where that leads to no colouring."""
        return workings.colouring(state.text, self.hidden(state))

    def direct_answer(self, state: Question) -> str:
        """The colouring that ``explain`` finds."""
        coloured = workings.coloured(state.text)
        colours = self.hidden(state) if coloured is None else listed(coloured[1][node] for node in sorted(coloured[1]))
        return f"\\boxed{{{colours}}}"

    def check(self, question: Question, answer: str) -> str | None:
        """Any proper colouring with the colours allowed is right."""
        colours, nodes = question.answer
        numbers = whole_numbers(answer, len(nodes))
        if not all(1 <= number <= colours for number in numbers):
            return f"the colours are 1 to {colours}"
        edges = workings.edges_in(question.text.partition("differ: ")[2])
        return next((f"{a} and {b} have one colour" for a, b in edges if numbers[a - 1] == numbers[b - 1]), None)


class HamiltonianPath(CheckedAnswerTask):
    """Find a path through a graph that visits every node once.

    Levels 1 to 5: 7, 9, 11, 14 and 17 nodes with half as many edges again as the path has.
    """

    explain = explained(workings.hamiltonian, "text", "answer_text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Hides a path among edges that are half as many again; the path need not return."""
        size = SIZES[level - 1] + 1
        path = labels(rng, size)
        edges = {(min(pair), max(pair)) for pair in pairwise(path)}
        while len(edges) < size * 3 // 2:
            a, b = sorted(rng.sample(range(1, size + 1), 2))
            edges.add((a, b))
        order = rng.sample(sorted(edges), len(edges))
        text = f"A graph has the nodes 1 to {size} and the edges {edge_list(order)}.\n"
        text += "Give a path along edges that visits every node exactly once. Answer with the nodes in order."
        return Question(text, (size, tuple(order)), answer_text=listed(path))

    def check(self, question: Question, answer: str) -> str | None:
        """Each node once, along edges only, in any direction."""
        size, edges = question.answer
        numbers = whole_numbers(answer)
        if sorted(numbers) != list(range(1, size + 1)):
            return f"it does not visit each of 1 to {size} once"
        both_ways = {*edges, *((b, a) for a, b in edges)}
        return next((f"there is no edge {a}-{b}" for a, b in pairwise(numbers) if (a, b) not in both_ways), None)


def max_flow(capacity: dict[Edge, int], source: int, sink: int) -> int:
    """The value of the largest flow (Edmonds and Karp: along shortest paths)."""
    left = dict(capacity)
    following: dict[int, list[int]] = {}
    for a, b in capacity:
        left.setdefault((b, a), 0)
        following.setdefault(a, []).append(b)
        following.setdefault(b, []).append(a)
    total = 0
    while True:
        before = {source: source}
        queue = [source]
        for node in queue:
            for other in following[node]:
                if other not in before and left[node, other]:
                    before[other] = node
                    queue.append(other)
        if sink not in before:
            return total
        path, node = [], sink
        while node != source:
            path.append((before[node], node))
            node = before[node]
        amount = min(left[edge] for edge in path)
        for a, b in path:
            left[a, b] -= amount
            left[b, a] += amount
        total += amount


class MaxFlow(ExactAnswerTask):
    """Find how much can flow through a network of pipes.

    Levels 1 to 5: 5 to 10 nodes, each with two or three pipes onwards.
    """

    explain = explained(workings.max_flow, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Pipes from node to later node, from level 3 on some back; the optimum by Edmonds and Karp (1972)."""
        size = (5, 6, 7, 8, 10)[level - 1]
        capacity: dict[Edge, int] = {}
        for a in range(1, size):
            onward = range(a + 1, size + 1)
            for b in rng.sample(onward, min(len(onward), rng.randint(2, 3))):
                capacity[a, b] = rng.randint(3, 20)
        if level > 2:
            for _ in range(level):
                b, a = sorted(rng.sample(range(2, size), 2))
                if (b, a) not in capacity:
                    capacity[a, b] = rng.randint(3, 20)
        names = labels(rng, size)
        pipes = [(names[a - 1], names[b - 1], width) for (a, b), width in capacity.items()]
        rng.shuffle(pipes)
        most_each = listed(f"{a}>{b}: {width}" for a, b, width in pipes)
        text = "Water flows through pipes; a>b: 5 means one from a to b that carries at most 5. The pipes: "
        text += f"{most_each}.\nHow much can flow from {names[0]} to {names[-1]} at most?"
        return Question(text, max_flow({(a, b): width for a, b, width in pipes}, names[0], names[-1]))
