"""Induction, rewriting, queries, and keeping track: each carried out a second time, from the text alone."""

from __future__ import annotations

import ast
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.algorithmic import queries, rewriting
from rlvr.envs.logic import tracking
from rlvr.envs.puzzles import cubes, induction, objects
from rlvr.envs.tasks.questions import QuestionTask

from .reading import found, ints

SEEDS = st.integers(0, 2**64)
LEVELS = st.integers(1, 5)
MADE = [
    made
    for module in (queries, rewriting, tracking, cubes, induction, objects)
    for made in vars(module).values()
    if isinstance(made, type)
    and issubclass(made, QuestionTask)
    and made.__module__ == module.__name__
    and "ask" in vars(made)
]
MADE = [made for made in MADE if made is not induction.Chained]
MADE += [induction.ListFunctionInduction, induction.StringFunctionInduction]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.__name__)
def test_seeds_share_no_task_and_no_answer_is_right_often(made):
    task = made()
    asked = [task.ask(random.Random(seed), 1) for seed in range(150)]
    few = {cubes.PocketCube: 110, cubes.RubiksCube: 100}  # these have 321 and 243 tasks at level 1
    assert len({task.content(question) for question in asked}) >= few.get(made, 146)
    assert Counter(task.direct_answer(question) for question in asked).most_common(1)[0][1] < 15


# texts


def rewritten(text: str, level: int) -> Any:
    rules = re.findall(r"([abc]+) -> ([abc]+)", text)
    word, steps = re.search(r"Begin with the text (\w+) and make (\d+) steps", text).groups()
    for _ in range(int(steps)):
        for left, right in rules:
            head, mark, tail = word.partition(left)
            if mark:
                word = head + right + tail
                break
    return (word,)


def grown(text: str, level: int) -> Any:
    """Letter by letter, so only where the text stays short."""
    rules = dict(re.findall(r"([A-D]{2}) gets ([A-D])", text))
    word, steps = re.search(r"The text (\w+) goes through (\d+) steps", text).groups()
    for _ in range(int(steps)):
        word = word[0] + "".join(rules.get(a + b, "") + b for a, b in pairwise(word))
    return tuple(word.count(letter) for letter in found(r"does each of (.*) stand", text).split(", "))


def walked(text: str, level: int) -> Any:
    word, rounds = re.search(r"Begin with (\S+)\. In each of (\d+) rounds", text).groups()
    sides = dict(re.findall(r"every ([FX]) becomes ([FX+-]+)", text))
    for _ in range(int(rounds)):
        word = "".join(sides.get(symbol, symbol) for symbol in word)
    place, facing = 0j, 1j
    for symbol in word:
        place += facing if symbol == "F" else 0
        facing *= {"+": 1j, "-": -1j}.get(symbol, 1)
    return (round(place.imag), round(place.real), len(word.replace("+", "").replace("-", "")))


# data


def table(text: str, name: str) -> list[list[str]]:
    rows = found(rf"{name} \(.*\)\n((?:[^\n(]* \| [^\n(]*\n)+)", text)
    return [line.split(" | ") for line in rows.strip().split("\n")]


def queried(text: str, level: int) -> Any:
    people = table(text, "people")
    wage = {row[0]: int(row[4]) for row in people}
    if level == 1:
        city, age = re.search(r"live in (\w+) and are over (\d+)", text).groups()
        chosen = [row[0] for row in people if row[1] == city and int(row[3]) > int(age)]
        return (len(chosen), sum(map(wage.__getitem__, chosen)))
    if level == 3:
        cities, trade = re.search(r"For each of (.*?), in this order.* is not (\w+) add", text).groups()
        return tuple(
            sum(wage[n] for n, c, t, *_ in people if (c, t != trade) == (city, True)) for city in cities.split(", ")
        )
    if level == 4:
        age, first = re.search(r"who are (\d+) or older.*places (\d+) to", text, re.DOTALL).groups()
        old = [row for row in people if int(row[3]) >= int(age)]
        for column, way in ((0, False), (3, False), (4, True)):  # by the least important first
            old = sorted(old, key=lambda row, k=column: row[k] if k == 0 else int(row[k]), reverse=way)
        return tuple(row[0] for row in old)[int(first) - 1 :][:3]
    lives = {row[0]: (row[1], row[2]) for row in people}
    orders = [(*lives[row[0]], int(row[2]) * int(row[3])) for row in table(text, "orders")]
    if level == 2:
        city = found(r"live in (\w+), and", text)
        return (sum(row[0] == city for row in orders), sum(row[2] for row in orders if row[0] == city))
    trade, cities = re.search(r"is not (\w+), cost together, for each of (.*)\? ", text).groups()
    sums = {city: sum(cost for c, t, cost in orders if c == city and t != trade) for city in cities.split(", ")}
    return (*sums.values(), max(sums, key=sums.__getitem__))


def looked_up(text: str, level: int) -> Any:
    lines = text.split("\n")
    document = json.loads(lines[level >= 3].removeprefix("$ = "))
    gold = []
    for path in re.findall(r"^\d+\. \$(.*)$", text, re.MULTILINE):
        value = document
        for key, place in re.findall(r"\.(\w+)|\[(-?\d+)\]", path):
            value = value[key] if key else value[int(place)]
        gold.append(value)
    if level >= 3:
        least = int(found(r"live and over (\d+)", text))
        gold.append(sum(row["size"] * (row["size"] > least) for row in json.loads(lines[0][7:]) if row["live"]))
    return tuple(gold)


def free(text: str, level: int) -> Any:
    """Minute by minute."""
    length = int(found(r"for (\d+) minutes", text))
    for day in found(r"the day \((.*?)\)", text).split(", "):
        busy = set()
        for line in re.findall(rf"^\w+, {day}: (.*)$", text, re.MULTILINE):
            for a, b, c, d in re.findall(r"(\d+):(\d+)-(\d+):(\d+)", line):
                busy.update(range(60 * int(a) + int(b), 60 * int(c) + int(d)))
        for start in range(540, 1_081 - length):
            if busy.isdisjoint(range(start, start + length)):
                return (day, start // 60, start % 60)
    return None


def counted(text: str, level: int) -> Any:
    log = re.findall(r"^(\d+) the (\w+) (\w+) (\w+)$", text, re.MULTILINE)
    asked = re.findall(r"\(\d\) (.*?)[;.]", text.split("Count in this log")[1])
    gold = []
    for part in asked:
        if match := re.fullmatch(r"lines that tell of the (\w+) (\w+)", part):
            gold.append(sum(row[1:3] == match.groups() for row in log))
        elif match := re.fullmatch(r"lines in which a (\w+) (\w+), other than the (\w+) one", part):
            what, did, where = match.groups()
            gold.append(sum((w, t, d) != (where, what, did) and (t, d) == (what, did) for _, w, t, d in log))
        elif match := re.match(r"the number of the last line in which a (\w+) (\w+)", part):
            gold.append(max([0, *(int(n) for n, _, t, d in log if (t, d) == match.groups())]))
        elif part.startswith("lines in which the same thing"):
            gold.append(sum(a[1:3] == b[1:3] for a, b in pairwise(log)))
        else:
            one, other = re.search(r"of a (\w+) directly after a line that tells of a (\w+)", part).groups()
            gold.append(sum((a[2], b[2]) == (other, one) for a, b in pairwise(log)))
    return tuple(gold)


# people and dice


def swapped(text: str, level: int) -> Any:
    begin, told = text.split(" Then, one after the other: ")
    holds = dict(re.findall(r"(\w+) holds the (\w+)", begin))
    for step in told.split(".\n")[0].split("; "):
        if match := re.match(r"(\w+) gives to (\w+), \w+ to (\w+)", step):
            a, b, c = match.groups()
            holds |= {b: holds[a], c: holds[b], a: holds[c]}
            continue
        if match := re.match(r"whoever holds the (\w+) exchanges with whoever holds the (\w+)", step):
            owner = {thing: name for name, thing in holds.items()}
            a, b = (owner[thing] for thing in match.groups())
        else:
            a, b = re.match(r"(\w+) and (\w+) exchange", step).groups()
        holds |= {a: holds[b], b: holds[a]}
    return tuple(holds[name] for name in re.findall("[A-Z][a-z]+", found(r"What do (.*) hold now", text)))


def believed(text: str, level: int) -> Any:
    """Each person's diary: what they saw, and who stood beside them."""
    people = re.findall("[A-Z][a-z]+", text.split(" are in a room")[0])
    inside = set(people)
    diary = {
        name: [(set(people), thing, place) for thing, place in re.findall(r"The (\w+) is in the (\w+)", text)]
        for name in people
    }
    for step in re.findall(r"[^.\n]+\.", text.split("\n")[1]):
        step = step.strip()
        if match := re.match(r"(\w+) leaves", step):
            inside.discard(match[1])
        elif match := re.match(r"(\w+) comes back", step):
            inside.add(match[1])
        else:
            thing, place = re.match(r"\w+ moves the (\w+) from the \w+ to the (\w+)", step).groups()
            for name in inside:
                diary[name].append((set(inside), thing, place))
    gold = []
    for part in re.findall(r"\(\d+\) (.*?)[;?]", text.split("\n")[2]):
        if match := re.fullmatch(r"the (\w+), as (\w+) thinks", part):
            thing, name = match.groups()
            gold.append([place for _, t, place in diary[name] if t == thing][-1])
        else:
            thing, other, name = re.fullmatch(r"the (\w+), as (\w+) thinks in (\w+)'s opinion", part).groups()
            gold.append([place for who, t, place in diary[name] if t == thing and other in who][-1])
    return tuple(gold)


def rolled(text: str, level: int) -> Any:
    """As turns of the space that the die lies in: sides by direction."""
    top, north, east = ints(text.split("7. ")[1])[:3]
    sides = {(0, 0, 1): top, (0, 1, 0): north, (1, 0, 0): east}
    sides |= {tuple(-n for n in way): 7 - number for way, number in sides.items()}
    turns: dict[str, Callable[[int, int, int], tuple[int, int, int]]] = {
        "north": lambda x, y, z: (x, z, -y),
        "south": lambda x, y, z: (x, -z, y),
        "east": lambda x, y, z: (z, y, -x),
        "west": lambda x, y, z: (-z, y, x),
    }
    tops = []
    for way in found(r"at a time: (.*)\.", text).split(", "):
        sides = {turns[way](*place): number for place, number in sides.items()}
        tops.append(sides[0, 0, 1])
    if level < 3:
        return tuple(tops)
    return (sides[0, 0, 1], sides[0, 1, 0], sides[1, 0, 0], sum(tops), tops.count(6))


def seated(text: str, level: int) -> Any:
    chairs = dict(enumerate(found(r"from chair 1: (.*?)\. Then", text).split(", ")))
    n = len(chairs)
    for step in found(r"one after the other: (.*)\.", text).split("; "):
        on = {name: k for k, name in chairs.items()}
        if match := re.match(r"all move (\d+) chairs?", step):
            chairs = {(k + int(match[1])) % n: name for k, name in chairs.items()}
        elif match := re.match(r"(\w+) and (\w+) exchange", step):
            a, b = match.groups()
            chairs |= {on[a]: b, on[b]: a}
        elif match := re.match(r"(\w+) exchanges chairs with whoever sits (\d+)", step):
            other = (on[match[1]] + int(match[2])) % n
            chairs |= {on[match[1]]: chairs[other], other: match[1]}
        elif match := re.match(r"the two neighbours of (\w+)", step):
            a, b = (on[match[1]] + 1) % n, (on[match[1]] - 1) % n
            chairs |= {a: chairs[b], b: chairs[a]}
        else:
            chairs = {n - 1 - k: name for k, name in chairs.items()}
    return tuple(chairs[k] for k in range(n))


ORACLES: dict[type, Callable[[str, int], Any]] = {
    rewriting.StringRewriting: rewritten,
    rewriting.PolymerGrowth: grown,
    rewriting.LindenmayerSystem: walked,
    queries.TableQueries: queried,
    queries.JsonPaths: looked_up,
    queries.MeetingTimes: free,
    queries.NeedleCounting: counted,
    tracking.SwapTracking: swapped,
    tracking.FalseBeliefs: believed,
    tracking.DiceRolling: rolled,
    tracking.Seating: seated,
}


@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("made", ORACLES, ids=lambda made: made.__name__)
@given(seed=SEEDS)
@settings(max_examples=12, deadline=None)
def test_the_answer_is_found_again_from_the_text(made, level, seed):
    level = min(level, 3) if made is rewriting.PolymerGrowth else level
    question = made().ask(random.Random(seed), level)
    assert ORACLES[made](question.text, level) == question.answer, question


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_an_expression_matches_what_the_standard_library_matches(seed, level):
    task, rng = rewriting.RegexConstruction(), random.Random(seed)
    question = task.ask(rng, level)
    yes = found(r"as a whole: (\S+)", question.text)
    no = found(r"does not match as a whole: (\S+)", question.text) if level > 1 else "d"
    length = len(question.answer_text)
    near = list(question.answer_text)
    near[rng.randrange(length)] = rng.choice("abc")
    for text in [
        question.answer_text,
        "".join(near),
        "a" * length,
        *("".join(rng.choices("abc", k=length)) for _ in range(9)),
    ]:
        holds = re.fullmatch(yes, text) is not None and re.fullmatch(no, text) is None
        assert (task.check(question, text) is None) == holds
    assert "letters" in task.check(question, question.answer_text + "a")


@pytest.mark.parametrize("level", range(1, 6))
@given(seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_beliefs_are_the_same_whether_or_not_a_move_shows_what_else_is_in_a_place(level, seed):
    """Those who move a thing know where it is, and nobody who sees a place open would be surprised by what is in it."""
    text = tracking.FalseBeliefs().ask(random.Random(seed), level).text
    where = dict(re.findall(r"The (\w+) is in the (\w+)", text))
    people = re.findall("[A-Z][a-z]+", found(r"^(.*) are in a room", text))
    inside, thinks = set(people), {name: dict(where) for name in people}
    supposed = {(a, b): dict(where) for a in people for b in people}  # a's view of what b thinks
    for step in re.findall(r"\w+ (?:leaves|comes|moves)[^.]*\.", text.split("\n")[1]):
        name = step.split()[0]
        if "leaves" in step:
            inside.remove(name)
            continue
        if "comes back" in step:
            assert name not in inside
            inside.add(name)
            continue
        assert name in inside
        thing, start, end = re.match(r"\w+ moves the (\w+) from the (\w+) to the (\w+)", step).groups()
        assert where[thing] == thinks[name][thing] == start != end
        for view in [thinks[a] for a in inside] + [supposed[a, b] for a in inside for b in inside]:
            for other in set(where) - {thing}:
                assert (view[other] in (start, end)) == (where[other] in (start, end)), "somebody would learn something"
                assert where[other] not in (start, end) or view[other] == where[other]
            view[thing] = end
        where[thing] = end


# induction


def span(letter: str, line: str) -> range:
    """The numbers that a letter may be, as a line of the question states them."""
    for names, low, high in re.findall(r"((?:[a-z](?:, | and |))+) from (-?\d+) to (-?\d+)", line):
        if letter in re.findall(r"[a-z]", names.replace("and", "")):
            return range(int(low), int(high) + 1)
    raise ValueError(f"{letter} has no range in {line}")


# What the stated kinds say, once more; the first words of each tell them apart.
STATED: dict[str, tuple[str, Callable[..., int]]] = {
    "a x + b, with": ("ab", lambda x, a, b: a * x + b),
    "a x^2": ("abc", lambda x, a, b, c: a * x**2 + b * x + c),
    "(a x modulo m)": ("amb", lambda x, a, m, b: (a * x) % m + b),
    "b times the quotient": ("abc", lambda x, a, b, c: b * divmod(x, a)[0] + c * divmod(x, a)[1]),
    "a x + b for odd": ("abcd", lambda x, a, b, c, d: (c, a)[x % 2] * x + (d, b)[x % 2]),
    "a x + b for x up": ("abcdn", lambda x, a, b, c, d, n: a * x + b if x <= n else c * x + d),
    "a times the sum of the digits": ("abc", lambda x, a, b, c: a * sum(map(int, str(x))) + b * x + c),
}


@given(SEEDS, LEVELS)
@settings(max_examples=25, deadline=None)
def test_every_function_of_the_stated_kinds_and_ranges_that_fits_has_the_value(seed, level):
    question = induction.FunctionInduction().ask(random.Random(seed), level)
    shown = {int(x): int(y) for x, y in re.findall(r"f\((\d+)\) = (-?\d+)", question.text)}
    asked = int(found(r"What is f\((\d+)\)", question.text))
    assert asked not in shown
    lines = re.findall(r"^- (.*)$", question.text, re.MULTILINE)
    assert len(lines) == (1, 2, 4, 5, 7)[level - 1]
    values = set()
    for line in lines:
        letters, rule = next(kind for start, kind in STATED.items() if line.startswith(start))
        for numbers in product(*(span(letter, line) for letter in letters)):
            if all(rule(x, *numbers) == y for x, y in shown.items()):
                values.add(rule(asked, *numbers))
    assert values == {question.answer}


@given(SEEDS, LEVELS)
@settings(max_examples=25, deadline=None)
def test_every_chain_of_rules_that_fits_the_examples_gives_the_answer(seed, level):
    for made, read in (
        (induction.ListFunctionInduction, lambda text: tuple(ast.literal_eval(text))),
        (induction.StringFunctionInduction, str),
    ):
        question = made().ask(random.Random(seed), level)
        examples = [tuple(map(read, pair)) for pair in re.findall(r"^(.+) -> (.+)$", question.text, re.MULTILINE)]
        last = read(found(r"make of (.*)\?", question.text))
        rules = [made.family[name] for name in re.findall(r"^- (.*)$", question.text, re.MULTILINE)]
        assert len(rules) == made.rules[level - 1]
        results = {one(last) for one in rules if all(one(x) == y for x, y in examples)}
        if level > 1:
            results |= {two(one(last)) for one in rules for two in rules if all(two(one(x)) == y for x, y in examples)}
        assert {made().gold(result) for result in results} == {question.answer}


@given(st.lists(st.integers(0, 13), min_size=1, max_size=9), st.sampled_from(sorted(induction.LISTS)))
def test_a_rule_is_among_those_that_the_numbers_left_and_their_sum_allow(numbers, name):
    task, value = induction.ListFunctionInduction(), tuple(numbers)
    assert name in task.candidates(value, induction.LISTS[name](value), [*induction.LISTS])


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_the_chains_that_fit_are_those_that_trying_all_of_them_finds(seed, level):
    rng = random.Random(seed)
    for made in (induction.ListFunctionInduction(), induction.StringFunctionInduction()):
        names = rng.sample(list(made.family), made.rules[level - 1])
        chain = [rng.choice(names) for _ in range(made.length(level))]
        inputs = made.read(made.inputs(rng, level))[: rng.randint(1, 3)]  # few examples leave many chains
        examples = [(value, made.apply_chain(chain, value)) for value in inputs]
        every = [every for length in range(1, made.length(level) + 1) for every in product(names, repeat=length)]
        fitting = [one for one in every if all(made.apply_chain(one, x) == y for x, y in examples)]
        if all(result for _, result in examples):
            assert sorted(made.chains(level, names, examples)) == sorted(fitting)


@given(SEEDS, LEVELS)
@settings(max_examples=15, deadline=None)
def test_every_rule_about_shapes_that_fits_gives_the_answer(seed, level):
    question = objects.ObjectTransformation().ask(random.Random(seed), level)
    grids = re.findall(r"(?:Input|Output) \d:\n((?:[0-4]+\n)+)", question.text)
    *examples, last = [tuple(grid.strip().split("\n")) for grid in grids]

    def result(rule: objects.Rule, scene: tuple[str, ...]) -> Any:
        return objects.changed(rule, objects.shapes_of(scene), len(scene))

    fitting = [
        rule
        for rule in objects.object_rules(level)
        if all(result(rule, x) == y for x, y in zip(examples[::2], examples[1::2], strict=True))
    ]
    assert {result(rule, last) for rule in fitting} == {question.answer}


def test_shapes_are_changed_as_the_words_say():
    scene = ("00000", "01100", "01000", "00020", "00000")
    shapes = objects.shapes_of(scene)
    assert [(symbol, sorted(cells)) for symbol, cells in shapes] == [("1", [(1, 1), (1, 2), (2, 1)]), ("2", [(3, 3)])]
    for rule, rows in {
        ("the largest", "mirrored left to right in place", "same"): ("00000", "01100", "00100", "00020", "00000"),
        ("the largest", "mirrored top to bottom in place", "3"): ("00000", "03000", "03300", "00020", "00000"),
        ("the largest", "filled to the smallest rectangle around it", "same"): (
            "00000",
            "01100",
            "01100",
            "00020",
            "00000",
        ),
        ("the smallest", "moved one up", "same"): ("00000", "01100", "01020", "00000", "00000"),
        ("the highest", "kept", "alone"): ("00000", "01100", "01000", "00000", "00000"),
        ("the leftmost", "kept", "0"): ("00000", "00000", "00000", "00020", "00000"),
        ("all", "moved one left", "same"): ("00000", "11000", "10000", "00200", "00000"),
    }.items():
        assert objects.changed(rule, shapes, 5) == rows
    assert objects.changed(("the tallest", "kept", "4"), shapes[:1] * 2, 5) is None


# cubes


def test_the_cube_turns_as_a_cube_does():
    moved, (solved,) = cubes.PocketCube.moved, cubes.PocketCube.near(0)
    assert moved(solved, ["R"]) == "UFUF" + "FDFD" + "RRRR" + "DBDB" + "UBUB" + "LLLL"
    assert moved(solved, ["U"]) == "UUUU" + "RRFF" + "BBRR" + "DDDD" + "LLBB" + "FFLL"
    assert moved(solved, ["F"]) == "UULL" + "FFFF" + "URUR" + "RRDD" + "BBBB" + "LDLD"
    assert moved(solved, ["R", "U", "R'", "U'"] * 3) != solved
    # Jaap Scherphuis's table
    assert [len(cubes.PocketCube.near(k)) for k in range(5)] == [1, 9, 54, 321, 1847]


def test_the_large_cube_turns_as_a_cube_does():
    moved, (solved,) = cubes.RubiksCube.moved, cubes.RubiksCube.near(0)
    assert moved(solved, ["L"]) == "BUUBUUBUU" + "UFFUFFUFF" + "R" * 9 + "FDDFDDFDD" + "BBDBBDBBD" + "L" * 9
    assert moved(solved, ["B"]) == "RRRUUUUUU" + "F" * 9 + "RRDRRDRRD" + "DDDDDDLLL" + "B" * 9 + "ULLULLULL"
    assert moved(solved, ["D"]) == "U" * 9 + "FFFFFFLLL" + "RRRRRRFFF" + "D" * 9 + "BBBBBBRRR" + "LLLLLLBBB"
    # Orders of these sequences in the group of the cube.
    for sequence, order in (("R U R' U'", 6), ("R U", 105), ("R U2 D' B D'", 1260), ("U", 4), ("F2", 2), ("R L'", 4)):
        moves = sequence.split()
        assert moved(solved, moves * order) == solved
        assert all(moved(solved, moves * part) != solved for part in range(1, order) if order % part == 0)
    assert [len(cubes.RubiksCube.near(k)) for k in range(4)] == [1, 18, 243, 3240]  # the same table


@pytest.mark.parametrize("made", [cubes.PocketCube, cubes.RubiksCube])
@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_a_cube_is_solved_by_its_moves_and_not_by_others(made, seed, level):
    task, rng = made(), random.Random(seed)
    question = task.ask(rng, level)
    moves = question.answer_text.split()
    assert task.check(question, question.answer_text) is None
    assert task.check(question, question.answer_text.lower().replace("'", "’")) is None
    assert task.check(question, " ".join([*moves, "R"])) is not None
    assert task.check(question, " ".join([*moves[:-1], "U" if moves[-1] != "U" else "U2"])) is not None
    assert task.check(question, " ".join([*moves, "R", "R'"])) is None
    for unreadable in ("M", "R3", " ".join(["U"] * (made.MOST_MOVES + 1))):
        with pytest.raises(ValueError, match=f"at most {made.MOST_MOVES}"):
            task.check(question, unreadable)


def test_a_known_net_folds_to_a_known_cube():
    """Opposite faces of a straight strip are two apart; what is on top comes to the right when rolled there."""
    for seed in range(200):
        question = cubes.CubeNets().ask(random.Random(seed), 1)
        rows = re.findall(r"^[A-Z.]+$", question.text, re.MULTILINE)
        asked = found(r"lie opposite (.*)\?", question.text).split(", ")
        opposite = dict(zip(asked, question.answer, strict=True))
        assert all(opposite[opposite[name]] == name != opposite[name] for name in asked)
        for line in [*rows, *("".join(column) for column in zip(*rows, strict=True))]:
            for k in range(len(line) - 2):
                if "." not in line[k : k + 3]:
                    assert opposite[line[k]] == line[k + 2]


@given(SEEDS, st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_a_rolled_cube_shows_what_it_shows_before_the_rolls_are_undone(seed, level):
    question = cubes.CubeNets().ask(random.Random(seed), level)
    top, front = re.search(r"with (\w) on top and (\w) in front", question.text).groups()
    rolls = re.findall(r"to the right|to the left|towards you|away from you", re.split("times?: ", question.text)[-1])
    rolls = rolls if "rolled over" in question.text else []
    u, f, r, d, b, left = question.answer
    for roll in reversed(rolls):
        if roll == "to the right":
            u, r, d, left = r, d, left, u
        elif roll == "to the left":
            u, r, d, left = left, u, r, d
        elif roll == "towards you":
            u, f, d, b = f, d, b, u
        else:
            u, f, d, b = b, u, f, d
    assert (u, f) == (top, front)
    # Three squares of the net that meet in an L fold to a corner: read right, then down, it is clockwise from outside.
    corners = {one[k:] + one[:k] for one in clockwise(u, f, r, d, b, left) for k in range(3)}
    rows = re.findall(r"^[A-Z.]+$", question.text, re.MULTILINE)
    for line, under in pairwise(rows):
        for k in range(len(line) - 1):
            if "." not in (line[k], line[k + 1], under[k]):
                assert (line[k], line[k + 1], under[k]) in corners


def clockwise(u: str, f: str, r: str, d: str, b: str, left: str) -> list[tuple[str, str, str]]:
    """The faces around each corner, clockwise as seen from outside."""
    return [(u, r, f), (u, f, left), (u, left, b), (u, b, r), (d, f, r), (d, left, f), (d, b, left), (d, r, b)]


def test_the_nets_are_the_eleven_of_a_cube_each_in_all_its_turns_and_mirror_images():
    forms = Counter()
    for net in cubes.nets():
        rows = [re.sub(r"\{\d\}", "#", row) for row in net.picture.split("\n")]
        turns = [rows]
        for _ in range(3):
            turns.append(["".join(column) for column in zip(*turns[-1][::-1], strict=True)])
        turns += [[row[::-1] for row in each] for each in turns]
        forms[min(map(tuple, turns))] += 1
        assert forms[min(map(tuple, turns))] <= len({tuple(each) for each in turns})
        assert len(net.stands) == 24
    assert len(forms) == 11
    assert all(count in (2, 4, 8) for count in forms.values()), forms
