"""The first code in a container, or in an unsafe local process: takes one request and becomes its program.

The request and what follows it come on standard input. A program that is called from outside gets its requests
there and answers on standard output; what it prints goes to standard error. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, NoReturn

from rlvr.envs.sandbox.inside import kernel, program
from rlvr.envs.sandbox.inside.channel import ASKED


def run(request: dict[str, Any]) -> NoReturn:
    """Place the descriptors, lower the limits that a process can set on itself, run. Never returns."""
    if request["mode"] in ASKED:
        os.dup2(0, program.REQUESTS, inheritable=False)
        os.dup2(1, program.REPLIES, inheritable=False)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
    megabyte = 1 << 20
    pairs = [
        ("CORE", 0), ("NOFILE", request["open_files"]), ("FSIZE", int(request["disk_mb"] * megabyte)),
        ("CPU", int(request["seconds"]) + 2), ("AS", int(request["memory_mb"] * megabyte)),
    ]  # fmt: skip
    for pair in pairs:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # macOS has no working RLIMIT_AS
            kernel.set_limits([pair])
    os.umask(0o077)
    program.make_ready()
    if request["lock"]:  # a container's own profile may allow sockets and namespaces
        kernel.no_new_privileges()
        kernel.install_seccomp(kernel.seccomp_filter())
    home = request.get("home")
    if home is None:
        os.mkdir(home := "/tmp/work", 0o700)
    program.run({**request, "home": home, "packages": request.get("packages", [])})
