"""The viewer's content: what it reads, finds and refuses. How it looks in a browser is test_viewer_browser.py."""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import math
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlvr.adapters.viewer import foreign, traces
from rlvr.adapters.viewer.app import ViewerServer
from rlvr.adapters.viewer.export import write_export
from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.pages import Pages, common_prefix
from rlvr.adapters.viewer.queries import QueryError, listing, match_of
from rlvr.adapters.viewer.sources import curves, find_sources
from rlvr.agents.episode import Episode, Turn
from rlvr.cli import main
from rlvr.cli import view as cli_view
from rlvr.envs.core.code_rule import command_line
from rlvr.envs.core.verdict import Verdict

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


def episode(number: int, text: str = "", reward: float = 0.0, status: str = "wrong", **fields) -> dict:
    turns = [Turn(f"question {number}", "user", text or f"answer number{number}", "stop", reward)]
    made = Episode("rlvr/Made-v0", f"key/{number}", seed=0, index=number // 4, group=number // 4, sample=number % 4)
    made.turns, made.verdict, made.level = turns, Verdict(reward, status, reason="because"), 1 + number // 4
    return made.to_dict() | fields


def write(path: Path, *records: dict) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def indexed(tmp_path):
    """Makes the index of paths, and closes it."""
    made = []

    def index(*paths: Path) -> EpisodeIndex:
        found = EpisodeIndex(find_sources(paths), tmp_path / "index")
        made.append(found)
        found.update()
        return found

    yield index
    for each in made:
        each.close()


def found(index: EpisodeIndex, **asked: str) -> list[int]:
    """The numbers of the lines that a query finds."""
    result = listing(index.reader, asked)
    assert len(result["rows"]) == min(result["total"], 100)
    return [row["number"] for row in result["rows"]]


# what is found


def test_episodes_are_found_by_each_filter_and_by_their_words(tmp_path, indexed):
    records = [episode(n) for n in range(6)]
    records[2] = episode(2, "the quick brown fox", 1.0, "correct")
    records[4] = episode(4, "brown quick", 0.5, "partial")
    records[5]["turns"][0] |= {
        "stop": "length",
        "action": '<tool_call>{"name": "look_up", "arguments": {}}</tool_call>',
    }
    index = indexed(write(tmp_path / "train-000012.jsonl", *records))
    assert found(index) == [0, 1, 2, 3, 4, 5]
    assert found(index, q="quick brown") == [2, 4]
    assert found(index, q='"quick brown"') == [2]
    assert found(index, q="QUI*") == [2, 4]
    assert found(index, q="quick", status="partial") == [4]
    assert found(index, status="correct,partial") == [2, 4]
    assert found(index, min_reward="0.5", max_reward="0.9") == [4]
    assert found(index, level="2") == [4, 5]
    assert found(index, stop="length") == found(index, tool="look_up") == [5]
    assert found(index, tool="look%up") == found(index, tool="ook_up") == []
    assert found(index, sort="-reward")[:2] == [2, 4]
    assert [row["number"] for row in listing(index.reader, {"offset": "3", "limit": "2"})["rows"]] == [3, 4]
    assert found(index, min_step="12", max_step="12", phase="train") == [0, 1, 2, 3, 4, 5]
    assert found(index, source="other") == []


@pytest.mark.parametrize(
    "text",
    ['"', "a OR b", "NEAR(a b)", "body:x", "-a", "a AND", "*", "(", "'; DROP TABLE episodes; --", "\0", "^a", "{x}"],
)
def test_a_search_holds_words_and_no_syntax(tmp_path, indexed, text):
    index = indexed(write(tmp_path / "a.jsonl", episode(0, "alpha or beta")))
    try:
        listing(index.reader, {"q": text})
    except QueryError as error:
        assert "a letter or a digit" in str(error)  # noqa: PT017
    assert found(index) == [0]
    assert match_of('say OR "to be"') == '"say" "OR" "to be"'


@pytest.mark.parametrize("asked", [{"sort": "id; --"}, {"offset": "-1"}, {"limit": "x"}, {"min_reward": "x"}])
def test_what_is_asked_wrongly_is_one_sentence(tmp_path, indexed, asked):
    with pytest.raises(QueryError, match="must be"):
        listing(indexed(write(tmp_path / "a.jsonl", episode(0))).reader, asked)


# files that grow, tear and change


def test_new_lines_alone_are_read_and_a_torn_one_is_left_out_until_it_is_whole(tmp_path, indexed):
    path = write(tmp_path / "a.jsonl", episode(0), episode(1))
    index = indexed(path)
    first = [row["id"] for row in listing(index.reader, {})["rows"]]
    line = json.dumps(episode(2, "needle")) + "\n"
    for end in (1, len(line) // 2, len(line) - 1):
        path.write_text(path.read_text().rpartition("\n")[0] + "\n" + line[:end])
        index.update()
        assert found(index) == [0, 1]
        (problem,) = Pages(index).state()["problems"]
        assert f"not whole ({end} bytes)" in problem
        assert path.read_text().endswith(line[:end]), "the file itself is not touched"
    path.write_text(path.read_text().rpartition("\n")[0] + "\n" + line)
    index.update()
    assert found(index, q="needle") == [2]
    assert [row["id"] for row in listing(index.reader, {})["rows"]][:2] == first, "what was known is not read again"
    assert Pages(index).state()["problems"] == []


def test_a_file_that_was_written_anew_is_read_anew_and_a_deleted_one_forgotten(tmp_path, indexed):
    folder = tmp_path / "some"
    write(folder / "b.jsonl", episode(0, "stays"))
    path = write(folder / "a.jsonl", episode(0, "before"), episode(1, "before"))
    index = indexed(folder)
    assert found(index, q="before") == [0, 1]
    write(path, episode(0, "after"), episode(1, "after"), episode(2, "after"))
    index.update()
    assert found(index, q="before") == []
    assert found(index, q="after") == [0, 1, 2]
    path.unlink()
    index.update()
    assert found(index, q="after") == []
    assert found(index, q="stays") == [0]


def test_a_bad_line_is_named_and_hides_no_other(tmp_path, indexed):
    path = tmp_path / "a.jsonl"
    bad = [
        "{",
        "[]",
        '{"a": 1}',
        "[" * 5_000,
        '{"env_id": 3, "turns": 7}',
        '{"env_id": "x", "turns": [1, {"reward": 1e400}]}',
    ]
    path.write_text("\n".join([json.dumps(episode(0)), *bad, json.dumps(episode(1, "\ud800 lone"))]) + "\n")
    index = indexed(path)
    assert found(index)[0] == 0
    assert found(index, q="lone") == [7]
    problems = Pages(index).state()["problems"]
    assert [int(re.search(r"line (\d+)", problem)[1]) for problem in problems][:4] == [2, 3, 4, 5]
    json.dumps(Pages(index).episode(listing(index.reader, {"q": "lone"})["rows"][0]["id"]))


def test_an_index_is_kept_made_anew_when_it_is_broken_and_not_shared(tmp_path, indexed):
    path = write(tmp_path / "a.jsonl", episode(0), episode(1))
    first = indexed(path)
    second = indexed(path)
    assert second.path != first.path
    assert found(second) == [0, 1]
    first.close()
    second.close()
    assert not second.path.exists(), "the one that was for itself is deleted"
    third = indexed(path)
    assert third.path == first.path
    assert found(third) == [0, 1]
    third.close()
    third.path.write_bytes(b"no database" * 1_000)
    assert found(indexed(path)) == [0, 1]


def test_an_index_is_closed_while_it_takes_files_in(tmp_path):
    index = EpisodeIndex(
        find_sources([write(tmp_path / "a.jsonl", *(episode(n) for n in range(5_000)))]), tmp_path / "i"
    )
    begun = threading.Event()
    with ThreadPoolExecutor() as pool:
        updating = pool.submit(index.update, lambda: begun.set() or False)
        assert begun.wait(60)
        index.close()
        updating.result()  # raises where it met a closed connection
    assert not index.update(), "a closed index takes nothing in"


def test_an_index_that_a_viewer_left_open_is_read_through_before_it_is_trusted(tmp_path, indexed, monkeypatch):
    path = write(tmp_path / "a.jsonl", *(episode(n, f"text{n} " * 50) for n in range(60)))
    first = indexed(path)
    lock = first.path.with_suffix(".lock")
    assert lock.read_text() == "open"
    first.close()
    assert lock.read_text() == "closed"
    checked = []
    sound = EpisodeIndex._is_sound
    monkeypatch.setattr(EpisodeIndex, "_is_sound", lambda self, c: (checked.append(1), sound(self, c))[1])
    second = indexed(path)
    assert not checked
    second.close()
    lock.write_text("open")  # as a process leaves it that was killed
    content = bytearray(second.path.read_bytes())
    content[4096:-4096:7] = b"\xff" * len(content[4096:-4096:7])
    second.path.write_bytes(content)
    third = indexed(path)
    assert checked
    assert found(third, q="text7") == [7]
    assert len(found(third)) == 60


def test_what_stands_beside_episodes_is_not_taken_for_episodes(tmp_path):
    """`rlvr train` notes each start in provenance.jsonl, `rlvr eval --out` the turns of what has not ended."""
    run = tmp_path / "run"
    write(run / "metrics.jsonl", {"phase": "train", "step": 1, "reward": 0.5})
    write(run / "timing.jsonl", {"phase": "train", "step": 1, "seconds": 0.5})
    write(run / "provenance.jsonl", {"git": "abc", "seed": 0})
    write(run / "episodes" / "train-000001.jsonl", episode(0))
    write(tmp_path / "results.jsonl", episode(1))
    write(tmp_path / "results.jsonl.turns.jsonl", {"answers": "abc", "reply": {"text": "x"}})
    sources = find_sources([tmp_path])
    assert [path.name for source in sources for path in source.files] == ["train-000001.jsonl", "results.jsonl"]


def test_a_folder_of_runs_and_files_is_looked_through_and_links_are_not_followed(tmp_path):
    write(tmp_path / "all" / "one" / "metrics.jsonl", {"phase": "train", "step": 1, "reward": 0.5})
    write(tmp_path / "all" / "one" / "episodes" / "train-000001.jsonl", episode(0))
    write(tmp_path / "all" / "deep" / "two" / "metrics.jsonl", {"phase": "train", "step": 1, "reward": 0.5})
    write(tmp_path / "all" / "alone.jsonl", episode(0))
    write(tmp_path / "elsewhere" / "secret.jsonl", episode(0))
    (tmp_path / "all" / "link").symlink_to(tmp_path / "elsewhere")
    sources = find_sources([tmp_path / "all", tmp_path / "all" / "one"])
    assert [source.name for source in sources] == ["deep/two", "one", "alone.jsonl", "one (2)"]
    assert [path.name for path in sources[1].files] == ["train-000001.jsonl"]
    with pytest.raises(FileNotFoundError, match="there is no file"):
        find_sources([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="holds no run"):
        find_sources([tmp_path / "empty"])


def test_curves_leave_out_what_is_no_number_and_say_what_is_torn(tmp_path):
    lines = [{"phase": "train", "step": n, "reward": n / 10, "ok": True, "text": "x", "none": None} for n in range(3)]
    write(tmp_path / "metrics.jsonl", *lines)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"phase": "train", "step": 3, "rew')
    series, wrong = curves(tmp_path)
    assert series == {"train/reward": [(0.0, 0.0), (1.0, 0.1), (2.0, 0.2)]}
    assert wrong == ["the last line of metrics.jsonl is not whole, and is left out"]
    write(tmp_path / "metrics.jsonl", *({"phase": "t", "step": n, "x": n} for n in range(9_001)))
    (points,) = curves(tmp_path)[0].values()
    assert len(points) <= 4_000
    assert (points[0], points[-1]) == ((0, 0), (9_000, 9_000))


# one episode, and its group


def test_an_episode_is_told_apart_into_thinking_calls_results_images_and_columns(tmp_path, indexed):
    call = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
    record = episode(0, f"<think>hm</think>I add.{call}")
    record["turns"][0]["image"] = PNG
    record["turns"].append({"observation": "2", "role": "tool", "action": "\\boxed{2}", "stop": "stop", "reward": 1.0})
    record["turns"].append(
        {"observation": "x", "role": "user", "action": "", "image": "data:image/svg+xml;base64,PHN2Zz4="}
    )
    record["system"], record["tokens"] = (
        "Be good.",
        {"ids": [5, 6, 7], "mask": [0, 1, 1], "logprobs": [0.0, -1.0, -0.5]},
    )
    record["training"] = {"advantages": 0.5, "weights": [0.0, 0.1, 0.2], "old_logprobs": [0.0]}
    pages = Pages(indexed(write(tmp_path / "a.jsonl", record)))
    shown = pages.episode(1)
    system, user, assistant, tool, *_, last, _ = shown["trace"]["messages"]
    assert (system["role"], user["images"], tool["role"], last["images"]) == ("system", [PNG], "tool", [])
    assert (assistant["reasoning"], assistant["text"]) == ("hm", "I add.")
    assert assistant["calls"] == [{"id": "", "name": "add", "arguments": '{"a": 1}'}]
    assert shown["tokens"] == 3
    columns = pages.tokens(1)["columns"]
    assert columns == {
        "mask": [0, 1, 1],
        "log-prob": [0.0, -1.0, -0.5],
        "advantage": [0.0, 0.5, 0.5],
        "weight": [0.0, 0.1, 0.2],
    }
    with pytest.raises(KeyError):
        pages.episode(2)


def test_a_turn_has_its_measured_value_beside_its_advantage_and_the_experts_are_marked(tmp_path, indexed):
    record = episode(0, "the expert's", prefix=1)
    for text, end, reward in (("first", 4, 0.0), ("second", 6, 1.0)):
        turn = {"observation": "o", "role": "user", "action": text, "stop": "stop", "reward": reward, "end": end}
        record["turns"].append(turn)
    record["tokens"] = {"ids": [*range(6)], "mask": [0, 0, 1, 1, 0, 1], "logprobs": [-1.0] * 6}
    record["training"] = {"advantages": [0.0, 0.0, 0.5, 0.25, 0.0, -0.5], "turn_values": [None, 0.25, 0.75]}
    index = indexed(write(tmp_path / "a.jsonl", record, record | {"training": {"turn_values": "hostile"}}))
    shown = Pages(index).episode(1)["trace"]["messages"]
    actions = [message for message in shown if message["role"] == "assistant"]
    fields = ("expert", "value", "measured", "advantage")
    assert [[each[name] for name in fields] for each in actions] == [
        [True, None, None, None],
        [False, 0.25, 0.5, 0.375],
        [False, 0.75, 0.25, -0.5],
    ]
    assert index.trace(1)[0].actions() == "first\nsecond", "what the expert wrote is none of the policy's"
    assert Pages(index).episode(2)["trace"]["messages"][3]["value"] is None


def branching(**changes) -> dict:
    """A conversation, a helper's, one that goes on from the first reply, and what ``changes`` say of the last."""
    says = [("Lead.", 0), ("Help.", 1), ("More.", 0), ("Another way.", 2)]
    turns = [Turn(text, "user", f"{text} Yes.", "stop", branch=branch).to_dict() for text, branch in says]
    follows = [{"follows": -1, "tokens": {}}, {"follows": 0, "tokens": {}} | changes]
    return episode(7) | {"turns": turns, "branches": follows}


def test_conversations_of_an_episode_say_what_they_go_on_from(tmp_path, indexed):
    index = indexed(write(tmp_path / "a.jsonl", branching(), branching(follows=3), branching(follows="x"), episode(1)))
    pages = Pages(index)
    trace = pages.episode(1)["trace"]
    assert [message["branch"] for message in trace["messages"] if message["role"] == "assistant"] == [0, 1, 0, 2]
    assert [(b["name"], b["follows"]) for b in trace["branches"]] == [
        ("first conversation", -1),
        ("branch 1", -1),
        ("branch 2", 1),
    ]
    # a conversation that goes on from itself, or from nothing that there is, has a beginning of its own
    assert [pages.episode(number)["trace"]["branches"][2]["follows"] for number in (2, 3)] == [-1, -1]
    assert pages.episode(4)["trace"]["branches"] == []


def test_forks_of_forks_are_a_tree_and_a_circle_ends(tmp_path, indexed):
    path = (tmp_path / "a.jsonl").resolve()

    def fork_of(line: int, number: int) -> dict:
        return episode(number) | {"forked_from": {"key": "k", "turn": 0, "file": str(path), "line": line}}

    records = [episode(0), fork_of(1, 1), fork_of(1, 2), fork_of(2, 3), episode(4), fork_of(7, 5), fork_of(6, 6)]
    pages = Pages(indexed(write(path, *records, fork_of(99, 7))))

    def numbers(node: dict) -> list:
        return [node["id"], *map(numbers, node["forks"])]

    for number in (1, 2, 3, 4):
        assert numbers(pages.episode(number)["forks"]) == [1, [2, [4]], [3]]
    assert pages.episode(5)["forks"] is None
    assert numbers(pages.episode(6)["forks"]) in ([6, [7]], [7, [6]])
    assert pages.episode(8)["forks"] is None  # its origin is in no file here


def test_a_group_says_where_its_samples_part(tmp_path, indexed):
    records = [episode(n, text, n % 2) for n, text in enumerate(("so it is 4", "so it is 5", "so it was"))]
    for record, ids in zip(records, ([1, 2, 3], [1, 2, 4], [1, 2, 5, 6]), strict=True):
        record["tokens"] = {"ids": [9, *ids], "mask": [0] + [1] * len(ids), "logprobs": [0.0] * (1 + len(ids))}
    pages = Pages(indexed(write(tmp_path / "a.jsonl", *records, episode(7))))
    group = pages.group(1)
    assert [sample["row"]["number"] for sample in group["samples"]] == [0, 1, 2]
    assert group["shared_characters"] == len("so it ")
    assert group["first_differing_token"] == 2
    assert common_prefix([[1, 2], [1, 2]]) == 2


def test_the_same_task_is_found_in_other_files(tmp_path, indexed):
    folder = tmp_path / "run"
    for step in (1, 2):
        write(folder / "episodes" / f"train-00000{step}.jsonl", episode(0), episode(1), episode(9))
    write(folder / "metrics.jsonl", {"phase": "train", "step": 1})
    shown = Pages(indexed(folder)).episode(1)
    assert [row["number"] for row in shown["group"]] == [0, 1]
    assert [(row["step"], row["number"]) for row in shown["elsewhere"]] == [(2, 0), (2, 1)]


# what other tools wrote


CHAT = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PNG}}]},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
    {"role": "assistant", "content": "<think>so</think>It is 42."},
]


def test_chats_verifiers_results_and_trl_rows_are_read(tmp_path, indexed):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "logs"
    write(folder / "chat.jsonl", {"messages": CHAT, "reward": 1.0}, {"conversations": [{"from": "gpt", "value": "hi"}]})
    result = {
        "example_id": 3,
        "prompt": CHAT[:2],
        "completion": CHAT[2:],
        "reward": 0.5,
        "answer": "42",
        "task": "sums",
        "f": 0.5,
    }
    write(folder / "results.jsonl", result, result | {"reward": 1.0, "error": None})
    rows = {
        "step": [1, 1],
        "prompt": ["p", "p"],
        "completion": ["a b", "a c"],
        "accuracy": [1.0, 0.0],
        "advantage": [0.7, -0.7],
    }
    pq.write_table(pa.table(rows), folder / "completions_00001.parquet")
    index = indexed(folder)
    pages = Pages(index)
    shown = [pages.episode(row["id"]) for row in listing(index.reader, {})["rows"]]
    assert [each["trace"]["source"] for each in shown] == ["chat", "chat", "trl", "trl", "verifiers", "verifiers"]
    assert [each["row"]["status"] for each in shown] == ["correct", "", "correct", "wrong", "partial", "correct"]
    chat = shown[0]["trace"]["messages"]
    assert [message["role"] for message in chat] == ["system", "user", "assistant", "tool", "assistant"]
    assert (chat[1]["images"], chat[2]["calls"][0]["id"], chat[3]["call_id"]) == ([PNG], "c1", "c1")
    assert (chat[4]["reasoning"], chat[4]["text"]) == ("so", "It is 42.")
    assert len(pages.group(shown[2]["row"]["id"])["samples"]) == 2
    assert pages.group(shown[2]["row"]["id"])["shared_characters"] == 2
    assert len(shown[4]["group"]) == 2
    assert found(index, tool="f") == [0, 0, 1]


def test_inspects_logs_are_read_and_a_large_entry_refused(tmp_path, indexed, monkeypatch):
    sample = {
        "id": 1,
        "epoch": 1,
        "messages": CHAT,
        "scores": {"match": {"value": "C", "answer": "42", "explanation": "equal"}},
        "target": "42",
    }
    failed = sample | {"id": 2, "scores": {}, "error": {"message": "boom"}}
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("header.json", json.dumps({"eval": {"task": "sums"}}))
        for each in (sample, failed):
            packed.writestr(f"samples/{each['id']}_epoch_1.json", json.dumps(each))
    (tmp_path / "log.json").write_text(json.dumps({"eval": {"task": "sums"}, "samples": [sample]}))
    for name, count in (("log.eval", 2), ("log.json", 1)):
        pages = Pages(indexed(tmp_path / name))
        rows = pages.episodes({})["rows"]
        assert [(row["env"], row["status"]) for row in rows] == [("sums", "correct"), ("sums", "env_error")][:count]
        assert pages.episode(rows[0]["id"])["trace"]["reason"] == "equal"
    monkeypatch.setattr(foreign, "MAX_ENTRY", 10)
    with pytest.raises(ValueError, match="has over"):
        list(foreign.read_inspect(tmp_path / "log.eval"))
    (tmp_path / "bad.eval").write_bytes(b"PK no zip")
    index = indexed(tmp_path / "bad.eval")
    assert "cannot be read as a log of Inspect" in Pages(index).state()["problems"][0]


@pytest.mark.parametrize("value", [None, 3, [], {"turns": 1}, {"messages": "x"}])
def test_a_record_of_no_known_form_is_refused(value):
    with pytest.raises(traces.NotATrace):
        foreign.trace_of(value)


# the server


def ask(
    server: ViewerServer, path: str, method: str = "GET", data: bytes | None = None, **headers: str
) -> tuple[int, str, dict]:
    request = urllib.request.Request(
        server.origin + path, data, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


@pytest.fixture
def server(tmp_path, indexed):
    index = indexed(write(tmp_path / "a.jsonl", episode(0, "a secret answer")))
    with ViewerServer(Pages(index)) as serving:
        yield serving


def test_connections_that_say_nothing_give_way_to_those_that_do(tmp_path, indexed, monkeypatch):
    monkeypatch.setattr("rlvr.adapters.viewer.app.WAITING", 20)
    index = indexed(write(tmp_path / "a.jsonl", episode(0, "a secret answer")))
    with ViewerServer(Pages(index)) as server, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(60)]
        for link in idle[:36]:
            link.settimeout(60)
            with contextlib.suppress(ConnectionResetError):
                assert link.recv(1) == b""
        assert ask(server, "/api/state", Authorization=f"Bearer {server.key}")[0] == 200


def test_what_was_recorded_is_told_to_who_has_the_key_alone(server):
    right = f"Bearer {server.key}"
    for path in ("/api/state", "/api/episodes", "/api/episode/1", "/api/group/1", "/api/choices", "/api/curves"):
        assert ask(server, path)[0] == 401
        assert ask(server, path, Authorization="Bearer wrong")[0] == 401
        assert ask(server, f"{path}?key={server.key}")[0] == 401, "a key in an address would stand in logs"
        assert ask(server, path, Authorization=right)[0] == 200
    assert "secret" in ask(server, "/api/episode/1", Authorization=right)[1]
    for path in ("/", "/main.js", "/view.css", "/nothing"):
        assert "secret" not in ask(server, path)[1]
    assert ask(server, "/api/episode/9", Authorization=right)[0] == 404
    assert ask(server, "/api/episodes?sort=x", Authorization=right)[0] == 400
    status, text, _ = ask(server, "/api/regrade/1", "POST", Authorization=right)
    assert status == 400
    assert "--read-only" in text


@pytest.mark.parametrize("number", ["9" * 18, "9" * 30, "9" * 5_000, "-1", "1.5", "one", "%C2%B2", "%00"])
def test_an_episode_of_an_absurd_number_is_not_found(server, number):
    right = f"Bearer {server.key}"
    for kind in ("episode", "tokens", "group"):
        assert ask(server, f"/api/{kind}/{number}", Authorization=right)[0] == 404
    for kind in ("regrade", "fork"):  # 400: this viewer does neither
        assert ask(server, f"/api/{kind}/{number}", "POST", Authorization=right)[0] in (400, 404)


def test_numbers_beyond_all_bounds_are_left_out_of_what_a_browser_reads(tmp_path, indexed):
    def no_json(constant):
        raise AssertionError(f"{constant} is no JSON")

    turns = [{"observation": "q", "role": "user", "action": "a", "stop": "stop", "reward": 1e308}] * 2
    mask = {"ids": [1, 2], "mask": [1e308, 1e308], "logprobs": [-1.0, -1.0], "entropy": 1e9}
    records = [
        episode(0) | {"turns": turns},
        episode(1) | {"tokens": mask},
        {"messages": [{"role": "user", "content": "q"}], "reward": 1.0, "id": math.inf},
        {"ok": True, "task": {}, "id": math.inf, "traces": [{"rewards": {"r": {"score": 1e308, "weight": 1e308}}}]},
    ]
    index = indexed(write(tmp_path / "a.jsonl", *records))
    rows = listing(index.reader, {})["rows"]
    assert len(rows) == len(records)
    assert all(row["reward"] is None or math.isfinite(row["reward"]) for row in rows)
    with ViewerServer(Pages(index)) as serving:
        for path in ["/api/state", "/api/episodes", *(f"/api/episode/{row['id']}" for row in rows)]:
            status, text, _ = ask(serving, path, Authorization=f"Bearer {serving.key}")
            assert status == 200
            json.loads(text, parse_constant=no_json)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_pages_of_others_are_not_served_even_with_the_key(server, headers):
    assert ask(server, "/api/state", Authorization=f"Bearer {server.key}", **headers)[0] == 403


def test_its_own_page_is_served_and_every_answer_forbids_what_a_text_could_do(server):
    own = {"Origin": server.origin, "Sec_Fetch_Site": "same-origin", "Authorization": f"Bearer {server.key}"}
    assert ask(server, "/api/state", **own)[0] == 200
    for path, headers in (("/", {}), ("/main.js", {}), ("/nothing", {}), ("/api/state", {}), ("/", {"Host": "x"})):
        policy = ask(server, path, **headers)[2]["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
    scripts = re.findall(r"<script[^>]*>", ask(server, "/")[1])
    assert scripts
    assert all('src="/' in script for script in scripts)


def test_a_port_in_use_and_an_address_of_others_are_one_sentence(tmp_path, capsys):
    write(tmp_path / "a.jsonl", episode(0))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = ["view", str(tmp_path), "--index", str(tmp_path / "i"), "--port", str(taken.getsockname()[1])]
        assert main(words) == 2
    assert re.fullmatch(r"rlvr: port \d+ of 127.0.0.1 is in use: give another --port.*\n", capsys.readouterr().err)
    assert main([*words[:-2], "--host", "0.0.0.0"]) == 2
    assert "can be reached by others" in capsys.readouterr().err
    assert main(["view", str(tmp_path / "none")]) == 2
    assert "there is no file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_viewer_that_is_ended_has_closed_its_index(tmp_path, signum):
    write(tmp_path / "a.jsonl", episode(0))
    code = "import sys; from rlvr.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["view", str(tmp_path / "a.jsonl"), "--index", str(tmp_path / "i"), "--port", "0"]
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True) as viewer:
        address, _, key = viewer.stdout.readline().split()[0].partition("#key=")
        state = urllib.request.Request(f"{address}api/state", headers={"Authorization": f"Bearer {key}"})
        with urllib.request.urlopen(state, timeout=60):
            viewer.send_signal(signum)
        assert viewer.wait(60) != -signum
    (lock,) = (tmp_path / "i").glob("*.lock")
    assert lock.read_text() == "closed"


def test_an_episode_is_graded_again(tmp_path, indexed):
    from rlvr.cli.view import _regraded

    path = tmp_path / "played.jsonl"
    assert main(["eval", "--env", "rlvr/Countdown-v0", "--agent", "expert", "--episodes", "2", "--out", str(path)]) == 0
    first, second = map(json.loads, path.read_text().splitlines())
    second["verdict"] = Verdict(0.0, "wrong").to_dict()
    second["turns"][-1]["reward"] = 0.0
    write(path, first, second, episode(0), episode(1, env_id="os:system"))
    index = indexed(path)
    with ViewerServer(Pages(index), regrade=lambda record, name: _regraded(record, name, index.sources, {})) as server:
        right = {"Authorization": f"Bearer {server.key}"}
        same, other = (json.loads(ask(server, f"/api/regrade/{n}", "POST", **right)[1]) for n in (1, 2))
        assert (same["changed"], same["same_task"], same["after"]["status"]) == (False, True, "correct")
        assert (other["changed"], other["before"]["status"], other["after"]["status"]) == (True, "wrong", "correct")
        for number in (3, 4):
            status, text, _ = ask(server, f"/api/regrade/{number}", "POST", **right)
            assert status == 400
            assert "cannot be graded again" in text or "is code" in text
        assert ask(server, "/api/regrade/1", **right)[0] == 405, "a link cannot grade"


# forks


@pytest.fixture
def playing(tmp_path, indexed):
    """A viewer of a lost episode, of one that names code and of one of another's making; asks it with its key."""
    path = tmp_path / "played.jsonl"
    words = ["eval", "--env", "rlvr/BullsAndCows-v0", "--agent", "random", "--episodes", "1", "--out", str(path)]
    assert main(words) == 0
    write(path, json.loads(path.read_text()), episode(0), episode(1, env_id="os:system"))
    index = indexed(path)
    options = argparse.Namespace(forks=tmp_path / "forks.jsonl", endpoint=None)
    with (
        command_line(allow_code=False),
        ViewerServer(Pages(index), forks=cli_view._forks(options, index.sources, {})) as server,
    ):

        def post(address: str, body: object) -> tuple[int, dict]:
            key = {"Authorization": f"Bearer {server.key}", "Origin": server.origin}
            status, text, _ = ask(server, address, "POST", data=json.dumps(body).encode(), **key)
            return status, json.loads(text)

        yield server, index, post


def test_an_episode_goes_on_from_a_turn_by_hand_and_with_the_expert_and_is_written_with_its_origin(playing):
    _, index, post = playing
    recorded = index.raw(1)
    status, first = post("/api/fork/1", {"turn": 2})
    assert status == 200
    assert [m["text"] for m in first["messages"] if m["role"] == "assistant"] == [
        turn["action"] for turn in recorded["turns"][:2]
    ]
    assert first["messages"][-1]["text"] == recorded["turns"][2]["observation"]
    address = f"/api/forks/{first['name']}"
    status, after = post(address, {"action": recorded["turns"][2]["action"]})
    assert (status, after["done"]) == (200, False)
    assert after["messages"][-1]["text"] == recorded["turns"][3]["observation"]
    assert list(after["agents"]) == ["expert", "random"]
    status, won = post(address, {"agent": "expert"})
    assert (status, won["done"], won["status"], won["by"]) == (200, True, "correct", ["hand", "expert"])
    assert post(address, {"agent": "expert"}) == (400, {"error": "the fork has ended: begin another one"})
    (line,) = Path(won["file"]).read_text().splitlines()
    assert json.loads(line)["forked_from"]["key"] == recorded["key"]
    index.update()
    number = listing(index.reader, {"source": "forks.jsonl"})["rows"][0]["id"]
    origin = Pages(index).episode(number)["origin"]
    assert (origin["id"], origin["turn"], origin["by"]) == (1, 2, ["hand", "expert"])
    assert [row["id"] for row in Pages(index).episode(1)["elsewhere"]] == [number]


@pytest.mark.parametrize(
    ("address", "body", "says"),
    [
        ("/api/fork/1", {"turn": 99}, "the episode has turns 0 to"),
        ("/api/fork/1", {"turn": True}, "a whole number from 0"),
        ("/api/fork/1", {}, "a whole number from 0"),
        ("/api/fork/1", [1], "a JSON object"),
        ("/api/fork/1", {"turn": 0, "x": "a" * (1 << 20)}, "at most 1,048,576 bytes"),
        ("/api/fork/2", {"turn": 0}, "it cannot be played again"),
        ("/api/fork/3", {"turn": 0}, "is code"),
        ("/api/fork/9", {"turn": 0}, "there is no episode 9"),
        ("/api/forks/nothing", {"action": "x"}, "there is no such fork"),
        ("/api/forks/NAME", {"agent": "os"}, "agent must be one of expert, random"),
        ("/api/forks/NAME", {"agent": "expert", "action": "x"}, "a fork goes on with"),
        ("/api/forks/NAME", {"action": ["x"]}, "a fork goes on with"),
        ("/api/forks/NAME", {"action": "x" * 100_001}, "at most 100,000 characters"),
    ],
)
def test_what_cannot_be_forked_is_one_sentence(playing, address, body, says):
    _, _, post = playing
    if "NAME" in address:
        address = address.replace("NAME", post("/api/fork/1", {"turn": 0})[1]["name"])
    status, answer = post(address, body)
    assert status in (400, 404)
    assert says in answer["error"]
    assert "\n" not in answer["error"]


def test_a_fork_is_begun_by_its_own_page_with_the_key_and_no_link(playing, server):
    viewer, _, _ = playing
    right = {"Authorization": f"Bearer {viewer.key}"}
    body = {"data": b'{"turn": 0}'}
    assert ask(viewer, "/api/fork/1", "POST", **body)[0] == 401
    assert ask(viewer, "/api/fork/1", "POST", **body, **right, Origin="http://evil.example")[0] == 403
    assert ask(viewer, "/api/fork/1", "POST", **body, **right, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(viewer, "/api/fork/1", **right)[0] == 405
    assert ask(viewer, "/api/fork/1", "POST", **body, **right)[0] == 200
    status, text, _ = ask(server, "/api/fork/1", "POST", **body, Authorization=f"Bearer {server.key}")
    assert status == 400
    assert "--read-only" in text


# signs of reward hacking


def test_a_reply_that_is_rewarded_on_other_tasks_is_found_in_the_index_by_each_filter(tmp_path, indexed):
    records = [episode(4 * task, f"<think>{task}</think>number {task}") for task in range(20)]
    records += [episode(4 * task + 1, "<think>hm</think>Trust  me", 1.0, "correct") for task in range(6)]
    records += [episode(99, "late", status="timeout")]
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    write(tmp_path / "b.jsonl", *({"messages": chat, "id": f"t{n}", "task": "foreign", "reward": 1} for n in range(5)))
    index = indexed(write(tmp_path / "train-000001.jsonl", *records), tmp_path / "b.jsonl")
    pages = Pages(index)
    found = pages.signs({})
    look = [(c["env"], c["text"], c["rewarded"]) for c in found["clusters"] if c["suspicious"]]
    assert look == [("rlvr/Made-v0", "trust me", 6), ("foreign", "yes", 5)]
    assert found["read"] == 31
    assert [(f["status"], f["cause"]) for f in found["faults"]] == [("timeout", "because")]
    assert pages.signs({"env": "foreign"})["episodes"] == 5
    with pytest.raises(QueryError):
        pages.signs({"min_reward": "x"})
    with ViewerServer(pages) as server:
        assert ask(server, "/api/signs")[0] == 401
        shown = json.loads(ask(server, "/api/signs?env=foreign", Authorization=f"Bearer {server.key}")[1])
        assert shown["clusters"][0]["text"] == "yes"
        listed = json.loads(ask(server, "/api/episodes", Authorization=f"Bearer {server.key}")[1])["rows"]
        assert {"reply", "start"}.isdisjoint(listed[0])
    write(tmp_path / "b.jsonl")
    index.update()
    assert pages.signs({})["episodes"] == 27, "what is known is of the files as they are"


def test_texts_are_read_of_files_that_are_no_lines_and_of_those_that_still_hold_them(tmp_path, indexed):
    sample = {"id": 1, "epoch": 1, "scores": {}, "messages": [{"role": "assistant", "content": "packed"}]}
    with zipfile.ZipFile(tmp_path / "a.eval", "w") as packed:
        packed.writestr("header.json", json.dumps({"eval": {"task": "t"}}))
        for number in range(3):
            packed.writestr(f"samples/{number}.json", json.dumps(sample | {"id": number}))
    index = indexed(tmp_path / "a.eval", write(tmp_path / "b.jsonl", episode(0, "lined"), episode(1, "gone")))
    assert sorted(index.replies(range(1, 9)).values()) == ["gone", "lined", "packed", "packed", "packed"]
    assert index.replies([2]) == {2: "packed"}
    path = tmp_path / "b.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert "lined" in index.replies(range(1, 9)).values()
    assert "gone" not in index.replies(range(1, 9)).values()


# one file


def test_an_exported_file_holds_everything_and_allows_its_own_scripts_alone(tmp_path, indexed, capsys):
    hostile = "</script><script>alert(1)</script><!--<script>\u2028 ]]> &lt;"
    path = write(tmp_path / "a.jsonl", episode(0, hostile), episode(1), episode(2))
    out = tmp_path / "page.html"
    assert main(["view", str(path), "--export", str(out), "--limit", "2", "--index", str(tmp_path / "i")]) == 0
    assert "2 episodes; 1 more are left out" in capsys.readouterr().out
    page = out.read_text()
    assert "alert(1)</script>" not in page
    blocks = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    (data,) = [json.loads(text) for kind, text in blocks if "json" in kind]
    assert data["episode"][data["rows"][0]["uid"]]["trace"]["messages"][1]["text"] == hostile
    assert [row["number"] for row in data["rows"]] == [0, 1]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "connect-src" not in policy
    for kind, text in blocks:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert (f"'sha256-{digest}'" in policy) == ("json" not in kind)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page), "it loads nothing"
    with pytest.raises(ValueError, match="at least one"):
        write_export(Pages(indexed(path)), out, 0)


def test_an_export_names_each_line_that_it_leaves_out(tmp_path, capsys):
    good, bad, out = tmp_path / "good.jsonl", tmp_path / "bad.jsonl", tmp_path / "page.html"
    write(good, episode(0))
    good.write_text(good.read_text() + "[1]\n")
    bad.write_text('{"a": 1\n[1]\n')
    index = ["--index", str(tmp_path / "index")]
    assert main(["view", str(good), "--export", str(out), *index]) == 0
    assert "good.jsonl: line 2 is left out: it is no JSON object" in capsys.readouterr().err
    out.unlink()
    assert main(["view", str(bad), "--export", str(out), *index]) == 2
    said = capsys.readouterr().err
    assert "bad.jsonl: line 1 is left out: Expecting" in said
    assert "bad.jsonl: line 2 is left out: it is no JSON object" in said
    assert not out.exists()


def test_notes_with_infinity_are_exported_and_read_again(tmp_path, indexed):
    record = {"messages": [{"role": "user", "content": "q"}], "id": math.inf, "scores": [0.5, math.nan], "run": "r"}
    out = tmp_path / "page.html"
    assert write_export(Pages(indexed(write(tmp_path / "a.jsonl", record))), out) == (1, 1)
    (held,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', out.read_text())
    data = json.loads(held, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert data["episode"][data["rows"][0]["uid"]]["trace"]["notes"] == {"id": None, "scores": [0.5, None], "run": "r"}


# trajectories as steps


def test_an_exported_trajectory_is_shown_as_its_episode(indexed, tmp_path):
    from rlvr.adapters.export.atif import atif_record

    original = episode(3, "<think>hm</think>the answer", 1.0, "correct")
    trajectory = atif_record(Episode.from_dict(original))
    for path in (write(tmp_path / "a.jsonl", trajectory), write(tmp_path / "trajectory.json", trajectory)):
        index = indexed(path)
        (row,) = listing(index.reader, {})["rows"]
        shown, expected = index.trace(row["id"])[0], traces.episode_trace(original)
        assert shown.source == "atif"
        assert shown.messages == expected.messages
        assert (shown.env, shown.reward, shown.status, shown.reason) == ("rlvr/Made-v0", 1.0, "correct", "because")


ATIF = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s1",
    "agent": {"name": "some-agent", "version": "2", "tool_definitions": [{"name": "sh"}]},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Look."},
            {"type": "image", "source": {"media_type": "image/png", "path": "shots/1.png"}}]},
        {"step_id": 3, "source": "agent", "message": "I look.", "reasoning_content": "where?",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "sh", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "hello.txt"}]},
            "metrics": {"completion_token_ids": [5, 6], "logprobs": [-0.1, -0.2], "cost_usd": 0.1}},
    ],
    "final_metrics": {"total_steps": 3, "extra": {"reward": 1.0}},
}  # fmt: skip


def test_a_trajectory_of_another_tool_is_read():
    trace = foreign.trace_of(ATIF)
    assert [message.role for message in trace.messages] == ["system", "user", "assistant", "tool"]
    assert trace.messages[1].text == "Look.\n(image that is not in the file: shots/1.png)"
    asked, answered = trace.messages[2:]
    assert (asked.reasoning, asked.calls[0]["name"], json.loads(asked.calls[0]["arguments"])) == (
        "where?", "sh", {"cmd": "ls"},
    )  # fmt: skip
    assert (answered.text, answered.call_id) == ("hello.txt", "c1")
    assert (trace.key, trace.env, trace.reward, trace.success) == ("s1", "some-agent", 1.0, True)
    assert (trace.ids, trace.columns["log-prob"]) == ([5, 6], [-0.1, -0.2])


@pytest.mark.parametrize("name", ["steps", "agent", "extra", "final_metrics"])
@pytest.mark.parametrize("value", [None, 1, "x", [1, None, {"source": []}], {"rlvr": {}}, {"rlvr": {"env_id": 3}}])
def test_a_broken_trajectory_hides_nothing_else(name, value):
    try:
        assert foreign.trace_of({**ATIF, name: value}).source == "atif"
    except traces.NotATrace:
        assert name == "steps"


def test_a_rollout_of_tinker_cookbook_is_read(indexed, tmp_path):
    """The fields of `serialize_rollout_summaries` of tinker-cookbook 0.6.1."""
    step = {"step_idx": 0, "ob_len": 31, "ac_len": 7, "reward": 0.5, "episode_done": True, "stop_reason": "stop",
            "metrics": {"correct": 1.0}, "logs": {"response": "<b>42</b>"}}  # fmt: skip
    record = {"schema_version": 1, "split": "train", "iteration": 4, "group_idx": 2, "traj_idx": 1, "tags": ["gsm8k"],
              "sampling_client_step": 4, "total_reward": 1.5, "final_reward": 1.0, "steps": [step],
              "trajectory_metrics": {"format": 1.0}, "final_ob_len": 40}  # fmt: skip
    index = indexed(write(tmp_path / "train_rollout_summaries.jsonl", record))
    (row,) = listing(index.reader, {})["rows"]
    trace, _ = index.trace(row["id"])
    assert (trace.source, trace.env, trace.split, trace.step, trace.group, trace.sample) == (
        "tinker-cookbook", "gsm8k", "train", 4, 2, 1,
    )  # fmt: skip
    assert (trace.reward, trace.messages[0].reward, trace.parts) == (1.5, 0.5, {"format": 1.0})
    assert "<b>42</b>" in trace.messages[0].text
