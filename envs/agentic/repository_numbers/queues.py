"""A queue of names by priority."""


class PriorityQueue:
    """Names with a priority: the lowest comes first, and of equal ones the one that was put in first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._entries: dict[str, tuple[int, int, str]] = {}
        self._count = 0

    def push(self, name: str, priority: int) -> None:
        """Put a name in; one that is in already gets the new priority, as if it were put in now."""
        entry = (priority, self._count, name)
        self._count += 1
        self._entries[name] = entry
        self._heap.append(entry)
        index = len(self._heap) - 1
        while index > 0:
            parent = (index - 1) // 2
            if self._heap[parent] <= self._heap[index]:
                break
            self._heap[parent], self._heap[index] = self._heap[index], self._heap[parent]
            index = parent

    def pop(self) -> str:
        """Take the first name out; KeyError if the queue is empty."""
        while self._heap:
            entry = self._take()
            if self._entries.get(entry[2]) == entry:
                del self._entries[entry[2]]
                return entry[2]
        raise KeyError("the queue is empty")

    def _take(self) -> tuple[int, int, str]:
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._heap[0] = last
            self._sift(0)
        return first

    def _sift(self, index: int) -> None:
        while True:
            smallest = index
            for child in (2 * index + 1, 2 * index + 2):
                if child < len(self._heap) and self._heap[child] < self._heap[smallest]:
                    smallest = child
            if smallest == index:
                return
            self._heap[index], self._heap[smallest] = self._heap[smallest], self._heap[index]
            index = smallest

    def discard(self, name: str) -> bool:
        """Take a name out, wherever it stands; whether it was there."""
        return self._entries.pop(name, None) is not None

    def priority(self, name: str) -> int:
        """The priority of a name that is in; KeyError if it is not."""
        return self._entries[name][0]

    def __len__(self) -> int:
        """How many names are in."""
        return len(self._entries)


def drained(queue: PriorityQueue) -> list[str]:
    """All names in their order; the queue is empty then."""
    return [queue.pop() for _ in range(len(queue))]


MODULE = ("queues", "priorities", "waiting")
ALIASES = {"PriorityQueue": ("NameQueue", "OrderedQueue"), "drained": ("take_all",)}
SCENARIOS = (
    "queue = PriorityQueue()\nfor name, number in zip(<6*w>, <6*1..9>):\n    queue.push(name, number)\ndrained(queue)",
    "queue = PriorityQueue()\nfor name in <5*w>:\n    queue.push(name, <1..9>)\ndrained(queue)",
    "queue = PriorityQueue()\nfor name, number in zip(<9*w>, <9*1..30>):\n    queue.push(name, number)\n"
    "[queue.pop() for _ in range(<3..8>)] + [str(len(queue))]",
    "queue = PriorityQueue()\nqueue.push('a', <1..9>)\nqueue.push('b', <4..6>)\nqueue.push('a', <1..9>)\n"
    "(len(queue), queue.priority('a'), drained(queue))",
    "queue = PriorityQueue()\nfor name, number in zip('abcde', <5*1..9>):\n    queue.push(name, number)\n"
    "(queue.discard('<a|b|c|x>'), queue.discard('<d|y>'), drained(queue))",
    "queue = PriorityQueue()\nqueue.push('a', <1..9>)\nqueue.pop()\nqueue.pop()",
    "queue = PriorityQueue()\nqueue.push('a', <1..9>)\nqueue.priority('<a|b>')",
)
