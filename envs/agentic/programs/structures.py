"""Blocks on what is more than a list: grids, spans of time, links of a graph, jobs, and texts with a grammar."""

from __future__ import annotations

from rlvr.envs.agentic.programs.structure import CodeBlock

NEIGHBOURS = "((1, 0), (-1, 0), (0, 1), (0, -1))"
# fmt: off
GRIDS = (
    CodeBlock("rows", "rows", "grid", "groups", "Take the rows of the grid as groups, from the bottom to the top.",
          "groups = [list(row) for row in grid[::-1]]"),
    CodeBlock("rows", "columns", "grid", "groups",
          "Take the columns of the grid as groups, from left to right, each from top to bottom.",
          "groups = [list(column) for column in zip(*grid)]"),
    CodeBlock("rows", "diagonals", "grid", "groups",
          "Take the diagonals of the grid that go down to the right as groups, the one in the lower left corner first, "
          "each from top to bottom.",
          "height = len(grid)\nwidth = len(grid[0])\ngroups = [[grid[r][r + d] for r in range(height) if 0 <= r + d "
          "< width] for d in range(1 - height, width)]"),
    CodeBlock("spiral", "spiral", "grid", "numbers",
          "List the cells along a spiral: the top row from left to right, what is left of the last column downwards, "
          "of the bottom row to the left, of the first column upwards, and so on inwards.",
          "numbers = []\nrows = [list(row) for row in grid]\nwhile rows:\n    numbers += rows.pop(0)\n"
          "    rows = [list(column) for column in zip(*rows)][::-1]"),
    CodeBlock("border", "border", "grid", "numbers",
          "Take the numbers of the cells on the border of the grid, row by row from the top, each row from left to "
          "right.",
          "numbers = [n for r, row in enumerate(grid) for c, n in enumerate(row) if r in (0, len(grid) - 1) or c in "
          "(0, len(row) - 1)]"),
    CodeBlock("hills", "hills", "grid", "numbers",
          "Take the numbers of all cells that are greater than each of their neighbours above, below, left and right, "
          "row by row from the top, each row from left to right.",
          f"numbers = []\nfor r, row in enumerate(grid):\n    for c, n in enumerate(row):\n        lower = True\n"
          f"        for down, across in {NEIGHBOURS}:\n"
          "            if 0 <= r + down < len(grid) and 0 <= c + across < len(row) and grid[r + down][c + across] >= "
          "n:\n"
          "                lower = False\n        if lower:\n            numbers.append(n)"),
    CodeBlock("islands", "islands", "grid", "numbers",
          "Cells of at least $least are land. Land cells that touch above, below, left or right are of one island. "
          "Write down the sizes of the islands, in the order of their first cells, row by row from the top, from left "
          "to right.",
          f"numbers = []\nseen = set()\nfor row in range(len(grid)):\n    for column in range(len(grid[0])):\n"
          "        waiting = [(row, column)]\n        size = 0\n        while waiting:\n"
          "            r, c = waiting.pop()\n"
          "            inside = 0 <= r < len(grid) and 0 <= c < len(grid[0])\n"
          "            if not inside or (r, c) in seen or grid[r][c] < $least:\n                continue\n"
          "            seen.add((r, c))\n            size += 1\n"
          f"            waiting += [(r + down, c + across) for down, across in {NEIGHBOURS}]\n"
          "        if size > 0:\n            numbers.append(size)", {"least": (3, 4, 5)}),
    CodeBlock("remake_grid", "quarter_turn", "grid", "grid", "Turn the grid a quarter to the right (clockwise).",
          "grid = [list(column) for column in zip(*grid[::-1])]"),
    CodeBlock("remake_grid", "gravity", "grid", "grid",
          "Let numbers of at least $heavy fall: in each column they go to the bottom and the others to the top, both "
          "in their order from top to bottom.",
          "columns = [sorted(column, key=lambda n: n >= $heavy) for column in zip(*grid)]\n"
          "grid = [list(row) for row in zip(*columns)]", {"heavy": (3, 4, 5, 6)}),
    CodeBlock("remake_grid", "smooth", "grid", "grid",
          "Add to each number those of the cells directly above and directly to the left of it, as they were before "
          "this step, and take the last decimal digit.",
          "grid = [[(n + (grid[r - 1][c] if r > 0 else 0) + (row[c - 1] if c > 0 else 0)) % 10 for c, n in "
          "enumerate(row)] for r, row in enumerate(grid)]"),
    CodeBlock("life", "life", "grid", "grid",
          "A cell is alive if its number is at least $alive. All cells change at once, $rounds times: a live cell with "
          "$low or $high live cells among the up to eight around it keeps its number, any other live cell becomes 0; a "
          "dead cell with exactly $birth becomes $alive, any other dead cell stays as it is.",
          "for _ in range($rounds):\n    after = []\n    for r, row in enumerate(grid):\n        cells = []\n"
          "        for c, n in enumerate(row):\n            near = -1 if n >= $alive else 0\n"
          "            for line in grid[max(r - 1, 0):r + 2]:\n                for other in line[max(c - 1, 0):c + "
          "2]:\n"
          "                    near += other >= $alive\n"
          "            if n >= $alive:\n                cells.append(n if near in ($low, $high) else 0)\n"
          "            else:\n                cells.append($alive if near == $birth else n)\n"
          "        after.append(cells)\n"
          "    grid = after", {"alive": (4, 5), "rounds": (2, 3), "low": (1, 2), "high": (3, 4), "birth": (2, 3)}),
    CodeBlock("ways", "ways", "grid", "value",
          "the number of ways from the top left cell to the bottom right one, by steps to the right and down, that use "
          "only cells smaller than $wall, the first and the last included",
          "ways = {}\nfor r, row in enumerate(grid):\n    for c, n in enumerate(row):\n"
          "        before = 1 if r == 0 and c == 0 else ways.get((r - 1, c), 0) + ways.get((r, c - 1), 0)\n"
          "        ways[r, c] = before if n < $wall else 0\nvalue = ways[len(grid) - 1, len(grid[0]) - 1]",
          {"wall": (7, 8)}),
    CodeBlock("cheapest", "cheapest", "grid", "value",
          "the least cost of a way from the top left to the bottom right cell by steps up, down, left and right, where "
          "entering a cell costs its number, and $toll more if that is greater than the number of the cell that is "
          "left by at least $rise",
          "costs = {(0, 0): 0}\nwaiting = [(0, 0)]\nwhile waiting:\n    r, c = waiting.pop(0)\n"
          f"    for down, across in {NEIGHBOURS}:\n        row = r + down\n        column = c + across\n"
          "        if 0 <= row < len(grid) and 0 <= column < len(grid[0]):\n"
          "            cost = costs[r, c] + grid[row][column]\n"
          "            if grid[row][column] - grid[r][c] >= $rise:\n                cost += $toll\n"
          "            if cost < costs.get((row, column), cost + 1):\n                costs[row, column] = cost\n"
          "                waiting.append((row, column))\nvalue = costs[len(grid) - 1, len(grid[0]) - 1]",
          {"toll": range(2, 9), "rise": range(1, 5)}),
)
SPANS = (
    CodeBlock("merge_spans", "merge_spans", "spans", "spans",
          "Join spans that overlap or have at most $gap between the end of the one and the start of the other, over "
          "and over, and sort what comes of it by start.",
          "merged = []\nfor start, end in sorted(spans):\n    if merged and start - merged[-1][1] <= $gap:\n"
          "        merged[-1][1] = max(merged[-1][1], end)\n    else:\n        merged.append([start, end])\n"
          "spans = merged",
          {"gap": (1, 2)}),
    CodeBlock("trim_spans", "gaps", "spans", "spans",
          "Replace the spans by those between them: the longest spans that lie between the smallest start and the "
          "greatest end and overlap none of them, sorted by start.",
          "free = []\nreached = None\nfor start, end in sorted(spans):\n    if reached is not None and start > "
          "reached:\n"
          "        free.append([reached, start])\n    reached = end if reached is None else max(reached, end)\n"
          "spans = free"),
    CodeBlock("trim_spans", "clip", "spans", "spans",
          "Cut off what lies before $low or after $high, and leave out the spans of which nothing is left; the others "
          "keep their order.",
          "spans = [[max(start, $low), min(end, $high)] for start, end in spans if max(start, $low) < min(end, $high)]",
          {"low": range(3, 9), "high": range(28, 36)}),
    CodeBlock("trim_spans", "lasting", "spans", "spans", "Leave out the spans shorter than $least.",
          "spans = [[start, end] for start, end in spans if end - start >= $least]", {"least": (2, 3, 4)}),
    CodeBlock("agenda", "agenda", "spans", "spans",
          "Choose spans: go through them by end, the earliest first (by start where ends are equal, the earliest "
          "first), and take each that starts at least $pause after the end of the one taken last; the first is taken.",
          "taken = []\nfor start, end in sorted(spans, key=lambda span: (span[1], span[0])):\n"
          "    if not taken or start - taken[-1][1] >= $pause:\n        taken.append([start, end])\nspans = taken",
          {"pause": (1, 2)}),
    CodeBlock("lengths", "lengths", "spans", "numbers",
          "Write down the lengths of the spans, end minus start, in their order.",
          "numbers = [end - start for start, end in spans]"),
    CodeBlock("lengths", "waits", "spans", "numbers",
          "Sort the spans by start, and by end where starts are equal; write down the start of each but the first "
          "minus the end of the one before it.",
          "ordered = sorted(spans)\nnumbers = [ordered[i][0] - ordered[i - 1][1] for i in range(1, len(ordered))]"),
    CodeBlock("rooms", "rooms", "spans", "numbers",
          "Give the spans rooms in the order of their starts, and of their ends where starts are equal. A room may be "
          "used again from $pause after the end of its last span on, and each span gets the free room of the lowest "
          "number from 1 to $rooms, or 0 if none is free. Write down these numbers in the order in which they were "
          "given.",
          "free_at = [0] * $rooms\nnumbers = []\nfor start, end in sorted(spans):\n    given = 0\n"
          "    for room in range($rooms):\n"
          "        if free_at[room] <= start:\n            given = room + 1\n            free_at[room] = end + $pause\n"
          "            break\n    numbers.append(given)", {"pause": (1, 2, 3), "rooms": (2, 3)}),
    CodeBlock("crowd", "crowd", "spans", "value",
          "the length of all times at which at least $busy spans are under way (a span is under way from its start up "
          "to, not including, its end)",
          "value = 0\nfor time in range(max([end for start, end in spans], default=0)):\n"
          "    if sum(1 for start, end in spans if start <= time < end) >= $busy:\n        value += 1",
          {"busy": (2, 3)}),
)
GRAPHS = (
    CodeBlock("components", "components", "links", "groups",
          "Points belong together if links lead from one to the other, in any direction. Make a group of each set of "
          "points that belong together and have a link, sorted; the groups are sorted by their smallest point.",
          "groups = []\nfor link in links:\n    touched = [group for group in groups if link[0] in group or link[1] "
          "in group]\n"
          "    groups = [group for group in groups if group not in touched]\n"
          "    groups.append(sorted({*link, *[n for group in touched for n in group]}))\ngroups.sort()"),
    CodeBlock("degrees", "degrees", "links", "numbers",
          "Write down for each point, from 0 to 7, how many links it is an end of; a link from a point to itself "
          "counts $loop.",
          "numbers = [0] * 8\nfor a, b in links:\n    if a == b:\n        numbers[a] += $loop\n    else:\n"
          "        numbers[a] += 1\n        numbers[b] += 1", {"loop": (0, 1, 2)}),
    CodeBlock("hops", "hops", "links", "numbers",
          "A link [a, b] leads from a to b only. Write down for each point, from 0 to 7, the smallest number of links "
          "that lead to it from point $start: 0 for $start itself, -1 for a point that is not reached.",
          "numbers = [-1] * 8\nnumbers[$start] = 0\nwaiting = [$start]\nwhile waiting:\n    point = waiting.pop(0)\n"
          "    for a, b in links:\n        if a == point and numbers[b] < 0:\n            numbers[b] = numbers[a] + 1\n"
          "            waiting.append(b)", {"start": range(4)}),
    CodeBlock("order", "order", "links", "numbers",
          "A link [a, b] says that a must come before b. Build an order: again and again take the smallest point that "
          "stands in a link, was not taken, and has none before it that was not taken; stop when there is none.",
          "left = sorted({point for link in links for point in link})\nnumbers = []\nready = left\nwhile ready:\n"
          "    ready = [point for point in left if not [a for a, b in links if b == point and a in left]]\n"
          "    if ready:\n        numbers.append(ready[0])\n        left = [point for point in left if point != "
          "ready[0]]"),
    CodeBlock("paths", "paths", "links", "value",
          "the number of sequences of exactly $steps links, each leading from where the one before it led to ([a, b] "
          "leads from a to b only), that begin at point $start",
          "ways = [0] * 8\nways[$start] = 1\nfor _ in range($steps):\n    after = [0] * 8\n    for a, b in links:\n"
          "        after[b] += ways[a]\n    ways = after\nvalue = sum(ways)", {"steps": (2, 3, 4), "start": range(4)}),
)
JOBS = (
    CodeBlock("serve", "first_come", "jobs", "numbers",
          "One machine does the jobs in their order, each as soon as it has arrived and the machine is free, and rests "
          "for $rest after each job whose number, from 1, is divisible by $every. Write down when each job is done.",
          "clock = 0\nnumbers = []\nfor arrival, duration in jobs:\n    clock = max(clock, arrival) + duration\n"
          "    numbers.append(clock)\n    if len(numbers) % $every == 0:\n        clock += $rest",
          {"rest": (1, 2, 3), "every": (2, 3)}),
    CodeBlock("serve", "shortest_first", "jobs", "numbers",
          "One machine does one job at a time, whole. Whenever it is free, it begins the shortest of the jobs that "
          "have arrived by then, of equally short ones the first of the list; if none has, it waits for the next "
          "arrival. Write down the positions of the jobs (from 0) in the order in which they are done.",
          "clock = 0\nnumbers = []\nwhile len(numbers) < len(jobs):\n    left = [i for i in range(len(jobs)) if i "
          "not in numbers]\n"
          "    clock = max(clock, min(jobs[i][0] for i in left))\n    here = [i for i in left if jobs[i][0] <= clock]\n"
          "    best = min(here, key=lambda i: (jobs[i][1], i))\n    clock += jobs[best][1]\n    numbers.append(best)"),
    CodeBlock("serve", "round_robin", "jobs", "numbers",
          "Forget the arrivals. The jobs stand in a queue in their order. Again and again the first is worked on for "
          "$slice, or until it is done if that is sooner; if it is not done it goes to the end of the queue. Write "
          "down when each job is done, in the order in which they are.",
          "queue = [duration for arrival, duration in jobs]\nclock = 0\nnumbers = []\nwhile queue:\n"
          "    left = queue.pop(0)\n"
          "    clock += min(left, $slice)\n    if left > $slice:\n        queue.append(left - $slice)\n    else:\n"
          "        numbers.append(clock)", {"slice": (2, 3, 4)}),
    CodeBlock("deal_jobs", "balance", "jobs", "groups",
          "Forget the arrivals. There are $machines machines. Give each job, in the order of the list, to the machine "
          "with the least work so far, of several the one of the lowest number. Take the durations of each machine's "
          "jobs as a group, in the order of the machines; machines without a job have none.",
          "groups = [[] for _ in range($machines)]\nfor arrival, duration in jobs:\n"
          "    min(groups, key=sum).append(duration)\ngroups = [group for group in groups if group]",
          {"machines": (2, 3)}),
    CodeBlock("spans_of", "spans_of", "jobs", "spans", "Take the span [arrival, arrival plus duration] of each job.",
          "spans = [[arrival, arrival + duration] for arrival, duration in jobs]"),
)
GRAMMARS = (
    CodeBlock("nesting", "nesting", "marks", "numbers",
          "Go through the brackets. An opening one is put on a stack; a closing one that fits the top takes it off; "
          "one that does not fit, or meets an empty stack, is left out. Write down the height of the stack after each "
          "bracket that is not left out.",
          "stack = []\nnumbers = []\nfor mark in marks:\n    if mark in '([':\n        stack.append(mark)\n"
          "    elif stack and stack[-1] + mark in ('()', '[]'):\n        stack.pop()\n    else:\n        continue\n"
          "    numbers.append(len(stack))"),
    CodeBlock("matches", "matches", "marks", "spans",
          "Go through the brackets, whose positions count from 0. An opening one is put on a stack; a closing one that "
          "fits the top takes it off, and makes a span [position of the opening one, position of the closing one]; one "
          "that does not fit, or meets an empty stack, is left out. The spans stand in the order of their ends.",
          "stack = []\nspans = []\nfor i, mark in enumerate(marks):\n    if mark in '([':\n        stack.append(i)\n"
          "    elif stack and marks[stack[-1]] + mark in ('()', '[]'):\n        spans.append([stack.pop(), i])"),
    CodeBlock("tokens", "operands", "formula", "numbers",
          "Take the integers that stand in the text, from left to right; one directly behind a '-' counts as negative.",
          "numbers = []\nsign = 1\ndigits = ''\nfor c in formula + ' ':\n    if c.isdigit():\n        digits += c\n"
          "    else:\n        if digits:\n            numbers.append(sign * int(digits))\n        digits = ''\n"
          "        sign = -1 if c == '-' else 1"),
    CodeBlock("evaluate", "evaluate", "formula", "value",
          "the value of the text under these rules: brackets first; '$tight' binds tighter than the other two "
          "operators; the others bind equally; equals go from left to right; every result is taken modulo $m",
          "numbers = []\nmarks = []\n\ndef reduce_top():\n    right = numbers.pop()\n    left = numbers.pop()\n"
          "    mark = marks.pop()\n"
          "    result = left + right if mark == '+' else left - right if mark == '-' else left * right\n"
          "    numbers.append(result % $m)\n\ni = 0\nwhile i < len(formula):\n    mark = formula[i]\n    i += 1\n"
          "    if mark.isdigit():\n        end = i\n        while end < len(formula) and formula[end].isdigit():\n"
          "            end += 1\n        numbers.append(int(formula[i - 1:end]) % $m)\n        i = end\n"
          "    elif mark == '(':\n        marks.append(mark)\n    elif mark == ')':\n        while marks[-1] != '(':\n"
          "            reduce_top()\n        marks.pop()\n    else:\n        while marks and marks[-1] != '(' and "
          "(marks[-1] == '$tight' or mark != '$tight'):\n            reduce_top()\n        marks.append(mark)\n"
          "while marks:\n    reduce_top()\nvalue = numbers[0]", {"tight": tuple("+-*"), "m": range(50, 99)}),
    CodeBlock("entries", "entries", "fields", "pairs",
          "Make a pair [name, points] of each entry; leave out entries that are not of this form, where a number has "
          "digits only, perhaps with '-' in front.",
          "pairs = []\nfor entry in fields.split(';'):\n    name, sign, number = entry.partition('=')\n"
          "    digits = number[1:] if number.startswith('-') else number\n    if name and digits.isdigit():\n"
          "        pairs.append([name, int(number)])"),
    CodeBlock("stack_code", "stack_code", "lines", "numbers",
          "Run the instructions: 'push N' puts N on top, 'add' and 'mul' replace the two topmost by their sum or "
          "product, 'dup' puts the topmost on top once more, 'swap' exchanges the two topmost. What is put on the "
          "stack is taken modulo $m. An instruction that lacks elements does nothing. Take the stack at the end, the "
          "top last.",
          "numbers = []\nfor line in lines:\n    parts = line.split()\n    if parts[0] == 'push':\n"
          "        numbers.append(int(parts[1]) % $m)\n    elif parts[0] == 'dup' and numbers:\n"
          "        numbers.append(numbers[-1])\n"
          "    elif parts[0] != 'dup' and len(numbers) >= 2:\n        top = numbers.pop()\n"
          "        below = numbers.pop()\n"
          "        if parts[0] == 'swap':\n            numbers += [top, below]\n        elif parts[0] == 'add':\n"
          "            numbers.append((below + top) % $m)\n        else:\n            numbers.append(below * top % $m)",
          {"m": range(11, 60)}),
    CodeBlock("minutes", "minutes", "times", "numbers",
          "Replace each time by the minutes since $hour:00, the last time that it was $hour o'clock.",
          "numbers = [(int(time[:2]) * 60 + int(time[3:]) - $hour * 60) % 1440 for time in times]",
          {"hour": range(10, 20)}),
    CodeBlock("shifts", "shifts", "times", "numbers",
          "Take the times two by two, in their order (a last one alone is left out), as start and end of a shift; an "
          "end that is not after its start is of the next day. Write down how many minutes each shift lasts, minus "
          "$rest if it lasts more than $long.",
          "clock = [int(time[:2]) * 60 + int(time[3:]) for time in times]\nnumbers = []\n"
          "for i in range(0, len(clock) - 1, 2):\n"
          "    lasts = clock[i + 1] - clock[i]\n    if lasts <= 0:\n        lasts += 1440\n    if lasts > $long:\n"
          "        lasts -= $rest\n    numbers.append(lasts)", {"rest": (15, 30, 45), "long": range(300, 700, 60)}),
)
# fmt: on
STRUCTURES: tuple[CodeBlock, ...] = (*GRIDS, *SPANS, *GRAPHS, *JOBS, *GRAMMARS)
