"""Steps with what runs: workers to stop or to tell of a change, and services that are down and have to be mended."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from rlvr.envs.agentic.chore_kinds.draft import ChoreDraft, StepKind, WorkItem, pick, render
from rlvr.envs.agentic.chores import lines
from rlvr.envs.sandbox import Daemon

WORKER = b'''"""python3 worker.py NAME: saves its work to saved/NAME.txt and ends on SIGTERM,
reads conf/NAME.conf anew on SIGHUP, and writes report/NAME.txt on SIGUSR1."""
import ctypes, hashlib, os, signal, sys

ctypes.CDLL(None).prctl(4, 0)  # no other process may read its memory
del sys.path[0]
name, secret = sys.argv[1], sys.stdin.readline().strip()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    code = hashlib.sha256(f"{secret} {path} {text}".encode()).hexdigest()[:16]
    with open(path, "w") as file:
        file.write(f"{text} {code}\\n")


def load(*_):
    with open(f"conf/{name}.conf") as file:
        write(f"state/{name}.txt", file.read().strip())


def report(*_):
    write(f"report/{name}.txt", f"{name} is well")


def stop(*_):
    write(f"saved/{name}.txt", f"{name} has saved its work")
    os.unlink(f"run/{name}.pid")
    os._exit(0)


signal.signal(signal.SIGHUP, load)
signal.signal(signal.SIGUSR1, report)
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


def signed(daemon: Daemon, path: str, text: str) -> str:
    """A line as a program in the background writes it to a file: with a code that needs its secret."""
    code = hashlib.sha256(f"{daemon.stdin.strip()} {path} {text}".encode()).hexdigest()[:16]
    return f"{text} {code}"


def _daemon(draft: ChoreDraft, name: str, program: str) -> Daemon:
    daemon = Daemon(name, ("python3", program, name), f"{draft.rng.getrandbits(48):012x}\n")
    draft.daemons.append(daemon)
    return daemon


class Workers:
    """Programs in the background, each with a port in its file of settings."""

    def __init__(self, draft: ChoreDraft) -> None:
        self.draft, self.names = draft, [draft.name() for _ in range(draft.rng.randint(3, 4))]
        self.ports = draft.rng.sample(range(2_000, 9_999), len(self.names))
        self._daemons = {name: _daemon(draft, name, "worker.py") for name in self.names}
        draft.start["worker.py"] = draft.files["worker.py"] = WORKER
        for name, port in zip(self.names, self.ports, strict=True):
            draft.start[f"conf/{name}.conf"] = f"port {port}\n".encode()
            self.load(name, port)

    def load(self, name: str, port: int) -> WorkItem:
        """The worker has taken up this port."""
        self.draft.files[f"conf/{name}.conf"] = f"port {port}\n".encode()
        return self._written(name, "state", f"port {port}")

    def stop(self, name: str) -> WorkItem:
        """The worker has ended by SIGTERM."""
        self.draft.exits[name] = 0
        return self._written(name, "saved", f"{name} has saved its work")

    def report(self, name: str) -> WorkItem:
        """The worker has written a report."""
        return self._written(name, "report", f"{name} is well")

    def _written(self, name: str, folder: str, text: str) -> WorkItem:
        path = f"{folder}/{name}.txt"
        return self.draft.put("value", path, signed(self._daemons[name], path, text))


_RUNNING = (
    "Workers run in the background, each as python3 worker.py NAME; conf/NAME.conf holds a worker's port and "
    "run/NAME.pid its process number (worker.py says what signals do). "
)
_OTHERS = " The others must go on running."
Act = Callable[[Workers], tuple[str, tuple[str, ...], dict[str, Any], WorkItem]]


def _worker_kind(name: str, act: Act) -> StepKind:
    """A step with new workers: ``act`` says what is asked, the commands, what the texts name, and what is left."""

    def play(draft: ChoreDraft, _: WorkItem) -> WorkItem:
        first = "worker.py" not in draft.start
        workers = Workers(draft)
        wish, commands, values, left = act(workers)
        look = ("head -n 3 worker.py", "grep . conf/*.conf") if first else ("grep . conf/*.conf",)
        names = f"{', '.join(workers.names[:-1])} and {workers.names[-1]}"
        draft.ask(_RUNNING.replace("Workers run", f"The workers {names} run") + wish, *look, *commands,
                  result=left.path, **values)  # fmt: skip
        return left

    return StepKind(name, "processes", "", play)


_KILL = "kill $(cat run/@n.pid)"


def _stop_named(w: Workers) -> Any:
    name = w.draft.rng.choice(w.names)
    return f"End @n in such a way that it saves its work.{_OTHERS}", (_KILL,), {"n": name}, w.stop(name)


def _stop_port(w: Workers) -> Any:
    number = w.draft.rng.randrange(len(w.names))
    wish = f"End the one with the port @p in such a way that it saves its work.{_OTHERS}"
    return wish, (_KILL,), {"n": w.names[number], "p": w.ports[number]}, w.stop(w.names[number])


def _stop_highest(w: Workers) -> Any:
    name = max(zip(w.ports, w.names, strict=True))[1]
    wish = f"End the one with the highest port in such a way that it saves its work.{_OTHERS}"
    return wish, (_KILL,), {"n": name}, w.stop(name)


def _stop_below(w: Workers) -> Any:
    bound = sorted(w.ports)[2]
    names = [name for name, port in zip(w.names, w.ports, strict=True) if port < bound]
    wish = f"End those with a port below @p in such a way that they save their work.{_OTHERS}"
    left = [w.stop(name) for name in names][-1]
    return wish, tuple(_KILL.replace("@n", name) for name in names), {"p": bound}, left


def _stop_all_but(w: Workers) -> Any:
    name = w.draft.rng.choice(w.names)
    others = [each for each in w.names if each != name]
    wish = "End all of them but @n in such a way that they save their work. @n must go on running."
    left = [w.stop(each) for each in others][-1]
    return wish, tuple(_KILL.replace("@n", each) for each in others), {"n": name}, left


def _stop_and_tidy(w: Workers) -> Any:
    name = w.draft.rng.choice(w.names)
    left = w.stop(name)
    w.draft.remove(f"conf/{name}.conf")
    wish = f"End @n in such a way that it saves its work, and then delete its file in conf.{_OTHERS}"
    return wish, (_KILL, "rm conf/@n.conf"), {"n": name}, left


def _reload(w: Workers) -> Any:
    name, port = w.draft.rng.choice(w.names), w.draft.rng.randint(10_000, 19_999)
    wish = "Change the port of @n to @p and have the running worker take it up. No worker may end."
    commands = ("echo port @p > conf/@n.conf", "kill -HUP $(cat run/@n.pid)")
    return wish, commands, {"n": name, "p": port}, w.load(name, port)


def _swap_ports(w: Workers) -> Any:
    (m, one), (n, other) = w.draft.rng.sample(list(zip(w.names, w.ports, strict=True)), 2)
    wish = "Exchange the ports of @m and @n, and have both running workers take them up. No worker may end."
    commands = ("mv conf/@m.conf t.tmp", "mv conf/@n.conf conf/@m.conf", "mv t.tmp conf/@n.conf",
                "kill -HUP $(cat run/@m.pid) $(cat run/@n.pid)")  # fmt: skip
    w.load(m, other)
    return wish, commands, {"m": m, "n": n}, w.load(n, one)


def _raise_all(w: Workers) -> Any:
    amount = w.draft.rng.choice((10, 100, 1_000))
    wish = "Add @p to the port of each of them, and have the running workers take it up. No worker may end."
    left = [w.load(name, port + amount) for name, port in zip(w.names, w.ports, strict=True)][-1]
    commands = (*(f"echo port {port + amount} > conf/{name}.conf; kill -HUP $(cat run/{name}.pid)"
                  for name, port in zip(w.names, w.ports, strict=True)),)  # fmt: skip
    return wish, commands, {"p": amount}, left


def _report_one(w: Workers) -> Any:
    name = w.draft.rng.choice(w.names)
    return (
        "Have @n write its report. No worker may end.",
        ("kill -USR1 $(cat run/@n.pid)",),
        {"n": name},
        w.report(name),
    )


def _report_ports(w: Workers) -> Any:
    bound = sorted(w.ports)[0]
    names = [name for name, port in zip(w.names, w.ports, strict=True) if port > bound]
    wish = "Have all those with a port above @p write their reports, and the others not. No worker may end."
    left = [w.report(name) for name in names][-1]
    for name in w.names:
        w.draft.gone |= set() if name in names else {f"report/{name}.txt"}
    return wish, tuple(f"kill -USR1 $(cat run/{name}.pid)" for name in names), {"p": bound}, left


def _port_from_value(draft: ChoreDraft, item: WorkItem) -> WorkItem:
    """The port is a number that an earlier step found."""
    if not item.data.isdigit():
        pick(draft.rng, ())
    workers = Workers(draft)
    name = draft.rng.choice(workers.names)
    left = workers.load(name, int(item.data))
    draft.see(item.path)
    draft.ask(f"{_RUNNING}Change the port of @n to the number in @a and have the running worker take it up. No "
        f"worker may end.",
              "grep . conf/*.conf", "echo port $(cat @a) > conf/@n.conf", "kill -HUP $(cat run/@n.pid)",
                  result=left.path,
              a=item.path, n=name)  # fmt: skip
    return left


PROCESSES = (
    *(_worker_kind(name, act) for name, act in (
        ("stop by name", _stop_named), ("stop by port", _stop_port), ("stop the highest", _stop_highest),
        ("stop below", _stop_below), ("stop all but one", _stop_all_but), ("stop and tidy", _stop_and_tidy),
        ("reload", _reload), ("swap ports", _swap_ports), ("raise all ports", _raise_all), ("report", _report_one),
        ("reports by port", _report_ports),
    )),
    StepKind("port from a value", "processes", "value", _port_from_value),
)  # fmt: skip


# services that are down

SERVICE = b'''"""python3 service.py NAME: serves the file that NAME/service.conf names. On SIGHUP it begins anew."""
import ctypes, glob, hashlib, os, signal, sys

ctypes.CDLL(None).prctl(4, 0)  # no other process may read its memory
del sys.path[0]
name, secret = sys.argv[1], sys.stdin.readline().strip()
KEYS = ("data", "port", "limit", "level", "cache", "sum")


def settings(path):
    pairs = {}
    for number, line in enumerate(open(path, newline=""), 1):
        if line.endswith("\\r\\n"):
            raise ValueError(f"line {number} of {path} ends in CR and LF, not in LF alone")
        key, sign, value = line.rstrip("\\n").partition(" = ")
        if not sign:
            raise ValueError(f"line {number} of {path} is not 'key = value'")
        if key in pairs:
            raise ValueError(f"line {number} of {path}: {key} is set twice; the first one is right")
        pairs[key] = value
    return pairs


def begin():
    own = settings(f"{name}/service.conf")
    for key in KEYS:
        if key not in own:
            raise ValueError(f"{name}/service.conf does not set {key}")
    for key, low, high in (("port", 1024, 65535), ("limit", 1, 99)):
        if not own[key].isdigit() or not low <= int(own[key]) <= high:
            raise ValueError(f"{key} is {own[key]!r}, and must be a whole number from {low} to {high}")
    if own["level"] not in ("info", "warn", "error"):
        raise ValueError(f"level is {own['level']!r}, and must be info, warn or error")
    for other in sorted(glob.glob("*/service.conf")):
        if other != f"{name}/service.conf" and f"port = {own['port']}\\n" in open(other).read():
            raise ValueError(f"port {own['port']} is taken by {other}")
    if os.path.exists(f"{name}/lock"):
        raise ValueError(f"{name}/lock is there; it must be deleted if the process that it names does not run")
    if not os.path.isdir(own["cache"]):
        raise ValueError(f"cache: {own['cache']} is no folder")
    with open(own["data"], "rb") as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != own["sum"]:
        raise ValueError(f"sum is not the SHA-256 checksum of {own['data']}")
    return f"{name} serves {own['data']} on port {own['port']}"


def start(*_):
    try:
        text = begin()
    except (OSError, ValueError) as error:
        text = f"{name} is down"
        with open(f"{name}/service.log", "a") as log:
            log.write(f"ERROR {error}\\n")
    path = f"{name}/state.txt"
    code = hashlib.sha256(f"{secret} {path} {text}".encode()).hexdigest()[:16]
    with open(path, "w") as file:
        file.write(f"{text} {code}\\n")


signal.signal(signal.SIGHUP, start)
with open(f"{name}/service.pid", "w") as file:
    file.write(f"{os.getpid()}\\n")
start()
print("ready", flush=True)
while True:
    signal.pause()
'''


class DownService(NamedTuple):
    """A service under way: its name, the file that it serves, its settings as they should be, and its draft."""

    name: str
    item: WorkItem
    pairs: dict[str, str]
    draft: ChoreDraft

    def conf(self, **changes: str | None) -> None:
        """Its settings as they are at the start: with other values, or without a key."""
        pairs = {key: changes.get(key, value) for key, value in self.pairs.items()}
        self.text(lines([f"{key} = {value}" for key, value in pairs.items() if value is not None]))

    def text(self, content: bytes) -> None:
        self.draft.start[f"{self.name}/service.conf"] = content


Spoil = Callable[[DownService], tuple[str, ...]]


def _set(key: str, wrong: Callable[[DownService], str]) -> Spoil:
    """A key has a wrong value."""

    def spoil(service: DownService) -> tuple[str, ...]:
        service.conf(**{key: wrong(service)})
        return (f"sed -i 's|^{key} = .*|{key} = {service.pairs[key]}|' @s/service.conf",)

    return spoil


def _sum(service: DownService) -> tuple[str, ...]:
    service.conf(sum=hashlib.sha256(service.name.encode()).hexdigest())
    return ("sha256sum @a", "sed -i \"s/^sum = .*/sum = $(sha256sum < @a | cut -d' ' -f1)/\" @s/service.conf")


def _unset(service: DownService) -> tuple[str, ...]:
    service.conf(limit=None)
    return ("sed -i '/^port = /a limit = @l' @s/service.conf",)


def _twice(service: DownService) -> tuple[str, ...]:
    service.conf()
    service.text(service.draft.start[f"{service.name}/service.conf"] + b"level = error\n")
    return ("sed -i '$d' @s/service.conf",)


def _no_pair(service: DownService) -> tuple[str, ...]:
    service.conf()
    conf = service.draft.start[f"{service.name}/service.conf"].decode()
    service.text(conf.replace("level = ", "level: ").encode())
    return ("sed -i 's/^level: /level = /' @s/service.conf",)


def _line_ends(service: DownService) -> tuple[str, ...]:
    service.conf()
    service.text(service.draft.start[f"{service.name}/service.conf"].replace(b"\n", b"\r\n"))
    return ("sed -i 's/\\r$//' @s/service.conf",)


def _lock(service: DownService) -> tuple[str, ...]:
    service.conf()
    service.draft.start[f"{service.name}/lock"] = b"99999\n"
    return ("cat @s/lock; kill -0 $(cat @s/lock)", "rm @s/lock")


def _cache(service: DownService) -> tuple[str, ...]:
    service.conf()
    return ("mkdir @s/cache",)


def _cache_file(service: DownService) -> tuple[str, ...]:
    service.conf()
    service.draft.start[f"{service.name}/cache"] = b""
    return ("rm @s/cache", "mkdir @s/cache")


def _taken(service: DownService) -> tuple[str, ...]:
    other = service.draft.name()
    free = str(int(service.pairs["port"]) + 1)
    content = lines([f"port = {free}"])
    service.draft.start[f"{other}/service.conf"] = service.draft.files[f"{other}/service.conf"] = content
    service.conf(port=free)
    return ("grep '^port' */service.conf", f"sed -i 's/^port = .*/port = {service.pairs['port']}/' @s/service.conf")


def _closed(service: DownService) -> tuple[str, ...]:
    if not service.draft.is_unused(service.item.path):
        pick(service.draft.rng, ())
    service.conf()
    service.draft.setup.append(f"chmod 0 {service.item.path}")
    return ("stat -c '%a %n' @a", "chmod 600 @a")


FAULTS: dict[str, Spoil] = {
    "wrong path": _set("data", lambda s: f"{s.name}/{s.item.path}"),
    "no number": _set("port", lambda s: f"{s.pairs['port']}x"),
    "number out of range": _set("limit", lambda s: f"{s.pairs['limit']}00"),
    "unknown level": _set("level", lambda s: s.draft.rng.choice(("loud", "all", "debug"))),
    "wrong checksum": _sum,
    "key not set": _unset,
    "key set twice": _twice,
    "no pair": _no_pair,
    "settings from windows": _line_ends,
    "old lock": _lock,
    "no cache": _cache,
    "cache is a file": _cache_file,
    "port is taken": _taken,
    "unreadable data": _closed,
}


def _service_kind(name: str, spoil: Spoil) -> StepKind:
    def play(draft: ChoreDraft, item: WorkItem) -> WorkItem:
        rng, label = draft.rng, draft.name()
        content = render(item.form, item.data)
        pairs = {
            "data": item.path, "port": str(rng.randint(2_000, 60_000)), "limit": str(rng.randint(10, 99)),
            "level": rng.choice(("info", "warn")), "cache": f"{label}/cache",
            "sum": hashlib.sha256(content).hexdigest(),
        }  # fmt: skip
        fix = spoil(DownService(label, item, pairs, draft))
        if "cache" not in name:
            draft.setup.append(f"mkdir {label}/cache")
        draft.start["service.py"] = draft.files["service.py"] = SERVICE
        draft.files[f"{label}/service.conf"] = lines([f"{key} = {value}" for key, value in pairs.items()])
        daemon = _daemon(draft, label, "service.py")
        if spoil is not _closed:
            draft.see(item.path)
        retry = "kill -HUP $(cat @s/service.pid)"
        draft.ask(
            "The service @s runs in the background as python3 service.py @s, and is down. It should serve @a on port "
            "@p with the limit @l and the level @v; its settings are in @s/service.conf, and @s/service.log says "
            "what is wrong. Mend it, have the process in @s/service.pid begin anew by SIGHUP, and see that "
            "@s/state.txt says that it serves.",
            retry, "tail -n 1 @s/service.log", "cat @s/service.conf", *fix, retry, "cat @s/state.txt",
            a=item.path, s=label, p=pairs["port"], l=pairs["limit"], v=pairs["level"],
        )  # fmt: skip
        state = f"{label}/state.txt"
        text = f"{label} serves {item.path} on port {pairs['port']}"
        return draft.put("value", state, signed(daemon, state, text))

    return StepKind(name, "services", "file", play)


KINDS: tuple[StepKind, ...] = (*PROCESSES, *(_service_kind(*fault) for fault in FAULTS.items()))
