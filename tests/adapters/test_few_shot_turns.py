"""Worked examples as turns where others take them: rows, sessions, servers, exports, harnesses and the viewer."""

from __future__ import annotations

import json
import urllib.request

import gymnasium as gym
import pytest

from rlvr.adapters import EpisodeSession, TaskSpec, initial_messages, rows
from rlvr.adapters.export.atif import atif_record, episode_of
from rlvr.adapters.export.chat import chat_record, openai_record
from rlvr.adapters.export.selection import task_of
from rlvr.adapters.rows import FORMATS
from rlvr.adapters.serving.connect import connect
from rlvr.adapters.serving.policy_endpoint import HarnessEnv
from rlvr.adapters.serving.serve import EnvServer
from rlvr.adapters.suites import lm_eval
from rlvr.adapters.viewer.traces import episode_trace
from rlvr.agents import ExpertAgent, Rollout, RolloutRequest

GSM8K = "rlvr/GSM8K-v0"
SETTINGS = {"few_shot": 2}
ROLES = ["system", *["user", "assistant"] * 2, "user"]


@pytest.fixture(scope="module")
def episode():
    (played,) = Rollout(GSM8K, ExpertAgent(), env_settings=SETTINGS)([RolloutRequest(0, index=0)])
    return played


@pytest.fixture(scope="module")
def opening(episode):
    """What a policy reads before its first reply."""
    return episode.messages()[:-1]


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_rows_hold_the_turns(format):
    (row,) = rows(GSM8K, 1, format, kwargs=SETTINGS)
    observation, info = gym.make(GSM8K, **SETTINGS).reset(seed=0)
    messages = row.get("prompt") or row.get("input") or row["responses_create_params"]["input"]
    if isinstance(messages, str):
        assert messages == observation, "an agent function gets the task by its label and renders the turns itself"
        return
    messages = [{"role": message["role"], "content": message["content"]} for message in messages]
    assert messages == initial_messages(observation, info)
    assert [message["role"] for message in messages] == ROLES


def test_a_session_begins_with_the_turns_and_grades_the_answer():
    session = EpisodeSession(TaskSpec(GSM8K, 0, kwargs=SETTINGS))
    assert [message["role"] for message in session.messages] == ROLES
    assert session.step(session.env.unwrapped.solve()) is None
    assert (session.reward, session.turns) == (1.0, 1)


def test_they_come_over_the_network_as_they_are():
    with EnvServer(GSM8K, SETTINGS) as server, connect(server.url) as env:
        assert env.reset(seed=0)[1] == gym.make(GSM8K, **SETTINGS).reset(seed=0)[1]


def test_a_text_of_the_evaluation_harness_has_them_in_the_questions_form(tmp_path, monkeypatch, opening):
    monkeypatch.setattr(lm_eval, "_checked", lambda: None)
    task = lm_eval.export(GSM8K, 1, tmp_path, settings=SETTINGS)
    (document,) = map(json.loads, task.with_suffix(".jsonl").read_text().splitlines())
    observation, info = gym.make(GSM8K, **SETTINGS).reset(seed=0)
    pairs = zip(info["examples"][::2], info["examples"][1::2], strict=True)
    worked = [f"Question: {asked['content']}\nAnswer: {answer['content']}" for asked, answer in pairs]
    assert document["prompt"] == "\n\n".join([*worked, f"Question: {observation}\nAnswer:"])
    assert document["system"] == info["system"]


def test_exports_mark_what_nobody_sampled(episode, opening):
    for record in (chat_record(episode), openai_record(episode)):
        messages = record["messages"]
        assert [(message["role"], message["content"]) for message in messages] == [
            (message["role"], message["content"]) for message in episode.messages()
        ]
        assert [index for index, message in enumerate(messages) if "weight" in message] == [2, 4]
        assert messages[2]["weight"] == messages[4]["weight"] == 0


def test_a_trajectory_has_them_as_steps_and_gives_the_same_episode_back(episode):
    record = json.loads(json.dumps(atif_record(episode)))
    assert [step["source"] for step in record["steps"]] == ["system", *["user", "agent"] * 3]
    assert [bool((step.get("extra") or {}).get("example")) for step in record["steps"]] == [0, 1, 1, 1, 1, 0, 0]
    assert episode_of(record) == episode


def test_other_examples_are_another_task(episode):
    (plain,) = Rollout(GSM8K, ExpertAgent())([RolloutRequest(0, index=0)])
    assert task_of(plain) != task_of(episode)


def test_the_viewer_shows_turns_and_counts_one_action(episode):
    trace = episode_trace(episode.to_dict())
    shown = [(message.role, message.text) for message in trace.messages if message.role != "environment"]
    assert shown == [(message["role"], message["content"]) for message in episode.messages()]
    assert [message.example for message in trace.messages[:7]] == [False, *[True] * 4, False, False]
    assert trace.actions() == episode.turns[0].action


def test_a_harness_that_sends_turns_of_examples_shows_them_as_turns():
    sent = [
        {"role": "system", "content": "Rule."},
        {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2+2"},
    ]

    def harness(connection):
        body = json.dumps({"model": connection.model, "messages": sent}).encode()
        headers = {"Authorization": f"Bearer {connection.api_key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{connection.base_url}/chat/completions", body, headers)
        with urllib.request.urlopen(request, timeout=10) as response:
            text = json.load(response)["choices"][0]["message"]["content"]
        return float(text == "4")

    env = HarnessEnv(harness)
    try:
        observation, info = env.reset()
        assert (observation, info["system"], info["examples"]) == ("2+2", "Rule.", sent[1:3])
        assert initial_messages(observation, info) == sent
        assert env.step("4")[1] == 1.0
    finally:
        env.close()
