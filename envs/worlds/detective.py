"""Detective: find out who stole a treasure and with which tool, then accuse once. Many turns; reward 1 if both are so.

What must be reasoned: when it happened, which tool left the marks, and whose alibi cannot be true. Everybody tells the
truth but the thief, who lies about the hour of the theft; exactly one person can be the liar, which is checked over
all of them when the case is made. Several people and tools, and one accusation, leave little to luck.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, Impossible, choose, listing, matches
from rlvr.envs.worlds.explorer import go_to, has_seen, search
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import PEOPLE, ROOMS, TREASURES
from rlvr.envs.worlds.world import Thing, World, perform, possible

TOOLS = tuple("crowbar chisel hammer screwdriver saw hook pliers wedge drill file poker spanner".split())
METALS = tuple("iron brass copper steel bronze tin".split())
WIDTHS = tuple("narrow broad curved pointed toothed".split())
HOURS = ("eight", "nine", "ten")
CASE = "showcase"

# For each level: suspects, tools, rooms, hours asked about.
LEVELS = ((3, 3, 4, 1), (4, 4, 5, 1), (5, 4, 6, 2), (6, 5, 8, 2), (8, 6, 10, 3))


class Claim(NamedTuple):
    """What a person says of an hour: the room, and who else was there."""

    room: str
    others: tuple[str, ...]


class CrimeCase(NamedTuple):
    """A case under way.

    Attributes:
        people: the suspects.
        claims: for each of the hours, the claim of each suspect.
        hour: the number of the hour of the theft.
        scene: the room of the theft.
        tools: each tool with its kind, such as "broad iron".
        marks: the kind of the marks at the scene.
        statements: the (person, hour) pairs that were asked.
    """

    world: World
    treasure: str
    people: tuple[str, ...]
    claims: tuple[tuple[Claim, ...], ...]
    hour: int
    scene: str
    tools: tuple[tuple[str, str], ...]
    marks: str
    statements: tuple[tuple[str, int], ...] = ()


class Detective(WorldGame[CrimeCase]):
    """Find out who took what with which tool.

    Levels 1 to 5: 3, 4, 5, 6 and 8 suspects, 3 to 6 tools, 4 to 10 rooms; from level 3 on the hour is unknown.

    Observation: the suspects and what the thief lies about; then rooms, marks, tools and what people say.
    Reward: 1 for accusing the thief with the right tool, else 0.
    Episode end: the one accusation, or 25 to 80 turns are used up.
    """

    grammar = Grammar(
        "go look examine",
        Form("ask NAME about HOUR", "ask|question|interview|talk to", "about", needed=False),
        Form("accuse NAME with TOOL", "accuse|arrest", "with|using"),
    )
    limits = (25, 30, 45, 60, 80)

    def begin(self, rng: random.Random, level: int) -> CrimeCase:
        """Draws alibis until exactly one suspect can be the liar; tools differ in width or metal."""
        suspects, tools, size, hours = LEVELS[level - 1]
        rooms = rng.sample(ROOMS, size)
        exits, _ = grow(rng, [rooms], loops=0.25)
        people = tuple(rng.sample(PEOPLE, suspects))
        thief, scene, hour = rng.choice(people), rng.choice(rooms), rng.randrange(hours)
        claims = tuple(_claims(rng, people, rooms, thief if number == hour else "", scene) for number in range(hours))
        kinds = rng.sample([f"{width} {metal}" for width in WIDTHS for metal in METALS], tools)
        chosen = tuple(zip(rng.sample(TOOLS, tools), kinds, strict=True))
        treasure = rng.choice(TREASURES)
        text = (
            f"The {treasure} is gone. A clock stopped at {HOURS[hour]}. A {kinds[0]} tool left its marks on the lock."
        )
        things = [(Thing(CASE, "fixture", text), scene)]
        things += [
            (Thing(name, "fixture", f"The {name} is a {kind} one."), rng.choice(rooms))
            for name, kind in rng.sample(chosen, tools)
        ]
        things += [(Thing(name, "fixture", f"{name} waits for your questions."), rng.choice(rooms)) for name in people]
        return CrimeCase(world_of(exits, rooms[0], things), treasure, people, claims, hour, scene, chosen, kinds[0])

    def rules(self, now: CrimeCase) -> str:
        """The suspects and who may lie about what; hour, marks and kinds of tools are found by examining."""
        hours = listing(HOURS[: len(now.claims)], "or")
        return (
            f"Goal: the {now.treasure} was stolen from the {CASE}, somewhere in this house, at {hours}. Find out who "
            "took it and with which tool, then accuse that person with that tool. You accuse once.\n"
            f"Rules: the suspects are {listing(now.people)}; one of them is the thief and acted alone, in the room of "
            f"the {CASE}. Ask each of them where they were at an hour. All tell the truth, except that the thief lies "
            "about the hour of the theft. Whoever tells the truth names everybody else who was in the same room, and "
            f"nobody changed rooms during an hour. The {CASE} shows the hour of the theft and what kind of tool left "
            "its marks; examine a tool to see of what kind it is."
        )

    def view(self, now: CrimeCase) -> str:
        """The room, the people and things in it and its exits."""
        return now.world.scene()

    def act(self, now: CrimeCase, command: Command) -> CommandOutcome:
        """Asking and examining take a turn; the one accusation ends the case, right only if person and tool are."""
        if command.verb == "ask":
            return _ask(now, command)
        if command.verb == "accuse":
            return _accuse(now, command)
        world, message = perform(now.world, command)
        return CommandOutcome(now._replace(world=world), world.scene() if command.verb in ("go", "look") else message)

    def options(self, now: CrimeCase) -> list[str]:
        """Moves, questions to those present, and, rarely, an accusation of a fixed suspect with a fixed tool."""
        commands = possible(now.world, ("go", "look", "examine"))
        here = [name for name in now.people if name in now.world.inside(now.world.here)]
        asked = [f"ask {name} about {hour}" for name in here for hour in HOURS[: len(now.claims)]]
        # Rarely an accusation: it ends the case.
        return 2 * (commands + asked) + [f"accuse {now.people[0]} with {now.tools[-1][0]}"]

    def plan(self, now: CrimeCase) -> str:
        """Examines the case and the tools, asks everybody about the hour, then accuses the only possible liar."""
        world = now.world
        tools = [name for name, _ in now.tools]
        wanted = [name for name in (CASE, *tools) if name not in world.examined]
        if any(name in world.examined and kind == now.marks for name, kind in now.tools) and CASE in world.examined:
            wanted = []  # the tool is found
        hour = now.hour if CASE in world.examined else None
        unasked = [name for name in now.people if (name, hour) not in now.statements]
        for name in world.inside(world.here):
            if name in wanted:
                return f"examine {name}"
            if name in unasked and hour is not None:
                return f"ask {name} about {HOURS[hour]}"
        missing = [name for name in (*wanted, *(unasked if hour is not None else ())) if has_seen(world, name)]
        if missing:
            return go_to(world, world.place(missing[0]))
        if wanted or unasked:
            return search(world)
        tool = next(name for name, kind in now.tools if kind == now.marks)
        return f"accuse {liars(now.people, now.claims[now.hour], now.scene)[0]} with {tool}"


def liars(people: tuple[str, ...], claims: tuple[Claim, ...], scene: str) -> list[str]:
    """Those who may be the only liar: without their claim the others agree, and nobody has seen them elsewhere."""
    message = dict(zip(people, claims, strict=True))
    return [suspect for suspect in people if _agree({n: c for n, c in message.items() if n != suspect}, suspect, scene)]


def _agree(message: dict[str, Claim], absent: str, scene: str) -> bool:
    for name, claim in message.items():
        if claim.room == scene or absent in claim.others:
            return False
        if any((other in claim.others) != (message[other].room == claim.room) for other in message if other != name):
            return False
    return True


def _claims(rng: random.Random, people: tuple[str, ...], rooms: list[str], thief: str, scene: str) -> tuple[Claim, ...]:
    """What all say of one hour; without a thief everybody tells the truth."""
    elsewhere = [room for room in rooms if room != scene] if thief else rooms
    while True:
        used = rng.sample(elsewhere, min(len(elsewhere), max(2, len(people) // 2)))
        at = {name: rng.choice(used) for name in people}
        true = {name: at[name] for name in people if name != thief}
        claims = []
        for name in people:
            others = [other for other in people if other != name and true.get(other) == at[name]]
            if name == thief and others and rng.random() < 0.4:
                others = others[:-1]
            claims.append(Claim(at[name], tuple(others)))
        if not thief or liars(people, tuple(claims), scene) == [thief]:
            return tuple(claims)


def _ask(now: CrimeCase, command: Command) -> CommandOutcome:
    here = [name for name in now.people if name in now.world.inside(now.world.here)]
    name = choose(command.first, here, "That person is not here. You can ask:")
    hours = HOURS[: len(now.claims)]
    meant = matches(command.second, hours) if command.second else hours[:1]
    if len(meant) != 1 or (not command.second and len(hours) > 1):
        raise Impossible(f"You can ask {name} about {listing(hours, 'or')}.")
    (hour,) = meant
    number = hours.index(hour)
    claim = now.claims[number][now.people.index(name)]
    company = f"with {listing(claim.others)} and nobody else" if claim.others else "alone"
    now = now._replace(statements=tuple(sorted({*now.statements, (name, number)})))
    return CommandOutcome(now, f'{name}: "At {hour} I was in the {claim.room}, {company}."')


def _accuse(now: CrimeCase, command: Command) -> CommandOutcome:
    name = choose(command.first, now.people, "There is no such suspect. The suspects are:")
    tools = [tool for tool, _ in now.tools if tool in now.world.examined]
    tool = choose(command.second, tools, "You have not looked at such a tool. Those you know:")
    if name == liars(now.people, now.claims[now.hour], now.scene)[0] and dict(now.tools)[tool] == now.marks:
        return CommandOutcome(now, f"You accuse {name} with the {tool}. {name} confesses.", True)
    return CommandOutcome(now, f"You accuse {name} with the {tool}. It is not proven, and the thief escapes.", False)
