"""A program that owns its loop, for OpenEnv's harness: it asks a model through OpenAI's API and calls tools over MCP.

`ProgramAdapter` starts it. A line of JSON is what the environment says, a line of JSON is the answer; see
docs/adapters/openenv.md. Where the environment has tools, ``MCP_URL`` is their server. ::

    OPENAI_BASE_URL=… OPENAI_API_KEY=… OPENAI_MODEL=… python examples/openenv_agent.py
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

from fastmcp import Client
from openai import AsyncOpenAI

MAX_CALLS = 8  # of tools, in one turn


def tell(kind: str, **data: Any) -> None:
    print(json.dumps({"type": kind, "data": data}), flush=True)


async def turn(model: AsyncOpenAI, tools: Client | None, messages: list[Any]) -> str:
    """The words that the model ends its turn with; until then its calls are carried out."""
    listed = await tools.list_tools() if tools else []
    schemas = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description or "", "parameters": tool.inputSchema},
        }
        for tool in listed
    ]
    for _ in range(MAX_CALLS + 1):
        options: dict[str, Any] = {"tools": schemas} if schemas else {}
        answer = await model.chat.completions.create(
            model=os.environ["OPENAI_MODEL"],
            messages=messages,
            max_completion_tokens=int(os.environ.get("MAX_TOKENS", "256")),
            **options,
        )
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls or tools is None:
            return message.content or ""
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            tell("tool_call", tool_name=call.function.name, arguments=arguments)
            result = await tools.call_tool(call.function.name, arguments, raise_on_error=False)
            text = "\n".join(block.text for block in result.content if block.type == "text")
            tell("tool_result", tool_name=call.function.name, result=text)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return ""


async def main() -> None:
    messages: list[Any] = []
    async with AsyncExitStack() as stack:
        model = AsyncOpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
        url = os.environ.get("MCP_URL")
        tools = await stack.enter_async_context(Client(url)) if url else None
        while line := await asyncio.to_thread(sys.stdin.readline):
            messages.append({"role": "user", "content": json.loads(line)["content"]})
            tell("turn_complete", response=await turn(model, tools, messages))


if __name__ == "__main__":
    asyncio.run(main())
