"""Population: several learned policies in one run, each for players of its own.

Each policy is a `Trainer` with a folder of its own: weights, optimiser, tasks, advantages, evaluations, checkpoints.
All play a step, each its own players, against the others as they are; then all learn. So no policy is updated before
the others have sampled with it, and the order of the policies decides nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rlvr.agents.players.text_policy import joined
from rlvr.algorithms.config import ConfigError, TrainConfig, to_yaml
from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.runs.callbacks import Callback
from rlvr.algorithms.runs.checkpoints import latest_checkpoint, list_checkpoints, step_name
from rlvr.algorithms.runs.run_folder import Clock, RunFolder
from rlvr.algorithms.train.game_evaluation import exploited
from rlvr.algorithms.train.interrupts import RunInterrupted, StopSignal
from rlvr.algorithms.train.run import Trainer
from rlvr.envs.core.code_rule import make_env
from rlvr.envs.players.single import AsSingleAgent, game_task

FOLDER = "policies"


@runtime_checkable
class DisplayOfSeveral(Protocol):
    """A callback that can make one for each policy."""

    def member(self, name: str) -> Callback:
        """The callback of one policy."""


class SingleRun:
    """A run of one policy.

    Attributes:
        members: the trainers by name.
        folder: of the run beside those of its policies; None where it has one policy.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.members, self.folder = {"": trainer}, None

    def run(self) -> None:
        """Train to the end; see `Trainer.run`."""
        self.members[""].run()

    def close(self) -> None:
        """Let go of what a run holds."""
        self.members[""].close()


class Population:
    """One run of several learned policies, in one folder: ``policies/NAME`` is a run's folder for each of them.

    A run that was killed and goes on ends with the same weights, bit for bit, as one that never stopped: it goes on
    from the newest checkpoint that all policies have, and newer ones of some are removed.

    Args:
        config: what to do; ``self_play.policies`` names the policies.
        resume: go on with the run that is in the folder.

    Raises:
        RunFolderError: the folder may not be used.
        ConfigError: the game or something else does not go with several policies; names the field.
    """

    def __init__(self, config: TrainConfig, callback: Callback, *, resume: bool = False) -> None:
        # Shards of several models would have to be gathered in one order.
        if ProcessWorld.join().sharded:
            raise ConfigError("self_play.policies goes with one process: start the run without torchrun")
        # Before any folder is made: a failed start must not poison it.
        self.task = _checked_task(config)
        self.config, self.callback = config, callback
        self.folder = RunFolder(config.out, resume=resume)
        self.members: dict[str, Trainer] = {}
        self.stop = StopSignal()
        try:
            # In the order of the config; each has the run's seed, and tasks and noise of its own players.
            for name in config.self_play.policies:
                mine = member_config(config, name)
                if resume:
                    _require_steps(mine)
                member_callback = callback.member(name) if isinstance(callback, DisplayOfSeveral) else callback
                self.members[name] = Trainer(mine, member_callback, resume=resume)
                self.members[name].stop = self.stop
            # Only now are all there to be introduced to one another.
            self._introduce()
            if not resume:
                self.folder.write_config(to_yaml(config))
        except BaseException:
            self.close()
            if not resume:  # or the folder would not be free for a run with what was wrong put right
                shutil.rmtree(config.out / FOLDER, ignore_errors=True)
            raise

    def _introduce(self) -> None:
        """Tell each policy who plays the players of the others."""
        for name, member in self.members.items():
            for other, players in self.config.self_play.policies.items():
                if other != name:
                    # Sampled, as it plays itself: a greedy opponent can be predicted.
                    agent = self.members[other].play_agent(greedy=False)
                    member.opponents.add_learned(other, players, agent)
                    member.games.mates |= dict.fromkeys(players, agent)

    def run(self) -> None:
        """Train to the end; see `Trainer.run`.

        Raises:
            RunInterrupted: Ctrl-C or SIGTERM; the run can go on from what was saved.
        """
        members = self.members.values()
        try:
            with self.stop.listening(self.callback.say):
                try:
                    self._train()
                finally:
                    for member in members:
                        member.saver.wait()
                # After all have ended: a policy folder says that the run is over.
                for member in members:
                    member.save_final()
        finally:
            self.close()

    def close(self) -> None:
        """Let go of what the run holds."""
        for member in self.members.values():
            member.close()
        self.folder.close()

    def _train(self) -> None:
        members = list(self.members.values())
        # A kill between two saves leaves some policies a checkpoint ahead of the others.
        self._align()
        for member in members:
            member.prepare()
        step = members[0].step
        self.folder.keep_until(-1 if members[0].fresh else step)
        # Measured before checkpoints are written: a run that goes on from one does not do it again.
        if members[0].fresh:
            self._measure("before")
            if not self.config.steps:
                self._measure("after")
        for member in members:
            member.begin()
        while members[0].step < self.config.steps:
            if self.stop.signum:
                raise RunInterrupted(f"stopped after step {step}; go on with --resume", self.stop.signum)
            # theta_k <- theta_k + update of pi_k against pi_-k as all were: simultaneous, so no order matters
            for member, sample in [(member, member.collect()) for member in members]:
                member.learn(sample)
            step = members[0].step
            every = self.config.evaluation.every
            if step == self.config.steps:
                self._measure("after")
            elif every and step % every == 0:
                self._measure(f"step {step}")
            for member in members:
                member.after_step()

    def _align(self) -> None:
        """Remove checkpoints that not all policies have: they go on together."""
        folders = [member.folder.checkpoints for member in self.members.values()]
        checkpoints = [latest_checkpoint(folder)[0] for folder in folders]
        while True:
            steps = {-1 if checkpoint is None else checkpoint.step for checkpoint in checkpoints}
            # A save may have failed in one of them more than once.
            if len(steps) == 1:
                return
            for folder in folders:
                # What is removed is played again, to the same bytes.
                for path in list_checkpoints(folder):
                    if path.name > step_name(min(steps)) or min(steps) < 0:
                        shutil.rmtree(path)
            checkpoints = [latest_checkpoint(folder)[0] for folder in folders]

    def _measure(self, name: str) -> None:
        """Log the exploitability of all policies together, each with its players."""
        if not self.config.evaluation.exploitability:
            return
        clock, policies = Clock(), self.config.self_play.policies
        # What is evaluated is what is saved.
        with self._averaged():
            # pi(a | s) of each player's own policy; a best response is computed to all together
            by_player = {
                player: policy
                for which, member in self.members.items()
                for policy in [member.games.text_policy(self.task, member.model, member.renderer)]
                for player in policies[which]
            }
            figures = exploited(self.task, joined(by_player))
        where = {"phase": "evaluation", "step": self.members[next(iter(policies))].step}
        record: dict[str, Any] = {**where, "name": name, **figures}
        self.folder.log(record, {**where, **clock.read()})
        self.callback.say(f"evaluation {name}: exploitability of all policies {figures['exploitability']:.3f}")

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        with ExitStack() as stack:
            for member in self.members.values():
                stack.enter_context(member.learner.averaged())
            yield


def open_run(config: TrainConfig, callback: Callback, *, resume: bool = False) -> SingleRun | Population:
    """The run of a config: of one policy, or of several.

    Raises:
        RunFolderError, ConfigError: as of `Trainer` and `Population`; or the folder is that of one of several policies.
    """
    # Only member_config sets it, for a folder under another run's.
    if config.self_play.policy:
        raise ConfigError(
            f"self_play.policy: {config.out} holds one of several policies, {config.self_play.policy}: go on with the "
            f"run that trains all of them, in {config.out.parent.parent}"
        )
    if config.self_play.policies:
        return Population(config, callback, resume=resume)
    return SingleRun(Trainer(config, callback, resume=resume))


def member_config(config: TrainConfig, name: str) -> TrainConfig:
    """The config of one of several policies: the run's, with its own folder and its own players."""
    players: Mapping[str, Any] = {"seat": list(config.self_play.policies[name])}
    return config.model_copy(
        update={
            "out": config.out / FOLDER / name,
            "env": config.env.model_copy(update={"settings": {**config.env.settings, **players}}),
            "self_play": config.self_play.model_copy(update={"policy": name}),
            # of one policy in all seats; the run computes that of all policies together
            "evaluation": config.evaluation.model_copy(update={"exploitability": False}),
        }
    )


def _checked_task(config: TrainConfig) -> AsSingleAgent:
    """The game's task, from which what all policies have together is computed."""
    # As the trainers make theirs, so that the game has the same settings.
    env = make_env(config.env.id, **{**config.env.settings, "split": config.env.split, "level": config.env.level})
    task = game_task(env)
    if task is None:
        raise ConfigError(f"self_play.policies is of games of several seats, not of {config.env.id}")
    # A player without a policy would never learn, one with two would have two answers.
    count, named = len(task.game.teams), sorted(p for players in config.self_play.policies.values() for p in players)
    if named != list(range(count)):
        raise ConfigError(
            f"self_play.policies: {task.game.name} has seats 0 to {count - 1}, and each needs one policy; named are "
            f"{', '.join(map(str, named))}"
        )
    return task


def _require_steps(config: TrainConfig) -> None:
    if not (Path(config.out) / "config.yaml").is_file():
        raise ConfigError(f"{config.out} holds no run of a policy to go on with: it has no config.yaml")
