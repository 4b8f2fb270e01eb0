"""The puzzles: solutions counted by searches written for the test, and moves carried out a second time."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.puzzles import moves, optimisation, sudoku, transformations
from rlvr.envs.tasks.questions import QuestionTask

SEEDS = st.integers(0, 2**64)
LEVELS = st.integers(1, 5)
TASKS = [
    made
    for module in (moves, optimisation, sudoku, transformations)
    for made in vars(module).values()
    if isinstance(made, type) and issubclass(made, QuestionTask) and made.__module__ == module.__name__
]


@pytest.mark.parametrize("made", TASKS, ids=lambda made: made.__name__)
def test_a_thousand_seeds_share_no_task_and_no_answer_is_right_half_of_the_time(made):
    task = made()
    asked = [task.ask(random.Random(seed), 1) for seed in range(1_000)]
    fewest = 850 if made is moves.TowerOfHanoi else 995  # it says itself that level 1 has 6,480 tasks
    assert len({task.content(question) for question in asked}) >= fewest
    assert Counter(task.direct_answer(question) for question in asked).most_common(1)[0][1] < 400


def test_one_number_of_ways_to_pay_answers_no_more_than_one_question_in_six():
    asked = [optimisation.CoinChange().ask(random.Random(seed), 1) for seed in range(1_000)]
    assert Counter(question.answer for question in asked).most_common(1)[0][1] < 1_000 / 6


@pytest.mark.parametrize("level", [1, 3, 5])
def test_ways_to_pay_are_those_that_are_found_one_by_one(level):
    for seed in range(5 if level < 5 else 1):
        question = optimisation.CoinChange().ask(random.Random(seed), level)
        coins, amount = re.findall(r"coins of (.+) cents\. In .+ exactly (\d+) cents", question.text)[0]
        kinds = [(int(coin), int(most or 10**6)) for coin, most in re.findall(r"(\d+)(?: \(at most (\d+))?", coins)]
        totals = Counter({0: 1})
        for coin, most in kinds:
            found = Counter()
            for total, ways in totals.items():
                for count in range(min(most, (int(amount) - total) // coin) + 1):
                    found[total + count * coin] += ways
            totals = found
        assert totals[int(amount)] == question.answer


def solutions(puzzle: str, height: int, width: int, most: int = 2) -> list[str]:
    """Up to ``most`` solutions of a Sudoku, by trying the cell with the fewest candidates."""
    size = height * width

    def candidates(grid: list[str], cell: int) -> set[str]:
        row, column = divmod(cell, size)
        top, left = row - row % height, column - column % width
        seen = {grid[row * size + i] for i in range(size)} | {grid[i * size + column] for i in range(size)}
        seen |= {grid[(top + i) * size + left + j] for i in range(height) for j in range(width)}
        return set("123456789"[:size]) - seen

    found: list[str] = []

    def search(grid: list[str]) -> None:
        open_ = [(candidates(grid, cell), cell) for cell, symbol in enumerate(grid) if symbol == "."]
        if not open_:
            found.append("".join(grid))
            return
        options, cell = min(open_, key=lambda pair: len(pair[0]))
        for option in sorted(options):
            if len(found) < most:
                search([*grid[:cell], option, *grid[cell + 1 :]])

    search(list(puzzle))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("place", range(0, 320, 32))
def test_the_committed_sudokus_have_one_solution_and_no_given_to_spare(place):
    for (puzzle, solution), box in ((sudoku.NINE[place], (3, 3)), (sudoku.MINI[place], (2, 3))):
        assert solutions(puzzle, *box) == [solution]
        givens = [cell for cell, symbol in enumerate(puzzle) if symbol != "."]
        for cell in random.Random(place).sample(givens, 2):
            assert len(solutions(f"{puzzle[:cell]}.{puzzle[cell + 1 :]}", *box)) == 2


@pytest.mark.parametrize(("made", "box"), [(sudoku.Sudoku, (3, 3)), (sudoku.MiniSudoku, (2, 3))])
@given(seed=SEEDS, level=LEVELS)
@settings(max_examples=15, deadline=None)
def test_every_sudoku_drawn_has_exactly_its_solution(made, box, seed, level):
    question = made().ask(random.Random(seed), level)
    shown = "".join(re.findall(r"^[.\d]+$", question.text, re.MULTILINE))
    assert solutions(shown, *box) == ["".join(question.answer)]


def test_harder_sudokus_give_less():
    for made in (sudoku.Sudoku, sudoku.MiniSudoku):
        empty = [made().ask(random.Random(3), level).text.count(".") for level in range(1, 6)]
        assert empty == sorted(set(empty))


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_optima_are_those_of_all_choices(seed, level):
    level = min(level, 4)
    question = optimisation.Knapsack().ask(random.Random(seed), level)
    things = [(int(w), int(v)) for w, v in re.findall(r"weight (\d+), value (\d+)", question.text)]
    capacity = int(re.search(r"at most (\d+)", question.text)[1])
    chosen = product((0, 1), repeat=len(things))
    sums = [[sum(c * t[k] for c, t in zip(some, things, strict=True)) for k in (0, 1)] for some in chosen]
    assert max(value for weight, value in sums if weight <= capacity) == question.answer


@given(SEEDS, st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_schedules_and_coins_by_trying_all(seed, level):
    question = optimisation.IntervalScheduling().ask(random.Random(seed), level)
    jobs = [tuple(map(int, job)) for job in re.findall(r"hour (\d+) to hour (\d+), pays (\d+)", question.text)]
    best = 0
    for some in product((0, 1), repeat=len(jobs)):
        taken = sorted(job for job, take in zip(jobs, some, strict=True) if take)
        if all(one[1] <= two[0] for one, two in pairwise(taken)):
            best = max(best, sum(pay for *_, pay in taken))
    assert best == question.answer
    level = random.Random(seed).choice((1, 4))
    question = optimisation.CoinChange().ask(random.Random(seed), level)
    coins, amount = re.search(r"coins of (.*) cents\. .* exactly (\d+) cents", question.text).groups()
    kinds = [
        (int(coin), int(most or 10**6))
        for coin, most in re.findall(r"(\d+)(?: \(at most (\d+) of them\))?(?:, | and |$)", coins)
    ]
    counts = [range(min(most, int(amount) // coin) + 1) for coin, most in kinds[1:]]
    coin, most = kinds[0]
    ways = 0
    for some in product(*counts):
        rest = int(amount) - sum(n * other for n, (other, _) in zip(some, kinds[1:], strict=True))
        ways += rest >= 0 and rest % coin == 0 and rest // coin <= most
    assert ways == question.answer


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_magic_squares_follow_from_what_is_shown(seed, level):
    question = optimisation.MagicSquare().ask(random.Random(seed), level)
    rows = [line.split() for line in question.text.split("\n")[1:-1]]
    size = len(rows)
    cells = {(r, c): rows[r][c] for r in range(size) for c in range(size)}
    lines = [[(k, i) for i in range(size)] for k in range(size)] + [[(i, k) for i in range(size)] for k in range(size)]
    lines += [[(i, i) for i in range(size)], [(i, size - 1 - i) for i in range(size)]]
    gaps = sorted(cell for cell, value in cells.items() if value == "?")
    (total,) = {sum(int(cells[cell]) for cell in line) for line in lines if not set(line) & set(gaps)}
    for _ in gaps:
        for line in lines:
            if len(missing := [cell for cell in line if cells[cell] == "?"]) == 1:
                cells[missing[0]] = str(total - sum(int(cells[cell]) for cell in line if cell != missing[0]))
    assert tuple(int(cells[gap]) for gap in gaps) == question.answer
    assert {sum(int(cells[cell]) for cell in line) for line in lines} == {total}


@given(SEEDS, st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_subset_sums_and_kakurasu_accept_what_adds_up_and_nothing_else(seed, level):
    rng = random.Random(seed)
    task = optimisation.SubsetSum()
    question = task.ask(rng, level)
    numbers, total = question.answer
    for size in (2, 3, 4):
        for some in combinations(numbers, size):
            assert (task.check(question, str(list(some))) is None) == (sum(some) == total)
    task = optimisation.Kakurasu()
    question = task.ask(rng, level)
    weights, across, down = question.answer
    size = len(across)
    rows = [list(row) for row in question.answer_text.split("\n")]
    for _ in range(3):
        right = [sum(w for w, cell in zip(weights, row, strict=False) if cell == "1") for row in rows] == across
        columns = list(zip(*rows, strict=True))
        right &= [sum(w for w, cell in zip(weights[size:], c, strict=True) if cell == "1") for c in columns] == down
        assert (task.check(question, "\n".join(map("".join, rows))) is None) == right
        rows[rng.randrange(size)][rng.randrange(size)] = rng.choice("01")


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_lamps_go_out_one_press_after_another(seed, level):
    task, rng = moves.LightsOut(), random.Random(seed)
    question = task.ask(rng, level)
    lamps = [[int(cell) for cell in row] for row in re.findall(r"^[01]+$", question.text, re.MULTILINE)]
    presses = [list(row) for row in question.answer_text.split("\n")]
    if rng.random() < 0.5:
        presses[0][rng.randrange(len(lamps))] = rng.choice("01")
    for r, c in product(range(len(lamps)), repeat=2):
        if presses[r][c] == "1":
            for y, x in ((r, c), (r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
                if 0 <= y < len(lamps) and 0 <= x < len(lamps):
                    lamps[y][x] ^= 1
    out = not any(map(any, lamps))
    assert (task.check(question, "\n".join(map("".join, presses))) is None) == out


def expert_answer(task, question):
    return task.direct_answer(question).removeprefix("\\boxed{").removesuffix("}")


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_moves_that_are_cut_short_or_break_a_rule_are_refused(seed, level):
    rng = random.Random(seed)
    for made in (moves.MazePath, moves.SlidingTiles):
        task = made()
        question = task.ask(rng, level)
        way = expert_answer(task, question)
        assert task.check(question, way) is None
        assert task.check(question, way[:-1] or "u") is not None
        assert task.check(question, "U" * 30) is not None
        with pytest.raises(ValueError, match="letters"):
            task.check(question, "UX")
    task = moves.TowerOfHanoi()
    question = task.ask(rng, level)
    start, goal = question.answer
    pegs = {peg: [d for d in range(len(start), 0, -1) if start[d - 1] == peg] for peg in "ABC"}
    way = expert_answer(task, question).split()
    for source, target in way:
        disc = pegs[source].pop()
        assert not pegs[target] or pegs[target][-1] > disc
        pegs[target].append(disc)
    assert all(disc in pegs[peg] for disc, peg in enumerate(goal, 1))
    assert task.check(question, " ".join(way[:-1]) or "AB BA") is not None
    assert task.check(question, "AA") is not None


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_queens_attack_none(seed, level):
    task, rng = moves.QueensCompletion(), random.Random(seed)
    question = task.ask(rng, level)
    rows = question.answer
    right = [int(n) for n in question.answer_text.split(", ")]
    a, b = rng.sample(range(len(right)), 2)
    other = list(right)
    other[a], other[b] = other[b], other[a]
    for queens in (right, other):
        free = all(row[q - 1] in ("Q." if "Q" not in row else "Q") for row, q in zip(rows, queens, strict=True))
        apart = all(abs(queens[i] - queens[j]) != j - i for i, j in combinations(range(len(queens)), 2))
        assert (task.check(question, str(queens)) is None) == (free and apart)


@given(SEEDS, LEVELS)
@settings(max_examples=20, deadline=None)
def test_all_rules_that_fit_the_examples_give_the_answer(seed, level):
    question = transformations.GridTransformation().ask(random.Random(seed), level)
    grids = [tuple(part.split("\n")[1:]) for part in re.split(r"\n(?=Input|Output|What)", question.text)[1:]]
    *examples, last, _ = grids
    fitting = [
        rule
        for rule in transformations.rules(level)
        if all(transformations.applied(rule, examples[i]) == examples[i + 1] for i in range(0, 6, 2))
    ]
    assert fitting
    assert {transformations.applied(rule, last) for rule in fitting} == {question.answer}


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_the_rules_that_fit_an_example_are_those_that_make_it(seed, level):
    rng, known = random.Random(seed), transformations.rules(level)
    symbols, size = rng.choice(("0000001", "00123")), rng.randint(2, 5)  # few symbols leave many rules open
    grid = tuple("".join(rng.choices(symbols, k=size)) for _ in range(size))
    result = transformations.applied(rng.choice(known), grid)
    made = [number for number, rule in enumerate(known) if transformations.applied(rule, grid) == result]
    assert sorted(transformations.fitting(level, grid, result)) == made
