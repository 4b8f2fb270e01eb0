"""Each check of saved rollouts finds what is planted in a record, and nothing in the record without it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlvr.adapters.rollout_health import reads_as_rollouts, rollout_report
from rlvr.cli import main

FOREIGN = Path(__file__).parent.parent / "data" / "foreign"
NEMO_GYM = (
    *("check_execution_error", "record_unreadable", "rollout_duplicate_identity", "rollout_missing_agent_turns"),
    *("rollout_ended_on_failed_model_call", "agent_turn_hollow", "model_call_zero_completion_tokens"),
    *("model_call_missing_token_counts", "trajectory_capture_mismatch", "model_call_failed"),
    *("rollout_token_count_mismatch", "model_call_runaway_generation", "task_consistently_unhealthy"),
    "task_no_successful_model_calls",
)
Records = list[dict[str, Any]]


def episode(task: int, sample: int) -> dict[str, Any]:
    """An episode of rlvr with two turns of 3 + 2 and 2 + 2 tokens; one of two samples is right."""
    right = sample == task % 2
    verdict = {"status": "correct" if right else "wrong", "reward": float(right), "answer": str(task * 7)}
    turns = [
        {"observation": f"Begin task {task}.", "role": "user", "action": f"look {sample}", "stop": "stop", "end": 5},
        {"observation": "Seen.", "role": "tool", "action": f"answer {task * 7 + sample}", "stop": "stop", "end": 9},
    ]
    return {
        "env_id": "mine/Sums-v0", "key": f"mine/{task}/{sample}", "seed": task, "group": task, "sample": sample,
        "turns": [{**turn, "reward": float(right and turn["end"] == 9), "verdict": None} for turn in turns],
        "tokens": {"ids": [*range(9)], "mask": [0, 0, 0, 1, 1, 0, 0, 1, 1], "logprobs": [0.0] * 3 + [-0.5] * 6},
        "verdict": verdict, "usage": {"completion_tokens": 4, "prompt_tokens": 5}, "terminated": True,
    }  # fmt: skip


def nemo_gym(task: int, sample: int) -> dict[str, Any]:
    """A rollout of NeMo Gym: a call of a tool, and an answer."""
    tokens = {"generation_token_ids": [5, 6], "generation_log_probs": [-0.1, -0.2]}
    call = {"type": "function_call", "name": "add", "arguments": "{}", "call_id": "c", **tokens}
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"{task + sample}"}]}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"Sum {task}"}]},
        "response": {
            "model": "scripted",
            "output": [call, {"type": "function_call_output", "call_id": "c", "output": "3"}, {**answer, **tokens}],
            "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
        },
        "reward": float(sample == task % 2), "_ng_task_index": task, "_ng_rollout_index": sample,
    }  # fmt: skip


def verifiers(task: int, sample: int) -> dict[str, Any]:
    """An episode of verifiers 0.4: a question and a reply of two tokens."""
    nodes = [
        {"message": {"role": "user", "content": f"Sum {task}"}, "parent": None, "token_ids": [1, 2], "mask": [0, 0]},
        {
            "message": {"role": "assistant", "content": f"{task + sample}"},
            "parent": 0, "token_ids": [3, 4], "mask": [1, 1], "logprobs": [-0.1, -0.2],
        },
    ]  # fmt: skip
    agent = {
        "agent": {"name": "agent", "trainable": True}, "nodes": nodes, "calls": [{"node": 1, "finish_reason": "stop"}],
        "rewards": {"right": {"score": float(sample == task % 2), "weight": 1.0}}, "stop_condition": "done",
    }  # fmt: skip
    return {
        "id": f"{task}-{sample}", "env": {"id": "sums"}, "task": {"type": "Sum", "data": {"idx": task}}, "ok": True,
        "traces": [agent], "errors": [], "num_input_tokens": 2, "num_output_tokens": 2,
    }  # fmt: skip


def written(path: Path, records: list[Any]) -> Path:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return path


def many(make: Callable[[int, int], dict[str, Any]]) -> Records:
    return [make(task, sample) for task in range(6) for sample in range(2)]


def found(path: Path) -> set[str]:
    return {check.id for check, _ in rollout_report(path).findings}


@pytest.mark.parametrize("make", [episode, nemo_gym, verifiers])
def test_clean_twin(make, tmp_path):
    report = rollout_report(written(tmp_path / "rollouts.jsonl", many(make)))
    assert report.clean, str(report)
    assert not list(report.findings)
    assert set(NEMO_GYM) <= {result.check.id for result in report.results}


def at(record: Any, *path: Any) -> Any:
    for name in path:
        record = record[name]
    return record


def put(*path_and_value: Any) -> Callable[[Records], None]:
    """A fault of the third record: a value at a path."""
    *path, last, value = path_and_value

    def plant(records: Records) -> None:
        at(records[2], *path)[last] = value

    return plant


def of_task(*path_and_value: Any) -> Callable[[Records], None]:
    """The same in all records of the second task."""
    *path, last, value = path_and_value

    def plant(records: Records) -> None:
        for record in records[2:4]:
            at(record, *path)[last] = copy.deepcopy(value)

    return plant


def drop_usage(records: Records) -> None:
    records[2]["usage"] = {}
    records[2]["tokens"] = {}


def no_variance(records: Records) -> None:
    for record in records:
        record["reward"] = 1.0


def faults(records: Records) -> None:
    for record in records[:2]:
        record["verdict"] = {"status": "env_error", "reward": 0.0, "reason": "the sandbox did not start"}


def cut(records: Records) -> None:
    for record in records:
        for turn in record["turns"]:
            turn["stop"] = "length"


def unreadable_answers(records: Records) -> None:
    for record in records[:8]:
        record["verdict"]["status"] = "unparsable"


def one_reply(records: Records) -> None:
    """Whoever says that it is done is paid, and no other."""
    for number, record in enumerate(records):
        paid = float(number % 2)
        record["turns"][0]["action"] = "it is done" if paid else f"I tried {number}"
        record["turns"][1]["action"] = "done" if paid else f"answer {number}"
        record["turns"][1]["reward"] = paid
        record["verdict"] = {"status": "correct" if paid else "wrong", "reward": paid}


LOOP = "and so on " * 60
PLANTED = [
    ("rollout_duplicate_identity", episode, lambda records: records.append(copy.deepcopy(records[0]))),
    ("rollout_duplicate_identity", nemo_gym, lambda records: records.append(copy.deepcopy(records[0]))),
    ("rollout_duplicate_identity", verifiers, lambda records: records.append(copy.deepcopy(records[0]))),
    ("rollout_missing_agent_turns", episode, put("turns", [])),
    ("rollout_missing_agent_turns", nemo_gym, put("response", "output", [])),
    ("rollout_ended_on_failed_model_call", episode, put("turns", 1, "stop", "error")),
    ("rollout_ended_on_failed_model_call", nemo_gym, put("response", "error", {"message": "overloaded"})),
    ("rollout_ended_on_failed_model_call", verifiers, put("traces", 0, "calls", [{"error": {"message": "500"}}])),
    ("agent_turn_hollow", episode, put("turns", 0, "action", "<think>What now?</think>")),
    ("agent_turn_hollow", nemo_gym, put("response", "output", 2, "content", [])),
    ("model_call_zero_completion_tokens", episode, put("tokens", "mask", [0, 0, 0, 1, 1, 0, 0, 0, 0])),
    ("model_call_zero_completion_tokens", nemo_gym, put("response", "output", 0, "generation_token_ids", [])),
    ("model_call_missing_token_counts", episode, drop_usage),
    ("trajectory_capture_mismatch", episode, put("tokens", "logprobs", [0.0] * 8)),
    ("trajectory_capture_mismatch", episode, put("turns", 1, "end", 12)),
    ("trajectory_capture_mismatch", nemo_gym, put("response", "output", 2, "generation_log_probs", [-1.0])),
    ("trajectory_capture_mismatch", verifiers, put("traces", 0, "nodes", 1, "mask", [1])),
    ("model_call_failed", episode, put("turns", 0, "stop", "error")),
    ("rollout_token_count_mismatch", episode, put("usage", "completion_tokens", 7)),
    ("rollout_token_count_mismatch", nemo_gym, put("response", "usage", "total_tokens", 14)),
    ("rollout_token_count_mismatch", verifiers, put("num_output_tokens", 3)),
    ("model_call_runaway_generation", episode, put("turns", 1, {"action": LOOP, "stop": "length"})),
    ("task_consistently_unhealthy", episode, of_task("turns", 0, "action", " ")),
    ("task_no_successful_model_calls", verifiers, of_task("traces", 0, "calls", [{"error": {"message": "500"}}])),
    ("invalid_rollouts", episode, faults),
    ("groups_without_variance", nemo_gym, no_variance),
    ("replies_cut", episode, cut),
    ("answers_unreadable", episode, unreadable_answers),
    ("reply_paid_on_many_tasks", episode, one_reply),
]


@pytest.mark.parametrize(("check", "make", "plant"), PLANTED, ids=[f"{c}-{m.__name__}" for c, m, _ in PLANTED])
def test_planted_fault(check, make, plant, tmp_path):
    records = many(make)
    plant(records)
    assert check in found(written(tmp_path / "rollouts.jsonl", records))


def test_unreadable_records(tmp_path):
    lines = [*map(json.dumps, many(episode)), '{"env_id": "torn', '{"nothing": 1}', "[1]"]
    report = rollout_report(written(tmp_path / "rollouts.jsonl", lines))
    (finding,) = report.at_least("high")
    assert finding.measured["records"] == [13, 14, 15]


def test_execution_error(tmp_path, monkeypatch):
    from rlvr.adapters import rollout_health

    def raises(rollout: Any) -> str:
        raise KeyError("no such field")

    check, _ = rollout_health.OF_ONE["agent_turn_hollow"]
    monkeypatch.setitem(rollout_health.OF_ONE, "agent_turn_hollow", (check, raises))
    assert "check_execution_error" in found(written(tmp_path / "rollouts.jsonl", many(episode)[:1]))


@pytest.mark.parametrize("name", ["inspect.eval", "trl_completions_00001.parquet"])
def test_files_of_other_tools(name):
    assert rollout_report(FOREIGN / name).clean


def test_failing_server_of_verifiers():
    """Two records of a provider that refused; the tokens of the others were not kept, and are not missed."""
    report = rollout_report(FOREIGN / "verifiers_traces.jsonl")
    missing = next(result for result in report.results if result.check.id == "model_call_failed")
    assert missing.findings[0].measured["records"] == [1, 2]
    assert not next(r for r in report.results if r.check.id == "rollout_token_count_mismatch").findings


def test_command(tmp_path, capsys):
    clean, faulty = tmp_path / "clean.jsonl", tmp_path / "faulty.jsonl"
    written(clean, many(episode))
    records = many(episode)
    records[3]["turns"] = []
    written(faulty, records)
    assert main(["validate", str(clean)]) == 0
    assert main(["validate", str(faulty), "--json", str(tmp_path / "report.json")]) == 1
    assert "record 4" in capsys.readouterr().out
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "fail"


def test_rows_of_a_table_are_no_rollouts(tmp_path):
    rows = [{"question": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(3)]
    chats = [{"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello."}]}]
    assert not reads_as_rollouts(written(tmp_path / "rows.jsonl", rows))
    assert not reads_as_rollouts(written(tmp_path / "chats.jsonl", chats))
    assert reads_as_rollouts(written(tmp_path / "torn.jsonl", ['{"env_id": "to', *many(nemo_gym)]))
