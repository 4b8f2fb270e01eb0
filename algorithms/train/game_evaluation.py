"""What an evaluation of a game of several seats has beside success: the panel's scores, and exploitability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr.agents.conversation import Agent
from rlvr.agents.players.panel import play_panel
from rlvr.agents.players.text_policy import TextPolicy, model_scorer, text_policy
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.envs.players.bots import bot_for
from rlvr.envs.players.exploitability import exploitability, information_states
from rlvr.envs.players.single import AsSingleAgent, game_task


class GameEvaluation:
    """The panel and the exploitability that a config asks for; nothing where it asks for neither.

    Raises:
        ConfigError: the environment is no game of several seats, a bot is unknown, or the game's exploitability is not
            computed exactly.
    """

    def __init__(self, config: TrainConfig, env: Any) -> None:
        settings = config.evaluation
        self.config, self.bots, self.exact = config, settings.panel, settings.exploitability
        task = game_task(env)
        self.task: AsSingleAgent | None = None
        self.mates: dict[int, Agent] = {}  # who plays the mates of a policy that has not all of a team
        if not (self.bots or self.exact):
            return
        if task is None:
            raise ConfigError(
                f"evaluation.panel and exploitability are of games of several seats, not of {config.env.id}"
            )
        self.task = task
        # Before training: a bot that is misspelt must not end a run at its first evaluation.
        try:
            for name in self.bots:
                bot_for(self.task.game, name)
            if self.exact:
                information_states(self.task.game)  # refuses games too large to walk
        except ValueError as error:
            raise ConfigError(f"evaluation: {error}") from error

    def figures(self, model: Any, renderer: Renderer, agents: Mapping[str, Agent]) -> dict[str, Any]:
        """``panel`` (way, then bot), and ``exploitability`` with the mass of the texts that were scored.

        Args:
            agents: the policy by its way of choosing tokens, such as greedy and sampled.
        """
        numbers: dict[str, Any] = {}
        if self.task is None:
            return numbers
        brief, system = self.task.brief, self.config.env.system
        if self.bots:
            # One seed for all evaluations of a run: the same deals and seats, so that a change is the policy's.
            matches, seed = self.config.evaluation.episodes, self.config.seed
            numbers["panel"] = {
                way: {
                    name: score._asdict()
                    for name, score in play_panel(
                        self.task.referee,
                        agent,
                        self.bots,
                        matches=matches,
                        seed=seed,
                        brief=brief,
                        system=system,
                        players=self.task.players,
                        mates=self.mates,
                    ).items()
                }
                for way, agent in agents.items()
            }
        if self.exact:
            numbers |= exploited(self.task, self.text_policy(self.task, model, renderer))
        return numbers

    def text_policy(self, task: AsSingleAgent, model: Any, renderer: Renderer) -> TextPolicy:
        """The probabilities of a model's moves, at the temperature of sampling: what plays is what is measured."""
        score = model_scorer(model, renderer, temperature=self.config.sampling.temperature)
        return text_policy(task.referee, score, system=self.config.env.system, brief=task.brief)


def exploited(task: AsSingleAgent, policy: TextPolicy) -> dict[str, float]:
    """The exploitability of a policy. Where the mass is small, it writes other texts, and the value says little."""
    return {
        "exploitability": exploitability(task.game, policy).value,
        "scored_mass": policy.mean_mass,
        "least_scored_mass": policy.least_mass,
    }
