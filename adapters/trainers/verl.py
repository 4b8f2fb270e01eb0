"""verl: our environments under its trainers, as an agent loop; see docs/adapters/verl.md.

verl's workers find it by a file such as ``examples/verl_agent_loop.yaml``, and it finds the task in a row of
`rlvr.adapters.rows` with ``format="verl"``. The reward is the environment's; no reward function is called.
``data.max_response_length`` bounds all that follows the first prompt; an episode that it cuts keeps what it earned.

An invalid verdict teaches nothing: the session fails, verl logs why, and pads the batch with rows of weight 0.
Its older trainer (``trainer.use_v1=false``) would die of that: there the episode's mask is empty, while its reward of 0
stays in its group's baseline.
"""

from __future__ import annotations

import json
import time
from copy import deepcopy
from functools import lru_cache, partial
from typing import Any
from uuid import uuid4

from rlvr.adapters.rows import AGENT, read_spec
from rlvr.adapters.spec import InvalidEpisode
from rlvr.adapters.token_session import Sampled, TokenSession, play_tokens
from rlvr.adapters.versions import require
from rlvr.agents.rendering import Renderer

TESTED = ("verl", "0.9.1", "0.10")
require(*TESTED)
try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
except ImportError as error:
    raise ImportError(
        f"{error}; verl does not declare all it imports: pip install cachetools fastapi uvicorn"
    ) from error


@lru_cache(maxsize=4)
def _renderer(tokenizer: Any, template_options: str) -> Renderer:
    """The renderer of a worker, whose loops live for one episode each; verl uses its own tokenizer in other threads."""
    return Renderer(deepcopy(tokenizer), template_options=json.loads(template_options))


@register(AGENT)
class AgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one episode, tokens to the engine and back: what was sampled is never encoded again.

    Args:
        max_turn_tokens: the longest reply; None leaves it to the conversation's budget.
        use_system: whether the conversation begins with the environment's system prompt; rows should agree.
        options: verl's own arguments.

    Raises:
        TypeError: an option that there is not.
        ValueError: max_turn_tokens is below 1, or the tokenizer has no chat template.
    """

    def __init__(self, *args: Any, max_turn_tokens: int | None = None, use_system: bool = True, **options: Any) -> None:
        # verl's own are objects and names, and its base class ignores what it does not know.
        if unknown := [name for name, value in options.items() if isinstance(value, int | float)]:
            raise TypeError(f"the agent loop has no option {unknown[0]!r}; it has max_turn_tokens and use_system")
        if max_turn_tokens is not None and max_turn_tokens < 1:
            raise ValueError(f"max_turn_tokens must be at least 1, got {max_turn_tokens}")
        super().__init__(*args, **options)
        self.max_turn_tokens, self.use_system = max_turn_tokens, use_system
        template_options = dict(self.continuous_token_builder.chat_template_kwargs or {})
        self.renderer = _renderer(self.tokenizer, json.dumps(template_options, sort_keys=True))

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **row: Any) -> AgentLoopOutput:
        """Play the row's task.

        Raises:
            InvalidEpisode: the environment failed.
            ValueError: the row names no task, its prompt is too long, or the chat template leaves out the tools.
        """
        spec = read_spec({"extra_info": row.get("extra_info")})
        token_budget: int = self.rollout_config.response_length
        begin = partial(
            TokenSession,
            spec,
            self.renderer,
            token_budget,
            use_system=self.use_system,
            instead=row["raw_prompt"],
        )
        request = uuid4().hex  # one for all turns, so that they go where their beginning is in the cache
        if self.rollout_config.get("full_determinism", False):
            request = f"det-{int(priority)}"
        is_scored = bool(sampling_params.get("logprobs"))
        metrics = {"generate_sequences": 0.0, "tool_calls": 0.0, "num_preempted": -1}
        notes: dict[str, Any] = {"metrics": metrics, "routed_experts": None, "extra_fields": {"tool_rewards": []}}
        clock = time.perf_counter()

        async def sample(episode: TokenSession) -> Sampled:
            nonlocal clock
            if not episode.session.turns:
                self._check_length(episode.start)
            asked_at = time.perf_counter()
            metrics["tool_calls"] += asked_at - clock
            limit = min(self.max_turn_tokens or token_budget, episode.tokens_left)
            output = await self.server_manager.generate(
                request_id=request,
                prompt_ids=episode.prompt(),
                sampling_params={**sampling_params, "max_tokens": limit},
                priority=int(priority),
            )
            clock = time.perf_counter()
            metrics["generate_sequences"] += clock - asked_at
            _note(notes, output)
            return Sampled(list(output.token_ids), list(output.log_probs or ()) if is_scored else None)

        episode = await play_tokens(begin, sample)
        metrics["tool_calls"] += time.perf_counter() - clock
        session = episode.session
        if not session.valid and "session_id" in row:  # only the worker of the newer trainer counts its sessions
            raise InvalidEpisode(session.verdict, f"{spec.to_json()} is not trained on: {session.verdict}")
        prompt, completion = episode.parts()
        notes["extra_fields"]["turn_scores"] = session.turn_rewards
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=completion.ids,
            response_mask=completion.mask,
            response_logprobs=completion.logprobs if is_scored else None,
            reward_score=session.reward,
            num_turns=2 * session.turns,
            **notes,
        )

    def _check_length(self, length: int) -> None:
        """Raise ValueError for a first prompt whose beginning verl would cut off: the policy would guess at it."""
        if length > (limit := self.rollout_config.prompt_length):
            raise ValueError(
                f"a first prompt has {length} tokens, more than data.max_prompt_length={limit}: "
                "raise it, or leave such rows out with data.filter_overlong_prompts=true"
            )


def _note(notes: dict[str, Any], output: Any) -> None:
    """Add what the engine tells beside the tokens of a turn."""
    metrics, fields = notes["metrics"], notes["extra_fields"]
    if output.num_preempted is not None:
        metrics["num_preempted"] = max(metrics["num_preempted"], 0) + output.num_preempted
    if output.routed_experts is not None:
        notes["routed_experts"] = output.routed_experts
    for name, value in output.extra_fields.items():
        if name.startswith("spec_"):  # counts of speculative decoding
            value = value + fields.get(name, 0)
        if name != "min_global_steps" or name not in fields:  # the weights of the first turn, and of the last
            fields[name] = value
