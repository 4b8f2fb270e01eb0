"""`Advantage`: one estimator in one object: name, formula, needs, how these are gathered, how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol

from rlvr.agents.conversation import Agent, TokenSequence
from rlvr.agents.episode import Episode
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.recipe.loss_parts import Choices
from rlvr.envs.open_registry import OpenRegistry, require_parts


class SequenceScorer(Protocol):
    """Log-probabilities of whole sequences; the learner is one."""

    def logprobs(self, sequences: Sequence[TokenSequence], model: Any = None) -> Tensor:
        """[B, T] under the policy or another model."""

    def top_logprobs(
        self, sequences: Sequence[TokenSequence], top: int, model: Any = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """[B, T] as `logprobs`; [B, T, K] ids of the likeliest tokens in each one's place; [B, T, K + 1] log-probs of
        these and of all others together.
        """

    def averaged(self) -> AbstractContextManager[None]:
        """The policy with the moving average of its weights, if it keeps one."""


StateValues = Callable[[Sequence[TokenSequence]], tuple[Tensor, Tensor, Tensor]]


@dataclass
class Sources:
    """What an advantage may ask for beside the episodes of a step.

    scorer          for log-probabilities
    player          continues from states inside episodes, for values by Monte Carlo
    env             an environment of the kind that is played, to fork
    decode          token ids to text
    encode          text to token ids
    state_values    the critic: features [B, T, H], values [B, T] before each token, and [B] after the last
    teacher         a model whose log-probabilities are the aim
    role_baselines  kept over the run
    continuations   continuations from each state (VinePPO)
    budgets, budget_prior, answers, phrase   BRPO's, see the config's section `credit`
    divergence_top  how many of the teacher's likeliest tokens the loss reads; 0 for none
    max_new_tokens, max_length, batch_size   of sampling
    renderer        messages to token ids
    hints           what the policy as its own teacher reads, see the config's section `credit`
    part_weights    the parts of the reward and their weights (GDPO), see the config's section `credit`
    """

    scorer: SequenceScorer
    player: Agent
    env: Any
    decode: Callable[[Sequence[int]], str]
    encode: Callable[[str], list[int]]
    state_values: StateValues | None = None
    teacher: Any = None
    role_baselines: Any = None
    continuations: int = 1
    budgets: tuple[int, ...] = ()
    budget_prior: str = "uniform"
    answers: int = 1
    phrase: str = ""
    max_new_tokens: int = 1
    batch_size: int = 256
    renderer: Any = None
    hints: tuple[str, ...] = ()
    part_weights: Mapping[str, float] = field(default_factory=dict)
    divergence_top: int = 0
    max_length: int = 1


@dataclass(frozen=True)
class Played:
    """The episodes of a step, and the reward of each with what shaping added."""

    episodes: Sequence[Episode]
    rewards: Sequence[float]


Gather = Callable[[Played, Sources], dict[str, Any]]


@dataclass(frozen=True)
class Advantage:
    """One estimator.

    name          what `Preset.advantage` says
    formula       A = ..., in one line
    compute       (inputs, choices) -> [B], or [B, T] if per_token
    source        the paper
    needs         entries of `AdvantageInputs` that it reads beside rewards and group
    gather        how these are made from the episodes of a step, a function for each kind
    per_token     whether A can differ within a sequence
    kl_per_token     whether it places a KL reward on tokens itself; else the sum over tokens is added to the reward
    critic        whether it needs a learned value function
    value_tokens  (inputs) -> [B, T] bool: where a critic's values hold, if not at every trained token
    teacher       whether it needs a teacher model
    forces_answers  whether its continuations are answers that a phrase asks for, which take tokens of their own
    """

    name: str
    formula: str
    compute: Callable[[AdvantageInputs, Choices], Tensor]
    source: str
    needs: tuple[str, ...] = ()
    gather: tuple[Gather, ...] = ()
    per_token: bool = False
    kl_per_token: bool = False
    critic: bool = False
    value_tokens: Callable[[AdvantageInputs], Tensor] | None = None
    teacher: bool = False
    forces_answers: bool = False


def _as_advantage(value: Any) -> Advantage:
    """An `Advantage`, also of a function (inputs, choices) -> [B], whose docstring begins with its formula."""
    if isinstance(value, FunctionType):
        # nothing else of a function says what it computes
        formula = (value.__doc__ or "").strip().partition("\n")[0] or f"{value.__name__}(inputs, choices)"
        value = Advantage(value.__name__, formula, value, value.__module__)
    require_parts(value, Advantage, "advantage")
    if not callable(value.compute):
        raise TypeError(f"the advantage {value.name!r} needs compute, a function (inputs, choices) -> [B] or [B, T]")
    return value  # type: ignore[no-any-return]


ADVANTAGES: OpenRegistry[Advantage] = OpenRegistry(
    "advantage",
    "rlvr.algorithms",
    {},
    _as_advantage,
)
"""Those of `rlvr.algorithms.advantages`, and what others register."""


def register_advantage(advantage: Advantage | Callable[..., Tensor]) -> Advantage:
    """Add an advantage; its name may then stand in a preset, a config and a flag.

    Args:
        advantage: an `Advantage`, or a function (inputs, choices) -> [B] that becomes one under its own name.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return ADVANTAGES.register(advantage)
