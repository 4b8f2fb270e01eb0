"""What advantages and losses read of a batch: two frozen records, each entry with its shape and its meaning.

A mapping is taken for a record. It is closed: a name that is an entry of neither record is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.envs.core.hints import did_you_mean


class MissingInput(KeyError, ValueError):
    """A batch lacks an entry that the algorithm needs; the message says which, and what it is."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the quoted repr


def entry(shape: str, meaning: str) -> Any:
    """A field of `Entries`: its shape in dimension letters, and what it means. It is None until it is given."""
    return field(default=None, metadata={"shape": shape, "meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class Entries:
    """Base of the records that losses and advantages read. Frozen; an entry that was not given is None."""

    @classmethod
    def of(cls, batch: Self | Mapping[str, object]) -> Self:
        """The record of a mapping; what is an entry of another record alone is left out.

        Raises:
            TypeError: it is no mapping, or has a name that is an entry of no record.
        """
        if isinstance(batch, cls):
            return batch
        if not isinstance(batch, Mapping):
            raise TypeError(f"a batch is a {cls.__name__} or a mapping of its entries, not {type(batch).__name__}")
        names = _names(cls)
        if strange := [name for name in batch if name not in names]:
            _require_entries(strange)
        return cls(**{name: batch[name] for name in names & batch.keys()})

    def need(self, name: str, why: str) -> Any:
        """The entry.

        Raises:
            MissingInput: it was not given; ``why`` says what needs it.
        """
        value = getattr(self, name)
        if value is None:
            raise MissingInput(f"{why} needs {name!r} in the batch: {describe(type(self), name)}")
        return value

    def shaped(self, name: str, shape: tuple[int, ...], why: str) -> Any:
        """The entry as a tensor of this shape.

        Raises:
            MissingInput: it was not given.
            ValueError: it has another shape.
        """
        value = torch.as_tensor(self.need(name, why))
        if tuple(value.shape) != shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}, {why} needs {shape}: {describe(type(self), name)}"
            )
        return value


@dataclass(frozen=True, kw_only=True)
class AdvantageInputs(Entries):
    """The entries of a whole batch for `compute_advantages`: B sequences of T tokens, not packed."""

    rewards: Tensor | None = entry("B", "the reward of each sequence, shaping included")
    group: Tensor | None = entry("B", "ints, sequences of one group answer one task")
    mask: Tensor | None = entry("B, T", "bool, True on trained tokens")
    token_rewards: Tensor | None = entry("B, T", "rewards per token that add up to `rewards`")
    old_logprobs: Tensor | None = entry("B, T", "log-probs of the policy that is compared with the reference")
    ref_logprobs: Tensor | None = entry(
        "B, T", "log-probs of the frozen reference, for the KL in the reward; or use .replace(kl_coef=0.0)"
    )
    behaviour_logprobs: Tensor | None = entry("B, T", "log-probs under which the tokens were sampled")
    teacher_logprobs: Tensor | None = entry("B, T", "log-probs of the teacher")
    left_out: Tensor | None = entry("B", "bool, sequences that lose their tokens, as they have no teacher")
    values: Tensor | None = entry("B, T", "the critic's values of the states before each token")
    bootstrap: Tensor | None = entry(
        "B", "the value after the last token of a truncated sequence, 0 of a terminated one"
    )
    features: Tensor | None = entry("B, T, H", "hidden states that the critic reads")
    turn: Tensor | None = entry("B, T", "int, the turn of each trained token, from 0")
    turn_rewards: Tensor | None = entry("B, K", "the reward of each turn, 0 where there was none")
    reward_parts: Tensor | None = entry("B, M", "the named parts of each sequence's reward")
    part_weights: Sequence[float] | None = entry("M", "the weight of each part")
    state: Tensor | None = entry("B, K", "int, equal for turns of a group that begin in the same state")
    step: Tensor | None = entry("B, T", "int, the step of each trained token, from 0")
    step_rewards: Tensor | None = entry("B, K", "the reward of each step")
    step_values: Tensor | None = entry("B, K", "Monte-Carlo values of the states before each step")
    budget_scores: Tensor | None = entry("B, S", "the score of each sequence when its thought is cut at each budget")
    budget_slice: Tensor | None = entry("B, T", "int, the budget slice of each trained token")
    budget_probs: Sequence[float] | None = entry("S", "how likely each budget is; uniform without")
    clusters: Tensor | None = entry("B", "int, equal for sequences that gave the same answer")
    roles: Sequence[Hashable] | None = entry("B", "one hashable per sequence, such as (game, player)")
    role_baselines: Any = entry("", "a RoleBaselines, kept over the run")
    continuations: int | None = entry("", "how many continuations were played for the values; only logged")


@dataclass(frozen=True, kw_only=True)
class LossInputs(Entries):
    """The entries of a (micro-)batch for `policy_loss`; B sequences of T tokens, or R sequences packed into B lines."""

    mask: Tensor | None = entry("B, T", "bool, True on the tokens that the policy sampled")
    advantages: Tensor | None = entry("R or B, T", "see compute_advantages; None until they are computed")
    old_logprobs: Tensor | None = entry(
        "B, T", "log-probs of the trainer when the batch was taken, the denominator of its ratio or correction"
    )
    behaviour_logprobs: Tensor | None = entry(
        "B, T", "log-probs of the policy that sampled, as its engine reported them: the denominator of a ratio"
    )
    ref_logprobs: Tensor | None = entry(
        "B, T", "log-probs of the frozen reference for the KL term; without one use .replace(kl_coef=0.0)"
    )
    entropy: Tensor | None = entry(
        "B, T", "entropy of the policy at each token, with gradient; or use .replace(entropy_coef=0.0)"
    )
    uncertain: Tensor | None = entry(
        "B, T", "bool, True on the tokens of highest entropy of the batch; or use .replace(entropy_share=1.0)"
    )
    covariant: Tensor | None = entry("B, T", "bool, True on the tokens that `preset.clip_rule.choose` gives")
    teacher_top: Tensor | None = entry("B, T, K", "ids of the teacher's likeliest tokens in each one's place")
    teacher_top_logprobs: Tensor | None = entry(
        "B, T, K + 1", "the teacher's log-probs of these and of all others; or use .replace(divergence='sampled')"
    )
    top_logprobs: Tensor | None = entry("B, T, K + 1", "the policy's log-probs of the same, with gradient")
    observations: Tensor | None = entry(
        "B, T", "bool, True on the observations of later turns; or use .replace(observation_coef=0.0)"
    )
    group: Tensor | None = entry("R", "ints, ids of prompts, unique over the whole batch")
    sequence_id: Tensor | None = entry("B, T", "ints, which sequence each token of a packed batch belongs to")
    pairs: Tensor | None = entry("P, 2", "ints, the preferred and the other sequence of each pair")
    max_length: float | None = entry("", "Dr. GRPO's constant: the generation budget in tokens, never the padded width")

    def pick(self, index: Any, width: int | None = None) -> LossInputs:
        """The sequences with these indices [K], trimmed to ``width`` tokens, of a batch that is not packed."""
        if self.sequence_id is not None:
            raise ValueError("sequences of a packed batch share lines: cut it before packing")

        def cut(value: Tensor) -> Tensor:
            chosen = value[index]
            return chosen if width is None or chosen.dim() < 2 else chosen[:, :width]

        return self._each_tensor(cut)

    def to(self, device: Any) -> LossInputs:
        return self._each_tensor(lambda value: value.to(device))

    def _each_tensor(self, change: Callable[[Tensor], Tensor]) -> LossInputs:
        entries: dict[str, Any] = {entry_field.name: getattr(self, entry_field.name) for entry_field in fields(self)}
        changed: dict[str, Any] = {
            name: change(value) if isinstance(value, torch.Tensor) else value for name, value in entries.items()
        }
        return LossInputs(**changed)


def _names(record: type[Entries]) -> set[str]:
    return {entry_field.name for entry_field in fields(record)}


def _require_entries(names: Iterable[object]) -> None:
    """Check that each is an entry of one of the records.

    Raises:
        TypeError: one is not; with the nearest.
    """
    # `new` is the first argument of a loss, and may stand in the batch that is its second.
    entries = _names(AdvantageInputs) | _names(LossInputs) | {"new"}
    for name in names:
        if name not in entries:
            raise TypeError(f"a batch has no entry {name!r}{did_you_mean(name, sorted(entries))}")


def describe(record: type[Entries], name: str) -> str:
    """Shape and meaning of an entry: ``[B, T] log-probs of the frozen reference``."""
    metadata = next(entry_field.metadata for entry_field in fields(record) if entry_field.name == name)
    shape = f"[{metadata['shape']}] " if metadata["shape"] else ""
    return f"{shape}{metadata['meaning']}"
