"""Who plays the other seats of a game in training: earlier policies of the run, other models, endpoints; all frozen."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr.agents.conversation import Agent, Conversation, Reply
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.models.model_folder import ADAPTER, merge_adapter, policy_folder
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.players.pool import OpponentPool
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.envs.endpoint import Endpoint
from rlvr.envs.players.single import ENDPOINT, MODEL, POOL, SELF, is_language_model

Weights = Mapping[str, Tensor]


class LearnerOpponents:
    """The language models among the opponents of a config.

    Attributes:
        pool: which earlier policies there are, and how matches against them ended; None without ``pool``.

    Args:
        config: names the opponents in ``env.settings.opponents``.
        model: the policy that is trained; earlier policies are played by a copy of it.
        tokenizer: its tokenizer.

    Raises:
        ConfigError: a folder holds no policy, or an endpoint's name or key is not one.
    """

    def __init__(self, config: TrainConfig, model: Any, tokenizer: Any) -> None:
        self.config, self.model, self.tokenizer = config, model, tokenizer
        names = [name for name in config.env.settings.get("opponents") or () if is_language_model(str(name))]
        settings = config.self_play
        self.pool = OpponentPool(settings.rule, settings.keep, config.seed) if POOL in names else None
        # On the CPU: one copy alone is on the device, and takes the weights of whoever plays.
        self.weights: dict[int, dict[str, Tensor]] = {}  # of the members of the pool
        self._player: _PoolPlayer | None = None
        self._learned: dict[int, str] = {}  # the names of other learned policies of the run, by player
        # Loaded before training: a folder that is misspelt must not end a run at its first step.
        self._fixed = {name: self._load(name) for name in dict.fromkeys(names) if name not in (SELF, POOL)}

    def _load(self, name: str) -> Agent:
        try:
            return self._endpoint(name) if name.startswith(ENDPOINT) else self._model(name.removeprefix(MODEL))
        except (OSError, ValueError, ImportError) as error:
            raise ConfigError(f"env.settings.opponents: {name!r} cannot be played: {error}") from error

    def _model(self, folder: str) -> Agent:
        settings = self.config.model
        if not folder:
            raise ValueError("name the folder of a policy or of a LoRA adapter after model:")
        device = next(self.model.parameters()).device
        # Merged, so that an adapter on another base than the run's can play, too.
        if (Path(folder) / ADAPTER).is_file():
            model, tokenizer = merge_adapter(Path(folder), dtype=settings.dtype)
        else:
            model, tokenizer = load_policy(policy_folder(folder), dtype=settings.dtype)
        return TransformersAgent(frozen(model).to(device), tokenizer, **self._sampling())

    def _endpoint(self, name: str) -> Agent:
        model, at, url = name.removeprefix(ENDPOINT).partition("@")
        if not (model and at and url):
            raise ValueError("write endpoint:MODEL@URL, such as endpoint:my-model@http://localhost:8000/v1")
        # The key is never in the config, which a run writes into its folder.
        variable, sampling = self.config.self_play.api_key_env, self.config.sampling
        if variable and not os.environ.get(variable):
            raise ValueError(f"the environment variable {variable}, which self_play.api_key_env names, holds nothing")
        key = os.environ[variable] if variable else ""
        server = Endpoint(url, model, key, temperature=sampling.temperature, max_tokens=sampling.max_new_tokens)
        return OpenAIAgent(server, seed=self.config.seed)

    def _sampling(self) -> dict[str, Any]:
        sampling = self.config.sampling
        return {
            "max_new_tokens": sampling.max_new_tokens,
            "max_length": sampling.max_length,
            "temperature": sampling.temperature,
            "seed": self.config.seed,
            "template_options": self.config.model.template_options,
        }

    def add_learned(self, name: str, players: Sequence[int], agent: Agent) -> None:
        """Let another policy that learns in the same run play these players wherever ``self`` would."""
        self._fixed[f"policy {name}"] = agent
        self._learned |= dict.fromkeys(players, f"policy {name}")

    # in a rollout

    def choose(self, opponent: str, request: RolloutRequest, player: int) -> str:
        """Who plays a seat: the members of a group meet the same member of the pool, and ``self`` while it is empty."""
        if opponent == SELF:
            return self._learned.get(player, SELF)
        if opponent != POOL or self.pool is None:
            return opponent
        # Keyed by the task and the step, not by the member of a group: its mean is a baseline of one match-up.
        step = self.pool.draw(request.seed, request.index, request.salt, player)
        return SELF if step is None else f"step {step}"

    def agent(self, name: str) -> Agent:
        """Who plays under a name that ``choose`` gave."""
        if name in self._fixed:
            return self._fixed[name]
        if self._player is None:
            self._player = _PoolPlayer(self.model, self.tokenizer, self._sampling(), self.config.condition)
        step = int(name.removeprefix("step "))
        self._player.take(step, self.weights[step])
        return self._player

    # between steps

    def count(self, episodes: Sequence[Episode]) -> dict[str, Any]:
        """Count the matches of a step against the pool; its figures as they were when these were drawn."""
        if self.pool is None:
            return {}
        # Counted when all are played: what was drawn first must not change what is drawn last.
        figures = self.pool.figures()
        for episode in episodes:
            for name in dict.fromkeys(episode.training.get("opponents", {}).values()):
                if episode.valid and episode.verdict is not None and name not in self._fixed:
                    score = float((episode.verdict.parts or {}).get("outcome", 0.0))  # a forfeit has no parts
                    self.pool.add_result(int(name.removeprefix("step ")), score)
        return {"pool": figures}

    def after_step(self, step: int) -> None:
        """Take the policy of a step into the pool, when it is time."""
        if self.pool is None or step % self.config.self_play.every:
            return
        # A copy, as the optimiser writes to the weights in place.
        gone = self.pool.add(step)
        self.weights[step] = {name: p.detach().to("cpu", copy=True) for name, p in _trained(self.model).items()}
        for old in gone:
            del self.weights[old]

    def tensors(self) -> dict[str, Tensor]:
        """The weights of the pool, for a checkpoint."""
        return {f"{step}.{name}": value for step, group in self.weights.items() for name, value in group.items()}

    def load_tensors(self, tensors: Weights) -> None:
        """The weights of a checkpoint."""
        self.weights = {}
        for key, value in tensors.items():
            step, _, name = key.partition(".")
            self.weights.setdefault(int(step), {})[name] = value


class _PoolPlayer:
    """Plays for any member of the pool: a copy of the policy that takes the member's weights before its batch."""

    def __init__(self, model: Any, tokenizer: Any, sampling: dict[str, Any], condition: str) -> None:
        self.model, self._names = frozen(copy.deepcopy(model)), [*_trained(model)]
        self._agent = TransformersAgent(self.model, tokenizer, **sampling)
        self._agent.renderer.condition = condition
        self._step: int | None = None

    def take(self, step: int, weights: Weights) -> None:
        """Play as this member from now on."""
        # Weights that never change need not be copied twice.
        if step == self._step:
            return
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name in self._names:
                parameters[name].copy_(weights[name])
        self._step = step

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        return self._agent.act(conversations)


def _trained(model: Any) -> dict[str, Any]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def frozen(model: Any) -> Any:
    """The model, in evaluation mode, without gradients."""
    model.eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model
