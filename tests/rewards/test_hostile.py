"""The hostile set: every labelled answer gets its label, quickly, and nothing in it is executed."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards import grade

LIMIT_SECONDS = 0.2
CASES = [json.loads(line) for line in Path(__file__).with_name("hostile.jsonl").read_text("utf-8").splitlines()]


def text_of(case: dict[str, Any]) -> str:
    if "completion" in case:
        return str(case["completion"])
    return "".join(piece * times for piece, times in case["pieces"])


def grade_case(case: dict[str, Any]) -> Verdict:
    return grade(case["kind"], text_of(case), case["reference"], **case.get("options", {}))


def best_of(times: int, case: dict[str, Any]) -> float:
    """The quickest of several runs: what the grade costs, not what else the machine is doing."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        grade_case(case)
        spent.append(time.process_time() - start)
    return min(spent)


def test_the_set_is_large_and_covers_every_kind() -> None:
    kinds = Counter(case["kind"] for case in CASES)
    assert len(CASES) >= 1_000
    assert set(kinds) == {"number", "math", "choice", "countdown", "format", "action", "json", "exact"}
    assert min(kinds.values()) >= 30
    assert {case["reward"] for case in CASES} == {0, 1}


@pytest.mark.parametrize("kind", sorted({case["kind"] for case in CASES}))
def test_every_answer_gets_its_label(kind: str) -> None:
    faults = []
    for case in CASES:
        if case["kind"] != kind:
            continue
        verdict = grade_case(case)
        if verdict.reward != case["reward"] or not verdict.valid:
            faults.append((text_of(case)[-80:], case["reference"], case["why"], verdict.status, verdict.reason))
    assert not faults


def test_no_answer_costs_more_than_the_limit() -> None:
    for kind in ("number", "math", "json"):  # the first call of a kind imports it
        grade(kind, "", "1")
    slow = []
    for case in CASES:
        start = time.process_time()
        grade_case(case)
        if time.process_time() - start > LIMIT_SECONDS and best_of(3, case) > LIMIT_SECONDS:
            slow.append((case["kind"], text_of(case)[-80:], case["why"]))
    assert not slow


def test_a_verdict_repeats() -> None:
    assert [grade_case(case) for case in CASES] == [grade_case(case) for case in CASES]


PAYLOADS = [
    "__import__('pathlib').Path({!r}).touch()",
    "exec(\"open({!r},'w')\")",
    "[].__class__.__base__.__subclasses__() or open({!r},'w')",
    "\\immediate\\write18{{touch {!r}}}",
    "; touch {!r} #",
    "$(touch {!r})",
    "{{{{open({!r},'w')}}}}",
]


@pytest.mark.slow
@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(
    ("kind", "reference", "options"),
    [
        ("number", "72", {}),
        ("math", "72", {}),
        ("math", "\\int_0^1 x\\,dx", {}),
        ("choice", "B", {}),
        ("countdown", {"numbers": [8, 9], "target": 72}, {}),
        ("action", "up", {"legal": ["up", "down"]}),
        ("json", {"a": 1}, {}),
        ("exact", "Paris", {}),
        ("f1", "Paris", {}),
    ],
)
def test_model_text_is_never_executed(
    kind: str, reference: Any, options: dict[str, Any], payload: str, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    attack = payload.format(str(canary))
    for text in (f"\\boxed{{{attack}}}", f"<answer>{attack}</answer>", f"#### {attack}", attack):
        assert grade(kind, text, reference, **options).reward == 0
    assert not canary.exists()


def test_gold_with_one_digit_changed_is_wrong() -> None:
    for case in CASES:
        if case["kind"] == "number" and case["reward"] == 1 and case["reference"] == "72":
            assert grade("number", text_of(case), "73").reward == 0
            assert grade("number", text_of(case), "-72").reward == 0
