"""The log of a step: its line, what that says of the episodes, and what is worth a warning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import torch

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import Evaluation, summarise
from rlvr.algorithms.recipe.off_policy import samples_off_policy
from rlvr.algorithms.runs.callbacks import TimedCallback
from rlvr.algorithms.runs.run_folder import Clock
from rlvr.algorithms.runs.trackers import figures
from rlvr.algorithms.sampling.collect import Collected
from rlvr.algorithms.train.setup import RunSetup

MOST_KL = 1e-2  # k3, nats a token; sound engines in half precision stay below 1e-3
LEAST_ESS = 0.9


def collection_metrics(episodes: list[Episode]) -> dict[str, Any]:
    """What a batch of training episodes was like, before anything is learned from it."""
    result = summarise(episodes)
    groups: dict[int, set[float]] = {}
    for episode in episodes:
        if episode.valid:
            groups.setdefault(episode.group, set()).add(episode.reward)  # a fault of ours is no outcome
    return {
        "reward": result.reward,
        "success": result.success,
        "low": result.low,  # of the 95 % interval
        "high": result.high,
        "success_all": result.success_all,
        "groups_with_signal": sum(len(rewards) > 1 for rewards in groups.values()) / max(1, len(groups)),
        "turns": result.turns,
        "tool_calls": tool_calls(episodes),
        "sampled_tokens": result.tokens,
        "hit_token_limit": sum(episode.hit_token_limit for episode in episodes) / max(1, len(episodes)),
        **_invalid(result),
        **_worth(result),
        "unread": result.unread,
        "statuses": dict(sorted(result.statuses.items())),
    }


def evaluation_metrics(way: str, episodes: list[Episode], result: Evaluation) -> dict[str, Any]:
    """What held-out episodes amount to, under names that begin with the way that tokens were chosen."""
    figures = {
        "success": result.success,
        "low": result.low,  # of the 95 % interval
        "high": result.high,
        "success_all": result.success_all,
        "reward": result.reward,
        "tool_calls": tool_calls(episodes),
        "cut": result.cut_share,
        **_worth(result),
        **_invalid(result),
    }
    return {f"{way}_{name}": value for name, value in figures.items()}


def _worth(result: Evaluation) -> dict[str, float]:
    """How many episodes were paid and not right, and how many were right, where verdicts say so."""
    if result.hack_rate is None or result.clean_success is None:
        return {}
    return {"hack_rate": result.hack_rate, "clean_success": result.clean_success}


def _invalid(result: Evaluation) -> dict[str, Any]:
    """How many episodes are invalid, by cause, and where they gather."""
    return {
        "invalid": result.episodes - result.valid,
        "invalid_causes": [asdict(cause) for cause in result.invalid_causes],
        "provoked": [asdict(cause) for cause in result.provoked],
        "gathered": list(result.gathered),
    }


def tool_calls(episodes: list[Episode]) -> float:
    """How many replies of an episode a tool answered, in the mean."""
    answered = sum(turn.role == "tool" for episode in episodes for turn in episode.turns)
    return answered / max(1, len(episodes))


def role_metrics(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Of each role of a step of self-play: episodes, mean reward, sampled tokens, and entropy in nats a token.

    The entropy is -log pi of the sampled tokens, in the mean: an estimate of it without another pass.
    """
    by_role: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        # A match that ended before the seat moved has no tokens.
        if episode.valid and episode.tokens.sampled and "role" in episode.training:
            by_role[str(episode.training["role"])].append(episode)
    return (
        {
            "roles": {
                role: {
                    "episodes": len(played),
                    "reward": fmean(episode.reward for episode in played),
                    "tokens": fmean(episode.tokens.sampled for episode in played),
                    # H ~ -1/N sum_t log pi(y_t)     N sampled tokens of the role
                    "entropy": -sum(_sampled_logprobs(played)) / sum(episode.tokens.sampled for episode in played),
                }
                for role, played in sorted(by_role.items())
            }
        }
        if by_role
        else {}
    )


def _sampled_logprobs(episodes: Sequence[Episode]) -> list[float]:
    return [
        logprob
        for episode in episodes
        for logprob, sampled in zip(episode.tokens.logprobs, episode.tokens.mask, strict=True)
        if sampled
    ]


def staleness(episodes: Sequence[Episode], version: int) -> dict[str, Any]:
    """How many updates the policy has had since each token was sampled: mean, largest, and the share of each number."""
    ages: dict[int, int] = {}
    for episode in episodes:
        tokens = episode.tokens
        for mask, sampled_by in zip(tokens.mask, tokens.versions, strict=False):
            if mask and sampled_by >= 0:
                ages[version - sampled_by] = ages.get(version - sampled_by, 0) + 1
    total = sum(ages.values())
    if not total:
        return {}
    return {
        "staleness_mean": sum(age * count for age, count in ages.items()) / total,
        "staleness_max": max(ages),
        "staleness": {str(age): count / total for age, count in sorted(ages.items())},
    }


def mismatch_warning(metrics: Mapping[str, Any], *, corrected: bool, dtype: str) -> str:
    """What a person should know of a step whose behaviour policy was far from the learner's; "" if it was near."""
    kl, ess = metrics.get("behaviour_kl_k3", 0.0), metrics.get("behaviour_ess", 1.0)
    if kl <= MOST_KL and ess >= LEAST_ESS:
        return ""
    cures = [] if corrected else ["set schedule.correction to tis or icepop"]
    if metrics.get("staleness_max", 0) > 1:  # a depth of 1 is the least
        cures.append("lower schedule.depth")
    if dtype != "float32":
        cures.append("compute the head in float32 on both sides, or use float16 in place of bfloat16")
    cures.append("lower learner.lr")
    return (
        f"the policy that sampled is far from the one that learns (k3 {kl:.2g}, largest ratio "
        f"{metrics.get('behaviour_ratio_max', 1.0):.3g}, effective sample size {ess:.2f}): {'; '.join(cures)}"
    )


@dataclass(frozen=True, slots=True)
class StepSample:
    """The episodes of a step before it is learned from: whether they are kept, the step's clock, seconds so far."""

    collected: Collected
    kept: bool
    clock: Clock
    seconds: float
    sampling: float


def require_finite(model: Any) -> None:
    """Look at every weight before tokens are sampled with it: on a GPU a NaN is met as an assertion of the device.

    Raises:
        FloatingPointError: a weight is NaN or infinite; says which.
    """
    named = list(model.named_parameters())
    # x - x is 0 for numbers and NaN for the rest; the sum cannot overflow, as that of the weights could
    sums = [(parameter.detach() - parameter.detach()).sum().float() for _, parameter in named]
    if not sums or not bool(torch.stack([total.to(sums[0].device) for total in sums]).any()):  # a GPU waits once
        return
    for name, parameter in named:
        bad = int((~parameter.detach().isfinite()).sum())
        if bad:
            raise FloatingPointError(
                f"{bad} of {parameter.numel()} weights of {name} are NaN or infinite, so nothing can be sampled: go "
                "back to an earlier checkpoint, lower the learning rate, or use float32"
            )


def log(run: RunSetup, record: dict[str, Any], clock: Clock, **timing: float) -> None:
    """A line of each log file, the tracker's figures, and the callback's record."""
    where = {name: record[name] for name in ("phase", "step")}
    timing = {**clock.read(), **timing}
    run.folder.log(record, {**where, **timing})
    if run.tracker is not None:
        run.tracker.log(figures(record, timing), record.get("warm_step", record["step"]))
    if isinstance(run.callback, TimedCallback):
        run.callback.timed(timing)
    run.callback.step(record)


def keep_episodes(run: RunSetup, name: str, phase: str, episodes: Sequence[Episode]) -> None:
    """Episodes in a file of that name, and where a tracker shows them."""
    run.folder.write_episodes(name, episodes)
    if run.tracker is not None:
        run.tracker.log_episodes(phase, episodes, run.step)


def log_step(run: RunSetup, sample: StepSample, metrics: dict[str, Any], *, learning: float, syncing: float) -> None:
    """The line of a step, its episodes where they are kept, and a warning where the sampler is far from the learner.

    Args:
        learning, syncing: seconds of the update, and of handing over its weights.
    """
    episodes, seconds = sample.collected.played, sample.seconds
    sampling = min(sample.sampling, seconds)  # asynchronous sampling goes on meanwhile
    record = {
        "phase": "train",
        "step": run.step,
        **collection_metrics(episodes),
        **role_metrics(episodes),
        **(run.opponents.count(episodes) if run.opponents.pool else {}),
        **metrics,
    }
    sampled = sum(episode.tokens.sampled for episode in episodes)  # tokens of the policy alone
    log(
        run,
        record,
        sample.clock,
        collect_seconds=seconds,
        sample_seconds=sampling,
        environment_seconds=seconds - sampling,  # with grading, which is a part of a step
        update_seconds=learning,
        sync_seconds=syncing,
        tokens_per_second=sampled / max(seconds, 1e-9),
        episodes_per_second=len(episodes) / max(seconds, 1e-9),
    )
    if sample.kept:
        for notes in run.world.gather([episode.training for episode in episodes]):  # of its share of them
            for episode, noted in zip(episodes, notes, strict=True):
                episode.training |= noted
        keep_episodes(run, f"train-{run.step:06d}", "train", episodes)
    if run.sampler.versioned:
        off_policy = samples_off_policy(run.learner.preset)
        text = mismatch_warning(record, corrected=off_policy, dtype=run.config.model.dtype)
        # said once, and again when it has become twice as bad
        if text and record["behaviour_kl_k3"] > 2 * run.worst_mismatch:
            run.worst_mismatch = record["behaviour_kl_k3"]
            run.callback.say(f"step {run.step}: {text}")
