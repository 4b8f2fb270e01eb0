"""VisualGraphs: a shortest way between two nodes of a drawn graph."""

from __future__ import annotations

import heapq
import math
import random
from itertools import combinations, pairwise
from typing import NamedTuple

from rlvr.envs.tasks.answers import items
from rlvr.envs.visual import workings
from rlvr.envs.visual.canvas import INK, UNITS, Canvas, Colour, Point
from rlvr.envs.visual.visual_questions import LOOK, VisualQuestions, VisualState

NODES = (7, 8, 8, 9, 11)
EDGES = (9, 11, 14, 20, 26)
FEWEST = 3  # edges of the way, at least
LETTERS = "ABCDEFGHIJK"
RADIUS = 13.0
NEAR = 21.0  # no line passes a node that it does not belong to at less than this
FILL: Colour = (255, 232, 160)


class Graph(NamedTuple):
    """Node i is ``LETTERS[i]`` at ``points[i]``; an edge is (from, to, length)."""

    points: tuple[Point, ...]
    edges: tuple[tuple[int, int, int], ...]
    weighted: bool
    directed: bool
    start: int
    goal: int


class VisualGraphs(VisualQuestions):
    """A shortest way in a graph. Levels 1 and 2: the one with the fewest edges. 3: with lengths written at the edges. 4
    and 5: with arrows that hold in their direction alone. Every shortest way is right.
    """

    kind = "checked"
    system = f"{LOOK} A way is written as its nodes in order, such as A, C, B."

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """Draws plane graphs until the shortest way has at least ``FEWEST`` edges."""
        while True:
            points = spread(rng, NODES[level - 1])
            edges = joined(rng, points, EDGES[level - 1], weighted=level >= 3, directed=level >= 4)
            start, goal = rng.sample(range(len(points)), 2)
            graph = Graph(points, edges, level >= 3, level >= 4, start, goal)
            way, _ = shortest(graph)
            if len(way) > FEWEST:
                break
        text = f"Give a shortest way from {LETTERS[start]} to {LETTERS[goal]}: "
        text += "the one with the smallest sum of lengths." if graph.weighted else "the one with the fewest lines."
        if graph.directed:
            text += " Arrows can only be followed in their direction."
        return VisualState(graph, text, ", ".join(LETTERS[node] for node in way))

    def check(self, state: VisualState, answer: str) -> str | None:
        """Walks the nodes along edges and arrows; any way of the least length is right."""
        graph: Graph = state.scene
        named = [name.upper() for name in items(answer.replace("->", ",").replace("→", ","))]
        letters = LETTERS[: len(graph.points)]
        if not 1 <= len(named) <= 50 or any(len(name) != 1 or name not in letters for name in named):
            raise ValueError(f"the answer is not a list of nodes from A to {letters[-1]}")
        way = [letters.index(name) for name in named]
        if way[0] != graph.start or way[-1] != graph.goal:
            return "the way has another beginning or end"
        lengths, length = out_of(graph), 0
        for start, end in pairwise(way):
            if end not in lengths[start]:
                return f"nothing leads from {letters[start]} to {letters[end]}"
            length += lengths[start][end]
        return None if length == shortest(graph)[1] else "there is a shorter way"

    def explain(self, state: VisualState) -> str:
        """The distances of the nodes that are nearer than the goal."""
        return workings.shortest_way(state.scene, LETTERS, out_of(state.scene), state.answer)

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """From the start over some nodes to the goal, which the question names."""
        graph: Graph = state.scene
        others = [node for node in range(len(graph.points)) if node not in (graph.start, graph.goal)]
        way = [graph.start, *rng.sample(others, rng.randint(1, 3)), graph.goal]
        return ", ".join(LETTERS[node] for node in way)

    def sketch(self, scene: Graph, canvas: Canvas) -> None:
        """Lines or arrows first, then their lengths half-way, then the nodes with letters."""
        for a, b, _ in scene.edges:
            start, end = scene.points[a], scene.points[b]
            if scene.directed:
                share = RADIUS / math.dist(start, end)
                tip = end[0] + (start[0] - end[0]) * share, end[1] + (start[1] - end[1]) * share
                canvas.arrow(start, tip, INK, 1.6, 10)
            else:
                canvas.line([start, end], INK, 1.6)
        for a, b, length in scene.edges if scene.weighted else ():
            canvas.text(label_point(scene.points[a], scene.points[b]), str(length), 13, (180, 20, 30), halo=True)
        for node, point in enumerate(scene.points):
            canvas.circle(point, RADIUS, FILL, INK, 1.5)
            canvas.text(point, LETTERS[node], 14)


def label_point(start: Point, end: Point) -> Point:
    return start[0] + (end[0] - start[0]) * 0.5, start[1] + (end[1] - start[1]) * 0.5


def spread(rng: random.Random, count: int) -> tuple[Point, ...]:
    """Places for the nodes, well apart."""
    while True:
        points: list[Point] = []
        for _ in range(300):
            point = round(rng.uniform(20, UNITS - 20), 1), round(rng.uniform(20, UNITS - 20), 1)
            if all(math.dist(point, other) > 68 for other in points):
                points.append(point)
            if len(points) == count:
                return tuple(points)


def joined(
    rng: random.Random, points: tuple[Point, ...], count: int, weighted: bool, directed: bool
) -> tuple[tuple[int, int, int], ...]:
    """Lines that cross none, pass no third node closely, and whose labels stand apart; nearer nodes first."""
    pairs = sorted(combinations(range(len(points)), 2), key=lambda p: math.dist(points[p[0]], points[p[1]]))
    pairs.sort(key=lambda p: math.dist(points[p[0]], points[p[1]]) * rng.uniform(0.6, 1.4))
    edges: list[tuple[int, int, int]] = []
    for start, end in pairs:
        line = points[start], points[end]
        others = (point for node, point in enumerate(points) if node not in (start, end))
        if any(distance(point, *line) < NEAR for point in others):
            continue
        drawn = [(points[a], points[b]) for a, b, _ in edges]
        if any(crossing(line, each) for each in drawn):
            continue
        if any(math.dist(label_point(*line), label_point(*each)) < 20 for each in drawn):
            continue
        ends = (end, start) if directed and rng.random() < 0.5 else (start, end)
        edges.append((*ends, rng.randint(1, 9) if weighted else 1))
        if len(edges) == count:
            break
    return tuple(edges)


def distance(point: Point, start: Point, end: Point) -> float:
    """From a place to a line between two others."""
    along = (end[0] - start[0], end[1] - start[1])
    share = ((point[0] - start[0]) * along[0] + (point[1] - start[1]) * along[1]) / (along[0] ** 2 + along[1] ** 2)
    share = min(1.0, max(0.0, share))
    return math.dist(point, (start[0] + share * along[0], start[1] + share * along[1]))


def crossing(first: tuple[Point, Point], second: tuple[Point, Point]) -> bool:
    """Whether two lines cross between their ends; lines that share an end do not."""
    if set(first) & set(second):
        return False

    def side(a: Point, b: Point, c: Point) -> bool:
        return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])

    (a, b), (c, d) = first, second
    return side(a, b, c) != side(a, b, d) and side(c, d, a) != side(c, d, b)


def out_of(graph: Graph) -> list[dict[int, int]]:
    """For each node, where edges lead from it and how long they are."""
    lengths: list[dict[int, int]] = [{} for _ in graph.points]
    for start, end, length in graph.edges:
        lengths[start][end] = length
        if not graph.directed:
            lengths[end][start] = length
    return lengths


def shortest(graph: Graph) -> tuple[list[int], int]:
    """A shortest way and its length (Dijkstra 1959); an empty way where none leads there."""
    lengths, waiting, done = out_of(graph), [(0, [graph.start])], set()
    while waiting:
        length, way = heapq.heappop(waiting)
        if way[-1] == graph.goal:
            return way, length
        if way[-1] in done:
            continue
        done.add(way[-1])
        for node, more in lengths[way[-1]].items():
            heapq.heappush(waiting, (length + more, [*way, node]))
    return [], 0
