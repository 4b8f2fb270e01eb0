"""A chat template is a stranger's program: what it does wrong is one sentence."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from rlvr.agents import template_deadline
from rlvr.agents.models.tiny import tiny_tokenizer
from rlvr.agents.rendering import Renderer
from rlvr.agents.template_deadline import TemplateTooLong, in_time

LOOP = "{% for a in range(99999) %}" * 3 + "{% endfor %}" * 3


def test_a_template_that_loops_is_one_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(template_deadline, "SECONDS", 1.0)
    tokenizer = tiny_tokenizer()
    Renderer(tokenizer)  # the control
    tokenizer.chat_template = LOOP + tokenizer.chat_template
    with pytest.raises(TemplateTooLong, match="did not finish within 1 s") as caught:
        Renderer(tokenizer)
    assert "\n" not in str(caught.value)


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


def test_what_ends_in_time_is_returned_and_what_it_raises_is_raised():
    assert in_time(lambda: 7) == 7
    with pytest.raises(KeyError):
        in_time(lambda: {}["x"])
