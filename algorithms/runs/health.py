"""What a person should know of a run that goes wrong, from the figures of its steps: pure functions, no display."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

Record = Mapping[str, Any]
STEPS: Final = 5  # steps in a row that a complaint needs
WINDOW: Final = 10  # steps of a mean
COLLAPSED: Final = 0.1  # share of the first entropy that is left
CLIPPED: Final = 0.3  # share of tokens whose ratio is clipped
MOVED: Final = 0.5  # nats of KL between the policy before and after an update
FALLEN: Final = 0.5  # share of the best mean reward that is left
EVEN: Final = 0.1  # of the mean reward of self-play from one half
PANEL_FALLEN: Final = 0.1  # of the share of matches not lost against a bot of the panel, below its best


def health(records: Sequence[Record]) -> list[str]:
    """The complaints about a run, worst first; none where it is well.

    Args:
        records: of training steps, in order, as `metrics.jsonl` holds them; others are passed over.
    """
    steps = [record for record in records if record.get("phase", "train") == "train"]
    return [text for text in (panel_fallen(records), *(rule(steps) for rule in RULES)) if text]


def not_sampled(steps: Sequence[Record]) -> str:
    """Every prompt is too long for a reply."""
    last = _last(steps, STEPS)
    # a reply of no tokens that is cut had no place left
    if last and all(_number(r, "hit_token_limit") == 1 and _number(r, "sampled_tokens") == 0 for r in last):
        return "every prompt is longer than max_length: nothing is sampled; raise it, or take shorter prompts"
    return ""


def faults(steps: Sequence[Record]) -> str:
    """Episodes failed through no fault of the policy."""
    last = _last(steps, 1)
    played = sum(last[0].get("statuses", {}).values()) if last else 0
    invalid = _number(last[0], "invalid") if last else None
    # one in ten: a fault now and then is no complaint, they are counted and left out
    if invalid and played and invalid >= 0.1 * played:
        return f"{invalid:g} of {played} episodes of the last step failed through no fault of the policy"
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
    cure = "raise the level" if success >= 0.5 else "lower the level, or begin with a warm start"
    return f"no group has disagreed for {since} steps: nothing is learned; {cure}"


def entropy_collapsed(steps: Sequence[Record]) -> str:
    """The policy has become certain while it still fails."""
    values = _values(steps, "entropy")
    if len(values) < 2 * STEPS:
        return ""
    # beside the run's own beginning: what is high depends on the model and the temperature
    first, now = fmean(values[:STEPS]), fmean(values[-STEPS:])
    # a policy that succeeds may be certain
    solved = all((_number(record, "success") or 0.0) >= 0.95 for record in _last(steps, STEPS))
    if first > 0 and now < COLLAPSED * first and not solved:
        return f"entropy has collapsed from {first:.3g} to {now:.3g}: lower learner.lr, or add an entropy bonus"
    return ""


def role_certain(steps: Sequence[Record]) -> str:
    """A role of self-play has become certain of its moves: the mean over roles may hide it, and bots may not see it."""
    for role in sorted({name for record in steps for name in _roles(record)}):
        values = _values([_roles(record).get(role, {}) for record in steps], "entropy")
        if len(values) < 2 * STEPS:
            continue
        first, now = fmean(values[:STEPS]), fmean(values[-STEPS:])
        if first > 0 and now < COLLAPSED * first:
            cure = "lower learner.lr, or add a KL term"
            return f"the entropy of {role} has collapsed from {first:.3g} to {now:.3g} nats a token: {cure}"
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
    steps = [record for record in records if record.get("phase", "train") == "train"]
    panels = [record["panel"] for record in records if record.get("phase") == "evaluation" and record.get("panel")]
    rewards = _values(_last(steps, STEPS), "reward")
    if len(rewards) < STEPS or not panels or abs(fmean(rewards) - 0.5) > EVEN:
        return ""
    for name in panels[-1].get("sampled", {}):
        scores = [panel["sampled"][name] for panel in panels if name in panel.get("sampled", {})]
        shares = [score["not_lost"] for score in scores]
        # Few matches scatter by more than a tenth: var(p - q) = p (1 - p) / n + q (1 - q) / m
        ends = (scores[-1], max(scores, key=lambda score: score["not_lost"]))
        variance = sum(end["not_lost"] * (1 - end["not_lost"]) / end["matches"] for end in ends if end.get("matches"))
        if shares[-1] < max(shares) - max(PANEL_FALLEN, 2 * variance**0.5):
            return (
                f"self-play is even ({fmean(rewards):.2f}), but {shares[-1]:.0%} of the matches against {name} "
                f"are not lost where {max(shares):.0%} were: go back to an earlier checkpoint, or add other opponents"
            )
    return ""


RULES: Final[tuple[Callable[[Sequence[Record]], str], ...]] = (
    not_sampled, faults, nothing_learned, entropy_collapsed, role_certain, fallen, cut_off, unreadable, far_update,
)  # fmt: skip


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
