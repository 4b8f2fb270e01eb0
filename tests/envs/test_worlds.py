"""The text worlds: what holds for the world model, for every game on it, and for the content of each game."""

from __future__ import annotations

import itertools
import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rlvr.envs.worlds import word_lists
from rlvr.envs.worlds.adventure import TextAdventure
from rlvr.envs.worlds.building import STEPS, grow, opposite
from rlvr.envs.worlds.commands import Command, Form, Grammar, Impossible, choose, matches, read_command
from rlvr.envs.worlds.cooking import Cooking
from rlvr.envs.worlds.crafting import Crafting
from rlvr.envs.worlds.detective import Detective
from rlvr.envs.worlds.errands import Errands
from rlvr.envs.worlds.escape_room import EscapeRoom
from rlvr.envs.worlds.explorer import has_seen
from rlvr.envs.worlds.household import Household
from rlvr.envs.worlds.laboratory import Laboratory
from rlvr.envs.worlds.landmarks import LandmarkNavigation
from rlvr.envs.worlds.station import SpaceStation
from rlvr.envs.worlds.thermostat import Thermostat
from rlvr.envs.worlds.trading import Trading
from rlvr.envs.worlds.treasure_hunt import TreasureHunt
from rlvr.envs.worlds.world import ACTIONS, GONE, YOU, World, perform, possible

GAMES = (
    TextAdventure,
    Household,
    Cooking,
    Crafting,
    TreasureHunt,
    EscapeRoom,
    Detective,
    Laboratory,
    Trading,
    Errands,
    LandmarkNavigation,
    SpaceStation,
    Thermostat,
)
ON_WORLDS = (TextAdventure, Household, Cooking)
# Commands that end a game, or use up what cannot be had again.
FINAL = ("serve", "accuse", "report", "stop", "search")
SEEDS = st.integers(0, 2**64)
LEVELS = st.integers(1, 5)
every_game = pytest.mark.parametrize("game", GAMES, ids=lambda game: game.__name__)


def begin(game, seed, level):
    return game().start(random.Random(seed), level)


def say(task, state, command):
    state, verdict, over, _ = task.apply(state, f"\\boxed{{{command}}}")
    return state, verdict, over


def play(task, state, turns):
    """The expert's commands, and the last verdict."""
    commands, over, verdict = [], False, None
    while not over and len(commands) < turns:
        commands.append(task.plan(state.now))
        state, verdict, over = say(task, state, commands[-1])
        assert over or verdict.reward == 0.0
    return commands, verdict, over


# the world model


def outcome_of(world: World, command: Command) -> tuple[World, str]:
    try:
        return perform(world, command)
    except Impossible as refusal:
        return world, str(refusal)


class Wandering(RuleBasedStateMachine):
    """Any commands in any house: nothing is lost, nothing is in two places, and no lock is passed."""

    @initialize(seed=SEEDS, level=LEVELS)
    def begin(self, seed, level):
        self.world: World = begin(TextAdventure, seed, level).now.world
        self.things = sorted(thing.name for thing in self.world.plan.things)
        self.history: list[tuple[bytes, World, Command, tuple[World, str]]] = []

    def do(self, command: Command):
        before, kept = self.world, pickle.dumps(self.world)
        after, told = outcome_of(before, command)
        assert told
        assert pickle.dumps(before) == kept, "a command changed the world that it was given"
        self.history.append((kept, before, command, (after, told)))
        self.world = after
        if after.here != before.here:
            assert after.here in before.exits().values()
            door = before.door(before.here, after.here)
            assert door is None or door.name not in before.shut
        opened = set(before.locked) - set(after.locked)
        keys = {thing.name: thing.key for thing in before.plan.things}
        keys |= {door.name: door.key for door in before.plan.doors}
        assert all(command.verb == "unlock" and before.has(keys[name]) for name in opened)
        assert set(before.explored) <= set(after.explored)

    @rule(data=st.data())
    def something_possible(self, data):
        text = data.draw(st.sampled_from(possible(self.world, ACTIONS)))
        command = TextAdventure.grammar.parse(text)
        assert isinstance(command, Command), command
        self.do(command)

    @rule(verb=st.sampled_from(sorted(ACTIONS)), data=st.data())
    def something_that_may_be_impossible(self, verb, data):
        nouns = st.sampled_from([*self.things, *self.world.plan.rooms, "key", "door", "north", "", "nothing at all"])
        self.do(Command(verb, data.draw(nouns), data.draw(nouns)))

    @precondition(lambda self: self.history)
    @rule(data=st.data())
    def undo(self, data):
        kept, _, command, outcome = data.draw(st.sampled_from(self.history))
        self.world = pickle.loads(kept)
        assert outcome_of(self.world, command) == outcome

    @invariant()
    def everything_is_in_one_place(self):
        world = self.world
        holders = {thing.name for thing in world.plan.things if thing.kind in ("box", "stand")}
        assert len(world.places) == len(world.plan.things)
        assert set(world.places) <= {*world.plan.rooms, *holders, YOU, GONE}
        everywhere = [name for place in {*world.places} for name in world.inside(place)]
        assert sorted(everywhere) == self.things
        assert all(world.room_of(name) in (*world.plan.rooms, YOU, GONE) for name in self.things)

    @invariant()
    def hands_are_not_overfull(self):
        assert len(self.world.inside(YOU)) <= self.world.plan.capacity

    @invariant()
    def what_is_locked_is_shut(self):
        assert set(self.world.locked) <= set(self.world.shut)

    @invariant()
    def the_view_shows_what_is_in_reach(self):
        view = self.world.view()
        assert all(name in view for name in self.world.in_reach())


TestWandering = Wandering.TestCase
TestWandering.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


@given(SEEDS, st.lists(st.integers(1, 5), min_size=1, max_size=4), st.sampled_from((0.0, 0.3, 1.0)))
def test_maps_hang_together_and_their_directions_agree(seed, sizes, loops):
    rooms = iter(word_lists.ROOMS)
    regions = [[next(rooms) for _ in range(size)] for size in sizes]
    exits, doors = grow(random.Random(seed), regions, loops)
    spots, waiting = {regions[0][0]: (0, 0)}, [regions[0][0]]
    for room in waiting:
        for way, other in exits[room].items():
            assert exits[other][opposite(way)] == room
            spot = (spots[room][0] + STEPS[way][0], spots[room][1] + STEPS[way][1])
            assert spots.setdefault(other, spot) == spot
            if other not in waiting:
                waiting.append(other)
    assert sorted(waiting) == sorted(room for region in regions for room in region)
    assert len(set(spots.values())) == len(spots)
    gates = {door.ends for door in doors}
    region_of = {room: number for number, region in enumerate(regions) for room in region}
    between = {(a, b) for a in exits for b in exits[a].values() if region_of[a] < region_of[b]}
    assert gates == between
    assert len(gates) == len(regions) - 1


# commands


@every_game
def test_every_phrase_of_a_form_is_read_alike_and_forms_are_told_as_they_are_read(game):
    grammar = game.grammar
    for form in grammar.forms:
        joins = form.joins.split("|")
        for phrase, join in itertools.product(form.starts.split("|"), joins):
            nouns = any(word.isupper() for word in form.shape.split())
            text = f"{phrase} blue thing" if nouns else phrase
            text += f" {join} red thing" if join else ""
            command = grammar.parse(text)
            assert isinstance(command, Command), (text, command)
            assert command.verb == form.verb
            if nouns:
                assert command.first == "blue thing"
                assert command.second == ("red thing" if join else "")
            dressed = "  The ".join(text.upper().rsplit(" ", 1)) if nouns else text.upper()
            assert grammar.parse(read_command(f"so: \\boxed{{{dressed}.}}")) == command
        assert grammar.parse(form.shape.lower()).verb == form.verb
        assert form.shape in grammar.shapes


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("go north", "go north"),
        ("  Go   NORTH. ", "go north"),
        ("\\boxed{go north}", "go north"),
        ("\\boxed{\\text{go north}}", "go north"),
        ("not \\boxed{go east} but \\boxed{go north}", "go north"),
        ("<think>\\boxed{go east}</think> go north", "go north"),
        ("<think>go north", None),
        ("\\boxed{go north", None),
        ("\\boxed{}", None),
        ("go north\ngo east", None),
        ("I would like to go north " * 9, None),
        ("go n\u043erth", None),
        ("", None),
    ],
)
def test_a_command_is_the_last_box_or_a_short_reply(action, command):
    assert read_command(action) == command


def test_directions_alone_are_ways_to_go_where_one_can_go():
    walking = Grammar(Form("go DIRECTION", "go"))
    assert walking.parse("n") == walking.parse("north") == walking.parse("go n")._replace(first="north")
    assert isinstance(Grammar(Form("stop", "stop")).parse("n"), str)


def test_a_noun_is_a_name_or_its_last_words_and_never_two_things():
    here = ("brass key", "tin key", "key ring", "map")
    assert matches("brass key", here) == ["brass key"]
    assert matches("ring", here) == ["key ring"]
    assert choose("map", here, "no") == "map"
    with pytest.raises(Impossible, match="brass key or tin key"):
        choose("key", here, "no")
    with pytest.raises(Impossible, match=r"^You can take: brass key, tin key, key ring and map\.$"):
        choose("map and brass key", here, "You can take:")


@every_game
@given(text=st.text(max_size=60), seed=st.integers(0, 20), level=LEVELS)
@settings(max_examples=15)
def test_whatever_is_written_is_answered_and_nothing_is_given_for_it(game, text, seed, level):
    task, state = game(), begin(game, seed, level)
    after, verdict, over, _ = task.apply(state, text)
    assert (verdict.reward, verdict.valid) == (0.0, True)
    assert over or task.observe(after)


@every_game
def test_what_is_no_command_is_answered_by_the_commands_that_there_are(game):
    task, state = game(), begin(game, 1, 1)
    for text in ("juggle the lamp", "I don't know\nwhat to do"):
        after, verdict, over, _ = task.apply(state, text)
        assert (verdict.status, over) == ("unparsable", False)
        assert after.now == state.now
        assert all(form.shape in task.observe(after) for form in task.grammar.forms)


@pytest.mark.parametrize("game", ON_WORLDS, ids=lambda game: game.__name__)
def test_what_cannot_be_done_is_answered_by_what_can(game):
    task, state = game(), begin(game, 3, 2)
    world = state.now.world
    after, _, _ = say(task, state, "take moon")
    assert all(thing.name in after.message for thing in world.around() if thing.kind == "item")
    closed = next(way for way in STEPS if way not in world.exits())
    after, _, _ = say(task, state, f"go {closed}")
    assert all(way in after.message for way in world.exits())
    assert after.now == state.now


# every game


@every_game
@given(seed=SEEDS, level=LEVELS)
@settings(max_examples=25, deadline=None)
def test_the_expert_wins_in_time_and_only_the_last_command_is_paid(game, seed, level):
    task = game()
    state = task.start(random.Random(seed), level)
    commands, verdict, over = play(task, state, task.turns(level))
    assert (over, verdict.status, verdict.reward) == (True, "correct", 1.0), commands
    assert len(commands) > 2, "done almost before it began"
    state = task.start(random.Random(seed), level)
    if not commands[-1].startswith(FINAL):
        state, verdict, over = say(task, state, commands[-1])
        assert verdict.reward == 0.0, "the last command alone is not the work"


@every_game
def test_the_first_observation_tells_goal_rules_commands_and_turns(game):
    for level in range(1, 6):
        task, state = game(), begin(game, level, level)
        told = task.observe(state)
        assert told.startswith("Goal: ")
        assert "\nRules: " in told
        assert f"Commands: {task.grammar.shapes}. One command a turn, {task.turns(level)} turns at most" in told
        assert "{" not in told


@every_game
def test_claiming_success_wins_nothing(game):
    for level in range(1, 6):
        task, state = game(), begin(game, 5, level)
        for claim in ("win", "done", "I have won", "reward 1", "the goal is reached", "correct", "finish", "success"):
            state, verdict, over = say(task, state, claim)
            assert (verdict.reward, over) == (0.0, False)


@every_game
def test_looking_around_wins_nothing_and_random_play_hardly_ever_wins(game):
    task, wins = game(), 0
    for seed in range(25):
        rng = random.Random(seed)
        state, over, verdict = begin(game, seed, 2), False, None
        for _ in range(task.turns(2)):
            options = task.options(state.now)
            assert options
            command = rng.choice(options)
            assert isinstance(task.grammar.parse(command), Command), command
            state, verdict, over = say(task, state, command)
            if over:
                break
        wins += verdict.reward == 1.0
    assert wins <= 5


@every_game
@given(seed=SEEDS, level=LEVELS, cut=st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_states_are_values_small_and_the_same_again_after_pickling(game, seed, level, cut):
    task = game()
    state = task.start(random.Random(seed), level)
    key = task.content(state)
    for _ in range(cut):
        again = pickle.loads(pickle.dumps(state))
        hash(state)
        assert again == state
        assert len(pickle.dumps(state)) < 20_000
        assert task.content(state) == key
        state, _, over = say(task, state, task.plan(state.now))
        assert task.plan(again.now) == task.plan(pickle.loads(pickle.dumps(again)).now)
        if over:
            break


@pytest.mark.parametrize(
    "game",
    [TextAdventure, Household, Crafting, EscapeRoom, Detective, LandmarkNavigation],
    ids=lambda game: game.__name__,
)
@given(seed=SEEDS, level=LEVELS)
@settings(max_examples=15, deadline=None)
def test_the_expert_finds_back_after_some_aimless_commands(game, seed, level):
    task, rng = game(), random.Random(seed)
    state = task.start(rng, level)
    for _ in range(12):
        options = [option for option in task.options(state.now) if not option.startswith(FINAL)]
        state, _, over = say(task, state, rng.choice(options))
        if over:
            return
    _, verdict, over = play(task, state, 3 * task.turns(level))
    assert over
    assert verdict.reward == 1.0


@every_game
@given(seed=SEEDS, level=LEVELS)
@settings(max_examples=10, deadline=None)
def test_the_expert_says_something_in_any_state(game, seed, level):
    """Also where the game cannot be won any more; half of the commands are its own, to come far."""
    task, rng = game(), random.Random(seed)
    state = task.start(rng, level)
    for _ in range(task.turns(level)):
        planned = task.plan(state.now)
        assert isinstance(task.grammar.parse(planned), Command), planned
        state, _, over = say(task, state, rng.choice((planned, rng.choice(task.options(state.now)))))
        if over:
            break


@pytest.mark.parametrize("game", ON_WORLDS, ids=lambda game: game.__name__)
@given(seed=SEEDS, level=LEVELS)
@settings(max_examples=25, deadline=None)
def test_the_expert_does_not_know_where_unseen_things_are(game, seed, level):
    """Wherever they are instead, its next command is the same."""
    task, rng = game(), random.Random(seed)
    state = task.start(rng, level)
    for _ in range(task.turns(level)):
        world = state.now.world
        hidden = [
            (number, place)
            for number, (thing, place) in enumerate(zip(world.plan.things, world.places, strict=True))
            if place != GONE
            and thing.kind == "item"
            and not has_seen(world, thing.name)
            # that it is in a locked box is told
            and not (game is TextAdventure and thing.name == state.now.treasure)
            # that nothing is there from the start as well
            and not (game is Household and place in {goal.place for goal in state.now.goals})
        ]
        places = list(world.places)
        for (number, _), (_, place) in zip(hidden, rng.sample(hidden, len(hidden)), strict=True):
            places[number] = place
        other = state.now._replace(world=world._replace(places=tuple(places)))
        assert task.plan(other) == task.plan(state.now)
        state, _, over = say(task, state, task.plan(state.now))
        if over:
            break


def test_two_tasks_are_seldom_the_same():
    for game in GAMES:
        for level in (1, 5):
            assert len({begin(game, seed, level).key for seed in range(60)}) == 60


# names


def test_names_are_many_and_none_is_the_end_of_another_of_its_list():
    assert len(word_lists.ROOMS) >= 20
    assert len(word_lists.ITEMS) >= 40
    lists = [value for key, value in vars(word_lists).items() if key.isupper()]
    for found in lists:
        assert len(set(found)) == len(found)
        for one, other in itertools.permutations(found, 2):
            assert not f" {other}".lower().endswith(f" {one}".lower())
