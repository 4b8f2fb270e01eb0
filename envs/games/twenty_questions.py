"""TwentyQuestions: find which of some things is meant by asking whether it has this or that. Reward 1 for naming it.

The world is closed: the things and what is said of them stand in the first observation, so that no answer depends on
an opinion.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.games.common import Game, IllegalMove, Step, boxed, go_on, won

# Each thing with everything that is said of it; what is not said does not hold.
THINGS: Final = """
owl: animal flies legs wild | bat: animal flies fur wild small | duck: animal flies swims legs farm
goose: animal flies swims legs farm white | eagle: animal flies legs wild large
bee: animal flies legs small yellow | butterfly: animal flies legs small wild | parrot: animal flies legs green pet
canary: animal flies legs small yellow pet | ostrich: animal legs wild large | penguin: animal swims legs wild
chicken: animal legs farm edible | dog: animal legs fur pet | cat: animal legs fur pet small
hamster: animal legs fur pet small round | rabbit: animal legs fur wild small | horse: animal legs fur farm large
cow: animal legs fur farm large edible | sheep: animal legs fur farm edible white
bear: animal legs fur wild large swims | tiger: animal legs fur wild large yellow | fox: animal legs fur wild red
goldfish: animal swims pet small yellow | shark: animal swims wild large | salmon: animal swims wild edible red
whale: animal swims wild huge | frog: animal swims legs wild small green | crab: animal swims legs wild edible red
snake: animal wild | elephant: animal legs wild huge | tomato: plant edible red round
cherry: plant edible red round small sweet | strawberry: plant edible red small sweet
apple: plant edible red round sweet | banana: plant edible yellow sweet | lemon: plant edible yellow round sour
lime: plant edible green round sour | pea: plant edible green round small | cucumber: plant edible green
grape: plant edible green round small sweet | melon: plant edible green round sweet large
onion: plant edible round white | garlic: plant edible small white | carrot: plant edible red
oak: plant wooden huge green wild | fir: plant wooden large green wild | rose: plant red wild small
daisy: plant white wild small | sunflower: plant yellow farm large round | cactus: plant green wild pet
sugar: edible sweet white | honey: edible sweet yellow | cheese: edible yellow | milk: edible white liquid
tea: edible liquid | vinegar: edible liquid sour | cake: edible sweet round | salt: edible white small
car: metal wheels engine large | bus: metal wheels engine huge | bicycle: metal wheels
train: metal wheels engine huge electric | scooter: metal wheels electric small
aeroplane: metal wheels engine flies huge | helicopter: metal engine flies large | boat: wooden swims large
ship: metal engine swims huge | submarine: metal engine swims huge electric | cart: wooden wheels farm large
tractor: metal wheels engine farm large | kite: flies toy small | balloon: flies toy round | ball: toy round
doll: toy legs small | robot: toy metal electric legs | blocks: toy wooden small | puzzle: toy small
drum: toy wooden round | lamp: metal electric | torch: metal electric small tool | drill: metal electric tool engine
oven: metal electric large | mixer: metal electric engine | fridge: metal electric large white engine
clock: electric round | phone: electric small | hammer: metal wooden tool | saw: metal tool
needle: metal tool small | key: metal small | coin: metal small round | spoon: metal tool round
ladder: wooden legs tool large | table: wooden legs | wardrobe: wooden large | chair: wooden legs small
pencil: wooden tool small | barrel: wooden round large | guitar: wooden | snowman: white round large
river: liquid huge wild | rain: liquid wild small | paint: liquid tool | ink: liquid small tool
"""

# For each level: how many things, of how many attributes, in how many turns.
LEVELS: Final = ((8, 8, 5), (16, 12, 7), (24, 16, 8), (36, 20, 9), (50, 24, 10))


@lru_cache(1)
def world() -> dict[str, frozenset[str]]:
    """Every thing with its attributes."""
    parts = (part.split(":") for line in THINGS.strip().splitlines() for part in line.split("|"))
    return {name.strip(): frozenset(facts.split()) for name, facts in parts}


@lru_cache(1)
def attributes() -> tuple[str, ...]:
    return tuple(sorted(set().union(*world().values())))


class Riddle(NamedTuple):
    """``things`` and ``asked`` are all that may be named and asked; ``left`` holds the answers so far."""

    secret: str
    things: tuple[str, ...]
    asked: tuple[str, ...]
    level: int
    answers: tuple[tuple[str, bool], ...] = ()
    ruled_out: tuple[str, ...] = ()
    turn: int = 0
    message: str = ""


class TwentyQuestions(Game[Riddle]):
    """Find which of some things is meant, by yes-or-no questions.

    Levels 1 to 5: 8 to 50 things in 5 to 10 turns; drawn so that questions that halve well suffice.

    Observation: the things with all that is true of them; then ``yes`` or ``no``.
    Actions: ``ask`` and an attribute, or ``name`` and a thing.
    Reward: 1 for naming the thing, else 0.
    Episode end: the thing is named, or the turns are used up.
    """

    verbs = ("ask", "name")
    nouns = ("is", "it", "if", "whether", "about")
    turn_limits = tuple(turns for _, _, turns in LEVELS)

    def start(self, rng: random.Random, level: int) -> Riddle:
        count, width, turns = LEVELS[level - 1]
        while True:
            asked = tuple(sorted(rng.sample(attributes(), width)))
            things = _distinguished(rng, asked, count)
            if worst_turns(_masks(things, asked), (1 << len(things)) - 1, turns) <= turns and len(things) == count:
                return Riddle(rng.choice(things), things, asked, level)

    def content(self, state: Riddle) -> str:
        return f"{state.secret} of {sorted(state.things)} by {state.asked}"

    def reminder(self, state: Riddle) -> str:
        return f"Write ask and one of {', '.join(state.asked)}; or name and one of the things."

    def rules(self, state: Riddle) -> str:
        lines = (f"{thing}: {', '.join(sorted(world()[thing] & {*state.asked})) or '-'}" for thing in state.things)
        return (
            "I think of one of these things; this list says all that is true of them:\n"
            + "\n".join(lines)
            + f"\nFind out which. {self.reminder(state)} A question is answered yes or no; naming the thing wins, and "
            f"a wrong name costs a turn as a question does. You have {LEVELS[state.level - 1][2]} turns."
        )

    def play(self, state: Riddle, move: str) -> Step[Riddle]:
        verb, _, rest = move.partition(" ")
        if verb == "ask" and rest in state.asked:
            answer = rest in world()[state.secret]
            return go_on(state, f"{rest}: {'yes' if answer else 'no'}", answers=(*state.answers, (rest, answer)))
        if verb == "name" and rest in state.things:
            if rest == state.secret:
                return won(state, rest)
            return go_on(state, f"It is not {rest}.", ruled_out=(*state.ruled_out, rest))
        raise IllegalMove(self.reminder(state).rstrip("."))

    def solve(self, state: Riddle) -> str:
        """Ask what halves the things that are left best; name the last one."""
        left = sum(1 << i for i, thing in enumerate(state.things) if possible(state, thing))
        if left & (left - 1) == 0:
            return boxed(f"name {state.things[left.bit_length() - 1]}", "One thing is left.")
        masks = _masks(state.things, state.asked)
        return boxed(f"ask {state.asked[best_question(masks, left)]}", f"{left.bit_count()} things are left.")

    def direct_answer(self, state: Riddle) -> str:
        return boxed(f"name {state.secret}")

    def sample_action(self, state: Riddle, rng: random.Random) -> str:
        return boxed(f"ask {rng.choice(state.asked)}" if rng.random() < 0.7 else f"name {rng.choice(state.things)}")


def _distinguished(rng: random.Random, asked: tuple[str, ...], count: int) -> tuple[str, ...]:
    """At most ``count`` things in any order, no two of which have the same of these attributes."""
    facts_so_far, things = set(), []
    asked_facts = frozenset(asked)
    for thing in rng.sample(tuple(world()), len(world())):
        facts = world()[thing] & asked_facts
        if facts not in facts_so_far:
            facts_so_far.add(facts)
            things.append(thing)
            if len(things) == count:
                break
    return tuple(things)


def possible(state: Riddle, thing: str) -> bool:
    """Whether the answers so far allow the thing."""
    return thing not in state.ruled_out and all((facts in world()[thing]) == yes for facts, yes in state.answers)


def _masks(things: tuple[str, ...], asked: tuple[str, ...]) -> list[int]:
    """For each attribute the things that have it, as bits."""
    masks = dict.fromkeys(asked, 0)
    facts_of = world()
    for index, thing in enumerate(things):
        for attribute in facts_of[thing]:
            if attribute in masks:
                masks[attribute] |= 1 << index
    return list(masks.values())


def best_question(masks: list[int], left: int) -> int:
    """Which attribute divides the things that are left most evenly."""
    count = left.bit_count()
    best, least = 0, count + 1
    for index, mask in enumerate(masks):
        uneven = abs(2 * (mask & left).bit_count() - count)
        if uneven < least:
            best, least = index, uneven
            if uneven < 2:
                break
    return best


def worst_turns(masks: list[int], left: int, limit: int) -> int:
    """The turns that the expert needs at worst; over ``most`` as soon as that is sure."""
    if left & (left - 1) == 0:
        return 1
    best = masks[best_question(masks, left)]
    yes, no = left & best, left & ~best
    if not yes or not no or left.bit_count() > 1 << (limit - 1):
        return limit + 1  # nothing tells these apart, or they are too many
    first = worst_turns(masks, yes, limit - 1)
    return 1 + (first if first >= limit else max(first, worst_turns(masks, no, limit - 1)))
