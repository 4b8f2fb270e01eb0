"""`rlvr plan`: its formulae against counted parameters, measured memory, published figures, and measured schedules."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import tiny_policy
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.learner.optimiser import PACKAGES, Optimiser
from rlvr.algorithms.learner.scoring import score_sequences
from rlvr.algorithms.planning import trial
from rlvr.algorithms.planning.memory import MOMENTS, Update, kv_bytes, training_memory
from rlvr.algorithms.planning.report import Assumed, describe, plan, shared_tokens
from rlvr.algorithms.planning.shapes import DEVICES, GIB, ModelShape, device_of, read_shape, shape_of
from rlvr.algorithms.planning.simulation import SimulatedRun, simulate
from rlvr.algorithms.planning.speed import decoding, training_speed
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.cli import main

QWEN_06B = ModelShape(151_936, 1024, 28, 16, 8, 128, 3072)
QWEN_4B = ModelShape(151_936, 2560, 36, 32, 8, 128, 9728)
SHAPE_06B = "vocab=151936,hidden=1024,layers=28,heads=16,kv_heads=8,head_dim=128,intermediate=3072"

# (shape, tokens, LoRA rank, H100s, GiB at the peak, thousand tokens a second), layers recomputed: prime-rl,
# benchmarks/results/BENCHMARKS.md at 559b44772
PUBLISHED = [
    (QWEN_06B, 16_384, 0, 1, 12.5, 11.90),
    (QWEN_06B, 65_536, 0, 1, 19.6, 10.15),
    (QWEN_06B, 16_384, 16, 1, 5.1, 13.34),
    (QWEN_06B, 65_536, 16, 1, 11.5, 9.97),
    (QWEN_4B, 16_384, 16, 1, 23.3, 6.23),
    (QWEN_4B, 65_536, 16, 1, 42.0, 4.16),
    (QWEN_4B, 16_384, 0, 8, 17.1, 26.03),
    (QWEN_4B, 65_536, 0, 8, 36.1, 28.97),
    (QWEN_4B, 16_384, 16, 8, 10.3, 48.72),
    (QWEN_4B, 65_536, 16, 8, 28.8, 32.80),
]


@pytest.mark.parametrize(("shape", "tokens", "rank", "devices", "gib", "speed"), PUBLISHED)
def test_published_figures_are_met(shape, tokens, rank, devices, gib, speed):
    """Memory within 8 %; speed within a factor of 1.75, most of it within 1.3."""
    update = Update(tokens, recompute=True, lora_rank=rank, devices=devices, gathered=True)
    assert training_memory(shape, update).total / GIB == pytest.approx(gib, rel=0.08)
    found = training_speed(shape, DEVICES["h100"], tokens, devices=devices, lora=bool(rank)) / 1000
    assert 1 / 1.75 < found / speed < 1.75


def test_a_slower_device_is_met_too():
    for tokens, speed in ((16_384, 3.69), (65_536, 2.04)):  # the same source, one A6000
        assert training_speed(QWEN_06B, DEVICES["a6000"], tokens) / 1000 == pytest.approx(speed, rel=0.3)


def test_parameters_are_counted_as_the_model_has_them():
    model, tokenizer = tiny_policy(hidden=64, layers=3)
    shape = shape_of(load_config({"model": {"hidden": 64, "layers": 3}}))
    assert shape.vocab == len(tokenizer)
    norms = 2 * 32 * 3  # of queries and keys, which the shape leaves out
    assert shape.parameters + norms == sum(parameter.numel() for parameter in model.parameters())


def test_a_shape_is_read_from_a_folder(tmp_path: Path):
    model, _ = tiny_policy(hidden=64, layers=3)
    model.config.save_pretrained(tmp_path)
    read = shape_of(load_config({"model": {"name": str(tmp_path)}}))
    assert read == shape_of(load_config({"model": {"hidden": 64, "layers": 3}}))
    assert shape_of(load_config({}), SHAPE_06B) == QWEN_06B
    assert QWEN_06B.parameters == pytest.approx(596e6, rel=0.001)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("{", "cannot be read"), ('{"hidden_size": 8}', "has no"), ('{"num_experts": 8}', "without experts")],
)
def test_a_shape_that_is_none(tmp_path: Path, text: str, complaint: str):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_shape(tmp_path / "config.json")


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most bytes that were allocated at once in ``work``, above what stood before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True])
def test_the_peak_of_an_update_is_that_of_the_formula(recompute: bool):
    """Within 20 %: a micro-batch after another, so that gradients are there already."""
    model, tokenizer = tiny_policy(hidden=256, layers=6, heads=8, kv_heads=4, intermediate=768)
    shape = ModelShape(len(tokenizer), 256, 6, 8, 4, 32, 768)
    ids = torch.randint(0, len(tokenizer), (2, 256))

    def update() -> None:
        score_sequences(model, ids, recompute=recompute).logprobs.sum().backward()

    update()
    memory = training_memory(shape, Update(ids.numel(), dtype="float32", recompute=recompute))
    counted = memory.kept + max(memory.layer, memory.head)  # weights, gradients and state stand before
    assert peak_bytes(update) == pytest.approx(counted, rel=0.2)


def test_memory_grows_with_what_it_should():
    base = Update(8192)
    total = training_memory(QWEN_06B, base).total
    for change in ({"tokens": 16_384}, {"reference": True}, {"samples": True}, {"exact": True}):
        assert training_memory(QWEN_06B, Update(**{**vars(base), **change})).total > total
    for change in ({"recompute": True}, {"devices": 8}, {"lora_rank": 16}):
        assert training_memory(QWEN_06B, Update(**{**vars(base), **change})).total < total


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adamw", "adamw_8bit", "adamw_bnb_8bit"])
def test_moments_are_those_of_the_optimiser(kind: str):
    """Within 1 %: what a step's state holds, but for tables that are the same for every tensor."""
    if kind in PACKAGES:
        pytest.importorskip(PACKAGES[kind])
    parameter = torch.nn.Parameter(torch.ones(1024, 256))
    optimiser = Optimiser([parameter], lambda _: 0.1, betas=(0.9, 0.95), kind=kind)
    parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    held = [value.numel() * value.element_size() for name, value in optimiser.tensors().items() if "qmap" not in name]
    assert sum(held) == pytest.approx(MOMENTS[kind] * parameter.numel(), rel=0.01)
    ways = [training_memory(QWEN_06B, Update(8192, optimiser=name)).moments for name in ("adamw", kind)]
    assert ways[1] / ways[0] == MOMENTS[kind] / 8


def test_offload_leaves_on_the_device_what_is_gathered_and_what_passes():
    base = training_memory(QWEN_06B, Update(8192, reference=True))
    activations = training_memory(QWEN_06B, Update(8192, reference=True, offload="activations"))
    assert base.total - activations.total == base.kept > 0
    weights = training_memory(QWEN_06B, Update(8192, reference=True, offload="weights"))
    assert (weights.masters, weights.gradients, weights.moments, weights.reference) == (0, 0, 0, 0)
    gathered = training_memory(QWEN_06B, Update(8192, gathered=True))
    assert weights.total == gathered.total - gathered.masters - gathered.gradients - gathered.moments


def test_the_tokens_of_shared_prompts_are_those_that_go_through_the_model():
    """The share that `Padded` and `Scorer` come to, counted at the model's own embedding."""
    model, _ = tiny_policy(hidden=32, layers=1)
    prompt, reply, group = 24, 8, 4
    config = load_config(
        {
            "learner": {"share_prompts": True, "micro_batch_tokens": 96},
            "prompts": 2,
            "group_size": group,
            "sampling": {"max_new_tokens": reply, "max_length": prompt + reply},
        }
    )
    seen = []
    model.get_input_embeddings().register_forward_hook(lambda _, given, __: seen.append(given[0].numel()))
    learner = Learner(model, PRESETS["grpo"], pad_id=0, max_length=32, share_prompts=True, micro_batch_tokens=96)
    gen = torch.Generator().manual_seed(0)
    sequences = []
    for _ in range(2):
        start = torch.randint(5, 40, (prompt,), generator=gen).tolist()
        for _ in range(group):
            rest = torch.randint(5, 40, (reply,), generator=gen).tolist()
            sequences.append(TokenSequence(start + rest, [0] * prompt + [1] * reply, [0.0] * (prompt + reply)))
    learner.logprobs(sequences[:1])
    seen.clear()
    learner.logprobs(sequences)
    share = shared_tokens(config, Assumed(prompt=prompt, reply=reply), prompt + reply)
    assert share == 1 - (1 - 2 / 4) * prompt / (prompt + reply)  # three of the four fit into a micro-batch
    assert sum(seen) / (2 * group * (prompt + reply)) == pytest.approx(share, rel=0.05)
    alone = load_config({**config.model_dump(), "learner": {"share_prompts": False}})
    assert shared_tokens(alone, Assumed(prompt=prompt), 32) == 1.0


def test_a_plan_says_what_shared_prompts_eight_bits_and_offload_change(capsys: pytest.CaptureFixture[str]):
    assumed = Assumed(prompt=384, reply=128)
    given = {"sampling": {"max_new_tokens": 128, "max_length": 512}, "learner": {"share_prompts": True}}
    plain = plan(load_config({**given, "learner": {}}), QWEN_06B, DEVICES["h100"], assumed)
    shared = plan(load_config(given), QWEN_06B, DEVICES["h100"], assumed)
    assert shared.update_seconds / plain.update_seconds == pytest.approx(1 - (1 - 1 / 8) * 384 / 512)
    assert "34% of the tokens: prompts are shared" in describe(shared)
    assert "prompts are shared" not in describe(plain)
    many = load_config({"learner": {"optimiser": "adamw_8bit", "offload": "activations"}})
    text = describe(plan(many, QWEN_06B, DEVICES["h100"], Assumed(gpus=2)))
    assert "learner.optimiser adamw_8bit is refused under torchrun" in text
    assert "learner.offload activations is for one process: take weights" in text


def test_offloaded_weights_on_one_device_are_a_run_under_torchrun():
    """The copy that samples stands beside the shards, and AdamW in eight bits is refused."""
    learner = {"offload": "weights", "share_prompts": True, "optimiser": "adamw_8bit"}
    found = plan(load_config({"learner": learner}), QWEN_06B, DEVICES["h100"], Assumed(prompt=384, reply=128))
    plain = load_config({"model": found.config.model.model_dump()})
    assert found.memory.sampler == plan(plain, QWEN_06B, DEVICES["h100"], Assumed(gpus=2)).memory.sampler > 0
    text = describe(found)
    assert "learner.offload weights is for torchrun, on one device too" in text
    assert "learner.optimiser adamw_8bit is refused under torchrun" in text


def test_the_cache_of_a_token_is_its_keys_and_values():
    assert kv_bytes(QWEN_06B, "bfloat16") == 2 * 28 * 8 * 128 * 2
    h100 = DEVICES["h100"]
    one, many = decoding(QWEN_06B, h100, 1, 512, "bfloat16"), decoding(QWEN_06B, h100, 256, 512, "bfloat16")
    assert many.tokens > 50 * one.tokens  # the weights are read once for all
    assert many.seconds > one.seconds


# the simulation, against what can be worked out


def test_without_environments_a_step_is_its_turns_and_its_update():
    run = SimulatedRun(steps=5, episodes=8, turns=3, turn_seconds=lambda active: 2.0, update_seconds=4.0)
    times = simulate(run)
    assert times.seconds == pytest.approx(5 * (3 * 2.0 + 4.0))
    assert times.step == pytest.approx(10.0)
    assert times.sampling == pytest.approx(0.6)
    assert times.learning == pytest.approx(0.4)


@pytest.mark.parametrize(("turn", "update"), [(2.0, 4.0), (8.0, 4.0)])
def test_ahead_a_step_takes_the_longer_of_sampling_and_update(turn: float, update: float):
    times = simulate(
        SimulatedRun(steps=60, episodes=8, slots=8, turn_seconds=lambda active: turn, update_seconds=update, depth=2)
    )
    assert times.step == pytest.approx(max(turn, update), rel=0.05)


def test_no_episode_is_older_than_the_depth_and_all_are_played():
    for depth in (0, 1, 4):
        run = SimulatedRun(steps=30, episodes=16, turns=2, env_seconds=1.0, tail=1.5, update_seconds=0.5, depth=depth)
        times = simulate(run)
        assert times.staleness <= depth
        assert times == simulate(run)


def test_workers_bound_the_steps_of_environments():
    """By Little's law: N steps of E seconds take N E / W where workers are what is short."""
    run = {"steps": 4, "episodes": 64, "turns": 4, "env_seconds": 2.0, "tail": 0.5, "update_seconds": 0.0}
    few = simulate(SimulatedRun(**run, workers=4, turn_seconds=lambda active: 0.01))
    assert few.seconds == pytest.approx(4 * 64 * 4 * 2.0 / 4, rel=0.1)
    assert few.working > 0.9
    many = simulate(SimulatedRun(**run, workers=64, turn_seconds=lambda active: 0.01))
    assert many.seconds < few.seconds / 5


def test_a_heavy_tail_is_hidden_by_sampling_ahead():
    steps = {
        depth: simulate(
            SimulatedRun(30, 64, turns=4, slots=1024, env_seconds=1.0, tail=1.0, update_seconds=10.0, depth=depth)
        ).step
        for depth in (0, 1, 2, 8)
    }
    assert steps[0] > steps[1] > steps[2] >= steps[8]
    assert steps[8] == pytest.approx(10.0, rel=0.1)  # the learner is what is short


def test_samplers_saturate():
    seconds = [
        simulate(
            SimulatedRun(3, 512, turns=2, samplers=count, slots=8, turn_seconds=lambda n: 1.0, update_seconds=1.0)
        ).step
        for count in (8, 64, 512)
    ]
    assert seconds[0] == pytest.approx(512 / 64 * 2 + 1)
    assert seconds[1] == seconds[2] == pytest.approx(3.0)  # all episodes at once: more samplers bring nothing


# the command


def test_the_plan_says_what_fits_and_what_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = tmp_path / "mine.yaml"
    config.write_text("model: {name: Qwen/Qwen3-0.6B, dtype: bfloat16}\nsampling: {max_length: 16384}\nsteps: 10\n")
    words = ["plan", str(config), "--shape", SHAPE_06B]
    assert main([*words, "--gpu", "h200"]) == 0
    shown = capsys.readouterr().out
    assert "hours" in shown
    assert "$" in shown
    assert main([*words, "--gpu", "24,70,600"]) == 1
    assert "learner.recompute_layers: true" in capsys.readouterr().out
    wrong = {
        "--gpu=h10": "h100",
        "--gpu=1,2,x": "three numbers",
        "--turns=0": "at least 1",
        "--shape=hidden=8": "lacks",
    }
    for option, complaint in wrong.items():
        assert main([*words, option]) == 2
        assert complaint in capsys.readouterr().err
    assert main(["plan", str(config)]) == 2
    assert "--shape" in capsys.readouterr().err


def test_the_plan_follows_the_config():
    base = {"sampling": {"max_new_tokens": 64, "max_length": 512}, "prompts": 16}
    found = {
        kind: plan(load_config(base | changes), QWEN_06B, device_of("h100"), Assumed(env_seconds=2.0, turns=4))
        for kind, changes in {
            "sync": {},
            "async": {"schedule": {"kind": "async", "correction": "tis"}},
            "kl": {"algorithm": "grpo"},
            "none": {"algorithm": "dr_grpo"},
        }.items()
    }
    assert found["async"].hours < found["sync"].hours
    assert found["async"].memory.sampler > found["sync"].memory.sampler == 0
    assert found["kl"].memory.reference > found["none"].memory.reference == 0
    assert all(math.isfinite(each.hours) and each.hours > 0 for each in found.values())
    assert "env.workers is 0" in describe(found["sync"])


def test_the_plan_counts_every_policy_that_is_learned():
    base = {"env": {"id": "rlvr/KuhnPoker-v0", "settings": {"opponents": ["self"]}}, "steps": 50}
    two = {**base, "self_play": {"policies": {"first": [0], "second": [1]}}}
    one, both = (plan(load_config(config), QWEN_06B, DEVICES["h100"], Assumed()) for config in (base, two))
    assert both.hours == pytest.approx(2 * one.hours, rel=0.2)  # fewer caches fit beside two policies
    stays = one.memory.weights + one.memory.moments
    assert both.needed - one.needed == pytest.approx(
        both.memory.total - both.memory.kept - both.memory.layer - both.memory.head - both.memory.gradients
    )
    assert both.needed - one.needed >= stays
    assert "learns 2 policies" in describe(both)
    assert "policies" not in describe(one)


def test_the_plan_of_measured_schedules_is_in_the_results():
    """benchmarks/schedules.py ran these; the simulation of the present code meets the committed seconds."""
    record = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "schedules.json").read_text())
    assert len(record["runs"]) >= 4
    for row in record["runs"]:
        run = dict(row["simulated"])
        turn = run.pop("turn_seconds")
        times = simulate(SimulatedRun(**run, turn_seconds=lambda active, table=turn: table))
        assert times.seconds == pytest.approx(row["seconds"], rel=0.2), row


def test_a_step_of_transformers_is_measured_and_one_of_vllm_is_not(tmp_path: Path, monkeypatch, capsys):
    asked = []

    def measured(layers: int, *, lora: bool = False) -> float:
        asked.append((layers, lora))
        return 0.025

    monkeypatch.setattr(trial, "seconds_of_a_step", measured)
    config = tmp_path / "config.yaml"
    speeds = []
    for sampler, lora in (("transformers", 0), ("transformers", 8), ("vllm", 0)):
        served = {"schedule": {"kind": "async", "correction": "tis"}} if sampler == "vllm" else {}
        text = {"model": {"name": "far/away", "lora_rank": lora}, "sampler": {"kind": sampler}, **served}
        config.write_text(json.dumps({"env": {"id": "rlvr/Calculator-v0"}, **text}))
        assert main(["plan", str(config), "--shape", SHAPE_06B]) == 0
        speeds.append(capsys.readouterr().out)
    assert asked == [(28, False), (28, True)]
    assert "25 of them Python's, measured on this machine" in speeds[0]
    assert "2 of them the engine's own, assumed" in speeds[2]


def test_a_step_takes_longer_the_more_layers_there_are():
    one, many = trial.seconds_of_a_step(1), trial.seconds_of_a_step(24)
    assert 0 < one < many
