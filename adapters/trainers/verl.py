"""verl: our environments under its trainers, as an agent loop; see docs/adapters/verl.md.

verl's workers find it by a file such as ``examples/verl_agent_loop.yaml``, and it finds the task in a row of
`rlvr.adapters.rows` with ``format="verl"``. The reward is the environment's; no reward function is asked.
``data.max_response_length`` bounds all that follows the first prompt; an episode that it cuts keeps what it earned.

An invalid verdict teaches nothing: the session fails, verl logs why, and pads the batch with rows that weigh nothing.
Its older trainer (``trainer.use_v1=false``) would die of that: there the episode's mask is empty, while its reward of 0
stays in its group's baseline.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import lru_cache, partial
from inspect import getattr_static
from typing import Any, NamedTuple
from uuid import uuid4

from rlvr.adapters.message_pieces import MARK, PROBES, Reference, learn
from rlvr.adapters.quick_calls import call
from rlvr.adapters.rows import AGENT, read_spec
from rlvr.adapters.spec import EpisodeSession, InvalidEpisode
from rlvr.adapters.versions import require
from rlvr.agents import Message, TokenSequence
from rlvr.agents.plain_text import any_of, control_tokens
from rlvr.agents.rendering import NoChatTemplate, Renderer, clean, decoder, require_tools_shown

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
    """What we need to know of a tokenizer and its template.

    Attributes:
        special, special_ids: its special tokens.
        data, own_data: what must stay text in everybody else's messages, and in the assistant's own.
        end_id: what ends a reply.
        decode: the text of ids without special tokens.
        reply_text: the action that ids are, sampled after a prompt: with the thought that this opened.
    """

    special: re.Pattern[str]
    special_ids: frozenset[int]
    data: re.Pattern[str]
    own_data: re.Pattern[str]
    end_id: int
    decode: Callable[[Sequence[int]], str]
    reply_text: Callable[[Sequence[int], Sequence[int]], str]


@lru_cache(maxsize=4)
def _dialect(tokenizer: Any, options: tuple[tuple[str, Any], ...] = ()) -> Dialect:
    added = {number: token.content for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    special = dict(zip(tokenizer.all_special_ids, map(str, tokenizer.all_special_tokens), strict=True)) | added
    pattern, decode = any_of(special.values()), decoder(tokenizer)
    end: int | None = tokenizer.eos_token_id
    data, own_data, reply_text = any_of(control_tokens(tokenizer)), pattern, lambda ids, prompt: decode(ids)
    try:
        renderer = Renderer(tokenizer, template_options=dict(options))
    except NoChatTemplate:  # verl has a few templates of its own
        pass
    else:
        end, data, own_data, reply_text = renderer.end_id, renderer.data, renderer.own_data, renderer.reply_text
    if end is None:
        raise ValueError(f"the tokenizer of {tokenizer.name_or_path!r} has no token that ends a reply: set eos_token")
    return Dialect(pattern, frozenset(special), data, own_data, end, decode, reply_text)


class Change(NamedTuple):
    """What a message does to the tokens: so many of the last go, and these come."""

    removed: int
    ids: list[int]


# A builder with any other hook of its own may look at more than a message and the last tokens before it.
LOCAL_HOOKS = frozenset({"_merge_context_token_ids", "_synthetic_assistant_for_tools"})
JUNCTION = 16  # tokens before a message, of which builders repair the last
REMEMBERED = 256  # first prompts, and messages of each kind: in a group many are the same
KINDS = 64  # of messages, by role and tools

Ids = Callable[[str], "list[int] | None"]


class QuickBuilder:
    """What verl's builder adds, without asking it for each message: one for all builders that are alike.

    Args:
        builder: verl's, one that `is_local`.
        special: what spells a special token.
    """

    def __init__(self, builder: Any, special: re.Pattern[str]) -> None:
        self.builder, self.special = builder, special
        self.template: str = builder.tokenizer.get_chat_template(builder.chat_template_kwargs.get("chat_template"))
        self._kinds: dict[tuple[str, str], tuple[str, Ids] | None] = {}
        self._prompts: dict[tuple[Any, ...], list[int]] = {}

    def prompt(self, messages: list[Message], tools: list[Any] | None, schemas: str) -> list[int]:
        """A first prompt's tokens.

        Args:
            messages: of the conversation.
            tools: for the template.
            schemas: the same as one text.
        """
        key = (schemas, *((message["role"], message["content"]) for message in messages))
        ids = self._prompts.get(key)
        if ids is None:
            ids = self.builder.build_initial_tokens(messages, tools=tools)
            if "strftime_now" not in self.template:
                _remember(self._prompts, key, ids, REMEMBERED)
        return ids

    def knows(self, role: str, schemas: str) -> bool:
        """Whether `learn` was called for messages of this role beside these tools."""
        return (role, schemas) in self._kinds

    def learn(self, role: str, tools: list[Any] | None, schemas: str) -> None:
        """Find out how messages of a role are put together; it takes a hundredth of a second."""
        key = (role, schemas)
        role, found = self._learn(role, tools)
        kind = (role, lru_cache(maxsize=REMEMBERED)(found)) if found else None
        _remember(self._kinds, key, kind, KINDS)

    def message(self, messages: list[Message], ids: list[int], schemas: str) -> Change | None:
        """What the last of the messages does after these tokens; None where the builder must be asked."""
        last = messages[-1]
        kind = self._kinds.get((last["role"], schemas))
        if kind is None or (added := kind[1](last["content"])) is None:
            return None
        junction, message = ids[-JUNCTION:], {"role": kind[0], "content": last["content"]}
        merged = self.builder._merge_context_token_ids(
            junction, added, previous_messages=messages[:-1], appended_messages=[message]
        )
        return _change(merged, len(junction))

    def _learn(self, role: str, tools: list[Any] | None) -> tuple[str, Ids | None]:
        """The role in which such messages are said, and what gives their tokens."""
        reference = self._reference(role, tools)
        try:
            pieces = learn(reference, self.template, self.special, self._encode)
        except Exception:  # of the template or the builder, which refuse the role; who asks them says so
            if role == "tool" and all(_refuses(reference, probe) for probe in (MARK, *PROBES)):
                return self._learn("user", tools)
            return role, None
        return role, pieces.ids if pieces else None

    def _reference(self, role: str, tools: list[Any] | None) -> Reference:
        """The builder's own tokens for a message, and the texts that it encodes for them."""
        watched, tokenizer = copy(self.builder), self.builder.tokenizer
        texts: list[str] = []

        def render(messages: Any, *, add_generation_prompt: bool, tools: Any = None) -> list[int]:
            given = {"add_generation_prompt": add_generation_prompt, "tools": tools}
            ids: list[int] = self.builder._render_tokens(messages, **given)
            with suppress(Exception):  # of a template that takes them in another way alone: a text is missing then
                options = self.builder.chat_template_kwargs
                texts.append(tokenizer.apply_chat_template(messages, tokenize=False, **given, **options))
            return ids

        def reference(content: str) -> tuple[list[int], list[str]]:
            texts.clear()
            message = {"role": role, "content": content}
            return watched.tokenize_context_incremental_messages([], [message], tools=tools), texts[:]

        watched._render_tokens = render
        return reference

    def _encode(self, text: str) -> list[int]:
        tokenizer = self.builder.tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        # The wrapper around it first takes back what others set in it, which costs as much again.
        if backend is None or backend.truncation or backend.padding or backend.encode_special_tokens:
            return list(tokenizer.encode(text, add_special_tokens=False))
        return list(backend.encode(text, add_special_tokens=False).ids)


def is_local(builder: Any, dialect: Dialect) -> bool:
    """Whether what a builder adds depends on the message, the tools and the last tokens before it, and nothing else."""
    kind, base = type(builder), type(builder).__mro__[-2]
    hooks = {name for name in vars(base) if not name.startswith("__")}
    own = {name for name in hooks if getattr_static(kind, name) is not getattr_static(base, name)}
    if not own <= LOCAL_HOOKS <= hooks:
        return False
    messages = {"previous_messages": [], "appended_messages": [{"role": "user", "content": "x"}]}
    for last in [dialect.end_id, *sorted(dialect.special_ids)[:KINDS]]:
        whole = [*[*range(8)] * 8, last]
        try:
            long, short = (
                _change(builder._merge_context_token_ids(before, [1, 2], **messages), len(before))
                for before in (whole, whole[-JUNCTION:])
            )
        except Exception:  # of a hook that is not what it was
            return False
        if long != short:
            return False
    return True


def _change(merged: Any, before: int) -> Change:
    removed = merged.removed_prefix_token_count
    return Change(removed, list(merged.token_ids[before - removed :]))


def _refuses(reference: Reference, probe: str) -> bool:
    try:
        reference(probe)
    except Exception:
        return True
    return False


def _remember(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Keep it, and let go of the oldest where there are too many."""
    while len(known) >= most:
        known.pop(next(iter(known)), None)
    known[key] = value


_quick_builders: dict[Any, QuickBuilder | None] = {}


def quick_builder(builder: Any, dialect: Dialect) -> QuickBuilder | None:
    """The one for builders like this, since verl makes a builder for each episode; None where it must be asked."""
    tokenizer, options = builder.tokenizer, builder.chat_template_kwargs
    key = (tokenizer, type(builder), str(tokenizer.chat_template), str(options) if options else "")
    if key not in _quick_builders:
        found = QuickBuilder(builder, dialect.special) if is_local(builder, dialect) else None
        _remember(_quick_builders, key, found, 4)
    return _quick_builders[key]


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
        self.dialect = _dialect(self.tokenizer, _hashable(self.continuous_token_builder.chat_template_kwargs))
        self.quick = quick_builder(self.continuous_token_builder, self.dialect)

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
        tools = _broken(list(session.info.get("tools") or ()), self.dialect.data) or None
        request = uuid4().hex  # one for all turns, so that they go where their beginning is in the cache
        if self.rollout_config.get("full_determinism", False):
            request = f"det-{priority}"
        notes: dict[str, Any] = {"routed_experts": None, "extra_fields": {"turn_scores": [], "tool_rewards": []}}
        notes["metrics"] = {"generate_sequences": 0.0, "tool_calls": 0.0, "num_preempted": -1}
        messages = [self._plain(message) for message in session.messages or prompt]
        schemas = json.dumps(tools) if tools else ""
        room: int = self.rollout_config.response_length
        scored = bool(sampling_params.get("logprobs"))
        tokens = TokenSequence()
        tokens.append_context(await self._begin(messages, tools, schemas))
        start, earned = len(tokens), 0.0
        while not session.done and (left := start + room - len(tokens)) > 0:
            began = time.perf_counter()
            output = await self.server_manager.generate(
                request_id=request,
                prompt_ids=tokens.ids[:],
                sampling_params={**sampling_params, "max_tokens": min(self.max_turn_tokens or room, left)},
                priority=priority,
            )
            sampled_at = time.perf_counter()
            sampled = list(output.token_ids)
            self._add_reply(tokens, sampled, list(output.log_probs or ()) if scored else [0.0] * len(sampled))
            text = self.dialect.decode(sampled)
            action = self.dialect.reply_text(sampled, tokens.ids[: len(tokens) - len(sampled)])
            answer = await call(session.spec.env_id, partial(session.step, action))
            before, earned = earned, session.reward
            _note(notes, output, sampled_at - began, time.perf_counter() - sampled_at, earned - before)
            if answer is None:
                break
            messages += [self._plain({"role": "assistant", "content": text}), self._plain(answer)]
            # Cut off in the middle, and verl would leave the turn open.
            end = [] if tokens.ids[-1] in self.dialect.special_ids else [self.dialect.end_id]
            change = await self._add_message(messages, tokens.ids, end, tools, schemas)
            if len(tokens) + len(end) - change.removed + len(change.ids) >= start + room:
                break  # not a word more would fit
            tokens.append_context(end)
            if change.removed:
                tokens = tokens.piece(0, len(tokens) - change.removed)
            tokens.append_context(change.ids)
        if len(tokens) == start:  # it failed before the first turn, and the older trainer wants a token
            tokens.append_context([self.dialect.end_id])
        return AgentLoopOutput(
            prompt_ids=tokens.ids[:start],
            response_ids=tokens.ids[start:],
            response_mask=tokens.mask[start:],
            response_logprobs=tokens.logprobs[start:] if scored else None,
            reward_score=session.reward,
            num_turns=2 * session.turns,
            **notes,
        )

    async def _begin(self, messages: list[Message], tools: Any, schemas: str) -> list[int]:
        """The first prompt. verl's wrapper would cut off its beginning, and the policy would guess at the rest."""
        if self.quick:
            build = partial(self.quick.prompt, messages, tools, schemas)
        else:
            build = partial(self.continuous_token_builder.build_initial_tokens, messages, tools=tools)
        ids: list[int] = await call("verl's first prompt", build)
        if tools:
            require_tools_shown(tools, self.tokenizer.decode(ids))
        if len(ids) > (limit := self.rollout_config.prompt_length):
            raise ValueError(
                f"a first prompt has {len(ids)} tokens, more than data.max_prompt_length={limit}: "
                "raise it, or leave such rows out with data.filter_overlong_prompts=true"
            )
        return ids

    # What verl's `ct_merge_assistant_token` and `ct_merge_context_msg` do; they change threads in each turn.

    def _add_reply(self, tokens: TokenSequence, sampled: list[int], logprobs: list[float]) -> None:
        if not self.quick:
            merged = self.continuous_token_builder.merge_assistant_tokens(tokens.ids, sampled)
            tokens.append_context(merged.inserted_token_ids)
        tokens.append_sampled(sampled, logprobs)

    async def _add_message(
        self, messages: list[Message], ids: list[int], end: list[int], tools: Any, schemas: str
    ) -> Change:
        """What the last of the messages does to the tokens and those that close a reply."""
        if self.quick:
            role = messages[-1]["role"]
            if not self.quick.knows(role, schemas):
                await call("verl's templates", partial(self.quick.learn, role, tools, schemas))
            if change := self.quick.message(messages, ids[-JUNCTION:] + end, schemas):
                return change
        ids, end = ids + end, []
        try:
            merge = self.continuous_token_builder.merge_context_tokens
            merged = await call("verl's next message", partial(merge, messages[:-1], messages, ids, tools=tools))
        except Exception:
            if messages[-1]["role"] != "tool":
                raise
            # A template, or verl's builder for it, that knows tools' answers only after calls of its own form.
            messages[-1] = {**messages[-1], "role": "user"}
            return await self._add_message(messages, ids, end, tools, schemas)
        return _change(merged, len(ids))

    def _plain(self, message: Message) -> Message:
        """The message, in which nothing is spelled that verl's templates would take for a token or another message."""
        data = self.dialect.own_data if message["role"] == "assistant" else self.dialect.data
        return {"role": message["role"], "content": _broken(clean(message["content"]), data)}


def _broken(value: Any, data: re.Pattern[str]) -> Any:
    """A text, or a schema, with a break in each spelling of what is to stay text."""
    if isinstance(value, str):
        return data.sub(lambda spelling: spelling[0][0] + BREAK + spelling[0][1:], value)
    if isinstance(value, dict):
        return {_broken(key, data): _broken(inner, data) for key, inner in value.items()}
    return [_broken(inner, data) for inner in value] if isinstance(value, list) else value


def _hashable(options: Any) -> tuple[tuple[str, Any], ...]:
    """Those variables of the template that can be told from others."""
    given = dict(options or {}).items()
    return tuple((name, value) for name, value in given if isinstance(value, str | int | float | bool | None))


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
