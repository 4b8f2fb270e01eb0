"""From a loss per token (or per sequence) to one number: what the sum is divided by is half of an algorithm.

Every denominator is that of the *whole* optimizer batch: count it once with `count_denominators`, over all
micro-batches and all ranks, then divide each micro-batch's partial sum by it. The partial losses add up to the loss of
the batch.
"""

from __future__ import annotations

from rlvr.algorithms.core.inputs import MissingInput
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import Denominators, SequenceIndex
from rlvr.algorithms.recipe.loss_parts import Aggregation, BatchLoss, register_aggregation


class TokenMean(Aggregation):
    """Each token of the batch counts the same."""

    name = "token_mean"
    formula = "sum / N tokens"

    def reduce(self, x: BatchLoss) -> Tensor:
        # L = sum_i sum_t l_it / sum_i |y_i|                        [B, T] -> []  DAPO's code, CISPO 2506.13585, PPO
        return x.sums.sum() / x.denominators.n_tokens


class SequenceMeanOfTokenMeans(Aggregation):
    """Each sequence counts the same, whatever its length."""

    name = "seq_mean_token_mean"
    formula = "(1/B) sum_i (1/|y_i|) sum_t"

    def reduce(self, x: BatchLoss) -> Tensor:
        # L = (1/B) sum_i (1/|y_i|) sum_t l_it                       [B, T] -> []  GRPO 2402.03300, SAPO 2511.20347
        return x.sequences.mean(x.loss).sum() / x.n_sequences


class SequenceMeanOfTokenSums(Aggregation):
    """The log-probability of a sequence is the sum of its tokens'."""

    name = "seq_mean_token_sum"
    formula = "(1/B) sum_i sum_t"

    def reduce(self, x: BatchLoss) -> Tensor:
        # L = (1/B) sum_i sum_t l_it                                [B, T] -> []  REINFORCE, RLOO 2402.14740
        return x.sums.sum() / x.n_sequences


class ConstantLength(Aggregation):
    """A constant in place of the length, so that long failures are not favoured."""

    name = "seq_mean_token_sum_norm"
    formula = "sum / (B * max_length)"
    needs = ("max_length",)

    def reduce(self, x: BatchLoss) -> Tensor:
        # L = sum_i sum_t l_it / (B max_length)                     [B, T] -> []  Dr. GRPO 2503.20783
        length = x.denominators.max_length
        if length is None:
            raise MissingInput(
                f"aggregation {self.name!r} (Dr. GRPO) needs 'max_length' in the batch or the denominators: a "
                "constant, the generation budget in tokens, never the padded width"
            )
        if not 0 < length < float("inf"):
            raise ValueError(f"max_length must be a positive number of tokens, not {length}")
        return x.sums.sum() / (x.n_sequences * length)


class PromptMean(Aggregation):
    """Each prompt counts the same, and in it each token."""

    name = "prompt_mean"
    formula = "(1/Q) sum_q [sum_(i in q) / sum_(i in q) |y_i|]"
    needs = ("group",)

    def reduce(self, x: BatchLoss) -> Tensor:
        # L = (1/Q) sum_q sum_(i in q) sum_t l_it / sum_(i in q) |y_i|   [B, T] -> []  DAPO 2503.14476, ScaleRL
        return (x.sums / self._tokens(x)).sum() / x.n_prompts

    def _tokens(self, x: BatchLoss) -> Tensor:
        """[R]: trained tokens of each sequence's prompt, in the whole batch."""
        if x.group is None:
            raise MissingInput(f"aggregation {self.name!r} needs 'group' in the batch: [B] ids of prompts")
        counts = x.denominators.prompt_tokens  # {group id: tokens}
        missing = sorted({name for name in x.group.tolist() if name not in counts})
        if missing:
            raise ValueError(
                f"groups {missing[:5]} are not in the denominators: count the whole batch, with its groups"
            )
        tokens = [max(counts[name], 1) for name in x.group.tolist()]  # [R]
        return torch.tensor(tokens, device=x.sequences.mask.device, dtype=torch.float32)


class SequenceMean(Aggregation):
    """The mean of a loss per sequence."""

    name = "sequence_mean"
    formula = "(1/B) sum_i"
    per_sequence = True

    def reduce(self, x: BatchLoss) -> Tensor:
        # L = (1/B) sum_i l_i                                        [R] -> []  GSPO 2507.18071, GMPO 2507.20673
        return torch.where(x.sequences.lengths > 0, x.loss, 0).sum() / x.n_sequences


class PlainSum(Aggregation):
    """Nothing is divided: the learning rate carries the batch size."""

    name = "sum"
    formula = "sum"

    def reduce(self, x: BatchLoss) -> Tensor:
        # L = sum_i sum_t l_it                                      [B, T] -> []  Tinker
        return x.sums.sum()


for _aggregation in (
    TokenMean(),
    SequenceMeanOfTokenMeans(),
    SequenceMeanOfTokenSums(),
    ConstantLength(),
    PromptMean(),
    SequenceMean(),
    PlainSum(),
):
    register_aggregation(_aggregation)


def aggregate(
    loss: Tensor,
    sequences: SequenceIndex,
    how: Aggregation,
    denominators: Denominators,
    group: Tensor | None = None,
    count_empty_sequences: bool = True,
) -> Tensor:
    """One number from a loss per token [B, T] or, where the aggregation takes one, per sequence [R].

    Denominators are the batch's. A sequence without trained tokens counts in B (and its prompt in Q), so that filtering
    one never re-weights its neighbours; `count_empty_sequences=False` leaves it out. Some trainers divide by the counts
    of the micro-batch or the rank, which is another loss.

    Raises:
        MissingInput, ValueError: it cannot divide by these counts, or gives more than one number.
    """
    every, counts = count_empty_sequences, denominators
    n_sequences = counts.n_sequences if every else counts.n_live_sequences
    n_prompts = counts.n_prompts if every else counts.n_live_prompts
    total = how.reduce(BatchLoss(loss, sequences, counts, group, n_sequences, n_prompts))
    if total.dim():
        raise ValueError(f"aggregation {how.name!r} gives one number, not a shape of {tuple(total.shape)}")
    return total


def regulariser_aggregation(aggregation: Aggregation, ratio_level: str) -> Aggregation:
    """How a per-token regulariser (KL, entropy) is aggregated beside the policy term.

    A loss per sequence has no token sum: the regulariser takes the form whose on-policy denominator equals that of the
    sequence loss (a geometric mean divides by |y|, a product does not).
    """
    if not aggregation.per_sequence:
        return aggregation
    # on policy d exp(mean_t log r_t) = (1/|y|) sum_t d log pi_t, and d prod_t r_t = sum_t d log pi_t
    return SequenceMeanOfTokenMeans() if ratio_level == "sequence" else SequenceMeanOfTokenSums()
