"""Images across processes: over the wire of `rlvr serve`, and in adapters, which carry them or say that they do not."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rlvr.adapters import connect, connect_vector, rows
from rlvr.adapters.serving.serve import EnvServer
from rlvr.adapters.serving.sessions import _speaks
from rlvr.adapters.serving.wire import pack, unpack, write
from rlvr.adapters.spec import EpisodeSession, TaskSpec, grade
from rlvr.envs.core.images import observation_space, read_data_url
from rlvr.envs.core.spaces import Text

WORLD, CLOCKS = "rlvr/VisualGridWorld-v0", "rlvr/VisualClocks-v0"


@pytest.fixture(scope="module")
def url():
    pytest.importorskip("websockets")
    pytest.importorskip("uvicorn")
    with EnvServer(WORLD, {"level": 2}, expert=True) as server:
        yield server.url


def same(one, other) -> bool:
    return one["text"] == other["text"] and np.array_equal(one["image"], other["image"])


def test_a_served_environment_shows_what_it_shows_directly(url):
    env, direct = connect(url), gym.make(WORLD, level=2)
    try:
        assert env.observation_space == direct.observation_space
        (observation, info), (expected, told) = env.reset(seed=3), direct.reset(seed=3)
        assert same(observation, expected)
        assert info == told
        over = False
        while not over:
            action = env.solve()
            observation, *others = env.step(action)
            expected, *told = direct.step(action)
            assert observation["image"].dtype == np.uint8
            assert same(observation, expected)
            assert others == told
            over = told[1] or told[2]
    finally:
        env.close()


def test_a_served_batch_is_stacked(url):
    vector = connect_vector(url, 3, autoreset_mode="SameStep")
    try:
        observations, _ = vector.reset(seed=5)
        single = [gym.make(WORLD, level=2).reset(seed=seed)[0] for seed in (5, 6, 7)]
        assert observations["text"] == tuple(one["text"] for one in single)
        assert np.array_equal(observations["image"], np.stack([one["image"] for one in single]))
        later, *_ = vector.step(["\\boxed{up}"] * 3)
        assert later["image"].shape == (3, 336, 336, 3)
        assert later in vector.observation_space
    finally:
        vector.close()


@pytest.mark.parametrize(
    ("space", "served"),
    [
        (observation_space(None), True),
        (observation_space((4, 5, 3)), True),
        (gym.spaces.Text(9), True),
        (gym.spaces.Discrete(3), False),
        (gym.spaces.Dict(text=Text()), False),
        (gym.spaces.Dict(text=Text(), image=gym.spaces.Box(0, 1, (4, 5, 3))), False),
        (gym.spaces.Dict(text=Text(), image=gym.spaces.Box(0, 255, (4, 5), np.uint8)), False),
        (gym.spaces.Dict(text=Text(), image=gym.spaces.Box(0, 255, (4, 5, 3), np.uint8), more=Text()), False),
    ],
)
def test_texts_and_texts_beside_images_are_served_and_nothing_else(space, served):
    assert _speaks(space) == served


def test_an_image_crosses_as_a_png():
    image = gym.make(CLOCKS).reset(seed=0)[0]["image"]
    packed = pack({"image": image})
    assert set(packed["image"]) == {"$image"}
    assert len(write(packed)) < 60_000
    assert np.array_equal(unpack(packed)["image"], image)
    empty = np.zeros((0, 2, 3), np.uint8)
    assert unpack(pack(empty)).shape == (0, 2, 3)
    for junk in ("nothing", "data:image/png;base64,", "data:image/png;base64,AAAA", 7, None):
        with pytest.raises(ValueError, match="image"):
            unpack({"$image": junk})


def test_a_session_carries_images_for_who_asks_and_refuses_otherwise():
    spec = TaskSpec(WORLD, seed=2)
    with pytest.raises(ValueError, match="this adapter reads text alone, and this environment shows images"):
        EpisodeSession(spec)
    session = EpisodeSession(spec, images=True)
    (first,) = session.messages[-1]["images"]
    assert np.array_equal(read_data_url(first), gym.make(WORLD).reset(seed=2)[0]["image"])
    message = session.step(session.env.solve())
    assert message is not None
    assert message["images"] != [first]


def test_rows_and_grades_of_single_turns_refuse_what_they_would_lose():
    with pytest.raises(ValueError, match="this adapter reads text alone"):
        rows(CLOCKS, 2)
    with pytest.raises(ValueError, match="reads text alone"):
        grade(TaskSpec(CLOCKS, seed=0), "\\boxed{3:00}")
