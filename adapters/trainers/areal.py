"""AReaL: our environments under its asynchronous trainer, as a rollout workflow; see docs/adapters/areal.md.

    train_dataset = Dataset.from_list(rows("rlvr/GuessNumber-v0", 1000))
    trainer = PPOTrainer(config, train_dataset=train_dataset)
    trainer.train(
        workflow="rlvr.adapters.trainers.areal.EpisodeWorkflow",
        workflow_kwargs={"gconfig": config.gconfig, "tokenizer": config.tokenizer_path},
    )

AReaL leaves out an episode for which a workflow returns None, and plays another row instead. But it forms baselines of
consecutive rows, as many as a group has, so a group that lacks a row moves the baselines of all groups behind
it. Hence a task whose verdict is invalid is played once more; should that fail too, its whole group is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import copy, deepcopy
from functools import partial
from typing import Any
from uuid import uuid4

from rlvr.adapters.rows import read_spec
from rlvr.adapters.spec import TaskSpec
from rlvr.adapters.token_session import Sampled, TokenSession, play_tokens
from rlvr.adapters.versions import check_override, require
from rlvr.agents import TokenSequence
from rlvr.agents.rendering import Renderer

TESTED = ("areal", "1.0.4", "1.1")
require(*TESTED)

import torch  # noqa: E402  # after a clear word about the framework's version
from areal import workflow_context  # noqa: E402
from areal.api import ModelRequest, RolloutWorkflow  # noqa: E402
from areal.utils import stats_tracker  # noqa: E402
from areal.utils.hf_utils import load_hf_tokenizer  # noqa: E402


class EpisodeWorkflow(RolloutWorkflow):  # type: ignore[misc]  # areal is not here when types are checked
    """Plays the episodes that rows of `rlvr.adapters.rows` name: tokens to the engine and back, nothing encoded twice.

    Args:
        gconfig: AReaL's `GenerationHyperparameters`; ``max_tokens`` bounds the whole conversation, ``max_new_tokens``
            each reply. An episode that runs out of room keeps what it earned.
        tokenizer: the policy's, or the path that AReaL loads it from.
        use_system: whether the conversation begins with the environment's system prompt.
        template_options: variables for the chat template, such as ``{"enable_thinking": False}``.
        attempts: how often a task is played, at most, until its verdict is valid.

    Raises:
        ValueError: attempts is below 1, or the tokenizer has no chat template.
    """

    def __init__(
        self,
        gconfig: Any,
        tokenizer: Any,
        *,
        use_system: bool = True,
        template_options: Mapping[str, Any] | None = None,
        attempts: int = 2,
    ) -> None:
        if attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {attempts}")
        # A copy: AReaL asks the tokenizer that it loaded from other threads, and tokenizers are not made for several.
        tokenizer = deepcopy(load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer)
        # AReaL's own workflows stop at padding, too.
        padding = () if tokenizer.pad_token_id is None else (tokenizer.pad_token_id,)
        self.renderer = Renderer(tokenizer, template_options=template_options, end_ids=padding)
        stops = sorted({*gconfig.stop_token_ids, *self.renderer.end_ids})
        self.gconfig = gconfig.new(n_samples=1, stop_token_ids=stops)
        self.use_system, self.attempts = use_system, attempts
        self._groups: dict[object, list[asyncio.Future[bool]]] = {}

    def check(self, row: Mapping[str, Any]) -> None:
        """Begin a row's task, and end it: a training calls this before it starts, for AReaL only logs what a workflow
        raises, and goes on with other rows for ever.

        Raises:
            ValueError: the row names no task, its environment shows images, its tools or system prompt would not reach
                the policy, or its first prompt leaves no room for a reply.
        """
        episode = self._begin(read_spec(row))
        try:
            if episode.tokens_left <= 0:
                raise ValueError(
                    f"{episode.session.spec.to_json()} begins with {episode.start} tokens, and gconfig.max_tokens is "
                    f"{self.gconfig.max_tokens}: raise it"
                )
        finally:
            episode.session.close()

    async def arun_episode(self, engine: Any, data: dict[str, Any]) -> dict[str, torch.Tensor] | None:
        """Play the row's task; None when its verdict is invalid, or that of another in its group.

        Raises:
            ValueError: as `check` does.
        """
        # Before anything is awaited: AReaL asks for all of a group at once, so the first to end finds all the others.
        context = workflow_context.get()
        of_group = context.task_id is not None and not context.is_eval  # an evaluation has no baseline
        key = context if of_group else object()
        group = self._groups.setdefault(key, [])
        ended = asyncio.get_running_loop().create_future()
        group.append(ended)
        try:
            spec = read_spec(data)
            for _ in range(self.attempts):
                episode = await self._play(engine, spec)
                if valid := episode.session.valid and episode.tokens.sampled > 0:
                    break
            ended.set_result(valid)
            self._log(episode, valid)
            if len(group) > 1:
                await asyncio.wait(group)
            return tensors(episode.tokens, episode.session.reward) if all(each.result() for each in group) else None
        finally:
            if not ended.done():
                ended.set_result(False)
            if all(each.done() for each in group):
                self._groups.pop(key, None)

    def _begin(self, spec: TaskSpec) -> TokenSession:
        longest = self.gconfig.max_tokens
        return TokenSession(spec, self.renderer, longest, longest=longest, use_system=self.use_system)

    async def _play(self, engine: Any, spec: TaskSpec) -> TokenSession:
        request = uuid4().hex  # one for all turns, so that they go where their beginning is in the cache

        async def sample(episode: TokenSession) -> Sampled:
            settings = copy(self.gconfig)
            settings.max_new_tokens = min(settings.max_new_tokens, episode.tokens_left)
            response = await engine.agenerate(ModelRequest(rid=request, input_ids=episode.prompt(), gconfig=settings))
            return Sampled(response.output_tokens, response.output_logprobs, response.output_versions)

        return await play_tokens(partial(self._begin, spec), sample)

    @staticmethod
    def _log(episode: TokenSession, valid: bool) -> None:
        """Into AReaL's statistics, of a training or of an evaluation; what is invalid has no reward there."""
        logged, session = {"valid": float(valid)}, episode.session
        if valid:
            success = session.verdict is not None and session.verdict.success
            logged |= {"reward": session.reward, "num_turns": float(session.turns), "success": float(success)}
        stats_tracker.get(workflow_context.stat_scope()).scalar(**logged)


check_override(getattr(RolloutWorkflow, "arun_episode", None), EpisodeWorkflow.arun_episode, TESTED)


def tensors(tokens: TokenSequence, reward: float) -> dict[str, torch.Tensor]:
    """One episode as AReaL's trainer takes it, each tensor with a first dimension of 1.

    It ends with the last token that was sampled: AReaL puts the reward there, and would lose it on any other.
    """
    stop = len(tokens) - tokens.mask[::-1].index(1)
    return {
        "input_ids": torch.tensor([tokens.ids[:stop]], dtype=torch.int32),
        "loss_mask": torch.tensor([tokens.mask[:stop]], dtype=torch.int32),
        "logprobs": torch.tensor([tokens.logprobs[:stop]], dtype=torch.float32),
        "versions": torch.tensor([tokens.versions[:stop]], dtype=torch.int32),
        "attention_mask": torch.ones(1, stop, dtype=torch.bool),
        "rewards": torch.tensor([reward], dtype=torch.float32),
    }
