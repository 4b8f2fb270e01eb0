"""Text in lines: wrapping, shortening, alignment."""


def wrap_words(text: str, width: int) -> list[str]:
    """Lines of at most width characters, broken between words; a longer word stands alone on a line.

    ValueError if the width is less than 1.
    """
    if width < 1:
        raise ValueError("the width must be at least 1")
    lines: list[str] = []
    current = ""
    for word in text.split():
        if current and len(current) + 1 + len(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
    if current:
        lines.append(current)
    return lines


def shorten(text: str, width: int) -> str:
    """The text, or its beginning with "..." at the end, in at most width characters."""
    if len(text) <= width:
        return text
    if width <= 3:
        return text[:width]
    return text[: width - 3].rstrip() + "..."


def pad(text: str, width: int, side: str) -> str:
    """The text with blanks up to a width; side is "left", "right" or "centre", where the text then stands."""
    missing = width - len(text)
    if missing <= 0:
        return text
    if side == "left":
        return text + " " * missing
    if side == "right":
        return " " * missing + text
    before = missing // 2
    return " " * before + text + " " * (missing - before)


def columns(rows: list[list[str]], gap: int) -> list[str]:
    """Rows as lines in which each column is as wide as its longest cell; no blanks at the ends of lines."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        cells = [pad(cell, width, "left") for cell, width in zip(row, widths, strict=True)]
        lines.append((" " * gap).join(cells).rstrip())
    return lines


def indent_lines(text: str, prefix: str) -> str:
    """Each line with the prefix before it, but for lines that are empty."""
    return "\n".join(prefix + line if line else line for line in text.split("\n"))


def numbered(lines: list[str], first: int) -> list[str]:
    """Lines with their numbers from first on, right-aligned: " 9. a", "10. b"."""
    if not lines:
        return []
    width = len(str(first + len(lines) - 1))
    return [f"{pad(str(first + index), width, 'right')}. {line}" for index, line in enumerate(lines)]


MODULE = ("wrapping", "layout", "text_lines")
ALIASES = {
    "wrap_words": ("wrap_text", "break_lines"),
    "shorten": ("abbreviate",),
    "columns": ("in_columns",),
    "indent_lines": ("indented",),
    "numbered": ("with_numbers",),
}
SCENARIOS = (
    "wrap_words(' '.join(<9*w>), <9..24>)",
    "wrap_words('a bb ccc dddd <w>', <4..8>)",
    "wrap_words('<w>', <-1..3>)",
    "[shorten(' '.join(<3*w>), width) for width in (<1..3>, <5..9>, <10..14>, 40)]",
    "[shorten('abcdef', width) for width in range(<2..3>, 8)]",
    "[pad('<w>', <6..11>, side) for side in ('left', 'right', 'centre')]",
    "pad('<w>', <3..7>, '<left|right|centre>')",
    "columns([<3*w>, <3*w>, <3*w>], <1..4>)",
    "columns([['a', '<w>'], ['<w>', 'b']], <1..3>)",
    "indent_lines('<w>\\n\\n<w>', '<- |. |  >')",
    "numbered(<4*w>, <7..9>)",
    "numbered(<2*w>, <98..99>)",
)
