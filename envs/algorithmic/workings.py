"""The working of experts of this family on graphs, machines and strings, from the text of a question."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import cycle, pairwise
from string import ascii_lowercase as ALPHABET

from rlvr.envs.tasks.answers import listed
from rlvr.envs.tasks.wording import counted, in_a_row

Edge = tuple[int, int]


def edges_in(text: str, sign: str = "-") -> list[Edge]:
    """The pairs of numbers that a text lists."""
    return [(int(a), int(b)) for a, b in re.findall(rf"(\d+){sign}(\d+)", text)]


def neighbours(edges: Iterable[Edge]) -> dict[int, list[int]]:
    """For each node those that an edge joins to it, in order."""
    near: dict[int, list[int]] = {}
    for a, b in edges:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    return {node: sorted(set(others)) for node, others in near.items()}


def numbers(values: Iterable[int]) -> str:
    return in_a_row([str(number) for number in values])


# graphs


def bipartition(text: str) -> str:
    """From 1 on, whom each person puts into the other team."""
    pairs, near = re.findall(r"\d+-\d+", text), neighbours(edges_in(text))
    side, waiting, lines = {1: 0}, [1], []
    for person in waiting:
        new = [other for other in near[person] if other not in side]
        side |= dict.fromkeys(new, 1 - side[person])
        waiting += new
        if new:
            where = "the team of 1" if side[person] == 0 else "the other team"
            then = "the other team" if side[person] == 0 else "the team of 1"
            by = [pair for other in new for pair in pairs if pair in (f"{person}-{other}", f"{other}-{person}")]
            are = "is" if len(new) == 1 else "are"
            lines.append(f"{person} is in {where}, so {numbers(new)} {are} in {then} ({listed(by)}).")
    return "\n".join(lines)


def coloured(text: str) -> tuple[list[str], dict[int, int]] | None:
    """Nodes with the fewest colours left first, each with the first that is left; None if a node has none left."""
    size, colours = map(int, re.findall(r"nodes 1 to (\d+) one of the colours 1 to (\d+)", text)[0])
    near = neighbours(edges_in(text.partition("differ: ")[2]))
    colour_of: dict[int, int] = {}
    lines = ["Always the node with the fewest colours left takes the first of them:"]

    def left(node: int) -> list[int]:
        taken = {colour_of[other] for other in near.get(node, ()) if other in colour_of}
        return [colour for colour in range(1, colours + 1) if colour not in taken]

    while len(colour_of) < size:
        node = min(
            (node for node in range(1, size + 1) if node not in colour_of),
            key=lambda node: (len(left(node)), -len(near.get(node, ())), node),
        )
        done = [f"{other} has {colour_of[other]}" for other in near.get(node, ()) if other in colour_of]
        choice = left(node)
        if not choice:
            return None
        how = "only " * (len(choice) == 1) + f"{numbers(choice)} {'is' if len(choice) == 1 else 'are'} left"
        colour_of[node] = choice[0]
        taken = f"; it takes {choice[0]}" if len(choice) > 1 else ""
        lines.append(f"Node {node}: {', '.join(done) or 'no neighbour has a colour'}; {how}{taken}.")
    return lines, colour_of


def colouring(text: str, answer: str) -> str:
    """How a colouring is found where each node takes the first colour left; else the stored one, pair by pair."""
    if lines_and_colours := coloured(text):
        return "\n".join(lines_and_colours[0])
    colour = dict(enumerate(answer.split(", "), 1))
    nodes = listed(f"{node} has {number}" for node, number in colour.items())
    pairs = listed(f"{a}-{b}: {colour[a]} and {colour[b]}" for a, b in edges_in(text.partition("differ: ")[2]))
    return f"Checked: {nodes}.\nThe pairs have {pairs}: all differ."


def hamiltonian(text: str, answer: str) -> str:
    """The ends that are known, and a check of the path: each edge of it is given, and each node is in it once."""
    near = neighbours(edges_in(text))
    path = [int(node) for node in answer.split(", ")]
    ends = sorted(node for node, others in near.items() if len(others) == 1)
    kind = "an end" if len(ends) == 1 else "the ends"
    lines = [f"Only one edge is at {' and at '.join(map(str, ends))}: {kind} of the path."] if ends else []
    edges = [f"{min(pair)}-{max(pair)}" for pair in pairwise(path)]
    lines.append(f"Checked, from {path[0]} on by the edges {listed(edges)}, all of them given:")
    return "\n".join([*lines, f"the path {answer} has each of the nodes 1 to {len(path)} once."])


def topological(text: str, answer: str) -> str:
    """For each task in the order, what had to be done before it."""
    before: dict[int, list[int]] = {}
    for a, b in edges_in(text.partition("before b: ")[2], ">"):
        before.setdefault(b, []).append(a)
    order = [int(task) for task in answer.split(", ")]
    lines = []
    for index, task in enumerate(order):
        need = sorted(before.get(task, ()))
        arrows = listed(f"{a}>{task}" for a in need)
        done = f"after {numbers(need)} ({arrows})" if need else "nothing has to be done before"
        if set(need) <= set(order[:index]):
            lines.append(f"{task}: {done}.")
    return "\n".join(lines)


def max_flow(text: str) -> str:
    """Paths that carry more, shortest first, until the pipes out of some nodes are full."""
    capacity = {(int(a), int(b)): int(width) for a, b, width in re.findall(r"(\d+)>(\d+): (\d+)", text)}
    source, sink = map(int, re.findall(r"flow from (\d+) to (\d+) at most", text)[0])
    left, total, lines = dict(capacity), 0, []
    for a, b in capacity:
        left.setdefault((b, a), 0)
    while True:
        came, waiting = {source: source}, [source]
        for node in waiting:
            new = sorted(b for (a, b), room in left.items() if a == node and room and b not in came)
            came |= dict.fromkeys(new, node)
            waiting += new
        if sink not in came:
            break
        path = [sink]
        while path[-1] != source:
            path.append(came[path[-1]])
        path.reverse()
        amount = min(left[edge] for edge in pairwise(path))
        for a, b in pairwise(path):
            left[a, b] -= amount
            left[b, a] += amount
        total += amount
        way = str(path[0])
        for a, b in pairwise(path):
            way += f">{b}" if (a, b) in capacity else f" (less from {b} to {a}) {b}"
        lines.append(f"Along {way} {amount} more: {total - amount} + {amount} = {total}.")
    out = {edge: width for edge, width in capacity.items() if edge[0] in came and edge[1] not in came}
    pipes = f"pipe{'s' * (len(out) > 1)} {listed(f'{a}>{b}' for a, b in out)}"
    full = f"{' + '.join(map(str, out.values()))} = {total}" if len(out) > 1 else str(total)
    lines.append(f"More cannot leave {numbers(sorted(came))}: the {pipes} out of there can carry {full}.")
    return "\n".join(lines)


def generations(text: str) -> str:
    """Of each generation of the Game of Life the live neighbours of every cell, then the next board."""
    rows = re.findall(r"^[01]+$", text, re.M)
    count, lines = int(re.findall(r"after (\d+) generation", text)[0]), ["The board:", *rows]
    for number in range(1, count + 1):
        size = range(len(rows))
        near = [
            "".join(
                str(sum(rows[y][x] == "1" for y in size for x in size if max(abs(y - r), abs(x - c)) == 1))
                for c in size
            )
            for r in size
        ]
        rows = [
            "".join("01"[n == "3" or (n == "2" and cell == "1")] for n, cell in zip(*pair, strict=True))
            for pair in zip(near, rows, strict=True)
        ]
        lines += ["Live neighbours of the cells:", *near, f"Generation {number}:", *rows]
    return "\n".join(lines)


# machines


def queue_machine(text: str) -> str:
    """What the queue holds after each command."""
    first, *commands, _ = text.split("\n")
    queue = re.findall(r"\d+", first)
    lines = []
    for command in commands:
        if match := re.match(r"put (\d+) at the (front|back)", command):
            queue.insert(0 if match[2] == "front" else len(queue), match[1])
        elif command.startswith("take one away"):
            queue.pop(0 if command.endswith("front") else -1)
        elif match := re.match(r"move the first (\d+) to the back", command):
            queue = queue[int(match[1]) :] + queue[: int(match[1])]
        elif command.startswith("exchange"):
            queue[0], queue[-1] = queue[-1], queue[0]
        else:
            queue.reverse()
        lines.append(f"{command}: {' '.join(queue)}")
    return "\n".join(lines)


def turing_machine(text: str) -> str:
    """Each step: state, cell and symbol, and what the rule says."""
    rules = {
        (state, symbol): (new, 1 if way == "right" else -1, then)
        for state, symbol, new, way, then in re.findall(
            r"state (\w) on (\d): write (\d), move (right|left), state (\w)", text
        )
    }
    tape, count = re.findall(r"The tape is (\d+);.*after (\d+) steps", text)[0]
    cells, state, index, lines = list(tape), "A", 0, [f"The tape is {tape}."]
    for number in range(1, int(count) + 1):
        symbol = cells[index]
        new, move, then = rules[state, symbol]
        cells[index] = new
        lines.append(
            f"{number}. {state} reads {symbol} on cell {index + 1}: writes {new}, goes to state {then}, "
            f"{'right' if move > 0 else 'left'}. {''.join(cells)}"
        )
        index, state = (index + move) % len(cells), then
    return "\n".join(lines)


def register_machine(text: str) -> str:
    """The registers after each round of each loop."""
    first, *rest = text.split("\n")
    registers = {name: int(value) for name, value in re.findall(r"(\w) = (-?\d+)", first)}
    program = [line.partition(". ")[2] for line in rest[:-1]]
    index, lines = 0, []
    steps: list[str] = []
    while index < len(program):
        line, index = program[index], index + 1
        if match := re.match(r"if (\w) is above 0, go to line (\d+)", line):
            lines.append(f"{'; '.join(steps)}; N = {registers['N']}")
            steps = []
            index = int(match[2]) - 1 if registers[match[1]] > 0 else index
            continue
        name, _, term = line.partition(" = ")
        left, *more = term.split()
        value = number = registers[left] if left in registers else int(left)
        if more:
            other = registers[more[1]] if more[1] in registers else int(more[1])
            value = number + other if more[0] == "+" else number - other
        registers[name] = value
        if name == "N":
            steps += [f"N = {value}:"] * (not more)
        else:
            shown = f"({other})" if more and other < 0 else str(other) if more else ""
            steps.append(f"{name} = {number} {more[0]} {shown} = {value}" if more else f"{name} = {value}")
    return "\n".join(line.replace(":;", ":") for line in lines)


def search_tree(text: str) -> str:
    """Where each key goes, what each removal changes, and the keys of each level."""
    keys, gone = (
        [int(key) for key in match[1].split(", ")] if (match := re.search(pattern, text)) else []
        for pattern in (r"tree, one after the other: ([\d, ]+)\.", r"removed, one after the other: ([\d, ]+)\.")
    )
    children: dict[int, list[int]] = {0: [0, 0]}  # 0 stands for nobody, and above the root
    lines = []

    def above(key: int) -> tuple[int, int]:
        """The node that a key hangs on, or would, and on which side."""
        node, side = 0, 1
        while (child := children[node][side]) and child != key:
            node, side = child, int(key > child)
        return node, side

    for key in keys:
        node, side = above(key)
        children[node][side] = key
        children[key] = [0, 0]
        lines.append(f"{key}: {('left', 'right')[side]} of {node}" if node else f"{key}: the root")
    for key in gone:
        node, side = above(key)
        left, right = children[key]
        new = left or right
        how = f"{new} moves up" if new else "it has no child"
        if left and right:
            new = right
            while children[new][0]:
                new = children[new][0]
            how = f"{new}, the next larger one, takes its position"
            holder, at = above(new)
            children[holder][at] = children[new][1]
            children[new] = children[key]
        children[node][side] = new
        del children[key]
        lines.append(f"Without {key}: {how}")
    row = [children[0][1]]
    while row:
        lines.append(f"Level: {listed(row)}")
        row = [child for node in row for child in children[node] if child]
    return "\n".join(lines)


# strings


def reversed_text(text: str) -> str:
    """Each word letter by letter from its end, or the words in reverse order first."""
    task, _, line = text.partition(": ")
    words = line.split()
    lines = list[str]()
    if task.startswith("Write the line"):
        lines.append(f"The words from the last: {' '.join(reversed(words))}")
        words.reverse()
    elif task.startswith("Write the words"):
        words.reverse()
        lines.append(f"In reverse order: {' '.join(words)}")
        words = words[::2]
    return "\n".join([*lines, *(f"{word}: {' '.join(reversed(word))}" for word in words)])


def deciphered(text: str) -> str:
    """Each word of the code, and what it was before the last step of the encryption."""
    code = re.findall(r"^Encrypted: (.*)$", text, re.M)[0].split()
    if match := re.search(r"the letters (\w+) became (\w+),", text):
        back = dict(sorted(zip(match[2], match[1], strict=True)))
        table = " ".join(f"{a}={b}" for a, b in back.items() if a in "".join(code))
        return "\n".join([f"Back again: {table}", *(f"{w}: {''.join(map(back.__getitem__, w))}" for w in code)])
    if match := re.search(r"key (\w+) \(a moves by 0", text):
        keys, lines = cycle(match[1]), []
        for word in code:
            key = "".join(next(keys) for _ in word)
            shifts = [ALPHABET.index(a) - ALPHABET.index(b) for a, b in zip(word, key, strict=True)]
            plain = "".join(ALPHABET[shift % 26] for shift in shifts)
            turned = f", backwards {plain[::-1]}" if "written backwards" in text else ""
            lines.append(f"{word} less {key}: {plain}{turned}")
        return "\n".join(lines)
    lines = []
    if match := re.search(r"was moved (\d+) places forward", text):
        by = int(match[1])
    else:
        first = re.findall(r"the first word was (\w+)", text)[0]
        by = (ALPHABET.index(code[0][0]) - ALPHABET.index(first[0])) % 26
        lines.append(f"{first} became {code[0]}: {first[0]} became {code[0][0]}, {by} places on.")
    moved = str.maketrans(ALPHABET[by:] + ALPHABET[:by], ALPHABET)
    return "\n".join([*lines, *(f"{w}, {by} places back: {w.translate(moved)}" for w in code)])


def distance_table(text: str) -> str:
    """The table of edit distances of all beginnings, a row for each letter of the first string."""
    first, second = text.split("\n")[-2:]
    row = list(range(len(second) + 1))
    lines = [f"Distances of the beginnings of {first} (rows) and {second} (columns):", f"- {listed(row)}"]
    for i, x in enumerate(first, 1):
        new = [i]
        for j, y in enumerate(second, 1):
            new.append(min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (x != y)))
        row = new
        lines.append(f"{x} {listed(row)}")
    return "\n".join(lines)


def common_table(text: str, answer: str) -> str:
    """The table of the lengths of common subsequences of all beginnings, and where one stands in both."""
    first, second = text.split("\n")[1:3]
    row = [0] * (len(second) + 1)
    lines = [f"The longest in common of the beginnings of {first} (rows) and {second} (columns):"]
    for x in first:
        new = [0]
        for j, y in enumerate(second, 1):
            new.append(row[j - 1] + 1 if x == y else max(row[j], new[j - 1]))
        row = new
        lines.append(f"{x} {' '.join(map(str, row[1:]))}")
    lines.append(f"So {counted(row[-1], 'letter')} at most.")
    return "\n".join(
        [*lines, *(f"{answer} in {string}: letters {listed(found_at(answer, string))}" for string in (first, second))]
    )


def found_at(part: str, string: str) -> list[int]:
    """At which letters of a string those of a subsequence stand, from 1 on."""
    starts, start = [], 0
    for letter in part:
        start = string.index(letter, start) + 1
        starts.append(start)
    return starts


def pattern_match(text: str) -> str:
    """For each word how the parts of the pattern divide it, or which part fails."""
    parts = re.findall(r"\[\w+\]|.", re.findall(r'the pattern "(.*?)" as a whole', text)[0])
    lines = []
    for number, word in re.findall(r"^(\d+)\. (\w+)$", text, re.M):
        starts = [{0}]
        for part in parts:
            if part == "*":
                starts.append({end for start in starts[-1] for end in range(start, len(word) + 1)})
            else:
                fits = {index for index in starts[-1] if index < len(word) and (part == "?" or word[index] in part)}
                starts.append({index + 1 for index in fits})
        if len(word) in starts[-1]:
            cuts = [len(word)]
            for part, before in zip(parts[::-1], starts[-2::-1], strict=True):
                end = cuts[-1]
                cuts.append(min(s for s in before if (part == "*" and s <= end) or (part != "*" and s == end - 1)))
            spans = zip(parts, pairwise(cuts[::-1]), strict=True)
            pieces = [f"{part} is {word[a:b] or 'nothing'}" for part, (a, b) in spans]
            lines.append(f"{number}. {word}: {', '.join(pieces)}")
        elif not starts[-1]:
            failed = next(k for k, some in enumerate(starts) if not some)
            lines.append(f"{number}. {word}: no, it does not begin with {''.join(parts[:failed])}")
        else:
            lines.append(f"{number}. {word}: no, letters are left when the pattern ends")
    return "\n".join(lines)
