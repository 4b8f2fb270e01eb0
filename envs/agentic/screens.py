"""The screen of a terminal, drawn by an emulator (``pyte``) from what programs print, as text."""

from __future__ import annotations

import importlib
import re
from typing import Any

COLUMNS, ROWS = 100, 30
# A control sequence, or text up to the next one.
_PARTS = re.compile(rb"(?:\x1b\[|\xc2\x9b)[0-9;?]*[^0-9;?\x1b]|\x1b?[^\x1b\xc2]+|[\x1b\xc2]")


class Screen:
    """What stands on the screen, and where the cursor is.

    Raises:
        ImportError: ``pyte`` is not installed.
    """

    def __init__(self) -> None:
        try:
            pyte: Any = importlib.import_module("pyte")
        except ImportError:
            raise ImportError("rlvr/Terminal-v0 draws its screen with pyte: pip install 'rlvr[tools]'") from None
        self._replies: list[str] = []
        self._screen: Any = pyte.Screen(COLUMNS, ROWS)
        self._screen.write_process_input = self._replies.append
        self._stream: Any = pyte.ByteStream(self._screen)

    def feed(self, printed: bytes) -> str:
        """Draw what was printed; returns what a terminal answers to it, such as where its cursor is."""
        for part in _PARTS.findall(printed):
            try:
                self._stream.feed(part)
            except Exception:  # pyte gives up on some malformed sequences: what follows is drawn by a new parser
                self._stream = type(self._stream)(self._screen)
        if (self._screen.columns, self._screen.lines) != (COLUMNS, ROWS):  # some sequences ask for 132 columns
            self._screen.resize(ROWS, COLUMNS)
        answer = "".join(self._replies)[:200]
        self._replies.clear()
        return answer

    def text(self) -> str:
        """The lines down to the last one with anything on it, or to the cursor, without blanks at their ends."""
        cursor = self._screen.cursor.y
        rows = [self._row(y) for y in range(ROWS)]
        last = max([cursor, *(y for y, row in enumerate(rows) if row)])
        return "\n".join(rows[: last + 1])

    def cursor(self) -> tuple[int, int]:
        """Row and column, from 1."""
        cursor = self._screen.cursor
        return min(cursor.y, ROWS - 1) + 1, min(cursor.x, COLUMNS - 1) + 1

    def _row(self, y: int) -> str:
        row = self._screen.buffer[y]
        if not row:
            return ""
        cells = (row[x].data if x in row else " " for x in range(min(max(row) + 1, COLUMNS)))
        return "".join(cells).rstrip()
