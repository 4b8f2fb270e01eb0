"""An environment behind OpenEnv's server, on this machine.

    python examples/openenv_server.py rlvr/GuessNumber-v0 --set level=2 --port 8000    # where OpenEnv is installed

Then, in any process that has OpenEnv's client::

    from openenv.core import GenericEnvClient

    with GenericEnvClient(base_url="http://127.0.0.1:8000").sync() as env:
        told = env.reset(seed=7)
        told = env.step({"message": "50"})

There is no token: whoever reaches the address may play. In a container, put a file with ``app = server_app(…)`` in it
and ``uvicorn that_file:app --host 0.0.0.0``.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from rlvr.adapters.suites.openenv import MAX_SESSIONS, server_app


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env_id")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="for gym.make; JSON is read")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sessions", type=int, default=MAX_SESSIONS)
    parser.add_argument("--reward-at-end", action="store_true", help="one reward for the episode, with its last step")
    options = parser.parse_args(arguments)
    options.kwargs = {}
    for pair in options.set:
        name, equals, value = pair.partition("=")
        if not equals:
            parser.error(f"--set takes NAME=VALUE, got {pair}")
        options.kwargs[name] = read(value)
    return options


def read(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def main() -> None:
    options = parse()
    app = server_app(options.env_id, options.kwargs, max_sessions=options.sessions, reward_at_end=options.reward_at_end)
    import uvicorn

    # A client that generates for long in its event loop answers no ping meanwhile, and is still there.
    uvicorn.run(app, host=options.host, port=options.port, ws_ping_timeout=600, log_level="warning")


if __name__ == "__main__":
    main()
