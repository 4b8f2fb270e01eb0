"""SkyRL: our environments in its generators, by the class `RlvrTextEnv` of skyrl-gym; see docs/adapters/skyrl.md.

    write_rows(rows("rlvr/GuessNumber-v0", 1000, "skyrl"), "train.parquet")   # data.train_data
    register()                                                               # in the task that builds the experiment
    class Generator(ValidOnly, SkyRLGymGenerator): ...                       # what Experiment.get_generator returns

SkyRL owns the loop and the tokens. It has no word for a verdict that is not valid: `ValidOnly` takes such episodes out
of the loss, and gives them the mean of their group's others, so that nobody's advantage moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rlvr.adapters.rows import AGENT, read_spec
from rlvr.adapters.spec import EpisodeSession, turns_of
from rlvr.adapters.versions import require

TESTED = ("skyrl-gym", "0.4.0", "0.5")
require(*TESTED)

import skyrl_gym  # noqa: E402
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput  # noqa: E402

__all__ = ["RlvrTextEnv", "ValidOnly", "register"]

VALID = "valid"  # what the metrics of an episode call it


def register(name: str = AGENT) -> None:
    """Make the environment known to this process, by the name that rows give as ``env_class``; once is enough."""
    if name not in skyrl_gym.envs.registration.registry:
        skyrl_gym.register(name, f"{__name__}:RlvrTextEnv")


class RlvrTextEnv(BaseTextEnv):  # type: ignore[misc]  # skyrl-gym is not here when types are checked
    """One episode of any environment of ours, named by the row that SkyRL passes as ``extras``.

    Attributes:
        session: the episode; None before `init`.

    Raises:
        ValueError: the row names no task; in `init`, it shows another task than the environment does, or SkyRL's
            ``generator.max_turns`` is lower than the environment's own number of turns.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        extras = extras or {}
        self._task = read_spec(extras)  # `spec` is what skyrl_gym.make sets
        self.session: EpisodeSession | None = None
        self.allowed: int | None = extras.get("max_turns")

    def init(self, prompt: Sequence[Mapping[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Begin the row's task: its messages, and an empty info."""
        messages = [dict(message) for message in prompt]
        session = self.session = EpisodeSession(self._task, use_system=any(m["role"] == "system" for m in messages))
        own_messages = session.messages
        if own_messages and (not messages or messages[-1]["content"] != own_messages[-1]["content"]):
            raise ValueError(f"the row's prompt is not what {self._task.env_id} shows: make the rows anew")
        turns = turns_of(session.env, session.info)
        if self.allowed is not None and turns is not None and turns > self.allowed:
            raise ValueError(
                f"{self._task.env_id} has up to {turns} turns, and SkyRL's generator.max_turns is {self.allowed}: set "
                f"generator.max_turns={turns}, or make the rows with kwargs={{'max_turns': {self.allowed}}}"
            )
        return messages, {}

    def step(self, action: str) -> Any:
        """Play an action, in SkyRL's form of a step."""
        session = self.session
        if session is None:
            raise ValueError("an episode begins with init")
        before, answer = session.reward, None
        if not session.done:  # it is when the environment failed in reset
            answer = session.step(action)
        self.turns = session.turns
        return BaseTextEnvStepOutput(
            observations=[dict(answer)] if answer else [],
            reward=session.reward - before,
            done=session.done,
            metadata={},
        )

    def get_metrics(self) -> dict[str, float]:
        """What the log has of the episode."""
        session = self.session
        if session is None:
            return {}
        return {
            "return": session.reward,
            "success": float(session.verdict is not None and session.verdict.success),
            "truncated": float(session.truncated),
            "turns": float(session.turns),
            VALID: float(session.valid),
        }

    def close(self) -> None:
        """Close the environment behind it."""
        if self.session is not None:
            self.session.close()


class ValidOnly:
    """A base to put before a generator of SkyRL's: invalid episodes then teach nothing.

    Their loss mask is emptied, and their reward becomes the mean of the valid episodes of the same task, 0 if there are
    none. A standard deviation that advantages are divided by counts them still.

    Raises:
        ValueError: the generator is set to ``batched``, which reports nothing about single episodes.
    """

    async def generate(self, input_batch: Any, disable_tqdm: bool = False) -> Any:
        """SkyRL's generation; episodes without a valid verdict have no token in the loss."""
        output = await super().generate(input_batch, disable_tqdm)  # type: ignore[misc]
        metrics = output.get("env_metrics")
        if metrics is None:
            raise ValueError("a batched generator does not say which episodes are valid: set generator.batched=false")
        # With step-wise trajectories an episode is several rows, and its metrics are with the last of them.
        last = output.get("is_last_step") or [True] * len(metrics)
        edges = [0, *(row + 1 for row, is_last in enumerate(last) if is_last)]
        episodes = [range(start, stop) for start, stop in pairwise(edges)]
        tasks = [(extras.get("extra_info") or {}).get("spec") for extras in input_batch["env_extras"]]
        rewards, masks = output["rewards"], output["loss_masks"]
        valid = [metrics[rows[-1]].get(VALID, 1.0) == 1.0 for rows in episodes]
        for rows, task, is_valid in zip(episodes, tasks, valid, strict=True):
            if is_valid:
                continue
            siblings = [other for other, its, ok in zip(episodes, tasks, valid, strict=True) if ok and its == task]
            total = sum(_total(rewards[row]) for sibling in siblings for row in sibling)
            for row in rows:
                masks[row] = [0] * len(masks[row])
                rewards[row] = _set(rewards[row], total / len(siblings) if siblings and row == rows[-1] else 0.0)
        return output


def _total(reward: float | list[float]) -> float:
    return sum(reward) if isinstance(reward, list) else float(reward)


def _set(reward: float | list[float], to: float) -> float | list[float]:
    """A reward of the same form, a number or one for each token, with this total."""
    return [*([0.0] * (len(reward) - 1)), to] if isinstance(reward, list) else to
