"""Small programs with a description, a right source and inputs: what CodeTests asks for and CodeRepair breaks.

Here are those of levels 1 to 3, and in ``programs_advanced`` those of 4 and 5.

Each row is a family: a value for every ``$parameter`` makes one program. The sources are ours and always end, return
plain data, and never print, read or change their arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Family(NamedTuple):
    """Programs that differ in their parameters.

    ``inputs`` names one generator of ``program_inputs`` for each argument; the source defines a function ``name``.
    """

    name: str
    text: str
    parameters: Mapping[str, Sequence[int | str]]
    inputs: tuple[str, ...]
    source: str


LISTS = (
    Family(
        "sum_selected",
        "Take a list of integers. Return the sum of those that are greater than $low and divisible by $d; 0 if there "
        "are none.",
        {"low": range(-8, 9), "d": range(2, 8)},
        ("ints",),
        """
def sum_selected(numbers):
    total = 0
    for number in numbers:
        if number > $low and number % $d == 0:
            total += number
    return total
""",
    ),
    Family(
        "count_far",
        "Take a list of integers and an integer. Count the elements from position $first on, in steps of "
        "$every (positions count from 0), that differ from the integer by at least $gap.",
        {"first": (0, 1, 2), "every": (2, 3), "gap": range(2, 12)},
        ("long_ints", "small"),
        """
def count_far(numbers, centre):
    count = 0
    for place in range($first, len(numbers), $every):
        if abs(numbers[place] - centre) >= $gap:
            count += 1
    return count
""",
    ),
    Family(
        "scale_and_cap",
        "Take a list of integers. Multiply each by $a and add $b; whatever is then greater than $cap becomes $cap. "
        "Return the new list in the same order.",
        {"a": range(2, 6), "b": (1, 2, 3, 4, 5, 7), "cap": (15, 20, 25, 30)},
        ("ints",),
        """
def scale_and_cap(numbers):
    result = []
    for number in numbers:
        value = number * $a + $b
        if value > $cap:
            value = $cap
        result.append(value)
    return result
""",
    ),
    Family(
        "early_letters",
        "Take a word in small letters. Keep only the letters that come before '$letter' in the alphabet, in their "
        "order, and write each of them $times times.",
        {"letter": tuple("ghijklmnopqrst"), "times": (2, 3, 4)},
        ("word",),
        """
def early_letters(word):
    kept = ""
    for letter in word:
        if letter < '$letter':
            kept += letter * $times
    return kept
""",
    ),
    Family(
        "weigh_digits",
        "Take an integer that is not negative. Add up its decimal digits, but count each digit that is at least "
        "$least $weight times.",
        {"least": range(3, 9), "weight": range(2, 10)},
        ("large",),
        """
def weigh_digits(number):
    total = 0
    while number > 0:
        digit = number % 10
        if digit >= $least:
            total += digit * $weight
        else:
            total += digit
        number = number // 10
    return total
""",
    ),
    Family(
        "count_down",
        "Take an integer n that is not negative. Return the list that begins with n and goes down in steps of "
        "$step to the last number that is not negative, without the multiples of $skip (0 is a multiple of every "
        "number).",
        {"step": range(1, 8), "skip": range(3, 12)},
        ("count",),
        """
def count_down(n):
    result = []
    while n >= 0:
        if n % $skip != 0:
            result.append(n)
        n -= $step
    return result
""",
    ),
)

LOOPS = (
    Family(
        "longest_climb",
        "Take a list of integers. A climb is a stretch of consecutive elements in which each is greater than the one "
        "before it by at least $least and at most $most. Return the length of the longest climb: 0 for an empty list, "
        "at least 1 otherwise.",
        {"least": (1, 2, 3), "most": range(5, 20)},
        ("steps",),
        """
def longest_climb(numbers):
    best = 0
    length = 0
    for place in range(len(numbers)):
        length += 1
        if place > 0:
            rise = numbers[place] - numbers[place - 1]
            if rise < $least or rise > $most:
                length = 1
        best = max(best, length)
    return best
""",
    ),
    Family(
        "shift_letters",
        "Take a word in small letters. Move each letter $shift places on in the alphabet ('a' follows 'z'), but leave "
        "every letter at a position divisible by $every as it is. Positions count from 1.",
        {"shift": range(1, 26), "every": range(2, 5)},
        ("word",),
        """
def shift_letters(word):
    result = ""
    for place in range(len(word)):
        if (place + 1) % $every == 0:
            result += word[place]
        else:
            code = ord(word[place]) - 97
            result += chr((code + $shift) % 26 + 97)
    return result
""",
    ),
    Family(
        "follow_account",
        "Take a list of integers, the movements of an account that begins at $start. After each movement a balance "
        "below $floor is set to $floor, which counts as one warning; a balance above $ceiling is set to $ceiling "
        "without one. Return the list [balance, warnings] at the end.",
        {"start": range(0, 11, 2), "floor": (-10, -5, -2), "ceiling": (15, 20, 25, 30)},
        ("long_ints",),
        """
def follow_account(moves):
    balance = $start
    warnings = 0
    for move in moves:
        balance += move
        if balance < $floor:
            balance = $floor
            warnings += 1
        elif balance > $ceiling:
            balance = $ceiling
    return [balance, warnings]
""",
    ),
    Family(
        "spread_of_chunks",
        "Take a list of integers. Cut it into pieces of $size, from the left; the last piece may be shorter. Leave out "
        "pieces of fewer than $least elements, and return the list of the others' spreads: greatest minus smallest, "
        "$times times.",
        {"size": (3, 4, 5), "least": (2, 3), "times": range(2, 8)},
        ("long_ints",),
        """
def spread_of_chunks(numbers):
    spreads = []
    for start in range(0, len(numbers), $size):
        piece = numbers[start:start + $size]
        if len(piece) >= $least:
            spreads.append((max(piece) - min(piece)) * $times)
    return spreads
""",
    ),
    Family(
        "restyle_words",
        "Take a text of words with one blank between two. Turn each word of at least $least letters around (last "
        "letter first), make every $every-th word (words count from 1) capital letters, and join all with '$sep'.",
        {"least": range(3, 7), "every": (2, 3, 4), "sep": ("-", "+", "_", "/", "..")},
        ("text",),
        """
def restyle_words(text):
    result = []
    count = 0
    for word in text.split():
        count += 1
        if len(word) >= $least:
            word = word[::-1]
        if count % $every == 0:
            word = word.upper()
        result.append(word)
    return '$sep'.join(result)
""",
    ),
    Family(
        "count_steps",
        "Take a positive integer n. Repeat: if n is divisible by $d, divide it by $d; otherwise multiply it by $m and "
        "add $a. Stop as soon as n is at most $stop, or after $cap steps. Return how many steps were taken.",
        {"d": (2, 3), "m": (1, 2), "a": (1, 3, 5), "stop": (1, 2, 4), "cap": (12, 20, 30)},
        ("count_from_one",),
        """
def count_steps(n):
    steps = 0
    while n > $stop and steps < $cap:
        if n % $d == 0:
            n = n // $d
        else:
            n = n * $m + $a
        steps += 1
    return steps
""",
    ),
)

TABLES = (
    Family(
        "leading_names",
        "Take a list of pairs [name, points]. Add up the points of each name. Return the names with a total of at "
        "least $least, the greatest total first and names of equal total in the order of the alphabet, at most $most "
        "of them.",
        {"least": range(-3, 13), "most": range(2, 6)},
        ("scores",),
        """
def leading_names(scores):
    totals = {}
    for name, points in scores:
        totals[name] = totals.get(name, 0) + points
    names = [name for name in totals if totals[name] >= $least]
    names.sort(key=lambda name: (-totals[name], name))
    return names[:$most]
""",
    ),
    Family(
        "join_spans",
        "Take a list of spans [start, end] with start <= end, in any order. Join spans that overlap or whose distance "
        "(the later start minus the earlier end) is at most $gap, over and over. Return those joined spans that are "
        "at least $least long (end minus start), in the order of their starts.",
        {"gap": range(6), "least": range(1, 9)},
        ("spans",),
        """
def join_spans(spans):
    joined = []
    for start, end in sorted(spans):
        if joined and start - joined[-1][1] <= $gap:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return [span for span in joined if span[1] - span[0] >= $least]
""",
    ),
    Family(
        "shorten_runs",
        "Take a word. Replace each longest stretch of one letter that is at least $least long by the letter, '$mark' "
        "and its length (as 'aaaa' becomes 'a${mark}4'); leave shorter stretches as they are.",
        {"least": range(2, 6), "mark": ("*", ":", "x", "#", "=", "^", "~", "@")},
        ("runs",),
        """
def shorten_runs(word):
    result = ""
    place = 0
    while place < len(word):
        end = place
        while end < len(word) and word[end] == word[place]:
            end += 1
        length = end - place
        if length >= $least:
            result += word[place] + '$mark' + str(length)
        else:
            result += word[place] * length
        place = end
    return result
""",
    ),
    Family(
        "bracket_depth",
        "Take a text of round and square brackets. If it is properly nested and nowhere deeper than $limit, return "
        "$a times the greatest depth plus $b times the number of pairs of square brackets; otherwise return -1. The "
        "empty text has depth 0.",
        {"limit": range(2, 5), "a": range(2, 7), "b": range(2, 7)},
        ("brackets",),
        """
def bracket_depth(text):
    opened = []
    deepest = 0
    squares = 0
    for mark in text:
        if mark in '([':
            opened.append(mark)
            deepest = max(deepest, len(opened))
        else:
            if not opened or (opened.pop() == '(') != (mark == ')'):
                return -1
            if mark == ']':
                squares += 1
    if opened or deepest > $limit:
        return -1
    return deepest * $a + squares * $b
""",
    ),
    Family(
        "heavy_windows",
        "Take a list of integers. Look at every window of $width neighbouring elements, and return the list of the "
        "starting positions (from 0) of those whose sum is greater than $bound and whose first element is not the "
        "greatest of the window.",
        {"width": range(2, 6), "bound": range(-6, 10)},
        ("long_ints",),
        """
def heavy_windows(numbers):
    places = []
    for start in range(len(numbers) - $width + 1):
        window = numbers[start:start + $width]
        if sum(window) > $bound and window[0] < max(window):
            places.append(start)
    return places
""",
    ),
    Family(
        "frame_score",
        "Take a grid: a list of rows of integers, all of one length. Add up all its cells with these weights: $corner "
        "for the four corners, $edge for the other cells of the border, and minus $inner for all cells inside. A cell "
        "that is a corner in two ways counts once.",
        {"corner": range(2, 8), "edge": range(1, 6), "inner": range(1, 5)},
        ("grid",),
        """
def frame_score(grid):
    total = 0
    height = len(grid)
    width = len(grid[0])
    for row in range(height):
        for column in range(width):
            rim = (row == 0 or row == height - 1) + (column == 0 or column == width - 1)
            if rim == 2:
                total += grid[row][column] * $corner
            elif rim == 1:
                total += grid[row][column] * $edge
            else:
                total -= grid[row][column] * $inner
    return total
""",
    ),
)
