"""How a step's episodes become an update: by a policy loss, by the likelihood of chosen rows, or by pairs.

A method is built once a run. The trainer knows no more of it than `Method`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rendering import Renderer
from rlvr.agents.sampling import sequence_logprobs
from rlvr.agents.transformers import TransformersAgent
from rlvr.algorithms._torch import torch
from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.data.batch import pad, stack
from rlvr.algorithms.data.collect import Collected
from rlvr.algorithms.data.selection import best_of_n, keep_correct
from rlvr.algorithms.losses.likelihood import verifree_loss
from rlvr.algorithms.losses.policy import merge_stats
from rlvr.algorithms.losses.preference import best_worst_pairs, dpo_loss, ln_dpo_loss, simpo_loss
from rlvr.algorithms.objectives import OBJECTIVES
from rlvr.algorithms.train.credit import Credit
from rlvr.algorithms.train.critic import Critic
from rlvr.algorithms.train.learner import Learner, merge_steps
from rlvr.algorithms.train.optimiser import Optimiser
from rlvr.envs import TextEnv

PAIR_LOSSES: dict[str, Callable[..., Any]] = {"dpo": dpo_loss, "ln_dpo": ln_dpo_loss, "simpo": simpo_loss}
Metrics = dict[str, Any]


class Method(Protocol):
    """Learns from the episodes of a step."""

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        """Change the policy; what there is to log."""

    def state(self) -> dict[str, Any]:
        """What it remembers, plain, for a checkpoint."""

    def restore(self, state: dict[str, Any]) -> None: ...


@dataclass
class PolicyGradient:
    """Advantages, then the preset's loss."""

    learner: Learner
    credit: Credit

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        rows, stats = self.credit.rows(collected)
        denominators = self.learner.count(rows)
        counts = {"tokens": denominators.n_tokens, "rows": denominators.n_rows, "prompts": denominators.n_prompts}
        metrics: Metrics = {**stats, "denominators": {**counts, "aggregation": self.learner.preset.aggregation}}
        return metrics | self.learner.update(rows, optimiser)

    def state(self) -> dict[str, Any]:
        return self.credit.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.credit.restore(state)


@dataclass
class _Stateless:
    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """There is nothing to restore."""


@dataclass
class Likelihood(_Stateless):
    """-log pi of the rows that a rule chooses, mean over their tokens; nothing where it chooses none.

    Args:
        choose: which of the collected rows, [B] bool.
    """

    learner: Learner
    choose: Callable[[Collected], torch.Tensor]

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        places = self.choose(collected).nonzero()[:, 0].tolist()
        sequences = [collected.episodes[place].tokens for place in places]
        metrics: Metrics = {"denominators": {"tokens": sum(s.sampled for s in sequences), "rows": len(sequences)}}
        if not sequences:
            return metrics
        steps = []
        cuts = self.learner.minibatches
        for _ in range(self.learner.epochs):
            parts = [sequences[part::cuts] for part in range(cuts)]
            steps += [self.learner.imitate(part, optimiser) for part in parts if part]
        return metrics | merge_steps(steps)


def correct_rows(collected: Collected) -> torch.Tensor:
    """Successes, each distinct one of a task once (RFT, 2308.01825)."""
    texts = [(episode.group, tuple(episode.tokens.ids)) for episode in collected.episodes]
    return keep_correct([float(episode.success) for episode in collected.episodes], texts)


def best_rows(collected: Collected) -> torch.Tensor:
    """The best row of each group, the shortest among equals, if it succeeded: of failures the shortest would win."""
    groups = [episode.group for episode in collected.episodes]
    best = best_of_n(collected.rewards, groups, [episode.tokens.sampled for episode in collected.episodes])
    return best & torch.tensor([episode.success for episode in collected.episodes])


@dataclass
class Imitation(_Stateless):
    """Supervised fine-tuning on the expert's demonstrations of the tasks that were played."""

    learner: Learner
    demonstrate: Callable[[list[RolloutRequest]], list[TokenSequence]]

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        requests = [
            RolloutRequest(e.seed, e.index, e.split, e.level, e.group, e.sample, "demonstration")
            for e in collected.episodes
            if e.sample == 0
        ]
        if not requests:
            return {}
        return self.learner.imitate(self.demonstrate(requests), optimiser)


@dataclass
class Preferences(_Stateless):
    """A preference loss on the best and the worst row of each group; groups without spread give no pair."""

    learner: Learner
    loss: str

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        pairs = best_worst_pairs(collected.rewards, [episode.group for episode in collected.episodes])
        rows = sorted({place for pair in pairs.tolist() for place in pair})
        metrics: Metrics = {"denominators": {"pairs": len(pairs)}}
        if not rows:
            return metrics
        place_of = {row: place for place, row in enumerate(rows)}
        pairs = torch.tensor([[place_of[i] for i in pair] for pair in pairs.tolist()])
        sequences = [collected.episodes[row].tokens for row in rows]
        reference = self.learner.reference_logprobs(sequences) if self.loss != "simpo" else None
        steps = []
        for _ in range(self.learner.epochs):
            parts = [self._part(sequences, reference, chunk, len(pairs)) for chunk in self._chunks(sequences, pairs)]
            steps.append(merge_stats(parts) | optimiser.step())
        return metrics | merge_steps(steps)

    def _chunks(self, sequences: Sequence[TokenSequence], pairs: torch.Tensor) -> Sequence[torch.Tensor]:
        """As many pairs at once as fit the micro-batch's tokens."""
        longest = max(map(len, sequences))
        chunks: Sequence[torch.Tensor] = pairs.split(max(1, self.learner.micro_batch_tokens // (2 * longest)))
        return chunks

    def _part(
        self, sequences: Sequence[TokenSequence], reference: Any, pairs: torch.Tensor, total: int
    ) -> dict[str, Any]:
        learner, flat = self.learner, pairs.flatten().tolist()
        whole = pad(sequences, flat, learner.pad_id, learner.device)
        new = sequence_logprobs(learner.model, whole.ids, whole.mask, learner.temperature)
        batch: dict[str, Any] = {"mask": whole.mask, "pairs": torch.arange(len(flat)).reshape(-1, 2)}
        if reference is not None:
            batch["ref"] = stack([reference[row] for row in flat], whole.ids.shape[1], learner.device)
        stats: dict[str, Any]
        loss, stats = PAIR_LOSSES[self.loss](new, batch, n_pairs=total)
        loss.backward()
        return stats


@dataclass
class VeriFree(_Stateless):
    """VeriFree (2505.21493): the thought is rewarded by the probability of the right answer after it; no verifier.

    The thought is what an episode sampled before its answer, the reference answer the environment's
    `direct_answer`. The answer begins with the tokens of ``border``, the same in every row, as the paper asks.
    """

    learner: Learner
    renderer: Renderer
    env: TextEnv
    border: str = "\\boxed{"
    answers: dict[tuple[Any, ...], list[int]] = field(default_factory=dict)

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        made = [(self._row(episode), episode.group) for episode in collected.episodes]
        kept = [(row, group) for row, group in made if row is not None]
        if not kept:
            return {"denominators": {"rows": 0}}
        parts = []
        for group in dict.fromkeys(group for _, group in kept):  # leave-one-out needs a group's rows together
            parts.append(self._part([row for row, of in kept if of == group], len(kept)))
        return {"denominators": {"rows": len(kept)}} | merge_stats(parts) | optimiser.step()

    def _part(self, rows: Sequence[tuple[TokenSequence, int]], total: int) -> dict[str, Any]:
        learner = self.learner
        sequences = [sequence for sequence, _ in rows]
        whole = pad(sequences, list(range(len(rows))), learner.pad_id, learner.device)
        positions = torch.arange(whole.ids.shape[1], device=learner.device)
        begin = torch.tensor([begin for _, begin in rows], device=learner.device)[:, None]
        new = sequence_logprobs(learner.model, whole.ids, whole.mask, learner.temperature)
        thought, answer = whole.mask & (positions < begin), whole.mask & (positions >= begin)
        loss, stats = verifree_loss(new, thought, answer, [0] * len(rows), n_rows=total)
        loss.backward()
        return stats

    def _row(self, episode: Episode) -> tuple[TokenSequence, int] | None:
        """Thought and reference answer in one sequence, and where the answer begins; None without a border."""
        tokens = episode.tokens
        border = self.renderer.tokenizer.encode(self.border, add_special_tokens=False)
        before = episode.turns[-2].end if len(episode.turns) > 1 else 0
        ids = tokens.ids
        begin = next(
            (p for p in range(before, len(ids)) if ids[p : p + len(border)] == border and tokens.mask[p]), None
        )
        if begin is None:
            return None
        row = tokens.piece(0, begin)
        answer = self._answer(episode)
        row.append_sampled(answer, [0.0] * len(answer))
        return row, begin

    def _answer(self, episode: Episode) -> list[int]:
        """The reference answer's tokens, with the end token."""
        key = (episode.seed, episode.index, episode.split, episode.level)
        if key not in self.answers:
            env = self.env.spawn()
            given = {"index": episode.index, "split": episode.split, "level": episode.level}
            env.reset(seed=episode.seed, options={name: value for name, value in given.items() if value is not None})
            words = env.direct_answer()
            if words is None or not words.startswith(self.border):
                raise ValueError(
                    f"VeriFree needs a reference answer that begins with {self.border!r}; "
                    f"{episode.env_id} gives {words!r}"
                )
            ids = self.renderer.tokenizer.encode(words, add_special_tokens=False)
            self.answers = {key: [*ids, *([self.renderer.end_id] if self.renderer.end_id is not None else [])]}
        return self.answers[key]


def build_method(
    config: TrainConfig,
    learner: Learner,
    player: TransformersAgent,
    env: Any,
    critic: Critic | None,
    demonstrate: Callable[[list[RolloutRequest]], list[TokenSequence]],
) -> Method:
    """The method that a config's algorithm names.

    Args:
        player: the policy, to play on from states inside episodes.
        env: an environment of the kind that is played.
        demonstrate: the expert's demonstrations of tasks, as tokens.
    """
    objective = OBJECTIVES.get(config.algorithm)
    if objective is None:
        return PolicyGradient(learner, Credit(config, learner, player, env, critic))
    builders: dict[str, Callable[[], Method]] = {
        "imitate_expert": lambda: Imitation(learner, demonstrate),
        "imitate_correct": lambda: Likelihood(learner, correct_rows),
        "imitate_best": lambda: Likelihood(learner, best_rows),
        "pairs": lambda: Preferences(learner, objective.loss),
        "verifree": lambda: VeriFree(learner, player.renderer, env),
    }
    return builders[objective.method]()
