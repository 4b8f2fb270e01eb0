"""SkyRL trains on our environments, on a machine with GPUs; ends where SkyRL's own settings begin.

    python -c "from rlvr.adapters import rows, write_rows; \\
        write_rows(rows('rlvr/GuessNumber-v0', 2000, 'skyrl'), 'train.parquet'); \\
        write_rows(rows('rlvr/GuessNumber-v0', 200, 'skyrl', kwargs={'split': 'test'}), 'test.parquet')"
    python examples/skyrl_train.py data.train_data="['train.parquet']" data.val_data="['test.parquet']" \\
        environment.env_class=rlvr generator.max_turns=8 trainer.policy.model.path=Qwen/Qwen3-0.6B …

Every setting is SkyRL's. What is ours: the environment is registered in the task that builds the experiment, and the
generator keeps episodes without a valid verdict out of the loss. docs/adapters/skyrl.md says what to mind.
"""

from __future__ import annotations

import sys
from typing import Any

import ray
from skyrl.backends.skyrl_train.inference_servers.utils import resolve_policy_model_name
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator
from skyrl.train.utils import initialize_ray, validate_cfg

from rlvr.adapters.trainers.skyrl import ValidOnly, register


class Generator(ValidOnly, SkyRLGymGenerator):
    """SkyRL's own, without the episodes that went wrong by no fault of the policy's."""


class Experiment(BasePPOExp):
    def get_generator(self, cfg: Any, tokenizer: Any, inference_engine_client: Any) -> Generator:
        return Generator(
            generator_cfg=cfg.generator,
            skyrl_gym_cfg=cfg.environment.skyrl_gym,
            inference_engine_client=inference_engine_client,
            tokenizer=tokenizer,
            policy_model_name=resolve_policy_model_name(cfg),
        )


@ray.remote(num_cpus=1)
def run(cfg: SkyRLTrainConfig) -> None:
    register()
    Experiment(cfg).run()


def main() -> None:
    cfg = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(run.remote(cfg))


if __name__ == "__main__":
    main()
