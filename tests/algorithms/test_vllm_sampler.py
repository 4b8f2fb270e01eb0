"""A real vLLM on the CPU as the sampler of a run: in this process, and as a server that the run starts.

`make test-vllm` builds an environment that holds vLLM and runs this file in it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

pytest.importorskip("vllm")

import torch

from rlvr.agents.evaluation import read_episodes
from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.agents.models.vllm_live import LiveEngine
from rlvr.algorithms.sampling.confirm import Confirmation
from rlvr.algorithms.sampling.protocol import SamplerError, policy_weights
from rlvr.algorithms.sampling.vllm import LocalSampler, ServerSampler
from rlvr.algorithms.train.backends import load_model
from rlvr.algorithms.train.run import Trainer

from ..smollm2 import smollm2_folder
from .qwen_folder import gsm8k_run, require_learned
from .runs import Callback, small

pytestmark = [pytest.mark.vllm, pytest.mark.foreign, pytest.mark.slow, pytest.mark.timeout(1_200)]

OPTIONS = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "logprobs": 0, "detokenize": False, "ignore_eos": True,
    "max_tokens": 400,
}  # fmt: skip
RUN: dict[str, Any] = {
    "warm_start": {"steps": 0, "mixed_steps": 0}, "steps": 3, "prompts": 2, "group_size": 4,
    "evaluation": {"episodes": 2},
}  # fmt: skip

EAGER = {"enforce_eager": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny(tmp_path_factory.mktemp("policy") / "tiny", seed=1)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[LiveEngine]:
    made = LiveEngine(str(folder), dtype="float32", enforce_eager=True, max_model_len=1_024)
    yield made
    made.close()


def score(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].log_softmax(-1)[range(len(ids) - 1), ids[1:]]


def until(condition: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not come about")


def test_64_requests_in_flight_take_three_updates_and_each_token_has_its_version(engine: LiveEngine, folder: Path):
    """Also that seeded requests outlive it: vLLM's own pause that keeps them ends the engine on the CPU."""
    model: Any = load_policy(folder)[0]
    prompts = [[1, 2, 3 + index] for index in range(64)]
    weights = [{name: p.detach().clone() for name, p in model.named_parameters()}]
    found: list[Any] = []
    engine.update_weights(weights[0].items(), 0)
    options = [{**OPTIONS, "seed": seed} for seed in range(64)]
    thread = threading.Thread(target=lambda: found.extend(engine.generate(prompts, options)))
    thread.start()
    for version in (1, 2, 3):
        tokens = 60 * version
        until(lambda least=tokens: any(len(r.ids) > least for r in list(engine._running.values())))
        weights.append({name: tensor * 1.05 for name, tensor in weights[-1].items()})
        engine.update_weights(weights[-1].items(), version)
    thread.join()
    assert {version for _, _, versions in found for version in versions} == {0, 1, 2, 3}
    for version, tensors in enumerate(weights):
        model.load_state_dict(tensors, strict=False)
        for prompt, (ids, logprobs, versions) in zip(prompts, found, strict=True):
            here = torch.tensor(versions) == version
            expected = score(model, prompt + ids)[len(prompt) - 1 :]
            torch.testing.assert_close(torch.tensor(logprobs)[here], expected[here], atol=1e-5, rtol=0)
    engine.update_weights(weights[0].items(), 0)


def test_what_it_samples_with_real_weights_has_the_learners_logprobs():
    """1e-3 nats, which `sampler.tolerance` allows by itself."""
    path = smollm2_folder()
    made = LiveEngine(str(path), dtype="float32", enforce_eager=True, max_model_len=256)
    try:
        model, tokenizer = load_policy(path)
        chat = [{"role": "user", "content": "What is 12 + 5?"}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        options = [{**OPTIONS, "seed": seed, "max_tokens": 24} for seed in range(4)]
        for ids, logprobs, _ in made.generate([prompt] * 4, options):
            expected = score(model, prompt + ids)[len(prompt) - 1 :]
            torch.testing.assert_close(torch.tensor(logprobs), expected, atol=1e-3, rtol=0)
    finally:
        made.close()


def test_stale_half_and_wrong_weights_are_refused(engine: LiveEngine, folder: Path, tmp_path: Path):
    model: Any = load_policy(folder)[0]
    tensors = {name: p.detach().clone() for name, p in model.named_parameters()}
    changed = {name: tensor * 1.01 for name, tensor in tensors.items()}
    other: Any = load_policy(build_tiny(tmp_path / "other", seed=2))[0]
    half = {name: changed[name] if index % 2 else tensor for index, (name, tensor) in enumerate(tensors.items())}
    faults = {"sound": changed, "stale": tensors, "half": half, "wrong": dict(other.named_parameters())}
    for fault, sent in faults.items():
        engine.update_weights(tensors.items(), 0)
        model.load_state_dict(tensors, strict=False)
        confirmation = Confirmation(model, "float32", 1_024)
        assert confirmation.check(0, engine.prompt_logprobs) < 1e-5
        model.load_state_dict(changed, strict=False)
        engine.update_weights(((name, tensor.detach()) for name, tensor in sent.items()), 1)
        if fault == "sound":
            assert confirmation.check(1, engine.prompt_logprobs) < 1e-5
            continue
        with pytest.raises(SamplerError, match="version 1"):
            confirmation.check(1, engine.prompt_logprobs)
    # vLLM's own reload leaves the packed copy of a tied head as it was
    engine.update_weights(tensors.items(), 0)
    model.load_state_dict(tensors, strict=False)
    confirmation = Confirmation(model, "float32", 1_024)
    confirmation.check(0, engine.prompt_logprobs)
    model.load_state_dict(changed, strict=False)
    engine._call(
        lambda: engine.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(changed.items())})
    )
    with pytest.raises(SamplerError, match="version 1"):
        confirmation.check(1, engine.prompt_logprobs)
    engine.update_weights(tensors.items(), 0)


def test_long_prompts_with_seeds_are_computed_whole(engine: LiveEngine):
    """More tokens than a step takes: one that is cut and has a seed ends vLLM 0.32 on the CPU."""
    prompts = [[1 + (index + position) % 200 for position in range(600)] for index in range(24)]
    replies = engine.generate(prompts, [{**OPTIONS, "max_tokens": 3, "seed": seed} for seed in range(24)])
    assert [len(reply[0]) for reply in replies] == [3] * 24


@pytest.mark.parametrize("wide", [False, True])
def test_logits_are_float32_where_the_config_says_so(wide: bool, tmp_path: Path):
    """In bfloat16, whose 8 bits leave few numbers, some of the likeliest tokens have one log-probability."""
    run = {**RUN, "model": {"dtype": "bfloat16", "float32_head": wide}, "sampler": {"kind": "vllm", "options": EAGER}}
    config = small(tmp_path / "run", **run)
    model, tokenizer = load_model(config)
    with torch.no_grad():
        model.model.norm.weight.fill_(20.0)  # logits up to about 8, where bfloat16 steps by 1/32
    sampler = LocalSampler(config, model, tokenizer, tmp_path / "sampler")
    try:
        assert sampler.sync(lambda: policy_weights(model), 1)["sync_difference"] < 0.1
        params = sampler.engine._params(temperature=1.0, max_tokens=1, logprobs=20, detokenize=False)
        prompts = [{"prompt_token_ids": [1, 2, 3 + index]} for index in range(32)]
        outputs = sampler.engine._call(lambda: sampler.engine.llm.generate(prompts, [params] * 32, use_tqdm=False))
        rows = [[entry.logprob for entry in output.outputs[0].logprobs[0].values()] for output in outputs]
        ties = sum(len(row) - len({*row}) for row in rows)
        assert ties == 0 if wide else ties > 32
    finally:
        sampler.close()


def test_a_model_whose_attention_the_server_lacks_is_one_sentence(folder: Path, tmp_path: Path):
    """The server starts, and dies of the first request; what the run met is a refused connection."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    config = AutoConfig.from_pretrained(folder)
    config.head_dim = 16
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "model")
    sampler = {"kind": "vllm-server", "options": {"enforce_eager": True}, "deadline": 120}
    with pytest.raises(SamplerError, match=r"^sampler: the vLLM server .*head_dim=16.*server\.log"):
        Trainer(small(tmp_path / "run", **RUN, model={"name": str(tmp_path / "model")}, sampler=sampler), Callback())


def test_a_server_that_is_killed_in_a_run_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    samplers: list[ServerSampler] = []
    connect = ServerSampler._connect
    monkeypatch.setattr(ServerSampler, "_connect", lambda self: (connect(self), samplers.append(self))[0])

    class Kills(Callback):
        def step(self, record: dict[str, Any]) -> None:
            super().step(record)
            if record["phase"] == "train" and record["step"] == 1:
                process = samplers[0].process
                assert process is not None
                os.killpg(process.process.pid, signal.SIGKILL)
                process.process.wait(60)

    callback = Kills()
    sampler = {"kind": "vllm-server", "options": {"enforce_eager": True}, "deadline": 120}
    Trainer(small(tmp_path / "run", **RUN, sampler=sampler), callback).run()
    assert len(samplers) == 2
    assert any("the sampler was lost" in text for text in callback.said)
    for step in range(3):
        episodes = read_episodes(tmp_path / "run" / "episodes" / f"train-{step + 1:06d}.jsonl")
        assert len({episode.key for episode in episodes}) == len(episodes) == 8
        for episode in episodes:
            assert episode.valid
            assert {v for v, mask in zip(episode.tokens.versions, episode.tokens.mask, strict=True) if mask} == {step}
    assert all(record["behaviour_kl_k3"] < 1e-6 for record in callback.of("train"))


def test_a_server_that_is_killed_in_a_sync_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """After its update and before the server has the weights: nothing of the step is lost."""
    send, killed = ServerSampler._send, []

    def send_to_one_that_dies(self: ServerSampler, weights: Any, version: int) -> None:
        if version == 2 and not killed:
            assert self.process is not None
            killed.append(self.process.process.pid)
            os.killpg(killed[0], signal.SIGKILL)
        send(self, weights, version)

    monkeypatch.setattr(ServerSampler, "_send", send_to_one_that_dies)
    callback = Callback()
    sampler = {"kind": "vllm-server", "options": EAGER, "deadline": 120}
    Trainer(small(tmp_path / "run", **RUN, sampler=sampler), callback).run()
    assert len(killed) == 1
    assert sum("the sampler was lost: the sync to version 2 failed" in text for text in callback.said) == 1
    assert [record["staleness"] for record in callback.of("train")] == [{"0": 1.0}] * 3
    assert all(record["behaviour_kl_k3"] < 1e-6 for record in callback.of("train"))


def test_gsm8k_with_a_qwen3_from_a_folder_is_the_same_yaml_with_another_sampler(tmp_path: Path):
    run = gsm8k_run(tmp_path)
    sampler = {"kind": "vllm-server", "options": EAGER, "deadline": 120}
    callback = Callback()
    Trainer(small(tmp_path / "run", **run, sampler=sampler), callback).run()
    require_learned(tmp_path / "run")
    assert all(record["sync_difference"] < 1e-4 and record["behaviour_kl_k3"] < 1e-6 for record in callback.of("train"))
    assert [record["staleness"] for record in callback.of("train")] == [{"0": 1.0}] * 2


def test_adapters_are_sent_alone_to_a_real_server(tmp_path: Path):
    """What samples after each sync is the base with this version's adapters; a killed server gets both again."""
    callback = Callback()
    sampler = {"kind": "vllm-server", "options": EAGER, "deadline": 120}
    run = {**RUN, "model": {"lora_rank": 4}, "learner": {"lr": 1e-2, "warmup_steps": 0}}
    trainer = Trainer(small(tmp_path / "run", **run, sampler=sampler), callback)
    sent: list[int] = []  # versions
    served = trainer.sampler
    assert isinstance(served, ServerSampler)
    update = served.engine.update_adapters

    def noted(base: Path, path: Path, tensors: int, version: int) -> None:
        sent.append(version)
        update(base, path, tensors, version)
        if sent.count(2) == 1 and version == 2:
            assert served.process is not None
            os.killpg(served.process.process.pid, signal.SIGKILL)

    served.engine.update_adapters = noted  # type: ignore[method-assign]
    trainer.run()
    assert sorted({*sent}) == [0, 1, 2, 3]
    assert sent.count(2) == 2
    assert any("the sampler was lost" in text for text in callback.said)
    records = callback.of("train")
    assert all(record["sync_difference"] < 1e-4 and record["behaviour_kl_k3"] < 1e-6 for record in records)
    assert [record["staleness"] for record in records] == [{"0": 1.0}] * 3
    before, after = (load_policy(tmp_path / "run" / name)[0] for name in ("sampler/policy", "policy"))
    assert any(not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
