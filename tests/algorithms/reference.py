"""Every loss again, in float64 and plain loops, from the formulas: value and gradient of each token, derived by hand.

Nothing here imports the package. `ROWS` restates the table of algorithms by itself; a preset that disagrees with it, in
a constant or in code, fails `test_losses.py`. Masked entries are never read.
"""

from __future__ import annotations

import math

# name: (rule, anchor, parameters, aggregation, kl in the loss, corrections)
P2 = {"low": 0.2, "high": 0.2}
GSPO = {"low": 3e-4, "high": 4e-4}
ROWS = {
    "reinforce": ("log_prob", None, {}, "row_sum", None, ()),
    "reinforce_baseline": ("log_prob", None, {}, "row_sum", None, ()),
    "rloo": ("log_prob", None, {}, "row_sum", None, ()),
    "rloo_trl": ("ppo_product", "old_logprobs", P2, "rows", None, ()),
    "loop": ("ppo", "old_logprobs", P2, "tokens", None, ()),
    "reinforce_pp": ("ppo", "old_logprobs", P2, "tokens", None, ()),
    "reinforce_pp_baseline": ("ppo", "old_logprobs", P2, "tokens", ("k2", 0.01), ()),
    "ppo": ("ppo", "old_logprobs", P2, "tokens", None, ()),
    "grpo": ("ppo", "old_logprobs", P2, "row_mean", ("k3", 0.04), ()),
    "gdpo": ("ppo", "old_logprobs", P2, "row_mean", None, ()),
    "dr_grpo": ("ppo", "old_logprobs", P2, "constant", None, ()),
    "dapo": ("ppo", "old_logprobs", {"low": 0.2, "high": 0.28}, "tokens", None, ()),
    "dapo_prompt_mean": ("ppo", "old_logprobs", {"low": 0.2, "high": 0.28}, "prompts", None, ()),
    "lite_ppo": ("ppo", "old_logprobs", P2, "tokens", None, ()),
    "cispo": ("cap", "old_logprobs", {"cap": 5.0}, "tokens", None, ()),
    "scalerl": ("cap", "behaviour_logprobs", {"cap": 5.0}, "prompts", None, ()),
    "prime": ("band", "behaviour_logprobs", {"min": 0.125, "max": 8.0}, "tokens", None, ()),
    "dppo": ("tv", "behaviour_logprobs", P2, "tokens", ("behaviour_logprobs", 1e-3), ()),
    "importance_sampling": ("ratio", "behaviour_logprobs", {}, "sum", None, ()),
    "seq_is": ("cap_product", "behaviour_logprobs", {"cap": 5.0}, "row_sum", None, ()),
    "topr": ("topr", "behaviour_logprobs", {}, "rows", None, ()),
    "gspo": ("ppo_geometric", "old_logprobs", GSPO, "rows", None, ()),
    "gspo_token": ("gspo_token", "old_logprobs", GSPO, "row_mean", None, ()),
    "gmpo": ("gmpo", "old_logprobs", {"bound": 0.4}, "rows", None, ()),
    "clip_cov": ("clip_cov", "old_logprobs", P2, "tokens", None, ()),
    "kl_cov": ("kl_cov", "old_logprobs", {"tau": 1.0}, "tokens", None, ()),
    "sapo": ("sapo", "old_logprobs", {"up": 1.0, "down": 1.05}, "row_mean", None, ()),
    "kimi": ("kimi", "old_logprobs", {"tau": 0.1}, "rows", None, ()),
    "intellect2": ("ppo", "old_logprobs", {"low": 0.2, "high": 0.2, "dual": 4.0}, "tokens", ("k3", 0.001), ()),
    "olmorl": ("ppo", "old_logprobs", {"low": 0.2, "high": 0.272}, "tokens", None, (("tis", 2.0),)),
    "tis": ("ppo", "old_logprobs", P2, "tokens", None, (("tis", 2.0),)),
    "seq_tis": ("ppo", "old_logprobs", P2, "tokens", None, (("seq_tis", 2.0),)),
    "icepop": ("ppo", "old_logprobs", P2, "tokens", None, (("icepop", 0.5, 5.0),)),
    "seq_mis": ("ppo", "old_logprobs", P2, "tokens", None, (("seq_mis", 0.5, 2.0),)),
    "geo_mask_tis": ("ppo", "old_logprobs", P2, "tokens", None, (("geo", 0.95, 1.05), ("tis", 2.0))),
    "grpo_offpolicy_mask": ("ppo", "old_logprobs", P2, "row_mean", None, (("off_policy", 0.2),)),
    "grpo_unbiased_kl": ("ppo", "old_logprobs", P2, "row_mean", ("r k3", 0.04), ()),
    "maxrl": ("ratio", "behaviour_logprobs", {}, "tokens", None, ()),
    "gem_rebn": ("ppo", "old_logprobs", P2, "constant", None, ()),
    "gem_ppo": ("ppo", "old_logprobs", P2, "constant", None, ()),
    "turn_rloo": ("ppo", "old_logprobs", P2, "constant", None, ()),
    "gigpo": ("ppo", "old_logprobs", P2, "tokens", ("k3", 0.01), ()),
    "gigpo_state": ("ppo", "old_logprobs", P2, "tokens", ("k3", 0.01), ()),
    "spiral": ("ppo", "old_logprobs", P2, "constant", None, ()),
    "marshal": ("ppo", "old_logprobs", {"low": 0.2, "high": 0.2, "dual": 1.4}, "tokens", ("k3", 0.2), ()),
    "vineppo": ("ppo", "old_logprobs", P2, "tokens", ("k3", 1e-4), ()),
    "brpo": ("ppo", "old_logprobs", P2, "constant", None, ()),
    "seed_grpo": ("ppo", "old_logprobs", P2, "row_mean", None, ()),
    "gfpo": ("ppo", "old_logprobs", P2, "row_mean", None, ()),
    "passk": ("ppo", "old_logprobs", P2, "row_mean", None, ()),
    "passk_max": ("ppo", "old_logprobs", P2, "row_mean", None, ()),
    "grpo_process": ("ppo", "old_logprobs", P2, "row_mean", None, ()),
    "opo": ("log_prob", None, {}, "row_sum", None, ()),
    "on_policy_distillation": ("ratio", "behaviour_logprobs", {}, "tokens", None, ()),
    "sdpo": ("ratio", "behaviour_logprobs", {}, "tokens", None, ()),
}
AGGREGATIONS = {
    "token_mean": "tokens", "seq_mean_token_mean": "row_mean", "seq_mean_token_sum": "row_sum",
    "seq_mean_token_sum_norm": "constant", "prompt_mean": "prompts", "sequence_mean": "rows", "sum": "sum",
}  # fmt: skip
CORRECTIONS = {"geo_mask": "geo", "off_policy_mask": "off_policy"}
RULES = {
    ("none", "none"): "log_prob", ("none", "token"): "ratio",
    ("ppo", "token"): "ppo", ("ppo", "product"): "ppo_product",
    ("ppo", "sequence"): "ppo_geometric", ("ppo", "sequence_token"): "gspo_token", ("cispo", "token"): "cap",
    ("cispo", "product"): "cap_product", ("prime", "token"): "band", ("dppo", "token"): "tv", ("sapo", "token"): "sapo",
    ("clip_cov", "token"): "clip_cov", ("kl_cov", "token"): "kl_cov",
    ("gmpo", "sequence"): "gmpo", ("kimi", "product"): "kimi", ("topr", "product"): "topr",
}  # fmt: skip
PARAMETERS = {
    "ppo": lambda c: {"low": c.clip_low, "high": c.clip_high} | ({"dual": c.dual_clip} if c.dual_clip else {}),
    "clip_cov": lambda c: {"low": c.clip_low, "high": c.clip_high},
    "kl_cov": lambda c: {"tau": c.tau},
    "cispo": lambda c: {"cap": c.ratio_max},
    "prime": lambda c: {"min": c.ratio_min, "max": c.ratio_max},
    "dppo": lambda c: {"low": c.clip_low, "high": c.clip_high},
    "sapo": lambda c: {"up": c.gate[0], "down": c.gate[1]},
    "gmpo": lambda c: {"bound": c.clip_high},
    "kimi": lambda c: {"tau": c.tau},
}


def row_of(choices):
    """What stands in `ROWS` for these choices, for an algorithm of known parts that has no line there."""
    bounds = {
        "tis": lambda one: (one.high,), "seq_tis": lambda one: (one.high,), "off_policy_mask": lambda one: (one.high,),
    }  # fmt: skip
    kl = None
    if choices.kl_in == "loss" and choices.kl_coef:
        kl = ({"k3_unbiased": "r k3"}.get(choices.kl, choices.kl), choices.kl_coef)
    if choices.behaviour_penalty:
        kl = ("behaviour_logprobs", choices.behaviour_penalty)
    return (
        RULES[choices.clip, choices.ratio_level],
        None if choices.ratio_level == "none" else f"{choices.ratio_denominator}_logprobs",
        PARAMETERS.get(choices.clip, lambda c: {})(choices),
        AGGREGATIONS[choices.aggregation],
        kl,
        tuple(
            (CORRECTIONS.get(one.kind, one.kind), *bounds.get(one.kind, lambda one: (one.low, one.high))(one))
            for one in choices.corrections
        ),
    )


LIVE_ROWS_ONLY = {"gfpo"}  # a row without trained tokens leaves B
ROW_RULES = {"ppo_product", "ppo_geometric", "gmpo", "kimi", "topr"}


def ppo(r, a, p):
    """Value and derivative by log r of -min(r a, clip(r) a), with an optional dual clip."""
    clipped = min(max(r, 1 - p["low"]), 1 + p["high"])
    objective, slope = (r * a, r * a) if r * a <= clipped * a else (clipped * a, 0.0)
    if "dual" in p and a < 0 and objective < p["dual"] * a:
        objective, slope = p["dual"] * a, 0.0
    return -objective, -slope


def token_rule(rule, p, new, anchor, a, row):
    """(loss, derivative by this token's new) of one token. `row` holds sums over the row, and whether it is chosen."""
    r = math.exp(new - anchor) if anchor is not None else None
    if rule == "log_prob":
        return -a * new, -a
    if rule == "ratio":
        return -a * r, -a * r
    if rule == "ppo":
        return ppo(r, a, p)
    if rule == "clip_cov":
        return (0.0, 0.0) if row["chosen"] else ppo(r, a, p)
    if rule == "kl_cov":
        x = new - anchor
        drift = (p["tau"] * abs(x), p["tau"] * ((x > 0) - (x < 0))) if row["chosen"] else (0.0, 0.0)
        return -a * r + drift[0], -a * r + drift[1]
    if rule == "cap":
        w = min(r, p["cap"]) * a
        return -w * new, -w
    if rule == "cap_product":
        w = min(math.exp(row["log_ratio"]), p["cap"]) * a
        return -w * new, -w
    if rule == "band":
        w = r * a if p["min"] <= r <= p["max"] else 0.0
        return -w * new, -w
    if rule == "tv":
        moved = math.exp(new) - math.exp(anchor)
        if (a > 0 and moved > p["high"]) or (a < 0 and moved < -p["low"]):
            return 0.0, 0.0
        return -a * r, -a * r
    if rule == "gspo_token":
        return ppo(math.exp(row["log_ratio"] / row["length"]), a, p)
    if rule == "sapo":
        tau = p["up"] if a > 0 else p["down"]
        if tau * (r - 1) > 600:
            return -a * 4 / tau, 0.0
        gate = 1 / (1 + math.exp(-tau * (r - 1)))
        return -a * 4 / tau * gate, -a * 4 * gate * (1 - gate) * r
    raise KeyError(rule)


def row_rule(rule, p, new, anchor, a):
    """(loss of the row, [derivative by each token's new]); lists over the row's trained tokens."""
    n = len(new)
    log_ratios = [x - y for x, y in zip(new, anchor, strict=True)]
    if rule == "ppo_product":
        loss, slope = ppo(math.exp(sum(log_ratios)), a[0], p)
        return loss, [slope] * n
    if rule == "ppo_geometric":
        loss, slope = ppo(math.exp(sum(log_ratios) / n), a[0], p)
        return loss, [slope / n] * n
    if rule == "gmpo":
        bound = p["bound"]
        clipped = [min(x, bound) if a[0] > 0 else max(x, -bound) for x in log_ratios]
        value = math.exp(sum(clipped) / n)
        return -a[0] * value, [-a[0] * value / n * (c == x) for c, x in zip(clipped, log_ratios, strict=True)]
    if rule == "kimi":
        total = sum(log_ratios)
        loss = -sum(x * y for x, y in zip(a, new, strict=True)) + p["tau"] / 2 * total**2
        return loss, [-x + p["tau"] * total for x in a]
    if rule == "topr":
        ratio = math.exp(sum(log_ratios))
        w = [x if x >= 0 else min(ratio, 1.0) * x for x in a]
        return -sum(x * y for x, y in zip(w, new, strict=True)), [-x for x in w]
    raise KeyError(rule)


def regulariser(kl, new, old, sampler, ref):
    """(value, derivative by new) of the term beside the policy term."""
    if kl is None:
        return 0.0, 0.0
    kind, coef = kl
    if kind == "behaviour_logprobs":
        return coef * (new - sampler) ** 2, 2 * coef * (new - sampler)
    d = new - ref
    k3, slope = math.exp(-d) - 1 + d, 1 - math.exp(-d)
    if kind == "k2":
        return coef * d * d / 2, coef * d
    if kind == "k3":
        return coef * k3, coef * slope
    r = math.exp(new - old)
    return coef * r * k3, coef * r * (k3 + slope)


def correction(corrections, t, tokens, i, b, a):
    """Product of the weights of token t of row i."""
    rho = [math.exp(b["old_logprobs"][i][s] - b["behaviour_logprobs"][i][s]) for s in tokens]
    w = 1.0
    for kind, *bounds in corrections:
        product = math.prod(rho)
        mine = rho[tokens.index(t)]
        if kind == "tis":
            w *= min(mine, bounds[0])
        elif kind == "seq_tis":
            w *= min(product, bounds[0])
        elif kind == "icepop":
            w *= mine if bounds[0] <= mine <= bounds[1] else 0.0
        elif kind == "seq_mis":
            w *= product if bounds[0] <= product <= bounds[1] else 0.0
        elif kind == "geo":
            w *= 1.0 if bounds[0] <= product ** (1 / len(rho)) <= bounds[1] else 0.0
        elif kind == "off_policy":
            drift = sum(b["behaviour_logprobs"][i][s] - b["new"][i][s] for s in tokens) / len(tokens)
            w *= 0.0 if a < 0 and drift > bounds[0] else 1.0
    return w


def divisor(aggregation, live_only, i, tokens, b):
    """What the loss of a token (of a row, for "rows") of row i is divided by."""
    lengths = [[t for t in range(len(m)) if m[t]] for m in b["mask"]]
    rows = sum(len(x) > 0 for x in lengths) if live_only else len(lengths)
    if aggregation == "tokens":
        return sum(len(x) for x in lengths)
    if aggregation == "row_mean":
        return rows * len(tokens)
    if aggregation in ("row_sum", "rows"):
        return rows
    if aggregation == "constant":
        return rows * b["max_length"]
    if aggregation == "prompts":
        own = sum(len(x) for x, g in zip(lengths, b["group"], strict=True) if g == b["group"][i])
        return len(set(b["group"])) * own
    if aggregation == "sum":
        return 1
    raise KeyError(aggregation)


def loss_and_gradient(choices, b):
    """(loss, gradient [B][T]) of an algorithm. b: lists of Python floats under the keys of `policy_loss`, and `new`."""
    rule, anchor, p, aggregation, kl, corrections = ROWS.get(choices.name) or row_of(choices)
    live_only = choices.name in LIVE_ROWS_ONLY if choices.name in ROWS else not choices.count_empty_sequences
    loss = 0.0
    gradient = [[0.0] * len(m) for m in b["mask"]]
    for i, mask in enumerate(b["mask"]):
        tokens = [t for t in range(len(mask)) if mask[t]]
        if not tokens:
            continue
        given = b["advantages"][i]
        a = {t: given[t] if isinstance(given, list) else given for t in tokens}
        new = {t: b["new"][i][t] for t in tokens}
        against = {t: b[anchor][i][t] if anchor else None for t in tokens}
        d = divisor(aggregation, live_only, i, tokens, b)
        if rule in ROW_RULES:
            value, logprob_grads = row_rule(rule, p, *([x[t] for t in tokens] for x in (new, against, a)))
            loss += value / d
            for t, slope in zip(tokens, logprob_grads, strict=True):
                gradient[i][t] += slope / d
            continue
        row = {"length": len(tokens)}
        if anchor:
            row["log_ratio"] = sum(new[t] - against[t] for t in tokens)
        for t in tokens:
            row["chosen"] = b["covariant"][i][t]
            w = correction(corrections, t, tokens, i, b, a[t]) if corrections else 1.0
            value, slope = token_rule(rule, p, new[t], against[t], a[t], row)
            extra, extra_slope = regulariser(
                kl, new[t], b["old_logprobs"][i][t], b["behaviour_logprobs"][i][t], b["ref_logprobs"][i][t]
            )
            loss += (w * value + extra) / d
            gradient[i][t] += (w * slope + extra_slope) / d
    return loss, gradient


# Advantages


def groups_of(group):
    """{id: [rows]}"""
    found = {}
    for i, g in enumerate(group):
        found.setdefault(g, []).append(i)
    return found


def std(values, ddof=1):
    mean = sum(values) / len(values)
    return math.sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - ddof))


def per_group(rewards, group, rule):
    """rule(list of a group's rewards) -> list; 0 for groups of one and groups without spread."""
    out = [0.0] * len(rewards)
    for rows in groups_of(group).values():
        values = [rewards[i] for i in rows]
        if len(values) > 1 and max(values) > min(values):
            for i, x in zip(rows, rule(values), strict=True):
                out[i] = x
    return out


def centred(values):
    mean = sum(values) / len(values)
    return [x - mean for x in values]


def z_score(values, guard=1e-6):
    return [x / (std(values) + guard) for x in centred(values)]


def leave_one_out(values):
    n = len(values)
    return [x - (sum(values) - x) / (n - 1) for x in values]


def whiten_tokens(a, mask, guard=1e-8):
    values = [x for row, m in zip(a, mask, strict=True) for x, on in zip(row, m, strict=True) if on]
    mean, spread = sum(values) / len(values), std(values)
    flat = max(values) == min(values)
    return [
        [(x - mean) / (spread + guard) if on and not flat else 0.0 for x, on in zip(row, m, strict=True)]
        for row, m in zip(a, mask, strict=True)
    ]


def gae(rewards, values, mask, gamma=1.0, lam=1.0, bootstrap=0.0):
    """One row, by the definition: A_t = sum_k (gamma lam)^k delta_{t+k} over trained tokens."""
    tokens = [t for t in range(len(mask)) if mask[t]]
    earned = dict.fromkeys(tokens, 0.0)
    for t, r in enumerate(rewards):
        before = [s for s in tokens if s <= t]
        if before:
            earned[before[-1]] += r
    v = [values[t] for t in tokens] + [bootstrap]
    delta = [earned[t] + gamma * v[k + 1] - v[k] for k, t in enumerate(tokens)]
    out = [0.0] * len(mask)
    for k, t in enumerate(tokens):
        out[t] = sum((gamma * lam) ** (j - k) * delta[j] for j in range(k, len(tokens)))
    return out
