"""From the episodes of a step to entries of `AdvantageInputs`: which turn a token belongs to, what each turn earned."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rlvr.agents.episode import Episode
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.recipe.advantage import Played, Sources

WHOLE_REWARD: Final = "reward"  # in credit.part_weights, beside the names of a verdict's parts


def turns(played: Played, sources: Sources) -> dict[str, Any]:
    """turn [B, T], turn_rewards [B, K]; what shaping added is earned in the last turn."""
    return {
        "turn": token_turns(played.episodes),
        "turn_rewards": ragged([shaped_turn_rewards(episode, reward) for episode, reward in rewarded(played)]),
    }


def turns_as_steps(played: Played, sources: Sources) -> dict[str, Any]:
    """step [B, T], step_rewards [B, K]: a turn is a step."""
    entries = turns(played, sources)
    return {"step": entries["turn"], "step_rewards": entries["turn_rewards"]}


def earned_per_token(played: Played, sources: Sources) -> dict[str, Any]:
    """token_rewards [B, T]: each turn's reward at its last token."""
    width = max(len(episode.tokens) for episode in played.episodes)  # T
    earned = torch.zeros(len(played.episodes), width)  # [B, T]
    for index, (episode, reward) in enumerate(rewarded(played)):
        for turn, amount in zip(episode.turns, shaped_turn_rewards(episode, reward), strict=True):
            # turn.end is one past the turn's last token
            earned[index, max(0, turn.end - 1)] += amount
    return {"token_rewards": earned}


def parts_of_rewards(played: Played, sources: Sources) -> dict[str, Any]:
    """reward_parts [B, M]: each named part, summed over the verdicts of an episode; part_weights [M].

    The part "reward" is the whole reward, with what shaping added. A verdict without a part has 0 of it; a part that
    no verdict of the step has is a warning.
    """
    totals = [_part_totals(episode) | {WHOLE_REWARD: reward} for episode, reward in rewarded(played)]  # [B]
    present = {name for parts in totals for name in parts}
    if missing := [name for name in sources.part_weights if name not in present]:
        warnings.warn(
            f"credit.part_weights: no verdict of this step has {', '.join(missing)}, which counts as 0; "
            f"there are {', '.join(sorted(present))}",
            stacklevel=2,
        )
    columns = [[parts.get(name, 0.0) for name in sources.part_weights] for parts in totals]
    return {"reward_parts": ragged(columns), "part_weights": tuple(sources.part_weights.values())}


def _part_totals(episode: Episode) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for turn in episode.turns:
        for name, value in (turn.verdict.parts if turn.verdict is not None else {}).items():
            totals[name] += value
    return totals


def state_values(played: Played, sources: Sources) -> dict[str, Any]:
    """features [B, T, H], values [B, T] before each token, bootstrap [B]: after the last, where truncated."""
    if sources.state_values is None:
        raise ValueError("this advantage needs a critic, and there is none")
    # [B, T, H], [B, T], [B]
    features, values, after = sources.state_values([episode.tokens for episode in played.episodes])
    truncated = torch.tensor([float(episode.truncated) for episode in played.episodes])  # [B]
    # V after the end is 0 where the episode ended by itself; where it was cut off, the critic's     [B]
    return {"features": features, "values": values, "bootstrap": after * truncated}


def rewarded(played: Played) -> Iterator[tuple[Episode, float]]:
    """Each episode with its shaped reward."""
    return zip(played.episodes, played.rewards, strict=True)


def token_turns(episodes: Sequence[Episode]) -> Tensor:
    """[B, T]: the turn of each token, from 0; what is rendered before a completion counts to its turn."""
    return ragged_ints([_token_turns(episode) for episode in episodes])


def _token_turns(episode: Episode) -> list[int]:
    numbers: list[int] = []
    for number, turn in enumerate(episode.turns):
        numbers += [number] * (turn.end - len(numbers))  # tokens of earlier turns are there already
    # what the environment said last belongs to the last turn; it is not trained on
    return numbers + [max(0, len(episode.turns) - 1)] * (len(episode.tokens) - len(numbers))


def shaped_turn_rewards(episode: Episode, reward: float) -> list[float]:
    """The reward of each turn; what ``reward`` has beyond the episode's own is earned in the last."""
    earned = [turn.reward for turn in episode.turns]  # [K]
    # shaping judges the episode as a whole, so it is earned where the episode ends
    earned[-1] += reward - episode.reward
    return earned


def ragged(columns: Sequence[Sequence[float]]) -> Tensor:
    """[B, K] float32 of lists of any length, 0 where one is shorter."""
    return _ragged(columns, torch.float32)


def ragged_ints(columns: Sequence[Sequence[int]]) -> Tensor:
    """[B, K] int64 of lists of any length, 0 where one is shorter."""
    return _ragged(columns, torch.long)


def _ragged(columns: Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
    width = max(map(len, columns), default=0)  # K
    out = torch.zeros(len(columns), width, dtype=dtype)
    for index, column in enumerate(columns):
        out[index, : len(column)] = torch.tensor(column, dtype=dtype)
    return out
