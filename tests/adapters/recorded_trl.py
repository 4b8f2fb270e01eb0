"""Runs a program of `rlvr launch trl` and keeps what TRL's trainer made: PROGRAM and the file for it, as arguments."""

from __future__ import annotations

import functools
import runpy
import sys
from typing import Any

import torch
from trl import GRPOTrainer

turns: list[tuple[list[int], list[int]]] = []  # prompts that were sampled after, and what was sampled
rewards: list[torch.Tensor] = []
batches: list[dict[str, Any]] = []
generate, calculate = GRPOTrainer._generate_single_turn, GRPOTrainer._calculate_rewards
score = GRPOTrainer._generate_and_score_completions


@functools.wraps(generate)
def recorded_generate(self: Any, prompt_ids: Any, *rest: Any) -> Any:
    ids, logprobs = generate(self, prompt_ids, *rest)
    turns.extend((list(prompt), list(reply)) for prompt, reply in zip(prompt_ids, ids, strict=True))
    return ids, logprobs


@functools.wraps(calculate)
def recorded_rewards(self: Any, *arguments: Any) -> Any:
    rewards.append(calculate(self, *arguments))
    return rewards[-1]


@functools.wraps(score)
def recorded_batch(self: Any, inputs: Any) -> Any:
    turns.clear()
    batch = score(self, inputs)
    if self.model.training:
        kept = {name: value for name, value in batch.items() if isinstance(value, torch.Tensor)}
        batches.append({"specs": [row["spec"] for row in inputs], "turns": turns[:], "rewards": rewards[-1], **kept})
    return batch


if __name__ == "__main__":
    GRPOTrainer._generate_single_turn = recorded_generate
    GRPOTrainer._calculate_rewards = recorded_rewards
    GRPOTrainer._generate_and_score_completions = recorded_batch
    program, out = sys.argv[1:]
    sys.argv = [program]
    runpy.run_path(program, run_name="__main__")
    torch.save(batches, out)
