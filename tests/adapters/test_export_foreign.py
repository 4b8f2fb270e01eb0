"""Logs that other tools wrote become chats to train on; tests/data/foreign/README.md says how they were made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.adapters.export.chat import chat_record
from rlvr.adapters.export.foreign import NotAnEpisode, episode_of_trace, read_file
from rlvr.adapters.viewer.foreign import trace_of
from rlvr.agents import Episode
from rlvr.agents.episode import Turn
from rlvr.cli import main
from rlvr.envs import Verdict

FOREIGN = Path(__file__).parents[1] / "data" / "foreign"


def exported(capsys, tmp_path, *words):
    """The chats that the command writes, and what it prints."""
    out = tmp_path / "chats.jsonl"
    assert main(["export", *map(str, words), "--out", str(out), "--force"]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in out.read_text().splitlines()], capsys.readouterr().out


def test_successes_of_inspect_are_demonstrations_of_its_calls(capsys, tmp_path):
    pytest.importorskip("zstandard", reason="Inspect packs its logs with Zstandard")
    chats, printed = exported(capsys, tmp_path, FOREIGN / "inspect.eval", "--success")
    assert "2 without success" in printed
    assert [(chat["env_id"], chat["key"], chat["sample"], chat["reward"]) for chat in chats] == [
        ("sums", "1", 1, 1.0),
        ("sums", "1", 2, 1.0),
    ]
    roles = [message["role"] for message in chats[0]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    call = '<tool_call>\n{"name": "add", "arguments": {"x": 2, "y": 3}}\n</tool_call>'
    assert chats[0]["messages"][2]["content"].endswith(call)
    assert chats[0]["messages"][4]["content"] == "<think>\nthe tool says so\n</think>\n\n5"


def test_the_best_completion_of_each_prompt_of_trl(capsys, tmp_path):
    pytest.importorskip("pyarrow")
    chats, printed = exported(capsys, tmp_path, FOREIGN / "trl_completions_00001.parquet", "--best-of")
    assert "2 not the best of their task" in printed
    assert [(chat["messages"][0]["content"], chat["reward"]) for chat in chats] == [
        ("What is 2 + 2?", 1.5),
        ("What is 3 + 2?", 1.5),
    ]


def test_episodes_of_verifiers_that_failed_are_left_out_and_the_others_are_graded(tmp_path):
    episodes = [*read_file(FOREIGN / "verifiers_traces.jsonl", [])]
    traces = [trace_of(json.loads(line)) for line in (FOREIGN / "verifiers_traces.jsonl").read_text().splitlines()]
    assert len(episodes) == len(traces)
    for episode, trace in zip(episodes, traces, strict=True):
        assert isinstance(episode, Episode)
        assert episode.valid == (not trace.error)
        assert episode.reward == (trace.reward or 0.0)
    assert {episode.valid for episode in episodes} == {True, False}


def test_a_trajectory_without_a_grade_is_no_failure(capsys, tmp_path):
    assert main(["export", str(FOREIGN / "harbor_trajectory.json"), "--out", str(tmp_path / "x.jsonl")]) != 0
    assert "1 not finished or not graded" in capsys.readouterr().err


def chat(*pairs, **fields):
    return {"messages": [{"role": role, "content": content} for role, content in pairs], "reward": 1.0, **fields}


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([("user", "?"), ("assistant", "a"), ("assistant", "b")], "follows no observation"),
        ([("user", "?"), ("assistant", "a"), ("system", "s"), ("assistant", "b")], "a system message in the middle"),
        ([("user", "?"), ("assistant", "<tool_call>[1]</tool_call>")], "no JSON object"),
    ],
)
def test_what_no_episode_can_say_is_left_out_and_counted(capsys, tmp_path, pairs, reason):
    with pytest.raises(NotAnEpisode, match=reason):
        episode_of_trace(trace_of(chat(*pairs)))
    log = tmp_path / "log.jsonl"
    lines = [chat(*pairs), chat(("user", "1 + 1?"), ("assistant", "2"))]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    chats, printed = exported(capsys, tmp_path, log)
    assert [each["messages"] for each in chats] == [lines[1]["messages"]]
    assert reason in printed


def test_a_graph_of_several_conversations_is_left_out():
    record = json.loads((FOREIGN / "verifiers_traces.jsonl").read_text().splitlines()[-1])
    assert episode_of_trace(trace_of(record)).turns
    other = {"parent": 1, "message": {"role": "assistant", "content": "I guess 8"}, "sampled": True}
    record["traces"][0]["nodes"].append(other)
    with pytest.raises(NotAnEpisode, match="of several conversations"):
        episode_of_trace(trace_of(record))


words = st.text(st.characters(blacklist_characters="<", blacklist_categories=["Cs"]), max_size=20)
turns = st.builds(Turn, words, st.sampled_from(["user", "tool"]), words, st.just("stop"))


@settings(max_examples=50)
@given(st.none() | words.filter(bool), st.lists(turns, min_size=1, max_size=4), st.floats(0, 2, allow_nan=False))
def test_chats_that_were_exported_come_back(system, turns, reward):
    verdict = Verdict(reward, "correct" if reward >= 1 else "partial" if reward else "wrong")
    turns[-1].reward, turns[-1].verdict = reward, verdict
    episode = Episode("e/E-v0", "k", 3, 1, 2, index=4, split="train", level=5, system=system, turns=turns)
    episode.verdict = verdict
    record = chat_record(episode)
    assert chat_record(episode_of_trace(trace_of(json.loads(json.dumps(record))))) == record


def test_chats_of_the_test_split_stay_of_the_test_split(capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(chat(("user", "1 + 1?"), ("assistant", "2"), split="test")) + "\n")
    assert main(["export", str(log), "--out", str(tmp_path / "x.jsonl")]) != 0
    assert "which only --split test exports" in capsys.readouterr().err
