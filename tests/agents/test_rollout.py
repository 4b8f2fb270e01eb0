"""The rollout loop: order, groups, broken environments, slow ones, foreign ones."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial

import gymnasium as gym
import pytest

from rlvr.agents import ConstantAgent, ExpertAgent, RandomAgent, Reply, Rollout, RolloutRequest
from rlvr.agents.episode import Episode
from rlvr.envs import TextEnv, Verdict
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

GUESS = "rlvr/GuessNumber-v0"


def requests(count: int, **task) -> list[RolloutRequest]:
    return [RolloutRequest(seed=0, index=index, group=index, **task) for index in range(count)]


def plain(episodes: list[Episode]) -> list[dict]:
    return [episode.to_dict() for episode in episodes]


class Recording:
    """Plays as another agent does, and remembers the batches it was asked for."""

    def __init__(self, agent) -> None:
        self.agent = agent
        self.batches: list[list[str]] = []

    def act(self, conversations):
        self.batches.append([conversation.key for conversation in conversations])
        return self.agent.act(conversations)


class Foreign(gym.Env):
    """Somebody else's environment: no verdict, no identity, its own infos. Three words, then the end."""

    observation_space = Text()
    action_space = Text()

    def __init__(self, *, says_success: bool | None = None, last: float = 1.0, ends: str = "terminated") -> None:
        self.says_success, self.last, self.ends = says_success, last, ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return f"begin {self.np_random.integers(1000)}", {}

    def step(self, action):
        self.count += 1
        over = self.count == 3
        info = {} if self.says_success is None or not over else {"success": self.says_success}
        reward = self.last if over else 0.25
        return f"heard {action}", reward, over and self.ends == "terminated", over and self.ends == "truncated", info


class Trouble(TextEnv):
    """GuessNumber whose task of one index breaks in one way."""

    closed: list[int]

    def __init__(self, index: int, how: str) -> None:
        super().__init__("rlvr.envs.games.guess_number:GuessNumber")
        self.index, self.how, self.bad = index, how, False
        self.closed = []

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        self.bad = info["index"] == self.index
        if self.bad and self.how == "reset":
            raise OSError("the world did not start")
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self.bad and self.how in ("step", "close"):
            raise RuntimeError("the world broke\nin two lines")
        if self.bad and self.how in ("nan", "inf", "-inf", "1e300", "none", "text"):
            reward = {"none": None, "text": "much"}.get(self.how) if self.how in ("none", "text") else float(self.how)
        return observation, reward, terminated, truncated, info

    def close(self):
        if self.how == "close":
            raise RuntimeError("nor does it close")


# who gets what, in which order


@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("workers", [0, 4])
def test_episodes_come_in_the_order_asked_for_whatever_the_batch_and_the_threads(batch_size, workers):
    asked = [
        RolloutRequest(seed=seed, index=index, group=group)
        for group, (seed, index) in enumerate([(5, 2), (1, 0), (5, 9)] * 7)
    ]
    reference = plain(Rollout(GUESS, RandomAgent(3), batch_size=1)(asked))
    episodes = Rollout(GUESS, RandomAgent(3), batch_size=batch_size, workers=workers)(asked)
    assert plain(episodes) == reference
    assert [(episode.seed, episode.index, episode.group) for episode in episodes] == [
        (r.seed, r.index, r.group) for r in asked
    ]


def test_a_group_plays_one_task_and_its_members_differ():
    asked = [RolloutRequest(seed=1, index=i // 4, group=i // 4, sample=i % 4) for i in range(24)]
    episodes = Rollout(GUESS, RandomAgent())(asked)
    secrets = {}
    for episode in episodes:
        secrets.setdefault(episode.group, set()).add((episode.index, episode.turns[0].observation))
        assert (episode.group, episode.sample) == (episode.index, asked[episodes.index(episode)].sample)
    assert all(len(tasks) == 1 for tasks in secrets.values())
    for group in range(6):
        assert len({tuple(turn.action for turn in e.turns) for e in episodes if e.group == group}) > 1


def test_everything_ready_is_asked_in_one_batch_and_seats_are_filled_again():
    agent = Recording(ConstantAgent("\\boxed{0}"))  # never right: every episode takes its four turns
    episodes = Rollout(GUESS, agent, batch_size=4)(requests(10))
    assert [len(batch) for batch in agent.batches] == [4] * 4 + [4] * 4 + [2] * 4
    assert [len(episode.turns) for episode in episodes] == [4] * 10
    assert agent.batches[0] == [episode.key for episode in episodes[:4]]


def test_the_batches_are_the_same_on_every_run():
    """A set of futures would put them in another order each time."""
    runs = []
    for _ in range(3):
        agent = Recording(RandomAgent(1))
        Rollout(GUESS, agent, batch_size=16)(requests(40))
        runs.append(agent.batches)
    assert runs[0] == runs[1] == runs[2]


def test_episodes_stream_as_they_end_with_the_place_of_their_request():
    rollout = Rollout(GUESS, ExpertAgent(), batch_size=8)
    places = []
    for place, episode in rollout.stream(iter(requests(20))):
        assert episode.index == place
        places.append(place)
    assert sorted(places) == list(range(20))


def test_no_requests_are_no_episodes():
    assert Rollout(GUESS, ExpertAgent())([]) == []


def test_a_rollout_can_be_used_again_and_left_in_the_middle():
    rollout = Rollout(GUESS, ExpertAgent(), batch_size=4, workers=2)
    first = plain(rollout(requests(9)))
    stream = rollout.stream(requests(9))
    next(stream)
    stream.close()
    assert plain(rollout(requests(9))) == first


def test_an_episode_holds_the_whole_conversation():
    (episode,) = Rollout("rlvr/Calculator-v0", ExpertAgent())([RolloutRequest(seed=3, split="test", level=2)])
    assert [turn.role for turn in episode.turns] == ["user", "tool"]
    assert [message["role"] for message in episode.messages()] == ["system", "user", "assistant", "tool", "assistant"]
    assert episode.turns[0].action == f"<tool>{episode.turns[0].observation[8:-1]}</tool>"
    assert (episode.env_id, episode.split, episode.level, episode.index) == ("rlvr/Calculator-v0", "test", 2, 0)
    assert (episode.reward, episode.success, episode.valid, episode.terminated) == (1.0, True, True, True)
    assert episode.final_observation == "correct"
    assert episode.turns[0].verdict.status == "partial"
    assert episode.turns[-1].verdict == episode.verdict


def test_the_system_prompt_can_be_left_unsaid():
    (episode,) = Rollout("rlvr/Countdown-v0", ExpertAgent(), use_system=False)(requests(1))
    assert episode.system is None
    assert episode.messages()[0]["role"] == "user"


def test_a_full_context_ends_the_episode_without_a_step():
    class Full:
        def act(self, conversations):
            return [Reply("", "context") for _ in conversations]

    (episode,) = Rollout(GUESS, Full())(requests(1))
    assert (episode.truncated, episode.terminated, episode.hit_token_limit) == (True, False, True)
    assert (episode.verdict.status, episode.reward, episode.valid) == ("wrong", 0.0, True)


# what breaks


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("how", ["reset", "step", "close", "nan", "inf", "-inf", "1e300", "none", "text"])
def test_one_bad_environment_in_64_leaves_63_unchanged(how, workers):
    good = plain(Rollout(lambda: Trouble(-1, ""), RandomAgent(1), batch_size=64)(requests(64)))
    episodes = Rollout(lambda: Trouble(17, how), RandomAgent(1), batch_size=64, workers=workers)(requests(64))
    bad = episodes.pop(17)
    good.pop(17)
    assert plain(episodes) == good
    assert (bad.verdict.status, bad.valid, bad.success, bad.reward) == ("env_error", False, False, 0.0)
    assert bad.verdict.reason.startswith("reset: OSError: the world" if how == "reset" else "step: ")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_environment_is_closed_and_never_used_again(workers):
    made, closed = [], []

    class Breaks(Trouble):
        def __init__(self) -> None:
            super().__init__(2, "step")
            made.append(self)

        def step(self, action):
            assert self not in closed
            return super().step(action)

        def close(self):
            closed.append(self)

    episodes = Rollout(Breaks, ExpertAgent(), batch_size=1, workers=workers)(requests(6))
    assert [episode.valid for episode in episodes] == [True, True, False, True, True, True]
    assert (len(made), len(closed)) == (2, 1)


def test_an_environment_that_cannot_be_made_ends_its_own_episode_alone():
    made = []

    def make():
        made.append(None)
        if len(made) == 3:
            raise ConnectionError("no room for another world")
        return TextEnv("rlvr.envs.games.guess_number:GuessNumber")

    episodes = Rollout(make, ExpertAgent(), batch_size=5)(requests(8))
    assert [episode.valid for episode in episodes].count(False) == 1
    bad = next(episode for episode in episodes if not episode.valid)
    assert bad.verdict.reason == "reset: ConnectionError: no room for another world"
    assert bad.turns == []


def test_an_environment_that_can_never_be_made_is_an_error_at_once():
    with pytest.raises(gym.error.NameNotFound):
        Rollout("rlvr/Nothing-v0", ExpertAgent())
    with pytest.raises(TypeError, match="no setting 'levl'"):
        Rollout(GUESS, ExpertAgent(), env_settings={"levl": 2})


def test_an_agent_that_fails_ends_the_rollout_with_its_own_error():
    class Broken:
        def act(self, conversations):
            raise MemoryError("no room for the batch")

    class BrokenAnywhere(Broken):
        in_any_thread = True

    for workers in (0, 2):
        with pytest.raises(MemoryError, match="no room for the batch"):
            Rollout(GUESS, Broken(), workers=workers)(requests(4))
    with pytest.raises(MemoryError, match="no room for the batch"):
        Rollout(GUESS, BrokenAnywhere(), batch_size=1)(requests(4))


def test_an_agent_is_asked_in_the_callers_thread_unless_it_says_that_any_will_do():
    class Seen:
        def __init__(self) -> None:
            self.threads = set()

        def act(self, conversations):
            self.threads.add(threading.current_thread())
            return [Reply("\\boxed{1}") for _ in conversations]

    class SeenAnywhere(Seen):
        in_any_thread = True

    here, anywhere, many = Seen(), SeenAnywhere(), SeenAnywhere()
    episodes = plain(Rollout(GUESS, here, batch_size=1)(requests(5)))
    assert plain(Rollout(GUESS, anywhere, batch_size=1)(requests(5))) == episodes
    assert plain(Rollout(GUESS, many)(requests(5))) == episodes
    assert here.threads == many.threads == {threading.current_thread()}
    assert len(anywhere.threads) == 1
    assert not anywhere.threads & here.threads


def test_an_agent_that_answers_too_few_is_an_error():
    class Lazy:
        def act(self, conversations):
            return [Reply("1")]

    with pytest.raises(ValueError, match="zip"):
        Rollout(GUESS, Lazy())(requests(2))


@pytest.mark.parametrize(("setting", "message"), [({"batch_size": 0}, "batch_size"), ({"workers": -1}, "workers")])
def test_sizes_that_make_no_sense_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        Rollout(GUESS, ExpertAgent(), **setting)


# slow environments


class Napping(Task[int]):
    """Turn t of task i takes a while that depends on both; the answer is the word after the third turn."""

    def start(self, rng, level):
        return rng.randint(0, 5) * 10

    def turns(self, level):
        return 4

    def observe(self, state):
        return f"state {state}"

    def apply(self, state, action):
        time.sleep(0.002 * (state // 10))
        over = state % 10 == 2
        return Transition(state + 1, correct() if over else wrong(), terminated=over)


def test_slow_environments_in_threads_give_what_they_give_in_turn():
    def make():
        return TextEnv(Napping(), split=None)

    reference = plain(Rollout(make, RandomAgent(2))(requests(24)))
    agent = Recording(RandomAgent(2))
    assert plain(Rollout(make, agent, batch_size=12, workers=12)(requests(24))) == reference


def test_nobody_waits_for_the_slowest():
    """The slow environment returns only once all others have played to their end: waiting for it would be a lock."""
    others = threading.Event()

    class Slow(TextEnv):
        def step(self, action):
            if self._identity["index"] == 0:
                assert others.wait(20), "the others waited for the slowest"
            return super().step(action)

    def make():
        return Slow("rlvr.envs.games.guess_number:GuessNumber")

    ended = []
    for place, episode in Rollout(make, ExpertAgent(), batch_size=6, workers=6).stream(requests(6)):
        assert episode.valid, episode.verdict
        ended.append(place)
        if len(ended) == 5:
            others.set()
    assert ended[-1] == 0


# environments that do not answer


class Hangs(TextEnv):
    """GuessNumber that, in the task of index 3, waits in one place until it is let go."""

    def __init__(self, where: str, let_go: threading.Event, closed: list[TextEnv]) -> None:
        super().__init__("rlvr.envs.games.guess_number:GuessNumber")
        self.where, self.let_go, self.closed, self.bad = where, let_go, closed, False

    def hang(self, where: str) -> None:
        if self.bad and where == self.where and not self.let_go.wait(60):
            raise AssertionError("nobody gave up waiting for the environment")

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self.bad = result[1]["index"] == 3
        self.hang("reset")
        return result

    def step(self, action):
        self.hang("step")
        if self.bad and self.where == "close":
            raise RuntimeError("broken")
        return super().step(action)

    def close(self):
        self.closed.append(self)
        self.hang("close")


@pytest.fixture
def let_go():
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "batch_size"), [(0, 8), (3, 8), (0, 1)])
@pytest.mark.parametrize("where", ["reset", "step"])
def test_an_environment_that_hangs_ends_its_own_episode_and_not_the_run(
    where, workers, batch_size, let_go, monkeypatch
):
    monkeypatch.setattr("rlvr.agents.driver.env_calls.START_SECONDS", 3.0)
    closed = []
    good = plain(Rollout(partial(Hangs, "", let_go, closed), RandomAgent(1), batch_size=8)(requests(8)))
    make = partial(Hangs, where, let_go, closed)
    episodes = Rollout(make, RandomAgent(1), batch_size=batch_size, workers=workers, timeout=3.0)(requests(8))
    late = episodes.pop(3)
    good.pop(3)
    assert plain(episodes) == good
    assert (late.verdict.status, late.valid, late.reward) == ("timeout", False, 0.0)
    assert late.verdict.reason == f"{where}: no answer within 3 s"
    before = late.to_dict()
    let_go.set()
    wait_until(lambda: closed)  # it answered after all, and is let go of; so is the one that played it again
    assert late.to_dict() == before


def wait_until(condition) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
def test_several_environments_that_hang_at_once_leave_the_rest_to_new_threads(let_go):
    class AllHang(Hangs):
        def reset(self, *, seed=None, options=None):
            result = super().reset(seed=seed, options=options)
            self.bad = result[1]["index"] < 4
            return result

    make = partial(AllHang, "step", let_go, [])
    for workers in (0, 2):
        episodes = Rollout(make, ExpertAgent(), batch_size=10, workers=workers, timeout=1.5)(requests(10))
        assert [episode.verdict.status for episode in episodes] == ["timeout"] * 4 + ["correct"] * 6


@pytest.mark.slow
def test_making_an_environment_has_a_limit_of_its_own(let_go, monkeypatch):
    monkeypatch.setattr("rlvr.agents.driver.env_calls.START_SECONDS", 3.0)
    made = []

    def make():
        made.append(None)
        if len(made) == 2:
            let_go.wait(60)
        return TextEnv("rlvr.envs.games.guess_number:GuessNumber")

    episodes = Rollout(make, ExpertAgent(), batch_size=2, timeout=2.0)(requests(4))
    assert sorted(episode.verdict.status for episode in episodes) == ["correct"] * 3 + ["timeout"]
    assert [e.verdict.reason for e in episodes if not e.valid] == ["reset: no answer within 3 s"]


def test_an_environment_that_hangs_while_it_is_closed_does_not_hang_the_run(let_go, monkeypatch):
    monkeypatch.setattr("rlvr.agents.driver.env_calls.CLOSE_SECONDS", 0.5)
    closed = []
    episodes = Rollout(partial(Hangs, "close", let_go, closed), ExpertAgent())(requests(5))
    assert [episode.verdict.status for episode in episodes].count("env_error") == 1
    assert len(closed) == 1


def test_without_a_limit_environments_are_stepped_in_the_callers_thread():
    threads = set()

    class Seen(TextEnv):
        def step(self, action):
            threads.add(threading.current_thread())
            return super().step(action)

    def make():
        return Seen("rlvr.envs.games.guess_number:GuessNumber")

    assert plain(Rollout(make, RandomAgent(), timeout=None)(requests(6))) == plain(
        Rollout(make, RandomAgent(), timeout=60)(requests(6))
    )
    assert threading.current_thread() in threads
    assert len(threads) == 2


def test_the_threads_end_with_the_rollout():
    def ours():
        return [thread for thread in threading.enumerate() if thread.name == "rlvr-env"]

    before = ours()
    rollout = Rollout(GUESS, RandomAgent(), workers=4)
    rollout(requests(8))
    stream = rollout.stream(requests(8))
    next(stream)
    stream.close()
    wait_until(lambda: set(ours()) <= set(before))


@pytest.mark.parametrize("timeout", [0, -1.0, float("inf"), float("nan")])
def test_a_limit_that_is_none_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds"):
        Rollout(GUESS, ExpertAgent(), timeout=timeout)


def test_a_context_of_the_caller_holds_in_the_threads():
    seen = []

    class Asks(TextEnv):
        def step(self, action):
            seen.append(SETTING.get())
            return super().step(action)

    token = SETTING.set("mine")
    try:
        for workers in (0, 2):
            Rollout(lambda: Asks("rlvr.envs.games.guess_number:GuessNumber"), ExpertAgent(), workers=workers)(
                requests(2)
            )
    finally:
        SETTING.reset(token)
    assert set(seen) == {"mine"}


SETTING: ContextVar[str] = ContextVar("setting", default="nobody's")


def test_an_invalid_verdict_in_the_middle_ends_the_episode():
    class Judged(Foreign):
        def step(self, action):
            observation, reward, terminated, truncated, _ = super().step(action)
            return observation, reward, terminated, truncated, {"verdict": Verdict(0.0, "verifier_error")}

    (episode,) = Rollout(Judged, ConstantAgent("hi"))(requests(1))
    assert (len(episode.turns), episode.verdict.status, episode.truncated) == (1, "verifier_error", True)
    assert (episode.valid, episode.reward) == (False, 0.0)


@pytest.mark.parametrize("result", [None, (1, 2), ("a", 1.0, False, False, None), ("a", "b", False, False, {})])
def test_an_environment_that_returns_nonsense_ends_its_own_episode(result):
    class Nonsense(Foreign):
        def step(self, action):
            return result

    (episode,) = Rollout(Nonsense, ConstantAgent("hi"))(requests(1))
    assert (episode.verdict.status, episode.valid) == ("env_error", False)


# agents that answer each conversation as soon as they can


class Concurrent:
    """Answers each conversation in a thread; the one of index 0 only once the others have ended."""

    def __init__(self, agent, others: threading.Event) -> None:
        self.agent, self.others = agent, others
        self.pool = ThreadPoolExecutor(8)

    def act(self, conversations):
        raise AssertionError("asked for a batch")

    def submit(self, conversations):
        return [self.pool.submit(self.answer, conversation) for conversation in conversations]

    def answer(self, conversation):
        if conversation.key.split("/")[-3] == "0":
            assert self.others.wait(60), "an episode waited for another one's reply"
        return self.agent.act([conversation])[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_no_episode_waits_for_another_ones_reply(workers):
    others, ended = threading.Event(), []
    for index, episode in Rollout(GUESS, Concurrent(RandomAgent(2), others), batch_size=6, workers=workers).stream(
        requests(12)
    ):
        ended.append((index, episode))
        if len(ended) == 11:
            others.set()
    assert ended[-1][0] == 0
    expected = Rollout(GUESS, RandomAgent(2))(requests(12))
    assert plain([episode for _, episode in sorted(ended, key=lambda pair: pair[0])]) == plain(expected)


def test_a_reply_that_raises_ends_the_rollout_and_the_rest_is_not_asked_for():
    class Broken(Concurrent):
        def answer(self, conversation):
            raise MemoryError("no memory left for the batch")

    with pytest.raises(MemoryError, match="no memory left"):
        Rollout(GUESS, Broken(None, threading.Event()))(requests(4))


def test_requests_are_taken_as_there_is_place():
    taken = []

    def endless():
        for index in itertools.count():
            taken.append(index)
            yield RolloutRequest(seed=0, index=index)

    stream = Rollout(GUESS, ExpertAgent(), batch_size=4).stream(endless())
    for _ in range(3):
        next(stream)
    stream.close()
    assert len(taken) < 12


# other people's environments


@pytest.mark.parametrize(
    ("settings", "success"),
    [
        ({}, True),
        ({"last": 0.0}, False),
        ({"last": -1.0}, False),
        ({"says_success": False}, False),
        ({"last": 0.0, "says_success": True}, True),
    ],
)
@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_an_environment_without_verdicts_is_played_and_judged_by_its_reward(settings, success, ends):
    episodes = Rollout(lambda: Foreign(**settings, ends=ends), ConstantAgent("hi"), batch_size=2)(requests(3))
    for episode in episodes:
        assert episode.env_id == "Foreign"
        assert [turn.observation for turn in episode.turns][1:] == ["heard hi"] * 2
        assert episode.turns[0].observation.startswith("begin")
        assert episode.reward == 0.5 + settings.get("last", 1.0)
        assert (episode.valid, episode.success) == (True, success)
        assert (episode.terminated, episode.truncated) == (ends == "terminated", ends == "truncated")
        assert isinstance(episode.verdict, Verdict)
        assert all(turn.verdict is None for turn in episode.turns[:-1])
    assert episodes[0].turns[0].observation == episodes[1].turns[0].observation  # the same seed


def test_a_registered_foreign_environment_with_gymnasiums_own_time_limit_is_played_by_its_id():
    gym.register("test/Foreign-v0", Foreign, max_episode_steps=2)
    try:
        (episode,) = Rollout("test/Foreign-v0", ConstantAgent("hi"), env_settings={"last": 0.5})(requests(1))
        assert (len(episode.turns), episode.truncated, episode.env_id) == (2, True, "test/Foreign-v0")
    finally:
        del gym.registry["test/Foreign-v0"]


def test_a_wrapped_environment_is_refused_as_an_object_and_taken_as_a_function():
    class Louder(gym.ObservationWrapper):
        def observation(self, observation):
            return observation.upper()

    wrapped = Louder(gym.make("rlvr/Countdown-v0"))
    for env in (wrapped, gym.wrappers.OrderEnforcing(wrapped)):  # wrappers below the outermost count too
        with pytest.raises(TypeError, match="as a function that makes one"):
            Rollout(env, ExpertAgent())
    (episode,) = Rollout(lambda: Louder(gym.make("rlvr/Countdown-v0")), ExpertAgent())(requests(1))
    assert episode.turns[0].observation.startswith("NUMBERS")
    assert episode.success


def test_an_environment_is_copied_with_its_settings_and_left_alone_itself():
    env = gym.make(GUESS, level=3, max_turns=2)
    env.reset(seed=1)
    before = repr(env.unwrapped.get_state())
    episodes = Rollout(env, ConstantAgent("no"))(requests(3))
    assert [(episode.level, len(episode.turns)) for episode in episodes] == [(3, 2)] * 3
    assert repr(env.unwrapped.get_state()) == before


def test_an_environment_that_cannot_be_copied_is_refused():
    with pytest.raises(TypeError, match="cannot be copied: give its id, or a function"):
        Rollout(Foreign(), ConstantAgent())
    with pytest.raises(ValueError, match="env_settings are for an environment given by its id"):
        Rollout(gym.make(GUESS), ConstantAgent(), env_settings={"level": 2})


def test_the_rows_of_a_table_are_read_once():
    rollout = Rollout("rlvr/GSM8K-v0", ExpertAgent(), batch_size=4)
    tasks = {id(env.unwrapped.task) for env in [rollout.env, *(rollout._make() for _ in range(3))]}
    assert len(tasks) == 1
    assert all(episode.success for episode in rollout(requests(8)))


def test_random_state_of_the_process_is_left_alone():
    random.seed(4)
    before = random.getstate()
    Rollout(GUESS, RandomAgent())(requests(4))
    assert random.getstate() == before
