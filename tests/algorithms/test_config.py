"""The config: one model for YAML, flags and Python; what is wrong is said in one line."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from rlvr.algorithms.config import ConfigError, Section, TrainConfig, load_config, read_yaml, to_yaml
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.runs.run_folder import RunFolder
from rlvr.algorithms.train.backends import load_model
from rlvr.cli.train_command import parse

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = [path for path in sorted(FOLDER.glob("*.yaml")) if "\nenv:" in path.read_text(encoding="utf-8")]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# precedence


def test_without_anything_there_are_the_defaults():
    assert parse([]) == (TrainConfig(), False)
    assert load_config({}) == TrainConfig()


def test_flags_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path):
    file = write(tmp_path / "c.yaml", "steps: 7\nseed: 3\nlearner: {lr: 1.0e-4, epochs: 2}\nenv: {level: 2}\n")
    config, _ = parse(["--config", str(file), "--steps", "9", "--learner.epochs=4", "--learner.max-grad-norm", "0.5"])
    assert (config.steps, config.seed, config.prompts) == (9, 3, TrainConfig().prompts)
    learner = config.learner
    assert (learner.lr, learner.epochs, learner.max_grad_norm, learner.warmup_steps) == (1e-4, 4, 0.5, 5)
    assert (config.env.level, config.env.id) == (2, TrainConfig().env.id)
    assert type(config) is TrainConfig


def test_every_kind_of_value_can_be_a_flag():
    config, _ = parse(
        ["--env.system", "false", "--env.settings", '{"prompt_style": "tags"}', "--overrides", "kl_coef=0.1",
         "--learner.betas", "0.8,0.9", "--learner.schedule", "linear", "--out", "some where/run", "--env.id", "a/b-v0"]
    )  # fmt: skip
    assert config.env.system is False
    assert config.env.settings == {"prompt_style": "tags"}
    assert config.preset().kl_coef == 0.1
    assert config.learner.betas == (0.8, 0.9)
    assert config.out == Path("some where/run")


def test_the_environment_of_the_process_is_not_a_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("STEPS", "99")
    monkeypatch.setenv("LEARNER__LR", "99")
    monkeypatch.chdir(tmp_path)
    write(tmp_path / ".env", "STEPS=98\n")
    assert parse([])[0] == TrainConfig()


# what is wrong


WRONG = [
    ({"stepz": 3}, "stepz: there is no such field; did you mean 'steps'?"),
    ({"learner": {"learning_rate": 1}}, "learner.learning_rate: there is no such field"),
    ({"learner": {"epoch": 1}}, "did you mean 'epochs'?"),
    ({"steps": -1}, "steps: Input should be greater than or equal to 0, got -1"),
    ({"steps": "many"}, "steps: Input should be a valid integer"),
    ({"learner": {"lr": 0}}, "learner.lr: Input should be greater than 0, got 0"),
    ({"learner": {"betas": [0.9]}}, "learner.betas"),
    ({"env": 3}, "env"),
    ({"env": {"settings": {"level": 3}}}, "give it as env.level"),
    ({"model": {"dtype": "int8"}}, "model.dtype"),
    ({"algorithm": "gpro"}, "no algorithm 'gpro'; did you mean"),
    ({"learner": {"lr": math.inf}}, "learner.lr: Input should be a finite number, got inf"),
    ({"group_size": 10**12}, "group_size: Input should be less than or equal to 1000000, got 1000000000000"),
    ({"steps": True}, "steps: Input should not be yes or no, got True"),
    ({"overrides": {"kl_coef": True}}, "overrides.kl_coef: Input should not be yes or no, got True"),
    ({"overrides": {"kl_coef": math.nan}}, "kl_coef must be a finite number, not nan"),
    ({"overrides": {"observation_coef": math.inf}}, "observation_coef must be a finite number, not inf"),
    ({"algorithm": "GRPO"}, "no algorithm 'GRPO'; did you mean 'grpo'?"),
    ({"overrides": {"kl_cof": 1}}, "overrides.kl_cof: a preset has no such choice; did you mean 'kl_coef'?"),
    ({"overrides": {"kl_coef": "much"}}, "overrides.kl_coef: Input should be a valid number"),
    ({"overrides": {"kl_coef": -1}}, "KL coefficient"),
    ({"overrides": {"clip": "soft"}}, "clip"),
    ({"overrides": {"name": "mine"}}, "overrides.name"),
    ({"prompts": 2, "learner": {"minibatches": 3}}, "3 minibatches cannot be cut from 2 groups"),
    ({"sampling": {"max_length": 10, "max_new_tokens": 10}}, "sampling.max_length must leave room"),
    ({"learner": {"lr": math.nan}}, "learner.lr"),
    ({"sampling": {"temperature": 0}}, "sampling.temperature"),
]


@pytest.mark.parametrize(("fields", "words"), WRONG, ids=[words[:30] for _, words in WRONG])
def test_what_is_wrong_is_said_in_one_line(fields: dict[str, Any], words: str, tmp_path: Path):
    with pytest.raises(ConfigError) as from_python:
        load_config(fields)
    with pytest.raises(ConfigError) as from_file:
        parse(["--config", str(write(tmp_path / "c.yaml", yaml.safe_dump(fields)))])
    for caught in (from_python, from_file):
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--stepz", "3"], "did you mean --steps?"),
        (["--learner.epoch", "3"], "did you mean --learner.epochs?"),
        (["--steps"], "expected one argument"),
        (["--steps", "x"], "steps: Input should be a valid integer"),
        (["--learner.lr=-1"], "learner.lr: Input should be greater than 0"),
        (["--config", "/no/such.yaml"], "cannot read the config /no/such.yaml"),
        (["loose"], "unrecognized arguments: loose"),
        (["--resume"], "--resume takes --out FOLDER"),
        (["--resume", "--out", "x", "--lr", "3"], "and nothing else"),
        (["--resume", "--out", "x", "--steps", "many"], "and nothing else"),
        (["--resume", "--config", "x", "--out", "y"], "and nothing else"),
        (["--resume", "--out", "/no/such"], "/no/such holds no run to go on with"),
    ],
)
def test_wrong_flags(flags: list[str], words: str):
    with pytest.raises(ConfigError, match=re.escape(words)):
        parse(flags)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1\n- 2\n", "must be a mapping of fields, not list"),
        ("steps: [", "cannot read the config"),
        ("\x00", "cannot read the config"),
        ("steps: !!python/object/apply:os.mkdir [ran]\n", "cannot read the config"),
        ("_env_file: /etc/passwd\n", "_env_file: there is no such field"),
        ("_cli_settings_source: 3\n", "there is no such field"),
        ("1: 2\n", "1: there is no such field"),
        ("model_config: {}\n", "there is no such field"),
    ],
)
def test_hostile_files(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "c.yaml", text)
    for read in (lambda: read_yaml(file), lambda: load_config(file), lambda: parse(["--config", str(file)])):
        with pytest.raises(ConfigError, match=re.escape(words)):
            read()
    assert not (tmp_path / "ran").exists()


def bomb(levels: int, copies: int = 9) -> str:
    """Each level is a list of copies of the one before: few bytes, ``copies ** levels`` values."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * copies)}]" for n in range(1, levels))]
    return "env: {settings: {" + ", ".join(lines) + "}}\n"


BOMBS = {
    "aliases": (bomb(9), "with its aliases written out it holds over 20,000 values"),
    "merges": (bomb(9).replace("[", "{k: [").replace("]", "]}"), "with its aliases written out it holds over"),
    "a chain of aliases": (bomb(100, 1), "with its aliases written out it is over 30 deep"),
    "an alias of itself": ("env: {settings: &a {b: *a}}\n", "an alias stands for what it is a part of"),
    "lists": ("env: {settings: {a: " + "[" * 40 + "]" * 40 + "}}\n", "nested more than 30 deep"),
    "lists to the end of the stack": ("a: " + "[" * 90_000 + "]" * 90_000, "nested more than 30 deep"),
    "length": ("# " + "x" * 300_000, "it has over 200,000 characters"),
    "digits": ("steps: " + "9" * 10_000, "cannot read the config"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_becomes_large_is_one_sentence(tmp_path: Path, name: str):
    text, words = BOMBS[name]
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        read_yaml(write(tmp_path / "c.yaml", text))
    assert "\n" not in str(caught.value)


def test_aliases_of_a_modest_size_are_read(tmp_path: Path):
    """The control: what a person shares between two fields, merged too."""
    text = "learner: &l {lr: 1.0e-4}\ncritic: {<<: *l, width: 32}\nenv: {settings: {a: &a [1, 2], b: *a}}\n"
    config = load_config(write(tmp_path / "c.yaml", text))
    assert (config.learner.lr, config.critic.lr, config.critic.width) == (1e-4, 1e-4, 32)
    assert config.env.settings == {"a": [1, 2], "b": [1, 2]}
    read_yaml(write(tmp_path / "c.yaml", bomb(4)))


def test_a_flag_that_is_nested_deep_is_one_sentence():
    for depth in (1_000, 100_000):
        with pytest.raises(ConfigError, match="recursion"):
            parse(["--env.settings", '{"a": ' + "[" * depth + "]" * depth + "}"])


def test_a_file_that_is_no_text_and_an_empty_one(tmp_path: Path):
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot read"):
        read_yaml(tmp_path / "c.yaml")
    assert load_config(write(tmp_path / "empty.yaml", "# nothing\n")) == TrainConfig()


# there and back


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"learner": {"betas": [0.5, 0.6], "lr": 1e-7}, "out": "a b/ü", "env": {"settings": {"data_files": {"x": [1]}}}},
        {"overrides": {"ratio_max": math.inf}, "algorithm": "prime"},
        {"overrides": {"corrections": [{"kind": "tis", "high": 3.0}]}},
        {"model": {"template_options": {"enable_thinking": False}}, "seed": 2**40},
    ],
)
def test_a_saved_config_reads_back_as_the_same(fields: dict[str, Any], tmp_path: Path):
    config = load_config(fields)
    file = write(tmp_path / "config.yaml", to_yaml(config))
    assert load_config(file) == config
    assert parse(["--config", str(file)])[0] == config
    assert to_yaml(load_config(file)) == to_yaml(config)
    assert load_config(file).preset() == config.preset()


def test_numbers_that_yaml_takes_for_text_are_numbers(tmp_path: Path):
    config = load_config(write(tmp_path / "c.yaml", "learner: {lr: 1e-4}\noverrides: {kl_coef: 1e-3}\n"))
    assert config.learner.lr == 1e-4
    assert config.preset().kl_coef == 1e-3


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_can_be_read_and_their_words_are_tokens(path: Path):
    config = load_config(path)
    assert load_config({**yaml.safe_load(to_yaml(config))}) == config
    if config.model.words:
        _, tokenizer = load_model(config)
        assert {len(tokenizer.encode(word, add_special_tokens=False)) for word in config.model.words} == {1}


def test_presets_have_configs_or_reasons():
    refused = {}
    for name in PRESETS:
        try:
            assert load_config({"algorithm": name}).preset() == PRESETS[name]
        except ConfigError as error:
            refused[name] = str(error)
    assert all("need" in reason for reason in refused.values())
    assert len(refused) <= 3


# resume


@pytest.mark.parametrize("how", ["--out X", "--out=X"])
def test_a_run_is_gone_on_with_by_its_own_config(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = RunFolder(tmp_path / "moved")
    folder.write_config(to_yaml(load_config({"steps": 3, "out": "where/it/was"})))
    folder.close()
    config, resume = parse(["--resume", *how.replace("X", str(tmp_path / "moved")).split()])
    assert resume
    assert (config.steps, config.out) == (3, tmp_path / "moved")


# help


def fields(section: type[BaseModel], prefix: str = "") -> list[tuple[str, str | None, bool]]:
    """(flag, help, whether it is a section) of every field."""
    found = []
    for name, field in section.model_fields.items():
        kind = field.annotation
        nested = isinstance(kind, type) and issubclass(kind, Section)
        found.append((f"{prefix}{name}".replace("_", "-"), field.description, nested))
        if nested:
            found += fields(kind, f"{prefix}{name}.")
    return found


def test_help_explains_every_field(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        parse(["--help"])
    assert stop.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    for flag, text, section in fields(TrainConfig):
        if section:
            continue
        assert f"--{flag} " in said, f"--{flag} is not shown"
        assert text, f"--{flag} has no help"
        assert " ".join(text.split()) in said, f"the help of --{flag} is not shown"


def test_help_comes_first(capsys: pytest.CaptureFixture[str]):
    for arguments in (["--resume", "-h"], ["--steps", "3", "--help"]):
        with pytest.raises(SystemExit) as stop:
            parse(arguments)
        assert stop.value.code == 0
        assert "--learner.lr" in capsys.readouterr().out
