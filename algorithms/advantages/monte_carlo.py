"""Advantages by Monte Carlo: VinePPO's values of steps, BRPO's answers to thoughts that are cut at budgets. [B, T]."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rlvr.agents.continuation import BranchPoint, branch_points, continue_from, reply_start
from rlvr.agents.episode import Episode
from rlvr.algorithms.advantages.gather import ragged, ragged_ints
from rlvr.algorithms.advantages.token_returns import gae
from rlvr.algorithms.advantages.token_rewards import at_last_token, mask_of, why
from rlvr.algorithms.advantages.turn_returns import Turns, per_turn
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import Groups, as_floats
from rlvr.algorithms.recipe.advantage import Advantage, Played, Sources
from rlvr.algorithms.recipe.loss_parts import Choices

MAX_STEPS = 25  # VinePPO's cap on the steps of an episode


def vine(rewards: Tensor, step_values: Any, step: Any, mask: Tensor) -> Tensor:
    """VinePPO (2410.01679): A of step k is V(s_{k+1}) - V(s_k), with V by Monte Carlo; the last one R - V. [B, T].

    rewards [B] at the end; step_values [B, K]: V of the state before step k by continuations; step [B, T].
    """
    steps = Turns(step, mask, what="step")  # [B, T] in K steps
    values = per_turn(step_values, mask, "step_values")  # [B, K]
    live = steps.live(values.shape[1])  # [B, K]
    outcome = at_last_token(rewards.to(values), live)  # [B, K], R at the last step
    # A_k = V(s_(k+1)) - V(s_k), of the last step R - V(s_k)       [B, K] -> [B, T]  VinePPO, 2410.01679
    # GAE with lam = 0 is the difference of values: rewards before the end are 0
    return steps.broadcast(gae(outcome, values, live, lam=0.0))


def split_steps(pieces: Sequence[str], separator: str = "\n", max_steps: int = 25) -> list[int]:
    """The step of every token, from the tokens' texts: a step ends with the token that completes a separator.

    VinePPO splits at lines and caps the number of steps at 20 to 25; what follows the cap belongs to the last step.
    """
    steps: list[int] = []
    step, text = 0, ""
    for piece in pieces:
        steps.append(step)
        text += piece
        if separator in text:
            # a separator can be made by two tokens, so texts are joined until it is whole
            text = ""
            step = min(step + 1, max_steps - 1)
    return steps


def reply_steps(episode: Episode, decode: Callable[[Sequence[int]], str]) -> list[int]:
    """The step of each token: a reply begins a step, and so does each of its lines; `MAX_STEPS` at most."""
    steps: list[int] = []
    first, before = 0, 0
    for turn in episode.turns:
        begin = reply_start(episode.tokens, before, turn.end)  # the first sampled token of the reply
        steps_of_reply = split_steps([decode([token]) for token in episode.tokens.ids[begin : turn.end]])
        # what is rendered before a reply counts to the reply's first step
        steps += [first] * (begin - before) + [first + step for step in steps_of_reply]
        first, before = first + (steps_of_reply[-1] + 1 if steps_of_reply else 0), turn.end
    steps += [first] * (len(episode.tokens) - len(steps))
    return [min(step, MAX_STEPS - 1) for step in steps]


def vine_steps(played: Played, sources: Sources) -> dict[str, Any]:
    """step [B, T], step_values [B, K]: V before each step, the mean return of continuations from there.

    Equal states, such as the first ones of a group, are continued from once.
    """
    episodes = played.episodes
    steps = [reply_steps(episode, sources.decode) for episode in episodes]  # [B] of [T]
    firsts = [[position for position, _ in _firsts(of)] for of in steps]  # [B] of [K]
    wanted = [_Wanted(episode, positions, ()) for episode, positions in zip(episodes, firsts, strict=True)]
    values, count = _continuation_values(wanted, sources.continuations, sources)
    # [B] of [K]
    before = [_earned_before(episode, positions) for episode, positions in zip(episodes, firsts, strict=True)]
    # V(s_k) counts the return of the whole episode, as R does: what was earned before, and what follows
    total = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(values, before, strict=True)]
    return {"step": ragged_ints(steps), "step_values": ragged(total), "continuations": count}


def _vine(x: AdvantageInputs, p: Choices) -> Tensor:
    step_values, step = (x.need(name, why(p)) for name in ("step_values", "step"))
    return vine(x.need("rewards", why(p)), step_values, step, mask_of(x, p))


VINE = Advantage(
    "vine",
    "V(s_k+1) - V(s_k) by Monte Carlo",
    _vine,
    "2410.01679",
    needs=("mask", "step", "step_values"),
    gather=(vine_steps,),
    per_token=True,
)


def brpo(scores: Any, group: Any, probs: Any = None) -> Tensor:
    """BRPO (AnytimeReasoner, 2505.13438): advantages [B, S] of the budget slices of a thought.

    scores [B, S]: how well sequence i answers when its thought is cut at budget s (mean over its summaries);
    probs [S]: how likely each budget is (uniform by default). With tail returns R_s = sum_{j >= s} p_j score_j:

    V1 = sum_{j < s} 2^j score_j / sum_{j < s} 2^j * sum_{j >= s} p_j     the sequence's own earlier answers
    V2 = mean over the group of R_s
    A_s = R_s - (s V1 + (S - s) V2) / S

    A group of one gives 0 and a warning.
    """
    scores = as_floats(scores)  # [B, S]
    n = scores.shape[1]
    probs = torch.full((n,), 1 / n, dtype=scores.dtype) if probs is None else as_floats(probs).to(scores)
    if probs.shape != (n,) or (probs < 0).any() or not probs.sum() > 0:
        raise ValueError(f"probs must be {n} non-negative numbers, one per budget, not {probs.tolist()}")
    probs = (probs / probs.sum()).to(scores.device)  # [S]
    # R_s = sum_(j >= s) p_j score_j                                  [B, S]  BRPO, 2505.13438
    tail = (scores * probs).flip(1).cumsum(1).flip(1)  # [B, S]
    mass = probs.flip(0).cumsum(0).flip(0)  # [S], sum_(j >= s) p_j
    # [S]: later answers know more of the thought
    weights = 2.0 ** torch.arange(n, dtype=scores.dtype, device=scores.device)
    # V1_s = sum_(j < s) 2^j score_j / sum_(j < s) 2^j * sum_(j >= s) p_j   [B, S]  BRPO, 2505.13438
    earlier = (scores * weights).cumsum(1)[:, :-1] / weights.cumsum(0)[:-1]  # [B, S - 1]
    # [B, S]; nothing was answered before the first
    own_baseline = torch.cat([torch.zeros_like(scores[:, :1]), earlier * mass[1:]], 1)
    groups = Groups(scores[:, 0], group)  # [B] in Q groups
    groups.warn_of_ones()
    # V2_s = mean_g R_s                                              [B, S]  BRPO, 2505.13438
    peers = torch.stack([groups.broadcast(groups.sum(tail[:, s]) / groups.size) for s in range(n)], 1)
    share = torch.arange(n, dtype=scores.dtype, device=scores.device) / n  # [S], s / S
    # A_s = R_s - (s V1_s + (S - s) V2_s) / S                        [B, S]  BRPO, 2505.13438
    advantages = tail - (share * own_baseline + (1 - share) * peers)
    # alone in its group a sequence would be its own baseline
    return torch.where(groups.broadcast(groups.size)[:, None] > 1, advantages, 0)


def budget_probs(budgets: Sequence[int], prior: str = "uniform") -> list[float]:
    """How likely each thinking budget is: "uniform", "linear" (as the budget) or "base" (the largest)."""
    if not budgets or any(b <= a for a, b in itertools.pairwise(budgets)) or budgets[0] <= 0:
        raise ValueError(f"budgets must be positive and increasing, not {list(budgets)}")
    if prior == "uniform":
        return [1 / len(budgets)] * len(budgets)  # [S]
    if prior == "linear":
        return [budget / sum(budgets) for budget in budgets]
    if prior == "base":
        return [0.0] * (len(budgets) - 1) + [1.0]
    raise ValueError(f"unknown prior {prior!r}; allowed: uniform, linear, base")


def sampled_position(episode: Episode, budget: int) -> int | None:
    """Where the episode stands when it has sampled so many tokens; None if it is over by then."""
    spent = 0
    for position, sampled in enumerate(episode.tokens.mask):
        if spent == budget and sampled:
            return position
        spent += sampled  # mask is 0 on what the environment said
    return None


def _firsts(steps: Sequence[int]) -> list[tuple[int, int]]:
    """Position and number of the first token of each step."""
    return [(position, step) for position, step in enumerate(steps) if position == 0 or steps[position - 1] != step]


def _earned_before(episode: Episode, positions: Sequence[int]) -> list[float]:
    """What the turns had earned that were over at each position: continuations earn only what comes after."""
    return [sum(turn.reward for turn in episode.turns if turn.end <= position) for position in positions]


def _task(episode: Episode) -> tuple[Any, ...]:
    return (episode.env_id, episode.seed, episode.index, episode.split, episode.level, episode.prefix)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """States of one episode, before tokens at increasing positions, and the tokens forced there."""

    episode: Episode
    positions: list[int]
    forced: tuple[int, ...]


def budget_answers(played: Played, sources: Sources) -> dict[str, Any]:
    """budget_scores [B, S], budget_slice [B, T], budget_probs [S]: answers to the thought cut at each budget.

    The thought is all that the episode samples. Where it is shorter than a budget its own reward is the score.
    """
    limit = sources.max_new_tokens
    budgets = sources.budgets or tuple(sorted({max(1, limit * part // 4) for part in (1, 2, 3, 4)}))
    forced = tuple(sources.encode(sources.phrase))
    # [B] of [S], None where it was over
    cuts = [[sampled_position(episode, budget) for budget in budgets] for episode in played.episodes]
    positions = [[cut for cut in of if cut is not None] for of in cuts]
    wanted = [_Wanted(episode, of, forced) for episode, of in zip(played.episodes, positions, strict=True)]
    values, count = _continuation_values(wanted, sources.answers, sources)  # [B] of up to [S]
    scores, slices = [], []
    for episode, reward, of, budget_scores in zip(played.episodes, played.rewards, positions, values, strict=True):
        before = _earned_before(episode, of)
        answers = [value + earned for value, earned in zip(budget_scores, before, strict=True)]
        # an episode that was over before a budget answers there what it answered
        scores.append(answers + [reward] * (len(budgets) - len(answers)))
        spent = accumulate(episode.tokens.mask)
        # the slice of a token is the number of budgets that were spent before it      [T]
        slices.append([sum(budget < n for budget in budgets[:-1]) for n in spent])
    return {
        "budget_scores": ragged(scores),
        "budget_slice": ragged_ints(slices),
        "budget_probs": budget_probs(budgets, sources.budget_prior),
        "continuations": count,
    }


def _brpo(x: AdvantageInputs, p: Choices) -> Tensor:
    slices = brpo(x.need("budget_scores", why(p)), x.group, x.budget_probs)  # [B, S]
    index = Turns(x.need("budget_slice", why(p)), mask_of(x, p), what="budget slice")
    return index.broadcast(slices)


BRPO = Advantage(
    "brpo",
    "tail return of a budget - its baseline",
    _brpo,
    "2505.13438",
    needs=("mask", "budget_scores", "budget_slice"),
    gather=(budget_answers,),
    per_token=True,
    forces_answers=True,
)


def _continuation_values(wanted: Sequence[_Wanted], count: int, sources: Sources) -> tuple[list[list[float]], int]:
    """The mean of ``count`` continuations from each wanted state, and how many were played.

    A state whose continuations all failed through no fault of the policy counts as 0.
    """
    index_of_state: dict[tuple[Any, ...], int] = {}  # states that were met before are continued from once
    continuations: list[tuple[BranchPoint, str, tuple[int, ...]]] = []
    indices: list[list[int]] = []
    for request in wanted:
        episode = request.episode
        states = [(*_task(episode), *episode.tokens.ids[:position]) for position in request.positions]
        new = [p for p, state in zip(request.positions, states, strict=True) if state not in index_of_state]
        fresh = iter(branch_points(sources.env, episode, new)) if new else iter(())
        for position, state in zip(request.positions, states, strict=True):
            if state not in index_of_state:
                index_of_state[state] = len(continuations)
                continuations.append((next(fresh), f"{episode.key}/from {position}", request.forced))
        indices.append([index_of_state[state] for state in states])
    starts = [point.start(f"{key}/{n}", forced) for point, key, forced in continuations for n in range(count)]
    earned = continue_from(sources.player, starts, sources.batch_size)
    means = []
    for index in range(len(continuations)):
        valid = [value for value in earned[index * count : (index + 1) * count] if value is not None]
        # V(s) = (1/n) sum_k R_k over n valid continuations from s     []  VinePPO, 2410.01679; BRPO, 2505.13438
        means.append(sum(valid) / max(1, len(valid)))  # 0 where every continuation failed by a fault of ours
    return [[means[index] for index in of] for of in indices], len(starts)
