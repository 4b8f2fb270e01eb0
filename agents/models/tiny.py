"""The embedded policy, a small Qwen3 with a character tokenizer built here; the one way to load any policy.

``rlvr/tiny`` needs no download: its weights come from a seed, its tokenizer from the 256 bytes and a list of
words. Any other name is a Hugging Face causal language model, by hub name or by folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from rlvr.agents.models.attention import kernel_of
from rlvr.agents.models.folder_checks import UnfitModel, check_folder, check_format, check_vocabulary
from rlvr.agents.named_templates import set_chat_template
from rlvr.agents.rendering import NoChatTemplate, require_chat_template
from rlvr.envs.core.hints import nearest

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

TINY = "rlvr/tiny"
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")

# One token each instead of one a character; plain words also with a space before them. Order decides the ids:
# append, so that a folder built earlier differs from a new one at the end alone.
WORDS = (
    *("<tool>", "</tool>", "<think>", "</think>", "<answer>", "</answer>", "\\boxed{", "####"),
    *"What is How many much the and each has have are then left total".split(),
    # WordProblems
    *"bags with gets a day for days old new buys more finds gives to loses sells Then makes number times as".split(),
    *"large equal parts keeps one does now apples books cards coins eggs nuts pens stamps".split(),
    *"Ann Ben Eva Kim Leo Mia Sam Tom".split(),
    # Countdown, GuessNumber
    *"Numbers Target need from no Guess my higher lower".split(),
)

# One role token, the content, one end token: no newline, no role spelled in letters.
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{%- if message['role'] not in ['system', 'user', 'assistant', 'tool'] -%}
{{- raise_exception('a role is system, user, assistant or tool, not ' + message['role']) -}}
{%- endif -%}
{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"""

MISSING_EXTRA = "a language model needs torch and transformers, which are not installed: pip install 'rlvr[train]'"


def _libraries() -> tuple[Any, Any]:
    """torch and transformers, or an error that names the extra."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ImportError(MISSING_EXTRA) from error
    return torch, transformers


class TinyOptions(TypedDict, total=False):
    """What `tiny_policy` may be told; all have defaults."""

    seed: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    max_positions: int
    words: Sequence[str]


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE (GPT-2's table), by byte."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def _one_of(words: Sequence[str]) -> str:
    """The pattern of the longest of some words; it looks at each letter once, as a search through a trie does."""
    if len(words) == 1:
        return re.escape(words[0])  # at once: a word of a thousand letters would be as many calls
    tails: dict[str, list[str]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    branches = [re.escape(head) + _one_of(rest) for head, rest in tails.items() if head]
    pattern = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})" if branches else ""
    return f"(?:{pattern})?" if pattern and "" in tails else pattern


def tiny_tokenizer(words: Sequence[str] = WORDS) -> PreTrainedTokenizerFast:
    """A tokenizer in which token ``b`` < 256 is the byte b, then six special tokens, then ``words``.

    Every text survives encoding and decoding exactly; an ASCII character is one token. Each word is one token
    wherever it stands (the longest match wins); a word of letters is so with a space before it, too.

    Raises:
        ImportError: the extra ``train`` is missing.
        ValueError: a word is empty, not ASCII, or one of the special tokens.
    """
    _, transformers = _libraries()
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    for word in words:
        if not word or not word.isascii() or word in SPECIAL_TOKENS:
            raise ValueError(f"word {word!r}: a word is ASCII text, not empty and no special token; leave it out")
    spaced = [form for word in words for form in ((word, f" {word}") if word.isalpha() else (word,))]
    # A single character is a token already.
    longer = [form for form in dict.fromkeys(spaced) if len(form) > 1]
    # Of the vocabulary and no added tokens, which would be told from text.
    letters = dict(zip(map(chr, range(256)), byte_alphabet(), strict=True))
    written = ["".join(map(letters.__getitem__, form)) for form in longer]
    vocabulary = {token: number for number, token in enumerate([*byte_alphabet(), *SPECIAL_TOKENS, *written])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    # Cut where a text spells a special token, which the vocabulary holds for its number.
    whole = Regex("|".join(filter(None, [r"<(?=\|)", _one_of(longer)])))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(whole, "isolated"), byte_level])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL_TOKENS])

    pad, end, *roles = SPECIAL_TOKENS
    tokenizer: PreTrainedTokenizerFast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=pad,
        eos_token=end,
        additional_special_tokens=roles,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_policy(
    *,
    seed: int = 0,
    hidden: int = 128,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 32,
    intermediate: int = 256,
    max_positions: int = 8192,
    words: Sequence[str] = WORDS,
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A small Qwen3 for causal language modelling on the CPU, in evaluation mode, and its tokenizer.

    The defaults make about a third of a million parameters in float32, input and output embeddings tied.
    Weights depend on the arguments alone; the process's own random generators are left as they were.

    Args:
        seed: of the initial weights.
        hidden, layers, heads, kv_heads, head_dim, intermediate: the network's sizes.
        max_positions: the longest sequence the configuration claims, in tokens.
        words: what is one token beside the bytes, see `tiny_tokenizer`.

    Raises:
        ImportError: the extra ``train`` is missing.
        ValueError: a size below 1, ``kv_heads`` that does not divide ``heads``, or a word that cannot be one.
    """
    sizes = {"hidden": hidden, "layers": layers, "heads": heads, "kv_heads": kv_heads}
    sizes |= {"head_dim": head_dim, "intermediate": intermediate, "max_positions": max_positions}
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}={size}: a size is at least 1")
    if heads % kv_heads or head_dim % 2:
        text = f"heads={heads}, kv_heads={kv_heads}, head_dim={head_dim}"
        raise ValueError(f"{text}: kv_heads must divide heads, and head_dim must be even")
    torch, transformers = _libraries()
    tokenizer = tiny_tokenizer(words)
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = transformers.Qwen3ForCausalLM(config)
    model.config._name_or_path = tokenizer.name_or_path = TINY
    return model.eval(), tokenizer


def build_tiny(path: Path | str, **options: Unpack[TinyOptions]) -> Path:
    """Write `tiny_policy` with these options into ``path`` as a Hugging Face folder, and return the path.

    Raises:
        FileExistsError: the folder holds something.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} is not an empty folder: give a new one for the tiny model")
    model, tokenizer = tiny_policy(**options)
    path.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def require_model(name: str) -> None:
    """Check, before anything heavy is imported, that a name is no path of a folder that is not there.

    Raises:
        FileNotFoundError: it is one: it cannot be a name on the hub, or its parent holds runs.
        UnfitModel: it is a GGUF file, or a folder with no other weights.
    """
    check_format(name)
    path = Path(name).expanduser()
    if name == TINY or Path(name).is_dir():
        return
    if _HUB_NAME.fullmatch(name) and not any(path.parent.glob("*/config.yaml")):
        return
    siblings = [str(each) for each in path.parent.glob("*/")] if path.parent.is_dir() else []
    near = nearest(str(path), siblings)
    raise FileNotFoundError(f"there is no folder {name}" + (f"; did you mean {near}?" if near else ""))


def load_policy(
    name_or_path: str | Path,
    *,
    dtype: torch.dtype | str = "float32",
    device: torch.device | str = "cpu",
    attention: str = "auto",
    tiny: TinyOptions | None = None,
    chat_template: str = "",
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a causal language model and its tokenizer; code from the hub is never run.

    Args:
        name_or_path: ``rlvr/tiny`` (built on the spot, no network), a folder, or a name on the hub.
        dtype: of the weights: a torch dtype, or its name.
        device: where the model goes.
        attention: the kernel, see `rlvr.agents.models.attention`.
        tiny: options of `tiny_policy` for ``rlvr/tiny``: seed, hidden, layers, words, …
        chat_template: in place of the tokenizer's own: chatml, qwen_math, r1_zero, plain, or a file.

    Returns:
        The model, in evaluation mode, and the tokenizer, which has a chat template.

    Raises:
        FileNotFoundError: no such folder, or no such model here, and none could be fetched.
        ImportError: the extra ``train`` is missing.
        ValueError: the model cannot be loaded, its tokenizer has no chat template (`NoChatTemplate`), there is no
            such device, or an option is unknown or not allowed.
    """
    require_model(str(name_or_path))
    torch, _ = _libraries()
    number = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(number, torch.dtype):
        raise ValueError(f"dtype {dtype!r} is unknown: use float32, bfloat16 or float16")
    device = usable_device(device)
    kernel = kernel_of(attention, number, device)
    if str(name_or_path) != TINY:
        if tiny:
            raise ValueError(f"options {sorted(tiny)} are for {TINY} alone, not for {name_or_path}")
        check_folder(str(name_or_path))
        return _load(name_or_path, number, device, kernel, chat_template)
    allowed = sorted(TinyOptions.__annotations__)
    if unknown := sorted(set(tiny or {}) - set(allowed)):
        raise ValueError(f"{TINY} has no option {', '.join(unknown)}; it has {', '.join(allowed)}")
    model: Any
    model, tokenizer = tiny_policy(**(tiny or {}))
    if kernel:
        model.set_attn_implementation(kernel)
    if chat_template:
        set_chat_template(tokenizer, chat_template)
    return model.to(device=device, dtype=number), tokenizer


def usable_device(device: torch.device | str) -> torch.device:
    """The device of a name.

    Raises:
        ValueError: torch does not know it, or this machine has none.
    """
    library, _ = _libraries()
    try:
        chosen: torch.device = library.device(device)
    except RuntimeError as error:
        raise ValueError(f"device {device!r} is unknown: use cpu, cuda or cuda:1") from error
    present = library.cuda.device_count()
    if chosen.type == "cuda" and (chosen.index or 0) >= present:
        raise ValueError(f"device {device!r}: torch sees {present} GPUs here; cpu works everywhere")
    return chosen


def _load(
    name_or_path: str | Path,
    dtype: torch.dtype,
    device: torch.device | str,
    kernel: str | None = None,
    chat_template: str = "",
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    _, transformers = _libraries()
    name = str(name_or_path)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        if chat_template:
            set_chat_template(tokenizer, chat_template)
        require_chat_template(tokenizer, name)
        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
        check_vocabulary(name, tokenizer, config.get_text_config().vocab_size)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype, attn_implementation=kernel, trust_remote_code=False
        )
    except (NoChatTemplate, UnfitModel):
        raise
    except Exception as error:  # the library raises errors of many types, down to its file formats' own
        if isinstance(error, OSError) and not Path(name).is_dir():
            raise FileNotFoundError(
                f"model {name!r} is no folder, and could not be fetched from the hub either: check the name and "
                f"the network, or use {TINY}, which needs neither"
            ) from error
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"model {name!r} cannot be loaded as a causal language model of transformers: {reason}"
        ) from error
    return model.to(device).eval(), tokenizer
