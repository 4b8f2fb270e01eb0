"""Text that anybody wrote, on its way to a terminal or a notebook."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html import escape
from types import TracebackType
from typing import Any, TextIO


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control characters are shown as escapes, line breaks kept."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def as_html(text: str) -> str:
    """Text as a block of a notebook's page: its markup, and what would steer a terminal, is shown and does nothing."""
    return f'<pre style="white-space: pre-wrap">{escape(printable(text))}</pre>'


class PlainStream:
    """A stream that escapes control characters, but for line breaks and tabs, in all that is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text with its control characters escaped."""
        self._stream.write(text if text.isprintable() else "\t".join(map(printable, text.split("\t"))))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line with its control characters escaped."""
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        """Whether the stream below is a terminal."""
        return False  # so that nobody writes colours into it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def plain_output(out: bool = True) -> Iterator[None]:
    """Within, standard error and, if ``out``, standard output cannot steer a terminal, whoever's words are printed."""
    before = sys.stdout, sys.stderr
    sys.stderr = PlainStream(sys.stderr)
    if out:
        sys.stdout = PlainStream(sys.stdout)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """``sys.excepthook`` for a command: the traceback may quote anybody's words."""
    sys.stderr.write(printable("".join(traceback.format_exception(kind, error, trace))))
