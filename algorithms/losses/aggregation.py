"""From a loss per token (or per row) to one number: what the sum is divided by is half of an algorithm.

Every denominator is that of the *whole* optimizer batch: count it once with `count_denominators`, over all
micro-batches and all ranks, then divide each micro-batch's partial sum by it. The partial losses add up to the loss of
the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.algorithms.presets import AGGREGATIONS, Preset

Batch = Mapping[str, Any]
Tensor = torch.Tensor


class MissingInput(KeyError, ValueError):
    """A batch lacks an entry that the algorithm needs; the message says which, and what it is."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the quoted repr


class Rows:
    """Which token belongs to which row: sums over rows and their inverse, padded or packed.

    mask [B, T] bool: tokens that were sampled by the policy and are trained on. Without `row_id` a row is a line of
    the tensor (R = B). With `row_id` [B, T] of ints several rows share a line, or a row spans lines.
    """

    def __init__(self, mask: Tensor, row_id: Tensor | None = None, n_rows: int | None = None) -> None:
        self.mask = mask
        self.row_id = None
        if row_id is None:
            self.n = mask.shape[0]
        else:
            if row_id.shape != mask.shape:
                raise ValueError(f"row_id has shape {tuple(row_id.shape)}, the mask {tuple(mask.shape)}")
            used = row_id[mask]
            top = int(used.max()) + 1 if used.numel() else 0
            self.n = top if n_rows is None else n_rows
            if used.numel() and (int(used.min()) < 0 or top > self.n):
                raise ValueError(
                    f"row_id runs from {int(used.min())} to {top - 1} on trained tokens, but there are {self.n} rows"
                )
            self.row_id = torch.where(mask, row_id, 0).long()
        self.lengths = self.sum(mask.long())

    def sum(self, x: Tensor) -> Tensor:
        """[B, T] -> [R], over trained tokens only."""
        x = torch.where(self.mask, x, 0)
        if self.row_id is None:
            return x.sum(1)
        return x.new_zeros(self.n).index_add(0, self.row_id.reshape(-1), x.reshape(-1))

    def mean(self, x: Tensor) -> Tensor:
        """[B, T] -> [R], mean over trained tokens; 0 for a row without any."""
        return self.sum(x) / self.lengths.clamp(min=1)

    def expand(self, per_row: Tensor) -> Tensor:
        """[R] -> [B, T]: every token gets its row's value, masked tokens get 0."""
        if self.row_id is None:
            return torch.where(self.mask, per_row[:, None], _zero(per_row))
        if self.n == 0:
            return torch.zeros_like(self.mask, dtype=per_row.dtype)
        return torch.where(self.mask, per_row[self.row_id], _zero(per_row))


def _zero(x: Tensor) -> Tensor:
    return torch.zeros((), dtype=x.dtype, device=x.device)


@dataclass(frozen=True)
class Denominators:
    """Counts of the whole optimizer batch. Plain numbers, so they travel between processes.

    n_tokens        trained tokens
    n_rows          rows, with and without trained tokens; n_live_rows only those with
    prompt_tokens   {group id: trained tokens of the prompt}; empty when the batch names no groups
    max_length      the constant of Dr. GRPO: the generation budget, never the padded width
    """

    n_tokens: int
    n_rows: int
    n_live_rows: int
    prompt_tokens: Mapping[int, int] = field(default_factory=dict)
    max_length: float | None = None

    @property
    def n_prompts(self) -> int:
        return len(self.prompt_tokens)

    @property
    def n_live_prompts(self) -> int:
        return sum(tokens > 0 for tokens in self.prompt_tokens.values())

    @staticmethod
    def merge(parts: Iterable[Denominators]) -> Denominators:
        """Of several disjoint sets of rows; a prompt's rows may be split over them (same group id)."""
        parts = list(parts)
        prompts: dict[int, int] = {}
        for part in parts:
            for group, tokens in part.prompt_tokens.items():
                prompts[group] = prompts.get(group, 0) + tokens
        lengths = {part.max_length for part in parts}
        if len(lengths) != 1:
            raise ValueError(f"parts of one batch disagree on max_length: {sorted(map(str, lengths))}")
        return Denominators(
            n_tokens=sum(part.n_tokens for part in parts),
            n_rows=sum(part.n_rows for part in parts),
            n_live_rows=sum(part.n_live_rows for part in parts),
            prompt_tokens=prompts,
            max_length=lengths.pop(),
        )

    def all_reduce(self, process_group: Any = None) -> Denominators:
        """The sum over all processes of `torch.distributed` (itself when it is not initialised).

        The loss of the whole batch is then the *sum* of the ranks' losses: where gradients are averaged over ranks
        (DDP), multiply the loss by the world size.
        """
        dist = torch.distributed
        if not (dist.is_available() and dist.is_initialized()):
            return self
        parts: list[Any] = [None] * dist.get_world_size(process_group)
        dist.all_gather_object(parts, self, group=process_group)
        return Denominators.merge(parts)


def rows_of(batch: Batch, mask: Tensor) -> Rows:
    """The rows of a batch: lines of the mask, or what its `row_id` says."""
    row_id = batch.get("row_id")
    if row_id is None:
        return Rows(mask)
    row_id = torch.as_tensor(row_id, device=mask.device)
    for key in ("group", "advantages"):
        value = batch.get(key)
        if value is not None and torch.as_tensor(value).dim() == 1:
            return Rows(mask, row_id, len(value))
    return Rows(mask, row_id)


def groups_of(batch: Batch, rows: Rows) -> Tensor | None:
    """[R] group ids, or None. A packed batch may give them per token."""
    group = batch.get("group")
    if group is None:
        return None
    group = torch.as_tensor(group, device=rows.mask.device)
    if group.dim() == 2 and rows.row_id is not None and group.shape == rows.mask.shape:
        ids = group.new_zeros(rows.n)
        return ids.index_put((rows.row_id[rows.mask],), group[rows.mask])
    if group.shape != (rows.n,):
        raise ValueError(f"group has shape {tuple(group.shape)}, expected one id per row: ({rows.n},)")
    return group


def as_mask(mask: Any, device: torch.device | None = None) -> Tensor:
    """Bool [B, T]; anything else than 0 and 1 is refused."""
    out: Tensor = torch.as_tensor(mask, device=device)
    if out.dim() != 2:
        raise ValueError(f"mask has shape {tuple(out.shape)}, expected [B, T]")
    if out.dtype == torch.bool:
        return out
    if not ((out == 0) | (out == 1)).all():
        raise ValueError("mask holds values other than 0 and 1: weights belong in the advantages")
    return out.bool()


def count_denominators(batch: Batch) -> Denominators:
    """Count a batch (`mask` [B, T], optional `group`, `row_id`, `max_length`); see `Denominators`.

    Give it the whole batch of an optimizer step, before cutting it into micro-batches; with several processes follow it
    by `.all_reduce()`.
    """
    if batch.get("mask") is None:
        raise MissingInput("the batch has no 'mask' ([B, T] bool, True on trained tokens)")
    mask = as_mask(batch["mask"])
    rows = rows_of(batch, mask)
    lengths = rows.lengths.tolist()
    group = groups_of(batch, rows)
    prompts: dict[int, int] = {}
    if group is not None:
        for name, length in zip(group.tolist(), lengths, strict=True):
            prompts[name] = prompts.get(name, 0) + length
    max_length = batch.get("max_length")
    return Denominators(
        n_tokens=sum(lengths),
        n_rows=rows.n,
        n_live_rows=sum(length > 0 for length in lengths),
        prompt_tokens=prompts,
        max_length=None if max_length is None else float(max_length),
    )


def aggregate(
    loss: Tensor,
    rows: Rows,
    how: str,
    denominators: Denominators,
    group: Tensor | None = None,
    count_empty_rows: bool = True,
) -> Tensor:
    """One number from a loss per token [B, T] or, for how="rows", per row [R].

    token_mean               sum / N_tokens                               DAPO's code, CISPO, PPO
    seq_mean_token_mean      (1/B) sum_i (1/|y_i|) sum_t                  GRPO, SAPO
    seq_mean_token_sum       (1/B) sum_i sum_t                            REINFORCE, RLOO
    seq_mean_token_sum_norm  sum / (B * max_length)                       Dr. GRPO
    prompt_mean              (1/Q) sum_q sum_{i in q} / sum_{i in q}|y_i| DAPO as written, ScaleRL
    rows                     (1/B) sum_i l_i                              GSPO, GMPO, Kimi
    sum                      sum                                          Tinker

    Denominators are the batch's. A row without trained tokens counts in B (and its prompt in Q), so that filtering a
    row never re-weights its neighbours; `count_empty_rows=False` leaves it out. Some trainers divide by the counts of
    the micro-batch or the rank, which is another loss.
    """
    if how not in AGGREGATIONS:
        raise ValueError(f"unknown aggregation {how!r}; allowed: {', '.join(AGGREGATIONS)}")
    n_rows = denominators.n_rows if count_empty_rows else denominators.n_live_rows
    if how == "rows":
        return torch.where(rows.lengths > 0, loss, 0).sum() / n_rows
    if how == "seq_mean_token_mean":
        return rows.mean(loss).sum() / n_rows
    total = rows.sum(loss)
    if how == "prompt_mean":
        n_prompts = denominators.n_prompts if count_empty_rows else denominators.n_live_prompts
        return (total / _prompt_tokens(rows, group, denominators)).sum() / n_prompts
    if how == "sum":
        return total.sum()
    if how == "token_mean":
        return total.sum() / denominators.n_tokens
    if how == "seq_mean_token_sum":
        return total.sum() / n_rows
    return total.sum() / (n_rows * constant_length(denominators))


def _prompt_tokens(rows: Rows, group: Tensor | None, denominators: Denominators) -> Tensor:
    """[R]: trained tokens of each row's prompt, in the whole batch."""
    if group is None:
        raise MissingInput("aggregation 'prompt_mean' needs 'group' ([B] ids of prompts) in the batch")
    known = denominators.prompt_tokens
    missing = sorted({name for name in group.tolist() if name not in known})
    if missing:
        raise ValueError(f"groups {missing[:5]} are not in the denominators: count the whole batch, with its groups")
    tokens = [max(known[name], 1) for name in group.tolist()]
    return torch.tensor(tokens, device=rows.mask.device, dtype=torch.float32)


def constant_length(denominators: Denominators) -> float:
    """Dr. GRPO's constant, or the error that says how to give it."""
    length = denominators.max_length
    if length is None:
        raise MissingInput(
            "aggregation 'seq_mean_token_sum_norm' (Dr. GRPO) needs 'max_length' in the batch or the denominators: a "
            "constant, the generation budget in tokens, never the padded width"
        )
    if not 0 < length < float("inf"):
        raise ValueError(f"max_length must be a positive number of tokens, not {length}")
    return length


def companion(preset: Preset) -> str:
    """How a per-token extra (KL, entropy) is aggregated beside the preset's policy term.

    A loss per row has no token sum: the extra takes the form whose on-policy denominator equals that of the row loss
    (a geometric mean divides by |y|, a product does not).
    """
    if preset.aggregation != "rows":
        return preset.aggregation
    return "seq_mean_token_mean" if preset.level == "sequence" else "seq_mean_token_sum"
