"""What several trainers do alike: settings that none of them has, and those that each has under a name of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvr.adapters.launch.translation import NO_BOUND, Translation

KEPT_HERE = {
    "threads": "of our own learner",
    "episodes_every": "the trainer has its own records",
    "push_to_hub": "upload the trainer's checkpoint yourself",
    "learner.compile": "the trainer has a switch of its own; speed, not the result",
    "learner.offload": "the trainer has switches of its own; memory, not the result",
    "learner.grad_accum_dtype": "the trainer adds gradients up in its own way",
    "model.attention": "the trainer has a switch of its own; speed, not the result",
    "model.tf32": "the trainer has a switch of its own",
    "learner.share_prompts": "the trainer lays sequences out in its own way",
    "env.batch_size": "the trainer decides how many episodes are under way",
    "env.workers": "the trainer's workers step environments",
    "env.backend": "the trainer's workers step environments",
    "env.servers": "`rlvr serve` steps environments of our own learner",
    "env.token_env": "`rlvr serve` steps environments of our own learner",
    "env.timeout": "an environment that hangs holds its worker: put a limit into the environment",
    "evaluation.panel": "`rlvr arena` plays the trainer's checkpoints against bots",
    "evaluation.exploitability": "`rlvr arena --exploitability` computes it of the trainer's checkpoints",
    "self_play.every": "the trainer has no pool of earlier policies",
    "self_play.keep": "the trainer has no pool of earlier policies",
    "self_play.rule": "the trainer has no pool of earlier policies",
    "self_play.api_key_env": "the trainer's environments play against bots alone",
    "engine.kind": "the trainer is the engine",
    "engine.url": "the trainer is the engine",
    "engine.base_model": "the trainer is the engine",
    "engine.api_key_env": "the trainer is the engine",
    "engine.deadline": "the trainer is the engine",
    "sampler.url": "the trainer starts its own engines",
    "sampler.served_model": "the trainer starts its own engines",
    "sampler.api_key_env": "the trainer starts its own engines",
    "sampler.deadline": "the trainer starts its own engines",
    "sampler.sleep": "the trainer decides when its engines give their memory back",
    "sampler.tolerance": "the trainer does not compare its engines' log-probabilities with its own after a sync",
}
OF_AN_ADVANTAGE = ("overrides.alpha", "overrides.group_keep", "overrides.pass_k", "overrides.continuations")
BOUNDS = ("clip_low", "clip_high", "dual_clip", "ratio_min", "ratio_max", "tau", "gate", "cov_share", "cov_bounds")
# Without an effect on a config that leaves them out; with one, the trainer does as the text says all the same.
OF_OUR_LEARNER = {
    "model.adapter": "adapters begin anew",
    "learner.reference_every": "the reference policy stays that of the start",
    "learner.kl_coef_end": "the coefficient of the KL term stays as it is",
    "learner.entropy_target": "the coefficient of the entropy bonus stays as it is",
    "learner.entropy_step": "the coefficient of the entropy bonus stays as it is",
    "learner.ema": "the last weights are the policy, not an average",
}
ONE_UPDATE = "with one update a batch the ratio is 1, and its gradient that of log pi"
OF_TINY = ("model.hidden", "model.layers", "model.words")
# Filters that no trainer has, and when they have no effect.
OWN_FILTERS = {
    "no_positive_resampling": "tasks that are nearly always solved are asked on",
    "curriculum": "tasks are drawn evenly",
    "length_reward": "rewards are not shaped by length",
    "keep_correct": "failures stay in the batch",
    "keep_short": "all sequences of a group stay in the batch",
}
Ratio = tuple[str, str, bool]  # a clip rule, the level of its ratio, whether that is to the behaviour policy


@dataclass(frozen=True)
class Estimator:
    """One of our advantages as a trainer computes it.

    options   that ask for it
    note      how it differs, where it does
    turns     what the trainer does between turns, where that changes the algorithm
    groups    whether it compares the members of a group
    whitened  whether the trainer whitens it by itself
    plain     options that leave the deviation out again, if there are such
    """

    options: Mapping[str, Any]
    note: str = ""
    turns: str = ""
    groups: bool = True
    whitened: bool = False
    plain: Mapping[str, Any] = field(default_factory=dict)


def classify_rest(t: Translation) -> None:
    """Every setting that the trainer's own table left open."""
    open_ = [name for name in t.values if name not in t.lines]
    for name in open_:
        if name in t.idle:
            t.unused(name, "no effect in this algorithm")
        elif name in KEPT_HERE:
            t.left(name, KEPT_HERE[name])
        elif name in OF_TINY:
            t.unused(name, "of rlvr/tiny alone")
        elif name == "env.native_tools":
            _native_tools(t)
        elif name.startswith("warm_start."):
            _warm_start(t, name)
        elif name == "learner.optimiser":
            _optimiser(t, name)
        elif name in OF_OUR_LEARNER:
            _learner(t, name)
        elif name.startswith("self_play.polic"):
            _policies(t, name)
        elif name.startswith("curriculum."):
            _curriculum(t, name)
        elif name.startswith("prefix."):
            _prefix(t, name)
        elif name.startswith("credit."):
            t.unused(name, "read by algorithms that the trainer has not")
        elif name.startswith("selection."):
            _selection(t, name)
        elif name.startswith("sampling.thinking_"):
            _thinking(t, name)
        elif name == "overrides.count_empty_sequences":
            _lengthless(t)
        elif name == "overrides.behaviour_penalty":
            t.changes(name, f"{t.engine} adds no square of the log-ratio to the behaviour policy")
        elif name == "overrides.entropy_share":
            t.changes(name, f"{t.engine} learns from tokens of any entropy")
        elif name in ("overrides.divergence", "overrides.divergence_top"):
            t.refuse(name, f"{t.engine} learns from a teacher's probabilities of the sampled tokens alone")
        elif name == "overrides.observation_coef":
            t.changes(name, f"{t.engine} learns from no observation")
        elif name in OF_AN_ADVANTAGE:
            t.refuse(name, f"{t.engine} has no advantage that reads it")


def _native_tools(t: Translation) -> None:
    if t["env.native_tools"]:
        t.refuse(
            "env.native_tools", "our learner alone asks a template how it writes calls: set tools_in in env.settings"
        )
    else:
        t.unused("env.native_tools", "tools are shown as env.settings say")


def _warm_start(t: Translation, name: str) -> None:
    kinds = [kind for kind in ("steps", "mixed_steps", "random_steps") if t[f"warm_start.{kind}"]]
    if not kinds:
        t.unused(name, "no warm start")
    elif name == f"warm_start.{kinds[0]}":
        t.changes(
            name,
            f"{t.engine} begins with the model as it is; do the warm start here (rlvr train with steps: 0) and "
            "name the folder policy/ of that run as model.name",
        )
    else:
        t.left(name, f"see warm_start.{kinds[0]}")


def _optimiser(t: Translation, name: str) -> None:
    if t[name] == "adamw":
        t.exact(name, "AdamW")
    else:
        t.approximate(name, "", f"{t.engine} keeps AdamW's moments in its own precision, not in eight bits")


def _learner(t: Translation, name: str) -> None:
    kept = OF_OUR_LEARNER[name]
    if not t[name]:
        t.unused(name, kept)
    else:
        t.changes(name, f"{t.engine}: {kept}")


def _policies(t: Translation, name: str) -> None:
    if t["self_play.policies"] and name == "self_play.policies":
        t.refuse(name, f"{t.engine} trains one policy: train the other seats' in runs of their own, against its folder")
    else:
        t.unused(name, "one policy is learned")


def _curriculum(t: Translation, name: str) -> None:
    if t["curriculum.kind"] == "none":
        t.unused(name, "no curriculum")
    elif name == "curriculum.kind":
        t.changes(name, f"{t.engine} has no curriculum; all tasks are of env.level {t['env.level']}")
    else:
        t.left(name, "see curriculum.kind")


def _prefix(t: Translation, name: str) -> None:
    if t["prefix.share"] is None:
        t.unused(name, "no expert prefixes")
    elif name == "prefix.share":
        t.changes(name, f"{t.engine} begins no episode with turns of an expert")
    else:
        t.left(name, "see prefix.share")


def _selection(t: Translation, name: str) -> None:
    if name == "selection.filters":
        classify_filters(t, {})
    else:
        t.left(name, "see selection.filters")


def _thinking(t: Translation, name: str) -> None:
    if not t["sampling.thinking_budget"]:
        t.unused(name, "no thinking budget")
    elif name == "sampling.thinking_budget":
        t.changes(name, f"{t.engine} has no thinking budget; thoughts end by themselves or at max_new_tokens")
    else:
        t.left(name, "see sampling.thinking_budget")


def classify_filters(t: Translation, table: Mapping[str, tuple[Mapping[str, Any], str]]) -> None:
    """Classify selection.filters as a whole. ``table``: filters that the trainer has, with options and a note."""
    filters: tuple[str, ...] = t["selection.filters"]
    options: dict[str, Any] = {}
    notes, lost = [], []
    for name in filters:
        if name in table:
            options |= table[name][0]
            notes += [f"{name}: {table[name][1]}"] if table[name][1] else []
        elif f"selection.filters.{name}" in t.idle:
            notes.append(f"{name} has no effect here")
        else:
            lost.append(f"{name} is left out ({OWN_FILTERS.get(name, 'nothing takes its part')})")
    if lost:
        t.changes("selection.filters", "; ".join(lost + notes), options)
    elif notes:
        t.approximate("selection.filters", options, "; ".join(notes))
    elif filters:
        t.exact("selection.filters", options)
    else:
        t.unused("selection.filters", "no filter")


def classify_model_name(t: Translation, options: Mapping[str, Any]) -> None:
    """A Hugging Face model; our own tiny one is refused."""
    if t["model.name"] == "rlvr/tiny":
        t.refuse("model.name", f"{t.engine} loads models of Hugging Face: name one by hub name or folder")
    else:
        t.exact("model.name", options)
    if t["model.chat_template"]:
        t.refuse("model.chat_template", f"{t.engine} takes the tokenizer's own: save it in the model's folder")
    else:
        t.unused("model.chat_template", "the tokenizer's own")


def classify_head(t: Translation) -> None:
    """The switch for float32 logits, which is ours alone."""
    if t["model.float32_head"] and t["model.dtype"] != "float32":
        t.changes("model.float32_head", f"{t.engine} makes the logits in the model's precision")
    else:
        t.unused("model.float32_head", "off, or the model is in float32")


def classify_advantage(
    t: Translation, table: Mapping[str, Estimator], turns: int | None, discounts: Mapping[str, str], group_size: str
) -> None:
    """The advantage, whether it is whitened, its discounts, and the size of the groups that it compares.

    Args:
        t: what the settings become.
        table: the advantages that the trainer has.
        turns: of an episode; None where there is no bound.
        discounts: the trainer's names of gamma and lam.
        group_size: the trainer's name of it.
    """
    name = t["overrides.advantage"]
    estimator = table.get(name, Estimator({}))
    if estimator.turns and turns != 1:
        t.changes("overrides.advantage", f"{t.engine} {estimator.turns}", estimator.options)
    elif estimator.note:
        t.approximate("overrides.advantage", estimator.options, estimator.note)
    else:
        t.choose("overrides.advantage", {name: each.options for name, each in table.items()})
    always = f"{t.engine} whitens the advantages of {name}, always"
    if "overrides.whiten" not in t.idle:
        if estimator.whitened:
            t.exact("overrides.whiten", always)
        else:
            t.refuse("overrides.whiten", f"{t.engine} does not whiten the advantages of {name}")
    elif estimator.plain:
        t.exact("overrides.whiten", estimator.plain, "their mean is taken off all the same")
    elif estimator.whitened:
        t.changes("overrides.whiten", always, estimator.options)
    for choice, option in discounts.items():
        if f"overrides.{choice}" not in t.idle:
            t.exact(f"overrides.{choice}", {option: t[f"overrides.{choice}"]})
    if t["group_size"] == 1 and estimator.groups:
        t.refuse("group_size", f"{t.engine} compares the members of a group, and a group of one has none")
    else:
        t.exact("group_size", {group_size: t["group_size"]})


def classify_critic(t: Translation, clip: str, model: Mapping[str, Any], lr: str, epochs: str = "") -> None:
    """The critic, where the advantage needs it; without an option for epochs it makes as many passes as the policy."""
    if "overrides.value_clip" in t.idle:
        return
    bound = t["overrides.value_clip"]
    t.exact("overrides.value_clip", {clip: NO_BOUND if bound is None else bound})
    t.changes("critic.width", f"{t.engine}'s critic is a language model of its own, trained whole", model)
    t.exact("critic.lr", {lr: t["critic.lr"]})
    if epochs:
        t.exact("critic.epochs", {epochs: t["critic.epochs"]})
    else:
        t.changes("critic.epochs", f"{t.engine}'s critic makes as many passes as the policy", "learner.epochs")


def refuse_credit(t: Translation) -> None:
    """Discounts and a critic, for a trainer that gives an episode one advantage."""
    for choice in ("gamma", "lam"):
        if f"overrides.{choice}" not in t.idle:
            t.refuse(f"overrides.{choice}", f"{t.engine} gives an episode one advantage, and discounts nothing")
    if "overrides.value_clip" not in t.idle:
        t.refuse("overrides.value_clip", f"{t.engine} has no critic")
        for name in ("critic.width", "critic.lr", "critic.epochs"):
            t.left(name, "see overrides.value_clip")


def classify_clip(
    t: Translation,
    table: Mapping[Ratio, tuple[Mapping[str, Any], str]],
    can: str,
    denominator: Mapping[str, Any] | str = "with overrides.clip",
) -> None:
    """The clip rule with its ratio and its bounds.

    Args:
        t: what the settings become.
        table: options and a note for each rule and ratio that the trainer has.
        can: these in words.
        denominator: what says to which policy the ratio is.
    """
    clip, level, policy = t["overrides.clip"], t["overrides.ratio_level"], t["overrides.ratio_denominator"]
    options, note = table.get((clip, level, policy == "behaviour" and level != "none"), ({}, ""))
    if options:
        t.exact("overrides.clip", options, note)
    else:
        ratio = f"clip={clip!r} on a ratio of level {level!r} to the {policy} policy"
        t.refuse("overrides.clip", f"{t.engine} has no {ratio}; it can {can}")
    t.exact("overrides.ratio_level", "with overrides.clip")
    if "overrides.ratio_denominator" not in t.idle:
        t.exact("overrides.ratio_denominator", denominator)
    for choice in BOUNDS:
        if f"overrides.{choice}" not in t.idle:
            t.exact(f"overrides.{choice}", "with overrides.clip")


def classify_aggregation(t: Translation, table: Mapping[str, Mapping[str, Any]]) -> None:
    """The aggregation, by a table to options; in place of another the trainer takes the mean over tokens."""
    how = t["overrides.aggregation"]
    if how in table:
        t.exact("overrides.aggregation", table[how])
    else:
        note = f"{t.engine} has no {how}; it has {', '.join(table)}, and would take token_mean"
        t.changes("overrides.aggregation", note, table["token_mean"])


def _lengthless(t: Translation) -> None:
    """Sequences without trained tokens in the denominators."""
    if t["overrides.count_empty_sequences"]:
        t.exact("overrides.count_empty_sequences", "sequences count whatever their mask")
    else:
        t.refuse("overrides.count_empty_sequences", f"{t.engine} counts sequences without trained tokens")


def classify_segment(t: Translation) -> None:
    """Partial rollouts of a synchronous run."""
    if "sampling.segment" in t.idle:
        t.unused("sampling.segment", "no partial rollouts")
    else:
        t.changes("sampling.segment", f"{t.engine}'s trainer waits for whole replies")


def classify_minibatches(t: Translation, options: Mapping[str, Any]) -> None:
    """Optimiser steps of a pass, all of one size."""
    if t["prompts"] % t["learner.minibatches"]:
        t.refuse("learner.minibatches", f"{t['prompts']} prompts cannot be cut into so many parts of one size")
    else:
        t.exact("learner.minibatches", options)


def classify_refills(t: Translation, rounds: str, more: str) -> None:
    """Settings of filters that replace groups: what the trainer does in their place."""
    for name, note in {"selection.max_rounds": rounds, "selection.over_sampling": more}.items():
        if name not in t.idle:
            t.left(name, note)


def one_update(t: Translation) -> bool:
    """Whether a batch has one optimiser step, so that the ratio to the policy before it is 1."""
    return bool(t["learner.epochs"] * t["learner.minibatches"] == 1)


def token_budget(t: Translation) -> int:
    """Tokens of a micro-batch, at least one sequence."""
    return int(max(t["learner.micro_batch_tokens"], t["sampling.max_length"]))
