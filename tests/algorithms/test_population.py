"""Several learned policies in one run: what each learns from, what is logged, and that a stopped run goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.population.population import Population, open_run
from rlvr.algorithms.runs.checkpoints import latest_checkpoint
from rlvr.algorithms.runs.explain import explain
from rlvr.algorithms.runs.run_folder import RunFolderError, read_jsonl
from rlvr.algorithms.train.interrupts import RunInterrupted
from rlvr.algorithms.train.run import Trainer

from .runs import GUESS, Callback, differences, small

KUHN = {
    "env": {"id": "rlvr/KuhnPoker-v0", "system": False, "settings": {"opponents": ["self"], "brief": True, "tries": 3}},
    "model": {"words": ["check", "bet", "fold", "call"]},
    "sampling": {"max_new_tokens": 4, "max_length": 512},
    "warm_start": {"steps": 0, "mixed_steps": 0, "random_steps": 40, "batch_size": 8},
    "self_play": {"policies": {"first": [0], "second": [1]}},
    "algorithm": "rloo",
    "overrides": {"entropy_coef": 0.01},
    "evaluation": {"episodes": 4, "every": 3, "exploitability": True, "panel": ["random"]},
    "steps": 6,
    "checkpoint_every": 2,
}
NAMES = ("first", "second")
pytestmark = [
    pytest.mark.slow,  # whole runs of two policies
    pytest.mark.filterwarnings("ignore:.* have one sequence"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, Callback]:
    out, callback = tmp_path_factory.mktemp("population") / "whole", Callback()
    Population(small(out, **KUHN), callback).run()
    return out, callback


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.named_parameters()}


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(value, two[name]) for name, value in one.items())


def all_differences(run: Path, other: Path) -> list[str]:
    found = [
        f"{name}: {each}" for name in NAMES for each in differences(run / "policies" / name, other / "policies" / name)
    ]
    return [*found, *(differences(run, other))]


def test_each_policy_learns_its_own_player_and_both_change(whole):
    out, _ = whole
    last = {}
    for name, player in zip(NAMES, (0, 1), strict=True):
        folder = out / "policies" / name
        episodes = [
            json.loads(line)
            for path in (folder / "episodes").glob("train-*.jsonl")
            for line in path.read_text().splitlines()
        ]
        assert {episode["training"]["role"] for episode in episodes} == {f"seat {player}"}
        other = {str(1 - player): f"policy {NAMES[1 - player]}"}
        assert all(episode["training"]["opponents"] == other for episode in episodes)
        checkpoint, _ = latest_checkpoint(folder / "checkpoints")
        assert checkpoint.step == 6
        last[name] = checkpoint.model
        assert load_config(folder / "config.yaml").self_play.policy == name
        assert "advantage" in explain(folder, "0") or "dropped" in explain(folder, "0")
        assert (folder / "policy" / "model.safetensors").is_file()
    assert not same(last["first"], last["second"])


def test_an_update_from_one_players_tokens_leaves_the_other_policy_as_it_was(tmp_path: Path):
    run = Population(small(tmp_path / "run", **KUHN), Callback())
    first, second = run.members.values()
    for member in (first, second):
        member.prepare()
    assert first.opponents.agent("policy second").model is second.model
    assert second.opponents.agent("policy first").model is first.model
    samples = {member: member.collect() for member in (first, second)}
    for learner, other in ((second, first), (first, second)):
        before, own = weights(other), weights(learner)
        moments = {name: value.clone() for name, value in other.optimiser.tensors().items()}
        learner.learn(samples[learner])
        assert same(before, weights(other))
        assert same(moments, other.optimiser.tensors())
        assert not same(own, weights(learner))
    run.close()


def test_the_order_of_the_policies_decides_nothing(tmp_path: Path, whole):
    turned = {**KUHN, "self_play": {"policies": {"second": [1], "first": [0]}}}
    Population(small(tmp_path / "run", **turned), Callback()).run()
    for name in NAMES:
        one, two = (
            latest_checkpoint(out / "policies" / name / "checkpoints")[0] for out in (tmp_path / "run", whole[0])
        )
        assert same(one.model, two.model)
        assert same(one.optimiser, two.optimiser)


def test_evaluations_measure_each_policy_in_its_place_and_all_together(whole):
    out, callback = whole
    records = read_jsonl(out / "metrics.jsonl")
    assert [record["name"] for record in records] == ["before", "step 3", "after"]
    assert all(0 <= record["exploitability"] < 1 and record["scored_mass"] > 0 for record in records)
    for name in NAMES:
        own = [each for each in read_jsonl(out / "policies" / name / "metrics.jsonl") if each["phase"] == "evaluation"]
        assert [record["name"] for record in own] == ["before", "step 3", "after"]
        assert all(0 < record["panel"]["sampled"]["random"]["matches"] <= 4 for record in own)
        assert all("exploitability" not in record for record in own)
    assert sum("exploitability of all policies" in text for text in callback.said) == 3


def resumed(out: Path) -> None:
    Population(small(out, **KUHN), Callback(), resume=True).run()


@pytest.mark.parametrize(
    ("name", "method"), [("first", "learn"), ("second", "learn"), ("second", "after_step"), ("second", "begin")]
)
def test_a_run_that_was_stopped_anywhere_goes_on_to_the_same_bytes(tmp_path, whole, monkeypatch, name, method):
    run = Population(small(tmp_path / "run", **KUHN), Callback())
    member = run.members[name]
    original = getattr(member, method)

    def fail(*given):
        if method == "begin" or member.step == 4:
            raise RuntimeError("stopped here")
        return original(*given)

    monkeypatch.setattr(member, method, fail)
    with pytest.raises(RuntimeError, match="stopped here"):
        run.run()
    resumed(tmp_path / "run")
    assert all_differences(tmp_path / "run", whole[0]) == []


def test_a_signal_stops_all_policies_after_the_same_step(tmp_path: Path, whole):
    run = Population(small(tmp_path / "run", **KUHN), Callback())
    second = run.members["second"]
    original = second.learn

    def learn(sample):
        original(sample)
        if second.step == 3:
            run.stop.signum = 15

    second.learn = learn
    with pytest.raises(RunInterrupted, match="after step 3"):
        run.run()
    for name in NAMES:
        assert latest_checkpoint(tmp_path / "run" / "policies" / name / "checkpoints")[0].step == 3
    resumed(tmp_path / "run")
    assert [each for each in all_differences(tmp_path / "run", whole[0]) if "step-000003" not in each] == []


REFUSED = [
    ({"sampler": "vllm"}, "sampler.kind"),
    ({"schedule": {"kind": "async", "correction": "tis"}}, "schedule.kind"),
    ({"env": {"id": "rlvr/KuhnPoker-v0", "settings": {"opponents": ["random"]}}}, "env.settings.opponents"),
    ({"env": {"id": "rlvr/KuhnPoker-v0", "settings": {"opponents": ["self", "pool"]}}}, "env.settings.opponents"),
    ({"env": {"id": "rlvr/KuhnPoker-v0", "settings": {"opponents": ["self"], "seat": 0}}}, "env.settings.seat"),
    ({"push_to_hub": "me/mine"}, "push_to_hub"),
    ({"report_to": "wandb"}, "report_to"),
    ({"self_play": {"policies": {"one": [0, 1]}}}, "self_play.policies: name two"),
    ({"self_play": {"policies": {"one": [0], "two": [0]}}}, "self_play.policies.two"),
    ({"self_play": {"policies": {"one": [0], "two": []}}}, "self_play.policies.two"),
    ({"self_play": {"policies": {"one": [0], "../two": [1]}}}, "names a folder"),
    ({"self_play": {"policies": {"one": [0], "two": [2]}}}, "KuhnPoker has seats 0 to 1"),
    ({"env": {"id": GUESS, "settings": {"opponents": ["self"]}}}, "opponents"),
]


@pytest.mark.parametrize(("changes", "field"), REFUSED)
def test_what_cannot_have_several_policies_is_refused_by_the_fields_name(tmp_path: Path, changes, field):
    with pytest.raises(Exception, match=field):
        open_run(small(tmp_path / "run", **{**KUHN, **changes}), Callback())
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_torchrun_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("rlvr.algorithms.learner.world.ProcessWorld.join", lambda: type("World", (), {"sharded": True}))
    with pytest.raises(ConfigError, match=r"self_play\.policies goes with one process"):
        open_run(small(tmp_path / "run", **KUHN), Callback())


def test_a_folder_that_was_refused_is_free_for_the_next_run(tmp_path: Path):
    with pytest.raises(Exception, match="no-such-model"):
        open_run(small(tmp_path / "run", **{**KUHN, "model": {"name": str(tmp_path / "no-such-model")}}), Callback())
    open_run(small(tmp_path / "run", **KUHN), Callback()).close()


def test_the_folder_of_one_policy_is_not_gone_on_with_alone(whole):
    folder = whole[0] / "policies" / "first"
    with pytest.raises(ConfigError, match=r"self_play\.policy: .* holds one of several policies, first"):
        open_run(load_config(folder / "config.yaml"), Callback(), resume=True)


def test_a_finished_run_is_not_begun_again(whole):
    with pytest.raises(RunFolderError, match="not empty"):
        open_run(small(whole[0], **KUHN), Callback())


def test_a_policy_of_a_role_has_several_players(tmp_path: Path):
    clues = {
        **KUHN,
        "env": {"id": "rlvr/Clues-v0", "system": False, "settings": {"opponents": ["self"], "brief": True, "tries": 3}},
        "sampling": {"max_new_tokens": 4, "max_length": 2048},
        "self_play": {"policies": {"givers": [0, 2], "guessers": [1, 3]}},
        "warm_start": {"steps": 0, "mixed_steps": 0},
        "evaluation": {"episodes": 2, "panel": ["random"]},
        "steps": 1,
    }
    run = Population(small(tmp_path / "run", **clues), Callback())
    run.run()
    for name, players in (("givers", {"seat 0", "seat 2"}), ("guessers", {"seat 1", "seat 3"})):
        lines = (tmp_path / "run" / "policies" / name / "episodes" / "train-000001.jsonl").read_text().splitlines()
        assert {json.loads(line)["training"]["role"] for line in lines} <= players
