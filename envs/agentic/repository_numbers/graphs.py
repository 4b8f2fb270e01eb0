"""Graphs of named points with lengths: routes, order, parts that hang together."""

from rlvr.envs.agentic.repository_numbers.queues import PriorityQueue


class RoadGraph:
    """Points and directed edges, each with a length that is not negative."""

    def __init__(self) -> None:
        self.edges: dict[str, dict[str, int]] = {}

    def add_point(self, name: str) -> None:
        """Add a point, if it is not there yet."""
        self.edges.setdefault(name, {})

    def add_edge(self, start: str, end: str, length: int) -> None:
        """Add an edge; of several between the same points the shortest counts. ValueError for a negative length."""
        if length < 0:
            raise ValueError("a length must not be negative")
        self.add_point(start)
        self.add_point(end)
        self.edges[start][end] = min(length, self.edges[start].get(end, length))

    def add_road(self, one: str, other: str, length: int) -> None:
        """Add an edge in each direction."""
        self.add_edge(one, other, length)
        self.add_edge(other, one, length)

    def distances(self, start: str) -> dict[str, int]:
        """The length of the shortest way to each point that can be reached."""
        reached: dict[str, int] = {}
        queue, best = PriorityQueue(), {start: 0}
        queue.push(start, 0)
        while len(queue) > 0:
            name = queue.pop()
            reached[name] = best[name]
            for other, length in self.edges[name].items():
                total = best[name] + length
                if other not in reached and total < best.get(other, total + 1):
                    best[other] = total
                    queue.push(other, total)
        return reached

    def route(self, start: str, end: str) -> list[str]:
        """The points of a shortest way, both ends included; empty if there is none.

        Of equally short ways, each step takes the next point that comes first in the alphabet.
        """
        left = {name: self.distances(name).get(end) for name in self.edges}
        if left[start] is None:
            return []
        points = [start]
        while points[-1] != end:
            here = points[-1]
            nearer = [
                name
                for name, length in self.edges[here].items()
                if left[name] is not None and length + (left[name] or 0) == left[here] and name not in points
            ]
            points.append(min(nearer))
        return points

    def in_order(self) -> list[str]:
        """The points so that each edge goes forward, the first in the alphabet wherever several may come next.

        ValueError if edges go round in a circle.
        """
        waiting = dict.fromkeys(self.edges, 0)
        for ends in self.edges.values():
            for end in ends:
                waiting[end] += 1
        order: list[str] = []
        ready = sorted(name for name, count in waiting.items() if count == 0)
        while ready:
            name = ready.pop(0)
            order.append(name)
            for end in self.edges[name]:
                waiting[end] -= 1
                if waiting[end] == 0:
                    ready.append(end)
            ready.sort()
        if len(order) < len(self.edges):
            raise ValueError("the edges go round in a circle")
        return order

    def reachable(self, start: str) -> list[str]:
        """All points that can be reached, start among them, sorted."""
        seen, waiting = {start}, [start]
        while waiting:
            for other in self.edges[waiting.pop()]:
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return sorted(seen)


def components(graph: RoadGraph) -> list[list[str]]:
    """The parts of a graph of roads that hang together, each sorted, in the order of their first names."""
    parts: list[list[str]] = []
    for name in sorted(graph.edges):
        if not any(name in part for part in parts):
            parts.append(graph.reachable(name))
    return parts


def graph_of(text: str) -> RoadGraph:
    """A graph from "a-b:3 b-c:4", a road for each pair, or "a>b:3" for one direction."""
    graph = RoadGraph()
    for word in text.split():
        ends, _, length = word.partition(":")
        if ">" in ends:
            start, _, end = ends.partition(">")
            graph.add_edge(start, end, int(length))
        else:
            one, _, other = ends.partition("-")
            graph.add_road(one, other, int(length))
    return graph


MODULE = ("graphs", "networks", "links")
ALIASES = {"components": ("connected_parts",), "graph_of": ("read_graph",), "RoadGraph": ("Network",)}
SCENARIOS = (
    "graph_of('a-b:<1..9> b-c:<1..9> a-c:<2..12> c-d:<1..5> b-d:<3..9>').distances('<a|b|d>')",
    "graph_of('a-b:<1..9> b-c:<1..9> a-c:<2..12> c-d:<1..5> b-d:<3..9>').route('a', 'd')",
    "graph_of('a-b:2 a-c:2 b-d:<2..4> c-d:<2..4> d-e:<1..3>').route('<a|e>', '<d|b>')",
    "graph_of('a>b:<1..4> b>c:2 d>a:1').route('<a|b|c>', '<a|c|d>')",
    "graph_of('a>b:<0..4> a>b:<1..9>').distances('a')",
    "graph_of('a>b:<-2..1>').distances('a')",
    "graph_of('<a|d>>c:1 <b|e>>c:1 c>f:1 <d|a>>f:2 b>d:1').in_order()",
    "graph_of('a>b:1 b>c:1 c><a|d>:1 d>e:1').in_order()",
    "graph_of('<a|b>>c:1 c>d:1 e>a:1 d>b:2').reachable('<a|c|e>')",
    "components(graph_of('a-<b|c|d>:1 e-<f|g|d>:1 h-<i|a>:1 c-<b|i>:1'))",
    "graph = RoadGraph()\ngraph.add_point('<w>')\ngraph.add_road('a', 'b', <1..9>)\ngraph.add_point('a')\n"
    "(components(graph), graph.distances('a'))",
)
