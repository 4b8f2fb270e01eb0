"""Inspect AI's own evaluation over our tasks, with its mock model and over HTTP; without it, the error that says so."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr.adapters import initial_messages, rows
from rlvr.adapters import testing as kit
from rlvr.adapters.serving.loopback import LoopbackServer
from rlvr.envs import Verdict

HERE = importlib.util.find_spec("inspect_ai") is not None
SAY = f"{kit.MODULE}:{kit.SAY}"


@pytest.mark.skipif(HERE, reason="Inspect is installed")
def test_a_missing_inspect_is_one_clear_error():
    with pytest.raises(ImportError, match=r"pip install 'inspect-ai>=0\.3\.285,<0\.4'"):
        importlib.import_module("rlvr.adapters.suites.inspect_ai")


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
