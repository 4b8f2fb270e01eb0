"""The viewer in a real Chromium: what a reader sees and does, and 40 texts that would like to run. No browser, no test.

`pip install playwright` and Debian's `apt install chromium` bring what is needed; RLVR_CHROMIUM names another program.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

from rlvr.adapters.viewer.app import ViewerServer
from rlvr.adapters.viewer.export import write_export
from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.pages import Pages, RunReaders
from rlvr.adapters.viewer.sources import find_sources
from rlvr.agents import ConstantAgent, Rollout, task_requests
from rlvr.agents.episode import Episode, Turn
from rlvr.cli import view as cli_view
from rlvr.envs.core.verdict import Verdict

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("RLVR_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]

RUN = "window.__ran=(window.__ran||0)+1"
PAYLOADS = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<ScRiPt >{RUN}</sCrIpT>",
    f"<img src=x onerror='{RUN}'>",
    f'"><img src=x onerror="{RUN}">',
    f"'><img src=x onerror={RUN}>",
    f"<svg onload='{RUN}'>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin='{RUN}' attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{RUN}'><text y=20>x</text></a></svg>",
    f"<math><mtext><img src=x onerror='{RUN}'></mtext></math>",
    f"<body onload='{RUN}'>",
    f"<iframe src='javascript:parent.{RUN}'></iframe>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"<object data='javascript:{RUN}'></object>",
    f"<embed src='javascript:{RUN}'>",
    f"<details open ontoggle='{RUN}'>x</details>",
    f"<video><source onerror='{RUN}'></video>",
    f"<audio src=x onerror='{RUN}'></audio>",
    f"<input autofocus onfocus='{RUN}'>",
    f"<select autofocus onfocus='{RUN}'></select>",
    f"<marquee onstart='{RUN}'>x</marquee>",
    f"<style>@keyframes x{{}}</style><b style='animation-name:x' onanimationstart='{RUN}'>x</b>",
    "<style>body{display:none}</style>",
    "<link rel=stylesheet href='http://127.0.0.1:9/x.css'>",
    "<style>@import 'http://127.0.0.1:9/x.css';</style><div style=\"background:url('http://127.0.0.1:9/y')\">",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<base href='http://127.0.0.1:9/'>",
    f"<form action='javascript:{RUN}'><button autofocus>x</button></form>",
    f"javascript:{RUN}",
    f"[a link](javascript:{RUN}) ![x](http://127.0.0.1:9/x.png)",
    f"<a href='javascript:{RUN}' id=main>x</a>",
    f"<template><script>{RUN}</script></template><noscript><img src=x onerror='{RUN}'></noscript>",
    f"<!--><img src=x onerror='{RUN}'>-->",
    f"{{{{constructor.constructor('{RUN}')()}}}} ${{{RUN}}}",
    f"data:text/html,<script>{RUN}</script>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://127.0.0.1:9/\x07link\x1b]8;;\x07 \x1b]0;title\x07 \x9b2J",
    "\u202etxt.exe\u202c \u2066abc\u2069 \u200b\u200f\u061c\ufeff",
    f"\x00<\x00script>{RUN}</script>\u2028\u2029",
    f"__proto__ constructor <div id=data>[]</div><div id=main></div><script>{RUN}</script>",
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


def hostile(number: int, text: str) -> dict:
    """An episode with a text in everything that can hold one."""
    verdict = Verdict(0.5, "partial", answer=text, reason=text, parts={text: 0.5})
    call = f"<tool_call>{json.dumps({'name': text, 'arguments': {text: text}})}</tool_call>"
    turns = [
        Turn(
            text, "user", f"<think>{text}</think>{text}{call}", "stop", 0.5, verdict, image=f"data:image/svg+xml,{text}"
        ),
        Turn(text, text, text, "length", 0.0, None),
    ]
    pair = PAYLOADS[number - number % 2]  # two samples of one task, so that a group has hostile texts side by side
    made = Episode(pair, text, seed=0, group=number // 2, sample=number % 2, system=text, tools=text, split=pair)
    made.turns, made.verdict, made.final_observation = turns, verdict, text
    made.tokens.append_sampled([1, 2, 3], [-0.1, -0.2, -0.3])
    made.training = {"advantages": [0.1, 0.2, -0.3], text: text}
    return made.to_dict()


def hostile_run(folder: Path) -> Path:
    run = folder / "<img src=x onerror=window.__ran=1>"
    (run / "episodes").mkdir(parents=True)
    lines = [json.dumps(hostile(number, text)) for number, text in enumerate(PAYLOADS)]
    (run / "episodes" / "train-000001.jsonl").write_text("\n".join([*lines, "{<img src=x onerror=window.__ran=1>", ""]))
    records = [{"phase": text, "step": 1, text: 1.0} for text in PAYLOADS]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (run / "config.yaml").write_text("a: b\n")
    return run


class Watched:
    """A page, with all that it did beside showing something."""

    def __init__(self, browser, origin: str) -> None:
        self.page = browser.new_page(viewport={"width": 1100, "height": 800})
        self.events: list[str] = []
        self.page.on("dialog", lambda dialog: (self.events.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("popup", lambda popup: self.events.append(f"popup {popup.url}"))
        self.page.on("request", lambda request: self._request(request.url, origin))
        self.page.on("pageerror", lambda error: self.events.append(f"error {error}"))

    def _request(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "data:image/png", "data:,")):
            self.events.append(f"request {url}")

    def ran(self) -> int:
        return self.page.evaluate("window.__ran || 0")

    def foreign_elements(self) -> int:
        inside = (
            "script,style,link,iframe,object,embed,form,meta,base,template,video,audio,marquee,math,[onerror],[onload]"
        )
        return self.page.evaluate(f"document.getElementById('main').querySelectorAll({inside!r}).length")


def test_the_texts_do_run_where_nothing_holds_them(browser):
    """The control: written into a page as HTML, without a policy, at least half of them act."""
    acting = 0
    for text in PAYLOADS:
        watched = Watched(browser, "about:")
        watched.page.set_content(f"<div id=main>{text}</div>", wait_until="domcontentloaded")
        watched.page.wait_for_timeout(50)
        try:
            acting += bool(watched.ran() or watched.events or watched.foreign_elements())
        except sync_api.Error:  # it has led the page elsewhere
            acting += 1
        watched.page.close()
    assert len(PAYLOADS) == 40
    assert acting >= 25


@pytest.mark.parametrize("exported", [False, True], ids=["server", "file"])
def test_of_40_texts_none_runs_loads_or_leads_anywhere(browser, tmp_path, exported):
    run = hostile_run(tmp_path)
    index = EpisodeIndex(find_sources([run]), tmp_path / "index")
    readers = RunReaders(
        config=lambda path: {text: text for text in PAYLOADS}, decoder=lambda run: lambda ids: [PAYLOADS[0]] * len(ids)
    )
    pages = Pages(index, readers)
    index.update()
    write_export(pages, tmp_path / "page.html")
    with ViewerServer(pages) as server:
        base = f"file://{tmp_path}/page.html" if exported else f"{server.origin}/"
        watched = Watched(browser, base if exported else server.origin)
        page = watched.page
        numbers = range(1, len(PAYLOADS) + 1)
        page.goto(f"{base}#/episodes?key={server.key}")
        visits = ["runs?all=1&config=all", "evaluations", f"evaluation?source={quote(run.name)}", "episodes", "signs"]
        visits += ["difference/1/2", "group/1", "group/39"]
        visits += [f"episode/{n}" for n in numbers] + [
            f"episode/{n}?show={show}" for n in (1, 25, 40) for show in ("tokens", "record")
        ]
        for visit in visits:
            page.evaluate("document.getElementById('main').dataset.before = '1'")
            page.evaluate(
                "(view) => { location.hash = view; }", f"#/{visit}{'&' if '?' in visit else '?'}key={server.key}"
            )
            page.wait_for_selector("main[data-ready]:not([data-before])")
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            assert not page.query_selector("main > .error"), page.inner_text("main")
            assert watched.ran() == 0, visit
            assert watched.foreign_elements() == 0, visit
        for text in (PAYLOADS[29], "<script>", "'><img"):
            page.goto("about:blank")
            page.goto(f"{base}#/episodes?q={text}&source={text}&sort=id&key={server.key}")
            page.wait_for_selector("main[data-ready]")
            assert watched.ran() == 0
        page.goto("about:blank")  # and one that is opened by its address
        page.goto(f"{base}#/episode/38?key={server.key}")
        page.wait_for_selector("main[data-ready]")
        shown = page.inner_text("main")
        assert "U+202E" in shown
        assert not any(character in shown for character in "\u202e\u2066\u200f\x1b")
        page.wait_for_timeout(200)
        assert [event for event in watched.events if not event.startswith("request about:")] == []
        page.close()
    index.close()


def test_a_policy_stops_what_the_page_itself_would_let_through(browser, tmp_path):
    """A mistake in the page's own code, HTML from a text, is refused by the browser."""
    index = EpisodeIndex(find_sources([hostile_run(tmp_path)]), tmp_path / "index")
    with ViewerServer(Pages(index)) as server:
        page = browser.new_page()
        page.goto(server.url)
        page.wait_for_selector("main[data-ready]")
        tried = """() => { const found = [];
          const html = () => { document.body.innerHTML = "<b>x</b>"; };
          const script = () => { document.createElement("script").text = "1"; };
          const handler = () => { document.body.setAttribute("onclick", "1"); };
          for (const attempt of [html, script, handler])
            try { attempt(); found.push("ran"); } catch { found.push("refused"); }
          return found; }"""
        assert page.evaluate(tried) == ["refused"] * 3
        page.close()
    index.close()


# what a reader does


def answers(count: int) -> list[dict]:
    records = []
    for number in range(count):
        right = number % 3 == 0
        text = f"<think>I think about {number}.</think>The answer is \\boxed{{{number}}}." + " needle" * (number == 777)
        made = Episode(
            "rlvr/Made-v0", f"k{number}", 0, index=number // 4, group=number // 4, sample=number % 4, system="Be good."
        )
        made.turns = [Turn(f"What is {number // 4}?", "user", text, "stop", float(right))]
        made.verdict = Verdict(float(right), "correct" if right else "wrong", reason="compared")
        made.tokens.append_context([1, 2])
        made.tokens.append_sampled([3 + number % 4, 4], [-0.5, -0.1])
        made.training = {"advantages": [0.0, 0.0, 0.5, -0.5], "weights": [0.0, 0.0, 0.1, 0.2]}
        records.append(made.to_dict())
    return records


@pytest.fixture(scope="module")
def viewed(tmp_path_factory):
    """A server of two runs, and their folder."""
    folder = tmp_path_factory.mktemp("viewed") / "runs"
    for name, lr in (("one", 0.1), ("two", 0.2)):
        (folder / name / "episodes").mkdir(parents=True)
        lines = [{"phase": "train", "step": n, "reward": (n % 7) / 7, "loss": -n} for n in range(1, 40)]
        (folder / name / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / name / "config.yaml").write_text(f"lr: {lr}\n")
    lines = [json.dumps(record) + "\n" for record in answers(1_000)]
    (folder / "one" / "episodes" / "train-000001.jsonl").write_text("".join(lines))
    index = EpisodeIndex(find_sources([folder]), folder.parent / "index")
    readers = RunReaders(config=lambda path: {"lr": path.read_text()[4:-1], "same": 1})
    index.update()
    outcomes = {name: {"status": status, "reward": reward, "reason": ""} for name, status, reward in GRADED}
    graded = {**outcomes, "changed": True, "same_task": True}
    with ViewerServer(Pages(index, readers), regrade=lambda record, name: graded) as server:
        yield server, folder
    index.close()


GRADED = (("before", "wrong", 0.0), ("after", "correct", 1.0))


@pytest.fixture
def viewer(browser, viewed):
    """Opens a view in a page of this test's own."""
    server, folder = viewed
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def open_view(view: str):
        page.goto("about:blank")
        page.goto(f"{server.origin}/#/{view}{'&' if '?' in view else '?'}key={server.key}")
        page.wait_for_selector("main[data-ready]")
        return page

    open_view.folder = folder
    yield open_view
    page.close()
    assert errors == []


# Conditions are functions: the page's policy forbids what Playwright does with a bare expression that is not true yet.
def wait_view(page, view: str) -> None:
    """Wait until a view, ``episode 4``, is shown."""
    page.wait_for_function("(view) => document.title.startsWith(view + ' ·')", arg=view, timeout=60_000)


def wait_for(page, text: str) -> None:
    page.wait_for_function(
        "(text) => document.getElementById('main').innerText.includes(text)", arg=text, timeout=60_000
    )


def test_without_the_key_the_page_says_what_to_open(viewer):
    page = viewer("episodes")
    origin = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(origin)
    page.wait_for_selector("main[data-ready]")
    assert "open the one that `rlvr view` printed" in page.inner_text("body")


def test_curves_of_runs_stand_side_by_side_with_what_differs_in_their_configs(viewer):
    page = viewer("runs?smooth=0.9")
    assert page.locator(".chart").count() == 2
    assert page.locator(".chart").first.locator("path").count() == 4, "two runs, each raw and smoothed"
    assert "1 of 2 values differ" in page.inner_text("main")
    assert page.locator("table tr").count() == 2
    page.get_by_label("raw points").uncheck()
    page.wait_for_function("() => document.querySelectorAll('.chart:first-child path').length === 2")
    assert "raw=0" in page.evaluate("location.href")


def test_a_thousand_episodes_are_scrolled_searched_and_walked_through_by_keys(viewer):
    page = viewer("episodes")
    page.wait_for_selector(".row[data-at='0']")
    assert page.locator(".row[data-at]").count() < 100
    page.keyboard.press("G")
    page.wait_for_selector(".row.at[data-at='999']")
    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    wait_for(page, "1 episodes")
    assert "q=needle" in page.evaluate("location.href")
    page.wait_for_selector(".row.at[data-at='0']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts")  # the list shows the answer too
    wait_for(page, "The answer is \\boxed{777}")
    assert page.locator("details.thinking:not([open])").count() == 1
    assert not page.get_by_text("Be good.").is_visible()
    page.keyboard.press("o")
    assert page.get_by_text("Be good.").is_visible()
    page.keyboard.press("u")
    wait_for(page, "1 episodes")


def test_a_list_that_is_taller_than_a_page_can_be_is_shown_to_its_last_row(viewer):
    """Browsers cut off a box of some ten million pixels: 360,000 rows."""
    page = viewer("episodes")
    page.evaluate("() => { V.TALLEST = 9000; return V.render(); }")
    page.wait_for_function("() => document.querySelector('.list').scrollHeight < 9100")
    for number in (999, 500, 0):
        page.evaluate(
            "(share) => { const list = document.querySelector('.list');"
            " list.scrollTop = share * (list.scrollHeight - list.clientHeight); }",
            number / 999,
        )
        row = page.wait_for_selector(f".row[data-at='{number}']")
        page.wait_for_function("(row) => row.checkVisibility()", arg=row)
        inside = "(row) => { const a = row.getBoundingClientRect(), b = row.parentElement.getBoundingClientRect();"
        inside += " return a.top >= b.top - 2 && a.bottom <= b.bottom + 2; }"
        page.wait_for_function(inside, arg=row)
    page.keyboard.press("G")
    page.wait_for_selector(".row.at[data-at='999']")
    page.keyboard.press("k")
    page.wait_for_selector(".row.at[data-at='998']")


def test_rows_are_filled_again_and_each_part_is_asked_for_once_two_at_a_time(viewer):
    page = viewer("episodes")
    asked, under_way, most = [], set(), 0

    def ask(request) -> None:
        nonlocal most
        if "/api/episodes?" in request.url:
            asked.append(request.url)
            under_way.add(request.url)
            most = max(most, len(under_way))

    page.on("request", ask)
    page.on("requestfinished", lambda request: under_way.discard(request.url))
    made = page.evaluate(
        """async () => {
          const list = document.querySelector(".list"), rows = new Set(list.querySelectorAll(".row"));
          for (let at = 1; at <= 60; at++) {
            list.scrollTop = at * 28;
            await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
            list.querySelectorAll(".row").forEach((row) => rows.add(row));
          }
          const own = list.querySelectorAll(".row").length;
          for (let at = 1; at <= 9; at++) {
            list.scrollTop = at * 2800;
            list.dispatchEvent(new Event("scroll"));
            await new Promise(requestAnimationFrame);
          }
          return [rows.size, own];
        }"""
    )
    assert made[0] <= made[1] + 12, "no row is made for each that comes into view"
    page.wait_for_selector(".row[data-at='930']")
    assert len(set(asked)) == len(asked)
    assert most <= 2


def test_next_and_previous_stay_within_the_filter_and_any_view_can_be_linked_to(viewer):
    page = viewer("episodes?status=correct")
    page.wait_for_selector(".row[data-at='0']")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts")  # the list shows the answer too
    wait_for(page, "\\boxed{3}.")
    page.keyboard.press("n")
    wait_for(page, "\\boxed{6}.")
    address = page.evaluate("location.href")  # `page.url` follows a little later
    page.keyboard.press("p")
    wait_for(page, "\\boxed{3}.")
    page.goto("about:blank")
    page.goto(address)
    wait_for(page, "\\boxed{6}.")


def test_tokens_show_every_column_and_are_coloured_by_one(viewer):
    page = viewer("episode/1?show=tokens")
    page.hover(".tokens [data-t='3']")
    panel = page.inner_text("#token")
    for words in ("3", "id 4", "mask 1", "log-prob -0.1", "advantage -0.5", "weight 0.2"):
        assert words in panel
    page.keyboard.press("ArrowLeft")
    assert "id 3" in page.inner_text("#token")
    colours = page.evaluate("[...document.querySelectorAll('.tokens span')].map((each) => each.style.background)")
    assert colours[0] == colours[1] == ""
    assert colours[2] != colours[3] != ""
    page.get_by_label("colour by").select_option("weight")
    page.wait_for_function("() => location.hash.includes('column=weight')")


def test_a_group_marks_the_first_difference_and_two_episodes_are_compared_word_by_word(viewer):
    page = viewer("group/5")
    assert page.locator(".sample").count() == 4
    assert page.locator(".differs").all_inner_texts() == ["4", "5", "6", "7"]
    assert "token 0 of what was sampled" in page.inner_text("main")
    page = viewer("episode/5")
    page.keyboard.press("m")
    wait_for(page, "marked")
    page.evaluate("location.hash = location.hash.replace(/episode\\/[^?]*/, 'episode/6')")
    wait_view(page, "episode 6")
    page.keyboard.press("d")
    page.wait_for_selector("#parted")
    assert page.locator("del").all_inner_texts() == ["4.</think>The", "\\boxed{4}."]
    assert page.locator("ins").all_inner_texts() == ["5.</think>The", "\\boxed{5}."]


def test_grading_again_shows_the_verdict_before_and_now(viewer):
    page = viewer("episode/2")
    page.get_by_text("grade again").click()
    page.wait_for_selector("#graded")
    assert page.inner_text("#graded") == "wrong 0 → correct 1"


def test_new_episodes_come_into_the_list_and_a_torn_line_is_said(viewer):
    page = viewer("episodes")
    path = viewer.folder / "one" / "episodes" / "train-000002.jsonl"
    path.write_text(json.dumps(answers(1)[0]) + "\n" + '{"env_id": "half')
    wait_for(page, "1,001 episodes")
    page.wait_for_function("() => document.getElementById('problems').innerText.includes('not whole')", timeout=60_000)
    page.keyboard.press("G")
    page.wait_for_selector(".row.at[data-at='1000']")


def test_dark_and_light_and_a_narrow_screen(viewer):
    page = viewer("episode/1")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_label("dark or light").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.get_by_label("dark or light").click()
    page.set_viewport_size({"width": 360, "height": 640})
    for view in ("runs", "episodes", "signs", "episode/1", "episode/1?show=tokens", "group/1", "difference/1/2"):
        viewer(view)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, view


def test_signs_of_reward_hacking_lead_to_their_episodes(viewer):
    page = viewer("signs")
    assert "The shortest rewarded replies" in page.inner_text("main")
    assert page.locator("main meter").count() > 0
    page.locator("#signs-shortest + p + .scroll a").first.click()
    page.wait_for_function("() => document.title.startsWith('episode ')")
    page.keyboard.press("4")
    page.wait_for_function("() => document.title.startsWith('signs')")
    assert "1 episodes, 1 judged" in viewer("signs?q=needle").inner_text("main")


def test_a_turn_is_played_anew_by_hand_and_by_the_expert_and_hostile_texts_stay_texts(browser, tmp_path):
    path = tmp_path / "played.jsonl"
    agent = ConstantAgent(PAYLOADS[3] + PAYLOADS[9])
    (played,) = Rollout("rlvr/BullsAndCows-v0", agent)(task_requests(None, 1))
    path.write_text(json.dumps(played.to_dict()) + "\n")
    index = EpisodeIndex(find_sources([path]), tmp_path / "index")
    options = argparse.Namespace(forks=tmp_path / "forks.jsonl", endpoint=None)
    forks = cli_view._forks(options, index.sources, {})
    with ViewerServer(Pages(index), forks=forks) as server:
        watched = Watched(browser, server.origin)
        page = watched.page
        page.goto(f"{server.origin}/#/episodes?key={server.key}")
        page.wait_for_function("() => document.querySelector('#progress')?.innerText === '1 episodes'", timeout=60_000)
        page.evaluate("() => { location.hash = location.hash.replace('episodes', 'episode/1'); }")
        page.get_by_text("fork from here (turn 2)").click()
        page.wait_for_selector("#action")
        assert page.locator(".message.assistant").count() == 2
        page.fill("#action", PAYLOADS[0] + PAYLOADS[2])
        page.get_by_text("play this action").click()
        page.wait_for_function("() => document.querySelectorAll('.message.assistant').length === 3")
        assert watched.foreign_elements() == 0
        page.get_by_text("let expert play on").click()
        page.wait_for_selector("#outcome .good")
        assert (watched.ran(), watched.foreign_elements(), watched.events) == (0, 0, [])
        page.wait_for_function("() => document.querySelector('#progress').innerText === '2 episodes'", timeout=60_000)
        page.goto(f"{server.origin}/#/episode/2?key={server.key}")
        page.get_by_role("link", name="the episode", exact=True).click()
        wait_view(page, "episode 1")
        page.close()
    index.close()


def test_worked_examples_are_turns_that_cannot_be_played_anew(browser, tmp_path):
    path, settings = tmp_path / "played.jsonl", {"few_shot": 2}
    (played,) = Rollout("rlvr/GSM8K-v0", ConstantAgent("no"), env_settings=settings)(task_requests(None, 1))
    path.write_text(json.dumps(played.to_dict()) + "\n")
    index = EpisodeIndex(find_sources([path]), tmp_path / "index")
    options = argparse.Namespace(forks=tmp_path / "forks.jsonl", endpoint=None)
    with ViewerServer(Pages(index), forks=cli_view._forks(options, index.sources, settings)) as server:
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        page.goto(f"{server.origin}/#/episode/1?key={server.key}")
        wait_view(page, "episode 1")
        roles = page.locator(".message .role b").all_inner_texts()
        assert roles[:7] == ["system", *["user", "assistant"] * 3]
        assert page.get_by_text("of a worked example").count() == 4
        assert page.get_by_text("fork from here").count() == 1
        page.get_by_text("fork from here (turn 0)").click()
        page.wait_for_selector("#action")
        assert page.locator(".message.assistant").count() == 2
        page.close()
    index.close()
