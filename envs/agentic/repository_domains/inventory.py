"""Stock in lots: what came in first goes out first."""

from rlvr.envs.agentic.repository_numbers.amounts import percent_of
from rlvr.envs.agentic.repository_numbers.queues import PriorityQueue, drained
from rlvr.envs.agentic.repository_texts.ids import next_number


class Inventory:
    """Lots of (number, count, cost of a piece in cents) for each article, in the order in which they came."""

    def __init__(self) -> None:
        self._lots: dict[str, list[tuple[str, int, int]]] = {}
        self._numbers: list[str] = []
        self._least: dict[str, int] = {}

    def receive(self, article: str, count: int, cost: int) -> str:
        """Take a lot in; its number, such as "LOT-0001". ValueError unless the count is greater than 0."""
        if count <= 0:
            raise ValueError("the count must be greater than 0")
        number = next_number(self._numbers, "LOT")
        self._numbers.append(number)
        self._lots.setdefault(article, []).append((number, count, cost))
        return number

    def on_hand(self, article: str) -> int:
        """How many pieces there are."""
        return sum(count for _, count, _ in self._lots.get(article, []))

    def issue(self, article: str, count: int) -> int:
        """Give pieces of the oldest lots out; what they cost. ValueError, and nothing goes, if there are fewer."""
        if count > self.on_hand(article):
            raise ValueError(f"there are fewer of {article}")
        cost, left = 0, []
        for number, amount, price in self._lots.get(article, []):
            taken = min(count, amount)
            cost += taken * price
            count -= taken
            if amount > taken:
                left.append((number, amount - taken, price))
        self._lots[article] = left
        return cost

    def value(self) -> int:
        """What all pieces cost."""
        return sum(count * cost for lots in self._lots.values() for _, count, cost in lots)

    def write_down(self, article: str, tenths: int) -> int:
        """Lower the cost of each piece by a percentage in tenths; by how much the value falls."""
        before = self.value()
        self._lots[article] = [
            (number, count, cost - percent_of(cost, tenths)) for number, count, cost in self._lots.get(article, [])
        ]
        return before - self.value()

    def set_least(self, article: str, count: int) -> None:
        """Say how many pieces there should be at least."""
        self._least[article] = count

    def to_order(self) -> list[str]:
        """The articles of which there are fewer than there should be, the one that lacks most first."""
        queue = PriorityQueue()
        for article, least in sorted(self._least.items()):
            missing = least - self.on_hand(article)
            if missing > 0:
                queue.push(article, -missing)
        return drained(queue)

    def lots(self, article: str) -> list[str]:
        """The lots that are left as "LOT-0001: 5", the oldest first."""
        return [f"{number}: {count}" for number, count, _ in self._lots.get(article, [])]


MODULE = ("inventory", "stock", "warehouse")
ALIASES = {"Inventory": ("Stock", "LotStore")}
SCENARIOS = (
    "stock = Inventory()\nstock.receive('nut', <5..9>, <10..20>)\nstock.receive('nut', <5..9>, <30..40>)\n"
    "(stock.issue('nut', <3..10>), stock.on_hand('nut'), stock.lots('nut'))",
    "stock = Inventory()\nstock.receive('nut', <n=5..9>, <10..20>)\nstock.receive('nut', 4, <30..40>)\n"
    "(stock.issue('nut', <n>), stock.lots('nut'), stock.value())",
    "stock = Inventory()\nstock.receive('nut', 5, 10)\nstock.issue('nut', <4..7>)",
    "stock = Inventory()\nstock.receive('<w>', <-1..1>, 10)",
    "stock = Inventory()\n[stock.receive(name, <1..9>, 5) for name in <3*w>] + [str(stock.value())]",
    "stock = Inventory()\nstock.receive('nut', <2..9>, <11..99>)\nstock.receive('bolt', 3, <11..99>)\n"
    "(stock.write_down('nut', <55..450>), stock.value())",
    "stock = Inventory()\nfor name, count in zip('abcd', <4*1..9>):\n    stock.receive(name, count, 5)\n"
    "    stock.set_least(name, <5..7>)\nstock.to_order()",
    "stock = Inventory()\nstock.set_least('c', <2..4>)\nstock.set_least('a', <2..4>)\nstock.receive('a', <1..4>, 2)\n"
    "stock.to_order()",
)
