"""A model's folder that cannot be used is refused in one sentence, before its weights are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rlvr.agents import Rollout, RolloutRequest
from rlvr.agents.models import tiny
from rlvr.agents.models.folder_checks import UnfitModel, check_sizes, torn
from rlvr.agents.models.tiny import build_tiny, load_policy, require_model
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.algorithms import load_config
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.train.backends import check_dtype, load_model
from rlvr.algorithms.train.run import Trainer

from ..algorithms.runs import Callback, small


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build_tiny(tmp_path / "model", hidden=16, layers=1)


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def cut(folder: Path, keep: float) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: int(weights.stat().st_size * keep)])


def as_gguf(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "code of its own": (
        lambda folder: edit(folder / "config.json", model_type="mine", auto_map={"AutoConfig": "mine.Config"}),
        r"'mine', whose code is its own \(auto_map in config.json\) and never run here: take a model",
    ),
    "weights cut in the middle": (lambda folder: cut(folder, 0.5), r"is cut short: \d+ bytes are missing: copy"),
    "weights cut in the header": (lambda folder: cut(folder, 0.001), "is no whole safetensors file"),
    "weights of no bytes": (lambda folder: cut(folder, 0), r"is no whole safetensors file \(0 bytes\)"),
    "a GGUF alone": (as_gguf, "holds a GGUF file, which is not trained here.*convert the file"),
    "another vocabulary": (
        lambda folder: edit(folder / "config.json", vocab_size=100),
        "has ids up to [0-9]+, and the model has embeddings for 100 alone: it is another model's tokenizer",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_folder_is_refused_before_its_weights_are_read(
    folder: Path, broken: str, monkeypatch: pytest.MonkeyPatch
):
    damage, message = BROKEN[broken]
    load_policy(folder)  # whole, it loads
    damage(folder)
    libraries = tiny._libraries()
    monkeypatch.setattr(libraries[1].AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("was read"))
    with pytest.raises(UnfitModel, match=message) as caught:
        load_policy(folder)
    assert "\n" not in str(caught.value)


def test_a_header_that_is_none_is_said(tmp_path: Path):
    file = tmp_path / "model.safetensors"
    for header in (b"[]", b'{"a": 1}', b'{"a": {"data_offsets": [0]}}', b"\xff{"):
        file.write_bytes(len(header).to_bytes(8, "little") + header)
        assert torn(file) == "has a header that is no safetensors header"


def test_an_episode_longer_than_the_context_is_refused(folder: Path):
    edit(folder / "config.json", max_position_embeddings=64)
    check_sizes(str(folder), 64)
    config = load_config({"model": {"name": str(folder)}, "sampling": {"max_length": 65, "max_new_tokens": 8}})
    with pytest.raises(UnfitModel, match=r"sampling.max_length 65 is more than the 64 tokens that .* was made for"):
        load_model(config)


def test_a_type_that_a_device_lacks_is_named():
    check_dtype("bfloat16", "cpu")
    with pytest.raises(UnfitModel, match=r"model.dtype bfloat16 does not work on meta .*: take float32"):
        check_dtype("bfloat16", "meta")  # which holds no numbers


def test_a_file_of_gguf_is_refused_before_anything_heavy_is_imported(tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(UnfitModel, match="holds a GGUF file"):
        require_model(str(tmp_path / "model.gguf"))


def test_memory_that_runs_out_names_the_field(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    config = small(tmp_path / "run", warm_start={"steps": 0, "mixed_steps": 0})
    trainer = Trainer(config, Callback())
    with monkeypatch.context() as patch:
        patch.setattr(type(trainer.agent), "_sample_each", full)
        patch.setattr(type(trainer.agent), "_sample", full)
        with pytest.raises(ConfigError, match=r"while episodes were sampled: lower env.batch_size, 256 now"):
            trainer.run()
    assert (tmp_path / "run" / "config.yaml").is_file()  # what there was is kept, and goes on
    monkeypatch.setattr("rlvr.algorithms.train.backends.load_policy", full)
    with pytest.raises(ConfigError, match=r"while the model was loaded: set model.dtype to bfloat16"):
        Trainer(small(tmp_path / "other"), Callback())


def test_a_model_that_cannot_end_a_reply_is_refused(folder: Path, tmp_path: Path):
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    edit(folder / "tokenizer_config.json", eos_token=None)
    edit(folder / "config.json", eos_token_id=None)
    edit(folder / "generation_config.json", eos_token_id=None)
    config = small(tmp_path / "run", model={"name": str(folder)}).model_dump()
    config["model"] |= {"hidden": 128, "layers": 2}
    with pytest.raises(ConfigError, match="names no end-of-sequence token, so no reply of it could end"):
        Trainer(load_config(config), Callback())


def test_a_model_without_a_padding_token_is_taken(folder: Path):
    edit(folder / "tokenizer_config.json", pad_token=None)
    edit(folder / "config.json", pad_token_id=None)
    config = load_config({"model": {"name": str(folder)}, "sampling": {"max_length": 96, "max_new_tokens": 8}})
    model, tokenizer = load_model(config)
    assert tokenizer.pad_token_id is None
    agent = TransformersAgent(model, tokenizer, max_new_tokens=4)
    episodes = Rollout("rlvr/GuessNumber-v0", agent)([RolloutRequest(seed) for seed in range(2)])
    assert all(episode.valid for episode in episodes)
    sequences = [episode.tokens for episode in episodes]
    learner = Learner(model, PRESETS["dr_grpo"], pad_id=0, temperature=1.0, max_length=96)
    assert bool(learner.logprobs(sequences).isfinite().all())
