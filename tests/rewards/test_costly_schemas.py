"""Schemas whose check can cost more than any answer is worth: bounded, and charged to whoever caused it."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, StringConstraints

from rlvr.envs.rewards import BadOption, grade
from rlvr.envs.rewards.graders import json_schema as module
from rlvr.envs.rewards.graders.pydantic_schema import CPU_SECONDS, _checker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a child is forked")


class Plus(BaseModel):
    """With Times a tree in which each kind of node is tried at each depth."""

    inner: Plus | Times | int
    plus: int


class Times(BaseModel):
    inner: Plus | Times | int
    times: int


class Chain(BaseModel):
    inner: Chain | None = None


class Backtracking(BaseModel):
    text: Annotated[str, Field(pattern=re.compile(r"^(a|a)*$"))]


class Linear(BaseModel):
    text: Annotated[str, StringConstraints(pattern=r"^(a|a)*$")]


def test_a_child_that_is_aborted_prints_nothing():
    program = (
        "import os\nfrom rlvr.envs.rewards.errors import WorkerSpent\n"
        "from rlvr.envs.rewards.graders.pydantic_schema import in_child\n"
        "try:\n    in_child(os.abort)\nexcept WorkerSpent as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("out of memory\n", "")


def tree(depth: int, kind: str) -> str:
    value: Any = 1
    for _ in range(depth):
        value = {"inner": value, kind: 1}
    return json.dumps(value)


def seconds_spent(text: str, schema: Any, reference: Any = None) -> tuple[Any, float]:
    """The verdict, and what this process and its children used of the processor."""
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    verdict = grade("json", text, reference, schema=schema)
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return verdict, sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))


def test_alternatives_that_contain_one_another_are_bounded() -> None:
    assert grade("json", tree(6, "plus"), None, schema=Plus).reward == 1.0
    verdict, spent = seconds_spent(tree(40, "neither"), Plus)
    assert (verdict.status, verdict.valid) == ("wrong", True)
    # The control: unbounded, each depth doubles the time and the memory; the machine decides which ends first.
    assert "processor time" in verdict.reason or "out of memory" in verdict.reason
    assert spent < CPU_SECONDS + 2


def test_a_pattern_that_backtracks_is_bounded_and_a_linear_one_stays_here() -> None:
    bomb = json.dumps({"text": "a" * 60 + "!"})
    verdict, spent = seconds_spent(bomb, Backtracking)
    assert verdict.status == "wrong"
    assert "processor time" in verdict.reason
    assert spent < CPU_SECONDS + 2
    assert grade("json", '{"text": "aaa"}', None, schema=Backtracking).reward == 1.0
    assert "does not hold" in grade("json", bomb, None, schema=Linear).reason


def test_faults_without_number_are_bounded_in_memory() -> None:
    kinds: list[Any] = [
        type(f"M{n}", (BaseModel,), {"__annotations__": {f"f{n}_{k}": int for k in range(6)}}) for n in range(30)
    ]
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdict, spent = seconds_spent(json.dumps([{}] * 24_000), list[union])
    assert verdict.status == "wrong"
    assert spent < CPU_SECONDS + 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB; the faults alone take gigabytes


def test_which_types_are_checked_in_a_child() -> None:
    assert _checker(Plus).explodes
    assert _checker(Backtracking).explodes
    for harmless in (Chain, Linear, list[int], int | str, dict[str, list[int] | None]):
        assert not _checker(harmless).explodes, harmless


@pytest.mark.slow
def test_a_schema_that_cannot_check_its_own_reference_is_our_fault() -> None:
    bad = {"text": "a" * 60 + "!"}
    verdict = grade("json", json.dumps(bad), bad, schema=Backtracking)
    assert (verdict.status, verdict.valid) == ("timeout", False)
    assert "the schema alone" in verdict.reason


def test_many_alternatives_for_many_parts_are_bounded() -> None:
    schema = {"items": {"anyOf": [{"const": f"{n}"} for n in range(500)]}}
    assert grade("json", '["3", "499"]', None, schema=schema).reward == 1.0
    verdict, spent = seconds_spent(json.dumps(["499"] * 14_000), schema)
    assert verdict.status == "wrong"
    assert f"{module.MAX_STEPS:,} steps" in verdict.reason
    assert spent < 8
    enum = {"items": {"enum": [f"{n}" for n in range(2_000)]}}
    assert "steps" in grade("json", json.dumps(["1999"] * 12_000), None, schema=enum).reason


def test_a_schema_that_holds_itself_or_is_too_large_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["items"] = loop
    doubled: dict[str, Any] = {"type": "integer"}
    for _ in range(40):
        doubled = {"anyOf": [doubled, doubled]}
    for schema in (loop, doubled):
        with pytest.raises(BadOption, match="parts"):
            grade("json", "[1]", None, schema=schema)
