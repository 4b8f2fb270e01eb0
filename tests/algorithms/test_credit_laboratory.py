"""The laboratory of credit: its statistics, and a chain whose advantages are known in closed form."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import pytest

from rlvr.envs import TextEnv
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

from ..architecture import ROOT

TURNS, SHARE = 3, 0.6


@pytest.fixture
def credit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import credit

    return credit


class Link(NamedTuple):
    number: int
    turn: int
    whole: bool


class Chain(Task[Link]):
    """Solved where all of three actions are good; the expert's are, and random ones are not."""

    def start(self, rng: random.Random, level: int) -> Link:
        return Link(rng.randrange(10**6), 0, True)

    def turns(self, level: int) -> int:
        return TURNS

    def observe(self, state: Link) -> str:
        return f"Chain {state.number}, turn {state.turn}."

    def apply(self, state: Link, action: str) -> Transition:
        state = Link(state.number, state.turn + 1, state.whole and action == "good")
        over = state.turn == TURNS
        return Transition(state, correct() if over and state.whole else wrong(), over)

    def solve(self, state: Link) -> str:
        return "good"

    def sample_action(self, state: Link, rng: random.Random) -> str:
        return "bad"


def test_the_truth_is_that_of_the_closed_form(credit):
    """V of a whole chain before turn k is p^(3 - k), and 0 once an action was bad."""
    policy, env = credit.Mixture(SHARE), TextEnv(Chain())
    groups = credit.play_groups(env, 1, policy)
    truth, at = credit.true_advantages(groups, policy), 0
    deviations = []
    for episode in (episode for group in groups for episode in group):
        whole = True
        for k, good in enumerate(episode.by_expert):
            before = SHARE ** (TURNS - k) if whole else 0.0
            whole = whole and good
            after = SHARE ** (TURNS - k - 1) if whole else 0.0
            error = math.hypot(*(math.sqrt(v * (1 - v) / credit.CONTINUATIONS) for v in (before, after)))
            deviations.append(truth.advantages[at] - (after - before))
            assert abs(deviations[-1]) <= 4.5 * error + 1e-9
            assert truth.scores[at] == pytest.approx(good - SHARE)
            at += 1
    assert at == len(truth.advantages) == credit.TASKS * credit.GROUP * TURNS
    assert abs(sum(deviations) / at) < 0.05


def test_every_rule_is_measured(credit):
    cell = credit.measure(TextEnv(Chain()), 1, SHARE)
    assert {"outcome (rloo)", "per turn index", "turn_rloo", "rebn", "gigpo", "gigpo_state"} <= cell["rules"].keys()
    assert cell["turns"] == TURNS
    for rule in cell["rules"].values():
        assert rule["turns"] == credit.TASKS * credit.GROUP * TURNS
    assert cell["rules"]["outcome (rloo)"]["cost"] == 1.0
    assert cell["rules"][f"vine, {credit.VINE} continuations"]["cost"] > 2
    assert cell["rules"]["outcome (rloo)"]["gradient"] == pytest.approx(1, abs=0.6)
    assert credit.table({"chain": cell})[0].startswith("| rule |")


def test_figures_of_rules_that_are_known(credit):
    rng = random.Random(0)
    truth = credit.Truth()
    for _ in range(4_000):
        score = rng.choice([-0.5, 0.5])
        truth.advantages.append(score + rng.gauss(0, 0.5))
        truth.errors.append(0.0)
        truth.scores.append(score)
    scaled = credit.figures([3 * a for a in truth.advantages], truth, 1.0)
    assert scaled["spearman"] == pytest.approx(1)
    assert (scaled["slope"], scaled["gradient"]) == (pytest.approx(3), pytest.approx(1))
    assert (scaled["signs"], scaled["variance"]) == (0.0, pytest.approx(0))
    noisy = credit.figures([a + 0.2 + rng.gauss(0, 1) for a in truth.advantages], truth, 4.0)
    signal = sum(a * a for a in truth.advantages) / 4_000
    assert noisy["variance"] == pytest.approx(4 / signal, rel=0.15)
    assert noisy["bias"] == pytest.approx(0.2 / math.sqrt(signal), abs=0.05)
    assert noisy["gradient"] == pytest.approx(1, abs=0.1)
    opposite = credit.figures([-a for a in truth.advantages], truth, 1.0)
    assert opposite["signs"] == 1.0
    assert "variance" not in opposite  # no scale makes it the truth


def test_ranks_share_the_mean_of_equal_values(credit):
    assert credit.ranks([3.0, 1.0, 3.0, 2.0]) == [2.5, 0.0, 2.5, 1.0]
    assert credit.spearman([1, 2, 3], [10, 20, 15]) == pytest.approx(0.5)
    assert credit.spearman([1, 1, 1], [1, 2, 3]) is None


@pytest.mark.parametrize(("going_on", "reward"), [(0.5, -0.3), (0.8, 0.3)])
def test_further_turns_are_paid_by_normalisation_per_index_alone(credit, going_on: float, reward: float):
    row = credit.hidden_bonus(going_on, reward, turns=3)
    later = reward * (going_on + going_on**2)
    assert row["true"] == pytest.approx(reward + later)
    assert row["turn_rloo"] == pytest.approx(row["true"])
    assert row["per turn index"] - row["true"] == pytest.approx(-later)  # -E[r] of the turns that follow


def test_the_page_holds_what_was_measured(credit):
    """If this fails, run `python benchmarks/credit.py --draw`."""
    results = credit.json.loads(credit.RESULTS.read_text())
    assert credit.PAGE.read_text() == credit.page(credit.PAGE.read_text(), results)
