"""A real MCP server for the tests that answers what the high-level one cannot: composed schemas, requests for input.

It runs over HTTP on the port that it is given.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import uvicorn
from mcp import types
from mcp.server.lowlevel import Server

COMPOSED = {
    "type": "object",
    "oneOf": [{"$ref": "#/$defs/by_name"}, {"properties": {"number": {"type": "integer"}}, "required": ["number"]}],
    "allOf": [{"properties": {"loud": {"type": "boolean"}}}],
    "$defs": {"by_name": {"properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
SCHEMAS = {"find": COMPOSED, "route": REGION, "ask": NOTHING, "broken": NOTHING, "list": NOTHING, "wrong": NOTHING}


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    outputs = {"broken": NUMBERS, "list": NUMBERS}
    tools = [
        types.Tool(name=name, title=f"To {name}", input_schema=schema, output_schema=outputs.get(name))
        for name, schema in SCHEMAS.items()
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(context: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
    if params.name == "ask":
        form = types.ElicitRequestFormParams(message="Who are you?", requested_schema=NOTHING)
        return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=form)}, request_state="x")
    if params.name in ("broken", "list"):
        content = ["one"] if params.name == "broken" else [1, 2]
        return types.CallToolResult(content=[], structured_content=content)
    if params.name == "wrong":
        text = [types.TextContent(type="text", text="there is no such row")]
        return types.CallToolResult(content=text, is_error=True)
    headers = {name: value for name, value in context.request.headers.items() if name.startswith("mcp-param")}
    text = json.dumps([params.arguments, headers])
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


server = Server("bare", instructions="Look before you leap.", on_list_tools=list_tools, on_call_tool=call_tool)

if __name__ == "__main__":
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
