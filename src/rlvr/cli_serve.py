"""``rlvr serve``: environments behind WebSocket and HTTP."""

from __future__ import annotations

import argparse
from typing import Any

from rlvr.cli_options import add_server, add_settings, full_id, server_of, settings_of
from rlvr.envs.core.code_rule import require_registered


def add_parser(commands: Any) -> None:
    """Add ``serve``."""
    serving = commands.add_parser("serve", help="serve environments over WebSocket and HTTP")
    serving.add_argument("env", nargs="+", help="ids of environments; clients of several name theirs")
    add_settings(serving)
    add_server(serving, port=8765)
    serving.add_argument("--expert", action="store_true", help="clients may ask for the expert's action, and snapshots")
    serving.add_argument(
        "--in-processes", metavar="ENV", action="append", default=[], help="played in processes, whatever --backend is"
    )
    serving.add_argument("--name", default="", help="of this server; its sessions' names begin with it")
    serving.add_argument("--session-steps", type=int, help="that a session may ask for")
    serving.add_argument("--session-seconds", type=float, help="that a session may live, however often it is used")
    serving.add_argument(
        "--drain",
        type=float,
        default=30.0,
        help="seconds that running episodes have after SIGTERM; 0 ends them at once",
    )
    serving.set_defaults(command=serve)


def serve(options: argparse.Namespace, rest: list[str]) -> int:
    """Serve until Ctrl-C, or until a drain that SIGTERM began is over."""
    from rlvr.adapters.serving.serve import EnvServer

    settings = settings_of(options)
    for env_id in options.env:
        require_registered(env_id, settings)
    server = EnvServer(
        options.env,
        settings,
        **server_of(options),
        expert=options.expert,
        name=options.name,
        session_steps=options.session_steps,
        session_seconds=options.session_seconds,
        drain=options.drain,
        processes=[full_id(name) for name in options.in_processes],
    )
    each = " each" if len(options.env) > 1 else ""
    print(f"{', '.join(options.env)} at {server.url} ({options.sessions} sessions{each}; Ctrl-C ends it)", flush=True)
    server.run()
    return 0
