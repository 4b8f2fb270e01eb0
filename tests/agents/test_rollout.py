"""The rollout loop: order, groups, broken environments, slow ones, foreign ones."""

from __future__ import annotations

import random
import threading
import time

import gymnasium as gym
import pytest

from rlvr.agents import ConstantAgent, ExpertAgent, RandomAgent, Reply, Request, Rollout
from rlvr.agents.episode import Episode
from rlvr.envs import TextEnv, Verdict
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

GUESS = "rlvr/GuessNumber-v0"


def requests(count: int, **task) -> list[Request]:
    return [Request(seed=0, index=index, group=index, **task) for index in range(count)]


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
        if self.bad and self.how in ("nan", "inf", "-inf", "none", "text"):
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
        Request(seed=seed, index=index, group=group) for group, (seed, index) in enumerate([(5, 2), (1, 0), (5, 9)] * 7)
    ]
    reference = plain(Rollout(GUESS, RandomAgent(3), batch_size=1)(asked))
    episodes = Rollout(GUESS, RandomAgent(3), batch_size=batch_size, workers=workers)(asked)
    assert plain(episodes) == reference
    assert [(episode.seed, episode.index, episode.group) for episode in episodes] == [
        (r.seed, r.index, r.group) for r in asked
    ]


def test_a_group_plays_one_task_and_its_members_differ():
    asked = [Request(seed=1, index=i // 4, group=i // 4, sample=i % 4) for i in range(24)]
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
    (episode,) = Rollout("rlvr/Calculator-v0", ExpertAgent())([Request(seed=3, split="test", level=2)])
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
@pytest.mark.parametrize("how", ["reset", "step", "close", "nan", "inf", "-inf", "none", "text"])
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

    for workers in (0, 2):
        with pytest.raises(MemoryError, match="no room for the batch"):
            Rollout(GUESS, Broken(), workers=workers)(requests(4))


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
