"""OpenRLHF's own rollout actor, sample generator, advantages and loss over our executor, with a fake engine.

OpenRLHF itself is the real package. Two packages that it imports run on GPUs alone and are stood in for: vLLM, whose
place the fake engine takes, and flash-attn, of which nothing is called.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import importlib
import importlib.machinery
import importlib.util
import itertools
import json
import runpy
import shlex
import subprocess
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlvr.adapters import read_spec, rows, write_rows
from rlvr.adapters import testing as kit
from rlvr.agents import TokenSequence

MISSING = importlib.util.find_spec("openrlhf") is None
EXAMPLE = Path(__file__).parents[2] / "examples" / "openrlhf_agent.py"
foreign = pytest.mark.foreign


@pytest.mark.skipif(not MISSING, reason="OpenRLHF is here")
def test_without_openrlhf_the_error_says_what_to_install():
    with pytest.raises(ImportError, match=r"openrlhf is not installed.*openrlhf>=0\.11\.2,<0\.12"):
        importlib.import_module("rlvr.adapters.trainers.openrlhf")


# with it


class SamplingParams(SimpleNamespace):
    """vLLM's, as far as OpenRLHF and we look at it."""


@pytest.fixture(scope="module")
def openrlhf():
    pytest.importorskip("openrlhf")

    def refuse(*_, **__):
        raise AssertionError("a stand-in was called")

    flash = dict.fromkeys(["index_first_axis", "pad_input", "rearrange", "unpad_input"], refuse)
    stand_ins = {
        "vllm": {"SamplingParams": SamplingParams, "__version__": "0.29.0"},
        "vllm.inputs": {"TokensPrompt": dict},
        "vllm.utils": {"random_uuid": lambda: "a request"},
        "flash_attn": {"__version__": "2.8.3"},
        "flash_attn.bert_padding": flash,
        "flash_attn.utils": {},
        "flash_attn.utils.distributed": {"all_gather": refuse},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, content in stand_ins.items():
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
            module.__path__ = []
            module.__dict__.update(content)
            patch.setitem(sys.modules, name, module)
        yield SimpleNamespace(
            actor=importlib.import_module("openrlhf.trainer.ray.vllm_engine"),
            samples=importlib.import_module("openrlhf.trainer.ppo_utils.samples_generator"),
            experience=importlib.import_module("openrlhf.trainer.ppo_utils.experience"),
            maker=importlib.import_module("openrlhf.trainer.ppo_utils.experience_maker"),
            loss=importlib.import_module("openrlhf.models.loss"),
            data=importlib.import_module("openrlhf.datasets"),
            load=importlib.import_module("openrlhf.datasets.utils").blending_datasets,
        )


class FakeEngine:
    """vLLM's asynchronous engine, over the kit's; it writes down what each request asked for."""

    def __init__(self, engine, pause=0.0):
        self.engine, self.pause, self.asked = engine, pause, []

    async def generate(self, prompt, sampling_params, request_id):
        self.asked.append(sampling_params)
        await asyncio.sleep(self.pause * (len(self.asked) % 3))
        call = self.engine.generate(prompt["prompt_token_ids"], sampling_params.max_tokens)
        scored = [{i: SimpleNamespace(logprob=p)} for i, p in zip(call.sampled, call.logprobs, strict=True)]
        ended = bool(call.sampled) and call.sampled[-1] == self.engine.tokenizer.eos_token_id
        said = SimpleNamespace(
            token_ids=tuple(call.sampled),
            text=self.engine.tokenizer.decode(call.sampled),
            logprobs=scored if sampling_params.logprobs is not None else None,
            finish_reason="stop" if ended else "length",
        )
        yield SimpleNamespace(outputs=[said])


def make_actor(openrlhf, engine):
    """OpenRLHF's rollout actor without Ray around it and with another engine; it loads our file as it always does."""
    from rlvr.adapters.trainers import openrlhf as adapter

    actor = object.__new__(openrlhf.actor.RolloutRayActor.__ray_metadata__.modified_class)
    actor.executor = openrlhf.actor._load_agent_executor(adapter.__file__)
    actor.llm, actor._mm_pad_token_ids = FakeEngine(engine), set()
    return actor


def settings(**changes):
    return SamplingParams(**{"max_tokens": 12, "min_tokens": 1, "temperature": 1.0, "logprobs": 1, **changes})


def play_groups(actor, tokenizer, specs, params=None, max_length=300):
    """All groups at once, as OpenRLHF asks for them: each with one request, and its samples in order."""
    groups = [(label, len(list(found))) for label, found in itertools.groupby(spec.to_json() for spec in specs)]

    async def play():
        asked = [
            actor.generate_responses("?", label, params or settings(), max_length, tokenizer, size)
            for label, size in groups
        ]
        return await asyncio.gather(*asked)

    return [response for group in asyncio.run(play()) for response in group]


def experiences_of(openrlhf, responses, max_length=300):
    """Through OpenRLHF's own conversion."""
    generator = object.__new__(openrlhf.samples.SamplesGenerator)
    return [generator._process_response_into_experience(dict(r), max_len=max_length) for r in responses]


@foreign
def test_the_adapter_conforms_in_the_real_actor(openrlhf, policy):
    def play(specs, engine):
        responses = play_groups(make_actor(openrlhf, engine), engine.tokenizer, specs)
        batch = openrlhf.experience.Experience.concat_experiences(experiences_of(openrlhf, responses), 0)
        return [episode_of(batch, place, spec) for place, spec in enumerate(specs)]

    report = kit.conform(play, kit.RecordingEngine(*policy), tokens=True)
    print("\n".join(report))


def episode_of(batch, place, spec) -> kit.PlayedEpisode:
    """One row of the tensors that OpenRLHF's loss is computed from."""
    length = int(batch.attention_mask[place].sum())
    mask = [0, *batch.action_mask[place].tolist()][:length]
    logprobs = [0.0, *batch.rollout_log_probs[place].tolist()][:length]
    tokens = TokenSequence(batch.sequences[place, :length].tolist(), mask, logprobs)
    # The next test but one shows that what is left of a group that failed weighs nothing.
    return kit.PlayedEpisode(spec, batch.rewards[place].item(), tokens, weight=batch.info["valid"][place].item())


@foreign
@pytest.mark.parametrize("estimator", ["rloo", "dr_grpo", "group_norm"])
def test_an_invalid_episode_moves_no_baseline_and_no_weight(openrlhf, policy, fails_on_nothing, estimator):
    import torch

    turn = itertools.count()

    def script(text: str) -> str:
        number = next(turn)
        # Two of eight episodes fail, in whatever order they are played: each group keeps some.
        return "nothing" if number in (3, 9) else kit.obey(text) if number % 2 else "maybe"

    engine = kit.RecordingEngine(*policy, script=script, wrong_every=10**6)
    actor = make_actor(openrlhf, engine)
    actor.executor.attempts = 1
    actor.llm.pause = 0.002  # so that a group does not end in the order it began in
    responses = play_groups(actor, engine.tokenizer, kit.say_specs(2, 4))
    valid = [bool(r["extra_logs"]["valid"]) for r in responses]
    assert 0 < sum(valid) < len(valid)
    batch = experiences_of(openrlhf, responses)
    advantages = advantages_of(openrlhf, batch, estimator, 4)
    for begin in (0, 4):
        kept = [responses[place]["reward"] for place in range(begin, begin + 4) if valid[place]]
        assert kept
        mean = sum(kept) / len(kept)
        for place in range(begin, begin + 4):
            if not valid[place]:
                assert responses[place]["reward"] == pytest.approx(mean)
                assert not batch[place].action_mask.any()
            elif estimator == "dr_grpo":
                got = advantages[place][batch[place].action_mask[0].bool()]
                torch.testing.assert_close(got, torch.full_like(got, responses[place]["reward"] - mean))
    check_loss(openrlhf, batch, advantages, valid)


def advantages_of(openrlhf, batch, estimator, group_size):
    import torch

    maker = object.__new__(openrlhf.maker.RemoteExperienceMaker)
    maker.advantage_estimator = estimator
    maker.kl_ctl = SimpleNamespace(value=0.0)
    arguments = SimpleNamespace(
        algo=SimpleNamespace(advantage=SimpleNamespace(estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=True)),
        rollout=SimpleNamespace(n_samples_per_prompt=group_size),
        reward=SimpleNamespace(clip_range=None),
    )
    maker.strategy = SimpleNamespace(args=arguments)
    for place, experience in enumerate(batch):
        experience.index = [place]
        experience.kl = torch.zeros_like(experience.action_mask, dtype=torch.float32)
    maker.compute_advantages_and_returns(batch)
    return [experience.advantages[0] for experience in batch]


def check_loss(openrlhf, batch, advantages, valid):
    """OpenRLHF's loss is what it is without the invalid rows, in both ways to average."""
    import torch

    for by_token in (True, False):
        losses = []
        for places in (range(len(batch)), [place for place, good in enumerate(valid) if good]):
            pad = torch.nn.utils.rnn.pad_sequence
            old = pad([batch[p].rollout_log_probs[0] for p in places], batch_first=True)
            mask = pad([batch[p].action_mask[0] for p in places], batch_first=True)
            gains = pad([advantages[p] for p in places], batch_first=True)
            new = (old + 0.1).requires_grad_()
            loss = openrlhf.loss.PolicyLoss(token_level_loss=by_token)(new, old, gains, action_mask=mask)[0]
            losses.append(loss.item())
            loss.backward()
            assert torch.isfinite(new.grad).all()
            assert not new.grad[~mask.bool()].any()
        assert losses[0] == pytest.approx(losses[1], rel=1e-5, abs=1e-6)


@foreign
@pytest.mark.parametrize("fault", kit.FAULTS)
@pytest.mark.parametrize("estimator", ["rloo", "dr_grpo", "group_norm"])
def test_a_batch_that_failed_altogether_moves_nothing_and_is_finite(openrlhf, policy, fault, estimator):
    import torch

    actor = make_actor(openrlhf, kit.RecordingEngine(*policy))
    batch = experiences_of(openrlhf, play_groups(actor, policy[1], kit.say_specs(1, 3, fault)))
    advantages = advantages_of(openrlhf, batch, estimator, 3)
    pad = torch.nn.utils.rnn.pad_sequence
    old = pad([experience.rollout_log_probs[0] for experience in batch], batch_first=True)
    mask = pad([experience.action_mask[0] for experience in batch], batch_first=True)
    assert mask.sum(dim=1).tolist() == [1, 1, 1]
    for by_token in (True, False):
        new = (old + 0.1).requires_grad_()
        loss = openrlhf.loss.PolicyLoss(token_level_loss=by_token)(
            new, old, pad(advantages, batch_first=True), action_mask=mask
        )[0]
        loss.backward()
        assert loss.item() == 0.0
        assert not new.grad.any()


@foreign
def test_a_failure_that_passes_is_played_again(openrlhf, policy, fails_on_nothing):
    said = iter(["nothing"])
    engine = kit.RecordingEngine(*policy, script=lambda text: next(said, None) or kit.obey(text), wrong_every=10**6)
    (response,) = play_groups(make_actor(openrlhf, engine), engine.tokenizer, kit.say_specs(1))
    assert response["reward"] == pytest.approx(1.0)
    assert response["extra_logs"] == {"turns": 3.0, "valid": 1.0}
    assert len(engine.calls) == 4


@foreign
def test_each_turn_and_the_conversation_have_their_limits(openrlhf, policy):
    engine = kit.RecordingEngine(
        *policy, script=lambda text: "a very long answer " * 5, max_new_tokens=500, wrong_every=10**6
    )
    actor = make_actor(openrlhf, engine)
    params = settings(max_tokens=20, logprobs=None)
    (response,) = play_groups(actor, engine.tokenizer, kit.say_specs(1), params)
    assert [stop - start for start, stop in response["action_ranges"]] == [20] * 3
    assert [asked.max_tokens for asked in actor.llm.asked] == [20] * 3
    assert params.max_tokens == 20  # a group's samples share it
    assert response["rollout_log_probs"] is None
    assert response["truncated"]

    start = response["action_ranges"][0][0]
    params = settings(max_tokens=None)
    (response,) = play_groups(actor, engine.tokenizer, kit.say_specs(1), params, max_length=start + 30)
    assert response["action_ranges"] == [(start, start + 30)]
    assert len(response["observation_tokens"]) == start + 30
    assert response["truncated"]
    (response,) = play_groups(actor, engine.tokenizer, kit.say_specs(1), params, max_length=start)
    assert (response["reward"], response["extra_logs"]["valid"]) == (0.0, 0.0)
    assert response["action_ranges"] == [(start - 1, start)]


@foreign
def test_a_special_token_that_the_environment_spells_is_text(openrlhf, policy):
    engine = kit.RecordingEngine(*policy, wrong_every=10**6)
    (response,) = play_groups(make_actor(openrlhf, engine), engine.tokenizer, kit.say_specs(1))
    ids, end = response["observation_tokens"], engine.tokenizer.eos_token_id
    assert engine.tokenizer.decode(ids).count("<|end|>") == ids.count(end) + 3  # it is spelled in each observation
    assert ids.count(end) == 2 + 3 + 2  # system and user at first, three replies, two answers


@foreign
def test_the_rows_are_what_its_data_set_reads(openrlhf, policy, tmp_path):
    table = rows("rlvr/WordProblems-v0", 3, "openrlhf")
    quiet = SimpleNamespace(
        print=lambda *_: None,
        is_rank_0=lambda: False,
        args=SimpleNamespace(data=SimpleNamespace(input_key="input", label_key="label", apply_chat_template=True)),
    )
    for name in ("rows.jsonl", "rows.parquet"):
        loaded = openrlhf.load(str(write_rows(table, tmp_path / name)), None, quiet)
        data = openrlhf.data.PromptDataset(loaded, policy[1], quiet)
        sources, prompts, labels, images = data.collate_fn([data[place] for place in range(3)])
        assert labels == [row["label"] for row in table]
        assert sources == ["rlvr/WordProblems-v0"] * 3
        assert images == [None] * 3
        env, observation, _ = read_spec({"label": labels[1]}).start()
        assert observation in prompts[1]
        assert env.step(env.solve())[1] == 1.0


@foreign
def test_bad_input_has_a_sentence(openrlhf, policy, monkeypatch):
    from rlvr.adapters import versions
    from rlvr.adapters.trainers import openrlhf as adapter

    actor = make_actor(openrlhf, kit.RecordingEngine(*policy))
    label = kit.say_specs(1)[0].to_json()
    with pytest.raises(ValueError, match=r"no task of rlvr\.adapters\.rows.*label_key"):
        asyncio.run(actor.generate_responses("?", "", settings(), 300, policy[1], 2))
    with pytest.raises(ValueError, match="images"):
        asyncio.run(actor.generate_responses("?", label, settings(), 300, policy[1], 2, images=["x.png"]))
    assert actor.executor._groups == {}
    mute = copy.deepcopy(policy[1])
    mute.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        asyncio.run(
            make_actor(openrlhf, kit.RecordingEngine(*policy)).generate_responses("?", label, settings(), 300, mute, 2)
        )
    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.10.0")
    with pytest.raises(ImportError, match=r"openrlhf 0\.10\.0 is too old"):
        importlib.reload(adapter)
    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.12.0")
    with pytest.warns(RuntimeWarning, match="newer"):
        importlib.reload(adapter)


@foreign
def test_the_example_is_loaded_as_openrlhf_does(openrlhf, tmp_path, monkeypatch):
    from rlvr.adapters.trainers import openrlhf as adapter

    executor = openrlhf.actor._load_agent_executor(str(EXAMPLE))
    assert isinstance(executor, adapter.AgentExecutor)
    assert executor.template_options == {"enable_thinking": False}

    done = subprocess.run(
        [sys.executable, EXAMPLE, "--rows", "2", "--out", tmp_path], capture_output=True, text=True, check=True
    )
    words = shlex.split(done.stdout)[3:]
    parse = argparse.ArgumentParser.parse_args
    found = []

    def catch(parser):
        found.append(parse(parser, words))
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", catch)
    with pytest.raises(SystemExit):
        runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
    options = vars(found[0])
    assert options["train.agent_func_path"] == str(EXAMPLE)
    table = Path(options["data.prompt_dataset"]).read_text().splitlines()
    assert [read_spec(json.loads(row)).env_id for row in table] == ["rlvr/GuessNumber-v0"] * 2
