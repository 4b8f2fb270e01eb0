"""engine: tinker against SkyRL's server, with its JAX engine on the CPU: `python tests/adapters/run.py tinker`."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import pytest

pytest.importorskip("tinker")
pytest.importorskip("skyrl")

import torch

from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.algorithms.config import load_config
from rlvr.algorithms.learner.scoring import sequence_logprobs
from rlvr.algorithms.tinker.connect import connect
from rlvr.algorithms.train.interrupts import RunInterrupted
from rlvr.algorithms.train.run import Trainer

from .runs import Callback

pytestmark = pytest.mark.foreign

EXAMPLE = Path(__file__).parents[2] / "examples" / "tinker_cookbook_train.py"


@pytest.fixture(scope="module")
def policy_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "tiny"
    build_tiny(folder, hidden=32, layers=1)
    return folder


@pytest.fixture(scope="module")
def address(policy_folder, tmp_path_factory):
    found = importlib.util.spec_from_file_location("tinker_cookbook_train", EXAMPLE)
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    with example.serve(policy_folder, tmp_path_factory.mktemp("server") / "skyrl", 16, adapters=8) as address:
        yield address


@pytest.fixture
def settings(policy_folder, address, tmp_path):
    return {
        "env": {"id": "rlvr/GuessNumber-v0", "system": False},
        "engine": {"kind": "tinker", "url": address, "base_model": str(policy_folder)},
        "model": {"name": str(policy_folder), "lora_rank": 32},
        "sampling": {"max_new_tokens": 8, "max_length": 96},
        "sampler": {"concurrency": 16},
        "learner": {"lr": 1e-3},
        "warm_start": {"steps": 6, "batch_size": 8, "lr": 1e-2, "warmup_steps": 1},
        "evaluation": {"episodes": 4},
        "steps": 2,
        "prompts": 4,
        "group_size": 4,
        "checkpoint_every": 1,
        "out": str(tmp_path / "run"),
    }


def test_a_new_adapter_is_the_base_model_and_the_rule_is_known(settings, policy_folder):
    policy, _ = connect(load_config(settings))
    assert policy.rule == "mean over sequences of means over tokens"
    rows = [[5, 60, 7, 128], [9, 100, 11]]
    model = load_policy(policy_folder)[0]
    sampler = policy.service.fresh_sampler()
    for row, trained, sampled in zip(rows, policy.service.logprobs(rows), sampler.logprobs(rows), strict=True):
        expected = sequence_logprobs(model, torch.tensor([row]))[0]
        torch.testing.assert_close(torch.tensor(trained), expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(torch.tensor(sampled), expected, atol=1e-4, rtol=0)


def test_a_run_imitates_learns_is_interrupted_and_goes_on(settings, monkeypatch):
    first = Callback()
    trainer = Trainer(load_config(settings), first)
    monkeypatch.setattr(trainer, "asked_to_stop", lambda: 15 if trainer.step == 1 else None)
    with pytest.raises(RunInterrupted):
        trainer.run()
    imitated = [record["loss"] for record in first.records if "warm_step" in record]
    assert imitated[-1] < imitated[0] - 0.1, "the gradients go the right way"
    second = Callback()
    Trainer(load_config(settings), second, resume=True).run()
    steps = [*first.of("train"), *second.of("train")]
    assert [record["step"] for record in steps] == [1, 2]
    for record in steps:
        # tokens are sampled with the weights that are trained, as the service scores them
        assert record["behaviour_kl_k3"] < 1e-4
        assert record["sync_difference"] < 1e-2
        assert math.isfinite(record["loss"])
    kept = json.loads((Path(settings["out"]) / "policy" / "tinker.json").read_text())
    assert kept["sampler_weights"].startswith("tinker://")
