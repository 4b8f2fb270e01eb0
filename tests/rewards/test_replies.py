"""Whole replies in many styles, in replies.jsonl: the right ones are paid; the wrong ones, doubts and hedges are not.

A line has the kind of grader, or "env" with the id and the seed of a question; its reference; the reply.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.envs.rewards import grade

ROWS = [json.loads(line) for line in Path(__file__).with_name("replies.jsonl").read_text().splitlines()]


@cache
def question(reference: str) -> tuple[Any, Any]:
    name, seed = reference.split(":")
    env = gym.make(f"rlvr/{name}-v0", disable_env_checker=True).unwrapped
    env.reset(seed=int(seed), options={"level": 1 if name == "DateArithmetic" else 2})
    return env, env.get_state().state  # type: ignore[attr-defined]


def reward_of(row: dict[str, Any]) -> float:
    if row["kind"] == "env":
        env, state = question(row["reference"])
        return float(env.task.apply(state, row["reply"])[1].reward)
    options = {"letters": row["letters"]} if "letters" in row else {}
    return grade(row["kind"], row["reply"], row["reference"], **options).reward


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}-{row['right']}-{row['reply'][:40]}")
def test_a_reply_is_paid_where_it_is_right(row: dict[str, Any]) -> None:
    assert reward_of(row) == float(row["right"]), (row["reference"], row["reply"])
