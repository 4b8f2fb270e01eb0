"""SkyRL's own generator over a stand-in for its engine; its loader of data sets; its advantages."""

from __future__ import annotations

import asyncio
import importlib.machinery
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlvr.adapters import rows, write_rows
from rlvr.adapters import testing as kit
from rlvr.agents import TokenSequence

SINGLE, MULTI = "rlvr/WordProblems-v0", "rlvr/GuessNumber-v0"


@pytest.mark.skipif(importlib.util.find_spec("skyrl_gym") is not None, reason="it is here")
def test_a_missing_framework_is_named_with_the_tested_version():
    with pytest.raises(ImportError, match=r"skyrl-gym is not installed.*skyrl-gym>=0\.4\.0"):
        importlib.import_module("rlvr.adapters.trainers.skyrl")


foreign = pytest.mark.foreign


@pytest.fixture(scope="module")
def ours():
    pytest.importorskip("skyrl_gym")
    from rlvr.adapters.trainers import skyrl

    skyrl.register()
    skyrl.register()
    return skyrl


@pytest.fixture(scope="module")
def program(ours):
    from rlvr.adapters import launch

    path = str(Path(launch.__file__).with_name("skyrl_train.py.txt"))
    loader = importlib.machinery.SourceFileLoader("skyrl_train", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("skyrl_train", loader))
    loader.exec_module(module)
    return module


class Client:
    """Stands in for SkyRL's client of its inference engines."""

    def __init__(self, engine) -> None:
        self.engine, self.finished = engine, []

    async def generate(self, engine_input, model=None):
        (prompt,) = engine_input["prompt_token_ids"]
        call = await asyncio.to_thread(self.engine.generate, prompt)
        tokenizer = self.engine.tokenizer
        ended = call.sampled[-1] == tokenizer.eos_token_id
        return {
            "responses": [tokenizer.decode(call.sampled, skip_special_tokens=True)],
            "response_ids": [list(call.sampled)],
            "stop_reasons": ["stop" if ended else "length"],
            "response_logprobs": [list(call.logprobs)],
        }

    async def finish_session(self, session_id):
        self.finished.append(session_id)


def generator_of(program, engine, **settings):
    """What the program that `rlvr launch` writes gives SkyRL."""
    from skyrl.train.config import GeneratorConfig, SamplingParams, SkyRLTrainConfig

    cfg = SkyRLTrainConfig()
    sampling = SamplingParams(logprobs=1, max_generate_length=12)
    cfg.generator = GeneratorConfig(
        **{"max_turns": 3, "max_input_length": 4096, "sampling_params": sampling, **settings}
    )
    return program.Experiment.get_generator(None, cfg, engine.tokenizer, Client(engine))


def batch_of(specs):
    from skyrl.train.generators.base import TrajectoryID

    prompts = []
    for spec in specs:
        try:
            _, observation, info = spec.start()
            prompts.append(kit_messages(observation, info))
        except OSError:  # the environment that fails in reset
            prompts.append([{"role": "user", "content": "?"}])
    return {
        "prompts": prompts,
        "env_classes": ["rlvr"] * len(specs),
        "env_extras": [{"extra_info": {"spec": spec.to_json()}} for spec in specs],
        "sampling_params": None,
        "trajectory_ids": [TrajectoryID(spec.to_json(), place) for place, spec in enumerate(specs)],
    }


def kit_messages(observation, info):
    from rlvr.adapters import initial_messages

    return [dict(message) for message in initial_messages(observation, info)]


def generate(generator, batch):
    try:
        return asyncio.run(generator.generate(batch, disable_tqdm=True))
    finally:
        generator.env_executor.shutdown()


@foreign
def test_the_adapter_conforms_under_the_real_generator(program, policy):
    def play(specs, engine):
        generator = generator_of(program, engine)
        output = generate(generator, batch_of(specs))
        assert len(generator.inference_engine_client.finished) == len(specs)
        episodes = []
        for place, spec in enumerate(specs):
            prompt, response = output["prompt_token_ids"][place], output["response_ids"][place]
            mask = [0] * len(prompt) + output["loss_masks"][place]
            logprobs = [0.0] * len(prompt) + output["rollout_logprobs"][place]
            tokens = TokenSequence(prompt + response, mask, logprobs)
            episodes.append(kit.PlayedEpisode(spec, sum(output["rewards"][place]), tokens))
        return episodes

    play(kit.say_specs(1), kit.RecordingEngine(*policy))  # what tqdm starts once and keeps
    print("\n".join(kit.conform(play, kit.RecordingEngine(*policy), tokens=True)))


@foreign
@pytest.mark.parametrize("step_wise", [False, True])
def test_an_invalid_episode_moves_nobodys_advantage(program, policy, monkeypatch, step_wise):
    """Three episodes of one task, of which one has no valid verdict, and another task's beside them."""
    import numpy as np
    import torch
    from skyrl.backends.skyrl_train.utils.ppo_utils import compute_grpo_outcome_advantage

    from rlvr.adapters.trainers import skyrl

    first, second = kit.say_specs(2)
    batch = batch_of([first, first, first, second])
    seen = []

    def metrics(env):
        if env not in seen:
            seen.append(env)
        return {"valid": float(seen.index(env) != 1)}

    monkeypatch.setattr(skyrl.RlvrTextEnv, "get_metrics", metrics)
    engine = kit.RecordingEngine(*policy, wrong_every=4)
    output = generate(generator_of(program, engine, step_wise_trajectories=step_wise), batch)
    last = output["is_last_step"] or [True] * 4
    edges = [row + 1 for row, is_last in enumerate(last) if is_last]
    episodes = [range(start, stop) for start, stop in zip([0, *edges], edges, strict=False)]
    assert [len(rows) for rows in episodes] == [3 if step_wise else 1] * 4
    masked = [not any(any(output["loss_masks"][row]) for row in rows) for rows in episodes]
    totals = [sum(sum(output["rewards"][row]) for row in rows) for rows in episodes]
    assert masked.count(True) == 1
    place = masked.index(True)
    group = [total for other, total in enumerate(totals) if other < 3 and other != place]
    if place == 3:  # alone with its task
        assert totals[place] == 0.0
        return
    assert totals[place] == pytest.approx(sum(group) / 2)
    scores = torch.tensor([[total] for total in totals[:3]])
    advantages, _ = compute_grpo_outcome_advantage(scores, torch.ones(3, 1), np.array(["a"] * 3))
    assert advantages[place].item() == pytest.approx(0.0, abs=1e-5)


@foreign
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_rows_go_through_skyrls_own_loader_into_its_generator(program, policy, tmp_path, ending):
    from skyrl.train.dataset import PromptDataset

    model, tokenizer = policy
    table = rows(SINGLE, 4, "skyrl", kwargs={"level": 2})
    path = write_rows(table, tmp_path / f"train.{ending}")
    data = PromptDataset(str(path), tokenizer, max_prompt_length=2000, num_workers=1)
    assert len(data) == 4
    items = data.collate_fn([data[place] for place in range(4)])
    batch = {
        "prompts": [item["prompt"] for item in items],
        "env_classes": [item["env_class"] for item in items],
        "env_extras": [item["env_extras"] for item in items],
        "sampling_params": None,
    }
    answers = {}
    for row in table:
        env, observation, _ = kit.TaskSpec.parse(row["extra_info"]["spec"]).start()
        answers[observation] = env.solve()

    def script(text):
        return next(answer for question, answer in answers.items() if question in text)

    engine = kit.RecordingEngine(model, tokenizer, script=script, max_new_tokens=64, wrong_every=1000)
    output = generate(generator_of(program, engine, max_turns=1), batch)
    assert [sum(rewards) for rewards in output["rewards"]] == [1.0] * 4
    measured = output["rollout_metrics"]
    assert measured["environment/success"] == measured["environment/valid"] == 1.0


@foreign
def test_a_conversation_that_grows_too_long_keeps_what_it_earned(program, policy):
    engine = kit.RecordingEngine(*policy, wrong_every=1000)
    spec = kit.say_specs(1)[0]
    whole = generate(generator_of(program, engine), batch_of([spec]))
    assert sum(whole["rewards"][0]) == pytest.approx(1.0)
    first = len(whole["prompt_token_ids"][0])
    cut = generate(generator_of(program, engine, max_input_length=first), batch_of([spec]))
    assert sum(cut["rewards"][0]) == pytest.approx(1 / 7)
    assert cut["stop_reasons"] == ["length"]


@foreign
def test_what_cannot_be_played_is_refused(ours, program, policy):
    row = rows(MULTI, 1, "skyrl")[0]
    with pytest.raises(ValueError, match=r"generator\.max_turns is 1: set generator\.max_turns=\d+"):
        ours.RlvrTextEnv(extras={**row, "max_turns": 1}).init(row["prompt"])
    with pytest.raises(ValueError, match="make the rows anew"):
        ours.RlvrTextEnv(extras=row).init([{"role": "user", "content": "another question"}])
    with pytest.raises(ValueError, match="names no task"):
        ours.RlvrTextEnv(extras={"extra_info": {}})
    env = ours.RlvrTextEnv(extras=row)
    assert env.get_metrics() == {}
    env.close()
    with pytest.raises(ValueError, match="begins with init"):
        env.step("7")
    short = rows(MULTI, 1, "skyrl", kwargs={"max_turns": 1})[0]
    assert ours.RlvrTextEnv(extras={**short, "max_turns": 1}).init(short["prompt"])[0] == short["prompt"]


@foreign
def test_a_batched_generator_is_refused(program, policy):
    engine = kit.RecordingEngine(*policy)
    generator = generator_of(program, engine, batched=True, max_turns=1)

    async def replies(engine_input, model=None):
        return {"responses": ["7"], "response_ids": [[7]], "stop_reasons": ["stop"], "response_logprobs": None}

    generator.inference_engine_client = SimpleNamespace(generate=replies)
    row = rows(SINGLE, 1, "skyrl")[0]
    batch = {"prompts": [row["prompt"]], "env_classes": ["rlvr"], "env_extras": [row]}
    with pytest.raises(ValueError, match=r"generator\.batched=false"):
        generate(generator, batch)


@foreign
def test_another_version_is_named(ours, monkeypatch):
    from rlvr.adapters import versions

    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.3.0")
    with pytest.raises(ImportError, match=r"skyrl-gym 0\.3\.0 is too old"):
        versions.require(*ours.TESTED)
