"""Whole steps of GRPO, sampling and training, beside TRL's GRPOTrainer on the same work.

    python -m venv trl && trl/bin/pip install "trl==1.16.*"     # an environment of its own, with the torch of this one
    python benchmarks/trl_step.py --trl trl/bin/python          # about half an hour on one core
    python benchmarks/trl_step.py --trl trl/bin/python --model models/smollm2 --sides ours TRL  # with real weights

Both sides load one model of random weights, or the one that is named, draw 8 replies to each of 8 prompts of 64 tokens,
128 tokens each (no token ends a reply, so that both make 8,192), earn a reward that is a function of the tokens, and
take a step of AdamW. A side is a process of its own with one thread; it takes a step when it is asked to, in turns with
the others, after one step that does not count (`--warm-up`). Time is CPU time of the process, memory its peak above
what it held once the model was loaded.

TRL runs as it is configured by default (layers recomputed in the backward pass), and without that; with all
sequences at once, and 16 at a time. Ours takes micro-batches of 1,536 tokens, the 8 replies to a prompt, which is
computed once for them (`learner.share_prompts`). The loss is DAPO's without a KL term, and GRPO's with one.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")


sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, peak_memory, write_results

RESULTS = Path(__file__).parent / "results"
PROMPTS, GROUP, PROMPT_TOKENS, NEW_TOKENS = 8, 8, 64, 128
TOKENS = PROMPTS * GROUP * NEW_TOKENS
MICRO_BATCH, LR = GROUP * (PROMPT_TOKENS + NEW_TOKENS), 1e-4
MARK = "step: "
SIDES: dict[str, dict[str, Any]] = {
    "ours": {"beta": 0.0},
    "ours, prompts not shared": {"beta": 0.0, "share": False},
    "TRL": {"beta": 0.0, "checkpointing": True, "micro_batch": 64},
    "TRL, layers kept": {"beta": 0.0, "checkpointing": False, "micro_batch": 64},
    "TRL, layers kept, 16 at a time": {"beta": 0.0, "checkpointing": False, "micro_batch": 16},
    "ours, KL": {"beta": 0.04},
    "TRL, KL": {"beta": 0.04, "checkpointing": True, "micro_batch": 64},
    "TRL, KL, layers kept, 16 at a time": {"beta": 0.04, "checkpointing": False, "micro_batch": 16},
}


def reward(ids: list[int]) -> float:
    """Differs within a group, and is the same for both sides."""
    return sum(ids) % 7 / 7


def prompt_ids(step: int, vocabulary: int) -> list[list[int]]:
    """The prompts of a step, the same for both sides."""
    return [
        [(step * 131 + prompt * 977 + place * 7919) % (vocabulary - 2) + 2 for place in range(PROMPT_TOKENS)]
        for prompt in range(PROMPTS)
    ]


def make_model(folder: Path, vocabulary: int) -> None:
    """A Qwen3 of 6M parameters and its embeddings, in a folder."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=4, head_dim=32, max_position_embeddings=1024, tie_word_embeddings=True, pad_token_id=0,
        eos_token_id=None, bos_token_id=None,
    )  # fmt: skip
    save(Qwen3ForCausalLM(config), folder)


def copy_model(source: Path, folder: Path) -> None:
    """A model of another folder, whose replies no token ends."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(source, dtype="float32")
    for config in (model.config, model.generation_config):
        config.bos_token_id = config.eos_token_id = None
        config.pad_token_id = 0
    save(model, folder)


def save(model: Any, folder: Path) -> None:
    """With a tokenizer whose token number i is the word wi."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = model.config.vocab_size
    words = Tokenizer(models.WordLevel({f"w{token}": token for token in range(vocabulary)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0")
    tokenizer.add_special_tokens({"eos_token": "</s>"})  # number V, which the model cannot draw
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Turns:
    """A side's place among the others: waits until it is told to take a step, and says what that took."""

    def __init__(self) -> None:
        ctypes.CDLL(None).malloc_trim(0)
        self.before = peak_memory(reset=True)
        self.sampling = 0.0

    def begin(self) -> None:
        """Wait for the word."""
        if not sys.stdin.readline():
            sys.exit("nobody asks for a step any more")
        self.sampling, self.start = 0.0, time.process_time()

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, counted as sampling."""

        def run(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return work(*arguments, **options)
            finally:
                self.sampling += time.process_time() - start

        return run

    def end(self, tokens: int) -> None:
        """Say what the step took."""
        spent = time.process_time() - self.start
        peak = (peak_memory() - self.before) / 1e6
        print(MARK + json.dumps({"step": spent, "sampling": self.sampling, "peak": peak, "tokens": tokens}), flush=True)


def run_ours(folder: Path, steps: int, beta: float, share: bool = True) -> None:
    """Our sampler and learner."""
    import torch
    import transformers

    from rlvr.agents.conversation import TokenSequence
    from rlvr.agents.models.sampling import Sampling, uniforms
    from rlvr.agents.models.transformers import sample
    from rlvr.algorithms.advantages import compute_advantages
    from rlvr.algorithms.learner.batch import TrainingBatch
    from rlvr.algorithms.learner.learner import Learner
    from rlvr.algorithms.recipe.presets import PRESETS

    torch.set_num_threads(1)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    preset = (PRESETS["grpo"] if beta else PRESETS["dapo"]).replace(kl_coef=beta)
    learner = Learner(
        model,
        preset,
        pad_id=0,
        max_length=NEW_TOKENS,
        micro_batch_tokens=MICRO_BATCH,
        share_prompts=share,
    )
    turns = Turns()
    learner.freeze_reference()
    optimiser = learner.new_optimiser(lambda _: LR, betas=(0.9, 0.999))
    draw = turns.timed(sample)
    for step in range(steps):
        turns.begin()
        prompts = [ids for ids in prompt_ids(step, model.config.vocab_size) for _ in range(GROUP)]
        noise = [uniforms(step, str(row), PROMPT_TOKENS, NEW_TOKENS) for row in range(len(prompts))]
        drawn = draw(model, prompts, [NEW_TOKENS] * len(prompts), noise, [], Sampling())
        sequences = []
        for prompt, (ids, logprobs) in zip(prompts, drawn, strict=True):
            sequences.append(TokenSequence())
            sequences[-1].append_context(prompt)
            sequences[-1].append_sampled(ids, logprobs)
        groups = [row // GROUP for row in range(len(prompts))]
        batch = TrainingBatch.of(sequences, groups, NEW_TOKENS)
        rewards = torch.tensor([reward(ids) for ids, _ in drawn])
        advantages = compute_advantages(rewards, batch.inputs.group, preset, {"mask": batch.inputs.mask})
        learner.update(batch.replace(advantages=advantages), optimiser)
        turns.end(sum(len(ids) for ids, _ in drawn))


def run_trl(folder: Path, steps: int, beta: float, checkpointing: bool, micro_batch: int) -> None:
    """TRL's trainer with transformers' generation."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [
        " ".join(f"w{token}" for token in ids)
        for step in range(steps)
        for ids in prompt_ids(step, model.config.vocab_size)
    ]
    with tempfile.TemporaryDirectory() as out:
        settings = GRPOConfig(
            output_dir=out,
            max_steps=steps,
            per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=PROMPTS * GROUP // micro_batch,
            num_generations=GROUP,
            max_completion_length=NEW_TOKENS,
            shuffle_dataset=False,
            learning_rate=LR,
            loss_type="grpo" if beta else "dapo",
            beta=beta,
            temperature=1.0,
            top_k=0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=checkpointing,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        counts: list[int] = []

        def score(completion_ids: list[list[int]], **_: Any) -> list[float]:
            counts.extend(map(len, completion_ids))
            return [reward(ids) for ids in completion_ids]

        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": texts}),
            reward_funcs=score,
        )
        turns = Turns()
        trainer._generate = turns.timed(trainer._generate)

        class Told(TrainerCallback):  # type: ignore[misc]
            def on_step_begin(self, *_: Any, **__: Any) -> None:
                turns.begin()

            def on_step_end(self, *_: Any, **__: Any) -> None:
                turns.end(sum(counts))
                counts.clear()

        trainer.add_callback(Told())
        trainer.train()


class Side:
    """A child process that takes steps when it is told to."""

    def __init__(self, python: str, arguments: list[str]) -> None:
        self.child = subprocess.Popen(
            [python, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def step(self) -> dict[str, float]:
        """What one step took."""
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith(MARK):
                record: dict[str, float] = json.loads(line.removeprefix(MARK))
                if record["tokens"] != TOKENS:
                    raise RuntimeError(f"both sides must make {TOKENS} tokens a step, not {record['tokens']}")
                return record
        raise RuntimeError(f"{self.child.args} ended before its step did")

    def close(self) -> None:
        """End it."""
        self.child.kill()
        self.child.wait()


def race(model: int | Path, rounds: int, warm_up: int, trl: str, names: list[str]) -> list[Table]:
    """Every side's steps, in turns, with random weights of so many tokens or with a model."""
    size = model.name if isinstance(model, Path) else f"vocabulary {model:,}"
    tables = {
        kl: make_tables(f"{size}{', with a KL term' if kl else ''}", first)
        for kl in (False, True)
        for first in [name for name in names if bool(SIDES[name]["beta"]) == kl][:1]
    }
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(model, Path):
            copy_model(model, Path(folder))
        else:
            make_model(Path(folder), model)
        sides = {
            name: Side(
                trl if name.startswith("TRL") else sys.executable,
                ["--side", name, "--folder", folder, "--rounds", str(warm_up + rounds)],
            )
            for name in names
        }
        try:
            for number in range(warm_up + rounds):
                for name, side in sides.items():
                    record = side.step()
                    print(f"{size}, {name}: {record}", file=sys.stderr, flush=True)
                    if number < warm_up:  # modules are loaded, memory is taken for the first time
                        continue
                    side_tables = tables[bool(SIDES[name]["beta"])]
                    side_tables["step"].add(name, TOKENS / record["step"])
                    side_tables["training"].add(name, TOKENS / (record["step"] - record["sampling"]))
                    side_tables["sampling"].add(name, TOKENS / record["sampling"])
                    side_tables["peak"].add(name, record["peak"])
        finally:
            for side in sides.values():
                side.close()
    return [table for side_tables in tables.values() for table in side_tables.values()]


def make_tables(size: str, base: str) -> dict[str, Table]:
    """The figures of one model and loss, compared with the side ``base``."""
    unit = "completion tokens per CPU-second"
    return {
        "step": Table(f"A step, {size}", unit, base),
        "training": Table(f"The training part of a step, {size}", unit, base),
        "sampling": Table(f"The sampling part of a step, {size}", unit, base),
        "peak": Table(f"Memory, {size}", "MB at the peak, above the loaded model", base),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl", default="", help="the interpreter of an environment with TRL")
    parser.add_argument("--rounds", type=int, default=3, help="steps of each side that count")
    parser.add_argument("--warm-up", type=int, default=1, help="steps of each side before those")
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[32_000, 100])
    parser.add_argument("--model", type=Path, help="folder of a model, in place of the random weights")
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=list(SIDES), metavar="SIDE")
    parser.add_argument("--note", default="", help="what else was so when this was measured; stands on the page")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    arguments = parser.parse_args()
    if arguments.side:
        run = run_trl if arguments.side.startswith("TRL") else run_ours
        run(arguments.folder, arguments.rounds, **SIDES[arguments.side])
        return
    if not arguments.trl:
        parser.error("--trl: give the interpreter of an environment with TRL")
    facts = {
        **{f"TRL's {name}": version for name, version in versions(arguments.trl).items()},
        **{f"our {name}": version for name, version in versions(sys.executable).items() if name != "trl"},
        "threads": 1,
        "rounds": f"{arguments.rounds}, after {arguments.warm_up} that do not count",
        **({"note": arguments.note} if arguments.note else {}),
    }
    tables: list[Table] = []
    for model in [arguments.model] if arguments.model else arguments.vocabularies:
        tables += race(model, arguments.rounds, arguments.warm_up, arguments.trl, arguments.sides)
        name = f"trl_step_{arguments.model.name}" if arguments.model else "trl_step"
        write_results(name, tables, facts, arguments.out)  # what there is, should the next be stopped


def versions(python: str) -> dict[str, str]:
    """Of what an interpreter has installed."""
    code = (
        "import json; from importlib.metadata import distributions as d;"
        "print(json.dumps({x.name: x.version for x in d() if x.name in ('trl', 'transformers', 'torch')}))"
    )
    installed: dict[str, str] = json.loads(
        subprocess.run([python, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    )
    return dict(sorted(installed.items()))


if __name__ == "__main__":
    main()
