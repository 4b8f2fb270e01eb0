"""The critic: a small network on the policy's hidden states that learns what a state is worth.

It reads hidden states and sends no gradient into the policy: the policy learns from rewards alone, and one forward
pass serves the values before an update and all passes of the critic over it. Its last layer is the `ValueHead`, which
starts at zero, so the first advantages are the returns themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlvr.agents.conversation import TokenSequence
from rlvr.algorithms.advantages.compute import critic_targets
from rlvr.algorithms.config import CriticSection
from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.losses.values import ValueHead, value_loss
from rlvr.algorithms.recipe.presets import Preset


class Critic(torch.nn.Module):
    """Values [...] of hidden states [..., H], fp32.

    Args:
        hidden_size: H of the policy.
        settings: width, learning rate and passes.
        seed: of the first layer's weights.
    """

    def __init__(self, hidden_size: int, settings: CriticSection, seed: int = 0) -> None:
        super().__init__()
        self.settings = settings
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # forked: the run's own stream is as it was
            self.body = torch.nn.Sequential(
                torch.nn.LayerNorm(hidden_size), torch.nn.Linear(hidden_size, settings.width), torch.nn.SiLU()
            )
        self.head = ValueHead(settings.width)
        self.optimiser = Optimiser(self.parameters(), lambda _: settings.lr, betas=(0.9, 0.95))

    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden states of any dtype, [..., H] -> values [...], in fp32."""
        values: Tensor = self.head(self.body(hidden.float()))
        return values

    @torch.no_grad()
    def features(self, learner: Learner, sequences: Sequence[TokenSequence]) -> tuple[Tensor, Tensor]:
        """Hidden states before each token, [B, T, H], and after the last of each sequence, [B, H], on the CPU.

        The state before token t is what the policy predicts token t from: the output at position t - 1. Before the
        first token there is none, and zeros stand there; a prompt's first token is never trained on.
        """
        model: Any = learner.sampler
        core = model.get_base_model() if hasattr(model, "get_base_model") else model
        padded = learner.pad(sequences)
        before = torch.zeros(*padded.ids.shape, core.config.get_text_config().hidden_size)  # [B, T, H]
        last = torch.zeros(len(sequences), before.shape[2])  # [B, H]
        for indices, micro in learner.micro_batches(padded):
            hidden = core.base_model(input_ids=micro.ids, use_cache=False).last_hidden_state.float().cpu()  # [b, t, H]
            for line, (index, length) in enumerate(zip(indices, micro.lengths, strict=True)):
                before[index, 1:length] = hidden[line, : length - 1]  # token t is predicted from the state at t - 1
                last[index] = hidden[line, length - 1]
        return before, last

    @torch.no_grad()
    def state_values(self, learner: Learner, sequences: Sequence[TokenSequence]) -> tuple[Tensor, Tensor, Tensor]:
        """Features [B, T, H], values [B, T] before each token, and [B] after the last of each sequence."""
        features, last = self.features(learner, sequences)  # [B, T, H], [B, H]
        return features, self(features), self(last)

    def learn(self, rewards: Tensor, preset: Preset, batch: dict[str, Any]) -> dict[str, float]:
        """Move the values toward what was earned: passes of the clipped value loss over one batch; the last's stats.

        ``batch`` holds ``features`` and ``values``, the values from before. Returns value_loss, explained_variance and
        the rest of `value_loss`'s stats.
        """
        targets, where = critic_targets(rewards, preset, batch)  # [B, T] each
        if not where.any():
            return {}
        # [n, H], [1, n], [1, n]
        features, old, aim = batch["features"][where], batch["values"][where][None], targets[where][None]
        everywhere = torch.ones_like(aim, dtype=torch.bool)
        denominators = count_denominators(LossInputs(mask=everywhere))
        stats: dict[str, Any] = {}
        for _ in range(self.settings.epochs):
            values = self(features)[None]  # [1, n]
            loss, stats = value_loss(values, old, aim, everywhere, clip=preset.value_clip, denominators=denominators)
            loss.backward()
            self.optimiser.step()
        named = {"n_tokens": "value_targets"}
        return {named.get(name, name): float(value) for name, value in stats.items()}

    def tensors(self) -> dict[str, Tensor]:
        """Weights and the optimiser's state, for a checkpoint."""
        weights = {f"weights.{name}": value for name, value in self.state_dict().items()}
        return weights | {f"optimiser.{name}": value for name, value in self.optimiser.tensors().items()}

    def load_tensors(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:
        """Go on from what `tensors` and the optimiser's `state_dict` gave."""
        part = {
            kind: {name.removeprefix(kind): value for name, value in tensors.items() if name.startswith(kind)}
            for kind in ("weights.", "optimiser.")
        }
        self.load_state_dict(part["weights."])
        self.optimiser.load_state_dict(counters, part["optimiser."])
