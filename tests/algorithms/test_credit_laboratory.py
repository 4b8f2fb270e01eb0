"""The laboratory of credit: its statistics, and tasks whose advantages are known in closed form."""

from __future__ import annotations

import math
import random
import sys
from typing import NamedTuple

import gymnasium as gym
import pytest
import torch

from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.recipe.advantage import ADVANTAGES
from rlvr.algorithms.recipe.presets import PRESETS
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


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, credit):
    import credit_models

    return credit_models


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


class Letter(Task[Link]):
    """Each of two turns earns 1 where the action begins with a letter: the model says with what probability."""

    def start(self, rng: random.Random, level: int) -> Link:
        return Link(rng.randrange(10**6), 0, True)

    def turns(self, level: int) -> int:
        return 2

    def observe(self, state: Link) -> str:
        return f"Letters {state.number}, turn {state.turn}."

    def apply(self, state: Link, action: str) -> Transition:
        state = Link(state.number, state.turn + 1, True)
        return Transition(state, correct() if action[:1].isalpha() else wrong(), state.turn == 2)

    def solve(self, state: Link) -> str:
        return "good"

    def sample_action(self, state: Link, rng: random.Random) -> str:
        return "1"


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
    assert 1 < cell["rules"]["branch contrast"]["cost"] < cell["rules"][f"vine, {credit.VINE} continuations"]["cost"]
    assert cell["rules"]["branch contrast"]["gradient"] == pytest.approx(1, abs=0.6)
    assert credit.credit_page.table({"chain": cell})[0].startswith("| rule |")


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


def test_the_page_holds_the_curves_that_were_measured(models):
    import credit_curves as curves

    text = curves.credit_page.PAGE.read_text(encoding="utf-8")
    assert curves.credit_page.with_block(text, "curves", curves.section(curves.load())) == text


def test_the_page_holds_what_was_measured(credit):
    """If this fails, run `python benchmarks/credit.py --draw`."""
    record, text = credit.credit_page, credit.credit_page.PAGE.read_text()
    assert text == record.page(text, record.load(), credit.bonus_table())


def test_the_values_of_a_model_are_its_probabilities(models, tmp_path, monkeypatch):
    """V before the last turn is the probability of a token that begins with a letter; the sampler never sees it."""
    gym.register("rlvr/Letters-v0", "rlvr.envs.core.text_env:TextEnv", kwargs={"task": Letter()})
    monkeypatch.setitem(models.IDS, "Letters", models.Setting(1, 1, 1, 3))
    monkeypatch.setattr(models, "CRITIC_BATCHES", 1)
    run = models.Trainer(models.config_of("Letters", 1, tmp_path / "run"), models.Silent())
    try:
        run.prepare()
        cell = models.Cell(run, 1)
        groups = cell.play()
        values = cell.values(256, "truth", cell.states)
        assert cell.turns == 256 * (len(cell.points) + models.credit.TASKS)  # two from each first state, else one
        gold = cell.gold()
        scores, given = cell.scores(), cell.with_critic()
    finally:
        del gym.registry["rlvr/Letters-v0"]
        run.close()
    starts = torch.tensor([run.renderer.decode([token])[:1].isalpha() for token in range(len(run.tokenizer))])
    said = torch.tensor([*run.renderer.encode_reply("good"), run.renderer.end_id])
    for episode, of_turns, of_expert in zip(cell.episodes, values, gold, strict=True):
        assert len(of_expert) == len(of_turns)
        if not of_turns:
            assert episode.sample >= models.MEASURED
            continue
        last = torch.tensor([episode.tokens.ids[: models.begins(episode)[1]]])
        with torch.no_grad():
            p = run.model(last).logits[0, -1].softmax(0)[starts].sum().item()
        opening = run.renderer.render_demonstration(  # a reply of the policy's is read as its text is written
            [*episode.messages()[:3], {"role": "assistant", "content": "good"}], opening=3
        )[0]
        with torch.no_grad():
            logprobs = run.model(torch.tensor([opening])).logits[0].log_softmax(-1)
        before = len(opening) - len(said)
        assert opening[before:] == said.tolist()
        own = logprobs[range(before - 1, len(opening) - 1), said].mean().item()
        assert of_expert[1] == pytest.approx(own, abs=1e-4)
        assert of_turns[1][0] == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / 256))
    assert len(groups) == models.credit.TASKS
    turns = [turn for episode in cell.episodes for turn in episode.turns]
    assert len(scores) == len(turns) == len(given["gae, lambda 1"][0]) == len(given["gae, lambda 0"][0])
    assert len(cell.measured(scores)) == models.credit.TASKS * models.MEASURED * 2
    assert abs(sum(scores) / len(scores)) < 1  # E[d log pi] = 0
    last = slice(1, None, 2)  # of the last turn both are the reward less the critic's value
    assert given["gae, lambda 1"][0][last] == pytest.approx(given["gae, lambda 0"][0][last], abs=1e-5)


def test_the_gold_log_ratio_by_hand(models):
    """Differences of log p; behind the last turn 0 after a success, and the lowest of all after a failure."""
    gold = [[-3.0, -1.0, -0.5], [-2.0, -4.0], []]
    rewards = [[0.0, 0.0, 1.0], [0.0, 0.0], [1.0]]
    assert models.trace(gold, rewards) == [[2.0, 0.5, 0.5], [-2.0, 0.0], []]


@pytest.mark.slow
def test_curves_are_at_equal_tokens_and_nothing_is_measured_twice(models, tmp_path, monkeypatch):
    import credit_curves as curves

    (tmp_path / "images").mkdir()
    page = tmp_path / "page.md"
    page.write_text("<!-- curves -->\n<!-- end of curves -->")
    rules = ("outcome (rloo)", "vine, 4 continuations", "expert score")
    small = {"STARTS": {("Calculator", 1, "few"): 100}, "SEEDS": (0,), "POINTS": 1, "HELD_OUT": 2, "PROMPTS": 2}
    small |= {"RESULTS": tmp_path / "curves.jsonl", "RULES": {rule: curves.RULES[rule] for rule in rules}}
    for name, value in small.items():
        monkeypatch.setattr(curves, name, value)
    monkeypatch.setattr(curves.credit_page, "PAGE", page)
    monkeypatch.setitem(models.IDS, "Calculator", models.Setting(1, 1, 2, 8))
    monkeypatch.setattr(sys, "argv", ["credit_curves.py", "--work", str(tmp_path / "work")])
    monkeypatch.setattr(curves.monte_carlo, "continue_from", curves.monte_carlo.continue_from)  # is put back
    monkeypatch.setattr(ADVANTAGES, "_values", dict(ADVANTAGES._values))  # what a run registers is gone after it
    assert curves.main() == 0
    ends = {rule: run["curve"][-1] for (_, rule, _), run in curves.load().items()}
    assert set(ends) == set(rules)
    assert all(end["steps"] == 1 for end in ends.values())  # of the same episodes
    assert ends["vine, 4 continuations"]["tokens"] > ends["outcome (rloo)"]["tokens"], "continuations count"
    assert ends["expert score"]["tokens"] == ends["outcome (rloo)"]["tokens"] >= 100
    assert page.read_text().count("| Calculator level 1 few | ") == 3
    assert (tmp_path / "images" / "credit_curves.png").stat().st_size
    record = curves.RESULTS.read_text()
    monkeypatch.setattr(curves, "measure", None)
    assert curves.main() == 0
    assert curves.RESULTS.read_text() == record


def test_the_expert_score_of_a_turn_is_what_it_changes(models):
    import credit_curves as curves

    rows = curves.expert_score(
        AdvantageInputs(
            rewards=torch.zeros(1),
            group=[0],
            mask=torch.tensor([[False, True, True, False, True]]),
            turn=torch.tensor([[0, 0, 0, 1, 1]]),
            turn_rewards=torch.tensor([[0.05, -0.9]]),
        ),
        PRESETS["dr_grpo"],
    )
    torch.testing.assert_close(rows, torch.tensor([[0.0, 0.05, 0.05, 0.0, -0.9]]))
