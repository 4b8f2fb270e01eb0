"""The logic environments: every arrangement, world or assignment is tried, to see that one answer alone is right."""

from __future__ import annotations

import random
import re
from collections import Counter
from itertools import combinations, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.logic import islanders, propositional, relations, syllogisms, tracking, zebra
from rlvr.envs.mathematics import dates
from rlvr.envs.tasks.questions import QuestionTask

SEEDS = st.integers(0, 2**64)
LEVELS = st.integers(1, 5)
TASKS = [
    made
    for module in (islanders, propositional, relations, syllogisms, zebra)
    for made in vars(module).values()
    if isinstance(made, type) and issubclass(made, QuestionTask) and made.__module__ == module.__name__
]


# How many of a thousand tasks of level 1 differ in more than names and order, where that is what content tells apart.
DIFFERENT = {islanders.KnightsAndKnaves: 450, relations.FamilyTree: 690, zebra.Ordering: 850}


@pytest.mark.parametrize("made", TASKS, ids=lambda made: made.__name__)
def test_a_thousand_seeds_share_few_tasks_and_no_answer_is_right_half_of_the_time(made):
    task = made()
    asked = [task.ask(random.Random(seed), 1) for seed in range(1_000)]
    assert len({task.content(question) for question in asked}) >= DIFFERENT.get(made, 998)
    assert Counter(task.direct_answer(question) for question in asked).most_common(1)[0][1] < 400


def python_of(text: str) -> str:
    """A formula as Python says it; ``implies`` is <=, ``iff`` ==, ``xor`` != between truth values."""
    return text.replace("implies", "<=").replace("iff", "==").replace("xor", "!=").replace("not ", "NOT ** ")


class Not:
    """``NOT ** x`` is not x, and binds more tightly than any operator between two formulas."""

    def __pow__(self, value: bool) -> bool:
        return not value


def holds(text: str, names: dict[str, bool]) -> bool:
    return bool(eval(python_of(text), {"NOT": Not()}, names))


@given(SEEDS, LEVELS)
@settings(max_examples=30, deadline=None)
def test_truth_tables_and_entailment_agree_with_python(seed, level):
    question = propositional.TruthCount().ask(random.Random(seed), level)
    formula, ask = question.text.split("\n")
    names = re.findall(r"\b[P-U]\b", ask)
    worlds = [dict(zip(names, values, strict=True)) for values in product((False, True), repeat=len(names))]
    assert sum(holds(formula, world) for world in worlds) == question.answer
    question = propositional.Entailment().ask(random.Random(seed), level)
    premises, statements = question.text.split("\nStatements:\n")
    lines = premises.split("\n")[1:]
    worlds = [dict(zip("PQRSTU", values, strict=True)) for values in product((False, True), repeat=6)]
    worlds = [world for world in worlds if all(holds(line, world) for line in lines)]
    assert worlds, "the premises contradict one another"
    given_ = [line.split(". ") for line in statements.split("\n")[:6]]
    assert [int(n) for n, line in given_ if all(holds(line, world) for world in worlds)] == list(question.answer)


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_satisfying_assignments_are_those_that_make_each_line_true(seed, level):
    task = propositional.Satisfiability()
    question = task.ask(random.Random(seed), level)
    lines = question.text.split("\n")[1:-1]
    rng = random.Random(seed)
    for _ in range(5):
        digits = [*question.answer_text]
        for place in rng.sample(range(len(digits)), rng.randint(0, 3)):
            digits[place] = rng.choice("01")
        true = all(
            any((digits[int(n) - 1] == "1") != bool(no) for no, n in re.findall(r"(not )?x(\d+)", line))
            for line in lines
        )
        assert (task.check(question, "".join(digits)) is None) == true


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_a_core_has_no_model_and_one_without_each_of_its_lines(seed, level):
    task, rng = propositional.UnsatisfiableCore(), random.Random(seed)
    question = task.ask(rng, level)
    lines = [
        [(int(n), not no) for no, n in re.findall(r"(not )?x(\d+)", line)] for line in question.text.split("\n")[1:-1]
    ]
    worlds = list(product((False, True), repeat=question.answer[0]))

    def holds_together(numbers):
        return any(all(any(world[n - 1] == true for n, true in lines[k - 1]) for k in numbers) for world in worlds)

    gold = {int(number) for number in question.answer_text.split(", ")}
    every = range(1, len(lines) + 1)
    for named in (gold, set(every), *(gold ^ {rng.choice(every)} for _ in range(4)), {1}):
        core = not holds_together(named) and all(holds_together(named - {number}) for number in named)
        if named:
            answer = ", ".join(map(str, rng.sample(sorted(named), len(named))))
            assert (task.check(question, answer) is None) == core
    assert task.check(question, f"Lines {question.answer_text.replace(', ', ' and ')}") is None
    for answer in ("0", str(len(lines) + 1), "1, 1", "x1", "1.5"):
        with pytest.raises(ValueError, match=r"list of (different numbers from 1 to|words)"):
            task.check(question, answer)


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_forward_chaining_reaches_what_follows(seed, level):
    question = propositional.ForwardChaining().ask(random.Random(seed), level)
    rules = [
        (set(re.findall(r"\b\w\b", a)), b) for a, b in re.findall(r"^if (.*) then (\w)$", question.text, re.MULTILINE)
    ]
    facts = set(re.search(r"Facts: (.*)", question.text)[1].split(", "))
    known = set(facts)
    for _ in rules:
        known |= {conclusion for conditions, conclusion in rules if conditions <= known}
    assert known - facts == set(question.answer)


def claim_holds(claim: str, kinds: dict[str, str]) -> bool:
    """What a sentence says, read from its words; ``and`` and ``or`` group to the right."""
    if found := re.match(r"(\w+) is a (knight|knave)(?: (and|or) (.*))?$", claim):
        name, kind, joint, rest = found.groups()
        first = kinds[name] == kind
        if joint is None:
            return first
        other = claim_holds(rest, kinds)
        return (first and other) if joint == "and" else (first or other)
    if found := re.match(r"(\w+) and (\w+) are of (the same kind|different kinds)$", claim):
        return (kinds[found[1]] == kinds[found[2]]) == (found[3] == "the same kind")
    how, number = re.match(r"(exactly|at least|at most) (\d+) of us", claim.lower()).groups()
    knights = list(kinds.values()).count("knight")
    return {"exactly": knights == int(number), "at least": knights >= int(number), "at most": knights <= int(number)}[
        how
    ]


@pytest.mark.parametrize("made", [islanders.KnightsAndKnaves, islanders.Spies])
@given(seed=SEEDS, level=LEVELS)
@settings(max_examples=25, deadline=None)
def test_one_world_alone_fits_what_the_islanders_say(made, seed, level):
    question = made().ask(random.Random(seed), level)
    said = re.findall(r'^(\w+): "(.*)\."$', question.text, re.MULTILINE)
    names = re.search(r"What are (.*)\?", question.text)[1].split(", ")
    kinds = ("knight", "knave") if made is islanders.KnightsAndKnaves else ("knight", "knave", "spy")
    fitting = []
    for world in product(kinds, repeat=len(names)):
        if world.count("spy") != len(kinds) - 2:
            continue
        who = dict(zip(names, world, strict=True))
        if all(who[name] == "spy" or claim_holds(claim, who) == (who[name] == "knight") for name, claim in said):
            fitting.append(world)
    assert fitting == [question.answer]


NAMED = {
    islanders.KnightsAndKnaves: (islanders, "NAMES"),
    islanders.Spies: (islanders, "NAMES"),
    relations.FamilyTree: (relations, "PEOPLE"),
    dates.AgeProblems: (dates.AgeProblems, "NAMES"),
}


@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("made", NAMED, ids=lambda made: made.__name__)
def test_other_names_do_not_make_another_task(made, level, monkeypatch):
    task, (holder, name) = made(), NAMED[made]
    before = [task.ask(random.Random(seed), level) for seed in range(20)]
    monkeypatch.setattr(holder, name, tuple(f"{person}o" for person in reversed(getattr(holder, name))))
    after = [task.ask(random.Random(seed), level) for seed in range(20)]
    assert all(one.text != other.text for one, other in zip(before, after, strict=True))
    assert [task.content(question) for question in before] == [task.content(question) for question in after]
    assert len(set(map(task.content, before))) > 12, "the control: other tasks are told apart"


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_the_order_of_people_and_sentences_does_not_make_another_task(seed, level):
    rng = random.Random(seed)
    count = 2 + level
    claims = [(person % count, islanders.claim_of(rng, person % count, count, level)) for person in range(2 * count)]
    order = rng.sample(range(count), count)

    def moved(claim: islanders.Claim) -> islanders.Claim:
        if claim[0] in ("both", "either"):
            return (claim[0], *(moved(part) for part in reversed(claim[1:])))
        if claim[0] == "same":
            return ("same", order[claim[2]], order[claim[1]], claim[3])
        return ("is", order[claim[1]], claim[2]) if claim[0] == "is" else claim

    others = [(order[speaker], moved(claim)) for speaker, claim in claims]
    rng.shuffle(others)
    assert islanders.canonical(others, count) == islanders.canonical(claims, count)
    changed = [(speaker, ("same", 0, 1, True)) for speaker, _ in claims]
    assert islanders.canonical(changed, count) != islanders.canonical(claims, count), "the control"


def family_of(rng: random.Random, fewest: int) -> tuple[list[int], dict[int, list[int]]]:
    """A family as the task keeps it, and the children of each person."""
    first = relations.FamilyTree.grown(rng.randbytes(13), fewest)
    return first, {person: list(range(*first[person : person + 2])) for person in range(len(first) - 1)}


@given(SEEDS)
def test_families_have_four_generations_and_up_to_three_children(seed):
    fewest = seed % 2
    first, children = family_of(random.Random(seed), fewest)
    rows = [[0]]
    while rows[-1]:
        rows.append([child for person in rows[-1] for child in children[person]])
    assert [one for row in rows for one in row] == list(range(len(first) - 1)), (
        "everyone has one parent, and an older generation comes first"
    )
    assert len(rows) <= 5, "the fifth has no people"
    assert 2 <= len(rows[1]) <= 3
    assert all(fewest <= len(children[person]) <= 3 for row in rows[1:3] for person in row)


@given(SEEDS)
def test_the_order_of_children_does_not_make_another_family(seed):
    rng, task = random.Random(seed), relations.FamilyTree()
    first, children = family_of(rng, fewest=0)
    rows, order = [[0]], []
    while rows[-1]:  # everyone's children in another order, and with them all who descend from them
        order += rows[-1]
        rows.append([child for person in rows[-1] for child in rng.sample(children[person], len(children[person]))])
    other = [1]
    for person in order:
        other.append(other[-1] + len(children[person]))
    for person in range(len(order)):
        assert task.canonical(first, order[person]) == task.canonical(other, person)
    codes = {person: task.canonical(first, person) for person in order}
    shape = {person: nested(children, 0, person) for person in order}
    for one, another in combinations(order, 2):
        assert (codes[one] == codes[another]) == (shape[one] == shape[another])


def nested(children: dict[int, list[int]], person: int, asked: int) -> str:
    """The tree below somebody in brackets, whatever the order of children."""
    below = sorted(nested(children, child, asked) for child in children[person])
    return f"({'*' * (person == asked)}{''.join(below)})"


@given(SEEDS, LEVELS)
def test_counting_descendants_finds_whoever_has_two_relatives_or_more(seed, level):
    """Relatives are found link by link; siblings and their descendants are not among them."""
    task = relations.FamilyTree()
    first, children = family_of(random.Random(seed), fewest=seed % 2)
    parent = {child: person for person, below in children.items() for child in below}
    up, down = {1: (0, 2), 2: (1, 2), 3: (2, 2), 4: (0, 3), 5: (3, 3)}[level]
    relatives = {}
    for person in children:
        via, above = None, person
        for _ in range(up):
            via, above = above, parent.get(above)
        row, links = [above] if above is not None else [], up
        for depth in range(down):
            row = [child for one in row for child in children[one]]
            links += len(row)
            if depth == 0:
                left_out = [via]
            else:
                left_out = [child for one in left_out if one is not None for child in children[one]]
        relatives[person] = [other for other in row if other not in left_out], links
    many = [person for person, (found, _) in relatives.items() if len(found) >= 2]
    assert sorted(task.with_relatives(first, level)) == many
    for person in many:
        assert task.found(first, person, level) == relatives[person][0]
        assert task.links(first, person, level) == relatives[person][1]


@pytest.mark.parametrize("count", [4, 5, 6])
def test_the_table_of_a_formula_is_that_of_its_text(count):
    task, rng = propositional.Entailment(), random.Random(count)
    formulas = [*rng.sample(propositional.pair_formulas(count), 60)]
    formulas += [task.premise(count, rng.getrandbits(24)) for _ in range(200)]
    for text, mask in formulas:
        for row in range(1 << count):
            values = {name: bool(row >> index & 1) for index, name in enumerate("PQRSTU"[:count])}
            assert holds(text, values) == bool(mask >> row & 1), (text, values)


def clue_holds(line: str, place: dict[str, int]) -> bool:
    if found := re.match(r"(\w+) and (\w+) are in the same place", line):
        return place[found[1]] == place[found[2]]
    if found := re.match(r"(\w+) and (\w+) are (\d+) places? apart", line):
        return abs(place[found[1]] - place[found[2]]) == int(found[3])
    second, steps, side, first = re.match(r"(\w+) is (\d+) places? to the (left|right) of (\w+)", line).groups()
    return place[second] - place[first] == int(steps) * (1 if side == "right" else -1)


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_one_order_alone_fits_the_clues(seed, level):
    question = zebra.Ordering().ask(random.Random(seed), level)
    lines = question.text.split("\n")[1:-1]
    orders = permutations(question.answer)
    fits = [o for o in orders if all(clue_holds(line, {name: i for i, name in enumerate(o)}) for line in lines)]
    assert fits == [question.answer]


@given(SEEDS, st.sampled_from([1, 3]))
@settings(max_examples=6, deadline=None)
def test_one_zebra_arrangement_alone_fits_the_clues(seed, level):
    question = zebra.Zebra().ask(random.Random(seed), level)
    head, clues = question.text.split("\nIt is known:\n")
    groups = [line.split(", ") for line in head.split("\n")[1:]]
    lines = clues.split("\n")[:-1]
    fits = []
    for orders in product(*(list(permutations(group)) for group in groups)):
        place = {thing: i for order in orders for i, thing in enumerate(order)}
        if all(clue_holds(line, place) for line in lines):
            fits.append(tuple(order[i] for i in range(len(groups[0])) for order in orders))
    assert fits == [question.answer]


@given(SEEDS, st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_syllogisms_hold_in_every_world_or_fail_in_one(seed, level):
    """Worlds are tried one by one: which of the kinds of people exist."""
    question = syllogisms.Syllogisms().ask(random.Random(seed), level)
    lines = re.findall(r"(All|No|Some) (\w+) are (not )?(\w+)\.", question.text)
    names = sorted({name for _, a, _, b in lines for name in (a, b)})
    kinds = list(product((False, True), repeat=len(names)))
    at = {name: place for place, name in enumerate(names)}

    def true(line: tuple[str, str, str, str], people: list[tuple[bool, ...]]) -> bool:
        form, a, no, b = line
        members = [person[at[b]] != bool(no) for person in people if person[at[a]]]
        return all(members) if form == "All" else not any(members) if form == "No" else any(members)

    premises, conclusions = lines[:-6], lines[-6:]
    # Whatever fails, fails in a world of few people: one for each "some" among the premises, and one more.
    most = 1 + sum(form == "Some" for form, *_ in premises)
    if len(kinds) > 8:
        kinds = [kind for kind in kinds if all(true(p, [kind]) for p in premises if p[0] != "Some")]
    open_ = set()
    for people in worlds(kinds, most):
        if all(true(premise, people) for premise in premises):
            open_ |= {n for n, conclusion in enumerate(conclusions, 1) if not true(conclusion, people)}
    assert tuple(n for n in range(1, 7) if n not in open_) == question.answer


@given(SEEDS, st.sampled_from([(3, 2), (4, 4), (5, 5), (6, 7)]))
@settings(max_examples=60, deadline=None)
def test_the_conclusions_of_premises_are_the_statements_that_they_imply(seed, sizes):
    """Found from what is inside and outside a class, and one by one as those whose opposite fits in no world."""
    count, size = sizes
    every = syllogisms.statements(count)
    _, numbers = syllogisms.Syllogisms.premises(random.Random(seed).getrandbits(256), count, size)
    premises = [every[number] for number in numbers]
    world = syllogisms.Premises(premises, count)
    found = syllogisms.implied_by(numbers, count)
    if world.consistent():
        implied = {statement for statement in every if world.imply(statement)}
        assert implied == ({*premises} if found is None else {every[number] for number in found})
        assert {*premises} <= implied
    else:
        assert found is None


def worlds(kinds, most):
    from itertools import combinations

    for size in range(min(most, len(kinds)) + 1):
        yield from (list(chosen) for chosen in combinations(kinds, size))


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_relatives_are_found_from_the_sentences(seed, level):
    question = relations.FamilyTree().ask(random.Random(seed), level)
    parent = {b: a for a, b in re.findall(r"(\w+) is a parent of (\w+)\.", question.text)}
    kind, who = re.search(r"Who are the (.*) of (\w+), among", question.text).groups()

    def above(name: str) -> list[str]:
        return [name, *(above(parent[name]) if name in parent else [])]

    lines = {name: above(name) for name in {*parent, *parent.values()}}
    up, down = {
        "grandchildren": (0, 2), "nieces and nephews": (1, 2), "first cousins": (2, 2),
        "great-grandchildren": (0, 3), "second cousins": (3, 3),
    }[kind]  # fmt: skip
    mine = lines[who]
    found = {
        name
        for name, line in lines.items()
        if len(line) > down and len(mine) > up and line[down] == mine[up] and (not up or line[down - 1] != mine[up - 1])
    }
    assert found == set(question.answer)


@given(SEEDS, LEVELS)
@settings(max_examples=60, deadline=None)
def test_sets_and_directions(seed, level):
    question = relations.SetAlgebra().ask(random.Random(seed), level)
    sets = {
        a: {int(n) for n in m.split(", ")} for a, m in re.findall(r"^(\w) = \{(.*)\}$", question.text, re.MULTILINE)
    }
    formula = re.search(r"What is (.*)\? Answer", question.text)[1]
    python = formula.replace("∪", "|").replace("∩", "&").replace("\\", "-").replace("△", "^")
    assert eval(python, {}, sets) == set(question.answer)
    question = relations.Directions().ask(random.Random(seed), level)
    place: dict[str, complex] = {}
    facts = re.findall(r"^(\w+) lies (\d+) km (\w+)(?: and also \d+ km (\w+))? of (\w+)\.", question.text, re.MULTILINE)
    ways = {"north": 1j, "south": -1j, "east": 1, "west": -1, "": 0}
    place[facts[0][0]] = 0j
    for _ in facts:
        for a, steps, way, other, b in facts:
            step = int(steps) * (ways[way] + ways[other])
            if b in place:
                place[a] = place[b] + step
            elif a in place:
                place[b] = place[a] - step
    start, goal = re.search(r"north of (\w+) does (\w+) lie", question.text).groups()
    difference = place[goal] - place[start]
    assert (difference.real, difference.imag) == question.answer


def test_a_zebra_with_other_names_in_another_order_is_the_same_task():
    rng = random.Random(3)
    for level_size in (4, 5):
        groups = [list(kind[:level_size]) for kind in zebra.KINDS[:3]]
        clues, _ = zebra.puzzle(rng, groups, 2)
        things = [thing for group in groups for thing in group]
        others = [thing for kind in zebra.KINDS[1:] for thing in kind[-level_size:]]
        name = dict(zip(things, others, strict=True))
        renamed = [clue._replace(first=name[clue.first], second=name[clue.second]) for clue in clues]
        turned = [
            clue._replace(first=clue.second, second=clue.first, offset=-clue.offset if clue.signed else clue.offset)
            for clue in renamed
        ]
        rng.shuffle(turned)
        moved = [[name[thing] for thing in reversed(group)] for group in reversed(groups)]
        content = zebra.canonical(groups, clues)
        assert zebra.canonical(moved, turned) == content
        first = next(index for index, clue in enumerate(clues) if clue.signed and clue.offset)
        clues[first] = clues[first]._replace(offset=-clues[first].offset)
        assert zebra.canonical(groups, clues) != content


class Renaming(random.Random):
    """Draws as ``random.Random`` does, but the names of a list of words come out exchanged."""

    def __init__(self, seed: int, words: tuple[str, ...], exchanged: bool) -> None:
        super().__init__(seed)
        self.words, self.exchanged = words, exchanged

    def sample(self, population, k, *, counts=None):
        drawn = super().sample(population, k, counts=counts)
        if not self.exchanged or tuple(population) != self.words:
            return drawn
        ahead = dict(zip(self.words, self.words[1:] + self.words[:1], strict=True))
        return [ahead[word] for word in drawn]


@pytest.mark.parametrize("level", [1, 3, 5])
@pytest.mark.parametrize(
    ("made", "words"),
    [
        (tracking.SwapTracking, tracking.PEOPLE),
        (tracking.SwapTracking, tracking.THINGS),
        (tracking.Seating, tracking.PEOPLE),
        (relations.Directions, tuple(relations.PLACES)),
    ],
)
def test_people_and_places_with_other_names_make_the_same_task(made, words, level):
    one, other = (made().ask(Renaming(11, words, exchanged), level) for exchanged in (False, True))
    assert one.text != other.text
    assert one.content == other.content != made().ask(random.Random(12), level).content
