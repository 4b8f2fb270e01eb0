"""Blocks on whole lists, groups, words, texts, tables of pairs, and single integers."""

from __future__ import annotations

from rlvr.envs.agentic.programs.structure import CodeBlock

# fmt: off
NUMBERS = (
    CodeBlock("steps", "steps", "numbers", "numbers",
          "Replace the list by the differences between neighbours, each number minus the one before it.",
          "numbers = [numbers[i] - numbers[i - 1] for i in range(1, len(numbers))]"),
    CodeBlock("running", "running", "numbers", "numbers",
          "Replace each number by the sum of it and all before it.",
          "total = 0\nsums = []\nfor n in numbers:\n    total += n\n    sums.append(total)\nnumbers = sums"),
    CodeBlock("records", "records", "numbers", "numbers",
          "Keep only the numbers that are greater than all before them; the first number always stays.",
          "kept = []\nfor n in numbers:\n    if not kept or n > kept[-1]:\n        kept.append(n)\nnumbers = kept"),
    CodeBlock("every", "every", "numbers", "numbers",
          "Keep only the numbers at positions divisible by $k; positions count from $base.",
          "numbers = [n for i, n in enumerate(numbers) if (i + $base) % $k == 0]", {"k": (2, 3), "base": (0, 1)}),
    CodeBlock("turn", "turn", "numbers", "numbers",
          "Move the first $k numbers to the end, or as many as there are, in their order.",
          "numbers = numbers[$k:] + numbers[:$k]", {"k": (2, 3)}),
    CodeBlock("fold", "fold", "numbers", "numbers",
          "Replace the list by the sums of the first and the last number, the second and the last but one, and so on; "
          "a number in the middle stands alone.",
          "sums = []\nlow = 0\nhigh = len(numbers) - 1\nwhile low < high:\n    sums.append(numbers[low] + "
          "numbers[high])\n"
          "    low += 1\n    high -= 1\nif low == high:\n    sums.append(numbers[low])\nnumbers = sums"),
    CodeBlock("ranks", "ranks", "numbers", "numbers",
          "Replace each number by how many different numbers of the list are smaller than it.",
          "numbers = [len({m for m in numbers if m < n}) for n in numbers]"),
    CodeBlock("merge_equal", "merge_equal", "numbers", "numbers",
          "Go from left to right and build a new list: a number that equals the last one of the new list is added to "
          "it, and the sum stays in its position; any other is put at the end.",
          "merged = []\nfor n in numbers:\n    if merged and merged[-1] == n:\n        merged[-1] += n\n    else:\n"
          "        merged.append(n)\nnumbers = merged"),
    CodeBlock("clash", "clash", "numbers", "numbers",
          "Take a stack, empty at first. Go through the numbers: while the stack is not empty and its top is smaller "
          "than the number by at least $gap, take the top off; then put the number on top. Keep the stack, the top "
          "last.",
          "stack = []\nfor n in numbers:\n    while stack and n - stack[-1] >= $gap:\n        stack.pop()\n"
          "    stack.append(n)\nnumbers = stack", {"gap": (1, 2, 3, 4)}),
    CodeBlock("next_greater", "next_greater", "numbers", "numbers",
          "Replace each number by the distance in positions to the next greater number behind it, 0 if there is none.",
          "waits = [0] * len(numbers)\nfor i in range(len(numbers)):\n    for j in range(i + 1, len(numbers)):\n"
          "        if numbers[j] > numbers[i]:\n            waits[i] = j - i\n            break\nnumbers = waits"),
    CodeBlock("cache", "cache", "numbers", "numbers",
          "The numbers arrive one after the other at a store with $size slots, empty at first. A number that is in the "
          "store moves to its end. Any other is put at its end; if the store was full, its first number leaves before. "
          "Keep the numbers that left, in the order in which they did.",
          "store = []\ngone = []\nfor n in numbers:\n    if n in store:\n        store.remove(n)\n"
          "    elif len(store) >= $size:\n        gone.append(store.pop(0))\n    store.append(n)\nnumbers = gone",
          {"size": (2, 3)}),
    CodeBlock("walk", "walk", "numbers", "numbers",
          "A walker begins at 0 on a ring of $ring cells, numbered from 0. For each number it goes as many cells "
          "forward (backward if the number is negative), and $more further if the cell that it reached was visited "
          "before (0 was). Replace the list by the cells at which it ended each time.",
          "cell = 0\nvisited = {0}\ncells = []\nfor n in numbers:\n    cell = (cell + n) % $ring\n"
          "    if cell in visited:\n"
          "        cell = (cell + $more) % $ring\n    visited.add(cell)\n    cells.append(cell)\nnumbers = cells",
          {"ring": range(7, 12), "more": (1, 2, 3)}),
    CodeBlock("pieces", "pieces", "numbers", "groups",
          "Cut the list into groups of $size, from the left; the last group may be smaller.",
          "groups = [numbers[i:i + $size] for i in range(0, len(numbers), $size)]", {"size": (2, 3, 4)}),
    CodeBlock("windows", "windows", "numbers", "groups",
          "Take every stretch of $size neighbouring numbers as a group, from left to right.",
          "groups = [numbers[i:i + $size] for i in range(len(numbers) - $size + 1)]", {"size": (2, 3)}),
    CodeBlock("climbs", "climbs", "numbers", "groups",
          "Cut the list into groups: a new group begins with each number that is not greater than the one before it.",
          "groups = []\nfor n in numbers:\n    if groups and n > groups[-1][-1]:\n        groups[-1].append(n)\n"
          "    else:\n        groups.append([n])"),
    CodeBlock("classes", "classes", "numbers", "groups",
          "Put numbers with the same remainder modulo $m into one group. The groups stand in the order of their "
          "remainders (never negative), the numbers of a group in their own order.",
          "groups = [[n for n in numbers if n % $m == rest] for rest in range($m)]\n"
          "groups = [group for group in groups if group]", {"m": (2, 3, 4)}),
    CodeBlock("fill", "fill", "numbers", "groups",
          "Fill groups from left to right: a number joins the last group if the sum of its absolute values stays at "
          "most $room with it; otherwise it begins a new group.",
          "groups = []\nused = 0\nfor n in numbers:\n    if groups and used + abs(n) <= $room:\n"
          "        groups[-1].append(n)\n"
          "        used += abs(n)\n    else:\n        groups.append([n])\n        used = abs(n)",
          {"room": range(9, 16)}),
    CodeBlock("sum", "sum", "numbers", "value", "the sum of the numbers", "value = sum(numbers)"),
    CodeBlock("swing", "swing", "numbers", "value",
          "the first number minus the second plus the third and so on, 0 if there are none",
          "value = 0\nsign = 1\nfor n in numbers:\n    value += sign * n\n    sign = -sign"),
    CodeBlock("spread", "spread", "numbers", "value",
          "the greatest of the numbers minus the smallest, -1 if there are none",
          "value = max(numbers) - min(numbers) if numbers else -1"),
    CodeBlock("hash", "hash", "numbers", "value",
          "the value that is $start at first, and for each number becomes its product with $base plus the number, "
          "modulo $m",
          "value = $start\nfor n in numbers:\n    value = (value * $base + n) % $m",
          {"start": (0, 1, 2), "base": (2, 3, 5), "m": range(50, 60)}),
    CodeBlock("second", "second", "numbers", "value",
          "the second greatest of the different numbers, $none if there are fewer than two",
          "different = sorted(set(numbers))\nvalue = different[-2] if len(different) >= 2 else $none",
          {"none": (-1, 0, 99)}),
    CodeBlock("usual", "usual", "numbers", "value",
          "the number that occurs most often, the smallest of several such numbers, $none if there are no numbers",
          "value = $none\nif numbers:\n    value = min(numbers, key=lambda n: (-numbers.count(n), n))",
          {"none": (-1, 0, 99)}),
    CodeBlock("inversions", "inversions", "numbers", "value",
          "the number of pairs of positions at which the earlier number is greater than the later one by at least $gap",
          "value = 0\nfor i in range(len(numbers)):\n    for j in range(i):\n        if numbers[j] - numbers[i] >= "
          "$gap:\n"
          "            value += 1", {"gap": (1, 2, 3)}),
    CodeBlock("best_stretch", "best_stretch", "numbers", "value",
          "the greatest sum of a stretch of neighbouring numbers, minus $cost for each of them; 0, of an empty "
          "stretch, is the least",
          "value = 0\ntotal = 0\nfor n in numbers:\n    total = max(total + n - $cost, 0)\n"
          "    value = max(value, total)",
          {"cost": (1, 2)}),
)
GROUPS = (
    CodeBlock("fold_groups", "fold_sum", "groups", "numbers", "Replace each group by the sum of its numbers.",
          "numbers = [sum(group) for group in groups]"),
    CodeBlock("fold_groups", "fold_spread", "groups", "numbers",
          "Replace each group by the greatest of its numbers minus the smallest.",
          "numbers = [max(group) - min(group) for group in groups]"),
    CodeBlock("fold_groups", "fold_ends", "groups", "numbers",
          "Replace each group by $a times its first number minus its last.",
          "numbers = [$a * group[0] - group[-1] for group in groups]", {"a": (2, 3)}),
    CodeBlock("fold_groups", "fold_crowd", "groups", "numbers",
          "Replace each group by its size times its smallest number.",
          "numbers = [len(group) * min(group) for group in groups]"),
    CodeBlock("flatten", "flatten", "groups", "numbers",
          "Join the groups to one list of numbers, from the last group to the first; each group keeps its order.",
          "numbers = [n for group in reversed(groups) for n in group]"),
    CodeBlock("weave", "weave", "groups", "numbers",
          "Join the groups to one list: the first number of each group, in the order of the groups, then the second of "
          "each that has one, and so on.",
          "numbers = []\nfor i in range(max([len(group) for group in groups], default=0)):\n    for group in groups:\n"
          "        if i < len(group):\n            numbers.append(group[i])"),
    CodeBlock("drop_groups", "drop_small", "groups", "groups", "Leave out the groups of fewer than $least numbers.",
          "groups = [group for group in groups if len(group) >= $least]", {"least": (2,)}),
    CodeBlock("drop_groups", "drop_light", "groups", "groups", "Leave out the groups with a sum smaller than $least.",
          "groups = [group for group in groups if sum(group) >= $least]", {"least": range(-3, 4)}),
    CodeBlock("sort_groups", "sort_groups", "groups", "groups",
          "Sort the groups by their sums, the greatest first; groups of equal sum keep their order.",
          "groups = sorted(groups, key=lambda group: -sum(group))"),
    CodeBlock("flip_groups", "flip_groups", "groups", "groups",
          "Reverse each group whose first number is smaller than its last.",
          "groups = [group[::-1] if group[0] < group[-1] else group for group in groups]"),
    CodeBlock("score_groups", "score_groups", "groups", "value",
          "the sum over the groups of the position of the group, counted from 1, times its greatest number",
          "value = sum(i * max(group) for i, group in enumerate(groups, 1))"),
    CodeBlock("most_groups", "heaviest", "groups", "value",
          "the position, counted from 0, of the group with the greatest sum, the first of several; -1 without groups",
          "sums = [sum(group) for group in groups]\nvalue = sums.index(max(sums)) if sums else -1"),
)
WORDS = (
    CodeBlock("ladder", "ladder", "words", "words",
          "Keep a word only if it begins with a letter that is not in the word kept last; the first is kept.",
          "kept = []\nfor w in words:\n    if not kept or w[0] not in kept[-1]:\n        kept.append(w)\nwords = kept"),
    CodeBlock("glue", "glue", "words", "words",
          "Go from left to right: a word of at most $short letters is joined to the front of the word behind it, which "
          "is then looked at with these letters; the last word is always kept.",
          "kept = []\nfront = ''\nfor i, w in enumerate(words):\n    w = front + w\n    front = ''\n"
          "    if len(w) <= $short and i < len(words) - 1:\n        front = w\n    else:\n        kept.append(w)\n"
          "words = kept",
          {"short": (2, 3)}),
    CodeBlock("tally", "tally", "words", "pairs",
          "Make a pair [name, points] of each different word and how often it occurs, in alphabetical order.",
          "pairs = [[w, words.count(w)] for w in sorted(set(words))]"),
    CodeBlock("initials", "initials", "words", "pairs",
          "Make a pair [name, points] of each letter that begins a word and the total length of the words that it "
          "begins, in the order in which these letters first occur.",
          "totals = {}\nfor w in words:\n    totals[w[0]] = totals.get(w[0], 0) + len(w)\n"
          "pairs = [[letter, total] for letter, total in totals.items()]"),
    CodeBlock("join", "join", "words", "line", "the text of the words, with '$mark' between two",
          "line = '$mark'.join(words)", {"mark": ("-", "+", "_", "/")}),
    CodeBlock("acronym", "acronym", "words", "line",
          "the text of the letters at position $k of each word (from 0), or its last letter where it is too short",
          "line = ''.join(w[min($k, len(w) - 1)] for w in words)", {"k": (0, 1, 2)}),
    CodeBlock("wrap", "wrap", "words", "numbers",
          "Set the words in lines of at most $width characters, one blank between two words, as many words in each "
          "line as fit; a longer word has a line of its own. Write down the lengths of the lines.",
          "numbers = []\nfor w in words:\n    if numbers and numbers[-1] + 1 + len(w) <= $width:\n"
          "        numbers[-1] += 1 + len(w)\n    else:\n        numbers.append(len(w))", {"width": range(8, 15)}),
)
TEXTS = (
    CodeBlock("split", "split", "text", "words", "Split the text into its words.", "words = text.split()"),
    CodeBlock("split_sorted", "split_sorted", "text", "words", "Split the text into its words, and sort them "
          "alphabetically.",
          "words = sorted(text.split())"),
    CodeBlock("codes", "codes", "letters", "numbers",
          "Replace each letter by its position in the alphabet, where a is $first.",
          "numbers = [ord(c) - 97 + $first for c in letters]", {"first": (0, 1)}),
    CodeBlock("runs", "runs", "letters", "pairs",
          "Cut the word into stretches of equal letters, as long as they can be, and make a pair [name, points] of the "
          "letter and the length of each, from left to right.",
          "pairs = []\nfor c in letters:\n    if pairs and pairs[-1][0] == c:\n        pairs[-1][1] += 1\n    else:\n"
          "        pairs.append([c, 1])"),
    CodeBlock("spots", "spots", "letters", "groups",
          "For each different letter, in alphabetical order, take the group of the positions at which it stands, "
          "counted from $base.",
          "groups = [[i for i, c in enumerate(letters, $base) if c == letter] for letter in sorted(set(letters))]",
          {"base": (0, 1)}),
    CodeBlock("shift", "shift", "letters", "letters",
          "Move each letter $k letters on in the alphabet ('a' follows 'z'), and one letter further at odd positions, "
          "counted from 0.",
          "letters = ''.join(chr((ord(c) - 97 + $k + i % 2) % 26 + 97) for i, c in enumerate(letters))",
          {"k": range(2, 20)}),
    CodeBlock("squeeze", "squeeze", "letters", "letters",
          "Cross out neighbouring letters that are equal, two at a time, until there are none any more.",
          "left = []\nfor c in letters:\n    if left and left[-1] == c:\n        left.pop()\n    else:\n"
          "        left.append(c)\nletters = ''.join(left)"),
)
PAIRS = (
    CodeBlock("totals", "totals", "pairs", "pairs",
          "Add up the points of each name: one pair for each, in alphabetical order of the names.",
          "totals = {}\nfor name, points in pairs:\n    totals[name] = totals.get(name, 0) + points\n"
          "pairs = [[name, totals[name]] for name in sorted(totals)]"),
    CodeBlock("totals", "latest", "pairs", "pairs",
          "Keep only the last pair of each name, in the order in which the names first occur.",
          "last = {}\nfor name, points in pairs:\n    last[name] = points\n"
          "pairs = [[name, points] for name, points in last.items()]"),
    CodeBlock("totals", "best_of", "pairs", "pairs",
          "Keep the greatest points of each name: one pair for each, in alphabetical order of the names.",
          "best = {}\nfor name, points in pairs:\n    best[name] = max(points, best.get(name, points))\n"
          "pairs = [[name, best[name]] for name in sorted(best)]"),
    CodeBlock("pass", "pass", "pairs", "pairs", "Leave out the pairs with fewer than $least points.",
          "pairs = [[name, points] for name, points in pairs if points >= $least]", {"least": (2, 3, 4)}),
    CodeBlock("rank", "rank", "pairs", "pairs",
          "Sort the pairs by their points, the greatest first; pairs of equal points are sorted by name.",
          "pairs = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))"),
    CodeBlock("podium", "podium", "pairs", "words",
          "Take the names of the pairs with the most points, at most $most of them; pairs of equal points keep their "
          "order.",
          "words = [name for name, points in sorted(pairs, key=lambda pair: -pair[1])[:$most]]", {"most": (2, 3)}),
    CodeBlock("points", "points", "pairs", "numbers", "Take the points of the pairs, in their order.",
          "numbers = [points for name, points in pairs]"),
    CodeBlock("teams", "teams", "pairs", "groups",
          "Put the points of each name into one group, the groups in the order in which the names first occur.",
          "teams = {}\nfor name, points in pairs:\n    teams.setdefault(name, []).append(points)\n"
          "groups = list(teams.values())"),
    CodeBlock("leader", "leader", "pairs", "value",
          "the points of the pair with the most points minus those of the pair with the next most, $none if there are "
          "fewer than two",
          "points = sorted([pair[1] for pair in pairs])\nvalue = points[-1] - points[-2] if len(points) >= 2 else "
          "$none",
          {"none": (-1, 99)}),
    CodeBlock("mean", "mean", "pairs", "value",
          "the mean of the points, rounded down to a whole number, plus $plus; 0 if there are no pairs",
          "value = sum(pair[1] for pair in pairs) // len(pairs) + $plus if pairs else 0", {"plus": (1, 2, 3)}),
)
VALUES = (
    CodeBlock("digits", "digits", "value", "numbers",
          "Write the integer in base $base, and take its digits, the last one first; 0 has none.",
          "rest = value\nnumbers = []\nwhile rest > 0:\n    numbers.append(rest % $base)\n    rest //= $base",
          {"base": (2, 3, 4, 7, 10)}),
    CodeBlock("divisors", "divisors", "value", "numbers",
          "Take all positive divisors of the integer plus $plus, in ascending order.",
          "whole = value + $plus\nnumbers = [d for d in range(1, whole + 1) if whole % d == 0]", {"plus": (1, 2, 3)}),
    CodeBlock("factors", "factors", "value", "numbers",
          "Take the prime factors of the integer plus $plus in ascending order, each as often as it divides it; 1 has "
          "none.",
          "rest = value + $plus\nnumbers = []\nd = 2\nwhile rest > 1:\n    if rest % d == 0:\n"
          "        numbers.append(d)\n"
          "        rest //= d\n    else:\n        d += 1", {"plus": (1, 2, 3)}),
    CodeBlock("descend", "descend", "value", "numbers",
          "Write down the integer, and go on: if it is divisible by $d, divide it by $d; otherwise multiply it by $m "
          "and add $a. Stop after a number that is smaller than $stop, or after $cap numbers.",
          "n = value\nnumbers = [n]\nwhile n >= $stop and len(numbers) < $cap:\n    n = n // $d if n % $d == 0 else "
          "n * $m + $a\n"
          "    numbers.append(n)", {"d": (2, 3), "m": (2, 3), "a": (1, 5), "stop": (3, 5), "cap": (8, 12)}),
    CodeBlock("powers", "powers", "value", "numbers",
          "Take the remainders modulo $m of the first, second, third and so on power of the integer, up to the first "
          "that occurs for the second time, which is left out.",
          "numbers = []\nn = value % $m\nwhile n not in numbers:\n    numbers.append(n)\n    n = n * value % $m",
          {"m": range(9, 24)}),
)
# fmt: on
LISTS: tuple[CodeBlock, ...] = (*NUMBERS, *GROUPS, *WORDS, *TEXTS, *PAIRS, *VALUES)
