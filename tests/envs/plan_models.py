"""Models of Planner's problems for OR-Tools' CP-SAT, written from the sentences of the rules: the least cost."""

from __future__ import annotations

import itertools
from typing import Any

HORIZON = 24 * 60 * 2


def least_cost(problem: Any) -> int:
    """The optimum, proven by CP-SAT.

    Raises:
        AssertionError: the solver did not prove one.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    model.minimize(MODELS[type(problem).__name__](model, problem))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


def _delivery(model: Any, problem: Any) -> Any:
    """A circuit through the depot, with an arrival, a beginning of unloading and a position of each stop."""
    names, depot = problem.names, len(problem.names)
    arc = {(a, b): model.new_bool_var("") for a, b in itertools.permutations(range(depot + 1), 2)}
    model.add_circuit([(a, b, used) for (a, b), used in arc.items()])
    arrival, begin = ([model.new_int_var(0, HORIZON, "") for _ in names] for _ in range(2))
    position = [model.new_int_var(1, depot, "") for _ in names]
    back = model.new_int_var(0, HORIZON, "")
    for (a, b), used in arc.items():
        leaves = problem.first if a == depot else begin[a] + problem.minutes[a]
        model.add((back if b == depot else arrival[b]) == leaves + problem.between[a][b]).only_enforce_if(used)
        if b != depot:
            model.add(position[b] == (1 if a == depot else position[a] + 1)).only_enforce_if(used)
    ready = list(arrival)
    for kind, values, _ in problem.rules:
        if kind == "opens":
            at = names.index(values[0])
            ready[at] = model.new_int_var(0, HORIZON, "")
            model.add_max_equality(ready[at], [arrival[at], values[1]])
    pauses = [values for kind, values, _ in problem.rules if kind == "pause"]
    for at in range(depot):
        if not pauses:
            model.add(begin[at] == ready[at])
        for start, end in pauses:
            early, late = model.new_bool_var(""), model.new_bool_var("")
            model.add(ready[at] < start).only_enforce_if(early)
            model.add(ready[at] >= end).only_enforce_if(late)
            model.add(ready[at] >= start).only_enforce_if([early.negated(), late.negated()])
            model.add(ready[at] < end).only_enforce_if([early.negated(), late.negated()])
            model.add(begin[at] == ready[at]).only_enforce_if(early)
            model.add(begin[at] == ready[at]).only_enforce_if(late)
            model.add(begin[at] == end).only_enforce_if([early.negated(), late.negated()])
    for kind, values, _ in problem.rules:
        a, *rest = (names.index(value) if value in names else value for value in values)
        match kind:
            case "closes":
                model.add(begin[a] <= rest[0])
            case "before":
                model.add(position[a] < position[rest[0]])
            case "not_next":
                model.add(arc[a, rest[0]] + arc[rest[0], a] == 0)
            case "early":
                model.add(position[a] <= rest[0])
            case "straight":
                model.add(arc[a, rest[0]] == 1)
            case "last":
                model.add(arc[a, depot] == 1)
    return back - problem.first


def _loading(model: Any, problem: Any) -> Any:
    """As many boxes as there are things, each of which may stay away."""
    names, boxes = problem.names, range(len(problem.names))
    inside = {(name, box): model.new_bool_var("") for name in names for box in boxes}
    large, used = ([model.new_bool_var("") for _ in boxes] for _ in range(2))
    weight, sort = (dict(zip(names, each, strict=True)) for each in (problem.weights, problem.sorts))
    for name in names:
        model.add_exactly_one(inside[name, box] for box in boxes)
    for box in boxes:
        model.add_implication(large[box], used[box])
        held = sum(weight[name] * inside[name, box] for name in names)
        small_limit, large_limit = problem.limits["small"], problem.limits["large"]
        model.add(held <= small_limit * used[box] + (large_limit - small_limit) * large[box])
        for kind, values, _ in problem.rules:
            a, *rest = values
            match kind:
                case "apart":
                    model.add(inside[a, box] + inside[rest[0], box] <= 1)
                case "together":
                    model.add(inside[a, box] == inside[rest[0], box])
                case "few":
                    model.add(sum(inside[name, box] for name in names if sort[name] == a) <= rest[0])
                case "count":
                    model.add(sum(inside[name, box] for name in names) <= a)
                case "only":
                    model.add(large[box] == (rest[0] == "large")).only_enforce_if(inside[a, box])
                case "alone":
                    model.add(sum(inside[name, box] for name in names) == 1).only_enforce_if(inside[a, box])
                case "unmixed":
                    for one, other in itertools.product(names, names):
                        if (sort[one], sort[other]) == (a, rest[0]):
                            model.add(inside[one, box] + inside[other, box] <= 1)
    for (most,) in (values for kind, values, _ in problem.rules if kind == "stock"):
        model.add(sum(large) <= most)
    extra = problem.prices["large"] - problem.prices["small"]
    return sum(problem.prices["small"] * each for each in used) + extra * sum(large)


def _rota(model: Any, problem: Any) -> Any:
    names, shifts = problem.names, range(len(problem.shifts))
    works = {(name, shift): model.new_bool_var("") for name in names for shift in shifts}
    for shift in shifts:
        model.add_exactly_one(works[name, shift] for name in names)
    total = {name: sum(works[name, shift] for shift in shifts) for name in names}
    halves = {day: [at for at in shifts if problem.shifts[at].startswith(day)] for day in problem.days}
    for kind, values, _ in problem.rules:
        a, *rest = (*values, None)
        match kind:
            case "most":
                model.add(total[a] <= rest[0])
            case "least":
                model.add(total[a] >= rest[0])
            case "rest":
                for name, shift in itertools.product(names, list(shifts)[1:]):
                    model.add(works[name, shift - 1] + works[name, shift] <= 1)
            case "away":
                model.add(sum(works[a, shift] for shift in halves[rest[0]]) == 0)
            case "skilled":
                model.add(sum(works[n, at] for n in names if n not in problem.skilled for at in halves[a]) == 0)
            case "never_both":
                for first, second in halves.values():
                    model.add(works[a, first] + works[rest[0], second] <= 1)
                    model.add(works[rest[0], first] + works[a, second] <= 1)
            case "guided":
                for first, second in halves.values():
                    model.add(works[rest[0], second] >= works[a, first])
                    model.add(works[rest[0], first] >= works[a, second])
            case "fair":
                for one, other in itertools.permutations(names, 2):
                    model.add(total[one] - total[other] <= a)
    return sum(problem.wages[at][person] * works[name, at] for at in shifts for person, name in enumerate(names))


def _stock(model: Any, problem: Any) -> Any:
    days, bound = range(len(problem.days)), sum(problem.demand) + 60
    ordered, evening = ([model.new_int_var(0, bound, "") for _ in days] for _ in range(2))
    comes = [model.new_bool_var("") for _ in days]
    for day in days:
        before = evening[day - 1] if day else 0
        model.add(evening[day] == before + ordered[day] - problem.demand[day])
        model.add(ordered[day] <= bound * comes[day])
        model.add(ordered[day] >= comes[day])
    for kind, values, _ in problem.rules:
        a = values[0] if values else 0
        for day in days:
            match kind:
                case "store":
                    model.add(evening[day] <= a)
                case "lots":
                    model.add_modulo_equality(0, ordered[day], a)
                case "closed" if problem.days[day] == a:
                    model.add(ordered[day] == 0)
                case "minimum":
                    model.add(ordered[day] >= a * comes[day])
                case "apart" if day:
                    model.add(comes[day - 1] + comes[day] <= 1)
                case "maximum":
                    model.add(ordered[day] <= a)
        if kind == "orders":
            model.add(sum(comes) <= a)
        if kind == "reserve":
            model.add(evening[-1] >= a)
    goods = sum(price * count for price, count in zip(problem.prices, ordered, strict=True))
    return goods + problem.fee * sum(comes) + problem.keeping * sum(evening)


MODELS = {"Delivery": _delivery, "Loading": _loading, "Rota": _rota, "Stock": _stock}
