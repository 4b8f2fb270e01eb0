"""Workshop-v0: no play of a year beats the optimum, what the expert knows it has read, and the rest earns nothing."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.agentic.workshop import days, task
from rlvr.envs.agentic.workshop.days import SELLING, Position, first_day, idle_value, night, visitor_of
from rlvr.envs.agentic.workshop.draw import LEVELS, WorkshopKey, model_of, plain_gain
from rlvr.envs.agentic.workshop.expert import learned, public_part, taken, understood
from rlvr.envs.agentic.workshop.model import BROKEN, CROWD, GRAPHS, RULES, ProductRecipe, Visitor, WorkshopModel
from rlvr.envs.agentic.workshop.optimum import best_way, optimum, share_of_optimum
from rlvr.envs.core.seeding import split_of
from rlvr.envs.tools import Call, ToolError, write_call

each_level = pytest.mark.parametrize("level", range(1, 6))
keys = st.builds(WorkshopKey, st.integers(1, 5), st.just(0), st.integers(0, 10**9))


def made(**settings: Any) -> TextEnv:
    env = gym.make("rlvr/Workshop-v0", disable_env_checker=True, **settings).unwrapped
    assert isinstance(env, TextEnv)
    return env


def played(env: TextEnv, seed: int) -> Iterator[tuple[str, str, float, bool, dict[str, Any]]]:
    """What the expert does, and what comes of it."""
    env.reset(seed=seed)
    over = False
    while not over:
        action = env.solve()
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        yield action, observation, float(reward), over, info


def called(env: TextEnv, name: str, /, **arguments: object) -> str:
    return env.step(write_call(Call(name, arguments), "hermes"))[0]


# the optimum


def options(model: WorkshopModel, at: Position) -> Iterator[Position]:
    """Every position that one call of one piece, or of one order, leads to."""
    for item in range(len(model.items)):
        tries = [(days.sell, 1), (days.make, 1), *((days.buy, count) for count in range(1, model.room + 1))]
        for act, count in tries:
            with suppress(ToolError):
                yield act(model, at, item, count)[0]
    visitor = visitor_of(model, at.year, at.day)
    with suppress(ToolError):
        yield days.mend(model, at)[0]
    with suppress(ToolError):
        yield days.deliver(model, at, visitor.name if visitor else "", 1)[0]


def most_of_all(model: WorkshopModel, at: Position) -> int:
    """The most coins of all that can be played: purses are told apart, nothing is left out."""
    positions, most = {at}, -1
    while positions:
        open_ones, closed = list(positions), set(positions)
        while open_ones:
            for after in options(model, open_ones.pop()):
                if after not in closed:
                    closed.add(after)
                    open_ones.append(after)
        positions = set()
        for each in closed:
            after, coins, texts = night(model, each)
            if after is not None:
                positions.add(after)
            elif not any("closed" in text for text in texts):
                most = max(most, coins)
    return most


def small(graph: str, kinds: tuple[str, ...], rng: random.Random) -> WorkshopModel:
    """A workshop of two short weeks."""
    shape = GRAPHS[graph]
    values = {
        "wear": (rng.randint(2, 3),),
        "crowd": (rng.randint(1, 2),),
        "spoil": (1,),
        "fee": (1,),
        "packs": (2,),
        "delay": (rng.randint(1, 2),),
        "rest": (rng.randint(1, 2),),
        "rent": (rng.randint(2, 3), rng.randint(3, 9)),
        "quota": (rng.randint(1, 2),),
        "tithe": (rng.randint(2, 5),),
        "regulars": (rng.randint(1, 3),),
    }
    asks = [tuple(rng.randint(2, 4) * (n in shape.raws) for n in range(shape.items)) for _ in range(2)]
    bids = [
        tuple((ask - 1 if ask else rng.randint(3, 9)) * (n in shape.sold) for n, ask in enumerate(row)) for row in asks
    ]
    recipes = tuple(
        ProductRecipe(output, tuple(int(n in needs) for n in range(shape.items))) for output, needs in shape.recipes
    )
    sellable = [n for n in shape.sold if n not in shape.raws]
    return model_of(WorkshopKey(2, 0, 1))._replace(
        graph=graph, items=(("a", "as"), ("b", "bs"), ("c", "cs"))[: shape.items], raws=shape.raws, sold=shape.sold,
        recipes=recipes, room=3, hands=2, weeks=2, week_days=2, years=1, learning=False, purse=rng.randint(6, 12),
        mending=1, spoiling=sellable[0], asks=tuple(asks), bids=tuple(bids), shifts=((0,) * shape.items,),
        rules=tuple((kind, values[kind]) for kind in kinds), visitors=(Visitor("Ada", 1, 3, sellable[-1], 1, 9, 1),),
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(GRAPHS)), st.sets(st.sampled_from(list(RULES)), max_size=3), st.integers(0, 10**6))
def test_nothing_that_can_be_played_beats_the_optimum(graph: str, kinds: set[str], seed: int):
    model = small(graph, tuple(sorted(kinds)), random.Random(seed))
    assert most_of_all(model, first_day(model, 1)) == best_way(model, first_day(model, 1))[0]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(list(GRAPHS)), st.sets(st.sampled_from(list(RULES)), max_size=3), st.integers(0, 10**6))
def test_the_optimum_from_the_middle_of_a_year_is_one_too(graph: str, kinds: set[str], seed: int):
    rng = random.Random(seed)
    model = small(graph, tuple(sorted(kinds)), rng)
    at: Position | None = first_day(model, 1)
    for _ in range(rng.randint(1, 8)):
        after = rng.choice([*options(model, at), night(model, at)[0]])
        at = at if after is None else after
    assert most_of_all(model, at) == best_way(model, at)[0]


@settings(max_examples=15, deadline=None)
@given(keys)
def test_the_way_to_the_optimum_can_be_gone_and_pays_more_than_plain_work(key: WorkshopKey):
    model = model_of(key)
    for year in model.scored:
        most, steps = best_way(model, first_day(model, year))
        at: Position | None = first_day(model, year)
        for step in steps:
            last, at = at, taken(model, at, step)
        assert at is None
        assert night(model, last)[1] == most
        assert most - idle_value(model, year) >= plain_gain(model, year) > 0
        assert optimum(model, year) == (most, idle_value(model, year))


def test_plain_work_earns_almost_nothing():
    models = [model_of(WorkshopKey(1 + seed % 2, 0, seed)) for seed in range(20)]
    earned = [share_of_optimum(m, y, idle_value(m, y) + plain_gain(m, y)) for m in models for y in m.scored]
    assert sum(earned) / len(earned) < 0.1


def test_the_reward_rises_from_half_of_the_gain_to_all_of_it():
    model = model_of(WorkshopKey(3, 0, 5))
    most, idle = optimum(model, 2)
    shares = [share_of_optimum(model, 2, coins) for coins in range(most + 1)]
    assert shares == sorted(shares)
    assert shares[idle] == shares[(most + idle) // 2] == 0.0
    assert shares[most] == 1.0 > shares[most - 1] > 0.9
    assert abs(share_of_optimum(model, 2, idle + (most - idle) * 3 // 4) - 0.5) < 0.05


# the expert


@pytest.mark.slow
@each_level
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_the_expert_makes_the_most_of_each_year(level: int, split: str):
    env = made(level=level, split=split)
    for seed in range(500, 504 if level > 3 else 515):
        *_, (_, _, reward, _, info) = played(env, seed)
        assert (reward, info["verdict"].status) == (1.0, "correct"), (seed, info["verdict"])


@pytest.mark.parametrize("kind", list(RULES))
def test_what_is_not_known_yet_changes_nothing_that_the_expert_does(kind: str, monkeypatch: pytest.MonkeyPatch):
    """Two workshops that differ in hidden numbers are worked in alike until an observation differs."""
    level, number = 3, next(n for n in itertools.count() if model_of(WorkshopKey(3, 0, n)).rule(kind))
    model = model_of(WorkshopKey(level, 0, number))
    raised = tuple((name, tuple(n + 1 for n in values)) for name, values in model.rules)
    asks = (model.asks[0], *(tuple(n and n + 1 for n in row) for row in model.asks[1:]))
    runs = []
    for each in (model, model._replace(rules=raised, asks=asks)):
        monkeypatch.setattr(task, "model_of", lambda key, each=each: each)
        monkeypatch.setattr(task, "share_of_optimum", lambda *rest: 0.0)
        runs.append([(action, observation) for action, observation, *_ in played(made(level=level), 0)][:60])
    first, second = runs
    differs = next(n for n, (one, two) in enumerate(zip(first, second, strict=False)) if one[1] != two[1])
    assert [action for action, _ in first[: differs + 1]] == [action for action, _ in second[: differs + 1]]


@pytest.mark.parametrize("level", [2, 3, 4])
def test_the_notes_of_the_first_year_describe_the_workshop(level: int):
    env = made(level=level, split="test")
    for seed in range(6):
        for _ in played(env, seed):
            if (world := env.get_state().state.world).at.year == 2 and world.at.day > 1:
                break
        model, notes = model_of(world.key), "\n".join(world.notes)
        read = understood(public_part(model), notes, 2)
        assert read is not None
        assert (read.asks, read.bids, read.rules, read.shifts[1]) == (
            model.asks, model.bids, model.rules, model.shifts[1],
        )  # fmt: skip
        assert {each[:6] for each in read.visitors} == {each[:6] for each in model.visitors}
        assert len(notes) <= task.MAX_NOTES


def test_without_its_notes_the_expert_earns_nothing():
    env = made(level=2)
    for seed in range(4):
        env.reset(seed=seed)
        reward, over, thrown = 0.0, False, False
        while not over:
            year = env.get_state().state.world.at.year
            action = write_call(Call("clear_notes", {}), "hermes") if year == 2 and not thrown else env.solve()
            thrown |= year == 2
            _, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        assert reward == 0.0


# what is drawn, and how it is put


def test_what_is_held_out_occurs_in_its_split_alone():
    kinds: dict[str, set[str]] = {"train": set(), "validation": set(), "test": set()}
    for level, seed in itertools.product(range(1, 6), range(300)):
        key = WorkshopKey(level, 0, seed)
        model, split = model_of(key), split_of(key.content)
        drawn = {model.graph, *(kind for kind, _ in model.rules)}
        own = {name for names in (GRAPHS, RULES) for name in names if names[name].split == split}
        assert bool(drawn & own) == bool(own), key
        kinds[split] |= drawn
    everything = {**{name: each.split for name, each in GRAPHS.items()}, **{n: e.split for n, e in RULES.items()}}
    for split, names in kinds.items():
        assert names == {name for name, where in everything.items() if where in ("", split)}


@settings(max_examples=40, deadline=None)
@given(keys)
def test_a_workshop_makes_sense_and_says_what_is_open(key: WorkshopKey):
    model, level = model_of(key), LEVELS[key.level - 1]
    assert len(model.asks) == len(model.bids) == level.weeks
    assert len(model.shifts) == model.years == level.rounds + level.hidden
    for year in range(1, model.years + 1):
        for week in range(1, model.weeks + 1):
            for item in model.raws:
                ask, bid = model.ask(year, week, item), model.bid(year, week, item)
                assert not ask or not bid or bid < ask
    for each in model.visitors:
        assert each.year > 1
        assert 1 < each.letter < model.days
    brief = model.brief()
    assert not re.search(r"[{}<>]|\b[aA] [aeiou]|None|  ", brief), brief
    read = learned(public_part(model), brief)
    assert len(read.rules) == (0 if level.hidden else level.rules)
    assert len(read.prices) == (0 if level.hidden else level.weeks)


@settings(max_examples=25, deadline=None)
@given(keys, st.integers(0, 1000))
def test_whatever_is_called_the_purse_and_the_store_stay_within_bounds(key: WorkshopKey, seed: int):
    model, rng = model_of(key), random.Random(seed)
    env = made(level=key.level)
    env.reset(seed=seed)
    model = model_of(env.get_state().state.world.key)
    for _ in range(120):
        _, _, terminated, truncated, info = env.step(env.sample_action(rng))
        assert info["verdict"].valid
        if terminated or truncated:
            break
        at = env.get_state().state.world.at
        assert at.money >= 0 <= min(at.stock)
        assert sum(at.stock) <= model.room
        assert at.made <= model.hands


@pytest.mark.parametrize("kind", list(RULES))
def test_each_rule_does_what_its_sentence_says(kind: str):
    model = small("fork", (kind,), random.Random(3))
    at, number = first_day(model, 1)._replace(money=40, stock=(1, 0, 2)), model.number(kind)
    bid = model.bid(1, 1, 2)
    match kind:
        case "wear":
            broken, text = days.make(model, at._replace(wear=number - 1), 1, 1)
            assert model.lesson(kind, (number,)) in text
            with pytest.raises(ToolError, match="broken"):
                days.make(model, broken._replace(stock=(1, 0, 0)), 1, 1)
            assert days.mend(model, broken._replace(phase=SELLING))[0].money == 40 - BROKEN * model.mending
            assert days.mend(model, at._replace(wear=1))[0].money == 40 - model.mending
        case "crowd":
            assert days.sell(model, at, 2, 2)[0].money == 40 + bid + max(1, bid - number)
            assert days.price_now(model, at._replace(sold=CROWD), 2) == max(1, bid - CROWD * number)
        case "spoil":
            model = model._replace(spoiling=2)
            assert night(model, at._replace(day=2))[0].stock == (1, 0, number)
            assert night(model, at)[0].stock == at.stock
        case "fee":
            assert night(model, at)[0].money == 40 - 3 * number
        case "packs":
            with pytest.raises(ToolError, match=f"packs of {number}"):
                days.buy(model, at._replace(stock=(0, 0, 0)), 0, 1)
        case "delay":
            ordered = days.buy(model, at._replace(stock=(0, 0, 2)), 0, 2)[0]
            assert ordered.stock == (0, 0, 2)
            for _ in range(number):
                ordered = night(model, ordered)[0]
            assert ordered.stock == (1, 0, 2)  # one piece found no room
        case "rest":
            with pytest.raises(ToolError, match="no market"):
                days.sell(model, at._replace(day=number), 2, 1)
        case "rent":
            day, due = model.rule(kind)
            assert night(model, at._replace(day=day))[0].money == 40 - due
            after, coins, texts = night(model, at._replace(day=day, money=due - 1))
            assert (after, coins) == (None, 0)
            assert "closed" in texts[-1]
        case "quota":
            with pytest.raises(ToolError, match=f"takes {number} pieces"):
                days.sell(model, at._replace(sold=number), 2, 1)
        case "tithe":
            assert night(model, at._replace(day=2))[0].money == 40 - 40 // number
        case "regulars":
            assert days.sell(model, at, 2, 1)[0].money == 40 + max(1, bid - number)
            assert days.sell(model, at._replace(regulars=(True, False)), 2, 1)[0].money == 40 + bid


# bad input


@pytest.mark.parametrize("rounds", [0, 11, True, "two", 1.5])
def test_rounds_that_make_no_sense_are_refused(rounds: object):
    with pytest.raises(ValueError, match="rounds must be a whole number from 1 to 10"):
        made(rounds=rounds)


def test_more_rounds_are_more_years_of_the_same_rules():
    env = made(level=2, rounds=4)
    env.reset(seed=1)
    model = model_of(env.get_state().state.world.key)
    assert (model.years, len(model.scored)) == (5, 4)
    *_, (_, _, reward, _, info) = played(env, 1)
    assert reward == 1.0
    assert sorted(info["verdict"].parts) == [f"year {n}" for n in (2, 3, 4, 5)]


def test_wrong_calls_are_answered_and_change_nothing():
    env = made(level=4)
    env.reset(seed=3)
    called(env, "look")
    before = env.get_state().state.world
    item = model_of(before.key).items[0][1]
    for name, arguments, answer in (
        ("sell", {"item": "moons", "count": 1}, "there is no 'moons' here, only"),
        ("sell", {"item": item, "count": 10**30}, "error: "),
        ("buy", {"item": item, "count": -3}, "the count must be at least 1"),
        ("buy", {"item": item, "count": 10**9}, "error: "),
        ("make", {"item": item, "count": 1}, "cannot be made"),
        ("deliver", {"name": "Ada\n", "count": 1}, "nobody of that name is here today"),
        ("add_note", {"text": "x" * 3_000}, "the notes have room for"),
        ("mend", {"hard": True}, "error: "),
    ):
        assert answer in called(env, name, **arguments), name
        assert env.get_state().state.world == before
    assert "That was no call" in env.step("I had rather not.")[0]
    assert env.get_state().state.world == before


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200), st.integers(-(10**20), 10**20))
def test_any_text_is_taken(text: str, count: int):
    env = made(level=1)
    env.reset(seed=0)
    calls = {"sell": {"item": text, "count": count}, "add_note": {"text": text}, "deliver": {"name": text, "count": 1}}
    for name, arguments in calls.items():
        env.step(f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>")
    *_, info = env.step(text)
    assert info["verdict"].valid
