"""The pencil puzzles: their rules written a second time, from the text alone, and held against near misses."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import combinations, pairwise, permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.puzzles import column_sums, latin, letters, loops, numbers, regions, shading
from rlvr.envs.tasks.questions import QuestionTask

from .reading import found, grid, ints

SEEDS = st.integers(0, 2**64)
LEVELS = st.integers(1, 5)


def columns(rows: list) -> list[str]:
    return ["".join(column) for column in zip(*rows, strict=True)]


def cells(rows: list[str], symbol: str) -> set[tuple[int, int]]:
    return {(r, c) for r, row in enumerate(rows) for c, found in enumerate(row) if found == symbol}


def reached(start: Hashable, near: Callable[[Any], Iterable[Any]]) -> set[Any]:
    """All that can be come to from ``start``."""
    seen, stack = {start}, [start]
    while stack:
        for other in near(stack.pop()):
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return seen


def one_piece(places: set[tuple[int, int]]) -> bool:
    def near(place: tuple[int, int]) -> list[tuple[int, int]]:
        return [p for p in places if abs(p[0] - place[0]) + abs(p[1] - place[1]) == 1]

    return not places or reached(min(places), near) == places


def can_pair(tents: list[tuple[int, int]], trees: set[tuple[int, int]]) -> bool:
    """Whether each tent can have a tree beside it of its own, by trying."""
    if not tents:
        return True
    (r, c), *others = tents
    mine = [tree for tree in trees if abs(tree[0] - r) + abs(tree[1] - c) == 1]
    return any(can_pair(others, trees - {tree}) for tree in mine)


def fits(shown: list[str], rows: list[str], empty: str = ".") -> bool:
    return all(a in (empty, b) for one, other in zip(shown, rows, strict=True) for a, b in zip(one, other, strict=True))


# the rules, each from the text: whether an answer keeps them


def square(rows: list[str]) -> bool:
    whole = sorted("123456789"[: len(rows)])
    return all(sorted(line) == whole for line in [*rows, *columns(rows)])


def futoshiki(text: str, rows: list[str]) -> bool:
    signs = re.findall(r"\((\d),(\d)\) < \((\d),(\d)\)", text)
    less = all(rows[int(a) - 1][int(b) - 1] < rows[int(c) - 1][int(d) - 1] for a, b, c, d in signs)
    return square(rows) and less and fits(grid(text, ".123456789"), rows)


def skyscrapers(text: str, rows: list[str]) -> bool:
    def seen(line: str) -> int:
        return sum(all(line[k] > other for other in line[:k]) for k in range(len(line)))

    told = [[int(n) for n in part.split()] for part in re.findall(r"\): ([\d ]+)", text)]
    down = columns(rows)
    views = [[seen(x) for x in lines] for lines in (rows, [r[::-1] for r in rows], down, [c[::-1] for c in down])]
    return square(rows) and views == told and fits(grid(text, ".123456789"), rows)


def cages_of(text: str, rows: list[str]) -> dict[str, list[int]]:
    picture = [line for line in text.split("\n") if line.isalpha() and len(line) == len(rows)]
    cages: dict[str, list[int]] = {}
    for names, row in zip(picture, rows, strict=True):
        for name, digit in zip(names, row, strict=True):
            cages.setdefault(name, []).append(int(digit))
    return cages


def calcudoku(text: str, rows: list[str]) -> bool:
    def values(digits: list[int], sign: str) -> set[float]:
        expressions = (sign.join(map(str, order)) for order in permutations(sorted(digits, reverse=True)))
        first = next(expressions)
        return {eval(first)}

    told = {name: (value, sign or "+") for name, value, sign in re.findall(r"(\w): (\d+)(?: by (.))?[;.]", text)}
    return square(rows) and all(
        float(told[name][0]) in values(digits, told[name][1]) for name, digits in cages_of(text, rows).items()
    )


def killer_sudoku(text: str, rows: list[str]) -> bool:
    height, width = (int(n) for n in re.search(r"box of (\d) rows and (\d) columns", text).groups())
    boxes = [
        "".join(row[left : left + width] for row in rows[top : top + height])
        for top in range(0, len(rows), height)
        for left in range(0, len(rows), width)
    ]
    sums = dict(re.findall(r"(\w): (\d+)", text.split("sums of the cages")[1]))
    cages = cages_of(text, rows)
    whole = all(len(set(line)) == len(rows) for line in boxes)
    right = all(sum(digits) == int(sums[name]) and len(set(digits)) == len(digits) for name, digits in cages.items())
    return square(rows) and whole and right and fits(grid(text, ".123456789"), rows)


def nonograms(text: str, rows: list[str]) -> bool:
    def told(name: str) -> list[list[int]]:
        return [ints(part) for part in found(rf"{name}: (.*)", text).split(",")]

    def groups(line: str) -> list[int]:
        return [len(group) for group in re.findall("1+", line)] or [0]

    return [groups(row) for row in rows] == told("top") and [groups(c) for c in columns(rows)] == told("left")


def takuzu(text: str, rows: list[str]) -> bool:
    lines = [*rows, *columns(rows)]
    fair = all(Counter(line)["0"] == Counter(line)["1"] and not re.search("000|111", line) for line in lines)
    return fair and fits(grid(text, ".01"), rows)


def hitori(text: str, rows: list[str]) -> bool:
    shown = grid(text, "123456789")
    left = [
        "".join("." if mark == "1" else digit for mark, digit in zip(marks, line, strict=True))
        for marks, line in zip(rows, shown, strict=True)
    ]
    once = all(max(Counter(line.replace(".", "")).values(), default=1) == 1 for line in [*left, *columns(left)])
    apart = all("11" not in line for line in [*rows, *columns(rows)])
    return once and apart and one_piece(cells(rows, "0"))


def tents(text: str, rows: list[str]) -> bool:
    trees, stand = cells(grid(text, ".T"), "T"), cells(rows, "1")
    across, down = (ints(part) for part in re.search(r"from the top: (.*); .* from the left: (.*)\.", text).groups())
    counted = [row.count("1") for row in rows] == across and [c.count("1") for c in columns(rows)] == down
    apart = all(max(abs(a - c), abs(b - d)) > 1 for a, b in stand for c, d in stand if (a, b) != (c, d))
    paired = len(stand) == len(trees) and can_pair(sorted(stand), trees)
    return counted and apart and not stand & trees and paired


def star_battle(text: str, answer: list[int]) -> bool:
    rows = [line for line in text.split("\n") if line.isupper() and line.isalpha()]
    regions = {row[star - 1] for row, star in zip(rows, answer, strict=True)}
    apart = all(abs(a - b) > 1 for a, b in pairwise(answer))
    return len(set(answer)) == len(regions) == len(rows) and apart


def slitherlink(text: str, rows: list[str]) -> bool:
    """The sides between inside and outside, as a graph on the corners: one cycle, each corner met once."""
    inside = cells(rows, "1")
    loop: dict[tuple[int, int], set[tuple[int, int]]] = {}
    counts: Counter[tuple[int, int]] = Counter()
    for r, c in product(range(len(rows)), repeat=2):
        sides = {
            (r - 1, c): ((r, c), (r, c + 1)),
            (r + 1, c): ((r + 1, c), (r + 1, c + 1)),
            (r, c - 1): ((r, c), (r + 1, c)),
            (r, c + 1): ((r, c + 1), (r + 1, c + 1)),
        }
        for near, side in sides.items():
            if ((r, c) in inside) != (near in inside):
                loop.setdefault(side[0], set()).add(side[1])
                loop.setdefault(side[1], set()).add(side[0])
                counts[r, c] += 1
    told = grid(text, ".0123")
    right = all(told[r][c] in (".", str(counts[r, c])) for r, c in product(range(len(rows)), repeat=2))
    single = bool(loop) and reached(min(loop), loop.__getitem__) == set(loop)
    single &= all(len(others) == 2 for others in loop.values())
    return right and single


def akari(text: str, rows: list[str]) -> bool:
    """Lines of sight are the pieces between walls of each row and column."""
    shown, lamps = grid(text, ".#01234"), cells(rows, "1")
    inside = range(len(rows))
    empty = {(r, c) for r, c in product(inside, repeat=2) if shown[r][c] == "."}

    def sees(spot: tuple[int, int]) -> list[tuple[int, int]]:
        (r, c), seen = spot, []
        for line in ([(r, k) for k in range(c)][::-1], [(r, k) for k in inside if k > c],
                     [(k, c) for k in range(r)][::-1], [(k, c) for k in inside if k > r]):  # fmt: skip
            wall = next((k for k, at in enumerate(line) if at not in empty), len(line))
            seen += line[:wall]
        return seen

    numbers = all(
        sum(abs(a - r) + abs(b - c) == 1 for a, b in lamps) == int(shown[r][c])
        for r, c in product(inside, repeat=2)
        if shown[r][c].isdigit()
    )
    lit = all(spot in lamps or lamps.intersection(sees(spot)) for spot in empty)
    return numbers and lit and lamps <= empty and not any(lamps.intersection(sees(lamp)) for lamp in lamps)


def norinori(text: str, rows: list[str]) -> bool:
    picture = [line for line in text.split("\n") if line.isupper() and line.isalpha()]
    marked = cells(rows, "1")
    counts = Counter(picture[r][c] for r, c in marked)
    twos = set(counts) == set("".join(picture)) and set(counts.values()) == {2}
    return twos and all(sum(abs(a - r) + abs(b - c) == 1 for a, b in marked) == 1 for r, c in marked)


def nurikabe(text: str, rows: list[str]) -> bool:
    shown, land = grid(text, ".123456789"), cells(rows, "0")
    numbers = {(r, c): int(n) for r, row in enumerate(shown) for c, n in enumerate(row) if n != "."}

    def island(spot: tuple[int, int]) -> set[tuple[int, int]]:
        return reached(spot, lambda at: [p for p in land if abs(p[0] - at[0]) + abs(p[1] - at[1]) == 1])

    islands = [island(spot) for spot in numbers if spot in land]
    apart = len({frozenset(piece) for piece in islands}) == len(numbers) and set().union(*islands) == land
    sized = apart and all(len(island(spot)) == number for spot, number in numbers.items())
    pools = any(
        rows[r][c : c + 2] == rows[r + 1][c : c + 2] == "11" for r, c in product(range(len(rows) - 1), repeat=2)
    )
    return sized and not pools and one_piece(cells(rows, "1"))


def shikaku(text: str, rows: list[str]) -> bool:
    shown = grid(text, ".123456789")
    numbers = [(r, c) for r, row in enumerate(shown) for c, number in enumerate(row) if number != "."]
    names = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(numbers)]
    if any(rows[r][c] != name for name, (r, c) in zip(names, numbers, strict=True)):
        return False
    for name, (r, c) in zip(names, numbers, strict=True):
        lines = [row for row in rows if name in row]
        first = next(k for k, row in enumerate(rows) if name in row)
        same = {(line.index(name), line.count(name)) for line in lines}
        whole = len(same) == 1 and all(name * line.count(name) in line for line in lines)
        if not whole or lines != rows[first : first + len(lines)] or len(cells(rows, name)) != int(shown[r][c]):
            return False
    return set("".join(rows)) <= set(names)


RULES: dict[type, tuple[str, Callable[[str, list], bool]]] = {
    latin.Futoshiki: ("123456789", futoshiki),
    latin.Skyscrapers: ("123456789", skyscrapers),
    latin.Calcudoku: ("123456789", calcudoku),
    latin.KillerSudoku: ("123456789", killer_sudoku),
    shading.Nonograms: ("01", nonograms),
    shading.Takuzu: ("01", takuzu),
    shading.Hitori: ("01", hitori),
    shading.Tents: ("01", tents),
    shading.Akari: ("01", akari),
    regions.Norinori: ("01", norinori),
    regions.Nurikabe: ("01", nurikabe),
    regions.Shikaku: ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", shikaku),
    loops.Slitherlink: ("01", slitherlink),
}


@pytest.mark.parametrize("made", RULES, ids=lambda made: made.__name__)
@given(seed=SEEDS, level=LEVELS)
@settings(max_examples=25, deadline=None)
def test_the_checker_and_the_rules_agree_on_the_solution_and_on_near_misses(made, seed, level):
    symbols, holds = RULES[made]
    task, rng = made(), random.Random(seed)
    question = task.ask(rng, level)
    rows = question.answer_text.split("\n")
    symbols = symbols[: len(rows)] if len(symbols) > 2 else symbols
    assert task.check(question, question.answer_text) is None
    assert holds(question.text, rows)
    for changes in (1, 1, 2, 4):
        table = [list(row) for row in rows]
        for _ in range(changes):
            r, c, y, x = (rng.randrange(len(rows)) for _ in range(4))
            if rng.random() < 0.5:
                table[r][c] = rng.choice(symbols)
            else:
                table[r][c], table[y][x] = table[y][x], table[r][c]
        near = ["".join(row) for row in table]
        assert (task.check(question, "\n".join(near)) is None) == holds(question.text, near)
    exchanged = [*rows[1:], rows[0]]
    assert (task.check(question, "\n".join(exchanged)) is None) == holds(question.text, exchanged)


@pytest.mark.parametrize("made", [m for m in RULES if RULES[m][0] == "01"], ids=lambda made: made.__name__)
def test_every_change_of_one_or_two_cells_is_judged_as_the_rules_say(made):
    task, holds = made(), RULES[made][1]
    question = task.ask(random.Random(4), 1)
    rows = question.answer_text.split("\n")
    size = len(rows)
    for one, other in combinations(range(size * size), 2):
        flat = list("".join(rows))
        for place in {one, other} if other > one + 1 else {one}:
            flat[place] = "10"[int(flat[place])]
        near = ["".join(flat[k : k + size]) for k in range(0, size * size, size)]
        assert (task.check(question, "\n".join(near)) is None) == holds(question.text, near)


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_stars_agree_with_the_rules(seed, level):
    task, rng = shading.StarBattle(), random.Random(seed)
    question = task.ask(rng, level)
    right = ints(question.answer_text)
    other = list(right)
    a, b = rng.sample(range(len(right)), 2)
    other[a], other[b] = other[b], other[a]
    for stars in (right, other, [*right[:-1], right[0]]):
        assert (task.check(question, str(stars)) is None) == star_battle(question.text, stars)


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_trails_go_from_each_number_to_the_next(seed, level):
    rng = random.Random(seed)
    for made, distances in ((loops.Numbrix, {1}), (loops.KnightsTour, {5})):
        task = made()
        question = task.ask(rng, level)
        right = ints(question.answer_text)
        size = int(len(right) ** 0.5)
        shown = [line.split() for line in question.text.split("\n")[1 : size + 1]]
        given_ = [int(n) if n != "." else 0 for row in shown for n in row]
        other = list(right)
        a, b = rng.sample(range(len(right)), 2)
        other[a], other[b] = other[b], other[a]
        for trail in (right, other, right[::-1]):
            place = {n: divmod(k, size) for k, n in enumerate(trail)}
            steps = {
                (place[n][0] - place[n + 1][0]) ** 2 + (place[n][1] - place[n + 1][1]) ** 2
                for n in range(1, size * size)
            }
            holds = steps == distances and all(g in (0, n) for g, n in zip(given_, trail, strict=True))
            assert (task.check(question, " ".join(map(str, trail))) is None) == holds
        assert task.check(question, " ".join(map(str, [*right[:-1], right[0]]))) is not None


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_linked_paths_fill_the_grid(seed, level):
    task, rng = loops.NumberLink(), random.Random(seed)
    question = task.ask(rng, level)
    rows = grid(question.text, ".ABCDEFG")
    paths = question.answer_text.split(", ")
    crossed = list(paths)
    k = rng.randrange(len(paths))
    place = rng.randrange(len(paths[k]))
    crossed[k] = paths[k][:place] + rng.choice("UDLR") + paths[k][place + 1 :]
    for tried in (paths, crossed, [*paths[:-1], paths[-1][:-1] or "U"]):
        walked: list[tuple[int, int]] = []
        ends = True
        for name, steps in zip("ABCDEFG", tried, strict=False):
            first, last = sorted(cells(rows, name))
            spot = complex(*first)
            walked.append((int(spot.real), int(spot.imag)))
            for step in steps:
                spot += {"U": -1, "D": 1, "L": -1j, "R": 1j}[step]
                walked.append((int(spot.real), int(spot.imag)))
            ends &= walked[-1] == last
        every = set(product(range(len(rows)), repeat=2))
        holds = ends and len(walked) == len(set(walked)) and set(walked) == every
        assert (task.check(question, ", ".join(tried)) is None) == holds
    with pytest.raises(ValueError, match="letters"):
        task.check(
            question, question.answer_text.replace("D", "X").replace("R", "X").replace("L", "X").replace("U", "X")
        )


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_a_loop_goes_through_every_circle_as_its_colour_says(seed, level):
    task, rng = loops.Masyu(), random.Random(seed)
    question = task.ask(rng, level)
    rows = grid(question.text, ".BW")
    given_ = sorted(cells(rows, "B") | cells(rows, "W"))

    def holds(steps: str) -> bool:
        walk = list(steps)
        spots = [given_[0]]
        for step in steps:
            y, x = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}[step]
            spots.append((spots[-1][0] + y, spots[-1][1] + x))
        if spots[-1] != spots[0] or len(set(spots)) != len(steps) or len(steps) < 4:
            return False
        if any(not 0 <= k < len(rows) for spot in spots for k in spot) or not set(given_) <= set(spots):
            return False
        for k, spot in enumerate(spots[:-1]):
            before, into, out, after = (walk[(k + shift) % len(walk)] for shift in (-2, -1, 0, 1))
            colour = rows[spot[0]][spot[1]]
            if colour == "B" and (into == out or before != into or out != after):
                return False
            if colour == "W" and (into != out or before == into == out == after):
                return False
        return True

    right = question.answer_text
    back = right[::-1].translate(str.maketrans("UDLR", "DURL"))
    k = rng.randrange(len(right))
    wrong = [right[:k] + rng.choice("UDLR") + right[k + 1 :], right[:-1], right + right, right[k:] + right[:k]]
    for steps in (right, back, *wrong, "".join(rng.sample(right, len(right)))):
        assert (task.check(question, steps) is None) == holds(steps), steps
    assert task.check(question, " ".join(right.lower())) is None
    with pytest.raises(ValueError, match="letters"):
        task.check(question, right.replace("U", "N"))


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_bridges_cross_nothing_and_tie_all_islands(seed, level):
    task, rng = loops.Bridges(), random.Random(seed)
    question = task.ask(rng, level)
    rows = [line.split() for line in re.findall(r"^(?:[.A-P] )+[.A-P]$", question.text, re.MULTILINE)]
    place = {name: (r, c) for r, row in enumerate(rows) for c, name in enumerate(row) if name != "."}
    need = {name: int(n) for name, n in re.findall(r"([A-P]) (\d)", question.text.split("end at each island")[1])}

    def holds(parts: list[str]) -> bool:
        tied: dict[str, set[str]] = {name: set() for name in place}
        over: Counter[tuple[int, int]] = Counter()
        ends: Counter[str] = Counter()
        for one, other, count in parts:
            (a, b), (c, d) = sorted((place[one], place[other]))
            if (a == c) == (b == d) or other in tied[one]:
                return False
            tied[one].add(other)
            tied[other].add(one)
            ends.update({one: int(count), other: int(count)})
            over.update((r, k) for r in range(a, c + 1) for k in range(b, d + 1) if (r, k) not in ((a, b), (c, d)))
        clear = max(over.values(), default=1) == 1 and not set(over) & set(place.values())
        return clear and reached(min(tied), tied.__getitem__) == set(tied) and ends == Counter(need)

    right = question.answer_text.split(", ")
    k = rng.randrange(len(right))
    one = right[k]
    tried = [right, right[:k] + right[k + 1 :], [*right, one]]
    tried.append([*right[:k], one[:2] + "12"[one[2] == "1"], *right[k + 1 :]])
    tried.append([*right[:k], one[0] + rng.choice([n for n in place if n != one[0]]) + one[2], *right[k + 1 :]])
    for parts in tried:
        assert (bool(parts) and task.check(question, ", ".join(parts)) is None) == holds(parts)


# numbers


@pytest.mark.parametrize("level", range(1, 6))
def test_every_hand_makes_24_and_none_stands_twice(level):
    task = numbers.TwentyFour()
    space = task.enumerate_contents(level)
    others = {hand for k in range(1, 6) if k != level for hand in numbers.hands(k)}
    assert len(set(space)) == len(space) > 250
    assert not others & set(numbers.hands(level))
    for hand in random.Random(level).sample(numbers.hands(level), 25):
        question = numbers.Question("", hand)
        assert task.judge(question, task.solve(question)).reward == 1.0
        assert task.judge(question, task.solve(question).replace(str(hand[0]), str(hand[0] + 1))).reward == 0.0


def test_all_the_hands_of_1_to_13_that_make_24_are_there():
    """1,362 of the 1,820 hands do: a known count."""
    known = {hand for level in range(1, 6) for hand in numbers.hands(level) if max(hand) <= 13}
    assert len(known) == 1362


@given(SEEDS, st.integers(1, 2))
@settings(max_examples=6, deadline=None)
def test_a_cryptarithm_has_one_solution_among_all_digits(seed, level):
    question = numbers.Cryptarithms().ask(random.Random(seed), level)
    sides = question.text.split("\n")[0]
    *words, total = re.findall("[A-Z]+", sides)
    known = {letter: int(digit) for letter, digit in re.findall(r"([A-Z]) is (\d)", question.text)}
    free = sorted(set("".join([*words, total])) - set(known))
    first = {word[0] for word in (*words, total)}
    weight = Counter()
    for word in words:
        weight.update(dict.fromkeys(word, 0))
        for k, letter in enumerate(reversed(word)):
            weight[letter] += 10**k
    for k, letter in enumerate(reversed(total)):
        weight[letter] -= 10**k
    rest = sum(weight[letter] * digit for letter, digit in known.items())
    digits = [d for d in range(10) if d not in known.values()]
    solutions = [
        dict(zip(free, some, strict=True))
        for some in permutations(digits, len(free))
        if rest + sum(weight[letter] * digit for letter, digit in zip(free, some, strict=True)) == 0
        and not any(digit == 0 and letter in first for letter, digit in zip(free, some, strict=True))
    ]
    assert [{**known, **solution} for solution in solutions] == [
        {letter: int(digit) for letter, digit in re.findall(r"([A-Z])=(\d)", question.answer_text)}
    ]


@given(SEEDS, st.sampled_from([(2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2)]))
@settings(max_examples=40, deadline=None)
def test_a_second_solution_of_a_sum_of_letters_is_found_where_there_is_one(seed, shape):
    rng, (count, length) = random.Random(seed), shape
    addends = [rng.randrange(10 ** (length - 1), 10**length) for _ in range(count)]
    texts = [*map(str, addends), str(sum(addends))]
    letters = sorted(map(int, set("".join(texts))))
    told = set(rng.sample(letters, max(0, len(letters) - 4)))
    columns = [[int(text[-1 - k]) for text in texts[:-1]] for k in range(length)]
    columns += [[]] * (len(texts[-1]) - length)
    first = {int(text[0]) for text in texts}
    found = column_sums.other_solution(
        columns, [int(digit) for digit in reversed(texts[-1])], sum(1 << d for d in first), sum(1 << d for d in told)
    )

    def solves(value: dict[int, int]) -> bool:
        numbers = [int("".join(str(value[int(digit)]) for digit in text)) for text in texts]
        return sum(numbers[:-1]) == numbers[-1] and all(value[letter] for letter in first)

    open_ = [letter for letter in letters if letter not in told]
    others = []
    for digits in permutations([digit for digit in range(10) if digit not in told], len(open_)):
        value = {**{letter: letter for letter in told}, **dict(zip(open_, digits, strict=True))}
        if solves(value) and any(value[letter] != letter for letter in letters):
            others.append(value)
    assert (found is None) == (not others)
    assert found is None or {letter: found[letter] for letter in letters} in others


def test_a_search_that_goes_on_from_an_earlier_solution_finds_what_a_search_from_scratch_finds():
    rng, followed = random.Random(4), 0
    for _ in range(60):
        length = rng.randint(3, 5)
        addends = [rng.randrange(10 ** (length - 1), 10**length) for _ in range(rng.choice((2, 2, 3)))]
        texts = [*map(str, addends), str(sum(addends))]
        columns = [[int(text[-1 - k]) for text in texts[:-1]] for k in range(length)]
        columns += [[]] * (len(texts[-1]) - length)
        sums, first = [*map(int, reversed(texts[-1]))], sum(1 << int(d) for d in {text[0] for text in texts})
        letters = sorted(map(int, {*"".join(texts)}))
        told, before = sum(1 << letter for letter in rng.sample(letters, len(letters) // 5)), None
        while other := column_sums.other_solution(columns, sums, first, told):
            assert column_sums.other_solution(columns, sums, first, told, before) == other
            told |= 1 << rng.choice([letter for letter in letters if other[letter] != letter])
            before, followed = other, followed + 1
        assert column_sums.other_solution(columns, sums, first, told, before) is None
    assert followed > 60


@given(SEEDS, LEVELS)
@settings(max_examples=25, deadline=None)
def test_cryptarithms_read_letters_in_any_order_and_nothing_else(seed, level):
    task, rng = numbers.Cryptarithms(), random.Random(seed)
    question = task.ask(rng, min(level, 4))
    parts = question.answer_text.split(", ")
    rng.shuffle(parts)
    assert task.check(question, " ".join(parts)) is None
    a, b = rng.sample(range(len(parts)), 2)
    parts[a], parts[b] = parts[a][0] + parts[b][1:], parts[b][0] + parts[a][1:]
    assert "not the solution" in task.check(question, ", ".join(parts))
    for unreadable in (
        ", ".join(parts[1:]),
        ", ".join([*parts[1:], parts[1]]),
        "A=12",
        question.answer_text.replace("=", ""),
    ):
        with pytest.raises(ValueError, match=r"letter|parts"):
            task.check(question, unreadable)


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_kakuro_and_survo_agree_with_their_sums(seed, level):
    rng = random.Random(seed)
    task = numbers.Kakuro()
    question = task.ask(rng, level)
    rows = question.answer_text.split("\n")

    def holds(rows: list[str]) -> bool:
        right = fits(grid(question.text, ".#123456789"), rows)
        for kind, k, a, b, total in re.findall(r"(row|column) (\d), \w+ (\d)-(\d): (\d+)", question.text):
            line = (rows if kind == "row" else columns(rows))[int(k) - 1][int(a) - 1 : int(b)]
            right &= sum(map(int, line)) == int(total) and len(set(line)) == len(line)
        return right

    for _ in range(4):
        assert (task.check(question, "\n".join(rows)) is None) == holds(rows)
        r, c = rng.randrange(len(rows)), rng.randrange(len(rows))
        if rows[r][c] != "#":
            rows[r] = rows[r][:c] + rng.choice("123456789") + rows[r][c + 1 :]
    task = numbers.Survo()
    question = task.ask(rng, level)
    table = [ints(line) for line in question.answer_text.split("\n")]
    shown = [line.split(" | ") for line in question.text.split("\n")[1 : len(table) + 1]]
    down = ints(question.text.split("\n")[len(table) + 2])
    for _ in range(3):
        right = [sum(row) for row in table] == [int(total) for _, total in shown]
        right &= [sum(column) for column in zip(*table, strict=True)] == down
        given_ = [n for row, _ in shown for n in row.split()]
        right &= all(g in (".", str(n)) for g, n in zip(given_, (n for row in table for n in row), strict=True))
        assert (task.check(question, "\n".join(" ".join(map(str, row)) for row in table)) is None) == right
        (a, b), (c, d) = ((rng.randrange(len(table)), rng.randrange(len(down))) for _ in range(2))
        table[a][b], table[c][d] = table[c][d], table[a][b]


def solutions(found: list, choices: Callable[[list], Iterable[Any]], length: int) -> int:
    """How many lists can be chosen item by item; 2 for two or more."""
    if len(found) == length:
        return 1
    count = 0
    for item in choices(found):
        count += solutions([*found, item], choices, length)
        if count > 1:
            return 2
    return count


def stars_that_fit(rows: list[str]) -> Callable[[list], Iterable[int]]:
    def choices(stars: list[int]) -> Iterable[int]:
        taken = {rows[r][c] for r, c in enumerate(stars)}
        for column, region in enumerate(rows[len(stars)]):
            apart = not stars or abs(column - stars[-1]) > 1
            if apart and column not in stars and region not in taken:
                yield column

    return choices


def rows_that_fit(shown: list[str]) -> Callable[[list], Iterable[str]]:
    half = len(shown) // 2
    lines = ["".join(line) for line in product("01", repeat=2 * half)]
    lines = [line for line in lines if line.count("1") == half and "000" not in line and "111" not in line]

    def choices(rows: list[str]) -> Iterable[str]:
        for line in lines:
            if fits([shown[len(rows)]], [line]):
                down = columns([*rows, line])
                if all(max(map(c.count, "01")) <= half and "000" not in c and "111" not in c for c in down):
                    yield line

    return choices


def digits_that_fit(question_text: str, shown: list[str]) -> Callable[[list], Iterable[str]]:
    size, lines = len(shown), []
    for kind, k, a, b, total in re.findall(r"(row|column) (\d), \w+ (\d)-(\d): (\d+)", question_text):
        span = range(int(a) - 1, int(b))
        lines.append(([(int(k) - 1, at) if kind == "row" else (at, int(k) - 1) for at in span], int(total)))

    def choices(flat: list[str]) -> Iterable[str]:
        r, c = divmod(len(flat), size)
        for symbol in "123456789" if shown[r][c] == "." else shown[r][c]:
            now = [*flat, symbol]
            for run, total in lines:
                known = [int(now[y * size + x]) for y, x in run if y * size + x < len(now)]
                short, left = total - sum(known), len(run) - len(known)
                if len(set(known)) < len(known) or not left * (left + 1) / 2 <= short <= left * (19 - left) / 2:
                    break
            else:
                yield symbol

    return choices


@given(SEEDS, LEVELS)
@settings(max_examples=30, deadline=None)
def test_star_battle_has_one_solution(seed, level):
    question = shading.StarBattle().ask(random.Random(seed), level)
    assert solutions([], stars_that_fit(list(question.answer)), len(question.answer)) == 1


@given(SEEDS, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_takuzu_has_one_solution(seed, level):
    question = shading.Takuzu().ask(random.Random(seed), level)
    shown = grid(question.text, ".01")
    assert solutions([], rows_that_fit(shown), len(shown)) == 1


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_kakuro_has_one_solution(seed, level):
    question = numbers.Kakuro().ask(random.Random(seed), level)
    shown = grid(question.text, ".#123456789")
    assert solutions([], digits_that_fit(question.text, shown), len(shown) ** 2) == 1


# letters


@given(SEEDS, LEVELS)
@settings(max_examples=30, deadline=None)
def test_words_stand_where_the_answer_says(seed, level):
    task, rng = letters.WordSearch(), random.Random(seed)
    question = task.ask(rng, level)
    rows = grid(question.text, "abcdefghijklmnopqrstuvwxyz")
    words = found(r"For (.*), in this order", question.text).split(", ")
    parts = question.answer_text.split(", ")
    for word, part in zip(words, parts, strict=True):
        row, column, way = part.split()
        dy = ("N" in way and -1) or ("S" in way and 1) or 0
        dx = ("W" in way and -1) or ("E" in way and 1) or 0
        spots = [(int(row) - 1 + k * dy, int(column) - 1 + k * dx) for k in range(len(word))]
        assert "".join(rows[r][c] for r, c in spots) == word
    assert task.check(question, question.answer_text) is None
    assert task.check(question, ", ".join([*parts[1:], parts[0]])) is not None
    assert task.check(question, ", ".join(["99 1 E", *parts[1:]])) is not None
    with pytest.raises(ValueError, match=r"row, a column|parts"):
        task.check(question, ", ".join(["1 1 X", *parts[1:]]))


@given(SEEDS, LEVELS)
@settings(max_examples=30, deadline=None)
def test_a_crossword_uses_every_word_once(seed, level):
    task, rng = letters.CrosswordFill(), random.Random(seed)
    question = task.ask(rng, level)
    rows = question.answer_text.split("\n")
    shape = grid(question.text, "#.")
    words = sorted(found(r"Words: (.*)\.", question.text).split(", "))
    for _ in range(4):
        groups = [group for line in [*rows, *columns(rows)] for group in line.split("#") if len(group) > 1]
        holds = sorted(groups) == words and [re.sub(r"[a-z]", ".", row) for row in rows] == shape
        assert (task.check(question, "\n".join(rows)) is None) == holds
        r = rng.randrange(len(rows))
        rows[r] = re.sub(r"[a-z]", rng.choice("aeinst"), rows[r], count=1)
    assert task.check(question, question.answer_text.upper()) is None


@given(SEEDS, LEVELS)
@settings(max_examples=30, deadline=None)
def test_words_are_traced_as_paths_of_a_graph(seed, level):
    question = letters.WordTracing().ask(random.Random(seed), level)
    rows = grid(question.text, "abcdefghijklmnopqrstuvwxyz")
    words = found(r"traced: (.*)\?", question.text).split(", ")
    spots = list(product(range(len(rows)), repeat=2))
    traceable = set()
    for word in words:
        paths = [(spot,) for spot in spots if rows[spot[0]][spot[1]] == word[0]]
        for letter in word[1:]:
            paths = [
                (*path, (r, c))
                for path in paths
                for r, c in spots
                if rows[r][c] == letter and max(abs(r - path[-1][0]), abs(c - path[-1][1])) == 1 and (r, c) not in path
            ]
        if paths:
            traceable.add(word)
    assert traceable == set(question.answer)


MADE = [
    made
    for module in (latin, letters, loops, numbers, regions, shading)
    for made in vars(module).values()
    if isinstance(made, type)
    and issubclass(made, QuestionTask)
    and made.__module__ == module.__name__
    and "ask" in vars(made)
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.__name__)
def test_seeds_share_no_task_and_no_answer_is_right_often(made):
    task = made()
    asked = [task.ask(random.Random(seed), 1) for seed in range(150)]
    assert len({task.content(question) for question in asked}) >= (110 if made is numbers.TwentyFour else 148)
    assert Counter(task.direct_answer(question) for question in asked).most_common(1)[0][1] < 15
