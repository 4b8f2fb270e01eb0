"""The working of experts on puzzles of choices, moves, letters and rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product

from rlvr.envs.tasks.answers import listed
from rlvr.envs.tasks.questions import Question
from rlvr.envs.tasks.wording import added, bracketed, counted, in_a_row

Cell = tuple[int, int]
STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


# choices


def knapsack(text: str) -> str:
    """For each thing from the last, the best value with it and without it in the room that is left."""
    things = [(int(w), int(v)) for w, v in re.findall(r"weight (\d+), value (\d+)", text)]
    room = int(re.findall(r"a weight of at most (\d+)", text)[0])

    @cache
    def best(count: int, left: int) -> int:
        """The best value of the first ``count`` things in so much room."""
        if not count:
            return 0
        weight, value = things[count - 1]
        without = best(count - 1, left)
        return max(without, best(count - 1, left - weight) + value) if weight <= left else without

    lines, taken, left = [], list[int](), room
    for count in range(len(things), 0, -1):
        weight, value = things[count - 1]
        without = best(count - 1, left)
        if weight > left:
            lines.append(f"Thing {count} weighs {weight}, more than {left}: leave it.")
            continue
        within = best(count - 1, left - weight)
        take = within + value > without
        lines.append(
            f"Room {left}: with thing {count}, {value} + {within} = {value + within}, without it {without}: "
            f"{'take' if take else 'leave'} it."
        )
        if take:
            taken.append(count)
            left -= weight
    taken.reverse()
    weights, values = [things[n - 1][0] for n in taken], [things[n - 1][1] for n in taken]
    chosen = f"Things {listed(taken)}: weight {added(weights)}, at most {room}; value {added(values)}"
    return "\n".join([*lines, chosen])


def interval_scheduling(text: str) -> str:
    """For each job in the order of the ends, the most that can be earned until then, with it and without it."""
    jobs_read = re.findall(r"job (\d+): from hour (\d+) to hour (\d+), pays (\d+)", text)
    jobs = sorted((int(b), int(n), int(a), int(pay)) for n, a, b, pay in jobs_read)
    lines, best = list[str](), 0
    done: list[tuple[int, int]] = [(0, 0)]  # an hour, and the most that can be earned until then
    for end, number, start, pay in jobs:
        before = max(earned for hour, earned in done if hour <= start)
        lines.append(
            f"Job {number}, hours {start} to {end}: {pay} + {before} until hour {start} = {pay + before}, without it "
            f"{best}."
        )
        best = max(best, pay + before)
        done.append((end, best))
    return "\n".join([*lines, f"The most is {best}."])


def coin_change(text: str) -> str:
    """For each number of the largest coins, in how many ways the others pay the rest."""
    listing, amount = re.findall(r"coins of (.*) cents\. In how many ways can exactly (\d+) cents", text)[0]
    coins = [
        (int(coin), int(limit or 10**6)) for coin, limit in re.findall(r"(\d+)(?: \(at most (\d+) of them\))?", listing)
    ]
    coins.sort()

    @cache
    def ways(count: int, total: int) -> int:
        """The ways in which the smallest ``count`` kinds pay a total."""
        if not count:
            return int(total == 0)
        coin, limit = coins[count - 1]
        return sum(ways(count - 1, total - n * coin) for n in range(min(limit, total // coin) + 1))

    lines, counts = list[str](), list[int]()
    (second, most_second), (largest, limit) = coins[-2:]
    for n in range(min(limit, int(amount) // largest) + 1):
        rest = int(amount) - n * largest
        parts = [ways(len(coins) - 2, rest - k * second) for k in range(min(most_second, rest // second) + 1)]
        counts.append(sum(parts))
        how = f"the others pay the rest in {added(parts)} way{'s' * (sum(parts) != 1)}"
        lines.append(f"{counted(n, 'coin')} of {largest}: {rest} left; with 0, 1, ... coins of {second} {how}")
    return "\n".join([*lines, f"Ways in all: {added(counts)}"])


def bin_packing(state: Question) -> str:
    """What each bin holds."""
    sizes, capacity, bins = state.answer
    chosen = [int(number) for number in state.answer_text.split(", ")]
    pairs = list(zip(sizes, chosen, strict=True))
    lines = [
        f"Bin {k}: {added([size for size, number in pairs if number == k])}, at most {capacity}"
        for k in range(1, bins + 1)
    ]
    return "\n".join([f"All sizes: {added(sizes)}, of {bins} * {capacity} = {bins * capacity}", *lines])


def _span(noun: str, first: int, count: int) -> str:
    """``row 3``, ``rows 3-5``."""
    return f"{noun} {first}" if count == 1 else f"{noun}s {first}-{first + count - 1}"


def rectangle_packing(state: Question) -> str:
    """Which rows and columns each piece takes, and that the areas add up."""
    height, width, sizes = state.answer
    corners = [tuple(map(int, corner.split())) for corner in state.answer_text.split(", ")]
    lines = [
        f"{h} x {w}: {_span('row', r, h)}, {_span('column', c, w)}"
        for (h, w), (r, c) in zip(sizes, corners, strict=True)
    ]
    areas = added([h * w for h, w in sizes])
    return "\n".join([*lines, f"The areas {areas} are those of {height} * {width} = {height * width}"])


def set_cover(state: Question) -> str:
    """Who holds each number among the sets chosen, and that fewer sets leave a number out."""
    sets = {name: {int(n) for n in row.split(", ")} for name, row in re.findall(r"^([P-Z]): (.*)$", state.text, re.M)}
    chosen = state.answer_text.split(", ")
    every = sorted(set().union(*sets.values()))
    rarest = min(every, key=lambda n: sum(n in some for some in sets.values()))
    lines = [f"{rarest} is only in {in_a_row([name for name, some in sets.items() if rarest in some])}."]
    for name in (name for name, some in sets.items() if rarest in some):
        left = set(every) - sets[name]
        fewer = [pick for pick in combinations(sets, len(chosen) - 2) if left <= set().union(*(sets[p] for p in pick))]
        if not fewer:
            more = "other set holds" if len(chosen) == 3 else f"{len(chosen) - 2} other sets hold"
            lines.append(f"With {name} {listed(sorted(left))} are left; no {more} them all.")
    covered: set[int] = set()
    for name in chosen:
        new = sets[name] - covered
        covered |= new
        lines.append(f"{name} holds {listed(sorted(new))}{' too' if len(new) < len(covered) else ''}.")
    return "\n".join(lines)


def stable_matching(state: Question) -> str:
    """The doctors' proposals one after another, and what the hospitals say."""
    likes = dict(re.findall(r"^(\w\w+): (.*)$", state.text.partition("\nHospitals")[0], re.M))
    liked = dict(re.findall(r"^(\w): (.*)$", state.text, re.M))
    rank = {name: row.split(", ") for name, row in liked.items()}
    wishes = {name: row.split(", ") for name, row in likes.items()}
    holds: dict[str, str] = {}
    waiting, lines = list(wishes), [f"{name} likes {row}." for name, row in likes.items()]
    while waiting:
        doctor = waiting.pop(0)
        hospital = wishes[doctor].pop(0)
        other = holds.get(hospital)
        if other is None:
            lines.append(f"{doctor} asks {hospital}, which is free and takes {doctor}.")
        elif rank[hospital].index(doctor) < rank[hospital].index(other):
            lines.append(f"{doctor} asks {hospital}, which likes {doctor} better than {other}: {other} has to go.")
            waiting.append(other)
        else:
            lines.append(f"{doctor} asks {hospital}, which likes {other} better.")
            waiting.append(doctor)
            continue
        holds[hospital] = doctor
    return "\n".join(lines)


def round_trip(text: str, answer: str) -> str:
    """The legs of the trip."""
    table = {name: row.split() for name, row in re.findall(r"^([P-W]): ([\d ]+)$", text, re.M)}
    names, trip = list(table), answer.split(", ")
    legs = [(a, b, int(table[a][names.index(b)])) for a, b in zip(trip, [*trip[1:], trip[0]], strict=True)]
    near = [min(int(way) for other, way in zip(names, table[name], strict=True) if other != name) for name in names]
    shown = listed(f"{a} to {b} {length}" for a, b, length in legs)
    return "\n".join([
        f"The shortest way from each place: {added(near)}, so no trip is shorter than that.",
        f"The best order found: {shown}; {added([length for *_, length in legs])}",
    ])  # fmt: skip


def assignment(text: str, answer: str) -> str:
    """What each person's job costs, and the least that each person could cost."""
    rows = [[int(cost) for cost in row.split()] for row in re.findall(r"^person \d+: ([\d ]+)$", text, re.M)]
    chosen = [row[int(job) - 1] for row, job in zip(rows, answer.split(", "), strict=True)]
    return "\n".join([
        f"The cheapest job of each person: {added(list(map(min, rows)))}, so no assignment is cheaper than that.",
        f"Jobs {answer} for persons 1 to {len(rows)}: {added(chosen)}, the lowest found in which no job stands twice.",
    ])  # fmt: skip


def flow_shop(text: str) -> str:
    """Johnson's order, and when each job leaves both machines."""
    jobs = [(int(a), int(b), int(n)) for n, a, b in re.findall(r"job (\d+): (\d+) minutes?, then (\d+) minute", text)]
    early = sorted((job for job in jobs if job[0] <= job[1]), key=lambda job: job[:2])
    late = sorted((job for job in jobs if job[0] > job[1]), key=lambda job: -job[1])
    lines = [
        f"By Johnson's rule, shorter on the first machine: {listed(job[2] for job in early) or 'none'}, by that time; "
        f"then, longest on the second first: {listed(job[2] for job in late) or 'none'}."
    ]
    first = second = 0
    for a, b, number in early + late:
        begin = max(first + a, second)
        lines.append(f"Job {number}: first machine {first} + {a} = {first + a}, second {begin} + {b} = {begin + b}")
        first, second = first + a, begin + b
    return "\n".join(lines)


def critical_path(text: str) -> str:
    """The earliest end of each task, then the latest one, and the slack between them."""
    jobs_read = re.findall(r"^(\w) takes (\d+) days?(?:, after ([\w, ]+))?$", text, re.M)
    days = {name: int(count) for name, count, _ in jobs_read}
    before = {name: need.split(", ") if need else [] for name, _, need in jobs_read}
    ends: dict[str, int] = {}
    lines = []
    while len(ends) < len(days):
        name = next(name for name in days if name not in ends and all(other in ends for other in before[name]))
        start = max((ends[other] for other in before[name]), default=0)
        ends[name] = start + days[name]
        after = f" after {in_a_row(before[name])}" if before[name] else ""
        lines.append(f"{name}{after} ends at the earliest on day {start} + {days[name]} = {ends[name]}")
    total = max(ends.values())
    latest: dict[str, int] = {}
    for name in reversed(list(ends)):
        starts = [latest[other] - days[other] for other in days if name in before[other]]
        latest[name] = min(starts, default=total)
        slack = f"{latest[name]} - {ends[name]} = {latest[name] - ends[name]}"
        lines.append(f"{name} must end by day {latest[name]}, slack {slack}")
    return "\n".join([*lines, f"The project takes {total} days."])


# moves


def hanoi(text: str) -> str:
    """From the largest disc to the smallest: where it goes, and what must be out of its way."""
    now, goal = (
        {int(disc): peg for peg, discs in re.findall(r"([ABC]) has ([\d ]+)", line) for disc in discs.split()}
        for line in re.findall(r"^(?:Now|Goal): (.*)$", text, re.M)
    )
    lines = re.findall(r"^(?:Now|Goal): .*$", text, re.M)
    where = dict(now)

    def bring(disc: int, target: str, shown: bool) -> None:
        if where[disc] == target:
            if shown:
                lines.append(f"Disc {disc} lies on {target} already.")
            return
        (spare,) = set("ABC") - {where[disc], target}
        away = [str(small) for small in range(disc - 1, 0, -1) if where[small] != spare]
        if shown:
            before = f"; first disc{'s' * (len(away) > 1)} {in_a_row(away)} to {spare}" if away else ""
            lines.append(f"Disc {disc} goes from {where[disc]} to {target}{before}.")
        for small in range(disc - 1, 0, -1):
            bring(small, spare, False)
        where[disc] = target

    for disc in range(len(now), 0, -1):
        bring(disc, goal[disc], True)
    return "\n".join(lines)


def maze_path(rows: Sequence[str], way: str) -> str:
    """Each straight part of the way, and the character where it ends."""
    row = column = 1
    parts = [match[0] for match in re.finditer(r"(.)\1*", way)]
    names = {"U": "up", "D": "down", "L": "left", "R": "right"}
    lines = []
    for part in parts:
        dy, dx = STEPS[part[0]]
        row, column = row + dy * len(part), column + dx * len(part)
        line = rows[row]
        lines.append(f"{len(part)} {names[part[0]]} to line {row + 1}, {line}, character {column + 1}: {part}")
    return "\n".join(lines)


def sliding_tiles(state: Question) -> str:
    """Which tile each move of the gap shifts, and the rows after every few moves."""
    tiles, _, size = state.answer
    board = list(tiles)
    lines = []
    for number, move in enumerate(state.answer_text, 1):
        gap = board.index(".")
        dy, dx = STEPS[move]
        other = gap + dy * size + dx
        board[gap], board[other] = board[other], board[gap]
        rows = " / ".join(" ".join(board[k : k + size]) for k in range(0, size * size, size))
        lines.append(f"{number}. {move}, tile {board[gap]}: {rows}")
    return "\n".join(lines)


def lights_out(state: Question) -> str:
    """For each lamp how many of the presses change it, which is odd where it is on."""
    presses = state.answer_text.split("\n")
    size = len(presses)
    lines = []
    for r in range(size):
        counts = "".join(
            str(sum(presses[y][x] == "1" for y in range(size) for x in range(size) if abs(y - r) + abs(x - c) <= 1))
            for c in range(size)
        )
        lines.append(f"Row {r + 1} is {state.answer[r]:0{size}b}, pressed {presses[r]}, changed {counts} times")
    return "\n".join([*lines, "The counts are odd where a lamp is on, and even where it is off."])


def cube(
    state: Question, moved: Callable[[str, Iterable[str]], str], faces_of: Callable[[str], Mapping[str, Iterable[str]]]
) -> str:
    """The faces after each move."""
    cube, lines = state.answer, []
    for move in ("", *state.answer_text.split()):
        cube = moved(cube, [move]) if move else cube
        faces = [f"{name} {' '.join(rows)}" for name, rows in faces_of(cube).items()]
        lines.append(f"{f'After {move}' if move else 'Now'}: {', '.join(faces)}")
    return "\n".join(lines)


def cube_net(text: str, gold: Sequence[str]) -> str:
    """Which faces of the net lie opposite each other, and how the cube lies after each roll."""
    net = {
        (r, c): s for r, row in enumerate(re.findall(r"^[A-Z.]+$", text, re.M)) for c, s in enumerate(row) if s != "."
    }
    opposite = opposite_faces(net)
    pairs = sorted({tuple(sorted(pair)) for pair in opposite.items()})
    lines = [f"Folded, these lie opposite each other: {'; '.join(f'{a} and {b}' for a, b in pairs)}."]
    if "stands before you" not in text:
        return lines[0]
    rolls = re.findall(r"to the right|to the left|towards you|away from you", text.rpartition("It is rolled")[2])
    rolls = rolls if "It is rolled" in text else []
    up, front, right = gold[:3]
    positions = [(up, front, right)]
    for roll in reversed(rolls):  # back to the start, which tells the face on the right
        up, front, right = {
            "to the right": (right, front, opposite[up]), "to the left": (opposite[right], front, up),
            "towards you": (front, opposite[up], right), "away from you": (opposite[front], up, right),
        }[roll]  # fmt: skip
        positions.append((up, front, right))
    for when, (up, front, right) in zip(
        ["At first", *(f"Rolled {roll}" for roll in rolls)], positions[::-1], strict=True
    ):
        lines.append(f"{when}: {up} on top, {front} in front, {right} on the right.")
    return "\n".join(lines)


def opposite_faces(net: dict[Cell, str]) -> dict[str, str]:
    """Who lies opposite whom when the net is folded: each square turns over an edge into a new direction."""
    first = min(net)
    frames = {first: ((0, 0, 1), (1, 0, 0), (0, -1, 0))}  # outside, to the right and downwards
    waiting = [first]

    def less(v: tuple[int, int, int]) -> tuple[int, int, int]:
        return -v[0], -v[1], -v[2]

    for r, c in waiting:
        out, right, down = frames[r, c]
        for cell, frame in (
            ((r, c + 1), (right, less(out), down)), ((r, c - 1), (less(right), out, down)),
            ((r + 1, c), (down, right, less(out))), ((r - 1, c), (less(down), right, out)),
        ):  # fmt: skip
            if cell in net and cell not in frames:
                frames[cell] = frame
                waiting.append(cell)
    names = {frame[0]: net[cell] for cell, frame in frames.items()}
    return {name: names[less(out)] for out, name in names.items()}


# letters


def word_search(state: Question) -> str:
    """The cells of each word."""
    _, words, _ = state.answer
    way = {"N": (-1, 0), "NE": (-1, 1), "E": (0, 1), "SE": (1, 1), "S": (1, 0), "SW": (1, -1), "W": (0, -1),
           "NW": (-1, -1)}  # fmt: skip
    lines = []
    for word, position in zip(words, state.answer_text.split(", "), strict=True):
        r, c, name = position.split()
        dy, dx = way[name]
        cells = " ".join(f"{letter} ({int(r) + k * dy},{int(c) + k * dx})" for k, letter in enumerate(word))
        lines.append(f"{word}: {cells}, towards {name}")
    return "\n".join(lines)


def crossword(state: Question, slots: Callable[[tuple[str, ...]], list[list[Cell]]]) -> str:
    """The word of each group of dots, with its length and where it begins."""
    pattern, _ = state.answer
    rows = state.answer_text.split("\n")
    lines = []
    for slot in slots(pattern):
        (r, c), (y, _) = slot[0], slot[-1]
        way = "across" if r == y else "down"
        word = "".join(rows[a][b] for a, b in slot)
        lines.append(f"Row {r + 1}, column {c + 1}, {way}, {len(slot)} letters: {word}")
    return "\n".join(lines)


def word_tracing(text: str) -> str:
    """The cells of each word that can be traced; of the others how far one comes."""
    rows = re.findall(r"^[a-z]+$", text, re.M)
    cells = {(r, c): letter for r, row in enumerate(rows) for c, letter in enumerate(row)}
    lines = []

    def paths(word: str, path: tuple[Cell, ...]) -> Iterator[tuple[Cell, ...]]:
        """Every beginning of the word that can be traced from here."""
        yield path
        for cell, letter in cells.items() if len(path) < len(word) else ():
            near = not path or max(abs(cell[0] - path[-1][0]), abs(cell[1] - path[-1][1])) == 1
            if letter == word[len(path)] and near and cell not in path:
                yield from paths(word, (*path, cell))

    for word in re.findall(r"can be traced: (.*)\? Answer", text)[0].split(", "):
        longest = max(paths(word, ()), key=len)
        shown = " ".join(f"{cells[cell]} ({cell[0] + 1},{cell[1] + 1})" for cell in longest)
        no = "" if len(longest) == len(word) else f"; no {word[len(longest)]} goes on from there, or from elsewhere"
        lines.append(f"{word}: {shown or 'no beginning'}{no}")
    return "\n".join(lines)


# rules

Term = Callable[[int, Sequence[int]], tuple[str, int]]  # x and the parameters -> the term with numbers, its value


def plus(number: int) -> str:
    """``+ 3`` or ``- 3``, for the end of a sum."""
    return f"{'-' if number < 0 else '+'} {abs(number)}"


def straight(x: int, a: int, b: int) -> tuple[str, int]:
    return f"{a}*{x} {plus(b)}", a * x + b


DIGITS, HALVES = range(1, 10), (range(2, 6), range(-2, 3))
FUNCTIONS: tuple[tuple[str, str, tuple[range, ...], Term], ...] = (
    ("a x + b", "ab", (range(2, 13), range(-9, 10)), lambda x, p: straight(x, p[0], p[1])),
    (
        "a x^2 + b x + c", "abc", (range(1, 4), range(-4, 5), range(-5, 6)),
        lambda x, p: (f"{p[0]}*{x}*{x} + {bracketed(p[1])}*{x} {plus(p[2])}", p[0] * x * x + p[1] * x + p[2]),
    ),
    (
        "(a x modulo m) + b", "amb", (range(2, 8), range(5, 14), range(4)),
        lambda x, p: (f"{p[0] * x} % {p[1]} + {p[2]}", p[0] * x % p[1] + p[2]),
    ),
    (
        "b times the quotient plus c times the remainder", "abc", (range(2, 6), DIGITS, DIGITS),
        lambda x, p: (f"{p[1]}*{x // p[0]} + {p[2]}*{x % p[0]}", x // p[0] * p[1] + x % p[0] * p[2]),
    ),
    ("a x + b for odd x", "abcd", HALVES * 2, lambda x, p: straight(x, *(p[:2] if x % 2 else p[2:]))),
    (
        "a x + b for x up to n", "abcdn", (*HALVES * 2, range(8, 21)),
        lambda x, p: straight(x, *(p[:2] if x <= p[4] else p[2:4])),
    ),
    (
        "a times the sum of the digits", "abc", (DIGITS, range(4), range(-4, 5)),
        lambda x, p: (
            f"{p[0]}*{x % 10 + x // 10} + {p[1]}*{x} {plus(p[2])}", p[0] * (x % 10 + x // 10) + p[1] * x + p[2]
        ),
    ),
)  # fmt: skip


def function_found(text: str) -> str:
    """The first kind of function that has all the values, with its numbers, and each value by it."""
    shown = [(int(x), int(y)) for x, y in re.findall(r"f\((\d+)\) = (-?\d+)", text)]
    asked = int(re.findall(r"What is f\((\d+)\)\?", text)[0])
    for begin, names, ranges, term in FUNCTIONS:
        kind = re.findall(rf"^- ({re.escape(begin)}.*?), with", text, re.M)
        for numbers in product(*ranges) if kind else ():
            if all(term(x, numbers)[1] == y for x, y in shown):
                values = listed(f"{name} = {number}" for name, number in zip(names, numbers, strict=True))
                lines = [f"f({x}) = {' = '.join(map(str, term(x, numbers)))}" for x in (*(x for x, _ in shown), asked)]
                return "\n".join([f"{kind[0]}, with {values}:", *lines])
    return ""
