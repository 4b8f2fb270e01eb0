"""What the questions tell can be so: speeds, ages and years, and English that a careful reader would write."""

from __future__ import annotations

import random
import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs.agentic import world_search
from rlvr.envs.logic.islanders import KnightsAndKnaves, Spies
from rlvr.envs.logic.propositional import ForwardChaining
from rlvr.envs.logic.relations import SetAlgebra
from rlvr.envs.mathematics.dates import AgeProblems, TimeZones
from rlvr.envs.mathematics.probability import DiceSums
from rlvr.envs.science import mechanics, substances
from rlvr.envs.worlds import laboratory

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


@pytest.mark.parametrize("name", ["CodeRepair", "CodeTests"])
def test_programs_are_described_in_whole_words(name):
    """Nothing is increased by 0, and nothing comes as "1 coins"."""
    env = gym.make(f"rlvr/{name}-v0").unwrapped
    for level in range(1, env.task.levels + 1):
        for seed in range(60):
            text, _ = env.reset(seed=seed, options={"level": level})
            described = text.split("Visible tests:")[0].split("```")[0]
            assert not re.search(
                r"(plus|minus) 0\b|\b1 (coins|elements|names|pairs|positions)\b|\d \* \d", described
            ), described


def test_no_water_is_hotter_than_it_boils_and_no_metal_than_it_melts():
    """Lead melts at 327 °C."""
    law, rng = mechanics.Calorimetry.laws[2], random.Random(0)
    assert law.given["hot"][1] < 327
    for kind in law.kinds:
        assert max(law.pose(**law.draw(rng), kind=kind).value for _ in range(500)) < 100


def test_no_more_salt_is_dissolved_than_water_takes():
    """In g per 100 ml of water at 20 °C, of the anhydrous salt (CRC Handbook of Chemistry and Physics)."""
    soluble = {"NaCl": 35.9, "KNO3": 31.6, "CuSO4": 20.3, "CaCl2": 74.5, "Na2CO3": 21.5}
    law = substances.Solutions.laws[2]
    (_, grams, over), (volume, _, _) = law.given["grams"], law.given["v"]
    for salt, _ in law.kinds:
        assert grams / over / volume * 100 <= soluble[salt]


def test_reactions_lose_no_atom():
    for kind in substances.REACTIONS:
        text = substances.yielding(Fraction(50), Fraction(60), Fraction(70), kind).text
        before, after = re.search(r"reaction (.+) -> ([^,]+),", text).groups()
        atoms = []
        for side in (before, after):
            count = Counter()
            for number, formula in re.findall(r"(\d*) ?([A-Z]\w*)", side):
                for element, times in re.findall(r"([A-Z][a-z]?)(\d*)", formula):
                    count[element] += int(number or 1) * int(times or 1)
            atoms.append(count)
        assert atoms[0] == atoms[1], text


@pytest.mark.parametrize("level", range(2, 6))
def test_what_is_denser_than_water_does_not_float(level):
    for seed in range(30):
        sample = laboratory.Laboratory().begin(random.Random(seed), level)
        if "water flask" not in sample.columns:
            continue
        water, density = (sample.columns.index(name) for name in ("water flask", laboratory.DENSITY))
        for _, row in sample.table:
            assert not row[water].startswith("sinks" if float(row[density]) < 1 else "floats"), row


def test_no_die_makes_all_remainders_equally_likely():
    """Else the answer is one over the divisor, whatever the other dice are."""
    for seed in range(200):
        text = DiceSums().ask(random.Random(seed), 5).text
        *sides, divisor = map(int, re.findall(r"(?<!from )(?<!remainder )\b\d+", text))
        assert all(size % divisor for size in sides), text


@pytest.mark.parametrize("task", [KnightsAndKnaves, Spies])
@pytest.mark.parametrize("level", range(1, 6))
def test_nobody_says_twice_in_a_sentence_what_one_person_is(task, level):
    for seed in range(60):
        text = task().ask(random.Random(seed), level).text
        assert not re.search(r"\b(\w+) is a kn\w+ (and|or) \1 is a kn", text), text


@pytest.mark.parametrize("level", range(1, 6))
def test_no_set_is_joined_with_itself_and_no_rule_comes_twice(level):
    for seed in range(60):
        assert not re.search(r"\b([A-F]) \S \1\b", SetAlgebra().ask(random.Random(seed), level).text)
        rules = [
            (frozenset(conditions.split(" and ")), conclusion)
            for conditions, conclusion in re.findall(
                r"if (.+) then (.+)", ForwardChaining().ask(random.Random(seed), level).text
            )
        ]
        assert len(set(rules)) == len(rules)
