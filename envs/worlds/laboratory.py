"""Laboratory: find out which substance a sample is by tests, of which there are few. Many turns; reward 1 if reported.

What must be reasoned: which test divides what is still possible best, density from mass and volume, and where the
instruments are. The portions of the sample are just enough for the worst case of always taking the best test next.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from rlvr.envs.tasks.wording import counted
from rlvr.envs.worlds.building import grow, world_of
from rlvr.envs.worlds.commands import Command, Form, Grammar, choose, listing
from rlvr.envs.worlds.explorer import fetch
from rlvr.envs.worlds.game import CommandOutcome, WorldGame
from rlvr.envs.worlds.word_lists import BOXES
from rlvr.envs.worlds.world import ACTIONS, YOU, Thing, World, perform, possible

ROOMS = tuple("main laboratory,store room,cold room,dark room,workshop,office,corridor,wash room,archive".split(","))
SUBSTANCES = tuple(
    "arvenite belorin cordelium drassite elvanite fermolin galdrite hastorium irvolite jessamine korvane lumerite "
    "mordanite nelvium orsolite pelagrin quillite rosmerium silvane torbanite".split()
)
# Instruments that use up a portion, and what can come out.
TESTS = {
    "litmus paper": ("turns litmus red", "turns litmus blue", "leaves litmus unchanged"),
    "burner": tuple(f"burns {colour}" for colour in ("orange", "green", "violet", "crimson")),
    "magnet": ("is attracted by a magnet", "is repelled by a magnet", "ignores a magnet"),
    "water flask": ("dissolves in water", "sinks in water", "floats on water"),
    "acid flask": ("fizzes in acid", "darkens in acid", "is unchanged in acid"),
    "ultraviolet lamp": tuple(f"{how} under ultraviolet light" for how in ("glows green", "glows blue", "stays dark")),
    "battery": ("conducts current", "does not conduct current"),
    "thermometer": tuple(f"melts at {degrees} degrees" for degrees in (40, 75, 110, 160)),
}
SCALES, CYLINDER = "scales", "measuring cylinder"
DENSITY = "density"
DENSITIES = (5, 8, 12, 15, 24, 35)  # in tenths of a gram per millilitre

# For each level: rooms, substances, tests, and whether densities are told.
LEVELS = ((2, 6, 3, False), (3, 8, 4, True), (4, 10, 5, True), (6, 13, 6, True), (8, 16, 7, True))
Row = tuple[str, ...]


class LabSample(NamedTuple):
    """An investigation under way.

    Attributes:
        columns: the instruments of the table, in its order; ``DENSITY`` for what two instruments tell together.
        table: for each substance, its name and what each column says of it.
        substance: the number of the right row.
        volume: in millilitres.
        portions: how many are left.
        results: the (column, result) pairs that the player has.
        measured: which of scales and cylinder were used.
    """

    world: World
    columns: tuple[str, ...]
    table: tuple[tuple[str, Row], ...]
    substance: int
    volume: int
    portions: int
    results: tuple[tuple[str, str], ...] = ()
    measured: tuple[str, ...] = ()


class Laboratory(WorldGame[LabSample]):
    """Find out by tests which substance a sample is.

    Levels 1 to 5: 6, 8, 10, 13 and 16 substances, 3 to 7 tests, 2 to 8 rooms; from level 2 on densities too.

    Observation: the table of all substances and the portions there are; then rooms and results.
    Reward: 1 for reporting the right substance, else 0.
    Episode end: the one report, or 20 to 110 turns are used up.
    """

    grammar = Grammar(
        "go look examine take drop open",
        Form("test sample with INSTRUMENT", "test|measure|mix", "with|using|in"),
        Form("report SUBSTANCE", "report|identify|answer"),
        "inventory",
    )
    limits = (20, 40, 55, 80, 110)

    def begin(self, rng: random.Random, level: int) -> LabSample:
        """Draws a table with no two equal rows; portions suffice for the greedy test order in its worst case."""
        size, substances, tests, dense = LEVELS[level - 1]
        columns = (*rng.sample(list(TESTS), tests), *((DENSITY,) if dense else ()))
        rows: list[Row] = []
        while len(set(rows)) < substances:
            rows = [_row(rng, columns) for _ in range(substances)]
        names = sorted(rng.sample(SUBSTANCES, substances))
        rooms = [ROOMS[0], *rng.sample(ROOMS[1:], size - 1)]
        exits, _ = grow(rng, [rooms], loops=0.2)
        boxes = {name: rng.choice(rooms) for name in rng.sample(BOXES, level)}
        things = [(Thing(name, "box"), room) for name, room in boxes.items()]
        instruments = [*columns[:tests], *((SCALES, CYLINDER) if dense else ())]
        things += [(Thing(name), rng.choice([*rooms, *boxes])) for name in instruments]
        table = tuple(zip(names, rows, strict=True))
        portions = _portions(columns, rows)
        world = world_of(exits, rooms[0], things, capacity=3)
        return LabSample(world, columns, table, rng.randrange(substances), 10 * rng.randint(1, 6), portions)

    def rules(self, now: LabSample) -> str:
        """The whole table of substances and the number of portions; where the instruments are is not told."""
        tests = [f"the {column}" for column in now.columns if column != DENSITY]
        density = ""
        if DENSITY in now.columns:
            density = f" The density, in grams per millilitre, is the mass (with the {SCALES}) divided by the volume "
            density += f"(with the {CYLINDER}); these two use up nothing."
        heads = ["" if column in TESTS else f"has {column} " for column in now.columns]
        lines = "\n".join(
            f"- {name}: {', '.join(f'{head}{value}' for head, value in zip(heads, row, strict=True))}"
            for name, row in now.table
        )
        return (
            f"Goal: find out which substance your sample is, and report it. You report once.\n"
            f"Rules: you can test the sample, which you have with you, with {listing(tests, 'or')}. Each such test "
            f"uses up a portion of it, and there {'is' if now.portions == 1 else 'are'} "
            f"{counted(now.portions, 'portion')}.{density} Carry an instrument to use it; the "
            "instruments are in these rooms, perhaps in closed boxes. You can carry 3 things. The table of all "
            f"substances:\n{lines}"
        )

    def view(self, now: LabSample) -> str:
        return now.world.view()

    def act(self, now: LabSample, command: Command) -> CommandOutcome:
        """A test uses a portion, scales and cylinder do not; ``report`` ends the game, right or wrong."""
        if command.verb == "test":
            return _test(now, command)
        if command.verb == "report":
            return _report(now, command)
        world, message = perform(now.world, command)
        return CommandOutcome(now._replace(world=world), message)

    def options(self, now: LabSample) -> list[str]:
        """World commands, tests with carried instruments, and, rarely, a report of the first two substances."""
        commands = possible(now.world, ACTIONS.keys() - {"put", "close", "unlock"})
        commands += [f"test sample with {name}" for name in now.world.inside(YOU)]
        return 3 * commands + [f"report {name}" for name, _ in now.table[:2]]

    def plan(self, now: LabSample) -> str:
        """Density first, as it is free; then the test whose largest group is smallest; reports when one row is left."""
        left = _left(now)
        if len(left) == 1:
            return f"report {now.table[left[0]][0]}"
        rows = [now.table[number][1] for number in left]
        if DENSITY in now.columns and len(now.measured) < 2:
            wanted = next(name for name in (SCALES, CYLINDER) if name not in now.measured)
        else:
            wanted = now.columns[_best(now.columns, rows)]
        world = now.world
        if world.has(wanted):
            return f"test sample with {wanted}"
        spare = next(iter(world.inside(YOU)), "")
        return fetch(world, wanted, full=spare)


def _values(column: str) -> tuple[str, ...]:
    return TESTS[column] if column in TESTS else tuple(str(tenths / 10) for tenths in DENSITIES)


def _row(rng: random.Random, columns: tuple[str, ...]) -> Row:
    """What each column says of a substance, drawn until its density agrees with whether it sinks or floats."""
    while True:
        row = tuple(rng.choice(_values(column)) for column in columns)
        properties = dict(zip(columns, row, strict=True))
        water, is_light = properties.get("water flask", ""), float(properties.get(DENSITY, 0)) < 1
        if DENSITY not in properties or not water.startswith("sinks" if is_light else "floats"):
            return row


def _groups(rows: list[Row], column: int) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return list(groups.values())


def _best(columns: tuple[str, ...], rows: list[Row]) -> int:
    """The test whose largest group is smallest."""
    tests = [number for number, column in enumerate(columns) if column != DENSITY]
    return min(tests, key=lambda number: max(map(len, _groups(rows, number))))


def _portions(columns: tuple[str, ...], rows: list[Row]) -> int:
    """How many tests the best-first strategy may need, the density known."""
    if DENSITY in columns:
        return max(1, *(_depth(columns, group) for group in _groups(rows, columns.index(DENSITY))))
    return _depth(columns, rows)


def _depth(columns: tuple[str, ...], rows: list[Row]) -> int:
    if len(rows) == 1:
        return 0
    return 1 + max(_depth(columns, group) for group in _groups(rows, _best(columns, rows)))


def _left(now: LabSample) -> list[int]:
    """The rows that agree with the results."""
    places = [(now.columns.index(column), result) for column, result in now.results]
    return [
        number
        for number, (_, row) in enumerate(now.table)
        if all(row[position] == result for position, result in places)
    ]


def _test(now: LabSample, command: Command) -> CommandOutcome:
    if command.first != "sample":
        return CommandOutcome(now, "You can test the sample only: test sample with INSTRUMENT.")
    name = choose(command.second, now.world.inside(YOU), "You do not carry that. You carry:")
    row = now.table[now.substance][1]
    if name in (SCALES, CYLINDER):
        measured = tuple(sorted({*now.measured, name}))
        tenths = round(10 * float(row[now.columns.index(DENSITY)]))
        grams = tenths * now.volume // 10
        message = f"weighs {grams} grams" if name == SCALES else f"fills {now.volume} millilitres"
        results = now.results
        if len(measured) == 2:
            results = tuple(sorted({*results, (DENSITY, row[now.columns.index(DENSITY)])}))
        return CommandOutcome(now._replace(measured=measured, results=results), f"The {name}: the sample {message}.")
    if not now.portions:
        return CommandOutcome(now, "No portion of the sample is left for tests. You can still report a substance.")
    result = row[now.columns.index(name)]
    now = now._replace(portions=now.portions - 1, results=tuple(sorted({*now.results, (name, result)})))
    return CommandOutcome(now, f"The sample {result}. Portions left: {now.portions}.")


def _report(now: LabSample, command: Command) -> CommandOutcome:
    names = [name for name, _ in now.table]
    name = choose(command.first, names, "There is no such substance in the table:")
    if name == names[now.substance]:
        return CommandOutcome(now, f"You report {name}. That is right.", True)
    return CommandOutcome(now, f"You report {name}. That is wrong: it was {names[now.substance]}.", False)
