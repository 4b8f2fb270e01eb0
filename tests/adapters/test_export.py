"""`rlvr export`: what is written loads elsewhere, what is left out is counted, and trajectories come back the same."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from rlvr.adapters.export import files
from rlvr.adapters.export.atif import NotOurs, atif_record, episode_of
from rlvr.adapters.export.chat import chat_record, openai_record
from rlvr.adapters.viewer.index import EpisodeIndex
from rlvr.adapters.viewer.queries import listing
from rlvr.adapters.viewer.sources import find_sources
from rlvr.agents import Episode, ExpertAgent, RandomAgent, Rollout, TokenSequence, Turn, task_requests
from rlvr.agents.evaluation.records import read_episodes, scan_episodes, write_episodes
from rlvr.cli import main
from rlvr.envs import Verdict

from ..agents.test_episode import EPISODE

CALCULATOR, SQL = "rlvr/Calculator-v0", "rlvr/SQL-v0"
PNG = "data:image/png;base64,iVBORw0KGgo="
TOOLS = json.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "search",
                "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
            },
        }
    ]
)


def played(env_id: str, agent: Any, count: int = 4, **settings: Any) -> list[Episode]:
    return Rollout(env_id, agent, env_settings=settings)(task_requests(None, count))


def made(number: int, reward: float = 1.0, status: str = "correct", **fields: Any) -> Episode:
    """An episode of one turn; ``number`` is its task."""
    action = fields.pop("action", f"answer {number}")
    settings: dict[str, Any] = {"split": "train", "level": 1, **fields}
    episode = Episode("rlvr/Made-v0", f"key/{number}", seed=0, index=number, **settings)
    episode.turns = [Turn(f"question {number}", "user", action, "stop", reward)]
    episode.verdict = Verdict(reward, status)
    return episode


def exported(capsys: Any, tmp_path: Path, episodes: list[Episode], *words: object) -> tuple[int, list[dict], str]:
    """Status, records and what was printed, of an export of episodes as chats."""
    source, out = tmp_path / "episodes.jsonl", tmp_path / "out.jsonl"
    write_episodes(source, episodes)
    status = main(["export", str(source), "--out", str(out), *map(str, words)])
    printed = capsys.readouterr()
    records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return status, records, printed.out + printed.err


# what is written loads


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_chat_loads_with_datasets_and_a_chat_template(capsys, tmp_path: Path, suffix: str):
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("torch")
    from rlvr.agents.models.tiny import tiny_tokenizer

    episodes = [*played(CALCULATOR, ExpertAgent()), made(7, tools=TOOLS)]
    write_episodes(tmp_path / "a.jsonl", episodes)
    out = tmp_path / f"out.{suffix}"
    assert main(["export", str(tmp_path / "a.jsonl"), "--out", str(out)]) == 0
    kind = {"jsonl": "json"}.get(suffix, suffix)
    table = datasets.load_dataset(kind, data_files=str(out), cache_dir=str(tmp_path / "cache"), split="train")
    assert table["reward"][:] == [episode.reward for episode in episodes]
    for row, episode in zip(table, episodes, strict=True):
        assert [(each["role"], each["content"]) for each in row["messages"]] == [
            (message["role"], message["content"]) for message in episode.messages()
        ]
        text = tiny_tokenizer().apply_chat_template(row["messages"], tokenize=False)
        assert all(turn.action in text for turn in episode.turns)
    tools = table[4]["tools"]
    assert (json.loads(tools) if suffix == "parquet" else tools) == json.loads(TOOLS)


def test_images_are_parts_of_the_contents(tmp_path: Path, capsys):
    episode = made(1)
    episode.turns[0].image = PNG
    _, records, _ = exported(capsys, tmp_path, [episode, made(2)])
    assert records[0]["messages"][0]["content"] == [
        {"type": "image", "image": PNG},
        {"type": "text", "text": "question 1"},
    ]
    assert all(isinstance(each["content"], list) for record in records for each in record["messages"])


def test_openai_wants_calls_with_their_outputs(tmp_path: Path):
    episode = made(1, tools=TOOLS, system="Search.")
    call = '<tool_call>\n{"name": "search", "arguments": {"query": "x"}}\n</tool_call>'
    episode.turns = [
        Turn("Who?", "user", f"I look.\n{call}", "stop"),
        Turn("found", "tool", "not a call", "stop"),
        Turn("no call", "tool", "done", "stop", 1.0),
    ]
    record = openai_record(episode)
    assert set(record) == {"messages", "tools"}
    _, _, asked, answered, plain, refused, last = record["messages"]
    assert asked["content"] == "I look."
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"query": "x"}
    assert answered == {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "found"}
    assert (plain["content"], refused["role"], last["content"]) == ("not a call", "user", "done")
    assert chat_record(episode)["messages"][2]["content"] == f"I look.\n{call}"


def test_text_that_no_encoding_holds_is_replaced(tmp_path: Path, capsys):
    pq = pytest.importorskip("pyarrow.parquet")
    _, records, _ = exported(capsys, tmp_path, [made(1, action="a\ud800b")])
    assert records[0]["messages"][-1]["content"] == "a?b"
    assert main(["export", str(tmp_path / "episodes.jsonl"), "--out", str(tmp_path / "x.parquet")]) == 0
    assert pq.read_table(tmp_path / "x.parquet").to_pylist()[0]["messages"][-1]["content"] == "a?b"


# what is left out


def test_each_filter_leaves_out_what_it_names_and_counts_it(capsys, tmp_path: Path):
    long = made(3)
    long.turns = long.turns * 3
    full = made(4)
    full.tokens = TokenSequence([1] * 9, [1] * 9, [0.0] * 9)
    episodes = [made(1), made(2, 0.3, "partial"), long, full, made(5, level=2), made(6, split="validation")]
    for words, left, reason in [
        ([], set(), None),
        (["--success"], {2}, "1 without success"),
        (["--min-reward", 0.5], {2}, "1 with a reward below 0.5"),
        (["--max-turns", 2], {3}, "1 with over 2 turns"),
        (["--max-tokens", 9], {1, 2, 3, 5, 6}, "5 recorded without tokens, which --max-tokens counts"),
        (["--level", 1], {5}, "1 not of level 1"),
        (["--split", "train"], {6}, "1 not of split train"),
        (["--env", "rlvr/Made-v0"], set(), None),
    ]:
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        status, records, printed = exported(capsys, tmp_path, episodes, *words)
        assert status == 0
        assert {record["index"] for record in records} == {1, 2, 3, 4, 5, 6} - left, words
        assert (reason is None) == ("left out" not in printed)
        assert reason is None or reason in printed


def test_best_of_keeps_one_of_each_task_and_dedupe_one_of_each_text(capsys, tmp_path: Path):
    episodes = [made(1, 0.0, "wrong"), made(1, action="a longer answer"), made(1, action="short"), made(2), made(2)]
    _, records, printed = exported(capsys, tmp_path, episodes, "--best-of")
    assert [record["messages"][-1]["content"] for record in records] == ["short", "answer 2"]
    assert "3 not the best of their task" in printed
    _, records, printed = exported(capsys, tmp_path, episodes, "--dedupe")
    assert [record["index"] for record in records] == [1, 1, 1, 2]
    assert "1 word for word as another" in printed


@pytest.mark.parametrize("status", ["timeout", "verifier_error", "env_error"])
def test_no_filter_lets_an_invalid_episode_through(capsys, tmp_path: Path, status: str):
    bad = made(1, 0.0, status)
    unfinished = made(2)
    unfinished.verdict = None
    _, records, printed = exported(capsys, tmp_path, [bad, unfinished, made(3)], "--min-reward", "-9")
    assert [record["index"] for record in records] == [3]
    assert status in printed
    assert "1 not finished" in printed


def test_the_test_split_is_exported_only_when_it_is_named(capsys, tmp_path: Path):
    held_out = [made(1, split="test"), made(2, split="test")]
    status, records, printed = exported(capsys, tmp_path, held_out)
    assert (status, records) == (2, [])
    assert "--split test" in printed
    assert not (tmp_path / "out.jsonl").exists()
    _, records, printed = exported(capsys, tmp_path, [*held_out, made(3)])
    assert [record["index"] for record in records] == [3]
    assert "2 of the test split" in printed
    _, records, _ = exported(capsys, tmp_path, [*held_out, made(3)], "--split", "test")
    assert [record["index"] for record in records] == [1, 2]


# where episodes come from


def test_the_expert_plays_what_is_exported(capsys, tmp_path: Path):
    words = ["--expert", "Countdown", "--episodes", "3", "--level", "2", "--seed", "5"]
    assert main(["export", *words, "--out", str(tmp_path / "x.jsonl")]) == 0
    records = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [(r["index"], r["split"], r["level"], r["success"]) for r in records] == [
        (index, "train", 2, True) for index in range(3)
    ]
    assert main(["export", *words, "--split", "test", "--out", str(tmp_path / "y.jsonl")]) == 0


def test_a_run_is_its_folder_of_episodes_and_a_torn_line_stays(capsys, tmp_path: Path):
    run = tmp_path / "run"
    (run / "episodes").mkdir(parents=True)
    write_episodes(run / "episodes" / "train-000001.jsonl", [made(1), made(2)])
    (run / "metrics.jsonl").write_text('{"step": 1}\n')
    (run / "episodes" / "x.jsonl.turns.jsonl").write_text("{}\n")  # of an evaluation that goes on
    torn = (run / "episodes" / "train-000001.jsonl").read_bytes() + b'{"env_id": "rl'
    (run / "episodes" / "train-000001.jsonl").write_bytes(torn)
    assert main(["export", str(run), "--out", str(tmp_path / "x.jsonl")]) == 0
    assert "not whole" in capsys.readouterr().err
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 2
    assert (run / "episodes" / "train-000001.jsonl").read_bytes() == torn


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["EPISODES", "--out", "x.csv"], ".jsonl or X.parquet"),
        (["EPISODES", "--out", "EPISODES"], "is what is exported"),
        (["EPISODES", "--out", "x.parquet", "--format", "openai"], "JSONL"),
        (["EPISODES", "--out", "x.parquet", "--format", "atif"], "folder"),
        (["EPISODES", "--out", "x.jsonl", "--format", "parquet"], "X.parquet"),
        (["EPISODES", "--out", "x.parquet", "--format", "parquet", "--success"], "filters"),
        (["EPISODES", "--expert", "Countdown", "--out", "x.jsonl"], "--expert"),
        (["--out", "x.jsonl"], "--expert"),
        (["none.jsonl", "--out", "x.jsonl"], "no file or folder"),
        (["BROKEN", "--out", "x.jsonl"], "line 1"),
        (["EPISODES", "--max-turns", "0", "--out", "x.jsonl"], "--max-turns"),
        (["--expert", "Cuontdown", "--out", "x.jsonl"], "did you mean"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_no_file(capsys, tmp_path: Path, monkeypatch, words, reason: str):
    monkeypatch.chdir(tmp_path)
    write_episodes(tmp_path / "e.jsonl", [made(1)])
    (tmp_path / "b.jsonl").write_text('{"env_id": 1}\n')
    there = sorted(tmp_path.iterdir())
    names = {"EPISODES": "e.jsonl", "BROKEN": "b.jsonl"}
    assert main(["export", *(names.get(word, word) for word in words)]) == 2
    printed = capsys.readouterr().err
    assert reason in printed
    assert printed.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == there


# Parquet of episodes


def test_any_record_comes_back_from_parquet_as_the_same_bytes(tmp_path: Path, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet")
    episodes: list[Episode] = []

    @settings(max_examples=300)
    @given(EPISODE)
    def collect(episode):
        episodes.append(episode)

    collect()
    monkeypatch.setattr(files, "GROUP", 1 << 14)
    write_episodes(tmp_path / "a.jsonl", episodes)
    words = ["--format", "parquet", "--out", str(tmp_path / "a.parquet")]
    assert main(["export", str(tmp_path / "a.jsonl"), *words]) == 0
    write_episodes(tmp_path / "b.jsonl", scan_episodes(tmp_path / "a.parquet"))
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    table = pq.ParquetFile(tmp_path / "a.parquet")
    assert table.num_row_groups > 3
    columns = table.read().drop_columns(["record"]).to_pydict()
    valid = [episode for episode in episodes if episode.valid]
    for name in ("reward", "success"):
        assert [value for value in columns[name] if value is not None] == [getattr(each, name) for each in valid]
    assert columns["turns"] == [len(episode.turns) for episode in episodes]
    assert columns["seed"] == [episode.seed if episode.seed < 2**63 else None for episode in episodes]


def test_commands_read_parquet_of_episodes_as_they_read_lines(tmp_path: Path, capsys, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    words = ["eval", "--env", "Calculator", "--agent", "expert", "--episodes", "6", "--out"]
    assert main([*words, "a.jsonl"]) == 0
    others = [replace(made(1), env_id=CALCULATOR), replace(made(2, 0.0, "env_error"), env_id=CALCULATOR)]
    write_episodes(Path("a.jsonl"), [*read_episodes(Path("a.jsonl")), *others])
    assert main(["export", "a.jsonl", "--format", "parquet", "--out", "a.parquet"]) == 0
    assert "8 of 8 episodes" in capsys.readouterr().out, "those of the test split and those that failed, too"
    printed = {}
    for suffix in ("jsonl", "parquet"):
        file = f"a.{suffix}"
        for command in (
            ["table", f"x={file}"],
            ["compare", file, "a.jsonl"],
            ["regrade", file],
            ["export", file, "--split", "test", "--out", "x.jsonl", "--force"],
        ):
            assert main(command) == 0
            printed.setdefault(command[0], []).append(capsys.readouterr().out.replace(f"A {file}", "A"))
    for command, (lines, table) in printed.items():
        assert lines == table, command
    assert main(["regrade", "a.parquet", "--out", "b.parquet"]) == 2
    assert "name X.jsonl" in capsys.readouterr().err
    assert main([*words, "a.parquet"]) == 2
    assert "name X.jsonl" in capsys.readouterr().err


def test_the_viewer_shows_one_episode_by_one_link_in_each_of_its_files(tmp_path: Path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(files, "GROUP", 1 << 12)
    monkeypatch.setattr(files, "CHUNK", 2)
    write_episodes(tmp_path / "a.jsonl", [replace(made(n), key=f"k{n}") for n in range(9)])
    for form, name in (("parquet", "a.parquet"), ("inspect", "a.eval")):
        assert main(["export", str(tmp_path / "a.jsonl"), "--format", form, "--out", str(tmp_path / name)]) == 0
    lines = {record["key"]: record for record in map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())}
    links = []
    for name in ("a.jsonl", "a.parquet", "a.eval"):
        index = EpisodeIndex(find_sources([tmp_path / name]), tmp_path)
        try:
            index.update()
            rows = listing(index.reader, {})["rows"]
            shown = {row["uid"]: index.raw(row["id"]) for row in rows}
            assert all(index.record(row["id"]) == shown[row["uid"]] for row in rows)
        finally:
            index.close()
        assert {record["key"]: record for record in shown.values()} == lines
        links.append(shown)
    assert links[0] == links[1] == links[2]


def test_parquet_of_something_else_is_one_sentence(tmp_path: Path, capsys):
    pytest.importorskip("pyarrow")
    write_episodes(tmp_path / "a.jsonl", [made(1)])
    assert main(["export", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "chats.parquet")]) == 0
    capsys.readouterr()
    assert main(["table", str(tmp_path / "chats.parquet")]) == 2
    assert "holds no episodes: row 1 has no text in the column 'record'" in capsys.readouterr().err
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no more")
    assert main(["table", str(tmp_path / "a.parquet")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("words", [["export", "A", "--format", "parquet", "--out", "B"], ["table", "C"]])
def test_parquet_without_its_package_is_one_sentence(tmp_path: Path, capsys, monkeypatch, words):
    write_episodes(tmp_path / "a.jsonl", [made(1)])
    (tmp_path / "c.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    names = {"A": "a.jsonl", "B": "b.parquet", "C": "c.parquet"}
    assert main([str(tmp_path / names[word]) if word in names else word for word in words]) == 2
    printed = capsys.readouterr().err
    assert "rlvr[hub]" in printed
    assert printed.count("\n") == 1


# ATIF


def token_episode() -> Episode:
    """Two turns with tokens as a sampler leaves them: the rendering, what was sampled, what closes the turn."""
    episode = made(1, tools=TOOLS, system="Be brief.")
    call = '<tool_call>\n{"name": "search", "arguments": {"query": "é"}}\n</tool_call>'
    episode.turns = [
        Turn("Who?", "user", f"<think>hm</think>I look.\n{call}", "stop", 0.25, None, 5, PNG),
        Turn("<script>x</script>", "tool", "\ud800", "length", 0.75, Verdict(1.0, "correct"), 8),
    ]
    mask = [0, 0, 1, 1, 0, 0, 1, 1]
    episode.tokens = TokenSequence(list(range(8)), mask, [-0.5 * on for on in mask], [3 * on - (1 - on) for on in mask])
    episode.final_observation, episode.terminated = "over", True
    episode.training = {"advantages": [0.5] * 8}
    return episode


def odd_role() -> Episode:
    episode = made(1)
    episode.turns = [Turn("out", "tool", "a", "stop"), Turn("x", "system", "<think>b", "stop"), *episode.turns]
    return episode


@pytest.mark.parametrize("make", [token_episode, odd_role, lambda: made(1)])
def test_a_trajectory_comes_back_as_the_same_episode(make):
    episode = make()
    back = episode_of(json.loads(json.dumps(atif_record(episode))))
    assert back.to_dict() == episode.to_dict()


@settings(max_examples=200)
@given(EPISODE.filter(lambda episode: episode.turns))
def test_any_trajectory_comes_back_as_the_same_bytes(episode):
    line = json.dumps(episode.to_dict())
    assert json.dumps(episode_of(json.loads(json.dumps(atif_record(episode)))).to_dict()) == line


def test_trajectories_of_real_episodes_come_back_through_a_file(tmp_path: Path):
    pytest.importorskip("torch")
    from rlvr.agents.models.tiny import load_policy
    from rlvr.agents.models.transformers import TransformersAgent

    model, tokenizer = load_policy("rlvr/tiny")
    policy = TransformersAgent(model, tokenizer, max_new_tokens=6)
    episodes = played("rlvr/GuessNumber-v0", policy, 2, max_turns=3) + played(CALCULATOR, ExpertAgent(), 2)
    episodes += played(CALCULATOR, RandomAgent(0), 2)
    assert len(episodes[0].tokens)
    write_episodes(tmp_path / "a.jsonl", episodes)
    assert main(["export", str(tmp_path / "a.jsonl"), "--format", "atif", "--out", str(tmp_path / "b.jsonl")]) == 0
    back = [episode_of(json.loads(line)) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert [each.to_dict() for each in back] == [each.to_dict() for each in read_episodes(tmp_path / "a.jsonl")]


def test_a_trajectory_says_in_its_own_fields_what_it_can():
    record = atif_record(token_episode())
    assert [step["source"] for step in record["steps"]] == ["system", "user", "agent", "agent"]
    assert [step["step_id"] for step in record["steps"]] == [1, 2, 3, 4]
    first, last = record["steps"][2:]
    assert (first["reasoning_content"], first["message"]) == ("hm", "I look.")
    (call,) = first["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("search", {"query": "é"})
    assert first["observation"]["results"] == [
        {"source_call_id": call["tool_call_id"], "content": "<script>x</script>"}
    ]
    assert last["observation"]["results"] == [{"content": "over"}]
    assert first["metrics"]["completion_token_ids"] == [2, 3]
    assert first["metrics"]["logprobs"] == [-0.5, -0.5]
    assert first["metrics"]["prompt_tokens"] == 2
    assert record["agent"]["tool_definitions"] == json.loads(TOOLS)


def test_what_others_wrote_is_no_episode():
    with pytest.raises(NotOurs):
        episode_of({"schema_version": "ATIF-v1.6", "steps": []})
