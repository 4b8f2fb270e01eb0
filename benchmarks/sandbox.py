"""The sandbox: what a run costs, whether deadlines hold, and what 1,000 hostile programs leave behind.

    RLVR_DATA=folder python benchmarks/sandbox.py [--rounds 60] [--storm 1000] [--parallel 32]
        [--real-time] [--only sandbox|code|burners] [--out folder]

Tiers that do not hold on this machine are left out. The runs of all contenders take turns, so that a busy machine
slows all of them. With HumanEval under RLVR_DATA (``humaneval/HumanEval.jsonl.gz``) its solutions, and cheats in
their place, are graded too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import gzip
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from rlvr.envs.rewards.graders.code import grade_code
from rlvr.envs.sandbox import Limits, Sandbox, probe
from rlvr.envs.sandbox.probes import NATIVE, probe_tier

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

PROGRAM = "print(sum(i * i for i in range(1000)))"
NEVER_ENDING = {
    "sleep": "import time\ntime.sleep(60)",
    "loop": "while True: pass",
    "regular expression in C": "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
    "daemon that holds the pipe": "import os, time\nif os.fork() == 0: time.sleep(60)\ntime.sleep(60)",
}
FIVE_CHEATS = ("always equal", "expected from frames", "exit in the call", "printed markers", "forged replies")
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")


def milliseconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1e3


def bare() -> None:
    subprocess.run([sys.executable, "-I", "-S", "-c", PROGRAM], capture_output=True, check=True)


def cold(tier: str) -> float:
    """A new sandbox, its supervisor included, to the end of its first program."""
    with contextlib.ExitStack() as stack:
        return milliseconds(lambda: stack.enter_context(Sandbox(tier=tier, parallel=1)).run_python(PROGRAM))


def costs(tiers: list[str], rounds: int) -> list[Table]:
    base = tiers[0]
    starts = Table("cold: a new sandbox to the end of its first program", "milliseconds, lower is better", base)
    runs = Table("warm: one program", "milliseconds, lower is better", base)
    calls = Table("warm: one call", "milliseconds, lower is better", f"{base}, session")
    with contextlib.ExitStack() as stack:
        boxes = {tier: stack.enter_context(Sandbox(tier=tier, parallel=1)) for tier in tiers}
        sessions = {tier: stack.enter_context(box.session()) for tier, box in boxes.items()}
        for box in boxes.values():
            box.run_python(PROGRAM)
        time.sleep(1.0)  # until they have imported what they import when idle
        for number in range(rounds):
            for tier, box in boxes.items():
                runs.add(tier, milliseconds(lambda box=box: box.run_python(PROGRAM)))
                calls.add(f"{tier}, session", milliseconds(lambda tier=tier: sessions[tier].run(PROGRAM)))
            runs.add("no sandbox: python -I -S -c", milliseconds(bare))
            if number < 15:
                for tier in tiers:
                    starts.add(tier, cold(tier))
    return [starts, runs, calls]


def throughput(tier: str, count: int = 300) -> float:
    """Programs per second with one thread for each core."""
    cores = len(os.sched_getaffinity(0))
    with Sandbox(tier=tier, parallel=cores) as box, ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda _: box.run_python(PROGRAM), range(cores * 4)))
        started = time.perf_counter()
        list(pool.map(lambda _: box.run_python(PROGRAM), range(count)))
        return count / (time.perf_counter() - started)


def ticks(root: int) -> float:
    """CPU-seconds of all processes below one, those they have waited for included."""
    total, below, grown, table = 0, {root}, True, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                table[int(entry)] = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
    while grown:
        more = below | {pid for pid, fields in table.items() if int(fields[1]) in below}
        grown, below = more != below, more
    for pid in below & table.keys():
        total += sum(map(int, table[pid][11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def work(tiers: list[str], rounds: int = 5, count: int = 100) -> Table:
    """CPU time, which a busy machine changes little."""
    table = Table("warm: one program, work", "CPU-milliseconds, sandbox and caller together, lower is better", tiers[0])
    with contextlib.ExitStack() as stack:
        boxes = {tier: stack.enter_context(Sandbox(tier=tier, parallel=1)) for tier in tiers}
        for box in boxes.values():
            box.run_python(PROGRAM)
        time.sleep(1.0)
        for _ in range(rounds):
            for tier, box in boxes.items():
                before = ticks(box.supervisor_pid or 0) + time.process_time()
                for _ in range(count):
                    box.run_python(PROGRAM)
                after = ticks(box.supervisor_pid or 0) + time.process_time()
                table.add(tier, (after - before) / count * 1e3)
            before = time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
            for _ in range(count):
                bare()
            after = time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
            table.add("no sandbox: python -I -S -c", (after - before) / count * 1e3)
    return table


def overshoot(tier: str) -> Table:
    table = Table(f"deadline of 1 s on {tier}", "seconds over the limit", "sleep")
    with Sandbox(tier=tier, parallel=1) as box:
        box.run_python("1")
        for _ in range(5):
            for name, code in NEVER_ENDING.items():
                took = milliseconds(lambda code=code: box.run_python(code, limits=Limits(seconds=1.0))) / 1e3
                table.add(name, took - 1.0)
    return table


# --- the storm -------------------------------------------------------------------------------------------


def hostile_programs() -> ModuleType:
    path = Path(__file__).parents[1] / "tests" / "sandbox" / "hostile.py"
    spec = importlib.util.spec_from_file_location("hostile", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is missing: the storm needs the checkout")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Watch:
    """Notes every process that a sandbox has, from outside, to see later which of them still live."""

    def __init__(self, box: Sandbox) -> None:
        self._supervisor, self._seen, self._over = box.supervisor_pid, set(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            table = {}
            for entry in os.listdir("/proc"):
                if entry.isdigit():
                    with contextlib.suppress(OSError):
                        fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                        table[int(entry)] = int(fields[1]), fields[19]
            below, grown = {self._supervisor}, True
            while grown:
                more = below | {pid for pid, (parent, _) in table.items() if parent in below}
                grown, below = more != below, more
            self._seen |= {(pid, table[pid][1]) for pid in below if pid in table}

    def left(self) -> tuple[int, list[int]]:
        """How many were seen, and which of them live: the same number with the same time of birth."""
        self._over.set()
        self._thread.join()
        alive = []
        for pid, born in self._seen:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == born:
                    alive.append(pid)
        return len(self._seen), alive


def names() -> set[str]:
    paths = {f"{folder}/{name}" for folder in FOLDERS for name in os.listdir(folder) if "rlvr" in name}
    return paths | {Path(f"/proc/sysvipc/{kind}").read_text() for kind in ("shm", "msg", "sem")}


def held_mb() -> tuple[float, float]:
    """MiB in shared memory and temporary file systems of the machine, and MiB of this process."""
    gc.collect()
    shared = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("Shmem:"))
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return int(shared.split()[1]) / 1024, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def open_host() -> Iterator[Path]:
    """A folder of the host that anybody may write to, with a canary in it."""
    with tempfile.TemporaryDirectory(prefix="canary-") as folder:
        os.chmod(folder, 0o777)
        canary = Path(folder) / "canary"
        canary.write_text("SECRET-file")
        canary.chmod(0o666)
        yield canary


def storm(tier: str, count: int, parallel: int) -> dict[str, Any]:
    """Grade many hostile programs, and a right one after every tenth, at the same time."""
    hostile = hostile_programs()
    before_names, before_memory = names(), held_mb()
    limit, wrong, slow, honest = 1.0, [], [], 0
    with open_host() as canary, Sandbox(tier=tier, parallel=parallel) as box:
        values = {"@CANARY@": str(canary), "@FOLDER@": str(canary.parent), "@PARENT@": str(os.getpid())}

        def one(number: int) -> tuple[str, Any, float]:
            name = list(hostile.PROGRAMS)[number % len(hostile.PROGRAMS)]
            code = hostile.PROGRAMS[name]
            for word, value in values.items():
                code = code.replace(word, value)
            if number % 10 == 9:
                name, code = "right", hostile.SOLUTION
                return name, grade_code(code, hostile.ROW, seconds=30.0, sandbox=box), 0.0
            limits = {"seconds": limit, "total_seconds": limit}
            verdict = grade_code(f"```python\n{code}\n```", hostile.ROW, sandbox=box, **limits)
            # From the start of the program: the wait for a place before it is the machine's, not the deadline's.
            took = box.run_python(code + hostile.CALL, limits=Limits(seconds=limit)).seconds
            return name, verdict, took - limit

        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(lambda _: box.run_python("1"), range(parallel * 2)))  # all warm
            watch = Watch(box)
            started = time.perf_counter()
            for name, verdict, over in pool.map(one, range(count)):
                if name == "right":
                    honest += verdict.reward == 1.0
                elif verdict.reward != 0.0 or not verdict.valid:
                    wrong.append(f"{name}: {verdict.status}, {verdict.reason}")
                else:
                    slow.append(over)
            took = time.perf_counter() - started
        planted = [path.name for path in canary.parent.iterdir() if path != canary]
        intact = canary.read_text() == "SECRET-file"
    after_memory = held_mb()
    return {
        "programs (each graded, and run once more as a script)": count,
        "in parallel": parallel,
        "seconds": round(took, 1),
        "hostile programs not graded 0": wrong,
        f"right programs graded 1, of {count // 10}": honest,
        "most seconds over the limit": round(max(slow), 3),
        "processes seen, and left": watch.left(),
        "files and segments left": sorted(names() - before_names) + planted,
        "canary intact": intact,
        "MiB left in shared memory": round(after_memory[0] - before_memory[0], 1),
        "MiB that this process has grown": round(after_memory[1] - before_memory[1], 1),
    }


# --- burners ---------------------------------------------------------------------------------------------

BESIDE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
BURNER = "import os\nif os.fork() == 0:\n    while True: pass\n"
SQUARE = "```python\nimport time\ndef f(x):\n    while time.process_time() < 0.05: pass\n    return x * x\n```"


def burners(tier: str, count: int, replies: int = 32, *, outside: bool = False) -> dict[str, Any]:
    """Grade correct replies, a second of their own time for each test, beside burners: children that calls of other
    sessions have left, or (``outside``) processes of the machine, which nothing halts."""
    row = {"entry_point": "f", "tests": [{"args": [n], "expected": n * n} for n in range(4)]}
    with contextlib.ExitStack() as stack:
        box = stack.enter_context(Sandbox(tier=tier))
        for _ in range(count):
            if outside:
                other = subprocess.Popen([sys.executable, "-I", "-S", "-c", BESIDE], start_new_session=True)
                stack.callback(other.wait)
                stack.callback(other.kill)
            else:
                stack.enter_context(box.session()).run(BURNER)
        started = time.perf_counter()
        with ThreadPoolExecutor(4) as pool:
            verdicts = list(pool.map(lambda _: grade_code(SQUARE, row, seconds=1.0, sandbox=box), range(replies)))
        took = time.perf_counter() - started
    states = [verdict.status for verdict in verdicts]
    return {status: states.count(status) for status in sorted(set(states))} | {"seconds": round(took, 1)}


# --- HumanEval -------------------------------------------------------------------------------------------


def humaneval(tier: str, path: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    times, paid, fooled = [], 0, []
    hostile = hostile_programs()
    with Sandbox(tier=tier) as box:
        for row in rows:
            started = time.perf_counter()
            paid += grade_code(row["canonical_solution"], row, sandbox=box).reward == 1.0
            times.append(time.perf_counter() - started)
            for name in FIVE_CHEATS:
                code = hostile.CHEATS[name].replace("def f(n, xs)", f"def {row['entry_point']}(*_, **__)")
                if grade_code(f"```python\n{code}\n```", row, seconds=3.0, sandbox=box).reward != 0.0:
                    fooled.append(f"{row['task_id']}: {name}")
    return {
        "solutions": len(rows),
        "solutions graded 1": paid,
        "cheats graded above 0 (five for each problem)": fooled,
        "milliseconds for each solution, median": round(statistics.median(times) * 1e3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--storm", type=int, default=1000)
    parser.add_argument("--parallel", type=int, default=32)
    parser.add_argument(
        "--real-time", action="store_true", help="measure costs under SCHED_FIFO: other work does not get in between"
    )
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RLVR_DATA", "absent")))
    parser.add_argument("--only", choices=("sandbox", "code", "burners"), help="one of the three pages of results")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    tiers = [tier for tier in NATIVE if probe_tier(tier).holds]
    if not tiers:
        raise SystemExit(str(probe()))
    data = options.data / "humaneval" / "HumanEval.jsonl.gz"
    if options.only in (None, "burners"):
        facts: dict[str, Any] = {f"load on {os.cpu_count()} cores before": os.getloadavg()[0]}
        for tier in tiers:
            for count in (0, 1, 4, 58):
                facts[f"{tier}: 32 correct replies beside {count} burners left by sessions"] = burners(tier, count)
            facts[f"{tier}: the same beside 58 burners of the machine"] = burners(tier, 58, outside=True)
        write_results("burners", [], facts, options.out)
    if options.only in (None, "sandbox"):
        measure(tiers, options)
    if options.only in (None, "code") and data.exists():
        write_results("code", [], {f"{tier}: HumanEval": humaneval(tier, data) for tier in tiers}, options.out)


def measure(tiers: list[str], options: argparse.Namespace) -> None:
    if options.real_time:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    priced = costs(tiers, options.rounds)
    if options.real_time:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    loads = [os.getloadavg()[0]]
    tables = [*priced, work(tiers), *(overshoot(tier) for tier in tiers)]
    loads.append(os.getloadavg()[0])
    facts: dict[str, Any] = {f"load on {os.cpu_count()} cores, after the costs and before the storms": loads}
    for tier in tiers:
        facts[f"{tier}: programs per second, one thread for each core"] = round(throughput(tier))
        facts[f"{tier}: storm"] = storm(tier, options.storm, options.parallel)
    write_results("sandbox", tables, facts, options.out)


if __name__ == "__main__":
    main()
