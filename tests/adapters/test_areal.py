"""AReaL's own executor, groups, statistics, advantages and loss over our workflow, with a fake engine.

AReaL itself is the real package, without its engines: those sample from SGLang or vLLM on GPUs.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import itertools
import logging
import runpy
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlvr.adapters import TaskSpec, rows
from rlvr.adapters import testing as kit
from rlvr.agents import TokenSequence

MISSING = importlib.util.find_spec("areal") is None
EXAMPLE = Path(__file__).parents[2] / "examples" / "areal_train.py"
foreign = pytest.mark.foreign


@pytest.mark.skipif(not MISSING, reason="AReaL is here")
def test_without_areal_the_error_says_what_to_install():
    with pytest.raises(ImportError, match=r"areal is not installed.*areal>=1\.0\.4,<1\.1"):
        importlib.import_module("rlvr.adapters.trainers.areal")


# with it


@pytest.fixture(scope="module")
def areal():
    pytest.importorskip("areal")
    names = {
        "adapter": "rlvr.adapters.trainers.areal",
        "api": "areal.api",
        "args": "areal.api.cli_args",
        "context": "areal.infra.workflow_context",
        "executor": "areal.infra.workflow_executor",
        "remote": "areal.infra.remote_inf_engine",
        "actor": "areal.trainer.ppo.actor",
        "data": "areal.utils.data",
        "stats": "areal.utils.stats_tracker",
    }
    return SimpleNamespace(**{name: importlib.import_module(path) for name, path in names.items()})


class FakeEngine:
    """AReaL's engine as a workflow sees it, over the kit's: new weights come in the middle of each reply."""

    def __init__(self, areal, engine):
        self.areal, self.engine, self.asked, self.answers, self.version = areal, engine, [], [], 0

    def get_version(self):
        return self.version

    async def agenerate(self, request):
        assert isinstance(request, self.areal.api.ModelRequest)
        self.asked.append(request)
        await asyncio.sleep(0)
        call = self.engine.generate(request.input_ids, request.gconfig.max_new_tokens)
        before, self.version = self.version, self.version + 1
        half = len(call.sampled) // 2
        answer = self.areal.api.ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=list(call.sampled),
            output_logprobs=list(call.logprobs),
            output_versions=[before] * half + [self.version] * (len(call.sampled) - half),
            stop_reason="stop" if call.sampled[-1:] == [self.engine.tokenizer.eos_token_id] else "length",
        )
        self.answers.append(answer)
        return answer


def settings(areal, **changes):
    return areal.args.GenerationHyperparameters(**{"max_new_tokens": 12, "max_tokens": 300, "n_samples": 8, **changes})


def workflow_of(areal, tokenizer, *, gconfig=None, **options):
    return areal.adapter.EpisodeWorkflow(gconfig or settings(areal), tokenizer, **options)


def row_of(spec):
    return {"spec": spec.to_json()}


@contextmanager
def executing(areal, engine):
    """AReaL's executor with its threads and its loop, which looks at the form of each trajectory."""
    config = areal.args.InferenceEngineConfig(
        backend="sglang:d1", consumer_batch_size=64, max_head_offpolicyness=100, check_trajectory_format=True
    )
    executor = areal.executor.WorkflowExecutor(config, engine)
    executor.initialize(train_data_parallel_size=1)
    try:
        yield executor
    finally:
        executor.destroy()


def play_groups(areal, engine, specs, workflow=None, **changes):
    """Each group as AReaL asks for it: its trajectory of so many rows, or None; and how many rows it was to have."""
    workflow = workflow or workflow_of(areal, engine.engine.tokenizer)
    groups = [(TaskSpec.parse(text), len(list(found))) for text, found in itertools.groupby(s.to_json() for s in specs)]
    for spec, _ in groups:
        workflow.check(row_of(spec))  # as the page says; afterwards AReaL only logs what is raised
    with executing(areal, engine) as executor:
        asked = []
        for spec, size in groups:
            grouped = areal.remote.GroupedRolloutWorkflow(workflow, size, logging.getLogger(__name__))
            asked.append(executor.submit(row_of(spec), grouped, **changes))
        return [(executor.wait_for_task(task), size) for task, (_, size) in zip(asked, groups, strict=True)]


def row_at(trajectory, place):
    """A row without its padding, as lists."""
    length = int(trajectory["attention_mask"][place].sum())
    return {
        name: value[place, :length].tolist() if value.ndim > 1 else value[place].item()
        for name, value in trajectory.items()
    }


@foreign
def test_the_adapter_conforms_under_its_own_executor(areal, policy):
    def play(specs, engine):
        episodes, left = [], iter(specs)
        for trajectory, size in play_groups(areal, FakeEngine(areal, engine), specs):
            for place in range(size):
                spec = next(left)
                if trajectory is None:
                    episodes.append(kit.PlayedEpisode(spec, None))
                    continue
                row = row_at(trajectory, place)
                tokens = TokenSequence(row["input_ids"], row["loss_mask"], row["logprobs"])
                episodes.append(kit.PlayedEpisode(spec, row["rewards"], tokens))
        return episodes

    # What an engine raises ends in AReaL's log: a test below.
    report = kit.conform(play, kit.RecordingEngine(*policy), tokens=True, engine_errors=False)
    print("\n".join(report))


@foreign
def test_a_trajectory_has_the_names_shapes_and_types_of_areals_own_and_the_version_of_each_token(areal, policy):
    import torch

    engine = FakeEngine(areal, kit.RecordingEngine(*policy, wrong_every=10**6))
    ((trajectory, _),) = play_groups(areal, engine, kit.say_specs(1))
    length = trajectory["input_ids"].shape[1]
    assert {name: (tuple(value.shape), value.dtype) for name, value in trajectory.items()} == {
        "input_ids": ((1, length), torch.int32),
        "loss_mask": ((1, length), torch.int32),
        "logprobs": ((1, length), torch.float32),
        "versions": ((1, length), torch.int32),
        "attention_mask": ((1, length), torch.bool),
        "rewards": ((1,), torch.float32),
    }
    row = row_at(trajectory, 0)
    for name, given, outside in (
        ("input_ids", "output_tokens", None),
        ("logprobs", "output_logprobs", 0.0),
        ("versions", "output_versions", -1),
    ):
        sampled = [value for value, ours in zip(row[name], row["loss_mask"], strict=True) if ours]
        assert sampled == pytest.approx([value for answer in engine.answers for value in getattr(answer, given)])
        others = {value for value, ours in zip(row[name], row["loss_mask"], strict=True) if not ours}
        assert outside is None or others == {outside}
    assert len({*row["versions"]}) == 5  # -1, and four in three replies
    # Each turn is asked for after exactly what was sampled and said before, under one name.
    assert [answer.input_tokens for answer in engine.answers] == [
        row["input_ids"][: len(answer.input_tokens)] for answer in engine.answers
    ]
    assert len({request.rid for request in engine.asked}) == 1
    for request in engine.asked:
        assert policy[1].eos_token_id in request.gconfig.stop_token_ids
        assert request.gconfig.n_samples == 1


@foreign
def test_each_turn_and_the_conversation_have_their_limits(areal, policy):
    model = kit.RecordingEngine(
        *policy, script=lambda _: "a very long answer " * 5, max_new_tokens=500, wrong_every=10**6
    )
    engine, (spec,) = FakeEngine(areal, model), kit.say_specs(1)

    def play(**limits):
        engine.asked.clear()
        ((trajectory, _),) = play_groups(
            areal, engine, [spec], workflow_of(areal, policy[1], gconfig=settings(areal, **limits))
        )
        return row_at(trajectory, 0)

    row = play(max_new_tokens=20)
    turns = kit.segments(row["loss_mask"])
    assert [stop - start for start, stop in turns] == [20] * 3
    assert [request.gconfig.max_new_tokens for request in engine.asked] == [20] * 3
    start = turns[0][0]
    row = play(max_new_tokens=100, max_tokens=start + 30)
    assert kit.segments(row["loss_mask"]) == [(start, start + 30)]
    assert len(row["input_ids"]) == start + 30
    assert [request.gconfig.max_new_tokens for request in engine.asked] == [30]
    with pytest.raises(ValueError, match=rf"begins with {start} tokens, and gconfig\.max_tokens is {start}: raise it"):
        play(max_tokens=start)


@foreign
def test_the_reward_reaches_the_sampled_tokens_though_the_last_reply_is_empty(areal, policy):
    """AReaL puts the reward on the last token of a row, and the discounted sum passes over what was not sampled."""
    said = iter(["first", "second"])
    model = kit.RecordingEngine(*policy, script=lambda text: kit.obey(text) if next(said, None) else "")
    engine = FakeEngine(areal, model)
    generate = engine.agenerate

    async def silent_at_last(request):
        answer = await generate(request)
        if len(engine.asked) == 3:
            answer.output_tokens, answer.output_logprobs, answer.output_versions = [], [], []
        return answer

    engine.agenerate = silent_at_last
    ((trajectory, _),) = play_groups(areal, engine, kit.say_specs(1))
    assert trajectory["rewards"].tolist() == pytest.approx([3 / 7])
    assert trajectory["loss_mask"][0, -1] == 1
    (gains,) = [batch["advantages"] for batch in advantages_of(areal, [trajectory], None)]
    sampled = trajectory["loss_mask"][0].roll(-1).bool()
    assert gains[0][sampled].tolist() == pytest.approx([3 / 7] * int(sampled.sum()))
    assert not sampled.all()


def advantages_of(areal, trajectories, group_size):
    """Through AReaL's actor, its rewards centred within groups where there is a size."""
    norm = None
    if group_size is not None:
        norm = areal.args.NormConfig(mean_level="group", std_level=None, group_size=group_size)
    config = areal.args.PPOActorConfig(
        experiment_name="x", trial_name="x", backend="fsdp:d1", kl_ctl=0.0, reward_norm=norm
    )
    return areal.actor.PPOActor(config, None).compute_advantages([dict(each) for each in trajectories])


def some_wrong(fault_at):
    """A policy that errs now and then, and says "nothing" at one request."""
    asked = itertools.count()

    def script(text):
        number = next(asked)
        return "nothing" if number == fault_at else "maybe" if number % 3 else kit.obey(text)

    return script


@foreign
def test_a_group_with_a_fault_is_left_out_and_the_others_keep_their_baselines(areal, policy, fails_on_nothing):
    import torch

    engine = FakeEngine(areal, kit.RecordingEngine(*policy, script=some_wrong(2), wrong_every=10**6))
    found = play_groups(areal, engine, kit.say_specs(3, 4), workflow_of(areal, policy[1], attempts=1))
    kept = [trajectory for trajectory, _ in found if trajectory is not None]
    assert len(kept) == 2
    assert all(trajectory["rewards"].shape == (4,) for trajectory in kept)
    for before, after in zip(kept, advantages_of(areal, kept, 4), strict=True):
        gains = before["rewards"] - before["rewards"].mean()
        assert gains.abs().max() > 0.01
        for place in range(4):
            sampled = before["loss_mask"][place].roll(-1).bool()
            got = after["advantages"][place][: len(sampled)][sampled]
            torch.testing.assert_close(got, torch.full_like(got, gains[place].item()))
    # Why the whole group: were one row alone left out, AReaL would compare the rows behind it across tasks.
    short = {name: value[1:] for name, value in kept[0].items()}
    behind = advantages_of(areal, [short, kept[1]], 4)[1]
    assert not torch.allclose(behind["advantages"], advantages_of(areal, kept, 4)[1]["advantages"], atol=0.01)
    norm = areal.args.NormConfig(mean_level="group", std_level="group", group_size=4)
    assert areal.data.Normalization(norm)(torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]))[-1] > 90_000


@foreign
def test_a_failure_that_passes_is_played_again(areal, policy, fails_on_nothing):
    said = iter(["nothing"])
    model = kit.RecordingEngine(*policy, script=lambda text: next(said, None) or kit.obey(text), wrong_every=10**6)
    engine = FakeEngine(areal, model)
    ((trajectory, _),) = play_groups(areal, engine, kit.say_specs(1, 2))
    assert trajectory["rewards"].tolist() == pytest.approx([1.0, 1.0])
    assert len(engine.asked) == 7


@foreign
def test_an_evaluation_leaves_out_the_fault_alone_and_counts_no_zero(areal, policy, fails_on_nothing):
    areal.stats.get("eval-rollout").export(reset=True)
    engine = FakeEngine(areal, kit.RecordingEngine(*policy, script=some_wrong(2), wrong_every=10**6))
    workflow = workflow_of(areal, policy[1], attempts=1)
    ((trajectory, _),) = play_groups(areal, engine, kit.say_specs(1, 4), workflow, is_eval=True)
    assert trajectory["rewards"].shape == (3,)
    found = areal.stats.get("eval-rollout").export(reset=True)
    assert found["eval-rollout/reward"] == pytest.approx(trajectory["rewards"].mean().item())
    assert found["eval-rollout/valid"] == 0.75
    assert workflow._groups == {}


@foreign
@pytest.mark.parametrize("fault", kit.FAULTS)
def test_instead_of_a_row_that_fails_areal_plays_the_next(areal, policy, fault):
    from torchdata.stateful_dataloader import StatefulDataLoader

    bad, good = kit.say_specs(1, fault=fault), kit.say_specs(3)[1:]
    engine = FakeEngine(areal, kit.RecordingEngine(*policy, wrong_every=10**6))
    table = [row_of(spec) for spec in [*bad, *good]]
    loader = StatefulDataLoader(table, batch_size=2, collate_fn=list)
    with executing(areal, engine) as executor:
        batch = executor.prepare_batch(loader, workflow_of(areal, policy[1]))
    assert [trajectory["rewards"].item() for trajectory in batch] == pytest.approx([1.0, 1.0])


@foreign
def test_what_the_engine_raises_ends_the_group_and_is_in_areals_log(areal, policy):
    engine = FakeEngine(areal, kit.RecordingEngine(*policy, fails=True))
    workflow, (spec,) = workflow_of(areal, policy[1]), kit.say_specs(1)
    with pytest.raises(kit.EngineFault):
        asyncio.run(workflow.arun_episode(engine, row_of(spec)))
    assert play_groups(areal, engine, [spec] * 3, workflow) == [(None, 3)]
    assert workflow._groups == {}


@foreign
def test_its_loss_moves_sampled_tokens_alone(areal, policy):
    import torch

    engine = FakeEngine(areal, kit.RecordingEngine(*policy))
    found = [trajectory for trajectory, _ in play_groups(areal, engine, kit.say_specs(2, 4))]
    data = areal.data.concat_padded_tensors(advantages_of(areal, found, 4))
    new = (data["logprobs"] + 0.1 * data["loss_mask"]).requires_grad_()
    loss = areal.actor.grpo_loss_fn(
        new, torch.zeros_like(new), data, eps_clip=0.2, eps_clip_higher=None, c_clip=None, current_version=1
    )
    loss.backward()
    moved = data["loss_mask"].bool() & (data["advantages"] != 0)
    assert moved.any()
    assert torch.equal(new.grad != 0, moved)


@foreign
def test_areal_makes_the_workflow_from_its_path(areal, policy, tmp_path):
    policy[1].save_pretrained(tmp_path)
    engine = object.__new__(areal.remote.RemoteInfEngine)
    engine.logger = logging.getLogger(__name__)
    given = {"gconfig": settings(areal), "tokenizer": str(tmp_path), "use_system": False}
    grouped = engine._resolve_workflow("rlvr.adapters.trainers.areal.EpisodeWorkflow", given, 4)
    assert isinstance(grouped.workflow, areal.adapter.EpisodeWorkflow)
    assert (grouped.group_size, grouped.workflow.use_system) == (4, False)


CONFIG = """
experiment_name: guess
trial_name: first
total_train_epochs: 1
tokenizer_path: ${actor.path}
cluster: {n_nodes: 1, n_gpus_per_node: 8, fileroot: FOLDER, name_resolve: {type: nfs, nfs_record_root: FOLDER/names}}
rollout: {experiment_name: guess, trial_name: first, backend: "sglang:d4", consumer_batch_size: 64}
gconfig: {n_samples: 8, max_new_tokens: 256, max_tokens: 4096}
actor:
  experiment_name: guess
  trial_name: first
  backend: "fsdp:d4"
  path: FOLDER/model
  reward_norm: {mean_level: group, std_level: group, group_size: "${gconfig.n_samples}"}
train_dataset: {path: rlvr/GuessNumber-v0, type: rl, batch_size: 64}
valid_dataset: {path: rlvr/GuessNumber-v0, type: rl, batch_size: 64}
saver: {experiment_name: guess, trial_name: first, fileroot: FOLDER}
recover: {experiment_name: guess, trial_name: first, fileroot: FOLDER}
evaluator: {experiment_name: guess, trial_name: first, fileroot: FOLDER}
stats_logger: {experiment_name: guess, trial_name: first, fileroot: FOLDER}
"""


@foreign
def test_the_example_gives_areals_trainer_what_it_takes(areal, policy, tmp_path, monkeypatch):
    """Its trainer alone, which wants GPUs, is stood in for."""
    import areal as package

    policy[1].save_pretrained(tmp_path / "model")
    (tmp_path / "areal.yaml").write_text(CONFIG.replace("FOLDER", str(tmp_path)))
    theirs, made = package.PPOTrainer, []

    class Trainer:
        def __init__(self, *given, **named):
            bound = inspect.signature(theirs.__init__).bind(self, *given, **named)
            self.data = bound.arguments["train_dataset"], bound.arguments["valid_dataset"]
            made.append(self)

        def train(self, **named):
            inspect.signature(theirs.train).bind(self, **named)
            self.asked = named

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(package, "PPOTrainer", Trainer)
    example = runpy.run_path(str(EXAMPLE))
    example["main"](["--config", str(tmp_path / "areal.yaml"), "gconfig.n_samples=2"])
    (trainer,) = made
    assert [len(table) for table in trainer.data] == [example["ROWS"], example["TEST_ROWS"]]
    engine = object.__new__(areal.remote.RemoteInfEngine)
    engine.logger = logging.getLogger(__name__)
    grouped = engine._resolve_workflow(trainer.asked["workflow"], trainer.asked["workflow_kwargs"], 2)
    fake = FakeEngine(areal, kit.RecordingEngine(*policy))
    with executing(areal, fake) as executor:
        trajectory = executor.wait_for_task(executor.submit(trainer.data[0][7], grouped))
    assert trajectory["rewards"].shape == (2,)
    seen = grouped.workflow.renderer.decode(fake.asked[0].input_ids)
    assert all(message["content"] in seen for message in rows("rlvr/GuessNumber-v0", 8)[7]["prompt"])


@foreign
def test_bad_input_has_a_sentence(areal, policy, monkeypatch):
    from rlvr.adapters import versions

    workflow, (spec,) = workflow_of(areal, policy[1]), kit.say_specs(1)
    for row, sentence in (
        ({"messages": []}, r"the row names no task: it has messages; make it with rlvr\.adapters\.rows"),
        (row_of(TaskSpec(kit.SAY, 0, kit.MODULE, {"has_tool": True})), r"look_around.*tools_in='system'"),
        (row_of(TaskSpec("rlvr/VisualClocks-v0", 0)), "reads text alone, and this environment shows images"),
    ):
        with pytest.raises(ValueError, match=sentence):
            workflow.check(row)
        with pytest.raises(ValueError, match=sentence):
            asyncio.run(workflow.arun_episode(None, row))
    assert workflow._groups == {}
    with pytest.raises(ValueError, match="attempts must be at least 1, got 0"):
        workflow_of(areal, policy[1], attempts=0)
    mute = deepcopy(policy[1])
    mute.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        workflow_of(areal, mute)

    class Countless(FakeEngine):
        async def agenerate(self, request):
            answer = await super().agenerate(request)
            answer.output_versions = []
            return answer

    with pytest.raises(ValueError, match=r"tokens were sampled, but 0 versions of the weights given"):
        asyncio.run(workflow.arun_episode(Countless(areal, kit.RecordingEngine(*policy)), row_of(spec)))
    monkeypatch.setattr(versions.metadata, "version", lambda package: "1.0.3")
    with pytest.raises(ImportError, match=r"areal 1\.0\.3 is too old"):
        importlib.reload(areal.adapter)
    monkeypatch.setattr(versions.metadata, "version", lambda package: "1.1.0")
    with pytest.warns(RuntimeWarning, match="newer"):
        importlib.reload(areal.adapter)
