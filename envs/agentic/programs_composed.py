"""Families of programs that are put together from parts: 40 for each level of CodeTests and CodeRepair.

A level has eight parts of a first kind and five of a second; each pair makes a family, and the pair chooses a part of a
third kind as well. Two families share at most two of their three parts, so a program of the test split is none that the
train split shows with other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rlvr.envs.agentic.programs import Family


class Part(NamedTuple):
    """A part of a program: its name, what it says, its code, and the parameters of both.

    ``code`` is an expression, or lines of a loop's body; ``before`` stands ahead of the loop, ``result`` is returned.
    """

    name: str
    text: str
    code: str
    parameters: Mapping[str, Sequence[int | str]] = {}
    before: str = ""
    result: str = ""


def _indented(code: str, depth: int) -> str:
    return "".join(f"{'    ' * depth}{line}\n" for line in code.strip("\n").split("\n") if line.strip())


def _crossed(
    first: Sequence[Part], second: Sequence[Part], third: Sequence[Part], make: Callable[[Part, Part, Part], Family]
) -> tuple[Family, ...]:
    """A family for each pair; the third part is another one in each row and in each column."""
    return tuple(
        make(row_part, column_part, third[(row + 2 * column) % len(third)])
        for row, row_part in enumerate(first)
        for column, column_part in enumerate(second)
    )


def _merged(*parts: Part) -> dict[str, Sequence[int | str]]:
    return {name: allowed for part in parts for name, allowed in part.parameters.items()}


# Level 1: of a list of numbers some are selected, changed and gathered.

_SELECTED = (
    Part("high", "that are greater than $low", "number > $low", {"low": range(-6, 7)}),
    Part("multiples", "that are divisible by $d", "number % $d == 0", {"d": (2, 3)}),
    Part("nonmultiples", "that are not divisible by $d", "number % $d != 0", {"d": (2, 3, 4, 5)}),
    Part("low", "that are smaller than $high", "number < $high", {"high": range(-1, 12)}),
    Part(
        "middle", "from $bottom to $top, both included", "$bottom <= number <= $top",
        {"bottom": range(-9, 0), "top": range(4, 12)},
    ),
    Part("large", "whose absolute value is at least $size", "abs(number) >= $size", {"size": range(3, 8)}),
    Part(
        "spaced", "at the positions that are divisible by $every", "place % $every == 0", {"every": (2, 3)}
    ),
    Part(
        "jumping", "that differ by at least $gap from the element before them; the first element counts as well",
        "place == 0 or abs(number - numbers[place - 1]) >= $gap", {"gap": range(3, 10)},
    ),
)  # fmt: skip
_CHANGED = (
    Part("scaled", "multiplied by $factor", "number * $factor", {"factor": range(2, 8)}),
    Part("distance", "replaced by its distance from $centre", "abs(number - $centre)", {"centre": range(1, 9)}),
    Part("rest", "replaced by its remainder modulo $m, which is never negative", "number % $m", {"m": range(6, 12)}),
    Part("square", "squared and increased by $b", "number * number + $b", {"b": range(2, 9)}),
    Part("capped", "replaced by $cap if it is greater than that", "min(number, $cap)", {"cap": range(4, 11)}),
)
_GATHERED = (
    Part("sum", "Return their sum, 0 if there are none.", "total += value", {}, "total = 0", "total"),
    Part("list", "Return the list of them, in their order.", "kept.append(value)", {}, "kept = []", "kept"),
    Part(
        "swings", "Return the first minus the second plus the third and so on, 0 if there are none.",
        "total += sign * value\nsign = -sign", {}, "total = 0\nsign = 1", "total",
    ),
    Part(
        "spread", "Return the greatest minus the smallest of them, 0 if there are none.", "kept.append(value)", {},
        "kept = []", "max(kept) - min(kept) if kept else 0",
    ),
    Part(
        "totals", "Return the list of their running totals.", "total += value\nsums.append(total)", {},
        "total = 0\nsums = []", "sums",
    ),
)  # fmt: skip


def _counting(text: str) -> str:
    return " (positions count from 0)" if "position" in text else ""


def _list_program(select: Part, change: Part, gather: Part) -> Family:
    name = f"{gather.name}_of_{select.name}_{change.name}"
    text = f"Take a list of integers. Select the elements {select.text}{_counting(select.text)}. Each of them is "
    text += f"{change.text}. {gather.text}"
    source = f"\ndef {name}(numbers):\n{_indented(gather.before, 1)}    for place in range(len(numbers)):\n"
    source += f"        number = numbers[place]\n        if {select.code}:\n            value = {change.code}\n"
    source += f"{_indented(gather.code, 3)}    return {gather.result}\n"
    return Family(name, text, _merged(select, change), ("long_ints",), source)


# Level 2: a state goes through a list.

_ASKED = (
    Part("high", "the number is greater than $low", "number > $low", {"low": range(-3, 6)}),
    Part("multiple", "the number is divisible by $d", "number % $d == 0", {"d": (2, 3)}),
    Part("above", "the number is greater than the state", "number > state"),
    Part(
        "rising", "the number is greater than the one before it (the first is not)",
        "place > 0 and number > numbers[place - 1]",
    ),
    Part("full", "the state is greater than $level", "state > $level", {"level": range(9)}),
    Part("turn", "its position, counted from 1, is divisible by $every", "(place + 1) % $every == 0",
         {"every": (2, 3)}),
    Part("far", "the number and the state differ by more than $gap", "abs(number - state) > $gap",
         {"gap": range(3, 10)}),
    Part("small", "the absolute value of the number is at most $most", "abs(number) <= $most", {"most": range(3, 9)}),
)  # fmt: skip
_DONE = (
    Part("add", "the number is added to the state", "state += number"),
    Part("take", "the number is subtracted from the state", "state -= number"),
    Part("set", "the state becomes the number plus $plus", "state = number + $plus", {"plus": range(1, 7)}),
    Part("step", "$plus is added to the state", "state += $plus", {"plus": range(2, 9)}),
    Part("wrap", "the state becomes the remainder of its double plus the number, modulo $m",
         "state = (2 * state + number) % $m", {"m": range(11, 20)}),
)  # fmt: skip
_ELSE = (
    Part(
        "ends", "$minus is subtracted from the state. Return the state at the end.",
        "state -= $minus", {"minus": range(1, 5)}, "", "state",
    ),
    Part(
        "trail", "the state becomes $reset. Return the list of the states after each number.",
        "state = $reset\nTRAIL", {"reset": range(5)}, "trail = []", "trail",
    ),
    Part(
        "count", "the state is left as it is, which counts as a rest. Return the list [state at the end, rests].",
        "rests += 1", {}, "rests = 0", "[state, rests]",
    ),
    Part(
        "peak", "$minus is added to the state. Return the greatest state after any number, $start for an empty list.",
        "state += $minus\nPEAK", {"minus": range(1, 5)}, "peak = $start", "peak",
    ),
)  # fmt: skip
_AFTER = {"TRAIL": "trail.append(state)", "PEAK": "peak = max(peak, state) if place > 0 else state"}


def _state_program(asked: Part, done: Part, other: Part) -> Family:
    name = f"{other.name}_when_{asked.name}_{done.name}"
    text = f"Take a list of integers. A state begins at $start. Go through the numbers in order: if {asked.text}, "
    text += f"{done.text}; otherwise {other.text}"
    lines = other.code.split("\n")
    source = f"\ndef {name}(numbers):\n    state = $start\n{_indented(other.before, 1)}"
    source += "    for place in range(len(numbers)):\n        number = numbers[place]\n"
    source += f"        if {asked.code}:\n{_indented(done.code, 3)}        else:\n{_indented(lines[0], 3)}"
    source += "".join(_indented(_AFTER[line], 2) for line in lines[1:]) + f"    return {other.result}\n"
    return Family(name, text, {"start": range(6), **_merged(asked, done, other)}, ("long_ints",), source)


# Level 3: a table of names and points is filtered, grouped and ranked.

_FILTERED = (
    Part("good", "with more than $low points", "points > $low", {"low": range(-3, 4)}),
    Part("poor", "with fewer than $high points", "points < $high", {"high": range(3, 9)}),
    Part("nonmultiples", "whose points are not divisible by $d", "points % $d != 0", {"d": (2, 3, 4)}),
    Part("late", "from position $first on (positions count from 0)", "place >= $first", {"first": (1, 2)}),
    Part("after", "whose name comes after '$one' in the alphabet", "name > '$one'", {"one": ("Ada", "Ben", "Cleo")}),
    Part("changed", "whose name is not that of the pair before it", "place == 0 or rows[place - 1][0] != name"),
    Part("middle", "with $bottom to $top points", "$bottom <= points <= $top",
         {"bottom": range(-3, 1), "top": range(6, 10)}),
    Part("other", "whose name is not '$name'", "name != '$name'", {"name": ("Ada", "Ben", "Cleo", "Dan", "Eve")}),
)  # fmt: skip
_GROUPED = (
    Part("sum", "the sum of its points", "sum(values)"),
    Part("count", "how many such pairs it has, times $times", "len(values) * $times", {"times": range(2, 6)}),
    Part("best", "the greatest of its points plus $plus", "max(values) + $plus", {"plus": range(1, 6)}),
    Part("spread", "the greatest minus the smallest of its points, plus $plus", "max(values) - min(values) + $plus",
         {"plus": range(1, 6)}),
    Part("last", "the last of its points minus the first, plus $plus", "values[-1] - values[0] + $plus",
         {"plus": range(1, 7)}),
)  # fmt: skip
_RANKED = (
    Part(
        "top", "Return at most $most names, the greatest value first and names of equal value in alphabetical order.",
        "sorted(table, key=lambda name: (-table[name], name))[:$most]", {"most": (2, 3, 4)},
    ),
    Part("table", "Return the list of all pairs [name, value], in alphabetical order of the names.",
         "[[name, table[name]] for name in sorted(table)]"),
    Part("least", "Return the names with a value of at least $least, in the order in which they first occur.",
         "[name for name in table if table[name] >= $least]", {"least": range(1, 8)}),
    Part("total", "Return the list [number of names, sum of the values].", "[len(table), sum(table.values())]"),
)  # fmt: skip


def _table_program(keep: Part, group: Part, rank: Part) -> Family:
    name = f"{rank.name}_{group.name}_of_{keep.name}"
    text = f"Take a list of pairs [name, points]. Use only the pairs {keep.text}. The value of a name among these is "
    text += f"{group.text}. {rank.text}"
    source = f"\ndef {name}(rows):\n    groups = {{}}\n    for place in range(len(rows)):\n"
    source += f"        name, points = rows[place]\n        if {keep.code}:\n"
    source += "            groups.setdefault(name, []).append(points)\n    table = {}\n"
    source += f"    for name, values in groups.items():\n        table[name] = {group.code}\n    return {rank.code}\n"
    return Family(name, text, _merged(keep, group, rank), ("scores",), source)


# Level 4: the best chain of elements, by dynamic programming.

_LINKED = (
    Part("climb", "it is greater than a by at least $gap", "b - a >= $gap", {"gap": range(1, 5)}),
    Part("descent", "it is smaller than a by at least $gap", "a - b >= $gap", {"gap": range(1, 5)}),
    Part("near", "it differs from a by at most $near", "abs(a - b) <= $near", {"near": range(3, 8)}),
    Part("far", "it differs from a by at least $gap", "abs(a - b) >= $gap", {"gap": range(4, 10)}),
    Part("step", "its difference from a is divisible by $d", "(b - a) % $d == 0", {"d": range(3, 7)}),
    Part("apart", "its position is at least $skip after that of a", "later - earlier >= $skip", {"skip": (2, 3)}),
    Part("indivisible", "its sum with a is not divisible by $d", "(a + b) % $d != 0", {"d": range(2, 5)}),
    Part("close", "its position is at most $reach after that of a and it is not equal to a",
         "later - earlier <= $reach and a != b", {"reach": range(2, 5)}),
)  # fmt: skip
_VALUED = (
    Part("longest", "Return the length of the longest chain, times $times", "1",
         {"times": range(2, 7)}, "max", "$times * max(best)"),
    Part("greatest", "Return the greatest sum of a chain, plus $plus", "b",
         {"plus": range(1, 6)}, "max", "max(best) + $plus"),
    Part("least", "Return the smallest sum of a chain, minus $minus", "b",
         {"minus": range(1, 6)}, "min", "min(best) - $minus"),
    Part("heaviest", "Return the greatest sum of absolute values of a chain, times $times", "abs(b)",
         {"times": range(2, 7)}, "max", "$times * max(best)"),
    Part("dearest", "Return the greatest value of a chain, which is its sum minus $cost for each element",
         "b - $cost", {"cost": range(1, 6)}, "max", "max(best)"),
)  # fmt: skip
_STARTED = (
    Part("any", "A chain may begin anywhere.", "True"),
    Part("front", "A chain must begin at one of the first $front elements.", "later < $front", {"front": (2, 3, 4)}),
    Part("multiple", "A chain may begin only with a number that is divisible by $first, or with the first element.",
         "later == 0 or b % $first == 0", {"first": (2, 3)}),
)  # fmt: skip


def _chain_program(link: Part, value: Part, start: Part) -> Family:
    name = f"{value.name}_{link.name}_from_{start.name}"
    text = "Take a list of integers. A chain takes elements from left to right; after an element a, the next may be "
    text += f"taken if {link.text}. {start.text} A chain has at least one element. {value.text}; 0 for an empty list."
    source = f"\ndef {name}(numbers):\n    ends = []\n    for later in range(len(numbers)):\n"
    source += f"        b = numbers[later]\n        found = []\n        if {start.code}:\n"
    source += f"            found.append({value.code})\n"
    source += "        for earlier in range(later):\n            a = numbers[earlier]\n"
    source += f"            if ends[earlier] is not None and {link.code}:\n"
    source += f"                found.append(ends[earlier] + {value.code})\n"
    source += f"        ends.append({value.before}(found) if found else None)\n"
    source += "    best = [end for end in ends if end is not None]\n    if not best:\n        return 0\n"
    source += f"    return {value.result}\n"
    return Family(name, text, _merged(link, value, start), ("long_ints",), source)


# Level 5: a store with few slots, in which numbers arrive.

_EVICTED = (
    Part("oldest", "the one that has been there longest leaves", "gone = store.pop(0)"),
    Part("newest", "the one that came last leaves", "gone = store.pop()"),
    Part("smallest", "the smallest leaves", "gone = min(store)\nstore.remove(gone)"),
    Part("greatest", "the greatest leaves", "gone = max(store)\nstore.remove(gone)"),
    Part("nearest", "the one nearest to the new number leaves (the smaller of two that are equally near)",
         "gone = min(store, key=lambda kept: (abs(kept - number), kept))\nstore.remove(gone)"),
    Part("farthest", "the one farthest from the new number leaves (the smaller of two that are equally far)",
         "gone = min(store, key=lambda kept: (-abs(kept - number), kept))\nstore.remove(gone)"),
    Part("turn", "the one at position n modulo $size leaves, where n counts how many have left so far",
         "gone = store.pop(left % $size)"),
    Part("middle", "the one in the middle (position $size // 2, from 0) leaves", "gone = store.pop($size // 2)"),
)  # fmt: skip
_MET = (
    Part("hit", "that is a hit, and nothing else happens", "hits += 1"),
    Part("renewed", "that is a hit, and the number moves to the end of the store",
         "hits += 1\nstore.remove(number)\nstore.append(number)"),
    Part("removed", "that is a hit, and the number there leaves the store", "hits += 1\nstore.remove(number)"),
    Part("grown", "that is a hit, and the number there is replaced by itself plus $plus, at its position",
         "hits += 1\nstore[store.index(number)] += $plus", {"plus": range(1, 5)}),
    Part("cleared", "that is a hit, and all that came before it leaves the store",
         "hits += 1\nstore = store[store.index(number):]"),
)  # fmt: skip
_REPORTED = (
    Part("store", "Return the store at the end, as a list in the order of arrival.", "store"),
    Part("sums", "Return the list [hits, sum of the numbers that left because the store was full].", "[hits, total]"),
    Part("score", "Return $weight times the hits plus the number of those that left because the store was full.",
         "$weight * hits + left", {"weight": range(2, 7)}),
    Part("rest", "Return the sum of the store at the end minus $weight times the hits.",
         "sum(store) - $weight * hits", {"weight": range(2, 7)}),
)  # fmt: skip


def _store_program(evict: Part, meet: Part, report: Part) -> Family:
    name = f"{report.name}_after_{evict.name}_{meet.name}"
    text = "Take a list of integers that arrive one after the other at a store with $size slots, which is empty at "
    text += f"first. If a number is in the store already, {meet.text}. Otherwise it is added at the end of the store; "
    text += f"if the store is full, {evict.text} before. {report.text}"
    source = f"\ndef {name}(numbers):\n    store = []\n    hits = 0\n    left = 0\n    total = 0\n"
    source += f"    for number in numbers:\n        if number in store:\n{_indented(meet.code, 3)}"
    source += "            continue\n"
    source += f"        if len(store) >= $size:\n{_indented(evict.code, 3)}            left += 1\n"
    source += f"            total += gone\n        store.append(number)\n    return {report.code}\n"
    return Family(name, text, {"size": (2, 3, 4), **_merged(evict, meet, report)}, ("arrivals",), source)


COMPOSED: tuple[tuple[Family, ...], ...] = (
    _crossed(_SELECTED, _CHANGED, _GATHERED, _list_program),
    _crossed(_ASKED, _DONE, _ELSE, _state_program),
    _crossed(_FILTERED, _GROUPED, _RANKED, _table_program),
    _crossed(_EVICTED, _MET, _REPORTED, _store_program),
    _crossed(_LINKED, _VALUED, _STARTED, _chain_program),
)
