"""Plans with a known optimum.

Observation: things, places, jobs or people with their numbers or wishes, and the plan that is asked for.
"""

from __future__ import annotations

import random
from itertools import combinations, pairwise

from rlvr.envs.puzzles import workings
from rlvr.envs.tasks.answers import ListAnswerTask, items, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, ExactAnswerTask, Question, explained, whole_numbers


class BinPacking(CheckedAnswerTask):
    """Put things into bins that can just hold them.

    Levels 1 to 5: 2 bins of 6 things to 5 bins of 17; the things fill the bins but for a little.
    """

    explain = explained(workings.bin_packing)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Cuts nearly full bins into things; the bins are told, so any packing into them is optimal."""
        bins, count = (2, 3, 3, 4, 5)[level - 1], (6, 8, 10, 13, 17)[level - 1]
        capacity = rng.randint(40, 60 + 40 * level)
        parts = [1] * bins
        for _ in range(count - bins):
            parts[rng.randrange(bins)] += 1
        sizes: list[int] = []
        bin_of: list[int] = []
        for number, part in enumerate(parts, 1):
            room = capacity - rng.randint(0, 2)
            cuts = [0, *sorted(rng.sample(range(1, room), part - 1)), room]
            sizes += [b - a for a, b in pairwise(cuts)]
            bin_of += [number] * part
        order = rng.sample(range(count), count)
        sizes, bin_of = [sizes[k] for k in order], [bin_of[k] for k in order]
        text = f"Things of these sizes are to be put into {bins} bins, so that the sizes in a bin add up to at most "
        text += f"{capacity}: {listed(sizes)}.\nAnswer with the number of the bin (1 to {bins}) of each thing, in this "
        text += "order."
        return Question(text, (tuple(sizes), capacity, bins), answer_text=listed(bin_of))

    def check(self, question: Question, answer: str) -> str | None:
        """Adds up each bin; the fullest must not exceed the capacity."""
        sizes, capacity, bins = question.answer
        chosen = whole_numbers(answer, len(sizes))
        loads = dict.fromkeys(range(1, bins + 1), 0)
        for size, number in zip(sizes, chosen, strict=True):
            if number not in loads:
                return f"there is no bin {number}"
            loads[number] += size
        worst = max(loads, key=loads.__getitem__)
        return f"bin {worst} holds {loads[worst]}, more than {capacity}" if loads[worst] > capacity else None


class RectanglePacking(CheckedAnswerTask):
    """Fill a rectangle with rectangular pieces.

    Levels 1 to 5: 5 to 9 pieces, which may not be turned, fill a rectangle of up to 15 x 15.
    """

    explain = explained(workings.rectangle_packing)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Cuts the largest pieces in two, across their longer side, until there are enough; the cuts are the
        reference.
        """
        height, width = rng.randint(5 + level, 10 + level), rng.randint(5 + level, 10 + level)
        pieces = [(0, 0, height, width)]
        while len(pieces) < 4 + level:
            index = max(range(len(pieces)), key=lambda k: pieces[k][2] * pieces[k][3] * (0.3 + rng.random()))
            r, c, h, w = pieces.pop(index)
            if h >= w:
                cut = rng.randint(1, h - 1) if h > 1 else 0
                pieces += [(r, c, cut, w), (r + cut, c, h - cut, w)]
            else:
                cut = rng.randint(1, w - 1)
                pieces += [(r, c, h, cut), (r, c + cut, h, w - cut)]
            if (0 in pieces[-1][2:]) or (0 in pieces[-2][2:]):
                return self.ask(rng, level)
        rng.shuffle(pieces)
        facts = "; ".join(f"{h} x {w}" for _, _, h, w in pieces)
        text = f"Rectangular pieces of these heights and widths are to fill a rectangle of {height} rows and {width} "
        text += f"columns without a gap or overlap, none of them turned: {facts}.\nAnswer with the row and the column, "
        text += "counted from 1, of the upper left cell of each piece, in this order, such as: 1 1, 1 4, ..."
        sizes = tuple((h, w) for _, _, h, w in pieces)
        return Question(text, (height, width, sizes), answer_text=listed(f"{r + 1} {c + 1}" for r, c, _, _ in pieces))

    def check(self, question: Question, answer: str) -> str | None:
        """No piece outside and none overlapping: their areas then fill the rectangle."""
        height, width, sizes = question.answer
        numbers = whole_numbers(answer, 2 * len(sizes))
        covered: set[tuple[int, int]] = set()
        for number, ((h, w), r, c) in enumerate(zip(sizes, numbers[::2], numbers[1::2], strict=True), 1):
            if not (1 <= r <= height - h + 1 and 1 <= c <= width - w + 1):
                return f"piece {number} does not lie within the rectangle"
            cells = {(y, x) for y in range(r, r + h) for x in range(c, c + w)}
            if cells & covered:
                return f"piece {number} overlaps another"
            covered |= cells
        return None


class SetCover(CheckedAnswerTask):
    """Cover a range of numbers with as few sets as possible.

    Levels 1 to 5: 6 to 11 sets over 8 to 16 numbers.
    """

    explain = explained(workings.set_cover)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws sets until three to five of them are needed, which trying all choices proves."""
        count, largest = (6, 7, 8, 10, 11)[level - 1], (8, 10, 12, 14, 16)[level - 1]
        every = (1 << largest) - 1
        while True:
            sets = [
                rng.getrandbits(largest) & (rng.getrandbits(largest) | rng.getrandbits(largest)) for _ in range(count)
            ]
            best = self.fewest(sets, every)
            if best >= 3 and all(sets):
                break
        names = "PQRSTUVWXYZ"[:count]
        lines = [
            f"{name}: {listed(k + 1 for k in range(largest) if mask >> k & 1)}"
            for name, mask in zip(names, sets, strict=True)
        ]
        chosen = next(some for some in combinations(range(count), best) if self.union(sets, some) == every)
        text = (
            "\n".join(lines)
            + f"\nChoose as few of these sets as possible so that each of 1 to {largest} is in one or more "
        )
        text += "of them. Answer with the letters of the sets chosen, separated by commas."
        return Question(text, (tuple(sets), every, best), answer_text=listed(names[k] for k in chosen))

    @staticmethod
    def union(sets: list[int] | tuple[int, ...], some: tuple[int, ...]) -> int:
        """The items covered by some of the sets, as a bit mask."""
        all_ = 0
        for k in some:
            all_ |= sets[k]
        return all_

    def fewest(self, sets: list[int], every: int) -> int:
        """How many sets are needed; 0 if all of them are not enough."""
        for number in range(1, len(sets) + 1):
            if any(self.union(sets, some) == every for some in combinations(range(len(sets)), number)):
                return number
            if number == 5:
                break
        return 0

    def check(self, question: Question, answer: str) -> str | None:
        """The chosen sets must cover everything and be as few as the optimum."""
        sets, every, best = question.answer
        letters = items(answer)
        labels = "pqrstuvwxyz"[: len(sets)]
        if not all(len(letter) == 1 and letter in labels for letter in letters) or len(set(letters)) < len(letters):
            raise ValueError("the answer is not letters of the sets, each at most once")
        if self.union(sets, tuple(labels.index(letter) for letter in letters)) != every:
            return "a number is in none of the sets chosen"
        return None if len(letters) == best else f"fewer sets are enough: {best}"


def round_trip(table: list[list[int]]) -> tuple[int, list[int]]:
    """The length of a shortest round trip and its places, from the last place on (Held and Karp, 1962)."""
    size = len(table) - 1
    best: dict[tuple[int, int], tuple[int, int]] = {(1 << k, k): (table[size][k], -1) for k in range(size)}
    for mask in range(1, 1 << size):
        for last in range(size):
            if (mask, last) not in best:
                continue
            length, row = best[mask, last][0], table[last]
            for new in range(size):
                if not mask >> new & 1:
                    key = (mask | 1 << new, new)
                    if key not in best or length + row[new] < best[key][0]:
                        best[key] = (length + row[new], last)
    mask = (1 << size) - 1
    last = min(range(size), key=lambda k: best[mask, k][0] + table[k][size])
    total, trip = best[mask, last][0] + table[last][size], list[int]()
    while last >= 0:
        trip.append(last)
        mask, last = mask ^ 1 << last, best[mask, last][1]
    return total, [size, *reversed(trip)]


class TravellingSalesman(CheckedAnswerTask):
    """Find a shortest round trip.

    Levels 1 to 5: 5, 6, 7, 7 and 8 places; roads of level 4 on are of different length there and back.
    """

    explain = explained(workings.round_trip, "text", "answer_text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Random distances; the optimum is that of Held and Karp's dynamic programming."""
        size = (5, 6, 7, 7, 8)[level - 1]
        table = [[0 if r == c else rng.randint(10, 99) for c in range(size)] for r in range(size)]
        if level < 4:
            table = [[table[min(r, c)][max(r, c)] for c in range(size)] for r in range(size)]
        best, trip = round_trip(table)
        names = "PQRSTUVW"[:size]
        rows = "\n".join(f"{name}: {' '.join(map(str, row))}" for name, row in zip(names, table, strict=True))
        text = f"The distances from the place of each row to {listed(names)}, in this order:\n{rows}\n"
        text += "Give a round trip of least length that visits every place once. Answer with the places in the order "
        text += "of the trip, each once."
        answer_text = listed(names[k] for k in trip)
        return Question(text, (tuple(map(tuple, table)), best), f"The least length is {best}.", answer_text)

    def check(self, question: Question, answer: str) -> str | None:
        """Any round trip of the least length is right, from any start and in either direction of equal length."""
        table, best = question.answer
        names = "pqrstuvw"[: len(table)]
        trip = items(answer)
        if strange := set(trip) - set(names):
            raise ValueError(f"{min(strange)!r} is no place")
        if len(trip) == len(table) + 1 and trip[0] == trip[-1]:
            trip.pop()  # back at the start
        if sorted(trip) != list(names):
            return "not every place is there once"
        indices = [names.index(name) for name in trip]
        length = sum(table[a][b] for a, b in zip(indices, indices[1:] + indices[:1], strict=True))
        return None if length == best else f"the length is {length}, and there is a shorter trip"


class AssignmentProblem(CheckedAnswerTask):
    """Give each person a job at the lowest total cost.

    Levels 1 to 5: 4 to 8 people and as many jobs.
    """

    explain = explained(workings.assignment, "text", "answer_text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """The optimum by dynamic programming over sets of jobs."""
        size = 3 + level
        costs = [[rng.randint(1, 40) for _ in range(size)] for _ in range(size)]
        best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
        for row in costs:
            new: dict[int, tuple[int, tuple[int, ...]]] = {}
            for mask, (cost, jobs) in best.items():
                for job in range(size):
                    if not mask >> job & 1:
                        key = mask | 1 << job
                        if key not in new or cost + row[job] < new[key][0]:
                            new[key] = (cost + row[job], (*jobs, job + 1))
            best = new
        (total, jobs) = best[(1 << size) - 1]
        rows = "\n".join(f"person {n}: {' '.join(map(str, row))}" for n, row in enumerate(costs, 1))
        text = f"What it costs to give jobs 1 to {size} to each person:\n{rows}\nGive each person a job of their own "
        text += "so that the total cost is as low as possible. Answer with the job of each person, in order."
        return Question(text, (tuple(map(tuple, costs)), total), f"The lowest cost is {total}.", listed(jobs))

    def check(self, question: Question, answer: str) -> str | None:
        """Any assignment of the lowest cost is right; each job must be given once."""
        costs, total = question.answer
        jobs = whole_numbers(answer, len(costs))
        if sorted(jobs) != list(range(1, len(costs) + 1)):
            return "not every job is given once"
        cost = sum(row[job - 1] for row, job in zip(costs, jobs, strict=True))
        return None if cost == total else f"the cost is {cost}, and there is a cheaper way"


def makespan(jobs: list[tuple[int, int]]) -> int:
    """When the last of the jobs, in this order, leaves the second machine."""
    first = second = 0
    for a, b in jobs:
        first += a
        second = max(first, second) + b
    return second


class FlowShop(ExactAnswerTask):
    """Order jobs on two machines so that all are done soonest.

    Levels 1 to 5: 4, 5, 7, 9 and 12 jobs; the optimum is that of Johnson's rule (1954).
    """

    explain = explained(workings.flow_shop, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Asks for the makespan alone; Johnson's order is said in the working."""
        jobs = [(rng.randint(2, 30), rng.randint(2, 30)) for _ in range((4, 5, 7, 9, 12)[level - 1])]
        early = sorted(job for job in jobs if job[0] <= job[1])
        late = sorted((job for job in jobs if job[0] > job[1]), key=lambda job: -job[1])
        lines = "\n".join(f"job {n}: {a} minutes, then {b} minutes" for n, (a, b) in enumerate(jobs, 1))
        text = "Every job goes through a first machine, then through a second; each machine does one job at a "
        text += f"time:\n{lines}\nThe order of the jobs is free. After how many minutes can all of them be done, at "
        text += "the earliest?"
        order = [jobs.index(job) + 1 for job in early + late]
        return Question(text, makespan(early + late), f"By Johnson's rule: {listed(order)}.")


class CriticalPath(ListAnswerTask):
    """Find the earliest end of a project, and the slack of its tasks.

    Levels 1 to 5: 5, 7, 9, 12 and 15 tasks.
    """

    explain = explained(workings.critical_path, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Forward pass for the earliest ends, backward pass for the slack; names hide the order of the tasks."""
        count = (5, 7, 9, 12, 15)[level - 1]
        days = [rng.randint(2, 12) for _ in range(count)]
        before = [sorted(rng.sample(range(k), min(k, rng.choice((0, 1, 1, 2, 2, 3))))) for k in range(count)]
        ends: list[int] = []
        for day, need in zip(days, before, strict=True):
            ends.append(day + max((ends[k] for k in need), default=0))
        total = max(ends)
        latest = [total] * count  # when a task must have ended
        for k in range(count - 1, -1, -1):
            for early in before[k]:
                latest[early] = min(latest[early], latest[k] - days[k])
        names = rng.sample("ABCDEFGHIJKLMNO"[:count], count)
        facts = []
        for name, day, need in zip(names, days, before, strict=True):
            after = f", after {listed(sorted(names[k] for k in need))}" if need else ""
            facts.append(f"{name} takes {day} days{after}")
        gold = sorted(zip(names, (b - a for a, b in zip(ends, latest, strict=True)), strict=True))
        text = (
            "\n".join(sorted(facts))
            + "\nAny number of tasks can go on at the same time. The slack of a task is by how many "
        )
        text += "days it can begin later than it could at the earliest, without the project ending later. Answer with "
        text += "the fewest days that the project takes, then the slack of each task, in the order "
        text += f"{listed(sorted(names))}."
        return Question(text, (total, *(slack for _, slack in gold)), f"The project takes {total} days.")


class StableMatching(CheckedAnswerTask):
    """Find a matching that nobody wants to leave together.

    Levels 1 to 5: 4 to 8 on each side.
    """

    LEFT, RIGHT = ("Ann", "Bea", "Cay", "Dee", "Eve", "Fay", "Gia", "Hal"), ("P", "Q", "R", "S", "T", "U", "V", "W")
    explain = explained(workings.stable_matching)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Random full preferences on both sides; the reference is what the doctors' proposals lead to."""
        size = 3 + level
        likes = [rng.sample(range(size), size) for _ in range(size)]  # of each person, hospitals from the best
        liked = [rng.sample(range(size), size) for _ in range(size)]
        match = self.proposed(likes, liked)
        people = "\n".join(
            f"{name}: {listed(self.RIGHT[k] for k in row)}" for name, row in zip(self.LEFT, likes, strict=False)
        )
        preferences = "\n".join(
            f"{name}: {listed(self.LEFT[k] for k in row)}" for name, row in zip(self.RIGHT, liked, strict=False)
        )
        text = f"Doctors and the hospitals they like, the best first:\n{people}\nHospitals and the doctors they like, "
        text += f"the best first:\n{preferences}\nEach hospital takes one doctor. Match them so that no doctor and "
        text += "hospital that are not matched with each other would both rather have each other. For "
        text += f"{listed(self.LEFT[:size])}, in this order, answer with the hospital."
        answer = (tuple(map(tuple, likes)), tuple(map(tuple, liked)))
        return Question(text, answer, answer_text=listed(self.RIGHT[k] for k in match))

    @staticmethod
    def proposed(likes: list[list[int]], liked: list[list[int]]) -> list[int]:
        """The hospital of each doctor when doctors propose (Gale and Shapley, 1962)."""
        rank = [{doctor: index for index, doctor in enumerate(row)} for row in liked]
        tried, holds, free = [0] * len(likes), dict[int, int](), list(range(len(likes)))
        while free:
            doctor = free.pop()
            hospital = likes[doctor][tried[doctor]]
            tried[doctor] += 1
            other = holds.get(hospital)
            if other is None or rank[hospital][doctor] < rank[hospital][other]:
                holds[hospital] = doctor
                free += [] if other is None else [other]
            else:
                free.append(doctor)
        matching = {doctor: hospital for hospital, doctor in holds.items()}
        return [matching[doctor] for doctor in range(len(likes))]

    def check(self, question: Question, answer: str) -> str | None:
        """Searches for a blocking pair; every stable matching is right."""
        likes, liked = question.answer
        names = [name.lower() for name in self.RIGHT[: len(likes)]]
        chosen = items(answer, len(likes))
        if sorted(chosen) != names:
            return "not every hospital is there once"
        has = [names.index(name) for name in chosen]
        doctor_of = {hospital: doctor for doctor, hospital in enumerate(has)}
        for doctor, row in enumerate(likes):
            for hospital in row[: row.index(has[doctor])]:
                if liked[hospital].index(doctor) < liked[hospital].index(doctor_of[hospital]):
                    return f"{self.LEFT[doctor]} and {self.RIGHT[hospital]} like each other better"
        return None
