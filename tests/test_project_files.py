"""What stands beside the code for those who carry on: llms.txt, AGENTS.md, the skill, the citation, the workflows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SKILLS = sorted((ROOT / "skills").glob("*/SKILL.md"))
ENTRY = re.compile(r"- \[[^\]]+\]\(([^)]+)\)(: \S.*)?")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_llms_txt_has_a_title_a_summary_and_sections_of_links() -> None:
    title, _, summary, *rest = read("llms.txt").splitlines()
    assert title == f"# {PROJECT['name']}"
    assert summary.startswith("> ")
    sections = "\n".join(rest).split("\n## ")[1:]
    assert sections
    for section in sections:
        heading, *lines = section.splitlines()
        wrong = [line for line in lines if line and not ENTRY.fullmatch(line)]
        assert not wrong, f"{heading}: {wrong}"


def test_llms_txt_names_every_page_that_is_written_by_hand_and_none_that_is_not_there() -> None:
    targets = [target for target, _ in ENTRY.findall(read("llms.txt"))]
    assert len(targets) == len(set(targets))
    assert [target for target in targets if not (ROOT / target).is_file()] == []
    pages = {*ROOT.glob("*.md"), *SKILLS}
    for folder in ("docs", "docs/tutorials", "docs/reference"):
        pages |= set((ROOT / folder).glob("*.md"))
    assert {str(page.relative_to(ROOT)) for page in pages} <= set(targets)


@pytest.mark.parametrize("page", ["AGENTS.md", "SECURITY.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    names = re.findall(r"`((?:tests|docs|benchmarks|examples|src|envs)/[\w./-]*)`", read(page))
    assert [name for name in names if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.parent.name)
def test_a_skill_says_its_name_and_when_it_is_used(skill: Path) -> None:
    _, front, text = skill.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields.keys() == {"name", "description"}
    assert fields["name"] == skill.parent.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"])
    assert 0 < len(fields["description"]) <= 1024
    assert text.lstrip().startswith("# ")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert (skill.parent / target).is_file(), target


def test_the_citation_has_the_fields_of_its_format_and_is_of_this_version() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert all(citation[field] for field in ("message", "title"))
    persons = [{"family-names", "given-names"} <= author.keys() for author in citation["authors"]]
    assert persons
    assert all(person or author.keys() >= {"name"} for person, author in zip(persons, citation["authors"], strict=True))
    assert citation["title"] == f"{PROJECT['name']}: {PROJECT['description']}"
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert citation["keywords"] == PROJECT["keywords"]


# the workflows


def workflow(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load(read(f".github/workflows/{name}.yml"))
    return {"on" if key is True else key: value for key, value in loaded.items()}  # YAML 1.1 reads `on` as true


def scripts(name: str) -> list[str]:
    return [step["run"] for job in workflow(name)["jobs"].values() for step in job.get("steps", ()) if "run" in step]


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
def test_a_workflow_is_well_formed(name: str) -> None:
    flow = workflow(name)
    assert {"name", "on", "permissions", "jobs"} == flow.keys()
    assert flow["permissions"] == {"contents": "read"}
    for job in flow["jobs"].values():
        if "uses" in job:
            assert (ROOT / job["uses"]).is_file()
            assert "workflow_call" in workflow(Path(job["uses"]).stem)["on"]
            continue
        assert {"runs-on", "timeout-minutes", "steps"} <= job.keys()
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= flow["jobs"].keys()
    for script in scripts(name):
        plain = re.sub(r"\$\{\{.*?\}\}", "x", script)
        checked = subprocess.run(["bash", "-n"], input=plain, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


def test_the_sample_runs_on_linux_and_macos_with_the_oldest_python_too() -> None:
    (job,) = workflow("tests")["jobs"].values()
    machines = {(each["os"], each["python"]) for each in job["strategy"]["matrix"]["include"]}
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert {("ubuntu-latest", oldest), ("ubuntu-latest", "3.13"), ("macos-latest", "3.13")} <= machines
    assert "make test PYTHON=python" in scripts("tests")


def test_a_release_is_published_from_a_tag_after_its_tests_and_by_one_job_alone() -> None:
    flow = workflow("release")
    assert flow["on"] == {"push": {"tags": ["v*"]}}
    writers = [name for name, job in flow["jobs"].items() if "write" in job.get("permissions", {}).values()]
    assert writers == ["publish"]
    assert flow["jobs"]["publish"]["needs"] == ["tests", "smoke"]
    assert flow["jobs"]["smoke"]["needs"] == "build"


@pytest.mark.parametrize(("tag", "status"), [(f"v{PROJECT['version']}", 0), ("v0.0.0", 1), (PROJECT["version"], 1)])
def test_a_tag_that_is_not_the_version_stops_the_release(tag: str, status: int) -> None:
    (script,) = (script for script in scripts("release") if "GITHUB_REF_NAME" in script)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    env = {"GITHUB_REF_NAME": tag, "PATH": path}
    ended = subprocess.run(["bash", "-e", "-c", script], cwd=ROOT, env=env, text=True, capture_output=True)
    assert ended.returncode == status, ended.stderr
    assert (tag in ended.stderr) == bool(status)
