"""Logs that other tools wrote themselves, in the viewer. tests/data/foreign/README.md says how they were made."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from rlvr.adapters.viewer import foreign
from rlvr.adapters.viewer.foreign import read_inspect, read_parquet, trace_of
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


def episodes_in(path):
    return [trace_of(json.loads(line)) for line in path.read_text().splitlines()]


def test_episodes_of_verifiers_are_shown_with_their_calls_thinking_rewards_and_errors():
    traces = episodes_in(FOREIGN / "verifiers_traces.jsonl")
    found = sorted((t.key, t.group, t.env, t.status, t.reward, t.success, t.reason) for t in traces)
    assert found == [
        *[("0", 0, "verifiers_sums", "correct", 2.5, True, "expected: 5")] * 2,
        *[("1", 1, "verifiers_sums", "partial", 0.5, False, "expected: 8")] * 2,
        *[("2", 2, "verifiers_sums", "env_error", None, None, "expected: 2")] * 2,
    ]
    right = next(t for t in traces if t.key == "0")
    system, question, call, result, answer = right.messages
    assert (system.role, system.text, question.text) == ("system", "Use the tool.", "What is 2 + 3?")
    assert [(c["name"], json.loads(c["arguments"])) for c in call.calls] == [("add", {"x": 2, "y": 3})]
    assert (call.reasoning, call.stop) == ("a sum: the tool adds", "tool_calls")
    assert (result.role, result.text, result.call_id) == ("tool", "5", call.calls[0]["id"])
    assert (answer.text, answer.stop) == ("5", "stop")
    assert right.parts == {"right": 2.0, "short": 0.5, "letters": 1.0}
    assert json.loads(right.tools)[0]["name"] == "add"
    assert right.notes["task"]["data"]["answer"] == "5"
    assert right.notes["agents"][0]["model"] == "scripted"
    failed = next(t for t in traces if t.key == "2")  # its model never answered, so its graph is empty
    assert "this model is not in the mood" in failed.error
    assert [(m.role, m.text) for m in failed.messages] == [
        ("system", "Use the tool."),
        ("user", "What is 1 + 1, or fail?"),
    ]


def test_branches_agents_and_tokens_of_verifiers():
    """Two histories of one conversation, a second agent that is not trained, and the columns of sampled tokens."""
    record = json.loads((FOREIGN / "verifiers_traces.jsonl").read_text().splitlines()[-1])
    (agent,) = record["traces"]
    nodes = agent["nodes"]
    for index, node in enumerate(nodes):
        sampled = node["sampled"]
        node |= {"token_ids": [index, index + 10], "mask": [False, sampled], "logprobs": [-0.5] * sampled}
        node |= {"advantages": [0.25]} if sampled else {}
    trace = trace_of(record)
    assert trace.ids == [token for index in range(5) for token in (index, index + 10)]
    assert trace.columns == {
        "mask": [0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
        "log-prob": [0, 0, 0, 0, 0, -0.5, 0, 0, 0, -0.5],
        "advantage": [0, 0, 0, 0, 0, 0.25, 0, 0, 0, 0.25],
    }
    assert [m.end for m in trace.messages] == [2, 4, 6, 8, 10]

    other = {"parent": 1, "message": {"role": "assistant", "content": "I guess 8"}, "sampled": True}
    nodes.append(other)
    trace = trace_of(record)
    assert [(m.text, m.branch) for m in trace.messages[-2:]] == [(trace.messages[4].text, 0), ("I guess 8", 1)]
    assert [(b.name, b.follows) for b in trace.branches] == [("first conversation", -1), ("branch 1", 1)]
    assert len(trace.messages) == 6  # what the branches share is shown once
    assert trace.ids == []  # two sequences are not one

    user = json.loads(json.dumps(agent)) | {"rewards": {"kind": {"score": 9.0, "weight": 1.0}}}
    user["agent"] |= {"name": "customer", "trainable": False}
    trace = trace_of(record | {"traces": [agent, user]})
    assert [(b.name, b.follows) for b in trace.branches if b.follows < 0] == [
        ("agent agent", -1),
        ("agent customer", -1),
    ]
    assert trace.branches[-1].follows == 7  # of its own agent's messages
    assert "kind" not in trace.parts
    nodes[0]["parent"], nodes[1]["parent"] = 1, 0  # a circle, which no tool writes, ends all the same
    assert trace_of(record).messages


def test_rollouts_of_tinker_cookbook_are_shown_with_their_rewards_and_the_conversations_of_its_log():
    traces = episodes_in(FOREIGN / "tinker_rollout_summaries.jsonl")
    assert [(t.env, t.split, t.step, t.group, t.sample, t.reward, t.status) for t in traces] == [
        ("sums", "train", 3, 0, 0, 1.0, "correct"),
        ("sums", "train", 3, 0, 1, 1.0, "correct"),
        ("sums", "train", 3, 1, 0, 1.0, "correct"),
        ("sums", "train", 3, 1, 1, 0.0, "wrong"),
    ]
    assert [m.reward for m in traces[1].messages] == [0.0, 1.0]
    assert "question: What is 2 + 3?\nanswer: 4" in traces[1].messages[0].text
    (log,) = read_inspect(FOREIGN / "tinker_logtree.json")
    assert (log.env, log.step, log.group, log.reward) == ("RL Iteration 3", 3, 0, None)
    assert [(m.role, m.text, m.reasoning) for m in log.messages if m.role == "assistant"] == [
        ("assistant", "5", "digits"),
        ("assistant", "4", "digits"),
        ("assistant", "5", "digits"),
    ]
    assert [m.text for m in log.messages if m.role == "user"] == ["What is 2 + 3?"] * 2


def test_a_trajectory_that_harbor_converted_is_shown_with_its_calls_and_results():
    trace = trace_of(json.loads((FOREIGN / "harbor_trajectory.json").read_text()))
    assert (trace.source, trace.env, trace.key, trace.reward) == ("atif", "mini-swe-agent", "sums", None)
    assert [m.role for m in trace.messages] == ["system", "user", "assistant", "tool", "assistant"]
    question, call, result, answer = trace.messages[1:]
    assert (question.text, answer.text) == ("What is 17 + 25?", "The sum is 42.")
    assert [(c["name"], json.loads(c["arguments"])) for c in call.calls] == [("bash", {"command": "expr 17 + 25"})]
    assert "42" in result.text
    assert call.reasoning == ""  # Harbor repeats the text there
    assert trace.notes["final_metrics"]["total_cost_usd"] == 2.0


def test_all_are_found_in_a_folder_searched_and_grouped(tmp_path):
    pytest.importorskip("zstandard")
    pytest.importorskip("pyarrow")
    index = EpisodeIndex(find_sources([FOREIGN]), tmp_path)
    try:
        index.update()
        pages = Pages(index)
        assert pages.state()["problems"] == []
        assert listing(index.reader, {})["total"] == 8 + 6 + 5 + 1
        inspect = {"tool": "add", "status": "correct", "source": "inspect.eval"}
        (first, second) = listing(index.reader, inspect)["rows"]
        assert listing(index.reader, {"q": '"What is 4"'})["total"] == 2 + 2 + 2
        assert [each["row"]["id"] for each in pages.group(first["id"])["samples"]] == [first["id"], second["id"]]
        (row, *_) = listing(index.reader, {"source": "trl_completions_00001.parquet"})["rows"]
        assert len(pages.group(row["id"])["samples"]) == 2
        (row, *_) = listing(index.reader, {"source": "verifiers_traces.jsonl", "status": "correct"})["rows"]
        assert len(pages.group(row["id"])["samples"]) == 2
        assert pages.signs({})["rewarded"] == 6 + 2 + 3
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


def verifiers_record(**agent):
    return {"ok": True, "task": {"data": {"idx": 0}}, "traces": [agent]}


def node(text, parent=None, **more):
    return {"parent": parent, "message": {"role": "assistant", "content": text}, **more}


HOSTILE = {
    "a mask beyond all numbers": node("a", token_ids=[1, 2], mask=[1e308, 1e308], logprobs=[-1.0, -1.0]),
    "a mask of halves": node("a", token_ids=[1, 2, 3], mask=[0.5, 0.5, 1.0], logprobs=[-1.0, -1.0]),
    "calls that are no list": node("a") | {"message": {"role": "assistant", "content": "a", "tool_calls": 5}},
    "images that are no list": node("a") | {"message": {"role": "assistant", "content": "a", "images": 5}},
}


@pytest.mark.parametrize("harm", HOSTILE)
def test_a_hostile_episode_of_verifiers_is_shown_without_what_cannot_be_read(tmp_path, harm):
    path = tmp_path / "traces.jsonl"
    agent = {"nodes": [HOSTILE[harm]], "calls": [{"node": [1], "finish_reason": "stop"}]}
    lines = [verifiers_record(**agent), verifiers_record(nodes=[node("the next line")])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    index = EpisodeIndex(find_sources([path]), tmp_path / "index")
    try:
        index.update()
        assert Pages(index).state()["problems"] == []
        rows = listing(index.reader, {})["rows"]
        assert {index.trace(row["id"])[0].messages[0].text for row in rows} == {"a", "the next line"}
        assert all(index.trace(row["id"])[0].ids == [] for row in rows)
    finally:
        index.close()


def test_a_line_that_its_reader_cannot_bear_is_named_and_the_others_are_read(tmp_path):
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(verifiers_record(nodes=[node(str(n))])) + "\n" for n in range(3)))
    index = EpisodeIndex(find_sources([path]), tmp_path / "index")
    try:
        with pytest.MonkeyPatch.context() as patch:
            read = foreign.verifiers_trace

            def raises(record):
                if record["traces"][0]["nodes"][0]["message"]["content"] == "1":
                    raise KeyError("a fault of the reader")
                return read(record)

            patch.setattr(foreign, "verifiers_trace", raises)
            index.update()
        assert listing(index.reader, {})["total"] == 2
        assert "line 2 is left out: KeyError('a fault of the reader')" in str(Pages(index).state()["problems"])
    finally:
        index.close()


def rewarded(**rewards):
    held = {name: {"score": score, "weight": weight} for name, (score, weight) in rewards.items()}
    return trace_of(verifiers_record(nodes=[node("a")], rewards=held))


def test_rewards_of_verifiers_are_finite():
    trace = rewarded(huge=(1e308, 1e308), right=(1.0, 1.0))
    assert (trace.reward, trace.status, trace.parts) == (1.0, "correct", {"right": 1.0})
    trace = rewarded(one=(1e308, 1.0), two=(1e308, 1.0))
    assert (trace.reward, trace.status, trace.success) == (None, "", None)


def test_an_episode_of_verifiers_is_correct_where_each_weighted_score_is_full():
    outcomes = [
        (rewarded(right=(0.0, 2.0), format=(1.0, 1.0)), "partial"),
        (rewarded(right=(1.0, 0.5)), "correct"),
        (rewarded(right=(1.0, 2.0), format=(1.0, 1.0), watched=(0.0, 0.0)), "correct"),
        (rewarded(right=(1.0, 1.0), penalty=(0.0, -1.0)), "correct"),
        (rewarded(right=(0.0, 1.0), long=(9.0, 1.0)), "partial"),
        (rewarded(watched=(1.0, 0.0)), "wrong"),
        (rewarded(right=(0.0, 1.0)), "wrong"),
    ]
    assert [trace.status for trace, _ in outcomes] == [status for _, status in outcomes]


def test_indices_count_the_nodes_that_are_no_objects():
    trace = trace_of(verifiers_record(nodes=[node("root"), 7, node("one", 0), node("two", 2)]))
    assert [message.text for message in trace.messages] == ["root", "one", "two"]
