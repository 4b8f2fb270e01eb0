"""``rlvr serve-ors``: environments behind the HTTP of the Open Reward Standard."""

from __future__ import annotations

import argparse
from typing import Any

from rlvr.cli_options import add_server, add_settings, full_id, server_of, settings_of
from rlvr.envs.core.code_rule import require_registered


def add_parser(commands: Any) -> None:
    """Add ``serve-ors``."""
    serving = commands.add_parser("serve-ors", help="serve environments by the Open Reward Standard")
    serving.add_argument("ids", nargs="+", metavar="env", help="ids of environments")
    serving.add_argument("--tasks", type=int, default=1_000, help="listed of a split that is endless")
    serving.add_argument(
        "--drain",
        type=float,
        default=30.0,
        help="seconds that running episodes have after SIGTERM; 0 ends them at once",
    )
    add_settings(serving)
    add_server(serving, default_port=8080)
    serving.set_defaults(command=serve_ors)


def serve_ors(options: argparse.Namespace, rest: list[str]) -> int:
    """Serve until Ctrl-C, or until the episodes under way have ended after SIGTERM."""
    from rlvr.adapters.suites.openreward import OpenRewardServer

    settings = settings_of(options)
    ids = [full_id(name) for name in options.ids]
    for env_id in ids:
        require_registered(env_id, settings)
    server = OpenRewardServer(
        ids,
        settings,
        tasks=options.tasks,
        drain=options.drain,
        **server_of(options),
    )
    key = f", X-API-Key: {server.token}" if server.token and not (options.token_file or options.token_env) else ""
    print(f"{', '.join(ids)} at {server.origin}{key} ({options.sessions} sessions each; Ctrl-C ends it)", flush=True)
    server.run()
    return 0
