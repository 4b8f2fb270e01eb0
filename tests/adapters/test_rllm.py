"""The contract of rLLM's workflows, on stand-ins: it does not install here.

What is stood in for was read from its source, 0.3.0.pre at 9beb6e0: `types.py`, `workflows/workflow.py`,
`engine/rollout/rollout_engine.py`, `engine/rollout/verl_engine.py` and `tinker_engine.py`, and the joining of steps in
`trainer/verl/transform.py`. The stand-ins have the fields and the functions that the adapter touches, and nothing else.
"""

from __future__ import annotations

import asyncio
import enum
import importlib
import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rlvr.adapters import TaskSpec, rows
from rlvr.adapters import testing as kit
from rlvr.agents import TokenSequence

ADAPTER = "rlvr.adapters.trainers.rllm"
BACK_ENDS = ("verl", "tinker")


class Reason(enum.Enum):
    MAX_PROMPT_LENGTH_EXCEEDED = "max_prompt_length_exceeded"
    MAX_RESPONSE_LENGTH_EXCEEDED = "max_response_length_exceeded"
    ENV_DONE = "env_done"
    ERROR = "error"


class Event(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class ModelOutput:
    text: str
    content: str
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]
    prompt_length: int
    completion_length: int
    finish_reason: str
    weight_version: int


@dataclass
class Step:
    prompt_ids: list[int]
    response_ids: list[int]
    logprobs: list[float]
    model_response: str
    model_output: ModelOutput
    chat_completions: list[dict[str, str]]
    action: Any
    reward: float
    weight_version: int
    done: bool = False


@dataclass
class Trajectory:
    name: str
    task: Any
    steps: list[Step]
    reward: float | None = None


@dataclass
class Episode:
    trajectories: list[Trajectory] = field(default_factory=list)
    termination_reason: Any = None
    is_correct: Any = False
    metrics: dict[str, float] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)


class Workflow:
    """rLLM's class, as far as it is used: its ends become reasons, and rewards of steps are added up."""

    def __init__(self, rollout_engine: Any, executor: Any, timeout: float = 1e6, **given: Any) -> None:
        self.rollout_engine = rollout_engine

    async def run(self, task: dict[str, Any], uid: str, **kwargs: Any) -> Any: ...

    async def run_with_termination_handling(self, task: Any, uid: str) -> Episode:
        try:
            return await self.run(task, uid)
        except Event as event:
            return self.postprocess_episode(Episode(), event.reason)
        except Exception as error:
            held = {"error_message": str(error), "error_type": type(error).__name__}
            return self.postprocess_episode(Episode(info={"error": held}), Reason.ERROR)

    def postprocess_episode(self, episode: Episode, reason: Reason) -> Episode:
        for trajectory in episode.trajectories:
            assert trajectory.steps[-1].chat_completions
            trajectory.reward = sum(step.reward for step in trajectory.steps)
        episode.termination_reason = reason
        episode.metrics = {"rlvr_acc": 0.0}
        return episode


@pytest.fixture
def adapter(monkeypatch: Any) -> Any:
    parts = {
        "engine.rollout.rollout_engine": {"ModelOutput": ModelOutput},
        "types": {"Episode": Episode, "Step": Step, "Trajectory": Trajectory},
        "workflows.workflow": {"TerminationEvent": Event, "TerminationReason": Reason, "Workflow": Workflow},
    }
    for part, names in parts.items():
        module = ModuleType(f"rllm.{part}")
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.3.0.pre" if name == "rllm" else version(name))
    monkeypatch.delitem(sys.modules, ADAPTER, raising=False)
    yield importlib.import_module(ADAPTER)
    sys.modules.pop(ADAPTER, None)


class Engine:
    """rLLM's engine over the kit's; new weights come with each reply."""

    supports_token_in_token_out = True

    def __init__(self, name: str, engine: kit.RecordingEngine, room: int = 300) -> None:
        self.name, self.engine, self.tokenizer = name, engine, engine.tokenizer
        self.max_prompt_length = self.max_response_length = room
        self.weight_version, self.asked = 0, list[dict[str, Any]]()
        if name == "verl":
            self.server_manager = None

    async def get_token_output_from_token_input(self, token_input: list[int], **named: Any) -> Any:
        assert named.pop("enforce_max_prompt_length") is False  # the engine would count all turns as one prompt
        assert (named.get("stop_token_ids") == [self.tokenizer.eos_token_id]) == (self.name == "verl")
        self.asked.append(named)
        self.weight_version += 1
        await asyncio.sleep(0)
        answer = self.engine.generate(token_input, named["max_tokens"])
        reason = "stop" if answer.sampled[-1:] == [self.tokenizer.eos_token_id] else "length"
        if self.name == "verl":
            return SimpleNamespace(token_ids=answer.sampled, log_probs=answer.logprobs, stop_reason=reason)
        return SimpleNamespace(tokens=answer.sampled, logprobs=answer.logprobs, stop_reason=reason)


def play(adapter: Any, engine: Engine, specs: Any, **options: Any) -> list[Episode]:
    """Each by a workflow of its own, all at once, as rLLM's pool plays them."""

    async def gathered() -> Any:
        flows = [adapter.RllmWorkflow(engine, None, **options) for _ in specs]
        tasks = [{"prompt": [], "spec": spec.to_json()} for spec in specs]
        return await asyncio.gather(
            *(
                flow.run_with_termination_handling(t, f"{n}:0")
                for n, (flow, t) in enumerate(zip(flows, tasks, strict=True))
            )
        )

    return asyncio.run(gathered())


def joined(trajectory: Trajectory) -> TokenSequence:
    """The steps as one sequence, each of whose prompts goes on where the one before ended."""
    tokens = TokenSequence()
    for step in trajectory.steps:
        assert step.prompt_ids[: len(tokens)] == tokens.ids
        assert (step.model_output.prompt_ids, step.model_output.completion_ids) == (step.prompt_ids, step.response_ids)
        tokens.append_context(step.prompt_ids[len(tokens) :])
        tokens.append_sampled(step.response_ids, step.logprobs)
    return tokens


@pytest.mark.slow
@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_the_adapter_conforms(adapter: Any, policy: Any, back_end: str) -> None:
    def played(specs: Any, engine: kit.RecordingEngine) -> list[kit.PlayedEpisode]:
        found = []
        for spec, episode in zip(specs, play(adapter, Engine(back_end, engine), specs), strict=True):
            if episode.trajectories:
                (trajectory,) = episode.trajectories
                found.append(kit.PlayedEpisode(spec, trajectory.reward, joined(trajectory)))
            else:
                assert episode.termination_reason is Reason.ERROR
                if (error := episode.info["error"])["error_type"] == "ValueError":  # which ends rLLM's training
                    raise ValueError(error["error_message"])
                found.append(kit.PlayedEpisode(spec, None))
        return found

    # What the engine raises is an episode that rLLM plays again.
    print("\n".join(kit.conform(played, kit.RecordingEngine(*policy), tokens=True, engine_errors=False)))


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_an_episode_has_a_step_for_each_turn_and_its_reward(adapter: Any, policy: Any, back_end: str) -> None:
    engine = Engine(back_end, kit.RecordingEngine(*policy, wrong_every=10**6))
    (episode,) = play(adapter, engine, kit.say_specs(1))
    (trajectory,) = episode.trajectories
    assert [step.reward for step in trajectory.steps] == pytest.approx([1 / 7, 2 / 7, 4 / 7])
    assert [step.done for step in trajectory.steps] == [False, False, True]
    assert [step.weight_version for step in trajectory.steps] == [0, 1, 2]  # as it was when the turn was asked for
    assert (trajectory.name, trajectory.reward) == ("rlvr", pytest.approx(1.0))
    assert (episode.termination_reason, episode.is_correct) == (Reason.ENV_DONE, True)
    assert episode.metrics == {"rlvr_acc": 0.0, "turns": 3.0, "success": 1.0}
    assert {asked["application_id"] for asked in engine.asked} == {"0:0"}
    assert "<|end|>" not in trajectory.steps[0].model_response


def test_limits_cut_and_a_prompt_that_is_too_long_is_no_episode(adapter: Any, policy: Any) -> None:
    model = kit.RecordingEngine(*policy, script=lambda _: "a long answer " * 40, max_new_tokens=900, wrong_every=10**6)
    engine = Engine("verl", model)
    (episode,) = play(adapter, engine, kit.say_specs(1), max_turn_tokens=30)
    assert [asked["max_tokens"] for asked in engine.asked] == [30] * 3
    assert episode.termination_reason is Reason.MAX_RESPONSE_LENGTH_EXCEEDED
    (episode,) = play(adapter, engine, kit.say_specs(1))
    (trajectory,) = episode.trajectories
    assert len(joined(trajectory)) - len(trajectory.steps[0].prompt_ids) == 300
    engine.max_prompt_length = 5
    (episode,) = play(adapter, engine, kit.say_specs(1))
    assert (episode.trajectories, episode.termination_reason) == ([], Reason.MAX_PROMPT_LENGTH_EXCEEDED)


@pytest.mark.parametrize("fault", kit.FAULTS)
def test_a_fault_has_no_trajectory_to_be_compared_with(adapter: Any, policy: Any, fault: Any) -> None:
    engine = Engine("verl", kit.RecordingEngine(*policy, wrong_every=10**6))
    found = play(adapter, engine, [*kit.say_specs(1), *kit.say_specs(1, fault=fault)])
    assert [len(episode.trajectories) for episode in found] == [1, 0]
    assert found[1].termination_reason is Reason.ERROR
    assert found[1].info["error"]["error_type"] == "InvalidEpisode"


def test_bad_settings_are_one_sentence(adapter: Any, policy: Any) -> None:
    engine = Engine("verl", kit.RecordingEngine(*policy))
    with pytest.raises(ValueError, match="max_turn_tokens must be at least 1, got 0"):
        adapter.RllmWorkflow(engine, None, max_turn_tokens=0)
    engine.router_replay_mode = "R3"
    with pytest.raises(ValueError, match=r"carries no experts: set rllm\.algorithm\.router_replay"):
        adapter.RllmWorkflow(engine, None)
    engine.supports_token_in_token_out = False
    with pytest.raises(ValueError, match="Engine takes no tokens: its back ends verl, tinker and fireworks do"):
        adapter.RllmWorkflow(engine, None)


def test_a_row_comes_as_a_mapping_or_as_a_task_of_rllm(adapter: Any, policy: Any) -> None:
    flow = adapter.RllmWorkflow(Engine("verl", kit.RecordingEngine(*policy)), None, use_system=False)
    (row,) = rows("rlvr/GuessNumber-v0", 1)
    for task in (row, SimpleNamespace(metadata=row)):
        episode = asyncio.run(flow.run_with_termination_handling(task, "a:0"))
        assert len(episode.trajectories) == 1, episode.info
    for task, complaint in (({"question": "x"}, "names no task"), (TaskSpec("rlvr/VisualClocks-v0", 0), "images")):
        row = task if isinstance(task, dict) else {"spec": task.to_json()}
        episode = asyncio.run(flow.run_with_termination_handling(row, "a:0"))
        assert episode.termination_reason is Reason.ERROR
        assert complaint in episode.info["error"]["error_message"]


@pytest.mark.skipif(importlib.util.find_spec("rllm") is not None, reason="rLLM is here")
def test_without_rllm_the_error_says_where_it_is() -> None:
    with pytest.raises(ImportError, match=r"rllm is not installed.*from its repository: the package index has none"):
        importlib.import_module(ADAPTER)
