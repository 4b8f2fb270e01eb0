"""Layers compiled by torch.compile beside the layers as they are written: CPU-seconds of an update's passes.

    python benchmarks/compiled.py

A model of 14M parameters scores micro-batches of several lengths and sends the gradient back, the two ways in turn, in
one process with one thread. What compiling takes is a figure of its own, in CPU-seconds with those of the C++ compiler;
its cache is empty at the start. The gradients of the two ways are compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers

from rlvr.algorithms.learner.layers import CompiledLayers, require_compiler
from rlvr.algorithms.learner.scoring import Scorer, has_plain_head

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

RESULTS = Path(__file__).resolve().parent / "results"
SHAPES = ((16, 64), (12, 96), (8, 160), (4, 320))  # sequences, tokens of each
WRITTEN, COMPILED = "layers as written", "compiled layers"


def cpu_seconds() -> float:
    """Of this process and of the compilers that it started."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def gradient(score: Scorer, ids: torch.Tensor) -> torch.Tensor:
    score.zero_grad()
    score(ids).logprobs.mean().backward()
    return torch.cat([p.grad.flatten() for p in score.parameters() if p.grad is not None])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=32_000, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=4, head_dim=32, max_position_embeddings=512, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config).eval()
    batches = [torch.randint(0, 32_000, shape) for shape in SHAPES]
    has_plain_head(model, batches[0][:1, :4])
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        start = cpu_seconds()
        require_compiler(torch.device("cpu"))
        trial = cpu_seconds() - start
        ways = {WRITTEN: Scorer(model), COMPILED: Scorer(model, around=[CompiledLayers(model)])}
        start = cpu_seconds()
        gradients = {way: gradient(score, batches[0]) for way, score in ways.items()}
        first = cpu_seconds() - start
        table = Table("Passes", "CPU-seconds of forward and backward, all shapes once", COMPILED)
        far = 0.0
        for round_ in range(arguments.rounds + 1):
            for way, score in ways.items():
                start = time.process_time()
                for ids in batches:
                    gradients[way] = gradient(score, ids)
                if round_:  # the first meets shapes that are new
                    table.add(way, time.process_time() - start)
            difference = (gradients[COMPILED] - gradients[WRITTEN]).abs().max() / gradients[WRITTEN].abs().max()
            far = max(far, float(difference))
    facts = {
        "CPU-seconds of the trial at the start of a run, with loading the compiler": round(trial, 1),
        "CPU-seconds of the first pass of each way, with compiling": round(first, 1),
        "largest difference of the gradients, of the largest entry": f"{far:.1e}",
        "micro-batches, sequences x tokens": ", ".join(f"{rows} x {tokens}" for rows, tokens in SHAPES),
        "torch": torch.__version__,
    }
    write_results("compiled", [table], facts, arguments.out)


if __name__ == "__main__":
    main()
