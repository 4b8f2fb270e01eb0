"""The working of experts of this family on programs, data and rewriting, from the text of a question."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from rlvr.envs.tasks.answers import listed
from rlvr.envs.tasks.wording import added, counted

# programs

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b, ">": lambda a, b: a > b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b
}  # fmt: skip
Line = tuple[int, str]  # how far a line of a program is indented, and what it says


class ProgramTrace:
    """What a program does, assignment by assignment."""

    def __init__(self, text: str, names: dict[str, int]) -> None:
        lines = text.split("\n")
        self.program = [(len(line) - len(line.lstrip()), line.strip()) for line in lines]
        self.names = names
        self.lines: list[str] = []
        self.steps: list[str] = []

    def value(self, words: list[str]) -> tuple[int, str]:
        """The value of the expression that the words begin with, and the expression with numbers for names."""

        def part() -> tuple[int, str]:
            word = words.pop(0)
            if word != "(":
                number = self.names[word] if word in self.names else int(word)
                return number, f"({number})" if number < 0 else str(number)
            number, shown = whole()
            words.pop(0)
            return number, f"({shown})"

        def whole() -> tuple[int, str]:
            number, shown = part()
            while words and words[0] in OPERATIONS:
                sign = words.pop(0)
                other, more = part()
                number, shown = OPERATIONS[sign](number, other), f"{shown} {sign} {more}"
            return number, shown

        return whole()

    def run(self, start: int, end: int) -> None:
        """Run the lines from ``start`` to before ``end``."""
        index = start
        while index < end:
            indent, line = self.program[index]
            after = self.block(index + 1, end, indent)
            if match := re.match(r"repeat (\d+) times:", line):
                for number in range(1, int(match[1]) + 1):
                    self.say(f"round {number}:")
                    self.run(index + 1, after)
                self.say("")
            elif line.startswith("if "):
                words = re.findall(r"[()]|//|[<>=!]=|[-+*%<>]|\w+", line)[1:]
                left, shown = self.value(words)
                sign = words.pop(0)
                right, other = self.value(words)
                holding = COMPARISONS[sign](left, right)
                self.steps.append(f"{shown} {sign} {other} is {'true' if holding else 'false'}")
                middle, has_else = after, after < end and self.program[after] == (indent, "else:")
                after = self.block(after + 1, end, indent) if has_else else after
                if holding:
                    self.run(index + 1, middle)
                elif has_else:
                    self.run(middle + 1, after)
            else:
                self.assign(line)
            index = after

    def block(self, start: int, end: int, indent: int) -> int:
        """The end of the lines from ``start`` that are indented further."""
        return next((index for index in range(start, end) if self.program[index][0] <= indent), end)

    def assign(self, line: str) -> None:
        """An assignment or an output."""
        words = re.findall(r"[()]|//|[-+*%]|\w+", line.partition(" = ")[2] or line.removeprefix("print "))
        number, shown = self.value(words)
        result = "" if shown.strip("()") == str(number) else f" = {number}"
        if line.startswith("print "):
            self.steps.append(f"prints {shown}{result}")
            return
        name = line.partition(" = ")[0]
        self.names[name] = number
        self.steps.append(f"{name} = {shown}{result}")

    def say(self, prefix: str) -> None:
        """End the line of steps, and begin another one."""
        if any(not step.endswith(":") for step in self.steps):
            self.lines.append(
                " ".join(
                    [
                        *(s for s in self.steps if s.endswith(":")),
                        "; ".join(s for s in self.steps if not s.endswith(":")),
                    ]
                )
            )
            self.steps = []
        self.steps += [prefix] * bool(prefix)


def code_output(text: str) -> str:
    """Each assignment with its numbers, a line for each round of a loop."""
    trace = ProgramTrace(text.split("\n\n")[1], {})
    trace.run(0, len(trace.program))
    trace.say("")
    return "\n".join(trace.lines)


def code_input(text: str, answer: str) -> str:
    """What the program does with the input found, assignment by assignment."""
    trace = ProgramTrace(text.split("\n\n")[1], {"x": int(answer)})
    trace.run(0, len(trace.program))
    trace.say("")
    return "\n".join([f"With x = {answer}:", *trace.lines])


# data


def json_paths(text: str) -> str:
    """The innermost part of the document that each path leads to, and the sizes that are added."""
    document = json.loads(re.findall(r"^(?:\$ = )?([\[{].*)$", text, re.M)[0])
    lines = []
    for number, path in re.findall(r"^(\d+)\. (\$.*)$", text, re.M):
        value: Any = document
        holder, way = document, "$"
        for step in re.findall(r"\.\w+|\[-?\d+\]", path):
            holder, before = value, way
            value = value[step[1:]] if step[0] == "." else value[int(step[1:-1])]
            way += step
        lines.append(f"{number}. {before} is {json.dumps(holder)}, so {path} is {value}")
    if rows := re.findall(r"^rows = (.*)$", text, re.M):
        least = int(re.findall(r"live and over (\d+)", text)[0])
        sizes = [row["size"] for row in json.loads(rows[0]) if row["live"] and row["size"] > least]
        lines.append(f"Live and over {least}: {added(sizes) if sizes else 'none, 0'}")
    return "\n".join(lines)


def meeting_times(text: str) -> str:
    """For each day the times at which anybody is busy, joined, until there is room between them."""
    length = int(re.findall(r"meet for (\d+) minutes", text)[0])
    days: dict[str, list[tuple[int, int]]] = {}
    for day, spans in re.findall(r"^\w+, (\w+): (.*)$", text, re.M):
        times = re.findall(r"(\d+):(\d+)-(\d+):(\d+)", spans)
        days.setdefault(day, []).extend((60 * int(a) + int(b), 60 * int(c) + int(d)) for a, b, c, d in times)
    lines = []
    for day, busy in days.items():
        joined: list[tuple[int, int]] = []
        for start, end in sorted(busy):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        gaps = [(a, b) for (_, a), (b, _) in pairwise([(0, 540), *joined, (1_080, 0)]) if b > a]
        lines.append(f"{day}, somebody is busy: {listed(span(*part) for part in joined)}.")
        shown = listed(f"{span(a, b)} ({b - a} minutes)" for a, b in gaps)
        start = next((a for a, b in gaps if b - a >= length), -1)
        result = f"{length} minutes fit from {hour(start)} on" if start >= 0 else f"{length} minutes fit nowhere"
        lines.append(f"{day}, nobody is: {shown or 'never'}; {result}.")
        if start >= 0:
            break
    return "\n".join(lines)


def span(start: int, end: int) -> str:
    return f"{hour(start)}-{hour(end)}"


def hour(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def needles(text: str) -> str:
    """For each count the numbers of the lines that fit."""
    entries = re.findall(r"^(\d+) the (\w+) (\w+) (\w+)$", text, re.M)
    log = [(int(n), where, what, did) for n, where, what, did in entries]
    pairs = list(pairwise(log))
    lines = []
    for number, asked in re.findall(r"\((\d)\) ([^;]+?)(?:;|\. Answer)", text):
        if part := re.match(r"lines that tell of the (\w+) (\w+)$", asked):
            rows = [n for n, where, what, _ in log if (where, what) == part.groups()]
        elif part := re.match(r"lines in which a (\w+) (\w+), other than the (\w+) one", asked):
            rows = [n for n, where, what, did in log if (what, did) == part.groups()[:2] and where != part[3]]
        elif part := re.match(r"the number of the last line in which a (\w+) (\w+)", asked):
            rows = [n for n, _, what, did in log if (what, did) == part.groups()]
            last = f"lines {listed(rows)}, the last {rows[-1]}" if rows else "in no line, 0"
            lines.append(f"({number}) a {part[1]} {part[2]}: {last}")
            continue
        elif part := re.match(r"lines that tell of a (\w+) directly after a line that tells of a (\w+)", asked):
            rows = [row[0] for before, row in pairs if (row[2], before[2]) == part.groups()]
        else:
            rows = [row[0] for before, row in pairs if row[1:3] == before[1:3]]
        lines.append(f"({number}) {asked}: {listed(rows) or 'none'}; {len(rows)} in all")
    return "\n".join(lines)


def rows_of(text: str, name: str) -> list[list[str]]:
    """The rows of a table of a question."""
    part = re.findall(rf"^{name} \(.*\)\n((?:[^(\n]* \| [^(\n]*\n)+)", text, re.M)[0]
    return [row.split(" | ") for row in part.strip().split("\n")]


def table_queries(text: str) -> str:
    """The rows that a query chooses, with their wages or costs, and what these add up to."""
    people = rows_of(text, "people")
    if match := re.search(r"live in (\w+) and are over (\d+)", text):
        chosen = [row for row in people if row[1] == match[1] and int(row[3]) > int(match[2])]
        shown = listed(f"{row[0]} ({row[3]}) {row[4]}" for row in chosen)
        return f"{shown}: {len(chosen)} of them, {added([int(row[4]) for row in chosen])}"
    if match := re.search(r"For each of (.*), in this order: .*trade is not (\w+)", text):
        lines = []
        for city in match[1].split(", "):
            chosen = [row for row in people if row[1] == city and row[2] != match[2]]
            shown = listed(f"{row[0]} {row[4]}" for row in chosen) or "nobody"
            lines.append(f"{city}: {shown}; {added([int(row[4]) for row in chosen])}")
        return "\n".join(lines)
    if match := re.search(r"who are (\d+) or older", text):
        chosen = sorted(
            (row for row in people if int(row[3]) >= int(match[1])), key=lambda row: (-int(row[4]), int(row[3]), row[0])
        )
        return "\n".join(f"{n}. {row[0]}, {row[4]}, aged {row[3]}" for n, row in enumerate(chosen, 1))
    return joined_tables(text, people)


def joined_tables(text: str, people: list[list[str]]) -> str:
    """The orders of people in a city, with what each costs."""
    orders = rows_of(text, "orders")
    trade_of, city_of = {row[0]: row[2] for row in people}, {row[0]: row[1] for row in people}
    not_trade = re.search(r"trade is not (\w+)", text)
    asked = re.findall(r"for each of (.*)\?", text) or re.findall(r"people who live in (\w+), and", text)
    lines, sums = [], {}
    for city in asked[0].split(", "):
        chosen = [
            row for row in orders if city_of[row[0]] == city and not (not_trade and trade_of[row[0]] == not_trade[1])
        ]
        costs = [int(row[2]) * int(row[3]) for row in chosen]
        shown = listed(f"{row[0]} {row[2]} * {row[3]} = {cost}" for row, cost in zip(chosen, costs, strict=True))
        sums[city] = sum(costs)
        lines.append(f"{city}: {shown or 'no order'}; {counted(len(costs), 'order')}, {added(costs)}")
    if len(sums) > 1:
        lines.append(f"The largest is that of {max(sums, key=sums.__getitem__)}.")
    return "\n".join(lines)


# rewriting


def polymer(text: str) -> str:
    """How often each pair of neighbours stands there after each step, and the letters at the end."""
    rules = dict(re.findall(r"(\w\w) gets (\w)", text))
    start, steps = re.findall(r"The text (\w+) goes through (\d+) steps", text)[0]
    pairs = Counter(a + b for a, b in pairwise(start))
    lines = [f"Pairs: {pair_counts(pairs)}"]
    for number in range(1, int(steps) + 1):
        grown: Counter[str] = Counter()
        for pair, count in pairs.items():
            for new in (pair[0] + rules[pair], rules[pair] + pair[1]) if pair in rules else (pair,):
                grown[new] += count
        pairs = grown
        lines.append(f"Step {number}: {pair_counts(pairs)}")
    lines.append(f"Each letter but the last begins one pair; the last letter is {start[-1]}.")
    for letter in re.findall(r"does each of (.*) stand in it", text)[0].split(", "):
        counts = [count for pair, count in sorted(pairs.items()) if pair[0] == letter]
        lines.append(f"{letter}: {added(counts + [1] * (letter == start[-1]))}")
    return "\n".join(lines)


def pair_counts(pairs: Counter[str]) -> str:
    return " ".join(f"{pair} {count}" for pair, count in sorted(pairs.items()))


Walk = tuple[int, int, int, int]  # steps ahead, steps to the right, quarter turns to the right, letters
TURNS = {0: "ahead", 1: "to the right", 2: "back", 3: "to the left"}


def walked(text: str, means: dict[str, Walk]) -> Walk:
    """Where a text leads."""
    ahead = right = turns = letters = 0
    for symbol in text:
        a, r, turn, count = means[symbol]
        for _ in range(turns % 4):
            a, r = -r, a
        ahead, right, turns, letters = ahead + a, right + r, (turns + turn) % 4, letters + count
    return ahead, right, turns, letters


def lindenmayer(text: str) -> str:
    """Where F and X lead after each round, composed of where they led before; at last the text itself."""
    start, rounds = re.findall(r"Begin with (\S+)\. In each of (\d+) rounds", text)[0]
    rules = dict(re.findall(r"every ([FX]) becomes ([FX+-]+)", text))
    means: dict[str, Walk] = {"F": (1, 0, 0, 1), "X": (0, 0, 0, 1), "+": (0, 0, 3, 0), "-": (0, 0, 1, 0)}
    lines = ["Steps ahead, steps to the right, where one looks at the end, letters:"]
    for number in range(1, int(rounds) + 1):
        means |= {name: walked(side, means) for name, side in rules.items()}
        shown = "; ".join(
            f"{name}: {means[name][0]}, {means[name][1]}, {TURNS[means[name][2]]}, {means[name][3]}" for name in "FX"
        )
        lines.append(f"After {counted(number, 'round')} {shown}")
    ahead, right, _, letters = walked(start, means)
    return "\n".join([*lines, f"{start} by this: {ahead} north, {right} east, {counted(letters, 'letter')}"])
