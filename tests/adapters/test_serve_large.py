"""Batches whose messages are over the wire's limits, and actions that are: no step is lost, none is played twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from rlvr.adapters import connect_vector
from rlvr.adapters.serving import wire
from rlvr.adapters.serving.serve import EnvServer
from rlvr.envs.core.images import observation_space
from rlvr.envs.core.spaces import Text

from .hostile import saying

LONG = 100_000
COUNT = 200  # of such texts: more than a frame


class Echo(gym.Env[Any, str]):
    """Says its turn, and as many letters as the action asks for; or shows an image."""

    action_space = Text(1 << 24)

    def __init__(self, image: bool = False) -> None:
        self.observation_space = observation_space((2048, 2048, 3)) if image else Text(1 << 20)
        self.image = image
        self.turn = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn, self.start = 0, seed
        return self._shown(""), {"many": list(range((options or {}).get("many", 0)))}

    def step(self, action):
        self.turn += 1
        return self._shown("x" * int(action[:6] or 0)), 0.0, False, False, {"turn": self.turn, "length": len(action)}

    def _shown(self, text):
        text = f"{self.start} {self.turn} {text}"
        return {"text": text, "image": np.full((2048, 2048, 3), self.turn, np.uint8)} if self.image else text


@pytest.fixture(scope="module")
def echo() -> Iterator[EnvServer]:
    gym.register("ours/Echo-v0", entry_point=Echo, disable_env_checker=True)
    try:
        with EnvServer("ours/Echo-v0", limit=COUNT, token=None) as server:
            yield server
    finally:
        gym.registry.pop("ours/Echo-v0")


@pytest.mark.parametrize("several", [False, True])
def test_a_batch_over_a_frame_goes_and_comes_in_parts(echo: EnvServer, several: bool):
    vector = connect_vector([echo.url] if several else echo.url, COUNT)
    observations, _ = vector.reset(seed=0)
    for turn, action in enumerate(["1", f"{LONG:06}" + "é" * (LONG // 6), "2"], 1):
        observations, _, _, truncated, infos = vector.step([action] * COUNT)
        assert not truncated.any()
        assert [info["turn"] for info in infos.rows] == [turn] * COUNT
        assert {info["length"] for info in infos.rows} == {len(action)}
        asked = int(action[:6])
        assert list(observations) == [f"{seed} {turn} {'x' * asked}" for seed in range(COUNT)]
    infos = vector.reset(seed=1, options={"many": 3000})[1]  # more values than an answer may have
    assert [len(info["many"]) for info in infos.rows] == [3000] * COUNT
    vector.close()


@pytest.mark.parametrize("several", [False, True])
def test_an_action_over_a_frame_is_refused_before_anything_is_played(echo: EnvServer, several: bool):
    vector = connect_vector([echo.url] if several else echo.url, 3)
    vector.reset(seed=0)
    vector.step(["0"] * 3)
    with pytest.raises(ValueError, match=r"actions\[1\] is over the server's 16777216 bytes"):
        vector.step(["0", "x" * 100_000_000, "0"])
    assert [info["turn"] for info in vector.step(["0"] * 3)[4].rows] == [2, 2, 2]
    vector.close()


@pytest.mark.slow
def test_images_over_what_a_message_may_have_come_in_parts():
    gym.register("ours/Echo-v1", entry_point=Echo, disable_env_checker=True)
    try:
        count = wire.MAX_PIXELS // 2048**2 + 1
        with EnvServer("ours/Echo-v1", {"image": True}, limit=count, token=None) as server:
            vector = connect_vector(server.url, count)
            vector.reset(seed=0)
            images = vector.step(["1"] * count)[0]["image"]
            assert images.shape == (count, 2048, 2048, 3)
            assert (images[:, ::500, ::500] == 1).all()
            vector.close()
    finally:
        gym.registry.pop("ours/Echo-v1")


def test_an_answer_that_comes_twice_is_not_taken_for_the_next_part():
    """The server refuses the whole as too large, and answers each half twice."""

    def say(kind: str, message: Any) -> Any:
        if kind == "hello":
            message["hello"]["numbered"] = True
        if kind != "step":
            return message
        if len(message["results"]) == 4:
            return {"id": message["id"], "error": {"code": "too_large", "message": "the answer has 17000000 bytes"}}
        asked.append(message["id"])
        for result in message["results"]:
            result["observation"] = f"part {len(asked)}"
        return [message, message]

    asked: list[str] = []
    with saying(say) as url:
        vector = connect_vector(url, 4)
        vector.reset(seed=0)
        for turn in (0, 1):
            assert vector.step(["a"] * 4)[0] == (f"part {2 * turn + 1}",) * 2 + (f"part {2 * turn + 2}",) * 2
        assert len(set(asked)) == 4
        vector.close()


def test_a_part_of_a_request_is_answered_once_more_and_by_nobody_else(echo: EnvServer):
    from websockets.sync.client import connect as open_socket

    with open_socket(f"ws{echo.url.removeprefix('http')}/v1/ws") as link:

        def ask(**message: Any) -> dict[str, Any]:
            link.send(json.dumps(message))
            return json.loads(link.recv())

        link.recv()
        names = ask(id="o", op="open", count=2)["sessions"]
        items = [{"session": name, "seed": 0} for name in names]
        ask(id="c-1", op="reset", items=items, number=1)
        steps = [{"session": name, "action": "1"} for name in names]
        whole = ask(id="c-2", op="step", items=steps, number=2)["results"]
        for part in (0, 1):
            again = ask(id=f"c-2#{part}", op="step", items=[steps[part]], number=2)["results"]
            assert again == [whole[part]]
        for other in ("d-2#0", "c-3#0", "c-2x"):
            (refused,) = ask(id=other, op="step", items=[steps[0]], number=2)["results"]
            assert refused["error"]["code"] == "stale"
        assert ask(id="c-3", op="step", items=[steps[0]], number=3)["results"][0]["info"]["turn"] == 2
