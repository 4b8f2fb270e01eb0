"""What every section of a config is, and the sections that say where and when a run samples."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Section(BaseModel):
    """Closed and frozen; the text under a field is its help."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


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
    deadline: float = Field(1800.0, gt=0, allow_inf_nan=False)
    """tinker: seconds that one request may take, waiting its turn included."""


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
    deadline: float = Field(600.0, gt=0, allow_inf_nan=False)
    """vllm-server: seconds that one reply may take, retries included."""
    concurrency: int = Field(256, ge=1)
    """vllm, vllm-server: replies that are sampled at once."""
    options: dict[str, int | float | bool | str] = Field(default_factory=dict)
    """vllm, and a server that is started: options of vllm.LLM, such as gpu_memory_utilization or enforce_eager."""
    sleep: bool = False
    """vllm on a GPU: give its memory back while the policy is updated."""
    tolerance: float = Field(0.0, ge=0)
    """vllm: nats by which a log-probability may differ from the learner's; 0 takes 1e-3, in half precision 0.1."""


class SelfPlaySection(Section):
    """Opponents of a game of several seats that are language models: the names are in env.settings.opponents."""

    every: int = Field(10, ge=1)
    """Steps after which the policy joins the pool; before the first, `pool` is the policy itself."""
    keep: int = Field(8, ge=1)
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
    depth: int = Field(1, ge=1)
    """async: steps that are sampled ahead, and so the most updates that a token may be older than the policy."""
    correction: Literal["none", "tis", "seq_tis", "icepop", "seq_mis"] = "none"
    """How an algorithm that ignores the policy that sampled is corrected; async refuses it with none."""
