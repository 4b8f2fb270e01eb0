"""Where an episode begins whose server drains, died, was restarted, or serves something else now."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from rlvr.adapters import connect, connect_vector
from rlvr.adapters.fleet import cluster
from rlvr.adapters.serving.connect import RemoteError
from rlvr.adapters.serving.serve import EnvServer
from rlvr.agents import ConstantAgent, Rollout, RolloutRequest
from rlvr.envs.tasks.digests import env_digest

from .hostile import saying

GUESS = "rlvr/GuessNumber-v0"
COUNTDOWN = "rlvr/Countdown-v0"
SETTINGS = {"level": 3, "max_turns": 12}
TOKEN = "sixteen-or-more-letters"
NOTHING = "no number"


def server(port: int = 0, env_id: Any = GUESS, settings: Any = SETTINGS, **others: Any) -> EnvServer:
    others = {"limit": 8, "token": None, "drain": 60.0} | others
    return EnvServer(env_id, settings, port=port, **others)


@pytest.fixture
def two() -> Iterator[list[EnvServer]]:
    running = [server().__enter__(), server().__enter__()]
    yield running
    for one in running:
        one.__exit__()


def direct() -> gym.Env[Any, str]:
    return gym.make(GUESS, **SETTINGS).unwrapped


def home(env: Any, running: list[EnvServer]) -> EnvServer:
    """The server where an environment's session is."""
    return next(one for one in running if one.sessions and env._session in one.sessions)


def kill(one: EnvServer) -> None:
    one._uvicorn.force_exit = True
    one.__exit__()


def play(env: Any, seed: int, options: Any = None) -> list[Any]:
    """A reset and some turns."""
    return [env.reset(seed=seed, options=options), *(env.step(f"\\boxed{{{guess}}}") for guess in (1, 500, 7))]


@pytest.mark.parametrize("ended", ["draining", "gone", "vanished sessions"])
@pytest.mark.parametrize("under_way", [False, True])
def test_a_reset_moves_to_another_server_and_begins_the_same_episode(two: list[EnvServer], ended: str, under_way: bool):
    with connect([one.url for one in two]) as env, connect([one.url for one in two]) as other:
        for played in (env, other):  # one on each server
            played.reset(seed=0)
        while not under_way and not any(env.step(NOTHING)[2:4]):
            pass
        first = home(env, two)
        if ended == "draining":
            first._app.draining = first.sessions.draining = True
        elif ended == "gone":
            kill(first)
        else:
            for key in list(first.sessions._sessions):
                first.sessions._end(key)
        options = {"level": 2}
        assert play(env, 11, options) == play(direct(), 11, options)
        assert play(env, 12) == play(direct(), 12)
        if ended != "vanished sessions":
            assert home(env, two) is home(other, two) is not first
        assert other.step(NOTHING)[4]["verdict"].valid, "the other's episode is its own"


def test_sessions_of_a_lost_server_spread_over_the_others(two: list[EnvServer]):
    with server() as third, contextlib.ExitStack() as stack:
        running = [*two, third]
        envs = [stack.enter_context(connect([one.url for one in running])) for _ in range(12)]
        for env in envs:
            env.reset(seed=0)
        assert [len(one.sessions) for one in running] == [4, 4, 4]
        two[0]._app.draining = two[0].sessions.draining = True
        for env in envs:
            env.reset(seed=1)
        assert [len(one.sessions) for one in running[1:]] == [6, 6]


@pytest.mark.parametrize("ended", ["draining", "gone"])
def test_no_server_left_is_one_sentence_about_all(two: list[EnvServer], ended: str):
    with connect([one.url for one in two]) as env:
        env.reset(seed=0)
        for one in two:
            if ended == "draining":
                one._app.draining = one.sessions.draining = True
            else:
                kill(one)
        for _ in range(2):
            with pytest.raises(ConnectionError, match="none of the 2 servers takes an episode now: ") as raised:
                env.reset(seed=1)
            assert all(one.url in str(raised.value) for one in two)
            assert "\n" not in str(raised.value)
        if ended == "draining":
            assert str(raised.value).count("begins nothing new") == 2
            two[1]._app.draining = two[1].sessions.draining = False
            assert env.reset(seed=1) == direct().reset(seed=1)


def test_all_full_is_said_by_the_code_that_says_try_later(two: list[EnvServer]):
    with connect([one.url for one in two]) as env:
        holding = [connect_vector(one.url, 8) for one in two]
        for vector in holding:
            vector.reset()
        with pytest.raises(RemoteError, match="none of the 2 servers") as raised:
            env.reset(seed=0)
        assert raised.value.code == "full"
        for vector in holding:
            vector.close()


def test_what_the_environment_refuses_moves_nothing(two: list[EnvServer]):
    with connect([one.url for one in two]) as env:
        env.reset(seed=0)
        session = env._session
        with pytest.raises(ValueError, match="level"):
            env.reset(seed=0, options={"level": -1})
        assert env._session == session
        assert sum(len(one.sessions) for one in two) == 1


def test_a_server_that_does_not_answer_a_reset_is_passed_over():
    silent = []

    def say(kind: str, message: Any) -> Any:
        return [] if kind == "reset" and silent else message

    with saying(say) as first, saying(lambda kind, message: message) as second:
        for addresses in ([first, second], [second, first]):
            with connect(addresses, timeout=1.0) as env, connect(addresses, timeout=1.0) as other:
                env.reset(seed=0)
                other.reset(seed=0)
                silent.append(True)
                assert env.reset(seed=1)[0] == other.reset(seed=1)[0] == "go"
                silent.clear()
        silent.append(True)
        with connect(first, timeout=1.0) as env, pytest.raises(TimeoutError, match="did not answer within 1 s"):
            env.reset(seed=0)


@pytest.mark.parametrize("idle", [False, True])
def test_a_reset_after_a_restart_begins_anew(idle: bool):
    with server() as one:
        env, vector = connect(one.url), connect_vector(one.url, 3)
        env.reset(seed=0)
        vector.reset(seed=0)
        kill(one)
        if not idle:
            with pytest.raises(ConnectionError, match="there is no server at"):
                env.step(NOTHING)
            with pytest.raises(ConnectionError, match="there is no server at"):
                vector.step([NOTHING] * 3)
    with server(one.port):
        assert env.reset(seed=5) == direct().reset(seed=5)
        assert vector.reset(seed=5)[0][2] == direct().reset(seed=7)[0]
        env.close()
        vector.close()


def test_an_episode_under_way_ends_with_its_restarted_server():
    with server() as one:
        env, vector = connect(one.url), connect_vector(one.url, 2)
        env.reset(seed=0)
        vector.reset(seed=0)
        kill(one)
    lost = "was restarted, and the episodes there are lost: call reset"
    with server(one.port):
        with pytest.raises(ConnectionError, match=lost):
            env.step(NOTHING)
        with pytest.raises(ConnectionError, match=lost):  # a mask: the other's episode is under way
            vector.reset(seed=1, options={"reset_mask": np.array([True, False])})
        env.close()
        vector.close()


def test_sessions_of_a_vector_that_ended_are_opened_again_where_they_are_reset(two: list[EnvServer]):
    one = two[0]
    vector = connect_vector(one.url, 4, autoreset_mode="Disabled")
    vector.reset(seed=0)
    vector.step([NOTHING] * 4)
    one.sessions._end(vector._sessions[2])
    observations, _ = vector.reset(seed=20, options={"reset_mask": np.array([False, False, True, False])})
    assert observations[2] == direct().reset(seed=22)[0]
    assert [info["turn"] for info in vector.step([NOTHING] * 4)[4].rows] == [2, 2, 1, 2]
    vector.close()


def test_a_vector_leaves_a_server_that_does_not_answer_a_reset():
    silent = []

    def say(kind: str, message: Any) -> Any:
        return [] if kind == "reset" and silent else message

    with saying(say) as first, saying(lambda kind, message: message) as second:
        vector = connect_vector([first, second], 4, timeout=1.0)
        vector.reset(seed=0)
        silent.append(True)
        assert vector.reset(seed=1)[0] == ("go",) * 4
        assert [member.sessions for member in vector._members.all] == [0, 4]
        vector.close()


def test_a_vector_says_that_all_drain(two: list[EnvServer], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    vector = connect_vector([one.url for one in two], 4)
    vector.reset(seed=0)
    for one in two:
        one._app.draining = one.sessions.draining = True
    with pytest.raises(ConnectionError, match=r"begins nothing new.*begins nothing new"):
        vector.reset(seed=1)
    vector.close()


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "level": ("level is 1 there, and 3 elsewhere", {"settings": SETTINGS | {"level": 1}}),
    "turns": ("max_turns is 5 there, and 12 elsewhere", {"settings": SETTINGS | {"max_turns": 5}}),
    "tools": ("its settings are others", {"settings": SETTINGS | {"tools": ["calculator"]}}),
    "id": ("env_id is 'rlvr/Countdown-v0' there", {"env_id": COUNTDOWN, "settings": None}),
    "ids": ("several environments are served here", {"env_id": [GUESS, COUNTDOWN], "settings": None}),
    "token": ("Authorization", {"token": TOKEN}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_server_that_serves_something_else_since_its_restart_is_not_played(change: str):
    said, others = CHANGES[change]
    kind = {"token": PermissionError, "ids": RemoteError}.get(change, ConnectionError)
    with server() as one, server() as two:
        alone, vector = connect(one.url), connect_vector(one.url, 2)
        both, cluster_of_both = connect([one.url, two.url]), connect_vector([one.url, two.url], 4)
        envs = [alone, vector, both, cluster_of_both]
        for env in envs:
            env.reset(seed=0)
        elsewhere = both._at == 1
        kill(one)
        with server(one.port, **others):
            for env in (alone, vector):
                for _ in range(2):
                    with pytest.raises(kind, match=said):
                        env.reset(seed=1)
            for seed in (1, 2):
                assert both.reset(seed=seed) == direct().reset(seed=seed)
                assert cluster_of_both.reset(seed=seed)[0][0] == direct().reset(seed=seed)[0]
            assert both._at == 1 or elsewhere
            assert [member.sessions for member in cluster_of_both._members.all] == [0, 4]
        kill(two)
        with server(one.port):  # as it was
            for env in envs:
                observation = env.reset(seed=3)[0]
                assert (observation if isinstance(observation, str) else observation[0]) == direct().reset(seed=3)[0]
                env.close()


def test_a_served_environment_has_the_digest_that_its_server_reports(two: list[EnvServer]):
    with connect(two[0].url) as env:
        assert env.env_digest == env_digest(env) == env_digest(direct())
        (episode,) = Rollout(env, ConstantAgent())([RolloutRequest(0)])
        assert episode.env_digest == env_digest(direct())


@pytest.mark.parametrize("asked", [{}, {"level": 2}])
def test_servers_of_different_things_are_not_mixed(two: list[EnvServer], asked: dict[str, Any]):
    """The level is asked for in each reset, where it is given at all."""
    with server(settings=SETTINGS | {"level": 1}) as other, connect([two[0].url, other.url], **asked) as env:
        if asked:
            with env.spawn() as more:
                assert more.reset(seed=1) == env.reset(seed=1) == gym.make(GUESS, level=2, max_turns=12).reset(seed=1)
            return
        with pytest.raises(ValueError, match=r"serves something else: level is [13] there"):
            env.spawn()
        env.reset(seed=0)
        for one in (two[0], other):
            if env._session in one.sessions:
                one._app.draining = one.sessions.draining = True
        with pytest.raises(ConnectionError, match="serves something else: level is"):
            env.reset(seed=0)


def test_a_session_that_used_up_its_steps_gives_its_place_back():
    with server(limit=4, session_steps=3) as one, connect(one.url) as env:
        vector = connect_vector(one.url, 3, autoreset_mode="Disabled")
        for seed in range(6):  # each uses up a session
            env.reset(seed=seed)
            for _ in range(3):
                env.step(NOTHING)
            with pytest.raises(RemoteError, match="a session has 3 steps here"):
                env.step(NOTHING)
        for seed in range(3):
            vector.reset(seed=seed)
            for turn in (1, 2, 3):
                assert [info["turn"] for info in vector.step([NOTHING] * 3)[4].rows] == [turn] * 3
            _, rewards, _, truncated, infos = vector.step([NOTHING] * 3)
            assert truncated.all()
            assert not rewards.any()
            assert {info["verdict"].status for info in infos.rows} == {"env_error"}
        vector.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_session_that_is_gone_in_an_episode_costs_that_one_alone(two: list[EnvServer], mode: str):
    one = two[0]
    vector = connect_vector(one.url, 4, autoreset_mode=mode)
    vector.reset(seed=0)
    vector.step([NOTHING] * 4)
    for index in (0, 2):
        one.sessions._end(vector._sessions[index])
    _, rewards, _, truncated, infos = vector.step([NOTHING] * 4)
    assert (list(truncated), rewards.any()) == ([True, False, True, False], False)
    final = [info.get("final_info", info)["verdict"].valid for info in infos.rows]
    assert final == [False, True, False, True]
    for _ in range(2):
        infos = vector.step([NOTHING] * 4)[4]
    assert [info["turn"] for info in infos.rows] == ([1, 4, 1, 4] if mode == "NextStep" else [2, 4, 2, 4])
    assert len(one.sessions) == 4
    vector.close()


def test_a_token_in_an_address_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    with server(token="", limit=1) as one, server(token="", limit=1) as other:
        shown = []
        env, vector = connect([one.url, other.url]), connect_vector([one.url, f"dns+{other.url}"], 2)
        vector.reset(seed=0)
        with pytest.raises(RemoteError) as full:
            env.reset(seed=0)
        shown.append(str(full.value))
        with pytest.raises(ValueError, match="something else") as wrong, server(settings=None, token="") as third:
            connect_vector([third.url, other.url], 2)
        shown.append(str(wrong.value))
        for running in (one, other):
            kill(running)
        for lost in (env, vector):
            with pytest.raises(ConnectionError) as gone:
                lost.reset(seed=0)
            shown.append(str(gone.value))
        with pytest.raises(ConnectionError) as nowhere:
            connect_vector(f"dns+http://no-such-name.invalid/?token={one.token}", 2)
        shown.append(str(nowhere.value))
        text = "\n".join([*shown, caplog.text])
        assert one.token not in text
        assert other.token not in text
        assert f"127.0.0.1:{one.port}" in text


@pytest.mark.parametrize("url", [None, 5, [5], ["http://127.0.0.1:9", None], b"http://127.0.0.1:9", {"a": 1}.keys])
def test_what_is_no_address_is_said_as_such(url: Any):
    for make in (connect, lambda address: connect_vector(address, 2)):
        with pytest.raises(TypeError, match="url must be the address of a server, or a list of such; got"):
            make(url)


def test_a_name_that_leads_elsewhere_is_followed_at_a_reset(monkeypatch: pytest.MonkeyPatch):
    """One address for all, as of a service of Kubernetes': a pod that drains is left out of the name."""
    real, leads = socket.getaddrinfo, ["127.0.0.1"]

    def lookup(host: Any, *args: Any, **others: Any) -> Any:
        return real(leads[0] if host == "fleet.test" else host, *args, **others)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with (
        server(hosts=["fleet.test"]) as one,
        server(one.port, host="127.0.0.2", hosts=["fleet.test"]) as two,
        connect(f"http://fleet.test:{one.port}") as env,
    ):
        env.reset(seed=0)
        one._app.draining = one.sessions.draining = True
        with pytest.raises(ConnectionError, match="begins nothing new"):
            env.reset(seed=1)
        leads[0] = "127.0.0.2"
        for seed in (1, 2):
            assert env.reset(seed=seed) == direct().reset(seed=seed)
        assert (len(one.sessions), len(two.sessions)) == (1, 1)
        kill(two)
        one._app.draining = one.sessions.draining = False
        leads[0] = "127.0.0.1"
        assert env.reset(seed=3) == direct().reset(seed=3)


def test_a_reset_waits_for_a_server_where_it_may(two: list[EnvServer]):
    urls = [one.url for one in two]
    with connect(urls, patience=120.0) as env, ThreadPoolExecutor(2) as pool:
        env.reset(seed=0)
        for one in two:
            kill(one)
        waiting = pool.submit(env.reset, seed=5)
        spawning = pool.submit(env.spawn)
        with connect_error():
            connect(urls, patience=120.0)  # the first finds one, or says so
        assert not waiting.done()
        two[1] = server(two[1].port).__enter__()
        assert waiting.result(60) == direct().reset(seed=5)
        with spawning.result(60) as other:
            assert other.reset(seed=6) == direct().reset(seed=6)
    with connect([one.url for one in two], patience=0.1) as env:
        env.reset(seed=0)
        for one in two:
            kill(one)
        for begin in (env.reset, env.spawn, env.reset):
            with connect_error():
                begin()


def connect_error() -> Any:
    return pytest.raises(ConnectionError, match=r"there is no server at http://127\.0\.0\.1")


def test_all_spawned_wait_for_the_same_outage(two: list[EnvServer], monkeypatch: pytest.MonkeyPatch):
    """Not one after another, each for its own time: a batch would take hours to fail."""
    waits: list[float] = []
    with connect(two[0].url, patience=1e6) as env, env.spawn() as other:
        env.reset(seed=0)
        kill(two[0])

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                env._outage.since -= 1e6

        monkeypatch.setattr("rlvr.adapters.serving.connect.time.sleep", wait)
        for begin in (env.reset, other.reset, env.spawn):
            with connect_error():
                begin()
        assert len(waits) == 3
