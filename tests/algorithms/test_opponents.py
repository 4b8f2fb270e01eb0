"""Runs against a pool, frozen policies, adapters and endpoints: the policy alone learns, and a stopped run goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.runs.checkpoints import MANIFEST, latest_checkpoint, load_checkpoint, step_name
from rlvr.algorithms.train.run import Trainer

from .runs import GUESS, Callback, content, differences, small, stop_and_resume

pytestmark = pytest.mark.filterwarnings("ignore:.* have one sequence")  # a game of one seat makes groups of one


def duel(*opponents, **changes):
    settings = {"opponents": [*opponents], "brief": True, "tries": 1}
    return {
        "env": {"id": "rlvr/KuhnPoker-v0", "system": False, "settings": settings},
        "model": {"words": ["check", "bet", "fold", "call"]},
        "sampling": {"max_new_tokens": 4, "max_length": 512},
        "warm_start": {"steps": 0, "mixed_steps": 0, "random_steps": 10, "batch_size": 8},
        "algorithm": "rloo",
        "overrides": {"entropy_coef": 0.01},
        **changes,
    }


POOL = duel("self", "pool", self_play={"every": 2, "keep": 2}, steps=7, checkpoint_every=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, Callback]:
    out, callback = tmp_path_factory.mktemp("pool") / "whole", Callback()
    Trainer(small(out, **POOL), callback).run()
    return out, callback


def test_the_pool_grows_is_bounded_and_its_matches_are_counted(whole):
    out, callback = whole
    pools = [record["pool"] for record in callback.of("train")]
    assert [list(pool) for pool in pools] == [
        *([[]] * 2), *([["step 2"]] * 2), *([["step 2", "step 4"]] * 2), ["step 4", "step 6"]
    ]  # fmt: skip
    assert all(sum(each["probability"] for each in pool.values()) == pytest.approx(1) for pool in pools if pool)
    played = [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted((out / "episodes").glob("train-*.jsonl"))
    ]
    # Where the other seat forfeits before the policy has moved, there is nothing to count.
    met = [
        [name for each in step if each["turns"] for name in each["training"].get("opponents", {}).values()]
        for step in played
    ]
    assert met[0] == met[1] == []  # an empty pool: the policy itself
    assert {"step 2"} <= {*met[2], *met[3], *met[4], *met[5]} <= {"step 2", "step 4"}
    assert sum(map(len, met[2:])) < 5 * 16  # `self` is drawn as well
    # Steps 3 to 6 may draw step 2, and all of its matches are counted when step 6 is drawn.
    assert pools[5]["step 2"]["matches"] == sum(names.count("step 2") for names in met[2:5]) > 0
    assert pools[6]["step 4"]["matches"] == sum(names.count("step 4") for names in met[4:6])


def test_members_of_a_group_meet_the_same_member_of_the_pool(whole):
    out, _ = whole
    groups: dict[int, set[str]] = {}
    for line in (out / "episodes" / "train-000006.jsonl").read_text().splitlines():
        episode = json.loads(line)
        groups.setdefault(episode["group"], set()).add(json.dumps(episode["training"].get("opponents", {})))
    assert len(groups) == 4
    assert all(len(drawn) == 1 for drawn in groups.values())


def test_a_checkpoint_names_the_pool_and_holds_the_policies_of_its_steps(whole):
    out, _ = whole
    last = sorted((out / "checkpoints").glob("step-*"))[-1]
    assert "pool.safetensors" in json.loads((last / MANIFEST).read_text())
    checkpoint, faults = latest_checkpoint(out / "checkpoints")
    assert faults == []
    assert {key.partition(".")[0] for key in checkpoint.pool} == {"4", "6"}
    assert {key.partition(".")[2] for key in checkpoint.pool} == checkpoint.model.keys()
    at_six = load_checkpoint(out / "checkpoints" / step_name(6))
    assert all(torch.equal(checkpoint.pool[f"6.{name}"], value) for name, value in at_six.model.items())


def test_a_run_that_was_stopped_goes_on_with_its_pool_to_the_same_bytes(whole, tmp_path: Path, monkeypatch):
    stop_and_resume(tmp_path / "run", 5, monkeypatch, **POOL)
    assert differences(tmp_path / "run", whole[0]) == []


def spied(monkeypatch) -> list:
    """The agents that were asked for replies, by call, each with its conversations' keys."""
    calls = []
    act = TransformersAgent.act

    def spy(self, conversations):
        calls.append((self, [each.key for each in conversations]))
        return act(self, conversations)

    monkeypatch.setattr(TransformersAgent, "act", spy)
    return calls


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_frozen_policy_never_changes_carries_no_loss_and_is_asked_in_one_batch(tmp_path: Path, monkeypatch):
    folder = build_tiny(tmp_path / "frozen", hidden=32, layers=1, seed=5, words=["check", "bet", "fold", "call"])
    before, calls = bytes_of(folder), spied(monkeypatch)
    trainer = Trainer(small(tmp_path / "run", **duel(f"model:{folder}", steps=3)), Callback())
    trainer.run()
    assert bytes_of(folder) == before
    agent = trainer.opponents.agent(f"model:{folder}")
    model, _ = load_policy(folder)
    weights = dict(model.named_parameters())
    assert all(torch.equal(weights[name], value) for name, value in agent.model.named_parameters())
    assert not any(value.requires_grad for value in agent.model.parameters())
    frozen = [keys for asked, keys in calls if asked is agent]
    others = [keys for asked, keys in calls if asked is not agent]
    assert all("/seat " in key for keys in frozen for key in keys)
    assert not any("/seat " in key for keys in others for key in keys)
    assert max(map(len, frozen)) > 4
    for path in (tmp_path / "run" / "episodes").glob("train-*.jsonl"):
        for line in path.read_text().splitlines():
            episode = json.loads(line)
            assert episode["training"]["opponents"] in ({"0": f"model:{folder}"}, {"1": f"model:{folder}"})
            sampled = sum(episode["tokens"]["mask"])
            assert sampled <= 4 * len(episode["turns"])  # of the trained seat alone


def test_an_adapter_plays_as_its_base_with_the_adapter_merged(tmp_path: Path, monkeypatch):
    peft = pytest.importorskip("peft")
    base = build_tiny(tmp_path / "base", hidden=32, layers=1, words=["check", "bet", "fold", "call"])
    model, tokenizer = load_policy(base)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
    adapted.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    trainer = Trainer(small(tmp_path / "run", **duel(f"model:{tmp_path / 'adapter'}", steps=1)), Callback())
    trainer.run()
    name = "model.layers.0.self_attn.q_proj.weight"
    played = dict(trainer.opponents.agent(f"model:{tmp_path / 'adapter'}").model.named_parameters())
    plain, merged = load_policy(base)[0], adapted.merge_and_unload()
    assert torch.allclose(played[name], dict(merged.named_parameters())[name])
    assert not torch.allclose(played[name], dict(plain.named_parameters())[name])


def test_evaluations_play_frozen_policies_and_demonstrations_play_bots(tmp_path: Path, monkeypatch):
    folder = build_tiny(tmp_path / "frozen", hidden=32, layers=1, words=["check", "bet", "fold", "call"])
    calls = spied(monkeypatch)
    changes = duel(f"model:{folder}", "self", "pool", "random", steps=0)
    changes["evaluation"] = {"episodes": 24}  # the model has each seat with chance 1/2, by a hash of its folder too
    trainer = Trainer(small(tmp_path / "run", **changes), Callback())
    trainer.run()
    agent = trainer.opponents.agent(f"model:{folder}")
    asked = [keys for other, keys in calls if other is agent]
    assert asked
    assert all("/evaluation/seat " in key for keys in asked for key in keys)
    bots = trainer.rollout_of(trainer.agent, "train", bots=True).env.unwrapped.task.opponents
    assert bots == ("random",)
    held_out = trainer.rollout_of(trainer.agent, "test").env.unwrapped.task.opponents
    assert held_out == (f"model:{folder}", "random")


@pytest.mark.parametrize(
    ("opponents", "changes", "message"),
    [
        (["model:nowhere/at/all"], {}, "'model:nowhere/at/all' cannot be played: .*no folder"),
        (["model:"], {}, "name the folder"),
        (["endpoint:gpt"], {}, "write endpoint:MODEL@URL"),
        (["endpoint:gpt@ftp://x"], {}, "http or https"),
        (["endpoint:m@http://localhost:1/v1"], {"self_play": {"api_key_env": "NOT_SET_HERE"}}, "NOT_SET_HERE"),
        (["pools"], {}, "there is no bot 'pools'"),
        (["pool"], {"schedule": {"kind": "async", "correction": "tis"}}, "use schedule: sync"),
    ],
)
def test_opponents_that_cannot_play_are_refused_before_anything_is_trained(tmp_path: Path, opponents, changes, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        Trainer(small(tmp_path / "run", **duel(*opponents, **changes)), Callback())


def test_a_folder_without_a_policy_and_a_game_without_seats_are_refused(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="cannot be played"):
        Trainer(small(tmp_path / "run", **duel(f"model:{tmp_path / 'empty'}")), Callback())
    with pytest.raises((TypeError, ValueError, ConfigError), match="opponents"):
        Trainer(small(tmp_path / "other", env={"id": GUESS, "settings": {"opponents": ["pool"]}}), Callback())


def test_a_run_without_a_pool_keeps_nothing_of_one(tmp_path: Path):
    callback = Callback()
    Trainer(small(tmp_path / "run", **duel("self", steps=2)), callback).run()
    assert all("pool" not in record for record in callback.of("train"))
    assert not any("pool.safetensors" in name for name in content(tmp_path / "run"))
