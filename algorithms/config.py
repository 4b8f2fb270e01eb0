"""What a training run can be told. One pydantic model for YAML, flags and Python; an unknown field is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator, model_validator

from rlvr.algorithms.config_sections import (
    SERVER_FIELDS,
    EngineSection,
    SamplerSection,
    ScheduleSection,
    Section,
    SelfPlaySection,
)
from rlvr.algorithms.filters.registry import FILTERS, acting
from rlvr.algorithms.names import hint
from rlvr.algorithms.off_policy import corrected, samples_off_policy
from rlvr.algorithms.presets import PRESETS, Preset, name_objects
from rlvr.algorithms.registry import ALGORITHMS, register_preset
from rlvr.algorithms.runs.yaml_text import read_yaml_file
from rlvr.algorithms.tinker.limits import why_not


class ConfigError(ValueError):
    """A configuration that cannot be run, with what to change."""


class EnvSection(Section):
    id: str = "rlvr/Calculator-v0"
    """Id of the environment."""
    level: int = Field(1, ge=1)
    """Difficulty, from 1."""
    split: str = "train"
    """Split whose tasks are trained on."""
    system: bool = True
    """Whether the environment's system prompt is said."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What else gym.make is given, such as data_files or prompt_style."""
    batch_size: int = Field(256, ge=1)
    """Episodes under way at once."""
    workers: int = Field(0, ge=0)
    """Threads that step environments; 0 for environments that only compute."""
    timeout: float | None = Field(120.0, gt=0, allow_inf_nan=False)
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
        if self.token_env and not self.servers:
            raise ValueError("env.token_env is for env.servers, of which there are none")
        return self


class ModelSection(Section):
    name: str = "rlvr/tiny"
    """rlvr/tiny, or a Hugging Face causal language model by hub name or folder."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Type of the weights."""
    float32_head: bool = False
    """With weights in half precision: make the logits in float32, in sampling and in training."""
    device: str = "auto"
    """cpu, cuda, cuda:1 …; auto takes a GPU when there is one."""
    hidden: int = Field(128, ge=8)
    """rlvr/tiny only: width."""
    layers: int = Field(2, ge=1)
    """rlvr/tiny only: depth."""
    words: tuple[str, ...] = ()
    """rlvr/tiny only: pieces of text that are one token each, beside its own."""
    # W = W0 + (alpha / r) B A, B A of rank r: 2106.09685
    lora_rank: int = Field(0, ge=0)
    """Rank of the LoRA adapters to train instead of all weights; 0 trains all weights."""
    template_options: dict[str, Any] = Field(default_factory=dict)
    """Given to the chat template, such as enable_thinking."""


class SamplingSection(Section):
    max_new_tokens: int = Field(64, ge=1)
    """Tokens a turn may take."""
    max_length: int = Field(512, ge=2)
    """Tokens an episode may take, prompts and tool output included."""
    # pi(a) ~ exp(logit_a / temperature)
    temperature: float = Field(1.0, gt=0)
    """Sampling temperature; the learner's log-probabilities use it too."""
    # ScaleRL, 2510.13786: a thought is ended by words that are not trained on
    thinking_budget: int = Field(0, ge=0)
    """Sampled tokens after which a reply is interrupted and has the rest of max_new_tokens to answer; 0 never does."""
    thinking_spread: int = Field(0, ge=0)
    """The budget of a reply is drawn from this many tokens fewer up to thinking_budget."""
    thinking_phrase: str = "scalerl"
    """What ends a thought at its budget: scalerl, qwen3, or the words themselves. Its tokens are not trained on."""
    # Kimi k1.5, 2501.12599: a long reply is not waited for
    segment: int = Field(0, ge=0)
    """partial_rollouts: sampled tokens of a reply that a step waits for; it goes on in the next. 0 waits for all."""


class WarmStartSection(Section):
    """Supervised steps on demonstrations, before any reward is seen."""

    steps: int = Field(0, ge=0)
    """Steps on the expert's own demonstrations."""
    mixed_steps: int = Field(0, ge=0)
    """Steps after those in which some demonstrations jump to the answer without the work that leads to it."""
    # The policy must try both ways before rewards can tell them apart.
    direct_answer_share: float = Field(0.7, ge=0, le=1)
    """How many of the mixed demonstrations do."""
    random_steps: int = Field(0, ge=0)
    """Last steps, on random well-formed actions whatever they earn: the policy begins as uniform over legal moves."""
    batch_size: int = Field(64, ge=1)
    """Demonstrations a step."""
    lr: float = Field(3e-3, gt=0)
    """Learning rate of the first steps; falls linearly to a tenth."""
    mixed_lr: float = Field(1e-3, gt=0)
    """Learning rate of the mixed steps."""
    warmup_steps: int = Field(20, ge=0)
    """Steps over which the learning rate rises."""


class LearnerSection(Section):
    lr: float = Field(3e-4, gt=0)
    """Learning rate of AdamW."""
    # Moments as 8-bit codes with a scale for each block: 2110.02861
    optimiser: Literal["adamw", "adamw_8bit", "adamw_bnb_8bit"] = "adamw"
    """adamw, or with its state in eight bits a number: adamw_8bit by torchao, adamw_bnb_8bit by bitsandbytes."""
    # m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2: 1711.05101
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's decay rates."""
    # w <- w - lr weight_decay w
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled weight decay."""
    warmup_steps: int = Field(5, ge=0)
    """Steps over which the learning rate rises."""
    schedule: Literal["constant", "linear"] = "constant"
    """What the learning rate does after warming up; linear falls to a tenth at the last step."""
    # g <- g min(1, max_grad_norm / |g|)
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are clipped to this norm."""
    epochs: int = Field(1, ge=1)
    """Passes over each batch of episodes."""
    minibatches: int = Field(1, ge=1)
    """Optimiser steps each pass is cut into, whole groups together."""
    # theta_ref <- theta: 2206.15378, R-NaD
    reference_every: int = Field(0, ge=0)
    """Steps after which the reference policy of a KL term is taken anew; 0 keeps that of the start."""
    # c_s = c_1 (c_S / c_1)^((s - 1) / (S - 1)): magnetic mirror descent with a temperature that falls, 2206.05825
    kl_coef_end: float | None = Field(None, gt=0, allow_inf_nan=False)
    """The KL term's coefficient at the last step; from overrides.kl_coef it gets there geometrically. null keeps it."""
    # a <- d a + (1 - d) theta after each step: 1412.6980; R-NaD, 2206.15378, plays and saves such an average
    ema: float = Field(0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, which is evaluated and saved for the policy; 0: none."""
    # Rows times the longest of them: what a padded batch costs, and bounds memory.
    micro_batch_tokens: int = Field(8192, ge=1)
    """Padded tokens that go through the model at once; changes memory, not the result. Halved when memory runs out."""
    # Activations of L layers become their L inputs and those of one layer: 1604.06174
    recompute_layers: bool = False
    """Keep the inputs of the layers alone and compute the layers again in the backward pass: less memory, more time."""
    # A prompt of P tokens with G samples of C: P + G C tokens instead of G (P + C).
    share_prompts: bool = False
    """Compute the prompt that samples share once in each micro-batch, where the model allows it; not under torchrun."""
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

    kind: Literal["none", "target", "easy_to_hard", "by_rate"] = "none"
    """target holds a success rate by the level, easy_to_hard rises with the steps, by_rate asks what fails more."""
    target: float = Field(0.5, gt=0, lt=1)
    """target: success rate to hold."""
    # level <- level + gain (success rate - target)
    gain: float = Field(0.1, gt=0)
    """target: levels to move when all episodes of a group fail that should succeed, or the other way round."""
    start: int = Field(1, ge=1)
    """target: level to begin at."""
    stage: int = Field(0, ge=0)
    """easy_to_hard: tasks at each level; 0 divides those of the run evenly."""
    rehearsal: float = Field(0.1, ge=0, le=1)
    """target and easy_to_hard: share of tasks from any level up to the present one."""
    # weight ~ max(1 - success rate, floor): 2501.12599
    floor: float = Field(0.05, gt=0, le=1)
    """by_rate: a level or row counts as failing at least so often."""
    # seen <- decay seen + n, solved <- decay solved + sum of rewards
    decay: float = Field(1.0, gt=0, le=1)
    """by_rate: what a level's or row's earlier outcomes are multiplied by when it is asked again."""


class SelectionSection(Section):
    """Which tasks and rows a step learns from, see rlvr.algorithms.filters."""

    filters: tuple[str, ...] | None = None
    """Filters instead of the algorithm's own; [] for none."""
    max_rounds: int = Field(4, ge=1)
    """Rounds of sampling in which dynamic or active sampling has to fill a batch."""
    # groups drawn = max(missing, round(over_sampling missing)); DAPO, 2503.14476
    over_sampling: float = Field(1.0, ge=1)
    """How many groups a round draws for each one that is missing; what is left over is thrown away."""
    retire_at: float = Field(0.9, gt=0, le=1)
    """Pass rate from which no_positive_resampling no longer asks a task."""
    retire_after: int = Field(1, ge=1)
    """Episodes that a task must have had before it is retired."""
    # DAPO, 2503.14476: 4,096 of 20,480 tokens
    overlong_buffer: int = Field(0, ge=0)
    """Last tokens of max_new_tokens in which soft_overlong punishes; 0 takes a fifth."""
    length_weight: float = Field(0.5, ge=0)
    """Weight of length_reward, which acts in the second half of the steps."""

    @field_validator("filters", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return name_objects({"filters": given})["filters"]


class CreditSection(Section):
    """What some advantages are computed from, see rlvr.algorithms.advantages."""

    # BRPO, 2505.13438: the reward is the mean over budgets at which the thought is cut
    budgets: tuple[int, ...] = ()
    """brpo: increasing thinking budgets in sampled tokens; [] takes the quarters of max_new_tokens."""
    budget_prior: Literal["uniform", "linear", "base"] = "uniform"
    """brpo: how likely each budget is."""
    answers: int = Field(2, ge=1)
    """brpo: answers to a thought at each budget; the words of sampling.thinking_phrase ask for them."""
    answer_tokens: int = Field(16, ge=1)
    """brpo: tokens an answer may take."""
    teacher: str = ""
    """Distillation: a model by hub name or folder; without it, the policy as it was before the mixed warm start."""


class CriticSection(Section):
    """The value network of algorithms that have a critic."""

    width: int = Field(64, ge=1)
    """Width of its hidden layer."""
    lr: float = Field(3e-3, gt=0)
    """Learning rate."""
    epochs: int = Field(8, ge=1)
    """Passes over each batch."""


class EvaluationSection(Section):
    split: str = "test"
    """Split that is never trained on."""
    episodes: int = Field(256, ge=1)
    """Tasks to play each time; all rows of a table when there are fewer."""
    every: int = Field(0, ge=0)
    """Steps between evaluations; 0 evaluates before and after training only."""
    panel: tuple[str, ...] = ()
    """Games of several seats: bots that each evaluation plays as many matches against as there are episodes."""
    exploitability: bool = False
    """Small games of several seats: what a best response wins from the policy's own probabilities, exactly."""


class TrainConfig(Section):
    """One training run."""

    env: EnvSection = EnvSection()
    model: ModelSection = ModelSection()
    sampling: SamplingSection = SamplingSection()
    engine: EngineSection = EngineSection()
    sampler: SamplerSection = SamplerSection()
    schedule: ScheduleSection = ScheduleSection()
    warm_start: WarmStartSection = WarmStartSection()
    learner: LearnerSection = LearnerSection()
    curriculum: CurriculumSection = CurriculumSection()
    selection: SelectionSection = SelectionSection()
    credit: CreditSection = CreditSection()
    critic: CriticSection = CriticSection()
    evaluation: EvaluationSection = EvaluationSection()
    self_play: SelfPlaySection = SelfPlaySection()
    algorithm: str = "grpo"
    """Name of a preset; `rlvr algorithms` lists them."""
    overrides: dict[str, Any] = Field(default_factory=dict)
    """Choices of the preset to change, such as kl_coef."""
    steps: int = Field(30, ge=0)
    """Reinforcement learning steps."""
    # B = prompts x group_size episodes a step
    prompts: int = Field(32, ge=1)
    """Tasks a step."""
    # GRPO's baseline is a mean over these: 2402.03300
    group_size: int = Field(8, ge=1)
    """Episodes on each task."""
    seed: int = Field(0, ge=0)
    """Decides the weights of rlvr/tiny, the tasks and the sampling."""
    # A sum over threads depends on their number: more than one gives other last bits.
    threads: int = Field(1, ge=1)
    """CPU threads of torch; more than one is slower when the cores are shared."""
    checkpoint_every: int = Field(10, ge=1)
    """Steps between checkpoints."""
    report_to: Literal["none", "trackio", "wandb", "tensorboard"] = "none"
    """Tracker that gets the figures of each step beside metrics.jsonl; its library is in the extra track."""
    push_to_hub: str = ""
    """Repository of the Hugging Face hub that the trained policy is uploaded to, such as me/my-policy."""
    episodes_every: int = Field(10, ge=1)
    """Steps between those whose training episodes are kept."""
    out: Path = Path("runs/run")
    """Folder of the run; must not hold another run."""

    @field_validator("engine", "sampler", "schedule", mode="before")
    @classmethod
    def _by_kind(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given  # sampler: vllm

    @field_validator("algorithm", mode="before")
    @classmethod
    def _registered(cls, given: Any) -> Any:
        return register_preset(given).name if isinstance(given, Preset) else given

    @field_validator("overrides", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return name_objects(given) if isinstance(given, dict) else given

    @field_validator("algorithm")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in ALGORITHMS:
            raise ValueError(f"no algorithm {name!r}{hint(name, ALGORITHMS)}")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        self.filters()
        self._check_teacher()
        self._check_schedule()
        self._check_learner()
        self._check_policies()
        self._check_engine()
        if self.curriculum.kind in ("target", "easy_to_hard") and self.env.level < 2:
            raise ValueError(
                f"curriculum.kind {self.curriculum.kind} needs levels: set env.level to the highest of them"
            )
        if self.env.servers and self.warm_start.random_steps:
            raise ValueError("warm_start.random_steps: env.servers give no random actions: leave out one of them")
        if self.curriculum.start > self.env.level:
            raise ValueError(f"curriculum.start {self.curriculum.start} is above env.level {self.env.level}")
        if self.sampling.thinking_spread >= max(1, self.sampling.thinking_budget):
            raise ValueError("sampling.thinking_spread must be below sampling.thinking_budget")
        if self.sampling.thinking_budget >= self.sampling.max_new_tokens:
            raise ValueError("sampling.thinking_budget must leave room for an answer within sampling.max_new_tokens")
        # A group is never cut: its members share a baseline.
        if self.learner.minibatches > self.prompts:
            raise ValueError(f"{self.learner.minibatches} minibatches cannot be cut from {self.prompts} groups")
        if self.sampling.max_length <= self.sampling.max_new_tokens:
            raise ValueError("sampling.max_length must leave room for a prompt beside sampling.max_new_tokens")
        return self

    def _check_teacher(self) -> None:
        if not self.preset().estimator.teacher or self.credit.teacher:
            return
        if not self.warm_start.mixed_steps or self.model.lora_rank:
            raise ValueError(
                "distillation needs a teacher: name a model in credit.teacher, or warm up with mixed_steps, so that "
                "the policy before those (of full weights, not of adapters) can teach"
            )

    def _check_learner(self) -> None:
        """Refuse a schedule of a KL term that is not there, and an average that the sampler could not play."""
        learner, preset = self.learner, self.preset()
        if learner.kl_coef_end is not None and not preset.kl_coef:
            raise ValueError(
                f"learner.kl_coef_end {learner.kl_coef_end} needs a KL term, and {self.algorithm} has none here: set "
                "overrides.kl_coef (and overrides.kl, such as k2), or leave it out"
            )
        if learner.compile and learner.share_prompts:
            raise ValueError(
                "learner.compile and learner.share_prompts do not go together: the keys of a shared prompt are handed "
                "over outside of what is compiled; set one of them to false"
            )
        if learner.ema and (self.sampler.kind, self.schedule.kind) != ("transformers", "sync"):
            raise ValueError(
                "learner.ema goes with sampler: transformers and schedule: sync, whose evaluations sample with the "
                f"learner's own weights; not with {self.sampler.kind} and {self.schedule.kind}"
            )

    def _check_policies(self) -> None:
        """Refuse what several learned policies cannot do: each is a learner of its own in one process."""
        if not self.self_play.policies:
            return
        names = [str(name) for name in self.env.settings.get("opponents") or ()]
        refused = {
            "sampler.kind": self.sampler.kind != "transformers" and f"{self.sampler.kind} serves one policy",
            "schedule.kind": self.schedule.kind == "async" and "async samples with one policy: take sync",
            "env.settings.opponents": ("self" not in names and "name self, who is the learned policy of a seat")
            or ("pool" in names and "pool has the earlier policies of one that plays all seats: leave it out"),
            "env.settings.seat": "seat" in self.env.settings
            and not self.self_play.policy
            and "self_play.policies says who has which seat",
            "push_to_hub": bool(self.push_to_hub) and "a repository holds one policy: upload their folders yourself",
            "report_to": self.report_to in ("trackio", "wandb") and f"{self.report_to} follows one run of a process",
        }
        for field, reason in refused.items():
            if reason:
                raise ValueError(f"{field} does not go with self_play.policies: {reason}")

    def _check_engine(self) -> None:
        """Refuse what a service cannot do, and a service's fields without it."""
        if self.engine.kind == "tinker":
            # One at a time: the first is often the cause of the others.
            if reason := why_not(self, self.preset()):
                raise ValueError(reason)
        elif named := [
            name for name in EngineSection.model_fields if getattr(self.engine, name) != getattr(EngineSection(), name)
        ]:
            raise ValueError(f"engine.{named[0]} is for engine.kind tinker, not {self.engine.kind}")

    def _check_schedule(self) -> None:
        """Refuse what a schedule, or a sampler, cannot do."""
        ahead = self.schedule.kind == "async"
        # Its gradient is that of the policy that sampled, and biased for one that has moved on.
        if ahead and not samples_off_policy(self.preset()) and self._learns_by_ratio():
            raise ValueError(
                f"schedule: async samples with weights of up to {self.schedule.depth} updates ago, and "
                f"{self.algorithm} does not weigh by the policy that sampled: set schedule.correction to tis (or "
                "seq_tis, icepop, seq_mis), or overrides.ratio_denominator to behaviour, or take an algorithm that "
                "does, such as scalerl"
            )
        named = [name for name in SERVER_FIELDS if getattr(self.sampler, name)]
        if named and self.sampler.kind != "vllm-server":
            raise ValueError(f"sampler.{named[0]} is for sampler.kind vllm-server, not {self.sampler.kind}")
        if self.sampler.options and self.sampler.url:
            raise ValueError("sampler.options are for a vLLM that is started; the one at sampler.url has its own")
        if self.model.float32_head and self.sampler.url:
            raise ValueError(
                "model.float32_head: nothing tells how the server at sampler.url makes its logits: leave it "
                "out, so that the run starts the server"
            )
        if self.sampler.options and self.sampler.kind == "transformers":
            raise ValueError("sampler.options are vLLM's: set sampler.kind to vllm or vllm-server")

    def _learns_by_ratio(self) -> bool:
        """Whether the gradient is the behaviour policy's own, so that it is biased where that one is older."""
        algorithm = ALGORITHMS[self.algorithm]
        return isinstance(algorithm, Preset) or algorithm.on_policy

    def preset(self) -> Preset:
        """The algorithm with its overrides; of an objective that is none, what its log-probabilities need."""
        algorithm = ALGORITHMS[self.algorithm]
        base = algorithm if isinstance(algorithm, Preset) else algorithm.as_preset(PRESETS["reinforce"])
        preset = base.replace(**_typed(self.overrides))
        return corrected(preset, self.schedule) if isinstance(algorithm, Preset) else preset

    def filters(self) -> tuple[str, ...]:
        """The filters that apply: those of the selection section, or else the algorithm's.

        Raises:
            ValueError: there is no such filter, or it does not go with the config.
        """
        chosen = self.preset().filters if self.selection.filters is None else self.selection.filters
        for name in chosen:
            if name not in FILTERS:
                raise ValueError(
                    f"selection.filters: no filter {name!r}{hint(name, FILTERS)} ; there are {', '.join(FILTERS)}"
                )
        filters = acting(chosen)  # each may refuse another, so all of them are made first
        for each in filters:
            each.check(self, filters)
        return chosen


def _typed(overrides: dict[str, Any]) -> dict[str, Any]:
    """Choices of a preset in its own types: YAML reads 1e-3 as text, and knows no tuples."""
    typed = {}
    for name, value in overrides.items():
        known = _choices()
        if name not in known:
            near = hint(name, known) or f"; choices: {', '.join(known)}"
            raise ValueError(f"overrides.{name}: a preset has no such choice{near}")
        try:
            typed[name] = known[name].validate_python(value)
        except ValidationError as error:
            raise ValueError(f"overrides.{name}: {error.errors()[0]['msg']}, got {value!r}") from error
    return typed


@cache
def _choices() -> dict[str, TypeAdapter[Any]]:
    described = ("name", "arxiv", "note")
    return {name: TypeAdapter(kind) for name, kind in get_type_hints(Preset).items() if name not in described}


def load_config(source: dict[str, Any] | str | Path) -> TrainConfig:
    """A config from a dict or a YAML file.

    Raises:
        ConfigError: the file cannot be read, or a field is unknown or out of range.
    """
    values = read_yaml(Path(source)) if isinstance(source, str | Path) else source
    try:
        return TrainConfig(**values)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping of fields in a YAML file.

    Raises:
        ConfigError: no such file, not YAML, over its bounds, no mapping, or a field that no config has.
    """
    try:
        values = read_yaml_file(path)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"the config {path} must be a mapping of fields, not {type(values).__name__}")
    for name in values:
        if name not in TrainConfig.model_fields:
            raise ConfigError(no_such_field(str(name), TrainConfig))
    return values


def to_yaml(config: TrainConfig) -> str:
    """The config as YAML; reading it back gives an equal one."""
    import yaml

    plain = config.model_dump()
    plain["out"], plain["learner"]["betas"] = str(config.out), list(config.learner.betas)
    text: str = yaml.safe_dump(plain, sort_keys=False)
    return text


def explain(error: ValidationError) -> str:
    """One line for each thing wrong with a config, with the nearest field name where one is unknown."""
    return "; ".join(_explain_one(dict(detail)) for detail in error.errors())


def _explain_one(detail: dict[str, Any]) -> str:
    *section, name = detail["loc"] or ("config",)
    where = ".".join(map(str, (*section, name)))
    if detail["type"] != "extra_forbidden":
        message = str(detail["msg"]).removeprefix("Value error, ")
        of_ours = detail["type"] == "value_error"  # one of ours, which names what was given
        return message if of_ours else f"{where}: {message}, got {detail['input']!r}"
    owner: Any = TrainConfig
    for part in section:
        owner = type(getattr(owner(), str(part)))
    return no_such_field(where, owner)


def no_such_field(where: str, owner: type[BaseModel]) -> str:
    return f"{where}: there is no such field{hint(where.rpartition('.')[2], owner.model_fields)}"
