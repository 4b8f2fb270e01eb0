"""Games of several seats in verifiers: an agent for each seat, with a conversation and a reward of its own."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr.adapters import testing as kit
from rlvr.adapters.serving.loopback import HttpError, LoopbackServer
from rlvr.agents import TokenSequence
from rlvr.envs.players.poker import KuhnPoker

KUHN = "rlvr/KuhnPoker-v0"
MOVES = re.compile(r"Your legal moves: (.*)\.")
HERE = importlib.util.find_spec("verifiers") is not None


@pytest.mark.skipif(HERE, reason="verifiers is installed")
def test_the_error_names_the_versions():
    with pytest.raises(ImportError, match=r"pip install 'verifiers>=0\.4,<0\.5'"):
        importlib.import_module("rlvr_seats")


foreign = pytest.mark.foreign


@pytest.fixture(scope="module")
def vf():
    return pytest.importorskip("verifiers.v1")


def first_move(model, messages):
    """The first legal move, with words that nobody else may read."""
    seat = re.search(r"You are seat (\d)", " ".join(message["content"] for message in messages))
    move = MOVES.findall(messages[-1]["content"])[-1].split(", ")[0]
    return f"private of {model} in seat {seat and seat[1]}: \\boxed{{{move}}}"


class Server:
    """An OpenAI-compatible endpoint whose models write what a function says."""

    def __init__(self, reply=first_move):
        self.asked: list[tuple[str, list[dict]]] = []
        self.reply = reply

    def _answer(self, request):
        if request.path == "/v1/models":
            return {"object": "list", "data": [{"id": "policy", "object": "model"}]}
        model, messages = request.body["model"], request.body["messages"]
        self.asked.append((model, messages))
        choice = {"index": 0, "message": {"role": "assistant", "content": self.reply(model, messages)}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice["finish_reason"] = "stop"
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [choice],
            "usage": usage,
        }

    def __enter__(self):
        self._server = LoopbackServer(self._answer, key=None)
        self.url = f"{self._server.url}/v1"
        return self

    def __exit__(self, *_):
        self._server.close()


def make_env(vf, game=KUHN, n=4, **settings):
    taskset = {"id": "rlvr-seats", "env": game, "n": n, **settings.pop("taskset", {})}
    return vf.load_environment(vf.resolve_env_config({"taskset": taskset, **settings}))


def played(vf, env, server, monkeypatch, tasks=None):
    monkeypatch.setenv("NO_KEY", "none")
    context = vf.ModelContext(model="policy", client=vf.EvalClientConfig(base_url=server.url, api_key_var="NO_KEY"))

    async def run():
        async with env.serving():
            slots = [slot for task in tasks or list(env.taskset) for slot in env.slots(task)]
            return await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))

    return asyncio.run(run())


def texts(trace):
    return [message.content for message in trace.branches[0].messages]


def opened(env, task):
    from rlvr.adapters.spec import TaskSpec
    from rlvr.adapters.suites.verifiers import _open_match

    return _open_match(TaskSpec.parse(task.data.spec), {})


@foreign
@pytest.mark.parametrize(
    "game",
    [
        KUHN,
        "rlvr/LeducPoker-v0",
        "rlvr/RockPaperScissors-v0",
        "rlvr/Goofspiel-v0",
        "rlvr/Clues-v0",
        "rlvr/HiddenRoles-v0",
    ],
)
def test_each_seat_has_a_conversation_a_verdict_and_a_reward_of_its_own(vf, monkeypatch, game):
    env = make_env(vf, game)
    with Server() as server:
        episodes = played(vf, env, server, monkeypatch)
    for task, episode in zip(env.taskset, episodes, strict=True):
        assert episode.ok, episode.errors
        match = opened(env, task)
        by_name = {trace.agent.name: trace for trace in episode.traces}
        seats = sorted(by_name)
        assert len(by_name) == len(episode.traces) > 1  # one trace a seat
        replies = {
            name: [text for text in texts(trace) if text.startswith("private of")] for name, trace in by_name.items()
        }
        told = {name: [] for name in seats}
        # the same match, played by hand: what each seat reads is what it reads here, and nothing else
        while movers := match.to_move():
            for seat in movers:
                told[f"seat_{seat}"].append(match.text(seat))
            for seat in movers:
                match.act(seat, replies[f"seat_{seat}"][len(told[f"seat_{seat}"]) - 1])
        for name, trace in by_name.items():
            seat = int(name.removeprefix("seat_"))
            system, *conversation = texts(trace)
            assert system == match.task.system
            assert conversation[::2] == told[name]
            assert conversation[1::2] == replies[name]
            verdict = match.verdict(seat)
            assert trace.info["verdict"] == verdict.to_dict()
            assert {key: reward.score for key, reward in trace.rewards.items()} == {"return": verdict.reward}
            assert trace.info["moves"] == match.task.referee.view_of_record(match.match, seat)
            assert (trace.info["seat"], trace.agent.trainable, trace.metrics["forfeited"]) == (seat, True, 0)
            for other in set(seats) - {name}:
                assert not set(replies[other]) & set(texts(trace))
                assert not any("private of" in text for text in conversation[::2])
    if game == KUHN:
        for episode in episodes:
            assert sum(trace.reward for trace in episode.traces) == 1
            for trace in episode.traces:
                assert len(set(re.findall(r"Your card: (\w)", " ".join(texts(trace))))) == 1
                assert [move for actor, move in trace.info["moves"] if actor < 0].count(None) == 1  # the other's card


@foreign
def test_a_seat_with_another_model_is_frozen_unless_it_is_named(vf, monkeypatch):
    for trained, standing in ((None, {"seat_0": True, "seat_1": False}), ([1], {"seat_0": False, "seat_1": True})):
        env = make_env(vf, seat_1={"model": "frozen"}, trained=trained)
        with Server() as server:
            episodes = played(vf, env, server, monkeypatch)
        assert {model for model, _ in server.asked} == {"policy", "frozen"}
        for episode in episodes:
            assert {trace.agent.name: trace.agent.trainable for trace in episode.traces} == standing
            for trace in episode.traces:
                model = "frozen" if trace.agent.name == "seat_1" else "policy"
                assert all(f"private of {model} in" in text for text in texts(trace) if text.startswith("private"))


@foreign
def test_illegal_moves_are_the_seats_own_and_the_last_forfeits(vf, monkeypatch):
    def reply(model, messages):
        return "I pass" if model == "stubborn" else first_move(model, messages)

    env = make_env(vf, seat_1={"model": "stubborn"})
    with Server(reply) as server:
        episodes = played(vf, env, server, monkeypatch)
    for episode in episodes:
        assert episode.ok  # a forfeit is a loss, and no fault
        first, second = sorted(episode.traces, key=lambda trace: trace.agent.name)
        assert (first.reward, second.reward) == (1.0, 0.0)
        assert (first.metrics["forfeited"], second.metrics["forfeited"], second.metrics["truncated"]) == (0, 1, 0)
        assert "forfeited after 3 illegal moves" in second.info["verdict"]["reason"]
        assert sum(text.startswith("That is not a legal move.") for text in texts(second)) == 2
        assert not any("not a legal move" in text for text in texts(first))


@foreign
def test_a_limit_of_an_agent_is_its_own_loss(vf, monkeypatch):
    env = make_env(vf, "rlvr/TicTacToeDuel-v0", seat_0={"max_turns": 1})
    with Server() as server:
        episodes = played(vf, env, server, monkeypatch)
    for episode in episodes:
        assert episode.ok
        first, second = sorted(episode.traces, key=lambda trace: trace.agent.name)
        assert (first.reward, first.metrics["truncated"], first.metrics["turns"], second.reward) == (0.0, 1, 1, 1.0)
        assert "answered no more" in first.info["verdict"]["reason"]


@foreign
def test_a_model_that_fails_is_an_error_of_the_episode_and_nobodys_zero(vf, monkeypatch):
    def reply(model, messages):
        if model == "broken":
            raise HttpError(400, "no such model, on purpose")
        return first_move(model, messages)

    env = make_env(vf, seat_1={"model": "broken"})
    with Server(reply) as server:
        episodes = played(vf, env, server, monkeypatch)
    for episode in episodes:
        assert not episode.ok
        assert "seat_1: " in episode.errors[0].message
        assert "on purpose" in episode.errors[0].message
        assert all(not trace.rewards and not trace.ok for trace in episode.traces)


@foreign
@pytest.mark.parametrize("method", ["apply", "returns", "show"])
def test_rules_that_fail_are_an_error_of_the_episode(vf, monkeypatch, method):
    env = make_env(vf)
    tasks = list(env.taskset)  # made before the rules break

    def fails(*_):
        raise OSError("the rules fail, on purpose")

    if method == "apply":
        original = KuhnPoker.apply
        monkeypatch.setattr(
            KuhnPoker,
            "apply",
            lambda game, state, actor, move: original(game, state, actor, move) if actor < 0 else fails(),
        )
    else:
        monkeypatch.setattr(KuhnPoker, method, fails)
    with Server() as server:
        episodes = played(vf, env, server, monkeypatch, tasks)
    for episode in episodes:
        assert not episode.ok
        assert "on purpose" in episode.errors[0].message
        assert all(not trace.rewards for trace in episode.traces)


@foreign
def test_bots_have_seats_without_agents(vf, monkeypatch):
    env = make_env(vf, "rlvr/HiddenRoles-v0", bots={"0": "expert", "3": "random"})
    with Server() as server:
        episodes = played(vf, env, server, monkeypatch)
    for episode in episodes:
        assert episode.ok
        assert {trace.agent.name for trace in episode.traces} <= {"seat_1", "seat_2", "seat_4"}
        assert len(episode.traces) > 1


@foreign
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"game": "rlvr/GuessNumber-v0"}, "is no game of several seats: play it by rlvr-gym"),
        ({"bots": {"2": "random"}}, "there is no seat 2"),
        ({"bots": {"1": "oracle"}}, "oracle"),
        ({"bots": {"0": "random", "1": "random"}}, "leave one open"),
        ({"trained": [0], "bots": {"0": "random"}}, "seat 0 has no agent"),
        ({"trained": [5]}, "seat 5 has no agent"),
        ({"taskset": {"kwargs": {"seat": 1}}}, "every seat has an agent here"),
        ({"taskset": {"kwargs": {"opponents": ["random"]}}}, "every seat has an agent here"),
        ({"taskset": {"id": "rlvr-gym"}, "id": "rlvr-seats"}, "take --env.taskset.id rlvr-seats"),
    ],
)
def test_what_cannot_be_played_is_refused_at_the_start(vf, settings, reason):
    with pytest.raises(Exception, match=reason):
        make_env(vf, **settings)


@foreign
def test_task_sets_end_or_go_on_and_their_splits_share_no_match(vf):
    endless = make_env(vf, n=None).taskset
    three = make_env(vf, n=3).taskset
    assert (type(endless).INFINITE, type(three).INFINITE) == (True, False)
    assert [task.data.spec for task in endless.take(3)] == [task.data.spec for task in three]
    assert all(task.data.prompt is None for task in three)
    assert asyncio.run(next(iter(three)).validate(None)) in (True, False)  # the expert loses some hands
    keys = {}
    for split in ("train", "test"):
        env = make_env(vf, n=20, taskset={"kwargs": {"split": split}})
        keys[split] = {opened(env, task).match.key for task in env.taskset}
        assert len(keys[split]) == 20
    assert not keys["train"] & keys["test"]


@foreign
def test_their_training_client_gets_one_sequence_a_seat(vf, tmp_path):
    """Token by token from our generate server: each seat's own tokens are sampled ones, the other's are not there."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rlvr.adapters.serving.generate_server import GenerateServer
    from rlvr.agents.models.tiny import build_tiny

    build_tiny(tmp_path / "tiny", hidden=32, layers=1)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "tiny", dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tiny")
    env = make_env(vf, taskset={"kwargs": {"brief": True}, "use_system": False})
    renderer = {"name": "custom", "import_path": "rlvr.adapters.trainers.renderers.AppendingRenderer"}
    with GenerateServer(model, end_ids=[tokenizer.eos_token_id], max_length=1024, api_key=None) as server:
        folder = str(tmp_path / "tiny")
        client = vf.TrainClientConfig(base_url=server.url, renderer_model_name=folder, renderer=renderer)
        context = vf.ModelContext(
            model="rlvr", client=client, sampling=vf.SamplingConfig(temperature=1.0, max_tokens=8)
        )

        async def run():
            async with env.serving():
                return [await env.run_slot(slot, context) for task in env.taskset for slot in env.slots(task)]

        episodes = asyncio.run(run())
    for episode in episodes:
        assert episode.ok
        for trace in episode.traces:
            (branch,) = trace.branches
            tokens = TokenSequence(branch.token_ids, [int(mask) for mask in branch.sampled_mask], branch.logprobs)
            sequence = kit.PlayedEpisode(kit.say_specs(1)[0], 0.0, tokens)
            assert len(kit.segments(tokens.mask)) == trace.num_turns
            assert kit.check_logprobs(sequence, model) < 1e-5


@foreign
def test_vf_eval_plays_both_seats(vf, tmp_path):
    command = [
        Path(sys.executable).with_name("vf-eval"),
        "rlvr-seats",
        "--env.taskset.env",
        KUHN,
        "-n",
        "3",
        "-m",
        "policy",
    ]
    with Server() as server:
        command += ["--env.seat-1.model", "frozen", "--client.base-url", server.url, "--client.api-key-var", "KEY"]
        command += ["--no-rich", "--output-dir", "out", "--run.name", "trial"]
        variables = os.environ | {"HOME": str(tmp_path), "KEY": "none"}
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (tmp_path / "out" / "trial" / "traces.jsonl").read_text().splitlines()
    for line in lines:
        traces = {trace["agent"]["name"]: trace for trace in json.loads(line)["traces"]}
        assert sorted(traces) == ["seat_0", "seat_1"]
        assert sum(trace["rewards"]["return"]["score"] for trace in traces.values()) == 1.0
        assert not traces["seat_1"]["agent"]["trainable"]
    assert len(lines) == 3
