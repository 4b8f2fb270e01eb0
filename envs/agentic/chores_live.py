"""Chores with what runs: processes to stop or to tell of a change, and a full-screen program that reads keys."""

from __future__ import annotations

import random
import zlib

from rlvr.envs.agentic.chores import WORDS, Chore, file_names, lines
from rlvr.envs.sandbox import Daemon

WORKER = b'''"""python3 worker.py NAME: saves its work and ends on SIGTERM; reads conf/NAME.conf anew on SIGHUP."""
import os, signal, sys, zlib

name, secret = sys.argv[1], sys.stdin.readline().strip()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(f"{text} {zlib.crc32((secret + text).encode()):08x}\\n")


def load(*_):
    with open(f"conf/{name}.conf") as file:
        write(f"state/{name}.txt", file.read().strip())


def stop(*_):
    write(f"saved/{name}.txt", f"{name} has saved its work")
    os.unlink(f"run/{name}.pid")
    os._exit(0)


signal.signal(signal.SIGHUP, load)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, signal.SIG_IGN)
load()
os.makedirs("run", exist_ok=True)
with open(f"run/{name}.pid", "w") as file:
    file.write(f"{os.getpid()}\\n")
print("ready", flush=True)
while True:
    signal.pause()
'''

SETTINGS = '''"""Choose settings: Up and Down move, Space switches one on or off, s saves, q leaves."""
import os, sys, termios, tty, zlib

NAMES = {names!r}
chosen = set({chosen!r})


def show(at, line=""):
    rows = ["Settings: Up, Down, Space, s to save, q to leave", ""]
    rows += [f"{{'>' if i == at else ' '}} [{{'x' if n in chosen else ' '}}] {{n}}" for i, n in enumerate(NAMES)]
    sys.stdout.write("\\x1b[2J\\x1b[H" + "\\r\\n".join([*rows, "", line]))
    sys.stdout.flush()


def key():
    first = os.read(0, 1)
    return first + os.read(0, 2) if first == b"\\x1b" else first


def save(at):
    text = ",".join(n for n in NAMES if n in chosen)
    number, typed = f"{{zlib.crc32(text.encode()) % 10000:04d}}", ""
    while True:
        show(at, f"To save, type {{number}} and Enter: {{typed}}")
        pressed = key()
        if pressed in (b"\\r", b"\\n"):
            break
        typed = typed[:-1] if pressed == b"\\x7f" else typed + pressed.decode("ascii", "replace")
    if typed != number:
        return "Not saved."
    with open("settings.dat", "w") as file:
        file.write(f"{{text}} {{zlib.crc32(('saved ' + text).encode()):08x}}\\n")
    return "Saved."


before = termios.tcgetattr(0)
tty.setraw(0)
try:
    at, line = 0, ""
    while True:
        show(at, line)
        line, pressed = "", key()
        if pressed in (b"\\x1b[A", b"\\x1b[B"):
            at = (at + (1 if pressed.endswith(b"B") else -1)) % len(NAMES)
        elif pressed == b" ":
            chosen ^= {{NAMES[at]}}
        elif pressed == b"s":
            line = save(at)
        elif pressed in (b"q", b"\\x03", b"\\x04"):
            break
finally:
    termios.tcsetattr(0, termios.TCSADRAIN, before)
    print("\\n")
'''


def workers(rng: random.Random, count: int) -> tuple[list[str], tuple[Daemon, ...]]:
    """Workers with secrets of their own, and their names."""
    names = rng.sample(WORDS, count)
    return names, tuple(Daemon(name, ("python3", "worker.py", name), f"{rng.getrandbits(48):012x}\n") for name in names)


def log_line(daemon: Daemon, text: str) -> bytes:
    """A line as a worker writes it: with a checksum that needs its secret."""
    return f"{text} {zlib.crc32((daemon.stdin.strip() + text).encode()):08x}\n".encode()


def stop_worker(rng: random.Random) -> Chore:
    names, daemons = workers(rng, 4)
    victim = rng.randrange(4)
    name = names[victim]
    files = {f"conf/{each}.conf": f"port {rng.randint(2000, 9999)}\n".encode() for each in names}
    text = (
        "Four workers run in the background, each as python3 worker.py NAME, and run/NAME.pid holds its process "
        f"number. Stop the worker {name} in such a way that it saves its work (worker.py shows how). The others must "
        "go on running."
    )
    command = f"kill -TERM $(cat run/{name}.pid)"
    return Chore(
        text, {"worker.py": WORKER, **files}, ("head -n 1 worker.py; ls run", command, f"cat saved/{name}.txt"),
        {f"saved/{name}.txt": log_line(daemons[victim], f"{name} has saved its work")},
        daemons=daemons, exits={name: 0},
    )  # fmt: skip


def reload_worker(rng: random.Random) -> Chore:
    names, daemons = workers(rng, 3)
    ports = rng.sample(range(2000, 9999), 4)
    changed = rng.randrange(3)
    name, new = names[changed], f"port {ports[3]}"
    files = {f"conf/{each}.conf": f"port {port}\n".encode() for each, port in zip(names, ports, strict=False)}
    wanted: dict[str, bytes | None] = {
        f"state/{each}.txt": log_line(daemon, f"port {port}")
        for each, daemon, port in zip(names, daemons, ports, strict=False)
    }
    wanted |= {f"conf/{name}.conf": f"{new}\n".encode(), f"state/{name}.txt": log_line(daemons[changed], new)}
    text = (
        "Three workers run in the background, each as python3 worker.py NAME; run/NAME.pid holds its process number "
        f"and state/NAME.txt what it uses. Change the port in conf/{name}.conf to {ports[3]} and make the running "
        "worker take it up. No worker may be stopped."
    )
    commands = (
        "head -n 1 worker.py", f"echo {new} > conf/{name}.conf; kill -HUP $(cat run/{name}.pid)",
        f"cat state/{name}.txt",
    )  # fmt: skip
    return Chore(text, {"worker.py": WORKER, **files}, commands, wanted, daemons=daemons)


def _down(count: int) -> str:
    return f"<Down*{count}>" if count > 1 else "<Down>" * count


def choose_settings(rng: random.Random) -> Chore:
    names = file_names(rng, 8)
    before = [name for name in names if rng.random() < 0.4]
    after = [name for name in names if rng.random() < 0.4] or [names[rng.randrange(8)]]
    if after == before:
        after = [name for name in names if name not in before]
    joined = ",".join(after)
    number = f"{zlib.crc32(joined.encode()) % 10_000:04d}"
    switched = [index for index, name in enumerate(names) if (name in before) != (name in after)]
    steps = [index - last for last, index in zip([0, *switched], switched, strict=False)]
    presses = "".join(f"{_down(count)}<Space>" for count in steps)
    text = (
        "python3 settings.py is a full-screen program in which settings are switched on and off. Use it to have "
        f"exactly these switched on: {', '.join(after)}. Save, and leave the program. It writes settings.dat; leave "
        "settings.py as it is."
    )
    program = SETTINGS.format(names=names, chosen=before)
    saved = f"{joined} {zlib.crc32(('saved ' + joined).encode()):08x}"
    return Chore(
        text, {"settings.py": program.encode()}, (), {"settings.dat": lines([saved])},
        keys=("python3 settings.py<Enter>", presses, "s", f"{number}<Enter>", "q", "cat settings.dat<Enter>"),
    )  # fmt: skip
