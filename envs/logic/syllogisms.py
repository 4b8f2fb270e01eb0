"""Syllogisms: what follows from statements with all, no and some. One turn; reward 1 for exactly those that follow.

Syllogisms: which of six conclusions hold wherever the premises do. "All" and "no" do not say that there are any.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import permutations
from typing import ClassVar

from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.questions import Question

WORDS = "bakers climbers dancers farmers gardeners hikers jugglers knitters painters readers sailors swimmers".split()
FORMS = {"all": "All {} are {}.", "no": "No {} are {}.", "some": "Some {} are {}.", "not": "Some {} are not {}."}
OPPOSITE = {"all": "not", "no": "some", "some": "no", "not": "all"}
Statement = tuple[str, int, int]


@cache
def members(count: int) -> tuple[int, ...]:
    """For each of ``count`` classes, which of the 2^count kinds of people belong to it, as a mask."""
    return tuple(sum(1 << kind for kind in range(1 << count) if kind >> index & 1) for index in range(count))


def consistent(statements: list[Statement], count: int) -> bool:
    """Whether a world exists in which all of them hold."""
    every, classes = (1 << (1 << count)) - 1, members(count)
    possible, needed = every, []
    for form, a, b in statements:
        meant = classes[a] & (classes[b] if form in ("no", "some") else every ^ classes[b])
        if form in ("all", "no"):
            possible &= ~meant
        else:
            needed.append(meant)
    return all(possible & meant for meant in needed)


def follows(premises: list[Statement], conclusion: Statement, count: int) -> bool:
    form, a, b = conclusion
    return not consistent([*premises, (OPPOSITE[form], a, b)], count)


class Syllogisms(ListAnswerTask):
    """Find the conclusions that follow from premises about classes.

    Levels 1 to 5: three to six classes, 2 to 7 premises.
    """

    ordered: ClassVar[bool] = False

    def ask(self, rng: random.Random, level: int) -> Question:
        count, size = (3, 4, 4, 5, 6)[level - 1], (2, 3, 4, 5, 7)[level - 1]
        names = rng.sample(WORDS, count)
        pairs = list(permutations(range(count), 2))
        while True:
            premises = [(rng.choice(("all", "all", "no", "some", "not")), *pair) for pair in rng.sample(pairs, size)]
            if not consistent(premises, count):
                continue
            others = [(form, *pair) for form in FORMS for pair in pairs if (form, *pair) not in premises]
            rng.shuffle(others)
            right = [statement for statement in others if follows(premises, statement, count)]
            share = rng.randint(1, 4)
            if len(right) >= share:
                break
        wrong = [statement for statement in others if statement not in right]
        chosen = rng.sample(right[:share] + wrong[: 6 - share], 6)
        gold = tuple(number for number, statement in enumerate(chosen, 1) if statement in right)
        text = "Premises:\n" + "\n".join(FORMS[form].format(names[a], names[b]) for form, a, b in premises)
        lines = [f"{n}. {FORMS[form].format(names[a], names[b])}" for n, (form, a, b) in enumerate(chosen, 1)]
        text += "\nConclusions (a class may be empty unless the premises say otherwise):\n" + "\n".join(lines)
        return Question(f"{text}\nWhich of them follow from the premises? Answer with their numbers.", gold)
