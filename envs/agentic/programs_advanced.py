"""The programs of levels 4 and 5 of CodeTests and CodeRepair: methods with a name, and simulations of a system."""

from __future__ import annotations

from rlvr.envs.agentic.programs import LISTS, LOOPS, TABLES, Family
from rlvr.envs.agentic.programs_composed import COMPOSED

METHODS = (
    Family(
        "count_ways",
        "Take a grid: a list of rows of integers, all of one length. Count the ways from the top left to the bottom "
        "right cell by steps right and down that use only cells smaller than $wall (the first and the last too). "
        "Return the number modulo $modulus.",
        {"wall": range(6, 9), "modulus": (5, 7, 11, 13, 17, 19, 23, 97, 101, 1000)},
        ("open_grid",),
        """
def count_ways(grid):
    ways = {}
    for row in range(len(grid)):
        for column in range(len(grid[0])):
            if grid[row][column] >= $wall:
                ways[row, column] = 0
            elif row == 0 and column == 0:
                ways[row, column] = 1
            else:
                ways[row, column] = ways.get((row - 1, column), 0) + ways.get((row, column - 1), 0)
    return ways[len(grid) - 1, len(grid[0]) - 1] % $modulus
""",
    ),
    Family(
        "ways_to_pay",
        "Take an amount that is not negative. In how many ways can it be paid with coins of $a, $b and $c, as many of "
        "each as wanted, except that at most $most coins of $c are used? The order does not matter; 0 is paid in one "
        "way.",
        {"a": (1, 2, 3), "b": (4, 5), "c": (7, 9, 11), "most": (2, 3, 4, 5)},
        ("count",),
        """
def ways_to_pay(amount):
    ways = 0
    for large in range($most + 1):
        rest = amount - large * $c
        while rest >= 0:
            if rest % $a == 0:
                ways += 1
            rest -= $b
    return ways
""",
    ),
    Family(
        "run_stack",
        "Take a list of instructions for a stack of integers, which is empty at first: 'push N' puts N on top, 'add' "
        "and 'mul' replace the two topmost by their sum or product, 'dup' puts the topmost on top once more, 'swap' "
        "exchanges the two topmost. Everything that is put on the stack is taken modulo $modulus. Return the stack, "
        "the top last; return [-1] if an instruction lacks elements, or if there are ever more than $limit.",
        {"modulus": (7, 10, 13, 16, 19, 25, 50, 97, 100), "limit": (3, 4, 5, 6)},
        ("stack_code",),
        """
def run_stack(program):
    stack = []
    for line in program:
        parts = line.split()
        needed = {'push': 0, 'dup': 1}.get(parts[0], 2)
        if len(stack) < needed:
            return [-1]
        if parts[0] == 'push':
            stack.append(int(parts[1]) % $modulus)
        elif parts[0] == 'dup':
            stack.append(stack[-1])
        else:
            top = stack.pop()
            below = stack.pop()
            if parts[0] == 'add':
                stack.append((below + top) % $modulus)
            elif parts[0] == 'mul':
                stack.append(below * top % $modulus)
            else:
                stack.append(top)
                stack.append(below)
        if len(stack) > $limit:
            return [-1]
    return stack
""",
    ),
    Family(
        "edit_cost",
        "Take two words. Return the least cost of turning the first into the second by steps on single letters: "
        "inserting one costs $insert, deleting one $delete, and replacing one by another $replace.",
        {"insert": range(1, 5), "delete": range(1, 5), "replace": range(1, 8)},
        ("short_word", "short_word"),
        """
def edit_cost(first, second):
    row = [place * $insert for place in range(len(second) + 1)]
    for letter in first:
        above = row
        row = [above[0] + $delete]
        for place in range(len(second)):
            change = above[place]
            if letter != second[place]:
                change += $replace
            row.append(min(change, above[place + 1] + $delete, row[place] + $insert))
    return row[-1]
""",
    ),
    Family(
        "island_sizes",
        "Take a grid: a list of rows of integers, all of one length. Cells of at least $least are land. Land cells "
        "belong to one island if one can be reached from the other over land, $how. Return the sizes of the islands of "
        "at least $size cells, the greatest first.",
        {
            "least": range(3, 8),
            "size": (1, 2, 3),
            "how": ("by steps up, down, left and right", "by steps up, down, left, right and diagonally"),
        },
        ("grid",),
        """
def island_sizes(grid):
    diagonal = 'diagonally' in '$how'
    land = []
    for row in range(len(grid)):
        for column in range(len(grid[0])):
            if grid[row][column] >= $least:
                land.append((row, column))
    sizes = []
    while land:
        reached = [land.pop()]
        size = 0
        while reached:
            row, column = reached.pop()
            size += 1
            for other in list(land):
                down = abs(other[0] - row)
                across = abs(other[1] - column)
                if down + across == 1 or (diagonal and down == 1 and across == 1):
                    land.remove(other)
                    reached.append(other)
        if size >= $size:
            sizes.append(size)
    return sorted(sizes, reverse=True)
""",
    ),
    Family(
        "best_load",
        "Take a list of items [weight, value], all positive. Choose at most $most of them with a total weight of at "
        "most $cap, each once, so that the total value is greatest. Return that value.",
        {"most": (2, 3, 4), "cap": range(8, 26)},
        ("items",),
        """
def best_load(items):
    best = {(0, 0): 0}
    for weight, value in items:
        for (count, load), worth in list(best.items()):
            if count < $most and load + weight <= $cap:
                key = (count + 1, load + weight)
                best[key] = max(best.get(key, 0), worth + value)
    return max(best.values())
""",
    ),
)

SYSTEMS = (
    Family(
        "cheapest_path",
        "Take a grid: a list of rows of integers from 0 to 9, all of one length. From the top left cell go to the "
        "bottom right one by steps up, down, left and right. Entering a cell costs its number, and $toll more if that "
        "number is greater than the one of the cell that is left by at least $rise. Return the least total cost; the "
        "first cell costs nothing.",
        {"toll": range(1, 13), "rise": range(1, 7)},
        ("grid",),
        """
def cheapest_path(grid):
    height = len(grid)
    width = len(grid[0])
    costs = {(0, 0): 0}
    waiting = [(0, 0)]
    while waiting:
        row, column = waiting.pop(0)
        for down, across in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            place = (row + down, column + across)
            if 0 <= place[0] < height and 0 <= place[1] < width:
                number = grid[place[0]][place[1]]
                cost = costs[row, column] + number
                if number - grid[row][column] >= $rise:
                    cost += $toll
                if place not in costs or cost < costs[place]:
                    costs[place] = cost
                    waiting.append(place)
    return costs[height - 1, width - 1]
""",
    ),
    Family(
        "cache_hits",
        "Take a list of requests, each the name of a page. A cache holds $size pages and is empty at first. A request "
        "for a page in the cache is a hit; any other puts the page in, and if the cache was full, throws out the page "
        "$rule. After every $flush-th request (hits count too) the cache is emptied. Return the number of hits.",
        {
            "size": (2, 3, 4),
            "flush": range(5, 12),
            "rule": ("that was requested least recently", "that has been in it for longest"),
        },
        ("requests",),
        """
def cache_hits(requests):
    recent = 'requested' in '$rule'
    cache = []
    hits = 0
    for place in range(len(requests)):
        page = requests[place]
        if page in cache:
            hits += 1
            if recent:
                cache.remove(page)
                cache.append(page)
        else:
            if len(cache) == $size:
                cache.pop(0)
            cache.append(page)
        if (place + 1) % $flush == 0:
            cache = []
    return hits
""",
    ),
    Family(
        "evaluate",
        "Take a text of integers, the operators '+', '-' and '*', and round brackets, without blanks, as in "
        "'2*(3+4)-5'. Return its value under these rules: brackets first; '$tight' binds tighter than the other two; "
        "the other two bind equally; equals go from left to right. Take every intermediate result modulo $modulus.",
        {"tight": ("+", "-", "*"), "modulus": (7, 9, 11, 16, 23, 29, 31, 50, 64, 97, 100, 101, 128, 500, 997, 1000)},
        ("expression",),
        """
def evaluate(text):
    numbers = []
    marks = []

    def reduce_top():
        right = numbers.pop()
        left = numbers.pop()
        mark = marks.pop()
        if mark == '+':
            value = left + right
        elif mark == '-':
            value = left - right
        else:
            value = left * right
        numbers.append(value % $modulus)

    place = 0
    while place < len(text):
        mark = text[place]
        place += 1
        if mark.isdigit():
            end = place
            while end < len(text) and text[end].isdigit():
                end += 1
            numbers.append(int(text[place - 1:end]) % $modulus)
            place = end
        elif mark == '(':
            marks.append(mark)
        elif mark == ')':
            while marks[-1] != '(':
                reduce_top()
            marks.pop()
        else:
            while marks and marks[-1] != '(' and (marks[-1] == '$tight' or mark != '$tight'):
                reduce_top()
            marks.append(mark)
    while marks:
        reduce_top()
    return numbers[0]
""",
    ),
    Family(
        "best_rising_sum",
        "Take a list of integers. Pick elements from left to right so that each is greater than the one picked before "
        "it, at most $reach places behind it, and by at most $rise greater. Return the greatest sum of at least one "
        "picked element; 0 for an empty list.",
        {"reach": range(2, 6), "rise": range(3, 21)},
        ("long_ints",),
        """
def best_rising_sum(numbers):
    best = []
    for place in range(len(numbers)):
        sums = [numbers[place]]
        for earlier in range(max(0, place - $reach), place):
            rise = numbers[place] - numbers[earlier]
            if 0 < rise <= $rise:
                sums.append(best[earlier] + numbers[place])
        best.append(max(sums))
    return max(best, default=0)
""",
    ),
    Family(
        "assign_rooms",
        "Take a list of meetings [start, end] with start < end. They are given rooms in the order of their starts, and "
        "of their ends where starts are equal. A room is free again $pause after the end of its last meeting (at that "
        "very time it may be used), and each meeting gets the free room of the lowest number; rooms count from 1, and "
        "there are $rooms. A meeting that finds none is moved to nobody's room, 0. Return the list of rooms in the "
        "order in which they were given.",
        {"pause": range(9), "rooms": (2, 3, 4, 5)},
        ("meetings",),
        """
def assign_rooms(meetings):
    free_at = [0] * $rooms
    given = []
    for start, end in sorted(meetings):
        chosen = 0
        for room in range($rooms):
            if free_at[room] <= start:
                chosen = room + 1
                free_at[room] = end + $pause
                break
        given.append(chosen)
    return given
""",
    ),
    Family(
        "grow_cells",
        "Take a grid: a list of rows of integers, all of one length. A cell is alive if its number is at least "
        "$least. In each of $rounds rounds all cells change at once: a live cell stays alive if it has from $low to "
        "$high live neighbours, a dead one comes alive if it has exactly $birth. Neighbours are the up to eight cells "
        "around it. Return the number of live cells at the end.",
        {"least": (4, 5, 6), "rounds": (1, 2, 3), "low": (1, 2), "high": (3, 4), "birth": (2, 3)},
        ("grid",),
        """
def grow_cells(grid):
    cells = [(row, column) for row in range(len(grid)) for column in range(len(grid[0]))]
    alive = [cell for cell in cells if grid[cell[0]][cell[1]] >= $least]
    for _ in range($rounds):
        after = []
        for row, column in cells:
            near = 0
            for other in alive:
                if other != (row, column) and abs(other[0] - row) <= 1 and abs(other[1] - column) <= 1:
                    near += 1
            if (row, column) in alive:
                if $low <= near <= $high:
                    after.append((row, column))
            elif near == $birth:
                after.append((row, column))
        alive = after
    return len(alive)
""",
    ),
)

LEVELS: tuple[tuple[Family, ...], ...] = tuple(
    written + composed for written, composed in zip((LISTS, LOOPS, TABLES, SYSTEMS, METHODS), COMPOSED, strict=True)
)
