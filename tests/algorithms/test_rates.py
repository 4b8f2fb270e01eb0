"""The learning rates that a config does not give: those of the model it names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlvr.algorithms import load_config
from rlvr.algorithms.config import to_yaml
from rlvr.algorithms.config.rates import rates_for


def folder(path: Path, config: object) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def rates(**fields: object) -> tuple[float, float, float]:
    config = load_config(fields)
    return config.learner.lr, config.warm_start.lr, config.warm_start.mixed_lr


def test_the_tiny_policy_has_the_rates_of_its_demonstration():
    assert rates() == (3e-4, 3e-3, 1e-3)
    assert load_config({}).rates_note() == ""


def test_pretrained_weights_learn_slower_the_wider_they_are_and_adapters_faster(tmp_path: Path):
    narrow, wide = folder(tmp_path / "a", {"hidden_size": 576}), folder(tmp_path / "b", {"hidden_size": 4096})
    assert rates(model={"name": narrow}) == (1e-5, 5e-5, 5e-5)
    assert rates(model={"name": narrow, "lora_rank": 16}) == (1e-4, 5e-4, 5e-4)
    assert rates(model={"name": wide}) == (1.5e-6, 7.5e-6, 7.5e-6)
    assert rates(model={"name": "nobody/has-this"}) == (2.9e-6, 1.5e-5, 1.5e-5)  # on the hub, width unknown
    nested = folder(tmp_path / "c", {"text_config": {"hidden_size": 576}})
    assert rates(model={"name": nested}) == (1e-5, 5e-5, 5e-5)


@pytest.mark.parametrize("config", [[], {"hidden_size": "576"}, {"hidden_size": -1}, {"hidden_size": True}, None])
def test_a_folder_that_does_not_say_its_width_is_for_the_loader_to_refuse(tmp_path: Path, config: object):
    assert rates_for(folder(tmp_path / "odd", config)) == rates_for("nobody/has-this")


def test_what_is_given_stands_and_what_was_taken_is_saved(tmp_path: Path):
    name = folder(tmp_path / "model", {"hidden_size": 576})
    config = load_config({"model": {"name": name}, "learner": {"lr": 3e-6}, "warm_start": {"mixed_steps": 2}})
    assert (config.learner.lr, config.warm_start.mixed_lr) == (3e-6, 5e-5)
    assert config.rates_note() == (
        "learning rate 3e-06, of the warm start 5e-05, as the config says; the rule's for this model is 1e-05"
    )
    (tmp_path / "config.yaml").write_text(to_yaml(config))
    (tmp_path / "model" / "config.json").write_text('{"hidden_size": 1024}')
    assert load_config(tmp_path / "config.yaml") == config  # a run that goes on keeps its rates
    said = load_config({"model": {"name": name}}).rates_note()
    assert said == "learning rate 5.9e-06: those of a pretrained model, 1024 wide"
