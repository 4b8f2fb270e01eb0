"""Questions: each template asks in words, answers from the clean rows, and says which queries a careful person runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from rlvr.envs.agentic.databases.asker import MAX_ROWS, Asker, Question, Unsuitable, in_unit, numbers, unique
from rlvr.envs.agentic.databases.domains import Attribute, Entity
from rlvr.envs.agentic.databases.rows import LONG_AGO, Row
from rlvr.envs.agentic.databases.views import Condition, View, followed, shown_number
from rlvr.envs.tasks.wording import with_article

# one table or two


def count(a: Asker) -> Question:
    """How many there are."""
    view = a.view(a.entity())
    rows, select = view.rows(a.database), a.select(view)
    words = f"How many {a.words(view)} are there?"
    return a.question(
        "count", words, "number", [(Fraction(len(rows)),)], [select], [select.text("count(*)")], focus=view
    )


def _aggregate(a: Asker, name: str, words: str, function: str, of: Callable[[list[int]], Fraction]) -> Question:
    entity = a.entity(lambda each: each.of_kind("num", "money"))
    attribute = a.measured(entity)
    view = a.view(entity, 3, but=[attribute.noun], bare=0.2)
    values, select = numbers(view.rows(a.database), attribute), a.select(view)
    if len(values) < 2:
        raise Unsuitable
    value = shown_number(attribute, of(values))
    query = select.text(function.format(select.value((), attribute.noun)))
    a.plan.append(attribute.kind)
    text = words.format(noun=attribute.noun, view=a.words(view), unit=in_unit(attribute))
    return a.question(name, text, "number", [(value,)], [select], [query], focus=view)


def total(a: Asker) -> Question:
    """A sum."""
    words = "What is the total {noun} of the {view}{unit}?"
    return _aggregate(a, "total", words, "sum({})", lambda values: Fraction(sum(values)))


def average(a: Asker) -> Question:
    """An average."""
    words = "What is the average {noun} of the {view}{unit}?"
    return _aggregate(a, "average", words, "avg({})", lambda values: Fraction(sum(values), len(values)))


def span(a: Asker) -> Question:
    """The highest less the lowest."""
    words = "What is the difference between the highest and the lowest {noun} of the {view}{unit}?"
    return _aggregate(a, "span", words, "max({0}) - min({0})", lambda values: Fraction(max(values) - min(values)))


def _ranked(a: Asker, name: str, position: int) -> Question:
    entity = a.entity(lambda each: each.names and each.of_kind("num", "money"))
    attribute = a.measured(entity)
    view = a.view(entity, 3, but=[attribute.noun], bare=0.3)
    highest = a.rng.random() < 0.5
    rows = [row for row in view.rows(a.database) if row[attribute.noun] is not None]
    ranked = sorted(((row[attribute.noun], row[""]) for row in rows), reverse=highest)
    unique(ranked, position + 1)
    select = a.select(view)
    value = select.value((), attribute.noun)
    select.require(f"{value} IS NOT NULL")
    tail = f"ORDER BY {value}{' DESC' if highest else ''} LIMIT 1{f' OFFSET {position}' if position else ''}"
    rank = f"{'second ' if position else ''}{'highest' if highest else 'lowest'}"
    words = f"Which of the {a.words(view)} has the {rank} {attribute.noun}?"
    focus = a.named(entity.singular, [ranked[position][1]])
    return a.question(
        name, words, "text", [(ranked[position][1],)], [select], [select.text(select.value((), ""), tail)],
        focus=focus, called=f"that {entity.singular}",
    )  # fmt: skip


def extreme(a: Asker) -> Question:
    """Which has the highest or lowest number."""
    return _ranked(a, "extreme", 0)


def second(a: Asker) -> Question:
    """Which has the second highest."""
    return _ranked(a, "second", 1)


def names(a: Asker) -> Question:
    """Which there are."""
    entity = a.entity(lambda each: each.names)
    view = a.view(entity, 2, MAX_ROWS)
    listed = [row[""] for row in view.rows(a.database)]
    select = a.select(view)
    words = f"Which {a.words(view)} are there? Give their names."
    return a.question(
        "names", words, "list", [(name,) for name in listed], [select], [select.text(select.value((), ""))],
        focus=a.named(entity.singular, listed),
    )  # fmt: skip


def by_category(a: Asker) -> Question:
    """A count or a sum for each value of a category, perhaps of what is referred to."""
    entity = a.entity()
    path = a.path(entity)
    holder = a.database.schema.entities[path[-1]] if path else entity
    category = a.pick(holder.of_kind("cat"))
    view = a.view(entity, 6, but=[] if path else [category.noun], bare=0.2)
    attribute = a.rng.choice([None, *entity.of_kind("num", "money")])
    if any(category.noun == each.noun and path == each.path for each in view.conditions):
        raise Unsuitable
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in view.rows(a.database):
        groups[followed(a.database, row, path)[category.noun]].append(row)
    if len(groups) < 2:
        raise Unsuitable
    select = a.select(view)
    label = select.value(path, category.noun)
    if attribute is None:
        answer = [(name, Fraction(len(rows))) for name, rows in groups.items()]
        what, measure = "count(*)", f"the number of {a.words(view)}"
    else:
        values = {name: numbers(rows, attribute) for name, rows in groups.items()}
        if not all(values.values()):
            raise Unsuitable
        answer = [(name, shown_number(attribute, sum(each))) for name, each in values.items()]
        what = f"sum({select.value((), attribute.noun)})"
        measure = f"the total {attribute.noun} of the {a.words(view)}{in_unit(attribute)}"
    owner = f" of the {holder.plural}" if path else ""
    words = f"For each {category.noun}{owner}, give {measure}. Leave out any {category.noun} without {entity.plural}."
    a.plan.append(f"by {'/'.join(path)}.{category.noun} {attribute.kind if attribute else 'count'}")
    return a.question(
        "by_category", words, "table", answer, [select], [select.text(f"{label}, {what}", "GROUP BY 1")],
        columns=(category.noun, "number"), focus=view,
    )  # fmt: skip


def _per_parent(a: Asker, child: Entity, parent: Entity, view: View) -> tuple[list[tuple[Any, str]], str, str]:
    """For each parent with such children (measure, name), what is measured in words, and the SQL with ``{}`` for it."""
    rows = a.database.rows[parent.singular]
    attribute = a.rng.choice([None, *child.of_kind("num", "money")])
    a.plan.append(f"per {parent.singular} {attribute.kind if attribute else 'count'}")
    measures: dict[int, int] = Counter()
    for row in view.rows(a.database):
        if attribute is None or row[attribute.noun] is not None:
            measures[row[parent.singular]] += 1 if attribute is None else row[attribute.noun]
    ranked = sorted(
        ((shown_number(attribute, value), rows[index][""]) for index, value in measures.items()), reverse=True
    )
    if attribute is None:
        return ranked, f"the most {a.words(view)}", ""
    return ranked, f"the highest total {attribute.noun} of {a.words(view)}", attribute.noun


def top(a: Asker) -> Question:
    """Which have the most, in order."""
    child, parent = a.family()
    view = a.view(child, 10, bare=0.3, apart=parent.singular)
    ranked, measure, noun = _per_parent(a, child, parent, view)
    k = a.rng.randint(2, 4)
    unique(ranked, k)
    select = a.select(view)
    name = select.value((parent.singular,), "")
    what = f"sum({select.value((), noun)})" if noun else "count(*)"
    query = select.text(name, f"GROUP BY {select.at((parent.singular,))[1]}.id ORDER BY {what} DESC LIMIT {k}")
    number = ("two", "three", "four")[k - 2]
    words = f"Which {number} {parent.plural} have {measure}? Name them, the highest first."
    listed = [name for _, name in ranked[:k]]
    return a.question(
        "top", words, "list", [(name,) for name in listed], [select], [query], ordered=True,
        focus=a.named(parent.singular, listed),
    )  # fmt: skip


def at_least(a: Asker) -> Question:
    """How many have so many."""
    child, parent = a.family()
    view = a.view(child, 10, bare=0.3, apart=parent.singular)
    counts = Counter(row[parent.singular] for row in view.rows(a.database))
    least = a.rng.randint(2, max(2, max(counts.values()) - 1))
    reached = sum(count >= least for count in counts.values())
    if not 2 <= reached < len(a.database.rows[parent.singular]):
        raise Unsuitable
    select = a.select(view)
    inner = select.text(f"{select.parent(parent.singular)} AS i", f"GROUP BY i HAVING count(*) >= {least}")
    number = ("two", "three", "four", "five", "six", "seven", "eight", "nine")[least - 2] if least < 10 else least
    words = f"How many {parent.plural} have at least {number} {a.words(view)}?"
    return a.question(
        "at_least", words, "number", [(Fraction(reached),)], [select], [f"SELECT count(*) FROM ({inner})"]
    )


# comparisons, and what is missing


def without(a: Asker) -> Question:
    """Which have none."""
    child, parent = a.family()
    view = a.view(child, 4, apart=parent.singular)
    having = {row[parent.singular] for row in view.rows(a.database)}
    owners = a.view(parent, 3, bare=0.6)
    rows = a.database.rows[parent.singular]
    listed = [rows[index][""] for index in owners.indices(a.database) if index not in having]
    outer, inner = a.select(owners), a.select(view, "mnopqrst")
    outer.require(f"{outer.base}.id NOT IN ({inner.text(inner.parent(parent.singular))})")
    words = f"Which {a.words(owners)} have no {a.words(view)}? Give their names."
    return a.question(
        "without", words, "list", [(name,) for name in listed], [outer, inner], [outer.text(outer.value((), ""))],
        focus=a.named(parent.singular, listed),
    )  # fmt: skip


def share(a: Asker) -> Question:
    """What percentage is of some kind."""
    entity = a.entity()
    view = a.view(entity, 8, bare=0.2)
    extra = a.condition(entity, (), [each.noun for each in view.conditions if not each.path])
    inside = View(entity.singular, (*view.conditions, extra))
    whole, part = len(view.indices(a.database)), len(inside.indices(a.database))
    if not 0 < part < whole:
        raise Unsuitable
    a.note(inside)
    select = a.select(view)
    query = select.text(f"100.0 * sum(CASE WHEN {select.condition(extra)} THEN 1 ELSE 0 END) / count(*)")
    words = f"Of the {a.words(view)}, what percentage are {entity.plural} {extra.words}?"
    return a.question(
        "share",
        words,
        "number",
        [(Fraction(100 * part, whole),)],
        [select],
        [query],
        focus=inside,
        called=a.the(inside),
    )


def _dated(entity: Entity) -> list[Attribute]:
    """The days of the last years: those that are not of long ago."""
    return [each for each in entity.of_kind("date") if not each.noun.startswith(LONG_AGO)]


def busiest_month(a: Asker) -> Question:
    """The month of a year with the most."""
    entity = a.entity(lambda each: not each.names and _dated(each))
    day = a.pick(_dated(entity))
    year = a.year(day, a.rng.randint(2022, 2024))
    others = [a.condition(entity, (), [day.noun], plain=True)] if a.rng.random() < 0.4 else []
    view = View(entity.singular, (*others, year))
    a.note(view)
    months = Counter(row[day.noun][:7] for row in view.rows(a.database))
    ranked = sorted(((number, month) for month, number in months.items()), reverse=True)
    unique(ranked)
    select = a.select(view)
    query = select.text(f"substr({select.value((), day.noun)}, 1, 7)", "GROUP BY 1 ORDER BY count(*) DESC LIMIT 1")
    words = f"Count the {a.words(view)} by month. Which month has the most of them? Answer in the form 2020-04."
    month = Condition((), day.noun, "within", (f"{ranked[0][1]}-01", f"{ranked[0][1]}-31"), "")
    return a.question(
        "busiest_month", words, "text", [(ranked[0][1],)], [select], [query],
        focus=View(entity.singular, (*others, month)), called=f"the {entity.plural} of that month among these",
    )  # fmt: skip


def difference(a: Asker) -> Question:
    """How much more there is in one year than in another."""
    entity = a.entity(lambda each: _dated(each))
    day = a.pick(_dated(entity))
    attribute = a.rng.choice([None, *entity.of_kind("num", "money")])
    later = a.rng.randint(2023, 2024)
    but = [day.noun, *([attribute.noun] if attribute else [])]
    others = [a.condition(entity, (), but, plain=True)] if a.rng.random() < 0.6 else []
    values, queries, selects, phrases = [], [], [], []
    for year in (later, later - 1):
        view = View(entity.singular, (*others, a.year(day, year)))
        rows = view.rows(a.database)
        if len(rows) < 3:
            raise Unsuitable
        values.append(shown_number(attribute, sum(numbers(rows, attribute)) if attribute else len(rows)))
        selects.append(a.select(view))
        what = f"sum({selects[-1].value((), attribute.noun)})" if attribute else "count(*)"
        queries.append(selects[-1].text(what))
        phrases.append(a.words(view))
    a.note(view)
    a.plan.append(attribute.kind if attribute else "count")
    if attribute is None:
        words = f"How many more {phrases[0]} than {phrases[1]} are there?"
    else:
        words = f"By how much does the total {attribute.noun} of the {phrases[0]} exceed that of the {phrases[1]}{in_unit(attribute)}?"
    words += " If it is less, answer with a negative number."
    return a.question(
        "difference", words, "number", [(values[0] - values[1],)], selects, queries, focus=view, called=a.the(view)
    )


def highest_group(a: Asker) -> Question:
    """For which value of a category an average is highest."""
    entity = a.entity(lambda each: each.of_kind("num", "money") and each.of_kind("cat"))
    attribute, category = a.measured(entity), a.pick(entity.of_kind("cat"))
    view = a.view(entity, 8, but=[attribute.noun, category.noun], bare=0.3)
    groups: dict[str, list[int]] = defaultdict(list)
    for row in view.rows(a.database):
        if row[attribute.noun] is not None:
            groups[row[category.noun]].append(row[attribute.noun])
    ranked = sorted(((Fraction(sum(each), len(each)), name) for name, each in groups.items()), reverse=True)
    unique(ranked)
    select = a.select(view)
    label, value = select.value((), category.noun), select.value((), attribute.noun)
    query = select.text(label, f"GROUP BY 1 ORDER BY avg({value}) DESC LIMIT 1")
    words = f"For which {category.noun} is the average {attribute.noun} of the {a.words(view)} highest?"
    best = Condition((), category.noun, "is", ranked[0][1], "")
    return a.question(
        "highest_group", words, "text", [(ranked[0][1],)], [select], [query],
        focus=View(entity.singular, (*view.conditions, best)), called=f"the {entity.plural} of that {category.noun} among these",
    )  # fmt: skip


# more than one step


def above_average(a: Asker) -> Question:
    """How many lie above the average of all of them."""
    entity = a.entity(lambda each: each.of_kind("num", "money"))
    attribute = a.measured(entity)
    view = a.view(entity, 6, but=[attribute.noun], bare=0.1)
    values = numbers(view.rows(a.database), attribute)
    if len(values) < 3:
        raise Unsuitable
    mean = Fraction(sum(values), len(values))
    if min(abs(value - mean) for value in values) < Fraction(1, 100):
        raise Unsuitable
    first, then = a.select(view), a.select(view)
    value = then.value((), attribute.noun)
    then.require(f"{value} > {float(shown_number(attribute, mean)):.12g}")
    queries = [first.text(f"avg({first.value((), attribute.noun)})"), then.text("count(*)")]
    words = f"How many of the {a.words(view)} have {with_article(attribute.noun)} above the average of all of these?"
    above = Fraction(sum(value > mean for value in values))
    return a.question(
        "above_average", words, "number", [(above,)], [first, then], queries, focus=view, called=a.the(view)
    )


def best_of_each(a: Asker) -> Question:
    """The parent with the most in each category of parents."""
    child, parent = a.family(lambda child, parent: parent.of_kind("cat"))
    category = a.pick(parent.of_kind("cat"))
    view = a.view(child, 12, bare=0.5, apart=parent.singular)
    ranked, measure, noun = _per_parent(a, child, parent, view)
    kinds = {row[""]: row[category.noun] for row in a.database.rows[parent.singular]}
    best: dict[str, list[tuple[Any, str]]] = defaultdict(list)
    for value, name in ranked:
        best[kinds[name]].append((value, name))
    for each in best.values():
        if len(each) > 1:
            unique(each)
    select = a.select(view)
    label, name = select.value((parent.singular,), category.noun), select.value((parent.singular,), "")
    what = f"sum({select.value((), noun)})" if noun else "count(*)"
    rank = f"rank() OVER (PARTITION BY {label} ORDER BY {what} DESC)"
    alias = select.at((parent.singular,))[1]
    inner = select.text(f"{label} AS x, {name} AS y, {what} AS z, {rank} AS r", f"GROUP BY {alias}.id")
    words = (
        f"For each {category.noun} of the {parent.plural}, which {parent.singular} has {measure}? Give the "
        f"{category.noun}, the name and the number. Leave out any {category.noun} without {child.plural}{' of this kind' * bool(view.conditions)}."
    )
    answer = [(kind, each[0][1], each[0][0]) for kind, each in best.items()]
    return a.question(
        "best_of_each", words, "table", answer, [select], [f"SELECT x, y, z FROM ({inner}) WHERE r = 1"],
        columns=(category.noun, "name", "number"), focus=a.named(parent.singular, [row[1] for row in answer]),
        called=f"the {parent.plural} of your table",
    )  # fmt: skip


def latest(a: Asker) -> Question:
    """How many of the latest of each parent are of some kind."""
    child, parent = a.family(lambda child, parent: len(child.of_kind("date")) == 1 and not child.names)
    (day,) = child.of_kind("date")
    view = a.view(child, 12, but=[day.noun], bare=0.5, apart=parent.singular)
    extra = a.condition(child, (), [day.noun, *(each.noun for each in view.conditions if not each.path)])
    last: dict[int, Row] = {}
    for row in view.rows(a.database):
        before = last.get(row[parent.singular])
        if before is not None and before[day.noun] == row[day.noun]:
            raise Unsuitable
        if before is None or before[day.noun] < row[day.noun]:
            last[row[parent.singular]] = row
    inside = {id(row) for row in View(child.singular, (extra,)).rows(a.database)}
    hits = sum(id(row) in inside for row in last.values())
    if not 0 < hits < len(last):
        raise Unsuitable
    a.note(View(child.singular, (extra,)))
    select = a.select(view)
    flag = f"CASE WHEN {select.condition(extra)} THEN 1 ELSE 0 END"
    rank = f"rank() OVER (PARTITION BY {select.parent(parent.singular)} ORDER BY {select.value((), day.noun)} DESC)"
    query = f"SELECT sum(f) FROM ({select.text(f'{flag} AS f, {rank} AS r')}) WHERE r = 1"
    words = (
        f"Take the {a.words(view)}, and of each {parent.singular} only the latest by {day.noun}. How many of these "
        f"are {child.plural} {extra.words}?"
    )
    return a.question("latest", words, "number", [(Fraction(hits),)], [select], [query], focus=view, called=a.the(view))


def lost(a: Asker) -> Question:
    """Which have some in one year and none in the next."""
    child, parent = a.family(lambda child, parent: _dated(child))
    day = a.pick(_dated(child))
    before = a.rng.randint(2022, 2023)
    others = [a.condition(child, (), [day.noun], plain=True)] if a.rng.random() < 0.5 else []
    views = [View(child.singular, (*others, a.year(day, year))) for year in (before, before + 1)]
    a.note(views[0])
    first, then = ({row[parent.singular] for row in view.rows(a.database)} for view in views)
    rows = a.database.rows[parent.singular]
    listed = [rows[index][""] for index in sorted(first - then)]
    if not then:
        raise Unsuitable
    selects = [a.select(view) for view in views]
    query = " EXCEPT ".join(select.text(select.value((parent.singular,), "")) for select in selects)
    words = f"Which {parent.plural} have {a.words(views[0])} but no {a.words(views[1])}? Give their names."
    return a.question(
        "lost", words, "list", [(name,) for name in listed], selects, [query], focus=a.named(parent.singular, listed)
    )


def median(a: Asker) -> Question:
    """The middle value of an odd number."""
    entity = a.entity(lambda each: each.of_kind("num", "money"))
    attribute = a.measured(entity)
    view = a.view(entity, 7, but=[attribute.noun])
    values = sorted(numbers(view.rows(a.database), attribute))
    if len(values) % 2 == 0:
        raise Unsuitable
    middle = len(values) // 2
    first, then = a.select(view), a.select(view)
    value = then.value((), attribute.noun)
    then.require(f"{value} IS NOT NULL")
    queries = [
        first.text(f"count({first.value((), attribute.noun)})"),
        then.text(value, f"ORDER BY 1 LIMIT 1 OFFSET {middle}"),
    ]
    words = f"What is the median {attribute.noun} of the {a.words(view)}{in_unit(attribute)}?"
    return a.question(
        "median", words, "number", [(shown_number(attribute, values[middle]),)], [first, then], queries, focus=view
    )


# about the rows of the question before


def _these(a: Asker) -> tuple[View, Entity, str]:
    """The rows of the question before, their entity, and how they are called now."""
    if a.asked is None or a.asked.focus is None:
        raise Unsuitable
    view = a.asked.focus
    entity = a.database.schema.entities[view.entity]
    return view, entity, a.asked.called or f"these {entity.plural}"


def narrower(a: Asker) -> Question:
    """How many of these are also of some kind."""
    view, entity, these = _these(a)
    extra = a.condition(entity, (), [each.noun for each in view.conditions if not each.path])
    inside = View(view.entity, (*view.conditions, extra))
    before, after = len(view.indices(a.database)), len(inside.indices(a.database))
    if not 0 < after < before:
        raise Unsuitable
    a.note(inside)
    select = a.select(inside)
    words = f"And how many of {these} are {entity.plural} {extra.words}?"
    return a.question(
        "narrower", words, "number", [(Fraction(after),)], [select], [select.text("count(*)")], focus=inside
    )


def total_of_these(a: Asker) -> Question:
    """A sum over these."""
    view, entity, these = _these(a)
    attribute = a.measured(entity)
    values = numbers(view.rows(a.database), attribute)
    if len(values) < 2:
        raise Unsuitable
    a.note(view)
    select = a.select(view)
    words = f"And what is the total {attribute.noun} of {these}{in_unit(attribute)}?"
    answer = [(shown_number(attribute, sum(values)),)]
    query = select.text(f"sum({select.value((), attribute.noun)})")
    return a.question("total_of_these", words, "number", answer, [select], [query], focus=view)


def children_of_these(a: Asker) -> Question:
    """How many of something these have."""
    focus, parent, these = _these(a)
    entities = a.database.schema.entities
    child = a.pick(entities[name] for name in a.database.schema.own if focus.entity in entities[name].refs)
    extra = [a.condition(child, plain=True)] if a.rng.random() < 0.6 else []
    led = [each._replace(path=(focus.entity, *each.path)) for each in focus.conditions]
    view = View(child.singular, (*extra, *led))
    count = len(view.indices(a.database))
    if not count:
        raise Unsuitable
    a.note(view)
    select = a.select(view)
    words = f"How many {a.words(View(child.singular, tuple(extra)))} "
    words += f"does {these} have?" if these.startswith("that ") else f"do {these} have altogether?"
    return a.question(
        "children_of_these", words, "number", [(Fraction(count),)], [select], [select.text("count(*)")], focus=view
    )


def split_these(a: Asker) -> Question:
    """How many of these there are of each kind."""
    view, entity, these = _these(a)
    category = a.pick(entity.of_kind("cat"))
    counts = Counter(row[category.noun] for row in view.rows(a.database))
    if len(counts) < 2:
        raise Unsuitable
    a.note(view)
    select = a.select(view)
    query = select.text(f"{select.value((), category.noun)}, count(*)", "GROUP BY 1")
    words = f"Split {these} by {category.noun}: give each {category.noun} that occurs and how many there are of it."
    return a.question(
        "split_these", words, "table", [(name, Fraction(number)) for name, number in counts.items()], [select], [query],
        columns=(category.noun, "number"), focus=view,
    )  # fmt: skip


def average_of_these(a: Asker) -> Question:
    """An average over these."""
    view, entity, these = _these(a)
    attribute = a.measured(entity)
    values = numbers(view.rows(a.database), attribute)
    if len(values) < 2:
        raise Unsuitable
    a.note(view)
    select = a.select(view)
    words = f"And what is the average {attribute.noun} of {these}{in_unit(attribute)}?"
    answer = [(shown_number(attribute, Fraction(sum(values), len(values))),)]
    query = select.text(f"avg({select.value((), attribute.noun)})")
    return a.question("average_of_these", words, "number", answer, [select], [query], focus=view)
