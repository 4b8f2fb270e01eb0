"""Every algorithm as one row of orthogonal choices: `PRESETS["grpo"]` reads like the line in the paper.

A row says which advantage, which probability ratio (its level and its anchor), which clip rule, which aggregation,
which KL, which train/inference corrections and which filters. `policy_loss` and `compute_advantages` read the row;
nothing in the library compares the name of an algorithm. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

ADVANTAGES = {
    "raw": "R, or the return to go",
    "group_mean": "R - mean(group)",
    "group_z": "(R - mean) / std of the group",
    "rloo": "R - mean of the others of the group",
    "reinforce_pp": "R - KL to go, whitened over tokens",
    "reinforce_pp_baseline": "R - mean(group), whitened over tokens",
    "batch_std": "(R - mean(group)) / std of the batch's rewards",
    "scalerl": "(R - mean(group)) / std of these over the batch",
    "maxrl": "(R - mean) / mean of the group",
    "gae": "GAE over tokens",
    "turn_gae": "GAE over turns",
    "rebn": "returns of turns, normalised over the batch",
    "vine": "V(s_k+1) - V(s_k) by Monte Carlo",
    "rae": "R - running mean of the role",
    "brpo": "tail return of a budget - its baseline",
    "passk": "pass@k in closed form",
    "passk_max": "largest - second largest, for the best",
    "gfpo": "(R - mean) / std of the k kept rows",
    "seed": "(R - mean) / std * (1 - semantic entropy)",
    "process": "sum of the normalised step rewards to go",
    "opo": "R - length-weighted mean(group)",
    "teacher": "log teacher - log sampler",
}
LEVELS = ("none", "token", "sequence", "sequence_token", "product")
ANCHORS = ("old", "sampler")
CLIPS = ("none", "ppo", "cap", "band", "tv", "log_one_sided", "sigmoid", "square", "negative_cap")
AGGREGATIONS = {
    "token_mean": "sum / N tokens",
    "seq_mean_token_mean": "(1/B) sum_i (1/|y_i|) sum_t",
    "seq_mean_token_sum": "(1/B) sum_i sum_t",
    "seq_mean_token_sum_norm": "sum / (B * max_length)",
    "prompt_mean": "(1/Q) sum_q [sum_(i in q) / sum_(i in q) |y_i|]",
    "rows": "(1/B) sum_i",
    "sum": "sum",
}
KL_ESTIMATORS = ("none", "k1", "k2", "k3", "k3_unbiased")
KL_PLACES = ("loss", "reward")
CORRECTIONS = ("tis", "seq_tis", "icepop", "seq_mis", "geo_mask", "off_policy_mask")
FILTERS = (
    "dynamic_sampling", "active_sampling", "zero_gradient", "no_positive_resampling", "overlong_filter",
    "soft_overlong", "interruptions", "curriculum", "length_reward", "partial_rollouts", "keep_correct", "keep_short",
)  # fmt: skip

_LEVELS_OF_CLIP = {
    "none": ("none", "token"),
    "ppo": ("token", "sequence", "sequence_token", "product"),
    "cap": ("token", "product"),
    "band": ("token",),
    "tv": ("token",),
    "log_one_sided": ("sequence",),
    "sigmoid": ("token",),
    "square": ("product",),
    "negative_cap": ("product",),
}
_WEIGHTS_OF_TOKENS = ("tis", "icepop")
_WEIGHTS = ("tis", "icepop", "seq_tis", "seq_mis")  # they multiply by rho = old / sampler


@dataclass(frozen=True)
class Correction:
    """A detached weight or mask for the gap between trainer and sampler, rho = old / sampler.

    kind             weight of a token
    tis              min(rho_t, high)                                    default high 2
    seq_tis          min(prod rho, high)                                 default high 2
    icepop           rho_t where low <= rho_t <= high, else 0            default [0.5, 5]
    seq_mis          prod rho where it lies in [low, high], else 0       default [0.5, 2]
    geo_mask         1 where exp(mean log rho) lies in [low, high]       default [0.95, 1.05]
    off_policy_mask  0 where A < 0 and mean(sampler - new) > high        default high 0.2
    """

    kind: str
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        _one_of("correction", self.kind, CORRECTIONS)
        if not self.low <= self.high:
            raise ValueError(f"correction {self.kind!r}: low={self.low} is above high={self.high}")

    def __str__(self) -> str:
        bounds = f"[{self.low:g}, {self.high:g}]" if self.low else f"{self.high:g}"
        return f"{self.kind} {bounds}"


def tis(cap: float = 2.0) -> Correction:
    """Truncated importance sampling per token: min(rho_t, cap)."""
    return Correction("tis", high=cap)


def seq_tis(cap: float = 2.0) -> Correction:
    """Truncated importance sampling per row: min(prod_t rho_t, cap)."""
    return Correction("seq_tis", high=cap)


def icepop(low: float = 0.5, high: float = 5.0) -> Correction:
    """Masked importance sampling per token (IcePop, 2510.18855)."""
    return Correction("icepop", low, high)


def seq_mis(low: float = 0.5, high: float = 2.0) -> Correction:
    """Masked importance sampling per row."""
    return Correction("seq_mis", low, high)


def geo_mask(low: float = 0.95, high: float = 1.05) -> Correction:
    """Keep a row only if the geometric mean of its rho_t lies in [low, high]."""
    return Correction("geo_mask", low, high)


def off_policy_mask(delta: float = 0.2) -> Correction:
    """Drop a row that was a failure and has drifted too far (DeepSeek-V3.2)."""
    return Correction("off_policy_mask", high=delta)


@dataclass(frozen=True)
class Preset:
    """One algorithm. Change a choice with `.but(...)`: `PRESETS["grpo"].but(kl_coef=0.0)`.

    advantage       one of ADVANTAGES; `gamma`, `lam`, `whiten`, `k`, `alpha` are its settings
    level           the ratio: of tokens, of whole rows as geometric mean ("sequence"), the same spread over tokens
                    ("sequence_token"), as plain product, or "none" (the log-probability itself is differentiated)
    anchor          denominator of the ratio: "old" (trainer, when the batch was taken) or "sampler" (the generator)
    clip            none, ppo, cap, band, tv, log_one_sided, sigmoid, square, negative_cap
    clip_low/high   distances: the ratio is held in [1 - clip_low, 1 + clip_high] (logs for log_one_sided)
    dual_clip       bound c on the ratio where A < 0 (PPO rule only)
    ratio_min/max   absolute bounds, not distances, for cap and band
    tau             weight of Kimi's square; of Prime's log-ratio inside the band
    gate            SAPO temperatures for A > 0 and A <= 0
    aggregation     one of AGGREGATIONS
    count_empty_rows  whether a row without trained tokens still counts in the denominators (rows and prompts)
    kl, kl_place, kl_coef   estimator, "loss" or "reward", coefficient
    sampler_penalty coefficient of (new - sampler)^2
    entropy_coef    coefficient of an entropy bonus (needs `entropy` in the batch)
    corrections     tuple of Correction, multiplied together
    filters         what the trainer does to the data, see rlvr.algorithms.data.selection
    value_clip      bound on the critic's step (presets with a critic)
    """

    name: str
    advantage: str = "group_mean"
    gamma: float = 1.0
    lam: float = 1.0
    whiten: bool = False
    k: int | None = None
    alpha: float = 1.0
    level: str = "token"
    anchor: str = "old"
    clip: str = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    ratio_min: float = 0.0
    ratio_max: float = math.inf
    tau: float = 0.0
    gate: tuple[float, float] = (1.0, 1.05)
    aggregation: str = "token_mean"
    count_empty_rows: bool = True
    kl: str = "none"
    kl_place: str = "loss"
    kl_coef: float = 0.0
    sampler_penalty: float = 0.0
    entropy_coef: float = 0.0
    corrections: tuple[Correction, ...] = ()
    filters: tuple[str, ...] = ()
    value_clip: float | None = 0.2
    arxiv: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        _one_of("advantage", self.advantage, ADVANTAGES)
        _one_of("level", self.level, LEVELS)
        _one_of("anchor", self.anchor, ANCHORS)
        _one_of("clip", self.clip, CLIPS)
        _one_of("aggregation", self.aggregation, AGGREGATIONS)
        _one_of("kl", self.kl, KL_ESTIMATORS)
        _one_of("kl_place", self.kl_place, KL_PLACES)
        for name in self.filters:
            _one_of("filter", name, FILTERS)
        self._check_ratio()
        self._check_kl()
        self._check_corrections()

    def _check_ratio(self) -> None:
        if self.level not in _LEVELS_OF_CLIP[self.clip]:
            raise ValueError(
                f"clip={self.clip!r} works on a ratio of level {' or '.join(_LEVELS_OF_CLIP[self.clip])}, "
                f"not {self.level!r}"
            )
        if self.per_row and self.aggregation != "rows":
            raise ValueError(
                f"a loss per row (level={self.level!r}, clip={self.clip!r}) needs aggregation='rows', not "
                f"{self.aggregation!r}: weighted by tokens it is not GSPO, long rows would count more"
            )
        if self.aggregation == "rows" and not self.per_row:
            raise ValueError(
                "aggregation='rows' is the mean of a loss per row; a loss per token needs one of the others "
                "(seq_mean_token_sum is the sum of its tokens)"
            )
        if self.level == "sequence_token" and self.aggregation != "seq_mean_token_mean":
            raise ValueError(
                f"level='sequence_token' (GSPO-token) is a mean over rows of token means: aggregation must be "
                f"'seq_mean_token_mean', not {self.aggregation!r}"
            )
        if self.clip_low < 0 or self.clip_high < 0:
            raise ValueError(f"clip_low and clip_high are distances >= 0: {self.clip_low}, {self.clip_high}")
        if self.dual_clip is not None and (self.clip != "ppo" or self.dual_clip <= 1 + self.clip_high):
            raise ValueError(f"dual_clip={self.dual_clip} needs clip='ppo' and a bound above 1 + clip_high")
        if not 0 <= self.ratio_min < self.ratio_max:
            raise ValueError(f"0 <= ratio_min < ratio_max is needed: {self.ratio_min}, {self.ratio_max}")
        if self.clip == "cap" and not math.isfinite(self.ratio_max):
            raise ValueError(
                "clip='cap' needs ratio_max, the absolute cap on the detached ratio (5.0, not 4.0 for 1 + 4)"
            )

    def _check_kl(self) -> None:
        if self.kl_coef < 0 or self.sampler_penalty < 0:
            raise ValueError(f"a KL coefficient is >= 0, not {min(self.kl_coef, self.sampler_penalty)}")
        if self.kl == "k1" and self.kl_place == "loss":
            raise ValueError(
                "k1 in the loss has an expected gradient of zero: it regularises nothing. Use kl_place='reward' "
                "with k1, or k2, k3 or k3_unbiased in the loss"
            )
        if self.kl_coef > 0 and self.kl == "none":
            raise ValueError(f"kl_coef={self.kl_coef} needs an estimator: kl='k2', 'k3' or 'k3_unbiased'")
        if self.kl_place == "reward" and self.kl not in ("none", "k1"):
            raise ValueError(f"the KL in the reward is k1 (detached, per token), not {self.kl!r}")
        if self.kl == "k3_unbiased" and self.level == "none":
            raise ValueError("k3_unbiased multiplies k3 by the ratio, so level='none' cannot use it")

    def _check_corrections(self) -> None:
        weights = [c.kind for c in self.corrections if c.kind in _WEIGHTS]
        if len(weights) > 1:
            raise ValueError(f"corrections {weights} would weigh by old / sampler twice: keep one of them")
        if weights and self.anchor == "sampler" and self.level != "none":
            raise ValueError(
                f"the ratio is already new / sampler: {weights[0]!r} would apply the correction twice. "
                "Use anchor='old' with it, or no correction"
            )
        if self.per_row and any(kind in _WEIGHTS_OF_TOKENS for kind in weights):
            raise ValueError(f"{weights[0]!r} weighs tokens, but this loss is per row: use seq_tis or seq_mis")

    @property
    def per_row(self) -> bool:
        """Whether the loss is one number per row (it does not factor into tokens)."""
        row_ratio = self.clip == "ppo" and self.level in ("sequence", "product")
        return row_ratio or self.clip in ("log_one_sided", "square", "negative_cap")

    @property
    def critic(self) -> bool:
        """Whether the advantage needs a learned value function."""
        return self.advantage in ("gae", "turn_gae")

    @property
    def acts_without_advantage(self) -> bool:
        """Whether a row of advantage zero still has a gradient: from a KL, an entropy bonus, or Kimi's square."""
        return bool(
            (self.kl_place == "loss" and self.kl_coef)
            or self.sampler_penalty
            or self.entropy_coef
            or (self.clip in ("square", "band") and self.tau)
        )

    @property
    def needs(self) -> frozenset[str]:
        """Keys that `policy_loss` requires in the batch besides `mask` and `advantages`."""
        keys = set()
        if self.level != "none":
            keys.add(self.anchor)
        for correction in self.corrections:
            keys |= {"sampler"} if correction.kind == "off_policy_mask" else {"old", "sampler"}
        if self.sampler_penalty:
            keys.add("sampler")
        if self.kl_place == "loss" and self.kl_coef > 0:
            keys.add("ref")
        if self.aggregation == "prompt_mean":
            keys.add("group")
        if self.aggregation == "seq_mean_token_sum_norm":
            keys.add("max_length")
        if self.entropy_coef:
            keys.add("entropy")
        return frozenset(keys)

    @property
    def formula(self) -> str:
        """The loss of a token or row and what surrounds it, written from the choices themselves."""
        return formula(self)

    def but(self, **changes: Any) -> Preset:
        """The same row with other choices; an unknown name is an error."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise TypeError(f"a preset has no choice {name!r}{_hint(name, known)}; choices: {', '.join(known)}")
        return dataclasses.replace(self, **changes)


def formula(p: Preset) -> str:
    """One line: ratio, loss, weights, aggregation and extras of a preset."""
    gap = f"new - {p.anchor}"
    ratio = {
        "token": f"r = exp({gap})",
        "sequence": f"r = exp(mean_t({gap}))",
        "sequence_token": f"r = sg(exp(mean_t({gap}))) pi/sg(pi)",
        "product": f"r = exp(sum_t({gap}))",
    }
    clip = {
        "none": "-A log pi" if p.level == "none" else "-A r",
        "ppo": f"-min(r A, clip(r, 1 - {p.clip_low:g}, 1 + {p.clip_high:g}) A)"
        + (f", at most -{p.dual_clip:g} A where A < 0" if p.dual_clip else ""),
        "cap": f"-sg(min(r, {p.ratio_max:g})) A log pi",
        "band": f"-sg(1[{p.ratio_min:g} <= r <= {p.ratio_max:g}] r A) log pi",
        "tv": f"-A r unless pi - mu > {p.clip_high:g} with A > 0, or < -{p.clip_low:g} with A < 0",
        "log_one_sided": f"-A exp(mean_t c), c = min(log r_t, {p.clip_high:g}) if A > 0"
        f" else max(log r_t, -{p.clip_low:g})",
        "sigmoid": f"-A (4/tau) sigmoid(tau (r - 1)), tau = {p.gate[0]:g} if A > 0 else {p.gate[1]:g}",
        "square": f"-A log pi(y) + {p.tau:g}/2 (sum_t({gap}))^2",
        "negative_cap": f"-w A log pi(y), w = 1 if A >= 0 else sg(min(r, {p.ratio_max:g}))",
    }
    parts = [clip[p.clip]]
    if p.level != "none" and p.clip not in ("square", "log_one_sided"):
        parts.append(ratio[p.level])
    if p.clip == "log_one_sided":
        parts.append(f"r_t = exp({gap})")
    parts += [f"times {correction}" for correction in p.corrections]
    extras = []
    if p.kl != "none":
        extras.append(f"{p.kl_coef:g} {p.kl} in the {p.kl_place}")
    if p.sampler_penalty:
        extras.append(f"{p.sampler_penalty:g} (new - sampler)^2")
    if p.entropy_coef:
        extras.append(f"-{p.entropy_coef:g} entropy")
    return f"{AGGREGATIONS[p.aggregation]} of " + "; ".join(parts) + "".join(f"; + {extra}" for extra in extras)


def _hint(given: str, allowed: Any) -> str:
    close = difflib.get_close_matches(str(given), list(allowed), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def _one_of(what: str, given: str, allowed: Iterable[str]) -> None:
    if given not in allowed:
        raise ValueError(f"unknown {what} {given!r}{_hint(given, allowed)}; allowed: {', '.join(allowed)}")


_GEN = ("dynamic_sampling", "soft_overlong", "overlong_filter")
_SCALE = ("zero_gradient", "no_positive_resampling", "interruptions")

_ROWS = (
    Preset("reinforce", "raw", level="none", clip="none", aggregation="seq_mean_token_sum", arxiv="Williams 1992",
           note="a mean over the row's tokens instead of their sum favours short successes and long failures"),
    Preset("reinforce_baseline", "group_mean", level="none", clip="none", aggregation="seq_mean_token_sum",
           arxiv="Williams 1992", note="nanochat uses this advantage with a token mean"),
    Preset("rloo", "rloo", level="none", clip="none", aggregation="seq_mean_token_sum", kl="k1", kl_place="reward",
           kl_coef=0.03, arxiv="2402.14740",
           note="three trainers mean three losses by RLOO; this is the paper's: no clip, row sums, KL in the reward"),
    Preset("rloo_trl", "rloo", level="product", aggregation="rows", kl="k1", kl_place="reward", kl_coef=0.05,
           arxiv="2402.14740", note="PPO clip on the ratio of whole rows, as TRL does, but skipping tool tokens"),
    Preset("loop", "rloo", arxiv="2502.01600", note="leave-one-out advantage with token-level PPO"),
    Preset("reinforce_pp", "reinforce_pp", kl="k1", kl_place="reward", kl_coef=0.001, arxiv="2501.03262",
           note="verl and SkyRL reset the return at masked tokens, so what precedes a tool call gets nothing"),
    Preset("reinforce_pp_baseline", "reinforce_pp_baseline", kl="k2", kl_coef=0.01, arxiv="2501.03262",
           note="whitened over the batch after the group mean; the KL is a k2 term of the loss"),
    Preset("ppo", "gae", whiten=True, kl="k1", kl_place="reward", arxiv="1707.06347",
           note="verl's default adds a dual clip of 3, which is neither PPO nor DAPO; set kl_coef for a reward KL"),
    Preset("grpo", "group_z", aggregation="seq_mean_token_mean", kl="k3", kl_coef=0.04, arxiv="2402.03300",
           note="the paper fixes neither Bessel's correction nor the guard of the std: six conventions are in use"),
    Preset("dr_grpo", "group_mean", aggregation="seq_mean_token_sum_norm", arxiv="2503.20783",
           note="the constant is the generation budget, never the padded width; verl omits the division by B"),
    Preset("dapo", "group_z", clip_high=0.28, filters=_GEN, arxiv="2503.14476",
           note="token mean over the whole batch, as the authors' code does"),
    Preset("dapo_prompt_mean", "group_z", clip_high=0.28, aggregation="prompt_mean", filters=_GEN, arxiv="2503.14476",
           note="the paper's formula divides by the tokens of each prompt, inside the expectation over prompts"),
    Preset("lite_ppo", "batch_std", arxiv="2508.08221", note="std of the rewards of the batch; not ScaleRL's"),
    Preset("cispo", "group_z", clip="cap", ratio_max=5.0, filters=("dynamic_sampling",), arxiv="2506.13585",
           note="the cap is absolute (5.0, as in TRL); elsewhere the same field means 1 + eps, with a lower bound"),
    Preset("scalerl", "scalerl", anchor="sampler", clip="cap", ratio_max=5.0, aggregation="prompt_mean",
           filters=_SCALE, arxiv="2510.13786", note="the ratio is to the generator, so no further correction"),
    Preset("prime", "group_mean", anchor="sampler", clip="band", ratio_min=0.125, ratio_max=8.0,
           arxiv="prime-rl", note="dropped tokens stay in the denominator; prime-rl itself has since moved to dppo"),
    Preset("dppo", "group_mean", anchor="sampler", clip="tv", clip_low=0.2, clip_high=0.2, sampler_penalty=1e-3,
           arxiv="2602.04879", note="bounds the change of probability, not the ratio; prime-rl adds the square"),
    Preset("importance_sampling", "group_mean", anchor="sampler", clip="none", aggregation="sum",
           filters=("zero_gradient",), arxiv="Tinker", note="a plain sum: the learning rate carries the batch size"),
    Preset("seq_is", "group_mean", anchor="sampler", level="product", clip="cap", ratio_max=5.0,
           aggregation="seq_mean_token_sum", arxiv="2402.14740", note="huge variance on long rows"),
    Preset("topr", "group_mean", anchor="sampler", level="product", clip="negative_cap", ratio_max=1.0,
           aggregation="rows", arxiv="2503.14286", note="successes as in SFT, failures weighted by at most one"),
    Preset("gspo", "group_z", level="sequence", clip_low=3e-4, clip_high=4e-4, aggregation="rows", arxiv="2507.18071",
           note="needs a mean of rows; with TRL's default aggregation the sequence level is token-weighted"),
    Preset("gspo_token", "group_z", level="sequence_token", clip_low=3e-4, clip_high=4e-4,
           aggregation="seq_mean_token_mean", arxiv="2507.18071", note="same gradient as gspo; allows A per token"),
    Preset("gmpo", "group_z", level="sequence", clip="log_one_sided", clip_low=0.4, clip_high=0.4, aggregation="rows",
           arxiv="2507.20673", note="clipped per token, on one side and in logs, before the mean"),
    Preset("sapo", "group_z", clip="sigmoid", aggregation="seq_mean_token_mean", arxiv="2511.20347",
           note="a smooth gate with slope one at r = 1; implementations agree"),
    Preset("kimi", "group_mean", level="product", clip="square", tau=0.1, aggregation="rows",
           filters=("curriculum", "length_reward", "partial_rollouts"), arxiv="2501.12599",
           note="off-policy by design: sums over the row, no importance weight, no length norm"),
    Preset("intellect2", "group_z", dual_clip=4.0, kl="k3", kl_coef=0.001, arxiv="2505.07291",
           note="its delta is the dual clip's c"),
    Preset("olmorl", "group_mean", clip_high=0.272, corrections=(tis(2.0),),
           filters=("zero_gradient", "active_sampling"), arxiv="2512.13961", note="rejected tokens keep counting"),
    Preset("tis", "group_z", corrections=(tis(2.0),), arxiv="Yao et al. 2025", note="OpenRLHF also clamps from below"),
    Preset("seq_tis", "group_z", corrections=(seq_tis(2.0),), arxiv="Yao et al. 2025", note="one weight per row"),
    Preset("icepop", "group_z", corrections=(icepop(0.5, 5.0),), arxiv="2510.18855",
           note="dropped tokens stay in the denominator; verl's rejection edits the mask, so there it shrinks"),
    Preset("seq_mis", "group_z", corrections=(seq_mis(0.5, 2.0),), arxiv="2510.18855",
           note="long rows are nearly always dropped when the engines differ"),
    Preset("geo_mask_tis", "group_mean", corrections=(geo_mask(0.95, 1.05), tis(2.0)), arxiv="Yao et al. 2025",
           note="OpenRLHF forgets to truncate the token weight after the mask"),
    Preset("grpo_offpolicy_mask", "group_z", aggregation="seq_mean_token_mean", corrections=(off_policy_mask(0.2),),
           arxiv="2512.02556", note="asymmetric on purpose: stale successes still teach"),
    Preset("grpo_unbiased_kl", "group_z", aggregation="seq_mean_token_mean", kl="k3_unbiased", kl_coef=0.04,
           arxiv="2512.02556", note="the ratio turns k3's forward-KL gradient into that of KL(policy || reference)"),
    Preset("maxrl", "maxrl", anchor="sampler", clip="none", arxiv="2602.02710", note="an all-fail group gives zero"),
    Preset("gem_rebn", "rebn", gamma=0.9, aggregation="seq_mean_token_sum_norm", arxiv="2510.01051",
           note="a turn counts once whatever its length; no group needed; population or sample std both exist"),
    Preset("gem_ppo", "turn_gae", aggregation="seq_mean_token_sum_norm", arxiv="2510.01051",
           note="truncation bootstraps, termination does not"),
    Preset("spiral", "rae", aggregation="seq_mean_token_sum_norm", filters=("zero_gradient",), arxiv="2506.24119",
           note="the baseline is read before it is updated, one per game and role"),
    Preset("vineppo", "vine", whiten=True, kl="k3", kl_coef=1e-4, k=9, arxiv="2410.01679",
           note="the step splitter is part of the method"),
    Preset("brpo", "brpo", aggregation="seq_mean_token_sum_norm", arxiv="2505.13438",
           note="one chain of thought, cut at several budgets"),
    Preset("seed_grpo", "seed", aggregation="seq_mean_token_mean", arxiv="2505.12346",
           note="discrete entropy of the answers over log G, linear f, as the authors' code does"),
    Preset("gfpo", "gfpo", k=4, aggregation="seq_mean_token_mean", count_empty_rows=False, filters=("keep_short",),
           arxiv="2508.09726", note="dropped rows leave the denominators"),
    Preset("passk", "passk", k=4, aggregation="seq_mean_token_mean", arxiv="2508.10751",
           note="the analytic advantage; verl's passk is the other paper's maximum minus second"),
    Preset("passk_max", "passk_max", aggregation="seq_mean_token_mean", arxiv="2503.19595",
           note="verl may also divide it by the std"),
    Preset("grpo_process", "process", aggregation="seq_mean_token_mean", arxiv="2402.03300",
           note="in no trainer we read"),
    Preset("opo", "opo", level="none", clip="none", aggregation="seq_mean_token_sum", arxiv="2505.23585",
           note="length-weighted group baseline, exactly on policy"),
    Preset("on_policy_distillation", "teacher", anchor="sampler", clip="none", arxiv="2306.13649",
           note="the advantage is teacher minus sampler, per token"),
)  # fmt: skip

PRESETS = MappingProxyType({row.name: row for row in _ROWS})

# What does not fit the table of policy losses: (name, formula, function, source).
OTHER_LOSSES = (
    ("sft", "-log pi(y), token mean", "likelihood.nll_loss", "maximum likelihood"),
    ("rft", "-log pi(y) of the correct, distinct rows", "selection.keep_correct + likelihood.nll_loss", "2308.01825"),
    (
        "best_of_n",
        "-log pi(y) of the best row of each group",
        "selection.best_of_n + likelihood.nll_loss",
        "2304.06767",
    ),
    ("verifree", "-A log pi(z) - R log pi(y*), R = pi(y* | x, z)", "likelihood.verifree_loss", "2505.21493"),
    ("fcp", "-log pi(y | x, feedback)", "likelihood.with_feedback + likelihood.nll_loss", "2509.22638"),
    ("dpo", "-log sigmoid(beta (d_w - d_l)), d = sum_t(new - ref)", "preference.dpo_loss", "2305.18290"),
    ("ln_dpo", "the same with d = mean_t(new - ref), beta 5", "preference.ln_dpo_loss", "2411.15124"),
    ("simpo", "-log sigmoid(beta (mean_w - mean_l) - gamma), no ref", "preference.simpo_loss", "2405.14734"),
    ("online_dpo", "dpo on the best and worst of each group", "preference.best_worst_pairs", "2402.04792"),
)


def table() -> str:
    """All algorithms as text: one row each, one column per choice, then the losses that are no policy losses."""
    header = ("algorithm", "advantage", "ratio", "clip", "aggregation", "KL", "corrections", "filters", "source")
    lines = _aligned([header, *(_cells(preset) for preset in PRESETS.values())])
    others = _aligned([("loss", "formula", "function", "source"), *OTHER_LOSSES])
    return "\n".join([*lines, "", *others]) + "\n"


def _cells(p: Preset) -> tuple[str, ...]:
    ratio = "-" if p.level == "none" else f"{p.level} ({p.anchor})"
    clip = {
        "none": "-",
        "ppo": f"ppo {p.clip_low:g}/{p.clip_high:g}" + (f" dual {p.dual_clip:g}" if p.dual_clip else ""),
        "cap": f"cap {p.ratio_max:g}",
        "band": f"band [{p.ratio_min:g}, {p.ratio_max:g}]",
        "tv": f"tv {p.clip_low:g}/{p.clip_high:g}",
        "log_one_sided": f"one-sided log {p.clip_low:g}/{p.clip_high:g}",
        "sigmoid": f"sigmoid {p.gate[0]:g}/{p.gate[1]:g}",
        "square": f"square {p.tau:g}",
        "negative_cap": f"A < 0: cap {p.ratio_max:g}",
    }
    kl = "-" if p.kl == "none" else f"{p.kl} {p.kl_place} {p.kl_coef:g}"
    corrections, filters = ", ".join(map(str, p.corrections)) or "-", ", ".join(p.filters) or "-"
    return (p.name, p.advantage, ratio, clip[p.clip], p.aggregation, kl, corrections, filters, p.arxiv)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
