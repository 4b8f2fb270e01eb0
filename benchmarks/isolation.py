"""Isolation: whether a program finds earlier ones in its memory, what kills change, and what keeping them apart costs.

    python benchmarks/isolation.py [--canaries 10000] [--kills 200] [--rounds 100] [--before checkout] [--out folder]

Canaries are planted in every kind of request, by 1 to 8 threads; after them programs of every form scan their own
memory. ``--before`` names a checkout of another version: its memory is scanned in the same way, and its costs are
measured in turns with ours.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from results import Table, write_results

from rlvr.envs.rewards.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, probe
from rlvr.envs.sandbox.probes import NATIVE, probe_tier

PROGRAM = "print(sum(i * i for i in range(1000)))"
AMPLE = Limits(seconds=120.0)
THREADS = (1, 2, 4, 8)
ROW = {"entry_point": "f", "tests": [{"args": [2], "expected": 4}, {"args": [3], "expected": 6}]}
JUDGED = {"test_list": ["assert f(2) == 4", "assert f(3) == 6"], "entry_point": "f"}
SOLUTION = "import time\ndef f(x):\n    time.sleep(0.05)\n    return 2 * x"
JOBS = [(SOLUTION, ROW, 1.0), (SOLUTION, JUDGED, 1.0), ("def f(x): return x", ROW, 0.0)]


def scanner() -> ModuleType:
    path = Path(__file__).parents[1] / "tests" / "sandbox" / "scan.py"
    spec = importlib.util.spec_from_file_location("scan", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is missing: the scans need the checkout")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- canaries --------------------------------------------------------------------------------------------


def scans(box: Sandbox, scan: ModuleType) -> list[str]:
    """The canaries that programs of each form find: a script, a session, and both kinds of graded programs."""
    script = box.run_python(scan.REPORT, limits=AMPLE)
    if not script.ok:
        raise SystemExit(f"the scan failed: {script.stderr}")
    found = script.stdout.split()[2:]
    with box.session(AMPLE) as session:
        found += session.run(scan.REPORT).stdout.split()[2:]
    code = f"{scan.SCANNER}\ndef f(prefix): return len(scan(prefix)[0])"
    asked = {"entry_point": "f", "tests": [{"args": [scan.PREFIX], "expected": 0}]}
    judged = {"test_list": [f"assert f({scan.PREFIX!r}) == 0"], "entry_point": "f"}
    for row in (asked, judged):
        verdict = grade_code(code, row, sandbox=box, seconds=60.0)
        if verdict.reward != 1.0:
            found.append(f"a graded program: {verdict.reason}")
    return found


def canaries(tier: str, wanted: int) -> dict[str, Any]:
    """Plant and scan in turns, with as many interpreters as there are threads."""
    scan = scanner()
    return {f"{threads} threads": _with_threads(tier, wanted // len(THREADS), threads, scan) for threads in THREADS}


def _with_threads(tier: str, wanted: int, threads: int, scan: ModuleType) -> dict[str, Any]:
    new, found, done = scan.Canaries(), Counter(), 0
    with Sandbox(tier=tier, parallel=threads) as box, ThreadPoolExecutor(threads) as pool:
        while len(new.made) < wanted:
            list(pool.map(lambda _: scan.plant(box, new, slow=False), range(4 * threads)))
            for seen in pool.map(lambda _: scans(box, scan), range(threads)):
                found.update(new.made.get(canary, canary) for canary in seen)
                done += 4
    return {"planted": len(new.made), "scans": done, "found": sum(found.values()), "most": dict(found.most_common(5))}


def control(tier: str) -> str:
    """Canaries in earlier calls of a scan's own session, where they must be found."""
    scan = scanner()
    new = scan.Canaries()
    with Sandbox(tier=tier, parallel=1) as box, box.session(AMPLE) as session:
        for _ in range(100):
            session.run(f"x = {new('call')!r}; del x")
        found = set(session.run(scan.REPORT).stdout.split()[2:])
    return f"{len(found & new.made.keys())} of {len(new.made)}"


# --- kills -----------------------------------------------------------------------------------------------


def table() -> dict[int, tuple[int, str]]:
    """Process -> parent, and when it was born."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    found[int(entry)] = int(fields[1]), fields[19]
    return found


def below(root: int, processes: dict[int, tuple[int, str]]) -> list[set[tuple[int, str]]]:
    """The processes below one by generation, itself first; each with its time of birth."""
    generations, level = [], {root} & processes.keys()
    while level:
        generations.append({(pid, processes[pid][1]) for pid in level})
        level = {pid for pid, (parent, _) in processes.items() if parent in level}
    return generations


def living(seen: set[tuple[int, str]]) -> int:
    now = table()
    return sum(pid in now and now[pid][1] == born for pid, born in seen)


class Killer:
    """Kills parts of a sandbox in turns: the supervisor's two processes, its zygotes, their programs."""

    PARTS = ("supervisor's guardian", "supervisor's worker", "zygote", "program or what it was forked from")

    def __init__(self, box: Sandbox, kills: int) -> None:
        self._box, self._left, self.over = box, kills, threading.Event()
        self.killed, self.seen, self.late = Counter[str](), set[tuple[int, str]](), 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        dice, old = random.Random(7), list[tuple[float, set[tuple[int, str]]]]()
        while self._left and not self.over.wait(0.15):
            while old and time.monotonic() - old[0][0] > 1.0:
                self.late = max(self.late, living(old.pop(0)[1]))
            supervisor = self._box.supervisor_pid
            generations = below(supervisor, table()) if supervisor else []
            if len(generations) < 3:
                continue
            everything = set().union(*generations)
            self.seen |= everything
            number = dice.randrange(4)
            level = generations[number] if number < 3 else generations[-1]
            victim = dice.choice(sorted(level))[0]
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                self.killed[self.PARTS[number]] += 1
                self._left -= 1
                if number < 2:  # with its supervisor all of this has to go
                    old.append((time.monotonic(), everything))


def kills(tier: str, count: int, threads: int = 8) -> dict[str, Any]:
    """Grade right and wrong programs while parts are killed."""
    changed, excused, graded = [], 0, 0
    with Sandbox(tier=tier, parallel=threads) as box, ThreadPoolExecutor(threads) as pool:
        box.run_python("1")
        killer = Killer(box, count)
        while killer.thread.is_alive():
            jobs = JOBS * threads
            for job, verdict in zip(jobs, pool.map(lambda job: _graded(box, job), jobs), strict=True):
                graded += 1
                excused += not verdict.valid
                if verdict.valid and verdict.reward != job[2]:
                    changed.append(f"{verdict.status}: {verdict.reason}")
        works = all(_graded(box, job).reward == job[2] for job in JOBS)
        if box.supervisor_pid:
            killer.seen |= set().union(*below(box.supervisor_pid, table()))
    time.sleep(1.0)
    return {
        "kills": sum(killer.killed.values()), **{f"of these, {part}": n for part, n in killer.killed.items()},
        "graded": graded, "valid verdicts changed": len(changed), "verifier_error": excused,
        "graded rightly afterwards": works, "most processes left 1 s after a supervisor was killed": killer.late,
        "processes seen": len(killer.seen), "of these left 1 s after the end": living(killer.seen),
    }  # fmt: skip


def _graded(box: Sandbox, job: tuple[str, Any, float]) -> Any:
    return grade_code(job[0], job[1], seconds=60.0, total_seconds=120.0, sandbox=box)


# --- costs -----------------------------------------------------------------------------------------------


def serve() -> None:
    """Measure on demand: a line names a tier and what to do, the answer is how many milliseconds it took."""
    with contextlib.ExitStack() as stack:
        boxes = {tier: stack.enter_context(Sandbox(tier=tier, parallel=1)) for tier in NATIVE if probe_tier(tier).holds}
        sessions = {tier: stack.enter_context(box.session()) for tier, box in boxes.items()}
        for line in sys.stdin:
            tier, what = line.split()
            work = boxes[tier].run_python if what == "run" else sessions[tier].run
            started = time.perf_counter()
            work(PROGRAM)
            print((time.perf_counter() - started) * 1e3, flush=True)


def other(checkout: Path, *arguments: str) -> list[str]:
    """This script in the version of another checkout."""
    code = f"import sys; sys.path.insert(0, {str(checkout / 'src')!r}); import runpy; sys.argv = sys.argv[1:]; "
    code += f"sys.path.insert(0, {str(Path(__file__).parent)!r}); runpy.run_path(sys.argv[0], run_name='__main__')"
    return [sys.executable, "-c", code, __file__, *arguments]


def costs(tiers: list[str], rounds: int, before: Path | None) -> list[Table]:
    """Both versions in turns, so that a busy machine slows both."""
    names = {"this version": [sys.executable, __file__, "--serve"]}
    if before is not None:
        names["the version before"] = other(before, "--serve")
    tables = {}
    for tier in tiers:
        for what, text in (("run", "one program"), ("call", "one call of a session")):
            tables[tier, what] = Table(f"{tier}, warm: {text}", "milliseconds, lower is better", "this version")
    with contextlib.ExitStack() as stack:
        servers = {}
        for name, argv in names.items():
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            servers[name] = stack.enter_context(process)

        def ask(name: str, tier: str, what: str) -> float:
            stdin, stdout = servers[name].stdin, servers[name].stdout
            if stdin is None or stdout is None:
                raise SystemExit("a pipe is missing")
            print(tier, what, file=stdin, flush=True)
            return float(stdout.readline())

        for number in range(-5, rounds):  # the first few warm up
            for (tier, what), page in tables.items():
                order = list(servers) if number % 2 else list(reversed(servers))
                took = {name: min(ask(name, tier, what) for _ in range(3)) for name in order}
                if number >= 0:
                    for name in servers:
                        page.add(name, took[name])
    return list(tables.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--canaries", type=int, default=10_000, help="how many are planted on each tier")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--before", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--scan", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.scan:
        print(json.dumps(canaries(options.scan, options.canaries)))
        return
    tiers = [tier for tier in NATIVE if probe_tier(tier).holds]
    if not tiers:
        raise SystemExit(str(probe()))
    tables = costs(tiers, options.rounds, options.before)
    facts: dict[str, Any] = {f"load on {os.cpu_count()} cores, after the costs": os.getloadavg()[0]}
    for tier in tiers:
        facts[f"{tier}: canaries of the scan's own session found (the control)"] = control(tier)
        facts[f"{tier}: canaries of other runs"] = canaries(tier, options.canaries)
        if options.before is not None:
            argv = other(options.before, "--scan", tier, "--canaries", str(options.canaries // 10))
            output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
            facts[f"{tier}: canaries of other runs, the version before"] = json.loads(output)
        facts[f"{tier}: kills"] = kills(tier, options.kills)
    write_results("isolation", tables, facts, options.out)


if __name__ == "__main__":
    main()
