"""An agent file for OpenRLHF, and the rows and the command that go with it.

    python examples/openrlhf_agent.py --env rlvr/GuessNumber-v0 --rows 1000 --out runs/openrlhf

writes runs/openrlhf/train.jsonl and prints the command of a training on a machine with GPUs (OpenRLHF 0.11.2 trains on
no other). OpenRLHF loads this file in each of its rollout workers and takes the class below.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __name__ != "__main__":  # writing rows needs no OpenRLHF
    from rlvr.adapters.trainers.openrlhf import AgentExecutor as Base

    class AgentExecutor(Base):
        """Without the thinking that Qwen3's template turns on."""

        template_options = {"enable_thinking": False}  # noqa: RUF012  # a constant


def command(model: str, table: Path, out: Path) -> list[str]:
    """A training with groups of 8 and the leave-one-out baseline, all models on the same GPUs."""
    settings = {
        "train.agent_func_path": Path(__file__).resolve(),
        "data.prompt_dataset": table,
        "data.input_key": "input",
        "data.label_key": "label",  # the task; nothing works without it
        "data.max_len": 4096,  # of the whole conversation
        "rollout.max_new_tokens": 512,  # of each reply
        "rollout.n_samples_per_prompt": 8,
        "rollout.batch_size": 128,
        "algo.advantage.estimator": "rloo",
        "algo.kl.init_coef": 0,  # and no --algo.kl.target, see the docs
        "actor.model_name_or_path": model,
        "ckpt.output_dir": out / "model",
    }
    words = ["python", "-m", "openrlhf.cli.train_ppo_ray"]
    words += ["--data.apply_chat_template", "--train.colocate_all", "--vllm.enable_sleep"]
    return words + [str(part) for key, value in settings.items() for part in (f"--{key}", value)]


def main() -> None:
    from rlvr.adapters import rows, write_rows

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="rlvr/GuessNumber-v0")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--model", default="Qwen/Qwen3-0.6B")
    parser.add_argument("--out", type=Path, default=Path("runs/openrlhf"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table = write_rows(rows(options.env, options.rows, "openrlhf"), options.out / "train.jsonl")
    print(shlex.join(command(options.model, table, options.out)))


if __name__ == "__main__":
    main()
