"""The laboratory of credit with a language model for its policy.

    nice python benchmarks/credit_models.py --work runs/credit   # what is not measured yet, then the page
    python benchmarks/credit_models.py --minutes 20              # begins nothing after so many minutes

A cell is one id, level and stage of a small policy: after few steps of imitation, after many, and after reinforcement
learning from there. In games it reads and writes one token a sentence, so that episodes are short. As in `credit.py`
the truth of a turn is had from continuations, here from exact forks together with the tokens so far, and each rule is
computed on the same episodes; the critic is trained as `gem_ppo` does.
`credit.py --draw` writes the page.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import torch
import transformers

from rlvr.agents.continuation import BranchPoint, branch_points, continue_from, reply_start
from rlvr.agents.conversation import Message, TokenSequence
from rlvr.agents.episode import Episode
from rlvr.algorithms.advantages.compute import compute_advantages
from rlvr.algorithms.advantages.gather import state_values, token_turns, turns
from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.algorithms.recipe.advantage import Played as Sampled
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.state import save_policy

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

import credit
import credit_page
from whole_runs import Silent, sentences_of

RL_STEPS = 5  # after the many steps of imitation
CRITIC_BATCHES = 8  # of as many episodes as a cell has
MAX_TURNS = 5
MEASURED = 3  # episodes of each group whose turns are continued from; the rules see the others, too


class Setting(NamedTuple):
    """Of an id: what its policies need to enter it, and what its episodes take."""

    few: int  # steps of imitation
    many: int  # further ones
    batch: int  # demonstrations of a step
    max_new_tokens: int  # of an action
    levels: tuple[int, ...] = (1,)
    sentences: bool = False  # what the policy reads and writes is one token a sentence


GAME = Setting(60, 90, 16, 8, (1, 2), sentences=True)
IDS = {
    "Calculator": Setting(100, 40, 64, 24),
    "GuessNumber": Setting(100, 100, 32, 20),
    **dict.fromkeys(("FrozenLake", "WaterJugs", "Secretary", "TicTacToe", "HanoiGame", "Nim"), GAME),
}


# policies


def config_of(name: str, level: int, out: Path, **changes: Any) -> TrainConfig:
    """The config of a run on an id, of at most `MAX_TURNS` turns an episode."""
    plain, setting = gym.make(f"rlvr/{name}-v0").unwrapped, IDS[name]
    turns = min(MAX_TURNS, plain.task.turns(1))
    words = sentences_of(plain, setting.levels[-1]) if setting.sentences else ()
    env = {"id": f"rlvr/{name}-v0", "level": level, "system": False, "timeout": None, "settings": {"max_turns": turns}}
    sampling = {"max_new_tokens": setting.max_new_tokens, "max_length": 2048}
    common: dict[str, Any] = {
        "model": {"name": "rlvr/tiny", "words": words},
        "algorithm": "gem_ppo",
        "learner": {"lr": 3e-4, "share_prompts": True},
        "prompts": credit.TASKS,
        "group_size": credit.GROUP,
    }
    return load_config({**common, "env": env, "sampling": sampling, "out": str(out), **changes})


def train(config: TrainConfig, steps: int, policy: Path) -> None:
    """So many steps of reinforcement learning after the warm start of the config; then the policy is saved."""
    shutil.rmtree(config.out, ignore_errors=True)  # what an interrupted call left
    run = Trainer(config, Silent())
    try:
        run.prepare()
        for _ in range(steps):
            run.learn(run.collect())
        save_policy(run, policy)
    finally:
        run.close()


def policy_of(name: str, stage: str, work: Path) -> Path:
    """The folder of the policy of a stage, which is trained if it is not there."""
    policy = work / f"{name} {stage}"
    if (policy / "config.json").exists():
        return policy
    changes: dict[str, Any] = {"algorithm": "dr_grpo", "prompts": 8}
    if len(IDS[name].levels) > 1:
        changes["curriculum"] = {"kind": "by_rate"}  # spreads what is shown and played over the levels
    if stage != credit_page.STAGES[0]:
        before = credit_page.STAGES[credit_page.STAGES.index(stage) - 1]
        changes["model"] = {"name": str(policy_of(name, before, work))}
    steps = {"few": IDS[name].few, "many": IDS[name].many}.get(stage, 0)  # of imitation
    changes["warm_start"] = {"steps": steps, "batch_size": IDS[name].batch}
    train(config_of(name, IDS[name].levels[-1], work / "run", **changes), 0 if steps else RL_STEPS, policy)
    return policy


# a cell


@dataclass(slots=True)
class Cell:
    """Episodes of a policy, with the state before each turn of those that are measured."""

    run: Trainer
    level: int
    turns: int = 0  # that continuations took
    episodes: list[Episode] = field(default_factory=list)
    states: list[list[Hashable]] = field(default_factory=list)  # of each episode; [] where it is not measured
    points: dict[Hashable, BranchPoint] = field(default_factory=dict)

    def play(self) -> list[list[credit.Played]]:
        """`credit.GROUP` episodes on each of `credit.TASKS` training tasks."""
        rollout = self.run.rollout_of(self.run.play_agent(greedy=False), "train")
        order = TaskOrder(rollout.env.unwrapped, "credit", 0)
        self.episodes = rollout(
            [
                order.request(index, level=self.level, group=index, sample=sample, salt="credit")
                for index in range(credit.TASKS)
                for sample in range(credit.GROUP)
            ]
        )
        played = [self._forked(episode, rollout.env.unwrapped) for episode in self.episodes]
        return [played[start : start + credit.GROUP] for start in range(0, len(played), credit.GROUP)]

    def _forked(self, episode: Episode, env: Any) -> credit.Played:
        points = branch_points(env, episode, begins(episode))
        # what the policy has read is its state: two ways to a board may go on differently
        states = [(episode.group, *episode.tokens.ids[:begin]) for begin in begins(episode)]
        self.states.append(states if episode.sample < MEASURED else [])
        self.points |= dict(zip(self.states[-1], points, strict=False))  # of equal ones any
        return credit.Played(
            rewards=[turn.reward for turn in episode.turns],
            observations=[turn.observation for turn in episode.turns],
            forks=[point.env for point in points],
        )

    def values(
        self, count: int, key: str, of_episodes: Sequence[Sequence[Hashable]]
    ) -> list[list[tuple[float, float]]]:
        """V of states of each episode by ``count`` continuations, and its standard error."""
        wanted = list(dict.fromkeys(state for states in of_episodes for state in states))
        starts = [self.points[s].start(f"{key} {state} {n}") for state, s in enumerate(wanted) for n in range(count)]
        before = sum(start.env.get_state().turn for start in starts)
        earned = continue_from(self.run.play_agent(greedy=False), starts, timeout=None)
        self.turns += sum(start.env.get_state().turn for start in starts) - before
        values = {}
        for number, state in enumerate(wanted):
            returns = [r for r in earned[number * count : (number + 1) * count] if r is not None]
            values[state] = statistics.fmean(returns), statistics.stdev(returns) / math.sqrt(len(returns))
        return [[values[state] for state in states] for states in of_episodes]

    def gold(self) -> list[list[float]]:
        """Nats a token of the expert's words from the state before each turn on, by episode; [] if not measured."""
        shown = [continuation(self.run, point) for point in self.points.values()]
        sums = self.run.learner.logprobs(shown).sum(1).tolist()
        means = [total / sum(tokens.mask) for total, tokens in zip(sums, shown, strict=True)]
        of_states = dict(zip(self.points, means, strict=True))
        return [[of_states[state] for state in states] for states in self.states]

    def measured(self, of_turns: Sequence[float]) -> list[float]:
        """Those of the measured episodes, of numbers for each turn of all."""
        kept = [episode.sample < MEASURED for episode in self.episodes for _ in episode.turns]
        return [value for value, is_kept in zip(of_turns, kept, strict=True) if is_kept]

    def scores(self) -> list[float]:
        """Of each turn d log pi / d beta, where logits are multiplied by beta = 1: sum of log p + entropy."""
        padded = self.run.learner.pad([episode.tokens for episode in self.episodes])
        score = self.run.learner.logprobs(padded) + self.run.learner.entropies(padded)  # [B, T], 0 if not sampled
        index = token_turns(self.episodes)  # [B, T]
        sums = torch.zeros(len(index), int(index.max()) + 1).scatter_add(1, index, score * padded.mask)  # [B, K]
        return [x for episode, row in zip(self.episodes, sums.tolist(), strict=True) for x in row[: len(episode.turns)]]

    def with_critic(self) -> credit.Given:
        """GAE over turns, with a critic that has learned from batches of the same policy."""
        run = self.run
        for _ in range(CRITIC_BATCHES):
            run.method.credit(run.collect().collected)  # by which the critic learns
            run.step += 1  # other tasks
        sampled = Sampled(self.episodes, [episode.reward for episode in self.episodes])
        entries = turns(sampled, run.method.sources) | state_values(sampled, run.method.sources)
        entries["mask"] = run.learner.pad([episode.tokens for episode in self.episodes]).mask
        group = [episode.group for episode in self.episodes]
        given = {}
        for lam in (1.0, 0.0):
            preset = run.learner.preset.replace(lam=lam)
            advantages = compute_advantages(sampled.rewards, group, preset, entries)  # [B, T]
            of_turns = [advantages[b, t].item() for b, e in enumerate(self.episodes) for t in begins(e)]
            given[f"gae, lambda {lam:g}"] = of_turns, 1.0  # the batches before were trained on in their turn
        return given


def begins(episode: Episode) -> list[int]:
    """The position of the first sampled token of each turn."""
    ends = [0, *(turn.end for turn in episode.turns)]
    return [reply_start(episode.tokens, before, end) for before, end in pairwise(ends)]


def continuation(run: Trainer, point: BranchPoint) -> TokenSequence:
    """What was said before a state, and behind it what the expert says from there to the end, which the mask marks."""
    env, messages, over = point.env.fork(), list[Message](), False
    while not over:
        messages.append({"role": "assistant", "content": env.solve()})
        observation, _, terminated, truncated, _ = env.step(messages[-1]["content"])
        messages.append({"role": "user", "content": observation})
        over = terminated or truncated
    ids, mask = run.renderer.render_demonstration(
        [*point.messages, *messages[:-1]], point.tools, opening=len(point.messages)
    )
    return TokenSequence(ids, mask, [0.0] * len(ids))


def trace(gold: Sequence[Sequence[float]], rewards: Sequence[Sequence[float]]) -> list[list[float]]:
    """A_k = log p_k+1 - log p_k, p_k the probability of the gold answer before turn k (TRACE, 2607.13988).

    The gold answer of a game is the expert's continuation, and log p its mean over tokens. After the last turn it is 0
    where something was earned, else the lowest of all that are given.

    Args:
        gold: log p_k of each turn of each episode; [] of one that is not measured.
        rewards: of each turn.
    """
    lowest = min(value for values in gold for value in values)
    return [
        [after - before for before, after in pairwise([*values, 0.0 if sum(earned) > 0 else lowest])]
        for values, earned in zip(gold, rewards, strict=True)
    ]


def measure(name: str, level: int, stage: str, work: Path) -> dict[str, Any]:
    """One cell: the figures of each rule, and what there is to say of the episodes."""
    model = {"name": str(policy_of(name, stage, work))}
    started = time.process_time()
    shutil.rmtree(work / "run", ignore_errors=True)
    run = Trainer(config_of(name, level, work / "run", model=model), Silent())
    try:
        run.prepare()
        cell, truth = Cell(run, level), credit.Truth()
        groups = cell.play()
        episodes = [episode for group in groups for episode in group]
        for values, episode in zip(cell.values(credit.CONTINUATIONS, "truth", cell.states), episodes, strict=True):
            if values:
                truth.add(values, episode.rewards)
        truth.scores = cell.measured(cell.scores())

        def played_on(key: str, of_episodes: Sequence[Sequence[Hashable]]) -> tuple[list[list[float]], float]:
            """V by few continuations, and how many turns these took for one of the measured episodes' turns."""
            before = cell.turns
            values = cell.values(credit.VINE, key, of_episodes)
            return [[value for value, _ in of] for of in values], (cell.turns - before) / len(truth.scores)

        turns = sum(len(episode.rewards) for episode in episodes)
        vines, vine_cost = played_on("vine", cell.states)
        vines = [values or [0.0] * len(episode.rewards) for values, episode in zip(vines, episodes, strict=True)]
        with warnings.catch_warnings(action="ignore"):  # groups of equal rewards are wanted here
            rules = credit.rule_advantages(groups, vines, vine_cost * turns)
            rules |= cell.with_critic()
        branches, cost = played_on("branch", [states[len(states) // 2 :][:1] for states in cell.states])
        contrasted = credit.contrasted(groups, [sum(of) for of in branches])  # 0 where it is not measured
        traced = trace(cell.gold(), [episode.rewards for episode in episodes])
        of_turns = [x for e, row in zip(episodes, traced, strict=True) for x in row or [0.0] * len(e.rewards)]
        rules |= {"branch contrast": (contrasted, 1 + cost), "trace": (of_turns, 1.0)}
    finally:
        run.close()
    rules = {rule: (cell.measured(given), cost) for rule, (given, cost) in rules.items()}
    return credit.record(groups, truth, rules, started)


def main() -> int:
    """Measure what is missing, each result written at once; then the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many minutes")
    parser.add_argument("--work", type=Path, help="folder that keeps the policies, for another call")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    results, until = credit_page.load(), time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        wanted = [(n, s, level) for n in IDS for s in credit_page.STAGES for level in IDS[n].levels]
        for name, stage, level in wanted:
            cell = f"{name} level {level} {stage}"
            if cell in results["models"] or time.monotonic() > until:
                continue
            results["models"][cell] = measure(name, level, stage, work)
            print(f"{cell}: {results['models'][cell]['cpu_seconds']} s", flush=True)
            credit_page.store(results)
    credit_page.draw(results, credit.bonus_table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
