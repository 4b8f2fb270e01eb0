"""The dialects in which programs ask a model: what is read, written, streamed and refused. No server starts in here."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.adapters.serving.dialects.anthropic_messages import ANTHROPIC_MESSAGES
from rlvr.adapters.serving.dialects.chat_completions import CHAT_COMPLETIONS
from rlvr.adapters.serving.dialects.common import ModelReply, TokenUsage, ToolCall, read_action
from rlvr.adapters.serving.dialects.responses import RESPONSES
from rlvr.adapters.serving.loopback import HttpError

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FUNCTION = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": SCHEMA}}


# clients of each dialect: a conversation as it sends it, and the answer that it puts together from a stream


class Chat:
    dialect = CHAT_COMPLETIONS
    tools = (FUNCTION,)

    def __init__(self, system):
        self.messages = [{"role": "developer", "content": system}] if system else []

    def body(self):
        return {"messages": self.messages, "tools": [*self.tools]}

    def user(self, text):
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def answer(self, answer):
        self.messages.append(answer["choices"][0]["message"])

    def results(self, texts):
        for call, text in zip(self.messages[-1]["tool_calls"], texts, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    def usage(self, answer):
        return answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]

    def gather(self, events):
        assert events.pop().data == "[DONE]"
        chunks = [json.loads(event.data) for event in events]
        message = {}
        for chunk in chunks[:2]:
            message |= chunk["choices"][0]["delta"]
        for call in message.get("tool_calls", ()):
            call.pop("index")
        choice = {"index": 0, "message": message, "finish_reason": chunks[1]["choices"][0]["finish_reason"]}
        usage = chunks[2]["usage"]
        head = {**chunks[0], "object": "chat.completion"}
        return head | {"choices": [choice | {"logprobs": None}], "usage": usage}

    streamed = MappingProxyType({"stream": True, "stream_options": {"include_usage": True}})


class Anthropic:
    dialect = ANTHROPIC_MESSAGES
    tools = (
        {"name": "add", "description": "Adds.", "input_schema": SCHEMA},
        {"type": "web_search_20250305", "name": "web_search"},
    )

    def __init__(self, system):
        self.system, self.messages = system, []

    def body(self):
        system = [{"type": "text", "text": self.system, "cache_control": {"type": "ephemeral"}}]
        thinking = {"type": "enabled", "budget_tokens": 1024}
        head = {"model": "m", "max_tokens": 9, "thinking": thinking, "tools": [*self.tools]}
        return {**head, "messages": self.messages, **({"system": system} if self.system else {})}

    def user(self, text):
        self.messages.append({"role": "user", "content": text})

    def answer(self, answer):
        self.messages.append({"role": "assistant", "content": answer["content"]})

    def results(self, texts):
        calls = [block for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
        blocks = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": text}]}
            for call, text in zip(calls, texts, strict=True)
        ]
        self.messages.append({"role": "user", "content": blocks})

    def usage(self, answer):
        return answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]

    def gather(self, events):
        message, blocks, inputs = {}, [], {}
        for event in events:
            data = json.loads(event.data)
            assert data["type"] == event.name
            match event.name:
                case "message_start":
                    message = data["message"]
                case "content_block_start":
                    assert data["index"] == len(blocks)
                    blocks.append(data["content_block"])
                case "content_block_delta":
                    for key, value in data["delta"].items():
                        if key == "partial_json":
                            inputs[data["index"]] = inputs.get(data["index"], "") + value
                        elif key != "type":
                            blocks[data["index"]][key] += value
                case "message_delta":
                    message |= data["delta"]
                    message["usage"] |= data["usage"]
        assert event.name == "message_stop"
        for index, written in inputs.items():
            blocks[index]["input"] = json.loads(written)
        return message | {"content": blocks}

    streamed = MappingProxyType({"stream": True})


class Responses:
    dialect = RESPONSES
    tools = ({"type": "function", "strict": False, **FUNCTION["function"]}, {"type": "web_search"})

    def __init__(self, system):
        self.instructions, self.items = system or None, []

    def body(self):
        return {"instructions": self.instructions, "input": self.items, "tools": [*self.tools], "store": False}

    def user(self, text):
        self.items.append({"role": "user", "content": [{"type": "input_text", "text": text}]})

    def answer(self, answer):
        self.items += answer["output"]

    def results(self, texts):
        last = len(self.items)
        while last and self.items[last - 1].get("type") == "function_call":
            last -= 1
        for call, text in zip(self.items[last:], texts, strict=True):
            self.items.append({"type": "function_call_output", "call_id": call["call_id"], "output": text})

    def usage(self, answer):
        return answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]

    def gather(self, events):
        items, texts = [], {}
        for number, event in enumerate(events):
            data = json.loads(event.data)
            assert (data["type"], data["sequence_number"]) == (event.name, number)
            if event.name.endswith(".delta"):
                texts[data["output_index"]] = data["delta"]
            elif event.name == "response.output_item.done":
                items.append(data["item"])
        for index, item in enumerate(items):
            whole = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
            assert texts[index] == whole
        answer = data["response"]
        assert (event.name, answer["output"]) == ("response.completed", items)
        return answer

    streamed = MappingProxyType({"stream": True})


CLIENTS = [Chat, Anthropic, Responses]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
calls = st.builds(
    ToolCall, st.uuids().map(lambda each: each.hex), st.text(min_size=1), st.dictionaries(st.text(), values, max_size=3)
)
usages = st.builds(TokenUsage, *[st.integers(0, 10**9)] * 3)
texts = st.text(max_size=20)
replies = st.builds(ModelReply, texts, texts, st.lists(calls, max_size=3).map(tuple), usages)


@pytest.mark.parametrize("client_class", CLIENTS)
@settings(max_examples=25)
@given(st.text(), st.lists(st.tuples(texts, replies), min_size=1, max_size=3), st.data())
def test_a_conversation_there_and_back(client_class, system, turns, data):
    """What a client sends of a conversation is what was said in it, streamed or not."""
    client = client_class(system)
    expected = [{"role": "system", "content": system}] if system else []
    for text, reply in turns:
        client.user(text)
        expected.append({"role": "user", "content": text})
        asked = client.dialect.read(client.body(), {})
        assert asked.messages == expected
        assert asked.tools == [FUNCTION]
        answer = client.dialect.write(client.body(), reply, "policy")
        assert client.usage(answer) == reply.usage[:2]
        events = [*client.dialect.stream({**client.body(), **client.streamed}, answer)]
        assert client.gather(events) == answer
        client.answer(json.loads(json.dumps(answer)))
        expected.append(reply.message())
        if reply.calls:
            results = [data.draw(texts) for _ in reply.calls]
            client.results(results)
            expected += [{"role": "tool", "content": result} for result in results]
    client.user("last")
    assert client.dialect.read(client.body(), {}).messages == [*expected, {"role": "user", "content": "last"}]


def rewritten(answer, change):
    """An answer whose calls have other arguments."""
    if isinstance(answer, list):
        return [rewritten(each, change) for each in answer]
    if not isinstance(answer, dict):
        return answer
    changed = {key: rewritten(value, change) for key, value in answer.items()}
    if isinstance(changed.get("arguments"), str):
        changed["arguments"] = json.dumps(change(json.loads(changed["arguments"])))
    if answer.get("type") == "tool_use":
        changed["input"] = change(answer["input"])
    return changed


def as_a_program_keeps_it(value):
    """Whole numbers without a point, keys sorted, a default filled in."""
    if isinstance(value, dict):
        return {"replace_all": False} | {key: as_a_program_keeps_it(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [as_a_program_keeps_it(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def history(client_class, reply, change, sent):
    """A reply as the program's next request has it."""
    client = client_class("")
    client.user("?")
    client.answer(rewritten(client.dialect.write(client.body(), reply, "policy"), change))
    return client.dialect.read(client.body(), sent).messages[-1]


@pytest.mark.parametrize("client_class", CLIENTS)
@settings(max_examples=25)
@given(texts, st.lists(calls, min_size=1, max_size=2).map(tuple))
def test_a_call_with_defaults_filled_in_is_the_call_that_was_sent(client_class, text, sent):
    reply = ModelReply("", text, sent)
    by_id = {call.id: call for call in sent}
    assert history(client_class, reply, as_a_program_keeps_it, by_id) == reply.message()


@pytest.mark.parametrize("client_class", CLIENTS)
@pytest.mark.parametrize(
    "other",
    [{}, {"path": "a"}, {"path": "a", "lines": [1]}, {"path": "a", "lines": [1, True]}, {"path": "b", "lines": [1, 2]}],
)
def test_a_call_that_says_something_else_is_what_the_program_tells(client_class, other):
    call = ToolCall("1f", "edit", {"path": "a", "lines": [1, 2]})
    changed = ModelReply("", "", (call._replace(arguments=other),))
    sent = {"1f": call, "2f": call._replace(arguments=other)}
    assert history(client_class, ModelReply("", "", (call,)), lambda _: other, sent) == changed.message()
    other_tool = {"1f": call._replace(name="write")}
    assert history(client_class, ModelReply("", "", (call,)), lambda _: other, other_tool) == changed.message()


def test_a_deferred_tool_is_shown_where_a_result_refers_to_it():
    find = {"name": "find", "input_schema": SCHEMA}
    add = {**Anthropic.tools[0], "defer_loading": True}
    reference = {"type": "tool_reference", "tool_name": "add"}
    results = [{"type": "tool_result", "tool_use_id": "x", "content": [reference, {"type": "text", "text": "1 tool"}]}]
    asked = ANTHROPIC_MESSAGES.read({"messages": [{"role": "user", "content": results}], "tools": [find, add]}, {})
    assert [tool["function"]["name"] for tool in asked.tools] == ["find"]
    (message,) = asked.messages
    schema, words = message["content"].split("\n")
    assert (message["role"], json.loads(schema), words) == ("tool", FUNCTION, "1 tool")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "type", "text", "tool_calls", "function", "name", "arguments", "input"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
FIELDS = ("messages", "input", "tools", "system", "instructions", "stream", "n", "tool_choice", "mcp_servers", "prompt")
words = st.sampled_from(["user", "assistant", "system", "tool", "message", "function_call", "tool_use", "tool_result"])
turns_alike = st.fixed_dictionaries({}, optional=dict.fromkeys(("role", "content", "type"), json_values | words))


@pytest.mark.parametrize("client_class", CLIENTS)
@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values | st.lists(turns_alike | json_values, max_size=3)))
def test_any_body_is_read_or_refused_with_a_sentence(client_class, body):
    dialect = client_class.dialect
    try:
        asked, refusal = dialect.read(body, {}), None
    except HttpError as error:
        asked, refusal = None, error
    if refusal is not None:
        assert refusal.status == 400
        assert "\n" not in str(refusal)
        assert dialect.write_error(refusal)["error"]["message"] == str(refusal)
    else:
        assert asked.messages
        assert all(isinstance(message["content"], str) for message in asked.messages)


ASKED = {"role": "user", "content": "?"}
CHAT_WRONG = [
    ({}, "messages must be a list that is not empty"),
    ({"messages": [{"role": "owner", "content": "?"}]}, "the role of a message must be one of"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "has a part of type 'image_url'"),
    ({"messages": [{"role": "user", "content": 5}]}, "content must be a list of objects"),
    ({"messages": [ASKED], "tools": 5}, "tools must be a list of objects"),
    ({"messages": [ASKED], "tools": [{"type": "custom"}]}, "must be of type function"),
    ({"messages": [ASKED], "stream": "yes"}, "stream must be true or false"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"function": "add"}]}]}, "must have a function"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": "{"}}]}]},
        "the arguments of the call of 'add' are not JSON",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": NaN}'}}]}]},
        "the call of 'f' cannot be written",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[" * 99_999}}]}]},
        "are not JSON",
    ),
]
ANTHROPIC_WRONG = [
    ({"messages": []}, "messages must be a list that is not empty"),
    ({"messages": [{"role": "tool", "content": "?"}]}, "must be user, assistant or system, got 'tool'"),
    ({"messages": [{"role": "user"}]}, "the content of a message must be"),
    ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "has a part of type 'image'"),
    ({"messages": [ASKED], "system": 3}, "system must be a list of objects"),
    ({"messages": [ASKED], "tools": [{"name": "add"}]}, "must have an input_schema"),
    ({"messages": [ASKED], "tools": [{"type": "bash_20250124", "name": "bash"}]}, "of type 'bash_20250124'"),
    ({"messages": [ASKED], "mcp_servers": [{"url": "x"}]}, "mcp_servers cannot be used here"),
    (
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "tool_reference"}]}]}]},
        "a tool_reference names None, which is no tool",
    ),
    (
        {"messages": [ASKED, {"role": "assistant", "content": [{"type": "tool_use", "name": "add", "input": []}]}]},
        "the arguments of the call of 'add' must be an object",
    ),
]
RESPONSES_WRONG = [
    ({}, "input must be a text, or a list of items that is not empty"),
    ({"input": [{"type": "reasoning"}]}, "input must have a message"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "an item of type 'item_reference'"),
    ({"input": [{"role": "tool", "content": "?"}]}, "the role of a message"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "has a part of type 'input_image'"),
    ({"input": "?", "instructions": ["x"]}, "instructions must be text"),
    ({"input": "?", "tools": [{"type": "custom", "name": "patch"}]}, "of type function, got 'custom'"),
    ({"input": "?", "previous_response_id": "resp_1"}, "send the whole conversation as input"),
    ({"input": [{"type": "function_call", "name": ""}]}, "a call must name its tool"),
]


@pytest.mark.parametrize(
    ("dialect", "body", "sentence"),
    [(CHAT_COMPLETIONS, *case) for case in CHAT_WRONG]
    + [(ANTHROPIC_MESSAGES, *case) for case in ANTHROPIC_WRONG]
    + [(RESPONSES, *case) for case in RESPONSES_WRONG],
)
def test_what_is_refused_says_why(dialect, body, sentence):
    with pytest.raises(HttpError) as caught:
        dialect.read(body, {})
    assert caught.value.status == 400
    assert sentence in str(caught.value)


def test_a_choice_of_no_tool_is_none_offered():
    chat, anthropic, responses = (client("") for client in CLIENTS)
    for client, choice in ((chat, "none"), (anthropic, {"type": "none"}), (responses, "none")):
        client.user("?")
        assert client.dialect.read({**client.body(), "tool_choice": choice}, {}).tools == []


def test_results_and_words_of_one_turn_keep_their_order():
    result = {"type": "tool_result", "tool_use_id": "x"}
    words = {"type": "text", "text": "and then"}
    content = [{**result, "content": "1"}, words, {**result, "content": "2"}, words, words]
    asked = ANTHROPIC_MESSAGES.read({"messages": [{"role": "user", "content": content}]}, {})
    assert [(each["role"], each["content"]) for each in asked.messages] == [
        ("tool", "1"),
        ("user", "and then"),
        ("tool", "2"),
        ("user", "and then\nand then"),
    ]


def test_a_thought_is_sent_to_anthropics_clients_that_ask_for_thinking():
    reply = read_action("<think>\nHm.\n</think>\n\nTwo.", False)
    for thinking, kinds in (({"type": "enabled"}, ["thinking", "text"]), ({"type": "disabled"}, ["text"])):
        answer = ANTHROPIC_MESSAGES.write({"thinking": thinking}, reply, "policy")
        assert [block["type"] for block in answer["content"]] == kinds


@settings(max_examples=50)
@given(st.text(), calls)
def test_an_action_that_is_read_is_told_as_it_was_said(text, call):
    action = f"{text}<tool_call>{json.dumps({'name': call.name, 'arguments': call.arguments})}</tool_call>"
    reply = read_action(action, True)
    if reply.calls:
        assert [each[1:] for each in reply.calls] == [call[1:]]
    assert read_action(action, False).calls == ()
    again = read_action(reply.message()["content"], True)
    assert again.message() == reply.message()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (401, "authentication_error"), (404, "not_found_error"), (410, None), (503, None)],
)
def test_errors_of_anthropic(status, kind):
    expected = kind or ("api_error" if status >= 500 else "invalid_request_error")
    body = ANTHROPIC_MESSAGES.write_error(HttpError(status, "no"))
    assert body == {"type": "error", "error": {"type": expected, "message": "no"}}
