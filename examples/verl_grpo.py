"""Rows for verl, and the command of a GRPO training on them.

    python examples/verl_grpo.py --env rlvr/GuessNumber-v0 --rows 1000 --out runs/verl

writes runs/verl/train.parquet and test.parquet, whose tasks are of disjoint splits, and prints the command to run on a
machine with GPUs (verl 0.9.1 trains on no other). What there is to change stands in examples/verl_agent_loop.yaml.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

AGENT_LOOP = Path(__file__).resolve().with_name("verl_agent_loop.yaml")


def overrides(model: str, out: Path) -> list[str]:
    """Of verl's own configuration, ``ppo_trainer``."""
    settings = {
        "data.train_files": out / "train.parquet",
        "data.val_files": out / "test.parquet",
        "data.train_batch_size": 128,
        "data.max_prompt_length": 1024,
        "data.max_response_length": 3072,  # all that follows the first prompt
        "data.filter_overlong_prompts": "true",
        "data.truncation": "error",
        "+data.apply_chat_template_kwargs.enable_thinking": "false",  # Qwen3's template thinks otherwise
        "algorithm.adv_estimator": "grpo",
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.actor.ppo_mini_batch_size": 64,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": 8,
        "actor_rollout_ref.rollout.calculate_log_probs": "true",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 8,
        "actor_rollout_ref.rollout.agent.agent_loop_config_path": AGENT_LOOP,
        "trainer.v1.sampler.sync_refill_failed_groups": "true",  # other tasks for those whose environment failed
        "data.gen_batch_size": 1,  # which that asks for
        "trainer.n_gpus_per_node": 1,
        "trainer.logger": "[console]",
        "trainer.default_local_dir": out / "checkpoints",
    }
    return [f"{name}={value}" for name, value in settings.items()]


def main() -> None:
    from rlvr.adapters import rows, write_rows

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="rlvr/GuessNumber-v0")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B")
    parser.add_argument("--out", type=Path, default=Path("runs/verl"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for split, n in {"train": options.rows, "test": max(1, options.rows // 10)}.items():
        write_rows(rows(options.env, n, "verl", kwargs={"split": split}), options.out / f"{split}.parquet")
    print(shlex.join(["python", "-m", "verl.trainer.main_ppo", *overrides(options.model, options.out)]))


if __name__ == "__main__":
    main()
