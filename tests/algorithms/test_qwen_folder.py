"""GSM8K with a model in the shape of Qwen3 from a local folder, by one YAML: in one process and in two.

`test_vllm_sampler.py` runs the same YAML with a vLLM server as its sampler.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr.agents.evaluation import read_episodes

from .qwen_folder import gsm8k_run, require_learned
from .test_fsdp import launch

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
def test_two_processes_learn_too(alone: Path, config: Path, tmp_path: Path):
    status, output = launch(2, "--config", config, "--out", tmp_path / "two")
    assert status == 0, output
    require_learned(tmp_path / "two")
    tasks = [
        [episode.seed for episode in read_episodes(run / "episodes" / "train-000002.jsonl")]
        for run in (tmp_path / "two", alone)
    ]
    assert tasks[0] == tasks[1]
