"""What really holds on this machine: each tier is started, and a hostile program tries it from inside.

Looking for binaries or kernel versions would only tell what should hold. The result is kept for the life of
the process. ``rlvr doctor`` prints it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, replace

from rlvr.envs.sandbox import plans
from rlvr.envs.sandbox.direct import DEFAULT_IMAGE, ContainerBackend, engines
from rlvr.envs.sandbox.limits import Limits, Result, SandboxError, SandboxUnavailable, Tier
from rlvr.envs.sandbox.native import NativeBackend

NATIVE: tuple[Tier, ...] = ("T3", "T2")
TIERS: tuple[Tier, ...] = ("T3", "T2", "T1")
MEANING = {
    "T3": "bubblewrap namespaces, seccomp, resource limits",
    "T2": "Landlock, seccomp, resource limits",
    "T1": "a container for each run (docker or podman)",
    "T0": "none: code environments refuse to start",
}
_PROBE_LIMITS = Limits(seconds=20.0, processes=8, memory_mb=256, disk_mb=4)

# Every line of its output is the name of a check that holds.
_HOSTILE = r"""
import json, os, sys, signal, socket, ctypes
canary, parent, forks, container = json.loads(sys.stdin.read())
libc = ctypes.CDLL(None, use_errno=True)
def refused(what):
    try:
        return what() is False
    except (OSError, MemoryError, ValueError):
        return True
def written(path):
    with open(path, "w") as file:
        file.write("x")
def attach(pid):
    return libc.ptrace(16, pid, 0, 0) == 0
def namespaces():
    return libc.unshare(0x10000000) == 0
def storm():
    made = 0
    for _ in range(forks + 8):
        try:
            pid = os.fork()
        except OSError:
            return made <= forks
        if pid == 0:
            signal.pause()
        made += 1
    return False
checks = {
    "runs programs": True,
    "host files cannot be read": refused(lambda: open(canary).close()),
    "/etc/passwd of the host cannot be read": container or refused(lambda: open("/etc/passwd").close()),
    "nothing outside can be written": all(refused(lambda: written(p)) for p in
        ("/usr/rlvr-probe", os.path.dirname(canary) + "/rlvr-probe", *([] if container else ["/var/tmp/rlvr-probe"]))),
    "no network": refused(lambda: socket.create_connection(("127.0.0.1", 22), 0.2))
        and refused(lambda: socket.socket(socket.AF_UNIX).connect("/run/systemd/notify")),
    "other processes cannot be signalled": refused(lambda: os.kill(parent, 0)) or parent == os.getpid(),
    "other processes cannot be traced": refused(lambda: attach(parent)) and refused(lambda: attach(os.getppid())),
    "no new namespaces": refused(namespaces),
    "memory is limited": refused(lambda: len(bytearray(2 << 30)) and None),
    "the environment is clean": set(os.environ) <= {"PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE", "HOSTNAME",
        "PYTHONHASHSEED"},
    "the number of processes is limited": storm(),
}
print("\n".join(name for name, held in checks.items() if held))
print("checks", len(checks))
"""


@dataclass(frozen=True, slots=True)
class TierReport:
    """What became of one tier."""

    tier: Tier
    holds: bool
    checks: tuple[str, ...] = ()
    reason: str = ""
    remedy: str = ""
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The tier that programs will run in here, and why.

    Attributes:
        tier: the strongest that holds; ``T0`` if none does.
        tiers: what became of each, strongest first.
        cgroup: whether the memory of a whole sandbox can be bounded.
        notes: what is weaker than it could be.
    """

    tier: Tier
    tiers: tuple[TierReport, ...]
    cgroup: bool
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"sandbox: {self.tier} ({MEANING[self.tier]})"]
        for report in self.tiers:
            lines.append(f"  {report.tier} {'holds' if report.holds else 'does not hold'}: {MEANING[report.tier]}")
            if report.holds:
                lines.append(f"     tried from inside, {len(report.checks)} checks: " + "; ".join(report.checks))
            else:
                lines.append(f"     missing: {report.reason}")
                lines.append(f"     to add it: {report.remedy}")
        lines.append(f"  memory of a whole sandbox: {'bounded by a control group' if self.cgroup else _UNBOUNDED}")
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)


_UNBOUNDED = "no control group can be made here, so the bound is memory_mb for each of its processes"
_lock = threading.Lock()
_known: dict[tuple[Tier, str], TierReport] = {}


def probe(image: str = DEFAULT_IMAGE, *, again: bool = False) -> Report:
    """Try every tier on this machine.

    Args:
        image: container image to try T1 with.
        again: forget what was found before.
    """
    if again:
        with _lock:
            _known.clear()
    reports = tuple(probe_tier(tier, image) for tier in TIERS)
    tier: Tier = next((report.tier for report in reports if report.holds), "T0")
    notes = []
    if os.name == "posix" and os.geteuid() == 0 and sys.platform == "linux" and plans.unused_uid() is None:
        notes.append("running as root without a second uid: process limits do not bind root")
    return Report(tier, reports, sys.platform == "linux" and bool(plans.cgroup_parents()), tuple(notes))


def doctor() -> str:
    """The report of ``probe`` as text, for the command line."""
    return str(probe(again=True))


def require(tier: str = "auto", image: str = DEFAULT_IMAGE) -> Tier:
    """The tier to use.

    Raises:
        SandboxUnavailable: none holds, or not the one demanded.
    """
    wanted = TIERS if tier == "auto" else tuple(t for t in TIERS if t == tier)
    reports = []
    for name in wanted:
        report = probe_tier(name, image)
        if report.holds:
            return name
        reports.append(report)
    what = "no sandbox tier holds on this machine" if tier == "auto" else f"sandbox tier {tier} does not hold here"
    lines = [f"{what}, so programs of a model will not be run."]
    lines += [f"  {r.tier} ({MEANING[r.tier]}) lacks: {r.reason}\n     add it: {r.remedy}" for r in reports]
    lines.append(
        "`rlvr doctor` shows all checks. Sandbox(unsafe_local=True) runs programs with all your rights; type it "
        "only for programs you wrote."
    )
    raise SandboxUnavailable("\n".join(lines))


def probe_tier(tier: Tier, image: str = DEFAULT_IMAGE) -> TierReport:
    """Try one tier; the answer is kept."""
    with _lock:
        key = (tier, image if tier == "T1" else "")
        if key not in _known:
            _known[key] = _try_container(image) if tier == "T1" else _try_native(tier)
        return _known[key]


def _try_native(tier: Tier) -> TierReport:
    try:
        backend = NativeBackend(plans.make(tier, (), 1024), 1)
    except plans.Missing as missing:
        return TierReport(tier, False, (), missing.what, missing.command)
    try:
        return _attack(tier, backend)
    except (SandboxError, OSError) as error:
        return TierReport(tier, False, (), str(error), _REMEDY[tier])
    finally:
        backend.close()


_REMEDY: dict[str, str] = {
    "T3": "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 "
    "kernel.apparmor_restrict_unprivileged_userns=0 (in docker: --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined)",
    "T2": "boot Linux 6.12 or newer with Landlock switched on (lsm=landlock,...)",
    "T1": "start the engine's service (systemctl start docker), then: docker pull {image}",
}


def _try_container(image: str) -> TierReport:
    remedy, reasons = _REMEDY["T1"].format(image=image), []
    for engine in engines():
        try:
            report = _attack("T1", ContainerBackend(engine, image))
        except (SandboxError, OSError) as error:
            reasons.append(str(error))
            continue
        if report.holds:
            return replace(report, engine=engine)
        reasons.append(f"{engine}: {report.reason}")
    if not reasons:
        return TierReport("T1", False, (), "neither docker nor podman is installed", "install one, then " + remedy)
    return TierReport("T1", False, (), "; ".join(reasons), remedy)


def _attack(tier: Tier, backend: NativeBackend | ContainerBackend) -> TierReport:
    """Run the hostile program in a tier; it holds if every check does, and nothing was left behind."""
    limits = _PROBE_LIMITS
    with tempfile.TemporaryDirectory(prefix="rlvr-canary-") as folder:
        canary = os.path.join(folder, "canary")
        with open(canary, "w") as file:
            file.write("a secret")
        os.chmod(folder, 0o755)
        os.chmod(canary, 0o644)
        # A container has an /etc and a /var/tmp of its own.
        stdin = json.dumps([canary, os.getpid(), limits.processes, tier == "T1"]).encode()
        result = _run(backend, _HOSTILE, stdin, limits)
        again = _run(backend, "import os; print(os.listdir('.'))", b"", limits)
    lines = result.stdout.splitlines()
    if not result.ok or not lines or not lines[-1].startswith("checks "):
        printed = (result.stderr.strip().splitlines() or ["nothing"])[-1]
        return TierReport(
            tier, False, (), f"the probe ended with {result.status} and printed: {printed[:300]}", _REMEDY[tier]
        )
    held = tuple(lines[:-1])
    missed = int(lines[-1].removeprefix("checks ")) - len(held)
    if missed:
        names = [name for name in _names() if name not in held]
        return TierReport(tier, False, held, "from inside it was found that not: " + "; ".join(names), _REMEDY[tier])
    if again.stdout.strip() not in ("[]", "['main.py']"):
        return TierReport(tier, False, held, "a run finds files of the one before", _REMEDY[tier])
    return TierReport(tier, True, (*held, "a new run finds an empty folder"))


def _names() -> list[str]:
    """The names of the checks, as the hostile program writes them."""
    names = []
    for line in _HOSTILE.splitlines():
        with contextlib.suppress(ValueError):
            name, _, rest = line.strip().partition(": ")
            if rest and name.startswith('"'):
                names.append(json.loads(name))
    return names


def _run(backend: NativeBackend | ContainerBackend, code: str, stdin: bytes, limits: Limits) -> Result:
    request = {"mode": "script", "code": code, **asdict(limits)}
    with backend.start(request, stdin, limits, None) as running:
        return running.wait()
