"""An MCP server over stdio that hands out numbers at random, by hand: it starts in a few hundredths of a second."""

import json
import secrets
import sys

TOOLS = ("draw_number", "last_number")
drawn = ["none"]


def answer(method, params):
    if method == "initialize":
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "n", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object", "properties": {}}} for name in TOOLS]}
    if method == "tools/call":
        if params["name"] == "draw_number":
            drawn.append(secrets.token_hex(8))
        return {"content": [{"type": "text", "text": drawn[-1]}]}
    return None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = answer(asked["method"], asked.get("params", {}))
    said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
