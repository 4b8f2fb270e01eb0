"""Trainer: the loop. Collect, credit, update, evaluate, checkpoint, log; it never asks an algorithm for its name."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import RolloutRequest
from rlvr.agents.evaluation import Evaluation, summarise
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.token_agent import TokenAgent
from rlvr.agents.players.self_play import SelfPlayRollout, plays_models, without_models, without_self
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.advantages.compute import compute_advantages
from rlvr.algorithms.config import ConfigError, TrainConfig, to_yaml
from rlvr.algorithms.core.inputs import MissingInput
from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.filters.order import acting
from rlvr.algorithms.learner.adamw import require_optimiser
from rlvr.algorithms.learner.critic import Critic
from rlvr.algorithms.learner.optimiser import build_optimiser
from rlvr.algorithms.learner.world import ProcessWorld, SharedRollout, assign
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.recipe.objectives import Objective
from rlvr.algorithms.recipe.off_policy import samples_off_policy
from rlvr.algorithms.recipe.presets import Preset
from rlvr.algorithms.runs.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint, step_name
from rlvr.algorithms.runs.clocks import Clock, Stopwatch
from rlvr.algorithms.runs.frozen_weights import frozen_digest, require_frozen
from rlvr.algorithms.runs.trackers import figures, open_tracker, push_policy
from rlvr.algorithms.sampling.collect import Collected
from rlvr.algorithms.sampling.env_source import digests_of, env_source, require_same_tasks
from rlvr.algorithms.sampling.mismatch import mismatch_warning, staleness
from rlvr.algorithms.sampling.opponents import LearnerOpponents
from rlvr.algorithms.sampling.protocol import PolicyWeights
from rlvr.algorithms.sampling.tasks import TaskOrder
from rlvr.algorithms.schedules.schedules import build_schedule
from rlvr.algorithms.train.backends import build_sampler, learner_class, load_model
from rlvr.algorithms.train.callbacks import Callback, LoggedSteps, TimedCallback
from rlvr.algorithms.train.game_evaluation import GameEvaluation, role_metrics
from rlvr.algorithms.train.interrupts import RunInterrupted, StopSignal
from rlvr.algorithms.train.methods import PolicyGradient, build_method
from rlvr.algorithms.train.saver import Saver
from rlvr.algorithms.train.setup import run_folder
from rlvr.algorithms.train.state import Stateful, load_state_dicts, state_dicts
from rlvr.algorithms.train.step_metrics import collection_metrics, evaluation_metrics
from rlvr.algorithms.train.valid_episodes import FruitlessSteps
from rlvr.algorithms.train.warm_start import demonstrations, warm_start
from rlvr.envs.core.files import make_folder, require_plain


@dataclass(frozen=True, slots=True)
class StepSample:
    """The episodes of a step before it is learned from: whether they are kept, the step's clock, seconds so far."""

    collected: Collected
    kept: bool
    clock: Clock
    seconds: float
    sampling: float


class Trainer:
    """One run in one folder.

    Every task and every sampled token is decided by (seed, step, task, member of the group), so a run that was
    killed and goes on from its checkpoint ends with the same weights, bit for bit, as one that never stopped.

    Args:
        config: what to do.
        callback: receives the log of each step; by default it goes to the logger ``rlvr.train``, notes as warnings.
        resume: go on with the run that is in the folder.

    Raises:
        RunFolderError: the folder may not be used.
        ConfigError: the environment or the model does not go with the config.
    """

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
            self.env_digests = digests_of(self.rollout, self._rollout(self.agent, config.evaluation.split))
            if not resume:
                self.folder.write_config(to_yaml(config))
        except BaseException:
            if hasattr(self, "sampler"):
                self.sampler.close()
            self.folder.close()
            raise
        self.step = 0
        self.evaluations: dict[str, dict[str, Any]] = {}
        self._worst_mismatch = 0.0  # that was warned of
        self._fruitless = FruitlessSteps()
        self.fresh = False  # whether no checkpoint has been written
        self.stop = StopSignal()

    def _build(self) -> None:
        config = self.config
        self.model, self.tokenizer = load_model(config)
        self.frozen = frozen_digest(self.model)
        self.sampler = build_sampler(config, self.model, self.tokenizer, self.folder.sampler, self.callback.say)
        self.agent = self._agent(greedy=False, training=True)
        self.sampling = Stopwatch()
        vars(self.agent)["act"] = self.sampling.timed(self.agent.act)
        self.renderer = self.agent.renderer
        self.opponents = LearnerOpponents(config, self.model, self.tokenizer)
        if self.opponents.pool is not None and self.world.size > 1:
            raise ConfigError("the opponent 'pool' goes with one process: shards cannot be copied")
        self.rollout = self._rollout(self.agent, config.env.split, training=True)
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
        if self.renderer.rewrites_history:
            self.callback.say(self.renderer.explanation)
        if self.learner.unshared:
            self.callback.say(self.learner.unshared)
        self.games = GameEvaluation(config, self.rollout.env.unwrapped)
        self._build_method()
        tracker = config.report_to if self.world.rank == 0 else "none"
        self.tracker = open_tracker(tracker, self.folder.path, config.model_dump(mode="json"))

    def _build_method(self) -> None:
        """Who collects, and who learns from what was collected."""
        config, env = self.config, self.rollout.env.unwrapped
        self.schedule = build_schedule(config, self.rollout, TaskOrder(env, "train", config.seed), self.sampler)
        self.collector = self.schedule.collector
        self.critic: Critic | None = None
        if self.learner.preset.critic:
            hidden = self.model.config.get_text_config().hidden_size
            self.critic = Critic(hidden, config.critic, config.seed)
        player = self._agent(greedy=False, answers=self.learner.preset.estimator.forces_answers)
        self.method = build_method(config, self.learner, player, env, self.critic, self._demonstrations)
        for note in (*self.collector.notes(), *self._corrections()):
            self.callback.say(note)

    def _corrections(self) -> list[str]:
        """What the schedule adds to the algorithm."""
        kind, preset = self.config.schedule.correction, self.config.preset()
        if kind == "none" or all(correction.kind != kind for correction in preset.corrections):
            return []
        return [f"schedule.correction: {self.config.algorithm} is weighed by old / behaviour, {preset.corrections[-1]}"]

    def _agent(self, *, greedy: bool, answers: bool = False, training: bool = False) -> TokenAgent:
        """The policy as it plays; with ``answers``, as it answers to thoughts that are cut at budgets (BRPO)."""
        sampling = self.config.sampling
        budget = None
        if sampling.thinking_budget and not answers:
            low = sampling.thinking_budget - sampling.thinking_spread
            budget = ThinkingBudget(sampling.thinking_phrase, low, sampling.thinking_budget)
        return self.sampler.agent(
            max_new_tokens=sampling.max_new_tokens + answers * self.config.credit.answer_tokens,
            max_length=sampling.max_length,
            temperature=sampling.temperature,
            greedy=greedy,
            seed=self.config.seed,
            template_options=self.config.model.template_options,
            thinking_budget=budget,
            segment=(sampling.segment or None) if training and self._pauses() else None,
        )

    def _pauses(self) -> bool:
        return any(each.pauses for each in acting(self.config.filters()))

    def _demonstrations(self, requests: list[RolloutRequest]) -> list[TokenSequence]:
        play = self._rollout(ExpertAgent(), self.config.env.split, bots=True)
        return demonstrations(play, self.renderer, requests)

    def _rollout(self, agent: Any, split: str, *, training: bool = False, bots: bool = False) -> Any:
        """A rollout; the opponents ``self`` and ``pool`` are of training alone; ``bots`` leaves other models out."""
        env = self.config.env
        without = without_models if bots else without_self
        settings = env.settings if training else without(env.settings)
        kind = partial(SelfPlayRollout, opponents=self.opponents) if plays_models(settings) else Rollout
        source, given = env_source(env, settings, split)
        limits: dict[str, Any] = {"batch_size": env.batch_size, "workers": env.workers, "timeout": env.timeout}
        rollout = kind(source, agent, use_system=env.system, env_settings=given, **limits)
        return SharedRollout(rollout, self.world) if self.world.size > 1 else rollout

    # the run

    def run(self) -> dict[str, Evaluation]:
        """Train to the end; the evaluations by name, ``before`` and ``after`` among them, greedy and sampled.

        Raises:
            RunInterrupted: Ctrl-C or SIGTERM; the run can go on from what was saved.
            FloatingPointError: the gradients stay non-finite, or the weights are not numbers.
        """
        try:
            with self.stop.listening(self.callback.say):
                try:
                    self._train()
                finally:
                    self.saver.wait()  # an interrupted run is saved, too
                self.save_final()
                if self.config.push_to_hub and self.world.rank == 0:
                    self.callback.say(push_policy(self.folder.policy, self.config.push_to_hub))
            self.world.leave()
        finally:
            self.close()
        return self.results()

    def results(self) -> dict[str, Evaluation]:
        """The evaluations so far, by name."""
        return {name: Evaluation.from_dict(record) for name, record in self.evaluations.items()}

    def save_final(self) -> None:
        """Write the policy that the run ends with."""
        with self.learner.averaged():
            self._save_policy(self.folder.policy)

    def close(self) -> None:
        """Let go of what a run holds; `run` does in its end."""
        self.schedule.close()
        self.sampler.close()
        self.tracker.finish()
        self.folder.close()

    def _train(self) -> None:
        self.prepare()
        self.begin()
        while self.step < self.config.steps:
            if stop := self._asked_to_stop():
                raise RunInterrupted(f"stopped after step {self.step}; go on with --resume", stop)
            self._train_step()
            self.after_step()

    def prepare(self) -> None:
        """The policy that the first step is played with: warmed up, or that of the last checkpoint."""
        checkpoint, faults = latest_checkpoint(self.folder.checkpoints)
        for fault in faults:
            self.callback.say(f"{fault}; {'beginning again' if checkpoint is None else 'taking the one before'}")
        if checkpoint is None:
            self.folder.keep_until(-1)
            self._warm_start()
            self._begin_reinforcement()
            self._sync()
            self.fresh = True
            return
        require_frozen(checkpoint, self.frozen, self.config.model.name)
        require_same_tasks(checkpoint.counters.get("env_digests"), self.env_digests, self.callback.say)
        if self.learner.needs_reference:  # by default the policy that reinforcement learning began with
            first = load_checkpoint(self.folder.checkpoints / step_name(0)).model
            self._load_weights(checkpoint.reference or first)
        self._begin_reinforcement()
        self._load_weights(checkpoint.model)
        self.learner.begin_average(checkpoint.average)
        self.optimiser.load_state_dict(checkpoint.counters["optimiser"], checkpoint.optimiser)
        load_state_dicts(self._parts(), checkpoint.counters)
        self.opponents.load_tensors(checkpoint.pool)
        if self.critic is not None:
            self.critic.load_tensors(checkpoint.critic, checkpoint.counters["critic"])
        self.evaluations = checkpoint.counters["evaluations"]
        self.learner.micro_batch_tokens = checkpoint.counters["micro_batch_tokens"]
        self.step = checkpoint.step
        self._sync()
        self.folder.keep_until(self.step)  # what a killed run logged after its checkpoint happens again
        self.callback.say(f"going on after step {self.step}")

    def begin(self) -> None:
        """The first evaluation and checkpoint of a new run; then the steps may be played."""
        if self.fresh:
            self._evaluate("before")
            if not self.config.steps:
                self._evaluate("after")
            self._save()
        self.schedule.ready(self.step)
        self.callback.phase("reinforcement learning", self.config.steps - self.step)

    def _warm_start(self) -> None:
        settings = self.config.warm_start
        steps = settings.steps + settings.mixed_steps + settings.random_steps
        if not steps:
            return
        require_finite(self.model)
        self.callback.phase("warm start", steps)
        order = TaskOrder(self.rollout.env.unwrapped, "warm start", self.config.seed)
        level_at = self.collector.pool.level_at
        requests = (order.request(i, level=level_at(i), group=0, salt="warm start") for i in count())
        clock = Clock()

        def on_step(phase: str, done: int, metrics: dict[str, float]) -> None:
            record = {"phase": phase, "step": 0, "warm_step": done, **metrics}
            self._log(record, clock)
            if self.learner.preset.estimator.teacher and done + 1 == settings.steps:
                self.learner.sync()
                self._save_policy(self.folder.teacher)  # the expert's pupil, before mixing makes it forget
            if stop := self._asked_to_stop():
                text = "stopped in the warm start, which begins again when the run goes on with --resume"
                raise RunInterrupted(text, stop)

        warm_start(
            self.learner,
            self.renderer,
            lambda player: self._rollout(player, self.config.env.split, bots=True),
            requests,
            settings,
            on_step,
        )
        self.learner.sync()

    def _asked_to_stop(self) -> int | None:
        """The signal that any process got: all must stop after the same step."""
        agreed = max(self.world.gather(self.stop.signum or 0))
        if agreed:  # a signal that came meanwhile stays for the next step
            self.stop.signum = agreed
        return agreed or None

    def _begin_reinforcement(self) -> None:
        settings = self.config.learner
        self.learner.freeze_reference()  # the policy after the warm start
        self.learner.begin_average()
        if self.learner.preset.estimator.teacher and isinstance(self.method, PolicyGradient):
            model = self.config.model
            name = self.config.credit.teacher or self.folder.teacher
            self.method.credit.sources.teacher = load_policy(name, dtype=model.dtype, device=self.learner.device)[0]
        total = self.config.steps * settings.epochs * settings.minibatches
        self.optimiser = build_optimiser(self.learner.new_optimiser, settings, total)

    def _train_step(self) -> None:
        self.learn(self.collect())

    def collect(self) -> StepSample:
        """Play the episodes of a step."""
        clock = Clock()
        require_finite(self.model)
        # traces cost memory and time, so only episodes that are written have them
        kept = (self.step + 1) % self.config.episodes_every == 0
        self.sampling.restart()
        collected = self.schedule.collect(self.step, traced=kept)
        self.sampler.rest()
        return StepSample(collected, kept, clock, clock.seconds(), self.sampling.seconds)

    def learn(self, sample: StepSample) -> None:
        """Update the policy with the episodes of a step, give the sampler its weights, and log the step."""
        collected, kept, clock, seconds = sample.collected, sample.kept, sample.clock, sample.seconds
        episodes, started = collected.played, clock.seconds()
        sampling = min(sample.sampling, seconds)  # asynchronous sampling goes on meanwhile
        fits = self.learner.micro_batch_tokens
        done = self.step / max(1, self.config.steps - 1)  # 0 in the first step, 1 in the last
        annealed = self.learner.anneal_kl(done, self.config.preset().kl_coef, self.config.learner.kl_coef_end)
        metrics = self.method.update(collected, self.optimiser) if collected.episodes else {}  # nothing valid: no step
        self.learner.update_average()
        updated = clock.seconds()
        self.learner.sync()
        if self.learner.micro_batch_tokens < fits:
            fits = self.learner.micro_batch_tokens
            self.callback.say(f"out of memory: from now on micro-batches have {fits} tokens; the gradient is the same")
        if self.sampler.versioned:
            metrics |= staleness(collected.episodes, self.step)
        metrics = {**collected.stats, **metrics, **annealed}
        self.step += 1
        metrics |= self._sync()
        self.schedule.ready(self.step)
        record = {
            "phase": "train",
            "step": self.step,
            **collection_metrics(episodes),
            **role_metrics(episodes),
            **self.opponents.count(episodes),
            **metrics,
        }
        sampled = sum(episode.tokens.sampled for episode in episodes)  # tokens of the policy alone
        self._log(
            record,
            clock,
            collect_seconds=seconds,
            sample_seconds=sampling,
            environment_seconds=seconds - sampling,  # with grading, which is a part of a step
            update_seconds=updated - started,
            sync_seconds=clock.seconds() - updated,
            tokens_per_second=sampled / max(seconds, 1e-9),
            episodes_per_second=len(episodes) / max(seconds, 1e-9),
        )
        if kept:
            for notes in self.world.gather([episode.training for episode in episodes]):  # of its share of them
                for episode, noted in zip(episodes, notes, strict=True):
                    episode.training |= noted
            self.folder.write_episodes(f"train-{self.step:06d}", episodes)
        if self.sampler.versioned:
            self._warn_of_mismatch(record)
        self._fruitless.add(episodes)

    def _warn_of_mismatch(self, record: dict[str, Any]) -> None:
        """Say it once, and again when it has become twice as bad."""
        text = mismatch_warning(
            record, corrected=samples_off_policy(self.learner.preset), dtype=self.config.model.dtype
        )
        if text and record["behaviour_kl_k3"] > 2 * self._worst_mismatch:
            self._worst_mismatch = record["behaviour_kl_k3"]
            self.callback.say(f"step {self.step}: {text}")

    def _sync(self) -> dict[str, float]:
        """Give the sampler the policy as it is now."""
        return self.sampler.sync(PolicyWeights(self.model), self.step)

    def after_step(self) -> None:
        """Evaluate and save, when it is time."""
        config = self.config
        self.opponents.after_step(self.step)
        if config.learner.reference_every and self.step % config.learner.reference_every == 0:
            self.learner.freeze_reference()
        last = self.step == config.steps
        every = config.evaluation.every
        if last:
            self._evaluate("after")
        elif every and self.step % every == 0:
            self._evaluate(f"step {self.step}")
        if last or self._asked_to_stop() or self.step % config.checkpoint_every == 0:
            self._save()

    # evaluation, checkpoints, log

    def _evaluate(self, name: str) -> None:
        """Play held-out tasks greedily and sampled, with the averaged weights if there are any."""
        with self.learner.averaged():
            self._measure(name)

    def _measure(self, name: str) -> None:
        settings = self.config.evaluation
        clock = Clock()
        require_finite(self.model)
        record: dict[str, Any] = {"phase": "evaluation", "step": self.step, "name": name}
        agents = {way: self._agent(greedy=way == "greedy") for way in ("greedy", "sampled")}
        for way, agent in agents.items():
            rollout = self._rollout(agent, settings.split)
            order = TaskOrder(rollout.env.unwrapped, "evaluation", self.config.seed)
            tasks = min(settings.episodes, order.size or settings.episodes)  # a small table is not asked twice
            episodes = rollout([order.request(index, group=index, salt="evaluation") for index in range(tasks)])
            result = summarise(episodes)
            self.evaluations[f"{name} {way}"] = result.to_dict()
            record |= {"tasks": tasks, **evaluation_metrics(way, episodes, result)}
            self.folder.write_episodes(f"evaluation-{name}-{way}".replace(" ", "-"), episodes)
            for text in result.warnings:
                self.callback.say(f"warning: evaluation {name}, {way}: {text}")
        self._log(record | self.games.figures(self.model, self.renderer, agents), clock)

    def _parts(self) -> dict[str, Stateful | None]:
        """What remembers something beside the weights."""
        return {"collector": self.collector, "method": self.method, "pool": self.opponents.pool}

    def _save(self) -> None:
        checkpoint = Checkpoint(
            step=self.step,
            model={name: p.detach() for name, p in self.learner.model.named_parameters() if p.requires_grad},
            optimiser=self.optimiser.tensors(),
            counters={
                "optimiser": self.optimiser.state_dict(),
                "evaluations": self.evaluations,
                "env_digests": self.env_digests,
                **({"frozen": self.frozen} if self.frozen else {}),
                "micro_batch_tokens": self.learner.micro_batch_tokens,  # sums are rounded in their order
                "critic": self.critic.optimiser.state_dict() if self.critic is not None else {},
                **state_dicts(self._parts()),
            },
            critic=self.critic.tensors() if self.critic is not None else {},
            reference=self.learner.reference_weights() if self.config.learner.reference_every else {},
            pool=self.opponents.tensors(),
            average=self.learner.average_weights(),
        )
        self.saver.save(checkpoint)

    def _save_policy(self, folder: Path) -> None:
        """In the format of transformers; LoRA adapters are merged into the weights, so that any engine serves it."""
        if self.world.rank == 0:
            self._write_policy(folder)
        self.world.gather(None)  # nobody reads it before it is there

    def _write_policy(self, folder: Path) -> None:
        model = self.model.merge_and_unload() if hasattr(self.model, "peft_config") else self.model
        make_folder(folder)
        require_plain(folder)  # whoever writes next would follow a link
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def _load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        trained = {name: p for name, p in self.learner.model.named_parameters() if p.requires_grad}
        if weights.keys() != trained.keys():
            raise ConfigError("the checkpoint is of another model than the config's")
        for name, parameter in trained.items():
            assign(parameter, weights[name])
        self.learner.sync()

    def _log(self, record: dict[str, Any], clock: Clock, **timing: float) -> None:
        where = {name: record[name] for name in ("phase", "step")}
        timing = {**clock.read(), **timing}
        self.folder.log(record, {**where, **timing})
        self.tracker.log(figures(record, timing), record.get("warm_step", record["step"]))
        if isinstance(self.callback, TimedCallback):
            self.callback.timed(timing)
        self.callback.step(record)


def require_finite(model: Any) -> None:
    """Look at every weight before tokens are sampled with it: on a GPU a NaN is met as an assertion of the device.

    Raises:
        FloatingPointError: a weight is NaN or infinite; says which.
    """
    for name, parameter in model.named_parameters():
        # x - x is 0 for numbers and NaN for the rest; the sum cannot overflow, as that of the weights could
        if bool((parameter.detach() - parameter.detach()).sum() != 0):
            bad = int((~parameter.detach().isfinite()).sum())
            raise FloatingPointError(
                f"{bad} of {parameter.numel()} weights of {name} are NaN or infinite, so nothing can be sampled: go "
                "back to an earlier checkpoint, lower the learning rate, or use float32"
            )


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
