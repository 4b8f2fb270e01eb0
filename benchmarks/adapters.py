"""What an adapter costs: microseconds a step through each shared surface, beside stepping the environment directly.

    python benchmarks/adapters.py [--rounds 7] [--episodes 400] [--out benchmarks/results]

In-process surfaces should add less than 50 microseconds to a step. The rollout function of TRL is measured over a
stand-in trainer that samples the same token each time: what is left is our loop and the encoding of new messages. The
endpoints' figures hold two HTTP messages on the loopback device, and are no part of that bound.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
from results import Table, write_results

from rlvr.adapters import EpisodeSession, TaskSpec
from rlvr.adapters.serving.policy_endpoint import HarnessEnv
from rlvr.adapters.suites import gem as gem_adapter
from rlvr.adapters.trainers import trl as adapter
from rlvr.agents.models.tiny import tiny_tokenizer

ENV, TURNS = "rlvr/GuessNumber-v0", 8
SPEC = TaskSpec(ENV, 0, kwargs={"max_turns": TURNS, "level": 3})
BOUND = 50.0  # microseconds
WORDS = "no number"  # never right, so that each episode has all its turns
Episode = Callable[[], int]  # plays one, and says how many steps it had


def direct() -> Episode:
    env = SPEC.make()

    def play() -> int:
        env.reset(seed=0)
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, _ = env.step(WORDS)
            over, steps = terminated or truncated, steps + 1
        return steps

    return play


def session() -> Episode:
    env = SPEC.make()

    def play() -> int:
        episode = EpisodeSession(SPEC, env=env)
        while not episode.done:
            episode.step(WORDS)
        return episode.turns

    return play


def tools() -> Episode:
    spec = SPEC.to_json()

    def play() -> int:
        tool, steps = adapter.ToolEnvironment(), 0
        tool.reset(spec=spec)
        while not tool._session.done:
            tool.act(WORDS)
            steps += 1
        return steps

    return play


def gem() -> Episode:
    """GEM's interface; its class does nothing, so it need not be installed."""
    gem_adapter.require = lambda *_: ""  # type: ignore[assignment]
    env = gem_adapter.GemEnv(ENV, **SPEC.kwargs)

    def play() -> int:
        env.reset(seed=0)
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, _ = env.step(WORDS)
            over, steps = terminated or truncated, steps + 1
        return steps

    return play


def rollout() -> Episode:
    """TRL's rollout function over a trainer that samples nothing."""
    adapter.require = lambda *_: ""  # type: ignore[assignment]  # its loop is ours, and needs nothing of TRL
    tokenizer = tiny_tokenizer()
    said = [*tokenizer.encode(WORDS), tokenizer.eos_token_id]
    trainer = SimpleNamespace(
        processing_class=tokenizer,
        max_completion_length=4096,
        eos_token_ids=[tokenizer.eos_token_id],
        _generate_single_turn=lambda prompts, *_: ([said] * len(prompts), None),
    )
    prompt = [{"role": "user", "content": "?", "spec": SPEC.to_json()}]
    play_all = adapter.rollout_function()

    def play() -> int:
        play_all([prompt], trainer)
        return TURNS

    return play


def harness() -> Episode:
    """One connection a request, as the simplest client does it."""

    def ask(connection) -> float:
        for turn in range(TURNS):
            body = json.dumps({"messages": [{"role": "user", "content": str(turn)}]}).encode()
            headers = {"Authorization": f"Bearer {connection.api_key}"}
            request = urllib.request.Request(connection.base_url + "/chat/completions", body, headers)
            urllib.request.urlopen(request, timeout=60).read()
        return 0.0

    env: gym.Env[str, str] = HarnessEnv(ask)

    def play() -> int:
        env.reset(seed=0)
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, _ = env.step(WORDS)
            over, steps = terminated or truncated, steps + 1
        return steps

    play.env = env  # type: ignore[attr-defined]
    return play


def measure(play: Episode, episodes: int) -> float:
    """Microseconds of CPU a step, of all threads, the reset's share included: what else runs here does not count."""
    start, steps = time.process_time(), 0
    for _ in range(episodes):
        steps += play()
    return (time.process_time() - start) / steps * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    inside = {
        "direct": direct(),
        "Session": session(),
        "GEM": gem(),
        "TRL tools": tools(),
        "TRL rollout function": rollout(),
    }
    wire = harness()
    table = Table("Steps through an adapter", "microseconds of CPU a step, resets included", "direct")
    walls = []
    for _ in range(options.rounds):
        for name, play in inside.items():
            table.add(name, measure(play, options.episodes))
        start, few = time.perf_counter(), max(1, options.episodes // 40)
        table.add("HarnessEnv", measure(wire, few))
        walls.append((time.perf_counter() - start) / few / TURNS * 1e6)
    walls.sort()
    wire.env.close()  # type: ignore[attr-defined]
    middle = {name: table.median(name) for name in table.rounds}
    facts = {f"{name} adds (µs)": round(middle[name] - middle["direct"], 1) for name in inside if name != "direct"}
    facts |= {
        "HarnessEnv, wall clock of a step (µs)": round(walls[len(walls) // 2]),
        "bound (µs)": BOUND,
        "environment": f"{ENV}, {TURNS} turns",
    }
    write_results("adapters", [table], facts, options.out)


if __name__ == "__main__":
    main()
