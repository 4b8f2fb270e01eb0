"""Questions: each template asks in words, answers from the clean rows, and says which queries a careful person runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction

from rlvr.envs.agentic.databases.asker import MAX_ROWS, Asker, DataQuestion, Unsuitable, in_unit, numbers, unique
from rlvr.envs.agentic.databases.domains import DataAttribute, DataEntity
from rlvr.envs.agentic.databases.rows import LONG_AGO, Row
from rlvr.envs.agentic.databases.views import RowCondition, Select, View, followed, shown_number
from rlvr.envs.tasks.wording import with_article

COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")

# one table or two


def count(a: Asker) -> DataQuestion:
    """How many there are."""
    view = a.view(a.entity())
    number = Fraction(len(a.rows(view)))
    return a.answer(f"How many {a.words(view)} are there?", number, a.select(view).text("count(*)"), focus=view)


def _has_number(entity: DataEntity) -> bool:
    return bool(entity.of_kind("num", "money"))


def _aggregate(a: Asker, words: str, function: str, of: Callable[[list[int]], Fraction | int]) -> DataQuestion:
    entity = a.entity(_has_number)
    attribute = a.measured(entity)
    view = a.view(entity, 3, but=[attribute.noun], bare=0.2)
    return _aggregated(a, view, attribute, words.format(noun=attribute.noun, view=a.words(view)), function, of)


def _aggregated(
    a: Asker, view: View, attribute: DataAttribute, words: str, function: str, of: Callable[[list[int]], Fraction | int]
) -> DataQuestion:
    values, select = numbers(a.rows(view), attribute), a.select(view)
    if len(values) < 2:
        raise Unsuitable
    query = select.text(function.format(select.value((), attribute.noun)))
    a.plan.append(attribute.kind)
    return a.answer(f"{words}{in_unit(attribute)}?", shown_number(attribute, of(values)), query, focus=view)


def _mean(values: list[int]) -> Fraction:
    return Fraction(sum(values), len(values))


def total(a: Asker) -> DataQuestion:
    """A sum."""
    return _aggregate(a, "What is the total {noun} of the {view}", "sum({})", sum)


def average(a: Asker) -> DataQuestion:
    """An average."""
    return _aggregate(a, "What is the average {noun} of the {view}", "avg({})", _mean)


def span(a: Asker) -> DataQuestion:
    """The highest less the lowest."""
    words = "What is the difference between the highest and the lowest {noun} of the {view}"
    return _aggregate(a, words, "max({0}) - min({0})", lambda values: max(values) - min(values))


def _ranked(a: Asker, position: int) -> DataQuestion:
    entity = a.entity(lambda each: each.names and _has_number(each))
    attribute = a.measured(entity)
    view = a.view(entity, 3, but=[attribute.noun], bare=0.3)
    highest = a.rng.random() < 0.5
    rows = [row for row in a.rows(view) if row[attribute.noun] is not None]
    ranked = sorted(((row[attribute.noun], row[""]) for row in rows), reverse=highest)
    unique(ranked, position + 1)
    name, select = ranked[position][1], a.select(view)
    value = select.value((), attribute.noun)
    select.require(f"{value} IS NOT NULL")
    tail = f"ORDER BY {value}{' DESC' if highest else ''} LIMIT 1{f' OFFSET {position}' if position else ''}"
    rank = f"{'second ' if position else ''}{'highest' if highest else 'lowest'}"
    words = f"Which of the {a.words(view)} has the {rank} {attribute.noun}?"
    focus, query = a.named(entity.singular, [name]), select.text(select.value((), ""), tail)
    return a.answer(words, name, query, focus=focus, called=f"that {entity.singular}")


def extreme(a: Asker) -> DataQuestion:
    """Which has the highest or lowest number."""
    return _ranked(a, 0)


def second(a: Asker) -> DataQuestion:
    """Which has the second highest."""
    return _ranked(a, 1)


def names(a: Asker) -> DataQuestion:
    """Which there are."""
    entity = a.entity(lambda each: each.names)
    view = a.view(entity, 2, MAX_ROWS)
    select = a.select(view)
    return _listed(
        a,
        f"Which {a.words(view)} are there?",
        entity,
        [row[""] for row in a.rows(view)],
        select.text(select.value((), "")),
    )


def _listed(a: Asker, words: str, entity: DataEntity, names: list[str], query: str) -> DataQuestion:
    return a.answer(f"{words} Give their names.", names, query, focus=a.named(entity.singular, names))


def by_category(a: Asker) -> DataQuestion:
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
    for row in a.rows(view):
        groups[followed(a.database, row, path)[category.noun]].append(row)
    measures = [(name, _measure(rows, attribute)) for name, rows in groups.items()]
    if len(groups) < 2 or (attribute and not all(numbers(rows, attribute) for rows in groups.values())):
        raise Unsuitable
    select = a.select(view)
    query = select.text(f"{select.value(path, category.noun)}, {_measure_sql(select, attribute)}", "GROUP BY 1")
    what = f"the total {attribute.noun} of the" if attribute else "the number of"
    words = (
        f"For each {category.noun}{f' of the {holder.plural}' if path else ''}, give {what} {a.words(view)}"
        f"{in_unit(attribute) if attribute else ''}. Leave out any {category.noun} without {entity.plural}."
    )
    a.plan.append(f"by {'/'.join(path)}.{category.noun} {attribute.kind if attribute else 'count'}")
    return a.answer(words, measures, query, columns=(category.noun, "number"), focus=view)


def _measure(rows: list[Row], attribute: DataAttribute | None) -> Fraction:
    """A sum, or how many there are."""
    return shown_number(attribute, sum(numbers(rows, attribute)) if attribute else len(rows))


def _measure_sql(select: Select, attribute: DataAttribute | None) -> str:
    return f"sum({select.value((), attribute.noun)})" if attribute else "count(*)"


def _per_parent(
    a: Asker, child: DataEntity, parent: DataEntity, view: View
) -> tuple[list[tuple[Fraction, str]], str, DataAttribute | None]:
    """For each parent with such children its measure and name, the highest first; and what is measured."""
    attribute = a.rng.choice([None, *child.of_kind("num", "money")])
    a.plan.append(f"per {parent.singular} {attribute.kind if attribute else 'count'}")
    groups: dict[int, list[Row]] = defaultdict(list)
    for row in a.rows(view):
        if attribute is None or row[attribute.noun] is not None:
            groups[row[parent.singular]].append(row)
    owners = a.database.rows[parent.singular]
    ranked = sorted(((_measure(rows, attribute), owners[index][""]) for index, rows in groups.items()), reverse=True)
    return ranked, f"the highest total {attribute.noun} of" if attribute else "the most", attribute


def top(a: Asker) -> DataQuestion:
    """Which have the most, in order."""
    child, parent = a.family()
    view = a.view(child, 10, bare=0.3, apart=parent.singular)
    ranked, measure, attribute = _per_parent(a, child, parent, view)
    k = a.rng.randint(2, 4)
    unique(ranked, k)
    select, listed = a.select(view), [name for _, name in ranked[:k]]
    name = select.value((parent.singular,), "")
    order = f"ORDER BY {_measure_sql(select, attribute)} DESC LIMIT {k}"
    query = select.text(name, f"GROUP BY {select.at((parent.singular,))[1]}.id {order}")
    words = f"Which {COUNTS[k - 2]} {parent.plural} have {measure} {a.words(view)}? Name them, the highest first."
    return a.answer(words, listed, query, ordered=True, focus=a.named(parent.singular, listed))


def at_least(a: Asker) -> DataQuestion:
    """How many have so many."""
    child, parent = a.family()
    view = a.view(child, 10, bare=0.3, apart=parent.singular)
    counts = Counter(row[parent.singular] for row in a.rows(view))
    least = a.rng.randint(2, min(9, max(2, max(counts.values()) - 1)))
    reached = sum(count >= least for count in counts.values())
    if not 2 <= reached < len(a.database.rows[parent.singular]):
        raise Unsuitable
    select = a.select(view)
    inner = select.text(f"{select.parent(parent.singular)} AS i", f"GROUP BY i HAVING count(*) >= {least}")
    words = f"How many {parent.plural} have at least {COUNTS[least - 2]} {a.words(view)}?"
    return a.answer(words, Fraction(reached), f"SELECT count(*) FROM ({inner})")


# comparisons, and what is missing


def without(a: Asker) -> DataQuestion:
    """Which have none."""
    child, parent = a.family()
    view, owners = a.view(child, 4, apart=parent.singular), a.view(parent, 3, bare=0.6)
    having = {row[parent.singular] for row in a.rows(view)}
    rows = a.database.rows[parent.singular]
    listed = [rows[index][""] for index in owners.indices(a.database) if index not in having]
    outer, inner = a.select(owners), a.select(view, "mnopqrst")
    outer.require(f"{outer.base}.id NOT IN ({inner.text(inner.parent(parent.singular))})")
    words = f"Which {a.words(owners)} have no {a.words(view)}?"
    return _listed(a, words, parent, listed, outer.text(outer.value((), "")))


def _narrowed(a: Asker, view: View, entity: DataEntity) -> tuple[RowCondition, View]:
    """A further condition on a view, and the view with it, which is neither empty nor all of it."""
    extra = a.condition(entity, [each.noun for each in view.conditions if not each.path])
    inside = View(view.entity, (*view.conditions, extra))
    if not 0 < len(inside.indices(a.database)) < len(view.indices(a.database)):
        raise Unsuitable
    a.note(inside)
    return extra, inside


def share(a: Asker) -> DataQuestion:
    """What percentage is of some kind."""
    entity = a.entity()
    view = a.view(entity, 8, bare=0.2)
    extra, inside = _narrowed(a, view, entity)
    percentage = Fraction(100 * len(a.rows(inside)), len(a.rows(view)))
    select = a.select(view)
    query = select.text(f"100.0 * sum(CASE WHEN {select.condition(extra)} THEN 1 ELSE 0 END) / count(*)")
    words = f"Of the {a.words(view)}, what percentage are {entity.plural} {extra.words}?"
    return a.answer(words, percentage, query, focus=inside, called=f"the {a.words(inside)}")


def _dated(entity: DataEntity) -> list[DataAttribute]:
    """The days of the last years: those that are not of long ago."""
    return [each for each in entity.of_kind("date") if not each.noun.startswith(LONG_AGO)]


def _plain(a: Asker, entity: DataEntity, but: list[DataAttribute | None]) -> list[RowCondition]:
    """At times a condition in a phrase, on none of these attributes."""
    return [a.condition(entity, [each.noun for each in but if each], plain=True)] if a.rng.random() < 0.5 else []


def busiest_month(a: Asker) -> DataQuestion:
    """The month of a year with the most."""
    entity = a.entity(lambda each: not each.names and _dated(each))
    day = a.pick(_dated(entity))
    others = _plain(a, entity, [day])
    view = View(entity.singular, (*others, a.year(day, a.rng.randint(2022, 2024))))
    a.note(view)
    months = Counter(row[day.noun][:7] for row in a.rows(view))
    ranked = sorted(((number, month) for month, number in months.items()), reverse=True)
    unique(ranked)
    month, select = ranked[0][1], a.select(view)
    query = select.text(f"substr({select.value((), day.noun)}, 1, 7)", "GROUP BY 1 ORDER BY count(*) DESC LIMIT 1")
    words = f"Count the {a.words(view)} by month. Which month has the most of them? Answer in the form 2020-04."
    best = RowCondition((), day.noun, "within", (f"{month}-01", f"{month}-31"), "")
    focus = View(entity.singular, (*others, best))
    return a.answer(words, month, query, focus=focus, called=f"the {entity.plural} of that month among these")


def difference(a: Asker) -> DataQuestion:
    """How much more there is in one year than in another."""
    entity = a.entity(lambda each: _dated(each))
    day, later = a.pick(_dated(entity)), a.rng.randint(2023, 2024)
    attribute = a.rng.choice([None, *entity.of_kind("num", "money")])
    others = _plain(a, entity, [day, attribute])
    views = [View(entity.singular, (*others, a.year(day, year))) for year in (later, later - 1)]
    if min(len(a.rows(view)) for view in views) < 3:
        raise Unsuitable
    a.note(views[0])
    a.plan.append(attribute.kind if attribute else "count")
    selects = [a.select(view) for view in views]
    queries = [select.text(_measure_sql(select, attribute)) for select in selects]
    value = _measure(a.rows(views[0]), attribute) - _measure(a.rows(views[1]), attribute)
    first, then = map(a.words, views)
    words = f"How many more {first} than {then} are there?"
    if attribute:
        words = (
            f"By how much does the total {attribute.noun} of the {first} exceed that of the {then}{in_unit(attribute)}?"
        )
    words += " If it is less, answer with a negative number."
    return a.answer(words, value, *queries, focus=views[1], called=f"the {then}")


def highest_group(a: Asker) -> DataQuestion:
    """For which value of a category an average is highest."""
    entity = a.entity(lambda each: _has_number(each) and each.of_kind("cat"))
    attribute, category = a.measured(entity), a.pick(entity.of_kind("cat"))
    view = a.view(entity, 8, but=[attribute.noun, category.noun], bare=0.3)
    groups: dict[str, list[int]] = defaultdict(list)
    for row in a.rows(view):
        groups[row[category.noun]] += numbers([row], attribute)
    ranked = sorted(((_mean(each), name) for name, each in groups.items() if each), reverse=True)
    unique(ranked)
    select = a.select(view)
    order = f"GROUP BY 1 ORDER BY avg({select.value((), attribute.noun)}) DESC LIMIT 1"
    query = select.text(select.value((), category.noun), order)
    words = f"For which {category.noun} is the average {attribute.noun} of the {a.words(view)} highest?"
    focus = View(entity.singular, (*view.conditions, RowCondition((), category.noun, "is", ranked[0][1], "")))
    called = f"the {entity.plural} of that {category.noun} among these"
    return a.answer(words, ranked[0][1], query, focus=focus, called=called)


# more than one step


def above_average(a: Asker) -> DataQuestion:
    """How many lie above the average of all of them."""
    entity = a.entity(_has_number)
    attribute = a.measured(entity)
    view = a.view(entity, 6, but=[attribute.noun], bare=0.1)
    values = numbers(a.rows(view), attribute)
    mean = _mean(values) if len(values) > 2 else Fraction(0)
    if min((abs(value - mean) for value in values), default=0) < Fraction(1, 100):
        raise Unsuitable
    first, then = a.select(view), a.select(view)
    then.require(f"{then.value((), attribute.noun)} > {float(shown_number(attribute, mean)):.12g}")
    queries = first.text(f"avg({first.value((), attribute.noun)})"), then.text("count(*)")
    words = f"How many of the {a.words(view)} have {with_article(attribute.noun)} above the average of all of these?"
    above = Fraction(sum(value > mean for value in values))
    return a.answer(words, above, *queries, focus=view, called=f"the {a.words(view)}")


def best_of_each(a: Asker) -> DataQuestion:
    """The parent with the most in each category of parents."""
    child, parent = a.family(lambda child, parent: parent.of_kind("cat"))
    category = a.pick(parent.of_kind("cat"))
    view = a.view(child, 12, bare=0.5, apart=parent.singular)
    ranked, measure, attribute = _per_parent(a, child, parent, view)
    kinds = {row[""]: row[category.noun] for row in a.database.rows[parent.singular]}
    best: dict[str, list[tuple[Fraction, str]]] = defaultdict(list)
    for value, name in ranked:
        best[kinds[name]].append((value, name))
    for each in best.values():
        if len(each) > 1:
            unique(each)
    select, path = a.select(view), (parent.singular,)
    label, name, what = select.value(path, category.noun), select.value(path, ""), _measure_sql(select, attribute)
    rank = f"rank() OVER (PARTITION BY {label} ORDER BY {what} DESC)"
    inner = select.text(f"{label} AS x, {name} AS y, {what} AS z, {rank} AS r", f"GROUP BY {select.at(path)[1]}.id")
    words = (
        f"For each {category.noun} of the {parent.plural}, which {parent.singular} has {measure} {a.words(view)}? Give "
        f"the {category.noun}, the name and the number. Leave out any {category.noun} without {child.plural}"
        f"{' of this kind' if view.conditions else ''}."
    )
    answer = [(kind, each[0][1], each[0][0]) for kind, each in best.items()]
    focus, columns = a.named(parent.singular, [row[1] for row in answer]), (category.noun, "name", "number")
    query = f"SELECT x, y, z FROM ({inner}) WHERE r = 1"
    return a.answer(words, answer, query, columns=columns, focus=focus, called=f"the {parent.plural} of your table")


def latest(a: Asker) -> DataQuestion:
    """How many of the latest of each parent are of some kind."""
    child, parent = a.family(lambda child, parent: len(child.of_kind("date")) == 1 and not child.names)
    (day,) = child.of_kind("date")
    view = a.view(child, 12, but=[day.noun], bare=0.5, apart=parent.singular)
    extra = a.condition(child, [day.noun, *(each.noun for each in view.conditions if not each.path)])
    last: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(a.rows(view), key=lambda row: row[day.noun]):
        last[row[parent.singular]].append(row)
    if any(len(rows) > 1 and rows[-1][day.noun] == rows[-2][day.noun] for rows in last.values()):
        raise Unsuitable
    inside = {id(row) for row in a.rows(View(child.singular, (extra,)))}
    hits = sum(id(rows[-1]) in inside for rows in last.values())
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
    return a.answer(words, Fraction(hits), query, focus=view, called=f"the {a.words(view)}")


def lost(a: Asker) -> DataQuestion:
    """Which have some in one year and none in the next."""
    child, parent = a.family(lambda child, parent: _dated(child))
    day, before = a.pick(_dated(child)), a.rng.randint(2022, 2023)
    others = _plain(a, child, [day])
    views = [View(child.singular, (*others, a.year(day, year))) for year in (before, before + 1)]
    a.note(views[0])
    first, then = ({row[parent.singular] for row in a.rows(view)} for view in views)
    if not then:
        raise Unsuitable
    rows = a.database.rows[parent.singular]
    selects = [a.select(view) for view in views]
    query = " EXCEPT ".join(select.text(select.value((parent.singular,), "")) for select in selects)
    words = f"Which {parent.plural} have {a.words(views[0])} but no {a.words(views[1])}?"
    return _listed(a, words, parent, [rows[index][""] for index in sorted(first - then)], query)


def median(a: Asker) -> DataQuestion:
    """The middle value of an odd number."""
    entity = a.entity(_has_number)
    attribute = a.measured(entity)
    view = a.view(entity, 7, but=[attribute.noun])
    values = sorted(numbers(a.rows(view), attribute))
    if len(values) % 2 == 0:
        raise Unsuitable
    middle, first, then = len(values) // 2, a.select(view), a.select(view)
    value = then.value((), attribute.noun)
    then.require(f"{value} IS NOT NULL")
    count = first.text(f"count({first.value((), attribute.noun)})")
    words = f"What is the median {attribute.noun} of the {a.words(view)}{in_unit(attribute)}?"
    query = then.text(value, f"ORDER BY 1 LIMIT 1 OFFSET {middle}")
    return a.answer(words, shown_number(attribute, values[middle]), count, query, focus=view)


# about the rows of the question before


def _these(a: Asker) -> tuple[View, DataEntity, str]:
    """The rows of the question before, their entity, and how they are called now."""
    if a.asked is None or a.asked.focus is None:
        raise Unsuitable
    entity = a.database.schema.entities[a.asked.focus.entity]
    return a.asked.focus, entity, a.asked.called or f"these {entity.plural}"


def narrower(a: Asker) -> DataQuestion:
    """How many of these are also of some kind."""
    view, entity, these = _these(a)
    extra, inside = _narrowed(a, view, entity)
    words = f"And how many of {these} are {entity.plural} {extra.words}?"
    return a.answer(words, Fraction(len(a.rows(inside))), a.select(inside).text("count(*)"), focus=inside)


def total_of_these(a: Asker) -> DataQuestion:
    """A sum over these."""
    view, entity, these = _these(a)
    attribute = a.measured(entity)
    a.note(view)
    return _aggregated(a, view, attribute, f"And what is the total {attribute.noun} of {these}", "sum({})", sum)


def average_of_these(a: Asker) -> DataQuestion:
    """An average over these."""
    view, entity, these = _these(a)
    attribute = a.measured(entity)
    a.note(view)
    return _aggregated(a, view, attribute, f"And what is the average {attribute.noun} of {these}", "avg({})", _mean)


def children_of_these(a: Asker) -> DataQuestion:
    """How many of something these have."""
    focus, _, these = _these(a)
    entities = a.database.schema.entities
    child = a.pick(entities[name] for name in a.database.schema.own if focus.entity in entities[name].refs)
    extra = _plain(a, child, [])
    led = [each._replace(path=(focus.entity, *each.path)) for each in focus.conditions]
    view = View(child.singular, (*extra, *led))
    count = len(a.rows(view))
    if not count:
        raise Unsuitable
    a.note(view)
    do, end = ("does", "") if these.startswith("that ") else ("do", " altogether")
    words = f"How many {a.words(View(child.singular, tuple(extra)))} {do} {these} have{end}?"
    called = f"the {child.plural} that you counted"
    return a.answer(words, Fraction(count), a.select(view).text("count(*)"), focus=view, called=called)


def split_these(a: Asker) -> DataQuestion:
    """How many of these there are of each kind."""
    view, entity, these = _these(a)
    category = a.pick(entity.of_kind("cat"))
    counts = Counter(row[category.noun] for row in a.rows(view))
    if len(counts) < 2:
        raise Unsuitable
    a.note(view)
    select = a.select(view)
    query = select.text(f"{select.value((), category.noun)}, count(*)", "GROUP BY 1")
    words = f"Split {these} by {category.noun}: give each {category.noun} that occurs and how many there are of it."
    answer = [(name, Fraction(number)) for name, number in counts.items()]
    return a.answer(words, answer, query, columns=(category.noun, "number"), focus=view)
