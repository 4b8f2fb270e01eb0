"""Trainer: the loop of a run. A step goes from 1, its tasks, to 9, its checkpoint, whatever the algorithm is."""

from __future__ import annotations

from typing import Any

import torch

from rlvr.agents.evaluation import Evaluation
from rlvr.algorithms.runs.run_folder import Clock
from rlvr.algorithms.runs.trackers import push_policy
from rlvr.algorithms.train.evaluate import evaluate
from rlvr.algorithms.train.interrupts import RunInterrupted
from rlvr.algorithms.train.setup import RunSetup
from rlvr.algorithms.train.state import begin_run, save_checkpoint, save_policy
from rlvr.algorithms.train.step_log import StepSample, log_step, require_finite, staleness


class Trainer(RunSetup):
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

    def run(self) -> dict[str, Evaluation]:
        """Train to the end; the evaluations by name, ``before`` and ``after`` among them, greedy and sampled.

        Raises:
            RunInterrupted: Ctrl-C or SIGTERM; the run can go on from what was saved.
            FloatingPointError: the gradients stay non-finite, or the weights are not numbers.
        """
        try:
            with self.stop.listening(self.callback.say):
                try:
                    self.prepare()
                    self.begin()
                    while self.step < self.config.steps:
                        if stop := self.asked_to_stop():
                            raise RunInterrupted(f"stopped after step {self.step}; go on with --resume", stop)
                        self.learn(self.collect())
                        self.after_step()
                finally:
                    self.saver.wait()  # an interrupted run is saved, too
                self.save_final()
                if self.config.push_to_hub and self.world.rank == 0:
                    self.callback.say(push_policy(self.folder.policy, self.config.push_to_hub))
            self.world.leave()
        finally:
            self.close()
        return self.results()

    def prepare(self) -> None:
        """The policy that the first step is played with: warmed up, or that of the last checkpoint."""
        begin_run(self)
        self._sync()

    def begin(self) -> None:
        """The first evaluation and checkpoint of a new run; then the steps may be played."""
        if self.fresh:
            evaluate(self, "before")
            if not self.config.steps:
                evaluate(self, "after")
            save_checkpoint(self)
        self.schedule.ready(self.step)
        self.callback.phase("reinforcement learning", self.config.steps - self.step)

    def collect(self) -> StepSample:
        """Play the episodes of a step: tasks x_1 … x_Q, and y_1 … y_G ~ pi_theta(. | x) with rewards R for each."""
        clock = Clock()
        require_finite(self.model)
        # traces cost memory and time, so only episodes that are written have them
        kept = (self.step + 1) % self.config.episodes_every == 0
        self.sampling.restart()
        # 1. Tasks, 2. rollouts of a group on each, 3. rewards and filters: again where a filter wants other groups.
        try:
            collected = self.schedule.collect(self.step, traced=kept)
        except RuntimeError as error:
            self.explain_sampling_memory(error)
            raise
        self.sampler.sleep()
        return StepSample(collected, kept, clock, clock.seconds(), self.sampling.seconds)

    def learn(self, sample: StepSample) -> None:
        """Update the policy with the episodes of a step, give the sampler its weights, and log the step."""
        collected, clock = sample.collected, sample.clock
        metrics: dict[str, Any] = {}
        started, budget = clock.seconds(), self.learner.micro_batch_tokens
        annealed = self.learner.anneal_kl(self.step / max(1, self.config.steps - 1), *self.kl_coefs)
        if collected.episodes:  # nothing valid: no step
            # 4. Advantages A of the whole batch, or what else the method learns from.
            batch, metrics = self.method.credit(collected)
            # 5. Log-probabilities of the policy as it is (old) and of the reference, where the loss reads them.
            batch = self.method.score(batch)
            # 6. Losses and gradients, g = grad L(theta) / N, and 7. theta <- AdamW(theta, g), minibatch by minibatch.
            metrics |= self.method.update(batch, self.optimiser)
        self.learner.update_average()
        if self.learner.device.type == "cuda":
            torch.cuda.synchronize()  # what the GPU still works at is the update's time, not the next sampling's
        updated = clock.seconds()
        if self.learner.micro_batch_tokens < budget:
            budget = self.learner.micro_batch_tokens
            self.callback.say(
                f"out of memory: from now on micro-batches have {budget} tokens; the gradient is the same"
            )
        if self.sampler.versioned:
            metrics |= staleness(collected.episodes, self.step)
        self.step += 1
        # 8. Weights to the sampler: the next tokens are sampled with theta.
        self.learner.sync()
        metrics = {**collected.stats, **metrics, **annealed} | self._sync()
        self.schedule.ready(self.step)
        log_step(self, sample, metrics, learning=updated - started, syncing=clock.seconds() - updated)
        self.valid_steps.add(collected.played)

    def after_step(self) -> None:
        """9. Evaluate and save, when it is time."""
        config, last = self.config, self.step == self.config.steps
        self.opponents.after_step(self.step)
        if config.learner.reference_every and self.step % config.learner.reference_every == 0:
            self.learner.freeze_reference()
        if last:
            evaluate(self, "after")
        elif config.evaluation.every and self.step % config.evaluation.every == 0:
            evaluate(self, f"step {self.step}")
        if last or self.asked_to_stop() or self.step % config.checkpoint_every == 0:
            save_checkpoint(self)

    def results(self) -> dict[str, Evaluation]:
        """The evaluations so far, by name."""
        return {name: Evaluation.from_dict(record) for name, record in self.evaluations.items()}

    def save_final(self) -> None:
        """Write the policy that the run ends with."""
        with self.learner.averaged():
            save_policy(self, self.folder.policy)

    def _sync(self) -> dict[str, float]:
        return self.sampler.sync(self.weights, self.step)
