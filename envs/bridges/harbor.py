"""Task folders of Harbor as environments: the agent's container and the verifier's are sandboxes here, without docker.

An action is a bash script, which runs as root in the task's image; the observation is what it prints. ``<Done>`` hands
the work in, and so does the last turn. The verifier then runs as Harbor runs it: in an image of its own that only the
artifacts reach, or, where the task asks for that, in a new start of the agent's. The files of the image are in the
state, so that an episode can be forked and restored; processes end with the action that started them.
"""

from __future__ import annotations

import base64
import json
import math
import os
import random
import re
import shlex
import tarfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from rlvr.envs.bridges.harbor_files import handed_over, merged, opened, replaced, without
from rlvr.envs.bridges.harbor_folder import (
    HarborFolder,
    Image,
    agent_image,
    find_folders,
    read_folder,
    solution_files,
    verifier_image,
    with_tests,
)
from rlvr.envs.core.seeding import digest_of_texts
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.extraction import command_text
from rlvr.envs.rewards.graders.code import sandbox_fault
from rlvr.envs.sandbox import SandboxError
from rlvr.envs.sandbox.images import run_in_image
from rlvr.envs.tools.tool import shown

MAX_SHOWN = 8_000  # characters of what an action prints
_FENCE = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)
_VERIFIER = "/logs/verifier"
RAN = Verdict(0.0, "partial", reason="ran a script")
FULL = "more than 64 MB, or 20,000 files, were written"
MEMORY = "more memory was used than an image has, which is 2 GB"


class HarborState(NamedTuple):
    """A task folder's number, the files of its image, what the last action printed, and how many there were."""

    number: int
    files: bytes
    printed: str = ""
    actions: int = 0


class Harbor(Task[HarborState]):
    """Solve a task of Harbor in its own root filesystem; its verifier says what that is worth.

    Args:
        folder: a task folder, or a folder of task folders.
        split: only the tasks of a split: the one that an exported folder names, else by the hash of the task's
            content. None takes all.
        max_turns: actions an episode may take.
        seconds: an action may take.

    Raises:
        ValueError: there is no such folder, a task cannot be run here, or none is in the split.
        SandboxUnavailable: this machine has no bubblewrap, or forbids what it needs.
    """

    reads_split = True
    row_settings = frozenset(("folder",))

    def __init__(
        self, *, folder: str | os.PathLike[str], split: str | None = None, max_turns: int = 30, seconds: float = 60.0
    ) -> None:
        if max_turns < 1 or not 0 < seconds < math.inf:
            raise ValueError(f"max_turns must be at least 1 and seconds positive, got {max_turns} and {seconds}")
        paths = find_folders(Path(folder))
        if not paths:
            raise ValueError(f"{folder} holds no task folder of Harbor: none has a task.toml")
        folders = [read_folder(path.resolve()) for path in paths]
        self.folders = [each for each in folders if split in (None, each.split)]
        if not self.folders:
            raise ValueError(
                f"none of the {len(folders)} tasks in {folder} is in the {split} split; split=None takes all"
            )
        run_in_image(b"", "true")
        self.size, self.max_turns, self.seconds = len(self.folders), max_turns, seconds
        self._sound: set[HarborFolder] = set()  # whose verifiers were seen to work
        self._problems: dict[HarborFolder, str] = {}
        self.system = (
            "You work as root in a Linux container without network. Your reply is run as a bash script, and what it "
            "prints comes back. Files stay; variables, the current folder and processes do not. Write the script "
            "alone, without explanation. When the task is finished, reply with <Done> alone."
        )

    def row(self, index: int, rng: random.Random) -> HarborState:
        """Task folder ``index``, with the files of its image.

        Raises:
            ValueError: a command of its Dockerfile fails here.
        """
        return HarborState(index, agent_image(self.folders[index]).files)

    def rows_digest(self) -> str | None:
        """Of the folders' contents; no image is built for it."""
        return digest_of_texts(each.content for each in self.folders)

    def turns(self, level: int) -> int:
        return self.max_turns

    def content(self, state: HarborState) -> str:
        """A digest of instruction, environment and tests."""
        return self.folders[state.number].content

    def observe(self, state: HarborState) -> str:
        """The instruction; then what the last action printed, and its exit code."""
        return state.printed if state.actions else self.folders[state.number].instruction

    def solve(self, state: HarborState) -> str:
        """The folder's own solution, unpacked and run; then ``<Done>``.

        Raises:
            NotImplementedError: it has none.
        """
        if state.actions:
            return "<Done>"
        files = solution_files(self.folders[state.number])
        if files is None:
            raise NotImplementedError(f"{self.folders[state.number].path.name} has no solution/solve.sh")
        text = base64.encodebytes(files).decode()
        variables = self.folders[state.number].solution_variables
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables)
        return (
            f"base64 -d > /tmp/solution.tar.gz <<'END'\n{text}END\n"
            f"tar -xzf /tmp/solution.tar.gz -C /tmp && rm /tmp/solution.tar.gz && {exports}bash /tmp/solution/solve.sh"
        )

    def sample_action(self, state: HarborState, rng: random.Random) -> str:
        """One of four harmless scripts, or ``<Done>``."""
        return rng.choice(("ls -la", "pwd", "cat *", "find . -type f | head", "<Done>"))

    def apply(self, state: HarborState, action: str) -> Transition:
        """Runs the script; ``<Done>`` runs the verifier. A fault of ours is ``env_error`` or ``verifier_error``."""
        script = command_text(action).strip()
        if fence := _FENCE.match(script):
            script = fence[1]
        folder = self.folders[state.number]
        if script.lower() == "<done>":
            return Transition(state, self._verified(folder, state.files), terminated=True)
        state = state._replace(actions=state.actions + 1)
        if not script or "\0" in script:
            problem = "the reply holds no script"
            return Transition(state._replace(printed=f"[{problem}]"), unparsable(problem))
        image = agent_image(folder)._replace(files=state.files)
        try:
            done = _run(image, script.encode("utf-8", "replace").decode(), self.seconds)
        except (SandboxError, OSError) as error:
            return Transition(state, sandbox_fault(error, "env_error"), terminated=True)
        if done.files is None:
            return Transition(state, wrong(reason=MEMORY if done.out_of_memory else FULL), terminated=True)
        end = f"stopped after {self.seconds:g} s" if done.exit_code is None else f"exit code {done.exit_code}"
        printed = f"{shown(done.output.rstrip(), MAX_SHOWN)}\n[{end}]".lstrip()
        return Transition(state._replace(files=done.files, printed=printed), RAN)

    def out_of_turns(self, state: HarborState, turns: int) -> Verdict:
        """The verifier's, on what stands there, as in Harbor."""
        return self._verified(self.folders[state.number], state.files)

    def _verified(self, folder: HarborFolder, files: bytes) -> Verdict:
        try:
            verdict = _judged(folder, files)
            if not verdict.valid and self._is_sound(folder):  # then the agent's files are the cause
                return wrong(reason=f"{verdict.reason}; on an untouched image the verifier does its work")
            if verdict.valid and verdict.reward <= 0.0 and (problem := self._problem(folder)):
                return Verdict(0.0, "verifier_error", reason=problem)
            return verdict
        except (SandboxError, OSError, ValueError, tarfile.TarError, zlib.error, EOFError) as error:
            return sandbox_fault(error, "verifier_error")

    def _problem(self, folder: HarborFolder) -> str:
        """Why nobody can be paid here, if the folder's own solution is not; "" if it is, or there is none."""
        if folder not in self._problems:
            self._problems[folder] = _unsolved(folder)
        return self._problems[folder]

    def _is_sound(self, folder: HarborFolder) -> bool:
        """Whether the verifier gives a reward where nothing was done."""
        if folder not in self._sound and _judged(folder, agent_image(folder).files).valid:
            self._sound.add(folder)
        return folder in self._sound


def _run(image: Image, command: str, seconds: float) -> Any:
    return run_in_image(image.files, command, folders=image.folders, cwd=image.cwd, env=image.env, seconds=seconds)


def _unsolved(folder: HarborFolder) -> str:
    """Why the folder's own solution earns nothing here: a verifier, or a solution, that needs a network, as many do.

    Raises:
        SandboxError: the sandbox failed. ValueError: what it returned cannot be read.
    """
    solution = solution_files(folder)
    if solution is None:
        return ""
    image = agent_image(folder)
    variables = {**image.env, **dict(folder.solution_variables)}
    image = image._replace(
        files=merged(image.files, solution), folders=tuple({*image.folders, "solution"}), env=variables
    )
    done = _run(image, "chmod +x /solution/solve.sh && exec /solution/solve.sh", folder.solution_seconds)
    if done.files is None:
        reason = MEMORY if done.out_of_memory else FULL
    else:
        verdict = _judged(folder, without(done.files, "solution"))
        if verdict.reward > 0.0:
            return ""
        reason = verdict.reason
    return f"the folder's own solution earns nothing here, where there is no network: {reason}"[:500]


def _judged(folder: HarborFolder, files: bytes) -> Verdict:
    """Collect, hand over, run ``tests/test.sh`` and read the reward.

    Raises:
        SandboxError: the sandbox failed. ValueError: what it returned cannot be read.
    """
    image = agent_image(folder)._replace(files=files)
    untouched = files == agent_image(folder).files  # as built: only a first process packs each name once
    for command in (*(("true",) if untouched else ()), *folder.collect):
        collected = _run(image, command, 60.0)
        if collected.files is None:
            return Verdict(0.0, "verifier_error", reason=MEMORY if collected.out_of_memory else FULL)
        image = image._replace(files=collected.files)
    if folder.separate:
        verifier = verifier_image(folder)
        handed = handed_over(image.files, folder.artifacts)
        names = (*image.folders, *(path.split("/")[1] for path in folder.artifacts))
        image = verifier._replace(files=replaced(verifier.files, handed), folders=tuple({*verifier.folders, *names}))
    else:
        image = with_tests(folder, image)._replace(env={**image.env, **dict(folder.variables[1])})
    command = (
        f"rm -rf {_VERIFIER}; mkdir -p {_VERIFIER} && chmod +x /tests/test.sh && cd {json.dumps(image.cwd)} && "
        "exec /tests/test.sh"
    )
    done = _run(image, command, folder.seconds)
    if done.out_of_memory:
        return Verdict(0.0, "verifier_error", reason=MEMORY)
    if done.exit_code is None:
        return Verdict(0.0, "timeout", reason=f"the verifier took over {folder.seconds:g} s")
    if done.files is None:
        return Verdict(0.0, "verifier_error", reason=f"in the verifier {FULL}")
    return _reward(done.files, " ".join(done.output.split())[-300:])


def _reward(files: bytes, printed: str) -> Verdict:
    """The verdict of the verifier's file: ``reward.json`` before ``reward.txt``."""
    texts = {}
    with opened(files) as tar:
        for entry in tar:
            name = entry.name.removeprefix(f"{_VERIFIER[1:]}/")
            file = tar.extractfile(entry) if entry.isreg() and entry.size <= 1 << 16 else None
            if file is not None and name in ("reward.json", "reward.txt"):
                texts[name] = file.read().decode("utf-8", "replace")
    try:
        if "reward.json" in texts:
            named = json.loads(texts["reward.json"])
            parts = {key: float(value) for key, value in named.items()} if isinstance(named, dict) else {}
            reward = parts.pop("reward") if isinstance(named, dict) else float(named)
        else:
            reward, parts = float(texts["reward.txt"]), {}
        if not all(map(math.isfinite, (reward, *parts.values()))):
            raise ValueError("no finite number")
    except (KeyError, ValueError, TypeError, ArithmeticError, RecursionError):
        return Verdict(0.0, "verifier_error", reason=f"the verifier wrote no reward: {printed}"[:500])
    if reward >= 1.0:
        return correct(reason=printed, reward=reward).replace(parts=parts)
    verdict = wrong(reason=printed) if reward <= 0.0 else Verdict(reward, "partial", reason=printed)
    return verdict.replace(reward=reward, parts=parts)
