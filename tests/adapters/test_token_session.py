"""One episode with its tokens: how far it may grow, and which tools it tells of."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from rlvr.adapters import rows
from rlvr.adapters import testing as kit
from rlvr.adapters.spec import EpisodeSession, TaskSpec, grade
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


def test_each_token_keeps_the_version_of_the_weights_that_sampled_it():
    renderer, (spec,) = Renderer(tiny_tokenizer()), kit.say_specs(1)
    session = TokenSession(spec, renderer, 1000)
    ids = [*renderer.tokenizer.encode("maybe"), renderer.end_id]
    session.step_tokens(ids, [-1.0] * len(ids), [3] + [4] * (len(ids) - 1))
    second = len(session.tokens)
    session.step_tokens(ids[:2], [-1.0] * 2, [4, 5])
    versions, mask = session.tokens.versions, session.tokens.mask
    assert versions[session.start : session.start + len(ids)] == [3] + [4] * (len(ids) - 1)
    assert versions[second : second + 2] == [4, 5]
    assert {version for version, ours in zip(versions, mask, strict=True) if not ours} == {-1}
    short = TokenSession(spec, renderer, 2)
    short.step_tokens(ids, [-1.0] * len(ids), range(len(ids)))
    assert short.tokens.versions[short.start :] == [0, 1]
    unversioned = TokenSession(spec, renderer, 1000)
    unversioned.step_tokens(ids)
    assert unversioned.tokens.versions == []


@pytest.mark.parametrize(("logprobs", "versions"), [([-1.0], None), ([-1.0] * 3, [1]), ([-1.0] * 3, [])])
def test_one_log_probability_and_one_version_for_each_token(logprobs, versions):
    session = TokenSession(kit.say_specs(1)[0], Renderer(tiny_tokenizer()), 1000)
    with pytest.raises(ValueError, match=r"3 tokens were sampled, but [01] (log-prob|versions of).* given"):
        session.step_tokens([1, 2, 3], logprobs, versions)
    assert len(session.tokens) == session.start


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


def test_a_template_that_leaves_out_the_tools_is_refused():
    spec = kit.TaskSpec(kit.SAY, 0, kit.MODULE, {"has_tool": True})
    with pytest.raises(ValueError, match=r"says nothing of the tools look_around: .*tools_in='system'"):
        TokenSession(spec, Renderer(tiny_tokenizer()), 100)


@pytest.mark.parametrize("format", ["skyrl", "nemo_gym"])
def test_rows_of_trainers_that_fill_no_template_are_refused_where_tools_are_left_to_it(format):
    settings = {"tools": {"tools": ["calculator"], "tools_in": "template"}}
    with pytest.raises(ValueError, match="tools_in='system'"):
        rows("rlvr/WordProblems-v0", 1, format, kwargs=settings)
    assert rows("rlvr/WordProblems-v0", 1, "verl", kwargs=settings)
    shown = rows("rlvr/WordProblems-v0", 1, format, kwargs={"tools": ["calculator"]})
    assert "calculator" in str(shown)


@pytest.mark.parametrize("play", [lambda spec: EpisodeSession(spec), lambda spec: grade(spec, "4")])
def test_surfaces_of_texts_refuse_tools_that_are_left_to_a_template(play):
    settings = {"tools": {"tools": ["calculator"], "tools_in": "template"}, "max_turns": 1}
    with pytest.raises(ValueError, match="tools_in='system'"):
        play(TaskSpec("rlvr/WordProblems-v0", 0, kwargs=settings))
