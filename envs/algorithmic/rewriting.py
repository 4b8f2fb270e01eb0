"""Texts that grow, shrink and match by rules.

Observation: rules or patterns, a text to start from, and what is asked of the result.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache
from itertools import pairwise, permutations, product
from typing import ClassVar, NamedTuple

from rlvr.envs.algorithmic import data_workings
from rlvr.envs.tasks.answers import ListAnswerTask, items, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained

_PAIRS, _TRIPLES = (["".join(letters) for letters in product("abc", repeat=size)] for size in (2, 3))
# One, two or three letters, each number of them equally often.
_RIGHTS = [triple[:size] for triple in _TRIPLES for size in (1, 2, 3)]
_SIXES = [a + b for a in _TRIPLES for b in _TRIPLES]
_RULE, _START = re.compile("([abc]+) -> ([abc]+)"), re.compile("text ([abc]+) and make ([0-9]+) steps")


@cache
def lefts(count: int) -> list[tuple[str, ...]]:
    """What so many rules may replace, in order."""
    return list(permutations(_PAIRS, count))


class StringRewriting(ListAnswerTask):
    """Apply rewriting rules to a text.

    Levels 1 to 5: two to four rules, and 4, 7, 10, 14 and 20 steps, fewer where no rule fits any more.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws rules until they run for more than half of the steps, repeat no text and stay below 40 letters."""
        count, longest = (2, 2, 3, 3, 4)[level - 1], (4, 7, 10, 14, 20)[level - 1]
        every, shortest, lengths = lefts(count), 4 + level, (3, 4, 5, 5, 4)[level - 1]
        while True:
            code = rng.getrandbits(80)  # far more than the choices need, so that all are equally likely
            code, index = divmod(code, len(every))
            rules = []
            for left in every[index]:
                code, right = divmod(code, len(_RIGHTS))
                rules.append((left, _RIGHTS[right]))
            code, length = divmod(code, lengths)
            code, head = divmod(code, len(_SIXES))
            text = (_SIXES[head] + _SIXES[code % len(_SIXES)])[: shortest + length]
            steps = self.rewritten(text, rules, longest)
            if len(steps) > longest // 2 and len(steps[-1]) < 40 and len(set(steps)) == len(steps):
                break
        shown = "; ".join([f"{left} -> {right}" for left, right in rules])
        question = (
            f"Rules in order: {shown}.\nIn a step, the first rule in this order whose left side stands in the text "
            "is used: its first place in the text, from the left, is replaced by the right side. Begin with the "
            f"text {text} and make {longest} steps, or fewer when no rule can be used any more. Which text is left?"
        )
        return Question(question, (steps[-1],))

    def explain(self, state: Question) -> str:
        """The rule of each step, and the text after it."""
        rules, ((start, limit),) = _RULE.findall(state.text), _START.findall(state.text)
        steps, lines = self.rewritten(start, rules, int(limit)), [f"Begin with {start}."]
        for number, (text, new) in enumerate(pairwise(steps), 1):
            left, right = next(rule for rule in rules if rule[0] in text)
            lines.append(f"{number}. {left} -> {right}: {new}")
        return "\n".join(lines)

    @staticmethod
    def rewritten(text: str, rules: list[tuple[str, str]], limit: int) -> list[str]:
        """The text and what it is after each step."""
        steps = [text]
        for _ in range(limit):
            for left, right in rules:
                if left in text:
                    text = text.replace(left, right, 1)
                    break
            else:
                break
            steps.append(text)
        return steps


class PolymerGrowth(ListAnswerTask):
    """Count letters after inserts between all pairs, too many steps to write out.

    Levels 1 to 5: 3, 5, 8, 12 and 20 steps on three or four letters.
    """

    explain = explained(data_workings.polymer, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counts pairs instead of texts, so that 20 steps cost no more than 3 (Advent of Code 2021, day 14)."""
        letters, steps = "ABCD"[: (3, 3, 3, 4, 4)[level - 1]], (3, 5, 8, 12, 20)[level - 1]
        start = "".join(rng.choices(letters, k=rng.randint(4, 7)))
        rules = {a + b: rng.choice(letters) for a, b in product(letters, repeat=2) if rng.random() < 0.85}
        pairs = Counter(a + b for a, b in pairwise(start))
        counts = Counter(start)
        for _ in range(steps):
            grown: Counter[str] = Counter()
            for pair, number in pairs.items():
                if new := rules.get(pair):
                    counts[new] += number
                    grown[pair[0] + new] += number
                    grown[new + pair[1]] += number
                else:
                    grown[pair] += number
            pairs = grown
        if sum(counts.values()) < len(start) * (steps + 1) // 2:
            return self.ask(rng, level)
        inserts = "; ".join(f"{pair} gets {new}" for pair, new in sorted(rules.items()))
        text = "In a step, a letter is put between the two letters of each pair of neighbours at the same time: "
        text += f"{inserts}; other pairs get none. The text {start} goes through {steps} steps. How often does each of "
        text += f"{listed(letters)} stand in it then? Answer with the counts in this order."
        return Question(text, tuple(counts[letter] for letter in letters))


class LindenmayerSystem(ListAnswerTask):
    """Rewrite a text by a Lindenmayer system and walk where it leads.

    Levels 1 to 5: 2 to 6 rounds; where the walk that the text means ends, and how many letters it has.
    """

    TURNS: ClassVar[dict[str, int]] = {"+": -1, "-": 1}
    explain = explained(data_workings.lindenmayer, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Composes what each symbol does, round by round, without writing the text out; at most 6,000 letters."""
        rounds = level + 1
        rules = {name: self.side(rng, name) for name in "FX"}
        text = "".join(rng.choice(("", "+", "-")) + rng.choice("FX") for _ in range(rng.randint(2, 4)))
        # What a symbol means after some rounds: steps ahead, to the right, quarter turns, letters.
        means = {"F": (1, 0, 0, 1), "X": (0, 0, 0, 1)} | {turn: (0, 0, by, 0) for turn, by in self.TURNS.items()}
        for _ in range(rounds):
            means |= {name: self.walked(side, means) for name, side in rules.items()}
        ahead, right, _, letters = self.walked(text, means)
        if letters > 6_000 or letters < 3 * rounds:
            return self.ask(rng, level)
        question = f"Begin with {text}. In each of {rounds} rounds every F becomes {rules['F']} and every X becomes "
        question += f"{rules['X']}, all at once; + and - stay. Then walk by the text from left to right: F is a step "
        question += "ahead, + a quarter turn to the left, - one to the right, X nothing. You begin by facing north. "
        question += (
            "Answer with three numbers: by how many steps you end north and by how many east of where you began "
        )
        question += "(negative for south and west), and how many letters F and X the text has together."
        return Question(question, (ahead, right, letters))

    @staticmethod
    def side(rng: random.Random, name: str) -> str:
        """The right side of a rule: two or three letters, the first of them another than on the left, and turns."""
        letters = [("X" if name == "F" else "F"), *rng.choices("FX", k=rng.randint(0, 1) + (name == "F"))]
        rng.shuffle(letters)
        return "".join(rng.choice(("", "+", "-")) + letter for letter in letters)

    @staticmethod
    def walked(text: str, means: dict[str, tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
        """Where a text leads the turtle: steps ahead and to the right, quarter turns, letters drawn."""
        ahead = right = turns = letters = 0
        for symbol in text:
            a, r, t, n = means[symbol]
            for _ in range(turns % 4):  # a quarter turn to the right: what was ahead lies to the right
                a, r = -r, a
            ahead, right, turns, letters = ahead + a, right + r, turns + t, letters + n
        return ahead, right, turns, letters


class Pattern(NamedTuple):
    """A regular expression: a letter, or an operation on parts."""

    kind: str  # a letter, or one of "sequence", "either", "*", "+", "?"
    parts: tuple[Pattern, ...] = ()

    def __str__(self) -> str:
        if self.kind == "sequence":
            return "".join(f"({part})" if part.kind == "either" else str(part) for part in self.parts)
        if self.kind == "either":
            return "|".join(map(str, self.parts))
        if self.kind in "*+?":
            part = self.parts[0]
            return (f"({part})" if part.parts else str(part)) + self.kind
        return self.kind


def ends(pattern: Pattern, text: str, starts: frozenset[int]) -> frozenset[int]:
    """Where a match that begins at one of ``starts`` may end: all of them at once, so that nothing backtracks."""
    if pattern.kind == "sequence":
        for part in pattern.parts:
            starts = ends(part, text, starts)
        return starts
    if pattern.kind == "either":
        return frozenset().union(*(ends(part, text, starts) for part in pattern.parts))
    if pattern.kind in "*+?":
        reached = new = ends(pattern.parts[0], text, starts)
        while pattern.kind != "?" and new:
            new = ends(pattern.parts[0], text, new) - reached
            reached |= new
        return reached if pattern.kind == "+" else reached | starts
    return frozenset(index + 1 for index in starts if text[index : index + 1] == pattern.kind)


def matches(pattern: Pattern, text: str) -> bool:
    return len(text) in ends(pattern, text, frozenset([0]))


class RegexConstruction(CheckedAnswerTask):
    """Write a text that a regular expression matches.

    Levels 1 to 5: patterns of three or four parts, nested from level 3 on; from 2 on a second one must not fit.

    Patterns are drawn until they fit texts of the right length and the second one matters, and both are matched without
    backtracking: about 2 ms from level 2 on, so that fewer than 1,000 are made in a CPU-second there.
    """

    LONGEST: ClassVar[int] = 40

    def ask(self, rng: random.Random, level: int) -> Question:
        """From level 2 on a second pattern, one part changed, fits some texts of the first but not the reference."""
        while True:
            yes = self.drawn(rng, 3 + level // 4, 1 + (level > 2))
            # The second differs in one part, so that it fits many of the same texts: it must be looked at.
            parts = list(yes.parts)
            parts[rng.randrange(len(parts))] = self.drawn(rng, 1, 1).parts[0]
            no = Pattern("sequence", tuple(parts))
            text = self.example(rng, yes)
            length = len(text)
            if not 3 + level <= length <= 12 + 2 * level or any(matches(yes, letter * length) for letter in "abc"):
                continue
            if level == 1:
                break
            if not matches(no, text) and any(matches(no, self.example(rng, yes)) for _ in range(6)):
                break
        question = f"Give a text of exactly {length} letters, each of them a, b or c, that this regular expression "
        question += f"matches as a whole: {yes}"
        if level > 1:
            question += f"\nand that this one does not match as a whole: {no}"
        question += "\n(* is any number of times, + once or more, ? once or not at all, | or.)"
        return Question(question, (yes, no if level > 1 else None, length), answer_text=text)

    def explain(self, state: Question) -> str:
        """How the parts of the pattern divide the text, and where those of the second one can end in it."""
        yes, no, length = state.answer
        text, cuts, starts = state.answer_text, [length], [frozenset([0])]
        for part in yes.parts:
            starts.append(ends(part, text, starts[-1]))
        for part, before in zip(yes.parts[::-1], starts[-2::-1], strict=True):
            cuts.append(max(start for start in before if cuts[-1] in ends(part, text, frozenset([start]))))
        pieces = [
            f"{part} is {text[a:b] or 'left out'}" for part, (a, b) in zip(yes.parts, pairwise(cuts[::-1]), strict=True)
        ]
        lines = [f"{text} has {length} letters: {', '.join(pieces)}."]
        if no is not None:
            reached, shown = frozenset([0]), list[str]()
            for part in no.parts:
                reached = ends(part, text, reached)
                shown.append(f"{part} {'after ' + listed(sorted(reached)) if reached else 'nowhere'}")
            shown.append(f"never after all {length}")
            lines.append(f"The second, by how many letters each part can end after: {'; '.join(shown)}.")
        return "\n".join(lines)

    def drawn(self, rng: random.Random, parts: int, depth: int) -> Pattern:
        """A sequence of repeated or alternative parts."""
        pieces = []
        for _ in range(parts):
            kind = rng.choice(("letter", "either", "*", "+", "?", "*", "+"))
            if kind == "letter":
                pieces.append(Pattern(rng.choice("abc")))
            elif kind == "either":
                pieces.append(Pattern("either", tuple(self.run(rng) for _ in range(2))))
            elif depth > 1 and rng.random() < 0.5:
                pieces.append(Pattern(kind, (self.drawn(rng, 2, depth - 1),)))
            else:
                pieces.append(Pattern(kind, (self.run(rng),)))
        return Pattern("sequence", tuple(pieces))

    @staticmethod
    def run(rng: random.Random) -> Pattern:
        """One to three letters in a row."""
        letters = tuple(Pattern(letter) for letter in rng.choices("abc", k=rng.randint(1, 3)))
        return letters[0] if len(letters) == 1 else Pattern("sequence", letters)

    def example(self, rng: random.Random, pattern: Pattern) -> str:
        """A text that the pattern matches."""
        if pattern.kind == "either":
            return self.example(rng, rng.choice(pattern.parts))
        if pattern.kind in ("*", "+", "?"):
            times = {"*": rng.randint(0, 3), "+": rng.randint(1, 3), "?": rng.randint(0, 1)}[pattern.kind]
            return "".join(self.example(rng, pattern.parts[0]) for _ in range(times))
        return "".join(self.example(rng, part) for part in pattern.parts) if pattern.parts else pattern.kind

    def check(self, question: Question, answer: str) -> str | None:
        """Matches by sets of positions, in time polynomial in the text; length and alphabet first."""
        yes, no, length = question.answer
        (text,) = items(answer, 1)
        if len(text) != length or set(text) - set("abc"):
            return f"the text is not {length} of the letters a, b and c"
        if not matches(yes, text):
            return "the expression does not match the text"
        return "the second expression matches the text too" if no and matches(no, text) else None
