"""Isolation: whether a program finds earlier ones in its memory, what kills change, and what keeping them apart costs.

    python benchmarks/isolation.py [--canaries 200000] [--kills 200] [--rounds 100] [--before checkout] [--out folder]
        [--resume] [--only canaries,kills,costs]

Canaries are planted in every kind of request, by 1 to 8 threads; after them programs of every form scan their own
memory. ``--before`` names a checkout of another version: its memory is scanned in the same way, and its costs are
measured in turns with ours. Each part is written as it ends, to ``isolation.parts.json``; ``--resume`` takes those that
are there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym

from rlvr.envs.sandbox import Limits, Sandbox, probe
from rlvr.envs.sandbox.probes import NATIVE, probe_tier
from rlvr.envs.vector import VectorEnv

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

try:
    from rlvr.envs.rewards.graders.code import grade_code
except ModuleNotFoundError:  # a version before, where graders had no folder
    grade_code = importlib.import_module("rlvr.envs.rewards.code").grade_code

PROGRAM = "print(sum(i * i for i in range(1000)))"
AMPLE = Limits(seconds=120.0)
THREADS = (1, 2, 4, 8)
VECTOR_ENV = "rlvr/Countdown-v0"
COSTS = (("run", "one program"), ("call", "one call of a session"))
KILLS_AT_ONCE, ROUNDS_AT_ONCE = 50, 20  # of one part, which is written when it ends
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
    matches = script.stdout.split()[2:]
    with box.session(AMPLE) as session:
        matches += session.run(scan.REPORT).stdout.split()[2:]
    code = f"{scan.SCANNER}\ndef f(prefix): return len(scan(prefix)[0])"
    asked = {"entry_point": "f", "tests": [{"args": [scan.PREFIX], "expected": 0}]}
    judged = {"test_list": [f"assert f({scan.PREFIX!r}) == 0"], "entry_point": "f"}
    for row in (asked, judged):
        verdict = grade_code(code, row, sandbox=box, seconds=60.0)
        if verdict.reward != 1.0:
            matches.append(f"a graded program: {verdict.reason}")
    return matches


def plant_at_length(box: Sandbox, new: Any) -> None:
    """Requests that are longer than a scan's own, so that the scan does not overwrite all that they may have left."""
    for size in (3000, 300):
        canary_lines = "".join(f"{new('long input')}\n" for _ in range(size // 10))
        program = "\n".join(f"# {new('long program')}" for _ in range(size))
        box.run_python(program, canary_lines, {"given": "".join(f"{new('long file')}\n" for _ in range(size // 10))})


def canaries(tier: str, wanted: int, threads: int) -> dict[str, Any]:
    """Plant and scan in turns, with as many interpreters as there are threads."""
    scan = scanner()
    new, counts, done = scan.Canaries(), Counter[str](), 0
    with Sandbox(tier=tier, parallel=threads) as box, ThreadPoolExecutor(threads) as pool:
        while len(new.made) < wanted:
            list(pool.map(lambda _: scan.plant(box, new, slow=False), range(4 * threads)))
            list(pool.map(lambda _: plant_at_length(box, new), range(2 * threads)))
            for matches in pool.map(lambda _: scans(box, scan), range(threads)):
                counts.update(new.made.get(canary, canary) for canary in matches)
                done += 4
    return {"planted": len(new.made), "scans": done, "found": sum(counts.values()), "most": dict(counts.most_common(5))}


def control(tier: str) -> str:
    """Canaries in earlier calls of a scan's own session, where they must be found."""
    scan = scanner()
    new = scan.Canaries()
    with Sandbox(tier=tier, parallel=1) as box, box.session(AMPLE) as session:
        for _ in range(100):
            session.run(f"x = {new('call')!r}; del x")
        matches = set(session.run(scan.REPORT).stdout.split()[2:])
    return f"{len(matches & new.made.keys())} of {len(new.made)}"


# --- kills -----------------------------------------------------------------------------------------------


def table() -> dict[int, tuple[int, str]]:
    """Process -> parent, and when it was born."""
    rows = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    rows[int(entry)] = int(fields[1]), fields[19]
    return rows


def below(root: int, processes: dict[int, tuple[int, str]]) -> list[set[tuple[int, str]]]:
    """The processes below one by generation, itself first; each with its time of birth."""
    generations, level = [], {root} & processes.keys()
    while level:
        generations.append({(pid, processes[pid][1]) for pid in level})
        level = {pid for pid, (parent, _) in processes.items() if parent in level}
    return generations


def living(processes: set[tuple[int, str]]) -> int:
    now = table()
    return sum(pid in now and now[pid][1] == born for pid, born in processes)


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
        "graded": graded, "valid verdicts changed": len(changed), "how": changed[:5], "invalid": excused,
        "graded rightly afterwards": works, "most processes left 1 s after a supervisor was killed": killer.late,
        "processes seen": len(killer.seen), "of these left 1 s after the end": living(killer.seen),
    }  # fmt: skip


def _graded(box: Sandbox, job: tuple[str, Any, float]) -> Any:
    return grade_code(job[0], job[1], seconds=60.0, total_seconds=120.0, sandbox=box)


class VectorKiller:
    """Kills parts of a vector environment in turns: its supervisor, its fork server, its workers."""

    PARTS = ("vector: supervisor", "vector: fork server", "vector: worker")

    def __init__(self, kills: int) -> None:
        self._left, self.killed, self.late, self.seen = kills, Counter[str](), 0, set[tuple[int, str]]()
        self.own = {pid for generation in below(os.getpid(), table()) for pid, _ in generation}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        dice, old = random.Random(11), list[tuple[float, set[tuple[int, str]]]]()
        while self._left:
            time.sleep(0.1 + 0.3 * dice.random())
            while old and time.monotonic() - old[0][0] > 1.0:
                self.late = max(self.late, living(old.pop(0)[1]))
            generations = [g - {each for each in g if each[0] in self.own} for g in below(os.getpid(), table())[1:]]
            if len(generations) < 3 or not all(generations[:3]):
                continue
            self.seen |= set().union(*generations)
            number = dice.randrange(3)
            victim = dice.choice(sorted(generations[number]))
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim[0], signal.SIGKILL)
                self.killed[self.PARTS[number]] += 1
                self._left -= 1
                if number < 2:  # the workers go with it
                    old.append((time.monotonic(), {victim, *generations[2]}))


def vector_kills(count: int, width: int = 8) -> dict[str, Any]:
    """Step right and wrong answers through worker processes while parts are killed; the same in one process decides
    what is right."""
    changed, excused, stepped = 0, 0, 0
    with contextlib.ExitStack() as stack:
        twin, vector = (
            stack.enter_context(contextlib.closing(VectorEnv(VECTOR_ENV, width, backend=backend, **settings)))
            for backend, settings in (("sync", {}), ("process", {"workers": width // 2}))
        )
        killer, seed = VectorKiller(count), 0
        while killer.thread.is_alive():
            seed += 1
            twin.reset(seed=seed)
            try:
                vector.reset(seed=seed)
            except gym.error.Error:  # all its workers have been killed
                excused += width
                continue
            solved = twin.call("solve")
            actions = [solved[index] if index % 2 else r"\boxed{1}" for index in range(width)]
            wanted, got = (each.step(actions)[4].rows for each in (twin, vector))
            for right, row in zip(wanted, got, strict=True):
                stepped += 1
                verdict = row.get("verdict")
                if verdict is None or not verdict.valid:
                    excused += 1
                elif (verdict.status, verdict.reward) != (right["verdict"].status, right["verdict"].reward):
                    changed += 1
    time.sleep(1.0)
    return {
        "kills": sum(killer.killed.values()), **{f"of these, {part}": n for part, n in sorted(killer.killed.items())},
        "graded": stepped, "valid verdicts changed": changed, "invalid": excused,
        "most processes left 1 s after a supervisor or fork server was killed": killer.late,
        "processes seen": len(killer.seen), "of these left 1 s after the end": living(killer.seen),
    }  # fmt: skip


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


def costs(tiers: list[str], rounds: int, before: Path | None) -> list[list[dict[str, list[float]]]]:
    """Both versions in turns, so that a busy machine slows both: for each tier, runs and calls of either version."""
    names = {"this version": [sys.executable, __file__, "--serve"]}
    if before is not None:
        names["the version before"] = other(before, "--serve")
    took: dict[tuple[str, str], dict[str, list[float]]] = {
        (tier, what): {name: [] for name in names} for tier in tiers for what, _ in COSTS
    }
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
            for (tier, what), page in took.items():
                order = list(servers) if number % 2 else list(reversed(servers))
                for name in order:
                    fastest = min(ask(name, tier, what) for _ in range(3))
                    if number >= 0:
                        page[name].append(fastest)
    return [[took[tier, what] for what, _ in COSTS] for tier in tiers]


class Parts:
    """Results of the parts of a measurement, in a file that is written as each part ends.

    Args:
        path: the file.
        resume: take what is there.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self.done: dict[str, Any] = json.loads(path.read_text()) if resume and path.exists() else {}

    def __call__(self, name: str, measure: Callable[[], Any]) -> None:
        if name not in self.done:
            self.done[name] = measure()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self.done, indent=1) + "\n")
            new.replace(self._path)
            print(f"{time.strftime('%H:%M:%S')} {name}: {str(self.done[name])[:300]}", flush=True)


def measure_all(parts: Parts, tiers: list[str], options: argparse.Namespace) -> None:
    """All parts, the small ones of each kind in turns over the tiers."""
    only = options.only.split(",")
    if "costs" in only:
        for block in range(0, options.rounds, ROUNDS_AT_ONCE):
            parts(f"costs {block}", lambda: costs(tiers, ROUNDS_AT_ONCE, options.before))
        parts("load", lambda: os.getloadavg()[0])
    if "kills" in only:
        for block in range(0, options.kills, KILLS_AT_ONCE):
            for tier in tiers:
                parts(f"kills {tier} {block}", lambda tier=tier: kills(tier, KILLS_AT_ONCE))  # type: ignore[misc]
        for block in range(0, options.kills, KILLS_AT_ONCE):
            parts(f"kills vector {block}", lambda: vector_kills(KILLS_AT_ONCE))
    if "canaries" in only:
        for tier in tiers:
            parts(f"control {tier}", lambda tier=tier: control(tier))  # type: ignore[misc]
        for threads in THREADS:
            for tier in tiers:
                share = options.canaries // len(THREADS)
                parts(f"canaries {tier} {threads}", lambda t=tier, n=threads, s=share: canaries(t, s, n))  # type: ignore[misc]
        for tier in tiers if options.before is not None else ():
            argv = other(options.before, "--scan", tier, "--canaries", str(options.canaries // 20))
            parts(f"before {tier}", lambda argv=argv: json.loads(_output_of(argv)))  # type: ignore[misc]


def _output_of(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def report(done: dict[str, Any], tiers: list[str]) -> tuple[list[Table], dict[str, Any]]:
    """Tables and facts from the parts that there are."""
    tables = []
    for row, tier in enumerate(tiers):
        for column, (_, text) in enumerate(COSTS):
            table = Table(f"{tier}, warm: {text}", "milliseconds, lower is better", "this version")
            for block in (value for name, value in done.items() if name.startswith("costs")):
                for version, values in block[row][column].items():
                    table.rounds.setdefault(version, []).extend(values)
            if table.rounds:
                tables.append(table)
    facts: dict[str, Any] = {}
    if "load" in done:
        facts[f"load on {os.cpu_count()} cores, after the costs"] = done["load"]
    for tier in (*tiers, "vector"):
        blocks = [value for name, value in done.items() if name.startswith(f"kills {tier}")]
        if blocks:
            facts[f"{tier}: kills"] = {key: _together(key, [block.get(key, 0) for block in blocks]) for key in
                                       dict.fromkeys(key for block in blocks for key in block)}  # fmt: skip
    for tier in tiers:
        if f"control {tier}" in done:
            facts[f"{tier}: canaries of the scan's own session found (the control)"] = done[f"control {tier}"]
        scans_of = {name: value for name, value in done.items() if name.startswith(f"canaries {tier}")}
        if scans_of:
            facts[f"{tier}: canaries of other runs, found of planted"] = "{} of {}".format(
                *(sum(value[key] for value in scans_of.values()) for key in ("found", "planted"))
            )
        for name, value in scans_of.items():
            facts[f"{tier}: canaries of other runs, {name.rpartition(' ')[2]} threads"] = value
        if f"before {tier}" in done:
            facts[f"{tier}: canaries of other runs, the version before, 1 thread"] = done[f"before {tier}"]
    return tables, facts


def _together(key: str, values: list[Any]) -> Any:
    """One figure for all blocks: whether all are true, the largest, or the sum."""
    if isinstance(values[0], bool):
        return all(values)
    return max(values) if key.startswith("most ") else sum(values, [] if isinstance(values[0], list) else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--canaries", type=int, default=200_000, help="how many are planted on each tier")
    parser.add_argument("--kills", type=int, default=200, help="on each tier, and of parts of a vector environment")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--before", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--only", default="costs,kills,canaries", help="what to measure")
    parser.add_argument("--resume", action="store_true", help="take the parts that were measured before")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--scan", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.scan:
        print(json.dumps(canaries(options.scan, options.canaries, 1)))
        return
    tiers = [tier for tier in NATIVE if probe_tier(tier).holds]
    if not tiers:
        raise SystemExit(str(probe()))
    parts = Parts(options.out / "isolation.parts.json", resume=options.resume)
    measure_all(parts, tiers, options)
    write_results("isolation", *report(parts.done, tiers), options.out)


if __name__ == "__main__":
    main()
