"""The working of experts of this family, from the text of a question alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from operator import eq, ge, le
from typing import Any

from rlvr.envs.tasks.answers import listed
from rlvr.envs.tasks.deduction import Constraint, Value, deduction
from rlvr.envs.tasks.wording import counted, in_a_row

ORDINALS = ("first", "second", "third", "fourth", "fifth")


# knights and knaves

KINDS = ("knight", "knave", "spy")


def claim_check(claim: str) -> Callable[[dict[str, str]], bool]:
    """What tells whether a claim of an islander holds, given everybody's kind."""
    if match := re.fullmatch(r"(\w+) is a (knight|knave) (and|or) (.*)", claim):
        name, kind, joined, rest = match.groups()
        more = claim_check(rest)
        if joined == "and":
            return lambda kinds: kinds[name] == kind and more(kinds)
        return lambda kinds: kinds[name] == kind or more(kinds)
    if match := re.fullmatch(r"(\w+) is a (knight|knave)", claim):
        name, kind = match.groups()
        return lambda kinds: kinds[name] == kind
    if match := re.fullmatch(r"(\w+) and (\w+) are of (the same kind|different kinds)", claim):
        first, second, same = match[1], match[2], match[3] == "the same kind"
        return lambda kinds: (kinds[first] == kinds[second]) == same
    if match := re.fullmatch(r"(exactly|at least|at most) (\d+) of us (?:is a knight|are knights)", claim):
        compare, number = {"exactly": eq, "at least": ge, "at most": le}[match[1]], int(match[2])
        return lambda kinds: bool(compare(list(kinds.values()).count("knight"), number))
    raise ValueError(f"no claim of an islander: {claim}")


def islanders(text: str) -> str:
    """Who is what, by suppositions that contradict what is said."""
    names = re.findall(r"\w+", text.rpartition("What are ")[2].partition("?")[0])
    kinds = KINDS if "a spy" in text else KINDS[:2]
    statements: dict[str, list[str]] = {name: [] for name in names}
    for name, claim in re.findall(r'^(\w+): "(.*)\."$', text, re.M):
        statements[name].append(re.sub(r"^(?:Exactly|At least|At most)", lambda match: match[0].lower(), claim))
    constraints = [
        islander_constraint(name, claim, names, "" if len(claims) == 1 else ORDINALS[number] + " ")
        for name, claims in statements.items()
        for number, claim in enumerate(claims)
    ]
    if len(kinds) == 3:
        constraints.append(Constraint(tuple(names), lambda *k: k.count("spy") == 1, "there being one spy"))

    def say(name: str, left: frozenset[Value]) -> str:
        return f"{name} is " + " or ".join(f"a {kind}" for kind in kinds if kind in left)

    return "\n".join(deduction({name: frozenset(kinds) for name in names}, constraints, say))


def islander_constraint(name: str, claim: str, names: Sequence[str], which: str) -> Constraint:
    """What somebody's claim means: a knight's holds, a knave's does not, a spy's may be either."""
    others = names if "of us" in claim else [other for other in names if re.search(rf"\b{other}\b", claim)]
    scope = (name, *(other for other in others if other != name))

    check = claim_check(claim)

    @cache  # suppositions ask for the same kinds again and again
    def holds(*kinds: str) -> bool:
        return kinds[0] == "spy" or check(dict(zip(scope, kinds, strict=True))) == (kinds[0] == "knight")

    return Constraint(scope, holds, f"{name}'s {which}statement")


# propositional logic

Formula = Any  # a variable's name, ("not", formula), or (formula, operator, formula)
OPERATIONS: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "implies": lambda a, b: b or not a,
    "iff": lambda a, b: a == b,
}


def formula_in(text: str) -> Formula:
    """The formula that a text writes, each inner operation in brackets."""
    words = re.findall(r"[()]|\w+", text)

    def part() -> Formula:
        word = words.pop(0)
        if word == "not":
            return ("not", part())
        if word != "(":
            return word
        inner = whole()
        words.pop(0)
        return inner

    def whole() -> Formula:
        left = part()
        return (left, words.pop(0), part()) if words and words[0] in OPERATIONS else left

    return whole()


def formula_text(formula: Formula, inner: bool = False) -> str:
    """A formula as the question writes it; what is known of it as true or false."""
    if isinstance(formula, bool):
        return "true" if formula else "false"
    if isinstance(formula, str):
        return formula
    if formula[0] == "not":
        return f"not {formula_text(formula[1], True)}"
    text = f"{formula_text(formula[0], True)} {formula[1]} {formula_text(formula[2], True)}"
    return f"({text})" if inner else text


def simplified(formula: Formula, values: dict[str, bool]) -> Formula:
    """What is left of a formula when some variables are known: True, False or a formula of the others."""
    if isinstance(formula, bool):
        return formula
    if isinstance(formula, str):
        return values.get(formula, formula)
    if formula[0] == "not":
        return negated(simplified(formula[1], values))
    left, operator, right = simplified(formula[0], values), formula[1], simplified(formula[2], values)
    if isinstance(left, bool) and isinstance(right, bool):
        return OPERATIONS[operator](left, right)
    for side, other, swapped in ((left, right, False), (right, left, True)):
        if isinstance(side, bool):
            results = [OPERATIONS[operator](*((b, side) if swapped else (side, b))) for b in (False, True)]
            return results[0] if results[0] == results[1] else other if results[1] else negated(other)
    return (left, operator, right)


def negated(formula: Formula) -> Formula:
    if isinstance(formula, bool):
        return not formula
    return formula[1] if formula[0] == "not" else ("not", formula)


def variables_of(formula: Formula) -> list[str]:
    """The variables of a formula, in the order of the alphabet, each as often as it stands there."""
    if isinstance(formula, bool):
        return []
    if isinstance(formula, str):
        return [formula]
    parts = formula[1:] if formula[0] == "not" else formula[::2]
    return sorted(name for part in parts for name in variables_of(part))


def truth_count(text: str) -> str:
    """Cases for the variable that stands most often, until at most two variables are left."""
    formula = formula_in(text.partition("\n")[0])
    names = text.rpartition("ways to make ")[2].partition(" true or")[0].split(", ")
    lines: list[str] = []
    counts: list[int] = []

    def case(formula: Formula, assigned: dict[str, bool]) -> None:
        held = variables_of(formula)
        if len(set(held)) > 2:
            name = max(sorted(set(held)), key=held.count)
            for value in (True, False):
                case(simplified(formula, {name: value}), {**assigned, name: value})
            return
        kept, free = sorted(set(held)), len(names) - len(assigned) - len(set(held))
        ways = [dict(zip(kept, values, strict=True)) for values in product((True, False), repeat=len(kept))]
        true = sum(bool(simplified(formula, way)) for way in ways)
        counts.append(true << free)
        assignment = ", ".join(f"{name} {formula_text(value)}" for name, value in assigned.items())
        if formula is False:
            lines.append(f"{assignment}: false, so 0")
            return
        of = f", true in {true} of {len(ways)} cases" if kept else ""
        rest = [name for name in names if name not in assigned and name not in kept]
        more = f" and {in_a_row(rest)} free" if rest else ""
        lines.append(f"{assignment}: {formula_text(formula)}{of}{more}, so {counts[-1]}")

    case(formula, {})
    return "\n".join([*lines, f"{' + '.join(map(str, counts))} = {sum(counts)}"])


def entailment(text: str) -> str:
    """The cases that the premises leave, and for each statement one in which it is false, if there is one."""
    premises, _, statements = text.partition("\nStatements:\n")
    premises_read = [formula_in(line) for line in premises.split("\n")[1:]]
    names = sorted({name for formula in premises_read for name in variables_of(formula)})
    conclusions = re.findall(r"^(\d+)\. (.*)$", statements, re.M)
    every = sorted({*names, *(name for _, line in conclusions for name in variables_of(formula_in(line)))})
    cases = [dict(zip(every, values, strict=True)) for values in product((True, False), repeat=len(every))]
    steps = []
    for formula in premises_read:
        cases = [case for case in cases if simplified(formula, case)]
        steps.append(f"After {formula_text(formula)}, {counted(len(cases), 'case')} of {1 << len(every)} left.")

    def digits(case: dict[str, bool]) -> str:
        return "".join("01"[value] for value in case.values())

    steps.append(f"As values of {''.join(every)}, 1 for true: {listed(map(digits, cases))}.")
    for number, line in conclusions:
        wrong = next((case for case in cases if not simplified(formula_in(line), case)), None)
        verdict = "true in all of them, follows" if wrong is None else f"false in {digits(wrong)}, does not follow"
        steps.append(f"{number}. {line}: {verdict}.")
    return "\n".join(steps)


Clauses = list[list[str]]


def truth(literal: str, values: dict[str, bool]) -> bool | None:
    name = literal.removeprefix("not ")
    return None if name not in values else values[name] != literal.startswith("not ")


def propagated(clauses: Clauses, values: dict[str, bool]) -> tuple[list[str], list[str] | None]:
    """What clauses with one literal left force, put into ``values``, and the first clause that is false then."""
    lines = list[str]()
    changed = True
    while changed:
        changed = False
        for clause in clauses:
            if any(truth(literal, values) for literal in clause):
                continue
            left = [literal for literal in clause if truth(literal, values) is None]
            if not left:
                return lines, clause
            if len(left) == 1:
                values[left[0].removeprefix("not ")] = not left[0].startswith("not ")
                lines.append(f"{' or '.join(clause)}: only {left[0]} is left to make it true.")
                changed = True
    return lines, None


def searched(clauses: Clauses, values: dict[str, bool]) -> tuple[list[str], dict[str, bool] | None]:
    """The values that make all clauses true, and the search for them; each choice goes by the clauses alone."""
    lines, false = propagated(clauses, values)
    if false is not None:
        return [*lines, f"Then {' or '.join(false)} is false."], None
    still = [clause for clause in clauses if not any(truth(literal, values) for literal in clause)]
    if not still:
        return lines, values
    left = [literal for clause in still for literal in clause if truth(literal, values) is None]
    names = [literal.removeprefix("not ") for literal in left]
    name = max(dict.fromkeys(names), key=names.count)
    first = 2 * left.count(name) >= names.count(name)
    for value in (first, not first):
        lines.append(f"Suppose {name} = {int(value)}." if value == first else f"So {name} = {int(value)}.")
        more, solution = searched(clauses, {**values, name: value})
        lines += more
        if solution is not None:
            return lines, solution
    return [*lines, f"Neither value of {name} is possible here."], None


def satisfiability(text: str, answer: str) -> tuple[str, str]:
    """A search by suppositions where it takes at most 40 lines, and what it finds; else a check of the answer."""
    clauses = [line.split(" or ") for line in text.split("\n")[1:-1]]
    lines, values = searched(clauses, {})
    value = {f"x{number}": digit == "1" for number, digit in enumerate(answer, 1)}
    if values is not None and len(lines) <= 40:
        value = {name: values.get(name, False) for name in value}
        if rest := [name for name in value if name not in values]:
            lines.append(
                f"Now every line is true, whatever {in_a_row(rest)} {'is' if len(rest) == 1 else 'are'}: take 0."
            )
    else:
        lines = [f"Checked: {', '.join(f'{name} = {int(true)}' for name, true in value.items())}."]
    by = [next(literal for literal in clause if truth(literal, value)) for clause in clauses]
    lines.append(f"Every line is true, one after the other by {listed(by)}.")
    return "\n".join(lines), "".join(str(int(true)) for true in value.values())


def unsatisfiable_core(text: str, answer: str) -> str:
    """The search that fails on the lines of the answer, and what makes the others true without each of them."""
    written = dict(line.split(". ", 1) for line in text.split("\n")[1:-1])
    core = {number: written[number].split(" or ") for number in answer.split(", ")}
    lines = [f"Of the lines {in_a_row(core)} alone:", *searched([*core.values()], {})[0], "So none is left."]
    for number in core:
        _, values = searched([clause for other, clause in core.items() if other != number], {})
        shown = in_a_row(f"{name} = {int(true)}" for name, true in sorted((values or {}).items()))
        lines.append(f"Without line {number}: {shown}.")
    return "\n".join(lines)


# relations


def relatives(text: str) -> str:
    """Up to the ancestor that the relatives share with somebody, and down again generation by generation."""
    children: dict[str, list[str]] = {}
    for above, person in re.findall(r"(\w+) is a parent of (\w+)\.", text):
        children.setdefault(above, []).append(person)
    parent = {person: above for above, row in children.items() for person in row}
    asked, person = re.findall(r"Who are the ([\w -]+) of (\w+),", text)[0]
    up, down = {
        "grandchildren": (0, 2), "nieces and nephews": (1, 2), "first cousins": (2, 2), "great-grandchildren": (0, 3),
        "second cousins": (3, 3),
    }[asked]  # fmt: skip
    lines, via, top = [], person, person
    for _ in range(up):
        via, top = top, parent[top]
        lines.append(f"The parent of {via} is {top}.")
    row = [top]
    for depth in range(down):
        many = [above for above in row if above in children]
        row = [child for above in many for child in children[above] if child != via or depth]
        more = "other " if up and not depth else ""
        lines.append(f"The {more}children of {in_a_row(many)}: {listed(row)}.")
    return "\n".join(lines)


AWAY = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}


def directions(text: str) -> str:
    """Along the facts from one place to the other: where each place on the way lies, as km east and north."""
    near: dict[str, list[tuple[str, int, int]]] = {}
    for line in text.split("\n")[:-1]:
        words = re.findall(r"\w+", line)
        first, last = words[0], words[-1]
        east = north = 0
        for steps, way in re.findall(r"(\d+) km (\w+)", line):
            dx, dy = AWAY[way]
            east, north = east + int(steps) * dx, north + int(steps) * dy
        near.setdefault(last, []).append((first, east, north))
        near.setdefault(first, []).append((last, -east, -north))
    start, goal = re.findall(r"north of (\w+) does (\w+) lie", text)[0]
    came: dict[str, tuple[str, int, int]] = {start: ("", 0, 0)}
    waiting = [start]
    for old in waiting:
        for new, east, north in near[old]:
            if new not in came:
                came[new] = old, east, north
                waiting.append(new)
    way = [goal]
    while way[-1] != start:
        way.append(came[way[-1]][0])
    lines, x, y = [f"East and north of {start}, on the way to {goal}:"], 0, 0
    for new in way[-2::-1]:
        _, east, north = came[new]
        lines.append(f"{new}: {x} {signed(east)} = {x + east} and {y} {signed(north)} = {y + north}")
        x, y = x + east, y + north
    return "\n".join(lines)


def signed(number: int) -> str:
    """``+ 3`` or ``- 3``, as it stands in a sum."""
    return f"{'-' if number < 0 else '+'} {abs(number)}"


SET_SIGNS: dict[str, Callable[[set[int], set[int]], set[int]]] = {
    "∪": lambda a, b: a | b, "∩": lambda a, b: a & b, "\\": lambda a, b: a - b, "△": lambda a, b: a ^ b
}  # fmt: skip


def set_algebra(text: str) -> str:
    """Each operation in turn, the inner ones first."""
    sets = {
        name: {int(n) for n in members.split(", ")} for name, members in re.findall(r"^(\w) = \{(.*)\}$", text, re.M)
    }
    words = re.findall(r"[A-F()∪∩\\△]", text.rpartition("What is ")[2].partition("?")[0])
    lines: list[str] = []

    def part() -> tuple[str, set[int]]:
        word = words.pop(0)
        if word != "(":
            return word, sets[word]
        name, members = whole()
        words.pop(0)
        return f"({name})", members

    def whole() -> tuple[str, set[int]]:
        name, members = part()
        while words and words[0] in SET_SIGNS:
            sign = words.pop(0)
            other, more = part()
            name, members = f"{name} {sign} {other}", SET_SIGNS[sign](members, more)
            lines.append(f"{name} = {{{listed(sorted(members))}}}")
        return name, members

    whole()
    return "\n".join(lines)


def die(text: str) -> str:
    """What is on top, to the north and to the east after each roll."""
    top, north, east = map(int, re.findall(r"with (\d) on top, (\d) to the north and (\d) to the east", text)[0])
    lines = []
    for way in re.findall(r"a field at a time: ([a-z, ]+)\.", text)[0].split(", "):
        if way in ("north", "south"):
            top, north = (7 - north, top) if way == "north" else (north, 7 - top)
        else:
            top, east = (7 - east, top) if way == "east" else (east, 7 - top)
        lines.append(f"{way}: {top} on top, {north} north, {east} east")
    return "\n".join(lines)


# beliefs and orders


def false_beliefs(text: str) -> str:
    """For each belief, the last move of the thing that all whom it is about have seen."""
    inside = set(people := re.findall(r"[A-Z]\w+", text.partition(" are in a room")[0]))
    start = dict(re.findall(r"The (\w+) is in the (\w+)\.", text))
    moves_made: list[tuple[str, str, str, set[str]]] = []  # who moved what where, and who was there
    for name, left, thing, where in re.findall(
        r"(\w+) (?:(leaves) the room|comes back, and|moves the (\w+) from the \w+ to the (\w+))", text
    ):
        if left:
            inside.discard(name)
        elif thing:
            moves_made.append((name, thing, where, set(inside)))
        elif name in people:
            inside.add(name)
    lines = []
    for number, thing, thinker, other in re.findall(
        r"\((\d+)\) the (\w+), as (\w+) thinks(?: in (\w+)'s opinion)?", text
    ):
        who = [thinker] + [other] * bool(other)
        witnessed = [row for row in moves_made if row[1] == thing and row[3].issuperset(who)]
        if witnessed:
            name, _, where, _ = witnessed[-1]
            by = (
                f"the last move that {in_a_row(who)} {'both ' * bool(other)}saw was that {name} moved it to the {where}"
            )
        elif any(row[1] == thing for row in moves_made):
            by = f"{in_a_row(who)} saw no move of it{' together' * bool(other)}, only the start in the {start[thing]}"
        else:
            by = f"it was never moved from the {start[thing]}"
        lines.append(f"({number}) The {thing}: {by}.")
    return "\n".join(lines)


def offsets(text: str) -> str:
    """The places that clues with a side fix against each other, then each choice of sides for the other clues."""
    sided = [
        (b, a, int(n) * (1 if way == "right" else -1))
        for a, n, way, b in re.findall(r"^(\w+) is (\d+) places? to the (right|left) of (\w+)\.$", text, re.M)
    ]
    sided += [(a, b, 0) for a, b in re.findall(r"^(\w+) and (\w+) are in the same place\.$", text, re.M)]
    free = [(a, b, int(n)) for a, b, n in re.findall(r"^(\w+) and (\w+) are (\d+) places? apart\.$", text, re.M)]
    groups, size = row_groups(text)
    names = [name for group in groups for name in group]
    lines = [
        "Tied to each other: " + ", ".join(f"{name} at {at}" for name, at in block.items()) + "."
        for block in blocks(sided, names)
        if len(block) > 1
    ]

    def decide(clues: list[tuple[str, str, int]], tried: list[str]) -> bool:
        """Tries both sides for the next clue; whether everything fits in the end."""
        tied = blocks(clues, names)
        fault = next(filter(None, (clash(block, groups, size) for block in tied)), "")
        prefix = f"{'; '.join(tried)}: " if tried else ""
        if fault:
            lines.append(f"{prefix}{fault}.")
            return False
        if len(tried) == len(free):
            shown = [sorted(group, key=tied[0].__getitem__) for group in groups]
            fitting = "; ".join(", ".join(f"{name} {tied[0][name] + 1}" for name in group) for group in shown)
            lines.append(f"{prefix}everything fits: {fitting}.")
            return True
        a, b, by = free[len(tried)]
        return any(
            decide([*clues, (a, b, side * by)], [*tried, f"{b} to the {'right' if side > 0 else 'left'} of {a}"])
            for side in (1, -1)
        )

    decide(sided, [])
    return "\n".join(lines)


def row_groups(text: str) -> tuple[list[list[str]], int]:
    """The things that take different places, and how many places there are."""
    if "stand in a row, one to a place" in text:
        people = re.findall(r"[A-Z]\w+", text.partition(" stand in a row")[0])
        return [people], len(people)
    listing = text.partition("one of each of these:\n")[2].partition("\nIt is known")[0]
    groups = [line.split(", ") for line in listing.split("\n")]
    return groups, len(groups[0])


def blocks(clues: Sequence[tuple[str, str, int]], names: Sequence[str]) -> list[dict[str, int]]:
    """Things that clues tie to each other, with their places from the leftmost of them, which is at 0."""
    positions: list[dict[str, int]] = []
    for name in names:
        if any(name in block for block in positions):
            continue
        at, waiting = {name: 0}, [name]
        for old in waiting:
            for a, b, by in (*clues, *((b, a, -by) for a, b, by in clues)):
                if a == old and b not in at:
                    at[b] = at[old] + by
                    waiting.append(b)
        low = min(at.values())
        positions.append({name: slot - low for name, slot in sorted(at.items(), key=lambda item: (item[1], item[0]))})
    return positions


def clash(at: dict[str, int], groups: Sequence[Sequence[str]], size: int) -> str:
    """Why these places cannot be: two things of a group in one, or more places than there are; "" if they can."""
    first, last = min(at, key=at.__getitem__), max(at, key=at.__getitem__)
    if (apart := at[last] - at[first]) >= size:
        return f"{first} and {last} would be {apart} places apart, with {size} places in all"
    for group in groups:
        taken: dict[int, str] = {}
        for name in filter(at.__contains__, group):
            if at[name] in taken:
                return f"{taken[at[name]]} and {name} would share a place"
            taken[at[name]] = name
    return ""
