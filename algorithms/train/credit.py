"""Credit: what `compute_advantages` needs beyond rewards and groups, built from the episodes of a step.

For each kind of advantage a table says what to gather: which turn each token belongs to and what the turn earned, the
steps of a reply and the Monte-Carlo value of each, answers to thoughts that are cut at a budget, clusters of answers,
roles, values of a critic, log-probabilities of a reference or a teacher. The trainer asks for all of it by the name of
the advantage, never of the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from rlvr.agents.continuation import BranchPoint, branch_points, continue_from, reply_start
from rlvr.agents.episode import Episode
from rlvr.agents.transformers import TransformersAgent
from rlvr.algorithms._torch import torch
from rlvr.algorithms.advantages.estimators import RoleBaselines, compute_advantages
from rlvr.algorithms.advantages.returns import budget_probs, split_steps
from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.data.batch import Rows, pad, stack
from rlvr.algorithms.data.collect import Collected
from rlvr.algorithms.train.critic import Critic
from rlvr.algorithms.train.learner import Learner

Tensor = torch.Tensor
CPU = torch.device("cpu")
MAX_STEPS = 25  # VinePPO's cap on the steps of an episode


@dataclass
class Credit:
    """Gathers, computes the advantages, and keeps what they remember.

    Args:
        learner: for log-probabilities.
        player: plays on from states inside episodes, for advantages by Monte Carlo.
        env: an environment of the kind that is played, to fork.
        critic: for advantages that need one.
        teacher: a model whose log-probabilities are the aim, for distillation.
    """

    config: TrainConfig
    learner: Learner
    player: TransformersAgent
    env: Any
    critic: Critic | None = None
    teacher: Any = None
    roles: RoleBaselines = field(default_factory=RoleBaselines)

    def rows(self, collected: Collected) -> tuple[Rows, dict[str, float]]:
        """The rows to train on, with advantages, and what there is to log."""
        preset, episodes = self.learner.preset, collected.episodes
        rewards = torch.tensor(collected.rewards, dtype=torch.float32)
        group = torch.tensor([episode.group for episode in episodes])
        rows = Rows([episode.tokens for episode in episodes], rewards, group)
        batch: dict[str, Any] = {"mask": token_mask(episodes), "max_length": self.learner.max_length}
        stats: dict[str, float] = {}
        if preset.kl_coef and preset.kl_place == "reward":
            rows.old = self.learner.logprobs(rows.sequences)
            rows.ref = self.learner.reference_logprobs(rows.sequences)
            width = batch["mask"].shape[1]
            batch |= {"old": stack(rows.old, width, CPU), "ref": stack(rows.ref, width, CPU)}
        for gather in GATHER.get(preset.advantage, ()):
            batch |= gather(self, collected)
        rows.advantages = compute_advantages(rewards, group, preset, batch)
        if preset.critic:
            assert self.critic is not None  # for the type checker: the trainer makes one for these presets
            stats |= self.critic.learn(rewards, preset, batch)
        stats |= {name: value for name, value in batch.items() if name == "continuations"}
        for place, masked in enumerate(collected.masked):
            if masked:
                rows.sequences[place] = rows.sequences[place].without_loss()
        return rows, stats

    # what advantages need, one function for each kind; each returns entries of the batch

    def _turns(self, collected: Collected) -> dict[str, Any]:
        """turn [B, T], turn_rewards [B, K]; what shaping added is earned in the last turn."""
        return {
            "turn": token_turns(collected.episodes),
            "turn_rewards": _stack([shaped_turn_rewards(e, r) for e, r in zip_rewards(collected)]),
        }

    def _steps_of_turns(self, collected: Collected) -> dict[str, Any]:
        turns = self._turns(collected)
        return {"step": turns["turn"], "step_rewards": turns["turn_rewards"]}

    def _token_rewards(self, collected: Collected) -> dict[str, Any]:
        """token_rewards [B, T]: each turn's reward at its last token."""
        width = max(len(episode.tokens) for episode in collected.episodes)
        placed = torch.zeros(len(collected.episodes), width)
        for row, (episode, reward) in enumerate(zip_rewards(collected)):
            for turn, earned in zip(episode.turns, shaped_turn_rewards(episode, reward), strict=True):
                placed[row, max(0, turn.end - 1)] += earned
        return {"token_rewards": placed}

    def _values(self, collected: Collected) -> dict[str, Any]:
        """values [B, T] before each token, bootstrap [B]: after the last, where the episode was truncated."""
        assert self.critic is not None  # for the type checker
        features, last = self.critic.features(self.learner, [episode.tokens for episode in collected.episodes])
        truncated = torch.tensor([float(episode.truncated) for episode in collected.episodes])
        with torch.no_grad():
            values, after = self.critic(features), self.critic(last)
        return {"features": features, "values": values, "bootstrap": after * truncated}

    def _role(self, collected: Collected) -> dict[str, Any]:
        """One role for each environment and level: whoever plays alone has no other."""
        roles = [f"{episode.env_id}, level {episode.level}" for episode in collected.episodes]
        return {"roles": roles, "role_baselines": self.roles}

    def _clusters(self, collected: Collected) -> dict[str, Any]:
        return {"clusters": torch.tensor(answer_clusters(collected.episodes))}

    def _teacher(self, collected: Collected) -> dict[str, Any]:
        sequences = [episode.tokens for episode in collected.episodes]
        width = max(map(len, sequences))
        sampler = [torch.tensor(sequence.logprobs) for sequence in sequences]
        teacher = self.learner.logprobs(sequences, self.teacher)
        return {"teacher": stack(teacher, width, CPU), "sampler": stack(sampler, width, CPU)}

    def _vine(self, collected: Collected) -> dict[str, Any]:
        """step [B, T], step_values [B, K]: V before each step, the mean return of continuations from there.

        Equal states, such as the first ones of a group, are played on from once.
        """
        episodes, decode = collected.episodes, self.player.renderer.decode
        steps = [reply_steps(episode, decode) for episode in episodes]
        count = self.learner.preset.k or 1
        wanted = [_Wanted(e, [s for s, _ in _firsts(of)], ()) for e, of in zip(episodes, steps, strict=True)]
        values, played = self._play_on(wanted, count)
        before = [_earned_before(e, [s for s, _ in _firsts(of)]) for e, of in zip(episodes, steps, strict=True)]
        total = [[a + b for a, b in zip(*row, strict=True)] for row in zip(values, before, strict=True)]
        return {"step": _stack_ints(steps), "step_values": _stack(total), "continuations": played}

    def _budgets(self, collected: Collected) -> dict[str, Any]:
        """budget_scores [B, S], budget_slice [B, T], budget_probs [S]: answers to the thought cut at each budget.

        The thought is all that the episode samples. Where it is shorter than a budget its own reward is the score.
        """
        settings, limit = self.config.credit, self.config.sampling.max_new_tokens
        budgets = settings.budgets or tuple(sorted({max(1, limit * part // 4) for part in (1, 2, 3, 4)}))
        phrase = self._phrase()
        cuts = [[sampled_position(e, budget) for budget in budgets] for e in collected.episodes]
        wanted = [
            _Wanted(episode, [cut for cut in row if cut is not None], phrase)
            for episode, row in zip(collected.episodes, cuts, strict=True)
        ]
        values, played = self._play_on(wanted, settings.answers)
        scores, slices = [], []
        for (episode, reward), row, found in zip(zip_rewards(collected), cuts, values, strict=True):
            before = _earned_before(episode, [cut for cut in row if cut is not None])
            answers = [value + earned for value, earned in zip(found, before, strict=True)]
            scores.append(answers + [reward] * (len(budgets) - len(answers)))
            spent = accumulate(episode.tokens.mask)
            slices.append([sum(budget < n for budget in budgets[:-1]) for n in spent])
        return {
            "budget_scores": _stack(scores),
            "budget_slice": _stack_ints(slices),
            "budget_probs": budget_probs(budgets, settings.budget_prior),
            "continuations": played,
        }

    def _phrase(self) -> tuple[int, ...]:
        from rlvr.agents.budget import PHRASES

        words = self.config.sampling.interruption
        return tuple(self.player.renderer.tokenizer.encode(PHRASES.get(words, words), add_special_tokens=False))

    def _play_on(self, wanted: Sequence[_Wanted], count: int) -> tuple[list[list[float]], int]:
        """The mean of ``count`` continuations from each wanted state, and how many were played.

        A state whose continuations all failed through no fault of the policy counts as 0.
        """
        places: dict[tuple[Any, ...], int] = {}
        found: list[tuple[BranchPoint, str, tuple[int, ...]]] = []
        index: list[list[int]] = []
        for one in wanted:
            episode = one.episode
            states = [(*_task(episode), *episode.tokens.ids[:position]) for position in one.positions]
            new = [p for p, state in zip(one.positions, states, strict=True) if state not in places]
            fresh = iter(branch_points(self.env, episode, new)) if new else iter(())
            for position, state in zip(one.positions, states, strict=True):
                if state not in places:
                    places[state] = len(found)
                    found.append((next(fresh), f"{episode.key}/from {position}", one.forced))
            index.append([places[state] for state in states])
        starts = [branch.start(f"{key}/{n}", forced) for branch, key, forced in found for n in range(count)]
        earned = continue_from(self.player, starts, self.config.env.batch_size)
        means = []
        for place in range(len(found)):
            valid = [value for value in earned[place * count : (place + 1) * count] if value is not None]
            means.append(sum(valid) / max(1, len(valid)))
        return [[means[place] for place in row] for row in index], len(starts)

    # state

    def state(self) -> dict[str, Any]:
        """For a checkpoint, plain."""
        return {"roles": self.roles.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.roles = RoleBaselines.restore(state["roles"])


@dataclass(frozen=True, slots=True)
class _Wanted:
    """States of one episode, before tokens at increasing positions, and the tokens forced there."""

    episode: Episode
    positions: list[int]
    forced: tuple[int, ...]


Gather = Callable[[Credit, Collected], dict[str, Any]]
GATHER: dict[str, tuple[Gather, ...]] = {
    "raw": (Credit._token_rewards,),
    "reinforce_pp": (Credit._token_rewards,),
    "gae": (Credit._token_rewards, Credit._values),
    "turn_gae": (Credit._turns, Credit._values),
    "rebn": (Credit._turns,),
    "process": (Credit._steps_of_turns,),
    "vine": (Credit._vine,),
    "rae": (Credit._role,),
    "brpo": (Credit._budgets,),
    "seed": (Credit._clusters,),
    "teacher": (Credit._teacher,),
}
"""What each advantage needs gathered; those that are not here need rewards, groups and the mask alone."""


# from episodes to columns


def zip_rewards(collected: Collected) -> list[tuple[Episode, float]]:
    return list(zip(collected.episodes, collected.rewards, strict=True))


def token_mask(episodes: Sequence[Episode]) -> Tensor:
    """[B, T] bool."""
    return pad([episode.tokens for episode in episodes], list(range(len(episodes))), 0, CPU).mask


def token_turns(episodes: Sequence[Episode]) -> Tensor:
    """[B, T]: the turn of each token, from 0; what is rendered before a reply counts to its turn."""
    return _stack_ints([_token_turns(episode) for episode in episodes])


def _token_turns(episode: Episode) -> list[int]:
    turns: list[int] = []
    for number, turn in enumerate(episode.turns):
        turns += [number] * (turn.end - len(turns))
    return turns + [max(0, len(episode.turns) - 1)] * (len(episode.tokens) - len(turns))


def shaped_turn_rewards(episode: Episode, reward: float) -> list[float]:
    """The reward of each turn; what ``reward`` has beyond the episode's own is earned in the last."""
    earned = [turn.reward for turn in episode.turns]
    earned[-1] += reward - episode.reward
    return earned


def answer_clusters(episodes: Sequence[Episode]) -> list[int]:
    """One number for each answer; replies without one are alike when their text is."""
    seen: dict[tuple[int, bool, str], int] = {}
    clusters = []
    for episode in episodes:
        answer = episode.verdict.answer if episode.verdict else None
        text = answer if answer is not None else episode.turns[-1].action
        clusters.append(seen.setdefault((episode.group, answer is not None, text), len(seen)))
    return clusters


def reply_steps(episode: Episode, decode: Callable[[Sequence[int]], str]) -> list[int]:
    """The step of each token: a reply begins a step, and so does each of its lines; `MAX_STEPS` at most."""
    steps: list[int] = []
    first, before = 0, 0
    for turn in episode.turns:
        begin = reply_start(episode.tokens, before, turn.end)
        own = split_steps([decode([token]) for token in episode.tokens.ids[begin : turn.end]])
        steps += [first] * (begin - before) + [first + step for step in own]
        first, before = first + (own[-1] + 1 if own else 0), turn.end
    steps += [first] * (len(episode.tokens) - len(steps))
    return [min(step, MAX_STEPS - 1) for step in steps]


def sampled_position(episode: Episode, budget: int) -> int | None:
    """Where the episode stands when it has sampled so many tokens; None if it is over by then."""
    spent = 0
    for place, sampled in enumerate(episode.tokens.mask):
        if spent == budget and sampled:
            return place
        spent += sampled
    return None


def _firsts(steps: Sequence[int]) -> list[tuple[int, int]]:
    """Position and number of the first token of each step."""
    return [(place, step) for place, step in enumerate(steps) if place == 0 or steps[place - 1] != step]


def _earned_before(episode: Episode, positions: Sequence[int]) -> list[float]:
    """What the turns had earned that were over at each position: continuations earn only what comes after."""
    return [sum(turn.reward for turn in episode.turns if turn.end <= position) for position in positions]


def _task(episode: Episode) -> tuple[Any, ...]:
    return (episode.env_id, episode.seed, episode.index, episode.split, episode.level)


def _stack(rows: Sequence[Sequence[float]]) -> Tensor:
    """[B, K] float32, 0 where a row is shorter."""
    return stack([torch.tensor(row, dtype=torch.float32) for row in rows], max(map(len, rows), default=0), CPU)


def _stack_ints(rows: Sequence[Sequence[int]]) -> Tensor:
    return stack([torch.tensor(row, dtype=torch.long) for row in rows], max(map(len, rows), default=0), CPU)
