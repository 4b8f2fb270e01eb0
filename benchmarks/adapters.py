"""What an adapter costs: microseconds a turn through each surface, beside stepping the environment directly.

    python benchmarks/adapters.py [--rounds 7] [--episodes 400] [--out benchmarks/results]
    python benchmarks/adapters.py --endpoint              # calls of the policy endpoint alone
    python benchmarks/adapters.py --framework openrlhf    # by .venvs/openrlhf/bin/python of tests/adapters/run.py

A surface in this process should add less than 0.2 ms to a turn. Engines and trainers are stand-ins that sample
the same tokens each time: what is left is our loop, the framework's helpers that it calls, and the encoding of new
messages. Each run replaces its own table of the record and keeps the others. The endpoints' figures hold two HTTP
messages on the loopback device, and are no part of that bound.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import statistics
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym

from rlvr.adapters import EpisodeSession, TaskSpec
from rlvr.adapters.serving.policy_endpoint import HarnessEnv
from rlvr.adapters.suites import gem as gem_adapter
from rlvr.adapters.token_session import TokenSession
from rlvr.adapters.trainers import trl as adapter
from rlvr.agents.models.tiny import tiny_tokenizer
from rlvr.agents.rendering import Renderer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, this_command, write_results

ENV, TURNS = "rlvr/GuessNumber-v0", 8
SPEC = TaskSpec(ENV, 0, kwargs={"max_turns": TURNS, "level": 3})
BOUND = 200.0  # microseconds
CHATML = (
    "{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
WORDS = "no number"  # never right, so that each episode has all its turns
# Plays one, and says how many steps it had. What awaits does so in a loop that runs all the while, as a trainer's does:
# to start one for each episode would cost as much as a turn.
Episode = Callable[[], "int | Awaitable[int]"]


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
    token_ids = [*tokenizer.encode(WORDS), tokenizer.eos_token_id]
    trainer = SimpleNamespace(
        processing_class=tokenizer,
        max_completion_length=4096,
        eos_token_ids=[tokenizer.eos_token_id],
        _generate_single_turn=lambda prompts, *_: ([token_ids] * len(prompts), None),
    )
    prompt = [{"role": "user", "content": "?", "spec": SPEC.to_json()}]
    play_all = adapter.rollout_function()

    def play() -> int:
        play_all([prompt], trainer)
        return TURNS

    return play


def tokens() -> Episode:
    """Ids in, ids out: what the adapters of OpenRLHF and tinker-cookbook stand on."""
    tokenizer, spec = tiny_tokenizer(), SPEC.to_json()
    renderer, sampled = Renderer(tokenizer), said_by(tokenizer)

    def play() -> int:
        episode = TokenSession(spec, renderer, 4096)
        while not episode.done:
            episode.prompt()
            episode.step_tokens(sampled)
        return episode.session.turns

    return play


def said_by(tokenizer) -> list[int]:
    return [*tokenizer.encode(WORDS, add_special_tokens=False), tokenizer.eos_token_id]


# frameworks, each in a virtual environment of its own


def openrlhf() -> dict[str, Episode]:
    """OpenRLHF's executor over an engine that samples nothing."""
    module = importlib.import_module("rlvr.adapters.trainers.openrlhf")
    tokenizer = tiny_tokenizer()
    sampled = said_by(tokenizer)
    scores = [{token: SimpleNamespace(logprob=-1.0)} for token in sampled]
    sample = SimpleNamespace(token_ids=sampled, finish_reason="stop", logprobs=scores)

    class Engine:
        async def generate(self, *_, **__):
            return SimpleNamespace(outputs=[sample])

    settings = SimpleNamespace(max_tokens=64, min_tokens=1, temperature=1.0, top_p=1.0, logprobs=1)
    executor, engine, label = module.AgentExecutor(), Engine(), SPEC.to_json()

    async def play() -> int:
        played = await executor.execute("?", label, settings, 4096, tokenizer, engine)
        return int(played["extra_logs"]["turns"])

    return {"OpenRLHF executor": play}


def areal() -> dict[str, Episode]:
    """AReaL's workflow over an engine that samples nothing; its copies of the settings and the tensors count."""
    module = importlib.import_module("rlvr.adapters.trainers.areal")
    api, arguments = importlib.import_module("areal.api"), importlib.import_module("areal.api.cli_args")
    tokenizer = tiny_tokenizer()
    sampled = said_by(tokenizer)
    scores, versions = [-1.0] * len(sampled), [0] * len(sampled)

    class Engine:
        async def agenerate(self, _):
            return api.ModelResponse(output_tokens=sampled, output_logprobs=scores, output_versions=versions)

    settings = arguments.GenerationHyperparameters(max_tokens=4096, max_new_tokens=64)
    workflow, engine, row = module.EpisodeWorkflow(settings, tokenizer), Engine(), {"spec": SPEC.to_json()}

    async def play() -> int:
        await workflow.arun_episode(engine, row)
        return TURNS

    return {"AReaL workflow": play}


def skyrl() -> dict[str, Episode]:
    """SkyRL's text environment, as its generator steps it."""
    module = importlib.import_module("rlvr.adapters.trainers.skyrl")
    extras, prompt = {"extra_info": {"spec": SPEC.to_json()}}, SPEC.start()[1]

    def play() -> int:
        env, over = module.RlvrTextEnv(None, extras), False
        env.init([{"role": "user", "content": prompt}])
        while not over:
            over = env.step(WORDS)["done"]
        return env.turns

    return {"SkyRL text environment": play}


def tinker_cookbook() -> dict[str, Episode]:
    """Both environments of tinker-cookbook, without its completers."""
    module = importlib.import_module("rlvr.adapters.trainers.tinker_cookbook")
    tokenizer = tiny_tokenizer()
    renderer, sampled, spec = Renderer(tokenizer), said_by(tokenizer), SPEC.to_json()
    reply = {"role": "assistant", "content": WORDS}

    async def by_tokens() -> int:
        env, over = module.TokenEnv(spec, renderer), False
        await env.initial_observation()
        while not over:
            over = (await env.step(sampled)).episode_done
        return env.session.turns

    async def by_messages() -> int:
        env, over = module.TextMessageEnv(spec), False
        await env.initial_observation()
        while not over:
            over = (await env.step(reply)).episode_done
        return env.session.turns

    return {"tinker-cookbook by tokens": by_tokens, "tinker-cookbook by messages": by_messages}


def verl_loop(module, token_output):
    """The loop over a client that samples the same each time, and what it samples; verl knows its template."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "eos_token": "<|im_end|>"}
    )
    tokenizer.chat_template = CHATML
    sampled = said_by(tokenizer)
    output = token_output(token_ids=sampled, log_probs=[-1.0] * len(sampled))

    class Client:
        async def generate(self, *_, **__):
            return output

    rollout = SimpleNamespace(prompt_length=4096, response_length=4096, get=lambda name, default=None: default)
    config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))
    return (
        module.AgentLoop(
            trainer_config=SimpleNamespace(config=config),
            server_manager=Client(),
            tokenizer=tokenizer,
            processor=None,
            dataset_cls=None,
            data_config=SimpleNamespace(config={}),
            hf_model_type="qwen3",
        ),
        sampled,
    )


def verl() -> dict[str, Episode]:
    """verl's agent loop over a client that samples nothing; and verl's own helpers alone, on the same messages."""
    module = importlib.import_module("rlvr.adapters.trainers.verl")
    token_output = importlib.import_module("verl.workers.rollout.replica").TokenOutput
    asyncio.set_event_loop(event_loop())  # verl's base class asks for it
    agent_loop, sampled = verl_loop(module, token_output)
    row, settings = {"extra_info": {"spec": SPEC.to_json()}, "raw_prompt": []}, {"logprobs": True}
    episode = EpisodeSession(SPEC)
    begins, follows = list(episode.messages), []
    while not episode.done:
        if (message := episode.step(WORDS)) is not None:
            follows.append([{"role": "assistant", "content": WORDS}, message])

    async def helpers() -> int:
        messages = list(begins)
        ids, mask, scores = agent_loop.continuous_token_builder.build_initial_tokens(messages), [], []
        for added in [*follows, None]:
            merged, mask, scores = await agent_loop.ct_merge_assistant_token(
                ids, sampled, mask, scores, assistant_logprobs=[-1.0] * len(sampled)
            )
            ids = merged.token_ids
            if added is not None:
                messages = messages + added
                merged, mask, scores = await agent_loop.ct_merge_context_msg(messages[:-1], messages, ids, mask, scores)
                ids = merged.token_ids
        return TURNS

    async def play() -> int:
        return (await agent_loop.run(settings, **row)).num_turns // 2

    async def all_new() -> int:
        agent_loop.renderer._remembered.cache_clear()  # as if no message had been there before
        return await play()

    return {
        "verl agent loop": play,
        "verl agent loop, all messages new": all_new,
        "verl's helpers alone": helpers,
    }


DIALECTS = {  # path, and the field of the messages
    "Chat Completions": ("/chat/completions", "messages"),
    "Responses": ("/responses", "input"),
    "Anthropic Messages": ("/messages", "messages"),
}


def harness(path: str = "/chat/completions", field: str = "messages", history: int = 0, **fields: object) -> Episode:
    """One connection a request, as the simplest client does it, after ``history`` messages of 1,000 characters."""
    before = [{"role": ("user", "assistant")[i % 2], "content": f"{i} {'x' * 1_000}"} for i in range(history)]

    client = [0.0]  # seconds of CPU so far, of the thread that asks

    def ask(connection) -> float:
        messages = list(before)
        for turn in range(TURNS):
            messages.append({"role": "user", "content": str(turn)})
            body = json.dumps({field: messages, **fields}).encode()
            headers = {"Authorization": f"Bearer {connection.api_key}"}
            request = urllib.request.Request(connection.base_url + path, body, headers)
            urllib.request.urlopen(request, timeout=60).read()
            messages.append({"role": "assistant", "content": WORDS})
        client[0] += time.thread_time()
        return 0.0

    env: gym.Env[str, str] = HarnessEnv(ask)

    def play() -> int:
        env.reset(seed=0)
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, _ = env.step(WORDS)
            over, steps = terminated or truncated, steps + 1
        return steps

    play.env, play.client = env, client  # type: ignore[attr-defined]
    return play


@lru_cache
def event_loop() -> asyncio.AbstractEventLoop:
    """The one in which all is measured."""
    return asyncio.new_event_loop()


def measure(play: Episode, episodes: int) -> list[float]:
    """Microseconds of CPU a step, of all threads, for each episode, its reset's share included: what else runs here
    does not count."""
    return event_loop().run_until_complete(_measure(play, episodes))


async def _measure(play: Episode, episodes: int) -> list[float]:
    rates = []
    for _ in range(episodes):
        start = time.process_time()
        steps = play()
        if not isinstance(steps, int):
            steps = await steps
        rates.append((time.process_time() - start) / steps * 1e6)
    return rates


def compare(title: str, contenders: dict[str, Episode], rounds: int, episodes: int) -> tuple[Table, dict[str, float]]:
    """The median of each round, and what each adds to ``direct`` in the median and in the 90th percentile."""
    table = Table(title, "microseconds of CPU a step, resets included, medians of rounds", "direct", {}, this_command())
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for play in contenders.values():
        measure(play, 20)  # imports, caches, and kinds of calls that begin in threads
    for _ in range(rounds):
        for name, play in contenders.items():
            rates = measure(play, episodes)
            samples[name] += rates
            table.add(name, statistics.median(rates))
    facts = {}
    base = [statistics.median(samples["direct"]), statistics.quantiles(samples["direct"], n=10)[-1]]
    for name, values in samples.items():
        if name != "direct":
            both = [statistics.median(values), statistics.quantiles(values, n=10)[-1]]
            facts[f"{name} adds, median (µs)"] = round(both[0] - base[0], 1)
            facts[f"{name} adds, p90 (µs)"] = round(both[1] - base[1], 1)
    return table, facts


def record_of(folder: Path) -> tuple[dict[str, Table], dict[str, object]]:
    """The tables and facts of earlier runs."""
    path = folder / "adapters.json"
    record = json.loads(path.read_text()) if path.exists() else {"tables": {}, "facts": {}}
    tables = {
        title: Table(title, table["unit"], "direct", table["rounds"], table.get("command", ""))
        for title, table in record["tables"].items()
    }
    return tables, record["facts"]


FRAMEWORKS = {"areal": areal, "openrlhf": openrlhf, "skyrl": skyrl, "tinker_cookbook": tinker_cookbook, "verl": verl}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument("--framework", choices=FRAMEWORKS, help="measure its adapter; it must be installed")
    parser.add_argument("--endpoint", action="store_true", help="measure calls of the policy endpoint alone")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    tables, facts = record_of(options.out)
    if options.endpoint:
        tables[CALLS], rates = calls(options.rounds, options.episodes), {}
    elif options.framework:
        title = f"Under {options.framework}"
        contenders = {"direct": direct(), **FRAMEWORKS[options.framework]()}
        tables[title], rates = compare(title, contenders, options.rounds, options.episodes)
    else:
        title = "Steps through an adapter"
        contenders = {
            "direct": direct(),
            "Session": session(),
            "TokenSession": tokens(),
            "GEM": gem(),
            "TRL tools": tools(),
            "TRL rollout function": rollout(),
        }
        tables[title], rates = compare(title, contenders, options.rounds, options.episodes)
        rates |= over_http(options.rounds, max(1, options.episodes // 40))
    facts = {**facts, **rates, "bound (µs)": BOUND, "environment": f"{ENV}, {TURNS} turns"}
    write_results("adapters", list(tables.values()), facts, options.out)


CALLS = "A call of the policy endpoint"


def calls(rounds: int, episodes: int) -> Table:
    """What a call costs in each dialect, with `HarnessEnv`, which steps it; the client's own work left out."""
    unit = "CPU-milliseconds a call, the client's own left out, means of rounds"
    table = Table(CALLS, unit, "Chat Completions", {}, this_command())
    for name, (path, field) in DIALECTS.items():
        more: dict[str, object] = {"max_tokens": 9}
        variants = {name: harness(path, field, **more), f"{name}, streamed": harness(path, field, stream=True, **more)}
        variants[f"{name}, after 100 messages"] = harness(path, field, history=100, **more)
        for variant, play in variants.items():
            measure(play, 2)
            for _ in range(rounds):
                started = play.client[0]  # type: ignore[attr-defined]
                whole = statistics.mean(measure(play, episodes)) / 1_000
                own = (play.client[0] - started) / episodes / TURNS * 1_000  # type: ignore[attr-defined]
                table.add(variant, whole - own)
            play.env.close()  # type: ignore[attr-defined]
    return table


def over_http(rounds: int, episodes: int) -> dict[str, float]:
    """A step of `HarnessEnv`: its CPU and its wall clock."""
    wire, walls, cpu = harness(), [], []
    for _ in range(rounds):
        start = time.perf_counter()
        cpu += measure(wire, episodes)
        walls.append((time.perf_counter() - start) / episodes / TURNS * 1e6)
    wire.env.close()  # type: ignore[attr-defined]
    return {
        "HarnessEnv, CPU of a step (µs)": round(statistics.median(cpu)),
        "HarnessEnv, wall clock of a step (µs)": round(statistics.median(walls)),
    }


if __name__ == "__main__":
    main()
