"""``rlvr export``: recorded or demonstrated episodes as training data for other tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.cli.options import add_force, add_settings, settings_of
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.registry import full_id

if TYPE_CHECKING:
    from rlvr.adapters.export.selection import Filter, Selection
    from rlvr.agents import Episode

EPISODES_ONLY = ("success", "min_reward", "env", "best_of", "dedupe", "max_turns", "max_tokens")


def export(options: argparse.Namespace, rest: list[str]) -> int:
    """Write the episodes that pass the filters, and say how many were left out, and why."""
    from rlvr.adapters.export.files import check_target, require_new_files, write
    from rlvr.adapters.export.selection import Selection, episode_files, read_all

    named = [options.expert, options.harbor, options.openenv]
    if bool(options.paths) + sum(name is not None for name in named) != 1:
        raise ValueError("say what to export: files or runs, or --expert ID, or --harbor ID, or --openenv ID")
    if options.openenv is not None:
        return _package(options)
    if options.harbor is not None:
        return _tasks(options)
    wanted = _wanted(options)
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
    written = write(selection.take(episodes, wanted), options.out, options.format, force=options.force)
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


def _tasks(options: argparse.Namespace) -> int:
    """Write an environment's tasks as folders of Harbor."""
    from rlvr.adapters.export.harbor import write_tasks

    _require_no_filters(options, "--harbor writes tasks")
    env_id, settings = full_id(options.harbor), settings_of(options)
    require_registered(env_id, settings)
    written = write_tasks(env_id, options.out, options.episodes, seed=options.seed, **settings)
    left_out = ", ".join(f"{count} {reason}" for reason, count in written.left_out.most_common())
    if not written.tasks:
        raise ValueError(f"none of the tasks is exported: {left_out}")
    print(f"{options.out}: {written.tasks} of {written.tasks + written.left_out.total()} tasks")
    if left_out:
        print(f"left out: {left_out}")
    return 0


def _package(options: argparse.Namespace) -> int:
    """Write an environment as a package of OpenEnv."""
    from rlvr.adapters.export.openenv import write_package

    _require_no_filters(options, "--openenv writes a package")
    if options.episodes is not None or options.seed:
        raise ValueError(
            "--episodes and --seed choose tasks, and the server of --openenv plays any task it is asked for"
        )
    env_id, settings = full_id(options.openenv), settings_of(options)
    require_registered(env_id, settings)
    name = write_package(env_id, options.out, **settings)
    print(f"{options.out}: the package {name}; openenv validate {options.out} --level static")
    return 0


def _require_no_filters(options: argparse.Namespace, reason: str) -> None:
    named = [name for name in EPISODES_ONLY if getattr(options, name)]
    if named or options.format != "chat":
        name = named[0].replace("_", "-") if named else "format"
        raise ValueError(f"--{name} is for episodes, and {reason}")


def _wanted(options: argparse.Namespace) -> Filter:
    from rlvr.adapters.export.selection import Filter

    for name in ("max_turns", "max_tokens", "episodes"):
        if (limit := getattr(options, name)) is not None and limit < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {limit}")
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
        "export", help="write episodes as chats or trajectories, tasks for Harbor, or a package of OpenEnv"
    )
    exporting.add_argument("paths", nargs="*", type=Path, help="JSONL files of episodes, folders of them, or runs")
    exporting.add_argument(
        "--out", type=Path, required=True, help="X.jsonl or X.parquet; a new folder for --harbor, --openenv, or atif"
    )
    exporting.add_argument(
        "--format",
        choices=("chat", "openai", "atif"),
        default="chat",
        help="chat: messages as played, and reward; openai: for its fine-tuning; atif: Harbor's trajectories",
    )
    exporting.add_argument("--expert", metavar="ID", help="export the expert's episodes in an environment instead")
    exporting.add_argument("--harbor", metavar="ID", help="export an environment's tasks as folders of Harbor instead")
    exporting.add_argument("--openenv", metavar="ID", help="export an environment as a package of OpenEnv instead")
    exporting.add_argument("--episodes", type=int, help="of --expert or --harbor; all rows of a table, else 100")
    exporting.add_argument("--seed", type=int, default=0, help="decides the tasks of --expert and --harbor")
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
