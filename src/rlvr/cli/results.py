"""``rlvr compare``, ``table``, ``regrade`` and ``report``: results side by side, graded anew, and a run's report."""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.cli.options import add_force, add_settings, require_new, settings_of
from rlvr.envs.core.code_rule import require_registered
from rlvr.envs.core.files import drafted, mark_written, write_whole
from rlvr.envs.core.json_text import load_json

REPORT = '<iframe sandbox title="report" srcdoc="'  # what the page of a report, and no other, is made of
AT_ONCE = 50  # episodes that are graded anew

if TYPE_CHECKING:
    from rlvr.agents import Episode
    from rlvr.agents.evaluation.regrade import Regraded


def compare(options: argparse.Namespace, rest: list[str]) -> int:
    """Set two results of `rlvr eval --out` side by side."""
    from rlvr.agents.evaluation.compare import compare as paired

    result = paired(recorded(options.a), recorded(options.b))
    if options.json:
        print(json.dumps(result.to_dict()))
        return 0
    print(f"A {options.a}\nB {options.b}\n{result}")
    for note in result.notes:
        print(f"note: {note}")
    for name, tasks in (("gained", result.gained), ("lost", result.lost)):
        for task in tasks[: options.tasks]:
            print(f"{name}: " + " ".join(f"{part} {value}" for part, value in asdict(task).items()))
    return 0


def regrade(options: argparse.Namespace, rest: list[str]) -> int:
    """Play the actions of recorded episodes again and say which verdicts are others now."""
    from rlvr.agents import summarise
    from rlvr.agents.evaluation.records import figures_only, require_lines
    from rlvr.agents.evaluation.same_tasks import digest_notes

    if not options.file.exists():
        raise FileNotFoundError(f"there is no file {options.file}")
    if options.out is not None:
        if options.out.exists() and options.file.exists() and options.out.samefile(options.file):
            raise ValueError(f"{options.out} is what is graded anew: give another --out")
        require_lines(options.out)
        require_new(options.out, options.force)
    before: list[Episode] = []
    after: list[Episode] = []
    changed = others = lenient = 0
    with nullcontext() if options.out is None else drafted(options.out) as file:
        for regraded, succeeded in _regraded(options.file, settings_of(options)):
            lenient += succeeded
            for each in regraded:
                if each.changed:
                    other = "" if each.same_task else " (the task has changed)"
                    print(f"{each.before.key}: {_outcome(each.before)} -> {_outcome(each.after)}{other}")
                changed, others = changed + each.changed, others + (not each.same_task)
                before.append(figures_only(each.before))
                after.append(figures_only(each.after))
                if file is not None:
                    file.write(json.dumps(each.after.to_dict()) + "\n")
        if not before:
            raise ValueError(f"{options.file} holds no episode")
    if options.out is not None:
        mark_written(options.out)
    print(f"{len(before)} episodes, {changed} verdicts changed, {others} saw another observation than now")
    for note in digest_notes([("the record", before), ("now", after)]):
        print(f"note: {note}")
    print(f"before:\n{summarise(before)}\nnow:\n{summarise(after)}")
    if single := sum(episode.valid and len(episode.turns) == 1 for episode in after):
        of_what = "the last number or single letter of a reply, in whatever form; never a reward"
        print(f"lenient success {lenient}/{single} = {lenient / single:.3f} ({of_what})")
    return 0


def _regraded(path: Path, settings: dict[str, Any]) -> Iterator[tuple[list[Regraded], int]]:
    """Some episodes of a file at a time, graded anew, and how many succeed where any form will do."""
    from rlvr.agents import ConstantAgent, Rollout
    from rlvr.agents.evaluation.records import scan_episodes
    from rlvr.agents.evaluation.regrade import lenient_successes, regrade

    rollouts: dict[str, Rollout] = {}
    for env_id, episodes in groupby(scan_episodes(path), lambda episode: episode.env_id):
        if env_id not in rollouts:
            require_registered(env_id, settings)
            rollouts[env_id] = Rollout(env_id, ConstantAgent(), env_settings=settings)
        while some := list(islice(episodes, AT_ONCE)):
            regraded = list(regrade(rollouts[env_id], some))
            yield regraded, lenient_successes(rollouts[env_id], [each.after for each in regraded])


def table(options: argparse.Namespace, rest: list[str]) -> int:
    """Print or write a table of results, agents by environments."""
    if options.out is not None and options.json:
        raise ValueError("--json prints, and --out writes X.md or X.html: give one of them")
    if options.out is not None and options.out.suffix not in (".md", ".html"):
        raise ValueError(f"--out takes X.md or X.html, not {options.out}")
    if options.out is not None:
        require_new(options.out, options.force)
    from rlvr.agents.evaluation.table import result_table, setting_notes

    results = [_result(name) for name in _files(options.files)]
    agents = [agent for agent, _, _, _ in results]
    played_with = [
        (agent if agents.count(agent) == 1 else f"{agent} in {path}", played)
        for agent, path, _, played in results
        if played is not None
    ]
    text = result_table([(agent, episodes) for agent, _, episodes, _ in results], setting_notes(played_with))
    if options.out is None:
        print(json.dumps(text.to_dict()) + "\n" if options.json else text.to_markdown(line_width()), end="")
        return 0
    write_whole(options.out, text.to_html() if options.out.suffix == ".html" else text.to_markdown())
    mark_written(options.out)
    print(options.out)
    return 0


def line_width() -> int | None:
    """How many characters a line of the terminal holds; None where the output is no terminal's."""
    return shutil.get_terminal_size((0, 0)).columns or None


def _files(names: list[str]) -> list[str]:
    """The files that are named, and those in a folder that is: `rlvr eval` of several agents writes one."""
    from rlvr.agents.evaluation.records import is_beside_episodes

    paths: list[str] = []
    for name in names:
        inside = [name]
        if Path(name).is_dir():
            inside = sorted(str(path) for path in Path(name).glob("*.jsonl") if not is_beside_episodes(path))
        if not inside:
            raise FileNotFoundError(f"the folder {name} holds no *.jsonl")
        paths += inside
    return paths


def _result(source: str) -> tuple[str, Path, list[Episode], dict[str, Any] | None]:
    """Of ``FILE`` or ``NAME=FILE`` the name of its agent, its path, its episodes and the options beside it, if any."""
    from rlvr.agents.evaluation.records import figures_only, read_episodes
    from rlvr.agents.evaluation.table import name_of

    name, _, file = source.rpartition("=")
    path = Path(source if Path(source).is_file() else file)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    beside = path.with_name(path.name + ".options.json")
    played = load_json(beside.read_text(encoding="utf-8")) if beside.is_file() else None
    options = played if isinstance(played, dict) else None
    return (name_of(path, options) if path == Path(source) else name), path, read_episodes(path, figures_only), options


def _outcome(episode: Episode) -> str:
    return f"{episode.verdict.status if episode.verdict else 'unfinished'} {episode.reward:g}"


def recorded(path: Path) -> list[Episode]:
    """The figures of the episodes of a file, one at least."""
    from rlvr.agents.evaluation.records import figures_only, read_episodes

    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    episodes = read_episodes(path, figures_only)
    if not episodes:
        raise ValueError(f"{path} holds no episode")
    return episodes


def report(options: argparse.Namespace, rest: list[str]) -> int:
    """Write ``report.html`` and ``curve.png`` anew."""
    if not options.run.is_dir():
        raise ValueError(f"there is no folder {options.run}")
    if not (options.run / "config.yaml").is_file():
        raise ValueError(f"{options.run} holds no run: it has no config.yaml")
    _require_ended(options.run)
    _require_own_page(options.run / "report.html", options.force)
    try:
        from rlvr.algorithms.runs.report import write_report

        page = write_report(options.run)
    except ModuleNotFoundError as error:
        raise ImportError(f'a report needs {error.name}: pip install "rlvr[train]"') from error
    print(page)
    return 0


def _require_own_page(page: Path, force: bool) -> None:
    """A report of an earlier time is written anew; another file of that name is somebody's work."""
    if page.is_file() and REPORT not in page.read_text(encoding="utf-8", errors="replace"):
        require_new(page, force)


def _require_ended(run: Path) -> None:
    """Reading a file of episodes cuts a torn line off, which must not happen to one that is being written.

    Raises:
        ValueError: a process writes in the folder.
    """
    if not (run / "lock").is_file():
        return
    with (run / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{run} is being written: wait until its run has ended; `rlvr view` shows it now"
            ) from None


def add_parsers(commands: Any) -> None:
    """Add the commands of this file to the sub-commands of `rlvr`."""
    comparing = commands.add_parser("compare", help="set two results of `rlvr eval --out` side by side, task by task")
    comparing.add_argument("a", type=Path, help="JSONL file of episodes")
    comparing.add_argument("b", type=Path, help="JSONL file of episodes")
    comparing.add_argument("--tasks", type=int, default=10, help="how many tasks gained and lost to name")
    comparing.add_argument("--json", action="store_true", help="print one JSON object")
    comparing.set_defaults(command=compare)

    showing = commands.add_parser("table", help="a table of results of `rlvr eval --out`: agents by environments")
    showing.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSONL file of episodes, or a folder of such; NAME=FILE names its agent",
    )
    showing.add_argument("--out", type=Path, metavar="X.md", help="X.md or X.html to write; printed if left out")
    showing.add_argument("--json", action="store_true", help="print one JSON object")
    add_force(showing)
    showing.set_defaults(command=table)

    regrading = commands.add_parser("regrade", help="grade recorded episodes with the environments as they are now")
    regrading.add_argument("file", type=Path, help="JSONL file of episodes")
    regrading.add_argument("--out", type=Path, help="JSONL file of the episodes with their new verdicts")
    add_force(regrading)
    add_settings(regrading)
    regrading.set_defaults(command=regrade)

    reporting = commands.add_parser("report", help="write the report of a run again")
    reporting.add_argument("run", type=Path, help="folder of a run")
    add_force(reporting)
    reporting.set_defaults(command=report)
