"""Advantages that differ within a row: returns, GAE, turns, steps, budget slices. All [B, T], padded, 0 where masked.

Masked tokens (tools, observations, padding) are not steps of the policy: every recursion skips them, without a decay,
and a reward that stands on one belongs to the last trained token before it. Other trainers differ here whenever a tool
speaks in the middle: some reset the return there, so that nothing before a tool call is credited; some let lambda decay
through the tool's tokens; some drop the rewards that stand on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.algorithms.advantages.groups import GUARD, Groups, as_floats

Tensor = torch.Tensor


def at_last_token(rewards: Tensor, mask: Tensor) -> Tensor:
    """[B] -> [B, T]: each row's reward on its last trained token. A row without one carries nothing."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    last = torch.where(mask, positions, -1).amax(1)
    return torch.where(positions == last[:, None], rewards[:, None], 0)


def whiten(advantages: Tensor, mask: Tensor, *, sample: bool = True, eps: float = 1e-8) -> Tensor:
    """(A - mean) / (std + eps) over the trained tokens of the whole batch; zeros if they are all equal.

    Over tokens, so long rows weigh more. Give it the whole batch, not a micro-batch. verl: sample std, 1e-8, as here.
    """
    mean_free = Groups(advantages[mask], torch.zeros_like(advantages[mask], dtype=torch.long))
    out = torch.zeros_like(advantages)
    if mean_free.n:
        out[mask] = mean_free.centred() / (mean_free.of(mean_free.std(sample=sample)) + eps)
    return out


def gae(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    bootstrap: Tensor | None = None,
) -> Tensor:
    """Generalised advantage estimation over trained tokens (1506.02438; PPO, 1707.06347).

    delta_t = r_t + gamma V_{t+1} - V_t,  A_t = delta_t + gamma lam A_{t+1}

    rewards, values [B, T] (V of the state before token t is sampled), bootstrap [B]: V after the last token, 0 on
    termination (default), the critic's value on truncation. Returns [B, T]; value targets are A + V.
    With an outcome reward lam < 1 weighs early tokens less the longer the row is: keep 1 there.
    """
    values = torch.where(mask, values, 0)
    advantages = torch.zeros_like(values)
    next_value = values.new_zeros(len(values)) if bootstrap is None else bootstrap.to(values)
    next_advantage = torch.zeros_like(next_value)
    owed = torch.zeros_like(next_value)  # rewards met on masked tokens, for the trained token before them
    for t in reversed(range(values.shape[1])):
        live = mask[:, t]
        owed = owed + rewards[:, t]
        delta = owed + gamma * next_value - values[:, t]
        advantage = delta + gamma * lam * next_advantage
        advantages[:, t] = torch.where(live, advantage, 0)
        next_advantage = torch.where(live, advantage, next_advantage)
        next_value = torch.where(live, values[:, t], next_value)
        owed = torch.where(live, 0, owed)
    return advantages


def return_to_go(rewards: Tensor, mask: Tensor, *, gamma: float = 1.0) -> Tensor:
    """G_t = sum_{k >= t} gamma^(k - t) r_k over trained tokens. [B, T] -> [B, T]."""
    return gae(rewards, torch.zeros_like(rewards), mask, gamma=gamma)


class Turns:
    """Turns (or steps) of each row: turn [B, T] gives the index, from 0, of every trained token's turn."""

    def __init__(self, turn: Any, mask: Tensor, *, what: str = "turn") -> None:
        turn = torch.as_tensor(turn, device=mask.device)
        if turn.shape != mask.shape or turn.is_floating_point():
            raise ValueError(f"{what} must hold integers of shape {tuple(mask.shape)}, not {tuple(turn.shape)}")
        if mask.any() and int(turn[mask].min()) < 0:
            raise ValueError(f"{what} is negative on a trained token; count from 0")
        self.mask = mask
        self.n = int(turn[mask].max()) + 1 if mask.any() else 0
        self.index = torch.where(mask, turn, 0).long()
        self.what = what

    def of(self, per_turn: Tensor) -> Tensor:
        """[B, K] -> [B, T]."""
        if per_turn.shape[1] < self.n:
            raise ValueError(f"there are {self.n} {self.what}s, but only {per_turn.shape[1]} values per row")
        out: Tensor = torch.where(self.mask, per_turn.gather(1, self.index), 0)
        return out

    def live(self, k: int) -> Tensor:
        """[B, k] bool: turns that have a trained token."""
        live: Tensor = self._starts(k) < self.mask.shape[1]
        return live

    def first(self, values: Tensor, k: int) -> Tensor:
        """[B, k]: the value at the first trained token of each turn, 0 where there is none."""
        starts = self._starts(k)
        found = starts < values.shape[1]
        return torch.where(found, values.gather(1, torch.where(found, starts, 0)), 0)

    def first_tokens(self) -> Tensor:
        """[B, T] bool: the first trained token of each turn."""
        positions = torch.arange(self.mask.shape[1], device=self.mask.device)
        first: Tensor = self.mask & (self._starts(self.n).gather(1, self.index) == positions)
        return first

    def _starts(self, k: int) -> Tensor:
        """[B, k]: where each turn starts; T for a turn without trained tokens."""
        width = self.mask.shape[1]
        positions = torch.arange(width, device=self.mask.device).expand_as(self.index)
        none = torch.full((len(self.mask), max(k, self.n, 1)), width, device=self.mask.device)
        starts = none.scatter_reduce(1, self.index, torch.where(self.mask, positions, width), reduce="amin")
        return starts[:, :k] if k else starts


def _turn_rewards(turn_rewards: Any, mask: Tensor, what: str) -> Tensor:
    out = as_floats(turn_rewards).to(mask.device)
    if out.dim() != 2 or len(out) != len(mask):
        raise ValueError(f"{what} have shape {tuple(out.shape)}, expected [B, K] with B = {len(mask)}")
    if not out.isfinite().all():
        raise ValueError(f"{what} hold NaN or infinity; pad the turns that did not happen with 0")
    return out


def turn_gae(
    turn_rewards: Any,
    values: Tensor,
    turn: Any,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    bootstrap: Tensor | None = None,
) -> Tensor:
    """GAE with a turn as one step (GEM, 2510.01051; oat's multi-turn PPO). Returns [B, T].

    turn_rewards [B, K]; the value of a turn is the critic's at its first trained token; A of a turn goes to its tokens.
    bootstrap [B]: V after the last turn, 0 on termination. A turn without trained tokens gives its reward to the one
    before. Value targets belong to first tokens only, see `critic_targets`.
    """
    turns = Turns(turn, mask)
    turn_rewards = _turn_rewards(turn_rewards, mask, "turn_rewards").to(values)
    k = turn_rewards.shape[1]
    return turns.of(gae(turn_rewards, turns.first(values, k), turns.live(k), gamma=gamma, lam=lam, bootstrap=bootstrap))


def rebn(
    turn_rewards: Any, turn: Any, mask: Tensor, *, gamma: float = 1.0, sample: bool = True, eps: float = 1e-9
) -> Tensor:
    """Return batch normalisation (GEM, 2510.01051): A = (G - mean) / (std + eps) over all turns of the batch. [B, T].

    G_k = sum_{j >= k} gamma^(j - k) r_j over the row's turns. A turn counts once, whatever its length; no group is
    needed. GEM's own scripts use the population std in one place and the sample std in another.
    """
    turns = Turns(turn, mask)
    turn_rewards = _turn_rewards(turn_rewards, mask, "turn_rewards")
    k = turn_rewards.shape[1]
    returns = return_to_go(turn_rewards, torch.ones_like(turn_rewards, dtype=torch.bool), gamma=gamma)
    return turns.of(whiten(returns, turns.live(k), sample=sample, eps=eps))


def process_supervision(
    step_rewards: Any, step: Any, group: Any, mask: Tensor, *, sample: bool = True, eps: float = GUARD
) -> Tensor:
    """GRPO with process supervision (2402.03300, section 4.1.3). Returns [B, T].

    All step rewards of a group are normalised together; A_t is the sum of the normalised rewards of the steps that end
    at or after t. step_rewards [B, K], step [B, T]; a step exists where a trained token carries its index.
    """
    steps = Turns(step, mask, what="step")
    step_rewards = _turn_rewards(step_rewards, mask, "step_rewards")
    live = steps.live(step_rewards.shape[1])
    group = torch.as_tensor(group, device=mask.device)[:, None].expand_as(step_rewards)
    groups = Groups(step_rewards[live], group[live])
    normalised = torch.zeros_like(step_rewards)
    normalised[live] = groups.centred() / (groups.of(groups.std(sample=sample)) + eps)
    return steps.of(return_to_go(normalised, torch.ones_like(live)))


def vine(rewards: Tensor, step_values: Any, step: Any, mask: Tensor) -> Tensor:
    """VinePPO (2410.01679): A of step k is V(s_{k+1}) - V(s_k), with V by Monte Carlo; the last one R - V. [B, T].

    rewards [B] at the end; step_values [B, K]: V of the state before step k (`monte_carlo_value`); step [B, T].
    """
    steps = Turns(step, mask, what="step")
    values = _turn_rewards(step_values, mask, "step_values")
    live = steps.live(values.shape[1])
    outcome = at_last_token(rewards.to(values), live)
    return steps.of(gae(outcome, values, live, lam=0.0))


def monte_carlo_value(env: Any, play: Callable[[Any], float], k: int = 9) -> float:
    """V of an environment's present state: the mean return of k continuations (VinePPO uses k = 9).

    play(env) finishes the episode in the environment it is given, a `fork()` of this one, and returns what it earned
    from here. This environment is left as it was.
    """
    if k < 1:
        raise ValueError(f"k={k}: at least one continuation is needed")
    return sum(float(play(env.fork())) for _ in range(k)) / k


def split_steps(pieces: Sequence[str], separator: str = "\n", max_steps: int = 25) -> list[int]:
    """The step of every token, from the tokens' texts: a step ends with the token that completes a separator.

    VinePPO splits at lines and caps the number of steps at 20 to 25; what follows the cap belongs to the last step.
    """
    steps: list[int] = []
    step, text = 0, ""
    for piece in pieces:
        steps.append(step)
        text += piece
        if separator in text:
            text = ""
            step = min(step + 1, max_steps - 1)
    return steps


def brpo(scores: Any, group: Any, probs: Any = None) -> Tensor:
    """BRPO (AnytimeReasoner, 2505.13438): advantages [B, S] of the budget slices of a thought.

    scores [B, S]: how well row i answers when its thought is cut at budget s (mean over its summaries); probs [S]: how
    likely each budget is (uniform by default). With tail returns R_s = sum_{j >= s} p_j score_j:

    V1 = sum_{j < s} 2^j score_j / sum_{j < s} 2^j * sum_{j >= s} p_j     the row's own earlier answers
    V2 = mean over the group of R_s
    A_s = R_s - (s V1 + (S - s) V2) / S

    A group of one gives 0 and a warning.
    """
    scores = as_floats(scores)
    n = scores.shape[1]
    probs = torch.full((n,), 1 / n, dtype=scores.dtype) if probs is None else as_floats(probs).to(scores)
    if probs.shape != (n,) or (probs < 0).any() or not probs.sum() > 0:
        raise ValueError(f"probs must be {n} non-negative numbers, one per budget, not {probs.tolist()}")
    probs = (probs / probs.sum()).to(scores.device)
    tail = (scores * probs).flip(1).cumsum(1).flip(1)
    mass = probs.flip(0).cumsum(0).flip(0)
    weights = 2.0 ** torch.arange(n, dtype=scores.dtype, device=scores.device)
    earlier = (scores * weights).cumsum(1)[:, :-1] / weights.cumsum(0)[:-1]
    own = torch.cat([torch.zeros_like(scores[:, :1]), earlier * mass[1:]], 1)
    groups = Groups(scores[:, 0], group)
    groups.warn_of_ones()
    peers = torch.stack([groups.of(groups.sum(tail[:, s]) / groups.size) for s in range(n)], 1)
    share = torch.arange(n, dtype=scores.dtype, device=scores.device) / n
    advantages = tail - (share * own + (1 - share) * peers)
    return torch.where(groups.of(groups.size)[:, None] > 1, advantages, 0)


def brpo_summaries(scores: Any) -> Tensor:
    """Advantages of the answers given at each budget (2505.13438): score minus its budget's mean. [B, S, A].

    A >= 2 answers per thought and budget; the thought's own tokens take `brpo`.
    """
    scores = as_floats(scores)
    if scores.dim() != 3 or scores.shape[2] < 2:
        raise ValueError(f"scores have shape {tuple(scores.shape)}, expected [B, S, A] with at least two answers A")
    level = scores.amax(2, keepdim=True) == scores.amin(2, keepdim=True)
    return torch.where(level, 0, scores - scores.mean(2, keepdim=True))


def budget_probs(budgets: Sequence[int], prior: str = "uniform") -> list[float]:
    """How likely each thinking budget is: "uniform", "linear" (as the budget) or "base" (the largest)."""
    if not budgets or any(b <= a for a, b in itertools.pairwise(budgets)) or budgets[0] <= 0:
        raise ValueError(f"budgets must be positive and increasing, not {list(budgets)}")
    if prior == "uniform":
        return [1 / len(budgets)] * len(budgets)
    if prior == "linear":
        return [budget / sum(budgets) for budget in budgets]
    if prior == "base":
        return [0.0] * (len(budgets) - 1) + [1.0]
    raise ValueError(f"unknown prior {prior!r}; allowed: uniform, linear, base")
