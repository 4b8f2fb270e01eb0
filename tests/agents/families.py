"""Tokenizers whose templates delimit messages as those of eight model families do: special tokens, others, or words."""

from __future__ import annotations

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
