"""What is not understood is ``unparsable`` in every id; the second in a row is answered with an example."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import pytest

import rlvr
from rlvr.agents import ConstantAgent, Rollout
from rlvr.agents.evaluation import evaluate, task_requests
from rlvr.envs import TextEnv
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.core.images import text_of
from rlvr.envs.rewards import grade
from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.questions import Question
from rlvr.envs.wrappers import TurnLimit

from ..needs import needs_sandbox

GIBBERISH = ("zxqv blorp wug", "I do not know.", "", "\\boxed{}", '{"zxqv": [')
AS_ANSWERS = ("\\boxed{zxqv blorp wug}", "<answer>#~ zxqv ~#</answer>")
# Here any text is a deed: keys that are pressed, words to a customer, a text that was asked for.
ANY_TEXT = {
    f"rlvr/{name}-v0"
    for name in ("Terminal", "RepoRepair", "RepoFeature", "ServiceDesk", "Service", "Instructions", "IFEval", "IFBench")
}
# Here any word is an answer, and gibberish the wrong one.
ANY_WORD = {
    f"rlvr/{name}-v0"
    for name in "Ciphers ReverseText RunLength StringFunctionInduction StringRewriting HotpotQA NQOpen PopQA TriviaQA "
    "Dataset".split()
}


def made(env_id: str) -> TextEnv | None:
    """The environment; None where it needs data, a server, a sandbox or a setting."""
    try:
        env = gym.make(env_id, disable_env_checker=True).unwrapped
        env.reset(seed=3)
    except Exception:
        return None
    return env if isinstance(env, TextEnv) else None


ENVS = [env_id for env_id in rlvr.list_envs() if not env_id.startswith(PREFIXES) and env_id not in ANY_TEXT]


def played(env: TextEnv, text: str, turns: int = 600) -> list[tuple[Any, ...]]:
    env.reset(seed=3)
    steps = []
    for _ in range(turns):
        steps.append(env.step(text))
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


@pytest.mark.parametrize("env_id", ENVS)
def test_what_is_not_understood_is_unparsable_to_the_end(env_id: str) -> None:
    if (env := made(env_id)) is None:
        pytest.skip("needs data or a setting")
    texts = GIBBERISH if env_id in ANY_WORD else (*GIBBERISH, *AS_ANSWERS)
    for text in texts:
        for _, reward, *_, info in played(env, text):
            assert (info["verdict"].status, reward) == ("unparsable", 0), (text, info["verdict"])


@pytest.mark.parametrize("env_id", ENVS)
def test_the_second_in_a_row_is_answered_with_an_example_that_is_understood(env_id: str) -> None:
    env = made(env_id)
    if env is None or env.task.turns(1) < 4:
        pytest.skip("one turn")
    env.reset(seed=3)
    first, *_, over, info = env.step("zxqv blorp wug")
    if over or info["verdict"].status != "unparsable" or info["turn"] != 1 or env._over:
        return
    before = env.fork()
    second, *_ = env.step("zxqv blorp wug")
    assert text_of(before.step("zxqv blorp wug")[0]) == text_of(second), "restored with the count"
    example = env.task.form_example(env._state)
    assert example is not None
    assert "None of your last" not in text_of(first)
    assert text_of(second).endswith(
        f"None of your last 2 replies was accepted. One of the right form, drawn at random:\n{example}"
    )
    understood, *_, info = env.step(example)
    assert info["verdict"].status != "unparsable", example
    assert "None of your last" not in text_of(understood)


@needs_sandbox
def test_a_call_that_cannot_be_carried_out_twice_is_answered_with_a_call() -> None:
    for settings in ({"id": "rlvr/Browser-v0"}, {"id": "rlvr/Countdown-v0", "tools": ["python"]}):
        env = gym.make(**settings, disable_env_checker=True).unwrapped
        env.reset(seed=0)
        call = '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>'
        env.step(call)
        observation, *_, info = env.step(call)
        assert info["verdict"].status == "unparsable"
        assert observation.rpartition("drawn at random:\n")[2].startswith("<tool_call>")


def test_an_episode_that_used_up_its_turns_ends_with_what_its_last_action_was() -> None:
    env = TurnLimit(gym.make("rlvr/GuessNumber-v0", level=3), turns=2)
    for actions, status in (
        (("blorp", "blorp"), "unparsable"),
        (("blorp", "\\boxed{1}"), "wrong"),
        (("\\boxed{1}", "?"), "unparsable"),
    ):
        env.reset(seed=1)
        infos = [env.step(action)[4] for action in actions]
        assert infos[-1]["verdict"].status == status, actions


def test_an_evaluation_counts_the_actions_that_were_not_understood() -> None:
    result = evaluate(Rollout("rlvr/Nim-v0", ConstantAgent("blorp")), task_requests(None, 2))
    assert result.unread == result.turns * 2 > 10
    assert f"verdicts: unparsable 2   actions not understood: {result.unread}" in str(result)


@pytest.mark.parametrize(
    ("gold", "answer", "status"),
    [
        ("5", "\\text{the weather is nice}", "unparsable"), ("5", "no solution", "wrong"),
        ("5", "\\text{None}", "wrong"),
        ("\\text{ellipse}", "parabola", "wrong"), ("5", "6", "wrong"), ("x + 1", "undefined", "wrong"),
    ],
)  # fmt: skip
def test_words_where_a_value_is_asked_for_are_unread_unless_they_say_that_there_is_none(gold, answer, status) -> None:
    assert grade("math", f"\\boxed{{{answer}}}", gold).status == status


def test_a_word_of_another_kind_than_the_answer_is_unread_and_another_of_its_kind_is_wrong() -> None:
    env = gym.make("rlvr/KnightsAndKnaves-v0", disable_env_checker=True).unwrapped
    env.reset(seed=random.Random(1).randrange(99))
    count = env.solve().count(",") + 1
    for word, status in (("liar", "unparsable"), ("7", "unparsable")):
        env.reset(seed=random.Random(1).randrange(99))
        assert env.step(f"\\boxed{{{', '.join([word] * count)}}}")[4]["verdict"].status == status


@pytest.mark.parametrize(
    ("answer", "status"),
    [("b, z", "wrong"), ("Z", "wrong"), ("b, zed", "unparsable"), ("b, 7", "unparsable")],
)
def test_a_letter_that_the_question_lacks_is_wrong_where_letters_are_asked_for(answer: str, status: str) -> None:
    task, question = ListAnswerTask(), Question("Which of a, b and c follow?", ("a", "b"))
    assert task.judge(question, f"\\boxed{{{answer}}}").status == status


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("Eli, Ben", "wrong"), ("ben, Hal", "wrong"), ("Ben", "unparsable"), ("Ben, Ken", "unparsable"),
        ("Eli, 7", "unparsable"), ("I do not know Eli", "unparsable"),
    ],
)  # fmt: skip
def test_a_name_made_up_beside_names_of_the_question_is_wrong(answer: str, status: str) -> None:
    task, question = ListAnswerTask(), Question("Eli is a parent of Bea and Hal. Who are his children?", ("Bea", "Hal"))
    assert task.judge(question, f"\\boxed{{{answer}}}").status == status
