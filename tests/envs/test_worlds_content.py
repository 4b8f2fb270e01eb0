"""The text worlds: the content of each game, worked out a second time from what the player is told."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.worlds.adventure import TextAdventure
from rlvr.envs.worlds.cooking import NEEDS, Cooking
from rlvr.envs.worlds.crafting import TOOLS, Crafting
from rlvr.envs.worlds.detective import CASE, HOURS, Detective
from rlvr.envs.worlds.errands import Errands
from rlvr.envs.worlds.escape_room import EscapeRoom
from rlvr.envs.worlds.household import APPLIANCES, Household
from rlvr.envs.worlds.laboratory import CYLINDER, DENSITY, SCALES, Laboratory
from rlvr.envs.worlds.landmarks import ORDINALS, LandmarkNavigation
from rlvr.envs.worlds.station import SpaceStation
from rlvr.envs.worlds.thermostat import Thermostat
from rlvr.envs.worlds.trading import Trading, best_leg
from rlvr.envs.worlds.treasure_hunt import ROOM_RIDDLES, THING_RIDDLES, TreasureHunt
from rlvr.envs.worlds.world import YOU, with_name

SEEDS = st.integers(0, 2**64)
LEVELS = st.integers(1, 5)
few = settings(max_examples=30, deadline=None)


def begin(game, seed, level):
    return game().start(random.Random(seed), level)


def say(game, state, command):
    state, verdict, over, _ = game().apply(state, command)
    return state, verdict, over


def until(game, state, stop):
    """The expert's play up to its first command that begins with ``stop``."""
    task = game()
    while not (command := task.plan(state.now)).startswith(stop):
        state, verdict, over = say(game, state, command)
        assert not over, verdict
    return state, command


# TextAdventure


@given(SEEDS, LEVELS)
@few
def test_every_key_can_be_reached_without_what_it_opens(seed, level):
    """By opening all that can be opened, again and again, until nothing changes."""
    house = begin(TextAdventure, seed, level).now
    world, keys, before = house.world, set(), None
    while before != (len(keys), len(world.locked)):
        before = (len(keys), len(world.locked))
        rooms, waiting = {house.home}, [house.home]
        for room in waiting:
            for other in world.exits(room).values():
                door = world.door(room, other)
                if other not in rooms and not (door and door.name in world.locked):
                    rooms.add(other)
                    waiting.append(other)
        for thing, place in zip(world.plan.things, world.places, strict=True):
            if world.room_of(thing.name) in rooms and place not in world.locked:
                keys.add(thing.name)
        opened = [door.name for door in world.plan.doors if door.key in keys]
        opened += [thing.name for thing in world.plan.things if thing.key in keys and world.place(thing.name) in rooms]
        world = world._replace(locked=tuple(name for name in world.locked if name not in opened))
    assert world.locked == ()
    assert house.treasure in keys
    assert house.world.room_of(house.treasure) != house.home


def test_a_wrong_key_does_not_open_and_a_locked_door_is_not_passed():
    state = begin(TextAdventure, 0, 1)
    world = state.now.world
    door = world.plan.doors[0]
    wrong = next(thing.name for thing in world.plan.things if thing.kind == "item" and thing.name != door.key)
    world = world._replace(here=door.ends[0]).moved(wrong, YOU)
    state = state._replace(now=state.now._replace(world=world))
    way = next(way for way, room in world.exits().items() if room == door.ends[1])
    for command in (f"open {door.name}", f"go {way}", f"unlock {door.name} with {wrong}", f"unlock {door.name}"):
        state, _, _ = say(TextAdventure, state, command)
        assert state.now.world.here == door.ends[0]
        assert door.name in state.now.world.locked
    world = world.moved(door.key, YOU)
    state = state._replace(now=state.now._replace(world=world))
    for command in (f"unlock {door.name} with {door.key}", f"open {door.name}", f"go {way}"):
        state, _, _ = say(TextAdventure, state, command)
    assert state.now.world.here == door.ends[1]


# Household


def test_heating_and_cooling_undo_each_other_and_cleaning_does_not():
    state = begin(Household, 4, 2)
    item = "green plate"
    world = state.now.world._replace(here="kitchen").moved(item, YOU)
    state = state._replace(now=state.now._replace(world=world))
    marks = []
    for verb, mark in (("clean", "clean"), ("heat", "hot"), ("cool", "cold"), ("heat", "hot")):
        state, _, _ = say(Household, state, f"{verb} {item} with {APPLIANCES[mark]}")
        marks.append(state.now.world.marked(item))
    assert marks == [["clean"], ["clean", "hot"], ["clean", "cold"], ["clean", "hot"]]
    state, _, _ = say(Household, state, f"heat {item} with fridge")
    assert "microwave" in state.message


@given(SEEDS, LEVELS)
@few
def test_nothing_is_in_its_place_at_first_and_exactly_enough_things_are_there(seed, level):
    home = begin(Household, seed, level).now
    for goal in home.goals:
        named = [
            (thing.name, place)
            for thing, place in zip(home.world.plan.things, home.world.places, strict=True)
            if thing.kind == "item" and thing.name.endswith(goal.noun)
        ]
        assert len(named) == goal.number
        assert all(place != goal.place for _, place in named)


# Cooking


@given(SEEDS, LEVELS)
@few
def test_the_cookbook_tells_the_whole_recipe(seed, level):
    meal = begin(Cooking, seed, level).now
    text = meal.world.thing("cookbook").text
    steps = dict(re.findall(r"(\w+): (\w+(?:, then \w+)*);", text))
    told = {food: tuple(line.split(", then ")) for food, line in steps.items()}
    assert told == dict(meal.recipe)
    foods = [food for food, _ in meal.recipe]
    if level >= 3:
        pairs = re.findall(r"the (\w+) before the (\w+)", text)
        orders = [
            order for order in itertools.permutations(foods) if all(order.index(a) < order.index(b) for a, b in pairs)
        ]
        assert orders == [tuple(foods)]
    else:
        assert (
            re.findall(
                r"\w+", text.partition("to the bowl: ")[2].partition(";")[0].replace("the ", "").replace("then ", "")
            )
            == foods
        )


@pytest.mark.parametrize("spoil", ["too much", "too little", "order"])
def test_a_dish_that_is_not_the_recipes_is_the_end_without_reward(spoil):
    state = begin(Cooking, 4, 2)
    if spoil == "too little":
        state, command = until(Cooking, state, "add")
        state, _, _ = say(Cooking, state, command)
    else:
        state, command = until(Cooking, state, "serve")
        (one, _), (other, _) = state.now.recipe
        changed = {"bowl": (other, one)} if spoil == "order" else {"done": (*state.now.done, (one, "grill"))}
        state = state._replace(now=state.now._replace(**changed))
    _, verdict, over = say(Cooking, state, "serve")
    assert (verdict.status, verdict.reward, over) == ("wrong", 0.0, True)


def test_only_the_right_tool_does_it():
    state, command = until(Cooking, begin(Cooking, 1, 3), tuple(NEEDS))
    verb, rest = command.split(" ", 1)
    food = rest.split(" with ")[0]
    for tool in set(NEEDS.values()) - {NEEDS[verb]}:
        after, _, _ = say(Cooking, state, f"{verb} {food} with {tool}")
        assert after.now == state.now
        assert NEEDS[verb] in after.message or tool not in state.now.world.in_reach()


# Crafting


@given(SEEDS, LEVELS)
@few
def test_recipes_stand_on_what_can_be_had_and_tools_on_what_needs_no_later_tool(seed, level):
    yard = begin(Crafting, seed, level).now
    needed = dict(yard.tools)
    materials = [thing.name for thing in yard.world.plan.things]
    had = {name for name in materials if name not in needed}
    waiting = list(yard.recipes)
    while waiting:
        ready = [recipe for recipe in waiting if all(part in had for part, _ in recipe.parts)]
        gained = {name for name, tool in needed.items() if tool in had} - had
        assert ready or gained, "what is left waits for itself"
        had |= gained | {recipe.name for recipe in ready}
        waiting = [recipe for recipe in waiting if recipe not in ready]
    assert yard.goal in had
    assert yard.goal not in TOOLS


def test_crafting_uses_up_parts_and_not_tools_and_refuses_what_lacks():
    state, command = until(Crafting, begin(Crafting, 3, 3), "craft")
    made = command.split(" ", 1)[1]
    before = dict(state.now.bag)
    after, _, _ = say(Crafting, state, command)
    bag = dict(after.now.bag)
    assert bag[made] == before.get(made, 0) + 1
    for part, count in state.now.recipe(made).parts:
        assert bag.get(part, 0) == before[part] - count
    refused, verdict, over = say(Crafting, state, f"craft {state.now.goal}")
    assert (verdict.reward, over, refused.now) == (0.0, False, state.now)
    assert "you need" in refused.message


# TreasureHunt


@given(SEEDS, LEVELS)
@few
def test_every_clue_leads_where_its_text_says(seed, level):
    hunt = begin(TreasureHunt, seed, level).now
    rooms = {riddle: room for room, riddle in ROOM_RIDDLES.items()}
    things = {riddle: thing for thing, riddle in THING_RIDDLES.items()}
    here = hunt.world.here
    for clue in hunt.clues:
        place, _, what = clue.text.removesuffix(".").partition(". There search ")
        if place.startswith("From here go "):
            for way in place.removeprefix("From here go ").split(", then "):
                here = hunt.world.exits(here)[way]
        else:
            riddle, _, beside = place.removeprefix("Go to the place ").partition(", and from there one room ")
            here = rooms[riddle]
            if beside:
                here = hunt.world.exits(here)[beside]
        thing = things.get(what, what.removeprefix("the "))
        assert (here, thing) == (clue.room, clue.thing)
        assert thing in hunt.things[hunt.world.plan.rooms.index(here)]


def test_riddles_are_told_apart():
    for riddles in (ROOM_RIDDLES, THING_RIDDLES):
        assert len(set(riddles.values())) == len(riddles) >= 20
        assert not any(re.search(rf"\b{name}\b", riddle) for name, riddle in riddles.items())


def test_searching_everything_loses_the_hunt():
    state, over, verdict = begin(TreasureHunt, 2, 3), False, None
    clue = state.now.clues[0]
    wrong = [thing for thing in state.now.here() if (state.now.world.here, thing) != (clue.room, clue.thing)]
    for count in range(state.now.searches):
        assert not over
        state, verdict, over = say(TreasureHunt, state, f"search {wrong[count % len(wrong)]}")
    assert (over, verdict.status) == (True, "wrong")


# EscapeRoom


def code_of(text, numbers):
    """The code that a note describes, from its text and the numbers on the things of the room."""
    named = [numbers[thing] for thing in re.findall(r"the (\w+ \w+)(?=[ ,.;]|$)", text) if thing in numbers]
    if "second largest" in text:
        return min(numbers.values()) * sorted(numbers.values())[-2]
    if found := re.search(r"all (\w+) things", text):
        return sum(n for thing, n in numbers.items() if thing.split()[0] == found[1]) * named[-1] % 10_000
    if found := re.search(r"smallest number on a (\w+) thing", text):
        least = min(n for thing, n in numbers.items() if thing.split()[0] == found[1])
        return (max(numbers.values()) - least) * named[-1]
    if "ten times" in text:
        return 10 * sum(named) - min(named)
    if "multiply" in text:
        return named[0] * named[1] + sum(named[2:])
    return sum(named)


@given(SEEDS, LEVELS)
@few
def test_the_notes_and_the_numbers_give_the_codes(seed, level):
    cell = begin(EscapeRoom, seed, level).now
    for lock in cell.locks:
        room = (
            next(name.removesuffix(" door") for name in [lock.name])
            if " " in lock.name
            else cell.world.place(lock.name)
        )
        numbers = {
            thing.name: int(found[1])
            for thing in cell.world.plan.things
            if cell.world.place(thing.name) == room and (found := re.search(r"bears the number (\d+)", thing.text))
        }
        assert lock.code == f"{code_of(lock.note, numbers):04d}", lock
        assert set(lock.needs) <= set(numbers)


def test_a_wrong_code_opens_nothing_and_a_right_one_only_where_it_is_set():
    state, command = until(EscapeRoom, begin(EscapeRoom, 0, 3), "enter")
    _, code, _, name = command.split(" ", 3)
    for wrong in (f"{(int(code) + 1) % 10_000:04d}", code[1:], f"{code}0", "abcd"):
        after, _, _ = say(EscapeRoom, state, f"enter {wrong} on {name}")
        assert after.now == state.now
    after, _, _ = say(EscapeRoom, state, f"enter {code} on {state.now.world.here} door")
    assert len(after.now.world.locked) == len(state.now.world.locked)
    after, _, _ = say(EscapeRoom, state, command)
    assert name not in after.now.world.locked


# Detective


def statements(state):
    """Who said of whom to have been where in the hour of the theft, in the words that the player hears."""
    case, heard = state.now, {}
    for name in case.people:
        world = case.world._replace(here=case.world.place(name))
        after, _, _ = say(
            Detective, state._replace(now=case._replace(world=world)), f"ask {name} about {HOURS[case.hour]}"
        )
        room, others = re.search(r"I was in the (\w+), (?:with )?(.*?)\.", after.message).groups()
        heard[name] = (room, set(re.findall(r"[A-Z]\w+", others)))
    return heard


@given(SEEDS, LEVELS)
@few
def test_exactly_one_person_can_be_the_liar_and_the_expert_names_that_one(seed, level):
    state = begin(Detective, seed, level)
    heard, possible = statements(state), []
    for suspect in heard:
        others = {name: claim for name, claim in heard.items() if name != suspect}
        together = {room: {name for name, (at, _) in others.items() if at == room} for room, _ in others.values()}
        if state.now.scene not in together and all(
            message == together[at] - {n} for n, (at, message) in others.items()
        ):
            possible.append(suspect)
    assert len(possible) == 1
    state, command = until(Detective, state, "accuse")
    assert command.startswith(f"accuse {possible[0]} with ")
    tool = command.rpartition(" with ")[2]
    kinds = [thing.text for thing in state.now.world.plan.things if state.now.marks in thing.text]
    assert len(kinds) == 2, "the marks are those of one tool"
    assert state.now.marks in state.now.world.thing(CASE).text
    for person, with_tool in itertools.product(state.now.people, dict(state.now.tools)):
        seen = state.now.world._replace(examined=with_name(state.now.world.examined, with_tool))
        _, verdict, over = say(
            Detective, state._replace(now=state.now._replace(world=seen)), f"accuse {person} with {with_tool}"
        )
        assert over
        assert (verdict.reward == 1.0) == ((person, with_tool) == (possible[0], tool))


# Laboratory


@given(SEEDS, LEVELS)
@few
def test_the_table_tells_all_substances_apart_and_tests_agree_with_it(seed, level):
    state = begin(Laboratory, seed, level)
    sample = state.now
    rows = [row for _, row in sample.table]
    assert len(set(rows)) == len(rows)
    row = rows[sample.substance]
    for column, value in zip(sample.columns, row, strict=True):
        if column == DENSITY:
            told = []
            for name in (SCALES, CYLINDER):
                world = sample.world.moved(name, YOU)
                after, _, _ = say(
                    Laboratory, state._replace(now=sample._replace(world=world)), f"test sample with {name}"
                )
                assert after.now.portions == sample.portions
                told.append(int(re.search(r"(?:weighs|fills) (\d+)", after.message)[1]))
            assert told[0] / told[1] == float(value)
        else:
            world = sample.world.moved(column, YOU)
            after, _, _ = say(
                Laboratory, state._replace(now=sample._replace(world=world)), f"test sample with {column}"
            )
            assert f"{value}. Portions left: {sample.portions - 1}" in after.message
    for number, (name, _) in enumerate(sample.table):
        _, verdict, over = say(Laboratory, state, f"report {name}")
        assert (over, verdict.reward) == (True, float(number == sample.substance))


@given(SEEDS, LEVELS)
@few
def test_the_portions_are_enough_for_any_substance_of_the_table(seed, level):
    task, state = Laboratory(), begin(Laboratory, seed, level)
    for number in range(len(state.now.table)):
        other, over, verdict = state._replace(now=state.now._replace(substance=number)), False, None
        for _ in range(task.turns(level)):
            other, verdict, over = say(Laboratory, other, task.plan(other.now))
            if over:
                break
        assert over
        assert verdict.reward == 1.0


def test_without_portions_nothing_can_be_tested():
    state, command = until(Laboratory, begin(Laboratory, 1, 1), "test")
    state = state._replace(now=state.now._replace(portions=0))
    after, _, over = say(Laboratory, state, command)
    assert after.now == state.now
    assert not over


# Trading


def richest(land, town, day, coins):
    """By trying every tour and every good, without a table."""
    best = coins
    for there, days, toll in land.roads[town]:
        if day + days <= land.days and toll <= coins:
            for price, more in [(1, 1), *zip(land.prices[town], land.prices[there], strict=True)]:
                purse = coins - toll
                best = max(
                    best, richest(land, there, day + days, purse + min(land.room, purse // price) * (more - price))
                )
    return best


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_the_target_is_the_most_that_any_tour_of_one_good_at_a_time_earns(seed):
    market = begin(Trading, seed, 1).now
    assert (
        market.land.target
        == richest(market.land, 0, 0, market.coins)
        == best_leg(market.land, 0, 0, market.coins).coins
    )
    assert market.land.target >= market.coins * 3 / 2


@given(SEEDS, LEVELS, st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
@few
def test_no_deal_makes_coins_or_goods_out_of_nothing(seed, level, choices):
    task, state = Trading(), begin(Trading, seed, level)
    for choice in choices:
        options = task.options(state.now)
        command = options[choice % len(options)]
        before = state.now
        state, _, over = say(Trading, state, command)
        if over:
            break
        now, prices = state.now, state.now.land.prices[state.now.town]
        assert now.coins >= 0
        assert min(now.cart) >= 0
        assert sum(now.cart) <= now.land.room
        assert now.day <= now.land.days
        if now.town == before.town:
            worth = [m.coins + sum(p * n for p, n in zip(prices, m.cart, strict=True)) for m in (before, now)]
            assert worth[0] == worth[1]
    for good in state.now.land.goods:
        for command in (f"buy 999999 {good}", f"sell 999999 {good}", f"buy 0 {good}", f"sell -1 {good}", f"buy {good}"):
            after, _, _ = say(Trading, state, command)
            assert after.now == state.now


# Errands


def test_too_late_is_the_end_too_early_is_told_and_a_parcel_goes_to_its_place_only():
    state, command = until(Errands, begin(Errands, 0, 3), "deliver")
    parcel = next(p for p in state.now.town.parcels if p.name == command.removeprefix("deliver "))
    early = state._replace(now=state.now._replace(minute=parcel.opens - 1))
    after, _, over = say(Errands, early, command)
    assert (after.now, over) == (early.now, False)
    assert "too early" in after.message
    elsewhere = state._replace(now=state.now._replace(here=parcel.source))
    after, _, _ = say(Errands, elsewhere, command)
    assert after.now == elsewhere.now
    _, verdict, over = say(Errands, state, "wait 999 minutes")
    assert (over, verdict.status, verdict.reward) == (True, "wrong", 0.0)


@given(SEEDS, LEVELS)
@few
def test_streets_take_as_long_both_ways_and_the_shortest_ways_are_no_longer(seed, level):
    town = begin(Errands, seed, level).now.town
    for place, streets in enumerate(town.streets):
        for other, minutes in streets:
            assert (place, minutes) in town.streets[other]
            for end in range(len(town.places)):
                assert town.distances[place][end] <= minutes + town.distances[other][end]
    assert all(parcel.opens < parcel.closes for parcel in town.parcels)


# Thermostat


@given(SEEDS, st.integers(1, 2))
@settings(max_examples=8, deadline=None)
def test_the_budget_is_what_the_cheapest_plan_costs(seed, level):
    now = begin(Thermostat, seed, level).now
    costs = []

    def plan(hour, inside, cost):
        if hour == len(now.hours):
            costs.append(cost)
            return
        for heat in range(now.power + 1):
            later = inside + heat + now.hours[hour].weather - (max(0, inside - now.mild) // 4 if now.leaks else 0)
            if now.hours[hour].low <= later <= now.hours[hour].high:
                plan(hour + 1, later, cost + heat * now.hours[hour].price)

    plan(0, now.inside, 0)
    assert min(costs) + now.slack == now.coins
    assert min(costs) > 0


def test_too_cold_and_too_dear_are_the_end():
    state = begin(Thermostat, 0, 3)
    over, verdict = False, None
    while not over:
        state, verdict, over = say(Thermostat, state, "heat 0")
    assert (verdict.status, verdict.reward) == ("wrong", 0.0)
    poor = begin(Thermostat, 0, 3)
    poor = poor._replace(now=poor.now._replace(coins=0))
    after, _, over = say(Thermostat, poor, "heat 1")
    assert (after.now, over) == (poor.now, False)
    for text in ("heat 99", "heat x", "heat -1", "heat 1.5"):
        after, _, over = say(Thermostat, poor, text)
        assert (after.now, over) == (poor.now, False)


# LandmarkNavigation


@given(SEEDS, LEVELS)
@few
def test_the_directions_lead_to_the_goal_when_they_are_read(seed, level):
    city = begin(LandmarkNavigation, seed, level).now
    at, facing = complex(city.pose.x, city.pose.y), (1j, 1, -1j, -1)[city.pose.facing]
    turns = {"left": 1j, "right": -1j, "around": -1}

    def landmark():
        return city.landmarks[int(at.imag) * city.width + int(at.real)]

    for text in city.directions:
        turn, going = text.lower().split(". go forward ")
        if found := re.match(r"if the landmark of this crossing is the (\w+), (.*); otherwise (.*)", turn):
            turn = found[2] if landmark() == found[1] else found[3]
        facing *= turns[turn.removeprefix("turn ").removesuffix(".")]
        if found := re.match(r"until you come to the (\w+) (\w+) on the way", going):
            count = ORDINALS.index(found[1]) + 1
            while count:
                at += facing
                count -= landmark() == found[2]
        else:
            at += facing * int(going.split()[0])
    assert at == complex(city.goal.x, city.goal.y)
    assert at != complex(city.pose.x, city.pose.y)


def test_stopping_elsewhere_is_the_end_without_reward_and_the_city_has_an_edge():
    state = begin(LandmarkNavigation, 0, 2)
    _, verdict, over = say(LandmarkNavigation, state, "stop")
    assert (over, verdict.reward) == (True, 0.0)
    for _ in range(10):
        state, _, _ = say(LandmarkNavigation, state, "forward")
    assert "The city ends here" in state.message


# SpaceStation


@given(SEEDS, LEVELS)
@few
def test_every_understood_command_uses_oxygen_and_repairs_keep_their_order(seed, level):
    task, state = SpaceStation(), begin(SpaceStation, seed, level)
    over = False
    while not over:
        before, command = state.now, task.plan(state.now)
        state, verdict, over = say(SpaceStation, state, command)
        assert state.now.oxygen == before.oxygen - (2 if command == "recharge" else 1)
        assert 0 <= state.now.battery <= state.now.full
        for name in state.now.working:
            system = next(system for system in state.now.systems if system.name == name)
            assert set(system.after) <= set(state.now.working)
    assert verdict.reward == 1.0
    assert state.now.oxygen >= 0


def test_without_oxygen_all_is_lost():
    state, over, verdict = begin(SpaceStation, 0, 1), False, None
    for _ in range(state.now.oxygen):
        assert not over
        state, verdict, over = say(SpaceStation, state, "look")
    assert (over, verdict.status) == (True, "wrong")
