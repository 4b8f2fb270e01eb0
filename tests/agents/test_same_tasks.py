"""Results on other rows are refused where they would be mixed, and said where they are compared."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from rlvr.agents import Episode, ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.evaluation.compare import compare
from rlvr.agents.evaluation.same_tasks import digest_notes, refusal
from rlvr.cli import main
from rlvr.envs.tasks.digests import env_digest
from rlvr.envs.wrappers import EpisodeRecorder

SETTINGS = ("--set", "grader=number", "--agent", "expert")


def write(folder, offset=0, order=1):
    for split in ("train", "test"):
        rows = [{"question": f"What is {i} plus {offset}? ({split})", "answer": i + offset} for i in range(6)][::order]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def evaluate(tmp_path):
    """`rlvr eval` of the rows that are there, into a file."""
    write(tmp_path)

    def run(file, *words):
        given = ("--set", f"data_files={tmp_path}", *SETTINGS, "--out", str(tmp_path / file))
        return main(["eval", "--env", "Dataset", *given, *words])

    return run


def test_every_episode_and_result_has_the_digest(evaluate, tmp_path, capsys):
    assert evaluate("a.jsonl", "--json") == 0
    (result,) = json.loads(capsys.readouterr().out)
    env = gym.make("rlvr/Dataset-v0", data_files=str(tmp_path), grader="number", split="test")
    assert result["env_digest"] == env_digest(env)
    assert {episode.env_digest for episode in read_episodes(tmp_path / "a.jsonl")} == {env_digest(env)}
    (episode,) = Rollout("rlvr/Countdown-v0", ExpertAgent())([RolloutRequest(0)])
    assert episode.env_digest == env_digest(gym.make("rlvr/Countdown-v0"))
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode


def test_the_recorder_and_the_exports_name_the_digest(evaluate, tmp_path):
    env = EpisodeRecorder(gym.make("rlvr/Countdown-v0"), tmp_path / "recorded.jsonl")
    env.reset(seed=1)
    env.step(env.unwrapped.solve())
    (recorded,) = read_episodes(tmp_path / "recorded.jsonl")
    assert recorded.env_digest == env_digest(gym.make("rlvr/Countdown-v0"))
    assert evaluate("a.jsonl") == 0
    (digest,) = {episode.env_digest for episode in read_episodes(tmp_path / "a.jsonl")}
    for form in ("chat", "atif"):
        out = tmp_path / f"{form}.jsonl"
        assert main(["export", str(tmp_path / "a.jsonl"), "--split", "test", "--format", form, "--out", str(out)]) == 0
        assert digest in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("change", [{"offset": 50}, {"order": -1}])
def test_a_record_is_not_gone_on_with_on_other_rows(change, evaluate, tmp_path, capsys):
    assert evaluate("a.jsonl", "--episodes", "3") == 0
    before = (tmp_path / "a.jsonl").read_bytes()
    write(tmp_path, **change)
    assert evaluate("a.jsonl") == 2
    assert "was played on other rows of the environment" in capsys.readouterr().err
    assert (tmp_path / "a.jsonl").read_bytes() == before
    write(tmp_path)  # put back, it goes on
    assert evaluate("a.jsonl") == 0
    assert "success 6/6" in capsys.readouterr().out


def test_a_record_is_not_gone_on_with_under_other_settings(evaluate, tmp_path):
    evaluate("a.jsonl", "--episodes", "3")
    rollout = Rollout("rlvr/Dataset-v0", ExpertAgent(), env_settings={"data_files": str(tmp_path), "split": "test"})
    assert "other settings" in refusal(read_episodes(tmp_path / "a.jsonl")[0].env_digest, rollout.env_digest)


def test_a_record_of_before_there_were_digests_is_said_to_be_unknown(evaluate, tmp_path, capsys):
    evaluate("a.jsonl", "--episodes", "3")
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    old = [{name: value for name, value in line.items() if name != "env_digest"} for line in lines]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old), encoding="utf-8")
    capsys.readouterr()
    assert evaluate("a.jsonl") == 0
    assert "digest unknown" in capsys.readouterr().err
    evaluate("b.jsonl")
    capsys.readouterr()
    for words in (["compare", "a.jsonl", "b.jsonl"], ["table", "one=a.jsonl", "two=b.jsonl"], ["regrade", "a.jsonl"]):
        files = [
            word.replace("a.jsonl", f"{tmp_path}/a.jsonl").replace("b.jsonl", f"{tmp_path}/b.jsonl") for word in words
        ]
        settings = ["--set", f"data_files={tmp_path}", "--set", "grader=number"] if words[0] == "regrade" else []
        assert main([*files, *settings]) == 0
        assert "digest unknown" in capsys.readouterr().out


def test_comparisons_say_that_the_rows_are_others(evaluate, tmp_path, capsys):
    evaluate("a.jsonl")
    write(tmp_path, offset=50)
    evaluate("b.jsonl")
    capsys.readouterr()
    a, b = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    said = "rlvr/Dataset-v0, split test: rows differ"
    assert main(["compare", a, b]) == 0
    assert said in capsys.readouterr().out
    assert main(["compare", a, b, "--json"]) == 0
    assert said in " ".join(json.loads(capsys.readouterr().out)["notes"])
    assert main(["table", f"one={a}", f"two={b}"]) == 0
    assert "split test: rows differ" in capsys.readouterr().out
    assert main(["regrade", a, "--set", f"data_files={tmp_path}", "--set", "grader=number"]) == 0
    assert said in capsys.readouterr().out
    assert compare(read_episodes(tmp_path / "a.jsonl"), read_episodes(tmp_path / "a.jsonl")).notes == ()


def test_other_code_is_said_and_not_refused():
    played = [Episode("e", str(number), 0, env_digest=f"rows=1 settings=2 code={number}") for number in range(2)]
    assert refusal(played[0].env_digest, played[1].env_digest) == ""
    (note,) = digest_notes([("A", played[:1]), ("B", played[1:])])
    assert note.startswith("e: code differs (A: 0; B: 1)")
