"""mini-swe-agent as it is shipped: its work is graded, its tokens are kept, and a training step is made of them."""

from __future__ import annotations

import base64
import shutil
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.adapters.harness.program import ProgramHarness
from rlvr.adapters.serving.policy_endpoint import HarnessEnv
from rlvr.agents import Reply, Rollout, RolloutRequest

from ..needs import needs_sandbox
from .captured import check_capture, check_step

pytestmark = [pytest.mark.foreign, needs_sandbox]
ENV, STEPS = "rlvr/RepoRepair-v0", 2
MINI = Path(sys.executable).with_name("mini")
VARIABLES = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHONSAFEPATH": "1",
}
FINISH = "```mswea_bash_command\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"


def command(job):
    """Its own configuration for models without tool calls; what a model makes it run is kept in by bubblewrap."""
    sandboxed = shutil.which("bwrap") is not None
    return [
        MINI, "--yolo", "--exit-immediately", "--agent-class", "default", "--model-class", "litellm_textbased",
        "--environment-class", "bubblewrap" if sandboxed else "local", "-c", "mini_textbased.yaml",
        "-c", f"agent.step_limit={STEPS}", "-c", f"environment.cwd={job.folder}",
        "-m", f"openai/{job.connection.model}", "-o", job.home / "trajectory.json", "-t", job.task,
    ]  # fmt: skip


def harness():
    pytest.importorskip("minisweagent")
    return ProgramHarness(ENV, command, variables=VARIABLES, seconds=240)


class Person:
    """Mends the fault by commands, as mini-swe-agent wants them."""

    def act(self, conversations):
        return [Reply(self._reply(conversation)) for conversation in conversations]

    def _reply(self, conversation):
        if any(message["role"] == "assistant" for message in conversation.messages):
            return f"THOUGHT: It is mended.\n\n{FINISH}"
        env = gym.make(ENV)
        env.reset(seed=3)
        given = env.unwrapped.get_state().state.world.repository()
        (fault,) = given.faults
        data = base64.b64encode(given.package.modules[fault.module].encode()).decode()
        program = f"echo {data} | base64 -d > {given.path(fault.module)} && git log --oneline | head -1"
        return f"THOUGHT: I write it anew.\n\n```mswea_bash_command\n{program}\n```"


def test_its_work_is_graded_by_the_verifier_of_the_task():
    (episode,) = Rollout(lambda: HarnessEnv(harness(), turn_timeout=120), Person(), timeout=300)([RolloutRequest(3)])
    assert (episode.reward, episode.verdict.status) == (1.0, "correct"), episode.verdict
    assert [turn.branch for turn in episode.turns] == [0, 0]
    assert "<returncode>0</returncode>" in episode.turns[1].observation
    assert "COMPLETE_TASK" in episode.system or "mswea_bash_command" in episode.system


def make(split: str | None = None, level: int = 1, **_: object) -> HarnessEnv:
    return HarnessEnv(harness(), turn_timeout=120)


def test_a_step_is_made_from_what_it_asked_a_local_model(tmp_path):
    pytest.importorskip("minisweagent")
    from rlvr.algorithms.config import load_config
    from rlvr.algorithms.train.run import Trainer

    gym.register("test/MiniSwe-v0", make, disable_env_checker=True, order_enforce=False)
    config = load_config({
        "env": {"id": "test/MiniSwe-v0", "timeout": 300, "workers": 2},
        "model": {"hidden": 16, "layers": 1},
        "sampling": {"max_new_tokens": 12, "max_length": 8_000},
        "warm_start": {"steps": 0, "mixed_steps": 0},
        "overrides": {"entropy_coef": 0.01},  # so that equal rewards have a gradient, too
        "steps": 1, "prompts": 1, "group_size": 2, "out": str(tmp_path / "run"),
    })  # fmt: skip
    trainer = Trainer(config)
    try:
        trainer.prepare()
        trainer.schedule.ready(0)
        sample = trainer.collect()
        for episode in sample.collected.played:
            assert (episode.verdict.status, len(episode.turns)) == ("wrong", STEPS), episode.verdict
            # a reply without a command is left out of what it tells next, so each call begins a conversation
            assert [branch.follows for branch in episode.branches] == [-1] * (STEPS - 1)
            for tokens in (episode.tokens, *(branch.tokens for branch in episode.branches)):
                assert tokens.sampled == 12
                check_capture(tokens, trainer.model)
        check_step(trainer, sample)
    finally:
        trainer.close()
        del gym.registry["test/MiniSwe-v0"]
