"""AReaL trains on our environments, on a machine with GPUs; ends where AReaL's own settings begin.

    python examples/areal_train.py --config CONFIG.yaml train_dataset.path=rlvr/GuessNumber-v0 train_dataset.type=rl

CONFIG.yaml is one of AReaL's (its `examples/math/gsm8k_grpo.yaml`, say). The path of the data set is the environment's
id; where there is a `valid_dataset`, its tasks are those of the split "test". docs/adapters/areal.md says what to mind.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from areal import PPOTrainer
from areal.api.cli_args import GRPOConfig, load_expr_config
from datasets import Dataset

from rlvr.adapters import rows
from rlvr.adapters.trainers.areal import EpisodeWorkflow

ROWS, TEST_ROWS = 2000, 200
WORKFLOW = "rlvr.adapters.trainers.areal.EpisodeWorkflow"  # by name, since AReaL makes it in its rollout workers


def main(arguments: Sequence[str]) -> None:
    config, _ = load_expr_config(list(arguments), GRPOConfig)
    train, test = rows(config.train_dataset.path, ROWS), []
    if config.valid_dataset is not None:
        test = rows(config.valid_dataset.path, TEST_ROWS, kwargs={"split": "test"})
    settings = {"gconfig": config.gconfig, "tokenizer": config.tokenizer_path}
    settings["template_options"] = {"enable_thinking": False}
    EpisodeWorkflow(**settings).check(train[0])  # before GPUs are asked for
    with PPOTrainer(
        config, train_dataset=Dataset.from_list(train), valid_dataset=Dataset.from_list(test) if test else None
    ) as trainer:
        trainer.train(
            workflow=WORKFLOW,
            workflow_kwargs=settings,
            eval_workflow=WORKFLOW if test else None,
            eval_workflow_kwargs={**settings, "gconfig": config.eval_gconfig} if test else None,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
