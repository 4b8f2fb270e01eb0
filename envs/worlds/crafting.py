"""Crafting: gather materials and make one thing out of others, up to a goal. Many turns; reward 1 for making the goal.

What must be reasoned: the tree of recipes from the goal down, how many of each material it needs, which tools have to
be made before some materials can be gathered, and which recipes do not matter. The recipes are drawn anew for every
game: what is known of other worlds does not help.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

from rlvr.envs.tasks.wording import counted
from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, choose, listing
from rlvr.envs.worlds.explorer import do_at, go_to, has_seen, search
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.world import Thing, World, perform, possible

PLACES = tuple(
    "forest quarry meadow gorge marsh desert mine valley orchard pasture cave village thicket grove canyon "
    "clearing vineyard swamp ravine harbour jungle".split()
)
MATERIALS = tuple(
    "wood stone clay reed wool ore coal sand flax hide bamboo resin wheat bone shell feather honey moss chalk salt "
    "sulphur amber slate willow".split()
)
TOOLS = tuple("axe pickaxe shovel hammer sickle chisel".split())
STATIONS = tuple("workbench forge kiln loom anvil mill".split())
PRODUCTS = tuple(
    "plank brick rope cloth glass ingot nail charcoal barrel wheel lantern basket sail bell kite boat bow drum flute "
    "ladder mirror net oar paint pot quilt raft shield soap torch vase wagon whistle".split()
)

# What is not counted in pieces: "2 wool", but "2 planks".
UNCOUNTED = frozenset(
    "wood clay wool ore coal sand flax bamboo resin wheat honey moss chalk salt sulphur amber slate willow cloth glass "
    "charcoal paint soap".split()
)


class CraftingLevel(NamedTuple):
    """A level: places, materials, tools, products that the goal may need, products that it does not, stations."""

    places: int
    materials: int
    tools: int
    products: int
    clutter: int
    stations: int


LEVELS = (
    CraftingLevel(3, 4, 0, 2, 2, 0),
    CraftingLevel(4, 5, 1, 3, 2, 1),
    CraftingLevel(5, 5, 1, 4, 3, 2),
    CraftingLevel(6, 6, 2, 5, 4, 2),
    CraftingLevel(8, 7, 3, 6, 5, 3),
)
MAX_MATERIALS = (8, 14, 22, 30, 40)  # materials that the goal and its tools may need, by level


class Recipe(NamedTuple):
    """``name`` is made of ``parts``, (thing, count) pairs, at a station if one is named."""

    name: str
    parts: tuple[tuple[str, int], ...]
    station: str


class Yard(NamedTuple):
    """A land with its materials, what is known of them, and the bag.

    Attributes:
        recipes: each after those of its parts; the goal's is among them.
        tools: (material, tool) pairs: those that cannot be gathered by hand.
        bag: (thing, count) pairs, sorted.
    """

    world: World
    goal: str
    recipes: tuple[Recipe, ...]
    tools: tuple[tuple[str, str], ...]
    bag: tuple[tuple[str, int], ...] = ()

    def recipe(self, name: str) -> Recipe:
        """The recipe of an object."""
        return next(recipe for recipe in self.recipes if recipe.name == name)


class Crafting(WorldGame[Yard]):
    """Gather materials and craft what is wanted.

    Levels 1 to 5: the goal stands on 2 to 6 other recipes, 0 to 3 tools and 0 to 3 stations, in 3 to 8 places.

    It needs at most 8, 14, 22, 30 and 40 materials, those of its tools included.

    Observation: the goal and all recipes; then what is at the place and in the bag.
    Reward: 1 when the goal is crafted, else 0.
    Episode end: the goal is crafted, or 30 to 200 turns are used up; nothing else loses.
    """

    grammar = Grammar(
        "go look",
        Form("gather MATERIAL", "gather|collect|take|chop|mine|dig|cut|pick|harvest|get"),
        Form("craft OBJECT", "craft|make|build|create"),
        Form("bag", "bag|inventory|check bag|i"),
        "examine",
    )
    limits = (30, 60, 110, 150, 200)

    def begin(self, rng: random.Random, level: int) -> Yard:
        """Draws recipes until the goal and its tools need ``MAX_MATERIALS`` at most; some recipes lead nowhere."""
        shape = LEVELS[level - 1]
        places = rng.sample(PLACES, shape.places)
        exits, _ = grow(rng, [places], loops=0.2)
        stations = rng.sample(STATIONS, shape.stations)
        materials = rng.sample(MATERIALS, shape.materials)
        tools = rng.sample(TOOLS, shape.tools)
        # Some materials can be had by hand, and each tool opens up the next one.
        needed = tuple(zip(materials[len(materials) - len(tools) :], tools, strict=True))
        recipes, goal = _recipes(rng, shape, materials, tools, stations)
        while _materials(recipes, goal, needed) > MAX_MATERIALS[level - 1]:
            recipes, goal = _recipes(rng, shape, materials, tools, stations)
        by_hand = {name: f"The {name} can be gathered by hand." for name in materials}
        by_tool = {name: f"The {name} can be gathered with the {tool}." for name, tool in needed}
        fixtures = by_hand | by_tool | {name: f"Some things are made at the {name}." for name in stations}
        things = [(Thing(name, "fixture", text), rng.choice(places)) for name, text in fixtures.items()]
        return Yard(world_of(exits, places[0], things), goal, recipes, needed)

    def rules(self, now: Yard) -> str:
        """The goal, all recipes and the materials that need a tool; where materials are must be found out."""
        book = sorted(now.recipes)
        lines = "\n".join(f"- {recipe.name}: {_parts(recipe)}{_at_station(recipe)}" for recipe in book)
        tools = [f"{name} needs the {tool} in the bag" for name, tool in now.tools]
        return (
            f"Goal: craft one {now.goal}.\n"
            "Rules: gather materials where they are found, one piece a command; there is no end of them. "
            f"{'Some need a tool: ' + listing(tools) + '; tools are not used up. ' if tools else ''}"
            "Craft things out of what is in the bag; what a recipe needs is used up. "
            f"The bag holds any number of things. Recipes, each for one piece:\n{lines}"
        )

    def view(self, now: Yard) -> str:
        """What is at the place, the ways from it, and the bag."""
        return f"{now.world.scene()}\n{_bag(now)}"

    def act(self, now: Yard, command: Command) -> CommandOutcome:
        """Won when the goal is crafted; gathering gives one piece, and crafting uses up the parts, never the tools."""
        if command.verb == "gather":
            return _gather(now, command)
        if command.verb == "craft":
            return _craft(now, command)
        if command.verb == "bag":
            return CommandOutcome(now, _bag(now))
        world, message = perform(now.world, command)
        now = now._replace(world=world)
        return CommandOutcome(now, self.view(now) if command.verb in ("go", "look") else message)

    def options(self, now: Yard) -> list[str]:
        """Ways, things to examine, materials here, whatever their tool, and recipes whose parts are in the bag."""
        commands = possible(now.world, ("go", "look", "examine"))
        return commands + [f"gather {name}" for name in _here(now)] + [f"craft {name}" for name in _ready(now)]

    def plan(self, now: Yard) -> str:
        """Works back from the goal: missing tools first, then materials, then crafting in order."""
        return _towards(now, now.goal)


def _recipes(
    rng: random.Random, shape: CraftingLevel, materials: list[str], tools: list[str], stations: list[str]
) -> tuple[tuple[Recipe, ...], str]:
    """The recipes of tools, products and the goal, and the goal's name."""
    names = rng.sample(PRODUCTS, shape.products + shape.clutter + 1)
    recipes = []
    free = len(materials) - len(tools)
    for number, tool in enumerate(tools):
        parts = rng.sample(materials[: free + number], 2)
        recipes.append(Recipe(tool, tuple((part, rng.randint(1, 2)) for part in parts), ""))
    products: list[str] = []
    for name in names[: shape.products + 1]:
        parts = [*products[-2 if rng.random() < 0.3 else -1 :], *rng.sample(materials, 1 if products else 2)]
        counts = [1 if part in products else rng.randint(1, 2) for part in parts]
        station = rng.choice(["", *stations])
        recipes.append(Recipe(name, tuple(zip(parts, counts, strict=True)), station))
        products.append(name)
    goal = products[-1]
    for name in names[shape.products + 1 :]:
        parts = rng.sample([*materials, *products], 2)
        recipes.append(Recipe(name, tuple((part, rng.randint(1, 2)) for part in parts), rng.choice(["", *stations])))
    return tuple(recipes), goal


def _materials(recipes: tuple[Recipe, ...], goal: str, tools: tuple[tuple[str, str], ...]) -> int:
    """How many materials the goal and all tools need."""
    return sum(_missing(recipes, name, Counter())[0].total() for name in (goal, *(tool for _, tool in tools)))


def _missing(recipes: tuple[Recipe, ...], target: str, bag: Counter[str]) -> tuple[Counter[str], list[str]]:
    """The materials still to gather for one ``target``, and what to craft then, in order."""
    book = {recipe.name: recipe.parts for recipe in recipes}
    materials: Counter[str] = Counter()
    crafts: list[str] = []
    stock = bag.copy()

    def need(name: str, count: int) -> None:
        used = min(stock[name], count)
        stock[name] -= used
        if name not in book:
            materials[name] += count - used
            return
        for _ in range(count - used):
            for part, number in book[name]:
                need(part, number)
            crafts.append(name)

    need(target, 1)
    return +materials, crafts


def _towards(now: Yard, target: str) -> str:
    """The expert's next command on the way to one ``target``: tools first, then the nearest material, then crafting."""
    world = now.world
    materials, crafts = _missing(now.recipes, target, Counter(dict(now.bag)))
    needed, owned = dict(now.tools), dict(now.bag)
    for name in sorted(materials):
        if name in needed and needed[name] not in owned:
            return _towards(now, needed[name])
    for name in sorted(materials):
        if world.place(name) == world.here:
            return f"gather {name}"
    for name in sorted(materials):
        if has_seen(world, name):
            return go_to(world, world.place(name))
    if materials:
        return search(world)
    station = now.recipe(crafts[0]).station
    return do_at(world, station, f"craft {crafts[0]}") if station else f"craft {crafts[0]}"


def _several(name: str) -> str:
    return name if name in UNCOUNTED else f"{name}es" if name.endswith("ch") else f"{name}s"


def _amount(count: int, name: str) -> str:
    return counted(count, name, _several(name))


def _singular(noun: str, names: list[str]) -> str:
    """The name that a noun is the plural of, else the noun."""
    return next((name for name in names if _several(name) == noun), noun)


def _parts(recipe: Recipe) -> str:
    return listing(_amount(count, part) for part, count in recipe.parts)


def _at_station(recipe: Recipe) -> str:
    return f", at the {recipe.station}" if recipe.station else ""


def _here(now: Yard) -> list[str]:
    return [name for name in now.world.inside(now.world.here) if name not in STATIONS]


def _ready(now: Yard) -> list[str]:
    bag = dict(now.bag)
    return [
        recipe.name
        for recipe in now.recipes
        if all(bag.get(part, 0) >= count for part, count in recipe.parts)
        and (not recipe.station or now.world.place(recipe.station) == now.world.here)
    ]


def _bag(now: Yard) -> str:
    return f"In the bag: {listing(_amount(count, name) for name, count in now.bag)}."


def _with(now: Yard, name: str, count: int) -> Yard:
    bag = Counter(dict(now.bag))
    bag[name] += count
    return now._replace(bag=tuple(sorted((thing, number) for thing, number in bag.items() if number)))


def _gather(now: Yard, command: Command) -> CommandOutcome:
    here = _here(now)
    name = choose(_singular(command.first, here), here, "You cannot gather that here. Here can be gathered:")
    tool = dict(now.tools).get(name)
    if tool and tool not in dict(now.bag):
        return CommandOutcome(now, f"You need the {tool} to gather {name}.")
    now = _with(now, name, 1)
    return CommandOutcome(now, f"You gather 1 {name}. {_bag(now)}")


def _craft(now: Yard, command: Command) -> CommandOutcome:
    names = [recipe.name for recipe in now.recipes]
    name = choose(_singular(command.first, names), names, "There is no recipe for that. Recipes:")
    recipe = now.recipe(name)
    if name not in _ready(now):
        return CommandOutcome(now, f"To craft that you need {_parts(recipe)}{_at_station(recipe)}. {_bag(now)}")
    for part, count in recipe.parts:
        now = _with(now, part, -count)
    now = _with(now, name, 1)
    return CommandOutcome(now, f"You craft 1 {name}. {_bag(now)}", True if name == now.goal else None)
