"""Group-isolation checks: members of one group begin alike, and no value crosses from one of them to another."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from rlvr.envs.core.images import text_of
from rlvr.envs.core.text_env import TextEnv, replay


class PrivateValue(NamedTuple):
    """How a member of a group gets a value of its own through an environment's tools.

    Attributes:
        draw: the action of each member, by its number, after which its world alone holds a value; equal actions where
            the world draws by itself.
        tell: the action of each member that shows the value again.
        read: the value in an observation of either; empty if there is none.
    """

    draw: Callable[[int], str]
    tell: Callable[[int], str]
    read: Callable[[str], str]


def exchanges(envs: Sequence[gym.Env[Any, str]], private: PrivateValue, *, seed: int = 0, rounds: int = 2) -> int:
    """How often a member of one group is given another's value, or none.

    Args:
        envs: the members; each is reset with ``seed``, so all begin alike. They draw in one order and ask in others.
        rounds: how often each asks for its value again.

    Raises:
        AssertionError: two drew the same, or a verdict was invalid, so that nothing is measured.
    """
    rng = random.Random(seed)
    numbers = list(range(len(envs)))

    def ask(number: int, action: str) -> str:
        observation, _, _, _, info = envs[number].step(action)
        verdict = info.get("verdict")
        assert verdict is None or verdict.valid, f"member {number}: {verdict}"
        return private.read(text_of(observation))

    for env in envs:
        env.reset(seed=seed)
    rng.shuffle(numbers)
    drawn = {number: ask(number, private.draw(number)) for number in numbers}
    assert len({*drawn.values(), ""}) == len(envs) + 1, f"the members drew {sorted(drawn.values())}: not all differ"
    crossed = 0
    for _ in range(rounds):
        rng.shuffle(numbers)
        crossed += sum(ask(number, private.tell(number)) != drawn[number] for number in numbers)
    return crossed


def check_members(envs: Sequence[gym.Env[Any, str]], private: PrivateValue, *, seed: int = 0) -> None:
    """No value crosses from one member of a group to another; see `exchanges`.

    Raises:
        AssertionError: one does.
    """
    crossed = exchanges(envs, private, seed=seed)
    assert not crossed, f"{crossed} times a member of a group of {len(envs)} was given another's value"


def check_interleaved(envs: Sequence[TextEnv], alone: TextEnv, *, seed: int = 0, turns: int = 8) -> None:
    """Members of a group that act in turns, in random orders, observe what each observes alone.

    Their histories are equal at first: member ``k`` takes the expert's first ``k`` actions, and random ones after them.

    Args:
        envs: the members; each is reset with ``seed``.
        alone: an environment of the same settings, which plays each member's actions again.
        turns: actions of a member, at most.

    Raises:
        AssertionError: an observation, a reward or a verdict differs.
    """
    rng = random.Random(seed)
    for env in envs:
        env.reset(seed=seed)
    actions: list[list[str]] = [[] for _ in envs]
    steps: list[list[Any]] = [[] for _ in envs]
    playing = list(range(len(envs)))
    for turn in range(turns):
        rng.shuffle(playing)
        for number in list(playing):
            env = envs[number]
            action = env.solve() if turn < number else env.sample_action(rng)
            step = env.step(action)
            actions[number].append(action)
            steps[number].append(step)
            if step[2] or step[3]:
                playing.remove(number)
    for number, (taken, in_group) in enumerate(zip(actions, steps, strict=True)):
        for turn, (step, expected) in enumerate(zip(in_group, replay(alone, seed, taken)[1:], strict=True), 1):
            wrong = f"member {number} of {len(envs)}, turn {turn}: {step!r:.300}, and alone {expected!r:.300}"
            assert repr(step) == repr(expected), wrong
