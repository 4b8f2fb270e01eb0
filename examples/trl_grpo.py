"""TRL's GRPOTrainer learns an environment of two turns through our adapter, on the CPU.

    rlvr train --config examples/calculator.yaml --steps 0 --out runs/warm     # the tiny policy, warmed up by us
    python examples/trl_grpo.py --policy runs/warm/policy --out runs/trl       # in an environment with TRL 1.16
    python examples/trl_grpo.py --draw runs/trl/curve.json picture.png

The policy may call a calculator in its first turn, hears the result, and answers in its second. The warm start leaves
it guessing more often than calling; TRL's own trainer, loss and generation do the rest. Nothing of TRL is patched.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Any

ENV = "rlvr/Calculator-v0"


def train(policy: Path, out: Path, steps: int, prompts: int, group_size: int, seed: int) -> dict[str, Any]:
    """Train, and return what each step earned."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    from rlvr.adapters.trainers.trl import dataset, rollout_function, verified_reward

    settings = GRPOConfig(
        output_dir=str(out),
        max_steps=steps,
        per_device_train_batch_size=prompts * group_size,
        num_generations=group_size,
        max_completion_length=96,  # of the whole conversation after the first prompt
        learning_rate=5e-4,
        lr_scheduler_type="linear",
        beta=0.0,
        temperature=1.0,
        seed=seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(policy, dtype="float32"),
        processing_class=AutoTokenizer.from_pretrained(policy),
        args=settings,
        train_dataset=dataset(ENV, steps * prompts, seed=seed, use_system=False),
        rollout_func=rollout_function(max_turn_tokens=24, use_system=False),
        reward_funcs=verified_reward,
    )
    start = time.perf_counter()
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    return {
        "env": ENV,
        "versions": {name: metadata.version(name) for name in ("trl", "transformers", "torch")},
        "machine": f"{platform.machine()}, Python {platform.python_version()}, CPU",
        "settings": {"prompts": prompts, "group_size": group_size, "learning_rate": 5e-4, "seed": seed},
        "seconds": round(time.perf_counter() - start, 1),
        "reward": [round(entry["reward"], 4) for entry in log],
        "tokens": [round(entry["completions/mean_length"], 2) for entry in log],
    }


def draw(curve: Path, picture: Path) -> None:
    from matplotlib.figure import Figure

    record = json.loads(curve.read_text(encoding="utf-8"))
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    axes = figure.subplots()
    steps = range(1, len(record["reward"]) + 1)
    axes.plot(steps, record["reward"], color="#3465a4", marker="o", markersize=3)
    axes.set(xlabel="step", ylabel="mean reward of a batch", ylim=(0, 1.03), title=f"{record['env']} under TRL's GRPO")
    axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, help="folder of a model with a chat template")
    parser.add_argument("--out", type=Path, default=Path("runs/trl"), help="folder for curve.json")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--prompts", type=int, default=16, help="tasks of a step")
    parser.add_argument("--group-size", type=int, default=8, help="episodes of a task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("CURVE", "PICTURE"), help="only draw a curve")
    options = parser.parse_args()
    if options.draw:
        draw(*options.draw)
        return
    if options.policy is None:
        parser.error("--policy is missing: the folder of a model, see --help")
    record = train(options.policy, options.out, options.steps, options.prompts, options.group_size, options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "curve.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"reward {record['reward'][0]} -> {record['reward'][-1]} in {record['seconds']} s")


if __name__ == "__main__":
    main()
