"""`rlvr launch`: every setting is classified for every trainer, and what would change the algorithm is refused."""

from __future__ import annotations

import argparse
import dataclasses
import re
import shlex
import sys
from pathlib import Path

import pytest

from rlvr.adapters.launch import ENGINES, LaunchRefused
from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.config.flat_settings import idle_settings, plain_settings
from rlvr.algorithms.config.sections import Section
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.recipe.episode_filter import FILTERS
from rlvr.algorithms.recipe.loss_parts import Choices
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.cli import main

from .launching import BASE, EASY, accepting, config_of, launched


def refusal_of(engine, config) -> str:
    try:
        launched(engine, config)
    except LaunchRefused as refusal:
        return str(refusal)
    return ""


HOW = {"exactly", "approximately", "not at all", "not used"}
VERL_OPTIONS = "actor_rollout_ref.actor."


def fields_of_the_config() -> set[str]:
    """Read from the classes themselves: a new field is in it at once."""
    names = set()
    for name, field in TrainConfig.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            names |= {f"{name}.{inner}" for inner in section.model_fields}
        else:
            names.add(name)
    choices = {field.name for field in dataclasses.fields(Choices)} - {"name", "arxiv", "note", "filters"}
    return (names - {"overrides"}) | {f"overrides.{choice}" for choice in choices}


def test_the_plain_settings_are_all_fields_and_choices():
    assert set(plain_settings(config_of())) == fields_of_the_config()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_setting_of_every_algorithm_is_classified_or_refused_by_name(engine, algorithm):
    config = config_of(algorithm)
    refusal = refusal_of(engine, config)
    if refusal:
        assert {*re.findall(r"[a-z_]+\.[a-z_]+|\balgorithm\b|group_size", refusal)} & fields_of_the_config(), refusal
    result = accepting(engine, config)
    if result is not None:
        lines = result.translation.lines
        assert set(lines) == fields_of_the_config()
        assert {line.how for line in lines.values()} <= HOW


def test_a_setting_that_filters_alone_read_is_idle_without_one_and_so_is_a_filter_without_effect():
    assert {name for each in FILTERS.values() for name in each.reads} <= fields_of_the_config()
    refilled = idle_settings(config_of(selection={"filters": ["active_sampling", "thinking_budget"]}))
    assert "selection.max_rounds" not in refilled
    assert {"selection.retire_at", "sampling.segment", "selection.filters.thinking_budget"} <= refilled
    assert "selection.max_rounds" in idle_settings(config_of())


OTHERS = {
    "async": {"schedule": {"kind": "async", "depth": 2, "correction": "tis"}},
    "lora": {"model": {**BASE["model"], "lora_rank": 8, "dtype": "bfloat16", "float32_head": True}},
    "curriculum": {"curriculum": {"kind": "target"}, "env": {"id": "rlvr/GuessNumber-v0", "level": 3}},
    "warm start": {"warm_start": {"steps": 10, "mixed_steps": 5}},
    "random start": {"warm_start": {"random_steps": 5}},
    "moving reference": {"overrides": {"kl": "k3", "kl_in": "loss"}, "learner": {"reference_every": 50}},
    "falling kl": {"overrides": {"kl": "k3", "kl_in": "loss", "kl_coef": 0.1}, "learner": {"kl_coef_end": 0.01}},
    "average": {"learner": {"ema": 0.99}},
    "eight bits": {"learner": {"optimiser": "adamw_8bit"}},
    "panel": {"evaluation": {"panel": ["random"], "exploitability": True}},
    "thinking": {"sampling": {"max_new_tokens": 128, "max_length": 512, "thinking_budget": 64}},
    "segment": {"sampling": {"max_new_tokens": 128, "max_length": 512, "segment": 32}},
    "vllm": {"sampler": {"kind": "vllm", "options": {"gpu_memory_utilization": 0.5, "max_num_seqs": 32}}},
    "minibatches": {"learner": {"minibatches": 4, "epochs": 2, "schedule": "linear", "recompute_layers": True}},
    "filters": {"selection": {"filters": ["active_sampling", "overlong_filter", "no_positive_resampling"]}},
    "entropy": {"overrides": {"entropy_coef": 0.01}},
    "float16": {"model": {**BASE["model"], "dtype": "float16"}},
    "report": {"report_to": "wandb", "push_to_hub": "me/mine", "evaluation": {"episodes": 8, "every": 2}},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_of_other_configs_is_classified(engine, name):
    algorithm = "kimi" if name == "segment" else "dr_grpo"
    result = accepting(engine, config_of(algorithm, **OTHERS[name]))
    if result is not None:
        assert set(result.translation.lines) == fields_of_the_config()


CHANGES = {
    "curriculum": "curriculum.kind",
    "warm start": "warm_start.steps",
    "random start": "warm_start.random_steps",
    "moving reference": "learner.reference_every",
    "average": "learner.ema",
    "thinking": "sampling.thinking_budget",
    "filters": "selection.filters",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_the_algorithm_is_refused_until_it_is_accepted(engine, name):
    config, setting = config_of(EASY.get(engine, "dr_grpo"), **OTHERS[name]), CHANGES[name]
    with pytest.raises(LaunchRefused, match=setting) as refusal:
        launched(engine, config)
    assert "\n" not in str(refusal.value)
    line = accepting(engine, config).translation.lines[setting]
    assert line.consent
    assert line.note


@pytest.mark.parametrize("engine", ENGINES)
def test_accepting_what_does_not_differ_is_an_error(engine):
    with pytest.raises(LaunchRefused, match=r"learner\.lr"):
        launched(engine, config_of(EASY.get(engine, "dr_grpo")), accepted=["learner.lr"])


@pytest.mark.parametrize("engine", ENGINES)
def test_our_own_tiny_model_is_refused(engine):
    with pytest.raises(LaunchRefused, match=r"model\.name"):
        launched(engine, config_of(model={"name": "rlvr/tiny"}))


@pytest.mark.parametrize("algorithm", ["sft", "online_dpo", "verifree"])
def test_what_is_no_policy_gradient_is_refused(algorithm):
    with pytest.raises(LaunchRefused, match=f"algorithm: {algorithm}"):
        launched("verl", config_of(algorithm))


def test_more_rows_than_there_are_tasks_are_not_asked_for_and_fewer_than_a_batch_are_refused():
    assert launched("verl", config_of()).mix.train_rows == 64  # 4 steps of 16
    with pytest.raises(LaunchRefused, match="--rows 8"):
        launched("verl", config_of(), rows=8)


def verl_options(config, **options):
    return launched("verl", config, **options).translation.options


def test_verl_gets_the_algorithm_it_was_told():
    options = verl_options(config_of())
    assert options["algorithm.adv_estimator"] == "grpo"
    assert options["algorithm.norm_adv_by_std_in_grpo"] is False
    assert options[VERL_OPTIONS + "loss_agg_mode"] == "seq-mean-token-sum-norm"
    assert options[VERL_OPTIONS + "loss_scale_factor"] == 1024
    assert options[VERL_OPTIONS + "clip_ratio_c"] >= 1e9  # no second clip, which is verl's default
    assert options[VERL_OPTIONS + "use_kl_loss"] is False
    assert verl_options(config_of("grpo"))[VERL_OPTIONS + "kl_loss_coef"] == 0.04
    assert verl_options(config_of("intellect2"))[VERL_OPTIONS + "clip_ratio_c"] == 4.0
    cispo = verl_options(config_of("cispo"))
    assert 1 - cispo[VERL_OPTIONS + "clip_ratio_low"] == 0.0
    assert 1 + cispo[VERL_OPTIONS + "clip_ratio_high"] == 5.0


def test_verl_takes_the_behaviour_policy_where_the_ratio_is_to_it():
    config = config_of("prime", overrides={"clip": "ppo", "clip_low": 0.2, "ratio_min": 0.0})
    assert verl_options(config)["algorithm.rollout_correction.bypass_mode"] is True
    assert verl_options(config_of())["algorithm.rollout_correction.bypass_mode"] is False


def test_the_command_line_writes_rows_files_and_the_command(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    config = tmp_path / "mine.yaml"
    config.write_text("env: {id: rlvr/GuessNumber-v0}\nmodel: {name: Qwen/Qwen3-0.6B}\nalgorithm: dr_grpo\nsteps: 1\n")
    out = tmp_path / "out"
    assert main(["launch", "verl", str(config), "--out", str(out), "--rows", "32"]) == 0
    printed = capsys.readouterr().out
    assert "approximately" in printed
    assert {path.name for path in out.iterdir()} == {
        "train.parquet", "test.parquet", "agent_loop.yaml", "settings.txt", "launch.sh",
    }  # fmt: skip
    words = shlex.split(printed.splitlines()[-1])
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    assert shlex.join(words) in (out / "launch.sh").read_text()
    from pyarrow import parquet

    rows = parquet.read_table(out / "train.parquet").to_pylist()
    tests = parquet.read_table(out / "test.parquet").to_pylist()
    assert len(rows) == 32
    assert not {row["extra_info"]["spec"] for row in rows} & {row["extra_info"]["spec"] for row in tests}


def test_printing_writes_nothing_and_a_refusal_is_one_line(tmp_path, capsys):
    config = tmp_path / "mine.yaml"
    config.write_text("env: {id: rlvr/GuessNumber-v0}\nmodel: {name: Qwen/Qwen3-0.6B}\nalgorithm: dapo\n")
    out = tmp_path / "out"
    assert main(["launch", "verl", str(config), "--print", "--out", str(out)]) == 2
    refusal = capsys.readouterr().err
    assert refusal.count("\n") == 1
    assert "--accept selection.filters" in refusal
    assert main(["launch", "verl", str(config), "--print", "--accept", "selection.filters"]) == 0
    assert "[accepted]" in capsys.readouterr().out
    assert not out.exists()


SKYRL = "trainer.algorithm."


def options_of(engine, config, **options):
    return launched(engine, config, **options).translation.options


def test_skyrl_gets_the_algorithm_it_was_told():
    options = options_of("skyrl", config_of())
    assert options[SKYRL + "advantage_estimator"] == "grpo"
    assert options[SKYRL + "grpo_norm_by_std"] is False
    assert options[SKYRL + "loss_reduction"] == "seq_mean_token_sum_norm"
    assert options[SKYRL + "max_seq_len"] == 1024
    assert options[SKYRL + "use_kl_loss"] is False  # its default is True
    mean = options_of("skyrl", config_of("reinforce_baseline"))
    assert mean[SKYRL + "max_seq_len"] == 1  # the sum over tokens
    prime = options_of("skyrl", config_of("prime"))
    assert prime[SKYRL + "policy_loss_type"] == "rollout_is"
    assert 1 - prime[SKYRL + "eps_clip_low"] == 0.125
    assert 1 + prime[SKYRL + "eps_clip_high"] == 8.0


def test_openrlhf_and_prime_rl_get_the_algorithm_they_were_told():
    options = options_of("openrlhf", config_of("loop"))
    assert options["algo.advantage.estimator"] == "rloo"
    assert options["actor.loss_agg_mode"] == "token-mean"
    assert options["algo.kl.init_coef"] == 0
    assert options["train.batch_size"] == 16 * 8
    tis = options_of("openrlhf", config_of("tis"))
    assert tis["algo.advantage.is_correction_threshold"] == [0.0, 2.0]
    options = options_of("prime-rl", config_of("dppo"))
    assert (options["trainer.loss.dppo_mask_low"], options["trainer.loss.dppo_mask_high"]) == (0.2, 0.2)
    assert options["trainer.loss.kl_tau"] == 1e-3
    assert options["orchestrator.batch_size"] == 16 * 8
    with pytest.raises(LaunchRefused, match="to the old policy"):
        launched("prime-rl", config_of("grpo"))


def test_reinforce_carries_over_where_a_batch_has_one_update_alone():
    for engine in ("skyrl", "openrlhf"):
        for minibatches, can in ((1, True), (2, False)):
            config = config_of("reinforce_baseline", learner={"minibatches": minibatches})
            result = accepting(engine, config)
            assert (result is not None) == can, (engine, minibatches)


def test_the_toml_is_read_back_as_it_was_meant():
    import tomllib

    from rlvr.adapters.launch.prime_rl import document, toml

    config = config_of(
        "dppo",
        env={"id": "rlvr/GuessNumber-v0", "settings": {"max_turns": 3}},
        selection={"filters": ["active_sampling"]},
    )
    translation = launched("prime-rl", config).translation
    read = tomllib.loads(toml(document(translation)))
    assert read == document(translation)
    (source,) = read["orchestrator"]["train"]["source"]
    assert source["env"]["taskset"]["kwargs"] == {"level": 1, "split": "train", "max_turns": 3}
    assert source["curriculum"]["gates"]["spread"]["type"] == "advantage_range"
    (test,) = read["orchestrator"]["eval"]["source"]
    assert test["env"]["taskset"]["kwargs"]["split"] == "test"


@pytest.mark.parametrize("engine", ENGINES)
def test_each_trainer_gets_its_files(engine, tmp_path):
    pytest.importorskip("pyarrow")
    result = launched(engine, config_of(EASY.get(engine, "dr_grpo")), rows=16)
    names = {path.name for path in result.write(tmp_path)}
    assert {"settings.txt", "launch.sh"} < names
    for path in tmp_path.iterdir():
        if path.suffix == ".py":
            compile(path.read_text(), str(path), "exec")
    named = [word for word in result.command(tmp_path) if str(tmp_path) in word]
    assert named
    for word in named:
        path = re.search(re.escape(str(tmp_path)) + r"/[\w.]+", word)[0]
        assert path.rpartition("/")[2] in names, word


@pytest.mark.parametrize("engine", ENGINES)
def test_the_page_counts_the_presets_right(engine):
    page = (Path(__file__).parents[2] / "docs" / "laptop_to_cluster.md").read_text(encoding="utf-8")
    configs = [config_of(name) for name in PRESETS]
    plain = sum(not refusal_of(engine, config) for config in configs)
    more = sum(accepting(engine, config) is not None for config in configs)
    assert f"of the {len(configs)} presets" in page
    names = {"skyrl": "SkyRL", "openrlhf": "OpenRLHF"}
    row = f"| {names.get(engine, engine)} | {ENGINES[engine].tested[1]} | yes | {plain} | {more} |"
    assert row in page


# with the trainers themselves


@pytest.mark.foreign
def test_verl_composes_what_is_launched(tmp_path):
    verl = pytest.importorskip("verl")
    from hydra import compose, initialize_config_dir
    from verl.utils.config import omega_conf_to_dataclass

    configs = {name: config_of(name) for name in sorted(ALGORITHMS)}
    configs |= {name: config_of("dr_grpo", **changes) for name, changes in OTHERS.items() if name != "segment"}
    results = {name: accepting("verl", config) for name, config in configs.items()}
    assert sum(result is not None for result in results.values()) > 30
    for result in filter(None, results.values()):
        with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
            composed = compose("ppo_trainer", overrides=result.command(tmp_path)[3:])
        omega_conf_to_dataclass(composed.actor_rollout_ref.actor)
        omega_conf_to_dataclass(composed.algorithm)


def every_launch(engine, **options):
    """Each preset and each of `OTHERS` that the trainer can run."""
    configs = {name: config_of(name) for name in sorted(ALGORITHMS)}
    easy = EASY.get(engine, "dr_grpo")
    configs |= {name: config_of(easy, **changes) for name, changes in OTHERS.items() if name != "segment"}
    results = {name: accepting(engine, config, **options) for name, config in configs.items()}
    return {name: result for name, result in results.items() if result is not None}


@pytest.mark.foreign
def test_skyrl_reads_what_is_launched(tmp_path):
    config = pytest.importorskip("skyrl.train.config")
    launches = every_launch("skyrl")
    assert len(launches) > 25
    for result in launches.values():
        read = config.SkyRLTrainConfig.from_cli_overrides(result.command(tmp_path)[2:])
        assert read.data.train_data == [str(tmp_path / "train.parquet")]


@pytest.mark.foreign
def test_openrlhf_reads_what_is_launched(tmp_path, monkeypatch):
    pytest.importorskip("openrlhf")
    import ast
    import importlib.util
    from datetime import datetime

    # its main guard parses and checks; the imports above it are of the trainer, which needs a GPU
    source = Path(importlib.util.find_spec("openrlhf").origin).with_name("cli") / "train_ppo_ray.py"
    guard = [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.If)][-1]
    code = compile(ast.Module(guard.body, []), str(source), "exec")
    launches = every_launch("openrlhf")
    assert len(launches) > 25
    for result in launches.values():
        found = []
        monkeypatch.setattr(sys, "argv", ["train_ppo_ray", *result.command(tmp_path)[3:]])
        exec(code, {"argparse": argparse, "datetime": datetime, "train": found.append})
        assert found[0].data.prompt_dataset == str(tmp_path / "train.jsonl")


@pytest.mark.foreign
def test_prime_rl_reads_what_is_launched():
    """Its `prime-rl-configs` is on no package index: put its folder on the path of an environment with verifiers."""
    rl = pytest.importorskip("prime_rl.configs.rl")
    import tomllib

    from rlvr.adapters.launch.prime_rl import document

    recipe = Path(__file__).parents[2] / "examples" / "verifiers" / "prime_rl.toml"
    read = rl.RLConfig(**tomllib.loads(recipe.read_text(encoding="utf-8")))
    assert [source.name for source in read.orchestrator.train.source] == ["guess-number"]

    launches = every_launch("prime-rl")
    assert len(launches) > 5
    for result in launches.values():
        read = rl.RLConfig(**document(result.translation))
        assert read.orchestrator.group_size == result.translation["group_size"]


@pytest.mark.foreign
def test_verls_losses_have_the_gradient_of_our_presets(tmp_path):
    """In float64, with observations in the middle of sequences: for each preset whose loss is called exact."""
    verl = pytest.importorskip("verl")
    import torch
    from hydra import compose, initialize_config_dir
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.utils.config import omega_conf_to_dataclass

    from rlvr.algorithms.losses.policy import policy_loss

    from ..algorithms.cases import make

    compared = []
    for name in PRESETS:
        result = accepting("verl", config_of(name))
        loss = ("overrides.clip", "overrides.aggregation", "overrides.ratio_level", "overrides.behaviour_penalty")
        if result is None or any(result.translation.lines[setting].consent for setting in loss):
            continue
        with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
            composed = compose("ppo_trainer", overrides=result.command(tmp_path)[3:])
        actor = omega_conf_to_dataclass(composed.actor_rollout_ref.actor)
        actor.global_batch_info.update(loss_scale_factor=actor.loss_scale_factor)
        preset = PRESETS[name].replace(kl="none", kl_in="loss", kl_coef=0.0, corrections=(), entropy_coef=0.0)
        for kind in ("plain", "ragged", "tools"):
            batch = make(kind)
            new, mask, advantages = batch["new"], batch["mask"], batch["advantages"]
            ours, _ = policy_loss(new, batch | {"max_length": 1024}, preset)
            (expected,) = torch.autograd.grad(ours, new)
            clean = {
                key: torch.where(mask, batch[key].detach(), -1.0) for key in ("old_logprobs", "behaviour_logprobs")
            }
            bypass = composed.algorithm.rollout_correction.bypass_mode
            theirs = torch.where(mask, new.detach(), -1.0).requires_grad_()
            value, _ = get_policy_loss_fn(actor.policy_loss.loss_mode)(
                old_log_prob=clean["behaviour_logprobs" if bypass else "old_logprobs"],
                log_prob=theirs,
                advantages=advantages[:, None] * mask,
                response_mask=mask.double(),
                loss_agg_mode=actor.loss_agg_mode,
                config=actor,
            )
            (found,) = torch.autograd.grad(value, theirs)
            assert torch.allclose(found * mask, expected * mask, atol=1e-9), (name, kind)
        compared.append(name)
    assert len(compared) > 15, compared


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_of_several_policies_is_refused(engine):
    env = {"id": "rlvr/KuhnPoker-v0", "settings": {"opponents": ["self"]}}
    config = config_of(EASY.get(engine, "dr_grpo"), env=env, self_play={"policies": {"first": [0], "second": [1]}})
    with pytest.raises(ValueError, match="the opponent 'self' is played where a policy is trained"):
        launched(engine, config)
