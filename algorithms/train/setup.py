"""What a run is made of before its first step: policy, sampler, rollout, learner, schedule, method, folder."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import RolloutRequest
from rlvr.agents.models.token_agent import TokenAgent
from rlvr.agents.players.self_play import SelfPlayRollout, plays_models, without_models, without_self
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.advantages.compute import compute_advantages
from rlvr.algorithms.config import ConfigError, TrainConfig, to_yaml
from rlvr.algorithms.core.inputs import MissingInput
from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.filters.order import acting
from rlvr.algorithms.learner.critic import Critic
from rlvr.algorithms.learner.memory import explain_memory
from rlvr.algorithms.learner.optimiser import Optimiser, require_optimiser
from rlvr.algorithms.learner.world import ProcessWorld, SharedRollout
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.recipe.objectives import Objective
from rlvr.algorithms.recipe.presets import Preset
from rlvr.algorithms.runs.callbacks import Callback, LoggedSteps
from rlvr.algorithms.runs.checkpoints import frozen_digest
from rlvr.algorithms.runs.run_folder import RunFolder, SilentFolder, Stopwatch
from rlvr.algorithms.runs.trackers import Trackers
from rlvr.algorithms.sampling.collect import TaskOrder, ValidSteps
from rlvr.algorithms.sampling.env_source import digests_of, env_source, leave_tools
from rlvr.algorithms.sampling.opponents import LearnerOpponents
from rlvr.algorithms.sampling.prefixes import CarefulExpert, ExpertPrefixes
from rlvr.algorithms.sampling.protocol import PolicyWeights
from rlvr.algorithms.schedules.schedules import build_schedule
from rlvr.algorithms.train.backends import build_sampler, learner_class, load_model
from rlvr.algorithms.train.game_evaluation import GameEvaluation
from rlvr.algorithms.train.interrupts import StopSignal
from rlvr.algorithms.train.methods import build_method
from rlvr.algorithms.train.saver import Saver
from rlvr.algorithms.train.warm_start import demonstrations


class RunSetup:
    """The parts of one run, and what is asked of them at more than one point of it; `Trainer` adds the loop.

    Raises:
        RunFolderError: the folder may not be used.
        ConfigError: the environment or the model does not go with the config.
    """

    optimiser: Optimiser  # made when reinforcement learning begins

    def __init__(self, config: TrainConfig, callback: Callback | None = None, *, resume: bool = False) -> None:
        check_inputs(config.preset(), config.group_size)
        torch.set_num_threads(config.threads)
        torch.manual_seed(config.seed)  # initial weights of adapters; sampling has streams of its own
        self.config, self.callback = config, callback or LoggedSteps()
        self.world = ProcessWorld.join()
        if self.world.size > 1 and (config.schedule.kind, config.sampler.kind) != ("sync", "transformers"):
            raise ConfigError("more than one process goes with schedule: sync and sampler: transformers alone")
        for name in ("reference_every", "ema"):
            if self.world.size > 1 and getattr(config.learner, name):
                raise ConfigError(f"learner.{name} goes with one process: a checkpoint of shards holds no such weights")
        require_optimiser(config.learner.optimiser, self.world.sharded)
        self.folder = run_folder(config.out, resume, self.world)
        self.saver = Saver(self.folder.checkpoints, self.world)
        try:
            self._build()
            # Of what is trained on, and of what is evaluated: made now, so that a table that is not there is said now.
            evaluation = self.rollout_of(self.agent, config.evaluation.split)
            self.env_digests = digests_of(self.rollout, evaluation)
            self.held_out = str(getattr(getattr(evaluation.env.unwrapped, "task", None), "held_out", "tasks"))
            if not resume:
                self.folder.write_config(to_yaml(self.config))
        except BaseException:
            if hasattr(self, "sampler"):
                self.sampler.close()
            self.folder.close()
            raise
        self.kl_coefs = config.preset().kl_coef, config.learner.kl_coef_end  # in the first step and in the last
        self.step = 0
        self.evaluations: dict[str, dict[str, Any]] = {}
        self.worst_mismatch = 0.0  # that was warned of
        self.valid_steps = ValidSteps()
        self.fresh = False  # whether no checkpoint has been written
        self.stop = StopSignal()

    def _build(self) -> None:
        config = self.config
        try:
            self.model, self.tokenizer = load_model(config)
        except RuntimeError as error:
            explain_memory(error, "while the model was loaded: set model.dtype to bfloat16, or take a smaller model")
            raise
        self.frozen = frozen_digest(self.model)
        self.sampler = build_sampler(config, self.model, self.tokenizer, self.folder.sampler, self.callback.say)
        self.agent = self.play_agent(greedy=False, training=True)
        self.sampling = Stopwatch()
        vars(self.agent)["act"] = self.sampling.timed(self.agent.act)
        self.renderer = self.agent.renderer
        if not self.renderer.end_ids:
            raise ConfigError(
                f"{config.model.name} names no end-of-sequence token, so no reply of it could end: set eos_token in "
                "its tokenizer_config.json, or eos_token_id in its generation_config.json"
            )
        if config.env.native_tools:
            config = self.config = leave_tools(config, lambda: self.renderer.call_style)
        self.opponents = LearnerOpponents(config, self.model, self.tokenizer)
        if self.opponents.pool is not None and self.world.size > 1:
            raise ConfigError("the opponent 'pool' goes with one process: shards cannot be copied")
        self.rollout = self.rollout_of(self.agent, config.env.split, training=True)
        algorithm = ALGORITHMS[config.algorithm]
        self.learner = learner_class(config)(
            self.model,
            config.preset(),
            pad_id=self.tokenizer.pad_token_id or 0,
            temperature=config.sampling.temperature,
            max_length=config.sampling.max_length,
            epochs=config.learner.epochs,
            minibatches=config.learner.minibatches,
            micro_batch_tokens=config.learner.micro_batch_tokens,
            recompute_layers=config.learner.recompute_layers,
            share_prompts=config.learner.share_prompts,
            reference=isinstance(algorithm, Objective) and algorithm.reference,
            ema=config.learner.ema,
            optimiser=config.learner.optimiser,
            compiled=config.learner.compile,
            offload=config.learner.offload,
            grad_accum_dtype=config.learner.grad_accum_dtype,
            world=self.world,
        )
        if rates := config.rates_note():
            self.callback.say(rates)
        if self.renderer.rewrites_history:
            self.callback.say(self.renderer.explanation)
        if self.learner.unshared:
            self.callback.say(self.learner.unshared)
        self.weights = PolicyWeights(self.model)  # as they are when the sampler asks
        self.games = GameEvaluation(config, self.rollout.env.unwrapped)
        self._build_method()
        trackers = config.report_to if self.world.rank == 0 else ()
        settings = config.model_dump(mode="json")
        resumed = self.folder.config.is_file()  # a run that begins writes it when all is built
        self.tracker = Trackers(trackers, self.folder.path, settings, resumed) if trackers else None

    def _build_method(self) -> None:
        """Who collects, and who learns from what was collected."""
        config, env = self.config, self.rollout.env.unwrapped
        order = TaskOrder(env, "train", config.seed)
        self.schedule = build_schedule(config, self.rollout, order, self.sampler, self._prefixes(order))
        self.collector = self.schedule.collector
        self.critic: Critic | None = None
        if self.learner.preset.critic:
            hidden = self.model.config.get_text_config().hidden_size
            self.critic = Critic(hidden, config.critic, config.seed)
        player = self.play_agent(greedy=False, answers=self.learner.preset.estimator.forces_answers)
        self.method = build_method(config, self.learner, player, env, self.critic, self._demonstrations)
        for note in (*self.collector.notes(), *self._corrections()):
            self.callback.say(note)

    def _prefixes(self, order: TaskOrder) -> ExpertPrefixes | None:
        if self.config.prefix.share is None:
            return None
        if plays_models(self.config.env.settings):
            raise ConfigError("prefix.share: what the expert does depends on opponents that are models: name bots")
        play = self.rollout_of(CarefulExpert(), self.config.env.split, bots=True)
        return ExpertPrefixes(play, self.config.prefix, order.request(0, group=0, salt="prefix"))

    def _corrections(self) -> list[str]:
        """What the schedule adds to the algorithm."""
        kind, preset = self.config.schedule.correction, self.config.preset()
        if kind == "none" or all(correction.kind != kind for correction in preset.corrections):
            return []
        return [f"schedule.correction: {self.config.algorithm} is weighed by old / behaviour, {preset.corrections[-1]}"]

    def play_agent(self, *, greedy: bool, answers: bool = False, training: bool = False) -> TokenAgent:
        """The policy as it plays; with ``answers``, as it answers to thoughts that are cut at budgets (BRPO)."""
        sampling = self.config.sampling
        budget = None
        if sampling.thinking_budget and not answers:
            low = sampling.thinking_budget - sampling.thinking_spread
            budget = ThinkingBudget(sampling.thinking_phrase, low, sampling.thinking_budget)
        agent = self.sampler.agent(
            max_new_tokens=sampling.max_new_tokens + answers * self.config.credit.answer_tokens,
            max_length=sampling.max_length,
            temperature=sampling.temperature,
            greedy=greedy,
            seed=self.config.seed,
            template_options=self.config.model.template_options,
            thinking_budget=budget,
            segment=(sampling.segment or None) if training and self._pauses() else None,
        )
        agent.renderer.condition = self.config.condition
        return agent

    def _pauses(self) -> bool:
        return any(each.pauses for each in acting(self.config.filters()))

    def _demonstrations(self, requests: list[RolloutRequest]) -> list[TokenSequence]:
        play = self.rollout_of(ExpertAgent(), self.config.env.split, bots=True)
        return demonstrations(play, self.renderer, requests)

    def rollout_of(self, agent: Any, split: str, *, training: bool = False, bots: bool = False) -> Any:
        """A rollout; the opponents ``self`` and ``pool`` are of training alone; ``bots`` leaves other models out."""
        env = self.config.env
        without = without_models if bots else without_self
        settings = env.settings if training else without(env.settings)
        kind = partial(SelfPlayRollout, opponents=self.opponents) if plays_models(settings) else Rollout
        source, env_settings = env_source(env, settings, split)
        limits: dict[str, Any] = {"batch_size": env.batch_size, "workers": env.workers, "timeout": env.timeout}
        rollout = kind(source, agent, use_system=env.system, env_settings=env_settings, **limits)
        return SharedRollout(rollout, self.world) if self.world.size > 1 else rollout

    def explain_sampling_memory(self, error: RuntimeError) -> None:
        """Name the fields to lower where memory ran out while episodes were sampled.

        Raises:
            ConfigError: it did.
        """
        count = self.config.env.batch_size
        explain_memory(error, f"while episodes were sampled: lower env.batch_size, {count} now, or sampling.max_length")

    def asked_to_stop(self) -> int | None:
        """The signal that any process got: all must stop after the same step."""
        agreed = max(self.world.gather(self.stop.signum or 0))
        if agreed:  # a signal that came meanwhile stays for the next step
            self.stop.signum = agreed
        return agreed or None

    def close(self) -> None:
        """Let go of what a run holds; `Trainer.run` does in its end."""
        self.schedule.close()
        self.sampler.close()
        if self.tracker is not None:
            self.tracker.finish()
        self.folder.close()


def run_folder(path: Path, resume: bool, world: ProcessWorld) -> RunFolder:
    """The folder of a run; only the first process writes in it, and it comes first.

    Raises:
        RunFolderError: the folder may not be used; all processes say so.
    """
    folder: RunFolder | None = None
    error: Exception | None = None
    if world.rank == 0:
        try:
            folder = RunFolder(path, resume=resume)
        except Exception as caught:
            error = caught
    # All must raise, or the others wait in their next collective call for one that is gone.
    error = next((reported for reported in world.gather(error) if reported is not None), None)
    if error is not None:
        raise error
    return folder or SilentFolder(path)


def check_inputs(preset: Preset, group_size: int) -> None:
    """Try the preset's advantages on made-up rewards.

    Raises:
        ConfigError: they need something that is not gathered (`Advantage.gather`), or a larger group.
    """
    mask = torch.ones(group_size, 1, dtype=torch.bool)
    zeros = torch.zeros(group_size, 1)
    batch = {"mask": mask, "old_logprobs": zeros, "ref_logprobs": zeros}
    rewards = [float(sample % 2) for sample in range(group_size)]  # [G], a group with both outcomes
    try:
        with warnings.catch_warnings(action="ignore"):
            compute_advantages(rewards, [0] * group_size, preset, batch)
    except MissingInput as error:
        if not preset.estimator.gather:
            raise ConfigError(f"{error}; this trainer does not collect it") from error
    except ValueError as error:
        raise ConfigError(f"{preset.name} does not go with group_size {group_size}: {error}") from error
