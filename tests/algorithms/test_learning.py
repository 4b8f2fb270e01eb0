"""Every preset, end to end on a policy small enough to read: three positions, four tokens, reward = share of right.

It samples, scores, computes its own advantages, takes a few gradient steps on stale data, and must get clearly better.
"""

from __future__ import annotations

import pytest
import torch

from rlvr.algorithms import policy_loss
from rlvr.algorithms.advantages import RoleBaselines, compute_advantages, critic_targets
from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.losses.values import value_loss
from rlvr.algorithms.recipe.presets import PRESETS

RIGHT = torch.tensor([[0, 1, 2], [3, 2, 1]])  # the right token at each position, per prompt
PROMPTS, GROUP, LENGTH, VOCABULARY = 2, 8, 3, 4
# Losses differ in scale by orders of magnitude (sums, constants, a clip of 3e-4): Adam takes that out.
STEPS, LEARNING_RATE = 40, 0.1


def collect(logits: torch.Tensor, gen: torch.Generator) -> dict:
    prompt = torch.arange(PROMPTS).repeat_interleave(GROUP)
    log_p = logits.detach().log_softmax(-1)[prompt]
    tokens = torch.multinomial(log_p.exp().reshape(-1, VOCABULARY), 1, generator=gen).reshape(-1, LENGTH)
    chosen = log_p.gather(2, tokens[..., None])[..., 0]
    right = (tokens == RIGHT[prompt]).double()
    mask = torch.ones_like(tokens, dtype=torch.bool)
    hope = log_p.exp().gather(2, RIGHT[prompt][..., None])[..., 0]
    to_come = hope.flip(1).cumsum(1).flip(1)  # expected right tokens from here on: what forks would estimate
    each = torch.arange(LENGTH).expand(len(tokens), LENGTH)
    return {
        "tokens": tokens, "prompt": prompt, "group": prompt, "mask": mask, "old_logprobs": chosen, "max_length": LENGTH,
        "behaviour_logprobs": chosen + 0.01 * torch.randn(chosen.shape, generator=gen, dtype=chosen.dtype),
        "ref_logprobs": chosen,
        "right": right, "turn": each, "turn_rewards": right / LENGTH, "step": each, "step_rewards": right / LENGTH,
        "state": each,
        "step_values": (right.cumsum(1) - right + to_come) / LENGTH, "budget_slice": each,
        "budget_scores": right.cumsum(1) / LENGTH, "clusters": (tokens * VOCABULARY ** torch.arange(LENGTH)).sum(1),
        "teacher_logprobs": torch.where(right > 0, 0.9, 0.1 / 3).log(), "roles": prompt.tolist(),
        "reward_parts": right / LENGTH, "part_weights": (1.0,) * LENGTH,
    }  # fmt: skip


K_OF = {"passk": "pass_k", "vine": "continuations"}


def entries(batch: dict) -> dict:
    """The batch without what this test alone reads."""
    return {name: value for name, value in batch.items() if name not in ("tokens", "prompt", "right")}


def rewards_of(batch: dict, advantage: str) -> torch.Tensor:
    share = batch["right"].mean(1)
    return (share == 1).double() if advantage == "passk" else share


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_it_learns(name: str):
    preset = PRESETS[name]
    preset = preset.replace(**{K_OF.get(preset.advantage, "group_keep"): 4})
    gen = torch.Generator().manual_seed(0)
    logits = torch.zeros(PROMPTS, LENGTH, VOCABULARY, dtype=torch.float64, requires_grad=True)
    values = torch.zeros(PROMPTS, LENGTH, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logits, values], lr=LEARNING_RATE)
    baselines = RoleBaselines()
    if preset.advantage == "passk":  # all right is rare under the uniform policy: begin with an inkling
        logits.data.scatter_(2, RIGHT[..., None], 1.0)
    before = success(logits)
    for _ in range(STEPS):
        batch = collect(logits, gen) | {"role_baselines": baselines}
        rewards = rewards_of(batch, preset.advantage)
        batch["values"] = values.detach()[batch["prompt"]]
        batch["advantages"] = compute_advantages(rewards, batch["group"], preset, entries(batch))
        if preset.clip_rule.chooses:
            given = batch["advantages"][:, None].expand(batch["mask"].shape)
            batch["covariant"] = preset.clip_rule.choose(batch["old_logprobs"], given, batch["mask"], preset)
        for half in (slice(0, None, 2), slice(1, None, 2)):  # two updates per batch: the second is off-policy
            part = {k: v[half] if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
            new = logits.log_softmax(-1)[part["prompt"]].gather(2, part["tokens"][..., None])[..., 0]
            loss, _ = policy_loss(new, entries(part), preset, count_denominators(entries(part)))
            if preset.critic:
                targets, where = critic_targets(rewards[half], preset, entries(part))
                loss = loss + value_loss(values[part["prompt"]], part["values"], targets, where, clip=None)[0]
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    assert success(logits) > before + 0.5 * (1 - before), f"{name}: {before:.2f} -> {success(logits):.2f}"


def success(logits: torch.Tensor) -> float:
    """Mean probability of the right tokens."""
    return logits.detach().softmax(-1).gather(2, RIGHT[..., None]).mean().item()
