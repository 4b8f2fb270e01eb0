"""One episode with its tokens: how far it may grow, and which tools it tells of."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from rlvr.adapters import testing as kit
from rlvr.adapters.token_session import TokenSession
from rlvr.agents.models.tiny import tiny_tokenizer
from rlvr.agents.rendering import Renderer

TOOLS = "{%- if tools -%}{{- '<|tool|>' + (tools | tojson) + '<|end|>' -}}{%- endif -%}"


def play(session: TokenSession, word: str) -> list[int]:
    """Says the same until it is over; how many tokens each reply kept."""
    tokenizer, kept = session.renderer.tokenizer, []
    while not session.done and session.tokens_left > 0:
        before = session.tokens_left
        session.step_tokens([*tokenizer.encode(word), tokenizer.eos_token_id])
        kept.append(min(before, len(tokenizer.encode(word)) + 1))
    return kept


def test_the_whole_conversation_may_have_a_bound():
    renderer, (spec,) = Renderer(tiny_tokenizer()), kit.say_specs(1)
    free = TokenSession(spec, renderer, 1000)
    assert len(play(free, "maybe")) == 3
    bound = TokenSession(spec, renderer, 1000, longest=free.start + 10)
    assert bound.tokens_left == 10
    assert play(bound, "maybe") == [6]  # no room for what the environment says next
    assert len(bound.tokens) == free.start + 6
    assert bound.tokens.ids == free.tokens.ids[: free.start + 6]
    assert TokenSession(spec, renderer, 7, longest=free.start + 10).tokens_left == 7
    assert TokenSession(spec, renderer, 7, longest=free.start).tokens_left == 0
    assert TokenSession(spec, renderer, 7, longest=3).tokens_left < 0


def test_the_template_is_told_of_the_environments_tools(monkeypatch):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TOOLS + tokenizer.chat_template
    renderer, (spec,) = Renderer(tokenizer), kit.say_specs(1)
    assert "look" not in tokenizer.decode(TokenSession(spec, renderer, 100).prompt())
    schema = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {}}}
    monkeypatch.setattr(kit.SayTask, "tools", [schema])
    session = TokenSession(spec, renderer, 1000)
    assert len(play(session, "maybe")) == 3
    assert tokenizer.decode(session.tokens.ids).count('"name": "look"') == 1
