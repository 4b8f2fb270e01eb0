"""The conformance kit lets our own rollout through, and catches an adapter at each thing it can get wrong."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

pytest.importorskip("transformers")

from rlvr.adapters import EpisodeSession
from rlvr.adapters import testing as kit
from rlvr.agents import TokenSequence
from rlvr.agents.conversation import Conversation
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.rendering import Renderer
from rlvr.envs import TextEnv, Verdict, list_envs
from rlvr.envs.core.task import Task, Transition

from ..group_isolation import check_interleaved


@pytest.fixture(scope="module")
def engine() -> kit.RecordingEngine:
    return kit.RecordingEngine(*tiny_policy(hidden=32, layers=1))


def play(specs, engine) -> list[kit.PlayedEpisode]:
    """A model adapter: the loop that each framework has, over our own renderer."""
    renderer = Renderer(engine.tokenizer)
    return [play_one(renderer, spec, engine) for spec in specs]


def play_one(renderer, spec, engine) -> kit.PlayedEpisode:
    session, conversation = EpisodeSession(spec), Conversation("", [])
    conversation.messages += session.messages
    while not session.done:
        conversation.tokens.append_context(renderer.render(conversation))
        call = engine.generate(conversation.tokens.ids)
        conversation.tokens.append_sampled(call.sampled, call.logprobs)
        text = renderer.decode(call.sampled)
        conversation.messages.append({"role": "assistant", "content": text})
        conversation.rendered = len(conversation.messages)
        if (message := session.step(text)) is not None:
            conversation.messages.append(message)
    tokens = conversation.tokens if session.valid else conversation.tokens.without_loss()
    return kit.PlayedEpisode(spec, session.reward, tokens, [], session.verdict)


def play_texts(specs, engine) -> list[kit.PlayedEpisode]:
    episodes = []
    for spec in specs:
        session, actions = EpisodeSession(spec), []
        said = "\n".join(message["content"] for message in session.messages)
        while not session.done:
            actions.append(engine.reply(said))
            said += f"\n{actions[-1]}\n{(session.step(actions[-1]) or {}).get('content', '')}"
        reward = session.reward if session.valid else None
        episodes.append(kit.PlayedEpisode(spec, reward, None, actions, session.verdict))
    return episodes


def test_our_own_loop_conforms(engine):
    report = kit.conform(play, engine, tokens=True)
    assert len(report) == 2 * 4 + 4 + 4, report


def test_a_surface_of_texts_conforms():
    report = kit.conform(play_texts, kit.RecordingEngine(), tokens=False)
    assert len(report) == 2 + 4 + 4, report


def spoiled(spoil):
    """The model adapter, with one thing changed in each episode."""

    def broken(specs, engine):
        return [spoil(episode, engine) for episode in play(specs, engine)]

    return broken


def mask_a_token_late(episode, engine):
    tokens = episode.tokens
    return replace(episode, tokens=TokenSequence(tokens.ids, [0, *tokens.mask[:-1]], tokens.logprobs))


def train_on_the_template(episode, engine):
    start = episode.tokens.mask.index(1)
    mask = [*episode.tokens.mask[: start - 1], 1, *episode.tokens.mask[start:]]
    return replace(episode, tokens=TokenSequence(episode.tokens.ids, mask, episode.tokens.logprobs))


def shift_logprobs(episode, engine):
    tokens = episode.tokens
    return replace(episode, tokens=TokenSequence(tokens.ids, tokens.mask, [*tokens.logprobs[1:], 0.0]))


def encode_anew(episode, engine):
    tokens = episode.tokens
    ids = engine.tokenizer.encode(engine.tokenizer.decode(tokens.ids).replace("Say", "say"))
    ids = [*ids, *tokens.ids][: len(tokens)]
    return replace(
        episode, tokens=TokenSequence(ids, tokens.mask, tokens.logprobs), actions=["nothing"] * 3, reward=0.0
    )


def add_a_shaping_reward(episode, engine):
    return replace(episode, reward=episode.reward - 0.1)


def train_on_faults(episode, engine):
    return replace(episode, tokens=TokenSequence([1, 2], [0, 1], [0.0, -1.0])) if not episode.trained else episode


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (train_on_the_template, "mask is wrong"),
        (mask_a_token_late, "mask is wrong"),
        (shift_logprobs, "log-probabilities are off"),
        (encode_anew, "encoded anew"),
        (add_a_shaping_reward, "stepped directly"),
        (train_on_faults, "trained on"),
    ],
)
def test_what_is_wrong_is_seen(engine, spoil, complaint):
    with pytest.raises(AssertionError, match=complaint):
        kit.conform(spoiled(spoil), engine, tokens=True)


def test_a_group_on_several_tasks_is_seen(engine):
    def shuffled(specs, engine):
        return play(specs[::-1], engine)[::-1][1:] + play(specs[:1], engine)

    with pytest.raises(AssertionError, match="in order"):
        kit.conform(shuffled, engine, tokens=True)
    episodes = play(kit.say_specs(2), engine.like())
    with pytest.raises(AssertionError, match="several tasks"):
        kit.check_groups(episodes, 2)


def test_an_adapter_that_swallows_errors_is_seen(engine):
    def swallows(specs, engine):
        return play(specs, engine.like(fails=False) if engine.fails else engine)

    with pytest.raises(AssertionError, match="swallowed"):
        kit.conform(swallows, engine, tokens=True)


def test_a_dropped_episode_must_have_deserved_it(engine):
    with pytest.raises(AssertionError, match="dropped"):
        kit.conform(spoiled(lambda episode, engine: replace(episode, reward=None)), engine, tokens=True)


def test_members_that_are_mixed_up_are_seen(engine):
    def swaps(specs, engine):
        """Plays in step, and hands each member's actions to the one before it."""
        sessions = [EpisodeSession(spec) for spec in specs]
        said = [session.messages[-1]["content"] for session in sessions]
        actions = [[] for _ in specs]
        while not all(session.done for session in sessions):
            told = [engine.reply(text) for text in said]
            told = told if specs[0].env_id == kit.SAY else [*told[1:], told[0]]
            for number, session in enumerate(sessions):
                if not session.done:
                    actions[number].append(told[number])
                    said[number] = (session.step(told[number]) or {}).get("content", "")
        return [
            kit.PlayedEpisode(session.spec, session.reward if session.valid else None, None, done, session.verdict)
            for session, done in zip(sessions, actions, strict=True)
        ]

    with pytest.raises(AssertionError, match="did not keep what they drew"):
        kit.conform(swaps, kit.RecordingEngine(wrong_every=5), tokens=False)


class Pooled(Task[tuple[int, int]]):
    """Adds up the letters that it is given, in a session that is found by how many actions were taken before."""

    def __init__(self) -> None:
        self.pool: dict[int, list[int]] = {}

    def start(self, rng: random.Random, level: int) -> tuple[int, int]:
        return 0, 0

    def turns(self, level: int) -> int:
        return 9

    def observe(self, state: tuple[int, int]) -> str:
        return str(state[1])

    def apply(self, state: tuple[int, int], action: str) -> Transition:
        turn, _ = state
        total = (self.pool[turn].pop() if turn else 0) + len(action)
        self.pool.setdefault(turn + 1, []).append(total)
        return Transition((turn + 1, total), Verdict(0.0, "partial"))

    def solve(self, state: tuple[int, int]) -> str:
        return "a"

    def sample_action(self, state: tuple[int, int], rng: random.Random) -> str:
        return "a" * rng.randrange(2, 9)


class Apart(Pooled):
    """The control: the session is what the state says."""

    def apply(self, state: tuple[int, int], action: str) -> Transition:
        self.pool[state[0]] = [state[1]]
        return super().apply(state, action)


def test_members_whose_sessions_are_found_by_their_history_are_seen():
    for task, holds in ((Apart(), True), (Pooled(), False)):
        first = TextEnv(task, split=None)
        envs = [first, *(first.spawn() for _ in range(3))]
        with contextlib.nullcontext() if holds else pytest.raises(AssertionError, match=r"turn \d: .*, and alone"):
            for seed in range(3):
                check_interleaved(envs, TextEnv(task, split=None), seed=seed)


def test_threads_and_processes_that_are_left_are_named():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="straggler")
    with pytest.raises(AssertionError, match="straggler"), kit.nothing_left(grace=0.0):
        thread.start()
    stop.set()
    thread.join()
    with pytest.raises(AssertionError, match=r"processes \[\d+\]"), kit.nothing_left(grace=0.0):
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process.communicate(b"\n")
    with kit.nothing_left():
        thread = threading.Thread(target=lambda: None)
        thread.start()


def test_segments():
    assert kit.segments([0, 1, 1, 0, 1]) == [(1, 3), (4, 5)]
    assert kit.segments([1]) == [(0, 1)]
    assert kit.segments([0, 0]) == kit.segments([]) == []


def test_the_kits_environment_is_no_environment_of_ours():
    assert kit.SAY not in list_envs()
