"""Advantages per turn or step, spread over their tokens: turn GAE, ReBN, process supervision. All [B, T]."""

from __future__ import annotations

from typing import Any

from rlvr.algorithms.advantages.gather import state_values, turns, turns_as_steps
from rlvr.algorithms.advantages.token_returns import bootstrap, gae, return_to_go, whiten
from rlvr.algorithms.advantages.token_rewards import floats, mask_of, why
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import EPS, Groups, as_floats, as_mask
from rlvr.algorithms.recipe.advantage import Advantage
from rlvr.algorithms.recipe.loss_parts import Choices


class Turns:
    """Turns (or steps) of each sequence: turn [B, T] gives the index, from 0, of every trained token's turn."""

    def __init__(self, turn: Any, mask: Tensor, *, what: str = "turn") -> None:
        turn = torch.as_tensor(turn, device=mask.device)
        if turn.shape != mask.shape or turn.is_floating_point():
            raise ValueError(f"{what} must hold integers of shape {tuple(mask.shape)}, not {tuple(turn.shape)}")
        if mask.any() and int(turn[mask].min()) < 0:
            raise ValueError(f"{what} is negative on a trained token; count from 0")
        self.mask = mask
        self.n = int(turn[mask].max()) + 1 if mask.any() else 0  # K
        self.index = torch.where(mask, turn, 0).long()  # [B, T]
        self.what = what

    def broadcast(self, per_turn: Tensor) -> Tensor:
        """[B, K] -> [B, T]."""
        if per_turn.shape[1] < self.n:
            raise ValueError(f"there are {self.n} {self.what}s, but only {per_turn.shape[1]} values per sequence")
        # x_t = x_(turn of t), 0 at masked tokens                      [B, K] -> [B, T]
        out: Tensor = torch.where(self.mask, per_turn.gather(1, self.index), 0)
        return out

    def live(self, k: int) -> Tensor:
        """[B, k] bool: turns that have a trained token."""
        live: Tensor = self._starts(k) < self.mask.shape[1]
        return live

    def first(self, values: Tensor, k: int) -> Tensor:
        """[B, k]: the value at the first trained token of each turn, 0 where there is none."""
        starts = self._starts(k)  # [B, k]
        is_trained = starts < values.shape[1]  # [B, k]
        return torch.where(is_trained, values.gather(1, torch.where(is_trained, starts, 0)), 0)

    def first_tokens(self) -> Tensor:
        """[B, T] bool: the first trained token of each turn."""
        positions = torch.arange(self.mask.shape[1], device=self.mask.device)  # [T]
        first: Tensor = self.mask & (self._starts(self.n).gather(1, self.index) == positions)
        return first

    def _starts(self, k: int) -> Tensor:
        """[B, k]: where each turn starts; T for a turn without trained tokens."""
        width = self.mask.shape[1]
        positions = torch.arange(width, device=self.mask.device).expand_as(self.index)  # [B, T]
        # [B, K] of T, past the end
        none = torch.full((len(self.mask), max(k, self.n, 1)), width, device=self.mask.device)
        # [B, K], the smallest position of each turn
        starts = none.scatter_reduce(1, self.index, torch.where(self.mask, positions, width), reduce="amin")
        # min over t of turn k of t, by scatter: no loop over turns    [B, K]
        return starts[:, :k] if k else starts


def per_turn(entries: Any, mask: Tensor, what: str) -> Tensor:
    """[B, K] floats; ValueError for another shape, NaN or infinity."""
    out = as_floats(entries).to(mask.device)
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
    index = Turns(turn, mask)  # [B, T] in K turns
    turn_rewards = per_turn(turn_rewards, mask, "turn_rewards").to(values)  # [B, K]
    k = turn_rewards.shape[1]  # K, turns without trained tokens included
    # A_k = GAE with a turn as one step, V_k at its first token    [B, K] -> [B, T]  GEM, 2510.01051
    return index.broadcast(
        gae(turn_rewards, index.first(values, k), index.live(k), gamma=gamma, lam=lam, bootstrap=bootstrap)
    )


def _turn_gae(x: AdvantageInputs, p: Choices) -> Tensor:
    turn_rewards, turn = (x.need(name, why(p)) for name in ("turn_rewards", "turn"))
    values, mask = floats(x, "values", p), mask_of(x, p)
    return turn_gae(turn_rewards, values, turn, mask, gamma=p.gamma, lam=p.lam, bootstrap=bootstrap(x))


def _first_tokens(x: AdvantageInputs) -> Tensor:
    return Turns(x.turn, as_mask(x.mask)).first_tokens()


TURN_GAE = Advantage(
    "turn_gae",
    "GAE over turns",
    _turn_gae,
    "2510.01051",
    needs=("mask", "values", "turn", "turn_rewards"),
    gather=(turns, state_values),
    per_token=True,
    kl_per_token=True,
    critic=True,
    value_tokens=_first_tokens,
)


def returns_of_turns(turn_rewards: Any, turn: Any, mask: Tensor, gamma: float) -> tuple[Turns, Tensor, Tensor]:
    """The turns, their returns G_k = sum_{j >= k} gamma^(j - k) r_j [B, K], and which have a trained token [B, K]."""
    index = Turns(turn, mask)  # [B, T] in K turns
    turn_rewards = per_turn(turn_rewards, mask, "turn_rewards")  # [B, K]
    returns = return_to_go(turn_rewards, torch.ones_like(turn_rewards, dtype=torch.bool), gamma=gamma)  # [B, K]
    return index, returns, index.live(turn_rewards.shape[1])


def rebn(
    turn_rewards: Any, turn: Any, mask: Tensor, *, gamma: float = 1.0, sample: bool = True, eps: float = 1e-9
) -> Tensor:
    """Return batch normalisation (GEM, 2510.01051): A = (G - mean) / (std + eps) over all turns of the batch. [B, T].

    G_k = sum_{j >= k} gamma^(j - k) r_j over the sequence's turns. A turn counts once, whatever its length; no group is
    needed. GEM's own scripts use the population std in one place and the sample std in another.
    """
    index, returns, live = returns_of_turns(turn_rewards, turn, mask, gamma)
    # A_k = (G_k - mean) / (std + eps), G_k = sum_(j >= k) gamma^(j-k) r_j   [B, K] -> [B, T]  ReBN, 2510.01051
    return index.broadcast(whiten(returns, live, sample=sample, eps=eps))


def _rebn(x: AdvantageInputs, p: Choices) -> Tensor:
    turn_rewards, turn = (x.need(name, why(p)) for name in ("turn_rewards", "turn"))
    return rebn(turn_rewards, turn, mask_of(x, p), gamma=p.gamma)


REBN = Advantage(
    "rebn",
    "returns of turns, normalised over the batch",
    _rebn,
    "2510.01051",
    needs=("mask", "turn", "turn_rewards"),
    gather=(turns,),
    per_token=True,
    kl_per_token=True,
)


def process_supervision(
    step_rewards: Any, step: Any, group: Any, mask: Tensor, *, sample: bool = True, eps: float = EPS
) -> Tensor:
    """GRPO with process supervision (2402.03300, section 4.1.3). Returns [B, T].

    All step rewards of a group are normalised together; A_t is the sum of the normalised rewards of the steps that end
    at or after t. step_rewards [B, K], step [B, T]; a step exists where a trained token carries its index.
    """
    steps = Turns(step, mask, what="step")  # [B, T] in K steps
    step_rewards = per_turn(step_rewards, mask, "step_rewards")  # [B, K]
    live = steps.live(step_rewards.shape[1])  # [B, K]
    group = torch.as_tensor(group, device=mask.device)[:, None].expand_as(step_rewards)  # [B, K]
    groups = Groups(step_rewards[live], group[live])  # [n], the steps that exist, by their group
    normalised = torch.zeros_like(step_rewards)  # [B, K]
    # z_k = (r_k - mean_g) / (std_g + eps) over all steps of a group   [n]  GRPO, 2402.03300 sec. 4.1.3
    normalised[live] = groups.centred() / (groups.broadcast(groups.std(sample=sample)) + eps)
    # A_t = sum of z_k over the steps that end at or after t      [B, K] -> [B, T]  GRPO, 2402.03300 sec. 4.1.3
    return steps.broadcast(return_to_go(normalised, torch.ones_like(live)))


def _process(x: AdvantageInputs, p: Choices) -> Tensor:
    step_rewards, step = (x.need(name, why(p)) for name in ("step_rewards", "step"))
    return process_supervision(step_rewards, step, x.group, mask_of(x, p))


PROCESS = Advantage(
    "process",
    "sum of the normalised step rewards to go",
    _process,
    "2402.03300",
    needs=("mask", "step", "step_rewards"),
    gather=(turns_as_steps,),
    per_token=True,
)
