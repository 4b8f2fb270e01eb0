"""When a run samples: how old a token may be, what is played, and how a run goes on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import pytest

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.evaluation import read_episodes
from rlvr.agents.rollout import Rollout
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.runs.run_folder import read_jsonl
from rlvr.algorithms.schedules.background import BackgroundRollout, RequestQueue
from rlvr.algorithms.train.run import Trainer
from rlvr.envs.core.spaces import Text

from .runs import Callback, small

STEPS = 6
BASE: dict[str, Any] = {
    "warm_start": {"steps": 0, "mixed_steps": 0},
    "steps": STEPS,
    "prompts": 2,
    "group_size": 2,
    "checkpoint_every": 1,
    "sampling": {"max_new_tokens": 6},
}


def ahead(depth: int) -> dict[str, Any]:
    return {"schedule": {"kind": "async", "depth": depth, "correction": "tis"}}


def trained_keys(out: Path) -> list[list[str]]:
    """What each step played, in order."""
    files = sorted((out / "episodes").glob("train-*.jsonl"))
    return [[episode.key for episode in read_episodes(file)] for file in files]


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    out = tmp_path_factory.mktemp("sync") / "run"
    Trainer(small(out, **BASE), Callback()).run()
    return trained_keys(out)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_no_token_is_older_than_the_depth_and_nothing_is_thrown_away(tmp_path: Path, in_turn: Any, depth: int):
    callback = Callback()
    Trainer(small(tmp_path / "run", **BASE, **ahead(depth)), callback).run()
    ages = [record["staleness_max"] for record in callback.of("train")]
    assert max(ages) <= depth
    assert ages[0] == 0  # the first step has nothing to wait for
    assert trained_keys(tmp_path / "run") == in_turn  # the same tasks and members in the same steps, none twice
    for step in range(STEPS):
        for episode in read_episodes(tmp_path / "run" / "episodes" / f"train-{step + 1:06d}.jsonl"):
            tokens = episode.tokens
            assert len(tokens.versions) == len(tokens)
            for version, mask in zip(tokens.versions, tokens.mask, strict=True):
                assert step - depth <= version <= step if mask else version == -1
    assert any("grpo is weighed by old / behaviour, tis 2" in text for text in callback.said)


class Broken(Exception):
    pass


class Breaks(Callback):
    """Ends the run without a word once a step is logged, as a kill does: the step is not saved."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def step(self, record: dict[str, Any]) -> None:
        super().step(record)
        if record["phase"] == "train" and record["step"] == self.at:
            raise Broken


@pytest.mark.parametrize("at", [1, 4])
def test_a_run_that_goes_on_loses_and_doubles_nothing(tmp_path: Path, in_turn: Any, at: int):
    config = small(tmp_path / "run", **BASE, **ahead(2))
    with pytest.raises(Broken):
        Trainer(config, Breaks(at)).run()
    callback = Callback()
    Trainer(config, callback, resume=True).run()
    assert trained_keys(tmp_path / "run") == in_turn
    records = [r for r in read_jsonl(tmp_path / "run" / "metrics.jsonl") if r["phase"] == "train"]
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert max(record["staleness_max"] for record in records) <= 2


def test_groups_are_refilled_ahead_as_in_turn(tmp_path: Path):
    """A filter that replaces groups draws more for its step while others are under way; none is lost."""
    filters = {"selection": {"filters": ["active_sampling"], "max_rounds": 2}}
    callback = Callback()
    Trainer(small(tmp_path / "run", **BASE, **ahead(2), **filters), callback).run()
    for record in callback.of("train"):
        assert record["groups_drawn"] == 4  # no group of this policy varies: two rounds of two
    keys = [key for step in trained_keys(tmp_path / "run") for key in step]
    assert len(keys) == len({*keys}) == STEPS * 4 * 2


# what async refuses


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_that_ignore_the_behaviour_policy_are_refused_or_corrected(name: str):
    preset = PRESETS[name]
    sound = any(c.kind in ("tis", "seq_tis", "icepop", "seq_mis") for c in preset.corrections)
    sound |= preset.ratio_denominator == "behaviour" and preset.ratio_level != "none"
    given: dict[str, Any] = {"algorithm": name, "schedule": "async", "credit": {"teacher": "x"}}
    if sound:
        assert load_config(given).preset() == preset
        return
    with pytest.raises(ConfigError, match=r"does not weigh by the policy that sampled: set schedule\.correction"):
        load_config(given)
    kind = "seq_tis" if preset.per_sequence else "tis"
    given["schedule"] = {"kind": "async", "correction": kind}
    assert load_config(given).preset().corrections[-1].kind == kind


def test_partial_rollouts_are_of_the_sync_schedule():
    with pytest.raises(ConfigError, match=r"sampling\.segment is for schedule: sync"):
        load_config(
            {
                "algorithm": "scalerl",
                "schedule": "async",
                "sampling": {"segment": 8},
                "selection": {"filters": ["partial_rollouts"]},
            }
        )


# the rollout in the background


class Slow(gym.Env[str, str]):
    """Its first episode ends when all others have, and no other waits for it."""

    action_space = observation_space = Text()
    ended: ClassVar[set[int]] = set()
    others = threading.Event()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.number = seed or 0
        return f"{self.number}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.number == 0:
            assert Slow.others.wait(60)
        Slow.ended.add(self.number)
        if Slow.ended >= set(range(1, 6)):
            Slow.others.set()
        return "", 1.0, True, False, {}


class Echo:
    def act(self, conversations: list[Conversation]) -> list[Reply]:
        return [Reply("x") for _ in conversations]


class EchoAtOnce(Echo):
    """An engine that answers each on its own."""

    def submit(self, conversations: list[Conversation]) -> list[Any]:
        from concurrent.futures import Future

        futures = []
        for _ in conversations:
            future: Future[Reply] = Future()
            future.set_result(Reply("x"))
            futures.append(future)
        return futures


@pytest.mark.parametrize("agent", [Echo(), EchoAtOnce()])
def test_later_requests_end_while_the_oldest_waits(agent: Any):
    Slow.ended, Slow.others = set(), threading.Event()
    background = BackgroundRollout(Rollout(Slow, agent, workers=4, timeout=60))
    first, *others = [RolloutRequest(seed=number) for number in range(6)]
    background.submit([first])
    background.submit(others[:2])
    later = background(others)  # two of them were submitted already
    assert [episode.seed for episode in later] == [1, 2, 3, 4, 5]
    assert [episode.seed for episode in background([first])] == [0]
    background.close()


def test_what_ends_the_rollout_is_raised_where_episodes_are_waited_for():
    class Fails:
        def act(self, conversations: Any) -> Any:
            raise RuntimeError("the engine is gone")

    background = BackgroundRollout(Rollout(Slow, Fails()))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the engine is gone"):
            background([RolloutRequest(seed=1)])
    with pytest.raises(TypeError, match="cannot be continued in the background"):
        background([Episode("env", "key", 0)])


def test_a_queue_says_later_and_then_gives():
    queue = RequestQueue()
    later: Any = next(queue)
    assert not later.done()
    assert next(queue) is later
    queue.put([RolloutRequest(seed=1), RolloutRequest(seed=2)])
    assert later.done()
    assert [next(queue), next(queue)] == [RolloutRequest(seed=1), RolloutRequest(seed=2)]
    waiting: Any = next(queue)
    queue.close()
    assert waiting.done()
    with pytest.raises(StopIteration):
        next(queue)
