"""A small model in the shape of Qwen3 with a tokenizer and a chat template like its own, in a folder, and its tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rlvr.algorithms.runs.checkpoints import load_checkpoint
from rlvr.algorithms.runs.run_folder import read_jsonl

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# A third of the answers is right once the policy has seen demonstrations: groups differ in rewards, and weights move.
GSM8K_RUN: dict[str, Any] = {
    "env": {"id": "rlvr/GSM8K-v0", "batch_size": 16, "system": True},
    "sampling": {"max_new_tokens": 16, "max_length": 256},
    "algorithm": "dr_grpo",
    "warm_start": {"steps": 40, "mixed_steps": 0, "batch_size": 16, "lr": 1e-2, "warmup_steps": 2},
    "learner": {"lr": 1e-3, "micro_batch_tokens": 2_048},
    "evaluation": {"split": "test", "episodes": 4},
    "overrides": {},
    "steps": 2,
    "prompts": 8,
    "group_size": 4,
}


def write_table(folder: Path) -> Path:
    """A made-up table in GSM8K's columns."""
    folder.mkdir(parents=True)
    for split, first in (("train", 0), ("test", 100)):
        lines = [
            json.dumps({"question": f"{n} apples?", "answer": f"One of three.\n#### {n % 3 + 1}"}) + "\n"
            for n in range(first, first + 12)
        ]
        (folder / f"{split}.jsonl").write_text("".join(lines))
    return folder


def gsm8k_run(folder: Path) -> dict[str, Any]:
    """`GSM8K_RUN` on a table and a policy that are made in this folder."""
    env = {**GSM8K_RUN["env"], "settings": {"data_files": str(write_table(folder / "gsm8k"))}}
    return {**GSM8K_RUN, "env": env, "model": {"name": str(build_qwen3(folder / "qwen3"))}}


def build_qwen3(folder: Path) -> Path:
    """Write the model and its tokenizer; about 0.2M parameters."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=specials, initial_alphabet=alphabet)
    backend.train_from_iterator(["system user assistant apples? One of three. ####"] * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, max_position_embeddings=512, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def require_learned(run: Path) -> None:
    """Some samples were right and some wrong, and the weights moved."""
    train = [record for record in read_jsonl(run / "metrics.jsonl") if record["phase"] == "train"]
    assert [record["step"] for record in train] == [1, 2]
    assert all(0 < record["reward"] < 1 and record["grad_norm"] > 0 for record in train), train
    first, last = (load_checkpoint(run / "checkpoints" / f"step-00000{step}").model for step in (0, 2))
    assert any(not torch.equal(value, last[name]) for name, value in first.items())
    policy = json.loads((run / "policy" / "config.json").read_text())
    assert (policy["model_type"], policy["hidden_size"]) == ("qwen3", 64)
