"""The deployment files against the published schemas: Kubernetes' own of one version, and that of Compose."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
FOLDER = Path(__file__).parents[2] / "examples" / "deploy"
MANIFESTS = sorted(path.name for path in (FOLDER / "kubernetes").glob("*.yaml"))
VERSION = "1.37"

pytestmark = pytest.mark.foreign


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_keeps_to_the_schema(name: str):
    validation = pytest.importorskip("kubernetes_validate")
    manifest = load(FOLDER / "kubernetes" / name)
    validation.validate(manifest, VERSION, strict=True)
    manifest["spec"]["not_a_field"] = 1  # control: a misspelt field is found
    with pytest.raises(validation.ValidationError, match="not_a_field"):
        validation.validate(manifest, VERSION, strict=True)


def test_the_compose_file_keeps_to_the_schema():
    jsonschema = pytest.importorskip("jsonschema")
    package = importlib.util.find_spec("compose")
    if package is None or package.origin is None:
        pytest.skip("docker-compose 1, which has the schema as a file, is not installed")
    schema = json.loads((Path(package.origin).parent / "config" / "compose_spec.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft7Validator(schema)
    project = load(FOLDER / "compose.yaml")
    project.pop("name")  # younger than this schema
    validator.validate(project)
    wrong = copy.deepcopy(project)
    wrong["services"]["rlvr"]["not_a_field"] = 1
    with pytest.raises(jsonschema.ValidationError, match="not_a_field"):
        validator.validate(wrong)
