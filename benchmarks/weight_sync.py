"""New weights for a real vLLM on the CPU: how long an update takes, and whether every token says which weights made it.

    make test-adapters ADAPTERS=vllm                      # builds .venvs/vllm, and tests it
    .venvs/vllm/bin/python benchmarks/weight_sync.py      # two minutes on one core

Weights of a policy in float32 are scaled, so that each version is another policy. "In this process" hands over tensors
between two steps of the engine; "a server" reads a file of safetensors (`sampler: vllm` and `vllm-server`). An update
is timed by the clock, from the call to its end, without and with 64 requests of 400 tokens under way. Afterwards the
engine's log-probabilities of a text are compared with those of transformers, and each sampled token's recorded
log-probability with that of the weights whose version it carries, and with those of the other versions.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import torch
from safetensors.torch import save_file

from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.agents.models.vllm_live import LiveEngine
from rlvr.agents.models.vllm_process import ServerProcess
from rlvr.agents.models.vllm_training import TrainingServer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

RESULTS = Path(__file__).parent / "results"
REQUESTS, NEW_TOKENS, LENGTH = 64, 400, 1_024
TEXT = [1 + (7 * index) % 200 for index in range(64)]
OPTIONS = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "logprobs": 0, "detokenize": False, "ignore_eos": True,
    "max_tokens": NEW_TOKENS,
}  # fmt: skip
ENGINE = {"dtype": "float32", "enforce_eager": True, "max_model_len": LENGTH}
HERE, SERVER = "in this process", "a server"


def score(model: Any, ids: list[int]) -> torch.Tensor:
    """[T - 1] log-probabilities of the tokens after the first."""
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].log_softmax(-1)[range(len(ids) - 1), ids[1:]]


class Updates:
    """Versions of a policy's weights, and what sends them."""

    def __init__(self, folder: Path, engine: Any) -> None:
        self.folder, self.engine = folder, engine
        self.model: Any = load_policy(folder)[0]
        self.versions = [{name: p.detach().clone() for name, p in self.model.named_parameters()}]

    def next(self) -> float:
        """Send another version; seconds."""
        self.versions.append({name: tensor * 1.02 for name, tensor in self.versions[-1].items()})
        return self.send(len(self.versions) - 1)

    def send(self, version: int) -> float:
        """Send a version; seconds."""
        tensors = self.versions[version]
        start = time.perf_counter()
        if isinstance(self.engine, LiveEngine):
            self.engine.update_weights(tensors.items(), version)
        else:
            path = self.folder / "weights.safetensors"
            save_file(tensors, path)
            self.engine.update_weights(path, len(tensors), version)
        return time.perf_counter() - start

    def gap(self) -> float:
        """The largest difference of a log-probability between the engine and transformers, with the last version."""
        self.model.load_state_dict(self.versions[-1], strict=False)
        return float((torch.tensor(self.engine.prompt_logprobs(TEXT)) - score(self.model, TEXT)).abs().max())


def in_flight(updates: Updates, count: int) -> tuple[list[float], dict[str, Any]]:
    """Updates while 64 requests are under way: their seconds, and what was recorded of the tokens."""
    prompts = [[1, 2, 3 + index] for index in range(REQUESTS)]
    results: list[Any] = []
    options = [{**OPTIONS, "seed": seed} for seed in range(REQUESTS)]
    first = len(updates.versions) - 1
    thread = threading.Thread(target=lambda: results.extend(updates.engine.generate(prompts, options)))
    thread.start()
    seconds = []
    for _ in range(count):
        time.sleep(0.3)  # an update comes when it comes
        if not thread.is_alive():
            raise SystemExit("the requests ended before the updates came: raise NEW_TOKENS")
        seconds.append(updates.next())
    thread.join()
    right, others, tokens = 0.0, [], Counter[int]()
    for version in range(first, len(updates.versions)):
        updates.model.load_state_dict(updates.versions[version], strict=False)
        for prompt, (ids, logprobs, versions) in zip(prompts, results, strict=True):
            of_version = torch.tensor(versions) == version
            gaps = (torch.tensor(logprobs) - score(updates.model, prompt + ids)[len(prompt) - 1 :]).abs()
            tokens[version] += int(of_version.sum())
            right = max([right, *gaps[of_version].tolist()])
            others += gaps[~of_version].tolist()
    return seconds, {
        "tokens of each version": dict(sorted(tokens.items())),
        "largest difference from the weights of its version": f"{right:.1e}",
        "mean difference from other weights": f"{sum(others) / max(1, len(others)):.1e}",
    }


def measure(name: str, updates: Updates, rounds: int, tables: list[Table], facts: dict[str, Any], size: str) -> None:
    updates.send(0)
    idle, busy, gaps = tables
    for _ in range(rounds):
        idle.add(name, updates.next())
        gaps.add(name, updates.gap())
    seconds, record = in_flight(updates, rounds)
    for each in seconds:
        busy.add(name, each)
    gaps.add(name, updates.gap())
    facts |= {f"{size}, {name}, {what}": value for what, value in record.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="updates of each kind")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tables: list[Table] = []
    facts: dict[str, Any] = {"torch": torch.__version__, "requests under way": REQUESTS}
    with tempfile.TemporaryDirectory() as place:
        for hidden, layers in ((64, 2), (256, 4)):
            folder = build_tiny(Path(place) / f"policy-{hidden}", seed=1, hidden=hidden, layers=layers)
            size = f"{sum(p.numel() for p in load_policy(folder)[0].parameters()) / 1e6:.2f}M parameters"
            rows = [
                Table(f"An update, {size}", "seconds", HERE),
                Table(f"An update with {REQUESTS} requests under way, {size}", "seconds", HERE),
                Table(f"Log-probabilities after an update, {size}", "nats, largest of 63 tokens, float32", HERE),
            ]
            live = LiveEngine(str(folder), **ENGINE)
            measure(HERE, Updates(folder, live), arguments.rounds, rows, facts, size)
            live.close()
            process = ServerProcess(folder, Path(place) / "log", {**ENGINE, "max_num_seqs": REQUESTS}, deadline=120)
            try:
                measure(SERVER, Updates(folder, TrainingServer(process.endpoint)), arguments.rounds, rows, facts, size)
            finally:
                process.close()
            tables += rows
    write_results("weight_sync", tables, facts, arguments.out)


if __name__ == "__main__":
    main()
