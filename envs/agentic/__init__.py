"""Worlds that are worked on through tools."""

from rlvr.envs.core.registry import ENTRY_POINT, register, register_template

register("rlvr/WorldSearch-v0", "rlvr.envs.agentic.world_search:WorldSearch")
register("rlvr/SQL-v0", "rlvr.envs.agentic.databases.task:SQL")
register("rlvr/ServiceDesk-v0", "rlvr.envs.agentic.service_desk:ServiceDesk")
register("rlvr/Service-v0", "rlvr.envs.agentic.services.task:Service")
register_template("rlvr/MCP-v0", ENTRY_POINT, task="rlvr.envs.agentic.mcp_world:MCPWorld")
register("rlvr/CodeTests-v0", "rlvr.envs.agentic.coding_tasks:CodeTests")
register("rlvr/CodeRepair-v0", "rlvr.envs.agentic.coding_tasks:CodeRepair")
register("rlvr/RepoRepair-v0", "rlvr.envs.agentic.repositories.task:RepoRepair")
register("rlvr/RepoFeature-v0", "rlvr.envs.agentic.repositories.feature_task:RepoFeature")
register_template("rlvr/RepoRows-v0", ENTRY_POINT, task="rlvr.envs.agentic.issues.task:RepoRows")
register("rlvr/Browser-v0", "rlvr.envs.agentic.browser:Browser")
register("rlvr/Terminal-v0", "rlvr.envs.agentic.terminal:Terminal")
register("rlvr/Planner-v0", "rlvr.envs.agentic.planning.task:Planner")
register("rlvr/Research-v0", "rlvr.envs.agentic.research.task:Research")
register("rlvr/LongContext-v0", "rlvr.envs.agentic.research.long_context:LongContext")
register("rlvr/Workshop-v0", "rlvr.envs.agentic.workshop.task:Workshop")
