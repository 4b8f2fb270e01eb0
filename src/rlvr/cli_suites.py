"""Suites on the command line: ``rlvr eval --suite core``, or a file of your own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rlvr.agents.evaluation.suites import SUITES, EvaluationSuite
from rlvr.envs.core.hints import nearest
from rlvr.envs.core.json_text import load_json

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
