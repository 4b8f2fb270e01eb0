"""Pages of evaluations in a real Chromium, desktop and phone, light and dark: figures lead to their episodes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr.adapters.viewer.app import ViewerServer
from rlvr.adapters.viewer.export import write_export
from rlvr.adapters.viewer.index import EpisodeIndex, lasting_id
from rlvr.adapters.viewer.pages import Pages
from rlvr.adapters.viewer.sources import find_sources
from rlvr.agents.episode import Episode, Turn
from rlvr.envs.core.verdict import Verdict

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("RLVR_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]
HOSTILE = "<img src=x onerror='window.__ran=1'>"
MATHS = "\n\n".join(
    [
        "# The *sum*",
        r"So $\frac{1}{2} + x_1^2 \le \sqrt{3}$, and **half** of `a*b*c`.",
        "| a | b |\n|---|---|\n| 1 | $2$ |",
        "- one",
        r"\[ \boxed{\alpha} \]",
        rf"It costs $5 and $6. {HOSTILE} [x](javascript:alert(1)) \boxed{{\frac{{1}}{{2}}}}",
    ]
)


def played(number: int, success: bool, text: str = "") -> Episode:
    task = number // 2
    made = Episode(f"rlvr/Made{task % 2}-v0", f"k/{number}", 0, task, number % 2, task, "test", 1 + task % 3)
    stop = "length" if number == 3 else "stop"
    made.turns = [Turn(f"What is {task}?", "user", text or f"It is {number}.", stop, float(success))]
    made.verdict = Verdict(float(success), "correct" if success else "wrong", answer=f"{number}", reason="compared")
    if number == 5:
        made.verdict = Verdict(0.0, "env_error", reason=f"step 17: {HOSTILE}")
    made.agent = {"model": HOSTILE, "revision": "r1", "sampling": {"temperature": 0.5}}
    made.usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 40,
        "model_seconds": 1.5,
        "env_seconds": 0.5,
        "cost": 0.25,
    }
    return made


def write(path: Path, episodes: list[Episode]) -> Path:
    path.write_text("".join(json.dumps(each.to_dict()) + "\n" for each in episodes))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def viewer(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a view of two results and a run that has just begun; checks that nothing ran and nothing went wrong."""
    folder = tmp_path / "runs"
    (folder / "run").mkdir(parents=True)
    (folder / "run" / "config.sha256").write_text("")
    write(folder / "a.jsonl", [played(number, number % 3 == 0, MATHS if number == 0 else "") for number in range(12)])
    write(folder / "b.jsonl", [played(number, number % 2 == 0, f"It isn't {number}.") for number in range(12)])
    index = EpisodeIndex(find_sources([folder]), tmp_path / "index", [folder])
    index.update()
    errors: list[str] = []
    contexts: list[Any] = []
    with ViewerServer(Pages(index), key="a-key-that-is-kept") as server:

        def open_view(view: str, *, file: Path | None = None, **options: Any) -> Any:
            context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
            contexts.append(context)
            page = context.new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            base = f"file://{file}" if file else f"{server.origin}/"
            page.goto(f"{base}#/{view}{'&' if '?' in view else '?'}key=a-key-that-is-kept")
            page.wait_for_selector("main[data-ready]")
            return page

        open_view.folder, open_view.pages = folder, Pages(index)  # type: ignore[attr-defined]
        yield open_view
        for context in contexts:
            assert [page.evaluate("window.__ran || 0") for page in context.pages] == [0] * len(context.pages)
            context.close()
    index.close()
    assert errors == []


def wait_for(page: Any, text: str) -> None:
    page.wait_for_function("(text) => document.body.innerText.includes(text)", arg=text, timeout=60_000)


PHONE = {"viewport": {"width": 380, "height": 700}, "color_scheme": "dark"}


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop, light", "phone, dark"])
@pytest.mark.parametrize(
    "view",
    ["evaluations", "evaluation?source=a.jsonl", 'compare?with=["a.jsonl","b.jsonl"]', "episodes?source=a.jsonl"],
)
def test_a_page_fits_its_screen_and_is_drawn(viewer, view, options, tmp_path):
    page = viewer(view, **options)
    assert not page.query_selector("main > .error"), page.inner_text("main")
    widths = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1], "wide tables scroll in themselves"
    ground, ink = page.evaluate(
        "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; })()"
    )
    assert ground != ink
    assert len(page.screenshot()) > 5_000  # an empty page has less


def test_evaluations_are_listed_sorted_and_set_side_by_side(viewer):
    page = viewer("evaluations")
    rows = page.locator("main table tr")
    assert rows.count() == 4
    assert page.locator("main td .faint").count() == 1, "the run"
    page.get_by_role("button", name="success, 95 %").click()
    page.wait_for_function("() => location.hash.includes('sort=-success')")
    page.wait_for_function("() => document.querySelectorAll('main table tr')[1].innerText.includes('b.jsonl')")
    page.get_by_label("mark a.jsonl").check()
    page.wait_for_function("() => location.hash.includes('a.jsonl')")
    page.get_by_label("mark b.jsonl").check()
    page.locator("#beside").click()
    wait_for(page, "b.jsonl against a.jsonl")
    page.locator(".gained_tasks a").first.click()
    page.wait_for_selector("#parted")
    assert "They part in message 2, after 5 characters." in page.inner_text("#parted")


def test_each_figure_leads_to_its_episodes(viewer):
    page = viewer("evaluation?source=a.jsonl")
    text = page.inner_text("main")
    for words in ("revision r1", "temperature 0.5", "12,000", "level 1", "mean over 2 environments", "step #: "):
        assert words in text, words
    cells = page.locator("main table").first.locator("tr").nth(1).locator("td")
    assert cells.nth(1).inner_text() == "12"
    for column, filters in ((4, "status=timeout"), (7, "min_cut=1")):
        link = cells.nth(column).locator("a")
        assert link.inner_text() == "1"
        assert filters in link.get_attribute("href")
    sorts = [
        href.partition("sort=")[2].partition("&")[0]
        for href in cells.locator("a").evaluate_all("all => all.map((a) => a.hash)")
    ]
    assert [sort for sort in sorts if sort] == [
        "-reward",
        "-turns",
        "-tokens",
        "-tokens",
        "-seconds",
        "-seconds",
        "-cost",
    ]
    cells.nth(7).locator("a").click()
    wait_for(page, "1 episodes")


def test_lists_and_evaluations_move_while_a_file_grows(viewer):
    listed, page = viewer("episodes?source=a.jsonl"), viewer("evaluation?source=a.jsonl")
    evaluations = viewer("evaluations")
    with (viewer.folder / "a.jsonl").open("a") as file:
        file.write(json.dumps(played(12, True).to_dict()) + "\n")
    write(viewer.folder / "later.jsonl", [played(0, True)])
    wait_for(listed, "13 episodes")
    listed.wait_for_selector(".row[data-at='12']")
    page.wait_for_function(
        "() => document.querySelector('main table tr:nth-child(2) td:nth-child(2)').innerText === '13'"
    )
    wait_for(evaluations, "later.jsonl")


def test_a_record_is_copied_by_one_key_and_a_number_becomes_a_lasting_link(viewer):
    page = viewer("episode/1", permissions=["clipboard-read", "clipboard-write"])
    page.wait_for_function("() => /episode\\/e[0-9a-f]{16}/.test(location.hash)")
    page.keyboard.press("y")
    wait_for(page, "copied")
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == played(0, True, MATHS).to_dict()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop, light", "phone, dark"])
def test_conversations_and_forks_are_trees_that_lead_to_their_places(viewer, options):
    """A helper of a hostile name, a conversation that goes on from the first reply, and a fork of the whole."""
    node = {"message": {"role": "user", "content": "Lead."}, "parent": None}
    reply = {"message": {"role": "assistant", "content": "Yes."}, "parent": 0}
    lead = {"agent": {"name": "lead"}, "nodes": [node, reply, node | {"parent": 1}, reply | {"parent": 2}]}
    lead["nodes"] += [{"message": {"role": "assistant", "content": "Another way."}, "parent": 0}]
    helper = {"agent": {"name": HOSTILE}, "nodes": [node, reply]}
    first = json.dumps({"task": {}, "ok": True, "traces": [lead, helper]})
    path = viewer.folder / "tree.jsonl"
    origin = {"forked_from": {"key": "", "turn": 0, "file": str(path.resolve()), "line": 1, "by": ["hand"]}}
    path.write_text(f"{first}\n{json.dumps(played(0, True).to_dict() | origin)}\n")
    page = viewer("evaluations", **options)
    wait_for(page, "tree.jsonl")
    page.evaluate(
        "(view) => { location.hash = location.hash.replace('evaluations', view); }",
        f"episode/{lasting_id(first.encode())}",
    )
    page.wait_for_selector("#branches")
    links = page.locator("#branches a")
    assert links.all_inner_texts() == ["agent lead", "branch 1", f"agent {HOSTILE}"]
    assert page.locator("#branches .tree .tree a").all_inner_texts() == ["branch 1"]
    assert "goes on from message 1 of agent lead" in page.inner_text("#branch-1")
    page.get_by_text("1 messages before").click()
    page.wait_for_selector("#branch-1 + details .message")
    page.keyboard.press("b")
    page.wait_for_function("() => location.hash.includes('branch=1')")
    widths = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    assert page.locator("#forks b").inner_text() == "tree.jsonl 1"
    page.locator("#forks a").click()
    page.wait_for_function("() => document.querySelector('#forks b')?.innerText === 'tree.jsonl 2'")


@pytest.mark.parametrize("exported", [False, True], ids=["server", "file"])
def test_markdown_and_mathematics_are_drawn_and_nothing_of_them_runs(viewer, tmp_path, exported):
    if exported:
        write_export(viewer.pages, tmp_path / "page.html")
    page = viewer("episode/1", file=tmp_path / "page.html" if exported else None)
    assert page.locator("math").count() == 0
    assert MATHS.split("\n")[0] in page.inner_text("main")
    page.keyboard.press("r")
    page.wait_for_selector(".markdown math")
    assert page.locator(".markdown math").count() == 4
    assert page.locator(".markdown mfrac").count() == 2
    assert page.locator(".markdown strong").all_inner_texts() == ["The sum", "half"]
    assert page.locator(".markdown code").inner_text() == "a*b*c"
    assert page.locator(".markdown td").count() == 2
    drawn = page.inner_text(".message.assistant")
    for kept in ("It costs $5 and $6.", HOSTILE, "[x](javascript:alert(1))"):
        assert kept in drawn
    assert page.locator(".markdown a, .markdown img").count() == 0
    assert page.locator("math .boxed").first.bounding_box()["height"] > 5
    page.keyboard.press("r")
    page.wait_for_function("() => !document.querySelector('math')")


def test_an_exported_file_shows_its_evaluations(viewer, tmp_path):
    write_export(viewer.pages, tmp_path / "page.html")
    page = viewer("evaluations", file=tmp_path / "page.html")
    page.get_by_role("link", name="a.jsonl").click()
    wait_for(page, "mean over 2 environments")
