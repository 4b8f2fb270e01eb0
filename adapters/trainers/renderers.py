"""A renderer for the training client of verifiers and prime-rl: no reply is encoded again, whatever the chat template.

Their fallback for models they do not know (``DefaultRenderer``) renders the whole conversation anew for every turn.
Where that does not give back what was sampled (a reply cut by its length, a template that trims or drops thinking),
one episode falls into several training samples. This one appends, as our own rollouts do: an episode is one sample. ::

    [orchestrator.renderer]
    name = "custom"
    import_path = "rlvr.adapters.trainers.renderers.AppendingRenderer"

A reply is its text: no tool calls and no thinking are cut out of it, since our environments read both themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rlvr.adapters.versions import require
from rlvr.agents import Conversation
from rlvr.agents.rendering import Renderer

TESTED = ("renderers", "0.1.12", "0.2")
require(*TESTED)

from renderers import ParsedResponse, RenderedTokens  # noqa: E402
from renderers.configs import BaseRendererConfig  # noqa: E402


class AppendingRendererConfig(BaseRendererConfig):  # type: ignore[misc]  # renderers is not here when types are checked
    """``template_options`` are variables for the chat template, such as ``{"enable_thinking": False}``."""

    _internal_fields = frozenset({"template_options"})
    template_options: dict[str, Any] = {}  # noqa: RUF012  (pydantic's own declaration)


class AppendingRenderer:
    """What `renderers.Renderer` asks for, over `rlvr.agents.rendering.Renderer`.

    All new tokens of a turn count as its last message's; ``is_content`` is left empty, as `DefaultRenderer` leaves it.

    Raises:
        ValueError: ``thinking_retention`` is neither "all" nor left out: what was sampled stays.
    """

    config_class: ClassVar[type[Any]] = AppendingRendererConfig
    is_prefix_stable = False  # of renderings of whole conversations; a conversation that goes on is not rendered anew
    supports_tools = True

    def __init__(self, tokenizer: Any, config: AppendingRendererConfig | None = None) -> None:
        self.config = config or AppendingRendererConfig()
        if self.config.thinking_retention not in (None, "all"):
            raise ValueError(f"thinking_retention {self.config.thinking_retention!r}: this renderer keeps all of it")
        self.effective_thinking_retention = "all"
        self._renderer = Renderer(tokenizer, template_options=self.config.template_options)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
    ) -> RenderedTokens:
        """A conversation from its beginning. Replies in it are encoded: somebody else wrote them.

        Raises:
            ValueError: it ends with the assistant's words and asks for more, or does not end with them and asks for
                none: a chat template has no tokens of ours for that.
        """
        conversation = Conversation("", [], tools=json.dumps(list(tools)) if tools else "")
        owners: list[int] = []
        for index, message in enumerate(messages):
            if message["role"] == "assistant":
                self._append(conversation, owners, index - 1)
                conversation.tokens.append_context(self._reply(message))
                owners += [index] * (len(conversation.tokens) - len(owners))
            conversation.messages.append({"role": message["role"], "content": _text(message)})
            if message["role"] == "assistant":
                conversation.rendered = len(conversation.messages)
        if add_generation_prompt:
            self._append(conversation, owners, len(messages) - 1)
        elif conversation.rendered != len(messages):
            raise ValueError("a conversation that does not end with a reply is rendered to ask for one")
        return RenderedTokens(
            token_ids=conversation.tokens.ids,
            message_indices=owners,
            message_roles=[message["role"] for message in messages],
        )

    def render_ids(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """The tokens of `render` alone."""
        ids: list[int] = self.render(messages, **options).token_ids
        return ids

    def parse_response(self, token_ids: Sequence[int], **context: Any) -> ParsedResponse:
        """The reply's text without special tokens, whole."""
        ended = bool(token_ids) and token_ids[-1] in self._renderer.end_ids
        reply = token_ids[:-1] if ended else token_ids
        return ParsedResponse(content=self._renderer.reply_text(reply, self._renderer.opened_ids))

    def get_stop_token_ids(self) -> list[int]:
        """Ids of the tokens at which sampling stops."""
        return sorted(self._renderer.end_ids)

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: Sequence[int],
        previous_completion_ids: Sequence[int],
        new_messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
    ) -> RenderedTokens | None:
        """What was there, and after it the new messages up to where the assistant speaks; None if it is among them."""
        if not new_messages or any(message["role"] == "assistant" for message in new_messages):
            return None
        before = [*previous_prompt_ids, *previous_completion_ids]
        conversation = Conversation("", [{"role": "assistant", "content": ""}], rendered=1)
        conversation.messages += [{"role": message["role"], "content": _text(message)} for message in new_messages]
        conversation.tokens.append_context(before[-1:])
        context = self._renderer.render(conversation)
        return RenderedTokens(
            token_ids=before + context,
            message_indices=[-1] * len(before) + [len(new_messages) - 1] * len(context),
            message_roles=[message["role"] for message in new_messages],
        )

    def _append(self, conversation: Conversation, owners: list[int], owner: int) -> None:
        conversation.tokens.append_context(self._renderer.render(conversation))
        conversation.rendered = len(conversation.messages)
        owners += [owner] * (len(conversation.tokens) - len(owners))

    def _reply(self, message: Mapping[str, Any]) -> list[int]:
        ids, mask = self._renderer.render_demonstration(
            [{"role": "user", "content": "."}, {"role": "assistant", "content": _text(message)}]
        )
        return [token for token, sampled in zip(ids, mask, strict=True) if sampled]


def _text(message: Mapping[str, Any]) -> str:
    """The message's text.

    Raises:
        ValueError: it holds pictures, or tool calls of another form than text.
    """
    content = message.get("content") or ""
    if not isinstance(content, str):
        if any(part.get("type") != "text" for part in content):
            raise ValueError("this renderer takes text alone")
        content = "".join(part["text"] for part in content)
    if message.get("tool_calls"):
        raise ValueError("this renderer takes tool calls as text: our environments tell their tools in the prompt")
    return content
