"""A second reading of the blocks of CodeTests: what each description says, computed in another way than by its code."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlvr.envs.agentic.programs.families import BLOCKS

Values = Mapping[str, Any]
Reading = Callable[[Any, Values], Any]
VOWELS = set("aeiou")

CONDITIONS: Mapping[str, Callable[[Any, Values], bool]] = {
    "high": lambda n, p: n - p["low"] > 0,
    "low": lambda n, p: p["high"] - n > 0,
    "multiple": lambda n, p: n in range(-900 * p["d"], 10**7, p["d"]),
    "indivisible": lambda n, p: n not in range(-900 * p["d"], 10**7, p["d"]),
    "middle": lambda n, p: n in range(p["bottom"], p["top"] + 1),
    "large": lambda n, p: max(n, -n) >= p["size"],
    "ending": lambda n, p: int(str(n)[-1]) >= p["digit"],
    "long": lambda w, p: not re.fullmatch(f".{{0,{p['least'] - 1}}}", w),
    "vowel": lambda w, p: bool(VOWELS & set(w[:1])),
    "holding": lambda w, p: w.count(p["letter"]) > 0,
    "early": lambda w, p: sorted([w, p["word"]])[0] == w != p["word"],
    "even": lambda w, p: not len(w) & 1,
}
MEASURES: Mapping[str, Reading] = {
    "scaled": lambda n, p: sum([n] * p["factor"]),
    "distance": lambda n, p: max(n - p["centre"], p["centre"] - n),
    "rest": lambda n, p: n - n // p["m"] * p["m"],
    "square": lambda n, p: abs(n) ** 2 + p["b"],
    "capped": lambda n, p: p["cap"] if n > p["cap"] else n,
    "mirrored": lambda n, p: -n + p["total"],
    "length": lambda w, p: len(list(w)),
    "vowels": lambda w, p: len(re.findall("[aeiou]", w)),
    "variety": lambda w, p: len(Counter(w)),
    "weight": lambda w, p: sum("abcdefghijklmnopqrstuvwxyz".index(c) + p["first"] for c in w),
    "backwards": lambda w, p: "".join(reversed(w)),
    "turned": lambda w, p: "".join([*list(w)[p["k"] :], *list(w)[: p["k"]]]),
    "echoed": lambda w, p: re.sub("(.)$", lambda match: match[1] * p["times"], w),
}


def _after(xs: list, holds: Callable[[Any], bool]) -> list:
    return [following for before, following in itertools.pairwise(xs) if holds(before)]


def _stretch(xs: list, holds: Callable[[Any], bool]) -> int:
    return max((len(list(run)) for true, run in itertools.groupby(xs, holds) if true), default=0)


def _cut(xs: list, holds: Callable[[Any], bool]) -> list:
    return [list(run) for true, run in itertools.groupby(xs, holds) if not true]


BY_CONDITION: Mapping[str, Callable[[list, Callable[[Any], bool]], Any]] = {
    "keep": lambda xs, holds: list(filter(holds, xs)),
    "until": lambda xs, holds: list(itertools.takewhile(lambda x: not holds(x), xs)),
    "after": _after,
    "sift": lambda xs, holds: sorted(xs, key=holds),
    "count": lambda xs, holds: [holds(x) for x in xs].count(True),
    "first": lambda xs, holds: [*map(holds, xs), True].index(True) if any(map(holds, xs)) else -1,
    "stretch": _stretch,
    "where": lambda xs, holds: list(itertools.compress(itertools.count(), map(holds, xs))),
    "cut": _cut,
}
BY_MEASURE: Mapping[str, Callable[[list, Callable[[Any], Any], Values], Any]] = {
    "map": lambda xs, f, p: list(map(f, xs)),
    "rewrite": lambda xs, f, p: list(map(f, xs)),
    "sort": lambda xs, f, p: [x for key in sorted(set(map(f, xs))) for x in xs if f(x) == key],
    "unique": lambda xs, f, p: [x for i, x in enumerate(xs) if f(x) not in map(f, xs[:i])],
    "total": lambda xs, f, p: functools.reduce(lambda total, x: total + f(x), xs, 0),
    "peak": lambda xs, f, p: sorted(map(f, xs))[-1] if xs else p["none"],
}


def _merge_equal(xs: list) -> list:
    built: deque[int] = deque()
    for x in xs:
        built.append(built.pop() + x if built and built[-1] == x else x)
    return list(built)


def _clash(xs: list, gap: int) -> list:
    if not xs:
        return []
    below = _clash(xs[:-1], gap)
    return [*reversed(list(itertools.dropwhile(lambda top: xs[-1] - top >= gap, reversed(below)))), xs[-1]]


def _cache(xs: list, size: int) -> list:
    gone, times = [], {}
    for time, x in enumerate(xs):
        if x not in times and len(times) == size:
            gone.append(min(times, key=times.__getitem__))
            del times[gone[-1]]
        times[x] = time
    return gone


def _walk(xs: list, p: Values) -> list:
    ends = [0]
    for x in xs:
        cell = (ends[-1] + x) % p["ring"]
        ends.append((cell + p["more"]) % p["ring"] if cell in ends else cell)
    return ends[1:]


def _climbs(xs: list) -> list:
    starts = [i for i in range(len(xs)) if i == 0 or xs[i] <= xs[i - 1]]
    return [xs[low:high] for low, high in zip(starts, [*starts[1:], len(xs)], strict=bool(xs))]


def _fill(xs: list, room: int) -> list:
    groups: list[list[int]] = []
    for x in xs:
        if groups and sum(map(abs, [*groups[-1], x])) <= room:
            groups[-1] = [*groups[-1], x]
        else:
            groups.append([x])
    return groups


def _best_stretch(xs: list, cost: int) -> int:
    return max([0, *(sum(xs[i:j]) - cost * (j - i) for i in range(len(xs)) for j in range(i + 1, len(xs) + 1))])


def _ladder(ws: list) -> list:
    return functools.reduce(lambda kept, w: kept if kept and w[0] in kept[-1] else [*kept, w], ws, [])


def _glue(ws: list, short: int) -> list:
    if len(ws) < 2:
        return list(ws)
    return _glue([ws[0] + ws[1], *ws[2:]], short) if len(ws[0]) <= short else [ws[0], *_glue(ws[1:], short)]


def _wrap(ws: list, width: int) -> list:
    lines: list[str] = []
    for w in ws:
        if lines and len(f"{lines[-1]} {w}") <= width:
            lines[-1] += f" {w}"
        else:
            lines.append(w)
    return list(map(len, lines))


def _squeeze(text: str) -> str:
    shorter = re.sub(r"(.)\1", "", text, count=1)
    return text if shorter == text else _squeeze(shorter)


def _by_name(pairs: list) -> dict:
    table: dict[str, list[int]] = {}
    for name, points in pairs:
        table[name] = [*table.get(name, []), points]
    return table


def _factors(n: int) -> list:
    smallest = next((d for d in range(2, n + 1) if n % d == 0), None)
    return [] if smallest is None else [smallest, *_factors(n // smallest)]


def _descend(n: int, p: Values, cap: int) -> list:
    if n < p["stop"] or cap == 1:
        return [n]
    return [n, *_descend(n // p["d"] if n % p["d"] == 0 else n * p["m"] + p["a"], p, cap - 1)]


def _powers(n: int, m: int) -> list:
    powers = [n**e % m for e in range(1, m + 2)]
    return powers[: next(i for i in range(len(powers)) if powers[i] in powers[:i])]


def _digits(n: int, base: int) -> list:
    return [] if n == 0 else [n % base, *_digits(n // base, base)]


def _around(r: int, c: int) -> list:
    return [(r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)]


def _cells(grid: list) -> dict:
    return {(r, c): n for r, row in enumerate(grid) for c, n in enumerate(row)}


def _spiral(grid: list) -> list:
    left, cell, turns = _cells(grid), (0, -1), itertools.cycle([(0, 1), (1, 0), (0, -1), (-1, 0)])
    order, (down, across) = [], next(turns)
    while left:
        ahead = (cell[0] + down, cell[1] + across)
        if ahead in left:
            order.append(left.pop(ahead))
            cell = ahead
        else:
            down, across = next(turns)
    return order


def _islands(grid: list, least: int) -> list:
    names = {cell: i for i, (cell, n) in enumerate(_cells(grid).items()) if n >= least}
    for _ in names:  # the smallest name of an island spreads over all of it
        names = {cell: min([name, *(names[o] for o in _around(*cell) if o in names)]) for cell, name in names.items()}
    return [size for _, size in sorted(Counter(names.values()).items())]


def _life(grid: list, p: Values) -> list:
    for _ in range(p["rounds"]):
        cells = _cells(grid)
        after = {}
        for (r, c), n in cells.items():
            square = itertools.product((r - 1, r, r + 1), (c - 1, c, c + 1))
            near = sum(cells.get(o, 0) >= p["alive"] for o in square if o != (r, c))
            survives, is_born = near in {p["low"], p["high"]}, near == p["birth"]
            after[r, c] = (n if survives else 0) if n >= p["alive"] else (p["alive"] if is_born else n)
        grid = [[after[r, c] for c in range(len(row))] for r, row in enumerate(grid)]
    return grid


def _ways(grid: list, wall: int) -> int:
    def ways(r: int, c: int) -> int:
        if r >= len(grid) or c >= len(grid[0]) or grid[r][c] >= wall:
            return 0
        return 1 if (r, c) == (len(grid) - 1, len(grid[0]) - 1) else ways(r + 1, c) + ways(r, c + 1)

    return ways(0, 0)


def _cheapest(grid: list, p: Values) -> int:
    cells = _cells(grid)
    costs = {cell: 0 if cell == (0, 0) else 10**6 for cell in cells}
    for _ in cells:  # Bellman and Ford
        for a in cells:
            for b in (o for o in _around(*a) if o in cells):
                toll = p["toll"] if cells[b] >= cells[a] + p["rise"] else 0
                costs[b] = min(costs[b], costs[a] + cells[b] + toll)
    return costs[max(cells)]


def _minutes_of(spans: list) -> list:
    return sorted({minute for start, end in spans for minute in range(start, end)})


def _merge_spans(spans: list, gap: int) -> list:
    for (i, a), (j, b) in itertools.combinations(enumerate(spans), 2):
        if max(a[0], b[0]) - min(a[1], b[1]) <= gap:
            joined = [min(a[0], b[0]), max(a[1], b[1])]
            return _merge_spans([joined, *(span for k, span in enumerate(spans) if k not in (i, j))], gap)
    return sorted(map(list, spans))


def _gaps(spans: list) -> list:
    """Of whole units of time, those that no span covers."""
    if not spans:
        return []
    covered, low, high = set(_minutes_of(spans)), min(spans)[0], max(end for _, end in spans)
    free = [(minute, minute + 1) for minute in range(low, high) if minute not in covered]
    return _merge_spans(free, 0)


def _agenda(spans: list, pause: int) -> list:
    taken: list[list[int]] = []
    for end, start in sorted((end, start) for start, end in spans):
        if all(start - other[1] >= pause for other in taken[-1:]):
            taken.append([start, end])
    return taken


def _rooms(spans: list, p: Values) -> list:
    uses: list[tuple[int, int]] = []  # a room and the end of a span in it
    given = []
    for start, end in sorted(spans):
        blocked = {room for room, last in uses if last + p["pause"] > start}
        room = next((room for room in range(1, p["rooms"] + 1) if room not in blocked), 0)
        given.append(room)
        uses += [(room, end)] if room else []
    return given


def _components(links: list) -> list:
    points = sorted({point for link in links for point in link})
    name = {point: point for point in points}
    for _ in points:
        for a, b in links:
            name[a] = name[b] = min(name[a], name[b])
    return [[point for point in points if name[point] == first] for first in sorted(set(name.values()))]


def _hops(links: list, start: int) -> list:
    layers = [{start}]
    for _ in range(8):
        layers.append({b for a, b in links if a in layers[-1]} - set().union(*layers))
    return [next((i for i, layer in enumerate(layers) if point in layer), -1) for point in range(8)]


def _order(links: list, taken: tuple[int, ...] = ()) -> list:
    points = {point for link in links for point in link} - set(taken)
    free = [point for point in points if all(a in taken for a, b in links if b == point)]
    return _order(links, (*taken, min(free))) if free else list(taken)


def _first_come(jobs: list, p: Values) -> list:
    done: list[int] = []
    for arrival, duration in jobs:
        rest = p["rest"] if done and len(done) % p["every"] == 0 else 0
        done.append(max(arrival, done[-1] + rest if done else 0) + duration)
    return done


def _shortest_first(jobs: list) -> list:
    left, clock, order = dict(enumerate(jobs)), 0, []
    while left:
        arrived = sorted((job[1], i) for i, job in left.items() if job[0] <= clock)
        if not arrived:
            clock += 1
            continue
        clock += arrived[0][0]
        order.append(arrived[0][1])
        del left[order[-1]]
    return order


def _round_robin(jobs: list, size: int) -> list:
    queue, clock, done = deque(duration for _, duration in jobs), 0, []
    while queue:
        for _ in range(size):
            queue[0] -= 1
            clock += 1
            if queue[0] == 0:
                done.append(clock)
                queue.popleft()
                break
        else:
            queue.rotate(-1)
    return done


def _balance(jobs: list, machines: int) -> list:
    work: list[tuple[int, int, tuple[int, ...]]] = [(0, i, ()) for i in range(machines)]
    for _, duration in jobs:
        total, i, durations = min(work)
        work[i] = (total + duration, i, (*durations, duration))
    return [list(durations) for _, _, durations in work if durations]


def _stack_of(marks: str) -> list:
    """The marks that count: (position, positions of the open ones before it, and after it)."""
    open_marks: tuple[int, ...] = ()
    counted = []
    for i, mark in enumerate(marks):
        if mark in "([":
            counted.append((i, open_marks, (*open_marks, i)))
        elif open_marks and marks[open_marks[-1]] == {")": "(", "]": "["}[mark]:
            counted.append((i, open_marks, open_marks[:-1]))
        else:
            continue
        open_marks = counted[-1][2]
    return counted


def _evaluate(text: str, p: Values) -> int:
    """By splitting at the operator that is applied last."""
    text = _unwrapped(text)
    if text.isdigit():
        return int(text) % p["m"]
    depths = list(itertools.accumulate((c == "(") - (c == ")") for c in text))
    marks = [i for i, c in enumerate(text) if c in "+-*" and depths[i] == 0]
    last = [i for i in marks if text[i] != p["tight"]] or marks
    left, right = _evaluate(text[: last[-1]], p), _evaluate(text[last[-1] + 1 :], p)
    return {"+": left + right, "-": left - right, "*": left * right}[text[last[-1]]] % p["m"]


def _unwrapped(text: str) -> str:
    while text[0] == "(":
        depths = list(itertools.accumulate((c == "(") - (c == ")") for c in text))
        if depths.index(0) < len(text) - 1:
            return text
        text = text[1:-1]
    return text


def _entries(text: str) -> list:
    matches = (re.fullmatch(r"([^=;]+)=(-?[0-9]+)", entry) for entry in text.split(";"))
    return [[match[1], int(match[2])] for match in matches if match]


def _stack_code(lines: list, m: int) -> list:
    stack: list[int] = []
    for line in lines:
        match [line.split(), stack]:
            case [["push", n], _]:
                stack = [*stack, int(n) % m]
            case [["dup"], [*_, top]]:
                stack = [*stack, top]
            case [["swap"], [*rest, below, top]]:
                stack = [*rest, top, below]
            case [["add"], [*rest, below, top]]:
                stack = [*rest, (below + top) % m]
            case [["mul"], [*rest, below, top]]:
                stack = [*rest, (below * top) % m]
    return stack


def _minute(time: str) -> int:
    hour, minute = time.split(":")
    return int(hour) * 60 + int(minute)


def _shifts(times: list, p: Values) -> list:
    lasting = [
        (_minute(end) - _minute(start) - 1) % 1440 + 1 for start, end in zip(times[::2], times[1::2], strict=False)
    ]
    return [minutes - p["rest"] * (minutes > p["long"]) for minutes in lasting]


def _paths(links: list, steps: int, point: int) -> int:
    return 1 if steps == 0 else sum(_paths(links, steps - 1, b) for a, b in links if a == point)


# fmt: off
PLAIN: Mapping[str, Reading] = {
    "steps": lambda xs, p: [b - a for a, b in itertools.pairwise(xs)],
    "running": lambda xs, p: list(itertools.accumulate(xs)),
    "records": lambda xs, p: [x for i, x in enumerate(xs) if all(x > y for y in xs[:i])],
    "every": lambda xs, p: xs[-p["base"] % p["k"]::p["k"]],
    "turn": lambda xs, p: [*xs[p["k"]:], *xs[:p["k"]]],
    "fold": lambda xs, p: [sum({i: xs[i], len(xs) - 1 - i: xs[-1 - i]}.values()) for i in range((len(xs) + 1) // 2)],
    "ranks": lambda xs, p: [sorted(set(xs)).index(x) for x in xs],
    "merge_equal": lambda xs, p: _merge_equal(xs),
    "clash": lambda xs, p: _clash(xs, p["gap"]),
    "next_greater": lambda xs, p: [next((j - i for j in range(i, len(xs)) if xs[j] > x), 0) for i, x in enumerate(xs)],
    "cache": lambda xs, p: _cache(xs, p["size"]),
    "walk": _walk,
    "pieces": lambda xs, p: [list(piece) for piece in itertools.batched(xs, p["size"])] if hasattr(itertools, "batched")
              else [xs[i:i + p["size"]] for i in range(0, len(xs), p["size"])],
    "windows": lambda xs, p: [list(w) for w in zip(*(xs[i:] for i in range(p["size"])), strict=False)],
    "climbs": lambda xs, p: _climbs(xs),
    "classes": lambda xs, p: [list(run) for _, run in
               itertools.groupby(sorted(xs, key=lambda x: x % p["m"]), lambda x: x % p["m"])],
    "fill": lambda xs, p: _fill(xs, p["room"]),
    "sum": lambda xs, p: functools.reduce(lambda a, b: a + b, xs, 0),
    "swing": lambda xs, p: sum(xs[::2]) - sum(xs[1::2]),
    "spread": lambda xs, p: sorted(xs)[-1] - sorted(xs)[0] if xs else -1,
    "hash": lambda xs, p: (p["start"] * p["base"] ** len(xs)
            + sum(x * p["base"] ** i for i, x in enumerate(reversed(xs)))) % p["m"] if xs else p["start"],
    "second": lambda xs, p: sorted(set(xs), reverse=True)[1] if len(set(xs)) > 1 else p["none"],
    "usual": lambda xs, p: Counter(sorted(xs)).most_common(1)[0][0] if xs else p["none"],
    "inversions": lambda xs, p: sum(a - b >= p["gap"] for a, b in itertools.combinations(xs, 2)),
    "best_stretch": lambda xs, p: _best_stretch(xs, p["cost"]),
    "fold_sum": lambda gs, p: list(map(sum, gs)),
    "fold_spread": lambda gs, p: [sorted(g)[-1] - sorted(g)[0] for g in gs],
    "fold_ends": lambda gs, p: [sum([g[0]] * p["a"]) - g[-1] for g in gs],
    "fold_crowd": lambda gs, p: [sorted(g)[0] * len(g) for g in gs],
    "flatten": lambda gs, p: list(itertools.chain.from_iterable(gs[::-1])),
    "weave": lambda gs, p: [x for row in itertools.zip_longest(*gs) for x in row if x is not None],
    "drop_small": lambda gs, p: [g for g in gs if not len(g) < p["least"]],
    "drop_light": lambda gs, p: [g for g in gs if not sum(g) < p["least"]],
    "sort_groups": lambda gs, p: [g for total in sorted(set(map(sum, gs)), reverse=True) for g in gs
                   if sum(g) == total],
    "flip_groups": lambda gs, p: [list(reversed(g)) if g[-1] > g[0] else g for g in gs],
    "score_groups": lambda gs, p: sum((i + 1) * sorted(g)[-1] for i, g in enumerate(gs)),
    "heaviest": lambda gs, p: max(range(len(gs)), key=lambda i: (sum(gs[i]), -i)) if gs else -1,
    "ladder": lambda ws, p: _ladder(ws),
    "glue": lambda ws, p: _glue(ws, p["short"]),
    "tally": lambda ws, p: sorted(map(list, Counter(ws).items())),
    "initials": lambda ws, p: [[c, sum(len(w) for w in ws if w[0] == c)] for c in dict.fromkeys(w[0] for w in ws)],
    "join": lambda ws, p: "".join(f"{p['mark']}{w}" for w in ws)[1:],
    "acronym": lambda ws, p: "".join((w + w[-1] * 3)[p["k"]] for w in ws),
    "wrap": lambda ws, p: _wrap(ws, p["width"]),
    "split": lambda t, p: re.findall("[a-z]+", t),
    "split_sorted": lambda t, p: sorted(re.findall("[a-z]+", t)),
    "codes": lambda t, p: ["abcdefghijklmnopqrstuvwxyz".index(c) + p["first"] for c in t],
    "runs": lambda t, p: [[c, len(list(run))] for c, run in itertools.groupby(t)],
    "spots": lambda t, p: [[m.start() + p["base"] for m in re.finditer(c, t)] for c in sorted(Counter(t))],
    "shift": lambda t, p: "".join((("abcdefghijklmnopqrstuvwxyz") * 3)[ord(c) - ord("a") + p["k"] + (i & 1)]
             for i, c in enumerate(t)),
    "squeeze": lambda t, p: _squeeze(t),
    "totals": lambda ps, p: [[name, sum(points)] for name, points in sorted(_by_name(ps).items())],
    "latest": lambda ps, p: [[name, points[-1]] for name, points in _by_name(ps).items()],
    "best_of": lambda ps, p: [[name, max(points)] for name, points in sorted(_by_name(ps).items())],
    "pass": lambda ps, p: [pair for pair in ps if not pair[1] < p["least"]],
    "rank": lambda ps, p: sorted(sorted(ps), key=lambda pair: pair[1], reverse=True),
    "podium": lambda ps, p: [name for name, _ in sorted(ps, key=lambda pair: pair[1], reverse=True)][:p["most"]],
    "points": lambda ps, p: [pair[-1] for pair in ps],
    "teams": lambda ps, p: list(_by_name(ps).values()),
    "leader": lambda ps, p: sorted(x for _, x in ps)[-1] - sorted(x for _, x in ps)[-2]
              if len(ps) > 1 else p["none"],
    "mean": lambda ps, p: sum(x for _, x in ps) // len(ps) + p["plus"] if ps else 0,
    "digits": lambda n, p: _digits(n, p["base"]),
    "divisors": lambda n, p: [d for d in range(1, n + p["plus"] + 1) if (n + p["plus"]) / d == (n + p["plus"]) // d],
    "factors": lambda n, p: _factors(n + p["plus"]),
    "descend": lambda n, p: _descend(n, p, p["cap"]),
    "powers": lambda n, p: _powers(n, p["m"]),
    "rows": lambda g, p: [g[-1 - i] for i in range(len(g))],
    "columns": lambda g, p: [[row[c] for row in g] for c in range(len(g[0]))],
    "diagonals": lambda g, p: [[n for (r, c), n in _cells(g).items() if c - r == d]
                 for d in range(1 - len(g), len(g[0]))],
    "spiral": lambda g, p: _spiral(g),
    "border": lambda g, p: [n for cell, n in _cells(g).items() if not set(_around(*cell)) <= set(_cells(g))],
    "hills": lambda g, p: [n for cell, n in _cells(g).items()
             if all(_cells(g).get(o, -99) < n for o in _around(*cell))],
    "islands": lambda g, p: _islands(g, p["least"]),
    "quarter_turn": lambda g, p: [[g[len(g) - 1 - r][c] for r in range(len(g))] for c in range(len(g[0]))],
    "gravity": lambda g, p: [list(row) for row in zip(*(
               [n for n in column if n < p["heavy"]] + [n for n in column if n >= p["heavy"]]
               for column in zip(*g, strict=True)), strict=True)],
    "smooth": lambda g, p: [[int(str(n + _cells(g).get((r - 1, c), 0) + _cells(g).get((r, c - 1), 0))[-1])
              for c, n in enumerate(row)] for r, row in enumerate(g)],
    "life": _life,
    "ways": lambda g, p: _ways(g, p["wall"]),
    "cheapest": _cheapest,
    "merge_spans": lambda ss, p: _merge_spans(ss, p["gap"]),
    "gaps": lambda ss, p: _gaps(ss),
    "clip": lambda ss, p: [[sorted((p["low"], a, p["high"]))[1], sorted((p["low"], b, p["high"]))[1]] for a, b in ss
            if b > p["low"] and a < p["high"]],
    "lasting": lambda ss, p: [span for span in ss if len(range(*span)) >= p["least"]],
    "agenda": lambda ss, p: _agenda(ss, p["pause"]),
    "lengths": lambda ss, p: [len(range(*span)) for span in ss],
    "waits": lambda ss, p: [b[0] - a[1] for a, b in itertools.pairwise(sorted(ss))],
    "rooms": _rooms,
    "crowd": lambda ss, p: sum(
             count >= p["busy"] for count in Counter(t for span in ss for t in range(*span)).values()),
    "components": lambda ls, p: _components(ls),
    "degrees": lambda ls, p: [sum(p["loop"] if a == b else 1 for a, b in ls if n in (a, b)) for n in range(8)],
    "hops": lambda ls, p: _hops(ls, p["start"]),
    "order": lambda ls, p: _order(ls),
    "paths": lambda ls, p: _paths(ls, p["steps"], p["start"]),
    "first_come": _first_come,
    "shortest_first": lambda js, p: _shortest_first(js),
    "round_robin": lambda js, p: _round_robin(js, p["slice"]),
    "balance": lambda js, p: _balance(js, p["machines"]),
    "spans_of": lambda js, p: [[a, sum((a, d))] for a, d in js],
    "nesting": lambda t, p: [len(after) for _, _, after in _stack_of(t)],
    "matches": lambda t, p: [[before[-1], i] for i, before, after in _stack_of(t) if len(after) < len(before)],
    "operands": lambda t, p: [int(number) for number in re.findall(r"-?\d+", t)],
    "evaluate": _evaluate,
    "entries": lambda t, p: _entries(t),
    "stack_code": lambda ls, p: _stack_code(ls, p["m"]),
    "minutes": lambda ts, p: [(_minute(t) + 1440 - 60 * p["hour"]) % 1440 for t in ts],
    "shifts": _shifts,
}
# fmt: on


def reading(name: str) -> Reading:
    """What the description of a block says.

    Raises:
        KeyError: nobody has read it.
    """
    if name in PLAIN:
        return PLAIN[name]
    frame, _, piece = name.partition("_")
    if frame in BY_CONDITION:
        return lambda xs, p: BY_CONDITION[frame](xs, lambda x: CONDITIONS[piece](x, p))
    if frame == "patch":
        condition, _, measure = piece.partition("_")
        return lambda xs, p: [MEASURES[measure](x, p) if CONDITIONS[condition](x, p) else x for x in xs]
    return lambda xs, p: BY_MEASURE[frame](xs, lambda x: MEASURES[piece](x, p), p)


def read_through(names: Sequence[str], argument: Any, values: Values) -> Any:
    """What the descriptions of a chain make of an argument; parameters have the number of the block behind them."""
    for at, name in enumerate(names, 1):
        own = {parameter: values[f"{parameter}{at}"] for parameter in BLOCKS[name].parameters}
        argument = reading(name)(argument, own)
    return argument
