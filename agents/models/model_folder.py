"""Folders of models in the format of transformers: written whole or not at all, and LoRA adapters merged into them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.agents.models.tiny import MISSING_EXTRA, TINY, load_policy, require_model
from rlvr.envs.core.files import LinkRefused, require_new_folder
from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ADAPTER, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def check_new_folder(out: Path) -> None:
    """Check that a model can be written to a folder, before anything is loaded or trained.

    Raises:
        LinkRefused: the path is a symbolic link.
        ValueError: there is something that a new folder would replace.
    """
    if out.is_symlink():
        raise LinkRefused(f"{out} is a symbolic link, and what it leads to is not written: give another --out")
    require_new_folder(out)


def save_model(model: Any, tokenizer: Any, out: Path, **options: Any) -> None:
    """Write a model and its tokenizer; the folder takes its name when all is written.

    Args:
        options: for the model's ``save_pretrained``.

    Raises:
        LinkRefused: the path is a symbolic link.
        ValueError: there is something of that name.
        OSError: it cannot be written.
    """
    check_new_folder(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.draft")
    if draft.is_symlink():
        raise LinkRefused(f"{draft} is a symbolic link, and what it leads to is not written: remove it")
    if draft.exists():
        shutil.rmtree(draft)  # of a process that was killed
    draft.mkdir()
    try:
        model.save_pretrained(draft, **options)
        tokenizer.save_pretrained(draft)
        draft.replace(out)  # an empty folder is replaced
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def merge_adapter(
    folder: Path, base: str | None = None, dtype: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The base of a LoRA adapter with the adapter merged into its weights (W + scale B A), and the tokenizer.

    Args:
        folder: of the adapter, as peft writes it.
        base: the base model, by folder or hub name, in place of the one that the adapter names.
        dtype: of the weights; the base's own, if left out.

    Raises:
        ImportError: the extra ``train`` is missing.
        FileNotFoundError: the base is not here, and cannot be fetched.
        ValueError: the folder has no LoRA adapter, or the adapter does not fit its base.
    """
    named = _base_of(folder)
    name = base or named
    if not name:
        raise ValueError(f"the adapter in {folder} does not name its base: give --base")
    model, tokenizer = load_policy(name, dtype=dtype or _own_dtype(name))
    adapted = load_adapter(model, folder)
    if (folder / "tokenizer_config.json").is_file():
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    return adapted.merge_and_unload(safe_merge=True), tokenizer  # a weight that is not finite is an error


def load_adapter(model: Any, folder: Path, *, trainable: bool = False) -> Any:
    """The model with the LoRA adapter in a folder, as a model of peft; with ``trainable`` to be trained on.

    Raises:
        ImportError: peft is missing.
        ValueError: the folder has no LoRA adapter, or the adapter does not fit the model.
    """
    _base_of(folder)
    try:
        import peft
    except ImportError as error:
        raise ImportError(MISSING_EXTRA.replace("torch and transformers", "peft")) from error
    name = model.config._name_or_path
    try:
        weights = peft.load_peft_weights(str(folder), device="cpu")
        adapted: Any = peft.PeftModel.from_pretrained(model, str(folder), is_trainable=trainable)
        expected = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    except Exception as error:  # peft and torch raise errors of many types
        raise ValueError(
            f"the adapter in {folder} does not fit {name}: {' '.join(str(error).split())[:200]}"
        ) from error
    spare = sorted(weights.keys() - expected.keys()) or sorted(expected.keys() - weights.keys())
    if spare:
        raise ValueError(
            f"the adapter in {folder} is of another model than {name}: {spare[0]} stands on one side alone"
        )
    return adapted


def policy_folder(name: str) -> str:
    """The folder of the policy in the folder of a run; any other name as it is.

    Raises:
        FileNotFoundError: it is the path of a folder that is not there.
    """
    require_model(name)
    folder = Path(name)
    of_a_run = (folder / "config.yaml").is_file() and (folder / "policy").is_dir()
    return str(folder / "policy") if of_a_run else name


def _base_of(folder: Path) -> str | None:
    """The base model that an adapter names; checks that it is a LoRA adapter whose weights run no code."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if not (folder / ADAPTER).is_file():
        whole = (folder / "config.json").is_file()
        why = "it is a whole model already" if whole else f"it has no {ADAPTER}"
        raise ValueError(f"{folder} holds no LoRA adapter: {why}")
    try:
        config = load_json((folder / ADAPTER).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{folder / ADAPTER} is not JSON: {error}") from error
    kind = config.get("peft_type") if isinstance(config, dict) else None
    if kind != "LORA":
        raise ValueError(f"{folder} holds no LoRA adapter: its peft_type is {kind!r}")
    if config.get("megatron_config"):
        raise ValueError(f"{folder / ADAPTER} names a module of Megatron's to import, and is not loaded")
    if not (folder / WEIGHTS).is_file():
        raise ValueError(f"{folder} has no {WEIGHTS}, the only format of weights that runs no code when it is loaded")
    name = config.get("base_model_name_or_path")
    return name if isinstance(name, str) else None


def _own_dtype(name: str) -> Any:
    """The dtype that a model was saved in; float32 where nothing says so."""
    if name == TINY:
        return "float32"
    try:
        import transformers

        config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    except Exception:  # `load_policy` says what is wrong with it
        return "float32"
    return getattr(config, "dtype", None) or "float32"
