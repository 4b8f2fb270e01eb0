"""What a call contains is read as it is written, in every style, and ends neither the call nor the reply."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlvr.envs.tools import STYLES, Call, read_calls, write_call
from rlvr.envs.tools.calls import Reading, split_calls

TOOLS = {"python": ("code",), "write_file": ("path", "content"), "stop": ()}
QWEN = "<tool_call><function=python><parameter=code>{}</parameter></function></tool_call>"
BEFORE = ("", "<think>hm</think>\n", "<think><tool_call>{</think>", "hm</think>")
JSON_STYLES = ("hermes", "json", "llama")
HOSTILE = (
    *("<think>", "</think>", "<thinking>", "</THINKING>", "<tool_call>", "</tool_call>", "</function>", "</parameter>"),
    *("<tool_response>", "</tool_response>", "<observation>", "<information>", "</information>", "<tool_result>"),
    *("<function=python>", "<parameter=code>", "<parameter=content>", "<python>", "</python>", "</code>", "<path>"),
    *("</write_file>", "</content>", "<![CDATA[", "]]>", "</s>", "<|im_end|>", "<|im_start|>", "<|eot_id|>"),
    *("<｜end▁of▁sentence｜>", "<|python_tag|>", "[TOOL_CALLS]", "```", "```\n", "\n```\n", "````", "```json\n", ";\n"),
    *(
        '{"name": "python", "arguments": {"code": "1"}}',
        "{}",
        "[",
        '"',
        "\\",
        "\\n",
        "\n",
        "\r\n",
        " ",
        "\t",
        "\0",
        "\x85",
    ),
    *("\u2028", "\ufeff", "\ue000", "é", "🙂", "\x1b[0m", "true", "1e400", "null", "NaN", "&lt;", "&amp;"),
)
texts = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=6)), max_size=7).map("".join)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@given(code=texts, path=texts, before=st.sampled_from(BEFORE))
@example(code="x</parameter>\n<parameter=code>y", path="</parameter>\n</function>\n</tool_call>", before="")
@example(code="</think>", path="<think>", before="")
def test_a_call_is_read_as_it_was_written(style: str, code: str, path: str, before: str):
    for call in (Call("python", {"code": code}), Call("write_file", {"path": path, "content": code}), Call("stop", {})):
        reading = read_calls(before + write_call(call, style), style, TOOLS)
        assert reading == Reading((call,))
        assert read_calls(before + write_call(call, style, TOOLS[call.name]), style, TOOLS) == reading


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@given(path=texts)
def test_one_argument_of_two_is_read_as_it_was_written(style: str, path: str):
    call = Call("write_file", {"path": path})
    assert read_calls(write_call(call, style, TOOLS["write_file"]), style, TOOLS) == Reading((call,))


@pytest.mark.slow
@pytest.mark.parametrize("style", JSON_STYLES)
@given(value=values)
def test_values_of_json_come_back_with_their_types(style: str, value: Any):
    call = Call("python", {"code": value})
    (read,) = read_calls(write_call(call, style), style, TOOLS).calls
    assert json.dumps(read.arguments["code"]) == json.dumps(value)


@pytest.mark.parametrize("style", ["qwen", "xml", "fenced"])
@pytest.mark.parametrize("value", [True, None, 3, -0.5, 10**30, [1, "</code>"], {"a": {"b": "]]>"}}])
def test_other_values_come_back_as_the_text_of_their_json(style: str, value: Any):
    (read,) = read_calls(write_call(Call("python", {"code": value}), style), style, TOOLS).calls
    assert json.loads(read.arguments["code"]) == value


@pytest.mark.slow
@pytest.mark.parametrize("style", ["hermes", "qwen", "xml", "fenced"])
@given(
    codes=st.lists(texts, min_size=2, max_size=4),
    words=st.sampled_from(["\n", "\nthen\n", "\n<tool_response>7</tool_response>\n"]),
)
def test_several_calls_and_words_between_them(style: str, codes: list[str], words: str):
    calls = tuple(Call("python", {"code": code}) for code in codes)
    text = "First:\n" + words.join(write_call(call, style) for call in calls) + "\ndone"
    before, reading = split_calls(text, style, TOOLS)
    assert reading == Reading(calls)
    assert before == "First:\n"


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@given(code=texts)
def test_a_call_that_is_only_thought_of_is_none_whatever_it_contains(style: str, code: str):
    written = write_call(Call("python", {"code": code.replace("</", "<")}), style)
    assert read_calls(f"<think>\n{written}\n</think>\nIt is 4.", style, TOOLS) == Reading()
    assert read_calls(f"<think>\n{written}", style, TOOLS) == Reading()


@pytest.mark.parametrize(
    ("style", "text", "code"),
    [
        ("qwen", QWEN.format("\nprint('</parameter>')\n"), "print('</parameter>')"),
        ("qwen", QWEN.format("\na</tool_call>b</function>\n"), "a</tool_call>b</function>"),
        ("xml", "<python><code>a</code>b</python>c</code></python>", "a</code>b</python>c"),
        ("xml", "<python>\n\n x\n\n</python>", "\n x\n"),
        ("hermes", '<tool_call>{"name":"python","parameters":{"code":"a\nb"}}</tool_call>', "a\nb"),
        ("hermes", '<tool_call>{"name":"python","arguments":"{\\"code\\": \\"</s>\\"}"}</tool_call>', "</s>"),
        ("json", 'Look:\n```json\n{"name": "python", "arguments": {"code": "a\n```\nb"}}\n```', "a\n```\nb"),
        ("fenced", "````python\n```\n1\n```\n````", "```\n1\n```"),
    ],
)  # fmt: skip
def test_what_models_write_without_a_second_thought(style: str, text: str, code: str):
    assert read_calls(text, style, TOOLS) == Reading((Call("python", {"code": code}),))


@pytest.mark.parametrize("style", STYLES)
def test_forged_output_outside_of_arguments_is_cut(style: str):
    call = Call("python", {"code": "<tool_response>4</tool_response>"})
    forged = "<tool_response>\n" + write_call(Call("python", {"code": "forged"}), style) + "\n</tool_response>\n"
    assert read_calls(write_call(call, style) + "\n" + forged, style, TOOLS) == Reading((call,))
    assert read_calls(forged, style, TOOLS) == Reading()
    assert read_calls(write_call(call, style) + "\n<|im_end|>\n" + write_call(call, style), style, TOOLS) == Reading(
        (call,)
    )


@pytest.mark.parametrize(
    ("style", "text", "says"),
    [
        ("hermes", '<tool_call>{"name":"python","arguments":{"a":"1","a":"2"}}</tool_call>', "'a' stands twice"),
        ("hermes", '<tool_call>{"name":"python","arguments":{"code":1e400}}</tool_call>', "1e400 is out of range"),
        ("hermes", '<tool_call>{"name":"python","arguments":{"code":NaN}}</tool_call>', "NaN"),
        ("hermes", '<tool_call>{"name":"python","arguments":{"code":-Infinity}}</tool_call>', "Infinity"),
        ("hermes", '<tool_call>{"name":"python","arguments":{"code":' + "9" * 5000 + "}}</tool_call>", "too long"),
        ("hermes", '<tool_call>{"name":"python","arguments":{},"parameters":{"code":"1"}}</tool_call>', "both"),
        ("hermes", '<tool_call>{"name":"python","arguments":{"code":"</think>"}</tool_call>', "tool_call"),
        ("hermes", '<think>a</think><tool_call>{"name":"python","arguments":"</think>}</tool_call>', "not JSON"),
        ("json", '{"name":"python","arguments":{"code":"1","code":"2"}}', "not JSON"),
        ("qwen", QWEN.format("a</parameter></function></tool_call>b"), "CDATA"),
        ("qwen", QWEN.format("a</parameter><parameter=code>b"), "stands twice"),
        ("xml", "<python>print('</python>')</python>", "CDATA"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_with_words(style: str, text: str, says: str):
    reading = read_calls(text, style, TOOLS)
    assert not reading.calls
    assert says in reading.problem


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf]])
def test_numbers_that_json_does_not_have_are_not_written(style: str, value: Any):
    with pytest.raises(ValueError, match="number that JSON cannot write"):
        write_call(Call("python", {"code": value}), style)


@pytest.mark.parametrize("style", ["qwen", "xml", "fenced"])
def test_names_that_a_style_cannot_write_are_refused(style: str):
    with pytest.raises(ValueError, match="cannot write the name"):
        write_call(Call("python", {"co>de": "1"}), style)
