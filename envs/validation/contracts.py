"""Contracts of RFC 008: a verifier that repeats itself, canaries, containment, tasks as declared and pinned."""

from __future__ import annotations

import ast
import contextlib
import ipaddress
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np

from rlvr.envs.validation.commands import templates, verbs
from rlvr.envs.validation.context import HARD, Skip, Validation, check
from rlvr.envs.validation.declared import declared_calls
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.sound import SOUND, first_seen
from rlvr.envs.validation.source import options_read, sources
from rlvr.envs.validation.subject import ApiFault, NotApplicable, TaskRef, ValidationEpisode, in_order

REPLAYS: Final = 20  # of one episode: a verdict that differs once in ten is seen in nine of ten
TASKS: Final = ("task_id", "task", "task_index", "index")  # options of reset that name one of the declared tasks
WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES: Final = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod")
LOADERS: Final = ("load_dataset", "snapshot_download", "hf_hub_download")
FILES: Final = ("json", "csv", "parquet", "text")  # what a loader of data sets calls files of this machine
_SEEN: list[tuple[str, str]] = []  # what the hook has noted: "host" or "path", and which
_HOOK: list[bool] = []  # whether it notes; empty until it is there, which is for good


@check(
    "semantic.verifier_determinism",
    SOUND,
    "The same actions, graded twenty times, have one return.",
    number=39,
    remedy="Take chance and time out of the grader, or fix what its judge samples.",
)
def verifier_determinism(v: Validation, result: CheckResult) -> None:
    """Play a solution and a random episode again and again."""
    rng = np.random.default_rng(5)
    policies: list[Any] = [v.experts[0].actions] if v.experts else []
    policies += [lambda env, played: v.subject.sampled(env, played, rng)]
    for policy in policies:
        with contextlib.suppress(NotApplicable):
            first = v.plays(v.refs[0], policy, turns=20)
            again = [v.plays(v.refs[0], first.actions) for _ in range(min(REPLAYS, max(3, 200 // len(first.actions))))]
            result.tries += len(again)
            totals = {each.total for each in again}
            if len(totals) > 1:
                text = f"{len(again)} times the same actions were paid {len(totals)} returns, {min(totals):g} to"
                result.add("returns", f"{text} {max(totals):g}, at {first.ref}", replay=first.replay)
                return


@check(
    "semantic.canary_floor",
    HARD,
    "The canaries that come with the environment, attempts to cheat it, are paid nothing.",
    number=28,
    remedy="Close the hole that the canary names.",
)
def canary_floor(v: Validation, result: CheckResult) -> None:
    """Play each of ``canaries``, an attribute of the environment or its task: texts, or lists of actions."""
    canaries = getattr(v.subject.env.unwrapped, "canaries", getattr(v.author, "canaries", None))
    if not isinstance(canaries, (list, tuple)) or not canaries:
        raise Skip("it comes with no canaries")
    for canary in canaries:
        for ref in v.refs[:8]:
            played = v.plays(ref, canary if isinstance(canary, str) else list(map(str, canary)))
            result.tries += 1
            if v.paid(played) and v.shown(played, v.paid):
                text = f"the canary {str(canary)[:80]!r} is paid {played.total:g} at {ref}"
                result.add("canary", text, replay=played.replay)
                break


@check(
    "runtime.egress_denied",
    SOUND,
    "No episode asks for a host elsewhere, as far as its own process shows.",
    number=18,
    severity="medium",
    remedy="Ship what the episode needs, and grade without a network.",
)
def egress_denied(v: Validation, result: CheckResult) -> None:
    """Watch which hosts are looked up or connected to while a new environment is played."""
    if hasattr(v.subject.env.unwrapped, "url"):
        raise Skip("it is a server, and what that asks for is not seen here")
    hosts = {name for kind, name in _noted(v, result) if kind == "host" and not _is_here(name)}
    if hosts:
        result.add("hosts", f"an episode asks for {', '.join(sorted(hosts)[:4])}", hosts=sorted(hosts))


@check(
    "runtime.host_containment",
    SOUND,
    "No action runs as code on this machine, and no episode writes outside of temporary folders.",
    number=19,
    remedy="Run what a policy writes in a sandbox, never by eval or a shell; write into a temporary folder.",
)
def host_containment(v: Validation, result: CheckResult) -> None:
    """Try to make a folder, by Python and by a shell, wherever a text is read; and watch what files are opened."""
    if not v.subject.texts:
        raise Skip("actions are no texts")
    mark = Path(tempfile.gettempdir()) / f"rlvr-mark-{os.getpid()}"
    codes = (f"__import__('os').mkdir({str(mark)!r})", f"$(mkdir {mark})", f"; mkdir {mark}", f"mkdir {mark}")
    head, tail = v.form
    texts = [text for code in codes for text in (code, f"\\boxed{{{code}}}", f"{head}{code}{tail}")]
    texts += [f"{verb} {code}" for verb in verbs(v)[:8] for code in codes]
    for call in templates(v)[:6]:  # with code for each text among its arguments
        texts += [json.dumps({key: _with(value, code) for key, value in call.items()}) for code in codes]
    texts += [call for calls in declared_calls(v, codes).values() for call in calls]
    for text in dict.fromkeys(texts):
        with contextlib.suppress(NotApplicable):
            played = v.plays(v.refs[0], [text, text])
            result.tries += 1
            if mark.exists():
                shutil.rmtree(mark, ignore_errors=True)
                result.add("code", f"{text[:120]!r} runs on this machine: it made a folder", replay=played.replay)
                break
    folders = tempfile.gettempdir(), str(Path.home() / ".cache"), "/dev", "/proc", "/sys"
    allowed = tuple(os.path.realpath(folder) for folder in folders)
    paths = {os.path.realpath(name) for kind, name in _noted(v, result) if kind == "path"}
    outside = sorted(path for path in paths if not path.startswith(allowed) and "__pycache__" not in path)
    if outside:
        text = f"an episode writes {', '.join(outside[:3])}"
        result.add("files", text, severity="medium", paths=outside[:20])


@check(
    "runtime.task_declaration_accuracy",
    SOUND,
    "Every task that is declared can be reset, and tasks differ.",
    number=35,
    severity="medium",
    remedy="List the tasks that there are, and let reset take each.",
)
def task_declaration_accuracy(v: Validation, result: CheckResult) -> None:
    """Reset the first declared tasks and the last; of ours, each level of each split, and the last row."""
    refs = list(_declared(v))
    firsts = []
    for ref in refs[:20] + refs[20:][-1:]:
        result.tries += 1
        try:
            firsts.append(first_seen(v.subject.begin(ref, v.subject.env)))
        except ApiFault as fault:
            replay = ValidationEpisode(ref).replay
            result.add("reset", f"a declared task cannot be reset: {fault}", severity="high", replay=replay)
            return
    if len(firsts) >= 5 and len(set(firsts)) == 1:
        result.add("alike", f"{len(firsts)} declared tasks begin alike: {firsts[0][0][:80]!r}")


def _declared(v: Validation) -> Iterator[TaskRef]:
    """The tasks that are declared: by levels and splits, or by ``tasks`` and an option of reset.

    Raises:
        Skip: none are.
    """
    env, bare = v.subject.text_env, v.subject.env.unwrapped
    if env is not None:
        splits = [{}] if env.size is not None else [{"split": split} for split in env.task.splits]
        last = 0 if env.size is None else env.size - 1
        for level in range(1, v.subject.levels + 1):
            yield from (TaskRef(v.seed, {"level": level, "index": last, **split}) for split in splits)
        return
    tasks, number = getattr(bare, "tasks", None), getattr(bare, "num_tasks", None)
    options = [name for name in TASKS if name in options_read(type(bare))]
    if not options or not (isinstance(tasks, (list, tuple)) or isinstance(number, int)):
        raise Skip("no tasks are declared that an option of reset names")
    for index, task in enumerate(tasks if isinstance(tasks, (list, tuple)) else range(number or 0)):
        name = task.get("id", index) if isinstance(task, Mapping) else task
        yield TaskRef(v.seed, {options[0]: index if "index" in options[0] else name})


@check(
    "runtime.state_contract",
    SOUND,
    "The served state names the episode that reset was given, and counts its steps.",
    number=31,
    severity="medium",
    remedy="Keep episode_id and step_count in State: reset sets them, every step adds one.",
)
def state_contract(v: Validation, result: CheckResult) -> None:
    """Ask for the state of two episodes, after the reset and after each of a few steps."""
    env, rng = v.subject.env, np.random.default_rng(8)
    ask = getattr(env.unwrapped, "server_state", None)
    if ask is None:
        raise Skip("it serves no state")
    for number, ref in enumerate(v.refs[:2]):
        wanted = {"episode_id": f"validation-{number}", "step_count": 0}
        named = TaskRef(ref.seed, {**ref.options, "episode_id": wanted["episode_id"]})
        episode = v.subject.begin(named, env)
        while not result.findings:
            state = ask()
            result.tries += 1
            for name, value in wanted.items():
                if type(state.get(name)) is not type(value) or state[name] != value:
                    text = f"after {len(episode.actions)} actions at {named} its {name} is {state.get(name)!r}"
                    result.add(name, f"{text}, not {value!r}", replay=episode.replay)
            if episode.ended or episode.error or len(episode.actions) == 3:
                break
            v.subject.step(env, episode, v.subject.sampled(env, episode, rng))
            refused = episode.verdict is not None and episode.verdict.status == "unparsable"  # which no server saw
            wanted["step_count"] += not refused  # type: ignore[operator]


@check(
    "static.task_distribution_pinning",
    SOUND,
    "Data that is loaded from a hub is loaded at a revision.",
    number=42,
    severity="medium",
    remedy="Give load_dataset and its like revision=, a commit.",
)
def task_distribution_pinning(v: Validation, result: CheckResult) -> None:
    """Look for calls of loaders in the source of the environment's class."""
    for _, tree in sources(v.author):
        result.tries += 1
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            of_files = call.args[:1] and isinstance(call.args[0], ast.Constant) and call.args[0].value in FILES
            if name in LOADERS and not of_files and not {key.arg for key in call.keywords} & {None, "revision"}:
                result.add("revision", f"`{ast.unparse(call)[:120]}` names no revision")
                return


def _noted(v: Validation, result: CheckResult) -> set[tuple[str, str]]:
    """Hosts that are asked for and paths that are changed while a new environment is made and played."""
    if not _HOOK:
        sys.addaudithook(_note)
    _HOOK[:], rng = [True], np.random.default_rng(7)
    _SEEN.clear()
    solutions = [in_order(episode.actions) for episode in v.experts[:3]]
    try:
        with v.subject.new() as env:
            for ref, *policies in zip_longest(v.refs[:3], solutions):
                for policy in (*filter(None, policies), lambda env, played: v.subject.sampled(env, played, rng)):
                    with contextlib.suppress(NotApplicable):
                        v.subject.play(ref, policy, env=env, turns=20)
                        result.tries += 1
        return set(_SEEN)
    finally:
        _HOOK[:] = [False]


def _with(arguments: Any, text: str) -> Any:
    if not isinstance(arguments, Mapping):
        return arguments
    return {name: text if isinstance(value, str) else value for name, value in arguments.items()}


def _note(event: str, args: tuple[Any, ...]) -> None:
    """The hook of `sys.addaudithook`; it may not raise."""
    if not _HOOK[0]:
        return
    if event in ("socket.getaddrinfo", "socket.connect"):
        host = args[0] if event == "socket.getaddrinfo" else args[1][0] if isinstance(args[1], tuple) else "localhost"
        _SEEN.append(("host", host.decode() if isinstance(host, bytes) else str(host)))
    elif event in CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & WRITES):
        path = os.fsdecode(args[0]) if isinstance(args[0], (str, bytes)) else os.devnull
        # What has a folder's number as its last argument is named within that folder, which is not known here.
        _SEEN.append(("path", path if event == "open" or os.path.isabs(path) or args[-1] == -1 else os.devnull))


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", "None", "")
