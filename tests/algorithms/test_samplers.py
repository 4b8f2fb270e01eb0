"""Where a run samples: the learner's own weights, a copy, or a server; and that a sync is confirmed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from rlvr.agents.budget import ThinkingBudget
from rlvr.agents.conversation import Conversation, TokenSequence
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.models.vllm_process import cause, flags
from rlvr.agents.models.vllm_worker import adapted_weights, load_adapters
from rlvr.agents.rollout import Rollout
from rlvr.algorithms.config import ConfigError, TrainConfig, load_config
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import Optimiser, schedule
from rlvr.algorithms.sampling.collect import Collector, TaskOrder
from rlvr.algorithms.sampling.confirm import Confirmation
from rlvr.algorithms.sampling.embedded import CopiedSampler
from rlvr.algorithms.sampling.protocol import PolicyWeights, SamplerError, policy_weights
from rlvr.algorithms.sampling.vllm import ServerSampler, VLLMSampler
from rlvr.algorithms.train.backends import load_model
from rlvr.algorithms.train.methods import build_method
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.step_log import mismatch_warning, staleness

from .runs import GUESS, Callback, content, small
from .vllm_stand_in import StandIn

FEW: dict[str, Any] = {"prompts": 2, "group_size": 2, "evaluation": {"episodes": 1}, "sampling": {"max_new_tokens": 6}}
NO_WARM_START = {"warm_start": {"steps": 0, "mixed_steps": 0}}


# the default


@pytest.mark.slow
def test_the_default_sampler_and_schedule_are_the_plain_loop(tmp_path: Path):
    """Rollout with a TransformersAgent on the learner's model, then an update: nothing stands between, bit for bit."""
    config = small(tmp_path / "run", steps=2, prompts=2, **NO_WARM_START)
    Trainer(config, Callback()).run()
    by_hand = plain_loop(small(tmp_path / "unused", steps=2, prompts=2, **NO_WARM_START))
    trained: Any = load_policy(tmp_path / "run" / "policy")[0]
    assert all(torch.equal(a, b) for a, b in zip(trained.parameters(), by_hand.parameters(), strict=True))
    for line in (tmp_path / "run" / "episodes" / "train-000001.jsonl").read_text().splitlines():
        assert set(json.loads(line)["tokens"]) == {"ids", "mask", "logprobs"}
    assert not (tmp_path / "run" / "sampler").exists()


def plain_loop(config: TrainConfig) -> Any:
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    model, tokenizer = load_model(config)
    agent = TransformersAgent(model, tokenizer, max_new_tokens=16, max_length=128, seed=config.seed)
    env_settings = {"split": config.env.split, "level": config.env.level}
    rollout = Rollout(config.env.id, agent, use_system=False, env_settings=env_settings)
    learner = Learner(model, config.preset(), pad_id=tokenizer.pad_token_id or 0, max_length=128)
    order = TaskOrder(rollout.env.unwrapped, "train", config.seed)
    collector = Collector(rollout, order, config, config.filters())
    method = build_method(config, learner, agent, rollout.env.unwrapped, None, lambda requests: [])
    learner.freeze_reference()
    rates = schedule(config.learner.lr, config.learner.warmup_steps, config.steps, False)
    optimiser = Optimiser(model.parameters(), rates, betas=config.learner.betas, weight_decay=0.0, max_grad_norm=1.0)
    for step in range(config.steps):
        method.update(method.score(method.credit(collector(step))[0]), optimiser)
    return model


# versions of tokens


def test_versions_follow_their_tokens_through_every_operation():
    tokens = TokenSequence()
    tokens.append_context([1, 2])
    assert tokens.versions == []  # nobody counts yet
    tokens.append_sampled([3, 4], [-1.0, -2.0], [7, 8])
    tokens.append_context([5])
    tokens.extend(TokenSequence([6], [1], [-0.5], [9]))
    tokens.extend(TokenSequence([6], [1], [-0.5]))
    assert tokens.versions == [-1, -1, 7, 8, -1, 9, -1]
    assert tokens.piece(2, 4).versions == [7, 8]
    assert tokens.copy().versions == tokens.versions
    assert TokenSequence(**tokens.to_dict()) == tokens
    with pytest.raises(ValueError, match="2 tokens were sampled, but 1 versions"):
        tokens.append_sampled([1, 2], [0.0, 0.0], [3])


def test_a_copy_samples_with_old_weights_until_it_is_synced(tmp_path: Path):
    model: Any
    model, tokenizer = load_policy(build_tiny(tmp_path / "tiny", seed=1))
    sampler = CopiedSampler(model, tokenizer)
    agent = sampler.agent(max_new_tokens=6, thinking_budget=ThinkingBudget("!", 3, 3))

    def reply() -> TokenSequence:
        [answer] = agent.act([Conversation("k", [{"role": "user", "content": "2+2?"}])])
        assert answer.completion is not None
        return answer.completion

    before = reply()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    assert reply() == before
    sampler.sync(lambda: policy_weights(model), 4)
    after = reply()
    assert {v for v, m in zip(before.versions, before.mask, strict=True) if m} == {0}
    assert {v for v, m in zip(after.versions, after.mask, strict=True) if m} == {4}
    assert after.logprobs != before.logprobs


@pytest.mark.parametrize("lora", [0, 2])
def test_weights_that_are_sent_are_those_of_the_policy_merged(tmp_path: Path, lora: int):
    model, _ = load_model(small(tmp_path, model={"lora_rank": lora}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    kept = {name: parameter.clone() for name, parameter in model.named_parameters()}
    sent = dict(policy_weights(model))
    assert all(torch.equal(kept[name], parameter) for name, parameter in model.named_parameters())
    merged = model.merge_and_unload() if lora else model
    expected = dict(merged.named_parameters())
    assert sent.keys() == expected.keys()
    for name, tensor in sent.items():
        torch.testing.assert_close(tensor, expected[name].detach(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(("rank", "dtype"), [(1, torch.float32), (4, torch.float32), (4, torch.bfloat16)])
def test_base_and_adapters_are_the_merged_weights_bit_for_bit(tmp_path: Path, rank: int, dtype: torch.dtype):
    name = str(dtype).removeprefix("torch.")
    model, _ = load_model(small(tmp_path, model={"lora_rank": rank, "dtype": name}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    weights = PolicyWeights(model)
    adapters = weights.adapters()
    assert adapters is not None
    trained = {parameter for parameter in model.parameters() if parameter.requires_grad}
    numbers = sum(tensor.numel() for name, tensor in adapters.items() if not name.endswith(".scaling"))
    assert numbers == sum(parameter.numel() for parameter in trained), "all that is trained, and nothing else"
    base, path = tmp_path / "base.safetensors", tmp_path / "adapters.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in weights.base()}, base)
    save_file({name: tensor.contiguous() for name, tensor in adapters.items()}, path)
    merged = dict(adapted_weights(str(base), load_adapters(str(path), len(adapters))))
    expected = dict(weights())
    assert merged.keys() == expected.keys()
    assert all(torch.equal(merged[name], tensor) for name, tensor in expected.items())
    assert any(not torch.equal(tensor, expected[name]) for name, tensor in weights.base())
    with pytest.raises(ValueError, match=f"holds {len(adapters)} tensors, not 3"):
        load_adapters(str(path), 3)
    others = sorted(adapters)[1:]
    save_file({name: adapters[name] for name in others}, path)
    with pytest.raises(ValueError, match="not every adapter has its lora_A, lora_B, scaling"):
        load_adapters(str(path), len(others))
    strange = {f"strange.weight.{part}": torch.zeros(1, 1) for part in ("lora_A", "lora_B", "scaling")}
    with pytest.raises(ValueError, match=r"adapters of strange\.weight, which the weights lack"):
        next(adapted_weights(str(base), strange))


def test_what_is_trained_beside_adapters_goes_as_whole_tensors(tmp_path: Path):
    whole, _ = load_model(small(tmp_path))
    assert PolicyWeights(whole).adapters() is None
    model, _ = load_model(small(tmp_path, model=LORA))
    next(p for name, p in model.named_parameters() if name.endswith("norm.weight")).requires_grad_(True)
    assert PolicyWeights(model).adapters() is None


# confirmation


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Any, Any]:
    """The learner's model, and an engine's of the same weights."""
    folder = build_tiny(tmp_path / "tiny", seed=1)
    return load_policy(folder)[0], load_policy(folder)[0]


def scores(engine: Any, noise: float = 0.0) -> Any:
    """What an engine answers, whose rounding is its own but the same each time."""
    generator = torch.Generator().manual_seed(1)

    def score(tokens: list[int]) -> list[float]:
        generator.manual_seed(1)
        with torch.no_grad():
            logprobs = engine(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)
        picked = logprobs[range(len(tokens) - 1), tokens[1:]]
        return list((picked + noise * torch.randn(picked.shape, generator=generator)).tolist())

    return score


def change(model: Any, size: float, names: str = "") -> None:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            delta = size * torch.randn(parameter.shape, generator=generator)
            if names in name:
                parameter.add_(delta)


@pytest.mark.parametrize("size", [1e-4, 1e-2])
def test_a_sync_that_arrived_is_confirmed(pair: tuple[Any, Any], size: float):
    model, engine = pair
    confirmation = Confirmation(model, "float32", 128)
    for version in range(3):
        assert confirmation.check(version, scores(engine, 1e-5)) < 1e-3
        for each in pair:
            change(each, size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("arrived", ["nothing", "layers.0", "layers.1", "embed_tokens", "mlp"])
def test_stale_and_half_syncs_are_refused(pair: tuple[Any, Any], size: float, arrived: str):
    """Also where the update is so small that the level of the log-probabilities tells nothing."""
    model, engine = pair
    confirmation = Confirmation(model, "float32", 128)
    confirmation.check(0, scores(engine, 1e-5))
    change(model, size)
    change(engine, size, arrived)
    with pytest.raises(SamplerError, match="version 1"):
        confirmation.check(1, scores(engine, 1e-5))


def test_another_model_and_missing_logprobs_are_refused(pair: tuple[Any, Any], tmp_path: Path):
    model, _ = pair
    other: Any = load_policy(build_tiny(tmp_path / "other", seed=2))[0]
    with pytest.raises(SamplerError, match="of another model"):
        Confirmation(model, "float32", 128).check(0, scores(other))
    with pytest.raises(SamplerError, match="log-probabilities of 3 tokens, 63 asked for"):
        Confirmation(model, "float32", 128).check(0, lambda tokens: [0.0] * 3)
    with pytest.raises(SamplerError, match="log-probabilities"):
        Confirmation(model, "float32", 128).check(0, lambda tokens: [float("nan")] * 63)


# the server


@pytest.fixture(scope="module")
def served(guesser: Path) -> Path:
    return guesser


@pytest.fixture
def stand_in(served: Path) -> Iterator[StandIn]:
    server = StandIn(served)
    yield server
    server.close()


def with_server(out: Path, server: StandIn, policy: Path, **changes: Any) -> TrainConfig:
    sampler = {"kind": "vllm-server", "url": server.url, "deadline": 20, **changes.pop("sampler", {})}
    return small(out, model={"name": str(policy)}, sampler=sampler, steps=2, **NO_WARM_START, **{**FEW, **changes})


@pytest.mark.slow
def test_a_run_on_a_server_syncs_and_versions_every_token(stand_in: StandIn, served: Path, tmp_path: Path):
    callback = Callback()
    Trainer(with_server(tmp_path / "run", stand_in, served), callback).run()
    records = callback.of("train")
    assert [record["staleness"] for record in records] == [{"0": 1.0}] * 2
    assert all(record["sync_difference"] < 1e-3 for record in records)
    assert all(record["behaviour_kl_k3"] < 1e-6 and record["behaviour_ess"] > 0.999 for record in records)
    for step in (1, 2):
        for episode in read_episodes(tmp_path / "run" / "episodes" / f"train-{step:06d}.jsonl"):
            tokens = episode.tokens
            assert tokens.versions == [step - 1 if mask else -1 for mask in tokens.mask]
    assert len(stand_in.loaded) == 3  # before the first step, and after each
    assert not (tmp_path / "run" / "sampler" / "weights.safetensors").exists()


LORA = {"lora_rank": 1}


def with_adapters(out: Path, server: StandIn, policy: Path, **changes: Any) -> TrainConfig:
    settings = with_server(out, server, policy, **changes).model_dump()
    return TrainConfig(**{**settings, "model": {**settings["model"], **LORA}})


@pytest.mark.slow
def test_a_run_of_adapters_sends_them_alone(stand_in: StandIn, served: Path, tmp_path: Path):
    """The base is written once, before the first step; each sync is two matrices and a number for each layer."""
    written: list[tuple[str, int, int]] = []  # name, tensors, numbers
    write = ServerSampler._write

    def noted(self: ServerSampler, name: str, weights: Any, version: int) -> tuple[Path, int]:
        found = dict(weights)
        written.append((name, len(found), sum(tensor.numel() for tensor in found.values())))
        return write(self, name, found.items(), version)

    callback = Callback()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerSampler, "_write", noted)
        Trainer(with_adapters(tmp_path / "run", stand_in, served), callback).run()
    assert [name for name, _, _ in written] == ["base", "adapters", "adapters", "adapters"]
    (_, _, whole), (_, count, sent), *_ = written
    assert sent < whole / 10
    assert stand_in.loaded == [count] * 3
    records = callback.of("train")
    assert [record["staleness"] for record in records] == [{"0": 1.0}] * 2
    assert all(record["sync_difference"] < 1e-3 and record["behaviour_kl_k3"] < 1e-6 for record in records)
    assert not [*(tmp_path / "run" / "sampler").glob("*.safetensors")]


@pytest.mark.parametrize("fault", ["stale", "half"])
def test_adapters_that_stay_behind_end_the_run(stand_in: StandIn, served: Path, tmp_path: Path, fault: str):
    class Plants(Callback):
        def phase(self, name: str, steps: int) -> None:
            stand_in.faults = {fault}

    with pytest.raises(SamplerError, match="sync to version 1"):
        Trainer(with_adapters(tmp_path / "run", stand_in, served), Plants()).run()


def test_a_server_that_dies_while_adapters_are_sent_gets_base_and_adapters(
    stand_in: StandIn, served: Path, tmp_path: Path
):
    class Kills(Callback):
        def phase(self, name: str, steps: int) -> None:
            stand_in.faults, stand_in.deaths = {"dies_in_sync"}, 6  # a call is tried three times

    callback = Kills()
    Trainer(with_adapters(tmp_path / "run", stand_in, served), callback).run()
    assert any("the sampler was lost" in text for text in callback.said)
    assert all(record["behaviour_kl_k3"] < 1e-6 for record in callback.of("train"))


@pytest.mark.parametrize(
    ("faults", "changes", "message"),
    [
        ({"without_extension"}, {}, r"sampler.url: http.* takes no new weights: start it with VLLM_SERVER_DEV_MODE=1"),
        ({"raw"}, {}, r"sampler.url: http.* reports raw_logprobs, which are not those"),
        ({"without_logprobs"}, {}, r"sampler.url: .* sent \d+ tokens with 0 log-probabilities"),
        (set(), {"sampler": {"served_model": "huge"}}, r"sampler.url: .* serves served, not 'huge'"),
        (
            set(),
            {"sampling": {"max_new_tokens": 16, "max_length": 2_000}},
            "takes sequences of 1024 tokens, and sampling",
        ),
        (set(), {"sampler": {"api_key_env": "RLVR_NO_SUCH_KEY"}}, "sampler.api_key_env names RLVR_NO_SUCH_KEY"),
    ],
)
def test_what_a_server_cannot_do_is_one_sentence(
    stand_in: StandIn, served: Path, tmp_path: Path, faults: set[str], changes: dict[str, Any], message: str
):
    stand_in.faults = faults
    config = with_server(tmp_path / "run", stand_in, served, **changes)
    with pytest.raises((SamplerError, ConfigError), match=message) as caught:
        Trainer(config, Callback()).run()
    assert "\n" not in str(caught.value)


def test_another_vocabulary_is_refused(served: Path, tmp_path: Path):
    server = StandIn(served, vocabulary=999)
    try:
        with pytest.raises(SamplerError, match=r"a vocabulary of 999 tokens, and model.name has 403"):
            Trainer(with_server(tmp_path / "run", server, served), Callback())
    finally:
        server.close()


def test_a_server_that_is_not_there_is_one_sentence(stand_in: StandIn, served: Path, tmp_path: Path):
    config = with_server(tmp_path / "run", stand_in, served, sampler={"url": "http://127.0.0.1:9/v1"})
    with pytest.raises(SamplerError, match=r"sampler.url: http://127.0.0.1:9.* could not be reached"):
        Trainer(config, Callback())


@pytest.mark.parametrize("fault", ["stale", "half"])
def test_weights_that_stay_behind_end_the_run(stand_in: StandIn, served: Path, tmp_path: Path, fault: str):
    """They are planted after the first sync, so what is refused is an update."""

    class Plants(Callback):
        def phase(self, name: str, steps: int) -> None:
            stand_in.faults = {fault}

    with pytest.raises(SamplerError, match="sync to version 1"):
        Trainer(with_server(tmp_path / "run", stand_in, served), Plants()).run()


def test_a_server_that_begins_anew_costs_nothing(stand_in: StandIn, served: Path, tmp_path: Path):
    """It has forgotten the run's weights: they are sent again, and what failed is played again."""
    Trainer(with_server(tmp_path / "undisturbed", stand_in, served), Callback()).run()

    class Forgets(Callback):
        def step(self, record: dict[str, Any]) -> None:
            super().step(record)
            if record["phase"] == "train":
                stand_in.faults = {"forget"}

    callback = Forgets()
    Trainer(with_server(tmp_path / "run", stand_in, served), callback).run()
    assert any("the sampler was lost" in text for text in callback.said)
    one, other = content(tmp_path / "undisturbed"), content(tmp_path / "run")
    assert [name for name in one if "train-" in name and one[name] != other[name]] == []
    assert one["policy/model.safetensors"] == other["policy/model.safetensors"]


def test_a_server_that_dies_in_a_sync_and_comes_back_costs_nothing(stand_in: StandIn, served: Path, tmp_path: Path):
    Trainer(with_server(tmp_path / "undisturbed", stand_in, served), Callback()).run()

    class Dies(Callback):
        def phase(self, name: str, steps: int) -> None:
            stand_in.faults, stand_in.deaths = {"dies_in_sync"}, 6  # a call is tried three times

    callback = Dies()
    Trainer(with_server(tmp_path / "run", stand_in, served), callback).run()
    assert stand_in.deaths == 0
    assert sum("the sampler was lost: the sync to version 1 failed" in text for text in callback.said) == 2
    one, other = content(tmp_path / "undisturbed"), content(tmp_path / "run")
    assert [name for name in one if "train-" in name and one[name] != other[name]] == []
    assert one["policy/model.safetensors"] == other["policy/model.safetensors"]


def test_a_server_that_dies_in_every_sync_ends_the_run_and_what_was_saved_goes_on(
    stand_in: StandIn, served: Path, tmp_path: Path
):
    class Dies(Callback):
        def step(self, record: dict[str, Any]) -> None:
            if record["phase"] == "train":
                stand_in.faults, stand_in.deaths = {"dies_in_sync"}, 1_000

    config = with_server(tmp_path / "run", stand_in, served, checkpoint_every=1)
    with pytest.raises(SamplerError, match=r"was lost 6 times, the last time because the sync to version 2") as caught:
        Trainer(config, Dies()).run()
    assert "\n" not in str(caught.value)
    stand_in.faults = set()
    callback = Callback()
    Trainer(config, callback, resume=True).run()
    assert "going on after step 1" in callback.said


@pytest.mark.slow
def test_a_server_that_dies_and_stays_away_is_one_sentence(stand_in: StandIn, served: Path, tmp_path: Path):
    class Dies(Callback):
        def phase(self, name: str, steps: int) -> None:
            stand_in.server.shutdown()
            stand_in.server.server_close()

    config = with_server(tmp_path / "run", stand_in, served, sampler={"deadline": 2.0})
    with pytest.raises(SamplerError, match=r"could not be reached.*did not come back within 2 s \(sampler\.deadline\)"):
        Trainer(config, Dies()).run()


LOG = """\
(Worker pid=7) ERROR 11-24 [multiproc_executor.py:1063] RuntimeError: Unsupported configuration: head_dim=16
(EngineCore pid=6) ERROR [core.py:1512] RuntimeError: Worker failed with error 'Unsupported configuration: head_dim=16'
(APIServer pid=5) ERROR 11-24 [vllm_error.py:54] vllm.v1.engine.exceptions.EngineDeadError: see stack trace (above)
INFO:     127.0.0.1:35812 - "POST /inference/v1/generate HTTP/1.1" 500 Internal Server Error
(APIServer pid=5) INFO 11-24 [core_client.py:777] [shutdown] MPClient: complete
"""  # of vLLM 0.32, shortened: a model whose attention it does not have on the CPU


def test_the_log_of_a_server_says_why_its_engine_died(tmp_path: Path):
    log = tmp_path / "server.log"
    log.write_text(LOG)
    assert cause(log).endswith("RuntimeError: Worker failed with error 'Unsupported configuration: head_dim=16'")
    log.write_text("one\ntwo\n\n")
    assert cause(log) == "two"
    log.write_text("")
    assert cause(log) == "it printed nothing"


def test_a_server_that_never_answers_is_no_wrong_answer(stand_in: StandIn, served: Path, tmp_path: Path):
    config = with_server(tmp_path / "run", stand_in, served, sampler={"deadline": 1.0})
    model, tokenizer = load_model(config)
    sampler = ServerSampler(config, model, tokenizer, tmp_path / "sampler", lambda text: None)
    sampler.sync(lambda: policy_weights(model), 0)
    agent = sampler.agent(max_new_tokens=4)
    stand_in.faults = {"silent"}
    episodes = Rollout(GUESS, agent)([RolloutRequest(seed=0, index=index) for index in range(2)])
    assert [episode.valid for episode in episodes] == [False, False]
    assert all("did not answer within the deadline of 1 s" in str(episode.verdict) for episode in episodes)


# configs and warnings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "vlm"}, "sampler.kind: Input should be 'transformers', 'vllm' or 'vllm-server'"),
        ({"sampler": {"kind": "vllm", "url": "http://x"}}, "sampler.url is for sampler.kind vllm-server, not vllm"),
        ({"sampler": {"options": {"dtype": "auto"}}}, "sampler.options are vLLM's"),
        (
            {"sampler": {"kind": "vllm-server", "url": "http://x", "options": {"dtype": "auto"}}},
            "the one at sampler.url has its own",
        ),
        (
            {"model": {"float32_head": True}, "sampler": {"kind": "vllm-server", "url": "http://x"}},
            "model.float32_head: nothing tells how the server at sampler.url makes its logits",
        ),
    ],
)
def test_fields_of_another_sampler_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        load_config(changes)


@pytest.mark.parametrize("wide", [True, False])
def test_vllm_is_told_to_make_its_logits_in_float32(tmp_path: Path, wide: bool):
    config = load_config({"model": {"float32_head": wide, "dtype": "bfloat16"}, "sampler": "vllm-server"})
    options = VLLMSampler(config, *load_policy("rlvr/tiny", dtype="bfloat16"), tmp_path)._options()
    assert options.get("hf_overrides") == ({"head_dtype": "float32"} if wide else None)
    assert ("--hf-overrides" in flags(options)) == wide
    assert ('{"head_dtype": "float32"}' in flags(options)) == wide


def test_the_short_form_is_the_kind():
    assert load_config({"sampler": "vllm"}).sampler.kind == "vllm"
    assert load_config({"sampler": "vllm"}) == load_config({"sampler": {"kind": "vllm"}})


def test_staleness_counts_sampled_tokens_alone():
    tokens = TokenSequence([1, 2, 3, 4], [0, 1, 1, 1], [0.0, -1.0, -1.0, -1.0], [-1, 3, 4, 5])
    episode = Episode("env", "key", 0, tokens=tokens)
    found = staleness([episode], 5)
    assert found == {"staleness_mean": 1.0, "staleness_max": 2, "staleness": {"0": 1 / 3, "1": 1 / 3, "2": 1 / 3}}
    assert staleness([Episode("env", "key", 0, tokens=TokenSequence([1], [1], [0.0]))], 5) == {}


def test_a_large_mismatch_is_said_with_its_cure():
    near = {"behaviour_kl_k3": 1e-4, "behaviour_ess": 0.99, "behaviour_ratio_max": 1.1}
    assert mismatch_warning(near, corrected=False, dtype="bfloat16") == ""
    far = {"behaviour_kl_k3": 0.5, "behaviour_ess": 0.4, "behaviour_ratio_max": 9.0, "staleness_max": 4}
    text = mismatch_warning(far, corrected=False, dtype="bfloat16")
    for words in ("k3 0.5", "ratio 9", "size 0.40", "schedule.correction to tis", "schedule.depth", "float32"):
        assert words in text
    assert "schedule.correction" not in mismatch_warning(far, corrected=True, dtype="float32")
