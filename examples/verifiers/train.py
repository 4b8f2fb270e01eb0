"""Our learner trains on verifiers' rollouts: its loop and training client, our environment, sampler, loss and weights.

    rlvr train --config examples/calculator.yaml --steps 0 --out runs/warm      # the tiny policy, warmed up by us
    python examples/verifiers/train.py --policy runs/warm/policy                # in an environment with verifiers 0.4

The policy may call a calculator in its first turn, hears the result, and answers in its second. verifiers plays the
episodes and hands on token ids, masks and log-probabilities; what it samples from is the model that is being trained.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import verifiers.v1 as vf
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlvr.adapters.serving.generate_server import GenerateServer
from rlvr.agents import TokenSequence
from rlvr.algorithms.advantages import compute_advantages
from rlvr.algorithms.learner.batch import TrainingBatch
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.recipe.presets import PRESETS

ENV = "rlvr/Calculator-v0"
PRESET = PRESETS["grpo"].replace(kl_coef=0.0)
RENDERER = {"name": "custom", "import_path": "rlvr.adapters.trainers.renderers.AppendingRenderer"}
TURN_TOKENS, LONGEST = 24, 256
KEY_VARIABLE = "RLVR_GENERATE_KEY"


def rollouts(env: Any, tasks: Sequence[Any], group_size: int, context: Any) -> list[tuple[int, TokenSequence, float]]:
    """Each task so many times, all together: the group, the sample and the return of each episode that is valid."""

    async def play() -> list[tuple[int, Any]]:
        async with env.serving():
            slots = [(group, slot) for group, task in enumerate(tasks) for slot in env.slots(task, group_size)]
            episodes = await asyncio.gather(*(env.run_slot(slot, context) for _, slot in slots))
        return [(group, episode) for (group, _), episode in zip(slots, episodes, strict=True) if episode.ok]

    samples = []
    for group, episode in asyncio.run(play()):
        (trace,) = episode.traces
        (branch,) = trace.branches
        mask = [int(sampled) for sampled in branch.sampled_mask]
        samples.append((group, TokenSequence(branch.token_ids, mask, branch.logprobs), trace.reward))
    return samples


def train(policy: Path, steps: int, prompts: int, group_size: int, lr: float) -> Iterator[dict[str, float]]:
    """Train, and say how each step went."""
    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(policy)
    learner = Learner(model, PRESET, pad_id=tokenizer.pad_token_id or 0, max_length=2 * TURN_TOKENS)
    optimiser = Optimiser(model.parameters(), lambda step: lr * (1 - step / steps), betas=(0.9, 0.95))
    taskset = {"id": "rlvr-gym", "env": ENV, "use_system": False}
    env = vf.load_environment(vf.resolve_env_config({"taskset": taskset, "tool_role": True}))
    tasks = iter(env.taskset)
    with GenerateServer(model, end_ids=[tokenizer.eos_token_id], max_length=LONGEST) as server:
        os.environ[KEY_VARIABLE] = server.api_key or ""  # where verifiers' clients read the key of a server
        client = vf.TrainClientConfig(
            base_url=server.url, api_key_var=KEY_VARIABLE, renderer_model_name=str(policy), renderer=RENDERER
        )
        sampling = vf.SamplingConfig(temperature=1.0, max_tokens=TURN_TOKENS)
        context = vf.ModelContext(model=server.name, client=client, sampling=sampling)
        for step in range(steps):
            samples = rollouts(env, list(itertools.islice(tasks, prompts)), group_size, context)
            group = torch.tensor([place for place, _, _ in samples])
            rewards = torch.tensor([reward for _, _, reward in samples])
            advantages = compute_advantages(rewards, group, PRESET)
            with server.paused():
                sequences = [tokens for _, tokens, _ in samples]
                batch = TrainingBatch.of(sequences, group.tolist(), learner.max_length, learner.pad_id)
                stats = learner.update(batch.having(advantages=advantages), optimiser)
            yield {
                "step": step + 1,
                "reward": round(float(rewards.mean()), 4),
                "grad_norm": round(stats["grad_norm"], 4),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, required=True, help="folder of a model with a chat template")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--prompts", type=int, default=16, help="tasks of a step")
    parser.add_argument("--group-size", type=int, default=8, help="episodes of a task")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--out", type=Path, help="a JSON file for the curve")
    options = parser.parse_args()
    torch.set_num_threads(1)
    records = []
    for record in train(options.policy, options.steps, options.prompts, options.group_size, options.lr):
        records.append(record)
        print(json.dumps(record), flush=True)
    if options.out:
        settings = {"prompts": options.prompts, "group_size": options.group_size, "learning_rate": options.lr}
        versions = {name: metadata.version(name) for name in ("verifiers", "renderers", "transformers", "torch")}
        machine = f"{platform.machine()}, Python {platform.python_version()}, CPU"
        curve = {"env": ENV, "versions": versions, "machine": machine, "settings": settings}
        curve |= {"reward": [record["reward"] for record in records]}
        options.out.write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
