"""Sheets of named cells, some of which are formulas of others."""

from rlvr.envs.agentic.repository_numbers.graphs import RoadGraph
from rlvr.envs.agentic.repository_texts.formulas import evaluate_formula, names_in
from rlvr.envs.agentic.repository_texts.wrapping import columns


class Sheet:
    """Cells that hold a number, or a formula that begins with "="; an empty cell counts as 0."""

    def __init__(self) -> None:
        self._cells: dict[str, str] = {}
        self._history: list[tuple[str, str | None]] = []

    def set(self, name: str, content: str) -> None:
        """Fill a cell; ValueError, and nothing changes, if it would depend on itself."""
        before = self._cells.get(name)
        self._cells[name] = content
        try:
            self._graph().in_order()
        except ValueError:
            self._restore(name, before)
            raise
        self._history.append((name, before))

    def undo(self) -> bool:
        """Take the last change back; whether there was one."""
        if not self._history:
            return False
        name, before = self._history.pop()
        self._restore(name, before)
        return True

    def _restore(self, name: str, content: str | None) -> None:
        if content is None:
            del self._cells[name]
        else:
            self._cells[name] = content

    def _graph(self) -> RoadGraph:
        """An edge from each cell to those that are worked out from it."""
        graph = RoadGraph()
        for name, content in self._cells.items():
            graph.add_point(name)
            if content.startswith("="):
                for other in names_in(content[1:]):
                    graph.add_edge(other, name, 1)
        return graph

    def values(self) -> dict[str, int]:
        """The value of each filled cell, by name."""
        graph = self._graph()
        values = dict.fromkeys(graph.edges, 0)
        for name in graph.in_order():
            content = self._cells.get(name, "0")
            values[name] = evaluate_formula(content[1:], values) if content.startswith("=") else int(content)
        return {name: values[name] for name in sorted(self._cells)}

    def value(self, name: str) -> int:
        """The value of one cell; 0 if it is empty."""
        return self.values().get(name, 0)

    def affected(self, name: str) -> list[str]:
        """The cells that change when one does, itself among them, sorted."""
        graph = self._graph()
        graph.add_point(name)
        return graph.reachable(name)

    def lines(self) -> list[str]:
        """Each cell with its content and its value, in columns."""
        values = self.values()
        return columns([[name, self._cells[name], str(values[name])] for name in sorted(self._cells)], 2)


MODULE = ("sheets", "cells", "worksheet")
ALIASES = {"Sheet": ("Worksheet", "CellSheet")}
SCENARIOS = (
    "sheet = Sheet()\nsheet.set('a', '<1..50>')\nsheet.set('b', '=a * <2..5> - <1..9>')\n"
    "sheet.set('c', '=b - a - 1')\nsheet.values()",
    "sheet = Sheet()\nsheet.set('c', '=max(a, b) + <1..5>')\nsheet.set('a', '<1..50>')\n"
    "sheet.set('b', '<1..50>')\nsheet.value('c')",
    "sheet = Sheet()\nsheet.set('a', '=b + 1')\nsheet.set('b', '=c + <1..5>')\nsheet.set('c', '=<a|d> - 2')\n"
    "sheet.value('a')",
    "sheet = Sheet()\nsheet.set('a', '<1..9>')\nsheet.set('a', '<11..19>')\n"
    "(sheet.undo(), sheet.values(), sheet.undo(), sheet.undo())",
    "sheet = Sheet()\nsheet.set('a', '1')\nsheet.set('b', '=a + <1..9>')\nsheet.set('c', '=<a|b> * 2')\n"
    "sheet.set('d', '=c')\n"
    "sheet.affected('<a|b|c|x>')",
    "sheet = Sheet()\nsheet.set('a', '<10..500>')\nsheet.set('bb', '=a / <2..7> - a * 2')\nsheet.lines()",
    "sheet = Sheet()\nsheet.set('a', '=<x|4> - <y|5>')\n(sheet.value('a'), sheet.value('<w>'))",
    "sheet = Sheet()\nsheet.set('a', '<3..9>')\nsheet.set('b', '=a / (a - <3..4>)')\nsheet.value('b')",
)
