"""Runs of games of several seats: panel, exploitability, roles, moving reference, warm start on random moves."""

from __future__ import annotations

import random
import re
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import torch

from rlvr.agents import RandomAgent, Rollout, RolloutRequest
from rlvr.agents.models.tiny import load_policy, tiny_tokenizer
from rlvr.agents.players.text_policy import model_scorer, text_policy
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.config import ConfigError, WarmStartSection
from rlvr.algorithms.learner.scoring import Scorer, score_sequences
from rlvr.algorithms.runs.health import health
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.warm_start import demonstrations, warm_start
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import exploitability
from rlvr.envs.players.game import Referee

from .runs import GUESS, Callback, differences, small, stop_and_resume

pytestmark = pytest.mark.filterwarnings("ignore:.* have one sequence")  # a game of one seat makes groups of one
KUHN = {
    "env": {"id": "rlvr/KuhnPoker-v0", "system": False, "settings": {"opponents": ["self"], "brief": True, "tries": 1}},
    "model": {"words": ["check", "bet", "fold", "call"]},
    "sampling": {"max_new_tokens": 4, "max_length": 512},
    "warm_start": {"steps": 0, "mixed_steps": 0, "random_steps": 10, "batch_size": 8},
    "algorithm": "rloo",
    "overrides": {"kl": "k2", "kl_in": "loss", "kl_coef": 0.1},
}
MEASURED = {"episodes": 12, "every": 2, "panel": ["random", "expert"], "exploitability": True}


def test_evaluations_measure_the_panel_and_the_exploitability_of_the_policy_that_is_saved(tmp_path: Path):
    callback = Callback()
    Trainer(small(tmp_path / "run", **KUHN, evaluation=MEASURED, steps=4), callback).run()
    records = callback.of("evaluation")
    assert [record["step"] for record in records] == [0, 2, 4]
    for record in records:
        assert set(record["panel"]) == {"greedy", "sampled"}
        assert all(set(bots) == {"random", "expert"} for bots in record["panel"].values())
        assert all(score["matches"] == 12 for bots in record["panel"].values() for score in bots.values())
        assert 0 < record["least_scored_mass"] <= record["scored_mass"] <= 1
    assert records[0]["panel"] != records[-1]["panel"] or records[0]["exploitability"] != records[-1]["exploitability"]
    model, tokenizer = load_policy(tmp_path / "run" / "policy")
    referee = Referee(make_game("KuhnPoker"))
    policy = text_policy(referee, model_scorer(model, Renderer(tokenizer)), brief=True, system=False)
    assert records[-1]["exploitability"] == pytest.approx(exploitability(referee.game, policy).value, abs=1e-5)
    assert records[-1]["scored_mass"] == pytest.approx(policy.mean_mass, abs=1e-5)
    for record in callback.of("train"):
        assert sum(role["episodes"] for role in record["roles"].values()) == 16 - record["invalid"]
        assert set(record["roles"]) <= {"seat 0", "seat 1"}
        assert all(0 < role["tokens"] <= 12 and role["entropy"] > 0 for role in record["roles"].values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"env": {"id": GUESS}, "evaluation": {"panel": ["random"]}},
            "games of several seats, not of rlvr/GuessNumber",
        ),
        ({**KUHN, "evaluation": {"panel": ["nobody"]}}, "nobody"),
        (
            {
                **KUHN,
                "env": {"id": "rlvr/TicTacToeDuel-v0"},
                "sampling": {"max_length": 512},
                "evaluation": {"exploitability": True},
            },
            "exploitability is not computed exactly",
        ),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused_before_anything_is_trained(tmp_path: Path, changes, message):
    with pytest.raises(ConfigError, match=message):
        Trainer(small(tmp_path / "run", **changes), Callback())


def test_the_reference_moves_to_the_policy_every_so_many_steps(tmp_path: Path):
    def gaps(every: int) -> list[float]:
        callback = Callback()
        changes = {**KUHN, "learner": {"lr": 1e-2, "reference_every": every}, "steps": 4}
        Trainer(small(tmp_path / str(every), **changes), callback).run()
        return [record["ref_kl_k3"] for record in callback.of("train")]

    fixed, every_step, every_second = gaps(0), gaps(1), gaps(2)
    assert min(fixed[1:]) > 1e-7
    assert max(every_step) < 1e-9, "the policy is its own reference"
    assert every_second[1] > 1e-7
    assert every_second[2] < 1e-9 < every_second[3]


def test_a_run_with_a_moving_reference_goes_on_as_if_it_had_not_stopped(tmp_path: Path, monkeypatch):
    changes = {**KUHN, "learner": {"lr": 1e-2, "reference_every": 2}, "steps": 6, "checkpoint_every": 3}
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "run", 4, monkeypatch, **changes)
    assert differences(tmp_path / "run", tmp_path / "whole") == []


def test_random_demonstrations_are_kept_whether_they_win_or_lose():
    play = Rollout("rlvr/KuhnPoker-v0", RandomAgent(), use_system=False, env_settings={"brief": True, "level": 1})
    requests = [RolloutRequest(seed=0, index=index) for index in range(40)]
    renderer = Renderer(tiny_tokenizer())
    won = sum(episode.success for episode in play(requests))
    assert 0 < won < 40
    assert len(demonstrations(play, renderer, requests)) == won
    assert len(demonstrations(play, renderer, requests, failed=True)) == 40


@pytest.mark.parametrize("known_slopes", [False, True])
def test_sequences_that_occur_twice_go_through_the_model_once_and_count_twice(known_slopes: bool):
    model, tokenizer = load_policy("rlvr/tiny", tiny={"hidden": 32, "layers": 1})
    texts = ["ab cd", "ab ce", "ab cd", "ab cd", "xy"]
    rows = [tokenizer(text)["input_ids"] for text in texts]
    ids = torch.tensor([row + [0] * (5 - len(row)) for row in rows])
    mask = torch.tensor([[0, *[1] * (len(row) - 1), *[0] * (5 - len(row))] for row in rows]).bool()
    mask[3, 1] = False  # the same tokens, other ones of them trained
    weights = torch.randn(ids.shape, generator=torch.Generator().manual_seed(0)) * mask
    seen: list[int] = []
    hook = model.base_model.register_forward_pre_hook(
        lambda _, __, given: seen.append(given["input_ids"].numel()), with_kwargs=True
    )

    def gradient(score) -> tuple[torch.Tensor, torch.Tensor]:
        model.zero_grad()
        logprobs = score(ids, mask, 0.7, logprob_grads=weights if known_slopes else None).logprobs
        (logprobs * weights).sum().backward()
        return logprobs.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    one = gradient(Scorer(model))
    assert seen[-1] == 4 + 4 + 4 + 1, "the tokens before the last of four sequences, without padding"
    all_of_them = gradient(lambda *given, **options: score_sequences(model, *given, **options))
    assert seen[-1] == 4 + 4 + 4 + 4 + 1
    hook.remove()
    for found, wanted in zip(one, all_of_them, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    entropies = [
        Scorer(model)(ids, mask, entropy=True).entropy,
        score_sequences(model, ids, mask, entropy=True).entropy,
    ]
    torch.testing.assert_close(*entropies)


def evaluation(step: int, not_lost: float, matches: int = 1000) -> dict:
    panel = {way: {"random": {"not_lost": not_lost, "matches": matches}} for way in ("greedy", "sampled")}
    return {"phase": "evaluation", "step": step, "name": f"step {step}", "panel": panel}


def test_the_alarm_rings_when_the_panel_falls_while_self_play_is_even():
    even = [
        {"phase": "train", "step": step, "reward": 0.5, "success": 0.5, "groups_with_signal": 1} for step in range(9)
    ]
    well = [evaluation(0, 0.6), evaluation(4, 0.9), evaluation(8, 0.88)]
    assert health([*even, *well]) == []
    (alarm,) = health([*even, *well, evaluation(12, 0.7)])
    assert "even (0.50), but 70% of the matches against random are not lost where 90% were" in alarm
    # 64 matches scatter so, as in a run of Kuhn poker that ended well; with 1,000 it is a fall.
    few, many = ([evaluation(0, 0.594, matches), evaluation(8, 0.453, matches)] for matches in (64, 1000))
    assert health([*even, *few]) == []
    assert len(health([*even, *many])) == 1
    losing = [{**record, "reward": 0.1} for record in even]
    assert not any("self-play" in text for text in health([*losing, *well, evaluation(12, 0.7)]))
    assert not any("self-play" in text for text in health([evaluation(0, 0.9), evaluation(1, 0.5)]))


EVEN = [{"phase": "train", "step": step, "reward": 0.5, "success": 0.5, "groups_with_signal": 1} for step in range(9)]


def rings(shares: list[float], matches: int) -> list[int]:
    """The evaluations at which the alarm of the panel rings."""
    panels = [evaluation(number, share, matches) for number, share in enumerate(shares)]
    return [number for number in range(len(panels)) if health([*EVEN, *panels[: number + 1]])]


@pytest.mark.parametrize("matches", [64, 200])
def test_a_policy_that_stays_as_it_is_does_not_ring_however_many_evaluations_there_are(matches: int):
    draw = random.Random(0)
    runs = [[sum(draw.random() < 0.6 for _ in range(matches)) / matches for _ in range(40)] for _ in range(40)]
    assert sum(bool(rings(shares, matches)) for shares in runs) <= 2
    # The same runs, whose policy falls for good after 30 evaluations of the 40.
    fallen = [[*shares[:30], *(max(0.0, share - 0.4) for share in shares[30:])] for shares in runs[:5]]
    assert all(any(number >= 30 for number in rings(shares, matches)) for shares in fallen)


def test_demonstrations_of_a_game_of_several_seats_are_kept_whether_they_win_or_lose():
    """A fold never wins: of won matches alone, a policy learns to call with every card."""
    shown: list[str] = []

    class Pupil:
        def new_optimiser(self, lr, **options):
            return None

        def imitate(self, sequences, optimiser):
            shown.extend(tokenizer.decode([i for i, m in zip(s.ids, s.mask, strict=True) if m]) for s in sequences)
            return {}

    tokenizer = tiny_tokenizer()
    settings = WarmStartSection(steps=4, batch_size=32, lr=3e-3)
    requests = (RolloutRequest(seed=0, index=index) for index in count())
    play = partial(Rollout, "rlvr/KuhnPoker-v0", use_system=False, env_settings={"brief": True, "level": 1})
    warm_start(Pupil(), Renderer(tokenizer), play, requests, settings, lambda *_: None)
    assert len(shown) == 128
    assert {"fold", "call", "check", "bet"} == {move for text in shown for move in re.findall(r"boxed\{(\w+)", text)}
