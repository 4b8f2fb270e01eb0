"""Clip rules: one object each, with its name, formula, ratio levels, kernel, and what it refuses.

A kernel maps the log-ratio and the advantage to a loss per token [B, T] or per sequence [R]. Log-ratios are at least
fp32, are 0 at masked tokens *before* any exp, and are never clamped: tokens whose gradient is zero take a constant
instead, so an overflow cannot turn into 0 * inf.

In the equations r is the ratio, A the advantage, sg a stop-gradient, pi(y) the probability of a whole sequence.
"""

from __future__ import annotations

import dataclasses
import math

from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.recipe.loss_parts import Choices, Clipped, ClipRule, Terms, register_clip_rule


class NoClip(ClipRule):
    """The policy gradient without a bound."""

    name = "none"
    ratio_levels = ("none", "token")

    def loss(self, t: Terms, p: Choices) -> Clipped:
        never = torch.zeros_like(t.sequences.mask)  # [B, T]
        if p.ratio_level == "none":
            # l_t = -A_t log pi_t                                      [B, T]  REINFORCE, Williams 1992
            return Clipped(-t.advantages * t.new, never, never)
        # l_t = -A_t r_t                                               [B, T]  importance sampling, Tinker
        return Clipped(-t.advantages * _exp_where(t.advantages != 0, t.log_ratio), never, never)

    def formula(self, p: Choices) -> str:
        """-A log pi, or -A r."""
        return "-A log pi" if p.ratio_level == "none" else "-A r"

    def summary(self, p: Choices) -> str:
        return "-"


class PPOClip(ClipRule):
    """PPO's clip (1707.06347), on the ratio of tokens or of sequences; with a dual clip (1912.09729) if asked for."""

    name = "ppo"
    ratio_levels: tuple[str, ...] = ("token", "sequence", "sequence_token", "product")
    reads: tuple[str, ...] = ("clip_low", "clip_high", "dual_clip")  # distances from 1

    def loss(self, t: Terms, p: Choices) -> Clipped:
        """[B, T], or [R] where the ratio is one of sequences."""
        sequences = t.sequences
        if p.ratio_level == "token":
            return self._clipped(t.log_ratio, t.advantages, p)
        if p.ratio_level == "sequence_token":
            # r_it = sg(exp(mean_t log r_it)) pi_it / sg(pi_it)        [B, T]  GSPO-token, 2507.18071 eq. 14
            value = sequences.broadcast(sequences.mean(t.log_ratio).detach())  # [B, T]
            # value of the sequence's ratio, gradient of the token's own
            return self._clipped(value + (t.new - t.new.detach()), t.advantages, p)
        # r_i = exp(mean_t log r_it), or exp(sum_t log r_it)           [R]  GSPO, 2507.18071 eq. 7; RLOO in TRL
        level = sequences.mean if p.ratio_level == "sequence" else sequences.sum  # [B, T] -> [R]
        return self._clipped(level(t.log_ratio), sequences.mean(t.advantages), p)

    def _clipped(self, log_ratio: Tensor, advantages: Tensor, p: Choices) -> Clipped:
        # l = -min(r A, clip(r, 1 - low, 1 + high) A)                 [B, T] or [R]  PPO, 1707.06347 eq. 7
        ratio = log_ratio.detach().exp()  # only compared, so an overflow to infinity is harmless
        # the minimum takes the clipped side only where the advantage pushes r further out
        high = (advantages > 0) & (ratio > 1 + p.clip_high)
        low = (advantages < 0) & (ratio < 1 - p.clip_low)
        bound = torch.where(high, _like(ratio, 1 + p.clip_high), 1 - p.clip_low)  # [B, T] or [R]
        if p.dual_clip is not None:
            # l <- min(l, -c A) where A < 0                                [B, T] or [R]  dual clip, 1912.09729
            dual = (advantages < 0) & (ratio > p.dual_clip)
            bound = torch.where(dual, p.dual_clip, bound)
            high = high | dual
        held = high | low  # where the loss is a constant
        surrogate = torch.where(held, bound, _exp_where(~held & (advantages != 0), log_ratio))  # r where it is not held
        return Clipped(-advantages * surrogate, low, high)

    def formula(self, p: Choices) -> str:
        """The clipped surrogate with its bounds."""
        text = f"-min(r A, clip(r, 1 - {p.clip_low:g}, 1 + {p.clip_high:g}) A)"
        return text + (f", at most -{p.dual_clip:g} A where A < 0" if p.dual_clip else "")

    def summary(self, p: Choices) -> str:
        """ppo, both distances, the dual clip."""
        return f"ppo {p.clip_low:g}/{p.clip_high:g}" + (f" dual {p.dual_clip:g}" if p.dual_clip else "")

    def per_sequence(self, p: Choices) -> bool:
        """A ratio of sequences gives a loss per sequence."""
        return p.ratio_level in ("sequence", "product")


class CISPOCap(ClipRule):
    """CISPO's cap on the detached ratio (2506.13585): every token keeps a gradient."""

    name = "cispo"
    ratio_levels = ("token", "product")
    reads = ("ratio_min", "ratio_max")  # absolute bounds

    def loss(self, t: Terms, p: Choices) -> Clipped:
        log_ratio = t.log_ratio.detach()  # [B, T]
        if p.ratio_level == "product":
            log_ratio = t.sequences.broadcast(t.sequences.sum(log_ratio))  # log prod_t r_t on every token
        ratio = log_ratio.exp()  # [B, T]
        high = t.sequences.mask & (ratio > p.ratio_max)
        low = t.sequences.mask & (ratio < p.ratio_min)
        # l_t = -sg(clip(r_t, min, max)) A_t log pi_t, min 0 there      [B, T]  CISPO, 2506.13585; ScaleRL, 2510.13786
        return Clipped(-ratio.clamp(p.ratio_min, p.ratio_max) * t.advantages * t.new, low, high)

    def formula(self, p: Choices) -> str:
        return f"-sg({_bounded('r', p)}) A log pi"

    def summary(self, p: Choices) -> str:
        return f"cispo {p.ratio_max:g}"

    def check(self, p: Choices) -> None:
        if not math.isfinite(p.ratio_max):
            raise ValueError(
                "clip='cispo' needs ratio_max, the absolute cap on the detached ratio (5.0, not 4.0 for 1 + 4)"
            )


class PrimeMask(ClipRule):
    """prime-rl's mask: tokens whose ratio lies outside of two absolute bounds have no gradient."""

    name = "prime"
    reads = ("ratio_min", "ratio_max", "tau")

    def loss(self, t: Terms, p: Choices) -> Clipped:
        log_ratio = t.log_ratio.detach()  # [B, T]
        ratio = log_ratio.exp()  # [B, T]
        low, high = ratio < p.ratio_min, ratio > p.ratio_max  # [B, T]
        # l_t = -sg(1[min <= r_t <= max] r_t (A_t - tau log r_t)) log pi_t   [B, T]  prime-rl
        weight = torch.where(low | high, 0, ratio * (t.advantages - p.tau * log_ratio))  # [B, T], detached
        return Clipped(-weight * t.new, low & t.sequences.mask, high & t.sequences.mask)

    def formula(self, p: Choices) -> str:
        advantage = f"(A - {p.tau:g} log r)" if p.tau else "A"
        return f"-sg(1[{p.ratio_min:g} <= r <= {p.ratio_max:g}] r {advantage}) log pi"

    def summary(self, p: Choices) -> str:
        return f"prime [{p.ratio_min:g}, {p.ratio_max:g}]"

    def acts_without_advantage(self, p: Choices) -> bool:
        """With tau the log-ratio itself pulls back to the behaviour policy."""
        return p.tau > 0


class DPPOMask(ClipRule):
    """DPPO (2602.04879): the change of a token's probability is bounded, not its ratio."""

    name = "dppo"
    reads = ("clip_low", "clip_high")

    def loss(self, t: Terms, p: Choices) -> Clipped:
        moved = t.new.detach().exp() - t.denominator.exp()  # [B, T] pi - mu, of the sampled token alone
        high = (t.advantages > 0) & (moved > p.clip_high)
        low = (t.advantages < 0) & (moved < -p.clip_low)
        live = ~(high | low) & (t.advantages != 0)  # [B, T]
        # l_t = -A_t r_t unless pi_t - mu_t > high with A > 0, or < -low with A < 0   [B, T]  DPPO, 2602.04879
        return Clipped(torch.where(live, -t.advantages * _exp_where(live, t.log_ratio), 0), low, high)

    def formula(self, p: Choices) -> str:
        return f"-A r unless pi - mu > {p.clip_high:g} with A > 0, or < -{p.clip_low:g} with A < 0"

    def summary(self, p: Choices) -> str:
        return f"dppo {p.clip_low:g}/{p.clip_high:g}"


class SAPOGate(ClipRule):
    """SAPO (2511.20347): a smooth gate of slope one at r = 1 instead of a clip."""

    name = "sapo"
    reads = ("gate",)  # temperatures for A > 0 and A <= 0

    def loss(self, t: Terms, p: Choices) -> Clipped:
        tau = torch.where(t.advantages > 0, _like(t.advantages, p.gate[0]), p.gate[1])  # [B, T], one for each sign of A
        saturated = t.log_ratio.detach() > 30  # the sigmoid is exactly 1 there in every float type
        gate = torch.sigmoid(tau * (_exp_where(~saturated, t.log_ratio) - 1))  # [B, T] sigmoid(tau (r - 1))
        never = torch.zeros_like(saturated)
        # l_t = -A_t (4 / tau) sigmoid(tau (r_t - 1)), tau by the sign of A_t   [B, T]  SAPO, 2511.20347
        return Clipped(-t.advantages * 4 / tau * torch.where(saturated, 1, gate), never, never)

    def formula(self, p: Choices) -> str:
        return f"-A (4/tau) sigmoid(tau (r - 1)), tau = {p.gate[0]:g} if A > 0 else {p.gate[1]:g}"

    def summary(self, p: Choices) -> str:
        return f"sapo {p.gate[0]:g}/{p.gate[1]:g}"


class ClipCov(PPOClip):
    """Clip-Cov (2505.22617): PPO's clip, and no gradient for a few tokens whose log pi and A agree."""

    name = "clip_cov"
    ratio_levels = ("token",)
    reads = ("clip_low", "clip_high", "cov_share", "cov_bounds")
    chooses = True

    def choose(self, logprobs: Tensor, advantages: Tensor, mask: Tensor, p: Choices, seed: int = 0) -> Tensor:
        """max(1, share N) tokens, drawn among those whose covariance lies between the bounds; all of fewer."""
        covariances = _covariances(logprobs, advantages, mask)  # [B, T]
        # I = draw(share N of {t : low < Cov_t < high})                [B, T]  Clip-Cov, 2505.22617
        positions = (mask & (covariances > p.cov_bounds[0]) & (covariances < p.cov_bounds[1])).nonzero()  # [n, 2]
        order = torch.randperm(len(positions), generator=torch.Generator().manual_seed(seed)).to(positions.device)
        positions = positions[order[: _chosen(p, mask)]]
        chosen = torch.zeros_like(mask)
        chosen[positions[:, 0], positions[:, 1]] = True
        return chosen

    def loss(self, t: Terms, p: Choices) -> Clipped:
        # l_t = 0 where t is in I, else PPO's                          [B, T]  Clip-Cov, 2505.22617
        return super().loss(dataclasses.replace(t, advantages=torch.where(_of(t), 0, t.advantages)), p)

    def formula(self, p: Choices) -> str:
        low, high = p.cov_bounds
        return f"{super().formula(p)}, but 0 for {p.cov_share:g} of the tokens, drawn where {low:g} < Cov < {high:g}"

    def summary(self, p: Choices) -> str:
        return f"{super().summary(p).replace('ppo', 'clip_cov')}, {p.cov_share:g} of tokens"


class KLCov(ClipRule):
    """KL-Cov (2505.22617): no clip, and a KL to the old policy for the tokens whose log pi and A agree most."""

    name = "kl_cov"
    reads = ("tau", "cov_share")
    chooses = True

    def choose(self, logprobs: Tensor, advantages: Tensor, mask: Tensor, p: Choices, seed: int = 0) -> Tensor:
        """The max(1, share N) tokens of highest covariance, and what ties with the last."""
        covariances = torch.where(mask, _covariances(logprobs, advantages, mask), -math.inf)  # [B, T]
        # I = {t : Cov_t among the share N highest}                     [B, T]  KL-Cov, 2505.22617
        return mask & (covariances >= covariances.flatten().topk(_chosen(p, mask)).values[-1])

    def loss(self, t: Terms, p: Choices) -> Clipped:
        live = (t.advantages != 0) | _of(t)  # [B, T]
        never = torch.zeros_like(t.sequences.mask)
        # l_t = -A_t r_t + tau 1[t in I] |log r_t|                      [B, T]  KL-Cov, 2505.22617
        penalty = p.tau * torch.where(_of(t), t.log_ratio.abs(), 0)  # [B, T]
        return Clipped(-t.advantages * _exp_where(live, t.log_ratio) + penalty, never, never)

    def formula(self, p: Choices) -> str:
        return f"-A r, + {p.tau:g} |log r| for the {p.cov_share:g} of the tokens with the highest Cov"

    def summary(self, p: Choices) -> str:
        return f"kl_cov {p.tau:g}, {p.cov_share:g} of tokens"

    def acts_without_advantage(self, p: Choices) -> bool:
        """A is centred over the batch before it is compared."""
        return p.tau > 0


class GMPOClip(ClipRule):
    """GMPO (2507.20673): the geometric mean of ratios that are clipped per token, on one side, in logs."""

    name = "gmpo"
    ratio_levels = ("sequence",)
    reads = ("clip_low", "clip_high")

    def loss(self, t: Terms, p: Choices) -> Clipped:
        up, mask = t.advantages > 0, t.sequences.mask  # [B, T] each
        high = up & (t.log_ratio.detach() > p.clip_high)
        low = (t.advantages < 0) & (t.log_ratio.detach() < -p.clip_low)
        clipped = torch.where(high, p.clip_high, torch.where(low, -p.clip_low, t.log_ratio))  # [B, T] c_t
        advantages = t.sequences.mean(t.advantages)  # [R], equal on all tokens of a sequence
        # l_i = -A_i exp(mean_t c_t), c_t = min(log r_t, high) if A > 0 else max(log r_t, -low)   [R]  GMPO, 2507.20673
        surrogate = _exp_where(advantages != 0, t.sequences.mean(clipped))  # [R]
        return Clipped(-advantages * surrogate, low & mask, high & mask)

    def formula(self, p: Choices) -> str:
        """The geometric mean with both bounds."""
        return f"-A exp(mean_t c), c = min(log r_t, {p.clip_high:g}) if A > 0 else max(log r_t, -{p.clip_low:g})"

    def ratio_formula(self, p: Choices, gap: str) -> str:
        return f"r_t = exp({gap})"

    def summary(self, p: Choices) -> str:
        return f"gmpo {p.clip_low:g}/{p.clip_high:g}"

    def per_sequence(self, p: Choices) -> bool:
        return True


class KimiSquare(ClipRule):
    """Kimi k1.5 (2501.12599): mirror descent with a square of the sequence's log-ratio in place of a clip."""

    name = "kimi"
    ratio_levels = ("product",)
    reads = ("tau",)
    one_advantage = False

    def loss(self, t: Terms, p: Choices) -> Clipped:
        # l_i = -A_i log pi(y_i) + tau/2 (log pi(y_i) / pi_old(y_i))^2   [R]  Kimi k1.5, 2501.12599 eq. 3
        loss = t.sequences.sum(-t.advantages * t.new) + p.tau / 2 * t.sequences.sum(t.log_ratio).square()
        never = torch.zeros_like(t.sequences.mask)
        return Clipped(loss, never, never)

    def formula(self, p: Choices) -> str:
        return f"-A log pi(y) + {p.tau:g}/2 (sum_t(new - {p.ratio_denominator}))^2"

    def ratio_formula(self, p: Choices, gap: str) -> str:
        """The formula spells its log-ratio out."""
        return ""

    def summary(self, p: Choices) -> str:
        return f"kimi {p.tau:g}"

    def per_sequence(self, p: Choices) -> bool:
        return True

    def acts_without_advantage(self, p: Choices) -> bool:
        return p.tau > 0


class TOPRCap(ClipRule):
    """TOPR (2503.14286): successes as in supervised learning, failures by a capped ratio."""

    name = "topr"
    ratio_levels = ("product",)
    reads = ("ratio_min", "ratio_max")
    one_advantage = False

    def loss(self, t: Terms, p: Choices) -> Clipped:
        ratio = t.sequences.broadcast(t.sequences.sum(t.log_ratio.detach()).exp())  # [B, T] prod_t r_t
        negative = t.advantages < 0
        high = negative & (ratio > p.ratio_max)
        # l_i = -w_i A_i log pi(y_i), w_i = 1 if A_i >= 0 else sg(clip(r_i, min, max))   [R]  TOPR, 2503.14286
        weight = torch.where(negative, ratio.clamp(p.ratio_min, p.ratio_max), 1)  # [B, T]
        return Clipped(t.sequences.sum(-weight * t.advantages * t.new), torch.zeros_like(high), high)

    def formula(self, p: Choices) -> str:
        return f"-w A log pi(y), w = 1 if A >= 0 else sg({_bounded('r', p)})"

    def summary(self, p: Choices) -> str:
        return f"topr {p.ratio_max:g}"

    def per_sequence(self, p: Choices) -> bool:
        return True


def _covariances(logprobs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """[B, T] how much each token adds to the covariance of log pi and A over the trained tokens of the batch."""

    def centred(x: Tensor) -> Tensor:
        x = torch.where(mask, x, 0).double()
        return x - x.sum() / mask.sum().clamp(min=1)

    # Cov_t = (log pi_t - mean log pi) (A_t - mean A)                  [B, T]  2505.22617
    return centred(logprobs) * centred(advantages)


def _chosen(p: Choices, mask: Tensor) -> int:
    """How many tokens of the batch a share is: one at the least."""
    return max(1, int(p.cov_share * int(mask.sum())))


def _of(t: Terms) -> Tensor:
    """[B, T] the tokens that the rule has chosen."""
    assert t.covariant is not None  # `Preset.needs` has it
    return t.covariant


def _bounded(ratio: str, p: Choices) -> str:
    """The absolute bounds of a preset around a ratio, as a formula."""
    if p.ratio_min:
        return f"clip({ratio}, {p.ratio_min:g}, {p.ratio_max:g})"
    return f"min({ratio}, {p.ratio_max:g})"


def _exp_where(live: Tensor, log_ratio: Tensor) -> Tensor:
    """exp where it matters, 1 elsewhere, so that a dead entry can neither overflow nor leak 0 * inf."""
    return torch.exp(torch.where(live, log_ratio, 0))


def _like(x: Tensor, value: float) -> Tensor:
    """A constant in x's precision: `where` of two Python numbers would round to fp32."""
    return torch.full_like(x, value)


for _rule in (
    NoClip(),
    PPOClip(),
    CISPOCap(),
    PrimeMask(),
    DPPOMask(),
    ClipCov(),
    KLCov(),
    GMPOClip(),
    SAPOGate(),
    KimiSquare(),
    TOPRCap(),
):
    register_clip_rule(_rule)
