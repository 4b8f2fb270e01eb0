"""Solvers that see the observation alone, for `test_second_solvers.py`: graphs, counts, structures, simulations."""

from __future__ import annotations

import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import combinations, pairwise, product
from math import comb


def ints(text: str) -> list[int]:
    return [int(word) for word in re.findall(r"\d+", text)]


def joined(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def binary_heap(text: str) -> str:
    keys = ints(text.partition("inserted:")[2].partition(".")[0])
    heap: list[int] = []
    for key in keys:
        heap.append(key)
        at = len(heap)
        while at > 1 and heap[at // 2 - 1] > heap[at - 1]:
            heap[at // 2 - 1], heap[at - 1] = heap[at - 1], heap[at // 2 - 1]
            at //= 2
    removed = re.search(r"top is removed (once|twice|\d+ times)", text)
    times = {"once": 1, "twice": 2}.get(removed[1]) or int(removed[1].split()[0]) if removed else 0
    for _ in range(times):
        heap[0] = heap[-1]
        heap.pop()
        at = 1
        while below := [child for child in (2 * at, 2 * at + 1) if child <= len(heap)]:
            least = min(below, key=lambda child: heap[child - 1])
            if heap[least - 1] >= heap[at - 1]:
                break
            heap[least - 1], heap[at - 1] = heap[at - 1], heap[least - 1]
            at = least
    return joined(heap)


def search_tree(text: str) -> str:
    inserted, _, after = text.partition("after the other:")[2].partition(".")
    order = ints(inserted)
    tree: dict[int, list[int | None]] = {}
    root = order[0]

    def put(key: int) -> None:
        tree[key] = [None, None]
        at = root
        while at != key:
            side = int(key > at)
            if tree[at][side] is None:
                tree[at][side] = key
            at = tree[at][side] or key

    for key in order:
        put(key)

    def without(at: int, key: int) -> int | None:
        if key != at:
            side = int(key > at)
            child = tree[at][side]
            assert child is not None
            tree[at][side] = without(child, key)
            return at
        left, right = tree[at]
        if left is None or right is None:
            return right if left is None else left
        following = right
        while (smaller := tree[following][0]) is not None:
            following = smaller
        rest = without(right, following)
        tree[following] = [left, rest]
        return following

    if "removed" in after:
        for key in ints(after.partition("after the other:")[2].partition(".")[0]):
            root = without(root, key) or root
    row, listed = [root], []
    while row:
        listed += row
        row = [child for at in row for child in tree[at] if child is not None]
    return joined(listed)


# Where each side of a die comes from when it rolls that way: top, bottom, north, south, east, west.
ROLLS = {
    "north": (3, 2, 0, 1, 4, 5),
    "south": (2, 3, 1, 0, 4, 5),
    "east": (5, 4, 2, 3, 0, 1),
    "west": (4, 5, 2, 3, 1, 0),
}


def dice_rolling(text: str) -> str:
    """All six sides, each roll a permutation of them."""
    top, north, east = ints(text.partition("It lies with")[2])[:3]
    sides = [top, 7 - top, north, 7 - north, east, 7 - east]
    tops = []
    for way in re.findall(r"\b(north|south|east|west)\b", text.partition("at a time:")[2].partition(".")[0]):
        sides = [sides[source] for source in ROLLS[way]]
        tops.append(sides[0])
    return joined(tops if "after each roll" in text else [sides[0], sides[2], sides[4], sum(tops), tops.count(6)])


def string_rewriting(text: str) -> str:
    rules = [rule.split(" -> ") for rule in text.partition("order: ")[2].partition(".")[0].split("; ")]
    found = re.search(r"Begin with the text (\w+) and make (\d+) steps", text)
    assert found
    word = found[1]
    for _ in range(int(found[2])):
        rule = next((rule for rule in rules if rule[0] in word), None)
        if rule is None:
            break
        word = word.replace(rule[0], rule[1], 1)
    return word


def polymer_growth(text: str) -> str:
    rules = dict(re.findall(r"\b([A-F]{2}) gets ([A-F])", text))
    found = re.search(r"The text (\w+) goes through (\d+) steps", text)
    letters = re.search(r"How often does each of (.*?) stand", text)
    assert found
    assert letters

    @cache
    def between(pair: str, steps: int) -> Counter[str]:
        if not steps or pair not in rules:
            return Counter()
        middle = rules[pair]
        return Counter(middle) + between(pair[0] + middle, steps - 1) + between(middle + pair[1], steps - 1)

    total = Counter(found[1])
    for one, other in pairwise(found[1]):
        total += between(one + other, int(found[2]))
    return joined(total[letter] for letter in letters[1].split(", "))


def palindrome_count(text: str) -> str:
    word = text.rpartition("\n")[2]
    return str(sum(word[i:j] == word[i:j][::-1] for i in range(len(word)) for j in range(i + 2, len(word) + 1)))


def edit_distance(text: str) -> str:
    one, other = text.split("\n")[-2:]

    @cache
    def fewest(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        if one[i - 1] == other[j - 1]:
            return fewest(i - 1, j - 1)
        return 1 + min(fewest(i - 1, j), fewest(i, j - 1), fewest(i - 1, j - 1))

    return str(fewest(len(one), len(other)))


def max_flow(text: str) -> str:
    """By the least cut: every set of nodes with the source is tried."""
    pipes = [tuple(map(int, found)) for found in re.findall(r"(\d+)>(\d+): (\d+)", text.partition("The pipes:")[2])]
    source, sink = ints(text.rpartition("\n")[2])
    others = sorted({node for pipe in pipes for node in pipe[:2]} - {source, sink})
    cuts = ({source, *chosen} for count in range(len(others) + 1) for chosen in combinations(others, count))
    return str(min(sum(size for a, b, size in pipes if a in cut and b not in cut) for cut in cuts))


def shortest_path(text: str) -> str:
    """By relaxing every road until nothing changes."""
    roads = [(int(a), int(b), int(size)) for a, b, size in re.findall(r"(\d+)[->](\d+): (\d+)", text)]
    if ">" not in text:
        roads += [(b, a, size) for a, b, size in roads]
    start, end = ints(text.rpartition("\n")[2])
    way: dict[int, float] = defaultdict(lambda: float("inf"), {start: 0})
    for _ in roads:
        for a, b, size in roads:
            way[b] = min(way[b], way[a] + size)
    return str(way[end])


def spanning_tree(text: str) -> str:
    """By Prim's rule: the cheapest cable out of what is connected."""
    cables = [(int(price), int(a), int(b)) for a, b, price in re.findall(r"(\d+)-(\d+): (\d+)", text)]
    tied, total = {1}, 0
    while len(tied) < ints(text.rpartition("\n")[2])[-1]:
        price, a, b = min(cable for cable in cables if len(tied & set(cable[1:])) == 1)
        tied |= {a, b}
        total += price
    return str(total)


def components(text: str) -> str:
    count = ints(text)[1]
    group = {node: node for node in range(1, count + 1)}
    edges = re.findall(r"(\d+)-(\d+)", text)
    for _ in range(count):
        for a, b in edges:
            group[int(a)] = group[int(b)] = min(group[int(a)], group[int(b)])
    return joined(sorted(Counter(group.values()).values(), reverse=True))


def reachability(text: str) -> str:
    start = ints(text.rpartition("\n")[2])[0]
    seen = {start}
    arrows = re.findall(r"(\d+)>(\d+)", text)
    for _ in arrows:
        seen |= {int(b) for a, b in arrows if int(a) in seen}
    return joined(sorted(seen - {start}))


def coin_change(text: str) -> str:
    coins = [(int(value), int(most or 10**9)) for value, most in re.findall(
        r"(\d+)(?: \(at most (\d+) of them\))?(?=,| and| cents)", text.partition("cents.")[0] + "cents")]  # fmt: skip
    asked = re.search(r"exactly (\d+) cents", text)
    assert asked

    @cache
    def ways(left: int, kind: int) -> int:
        if kind == len(coins):
            return int(left == 0)
        value, most = coins[kind]
        return sum(ways(left - used * value, kind + 1) for used in range(min(most, left // value) + 1))

    return str(ways(int(asked[1]), 0))


def interval_scheduling(text: str) -> str:
    jobs = [tuple(map(int, found)) for found in re.findall(r"from hour (\d+) to hour (\d+), pays (\d+)", text)]

    @cache
    def most(free: int) -> int:
        return max((pay + most(end) for start, end, pay in jobs if start >= free), default=0)

    return str(most(0))


def knapsack(text: str) -> str:
    things = [tuple(map(int, found)) for found in re.findall(r"weight (\d+), value (\d+)", text)]
    most = ints(text.rpartition("A bag holds")[2])[0]
    worths = [
        sum(value for _, value in taken)
        for count in range(len(things) + 1)
        for taken in combinations(things, count)
        if sum(weight for weight, _ in taken) <= most
    ]
    return str(max(worths))


def tilings(text: str) -> str:
    kinds = [(int(size), int(colours)) for size, colours in re.findall(r"length (\d+) in (\d+) colour", text)]
    apart = re.search(r"Two tiles of length (\d+) must not", text)
    total = ints(text)[-1]

    @cache
    def rows(left: int, last: int) -> int:
        if left <= 0:
            return int(left == 0)
        barred = int(apart[1]) if apart else 0
        return sum(n * rows(left - size, size) for size, n in kinds if not size == last == barred)

    return str(rows(total, 0))


def lattice_paths(text: str) -> str:
    points = [(int(x), int(y)) for x, y in re.findall(r"\((\d+), (\d+)\)", text)]
    (_, goal, *named) = points
    if "go through" in text:
        ways, at = 1, (0, 0)
        for point in [*sorted(named), goal]:
            dx, dy = point[0] - at[0], point[1] - at[1]
            ways, at = ways * (comb(dx + dy, dx) if min(dx, dy) >= 0 else 0), point
        return str(ways)
    counts = {(0, 0): 1}
    for x, y in product(range(goal[0] + 1), range(goal[1] + 1)):
        if (x, y) in named:
            counts[x, y] = 0
        elif (x, y) != (0, 0):
            counts[x, y] = counts.get((x - 1, y), 0) + counts.get((x, y - 1), 0)
    return str(counts[goal])


def register_machine(text: str) -> str:
    held = {name: int(value) for name, value in re.findall(r"([A-Z]) = (-?\d+)", text.partition("It runs")[0])}
    names = list(held)
    lines = re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)
    at, steps = 0, 0
    while at < len(lines) and steps < 10**5:
        steps += 1
        if jump := re.fullmatch(r"if ([A-Z]) is above 0, go to line (\d+)", lines[at]):
            at = int(jump[2]) - 1 if held[jump[1]] > 0 else at + 1
            continue
        to, formula = lines[at].split(" = ")
        one, *more = (held.get(word, word) for word in formula.split())
        value = int(one)
        if more:
            value += int(more[1]) if more[0] == "+" else -int(more[1])
        held[to], at = value, at + 1
    return joined(held[name] for name in names)


def run_length(text: str) -> str:
    code = text.rpartition(": ")[2]
    while found := re.search(r"(\d+)\(([a-z]*)\)", code):
        code = code[: found.start()] + int(found[1]) * found[2] + code[found.end() :]
    return code


def truth_count(text: str) -> str:
    """By rewriting the innermost brackets with numbers, for each way to make the letters true."""
    formula = text.partition("\n")[0]
    letters = sorted(set(re.findall(r"\b[P-U]\b", formula)))
    true = {("and", 1, 1), ("or", 0, 1), ("or", 1, 0), ("or", 1, 1), ("xor", 0, 1), ("xor", 1, 0),
            ("implies", 0, 0), ("implies", 0, 1), ("implies", 1, 1), ("iff", 0, 0), ("iff", 1, 1)}  # fmt: skip

    def flat(part: str) -> str:
        while (one := re.sub(r"not ([01])", lambda found: str(1 - int(found[1])), part)) != part:
            part = one
        words = part.split()
        assert len(words) in (1, 3), part
        return words[0] if len(words) == 1 else str(int((words[1], int(words[0]), int(words[2])) in true))

    count = 0
    for values in product("01", repeat=len(letters)):
        written = formula
        for letter, value in zip(letters, values, strict=True):
            written = re.sub(rf"\b{letter}\b", value, written)
        while "(" in written:
            written = re.sub(r"\(([^()]*)\)", lambda found: flat(found[1]), written)
        count += flat(written) == "1"
    return str(count)


def digit_sums(text: str) -> str:
    """By the number of tails of each length and sum, from the first digit that is smaller."""
    found = re.search(r"from 0 to (\d+) have digits \(in base 10\) that add up to (\d+)", text)
    assert found
    most, total = found[1], int(found[2])
    tails = [Counter({0: 1})]
    for _ in most:
        following: Counter[int] = Counter()
        for value, count in tails[-1].items():
            for digit in range(10):
                following[value + digit] += count
        tails.append(following)
    count, before = 0, 0
    for index, digit in enumerate(map(int, most)):
        count += sum(tails[len(most) - index - 1][total - before - less] for less in range(digit))
        before += digit
    return str(count + (before == total))


def sorted_words(text: str) -> str:
    alphabet = re.search(r"this alphabet: ([a-z]+)", text)
    order = alphabet[1] if alphabet else "abcdefghijklmnopqrstuvwxyz"
    words: list[list[int]] = []
    for word in text.split("\n")[1].split(", "):
        insort(words, [order.index(letter) for letter in word])
    return joined("".join(order[at] for at in word) for word in words)


def swap_tracking(text: str) -> str:
    told = re.findall(r"(\w+) holds the (\w+)", text.partition("Then,")[0])
    holds = dict(told)
    for order in text.partition("after the other: ")[2].partition("\n")[0].rstrip(".").split("; "):
        if cycle := re.fullmatch(r"(\w+) gives to (\w+), \2 to (\w+) and \3 to \1, all at once", order):
            a, b, c = cycle.groups()
            holds[b], holds[c], holds[a] = holds[a], holds[b], holds[c]
            continue
        if by_thing := re.fullmatch(r"whoever holds the (\w+) exchanges with whoever holds the (\w+)", order):
            a, b = (next(name for name in holds if holds[name] == thing) for thing in by_thing.groups())
        else:
            pair = re.fullmatch(r"(\w+) and (\w+) exchange what they hold", order)
            assert pair, order
            a, b = pair.groups()
        holds[a], holds[b] = holds[b], holds[a]
    asked = re.search(r"What do (.*) hold now", text)
    assert asked
    return joined(holds[name] for name in re.split(", | and ", asked[1]))


SOLVERS = {
    "BinaryHeap": binary_heap, "SearchTree": search_tree, "DiceRolling": dice_rolling,
    "StringRewriting": string_rewriting, "PolymerGrowth": polymer_growth, "PalindromeCount": palindrome_count,
    "EditDistance": edit_distance, "MaxFlow": max_flow, "ShortestPath": shortest_path, "SpanningTree": spanning_tree,
    "Components": components, "Reachability": reachability, "CoinChange": coin_change,
    "IntervalScheduling": interval_scheduling, "Knapsack": knapsack, "Tilings": tilings,
    "LatticePaths": lattice_paths, "RegisterMachine": register_machine, "RunLength": run_length,
    "TruthCount": truth_count, "DigitSums": digit_sums, "SortWords": sorted_words, "SwapTracking": swap_tracking,
}  # fmt: skip
