"""Knights, who always tell the truth, and knaves, who never do.

Observation: what some people say of one another, and the order in which to answer who is what.
"""

from __future__ import annotations

import random
from typing import Any

from rlvr.envs.core.seeding import digest
from rlvr.envs.logic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, listed
from rlvr.envs.tasks.questions import Question, explained

NAMES = ("Ann", "Ben", "Cas", "Dan", "Eva", "Fay", "Gil", "Hal", "Ida", "Jon", "Kim", "Leo", "Mia", "Ned", "Oda", "Pam")
# What is said: ("is", who, knight?), ("same", a, b, same?), ("count", how, number), ("both"/"either", claim, claim).
Claim = tuple[Any, ...]


def true_in(claim: Claim, world: int, count: int) -> bool:
    """Whether a claim holds in a world, where bit i says that person i is a knight."""
    kind = claim[0]
    if kind == "is":
        return bool((world >> claim[1] & 1) == claim[2])
    if kind == "same":
        return bool(((world >> claim[1] & 1) == (world >> claim[2] & 1)) == claim[3])
    if kind == "count":
        knights, number = world.bit_count(), claim[2]
        return bool({"exactly": knights == number, "at least": knights >= number}.get(claim[1], knights <= number))
    first, second = true_in(claim[1], world, count), true_in(claim[2], world, count)
    return (first and second) if kind == "both" else (first or second)


def parts_of(claim: Claim) -> int:
    """How many claims are joined in one."""
    return parts_of(claim[1]) + parts_of(claim[2]) if claim[0] in ("both", "either") else 1


def sentence(text: str) -> str:
    """A claim with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def claim_text(claim: Claim, names: list[str]) -> str:
    kind = claim[0]
    if kind == "is":
        return f"{names[claim[1]]} is a {'knight' if claim[2] else 'knave'}"
    if kind == "same":
        return f"{names[claim[1]]} and {names[claim[2]]} are {'of the same kind' if claim[3] else 'of different kinds'}"
    if kind == "count":
        return f"{claim[1]} {claim[2]} of us {'is a knight' if claim[2] == 1 else 'are knights'}"
    return f"{claim_text(claim[1], names)} {'and' if kind == 'both' else 'or'} {claim_text(claim[2], names)}"


def claim_of(rng: random.Random, speaker: int, count: int, level: int) -> Claim:
    """Something that one of ``count`` people might say."""
    others = [person for person in range(count) if person != speaker]
    kind = rng.choice(("is", "same", "same", "count", "both", "either")[: (3, 4, 6, 6, 6)[level - 1]])
    if kind == "is":
        return ("is", rng.choice(others), int(rng.random() < 0.5))
    if kind == "same":
        a, b = rng.sample(others if level > 1 else range(count), 2)
        return ("same", a, b, rng.random() < 0.5)
    if kind == "count":
        return ("count", rng.choice(("exactly", "at least", "at most")), rng.randint(1, count - 1))
    first = ("is", rng.choice(others), int(rng.random() < 0.5))
    second = claim_of(rng, speaker, count, 2)
    while second[:2] == first[:2]:  # two claims of what one person is say too little, or contradict each other
        second = claim_of(rng, speaker, count, 2)
    return (kind, first, second)


def canonical(claims: list[tuple[int, Claim]], count: int) -> str:
    """What is said, whoever the people are and in whatever order they speak: tasks that differ in no more are equal.

    Each person is known by what he says and what is said of him, refined three times (1-dimensional Weisfeiler-Leman).
    """
    labels = ["" for _ in range(count)]
    for _ in range(min(count, 3)):
        rounds: list[list[str]] = [[] for _ in range(count)]
        for speaker, claim in claims:
            for person in range(count):
                if person == speaker or person in _people(claim):
                    rounds[person].append(_abstract(claim, labels, person) + f"<{_label(speaker, labels, person)}")
        labels = [f"{digest(labels[person], *sorted(claimed)):032x}"[:12] for person, claimed in enumerate(rounds)]
    return "\n".join(sorted(f"{labels[speaker]}: {_abstract(claim, labels, -1)}" for speaker, claim in claims))


def _people(claim: Claim) -> set[int]:
    if claim[0] in ("both", "either"):
        return _people(claim[1]) | _people(claim[2])
    return set() if claim[0] == "count" else {claim[1]} if claim[0] == "is" else {claim[1], claim[2]}


def _label(person: int, labels: list[str], of: int) -> str:
    return "*" if person == of else labels[person]


def _abstract(claim: Claim, labels: list[str], of: int) -> str:
    """A claim with people's labels for their names, ``*`` for one of them; neither order nor wording counts."""
    kind = claim[0]
    if kind == "is":
        return f"{_label(claim[1], labels, of)} {int(claim[2])}"
    if kind == "same":
        return " ".join(sorted(_label(person, labels, of) for person in claim[1:3])) + f" same {int(claim[3])}"
    if kind == "count":
        return f"{claim[1]} {claim[2]}"
    return f" {kind} ".join(sorted(f"({_abstract(part, labels, of)})" for part in claim[1:]))


class KnightsAndKnaves(ListAnswerTask):
    """Find who tells the truth and who lies.

    Levels 1 to 5: 3 to 7 people; sentences grow from one claim to two joined by and or or.
    """

    explain = explained(workings.islanders, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Adds claims until one of the 2^n worlds is left; the content leaves out names and order (``canonical``)."""
        count = 2 + level
        names = rng.sample(NAMES, count)
        while True:
            claims: list[tuple[int, Claim]] = []
            worlds = list(range(1 << count))
            truth = rng.randrange(1 << count)
            while len(claims) < 3 * count and (len(claims) < count or len(worlds) > 1):
                speaker = len(claims) % count
                claim = claim_of(rng, speaker, count, level)
                if true_in(claim, truth, count) != bool(truth >> speaker & 1) or (speaker, claim) in claims:
                    continue
                claims.append((speaker, claim))
                worlds = [world for world in worlds if true_in(claim, world, count) == bool(world >> speaker & 1)]
            if worlds == [truth]:
                break
        lines = "\n".join(f'{names[speaker]}: "{sentence(claim_text(claim, names))}"' for speaker, claim in claims)
        text = "Knights always tell the truth, knaves always lie, and each of these people is one or the other.\n"
        text += f"{lines}\nWhat are {listed(names)}? Answer with knight or knave for each, in this order."
        gold = tuple("knight" if truth >> person & 1 else "knave" for person in range(count))
        return Question(text, gold, content=canonical(claims, count))


class Spies(ListAnswerTask):
    """Find the spy among knights and knaves.

    Levels 1 to 5: 4, 5, 5, 6 and 7 people, one a spy, who may lie or not; longer sentences from level 3 on.
    """

    explain = explained(workings.islanders, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Adds claims until one choice of spy and knights is left; a spy's claim excludes nothing.

        Operations are claims, those within a sentence too, to be held against each choice.
        """
        count = (4, 5, 5, 6, 7)[level - 1]
        names = rng.sample(NAMES, count)
        every = [(spy, world) for spy in range(count) for world in range(1 << count) if not world >> spy & 1]
        while True:
            worlds, truth = every, rng.choice(every)
            claims: list[tuple[int, Claim]] = []
            while len(claims) < 3 * count and (len(claims) < count or len(worlds) > 1):
                speaker = len(claims) % count
                claim = claim_of(rng, speaker, count, (1, 1, 2, 3, 3)[level - 1])
                if self.fits(claim, speaker, truth) and (speaker, claim) not in claims:
                    claims.append((speaker, claim))
                    worlds = [world for world in worlds if self.fits(claim, speaker, world)]
            if worlds == [truth]:
                break
        spy, knights = truth
        lines = "\n".join(f'{names[speaker]}: "{sentence(claim_text(claim, names))}"' for speaker, claim in claims)
        text = "Knights always tell the truth, knaves always lie; one of these people is a spy, who is neither and may "
        text += f"say anything, and each of the others is a knight or a knave.\n{lines}\nWhat are {listed(names)}? "
        gold = tuple("spy" if p == spy else "knight" if knights >> p & 1 else "knave" for p in range(count))
        text += "Answer with knight, knave or spy for each, in this order."
        tests = len(every) * sum(map(parts_of, (claim for _, claim in claims)))
        return Question(text, gold, content=canonical(claims, count), operations=tests)

    @staticmethod
    def fits(claim: Claim, speaker: int, world: tuple[int, int]) -> bool:
        """Whether someone may say this in a world, given as who is the spy, and who are knights."""
        spy, knights = world
        return speaker == spy or true_in_with_spy(claim, knights, spy) == bool(knights >> speaker & 1)


def true_in_with_spy(claim: Claim, knights: int, spy: int) -> bool:
    """Whether a claim holds where one person is neither knight nor knave."""
    kind = claim[0]
    if kind == "is":
        return bool(claim[1] != spy and (knights >> claim[1] & 1) == claim[2])
    if kind == "same":
        kinds = [2 if person == spy else knights >> person & 1 for person in claim[1:3]]
        return (kinds[0] == kinds[1]) == bool(claim[3])
    if kind == "count":
        return true_in(claim, knights, 0)
    first, second = (true_in_with_spy(part, knights, spy) for part in claim[1:])
    return (first and second) if kind == "both" else (first or second)
