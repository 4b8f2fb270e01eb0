"""Plans with a known optimum: the optimum found again by trying all, and plans that miss it by little."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.puzzles import planning
from rlvr.envs.tasks.questions import QuestionTask

from .reading import found, ints

SEEDS = st.integers(0, 2**64)
LEVELS = st.integers(1, 5)
MADE = [
    made
    for made in vars(planning).values()
    if isinstance(made, type) and issubclass(made, QuestionTask) and made.__module__ == planning.__name__
]


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.__name__)
def test_seeds_share_no_task_and_no_answer_is_right_often(made):
    task = made()
    asked = [task.ask(random.Random(seed), 1) for seed in range(150)]
    assert len({task.content(question) for question in asked}) >= 148
    assert Counter(task.direct_answer(question) for question in asked).most_common(1)[0][1] < 25


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_bins_hold_what_they_can(seed, level):
    task, rng = planning.BinPacking(), random.Random(seed)
    question = task.ask(rng, level)
    capacity, sizes = re.search(r"at most (\d+): (.*)\.", question.text).groups()
    bins = ints(question.answer_text)
    assert sum(ints(sizes)) > (max(bins) - 1) * int(capacity), "fewer bins would do"
    for _ in range(3):
        loads = [sum(s for s, b in zip(ints(sizes), bins, strict=True) if b == one) for one in set(bins)]
        assert (task.check(question, str(bins)) is None) == (max(loads) <= int(capacity))
        bins[rng.randrange(len(bins))] = rng.choice(bins)
    assert "no bin 0" in task.check(question, str([0, *bins[1:]]))


@given(SEEDS, LEVELS)
@settings(max_examples=40, deadline=None)
def test_pieces_cover_every_cell_once(seed, level):
    task, rng = planning.RectanglePacking(), random.Random(seed)
    question = task.ask(rng, level)
    height, width = (int(n) for n in re.search(r"rectangle of (\d+) rows and (\d+) columns", question.text).groups())
    sizes = [(int(h), int(w)) for h, w in re.findall(r"(\d+) x (\d+)", question.text)]
    numbers = ints(question.answer_text)
    assert sum(h * w for h, w in sizes) == height * width
    for _ in range(3):
        corners = zip(numbers[::2], numbers[1::2], strict=True)
        cells = Counter(
            (y, x)
            for (h, w), (r, c) in zip(sizes, corners, strict=True)
            for y in range(r, r + h)
            for x in range(c, c + w)
        )
        holds = cells == Counter((y, x) for y in range(1, height + 1) for x in range(1, width + 1))
        assert (task.check(question, str(numbers)) is None) == holds
        numbers[rng.randrange(len(numbers))] += rng.choice((-1, 1))


@given(SEEDS, LEVELS)
@settings(max_examples=20, deadline=None)
def test_no_fewer_sets_cover_everything(seed, level):
    task = planning.SetCover()
    question = task.ask(random.Random(seed), level)
    sets = {name: set(ints(line)) for name, line in re.findall(r"^([P-Z]): (.*)$", question.text, re.MULTILINE)}
    every = set(range(1, int(found(r"each of 1 to (\d+)", question.text)) + 1))
    best = len(question.answer_text.split(", "))
    for number in range(1, best + 1):
        for some in combinations(sets, number):
            covers = set().union(*(sets[name] for name in some)) == every
            assert not covers or number == best
            assert (task.check(question, " ".join(some)) is None) == covers
    more = [*question.answer_text.split(", "), next(name for name in sets if name not in question.answer_text)]
    assert "fewer" in task.check(question, " ".join(more))
    with pytest.raises(ValueError, match="each at most once"):
        task.check(question, " ".join([*more, more[0]]))


@given(SEEDS, LEVELS)
@settings(max_examples=12, deadline=None)
def test_no_round_trip_is_shorter(seed, level):
    task, rng = planning.TravellingSalesman(), random.Random(seed)
    question = task.ask(rng, level)
    table = {name: ints(line) for name, line in re.findall(r"^([P-W]): (.*)$", question.text, re.MULTILINE)}
    names = list(table)

    def length(trip: list[str]) -> int:
        return sum(table[a][names.index(b)] for a, b in pairwise([*trip, trip[0]]))

    lengths = {trip: length([names[0], *trip]) for trip in permutations(names[1:])}
    least = min(lengths.values())
    assert length(question.answer_text.split(", ")) == least
    for trip in rng.sample(list(lengths), 20):
        assert (task.check(question, ", ".join([names[0], *trip])) is None) == (lengths[trip] == least)
    assert "once" in task.check(question, ", ".join([*names[:-1], names[0]]))


@given(SEEDS, LEVELS)
@settings(max_examples=12, deadline=None)
def test_no_assignment_is_cheaper(seed, level):
    task, rng = planning.AssignmentProblem(), random.Random(seed)
    question = task.ask(rng, min(level, 4))
    costs = [ints(line) for line in re.findall(r"^person \d+: (.*)$", question.text, re.MULTILINE)]
    totals = {
        jobs: sum(row[job - 1] for row, job in zip(costs, jobs, strict=True))
        for jobs in permutations(range(1, len(costs) + 1))
    }
    least = min(totals.values())
    assert totals[tuple(ints(question.answer_text))] == least
    for jobs in rng.sample(list(totals), 20):
        assert (task.check(question, str(list(jobs))) is None) == (totals[jobs] == least)


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=12, deadline=None)
def test_no_order_of_jobs_is_done_earlier(seed, level):
    question = planning.FlowShop().ask(random.Random(seed), level)
    jobs = [tuple(ints(line)) for line in re.findall(r"job \d+: (.*)", question.text)]

    def done(order: tuple[tuple[int, ...], ...]) -> int:
        ends = [0, 0]
        for times in order:
            ends[0] += times[0]
            ends[1] = max(ends) + times[1]
        return ends[1]

    assert min(done(order) for order in permutations(jobs)) == question.answer


@given(SEEDS, LEVELS)
@settings(max_examples=30, deadline=None)
def test_slack_is_how_long_a_task_may_wait(seed, level):
    question = planning.CriticalPath().ask(random.Random(seed), level)
    told = re.findall(r"^(\w) takes (\d+) days(?:, after (.*))?$", question.text, re.MULTILINE)
    before = {name: after.split(", ") if after else [] for name, _, after in told}
    days = {name: int(n) for name, n, _ in told}

    def length(late: str = "", by: int = 0) -> int:
        end: dict[str, int] = {}
        while len(end) < len(days):
            for name in days:
                if name not in end and all(other in end for other in before[name]):
                    start = max((end[other] for other in before[name]), default=0)
                    end[name] = start + days[name] + (by if name == late else 0)
        return max(end.values())

    total = length()
    slack = [next(by for by in range(200) if length(name, by + 1) > total) for name in sorted(days)]
    assert question.answer == (total, *slack)


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_a_matching_is_right_when_no_pair_would_leave_it(seed, level):
    task = planning.StableMatching()
    question = task.ask(random.Random(seed), level)
    likes = {name: row.split(", ") for name, row in re.findall(r"^(\w+): (.*)$", question.text, re.MULTILINE)}
    doctors, hospitals = ([name for name in likes if (len(name) > 1) == long] for long in (True, False))
    right = 0
    for chosen in permutations(hospitals):
        has = dict(zip(doctors, chosen, strict=True))
        who = {hospital: doctor for doctor, hospital in has.items()}
        stable = not any(
            likes[d].index(h) < likes[d].index(has[d]) and likes[h].index(d) < likes[h].index(who[h])
            for d in doctors
            for h in hospitals
        )
        right += stable
        assert (task.check(question, ", ".join(has[name] for name in doctors)) is None) == stable
    assert right >= 1
