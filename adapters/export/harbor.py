"""Tasks as folders of Harbor: what an agent is asked, the files it begins with, a verifier apart from them, a solution.

The form is schema version 1.4 of https://github.com/laude-institute/harbor (read in its release 0.25.0). The verifier
has a container of its own, so that nothing the agent changed there is run with its rights, and it is given ``/app``
alone. What it compares with stands in ``tests/``, which Harbor never shows to the agent. The same call writes the same
bytes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from rlvr.adapters.export import harbor_verify
from rlvr.agents.evaluation.play import task_requests
from rlvr.envs.agentic import coding_tasks, terminal
from rlvr.envs.agentic.chores import VARIABLES, Chore
from rlvr.envs.core.files import make_folder, require_new_folder, write_whole
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.sandbox.inside import wire
from rlvr.envs.tasks.digests import env_digest

SCHEMA = "1.4"
BASE = "python:3.11-bookworm"
WORKSPACE = "environment/workspace/"
IMPORTED = "from rlvr.envs.sandbox.inside import wire\n"
TASKS = (coding_tasks.CodeRepair, coding_tasks.CodeTests, terminal.Terminal)
FORMS = "rlvr/CodeRepair-v0, rlvr/CodeTests-v0 and rlvr/Terminal-v0"
SOLUTION = "solution.py"


class NoForm(ValueError):
    """A task that Harbor cannot hold; the message is the end of "3 …"."""


class HarborTask(NamedTuple):
    """What differs from task to task.

    Attributes:
        instruction: what the agent reads.
        files: what ``/app`` holds at first.
        expected: what ``harbor_verify`` compares with.
        solution: a bash script that solves it.
        variables: of the agent's container.
    """

    instruction: str
    files: Mapping[str, bytes]
    expected: Mapping[str, Any]
    solution: str
    variables: Mapping[str, str] = {}


@dataclass(slots=True)
class Written:
    """How many tasks were written, and how many were left out by each reason."""

    tasks: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def write_tasks(env_id: str, out: Path, count: int | None, *, seed: int = 0, **settings: Any) -> Written:
    """Write the first ``count`` tasks (100) of an environment, each as a folder below ``out``.

    Args:
        settings: of ``gym.make``; without ``split`` the tasks are those of the train split.

    Raises:
        ValueError: the environment has no such form, or ``out`` is there and no empty folder.
        LinkRefused: ``out`` is a symbolic link.
        OSError: it cannot be written.
    """
    if count is not None and count < 1:
        raise ValueError(f"--episodes must be at least 1, got {count}")
    require_new_folder(out)
    written = Written()
    make = gym.make(env_id, **settings)
    try:
        env = make.unwrapped
        if not isinstance(env, TextEnv) or not isinstance(env.task, TASKS):
            raise ValueError(f"{env_id} has no form as folders of Harbor; {FORMS} have one")
        make_folder(out)
        digest = env_digest(make)
        for request in task_requests(None, count, seed=seed):
            _, info = make.reset(seed=request.seed, options={"index": request.index})
            spec = {name: info[name] for name in ("split", "level", "seed", "index")}
            try:
                task = harbor_task(env.get_state().state)
            except NoForm as reason:
                written.left_out[str(reason)] += 1
                continue
            _write(
                out,
                {"id": env_id, **spec, "settings": json.dumps(settings, sort_keys=True), "env_digest": digest},
                task,
            )
            written.tasks += 1
    finally:
        make.close()
    return written


def harbor_task(state: Any) -> HarborTask:
    """The task of an environment's state.

    Raises:
        NoForm: Harbor cannot hold it.
    """
    if isinstance(state, terminal.TerminalState):
        return _chore(terminal.chore_of(state))
    return _exercise(state)


def _chore(chore: Chore) -> HarborTask:
    if chore.daemons:
        raise NoForm("about background programs, which end with the agent's container")
    commands = [each for each in chore.commands if isinstance(each, str)]
    if len(commands) < len(chore.commands):
        raise NoForm("solved in a full-screen program, which a script cannot press keys in")
    if chore.modes:
        raise NoForm("about permissions, which Harbor does not carry to the verifier")
    if chore.setup or chore.trials or chore.databases:
        raise NoForm("about git, make, databases or times of files, which a Dockerfile's COPY does not carry")
    wanted = {**chore.files, **chore.wanted}
    for path in chore.data:
        wanted.pop(path, None)
    expected = {
        "kind": "workspace",
        "files": {path: None if content is None else _digest(content) for path, content in wanted.items()},
        "data": dict(chore.data),
        "links": dict(chore.links),
        "archives": {
            path: {name: _digest(content) for name, content in files.items()} for path, files in chore.archives.items()
        },
    }
    asked = (
        f"{chore.text}\n\nWork in /app: paths are relative to it. All other files there must stay as they are, and "
        "each line of a text, the last too, ends in a newline.\n"
    )
    variables = {name: text for name, text in VARIABLES.items() if name.startswith("GIT_")}
    return HarborTask(asked, chore.files, expected, "\n".join(commands) + "\n", variables)


def _exercise(state: coding_tasks.CodingState) -> HarborTask:
    exercise = coding_tasks.exercise_of(state._replace(feedback=""))
    expected = {
        "kind": "program",
        "form": exercise.form,
        "path": SOLUTION,
        "entry": exercise.entry,
        "tests": [
            {
                "calls": [
                    {"name": name, "args": [wire.encode(each) for each in arguments]}
                    for name, arguments, _ in exercise.calls(test)
                ],
                "expected": [wire.encode(value) for _, _, value in exercise.calls(test)],
            }
            for test in (*exercise.visible, *exercise.hidden)
        ],
    }
    start = exercise.broken or f"# {exercise.entry} is to be written here.\n"
    task = f"Repair the {exercise.form}" if exercise.broken else f"Write a Python {exercise.form}"
    asked = (
        f"{task} `{exercise.entry}` in /app/{SOLUTION}. Results are returned; what is printed does not count. "
        "Hidden tests decide, beside those below.\n\n"
        f"What {exercise.entry} must do: {exercise.text}\n\n```python\n{exercise.listed()}\n```\n"
    )
    end = "END_OF_SOLUTION"
    solution = f"cat > {SOLUTION} <<'{end}'\n{exercise.solution}\n{end}\n"
    return HarborTask(asked, {SOLUTION: start.encode()}, expected, solution)


def _write(out: Path, spec: Mapping[str, Any], task: HarborTask) -> None:
    short = spec["id"].rpartition("/")[2].partition("-v")[0].lower()
    name = f"{short}-{spec['split']}-level{spec['level']}-seed{spec['seed']}-{spec['index']:06d}"
    folder = out / name
    for path, content in _files(name, spec, task):
        target = folder / path
        make_folder(target.parent)
        write_whole(target, content)
        target.chmod(0o755 if path.endswith(".sh") and not path.startswith(WORKSPACE) else 0o644)


def _files(name: str, spec: Mapping[str, Any], task: HarborTask) -> Iterator[tuple[str, str | bytes]]:
    """Paths and contents of the folder."""
    verify = inspect.getsource(harbor_verify)
    if verify.count(IMPORTED) != 1:
        raise RuntimeError("the verifier does not import wire as the export expects")
    yield "task.toml", _config(name, spec)
    yield "instruction.md", task.instruction
    variables = "".join(f"ENV {key}={shlex.quote(text)}\n" for key, text in task.variables.items())
    image = f"FROM {BASE}\nENV LANG=C.UTF-8\n{variables}COPY workspace/ /app/\nWORKDIR /app\n"
    yield "environment/Dockerfile", image
    for path, content in task.files.items():
        yield f"{WORKSPACE}{path}", content
    yield "tests/Dockerfile", f"FROM {BASE}\nENV LANG=C.UTF-8\nCOPY . /tests/\n"
    yield "tests/test.sh", "#!/bin/bash\ncd /tests && exec python3 -E -s verify.py\n"
    yield "tests/verify.py", verify.replace(IMPORTED, "import wire\n")
    yield "tests/wire.py", inspect.getsource(wire)
    yield "tests/expected.json", json.dumps(task.expected, indent=1) + "\n"
    yield "solution/solve.sh", f"#!/bin/bash\ncd /app\n{task.solution}"


def _config(name: str, spec: Mapping[str, Any]) -> str:
    from rlvr import __version__

    origin = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in spec.items())
    return (
        f'schema_version = "{SCHEMA}"\nartifacts = ["/app"]\n\n'
        f'[task]\nname = "rlvr/{name}"\n\n'
        f'[metadata.rlvr]\n{origin}version = "{__version__}"\n\n'
        '[verifier]\nenvironment_mode = "separate"\ntimeout_sec = 300.0\n\n'
        '[verifier.environment]\nnetwork_mode = "no-network"\n\n'
        "[agent]\ntimeout_sec = 600.0\n\n"
        '[environment]\nnetwork_mode = "no-network"\nworkdir = "/app"\n'
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
