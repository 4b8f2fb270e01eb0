"""The kernel's own locks, reached with ctypes alone: seccomp, Landlock, namespaces, capabilities, limits.

This file is also loaded inside the sandbox, where nothing but the standard library exists, so it
imports nothing of ours. x86-64 and arm64 Linux; anything else raises ``OSError`` and the tier is not offered.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
import struct
from collections.abc import Iterable, Sequence

_TIOCGPTPEER = 0x5441
TERMINAL = "/dev/tty"  # the terminal of whoever opens it; the one device that needs ioctl
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
CLONE_NEW_ANY = 0x7E020000  # every CLONE_NEW* bit of clone(2); NEWTIME exists only for clone3 and unshare
MS_NOSUID, MS_NOSUID_NODEV, MS_BIND_REC, MS_PRIVATE_REC = 0x2, 0x6, 0x5000, 0x44000

_MOUNT_ATTR_RDONLY, _AT_FDCWD, _AT_RECURSIVE = 1, -100, 0x8000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_CAP_AMBIENT = 38, 22, 36, 47

# name -> (x86-64, arm64); None where the architecture never had the call.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "move_pages": (279, 239),
    "migrate_pages": (256, 238), "mbind": (237, 235), "set_mempolicy": (238, 237),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "move_mount": (429, 429), "open_tree": (428, 428), "mount_setattr": (442, 442),
    "unshare": (272, 97), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116),
    "vhangup": (153, 58), "quotactl": (179, 60), "quotactl_fd": (443, 443), "personality": (135, 92),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "uselib": (134, None), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "lookup_dcookie": (212, 18),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "socket": (41, 198),
    "setpriority": (141, 140), "sched_setattr": (314, 274), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setaffinity": (203, 122), "ioprio_set": (251, 30),
}  # fmt: skip

# Without a mount namespace these would tell the names of the host's files as they change: Landlock has no say in them.
_WATCHING: dict[str, tuple[int | None, int | None]] = {
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
}  # fmt: skip
# Without a namespace of its own a program must not leave its process group (that is how it is found and killed).
_LEAVING = {"setsid": (112, 157), "setpgid": (109, 154)}
# Landlock does not rule over these: with them a program could change files that it cannot open. The first need
# the file's owner, the others no more than the right to write to it.
_OWNERS: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
}  # fmt: skip
_WRITERS: dict[str, tuple[int | None, int | None]] = {
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}  # fmt: skip

_BLOCK = 12
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_CLONE, _PRLIMIT64, _IOCTL, _FCNTL, _SETRLIMIT = (56, 220), (302, 261), (16, 29), (72, 25), (160, 164)
# These "do not exist": programs have another way. clone3 hides its flags behind a pointer, for one. The files of
# memfd_create are memory that no limit counts. A timer of timer_create may wake what we have halted (SIGCONT).
_ABSENT = {"clone3": (435, 435), "memfd_create": (319, 279), "timer_create": (222, 107)}
_FALLOCATE, _EOPNOTSUPP = (285, 47), 95
# kill, tkill and rt_sigqueueinfo name whom they signal first; tgkill and rt_tgsigqueueinfo second.
_SIGNALLING = ([(62, 129), (200, 130), (129, 138)], [(234, 131), (297, 240)])
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def open_terminal() -> tuple[int, int, int]:
    """A pseudo-terminal: its master, its slave, and the slave once more to look at without waiting (or -1)."""
    master, slave = os.openpty()
    try:
        watch = fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a kernel before 4.13
        watch = -1
    return master, slave, watch


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)


def _column() -> tuple[int, int]:
    """Which column of the tables is ours, and the audit number of the architecture."""
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(f"no system call table for {machine!r}; known are {sorted(_ARCHITECTURES)}")
    return _ARCHITECTURES[machine]


# --- seccomp ---------------------------------------------------------------------------------------------


def seccomp_filter(
    *, without_namespaces: bool = False, read_only: bool = True, own_uid: bool = True, allow_own_limits: bool = False
) -> bytes:
    """A classic BPF program that refuses the calls above with EPERM and allows the rest.

    Args:
        without_namespaces: also refuse to leave the process group and to watch folders.
        read_only: False if the program writes to the host's disk; then changing times and extended attributes and
            reserving space are refused as well.
        own_uid: False if besides the program shares its uid with the user; then chmod and chown are refused as well.
        allow_own_limits: a program may give itself any limit, of processor time too, for it cannot end as killed by
            us; the limits of other processes it may neither change nor, with prlimit, read.
    """
    column, audit = _column()
    names = dict(_CALLS)
    if without_namespaces:
        names.update(_LEAVING | _WATCHING)
    if not read_only:
        names.update(_WRITERS if own_uid else _WRITERS | _OWNERS)
    load, equal, at_least, any_bit, ret = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, eperm, enosys = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
    number_at, arch_at, arg0_low, arg1_low, arg2_low = 0, 4, 16, 24, 32
    numbers = sorted(n[column] or 0 for n in names.values() if n[column] is not None)
    code = [(load, 0, 0, arch_at), (equal, 1, 0, audit), (ret, 0, 0, kill), (load, 0, 0, number_at)]
    if column == 0:  # the x32 numbers are a second way into every call
        code += [(at_least, 0, 1, 0x40000000), (ret, 0, 0, eperm)]
    for absent in _ABSENT.values():
        code += [(equal, 0, 1, absent[column]), (ret, 0, 0, enosys)]
    if not read_only:  # to reserve space takes the whole disk faster than anybody looks
        code += [(equal, 0, 1, _FALLOCATE[column]), (ret, 0, 0, 0x00050000 | _EOPNOTSUPP)]
    code += [(equal, 0, 4, _CLONE[column]), (load, 0, 0, arg0_low), (any_bit, 0, 1, CLONE_NEW_ANY),
             (ret, 0, 0, eperm), (ret, 0, 0, allow)]  # fmt: skip
    # prlimit on somebody else needs no more than an equal uid. The kernel kills who is over a processor limit: with a
    # lower one a program could let itself be killed, as if by somebody else. To read the limit is allowed.
    if allow_own_limits:
        code += [(equal, 0, 4, _PRLIMIT64[column]), (load, 0, 0, arg0_low), (equal, 1, 0, 0), (ret, 0, 0, eperm),
                 (ret, 0, 0, allow)]  # fmt: skip
    else:
        code += [(equal, 0, 10, _PRLIMIT64[column]), (load, 0, 0, arg0_low), (equal, 0, 6, 0), (load, 0, 0, arg1_low),
                 (equal, 0, 5, 0), (load, 0, 0, arg2_low), (equal, 0, 2, 0), (load, 0, 0, arg2_low + 4),
                 (equal, 1, 0, 0), (ret, 0, 0, eperm), (ret, 0, 0, allow)]  # fmt: skip
        code += [(equal, 0, 4, _SETRLIMIT[column]), (load, 0, 0, arg0_low), (equal, 0, 1, 0), (ret, 0, 0, eperm),
                 (ret, 0, 0, allow)]  # fmt: skip
    # TIOCSTI and TIOCLINUX type into the terminal that started us.
    code += [(equal, 0, 5, _IOCTL[column]), (load, 0, 0, arg1_low), (equal, 1, 0, 0x5412), (equal, 0, 1, 0x541C),
             (ret, 0, 0, eperm), (ret, 0, 0, allow)]  # fmt: skip
    # F_SETSIG and F_NOTIFY send signals of one's choice later: SIGCONT would wake what we have halted.
    code += [(equal, 0, 5, _FCNTL[column]), (load, 0, 0, arg1_low), (equal, 1, 0, 10), (equal, 0, 1, 1026),
             (ret, 0, 0, eperm), (ret, 0, 0, allow)]  # fmt: skip
    # The kernel tries a new filter on every call there is, so its length is paid for in each run: blocks of sorted
    # numbers, each skipped as a whole, with one refusal at the end of the block.
    for start in range(0, len(numbers), _BLOCK):
        block = numbers[start : start + _BLOCK]
        code.append((at_least, 0, len(block) + 1, block[0]))
        code.append((at_least, len(block) + 2, 0, block[-1] + 1))
        code += [(equal, len(block) - index, 0, number) for index, number in enumerate(block)]
        code += [(ret, 0, 0, allow), (ret, 0, 0, eperm)]
    code.append((ret, 0, 0, allow))
    return b"".join(struct.pack("HBBI", *row) for row in code)


def refuse_signals_to(tasks: Iterable[int]) -> bytes:
    """A classic BPF program that refuses to signal these processes or threads by their numbers."""
    column, _ = _column()
    code = [(0x20, 0, 0, 0)]
    for index, calls in enumerate(_SIGNALLING):
        for call in calls:
            compared = [(0x15, 0, 1, task) for task in tasks]
            code += [(0x15, 0, 2 + 2 * len(compared), call[column]), (0x20, 0, 0, 16 + 8 * index)]
            for each in compared:
                code += [each, (0x06, 0, 0, 0x00050001)]
            code.append((0x06, 0, 0, 0x7FFF0000))
    code.append((0x06, 0, 0, 0x7FFF0000))
    return b"".join(struct.pack("HBBI", *row) for row in code)


def no_new_privileges() -> None:
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(no_new_privs)")


def install_seccomp(program: bytes) -> None:
    """Bind this process, and all it will start, to a filter of ``seccomp_filter``. There is no way back."""
    memory = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(memory))
    _checked(_libc.prctl(_PR_SET_SECCOMP, 2, ctypes.c_char_p(header), 0, 0), "prctl(seccomp)")


# --- Landlock --------------------------------------------------------------------------------------------

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read dir


def landlock_version() -> int:
    """The kernel's Landlock ABI, 0 where there is none."""
    return max(0, int(_syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)))


def landlock(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str] = ()) -> None:
    """Close the file system, TCP, abstract sockets and signals to others, except what is named.

    Args:
        readable: folders and files to read and execute; those that do not exist are skipped.
        writable: folders in which everything but devices may be made.
        devices: character devices to read and write.

    Raises:
        OSError: the kernel has no Landlock, or a writable folder does not exist.
    """
    version = landlock_version()
    if version < 1:
        raise OSError("this kernel has no Landlock")
    files = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    rules = struct.pack("QQQ", files, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(_syscall(_LANDLOCK_CREATE, ctypes.c_char_p(rules), ctypes.c_size_t(size), 0), "landlock")
    writing = files & ~(1 << 6 | 1 << 11)  # no devices are made
    try:
        for path, rights, needed in (
            *((p, _READ, False) for p in readable),
            *((p, writing, True) for p in writable),
            *((p, files & (1 << 1 | 1 << 2 | (1 << 15 if p == TERMINAL else 0)), False) for p in devices),
        ):
            _allow_below(ruleset, path, rights, needed)
        no_new_privileges()
        _checked(_syscall(_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def keep_signals_in() -> bool:
    """Let this thread, and all that it will start, signal nobody else from now on; False where Landlock cannot."""
    if landlock_version() < 6:
        return False
    rules = struct.pack("QQQ", 0, 0, 0b10)
    ruleset = _checked(_syscall(_LANDLOCK_CREATE, ctypes.c_char_p(rules), ctypes.c_size_t(24), 0), "landlock")
    try:
        no_new_privileges()
        _checked(_syscall(_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return True


def _allow_below(ruleset: int, path: str, rights: int, needed: bool) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        if needed:
            raise
        return
    try:
        if not os.path.isdir(path):
            rights &= 0b111 | 1 << 14 | 1 << 15
        rule = struct.pack("=Qi", rights, handle)
        _checked(_syscall(_LANDLOCK_ADD, ruleset, 1, ctypes.c_char_p(rule), 0), f"landlock_add_rule({path})")
    finally:
        os.close(handle)


# --- namespaces, capabilities, processes -----------------------------------------------------------------


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def set_namespace(handle: int, kind: int) -> None:
    _checked(_libc.setns(handle, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    _checked(
        _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()),
        f"mount({target})",
    )


def mount_tmpfs(folder: str, disk_mb: float) -> None:
    """Cover a folder with an empty one in memory, which holds so many MiB and 16,384 names."""
    size = f"size={max(4, int(disk_mb * 1024))}k,nr_inodes=16384,mode=1777"
    mount("tmpfs", folder, "tmpfs", MS_NOSUID_NODEV, size)


def enter_mount_namespace() -> None:
    """A mount namespace of our own, in which nothing that is mounted later is seen outside. Who is not root gets a user
    namespace with it, in which only the own uid and gid exist.

    Raises:
        OSError: the machine does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWNS | (CLONE_NEWUSER if uid else 0))
    if uid:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    mount("none", "/", "none", MS_PRIVATE_REC)


def mount_read_only() -> None:
    """In a mount namespace of our own: nothing that is mounted now can be changed through it."""
    attributes = struct.pack("QQQQ", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    call, where = _CALLS["mount_setattr"][_column()[0]], (_AT_FDCWD, ctypes.c_char_p(b"/"), _AT_RECURSIVE)
    _checked(_syscall(call, *where, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes))), "mount_setattr")


def drop_capabilities() -> None:
    """Give up every capability, now and for every program started later."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # past the last one, or nothing left to drop with
    _libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0)
    header, empty = struct.pack("II", 0x20080522, 0), bytes(24)
    _checked(_libc.capset(ctypes.c_char_p(header), ctypes.c_char_p(empty)), "capset")


def become_subreaper() -> None:
    """Orphans of our descendants become our children, so that we can wait for their real end."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(subreaper)")


def die_with_parent() -> None:
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl(pdeathsig)")


def set_dumpable(value: int) -> None:
    _checked(_libc.prctl(_PR_SET_DUMPABLE, value, 0, 0, 0), "prctl(dumpable)")


def set_limits(pairs: Sequence[tuple[str, int]]) -> None:
    """Lower resource limits by name (``"AS"``, ``"NPROC"``...), soft and hard, never above what already holds."""
    for name, value in pairs:
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (bound, bound))
