"""Every policy-gradient algorithm as one row of orthogonal choices: `PRESETS["grpo"]` reads like the line in the paper.

A row says which advantage, which probability ratio (its level and its denominator), which clip rule, which aggregation,
which KL, which corrections and which filters. `policy_loss` and `compute_advantages` read the row; nothing in the
library compares the name of an algorithm. Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack

from rlvr.algorithms.recipe.advantage import ADVANTAGES, Advantage
from rlvr.algorithms.recipe.episode_filter import FILTERS
from rlvr.algorithms.recipe.loss_parts import (
    AGGREGATIONS,
    CLIP_RULES,
    Aggregation,
    Choices,
    ClipRule,
    geo_mask,
    icepop,
    off_policy_mask,
    seq_mis,
    seq_tis,
    tis,
)
from rlvr.envs.core.hints import hint, one_of
from rlvr.envs.open_registry import OpenRegistry, require_parts

if TYPE_CHECKING:
    from rlvr.algorithms.recipe.choice_changes import ChoiceChanges  # made from `Choices` by benchmarks/stubs.py

RATIO_LEVELS = ("none", "token", "sequence", "sequence_token", "product")
RATIO_DENOMINATORS = ("old", "behaviour")
KL_ESTIMATORS = ("none", "k1", "k2", "k3", "k3_unbiased")
KL_IN = ("loss", "reward")
DIVERGENCES = ("sampled", "forward_kl", "reverse_kl", "jsd")


# Choices that name a value of an open registry; an object given in its place is registered.
_OPEN: Mapping[str, OpenRegistry[Any]] = {"advantage": ADVANTAGES, "clip": CLIP_RULES, "aggregation": AGGREGATIONS}


def name_objects(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Choices by name, where an object or a function stands in the place of a name, which is then registered.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    named = {choice: _OPEN[choice].name_of(value) if choice in _OPEN else value for choice, value in choices.items()}
    if isinstance(named.get("filters"), list | tuple):
        named["filters"] = tuple(FILTERS.name_of(each) for each in named["filters"])
    return named


@dataclass(frozen=True)
class Preset(Choices):
    """One algorithm, its choices checked. Change one with `.replace(...)`: `PRESETS["grpo"].replace(kl_coef=0.0)`.

    `Choices` says what each means.

    Raises:
        ValueError: a choice that does not exist, with the nearest; or two that do not go together, and why.
    """

    def __post_init__(self) -> None:
        for choice, name in name_objects({choice: getattr(self, choice) for choice in (*_OPEN, "filters")}).items():
            object.__setattr__(self, choice, name)
        one_of("advantage", self.advantage, ADVANTAGES)
        one_of("ratio_level", self.ratio_level, RATIO_LEVELS)
        one_of("ratio_denominator", self.ratio_denominator, RATIO_DENOMINATORS)
        one_of("clip", self.clip, CLIP_RULES)
        one_of("aggregation", self.aggregation, AGGREGATIONS)
        one_of("kl", self.kl, KL_ESTIMATORS)
        one_of("kl_in", self.kl_in, KL_IN)
        one_of("divergence", self.divergence, DIVERGENCES)
        for name in self.filters:
            one_of("filter", name, FILTERS)
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value) and (name, value) != ("ratio_max", math.inf):
                raise ValueError(f"{name} must be a finite number, not {value}")
        self._check_ratio()
        self._check_shares()
        self._check_kl()
        self._check_divergence()
        self._check_corrections()

    def _check_ratio(self) -> None:
        levels = self.clip_rule.ratio_levels
        if self.ratio_level not in levels:
            raise ValueError(
                f"clip={self.clip!r} works on a ratio of level {' or '.join(levels)}, not {self.ratio_level!r}"
            )
        over_sequences = self.reduction.per_sequence
        if self.per_sequence and not over_sequences:
            raise ValueError(
                f"a loss per sequence (ratio_level={self.ratio_level!r}, clip={self.clip!r}) needs "
                f"aggregation='sequence_mean', not {self.aggregation!r}: weighted by tokens it is not GSPO, long "
                "sequences would count more"
            )
        if over_sequences and not self.per_sequence:
            raise ValueError(
                f"aggregation={self.aggregation!r} is the mean of a loss per sequence; a loss per token needs one "
                "of the others (seq_mean_token_sum is the sum of its tokens)"
            )
        if self.ratio_level == "sequence_token" and self.aggregation != "seq_mean_token_mean":
            raise ValueError(
                f"ratio_level='sequence_token' (GSPO-token) is a mean over sequences of token means: aggregation must "
                f"be 'seq_mean_token_mean', not {self.aggregation!r}"
            )
        if self.clip_low < 0 or self.clip_high < 0:
            raise ValueError(f"clip_low and clip_high are distances >= 0: {self.clip_low}, {self.clip_high}")
        if self.dual_clip is not None and (
            "dual_clip" not in self.clip_rule.reads or self.dual_clip <= 1 + self.clip_high
        ):
            raise ValueError(f"dual_clip={self.dual_clip} needs clip='ppo' and a bound above 1 + clip_high")
        if not 0 <= self.ratio_min < self.ratio_max:
            raise ValueError(f"0 <= ratio_min < ratio_max is needed: {self.ratio_min}, {self.ratio_max}")
        self.clip_rule.check(self)

    def _check_shares(self) -> None:
        if not 0 < self.entropy_share <= 1:
            raise ValueError(f"entropy_share is a share above 0 of the trained tokens, 1 for all: {self.entropy_share}")
        if self.per_sequence and self.entropy_share < 1:
            raise ValueError(
                f"entropy_share={self.entropy_share} leaves tokens out, but this loss is per sequence: set it to 1"
            )
        if not 0 <= self.cov_share <= 1:
            raise ValueError(f"cov_share is a share of the trained tokens, from 0 to 1: {self.cov_share}")
        if self.cov_bounds[0] > self.cov_bounds[1]:
            raise ValueError(f"cov_bounds are the lower and the upper one: {self.cov_bounds}")

    def _check_kl(self) -> None:
        if self.kl_coef < 0 or self.behaviour_penalty < 0:
            raise ValueError(f"a KL coefficient is >= 0, not {min(self.kl_coef, self.behaviour_penalty)}")
        if self.observation_coef < 0:
            raise ValueError(f"observation_coef is >= 0, not {self.observation_coef}: observations are not unlearned")
        if self.kl == "k1" and self.kl_in == "loss":
            raise ValueError(
                "k1 in the loss has an expected gradient of zero: it regularises nothing. Use kl_in='reward' "
                "with k1, or k2, k3 or k3_unbiased in the loss"
            )
        if self.kl_coef > 0 and self.kl == "none":
            raise ValueError(f"kl_coef={self.kl_coef} needs an estimator: kl='k2', 'k3' or 'k3_unbiased'")
        if self.kl_in == "reward" and self.kl not in ("none", "k1"):
            raise ValueError(f"the KL in the reward is k1 (detached, per token), not {self.kl!r}")
        if self.kl == "k3_unbiased" and self.ratio_level == "none":
            raise ValueError("k3_unbiased multiplies k3 by the ratio, so ratio_level='none' cannot use it")

    def _check_divergence(self) -> None:
        if self.divergence_top < 1:
            raise ValueError(f"divergence_top is a number of tokens from 1, not {self.divergence_top}")
        if self.divergence == "sampled":
            return
        if "teacher_logprobs" not in self.estimator.needs:
            raise ValueError(
                f"divergence={self.divergence!r} is one from a teacher; advantage={self.advantage!r} has none"
            )
        if self.per_sequence or self.corrections or self.entropy_share < 1:
            raise ValueError(
                f"divergence={self.divergence!r} stands in the place of the policy term: leave out a loss per "
                "sequence, corrections and entropy_share"
            )

    def _check_corrections(self) -> None:
        weights = [correction.kind for correction in self.corrections if correction.rule.reweights]
        per_token = [correction.kind for correction in self.corrections if correction.rule.per_token]
        if len(weights) > 1:
            raise ValueError(f"corrections {weights} would weigh by old / behaviour twice: keep one of them")
        if weights and self.ratio_denominator == "behaviour" and self.ratio_level != "none":
            raise ValueError(
                f"the ratio is already new / behaviour: {weights[0]!r} would apply the correction twice. "
                "Use ratio_denominator='old' with it, or no correction"
            )
        if self.per_sequence and per_token:
            raise ValueError(f"{per_token[0]!r} weighs tokens, but this loss is per sequence: use seq_tis or seq_mis")

    # Names are looked up once: a name is never registered anew.

    @cached_property
    def clip_rule(self) -> ClipRule:
        """The object of the clip rule."""
        return CLIP_RULES[self.clip]

    @cached_property
    def estimator(self) -> Advantage:
        """The object of the advantage."""
        return ADVANTAGES[self.advantage]

    @cached_property
    def reduction(self) -> Aggregation:
        """The object of the aggregation."""
        return AGGREGATIONS[self.aggregation]

    def __getstate__(self) -> dict[str, Any]:
        """The choices alone: objects that names stand for need not survive a pickle."""
        return {choice.name: getattr(self, choice.name) for choice in dataclasses.fields(self)}

    @property
    def per_sequence(self) -> bool:
        """Whether the loss is one number per sequence (it does not factor into tokens)."""
        return self.clip_rule.per_sequence(self)

    @property
    def critic(self) -> bool:
        """Whether the advantage needs a learned value function."""
        return self.estimator.critic

    @property
    def acts_without_advantage(self) -> bool:
        """Whether a sequence of advantage zero has a gradient: from a KL, a penalty, a bonus, or the clip rule."""
        return bool(
            (self.kl_in == "loss" and self.kl_coef)
            or self.behaviour_penalty
            or self.entropy_coef
            or self.observation_coef
            or self.divergence != "sampled"
            or self.clip_rule.acts_without_advantage(self)
        )

    @cached_property
    def needs(self) -> frozenset[str]:
        """Entries that `policy_loss` requires in the batch besides `mask` and `advantages`."""
        names = {name for correction in self.corrections for name in correction.rule.needs}
        if self.ratio_level != "none":
            names.add(f"{self.ratio_denominator}_logprobs")
        if self.behaviour_penalty:
            names.add("behaviour_logprobs")
        if self.kl_in == "loss" and self.kl_coef > 0:
            names.add("ref_logprobs")
        names |= {*self.reduction.needs}
        if self.entropy_coef:
            names.add("entropy")
        if self.observation_coef:
            names.add("observations")
        if self.clip_rule.chooses:
            names.add("covariant")
        if self.entropy_share < 1:
            names.add("uncertain")
        if self.divergence != "sampled":
            names |= {"teacher_top", "teacher_top_logprobs"}
        return frozenset(names)

    @property
    def formula(self) -> str:
        """The loss of a token or sequence and what surrounds it, written from the choices themselves."""
        ratio = self.clip_rule.ratio_formula(self, f"new - {self.ratio_denominator}")
        parts = [self.clip_rule.formula(self), *([ratio] if ratio else [])]
        parts += [f"times {correction}" for correction in self.corrections]
        if self.divergence != "sampled":
            parts = [f"{self.divergence} of the teacher and the policy over {self.divergence_top} tokens and the rest"]
        if self.entropy_share < 1:
            parts.append(f"the {self.entropy_share:g} of the tokens with the highest entropy")
        extras = []
        if self.kl != "none":
            extras.append(f"{self.kl_coef:g} {self.kl} in the {self.kl_in}")
        if self.behaviour_penalty:
            extras.append(f"{self.behaviour_penalty:g} (new - behaviour)^2")
        if self.entropy_coef:
            extras.append(f"-{self.entropy_coef:g} entropy")
        if self.observation_coef:
            extras.append(f"{self.observation_coef:g} mean of -log pi of later observations")
        return f"{self.reduction.formula} of " + "; ".join(parts) + "".join(f"; + {extra}" for extra in extras)

    def replace(self, **changes: Unpack[ChoiceChanges]) -> Preset:
        """The same row with other choices.

        Raises:
            TypeError: there is no such choice.
            ValueError: it does not go with the others.
        """
        choices = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in choices:
                raise TypeError(f"a preset has no choice {name!r}{hint(name, choices)}; choices: {', '.join(choices)}")
        plain: dict[str, Any] = {**changes}
        return dataclasses.replace(self, **plain)


_GEN = ("dynamic_sampling", "soft_overlong", "overlong_filter")
_SCALE = ("zero_gradient", "no_positive_resampling", "thinking_budget")

_PRESETS = (
    Preset("reinforce", "raw", ratio_level="none", clip="none", aggregation="seq_mean_token_sum", arxiv="Williams 1992",
           note="a mean over the sequence's tokens instead of their sum favours short successes and long failures"),
    Preset("reinforce_baseline", "group_mean", ratio_level="none", clip="none", aggregation="seq_mean_token_sum",
           arxiv="Williams 1992", note="nanochat uses this advantage with a token mean"),
    Preset("rloo", "rloo", ratio_level="none", clip="none", aggregation="seq_mean_token_sum", kl="k1",
           kl_in="reward",
           kl_coef=0.03, arxiv="2402.14740",
           note="three trainers mean three losses by RLOO; this is the paper's: no clip, sums, KL in the reward"),
    Preset("rloo_trl", "rloo", ratio_level="product", aggregation="sequence_mean", kl="k1", kl_in="reward",
           kl_coef=0.05,
           arxiv="2402.14740", note="PPO clip on the ratio of whole sequences, as TRL does, but skipping tool tokens"),
    Preset("loop", "rloo", arxiv="2502.01600", note="leave-one-out advantage with token-level PPO"),
    Preset("reinforce_pp", "reinforce_pp", kl="k1", kl_in="reward", kl_coef=0.001, arxiv="2501.03262",
           note="verl and SkyRL reset the return at masked tokens, so what precedes a tool call gets nothing"),
    Preset("reinforce_pp_baseline", "reinforce_pp_baseline", kl="k2", kl_coef=0.01, arxiv="2501.03262",
           note="whitened over the batch after the group mean; the KL is a k2 term of the loss"),
    Preset("ppo", "gae", whiten=True, kl="k1", kl_in="reward", arxiv="1707.06347",
           note="verl's default adds a dual clip of 3, which is neither PPO nor DAPO; set kl_coef for a reward KL"),
    Preset("grpo", "group_z", aggregation="seq_mean_token_mean", kl="k3", kl_coef=0.04, arxiv="2402.03300",
           note="the paper fixes neither Bessel's correction nor the guard of the std: six conventions are in use"),
    Preset("gdpo", "gdpo", aggregation="seq_mean_token_mean", arxiv="2601.05242",
           note="credit.part_weights names the parts; by itself the reward is the only one"),
    Preset("dr_grpo", "group_mean", aggregation="seq_mean_token_sum_norm", arxiv="2503.20783",
           note="the constant is the generation budget, never the padded width; verl omits the division by B"),
    Preset("dapo", "group_z", clip_high=0.28, filters=_GEN, arxiv="2503.14476",
           note="token mean over the whole batch, as the authors' code does"),
    Preset("dapo_prompt_mean", "group_z", clip_high=0.28, aggregation="prompt_mean", filters=_GEN, arxiv="2503.14476",
           note="the paper's formula divides by the tokens of each prompt, inside the expectation over prompts"),
    Preset("lite_ppo", "batch_std", arxiv="2508.08221", note="std of the rewards of the batch; not ScaleRL's"),
    Preset("cispo", "group_z", clip="cispo", ratio_max=5.0, filters=("dynamic_sampling",), arxiv="2506.13585",
           note="the cap is absolute (5.0, as in TRL); elsewhere the same field means 1 + eps, with a lower bound"),
    Preset("scalerl", "scalerl", ratio_denominator="behaviour", clip="cispo", ratio_max=5.0, aggregation="prompt_mean",
           filters=_SCALE, arxiv="2510.13786", note="the ratio is to the behaviour policy, so no further correction"),
    Preset("prime", "group_mean", ratio_denominator="behaviour", clip="prime", ratio_min=0.125, ratio_max=8.0,
           arxiv="prime-rl", note="dropped tokens stay in the denominator; prime-rl itself has since moved to dppo"),
    Preset("dppo", "group_mean", ratio_denominator="behaviour", clip="dppo", clip_low=0.2, clip_high=0.2,
           behaviour_penalty=1e-3,
           arxiv="2602.04879", note="bounds the change of probability, not the ratio; prime-rl adds the square"),
    Preset("importance_sampling", "group_mean", ratio_denominator="behaviour", clip="none", aggregation="sum",
           filters=("zero_gradient",), arxiv="Tinker", note="a plain sum: the learning rate carries the batch size"),
    Preset("seq_is", "group_mean", ratio_denominator="behaviour", ratio_level="product", clip="cispo", ratio_max=5.0,
           aggregation="seq_mean_token_sum", arxiv="2402.14740", note="huge variance on long sequences"),
    Preset("topr", "group_mean", ratio_denominator="behaviour", ratio_level="product", clip="topr", ratio_max=1.0,
           aggregation="sequence_mean", arxiv="2503.14286",
           note="successes as in SFT, failures weighted by at most one"),
    Preset("gspo", "group_z", ratio_level="sequence", clip_low=3e-4, clip_high=4e-4, aggregation="sequence_mean",
           arxiv="2507.18071",
           note="needs a mean of sequences; with TRL's default aggregation the sequence level is token-weighted"),
    Preset("gspo_token", "group_z", ratio_level="sequence_token", clip_low=3e-4, clip_high=4e-4,
           aggregation="seq_mean_token_mean", arxiv="2507.18071", note="same gradient as gspo; allows A per token"),
    Preset("gmpo", "group_z", ratio_level="sequence", clip="gmpo", clip_low=0.4, clip_high=0.4,
           aggregation="sequence_mean",
           arxiv="2507.20673", note="clipped per token, on one side and in logs, before the mean"),
    Preset("clip_cov", "group_z", clip="clip_cov", cov_share=2e-4, arxiv="2505.22617",
           note="a batch of fewer than 10,000 tokens leaves out one or two, where any lies between the bounds"),
    Preset("kl_cov", "group_z", clip="kl_cov", cov_share=2e-3, tau=1.0, arxiv="2505.22617",
           note="without a clip; the KL acts from the second update of a batch on, as |log r| is flat at r = 1"),
    Preset("sapo", "group_z", clip="sapo", aggregation="seq_mean_token_mean", arxiv="2511.20347",
           note="a smooth gate with slope one at r = 1; implementations agree"),
    Preset("kimi", "group_mean", ratio_level="product", clip="kimi", tau=0.1, aggregation="sequence_mean",
           filters=("curriculum", "length_reward", "partial_rollouts"), arxiv="2501.12599",
           note="off-policy by design: sums over the sequence, no importance weight, no length norm"),
    Preset("intellect2", "group_z", dual_clip=4.0, kl="k3", kl_coef=0.001, arxiv="2505.07291",
           note="its delta is the dual clip's c"),
    Preset("olmorl", "group_mean", clip_high=0.272, corrections=(tis(2.0),),
           filters=("zero_gradient", "active_sampling"), arxiv="2512.13961", note="rejected tokens keep counting"),
    Preset("tis", "group_z", corrections=(tis(2.0),), arxiv="Yao et al. 2025", note="OpenRLHF also clamps from below"),
    Preset("seq_tis", "group_z", corrections=(seq_tis(2.0),), arxiv="Liu, Li et al. 2025",
           note="one weight per sequence"),
    Preset("icepop", "group_z", corrections=(icepop(0.5, 5.0),), arxiv="2510.18855",
           note="dropped tokens stay in the denominator; verl's rejection edits the mask, so there it shrinks"),
    Preset("seq_mis", "group_z", corrections=(seq_mis(0.5, 2.0),), arxiv="Liu, Li et al. 2025",
           note="long sequences are nearly always dropped when the engines differ"),
    Preset("geo_mask_tis", "group_mean", corrections=(geo_mask(0.95, 1.05), tis(2.0)), arxiv="Liu, Li et al. 2025",
           note="OpenRLHF forgets to truncate the token weight after the mask"),
    Preset("grpo_offpolicy_mask", "group_z", aggregation="seq_mean_token_mean", corrections=(off_policy_mask(0.2),),
           arxiv="2512.02556", note="asymmetric on purpose: stale successes still teach"),
    Preset("grpo_unbiased_kl", "group_z", aggregation="seq_mean_token_mean", kl="k3_unbiased", kl_coef=0.04,
           arxiv="2512.02556", note="the ratio turns k3's forward-KL gradient into that of KL(policy || reference)"),
    Preset("maxrl", "maxrl", ratio_denominator="behaviour", clip="none", arxiv="2602.02710",
           note="an all-fail group gives zero"),
    Preset("gem_rebn", "rebn", gamma=0.9, aggregation="seq_mean_token_sum_norm", arxiv="2510.01051",
           note="a turn counts once whatever its length; no group needed; population or sample std both exist"),
    Preset("gem_ppo", "turn_gae", aggregation="seq_mean_token_sum_norm", arxiv="2510.01051",
           note="truncation bootstraps, termination does not"),
    Preset("turn_rloo", "turn_rloo", aggregation="seq_mean_token_sum_norm", arxiv="verl#7244",
           note="the baseline of a turn does not know how many turns follow, so none is paid for being there"),
    Preset("gigpo", "gigpo", gamma=0.95, kl="k3", kl_coef=0.01, arxiv="2505.10978",
           note="a state is what the policy was shown last; a state met once adds 0"),
    Preset("gigpo_state", "gigpo_state", gamma=0.95, kl="k3", kl_coef=0.01, arxiv="2505.10978",
           note="a state is the environment's snapshot, had by playing the actions again; a state met once adds 0"),
    Preset("spiral", "rae", aggregation="seq_mean_token_sum_norm", arxiv="2506.24119",
           note="the baseline is read before it is updated, one per game and role, so groups need no spread"),
    Preset("marshal", "role_turns", whiten=True, dual_clip=1.4, kl="k3", kl_coef=0.2, arxiv="2510.15414",
           note="the KL and the dual clip are those of the authors' configurations; a turn counts once"),
    Preset("vineppo", "vine", whiten=True, kl="k3", kl_coef=1e-4, continuations=9, arxiv="2410.01679",
           note="the step splitter is part of the method"),
    Preset("brpo", "brpo", aggregation="seq_mean_token_sum_norm", arxiv="2505.13438",
           note="one chain of thought, cut at several budgets"),
    Preset("seed_grpo", "seed", aggregation="seq_mean_token_mean", arxiv="2505.12346",
           note="discrete entropy of the answers over log G, linear f, as the authors' code does"),
    Preset("gfpo", "gfpo", group_keep=4, aggregation="seq_mean_token_mean", count_empty_sequences=False,
           filters=("keep_short",),
           arxiv="2508.09726", note="dropped sequences leave the denominators"),
    Preset("passk", "passk", pass_k=4, aggregation="seq_mean_token_mean", arxiv="2508.10751",
           note="the analytic advantage; verl's passk is the other paper's maximum minus second"),
    Preset("passk_max", "passk_max", aggregation="seq_mean_token_mean", arxiv="2503.19595",
           note="verl may also divide it by the std"),
    Preset("grpo_process", "process", aggregation="seq_mean_token_mean", arxiv="2402.03300",
           note="in no trainer we read"),
    Preset("opo", "opo", ratio_level="none", clip="none", aggregation="seq_mean_token_sum", arxiv="2505.23585",
           note="length-weighted group baseline, exactly on policy"),
    Preset("on_policy_distillation", "teacher", ratio_denominator="behaviour", clip="none", arxiv="2306.13649",
           note="the advantage is teacher minus behaviour policy, per token"),
    Preset("sdpo", "self_teacher", ratio_denominator="behaviour", clip="none", arxiv="2601.20802",
           note="the teacher is the policy behind credit.hints; SDFT and OPSD are settings of it"),
)  # fmt: skip

PRESETS: OpenRegistry[Preset] = OpenRegistry(
    "preset",
    "rlvr.algorithms",
    {preset.name: preset for preset in _PRESETS},
    partial(require_parts, kind=Preset, what="preset"),
)
