"""prime-rl 0.8: a TOML of `rl`, whose tasks come from our plug-in for verifiers.

Fields were read from packages/prime-rl-configs, the loss from src/prime_rl/trainer/rl/loss.py. It has one policy loss:
DPPO with the square of the log-ratio to the behaviour policy, over all trained tokens of a step, one update a batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvr.adapters.launch import common
from rlvr.adapters.launch.common import Estimator
from rlvr.adapters.launch.task_mix import TaskMix, classify_tasks
from rlvr.adapters.launch.translation import LaunchRefused, Machines, Translation

TESTED = ("prime-rl", "0.8.1.dev9")
TOML_FILE = "rl.toml"
SUFFIX = ""
ORCHESTRATOR, TRAINER = "orchestrator.", "trainer."
LOSS, OPTIMISER = TRAINER + "loss.", TRAINER + "optim."
ESTIMATORS = {
    "group_mean": Estimator({ORCHESTRATOR + "algo.type": "grpo"}),
    "maxrl": Estimator({ORCHESTRATOR + "algo.type": "max_rl"}),
    "rae": Estimator({ORCHESTRATOR + "algo.type": "rae", ORCHESTRATOR + "algo.decay": 0.95}, groups=False),
}
NO_MASK = 1.0  # a probability moves by no more than that


def classify(t: Translation, mix: TaskMix, machines: Machines, prompt_tokens: int | None) -> None:
    """Every setting of a config, for prime-rl."""
    classify_tasks(t, mix)
    t.exact("env.system", "the task set")
    t.exact("sampling.max_length", {"seq_len": t["sampling.max_length"]})
    reply = {ORCHESTRATOR + "train.sampling.max_completion_tokens": t["sampling.max_new_tokens"]}
    t.exact("sampling.max_new_tokens", reply)
    _algorithm(t)
    _optimiser(t)
    _model(t)
    _sampling(t)
    _run(t, machines)
    common.classify_rest(t)


def _algorithm(t: Translation) -> None:
    t.exact("algorithm", "by its choices")
    common.classify_advantage(t, ESTIMATORS, 1, {}, ORCHESTRATOR + "group_size")
    common.refuse_credit(t)
    names = {"type": "default", "adv_tau": 1.0, "kl_tau": t["overrides.behaviour_penalty"]}
    masks = {"dppo": (t["overrides.clip_low"], t["overrides.clip_high"]), "none": (NO_MASK, NO_MASK)}
    table: dict[common.Ratio, tuple[dict[str, Any], str]] = {}
    for clip, (low, high) in masks.items():
        mask = {**names, "dppo_mask_low": low, "dppo_mask_high": high}
        table[clip, "token", True] = {LOSS + name: value for name, value in mask.items()}, ""
    common.classify_clip(t, table, "dppo and none on ratios of tokens to the behaviour policy")
    if "overrides.behaviour_penalty" not in t.idle:
        t.exact("overrides.behaviour_penalty", LOSS + "kl_tau")
    if t["overrides.aggregation"] == "token_mean":
        t.exact("overrides.aggregation", "the tokens of a step")
    else:
        note = f"prime-rl divides by the tokens of a step (token_mean), not by {t['overrides.aggregation']}"
        t.changes("overrides.aggregation", note, "token_mean")
    if "overrides.entropy_coef" not in t.idle:
        t.refuse("overrides.entropy_coef", "prime-rl has no entropy bonus")
    if "overrides.kl_coef" not in t.idle:
        t.refuse("overrides.kl_coef", "prime-rl has no KL term to a reference policy")
        t.left("overrides.kl", "see overrides.kl_coef")
        t.left("overrides.kl_in", "see overrides.kl_coef")
    t.exact("schedule.correction", "among overrides.corrections")
    if "overrides.corrections" not in t.idle:
        t.refuse("overrides.corrections", "prime-rl has no correction beside its ratio to the behaviour policy")


def _optimiser(t: Translation) -> None:
    t.exact("learner.lr", {OPTIMISER + "lr": t["learner.lr"]})
    first, second = t["learner.betas"]
    t.exact("learner.betas", {OPTIMISER + "type": "adamw", OPTIMISER + "betas1": first, OPTIMISER + "betas2": second})
    t.exact("learner.weight_decay", {OPTIMISER + "weight_decay": t["learner.weight_decay"]})
    t.exact("learner.max_grad_norm", {OPTIMISER + "max_norm": t["learner.max_grad_norm"]})
    scheduler = TRAINER + "scheduler."
    warm, steps = t["learner.warmup_steps"], t["steps"]
    linear = t["learner.schedule"] == "linear"
    names = {
        "type": "linear",
        "warmup_steps": warm,
        "decay_steps": max(0, steps - warm) if linear else 0,
        "min_lr": t["learner.lr"] / 10 if linear else 0.0,
    }
    options = {scheduler + name: value for name, value in names.items()}
    t.approximate("learner.warmup_steps", options, "prime-rl's first step begins at a rate of 0")
    t.exact("learner.schedule", "with learner.warmup_steps")
    for name in ("learner.epochs", "learner.minibatches"):
        if t[name] == 1:
            t.exact(name, "one update a batch")
        else:
            t.refuse(name, "prime-rl makes one update a batch")
    t.approximate(
        "learner.micro_batch_tokens", "seq_len", "micro-batches are packed to seq_len, which changes memory alone"
    )
    ac = {TRAINER + "model.ac.mode": "full", TRAINER + "model.ac.freq": 1} if t["learner.recompute_layers"] else {}
    if ac:
        t.exact("learner.recompute_layers", ac)
    else:
        t.left("learner.recompute_layers", "prime-rl computes layers again by default; memory, not the result")


def _model(t: Translation) -> None:
    common.classify_model_name(t, {"model.name": t["model.name"]})
    if t["model.dtype"] == "bfloat16":
        t.exact("model.dtype", {"inference.vllm.dtype": "bfloat16"}, "float32 masters under it")
    else:
        note = f"prime-rl computes in bfloat16 over float32 masters, not in {t['model.dtype']}"
        t.changes("model.dtype", note, {"inference.vllm.dtype": "bfloat16"})
    if t["model.float32_head"] and t["model.dtype"] == "float16":
        t.changes("model.float32_head", "prime-rl makes the logits as its fused layer does")
    elif t["model.float32_head"] and t["model.dtype"] == "bfloat16":
        t.changes("model.float32_head", "prime-rl has no switch for float32 logits in its sampler")
    else:
        t.unused("model.float32_head", "off, or the model is in float32")
    rank = t["model.lora_rank"]
    lora = {TRAINER + "model.lora.rank": rank, TRAINER + "model.lora.alpha": 2.0 * rank} if rank else {}
    t.exact("model.lora_rank", lora)
    renderer = ORCHESTRATOR + "renderer."
    t.exact(
        "model.template_options",
        {
            renderer + "name": "custom",
            renderer + "import_path": "rlvr.adapters.trainers.renderers.AppendingRenderer",
            **({renderer + "template_options": t["model.template_options"]} if t["model.template_options"] else {}),
        },
    )
    t.left("model.device", "prime-rl trains on CUDA devices")


def _sampling(t: Translation) -> None:
    t.exact("sampling.temperature", {ORCHESTRATOR + "train.sampling.temperature": t["sampling.temperature"]})
    common.classify_segment(t)
    t.approximate("sampler.kind", "vLLM", "prime-rl samples with vLLM servers of its own")
    vllm_options = {name: t["sampler.options"][name] for name in _VLLM if name in t["sampler.options"]}
    unknown = [name for name in t["sampler.options"] if name not in vllm_options]
    options = {f"inference.vllm.{name}": value for name, value in vllm_options.items()}
    if unknown:
        t.approximate("sampler.options", options, f"prime-rl takes no {', '.join(unknown)} for vLLM")
    else:
        t.exact("sampler.options", options)
    inflight = max(t["sampler.concurrency"], t["group_size"])
    t.approximate("sampler.concurrency", {ORCHESTRATOR + "concurrency.max_inflight": inflight}, "of all engines")
    gate = ORCHESTRATOR + "train.curriculum_gate"  # written for each source
    replaced = "groups whose advantages are all 0 do not train, and others are asked for in their place"
    common.classify_filters(
        t,
        {
            "active_sampling": ({gate: True}, replaced),
            "dynamic_sampling": ({gate: True}, f"{replaced}, whether they count as successes or not"),
            "zero_gradient": ({ORCHESTRATOR + "train.filter_zero_advantages": True}, ""),
        },
    )
    if "zero_gradient" not in t["selection.filters"]:
        t.options[ORCHESTRATOR + "train.filter_zero_advantages"] = False
    common.classify_refills(t, "prime-rl asks for groups until the batch is full", "it always has groups under way")


_VLLM = ("gpu_memory_utilization", "enforce_eager", "max_model_len", "enable_prefix_caching", "seed")


def _run(t: Translation, machines: Machines) -> None:
    t.exact("steps", {"max_steps": t["steps"]})
    t.exact("prompts", {ORCHESTRATOR + "batch_size": t["prompts"] * t["group_size"]}, "counted in episodes")
    ahead = t["schedule.kind"] == "async"
    note = "prime-rl always samples ahead, and drops episodes that are older"
    depth = t["schedule.depth"] if ahead else 0
    bound = {ORCHESTRATOR + "max_off_policy_steps": depth}
    if ahead:
        t.approximate("schedule.kind", "asynchronous", note)
        t.approximate("schedule.depth", bound, note)
    else:
        t.approximate("schedule.kind", bound, f"{note}: here any that is not of the newest weights")
        t.unused("schedule.depth", "of async alone")
    t.exact("checkpoint_every", {"ckpt.interval": t["checkpoint_every"]})
    every = t["evaluation.every"] or max(1, t["steps"])
    evaluation = {
        ORCHESTRATOR + "eval.interval": every,
        ORCHESTRATOR + "eval.num_examples": t["evaluation.episodes"],
        ORCHESTRATOR + "eval.sampling.temperature": 0.0,
        ORCHESTRATOR + "eval.sampling.max_completion_tokens": t["sampling.max_new_tokens"],
    }
    t.approximate("evaluation.every", evaluation, "greedy alone")
    wandb = {"monitors.wandb.project": "rlvr"} if "wandb" in t["report_to"] else {}
    if {*t["report_to"]} <= {"wandb"}:
        t.exact("report_to", wandb)
    else:
        t.left("report_to", "prime-rl reports to wandb")
        t.options |= wandb
    t.exact("out", {"output_dir": f"{t['out']}/outputs"})
    if machines.nodes > 1:
        raise LaunchRefused("--nodes: rlvr launch writes prime-rl's deployment on one node; change it in the TOML")
    if machines.gpus < 2:
        t.options |= {"deployment.num_train_gpus": 1, "deployment.num_infer_gpus": 1}
    else:
        half = machines.gpus // 2
        t.options |= {"deployment.num_train_gpus": machines.gpus - half, "deployment.num_infer_gpus": half}


def command(t: Translation, folder: Path, train: Path, test: Path) -> list[str]:
    """prime-rl's command, in its own checkout with rlvr beside it."""
    return ["uv", "run", "rl", "@", str(folder / TOML_FILE)]


def files(t: Translation) -> dict[str, str]:
    """The TOML."""
    return {TOML_FILE: "# written by `rlvr launch prime-rl`\n" + toml(document(t))}


def document(t: Translation) -> dict[str, Any]:
    """The config as nested tables."""
    nested: dict[str, Any] = {}
    gated = False
    for name, value in t.options.items():
        if name.endswith("curriculum_gate"):
            gated = True
            continue
        *tables, last = name.split(".")
        table = nested
        for part in tables:
            table = table.setdefault(part, {})
        table[last] = value
    train, test = _source(t, t["env.split"], t["seed"]), _source(t, t["evaluation.split"], t["seed"] + 1)
    if gated:
        train["curriculum"] = {"gates": {"spread": {"type": "advantage_range"}}}
    nested["orchestrator"].setdefault("train", {})["source"] = [{"name": "train", **train}]
    nested["orchestrator"].setdefault("eval", {})["source"] = [{"name": "test", **test}]
    nested.setdefault("inference", {})
    return nested


def _source(t: Translation, split: str, seed: int) -> dict[str, Any]:
    taskset = {
        "id": "rlvr-gym",
        "env": t["env.id"],
        "seed": seed,
        "use_system": t["env.system"],
        "kwargs": {"level": t["env.level"], "split": split, **t["env.settings"]},
    }
    agent = {"harness": {"id": "rlvr-gym"}, "runtime": {"type": "subprocess"}}
    return {"env": {"taskset": taskset, "agent": agent}}


def toml(table: Mapping[str, Any], prefix: str = "") -> str:
    """A mapping as TOML: values first, then tables, then arrays of tables."""
    values, tables, arrays = [], [], []
    for name, value in table.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and name not in ("kwargs", "template_options"):
            tables.append(f"\n[{path}]\n{toml(value, path + '.')}")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            arrays += [f"\n[[{path}]]\n{toml(each, path + '.')}" for each in value]
        else:
            values.append(f"{name} = {_value(value)}\n")
    return "".join([*values, *tables, *arrays])


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_value(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # strings, numbers, true and false are written alike
