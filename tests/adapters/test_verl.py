"""verl's own agent loop workers, TransferQueue, replay buffer, advantages and data set over our agent loop.

The engine is fake; all else of verl that runs without a GPU is real, for its newer trainer and its older one.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import shlex
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlvr.adapters import read_spec, rows, write_rows
from rlvr.adapters import testing as kit
from rlvr.adapters.spec import EpisodeSession
from rlvr.agents import TokenSequence
from rlvr.envs import Verdict
from rlvr.envs.core.task import Transition

MISSING = importlib.util.find_spec("verl") is None
EXAMPLES = Path(__file__).parents[2] / "examples"
PROMPT, RESPONSE = 400, 240
foreign = pytest.mark.foreign
CHATML = """\
{%- if tools -%}{{- '<|im_start|>system\nTools: ' + (tools | tojson) + '<|im_end|>\n' -}}{%- endif -%}
{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"""


@pytest.mark.skipif(not MISSING, reason="verl is here")
def test_without_verl_the_error_says_what_to_install():
    with pytest.raises(ImportError, match=r"verl is not installed.*verl>=0\.9\.1,<0\.10"):
        importlib.import_module("rlvr.adapters.trainers.verl")


# with it


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def policy(request, tmp_path_factory):
    """A model, its tokenizer and its folder; verl knows how to join the turns of the first family alone."""
    pytest.importorskip("verl")
    return make_policy(tmp_path_factory.mktemp("model"), request.param)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    pytest.importorskip("verl")
    return make_policy(tmp_path_factory.mktemp("model"), "qwen3")


def make_policy(folder, family):
    from transformers import AutoConfig

    from rlvr.agents.models.tiny import tiny_policy

    model, tokenizer = tiny_policy(hidden=32, layers=1)
    if family == "qwen3":
        marks = ["<|im_start|>", "<|im_end|>"]
        tokenizer.add_special_tokens({"additional_special_tokens": marks, "eos_token": "<|im_end|>"})
        tokenizer.chat_template = CHATML
        model.resize_token_embeddings(len(tokenizer))
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "architectures": ["AnyForCausalLM"],
    }
    AutoConfig.for_model(family, **sizes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return SimpleNamespace(model=model, tokenizer=tokenizer, folder=folder)


def compose(folder, *changes, name="rlvr", **options):
    """verl's configuration, with our agent loop by its file."""
    import verl
    from hydra import compose, initialize_config_dir

    loops = folder / f"{name}.yaml"
    loops.write_text(
        "- name: rlvr\n  _target_: rlvr.adapters.trainers.verl.AgentLoop\n"
        + "".join(f"  {key}: {value}\n" for key, value in options.items())
    )
    overrides = {
        "actor_rollout_ref.model.path": folder,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.calculate_log_probs": "true",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path": loops,
        "data.max_prompt_length": PROMPT,
        "data.max_response_length": RESPONSE,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    }
    config = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(config), version_base=None):
        return compose("ppo_trainer", overrides=[*(f"{key}={value}" for key, value in overrides.items()), *changes])


class FakeClient:
    """verl's client of inference servers, over the kit's engine; it writes down what was asked."""

    def __init__(self, engine, **said):
        self.engine, self.asked, self.said = engine, [], said

    async def generate(self, request_id, *, prompt_ids, sampling_params, priority=0):
        from verl.workers.rollout.replica import TokenOutput

        self.asked.append((request_id, dict(sampling_params), priority))
        call = self.engine.generate(prompt_ids, sampling_params["max_tokens"])
        step = len(self.asked)
        fields = {"global_steps": step, "min_global_steps": step, "max_global_steps": step, "spec_num_draft_tokens": 2}
        logprobs = call.logprobs if sampling_params["logprobs"] else None
        return TokenOutput(token_ids=call.sampled, log_probs=logprobs, extra_fields=fields, **self.said)


def table_of(specs):
    return [
        {"raw_prompt": [{"role": "user", "content": "?"}], "extra_info": {"spec": spec.to_json()}, "index": place}
        for place, spec in enumerate(specs)
    ]


def columns(table):
    """Rows as verl's data loader makes them: an array of objects for each column."""
    from verl.utils.dataset.rl_dataset import collate_fn

    return collate_fn([{"agent_name": "rlvr", "data_source": "?", **row} for row in table])


def play_old(config, client, table):
    """Through the worker of the older trainer: one batch of padded tensors."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
    from verl.protocol import DataProto

    worker = AgentLoopWorker(config, client)
    return asyncio.run(worker.generate_sequences(DataProto.from_single_dict(columns(table))))


@foreign
def test_the_adapter_conforms_in_the_older_worker(policy):
    config = compose(policy.folder, max_turn_tokens=12)

    def play(specs, engine):
        batch = play_old(config, FakeClient(engine), table_of(specs)).batch
        assert batch["rm_scores"].count_nonzero(dim=1).max() <= 1
        return [episode_of(batch[place], spec) for place, spec in enumerate(specs)]

    report = kit.conform(play, kit.RecordingEngine(policy.model, policy.tokenizer), tokens=True)
    print("\n".join(report))


def episode_of(row, spec) -> kit.PlayedEpisode:
    """One row of the tensors that verl's loss is computed from, padding aside."""
    there = row["attention_mask"].bool()
    start = int(there[:PROMPT].sum())
    mask = [0] * start + row["response_mask"][there[PROMPT:]].tolist()
    logprobs = [0.0] * start + row["rollout_log_probs"][there[PROMPT:]].tolist()
    return kit.PlayedEpisode(
        spec, row["rm_scores"].sum().item(), TokenSequence(row["input_ids"][there].tolist(), mask, logprobs)
    )


# the newer trainer, which moves episodes through TransferQueue


@pytest.fixture(scope="module")
def queue(qwen):
    import ray
    import transfer_queue

    for attempt in range(4):
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)
            break
        except Exception as error:  # Ray gives itself 30 seconds, which a busy machine may not have
            ray.shutdown()
            if "timed out during startup" not in str(error) or attempt == 3:
                raise
    transfer_queue.init(compose(qwen.folder).transfer_queue)
    yield transfer_queue
    transfer_queue.close()
    ray.shutdown()


def submit(queue, table):
    """Tell the queue of prompts as the trainer does: the batch for the workers, and its ids."""
    from verl.utils import tensordict_utils

    uids = [uuid.uuid4().hex for _ in table]
    batch = tensordict_utils.get_tensordict(
        columns([{**row, "uid": uid} for row, uid in zip(table, uids, strict=True)])
    )
    tensordict_utils.assign_non_tensor_data(batch, "global_steps", 1)
    tags = [{"is_prompt": True, "status": "pending", "global_steps": 1} for _ in uids]
    queue.kv_batch_put(keys=uids, partition_id="train", tags=tags)
    return batch, uids


def take(queue, config, uids):
    """What the trainer samples once all have ended: names, and data."""
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    sampled, _ = ReplayBuffer("sync", config, None, "drop", None, 0.01).sample(1, "train", len(uids))
    data = queue.kv_batch_get(keys=sampled.keys, partition_id="train")
    queue.kv_clear(keys=sampled.keys, partition_id="train")
    return sampled, data


def play_new(queue, config, client, table, repeats):
    """Through the worker, TransferQueue and replay buffer; an episode that was left out is None."""
    from verl.trainer.ppo.v1 import AgentLoopWorkerTQ

    batch, uids = submit(queue, table)
    config.actor_rollout_ref.rollout.n = repeats

    async def play():
        worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class(config, client)
        await worker.generate_sequences(batch)
        await asyncio.gather(*worker.background_tasks)

    asyncio.run(play())
    sampled, data = take(queue, config, uids)
    found = dict(zip(sampled.keys, data, strict=True))
    order = [f"{uid}_{session}_0" for uid in uids for session in range(repeats)]
    return [key for key in order if key in found], [found.get(key) for key in order], data, sampled


def nested_episode(row, spec) -> kit.PlayedEpisode:
    start = len(row["prompts"])
    mask = [0] * start + row["response_mask"].tolist()
    logprobs = [0.0] * start + row["rollout_log_probs"].tolist()
    return kit.PlayedEpisode(
        spec, row["rm_scores"].sum().item(), TokenSequence(row["input_ids"].tolist(), mask, logprobs)
    )


@foreign
def test_the_adapter_conforms_in_the_newer_worker(qwen, queue):
    config = compose(qwen.folder, max_turn_tokens=12)

    def play(specs, engine):
        repeats = 1 + (specs[:1] == specs[1:2])
        _, played, _, _ = play_new(queue, config, FakeClient(engine), table_of(specs[::repeats]), repeats)
        return [nested_episode(row, spec) for row, spec in zip(played, specs, strict=True) if row is not None]

    engine = kit.RecordingEngine(qwen.model, qwen.tokenizer)
    # This trainer writes an engine's error down, and goes on without the session.
    report = kit.conform(play, engine, tokens=True, engine_errors=False)
    print("\n".join(report))


@foreign
def test_an_invalid_episode_is_in_no_baseline(qwen, queue, monkeypatch, caplog):
    import numpy as np
    import torch
    from verl.protocol import DataProto
    from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

    apply = kit.SayTask.apply

    def broken(task, state, action):
        after = apply(task, state, action)
        return Transition(after.state, Verdict(0.0, "verifier_error"), True) if action == "nothing" else after

    monkeypatch.setattr(kit.SayTask, "apply", broken)
    engine = kit.RecordingEngine(qwen.model, qwen.tokenizer, script=obey_or_not(), wrong_every=10**6)
    with caplog.at_level(logging.ERROR):
        keys, played, data, sampled = play_new(
            queue, compose(qwen.folder), FakeClient(engine), table_of(kit.say_specs(2)), 5
        )
    kept = [row for row in played if row is not None]
    assert 4 <= len(kept) < 10
    assert "is not trained on: Verdict(reward=0.0, status='verifier_error'" in caplog.text
    assert all(isinstance(tag["max_global_steps"], int) for tag in sampled.tags)  # the trainer's figures need it
    padded = data.to_padded_tensor()
    batch = DataProto.from_dict({"token_level_rewards": padded["rm_scores"], "response_mask": padded["response_mask"]})
    batch.non_tensor_batch["uid"] = np.array([key.split("_")[0] for key in sampled.keys], dtype=object)
    compute_advantage_for_multi_trajectories(batch, sampled.keys, "grpo", norm_adv_by_std_in_grpo=False)
    advantage = dict(zip(sampled.keys, batch.batch["advantages"], strict=True))
    score = {key: row["rm_scores"].sum() for key, row in zip(keys, kept, strict=True)}
    for key in keys:
        group = [score[other] for other in keys if other.split("_")[0] == key.split("_")[0]]
        expected = score[key] - torch.stack(group).mean()
        torch.testing.assert_close(advantage[key].max() + advantage[key].min(), expected, atol=1e-6, rtol=1e-5)


class ScriptedClient:
    """As above, without a model: it travels into another process."""

    def __init__(self, folder):
        self.folder, self.tokenizer = str(folder), None

    async def generate(self, request_id, *, prompt_ids, sampling_params, priority=0):
        from transformers import AutoTokenizer
        from verl.workers.rollout.replica import TokenOutput

        from rlvr.adapters import testing

        self.tokenizer = self.tokenizer or AutoTokenizer.from_pretrained(self.folder)
        ids = self.tokenizer.encode(testing.obey(self.tokenizer.decode(prompt_ids)))
        ids.append(self.tokenizer.eos_token_id)
        fields = {"min_global_steps": 1, "max_global_steps": 1}
        return TokenOutput(token_ids=ids, log_probs=[0.0] * len(ids), extra_fields=fields)


@foreign
def test_verls_manager_finds_the_loop_in_a_process_of_its_own(qwen, queue):
    """Nothing but the file that the configuration names tells the worker of us."""
    import ray
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ

    changes = ["actor_rollout_ref.rollout.agent.num_workers=1", "actor_rollout_ref.rollout.n=2"]
    config = compose(qwen.folder, *changes)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    manager = AgentLoopManagerTQ.create(
        config, ScriptedClient(qwen.folder), teacher_client=None, reward_loop_worker_handles=None
    )
    specs = [*kit.say_specs(2), *kit.say_specs(1, fault="step")]
    batch, uids = submit(queue, table_of(specs))
    manager.generate_sequences(batch)
    sampled, data = take(queue, config, uids)
    assert sorted(key[:-4] for key in sampled.keys) == sorted([uid for uid in uids[:2] for _ in range(2)])
    assert [round(row["rm_scores"].sum().item(), 5) for row in data] == [1.0] * 4
    for worker in manager.agent_loop_workers:
        ray.kill(worker)


def obey_or_not():
    """Every seventh word is "nothing", and half of the others are wrong."""
    turns = iter(range(10**6))

    def script(text):
        turn = next(turns)
        return "nothing" if turn % 7 == 6 else kit.obey(text) if turn % 2 else "maybe"

    return script


# what its pages do not say


def play_one(config, engine, spec=None, **row):
    client = FakeClient(engine)
    table = [{**table_of([spec or kit.say_specs(1)[0]])[0], **row}]
    return play_old(config, client, table), client


@foreign
def test_a_reply_that_was_cut_off_is_closed(policy):
    engine = kit.RecordingEngine(
        policy.model, policy.tokenizer, script=lambda _: "a very long answer", wrong_every=10**6
    )
    batch, client = play_one(compose(policy.folder, max_turn_tokens=7), engine, priority=5)
    assert [asked["max_tokens"] for _, asked, _ in client.asked] == [7, 7, 7]
    assert {priority for _, _, priority in client.asked} == {5}
    assert len({request for request, _, _ in client.asked}) == 1
    played = episode_of(batch.batch[0], kit.say_specs(1)[0])
    kit.check_masks(played, engine.calls)
    kit.check_logprobs(played, policy.model)
    ends = [stop for _, stop in kit.segments(played.tokens.mask)][:-1]
    assert len(ends) == 2
    assert all(played.tokens.ids[stop] == policy.tokenizer.eos_token_id for stop in ends)
    extra = batch.non_tensor_batch
    assert extra["__num_turns__"].tolist() == [6]
    assert (extra["min_global_steps"][0], extra["max_global_steps"][0]) == (1, 3)
    assert extra["spec_num_draft_tokens"][0] == 6
    assert extra["turn_scores"][0] == [0.0, 0.0, 0.0]


@foreign
@pytest.mark.parametrize("room", [20, 60])
def test_a_conversation_without_room_keeps_what_it_earned(policy, room):
    engine = kit.RecordingEngine(policy.model, policy.tokenizer, wrong_every=10**6)
    batch, _ = play_one(compose(policy.folder, f"data.max_response_length={room}"), engine)
    played = episode_of(batch.batch[0], kit.say_specs(1)[0])
    turns = len(kit.segments(played.tokens.mask))
    assert 1 <= turns < 3
    assert played.tokens.mask[-1] == 1
    kit.check_rewards(played, policy.tokenizer)
    assert played.reward > 0


@foreign
def test_a_special_token_that_the_environment_spells_is_text(policy):
    engine = kit.RecordingEngine(policy.model, policy.tokenizer, wrong_every=10**6)
    batch, _ = play_one(compose(policy.folder), engine)
    ids = episode_of(batch.batch[0], kit.say_specs(1)[0]).tokens.ids
    end = policy.tokenizer.convert_tokens_to_ids("<|end|>")
    assert ids.count(policy.tokenizer.eos_token_id) == 2 + 3 + 2  # system and user, three replies, two answers
    assert end == policy.tokenizer.eos_token_id or end not in ids


@foreign
def test_without_log_probabilities(qwen):
    engine = kit.RecordingEngine(qwen.model, qwen.tokenizer, wrong_every=10**6)
    config = compose(qwen.folder, "actor_rollout_ref.rollout.calculate_log_probs=false")
    batch, _ = play_one(config, engine)
    assert "rollout_log_probs" not in batch.batch
    assert batch.batch["rm_scores"].sum().item() == pytest.approx(1.0)


@foreign
def test_tools_are_told_and_their_answers_heard(qwen, monkeypatch):
    schema = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {}}}
    apply = kit.SayTask.apply
    monkeypatch.setattr(kit.SayTask, "tools", [schema])
    monkeypatch.setattr(kit.SayTask, "apply", lambda *given: apply(*given)._replace(role="tool"))
    engine = kit.RecordingEngine(qwen.model, qwen.tokenizer, wrong_every=10**6)
    config = compose(qwen.folder, "data.max_prompt_length=400")
    batch, _ = play_one(config, engine)
    said = qwen.tokenizer.decode(batch.batch["input_ids"][0])
    assert said.count('"name": "look"') == 1
    assert said.count("<|im_start|>tool\n") == 2
    assert batch.batch["rm_scores"].sum().item() == pytest.approx(1.0)
    config = compose(qwen.folder, "data.max_prompt_length=400")
    config.actor_rollout_ref.model.custom_chat_template = REFUSES
    batch, _ = play_one(config, engine)
    said = qwen.tokenizer.decode(batch.batch["input_ids"][0])
    assert said.count("<|im_start|>user\n") == 3


REFUSES = "{%- if messages[-1]['role'] == 'tool' -%}{{- raise_exception('no tools') -}}{%- endif -%}" + CHATML


@foreign
@pytest.mark.parametrize("role", ["user", "tool"])
def test_its_tokens_are_those_of_verls_own_builder(qwen, monkeypatch, role):
    """Turn for turn: the first prompt, and what stands between two replies."""
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    apply = kit.SayTask.apply
    monkeypatch.setattr(kit.SayTask, "apply", lambda *given: apply(*given)._replace(role=role))
    monkeypatch.setattr(kit.SayTask, "observe", lambda task, state: f"«{state.number}» Say: {state.words[state.turn]}")
    engine = kit.RecordingEngine(qwen.model, qwen.tokenizer, wrong_every=10**6)
    batch, _ = play_one(compose(qwen.folder), engine)
    tokens = episode_of(batch.batch[0], kit.say_specs(1)[0]).tokens
    builder = create_continuous_token_builder(qwen.tokenizer, hf_model_type="qwen3")
    session, ids = EpisodeSession(kit.say_specs(1)[0]), None
    messages = session.messages
    ids = builder.build_initial_tokens(messages)
    for start, stop in kit.segments(tokens.mask):
        assert tokens.ids[:start] == ids
        action = qwen.tokenizer.decode(tokens.ids[start:stop], skip_special_tokens=True)
        ids = builder.merge_assistant_tokens(ids, tokens.ids[start:stop]).token_ids
        if (message := session.step(action)) is not None:
            messages = [*messages, {"role": "assistant", "content": action}, message]
            ids = builder.merge_context_tokens(messages[:-1], messages, ids).token_ids
    assert session.turns == 3


@foreign
def test_a_first_prompt_that_is_remembered_is_not_shared(qwen):
    config = compose(qwen.folder)
    batches = []
    for _ in range(2):
        engine = kit.RecordingEngine(qwen.model, qwen.tokenizer, wrong_every=10**6)
        batches.append(play_one(config, engine)[0].batch)
    assert batches[0]["input_ids"].tolist() == batches[1]["input_ids"].tolist()


@foreign
def test_bad_input_has_a_sentence(qwen, monkeypatch):
    from rlvr.adapters import versions
    from rlvr.adapters.trainers import verl as adapter

    engine = kit.RecordingEngine(qwen.model, qwen.tokenizer)
    with pytest.raises(ValueError, match="the row names no task"):
        play_one(compose(qwen.folder), engine, extra_info={"index": 0})
    with pytest.raises(ValueError, match=r"more than data\.max_prompt_length=20"):
        play_one(compose(qwen.folder, "data.max_prompt_length=20"), engine)
    for options, complaint in (
        ({"max_turn_token": 5}, "no option 'max_turn_token'"),
        ({"max_turn_tokens": 0}, "at least 1"),
    ):
        with pytest.raises(Exception, match=complaint):
            play_one(compose(qwen.folder, **options), engine)
    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.8.0")
    with pytest.raises(ImportError, match=r"verl 0\.8\.0 is too old"):
        importlib.reload(adapter)
    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.10.0")
    with pytest.warns(RuntimeWarning, match="newer"):
        importlib.reload(adapter)


@foreign
def test_the_rows_are_what_its_data_set_reads_and_its_worker_plays(qwen, tmp_path):
    from verl.utils.dataset.rl_dataset import RLHFDataset

    table = rows("rlvr/WordProblems-v0", 4, "verl")
    path = write_rows(table, tmp_path / "train.parquet")
    config = compose(qwen.folder, "data.filter_overlong_prompts=true", f"+data.cache_dir={tmp_path}")
    data = RLHFDataset(str(path), qwen.tokenizer, config.data)
    assert len(data) == 4
    loaded = [data[place] for place in range(4)]
    assert [row["index"] for row in loaded] == [0, 1, 2, 3]
    answers = {}
    for row in loaded:
        env, observation, _ = read_spec(row).start()
        assert row["raw_prompt"][-1]["content"] == observation
        answers[observation] = env.solve()
    solve = lambda text: next(answer for question, answer in answers.items() if question in text)  # noqa: E731
    engine = kit.RecordingEngine(qwen.model, qwen.tokenizer, script=solve, wrong_every=10**6, max_new_tokens=100)
    for row in loaded:
        assert row["agent_name"] == "rlvr"
    batch = play_old(config, FakeClient(engine), loaded).batch
    assert batch["rm_scores"].sum(dim=1).tolist() == [1.0] * 4


@foreign
def test_the_example_is_a_configuration_of_verls(tmp_path):
    verl = pytest.importorskip("verl")
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    script = EXAMPLES / "verl_grpo.py"
    done = subprocess.run(
        [sys.executable, script, "--rows", "20", "--out", tmp_path], capture_output=True, text=True, check=True
    )
    config = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(str(config), version_base=None):
        composed = compose("ppo_trainer", overrides=shlex.split(done.stdout)[3:])
    assert Path(composed.data.train_files).exists()
    assert Path(composed.data.val_files).exists()
    (loop,) = OmegaConf.load(composed.actor_rollout_ref.rollout.agent.agent_loop_config_path)
    module, _, name = loop._target_.rpartition(".")
    assert hasattr(importlib.import_module(module), name)
    assert loop.name == rows("rlvr/WordProblems-v0", 1, "verl")[0]["agent_name"]
