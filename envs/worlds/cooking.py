"""Cooking: read a recipe, find and prepare the ingredients with the right tools, put them together in the right order.

Many turns; reward 1 for serving exactly the dish of the recipe. Serving anything else is the end without reward, and
what was cut or cooked stays so. What must be reasoned: which tool does what, the order of the preparations of each
ingredient, and the order in which they go into the bowl, which higher levels tell only in pairs.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, choose, listing
from rlvr.envs.worlds.explorer import do_at, fetch
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.world import ACTIONS, GONE, YOU, Thing, World, perform, possible

ROOMS = tuple("pantry cellar garden greenhouse larder courtyard hall orchard scullery conservatory attic barn".split())
BOXES = tuple("cupboard drawer crate barrel hamper cabinet basket".split())
FOODS = tuple(
    "carrot potato onion leek turnip parsnip beetroot pumpkin tomato apple pear mushroom cucumber aubergine celery "
    "radish cabbage fennel squash peach plum quince".split()
)
TOOLS = {"peel": "peeler", "slice": "knife", "dice": "cleaver", "grate": "grater", "mash": "masher"}
HEATS = {"boil": "stove", "roast": "oven", "grill": "grill"}
NEEDS = TOOLS | HEATS
DONE = {verb: f"{verb.removesuffix('e')}ed" for verb in NEEDS}
DISHES = tuple("stew salad gratin soup pie casserole curry chutney".split())


class CookingLevel(NamedTuple):
    """A level: rooms beside the kitchen, ingredients, the most preparations of one, foods that are not needed."""

    rooms: int
    ingredients: int
    steps: int
    clutter: int


LEVELS = (
    CookingLevel(1, 1, 2, 2),
    CookingLevel(2, 2, 2, 2),
    CookingLevel(3, 3, 2, 3),
    CookingLevel(5, 4, 3, 4),
    CookingLevel(7, 5, 3, 6),
)


class Meal(NamedTuple):
    """A kitchen under way.

    Attributes:
        recipe: each ingredient, in the order of the bowl, with its preparations in order.
        done: the (ingredient, preparation) pairs so far.
        bowl: what was added so far.
    """

    world: World
    dish: str
    recipe: tuple[tuple[str, tuple[str, ...]], ...]
    done: tuple[tuple[str, str], ...] = ()
    bowl: tuple[str, ...] = ()


class Cooking(WorldGame[Meal]):
    """Find ingredients and cook a dish by its recipe.

    Levels 1 to 5: 1 to 5 ingredients with up to 2, 2, 2, 3 and 3 preparations each, in 2, 3, 4, 6 and 8 rooms.

    From level 3 on the order of the bowl is told in pairs; from level 4 on the cookbook may lie anywhere.

    Observation: the goal and which tool does what; the recipe itself stands in the cookbook, to be examined.
    Reward: 1 for serving exactly the dish of the recipe, else 0.
    Episode end: ``serve``, right or wrong, or 30 to 210 turns are used up.
    """

    grammar = Grammar(
        "go look examine take drop open",
        *(Form(f"{verb} OBJECT with TOOL", verb, "with|using") for verb in TOOLS),
        *(Form(f"{verb} OBJECT with TOOL", verb, "with|using|on|in") for verb in HEATS),
        Form("add OBJECT to bowl", "add|put|place", "to|in|into", needed=False),
        Form("serve", "serve|serve dish|serve meal"),
        "inventory",
    )
    limits = (30, 45, 80, 140, 210)

    def begin(self, rng: random.Random, level: int) -> Meal:
        """Draws a recipe of peel, cut and heat steps; foods, and from level 2 on tools, lie anywhere, also in boxes."""
        shape = LEVELS[level - 1]
        rooms = ["kitchen", *rng.sample(ROOMS, shape.rooms)]
        exits, _ = grow(rng, [rooms], loops=0.2)
        foods = rng.sample(FOODS, shape.ingredients + shape.clutter)
        recipe = tuple((food, _preparations(rng, shape.steps)) for food in foods[: shape.ingredients])
        order = rng.sample([f"the {a} before the {b}" for (a, _), (b, _) in pairwise(recipe)], len(recipe) - 1)
        dish = f"{recipe[0][0]} {rng.choice(DISHES)}"
        in_order = ", then ".join(f"the {food}" for food, _ in recipe)
        bowl = f"all of them, {listing(order)}" if level >= 3 else in_order
        lines = [f"{food}: {', then '.join(steps)}" for food, steps in rng.sample(recipe, len(recipe))]
        text = f"The recipe for the {dish}: {'; '.join(lines)}; add to the bowl: {bowl}; then serve."
        boxes = {name: rng.choice(rooms) for name in rng.sample(BOXES, min(len(BOXES), 1 + level))}
        things = [(Thing(name, "box"), room) for name, room in boxes.items()]
        things += [(Thing("bowl", "fixture", "The ingredients go in here, once they are prepared."), "kitchen")]
        things += [(Thing(name, "fixture"), "kitchen") for name in HEATS.values()]
        things += [(Thing("cookbook", "fixture", text), "kitchen" if level < 4 else rng.choice(rooms))]
        spots = [*rooms, *boxes]
        tools = list(TOOLS.values())
        things += [(Thing(name), "kitchen" if level == 1 else rng.choice(spots)) for name in tools]
        things += [(Thing(name), rng.choice(spots)) for name in foods]
        return Meal(world_of(exits, "kitchen", things, capacity=3), dish, recipe)

    def rules(self, now: Meal) -> str:
        """Names the dish and which tool does what; the recipe itself stands in the cookbook, to be examined."""
        tools = ", ".join(f"{verb} with the {tool}" for verb, tool in NEEDS.items())
        return (
            f"Goal: cook the {now.dish} by its recipe and serve it. The recipe is in the cookbook: examine it.\n"
            "Rules: prepare each ingredient exactly as the recipe says, in that order and with the right tool: "
            f"{tools}. Carry the ingredient and the tool; the stove, the oven and the grill stay in the kitchen. "
            "There is one of each food, and what was done to it cannot be undone. In the kitchen, add the ingredients "
            "to the bowl in the order of the recipe, then serve. You serve once: if anything is missing, too much or "
            "out of order, the game is lost. Things may lie in closed boxes. You can carry 3 things."
        )

    def view(self, now: Meal) -> str:
        return now.world.view()

    def act(self, now: Meal, command: Command) -> CommandOutcome:
        """Wins or loses on ``serve`` alone: bowl, order and preparations must be those of the recipe."""
        if command.verb in NEEDS:
            return _prepare(now, command)
        if command.verb == "add":
            return _add(now, command)
        if command.verb == "serve":
            return _serve(now)
        world, message = perform(now.world, command)
        return CommandOutcome(now._replace(world=world), message)

    def options(self, now: Meal) -> list[str]:
        """World commands, preparations of carried foods with tools in reach, ``serve`` with anything in the bowl."""
        world = now.world
        reach = world.in_reach()
        foods = [name for name in world.inside(YOU) if name in FOODS]
        commands = possible(world, ACTIONS.keys() - {"put", "close", "unlock"})
        commands += [f"{verb} {food} with {tool}" for verb, tool in NEEDS.items() if tool in reach for food in foods]
        commands += [f"add {food} to bowl" for food in foods if "bowl" in reach]
        return commands + (["serve"] if now.bowl else [])

    def plan(self, now: Meal) -> str:
        """Reads the cookbook, then prepares and adds one ingredient after the other; searches for what is unseen."""
        world = now.world
        if "cookbook" not in world.examined:
            return do_at(world, "cookbook", "examine cookbook")
        if len(now.bowl) == len(now.recipe):
            return do_at(world, "bowl", "serve")
        food, steps = now.recipe[len(now.bowl)]
        done = sum(name == food for name, _ in now.done)
        verb = steps[done] if done < len(steps) else ""
        tool = TOOLS.get(verb, "")
        spare = next((name for name in world.inside(YOU) if name not in (food, tool)), "")
        for name in filter(None, (food, tool)):
            if not world.has(name):
                return fetch(world, name, full=spare)
        if verb in HEATS:
            return do_at(world, HEATS[verb], f"{verb} {food} with {HEATS[verb]}")
        return f"{verb} {food} with {tool}" if verb else do_at(world, "bowl", f"add {food} to bowl")


def _preparations(rng: random.Random, max_steps: int) -> tuple[str, ...]:
    """``max_steps`` preparations or one less: peeled first if at all, then cut, then cooked."""
    kinds = (["peel"], ["slice", "dice", "grate", "mash"], list(HEATS))
    count = rng.randint(max(1, max_steps - 1), max_steps)
    return tuple(rng.choice(kinds[i]) for i in sorted(rng.sample(range(3), count)))


def _prepare(now: Meal, command: Command) -> CommandOutcome:
    world, verb = now.world, command.verb
    foods = [name for name in world.inside(YOU) if name in FOODS]
    food = choose(command.first, foods, f"You do not carry that. You can {verb}:")
    tools = [name for name in world.in_reach() if name in NEEDS.values()]
    tool = choose(command.second, tools, f"You need the {NEEDS[verb]} for that. Here are the tools:")
    if tool != NEEDS[verb]:
        return CommandOutcome(now, f"You cannot {verb} with the {tool}; you need the {NEEDS[verb]}.")
    if verb in TOOLS and not world.has(tool):
        return CommandOutcome(now, f"Take the {tool} first.")
    world = world.mark(food, DONE[verb])
    return CommandOutcome(now._replace(world=world, done=(*now.done, (food, verb))), f"The {food} is {DONE[verb]} now.")


def _add(now: Meal, command: Command) -> CommandOutcome:
    world = now.world
    if world.here != "kitchen":
        return CommandOutcome(now, f"The bowl is in the kitchen; you are in the {world.here}.")
    if command.second not in ("", "bowl"):
        return CommandOutcome(now, "You can add ingredients to the bowl only.")
    foods = [name for name in world.inside(YOU) if name in FOODS]
    food = choose(command.first, foods, "You do not carry that. You can add:")
    bowl = (*now.bowl, food)
    return CommandOutcome(now._replace(world=world.moved(food, GONE), bowl=bowl), f"In the bowl: {listing(bowl)}.")


def _serve(now: Meal) -> CommandOutcome:
    if now.world.here != "kitchen" or not now.bowl:
        return CommandOutcome(now, "You can serve in the kitchen, when something is in the bowl.")
    meal = tuple((food, tuple(verb for name, verb in now.done if name == food)) for food in now.bowl)
    if meal == now.recipe:
        return CommandOutcome(now, f"You serve the {now.dish}, just as the recipe says.", True)
    return CommandOutcome(now, f"You serve it, but it is not the {now.dish} of the recipe.", False)
