"""Sampling against `model.generate()`, and log-probabilities over a large vocabulary.

    python benchmarks/sampler.py            # about three minutes on one core

Both sides run in this process, in turns, on one thread; time is CPU time of the process. The model is ``rlvr/tiny``.
`generate()` returns no log-probabilities here, ours always does. Prompts are random bytes: of one length; of
many lengths; or 8 prompts in groups of 8, where rows end after 16 tokens on average.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import transformers

from rlvr.agents.models.sampling import LOGITS_AT_ONCE, Sampling, uniforms
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import sample
from rlvr.algorithms.learner.head import score_hidden

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, peak_memory, write_results

ROWS, NEW_TOKENS = 64, 64
RESULTS = Path(__file__).parent / "results"


def prompts_for(scenario: str) -> list[list[int]]:
    """64 prompts of random bytes: of one length, of many lengths, or 8 prompts of many lengths 8 times each."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 41, size=8 if scenario == "groups" else ROWS)
    if scenario == "one length":
        lengths[:] = 24
    prompts = [rng.integers(32, 127, size=n).tolist() for n in lengths]
    return [prompt for prompt in prompts for _ in range(ROWS // len(prompts))]


def ours(model: Any, prompts: list[list[int]], ends: list[int], repeat: int) -> int:
    noise = [uniforms(repeat, str(row), len(prompt), NEW_TOKENS) for row, prompt in enumerate(prompts)]
    continuations = sample(model, prompts, [NEW_TOKENS] * len(prompts), noise, ends, Sampling())
    return sum(len(ids) for ids, _ in continuations)


def generate(model: Any, prompts: list[list[int]], ends: list[int], repeat: int) -> int:
    torch.manual_seed(repeat)
    longest = max(map(len, prompts))
    pad = model.config.pad_token_id
    ids = torch.tensor([[pad] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            top_p=1.0,
            temperature=1.0,
            max_new_tokens=NEW_TOKENS,
            eos_token_id=ends or None,
            pad_token_id=pad,
        )
    continuations = out[:, longest:].tolist()
    if not ends:
        return sum(map(len, continuations))
    return sum(row.index(ends[0]) + 1 if ends[0] in row else len(row) for row in continuations)


def race(title: str, unit: str, candidates: dict[str, Callable[[int], int]], rounds: int) -> Table:
    """Units per CPU-second of each candidate, in turns; the first is the base of the ratios."""
    table = Table(title, unit, next(iter(candidates)))
    for candidate in candidates.values():
        candidate(0)
    for number in range(1, rounds + 1):
        for name, candidate in candidates.items():
            start = time.process_time()
            units = candidate(number)
            table.add(name, units / (time.process_time() - start))
    return table


def sampling(scenario: str, rounds: int) -> Table:
    model, _ = tiny_policy()
    ends: list[int] = []
    if scenario == "groups":  # here rows end, after 16 tokens on average
        ends = [model.config.eos_token_id]
        bias = torch.zeros(model.config.vocab_size)
        bias[ends[0]] = float(np.log((model.config.vocab_size - 1) / 15))
        model.lm_head.bias = torch.nn.Parameter(bias)
    prompts = prompts_for(scenario)
    return race(
        f"Sampling, 64 rows, at most 64 new tokens, prompts: {scenario}",
        "sampled tokens per CPU-second",
        {
            "TransformersAgent's sampler": lambda n: ours(model, prompts, ends, n),
            "generate()": lambda n: generate(model, prompts, ends, n),
        },
        rounds,
    )


def large_vocabulary() -> tuple[list[Table], dict[str, str]]:
    """Log-probabilities of 512 tokens of 151,936, from a hidden state of 896: forward and backward once each."""
    width, vocabulary, count = 896, 151_936, 512
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(vocabulary, width, generator=generator).mul_(0.02).requires_grad_()
    hidden = torch.randn(count, width, generator=generator).requires_grad_()
    targets = torch.randint(0, vocabulary, (count,), generator=generator)
    size = "512 tokens of a vocabulary of 151,936"
    seconds = Table(f"Scoring {size}", "CPU-seconds, forward and backward", "in pieces")
    memory = Table(f"Scoring {size}: memory", "MB at the peak, above what was there before", "in pieces")
    for name, at_once in (("in pieces", LOGITS_AT_ONCE), ("all logits at once", count * vocabulary)):
        weight.grad = hidden.grad = None
        before = peak_memory(reset=True)
        start = time.process_time()
        score_hidden(hidden, weight, None, targets, 1.0, logits_at_once=at_once).logprobs.sum().backward()
        seconds.add(name, time.process_time() - start)
        memory.add(name, (peak_memory() - before) / 1e6)
    return [seconds, memory], {"the weight's own gradient, in both": f"{weight.numel() * 4 / 1e6:.0f} MB"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="how often each side runs (default 9)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tables = [sampling(name, arguments.rounds) for name in ("one length", "many lengths", "groups")]
    facts: dict[str, str] = {}
    if Path("/proc/self/clear_refs").exists():
        scoring, more = large_vocabulary()
        tables += scoring
        facts |= more
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "threads": "1"}
    write_results("sampler", tables, versions | facts, arguments.out)


if __name__ == "__main__":
    main()
