"""A language policy as a policy of a game: the probability of each legal move at every information state.

A model writes text, and many texts name one move. What is scored are the spellings of a move that are given, each with
the token that ends the reply; the probability that is left is what the model gives to all other texts. The shares of
the moves are made to add up to 1, and the mass that was there is reported: where it is small, the model writes other
texts than those that were scored, and the shares say little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rlvr.agents.conversation import Message
from rlvr.envs.players.exploitability import MOST_STATES, InformationState
from rlvr.envs.players.game import CHANCE, SYSTEM, Match, Referee

if TYPE_CHECKING:
    from rlvr.agents.rendering import Renderer

SPELLINGS: Final = ("\\boxed{MOVE}", "MOVE")
# Of prompts and replies to each, the log-probability of each reply.
Scorer = Callable[[Sequence[tuple[list[Message], str]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class TextPolicy:
    """The moves of a model at every information state of a game; a `Policy` of `exploitability`.

    Attributes:
        shares: for each seat and view, the probability of each legal move; they add up to 1.
        mass: for each seat and view, the probability of the texts that were scored, all legal moves together.
    """

    shares: Mapping[tuple[int, Any], Mapping[str, float]]
    mass: Mapping[tuple[int, Any], float]

    def __call__(self, view: Any, seat: int, legal: Sequence[str]) -> Mapping[str, float]:
        return self.shares[seat, view]

    @property
    def mean_mass(self) -> float:
        """The mean of ``mass`` over the information states."""
        return sum(self.mass.values()) / len(self.mass)

    @property
    def least_mass(self) -> float:
        """The smallest of ``mass``."""
        return min(self.mass.values())


def joined(policies: Mapping[int, TextPolicy]) -> TextPolicy:
    """The policy in which each seat is played by its own, by seat."""
    return TextPolicy(
        {at: policies[at[0]].shares[at] for at in policies[0].shares},
        {at: policies[at[0]].mass[at] for at in policies[0].mass},
    )


def conversations(
    referee: Referee, *, system: bool = True, brief: bool = False, spelling: str = SPELLINGS[0], most: int = MOST_STATES
) -> dict[InformationState, list[Message]]:
    """What a policy has read and written where it must move, for every information state of a game.

    Args:
        system: whether the conversation begins with the games' system prompt.
        brief: whether the first observation lacks the rules, as the setting of the environment has it.
        spelling: of the policy's own moves before, with ``MOVE`` in place of the move.

    Raises:
        ValueError: the game has moves at once or more than ``most`` states, or a seat has read two things in one
            information state.
    """
    game = referee.game
    opening: list[Message] = [{"role": "system", "content": SYSTEM}] if system else []
    by_state: dict[tuple[int, Any], tuple[InformationState, list[Message]]] = {}
    first = Match("", game.start(), faults=(0,) * game.seats)
    stack = [(first, tuple(opening for _ in range(game.seats)), (-1,) * game.seats)]
    count = 0
    while stack:
        match, messages, read = stack.pop()
        count += 1
        if count > most:
            raise ValueError(f"{game.name} has more than {most} states: its policies are not written out")
        actors = game.actors(match.state)
        if len(actors) > 1:
            raise ValueError(f"{game.name} has moves at once: its policies are not written out")
        if actors == (CHANCE,):
            stack += [(referee.branch(match, CHANCE, move), messages, read) for move, _ in game.chance(match.state)]
        elif actors:
            (seat,) = actors
            text = referee.observe(match, seat, max(0, read[seat]))
            if read[seat] < 0:
                text = referee.first_observation(match, seat, brief)
            prompt: list[Message] = [*messages[seat], {"role": "user", "content": text}]
            where = InformationState(seat, game.view(match.state, seat), tuple(game.legal(match.state, seat)))
            if by_state.setdefault((seat, where.view), (where, prompt))[1] != prompt:
                raise ValueError(f"{game.name}: seat {seat} has read two things in one information state")
            after_read = (*read[:seat], len(match.log), *read[seat + 1 :])
            for move in where.legal:
                after_reply: list[Message] = [*prompt, {"role": "assistant", "content": spelling.replace("MOVE", move)}]
                seats = (*messages[:seat], after_reply, *messages[seat + 1 :])
                stack.append((referee.branch(match, seat, move), seats, after_read))
    return dict(by_state.values())


def text_policy(
    referee: Referee, score: Scorer, *, spellings: Sequence[str] = SPELLINGS, system: bool = True, brief: bool = False
) -> TextPolicy:
    """Score every spelling of every legal move at every information state.

    The conversations have the policy's own moves in the first of the spellings.

    Raises:
        ValueError: as `conversations`; or a state in which the model gives no spelling of any move a probability.
    """
    where = conversations(referee, system=system, brief=brief, spelling=spellings[0])
    asked = [
        (prompt, spelling.replace("MOVE", move))
        for state, prompt in where.items()
        for move in state.legal
        for spelling in spellings
    ]
    scores = iter(score(asked))
    shares, mass = {}, {}
    for state in where:
        moves = {move: math.fsum(math.exp(next(scores)) for _ in spellings) for move in state.legal}
        total = math.fsum(moves.values())
        if not total > 0:
            raise ValueError(f"the model writes none of {spellings} for any of {state.legal}: score other spellings")
        shares[state.seat, state.view] = {move: value / total for move, value in moves.items()}
        mass[state.seat, state.view] = total
    return TextPolicy(shares, mass)


def model_scorer(model: Any, renderer: Renderer, *, temperature: float = 1.0, batch_size: int = 64) -> Scorer:
    """Log-probabilities of replies under a causal model of transformers, the token that ends them included.

    Args:
        temperature: of the sampling that the policy is judged by.
        batch_size: replies in one forward pass.

    Raises:
        ValueError: a temperature that is not positive: a greedy policy has no probabilities.
    """
    import torch

    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")

    @torch.no_grad()
    def score(asked: Sequence[tuple[list[Message], str]]) -> list[float]:
        rendered = [
            renderer.render_demonstration([*messages, {"role": "assistant", "content": reply}])
            for messages, reply in asked
        ]
        order = sorted(range(len(rendered)), key=lambda index: len(rendered[index][0]))  # little padding
        scores = [0.0] * len(rendered)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            longest = len(rendered[rows[-1]][0])
            ids = torch.zeros(len(rows), longest, dtype=torch.long)
            present = torch.zeros_like(ids)
            for row, index in enumerate(rows):
                tokens = rendered[index][0]
                ids[row, : len(tokens)] = torch.tensor(tokens)
                present[row, : len(tokens)] = 1
            ids, present = ids.to(model.device), present.to(model.device)
            logits = model(input_ids=ids, attention_mask=present).logits[:, :-1].float() / temperature
            chosen = logits.gather(-1, ids[:, 1:, None])[..., 0] - logits.logsumexp(-1)
            for row, index in enumerate(rows):
                tokens, mask = rendered[index]
                reply = len(mask) - mask[::-1].index(0)  # the last run of sampled tokens
                scores[index] = float(chosen[row, reply - 1 : len(tokens) - 1].double().sum())
        return scores

    return score
