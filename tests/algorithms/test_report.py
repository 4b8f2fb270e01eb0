"""The report: one page that needs nothing, and that nothing a policy writes can act in."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rlvr.agents.episode import Episode, Turn
from rlvr.algorithms.runs.report import draw_curve, write_report
from rlvr.algorithms.runs.run_folder import RunFolder, RunFolderError
from rlvr.envs import Verdict

HOSTILE = [
    "<script>alert(1)</script>",
    "</pre><script src=//evil></script>",
    "</style></head><body onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "'><iframe srcdoc='<script>alert(1)</script>'>",
    "<a href='javascript:alert(1)'>here</a>",
    "<!--", "-->", "]]>", "<?php", "&lt;script&gt;alert(1)&lt;/script&gt;", "&#x3c;script>", "\\u003cscript\\u003e",
    "\x1b[2J\x1b]8;;http://evil\x07click\x1b]8;;\x07", "\x9b31m", "\r\n\x00\x08", "\u202egnp.exe", "\u2066\u2069",
    "lone \udc80 surrogate", "<meta http-equiv=refresh content='0;url=//evil'>", "<base href=//evil>",
    "<link rel=stylesheet href=//evil>", "<style>*{display:none}</style>", "<form action=//evil><button>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>", "${7*7}{{7*7}}<%= 7*7 %>",
    "<SCRIPT/XSS SRC=//evil>", "<scr<script>ipt>", "<details open ontoggle=alert(1)>",
]  # fmt: skip


class Reader(HTMLParser):
    """Collects the tags of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def parsed(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def read(page: Path) -> Reader:
    """What the frame shows; the page around it holds nothing else, and gives it no rights."""
    outer = parsed(page.read_text(encoding="utf-8"))
    assert [tag for tag, _ in outer.tags] == ["html", "head", "meta", "meta", "title", "style", "body", "iframe"]
    frame = outer.tags[-1][1]
    assert frame.keys() == {"sandbox", "title", "srcdoc"}
    assert not frame["sandbox"], "scripts, forms, navigation and a refresh by <meta> are allowed by name alone"
    return parsed(frame["srcdoc"] or "")


def episode(text: str, *, verdict: Verdict | None) -> Episode:
    turns = [Turn(text, "user", text, "stop", 0.0, verdict), Turn(text, text, text, "length", 0.0, verdict)]
    return Episode("rlvr/Calculator-v0", text, 0, system=text, turns=turns, verdict=verdict, final_observation=text)


def run_with(folder: Path, episodes: list[Episode], metrics: list[dict]) -> Path:
    run = RunFolder(folder)
    run.config.write_text("steps: 1\nout: <script>alert('config')</script>\n")
    for record in metrics:
        run.log(record, {"step": record["step"]})
    for name in ("before", "after"):
        run.write_episodes(f"evaluation-{name}-greedy", episodes)
    run.close()
    return folder


def evaluation(name: str, step: int) -> dict:
    shares = {"greedy_success": 0.5, "greedy_reward": 0.5, "sampled_success": 0.25, "sampled_reward": 0.25}
    return {"phase": "evaluation", "step": step, "name": name, "tasks": 4, **shares}


CURVE = [
    {"phase": "expert", "step": 0, "warm_step": 0, "loss": 1.0},
    evaluation("before", 0),
    *({"phase": "train", "step": step, "reward": step / 4} for step in range(1, 5)),
    evaluation("after <b>bold</b>", 4),
]
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "h3",
    "p",
    "code",
    "img",
    "table",
    "tr",
    "th",
    "td",
    "div",
    "pre",
}


@pytest.mark.parametrize("start", range(0, len(HOSTILE), 8))
def test_what_a_policy_writes_is_text(tmp_path: Path, start: int):
    """Eight at a time, as many as a page shows; the same page with letters has the same markup."""
    pages = []
    hostile = HOSTILE[start : start + 8]
    harmless = [letter * len(text) for letter, text in zip("abcdefgh", hostile, strict=False)]
    for name, texts in (("<run>", hostile), ("plain", harmless)):
        episodes = [episode(text, verdict=Verdict(0.0, "wrong", reason=text)) for text in texts]
        pages.append(write_report(run_with(tmp_path / name, episodes, CURVE)))
    page, plain = pages
    reader = read(page)
    assert [tag for tag, _ in reader.tags] == [tag for tag, _ in read(plain).tags], "the text has become markup"
    assert {tag for tag, _ in reader.tags} <= TAGS
    for _, attributes in reader.tags:
        assert not any(name.startswith("on") or name in ("href", "action", "srcdoc") for name in attributes)
        assert not attributes.get("src") or attributes["src"].startswith("data:image/png;base64,")
    raw = page.read_text(encoding="utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", raw), "it could steer a terminal"


def test_the_policy_forbids_scripts_and_the_network(tmp_path: Path):
    page = write_report(run_with(tmp_path / "run", [], CURVE))
    for document in (parsed(page.read_text(encoding="utf-8")), read(page)):
        (policy,) = [
            attributes["content"]
            for tag, attributes in document.tags
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy is not None
        assert policy.startswith("default-src 'none';")
        assert "script-src" not in policy
        assert "http" not in policy


REFRESH = "<meta http-equiv=refresh content='0;url=//evil'>"


@pytest.mark.parametrize("field", ["step", "tasks", "greedy_success", "sampled_success"])
def test_a_figure_that_is_text_is_one_sentence(tmp_path: Path, field: str):
    """A run folder comes from anybody: what stands where a number should is neither markup nor a traceback."""
    assert write_report(run_with(tmp_path / "control", [], [evaluation("before", 0)])).exists()
    run = run_with(tmp_path / "run", [], [evaluation("before", 0) | {field: REFRESH}])
    with pytest.raises(RunFolderError, match=f"^{field} must be a number, not .<meta"):
        write_report(run)


@pytest.mark.parametrize("value", [10**400, True, [1], {"a": 1}], ids=["huge", "bool", "list", "dict"])
def test_figures_are_numbers(tmp_path: Path, value: object):
    with pytest.raises(RunFolderError, match="must be a number"):
        write_report(run_with(tmp_path / "run", [], [evaluation("before", 0) | {"step": value}]))


def test_names_are_text(tmp_path: Path):
    for number, name in enumerate((REFRESH, 7, None, ["<b>"])):
        page = write_report(run_with(tmp_path / str(number), [], [evaluation("x", 0) | {"name": name}]))
        assert str(name) in "".join(read(page).text)


def test_the_report_is_written_through_no_link(tmp_path: Path):
    victims = [tmp_path / "victim.png", tmp_path / "victim.html", tmp_path / "victim.txt"]
    run = run_with(tmp_path / "run", [], CURVE)
    for victim, name in zip(victims, ("curve.png", "report.html", ".report.html.draft"), strict=True):
        victim.write_text("precious")
        (run / name).symlink_to(victim)
    page = write_report(run)
    assert [victim.read_text() for victim in victims] == ["precious"] * 3
    assert not page.is_symlink()
    assert read(page).text


def test_the_page_shows_the_run(tmp_path: Path):
    verdict = Verdict(1.0, "correct", reason="as it should be")
    page = write_report(run_with(tmp_path / "run", [episode("two & two", verdict=verdict)] * 20, CURVE))
    reader = read(page)
    text = "".join(reader.text)
    for words in ("two & two", "correct, reward 0: as it should be", "0.500", "0.250", "after <b>bold</b>", "steps: 1"):
        assert words in text
    assert text.count("as it should be") == 16, "eight episodes from before and after"
    (picture,) = [attributes["src"] for tag, attributes in reader.tags if tag == "img"]
    assert base64.b64decode(picture.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("metrics", [[], CURVE[:2], CURVE[2:3], CURVE[2:6]], ids=["none", "before", "one", "between"])
def test_runs_without_evaluations_or_steps_have_a_report(tmp_path: Path, metrics: list[dict]):
    page = write_report(run_with(tmp_path / "run", [episode("x", verdict=None)], metrics))
    assert "unfinished" in "".join(read(page).text)


def test_episodes_that_are_not_there_are_no_error(tmp_path: Path):
    run = RunFolder(tmp_path / "run")
    run.config.write_text("steps: 0\n")
    run.close()
    assert write_report(tmp_path / "run").exists()


def test_the_picture_is_the_same_each_time(tmp_path: Path):
    for name in ("a", "b"):
        draw_curve(CURVE, tmp_path / f"{name}.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_calls_of_tools_get_a_panel_of_their_own(tmp_path: Path):
    calls = {"tool_calls": 0.5, "greedy_tool_calls": 1.0, "sampled_tool_calls": 0.0}
    for name, more in (("none", {}), ("zero", dict.fromkeys(calls, 0.0)), ("some", calls)):
        draw_curve([{**record, **more} for record in CURVE], tmp_path / f"{name}.png")
    none, zero, some = (
        (tmp_path / f"{name}.png").read_bytes()[16:24] for name in ("none", "zero", "some")
    )  # width, height
    assert none == zero != some
