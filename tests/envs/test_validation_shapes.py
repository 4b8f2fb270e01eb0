"""Validation of environments of other shapes: numbers as actions, arrays in mappings, games that pay for parts."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlvr.envs.validation import clock, search, validate
from rlvr.envs.validation.context import NOTHING_TRIED
from rlvr.envs.validation.parts import AMOUNT
from rlvr.envs.validation.report import Replay
from rlvr.envs.validation.subject import MAX_TURNS, Subject, TaskRef, always, array_bytes, in_order, observation_text
from rlvr.envs.validation.watched import descendants, family, process_tree, validate_target
from rlvr.envs.validation.worker import ROOM, SIZE, CallTrace


class Grid(gym.Env[dict[str, Any], Any]):
    """Walk to a cell; observations are mappings of a large array, a mission and no image."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Dict(
        {"grid": gym.spaces.Box(0, 255, (40, 40), np.uint8), "mission": gym.spaces.Text(100)}
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.goal, self.turns = 0, int(self.np_random.integers(2, 5)), 0
        return self.look(), {}

    def look(self) -> dict[str, Any]:
        grid = np.zeros((40, 40), np.uint8)
        grid[20, self.at], grid[20, 30 + self.goal] = 1, 2
        return {"grid": grid, "mission": "the actions are: done, left, right"}

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.turns += 1
        self.at = max(0, self.at + (0, -1, 1)[action])
        won = self.at == self.goal
        return self.look(), float(won), won, self.turns >= 20, {}


class Guess(gym.Env[str, str]):
    """Name a number in brackets; after five guesses a part is paid for how near the last one was."""

    action_space = gym.spaces.Text(200_000)
    observation_space = gym.spaces.Text(1_000)
    reward_range = -1.0, 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number, self.turns = int(self.np_random.integers(11, 21)), 0
        return "Guess a number from 1 to 20, as '[5]'. Moves are [higher], [lower] and a number.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        guess = next((n for n in range(20, 0, -1) if f"[{n}]" in action), 0)
        reward = 1.0 if guess == self.number else 0.0
        if self.turns == 5 and guess:
            reward = 1 - abs(guess - self.number) / 20
        return "no", reward, reward == 1 or self.turns == 5, False, {}


class PaidAtOnce(Guess):
    """The same, where one text without a guess is paid a part in the first turn."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "no", 0.5 if "Score" in action else 0.0, True, False, {}


class Bare:
    """None of Gymnasium's, and without spaces."""

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        self.word = f"w{np.random.default_rng(seed).integers(1_000)}"
        return f"Say {self.word} twice, in one reply.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", float(action == f"{self.word} {self.word}"), True, False, {}


class BareAndSolved(Bare):
    def solve(self) -> str:
        return f"{self.word} {self.word}"


class Walk(gym.Env[str, str]):
    """Walk up to a number; the expert's plan begins where the walk is."""

    action_space = observation_space = gym.spaces.Text(100, min_length=0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.goal, self.at = int(self.np_random.integers(3, 9)), 0
        return f"Say up {self.goal} times.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.at += 1 if action == "up" else -1
        return "", float(self.at == self.goal), self.at == self.goal, self.at < -20, {}

    def solve(self) -> list[str]:
        return ["up"] * (self.goal - self.at)


def test_an_experts_plan_is_asked_for_once() -> None:
    (result,) = validate(Walk, tasks=3, checks=["semantic.oracle_max"]).results
    assert not result.findings, result.findings


class Quiz(gym.Env[Any, str]):
    """Three sums, one a turn. For every right one a third of a point is paid, at the end."""

    action_space = gym.spaces.Text(100, min_length=0)
    observation_space = gym.spaces.Dict({"prompt": gym.spaces.Text(100)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        super().reset(seed=seed)
        self.sums, self.right, self.turn = self.np_random.integers(10, 99, (4, 2)).tolist(), 0, 0
        return self.look(), {}

    def look(self) -> dict[str, str]:
        return {"prompt": f"How much is {self.sums[self.turn][0]} + {self.sums[self.turn][1]}?"}

    def step(self, action: str) -> tuple[dict[str, str], float, bool, bool, dict[str, Any]]:
        self.right += action == str(sum(self.sums[self.turn]))
        self.turn += 1
        return self.look(), self.right / 3 if self.turn == 3 else 0.0, self.turn == 3, False, {}

    def solve(self) -> list[str]:
        return [str(sum(each)) for each in self.sums[:3]]


def test_a_part_that_is_paid_at_the_end_is_found_by_a_wrong_turn() -> None:
    results = validate(Quiz, tasks=3, checks=["sound.graded", "runtime.observation_schema"]).results
    assert not [result.findings for result in results if result.findings]
    assert next(result for result in results if result.check.id == "sound.graded").measured["paid in part"]


@pytest.mark.slow
@pytest.mark.parametrize("made", [Bare, BareAndSolved])
def test_an_environment_without_spaces_is_checked_to_the_end(made: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVR_ALLOW_CODE", "1")
    report = validate_target(f"{__file__}:{made.__name__}", tasks=1, minutes=1)
    assert not [result.error for result in report.results if result.error], str(report)


def test_the_floor_of_an_environment_with_numbers_for_actions_is_measured() -> None:
    (result,) = validate(Grid, tasks=2, checks=["semantic.floor_gap"]).results
    assert (result.skipped, result.error) == ("", "")
    assert {"random", "always 0", "always 2"} <= set(result.measured)


def test_what_could_not_be_tried_is_no_pass() -> None:
    (result,) = validate(Grid, tasks=2, checks=["sound.faults"]).results
    assert (result.status, result.skipped) == ("skip", NOTHING_TRIED)


def test_odd_texts_name_no_action_of_a_continuous_space() -> None:
    (result,) = validate(lambda: gym.make("Pendulum-v1"), tasks=1, checks=["sound.faults"]).results
    assert (result.error, result.findings) == ("", [])


@pytest.mark.parametrize(("env_id", "tops"), [("MountainCar-v0", -110.0), ("CartPole-v1", 475.0)])
def test_what_counts_as_solved_bounds_no_return(env_id: str, tops: float) -> None:
    report = validate(lambda: gym.make(env_id), tasks=1, checks=["runtime.reward_well_formed"])
    assert not list(report.findings), str(report)
    assert f"to {tops:g} (the id's reward threshold)" in report.assumed["rewards"]


def test_an_episode_that_was_cut_has_no_return_yet() -> None:
    """Each turn of MountainCar takes 1 away: after 60 of 200 the return is above what counts as solved."""
    report = validate(lambda: gym.make("MountainCar-v0"), tasks=2, checks=["semantic.floor_gap"])
    assert not list(report.findings), str(report)


def test_arrays_in_mappings_are_read_whole() -> None:
    """In numpy's own words a long array has dots in its middle, where two of them may differ."""
    env = Grid()
    first, _ = env.reset(seed=0)
    other = {**first, "grid": first["grid"].copy()}
    other["grid"][20, 20] = 9
    assert observation_text(first) != observation_text(other)
    assert list(array_bytes(first)) != list(array_bytes(other))
    large = {"frames": (np.zeros(100_000, np.uint8), np.zeros(3, object))}
    assert observation_text(large) == observation_text(large)
    changed = {"frames": (np.eye(1, 100_000, 99_999, dtype=np.uint8)[0], np.zeros(3, object))}
    assert list(array_bytes(large)) != list(array_bytes(changed))


@pytest.mark.parametrize(("limit", "findings"), [(1_400, []), (None, ["ends"])])
def test_an_episode_may_be_as_long_as_it_says(limit: int | None, findings: list[str]) -> None:
    class Patient(Grid):
        max_steps = limit

        def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
            self.turns += 1
            return {"grid": np.zeros((1, 1))}, 0.0, False, self.turns >= 1_400, {}

    report = validate(Patient, tasks=1, checks=["sound.ends"])
    assert [finding.name for _, finding in report.findings] == findings


class PaysEachTurn(Guess):
    """A game that goes on, whose moves are paid in part at once."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        return "no", 0.3 * ("[higher]" in action or "[lower]" in action), self.turns == 5, False, {}


def test_an_example_of_a_move_is_paid_as_moves_are() -> None:
    report = validate(PaysEachTurn, tasks=3, checks=["statistical.adversarial_floor"])
    assert not report.at_least("medium"), str(report)


def test_a_text_that_holds_moves_of_a_game_is_paid_as_moves_are() -> None:
    report = validate(Guess, tasks=3, checks=["semantic.floor_gap", "statistical.adversarial_floor"])
    assert not report.at_least("medium"), str(report)
    report = validate(PaidAtOnce, tasks=3, checks=["statistical.adversarial_floor"])
    assert report.at_least("high"), str(report)


class Lamp(gym.Env[str, str]):
    """Two commands in a form that is asked for; what is in no such form ends the episode."""

    action_space = gym.spaces.Text(200_000)
    observation_space = gym.spaces.Text(1_000)
    form, asks = r"\\boxed\{(\w+)\}", "The actions are: press, wait. Put one into \\boxed{}."

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turns, self.pressed = 0, 0
        return self.asks, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        match, self.turns = re.fullmatch(self.form, action), self.turns + 1
        if match is None or match[1] not in ("press", "wait"):
            return "That is no action.", 0.0, True, False, {}
        self.pressed += match[1] == "press"
        return f"{self.pressed} of 3", float(self.pressed == 3), self.pressed == 3 or self.turns == 4, False, {}


class LampInWords(Lamp):
    form, asks = r"please (\w+)", "The actions are: press, wait. Be polite."


class LampInTheDark(Lamp):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, _, *rest = super().step(action)
        return (observation, 0.0, *rest)


def test_commands_are_played_in_the_form_that_is_asked_for() -> None:
    (result,) = validate(Lamp, tasks=2, checks=["semantic.oracle_max"]).results
    assert (result.measured["maximum reached"] > 0, result.findings) == (True, [])


def test_commands_that_are_not_understood_leave_no_maximum_out_of_reach() -> None:
    report = validate(LampInWords, tasks=2, checks=["semantic.oracle_max"])
    assert not report.at_least("low"), str(report)
    report = validate(LampInTheDark, tasks=2, checks=["semantic.oracle_max"])
    assert report.at_least("high"), str(report)


def test_a_search_without_time_to_end_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Grid):
        def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
            observation, _, *_ = super().step(action)
            time.sleep(0.001)
            return observation, 0.0, False, False, {}

    monkeypatch.setattr(search, "TRIES", 0)  # nothing but all orders of all commands
    (result,) = validate(Endless, tasks=1, minutes=0.005, checks=["semantic.oracle_max"]).results
    assert result.status == "unfinished"


def test_a_package_that_is_missing_is_no_finding() -> None:
    class Needs(Grid):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            raise gym.error.DependencyNotInstalled("imageio is missing, please run `pip install imageio`")

    with pytest.raises(ValueError, match="needs what is not installed: imageio is missing"):
        validate(Needs, tasks=1)


SLOW = """
import time
import gymnasium as gym

class Slow(gym.Env):
    def reset(self, *, seed=None, options=None):
        time.sleep(30)
        return "", {}

    def step(self, action):
        return "", 0.0, True, False, {}
"""


@pytest.mark.slow
def test_a_call_that_had_little_time_is_not_said_to_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVR_ALLOW_CODE", "1")
    file = tmp_path / "slow.py"
    file.write_text(SLOW, encoding="utf-8")
    report = validate_target(f"{file}:Slow", tasks=1, minutes=0.05)
    assert not list(report.findings), str(report)
    assert {result.status for result in report.results} == {"unfinished", "skip"}


def test_an_episode_keeps_the_bytes_of_every_array() -> None:
    subject = Subject(Grid, "grid")
    episode = subject.play(TaskRef(0), always("2"), turns=2)
    assert len(set(episode.images)) == len(episode.images) == len(episode.actions) + 1


@pytest.mark.parametrize("observation", [np.float32(1.5), (1, np.int64(2)), {"a": np.arange(3)}])
def test_numbers_are_written_as_numbers(observation: Any) -> None:
    assert "np." not in observation_text(observation)
    assert "array" not in observation_text(observation)


# long episodes, and what they cost


class Steps(gym.Env[str, str]):
    """Walk 300 steps; each third of them brings a share of the points."""

    observation_space, action_space = gym.spaces.Text(100), gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turns = self.walked = 0
        return "Say step or rest, 320 times. The reward is the share of points; each 100 steps are one of 3.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns, self.walked = self.turns + 1, self.walked + (action == "step")
        over = self.turns >= 320 or self.walked >= 300
        return "Go on.", self.walked // 100 / 3 if over else 0.0, over, False, {"legal_actions": ["step", "rest"]}

    def solve(self) -> list[str]:
        return ["step"] * 300


def test_a_solution_is_played_to_its_end_and_other_policies_are_cut() -> None:
    subject = Subject(Steps, "steps")
    assert subject.play(TaskRef(0), in_order(["step"] * 300)).total == 1.0
    assert len(subject.play(TaskRef(0), always("rest")).actions) == MAX_TURNS
    report = validate(Steps, tasks=3, checks=["semantic.oracle_max", "sound.graded", "statistical.variance_bound"])
    assert not report.at_least("low"), str(report)
    assert all(result.status == "pass" for result in report.results)


def test_the_call_under_way_is_read_whole_or_said_to_be_cut(tmp_path: Path) -> None:
    (tmp_path / "trace").write_bytes(b"\0" * SIZE)
    trace = CallTrace(tmp_path / "trace")
    for texts in (["é", '"\n', ""] * 4, ["a", "b" * ROOM, "c"], ["a"], ["x" * 20_000] * 5):
        for count in range(len(texts) + 1):
            replay = Replay(3, {"level": 2}, tuple(texts[:count]))
            trace(replay)
            since, read = trace.read()
            fits = sum(map(len, texts[:count])) < ROOM - 1_000
            last = [text[:1_000] for text in texts[:count][-1:]]
            assert since is not None
            assert read == (replay.to_dict() if fits else {**replay.to_dict(), "actions": last, "cut": True})
            trace(None)
            assert trace.read()[0] is None


def test_the_processes_of_a_target_are_those_of_the_list_of_all() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & (sleep 60; true) & wait"], start_new_session=True) as process:
        try:
            while len(family(process.pid)) < 4:
                time.sleep(0.01)
            assert sorted(family(process.pid)) == sorted(descendants([process.pid], process_tree()))
        finally:
            os.killpg(process.pid, 9)
    assert family(process.pid) == [process.pid]


def test_tasks_that_differ_in_their_image_alone_do_not_begin_alike() -> None:
    report = validate(gym.make("rlvr/VisualGridWorld-v0"), checks=["runtime.task_declaration_accuracy"])
    assert report.results[0].status == "pass", str(report)


# the clock


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count waiting")
def test_the_kernel_counts_how_long_a_thread_waits_for_a_processor() -> None:
    """It never counts less than before, and `now` is what is left; a process that is not there waits for nothing."""
    before, began = clock.waited(), clock.now()
    while sum(range(1_000)) and time.monotonic() - began - before < 0.05:
        pass
    assert 0.0 <= before <= clock.waited(os.getpid()) + 1e-6
    assert began <= clock.now() <= time.monotonic()
    assert clock.waited(process="none") == 0.0


def test_the_budget_is_counted_by_the_clock_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Grid):
        def look(self) -> dict[str, Any]:
            time.sleep(0.02)
            return super().look()

    def statuses() -> list[str]:
        return [
            result.status for result in validate(Slow, tasks=1, minutes=1e-4, checks=["runtime.seed_control"]).results
        ]

    assert statuses() == ["unfinished"]
    real = time.monotonic
    monkeypatch.setattr(clock, "waited", lambda process="thread-self": real() - 1.0)  # it does nothing but wait
    assert statuses() == ["pass"]


PINNED = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while sys.argv[2] == "runs":
    pass
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not count waiting")
@pytest.mark.parametrize(("what", "waits"), [("runs", True), ("sleeps", False)])
def test_who_waits_for_a_program_without_a_processor_waits_for_a_processor(what: str, waits: bool) -> None:
    """Three programs on one processor: each has it a third of the time; a program that sleeps waits for none."""
    core = str(min(os.sched_getaffinity(0)))
    programs = [subprocess.Popen([sys.executable, "-c", PINNED, core, what]) for _ in range(3)]
    try:
        queue = clock.ProcessorWaits(os.getpid())
        time.sleep(0.5)
        queue.look([programs[0].pid])
        before = queue.others
        for _ in range(5):
            time.sleep(0.2)
            queue.look([programs[0].pid])
        assert queue.others - before > 0.3 if waits else queue.others - before < 0.1
    finally:
        for program in programs:
            program.kill()
            program.wait()


def test_a_server_is_found_by_the_port_of_its_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/one"
        assert os.getpid() in clock.listening(f'{{"target": "nemo_gym:{url}"}}')
    assert os.getpid() not in clock.listening(url)
    assert clock.listening("Countdown") == set()


def test_a_slow_environment_is_played_on_fewer_tasks_and_says_so() -> None:
    class Slow(Grid):
        def look(self) -> dict[str, Any]:
            time.sleep(0.01)
            return super().look()

    report = validate(Slow, minutes=0.1, checks=["runtime.startup", "runtime.seed_control"])
    assert report.assumed["tasks"].startswith("4 of 8, as an episode takes")
    assert "tasks" not in validate(Grid, checks=["runtime.startup", "runtime.seed_control"]).assumed


@pytest.mark.parametrize(
    ("text", "promised"),
    [("1.5 rules for each letter", False), ("0.25 for each code", True), ("it pays .5 for each half", True)],
)
def test_a_number_above_one_promises_no_part_of_a_reward(text: str, promised: bool) -> None:
    assert bool(AMOUNT.search(text)) == promised


def test_brackets_that_all_answers_end_with_by_chance_are_no_form() -> None:
    class Sums(gym.Env[str, str]):
        action_space = observation_space = gym.spaces.Text(1_000)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
            super().reset(seed=seed)
            self.a, self.b = map(int, self.np_random.integers(10, 99, 2))
            return f"Write {self.a} * (2 + {self.b}) as two products of {self.a}, the second in brackets.", {}

        def solve(self) -> str:
            return f"{self.a} * 2 + ({self.a} * ({self.b}))"

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return "", float(action == self.solve()), True, False, {}

    report = validate(Sums, checks=["sound.form"])
    assert not [finding for _, finding in report.findings if finding.name == "unasked form"], str(report)
