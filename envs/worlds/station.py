"""SpaceStation: repair what is broken before the oxygen is used up. Many turns; reward 1 when everything works.

What must be reasoned: the order that the systems depend on, the shortest tours for parts and tools with two hands, and
when to recharge. Everything is known from the start: where things are and what each repair takes. The oxygen is what a
straightforward plan uses: the systems one by one, each part and tool fetched on the shortest way.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.tasks.wording import counted
from rlvr.envs.worlds.building import Exits, grow, world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, Impossible, choose, listing
from rlvr.envs.worlds.explorer import do_at, fetch
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.world import GONE, YOU, Thing, World, perform, possible

MODULES = tuple(
    "bridge hub airlock galley dormitory sickbay laboratory cargo-bay engine-room greenhouse workshop observatory "
    "hangar server-room reactor-room gym".split()
)
SYSTEMS = tuple(
    "antenna heater water-pump air-filter generator gyroscope computer radar thruster door-motor coolant-loop "
    "lamp-array solar-drive transmitter".split()
)
PARTS = tuple("fuse cable valve bearing lens circuit gasket relay coil rotor membrane sensor piston crystal".split())
TOOLS = ("wrench", "welder", "multimeter", "screwdriver")
CHARGER = "charger"
CAPACITY = 2

# For each level: modules, broken systems, tools, the most that a repair depends on, what the battery holds.
LEVELS = ((4, 2, 1, 1, 9), (5, 3, 2, 1, 9), (7, 4, 2, 2, 10), (9, 5, 3, 2, 10), (12, 7, 4, 3, 10))


class System(NamedTuple):
    """A broken system: what its repair takes, and what must work before."""

    name: str
    part: str
    tool: str
    energy: int
    after: tuple[str, ...]


class Station(NamedTuple):
    """A station under way; ``systems`` stand in an order in which they can be repaired."""

    world: World
    systems: tuple[System, ...]
    working: tuple[str, ...]
    battery: int
    full: int
    oxygen: int


class SpaceStation(WorldGame[Station]):
    """Repair a station before its oxygen is used up.

    Levels 1 to 5: 2, 3, 4, 5 and 7 broken systems in stations of 4, 5, 7, 9 and 12 modules.

    Observation: all faults, the stock and all ways; then the module, oxygen, battery and what is still broken.
    Reward: 1 when everything works, else 0.
    Episode end: everything works, the oxygen is used up, or 45 to 240 turns are.
    """

    grammar = Grammar(
        "go look take drop",
        Form("repair SYSTEM", "repair|fix|mend"),
        Form("recharge", "recharge|charge|recharge battery"),
        Form("status", "status|inventory|check status"),
    )
    limits = (45, 70, 110, 150, 240)

    def begin(self, rng: random.Random, level: int) -> Station:
        """Oxygen is what the plan of ``plan`` uses, computed in advance; repairs depend on earlier ones only."""
        size, count, tools, after, battery = LEVELS[level - 1]
        modules = [name.replace("-", " ") for name in rng.sample(MODULES, size)]
        exits, _ = grow(rng, [modules], loops=0.25)
        names = [name.replace("-", " ") for name in rng.sample(SYSTEMS, count)]
        parts, kit = rng.sample(PARTS, count), rng.sample(TOOLS, tools)
        systems = []
        for number, (name, part) in enumerate(zip(names, parts, strict=True)):
            before = rng.sample(names[:number], min(number, rng.randint(0, after)))
            systems.append(System(name, part, rng.choice(kit), rng.randint(2, 5), tuple(sorted(before))))
        spots = {name: rng.choice(modules) for name in (*names, CHARGER, *parts, *kit)}
        things = [(Thing(name, "fixture" if name in (*names, CHARGER) else "item"), at) for name, at in spots.items()]
        world = world_of(exits, modules[0], things, capacity=CAPACITY)
        world = world._replace(explored=tuple(sorted(modules)))  # the plan of the station is known
        oxygen = _oxygen(exits, modules[0], systems, spots, battery)
        return Station(world, tuple(systems), (), battery, battery, oxygen)

    def rules(self, now: Station) -> str:
        """Faults with part, tool, energy and order, the stock and all ways: nothing has to be explored."""
        world = now.world
        faults = "\n".join(
            f"- {system.name} (in the {world.place(system.name)}): needs the {system.part}, the {system.tool} and "
            f"{counted(system.energy, 'unit')} of energy"
            f"{f', and works only after the {listing(system.after)}' if system.after else ''}"
            for system in sorted(now.systems)
        )
        stock = "\n".join(
            f"- {thing.name}: {place}"
            for thing, place in sorted(zip(world.plan.things, world.places, strict=True))
            if thing.kind == "item" or thing.name == CHARGER
        )
        ways = "\n".join(
            f"- {room}: {', '.join(f'{way} to the {other}' for way, other in world.exits(room).items())}"
            for room in world.plan.rooms
        )
        return (
            "Goal: repair all broken systems before the oxygen is used up.\n"
            "Rules: every command that is understood uses 1 unit of oxygen, and recharging uses 2; at 0 the game is "
            "lost. To repair a system, be where it is and carry its part and its tool; the part is used up, the tool "
            "is not, and the "
            f"energy is taken from your battery, which holds {now.full}. Recharge it at the {CHARGER}. A system that "
            f"works only after others can be repaired once those work. You can carry {CAPACITY} things.\n"
            f"Broken systems:\n{faults}\nWhere things are:\n{stock}\nModules:\n{ways}"
        )

    def view(self, now: Station) -> str:
        """The module, then oxygen, battery and what is still broken."""
        return f"{now.world.view()}\n{_status(now)}"

    def act(self, now: Station, command: Command) -> CommandOutcome:
        """Charges 1 oxygen for every command that is read, refused or not, 2 for a recharge; lost at 0."""
        now = now._replace(oxygen=now.oxygen - 1)
        try:
            now, message = _carried_out(now, command)
        except Impossible as refusal:
            message = str(refusal)
        if len(now.working) == len(now.systems):
            return CommandOutcome(now, f"{message} Everything works again.", True)
        if now.oxygen <= 0:
            return CommandOutcome(now, f"{message} The oxygen is used up.", False)
        return CommandOutcome(now, f"{message}\n{_status(now)}")

    def options(self, now: Station) -> list[str]:
        """Moves, taking, dropping, repairs that are possible now, ``recharge`` at the charger, ``status``."""
        commands = possible(now.world, ("go", "look", "take", "drop"))
        if now.world.place(CHARGER) == now.world.here:
            commands.append("recharge")
        return (
            commands + [f"repair {system.name}" for system in now.systems if _fault(now, system) is None] + ["status"]
        )

    def plan(self, now: Station) -> str:
        """The systems in their order; for each the tool, the part, energy if it is short, then the repair."""
        world = now.world
        system = next(system for system in now.systems if system.name not in now.working)
        spare = next((name for name in world.inside(YOU) if name not in (system.part, system.tool)), "")
        for name in (system.tool, system.part):
            if not world.has(name):
                return fetch(world, name, full=spare)
        if now.battery < system.energy:
            return do_at(world, CHARGER, "recharge")
        return do_at(world, system.name, f"repair {system.name}")


def _oxygen(exits: Exits, start: str, systems: list[System], spots: dict[str, str], battery: int) -> int:
    """What the plan of ``SpaceStation.plan`` uses: a tool that is dropped lies where its successor was taken."""
    spots, here, charge, held, total = dict(spots), start, battery, "", 1
    distances = {room: _distances(exits, room) for room in exits}
    for system in systems:
        stops = [system.tool] if held != system.tool else []
        for name in (*stops, system.part):
            total += distances[here][spots[name]] + 2  # taking it, and perhaps dropping another
            here = spots[name]
        if stops and held:
            spots[held] = spots[system.part]
        held = system.tool
        if charge < system.energy:
            total += distances[here][spots[CHARGER]] + 2
            here, charge = spots[CHARGER], battery
        total += distances[here][spots[system.name]] + 1
        here, charge = spots[system.name], charge - system.energy
    return total


def _distances(exits: Exits, start: str) -> dict[str, int]:
    distances = {start: 0}
    for room in (waiting := [start]):
        for other in exits[room].values():
            if other not in distances:
                distances[other] = distances[room] + 1
                waiting.append(other)
    return distances


def _status(now: Station) -> str:
    broken = listing(system.name for system in now.systems if system.name not in now.working)
    return f"Oxygen {now.oxygen}, battery {now.battery} of {now.full}. Still broken: {broken}."


def _fault(now: Station, system: System) -> str | None:
    """Why a system cannot be repaired now; None if it can."""
    world = now.world
    missing = [name for name in (system.part, system.tool) if not world.has(name)]
    waiting = [name for name in system.after if name not in now.working]
    if world.place(system.name) != world.here:
        return f"The {system.name} is in the {world.place(system.name)}."
    if waiting:
        return f"First these must work: {listing(waiting)}."
    if missing:
        return f"You do not carry what it needs: {listing(missing)}."
    if now.battery < system.energy:
        return f"It needs {counted(system.energy, 'unit')} of energy, and the battery holds {now.battery}."
    return None


def _carried_out(now: Station, command: Command) -> tuple[Station, str]:
    if command.verb == "repair":
        return _repair(now, command)
    if command.verb == "recharge":
        return _recharge(now)
    if command.verb == "status":
        return now, now.world.carrying()
    world, message = perform(now.world, command)
    return now._replace(world=world), message


def _repair(now: Station, command: Command) -> tuple[Station, str]:
    broken = {system.name: system for system in now.systems if system.name not in now.working}
    name = choose(command.first, list(broken), "That is not broken. Broken are")
    system = broken[name]
    fault = _fault(now, system)
    if fault:
        return now, fault
    world = now.world.moved(system.part, GONE)
    now = now._replace(world=world, working=(*now.working, name), battery=now.battery - system.energy)
    return now, f"The {name} works again."


def _recharge(now: Station) -> tuple[Station, str]:
    if now.world.place(CHARGER) != now.world.here:
        return now, f"The {CHARGER} is in the {now.world.place(CHARGER)}."
    return now._replace(battery=now.full, oxygen=now.oxygen - 1), "The battery is full."
