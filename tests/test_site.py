"""The documentation site is built strictly, its links lead somewhere, and nothing in it is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"

for module in ("mkdocs", "material", "mkdocstrings"):
    pytest.importorskip(module, reason="the documentation's packages are not installed: make site")
pytestmark = [pytest.mark.site, pytest.mark.slow]


class Links(HTMLParser):
    """What a page links to, what it loads, and the names of its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif "href" in values and values.get("rel") != "canonical":
            self.loads.add(values["href"])
        self.loads |= {values[name] for name in ("src", "srcset", "data", "poster") if name in values}


@pytest.fixture(scope="module")
def pages() -> dict[Path, Links]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(SITE)]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return {path: Links(path.read_text(encoding="utf-8")) for path in SITE.rglob("*.html")}


def test_every_link_and_anchor_of_the_site_leads_somewhere(pages: dict[Path, Links]) -> None:
    assert len(pages) > 80
    lost = []
    for page, found in pages.items():
        for link in found.links | found.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            base = SITE if parts.path.startswith("/") else page.parent  # the page of a lost address has such links
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else set()
            wanted = unquote(parts.fragment)
            if not target.is_file() or (wanted and target.suffix == ".html" and wanted not in anchors):
                lost.append(f"{page.relative_to(SITE)}: {link}")
    assert not lost, lost[:20]


def test_the_site_loads_nothing_from_elsewhere(pages: dict[Path, Links]) -> None:
    loaded = {link for found in pages.values() for link in found.loads if urlsplit(link).netloc}
    assert not loaded
    for sheet in SITE.rglob("*.css"):
        outside = re.findall(r"(?:url\(|@import )\s*[\"']?(?:https?:)?//[^)\"']+", sheet.read_text(encoding="utf-8"))
        assert not outside, sheet


def test_what_is_generated_is_on_the_site(pages: dict[Path, Links]) -> None:
    """A signature and its sections come from mkdocstrings; a file that a page links to is a page."""
    reference = (SITE / "reference" / "agents.html").read_text(encoding="utf-8")
    assert "rlvr.agents.rollout.Rollout" in pages[SITE / "reference" / "agents.html"].anchors
    assert "Raises:" in reference
    assert "&gt;&gt;&gt;" not in re.sub(r"<pre>.*?</pre>", "", reference, flags=re.DOTALL)
    assert (SITE / "files" / "examples" / "reinforce_in_one_file.py.html").is_file()
    assert "https://arxiv.org/abs/2402.03300" in pages[SITE / "algorithms" / "grpo.html"].links
