"""`rlvr eval` of a run's folder plays the policy as the run's own evaluations do, unless flags say otherwise."""

from __future__ import annotations

import argparse
import contextlib
import json

import pytest

from rlvr.cli import main
from rlvr.cli.eval_agents import DEFAULTS, config_of, env_settings, run_folder, take_sampling

SEVEN = """
env:
  id: rlvr/Dataset-v0
  system: false
  settings: {{data_files: {rows}, columns: {{question: q, answer: a}}, grader: number}}
model: {{name: rlvr/tiny, hidden: 32, layers: 1}}
sampling: {{max_new_tokens: 24, max_length: 96}}
warm_start: {{steps: 60, lr: 0.003}}
steps: 0
evaluation: {{episodes: 4}}
"""


def options(**given):
    return argparse.Namespace(
        **{"agent": None, "model": None, "vllm": None, "endpoint": None, **dict.fromkeys(DEFAULTS), **given}
    )


@pytest.fixture
def run(tmp_path):
    """A folder like that of a run, with any fields in its config."""

    def make(name="run", **fields):
        folder = tmp_path / name
        (folder / "policy").mkdir(parents=True)
        (folder / "config.yaml").write_text(json.dumps(fields), encoding="utf-8")
        return folder

    return make


def test_the_folder_of_a_run_and_of_its_policy_are_the_run(run, monkeypatch):
    folder = run()
    assert run_folder(str(folder)) == folder
    assert run_folder(str(folder / "policy")) == folder
    monkeypatch.chdir(folder / "policy")
    assert run_folder(".") == folder
    assert run_folder("rlvr/tiny") is None
    assert config_of(options(model=str(folder), endpoint="http://localhost:1")) is None  # there it is only a name


def test_what_decides_a_reply_is_taken_from_the_run(run):
    folder = run(
        env={"system": False},
        sampling={"max_new_tokens": 24, "max_length": 96, "thinking_budget": 10, "thinking_phrase": "qwen3"},
        model={"dtype": "bfloat16", "template_options": {"enable_thinking": False}, "float32_head": True},
    )
    one = options(model=str(folder))
    taken = take_sampling(one, config_of(one))
    assert (one.no_system, one.max_new_tokens, one.max_length, one.dtype) == (True, 24, 96, "bfloat16")
    assert (one.template_options, one.float32_head) == ({"enable_thinking": False}, True)
    assert (one.thinking_budget.low, one.thinking_budget.high, one.thinking_budget.phrase) == (10, 10, "qwen3")
    for part in ("without the system prompt", "max_new_tokens 24", "max_length 96", "enable_thinking", "bfloat16"):
        assert part in ", ".join(taken)


def test_flags_win_over_the_run(run):
    config = {"env": {"system": False}, "sampling": {"max_new_tokens": 24, "max_length": 96, "thinking_budget": 10}}
    one = options(model=str(run(**config)), no_system=False, max_new_tokens=200, dtype="float16")
    taken = take_sampling(one, config_of(one))
    assert (one.no_system, one.max_new_tokens, one.dtype) == (False, 200, "float16")
    assert one.max_length is None  # 96 was chosen for replies of 24
    short = options(model=one.model, max_new_tokens=8)
    take_sampling(short, config_of(short))
    assert (short.max_new_tokens, short.thinking_budget) == (8, None)
    assert not [text for text in taken if "system" in text or "max_" in text or "dtype" in text]


def test_a_model_that_is_no_runs_has_the_defaults():
    one = options(model="rlvr/tiny")
    assert take_sampling(one, config_of(one)) == []
    assert {name: getattr(one, name) for name in DEFAULTS} == DEFAULTS


def test_the_environment_is_that_of_the_run(run, capsys):
    config = config_of(
        options(model=str(run(env={"id": "rlvr/Countdown-v0", "level": 3, "settings": {"tools": ["calculator"]}})))
    )
    trained = {"level": 3, "tools": ["calculator"]}
    assert env_settings([config, None], "rlvr/Countdown-v0", {}) == trained
    assert env_settings([config], "rlvr:rlvr/Countdown-v0", {}) == trained
    assert env_settings([config], "rlvr/Countdown-v0", {"level": 1}) == {"tools": ["calculator"]}
    assert env_settings([config], "rlvr/Zebra-v0", {}) == {}
    other = config_of(options(model=str(run("other", env={"id": "rlvr/Countdown-v0", "level": 2}))))
    assert env_settings([config, other], "rlvr/Countdown-v0", {}) == {}
    assert "different settings" in capsys.readouterr().err


def test_opponents_that_are_models_stay_in_training(run):
    opponents = {"opponents": ["self", "random"]}
    config = config_of(options(model=str(run(env={"id": "rlvr/TicTacToeDuel-v0", "settings": opponents}))))
    assert env_settings([config], "rlvr/TicTacToeDuel-v0", {}) == {"opponents": ["random"], "rounds": 1}


def test_a_config_that_cannot_be_read_is_one_sentence(run):
    folder = run(nonsense=1)
    with pytest.raises(ValueError, match=r"does not say how .* was trained"):
        config_of(options(model=str(folder)))


@pytest.mark.slow
def test_a_run_solves_what_it_was_trained_on(tmp_path, capsys):
    for split in ("train", "test"):
        lines = [json.dumps({"q": f"{number} {split}", "a": 7}) + "\n" for number in range(10)]
        (tmp_path / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "seven.yaml").write_text(SEVEN.format(rows=tmp_path), encoding="utf-8")
    folder = tmp_path / "run"
    assert main(["train", "--config", str(tmp_path / "seven.yaml"), "--out", str(folder)]) == 0
    for name in (folder, folder / "policy"):
        capsys.readouterr()
        assert main(["eval", "--env", "Dataset", "--model", str(name)]) == 0
        printed = capsys.readouterr()
        assert "success 10/10" in printed.out
        assert "split test" in printed.out
        assert "as it was trained: without the system prompt, max_new_tokens 24, max_length 96" in printed.err
    assert main(["eval", "--env", "Dataset", "--model", str(folder), "--system", "--max-new-tokens", "30"]) == 0
    err = capsys.readouterr().err
    assert "as it was trained" in err
    assert "without the system prompt" not in err
    assert "max_new_tokens" not in err


@pytest.fixture
def tiny_run(tmp_path):
    """The folder of a run whose policy is there, with any fields in its config."""
    from rlvr.agents.models.tiny import tiny_policy

    def make(**fields):
        folder = tmp_path / "run"
        folder.mkdir()
        model, tokenizer = tiny_policy(hidden=32, layers=1, seed=1)
        model.save_pretrained(folder / "policy")
        tokenizer.save_pretrained(folder / "policy")
        (folder / "config.yaml").write_text(json.dumps(fields), encoding="utf-8")
        return folder

    return make


TRAINED = {
    "env": {"id": "rlvr/KuhnPoker-v0", "system": False, "settings": {"brief": True}},
    "sampling": {"max_new_tokens": 5, "max_length": 900},
    "model": {"template_options": {"enable_thinking": False}, "dtype": "bfloat16", "float32_head": True},
}


def test_an_arena_plays_a_run_as_it_was_trained(tiny_run, monkeypatch, capsys):
    from rlvr.agents.models.transformers import TransformersAgent

    conversations, agents = [], []

    def act(self, asked):
        agents.append(self)
        conversations.extend(asked)
        return real(self, asked)

    real = TransformersAgent.act
    monkeypatch.setattr(TransformersAgent, "act", act)
    folder = tiny_run(**TRAINED)
    for name in (folder, folder / "policy"):
        assert main(["arena", "KuhnPoker", f"model:{name}", "random", "--matches", "2"]) == 0
        printed = capsys.readouterr().err
        assert all(part in printed for part in ("without the system prompt", "max_new_tokens 5", "brief True"))
        assert all(conversation.messages[0]["role"] == "user" for conversation in conversations)
        assert all("You play" not in conversation.messages[0]["content"] for conversation in conversations)
        agent = agents[-1]
        assert (agent.max_new_tokens, agent.max_length) == (5, 900)
        assert agent.renderer.template_options == {"enable_thinking": False}
        assert str(next(agent.model.parameters()).dtype) == "torch.bfloat16"
    assert main(["arena", "KuhnPoker", f"model:{folder}", "random", "--matches", "2", "--max-new-tokens", "3"]) == 0
    assert agents[-1].max_new_tokens == 3
    conversations.clear()
    assert main(["arena", "KuhnPoker", "model:rlvr/tiny", "random", "--matches", "2"]) == 0
    assert agents[-1].max_new_tokens == 64
    assert conversations[0].messages[0]["role"] == "system"


def test_a_run_is_served_as_it_was_trained(tiny_run, monkeypatch, capsys):
    from rlvr.adapters.serving import generate_server
    from rlvr.cli import serve_model

    made = []

    class Server(generate_server.ChatServer):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self)

    class Stopped:
        def wait(self):
            pass

    monkeypatch.setattr(generate_server, "ChatServer", Server)
    monkeypatch.setattr(serve_model, "stopped_by_signals", lambda: contextlib.nullcontext(Stopped()))
    folder = str(tiny_run(**TRAINED))
    assert main(["serve-model", folder, "--port", "0"]) == 0
    (server,) = made
    assert (server.max_new_tokens, server.max_length) == (5, 900)
    assert server.renderer.template_options == {"enable_thinking": False}
    assert str(next(server.model.parameters()).dtype) == "torch.bfloat16"
    printed = capsys.readouterr().err
    for part in ("dtype bfloat16", "max_length 900", "max_new_tokens 5", "enable_thinking", "float32_head True"):
        assert part in printed
    assert "is not served as it was trained: without system prompts" in printed
    assert main(["serve-model", folder, "--port", "0", "--dtype", "float32", "--max-length", "800"]) == 0
    assert (made[1].max_length, str(next(made[1].model.parameters()).dtype)) == (800, "torch.float32")
    assert main(["serve-model", "rlvr/tiny", "--port", "0"]) == 0
    assert (made[2].max_new_tokens, made[2].renderer.template_options) == (None, {})


def test_vllm_serves_a_run_with_the_options_of_its_template(run, monkeypatch, capsys):
    from rlvr.agents.models import vllm
    from rlvr.cli import serve_model

    commands = []
    monkeypatch.setattr(vllm, "whole_prefills", dict)

    def become(program, command, variables):
        commands.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(serve_model.os, "execve", become)
    folder = run(**TRAINED)
    (folder / "policy" / "config.json").write_text("{}")
    with pytest.raises(SystemExit):
        main(["serve-model", str(folder), "--engine", "vllm", "--port", "0"])
    (command,) = commands
    assert command[command.index("--default-chat-template-kwargs") + 1] == '{"enable_thinking": false}'
    assert command[command.index("--dtype") + 1] == "bfloat16"
    assert command[command.index("--max-model-len") + 1] == "900"
    printed = capsys.readouterr().err
    assert "head in float32, which vLLM" in printed
    assert "max_new_tokens 5" not in printed
