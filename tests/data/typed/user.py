"""What a user writes, in one script; it runs, and two type checkers know the type of all of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import reveal_type

import gymnasium as gym
import torch

import rlvr
from rlvr.adapters import EpisodeSession, TaskSpec, initial_messages, read_spec, rows, write_rows
from rlvr.adapters import grade as grade_row
from rlvr.agents import (
    Agent,
    Conversation,
    ExpertAgent,
    Reply,
    Rollout,
    RolloutRequest,
    evaluate,
    summarise,
    task_requests,
)
from rlvr.algorithms import (
    ADVANTAGES,
    ALGORITHMS,
    PRESETS,
    AdvantageInputs,
    Choices,
    Clipped,
    ClipRule,
    EpisodeFilter,
    LossInputs,
    Terms,
    TrainConfig,
    Trainer,
    best_worst_pairs,
    compute_advantages,
    count_denominators,
    dapo_loss,
    dpo_loss,
    grpo_loss,
    has_reward_variance,
    load_config,
    merge_stats,
    policy_loss,
    register_advantage,
    register_clip_rule,
    register_filter,
    register_preset,
)
from rlvr.envs import Verdict
from rlvr.envs.rewards import grade, grade_batch
from rlvr.envs.tools import Call, Kit, write_call
from rlvr.envs.vector import VectorEnv


def close(reply: str, answer: str, *, margin: float = 0.5) -> bool:
    """A grader."""
    return abs(float(reply) - float(answer)) <= margin


def double(number: int) -> int:
    """Double a number.

    Args:
        number: any.
    """
    return 2 * number


class Fixed:
    """An agent."""

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        return [Reply("\\boxed{7}") for _ in conversations]


class Tanh(ClipRule):
    """A clip rule."""

    name = "user_tanh"

    def loss(self, t: Terms, p: Choices) -> Clipped:
        never = torch.zeros_like(t.sequences.mask)
        return Clipped(-t.advantages * torch.tanh(t.log_ratio), low=never, high=never)

    def formula(self, p: Choices) -> str:
        return "-A tanh(log r)"


class Short(EpisodeFilter):
    """A filter."""

    name = "user_short"


def doubled(inputs: AdvantageInputs, choices: Choices) -> torch.Tensor:
    """A_i = 2 R_i"""
    rewards = inputs.rewards
    assert rewards is not None
    return 2 * rewards


def environments() -> None:
    env: gym.Env[str, str] = gym.make("rlvr/Sums-v0", level=2, tools=[double])
    observation, _ = env.reset(seed=0)
    reveal_type(observation)
    env.step(write_call(Call("double", {"number": 2}), "hermes"))
    vector = VectorEnv("rlvr/Sums-v0", 2, backend="sync")
    reveal_type(vector)
    vector.close()
    verdict = grade("number", "\\boxed{7}", 7)
    reveal_type(verdict)
    reveal_type(verdict.reward)
    reveal_type(verdict.status)
    reveal_type(grade(close, "1", "1", margin=1))
    reveal_type(grade_batch("number", ["1"], ["1"]))
    reveal_type(rlvr.register_grader(close))
    reveal_type(rlvr.register_tool(double))
    reveal_type(rlvr.list_envs())


def episodes() -> None:
    agent: Agent = Fixed()
    rollout = Rollout("rlvr/Sums-v0", agent, env_settings={"level": 2})
    played = rollout([RolloutRequest(seed=0, index=0)])
    reveal_type(played)
    reveal_type(played[0].verdict)
    reveal_type(played[0].reward)
    summary = summarise(played)
    reveal_type(summary)
    reveal_type(summary.success)
    reveal_type(evaluate(rollout, task_requests(None, 2)))
    reveal_type(rlvr.evaluate("Sums", ExpertAgent(), episodes=2))


def adapters(folder: Path) -> None:
    table = rows("rlvr/Sums-v0", 2)
    spec = read_spec(table[0])
    reveal_type(spec)
    reveal_type(write_rows(table, folder / "rows.jsonl"))
    reveal_type(grade_row(spec, "\\boxed{7}"))
    session = EpisodeSession(TaskSpec("rlvr/Sums-v0", seed=0))
    reveal_type(session.step("\\boxed{7}"))
    reveal_type(session.reward)
    reveal_type(initial_messages("hello", {}))


def served(url: str) -> None:
    env = rlvr.connect(url, token="secret", level=2)
    reveal_type(env)
    reveal_type(env.served_id)


def losses() -> None:
    preset = PRESETS["grpo"]
    reveal_type(preset)
    reveal_type(preset.kl_coef)
    reveal_type(ALGORITHMS["sft"])
    reveal_type(ADVANTAGES["rloo"].formula)
    advantages = compute_advantages([1.0, 0.0], [0, 0], preset)
    reveal_type(advantages)
    logprobs = torch.full((2, 3), -1.0, requires_grad=True)
    old, mask = logprobs.detach(), torch.ones(2, 3, dtype=torch.bool)
    inputs = LossInputs(mask=mask, advantages=advantages, old_logprobs=old, ref_logprobs=old)
    loss, stats = policy_loss(logprobs, inputs, preset, count_denominators(inputs))
    reveal_type(loss)
    reveal_type(stats)
    reveal_type(merge_stats([stats]))
    reveal_type(grpo_loss(logprobs, old, advantages, mask, ref_log_probs=old))
    reveal_type(dapo_loss(logprobs, old, [1.0, -1.0], mask, epsilon_upper=0.3)[0])
    reveal_type(best_worst_pairs([1.0, 0.0], [0, 0]))
    reveal_type(dpo_loss(logprobs, {"mask": mask, "ref_logprobs": old}, [[0, 1]])[0])
    reveal_type(has_reward_variance([1.0, 0.0], [0, 0]))


def parts() -> None:
    reveal_type(register_advantage(doubled))
    reveal_type(register_clip_rule(Tanh()))
    reveal_type(register_filter(Short()))
    mine = PRESETS["dr_grpo"].replace(name="user_algorithm", advantage=doubled, clip=Tanh(), filters=["user_short"])
    reveal_type(mine)
    reveal_type(register_preset(mine))


def training(folder: Path) -> None:
    config = load_config(
        {"steps": 1, "warm_start": {"steps": 0}, "evaluation": {"episodes": 1}, "out": str(folder / "run")}
    )
    reveal_type(config)
    reveal_type(TrainConfig(algorithm="dapo", steps=2))
    reveal_type(config.learner.lr)
    trainer = Trainer(config)
    reveal_type(trainer)
    reveal_type(trainer.run())


class Notes(Kit):
    """A kit."""

    tools = ()


def main(folder: Path) -> None:
    environments()
    episodes()
    adapters(folder)
    losses()
    parts()
    training(folder)
    assert Verdict(1.0, "correct").success


if __name__ == "__main__":
    main(Path(sys.argv[1]))
