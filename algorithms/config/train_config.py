"""What a training run can be told. One pydantic model for YAML, flags and Python; an unknown field is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, field_validator, model_validator

from rlvr.agents.models.tiny import TINY
from rlvr.algorithms.config.rates import chosen, rates_for
from rlvr.algorithms.config.sections import (
    CreditSection,
    CriticSection,
    CurriculumSection,
    EngineSection,
    EnvSection,
    EvaluationSection,
    LearnerSection,
    ModelSection,
    PrefixSection,
    SamplerSection,
    SamplingSection,
    ScheduleSection,
    Section,
    SelectionSection,
    SelfPlaySection,
    WarmStartSection,
    require_no_switch,
)
from rlvr.algorithms.config.tinker_limits import why_not
from rlvr.algorithms.config.yaml_text import read_yaml_file
from rlvr.algorithms.filters.order import acting
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS, register_preset
from rlvr.algorithms.recipe.episode_filter import FILTERS
from rlvr.algorithms.recipe.off_policy import corrected, samples_off_policy
from rlvr.algorithms.recipe.presets import PRESETS, Preset, name_objects
from rlvr.envs.core.hints import hint


class ConfigError(ValueError):
    """A configuration that cannot be run, with what to change."""


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
    prefix: PrefixSection = PrefixSection()
    selection: SelectionSection = SelectionSection()
    credit: CreditSection = CreditSection()
    critic: CriticSection = CriticSection()
    evaluation: EvaluationSection = EvaluationSection()
    self_play: SelfPlaySection = SelfPlaySection()
    algorithm: str = "grpo"
    """Name of a preset; `rlvr algorithms` lists them."""
    overrides: dict[str, Any] = Field(default_factory=dict)
    """Choices of the preset to change, such as kl_coef."""
    steps: int = Field(default=30, ge=0)
    """Reinforcement learning steps."""
    # B = prompts x group_size episodes a step
    prompts: int = Field(default=32, ge=1, le=10**6)
    """Tasks a step."""
    # GRPO's baseline is a mean over these: 2402.03300
    group_size: int = Field(default=8, ge=1, le=10**6)
    """Episodes on each task."""
    seed: int = Field(default=0, ge=0)
    """Decides the weights of rlvr/tiny, the tasks and the sampling."""
    # A sum over threads depends on their number: more than one gives other last bits.
    threads: int = Field(default=1, ge=1)
    """CPU threads of torch; more than one is slower when the cores are shared."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Steps between checkpoints."""
    report_to: tuple[Literal["trackio", "wandb", "tensorboard", "mlflow"], ...] = ()
    """Trackers that get the figures of each step beside metrics.jsonl; their libraries are in the extra track."""
    push_to_hub: str = ""
    """Repository of the Hugging Face hub that the trained policy is uploaded to, such as me/my-policy."""
    episodes_every: int = Field(default=10, ge=1)
    """Steps between those whose training episodes are kept."""
    out: Path = Path("runs/run")
    """Folder of the run; must not hold another run."""

    @field_validator("engine", "sampler", "schedule", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value  # sampler: vllm

    @field_validator("report_to", mode="before")
    @classmethod
    def _trackers(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value  # report_to: wandb

    @field_validator("algorithm", mode="before")
    @classmethod
    def _registered(cls, value: Any) -> Any:
        return register_preset(value).name if isinstance(value, Preset) else value

    @field_validator("overrides", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return name_objects(value) if isinstance(value, dict) else value

    @field_validator("algorithm")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in ALGORITHMS:
            raise ValueError(f"no algorithm {name!r}{hint(name, ALGORITHMS)}")
        return name

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        self._take_rates()
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
        if self.prefix.share is not None and self.curriculum.kind == "target":
            raise ValueError(
                "prefix.share and curriculum.kind target both hold the success rate: leave one of them out"
            )
        if self.curriculum.start > self.env.level:
            raise ValueError(f"curriculum.start {self.curriculum.start} is above env.level {self.env.level}")
        # A group is never cut: its members share a baseline.
        if self.learner.minibatches > self.prompts:
            raise ValueError(f"{self.learner.minibatches} minibatches cannot be cut from {self.prompts} groups")
        return self

    def _take_rates(self) -> None:
        """Put the model's own learning rates where none are given, so that a saved config holds what was used."""
        rates = rates_for(self.model.name, self.model.lora_rank)
        learner = {"lr": rates.learner} if self.learner.lr is None else {}
        start = {"lr": rates.warm_start} if self.warm_start.lr is None else {}
        start |= {"mixed_lr": rates.mixed} if self.warm_start.mixed_lr is None else {}
        # The model is frozen for whoever reads it; a validator makes it.
        object.__setattr__(self, "learner", self.learner.model_copy(update=learner))
        object.__setattr__(self, "warm_start", self.warm_start.model_copy(update=start))

    def rates_note(self) -> str:
        """What a run with pretrained weights says at its start: its rates, and whether they are the model's own."""
        if self.model.name == TINY:
            return ""
        rates = rates_for(self.model.name, self.model.lora_rank)
        lr, start = chosen(self.learner.lr), self.warm_start
        text = f"learning rate {lr:g}"
        if start.steps or start.mixed_steps or start.random_steps:
            imitation = start.lr if start.steps or start.random_steps else start.mixed_lr
            text += f", of the warm start {chosen(imitation):g}"
        if lr == rates.learner:
            return f"{text}: {rates.source}"
        return f"{text}, as the config says; the rule's for this model is {rates.learner:g}"

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
        if learner.entropy_target is not None and not isinstance(ALGORITHMS[self.algorithm], Preset):
            raise ValueError(f"learner.entropy_target sets a term of a policy loss, and {self.algorithm} is none")
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
            "report_to": any(name in self.report_to for name in ("trackio", "wandb"))
            and "trackio and wandb follow one run of a process",
        }
        for field, reason in refused.items():
            if reason:
                raise ValueError(f"{field} does not go with self_play.policies: {reason}")

    def _check_engine(self) -> None:
        """Refuse what a service cannot do."""
        # One at a time: the first is often the cause of the others.
        if self.engine.kind == "tinker" and (reason := why_not(self, self.preset())):
            raise ValueError(reason)

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
        if self.model.float32_head and self.sampler.url:
            raise ValueError(
                "model.float32_head: nothing tells how the server at sampler.url makes its logits: leave it "
                "out, so that the run starts the server"
            )

    def _learns_by_ratio(self) -> bool:
        """Whether the gradient is the behaviour policy's own, so that it is biased where that one is older."""
        algorithm = ALGORITHMS[self.algorithm]
        return isinstance(algorithm, Preset) or algorithm.on_policy

    @property
    def condition(self) -> str:
        """What stands before each task wherever the policy plays; "" for most algorithms."""
        algorithm = ALGORITHMS[self.algorithm]
        return "" if isinstance(algorithm, Preset) else algorithm.condition

    def preset(self) -> Preset:
        """The algorithm with its overrides; of an objective that is none, what its log-probabilities need."""
        algorithm = ALGORITHMS[self.algorithm]
        base = algorithm if isinstance(algorithm, Preset) else algorithm.as_preset(PRESETS["reinforce"])
        preset = base.replace(**_typed(self.overrides))
        return corrected(preset, self.schedule.correction) if isinstance(algorithm, Preset) else preset

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
        kinds = _choices()
        if name not in kinds:
            near = hint(name, kinds) or f"; choices: {', '.join(kinds)}"
            raise ValueError(f"overrides.{name}: a preset has no such choice{near}")
        try:
            typed[name] = TypeAdapter(kinds[name]).validate_python(require_no_switch(value, kinds[name]))
        except ValueError as error:
            message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            raise ValueError(f"overrides.{name}: {message}, got {value!r}") from error
    return typed


@cache
def _choices() -> dict[str, Any]:
    described = ("name", "arxiv", "note")
    return {name: kind for name, kind in get_type_hints(Preset).items() if name not in described}


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
    if detail["type"] == "model_type" and where in TrainConfig.model_fields:
        first = next(iter(getattr(TrainConfig.model_fields[where].annotation, "model_fields", ())), "")
        return f"{where} has fields of its own, such as {where}.{first}, and is no {detail['input']!r}"
    if detail["type"] != "extra_forbidden":
        message = str(detail["msg"]).removeprefix("Value error, ")
        # one of ours, which names what was given
        of_ours = detail["type"] == "value_error" and not message.startswith("Input ")
        return message if of_ours else f"{where}: {message}, got {detail['input']!r}"
    owner: Any = TrainConfig
    for part in section:
        owner = type(getattr(owner(), str(part)))
    return no_such_field(where, owner)


def no_such_field(where: str, owner: type[BaseModel]) -> str:
    return f"{where}: there is no such field{hint(where.rpartition('.')[2], owner.model_fields)}"
