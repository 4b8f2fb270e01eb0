"""The lm-evaluation-harness on tasks that we wrote: an expert, its dummy, and a tiny model; the files without it."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr.adapters import read_spec
from rlvr.adapters import testing as kit
from rlvr.adapters.suites import lm_eval as adapter
from rlvr.envs import Verdict

SINGLE = "rlvr/WordProblems-v0"
foreign = pytest.mark.foreign
needs_harness = pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed")


def documents(task):
    return [json.loads(line) for line in task.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()]


def solution(document):
    return read_spec(document).start()[0].solve()


# without the harness


@pytest.fixture
def unchecked(monkeypatch):
    monkeypatch.setattr(adapter, "_checked", lambda: None)


def test_the_files_hold_the_prompts_and_no_answer(tmp_path, unchecked):
    task = adapter.export(SINGLE, 5, tmp_path / "new", settings={"level": 2}, max_gen_toks=64)
    assert task.name == "rlvr_wordproblems.yaml"
    text = task.read_text(encoding="utf-8")
    assert "max_gen_toks: 64" in text
    assert str(task.with_suffix(".jsonl")) in text
    for document in documents(task):
        env, observation, info = read_spec(document).start()
        assert (document["prompt"], document["system"]) == (observation, info["system"])
        assert env.solve() not in json.dumps(document)
        assert adapter.process_results(document, [env.solve()]) == {"reward": 1.0, "success": 1.0, "invalid": 0.0}
        assert adapter.process_results(document, ["\ud800" * 1_000]) == {"reward": 0.0, "success": 0.0, "invalid": 0.0}


@pytest.mark.parametrize("fault", ["verdict", "reset"])
def test_a_fault_that_is_not_the_models_is_no_zero(unchecked, monkeypatch, caplog, fault):
    if fault == "verdict":
        verdict = Verdict(0.0, "verifier_error", reason="no verdict, on purpose")
        monkeypatch.setattr(adapter, "grade", lambda *_: verdict)
    monkeypatch.setenv("RLVR_ALLOW_CODE", "1")  # a row's text for an environment that is none of ours
    told = adapter.process_results({"spec": kit.say_specs(1, fault="reset")[0].to_json(), "index": 7}, ["x"])
    assert math.isnan(told["reward"])
    assert math.isnan(told["success"])
    assert told["invalid"] == 1.0
    assert "task 7" in caplog.text
    assert "on purpose" in caplog.text


def test_bad_input(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="turns"):
        adapter.export("rlvr/GuessNumber-v0", 2, tmp_path)
    with pytest.raises(ValueError, match="a task's name"):
        adapter.export(SINGLE, 2, tmp_path, name="../x")
    with pytest.raises(ValueError, match="max_gen_toks"):
        adapter.export(SINGLE, 2, tmp_path, max_gen_toks=0)
    with pytest.raises(ValueError, match="say how many"):
        adapter.export(SINGLE, None, tmp_path)
    from rlvr.adapters import versions

    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.4.5")
    adapter._checked.cache_clear()
    with pytest.raises(ImportError, match=r"lm-eval 0\.4\.5 is too old"):
        adapter.process_results({}, ["x"])


# with it


def evaluate(folder, task, model, **options):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder))
    return simple_evaluate(model=model, tasks=[task.stem], task_manager=manager, bootstrap_iters=0, **options)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


@foreign
@needs_harness
def test_an_expert_scores_one_and_the_dummy_nothing(tmp_path, offline):
    from lm_eval.api.model import LM

    task = adapter.export(SINGLE, 6, tmp_path)
    answers = {document["prompt"]: solution(document) for document in documents(task)}
    contexts = []

    class Expert(LM):
        def generate_until(self, requests, disable_tqdm=False):
            contexts.extend(request.args[0] for request in requests)
            return [next(said for asked, said in answers.items() if asked in context) for context in contexts]

        def loglikelihood(self, requests):
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    told = evaluate(tmp_path, task, Expert())["results"][task.stem]
    assert (told["reward,none"], told["success,none"], told["invalid,none"]) == (1.0, 1.0, 0.0)
    system = documents(task)[0]["system"]
    assert all(context.startswith(system) for context in contexts)
    told = evaluate(tmp_path, task, "dummy")["results"][task.stem]
    assert (told["reward,none"], told["success,none"], told["invalid,none"]) == (0.0, 0.0, 0.0)


@foreign
@needs_harness
def test_invalid_verdicts_are_left_out_of_the_mean(tmp_path, offline, monkeypatch):
    task = adapter.export(SINGLE, 4, tmp_path)
    verdicts = iter(
        [Verdict(1.0, "correct"), Verdict(0.0, "timeout"), Verdict(0.0, "env_error"), Verdict(0.0, "wrong")]
    )
    monkeypatch.setattr(adapter, "grade", lambda *_: next(verdicts))
    told = evaluate(tmp_path, task, "dummy")["results"][task.stem]
    assert (told["reward,none"], told["success,none"], told["invalid,none"]) == (0.5, 0.5, 0.5)


@foreign
@needs_harness
@pytest.mark.parametrize("template", [True, False])
def test_lm_eval_on_the_command_line_with_a_tiny_model(tmp_path, template):
    from rlvr.agents.models.tiny import build_tiny

    build_tiny(tmp_path / "policy", hidden=32, layers=1)
    task = adapter.export(SINGLE, 3, tmp_path / "tasks", max_gen_toks=8)
    command = [str(Path(sys.executable).with_name("lm_eval")), "run", "--model", "hf", "--tasks", task.stem]
    command += ["--model_args", f"pretrained={tmp_path / 'policy'},dtype=float32", "--device", "cpu"]
    command += ["--include_path", str(tmp_path / "tasks"), "--output_path", str(tmp_path / "out"), "--log_samples"]
    command += ["--apply_chat_template"] * template
    variables = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (path,) = (tmp_path / "out").rglob("results_*.json")
    told = json.loads(path.read_text())["results"][task.stem]
    assert (told["reward,none"], told["invalid,none"]) == (0.0, 0.0)
    (samples,) = (tmp_path / "out").rglob("samples_*.jsonl")
    prompt = json.loads(samples.read_text().splitlines()[0])["arguments"]["gen_args_0"]["arg_0"]
    assert documents(task)[0]["system"] in prompt
    assert documents(task)[0]["prompt"] in prompt


ARC_TASK = """
task: arc_rows
dataset_path: json
dataset_kwargs: {data_files: {test: ROWS}}
output_type: multiple_choice
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
"""
MMLU_TASK = """
task: mmlu_rows
dataset_path: json
dataset_kwargs: {data_files: {test: ROWS}}
output_type: multiple_choice
test_split: test
doc_to_text: >-
  {{question}}{% for choice in choices %}{{"\\n" ~ "ABCD"[loop.index0] ~ ". " ~ choice}}{% endfor %}{{"\\n"}}Answer:
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
metric_list: [{metric: acc}, {metric: acc_norm}]
"""


# Letters and signs of several tokens, several lines, a blank that is no blank, and options that begin alike.
ASKED = (
    "{} stones and {} more?",
    "{}\u00a0Äpfel und {}?",
    ">>> {} + {}\nWhat now?",
    "{} 个加 {} 个？",
    "$x - {} = {}$. $x =$",
)
OPTIONS = ("{}", "it is {}", "{} in all", "about {}", "{} Stück", "{}.")


def questions(count):
    """Sums in words, each with four options of different lengths, any of which may be the right one's."""
    for n in range(count):
        a, b, right = n % 97, 7 * n % 50, n // 4 % 4
        values = [a + b + place - right for place in range(4)]
        options = [OPTIONS[(place + n) % len(OPTIONS)].format(value) for place, value in enumerate(values)]
        yield ASKED[n % len(ASKED)].format(a, b), options, right


@foreign
@needs_harness
@pytest.mark.parametrize(("env_id", "template"), [("rlvr/ARC-v0", ARC_TASK), ("rlvr/MMLU-v0", MMLU_TASK)])
def test_likelihoods_of_options_are_those_of_the_harness(tmp_path, offline, env_id, template):
    """Of RLVR_MODEL, a folder, on RLVR_ROWS rows where these are named; else of a tiny random model on 100."""
    from rlvr.agents.evaluation import read_episodes
    from rlvr.agents.models.tiny import build_tiny
    from rlvr.cli import main

    model = os.environ.get("RLVR_MODEL") or str(build_tiny(tmp_path / "policy", hidden=32, layers=1))
    count = int(os.environ.get("RLVR_ROWS", "100"))
    rows = tmp_path / "rows.jsonl"
    with rows.open("w") as file:
        for question, options, answer in questions(count):
            row = {"question": question, "choices": options, "answer": answer}
            if env_id == "rlvr/ARC-v0":
                row = {"question": question, "choices": {"text": options, "label": list("ABCD")}}
                row["answerKey"] = "ABCD"[answer]
            file.write(json.dumps(row) + "\n")
    task = tmp_path / "tasks" / f"{env_id[5:-3].lower()}_rows.yaml"
    task.parent.mkdir()
    task.write_text(template.replace("ROWS", str(rows)))
    arguments = {"pretrained": model, "dtype": "float32"}
    told = evaluate(task.parent, task, "hf", model_args=arguments, device="cpu", batch_size=8, log_samples=True)
    samples = {sample["doc_id"]: sample for sample in told["samples"][task.stem]}
    for score, metric in (("likelihood", "acc"), ("likelihood-norm", "acc_norm")):
        out = tmp_path / f"{score}.jsonl"
        command = ["eval", "--env", env_id, "--model", model, "--set", f"data_files={rows}", "--out", str(out)]
        assert main([*command, "--score", score]) == 0
        episodes = read_episodes(out)
        assert len(samples) == count
        assert [episode.index for episode in episodes] == [*range(count)]
        apart = 0.0
        for episode in episodes:
            sample = samples[episode.index]
            theirs = [float(logprob) for logprob, _ in sample["filtered_resps"]]
            ours = episode.turns[0].option_logprobs
            assert ours == pytest.approx(theirs, abs=1e-3)
            apart = max(apart, *(abs(one - other) for one, other in zip(ours, theirs, strict=True)))
            assert episode.success == sample[metric]
        share = sum(episode.success for episode in episodes) / count
        print(f"{env_id}, {count} rows: {metric} {share}, log-probabilities at most {apart:.1e} apart")
        assert share == pytest.approx(told["results"][task.stem][f"{metric},none"])
