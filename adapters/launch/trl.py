"""TRL 1.16: `GRPOTrainer` over our rollout function, under `accelerate launch`, on GPUs of one node or on the CPU.

Options were read from trl/trainer/grpo_config.py, loss and advantages from grpo_trainer.py. They are kept by whom they
are given to: `GRPOConfig.beta`, `rollout_function.max_length`. The program that is written hands them over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rlvr.adapters.launch import common
from rlvr.adapters.launch.common import Estimator
from rlvr.adapters.launch.task_mix import TaskMix, classify_tasks
from rlvr.adapters.launch.translation import NO_BOUND, LaunchRefused, Machines, Translation

TESTED = ("trl", "1.16.0")
SCRIPT, SETTINGS = "trl_train.py", "trl.json"
ROWS, SUFFIX = "trl", ".jsonl"
GRPO, POLICY, ROLLOUT, LORA = "GRPOConfig.", "load_policy.", "rollout_function.", "LoraConfig."
SCALE = GRPO + "scale_rewards"
DEVIATION = "1e-4 is added to the deviation, 1e-6 by ours"
ESTIMATORS = {
    "group_mean": Estimator({SCALE: "none"}),
    "group_z": Estimator({SCALE: "group"}, DEVIATION),
    "batch_std": Estimator({SCALE: "batch"}, DEVIATION),
}
# The loss of TRL for a clip rule and level of the ratio, by our aggregation; luspo with ratios of tokens sums them.
TOKENS = {
    "token_mean": "dapo",
    "seq_mean_token_mean": "grpo",
    "seq_mean_token_sum_norm": "dr_grpo",
    "seq_mean_token_sum": "luspo",
}
SEQUENCES = {"sequence_mean": "grpo", "seq_mean_token_mean": "grpo"}
LOSSES = {("cispo", "token"): {"token_mean": "cispo"}, ("sapo", "token"): {"seq_mean_token_mean": "sapo"}}
OPTIMISERS = {"adamw": "adamw_torch", "adamw_8bit": "adamw_torch_8bit", "adamw_bnb_8bit": "adamw_bnb_8bit"}
WEIGHTS = {"tis": "token_truncate", "icepop": "token_mask", "seq_tis": "sequence_truncate", "seq_mis": "sequence_mask"}


def classify(t: Translation, mix: TaskMix, machines: Machines, prompt_tokens: int | None) -> None:
    """Every setting of a config, for TRL."""
    if machines.nodes > 1:
        raise LaunchRefused(
            "--nodes: rlvr launch writes TRL's command for one node; give accelerate the others yourself"
        )
    processes = 1 if t["model.device"] == "cpu" else machines.gpus
    classify_tasks(t, mix)
    t.exact("env.system", {ROLLOUT + "use_system": t["env.system"]})
    t.exact("sampling.max_new_tokens", {ROLLOUT + "max_turn_tokens": t["sampling.max_new_tokens"]})
    # the first bounds what follows a first prompt, and is the constant of dr_grpo; the second bounds both together
    longest = dict.fromkeys((GRPO + "max_completion_length", ROLLOUT + "max_length"), t["sampling.max_length"])
    t.exact("sampling.max_length", longest)
    common.classify_advantage(t, ESTIMATORS, 1, {}, GRPO + "num_generations")
    common.refuse_credit(t)
    _loss(t)
    _kl(t)
    _corrections(t)
    _optimiser(t)
    _batches(t, processes)
    _model(t)
    _sampling(t)
    _run(t)
    common.classify_rest(t)


def _loss(t: Translation) -> None:
    low, high, dual = t["overrides.clip_low"], t["overrides.clip_high"], t["overrides.dual_clip"]
    level = GRPO + "importance_sampling_level"
    unbounded = {level: "token", GRPO + "epsilon": NO_BOUND, GRPO + "epsilon_high": NO_BOUND}
    ppo = {level: "token", GRPO + "epsilon": low, GRPO + "epsilon_high": high}
    sequences = ppo | {level: "sequence"}
    if dual is not None:
        ppo[GRPO + "delta"] = dual
    table: dict[common.Ratio, tuple[dict[str, Any], str]] = {
        ("none", "token", False): (unbounded, ""),
        ("ppo", "token", False): (ppo, ""),
        ("ppo", "sequence", False): (sequences, ""),
        ("ppo", "sequence_token", False): (sequences, "the same gradient, since a sequence has one advantage"),
    }
    if common.one_update(t):
        table["none", "none", False] = unbounded, common.ONE_UPDATE
    if t["overrides.ratio_min"] == 0 and t["overrides.ratio_max"] < NO_BOUND:
        cispo = {level: "token", GRPO + "epsilon_high": t["overrides.ratio_max"]}
        table["cispo", "token", False] = cispo, "epsilon_high is TRL's absolute bound"
    positive, negative = t["overrides.gate"]
    gates = {GRPO + "sapo_temperature_pos": positive, GRPO + "sapo_temperature_neg": negative}
    table["sapo", "token", False] = {level: "token", **gates}, ""
    can = (
        "ppo on ratios of tokens to the old policy (also without a bound), gspo, cispo without a lower bound, and sapo"
    )
    common.classify_clip(t, table, can)
    rule = t["overrides.clip"], t["overrides.ratio_level"]
    kinds = SEQUENCES if rule[1].startswith("sequence") else LOSSES.get(rule, TOKENS)
    losses = {how: {GRPO + "loss_type": kind} for how, kind in kinds.items()}
    if kinds is TOKENS:
        common.classify_aggregation(t, losses)
    else:
        t.choose("overrides.aggregation", losses)
    if "overrides.entropy_coef" not in t.idle:
        entropy = {GRPO + "entropy_coef": t["overrides.entropy_coef"]}
        t.approximate("overrides.entropy_coef", entropy, "a mean over the tokens of each micro-batch")


def _kl(t: Translation) -> None:
    if "overrides.kl_coef" in t.idle:
        t.options[GRPO + "beta"] = 0.0
        return
    t.exact("overrides.kl_coef", {GRPO + "beta": t["overrides.kl_coef"]})
    if t["overrides.kl_in"] == "loss":
        t.exact("overrides.kl_in", "the loss")
    else:
        t.refuse("overrides.kl_in", "TRL's GRPOTrainer has a KL term in the loss alone")
    unbiased = GRPO + "use_bias_correction_kl"
    t.choose("overrides.kl", {"k3": {unbiased: False}, "k3_unbiased": {unbiased: True}})


def _corrections(t: Translation) -> None:
    t.exact("schedule.correction", "among overrides.corrections")
    vllm, correction = t["sampler.kind"] != "transformers", GRPO + "vllm_importance_sampling_"
    if "overrides.corrections" in t.idle:
        t.options |= {correction + "correction": False} if vllm else {}
        return
    options: dict[str, Any] = {}
    lost, notes = [], []
    for each in t["overrides.corrections"]:
        kind, low, high = each["kind"], each["low"], each["high"]
        if kind == "off_policy_mask":
            options[GRPO + "off_policy_mask_threshold"] = high
        elif kind not in WEIGHTS:
            lost.append(f"{kind} is left out; TRL has {', '.join(WEIGHTS)} and off_policy_mask")
        elif vllm:
            bounds = {"correction": True, "mode": WEIGHTS[kind], "clip_max": high, "clip_min": low or None}
            options |= {correction + name: value for name, value in bounds.items()}
        else:
            notes.append(f"{kind} is left out, since the trainer samples with its own weights, where the ratio is 1")
    if lost:
        t.changes("overrides.corrections", "; ".join(lost + notes), options)
    elif notes:
        t.approximate("overrides.corrections", options, "; ".join(notes))
    else:
        t.exact("overrides.corrections", options)


def _optimiser(t: Translation) -> None:
    t.exact("learner.lr", {GRPO + "learning_rate": t["learner.lr"]})
    first, second = t["learner.betas"]
    t.exact("learner.betas", {GRPO + "adam_beta1": first, GRPO + "adam_beta2": second})
    t.exact("learner.optimiser", {GRPO + "optim": OPTIMISERS[t["learner.optimiser"]]})
    decay = {GRPO + "weight_decay": t["learner.weight_decay"]}
    if t["learner.weight_decay"]:
        t.approximate("learner.weight_decay", decay, "not of norms and biases")
    else:
        t.exact("learner.weight_decay", decay)
    norm = t["learner.max_grad_norm"]
    t.exact("learner.max_grad_norm", {GRPO + "max_grad_norm": norm if norm < NO_BOUND else 0.0})  # 0 is TRL's no bound
    warm = {GRPO + "warmup_steps": t["learner.warmup_steps"]}
    note = "TRL's first step has a rate of 0, ours of lr / (steps + 1)"
    if t["learner.warmup_steps"]:
        t.approximate("learner.warmup_steps", warm, note)
    else:
        t.exact("learner.warmup_steps", warm)
    kind, lowest = GRPO + "lr_scheduler_type", GRPO + "lr_scheduler_kwargs"
    if t["learner.schedule"] == "constant":
        t.exact("learner.schedule", {kind: "constant_with_warmup"})
    else:
        line = {kind: "polynomial", lowest: {"lr_end": t["learner.lr"] / 10, "power": 1.0}}
        t.approximate("learner.schedule", line, "a line that reaches a tenth one update after the last")
    t.exact("learner.recompute_layers", {GRPO + "gradient_checkpointing": t["learner.recompute_layers"]})


def _batches(t: Translation, processes: int) -> None:
    """Sequences of a device and micro-batch, micro-batches of an update, and of what is sampled at once."""
    t.exact("prompts", "sequences of a batch: prompts times group_size")
    t.exact("learner.epochs", {GRPO + "num_iterations": t["learner.epochs"]})
    whole, parts = t["prompts"] * t["group_size"], t["learner.minibatches"]
    update, rest = divmod(whole, parts * processes)
    if rest:
        note = f"{whole} sequences are not {parts} updates of one size on {processes} processes"
        t.refuse("learner.minibatches", note)
        t.left("learner.micro_batch_tokens", "see learner.minibatches")
        return
    fit = max(1, common.token_budget(t) // t["sampling.max_length"])
    micro = max(size for size in range(1, update + 1) if update % size == 0 and size <= fit)
    options = {
        GRPO + "per_device_train_batch_size": micro,
        GRPO + "gradient_accumulation_steps": update // micro,
        GRPO + "steps_per_generation": update // micro * parts,
        GRPO + "per_device_eval_batch_size": micro,
        GRPO + "num_generations_eval": 1,
        "processes": processes,
    }
    if parts == 1:
        t.exact("learner.minibatches", "one update of all sequences")
    else:
        note = "TRL shuffles sequences into updates, groups are not kept together, and token means are of the batch"
        t.approximate("learner.minibatches", "steps_per_generation", note)
    note = "whole sequences of full length, padded. It changes memory, not the result"
    t.approximate("learner.micro_batch_tokens", options, note)


def _model(t: Translation) -> None:
    if t["model.name"] == "rlvr/tiny":
        t.refuse("model.name", "TRL saves and loads models of Hugging Face: name one by hub name or folder")
    else:
        t.exact("model.name", {POLICY + "name_or_path": t["model.name"]})
    t.exact("model.chat_template", {POLICY + "chat_template": t["model.chat_template"]})
    t.exact("model.template_options", {ROLLOUT + "template_options": t["model.template_options"]})
    half = {"bfloat16": "bf16", "float16": "fp16"}
    t.options |= {GRPO + name: t["model.dtype"] == kind for kind, name in half.items()}
    if t["model.dtype"] in half:
        t.approximate("model.dtype", half[t["model.dtype"]], "autocast over weights in float32")
    else:
        t.exact("model.dtype", "weights in float32")
    common.classify_head(t)
    rank = t["model.lora_rank"]
    lora = {LORA + "r": rank, LORA + "lora_alpha": 2 * rank, LORA + "target_modules": "all-linear"} if rank else {}
    t.exact("model.lora_rank", lora)
    if t["model.device"] in ("auto", "cuda", "cpu"):
        t.exact("model.device", {GRPO + "use_cpu": t["model.device"] == "cpu"})
    else:
        t.left("model.device", "accelerate gives each process its device: set CUDA_VISIBLE_DEVICES")


def _sampling(t: Translation) -> None:
    t.exact("sampling.temperature", {GRPO + "temperature": t["sampling.temperature"], GRPO + "top_p": 1.0})
    common.classify_segment(t)
    options = dict(t["sampler.options"])
    if t["sampler.kind"] == "transformers":
        t.exact("sampler.kind", {GRPO + "use_vllm": False}, "transformers' generate")
    elif t["sampler.url"]:
        server = {
            GRPO + "use_vllm": True,
            GRPO + "vllm_mode": "server",
            GRPO + "vllm_server_base_url": t["sampler.url"],
        }
        t.exact("sampler.kind", server)
    else:
        colocated = {GRPO + "use_vllm": True, GRPO + "vllm_mode": "colocate"}
        t.approximate("sampler.kind", colocated, "in the trainer's processes")
    memory = options.pop("gpu_memory_utilization", None)
    taken = {} if memory is None else {GRPO + "vllm_gpu_memory_utilization": memory}
    if options:
        t.approximate("sampler.options", taken, f"TRL takes no {', '.join(options)} for vLLM")
    else:
        t.exact("sampler.options", taken)
    t.left("sampler.concurrency", "TRL samples all episodes of a batch at once")
    equal = "groups of equal rewards have no gradient, and count as sequences still"
    overlong = {GRPO + "mask_truncated_completions": True}
    common.classify_filters(t, {"zero_gradient": ({}, equal), "overlong_filter": (overlong, "")})
    common.classify_refills(t, "TRL replaces no groups", "TRL replaces no groups")


def _run(t: Translation) -> None:
    t.exact("algorithm", "by its choices")
    updates = t["learner.epochs"] * t["learner.minibatches"]
    t.exact("steps", {GRPO + "max_steps": t["steps"] * updates}, "TRL counts updates")
    if t["schedule.kind"] == "sync":
        t.exact("schedule.kind", "GRPOTrainer")
    else:
        t.refuse("schedule.kind", "TRL's asynchronous trainer takes no rollout function: set schedule: sync")
    t.unused("schedule.depth", "of async alone")
    saving = {GRPO + "save_strategy": "steps", GRPO + "save_steps": t["checkpoint_every"] * updates}
    t.exact("checkpoint_every", saving if t["checkpoint_every"] else {GRPO + "save_strategy": "no"})
    every = t["evaluation.every"] * updates
    evaluation = {GRPO + "eval_strategy": "steps", GRPO + "eval_steps": every} if every else {}
    t.approximate("evaluation.every", evaluation, "sampled alone, before, between and after; ours are greedy, too")
    t.exact("report_to", {GRPO + "report_to": [*t["report_to"]]})
    t.exact("out", {GRPO + "output_dir": str(t["out"])}, "checkpoints, and the policy in policy/")
    t.options |= {
        GRPO + "seed": t["seed"],
        GRPO + "shuffle_dataset": False,
        GRPO + "logging_steps": 1,
        GRPO + "disable_dropout": True,
    }


def document(t: Translation) -> dict[str, Any]:
    """The settings by who is given them; ``processes`` stands alone."""
    nested: dict[str, Any] = {}
    for name, value in t.options.items():
        owner, _, inner = name.partition(".")
        if inner:
            nested.setdefault(owner, {})[inner] = value
        else:
            nested[owner] = value
    return nested


def command(t: Translation, folder: Path, train: Path, test: Path) -> list[str]:
    """accelerate's launcher and the program in the folder, which finds settings and rows beside it."""
    words = ["python", "-m", "accelerate.commands.launch", "--num_machines", "1"]
    words += ["--num_processes", str(t.options["processes"]), "--mixed_precision", "no", "--dynamo_backend", "no"]
    return [*words, *(["--cpu"] if t["model.device"] == "cpu" else []), str(folder / SCRIPT)]


def files(t: Translation) -> dict[str, str]:
    """The program and its settings."""
    return {
        SCRIPT: Path(__file__).with_name(f"{SCRIPT}.txt").read_text(encoding="utf-8"),
        SETTINGS: json.dumps(document(t), indent=1) + "\n",
    }
