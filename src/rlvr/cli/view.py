"""``rlvr view``: runs, evaluations and foreign traces on a local web page, or in one HTML file."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Any

from rlvr.cli.options import add_force, add_settings, key_of, port, require_new, settings_of

if TYPE_CHECKING:
    from rlvr.adapters.viewer.forks import Forks
    from rlvr.adapters.viewer.pages import RunReaders
    from rlvr.adapters.viewer.sources import TraceSource
    from rlvr.agents import Agent, Episode, Rollout


MIN_KEY = 16  # characters


def view(options: argparse.Namespace, rest: list[str]) -> int:
    """Serve the pages until Ctrl-C, or write them into one file."""
    from rlvr.adapters.viewer.app import ViewerServer
    from rlvr.adapters.viewer.export import MAX_EXPORTED, write_export
    from rlvr.adapters.viewer.index import EpisodeIndex
    from rlvr.adapters.viewer.pages import Pages
    from rlvr.adapters.viewer.sources import default_paths, find_sources

    if (options.endpoint is None) != (options.model is None):
        raise ValueError("--endpoint needs the model's name there, --model NAME, and --model an --endpoint")
    if options.export is not None:
        require_new(options.export, options.force)
    sources = find_sources(options.paths)
    if options.export is not None and options.export.exists():
        for file in (file for source in sources for file in source.files):
            if file.exists() and options.export.samefile(file):
                raise ValueError(f"{options.export} is what is shown: give another file to --export")
    index = EpisodeIndex(sources, options.index, options.paths or default_paths())
    try:
        pages = Pages(index, _readers())
        if options.export is not None:
            index.update()
            problems = pages.state()["problems"]
            if problems and not any(source["episodes"] or source["run"] for source in pages.state()["sources"]):
                raise ValueError(f"there is no episode that can be read: {'; '.join(problems[:5])}")
            for problem in problems:
                print(f"rlvr: {problem}", file=sys.stderr)
            kept, total = write_export(pages, options.export, options.limit or MAX_EXPORTED, force=options.force)
            left = f"; {total - kept} more are left out, --limit takes more" if total > kept else ""
            print(f"{options.export}: {kept} episodes{left}")
            return 0
        settings = settings_of(options)
        regrade = None if options.read_only else lambda record, name: _regraded(record, name, sources, settings)
        forks = None if options.read_only else _forks(options, index.sources, settings)
        key = _kept_key(options.key_env)
        server = ViewerServer(pages, host=options.host, port=options.port, key=key, regrade=regrade, forks=forks)
        print(f"{server.url} ({len(sources)} source{'s' * (len(sources) != 1)}; Ctrl-C ends it)", flush=True)
        if options.open:
            webbrowser.open(server.url)
        # Else the index is not closed, and is checked when it is opened. The server takes SIGTERM for itself; of SIGHUP
        # an exception would be raised in whatever request is being answered, and be lost there.
        signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))
        signal.signal(signal.SIGHUP, lambda signum, frame: signal.raise_signal(signal.SIGTERM))
        server.run()
        return 0
    finally:
        index.close()


def _kept_key(variable: str | None) -> str | None:
    """The key of the page that a variable holds; None for a new one.

    Raises:
        ValueError: it is empty, or one that can be guessed or stands in no address.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if len(key) < MIN_KEY or not key.replace("-", "").replace("_", "").isalnum() or not key.isascii():
        raise ValueError(
            f"the key in {variable} stands in an address: it has at least {MIN_KEY} letters, digits, - and _"
        )
    return key


def _readers() -> RunReaders:
    """What reads a run's folder; without the extra ``train`` the pages say what is missing."""
    from rlvr.adapters.viewer.pages import RunReaders

    def config(path: Path) -> Any:
        from rlvr.algorithms.config.yaml_text import read_yaml_file

        return read_yaml_file(path)

    def columns(run: Path, record: Mapping[str, Any]) -> dict[str, list[float]]:
        from rlvr.algorithms.runs.token_columns import token_columns

        return token_columns(run, record)

    def decoder(run: Path) -> Any:
        from rlvr.algorithms.runs.run_folder import decoder as of_run

        return of_run(run)

    return RunReaders(config, decoder, columns)


def _forks(options: argparse.Namespace, sources: list[TraceSource], settings: dict[str, Any]) -> Forks:
    """What plays on from recorded episodes; its file is looked at too."""
    from rlvr.adapters.viewer.forks import Forks
    from rlvr.adapters.viewer.sources import TraceSource
    from rlvr.agents import ExpertAgent, RandomAgent

    agents: dict[str, Callable[[], Agent]] = {"expert": ExpertAgent, "random": lambda: RandomAgent(randbits(32))}
    if options.endpoint is not None:
        agents[options.model] = _endpoint_agent(options)
    if not any(file.resolve() == options.forks.resolve() for source in sources for file in source.files):
        taken = {source.name for source in sources}
        names = (f"{options.forks.name}{' (forks)' * number}" for number in count())
        sources.append(TraceSource(next(name for name in names if name not in taken), None, [options.forks]))

    def rebuild(record: Mapping[str, Any], name: str) -> tuple[Episode, Rollout]:
        with _one_sentence("it cannot be played again"):
            return _rebuilt(record, name, sources, settings)

    return Forks(options.forks, rebuild, agents)


def _endpoint_agent(options: argparse.Namespace) -> Callable[[], Agent]:
    from rlvr.agents.models.openai import OpenAIAgent
    from rlvr.envs.endpoint import Endpoint

    server = Endpoint(options.endpoint, options.model, key_of(options.api_key_env), deadline=300.0, retries=2)
    return lambda: OpenAIAgent(server, concurrency=1)


@contextmanager
def _one_sentence(what: str) -> Iterator[None]:
    """Whatever a record brings about is one sentence on the page."""
    import gymnasium as gym

    try:
        yield
    except (KeyError, TypeError, AttributeError, ImportError, OSError, RuntimeError, gym.error.Error) as error:
        raise ValueError(f"{what}: {error}") from error


def _rebuilt(
    record: Mapping[str, Any], name: str, sources: list[TraceSource], settings: dict[str, Any]
) -> tuple[Episode, Rollout]:
    """An episode, and what plays its environment with the settings of its run.

    Raises:
        ValueError: it names code, or an environment that cannot be made.
    """
    from rlvr.agents import ConstantAgent, Rollout
    from rlvr.agents.episode import Episode
    from rlvr.envs.core.code_rule import require_registered

    episode = Episode.from_dict(record)
    names = (name, episode.forked_from.get("source"))  # a fork has the settings of the run that it comes from
    folder = next((source.folder for source in sources if source.name in names and source.folder is not None), None)
    made_with: dict[str, Any] = {}
    if folder is not None and (folder / "config.yaml").is_file():
        from rlvr.algorithms.runs.token_columns import env_settings

        made_with = env_settings(folder)
    made_with |= settings
    require_registered(episode.env_id, made_with)
    return episode, Rollout(episode.env_id, ConstantAgent(), env_settings=made_with)


def _regraded(
    record: Mapping[str, Any], name: str, sources: list[TraceSource], settings: dict[str, Any]
) -> dict[str, Any]:
    """An episode's verdict as it was recorded, and as its environment gives it now.

    Raises:
        ValueError: it cannot be played again; says why.
    """
    from rlvr.agents.evaluation.regrade import regrade

    with _one_sentence("it cannot be graded again"):
        before, rollout = _rebuilt(record, name, sources, settings)
        (regraded,) = regrade(rollout, [before])
    outcomes = [
        {
            "status": e.verdict.status if e.verdict else "unfinished",
            "reward": e.reward,
            "reason": e.verdict.reason if e.verdict else "",
        }
        for e in (regraded.before, regraded.after)
    ]
    return {"before": outcomes[0], "after": outcomes[1], "changed": regraded.changed, "same_task": regraded.same_task}


def add_parsers(commands: Any) -> None:
    """Add ``view`` to the sub-commands of `rlvr`."""
    viewing = commands.add_parser("view", help="look at runs, evaluations and traces of other tools in a browser")
    viewing.add_argument("paths", nargs="*", type=Path, help="folders of runs, folders, or files; ./runs if left out")
    viewing.add_argument("--host", default="127.0.0.1", help="where to listen: an address of this machine alone")
    viewing.add_argument("--port", type=port, default=8766, help="0 takes any that is free")
    viewing.add_argument(
        "--key-env", metavar="NAME", help="environment variable that holds the page's key; a new key if left out"
    )
    viewing.add_argument("--open", action="store_true", help="open the page in a browser")
    viewing.add_argument("--export", type=Path, metavar="FILE", help="write one HTML file that needs nothing else")
    add_force(viewing)
    viewing.add_argument("--limit", type=int, help="episodes in the exported file; 500 if left out")
    viewing.add_argument("--index", type=Path, metavar="FOLDER", help="where the search index is kept; a cache folder")
    viewing.add_argument(
        "--read-only", action="store_true", help="leave out what runs an environment: grading again, forks"
    )
    viewing.add_argument("--forks", type=Path, default=Path("forks.jsonl"), help="file that forks are written to")
    viewing.add_argument("--endpoint", metavar="URL", help="an OpenAI-compatible server that may play forks on")
    viewing.add_argument("--model", help="the model's name at --endpoint")
    viewing.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the endpoint's key")
    add_settings(viewing)
    viewing.set_defaults(command=view)
