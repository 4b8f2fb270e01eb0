"""Inspect AI's own evaluation over our tasks, with its mock model and over HTTP; without it, the error that says so."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from rlvr.adapters import initial_messages, rows
from rlvr.adapters import testing as kit
from rlvr.adapters.export.chat import openai_record
from rlvr.adapters.export.foreign import read_file
from rlvr.adapters.export.inspect_log import write_log
from rlvr.adapters.serving.loopback import LoopbackServer
from rlvr.adapters.viewer.foreign import read_inspect
from rlvr.agents import Episode, summarise
from rlvr.agents.episode import Turn
from rlvr.agents.evaluation import read_episodes, write_episodes
from rlvr.cli import main
from rlvr.envs import Verdict

from ..agents.test_episode import EPISODE

HERE = importlib.util.find_spec("inspect_ai") is not None
SAY = f"{kit.MODULE}:{kit.SAY}"


@pytest.mark.skipif(HERE, reason="Inspect is installed")
def test_a_missing_inspect_is_one_clear_error():
    with pytest.raises(ImportError, match=r"pip install 'inspect-ai>=0\.3\.285,<0\.4'"):
        importlib.import_module("rlvr.adapters.suites.inspect_ai")


@given(EPISODE.filter(lambda episode: episode.verdict is not None))
def test_an_episode_comes_back_from_a_log(episode):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.eval"
        with path.open("xb") as file:
            assert write_log([episode], file, path.parent) == 1
        (again,) = read_file(path, [])
        (trace,) = read_inspect(path)
    assert json.dumps(again.to_dict()) == json.dumps(episode.to_dict())
    assert trace.key == episode.key


def test_a_log_is_of_one_agent_and_no_fault_is_a_score(tmp_path, capsys):
    made = [Episode("e/E-v0", "a", 0, verdict=Verdict(0.0, "env_error", reason="on purpose"), agent={"model": "m"})]
    made.append(Episode("e/E-v0", "b", 0, verdict=Verdict(1.0, "correct"), agent={"model": "m"}))
    write_episodes(tmp_path / "one.jsonl", made)
    write_episodes(tmp_path / "two.jsonl", [replace(made[1], agent={"model": "n"})])
    files, out = [str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")], str(tmp_path / "x.eval")
    assert main(["export", *files, "--format", "inspect", "--out", out]) == 2
    assert "of one model with one sampling, not of m and n" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if "eval" in path.name] == []
    assert main(["export", files[0], "--format", "inspect", "--out", out]) == 0
    with zipfile.ZipFile(out) as packed:
        samples = [json.loads(packed.read(name)) for name in packed.namelist() if name.startswith("samples/")]
        (score, _) = json.loads(packed.read("header.json"))["results"]["scores"]
    assert [sample.get("error", {}).get("message") for sample in samples] == ["env_error: on purpose", None]
    assert [bool(sample["scores"]) for sample in samples] == [False, True]
    assert (score["metrics"]["mean"]["value"], score["unscored_samples"]) == (0.0, 1)
    assert len({sample["id"] for sample in samples}) == 2  # one task, played twice


def test_the_same_episodes_are_the_same_log_and_its_list_of_samples_is_short(tmp_path, monkeypatch):
    long = Turn("o" * 5_000, "user", "a" * 5_000, "stop")
    verdict = Verdict(1.0, "correct", "b" * 5_000)
    write_episodes(
        tmp_path / "a.jsonl", [Episode("e/E-v0", "a", seed, turns=[long], verdict=verdict) for seed in (0, 1)]
    )
    words = ["export", str(tmp_path / "a.jsonl"), "--format", "inspect", "--out"]
    assert main([*words, str(tmp_path / "1.eval")]) == 0
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert main([*words, str(tmp_path / "2.eval")]) == 0
    assert (tmp_path / "1.eval").read_bytes() == (tmp_path / "2.eval").read_bytes()
    with zipfile.ZipFile(tmp_path / "1.eval") as packed:
        summaries = json.loads(packed.read("summaries.json"))
        created = json.loads(packed.read("header.json"))["eval"]["created"]
    assert created.startswith("1970-01-01")
    assert [len(each["input"]) for each in summaries] == [1_002, 1_002]
    assert len(json.dumps(summaries)) < 10_000


pytestmark_foreign = [pytest.mark.foreign, pytest.mark.skipif(not HERE, reason="Inspect is not installed")]


def model(say):
    """Inspect's mock model, saying what a function of the conversation's text says."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def output(messages, tools, choice, config):
        said = ModelOutput.from_content("mockllm/model", say("\n".join(message.text for message in messages)))
        said.usage = ModelUsage()  # else it downloads a tokenizer to count what was used
        return said

    return get_model("mockllm/model", custom_outputs=output)


def run(task, say, folder, **options):
    from inspect_ai import eval as evaluate

    log = evaluate(task, model=model(say), display="none", log_dir=str(folder), **options)[0]
    if log.status != "success":
        raise RuntimeError(log.error.message)
    return log


def metrics(log):
    return {score.name: {name: metric.value for name, metric in score.metrics.items()} for score in log.results.scores}


class TestUnderInspect:
    pytestmark = pytestmark_foreign

    def test_it_reads_our_logs_and_what_it_writes_again_is_ours(self, tmp_path):
        from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries, write_eval_log

        played, log = tmp_path / "played.jsonl", tmp_path / "log.eval"
        envs = ["--env", "rlvr/Calculator-v0", "--env", "rlvr/SQL-v0", "--env", "rlvr/GuessNumber-v0"]
        assert main(["eval", *envs, "--agent", "expert", "--episodes", "4", "--out", str(played)]) == 0
        episodes = read_episodes(played)
        image = replace(episodes[0].turns[0], image="data:image/png;base64,iVBORw0KGgo=")
        thought = replace(image, observation="on", action="<think>so</think>yes", image="")
        episodes.append(replace(episodes[0], key="more", sample=1, turns=[image, thought], final_observation="end"))
        episodes.append(replace(episodes[1], key="fault", sample=1, verdict=Verdict(0.0, "env_error")))
        write_episodes(played, episodes)
        assert main(["export", str(played), "--format", "inspect", "--out", str(log)]) == 0
        read = read_eval_log(str(log))
        figures = summarise(episodes)
        scores = {score.name: score for score in read.results.scores}
        assert (scores["success"].metrics["accuracy"].value, scores["success"].unscored_samples) == (figures.success, 1)
        assert scores["verified_return"].metrics["mean"].value == figures.reward
        assert (read.eval.model, read.status) == (episodes[0].agent["model"], "success")
        assert len(read_eval_log_sample_summaries(str(log))) == len(read.samples) == len(episodes)
        samples = {json.loads(sample.store["rlvr"])["key"]: sample for sample in read.samples}
        for episode in episodes:
            sample = samples[episode.key]
            roles = [message["role"] for message in openai_record(episode)["messages"]]
            assert [each.role for each in sample.messages] == roles + ["user"] * bool(episode.final_observation)
            assert (sample.error is None) == episode.valid == bool(sample.scores)
            texts = [each.text for each in sample.messages]
            assert all(turn.action.rpartition("</think>")[2] in texts for turn in episode.turns)
        assert samples["more"].messages[1].content[1].type == "image"
        assert samples["more"].messages[-2].content[0].reasoning == "so"
        for again in (log, tmp_path / "again.eval", tmp_path / "again.json"):
            if again != log:
                write_eval_log(read, str(again))
            back = {each.key: each.to_dict() for each in read_file(again, [])}
            assert back == {each.key: each.to_dict() for each in episodes}

    def test_the_adapter_conforms(self, tmp_path):
        from inspect_ai import Task
        from inspect_ai.dataset import Sample

        from rlvr.adapters.suites import inspect_ai as adapter

        def sample(place, spec):
            messages = [{"role": "user", "content": "?"}]
            if spec.kwargs.get("fault") != "reset":
                messages = initial_messages(*spec.start()[1:])
            return Sample(input=adapter._messages(messages), id=place, metadata={"spec": spec.to_json()})

        def play(specs, engine):
            samples = [sample(place, spec) for place, spec in enumerate(specs)]
            task = Task(samples, solver=adapter.play(), scorer=[adapter.verified_return(), adapter.success()])
            log = run(task, engine.reply, tmp_path)
            episodes = []
            for played in sorted(log.samples, key=lambda sample: sample.id):
                score = played.scores["verified_return"]
                verdict = Verdict.from_dict(score.metadata["verdict"])
                assert math.isnan(score.value) == (not verdict.valid)
                assert (played.scores["success"].value in ("C", "I")) == verdict.valid
                actions = [message.text for message in played.messages if message.role == "assistant"]
                reward = None if math.isnan(score.value) else score.value
                episodes.append(kit.PlayedEpisode(specs[played.id], reward, actions=actions, verdict=verdict))
            return episodes

        print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False)))

    def test_what_is_not_the_models_fault_is_in_no_metric_and_no_reducer(self, tmp_path):
        from rlvr.adapters.suites.inspect_ai import episodes

        log = run(episodes(SAY, 3, epochs=2), kit.obey, tmp_path)
        assert metrics(log) == {
            "verified_return": {"mean": pytest.approx(1.0), "stderr": 0.0},
            "success": {"accuracy": 1.0, "stderr": 0.0},
        }
        log = run(episodes(SAY, 3, settings={"fault": "verdict"}), kit.obey, tmp_path)
        assert [score.unscored_samples for score in log.results.scores] == [3, 3]
        assert all("on purpose" in sample.scores["success"].explanation for sample in log.samples)

    def test_one_turn_with_inspects_own_solver(self, tmp_path):
        from inspect_ai import Task
        from inspect_ai.solver import generate

        from rlvr.adapters import read_spec
        from rlvr.adapters.suites import inspect_ai as adapter

        table = rows("rlvr/WordProblems-v0", 4)
        answers = {row["prompt"][-1]["content"]: read_spec(row).start()[0].solve() for row in table}
        task = Task(adapter.dataset("rlvr/WordProblems-v0", 4), solver=generate(), scorer=adapter.success())
        log = run(task, lambda text: next(said for asked, said in answers.items() if asked in text), tmp_path)
        assert metrics(log)["success"]["accuracy"] == 1.0
        assert not any("\\boxed{" in str(sample.metadata) for sample in log.samples)

    def test_an_episode_that_a_limit_cuts_off_keeps_what_it_earned(self, tmp_path):
        from rlvr.adapters.suites.inspect_ai import episodes

        log = run(episodes(SAY, 2, message_limit=5), kit.obey, tmp_path)
        for sample in log.samples:
            score = sample.scores["verified_return"]
            assert score.value in (pytest.approx(1 / 7), pytest.approx(3 / 7))
            assert "not over after" in score.explanation
            assert sample.scores["success"].value == "I"

    def test_samples_without_a_task_and_tools_of_the_template_are_refused(self, tmp_path):
        from inspect_ai import Task
        from inspect_ai.dataset import Sample

        from rlvr.adapters.suites import inspect_ai as adapter

        task = Task([Sample(input="2 + 2?")], solver=adapter.play(), scorer=adapter.success())
        with pytest.raises(RuntimeError, match="names no task"):
            run(task, str, tmp_path)
        tools = {"tools": {"tools": ["calculator"], "tools_in": "template"}}
        with pytest.raises(RuntimeError, match="tools_in='system'"):
            run(adapter.episodes("rlvr/WordProblems-v0", 1, settings=tools), str, tmp_path)

    def test_inspect_eval_on_the_command_line_against_a_server(self, tmp_path):
        """A real `inspect eval` of the example, over an OpenAI-compatible endpoint of ours that halves the range."""
        asked = []

        def answer(request):
            asked.append(request.path)
            return completion(halve(request.body["messages"]))

        server = LoopbackServer(answer, key=None)
        root = Path(__file__).parents[2]
        command = [
            str(Path(sys.executable).with_name("inspect")),
            "eval",
            "examples/inspect_task.py",
            "-T",
            "n=5",
            "-T",
            "level=1",
        ]
        command += ["--model", "openai-api/local/halver", "--display", "none", "--log-dir", str(tmp_path)]
        variables = {"LOCAL_API_KEY": "none", "LOCAL_BASE_URL": f"{server.url}/v1", "INSPECT_LOG_FORMAT": "json"}
        try:
            done = subprocess.run(
                command, cwd=root, env=os.environ | variables, capture_output=True, text=True, timeout=300
            )
        finally:
            server.close()
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = tmp_path.glob("*.json")
        log = json.loads(path.read_text())
        assert log["status"] == "success"
        earned, solved = (score["metrics"] for score in log["results"]["scores"])
        assert (earned["mean"]["value"], solved["accuracy"]["value"]) == (1.0, 1.0)
        assert len(asked) > 5, "each episode took several turns"


def halve(messages):
    """Plays GuessNumber by halving what is left."""
    import re

    text = [str(message["content"]) for message in messages if message["role"] == "user"]
    low, high = map(int, re.search(r"(\d+)\D+(\d+)", text[0]).groups())
    for guessed, said in zip([m for m in messages if m["role"] == "assistant"], text[1:], strict=True):
        guess = int(re.search(r"\d+", str(guessed["content"]))[0])
        low, high = (guess + 1, high) if "higher" in said or "larger" in said else (low, guess - 1)
    return f"\\boxed{{{(low + high) // 2}}}"


def completion(text):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "halver",
        "choices": [choice],
        "usage": usage,
    }
