"""Evaluation of a run: held-out tasks, played greedily and sampled."""

from __future__ import annotations

from typing import Any

from rlvr.agents.evaluation import summarise
from rlvr.algorithms.runs.run_folder import Clock
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.train.setup import RunSetup
from rlvr.algorithms.train.step_log import evaluation_metrics, keep_episodes, log, require_finite


def evaluate(run: RunSetup, name: str) -> None:
    """Play held-out tasks greedily and sampled, with the averaged weights if there are any, and log what came of it.

    Args:
        name: of the evaluation, such as before.
    """
    try:
        with run.learner.averaged():
            _measure(run, name)
    except RuntimeError as error:
        run.explain_sampling_memory(error)
        raise


def _measure(run: RunSetup, name: str) -> None:
    settings, clock = run.config.evaluation, Clock()
    require_finite(run.model)
    record: dict[str, Any] = {"phase": "evaluation", "step": run.step, "name": name, "held_out": run.held_out}
    agents = {way: run.play_agent(greedy=way == "greedy") for way in ("greedy", "sampled")}
    for way, agent in agents.items():
        rollout = run.rollout_of(agent, settings.split)
        order = TaskOrder(rollout.env.unwrapped, "evaluation", run.config.seed)
        tasks = min(settings.episodes, order.size or settings.episodes)  # a small table is not asked twice
        episodes = rollout([order.request(index, group=index, salt="evaluation") for index in range(tasks)])
        result = summarise(episodes)
        run.evaluations[f"{name} {way}"] = result.to_dict()
        record |= {"tasks": tasks, **evaluation_metrics(way, episodes, result)}
        keep_episodes(run, f"evaluation-{name}-{way}".replace(" ", "-"), f"evaluation/{way}", episodes)
        for text in result.warnings:
            run.callback.say(f"warning: evaluation {name}, {way}: {text}")
    log(run, record | run.games.figures(run.model, run.renderer, agents), clock)
