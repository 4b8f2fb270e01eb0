"""Evaluations in the viewer: the figures of `rlvr eval`, `table` and `compare`, from an index without the texts."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.adapters.viewer import evaluations, foreign
from rlvr.adapters.viewer.evaluations import Evaluations
from rlvr.adapters.viewer.export import exported
from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.pages import Pages
from rlvr.adapters.viewer.queries import listing
from rlvr.adapters.viewer.sources import find_sources
from rlvr.agents import summarise
from rlvr.agents.conversation import FLAWS
from rlvr.agents.episode import Episode, Turn
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.evaluation.compare import compare
from rlvr.cli import view as cli_view
from rlvr.envs.core.verdict import Verdict

AGENT = {"model": "m", "revision": "r1", "sampling": {"temperature": 0.5}}
USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "model_seconds": 0.5, "env_seconds": 0.25, "cost": 0.01}


def played(number: int, success: bool, **fields: Any) -> Episode:
    """Sample ``number % 2`` of task ``number // 2``; two environments take turns."""
    task = number // 2
    made = Episode(f"rlvr/Made{task % 2}-v0", f"k/{number}", 0, task, number % 2, task, "test", 1 + task % 3)
    made.turns = [Turn("What?", "user", f"answer {number}", "stop", float(success))]
    made.verdict = Verdict(float(success), "correct" if success else "wrong", answer=f"{number}", reason="compared")
    made.env_digest, made.agent, made.usage = "rows=1 settings=2 code=3", dict(AGENT), dict(USAGE)
    return replace(made, **fields)


def write(path: Path, episodes: list[Episode]) -> Path:
    path.write_text("".join(json.dumps(each.to_dict()) + "\n" for each in episodes))
    return path


@pytest.fixture
def indexed(tmp_path: Path) -> Iterator[Any]:
    made: list[EpisodeIndex] = []

    def index(*paths: Path, again: bool = False) -> EpisodeIndex:
        made.append(EpisodeIndex(find_sources(paths), tmp_path / "index", paths if again else None))
        made[-1].update()
        return made[-1]

    yield index
    for each in made:
        each.close()


VERDICTS = [
    Verdict(1.0, "correct", answer="7", parts={"best_score": 0.5}),
    Verdict(0.5, "partial", answer="8"),
    Verdict(0.0, "unparsable", reason="no answer"),
    Verdict(0.0, "env_error", reason="step: boom 17"),
    Verdict(0.0, "wrong", answer="x" * 3_000),
]
TURNS = st.builds(
    Turn,
    st.just("What?"),
    st.just("user"),
    st.sampled_from(["", "an answer", "<think>hm</think>so", '<tool_call>{"name": "f", "arguments": {}}</tool_call>']),
    st.sampled_from(["stop", "length", "context", "error", "pause"]),
    st.sampled_from([0.0, 0.5]),
    st.none() | st.sampled_from(VERDICTS),
    flaw=st.sampled_from(["", *FLAWS]),
)
USAGES = st.sampled_from([{}, USAGE, {"prompt_tokens": 3}])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.lists(TURNS, min_size=1, max_size=3), USAGES, st.booleans()), min_size=1, max_size=8))
def test_figures_are_those_of_an_evaluation(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[list[Turn], dict[str, float], bool]]
) -> None:
    episodes = []
    for number, (turns, usage, unfinished) in enumerate(drawn):
        verdict = None if unfinished else turns[-1].verdict
        episodes.append(played(number, False, turns=turns, usage=dict(usage), verdict=verdict))
    folder = tmp_path_factory.mktemp("figures")
    index = EpisodeIndex(find_sources([write(folder / "a.jsonl", episodes)]), folder / "index")
    try:
        index.update()
        page = Evaluations(index).page("a.jsonl")
        for shown, expected in (
            (page["figures"], summarise(episodes)),
            *(
                (each["figures"], summarise([e for e in episodes if e.env_id == each["env"]]))
                for each in page["environments"]
            ),
        ):
            record = expected.to_dict() | {"warnings": expected.warnings}
            unknown = () if expected.valid else ("success", "reward", "turns", "low", "high")
            assert shown == record | dict.fromkeys(unknown)
    finally:
        index.close()


def test_a_page_names_who_played_what_and_each_level(tmp_path, indexed):
    path = write(tmp_path / "a.jsonl", [played(number, number % 3 == 0) for number in range(12)])
    (tmp_path / "a.jsonl.options.json").write_text(json.dumps({"temperature": "0.5", "vllm": "None"}))
    page = Evaluations(indexed(path)).page("a.jsonl")
    assert (page["agents"], page["options"]) == ([AGENT], {"temperature": "0.5"})
    assert [(each["env"], each["digests"]) for each in page["environments"]] == [
        ("rlvr/Made0-v0", ["rows=1 settings=2 code=3"]),
        ("rlvr/Made1-v0", ["rows=1 settings=2 code=3"]),
    ]
    assert [level["level"] for level in page["environments"][0]["levels"]] == [1, 2, 3]
    assert sum(level["figures"]["episodes"] for level in page["environments"][0]["levels"]) == 6
    assert page["suite"]["success"] == pytest.approx(sum(e["figures"]["success"] for e in page["environments"]) / 2)
    assert page["figures"]["usage"]["cost"] == pytest.approx(0.12)
    with pytest.raises(KeyError, match="there is no run or file b"):
        Evaluations(indexed(path)).page("b")


def test_results_beside_each_other_are_what_compare_says_and_lead_to_the_episodes(tmp_path, indexed):
    a = [played(number, number % 3 == 0) for number in range(12)]
    b = [played(number, number % 2 == 0) for number in range(12)]
    index = indexed(write(tmp_path / "a.jsonl", a), write(tmp_path / "b.jsonl", b))
    shown = Evaluations(index).compared(["a.jsonl", "b.jsonl"])
    (pair,) = shown["pairs"]
    expected = compare(a, b)
    names = ("tasks", "success", "success_interval", "reward_interval", "success_all_a", "invalid_b")
    assert {name: pair[name] for name in names} == {name: expected.to_dict()[name] for name in names}
    assert (pair["gained"], pair["lost"]) == (len(expected.gained), len(expected.lost))
    assert pair["environments"]["rlvr/Made0-v0"]["success"] == expected.environments["rlvr/Made0-v0"].success
    for way, wanted in (("gained_tasks", [0, 1]), ("lost_tasks", [1, 0])):
        for task in pair[way]:
            traces = [index.trace(index.number_of(uid)) for uid in task["episodes"]]
            assert [int(trace.success) for trace, _ in traces] == wanted
            assert [row["source"] for _, row in traces] == ["a.jsonl", "b.jsonl"]
            assert {trace.index for trace, _ in traces} == {task["index"]}
    cells = {(each["agent"], each["env"]): each["success"] for each in shown["table"]["results"]}
    assert cells["a.jsonl", "rlvr/Made0-v0"] == summarise([e for e in a if e.env_id == "rlvr/Made0-v0"]).success
    for names in ([], ["a.jsonl"], ["a.jsonl", "a.jsonl"]):
        with pytest.raises(ValueError, match="two to 8 different results"):
            Evaluations(index).compared(names)


def test_results_without_a_common_task_say_so(tmp_path, indexed):
    a = write(tmp_path / "a.jsonl", [played(0, True)])
    b = write(tmp_path / "b.jsonl", [played(9, True)])
    (pair,) = Evaluations(indexed(a, b)).compared(["a.jsonl", "b.jsonl"])["pairs"]
    assert "no task in common" in pair["error"]


def test_what_comes_later_is_added_and_what_was_played_again_counts_once(tmp_path, indexed):
    path = write(tmp_path / "a.jsonl", [played(0, False), played(1, False, verdict=VERDICTS[3])])
    index = indexed(path)
    evaluations = Evaluations(index)
    assert evaluations.page("a.jsonl")["figures"]["valid"] == 1
    with path.open("a") as file:
        file.writelines(json.dumps(each.to_dict()) + "\n" for each in (played(1, True), played(2, True)))
    index.update()
    figures = evaluations.page("a.jsonl")["figures"]
    assert (figures["episodes"], figures["valid"], figures["success"]) == (3, 3, pytest.approx(2 / 3))
    write(path, [played(5, True)])  # written anew
    index.update()
    assert evaluations.page("a.jsonl")["figures"]["episodes"] == 1


def test_figures_are_kept_in_the_index_until_an_episode_comes(tmp_path, monkeypatch):
    path = write(tmp_path / "a.jsonl", [played(0, False), played(1, True)])
    first = EpisodeIndex(find_sources([path]), tmp_path / "index")
    first.update()
    Evaluations(first).prepare(lambda: False)
    page = Evaluations(first).page("a.jsonl")
    first.close()
    again = EpisodeIndex(find_sources([path]), tmp_path / "index")
    again.update()
    with monkeypatch.context() as patch:
        patch.setattr("rlvr.adapters.viewer.evaluations.light_episode", None)  # would be called for each episode
        assert Evaluations(again).page("a.jsonl") == page
    with path.open("a") as file:
        file.write(json.dumps(played(2, True).to_dict()) + "\n")
    again.update()
    assert Evaluations(again).page("a.jsonl")["figures"]["episodes"] == 3
    again.close()


def test_two_who_ask_at_once_have_the_figures_worked_out_once(tmp_path, indexed, monkeypatch):
    pages = Evaluations(indexed(write(tmp_path / "a.jsonl", [played(n, n < 3) for n in range(8)])))
    times, figures_of = [], evaluations._summed

    def slowly(episodes):
        times.append(1)
        time.sleep(0.2)  # while the others ask
        return figures_of(episodes)

    monkeypatch.setattr(evaluations, "_summed", slowly)
    with ThreadPoolExecutor(4) as pool:
        shown = list(pool.map(pages.page, ["a.jsonl"] * 4))
    assert shown == [shown[0]] * 4
    assert times == [1]


def test_records_of_before_are_shown_as_unknown(tmp_path, indexed):
    path = write(tmp_path / "a.jsonl", [played(0, True, agent={}, usage={}, env_digest="")])
    evaluations = Evaluations(indexed(path))
    (row,) = evaluations.listed()
    assert (row["model"], row["usage"], row["episodes"]) == ("", {}, 1)
    page = evaluations.page("a.jsonl")
    assert (page["agents"], page["environments"][0]["digests"]) == ([], [])


def test_hostile_fields_of_who_played_are_left_out_or_shown_as_text(tmp_path, indexed):
    record = played(0, True).to_dict()
    strange = [{"agent": "x"}, {"agent": {"model": ["x"]}}, {"usage": {"cost": "1", "prompt_tokens": -1}}, {"usage": 3}]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record | each) + "\n" for each in strange))
    index = indexed(path)
    assert Evaluations(index).page("a.jsonl")["figures"]["episodes"] == 1  # one episode, in four versions
    assert listing(index.reader, {})["total"] == 4


# links, sources and records


def test_a_link_outlives_the_index(tmp_path, indexed):
    path = write(tmp_path / "a.jsonl", [played(number, True) for number in range(3)])
    first = indexed(path)
    (uid,) = [row["uid"] for row in listing(first.reader, {})["rows"] if row["number"] == 2]
    first.close()
    shutil.rmtree(tmp_path / "index")
    other = write(tmp_path / "0.jsonl", [played(7, False)])
    again = indexed(other, path)
    trace, row = again.trace(again.number_of(uid))
    assert (trace.key, row["source"], row["id"]) == ("k/2", "a.jsonl", 4)
    assert again.number_of("4") == 4
    for name in ("e0123456789abcdef", "", "9" * 19, "../x"):
        with pytest.raises(KeyError, match="there is no episode"):
            again.number_of(name)


def test_runs_and_files_that_come_later_are_found(tmp_path, indexed):
    folder = tmp_path / "runs"
    folder.mkdir()
    write(folder / "a.jsonl", [played(0, True)])
    index = indexed(folder, again=True)
    (folder / "new").mkdir()
    (folder / "new" / "config.sha256").write_text("")  # what a run writes first
    write(folder / "b.jsonl", [played(1, True)])
    index.update()
    assert [(source.name, source.folder is not None) for source in index.sources] == [
        ("a.jsonl", False),
        ("new", True),
        ("b.jsonl", False),
    ]
    assert {row["name"]: row["episodes"] for row in Evaluations(index).listed()} == {
        "a.jsonl": 1,
        "new": 0,
        "b.jsonl": 1,
    }


def test_a_record_is_given_as_its_file_holds_it(tmp_path, indexed):
    path = write(tmp_path / "a.jsonl", [played(0, True)])
    with path.open("a") as file:
        file.write(json.dumps({"messages": [{"role": "user", "content": "hi"}], "foreign": {"kept": 1}}) + "\n")
    index = indexed(path)
    assert index.record(1) == played(0, True).to_dict()
    assert index.record(2)["foreign"] == {"kept": 1}
    assert Episode.from_dict(index.record(1)) == read_episodes(write(tmp_path / "b.jsonl", [played(0, True)]))[0]


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"min_cut": "1"}, [1]),
        ({"min_unread": "1"}, [2]),
        ({"flaw": "empty"}, [0]),
        ({"flaw": "emp"}, []),
        ({"model": "other"}, [2]),
        ({"min_cost": "0.02"}, [1]),
        ({"max_seconds": "0.5"}, [0]),
        ({"sort": "-cost"}, [1, 2, 0]),
    ],
)
def test_each_figure_of_a_page_selects_its_episodes(tmp_path, indexed, asked, numbers):
    turn = Turn("What?", "user", "so", "stop")
    episodes = [
        played(0, False, turns=[replace(turn, flaw="empty")], usage={"model_seconds": 0.1}),
        played(1, False, turns=[replace(turn, stop="length")], usage={"cost": 0.02, "env_seconds": 2.0}),
        played(2, False, turns=[replace(turn, verdict=VERDICTS[2])], agent={"model": "other"}),
    ]
    index = indexed(write(tmp_path / "a.jsonl", episodes))
    assert [row["number"] for row in listing(index.reader, asked)["rows"]] == numbers


def test_errors_of_foreign_tools_and_their_counts_are_read():
    messages = [
        {"role": "tool", "content": "boom", "is_error": True},
        {"role": "tool", "content": "", "error": {"type": "timeout", "message": "too slow"}},
        {"role": "tool", "content": "fine", "error": None},
    ]
    trace = foreign.trace_of({"messages": messages})
    assert [(m.status, m.reason) for m in trace.messages] == [("error", ""), ("error", "too slow"), ("", "")]
    sample = {
        "messages": [],
        "epoch": 1,
        "scores": {},
        "model_usage": {"openai/x": {"input_tokens": 5, "output_tokens": 2}},
    }
    trace = foreign.trace_of(sample)
    assert (trace.agent, trace.usage) == ({"model": "openai/x"}, {"prompt_tokens": 5, "completion_tokens": 2})


def test_an_exported_file_holds_the_evaluations(tmp_path, indexed):
    data = exported(Pages(indexed(write(tmp_path / "a.jsonl", [played(0, True), played(1, False)]))), 10)
    assert [row["name"] for row in data["evaluations"]] == ["a.jsonl"]
    assert data["evaluation"]["a.jsonl"]["figures"]["successes"] == 1
    assert data["episode"].keys() == {row["uid"] for row in data["rows"]}


@pytest.mark.parametrize("key", ["", "short", "a" * 20 + "&b", "ä" * 20])
def test_a_key_that_is_kept_cannot_be_guessed_and_stands_in_an_address(key, monkeypatch):
    monkeypatch.setenv("VIEW_KEY", key)
    with pytest.raises(ValueError, match="at least 16 letters, digits, - and _"):
        cli_view._kept_key("VIEW_KEY")
    monkeypatch.setenv("VIEW_KEY", "abcDEF_123-456789")
    assert cli_view._kept_key("VIEW_KEY") == "abcDEF_123-456789"
    assert cli_view._kept_key(None) is None
