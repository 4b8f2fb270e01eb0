"""`rlvr table`: several results as one table, honest about what cannot be compared, and without markup of others."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rlvr.agents.evaluation import write_episodes
from rlvr.agents.evaluation.records import read_episodes
from rlvr.cli import main
from rlvr.envs.core.verdict import Verdict


class Cells(HTMLParser):
    """The texts of a page's cells by row, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and "ul" not in self.tags:
            self.rows[-1][-1] += data


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever terminal the tests run in, a table is as wide as it is."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("os.get_terminal_size", not_a_terminal)


def not_a_terminal(*_: object) -> None:
    raise OSError("no terminal")


@pytest.fixture
def results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Path]:
    files = {}
    for agent in ("expert", "empty"):
        files[agent] = tmp_path / f"{agent}.jsonl"
        played = ["eval", "--env", "Countdown", "--env", "GuessNumber", "--agent", agent, "--episodes", "4"]
        assert main([*played, "--out", str(files[agent])]) == 0
    capsys.readouterr()
    return files


def shown(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main(["table", *map(str, words)])
    return (status, *capsys.readouterr())


def test_agents_are_rows_and_environments_columns_in_markdown_and_html(
    results: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = shown(capsys, *results.values())
    assert (status, err) == (0, "")
    assert out.splitlines()[:4] == [
        "| agent | rlvr/Countdown-v0 | rlvr/GuessNumber-v0 |",
        "|---|---|---|",
        "| expert | 1.000 (0.510 to 1.000) | 1.000 (0.510 to 1.000) |",
        "| empty | 0.000 (0.000 to 0.490) | 0.000 (0.000 to 0.490) |",
    ]
    assert "not the same" not in out
    page = tmp_path / "table.html"
    assert shown(capsys, *results.values(), "--out", page)[0] == 0
    assert Cells(page.read_text()).rows == [
        ["agent", "rlvr/Countdown-v0", "rlvr/GuessNumber-v0"],
        ["expert", "1.000 (0.510 to 1.000)", "1.000 (0.510 to 1.000)"],
        ["empty", "0.000 (0.000 to 0.490)", "0.000 (0.000 to 0.490)"],
    ]
    assert shown(capsys, *results.values(), "--out", tmp_path / "table.md")[0] == 0
    assert (tmp_path / "table.md").read_text() == out


def test_a_narrow_terminal_gets_a_row_for_each_agent_and_environment(
    results: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    lines = shown(capsys, *results.values())[1].splitlines()
    assert lines[:4] == [
        "| environment | agent | success |",
        "|---|---|---|",
        "| rlvr/Countdown-v0 | expert | 1.000 (0.510 to 1.000) |",
        "| rlvr/Countdown-v0 | empty | 0.000 (0.000 to 0.490) |",
    ]
    assert lines[5].startswith("| rlvr/GuessNumber-v0 | empty |")
    monkeypatch.setenv("COLUMNS", "200")
    assert shown(capsys, *results.values())[1].startswith("| agent | rlvr/Countdown-v0 |")


def test_a_table_as_json_holds_each_result(
    results: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = json.loads(shown(capsys, *results.values(), "--json")[1])
    assert (table["agents"], table["envs"]) == (["expert", "empty"], ["rlvr/Countdown-v0", "rlvr/GuessNumber-v0"])
    cells = {(each["agent"], each["env"]): (each["success"], each["valid"]) for each in table["results"]}
    assert cells == {(a, e): (float(a == "expert"), 4) for a in table["agents"] for e in table["envs"]}
    assert table["notes"] == []
    status, _, err = shown(capsys, *results.values(), "--json", "--out", tmp_path / "x.md")
    assert (status, "give one of them" in err) == (2, True)


def test_a_comparison_has_a_line_for_each_environment(
    results: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(results["empty"]), str(results["expert"])]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("rlvr/")]
    assert [row.partition(":")[0] for row in rows] == ["rlvr/Countdown-v0", "rlvr/GuessNumber-v0"]
    assert all("4 tasks   A 0.000   B 1.000   B - A +1.000" in row and "gained 4, lost 0" in row for row in rows)
    assert main(["compare", str(results["empty"]), str(results["expert"]), "--json"]) == 0
    each = json.loads(capsys.readouterr().out)["environments"]
    assert {env_id: (one["tasks"], one["success"]) for env_id, one in each.items()} == {
        "rlvr/Countdown-v0": (4, 1.0),
        "rlvr/GuessNumber-v0": (4, 1.0),
    }


def test_other_tasks_a_missing_cell_and_faults_are_said(
    results: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = [e for e in read_episodes(results["empty"]) if e.env_id == "rlvr/Countdown-v0"]
    played[0].verdict = Verdict(0.0, "timeout", "the grader took too long")
    write_episodes(tmp_path / "few.jsonl", played[:3])
    _, out, _ = shown(capsys, results["expert"], tmp_path / "few.jsonl")
    assert "| few | 0.000 (0.000 to 0.658), 0.000 of all, 1 fault | – |" in out  # two of three count
    assert "(expert: 4 tasks; few: 3 tasks): its column does not rank them" in out
    write_episodes(tmp_path / "faults.jsonl", played[:1])
    _, out, _ = shown(capsys, results["expert"], tmp_path / "faults.jsonl")
    assert "| faults | unknown, 0.000 of all, 1 fault | – |" in out


def test_an_episode_that_was_played_again_counts_once_and_two_results_of_one_name_are_refused(
    results: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = read_episodes(results["expert"])
    failed = read_episodes(results["expert"])[0]
    failed.verdict = Verdict(0.0, "env_error", "gone")
    write_episodes(tmp_path / "again.jsonl", [failed, *others, first])
    _, out, _ = shown(capsys, tmp_path / "again.jsonl")
    assert "| again | 1.000 (0.510 to 1.000) | 1.000 (0.510 to 1.000) |" in out
    status, _, err = shown(capsys, results["expert"], results["expert"])
    assert status == 2
    assert "give each a name, NAME=FILE" in err
    status, out, _ = shown(capsys, results["expert"], f"another={results['expert']}")
    assert status == 0
    assert "| another | 1.000" in out


def test_names_of_others_are_text_in_both(
    results: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "<script>alert(1)</script>|[x](javascript:alert(1))\n# big\x1b[31m\u202e"
    file = tmp_path / "hostile.jsonl"
    episodes = read_episodes(results["expert"])[:1]
    episodes[0].env_id = hostile
    write_episodes(file, episodes)
    file.with_name("hostile.jsonl.options.json").write_text(json.dumps({"agent": hostile}))
    page = tmp_path / "table.html"
    assert shown(capsys, file, "--out", page)[0] == 0
    found = Cells(page.read_text())
    assert not {"script", "a", "h1"} & set(found.tags)
    assert "<script>alert(1)</script>" in found.rows[1][0]
    _, out, _ = shown(capsys, file)
    head, _, row, *_ = out.splitlines()
    for line in (head, row):
        assert "\\<script\\>" in line
        assert "\\[x\\](" in line
        assert line.count("|") - line.count("\\|") == 3
        assert "\x1b" not in line
        assert "\u202e" not in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.jsonl"], "there is no file nothing.jsonl"),
        (["{empty}"], "the results hold no episode"),
        (["{torn}"], "is not an episode"),
        (["{empty}", "--out", "x.pdf"], "--out takes X.md or X.html"),
    ],
)
def test_what_is_no_table_is_one_sentence(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "torn.jsonl").write_text("hello\n")
    given = [word.format(empty=tmp_path / "empty.jsonl", torn=tmp_path / "torn.jsonl") for word in words]
    status, out, err = shown(capsys, *given)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_results_of_different_settings_are_not_set_side_by_side_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for file, env, level in ((one, "Countdown", 1), (two, "GuessNumber", 2)):
        played = ["eval", "--env", env, "--agent", "expert", "--episodes", "2", "--set", f"level={level}"]
        assert main([*played, "--out", str(file)]) == 0
    capsys.readouterr()
    _, out, _ = shown(capsys, one, two)
    assert "level was not the same in all results" in out
    assert f"1: expert in {one}; 2: expert in {two}".replace("_", "\\_") in out
    assert "not the same" not in shown(capsys, one)[1]


def test_a_folder_stands_for_the_results_in_it(
    results: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, tmp_path)[1].count("| e") == 2
    (tmp_path / "one.jsonl.turns.jsonl").write_text('{"answers": "a", "reply": {}}\n')  # an interrupted result's
    assert shown(capsys, tmp_path)[1].count("| e") == 2
    (tmp_path / "nothing").mkdir()
    status, _, err = shown(capsys, tmp_path / "nothing")
    assert (status, "holds no *.jsonl" in err) == (2, True)
