"""Tokenizers whose templates delimit messages as those of eight model families do: special tokens, others, or words."""

from __future__ import annotations

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from ..templates import CHATML, GEMMA, LLAMA3, QWEN3, byte_level_bpe

TOOLS = """\
{%- if tools -%}{{- '<|im_start|>system\n# Tools\n<tools>\n' -}}
{%- for t in tools -%}{{- t | tojson + '\n' -}}{%- endfor -%}
{{- '</tools>\nWrite <tool_call></tool_call>.<|im_end|>\n' -}}{%- endif -%}"""

MISTRAL = """\
{{- '<s>' -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{- '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' -}}
{%- elif m.role == 'user' -%}
{%- if tools and loop.index0 < 2 -%}{{- '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' -}}{%- endif -%}
{{- '[INST]' + m.content + '[/INST]' -}}
{%- elif m.role == 'tool' -%}{{- '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' -}}
{%- else -%}{{- m.content + '</s>' -}}{%- endif -%}
{%- endfor -%}"""

# Delimiters of plain words, in Llama-2's manner; the tokenizer knows the ends of sequences alone.
LLAMA2 = """\
{%- for m in messages -%}
{%- if m.role not in ['user', 'assistant'] -%}{{- raise_exception('no role ' + m.role) -}}{%- endif -%}
{%- if m.role == 'user' -%}{{- '<s>[INST] ' + m.content + ' [/INST]' -}}
{%- else -%}{{- ' ' + m.content + ' </s>' -}}{%- endif -%}
{%- endfor -%}"""

WORDS = """\
{%- for m in messages -%}{{- m.role | capitalize + ': ' + m.content + '\n\n' -}}{%- endfor -%}
{%- if add_generation_prompt -%}{{- 'Assistant: ' -}}{%- endif -%}"""

GLM = """\
{{- '[gMASK]<sop>' -}}
{%- if tools -%}
{{- '<|system|>\n<tools>' -}}{%- for t in tools -%}{{- t | tojson -}}{%- endfor -%}{{- '</tools>' -}}
{%- endif -%}
{%- for m in messages -%}
{%- set role = 'observation' if m.role == 'tool' else m.role -%}
{{- '<|' + role + '|>\n' + m.content -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|><think>' -}}{%- endif -%}"""

DEEPSEEK = """\
{{- '<｜begin▁of▁sentence｜>' -}}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{- m.content -}}
{%- elif m.role == 'user' -%}{{- '<｜User｜>' + m.content -}}
{%- elif m.role == 'tool' -%}{{- '<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + m.content -}}
{{- '<｜tool▁output▁end｜><｜tool▁outputs▁end｜>' -}}
{%- else -%}{{- '<｜Assistant｜>' + m.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<｜Assistant｜><think>\n' -}}{%- endif -%}"""

OPENED = CHATML.replace("assistant\n' -}}", "assistant\n<think>\n' -}}")
BRACKETS = MISTRAL + "{%- if add_generation_prompt -%}{{- '[THINK]' -}}{%- endif -%}"

# template, the end of a turn, special tokens, other added tokens
FAMILIES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "chatml": (CHATML, "<|im_end|>", ("<|im_start|>",), ()),
    "qwen3": (
        TOOLS + QWEN3, "<|im_end|>", ("<|im_start|>", "<|endoftext|>"),
        ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
    ),
    "qwen3 of words": (TOOLS + QWEN3, "<|im_end|>", ("<|im_start|>",), ()),
    "opened": (OPENED, "<|im_end|>", ("<|im_start|>",), ("<think>", "</think>")),
    "llama3": (LLAMA3, "<|eot_id|>", ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>"), ()),
    "gemma": (GEMMA, "<end_of_turn>", ("<bos>", "<start_of_turn>"), ("<unused0>", "<table>", "\n\n")),
    "mistral": (
        MISTRAL, "</s>",
        ("<s>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
         "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]"), (),
    ),
    "brackets": (
        BRACKETS, "</s>",
        ("<s>", "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
         "[THINK]", "[/THINK]"), (),
    ),
    "llama2": (LLAMA2, "</s>", ("<s>",), ()),
    "words": (WORDS, "<eos>", (), ()),
    "glm": (
        GLM, "<|endoftext|>", ("[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|system|>", "<|observation|>"),
        ("<think>", "</think>", "<tool_call>", "</tool_call>"),
    ),
    "deepseek": (
        DEEPSEEK, "<｜end▁of▁sentence｜>", ("<｜begin▁of▁sentence｜>",),
        ("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>",
         "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", "<｜tool▁calls▁begin｜>"),
    ),
}  # fmt: skip


def family_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """The tokenizer of a family, with its chat template."""
    template, end, special, others = FAMILIES[name]
    more = ["[INST] [/INST] one"] if name == "llama2" else []
    backend = byte_level_bpe((end, *special), others, more)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, pad_token=end)
    tokenizer.chat_template = template
    return tokenizer


def blank_first_tokenizer(*, legacy: bool) -> PreTrainedTokenizerFast:
    """A tokenizer that writes a blank as ▁ and puts one before a text, or in the legacy way before each part of it."""
    backend = Tokenizer(models.BPE(byte_fallback=True))
    if legacy:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    strip = decoders.Strip(" ", 1, 0)
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), strip])
    letters = [chr(code) for code in range(33, 127)] + ["▁"]
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        initial_alphabet=letters,
        special_tokens=[f"<0x{byte:02X}>" for byte in range(256)],
        show_progress=False,
    )
    backend.train_from_iterator(["the answer is use the tool results system prompt one two"] * 20, trainer)
    plain = json.loads(backend.to_str())
    plain["added_tokens"] = []  # the bytes are no tokens of their own
    backend = Tokenizer.from_str(json.dumps(plain))
    template, end, special, _ = FAMILIES["mistral"]
    backend.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in (end, *special)])
    backend.add_tokens([AddedToken(each, special=False, normalized=False) for each in ("<tool_response>", "<think>")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=end, pad_token=end)
    tokenizer.chat_template = template
    return tokenizer


def blanks_eating_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of which some tokens take the blanks beside them."""
    backend = byte_level_bpe(("<|end|>",), ())
    backend.add_special_tokens(
        [AddedToken("<|user|>", special=True, rstrip=True), AddedToken("<|assistant|>", special=True, lstrip=True)]
    )
    backend.add_tokens([AddedToken("<tool_response>", special=False, rstrip=True, lstrip=True)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>", pad_token="<|end|>")
    tokenizer.chat_template = (
        "{%- for m in messages -%}{{- '<|' + m.role + '|>\n' + m.content + '<|end|>\n' -}}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
    )
    return tokenizer
