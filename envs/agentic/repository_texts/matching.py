"""Patterns with wildcards, and how far words are from each other."""


def matches(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern: "*" stands for any signs, also none, "?" for one."""
    at, start, star, mark = 0, 0, -1, 0
    while at < len(text):
        if start < len(pattern) and pattern[start] == "*":
            star, mark = start, at
            start += 1
        elif start < len(pattern) and pattern[start] in ("?", text[at]):
            start += 1
            at += 1
        elif star >= 0:
            mark += 1
            start, at = star + 1, mark
        else:
            return False
    return all(sign == "*" for sign in pattern[start:])


def select(patterns: list[str], names: list[str]) -> list[str]:
    """The names that fit a pattern; one that begins with "!" takes out what fits it, and the last that fits decides."""
    chosen = []
    for name in names:
        kept = False
        for pattern in patterns:
            if matches(pattern.removeprefix("!"), name):
                kept = not pattern.startswith("!")
        if kept:
            chosen.append(name)
    return chosen


def edit_distance(one: str, other: str) -> int:
    """How many signs have to be put in, taken out or exchanged to make one text the other."""
    row = list(range(len(other) + 1))
    for index, sign in enumerate(one, 1):
        before, row = row, [index]
        for column, letter in enumerate(other, 1):
            cost = 0 if sign == letter else 1
            row.append(min(before[column] + 1, row[column - 1] + 1, before[column - 1] + cost))
    return row[-1]


def nearest(word: str, words: list[str], at_most: int) -> str | None:
    """The first of the words that are nearest to a word, if it is no further away than at_most; else None."""
    best, best_distance = None, at_most + 1
    for candidate in words:
        distance = edit_distance(word, candidate)
        if distance < best_distance:
            best, best_distance = candidate, distance
    return best


def common_prefix(words: list[str]) -> str:
    """The longest text that all words begin with; empty if there are no words."""
    if not words:
        return ""
    first, last = min(words), max(words)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]


MODULE = ("matching", "patterns", "wildcards")
ALIASES = {
    "matches": ("fits_pattern", "is_match"),
    "select": ("select_names",),
    "edit_distance": ("word_distance",),
    "nearest": ("nearest_word",),
    "common_prefix": ("shared_beginning",),
}
SCENARIOS = (
    "[matches('<a|b>*<c|d>', text) for text in ('ac', 'abc', 'bd', 'b', 'acd', 'bcc', '')]",
    "[matches('a?<c|*>', text) for text in ('ab', 'abc', 'abcc', 'a', 'xbc')]",
    "matches('*<er|e|r>*<n|l>*', '<w>')",
    "select(['*', '!*<e|a|r>*', '*<n|l>'], <6*w>)",
    "select(['<a|b|c>*', '!*r', '<o|k>*'], <8*w>)",
    "edit_distance('<w>', '<w>')",
    "[edit_distance('kitten', word) for word in ('sitting', '<w>', 'kit', '')]",
    "nearest('<w>s', <5*w> + ['<w>'], <1..4>)",
    "nearest('cat', ['<bat|cart|dog>', '<hat|at|coat>', 'mouse'], <0..2>)",
    "common_prefix(['inter' + word for word in <3*w>])",
    "common_prefix([<'abc', 'abd'|'ab', 'abc'|'x'|'', 'a'>][<0..1>:])",
)
