"""What the documentation site shows beside docs/: a hook of mkdocs, which mkdocs.yml names.

The README is its first page. What `NAMED` names and the pages of benchmarks/results/ are pages as well, and so is each
file of this repository that a page links to. Links lead to these pages on the site, and to the files where
a page is read in the repository.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
NAMED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "AGENTS.md": "coding_agents.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "skills/rlvr-environment/SKILL.md": "skill.md",
}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json", ".jsonl": "json"}
PAPER = re.compile(r"(?<![\w./:\[-])(\d{4}\.\d{5})(?![\w\]])")
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`\n]+`|^#.*?$", re.MULTILINE | re.DOTALL)
DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)\S.*\n?)*)+", re.MULTILINE)
LARGEST = 400_000  # characters of a file that is shown as a page


def destinations() -> dict[str, str]:
    """Where the site has each file of the repository that it shows: {path in the repository: path in the site}."""
    docs = ROOT / "docs"
    targets = {
        f"docs/{path.relative_to(docs)}": str(path.relative_to(docs)) for path in docs.rglob("*") if path.is_file()
    }
    targets |= NAMED
    results = (ROOT / "benchmarks" / "results").glob("*.md")
    targets |= {f"benchmarks/results/{path.name}": f"results/{path.name}" for path in results}
    for page in [path for path in targets if path.endswith(".md")]:
        for target in LINK.findall(text_of(page)):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            if path not in targets and not path.startswith("..") and (ROOT / path).is_file():
                targets[path] = f"files/{path}.md"
    targets["benchmarks"] = targets["benchmarks/results"] = "benchmarks.md"
    return targets


def text_of(path: str) -> str:
    """The text of a page of the repository; a file that is no page stands in a block of code."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    assert len(text) <= LARGEST, f"{path} is too long for a page"
    return f"# {posixpath.basename(path)}\n\n`{path}`\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}````\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not stand in docs/."""
    for path, target in destinations().items():
        if not path.startswith("docs/") and (ROOT / path).is_file():
            files.append(File.generated(config, target, content=text_of(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let the links of a page lead to where the site has their targets."""
    here = page.file.src_uri
    shown_pages = shown_once()
    source = next((path for path, target in shown_pages.items() if target == here), f"docs/{here}")

    def moved(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        if path not in shown_pages:
            return link[1]
        return os.path.relpath(shown_pages[path], posixpath.dirname(here) or ".")

    if not source.endswith(".md"):
        return markdown
    markdown = LINK.sub(moved, markdown)
    return with_papers(markdown) if here.startswith("algorithms/") else markdown


def with_papers(markdown: str) -> str:
    """A page whose arXiv numbers are links, outside code."""
    parts, end = [], 0
    for code in CODE.finditer(markdown):
        parts += [PAPER.sub(r"[\1](https://arxiv.org/abs/\1)", markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, PAPER.sub(r"[\1](https://arxiv.org/abs/\1)", markdown[end:])])


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """An entry `folder/*` of the navigation stands for the pages of that folder that no other entry names."""
    named = set(re.findall(r"[\w/]+\.md", str(config.nav)))
    shown = sorted(page for page in shown_once().values() if page.endswith(".md") and page not in named)

    def expanded(entries: list[Any]) -> list[Any]:
        grown: list[Any] = []
        for entry in entries:
            if isinstance(entry, dict):
                grown.append({title: expanded(e) if isinstance(e, list) else e for title, e in entry.items()})
            elif entry.endswith("/*"):
                grown += [page for page in shown if posixpath.dirname(page) == entry[:-2]]
            else:
                grown.append(entry)
        return grown

    config.nav = expanded(config.nav or [])
    return config


class Doctests(griffe.Extension):
    """Examples in docstrings are blocks of code; Markdown would read `>>>` as a quotation."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(
                lambda example: f"```pycon\n{example[0].rstrip()}\n```\n", obj.docstring.value
            )


_SHOWN: dict[str, str] = {}


def shown_once() -> dict[str, str]:
    """`destinations`, which reads every page, once a build."""
    if not _SHOWN:
        _SHOWN.update(destinations())
    return _SHOWN


def on_pre_build(**_: Any) -> None:
    """A server that builds again reads the pages again."""
    _SHOWN.clear()
