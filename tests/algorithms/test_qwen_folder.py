"""GSM8K with a model in the shape of Qwen3 from a local folder, by one YAML: in one process and in two.

`test_vllm_sampler.py` runs the same YAML with a vLLM server as its sampler.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.config import load_config
from rlvr.algorithms.config.train_config import read_yaml
from rlvr.algorithms.train.run import Trainer

from ..architecture import ROOT
from .qwen_folder import build_qwen3, gsm8k_run, require_learned, write_table
from .runs import Callback

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, write_config) -> Path:
    return write_config(**gsm8k_run(tmp_path_factory.mktemp("gsm8k")))


@pytest.fixture(scope="module")
def alone(config: Path, server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process, which samples with transformers."""
    out = tmp_path_factory.mktemp("alone") / "run"
    done = server.run(["train", "--config", config, "--out", out])
    assert done.status == 0, done.output
    return out


def test_one_process_samples_and_learns(alone: Path):
    require_learned(alone)


@pytest.mark.fsdp
def test_two_processes_learn_too(alone: Path, config: Path, server, tmp_path: Path):
    done = server.run(["train", "--config", config, "--out", tmp_path / "two"], processes=2)
    assert done.status == 0, done.output
    require_learned(tmp_path / "two")
    tasks = [
        [episode.seed for episode in read_episodes(run / "episodes" / "train-000002.jsonl")]
        for run in (tmp_path / "two", alone)
    ]
    assert tasks[0] == tasks[1]


def test_the_example_for_a_gpu_takes_a_step_on_the_cpu(tmp_path: Path):
    """Its own model, kernel, sharing, recomputation and types; fewer and shorter episodes."""
    config = read_yaml(ROOT / "examples" / "gsm8k_qwen3.yaml")
    config["env"]["settings"] = {"data_files": str(write_table(tmp_path / "gsm8k"))}
    config["model"] |= {"name": str(build_qwen3(tmp_path / "qwen3")), "device": "cpu"}
    config["sampling"] = {"max_new_tokens": 16, "max_length": 256}
    config |= {"steps": 1, "prompts": 2, "group_size": 4, "out": str(tmp_path / "run"), "evaluation": {"episodes": 2}}
    config["sampler"]["concurrency"] = 3  # slots are used again
    callback = Callback()
    trainer = Trainer(load_config(config), callback)
    results = trainer.run()
    assert {"before greedy", "after sampled"} <= results.keys()
    assert next(trainer.model.parameters()).dtype.itemsize == 2
    assert trainer.learner.share_prompts
    assert trainer.learner.masters
    assert not trainer.learner.unshared
    assert [record["step"] for record in callback.of("train")] == [1]
