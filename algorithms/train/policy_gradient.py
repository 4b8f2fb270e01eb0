"""The policy gradient: from the episodes of a step to the batch that is learned from, with its advantages.

What an advantage needs, and how that is gathered from episodes, says the advantage's own object
(`rlvr.algorithms.advantages`); here it is put together, in one order for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlvr.agents.continuation import reply_start
from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode
from rlvr.algorithms.advantages.compute import compute_advantages
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.learner.batch import TrainingBatch
from rlvr.algorithms.learner.critic import Critic
from rlvr.algorithms.learner.entropy import EntropyTarget, mean_entropy
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.recipe.advantage import Played, Sources
from rlvr.algorithms.sampling.collect import Collected

Metrics = dict[str, Any]


class Method:
    """How a run learns from the episodes of a step, in three calls. Built once a run, which knows no more of it."""

    def credit(self, collected: Collected) -> tuple[Any, Metrics]:
        """What the update learns from, and what there is to log; by itself the episodes as they are."""
        return collected, {}

    def score(self, batch: Any) -> Any:
        """The same with the log-probabilities of other policies that the loss reads."""
        return batch

    def update(self, batch: Any, optimiser: Optimiser) -> Metrics:
        """Change the policy; what there is to log."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, plain, for a checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember this instead."""


@dataclass
class PolicyGradient(Method):
    """Advantages, then the preset's loss.

    Args:
        learner: for log-probabilities, and for the update.
        sources: what advantages may ask for beside the episodes.
        critic: for advantages that need one.
        entropy: what sets the coefficient of the entropy bonus from step to step, if anything does.
    """

    learner: Learner
    sources: Sources
    critic: Critic | None = None
    entropy: EntropyTarget | None = None

    def credit(self, collected: Collected) -> tuple[TrainingBatch, Metrics]:
        """The batch to train on, with the advantages of all of it, and what there is to log."""
        batch, stats = self._with_advantages(collected)
        if self.learner.preset.observation_coef:
            batch = batch.replace(observations=later_observations(collected.episodes, batch.padded.mask))
        n = self.learner.count(batch)
        counts = {"tokens": n.n_tokens, "sequences": n.n_sequences, "prompts": n.n_prompts}
        return batch, {**stats, "denominators": {**counts, "aggregation": self.learner.preset.aggregation}}

    def score(self, batch: TrainingBatch) -> TrainingBatch:
        """With the log-probabilities of the policy before the update and of the reference, where they are read."""
        if self.entropy is not None:
            mask = batch.inputs.need("mask", "the policy gradient")
            before = mean_entropy(self.learner.entropies(batch.padded), mask)
            self.learner.preset = self.learner.preset.replace(entropy_coef=self.entropy(before))
        return self.learner.with_logprobs(batch)

    def update(self, batch: TrainingBatch, optimiser: Optimiser) -> Metrics:
        """Gradients and the optimiser's steps, minibatch by minibatch."""
        metrics = self.learner.update(batch, optimiser)
        if self.entropy is not None:
            metrics |= dict(zip(("entropy", "entropy_coef"), self.entropy.last, strict=True))
        return metrics

    def _with_advantages(self, collected: Collected) -> tuple[TrainingBatch, dict[str, float]]:
        preset, episodes = self.learner.preset, collected.episodes
        rewards = torch.tensor(collected.rewards, dtype=torch.float32)  # [B]
        group = [episode.group for episode in episodes]  # [B]
        learner = self.learner
        batch = TrainingBatch.of([e.tokens for e in episodes], group, learner.max_length, learner.pad_id)
        entries: dict[str, Any] = {"mask": batch.inputs.mask}
        if preset.reward_kl_coef:
            entries["old_logprobs"] = learner.logprobs(batch.padded)  # [B, T]
            entries["ref_logprobs"] = learner.reference_logprobs(batch.padded)  # [B, T]
            batch = batch.replace(**{name: entries[name] for name in ("old_logprobs", "ref_logprobs")})
        # each kind of entry is made by one function, which the advantage names
        for gather in preset.estimator.gather:
            entries |= gather(Played(episodes, collected.rewards), self.sources)
        advantages = compute_advantages(rewards, batch.inputs.group, preset, entries)  # [B] or [B, T]
        stats: dict[str, float] = {}
        if self.critic is not None:
            stats |= self.critic.learn(rewards, preset, entries)
        if "continuations" in entries:
            stats["continuations"] = entries["continuations"]
        if "left_out" in entries:
            stats["sequences_left_out"] = int(entries["left_out"].sum())
            _leave_out(collected, entries["left_out"].tolist())
        # masked after the advantages: a truncated episode is an outcome of its group, but is not learned from
        batch = batch.replace(advantages=advantages, mask=_without_masked(batch, collected.masked))
        batch = batch.replace(
            **{name: entries[name] for name in ("teacher_top", "teacher_top_logprobs") if name in entries}
        )
        batch = batch.traced(_traces(collected, advantages, turn_values(episodes, entries)))
        branches = [(i, b.tokens) for i, e in enumerate(episodes) for b in e.branches if b.tokens.sampled]
        if not branches:
            return batch, stats
        if advantages.dim() > 1 or preset.reward_kl_coef:  # no number for a branch's tokens follows from these
            return batch, stats | {"branches_left_out": len(branches)}
        return self._with_branches(batch, collected, branches), stats | {"branches": len(branches)}

    def _with_branches(
        self, batch: TrainingBatch, collected: Collected, branches: list[tuple[int, TokenSequence]]
    ) -> TrainingBatch:
        """The batch with a sequence for each branch, which has its episode's advantage; [B] -> [B + branches]."""
        # the advantages are those of episodes: one that branches a lot weighs no more in the mean of its group
        of = [*range(len(batch)), *(index for index, _ in branches)]
        sequences = [*(episode.tokens for episode in collected.episodes), *(tokens for _, tokens in branches)]
        group = [collected.episodes[index].group for index in of]
        longer: TrainingBatch = TrainingBatch.of(sequences, group, self.learner.max_length, self.learner.pad_id)
        mask = _without_masked(longer, [collected.masked[index] for index in of])
        assert batch.inputs.advantages is not None  # for the type checker
        longer = longer.replace(advantages=batch.inputs.advantages[of], mask=mask)
        return longer.traced((*batch.traces, *({} for _ in branches)) if batch.traces else ())

    def state_dict(self) -> dict[str, Any]:
        """What the advantages remember."""
        roles = self.sources.role_baselines
        states = {"roles": None if roles is None else roles.state_dict()}
        return states | ({} if self.entropy is None else {"entropy": self.entropy.state_dict()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.sources.role_baselines is not None:
            self.sources.role_baselines.load_state_dict(state["roles"])
        if self.entropy is not None:
            self.entropy.load_state_dict(state["entropy"])


def _without_masked(batch: TrainingBatch, masked: list[bool]) -> Tensor:
    """[B, T] the mask, False on all tokens of sequences that lose theirs; after the advantages, which they enter."""
    keep: Tensor = batch.padded.mask & ~torch.tensor(masked)[:, None]
    return keep


def later_observations(episodes: Sequence[Episode], mask: Tensor) -> Tensor:
    """[B, T] True on what stands between the actions of each episode, template included; False in its branches.

    A sequence without a trained token has none. mask: [B, T], the trained tokens.
    """
    observed = torch.zeros_like(mask)
    for index, episode in enumerate(episodes):
        sampled = episode.tokens.mask
        own = episode.turns[episode.prefix :]  # what follows the expert's actions says nothing of the policy's
        ends = [turn.end for turn in own if not turn.branch] if mask[index].any() else []
        for start in ends[:-1]:
            # up to the first token of the next action: a phrase that ends a thought comes after it
            stop = next((t for t in range(start, len(sampled)) if sampled[t]), len(sampled))
            observed[index, start:stop] = True
    return observed


def _leave_out(collected: Collected, left_out: list[bool]) -> None:
    """Mask sequences that have no teacher."""
    for index, episode in enumerate(collected.episodes):
        if left_out[index]:
            collected.masked[index] = True
            episode.training["masked"] = "no teacher"


def turn_values(episodes: Sequence[Episode], entries: dict[str, Any]) -> list[list[float | None]]:
    """[B] of [K]: the mean return of continuations from before each turn; [] where none were played.

    A turn that begins no step, of the expert or beyond the cap on steps, has None.
    """
    if "step_values" not in entries:
        return []
    values: list[list[float | None]] = []
    for steps, of_steps, episode in zip(
        entries["step"].tolist(), entries["step_values"].tolist(), episodes, strict=True
    ):
        before, last = 0, -1
        measured: list[float | None] = []
        for turn in episode.turns:
            if turn.end <= before:  # nothing was sampled
                measured.append(None)
                continue
            step = steps[reply_start(episode.tokens, before, turn.end)]
            measured.append(of_steps[step] if step > last else None)
            before, last = turn.end, steps[turn.end - 1]
        values.append(measured)
    return values


def _traces(collected: Collected, advantages: Tensor, values: list[list[float | None]]) -> tuple[dict[str, Any], ...]:
    """For each episode the dict that it keeps of its training, with its advantages; none unless they are asked for."""
    if not collected.traced:
        return ()
    for index, episode in enumerate(collected.episodes):
        if values:
            episode.training["turn_values"] = values[index]
        row, length = advantages[index], len(episode.tokens)
        # one number for all tokens is written once; explain and readers of the file spread it over the mask
        episode.training["advantages"] = float(row) if row.dim() == 0 else row[:length].tolist()
    return tuple(episode.training for episode in collected.episodes)
