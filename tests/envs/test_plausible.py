"""What the questions tell can be so: speeds, ages and years, and English that a careful reader would write."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs.agentic import world_search
from rlvr.envs.mathematics.dates import AgeProblems, TimeZones
from rlvr.envs.science import mechanics

assert rlvr


def speeds_of(values: dict[str, float]) -> float:
    """The highest speed in a motion, m/s."""
    return values.get("slow", 0) + values.get("v", 0) + values.get("a", 0) * values.get("t", 0)


@pytest.mark.parametrize(("level", "fastest"), [(1, 60), (2, 100), (3, 45), (4, 55), (5, 55)])
def test_cars_and_trains_are_no_faster_than_they_are(level, fastest):
    """A car from rest 60 m/s, a train 100 m/s, a stone that is thrown 45 m/s."""
    law = mechanics.Motion.laws[level - 1]
    top = {name: high / over for name, (_, high, over) in law.given.items()}
    assert speeds_of(top) <= fastest


def test_a_ball_on_a_spring_rises_by_no_kilometres():
    law, rng = mechanics.Energy.laws[1], random.Random(0)
    assert max(law.pose(**law.draw(rng)).value for _ in range(2_000)) < 300


@pytest.mark.parametrize("level", range(1, 6))
def test_people_are_as_old_as_people_become(level):
    for seed in range(300):
        ages = AgeProblems().ask(random.Random(seed), level).answer
        assert all(1 <= age <= 99 for age in ages), ages


@pytest.mark.parametrize("level", range(1, 6))
def test_flights_to_far_time_zones_are_long(level):
    for seed in range(50):
        text = TimeZones().ask(random.Random(seed), level).text
        zones = [
            int(f"{sign}1") * (60 * int(hours) + int(minutes))
            for sign, hours, minutes in re.findall(r"UTC([+-])(\d+):(\d+)", text)
        ]
        flights = [
            60 * int(hours) + int(minutes)
            for hours, minutes in re.findall(r"flight to \w+ takes (\d+) h (\d+) min", text)
        ]
        for (here, there), flight in zip(pairwise(zones), flights, strict=True):
            apart = min(abs(here - there), 1440 - abs(here - there))
            assert apart / 2 <= flight <= 20 * 60


@pytest.mark.parametrize("level", range(1, 6))
def test_births_teachings_foundings_and_events_happen_in_an_order_that_can_be(level):
    for seed in range(20):
        world = world_search.make(seed, level)
        year = {
            name: {fact: int(text) for fact, text in facts.items() if text.isdecimal()}
            for name, facts in world.facts.items()
        }
        settled = max(year[town]["settled"] for town, kind in world.kinds.items() if kind == "town")
        for name, links in world.links.items():
            if world.kinds[name] == "person":
                assert settled < year[name]["born"] <= 1999
                if teacher := links.get("teacher"):
                    assert 15 <= year[name]["born"] - year[teacher]["born"] < 100
            elif world.kinds[name] == "firm":
                assert 20 <= year[name]["started"] - year[links["founder"]]["born"] <= 60
            elif world.kinds[name] == "event":
                assert 20 <= year[name]["year"] - year[links["opener"]]["born"] <= 100
                assert year[links["sponsor"]]["started"] <= year[name]["year"] <= 2024


@pytest.mark.parametrize("name", ["CodeRepair", "CodeTests"])
def test_no_sum_is_left_to_the_reader(name):
    """Such as "from 0 to 10 - 1"."""
    env = gym.make(f"rlvr/{name}-v0").unwrapped
    for level in range(1, env.task.levels + 1):
        for seed in range(30):
            text, _ = env.reset(seed=seed, options={"level": level})
            assert not re.search(r"\d+ to \d+ [-+] \d", text)
