"""OpenRLHF 0.11.2: `python -m openrlhf.cli.train_ppo_ray`, by the options of its parser.

Options were read from openrlhf/cli/train_ppo_ray.py, the losses from openrlhf/models/loss.py, the advantages from
openrlhf/trainer/ppo_utils/experience_maker.py.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rlvr.adapters.launch import common
from rlvr.adapters.launch.common import Estimator
from rlvr.adapters.launch.task_mix import TaskMix, classify_tasks
from rlvr.adapters.launch.translation import NO_BOUND, Machines, Translation

TESTED = ("openrlhf", "0.11.2")
MODULE = "openrlhf.cli.train_ppo_ray"
AGENT_FILE = "agent.py"
ROWS, SUFFIX = "openrlhf", ".jsonl"
ADVANTAGE = "algo.advantage."
WHITENED = "whitened by the variance without Bessel's correction"
ESTIMATORS = {
    "group_mean": Estimator({ADVANTAGE + "estimator": "dr_grpo"}),
    "group_z": Estimator({ADVANTAGE + "estimator": "group_norm"}, "1e-9 is added to the deviation, 1e-6 by ours"),
    "rloo": Estimator({ADVANTAGE + "estimator": "rloo"}),
    "reinforce_pp": Estimator({ADVANTAGE + "estimator": "reinforce"}, WHITENED, groups=False),
    "reinforce_pp_baseline": Estimator({ADVANTAGE + "estimator": "reinforce_baseline"}, WHITENED),
    "gae": Estimator(
        {ADVANTAGE + "estimator": "gae"},
        turns="decays by lam at every token of an observation, too",
        groups=False,
        whitened=True,
        plain={ADVANTAGE + "no_std_norm": True},
    ),
}
AGGREGATIONS = {
    "token_mean": {"actor.loss_agg_mode": "token-mean"},
    "seq_mean_token_mean": {"actor.loss_agg_mode": "seq-mean-token-mean"},
    "sequence_mean": {"actor.loss_agg_mode": "seq-mean-token-mean"},
}


def classify(t: Translation, mix: TaskMix, machines: Machines, prompt_tokens: int | None) -> None:
    """Every setting of a config, for OpenRLHF."""
    classify_tasks(t, mix)
    t.exact("env.system", AGENT_FILE)
    t.exact("sampling.max_length", {"data.max_len": t["sampling.max_length"]})
    t.exact("sampling.max_new_tokens", {"rollout.max_new_tokens": t["sampling.max_new_tokens"]})
    _advantage(t, mix)
    _loss(t)
    _kl(t)
    _corrections(t)
    _optimiser(t)
    _model(t)
    _sampling(t)
    _run(t, mix, machines)
    common.classify_rest(t)


def _advantage(t: Translation, mix: TaskMix) -> None:
    turns = mix.turns if t["overrides.lam"] < 1 else 1  # without a decay turns are one
    discounts = {"gamma": ADVANTAGE + "gamma", "lam": ADVANTAGE + "lambd"}
    common.classify_advantage(t, ESTIMATORS, turns, discounts, "rollout.n_samples_per_prompt")
    model = {"critic.model_name_or_path": t["model.name"]}
    common.classify_critic(t, "critic.value_clip", model, "critic.adam.lr")


def _loss(t: Translation) -> None:
    held = "log-ratios are held within 20 nats"
    bounds = [t["overrides.clip_low"], t["overrides.clip_high"]]
    unbounded = {"actor.policy_loss_type": "ppo", "actor.eps_clip_low_high": [NO_BOUND, NO_BOUND]}
    ppo = {"actor.policy_loss_type": "ppo", "actor.eps_clip_low_high": bounds}
    if t["overrides.dual_clip"] is not None:
        ppo["actor.dual_clip"] = t["overrides.dual_clip"]
    table: dict[common.Ratio, tuple[dict[str, Any], str]] = {
        ("none", "token", False): (unbounded, held),
        ("ppo", "token", False): (ppo, held),
        ("ppo", "sequence", False): ({"actor.policy_loss_type": "gspo", "actor.eps_clip_low_high": bounds}, ""),
    }
    if common.one_update(t):
        table["none", "none", False] = unbounded, common.ONE_UPDATE
    can = "ppo on ratios of tokens to the old policy (also without a bound), and gspo"
    common.classify_clip(t, table, can, "the policy that the batch was taken with")
    common.classify_aggregation(t, AGGREGATIONS)
    if "overrides.entropy_coef" not in t.idle:
        t.exact("overrides.entropy_coef", {"actor.entropy_coef": t["overrides.entropy_coef"]})


def _kl(t: Translation) -> None:
    if "overrides.kl_coef" in t.idle:
        t.options["algo.kl.init_coef"] = 0
        return
    kl, in_reward = t["overrides.kl"], t["overrides.kl_in"] == "reward"
    t.exact("overrides.kl_coef", {"algo.kl.init_coef": t["overrides.kl_coef"]})
    t.exact("overrides.kl_in", {} if in_reward else {"algo.kl.use_loss": True})
    if kl == "k3_unbiased":
        options = {"algo.kl.estimator": "k3", "algo.kl.unbiased_gradient": True}
        t.approximate("overrides.kl", options, "OpenRLHF's switch for an unbiased gradient; k3 is held within 10 nats")
    elif kl == "k1":
        t.exact("overrides.kl", {"algo.kl.estimator": kl})
    else:
        t.approximate("overrides.kl", {"algo.kl.estimator": kl}, "held within 10 nats a token")


def _corrections(t: Translation) -> None:
    t.exact("schedule.correction", "among overrides.corrections")
    if "overrides.corrections" in t.idle:
        return
    options: dict[str, Any] = {}
    lost = []
    for correction in t["overrides.corrections"]:
        modes = {
            "tis": ("clip", [0.0, correction["high"]]),
            "icepop": ("mask", [correction["low"], correction["high"]]),
        }
        if correction["kind"] in modes and not options:
            mode, bounds = modes[correction["kind"]]
            options = {
                ADVANTAGE + "is_correction_level": "token",
                ADVANTAGE + "is_correction_gating": "ratio",
                ADVANTAGE + "is_correction_mode": mode,
                ADVANTAGE + "is_correction_threshold": bounds,
            }
        else:
            lost.append(f"{correction['kind']} is left out; OpenRLHF has one of tis and icepop")
    if lost:
        t.changes("overrides.corrections", "; ".join(lost), options)
    else:
        t.exact("overrides.corrections", options)


def _optimiser(t: Translation) -> None:
    t.exact("learner.lr", {"actor.adam.lr": t["learner.lr"]})
    t.exact("learner.betas", {"actor.adam.betas": list(t["learner.betas"])})
    t.exact("learner.weight_decay", {"actor.adam.weight_decay": t["learner.weight_decay"]})
    t.exact("learner.max_grad_norm", {"actor.max_norm": t["learner.max_grad_norm"]})
    updates = max(1, t["steps"] * t["learner.epochs"] * t["learner.minibatches"])
    ratio = {"actor.lr_warmup_ratio": round(min(1.0, t["learner.warmup_steps"] / updates), 6)}
    t.approximate("learner.warmup_steps", ratio, "as a share of all steps, from a rate of 0")
    if t["learner.schedule"] == "constant":
        t.exact("learner.schedule", {"actor.lr_scheduler": "constant_with_warmup"})
    else:
        cosine = {"actor.lr_scheduler": "cosine_with_min_lr", "actor.min_lr_ratio": 0.1}
        t.approximate("learner.schedule", cosine, "OpenRLHF's own: a cosine to the same tenth")
    t.exact("learner.epochs", {"train.max_epochs": t["learner.epochs"]})
    part = t["prompts"] * t["group_size"] // t["learner.minibatches"]
    common.classify_minibatches(t, {"train.batch_size": part})
    budget = common.token_budget(t)
    t.approximate(
        "learner.micro_batch_tokens",
        {"train.dynamic_batch_enable": True, "train.max_tokens_per_gpu": budget, "ds.packing_samples": True},
        "of each GPU, packed. It changes memory, not the result",
    )
    recompute = {"actor.gradient_checkpointing_enable": True} if t["learner.recompute_layers"] else {}
    t.exact("learner.recompute_layers", recompute)


def _model(t: Translation) -> None:
    common.classify_model_name(t, {"actor.model_name_or_path": t["model.name"]})
    types = {"bfloat16": "bf16", "float16": "fp16"}
    if t["model.dtype"] in types:
        t.exact("model.dtype", {"ds.param_dtype": types[t["model.dtype"]]}, "float32 masters under it")
    else:
        note = "OpenRLHF computes in bfloat16 or float16; it would take bfloat16 over float32 masters"
        t.changes("model.dtype", note, {"ds.param_dtype": "bf16"})
    common.classify_head(t)
    rank = t["model.lora_rank"]
    t.exact("model.lora_rank", {"ds.lora.rank": rank, "ds.lora.alpha": 2 * rank} if rank else {"ds.lora.rank": 0})
    t.exact("model.template_options", AGENT_FILE)
    t.left("model.device", "OpenRLHF trains on CUDA devices")


def _sampling(t: Translation) -> None:
    t.exact("sampling.temperature", {"rollout.temperature": t["sampling.temperature"], "rollout.top_p": 1.0})
    common.classify_segment(t)
    t.approximate("sampler.kind", "vLLM", "OpenRLHF samples with a vLLM of its own")
    options = dict(t["sampler.options"])
    vllm_options: dict[str, Any] = {}
    for name in ("gpu_memory_utilization", "enforce_eager", "enable_prefix_caching"):
        if name in options and options[name] is not False:
            vllm_options[f"vllm.{name}"] = options[name]
        options.pop(name, None)
    if options:
        note = f"OpenRLHF takes no {', '.join(options)} for vLLM"
        t.approximate("sampler.options", vllm_options, note)
    else:
        t.exact("sampler.options", vllm_options)
    t.left("sampler.concurrency", "OpenRLHF's engines decide")
    keep = {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": [0.0, 1.0]}
    note = "groups whose mean reward is 0 or 1 are replaced without a limit of rounds"
    common.classify_filters(t, {"dynamic_sampling": (keep, note), "active_sampling": (keep, note)})
    common.classify_refills(t, "OpenRLHF refills until the batch is full", "it asks for as many groups as are missing")


def _run(t: Translation, mix: TaskMix, machines: Machines) -> None:
    t.exact("algorithm", "by its choices")
    rows = mix.train_rows or t["prompts"]
    rounds = math.ceil(t["prompts"] * max(1, t["steps"]) / rows)
    whole = rows % t["prompts"] == 0 and rounds * rows == t["prompts"] * t["steps"]
    if whole:
        t.exact("steps", {"train.num_episodes": rounds}, "passes over the rows")
    else:
        note = f"OpenRLHF counts passes over the {rows} rows: {rounds * rows // t['prompts']} steps"
        t.approximate("steps", {"train.num_episodes": rounds}, note)
    t.exact("prompts", {"rollout.batch_size": t["prompts"]})
    if t["schedule.kind"] == "sync":
        t.exact("schedule.kind", {"train.colocate_all": True, "vllm.enable_sleep": True, "ds.enable_sleep": True})
        t.unused("schedule.depth", "of async alone")
        engines, actors = machines.gpus * machines.nodes, machines.gpus
    else:
        if machines.gpus < 2:
            t.refuse("schedule.kind", "OpenRLHF's asynchronous trainer samples on GPUs of their own: give it two")
        else:
            t.exact("schedule.kind", {"train.async_enable": True}, "half of the GPUs sample")
        note = "a queue of so many batches between sampling and training"
        t.approximate("schedule.depth", {"train.async_queue_size": t["schedule.depth"]}, note)
        engines, actors = max(1, machines.gpus // 2) * machines.nodes, max(1, machines.gpus // 2)
    t.exact("checkpoint_every", {"ckpt.save_steps": t["checkpoint_every"]})
    every = {"eval.steps": t["evaluation.every"] or -1, "eval.temperature": 0.0, "eval.n_samples_per_prompt": 1}
    t.approximate("evaluation.every", every, "greedy alone, and not before training")
    events = {"logger.tensorboard_dir": f"{t['out']}/tensorboard"} if "tensorboard" in t["report_to"] else {}
    if {*t["report_to"]} <= {"tensorboard"}:
        t.exact("report_to", events)
    else:
        t.left("report_to", "give OpenRLHF --logger.wandb.key yourself; it has wandb and tensorboard")
        t.options |= events
    t.exact("out", {"ckpt.output_dir": f"{t['out']}/model", "ckpt.path": f"{t['out']}/checkpoints"})
    t.options |= {
        "actor.num_nodes": machines.nodes,
        "actor.num_gpus_per_node": actors,
        "ref.num_nodes": machines.nodes,
        "ref.num_gpus_per_node": actors,
        "vllm.num_engines": engines,
        "vllm.tensor_parallel_size": 1,
        "ds.zero_stage": 3,
        # rewards are the environment's, and no business of the trainer's bounds
        "reward.clip_range": [-1000000.0, 1000000.0],
    }


def command(t: Translation, folder: Path, train: Path, test: Path) -> list[str]:
    """OpenRLHF's command; switches stand alone, lists are several words."""
    files = {
        "train.agent_func_path": folder / AGENT_FILE,
        "data.prompt_dataset": train,
        "eval.dataset": test,
        "data.input_key": "input",
        "data.label_key": "label",
        "data.apply_chat_template": True,
    }
    words = ["python", "-m", MODULE]
    for name, value in {**files, **t.options}.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, list | tuple):
            words += [f"--{name}", *map(str, value)]
        elif value is not False:
            words += [f"--{name}", str(value)]
    return words


def files(t: Translation) -> dict[str, str]:
    """The agent's file."""
    return {
        AGENT_FILE: '"""The agent of OpenRLHF\'s rollout workers; written by `rlvr launch openrlhf`."""\n\n'
        "from rlvr.adapters.trainers.openrlhf import AgentExecutor as Base\n\n\n"
        "class AgentExecutor(Base):\n"
        f"    use_system = {t['env.system']!r}\n"
        f"    template_options = {t['model.template_options']!r}\n"
    }
