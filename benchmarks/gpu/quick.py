"""One GPU: are the numbers right, how fast is it, and does it learn? At most nine minutes, without a network.

    python benchmarks/gpu/quick.py                               # checks, times, learns
    python benchmarks/gpu/quick.py checks times --sizes 0.6b     # some parts alone, some sizes
    python benchmarks/gpu/quick.py learns --model FOLDER         # of SmolLM2-135M-Instruct: two curves to their end
    python benchmarks/gpu/quick.py --small --device cpu          # the miniature: each line of it, on a CPU, in a minute

*checks* compares the device with the CPU, packed sequences with each alone, every attention kernel that is installed
with sdpa, the sampler with the learner, continuous batching with one batch, steps from a CUDA graph with steps without,
and a run that was stopped with one that was not. *times* takes random weights of the shape of Qwen3: tokens a second
and share of the peak of an update, its memory, sampled tokens a second with graphs and without, transformers'
`generate` beside them, and the copy of weights to a second model.
*learns* trains the model in a folder by configs, to their end.

``quick.json`` and ``quick.md`` are written anew after each figure, so a run that is cut short leaves what it measured.
A figure that fails says why, and the next is taken. The status is 1 where a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models import sampling as steps
from rlvr.agents.models.attention import kernel_of
from rlvr.agents.models.sampling import Sampling
from rlvr.agents.models.tiny import tiny_tokenizer
from rlvr.agents.models.transformers import sample_each
from rlvr.algorithms.config import load_config
from rlvr.algorithms.config.train_config import read_yaml
from rlvr.algorithms.learner.batch import TrainingBatch
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.scoring import Scorer
from rlvr.algorithms.planning.shapes import DEVICES, ModelShape
from rlvr.algorithms.planning.speed import training_flops
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.sampling.embedded import CopiedSampler
from rlvr.algorithms.train.run import Trainer

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("checks", "times", "learns")
SHAPES = {
    "tiny": ModelShape(512, 64, 2, 4, 2, 16, 128),
    "0.6b": ModelShape(151_936, 1024, 28, 16, 8, 128, 3072),
    "1.7b": ModelShape(151_936, 2048, 28, 16, 8, 128, 6144),
}
CURVES = ("sums", "reverse")
KERNELS = ("sdpa", "eager", "flex", "flash_attention_2", "flash_attention_3")


class Figure(NamedTuple):
    """One line of the report; ``bound`` is empty where nothing is required, ``right`` says whether it is met."""

    part: str
    name: str
    value: float | str
    unit: str
    bound: str = ""
    right: bool = True


class Report:
    """The figures so far, in a folder: ``quick.json`` and ``quick.md``."""

    def __init__(self, folder: Path, facts: dict[str, str], seconds: float) -> None:
        self.folder, self.facts = folder, facts
        self.figures: list[Figure] = []
        self.end = time.monotonic() + seconds
        self.part = ""
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, value: float | str, unit: str, at_most: float | None = None, failed: bool = False) -> None:
        """Note a figure, and write the files."""
        bound = "" if at_most is None else f"at most {at_most:g}"
        right = not failed and (at_most is None or (isinstance(value, float) and value <= at_most))
        self.figures.append(Figure(self.part, name, value, unit, bound, right))
        print(self._row(self.figures[-1]), end="", flush=True)
        record = {"facts": self.facts, "figures": [figure._asdict() for figure in self.figures]}
        (self.folder / "quick.json").write_text(json.dumps(record, indent=1) + "\n")
        (self.folder / "quick.md").write_text(self._page())

    @contextmanager
    def figure(self, name: str, at_least: float = 5.0) -> Iterator[bool]:
        """A block that measures; whether there is time for it. What it raises is noted, and goes no further."""
        if time.monotonic() + at_least > self.end:
            self.add(name, "no time left", "")
            yield False
            return
        try:
            yield True
        except Exception as error:  # the next figure may be taken all the same
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            self.add(name, reason, "", failed=self.part == "checks")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @property
    def right(self) -> bool:
        """Whether every bound is met."""
        return all(figure.right for figure in self.figures)

    def _page(self) -> str:
        facts = "".join(f"- {name}: {value}\n" for name, value in self.facts.items())
        head = "| part | figure | value | unit | bound | |\n|---|---|---|---|---|---|\n"
        return f"# One GPU\n\n{facts}\n{head}" + "".join(self._row(figure) for figure in self.figures)

    @staticmethod
    def _row(figure: Figure) -> str:
        value = figure.value if isinstance(figure.value, str) else f"{figure.value:,.4g}"
        verdict = "WRONG" if not figure.right else "right" if figure.bound else ""
        return f"| {figure.part} | {figure.name} | {value} | {figure.unit} | {figure.bound} | {verdict} |\n"


def build(shape: ModelShape, dtype: torch.dtype, device: torch.device, kernel: str = "sdpa") -> Any:
    """A Qwen3 of random weights, the same for each device."""
    config = Qwen3Config(
        vocab_size=shape.vocab, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim, max_position_embeddings=40_960, tie_word_embeddings=True, eos_token_id=1,
        pad_token_id=0, bos_token_id=None, attn_implementation=kernel,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device("cpu" if shape.hidden < 1024 else device):
        return Qwen3ForCausalLM(config).to(device=device, dtype=dtype).eval()


def sequences_of(shape: ModelShape, lengths: list[tuple[int, int]], members: int) -> list[TokenSequence]:
    """Groups of ``members`` sequences, by the tokens of prompt and reply."""
    draw = torch.Generator().manual_seed(0)
    sequences = []
    for prompt, reply in lengths:
        start = torch.randint(2, shape.vocab, (prompt,), generator=draw).tolist()
        for member in range(members):
            count = max(1, reply - member * reply // (2 * members))
            sequences.append(TokenSequence())
            sequences[-1].append_context(start)
            sequences[-1].append_sampled(
                torch.randint(2, shape.vocab, (count,), generator=draw).tolist(), [0.0] * count
            )
    return sequences


def learner_of(model: Any, tokens: int, **options: Any) -> Learner:
    preset = PRESETS["dr_grpo"]
    return Learner(model, preset, pad_id=0, max_length=1024, micro_batch_tokens=tokens, **options)


def gradient_and_logprobs(model: Any, sequences: list[TokenSequence]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a pass over packed sequences: the gradient of the summed log-probabilities, and these, on the CPU."""
    learner = learner_of(model, 1 << 20)
    padded = learner.pad(sequences).to(learner.device)
    model.zero_grad()
    logprobs = Scorer(model)(padded.ids, padded.mask).logprobs
    logprobs.sum().backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return gradient.float().cpu(), logprobs.detach().float().cpu()


def one_by_one(model: Any, sequences: list[TokenSequence]) -> torch.Tensor:
    """Log-probabilities of sampled tokens, by a pass of transformers for each sequence."""
    learner = learner_of(model, 1 << 20)
    padded = learner.pad(sequences)
    logprobs = torch.zeros(padded.ids.shape)
    for row, length in enumerate(padded.lengths):
        ids = padded.ids[row, :length].to(learner.device)
        with torch.no_grad():
            chances = model(input_ids=ids[None], use_cache=False).logits[0, :-1].float().log_softmax(-1)
        logprobs[row, 1:length] = chances.gather(1, ids[1:, None])[:, 0].cpu()
    return torch.where(padded.mask, logprobs, 0.0)


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Of two gradients, as a share of the second's norm."""
    return float((one - other).norm() / other.norm())


def worst(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def checks(report: Report, options: argparse.Namespace) -> None:
    """Is what the device computes right?"""
    device, shape = options.device, SHAPES["tiny"] if options.small else ModelShape(4096, 256, 4, 8, 4, 32, 768)
    sequences = sequences_of(shape, [(40, 60), (9, 30), (80, 12)], 4)
    exact, (gradient, logprobs) = torch.float32, (torch.empty(0), torch.empty(0))
    with report.figure("float32 on the CPU") as go:
        if go:
            gradient, logprobs = gradient_and_logprobs(build(shape, exact, torch.device("cpu")), sequences)
    with report.figure("float32 beside the CPU") as go:
        if go:
            found = gradient_and_logprobs(build(shape, exact, device), sequences)
            report.add("float32 beside the CPU, log-probabilities", worst(found[1], logprobs), "nats", 1e-4)
            report.add("float32 beside the CPU, gradient", distance(found[0], gradient), "of its norm", 1e-4)
    with report.figure("bfloat16 beside float32") as go:
        if go:
            found = gradient_and_logprobs(build(shape, torch.bfloat16, device), sequences)
            report.add("bfloat16 beside float32, log-probabilities", worst(found[1], logprobs), "nats", 0.2)
            report.add("bfloat16 beside float32, gradient", distance(found[0], gradient), "of its norm", 0.1)
    for name in KERNELS:
        _check_kernel(report, name, shape, sequences, device)
    for dtype, bound in ((torch.float32, 1e-4), (torch.bfloat16, 0.2)):
        with report.figure(f"sampler beside learner, {dtype}") as go:
            if go:
                _check_sampler(report, build(shape, dtype, device), dtype, bound)
    with report.figure("a run that was stopped", 30.0) as go:
        if go:
            report.add("a run that was stopped beside one that was not", stopped_run(device), "of a weight", 1e-6)


def _check_kernel(
    report: Report, name: str, shape: ModelShape, sequences: list[TokenSequence], device: torch.device
) -> None:
    for dtype, bound in ((torch.float32, 1e-4), (torch.bfloat16, 0.2)):
        try:
            kernel = kernel_of(name, dtype, device)
        except ValueError as error:  # not installed, or not for this device or type
            report.add(f"packed beside each alone, {name}, {dtype}", str(error), "")
            continue
        with report.figure(f"packed beside each alone, {name}, {dtype}") as go:
            if go:
                model = build(shape, dtype, device, kernel or "sdpa")
                expected = one_by_one(build(shape, dtype, device), sequences)
                found = gradient_and_logprobs(model, sequences)[1]
                report.add(f"packed beside each alone, {name}, {dtype}", worst(found, expected), "nats", bound)


def _prompts(shape: ModelShape, count: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(2, shape.vocab, (8 + 5 * (n % 7),), generator=draw).tolist() for n in range(count)]


def drawn(
    model: Any,
    prompts: list[list[int]],
    new: int,
    ends: list[int],
    slots: int | None = None,
    prefixes: list[Any] | None = None,
) -> Any:
    noise = [steps.uniforms(0, str(index), len(prompt), new) for index, prompt in enumerate(prompts)]
    done = dict(sample_each(model, prompts, [new] * len(prompts), noise, ends, Sampling(), slots, prefixes))
    return [done[index] for index in range(len(prompts))]


def next_turn(prompts: list[list[int]], replies: Any, message: list[int]) -> list[list[int]]:
    return [[*prompt, *ids, *message] for prompt, (ids, _) in zip(prompts, replies, strict=True)]


@contextmanager
def without_graphs() -> Iterator[None]:
    """Launch the kernels of each step one by one."""
    steps.GRAPHS = False
    try:
        yield
    finally:
        steps.GRAPHS = True


def differing(replies: Any, others: Any) -> float:
    """The share of replies whose tokens are not the same."""
    return sum(one[0] != other[0] for one, other in zip(replies, others, strict=True)) / len(others)


def _check_sampler(report: Report, model: Any, dtype: torch.dtype, bound: float) -> None:
    vocabulary = model.config.vocab_size
    prompts, ends = _prompts(SHAPES["tiny"], 24), list(range(2, vocabulary, 16))  # one token in sixteen ends a reply
    whole = drawn(model, prompts, 32, ends)
    sequences = []
    for prompt, (ids, logprobs) in zip(prompts, whole, strict=True):
        sequences.append(TokenSequence())
        sequences[-1].append_context(prompt)
        sequences[-1].append_sampled(ids, logprobs)
    expected = learner_of(model, 4096).logprobs(sequences)
    recorded = torch.zeros(expected.shape)
    for row, sequence in enumerate(sequences):
        recorded[row, : len(sequence)] = torch.tensor(sequence.logprobs)
    report.add(f"sampler beside learner, {dtype}", worst(recorded, expected), "nats", bound)
    allowed = 0.0 if dtype == torch.float32 else 0.5  # rounding may move a draw across the edge of a token
    refilled = differing(drawn(model, prompts, 32, ends, 4), whole)
    report.add(f"replies of 4 slots beside one batch, {dtype}", refilled, "of replies differ", allowed)
    with without_graphs():
        launched = differing(drawn(model, prompts, 32, ends), whole)
    report.add(f"replies without graphs beside those with, {dtype}", launched, "of replies differ", allowed)
    prefixes: list[Any] = [None] * len(prompts)
    longer = next_turn(prompts, drawn(model, prompts, 32, ends, prefixes=prefixes), prompts[0][:6])
    kept = differing(drawn(model, longer, 32, ends, prefixes=prefixes), drawn(model, longer, 32, ends))
    report.add(f"turns behind kept keys beside those read whole, {dtype}", kept, "of replies differ", allowed)
    if model.device.type == "cuda":
        graphs = model in steps.KEPT and model not in steps.GRAPHLESS
        report.add(f"steps are graphs, {dtype}", str(graphs), "", failed=not graphs)


def stopped_run(device: torch.device) -> float:
    """The largest difference of a weight between a run of four steps and one that stopped after two and went on."""
    base: dict[str, Any] = {
        "env": {"id": "rlvr/GuessNumber-v0", "system": False},
        "model": {"hidden": 32, "layers": 1, "device": str(device)},
        "sampling": {"max_new_tokens": 16, "max_length": 128},
        "learner": {"lr": 3e-3, "warmup_steps": 2},
        "evaluation": {"episodes": 2}, "overrides": {"entropy_coef": 0.01},
        "steps": 4, "prompts": 4, "group_size": 4, "checkpoint_every": 2,
    }  # fmt: skip
    weights = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("whole", "stopped"):
            config = load_config(base | {"out": f"{folder}/{name}"})
            trainer = Trainer(config)
            if name == "stopped":
                trainer.prepare()
                trainer.begin()
                for _ in range(2):
                    trainer.learn(trainer.collect())
                    trainer.after_step()
                trainer.saver.wait()
                trainer.close()
                trainer = Trainer(config, resume=True)
            trainer.run()
            weights.append(
                torch.cat([weight.detach().float().flatten().cpu() for weight in trainer.model.parameters()])
            )
    return worst(*weights)


def seconds_of(work: Callable[[], Any]) -> float:
    """Of one call, after one that does not count."""
    seconds = 0.0
    for _ in range(2):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    return seconds


def times(report: Report, options: argparse.Namespace) -> None:
    """How fast is it, and what does it hold?"""
    for size in options.sizes:
        shape = SHAPES[size]
        with report.figure(f"{size}, update", 20.0 if not options.small else 1.0) as go:
            if go:
                _time_update(report, size, shape, options)
        with report.figure(f"{size}, sampling", 20.0 if not options.small else 1.0) as go:
            if go:
                model = build(shape, torch.bfloat16, options.device)
                for count in options.batches:
                    _time_sampling(report, f"{size}, {{}}, {count} at once", model, count, options.new_tokens)
                _time_turn(report, size, model, options.tokens // 16)
                model = None
        with report.figure(f"{size}, weights to a copy") as go:
            if go:
                model = build(shape, torch.bfloat16, options.device)
                sampler = CopiedSampler(model, tiny_tokenizer(()))
                copying = partial(sampler.sync, lambda: iter(()), 1)
                report.add(f"{size}, weights to a copy", seconds_of(copying), "s")


def _time_update(report: Report, size: str, shape: ModelShape, options: argparse.Namespace) -> None:
    model = build(shape, torch.bfloat16, options.device)
    length = min(1024, options.tokens // 4)
    groups, members = options.tokens // length // 4, 4
    sequences = sequences_of(shape, [(length // 4, length - length // 4)] * max(1, groups), members)
    for share in (False, True):
        learner = learner_of(model, options.tokens, recompute_layers=True, share_prompts=share)
        optimiser = learner.new_optimiser(lambda _: 1e-6, betas=(0.9, 0.95))
        groups_of = [index // members for index in range(len(sequences))]
        batch: TrainingBatch = TrainingBatch.of(sequences, groups_of, 1024)
        batch = batch.replace(advantages=torch.linspace(-1, 1, len(sequences)))
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        seconds = seconds_of(partial(learner.update, batch, optimiser))
        tokens, name = sum(map(len, sequences)), f"{size}, update{', shared prompts' if share else ''}"
        report.add(f"{name}, {tokens} tokens", tokens / seconds, "tokens/s")
        limits = next((d for d in DEVICES.values() if d.name in options.device_name.lower()), None)
        if limits is not None and not share:
            used = tokens / seconds * training_flops(shape, length) / (limits.tflops * 1e12)
            report.add(f"{name}, of the peak of {limits.name}", used, "MFU")
        if torch.cuda.is_available():
            report.add(f"{name}, peak memory", torch.cuda.max_memory_allocated() / 2**30, "GiB")


def _time_sampling(report: Report, name: str, model: Any, count: int, new: int) -> None:
    draw = torch.Generator().manual_seed(1)
    prompts = [torch.randint(2, model.config.vocab_size, (64,), generator=draw).tolist() for _ in range(count)]
    ids = torch.tensor(prompts, device=model.device)
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": new, "min_new_tokens": new, "pad_token_id": 0}
    speed: dict[str, float] = {}

    def generate() -> None:
        with torch.inference_mode():
            model.generate(ids, attention_mask=torch.ones_like(ids), **settings)

    def launched() -> None:
        with without_graphs():
            drawn(model, prompts, new, [])

    ways = {"sampling": partial(drawn, model, prompts, new, []), "generate()": generate, "without graphs": launched}
    for way, work in ways.items():
        with report.figure(name.format(way)) as go:
            if go:
                speed[way] = count * new / seconds_of(work)
                report.add(name.format(way), speed[way], "tokens/s")
    if speed.keys() >= {"sampling", "generate()"}:
        ratio = speed["sampling"] / speed["generate()"]
        report.add(name.format("sampling beside generate()"), ratio, "times as fast")


def _time_turn(report: Report, size: str, model: Any, length: int) -> None:
    """Eight tokens of 16 conversations behind so many, and 32 new ones: all read, and the new ones alone."""
    draw = torch.Generator().manual_seed(1)
    prompts = [torch.randint(2, model.config.vocab_size, (length,), generator=draw).tolist() for _ in range(16)]
    prefixes: list[Any] = [None] * len(prompts)
    longer = next_turn(prompts, drawn(model, prompts, 4, [], prefixes=prefixes), prompts[0][:32])
    whole = seconds_of(partial(drawn, model, longer, 8, []))
    new = seconds_of(lambda: drawn(model, longer, 8, [], prefixes=[*prefixes]))
    report.add(f"{size}, a turn behind {length} tokens", new, "s")
    report.add(f"{size}, a turn behind {length} tokens, beside all read", whole / new, "times as fast")


def learns(report: Report, options: argparse.Namespace) -> None:
    """Does a model learn, to the end of its configs?"""
    if not options.curves:
        report.add("curves", "no --model was given", "")
    for curve in options.curves:
        name = Path(curve).stem
        with report.figure(name, 30.0 if not options.small else 1.0) as go:
            if not go:
                continue
            with tempfile.TemporaryDirectory() as folder:
                config = read_yaml(Path(curve)) | {"out": f"{folder}/run"}
                config["model"] = config.get("model", {}) | {"device": str(options.device)}
                if options.model:
                    config["model"]["name"] = str(options.model)
                if options.small:
                    config |= {"steps": 2, "prompts": 2, "group_size": 2, "warm_start": {"steps": 2}}
                    config["evaluation"] = {"episodes": 4}
                start = time.monotonic()
                results = Trainer(load_config(config)).run()
                for when, evaluation in results.items():
                    report.add(f"{name}, success, {when}", float(evaluation.success), "of episodes")
                report.add(f"{name}, the whole run", time.monotonic() - start, "s")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if left out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", nargs="+", choices=sorted(SHAPES), help="default 0.6b 1.7b")
    parser.add_argument("--tokens", type=int, help="of an update; default 16384")
    parser.add_argument("--batches", type=int, nargs="+", help="replies sampled at once; default 1 64 512")
    parser.add_argument("--new-tokens", type=int, help="of a reply; default 128")
    parser.add_argument("--model", type=Path, help="folder of the model that learns; that of the config if left out")
    parser.add_argument("--curves", nargs="*", help="configs that it learns by; of --model two of examples/real")
    parser.add_argument("--seconds", type=float, default=520.0, help="after which nothing more begins; default 520")
    parser.add_argument("--small", action="store_true", help="the miniature: tiny sizes everywhere")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu")
    options = parser.parse_args(arguments)
    if strange := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {strange[0]}: there are {', '.join(PARTS)}")
    options.parts = options.parts or list(PARTS)
    options.sizes = options.sizes or (["tiny"] if options.small else ["0.6b", "1.7b"])
    options.tokens = options.tokens or (256 if options.small else 16_384)
    options.batches = options.batches or ([1, 4] if options.small else [1, 64, 512])
    options.new_tokens = options.new_tokens or (8 if options.small else 128)
    if options.curves is None:
        options.curves = [ROOT / "examples" / "real" / f"{name}.yaml" for name in CURVES] if options.model else []
    options.device = torch.device(options.device)
    options.device_name = torch.cuda.get_device_name() if options.device.type == "cuda" else platform.machine()
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    torch.set_float32_matmul_precision("highest")
    facts = {
        "command": " ".join(["python benchmarks/gpu/quick.py", *(sys.argv[1:] if arguments is None else arguments)]),
        "device": options.device_name,
        "versions": f"torch {torch.__version__}, transformers {transformers.__version__}",
    }
    report = Report(options.out, facts, options.seconds)
    for part in options.parts:
        report.part = part
        {"checks": checks, "times": times, "learns": learns}[part](report, options)
    return 0 if report.right else 1


if __name__ == "__main__":
    sys.exit(main())
