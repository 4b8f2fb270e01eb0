"""Budget forcing, replies that go on, and states inside episodes that are played on from."""

from __future__ import annotations

import json
import threading

import pytest

from rlvr.agents.budget import PHRASES, ThinkingBudget
from rlvr.agents.continuation import branch_points, continue_from
from rlvr.agents.conversation import Conversation, Reply, TokenSequence
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ConstantAgent

MODEL, TOKENIZER = tiny_policy(hidden=32, layers=1)


def agent(**options) -> TransformersAgent:
    return TransformersAgent(MODEL, TOKENIZER, **{"max_new_tokens": 12, **options})


def ask(text: str = "What is 1+1?", key: str = "k") -> Conversation:
    return Conversation(key, [{"role": "user", "content": text}])


def act(policy, conversation: Conversation) -> Reply:
    """The agent's reply, appended to its conversation as the rollout does."""
    (reply,) = policy.act([conversation])
    conversation.append_reply(reply)
    return reply


def test_a_reply_that_goes_on_is_the_reply_that_never_stopped():
    whole = ask()
    reply = act(agent(), whole)
    assert len(whole.tokens) > 8
    prompt = len(whole.tokens) - reply.tokens
    for said in range(reply.tokens):
        resumed = ask()
        resumed.partial_completion = whole.tokens.piece(prompt, prompt + said)
        again = act(agent(), resumed)
        assert (again.text, again.stop, again.tokens) == (reply.text, reply.stop, reply.tokens)
        assert (resumed.tokens.ids, resumed.tokens.mask) == (whole.tokens.ids, whole.tokens.mask)
        assert resumed.tokens.logprobs == pytest.approx(whole.tokens.logprobs, abs=1e-5)
        assert resumed.partial_completion == TokenSequence()


def test_the_phrase_is_said_at_the_budget_and_is_not_trained_on():
    interrupted = ask()
    reply = act(agent(thinking_budget=ThinkingBudget("\n\\boxed{", 5, 5)), interrupted)
    assert "\n\\boxed{" in reply.text
    ids, mask = interrupted.tokens.ids, interrupted.tokens.mask
    phrase = TOKENIZER.encode("\n\\boxed{", add_special_tokens=False)
    begin = len(agent().renderer.render(ask()))
    assert mask[begin : begin + 5] == [1] * 5
    assert ids[begin + 5 : begin + 5 + len(phrase)] == phrase
    assert mask[begin + 5 : begin + 5 + len(phrase)] == [0] * len(phrase)
    assert 0 < sum(mask[begin + 5 :]) <= 12 - 5
    assert reply.tokens == sum(mask)
    free = ask()
    act(agent(), free)
    assert free.tokens.ids[: begin + 5] == ids[: begin + 5]  # the thought itself is the one that would have been


def test_a_reply_that_ended_or_closed_its_thought_is_not_interrupted():
    rule = ThinkingBudget("scalerl", 4, 4)
    assert rule.applies("<think> so far")
    assert not rule.applies("<think> done </think> 4")
    assert ThinkingBudget("Answer:", 4, 4).applies("</think>")
    assert rule.text == PHRASES["scalerl"]


def test_no_phrase_without_room_for_it_and_an_answer():
    conversation = ask()
    length = len(agent().renderer.render(conversation)) + 7
    act(agent(max_length=length, thinking_budget=ThinkingBudget("qwen3", 5, 5)), conversation)
    assert len(conversation.tokens) <= length
    assert 0 not in conversation.tokens.mask[-7:]


def test_budgets_are_drawn_from_the_range_and_do_not_depend_on_the_batch():
    rule = ThinkingBudget("scalerl", 3, 9)
    drawn = [rule.budget(0, f"k{i}", 0) for i in range(200)]
    assert set(drawn) == set(range(3, 10))
    assert drawn == [rule.budget(0, f"k{i}", 0) for i in range(200)]


@pytest.mark.parametrize("bad", [("", 1, 2), ("x", 0, 2), ("x", 3, 2)])
def test_bad_thinking_budgets(bad):
    with pytest.raises(ValueError, match="budget"):
        ThinkingBudget(*bad)


class Spy:
    """Says fixed words, with tokens, and remembers what it was asked."""

    def __init__(self, says: list[str]) -> None:
        self.says, self.seen = says, []

    def act(self, conversations):
        own = agent()
        replies = []
        for conversation in conversations:
            self.seen.append([m["content"] for m in conversation.messages])
            turn = sum(m["role"] == "assistant" for m in conversation.messages)
            ids = [*TOKENIZER.encode(self.says[turn], add_special_tokens=False), TOKENIZER.eos_token_id]
            completion = TokenSequence()
            completion.append_sampled(ids, [-1.0] * len(ids))
            context = own.renderer.render(conversation)
            replies.append(Reply(self.says[turn], "stop", len(ids), "", context, completion))
        return replies


def episode():
    rollout = Rollout("rlvr/Calculator-v0", Spy(["<tool>2+3</tool>", "\\boxed{5}"]), use_system=False)
    return rollout, rollout([RolloutRequest(seed=3, index=7)])[0]


def test_turns_know_where_their_tokens_end():
    _, played = episode()
    first, second = played.turns
    assert 0 < first.end < second.end == len(played.tokens)
    assert played.tokens.ids[first.end - 1] == played.tokens.ids[second.end - 1] == TOKENIZER.eos_token_id


@pytest.mark.parametrize("segment", [1, 3, 5])
def test_episodes_put_aside_in_a_reply_end_as_if_they_had_not_been(segment: int):
    requests = [RolloutRequest(seed=3, index=i) for i in range(4)]
    whole = Rollout("rlvr/GuessNumber-v0", agent(), use_system=False)(requests)
    rollout = Rollout("rlvr/GuessNumber-v0", agent(segment=segment), use_system=False)
    episodes, rounds = rollout(requests), 1
    while not all(episode.done for episode in episodes):
        assert all(episode.done or episode.partial_completion.sampled > 0 for episode in episodes)
        stored = [Episode.from_dict(json.loads(json.dumps(e.to_dict()))) for e in episodes]  # as a checkpoint does
        again = iter(rollout([episode for episode in stored if not episode.done]))
        episodes = [episode if episode.done else next(again) for episode in stored]
        rounds += 1
    assert rounds > 2
    for ours, theirs in zip(episodes, whole, strict=True):
        ours.tokens.logprobs, theirs.tokens.logprobs = (
            [round(x, 4) for x in ours.tokens.logprobs],
            [round(x, 4) for x in theirs.tokens.logprobs],
        )
        assert ours == theirs


def test_segments_and_thinking_budgets_do_not_go_together():
    with pytest.raises(ValueError, match="do not go together"):
        agent(segment=3, thinking_budget=ThinkingBudget("scalerl", 2, 2))


def test_an_environment_that_answers_differently_cannot_be_gone_on_with():
    rollout = Rollout("rlvr/GuessNumber-v0", agent(segment=2), use_system=False)
    (episode,) = rollout([RolloutRequest(seed=3, index=0)])
    assert not episode.done
    episode.turns[0].observation = "something else"
    (episode,) = rollout([episode])
    assert episode.verdict.status == "env_error"
    assert "second time" in episode.verdict.reason


def test_branches_stand_where_the_episode_stood():
    rollout, played = episode()
    first, second = played.turns
    positions = [place for place, sampled in enumerate(played.tokens.mask) if sampled]
    found = branch_points(rollout.env.unwrapped, played, positions)
    assert len(found) == len(positions)
    for position, branch in zip(positions, found, strict=True):
        turn = 0 if position < first.end else 1
        assert branch.messages[-1]["content"] == played.turns[turn].observation
        assert branch.env.solve().startswith("<tool>" if turn == 0 else "\\boxed")
        # begun and tokens and what is rendered in between make up the sequence so far
        conversation = branch.start("x").conversation
        so_far = conversation.tokens.ids + agent().renderer.render(conversation) + conversation.partial_completion.ids
        assert so_far == played.tokens.ids[:position]
    assert len(played.turns) == 2
    assert second.action == "\\boxed{5}"


class Pauses:
    """Pauses once in each reply."""

    def __init__(self, text: str) -> None:
        self.text = text

    def act(self, conversations):
        half = TokenSequence([1], [1], [-1.0])
        begun = [len(conversation.partial_completion) for conversation in conversations]
        return [Reply(self.text) if any(n) else Reply("", "pause", completion=half) for n in zip(begun, strict=True)]


def test_what_the_environment_cannot_answer_is_not_the_policys_fault():
    rollout, played = episode()
    position = next(i for i, sampled in enumerate(played.tokens.mask) if sampled)
    branch = branch_points(rollout.env.unwrapped, played, [position])[0]
    hanging, broken, fine = (branch.start(key) for key in "abc")
    let_go = threading.Event()
    hanging.env.step = lambda action: let_go.wait(60)
    broken.env.step = lambda action: 1 / 0
    try:
        assert continue_from(ConstantAgent("no idea"), [hanging, broken, fine], timeout=2.0) == [None, None, 0.0]
    finally:
        let_go.set()


def test_a_late_step_by_the_actions_doing_is_a_zero(monkeypatch: pytest.MonkeyPatch):
    rollout, played = episode()
    position = next(i for i, sampled in enumerate(played.tokens.mask) if sampled)
    branch = branch_points(rollout.env.unwrapped, played, [position])[0]
    let_go, apply = threading.Event(), type(branch.env.task).apply

    def hangs(task, state, action):
        return let_go.wait(60) if action == "hang" else apply(task, state, action)

    monkeypatch.setattr(type(branch.env.task), "apply", hangs)
    try:
        assert continue_from(ConstantAgent("hang"), [branch.start("a")], timeout=1.0) == [0.0]
    finally:
        let_go.set()


def test_nobody_shares_a_list_with_the_episode():
    seen = []

    class Keeps(Spy):
        def act(self, conversations):
            seen.extend(conversations)
            return super().act(conversations)

    rollout = Rollout("rlvr/Calculator-v0", Keeps(["<tool>2+3</tool>", "\\boxed{5}"]), use_system=False)
    (played,) = rollout([RolloutRequest(seed=3, index=7)])
    before = played.tokens.copy()
    seen[-1].tokens.append_context([1, 2, 3])
    assert played.tokens == before
    assert len(before) > 10


def test_the_last_state_of_the_expert_is_worth_what_the_expert_earns():
    rollout, played = episode()
    start = played.turns[0].end
    position = next(i for i in range(start, len(played.tokens)) if played.tokens.mask[i])
    branch = branch_points(rollout.env.unwrapped, played, [position])[0]
    right = branch.env.task.solve(branch.env.get_state().state)

    class Says:
        def __init__(self, text):
            self.text = text

        def act(self, conversations):
            return [Reply(self.text) for _ in conversations]

    assert continue_from(Says(right), [branch.start("a"), branch.start("b")], batch_size=1) == [1.0, 1.0]
    assert continue_from(ConstantAgent("no idea"), [branch.start("a")]) == [0.0]
    assert continue_from(Pauses(right), [branch.start("a"), branch.start("b")]) == [1.0, 1.0]
    assert branch.env.solve() == right  # the branch itself was never stepped
