"""Tools: typed functions that a policy calls in its reply, in the style of its model."""

from rlvr.envs.tools.calls import STYLES, Call, Reading, read_calls, write_call
from rlvr.envs.tools.fetch import Fetch
from rlvr.envs.tools.kits import Functions, Kit, Search, SQLite, Workspace
from rlvr.envs.tools.mcp_kit import MCP
from rlvr.envs.tools.registry import KITS, register_tool
from rlvr.envs.tools.task import Session, ToolTask
from rlvr.envs.tools.tool import Tool, ToolError, ToolFault, instructions, shown, tool
from rlvr.envs.tools.with_tools import WithTools

__all__ = [
    "KITS",
    "MCP",
    "STYLES",
    "Call",
    "Fetch",
    "Functions",
    "Kit",
    "Reading",
    "SQLite",
    "Search",
    "Session",
    "Tool",
    "ToolError",
    "ToolFault",
    "ToolTask",
    "WithTools",
    "Workspace",
    "instructions",
    "read_calls",
    "register_tool",
    "shown",
    "tool",
    "write_call",
]
