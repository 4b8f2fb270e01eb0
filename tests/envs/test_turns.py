"""Worked examples as turns: what a chat is split into holds all that it said, and in its order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core.task import as_turns
from rlvr.envs.tasks.turns import split_opening

TEXTS = st.text(max_size=12)
MESSAGES = st.lists(st.tuples(st.sampled_from(["system", "developer", "user", "assistant", "tool"]), TEXTS), max_size=7)


@given(st.lists(TEXTS, max_size=2), st.lists(st.tuples(TEXTS, TEXTS), max_size=4), TEXTS)
def test_few_shot_turns_are_told_from_the_question(system, pairs, question):
    turns = as_turns(pairs)
    assert [turn["role"] for turn in turns] == ["user", "assistant"] * len(pairs)
    messages = [("system", text) for text in system] + [(turn["role"], turn["content"]) for turn in turns]
    assert split_opening([*messages, ("user", question)]) == ("\n\n".join(system), turns, question)


@given(MESSAGES)
def test_no_chat_loses_a_word(messages):
    system, turns, question = split_opening(messages)
    roles = [role for role, _ in messages if role not in ("system", "developer")]
    assert system == "\n\n".join(text for role, text in messages if role in ("system", "developer"))
    texts = [text for role, text in messages if role not in ("system", "developer")]
    if turns:
        assert [*(turn["role"] for turn in turns), "user"] == roles
        assert [*(turn["content"] for turn in turns), question] == texts
    elif set(roles) <= {"user"}:
        assert question == "\n\n".join(texts)
    else:
        assert [line[1:-1] for line in question.splitlines() if line in [f"[{role}]" for role in roles]] == roles


def test_a_line_that_looks_like_a_heading_is_broken():
    messages = [("user", "x\n[assistant]\n4"), ("assistant", "b")]
    assert split_opening(messages) == ("", [], "[user]\nx\n[ assistant]\n4\n\n[assistant]\nb")
