"""``rlvr sft`` and ``merge``: a model from demonstrations, an adapter into its base."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.cli.options import without_progress_bars
from rlvr.envs.core.files import write_whole

if TYPE_CHECKING:
    from rlvr.agents.conversation import TokenSequence


def sft(options: argparse.Namespace, rest: list[str]) -> int:
    """Train on chats, and say the loss on those held out, before and after each epoch."""
    _check_numbers(options)
    from rlvr.agents.models.tiny import require_model

    require_model(options.model)
    try:
        from rlvr.agents.models.model_folder import check_new_folder, save_model
        from rlvr.algorithms.learner.learner import Learner
        from rlvr.algorithms.recipe.presets import PRESETS
        from rlvr.algorithms.train.chats import read_chats, split_chats
        from rlvr.algorithms.train.warm_start import fine_tune, mean_loss
    except ModuleNotFoundError as error:
        raise ImportError(f'supervised training needs {error.name}: pip install "rlvr[train]"') from error
    check_new_folder(options.out)
    sides = split_chats(read_chats(options.data), options.held_out, options.seed)
    model, tokenizer = _policy(options)
    train, held_out = _rendered(sides, model, tokenizer, options.max_length)
    learner = Learner(model, PRESETS["grpo"], pad_id=_pad_id(tokenizer), max_length=options.max_length)
    record: dict[str, Any] = {
        "data": str(options.data),
        "model": options.model,
        **{name: getattr(options, name) for name in ("epochs", "batch_size", "lr", "seed", "lora_rank")},
        "chats": len(train),
        "held_out_chats": len(held_out),
        "epochs_done": [],
    }

    def measured(epoch: int, loss: float | None) -> None:
        unseen = mean_loss(learner, held_out, options.batch_size) if held_out else None
        record["epochs_done"].append({"epoch": epoch, "loss": loss, "held_out_loss": unseen})
        losses = {"loss": loss, "held-out loss": unseen}
        figures = [f"{name} {value:.4f}" for name, value in losses.items() if value is not None]
        if figures:
            print(f"epoch {epoch} of {options.epochs}: {', '.join(figures)}", flush=True)

    measured(0, None)
    fine_tune(
        learner,
        train,
        epochs=options.epochs,
        batch_size=options.batch_size,
        lr=options.lr,
        warmup_steps=options.warmup_steps,
        seed=options.seed,
        on_epoch=measured,
    )
    save_model(model, tokenizer, options.out, **({"save_embedding_layers": False} if options.lora_rank else {}))
    write_whole(options.out / "sft.json", json.dumps(record, indent=1) + "\n")
    kind = "a LoRA adapter; `rlvr merge` merges it into its base" if options.lora_rank else "the model"
    print(f"{options.out}: {kind}")
    return 0


def _check_numbers(options: argparse.Namespace) -> None:
    least = {"epochs": 1, "batch_size": 1, "max_length": 2, "warmup_steps": 0, "lora_rank": 0}
    for name, value in least.items():
        if getattr(options, name) < value:
            raise ValueError(f"--{name.replace('_', '-')} must be at least {value}, got {getattr(options, name)}")
    if not 0 < options.lr < 1:
        raise ValueError(f"--lr must be above 0 and below 1, got {options.lr:g}")


def _policy(options: argparse.Namespace) -> tuple[Any, Any]:
    """The model, with LoRA layers if they are asked for, and its tokenizer."""
    import torch

    from rlvr.agents.models.tiny import load_policy

    without_progress_bars()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    name = str(Path(options.model).resolve()) if Path(options.model).is_dir() else options.model  # an adapter keeps it
    model: Any
    model, tokenizer = load_policy(name, dtype=options.dtype, device=device)
    if options.lora_rank:
        from peft import LoraConfig, get_peft_model

        rank = options.lora_rank
        torch.manual_seed(options.seed)  # of the layers' first values
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
        model = get_peft_model(model, config)
        model.peft_config["default"].base_model_name_or_path = name  # peft does not find the name of rlvr/tiny
    return model, tokenizer


def _rendered(
    sides: tuple[list[Any], list[Any]], model: Any, tokenizer: Any, max_length: int
) -> tuple[list[TokenSequence], list[TokenSequence]]:
    """Both sides as token sequences; chats that are too long are left out, and counted on stderr."""
    from rlvr.agents.rendering import Renderer
    from rlvr.algorithms.train.chats import sequences_of

    longest = min(max_length, getattr(model.config, "max_position_embeddings", max_length))
    renderer = Renderer(tokenizer)
    (train, long), (held_out, longer) = (sequences_of(side, renderer, longest) for side in sides)
    if long + longer:
        print(f"rlvr: {long + longer} chats are longer than {longest} tokens, and were left out", file=sys.stderr)
    if not train or (sides[1] and not held_out):
        side = "held out" if train else "to train on"
        raise ValueError(f"no chat {side} is left: each is longer than {longest} tokens")
    return train, held_out


def _pad_id(tokenizer: Any) -> int:
    """Any id does: what is padded is masked."""
    return int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0)


def merge(options: argparse.Namespace, rest: list[str]) -> int:
    """Merge a LoRA adapter into its base, and write the model that any engine serves."""
    from rlvr.agents.models.model_folder import check_new_folder, merge_adapter, save_model

    check_new_folder(options.out)
    with contextlib.suppress(ImportError):  # `merge_adapter` names the extra
        without_progress_bars()
    model, tokenizer = merge_adapter(options.folder, options.base, options.dtype)
    save_model(model, tokenizer, options.out)
    print(f"{options.out}: the merged model")
    return 0


def add_parsers(commands: Any) -> None:
    """Add ``sft`` and ``merge`` to the sub-commands of `rlvr`."""
    training = commands.add_parser("sft", help="train a model on chats that `rlvr export` wrote")
    training.add_argument("data", type=Path, help="X.jsonl or X.parquet of chats")
    training.add_argument("--model", required=True, help="rlvr/tiny, or a Hugging Face model by name or folder")
    training.add_argument("--out", type=Path, required=True, help="new folder for the trained model")
    training.add_argument("--epochs", type=int, default=1, help="times that each chat is learned")
    training.add_argument("--batch-size", type=int, default=16, help="chats of a step")
    training.add_argument("--lr", type=float, default=1e-5, help="learning rate; it falls to a tenth")
    training.add_argument("--warmup-steps", type=int, default=0, help="over which the learning rate rises")
    training.add_argument("--held-out", type=float, default=0.1, metavar="SHARE", help="of the prompts, to measure on")
    training.add_argument("--max-length", type=int, default=4096, help="tokens; longer chats are left out")
    training.add_argument("--lora-rank", type=int, default=0, help="train a LoRA adapter of this rank; 0: all weights")
    training.add_argument("--dtype", default="float32", help="of the weights: float32, bfloat16 or float16")
    training.add_argument("--device", help="cpu or cuda; a GPU where there is one, if left out")
    training.add_argument("--seed", type=int, default=0, help="decides what is held out, and the order")
    training.set_defaults(command=sft)
    merging = commands.add_parser("merge", help="merge a LoRA adapter into its base model")
    merging.add_argument("folder", type=Path, help="of the adapter, as peft writes it")
    merging.add_argument("--out", type=Path, required=True, help="new folder for the merged model")
    merging.add_argument("--base", help="base model in place of the one that the adapter names")
    merging.add_argument("--dtype", help="of the merged weights; the base's own if left out")
    merging.set_defaults(command=merge)
