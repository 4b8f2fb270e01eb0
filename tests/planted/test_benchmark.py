"""The benchmark of validators: what it counts, and that a validator ends when its time is over."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import pytest

from ..architecture import ROOT
from .catalogue import PAIRS


@pytest.fixture(scope="module")
def benchmark():
    path = ROOT / "benchmarks" / "validate.py"
    spec = importlib.util.spec_from_file_location("validate_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
    del sys.modules[spec.name]


def records_of(benchmark, said):
    """Records of a validator that says of each named environment which checks fail, and of others that none does."""
    return {
        ("it", target): {"failed": said.get(target.partition(":")[2], []), "cpu_seconds": 1.0}
        for pair in PAIRS
        for target in (benchmark.target_of(pair, False), benchmark.target_of(pair, True))
    }


def test_what_is_caught_missed_and_told_apart_is_counted(benchmark):
    said = {
        "InvoiceFields": ["floor"],
        "Conversions": ["floor", "seed"],
        "MendedConversions": ["seed"],
        "DeliveryRobot": ["seed"],
        "MendedDeliveryRobot": ["seed"],
        "SumSheet": None,
    }
    counted = benchmark.count(records_of(benchmark, said), "it", PAIRS)
    assert counted == benchmark.Count(runs=72, caught=3, false_alarms=2, told_apart=2, no_verdict=1)


def test_a_pair_of_which_half_was_run_is_not_counted(benchmark):
    records = records_of(benchmark, {})
    del records["it", "planted.pays_anything:MendedInvoiceFields"]
    assert benchmark.count(records, "it", PAIRS).runs == 71
    assert benchmark.count({}, "it", PAIRS).runs == 0


def test_the_table_says_what_was_not_run(benchmark):
    validators = [benchmark.Validator(name, "", None, None) for name in ("it", "other")]
    lines = benchmark.table(records_of(benchmark, {"InvoiceFields": ["floor"]}), validators).splitlines()
    assert "| 1. the verifier pays anything | 1 / 0 | not run |" in lines
    assert "| **missed** | 71 | not run |" in lines


def test_what_a_validator_started_ends_with_it_and_at_the_time_limit(benchmark, tmp_path):
    code = (
        "import subprocess, sys, time, planted.catalogue\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "if sys.argv[1] == 'hang': time.sleep(600)\n"
        "sys.exit(3)\n"
    )
    for word, seconds, status in (("end", 300, 3), ("hang", 5, None)):
        folder = tmp_path / word
        folder.mkdir()
        finished = benchmark.run([sys.executable, "-c", code, word], seconds, folder)
        assert finished.status == status, finished.output
        if finished.output:
            wait_for_end(int(finished.output))


def wait_for_end(pid: int) -> None:
    """Return when a process has ended: a signal takes a moment, and a dead one may wait for its new parent."""
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and ") Z " not in stat.read_text():
        time.sleep(0.01)


def test_a_pair_for_which_a_tool_has_no_form_is_neither_caught_nor_missed(benchmark):
    records = records_of(benchmark, {})
    for mended in (False, True):
        records["it", benchmark.target_of(PAIRS[0], mended)] = {"no_form": True}
    assert benchmark.count(records, "it", PAIRS).runs == 71
    assert "InvoiceFields" not in benchmark.mistakes(records, "it")[0]
