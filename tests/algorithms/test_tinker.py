"""engine: tinker: an update on a service is an update here, whatever the service divides by; runs go on; faults."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.config.sections import SamplerSection
from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.learner.batch import TrainingBatch, pad
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.sampling.protocol import SamplerError
from rlvr.algorithms.tinker.connect import connect
from rlvr.algorithms.tinker.learner import TinkerLearner
from rlvr.algorithms.tinker.sampler import TinkerSampler
from rlvr.algorithms.tinker.scale import RULES
from rlvr.algorithms.tinker.service import TinkerError
from rlvr.algorithms.train.interrupts import RunInterrupted
from rlvr.algorithms.train.run import Trainer

from .runs import Callback
from .tinker_stand_in import Service

OPTIONS = {"betas": (0.9, 0.95), "weight_decay": 0.01, "max_grad_norm": 1e9}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("base") / "tiny"
    build_tiny(target, hidden=32, layers=1)
    return target


@pytest.fixture
def serve(folder, monkeypatch):
    """Make a service with these faults the one that the client reaches."""

    def put(**options):
        service = Service(folder, **options)
        monkeypatch.setitem(sys.modules, "tinker", service.module())
        return service

    return put


@pytest.fixture
def settings(folder, tmp_path):
    def make(**changes):
        values = {
            "env": {"id": "rlvr/GuessNumber-v0", "system": False},
            "engine": {"kind": "tinker", "url": "http://127.0.0.1:1", "base_model": str(folder)},
            "model": {"name": str(folder), "lora_rank": 8},
            "sampling": {"max_new_tokens": 8, "max_length": 96},
            "warm_start": {"steps": 2, "batch_size": 4},
            "evaluation": {"episodes": 2},
            "steps": 2,
            "prompts": 2,
            "group_size": 4,
            "checkpoint_every": 1,
            "out": str(tmp_path / "run"),
        }
        for name, value in changes.items():
            values[name] = values[name] | value if isinstance(values.get(name), dict) else value
        return values

    return make


def batch_of(preset, seed=0):
    """Sequences of several lengths, with advantages and what the preset compares with."""
    rng = torch.Generator().manual_seed(seed)
    sequences = []
    for length in (9, 14, 6, 11):
        ids = torch.randint(3, 200, (length,), generator=rng).tolist()
        mask = [0] * 3 + [1] * 2 + [0] + [1] * (length - 6)
        sequences.append(TokenSequence(ids, mask, [0.0 if not m else -1.0 for m in mask]))
    padded = pad(sequences, 0)
    noise = torch.randn(padded.ids.shape, generator=rng) * 0.1
    inputs = LossInputs(
        mask=padded.mask,
        advantages=torch.tensor([1.0, -0.5, 0.25, -1.0]),
        group=torch.tensor([0, 0, 1, 1]),
        old_logprobs=None,
        behaviour_logprobs=(noise - 5.0) * padded.mask,
    )
    return TrainingBatch(padded, inputs)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["reinforce", "grpo", "gspo", "dapo", "tis"])
def test_an_update_is_that_of_the_learner_here(serve, settings, folder, rule, name):
    serve(rule=rule)
    preset = PRESETS[name]
    policy, _ = connect(load_config(settings()))
    assert policy.rule == rule
    there = TinkerLearner(policy, preset, pad_id=0, max_length=96)
    here = Learner(load_policy(folder)[0], preset, pad_id=0, max_length=96)
    there.freeze_reference()
    here.freeze_reference()
    trained = [learner.new_optimiser(lambda step: 1e-2, **OPTIONS) for learner in (there, here)]
    for seed in range(3):
        stats = [
            learner.update(batch_of(preset, seed), optimiser)
            for learner, optimiser in zip((there, here), trained, strict=True)
        ]
        assert stats[0]["loss"] == pytest.approx(stats[1]["loss"], abs=1e-5)
        assert stats[0]["grad_norm"] == pytest.approx(stats[1]["grad_norm"], rel=1e-3)
    pairs = zip(here.model.parameters(), policy.service._training.model.parameters(), strict=True)
    gaps = torch.cat([(own - theirs).abs().flatten() for own, theirs in pairs])
    # three steps of 1e-2; AdamW makes much of the rounding of gradients that are nearly 0
    assert gaps.quantile(0.99) < 1e-5
    assert gaps.max() < 1e-2
    assert there.logprobs(batch_of(preset).padded).abs().sum() > 0


def test_a_rule_that_is_not_known_is_refused(serve, settings):
    serve(rule="unknown")
    with pytest.raises(TinkerError, match="which follow none of the rules known here"):
        connect(load_config(settings()))


def test_a_service_without_gradient_norms_is_refused(serve, settings):
    serve(norm_name="loss")
    with pytest.raises(TinkerError, match="reports no gradient norm"):
        connect(load_config(settings()))


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(serve, settings, tmp_path, monkeypatch):
    serve(rule="mean over sequences of means over tokens")
    whole = Callback()
    Trainer(load_config(settings(out=str(tmp_path / "whole"))), whole).run()

    serve(rule="mean over sequences of means over tokens")
    trainer = Trainer(load_config(settings()), Callback())
    monkeypatch.setattr(trainer, "asked_to_stop", lambda: 15 if trainer.step == 1 else None)
    with pytest.raises(RunInterrupted):
        trainer.run()
    # what the service keeps outlives the client
    again = Callback()
    Trainer(load_config(settings()), again, resume=True).run()
    ended, went_on = whole.of("train")[-1], again.of("train")[-1]
    assert ended["step"] == went_on["step"] == 2
    for name in ("loss", "reward", "grad_norm"):
        assert went_on[name] == pytest.approx(ended[name], abs=1e-6), name
    assert json.loads((tmp_path / "run" / "policy" / "tinker.json").read_text())["sampler_weights"].startswith(
        "tinker:"
    )


def test_weights_that_stay_behind_are_refused(serve, settings):
    service = serve()
    policy, tokenizer = connect(load_config(settings()))
    learner = TinkerLearner(policy, PRESETS["reinforce"], pad_id=0, max_length=96)
    sampler = TinkerSampler(policy, tokenizer, 96, SamplerSection())
    assert sampler.sync(None, 0)["sync_difference"] < 1e-5
    optimiser = learner.new_optimiser(lambda step: 0.1, **OPTIONS)
    learner.update(batch_of(PRESETS["reinforce"]), optimiser)
    assert sampler.sync(None, 1)["sync_difference"] < 1e-5
    service.stale = True
    learner.update(batch_of(PRESETS["reinforce"]), optimiser)
    with pytest.raises(SamplerError, match=r"it samples with other weights|still the old ones"):
        sampler.sync(None, 2)


@pytest.mark.parametrize("request_", ["forward", "forward_backward", "optim_step", "save_state"])
def test_a_request_that_fails_is_one_sentence(serve, settings, request_):
    service = serve()
    policy, _ = connect(load_config(settings()))
    service.fails = {request_}
    learner = TinkerLearner(policy, PRESETS["reinforce"], pad_id=0, max_length=96)
    optimiser = learner.new_optimiser(lambda step: 1e-3, **OPTIONS)

    def work():
        learner.update(batch_of(PRESETS["reinforce"]), optimiser)
        optimiser.state_dict()

    with pytest.raises(TinkerError, match=rf"did not answer {request_}: {request_} is broken"):
        work()


def test_a_sample_that_fails_is_its_episodes_error(serve, settings):
    service = serve()
    trainer = Trainer(load_config(settings(warm_start={"steps": 0})), Callback())
    trainer._sync()
    service.fails = {"sample"}
    episodes = trainer.schedule.collect(0, traced=False).played
    assert episodes
    assert not any(episode.valid for episode in episodes)
    trainer.close()


def test_a_slope_that_is_not_finite_is_never_sent(serve, settings):
    service = serve()
    policy, _ = connect(load_config(settings()))
    learner = TinkerLearner(policy, PRESETS["reinforce"], pad_id=0, max_length=96)
    optimiser = learner.new_optimiser(lambda step: 1e-3, **OPTIONS)
    sent = len(service.requests)
    scores = learner.scorer(torch.tensor([[5, 6, 7]]))
    optimiser.backward((scores.logprobs * torch.nan).sum())
    assert optimiser.step()["refused"] == 1.0
    assert service.requests[sent:] == ["forward"]


def test_a_missing_client_says_what_to_install(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "tinker", None)
    with pytest.raises(ImportError, match=r'pip install "tinker>=0\.24"'):
        connect(load_config(settings()))


def test_the_hosted_service_wants_a_key(serve, settings, monkeypatch):
    serve()
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="TINKER_API_KEY is not set"):
        connect(load_config(settings(engine={"url": ""})))


def test_a_model_that_the_service_has_not_is_named(serve, settings):
    serve()
    with pytest.raises(ConfigError, match=r"has no model 'other'; it has .*tiny"):
        connect(load_config(settings(engine={"base_model": "other"})))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"engine": {"base_model": ""}}, "engine.base_model: name the model"),
        ({"model": {"name": "rlvr/tiny"}}, "model.name: engine: tinker needs a tokenizer"),
        ({"model": {"lora_rank": 0}}, "model.lora_rank: a Tinker service trains LoRA"),
        ({"model": {"dtype": "bfloat16"}}, "model.dtype is about a model of this process"),
        ({"learner": {"compile": True}}, "learner.compile is about a model of this process"),
        ({"sampler": "vllm"}, "leave out sampler and schedule"),
        ({"schedule": {"kind": "async", "correction": "tis"}}, "leave out sampler and schedule"),
        ({"sampling": {"temperature": 0.7}}, "sampling.temperature 0.7: a Tinker service scores at temperature 1"),
        ({"learner": {"ema": 0.9}}, "learner.ema needs the weights here"),
        ({"evaluation": {"exploitability": True}}, "evaluation.exploitability needs the policy here"),
        ({"algorithm": "ppo"}, "ppo has a critic"),
        ({"overrides": {"entropy_coef": 0.1}}, "overrides.entropy_coef: a Tinker service gives no entropies"),
        ({"engine": {"kind": "torch"}}, "engine.url is for engine.kind tinker, not torch"),
    ],
)
def test_what_a_service_cannot_do_is_said_before_the_run(settings, changes, text):
    with pytest.raises(ConfigError, match=text.replace(".", r"\.")):
        load_config(settings(**changes))
