"""A harness asks as it likes: the tokens of each call are kept as they were sampled, in their own conversation."""

from __future__ import annotations

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("transformers")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.adapters import TaskSpec
from rlvr.adapters.export.atif import atif_record, episode_of
from rlvr.adapters.serving.policy_endpoint import HarnessEnv, PolicyEndpoint
from rlvr.adapters.spec import EpisodeSession
from rlvr.adapters.testing import nothing_left
from rlvr.agents import ConstantAgent, Episode, Rollout, RolloutRequest
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import TransformersAgent

MODEL, TOKENIZER = tiny_policy(hidden=16, layers=1)
SYSTEM, SUB = {"role": "system", "content": "You lead."}, {"role": "system", "content": "You help."}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


class Recorder(TransformersAgent):
    """Writes down the prompt, the tokens and the log-probabilities of each reply."""

    def __init__(self, **options):
        super().__init__(MODEL, TOKENIZER, max_new_tokens=6, **options)
        self.calls = []

    def _sample(self, drafts, limits):
        prompts = [draft.prompt() for draft in drafts]
        sampled = super()._sample(drafts, limits)
        keys = [draft.conversation.key for draft in drafts]
        self.calls += [(key, p, [*s[0]], [*s[1]]) for key, p, s in zip(keys, prompts, sampled, strict=True)]
        return sampled


def user(text):
    return {"role": "user", "content": text}


def ask(connection, messages, **fields):
    body = json.dumps({"model": connection.model, "messages": messages, **fields}).encode()
    headers = {"Authorization": f"Bearer {connection.api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{connection.base_url}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        message = json.loads(response.read())["choices"][0]["message"]
    return {"role": "assistant", "content": message["content"] or "", **_calls(message)}


def _calls(message):
    return {"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {}


def play(harness, agent=None, requests=None, **options):
    """The episodes, and the calls that the agent wrote down."""
    agent, requests = agent or Recorder(), requests or [RolloutRequest(0)]
    envs = []
    with nothing_left(), PolicyEndpoint() as endpoint:

        def make():
            envs.append(HarnessEnv(harness, endpoint=endpoint))
            return envs[-1]

        episodes = Rollout(make, agent, **options)(requests)
        for env in envs:
            env.close()
    return episodes, getattr(agent, "calls", [])


def sequences(episode):
    return [episode.tokens, *(branch.tokens for branch in episode.branches)]


def check_capture(episode, calls):
    """Each sampled token stands once in the loss, after the prompt it was sampled after, with its log-probability."""
    for _, prompt, ids, logprobs in calls:
        begin, end = len(prompt), len(prompt) + len(ids)
        homes = [s for s in sequences(episode) if s.ids[:end] == prompt + ids and all(s.mask[begin:end])]
        assert len(homes) == 1, "a reply stands in the loss of one sequence"
        assert homes[0].logprobs[begin:end] == logprobs
    assert sum(s.sampled for s in sequences(episode)) == sum(len(ids) for *_, ids, _ in calls)
    for sequence in sequences(episode):
        with torch.inference_mode():
            scores = MODEL(torch.tensor([sequence.ids])).logits[0, :-1].log_softmax(-1)
        for position, sampled in enumerate(sequence.mask):
            if sampled:
                exact = float(scores[position - 1, sequence.ids[position]])
                assert sequence.logprobs[position] == pytest.approx(exact, abs=1e-4)


def test_one_conversation_is_one_sequence():
    def harness(connection):
        messages = [SYSTEM]
        for text in ("one", "two", "three"):
            messages += [user(text)]
            messages += [ask(connection, messages)]
        return 1.0

    (episode,), calls = play(harness)
    assert (len(calls), episode.branches, episode.reward) == (3, [], 1.0)
    assert [turn.branch for turn in episode.turns] == [0, 0, 0]
    assert episode.turns[-1].end == len(episode.tokens) == len(calls[-1][1]) + len(calls[-1][2])
    check_capture(episode, calls)


def test_a_sub_agent_is_a_branch_and_the_main_conversation_goes_on():
    def harness(connection):
        main = [SYSTEM, user("Lead.")]
        main.append(ask(connection, main))
        sub = [SUB, user("Help.")]
        sub.append(ask(connection, sub))
        sub.append(user("More."))
        sub.append(ask(connection, sub))
        main.append(user("The helper is done."))
        ask(connection, main)
        return 1.0

    (episode,), calls = play(harness)
    assert [turn.branch for turn in episode.turns] == [0, 1, 1, 0]
    assert [branch.follows for branch in episode.branches] == [-1]
    assert TOKENIZER.decode(calls[3][1]).count("helper") == 1
    assert "Help." not in TOKENIZER.decode(episode.tokens.ids)
    check_capture(episode, calls)
    main, helper = episode.messages(), episode.messages(1)
    assert [message["content"] for message in main[::2]] == ["You lead.", *[t.action for t in episode.turns[::3]]]
    assert [message["content"] for message in main[1::2]] == ["Lead.", "The helper is done."]
    assert [message["content"] for message in helper[::2]] == ["[system]\nYou help.\n\n[user]\nHelp.", "More."]
    assert episode.all_messages() == main + helper
    assert episode_of(atif_record(episode)) == episode
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode


def test_best_of_n_samples_anew_and_goes_on_from_the_reply_it_chose():
    def harness(connection):
        start = [SYSTEM, user("Choose.")]
        replies = [ask(connection, start) for _ in range(3)]
        assert len({reply["content"] for reply in replies}) > 1, "each sample has noise of its own"
        ask(connection, [*start, replies[0], user("Go on.")])
        return 1.0

    (episode,), calls = play(harness)
    assert [turn.branch for turn in episode.turns] == [0, 1, 2, 0]
    check_capture(episode, calls)


def test_a_return_to_an_earlier_reply_keeps_its_tokens_without_loss():
    def harness(connection):
        messages = [SYSTEM, user("One.")]
        messages.append(ask(connection, messages))
        ask(connection, [*messages, user("Left.")])
        ask(connection, [*messages, user("Right.")])
        return 1.0

    (episode,), calls = play(harness)
    assert [turn.branch for turn in episode.turns] == [0, 0, 1]
    (branch,) = episode.branches
    assert branch.follows == 0
    first = len(calls[0][1]) + len(calls[0][2])
    assert branch.tokens.ids[:first] == episode.tokens.ids[:first]  # as they were sampled, not encoded anew
    assert not any(branch.tokens.mask[:first])
    check_capture(episode, calls)


def test_a_history_that_the_harness_rewrites_is_context_and_not_learned():
    def harness(connection):
        messages = [SYSTEM, user("One.")]
        reply = ask(connection, messages)
        ask(connection, [*messages, {**reply, "content": f"{reply['content']} (edited)"}, user("Two.")])
        ask(connection, [SYSTEM, user("What happened so far: nothing.")])
        return 1.0

    (episode,), calls = play(harness)
    assert [turn.branch for turn in episode.turns] == [0, 1, 2]
    edited = episode.branches[0].tokens
    assert "(edited)" in TOKENIZER.decode(edited.ids)
    assert edited.sampled == len(calls[1][2])
    check_capture(episode, calls)


def test_blank_space_that_a_harness_trims_changes_nothing():
    def harness(connection):
        messages = [SYSTEM, user("One.")]
        reply = ask(connection, messages)
        messages += [{**reply, "content": reply["content"].strip()}, user("Two.")]
        ask(connection, messages)
        return 1.0

    (episode,), _ = play(harness, ConstantAgent("  yes \n"))
    assert [turn.branch for turn in episode.turns] == [0, 0]
    assert (len(episode.tokens), episode.branches) == (0, [])  # an agent that deals in text has no tokens


def test_other_tools_are_another_prompt():
    def harness(connection):
        messages = [SYSTEM, user("One.")]
        messages += [ask(connection, messages, tools=[ADD]), user("Two.")]
        messages += [ask(connection, messages, tools=[ADD]), user("Three.")]
        ask(connection, messages)
        return 1.0

    (episode,), _ = play(harness, ConstantAgent("yes"))
    assert [turn.branch for turn in episode.turns] == [0, 0, 1]


def test_calls_are_kept_as_they_were_sampled():
    """A harness sends a call back as an object; written anew it is the same conversation."""

    def harness(connection):
        messages = [SYSTEM, user("One.")]
        messages.append(ask(connection, messages, tools=[ADD]))
        (call,) = messages[-1]["tool_calls"]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "3"})
        ask(connection, messages, tools=[ADD])
        return 1.0

    call = '<think>\nHm.\n</think>\n<tool_call>{"arguments":  {"a": 1},"name": "add"}</tool_call>'
    (episode,), _ = play(harness, ConstantAgent(call))
    assert [(turn.branch, turn.role) for turn in episode.turns] == [(0, "user"), (0, "tool")]


def test_messages_of_any_order_end_no_run():
    odd = [user("a"), SYSTEM, {"role": "tool", "content": "b"}, {"role": "assistant", "content": "c"}]

    def harness(connection):
        ask(connection, odd)
        ask(connection, [{"role": "tool", "content": "t"}, user("u"), user("v")])
        return 1.0

    (episode,), calls = play(harness)
    assert episode.reward == 1.0
    check_capture(episode, calls)


def test_messages_that_the_template_refuses_end_the_episode_and_not_the_run():
    agent = Recorder()
    agent.renderer.tokenizer.chat_template = agent.renderer.tokenizer.chat_template.replace(
        "{%- for", "{%- if messages | length > 2 -%}{{- raise_exception('too many') -}}{%- endif -%}{%- for", 1
    )
    try:
        harness = lambda connection: ask(connection, [user("a"), {"role": "assistant", "content": "b"}, user("c")])  # noqa: E731
        (episode,), _ = play(harness, agent)
    finally:
        agent.renderer.tokenizer.chat_template = TOKENIZER_TEMPLATE
    assert (episode.verdict.status, episode.valid) == ("env_error", False)
    assert "too many" in episode.verdict.reason


TOKENIZER_TEMPLATE = TOKENIZER.chat_template


def test_sub_agents_that_ask_at_once_are_kept_apart():
    def harness(connection):
        def sub(number):
            messages = [SUB, user(f"Part {number}.")]
            for text in ("a", "b"):
                messages.append(ask(connection, messages))
                messages.append(user(text))
            return ask(connection, messages)

        main = [SYSTEM, user("Lead.")]
        main.append(ask(connection, main))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(sub, range(4)))
        ask(connection, [*main, user("All are done.")])
        return 1.0

    (episode,), calls = play(harness)
    assert len(episode.branches) == 4
    assert sorted(turn.branch for turn in episode.turns) == [0, 0, *[b for b in (1, 2, 3, 4) for _ in range(3)]]
    for branch in episode.branches:
        assert len({n for n in range(4) if f"Part {n}." in TOKENIZER.decode(branch.tokens.ids)}) == 1
    check_capture(episode, calls)


def test_64_harnesses_at_once_do_not_mix():
    def harness(connection):
        messages = [SYSTEM, user(f"I am {connection.seed}.")]
        messages.append(ask(connection, messages))
        ask(connection, [SUB, user(f"Help {connection.seed}.")])
        ask(connection, [*messages, user(f"Still {connection.seed}.")])
        return connection.seed / 64

    requests = [RolloutRequest(seed) for seed in range(64)]
    episodes, calls = play(harness, requests=requests, batch_size=64, workers=64)
    for seed, episode in enumerate(episodes):
        assert (episode.reward, len(episode.branches)) == (seed / 64, 1)
        texts = [TOKENIZER.decode(sequence.ids) for sequence in sequences(episode)]
        assert f"I am {seed}." in texts[0]
        assert f"Still {seed}." in texts[0]
        assert f"Help {seed}." in texts[1]
        mine = [call for call in calls if call[0].startswith(episode.key)]
        assert len(mine) == 3


def test_whoever_takes_one_conversation_is_told_all_in_it():
    """A session of a foreign trainer holds one sequence: what is told anew is one message there."""

    def harness(connection):
        ask(connection, [SYSTEM, user("One.")])
        ask(connection, [SUB, user("Help.")])
        return 1.0

    env = HarnessEnv(harness)
    try:
        session = EpisodeSession(TaskSpec("harness", 0), env=env)
        message = session.step("yes")
        assert message == {"role": "user", "content": "[system]\nYou help.\n\n[user]\nHelp."}
        assert session.step("yes") is None
        assert session.reward == 1.0
    finally:
        env.close()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 6), st.sampled_from(["a", "b c", " d "])), min_size=1, max_size=7))
def test_any_tree_of_calls_is_captured(steps):
    def harness(connection):
        histories = []
        for origin, text in steps:
            start = histories[origin % len(histories)] if origin >= 0 and histories else [SYSTEM]
            messages = [*start, user(text)]
            histories.append([*messages, ask(connection, messages)])
        return 1.0

    (episode,), calls = play(harness)
    assert len(calls) == len(steps)
    check_capture(episode, calls)
