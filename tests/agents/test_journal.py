"""Broken off at any moment, an evaluation goes on: no finished episode is lost, and no reply that was kept is asked for
again."""

from __future__ import annotations

import json
import random
import signal
import threading
import time

import pytest

from rlvr.agents import Conversation, Reply, Rollout, evaluate, task_requests
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.evaluation.journal import Journal, digest_of
from rlvr.agents.models.calls import Calls
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.transformers import TransformersAgent

GUESS = "rlvr/GuessNumber-v0"


class Guesser:
    """Guesses by a hash of what it has seen. It answers in threads, and presses Ctrl-C while it does, once."""

    def __init__(self, press_at: int | None = None) -> None:
        self.asked: list[str] = []
        self._press_at = press_at
        self._calls = Calls(8)
        self._lock = threading.Lock()

    def act(self, conversations):
        return [future.result() for future in self.submit(conversations)]

    def submit(self, conversations):
        return self._calls.start(self._reply, conversations)

    def _reply(self, conversation) -> Reply:
        seen = digest_of(conversation)
        with self._lock:
            self.asked.append(seen)
            press = len(self.asked) == self._press_at
        if press:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(int(seen[:2], 16) / 256 * 0.004)  # replies come in another order than they were asked for
        return Reply(f"\\boxed{{{int(seen, 16) % 20 + 1}}}")


class InTurn:
    """A `Guesser` that is asked for all conversations at once."""

    def __init__(self, press_at: int | None = None) -> None:
        self._guesser = Guesser(press_at)
        self.asked, self.act = self._guesser.asked, self._guesser.act


def written(record) -> set[str]:
    """What the replies of a journal answered."""
    path = record.with_name(f"{record.name}.turns.jsonl")
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {json.loads(line)["answers"] for line in lines}


def outcomes(episodes):
    return [(e.key, e.reward, [(t.observation, t.action) for t in e.turns]) for e in episodes]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Guesser, InTurn])
def test_fifty_interruptions_change_nothing_and_nothing_is_asked_for_twice(kind, tmp_path):
    requests = task_requests(None, 300, seed=4)
    whole = Rollout(GUESS, kind(), batch_size=8)(requests)
    turns = sum(len(episode.turns) for episode in whole)
    record, rng = tmp_path / "episodes.jsonl", random.Random(0)

    asked = interruptions = 0
    while True:
        kept, before = len(read_episodes(record)), written(record)
        agent = kind(rng.randint(1, 40) if interruptions < 50 else None)
        result = None
        try:
            result = evaluate(Rollout(GUESS, agent, batch_size=8), requests, record=record)
        except KeyboardInterrupt:
            interruptions += 1
            assert len(read_episodes(record)) >= kept
        asked += len(agent.asked)
        assert before.isdisjoint(agent.asked), "a reply that was kept was asked for again"
        if result is not None:
            break
    assert interruptions == 50
    assert outcomes(sorted(read_episodes(record), key=lambda e: e.index)) == outcomes(whole)
    assert result.episodes == 300
    assert asked - turns <= interruptions * 8  # no more than was in flight
    assert [path.name for path in tmp_path.iterdir()] == [record.name]


class Breaking:
    """Plays as another agent does, for so many batches."""

    def __init__(self, agent, batches: int) -> None:
        self.agent, self.left, self.asked = agent, batches, 0

    def act(self, conversations):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += len(conversations)
        return self.agent.act(conversations)


def test_an_agent_that_samples_tokens_goes_on_with_the_same_tokens(tmp_path):
    model, tokenizer = load_policy("rlvr/tiny")
    agent = TransformersAgent(model, tokenizer, max_new_tokens=8, seed=3)
    requests = task_requests(None, 6, seed=4)
    whole = Rollout(GUESS, agent)(requests)
    record = tmp_path / "episodes.jsonl"
    with pytest.raises(KeyboardInterrupt):
        evaluate(Rollout(GUESS, Breaking(agent, 3)), requests, record=record)
    assert len(written(record)) == 3 * 6
    going_on = Breaking(agent, 1_000)
    evaluate(Rollout(GUESS, going_on), requests, record=record)
    assert going_on.asked == sum(len(episode.turns) for episode in whole) - 3 * 6
    found = sorted(read_episodes(record), key=lambda episode: episode.index)
    assert outcomes(found) == outcomes(whole)
    for episode, before in zip(found, whole, strict=True):
        assert (episode.tokens.ids, episode.tokens.mask) == (before.tokens.ids, before.tokens.mask)
        assert episode.tokens.logprobs == pytest.approx(before.tokens.logprobs, abs=1e-4)


def test_where_the_environment_observes_something_else_the_reply_is_asked_for_anew(tmp_path):
    journal = Journal(tmp_path / "turns.jsonl")
    asked = Conversation("k", [{"role": "user", "content": "2 + 2?"}])
    journal.write(asked, Reply("4"))
    journal.close(())
    again = Journal(tmp_path / "turns.jsonl")
    assert again.reply_to(asked) == Reply("4")
    assert again.reply_to(Conversation("k", [{"role": "user", "content": "2 + 3?"}])) is None
    assert again.reply_to(Conversation("l", asked.messages)) is None


def test_a_torn_last_line_is_left_out_and_any_other_is_said(tmp_path):
    path = tmp_path / "turns.jsonl"
    journal = Journal(path)
    for key in "abc":
        journal.write(Conversation(key, [{"role": "user", "content": "?"}]), Reply(key))
    journal.write(Conversation("d", []), Reply("", "error", error="no answer"))  # none to keep
    journal.close(())
    text = path.read_text()
    for end in range(len(text)):
        path.write_text(text[:end])
        torn = Journal(path)
        assert len(torn) == text[:end].count("\n")
        torn.close(())
    for wrong in ("{}", "[]", "null", "oops", json.dumps(json.loads(text.split("\n")[0]) | {"stop": "error"})):
        path.write_text(f"{wrong}\n{text}")
        with pytest.raises(ValueError, match=r"line 1 of .*turns\.jsonl is no reply"):
            Journal(path)


def test_it_goes_once_all_that_it_is_about_have_ended(tmp_path):
    path = tmp_path / "turns.jsonl"
    journal = Journal(path)
    for key in "ab":
        journal.write(Conversation(key, [{"role": "user", "content": "?"}]), Reply(key))
    journal.close({"a"})
    again = Journal(path, {"a"})
    assert len(again) == 1
    again.close({"a", "b"})
    assert not path.exists()


class OneByOne:
    """Has the replies of a batch one by one; Ctrl-C comes before the last of a turn's."""

    def __init__(self, press_at: int | None = None) -> None:
        self.press_at, self.told = press_at, 0
        self.seen: list[int] = []  # episodes in the record before each reply
        self.record = None

    def act(self, conversations):
        return [reply for _, reply in self.act_each(conversations)]

    def act_each(self, conversations):
        for index, conversation in enumerate(conversations):
            self.seen.append(len(read_episodes(self.record)) if self.record else 0)
            if self.told == self.press_at:
                raise KeyboardInterrupt
            self.told += 1
            yield index, Reply(f"\\boxed{{{int(digest_of(conversation), 16) % 20 + 1}}}")


@pytest.mark.parametrize("workers", [0, 2])
def test_an_episode_is_kept_before_the_slowest_reply_of_its_batch_is_there(tmp_path, workers):
    requests = task_requests(None, 12)
    whole = Rollout("rlvr/Countdown-v0", OneByOne())(requests)
    agent = OneByOne(press_at=11)
    agent.record = record = tmp_path / "episodes.jsonl"
    with pytest.raises(KeyboardInterrupt):
        evaluate(Rollout("rlvr/Countdown-v0", agent, workers=workers), requests, record=record)
    kept = read_episodes(record)
    if not workers:  # else environments go on while the agent does
        assert len(kept) >= 10
        assert agent.seen[-1] >= 9
    again = OneByOne()
    evaluate(Rollout("rlvr/Countdown-v0", again), requests, record=record)
    assert again.told == 1
    assert sorted(outcomes(read_episodes(record))) == sorted(outcomes(whole))


@pytest.mark.slow
def test_a_local_model_plays_the_same_episodes_reply_by_reply(tmp_path):
    model, tokenizer = load_policy("rlvr/tiny")
    requests = task_requests(None, 8, seed=1)

    def rollout(**options):
        agent = TransformersAgent(model, tokenizer, max_new_tokens=12, seed=5, **options)
        return Rollout(GUESS, agent, batch_size=8)

    for options in ({}, {"max_sequences": 3}):
        whole = rollout(**options)(requests)
        by_reply = dict(rollout(**options).stream(requests, each_reply=True))
        assert [by_reply[index] for index in range(8)] == whole  # but for the seconds
