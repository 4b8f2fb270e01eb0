"""Tools that a model's chat template shows: how it writes calls is found out, and a run is trained and played so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from transformers import PreTrainedTokenizerFast

from rlvr.agents.evaluation.records import read_episodes
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.train.run import Trainer
from rlvr.cli import main

from ..templates import byte_level_bpe
from .runs import small

# Around calls as families of models write them; the arguments are an object, or in the last two its JSON.
CALLS = {
    "hermes": (
        '<tool_call>\n{{ \'{"name": "\' + f.name + \'", "arguments": \' + (f.arguments | tojson) }}}\n</tool_call>'
    ),
    "qwen": (
        "<tool_call>\n<function={{ f.name }}>\n{% for k, v in f.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n"
        "</parameter>\n{% endfor %}</function>\n</tool_call>"
    ),
    "llama": '{{ \'{"name": "\' + f.name + \'", "parameters": \' + (f.arguments | tojson) }}}',
    "json": '```json\n{{ \'{"name": "\' + f.name + \'", "arguments": \' + f.arguments }}}\n```',
    "": "CALL {{ f.name }}({{ f.arguments }})",
}
SHOWN = "{% if tools %}{{ '<|im_start|>system\nTools: ' + (tools | tojson) + '<|im_end|>\n' }}{% endif %}"
TEMPLATE = (
    "{shown}{{% for m in messages %}}{{{{ '<|im_start|>' + m.role + '\n' + m.content }}}}"
    "{{% for call in m.tool_calls or [] %}}{{% set f = call.function %}}{calls}{{% endfor %}}"
    "{{{{ '<|im_end|>\n' }}}}{{% endfor %}}{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
)


def template(style: str) -> str:
    return TEMPLATE.format(shown=SHOWN, calls=CALLS[style])


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    backend = byte_level_bpe(others=("<think>", "</think>", "<tool_call>", "</tool_call>"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", pad_token="<|endoftext|>")


@pytest.mark.parametrize("style", [style for style in CALLS if style])
def test_how_a_template_writes_calls_is_found_out(tokenizer: Any, style: str) -> None:
    tokenizer.chat_template = template(style)
    assert Renderer(tokenizer).call_style == style


def test_a_template_that_writes_calls_in_no_style_is_one_sentence(tokenizer: Any) -> None:
    tokenizer.chat_template = template("")
    with pytest.raises(ValueError, match=r"writes calls of tools in none of the styles hermes, qwen, .*native_tools"):
        _ = Renderer(tokenizer).call_style
    tokenizer.chat_template = template("hermes").removeprefix(SHOWN)
    with pytest.raises(ValueError, match="says nothing of the tools look_up: leave native_tools out"):
        _ = Renderer(tokenizer).call_style


def test_what_cannot_have_native_tools_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"env.native_tools: rlvr/GuessNumber-v0 has no tools"):
        Trainer(small(tmp_path / "a", env={"native_tools": True}))
    with pytest.raises(ConfigError, match=r"env.native_tools: the chat template says nothing of the tools look_up"):
        Trainer(small(tmp_path / "b", env={"id": "rlvr/SQL-v0", "native_tools": True}))
    with pytest.raises(ConfigError, match="given to `rlvr serve`"):
        load_config({"env": {"native_tools": True, "servers": ["http://127.0.0.1:9"]}})


@pytest.mark.slow
def test_a_run_with_native_tools_trains_is_evaluated_and_goes_on_as_it_was(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "template.jinja"
    file.write_text(template("qwen"))
    out = tmp_path / "run"
    config = small(
        out,
        env={"id": "rlvr/Sums-v0", "native_tools": True, "settings": {"tools": ["calculator"]}},
        model={"hidden": 32, "layers": 1, "chat_template": str(file)},
        sampling={"max_new_tokens": 8, "max_length": 1600},
        warm_start={"steps": 1, "mixed_steps": 0},
        evaluation={"episodes": 2},
        steps=1,
        prompts=1,
        group_size=2,
        checkpoint_every=1,
    )
    Trainer(config).run()
    written = load_config(out / "config.yaml")
    expected = {"tools": ["calculator"], "tools_in": "template", "style": "qwen"}
    assert (written.env.native_tools, written.env.settings["tools"]) == (True, expected)
    episodes = [episode for path in out.glob("episodes/*.jsonl") for episode in read_episodes(path)]
    assert episodes
    assert all("calculator" in episode.tools for episode in episodes)
    assert main(["train", "--resume", "--out", str(out), "--steps", "2"]) == 0
    assert load_config(out / "config.yaml").env.settings == written.env.settings
    capsys.readouterr()
    record = tmp_path / "played.jsonl"
    assert main(["eval", "--env", "rlvr/Sums-v0", "--model", str(out), "--episodes", "2", "--out", str(record)]) == 0
    assert "'style': 'qwen'" in capsys.readouterr().err
    assert all(json.loads(line)["agent"]["native_tools"] for line in record.read_text().splitlines())
