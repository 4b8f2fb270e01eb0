"""The code grader: right programs are paid, wrong ones are not, whatever form the tests have."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.rewards.errors import BadOption
from rlvr.envs.rewards.graders.code import extract_code, grade_code
from rlvr.envs.sandbox import Sandbox

pytestmark = pytest.mark.sandbox

ADD = {"entry_point": "add", "tests": [{"args": [1, 2], "expected": 3}, {"args": [-1, 1], "expected": 0}]}
HUMANEVAL = {
    "task_id": "Made/1",
    "prompt": "import math\n\ndef twice(x):\n    return 2 * x\n\ndef area(r: float) -> float:\n"
    '    """Area of a circle, rounded.\n    >>> area(1)\n    3.14\n    """\n',
    "entry_point": "area",
    "canonical_solution": "    return round(math.pi * r * r, 2)\n",
    "test": "METADATA = {}\n\ndef check(candidate):\n    assert candidate(1) == 3.14\n"
    "    for r in range(5):\n        assert abs(candidate(r) - 3.14159265 * r * r) < 0.01, 'off'\n"
    "    assert candidate(twice(1)) == 12.57\n",
}
MBPP = {
    "text": "Write a function to find the shared elements of two tuples.",
    "code": "def shared(a, b):\n    return tuple(sorted(set(a) & set(b)))",
    "test_list": [
        "assert set(shared((3, 4, 5, 6), (5, 7, 4, 10))) == {4, 5}",
        "assert shared((1, 2), (3,)) == ()",
        "assert shared(EMPTY, (3,)) == ()",
    ],
    "test_setup_code": "EMPTY = ()",
    "challenge_test_list": ["assert shared((2,), (2,)) == (2,)"],
}
STACK = {
    "tests": [
        {
            "calls": [["Stack", [2]], ["push", [1]], ["push", [5]], ["push", [6]], ["pop", []], ["size", []]],
            "expected": [None, True, True, False, 5, 1],
        }
    ]
}
STACK_SOLUTION = """
class Stack:
    def __init__(self, limit): self.items, self.limit = [], limit
    def push(self, x):
        if len(self.items) == self.limit: return False
        self.items.append(x); return True
    def pop(self): return self.items.pop()
    def size(self): return len(self.items)
"""
SUM = {"tests": [{"stdin": "2 3\n", "stdout": "5\n"}, {"stdin": "10 -4\n", "stdout": "6"}]}


def fenced(code: str) -> str:
    return f"<think>add them? ```python\nwrong\n```</think>Here:\n```python\n{code}\n```\nDone."


RIGHT: list[tuple[str, dict[str, Any]]] = [
    (fenced("def add(a, b):\n    return a + b"), ADD),
    ("def add(a, b): return a + b", ADD),
    (fenced("class Solution:\n    def add(self, a, b): return a + b"), {**ADD, "entry_point": "Solution.add"}),
    (fenced("from functools import partial\nadd = lambda a, b: a + b"), ADD),
    (HUMANEVAL["canonical_solution"], HUMANEVAL),
    (fenced("return round(math.pi * r ** 2, 2)"), HUMANEVAL),
    (fenced(HUMANEVAL["prompt"] + HUMANEVAL["canonical_solution"]), HUMANEVAL),
    (fenced("def area(r):\n    return round(math.pi * r * r, 2)"), HUMANEVAL),
    (fenced(MBPP["code"]), MBPP),
    (fenced(STACK_SOLUTION), STACK),
    (fenced("a, b = map(int, input().split())\nprint(a + b)"), SUM),
    (fenced("print(sum(map(int, input().split())), end='  \\n\\n')"), SUM),
    (fenced("if __name__ == '__main__':\n    print(sum(map(int, input().split())))"), SUM),
    (fenced("print(int(input()) * 2)"), {"inputs": ["4", "5"], "outputs": ["8", "10"]}),
    (fenced("def f(**k):\n    return k"),
     {"entry_point": "f", "tests": [{"kwargs": {"a": [1]}, "expected": {"a": [1]}}]}),
    (fenced("def f(x):\n    return {1, (2, b'x')}, None"),
     {"entry_point": "f", "tests": [{"args": [1.5], "expected": ({1, (2, b"x")}, None)}]}),
    (fenced("def f(n):\n    return 7 ** n"), {"entry_point": "f", "tests": [{"args": [9000], "expected": 7**9000}]}),
]  # fmt: skip

WRONG: list[tuple[str, dict[str, Any]]] = [
    (fenced("print(sum(map(int, input().split())))\nraise SystemExit(3)"), SUM),
    (fenced("def add(a, b):\n    return 3"), ADD),
    (fenced("def sub(a, b):\n    return a + b"), ADD),
    (fenced("def add(a, b)\n    return a + b"), ADD),
    (fenced("def add(a, b):\n    raise ValueError(a + b)"), ADD),
    (fenced("import nothing_of_this_name\ndef add(a, b): return a + b"), ADD),
    (fenced("add = 3"), ADD),
    ("    return math.pi * r * r\n", HUMANEVAL),
    ("    return 3.14\n", HUMANEVAL),
    (fenced("def shared(a, b): return ()"), MBPP),
    (fenced(STACK_SOLUTION.replace("return False", "return True")), STACK),
    (fenced("print(5)"), SUM),
    (fenced("print('5')\nprint('6')"), SUM),
    (fenced("print(sum(map(int, input().split())))\nprint('PASSED')"), SUM),
    (fenced("def f(x):\n    return [1, 2]"), {"entry_point": "f", "tests": [{"args": [0], "expected": (1, 2)}]}),
]


@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_right_programs_are_paid(number: int, sandbox: Sandbox) -> None:
    verdict = grade_code(*RIGHT[number], sandbox=sandbox)
    assert (verdict.reward, verdict.status) == (1.0, "correct"), verdict
    assert verdict.parts
    assert set(verdict.parts.values()) == {1.0}


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_programs_are_not(number: int, sandbox: Sandbox) -> None:
    verdict = grade_code(*WRONG[number], sandbox=sandbox)
    assert (verdict.reward, verdict.status) == (0.0, "wrong"), verdict
    assert 0.0 in verdict.parts.values()


@pytest.mark.parametrize(
    "completion",
    ["", "  \n", "<think>```python\ndef add(a, b): return a + b\n```", "```bash\nls\n```", "```python\n```"],
)
def test_no_program_is_unparsable(completion: str, sandbox: Sandbox) -> None:
    assert grade_code(completion, ADD, sandbox=sandbox).status == "unparsable"


def test_block_that_defines_the_entry_point_counts() -> None:
    reply = "```python\ndef add(a, b): return a + b\n```\nUse it so:\n```python\nprint(add(1, 2))\n```\n```text\n3\n```"
    assert extract_code(reply, "add") == "def add(a, b): return a + b\n"
    assert extract_code(reply) == "print(add(1, 2))\n"
    assert extract_code("````python\nx = '''\n```\n'''\n````") == "x = '''\n```\n'''\n"
    assert extract_code("```python\nx = 1") == "x = 1"


@given(
    st.text() | st.lists(st.sampled_from(["```", "~~~", "`", "python", "\n", " ", "f = 1", "def f(): 1"])).map("".join)
)
def test_any_text_has_a_program_or_none(text: str) -> None:
    for name in ("f", None):
        code = extract_code(text, name)
        assert code is None or code.strip()


@pytest.mark.parametrize("text", ["`", "```", "```\n", "``` ", "```a", "~~~`", " ", "f", "=", "\n", "<think>", "def f"])
def test_extraction_is_linear(text: str) -> None:
    started = time.process_time()
    for end in ("", "`", "\n```python\nf = 1\n```"):
        extract_code(text * (300_000 // len(text)) + end, "f")
    assert time.process_time() - started < 3.0


def test_fraction_pays_the_share_and_goes_on_after_a_failure(sandbox: Sandbox) -> None:
    row = {"entry_point": "f", "tests": [{"args": [n], "expected": n} for n in range(5)]}
    code = "import os\ndef f(n):\n    if n == 1: os._exit(0)\n    if n == 2:\n        while True: pass\n    return n"
    verdict = grade_code(code, row, scoring="fraction", seconds=0.5, sandbox=sandbox)
    assert (verdict.reward, verdict.status) == (0.6, "partial")
    assert [verdict.parts[f"test {n}"] for n in range(5)] == [1.0, 0.0, 0.0, 1.0, 1.0]
    assert grade_code(code, row, seconds=0.5, sandbox=sandbox).reward == 0.0


def test_fraction_of_asserts(sandbox: Sandbox) -> None:
    code = "def shared(a, b): return tuple(sorted(set(a) & set(b))) if len(a) > 1 else (9,)"
    verdict = grade_code(code, MBPP, scoring="fraction", sandbox=sandbox)
    assert verdict.status == "partial"
    assert verdict.reward == 0.5
    assert verdict.parts == {"test 0": 1.0, "test 1": 1.0, "test 2": 0.0, "test 3": 0.0}


def test_fraction_does_not_pay_a_cheat(sandbox: Sandbox) -> None:
    code = "import os\ndef add(a, b):\n    if a < 0: os.write(4, b'x\\n')\n    return a + b"
    assert grade_code(code, ADD, scoring="fraction", sandbox=sandbox).reward == 0.0


def test_options_of_comparison(sandbox: Sandbox) -> None:
    third = {"entry_point": "f", "tests": [{"args": [], "expected": 0.3}]}
    assert grade_code("def f(): return 0.1 + 0.2", third, sandbox=sandbox).reward == 1.0
    assert grade_code("def f(): return 0.1 + 0.2", third, tolerance=0.0, sandbox=sandbox).reward == 0.0
    pair = {"entry_point": "f", "tests": [{"args": [], "expected": [1]}]}
    assert grade_code("def f(): return (1,)", pair, sandbox=sandbox).reward == 1.0
    assert grade_code("def f(): return (1,)", pair, strict_sequences=True, sandbox=sandbox).reward == 0.0
    text = {"tests": [{"stdin": "", "stdout": "1 2.50\n3"}]}
    assert grade_code("print('1 2.5 3')", text, sandbox=sandbox).reward == 0.0
    assert grade_code("print('1 2.5 3')", text, compare="tokens", sandbox=sandbox).reward == 1.0
    assert grade_code("print('1.0 2.5 3')", text, compare="tokens", sandbox=sandbox).reward == 0.0


def test_reason_does_not_tell_what_was_expected(sandbox: Sandbox) -> None:
    row = {"entry_point": "f", "tests": [{"args": [1], "expected": 271828}]}
    assert "271828" not in grade_code("def f(x): return 1", row, sandbox=sandbox).reason
    judged = {"test_list": ["assert f(1) == 271828"]}
    assert "271828" not in grade_code("def f(x): return 1", judged, sandbox=sandbox).reason


# --- faults that are not the program's -------------------------------------------------------------------

BAD_ROWS: list[Any] = [
    {}, {"tests": []}, {"tests": [1]}, {"entry_point": "f", "tests": [{"args": [1]}]},
    {"tests": [{"args": [], "expected": 1}]},
    {"entry_point": "f", "tests": [{"args": [object()], "expected": 1}]}, {"inputs": ["1"], "outputs": []}, ["tests"],
    {"entry_point": "f", "test": "def check(c):\n  assert c(lambda: 1)"}, {"entry_point": "f", "test": "def check(c:"},
    {"entry_point": "f", "test": "def check(c): c(1)"}, {"test_list": ["assert f(1) == 1"], "test_setup_code": "1 / 0"},
    {"entry_point": "f", "test": "import time\ntime.sleep(60)\ndef check(c): assert c(1)"},
    {"tests": [{"calls": [["A", []]], "expected": []}]}, {"test_list": [1]}, {"test_list": "x", "test_imports": 3},
    {"tests": [{"calls": [[1]], "expected": [1]}]}, {"entry_point": "f", "tests": [{"args": 1, "expected": 1}]}, None,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD_ROWS)))
def test_a_bad_row_is_our_fault_and_not_a_zero(number: int, sandbox: Sandbox) -> None:
    verdict = grade_code("def f(x): return 1", BAD_ROWS[number], total_seconds=1.0, seconds=1.0, sandbox=sandbox)
    assert verdict.status == "verifier_error", verdict
    assert not verdict.valid
    assert verdict.reason


def test_values_that_break_the_tests_are_the_programs_fault(sandbox: Sandbox) -> None:
    row = {"entry_point": "f", "test": "def check(c):\n    n = c(1)\n    assert sum(range(n)) == 0\n"}
    verdict = grade_code("def f(x): return 10**14", row, total_seconds=1.0, sandbox=sandbox)
    assert (verdict.reward, verdict.status) == (0.0, "wrong")


@pytest.mark.parametrize(
    "value", ["'a' * 600_000", "['a'] * 100_000", "10.0 ** 308", "nested", "'a' * 2_000_000"], ids=str
)
def test_values_that_the_tests_cannot_pass_on_are_the_programs_fault(value: str, sandbox: Sandbox) -> None:
    nested = "nested = 3\nfor _ in range(58):\n    nested = [nested]\n"
    program = f"{nested}def f(x):\n    return {value} if x == 3 else 3\n"
    test = "assert f(3) != 4\nassert f({k: [f(3) * 2, [[f(3)]]] for k in range(2)}) == 3"
    verdict = grade_code(program, {"test_list": [test]}, sandbox=sandbox)
    assert (verdict.status, verdict.valid) == ("wrong", True)
    right = grade_code("def f(x):\n    return 3\n", {"test_list": [test]}, sandbox=sandbox)
    assert right.reward == 1.0


def test_arguments_of_the_row_that_cannot_be_sent_are_its_fault(sandbox: Sandbox) -> None:
    for argument in ("'a' * 2_000_000", "float('inf')", "print"):
        row = {"test_list": [f"assert f({argument}) == 3"]}
        assert grade_code("def f(x):\n    return 3\n", row, sandbox=sandbox).status == "verifier_error"


def test_no_assertion_reached_is_no_success(sandbox: Sandbox) -> None:
    row = {"entry_point": "f", "test": "def check(c):\n    for x in c(3):\n        assert x > 0\n"}
    assert grade_code("def f(x): return [1, 2]", row, sandbox=sandbox).reward == 1.0
    assert grade_code("def f(x): return []", row, sandbox=sandbox).reward == 0.0
    assert grade_code("def f(x): return [1, -2]", row, sandbox=sandbox).reward == 0.0


def test_tests_may_expect_an_error(sandbox: Sandbox) -> None:
    test = (
        "def check(c):\n    try:\n        c(-1)\n        assert False\n    except ValueError:\n        pass\n"
        "    assert c(1) == 1\n"
    )
    row = {"entry_point": "f", "test": test}
    right = "def f(x):\n    if x < 0: raise ValueError('negative')\n    return x"
    assert grade_code(right, row, sandbox=sandbox).reward == 1.0
    assert grade_code("def f(x): return x", row, sandbox=sandbox).reward == 0.0
    assert grade_code(right.replace("ValueError", "KeyError"), row, sandbox=sandbox).reward == 0.0


def test_tests_cannot_be_cut_short_from_inside(sandbox: Sandbox) -> None:
    row = {"entry_point": "f", "test": "def check(c):\n    assert all(map(lambda x: c(x) == x, range(3)))\n"}
    assert grade_code("def f(x): return x", row, sandbox=sandbox).reward == 1.0
    assert grade_code("def f(x): raise StopIteration", row, sandbox=sandbox).reward == 0.0


@pytest.mark.parametrize(
    "option", [{"scoring": "some"}, {"compare": "words"}, {"tolerance": 2}, {"seconds": 0}, {"memory_mb": "x"}]
)
def test_options_are_checked(option: dict[str, Any], sandbox: Sandbox) -> None:
    with pytest.raises(BadOption):
        grade_code("def add(a, b): return a + b", ADD, sandbox=sandbox, **option)


# --- many at once ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_hanging_grade_does_not_touch_a_hundred_others(sandbox: Sandbox) -> None:
    stuck = threading.Thread(
        target=grade_code, args=("while True: pass", ADD), kwargs={"sandbox": sandbox, "seconds": 3.0}
    )
    stuck.start()
    with ThreadPoolExecutor(3) as pool:
        good = list(pool.map(lambda _: grade_code("def add(a, b): return a + b", ADD, sandbox=sandbox), range(100)))
    stuck.join()
    assert [verdict.reward for verdict in good] == [1.0] * 100


def test_judged_rows_from_more_threads_than_turns(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(16) as pool:
        pairs = [(HUMANEVAL["canonical_solution"], 1.0), ("    return r\n", 0.0)] * 16
        got = list(pool.map(lambda pair: grade_code(pair[0], HUMANEVAL, sandbox=sandbox).reward, pairs))
    assert got == [reward for _, reward in pairs]


def test_from_asyncio(sandbox: Sandbox) -> None:
    async def many() -> list[float]:
        calls = [asyncio.to_thread(grade_code, "def add(a, b): return a + b", ADD, sandbox=sandbox) for _ in range(20)]
        return [verdict.reward for verdict in await asyncio.gather(*calls)]

    assert asyncio.run(many()) == [1.0] * 20


@pytest.mark.slow
def test_every_humaneval_solution_is_paid(sandbox: Sandbox) -> None:
    """Needs the data: set RLVR_HUMANEVAL to HumanEval.jsonl.gz."""
    path = os.environ.get("RLVR_HUMANEVAL")
    if not path:
        pytest.skip("RLVR_HUMANEVAL names no file")
    rows = [json.loads(line) for line in gzip.decompress(Path(path).read_bytes()).splitlines()]
    unpaid = [r["task_id"] for r in rows if grade_code(r["canonical_solution"], r, sandbox=sandbox).reward != 1.0]
    assert unpaid == []
    body = "    return None\n"
    assert [r["task_id"] for r in rows if grade_code(body, r, sandbox=sandbox).reward != 0.0] == []
