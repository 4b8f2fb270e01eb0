"""How a step's episodes become an update: by a policy loss, by the likelihood of chosen sequences, or by pairs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlvr.agents.budget import PHRASES
from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.models.token_agent import TokenAgent
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.advantages.hindsight import (
    behind_condition,
    feedback_condition,
    feedback_texts,
    too_long,
)
from rlvr.algorithms.advantages.roles import RoleBaselines
from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.filters.selection import best_of_n, keep_correct
from rlvr.algorithms.learner.batch import Padded
from rlvr.algorithms.learner.critic import Critic
from rlvr.algorithms.learner.entropy import EntropyTarget
from rlvr.algorithms.learner.learner import Learner, merge_steps
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.losses.likelihood import verifree_loss
from rlvr.algorithms.losses.policy import merge_stats
from rlvr.algorithms.losses.preference import best_worst_pairs, dpo_loss, ln_dpo_loss, simpo_loss
from rlvr.algorithms.recipe.advantage import Sources
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.recipe.objectives import Objective
from rlvr.algorithms.sampling.collect import Collected
from rlvr.algorithms.train.policy_gradient import Method, Metrics, PolicyGradient
from rlvr.algorithms.train.warm_start import MOST_FAILURES
from rlvr.envs import TextEnv

PAIR_LOSSES: dict[str, Callable[..., Any]] = {"dpo": dpo_loss, "ln_dpo": ln_dpo_loss, "simpo": simpo_loss}


@dataclass
class Likelihood(Method):
    """-log pi of the sequences that a rule chooses, mean over their tokens; nothing where it chooses none.

    Args:
        choose: which of the collected sequences, [B] bool.
    """

    learner: Learner
    choose: Callable[[Collected], Tensor]

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        """Nothing where no sequence is chosen."""
        indices = self.choose(collected).nonzero()[:, 0].tolist()
        chosen = [collected.episodes[index] for index in indices]
        traces = [episode.training for episode in chosen] if collected.traced else []
        return imitate_each(self.learner, optimiser, [episode.tokens for episode in chosen], traces)


def imitate_each(
    learner: Learner, optimiser: Optimiser, sequences: Sequence[TokenSequence], traces: Sequence[dict[str, Any]] = ()
) -> Metrics:
    """Maximum likelihood of the sequences, in the learner's epochs and minibatches."""
    metrics: Metrics = {"denominators": {"tokens": sum(s.sampled for s in sequences), "sequences": len(sequences)}}
    if not sequences:
        return metrics
    steps = []
    cuts = learner.minibatches
    for _ in range(learner.epochs):
        # strided, so that groups spread over the steps
        parts = [(sequences[part::cuts], traces[part::cuts]) for part in range(cuts)]
        steps += [learner.imitate(part, optimiser, noted) for part, noted in parts if part]
    return metrics | merge_steps(steps)


@dataclass
class FeedbackConditional(Method):
    """Feedback-conditional policy (FCP, 2509.22638): -log pi(y | c, x) of every response y behind its own feedback c.

    The responses are sampled behind the feedback of a success, which the renderer puts before each task, and get fresh
    feedback: their verdicts in words (`rlvr.algorithms.advantages.hindsight`).

    Args:
        env: an environment of the kind that is played, to ask for the answers that feedback must not hold.
        max_length: of a sequence; one whose feedback makes it longer is left out.
    """

    learner: Learner
    renderer: Renderer
    env: Any
    max_length: int

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        """Nothing where every sequence is too long behind its feedback."""
        sequences = [sequence for sequence in self.sequences(collected) if len(sequence) <= self.max_length]
        left_out = len(collected.episodes) - len(sequences)
        if left_out:
            warnings.warn(too_long("feedback", self.max_length), stacklevel=2)
        return {"sequences_left_out": left_out} | imitate_each(self.learner, optimiser, sequences)

    def sequences(self, collected: Collected) -> list[TokenSequence]:
        """Each episode's tokens behind the feedback that it got."""
        texts = feedback_texts(collected.episodes, self.env)
        return [
            behind_condition(self.renderer, episode, feedback_condition(text))
            for episode, text in zip(collected.episodes, texts, strict=True)
        ]


def correct_sequences(collected: Collected) -> Tensor:
    """Successes, each distinct one of a task once (RFT, 2308.01825)."""
    # the same text of two tasks is two examples
    texts = [(episode.group, tuple(episode.tokens.ids)) for episode in collected.episodes]
    return keep_correct([float(episode.success) for episode in collected.episodes], texts)


def best_sequences(collected: Collected) -> Tensor:
    """The best of each group, the shortest among equals, if it succeeded: of failures the shortest would win."""
    groups = [episode.group for episode in collected.episodes]
    best = best_of_n(collected.rewards, groups, [episode.tokens.sampled for episode in collected.episodes])  # [B]
    return best & torch.tensor([episode.success for episode in collected.episodes])


@dataclass
class Imitation(Method):
    """Supervised fine-tuning on the expert's demonstrations of the tasks that were played."""

    learner: Learner
    demonstrate: Callable[[list[RolloutRequest]], list[TokenSequence]]
    failures: int = 0  # demonstrations since one succeeded

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        """One demonstration a task: only the first member of each group asks for it. Without a success no step.

        Raises:
            ValueError: none of `MOST_FAILURES` in a row succeeded.
        """
        requests = [
            RolloutRequest(e.seed, e.index, e.split, e.level, e.group, e.sample, "demonstration")
            for e in collected.episodes
            if e.sample == 0  # one demonstration a task, not one a member of its group
        ]
        sequences = self.demonstrate(requests) if requests else []
        self.failures = 0 if sequences else self.failures + len(requests)
        if self.failures >= MOST_FAILURES:
            raise ValueError(f"none of {self.failures} demonstrations in a row succeeded: nothing can be imitated")
        return self.learner.imitate(sequences, optimiser) if sequences else {}


@dataclass
class Preferences(Method):
    """A preference loss on the best and the worst sequence of each group; groups without spread give no pair."""

    learner: Learner
    objective: Objective

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        """Each pair counts once, though a sequence may be in several; the reference is scored only if the loss asks."""
        # [P, 2] indices into the step
        pairs = best_worst_pairs(collected.rewards, [episode.group for episode in collected.episodes])
        members = sorted({index for pair in pairs.tolist() for index in pair})  # a sequence may be in two pairs
        metrics: Metrics = {"denominators": {"pairs": len(pairs)}}
        if not members:
            return metrics
        index_of = {member: index for index, member in enumerate(members)}
        pairs = torch.tensor([[index_of[i] for i in pair] for pair in pairs.tolist()])  # [P, 2] indices into members
        padded = self.learner.pad([collected.episodes[member].tokens for member in members])
        reference = self.learner.reference_logprobs(padded) if self.objective.reference else None  # [M, T]
        steps = []
        for _ in range(self.learner.epochs):
            work = partial(self._accumulate, padded, reference, pairs, optimiser)
            steps.append(self.learner.fitting(padded, work, optimiser) | optimiser.step())
        return metrics | merge_steps(steps)

    def _accumulate(
        self, padded: Padded, reference: Tensor | None, pairs: Tensor, optimiser: Optimiser
    ) -> dict[str, float]:
        parts = [self._part(padded, reference, chunk, len(pairs), optimiser) for chunk in self._chunks(padded, pairs)]
        return merge_stats(parts)

    def _chunks(self, padded: Padded, pairs: Tensor) -> Sequence[Tensor]:
        """As many pairs at once as fit the micro-batch's tokens."""
        longest = max(padded.lengths)  # a pair takes twice this many tokens
        chunks: Sequence[Tensor] = pairs.split(max(1, self.learner.micro_batch_tokens // (2 * longest)))
        return chunks

    def _part(
        self, padded: Padded, reference: Tensor | None, pairs: Tensor, total: int, optimiser: Optimiser
    ) -> dict[str, Any]:
        learner, members = self.learner, pairs.flatten().tolist()
        part = padded.pick(members).to(learner.device)
        new = learner.scores(part, learner.temperature).logprobs  # [2p, t]
        ref = None if reference is None else reference[members, : part.ids.shape[1]].to(learner.device)  # [2p, t]
        entries = LossInputs(mask=part.mask, ref_logprobs=ref)
        stats: dict[str, Any]
        indices = torch.arange(len(members)).reshape(-1, 2)
        loss, stats = PAIR_LOSSES[self.objective.loss](new, entries, indices, n_pairs=total)
        optimiser.backward(loss / learner.world.size)  # each process has the whole of it
        return stats


@dataclass
class VeriFree(Method):
    """VeriFree (2505.21493): the thought is rewarded by the probability of the right answer after it; no verifier.

    The thought is what an episode sampled before its answer, the reference answer the environment's
    `direct_answer`. The answer begins with the tokens of ``border``, the same in every sequence, as the paper asks.
    """

    learner: Learner
    renderer: Renderer
    env: TextEnv
    border: str = "\\boxed{"
    answers: dict[tuple[Any, ...], list[int]] = field(default_factory=dict)

    def update(self, collected: Collected, optimiser: Optimiser) -> Metrics:
        """One step on thoughts and reference answers; nothing where no thought reaches its answer."""
        pairs = [(self._thought_and_answer(episode), episode.group) for episode in collected.episodes]
        kept = [(pair, group) for pair, group in pairs if pair is not None]
        if not kept:
            return {"denominators": {"sequences": 0}}
        parts = []
        for group in dict.fromkeys(group for _, group in kept):  # leave-one-out needs a group's sequences together
            parts.append(self._part([pair for pair, of in kept if of == group], len(kept), optimiser))
        return {"denominators": {"sequences": len(kept)}} | merge_stats(parts) | optimiser.step()

    def _part(self, members: Sequence[tuple[TokenSequence, int]], total: int, optimiser: Optimiser) -> dict[str, Any]:
        learner = self.learner
        whole = learner.pad([sequence for sequence, _ in members]).to(learner.device)
        positions = torch.arange(whole.ids.shape[1], device=learner.device)  # [T]
        begin = torch.tensor([begin for _, begin in members], device=learner.device)[:, None]  # [G, 1]
        new = learner.scores(whole, learner.temperature).logprobs  # [G, T]
        thought, answer = whole.mask & (positions < begin), whole.mask & (positions >= begin)
        loss, stats = verifree_loss(new, thought, answer, [0] * len(members), n_sequences=total)
        optimiser.backward(loss / learner.world.size)  # each process has the whole of it
        return stats

    def _thought_and_answer(self, episode: Episode) -> tuple[TokenSequence, int] | None:
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
        whole = tokens.piece(0, begin)  # the thought, with the tokens before it
        answer = self._answer(episode)
        whole.append_sampled(answer, [0.0] * len(answer))  # in the mask: both parts are learned from
        return whole, begin

    def _answer(self, episode: Episode) -> list[int]:
        """The reference answer's tokens, with the end token."""
        key = (episode.seed, episode.index, episode.split, episode.level)
        if key not in self.answers:
            env = self.env.spawn()
            options = {"index": episode.index, "split": episode.split, "level": episode.level}
            env.reset(seed=episode.seed, options={name: value for name, value in options.items() if value is not None})
            words = env.direct_answer()
            if words is None or not words.startswith(self.border):
                raise ValueError(
                    f"VeriFree needs a reference answer that begins with {self.border!r}; "
                    f"{episode.env_id} gives {words!r}"
                )
            ids = self.renderer.tokenizer.encode(words, add_special_tokens=False)
            # a group's members come one after another, so the last answer is the only one worth keeping
            self.answers = {key: [*ids, *([self.renderer.end_id] if self.renderer.end_id is not None else [])]}
        return self.answers[key]


def build_method(
    config: TrainConfig,
    learner: Learner,
    player: TokenAgent,
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
    algorithm = ALGORITHMS[config.algorithm]
    if not isinstance(algorithm, Objective):
        entropy, settings = None, config.learner
        if settings.entropy_target is not None:
            entropy = EntropyTarget(settings.entropy_target, settings.entropy_step, config.preset().entropy_coef)
        return PolicyGradient(learner, sources_of(config, learner, player, env, critic), critic, entropy)
    builders: dict[str, Callable[[], Method]] = {
        "imitate_expert": lambda: Imitation(learner, demonstrate),
        "imitate_correct": lambda: Likelihood(learner, correct_sequences),
        "imitate_best": lambda: Likelihood(learner, best_sequences),
        "imitate_all": lambda: FeedbackConditional(learner, player.renderer, env, config.sampling.max_length),
        "pairs": lambda: Preferences(learner, algorithm),
        "verifree": lambda: VeriFree(learner, player.renderer, env),
    }
    return builders[algorithm.method]()


def sources_of(config: TrainConfig, learner: Learner, player: TokenAgent, env: Any, critic: Critic | None) -> Sources:
    """What the advantages of a run may ask for beside its episodes."""
    renderer, phrase = player.renderer, config.sampling.thinking_phrase
    return Sources(
        scorer=learner,
        player=player,
        env=env,
        decode=renderer.decode,
        encode=renderer.encode_reply,
        state_values=None if critic is None else partial(critic.state_values, learner),
        role_baselines=RoleBaselines(),
        continuations=learner.preset.continuations or 1,
        budgets=config.credit.budgets,
        budget_prior=config.credit.budget_prior,
        answers=config.credit.answers,
        phrase=PHRASES.get(phrase, phrase),
        renderer=renderer,
        hints=config.credit.hints,
        part_weights=config.credit.part_weights,
        divergence_top=0 if learner.preset.divergence == "sampled" else learner.preset.divergence_top,
        max_length=config.sampling.max_length,
        max_new_tokens=config.sampling.max_new_tokens,
        batch_size=config.env.batch_size,
    )
