"""``rlvr serve`` and ``serve-ors``: environments behind WebSocket and HTTP; ``rlvr loadtest``: what a server bears."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from rlvr.cli.options import add_server, add_settings, nonnegative, server_of, settings_of
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.registry import full_id


def add_parsers(commands: Any) -> None:
    """Add ``serve-ors``, ``serve`` and ``loadtest``."""
    _add_ors(commands)
    serving = commands.add_parser(
        "serve",
        help="serve environments over WebSocket and HTTP",
        examples=(
            "rlvr serve Countdown",
            "rlvr serve Terminal --level 2 --backend process --host 0.0.0.0 --token-env RLVR_TOKEN",
        ),
    )
    what = serving.add_argument_group("what is served")
    what.add_argument("env", nargs="+", help="ids of environments; clients of several name theirs")
    add_settings(what)
    what.add_argument("--expert", action="store_true", help="clients may ask for the expert's action, and snapshots")
    what.add_argument("--name", default="", help="of this server; its sessions' names begin with it")
    what.add_argument(
        "--in-processes", metavar="ENV", action="append", default=[], help="played in processes, whatever --backend is"
    )
    what.add_argument("--session-steps", type=int, help="that a session may ask for")
    what.add_argument("--session-seconds", type=nonnegative, help="that a session may live, however often it is used")
    add_server(serving, default_port=8765)
    serving.set_defaults(command=serve)
    _add_loadtest(commands)


def _add_ors(commands: Any) -> None:
    serving = commands.add_parser("serve-ors", help="serve environments by the Open Reward Standard")
    what = serving.add_argument_group("what is served")
    what.add_argument("ids", nargs="+", metavar="env", help="ids of environments")
    what.add_argument("--tasks", type=int, default=1_000, help="listed of a split that is endless")
    add_settings(what)
    add_server(serving, default_port=8080)
    serving.set_defaults(command=serve_ors)


def _add_loadtest(commands: Any) -> None:
    testing = commands.add_parser("loadtest", help="measure servers that run: sessions, steps, latency, faults")
    testing.add_argument("url", nargs="+", help="addresses as `rlvr serve` prints them, or dns+http://name:port")
    testing.add_argument("--sessions", type=int, default=64, help="open at once, over all servers")
    testing.add_argument("--seconds", type=nonnegative, default=10.0, help="of stepping")
    testing.add_argument("--single", action="store_true", help="a message for each step, in place of one for all")
    testing.add_argument(
        "--pause", type=nonnegative, default=1.0, help="mean seconds between a session's steps (--single)"
    )
    testing.add_argument("--action", default="\\boxed{7}", help="what is said at each step")
    testing.add_argument("--serves", metavar="ENV", help="id of the environment, where a server has several")
    testing.add_argument("--token-env", metavar="NAME", help="environment variable with the token")
    testing.add_argument("--json", action="store_true", help="print the figures as JSON")
    testing.set_defaults(command=loadtest)


def serve(options: argparse.Namespace, rest: list[str]) -> int:
    """Serve until Ctrl-C, or until a drain that SIGTERM began is over."""
    from rlvr.adapters.serving.serve import EnvServer
    from rlvr.envs.vector.inline import rare_collections

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
        processes=[full_id(name) for name in options.in_processes],
    )
    each = " each" if len(options.env) > 1 else ""
    print(f"{', '.join(options.env)} at {server.url} ({options.sessions} sessions{each}; Ctrl-C ends it)", flush=True)
    with rare_collections(options.sessions):
        server.run()
    return 0


def loadtest(options: argparse.Namespace, rest: list[str]) -> int:
    """Measure, and print the figures; 1 if there was a fault."""
    from rlvr.adapters.fleet.loadtest import batched, single

    token = os.environ.get(options.token_env, "").strip() if options.token_env else None
    if options.token_env and not token:
        raise ValueError(f"there is no token in {options.token_env}")
    common: dict[str, Any] = {
        "token": token,
        "env": options.serves and full_id(options.serves),
        "action": options.action,
    }
    if options.single:
        report = single(options.url, options.sessions, options.seconds, pause=options.pause, **common)
    else:
        report = batched(options.url, options.sessions, options.seconds, **common)
    print(json.dumps(report.figures()) if options.json else report, flush=True)
    return 1 if report.faults else 0


def serve_ors(options: argparse.Namespace, rest: list[str]) -> int:
    """Serve until Ctrl-C, or until the episodes under way have ended after SIGTERM."""
    from rlvr.adapters.suites.openreward import OpenRewardServer

    settings = settings_of(options)
    ids = [full_id(name) for name in options.ids]
    for env_id in ids:
        require_registered(env_id, settings)
    server = OpenRewardServer(ids, settings, tasks=options.tasks, **server_of(options))
    key = f", X-API-Key: {server.token}" if server.token and not (options.token_file or options.token_env) else ""
    print(f"{', '.join(ids)} at {server.origin}{key} ({options.sessions} sessions each; Ctrl-C ends it)", flush=True)
    server.run()
    return 0
