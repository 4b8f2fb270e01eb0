"""Wrappers: each does what it says, and any chain of them is restored, forked, seeded and asked as if it were none."""

from __future__ import annotations

import itertools
import json
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import rlvr
from rlvr.agents import ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.episode import Episode
from rlvr.envs import TextEnv, Verdict
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.curriculum import LevelController
from rlvr.envs.rewards.rubric import Grade, Score
from rlvr.envs.wrappers import (
    LAYOUTS,
    ActionRepair,
    ConfidenceReward,
    DifficultySchedule,
    EpisodeRecorder,
    EpisodeStatistics,
    History,
    Layout,
    LengthLimit,
    OwnVerdict,
    PotentialShaping,
    PromptFormat,
    RandomPromptFormat,
    RubricReward,
    Scratchpad,
    SpuriousReward,
    SummaryHistory,
    SystemPrompt,
    TurnLimit,
    read_records,
    replay_record,
)
from rlvr.envs.wrappers.confidence import split_confidence
from rlvr.envs.wrappers.history import quoted, without_notes
from rlvr.envs.wrappers.repair import one_slip, plain_characters

GUESS, CALCULATOR = "rlvr/GuessNumber-v0", "rlvr/Calculator-v0"


def joined(summary: str, action: str, observation: str) -> str:
    return f"{summary}{action[-4:]}:{observation};"


def spread(state: Any) -> float:
    """A potential for GuessNumber: the fewer numbers are left, the better."""
    return -float(state.high - state.low)


def moves(state: Any) -> list[str]:
    return ["north", "south", "east", "west"]


# Each takes an environment; none changes which answer is right.
CHAIN = {
    "turns": lambda env: TurnLimit(env, turns=3),
    "length": lambda env: LengthLimit(env, reply=500, episode=2_000),
    "history": lambda env: History(env),
    "window": lambda env: History(env, turns=1),
    "scratchpad": lambda env: Scratchpad(env, turns=1),
    "summary": lambda env: SummaryHistory(env, joined),
    "system": lambda env: SystemPrompt(env, "Be brief.", where="before"),
    "format": lambda env: PromptFormat(env, "headings"),
    "random format": lambda env: RandomPromptFormat(env),
    "rubric": lambda env: RubricReward(env, 0.9 * OwnVerdict() + 0.1 * Grade("format", tags=("think",))),
    "spurious": lambda env: SpuriousReward(env, "random", seed=3),
    "shaping": lambda env: PotentialShaping(env, spread),
    "confidence": lambda env: ConfidenceReward(env),
    "repair": lambda env: ActionRepair(env),
    "statistics": lambda env: EpisodeStatistics(env),
    "schedule": lambda env: DifficultySchedule(env, [(0, 1), (2, 2), (3, 3)]),
    "controller": lambda env: DifficultySchedule(env, LevelController(4, seed=1)),
}
ACTIONS = ["nonsense", "\\boxed{50}", "<notes>over 50</notes>\\boxed{75}", "\\boxed{12}", "<notes>x", "７"]


def chained(names: list[str], env_id: str = GUESS, **options: Any) -> gym.Env[str, str]:
    env = gym.make(env_id, **options)
    for name in names:
        env = CHAIN[name](env)
    return env


def played(env: gym.Env[str, str], actions: list[str]) -> list[str]:
    """What each step returns, resets where an episode ends included."""
    seen = []
    for action in actions:
        step = env.step(action)
        seen.append(repr(step))
        if step[2] or step[3]:
            seen.append(repr(env.reset()))
    return seen


# a chain of any wrappers, in any order


@settings(max_examples=60)
@given(
    names=st.lists(st.sampled_from(sorted(CHAIN)), max_size=5, unique=True),
    before=st.lists(st.sampled_from(ACTIONS), max_size=6),
    after=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=6),
    seed=st.integers(0, 99),
    way=st.sampled_from(["fork", "state", "pickled state", "pickle"]),
)
def test_any_chain_is_restored_in_mid_episode(names, before, after, seed, way):
    env = chained(names, level=2, render_mode="ansi")
    env.reset(seed=seed)
    played(env, before)
    if way == "fork":
        twin = env.unwrapped.fork() if not names else env.fork()
    elif way == "pickle":
        twin = pickle.loads(pickle.dumps(env))
    else:
        twin = chained(names, level=2, render_mode="ansi")
        state = (env if names else env.unwrapped).get_state()
        (twin if names else twin.unwrapped).set_state(pickle.loads(pickle.dumps(state)) if "p" in way else state)
    if not names:  # what gym.make puts around it has an order of calls of its own
        env, twin = env.unwrapped, twin.unwrapped
    ahead = played(env, after)
    assert played(twin, after) == ahead
    assert twin.render() == env.render()


@settings(max_examples=40)
@given(
    names=st.lists(st.sampled_from(sorted(CHAIN)), min_size=1, max_size=5, unique=True),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=4),
)
def test_going_back_to_a_state_undoes_everything_and_a_fork_goes_its_own_way(names, actions):
    env = chained(names)
    env.reset(seed=5)
    state = env.get_state()
    before = pickle.dumps(state)
    ahead = played(env, actions)
    env.set_state(state)
    twin = env.fork()
    played(twin, ["something else", *actions])
    twin.reset(seed=99)
    assert pickle.dumps(env.get_state()) == before
    assert played(env, actions) == ahead


@settings(max_examples=40)
@given(
    names=st.lists(
        st.sampled_from(sorted(set(CHAIN) - {"schedule", "controller", "confidence"})), max_size=5, unique=True
    ),
    seed=st.integers(0, 2**32),
    index=st.integers(0, 50),
    level=st.integers(1, 4),
)
def test_seeds_and_options_come_through(names, seed, index, level):
    """The same seed and options are the same task below, and the same words above."""
    options = {"index": index, "level": level}
    env, other, bare = chained(names), chained(names), gym.make(GUESS).unwrapped
    other.reset(seed=7)
    assert env.reset(seed=seed, options=options) == other.reset(seed=seed, options=options)
    bare.reset(seed=seed, options=options)
    assert env.unwrapped.content == bare.content
    assert env.unwrapped.np_random_seed == bare.np_random_seed
    if names:
        assert (env.content, env.solve(), env.direct_answer(), env.size) == (
            bare.content,
            bare.solve(),
            bare.direct_answer(),
            None,
        )
        assert env.sample_action(random.Random(0)) == bare.sample_action(random.Random(0))


PAYS_THE_SAME = sorted(set(CHAIN) - {"turns", "rubric", "spurious", "shaping", "confidence"})


@settings(max_examples=30)
@given(names=st.lists(st.sampled_from(PAYS_THE_SAME), min_size=1, max_size=6, unique=True), seed=st.integers(0, 99))
def test_the_expert_still_scores_one_and_nonsense_nothing(names, seed):
    env = chained(names, CALCULATOR)
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.solve())
        total, over = total + reward, terminated or truncated
    assert (total, info["success"]) == (1.0, True)
    env.reset()
    assert env.step("I do not know")[1:3] == (0.0, True)


@pytest.mark.parametrize("name", CHAIN)
def test_each_passes_gymnasiums_checker_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = CHAIN[name](gym.make(GUESS))
        if name in ("schedule", "controller"):  # the checker resets one seed often, and the level is to change
            env = DifficultySchedule(gym.make(GUESS), [(0, 2)])
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")  # as it should be
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_wrappers_stand_in_vectors(mode):
    single = History(gym.make(GUESS))
    vector = gym.make_vec(GUESS, num_envs=2, vectorization_mode=mode, wrappers=[History])
    try:
        observations, _ = vector.reset(seed=[4, 5])
        assert list(observations) == [single.reset(seed=seed)[0] for seed in (4, 5)]
        observations, *_ = vector.step(("1", "2"))
        single.reset(seed=5)
        assert observations[1] == single.step("2")[0]
    finally:
        vector.close()


def test_a_chain_is_made_again_from_its_spec():
    env = TurnLimit(RandomPromptFormat(SystemPrompt(gym.make(GUESS, level=2), None), seed=4), turns=2)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=8) == env.reset(seed=8)
    assert isinstance(again, TurnLimit)


EVERY_RULE = ("characters", "tag", "code", "box", "first_line", "last_line", "nearest")


@pytest.mark.parametrize("name", [*CHAIN, "every repair"])
@pytest.mark.timeout(20)  # nothing here takes a second; a quadratic scan of 100 kB takes minutes
def test_hostile_text_never_raises_in_any_wrapper(name):
    make = CHAIN.get(name, lambda env: ActionRepair(env, EVERY_RULE, legal=moves))
    env = make(gym.make(GUESS))
    for text in (
        "",
        "\x00" * 50,
        "\ud800\udfff",
        "<notes>" * 15_000,
        "```\n" * 25_000,
        "\\boxed{" * 15_000,
        "\r" * 9_999,
    ):
        env.reset(seed=1)
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(text)
            over = terminated or truncated
            assert observation in env.observation_space
            assert reward == 0.0 or name in ("spurious", "shaping", "confidence")  # which pay for something else


def test_foreign_environments_can_be_wrapped_and_not_restored():
    class Echo(gym.Env):
        observation_space = action_space = gym.spaces.Text(100)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return "hello", {}

        def step(self, action):
            return action, 1.0, action == "end", False, {}

    env = EpisodeStatistics(RandomPromptFormat(LengthLimit(TurnLimit(Echo(), turns=2), reply=10)))
    env.reset(seed=0)
    assert env.step("a")[:4] == ("a", 1.0, False, False)
    observation, reward, terminated, truncated, info = env.step("b")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert observation == info["verdict"].reason == "no final answer within 2 turns"
    for ask in (env.get_state, env.fork, env.solve):
        with pytest.raises(TypeError, match=r"Echo has no .*\(\): only environments of rlvr"):
            ask()


def test_wrappers_of_gymnasiums_own_in_between_are_named_when_they_cannot_be_restored():
    env = TurnLimit(gym.wrappers.TimeLimit(gym.make(GUESS), 3), turns=2)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="TimeLimit has no get_state"):
        env.get_state()
    with pytest.raises(TypeError, match="takes a WrapperState, got int"):
        TurnLimit(gym.make(GUESS), turns=2).set_state(3)


def wrapped() -> Scratchpad:
    return Scratchpad(TurnLimit(gym.make(CALCULATOR), turns=3))


@pytest.mark.parametrize("source", [wrapped, wrapped()], ids=["function", "environment"])
def test_rollouts_play_wrapped_environments(source):
    for episode in Rollout(source, ExpertAgent())([RolloutRequest(seed=3, index=index) for index in range(5)]):
        assert episode.success
        assert "<notes>" in episode.system


def test_an_id_of_ones_own_brings_its_wrappers():
    spec = gym.spec(GUESS)
    layers = (SystemPrompt.wrapper_spec(text="Be brief."), History.wrapper_spec(turns=1))
    gym.register("rlvr-test/Short-v0", spec.entry_point, kwargs=spec.kwargs, additional_wrappers=layers)
    try:
        env = gym.make("rlvr-test/Short-v0", level=2)
        first, info = env.reset(seed=0)
        assert info["system"] == "Be brief."
        assert env.step("1")[0] == f"{first}\n\n> 1\n\nhigher"
        assert env.fork().get_state() == env.get_state()
        (episode,) = Rollout("rlvr-test/Short-v0", ExpertAgent())([RolloutRequest(seed=3)])
        assert (episode.system, episode.success) == ("Be brief.", True)
    finally:
        gym.registry.pop("rlvr-test/Short-v0")


# limits


def test_turns_that_are_used_up_truncate_with_the_tasks_own_verdict():
    env = TurnLimit(gym.make(GUESS), turns=2)
    _, info = env.reset(seed=0)
    assert env.step("\\boxed{0}")[2:4] == (False, False)
    observation, reward, terminated, truncated, info = env.step("\\boxed{0}")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert observation == info["verdict"].reason
    assert info["verdict"].reason.startswith("not found in 2 turns: it was ")
    with pytest.raises(ResetNeeded):
        env.step("again")
    with pytest.raises(ResetNeeded):
        TurnLimit(gym.make(GUESS), turns=2).step("too soon")


def test_a_turn_limit_does_not_touch_an_episode_that_ends_in_time():
    env = TurnLimit(gym.make(CALCULATOR), turns=2)
    env.reset(seed=0)
    env.step(env.solve())
    _, reward, terminated, truncated, _ = env.step(env.solve())
    assert (reward, terminated, truncated) == (1.0, True, False)


class Faulty(Task[int]):
    """Its tool fails in the second turn."""

    def start(self, rng: random.Random, level: int) -> int:
        return rng.getrandbits(40)

    def turns(self, level: int) -> int:
        return 9

    def observe(self, state: int) -> str:
        return str(state)

    def apply(self, state: int, action: str) -> Transition:
        return Transition(state, Verdict(0.0, "timeout", reason="the tool took too long"), action == "end")


def test_faults_of_ours_stay_faults_of_ours():
    for wrap in (
        lambda env: TurnLimit(env, turns=1),
        lambda env: SpuriousReward(env, "random", probability=1.0),
        lambda env: RubricReward(env, Score("always", lambda sample: 1.0)),
        lambda env: PotentialShaping(TurnLimit(env, turns=1), float),
        lambda env: ConfidenceReward(env),
    ):
        env = wrap(TextEnv(Faulty()))
        env.reset(seed=0)
        _, reward, _, _, info = env.step("end" if not isinstance(env, TurnLimit) else "go on")
        assert (reward, info["verdict"].status) == (0.0, "timeout")


def words(text: str) -> int:
    return len(text.split())


def test_long_replies_are_truncated_with_length_and_limit_and_not_seen_below():
    env = LengthLimit(gym.make(GUESS), reply=5, episode=8, count=words, unit="tokens")
    _, start = env.reset(seed=0)
    assert env.step("it is \\boxed{50}")[3] is False
    below = env.unwrapped.get_state()
    observation, reward, terminated, truncated, info = env.step("a b c d e f")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert observation == info["verdict"].reason == "the reply has 6 tokens, allowed are 5"
    assert {name: info[name] for name in start if name != "system"} == {
        name: value for name, value in start.items() if name != "system"
    } | {"turn": 2}
    assert env.unwrapped.get_state() == below
    with pytest.raises(ResetNeeded):
        env.step("again")
    env.reset()
    env.step("a b c d")
    env.step("a b")
    assert env.step("a b c")[4]["verdict"].reason == "the replies have 9 tokens together, allowed are 8"


@pytest.mark.parametrize("count", [lambda text: -1, lambda text: 0.5, lambda text: None])
def test_a_count_that_is_no_count_is_an_error(count):
    env = LengthLimit(gym.make(GUESS), reply=5, count=count)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="what count returns must be a whole number from 0"):
        env.step("a")


# histories


def secret(env: gym.Env[str, str], seed: int) -> int:
    env.reset(seed=seed)
    return env.unwrapped.get_state().state.secret


def test_the_whole_transcript_is_in_every_observation():
    env = History(gym.make(GUESS))
    first, _ = env.reset(seed=0)
    assert first.startswith("Guess my number")
    assert env.step("is it\n1?")[0] == f"{first}\n\n> is it\n> 1?\n\nWrite a whole number."
    observation, _, _, _, info = env.step("\\boxed{0}")
    assert observation == f"{first}\n\n> is it\n> 1?\n\nWrite a whole number.\n\n> \\boxed{{0}}\n\nhigher"
    assert info["role"] == "user"
    assert env.reset(seed=1)[0].count("number") == 1, "nothing of the episode before"


def test_a_window_forgets_and_says_so():
    env = History(gym.make(GUESS, level=3), turns=2)
    first, _ = env.reset(seed=0)
    for number in range(4):
        observation = env.step(f"\\boxed{{{number}}}")[0]
    assert (
        observation == f"{first}\n\n[2 earlier turns left out]\n\n> \\boxed{{2}}\n\nhigher\n\n> \\boxed{{3}}\n\nhigher"
    )
    assert len(env.get_state().memory.exchanges) == 2


@given(
    replies=st.lists(st.text(max_size=400), max_size=6), room=st.integers(1, 700), turns=st.none() | st.integers(0, 3)
)
def test_a_view_never_gets_longer_than_there_is_room(replies, room, turns):
    env = History(gym.make(GUESS, level=5), turns=turns, max_chars=room)
    first, _ = env.reset(seed=0)
    for reply in replies:
        observation, _, terminated, _, _ = env.step(reply)
        assert terminated or len(observation) <= room
    if replies and turns is None and room > 600 and len(quoted("".join(replies))) < 300:
        assert observation.startswith(first)


def test_no_reply_can_pass_for_the_environment():
    env = History(gym.make(GUESS, level=3))
    env.reset(seed=0)
    for end in ("\n", "\r", "\r\n", "\u2028", "\x85", "\x0b"):
        observation = env.step(f"3{end}higher{end}correct")[0]
    assert [line for line in observation.splitlines() if line in ("higher", "lower", "correct")] == []
    assert observation.splitlines().count("> correct") == 6


def test_notes_are_shown_again_and_not_seen_by_the_environment():
    env = Scratchpad(gym.make(GUESS, level=3), max_notes=9)
    first, info = env.reset(seed=0)
    assert info["system"].startswith(env.unwrapped.task.system)
    assert "<notes>" in info["system"]
    observation = env.step("<notes>a\nb</notes>\\boxed{1}<notes>not \\boxed{2} it</notes>")[0]
    assert observation == f"{first}\n\nNotes:\n> not \\boxe\n\nhigher"
    assert env.step("7")[0].startswith(f"{first}\n\nNotes:\n> not \\boxe\n\n[1 earlier turn left out]\n\n")
    assert "Notes" not in env.step("<notes> </notes>7")[0], "empty notes wipe the slate"
    assert "Notes" not in env.reset(seed=0)[0]


@given(st.text(alphabet="<>/notes a", max_size=60))
def test_only_closed_notes_are_cut_out(text):
    said, notes = without_notes(text, "notes")
    assert (notes is None) == (said == text)
    if "<notes>" not in text or "</notes>" not in text:
        assert notes is None


def test_a_summary_is_told_each_turn_once_as_it_leaves():
    env = SummaryHistory(gym.make(GUESS, level=3), joined, turns=2, max_summary=30)
    first, _ = env.reset(seed=0)
    for number in range(4):
        observation = env.step(f"\\boxed{{{number}}}")[0]
    assert observation.startswith(
        f"{first}\n\nSummary:\n> d{{0}}:higher;d{{1}}:higher;\n\n[2 earlier turns left out]\n\n"
    )
    with pytest.raises(TypeError, match="summarise must return a text, got int"):
        rlvr.replay(SummaryHistory(gym.make(GUESS, level=3), lambda *told: 3), 0, ["1", "2"])


# prompts


def test_system_prompts_are_replaced_joined_and_taken_away():
    own = gym.make(GUESS).unwrapped.task.system

    def said(*args: Any, **options: Any) -> Any:
        return SystemPrompt(gym.make(GUESS), *args, **options).reset(seed=0)[1].get("system")

    assert said("Hello.") == "Hello."
    assert said(None) is None
    assert said("Hello.", where="before") == f"Hello.\n\n{own}"
    assert said("Hello.", where="after") == f"{own}\n\nHello."


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_holds_the_tasks_own_words(name):
    bare = gym.make(GUESS).unwrapped
    for env, system in ((gym.make(GUESS), bare.task.system), (SystemPrompt(gym.make(GUESS), None), None)):
        task, _ = bare.reset(seed=0)
        observation, info = PromptFormat(env, name).reset(seed=0)
        assert task in observation
        whole = info.get("system", "") + observation
        assert system is None or system in whole
        assert "{" not in observation.replace("\\boxed{}", "")
        assert system is not None or "nstruction" not in whole


def test_a_layout_of_ones_own_is_filled_in_one_pass():
    class Braces(Task[str]):
        system = "Say {task}, {0} and {x!r}."

        def start(self, rng: random.Random, level: int) -> str:
            return "{system} {task} {y}"

        def observe(self, state: str) -> str:
            return state

    env = PromptFormat(TextEnv(Braces(), split=None), Layout("", "{system}\n\n>>> {task}"))
    observation, info = env.reset(seed=0)
    assert observation == "Say {task}, {0} and {x!r}.\n\n>>> {system} {task} {y}"
    assert "system" not in info


def test_random_layouts_are_drawn_from_the_tasks_identity():
    env, other = RandomPromptFormat(gym.make(GUESS)), RandomPromptFormat(gym.make(GUESS))
    seen = [env.reset(seed=seed)[1]["layout"] for seed in range(200)]
    assert set(seen) == set(LAYOUTS)
    assert max(map(seen.count, seen)) < 50
    assert [other.reset(seed=seed)[1]["layout"] for seed in reversed(range(200))] == seen[::-1]
    env.reset(seed=3)
    _, later = env.reset()  # index 1
    assert other.reset(seed=3, options={"index": 1})[1]["layout"] == later["layout"]
    few = RandomPromptFormat(gym.make(GUESS), layouts=["tags", "user"], seed=9)
    assert {few.reset(seed=seed)[1]["layout"] for seed in range(30)} == {"tags", "user"}


# rewards


def test_a_rubric_pays_at_the_end_and_the_status_stays_the_environments():
    rubric = 0.5 * OwnVerdict() + 0.5 * Score("thinks", lambda sample: float("<think>" in sample.completion))
    env = RubricReward(gym.make(CALCULATOR), rubric)
    env.reset(seed=0)
    assert env.step("<think>call</think>" + env.solve())[1] == 0.0, "form is not paid for in every turn"
    _, reward, _, _, info = env.step("<think>I know</think>\\boxed{0.5}")
    assert (reward, info["verdict"].reward, info["verdict"].status, info["success"]) == (0.5, 0.5, "wrong", False)
    assert {"environment", "thinks", "true_reward"} <= set(info["verdict"].parts)
    every = RubricReward(gym.make(CALCULATOR), rubric, every_turn=True)
    every.reset(seed=0)
    assert every.step("<think>call</think>" + every.solve())[1] == 0.5


def test_a_rubric_that_fails_is_a_fault_of_ours():
    env = RubricReward(gym.make(CALCULATOR), OwnVerdict() + Score("bad", lambda sample: 1 / 0))
    env.reset(seed=0)
    _, reward, _, _, info = env.step("\\boxed{1}")
    assert (reward, info["verdict"].status, info["success"]) == (0.0, "verifier_error", False)


def test_a_rubric_sees_the_observation_that_was_answered():
    seen = []
    env = RubricReward(gym.make(GUESS), Score("look", lambda sample: seen.append(sample) or 0.0), every_turn=True)
    first, _ = env.reset(seed=0)
    env.step("0"), env.step("1")
    assert [(s.prompt, s.completion) for s in seen] == [(first, "0"), ("higher", "1")]
    assert seen[0].info["turn"] == 1


@given(st.integers(0, 200), st.floats(0, 1))
def test_random_rewards_know_nothing_of_the_answer_and_keep_its_status(seed, probability):
    env = SpuriousReward(gym.make("rlvr/Countdown-v0"), "random", probability=probability, seed=seed)
    env.reset(seed=seed)
    gold = env.solve()
    _, reward, _, _, info = env.step(gold)
    assert reward in (0.0, 1.0)
    assert (info["verdict"].status, info["success"]) == ("correct", True)
    env.reset(seed=seed)
    assert env.step(gold)[1] == reward


def test_spurious_rewards_pay_for_what_they_say():
    paid = {}
    for kind, reply in itertools.product(("incorrect", "marker"), ("right", "wrong", "none")):
        env = SpuriousReward(gym.make("rlvr/Countdown-v0"), kind)
        env.reset(seed=0)
        paid[kind, reply] = env.step({"right": env.solve(), "wrong": "\\boxed{1+1}", "none": "hm"}[reply])[1]
    assert [paid["incorrect", reply] for reply in ("right", "wrong", "none")] == [0.0, 1.0, 0.0]
    assert [paid["marker", reply] for reply in ("right", "wrong", "none")] == [1.0, 1.0, 0.0]


@given(st.lists(st.integers(0, 120), min_size=1, max_size=8), st.integers(0, 50), st.booleans())
def test_shaping_adds_the_same_to_every_way_through_an_episode(guesses, seed, limited):
    """The sum is minus the first potential, whatever was done: no policy gains on another by it."""
    bare, env = gym.make(GUESS).unwrapped, gym.make(GUESS)
    env = PotentialShaping(TurnLimit(env, turns=2) if limited else env, spread)
    bare.reset(seed=seed)
    env.reset(seed=seed)
    first = spread(env.unwrapped.get_state().state)
    total = own = 0.0
    over = False
    for guess in itertools.cycle(guesses):
        _, reward, terminated, truncated, info = env.step(str(guess))
        total, own = total + reward, own + float(info["success"] if terminated or truncated else 0)
        assert info["verdict"].reward == reward
        over = terminated or truncated
        if over:
            break
    assert total == pytest.approx(own - first)


# how sure


@pytest.mark.parametrize(
    ("text", "reply", "stated"),
    [
        ("\\boxed{3}\nConfidence: 0.7", "\\boxed{3}", 0.7),
        ("\\boxed{3}\n\n**Confidence:** 70%\n", "\\boxed{3}", 0.7),
        ("confidence = 1.0.", "", 1.0),
        ("a\r\nConfidence: .25", "a", 0.25),
        ("Confidence: 0.2\n\\boxed{3}", "Confidence: 0.2\n\\boxed{3}", None),  # not the last line
        ("My confidence: 0.2", "My confidence: 0.2", None),  # not a line of its own
        ("x\nConfidence: high", "x\nConfidence: high", None),
        ("x\nConfidence: -0.5", "x\nConfidence: -0.5", None),
        ("x\nConfidence: 7", "x", None),
        ("x\nConfidence: 0.5 or 0.6", "x\nConfidence: 0.5 or 0.6", None),
        ("x\nConfidence: nan", "x\nConfidence: nan", None),
        ("", "", None),
    ],
)
def test_a_confidence_is_the_last_line_and_a_number_from_0_to_1(text, reply, stated):
    assert split_confidence(text) == (reply, stated)


@given(st.integers(1, 99), st.integers(0, 100))
def test_the_mean_reward_is_highest_for_the_true_probability(chance, stated):
    env = ConfidenceReward(gym.make("rlvr/Countdown-v0"))

    def mean(percent: int | None) -> float:
        paid = []
        for right in (True, False):
            env.reset(seed=1)
            answer = split_confidence(env.solve())[0] if right else "\\boxed{1}"
            said = "" if percent is None else f"\nConfidence: {percent}%"
            _, reward, _, _, info = env.step(answer + said)
            assert info["verdict"].success is right
            assert info["verdict"].reward == reward == right + info["verdict"].parts["calibration"]
            paid.append(reward)
        return (chance * paid[0] + (100 - chance) * paid[1]) / 100

    assert mean(chance) >= mean(stated) >= mean(None)
    assert mean(chance) == pytest.approx((chance / 100) ** 2)


def test_each_turn_leaves_its_line_out_and_the_last_one_counts():
    env = ConfidenceReward(gym.make(GUESS, level=1))
    _, info = env.reset(seed=0)
    assert info["system"].endswith("Confidence: 0.7")
    paid = []
    for _ in range(50):
        _, reward, terminated, truncated, info = env.step(f"\\boxed{{100}}\nConfidence: {0.1 * (len(paid) % 2)}")
        paid.append(reward)
        if terminated or truncated:
            break
        assert "calibration" not in info["verdict"].parts
    assert info["verdict"].parts["calibration"] == paid[-1] == pytest.approx(-((0.1 * ((len(paid) - 1) % 2)) ** 2))


def test_a_potential_that_is_not_finite_is_an_error():
    env = PotentialShaping(gym.make(GUESS), lambda state: float("nan"))
    with pytest.raises(ValueError, match="the potential is not finite"):
        env.reset(seed=0)


# repair


class Compass(Task[str]):
    """Takes one bare word, and nothing else."""

    def start(self, rng: random.Random, level: int) -> str:
        return rng.choice(moves(None)) + f" {rng.getrandbits(30)}"

    def observe(self, state: str) -> str:
        return f"Go {state}"

    def apply(self, state: str, action: str) -> Transition:
        good = action == state.split()[0]
        return Transition(state, Verdict(float(good), "correct" if good else "wrong"), terminated=True)

    def solve(self, state: str) -> str:
        return state.split()[0]


def repaired(action: str, *rules: str) -> tuple[float, Any]:
    """Reward in the first task of Compass whose answer is north, and the rules that changed the reply."""
    env = ActionRepair(TextEnv(Compass(), split=None), rules, legal=moves)
    seed = next(seed for seed in range(99) if env.reset(seed=seed)[0].startswith("Go north"))
    env.reset(seed=seed)
    _, reward, _, _, info = env.step(action)
    return reward, info.get("repaired")


@pytest.mark.parametrize(
    ("action", "rules", "expected"),
    [
        ("north", (), (1.0, None)),
        ("I go \\boxed{north}", (), (0.0, None)),
        ("I go \\boxed{north}", ("box",), (1.0, ("box",))),
        ("\\boxed{north} or \\boxed{south}", ("box",), (0.0, ("box",))),
        ("<action>south</action> <action>north</action>", ("tag",), (1.0, ("tag",))),
        ("<answer>north</answer>", ("tag", "box"), (1.0, ("tag",))),
        ("```\nsouth\n```\nbetter:\n```text\nnorth\n```", ("code",), (1.0, ("code",))),
        ("```\nnorth\n```\n```\nsouth\n```", ("code",), (0.0, ("code",))),
        ("```\nnorth", ("code",), (0.0, None)),
        ("\n north \nbecause", ("first_line",), (1.0, ("first_line",))),
        ("because\nnorth\n\n", ("last_line",), (1.0, ("last_line",))),
        ("ｎｏｒｔｈ", ("characters",), (1.0, ("characters",))),
        ("n\u200borth\ufeff", ("characters",), (1.0, ("characters",))),
        ("nоrth", ("characters",), (0.0, None)),  # a Cyrillic о is another letter
        ("NORTH.", ("nearest",), (1.0, ("nearest",))),
        ("norht", ("nearest",), (1.0, ("nearest",))),
        ("nort", ("nearest",), (1.0, ("nearest",))),
        ("nort", (), (0.0, None)),
        ("outh", ("nearest",), (0.0, ("nearest",))),  # south
        ("nouth", ("nearest",), (0.0, None)),  # one slip from south, and one from north
        ("noth", ("nearest",), (1.0, ("nearest",))),
        ("n", ("nearest",), (0.0, None)),
        ("north south", ("nearest",), (0.0, None)),
        ("go anywhere but south", ("nearest",), (0.0, None)),
        ("<think>north</think>south", ("first_line", "nearest"), (0.0, ("first_line",))),
    ],
)
def test_repairs_read_form_alone(action, rules, expected):
    assert repaired(action, *rules) == expected


@pytest.mark.parametrize("pair", [("east", "west"), ("open", "oven")])
def test_what_might_be_two_actions_is_neither(pair):
    env = ActionRepair(TextEnv(Compass(), split=None), ("nearest",), legal=lambda state: pair)
    env.reset(seed=0)
    assert env._nearest({"east": "wast", "open": "oen"}[pair[0]]) is None or pair[0] == "east"
    assert env._nearest("oxen") is None


def test_numbers_are_never_guessed():
    env = ActionRepair(TextEnv(Compass(), split=None), ("nearest",), legal=lambda state: ["1234", "move 12", "ab"])
    env.reset(seed=0)
    assert [env._nearest(text) for text in ("123", "1235", "move 1", "move 13", "a", "abc")] == [None] * 6


def test_a_board_games_own_moves_are_the_legal_ones():
    game = gym.make("rlvr/Game2048-v0")
    env = ActionRepair(game, ("tag", "nearest"), legal=lambda state: game.unwrapped.task.legal(state.board))
    env.reset(seed=0)
    move = next(move for move in env.legal(env.unwrapped.get_state().state) if len(move) > 3)
    misspelt = move[:-2] + move[:-3:-1]
    assert env.step(f"<action>{misspelt}</action>")[4]["repaired"] == ("tag", "nearest")
    assert env.unwrapped.get_state().state.message == ""


@given(st.text(alphabet="nsorthu", max_size=8), st.text(alphabet="nsorthu", max_size=8))
def test_a_slip_is_an_edit_of_one_letter(one, other):
    def edits(text: str) -> set[str]:
        cut = {text[:i] + text[i + 1 :] for i in range(len(text))}
        other_letter = {text[:i] + c + text[i + 1 :] for i in range(len(text)) for c in "nsorthu"}
        more = {text[:i] + c + text[i:] for i in range(len(text) + 1) for c in "nsorthu"}
        swapped = {text[:i] + text[i + 1] + text[i] + text[i + 2 :] for i in range(len(text) - 1)}
        return (cut | other_letter | more | swapped) - {text}

    assert one_slip(one, other) == (other in edits(one))


@given(st.text())
def test_characters_that_mean_something_stay(text):
    plain = plain_characters(text)
    assert plain_characters(plain) == plain
    for kept in "²½٣四αé√":
        assert plain.count(kept) >= text.count(kept)


@settings(max_examples=60)
@given(
    st.sampled_from(["rlvr/Countdown-v0", "rlvr/WordProblems-v0", GUESS, CALCULATOR]),
    st.integers(0, 30),
    st.lists(st.sampled_from(["characters", "code", "box", "tag", "first_line", "last_line"]), unique=True),
    st.lists(st.sampled_from(["\\boxed{", "}", "7", "\n", "<answer>", "</answer>", "```", "the ", "12"]), max_size=12),
)
def test_no_repair_makes_a_wrong_answer_right(env_id, seed, rules, parts):
    """What earns a reward after a repair holds the right answer: here nobody wrote it."""
    reply = "".join(parts)
    env = ActionRepair(gym.make(env_id, level=3 if env_id == GUESS else 1), rules)
    env.reset(seed=seed)
    answers = "7 12 7712 127 77 1212 712 127".split()
    gold = env.direct_answer() or env.solve()
    if any(answer in gold for answer in answers):
        return
    assert env.step(reply)[1] == 0.0


# statistics, records, schedules


class Ticks:
    """A clock that goes one second a look."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_statistics_of_an_episode():
    env = EpisodeStatistics(gym.make(CALCULATOR), clock=Ticks())
    first, _ = env.reset(seed=0)
    call = env.solve()
    output = env.step(call)[0]
    answer = env.solve()
    info = env.step(answer)[4]
    assert info["episode"] == {
        "return": 1.0,
        "turns": 2,
        "action_chars": len(call) + len(answer),
        "observation_chars": len(first) + len(output),
        "seconds": 2.0,
    }
    plain = EpisodeStatistics(gym.make(CALCULATOR))
    plain.reset(seed=0)
    assert set(plain.step("\\boxed{1}")[4]["episode"]) == {"return", "turns", "action_chars", "observation_chars"}


def test_the_time_that_a_state_lies_about_does_not_count():
    clock = Ticks()
    env = EpisodeStatistics(gym.make(CALCULATOR), clock=clock)
    env.reset(seed=0)
    env.step(env.solve())
    state = env.get_state()
    clock.now += 1_000
    env.set_state(state)
    assert env.step(env.solve())[4]["episode"]["seconds"] == 2.0


def test_recorded_episodes_are_read_and_replayed(tmp_path: Path):
    path = tmp_path / "deep" / "episodes.jsonl"
    env = EpisodeRecorder(History(gym.make(GUESS, level=2)), path)
    env.reset(seed=4)
    env.step("left before the end")
    for seed, actions in ((4, ["\ud800", "\\boxed{3}", *["x"] * 9]), (5, ["expert"] * 9)):
        env.reset(seed=seed)
        env.reset()
        for action in actions:
            _, _, terminated, truncated, _ = env.step(env.solve() if action == "expert" else action)
            if terminated or truncated:
                break
    records = list(read_records(path))
    assert [record["index"] for record in records] == [1, 1]
    assert [record["verdict"]["status"] for record in records] == ["unparsable", "correct"]
    for record in records:
        steps = replay_record(History(gym.make(GUESS)), record)
        assert [step[1] for step in steps[1:]] == [turn["reward"] for turn in record["turns"]]
        episode = Episode.from_dict(record)
        assert json.loads(json.dumps(episode.to_dict()))["turns"] == record["turns"]
        actions = [turn.action for turn in episode.turns]
        options = {"index": episode.index, "level": episode.level, "split": episode.split}
        assert repr(rlvr.replay(History(gym.make(GUESS)), episode.seed, actions, options)) == repr(steps)
    with pytest.raises(ValueError, match="turn 2 is another one"):
        replay_record(gym.make(GUESS), records[0])
    path.write_text(path.read_text() + "{}\n")
    with pytest.raises(ValueError, match="line 3 is no episode"):
        list(read_records(path))


def test_a_mixtures_record_is_an_episode_too(tmp_path: Path):
    mixture = gym.make("rlvr/Mixture-v0", envs=[GUESS, CALCULATOR], level=3)
    env = EpisodeRecorder(mixture, tmp_path / "episodes.jsonl")
    for seed in range(4):
        env.reset(seed=seed)
        while not any(env.step(env.solve())[2:4]):
            pass
    for record in read_records(env.path):
        assert Episode.from_dict(record).success
        replay_record(mixture, record)


def test_a_schedule_goes_by_episodes_and_a_given_level_wins():
    env = DifficultySchedule(gym.make(GUESS), [(0, 1), (2, 3), (4, 5)])
    levels = [env.reset()[1]["level"] for _ in range(3)]
    assert env.reset(options={"level": 2})[1]["level"] == 2
    levels += [env.reset(options={"split": "test"})[1]["level"] for _ in range(3)]
    assert levels == [1, 1, 3, 3, 5, 5]


def test_a_controller_is_told_what_came_of_its_levels():
    controller = LevelController(5, gain=0.5, rehearsal=0.0)
    env = DifficultySchedule(gym.make(CALCULATOR), controller)
    for _ in range(40):
        _, info = env.reset(seed=0)
        right = info["level"] <= 3
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(env.solve() if right else "no")
            over = terminated or truncated
    assert 2.5 < controller.difficulty < 4.5
    before = controller.state_dict()
    env.reset(options={"level": 1})
    env.step("no")
    faulty = DifficultySchedule(TextEnv(Faulty()), controller)
    controller.difficulty, controller.draws = 1.0, 0
    faulty.reset(seed=0)
    faulty.step("end")
    assert controller.difficulty == 1.0
    controller.load_state_dict(before)
    twin = env.fork()
    assert twin.controller is not controller
    assert twin.controller.state_dict() == before


# bad input


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda env: TurnLimit(env, turns=0), ValueError, "turns must be a whole number from 1, got 0"),
        (lambda env: TurnLimit(env, turns=True), ValueError, "turns must be"),
        (lambda env: LengthLimit(env), ValueError, "needs reply=, episode=, or both"),
        (lambda env: LengthLimit(env, reply=-1), ValueError, "reply must be a whole number from 1"),
        (lambda env: History(env, turns=-1), ValueError, "turns must be a whole number from 0"),
        (lambda env: History(env, max_chars=0), ValueError, "max_chars must be"),
        (lambda env: Scratchpad(env, tag="a b"), ValueError, "tag must be letters and digits"),
        (lambda env: SummaryHistory(env, "no function"), TypeError, "summarise must be a function"),
        (lambda env: SummaryHistory(env, joined, turns=0), ValueError, "turns must be a whole number from 1"),
        (lambda env: SystemPrompt(env, 3), TypeError, "a system prompt is a text or None, got int"),
        (lambda env: SystemPrompt(env, "x", where="above"), ValueError, "where must be instead, before or after"),
        (lambda env: SystemPrompt(env, None, where="after"), ValueError, "no text to put after"),
        (lambda env: PromptFormat(env, "fancy"), ValueError, "no layout 'fancy'; there are chat, user"),
        (lambda env: RandomPromptFormat(env, layouts=[]), ValueError, "non-empty sequence"),
        (lambda env: RandomPromptFormat(env, layouts="chat"), ValueError, "non-empty sequence"),
        (lambda env: RandomPromptFormat(env, layouts=["chat", "x"]), ValueError, "no layout 'x'"),
        (lambda env: RubricReward(env, len), TypeError, "rubric must be a Rubric"),
        (lambda env: SpuriousReward(env, "randon"), ValueError, "did you mean 'random'"),
        (lambda env: PotentialShaping(env, spread, discount=0), ValueError, r"discount must be in \(0, 1\]"),
        (lambda env: ActionRepair(env, ("guess",)), ValueError, "rules must be a sequence of characters, code"),
        (lambda env: ActionRepair(env, "box"), ValueError, "rules must be a sequence"),
        (lambda env: ActionRepair(env, ("nearest",)), ValueError, "needs legal="),
        (lambda env: DifficultySchedule(env, []), ValueError, "pairs of"),
        (lambda env: DifficultySchedule(env, [(1, 1)]), ValueError, "from 0 episodes on"),
        (lambda env: DifficultySchedule(env, [(0, 1), (5, 2), (5, 3)]), ValueError, "pairs of"),
        (lambda env: DifficultySchedule(env, [(0, 0)]), ValueError, "pairs of"),
        (lambda env: DifficultySchedule(env, 7), ValueError, "pairs of"),
        (lambda env: TurnLimit("GuessNumber", turns=1), TypeError, "Expected env to be"),
    ],
)
def test_bad_arguments_are_one_clear_sentence(make, error, message):
    with pytest.raises(error, match=message):
        make(gym.make(GUESS))


@pytest.mark.parametrize("name", ["length", "repair", "scratchpad", "statistics"])
def test_an_action_that_is_no_text_is_a_type_error(name):
    env = CHAIN[name](gym.make(GUESS))
    env.reset(seed=0)
    with pytest.raises(TypeError, match="an action is the assistant's text"):
        env.step(7)
