"""What a run keeps in its folder beside the log: checkpoints and how it goes on from one, and the policy."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from rlvr.agents.models.tiny import load_policy
from rlvr.algorithms.config.train_config import ConfigError
from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.learner.optimiser import build_optimiser
from rlvr.algorithms.learner.world import assign
from rlvr.algorithms.runs.checkpoints import Checkpoint, latest_checkpoint, load_checkpoint, require_frozen, step_name
from rlvr.algorithms.runs.run_folder import Clock
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.sampling.env_source import require_same_tasks
from rlvr.algorithms.train.interrupts import RunInterrupted
from rlvr.algorithms.train.policy_gradient import PolicyGradient
from rlvr.algorithms.train.setup import RunSetup
from rlvr.algorithms.train.step_log import log, require_finite
from rlvr.algorithms.train.warm_start import warm_start
from rlvr.envs.core.files import make_folder, require_plain


class Stateful(Protocol):
    """A part of a run that remembers something."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, plain, for a checkpoint."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember this instead."""


def state_dicts(parts: Mapping[str, Stateful | None]) -> dict[str, Any]:
    """The state of each part by its name; None of a part that this run does not have."""
    return {name: None if part is None else part.state_dict() for name, part in parts.items()}


def load_state_dicts(parts: Mapping[str, Stateful | None], states: Mapping[str, Any]) -> None:
    """Give each part the state of its name.

    Raises:
        KeyError: a part has no state: the checkpoint is of another run.
    """
    for name, part in parts.items():
        if part is not None:
            part.load_state_dict(states[name])


# checkpoints


def parts_of(run: RunSetup) -> dict[str, Stateful | None]:
    """What remembers something beside the weights."""
    return {"collector": run.collector, "method": run.method, "pool": run.opponents.pool}


def begin_run(run: RunSetup) -> None:
    """Warm the policy of a new run up, or take up the last checkpoint, as it was when that was written.

    Raises:
        CheckpointError, ConfigError: the model, its frozen weights or the tasks are not those of the checkpoint.
    """
    checkpoint, faults = latest_checkpoint(run.folder.checkpoints)
    for fault in faults:
        run.callback.say(f"{fault}; {'beginning again' if checkpoint is None else 'taking the one before'}")
    if checkpoint is None:
        run.folder.keep_until(-1)
        _warm_start(run)
        begin_reinforcement(run)
        run.fresh = True
        return
    require_frozen(checkpoint, run.frozen, run.config.model.name)
    require_same_tasks(checkpoint.counters.get("env_digests"), run.env_digests, run.callback.say)
    if run.learner.needs_reference:  # by default the policy that reinforcement learning began with
        first = load_checkpoint(run.folder.checkpoints / step_name(0)).model
        _load_weights(run, checkpoint.reference or first)
    begin_reinforcement(run)
    _load_weights(run, checkpoint.model)
    run.learner.begin_average(checkpoint.average)
    run.optimiser.load_state_dict(checkpoint.counters["optimiser"], checkpoint.optimiser)
    load_state_dicts(parts_of(run), checkpoint.counters)
    run.opponents.load_tensors(checkpoint.pool)
    if run.critic is not None:
        run.critic.load_tensors(checkpoint.critic, checkpoint.counters["critic"])
    run.evaluations = checkpoint.counters["evaluations"]
    run.learner.micro_batch_tokens = checkpoint.counters["micro_batch_tokens"]
    run.step = checkpoint.step
    run.folder.keep_until(run.step)  # what a killed run logged after its checkpoint happens again
    run.callback.say(f"going on after step {run.step}")


def save_checkpoint(run: RunSetup) -> None:
    """Begin to write all that the run needs to go on from here."""
    checkpoint = Checkpoint(
        step=run.step,
        model={name: p.detach() for name, p in run.learner.model.named_parameters() if p.requires_grad},
        optimiser=run.optimiser.tensors(),
        counters={
            "optimiser": run.optimiser.state_dict(),
            "evaluations": run.evaluations,
            "env_digests": run.env_digests,
            **({"frozen": run.frozen} if run.frozen else {}),
            "micro_batch_tokens": run.learner.micro_batch_tokens,  # sums are rounded in their order
            "critic": run.critic.optimiser.state_dict() if run.critic is not None else {},
            **state_dicts(parts_of(run)),
        },
        critic=run.critic.tensors() if run.critic is not None else {},
        reference=run.learner.reference_weights() if run.config.learner.reference_every else {},
        pool=run.opponents.tensors(),
        average=run.learner.average_weights(),
    )
    run.saver.save(checkpoint)


def _load_weights(run: RunSetup, weights: Mapping[str, torch.Tensor]) -> None:
    trained = {name: p for name, p in run.learner.model.named_parameters() if p.requires_grad}
    if weights.keys() != trained.keys():
        raise ConfigError("the checkpoint is of another model than the config's")
    for name, parameter in trained.items():
        assign(parameter, weights[name])
    run.learner.sync()


def begin_reinforcement(run: RunSetup) -> None:
    """Take the policy as it is for the reference, and make the optimiser."""
    settings = run.config.learner
    run.learner.freeze_reference()  # the policy after the warm start
    run.learner.begin_average()
    estimator = run.learner.preset.estimator
    name = run.config.credit.teacher or (run.folder.teacher if estimator.teacher else "")
    if name and "teacher_logprobs" in estimator.needs and isinstance(run.method, PolicyGradient):
        model = run.config.model
        run.method.sources.teacher = load_policy(name, dtype=model.dtype, device=run.learner.device)[0]
    total = run.config.steps * settings.epochs * settings.minibatches
    run.optimiser = build_optimiser(run.learner.new_optimiser, settings, total)


def _warm_start(run: RunSetup) -> None:
    settings = run.config.warm_start
    steps = settings.steps + settings.mixed_steps + settings.random_steps
    if not steps:
        return
    require_finite(run.model)
    run.callback.phase("warm start", steps)
    order = TaskOrder(run.rollout.env.unwrapped, "warm start", run.config.seed)
    level_at = run.collector.pool.level_at
    requests = (order.request(i, level=level_at(i), group=0, salt="warm start") for i in count())
    clock = Clock()

    def on_step(phase: str, done: int, metrics: dict[str, float]) -> None:
        log(run, {"phase": phase, "step": 0, "warm_step": done, **metrics}, clock)
        if run.learner.preset.estimator.teacher and done + 1 == settings.steps:
            run.learner.sync()
            save_policy(run, run.folder.teacher)  # the expert's pupil, before mixing makes it forget
        if stop := run.asked_to_stop():
            text = "stopped in the warm start, which begins again when the run goes on with --resume"
            raise RunInterrupted(text, stop)

    def play(player: Any) -> Any:
        return run.rollout_of(player, run.config.env.split, bots=True)

    warm_start(run.learner, run.renderer, play, requests, settings, on_step)
    run.learner.sync()


def save_policy(run: RunSetup, folder: Path) -> None:
    """In the format of transformers; LoRA adapters are merged into the weights, so that any engine serves it.

    The adapters alone stand beside it, in ``adapter/`` as peft writes it.
    """
    if run.world.rank == 0:
        model = run.model
        if hasattr(model, "peft_config"):
            adapter = folder.with_name("adapter")
            make_folder(adapter)
            require_plain(adapter)
            model.save_pretrained(adapter, save_embedding_layers=False)
            model = model.merge_and_unload()
        make_folder(folder)
        require_plain(folder)  # whoever writes next would follow a link
        model.save_pretrained(folder)
        run.tokenizer.save_pretrained(folder)
    run.world.gather(None)  # nobody reads it before it is there
