"""The embedded policy and the loading of others: exact text, weights from the seed, one clear error each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM

from rlvr.agents.models.tiny import SPECIAL_TOKENS, TINY, WORDS, build_tiny, load_policy, tiny_policy, tiny_tokenizer
from rlvr.agents.rendering import Renderer


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@given(st.text())
@settings(deadline=None)
def test_every_text_survives(tokenizer, text):
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


@given(st.binary(max_size=20))
@settings(deadline=None)
def test_a_token_below_256_is_that_byte(tokenizer, raw):
    text = raw.decode("utf-8", errors="replace")
    assert tokenizer.decode(list(raw), clean_up_tokenization_spaces=False) == text


def test_a_character_is_a_token_and_a_word_is_one(tokenizer):
    assert tokenizer.encode("48*87?\n") == [ord(char) for char in "48*87?\n"]
    for word in WORDS:
        assert len(tokenizer.encode(word)) == 1
        assert tokenizer.decode(tokenizer.encode(f"x {word}")) == f"x {word}"
    assert len(tokenizer.encode("What is the total")) == 4
    assert tiny_tokenizer(["two words.", "a", "(", "two"]).encode("two words.a( two") == [262, 97, 40, 265]


def test_a_message_costs_two_tokens_beside_its_content(tokenizer):
    messages = [{"role": role, "content": "x"} for role in ("system", "user", "assistant", "tool")]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    expected = "<|system|>x<|end|><|user|>x<|end|><|assistant|>x<|end|><|tool|>x<|end|><|assistant|>"
    assert text == expected
    assert len(tokenizer.encode(text)) == 13
    assert tokenizer.eos_token == "<|end|>"
    assert tokenizer.pad_token == "<|pad|>"
    assert set(tokenizer.all_special_tokens) == set(SPECIAL_TOKENS)


def test_it_is_a_small_qwen3_whose_weights_come_from_the_seed(folder):
    model, _ = tiny_policy()
    assert isinstance(model, Qwen3ForCausalLM)
    assert 0.3e6 < sum(p.numel() for p in model.parameters()) < 0.4e6
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    again, other = tiny_policy()[0], tiny_policy(seed=1)[0]
    for one, same in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, same)
    assert not torch.equal(model.lm_head.weight, other.lm_head.weight)
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    for (name, one), (_, same) in zip(model.state_dict().items(), loaded.state_dict().items(), strict=True):
        assert torch.equal(one, same), name
    assert loaded.generation_config.eos_token_id == 257


def test_the_folder_is_the_same_each_time_and_says_the_same(folder, tokenizer, tmp_path):
    again = build_tiny(tmp_path / "again")
    files = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"} <= files
    for name in files:
        assert (folder / name).read_bytes() == (again / name).read_bytes()
    loaded = AutoTokenizer.from_pretrained(folder)
    text = "What is <tool>é</tool> <|end|>  \n 日"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == text
    assert loaded.chat_template == tokenizer.chat_template
    assert Renderer(loaded).end_ids == Renderer(tokenizer).end_ids == {257}


def test_building_leaves_the_generators_alone(tmp_path):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    build_tiny(tmp_path / "tiny", seed=9)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_word_may_be_a_page_long():
    page = "All of the rules. " * 200
    tokenizer = tiny_tokenizer(["All", "All of", page])
    assert len(tokenizer(page)["input_ids"]) == 1
    assert tokenizer.decode(tokenizer(f"All {page}")["input_ids"]) == f"All {page}"


def test_sizes_and_words_can_be_chosen():
    model, tokenizer = tiny_policy(hidden=64, layers=3, heads=2, kv_heads=1, head_dim=16, words=["apples"])
    assert (model.config.hidden_size, model.config.num_hidden_layers, model.config.head_dim) == (64, 3, 16)
    assert model.config.vocab_size == len(tokenizer) == 264
    assert tokenizer.encode("apples apples") == [262, 263]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"hidden": 0}, "hidden=0"),
        ({"heads": 3, "kv_heads": 2}, "kv_heads must divide heads"),
        ({"head_dim": 7}, "head_dim must be even"),
        ({"words": ["é"]}, "ASCII"),
        ({"words": [""]}, "not empty"),
        ({"words": ["<|end|>"]}, "special token"),
    ],
)
def test_bad_sizes_and_words_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        tiny_policy(**options)


def test_a_folder_that_holds_something_is_left_as_it_is(folder):
    before = (folder / "config.json").read_bytes()
    with pytest.raises(FileExistsError, match="not an empty folder"):
        build_tiny(folder, seed=5)
    assert (folder / "config.json").read_bytes() == before


def test_load_policy_by_name_and_by_folder(folder):
    model, tokenizer = load_policy(TINY, tiny={"seed": 4, "hidden": 64}, dtype="bfloat16")
    assert model.dtype == torch.bfloat16
    assert not model.training
    assert model.config.hidden_size == 64
    assert tokenizer.name_or_path == TINY
    loaded, _ = load_policy(folder, dtype=torch.float64)
    assert loaded.dtype == torch.float64
    assert not loaded.training


def test_what_cannot_be_loaded_is_one_clear_error(folder, tmp_path):
    def broken(name: str) -> Path:
        path = build_tiny(tmp_path / name)
        if name == "no template":
            (path / "chat_template.jinja").unlink()
        elif name == "no weights":
            (path / "model.safetensors").unlink()
        elif name == "bad weights":
            (path / "model.safetensors").write_bytes(b"not weights")
        else:
            config = json.loads((path / "config.json").read_text())
            (path / "config.json").write_text(json.dumps({**config, "model_type": "nonsense"}))
        return path

    complaints = {"no template": "no chat template", "bad weights": "is no whole safetensors file"}
    for name in ("no template", "no weights", "bad weights", "no such type"):
        complaint = complaints.get(name, "cannot be loaded as a causal language model")
        with pytest.raises(ValueError, match=complaint) as raised:
            load_policy(broken(name))
        assert name in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_missing_model_is_one_clear_error(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FileNotFoundError, match=r"check the name and the network, or use rlvr/tiny"):
        load_policy("nobody/nothing")
    for name in (str(tmp_path / "nothing"), "two words"):
        with pytest.raises(FileNotFoundError, match=f"there is no folder {name}"):
            load_policy(name)


def test_bad_options_of_loading(folder):
    with pytest.raises(ValueError, match="has no option hiden; it has head_dim, heads, hidden"):
        load_policy(TINY, tiny={"hiden": 3})
    with pytest.raises(ValueError, match="for rlvr/tiny alone"):
        load_policy(folder, tiny={"hidden": 3})
    with pytest.raises(ValueError, match="dtype 'float23' is unknown"):
        load_policy(TINY, dtype="float23")


@pytest.mark.parametrize("call", ["tiny.load_policy('rlvr/tiny')", "tiny.tiny_tokenizer()"])
def test_the_missing_extra_is_named(call):
    code = f"import sys; sys.modules['torch'] = None; from rlvr.agents.models import tiny; {call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: a language model needs torch and transformers" in done.stderr
    assert "pip install 'rlvr[train]'" in done.stderr


def test_the_agent_names_the_missing_extra():
    code = "import sys; sys.modules['torch'] = None; from rlvr.agents.models.transformers import TransformersAgent"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'rlvr[train]'" in done.stderr
