"""By what a service divides the gradients of a request: found by trying, since services differ and none says.

SkyRL's server takes the mean over the tokens of each sequence and then over the sequences; others are reported to add
all tokens up. Our losses have denominators of their own, so gradients are multiplied by what the service
will divide by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlvr.algorithms.tinker.service import TinkerError, TinkerService

Rows = Sequence[Sequence[int]]
TOLERANCE = 0.02  # of a ratio of norms; the rules below differ by a quarter and more
PROBED = 9  # tokens of the longer row


def _sum(rows: Rows) -> list[float]:
    # D = 1
    return [1.0] * len(rows)


def _mean_of_sequences(rows: Rows) -> list[float]:
    # D = N
    return [float(len(rows))] * len(rows)


def _mean_of_tokens(rows: Rows) -> list[float]:
    # D = sum_i (T_i - 1)
    return [float(sum(len(row) - 1 for row in rows))] * len(rows)


def _mean_of_means(rows: Rows) -> list[float]:
    # D_i = N (T_i - 1)
    return [float(len(rows) * (len(row) - 1)) for row in rows]


def _sum_of_means(rows: Rows) -> list[float]:
    # D_i = T_i - 1
    return [float(len(row) - 1) for row in rows]


# What each row's gradients are divided by, [N]; a row of T tokens has T - 1 targets.
RULES: dict[str, Callable[[Rows], list[float]]] = {
    "sum over tokens": _sum,
    "mean over sequences of sums": _mean_of_sequences,
    "mean over tokens": _mean_of_tokens,
    "mean over sequences of means over tokens": _mean_of_means,
    "sum over sequences of means over tokens": _sum_of_means,
}


def find_rule(service: TinkerService, tokens: Sequence[int], name: str) -> str:
    """The rule that the service follows, a name of `RULES`; weights and optimiser are as before afterwards.

    The gradient of one token is asked for in four requests, beside tokens and rows whose gradients are 0.
    Each rule divides it by other numbers in at least one of them, and the norms tell by which.

    Args:
        tokens: two or more of the vocabulary, to make rows of.
        name: under which the state before is kept on the service.

    Raises:
        TinkerError: the service reports no gradient norm, or follows none of the rules.
    """
    long = [tokens[i % len(tokens)] for i in range(PROBED)]
    short = long[: (PROBED + 1) // 2]  # causal attention: the gradient of its tokens is the same in both
    requests = [[short], [short, short], [short, long], [long]]
    # A step of size 0 moves no weight, but AdamW's moments and its count.
    before = service.save(name)
    norms = [_norm(service, rows) for rows in requests]
    service.load(before)
    # |g| of request k over |g| of the first = D_1 / D_k, D the rule's divisor of the first row
    for rule, divisors in RULES.items():
        shares = [divisors(requests[0])[0] / divisors(rows)[0] for rows in requests]
        if all(abs(norm - norms[0] * share) <= TOLERANCE * norm for norm, share in zip(norms, shares, strict=True)):
            return rule
    raise TinkerError(
        f"engine: {service.address} has gradient norms of {', '.join(f'{norm:.4g}' for norm in norms)}, which follow "
        f"none of the rules known here ({', '.join(RULES)}), so a slope would be divided by an unknown number"
    )


def _norm(service: TinkerService, rows: Rows) -> float:
    """The norm of the gradient of the first row's second token, as the service reports it of a step of size 0."""
    # One slope, on the second token: what comes after it changes nothing but the counts.
    logprobs = service.logprobs(rows)
    logprob_grads = [[0.0] * len(row) for row in rows]
    logprob_grads[0][1] = -1.0
    service.backward(rows, logprobs, logprob_grads)
    norm = grad_norm(service.step(lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, max_grad_norm=0.0))
    if not norm:
        raise TinkerError(
            f"engine: {service.address} reports no gradient norm with optim_step, so by what it divides gradients "
            "cannot be found out"
        )
    return norm


def grad_norm(metrics: Mapping[str, float]) -> float | None:
    """The norm of the gradient before clipping, by whichever name the service gives it; None where it gives none."""
    # "skyrl.ai/grad_norm" of SkyRL; each service has a name of its own
    named = [value for name, value in metrics.items() if "grad" in name.lower() and ("norm" in name or "l2" in name)]
    return float(named[0]) if named else None
