"""`Advantage`: one estimator in one object: name, formula, needs, how these are gathered, how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rlvr.agents.conversation import Agent, TokenSequence
from rlvr.agents.episode import Episode
from rlvr.algorithms._torch import Tensor, torch
from rlvr.algorithms.advantages.groups import as_floats
from rlvr.algorithms.choices import Choices
from rlvr.algorithms.inputs import AdvantageInputs
from rlvr.algorithms.losses.kl import reward_kl
from rlvr.algorithms.losses.sequences import as_mask


class SequenceScorer(Protocol):
    """Log-probabilities of whole sequences; the learner is one."""

    def logprobs(self, sequences: Sequence[TokenSequence], model: Any = None) -> Tensor:
        """[B, T] under the policy or another model."""


StateValues = Callable[[Sequence[TokenSequence]], tuple[Tensor, Tensor, Tensor]]


@dataclass
class Sources:
    """What an advantage may ask for beside the episodes of a step.

    scorer          for log-probabilities
    player          continues from states inside episodes, for values by Monte Carlo
    env             an environment of the kind that is played, to fork
    decode          token ids to text
    encode          text to token ids
    state_values    the critic: features [B, T, H], values [B, T] before each token, and [B] after the last
    teacher         a model whose log-probabilities are the aim
    role_baselines  kept over the run
    continuations   continuations from each state (VinePPO)
    budgets, budget_prior, answers, phrase   BRPO's, see the config's section `credit`
    max_new_tokens, batch_size               of sampling
    """

    scorer: SequenceScorer
    player: Agent
    env: Any
    decode: Callable[[Sequence[int]], str]
    encode: Callable[[str], list[int]]
    state_values: StateValues | None = None
    teacher: Any = None
    role_baselines: Any = None
    continuations: int = 1
    budgets: tuple[int, ...] = ()
    budget_prior: str = "uniform"
    answers: int = 1
    phrase: str = ""
    max_new_tokens: int = 1
    batch_size: int = 256


@dataclass(frozen=True)
class Played:
    """The episodes of a step, and the reward of each with what shaping added."""

    episodes: Sequence[Episode]
    rewards: Sequence[float]


Gather = Callable[[Played, Sources], dict[str, Any]]


@dataclass(frozen=True)
class Advantage:
    """One estimator.

    name          what `Preset.advantage` says
    formula       A = ..., in one line
    compute       (inputs, choices) -> [B], or [B, T] if per_token
    source        the paper
    needs         entries of `AdvantageInputs` that it reads beside rewards and group
    gather        how these are made from the episodes of a step, a function for each kind
    per_token     whether A can differ within a sequence
    kl_per_token     whether it places a KL reward on tokens itself; else the sum over tokens is added to the reward
    critic        whether it needs a learned value function
    value_tokens  (inputs) -> [B, T] bool: where a critic's values hold, if not at every trained token
    teacher       whether it needs a teacher model
    forces_answers  whether its continuations are answers that a phrase asks for, which take tokens of their own
    """

    name: str
    formula: str
    compute: Callable[[AdvantageInputs, Choices], Tensor]
    source: str
    needs: tuple[str, ...] = ()
    gather: tuple[Gather, ...] = ()
    per_token: bool = False
    kl_per_token: bool = False
    critic: bool = False
    value_tokens: Callable[[AdvantageInputs], Tensor] | None = None
    teacher: bool = False
    forces_answers: bool = False


def why(p: Choices) -> str:
    """Who needs an entry, for an error."""
    return f"the advantage {p.advantage!r} of preset {p.name!r}"


def mask_of(x: AdvantageInputs, p: Choices) -> Tensor:
    """[B, T] bool."""
    return as_mask(x.need("mask", why(p)))


def floats(x: AdvantageInputs, name: str, p: Choices) -> Tensor:
    """A needed entry as detached floats."""
    return as_floats(x.need(name, why(p)))


def token_kl(x: AdvantageInputs, p: Choices) -> Tensor | None:
    """[B, T] rewards -kl_coef * k1 per token, or None if the preset has no KL in the reward."""
    if not p.reward_kl_coef:
        return None
    old, ref = floats(x, "old_logprobs", p), floats(x, "ref_logprobs", p)  # [B, T] each
    return reward_kl(old, ref, mask_of(x, p), p.reward_kl_coef)


def token_rewards(x: AdvantageInputs, p: Choices) -> Tensor:
    """[B, T]: the given token rewards, or the outcome on the last trained token; with the KL, if it is a reward."""
    mask, rewards = mask_of(x, p), floats(x, "rewards", p)  # [B, T], [B]
    if x.token_rewards is None:
        per_token = at_last_token(rewards, mask)  # [B, T]
    else:
        per_token = as_floats(x.token_rewards).to(rewards)
        if per_token.shape != mask.shape:
            raise ValueError(f"token_rewards have shape {tuple(per_token.shape)}, the mask {tuple(mask.shape)}")
        # sum_t r_t = R: credit may be moved between tokens, never made
        if not torch.allclose(per_token.sum(1), rewards, rtol=1e-4, atol=1e-5):
            raise ValueError("token_rewards must add up to the reward of their sequence: they say where it was earned")
    kl = token_kl(x, p)  # [B, T] or None
    # r_t <- r_t - c k1_t                                          [B, T]  RLHF's PPO
    return per_token if kl is None else per_token + kl.to(per_token)


def at_last_token(rewards: Tensor, mask: Tensor) -> Tensor:
    """[B] -> [B, T]: each sequence's reward on its last trained token. One without any carries nothing."""
    positions = torch.arange(mask.shape[1], device=mask.device)  # [T]
    last = torch.where(mask, positions, -1).amax(1)  # [B], -1 where nothing is trained on
    # r_t = R at the last trained token, else 0                    [B, T]
    return torch.where(positions == last[:, None], rewards[:, None], 0)
