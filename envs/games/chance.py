"""Games of chance: MultiArmedBandit, Secretary and PushYourLuck. Reward 1 for the best arm or candidate, or the goal.

Luck has a say: the experts play (nearly) as well as one can, and their scores are rates. What chance does is drawn from
a seed in the state, so that the same moves meet the same luck.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.games.common import Game, IllegalMove, Step, boxed, chance, go_on, lost, won
from rlvr.envs.tasks.wording import counted


class Arms(NamedTuple):
    """``values`` are what the arms pay on average; ``pulls`` are the arms pulled with what they paid."""

    values: tuple[int, ...]
    seed: int
    level: int
    pulls: tuple[tuple[int, int], ...] = ()
    turn: int = 0
    message: str = ""


class MultiArmedBandit(Game[Arms]):
    """Find the best arm of a bandit.

    Levels 1 to 5: 4 to 10 arms, 10 to 40 pulls, payouts up to 8 to 30 off the arm's value (best-arm identification).

    The best arm's value leads by 4 or more. The expert keeps the bounds that the payouts set to each value and pulls
    the most promising arm, or its strongest rival (LUCB, Kalyanakrishnan et al. 2012).

    Observation: the arms and how far off payouts may be; then all that each arm has paid.
    Actions: ``pull`` or ``name`` and an arm's letter, such as ``pull a``.
    Reward: 1 for naming the best arm, else 0.
    Episode end: an arm is named, or the turns are used up.
    """

    verbs = ("pull", "name")
    nouns = ("arm",)
    always_solvable = False
    # For each level: the arms, how far off a payout may be, and the pulls.
    sizes: ClassVar = ((4, 8, 10), (5, 12, 16), (6, 16, 24), (8, 20, 32), (10, 24, 40))
    lead: Final = 4
    turn_limits = tuple(pulls + 1 for _, _, pulls in sizes)

    def start(self, rng: random.Random, level: int) -> Arms:
        count = self.sizes[level - 1][0]
        while True:
            values = rng.sample(range(20, 81), count)
            best, second = sorted(values)[:-3:-1]
            if best - second >= self.lead:
                return Arms(tuple(values), rng.getrandbits(48), level)

    def content(self, state: Arms) -> str:
        return f"{state.values} {state.seed}"

    def letters(self, state: Arms) -> str:
        return "abcdefghij"[: len(state.values)]

    def reminder(self, state: Arms) -> str:
        return f"Write pull or name and one of the letters {' '.join(self.letters(state))}."

    def rules(self, state: Arms) -> str:
        _, noise, pulls = self.sizes[state.level - 1]
        return (
            f"A machine has the arms {' '.join(self.letters(state))}. Each arm has a value of its own, a whole number "
            f"from 20 to 80; the highest leads by {self.lead} or more. Pulling an arm pays its value plus a whole "
            f"number from -{noise} to {noise}, every one of them equally likely, and drawn anew each time. Find the "
            f"arm with the highest value; payouts do not count. {self.reminder(state)} Naming an arm ends the game, "
            f"and is right or wrong. You have {pulls + 1} turns: {pulls} to pull, and the last to name."
        )

    def shown(self, state: Arms, turn: int) -> str:
        paid: dict[str, list[str]] = {}
        for arm, payout in state.pulls:
            paid.setdefault(self.letters(state)[arm], []).append(str(payout))
        tried = "; ".join(f"{letter} {', '.join(payouts)}" for letter, payouts in sorted(paid.items()))
        return f"Paid so far: {tried}. You have {counted(self.turns(state.level) - turn, 'turn')} left."

    def play(self, state: Arms, move: str) -> Step[Arms]:
        verb, _, letter = move.partition(" ")
        arm = self.letters(state).find(letter) if len(letter) == 1 else -1
        if verb not in ("pull", "name") or arm < 0:
            raise IllegalMove(self.reminder(state).rstrip("."))
        if verb == "pull":
            noise = self.sizes[state.level - 1][1]
            paid = state.values[arm] + chance(state.seed, len(state.pulls)).randint(-noise, noise)
            after = state._replace(pulls=(*state.pulls, (arm, paid)))
            return go_on(after, f"{letter} paid {paid}. {self.shown(after, state.turn + 1)}")
        best = state.values.index(max(state.values))
        if arm == best:
            return won(state, letter)
        return lost(state, f"{letter} has the value {state.values[arm]}, {self.letters(state)[best]} has more", letter)

    def solve(self, state: Arms) -> str:
        """The middle of an arm's bounds estimates its value; what is left between them is the doubt about it."""
        _, noise, pulls = self.sizes[state.level - 1]
        bounds = []
        for arm in range(len(state.values)):
            paid = [payout for pulled, payout in state.pulls if pulled == arm]
            bounds.append((max(paid) - noise, min(paid) + noise) if paid else (-1_000, 1_000 - arm))
        lead = max(range(len(bounds)), key=lambda arm: sum(bounds[arm]))
        rival = max((arm for arm in range(len(bounds)) if arm != lead), key=lambda arm: bounds[arm][1])
        thought = f"{self.letters(state)[lead]} leads."
        if bounds[lead][0] >= bounds[rival][1] or state.turn >= pulls:
            return boxed(f"name {self.letters(state)[lead]}", thought)
        wider = max((lead, rival), key=lambda arm: bounds[arm][1] - bounds[arm][0])
        return boxed(f"pull {self.letters(state)[wider]}", thought)

    def direct_answer(self, state: Arms) -> str:
        return boxed(f"name {self.letters(state)[state.values.index(max(state.values))]}")

    def sample_action(self, state: Arms, rng: random.Random) -> str:
        return boxed(f"{'name' if rng.random() < 0.1 else 'pull'} {rng.choice(self.letters(state))}")


class Queue(NamedTuple):
    """``scores`` of all candidates in their order; ``seen`` counts those who have come."""

    scores: tuple[int, ...]
    level: int
    seen: int = 1
    turn: int = 0
    message: str = ""


TOP: Final = 1_000  # the highest score that a candidate may have

# How a score comes about: what is said of it, its draw, and the share of scores up to x of TOP.
SCORES: Final[tuple[tuple[str, Callable[[int, int], int], Callable[[float], float]], ...]] = (
    ("a number from 1 to 1000, all equally likely", lambda a, b: a, lambda x: x),
    ("the larger of two numbers from 1 to 1000, all equally likely", max, lambda x: x * x),
    ("the smaller of two numbers from 1 to 1000, all equally likely", min, lambda x: 1 - (1 - x) ** 2),
    (
        "the mean (rounded up) of two numbers from 1 to 1000, all equally likely",
        lambda a, b: (a + b + 1) // 2,
        lambda x: 2 * x * x if x < 0.5 else 1 - 2 * (1 - x) ** 2,
    ),
)


class Secretary(Game[Queue]):
    """Take the best of candidates who come one after the other.

    Levels 1 to 5: 4, 6, 9, 13 and 18 candidates, whose scores are drawn in one of four known ways.

    The expert stops by the rule for known distributions (Gilbert and Mosteller 1966), which succeeds in about 0.6 of
    all games.

    Observation: how scores are drawn, the present score and the best so far.
    Actions: ``take`` or ``next``.
    Reward: 1 for taking the best of all candidates, else 0.
    Episode end: a candidate is taken, the last one is passed over, or the turns are used up.
    """

    verbs = ("take", "next")
    nouns = ("candidate", "this")
    always_solvable = False
    sizes: ClassVar = ((4, 0), (6, 0), (9, 1), (13, 2), (18, 3))  # candidates, and the way in which scores come about
    turn_limits = tuple(count for count, _ in sizes)

    def start(self, rng: random.Random, level: int) -> Queue:
        count, way = self.sizes[level - 1]
        draw = SCORES[way][1]
        scores: list[int] = []
        while len(scores) < count:
            score = draw(rng.randint(1, TOP), rng.randint(1, TOP))
            if score not in scores:
                scores.append(score)
        return Queue(tuple(scores), level)

    def content(self, state: Queue) -> str:
        return " ".join(map(str, state.scores))

    def reminder(self, state: Queue) -> str:
        return "Write take or next."

    def rules(self, state: Queue) -> str:
        count, way = self.sizes[state.level - 1]
        return (
            f"{count} candidates come one after the other. Each has a score of its own: {SCORES[way][0]}; no two are "
            f"equal. Take the best of all {count} to win. A candidate who is passed over does not come "
            f"back, and taking one ends the game. {self.reminder(state)} You have {count} turns.\n{self.shown(state)}"
        )

    def shown(self, state: Queue) -> str:
        scores = state.scores[: state.seen]
        return f"Candidate {state.seen} of {len(state.scores)}: {scores[-1]} (best so far: {max(scores)})"

    def play(self, state: Queue, move: str) -> Step[Queue]:
        if move not in ("take", "next"):
            raise IllegalMove(self.reminder(state).rstrip("."))
        score, best = state.scores[state.seen - 1], max(state.scores)
        if move == "take":
            return won(state, reason=f"{best} is the best") if score == best else lost(state, f"the best is {best}")
        if state.seen == len(state.scores):
            return lost(state, f"nobody is left; the best was {best}")
        after = state._replace(seen=state.seen + 1)
        return go_on(after, self.shown(after))

    def solve(self, state: Queue) -> str:
        """Takes the best so far once going on is the worse bet, by the full-information rule of Gilbert and Mosteller
        (1966).
        """
        scores, left = state.scores[: state.seen], len(state.scores) - state.seen
        if scores[-1] < max(scores) and left:
            return boxed("next", "Not the best so far.")
        share = SCORES[self.sizes[state.level - 1][1]][2](scores[-1] / TOP)
        # To stop wins if nobody better comes; to go on, if a better one comes and is taken.
        odds = sum((share**-j - 1) / j for j in range(1, left + 1))
        return boxed("take" if odds <= 1 else "next", f"The best so far, with {left} to come.")

    def sample_action(self, state: Queue, rng: random.Random) -> str:
        return boxed("take" if rng.random() < 0.2 else "next")


class Dice(NamedTuple):
    """``pot`` is what the rolls since the last banking have brought, ``banked`` what is safe."""

    seed: int
    sides: int
    bad: int
    goal: int
    level: int
    banked: int = 0
    pot: int = 0
    turn: int = 0
    message: str = ""


class PushYourLuck(Game[Dice]):
    """Bank enough points before the turns run out.

    Levels 1 to 5: bank 16 to 68 points in 8 to 20 turns, with a die that empties the pot on its lowest faces.

    The expert's choice is the best one, by dynamic programming over turns, bank and pot.

    Observation: the goal and the die; then the last roll, the pot, the bank and the turns left.
    Actions: ``roll`` or ``bank``.
    Reward: 1 for the goal in the bank, else 0.
    Episode end: the goal is in the bank, or the turns are used up.
    """

    verbs = ("roll", "bank")
    nouns = ("die", "dice", "again", "pot", "it")
    always_solvable = False
    # For each level: the sides of the die, how many of them are bad, the turns, and the lowest and highest goal.
    sizes: ClassVar = (
        (6, 1, 8, 16, 18),
        (6, 1, 12, 24, 27),
        (8, 1, 14, 38, 42),
        (8, 2, 18, 44, 48),
        (10, 2, 20, 62, 68),
    )
    turn_limits = tuple(turns for _, _, turns, _, _ in sizes)

    def start(self, rng: random.Random, level: int) -> Dice:
        sides, bad, _, low, high = self.sizes[level - 1]
        return Dice(rng.getrandbits(48), sides, bad, rng.randint(low, high), level)

    def content(self, state: Dice) -> str:
        return f"{state.goal} with {state.seed}"

    def reminder(self, state: Dice) -> str:
        return "Write roll or bank."

    def rules(self, state: Dice) -> str:
        bad = "a 1" if state.bad == 1 else "a 1 or 2" if state.bad == 2 else f"a 1 to {state.bad}"
        return (
            f"Bank {state.goal} points or more to win. A roll of a die with {state.sides} equally likely sides adds "
            f"what it shows to the pot, but {bad} empties the pot instead. To bank moves the pot to the bank, where "
            f"it is safe. {self.reminder(state)} Each is one turn, and you have {self.turns(state.level)} turns.\n"
            f"{self.shown(state)}"
        )

    def shown(self, state: Dice) -> str:
        left = counted(self.turns(state.level) - state.turn, "turn")
        return f"Pot {state.pot}, bank {state.banked} of {state.goal}, {left} left"

    def play(self, state: Dice, move: str) -> Step[Dice]:
        if move == "bank":
            after = state._replace(banked=state.banked + state.pot, pot=0)
            if after.banked >= state.goal:
                return won(after, reason=f"{after.banked} points in the bank")
            return go_on(after, self.shown(after._replace(turn=state.turn + 1)))
        if move != "roll":
            raise IllegalMove(self.reminder(state).rstrip("."))
        face = chance(state.seed, state.turn).randint(1, state.sides)
        after = state._replace(pot=state.pot + face if face > state.bad else 0)
        return go_on(after, f"You rolled {face}. {self.shown(after._replace(turn=state.turn + 1))}")

    def solve(self, state: Dice) -> str:
        """The larger of two exact chances of the goal, by dynamic programming; banks as soon as the pot is enough."""
        left = self.turns(state.level) - state.turn
        short = state.goal - state.banked
        if state.pot >= short:
            return boxed("bank", "The pot is enough.")
        bank = chance_of_goal(state.sides, state.bad, left - 1, short - state.pot, 0)
        roll = roll_value(state.sides, state.bad, left, short, state.pot)
        return boxed("bank" if state.pot and bank >= roll else "roll", f"{state.pot} in the pot.")

    def sample_action(self, state: Dice, rng: random.Random) -> str:
        return boxed("bank" if state.pot and rng.random() < 0.3 else "roll")


@lru_cache(100_000)
def chance_of_goal(sides: int, bad: int, left: int, short: int, pot: int) -> float:
    """The chance to bank ``short`` points more in ``left`` turns with this pot, if every choice is the best one."""
    if left <= 0:
        return 0.0
    if pot >= short:
        return 1.0
    bank = chance_of_goal(sides, bad, left - 1, short - pot, 0) if pot else 0.0
    return max(bank, roll_value(sides, bad, left, short, pot))


def roll_value(sides: int, bad: int, left: int, short: int, pot: int) -> float:
    if left <= 1:
        return 0.0  # nothing could be banked any more
    good = sum(chance_of_goal(sides, bad, left - 1, short, pot + face) for face in range(bad + 1, sides + 1))
    return (good + bad * chance_of_goal(sides, bad, left - 1, short, 0)) / sides
