"""Programs are judged as the data sets' own judges do: published rows, failing exits, customary imports."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.rewards.errors import BadReference
from rlvr.envs.rewards.graders import code_rows
from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.rewards.graders.code_imports import imports_for
from rlvr.envs.rewards.graders.code_rows import normalized_row, unpickled_text

from ..needs import needs_sandbox

pytestmark = [pytest.mark.sandbox, needs_sandbox]
ADD_STREAM = "a, b = map(int, input().split())\nprint(a + b)"
ADD_METHOD = "class Solution:\n    def add(self, a: int, b: int) -> int:\n        return a + b"
ADD_FUNCTION = "def add(a, b):\n    return a + b"


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def packed(tests: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def literal(value: Any) -> str:
    """As PrimeIntellect publishes objects: the ``str`` of a Python dict."""
    return str(value)


LCB_STREAM = [{"input": "2 3", "output": "5", "testtype": "stdin"}]
LCB_CALL = [{"input": "2\n3", "output": "5", "testtype": "functional"}]
STREAM_ROWS: dict[str, Any] = {
    "apps": {"inputs": ["2 3\n"], "outputs": ["5\n"]},
    "apps, lists of lines": {"inputs": [["2 3"]], "outputs": [["5"]]},
    "livecodebench, public": LCB_STREAM,
    "livecodebench, as text": json.dumps(LCB_STREAM),
    "livecodebench, private": packed(LCB_STREAM),
    "livecodebench, both": {"public_test_cases": json.dumps(LCB_STREAM), "private_test_cases": packed(LCB_STREAM)},
    "synthetic-1": {
        "language": "python",
        "test_cases": [{"fn_name": None, "input": "2 3\n", "output": "5\n", "type": "stdin_stdout"}],
    },
    "synthetic-1, as text": literal(
        {"language": "python", "test_cases": [{"type": "stdin_stdout", "input": "2 3\n", "output": "5\n"}]}
    ),
    "intellect-2": json.dumps({"test_cases": json.dumps({"inputs": ["2 3\n"], "outputs": ["5\n"]})}),
    "deepcoder": json.dumps(
        [{"input": "2 3\n", "output": "5\n", "testtype": "stdin_stdout", "metadata": {"func_name": None}}]
    ),
}
CALL_ROWS: dict[str, Any] = {
    "apps": {"fn_name": "add", "inputs": [[2, 3]], "outputs": [[5]]},
    "livecodebench": {
        "public_test_cases": json.dumps(LCB_CALL),
        "private_test_cases": packed(LCB_CALL),
        "metadata": '{"func_name": "add"}',
    },
    "synthetic-1": {"test_cases": [{"fn_name": "add", "input": [2, 3], "output": 5, "type": "function_call"}]},
    "synthetic-1, as text": literal(
        {
            "language": "python",
            "test_cases": [{"type": "function_call", "fn_name": "add", "input": [2, 3], "output": [5]}],
        }
    ),
    "intellect-2": json.dumps({"test_cases": json.dumps({"fn_name": "add", "inputs": [[2, 3]], "outputs": [[5]]})}),
    "deepcoder": json.dumps([{**LCB_CALL[0], "metadata": {"func_name": "add"}}]),
}


@pytest.mark.parametrize("name", STREAM_ROWS)
def test_published_rows_of_streams(name: str) -> None:
    assert grade_code(fenced(ADD_STREAM), STREAM_ROWS[name]).reward == 1.0
    assert grade_code(fenced("print(6)"), STREAM_ROWS[name]).status == "wrong"


@pytest.mark.parametrize("code", [ADD_METHOD, ADD_FUNCTION])
@pytest.mark.parametrize("name", CALL_ROWS)
def test_published_rows_of_calls(name: str, code: str) -> None:
    assert grade_code(fenced(code), CALL_ROWS[name]).reward == 1.0
    assert grade_code(fenced(code.replace("+", "-")), CALL_ROWS[name]).status == "wrong"


def test_a_list_of_one_is_not_its_value_in_livecodebench() -> None:
    assert grade_code(fenced("def add(a, b): return [a + b]"), CALL_ROWS["livecodebench"]).reward == 0.0
    assert grade_code(fenced("def add(a, b): return [a + b]"), CALL_ROWS["apps"]).reward == 1.0


LCB_ROW = {  # the columns of code_generation_lite
    "question_title": "Add",
    "question_content": "Add two numbers.",
    "platform": "leetcode",
    "question_id": "1",
    "contest_id": "weekly-contest-1",
    "contest_date": "2026-01-01T00:00:00",
    "starter_code": "class Solution:\n    def add(self, a: int, b: int) -> int:\n        ",
    "difficulty": "easy",
    "public_test_cases": json.dumps(LCB_CALL),
    "private_test_cases": packed([{"input": "-1\n1", "output": "0", "testtype": "functional"}]),
    "metadata": '{"func_name": "add"}',
}


@pytest.mark.parametrize("column", ["public_test_cases", "private_test_cases"])
def test_a_row_of_livecodebench_counts_all_its_tests_and_shows_its_starter_code(tmp_path: Path, column: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(LCB_ROW) + "\n")
    columns = {"question": "question_content", "answer": column}
    env = gym.make("rlvr/Dataset-v0", data_files=str(path), columns=columns, grader="code")
    observation, _ = env.reset(seed=0)
    assert (
        observation
        == f"Add two numbers.\n\nBegin with this code:\n\n```python\n{LCB_ROW['starter_code'].rstrip()}\n```"
    )
    assert env.step(fenced(ADD_METHOD))[1] == 1.0
    for half_right in (ADD_METHOD.replace("a + b", "5"), ADD_METHOD.replace("a + b", "0")):
        env.reset(seed=0)
        assert env.step(fenced(half_right))[1] == 0.0


SYNTHETIC_ROW = {  # the columns of PrimeIntellect's verifiable-coding-problems
    "source": "apps",
    "task_type": "verifiable_code",
    "in_source_id": "7",
    "prompt": "Solve the following coding problem using the programming language python:\n\nPrint a + b.",
    "gold_standard_solution": f"```python\n{ADD_STREAM}\n```",
    "verification_info": literal(
        {
            "language": "python",
            "test_cases": [{"type": "stdin_stdout", "input": "2 3\n", "output": "5\n"}],
        }
    ),
    "metadata": "{'difficulty': 'introductory', 'problem_url': None}",
    "problem_id": "vcp_7",
}


def test_a_row_of_synthetic_1(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    other = {**SYNTHETIC_ROW, "verification_info": SYNTHETIC_ROW["verification_info"].replace("python", "rust")}
    path.write_text(json.dumps(SYNTHETIC_ROW) + "\n" + json.dumps(other) + "\n")
    settings: dict[str, Any] = {"columns": {"question": "prompt", "answer": "verification_info"}, "grader": "code"}
    with pytest.raises(ValueError, match="row 1: the tests are of a program in rust, and only Python is run"):
        gym.make("rlvr/Dataset-v0", data_files=str(path), **settings)
    where = {"verification_info.language": "python"}
    env = gym.make("rlvr/Dataset-v0", data_files=str(path), where=where, **settings)
    assert env.unwrapped.task.size == 1
    env.reset(seed=0)
    assert env.step(fenced(ADD_STREAM))[1] == 1.0


def test_a_mathematical_row_of_synthetic_1(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        json.dumps({"prompt": "What is 6 * 7?", "verification_info": literal({"ground_truth": "42"})}) + "\n"
    )
    columns = {"question": "prompt", "answer": "verification_info.ground_truth"}
    env = gym.make("rlvr/Dataset-v0", data_files=str(path), columns=columns, grader="math")
    for reply, reward in ((r"\boxed{42}", 1.0), (r"\boxed{24}", 0.0)):
        env.reset(seed=0)
        assert env.step(reply)[1] == reward


@pytest.mark.parametrize(
    "row",
    [
        [],
        [{"input": "1"}],
        LCB_CALL,
        [*LCB_STREAM, *LCB_CALL],
        "neither",
        {"inputs": ["1"], "outputs": []},
        {"inputs": [1], "outputs": ["1"]},
        {"public_test_cases": "AAAA"},
        {"test_cases": [{"input": "{", "output": "1", "testtype": "functional", "fn_name": "f"}]},
        {"test_cases": [{"input": [1], "output": 1, "type": "function_call", "fn_name": name} for name in ("f", "g")]},
        {"language": "cpp", "test_cases": [{"input": "1", "output": "1", "type": "stdin_stdout"}]},
        "{'test_cases': __import__('os')}",
        "{'test_cases': [{'input': {1}, 'output': b'1'}]}",
    ],
)
def test_rows_of_no_use_are_no_fault_of_the_program(row: Any) -> None:
    verdict = grade_code(fenced(ADD_STREAM), row)
    assert verdict.status == "verifier_error", verdict
    assert verdict.reason


class Opens:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_pickle_is_executed(protocol: int, tmp_path: Path) -> None:
    hostile = pickle.dumps(Opens(str(tmp_path / "made")), protocol)
    for data in (hostile, pickle.dumps(["[]"], protocol), pickle.dumps(1, protocol), hostile[:-1], b"", b"."):
        with pytest.raises(BadReference):
            unpickled_text(data)
    text = base64.b64encode(zlib.compress(hostile)).decode()
    assert grade_code(fenced(ADD_STREAM), {"private_test_cases": text}).status == "verifier_error"
    assert not (tmp_path / "made").exists()


@given(st.text(max_size=300), st.integers(1, pickle.HIGHEST_PROTOCOL))
def test_a_pickle_of_a_text_is_read(text: str, protocol: int) -> None:
    assert unpickled_text(pickle.dumps(text, protocol)) == text


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with contextlib.suppress(BadReference):
        assert isinstance(unpickled_text(data), str)


def test_long_texts_lie_outside_of_frames() -> None:
    for protocol in range(1, pickle.HIGHEST_PROTOCOL + 1):
        assert unpickled_text(pickle.dumps("ä" * 200_000, protocol)) == "ä" * 200_000


def test_a_bomb_of_packed_tests_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_rows, "MAX_UNPACKED", 1 << 16)
    bomb = base64.b64encode(zlib.compress(bytes(1 << 24))).decode()
    with pytest.raises(BadReference, match="over"):
        normalized_row({"private_test_cases": bomb})


# --- exits -----------------------------------------------------------------------------------------------


def streams(printed: str) -> dict[str, Any]:
    return {"tests": [{"stdin": "1", "stdout": printed}]}


FAILING = ("def f(x) return", "import nosuchmodule", "raise ValueError", "import sys; sys.exit(3)", "exit('words')")


@pytest.mark.parametrize("code", FAILING)
def test_a_failing_exit_is_a_failing_test(code: str) -> None:
    assert grade_code(fenced(code), streams("")).status == "wrong"
    assert grade_code(fenced(f"print(1)\n{code}"), streams("1\n")).status == "wrong"
    two = {"tests": [{"stdin": "1", "stdout": ""}, {"stdin": "2", "stdout": "x\n"}]}
    assert grade_code(fenced(code), two, scoring="fraction").reward == 0.0


@pytest.mark.parametrize("code", ["pass", "import sys; sys.exit(0)", "exit()", "raise SystemExit"])
def test_a_program_that_ends_well_passes(code: str) -> None:
    assert grade_code(fenced(code), streams("")).reward == 1.0
    assert grade_code(fenced(f"print(1)\n{code}"), streams("1\n")).reward == 1.0


def test_a_long_integer_is_printed() -> None:
    verdict = grade_code(fenced("print(10 ** 6000)\nint('9' * 6000)"), streams("1" + "0" * 6000))
    assert verdict.reward == 1.0, verdict


def test_bytes_of_a_stream() -> None:
    row = {"tests": [{"stdin": b"2 3\n", "stdout": b"5\n"}]}
    code = "import sys\na, b = sys.stdin.buffer.read().split()\nsys.stdout.buffer.write(b'%d\\n' % (int(a) + int(b)))"
    assert grade_code(fenced(code), row).reward == 1.0


# --- imports ---------------------------------------------------------------------------------------------

USES = (
    "return len(List[int].__args__) and x",
    "return deque([x]).pop()",
    "return collections.Counter([x]).most_common()[0][0]",
    "h = []; heappush(h, x); return heapq.heappop(h)",
    "return x if bisect_left([x], x) == 0 and inf > math.gcd(x, 1) else 0",
    "return reduce(lambda a, b: a + b, accumulate([x])) if cache else 0",
    "return pow(x, 1, 10**9 + 7)",
)


@pytest.mark.parametrize("body", USES)
def test_leetcode_forms_get_the_customary_imports(body: str) -> None:
    row = {"entry_point": "Solution.f", "tests": [{"args": [4], "expected": 4}]}
    code = f"from __future__ import annotations\nclass Solution:\n    def f(self, x: Optional[int]):\n        {body}"
    verdict = grade_code(fenced(code), row)
    assert verdict.reward == 1.0, verdict
    row = {"tests": [{"calls": [["Box", []], ["f", [4]]], "expected": [None, 4]}]}
    assert grade_code(fenced(code.replace("class Solution", "class Box")), row).reward == 1.0


def test_other_forms_import_what_they_use() -> None:
    row = {"entry_point": "f", "tests": [{"args": [4], "expected": 4}]}
    assert grade_code(fenced("def f(x: List[int]): return x"), row).status == "wrong"


def test_only_names_that_are_mentioned_are_imported() -> None:
    assert imports_for("x = 1").count("\n") == 2
    assert "from typing import List\n" in imports_for("List")
    assert "pow" not in imports_for("pow(1, 2)")
