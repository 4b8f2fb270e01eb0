"""The whole idea in one file: a language model learns, by REINFORCE, to use a calculator over two turns.

    python examples/reinforce_in_one_file.py            # about two minutes on one CPU core, nothing is downloaded

The environment is rlvr's; everything else is written out: how text becomes tokens, which tokens are trained, how the
reward becomes a gradient. It is for reading. The library's learner (`rlvr train`) adds a cache between turns, packing,
checkpoints and every other algorithm.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, field

import gymnasium as gym
import torch
from torch.nn.functional import cross_entropy

import rlvr  # noqa: F401  (importing it registers the environments)
from rlvr.agents.models.tiny import tiny_policy

END, USER, ASSISTANT, TOOL = "<|end|>", "<|user|>", "<|assistant|>", "<|tool|>"
ROLE = {"user": USER, "tool": TOOL}
TURN_TOKENS = 24  # a turn that is longer is cut


@dataclass
class Episode:
    """One conversation as tokens. The loss mask is 1 on tokens that the policy sampled, 0 on the environment's."""

    env: gym.Env
    ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    reward: float = 0.0
    done: bool = False

    def add_observation(self, text: str, role: str, encode) -> None:
        """Append a message of the environment and the header of the policy's turn; neither is trained."""
        tokens = encode(f"{ROLE[role]}{text}{END}{ASSISTANT}")
        self.ids += tokens
        self.loss_mask += [0] * len(tokens)

    def add_completion(self, ids: list[int]) -> None:
        self.ids += ids
        self.loss_mask += [1] * len(ids)

    def step(self, action: str, encode) -> None:
        text, reward, terminated, truncated, info = self.env.step(action)
        self.reward += float(reward)
        self.done = terminated or truncated
        if not self.done:
            self.add_observation(text, info["role"], encode)


class Policy:
    """The model and its tokenizer: samples completions and computes log-probabilities."""

    def __init__(self, seed: int) -> None:
        self.model, self.tokenizer = tiny_policy(seed=seed)
        self.end = self.tokenizer.convert_tokens_to_ids(END)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    @torch.inference_mode()
    def sample(self, contexts: list[list[int]], greedy: bool = False) -> list[list[int]]:
        """One completion for each context, up to and with the end token. All advance together, padded on the left."""
        width = max(map(len, contexts))
        ids = torch.tensor([[self.end] * (width - len(c)) + c for c in contexts])
        attention_mask = torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts])
        completions: list[list[int]] = [[] for _ in contexts]
        running = torch.ones(len(contexts), dtype=torch.bool)
        cache = None
        for _ in range(TURN_TOKENS):
            positions = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            out = self.model(
                input_ids=ids,
                attention_mask=attention_mask,
                position_ids=positions,
                past_key_values=cache,
                logits_to_keep=1,
            )
            cache, logits = out.past_key_values, out.logits[:, -1]
            ids = logits.argmax(-1, keepdim=True) if greedy else torch.multinomial(logits.softmax(-1), 1)
            for i in running.nonzero()[:, 0].tolist():
                completions[i].append(int(ids[i]))
            running &= ids[:, 0] != self.end
            if not running.any():
                break
            attention_mask = torch.cat([attention_mask, torch.ones(len(contexts), 1, dtype=torch.long)], dim=1)
        return completions

    def logprobs(self, episodes: list[Episode]) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability of every token given those before it, and the loss mask: both [B, T - 1]."""
        width = max(len(e.ids) for e in episodes)
        ids = torch.tensor([e.ids + [self.end] * (width - len(e.ids)) for e in episodes])
        mask = torch.tensor([e.loss_mask + [0] * (width - len(e.ids)) for e in episodes])
        logits = self.model(input_ids=ids[:, :-1]).logits
        return -cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none"), mask[:, 1:]


def start(env: gym.Env, policy: Policy, seed: int, index: int, split: str = "train") -> Episode:
    """A new episode on task ``index``; the same index is the same task."""
    observation, info = env.reset(seed=seed, options={"index": index, "split": split})
    episode = Episode(env)
    episode.add_observation(observation, info["role"], policy.encode)
    return episode


def demonstrate(env: gym.Env, policy: Policy, index: int, direct: bool) -> Episode:
    """The environment's own expert plays; or, with ``direct``, answers without the tool, which a policy cannot do."""
    episode = start(env, policy, seed=1, index=index)
    while not episode.done:
        action = (env.unwrapped.direct_answer() if direct else None) or env.unwrapped.solve()
        episode.add_completion([*policy.encode(action), policy.end])
        episode.step(action, policy.encode)
    return episode


def rollout(policy: Policy, episodes: list[Episode], greedy: bool = False) -> None:
    """Play all episodes to their ends. Sampled tokens enter the sequence as they are: text is never tokenized again."""
    while playing := [e for e in episodes if not e.done]:
        for episode, completion in zip(playing, policy.sample([e.ids for e in playing], greedy), strict=True):
            episode.add_completion(completion)
            episode.step(policy.decode(completion), policy.encode)


def warm_start(policy: Policy, env: gym.Env, steps: int, mixed_steps: int, rng: random.Random) -> None:
    """Imitate the expert, then mix in direct answers: the policy can use the tool, and seldom does."""
    optimiser = torch.optim.AdamW(policy.model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)
    for step in range(steps + mixed_steps):
        mixed = step >= steps
        rate = 1e-3 if mixed else 3e-3 * min(1, (step + 1) / 20) * (1 - 0.9 * step / steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        batch = [demonstrate(env, policy, 64 * step + i, mixed and rng.random() < 0.7) for i in range(64)]
        logprobs, mask = policy.logprobs(batch)
        loss = -(logprobs * mask).sum() / mask.sum()
        update(policy, optimiser, loss)
        if (step + 1) % 30 == 0:
            print(f"warm start {step + 1:3d}   loss {loss.item():.3f}", flush=True)


def update(policy: Policy, optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
    optimiser.step()


def success(policy: Policy, env: gym.Env, greedy: bool) -> float:
    """Share of right answers on 128 tasks of the test split, which no training episode shares."""
    episodes = [start(env.unwrapped.spawn(), policy, seed=2, index=i, split="test") for i in range(128)]
    rollout(policy, episodes, greedy)
    return sum(e.reward for e in episodes) / len(episodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=30, help="reinforcement learning steps")
    parser.add_argument("--warm-steps", type=int, default=150, help="steps on the expert's demonstrations")
    parser.add_argument("--mixed-steps", type=int, default=30, help="steps in which most demonstrations skip the tool")
    parser.add_argument("--prompts", type=int, default=32, help="tasks a step")
    parser.add_argument("--group", type=int, default=8, help="episodes on each task")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)

    env = gym.make("rlvr/Calculator-v0")
    policy = Policy(options.seed)
    warm_start(policy, env, options.warm_steps, options.mixed_steps, random.Random(options.seed))
    print(f"before: held-out success {success(policy, env, greedy=False):.2f} sampled", flush=True)

    optimiser = torch.optim.AdamW(policy.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(options.steps):
        tasks = range(step * options.prompts, (step + 1) * options.prompts)
        episodes = [start(env.unwrapped.spawn(), policy, 0, i) for i in tasks for _ in range(options.group)]
        rollout(policy, episodes)

        # The advantage of an episode: its reward less the mean of those on the same task. No critic, no std.
        rewards = torch.tensor([e.reward for e in episodes]).view(-1, options.group)
        advantages = (rewards - rewards.mean(dim=1, keepdim=True)).flatten()

        # REINFORCE: each sampled token's log-probability, weighted by its episode's advantage.
        # Groups of equal rewards have advantage 0 and no gradient; they count in the denominator all the same.
        nonzero = [i for i in range(len(episodes)) if advantages[i] != 0]
        if nonzero:
            logprobs, mask = policy.logprobs([episodes[i] for i in nonzero])
            loss = -(advantages[nonzero, None] * logprobs * mask).sum() / len(episodes)
            update(policy, optimiser, loss)
        if (step + 1) % 5 == 0:
            print(f"step {step + 1:3d}   reward {rewards.mean():.2f}", flush=True)
    print(f"after: held-out success {success(policy, env, True):.2f} greedy, {success(policy, env, False):.2f} sampled")


if __name__ == "__main__":
    main()
