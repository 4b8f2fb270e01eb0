"""verl 0.9.1: `python -m verl.trainer.main_ppo`, by the options of its `ppo_trainer` and what its losses compute.

Options were read from verl/trainer/config, the losses from verl/trainer/ppo/core_algos.py. The trainer is the newer one
(trainer.use_v1): there `algorithm.rollout_correction.bypass_mode` puts the behaviour policy's log-probabilities in the
place of the old ones, under any loss.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvr.adapters.launch.common import classify_filters, classify_rest
from rlvr.adapters.launch.task_mix import TaskMix, classify_tasks
from rlvr.adapters.launch.translation import NO_BOUND, Machines, Translation, shown
from rlvr.adapters.rows import AGENT

TESTED = ("verl", "0.9.1")
MODULE = "verl.trainer.main_ppo"
LOOP_FILE = "agent_loop.yaml"
ACTOR, ROLLOUT, ALGORITHM = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout.", "algorithm."
ESTIMATORS: dict[str, dict[str, Any]] = {
    "group_mean": {"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": False},
    "group_z": {"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": True},
    "rloo": {"algorithm.adv_estimator": "rloo_vectorized"},
    "opo": {"algorithm.adv_estimator": "opo"},
    "passk_max": {"algorithm.adv_estimator": "grpo_passk", "algorithm.norm_adv_by_std_in_grpo": False},
    "reinforce_pp": {"algorithm.adv_estimator": "reinforce_plus_plus"},
    "reinforce_pp_baseline": {"algorithm.adv_estimator": "reinforce_plus_plus_baseline"},
    "gae": {"algorithm.adv_estimator": "gae"},
}
WHITENED = {"reinforce_pp", "reinforce_pp_baseline", "gae"}  # whitened over the batch's tokens, whatever is asked
AGGREGATIONS = {
    "token_mean": "token-mean",
    "sum": "token-sum",
    "seq_mean_token_sum": "seq-mean-token-sum",
    "seq_mean_token_mean": "seq-mean-token-mean",
    "seq_mean_token_sum_norm": "seq-mean-token-sum-norm",
    "sequence_mean": "seq-mean-token-mean",  # of GSPO, whose token form has the same gradient
}
WEIGHTS = {"tis": "token", "seq_tis": "sequence", "icepop": "token", "seq_mis": "sequence"}
DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
NAMED_ENGINE_OPTIONS = {
    "gpu_memory_utilization", "enforce_eager", "max_model_len", "enable_prefix_caching", "enable_chunked_prefill",
    "max_num_batched_tokens", "max_num_seqs",
}  # fmt: skip


def classify(t: Translation, mix: TaskMix, machines: Machines, prompt_tokens: int | None) -> None:
    """Every setting of a config, for verl."""
    classify_tasks(t, mix)
    _lengths(t, mix, prompt_tokens)
    _advantage(t)
    _loss(t)
    _kl(t)
    _corrections(t)
    _optimiser(t)
    _model(t)
    _sampling(t)
    _schedule(t)
    _run(t, machines)
    classify_rest(t)


def _lengths(t: Translation, mix: TaskMix, prompt_tokens: int | None) -> None:
    longest, reply = t["sampling.max_length"], t["sampling.max_new_tokens"]
    first = prompt_tokens or (longest - reply if mix.turns == 1 else max(1, longest // 4))
    if first >= longest:
        t.refuse(
            "sampling.max_length", f"a first prompt of {first} tokens leaves nothing of {longest} for what follows"
        )
        return
    t.approximate(
        "sampling.max_length",
        {"data.max_prompt_length": first, "data.max_response_length": longest - first, "data.truncation": "error"},
        "one bound for the first prompt and one for all that follows; --prompt-tokens moves it",
    )
    t.exact("sampling.max_new_tokens", f"max_turn_tokens={reply} in {LOOP_FILE}")
    t.exact("env.system", f"use_system={shown(t['env.system'])} in {LOOP_FILE}")


def _advantage(t: Translation) -> None:
    name, single = t["overrides.advantage"], t["group_size"] == 1
    if name in WHITENED and not t["overrides.whiten"] and name == "gae":
        t.choose("overrides.advantage", ESTIMATORS)
        t.changes("overrides.whiten", "verl whitens the advantages of gae, always", "algorithm.adv_estimator=gae")
    elif single and name in ("group_mean", "group_z", "opo", "passk_max"):
        t.refuse("group_size", f"a group of one gets its raw reward as advantage in verl, and 0 in {name}")
        t.exact("overrides.advantage", ESTIMATORS[name])
        return
    elif name in WHITENED:
        t.approximate("overrides.advantage", ESTIMATORS[name], "verl adds 1e-8 to the variance that it whitens by")
        if "overrides.whiten" not in t.idle:
            t.exact("overrides.whiten", "verl whitens the advantages of gae, always")
    else:
        t.choose("overrides.advantage", ESTIMATORS)
        if t["overrides.whiten"]:
            t.refuse("overrides.whiten", f"verl does not whiten the advantages of {name}")
    for choice, option in {"gamma": "algorithm.gamma", "lam": "algorithm.lam"}.items():
        if f"overrides.{choice}" not in t.idle:
            t.exact(f"overrides.{choice}", {option: t[f"overrides.{choice}"]})
    if "overrides.value_clip" not in t.idle:
        _critic(t)


def _critic(t: Translation) -> None:
    bound = t["overrides.value_clip"]
    t.exact("overrides.value_clip", {"critic.cliprange_value": NO_BOUND if bound is None else bound})
    t.changes(
        "critic.width",
        "verl's critic is a language model of its own, trained whole, and no small network on the policy's states",
        {"critic.model.path": t["model.name"], "critic.ppo_max_token_len_per_gpu": _budget(t)},
    )
    t.exact("critic.lr", {"critic.optim.lr": t["critic.lr"]})
    t.exact("critic.epochs", {"critic.ppo_epochs": t["critic.epochs"]})


def _loss(t: Translation) -> None:
    clip, level = t["overrides.clip"], t["overrides.ratio_level"]
    options: dict[str, Any] = {}
    note = ""
    if clip == "none" and level == "none":
        options = {ACTOR + "policy_loss.loss_mode": "gpg"}  # -A log pi
    elif clip == "none" and level == "token":
        options = _ppo(t, NO_BOUND, NO_BOUND)
    elif clip == "ppo" and level == "token":
        options, note = _ppo(t), "log-ratios are held within 20 nats"
    elif clip == "ppo" and level in ("sequence", "sequence_token"):
        options = _ppo(t) | {ACTOR + "policy_loss.loss_mode": "gspo"}
        note = "log-ratios are held below 10 nats"
    elif clip == "cispo" and level == "token":
        low, high = 1 - t["overrides.ratio_min"], min(t["overrides.ratio_max"], NO_BOUND) - 1
        options = _bounds(low, high) | {ACTOR + "policy_loss.loss_mode": "cispo"}
        note = "verl writes the bounds as distances from 1"
    elif clip == "sapo":
        positive, negative = t["overrides.gate"]
        options = {ACTOR + "policy_loss.loss_mode": "sapo", ACTOR + "tau_pos": positive, ACTOR + "tau_neg": negative}
    elif clip == "dppo":
        options = _ppo(t) | {ACTOR + "policy_loss.loss_mode": "dppo_tv"}
    else:
        t.refuse("overrides.clip", f"verl has no clip={clip!r} on a ratio of level {level!r}; it can {_losses()}")
        t.exact("overrides.ratio_level")
    if options:
        t.exact("overrides.clip", options, note)
        t.exact("overrides.ratio_level", f"{ACTOR}policy_loss.loss_mode")
    for choice in ("clip_low", "clip_high", "dual_clip", "ratio_min", "ratio_max", "tau", "gate"):
        if f"overrides.{choice}" not in t.idle:
            t.exact(f"overrides.{choice}", "with overrides.clip")
    _denominator(t)
    _aggregation(t)
    if "overrides.behaviour_penalty" not in t.idle:
        t.changes("overrides.behaviour_penalty", "verl adds no square of the log-ratio to the behaviour policy")
    if "overrides.entropy_coef" not in t.idle:
        t.exact("overrides.entropy_coef", {ACTOR + "entropy_coeff": t["overrides.entropy_coef"]})


def _losses() -> str:
    return (
        "ppo on ratios of tokens (also without a bound), ppo on ratios of sequences as geometric mean (gspo), cispo, "
        "sapo, dppo, and no ratio (none)"
    )


def _bounds(low: float, high: float) -> dict[str, Any]:
    return {ACTOR + "clip_ratio": low, ACTOR + "clip_ratio_low": low, ACTOR + "clip_ratio_high": high}


def _ppo(t: Translation, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    low = t["overrides.clip_low"] if low is None else low
    high = t["overrides.clip_high"] if high is None else high
    # verl clips twice unless told otherwise
    dual = t["overrides.dual_clip"] if t["overrides.dual_clip"] is not None else NO_BOUND
    return _bounds(low, high) | {ACTOR + "clip_ratio_c": dual}


def _denominator(t: Translation) -> None:
    if "overrides.ratio_denominator" in t.idle:
        return
    bypass = t["overrides.ratio_denominator"] == "behaviour"
    t.exact("overrides.ratio_denominator", {"algorithm.rollout_correction.bypass_mode": bypass})


def _aggregation(t: Translation) -> None:
    how = t["overrides.aggregation"]
    options: dict[str, Any] = {ACTOR + "loss_agg_mode": AGGREGATIONS.get(how, "token-mean")}
    if how == "seq_mean_token_sum_norm":
        # the constant is the budget; left alone, verl takes the padded width
        options[ACTOR + "loss_scale_factor"] = t["sampling.max_length"]
    if how in AGGREGATIONS:
        t.exact("overrides.aggregation", options)
    else:
        t.changes(
            "overrides.aggregation",
            f"verl has no {how}; it has {', '.join(name for name in AGGREGATIONS)}, and would take token_mean",
            options,
        )
    if t["overrides.count_empty_sequences"]:
        t.exact("overrides.count_empty_sequences", "sequences count whatever their mask")
    else:
        t.refuse("overrides.count_empty_sequences", "verl counts sequences without trained tokens in its denominators")


def _kl(t: Translation) -> None:
    if "overrides.kl_coef" in t.idle:
        t.options |= {ACTOR + "use_kl_loss": False, "algorithm.use_kl_in_reward": False}
        return
    kl, coef = t["overrides.kl"], t["overrides.kl_coef"]
    if t["overrides.kl_in"] == "reward":
        t.exact("overrides.kl", {"algorithm.use_kl_in_reward": True, "algorithm.kl_penalty": "kl"})
        t.exact("overrides.kl_coef", {"algorithm.kl_ctrl.type": "fixed", "algorithm.kl_ctrl.kl_coef": coef})
        t.exact("overrides.kl_in", {ACTOR + "use_kl_loss": False})
        return
    t.exact("overrides.kl_in", {ACTOR + "use_kl_loss": True, "algorithm.use_kl_in_reward": False})
    t.exact("overrides.kl_coef", {ACTOR + "kl_loss_coef": coef})
    if kl == "k3_unbiased":
        note = "verl has k3+, whose gradient is that of k2: the same expectation on policy, another one off policy"
        t.changes("overrides.kl", note, {ACTOR + "kl_loss_type": "k3+"})
    elif kl == "k3":
        t.approximate("overrides.kl", {ACTOR + "kl_loss_type": "k3"}, "verl clamps it at 10 nats a token")
    else:
        t.exact("overrides.kl", {ACTOR + "kl_loss_type": kl})


def _corrections(t: Translation) -> None:
    t.exact("schedule.correction", "among overrides.corrections")
    if "overrides.corrections" in t.idle:
        return
    section, lost, noted = "algorithm.rollout_correction.", [], []
    options: dict[str, Any] = {}
    for correction in t["overrides.corrections"]:
        kind, bounds = correction["kind"], f"{correction['low']}_{correction['high']}"
        if kind in WEIGHTS:
            threshold = correction["high"] if kind in ("tis", "seq_tis") else bounds
            options |= {section + "rollout_is": WEIGHTS[kind], section + "rollout_is_threshold": threshold}
        elif kind == "geo_mask":
            options |= {section + "rollout_rs": "seq_mean_k1", section + "rollout_rs_threshold": bounds}
            noted.append("verl's mask bounds the inverse ratio, and takes the masked tokens out of the denominators")
        else:
            lost.append(f"{kind} is left out; verl has tis, seq_tis, icepop, seq_mis and geo_mask")
    if lost or noted:
        t.changes("overrides.corrections", "; ".join(lost + noted), options)
    else:
        t.exact("overrides.corrections", options, "log-ratios are held within 20 nats")


def _budget(t: Translation) -> int:
    return int(max(t["learner.micro_batch_tokens"], t["sampling.max_length"]))


def _optimiser(t: Translation) -> None:
    optim = ACTOR + "optim."
    t.exact("learner.lr", {optim + "lr": t["learner.lr"]})
    t.exact("learner.betas", {optim + "betas": list(t["learner.betas"])})
    t.exact("learner.weight_decay", {optim + "weight_decay": t["learner.weight_decay"]})
    t.exact("learner.max_grad_norm", {optim + "clip_grad": t["learner.max_grad_norm"]})
    warm = t["learner.warmup_steps"]
    steps = {optim + "lr_warmup_steps": warm, optim + "lr_warmup_steps_ratio": 0.0}
    t.approximate("learner.warmup_steps", steps, "verl's first step has a rate of 0, ours of lr / (steps + 1)")
    if t["learner.schedule"] == "constant":
        t.exact("learner.schedule", {optim + "lr_scheduler_type": "constant"})
    else:
        cosine = {optim + "lr_scheduler_type": "cosine", optim + "min_lr_ratio": 0.1}
        t.approximate("learner.schedule", cosine, "verl has no line: a cosine to the same tenth")
    t.exact("learner.epochs", {ACTOR + "ppo_epochs": t["learner.epochs"]})
    groups, parts = t["prompts"], t["learner.minibatches"]
    if groups % parts:
        t.refuse(
            "learner.minibatches", f"verl's mini-batches are of one size: {groups} prompts are no multiple of {parts}"
        )
    else:
        t.exact("learner.minibatches", {ACTOR + "ppo_mini_batch_size": groups // parts})
    budget = _budget(t)
    t.approximate(
        "learner.micro_batch_tokens",
        {ACTOR + "use_dynamic_bsz": True, ACTOR + "ppo_max_token_len_per_gpu": budget},
        "tokens of each GPU, without padding; at least one sequence. It changes memory, not the result",
    )
    t.exact(
        "learner.recompute_layers",
        {"actor_rollout_ref.model.enable_gradient_checkpointing": t["learner.recompute_layers"]},
    )


def _model(t: Translation) -> None:
    model = "actor_rollout_ref.model."
    if t["model.name"] == "rlvr/tiny":
        t.refuse("model.name", "verl loads models of Hugging Face: name one by its hub name or folder, not rlvr/tiny")
    else:
        t.exact("model.name", {model + "path": t["model.name"]})
    kind = DTYPES[t["model.dtype"]]
    fsdp = ACTOR + "fsdp_config."
    t.exact(
        "model.dtype",
        {fsdp + "dtype": kind, fsdp + "model_dtype": "fp32", ROLLOUT + "dtype": kind},
        "float32 masters under it",
    )
    if t["model.float32_head"] and kind != "float32":
        t.changes("model.float32_head", "verl makes the logits in the model's precision")
    else:
        t.unused("model.float32_head", "off, or the model is in float32")
    rank = t["model.lora_rank"]
    lora = {model + "lora_rank": rank, model + "lora_alpha": 2 * rank, model + "target_modules": "all-linear"}
    t.exact("model.lora_rank", lora if rank else {model + "lora_rank": 0})
    template = {f"+data.apply_chat_template_kwargs.{name}": each for name, each in t["model.template_options"].items()}
    t.exact("model.template_options", template)
    t.left("model.device", "verl trains on CUDA devices")


def _sampling(t: Translation) -> None:
    t.exact("sampling.temperature", {ROLLOUT + "temperature": t["sampling.temperature"], ROLLOUT + "top_p": 1.0})
    if t["sampling.segment"] and "partial_rollouts" in t["selection.filters"]:
        t.changes("sampling.segment", "verl's synchronous trainer waits for whole replies")
    else:
        t.unused("sampling.segment", "no partial rollouts")
    t.approximate(
        "sampler.kind", {ROLLOUT + "name": "vllm"}, "verl samples with vLLM, and makes log-probabilities anew"
    )
    options = t["sampler.options"]
    t.exact(
        "sampler.options",
        {
            (ROLLOUT + name if name in NAMED_ENGINE_OPTIONS else f"+{ROLLOUT}engine_kwargs.vllm.{name}"): value
            for name, value in options.items()
        },
    )
    if "max_num_seqs" in options:
        t.left("sampler.concurrency", "sampler.options.max_num_seqs is set")
    else:
        t.approximate("sampler.concurrency", {ROLLOUT + "max_num_seqs": t["sampler.concurrency"]}, "of each engine")
    refill = {"algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "reward"}
    rounds = {"algorithm.filter_groups.max_num_gen_batches": 0, "data.gen_batch_size": 1}
    replaced = "groups of equal rewards are replaced without a limit of rounds"
    classify_filters(
        t,
        {
            "active_sampling": (refill | rounds, replaced),
            "dynamic_sampling": (refill | rounds, f"{replaced}, whether they count as successes or not"),
            **({"zero_gradient": (refill | rounds, "dropped groups are replaced")} if _refills(t) else {}),
        },
    )
    for name, note in {
        "selection.max_rounds": "verl refills until the batch is full",
        "selection.over_sampling": "verl asks for as many groups as are missing",
    }.items():
        if _refills(t):
            t.left(name, note)
    if not _refills(t):
        # other tasks for groups whose environment failed altogether
        t.options |= {"trainer.v1.sampler.sync_refill_failed_groups": True, "data.gen_batch_size": 1}


def _refills(t: Translation) -> bool:
    return bool({"active_sampling", "dynamic_sampling"} & {*t["selection.filters"]})


def _schedule(t: Translation) -> None:
    if t["schedule.kind"] == "sync":
        t.exact("schedule.kind", {"trainer.v1.trainer_mode": "sync"})
        t.unused("schedule.depth", "of async alone")
        return
    depth = t["schedule.depth"]
    note = "sampling goes on in the gaps between updates, on the same GPUs, with the newest weights"
    t.approximate("schedule.kind", {"trainer.v1.trainer_mode": "colocate_async"}, note)
    sampler = "trainer.v1.sampler."
    t.approximate(
        "schedule.depth",
        {
            "trainer.v1.colocate_async.num_warmup_batches": depth,
            sampler + "max_off_policy_threshold": depth + 1,
            sampler + "max_off_policy_strategy": "wait",
        },
        "verl counts the versions that an episode may span, one more than updates in between",
    )


def _run(t: Translation, machines: Machines) -> None:
    t.exact("algorithm", "by its choices")
    t.exact("steps", {"trainer.total_training_steps": t["steps"], "trainer.total_epochs": 1_000_000})
    t.exact("prompts", {"data.train_batch_size": t["prompts"]})
    if "group_size" not in t.lines:
        t.exact("group_size", {ROLLOUT + "n": t["group_size"]})
    t.exact("checkpoint_every", {"trainer.save_freq": t["checkpoint_every"]})
    every = t["evaluation.every"] or -1
    greedy = {ROLLOUT + "val_kwargs.temperature": 0, ROLLOUT + "val_kwargs.do_sample": False}
    t.approximate(
        "evaluation.every",
        {"trainer.test_freq": every, "trainer.val_before_train": True, **greedy},
        "greedy alone, before, between and after; ours are greedy and sampled",
    )
    logger = ["console", *([t["report_to"]] if t["report_to"] != "none" else [])]
    t.exact("report_to", {"trainer.logger": logger})
    t.exact("out", {"trainer.default_local_dir": f"{t['out']}/checkpoints"})
    t.options |= {
        "trainer.n_gpus_per_node": machines.gpus,
        "trainer.nnodes": machines.nodes,
        ROLLOUT + "tensor_model_parallel_size": 1,
        ROLLOUT + "calculate_log_probs": True,
        ROLLOUT + "log_prob_use_dynamic_bsz": True,
    }


def command(t: Translation, folder: Path, train: Path, test: Path) -> list[str]:
    """verl's command; its agent loop and the rows are in the folder."""
    files = {
        "data.train_files": train,
        "data.val_files": test,
        ROLLOUT + "agent.agent_loop_config_path": folder / LOOP_FILE,
    }
    settings = [f"{name}={shown(value)}" for name, value in {**files, **t.options}.items()]
    return ["python", "-m", MODULE, *settings]


def files(t: Translation) -> dict[str, str]:
    """The agent loop's file."""
    return {
        LOOP_FILE: f"- name: {AGENT}\n"
        "  _target_: rlvr.adapters.trainers.verl.AgentLoop\n"
        f"  max_turn_tokens: {t['sampling.max_new_tokens']}\n"
        f"  use_system: {shown(t['env.system'])}\n"
    }


ROWS, SUFFIX = "verl", ".parquet"
