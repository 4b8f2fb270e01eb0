"""A planted environment as a taskset of verifiers' v1 API, as its author would write it: for ``vf-validate``.

    vf-validate planted-taskset --taskset.target planted.pays_anything:InvoiceFields -n 5 --runtime.type subprocess

The gold check plays the environment's own expert, where it has one. The reward of an episode is its return; of one in
which the agent wrote nothing, that of empty replies.
"""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from planted.catalogue import make_env

LONGEST = 100  # turns of any episode here


def play(env: Any, seed: int, replies: list[str] | None) -> float:
    """The return of an episode: of replies, then empty ones; None for the expert's."""
    env.reset(seed=seed)
    total = 0.0
    for turn in range(LONGEST):
        action = env.solve() if replies is None else replies[turn] if turn < len(replies) else ""
        _, reward, terminated, truncated, _ = env.step(action)
        total += reward
        if terminated or truncated:
            break
    return total


class PlantedConfig(vf.TasksetConfig):
    """``target`` names the class; ``n`` is how many seeds there are."""

    target: str = ""
    n: int = 5


class PlantedData(vf.TaskData):
    target: str
    seed: int


class PlantedTask(vf.Task[PlantedData, vf.State, vf.TaskConfig]):
    async def validate(self, runtime: Any) -> bool | None:
        try:
            return play(make_env(self.data.target), self.data.seed, None) >= 1
        except (AttributeError, NotImplementedError):
            return None

    @vf.reward
    async def episode_return(self, trace: Any) -> float:
        replies = [message.content for message in trace.assistant_messages]
        return play(make_env(self.data.target), self.data.seed, replies)


class PlantedTaskset(vf.Taskset[PlantedTask, PlantedConfig]):
    def load(self) -> list[PlantedTask]:
        tasks = []
        for seed in range(self.config.n):
            observation, info = make_env(self.config.target).reset(seed=seed)
            data = PlantedData(
                idx=seed,
                name=f"{self.config.target}#{seed}",
                prompt=observation,
                system_prompt=info.get("system"),
                target=self.config.target,
                seed=seed,
            )
            tasks.append(PlantedTask(data, self.config.task))
        return tasks


__all__ = ["PlantedTaskset"]
