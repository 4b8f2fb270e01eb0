"""Chat templates by name, for base models and for models whose folder has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from rlvr.agents.models.folder_checks import UnfitModel
from rlvr.envs.core.hints import hint
from rlvr.envs.tasks.prompts import R1, STYLES

MAX_CHARACTERS: Final = 200_000  # of a file

_CHATML: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# eos_token ends a reply where the template has no token of its own for it.
TEMPLATES: Final[dict[str, str]] = {
    "chatml": _CHATML,
    # its system prompt stands where the environment's is left out
    "qwen_math": (
        "{% if messages[0]['role'] != 'system' %}<|im_start|>system\n"
        + str(STYLES["qwen_math"].system)
        + "<|im_end|>\n"
        "{% endif %}" + _CHATML
    ),
    # table 1 of 2501.12948: base models are asked as a text that goes on
    "r1_zero": (
        R1 + "\n{% for message in messages %}{% if message['role'] == 'assistant' %}Assistant: {{ message['content'] }}"
        "{{ eos_token }}\n{% elif message['role'] == 'system' %}{{ message['content'] }}\n"
        "{% else %}User: {{ message['content'] }}\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}Assistant: <think>{% endif %}"
    ),
    "plain": (
        "{% for message in messages %}{{ message['content'] }}"
        "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }}{% endfor %}"
    ),
}


def set_chat_template(tokenizer: Any, template: str) -> None:
    """Give a tokenizer a template by name, or that of a file, in place of its own.

    A named template begins with the beginning-of-sequence token where the tokenizer puts one before any text, as those
    of Llama, Gemma and Mistral do, and nowhere else: GPT-2's, Qwen's and SmolLM's have one and do not.

    Raises:
        UnfitModel: it is neither a name nor a file, or the file cannot be read.
    """
    if template in TEMPLATES:
        tokenizer.chat_template = ("{{ bos_token }}" if adds_bos(tokenizer) else "") + TEMPLATES[template]
        return
    path = Path(template).expanduser()
    if not path.is_file():
        raise UnfitModel(
            f"model.chat_template {template!r} is no file and none of {', '.join(TEMPLATES)}{hint(template, TEMPLATES)}"
        )
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise UnfitModel(f"model.chat_template {template} cannot be read: {error}") from error
    if not text.strip() or len(text) > MAX_CHARACTERS:
        length = "nothing" if not text.strip() else f"over {MAX_CHARACTERS:,} characters"
        raise UnfitModel(f"model.chat_template {template} holds {length}: give a file with one Jinja template")
    tokenizer.chat_template = text


def adds_bos(tokenizer: Any) -> bool:
    """Whether the tokenizer puts its beginning-of-sequence token before any text."""
    bos = tokenizer.bos_token_id
    return bos is not None and list(tokenizer.encode("a", add_special_tokens=True))[:1] == [bos]
