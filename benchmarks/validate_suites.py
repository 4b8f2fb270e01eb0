"""What `rlvr validate` says of the environments of another package, each as it is shipped, or of our own.

    python benchmarks/validate_suites.py reasoning-gym [--only NAME …] [--tasks 3] [--minutes 2] [--until 01:30]

Run it where the package is installed. One record for each environment stands in
``benchmarks/results/validate_suites.jsonl``; a later run leaves out what stands there, unless it is told ``--again``.
A record is what the checks said at once: what a second look says of it is written by hand, in ``docs/validation/``.
Data sets with scorers of their own come first. Servers of NeMo Gym are started without its head server and Ray, with
their own ``data/example.jsonl`` for rows; ``--serve NAME`` starts some alone, for a look by hand. ``--write`` makes
``docs/validation/own.md`` of the records of our own.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import pkgutil
import re
import resource
import socket
import statistics
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr.envs import list_envs
from rlvr.envs.bridges.suite_games import REFUSED_GAMES, TEXTARENA
from rlvr.envs.validation import CHECKS
from rlvr.envs.validation.report import ValidationReport
from rlvr.envs.validation.targets import names_code
from rlvr.envs.validation.watched import validate_target

RECORDS = Path(__file__).parent / "results" / "validate_suites.jsonl"


def reasoning_gym_targets() -> list[str]:
    """All data sets; those whose scorer is not the one that all share come first."""
    importlib.import_module("reasoning_gym")
    factory: Any = importlib.import_module("reasoning_gym.factory")
    shared = factory.ProceduralDataset.score_answer
    return sorted(
        (f"rg:{name}" for name in factory.DATASETS),
        key=lambda target: (factory.DATASETS[target[3:]][0].score_answer is shared, target),
    )


def own_targets() -> list[str]:
    """All of ours, one of each module first: a run that is ended early has seen every family."""
    modules: dict[str, list[str]] = {}
    for env_id in list_envs():
        modules.setdefault(str(gym.spec(env_id).kwargs["task"]).partition(":")[0], []).append(env_id)
    return [target for group in itertools.zip_longest(*modules.values()) for target in group if target]


def textarena_targets() -> list[str]:
    """The games for one player, each by its plain id."""
    return [f"textarena:{name}-v0" for name in sorted([*TEXTARENA, *REFUSED_GAMES])]


def gem_targets() -> list[str]:
    """The games; other environments of GEM's download their data, or are reasoning-gym's."""
    importlib.import_module("gem")
    ids = importlib.import_module("gem.envs.registration").ENV_REGISTRY
    return sorted(f"gem:{name}" for name in ids if name.startswith("game:"))


def registered_targets(kinds: str, module: str = "") -> list[str]:
    """Ids of Gymnasium's, or that importing ``module`` registers, of classes in ``kinds``; one of each class first."""
    if module:
        importlib.import_module(module)
    classes: dict[str, list[str]] = {}
    for env_id, spec in gym.registry.items():
        if re.match(kinds, str(spec.entry_point)):
            classes.setdefault(str(spec.entry_point), []).append(f"{module}:{env_id}" if module else env_id)
    return [target for group in itertools.zip_longest(*classes.values()) for target in group if target]


def pettingzoo_targets() -> list[str]:
    """The newest game of each kind of its classic games."""
    classic: Any = importlib.import_module("pettingzoo.classic")
    names = [each.name for each in pkgutil.iter_modules(classic.__path__) if re.search(r"_v\d+$", each.name)]
    return [f"pettingzoo.classic.{name}:env" for name in sorted(names)]


PORT = 9001  # of servers that are looked at by hand


def nemo_gym_targets() -> list[str]:
    """The resources servers that ask no model, run nothing in containers and have rows as an example."""
    asks = re.compile("judge|ModelServerRef|genrm|sandbox|AsyncOpenAI", re.IGNORECASE)
    apps = [each for each in nemo_gym_folder().glob("*/app.py") if not asks.search(each.read_text(encoding="utf-8"))]
    return sorted(f"nemo_gym:{each.parent.name}" for each in apps if (each.parent / "data/example.jsonl").exists())


def serve(names: list[str], port: int) -> None:
    """Serve them, each at the path of its name and as its own settings have it, until the process is ended.

    Raises:
        SystemExit: none can be started here.
    """
    import uvicorn
    from starlette.applications import Starlette

    together = Starlette()
    for name in names:
        try:
            together.mount(f"/{name}", nemo_gym_app(name))
        except Exception as error:  # what it needs is not here
            print(f"{name} does not start: {error!r:.200}", file=sys.stderr, flush=True)
    if not together.routes:
        sys.exit(1)
    uvicorn.run(together, host="127.0.0.1", port=port, log_level="critical")


def nemo_gym_app(name: str) -> Any:
    """The application of one server, without their command's head server."""
    import yaml

    module = importlib.import_module(f"resources_servers.{name}.app")
    base = importlib.import_module("nemo_gym.base_resources_server").BaseResourcesServer
    own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    kind: Any = [each for each in own if issubclass(each, base)][-1]
    files = sorted((nemo_gym_folder() / name / "configs").glob("*.yaml"))
    written = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    settings: dict[str, Any] = next((each[name]["resources_servers"][name] for each in written if name in each), {})
    config = kind.model_fields["config"].annotation
    settings = {key: value for key, value in settings.items() if key in config.model_fields}
    settings |= {"host": "127.0.0.1", "port": PORT, "entrypoint": "app.py", "name": name, "domain": "other"}
    head = importlib.import_module("nemo_gym.config_types").BaseServerConfig(host="127.0.0.1", port=1)
    empty = importlib.import_module("omegaconf").OmegaConf.create({})
    client = importlib.import_module("nemo_gym.server_utils").ServerClient(
        head_server_config=head, global_config_dict=empty
    )
    server = kind(config=config(**settings), server_client=client)
    app = server.setup_webserver()
    server.setup_exception_middleware(app)
    return app


def nemo_gym_folder() -> Path:
    """Where its resources servers lie."""
    return Path(importlib.import_module("resources_servers").__path__[0])


@contextlib.contextmanager
def reachable(target: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The target as it is validated, and its settings; within the block, its server of NeMo Gym is up."""
    suite, _, name = target.partition(":")
    if suite != "nemo_gym":
        yield target, {}
        return
    importlib.import_module("nemo_gym.base_resources_server")  # once, and not in each process
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = multiprocessing.get_context("fork").Process(target=serve, args=([name], port), daemon=True)
    process.start()
    rows = nemo_gym_folder() / name / "data" / "example.jsonl"
    url = f"http://127.0.0.1:{port}/{name}"
    try:
        while process.is_alive():
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/openapi.json", timeout=120).close()  # which takes it seconds, once
                break
            time.sleep(0.2)
        else:
            raise ValueError("its server does not start here")
        yield f"nemo_gym:{url}", {"rows": str(rows)}
    finally:
        process.kill()
        process.join()


def can_be_made(env_id: str) -> bool:
    """Whether the rows or packages that it needs are here."""
    try:
        gym.make(env_id).close()
    except (ValueError, ImportError):
        return False
    return True


def own_page(records: dict[str, dict[str, Any]]) -> str:
    """The page of our own environments, of the records."""
    names = list_envs()
    rows = [records[name] for name in names if "tries" in records.get(name, {})]
    rest = [name for name in names if records.get(name) not in rows]
    cpu = sorted(record["cpu"] for record in rows)
    found = Counter(finding["severity"] for record in rows for finding in record["findings"])
    lines = [
        f"| `{record['target']}` | {record['cpu']} | {record['tries']:,} | {record.get('actions', 0):,} | "
        + " | ".join(str(sum(f["severity"] == each for f in record["findings"])) for each in OWN_SEVERITIES)
        + f" | {len(record['not finished'])} |"
        for record in rows
    ]
    return OWN_PAGE.format(
        measured=len(rows),
        ids=len(names),
        tries=sum(record["tries"] for record in rows),
        actions=sum(record.get("actions", 0) for record in rows),
        found=", ".join(f"{found[each]} {each}" for each in OWN_SEVERITIES),
        open=sum(bool(record["not finished"]) for record in rows),
        total=sum(cpu),
        median=statistics.median(cpu),
        dear=sum(each > 30 for each in cpu),
        dearest=cpu[-1],
        rows="\n".join(lines),
        early=sum(record.get("checks", 0) < len(CHECKS) for record in rows),
        rest=", ".join(f"`{name}`" for name in rest if not can_be_made(name)) or "none",
        late=", ".join(f"`{name}`" for name in rest if can_be_made(name)) or "none",
    )


OWN_SEVERITIES = ("high", "medium", "low")
OWN_PAGE = """# Our own under validation

{measured} of {ids} ids were validated: {tries:,} tries, in which {actions:,} actions were played. Findings of severity
{found}; ids of which some checks did not end: {open}. {total:,.0f} CPU-seconds in all, {median:.1f} for the median id,
{dearest:.0f} for the dearest, above 30 for {dear}.

```sh
python benchmarks/validate_suites.py rlvr --minutes 5 --write
```

Two cores, at loads from 1 to 18. Data sets were played with the made-up rows of `tests/data`, which say nothing of the
published ones. The [records](../../benchmarks/results/validate_suites.jsonl) are what the checks said at once. What
had a finding of severity high was looked at by hand, mended and run again:

- A move of marks alone, such as `,`, made Battleship raise inside, which was scored 0 and logged. Minesweeper and
  BlackBox had the same line.
- The check read "1.5 rules for each" as a promise of partial credit, in ForwardChaining, Satisfiability and
  Reachability, and brackets with which all answers happened to end, in TwentyFour and RightTriangles, as a form that
  nobody asks for. The checks are mended, for everybody's environments.

Three findings below it were looked at twice, and the checks mended for everybody's environments:

- *Level 5 of Game2048 has no group whose rewards differ*: it takes some 500 moves, and the check cut the expert's
  episode after 200. A solution is played to its end now.
- *Taboo speaks of a share of points and pays 0 or all*: it pays shares, at the end of the game, which no part of a
  solution reached. The check plays on at random from the middle of a solution.
- *In Debate random play reaches the maximum in 58 % of the episodes*: 7 of 12 in an even game. More than a half counts
  from two sigma on.

Measured before all of the checks were there: {early}. Where actions are 0, they
were not counted yet. About half of the records are older than the last mend of the validator's cost, by which long
episodes take a sixth of the time.

| id | CPU-seconds | tries | actions | high | medium | low | checks that did not end |
|---|---|---|---|---|---|---|---|
{rows}

Not measured: {rest} for want of rows here; {late} because the time was over.
"""
SUITES: dict[str, Callable[[], list[str]]] = {
    "rlvr": own_targets,
    "nemo-gym": nemo_gym_targets,
    "reasoning-gym": reasoning_gym_targets,
    "textarena": textarena_targets,
    "gem-llm": gem_targets,
    "minigrid": lambda: registered_targets("minigrid", "minigrid"),
    "gymnasium": lambda: registered_targets(r"gymnasium\.envs\.(toy_text|classic_control)"),
    "pettingzoo": pettingzoo_targets,
}


def cpu_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record_of(report: ValidationReport, package: str, target: str, cpu: float) -> dict[str, Any]:
    """What is kept of a report: findings above a note, and what was not finished."""
    flags = ("--allow-code",) if names_code(report.target) else ()

    def anywhere(text: str) -> str:
        """A text without where it was run, which is no matter."""
        return re.sub(r"(?<=//127\.0\.0\.1:)\d+", str(PORT), text.replace(sys.prefix, "…"))

    return {
        "target": target,
        "version": importlib.metadata.version(package),
        "verdict": report.verdict,
        "not finished": [r.check.id for r in report.results if r.unfinished or r.error],
        "findings": [
            {
                "check": check.id,
                "severity": finding.severity,
                "text": anywhere(finding.text),
                "show": anywhere(finding.replay.command(report.target, flags)) if finding.replay else "",
            }
            for check, finding in report.findings
            if finding.severity != "note"
        ],
        "seconds": round(report.seconds, 1),
        "cpu": round(cpu, 1),
        "tries": sum(result.tries for result in report.results),
        "actions": sum(result.actions for result in report.results),
        "checks": sum(result.check.id in CHECKS for result in report.results),
    }


def main() -> None:
    """Validate what has no record yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument("--only", nargs="+", metavar="TARGET", help="these alone")
    parser.add_argument("--tasks", type=int, help="tasks of each (3; of ours as many as by default)")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each (2)")
    parser.add_argument("--until", metavar="HH:MM", help="begin none after this time of day, UTC")
    parser.add_argument("--serve", nargs="+", metavar="NAME", help="serve these of NeMo Gym's, and validate nothing")
    parser.add_argument("--again", action="store_true", help="run also what stands in the records")
    parser.add_argument("--write", action="store_true", help="write docs/validation/own.md of the records")
    options = parser.parse_args()
    # our data sets are played with the made-up rows of the tests, unless others are named
    os.environ.setdefault("RLVR_DATA", str(RECORDS.parents[2] / "tests" / "data"))
    if options.serve:
        serve(options.serve, PORT)
        return
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    records = {record["target"]: record for record in map(json.loads, lines)}
    for target in options.only or SUITES[options.suite]():
        if target in records and not options.again:
            continue
        if options.until and time.strftime("%H:%M", time.gmtime()) >= options.until:
            break
        before, tasks = cpu_seconds(), options.tasks or (None if options.suite == "rlvr" else 3)
        try:
            with reachable(target) as (where, settings):
                report = validate_target(where, settings, tasks=tasks, minutes=options.minutes)
        except ValueError as error:
            print(f"{target}: {error}", flush=True)
            continue
        records[target] = record = record_of(report, options.suite, target, cpu_seconds() - before)
        print(datetime.datetime.now(datetime.UTC).strftime("%H:%M"), json.dumps(record), flush=True)
        RECORDS.write_text("".join(json.dumps(records[name]) + "\n" for name in sorted(records)), encoding="utf-8")
    if options.write:
        (RECORDS.parents[2] / "docs" / "validation" / "own.md").write_text(own_page(records), encoding="utf-8")


if __name__ == "__main__":
    main()
