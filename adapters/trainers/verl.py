"""verl: our environments under its trainers, as an agent loop; see docs/adapters/verl.md.

verl's workers find it by a file such as ``examples/verl_agent_loop.yaml``, and it finds the task in a row of
`rlvr.adapters.rows` with ``format="verl"``. The reward is the environment's; no reward function is asked.
``data.max_response_length`` bounds all that follows the first prompt; an episode that it cuts keeps what it earned.

An invalid verdict teaches nothing: the session fails, verl logs why, and pads the batch with rows that weigh nothing.
Its older trainer (``trainer.use_v1=false``) would die of that: there the episode's mask is empty, while its reward of 0
stays in its group's baseline.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple
from uuid import uuid4

from rlvr.adapters.quick_calls import call
from rlvr.adapters.rows import AGENT, read_spec
from rlvr.adapters.spec import EpisodeSession, InvalidEpisode
from rlvr.adapters.versions import require
from rlvr.agents import Message
from rlvr.agents.rendering import NoChatTemplate, Renderer, require_tools_shown

TESTED = ("verl", "0.9.1", "0.10")
require(*TESTED)
try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
except ImportError as error:
    raise ImportError(
        f"{error}; verl does not declare all it imports: pip install cachetools fastapi uvicorn"
    ) from error

logger = logging.getLogger(__name__)
BREAK = "\u200b"  # of no width: put into a special token's spelling, so that it is read as text


class Dialect(NamedTuple):
    """What we need to know of a tokenizer: its special tokens, as a pattern and as ids, and what ends a reply."""

    special: re.Pattern[str]
    special_ids: frozenset[int]
    end_id: int


@lru_cache(maxsize=4)
def _dialect(tokenizer: Any) -> Dialect:
    added = {number: token.content for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    special = dict(zip(tokenizer.all_special_ids, map(str, tokenizer.all_special_tokens), strict=True)) | added
    spelled = sorted(filter(None, special.values()), key=len, reverse=True)
    try:
        end: int | None = Renderer(tokenizer).end_id
    except NoChatTemplate:  # verl has a few templates of its own
        end = tokenizer.eos_token_id
    if end is None:
        raise ValueError(f"the tokenizer of {tokenizer.name_or_path!r} has no token that ends a reply: set eos_token")
    pattern = re.compile("|".join(map(re.escape, spelled)) or r"(?!)")
    return Dialect(pattern, frozenset(special), end)


class _Tokens(NamedTuple):
    """A conversation so far: everything, and of what follows the first prompt the mask and the log-probabilities."""

    ids: list[int]
    mask: list[int]
    logprobs: list[float] | None


@register(AGENT)
class AgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one episode through verl's "continuous token" helpers: what was sampled is never encoded again.

    Args:
        max_turn_tokens: the longest reply; None leaves it to the conversation's budget.
        use_system: whether the conversation begins with the environment's system prompt; rows should agree.
        given: verl's own arguments.

    Raises:
        TypeError: an option that there is not.
        ValueError: max_turn_tokens is below 1.
    """

    def __init__(self, *args: Any, max_turn_tokens: int | None = None, use_system: bool = True, **given: Any) -> None:
        # verl's own are objects and names, and its base class ignores what it does not know.
        if unknown := [name for name, value in given.items() if isinstance(value, int | float)]:
            raise TypeError(f"the agent loop has no option {unknown[0]!r}; it has max_turn_tokens and use_system")
        if max_turn_tokens is not None and max_turn_tokens < 1:
            raise ValueError(f"max_turn_tokens must be at least 1, got {max_turn_tokens}")
        super().__init__(*args, **given)
        self.max_turn_tokens, self.use_system = max_turn_tokens, use_system
        self.dialect = _dialect(self.tokenizer)

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **row: Any) -> AgentLoopOutput:
        """Play the row's task.

        Raises:
            InvalidEpisode: the environment failed.
            ValueError: the row names no task, its prompt is too long, or the chat template leaves out the tools.
        """
        spec = read_spec({"extra_info": row.get("extra_info")})
        begin = partial(EpisodeSession, spec, use_system=self.use_system, tools=True)
        session = await call(f"reset {spec.env_id}", begin)
        try:
            output = await self._play(session, row["raw_prompt"], sampling_params, int(priority))
        finally:
            await call(f"close {spec.env_id}", session.close)
        if session.valid:
            return output
        reason = f"{spec.to_json()} is not trained on: {session.verdict}"
        if "session_id" in row:  # only the worker of the newer trainer counts its sessions
            raise InvalidEpisode(session.verdict, reason)
        logger.warning(reason)
        output.reward_score, output.response_mask = 0.0, [0] * len(output.response_mask)
        return output

    async def _play(
        self, session: EpisodeSession, prompt: Sequence[Message], sampling_params: dict[str, Any], priority: int
    ) -> AgentLoopOutput:
        tools = list(session.info.get("tools") or ()) or None
        request = uuid4().hex  # one for all turns, so that they go where their beginning is in the cache
        if self.rollout_config.get("full_determinism", False):
            request = f"det-{priority}"
        notes: dict[str, Any] = {"routed_experts": None, "extra_fields": {"turn_scores": [], "tool_rewards": []}}
        notes["metrics"] = {"generate_sequences": 0.0, "tool_calls": 0.0, "num_preempted": -1}
        messages = [self._plain(message) for message in session.messages or prompt]
        room: int = self.rollout_config.response_length
        tokens = _Tokens(await self._begin(messages, tools), [], [] if sampling_params.get("logprobs") else None)
        while not session.done and len(tokens.mask) < room:
            longest = min(self.max_turn_tokens or room, room - len(tokens.mask))
            began, before = time.perf_counter(), session.reward
            output = await self.server_manager.generate(
                request_id=request,
                prompt_ids=tokens.ids,
                sampling_params={**sampling_params, "max_tokens": longest},
                priority=priority,
            )
            sampled_at = time.perf_counter()
            tokens = self._add_reply(tokens, output)
            text = self.tokenizer.decode(output.token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            answer = await call(session.spec.env_id, partial(session.step, text))
            _note(notes, output, sampled_at - began, time.perf_counter() - sampled_at, session.reward - before)
            if answer is None:
                break
            messages += [self._plain({"role": "assistant", "content": text}), self._plain(answer)]
            longer = await self._add_message(messages, tokens, tools)
            if len(longer.mask) >= room:  # not a word more would fit
                break
            tokens = longer
        start = len(tokens.ids) - len(tokens.mask)
        if not tokens.mask:  # it failed before the first turn, and the older trainer wants a token
            tokens = _Tokens([*tokens.ids, self.dialect.end_id], [0], None if tokens.logprobs is None else [0.0])
        return AgentLoopOutput(
            prompt_ids=tokens.ids[:start],
            response_ids=tokens.ids[start:],
            response_mask=tokens.mask,
            response_logprobs=tokens.logprobs,
            reward_score=session.reward,
            num_turns=2 * session.turns,
            **notes,
        )

    async def _begin(self, messages: list[Message], tools: Any) -> list[int]:
        """The first prompt. verl's wrapper would cut off its beginning, and the policy would guess at the rest."""
        build = self.continuous_token_builder.build_initial_tokens
        ids: list[int] = await call("verl's first prompt", partial(build, messages, tools=tools))
        require_tools_shown(tools or (), self.tokenizer.decode(ids))
        if len(ids) > (limit := self.rollout_config.prompt_length):
            raise ValueError(
                f"a first prompt has {len(ids)} tokens, more than data.max_prompt_length={limit}: "
                "raise it, or leave such rows out with data.filter_overlong_prompts=true"
            )
        return ids

    # What verl's `ct_merge_assistant_token` and `ct_merge_context_msg` do; they change threads in each turn.

    def _add_reply(self, tokens: _Tokens, output: Any) -> _Tokens:
        logprobs = None if tokens.logprobs is None else list(output.log_probs or [])
        builder = self.continuous_token_builder
        merged = builder.merge_assistant_tokens(tokens.ids, list(output.token_ids))
        return _Tokens(
            merged.token_ids,
            *builder.align_response_metadata(merged, tokens.mask, tokens.logprobs, assistant_logprobs=logprobs),
        )

    async def _add_message(self, messages: list[Message], tokens: _Tokens, tools: Any) -> _Tokens:
        """The tokens with the last of the messages after them."""
        ids, mask, logprobs = tokens
        if ids[-1] not in self.dialect.special_ids:  # cut off in the middle, and verl would leave the turn open
            ids, mask = [*ids, self.dialect.end_id], [*mask, 0]
            logprobs = None if logprobs is None else [*logprobs, 0.0]
        try:
            builder = self.continuous_token_builder
            merge = partial(builder.merge_context_tokens, messages[:-1], messages, ids, tools=tools)
            merged = await call("verl's next message", merge)
            mask, logprobs = builder.align_response_metadata(merged, mask, logprobs)
        except Exception:
            if messages[-1]["role"] != "tool":
                raise
            # A template, or verl's builder for it, that knows tools' answers only after calls of its own form.
            messages[-1] = {**messages[-1], "role": "user"}
            return await self._add_message(messages, tokens, tools)
        return _Tokens(merged.token_ids, mask, logprobs)

    def _plain(self, message: Message) -> Message:
        """The message, in which no special token is spelled: verl's templates would take it for one."""
        content = self.dialect.special.sub(lambda found: found[0][0] + BREAK + found[0][1:], message["content"])
        return {"role": message["role"], "content": content}


def _note(notes: dict[str, Any], output: Any, waited: float, stepped: float, earned: float) -> None:
    """Add a turn: the engine's output, the seconds of engine and environment, and the reward."""
    metrics, fields = notes["metrics"], notes["extra_fields"]
    metrics["generate_sequences"] += waited
    metrics["tool_calls"] += stepped
    if output.num_preempted is not None:
        metrics["num_preempted"] = max(metrics["num_preempted"], 0) + output.num_preempted
    if output.routed_experts is not None:
        notes["routed_experts"] = output.routed_experts
    for name, value in output.extra_fields.items():
        if name.startswith("spec_"):  # counts of speculative decoding
            value = value + fields.get(name, 0)
        if name != "min_global_steps" or name not in fields:  # the weights of the first turn, and of the last
            fields[name] = value
    fields["turn_scores"].append(earned)
