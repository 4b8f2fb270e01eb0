"""``rlvr eval --suite core``, or a suite of your own; ``rlvr table``: results of several agents side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr.agents.evaluation.records import read_episodes
from rlvr.agents.evaluation.suites import SUITES, EvaluationSuite
from rlvr.agents.evaluation.table import name_of, result_table
from rlvr.envs.core.files import write_whole
from rlvr.envs.core.hints import nearest
from rlvr.envs.core.json_text import load_json

if TYPE_CHECKING:
    from rlvr.agents import Episode

# What a suite pins, and what `rlvr eval` takes where nobody says anything.
_PINNED = {"seed": 0, "samples": 1, "temperature": 0.0, "max_new_tokens": 512, "episodes": None}


def pinned_suite(options: argparse.Namespace, settings: dict[str, Any]) -> EvaluationSuite:
    """The suite that ``options.suite`` names; its seed, samples and sampling become those of the options.

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
    for name in ("seed", "samples", "temperature", "max_new_tokens"):
        setattr(options, name, getattr(suite, name))
    return suite


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
    found = result_table([_result(given) for given in options.files])
    if options.out is None:
        print(found.to_markdown(), end="")
        return 0
    write_whole(options.out, found.to_html() if options.out.suffix == ".html" else found.to_markdown())
    print(options.out)
    return 0


def _result(given: str) -> tuple[str, list[Episode]]:
    """The name of an agent and its episodes, of ``FILE`` or ``NAME=FILE``."""
    name, _, file = given.rpartition("=")
    path = Path(given if Path(given).is_file() else file)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path == Path(given):
        beside = path.with_name(path.name + ".options.json")
        name = name_of(path, load_json(beside.read_text(encoding="utf-8")) if beside.is_file() else None)
    return name, read_episodes(path)
