"""Agents in environments that show images: endpoints are sent them, and who reads text alone says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlvr.agents import Conversation, ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.conversation import observation_to_message
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import evaluate, read_episodes
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.agents.scripted import HumanAgent
from rlvr.cli import main
from rlvr.envs.core.images import read_data_url, read_png
from rlvr.envs.endpoint import Endpoint
from rlvr.envs.tools.calls import Call, write_call

WORLD, CLOCKS = "rlvr/VisualGridWorld-v0", "rlvr/VisualClocks-v0"


class Seer(BaseHTTPRequestHandler):
    """A chat endpoint that keeps what it is sent, and says the next of its lines."""

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        server: Any = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.seen.append(body)
        text = server.lines.pop(0) if server.lines else "no idea"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        data = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def seer() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Seer)
    server.seen, server.lines = [], []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def agent(server: Any, **options: Any) -> OpenAIAgent:
    return OpenAIAgent(Endpoint(f"http://127.0.0.1:{server.server_port}/v1", "eyes"), **options)


def shown(message: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """The images of a message in OpenAI's form."""
    parts = message["content"] if isinstance(message["content"], list) else []
    return [read_data_url(part["image_url"]["url"]) for part in parts if part["type"] == "image_url"]


def test_an_endpoint_is_sent_every_image_of_the_episode_beside_its_words(seer):
    env = gym.make(WORLD)
    images, actions = [], []
    observation, info = env.reset(seed=0, options={"index": 0})
    over = False
    while not over:
        images.append(observation["image"])
        actions.append(env.unwrapped.solve())
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    seer.lines = [*actions]
    (episode,) = Rollout(WORLD, agent(seer))([RolloutRequest(seed=0, index=0)])
    assert episode.success
    assert len(seer.seen) == len(actions)
    last = seer.seen[-1]["messages"]
    assert last[0] == {"role": "system", "content": info["system"]}
    assert last[1]["content"][0] == {"type": "text", "text": "The game begins. Your move?"}
    sent = [image for message in last for image in shown(message)]
    assert len(sent) == len(images)
    assert all((one == other).all() for one, other in zip(sent, images, strict=True))
    assert [message["content"] for message in last if message["role"] == "assistant"] == actions[:-1]


def test_what_a_tool_shows_follows_its_text_as_the_users(seer):
    seer.lines = [write_call(Call("calculator", {"expression": "6 * 7"}), "hermes"), "\\boxed{1}"]
    tools = {"tools": ["calculator"], "tools_in": "template"}
    Rollout(CLOCKS, agent(seer), env_settings={"tools": tools})([RolloutRequest(seed=0)])
    told, image = seer.seen[1]["messages"][-2:]
    assert (told["role"], told["content"]) == ("tool", "42")
    assert image["role"] == "user"
    assert len(shown(image)) == 1


def test_texts_are_sent_as_before(seer):
    conversation = Conversation("k", [observation_to_message("Seven?", {"role": "user"})])
    assert conversation.messages == [{"role": "user", "content": "Seven?"}]
    assert agent(seer).body(conversation)["messages"] == [{"role": "user", "content": "Seven?"}]


def test_episodes_keep_their_images_in_files(tmp_path):
    path = tmp_path / "episodes.jsonl"
    rollout = Rollout(WORLD, ExpertAgent())
    assert evaluate(rollout, [RolloutRequest(seed=1, index=0)], record=path).success == 1.0
    (episode,) = read_episodes(path)
    first = gym.make(WORLD).reset(seed=1, options={"index": 0})[0]
    assert (read_data_url(episode.turns[0].image) == first["image"]).all()
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode
    assert episode.messages()[1]["images"] == [episode.turns[0].image]


def test_episodes_of_texts_look_as_before():
    (episode,) = Rollout("rlvr/Countdown-v0", ExpertAgent())([RolloutRequest(seed=0)])
    assert all("image" not in turn for turn in episode.to_dict()["turns"])
    assert "images" not in episode.messages()[0]


def test_policies_that_sample_tokens_refuse_with_one_sentence(capsys):
    pytest.importorskip("torch")
    assert main(["eval", "--env", CLOCKS, "--model", "rlvr/tiny", "--episodes", "2"]) == 2
    said = capsys.readouterr().err
    assert "reads text alone, and this environment shows images: play it with OpenAIAgent" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_training_and_warm_starts_refuse_with_the_same_sentence(tmp_path, capsys):
    pytest.importorskip("torch")
    config = ["train", "--env.id", CLOCKS, "--model.name", "rlvr/tiny", "--steps", "1"]
    for number, more in enumerate((["--warm-start.steps", "0"], ["--warm-start.steps", "2"])):
        assert main([*config, *more, "--out", str(tmp_path / f"run{number}")]) == 2
        assert "reads text alone, and this environment shows images" in capsys.readouterr().err


def test_a_person_is_given_the_image_as_a_file():
    said: list[str] = []
    person = HumanAgent(ask=lambda prompt: "\\boxed{3:00}", show=lambda role, text: said.append(text))
    Rollout(CLOCKS, person)([RolloutRequest(seed=0)])
    (line,) = [text for text in said if text.startswith("[an image: ")]
    with open(line.removeprefix("[an image: ").removesuffix("]"), "rb") as file:
        assert read_png(file.read()).shape == (336, 336, 3)
