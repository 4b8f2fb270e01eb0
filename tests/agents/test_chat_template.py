"""A chat template is a stranger's program: what it does wrong is one sentence."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from rlvr.agents import chat_template
from rlvr.agents.chat_template import TemplateStopped
from rlvr.agents.models.tiny import tiny_tokenizer
from rlvr.agents.rendering import Renderer

COSTLY = {
    "loops": "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3,
    "a power, in C": "{{ 7 ** (10 ** 9) }}",
    "memory": "{{ 'a' * 10 ** 11 }}",
    "memory, step by step": "{% set n = namespace(x=1) %}" + "{% set n.x = [n.x] * 99 %}{{ n.x }}" * 9,
    "a width": "{{ '%1000000000d' % 3 }}",
    "a sort, in C": "{{ (range(99999) | list * 1000) | sort }}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_a_template_that_costs_too_much_is_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chat_template, "CPU_SECONDS", 1.0)
    tokenizer = tiny_tokenizer()
    right = tokenizer.chat_template
    tokenizer.chat_template = COSTLY[name] + right
    with pytest.raises(TemplateStopped, match="did not finish") as caught:
        Renderer(tokenizer)
    assert "\n" not in str(caught.value)
    tokenizer.chat_template = right
    Renderer(tokenizer)  # the next template is rendered as before


def test_a_worker_renders_what_the_tokenizer_does():
    tokenizer = tiny_tokenizer()
    messages = [{"role": "system", "content": "Rule. \ud800 \u2028"}, {"role": "user", "content": "<b>\n\x00é"}]
    for generate in (False, True):
        plain = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)
        assert chat_template.render_template(tokenizer, messages, None, {}, generate=generate) == plain


@pytest.mark.parametrize(
    "template",
    [
        "{{ 1 / 0 }}", "{{ messages[9].content }}", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ 'a' + 1 }}",
        "{% for x in", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ raise_exception('no') }}",
        "{{ messages.__init__.__globals__ }}",
    ],
)  # fmt: skip
def test_a_template_that_fails_is_one_sentence(template: str):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(ValueError, match="chat template"):
        Renderer(tokenizer)
