"""Speed and truth of the graders, side by side with math-verify on the same pairs in the same run.

    python benchmarks/grading.py --data DATA [--rounds 5] [--out benchmarks/results]

DATA is a folder with gsm8k/test.jsonl and math500/test.jsonl; without the flag it is the one that RLVR_DATA names.
Rates are per CPU-second of this process, contenders in turn in every round; caches are emptied before each round, so
that no reference was read before. The normal pairs are benchmarks/data/grading_pairs.jsonl, the hostile ones
tests/rewards/hostile.jsonl, both with their labels.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from math_verify import parse, verify

from rlvr.envs.rewards import grade
from rlvr.envs.rewards.graders.mathematical import read_gold
from rlvr.envs.rewards.graders.number import read_reference
from rlvr.envs.rewards.workers import shared_pool

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 0.2


class Pair(NamedTuple):
    """A reply, its reference, whether they agree, and what kind of pair it is."""

    text: str
    gold: str
    equal: bool
    category: str


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def boxed(answer: str) -> str:
    return f"Working step by step leads to the result.\n\nTherefore the answer is $\\boxed{{{answer}}}$."


def gsm8k_golds(data: Path) -> list[str]:
    return [row["answer"].rpartition("####")[2].strip() for row in rows(data / "gsm8k" / "test.jsonl")]


def integer_pairs(golds: list[str], count: int) -> list[Pair]:
    """Right answers and answers that are one too large, in turn."""
    pairs = []
    for index, gold in enumerate(golds[:count]):
        value = int(Fraction(gold.replace(",", "")))
        right = index % 2 == 0
        pairs.append(Pair(boxed(str(value if right else value + 1)), gold, right, "integers"))
    return pairs


def math500_pairs(data: Path) -> list[Pair]:
    """Each answer against itself, and against the next one of the table that is spelled otherwise."""
    golds = [row["answer"] for row in rows(data / "math500" / "test.jsonl")]
    pairs = []
    for index, gold in enumerate(golds):
        pairs.append(Pair(boxed(gold), gold, True, "MATH-500"))
        other = golds[(index + 1) % len(golds)]
        if {gold, other} != {"5", "x=5"}:
            pairs.append(Pair(boxed(other), gold, gold == other, "MATH-500"))
    return pairs


def normal_pairs() -> list[Pair]:
    table = rows(ROOT / "benchmarks" / "data" / "grading_pairs.jsonl")
    return [Pair(boxed(row["answer"]), row["gold"], row["equal"], row["category"]) for row in table]


def ours(pair: Pair) -> bool:
    return grade("math", pair.text, pair.gold).reward == 1.0


def ours_number(pair: Pair) -> bool:
    return grade("number", pair.text, pair.gold).reward == 1.0


def theirs(pair: Pair) -> bool:
    return bool(verify(parse(f"\\boxed{{{pair.gold}}}"), parse(pair.text)))


def forget() -> None:
    read_gold.cache_clear()
    read_reference.cache_clear()


def rate(grader: Callable[[Pair], bool], pairs: list[Pair]) -> float:
    """Grades per CPU-second of this process; what the worker pool burns is added."""
    forget()
    before = time.process_time() + _pool_seconds()
    for pair in pairs:
        grader(pair)
    return len(pairs) / (time.process_time() + _pool_seconds() - before)


def _pool_seconds() -> float:
    """CPU seconds of the worker pool's processes so far."""
    tick = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid in shared_pool().pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


def faults(grader: Callable[[Pair], bool], pairs: list[Pair]) -> dict[str, list[Pair]]:
    pairs_of: dict[str, list[Pair]] = {"refused right": [], "paid wrong": []}
    for pair in pairs:
        verdict = grader(pair)
        if verdict != pair.equal:
            pairs_of["refused right" if pair.equal else "paid wrong"].append(pair)
    return pairs_of


def shown(pairs_of: dict[str, list[Pair]]) -> str:
    parts = []
    for name, pairs in pairs_of.items():
        examples = "; ".join(
            f"`{pair.text[pair.text.find('boxed') + 6 : -3]}` for `{pair.gold}`" for pair in pairs[:12]
        )
        parts.append(f"{len(pairs)} {name}" + (f" ({examples}{' ...' if len(pairs) > 12 else ''})" if pairs else ""))
    return ", ".join(parts)


def hostile_facts() -> dict[str, Any]:
    """Every hostile case graded once: labels missed, exceptions, invalid verdicts, times."""
    cases = rows(ROOT / "tests" / "rewards" / "hostile.jsonl")
    for kind in sorted({case["kind"] for case in cases}):  # imports are not part of a grade
        grade(kind, "", "1", **({"legal": ["1"]} if kind == "action" else {}))
    wrong: Counter[str] = Counter()
    cpu: list[float] = []
    for case in cases:
        text = case["completion"] if "completion" in case else "".join(piece * times for piece, times in case["pieces"])
        start = time.process_time()
        try:
            verdict = grade(case["kind"], text, case["reference"], **case.get("options", {}))
        except Exception:
            wrong["exceptions"] += 1
            continue
        cpu.append(time.process_time() - start)
        wrong["false rewards"] += verdict.reward > case["reward"]
        wrong["refused right answers"] += verdict.reward < case["reward"]
        wrong["invalid verdicts"] += not verdict.valid
        wrong[f"over {LIMIT_SECONDS} s"] += cpu[-1] > LIMIT_SECONDS
    return {
        "hostile cases": len(cases),
        **{f"hostile, {name}": count for name, count in sorted(wrong.items())},
        "hostile, slowest in ms of CPU": round(1000 * max(cpu), 1),
    }


def gsm8k_facts(golds: list[str], answers: list[str]) -> dict[str, Any]:
    right = sum(grade("number", text, gold).reward == 1 for text, gold in zip(answers, golds, strict=True))
    changed = [str(Fraction(gold.replace(",", "")) + 1) for gold in golds]
    paid = sum(grade("number", f"#### {text}", gold).reward != 0 for text, gold in zip(changed, golds, strict=True))
    return {"GSM8K test, gold answers graded 1": f"{right} of {len(golds)}", "GSM8K test, gold + 1 graded 1": paid}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("RLVR_DATA"), help="folder with gsm8k and math500")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    if options.data is None or not (Path(options.data) / "gsm8k" / "test.jsonl").is_file():
        sys.exit("name the folder that holds gsm8k/test.jsonl and math500/test.jsonl with --data or in RLVR_DATA")
    data = Path(options.data)
    golds = gsm8k_golds(data)
    integers, normal, mix = integer_pairs(golds, 200), normal_pairs(), math500_pairs(data)[::3]
    shared_pool().warm()
    theirs(normal[0])
    tables = [
        Table("Integers (200 of GSM8K)", "grades per CPU-second", "rlvr math"),
        Table(f"Normal pairs ({len(normal)})", "grades per CPU-second", "rlvr math"),
        Table(f"MATH-500 ({len(mix)} pairs)", "grades per CPU-second", "rlvr math"),
    ]
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        for table, pairs in zip(tables, (integers, normal, mix), strict=True):
            table.add("rlvr math", rate(ours, pairs))
            if pairs is integers:
                table.add("rlvr number", rate(ours_number, pairs))
            table.add("math-verify", rate(theirs, pairs))
    whole = normal + mix
    facts: dict[str, Any] = {
        "normal pairs, rlvr": shown(faults(ours, normal)),
        "normal pairs, math-verify": shown(faults(theirs, normal)),
        "all pairs of the speed tables, rlvr": shown(faults(ours, integers + whole)),
        "all pairs of the speed tables, math-verify": shown(faults(theirs, integers + whole)),
        **gsm8k_facts(golds, [row["answer"] for row in rows(data / "gsm8k" / "test.jsonl")]),
        **hostile_facts(),
    }
    write_results("grading", tables, facts, options.out)


if __name__ == "__main__":
    main()
