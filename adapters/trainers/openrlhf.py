"""OpenRLHF: our environments under its trainers, as an agent executor; see docs/adapters/openrlhf.md.

``--train.agent_func_path`` names a Python file with a class ``AgentExecutor``; this module is one. A file of your own
may set what it leaves open::

    from rlvr.adapters.trainers.openrlhf import AgentExecutor as Base

    class AgentExecutor(Base):
        template_options = {"enable_thinking": False}

The label of a row is the task's spec (`rlvr.adapters.rows` with ``format="openrlhf"``, ``--data.label_key label``).
``--data.max_len`` bounds the whole conversation, ``--rollout.max_new_tokens`` each reply; an episode that runs out of
room keeps what it earned.

OpenRLHF has no way to leave a sample out. So a task whose verdict is invalid is played once more; should that fail
too, its mask is empty, and its reward is the mean of its group's valid ones, so that it moves no baseline. Of a group
that failed altogether each sample keeps one token, whose advantage is 0: batches without a token divide by zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any

from rlvr.adapters.spec import TaskSpec
from rlvr.adapters.token_session import Sampled, TokenSession, play_tokens
from rlvr.adapters.versions import require
from rlvr.agents.rendering import Renderer

TESTED = ("openrlhf", "0.11.2", "0.12")
require(*TESTED)
from openrlhf.utils.agent import AgentExecutorBase  # noqa: E402  # after a clear word about its version


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc]
    """Plays episodes: tokens to the engine and back, and nothing encoded twice.

    Attributes:
        use_system: whether the conversation begins with the environment's system prompt.
        template_options: variables for the chat template.
        attempts: how often a task is played, at most, until its verdict is valid.
    """

    use_system: bool = True
    template_options: Mapping[str, Any] = {}
    attempts: int = 2

    def __init__(self) -> None:
        self._renderer: Renderer | None = None
        self._groups: dict[str, list[asyncio.Future[float | None]]] = {}

    async def execute(
        self,
        prompt: Any,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """Play one sample of the label's task; OpenRLHF asks for all of a group at once.

        Raises:
            ValueError: the label names no task, or the row has images.
        """
        # Before anything is awaited, so that the first of a group to end finds all the others.
        task = str(label)
        group = self._groups.setdefault(task, [])
        earned = asyncio.get_running_loop().create_future()
        group.append(earned)
        try:
            if images:
                raise ValueError("the row has images, and this executor plays in text alone")
            for _ in range(max(1, self.attempts)):
                episode, cut = await self._play(label, sampling_params, max_length, hf_tokenizer, llm_engine)
                if valid := episode.session.valid and len(episode.tokens) > episode.start:
                    break
            earned.set_result(episode.session.reward if valid else None)
            reward = episode.session.reward if valid else await _mean(group)
        finally:
            if not earned.done():
                earned.set_result(None)
            if all(future.done() for future in group) and self._groups.get(task) is group:
                del self._groups[task]
        ids, ranges = episode.tokens.ids, _ranges(episode.tokens.mask) if valid else []
        if reward is None:
            reward, ranges = 0.0, [(len(ids) - 1, len(ids))]
        return {
            "prompt": prompt,
            "label": label,
            "images": images,
            "mm_train_inputs": None,
            "reward": reward,
            "scores": reward,
            "observation_tokens": list(ids),
            "action_ranges": ranges,
            "rollout_log_probs": list(episode.tokens.logprobs) if sampling_params.logprobs is not None else None,
            "truncated": cut and valid,
            "extra_logs": {"turns": float(episode.session.turns), "valid": float(valid)},
        }

    async def _play(
        self, label: str, sampling_params: Any, max_length: int, tokenizer: Any, engine: Any
    ) -> tuple[TokenSession, bool]:
        """The episode, and whether it was cut short."""
        if self._renderer is None:  # there is one tokenizer in a training; a copy, since others may ask theirs
            self._renderer = Renderer(deepcopy(tokenizer), template_options=self.template_options)
        try:
            spec = TaskSpec.parse(label)
        except ValueError as error:
            raise ValueError(
                f"the row's label is no task of rlvr.adapters.rows (--data.label_key?): {error}"
            ) from error
        is_scored, cut = sampling_params.logprobs is not None, False
        begin = partial(TokenSession, spec, self._renderer, max_length, longest=max_length, use_system=self.use_system)

        async def sample(episode: TokenSession) -> Sampled:
            nonlocal cut
            turn_params = copy(sampling_params)  # the group shares one
            turn_params.max_tokens = min(sampling_params.max_tokens or episode.tokens_left, episode.tokens_left)
            output = (await engine.generate(episode.prompt(), turn_params, multi_modal_data=None)).outputs[0]
            ids, cut = list(output.token_ids), output.finish_reason == "length"
            if not is_scored:
                return Sampled(ids)
            return Sampled(ids, [output.logprobs[i][token].logprob for i, token in enumerate(ids)])

        episode = await play_tokens(begin, sample)
        return episode, cut or not episode.session.done


async def _mean(group: Sequence[asyncio.Future[float | None]]) -> float | None:
    """The mean reward of a group's valid episodes, once all have ended; None when there are none."""
    waiting = list(group)
    await asyncio.wait(waiting)
    rewards = [reward for future in waiting if (reward := future.result()) is not None]
    return sum(rewards) / len(rewards) if rewards else None


def _ranges(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Where the runs of ones begin and end."""
    padded = [0, *mask, 0]
    edges = [i for i in range(len(mask) + 1) if padded[i] != padded[i + 1]]
    return list(zip(edges[::2], edges[1::2], strict=True))
