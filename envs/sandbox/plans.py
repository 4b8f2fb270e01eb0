"""How a sandbox of each native tier is started on this machine: interpreter, uid, folders, command line.

A plan is what *should* hold; only the probe (``probes``), which runs hostile code in it, says what does.
"""

from __future__ import annotations

import glob
import os
import pwd
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rlvr.envs.sandbox import bundle, cgroups
from rlvr.envs.sandbox.inside import kernel
from rlvr.envs.sandbox.limits import Tier
from rlvr.envs.sandbox.supervisor import CONFIG, first_closed_folder

_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom"))
_CLOSED = ("--remount-ro", "/", "--chdir", "/")
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/alternatives",
)  # fmt: skip


class Missing(Exception):
    """A tier lacks a piece. ``what`` names it, ``command`` adds it."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(f"{what}; {command}")
        self.what, self.command = what, command


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """Everything the supervisor needs to start one sandbox.

    Attributes:
        workdirs_in: where it gets a folder for its programs (T2 without ``tmpfs``).
        tmpfs: the folder that a mount of its own covers, which its programs may fill (T2); None where none can be made.
        hidden: folders of installed packages that are covered with empty ones (T2 with ``tmpfs``; T3 in its command).
        disk_mb: how much that mount holds, in MiB.
    """

    tier: Tier
    argv: tuple[str, ...]
    drop_uid: bool
    uncover: tuple[str, ...]
    config: dict[str, Any]
    cgroup: tuple[str, ...]
    total_memory_mb: int
    workdirs_in: str | None = None
    tmpfs: str | None = None
    hidden: tuple[str, ...] = ()
    disk_mb: float | None = None
    uid: int | None = None

    def one_more(self, disk_mb: float | None) -> SandboxPlan:
        """The plan of one more sandbox, with a uid of its own where there are any."""
        return replace(self, uid=unused_uid() if self.drop_uid else None, disk_mb=disk_mb)

    def message(self) -> dict[str, Any]:
        """What is sent to the supervisor."""
        return {
            "tier": self.tier, "argv": self.argv, "uid": self.uid, "uncover": self.uncover, "config": self.config,
            "workdirs_in": self.workdirs_in, "tmpfs": self.tmpfs, "hidden": self.hidden, "disk_mb": self.disk_mb,
            "cgroup": self.cgroup, "total_memory_mb": self.total_memory_mb, "total_processes": 512,
        }  # fmt: skip


def make(tier: Tier, packages: tuple[str, ...], total_memory_mb: int, terminals: bool = False) -> SandboxPlan:
    """The plan of a native tier; with ``terminals``, programs find the devices of a terminal.

    Raises:
        Missing: this machine lacks something that can be seen without trying.
    """
    if sys.platform != "linux":
        raise Missing(f"{tier} needs Linux, this is {sys.platform}", "use docker or podman (tier T1)")
    try:
        kernel.seccomp_filter()
    except OSError as error:
        raise Missing(str(error), "use docker or podman (tier T1)") from None
    root = os.geteuid() == 0
    drop = root and unused_uid() is not None
    python, prefix, uncover = _interpreter(drop, packages)
    readable = [] if prefix.startswith("/usr/") else [prefix]
    config: dict[str, Any] = {"tier": tier, "packages": list(packages), "own_uid": drop, "terminals": terminals}
    command = (python, "-s", "-S", "-B", "-X", "utf8", "-c", bundle.BOOT_FROM_DESCRIPTOR, "zygote", CONFIG)
    shared: dict[str, Any] = {
        "drop_uid": drop, "uncover": tuple(uncover), "config": config,
        "cgroup": (*cgroup_parents(), *_share_parents()), "total_memory_mb": total_memory_mb,
    }  # fmt: skip
    if tier == "T3":
        binds = {path: path for path in readable}
        config["packages"] = [f"/packages/{number}" for number in range(len(packages))]
        binds.update(zip(packages, config["packages"], strict=True))
        config["processes"] = terminals and _can_mount_processes()
        processes = ("--proc", "/proc") if config["processes"] else ()
        hidden = [word for path in site_folders(prefix) for word in ("--tmpfs", path, "--remount-ro", path)]
        argv = (*_bubblewrap(binds, terminals), *hidden, *processes, *_CLOSED, *command)
        return SandboxPlan(tier="T3", argv=argv, **shared)
    _require_landlock(drop)
    devices = [*_DEVICES, *([kernel.TERMINAL] if terminals else [])]
    config.update(readable=[*_SYSTEM, *readable, *packages], devices=devices)
    tmpfs = _coverable_folder(config["readable"]) if can_mount() else None
    workdirs_in = None if tmpfs else _scratch_parent(drop)
    hidden = [
        path
        for path in (site_folders(prefix) if tmpfs else ())
        if not any(f"{p}/".startswith(f"{path}/") for p in packages)
    ]
    return SandboxPlan(tier="T2", argv=command, workdirs_in=workdirs_in, tmpfs=tmpfs, hidden=tuple(hidden), **shared)


def site_folders(prefix: str) -> list[str]:
    """Where packages are installed in what programs may read: they find the standard library alone, everywhere."""
    readable = (prefix, "/usr")
    patterns = (f"{root}/lib*/python3*/*-packages" for root in (*readable, "/usr/local"))
    listed = [*sys.path, *(folder for pattern in patterns for folder in glob.glob(pattern))]
    folders = {os.path.realpath(path) for path in listed if path.endswith("-packages") and os.path.isdir(path)}
    return sorted(path for path in folders if path.startswith(tuple(f"{root}/" for root in readable)))


def _coverable_folder(readable: list[str]) -> str | None:
    """A folder for temporary files in which nothing is that programs read: ``/tmp``, where some insist on writing."""
    return next((f for f in ("/tmp", "/var/tmp") if not any(p.startswith(f"{f}/") for p in readable)), None)


def _scratch_parent(drop: bool) -> str:
    """The temporary folder, or another one if an unused uid could not pass through it."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        if os.access(folder, os.W_OK) and not (drop and first_closed_folder(os.path.realpath(folder))):
            return os.path.realpath(folder)
    raise Missing("T2 needs a temporary folder that other users can pass through", "chmod 1777 /tmp")


@cache
def cgroup_parents() -> list[str]:
    return cgroups.find()


@cache
def _share_parents() -> list[str]:
    return cgroups.find_shares(cgroup_parents())


def _require_landlock(drop: bool) -> None:
    version = kernel.landlock_version()
    if version < 1:
        raise Missing(
            "T2 needs Landlock, which this kernel does not have or has switched off",
            "boot Linux 6.12 or newer with `lsm=landlock,...`",
        )
    if version < 6 and not drop:
        raise Missing(
            f"T2 needs Landlock ABI 6 (this kernel has {version}): before it a program may send signals to us",
            "boot Linux 6.12 or newer, or run as root so that programs get a uid of their own",
        )


def _bubblewrap(binds: dict[str, str], terminals: bool = False) -> list[str]:
    """The command line, but for ``_CLOSED`` and the program."""
    binary = shutil.which("bwrap") or shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if binary is None:
        raise Missing("T3 needs bubblewrap (`bwrap`)", "apt-get install bubblewrap (dnf, pacman: the same name)")
    # Not --new-session: the supervisor has a session without a terminal already, and the filter refuses TIOCSTI.
    argv = [
        os.path.realpath(binary), "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent",
        "--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--info-fd", "5",
        "--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN",
    ]  # fmt: skip
    argv += ["--dir", "/etc"]
    for path in _SYSTEM:
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            argv += ["--ro-bind", path, path]
    for source, target in binds.items():
        argv += ["--ro-bind", source, target]
    argv += ["--dir", "/tmp", "--dir", "/dev/shm"]
    for path in (*_DEVICES, *([kernel.TERMINAL] if terminals else [])):
        argv += ["--dev-bind", path, path]
    if terminals:
        argv += ["--dir", "/dev/pts", "--symlink", "pts/ptmx", "/dev/ptmx"]
    return argv


@cache
def _can_mount_processes() -> bool:
    """Whether a sandbox may have a /proc; containers that hide parts of their own forbid it. Tried."""
    argv = _bubblewrap({})
    info = argv.index("--info-fd")
    argv = [*argv[:info], *argv[info + 2 :], "--proc", "/proc", *_CLOSED, "true"]
    tried = subprocess.run(argv, capture_output=True, check=False, user=unused_uid() if os.geteuid() == 0 else None)
    return tried.returncode == 0


# --- the interpreter -------------------------------------------------------------------------------------


def _interpreter(drop: bool, packages: tuple[str, ...]) -> tuple[str, str, list[str]]:
    """A Python for the sandbox, its folder, and the folders that must be uncovered for another uid."""
    executable = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    prefix = os.path.realpath(sys.base_prefix)
    if not drop:
        return executable, prefix, []
    for path in (prefix, *packages):
        if os.stat(path).st_mode & 0o005 != 0o005:
            raise Missing(f"programs get a uid of their own, and {path} is closed to others", f"chmod -R o+rX {path}")
    closed = [path for path in (prefix, *packages) if first_closed_folder(path) is not None]
    if not closed or can_mount():
        return executable, prefix, closed
    if closed == [prefix] or prefix not in closed:
        for candidate in ("/usr/local/bin/python3", "/usr/bin/python3"):
            real = os.path.realpath(candidate)
            if os.access(real, os.X_OK) and first_closed_folder(os.path.dirname(real)) is None:
                return real, os.path.dirname(os.path.dirname(real)), []
    raise Missing(
        f"an unused uid cannot reach {closed[0]}, because {first_closed_folder(closed[0])} is closed to others",
        f"chmod o+x {first_closed_folder(closed[0])}, or install a system python3",
    )


@cache
def can_mount() -> bool:
    """Whether a mount namespace can be made here, and something mounted in it; tried in a process of its own, for
    containers often forbid it."""
    code = Path(kernel.__file__).read_text(encoding="utf-8")
    code += "\nenter_mount_namespace()\nmount_read_only()\nmount_tmpfs('/tmp', 1)"
    tried = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=False)
    return tried.returncode == 0


# --- the uid ---------------------------------------------------------------------------------------------


def unused_uid() -> int | None:
    """A uid that is mapped here, has no account and runs nothing; None where there is only our own."""
    low, high = 200_000, 1 << 30
    ranges = _mapped()
    if not any(start <= low and high <= end for start, end in ranges):
        low, high = 61_184, 65_519  # the range systemd keeps for such users
        if not any(start <= low and high <= end for start, end in ranges):
            return None
    busy = _busy_uids()
    for _ in range(100):
        uid = random.SystemRandom().randrange(low, high)
        if uid not in busy and not _has_account(uid):
            return uid
    return None


def _mapped() -> list[tuple[int, int]]:
    try:
        with open("/proc/self/uid_map") as file:
            rows = [list(map(int, line.split())) for line in file]
    except OSError:
        return []
    return [(inside, inside + count) for inside, _, count in rows]


def _busy_uids() -> set[int]:
    busy = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                busy.add(os.stat(f"/proc/{entry}").st_uid)
            except OSError:
                continue
    return busy


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
