"""What a run on a Tinker service cannot do: said before it begins, by the field of the config."""

from __future__ import annotations

from typing import Any

# Fields that decide how a model of this process is laid out, and what they must be.
PLAIN = {
    "model.dtype": "float32",
    "model.float32_head": False,
    "model.attention": "auto",
    "model.tf32": False,
    "model.adapter": "",
    "learner.optimiser": "adamw",
    "learner.compile": False,
    "learner.offload": "none",
    "learner.share_prompts": False,
    "learner.recompute_layers": False,
    "learner.grad_accum_dtype": "auto",
}


def why_not(config: Any, preset: Any) -> str:
    """What is in the way of ``engine: tinker``, one sentence; "" where nothing is.

    Args:
        config: a `TrainConfig`, which imports this module.
        preset: its `Preset`.
    """
    engine, model = config.engine, config.model
    if not engine.base_model:
        return "engine.base_model: name the model as the service does, such as Qwen/Qwen3-8B"
    # The service has weights; prompts and replies are encoded here.
    if model.name == "rlvr/tiny":
        return "model.name: engine: tinker needs a tokenizer by folder or hub name; rlvr/tiny is made in this process"
    # The API has no other kind of training.
    if not model.lora_rank:
        return "model.lora_rank: a Tinker service trains LoRA adapters: set their rank, such as 32"
    # Silently without effect otherwise.
    for name, plain in PLAIN.items():
        section, _, field = name.partition(".")
        if getattr(getattr(config, section), field) != plain:
            return f"{name} is about a model of this process: leave it out with engine: tinker"
    if (config.sampler.kind, config.schedule.kind) != ("transformers", "sync"):
        return "engine: tinker samples on the service, in step with the updates: leave out sampler and schedule"
    # `forward` knows no temperature, and the ratio pi / mu needs one and the same on both sides.
    if config.sampling.temperature != 1.0:
        return f"sampling.temperature {config.sampling.temperature:g}: a Tinker service scores at temperature 1: set it"
    # An average, or a reference that moves, is made of tensors.
    if config.learner.ema or config.learner.reference_every:
        name = "ema" if config.learner.ema else "reference_every"
        return f"learner.{name} needs the weights here: leave it out with engine: tinker"
    # It asks for the probability of every move in every information state.
    if config.evaluation.exploitability:
        return "evaluation.exploitability needs the policy here: leave it out with engine: tinker"
    # Frozen copies of the policy are played by copies of its weights.
    if {"self", "pool"} & {*map(str, config.env.settings.get("opponents") or ())}:
        return "env.settings.opponents: the opponents self and pool need the weights here: name bots or an endpoint"
    if config.learner.entropy_target is not None:
        return "learner.entropy_target: a Tinker service gives no entropies: leave it out"
    return _why_not_preset(config.algorithm, preset)


def _why_not_preset(name: str, preset: Any) -> str:
    # V(s) reads the hidden state of s.
    if preset.critic:
        return (
            f"{name} has a critic on the policy's hidden states, which a Tinker service does not give: choose another"
        )
    # The teacher is loaded beside the policy, or is the policy with other weights.
    if "teacher_logprobs" in preset.estimator.needs:
        return f"{name} asks a teacher that is a model of this process: choose another with engine: tinker"
    # H(pi) is a sum over the vocabulary.
    if preset.entropy_coef:
        return "overrides.entropy_coef: a Tinker service gives no entropies: set it to 0"
    if preset.entropy_share < 1:
        return "overrides.entropy_share: a Tinker service gives no entropies: set it to 1"
    # Its losses are sums over the sampled tokens.
    if preset.observation_coef:
        return "overrides.observation_coef: a Tinker service trains sampled tokens alone: set it to 0"
    return ""
