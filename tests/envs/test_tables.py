"""Rows come from an explicit path, from RLVR_DATA or from the hub; whatever is wrong is one clear sentence."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlvr.envs.core.tables import DataError, Source, load_rows, read_table, scan_table
from rlvr.envs.mathematics.gsm8k import GSM8K

SOURCE = Source(folder="sums", hub="nobody/sums", revision="0" * 40, columns=("question", "answer"))
ROWS = [{"question": "1+1?", "answer": "2"}, {"question": 'commas, "quotes"\nand é日🙂', "answer": "3"}]


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.delenv("RLVR_DATA")


def jsonl(rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write(path, rows=ROWS):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(jsonl(rows).encode()))
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        quoted = ['"' + '","'.join(row[k].replace('"', '""') for k in SOURCE.columns) + '"' for row in rows]
        path.write_text("question,answer\n" + "\n".join(quoted) + "\n", encoding="utf-8")
    else:
        path.write_text(jsonl(rows), encoding="utf-8")
    return path


# where rows are found


@pytest.mark.parametrize("end", [".jsonl", ".jsonl.gz", ".parquet", ".csv"])
@pytest.mark.parametrize("way", ["file", "folder", "RLVR_DATA"])
def test_reads_every_format_by_every_way(tmp_path, monkeypatch, end, way):
    path = write(tmp_path / "sums" / f"train{end}")
    if way == "RLVR_DATA":
        monkeypatch.setenv("RLVR_DATA", str(tmp_path))
        assert load_rows(SOURCE, "train") == ROWS
    else:
        assert load_rows(SOURCE, "train", path if way == "file" else str(path.parent)) == ROWS


def test_an_explicit_path_goes_before_the_folder(tmp_path, monkeypatch):
    write(tmp_path / "sums" / "train.jsonl")
    other = write(tmp_path / "mine.jsonl", ROWS[:1])
    monkeypatch.setenv("RLVR_DATA", str(tmp_path))
    assert load_rows(SOURCE, "train", other) == ROWS[:1]


def test_the_home_folder_may_be_written_as_a_tilde(tmp_path, monkeypatch):
    write(tmp_path / "sums" / "train.jsonl")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_rows(SOURCE, "train", "~/sums") == ROWS
    monkeypatch.setenv("RLVR_DATA", "~")
    assert load_rows(SOURCE, "train") == ROWS


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text("\ufeff" + jsonl(ROWS).replace("\n", "\n\n  \n") + "\n", encoding="utf-8")
    assert read_table(path) == ROWS
    table = tmp_path / "train.csv"
    table.write_text("\ufeffquestion,answer\na,b\n", encoding="utf-8")
    assert read_table(table) == [{"question": "a", "answer": "b"}]


# what is not there


@pytest.mark.parametrize("folder", [None, "elsewhere"])
def test_absent_data_without_the_hub_extra_names_all_three_ways(tmp_path, monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "datasets", None)  # what an import of what is not installed finds
    if folder:
        monkeypatch.setenv("RLVR_DATA", str(tmp_path / folder))
    with pytest.raises(DataError) as error:
        load_rows(SOURCE, "test")
    for way in ("data_files=", "RLVR_DATA", "sums/test.jsonl", "rlvr[hub]", "nobody/sums"):
        assert way in str(error.value)
    assert "\n" not in str(error.value)


def test_absent_data_without_network_names_all_three_ways(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"data_files=.*RLVR_DATA.*sums/test\.jsonl.*nobody/sums"):
        load_rows(SOURCE, "test")


def test_a_path_that_is_not_there_is_named_and_nothing_else_is_tried(tmp_path, monkeypatch):
    write(tmp_path / "sums" / "train.jsonl")
    monkeypatch.setenv("RLVR_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"nowhere.*no such file, nor a folder that holds train\.jsonl"):
        load_rows(SOURCE, "train", tmp_path / "nowhere")
    with pytest.raises(DataError, match="nor a folder that holds"):
        load_rows(SOURCE, "test", tmp_path / "sums")


# what is there and wrong


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "no rows"),
        ("a.jsonl", b"\n\n", "no rows"),
        ("a.csv", b"question,answer\n", "no rows"),
        ("a.jsonl", b'{"question": "1", "answer": "2"}\n{"question": \n', "line 2 of .* is not JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1 of .* is not JSON"),
        ("a.jsonl", b"[1, 2]\n", "line 1 of .* is not a JSON object"),
        ("a.jsonl", b"\xff\xfe\n", "cannot read"),
        ("a.jsonl", b'{"question": "1"}\n', "row 0 of .* lacks answer; it has question"),
        ("a.jsonl", b'{"question": "1", "answer": null}\n', "lacks answer, whose column is empty there$"),
        ("a.csv", b"question,answer\nonly one\n", "row 0 of .* lacks answer"),
        ("a.csv", b"question,answer\n1,2\nHow many, in all?,3\n", "row 1 of .* quote its commas"),
        ("a.csv", b"question,answer\n" + b"x" * 200_000 + b",1\n", "cannot read"),
        ("a.jsonl.gz", b"not gzip at all", "cannot read"),
        ("a.jsonl.gz", gzip.compress(jsonl(ROWS * 50).encode(), mtime=0)[:60], "cannot read"),
        ("a.parquet", b"PAR1 but not really", "cannot read"),
        ("a.parquet", b"", "cannot read"),
        ("a.txt", b"1", r"its ending is none of \.jsonl"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_rows(SOURCE, "train", path)


def large_line(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"question": "' + b"x" * (80 << 20) + b'", "answer": "1"}\n')


def many_rows(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"question": "a", "answer": "b"}\n' * 400_000, 9))


def large_dictionary(path: Path, pyarrow: Any, parquet: Any) -> None:
    """One text of 8 MiB in each of a thousand rows; it stands in the file once."""
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 1_000, pyarrow.int32()), ["x" * (8 << 20)])
    table = pyarrow.table({"question": texts, "answer": pyarrow.array(["1"] * 1_000)})
    parquet.write_table(table, path, compression="zstd", dictionary_pagesize_limit=1 << 28)


def large_page(path: Path, pyarrow: Any, parquet: Any) -> None:
    table = pyarrow.table({"question": ["x" * (80 << 20)], "answer": ["1"]})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False)


def rows_of_nothing(path: Path, pyarrow: Any, parquet: Any) -> None:
    parquet.write_table(pyarrow.table({"question": pyarrow.nulls(1_000_000)}), path)


@pytest.mark.slow
@pytest.mark.parametrize("write", [large_line, many_rows, large_dictionary, large_page, rows_of_nothing])
def test_a_small_file_does_not_become_a_large_table(tmp_path, write):
    """Each is under 0.5 MB; a table of the same kind and an ordinary size is read."""
    if write in (large_line, many_rows):
        path = tmp_path / "a.jsonl.gz"
        write(path)
    else:
        path = tmp_path / "a.parquet"
        write(path, pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet"))
    assert path.stat().st_size < 500_000
    with pytest.raises(DataError, match=r"over 64 MiB once it is decompressed|rows take over 4 GiB"):
        read_table(path)


def test_dictionaries_in_parquet_are_read_as_their_values(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    texts = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    lists = pyarrow.array([[{"role": "user"}], [], [{"role": "tool"}]]).cast(
        pyarrow.list_(pyarrow.struct([("role", kind)]))
    )
    parquet.write_table(pyarrow.table({"text": texts, "messages": lists}), tmp_path / "a.parquet")
    rows = read_table(tmp_path / "a.parquet")
    assert [row["text"] for row in rows] == ["a", "b", "a"]
    assert [row["messages"] for row in rows] == [[{"role": "user"}], [], [{"role": "tool"}]]


def test_a_table_that_is_left_half_read_ends_its_reader(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"n": list(range(5_000_000))}), tmp_path / "a.parquet")
    rows = scan_table(tmp_path / "a.parquet")
    assert next(rows) == {"n": 0}
    rows.close()
    running = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    assert not [child for child in running if any("parquet_rows" in word for word in child.cmdline())]


def test_parquet_without_its_library_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"rlvr\[hub\]"):
        load_rows(SOURCE, "train", path)


# GSM8K's own rows


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("It is 5.", "no line '#### n'"),
        ("It is 5.\n####", "no line '#### n'"),
        ("It is 5.\n####  ", "no line '#### n'"),
        ("It is five.\n#### five", "not a number"),
        ("It is 5 or 6.\n#### 5 or 6", "not a number"),
        (5, "must be text"),
    ],
)
def test_gsm8k_refuses_rows_without_a_final_answer(tmp_path, answer, message):
    path = write(tmp_path / "train.jsonl", [{"question": "?", "answer": "#### 1"}, {"question": "?", "answer": answer}])
    with pytest.raises(DataError, match=f"row 1: .*{message}"):
        GSM8K(data_files=path)


def test_gsm8k_refuses_a_row_without_a_question(tmp_path):
    path = write(tmp_path / "train.jsonl", [{"question": " ", "answer": "#### 1"}])
    with pytest.raises(DataError, match="row 0: question and answer must be text"):
        GSM8K(data_files=path)
