"""Logs that other tools wrote themselves, in the viewer. tests/data/foreign/README.md says how they were made."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from rlvr.adapters.viewer import foreign
from rlvr.adapters.viewer.foreign import read_inspect, read_parquet
from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.pages import Pages
from rlvr.adapters.viewer.queries import listing
from rlvr.adapters.viewer.sources import find_sources

FOREIGN = Path(__file__).parents[1] / "data" / "foreign"
LOG = FOREIGN / "inspect.eval"


def test_a_log_of_inspect_is_shown_with_its_calls_results_thinking_and_scores():
    pytest.importorskip("zstandard", reason="Inspect packs its logs with Zstandard")
    traces = list(read_inspect(LOG))
    assert [(t.env, t.key, t.sample, t.status, t.reward) for t in traces] == [
        ("sums", "1", 1, "correct", 1.0),
        ("sums", "1", 2, "correct", 1.0),
        ("sums", "two", 1, "wrong", 0.0),
        ("sums", "two", 2, "wrong", 0.0),
    ]
    system, question, call, result, answer = traces[0].messages
    assert (system.role, system.text, question.text) == ("system", "Use the tool.", "What is 2 + 3?")
    assert [(c["name"], json.loads(c["arguments"])) for c in call.calls] == [("add", {"x": 2, "y": 3})]
    assert (result.role, result.text, result.call_id) == ("tool", "5", call.calls[0]["id"])
    assert (answer.text, answer.reasoning) == ("5", "the tool says so")
    assert traces[0].parts == {"match": 1.0}
    assert traces[2].notes["target"] == "8"


def test_completions_of_trl_are_shown_with_their_rewards_and_groups():
    pytest.importorskip("pyarrow")
    traces = list(read_parquet(FOREIGN / "trl_completions_00001.parquet"))
    assert [(t.source, t.step, t.reward) for t in traces] == [
        ("trl", 1, 1.5),
        ("trl", 1, 1.5),
        ("trl", 1, 1.5),
        ("trl", 1, 1.0),
    ]
    assert [t.messages[0].text for t in traces] == ["What is 2 + 2?"] * 2 + ["What is 3 + 2?"] * 2
    assert all([m.role for m in t.messages] == ["user", "assistant"] for t in traces)
    assert traces[3].parts == {"length": 1.0, "vowels": 0.0}
    assert [round(t.notes["advantage"], 2) for t in traces] == [0, 0, 0.71, -0.71]


def test_both_are_found_in_a_folder_searched_and_grouped(tmp_path):
    pytest.importorskip("zstandard")
    pytest.importorskip("pyarrow")
    index = EpisodeIndex(find_sources([FOREIGN]), tmp_path)
    try:
        index.update()
        pages = Pages(index)
        assert pages.state()["problems"] == []
        assert listing(index.reader, {})["total"] == 8
        (first, second) = listing(index.reader, {"tool": "add", "status": "correct"})["rows"]
        assert listing(index.reader, {"q": '"What is 4"'})["total"] == 2
        assert [each["row"]["id"] for each in pages.group(first["id"])["samples"]] == [first["id"], second["id"]]
        (row, *_) = listing(index.reader, {"source": "trl_completions_00001.parquet"})["rows"]
        assert len(pages.group(row["id"])["samples"]) == 2
        assert pages.signs({})["rewarded"] == 6
    finally:
        index.close()


@pytest.mark.parametrize("harm", ["bytes", "short", "size", "bomb", "header"])
def test_a_damaged_entry_is_one_sentence(tmp_path, harm, monkeypatch):
    pytest.importorskip("zstandard")
    content = bytearray(LOG.read_bytes())
    with zipfile.ZipFile(LOG) as packed:
        entry = packed.getinfo("samples/1_epoch_1.json")
        directory = packed.start_dir
    if harm == "bytes":
        content[entry.header_offset + 90 : entry.header_offset + 300] = bytes(210)
    elif harm == "short":
        for at in range(directory, len(content)):
            if content[at : at + 4] == b"PK\x01\x02":
                content[at + 20 : at + 24] = (10).to_bytes(4, "little")
    elif harm == "size":
        for at in range(directory, len(content)):
            if content[at : at + 4] == b"PK\x01\x02":
                content[at + 24 : at + 28] = (7).to_bytes(4, "little")
    elif harm == "header":
        content[entry.header_offset + 26 : entry.header_offset + 30] = b"\xff" * 4
    else:
        monkeypatch.setattr(foreign, "MAX_ENTRY", 4_000)
    path = tmp_path / "harmed.eval"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged|cannot be read as a log|over 0 MiB"):
        list(read_inspect(path))


def test_without_zstandard_the_error_names_the_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(ImportError, match=r'pip install "rlvr\[hub\]"'):
        list(read_inspect(LOG))
