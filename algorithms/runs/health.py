"""What a person should know of a run that goes wrong, from the figures of its steps: pure functions, no display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean
from typing import Any, Final

from rlvr.agents.evaluation.summary import InvalidCause, invalid_warning, read_causes

Record = Mapping[str, Any]
STEPS: Final = 5  # steps in a row that a complaint needs
WINDOW: Final = 10  # steps of a mean
COLLAPSED: Final = 0.1  # share of the first entropy that is left
CLIPPED: Final = 0.3  # share of tokens whose ratio is clipped
MOVED: Final = 0.5  # nats of KL between the policy before and after an update
FALLEN: Final = 0.5  # share of the best mean reward that is left
EVEN: Final = 0.1  # of the mean reward of self-play from one half
PANEL_FALLEN: Final = 0.1  # of the share of matches not lost against a bot of the panel, below its best
WIDTHS: Final = (1, 2, 4)  # neighbouring evaluations of the panel whose mean is compared
CHANCE: Final = 0.01  # of an alarm of the panel in a whole run whose policy stays as it is
TOO_HARD: Final = (
    "take a lower env.level, a warm start from the expert (warm_start.steps), more samples (group_size), "
    "or worked examples (env.settings.few_shot)"
)
HACKED: Final = 0.05  # share of episodes that were paid and not right
SOLVED: Final = 0.95  # success, or share of matches not lost against each bot, of a policy that may be certain


def health(records: Sequence[Record], first: Sequence[Record] = ()) -> list[str]:
    """The complaints about a run, worst first; none where it is well.

    Args:
        records: of training steps and evaluations, in order, as `metrics.jsonl` holds them; others are passed over.
        first: the steps for which `begins` held, where `records` no longer has them.
    """
    steps = _steps(records)
    certain = role_certain(records, first)
    return [
        text
        for text in (
            panel_fallen(records), not_sampled(steps), faults(steps), hacked(steps), nothing_learned(steps),
            "" if certain else entropy_collapsed(steps, first),  # the mean over roles falls with one of them
            certain, *(rule(steps) for rule in (fallen, cut_off, unreadable, far_update)),
        )
        if text
    ]  # fmt: skip


def begins(record: Record, first: Sequence[Record]) -> bool:
    """Whether a step has one of the first entropies of the run or of a role, beside which later ones are held.

    Args:
        first: the earlier steps for which this was true.
    """
    names = ["", *_roles(record)]
    return any(_entropies([record], name) and len(_entropies(first, name)) < STEPS for name in names)


def not_sampled(steps: Sequence[Record]) -> str:
    """Every prompt is too long for a reply."""
    last = _last(steps, STEPS)
    # a reply of no tokens that is cut had no place left
    if last and all(_number(r, "hit_token_limit") == 1 and _number(r, "sampled_tokens") == 0 for r in last):
        return "every prompt is longer than max_length: nothing is sampled; raise it, or take shorter prompts"
    return ""


def faults(steps: Sequence[Record]) -> str:
    """More than 1 % of the episodes of the last steps are invalid; where they gather in the last of these is said."""
    last = [record for record in steps[-WINDOW:] if record.get("statuses")]
    played = sum(sum(record["statuses"].values()) for record in last)
    invalid = sum(_number(record, "invalid") or 0.0 for record in last)
    if not invalid or not last:
        return ""
    right = fmean([_number(record, "success_all") or 0.0 for record in last])
    valid_success = right * played / (played - invalid) if played > invalid else 0.0
    causes: Counter[tuple[str, str]] = Counter()
    for cause in read_causes(cause for record in last for cause in record.get("invalid_causes", ())):
        causes[cause.status, cause.cause] += cause.episodes
    ranked = [InvalidCause(*names, count) for names, count in causes.most_common(1)]
    text = invalid_warning(round(invalid), played, valid_success, ranked)
    gathered = [str(sentence) for record in last[-1:] for sentence in record.get("gathered", ())]
    return "; ".join([text, *gathered]) if text else ""


def hacked(steps: Sequence[Record]) -> str:
    """Episodes are paid that a second verdict calls worthless."""
    rates = _values(_last(steps, STEPS), "hack_rate")
    if len(rates) == STEPS and min(rates) >= HACKED:
        return (
            f"{fmean(rates):.0%} of the episodes were paid and are not right: read some and mend the reward, "
            "or withhold it where they are caught (the filter audit)"
        )
    return ""


def nothing_learned(steps: Sequence[Record]) -> str:
    """No group has members with different rewards, so no advantage is other than 0."""
    since = 0
    for record in reversed(steps):
        # baselines that are not the group's learn from equal rewards, too: their loss is not 0
        if _number(record, "groups_with_signal") != 0 or _number(record, "policy_loss") not in (None, 0):
            break
        since += 1
    if since < STEPS:
        return ""
    success = _number(steps[-1], "success") or 0.0
    # all right or all wrong: the task is too easy or too hard
    cure = "raise env.level" if success >= 0.5 else TOO_HARD
    return f"no group has disagreed for {since} steps: nothing is learned; {cure}"


def entropy_collapsed(steps: Sequence[Record], first: Sequence[Record] = ()) -> str:
    """The policy has become certain while it still fails."""
    ends = _collapse(steps, first)
    if ends and not _succeeds(steps):
        return f"entropy has collapsed from {ends[0]:.3g} to {ends[1]:.3g}: lower learner.lr, or add an entropy bonus"
    return ""


def role_certain(records: Sequence[Record], first: Sequence[Record] = ()) -> str:
    """A role of self-play has become certain of its moves: the mean over roles may hide it, and bots may not see it."""
    steps, panels = _steps(records), _panels(records)
    bots = panels[-1].get("sampled", {}).values() if panels else ()
    # where one move is right, a policy that hardly ever loses is certain of it
    if _succeeds(steps) or (bots and all(score["not_lost"] >= SOLVED for score in bots)):
        return ""
    for role in sorted({name for record in steps for name in _roles(record)}):
        if ends := _collapse(steps, first, role):
            cure = "lower learner.lr, or add a KL term"
            return f"the entropy of {role} has collapsed from {ends[0]:.3g} to {ends[1]:.3g} nats a token: {cure}"
    return ""


def cut_off(steps: Sequence[Record]) -> str:
    """Most replies run into the token limit."""
    last = _last(steps, STEPS)
    shares = _values(last, "hit_token_limit")
    if len(shares) == STEPS and min(shares) >= 0.5 and not not_sampled(steps):
        return f"{fmean(shares):.0%} of the episodes are cut at the token limit: raise it, or reward shorter replies"
    return ""


def unreadable(steps: Sequence[Record]) -> str:
    """Most answers are in no form that the grader reads."""
    last = _last(steps, STEPS)
    # of all statuses of a step, at least half in each of the last steps
    shares = [r.get("statuses", {}).get("unparsable", 0) / max(1, sum(r.get("statuses", {}).values())) for r in last]
    if shares and min(shares) >= 0.5:
        return f"{fmean(shares):.0%} of the answers cannot be read: the policy does not know the form that is asked for"
    return ""


def far_update(steps: Sequence[Record]) -> str:
    """An update moves the policy far, or most of it is clipped away."""
    last = _last(steps, STEPS)
    kl = _values(last, "approx_kl")
    if len(kl) == STEPS and min(kl) >= MOVED:
        return f"each update moves the policy far (KL {fmean(kl):.2g}): lower learner.lr"
    clipped = [(_number(r, "clip_frac_low") or 0.0) + (_number(r, "clip_frac_high") or 0.0) for r in last]
    if clipped and min(clipped) >= CLIPPED:
        return f"{fmean(clipped):.0%} of the tokens are clipped: lower learner.lr, or take fewer epochs"
    return ""


def fallen(steps: Sequence[Record]) -> str:
    """The reward was much higher before."""
    values = _values(steps, "reward")
    if len(values) < 3 * WINDOW:
        return ""
    # means of every window of ten steps; the last beside the best
    means = [fmean(values[at : at + WINDOW]) for at in range(len(values) - WINDOW + 1)]
    best = max(means)
    # a reward near 0 all along has not fallen
    if best > 0.05 and means[-1] < FALLEN * best:
        return f"the reward has fallen from {best:.2f} to {means[-1]:.2f}: go back to an earlier checkpoint"
    return ""


def panel_fallen(records: Sequence[Record]) -> str:
    """Self-play is as even as ever, but a bot that does not move is lost to more often: the policy has collapsed."""
    panels, rewards = _panels(records), _values(_last(_steps(records), STEPS), "reward")
    if len(rewards) < STEPS or not panels or abs(fmean(rewards) - 0.5) > EVEN:
        return ""
    bots = panels[-1].get("sampled", {})
    for name in bots:
        scores = [panel["sampled"][name] for panel in panels if name in panel.get("sampled", {})]
        if ends := _fall(scores, len(bots)):
            return (
                f"self-play is even ({fmean(rewards):.2f}), but {ends[1]:.0%} of the matches against {name} "
                f"are not lost where {ends[0]:.0%} were: go back to an earlier checkpoint, or add other opponents"
            )
    return ""


def _fall(scores: Sequence[Record], bots: int) -> tuple[float, float] | None:
    """The best and the last share of matches not lost against a bot, where chance does not explain the difference.

    Means of neighbouring evaluations are compared by the test of two proportions. In a long run the best of many is
    high by luck. At evaluation k the last is beside at most k - 1 others, for each width and bot, and the sum of
    1 / (k (k - 1)) over all k is 1; so the chances of all comparisons add up to `CHANCE`.
    """
    count = len(scores)
    for width in WIDTHS:
        if count < 2 * width:
            break
        means = [fmean(score["not_lost"] for score in scores[at : at + width]) for at in range(count - width + 1)]
        at = max(range(count - 2 * width + 1), key=means.__getitem__)
        best, now = means[at], means[-1]
        ends = (scores[at : at + width], scores[-width:])
        matches = [sum(score.get("matches", 0) for score in end) for end in ends]
        both = (best + now) / 2
        error = (both * (1 - both) * sum(1 / each for each in matches)) ** 0.5 if all(matches) else 0.0
        bound = -NormalDist().inv_cdf(CHANCE / (len(WIDTHS) * bots * count * (count - 1) ** 2))
        if now < best - max(PANEL_FALLEN, bound * error):
            return best, now
    return None


def _collapse(steps: Sequence[Record], first: Sequence[Record], role: str = "") -> tuple[float, float] | None:
    """The mean of the first entropies and of the last ones, where too little is left."""
    values = _entropies(steps, role)
    if len(values) < 2 * STEPS:
        return None
    # beside the run's own beginning: what is high depends on the model and the temperature
    start, now = fmean((_entropies(first, role) or values)[:STEPS]), fmean(values[-STEPS:])
    return (start, now) if start > 0 and now < COLLAPSED * start else None


def _entropies(steps: Sequence[Record], role: str) -> list[float]:
    """Of a role, or of all tokens."""
    return _values([_roles(record).get(role, {}) for record in steps] if role else steps, "entropy")


def _succeeds(steps: Sequence[Record]) -> bool:
    return all((_number(record, "success") or 0.0) >= SOLVED for record in _last(steps, STEPS))


def _steps(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.get("phase", "train") == "train"]


def _panels(records: Sequence[Record]) -> list[Any]:
    """Of the evaluations that have one."""
    return [record["panel"] for record in records if record.get("phase") == "evaluation" and record.get("panel")]


def _last(steps: Sequence[Record], count: int) -> Sequence[Record]:
    """The last steps; none where there are not so many yet."""
    return steps[-count:] if len(steps) >= count else ()


def _number(record: Record, name: str) -> float | None:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _roles(record: Record) -> Mapping[str, Record]:
    """The figures of each role of a step of self-play."""
    roles = record.get("roles")
    return roles if isinstance(roles, Mapping) and all(isinstance(each, Mapping) for each in roles.values()) else {}


def _values(steps: Sequence[Record], name: str) -> list[float]:
    numbers = [_number(record, name) for record in steps]
    return [number for number in numbers if number is not None and number == number]  # NaN is not itself
