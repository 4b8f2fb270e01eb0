"""Over all ids with one turn: a right answer in any natural form is paid, a wrong one in the same form is not."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv
from rlvr.envs.rewards.extraction import extract
from rlvr.envs.sandbox import SandboxUnavailable

from .test_natural_answers import AROUND, GRIDS, LISTS

HEDGES = ("{a}?", "{a} or {b}", "not {a}", "The answer is not {a}", "maybe {a}", "either {a} or {b}")


def one_turn_ids() -> list[str]:
    found = []
    for name in sorted(gym.registry):
        if name.startswith("rlvr/"):
            try:
                env = gym.make(name, disable_env_checker=True).unwrapped
            except (TypeError, ValueError, OSError, SandboxUnavailable):
                continue  # needs data, a server, a setting or a sandbox; its reader is another id's
            if isinstance(env, TextEnv) and env.task.turns(1) == 1:
                found.append(name)
    return found


def forms(answer: str, kind: str) -> list[str]:
    """The answer in each natural form and dress that applies to what it is."""
    lists = [] if kind in ("exact", "math", "number", "choice") else LISTS
    found = []
    if "\n" in answer:
        rows = [line.split() if " " in line.strip() else list(line.strip()) for line in answer.split("\n")]
        if len(rows) > 1 and len({len(row) for row in rows}) == 1:
            found += [form(rows) for form in GRIDS]
    elif "," in answer and not set(answer) & set("\\(){}[]"):
        parts = [part.strip() for part in answer.split(",")]
        texts = [form(parts) for form in lists]
        found += [text for text in texts if " " not in parts[0] or "'" not in text]  # no list of quoted pairs
    elif re.fullmatch(r"[\w-]+(?: [\w-]+)+", answer):
        found += [form(answer.split()) for form in lists]
    for around in AROUND:
        macro = "text{" in around or "math" in around
        if macro and (set(answer) & set("\\{}$*\n") or "frac" in answer):
            continue  # no markup stands in \text{...}, and several lines or formulas do not
        if "\n" in answer and "`{}`" in around:
            continue  # one-line code
        found.append(around.format(answer))
    return found


def graded(env: TextEnv, text: str) -> tuple[float, str]:
    verdict = env.task.apply(env.get_state().state, f"I worked it out.\n\\boxed{{{text}}}")[1]
    return verdict.reward, verdict.status


@pytest.mark.parametrize("name", one_turn_ids())
def test_the_experts_answer_is_paid_in_any_natural_form_and_a_wrong_one_in_none(name: str) -> None:
    env = gym.make(name, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    for level in {1, env.task.levels}:
        env.reset(seed=7, options={"level": level, "index": 1})
        other = extract(env.solve()).answer
        env.reset(seed=7, options={"level": level, "index": 2})
        answer = extract(env.solve()).answer
        if answer is None or graded(env, answer)[0] != 1:
            continue  # answered with code or JSON
        kind = getattr(env.task, "kind", "")
        for text in forms(answer, kind):
            assert graded(env, text) == (1, "correct"), text
        if other and graded(env, other)[0] == 0:
            for text in forms(other, kind):
                assert graded(env, text)[0] == 0, text
            for hedge in HEDGES[kind == "exact" :]:  # compared without punctuation
                assert graded(env, hedge.format(a=answer, b=other))[0] == 0, hedge.format(a=answer, b=other)
