"""Deliveries: tours over a network of roads, with loads and times."""

from rlvr.envs.agentic.repository_numbers.graphs import RoadGraph, graph_of
from rlvr.envs.agentic.repository_numbers.rounding import round_up
from rlvr.envs.agentic.repository_numbers.units import add_quantities, clock_text


class Tour:
    """Stops that a van drives to from a depot and back, over the shortest ways, with at most limit kilograms."""

    def __init__(self, roads: str, depot: str, limit: int) -> None:
        self.graph: RoadGraph = graph_of(roads)
        self.depot = depot
        self.limit = limit
        self._loads: dict[str, list[str]] = {}

    def add(self, stop: str, weight: str) -> None:
        """Add a parcel, such as "12 kg"; KeyError for an unknown stop, ValueError if the van would be too heavy."""
        if stop not in self.graph.edges:
            raise KeyError(stop)
        weights = [each for loads in self._loads.values() for each in loads]
        if add_quantities([*weights, weight], "g") > self.limit * 1000:
            raise ValueError("too heavy")
        self._loads.setdefault(stop, []).append(weight)

    def order(self) -> list[str]:
        """The stops: each time the nearest to where the van is; of equally near ones the first in the alphabet."""
        here, left, order = self.depot, sorted(self._loads), list[str]()
        while left:
            reached = self.graph.distances(here)
            nearest_stop = min(left, key=lambda stop: (reached[stop], stop))
            left.remove(nearest_stop)
            order.append(nearest_stop)
            here = nearest_stop
        return order

    def length(self) -> int:
        """The length of the tour, the way back included."""
        here, total = self.depot, 0
        for stop in [*self.order(), self.depot]:
            total += self.graph.distances(here)[stop]
            here = stop
        return total

    def way(self) -> list[str]:
        """All points that the van comes through, in order, the depot at both ends."""
        points = [self.depot]
        for stop in [*self.order(), self.depot]:
            points += self.graph.route(points[-1], stop)[1:]
        return points

    def arrivals(self, start: int, speed: int, pause: int) -> dict[str, str]:
        """When the van is at each stop: it begins at start seconds, needs speed seconds a unit, rests at each stop."""
        here, now, times = self.depot, start, dict[str, str]()
        for stop in self.order():
            now += self.graph.distances(here)[stop] * speed
            times[stop] = clock_text(now)
            now += pause
            here = stop
        return times

    def load(self) -> int:
        """What the van carries, in kilograms, rounded to the nearest."""
        return add_quantities([each for loads in self._loads.values() for each in loads], "kg")


def vans_needed(weights: list[int], limit: int) -> int:
    """How many vans carry parcels if each takes the next ones as long as it can; ValueError if one is too heavy."""
    vans, free = 0, 0
    for weight in weights:
        if weight > limit:
            raise ValueError("a parcel is too heavy")
        if weight > free:
            vans += 1
            free = limit
        free -= weight
    return vans


def fewest_vans(weights: list[int], limit: int) -> int:
    """The number of vans that the sum of the weights needs at least."""
    return round_up(sum(weights), limit)


MODULE = ("deliveries", "tours", "rounds")
ALIASES = {"Tour": ("Round", "VanTour"), "vans_needed": ("vans_in_order",), "fewest_vans": ("least_vans",)}
SCENARIOS = (
    "tour = Tour('d-a:<1..9> a-b:<1..9> d-c:<1..9> c-b:<1..9>', 'd', 50)\nfor stop in 'abc':\n"
    "    tour.add(stop, '<1..9> kg')\n(tour.order(), tour.length(), tour.way())",
    "tour = Tour('d-a:<2..4> d-b:<2..4> a-b:<1..5>', 'd', 50)\ntour.add('a', '1 kg')\ntour.add('b', '2 kg')\n"
    "(tour.order(), tour.length())",
    "tour = Tour('d-a:<10..90> a-b:<10..90>', 'd', 50)\ntour.add('b', '1 kg')\ntour.add('a', '1 kg')\n"
    "tour.arrivals(<0..900>, <20..60>, <30..120>)",
    "tour = Tour('d-a:1', 'd', 10)\ntour.add('a', '<4..6> kg')\ntour.add('a', '<4..6> kg')\ntour.load()",
    "tour = Tour('d-a:1', 'd', 10)\ntour.add('a', '<100..900> g')\ntour.add('<a|d|x>', '<1..8> kg')\ntour.load()",
    "tour = Tour('d-a:<1..5> a-b:2 d-b:<4..9>', 'd', 10)\ntour.add('b', '1 kg')\n(tour.way(), tour.length())",
    "vans_needed(<7*1..9>, <9..14>)",
    "vans_needed([<3..6>, <3..6>, <3..6>], <4..6>)",
    "fewest_vans(<6*1..9>, <5..9>)",
)
