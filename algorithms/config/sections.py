"""The sections of a config: each field with its default, its bounds and its help."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationInfo, field_validator, model_validator

from rlvr.agents.models.attention import Attention
from rlvr.algorithms.recipe.presets import name_objects


class Section(BaseModel):
    """Closed and frozen; the text under a field is its help."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, field: ValidationInfo) -> Any:
        return require_no_switch(value, cls.model_fields[field.field_name or ""].annotation)


def require_no_switch(value: Any, annotation: Any) -> Any:
    """The value. YAML reads ``yes`` and ``on`` as true, which Python takes for the number 1.

    Raises:
        ValueError: it is a switch, and a field of this type takes none.
    """
    if isinstance(value, bool) and not _takes_switch(annotation):
        raise ValueError("Input should not be yes or no")
    return value


def _takes_switch(annotation: Any) -> bool:
    # Literal lists its values as arguments, True among them where it is allowed.
    parts = get_args(annotation)
    return annotation in (bool, Any) or isinstance(annotation, bool) or any(map(_takes_switch, parts))


POLICY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


class EngineSection(Section):
    """Where the policy is trained. `engine: tinker` is short for its kind."""

    kind: Literal["torch", "tinker"] = "torch"
    """torch trains in this process, or under torchrun; tinker on a service with the Tinker API, as LoRA adapters."""
    url: str = ""
    """tinker: address of a server such as SkyRL's; without it, the hosted service."""
    base_model: str = ""
    """tinker: the base model's name there; model.name says where its tokenizer is."""
    api_key_env: str = ""
    """tinker: environment variable that holds the key; by default TINKER_API_KEY."""
    deadline: float = Field(default=1800.0, gt=0)
    """tinker: seconds that one request may take, waiting its turn included."""

    @model_validator(mode="after")
    def _check(self) -> EngineSection:
        changed = [name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default]
        if changed and self.kind != "tinker":
            raise ValueError(f"engine.{changed[0]} is for engine.kind tinker, not {self.kind}")
        return self


SERVER_FIELDS = ("url", "served_model", "api_key_env")  # of SamplerSection, for a server that runs already


class SamplerSection(Section):
    """Where the tokens are sampled. `sampler: vllm` is short for its kind."""

    kind: Literal["transformers", "vllm", "vllm-server"] = "transformers"
    """transformers samples with the learner's own weights; vllm in this process; vllm-server in one of its own."""
    url: str = ""
    """vllm-server: address of a server that runs already; without it one is started, and ended with the run."""
    served_model: str = ""
    """vllm-server: the model's name there; by default the only one that it serves."""
    api_key_env: str = ""
    """vllm-server: environment variable that holds the server's key."""
    deadline: float = Field(default=600.0, gt=0)
    """vllm-server: seconds that one reply may take, retries included."""
    concurrency: int = Field(default=256, ge=1)
    """Replies that are sampled at once; the next begins as soon as one has ended."""
    options: dict[str, int | float | bool | str] = Field(default_factory=dict)
    """vllm, and a server that is started: options of vllm.LLM, such as gpu_memory_utilization or enforce_eager."""
    sleep: bool = False
    """vllm on a GPU: give its memory back while the policy is updated."""
    tolerance: float = Field(default=0.0, ge=0)
    """vllm: nats by which a log-probability may differ from the learner's; 0 takes 1e-3, in half precision 0.1."""

    @model_validator(mode="after")
    def _check(self) -> SamplerSection:
        named = [name for name in SERVER_FIELDS if getattr(self, name)]
        if named and self.kind != "vllm-server":
            raise ValueError(f"sampler.{named[0]} is for sampler.kind vllm-server, not {self.kind}")
        if self.options and self.url:
            raise ValueError("sampler.options are for a vLLM that is started; the one at sampler.url has its own")
        if self.options and self.kind == "transformers":
            raise ValueError("sampler.options are vLLM's: set sampler.kind to vllm or vllm-server")
        return self


class SelfPlaySection(Section):
    """Opponents of a game of several seats that are language models: the names are in env.settings.opponents."""

    every: int = Field(default=10, ge=1)
    """Steps after which the policy joins the pool; before the first, `pool` is the policy itself."""
    keep: int = Field(default=8, ge=1)
    """Policies in the pool; the oldest leaves. Each checkpoint holds the trained weights of all of them."""
    # p(i) ~ (1 - x_i)^2, x_i the points won against i: doi 10.1038/s41586-019-1724-z, PFSP
    rule: Literal["latest", "uniform", "pfsp", "pfsp_variance"] = "pfsp"
    """How a match draws from the pool: pfsp prefers what beats the policy, pfsp_variance what is as strong."""
    api_key_env: str = ""
    """Environment variable that holds the key of opponents behind an endpoint."""
    policies: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Several learned policies by name, each with its seats, such as {first: [0], second: [1]}; {} learns one."""
    policy: str = ""
    """Set by a run with `policies` in the folder of each: which of them it holds."""

    @field_validator("policies")
    @classmethod
    def _apart(cls, policies: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        if len(policies) == 1:
            raise ValueError("self_play.policies: name two policies or more, or leave it out to learn one")
        taken: set[int] = set()
        for name, players in policies.items():
            if not POLICY_NAME.fullmatch(name):
                raise ValueError(f"self_play.policies: {name!r} names a folder: use letters, digits, - and _")
            if not players or len({*players}) < len(players) or taken & {*players}:
                raise ValueError(f"self_play.policies.{name}: every seat has one policy, and every policy a seat")
            taken |= {*players}
        return policies


class ScheduleSection(Section):
    """When a run samples. `schedule: async` is short for its kind."""

    kind: Literal["sync", "async"] = "sync"
    """sync samples, then updates; async samples the next steps while it updates."""
    depth: int = Field(default=1, ge=1)
    """async: steps that are sampled ahead, and so the most updates that a token may be older than the policy."""
    correction: Literal["none", "tis", "seq_tis", "icepop", "seq_mis"] = "none"
    """How an algorithm that ignores the policy that sampled is corrected; async refuses it with none."""


class EnvSection(Section):
    id: str = "rlvr/Calculator-v0"
    """Id of the environment."""
    level: int = Field(default=1, ge=1)
    """Difficulty, from 1."""
    split: str = "train"
    """Split whose tasks are trained on."""
    system: bool = True
    """Whether the environment's system prompt is said."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What else gym.make is given, such as few_shot, data_files or prompt_style."""
    native_tools: bool = False
    """Leave the environment's tools to the model's chat template, and read calls as that template writes them."""
    batch_size: int = Field(default=256, ge=1)
    """Episodes under way at once."""
    workers: int = Field(default=0, ge=0)
    """Threads that step environments; 0 for environments that only compute. With backend ray, as many actors."""
    backend: Literal["local", "ray"] = "local"
    """Where environments live: in this process, or in actors of Ray: of RAY_ADDRESS, else on this machine."""
    timeout: float | None = Field(default=120.0, gt=0)
    """Seconds that a reset or a step may take; then its episode is invalid, and the run goes on. null sets no limit."""
    servers: tuple[str, ...] = ()
    """Addresses of `rlvr serve`: one episode after another is played at the next; without them, in this process."""
    token_env: str = ""
    """Environment variable that holds the servers' token."""

    @field_validator("settings")
    @classmethod
    def _not_twice(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for name in ("split", "level"):
            if name in settings:
                raise ValueError(f"env.settings.{name}: give it as env.{name}")
        return settings

    @field_validator("servers")
    @classmethod
    def _without_tokens(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        if any("token=" in server for server in servers):
            raise ValueError("an address has a token, which the run would keep: name its variable in env.token_env")
        return servers

    @model_validator(mode="after")
    def _served(self) -> EnvSection:
        if self.servers and self.settings:
            raise ValueError("env.settings: those of a served environment are given to `rlvr serve`, by --set")
        if self.servers and self.native_tools:
            raise ValueError("env.native_tools: tools of a served environment are given to `rlvr serve`, by --set")
        if self.token_env and not self.servers:
            raise ValueError("env.token_env is for env.servers, of which there are none")
        if self.backend == "ray" and self.servers:
            raise ValueError("env.servers and env.backend: ray are two places for the same environments: leave one out")
        return self


class ModelSection(Section):
    name: str = "rlvr/tiny"
    """rlvr/tiny, or a Hugging Face causal language model by hub name or folder."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of the weights."""
    float32_head: bool = False
    """With weights in half precision: make the logits in float32, in sampling and in training."""
    attention: Attention = "auto"
    """Kernel of updates: sdpa, eager, flex, flash_attention_2 or 3; auto takes sdpa where the model has it."""
    tf32: bool = False
    """Let an NVIDIA GPU multiply float32 matrices in TF32, with 10 bits of mantissa for 23: faster, less exact."""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU when there is one."""
    hidden: int = Field(default=128, ge=8)
    """rlvr/tiny only: width."""
    layers: int = Field(default=2, ge=1)
    """rlvr/tiny only: depth."""
    words: tuple[str, ...] = ()
    """rlvr/tiny only: pieces of text that are one token each, beside its own."""
    # W = W0 + (alpha / r) B A, B A of rank r: 2106.09685
    lora_rank: int = Field(default=0, ge=0)
    """Rank of the LoRA adapters to train instead of all weights; 0 trains all weights."""
    adapter: str = ""
    """Folder of LoRA adapters of this rank to begin with, such as `adapter` of another run; without it, new ones."""
    chat_template: str = ""
    """A chat template in place of the tokenizer's own: chatml, qwen_math, r1_zero, plain, or a file of Jinja."""
    template_options: dict[str, Any] = Field(default_factory=dict)
    """Given to the chat template, such as enable_thinking."""

    @model_validator(mode="after")
    def _check(self) -> ModelSection:
        if self.adapter and not self.lora_rank:
            raise ValueError(
                f"model.adapter {self.adapter} goes with model.lora_rank: set it to the rank of the adapters"
            )
        return self


class SamplingSection(Section):
    max_new_tokens: int = Field(default=64, ge=1)
    """Tokens a turn may take."""
    max_length: int = Field(default=512, ge=2)
    """Tokens an episode may take, prompts and tool output included."""
    # pi(a) ~ exp(logit_a / temperature)
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature; the learner's log-probabilities use it too."""
    # ScaleRL, 2510.13786: a thought is ended by words that are not trained on
    thinking_budget: int = Field(default=0, ge=0)
    """Sampled tokens after which a reply is interrupted and has the rest of max_new_tokens to answer; 0 never does."""
    thinking_spread: int = Field(default=0, ge=0)
    """The budget of a reply is drawn from this many tokens fewer up to thinking_budget."""
    thinking_phrase: str = "scalerl"
    """What ends a thought at its budget: scalerl, qwen3, or the words themselves. Its tokens are not trained on."""
    # Kimi k1.5, 2501.12599: a long reply is not waited for
    segment: int = Field(default=0, ge=0)
    """partial_rollouts: sampled tokens of a reply that a step waits for; it goes on in the next. 0 waits for all."""

    @model_validator(mode="after")
    def _check(self) -> SamplingSection:
        if self.thinking_spread >= max(1, self.thinking_budget):
            raise ValueError("sampling.thinking_spread must be below sampling.thinking_budget")
        if self.thinking_budget >= self.max_new_tokens:
            raise ValueError("sampling.thinking_budget must leave room for an answer within sampling.max_new_tokens")
        if self.max_length <= self.max_new_tokens:
            raise ValueError("sampling.max_length must leave room for a prompt beside sampling.max_new_tokens")
        return self


class WarmStartSection(Section):
    """Supervised steps on demonstrations, before any reward is seen."""

    steps: int = Field(default=0, ge=0)
    """Steps on the expert's own demonstrations."""
    mixed_steps: int = Field(default=0, ge=0)
    """Steps after those in which some demonstrations jump to the answer without the work that leads to it."""
    # The policy must try both ways before rewards can tell them apart.
    direct_answer_share: float = Field(default=0.7, ge=0, le=1)
    """How many of the mixed demonstrations do."""
    random_steps: int = Field(default=0, ge=0)
    """Last steps, on random well-formed actions whatever they earn: the policy begins as uniform over legal moves."""
    batch_size: int = Field(default=64, ge=1)
    """Demonstrations a step."""
    # null only until the config knows its model: rates.py
    lr: float | None = Field(default=None, gt=0, le=1)
    """Learning rate of the first steps; falls linearly to a tenth. null takes that of the model."""
    mixed_lr: float | None = Field(default=None, gt=0, le=1)
    """Learning rate of the mixed steps; null takes that of the model."""
    warmup_steps: int = Field(default=20, ge=0)
    """Steps over which the learning rate rises."""


class LearnerSection(Section):
    lr: float | None = Field(default=None, gt=0, le=1)
    """Learning rate of AdamW; null takes the model's: 3e-4 of rlvr/tiny, else 6e-3 / width, with LoRA 6e-2 / width."""
    # Moments as 8-bit codes with a scale for each block: 2110.02861
    optimiser: Literal["adamw", "adamw_8bit", "adamw_bnb_8bit"] = "adamw"
    """adamw, or with its state in eight bits a number: adamw_8bit by torchao, adamw_bnb_8bit by bitsandbytes."""
    # m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2: 1711.05101
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay rates."""
    # w <- w - lr weight_decay w
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's decoupled weight decay."""
    warmup_steps: int = Field(default=5, ge=0)
    """Steps over which the learning rate rises."""
    schedule: Literal["constant", "linear"] = "constant"
    """What the learning rate does after warming up; linear falls to a tenth at the last step."""
    # g <- g min(1, max_grad_norm / |g|)
    max_grad_norm: float = Field(default=1.0, gt=0, allow_inf_nan=True)
    """Gradients are clipped to this norm."""
    epochs: int = Field(default=1, ge=1)
    """Passes over each batch of episodes."""
    minibatches: int = Field(default=1, ge=1)
    """Optimiser steps each pass is cut into, whole groups together."""
    # theta_ref <- theta: 2206.15378, R-NaD
    reference_every: int = Field(default=0, ge=0)
    """Steps after which the reference policy of a KL term is taken anew; 0 keeps that of the start."""
    # c_s = c_1 (c_S / c_1)^((s - 1) / (S - 1)): magnetic mirror descent with a temperature that falls, 2206.05825
    kl_coef_end: float | None = Field(default=None, gt=0)
    """The KL term's coefficient at the last step; from overrides.kl_coef it gets there geometrically. null keeps it."""
    # alpha_k = c_k 1[H_k <= target], c_k+1 = c_k + step sign(target - H_k): Skywork-OR1, 2505.22312
    entropy_target: float | None = Field(default=None, gt=0)
    """Nats a token below which an entropy bonus is on; it begins at overrides.entropy_coef. null leaves it as it is."""
    entropy_step: float = Field(default=0.005, gt=0)
    """By how much that coefficient rises in each step below the target, and falls above it."""
    # a <- d a + (1 - d) theta after each step: 1412.6980; R-NaD, 2206.15378, plays and saves such an average
    ema: float = Field(default=0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, which is evaluated and saved for the policy; 0: none."""
    micro_batch_tokens: int = Field(default=8192, ge=1)
    """Tokens that go through the model at once; changes memory, not the result. Halved when memory runs out."""
    # Activations of L layers become their L inputs and those of one layer: 1604.06174
    recompute_layers: bool = False
    """Keep the inputs of the layers alone and compute the layers again in the backward pass: less memory, more time."""
    # A prompt of P tokens with G samples of C: P + G C tokens instead of G (P + C).
    share_prompts: bool = False
    """Compute the prompt that samples share once in each micro-batch, where the model allows it."""
    compile: bool = False
    """Compile each layer by itself with torch.compile, for updates; needs a C++ compiler, on a GPU Triton."""
    # FSDP2's CPUOffloadPolicy: ZeRO-Offload, 2101.06840
    offload: Literal["none", "activations", "weights"] = "none"
    """What is kept in the CPU's memory: activations (one process), or weights and AdamW's state (torchrun)."""
    # Float32 sums depend on their order, and so on the number of processes; rounded from float64 they do not.
    grad_accum_dtype: Literal["auto", "float32", "float64"] = "auto"
    """What micro-batches' gradients add up in; float64: the same for any number of processes. auto: that on a CPU."""


class CurriculumSection(Section):
    """Which level or row a step asks next, see rlvr.envs.curriculum; levels go from 1 to env.level."""

    kind: Literal["none", "target", "easy_to_hard", "by_rate", "by_signal"] = "none"
    """target holds a success rate by the level, easy_to_hard rises with the steps, by_rate asks what fails more,
    by_signal what is likely to have both outcomes in a group, for few tokens."""
    target: float = Field(default=0.5, gt=0, lt=1)
    """target: success rate to hold."""
    # level <- level + gain (success rate - target)
    gain: float = Field(default=0.1, gt=0)
    """target: levels to move when all episodes of a group fail that should succeed, or the other way round."""
    start: int = Field(default=1, ge=1)
    """target: level to begin at."""
    stage: int = Field(default=0, ge=0)
    """easy_to_hard: tasks at each level; 0 divides those of the run evenly."""
    rehearsal: float = Field(default=0.1, ge=0, le=1)
    """target and easy_to_hard: share of tasks from any level up to the present one."""
    # weight ~ max(1 - success rate, floor): 2501.12599
    floor: float = Field(default=0.05, gt=0, le=1)
    """by_rate: a level or row counts as failing at least so often; by_signal: what is added to each one's signal."""
    # seen <- decay seen + n, solved <- decay solved + sum of rewards
    decay: float | None = Field(default=None, gt=0, le=1)
    """by_rate and by_signal: what a level's or row's earlier outcomes are multiplied by when it is asked again; by
    itself 1 and 0.9."""


class PrefixSection(Section):
    """The expert plays the first turns of an episode, without loss, as many as hold the success at a target."""

    share: float | None = Field(default=None, ge=0, le=1)
    """Share of the expert's turns but the last that it plays at first; the last is always the policy's. null: none."""
    target: float = Field(default=0.5, gt=0, lt=1)
    """Success rate to hold, of each environment and level; never that of an evaluation, which has no prefix."""
    # share <- share + gain (target - success rate of a group)
    gain: float = Field(default=0.02, gt=0, le=1)
    """What is added to the share when all episodes of a group fail that should succeed, or taken the other way."""


class SelectionSection(Section):
    """Which tasks and rows a step learns from, see rlvr.algorithms.filters."""

    filters: tuple[str, ...] | None = None
    """Filters instead of the algorithm's own; [] for none."""
    max_rounds: int = Field(default=4, ge=1)
    """Rounds of sampling in which dynamic or active sampling has to fill a batch."""
    # groups drawn = max(missing, round(over_sampling missing)); DAPO, 2503.14476
    over_sampling: float = Field(default=1.0, ge=1)
    """How many groups a round draws for each one that is missing; what is left over is thrown away."""
    retire_at: float = Field(default=0.9, gt=0, le=1)
    """Pass rate from which no_positive_resampling no longer asks a task."""
    retire_after: int = Field(default=1, ge=1)
    """Episodes that a task must have had before it is retired."""
    # DAPO, 2503.14476: 4,096 of 20,480 tokens
    overlong_buffer: int = Field(default=0, ge=0)
    """Last tokens of max_new_tokens in which soft_overlong punishes; 0 takes a fifth."""
    length_weight: float = Field(default=0.5, ge=0)
    """Weight of length_reward, which acts in the second half of the steps."""
    audit_share: float = Field(default=0.1, gt=0, le=1)
    """Share of the episodes that audit reads."""

    @field_validator("filters", mode="before")
    @classmethod
    def _named(cls, filters: Any) -> Any:
        return name_objects({"filters": filters})["filters"]


class CreditSection(Section):
    """What some advantages are computed from, see rlvr.algorithms.advantages."""

    # BRPO, 2505.13438: the reward is the mean over budgets at which the thought is cut
    budgets: tuple[int, ...] = ()
    """brpo: increasing thinking budgets in sampled tokens; [] takes the quarters of max_new_tokens."""
    budget_prior: Literal["uniform", "linear", "base"] = "uniform"
    """brpo: how likely each budget is."""
    answers: int = Field(default=2, ge=1)
    """brpo: answers to a thought at each budget; the words of sampling.thinking_phrase ask for them."""
    answer_tokens: int = Field(default=16, ge=1)
    """brpo: tokens an answer may take."""
    teacher: str = ""
    """Distillation: a model by hub name or folder; without it, the policy as it was before the mixed warm start. sdpo:
    a model that reads the hints in the policy's place."""
    hints: tuple[Literal["sibling", "demonstration", "feedback"], ...] = ("sibling", "feedback")
    """sdpo: what the teacher reads before the task: another success of the group, the expert's demonstration, the
    verdict in words on an episode that failed."""
    # GDPO, 2601.05242: A ~ sum of weight * z of the part in its group
    part_weights: dict[str, FiniteFloat] = Field(default_factory=lambda: {"reward": 1.0}, min_length=1)
    """gdpo: the parts of the verdict that are rewards, each with its weight; "reward" is the reward as it is paid."""


class CriticSection(Section):
    """The value network of algorithms that have a critic."""

    width: int = Field(default=64, ge=1)
    """Width of its hidden layer."""
    lr: float = Field(default=3e-3, gt=0, le=1)
    """Learning rate."""
    epochs: int = Field(default=8, ge=1)
    """Passes over each batch."""


class EvaluationSection(Section):
    split: str = "test"
    """Split that is never trained on."""
    episodes: int = Field(default=256, ge=1)
    """Tasks to play each time; all rows of a table when there are fewer."""
    every: int = Field(default=0, ge=0)
    """Steps between evaluations; 0 evaluates before and after training only."""
    panel: tuple[str, ...] = ()
    """Games of several seats: bots that each evaluation plays as many matches against as there are episodes."""
    exploitability: bool = False
    """Small games of several seats: what a best response wins from the policy's own probabilities, exactly."""
