"""The laboratory of credit: the advantage of each turn by continuations of exact forks, beside what each rule gives.

    nice -n 19 python benchmarks/credit.py                 # what is not measured yet, then the page
    python benchmarks/credit.py --again Wordle             # measures the cells of an id anew
    python benchmarks/credit.py --draw                     # docs/credit.md alone, from benchmarks/results/credit.json

A cell is one id, level and policy: groups of episodes on a few tasks. The policy plays the expert's action in a share
of its turns, and a random well-formed one in the others; three shares stand for three stages of training. Before each
turn the environment is forked, and the policy plays on from the fork 64 times: the mean return is V, and
A_k = r_k + V(s_k+1) - V(s_k) is the truth, with its standard error. Each rule is computed by the library's own function
on the same episodes, one token a turn. Cells that stand in the results are not measured again.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

import rlvr
from rlvr.algorithms.advantages import gigpo, group_z, rebn, rloo, turn_rloo, vine
from rlvr.algorithms.advantages.gather import ragged, ragged_ints
from rlvr.envs import TextEnv
from rlvr.envs.core.seeding import stream

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import credit_page

IDS = (
    "Calculator", "FrozenLake", "GuessNumber", "TicTacToe", "WorldSearch", "Minesweeper", "Nim", "OddCoin", "WordHunt",
    "HigherLower", "Secretary", "HanoiGame", "Mastermind", "SQL", "RushHour", "TreasureHunt", "LightsOutGame",
    "FloodIt", "PegJump", "WaterJugs", "BlackBox", "MultiArmedBandit", "KeyDoor", "Snake", "Blackjack", "BullsAndCows",
    "Hangman", "Wordle", "Taxi",
)  # fmt: skip
LEVELS = (1, 2)
TASKS, GROUP = 4, 8
CONTINUATIONS = 64  # from each fork, for the truth
VINE = 4  # from each fork, for Vine; and from the cut of each episode, for branch contrast
MAX_TURNS = 12
GAMMA = 0.95  # GiGPO's
REBN_GAMMA = 0.9  # GEM's
CLEAR = 2.0  # standard errors that an advantage must be away from 0 for its sign to count


# statistics


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value, from 0; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for index in order[start:stop]:
            out[index] = (start + stop - 1) / 2
        start = stop
    return out


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The correlation of ranks; None where one of them does not vary."""
    a, b = ranks(first), ranks(second)
    if len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return statistics.correlation(a, b)


@dataclass(slots=True)
class Truth:
    """Of each turn: its advantage, the standard error of that, and the policy's score d log pi / d of one parameter."""

    advantages: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    def add(self, values: Sequence[tuple[float, float]], rewards: Sequence[float]) -> None:
        """Of one episode: V before each turn with its standard error, and what each turn earned."""
        errors = [error for _, error in values]
        self.advantages += differences([value for value, _ in values], rewards)
        # both values of a difference have their error; after the end there is none
        self.errors += [math.hypot(*pair) for pair in zip(errors, [*errors[1:], 0.0], strict=True)]


def figures(given: Sequence[float], of_turns: Truth, cost: float) -> dict[str, Any]:
    """How a rule's advantages compare with the truth.

    slope     of the rule's advantages on the true ones by least squares: their scale, which is free
    bias      mean of given / slope - truth, in standard deviations of the truth
    variance  of given / slope - truth, less the truth's own, in variances of the truth, times the cost
    signs     share of wrong signs (0 is half wrong) among turns whose truth is clear of 0
    gradient  of the share of expert moves: the rule's, by its slope, over the true one; where that is clear of 0
    cost      turns that the policy plays for each turn that is trained on

    ``given`` is the rule's advantage of each turn.
    """
    truth, errors = of_turns.advantages, of_turns.errors
    signal = sum(x * x for x in truth) / len(truth) - statistics.fmean(e * e for e in errors)
    out: dict[str, Any] = {"spearman": spearman(given, truth), "cost": cost, "turns": len(truth)}
    clear = [(a, b) for a, b, e in zip(given, truth, errors, strict=True) if abs(b) > CLEAR * e]
    out["clear"] = len(clear)
    if clear:
        out["signs"] = statistics.fmean(0.5 if a == 0 else float(a * b < 0) for a, b in clear)
    # noise of the truth would be taken for signal, and pull the slope to 0: errors in variables
    slope = sum(a * b for a, b in zip(given, truth, strict=True)) / len(truth) / signal if signal > 0 else 0.0
    if slope > 0:
        deviations = [a / slope - b for a, b in zip(given, truth, strict=True)]
        bias = statistics.fmean(deviations)
        noise = statistics.fmean((d - bias) ** 2 for d in deviations) - statistics.fmean(e * e for e in errors)
        out |= {"slope": slope, "bias": bias / math.sqrt(signal), "variance": max(0.0, noise) / signal * cost}
        gradient = sum(b * s for b, s in zip(truth, of_turns.scores, strict=True))
        if gradient > CLEAR * math.hypot(*(e * s for e, s in zip(errors, of_turns.scores, strict=True))):
            out["gradient"] = sum(a * s for a, s in zip(given, of_turns.scores, strict=True)) / slope / gradient
    return out


def per_index(turn_rewards: torch.Tensor, group: torch.Tensor, played: torch.Tensor) -> torch.Tensor:
    """MT-GRPO's form (2505.11821): rewards less the mean of their turn index in the group, summed to go. [B, K].

    Rewards are centred, not divided by their deviation, so that the bias keeps its unit.
    """
    centred = torch.zeros_like(turn_rewards)  # [B, K]
    for g in group.unique().tolist():
        members = (group == g)[:, None] & played  # [B, K]
        mean = (turn_rewards * members).sum(0) / members.sum(0).clamp(min=1)  # [K]
        centred = torch.where(members, turn_rewards - mean, centred)
    return centred.flip(1).cumsum(1).flip(1)


def hidden_bonus(going_on: float, reward: float, turns: int) -> dict[str, float]:
    """A chain in closed form: each turn ends the episode, which earns 0, or goes on, which earns ``reward``.

    Returns the advantage of going on over ending at turn 0: the true one, and what each rule gives in the mean over all
    groups of two, each weighed by its probability; a slope of the policy's gradient is p (1 - p) times it.

    Args:
        going_on: the probability p of going on, at each turn.
        turns: after so many the episode ends.
    """
    paths = [(going_on**k * (1 - going_on if k < turns else 1.0), k) for k in range(turns + 1)]  # goes on k times
    totals = {"per turn index": 0.0, "turn_rloo": 0.0}
    for chance, k in paths:
        for other_chance, j in paths:
            rewards = torch.zeros(2, turns, dtype=torch.float64)
            rewards[0, :k], rewards[1, :j] = reward, reward
            played = torch.tensor([[turn <= k for turn in range(turns)], [turn <= j for turn in range(turns)]])
            turn, group = torch.arange(turns).expand(2, turns), torch.tensor([0, 0])
            given = {
                # a mean over two holds the turn itself for a half, which is made up for
                "per turn index": 2 * per_index(rewards, group, played)[0, 0].item(),
                "turn_rloo": turn_rloo(rewards, turn, group, played)[0, 0].item(),
            }
            # E[A | goes on] - E[A | ends], each conditional on the first action
            weight = chance * other_chance * (1 / going_on if k else -1 / (1 - going_on))
            for name, value in given.items():
                totals[name] += weight * value
    true = sum(reward * going_on**k for k in range(turns))  # what going on earns in the mean; ending earns 0
    return {"true": true, **totals}


# playing


@dataclass(slots=True)
class Played:
    """One episode: what each turn earned, who played it, and a fork of the environment before each turn."""

    rewards: list[float] = field(default_factory=list)
    by_expert: list[bool] = field(default_factory=list)
    observations: list[str] = field(default_factory=list)
    forks: list[TextEnv] = field(default_factory=list)


class Mixture:
    """The policy: the expert's action in a share of the turns, a random well-formed one in the others."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.turns = 0  # that were played, by which continuations are paid

    def act(self, env: TextEnv, rng: random.Random) -> str:
        """An action for the present state."""
        return self.chosen(env, rng)[1]

    def chosen(self, env: TextEnv, rng: random.Random) -> tuple[bool, str]:
        """Whether the expert plays, and the action."""
        self.turns += 1
        by_expert = rng.random() < self.share
        return by_expert, env.solve() if by_expert else env.sample_action(rng)

    def play_on(self, env: TextEnv, rng: random.Random) -> float:
        """Play to the end; what is earned from here on. The environment is used up."""
        total, over = 0.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(self.act(env, rng))
            total += float(reward)
            over = terminated or truncated
        return total

    def episode(self, env: TextEnv, observation: str, rng: random.Random) -> Played:
        """Play to the end, with a fork before each turn."""
        played, over = Played(), False
        while not over:
            played.forks.append(env.fork())
            played.observations.append(observation)
            by_expert, action = self.chosen(env, rng)
            played.by_expert.append(by_expert)
            observation, reward, terminated, truncated, _ = env.step(action)
            played.rewards.append(float(reward))
            over = terminated or truncated
        return played


def state_key(env: TextEnv) -> Hashable:
    """The environment's state for comparison, the number of turns played included; unequal to all if it has no hash."""
    snapshot = env.get_state()
    try:
        hash(snapshot.state)
    except TypeError:
        return object()
    return snapshot.turn, snapshot.state


def values_of(forks: Sequence[TextEnv], policy: Mixture, count: int, key: str) -> list[tuple[float, float]]:
    """V of each fork by ``count`` continuations, and its standard error; equal states are continued from once."""
    met: dict[Hashable, tuple[float, float]] = {}
    out = []
    for fork in forks:
        state = state_key(fork)
        if state not in met:
            returns = [policy.play_on(fork.fork(), stream(key, len(met), n)) for n in range(count)]
            error = statistics.stdev(returns) / math.sqrt(count) if count > 1 else 0.0
            met[state] = statistics.fmean(returns), error
        out.append(met[state])
    return out


def expert_scores(forks: Sequence[TextEnv]) -> list[float]:
    """What the expert earns from each fork, discounted by the turns it takes: a score of the state, free of tokens."""
    met: dict[Hashable, float] = {}
    for fork in forks:
        state = state_key(fork)
        if state in met:
            continue
        env, total, discount, over = fork.fork(), 0.0, 1.0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(env.solve())
            total, discount = total + discount * float(reward), discount * GAMMA
            over = terminated or truncated
        met[state] = total
    return [met[state_key(fork)] for fork in forks]


def differences(values: Sequence[float], rewards: Sequence[float]) -> list[float]:
    """A_k = r_k + V_k+1 - V_k, with V = 0 after the end."""
    return [r + after - v for r, v, after in zip(rewards, values, [*values[1:], 0.0], strict=True)]


# a cell


def play_groups(env: TextEnv, level: int, policy: Mixture) -> list[list[Played]]:
    """``GROUP`` episodes on each of ``TASKS`` training tasks."""
    groups = []
    for index in range(TASKS):
        groups.append([])
        for member in range(GROUP):
            where: dict[str, Any] = {"index": index, "level": level}
            if env.size is None:
                where["split"] = "train"
            observation, _ = env.reset(seed=0, options=where)
            rng = stream("credit", env.task.name, level, policy.share, index, member)
            groups[-1].append(policy.episode(env, observation, rng))
    return groups


def true_advantages(groups: list[list[Played]], policy: Mixture) -> Truth:
    """The truth of each turn of all episodes, one episode after another."""
    truth = Truth()
    for number, group in enumerate(groups):
        for episode, values in zip(group, _by_episode(group, policy, CONTINUATIONS, f"truth {number}"), strict=True):
            truth.add(values, episode.rewards)
            truth.scores += [by_expert - policy.share for by_expert in episode.by_expert]
    return truth


def _by_episode(group: list[Played], policy: Mixture, count: int, key: str) -> list[list[tuple[float, float]]]:
    flat = iter(values_of([fork for episode in group for fork in episode.forks], policy, count, key))
    return [[next(flat) for _ in episode.forks] for episode in group]


Given = dict[str, tuple[list[float], float]]  # of each rule the advantage of each turn, and its cost


def mixture_rules(groups: list[list[Played]], policy: Mixture) -> Given:
    """What each rule gives each turn of episodes of the mixture."""
    before = policy.turns
    vines = [values for members in groups for values in _by_episode(members, policy, VINE, "vine")]
    given = rule_advantages(groups, [[value for value, _ in values] for values in vines], policy.turns - before)
    return given | {"branch contrast": branch_contrast(groups, policy)}


def branch_contrast(groups: list[list[Played]], policy: Mixture) -> tuple[list[float], float]:
    """Each episode is cut in its middle, and played again from there (BranPO, 2602.03719); the cost counts these turns.

    Before the cut a turn gets the outcome less the others' of its group, from there on less that of the branches. The
    paper learns from the branches, too, and normalises both.
    """
    before = policy.turns
    cuts = [[episode.forks[len(episode.forks) // 2] for episode in members] for members in groups]
    values = [value for forks in cuts for value, _ in values_of(forks, policy, VINE, "branch")]
    given = contrasted(groups, values)
    return given, 1 + (policy.turns - before) / len(given)


def contrasted(groups: list[list[Played]], values: Sequence[float]) -> list[float]:
    """The advantages of `branch_contrast`, with V in the middle of each episode by the branches from there."""
    given: list[float] = []
    of_cuts = iter(values)
    for members in groups:
        outcomes = rloo(torch.tensor([sum(episode.rewards) for episode in members]), [0] * len(members)).tolist()
        for episode, outcome in zip(members, outcomes, strict=True):
            cut = len(episode.rewards) // 2
            given += [outcome] * cut + [sum(episode.rewards[cut:]) - next(of_cuts)] * (len(episode.rewards) - cut)
    return given


def rule_advantages(groups: list[list[Played]], vines: list[list[float]], vine_turns: float) -> Given:
    """What each rule gives each turn, and its cost: turns played for each turn of the episodes.

    Args:
        vines: V before each turn of each episode by ``VINE`` continuations.
        vine_turns: that these took.
    """
    episodes = [episode for group in groups for episode in group]
    group = torch.tensor([number for number, members in enumerate(groups) for _ in members])  # [B]
    turn_rewards = ragged([episode.rewards for episode in episodes]).double()  # [B, K]
    played = torch.arange(turn_rewards.shape[1]) < torch.tensor([[len(e.rewards)] for e in episodes])  # [B, K]
    turn = torch.arange(turn_rewards.shape[1]).expand(played.shape)  # one token a turn
    rewards = turn_rewards.sum(1)  # [B]
    turns = int(played.sum())
    earned = [[sum(e.rewards[:k]) for k in range(len(e.rewards))] for e in episodes]
    step_values = ragged(
        [[v + done for v, done in zip(*pair, strict=True)] for pair in zip(vines, earned, strict=True)]
    ).double()
    scores = [expert_scores(episode.forks) for episode in episodes]

    def spread(per_episode: torch.Tensor) -> torch.Tensor:
        return per_episode[:, None].expand(played.shape)

    def anchored(state: torch.Tensor) -> torch.Tensor:
        return gigpo(rewards, turn_rewards, turn, state, group, played, gamma=GAMMA)

    given = {
        "outcome (reinforce)": (spread(rewards), 1.0),
        "outcome (rloo)": (spread(rloo(rewards, group)), 1.0),
        "outcome (grpo)": (spread(group_z(rewards, group)), 1.0),
        "per turn index": (per_index(turn_rewards, group, played), 1.0),
        "turn_rloo": (turn_rloo(turn_rewards, turn, group, played), 1.0),
        "rebn": (rebn(turn_rewards, turn, played, gamma=REBN_GAMMA), 1.0),
        "gigpo": (anchored(_numbered([e.observations for e in episodes])), 1.0),
        "gigpo_state": (anchored(_numbered([[state_key(f) for f in e.forks] for e in episodes])), 1.0),
        f"vine, {VINE} continuations": (vine(rewards, step_values, turn, played), 1 + vine_turns / turns),
        "expert score": (
            ragged([differences(s, e.rewards) for s, e in zip(scores, episodes, strict=True)]).double(),
            1.0,
        ),
    }
    return {name: (values[played].tolist(), cost) for name, (values, cost) in given.items()}


def _numbered(states: Sequence[Sequence[Hashable]]) -> torch.Tensor:
    number: dict[Hashable, int] = {}
    return ragged_ints([[number.setdefault(state, len(number)) for state in row] for row in states])


def measure(env: TextEnv, level: int, share: float) -> dict[str, Any]:
    """One cell: the figures of each rule, and what there is to say of the episodes."""
    started, policy = time.process_time(), Mixture(share)
    groups = play_groups(env, level, policy)
    truth = true_advantages(groups, policy)
    with warnings.catch_warnings(action="ignore"):  # groups of equal rewards are wanted here
        rules = mixture_rules(groups, policy)
    return record(groups, truth, rules, started)


def record(groups: list[list[Played]], truth: Truth, rules: Given, started: float) -> dict[str, Any]:
    """What stands of a cell in the results, whose measuring began at ``started`` of the process's time."""
    episodes = [episode for group in groups for episode in group]
    return {
        "reward": statistics.fmean(sum(episode.rewards) for episode in episodes),
        "turns": statistics.fmean(len(episode.rewards) for episode in episodes),
        "rms_truth": math.sqrt(statistics.fmean(a * a for a in truth.advantages)),
        "mean_error": statistics.fmean(truth.errors),
        "cpu_seconds": round(time.process_time() - started, 2),
        "rules": {name: figures(given, truth, cost) for name, (given, cost) in rules.items()},
    }


def make(name: str) -> TextEnv:
    """The environment of an id, at most `MAX_TURNS` turns an episode."""
    env = gym.make(f"rlvr/{name}-v0").unwrapped
    limit = min(MAX_TURNS, *(env.task.turns(level) for level in LEVELS))
    return gym.make(f"rlvr/{name}-v0", max_turns=limit).unwrapped


def bonus_table() -> list[str]:
    lines = ["| goes on with p | a further turn earns | true | per turn index | turn_rloo |", "|---|---|---|---|---|"]
    for going_on, reward in ((0.5, -0.3), (0.8, -0.3), (0.5, 0.3), (0.8, 0.3)):
        row = hidden_bonus(going_on, reward, turns=3)
        lines.append(
            f"| {going_on} | {reward} | {row['true']:.3f} | {row['per turn index']:.3f} | {row['turn_rloo']:.3f} |"
        )
    return lines


def main() -> int:
    """Measure what is missing, cell by cell, each written at once; then the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="write the page alone")
    parser.add_argument("--again", nargs="+", default=[], choices=IDS, metavar="ID", help="measure these ids anew")
    arguments = parser.parse_args()
    results = credit_page.load()
    cells = results["cells"]
    for name in [name for name in cells if name.split()[0] in arguments.again]:
        del cells[name]
    wanted = [(name, level, share) for name in IDS for level in LEVELS for share in credit_page.SHARES]
    for name, level, share in [] if arguments.draw else wanted:
        cell = f"{name} level {level} share {share:g}"
        if cell in cells:
            continue
        cells[cell] = measure(make(name), level, share)
        print(f"{cell}: {cells[cell]['cpu_seconds']} s", flush=True)
        credit_page.store(results)
    credit_page.draw(results, bonus_table())
    return 0


if __name__ == "__main__":
    assert rlvr.__version__  # registers the ids
    sys.exit(main())
