"""rLLM: our environments under its trainer, as a workflow; see docs/adapters/rllm.md.

    AgentTrainer(
        config=config,
        workflow_class=RllmWorkflow,
        train_dataset=DatasetRegistry.register_dataset("guess", rows("rlvr/GuessNumber-v0", 1000), "train"),
    ).train()

Written from its source (0.3.0.pre at 9beb6e0), since it is not on the package index. Each turn is a step whose prompt
is all tokens before it, so that rLLM puts the steps together to one sequence and nothing is encoded twice. A task
whose verdict is invalid raises: rLLM plays it again (``rllm.workflow.retry_limit``), and in the end has an episode
without trajectories, which enters no group.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any

from rlvr.adapters.rows import read_spec
from rlvr.adapters.spec import InvalidEpisode
from rlvr.adapters.token_session import Sampled, TokenSession, play_tokens
from rlvr.adapters.versions import check_override, require
from rlvr.agents.rendering import Renderer

TESTED = ("rllm", "0.3.0", "0.4")
try:
    require(*TESTED)
except ImportError as error:
    raise ImportError(f"{error}, from its repository: the package index has none") from None

from rllm.engine.rollout.rollout_engine import ModelOutput  # noqa: E402  # after a clear word about its version
from rllm.types import Episode, Step, Trajectory  # noqa: E402
from rllm.workflows.workflow import TerminationEvent, TerminationReason, Workflow  # noqa: E402

NAME = "rlvr"  # of the trajectory, by which rLLM forms groups


class RllmWorkflow(Workflow):  # type: ignore[misc]  # rllm is not here when types are checked
    """Plays the episodes that rows of `rlvr.adapters.rows` name: tokens to the engine and back.

    ``rllm.data.max_prompt_length`` bounds the first prompt, ``max_response_length`` all that follows it. An episode
    that runs out of room keeps what it earned.

    Args:
        max_turn_tokens: the longest reply; None leaves it to ``max_response_length``.
        use_system: whether the conversation begins with the environment's system prompt.
        template_options: variables for the chat template, such as ``{"enable_thinking": False}``.
        options: rLLM's own arguments.

    Raises:
        ValueError: max_turn_tokens is below 1, or the engine takes no tokens or records experts.
    """

    def __init__(
        self,
        *args: Any,
        max_turn_tokens: int | None = None,
        use_system: bool = True,
        template_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        engine = self.rollout_engine
        if max_turn_tokens is not None and max_turn_tokens < 1:
            raise ValueError(f"max_turn_tokens must be at least 1, got {max_turn_tokens}")
        if not engine.supports_token_in_token_out:
            raise ValueError(f"{type(engine).__name__} takes no tokens: its back ends verl, tinker and fireworks do")
        if getattr(engine, "router_replay_mode", None) == "R3":
            raise ValueError("this workflow carries no experts: set rllm.algorithm.router_replay to disabled or R2")
        self.max_turn_tokens, self.use_system = max_turn_tokens, use_system
        self.renderer = Renderer(deepcopy(engine.tokenizer), template_options=template_options)

    async def run(self, task: Any, uid: str, **kwargs: Any) -> Episode:
        """Play a row's task.

        Raises:
            InvalidEpisode: the environment failed.
            TerminationEvent: the first prompt is too long, or leaves no room for a reply.
            ValueError: the row names no task, or its environment shows images.
        """
        spec = read_spec(task if isinstance(task, Mapping) else task.metadata)
        engine = self.rollout_engine
        begin = partial(TokenSession, spec, self.renderer, engine.max_response_length, use_system=self.use_system)
        steps: list[Step] = []
        cut = False

        async def sample(episode: TokenSession) -> Sampled:
            nonlocal cut
            if episode.start > engine.max_prompt_length:
                raise TerminationEvent(TerminationReason.MAX_PROMPT_LENGTH_EXCEEDED)
            prompt, version = episode.prompt(), engine.weight_version
            output = await self._ask_engine(prompt, episode.tokens_left, uid)
            ids = list(output.token_ids if hasattr(output, "token_ids") else output.tokens)
            logprobs = list(output.log_probs if hasattr(output, "log_probs") else output.logprobs)
            cut = output.stop_reason == "length"
            steps.append(self._step(prompt, ids, logprobs, cut, version))
            return Sampled(ids, logprobs)

        session = (await play_tokens(begin, sample)).session
        if not session.valid:
            raise InvalidEpisode(session.verdict, f"{spec.to_json()} is not trained on: {session.verdict}")
        if not steps:
            raise TerminationEvent(TerminationReason.MAX_RESPONSE_LENGTH_EXCEEDED)
        for step, reward in zip(steps, session.turn_rewards, strict=True):
            step.reward = reward
        steps[-1].done = session.done
        ended = session.done and not cut
        reason = TerminationReason.ENV_DONE if ended else TerminationReason.MAX_RESPONSE_LENGTH_EXCEEDED
        played = Episode(trajectories=[Trajectory(name=NAME, task=task, steps=steps)])
        played = self.postprocess_episode(played, reason)
        played.is_correct = session.verdict is not None and session.verdict.success
        played.metrics = {**played.metrics, "turns": float(session.turns), "success": float(played.is_correct)}
        return played

    async def _ask_engine(self, prompt: list[int], tokens_left: int, uid: str) -> Any:
        settings: dict[str, Any] = {"max_tokens": min(self.max_turn_tokens or tokens_left, tokens_left)}
        if hasattr(self.rollout_engine, "server_manager"):  # verl's; the others stop at strings of their own
            settings["stop_token_ids"] = sorted(self.renderer.end_ids)
        return await self.rollout_engine.get_token_output_from_token_input(
            prompt, application_id=uid, enforce_max_prompt_length=False, **settings
        )

    def _step(self, prompt: list[int], ids: list[int], logprobs: list[float], cut: bool, version: int) -> Step:
        text = self.renderer.reply_text(ids, prompt)
        output = ModelOutput(
            text=text,
            content=text,
            prompt_ids=prompt,
            completion_ids=ids,
            logprobs=logprobs,
            prompt_length=len(prompt),
            completion_length=len(ids),
            finish_reason="length" if cut else "stop",
            weight_version=version,
        )
        return Step(
            prompt_ids=prompt,
            response_ids=ids,
            logprobs=logprobs,
            model_response=text,
            model_output=output,
            chat_completions=[{"role": "assistant", "content": text}],  # rLLM drops a last step that has none
            action=text,
            reward=0.0,  # known when all is played
            weight_version=version,
        )


check_override(getattr(Workflow, "run", None), RllmWorkflow.run, TESTED)
