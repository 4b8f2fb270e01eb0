"""Policies that learn nothing: one or two actions said always, the first or last legal move, the own last, random play.

A game is worth its name if its expert earns clearly more than the best of them; ``benchmarks/constants.py`` measures
that for every id that has an expert.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.core.task import Task
from rlvr.envs.core.text_env import Snapshot, TextEnv

GAP: Final = 0.15  # by which the expert must earn more than each of them
SCREENING: Final = 40  # episodes after which a policy that is far from the gap is left out
PROBES: Final = 30  # episodes from which the actions are collected
CONSTANTS: Final = 8  # most frequent actions of the expert and of random play, of each
FAR: Final = 3.0  # standard errors

# Of an environment, the own last action or None, and a generator: the next action.
Policy = Callable[[TextEnv, str | None, random.Random], str]


@dataclass(frozen=True)
class FixedScores:
    """What the expert and fixed policies earn at one level.

    Attributes:
        expert: mean return.
        random: mean return of random well-formed actions.
        constant: mean return of the best fixed policy.
        policy: which policy that is.
        episodes: how many the figures of expert, random and best policy are of, at most.
        error: the largest standard error of the three means.
    """

    level: int
    expert: float
    random: float
    constant: float
    policy: str
    episodes: int
    error: float

    @property
    def gap(self) -> float:
        """How much more the expert earns than the best policy that learns nothing."""
        return self.expert - max(self.random, self.constant)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def measure_fixed(
    env_id: str, level: int, error: float = 0.02, episodes: int = 625, **settings: Any
) -> FixedScores | None:
    """Play the expert and each fixed policy on the same tasks of a level.

    A policy is played on ``SCREENING`` tasks; one that may be within ``GAP`` of the expert is played on until the
    standard error of its mean is at most ``error``, or on ``episodes`` tasks. ``settings`` are the environment's.

    Returns:
        None where the task has no expert.
    """
    env = gym.make(env_id, level=level, **settings).unwrapped
    if not isinstance(env, TextEnv) or type(env.task).solve is Task.solve:
        return None
    starts: dict[int, Snapshot] = {}
    expert = ReturnSample(env, expert_action, starts).extended(SCREENING, error, episodes)
    shown = ReturnSample(env, random_action, starts).extended(SCREENING, error, episodes)
    best, name = None, ""
    for each, policy in fixed_policies(env).items():
        sample = ReturnSample(env, policy, starts).extended(SCREENING, 1.0, SCREENING)
        if sample.mean + FAR * sample.error > expert.mean - GAP:
            sample.extended(SCREENING, error, episodes)
        if best is None or sample.mean > best.mean:
            best, name = sample, each
    if best is None:
        return None
    return FixedScores(
        level=level,
        expert=round(expert.mean, 4),
        random=round(shown.mean, 4),
        constant=round(best.mean, 4),
        policy=name,
        episodes=max(len(expert.returns), len(shown.returns), len(best.returns)),
        error=round(max(expert.error, shown.error, best.error), 4),
    )


class ReturnSample:
    """Returns of a policy on the tasks of the seeds 0, 1, ….

    Args:
        env: of the tasks.
        policy: which chooses each action.
        starts: the first states of tasks by seed, which samples of one environment may share: some take long to draw.
    """

    def __init__(self, env: TextEnv, policy: Policy, starts: dict[int, Snapshot] | None = None) -> None:
        self.env, self.policy = env, policy
        self.starts = {} if starts is None else starts
        self.returns: list[float] = []

    @property
    def mean(self) -> float:
        """Mean return."""
        return sum(self.returns) / len(self.returns)

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        count = len(self.returns)
        return math.sqrt(sum((value - self.mean) ** 2 for value in self.returns) / (count - 1) / count)

    def extended(self, at_least: int, error: float, at_most: int) -> ReturnSample:
        """Itself with more episodes, until the standard error is at most ``error``."""
        while len(self.returns) < at_least or (self.error > error and len(self.returns) < at_most):
            seed = len(self.returns)
            if seed in self.starts:
                self.env.set_state(self.starts[seed])
            else:
                self.env.reset(seed=seed)
                self.starts[seed] = self.env.get_state()
            self.returns.append(_played(self.env, seed, self.policy))
        return self


def play(env: TextEnv, seed: int, policy: Policy) -> float:
    """The return of one episode, on the task of a seed."""
    env.reset(seed=seed)
    return _played(env, seed, policy)


def _played(env: TextEnv, seed: int, policy: Policy) -> float:
    """The return from the first state on, which the environment is in."""
    rng = random.Random(seed)
    total, over, last = 0.0, False, None
    while not over:
        last = policy(env, last, rng)
        _, reward, terminated, truncated, _ = env.step(last)
        total += float(reward)
        over = terminated or truncated
    return total


def expert_action(env: TextEnv, last: str | None, rng: random.Random) -> str:
    """The expert's."""
    return env.solve()


def random_action(env: TextEnv, last: str | None, rng: random.Random) -> str:
    """A random well-formed action."""
    return env.sample_action(rng)


def legal_actions(env: TextEnv) -> Sequence[str] | None:
    """The legal moves of the present state, as actions; None where the task does not list them."""
    return env.task.legal_actions(env.get_state().state)


def fixed_policies(env: TextEnv) -> Mapping[str, Policy]:
    """The policies that the actions of a level suggest, by name."""
    by_expert: Counter[str] = Counter()
    by_chance: Counter[str] = Counter()
    choices: set[frozenset[str]] = set()  # which actions were legal together
    for seed in range(PROBES):
        rng = random.Random(seed)
        env.reset(seed=seed)
        over = False
        while not over:
            action = env.solve()
            by_expert[env.direct_answer() or action] += 1
            by_chance[env.sample_action(rng)] += 1
            choices.add(frozenset(legal_actions(env) or ()))
            _, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    env.reset(seed=0)
    policies: dict[str, Policy] = {}
    if env.task.turns(env.level) > 1:
        policies["repeat"] = repeat
        if legal_actions(env):
            policies |= {"first legal": end_of_list(0), "last legal": end_of_list(-1)}
    actions = dict.fromkeys([*dict(by_expert.most_common(CONSTANTS)), *dict(by_chance.most_common(CONSTANTS))])
    policies |= {action: always(action) for action in actions}
    frequent = [action for action, _ in by_expert.most_common(CONSTANTS) if any(action in legal for legal in choices)]
    for first, second in combinations(frequent, 2):
        if not any({first, second} <= legal for legal in choices):
            policies[f"{first} or {second}"] = always(first, second)
    return policies


def repeat(env: TextEnv, last: str | None, rng: random.Random) -> str:
    """The own last move while it is legal, else a random one."""
    return or_random(env, last, rng)


def end_of_list(index: int) -> Policy:
    """The policy that plays the first or the last legal move."""
    return lambda env, last, rng: (legal_actions(env) or [""])[index]


def always(action: str, other: str | None = None) -> Policy:
    """The policy that says one action, where it is known to be illegal another, and where that is too a random one."""

    def policy(env: TextEnv, last: str | None, rng: random.Random) -> str:
        is_possible = other is None or action in (legal_actions(env) or (action,))
        return or_random(env, action if is_possible else other, rng)

    return policy


def or_random(env: TextEnv, action: str | None, rng: random.Random) -> str:
    """The action if it is not known to be illegal, else a random one."""
    legal = legal_actions(env)
    return env.sample_action(rng) if action is None or (legal is not None and action not in legal) else action
