"""A message between fixed tokens: the template's own tokens, or none at all."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("transformers")

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from rlvr.adapters.message_pieces import MARK, PROBES, learn, texts_looked_for

from ..templates import CHATML, SPECIALS, TEMPLATES, byte_level_bpe

BACKEND = byte_level_bpe().to_str()
SPECIAL = re.compile("|".join(map(re.escape, SPECIALS)))
BEFORE = [{"role": "user", "content": "A"}]
TEXTS = [*SPECIALS, "<|im_", "<think>", "</think>", "<tool_response>", "</tool_response>", "\n", " ", "look", "user"]


def learned(template: str, role: str = "user"):
    """The pieces, and the reference that they were learned from: the whole template's tokens after another message."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(BACKEND), eos_token="<|endoftext|>")
    tokenizer.chat_template = template

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    def reference(content: str):
        message = {"role": role, "content": content}
        before = tokenizer.apply_chat_template(BEFORE, tokenize=False)
        whole = tokenizer.apply_chat_template([*BEFORE, message], tokenize=False, add_generation_prompt=True)
        return encode(whole)[len(encode(before)) :], [before, whole]

    return learn(reference, template, SPECIAL, encode), reference


KINDS = {
    (name, role): learned(TEMPLATES[name], role) for name in ("chatml", "qwen3", "llama3") for role in ("user", "tool")
}


@pytest.mark.parametrize("name", KINDS)
@given(content=st.lists(st.one_of(st.text(max_size=8), st.sampled_from(TEXTS)), max_size=6).map("".join))
def test_a_message_has_the_templates_own_tokens(name, content):
    pieces, reference = KINDS[name]
    content = SPECIAL.sub("", content)
    while SPECIAL.search(content):
        content = SPECIAL.sub("", content)
    if (ids := pieces.ids(content)) is not None:
        assert ids == reference(content)[0]
    else:
        assert not content.strip() or "</think>" in content


@pytest.mark.parametrize("content", ["", " ", "\n\n", "\u3000"])
def test_what_says_nothing_is_left_to_the_helper(content):
    assert all(pieces.ids(content) is None for pieces, _ in KINDS.values())


def template(shown: str) -> str:
    return CHATML.replace("m.content", shown)


@pytest.mark.parametrize(
    "shown",
    [
        "(m.content | upper)",
        "(m.content | tojson)",
        "(m.content | replace('  ', ' '))",
        "(m.content | truncate(300))",
        "(m.content | indent(2))",
        "(m.content.split() | join(' '))",
        "(m.content | e)",
        "(m.content.lstrip())",
        "('' if m.content | length > 1000 else m.content)",
        "(m.content + m.content)",
        "'the same'",
    ],
)
def test_a_template_that_changes_messages_is_not_learned(shown):
    pieces, reference = learned(template(shown))
    if pieces is not None:  # all that it would change is left to the helper
        for probe in PROBES:
            assert pieces.ids(probe) in (None, reference(probe)[0])
        assert pieces.ids("two  blanks") is None


@pytest.mark.parametrize(
    ("shown", "content"),
    [
        ("('yes' if 'magic' in m.content else m.content)", "the magic word"),
        ("('yes' if m.content.startswith('magic') else m.content)", "magic word"),
        ("('yes' if m.content == 'magic' else m.content)", "magic"),
        ("('yes' if m.content[0] == 'm' else m.content)", "magic"),
        ("(m.content.split('magic')[-1])", "a magic word"),
        ("(m.content | replace('magic', 'plain'))", "a magic word"),
    ],
)
def test_a_message_with_a_text_that_the_template_looks_for_is_left_to_the_helper(shown, content):
    pieces, reference = learned(template(shown))
    assert pieces.ids(content) is None
    assert pieces.ids("A usual one") == reference("A usual one")[0]


def test_a_template_without_special_tokens_is_not_learned():
    plain = "{%- for m in messages -%}{{- m.role + ': ' + m.content + '\n' -}}{%- endfor -%}"
    assert learned(plain)[0] is None


def test_a_template_that_shows_a_message_twice_or_not_is_not_learned():
    assert learned(CHATML + "{{ messages[-1].content }}")[0] is None
    assert learned(CHATML.replace("m.content", "''"))[0] is None


def test_which_texts_a_template_looks_for():
    assert texts_looked_for("{% if m.role == 'user' and m['role'] in ['tool', 'system'] %}x{% endif %}") == frozenset()
    assert texts_looked_for("{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}x{% endif %}") == frozenset()
    assert texts_looked_for("{% set word = 'w' %}{% if word in m.content %}x{% endif %}") == {"w"}
    assert texts_looked_for("{% set word %}w{% endset %}{% if word in m.content %}x{% endif %}") == {"w"}
    assert texts_looked_for("{% for word in ['v', 'w'] %}{% if word in m.content %}x{% endif %}{% endfor %}") == {
        "v",
        "w",
    }
    assert texts_looked_for("{% macro f(a, b='w') %}{{ b in a }}{% endmacro %}{{ f(m.content, 'v') }}") == {"v", "w"}
    assert texts_looked_for("{% with w = 'w' %}{{ w in m.content }}{% endwith %}") == {"w"}
    assert texts_looked_for("{{ m.content.strip('\n') }}{{ m.content.strip('w') }}") == {"w"}
    assert texts_looked_for("{% if m.content is eq('w') %}x{% endif %}") == {"w"}
    assert texts_looked_for("{% generation %}{{ m.content }}{% endgeneration %}") == frozenset()
    assert texts_looked_for("{% if") is None


def test_a_mark_in_a_message_is_a_character_like_others():
    for pieces, reference in KINDS.values():
        assert pieces.ids(f"one {MARK} two") == reference(f"one {MARK} two")[0]
