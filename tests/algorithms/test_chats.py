"""`rlvr sft` and `rlvr merge`: what the assistant said is learned, what is held out is of other tasks, and an adapter
merged into its base is the model that was trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from rlvr.agents.models.tiny import build_tiny, load_policy, tiny_tokenizer
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.train.chats import chat_of, read_chats, sequences_of, split_chats
from rlvr.cli import main

CALCULATOR = "rlvr/Calculator-v0"
ANSWER = {"role": "assistant", "content": "\\boxed{2}"}
QUESTION = {"role": "user", "content": "1+1?"}
CHAT = {"messages": [QUESTION, ANSWER]}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny(tmp_path_factory.mktemp("base") / "base", hidden=32, layers=2, seed=3)


def written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(capsys: Any, *words: object) -> tuple[int, str, str]:
    status = main(list(map(str, words)))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def refused(capsys: Any, *words: object) -> str:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("rlvr: ")
    assert err.count("\n") == 1
    return err


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_policy(folder)[0].state_dict())


# what is learned


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_worked_examples_are_read_and_not_learned(suffix: str, tmp_path: Path, capsys: Any):
    data = tmp_path / f"chats.{suffix}"
    words = ["--expert", "rlvr/GSM8K-v0", "--set", "few_shot=2", "--episodes", "4", "--out", data]
    assert run(capsys, "export", *words)[0] == 0
    chats, renderer = read_chats(data), Renderer(tiny_tokenizer())
    assert [chat.opening for chat in chats] == [5] * 4
    assert len({chat.prompt for chat in chats}) == 4, "the question names the task, not the examples"
    for chat, sequence in zip(chats, sequences_of(chats, renderer, 10_000)[0], strict=True):
        learned = [token for token, on in zip(sequence.ids, sequence.mask, strict=True) if on]
        assert renderer.tokenizer.decode(learned) == chat.messages[-1]["content"] + "<|end|>"


def test_a_weight_of_0_stands_on_the_first_replies_alone():
    idle = {**ANSWER, "weight": 0}
    assert chat_of({"messages": [QUESTION, {**ANSWER, "weight": 1}]}).opening == 0
    assert chat_of({"messages": [QUESTION, {**ANSWER, "weight": None}]}).opening == 0
    assert chat_of({"messages": [QUESTION, idle, QUESTION, ANSWER]}).opening == 2
    for messages in ([QUESTION, idle], [QUESTION, ANSWER, QUESTION, idle]):
        with pytest.raises(ValueError, match="weight 0 is for the assistant's first messages"):
            chat_of({"messages": messages})


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_exported_demonstrations_are_learned(suffix: str, base: Path, tmp_path: Path, capsys: Any):
    data, out = tmp_path / f"chats.{suffix}", tmp_path / "trained"
    assert main(["export", "--expert", CALCULATOR, "--episodes", "24", "--out", str(data)]) == 0
    capsys.readouterr()
    status, said, err = run(
        capsys, "sft", data, "--model", base, "--out", out, "--epochs", 3, "--batch-size", 4, "--lr", "1e-2"
    )
    assert (status, err) == (0, "")
    record = json.loads((out / "sft.json").read_text())
    held_out = [each["held_out_loss"] for each in record["epochs_done"]]
    losses = [each["loss"] for each in record["epochs_done"][1:]]
    assert len(held_out) == 4
    assert held_out[-1] < 0.7 * held_out[0], "chats that were not trained on became likelier"
    assert losses[-1] < losses[0]
    assert record["chats"] + record["held_out_chats"] == 24
    assert record["held_out_chats"] == 2
    assert f"held-out loss {held_out[-1]:.4f}" in said
    before, after = weights(base), weights(out)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert not list(tmp_path.glob(".*")), "no draft is left"


def test_the_loss_is_on_the_assistants_tokens_alone():
    tokenizer = tiny_tokenizer()
    tool = {"role": "tool", "content": "= 2"}
    chat = chat_of({"messages": [QUESTION, {"role": "assistant", "content": "<call>"}, tool, ANSWER]})
    ([sequence], longer) = sequences_of([chat], Renderer(tokenizer), 4096)
    learned = tokenizer.decode([each for each, on in zip(sequence.ids, sequence.mask, strict=True) if on])
    assert (learned, longer) == ("<call><|end|>\\boxed{2}<|end|>", 0)
    assert "= 2" in tokenizer.decode(sequence.ids)
    assert sequences_of([chat], Renderer(tokenizer), len(sequence.ids) - 1) == ([], 1)


def test_the_same_seed_trains_the_same_weights(base: Path, tmp_path: Path, capsys: Any):
    rows = [{"messages": [{"role": "user", "content": f"{n}+1?"}, ANSWER]} for n in range(6)]
    data = written(tmp_path / "chats.jsonl", rows)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        words = ("--model", base, "--out", tmp_path / name, "--batch-size", 2, "--lr", "1e-2", "--seed", seed)
        assert run(capsys, "sft", data, *words)[0] == 0
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a), "another order, and others held out"


# what is held out


def test_no_prompt_is_on_both_sides():
    chats = [
        chat_of({"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"{sample}"}]})
        for n in range(10)
        for sample in range(4)
    ]
    train, held_out = split_chats(chats, 0.3, seed=0)
    assert (len(train), len(held_out)) == (28, 12)
    assert not {chat.prompt for chat in train} & {chat.prompt for chat in held_out}
    assert split_chats(chats, 0.3, seed=0) == (train, held_out)
    assert split_chats(chats, 0.3, seed=1) != (train, held_out)
    assert split_chats(chats, 0.0, seed=0) == (chats, [])
    assert len(split_chats(chats, 0.99, seed=0)[0]) == 4, "something is left to train on"


def test_one_prompt_alone_cannot_be_split(base: Path, tmp_path: Path, capsys: Any):
    data = written(tmp_path / "chats.jsonl", [CHAT] * 3)
    words = ("sft", data, "--model", base, "--out", tmp_path / "out")
    assert "--held-out 0" in refused(capsys, *words)
    status, out, _ = run(capsys, *words, "--held-out", 0)
    assert status == 0
    assert "held-out" not in out


# what is refused


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "no list of messages"),
        ({"messages": []}, "no list of messages"),
        ({"messages": ["hello"]}, "needs a role"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "needs a role"),
        ({"messages": [QUESTION]}, "at least one message of the assistant's"),
        ({"messages": [ANSWER, QUESTION]}, "a prompt and then"),
        ({"messages": [QUESTION, {"role": "assistant", "content": None}]}, "is no text"),
        ({"messages": [QUESTION, {**ANSWER, "tool_calls": [{"id": "1"}]}]}, "--format chat"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "image": "x"}]}, ANSWER]}, "has images"),
        ({**CHAT, "tools": "{"}, "row 2"),
        ({**CHAT, "tools": {"a": 1}}, "no list of JSON schemas"),
        ({**CHAT, "split": "test"}, "test split"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_row_is_named_in_one_sentence(row: dict, reason: str, base: Path, tmp_path: Path, capsys: Any):
    data, out = written(tmp_path / "chats.jsonl", [CHAT, row]), tmp_path / "out"
    said = refused(capsys, "sft", data, "--model", base, "--out", out)
    assert reason in said
    assert f"row 2 of {data}" in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--epochs", "0"], "--epochs must be at least 1"),
        (["--batch-size", "0"], "--batch-size must be at least 1"),
        (["--lr", "nan"], "--lr must be above 0"),
        (["--held-out", "1"], "--held-out must be"),
        (["--max-length", "4"], "no chat to train on is left"),
        (["--dtype", "float7"], "float7"),
        (["--device", "tpu9"], "tpu9"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_option_is_one_sentence(words: list[str], reason: str, base: Path, tmp_path: Path, capsys: Any):
    rows = [{"messages": [{"role": "user", "content": f"{n}+1?"}, ANSWER]} for n in range(6)]
    data, out = written(tmp_path / "chats.jsonl", rows), tmp_path / "out"
    status, _, err = run(capsys, "sft", data, "--model", base, "--out", out, *words)
    assert (status, out.exists()) == (2, False)
    assert reason in err.splitlines()[-1]


def test_nothing_that_is_there_is_written_over(base: Path, tmp_path: Path, capsys: Any):
    data = written(tmp_path / "chats.jsonl", [CHAT])
    assert "no empty folder" in refused(capsys, "sft", data, "--model", base, "--out", base)
    assert "no empty folder" in refused(capsys, "merge", base, "--out", base)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refused(capsys, "sft", data, "--model", base, "--out", link)


def test_a_file_that_is_no_table_of_chats_is_refused(tmp_path: Path):
    (tmp_path / "chats.csv").write_text("messages\n")
    with pytest.raises(ValueError, match=r"X\.jsonl or X\.parquet"):
        read_chats(tmp_path / "chats.csv")
    with pytest.raises(ValueError, match="has no rows"):
        read_chats(written(tmp_path / "chats.jsonl", []))
    with pytest.raises(ValueError, match="cannot read"):
        read_chats(tmp_path / "nothing.jsonl")


# adapters


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    rows = [{"messages": [{"role": "user", "content": f"{n}+1?"}, ANSWER]} for n in range(6)]
    data = written(folder / "chats.jsonl", rows)
    words = ["--lora-rank", "2", "--lr", "1e-2", "--batch-size", "2", "--epochs", "2"]
    assert main(["sft", str(data), "--model", str(base), "--out", str(folder / "adapter"), *words]) == 0
    return folder / "adapter"


def test_a_merged_adapter_is_the_model_that_was_trained(base: Path, adapter: Path, tmp_path: Path, capsys: Any):
    import peft

    out = tmp_path / "merged"
    assert run(capsys, "merge", adapter, "--out", out)[:2] == (0, f"{out}: the merged model\n")
    assert not (out / "adapter_config.json").exists()
    ids = torch.arange(40, 60)[None]
    adapted = peft.PeftModel.from_pretrained(load_policy(base)[0], adapter)
    merged, tokenizer = load_policy(out)
    untrained = load_policy(base)[0]
    with torch.no_grad():
        expected, found, before = (model(ids).logits for model in (adapted, merged, untrained))
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, before)
    assert tokenizer.chat_template


def test_an_adapter_of_the_tiny_model_names_its_base(tmp_path: Path, capsys: Any):
    data = written(tmp_path / "chats.jsonl", [CHAT])
    words = ("--model", "rlvr/tiny", "--lora-rank", 2, "--held-out", 0)
    assert run(capsys, "sft", data, "--out", tmp_path / "adapter", *words)[0] == 0
    assert run(capsys, "merge", tmp_path / "adapter", "--out", tmp_path / "merged")[0] == 0
    assert weights(tmp_path / "merged").keys() == load_policy("rlvr/tiny")[0].state_dict().keys()


def test_the_merged_weights_keep_the_bases_dtype(base: Path, adapter: Path, tmp_path: Path, capsys: Any):
    half = tmp_path / "half"
    model, tokenizer = load_policy(base, dtype="bfloat16")
    model.save_pretrained(half)
    tokenizer.save_pretrained(half)
    for name, words in (("own", ()), ("asked", ("--dtype", "float32"))):
        assert run(capsys, "merge", adapter, "--base", half, "--out", tmp_path / name, *words)[0] == 0
    kinds = [json.loads((tmp_path / name / "config.json").read_text())["dtype"] for name in ("own", "asked")]
    assert kinds == ["bfloat16", "float32"]


def test_what_is_no_adapter_is_one_clear_error(base: Path, adapter: Path, tmp_path: Path, capsys: Any):
    out = tmp_path / "out"
    assert "it is a whole model already" in refused(capsys, "merge", base, "--out", out)
    assert "there is no folder" in refused(capsys, "merge", tmp_path / "nothing", "--out", out)
    (tmp_path / "nothing").mkdir()
    assert "has no adapter_config.json" in refused(capsys, "merge", tmp_path / "nothing", "--out", out)
    config = json.loads((adapter / "adapter_config.json").read_text())
    for change, reason in (
        ({"peft_type": "PROMPT_TUNING"}, "its peft_type is 'PROMPT_TUNING'"),
        ({"base_model_name_or_path": None}, "give --base"),
        ({"megatron_config": {"a": 1}, "megatron_core": "evil"}, "names a module"),
    ):
        folder = tmp_path / reason.replace(" ", "-").replace("/", "")
        folder.mkdir()
        (folder / "adapter_model.safetensors").write_bytes((adapter / "adapter_model.safetensors").read_bytes())
        (folder / "adapter_config.json").write_text(json.dumps(config | change))
        assert reason in refused(capsys, "merge", folder, "--out", out)
    assert not out.exists()


def test_an_adapter_whose_weights_could_run_code_is_not_loaded(adapter: Path, tmp_path: Path, capsys: Any):
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "adapter_config.json").write_text((adapter / "adapter_config.json").read_text())
    (folder / "adapter_model.bin").write_bytes(b"cos\nsystem\n")
    assert "has no adapter_model.safetensors" in refused(capsys, "merge", folder, "--out", tmp_path / "out")


@pytest.mark.parametrize(
    "options", [{"hidden": 64, "layers": 2}, {"hidden": 32, "layers": 1}], ids=["wider", "shallower"]
)
def test_an_adapter_of_another_model_is_refused(options: dict, adapter: Path, tmp_path: Path, capsys: Any):
    other = build_tiny(tmp_path / "other", **options)
    status, _, err = run(capsys, "merge", adapter, "--base", other, "--out", tmp_path / "out")
    assert (status, (tmp_path / "out").exists()) == (2, False)
    assert f"the adapter in {adapter}" in err.splitlines()[-1]
