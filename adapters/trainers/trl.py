"""TRL: our environments under its trainers, as a rollout function, as tools, or as a reward; see docs/adapters/trl.md.

Turns of text, the way to take::

    GRPOTrainer(model, reward_funcs=verified_reward, rollout_func=rollout_function(max_turn_tokens=64),
                train_dataset=dataset("rlvr/GuessNumber-v0", 1000), args=GRPOConfig(…))

One turn: the same without ``rollout_func``. Tools: ``environment_factory=ToolEnvironment`` and no reward function.

A rollout function of TRL is given prompts and no other column, so `dataset` puts the task's spec into the prompt's
last message. ``max_completion_length`` bounds the whole conversation; an episode that it cuts keeps what it earned. An
invalid verdict teaches nothing: its reward is None, which TRL leaves out of the baseline, and its mask is empty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rlvr.adapters.rows import read_spec, rows
from rlvr.adapters.spec import EpisodeSession, grade
from rlvr.adapters.token_session import TokenSession
from rlvr.adapters.versions import check_call, require
from rlvr.agents.rendering import Renderer

TESTED = ("trl", "1.16", "1.17")
CUT = (
    "max_completion_length={} ended every episode of this batch in its first turn, so none was played to its end: "
    "raise it to what a whole conversation takes"
)
RolloutFunction = Callable[[list[Any], Any], dict[str, list[Any] | None]]


def dataset(env_id: str, n: int | None = None, **options: Any) -> Any:
    """Tasks as a ``datasets.Dataset`` for ``train_dataset``; the options are those of `rlvr.adapters.rows`."""
    from datasets import Dataset

    return Dataset.from_list(rows(env_id, n, "trl", **options))


def rollout_function(
    *,
    max_turn_tokens: int | None = None,
    max_length: int | None = None,
    use_system: bool = True,
    template_options: Mapping[str, Any] | None = None,
) -> RolloutFunction:
    """The ``rollout_func`` that plays episodes turn by turn, all of a batch at once, with TRL's own generation.

    Args:
        max_turn_tokens: the longest reply; None leaves it to the conversation's budget.
        max_length: the most tokens of an episode, its first prompt included; None leaves them to TRL's
            ``max_completion_length``, which bounds what follows that prompt.
        use_system: whether the conversation begins with the environment's system prompt.
        template_options: variables for the chat template, such as ``{"enable_thinking": False}``.
    """
    require(*TESTED)
    if max_turn_tokens is not None and max_turn_tokens < 1:
        raise ValueError(f"max_turn_tokens must be at least 1, got {max_turn_tokens}")
    renderers: dict[Any, Renderer] = {}

    def roll_out(prompts: list[Any], trainer: Any) -> dict[str, list[Any] | None]:
        # Private, and the one way that is the same for transformers, vLLM in process and its server.
        generate: Any = getattr(trainer, "_generate_single_turn", None)
        check_call(generate, TESTED, "prompt_ids", "images", "multimodal_fields", "num_generations")
        token_budget, together = trainer.max_completion_length, _together(trainer)
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        if tokenizer not in renderers:
            ends = getattr(trainer, "eos_token_ids", ())
            renderers[tokenizer] = Renderer(tokenizer, template_options=template_options, end_ids=ends)
        renderer = renderers[tokenizer]
        episodes = [
            TokenSession(
                read_spec({"prompt": prompt}),
                renderer,
                token_budget,
                use_system=use_system,
                instead=prompt,
                longest=max_length,
            )
            for prompt in prompts
        ]
        scored = True
        while _anywhere(trainer, live := [e for e in episodes if not e.done and e.tokens_left > 0], together):
            generating = episodes if together else live
            longest = token_budget if together else max(e.tokens_left for e in live)
            with _at_most(trainer, min(max_turn_tokens or token_budget, longest)):
                ids, logprobs = generate([e.prompt() for e in generating], None, {}, 1)
            scored = scored and logprobs is not None
            for index, episode in enumerate(generating):
                if not episode.done and episode.tokens_left > 0:
                    episode.step_tokens(ids[index], logprobs[index] if logprobs is not None else None)
        for episode in episodes:
            episode.session.close()
        if all(e.session.valid and not e.session.done and e.session.turns <= 1 for e in episodes):
            warnings.warn(CUT.format(token_budget), stacklevel=2)
        parts = [episode.parts() for episode in episodes]
        return {
            "prompt_ids": [prompt for prompt, _ in parts],
            "completion_ids": [completion.ids for _, completion in parts],
            "env_mask": [completion.mask for _, completion in parts],
            "logprobs": [completion.logprobs for _, completion in parts] if scored else None,
            "env_reward": [e.session.reward if e.session.valid else None for e in episodes],
        }

    return roll_out


def _together(trainer: Any) -> bool:
    """Whether generation waits for all processes: each must then ask equally often, and for as many prompts."""
    if getattr(getattr(trainer, "accelerator", None), "num_processes", 1) == 1:
        return False
    engines = ("use_vllm", "is_deepspeed_enabled", "is_fsdp_enabled")
    return any(getattr(trainer, engine, False) for engine in engines)


def _anywhere(trainer: Any, live: Sequence[TokenSession], together: bool) -> bool:
    """Whether an episode is under way, here or, where all go together, in any process."""
    if not together:
        return bool(live)
    import torch

    counts = trainer.accelerator.gather(torch.tensor([len(live)], device=trainer.accelerator.device))
    return bool(counts.sum() > 0)


@contextmanager
def _at_most(trainer: Any, tokens: int) -> Iterator[None]:
    """Limit the tokens that TRL generates meanwhile, in any engine."""
    limits = [(getattr(trainer, "generation_config", None), "max_new_tokens")]
    limits.append((getattr(trainer, "vllm_generation", None), "max_completion_length"))
    before = [(holder, name, getattr(holder, name)) for holder, name in limits if hasattr(holder, name)]
    try:
        for holder, name, _ in before:
            setattr(holder, name, tokens)
        yield
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)


def verified_reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """The reward function for all forms: what the rollout earned, else each completion graded as the only reply.

    None, which TRL leaves out, where the fault was not the policy's.

    Raises:
        ValueError: no task is named, or a task of several turns came without `rollout_function`.
    """
    if "env_reward" in columns:
        return list(columns["env_reward"])
    if "spec" not in columns:
        raise ValueError("the rows name no task: make them with rlvr.adapters.trainers.trl.dataset")
    texts = [completion if isinstance(completion, str) else completion[-1]["content"] for completion in completions]
    verdicts = [grade(spec, text) for spec, text in zip(columns["spec"], texts, strict=True)]
    return [verdict.reward if verdict.valid else None for verdict in verdicts]


class ToolEnvironment:
    """For ``environment_factory``: the policy acts by calling a tool, and reads the environment in the tool's output.

    ``train_dataset`` must come from `dataset`: without a row's spec the members of a group would get other tasks.
    """

    def reset(self, spec: str | None = None, **row: Any) -> str:
        """Begin the row's task; what is added to its prompt."""
        if spec is None:
            raise ValueError("the row names no task: give train_dataset=rlvr.adapters.trainers.trl.dataset(…)")
        self._session = EpisodeSession(spec)
        return "\n\nReply by calling the tool `act`."

    def act(self, action: str) -> str:
        """
        Say something to the environment.

        Args:
            action: What you say.

        Returns:
            What the environment answers.
        """
        if self._session.done:
            raise ValueError("The episode is over. Call no more tools.")
        message = self._session.step(action)
        return "The episode is over. Call no more tools." if message is None else message["content"]

    def get_reward(self) -> float | None:
        """The return of the episode so far; None, which TRL leaves out, where the fault was not the policy's."""
        return self._session.reward if self._session.valid else None
