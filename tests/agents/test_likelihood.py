"""Multiple choice by likelihood: sums against a plain loop over the model, what is played, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("transformers")

import torch

import rlvr
from rlvr.agents import Conversation
from rlvr.agents.evaluation import likelihood, read_episodes
from rlvr.agents.evaluation.likelihood import LikelihoodAgent, option_logprobs
from rlvr.agents.models.tiny import tiny_policy
from rlvr.cli import main

# Prefixes of each other, a long one, no ASCII, and one character.
OPTIONS = ["a stone", "a stone wall", "das Übermaß an Licht", "x"]


@pytest.fixture(scope="module")
def policy() -> Any:
    return tiny_policy(hidden=32, layers=2, max_positions=256)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Eight questions of ARC's columns, of two to four options."""
    table = []
    for number in range(8):
        texts = OPTIONS[: 2 + number % 3]
        labels = list("1234" if number % 2 else "ABCD")[: len(texts)]
        question = f" Which is number {number * 10 ** (number % 3)}?"
        choices = {"text": texts, "label": labels}
        table.append({"question": question, "choices": choices, "answerKey": labels[number % len(texts)]})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


def plain_loop(policy: Any, prompt: str, option: str) -> float:
    """log p(option | prompt), one whole sequence and one token at a time."""
    model, tokenizer = policy
    start, ids = len(tokenizer.encode(prompt.rstrip())), tokenizer.encode(f"{prompt} {option}")
    with torch.inference_mode():
        logprobs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return sum(float(logprobs[at - 1, ids[at]]) for at in range(start, len(ids)))


def asked(env_id: str, **settings: Any) -> tuple[Conversation, Any]:
    env = gym.make(env_id, **settings)
    env.reset(seed=0, options={"index": 2})
    conversation = Conversation("one", [{"role": "user", "content": "not read"}], env=env.unwrapped)
    return conversation, env.unwrapped


@pytest.mark.parametrize("normalised", [False, True])
def test_sums_are_those_of_a_plain_loop_and_the_highest_is_played(policy: Any, rows: Path, normalised: bool):
    agent = LikelihoodAgent(*policy, normalised=normalised)
    result: list[Any] = []
    for index in range(8):
        env: Any = gym.make("rlvr/ARC-v0", split="test", data_files=str(rows)).unwrapped
        env.reset(seed=0, options={"index": index})
        result.append((Conversation(str(index), [], env=env), env.choices()))
    replies = agent.act([conversation for conversation, _ in result])
    for reply, (_, choices) in zip(replies, result, strict=True):
        expected = [plain_loop(policy, choices.prompt, option) for option in choices.options]
        assert reply.option_logprobs == pytest.approx(expected, abs=1e-5)
        scores = [s / len(o) if normalised else s for s, o in zip(expected, choices.options, strict=True)]
        assert reply.text == f"\\boxed{{{'ABCD'[scores.index(max(scores))]}}}"


def test_the_two_choices_differ(policy: Any, rows: Path):
    conversation, _ = asked("rlvr/ARC-v0", split="test", data_files=str(rows))
    (short,) = LikelihoodAgent(*policy).act([conversation])
    (normalised,) = LikelihoodAgent(*policy, normalised=True).act([conversation])
    assert short.text == r"\boxed{D}"  # "x" has the fewest tokens
    assert normalised.text != short.text
    assert normalised.option_logprobs == short.option_logprobs


@pytest.mark.parametrize("tokens_at_once", [1, 100, 10_000])
def test_batches_do_not_matter(policy: Any, monkeypatch: pytest.MonkeyPatch, tokens_at_once: int):
    tokenizer = policy[1]
    ids = tokenizer.encode("Question: which of them? Answer: it is this")
    pairs = [(ids[:cut], ids[cut:end]) for cut in (1, 5, 9) for end in (cut + 1, cut + 2, len(ids))]
    pairs += [(ids[:5], [7]), (ids[:5], [8])]  # of one pass
    monkeypatch.setattr(likelihood, "TOKENS_AT_ONCE", tokens_at_once)
    training = policy[0].train().training
    sums = option_logprobs(policy[0], pairs)
    assert policy[0].training is training
    policy[0].eval()
    with torch.inference_mode():
        for value, (prompt, option) in zip(sums, pairs, strict=True):
            logprobs = policy[0](torch.tensor([prompt + option])).logits[0].double().log_softmax(-1)
            expected = sum(float(logprobs[len(prompt) - 1 + at, token]) for at, token in enumerate(option))
            assert value == pytest.approx(expected, abs=1e-5)


def test_blanks_at_the_end_of_a_prompt_are_the_options(policy: Any):
    agent = LikelihoodAgent(*policy)
    encode = policy[1].encode
    prompt, option = agent._encode("Answer: \n ", "stone")
    assert prompt == encode("Answer:")
    assert prompt + option == encode("Answer: \n  stone")


def test_prompts_are_plain(rows: Path, tmp_path: Path):
    _, env = asked("rlvr/ARC-v0", split="test", data_files=str(rows))
    assert env.choices() == ("Question: Which is number 200?\nAnswer:", tuple(OPTIONS), boxed(4))
    _, env = asked("rlvr/ARC-v0", split="test", data_files=str(rows), few_shot=1, few_shot_split="test")
    first, question = env.choices().prompt.split("\n\n")
    assert first.rpartition("Answer: ")[2] in OPTIONS
    assert question == "Question: Which is number 200?\nAnswer:"
    table = tmp_path / "mmlu.jsonl"
    lines = [json.dumps({"question": f"{n} and {n}?", "choices": ["no", str(2 * n)], "answer": 1}) for n in range(4)]
    table.write_text("\n".join(lines))
    _, env = asked("rlvr/MMLU-v0", split="test", data_files=str(table), few_shot=1, few_shot_split="test")
    first, question = env.choices().prompt.split("\n\n")
    assert first.endswith("\nAnswer: B")
    assert (question, env.choices().options) == ("2 and 2?\nA. no\nB. 4\nAnswer:", ("A", "B"))
    mixture: Any = gym.make("rlvr/Mixture-v0", split="test", envs=[{"id": "rlvr/MMLU-v0", "data_files": str(table)}])
    mixture.reset(seed=0)
    assert mixture.unwrapped.choices().actions == boxed(2)


def boxed(count: int) -> tuple[str, ...]:
    return tuple(f"\\boxed{{{letter}}}" for letter in "ABCD"[:count])


def test_a_prompt_that_is_too_long_is_not_cut(policy: Any, rows: Path):
    conversation, env = asked("rlvr/ARC-v0", split="test", data_files=str(rows))
    tokens = max(len(policy[1].encode(f"{env.choices().prompt} {option}")) for option in OPTIONS)
    (whole,) = LikelihoodAgent(*policy, max_length=tokens - 1).act([conversation])  # the last token is not read
    (reply,) = LikelihoodAgent(*policy, max_length=tokens - 2).act([conversation])
    assert (whole.stop, reply.stop, reply.limit) == ("stop", "context", f"max_length {tokens - 2}")


def test_logits_that_are_no_numbers_choose_nothing():
    model, tokenizer = tiny_policy(hidden=32, layers=1)
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(math.nan)
    with pytest.raises(FloatingPointError, match="no option can be compared"):
        option_logprobs(model, [(tokenizer.encode("a"), [1])])


def test_the_command_keeps_the_sums_and_goes_on(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.jsonl"
    command = ["eval", "--env", "ARC", "--model", "rlvr/tiny", "--set", f"data_files={rows}", "--out", str(out)]
    assert main([*command, "--score", "likelihood", "--episodes", "3"]) == 0
    assert main([*command, "--score", "likelihood", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out.splitlines()[-1])
    episodes = read_episodes(out)
    assert result["episodes"] == len(episodes) == 8
    assert result["success"] == sum(episode.success for episode in episodes) / 8
    for episode in episodes:
        (turn,) = episode.turns
        assert len(turn.option_logprobs) == 2 + (episode.index or 0) % 3
        assert (episode.system, episode.agent["sampling"]["score"]) == (None, "likelihood")
    assert main([*command, "--score", "likelihood-norm"]) == 2
    assert "was made with another score" in capsys.readouterr().err


def test_from_python(policy: Any, rows: Path):
    settings = {"data_files": str(rows), "split": "test"}
    result = rlvr.evaluate("ARC", LikelihoodAgent(*policy), settings=settings)
    assert (result.episodes, result.valid) == (8, 8)
    with pytest.raises(ValueError, match="rlvr/Countdown-v0 has no options to score by likelihood"):
        rlvr.evaluate("Countdown", LikelihoodAgent(*policy), episodes=1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--env", "Countdown", "--model", "rlvr/tiny"], "Countdown-v0 has no options to score"),
        (["--env", "ARC", "--agent", "expert"], "only a model in this process has"),
        (["--env", "ARC", "--vllm", "m"], "only a model in this process has"),
        (["--env", "ARC", "--model", "m", "--endpoint", "http://127.0.0.1:1/v1"], "only a model in this process has"),
        (["--suite", "quick", "--model", "rlvr/tiny"], "leave --suite"),
        (
            ["--env", "ARC", "--model", "m", "--temperature", "1", "--samples", "2"],
            "leave --temperature, --samples out",
        ),
        (["--env", "ARC", "--model", "m", "--max-new-tokens", "9", "--system"], "leave --max-new-tokens, --system out"),
    ],
)
def test_what_has_no_likelihood_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], reason: str):
    assert main(["eval", *words, "--score", "likelihood"]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert len(error.splitlines()) == 1
