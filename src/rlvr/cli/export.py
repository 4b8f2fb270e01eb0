"""``rlvr export``: recorded or demonstrated episodes as training data for other tools."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlvr.cli.options import add_force, add_settings, settings_of
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.files import write_new
from rlvr.envs.core.registry import full_id

if TYPE_CHECKING:
    from rlvr.adapters.export.selection import Filter, Selection
    from rlvr.agents import Episode

EVALUATIONS = ("every-eval-ever", "inspect", "parquet")
EPISODES_ONLY = ("success", "min_reward", "env", "best_of", "dedupe", "max_turns", "max_tokens")


def export(options: argparse.Namespace, rest: list[str]) -> int:
    """Write the episodes that pass the filters, and say how many were left out, and why."""
    from rlvr.adapters.export.files import check_target, require_new_files, write
    from rlvr.adapters.export.selection import Filter, Selection, episode_files, read_all

    targets = [name for name in TARGETS if getattr(options, name) is not None]
    if bool(options.paths) + (options.expert is not None) + options.schema + len(targets) != 1:
        flags = ", ".join(f"{_flag(name)} ID" for name in ("expert", *TARGETS))
        raise ValueError(f"say what to export: files or runs, --schema, or one of {flags}")
    if options.schema:
        from rlvr.agents import Episode

        write_new(options.out, json.dumps(Episode.json_schema(), indent=1) + "\n", options.force)
        return 0
    if targets:
        return _environment(options, targets[0])
    if options.push:
        raise ValueError(f"--push is for an environment ({', '.join(map(_flag, TARGETS))}), not for episodes")
    wanted = _wanted(options)
    is_whole = options.format in EVALUATIONS
    if is_whole and wanted != Filter():
        raise ValueError(f"--format {options.format} is of whole evaluations: leave the filters out")
    check_target(options.out, options.format)
    selection = Selection()
    files: list[Path] = []
    if options.expert is None:
        if options.set:
            raise ValueError("--set makes the environment of --expert; recorded episodes are as they were played")
        files = episode_files(options.paths)
        if options.out.exists() and any(options.out.samefile(file) for file in files):
            raise ValueError(f"{options.out} is what is exported: give another --out")
    require_new_files(options.out, options.format, options.force, "--force")
    episodes = read_all(files, selection) if options.expert is None else _demonstrated(options)
    taken = episodes if is_whole else selection.take(episodes, wanted)
    written = write(taken, options.out, options.format, force=options.force)
    selection.seen += written * is_whole
    for problem in selection.problems:
        print(f"rlvr: {problem}", file=sys.stderr)
    if not written:
        raise ValueError(f"none of {selection.seen} episodes is exported: {_counts(selection) or 'there are none'}")
    print(f"{options.out}: {written} of {selection.seen} episodes")
    if selection.left_out:
        print(f"left out: {_counts(selection)}")
    return 0


def _counts(selection: Selection) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in selection.left_out.most_common())


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _environment(options: argparse.Namespace, target: str) -> int:
    """Write an environment in the form of another suite."""
    named = [name for name in EPISODES_ONLY if getattr(options, name)]
    if named or options.format != "chat":
        flag = _flag(named[0] if named else "format")
        raise ValueError(f"{flag} is for episodes, and {_flag(target)} writes {TARGETS[target].writes}")
    if not TARGETS[target].has_tasks and (options.episodes is not None or options.seed):
        raise ValueError(
            f"--episodes and --seed choose tasks, and the package of {_flag(target)} plays any task it is asked for"
        )
    env_id, settings = full_id(getattr(options, target)), settings_of(options)
    require_registered(env_id, settings)
    status = TARGETS[target].write(options, env_id, settings)
    if options.push and not status:
        _push(options.out, options.push, [part.format(out=options.out) for part in TARGETS[target].check])
    return status


def _push(folder: Path, repository: str, check: list[str]) -> None:
    """Upload a folder that the suite's own check, where it is installed, has passed.

    Raises:
        ImportError: huggingface_hub is missing.
        ValueError: it did not pass, or the hub did not take it.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise ImportError('--push needs huggingface_hub: pip install "rlvr[hub]"') from error

    name = check[0] if check else ""
    if program := name and (shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)):
        done = subprocess.run([program, *check[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise ValueError(f"{' '.join(check)} ends with {done.returncode}, and nothing is uploaded: {done.stdout}")
        print(f"{' '.join(check)}: passed")
    else:
        print(f"not checked by the suite itself: {name or 'its check'} is not here, or needs the package installed")
    try:
        api = HfApi()
        api.create_repo(repository, repo_type="dataset", private=True, exist_ok=True)
        api.upload_folder(repo_id=repository, repo_type="dataset", folder_path=folder)
    except Exception as error:  # the hub's errors and the network's have many types
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{folder} could not be uploaded to {repository}: {reason}") from error
    print(f"uploaded to the data set {repository} of the hub, which is private unless it was there")


def _write_harbor(options: argparse.Namespace, env_id: str, settings: dict[str, Any]) -> int:
    from rlvr.adapters.export.harbor import write_tasks

    written = write_tasks(env_id, options.out, options.episodes, seed=options.seed, **settings)
    left_out = ", ".join(f"{count} {reason}" for reason, count in written.left_out.most_common())
    if not written.tasks:
        raise ValueError(f"none of the tasks is exported: {left_out}")
    print(f"{options.out}: {written.tasks} of {written.tasks + written.left_out.total()} tasks")
    if left_out:
        print(f"left out: {left_out}")
    return 0


def _write_openenv(options: argparse.Namespace, env_id: str, settings: dict[str, Any]) -> int:
    from rlvr.adapters.export.openenv import write_package

    name = write_package(env_id, options.out, **settings)
    print(f"{options.out}: the package {name}; openenv validate {options.out} --level static")
    return 0


def _write_verifiers(options: argparse.Namespace, env_id: str, settings: dict[str, Any]) -> int:
    from rlvr.adapters.export.verifiers import write_package

    name = write_package(env_id, options.out, **settings)
    check = f"vf-validate {name} -n 20 --only-gold --runtime.type subprocess"
    print(f"{options.out}: the package {name}; pip install -e {options.out} && {check}")
    return 0


def _write_nemo_gym(options: argparse.Namespace, env_id: str, settings: dict[str, Any]) -> int:
    from rlvr.adapters.export.package import packaged
    from rlvr.adapters.suites.nemo_gym import write_project

    env = packaged(env_id, **settings)
    config = write_project(
        options.out,
        env_id,
        options.episodes or (None if env.counts else 100),
        seed=options.seed,
        kwargs=settings,
        requirement="\n".join(env.requirements),
        force=options.force,
    )
    print(f"{options.out}: a project; in it, gym env validate --config {config.relative_to(options.out)}")
    return 0


class Target(NamedTuple):
    """Another suite, in whose form an environment is written.

    Attributes:
        writes: what is written, for messages.
        has_tasks: whether ``--episodes`` and ``--seed`` choose its tasks; else it plays any that it is asked for.
        write: writes it, and says what checks it; the exit status.
        check: the suite's own command that checks ``{out}`` as it lies there, where there is one.
    """

    writes: str
    has_tasks: bool
    write: Callable[[argparse.Namespace, str, dict[str, Any]], int]
    check: tuple[str, ...] = ()


TARGETS = {
    "harbor": Target("tasks", True, _write_harbor),
    "openenv": Target("a package", False, _write_openenv, ("openenv", "validate", "{out}", "--level", "static")),
    "verifiers": Target("a package", False, _write_verifiers),
    "nemo_gym": Target("a server and its rows", True, _write_nemo_gym),
}


def _wanted(options: argparse.Namespace) -> Filter:
    from rlvr.adapters.export.selection import Filter

    for name in ("max_turns", "max_tokens", "episodes"):
        if (limit := getattr(options, name)) is not None and limit < 1:
            raise ValueError(f"{_flag(name)} must be at least 1, got {limit}")
    return Filter(
        success=options.success,
        min_reward=options.min_reward,
        envs=tuple(options.env or ()),
        splits=(options.split,) if options.split else (),
        levels=(options.level,) if options.level is not None else (),
        max_turns=options.max_turns,
        max_tokens=options.max_tokens,
        best_of=options.best_of,
        dedupe=options.dedupe,
    )


def _demonstrated(options: argparse.Namespace) -> Iterator[Episode]:
    """The expert's episodes on the first tasks of the seed."""
    from rlvr.agents import ExpertAgent, Rollout, task_requests
    from rlvr.envs.core.registry import size_of

    if options.env:
        raise ValueError("--env chooses among recorded episodes; --expert names its environment itself")
    env_id, settings = full_id(options.expert), settings_of(options)
    require_registered(env_id, settings)
    rollout = Rollout(env_id, ExpertAgent(), env_settings=settings)
    requests = task_requests(size_of(rollout.env), options.episodes, seed=options.seed)
    return (episode for _, episode in sorted(rollout.stream(requests), key=lambda numbered: numbered[0]))


def add_parsers(commands: Any) -> None:
    """Add ``export`` to the sub-commands of `rlvr`."""
    exporting = commands.add_parser(
        "export", help="write episodes as chats or trajectories, or an environment in the form of another suite"
    )
    exporting.add_argument(
        "paths", nargs="*", type=Path, help="files of episodes or of other tools' logs, folders of JSONL, or runs"
    )
    exporting.add_argument(
        "--out",
        type=Path,
        required=True,
        help="X.jsonl or X.parquet; a new folder for atif and other suites; X.json, X.eval for evaluations",
    )
    exporting.add_argument(
        "--format",
        choices=("chat", "openai", "atif", "otel", *EVALUATIONS),
        default="chat",
        help="chat: messages as played, and reward; openai: for its fine-tuning; atif: Harbor's trajectories; "
        "otel: OpenTelemetry's spans; parquet: a table of whole records; "
        "every-eval-ever: the figures of an evaluation; inspect: an evaluation as its log",
    )
    exporting.add_argument("--expert", metavar="ID", help="export the expert's episodes in an environment instead")
    exporting.add_argument("--harbor", metavar="ID", help="export an environment's tasks as folders of Harbor instead")
    exporting.add_argument("--openenv", metavar="ID", help="export an environment as a package of OpenEnv instead")
    exporting.add_argument("--verifiers", metavar="ID", help="export it as a package of verifiers instead")
    exporting.add_argument("--nemo-gym", metavar="ID", help="export it as a server of NeMo Gym, with rows, instead")
    exporting.add_argument(
        "--schema", action="store_true", help="export the JSON schema of an episode's record instead"
    )
    exporting.add_argument(
        "--push",
        metavar="REPO",
        help="upload that folder to the hub as a data set, such as me/my-env, once it is checked",
    )
    exporting.add_argument(
        "--episodes", type=int, help="of --expert, --harbor or --nemo-gym; all rows of a table, else 100"
    )
    exporting.add_argument("--seed", type=int, default=0, help="decides which tasks these are")
    exporting.add_argument("--success", action="store_true", help="only episodes that succeeded")
    exporting.add_argument("--min-reward", type=float, metavar="R", help="only episodes with at least this return")
    exporting.add_argument("--env", action="append", help="only episodes of this environment; give it again for more")
    exporting.add_argument("--best-of", action="store_true", help="of each task only the best episode")
    exporting.add_argument("--dedupe", action="store_true", help="of episodes that say the same only the first")
    exporting.add_argument("--max-turns", type=int, metavar="N", help="only episodes of at most so many turns")
    exporting.add_argument("--max-tokens", type=int, metavar="N", help="only episodes of at most so many tokens in all")
    add_force(exporting)
    add_settings(exporting)
    exporting.set_defaults(command=export)
