"""The measurement of dead levels: which are dead, which run is next, what counts as learned, and a whole small call."""

from __future__ import annotations

import json
import sys

import pytest

from ..architecture import ROOT

LEVELS = {
    "1": {"mixed_groups": 0.5, "success": 0.3, "last_turn": 0.5},
    "2": {"mixed_groups": 0.04, "success": 0.0, "last_turn": 0.25},
}


@pytest.fixture
def dead_levels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import dead_levels

    return dead_levels


def run(solved: int) -> dict:
    return {"curve": [{"solved": {"2": 0}}, {"solved": {"2": solved}}]}


def test_a_level_is_dead_where_few_groups_hold_both_outcomes(dead_levels):
    assert dead_levels.dead_of({"levels": LEVELS}) == dead_levels.followed({"levels": LEVELS}) == [2]
    alive = dict.fromkeys("12", LEVELS["1"])
    assert dead_levels.followed({"levels": alive}) == [1, 2], "without a dead level all are measured, as a control"


def test_both_ways_of_training_get_a_seed_before_the_next_seed(dead_levels):
    results = {name: {"levels": LEVELS, "runs": {}} for name in ("one", "two")}
    order = []
    while job := dead_levels.next_run(results):
        order.append(job)
        name, arm, seed = job
        results[name]["runs"][arm][str(seed)] = run(0)
    assert len(order) == 12
    assert [job[:2] for job in order[:4]] == [
        ("one", "even"),
        ("one", "prefixes"),
        ("two", "even"),
        ("two", "prefixes"),
    ]
    assert [seed for *_, seed in order] == sorted(seed for *_, seed in order)


def test_a_level_is_learned_where_the_seeds_solve_half_of_it_in_the_mean(dead_levels, monkeypatch):
    monkeypatch.setattr(dead_levels, "HELD_OUT", 10)
    runs = {"even": {"0": run(2), "1": run(7)}, "prefixes": {"0": run(4), "1": run(6)}}
    results = {"one": {"levels": LEVELS, "runs": runs}, "two": {"levels": LEVELS, "runs": {}}}
    assert dead_levels.learned(results, "even") == (0, 1)
    assert dead_levels.learned(results, "prefixes") == (1, 1)
    assert dead_levels.rows(results) == [
        "| one | 2 | 0.04 | 0.000 | 0.25 | 0.00 0.45 (0.26 to 0.66) | 2 | 0.00 0.50 (0.30 to 0.70) | 2 |",
        "| two | 2 | 0.04 | 0.000 | 0.25 | – | 0 | – | 0 |",
    ]


@pytest.mark.slow
def test_a_call_measures_what_is_missing_and_the_next_goes_on(dead_levels, monkeypatch, tmp_path):
    page, results = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text("\n".join(dead_levels.MARKS))
    small = {"PAGE": page, "RESULTS": results, "GROUPS": 2, "HELD_OUT": 2, "POINTS": 2, "SEEDS": (0,)}
    small |= {"SETTINGS": {"WaterJugs": dead_levels.Setting("rlvr/WaterJugs-v0", 2, 14, 600, 2, 1, 300)}}
    for name, value in small.items():
        monkeypatch.setattr(dead_levels, name, value)
    monkeypatch.setattr(dead_levels, "MODEL", {"name": "rlvr/tiny", "hidden": 16, "layers": 1})
    monkeypatch.setitem(dead_levels.COMMON, "prompts", 2)
    monkeypatch.setattr(sys, "argv", ["dead_levels.py", "--work", str(tmp_path / "work")])
    assert dead_levels.main() == 0
    record = json.loads(results.read_text())
    runs = record["policies"]["WaterJugs"]["runs"]
    assert {arm: list(seeds) for arm, seeds in runs.items()} == {"even": ["0"], "prefixes": ["0"]}
    assert all(seeds["0"]["curve"][-1]["tokens"] >= 300 for seeds in runs.values())
    assert runs["prefixes"]["0"]["curve"][-1]["shares"]
    assert "Of 2 levels of 1 settings 2 are dead" in page.read_text()
    monkeypatch.setattr(dead_levels, "train", None)  # nothing is measured twice
    assert dead_levels.main() == 0
    assert json.loads(results.read_text()) == record
