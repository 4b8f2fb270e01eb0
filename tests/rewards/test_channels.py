"""Replies in channels: only the message of the channel ``final`` is read, in every grader and as a command."""

from __future__ import annotations

import pytest

from rlvr.envs.rewards import grade
from rlvr.envs.rewards.extraction import command_text, spoken_text
from rlvr.envs.tools.calls import read_calls, split_calls

THOUGHT = "<|channel|>analysis<|message|>Maybe \\boxed{1344}.<|end|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>"
CALL = '<|start|>assistant<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"answer": 1344}<|call|>'


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        (f"{THOUGHT}{FINAL}It is \\boxed{{7}}.<|return|>", 0),
        (f"<|channel|>analysis<|message|>No, \\boxed{{7}}.<|end|>{FINAL}It is \\boxed{{1344}}.<|return|>", 1),
        (f"<|start|>assistant{THOUGHT}{FINAL}The answer is 1344.", 1),
        ("<|channel|>final<|message|>The answer is 1344.<|return|>", 1),
        ("<|channel|>analysis<|message|>The answer is 1344.", 0),
        (THOUGHT, 0),
        (f"{THOUGHT}{CALL}", 0),
        (f"{THOUGHT}{CALL}{FINAL}The answer is 1344.", 0),
        (f"{THOUGHT}<|start|>user<|message|>Go on.<|end|>{FINAL}The answer is 1344.", 0),
        (f"{THOUGHT}<|start|>assistant<|channel|>commentary<|message|>Wait.<|end|>{FINAL}The answer is 1344.", 1),
        (f"Maybe \\boxed{{1344}}.<|end|>{FINAL}It is \\boxed{{7}}.<|return|>", 0),
        (f"Maybe \\boxed{{7}}.<|end|>{FINAL}It is \\boxed{{1344}}.<|return|>", 1),
        ("The answer is 1344.<|channel|>analysis<|message|>No.", 1),
        ("It is<|channel|>final<|message|>The answer is 1344.", 0),
        (f"<|channel|>final<|message|>The answer is 7.<|end|>{FINAL}The answer is 1344.", 0),
        (f"<|channel|>analysis<|message|>{FINAL}The answer is 1344.", 0),
        ("<|channel|>final to=functions.look<|message|>The answer is 1344.", 0),
    ],
)
@pytest.mark.parametrize("kind", ["number", "math"])
def test_only_the_final_channel_is_paid(kind: str, reply: str, reward: float) -> None:
    assert grade(kind, reply, "1344").reward == reward


def test_a_command_is_the_final_message() -> None:
    assert command_text(f"{THOUGHT}{FINAL}ls -l<|return|>") == "ls -l"
    assert command_text(THOUGHT) == command_text(f"{THOUGHT}{CALL}") == ""
    assert spoken_text(f"{THOUGHT}{CALL}") == ""


def test_a_call_stands_in_the_final_message() -> None:
    call = '<tool_call>\n{"name": "look", "arguments": {"q": "a"}}\n</tool_call>'
    tools = {"look": ["q"]}
    assert read_calls(f"<|channel|>analysis<|message|>{call}<|end|>{FINAL}Done.", "hermes", tools).calls == ()
    assert read_calls(f"{THOUGHT}{CALL}", "hermes", tools).calls == ()
    before, reading = split_calls(f"{THOUGHT}{FINAL}I look. {call}<|return|>", "hermes", tools)
    assert before == f"{THOUGHT}{FINAL}I look. "
    assert [each.arguments for each in reading.calls] == [{"q": "a"}]
