"""``rlvr loadtest``: what a deployment of `rlvr serve` bears."""

from __future__ import annotations

import argparse
import os
from typing import Any


def add_parser(commands: Any) -> None:
    """Add ``loadtest``."""
    testing = commands.add_parser("loadtest", help="measure servers that run: sessions, steps, latency, faults")
    testing.add_argument("url", nargs="+", help="addresses as `rlvr serve` prints them, or dns+http://name:port")
    testing.add_argument("--sessions", type=int, default=64, help="open at once, over all servers")
    testing.add_argument("--seconds", type=float, default=10.0, help="of stepping")
    testing.add_argument("--single", action="store_true", help="a message for each step, in place of one for all")
    testing.add_argument("--pause", type=float, default=1.0, help="mean seconds between a session's steps (--single)")
    testing.add_argument("--action", default="\\boxed{7}", help="what is said at each step")
    testing.add_argument("--serves", metavar="ENV", help="id of the environment, where a server has several")
    testing.add_argument("--token-env", metavar="NAME", help="environment variable with the token")
    testing.add_argument("--restore", action="store_true", help="play episodes of a lost server again on another")
    testing.add_argument("--json", action="store_true", help="print the figures as JSON")
    testing.set_defaults(command=loadtest)


def loadtest(options: argparse.Namespace, rest: list[str]) -> int:
    """Measure, and print the figures; 1 if there was a fault."""
    from rlvr.adapters.fleet.loadtest import batched, single

    token = os.environ.get(options.token_env, "").strip() if options.token_env else None
    if options.token_env and not token:
        raise ValueError(f"there is no token in {options.token_env}")
    common: dict[str, Any] = {"token": token, "env": options.serves, "action": options.action}
    if options.single:
        report = single(options.url, options.sessions, options.seconds, pause=options.pause, **common)
    else:
        report = batched(options.url, options.sessions, options.seconds, restore=options.restore, **common)
    print(report.to_json() if options.json else report, flush=True)
    return 1 if report.faults else 0
