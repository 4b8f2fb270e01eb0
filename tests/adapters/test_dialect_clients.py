"""The endpoint's dialects, spoken to by the ``openai`` and ``anthropic`` packages themselves."""

from __future__ import annotations

import json

import pytest

from rlvr.adapters.serving.policy_endpoint import HarnessEnv

pytestmark = pytest.mark.foreign

CALL = 'I add.\n<tool_call>{"name": "add", "arguments": {"a": 1, "b": [2.5, "ü"]}}</tool_call>'
ARGUMENTS = {"a": 1, "b": [2.5, "ü"]}
FUNCTION = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}
TURN = {"role": "user", "content": "1 + 1?"}


def openai_client(connection):
    import openai

    return openai.OpenAI(base_url=connection.base_url, api_key=connection.api_key, max_retries=0)


def anthropic_client(connection):
    import anthropic

    return anthropic.Anthropic(base_url=connection.anthropic_base_url, api_key=connection.api_key, max_retries=0)


def chat(connection, streamed):
    messages = [{"role": "developer", "content": "Add."}, TURN]
    with openai_client(connection) as client:
        for said in ("I add.", "2"):
            tools = [{"type": "function", "function": FUNCTION}]
            asked = {"model": connection.model, "messages": messages, "tools": tools}
            if streamed:
                with client.chat.completions.stream(**asked) as stream:
                    stream.until_done()
                    choice = stream.get_final_completion().choices[0]
            else:
                choice = client.chat.completions.create(**asked).choices[0]
            assert choice.message.content == said
            messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
            if choice.finish_reason == "tool_calls":
                (call,) = choice.message.tool_calls
                assert json.loads(call.function.arguments) == ARGUMENTS
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "2"})
    return 1.0


def responses(connection, streamed):
    items = [TURN]
    with openai_client(connection) as client:
        for said in ("I add.", "2"):
            tools = [{"type": "function", "strict": False, **FUNCTION}]
            asked = {"model": connection.model, "input": items, "instructions": "Add.", "tools": tools}
            if streamed:
                with client.responses.stream(**asked) as stream:
                    answer = stream.get_final_response()
            else:
                answer = client.responses.create(**asked)
            assert (answer.output_text, answer.status) == (said, "completed")
            assert answer.usage.total_tokens == 0
            calls = [item for item in answer.output if item.type == "function_call"]
            items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
            for call in calls:
                assert json.loads(call.arguments) == ARGUMENTS
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": "2"})
    return 1.0


def messages(connection, streamed):
    turns = [TURN]
    with anthropic_client(connection) as client:
        for said, reason in (("I add.", "tool_use"), ("2", "end_turn")):
            tools = [{"name": "add", "description": "Adds.", "input_schema": FUNCTION["parameters"]}]
            asked = {"model": connection.model, "max_tokens": 9, "system": "Add.", "messages": turns, "tools": tools}
            if streamed:
                with client.messages.stream(**asked) as stream:
                    assert "".join(stream.text_stream) == said
                    answer = stream.get_final_message()
            else:
                answer = client.messages.create(**asked)
            assert (answer.content[0].text, answer.stop_reason) == (said, reason)
            turns.append({"role": "assistant", "content": answer.content})
            results = []
            for block in answer.content:
                if block.type == "tool_use":
                    assert block.input == ARGUMENTS
                    results.append({"type": "tool_result", "tool_use_id": block.id, "content": "2"})
            turns.append({"role": "user", "content": results})
    return 1.0


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("package", "harness"), [("openai", chat), ("openai", responses), ("anthropic", messages)])
def test_a_client_plays_an_episode_with_a_call(package, harness, streamed):
    pytest.importorskip(package)
    env = HarnessEnv(lambda connection: harness(connection, streamed))
    try:
        observation, info = env.reset()
        assert (observation, info["system"], info["tools"][0]["function"]) == ("1 + 1?", "Add.", FUNCTION)
        observation, _, _, _, info = env.step(CALL)
        assert (observation, info["role"]) == ("2", "tool"), info["verdict"]
        assert env.step("2")[4]["verdict"].status == "correct"
    finally:
        env.close()


def anthropic_errors(connection):
    import anthropic

    asked = {"model": "m", "messages": [TURN]}
    with anthropic_client(connection) as client:
        with pytest.raises(anthropic.NotFoundError, match="nobody counts"):
            client.messages.count_tokens(**asked)
        with pytest.raises(anthropic.BadRequestError, match="container cannot be used here"):
            client.messages.create(**asked, max_tokens=9, extra_body={"container": "c"})
        with pytest.raises(anthropic.AuthenticationError):
            client.with_options(api_key="another").messages.create(**asked, max_tokens=9)
        return float(client.messages.create(**asked, max_tokens=9).content[0].text == "x")


def openai_errors(connection):
    import openai

    with openai_client(connection) as client:
        with pytest.raises(openai.BadRequestError, match="send the whole conversation"):
            client.responses.create(model="m", input="?", previous_response_id="resp_1")
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="another").responses.create(model="m", input="?")
        return float(client.responses.create(model="m", input="?").output_text == "x")


@pytest.mark.parametrize(("package", "harness"), [("anthropic", anthropic_errors), ("openai", openai_errors)])
def test_errors_are_the_clients_own(package, harness):
    pytest.importorskip(package)
    env = HarnessEnv(harness)
    try:
        env.reset()
        assert env.step("x")[4]["verdict"].status == "correct"
    finally:
        env.close()
