"""Log-probabilities over a large vocabulary, forward and backward: time and memory beside plain autograd.

    python benchmarks/head.py               # about twenty CPU-minutes on one core
    python benchmarks/head.py --only long   # measures one sequence of 16,384 tokens again, keeps the other figures
    python benchmarks/head.py --tokens 1024 --long 2048

One thread, each way in a process of its own; time is CPU time of the process, memory the peak above what was held
before, so that it includes the gradients of the weight and of the hidden states. Plain autograd is `F.linear`,
`log_softmax` and `gather`, 1,024 tokens at a time: all at once 8,192 tokens would take 15 GB. It runs in float32 alone:
a CPU without instructions for bfloat16 multiplies that at a tenth of the speed, so the bfloat16 row is compared with
the faster of the two.

The long sequence goes through a model of 14M parameters, with and without `learner.recompute_layers`.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import transformers
from torch.nn import functional as F

from rlvr.algorithms.learner.head import score_hidden
from rlvr.algorithms.learner.scoring import score_sequences

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results
from sampler import peak_memory

WIDTH, VOCABULARY = 896, 151_936
RESULTS = Path(__file__).parent / "results"
NAIVE, BLOCKS, CHUNKS = "plain autograd, float32", "ours, float32", "ours, float32, gradient in the forward pass"
HALF = "ours, bfloat16"  # the same with a known gradient: the weight's would be rounded at each chunk
AGAIN, KEPT = "layers computed again", "layers kept"
BFLOAT16 = "instructions for bfloat16"
GRADIENT = "gradient of the long sequence, kept or computed again"


def give_back_freed_memory() -> None:
    """What the allocator kept of the work before would be used again unseen (glibc)."""
    ctypes.CDLL(None).malloc_trim(0)


class Work:
    """Hidden states, a weight and targets, and the ways to score them."""

    def __init__(self, tokens: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.randn(VOCABULARY, WIDTH, generator=generator).mul_(0.02).to(dtype).requires_grad_()
        self.hidden = torch.randn(tokens, WIDTH, generator=generator).to(dtype).requires_grad_()
        self.targets = torch.randint(0, VOCABULARY, (tokens,), generator=generator)
        self.logprob_grads = torch.randn(tokens, generator=generator) / tokens

    def naive(self) -> None:
        for start in range(0, len(self.hidden), 1024):
            part = slice(start, start + 1024)
            logprobs = F.linear(self.hidden[part], self.weight).float().log_softmax(-1)
            chosen = logprobs.gather(1, self.targets[part, None])[:, 0]
            (chosen * self.logprob_grads[part]).sum().backward()

    def ours(self, logprob_grads: torch.Tensor | None = None) -> None:
        scores = score_hidden(self.hidden, self.weight, None, self.targets, 1.0, logprob_grads=logprob_grads)
        (scores.logprobs * self.logprob_grads).sum().backward()

    def measure(self, work: Callable[[], None]) -> tuple[float, float]:
        """CPU-seconds, and MB at the peak above what was there before."""
        give_back_freed_memory()
        before, start = peak_memory(reset=True), time.process_time()
        work()
        return time.process_time() - start, (peak_memory() - before) / 1e6


def score(way: str, tokens: int) -> tuple[float, float]:
    """CPU-seconds and MB of one way."""
    work = Work(tokens, torch.bfloat16 if "bfloat16" in way else torch.float32)
    if way == NAIVE:
        return work.measure(work.naive)
    return work.measure(lambda: work.ours(work.logprob_grads if "forward" in way else None))


def race(tokens: int, rounds: int) -> tuple[Table, Table]:
    size = f"{tokens:,} tokens of {VOCABULARY:,}, hidden {WIDTH}"
    seconds = Table(f"Time, {size}", "CPU-seconds, forward and backward", NAIVE)
    memory = Table(f"Memory, {size}", "MB at the peak above what was held before", NAIVE)
    for _ in range(rounds):
        for way in (NAIVE, BLOCKS, CHUNKS, HALF):
            spent, peak = in_a_child("--way", way, "--tokens", str(tokens))
            seconds.add(way, spent)
            memory.add(way, peak)
    return seconds, memory


def in_a_child(*arguments: str) -> Any:
    """What this script prints with these arguments, in a process whose memory nobody used before."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def score_long(way: str, tokens: int) -> tuple[float, float, str]:
    """CPU-seconds, MB and a digest of the gradient of one sequence through a model of 14M parameters."""
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=32_000, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=4, head_dim=32, max_position_embeddings=tokens, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.Qwen3ForCausalLM(config).eval()
    ids = torch.randint(0, 32_000, (1, tokens), generator=torch.Generator().manual_seed(0))
    give_back_freed_memory()
    before, start = peak_memory(reset=True), time.process_time()
    score_sequences(model, ids, recompute=way == AGAIN).logprobs.mean().backward()
    spent, peak = time.process_time() - start, (peak_memory() - before) / 1e6
    digest = hashlib.sha256()
    for parameter in model.parameters():
        if parameter.grad is not None:
            digest.update(parameter.grad.numpy().tobytes())
    return spent, peak, digest.hexdigest()


def long_sequence(tokens: int) -> tuple[list[Table], dict[str, Any]]:
    """Log-probabilities with gradient of one sequence, the layers kept or computed again."""
    size = f"one sequence of {tokens:,} tokens, 14M parameters"
    seconds = Table(f"Time, {size}", "CPU-seconds, forward and backward", AGAIN)
    memory = Table(f"Memory, {size}", "MB at the peak, above the model", AGAIN)
    digests = set()
    for way in (AGAIN, KEPT):
        spent, peak, digest = in_a_child("--way", way, "--long", str(tokens))
        seconds.add(way, spent)
        memory.add(way, peak)
        digests.add(digest)
    same = "equal bit for bit" if len(digests) == 1 else "differs"
    return [seconds, memory], {GRADIENT: same}


def kept(folder: Path, remeasured: list[Table]) -> tuple[list[Table], dict[str, Any]]:
    """The tables of the file that is there, without those that were measured again, and what it says of gradients."""
    path = folder / "head.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"tables": {}, "facts": {}}
    tables = [
        Table(
            title,
            table["unit"],
            next(iter(table["rounds"])),
            table["rounds"],
            command=table.get("command", record.get("command", "")),
        )
        for title, table in record["tables"].items()
        if title not in {table.title for table in remeasured}
    ]
    return tables, {name: fact for name, fact in record["facts"].items() if name == GRADIENT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192, help="tokens to score")
    parser.add_argument("--long", type=int, default=16_384, help="tokens of the long sequence")
    parser.add_argument("--rounds", type=int, default=1, help="how often each way runs")
    parser.add_argument("--only", choices=["head", "long"], help="measure this part; the other keeps its figures")
    parser.add_argument("--way", help="measure this one alone, and print its figures")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.way:
        scorer = score_long if arguments.way in (AGAIN, KEPT) else score
        print(json.dumps(scorer(arguments.way, arguments.long if scorer is score_long else arguments.tokens)))
        return
    measured: list[Table] = []
    facts: dict[str, Any] = {}
    if arguments.only != "long":
        measured += race(arguments.tokens, arguments.rounds)
    if arguments.only != "head":
        tables, facts = long_sequence(arguments.long)
        measured += tables
    before, earlier_facts = kept(arguments.out, measured) if arguments.only else ([], {})
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    facts = earlier_facts | facts | {"torch": torch.__version__, "threads": 1, BFLOAT16: "yes" if native else "no"}
    write_results("head", [*before, *measured], facts, arguments.out)


if __name__ == "__main__":
    main()
