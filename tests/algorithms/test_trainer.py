"""The loop: the same seed gives the same bytes, however the batches are cut; every preset runs or says why not."""

from __future__ import annotations

import json
import math
import shutil
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.learner.batch import TrainingBatch
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.runs.checkpoints import CheckpointError, list_checkpoints, load_checkpoint
from rlvr.algorithms.runs.run_folder import RunFolderError, read_jsonl
from rlvr.algorithms.sampling.collect import TaskOrder
from rlvr.algorithms.train.run import Trainer
from rlvr.envs import TextEnv

from .runs import CALCULATOR, GSM8K, GUESS, Callback, content, differences, small

QUICK = ("grpo", "reinforce", "reinforce_pp", "rloo", "gspo")  # of the presets; the others are slow together


def run(out: Path, *, resume: bool = False, **changes) -> Callback:
    callback = Callback()
    Trainer(small(out, **changes), callback, resume=resume).run()
    return callback


@pytest.fixture(scope="module")
def trained(guesser: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callback]:
    """A finished run that others are compared with."""
    out = tmp_path_factory.mktemp("trained") / "run"
    return out, run(out, model={"name": str(guesser)}, env={"batch_size": 256})


def test_a_run_writes_what_it_says(trained: tuple[Path, Callback]):
    out, callback = trained
    assert [name for name, _ in callback.phases] == ["warm start", "reinforcement learning"]
    records = read_jsonl(out / "metrics.jsonl")
    assert records == callback.records
    assert [record["phase"] for record in records] == (
        ["expert"] * 8 + ["mixed"] * 2 + ["evaluation"] + ["train"] * 4 + ["evaluation"]
    )
    assert [record["step"] for record in callback.of("train")] == [1, 2, 3, 4]
    assert [record["name"] for record in callback.of("evaluation")] == ["before", "after"]
    assert all(record["grad_norm"] > 0 for record in callback.of("train"))
    timing = read_jsonl(out / "timing.jsonl")
    assert [(t["phase"], t["step"]) for t in timing] == [(r["phase"], r["step"]) for r in records]
    assert all(t["seconds"] >= 0 and t["peak_mib"] > 10 for t in timing)
    assert not any("second" in name for record in records for name in record)


def test_episodes_are_the_steps_own(trained: tuple[Path, Callback]):
    out, callback = trained
    for record in callback.of("train"):
        episodes = read_episodes(out / "episodes" / f"train-{record['step']:06d}.jsonl")
        assert len(episodes) == 16
        assert sum(episode.reward for episode in episodes) / 16 == pytest.approx(record["reward"])
        groups = [{(e.seed, e.index) for e in episodes if e.group == group} for group in range(4)]
        assert [len(group) for group in groups] == [1] * 4
        assert len(set.union(*groups)) == 4
        assert {e.split for e in episodes} == {"train"}
        assert len({e.key for e in episodes}) == 16
    for name in ("before", "after"):
        for way in ("greedy", "sampled"):
            episodes = read_episodes(out / "episodes" / f"evaluation-{name}-{way}.jsonl")
            assert {e.split for e in episodes} == {"test"}
            assert len({e.index for e in episodes}) == 4


def test_no_two_steps_share_a_task(trained: tuple[Path, Callback]):
    out, _ = trained
    tasks = [
        {(e.seed, e.index) for e in read_episodes(path)} for path in sorted((out / "episodes").glob("train-*.jsonl"))
    ]
    assert len(set.union(*tasks)) == sum(map(len, tasks)) == 16


def test_the_policy_can_be_loaded_and_is_the_last_checkpoint(trained: tuple[Path, Callback]):
    out, _ = trained
    model, tokenizer = load_policy(out / "policy")
    last = load_checkpoint(list_checkpoints(out / "checkpoints")[-1])
    assert last.step == 4
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, last.model[name])
    assert tokenizer.chat_template
    assert [path.name for path in list_checkpoints(out / "checkpoints")] == [f"step-{step:06d}" for step in (0, 2, 4)]


def test_the_saved_config_is_the_runs(trained: tuple[Path, Callback], guesser: Path):
    out, _ = trained
    assert load_config(out / "config.yaml") == small(out, model={"name": str(guesser)}, env={"batch_size": 256})


# the same bytes


def test_the_same_seed_gives_the_same_run(trained: tuple[Path, Callback], guesser: Path, tmp_path: Path):
    torch.manual_seed(99)  # the process's own generators do not matter
    run(tmp_path / "again", model={"name": str(guesser)}, env={"batch_size": 256})
    assert differences(trained[0], tmp_path / "again") == []


def test_another_seed_gives_another_run(trained: tuple[Path, Callback], guesser: Path, tmp_path: Path):
    run(tmp_path / "other", model={"name": str(guesser)}, seed=1, steps=1)
    theirs, ours = content(tmp_path / "other"), content(trained[0])
    assert theirs["episodes/train-000001.jsonl"] != ours["episodes/train-000001.jsonl"]
    assert theirs["episodes/evaluation-before-greedy.jsonl"] != ours["episodes/evaluation-before-greedy.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 5])
def test_how_many_episodes_are_under_way_does_not_show(
    trained: tuple[Path, Callback], guesser: Path, tmp_path: Path, batch_size: int
):
    """The same tokens and rewards; log-probabilities agree to rounding, as batches of other shapes are multiplied."""
    run(tmp_path / "run", model={"name": str(guesser)}, env={"batch_size": batch_size}, steps=1)
    for path in sorted((tmp_path / "run" / "episodes").iterdir()):
        if "after" in path.name:
            continue
        ours, theirs = (read_episodes(folder / "episodes" / path.name) for folder in (tmp_path / "run", trained[0]))
        for one, other in zip(ours, theirs, strict=True):
            assert one.tokens.logprobs == pytest.approx(other.tokens.logprobs, abs=1e-4)
            one.tokens.logprobs = other.tokens.logprobs
            assert one == other


@pytest.mark.slow
def test_threads_that_step_environments_do_not_show(trained: tuple[Path, Callback], guesser: Path, tmp_path: Path):
    run(tmp_path / "run", model={"name": str(guesser)}, env={"workers": 3}, steps=1)
    name = "episodes/train-000001.jsonl"
    ours, theirs = (read_episodes(folder / name) for folder in (tmp_path / "run", trained[0]))
    assert [(e.key, e.tokens.ids, e.reward) for e in ours] == [(e.key, e.tokens.ids, e.reward) for e in theirs]


# tokens trained are the tokens sampled


@dataclass
class Step:
    """What the learner was given in the only step of a run, and what it said of it before it learned."""

    rows: list[TokenSequence] | None
    batch: TrainingBatch | None
    scores: list[torch.Tensor]
    episodes: list[Episode]
    callback: Callback
    trainer: Trainer


@pytest.fixture
def one_step(caller: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Plays one step of 8 groups of 4 with a policy that uses the calculator."""
    seen = []
    update = Learner.update

    def spy(learner, batch, optimiser):
        scores = learner.logprobs(batch.padded)
        lengths = batch.padded.lengths
        rows = [
            TokenSequence(
                batch.padded.ids[i, :n].tolist(),
                batch.padded.mask[i, :n].int().tolist(),
                batch.inputs.behaviour_logprobs[i, :n].tolist(),
            )
            for i, n in enumerate(lengths)
        ]
        seen.append((rows, batch, [scores[i, :n] for i, n in enumerate(lengths)]))
        return update(learner, batch, optimiser)

    monkeypatch.setattr(Learner, "update", spy)

    def play(**changes) -> Step:
        nothing = {"steps": 0, "mixed_steps": 0}
        base = {"env": {"id": CALCULATOR}, "model": {"name": str(caller)}, "warm_start": nothing, "prompts": 8}
        config = small(tmp_path / "run", **{**base, "steps": 1, "sampling": {"max_new_tokens": 24}, **changes})
        trainer = Trainer(config, callback := Callback())
        trainer.run()
        assert len(seen) <= 1
        rows, batch, scores = seen[0] if seen else (None, None, [])
        episodes = read_episodes(tmp_path / "run" / "episodes" / "train-000001.jsonl")
        shutil.rmtree(tmp_path / "run")
        seen.clear()
        return Step(rows, batch, scores, episodes, callback, trainer)

    return play


def test_what_is_trained_is_what_was_sampled(one_step):
    step = one_step()
    with_tools = [e for e in step.episodes if "tool" in [turn.role for turn in e.turns]]
    assert len(with_tools) >= 4
    assert len(step.rows) == 32
    renderer = Renderer(step.trainer.tokenizer)
    for episode, sequence, score in zip(step.episodes, step.rows, step.scores, strict=True):
        assert (sequence.ids, sequence.mask) == (episode.tokens.ids, episode.tokens.mask)
        runs = sampled_runs(sequence.ids, sequence.mask)
        spoken = [turn for turn in episode.turns if turn.stop != "context"]
        assert len(runs) == len(spoken)
        for ids, turn in zip(runs, spoken, strict=True):  # each reply with its end, and nothing around it
            ended = ids[-1] in renderer.end_ids
            assert ended == (turn.stop == "stop")
            assert renderer.decode(ids[:-1] if ended else ids) == turn.action
        context = renderer.decode([i for i, m in zip(sequence.ids, sequence.mask, strict=True) if not m])
        for turn in spoken:
            assert turn.observation in context, "prompts and tool output are there, and not trained"
        mask = torch.tensor(sequence.mask, dtype=torch.bool)
        recorded = torch.tensor(sequence.logprobs)
        torch.testing.assert_close(score[mask], recorded[mask], rtol=0, atol=1e-4)
        assert not recorded[~mask].any()
        assert not score[~mask].any()


def sampled_runs(ids: list[int], mask: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    before = 0
    for token, sampled in zip(ids, mask, strict=True):
        if sampled and not before:
            runs.append([])
        if sampled:
            runs[-1].append(token)
        before = sampled
    return runs


def test_a_broken_environment_never_enters_the_update(one_step, monkeypatch: pytest.MonkeyPatch):
    whole = one_step().episodes
    step = TextEnv.step
    task = next((e.seed, e.index) for e in whole if e.group == 3)

    def fails(self, action):
        if (self._identity["seed"], self._identity["index"]) == task:
            raise RuntimeError("the tool has died")
        return step(self, action)

    monkeypatch.setattr(TextEnv, "step", fails)
    broken = one_step()
    (record,) = broken.callback.of("train")
    assert record["invalid"] == 4
    assert record["statuses"]["env_error"] == 4
    assert 3 not in broken.batch.inputs.group.tolist()
    assert [sequence.ids for sequence in broken.rows] == [e.tokens.ids for e in whole if e.group != 3]


@pytest.mark.parametrize("how", ["raises", "gives NaN", "gives infinity"])
def test_when_every_environment_breaks_no_step_is_taken(one_step, monkeypatch: pytest.MonkeyPatch, how: str):
    step = TextEnv.step

    def fails(self, action):
        if how == "raises":
            raise RuntimeError("the tool has died")
        observation, _, *rest = step(self, action)
        return observation, math.nan if how == "gives NaN" else math.inf, *rest

    monkeypatch.setattr(TextEnv, "step", fails)
    broken = one_step()
    assert broken.rows is None
    assert broken.trainer.optimiser.steps == 0
    (record,) = broken.callback.of("train")
    assert (record["invalid"], record["reward"]) == (32, 0.0)


@pytest.mark.slow
def test_a_tool_that_hangs_costs_its_own_episodes_alone(one_step, monkeypatch: pytest.MonkeyPatch):
    whole = one_step().episodes
    step, hung = TextEnv.step, threading.Event()
    task = next((e.seed, e.index) for e in whole if e.group == 3)

    def hangs(self, action):
        if (self._identity["seed"], self._identity["index"]) == task:
            hung.wait(600)
        return step(self, action)

    monkeypatch.setattr(TextEnv, "step", hangs)
    try:
        broken = one_step(env={"id": CALCULATOR, "timeout": 1.0})
    finally:
        hung.set()
    (record,) = broken.callback.of("train")
    assert record["statuses"]["timeout"] == record["invalid"] == 4
    assert 3 not in broken.batch.inputs.group.tolist()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_no_numbers_are_named_before_anything_is_sampled(tmp_path, guesser, monkeypatch, bad: float):
    trainer = Trainer(small(tmp_path / "run", model={"name": str(guesser)}), Callback())
    name, parameter = list(trainer.model.named_parameters())[3]
    with torch.no_grad():
        parameter.view(-1)[5] = bad
    monkeypatch.setattr(TransformersAgent, "act", lambda *_: pytest.fail("sampled with weights that are no numbers"))
    with pytest.raises(FloatingPointError, match=rf"1 of {parameter.numel()} weights of {name} are NaN or infinite"):
        trainer.run()


# the order of tasks


class Table:
    size = 5


def test_a_table_is_read_in_a_new_shuffle_each_time_through():
    order = TaskOrder(Table(), "train", 0)
    requests = [order.request(place, salt="step 0") for place in range(15)]
    epochs = [[r.index for r in requests[start : start + 5]] for start in (0, 5, 10)]
    assert all(sorted(epoch) == list(range(5)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    keys = {request.key("env") for request in requests}
    assert len(keys) == 15, "a row that comes twice in one step is sampled anew"
    again = TaskOrder(Table(), "train", 0)
    assert [again.request(place, salt="step 0") for place in reversed(range(15))] == requests[::-1]
    assert [TaskOrder(Table(), "train", 1).request(p, salt="").index for p in range(15)] != [r.index for r in requests]
    assert TaskOrder(Table(), "evaluation", 0).seed != order.seed


def test_generated_tasks_never_come_again():
    class Endless:
        size = None

    order = TaskOrder(Endless(), "train", 0)
    assert [order.request(place, salt="").index for place in range(9)] == list(range(9))


def test_more_prompts_than_sequences(guesser: Path, tmp_path: Path, rows: Path, monkeypatch):
    monkeypatch.setenv("RLVR_DATA", str(rows))
    run(tmp_path / "run", model={"name": str(guesser)}, env={"id": GSM8K}, prompts=16, steps=1)
    episodes = read_episodes(tmp_path / "run" / "episodes" / "train-000001.jsonl")
    assert len({e.key for e in episodes}) == 64
    assert len({e.index for e in episodes}) == 7
    assert len({tuple(e.tokens.ids) for e in episodes}) > 32


# presets


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PRESETS]
)
def test_every_preset_trains_or_says_what_it_needs(answerer: tuple[dict, Path], tmp_path: Path, name: str):
    """Two steps on real groups that differ in their rewards: gradients, weights that move, nothing infinite."""
    env, policy = answerer
    changes = {"env": env, "model": {"name": str(policy)}, "overrides": {}, "algorithm": name}
    gentle = {"steps": 1, "mixed_steps": 1, "lr": 1e-4, "mixed_lr": 1e-4}  # the policy answers already
    changes |= {"group_size": 6, "steps": 2, "warm_start": gentle, "evaluation": {"episodes": 1}}
    refused = None
    try:
        callback = run(tmp_path / "run", **changes)
    except ConfigError as error:
        refused = str(error)
    if refused is not None:
        assert "need" in refused
        assert name not in QUICK
        assert not (tmp_path / "run" / "metrics.jsonl").exists(), "refused when something had been spent already"
        return
    first, second = callback.of("train")
    assert any(record["groups_with_signal"] > 0 for record in (first, second))
    assert any(record.get("grad_norm", 0) > 0 for record in (first, second))
    assert not first.get("refused")
    assert not second.get("refused")
    assert all(math.isfinite(value) for record in (first, second) for value in record.values() if is_number(value))
    before, after = (
        load_file(tmp_path / "run" / "checkpoints" / f"step-00000{step}" / "model.safetensors") for step in (0, 2)
    )
    moved = max(float((after[key] - before[key]).abs().max()) for key in before)
    assert 0 < moved < 0.1


def is_number(value: object) -> bool:
    return isinstance(value, float | int)


def test_a_group_too_small_for_the_preset_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="group_size 3"):
        Trainer(small(tmp_path / "run", algorithm="passk", overrides={}, group_size=3), Callback())
    assert not (tmp_path / "run").exists()


def test_the_kl_in_the_reward_reaches_the_advantages(one_step):
    step = one_step(algorithm="rloo", overrides={"kl_coef": 0.5}, warm_start={"steps": 0, "mixed_steps": 0})
    rows, rewards = step.batch.inputs, torch.tensor([e.reward for e in step.episodes])
    assert rows.ref_logprobs is not None
    kl = (rows.old_logprobs - rows.ref_logprobs).sum(1)
    shaped = rewards - 0.5 * kl
    for place, episode in enumerate(step.episodes):
        others = [i for i, e in enumerate(step.episodes) if e.group == episode.group and i != place]
        assert float(rows.advantages[place]) == pytest.approx(float(shaped[place] - shaped[others].mean()), abs=1e-5)


def test_the_reference_is_the_policy_that_reinforcement_learning_began_with(
    answerer: tuple[dict, Path], tmp_path: Path
):
    """Not the one before the warm start: the first step is at a distance of zero, later ones are not."""
    env, policy = answerer
    callback = run(tmp_path / "run", env=env, model={"name": str(policy)}, overrides={"kl_coef": 0.04}, steps=2)
    first, second = callback.of("train")
    assert first["ref_kl_k3"] == pytest.approx(0, abs=1e-9)
    assert second["ref_kl_k3"] > 1e-6


# models


@pytest.mark.slow
def test_adapters_are_all_that_is_trained_and_the_policy_has_them_merged(guesser: Path, tmp_path: Path):
    changes = {"model": {"name": str(guesser), "lora_rank": 2}, "steps": 2, "overrides": {"entropy_coef": 0.01}}
    run(tmp_path / "run", **changes)
    adapters = load_checkpoint(list_checkpoints(tmp_path / "run" / "checkpoints")[-1]).model
    downs = {name.split("base_model.model.")[1]: down for name, down in adapters.items() if ".lora_A." in name}
    assert len(downs) * 2 == len(adapters)
    before, after = (load_file(folder / "model.safetensors") for folder in (guesser, tmp_path / "run" / "policy"))
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name.replace(".lora_A.default", "") for name in downs}
    for name, down in downs.items():
        up = adapters[f"base_model.model.{name}".replace("lora_A", "lora_B")]
        weight = name.replace(".lora_A.default", "")
        torch.testing.assert_close(after[weight], before[weight] + 2 * up @ down, atol=1e-6, rtol=1e-5)


@pytest.mark.slow
def test_a_policy_in_half_precision_trains(tmp_path: Path, guesser: Path):
    callback = run(tmp_path / "run", model={"name": str(guesser), "dtype": "bfloat16"}, steps=2)
    assert all(record["refused"] == 0 and record["grad_norm"] > 0 for record in callback.of("train"))


def test_the_tiny_policy_is_made_from_the_seed(tmp_path: Path):
    for seed in (0, 1):
        run(tmp_path / str(seed), seed=seed, steps=0, warm_start={"steps": 0, "mixed_steps": 0})
    zero, one = (load_file(tmp_path / seed / "policy" / "model.safetensors") for seed in "01")
    assert not torch.equal(zero["model.embed_tokens.weight"], one["model.embed_tokens.weight"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"name": "/no/such/folder"}, "is no folder"),
        ({"device": "cuda:99"}, "GPU"),
        ({"device": "toaster"}, "toaster"),
    ],
)
def test_a_model_that_cannot_be_had_leaves_no_run(tmp_path: Path, model: dict, words: str):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        Trainer(small(tmp_path / "run", model=model), Callback())
    run(tmp_path / "run", steps=0, warm_start={"steps": 0, "mixed_steps": 0})  # the folder is still free


@pytest.mark.parametrize(
    "env", [{"id": "rlvr/Nothing-v0"}, {"level": 99}, {"split": "dev"}, {"settings": {"colour": "red"}}]
)
def test_an_environment_that_cannot_be_had_leaves_no_run(tmp_path: Path, env: dict):
    with pytest.raises(Exception, match=r"Nothing|level|split|colour") as caught:
        Trainer(small(tmp_path / "run", env=env), Callback())
    assert not isinstance(caught.value, AssertionError | AttributeError | KeyError)
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["lock"]


# going on


def test_a_finished_run_gone_on_with_stays_as_it_is(trained: tuple[Path, Callback], guesser: Path, tmp_path: Path):
    out, _ = trained
    before = content(out)
    config = load_config(out / "config.yaml")
    results = Trainer(config, callback := Callback(), resume=True).run()
    assert content(out) == before
    assert callback.records == []
    assert set(results) == {f"{name} {way}" for name in ("before", "after") for way in ("greedy", "sampled")}
    with pytest.raises(RunFolderError, match="not empty"):
        Trainer(config, Callback())


def test_a_checkpoint_of_another_model_is_refused(guesser: Path, tmp_path: Path):
    run(tmp_path / "run", model={"name": str(guesser)}, steps=2)
    config = small(tmp_path / "run", model={"name": str(guesser), "lora_rank": 2}, steps=2)
    with pytest.raises(ConfigError, match="another model"):
        Trainer(config, Callback(), resume=True).run()


@pytest.mark.slow
def test_adapters_do_not_go_on_with_other_weights_below_them(guesser: Path, tmp_path: Path):
    """Checkpoints of adapters hold the adapters alone: what is below them is read from model.name again."""
    base = tmp_path / "base"
    shutil.copytree(guesser, base)
    settings: dict = {"model": {"name": str(base), "lora_rank": 2}, "warm_start": {"steps": 0, "mixed_steps": 0}}
    Trainer(small(tmp_path / "run", steps=1, **settings), Callback()).run()
    weights = load_file(base / "model.safetensors")
    weights["model.norm.weight"] = weights["model.norm.weight"] * 1.01
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    longer = small(tmp_path / "run", steps=2, **settings)
    with pytest.raises(CheckpointError, match=r"model\.name: the weights of .*base are not those"):
        Trainer(longer, Callback(), resume=True).run()
    shutil.copyfile(guesser / "model.safetensors", base / "model.safetensors")
    Trainer(longer, Callback(), resume=True).run()


def test_evaluations_come_as_often_as_asked(tmp_path: Path, guesser: Path):
    changes = {"model": {"name": str(guesser)}, "warm_start": {"steps": 0, "mixed_steps": 0}}
    callback = run(tmp_path / "run", **changes, evaluation={"episodes": 2, "every": 2}, steps=5)
    assert [(r["name"], r["step"]) for r in callback.of("evaluation")] == [
        ("before", 0), ("step 2", 2), ("step 4", 4), ("after", 5),
    ]  # fmt: skip
    assert (tmp_path / "run" / "episodes" / "evaluation-step-2-greedy.jsonl").exists()


def test_a_group_of_one_warns_and_has_no_gradient(tmp_path: Path, guesser: Path):
    changes = {"model": {"name": str(guesser)}, "warm_start": {"steps": 0, "mixed_steps": 0}, "overrides": {}}
    with pytest.warns(UserWarning, match="one sequence"):
        callback = run(tmp_path / "run", **changes, algorithm="dr_grpo", group_size=1, steps=1)
    assert callback.of("train")[0]["live_sequences"] == 0


def test_metrics_are_json_for_everybody(trained: tuple[Path, Callback]):
    out, _ = trained
    for name in ("metrics.jsonl", "timing.jsonl"):
        for line in (out / name).read_text().splitlines():
            json.loads(line, parse_constant=lambda constant: pytest.fail(constant))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_jsonl(out / "metrics.jsonl")[0]["phase"] == "expert"
    assert load_config(out / "config.yaml").env.id == GUESS
