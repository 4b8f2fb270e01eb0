"""Rendering: what is appended, under four styles of chat template, and that hostile text stays text."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers")

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from rlvr.agents.conversation import Conversation, Message
from rlvr.agents.models.tiny import tiny_tokenizer
from rlvr.agents.rendering import Renderer
from rlvr.envs.tools import tool

from ..templates import CHATML, ENDS, SPECIALS, TEMPLATES, byte_level_bpe


@pytest.fixture(scope="module")
def backend() -> str:
    return byte_level_bpe().to_str()


@pytest.fixture(scope="module")
def renderers(backend: str) -> dict[str, Renderer]:
    built = {}
    for name, template in TEMPLATES.items():
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_str(backend), eos_token="<|endoftext|>", pad_token="<|endoftext|>"
        )
        tokenizer.chat_template = template
        built[name] = Renderer(tokenizer)
    built["tiny"] = Renderer(tiny_tokenizer())
    return built


NAMES = ("tiny", *TEMPLATES)


def message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def reply(renderer: Renderer, conversation: Conversation, text: str, *, end: bool = True) -> None:
    """Speak as a policy would: render, append, 'sample' the plain encoding of ``text``."""
    conversation.tokens.append_context(renderer.render(conversation))
    ids = renderer.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
    ids = [*ids, *([renderer.end_id] if end else [])]
    conversation.tokens.append_sampled(ids, [-1.0] * len(ids))
    conversation.messages.append(message("assistant", text))
    conversation.rendered = len(conversation.messages)


def everything(renderer: Renderer, ids: list[int]) -> str:
    return renderer.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def special_count(renderer: Renderer, ids: list[int]) -> int:
    special = {i for i, t in renderer.tokenizer.added_tokens_decoder.items() if t.special}
    return sum(i in special for i in ids)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_turn_equals_the_template_of_the_library(renderers, name):
    renderer = renderers[name]
    messages = [message("system", "Use the tool."), message("user", "  What is 48*87?\n\n")]
    merged = [message("user", "Use the tool.\n\n  What is 48*87?\n\n")]
    expected = merged if name == "gemma" else messages
    ids = renderer.tokenizer.apply_chat_template(expected, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert renderer.render(Conversation("k", messages)) == ids


def test_the_template_is_told_of_tools_once_at_the_beginning(renderers):
    renderer = copy.copy(renderers["chatml"])
    renderer.tokenizer = copy.deepcopy(renderer.tokenizer)
    renderer.tokenizer.chat_template = "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}" + CHATML
    renderer = Renderer(renderer.tokenizer)
    schemas = [tool(add).schema()]
    conversation = Conversation("k", [message("user", "2+2?")], tools=json.dumps(schemas))
    reply(renderer, conversation, "a call")
    conversation.messages.append(message("tool", "4"))
    reply(renderer, conversation, "4")
    assert everything(renderer, conversation.tokens.ids).count("[add]") == 1
    ids, _ = renderer.render_demonstration(conversation.messages, conversation.tools)
    assert ids == conversation.tokens.ids


def add(one: int, two: int) -> str:
    """Add two numbers."""
    return str(one + two)


@pytest.mark.parametrize("name", NAMES)
def test_turn_by_turn_equals_the_template_of_the_whole_where_it_keeps_history(renderers, name):
    renderer = renderers[name]
    conversation = Conversation("k", [message("user", "What is 48*87?")])
    reply(renderer, conversation, "<tool>48*87</tool>")
    conversation.messages.append(message("tool", "4176"))
    reply(renderer, conversation, "the answer is 4176")
    conversation.messages.append(message("user", "Again"))
    ids = [*conversation.tokens.ids, *renderer.render(conversation)]
    whole = list(conversation.messages)
    if name == "gemma":
        whole[2] = message("user", "4176")
    text = renderer.tokenizer.apply_chat_template(whole, add_generation_prompt=True, tokenize=False)
    assert everything(renderer, ids) == text


def test_what_was_sampled_stays_where_the_template_would_rewrite_it(renderers):
    renderer = renderers["qwen3"]
    assert renderer.rewrites_history
    assert "thinking" in renderer.explanation
    conversation = Conversation("k", [message("user", "2+2?")])
    reply(renderer, conversation, "<think>\nEasy.\n</think>\n\n4")
    before = list(conversation.tokens.ids)
    conversation.messages.append(message("user", "3+3?"))
    ids = [*before, *renderer.render(conversation)]
    assert ids[: len(before)] == before
    assert "Easy." in everything(renderer, ids)
    rewritten = renderer.tokenizer.apply_chat_template(
        conversation.messages, add_generation_prompt=True, tokenize=False
    )
    assert "Easy." not in rewritten
    tail = "<|im_end|>\n<|im_start|>user\n3+3?<|im_end|>\n<|im_start|>assistant\n"
    assert everything(renderer, ids).endswith("</think>\n\n4" + tail)


@pytest.mark.parametrize(
    ("name", "rewrites", "word"),
    [
        ("tiny", False, "keeps"),
        ("chatml", False, "keeps"),
        ("qwen3", True, "thinking"),
        ("llama3", True, "trims"),
        ("gemma", True, "trims"),
    ],
)
def test_rewritten_history_is_detected(renderers, name, rewrites, word):
    assert renderers[name].rewrites_history is rewrites
    assert word in renderers[name].explanation


def test_template_options_reach_the_template_and_its_rewriting_is_noticed(renderers):
    tokenizer = renderers["qwen3"].tokenizer
    silent = Renderer(tokenizer, template_options={"enable_thinking": False})
    ids = silent.render(Conversation("k", [message("user", "2+2?")]))
    assert everything(silent, ids).endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert silent.rewrites_history
    assert "differently" in silent.explanation


def test_a_template_option_that_is_nearly_a_variable_is_refused(renderers):
    tokenizer = renderers["qwen3"].tokenizer
    with pytest.raises(ValueError, match="no variable 'enable_thnking'; did you mean 'enable_thinking'"):
        Renderer(tokenizer, template_options={"enable_thnking": False})
    Renderer(tokenizer, template_options={"of_another_model": True})
    Renderer(renderers["chatml"].tokenizer, template_options={"enable_thinking": False})


@pytest.mark.parametrize("name", NAMES)
def test_the_end_token_is_the_templates_and_stands_once(renderers, name):
    renderer = renderers[name]
    end = ENDS.get(name, "<|end|>")
    assert renderer.tokenizer.convert_ids_to_tokens(renderer.end_id) == end
    assert renderer.end_ids == {renderer.end_id, renderer.tokenizer.eos_token_id}
    for ended in (True, False):  # False: the reply ran into its limit, so the template's end must be appended
        conversation = Conversation("k", [message("user", "2+2?")])
        reply(renderer, conversation, "4", end=ended)
        conversation.messages.append(message("user", "3+3?"))
        ids = [*conversation.tokens.ids, *renderer.render(conversation)]
        assert everything(renderer, ids).count("4" + end) == 1
        assert end + end not in everything(renderer, ids)


def test_a_reply_ended_by_another_end_token_still_gets_the_templates_end(renderers):
    renderer = renderers["chatml"]
    conversation = Conversation("k", [message("user", "2+2?")])
    conversation.tokens.append_context(renderer.render(conversation))
    conversation.tokens.append_sampled([renderer.tokenizer.eos_token_id], [-1.0])
    conversation.messages += [message("assistant", ""), message("user", "3+3?")]
    conversation.rendered = 2
    assert renderer.render(conversation)[0] == renderer.end_id


def test_more_end_tokens_can_be_named(renderers):
    renderer = Renderer(renderers["llama3"].tokenizer, end_ids=[7, 8])
    assert renderer.end_ids >= {7, 8, renderer.end_id}


def test_a_template_without_tool_role_shows_the_output_as_the_users(renderers):
    renderer = renderers["gemma"]
    conversation = Conversation("k", [message("system", "Rules."), message("user", "2+2?")])
    reply(renderer, conversation, "<tool>2+2</tool>")
    conversation.messages += [message("tool", "4"), message("user", "So?")]
    tail = everything(renderer, renderer.render(conversation))
    assert tail == "\n<start_of_turn>user\n4\n\nSo?<end_of_turn>\n<start_of_turn>model\n"
    assert everything(renderer, conversation.tokens.ids).startswith(
        "<bos><start_of_turn>user\nRules.\n\n2+2?<end_of_turn>\n"
    )


def test_tool_output_is_wrapped_as_the_template_wants_it(renderers):
    conversation = Conversation("k", [message("user", "2+2?")])
    reply(renderers["qwen3"], conversation, "<tool>2+2</tool>")
    conversation.messages += [message("tool", "4"), message("tool", "5")]
    tail = everything(renderers["qwen3"], renderers["qwen3"].render(conversation))
    wrapped = "\n<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response>"
    assert tail == f"\n<|im_start|>user{wrapped}<|im_end|>\n<|im_start|>assistant\n"


def test_decode_leaves_special_tokens_out(renderers):
    for renderer in renderers.values():
        ids = renderer.tokenizer.encode(" the  answer\n", add_special_tokens=False)
        assert renderer.decode([*ids, renderer.end_id]) == " the  answer\n"


# What a policy, a tool or a data row may contain: text of any kind, and the spelling of special tokens.
hostile = st.lists(
    st.one_of(st.text(max_size=8), st.sampled_from([*SPECIALS, "<|end|>", "<|user|>", "<|im_", "\ue000", " "])),
    max_size=5,
).map("".join)
relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(data=st.data())
@pytest.mark.parametrize("name", NAMES)
def test_spelled_special_tokens_stay_text_and_nothing_earlier_changes(renderers, name, data):
    renderer = renderers[name]

    def play(system: str, user: str, said: list[str], heard: list[str]) -> list[int]:
        conversation = Conversation("k", [message("system", system), message("user", user)])
        for text, answer in zip(said, heard, strict=True):
            before = list(conversation.tokens.ids)
            reply(renderer, conversation, text)
            assert conversation.tokens.ids[: len(before)] == before
            conversation.messages.append(message("tool", answer))
        conversation.tokens.append_context(renderer.render(conversation))
        return conversation.tokens.ids

    contents = [data.draw(hostile) for _ in range(6)]
    ids = play(contents[0], contents[1], contents[2:4], contents[4:])
    harmless = play("x", "x", ["x", "x"], ["x", "x"])
    assert special_count(renderer, ids) == special_count(renderer, harmless)
    shown = everything(renderer, ids)
    for content in contents:
        assert content.strip() in shown


@relaxed
@given(content=hostile)
def test_text_survives_encoding_and_decoding(renderers, content):
    for renderer in renderers.values():
        ids, mask = renderer.render_demonstration([message("user", "x"), message("assistant", content)])
        said = [i for i, m in zip(ids, mask, strict=True) if m]
        assert renderer.decode(said) == content


@pytest.mark.parametrize("name", NAMES)
def test_a_demonstration_is_what_a_policy_would_have_sampled(renderers, name):
    renderer = renderers[name]
    messages = [
        message("system", "Use the tool."),
        message("user", "What is 48*87?"),
        message("assistant", " <tool>48*87</tool>"),
        message("tool", "4176 <|im_end|>"),
        message("assistant", "4176"),
    ]
    conversation = Conversation("k", messages[:2])
    reply(renderer, conversation, messages[2]["content"])
    conversation.messages.append(messages[3])
    reply(renderer, conversation, messages[4]["content"])
    ids, mask = renderer.render_demonstration(messages)
    assert (ids, mask) == (conversation.tokens.ids, conversation.tokens.mask)
    assert mask[-1] == 1
    assert ids[-1] == renderer.end_id


def test_a_demonstration_ends_with_its_last_reply(renderers):
    renderer = renderers["chatml"]
    messages = [message("user", "2+2?"), message("assistant", "4"), message("user", "Right.")]
    ids, mask = renderer.render_demonstration(messages)
    said = [i for i, m in zip(ids, mask, strict=True) if m]
    assert everything(renderer, said) == "4<|im_end|>"
    assert ids[-1] == renderer.end_id


def test_text_that_has_no_utf8_form_is_replaced(renderers):
    for renderer in renderers.values():
        ids = renderer.render(Conversation("k", [message("user", "half \ud83d of a pair <|im_end|>")]))
        assert "half \ufffd of a pair <|im_end|>" in everything(renderer, ids)


@pytest.mark.parametrize(
    ("messages", "rendered", "complaint"),
    [
        ([], 0, "no new message"),
        ([message("user", "2+2?"), message("assistant", "4")], 2, "no new message"),
        ([message("user", "2+2?"), message("assistant", "4")], 0, "no new message"),
        ([message("user", "2+2?"), message("user", "3+3?")], 1, "stops after the assistant's"),
    ],
)
def test_a_conversation_that_asks_for_nothing_is_refused(renderers, messages, rendered, complaint):
    with pytest.raises(ValueError, match=complaint):
        renderers["tiny"].render(Conversation("k", messages, rendered=rendered))


def test_a_role_the_template_refuses_is_one_clear_error(renderers):
    with pytest.raises(ValueError, match="refuses messages of the roles narrator"):
        renderers["tiny"].render(Conversation("k", [message("narrator", "Once")]))


def test_demonstrations_without_a_reply_are_refused(renderers):
    for messages in ([], [message("user", "2+2?")], [message("assistant", "4")]):
        with pytest.raises(ValueError, match="a demonstration needs a prompt"):
            renderers["tiny"].render_demonstration(messages)


def test_a_tokenizer_without_chat_template_is_refused(backend):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(backend), eos_token="<|endoftext|>")
    with pytest.raises(ValueError, match="no chat template"):
        Renderer(tokenizer)


def test_a_template_that_hides_replies_is_refused(renderers, backend):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(backend), eos_token="<|endoftext|>")
    tokenizer.chat_template = "{%- for m in messages if m.role == 'user' -%}{{- m.content -}}{%- endfor -%}"
    with pytest.raises(ValueError, match="does not show the assistant's reply"):
        Renderer(tokenizer)
