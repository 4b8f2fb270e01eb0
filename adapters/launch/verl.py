"""verl 0.9.1: `python -m verl.trainer.main_ppo`, by the options of its `ppo_trainer` and what its losses compute.

Options were read from verl/trainer/config, the losses from verl/trainer/ppo/core_algos.py. The trainer is the newer one
(trainer.use_v1): there `algorithm.rollout_correction.bypass_mode` puts the behaviour policy's log-probabilities in the
place of the old ones, under any loss.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvr.adapters.launch import common
from rlvr.adapters.launch.common import Estimator
from rlvr.adapters.launch.task_mix import TaskMix, classify_tasks
from rlvr.adapters.launch.translation import NO_BOUND, Machines, Translation, shown
from rlvr.adapters.rows import AGENT

TESTED = ("verl", "0.9.1")
MODULE = "verl.trainer.main_ppo"
LOOP_FILE = "agent_loop.yaml"
ACTOR, ROLLOUT, ALGORITHM = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout.", "algorithm."
WHITENED = "verl adds 1e-8 to the variance that it whitens by"
ESTIMATORS = {
    "group_mean": Estimator({"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": False}),
    "group_z": Estimator({"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": True}),
    "rloo": Estimator({"algorithm.adv_estimator": "rloo_vectorized"}, groups=False),
    "opo": Estimator({"algorithm.adv_estimator": "opo"}),
    "passk_max": Estimator({"algorithm.adv_estimator": "grpo_passk", "algorithm.norm_adv_by_std_in_grpo": False}),
    "reinforce_pp": Estimator({"algorithm.adv_estimator": "reinforce_plus_plus"}, WHITENED, groups=False),
    "reinforce_pp_baseline": Estimator(
        {"algorithm.adv_estimator": "reinforce_plus_plus_baseline"}, WHITENED, groups=False
    ),
    "gae": Estimator({"algorithm.adv_estimator": "gae"}, WHITENED, groups=False, whitened=True),
}
AGGREGATIONS = {
    "token_mean": "token-mean",
    "sum": "token-sum",
    "seq_mean_token_sum": "seq-mean-token-sum",
    "seq_mean_token_mean": "seq-mean-token-mean",
    "seq_mean_token_sum_norm": "seq-mean-token-sum-norm",
    "sequence_mean": "seq-mean-token-mean",  # of GSPO, whose token form has the same gradient
}
WEIGHTS = {"tis": "token", "seq_tis": "sequence", "icepop": "token", "seq_mis": "sequence"}
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
    common.classify_rest(t)


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
    discounts = {"gamma": "algorithm.gamma", "lam": "algorithm.lam"}
    common.classify_advantage(t, ESTIMATORS, 1, discounts, ROLLOUT + "n")
    model = {"critic.model.path": t["model.name"], "critic.ppo_max_token_len_per_gpu": common.token_budget(t)}
    common.classify_critic(t, "critic.cliprange_value", model, "critic.optim.lr", "critic.ppo_epochs")


def _loss(t: Translation) -> None:
    mode = ACTOR + "policy_loss.loss_mode"
    low, high = 1 - t["overrides.ratio_min"], min(t["overrides.ratio_max"], NO_BOUND) - 1
    positive, negative = t["overrides.gate"]
    gspo = _ppo(t) | {mode: "gspo"}, "log-ratios are held below 10 nats"
    rules: dict[tuple[str, str], tuple[dict[str, Any], str]] = {
        ("none", "none"): ({mode: "gpg"}, ""),  # -A log pi
        ("none", "token"): (_ppo(t, NO_BOUND, NO_BOUND), ""),
        ("ppo", "token"): (_ppo(t), "log-ratios are held within 20 nats"),
        ("ppo", "sequence"): gspo,
        ("ppo", "sequence_token"): gspo,
        ("cispo", "token"): (_bounds(low, high) | {mode: "cispo"}, "verl writes the bounds as distances from 1"),
        ("sapo", "token"): ({mode: "sapo", ACTOR + "tau_pos": positive, ACTOR + "tau_neg": negative}, ""),
        ("dppo", "token"): (_ppo(t) | {mode: "dppo_tv"}, ""),
    }
    can = (
        "ppo on ratios of tokens (also without a bound), ppo on ratios of sequences as geometric mean (gspo), cispo, "
        "sapo, dppo, and no ratio (none)"
    )
    behaviour = t["overrides.ratio_denominator"] == "behaviour"
    table = {(*rule, behaviour and rule[1] != "none"): options for rule, options in rules.items()}
    common.classify_clip(t, table, can, {"algorithm.rollout_correction.bypass_mode": behaviour})
    aggregations = {how: {ACTOR + "loss_agg_mode": theirs} for how, theirs in AGGREGATIONS.items()}
    # the constant is the budget; left alone, verl takes the padded width
    aggregations["seq_mean_token_sum_norm"][ACTOR + "loss_scale_factor"] = t["sampling.max_length"]
    common.classify_aggregation(t, aggregations)
    if "overrides.entropy_coef" not in t.idle:
        t.exact("overrides.entropy_coef", {ACTOR + "entropy_coeff": t["overrides.entropy_coef"]})


def _bounds(low: float, high: float) -> dict[str, Any]:
    return {ACTOR + "clip_ratio": low, ACTOR + "clip_ratio_low": low, ACTOR + "clip_ratio_high": high}


def _ppo(t: Translation, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    low = t["overrides.clip_low"] if low is None else low
    high = t["overrides.clip_high"] if high is None else high
    # verl clips twice unless told otherwise
    dual = t["overrides.dual_clip"] if t["overrides.dual_clip"] is not None else NO_BOUND
    return _bounds(low, high) | {ACTOR + "clip_ratio_c": dual}


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
    common.classify_minibatches(t, {ACTOR + "ppo_mini_batch_size": t["prompts"] // t["learner.minibatches"]})
    budget = common.token_budget(t)
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
    common.classify_model_name(t, {model + "path": t["model.name"]})
    kind = t["model.dtype"]
    fsdp = ACTOR + "fsdp_config."
    t.exact(
        "model.dtype",
        {fsdp + "dtype": kind, fsdp + "model_dtype": "fp32", ROLLOUT + "dtype": kind},
        "float32 masters under it",
    )
    common.classify_head(t)
    rank = t["model.lora_rank"]
    lora = {model + "lora_rank": rank, model + "lora_alpha": 2 * rank, model + "target_modules": "all-linear"}
    t.exact("model.lora_rank", lora if rank else {model + "lora_rank": 0})
    template = {f"+data.apply_chat_template_kwargs.{name}": each for name, each in t["model.template_options"].items()}
    t.exact("model.template_options", template)
    t.left("model.device", "verl trains on CUDA devices")


def _sampling(t: Translation) -> None:
    t.exact("sampling.temperature", {ROLLOUT + "temperature": t["sampling.temperature"], ROLLOUT + "top_p": 1.0})
    common.classify_segment(t)
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
    refills = "selection.max_rounds" not in t.idle
    refill = {"algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "reward"}
    rounds = {"algorithm.filter_groups.max_num_gen_batches": 0, "data.gen_batch_size": 1}
    replaced = "groups of equal rewards are replaced without a limit of rounds"
    common.classify_filters(
        t,
        {
            "active_sampling": (refill | rounds, replaced),
            "dynamic_sampling": (refill | rounds, f"{replaced}, whether they count as successes or not"),
            **({"zero_gradient": (refill | rounds, "dropped groups are replaced")} if refills else {}),
        },
    )
    common.classify_refills(t, "verl refills until the batch is full", "verl asks for as many groups as are missing")
    if not refills:
        # other tasks for groups whose environment failed altogether
        t.options |= {"trainer.v1.sampler.sync_refill_failed_groups": True, "data.gen_batch_size": 1}


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
    t.exact("checkpoint_every", {"trainer.save_freq": t["checkpoint_every"]})
    every = t["evaluation.every"] or -1
    greedy = {ROLLOUT + "val_kwargs.temperature": 0, ROLLOUT + "val_kwargs.do_sample": False}
    t.approximate(
        "evaluation.every",
        {"trainer.test_freq": every, "trainer.val_before_train": True, **greedy},
        "greedy alone, before, between and after; ours are greedy and sampled",
    )
    t.exact("report_to", {"trainer.logger": ["console", *t["report_to"]]})
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
