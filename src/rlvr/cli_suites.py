"""``rlvr eval --suite core``, or a suite of your own; ``rlvr table``: results of several agents side by side."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.agents.evaluation.records import is_beside_episodes, read_episodes
from rlvr.agents.evaluation.suites import SUITES, EvaluationSuite
from rlvr.agents.evaluation.table import name_of, result_table, setting_notes
from rlvr.cli_options import require_new
from rlvr.envs.core.files import mark_written, write_whole
from rlvr.envs.core.hints import nearest
from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from rlvr.agents import Episode

# What a suite pins, and what `rlvr eval` takes where nobody says anything.
_PINNED = {"seed": 0, "samples": 1, "temperature": 0.0, "episodes": None}


def pinned_suite(options: argparse.Namespace, settings: dict[str, Any]) -> EvaluationSuite:
    """The suite that ``options.suite`` names; its seed, samples and sampling become those of the options, and an option
    ``max_new_tokens`` becomes the suite's, whose digest is then another.

    Raises:
        ValueError: there is no such suite or file, it is no suite, or an option asks for what it pins.
    """
    suite = read_suite(options.suite)
    asked = [name for name, default in _PINNED.items() if getattr(options, name) != default] + sorted(settings)
    if asked:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise ValueError(
            f"suite {suite.name} pins {names}: leave it out, or copy the suite to a file and change it there"
        )
    if options.max_new_tokens is not None:  # long thoughts are cut by the limit of any suite, and change its digest
        suite = replace(suite, max_new_tokens=options.max_new_tokens)
    for name in ("seed", "samples", "temperature", "max_new_tokens"):
        setattr(options, name, getattr(suite, name))
    return suite


def each_agent(options: argparse.Namespace, suite: EvaluationSuite | None) -> list[argparse.Namespace]:
    """For each agent that the options name, or else the suite's file, the options of `rlvr eval` with it alone.

    Of several each has a file of its own in the folder ``out``, and a scripted one no settings of servers.

    Raises:
        ValueError: nobody is named, one is named twice, or ``out`` is no folder.
    """
    kinds = ("agent", "model", "vllm")
    named = [{kind: name} for kind in kinds for name in getattr(options, kind) or ()]
    named = named or [dict(agent) for agent in (suite.agents if suite is not None else ())]
    if options.endpoint is not None and not any("agent" not in agent for agent in named):
        raise ValueError("--endpoint needs the model's name there: --model NAME, or --vllm MODEL for its token ids")
    if not named:
        raise ValueError("say who plays: --agent expert, --model NAME or --vllm MODEL")
    if twice := next((agent for number, agent in enumerate(named) if agent in named[:number]), None):
        raise ValueError(f"an agent is named twice: {' at '.join(twice.values())}")
    found = [_with_agent(options, agent, len(named) > 1) for agent in named]
    if options.out is not None and (len(named) > 1 or options.out.is_dir()):
        if options.out.is_file() or options.out.suffix == ".jsonl":
            raise ValueError(
                f"several agents have a file each: --out takes a folder for them, not the file {options.out}"
            )
        taken: dict[str, int] = {}
        for one in found:
            name = re.sub(r"[^A-Za-z0-9._-]+", "_", one.agent or one.model or one.vllm).strip("._") or "agent"
            taken[name] = taken.get(name, 0) + 1
            one.out = options.out / (f"{name}.jsonl" if taken[name] == 1 else f"{name}-{taken[name]}.jsonl")
    return found


def _with_agent(options: argparse.Namespace, agent: dict[str, str], several: bool) -> argparse.Namespace:
    one = argparse.Namespace(**{**vars(options), "agent": None, "model": None, "vllm": None})
    if "endpoint" in agent and agent["endpoint"] != options.endpoint:
        one.api_key_env = None  # a key is for the server that the command names, and no other
    vars(one).update(agent)
    if several and one.endpoint is None and one.vllm is None:
        one.options = one.tool_messages = one.api_key_env = None
    if several and one.agent is not None:
        one.endpoint = one.options = one.tool_messages = one.api_key_env = None
    return one


def check_samples(agents: list[argparse.Namespace], samples: int) -> None:
    """Beside others that can, an agent that does the same each time plays each task once, which is said.

    Raises:
        ValueError: there are to be several samples, and no agent's can differ.
    """
    alike = [one for one in agents if not (one.agent == "random" or (one.temperature and one.agent is None))]
    if samples == 1 or not alike:
        return
    why = "--temperature 0 takes the likeliest token each time"
    if scripted := [one.agent for one in alike if one.agent]:
        why = f"--agent {scripted[0]} does the same each time"
    if len(alike) == len(agents):
        raise ValueError(f"--samples {samples} needs samples that can differ: {why}")
    for one in alike:
        one.samples = 1
    names = ", ".join(one.agent or one.model or one.vllm for one in alike)
    print(f"rlvr: {why}: {names} plays each task once, the others {samples} times", file=sys.stderr)


def read_suite(name: str) -> EvaluationSuite:
    """A suite by its name, or from a YAML or JSON file.

    Raises:
        ValueError: there is no such suite or file, or it is no suite.
    """
    if name in SUITES:
        return SUITES[name]
    path = Path(name)
    if not path.is_file():
        near = nearest(name, SUITES)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(SUITES))}"
        raise ValueError(f"{name!r} is neither a suite nor a file; {hint}")
    if path.suffix == ".json":
        return EvaluationSuite.from_dict(load_json(path.read_text(encoding="utf-8")), path.stem)
    try:
        from rlvr.algorithms.runs.yaml_text import read_yaml_file

        return EvaluationSuite.from_dict(read_yaml_file(path), path.stem)
    except ModuleNotFoundError as error:
        raise ImportError(
            f'a suite in YAML needs {error.name}: pip install "rlvr[train]", or write it in JSON'
        ) from error


def table(options: argparse.Namespace) -> int:
    """Print or write a table of results, agents by environments."""
    if options.out is not None and options.out.suffix not in (".md", ".html"):
        raise ValueError(f"--out takes X.md or X.html, not {options.out}")
    if options.out is not None:
        require_new(options.out, options.force)
    results = [_result(given) for given in _files(options.files)]
    agents = [agent for agent, _, _, _ in results]
    played_with = [
        (agent if agents.count(agent) == 1 else f"{agent} in {path}", played)
        for agent, path, _, played in results
        if played is not None
    ]
    found = result_table([(agent, episodes) for agent, _, episodes, _ in results], setting_notes(played_with))
    if options.out is None:
        print(found.to_markdown(), end="")
        return 0
    write_whole(options.out, found.to_html() if options.out.suffix == ".html" else found.to_markdown())
    mark_written(options.out)
    print(options.out)
    return 0


def _files(given: list[str]) -> list[str]:
    """The files that are named, and those in a folder that is: `rlvr eval` of several agents writes one."""
    found: list[str] = []
    for name in given:
        inside = [name]
        if Path(name).is_dir():
            inside = sorted(str(path) for path in Path(name).glob("*.jsonl") if not is_beside_episodes(path))
        if not inside:
            raise FileNotFoundError(f"the folder {name} holds no *.jsonl")
        found += inside
    return found


def _result(given: str) -> tuple[str, Path, list[Episode], dict[str, Any] | None]:
    """Of ``FILE`` or ``NAME=FILE`` the name of its agent, its path, its episodes and the options beside it, if any."""
    name, _, file = given.rpartition("=")
    path = Path(given if Path(given).is_file() else file)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    beside = path.with_name(path.name + ".options.json")
    played = load_json(beside.read_text(encoding="utf-8")) if beside.is_file() else None
    options = played if isinstance(played, dict) else None
    return (name_of(path, options) if path == Path(given) else name), path, read_episodes(path), options
