"""TRL's own trainer over our adapter: conformance, a real step, tools; rewards and tools without TRL."""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import pickle
import queue
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlvr.adapters import read_spec, rows
from rlvr.adapters import testing as kit
from rlvr.adapters.trainers import trl as trl_adapter
from rlvr.adapters.trainers.trl import ToolEnvironment, rollout_function, verified_reward
from rlvr.agents import TokenSequence
from rlvr.envs.tools.calls import Call, write_call

SINGLE, MULTI = "rlvr/WordProblems-v0", "rlvr/GuessNumber-v0"


# without TRL


def test_a_single_reply_is_graded_and_several_turns_are_refused():
    table = rows(SINGLE, 2, "trl")
    specs = [row["spec"] for row in table]
    solved = [[{"role": "assistant", "content": read_spec(row).start()[0].solve()}] for row in table]
    assert verified_reward(solved, spec=specs) == [1.0, 1.0]
    assert verified_reward(["", "nonsense"], spec=specs) == [0.0, 0.0]
    with pytest.raises(ValueError, match="turns"):
        verified_reward(["7"], spec=[rows(MULTI, 1)[0]["spec"]])
    with pytest.raises(ValueError, match="name no task"):
        verified_reward(["7"])
    assert verified_reward([""] * 2, env_reward=[0.5, None]) == [0.5, None]


def test_the_tool_plays_an_episode(monkeypatch):
    tool = ToolEnvironment()
    with pytest.raises(ValueError, match="names no task"):
        tool.reset(prompt=[])
    spec = kit.say_specs(1)[0]
    tool.reset(spec=spec.to_json(), prompt=[])
    env, _, _ = spec.start()
    for _ in range(3):
        word = env.solve()
        env.step(word)
        last = tool.act(word)
    assert "over" in last
    assert tool.get_reward() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="over"):
        tool.act("more")
    monkeypatch.setenv("RLVR_ALLOW_CODE", "1")  # a row's text for an environment that is none of ours
    tool.reset(spec=kit.say_specs(1, fault="verdict")[0].to_json())
    for _ in range(3):
        tool.act("x")
    assert tool.get_reward() is None


def test_processes_that_generate_together_ask_equally_often(monkeypatch):
    """Another process has episodes for five rounds; ours are over after three, and go on asking."""
    torch = pytest.importorskip("torch")
    from rlvr.agents.models.tiny import tiny_tokenizer

    monkeypatch.setattr(trl_adapter, "require", lambda *_: "")
    tokenizer, rounds = tiny_tokenizer(), []

    class Accelerator:
        num_processes, device = 2, "cpu"

        def gather(self, live):
            return torch.cat([live, torch.tensor([int(len(rounds) < 5)])])

    def generate(prompts, *_):
        rounds.append(len(prompts))
        said = [kit.obey(tokenizer.decode(prompt)) for prompt in prompts]
        return [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in said], None

    trainer = SimpleNamespace(
        processing_class=tokenizer,
        max_completion_length=500,
        use_vllm=True,
        accelerator=Accelerator(),
        _generate_single_turn=generate,
    )
    prompts = [row["prompt"] for row in table_of(kit.say_specs(2))]
    out = rollout_function()(prompts, trainer)
    assert rounds == [2] * 5
    assert out["env_reward"] == pytest.approx([1.0, 1.0])
    trainer.use_vllm = False
    rounds.clear()
    assert rollout_function()(prompts, trainer) == out
    assert rounds == [2] * 3


# with it

foreign = pytest.mark.foreign


@pytest.fixture(scope="module")
def policy():
    pytest.importorskip("trl")
    from rlvr.agents.models.tiny import tiny_policy

    return tiny_policy(hidden=32, layers=1)


def make_trainer(folder, policy, table, **options):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model, tokenizer = policy
    settings = {"max_completion_length": 160, "num_generations": 2, "per_device_train_batch_size": 4, "max_steps": 1}
    settings |= {"use_cpu": True, "bf16": False, "report_to": "none", "gradient_checkpointing": False, "beta": 0.0}
    settings |= {"save_strategy": "no", "logging_steps": 1, **options.pop("settings", {})}
    options.setdefault("reward_funcs", verified_reward)
    return GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=GRPOConfig(output_dir=str(folder), **settings),
        train_dataset=Dataset.from_list(table),
        **options,
    )


def table_of(specs):
    return [
        {"prompt": [{"role": "user", "content": "?", "spec": spec.to_json()}], "spec": spec.to_json()} for spec in specs
    ]


@foreign
def test_the_adapter_conforms_under_the_real_trainer(tmp_path, policy):
    said = {}

    def play(specs, engine):
        def recorded(prompts, trainer):
            said.clear()
            said.update(rollout_function(max_turn_tokens=12)(prompts, trainer))
            return dict(said)

        def generate(prompts, images, fields, count):
            calls = [engine.generate(prompt, trainer.generation_config.max_new_tokens) for prompt in prompts]
            return [call.sampled for call in calls], [call.logprobs for call in calls]

        table = table_of(specs if len(specs) % 2 == 0 else [*specs, specs[-1]])  # whole groups of two
        trainer = make_trainer(tmp_path, policy, table, rollout_func=recorded)
        trainer._generate_single_turn = generate
        batch = trainer._generate_and_score_completions(table)
        return [episode_of(batch, said, place, spec) for place, spec in enumerate(specs)]

    report = kit.conform(play, kit.RecordingEngine(*policy), tokens=True)
    print("\n".join(report))


def episode_of(batch, said, place, spec) -> kit.PlayedEpisode:
    """One row of the tensors that TRL's loss is computed from."""
    prompt = batch["prompt_ids"][place][batch["prompt_mask"][place].bool()].tolist()
    there = batch["completion_mask"][place].bool()
    completion = batch["completion_ids"][place][there].tolist()
    mask = batch["tool_mask"][place][there].int().tolist()
    logprobs = [0.0] * len(prompt) + list(said["logprobs"][place])
    tokens = TokenSequence(prompt + completion, [0] * len(prompt) + mask, logprobs)
    reward = said["env_reward"][place]
    if reward is None:
        assert batch["advantages"][place].item() == 0.0
    return kit.PlayedEpisode(spec, reward, tokens)


@foreign
def test_a_real_step_with_trls_own_generation(tmp_path, policy):
    trainer = make_trainer(
        tmp_path,
        policy,
        rows(MULTI, 4, "trl"),
        rollout_func=rollout_function(max_turn_tokens=6),
        settings={"max_steps": 2},
    )
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert len(log) == 2
    assert trainer.generation_config.max_new_tokens == trainer.max_completion_length
    assert 1 <= log[0]["completions/mean_length"] <= 160


@foreign
def test_the_example_trains(tmp_path, policy):
    from rlvr.agents.models.tiny import build_tiny

    path = Path(__file__).parents[2] / "examples" / "trl_grpo.py"
    found = importlib.util.spec_from_file_location("trl_grpo", path)
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    build_tiny(tmp_path / "policy", hidden=32, layers=1)
    record = example.train(tmp_path / "policy", tmp_path / "out", steps=2, prompts=2, group_size=2, seed=0)
    assert len(record["reward"]) == len(record["tokens"]) == 2
    assert all(2 <= tokens <= 48 for tokens in record["tokens"])


@foreign
def test_a_budget_that_runs_out_ends_the_episode(tmp_path, policy):
    engine = kit.RecordingEngine(*policy, wrong_every=1000)
    specs = kit.say_specs(2, 2)
    trainer = make_trainer(tmp_path, policy, table_of(specs), settings={"max_completion_length": 40})
    trainer._generate_single_turn = lambda prompts, *_: ([engine.generate(p).sampled for p in prompts], None)
    out = rollout_function()([row["prompt"] for row in table_of(specs)], trainer)
    assert out["logprobs"] is None
    for ids, mask, reward in zip(out["completion_ids"], out["env_mask"], out["env_reward"], strict=True):
        assert len(ids) == len(mask) <= 40
        assert reward == pytest.approx(1 / 7)


@foreign
def test_one_turn_with_the_reward_function_alone(tmp_path, policy):
    trainer = make_trainer(tmp_path, policy, rows(SINGLE, 2, "trl"), settings={"max_completion_length": 8})
    trainer.train()
    assert trainer.state.log_history[0]["reward"] == 0.0


def tool_script(text: str) -> str:
    """Three calls of ``act``, then the end."""
    calls = text.rpartition("<|im_start|>")[0].count("<tool_response>")
    return "Done." if calls == 3 else write_call(Call("act", {"action": kit.obey(text)}), "hermes")


def tool_policy():
    """A tiny policy under a chat template with tools that TRL knows."""
    trl = pytest.importorskip("trl")
    from rlvr.agents.models.tiny import tiny_policy

    model, tokenizer = tiny_policy(hidden=32, layers=1)
    tokenizer.add_special_tokens(
        {"additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "eos_token": "<|im_end|>"}
    )
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    model.resize_token_embeddings(len(tokenizer))
    return model, tokenizer


@foreign
def test_the_rollout_loop_of_the_asynchronous_trainer():
    """Its own loop plays, scores and queues; only the request to vLLM, which it needs, is ours."""
    accelerate, datasets = pytest.importorskip("accelerate"), pytest.importorskip("datasets")
    worker = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
    accelerate.PartialState(cpu=True)
    assert pickle.loads(pickle.dumps(ToolEnvironment)) is ToolEnvironment  # it is sent to a spawned process
    model, tokenizer = tool_policy()
    engine = kit.RecordingEngine(model, tokenizer, script=tool_script, max_new_tokens=120, wrong_every=4)
    context, samples = multiprocessing.get_context("spawn"), queue.Queue()
    loop = worker._AsyncRolloutLoop(
        model_name="tiny",
        dataset=datasets.Dataset.from_list(rows(kit.MODULE + ":" + kit.SAY, 2, "trl")),
        reward_funcs=[],
        processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id],
        rollout_buffer=samples,
        model_version_value=context.Value("i", 0),
        heartbeat_value=context.Value("d", 0.0),
        failed_event=context.Event(),
        exception_info_queue=queue.Queue(),
        metrics_queue=queue.Queue(),
        environment_factory=ToolEnvironment,
        num_generations=4,
        max_inflight_tasks=4,
        max_tokens=120,
    )

    async def turn(prompt: list[int]) -> tuple[list[int], list[float]]:
        call = engine.generate(prompt)
        return list(call.sampled), [float(each) for each in call.logprobs]

    async def played() -> list:
        loop._generate_one_turn, stop = turn, asyncio.Event()
        both = asyncio.gather(loop._generate_loop(stop), loop._score_loop(stop))
        while samples.qsize() < 4:
            await asyncio.wait([both], timeout=0.05)
            assert not both.done(), both.exception()
        stop.set()
        await both
        return [samples.get_nowait() for _ in range(4)]

    found = asyncio.run(played())
    rewards = [sample.metrics["rewards/ToolEnvironment"] for sample in found]
    assert max(rewards) == pytest.approx(1.0)
    assert min(rewards) < 1.0
    for sample, reward in zip(found, rewards, strict=True):
        roles = [message["role"] for message in sample.completion]
        assert roles == (["assistant", "tool"] * (len(roles) // 2)) + ["assistant"]
        assert (sample.advantage > 0) == (reward > sum(rewards) / 4)
        assert 0 < sample.completion_mask.sum() < len(sample.input_ids)


@foreign
def test_tools_under_the_real_trainer(tmp_path):
    model, tokenizer = tool_policy()
    specs = kit.say_specs(2, 2)
    engine = kit.RecordingEngine(model, tokenizer, script=tool_script, max_new_tokens=120, wrong_every=1000)
    table = rows(kit.MODULE + ":" + kit.SAY, 2, "trl", group_size=2)
    trainer = make_trainer(
        tmp_path,
        (model, tokenizer),
        table,
        environment_factory=ToolEnvironment,
        reward_funcs=None,
        settings={"max_completion_length": 600},
    )
    trainer._generate_single_turn = lambda prompts, *_, **__: ([engine.generate(p).sampled for p in prompts], None)
    batch = trainer._generate_and_score_completions(table)
    assert [environment.get_reward() for environment in trainer.environments] == pytest.approx([1.0] * len(specs))
    mask = batch["tool_mask"]
    assert 0 < mask.sum() < batch["completion_mask"].sum()


@foreign
def test_another_version_is_named(monkeypatch):
    from rlvr.adapters import versions

    monkeypatch.setattr(versions.metadata, "version", lambda package: "1.15.2")
    with pytest.raises(ImportError, match=r"trl 1\.15\.2 is too old"):
        rollout_function()
    monkeypatch.setattr(versions.metadata, "version", lambda package: "1.17.0")
    with pytest.warns(RuntimeWarning, match="newer"):
        rollout_function()
