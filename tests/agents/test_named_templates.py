"""Chat templates by name, on tokenizers that begin and end a text as those of several families do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from rlvr.agents.conversation import Conversation
from rlvr.agents.models.folder_checks import UnfitModel
from rlvr.agents.models.tiny import build_tiny, load_policy
from rlvr.agents.named_templates import TEMPLATES, adds_bos, set_chat_template
from rlvr.agents.rendering import Renderer

from ..templates import byte_level_bpe

USER = {"role": "user", "content": "What is 2 + 3?"}


def base_tokenizer(bos: str, eos: str, *, adds: bool, more: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """That of a base model, without a template; ``adds``: it puts its BOS before each text, as Llama's does."""
    backend = byte_level_bpe(tuple(dict.fromkeys((eos, bos, *more))), ())
    if adds:
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, backend.token_to_id(bos))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=bos, eos_token=eos)


FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>", "adds": True},
    "gemma": {"bos": "<bos>", "eos": "<eos>", "adds": True},
    "gpt2": {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "adds": False},
    "qwen": {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "adds": False, "more": ("<|im_start|>", "<|im_end|>")},
}


def of_family(family: str, template: str) -> tuple[PreTrainedTokenizerFast, Renderer]:
    tokenizer = base_tokenizer(**FAMILIES[family])
    set_chat_template(tokenizer, template)
    return tokenizer, Renderer(tokenizer)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_begins_as_the_family_begins_a_text_and_a_reply_ends(family: str, template: str):
    tokenizer, renderer = of_family(family, template)
    prompt = renderer.render(Conversation("k", [USER]))
    bos = tokenizer.bos_token_id
    assert prompt.count(bos) == (prompt[:1] == [bos]) == adds_bos(tokenizer) == FAMILIES[family]["adds"]
    text = tokenizer.decode(prompt)
    assert USER["content"] in text
    ends = "<|im_end|>" if family == "qwen" and template in ("chatml", "qwen_math") else tokenizer.eos_token
    assert renderer.end_id == tokenizer.convert_tokens_to_ids(ends)
    assert tokenizer.eos_token_id in renderer.end_ids
    ids, mask = renderer.render_demonstration([USER, {"role": "assistant", "content": "It is 5."}])
    learned = [token for token, on in zip(ids, mask, strict=True) if on]
    assert learned[-1] == renderer.end_id
    assert tokenizer.decode(learned[:-1]).endswith("It is 5.")


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_second_turn_shows_the_first_reply_as_it_was_sampled(template: str):
    tokenizer, renderer = of_family("llama", template)
    conversation = Conversation("k", [USER])
    prompt = renderer.render(conversation)
    reply = [*renderer.encode_reply("Five"), renderer.end_id]
    conversation.tokens.ids[:] = [*prompt, *reply]
    conversation.messages += [{"role": "assistant", "content": "Five"}, {"role": "user", "content": "And 1 more?"}]
    conversation.rendered = 2
    text = tokenizer.decode(renderer.render(conversation))
    assert "And 1 more?" in text
    assert "What is 2 + 3?" not in text
    assert text.count(tokenizer.bos_token) == 0


def test_what_the_names_write():
    boxed = "Please reason step by step, and put your final answer within \\boxed{}."
    asked = "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n"
    for template, prompt in {
        "chatml": asked,
        "qwen_math": f"<|im_start|>system\n{boxed}<|im_end|>\n{asked}",
        "plain": "What is 2 + 3?\n",
    }.items():
        tokenizer, renderer = of_family("qwen", template)
        assert tokenizer.decode(renderer.render(Conversation("k", [USER]))) == prompt
    tokenizer, renderer = of_family("qwen", "r1_zero")
    text = tokenizer.decode(renderer.render(Conversation("k", [USER])))
    assert text.startswith("A conversation between User and Assistant.")
    assert text.endswith("<answer> answer here </answer>.\nUser: What is 2 + 3?\nAssistant: <think>")
    assert renderer.opened_thought


def test_a_file_is_taken_as_it_is_and_what_is_none_is_said(tmp_path: Path):
    tokenizer = base_tokenizer(**FAMILIES["llama"])
    own = tmp_path / "mine.jinja"
    own.write_text("{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}[assistant]")
    set_chat_template(tokenizer, str(own))
    assert tokenizer.decode(Renderer(tokenizer).render(Conversation("k", [USER]))) == (
        "[user] What is 2 + 3?<|end_of_text|>[assistant]"
    )
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe{{")
    for name, message in (
        ("chatlm", "none of chatml, qwen_math, r1_zero, plain; did you mean 'chatml'"),
        (str(tmp_path), "is no file"),
        (str(tmp_path / "empty"), "holds nothing"),
        (str(tmp_path / "binary"), "cannot be read"),
    ):
        with pytest.raises(UnfitModel, match=message):
            set_chat_template(tokenizer, name)


def test_a_model_without_a_template_is_loaded_with_one(tmp_path: Path):
    folder = build_tiny(tmp_path / "base", hidden=16, layers=1)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ValueError, match=r"no chat template.*model\.chat_template"):
        load_policy(folder)
    _, tokenizer = load_policy(folder, chat_template="plain")
    assert Renderer(tokenizer).end_id == tokenizer.eos_token_id
    tokenizer.save_pretrained(tmp_path / "saved")
    assert "eos_token" in (tmp_path / "saved" / "chat_template.jinja").read_text()  # a trained policy keeps it
