"""The deployment files: what they start is what `rlvr serve` takes, and their parts fit together."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rlvr.adapters.serving.sessions import NAME
from rlvr.cli import _parser
from rlvr.envs import list_envs

yaml = pytest.importorskip("yaml")
FOLDER = Path(__file__).parents[2] / "examples" / "deploy"


def load(path: str) -> Any:
    return yaml.safe_load((FOLDER / path).read_text(encoding="utf-8"))


def served(arguments: list[str]) -> Any:
    """What the command makes of arguments; parsing ends the process if it does not take them."""
    options = _parser().parse_args(arguments)
    assert set(options.env) <= set(list_envs())
    assert (options.host, options.port, options.token_env) == ("0.0.0.0", 8765, "RLVR_TOKEN")
    return options


def test_the_image_starts_a_server_that_gets_its_signals():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    entry, command = (json.loads(re.search(rf"^{word} (\[.*\])$", text, re.M)[1]) for word in ("ENTRYPOINT", "CMD"))
    assert entry == ["rlvr"]  # no shell
    served(command)
    assert re.search(r"^USER (?!root)\w+$", text, re.M)
    assert "EXPOSE 8765" in text
    assert "/health" in text


def test_the_image_is_built_from_the_sources_and_nothing_else():
    root = FOLDER.parents[1]
    lines = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    kept = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    linked = {path.resolve().relative_to(root).parts[0] for path in (root / "src" / "rlvr").iterdir()}
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert patterns[0] == "*"
    assert kept == linked | {"pyproject.toml", "setup.py", "constraints.txt", "LICENSE", project["readme"]}
    assert all((root / name).exists() for name in kept)


def test_compose_starts_servers_that_may_drain():
    service = load("compose.yaml")["services"]["rlvr"]
    options = served(service["command"])
    assert int(service["stop_grace_period"].removesuffix("s")) > options.drain
    assert "RLVR_TOKEN" in service["environment"]
    assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == FOLDER / "Dockerfile"


def test_the_manifests_fit_together():
    deployment, service, scaling = (load(f"kubernetes/{n}.yaml") for n in ("deployment", "service", "autoscaling"))
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    options = served([word.replace("$(POD_NAME)", "rlvr-6f7d8c9b5d-x2x4k") for word in container["args"]])
    assert NAME.fullmatch(options.name)
    assert pod["spec"]["terminationGracePeriodSeconds"] > options.drain
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"] == service["spec"]["selector"]
    assert {entry["name"] for entry in container["env"]} == {"RLVR_TOKEN", "POD_NAME"}
    assert container["ports"][0]["containerPort"] == service["spec"]["ports"][0]["port"] == options.port
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert scaling["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    metric = scaling["spec"]["metrics"][0]["pods"]
    assert metric["metric"]["name"] == "rlvr_sessions"
    assert int(metric["target"]["averageValue"]) < options.sessions
