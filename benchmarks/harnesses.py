"""What the policy endpoint costs where harnesses ask it, and whether any of 64 at once loses a word.

    python benchmarks/harnesses.py [--harnesses 64] [--calls 20] [--rounds 3] [--out FOLDER]

A process beside this one plays the harnesses, a thread for each: a conversation with a system prompt of 4,000
characters and eight tools, which grows by a question and a reply with each call. The policy says each question again,
which the harness compares. Counted is the CPU time of this process: the endpoint, its server and threads, and the
rollout.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rlvr.adapters.serving.policy_endpoint import HarnessConnection, HarnessEnv, PolicyEndpoint
from rlvr.agents import Conversation, Reply, Rollout, RolloutRequest

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

DIALECTS = {
    "Chat Completions": ("chat/completions", False),
    "Chat Completions, streamed": ("chat/completions", True),
    "Responses": ("responses", False),
    "Messages": ("messages", False),
}
SYSTEM = "You work in a folder. " * 182  # 4,000 characters
SCHEMA = {
    "type": "object",
    "properties": {f"argument_{n}": {"type": "string", "description": "a word"} for n in range(6)},
}


def body(path: str, model: str, streamed: bool) -> dict[str, Any]:
    """What a harness sends in each call beside its messages."""
    tools: list[dict[str, Any]] = [{"name": f"tool_{n}", "description": SYSTEM[:200]} for n in range(8)]
    if path == "messages":
        each = [tool | {"input_schema": SCHEMA} for tool in tools]
        return {"model": model, "stream": streamed, "max_tokens": 64, "system": SYSTEM, "tools": each}
    if path == "responses":
        each = [tool | {"type": "function", "parameters": SCHEMA} for tool in tools]
        return {"model": model, "stream": streamed, "instructions": SYSTEM, "tools": each}
    each = [{"type": "function", "function": tool | {"parameters": SCHEMA}} for tool in tools]
    return {"model": model, "stream": streamed, "tools": each}


def play(job: dict[str, Any]) -> None:
    """Be a harness; prints how many of its calls were not answered with their own question."""
    url, path, lost = urlsplit(job["base_url"]), job["path"], 0
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=120)
    headers = {"Authorization": f"Bearer {job['api_key']}", "Content-Type": "application/json"}
    asked = body(path, job["model"], job["streamed"])
    messages: list[dict[str, str]] = [{"role": "system", "content": SYSTEM}] if path == "chat/completions" else []
    for number in range(job["calls"]):
        text = f"{job['model']} asks for the {number}th time"
        messages.append({"role": "user", "content": text})
        sent = asked | {"input" if path == "responses" else "messages": messages}
        connection.request("POST", f"{url.path}/{path}", json.dumps(sent), headers)
        lost += text.encode() not in connection.getresponse().read()
        messages.append({"role": "assistant", "content": text})
    sys.stdout.write(json.dumps({"model": job["model"], "lost": lost}) + "\n")  # in one piece: other threads write too
    sys.stdout.flush()


class Harnesses:
    """The process that plays them; called as a harness."""

    def __init__(self, calls: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--play"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._calls, self._ended, self._lock = calls, dict[str, threading.Event](), threading.Lock()
        self.lost, self.path, self.streamed = 0, "", False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            self.lost += told["lost"]
            self._ended[told["model"]].set()

    def __call__(self, connection: HarnessConnection) -> float:
        job = {name: getattr(connection, name) for name in ("base_url", "api_key", "model")}
        job |= {"path": self.path, "streamed": self.streamed, "calls": self._calls}
        ended = self._ended[connection.model] = threading.Event()
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        return float(ended.wait(300))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Echo:
    """A policy that says what it was asked."""

    in_any_thread = True

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        return [Reply(conversation.messages[-1]["content"]) for conversation in conversations]


def measure(harnesses: Harnesses, endpoint: PolicyEndpoint, count: int, calls: int) -> float:
    """CPU-milliseconds of this process a call."""
    rollout = Rollout(lambda: HarnessEnv(harnesses, endpoint=endpoint), Echo(), batch_size=count, workers=count)
    began = time.process_time()
    episodes = rollout([RolloutRequest(seed) for seed in range(count)])
    taken = time.process_time() - began
    assert [(e.reward, len(e.turns), e.branches) for e in episodes] == [(1.0, calls, [])] * count, episodes[0]
    return 1000 * taken / (count * calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--harnesses", type=int, default=64)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--play", action="store_true", help="be the harnesses")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.play:
        for line in sys.stdin:
            threading.Thread(target=play, args=(json.loads(line),)).start()
        return
    cost = Table("CPU", "CPU-milliseconds of this process a call (wanted: at most 3)", "Chat Completions")
    harnesses = Harnesses(options.calls)
    try:
        with PolicyEndpoint() as endpoint:
            for _ in range(options.rounds):
                for name, (harnesses.path, harnesses.streamed) in DIALECTS.items():
                    cost.add(name, measure(harnesses, endpoint, options.harnesses, options.calls))
    finally:
        harnesses.close()
    total = options.rounds * len(DIALECTS) * options.harnesses * options.calls
    facts = {
        "harnesses at once, calls of each": f"{options.harnesses}, {options.calls}",
        "calls whose answer was lost, or another one's": f"{harnesses.lost} of {total:,}",
    }
    write_results("harnesses", [cost], facts, options.out)


if __name__ == "__main__":
    main()
