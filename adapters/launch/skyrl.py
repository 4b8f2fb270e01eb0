"""SkyRL 0.3.0: its synchronous trainer over our generator and environment, by the options of `SkyRLTrainConfig`.

Options were read from skyrl/train/config/config.py, losses and advantages from ppo_utils.py of its backend skyrl_train.
SkyRL scales advantages by the counts of the mini-batch and adds up, so its reductions are exact over micro-batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlvr.adapters.launch import common
from rlvr.adapters.launch.common import Estimator
from rlvr.adapters.launch.task_mix import TaskMix, classify_tasks
from rlvr.adapters.launch.translation import NO_BOUND, Machines, Translation, shown

TESTED = ("skyrl", "0.3.0")
SCRIPT = "skyrl_train.py"
ROWS, SUFFIX = "skyrl", ".parquet"
ALGORITHM, GENERATOR = "trainer.algorithm.", "generator."
ENGINE, SAMPLING = GENERATOR + "inference_engine.", GENERATOR + "sampling_params."
OFF_POLICY = ALGORITHM + "off_policy_correction."
MANY_TURNS = 64  # where an environment does not say how many turns it may have
ESTIMATORS = {
    "group_mean": Estimator({ALGORITHM + "advantage_estimator": "grpo", ALGORITHM + "grpo_norm_by_std": False}),
    "group_z": Estimator({ALGORITHM + "advantage_estimator": "grpo", ALGORITHM + "grpo_norm_by_std": True}),
    "rloo": Estimator({ALGORITHM + "advantage_estimator": "rloo"}, groups=False),
    "maxrl": Estimator({ALGORITHM + "advantage_estimator": "maxrl"}, "SkyRL adds 1e-6 to the mean"),
    "reinforce_pp": Estimator(
        {ALGORITHM + "advantage_estimator": "reinforce++"},
        turns="ends a return at each observation between the turns",
        groups=False,
    ),
    "gae": Estimator(
        {ALGORITHM + "advantage_estimator": "gae"},
        turns="counts observations as steps between the turns",
        groups=False,
        whitened=True,
    ),
}
REDUCTIONS = {
    "token_mean": "token_mean",
    "seq_mean_token_mean": "sequence_mean",
    "sequence_mean": "sequence_mean",
    "prompt_mean": "prompt_mean",
    "seq_mean_token_sum_norm": "seq_mean_token_sum_norm",
    "seq_mean_token_sum": "seq_mean_token_sum_norm",
}
NAMED_ENGINE_OPTIONS = ("gpu_memory_utilization", "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill")


def classify(t: Translation, mix: TaskMix, machines: Machines, prompt_tokens: int | None) -> None:
    """Every setting of a config, for SkyRL."""
    classify_tasks(t, mix)
    t.exact("env.system", "the rows")
    _lengths(t, mix)
    _advantage(t, mix)
    _loss(t)
    _kl(t)
    _corrections(t)
    _optimiser(t)
    _model(t)
    _sampling(t)
    _run(t, machines)
    common.classify_rest(t)


def _lengths(t: Translation, mix: TaskMix) -> None:
    longest, reply = t["sampling.max_length"], t["sampling.max_new_tokens"]
    t.exact("sampling.max_new_tokens", {SAMPLING + "max_generate_length": reply})
    options = {
        "trainer.max_prompt_length": longest - reply,
        GENERATOR + "max_input_length": longest - reply,
        GENERATOR + "max_turns": mix.turns or MANY_TURNS,
        GENERATOR + "batched": False,
    }
    note = "a turn begins where a whole reply still fits; ours gives the last one what is left"
    t.approximate("sampling.max_length", options, note)


def _advantage(t: Translation, mix: TaskMix) -> None:
    discounts = {"gamma": ALGORITHM + "gamma", "lam": ALGORITHM + "lambd"}
    common.classify_advantage(t, ESTIMATORS, mix.turns, discounts, GENERATOR + "n_samples_per_prompt")
    model = {"trainer.critic.model.path": t["model.name"]}
    common.classify_critic(t, ALGORITHM + "value_clip", model, "trainer.critic.optimizer_config.lr")


def _loss(t: Translation) -> None:
    low, high, dual = t["overrides.clip_low"], t["overrides.clip_high"], t["overrides.dual_clip"]
    below, above = 1 - t["overrides.ratio_min"], min(t["overrides.ratio_max"], NO_BOUND) - 1  # distances from 1
    positive, negative = t["overrides.gate"]
    kind, held = ALGORITHM + "policy_loss_type", "log-ratios are held within 20 nats"
    unbounded = _clip("regular", NO_BOUND, NO_BOUND)
    ppo = (
        _clip("regular", low, high)
        if dual is None
        else _clip("dual_clip", low, high) | {ALGORITHM + "clip_ratio_c": dual}
    )
    cispo = {
        kind: "cispo",
        ALGORITHM + "cispo.cispo_eps_clip_low": below,
        ALGORITHM + "cispo.cispo_eps_clip_high": above,
    }
    dppo = {kind: "dppo", ALGORITHM + "dppo.delta_low": low, ALGORITHM + "dppo.delta_high": high}
    sapo = {kind: "sapo", ALGORITHM + "sapo.tau_pos": positive, ALGORITHM + "sapo.tau_neg": negative}
    gspo = _clip("gspo", low, high), "log-ratios are held below 10 nats"
    table: dict[common.Ratio, tuple[dict[str, Any], str]] = {
        ("none", "token", False): (unbounded, held),
        ("ppo", "token", False): (ppo, held),
        ("ppo", "sequence", False): gspo,
        ("ppo", "sequence_token", False): gspo,
        ("cispo", "token", False): (cispo, "SkyRL writes the bounds as distances from 1"),
        ("dppo", "token", True): (dppo, held),
        ("sapo", "token", False): (sapo, held),
    }
    if common.one_update(t):
        table["none", "none", False] = unbounded, common.ONE_UPDATE
    if not t["overrides.tau"]:
        mask = _clip("rollout_is", below, above)
        table["prime", "token", True] = mask, "rollout_is drops tokens out of bounds, as prime does"
    can = "ppo, gspo, cispo, sapo and no clip to the old policy, prime and dppo to the behaviour policy"
    common.classify_clip(t, table, can)
    t.choose("overrides.aggregation", _reductions(t))
    if "overrides.entropy_coef" not in t.idle:
        entropy = {ALGORITHM + "use_entropy_loss": True, ALGORITHM + "entropy_loss_coef": t["overrides.entropy_coef"]}
        t.approximate("overrides.entropy_coef", entropy, "averaged over micro-batches, not over the whole batch")


def _clip(kind: str, low: float, high: float) -> dict[str, Any]:
    names = {"policy_loss_type": kind, "eps_clip_low": low, "eps_clip_high": high}
    return {ALGORITHM + name: value for name, value in names.items()}


def _reductions(t: Translation) -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]]
    options = {how: {ALGORITHM + "loss_reduction": theirs} for how, theirs in REDUCTIONS.items()}
    options["seq_mean_token_sum_norm"][ALGORITHM + "max_seq_len"] = t["sampling.max_length"]
    options["seq_mean_token_sum"][ALGORITHM + "max_seq_len"] = 1  # a constant of 1 leaves the sum
    return options


def _kl(t: Translation) -> None:
    if "overrides.kl_coef" in t.idle:
        t.options |= {ALGORITHM + "use_kl_loss": False, ALGORITHM + "use_kl_in_reward": False}
        return
    in_reward, kl = t["overrides.kl_in"] == "reward", t["overrides.kl"]
    t.exact("overrides.kl_in", {ALGORITHM + "use_kl_loss": not in_reward, ALGORITHM + "use_kl_in_reward": in_reward})
    if in_reward:
        t.exact("overrides.kl_coef", {ALGORITHM + "kl_loss_coef": t["overrides.kl_coef"]})
    else:
        note = "a mean over sequences of their token means, micro-batch by micro-batch"
        t.approximate("overrides.kl_coef", {ALGORITHM + "kl_loss_coef": t["overrides.kl_coef"]}, note)
    if kl == "k3_unbiased":
        note = "SkyRL has no ratio before k3, whose gradient is then that of the other direction"
        t.changes("overrides.kl", note, {ALGORITHM + "kl_estimator_type": "k3"})
    else:
        t.exact("overrides.kl", {ALGORITHM + "kl_estimator_type": kl})


def _corrections(t: Translation) -> None:
    t.exact("schedule.correction", "among overrides.corrections")
    if "overrides.corrections" in t.idle:
        return
    options: dict[str, Any] = {}
    lost = []
    for correction in t["overrides.corrections"]:
        low, high = correction["low"], correction["high"]
        named: dict[str, dict[str, Any]] = {
            "tis": {"tis_ratio_type": "token", "token_tis_ratio_clip_high": high},
            "seq_tis": {"tis_ratio_type": "sequence", "sequence_tis_ratio_clip_high": high},
            "icepop": {
                "tis_ratio_type": "token",
                "token_tis_ratio_clip_high": high,
                "token_mask_is_threshold_low": low,
                "token_mask_is_threshold_high": high,
            },
            "seq_mis": {
                "tis_ratio_type": "sequence",
                "sequence_tis_ratio_clip_high": high,
                "sequence_mask_metric": "product",
                "product_mask_low": low,
                "product_mask_high": high,
            },
            "geo_mask": {"sequence_mask_metric": "geometric", "geo_mask_low": low, "geo_mask_high": high},
        }
        if correction["kind"] in named:
            options |= {OFF_POLICY + name: value for name, value in named[correction["kind"]].items()}
        else:
            lost.append(f"{correction['kind']} is left out; SkyRL has {', '.join(named)}")
    if lost:
        t.changes("overrides.corrections", "; ".join(lost), options)
    else:
        t.exact("overrides.corrections", options)


def _optimiser(t: Translation) -> None:
    optim = "trainer.policy.optimizer_config."
    t.exact("learner.lr", {optim + "lr": t["learner.lr"]})
    t.exact("learner.betas", {optim + "adam_betas": list(t["learner.betas"])})
    t.exact("learner.weight_decay", {optim + "weight_decay": t["learner.weight_decay"]})
    t.exact("learner.max_grad_norm", {optim + "max_grad_norm": t["learner.max_grad_norm"]})
    note = "SkyRL's first step has a rate of 0, ours of lr / (steps + 1)"
    t.approximate("learner.warmup_steps", {optim + "num_warmup_steps": t["learner.warmup_steps"]}, note)
    if t["learner.schedule"] == "constant":
        t.exact("learner.schedule", {optim + "scheduler": "constant_with_warmup"})
    else:
        t.approximate("learner.schedule", {optim + "scheduler": "linear"}, "it falls to 0, ours to a tenth")
    t.exact("learner.epochs", {"trainer.update_epochs_per_batch": t["learner.epochs"]})
    part = t["prompts"] // t["learner.minibatches"]
    common.classify_minibatches(t, {"trainer.policy_mini_batch_size": part, "trainer.critic_mini_batch_size": part})
    t.approximate(
        "learner.micro_batch_tokens",
        {"trainer.max_tokens_per_microbatch": common.token_budget(t)},
        "of each GPU, without padding. It changes memory, not the result",
    )
    t.exact("learner.recompute_layers", {"trainer.gradient_checkpointing": t["learner.recompute_layers"]})


def _model(t: Translation) -> None:
    common.classify_model_name(t, {"trainer.policy.model.path": t["model.name"]})
    if t["model.dtype"] == "float16":
        t.refuse("model.dtype", "SkyRL trains in bfloat16 or float32")
    else:
        half = t["model.dtype"] == "bfloat16"
        dtype = {"trainer.bf16": half, ENGINE + "model_dtype": t["model.dtype"]}
        whole = {} if half else {"trainer.policy.fsdp_config.mixed_precision.param_dtype": "fp32"}
        t.exact("model.dtype", dtype | whole, "float32 masters under it")
    common.classify_head(t)
    rank = t["model.lora_rank"]
    lora = {"trainer.policy.model.lora.rank": rank, "trainer.policy.model.lora.alpha": 2 * rank}
    t.exact("model.lora_rank", lora if rank else {"trainer.policy.model.lora.rank": 0})
    template = {f"{GENERATOR}chat_template_kwargs.{name}": each for name, each in t["model.template_options"].items()}
    t.exact("model.template_options", template)
    t.left("model.device", "SkyRL trains on CUDA devices")


def _sampling(t: Translation) -> None:
    t.exact("sampling.temperature", {SAMPLING + "temperature": t["sampling.temperature"], SAMPLING + "logprobs": 1})
    common.classify_segment(t)
    t.approximate("sampler.kind", {ENGINE + "backend": "vllm"}, "SkyRL samples with a vLLM of its own")
    options = {
        (ENGINE + name if name in NAMED_ENGINE_OPTIONS else f"{ENGINE}engine_init_kwargs.{name}"): value
        for name, value in t["sampler.options"].items()
        if name != "max_num_seqs"
    }
    t.exact("sampler.options", options)
    max_sequences = t["sampler.options"].get("max_num_seqs", t["sampler.concurrency"])
    t.approximate("sampler.concurrency", {ENGINE + "max_num_seqs": max_sequences}, "of each engine")
    refill = {
        ALGORITHM + "dynamic_sampling.type": "filter",
        ALGORITHM + "dynamic_sampling.max_sample_batches": t["selection.max_rounds"],
    }
    common.classify_filters(
        t,
        {
            "active_sampling": (refill, "batches are asked for whole until enough groups differ"),
            "dynamic_sampling": (refill, "groups of equal rewards go, whether they count as successes or not"),
            "zero_gradient": (
                {ALGORITHM + "zero_variance_filter": True},
                "such groups lose their tokens, and count as sequences and prompts still",
            ),
            "overlong_filter": ({GENERATOR + "apply_overlong_filtering": True}, ""),
        },
    )
    if "selection.max_rounds" not in t.idle:
        t.exact("selection.max_rounds", "with selection.filters")
        t.left("selection.over_sampling", "SkyRL asks for whole batches")


def _run(t: Translation, machines: Machines) -> None:
    t.exact("algorithm", "by its choices")
    t.exact("steps", {"trainer.max_training_steps": t["steps"], "trainer.epochs": 1_000_000})
    t.exact("prompts", {"trainer.train_batch_size": t["prompts"]})
    if t["schedule.kind"] == "sync":
        t.exact("schedule.kind", "SkyRL's synchronous trainer")
        t.unused("schedule.depth", "of async alone")
    else:
        t.refuse("schedule.kind", "rlvr launch writes SkyRL's synchronous trainer: set schedule: sync")
        t.unused("schedule.depth", "see schedule.kind")
    t.exact("checkpoint_every", {"trainer.ckpt_interval": t["checkpoint_every"]})
    t.approximate(
        "evaluation.every",
        {"trainer.eval_interval": t["evaluation.every"] or -1, "trainer.eval_before_train": True},
        "greedy alone; without an interval before training only, where ours evaluates after it, too",
    )
    reported = [name for name in t["report_to"] if name in ("wandb", "tensorboard", "mlflow")][:1]
    logger = {"trainer.logger": reported[0] if reported else "console"}
    if len(reported) == len(t["report_to"]):
        t.exact("report_to", logger)
    else:
        t.left("report_to", "SkyRL reports to one of wandb, tensorboard, mlflow and swanlab")
        t.options |= logger
    out = t["out"].resolve() if isinstance(t["out"], Path) else t["out"]
    t.exact("out", {"trainer.ckpt_path": f"{out}/checkpoints", "trainer.export_path": f"{out}/exports"})
    placement = "trainer.placement."
    t.options |= {
        "environment.env_class": "rlvr",
        "trainer.strategy": "fsdp",
        placement + "colocate_all": True,
        **{f"{placement}{role}_num_gpus_per_node": machines.gpus for role in ("policy", "critic", "ref")},
        **{f"{placement}{role}_num_nodes": machines.nodes for role in ("policy", "critic", "ref")},
        ENGINE + "num_engines": machines.gpus * machines.nodes,
        ENGINE + "tensor_parallel_size": 1,
    }


def command(t: Translation, folder: Path, train: Path, test: Path) -> list[str]:
    """SkyRL's trainer, by the program in the folder."""
    files = {"data.train_data": [f"'{train}'"], "data.val_data": [f"'{test}'"]}
    settings = [f"{name}={shown(value)}" for name, value in {**files, **t.options}.items()]
    return ["python", str(folder / SCRIPT), *settings]


def files(t: Translation) -> dict[str, str]:
    """The program: SkyRL's own entry point with our environment and generator."""
    return {SCRIPT: Path(__file__).with_name(f"{SCRIPT}.txt").read_text(encoding="utf-8")}
