"""Household: put things where the instruction says, some cleaned, heated or cooled first. Many turns; reward 1 if done.

What must be reasoned: which thing is meant among others of its kind, where it may be, and what has to be done to it in
which order before it is put away. The kind of task is ALFWorld's (Shridhar et al. 2021, arXiv 2010.03768); rooms,
things and rules here are our own.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, choose, listing, matches
from rlvr.envs.worlds.explorer import do_at, fetch, has_seen, search
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import COLOURS
from rlvr.envs.worlds.world import ACTIONS, YOU, Thing, World, perform, possible

# What stands in each room: boxes, then stands.
FURNITURE = {
    "kitchen": ("fridge microwave cupboard", "sink counter"),
    "bedroom": ("wardrobe nightstand", "bed dresser"),
    "bathroom": ("medicine-cabinet hamper", "washbasin stool"),
    "study": ("desk-drawer safe", "desk bookshelf"),
    "parlour": ("sideboard chest", "sofa coffee-table"),
    "dining room": ("china-cabinet", "dining-table windowsill"),
    "laundry": ("washing-machine basket", "ironing-board shelf"),
    "garage": ("toolbox locker", "workbench rack"),
    "nursery": ("toy-box drawer", "cot changing-table"),
    "hall": ("shoe-box", "bench coat-stand"),
}
APPLIANCES = {"clean": "sink", "hot": "microwave", "cold": "fridge"}
VERBS = {"clean": "clean", "heat": "hot", "cool": "cold"}
# Kinds of things, and what can be done to them.
KINDS = {
    **dict.fromkeys("mug plate bowl cup glass saucer".split(), ("clean", "hot", "cold")),
    **dict.fromkeys("potato tomato apple egg pear onion".split(), ("clean", "hot", "cold")),
    **dict.fromkeys("fork spoon ladle cloth towel sponge vase tray".split(), ("clean",)),
    **dict.fromkeys("book pencil pen newspaper watch phone remote candle pillow box keyring notebook".split(), ()),
}

PLURALS = {"glass": "glasses", "potato": "potatoes", "tomato": "tomatoes"}


class HouseholdLevel(NamedTuple):
    """A level: rooms, goals, how many of them ask for a treatment, the most alike asked for at once, other things."""

    rooms: int
    goals: int
    treated: int
    alike: int
    clutter: int


LEVELS = (
    HouseholdLevel(3, 1, 0, 1, 4),
    HouseholdLevel(4, 1, 1, 1, 6),
    HouseholdLevel(5, 2, 1, 1, 8),
    HouseholdLevel(7, 2, 2, 2, 10),
    HouseholdLevel(9, 3, 3, 2, 14),
)


class Goal(NamedTuple):
    """``number`` things called ``noun`` shall be at ``place``, with the property ``mark`` if there is one."""

    noun: str
    number: int
    mark: str
    place: str


class Home(NamedTuple):
    """A home and what is to be done in it."""

    world: World
    goals: tuple[Goal, ...]


class Household(WorldGame[Home]):
    """Put things of a home where they belong, washed, heated or cooled.

    Levels 1 to 5: homes of 3 to 9 rooms; 1, 1, 2, 2 and 3 goals, of which 0, 1, 1, 2 and 3 ask for a treatment.

    Observation: all goals and which appliance treats a thing; then the room, what it holds and what is carried.
    Reward: 1 when all goals hold at once, else 0.
    Episode end: all goals hold, or 30 to 220 turns are used up; nothing else loses.
    """

    grammar = Grammar(
        "go look examine take drop put open close",
        Form("clean OBJECT with PLACE", "clean|wash|rinse", "with|in|at|using|under"),
        Form("heat OBJECT with PLACE", "heat|warm|warm up|heat up", "with|in|using"),
        Form("cool OBJECT with PLACE", "cool|chill|cool down", "with|in|using"),
        "inventory",
    )
    limits = (30, 45, 75, 140, 220)

    def begin(self, rng: random.Random, level: int) -> Home:
        """A goal of one thing gets a decoy of its kind in another colour; nothing starts where its goal wants it."""
        shape = LEVELS[level - 1]
        rooms = ["kitchen", *rng.sample(list(FURNITURE)[1:], shape.rooms - 1)]
        rng.shuffle(rooms)
        exits, _ = grow(rng, [rooms], loops=0.2)
        things: list[tuple[Thing, str]] = []
        for room in rooms:
            boxes, stands = (names.replace(" ", ",").replace("-", " ").split(",") for names in FURNITURE[room])
            things += [(Thing(name, "box"), room) for name in boxes]
            things += [(Thing(name, "stand"), room) for name in stands]
        holders = [thing.name for thing, _ in things]
        goals, items = _goals(rng, shape, holders)
        taken = {goal.noun for goal in goals}
        for goal in goals:
            spots = [name for name in holders if name != goal.place]
            things += [(Thing(name), rng.choice(spots)) for name in items if matches(goal.noun, [name])]
        others = [f"{rng.choice(COLOURS)} {kind}" for kind in rng.sample(list(KINDS), shape.clutter)]
        for name in others:
            if name not in items and name.split()[1] not in taken:
                things.append((Thing(name), rng.choice(holders)))
        return Home(world_of(exits, rooms[0], things, capacity=3), goals)

    def rules(self, now: Home) -> str:
        """The goals in one sentence, which appliance treats a thing, and that heat and cold cancel."""
        goals = "; ".join(_goal_text(now.world, goal) for goal in now.goals)
        all_ = "this is so" if len(now.goals) == 1 else "all of this is so"
        return (
            f"Goal: in this home, {goals}. You have won as soon as {all_}.\n"
            "Rules: things are on furniture or in it; open what is closed. To clean a thing, carry it to the sink; to "
            "heat it, to the microwave; to cool it, to the fridge. What was heated is no longer cold, and "
            "the other way round. You can carry 3 things."
        )

    def view(self, now: Home) -> str:
        return now.world.view()

    def act(self, now: Home, command: Command) -> CommandOutcome:
        """Won as soon as all goals hold at once; clean, heat and cool need the thing in hand and the appliance here."""
        if command.verb in VERBS:
            world, message = _treat(now.world, command)
        else:
            world, message = perform(now.world, command)
        now = now._replace(world=world)
        return CommandOutcome(now, message, all(_done(world, goal) >= goal.number for goal in now.goals) or None)

    def options(self, now: Home) -> list[str]:
        """World commands, and treatments of carried things by appliances that stand here."""
        world = now.world
        here = {thing.name for thing in world.around()}
        treatments = [
            f"{verb} {name} with {APPLIANCES[mark]}"
            for verb, mark in VERBS.items()
            if APPLIANCES[mark] in here
            for name in world.inside(YOU)
        ]
        return possible(world, ACTIONS) + treatments

    def plan(self, now: Home) -> str:
        """One goal after the other: find, fetch, treat, open, put down; explores while nothing wanted is known."""
        world = now.world
        goal = next(goal for goal in now.goals if _done(world, goal) < goal.number)
        wanted = [name for name in _named(world, goal) if has_seen(world, name) and not _settled(world, name, goal)]
        wanted.sort(key=lambda name: not world.has(name))
        if not wanted:
            return search(world)
        name = wanted[0]
        if not world.has(name):
            return fetch(world, name, full=next(iter(world.inside(YOU)), "")) or "look"
        if goal.mark and goal.mark not in world.marked(name):
            verb = next(verb for verb, mark in VERBS.items() if mark == goal.mark)
            return do_at(world, APPLIANCES[goal.mark], f"{verb} {name} with {APPLIANCES[goal.mark]}")
        if goal.place in world.shut and has_seen(world, goal.place) and world.room_of(goal.place) == world.here:
            return f"open {goal.place}"
        return do_at(world, goal.place, f"put {name} {_where(world, goal.place)} {goal.place}")


def _goals(rng: random.Random, shape: HouseholdLevel, holders: list[str]) -> tuple[tuple[Goal, ...], list[str]]:
    """The goals, and the names of the things of their kinds."""
    goals, items = [], []
    treatable = [kind for kind, marks in KINDS.items() if marks]
    for number, kind in enumerate(rng.sample(treatable, shape.goals)):
        mark = rng.choice(KINDS[kind]) if number < shape.treated else ""
        place = rng.choice(holders)
        count = rng.randint(1, shape.alike)
        names = [f"{colour} {kind}" for colour in rng.sample(COLOURS, max(2, count))]
        noun = names[0] if count == 1 else kind
        goals.append(Goal(noun, count, mark, place))
        items += names
    return tuple(goals), items


def _goal_text(world: World, goal: Goal) -> str:
    is_single = goal.number == 1
    what = f"the {goal.noun}" if is_single else f"both {PLURALS.get(goal.noun, goal.noun + 's')}"
    where = f"{_where(world, goal.place)} the {goal.place}"
    if not goal.mark:
        return f"put {what} {where}"
    verb = next(verb for verb, mark in VERBS.items() if mark == goal.mark)
    return f"{verb} {what} and put {'it' if is_single else 'them'} {where}"


def _where(world: World, place: str) -> str:
    return "on" if world.thing(place).kind == "stand" else "in"


def _named(world: World, goal: Goal) -> list[str]:
    return matches(goal.noun, [thing.name for thing in world.plan.things if thing.kind == "item"])


def _settled(world: World, name: str, goal: Goal) -> bool:
    return world.place(name) == goal.place and (not goal.mark or goal.mark in world.marked(name))


def _done(world: World, goal: Goal) -> int:
    return sum(_settled(world, name, goal) for name in _named(world, goal))


def _treat(world: World, command: Command) -> tuple[World, str]:
    mark = VERBS[command.verb]
    name = choose(command.first, world.inside(YOU), "You do not carry that. You carry:")
    allowed = KINDS[name.split()[-1]]
    if mark not in allowed:
        can = listing((verb for verb, result in VERBS.items() if result in allowed), "or")
        return world, f"You cannot {command.verb} the {name}. What can be done to it: {can}."
    here = [thing.name for thing in world.around()]
    place = choose(command.second, here, f"It is not here. To {command.verb}, use the {APPLIANCES[mark]}. Here are:")
    if place != APPLIANCES[mark]:
        return world, f"The {place} is no use for that. To {command.verb}, use the {APPLIANCES[mark]}."
    other = {"hot": ("cold",), "cold": ("hot",)}.get(mark, ())
    return world.mark(name, mark, without=other), f"The {name} is {mark} now."
