"""What is known of the rows, settings and code of environments that servers play, and of other suites' packages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.agents import ConstantAgent, Rollout
from rlvr.envs import TextEnv
from rlvr.envs.bridges.gymnasium_text import GymnasiumText
from rlvr.envs.core.task import Task
from rlvr.envs.tasks.digests import differing_parts, digest_parts, env_digest

pytest.importorskip("websockets")
OPENENV, NEMO, ORS = "rlvr/openenv.Remote-v0", "rlvr/nemo_gym.Remote-v0", "rlvr/ors.Remote-v0"
OURS = "rows=0123456789abcdef settings=aaaaaaaaaaaaaaaa code=bbbbbbbbbbbbbbbb"


class Scripted(BaseHTTPRequestHandler):
    """Answers a path as its server's ``script`` says, and 404 where it says nothing."""

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        server: Any = self.server
        path = self.path.strip("/") + (f"?{body['split']}" if body else "")
        server.asked.append(path)
        answer = server.script.get(path)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write((answer if isinstance(answer, str) else json.dumps(answer)).encode())


@pytest.fixture
def server() -> Iterator[Any]:
    served: Any = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    served.script, served.asked = {}, []
    served.url = f"http://127.0.0.1:{served.server_port}"
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def digest(env_id: str, server: Any, **settings: Any) -> str:
    return env_digest(gym.make(env_id, url=server.url, disable_env_checker=True, **settings))


def row(text: str) -> dict[str, Any]:
    return {"responses_create_params": {"input": text}, "answer": 42}


def test_rows_of_nemo_gym_are_known_wherever_they_lie(server: Any, tmp_path: Path) -> None:
    table = [row("a"), row("b")]
    here = digest(NEMO, server, rows=table)
    assert "unknown" not in here
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in table))
    assert digest(NEMO, server, rows=str(tmp_path / "rows.jsonl")) == here
    for other in (table[::-1], table[:1], [row("a"), {**row("b"), "answer": 43}]):
        assert differing_parts(here, digest(NEMO, server, rows=other)) == ("rows",)
    assert differing_parts(here, digest(NEMO, server, rows=table, max_turns=3)) == ("settings",)
    assert server.asked == []


LISTED = {
    OPENENV: {
        "metadata": {"name": "words", "description": "A game of words.", "version": "1.2"},
        "list_environments": ["words"],
        "words/splits": [{"name": "train", "type": "train"}, {"name": "test", "type": "test"}],
        "words/tasks?train": {"tasks": [{"id": 1}, {"id": 2}]},
        "words/tasks?test": {"tasks": [{"id": 3}]},
    },
    ORS: {"version": {"version": "1.2", "build_sha": "abc"}, "tasks?train": {"tasks": [{"id": 1}, {"id": 2}]}},
}


@pytest.mark.parametrize(("env_id", "listing"), [(OPENENV, "words/tasks?train"), (ORS, "tasks?train")])
def test_a_server_s_tasks_and_version_are_its_rows_and_code(server: Any, env_id: str, listing: str) -> None:
    server.script = json.loads(json.dumps(LISTED[env_id]))
    here = digest(env_id, server)
    assert "unknown" not in here
    assert digest(env_id, server, timeout=5.0, headers={"X-Key": "secret"}, check_seed=False) == here
    assert differing_parts(here, digest(env_id, server, binary=True)) == ("settings",)
    server.script[listing]["tasks"][0] = {"id": 7}
    assert differing_parts(here, digest(env_id, server)) == ("rows",)
    server.script = json.loads(json.dumps(LISTED[env_id]))
    server.script["metadata" if env_id == OPENENV else "version"]["version"] = "1.3"
    assert differing_parts(here, digest(env_id, server)) == ("code",)
    del server.script[listing]
    assert digest_parts(digest(env_id, server))["rows"] == "unknown"


@pytest.mark.parametrize("env_id", [OPENENV, ORS])
def test_a_server_of_ours_reports_its_digest(server: Any, env_id: str) -> None:
    server.script = {"metadata": {"description": f"of rlvr; {OURS}"}, "version": {"env_digests": {"a-v0": OURS}}}
    here = digest(env_id, server)
    assert digest_parts(here)["rows"] == digest_parts(OURS)["rows"]
    for part, other in (("rows", "0123"), ("settings", "aaaa"), ("code", "bbbb")):
        text = OURS.replace(other, "ffff", 1)
        server.script = {"metadata": {"description": text}, "version": {"env_digests": {"a-v0": text}}}
        assert differing_parts(here, digest(env_id, server)) == (part,)


@pytest.mark.parametrize("env_id", [OPENENV, ORS])
@pytest.mark.parametrize("answer", [None, "no JSON", [], 7, {"version": None, "env_digests": [], "description": 3}])
def test_a_server_that_tells_nothing_has_unknown_rows(server: Any, env_id: str, answer: Any) -> None:
    server.script = {} if answer is None else {"metadata": answer, "version": answer}
    parts = digest_parts(digest(env_id, server))
    assert parts["rows"] == "unknown"
    assert "unknown" not in (parts["settings"], parts["code"])


@pytest.mark.parametrize("env_id", [OPENENV, ORS])
def test_a_server_that_is_away_has_an_unknown_digest_and_is_asked_again(server: Any, env_id: str) -> None:
    env = gym.make(env_id, url=server.url, disable_env_checker=True)
    away = gym.make(env_id, url="http://127.0.0.1:1", disable_env_checker=True)
    assert set(digest_parts(env_digest(away)).values()) == {"unknown"}
    assert differing_parts(env_digest(away), env_digest(env)) == ()
    asked = len(server.asked)
    assert env_digest(env) == env_digest(env.unwrapped.spawn())  # type: ignore[attr-defined]
    assert len(server.asked) == asked


def test_an_episode_of_a_server_bears_the_digest(server: Any) -> None:
    rollout = Rollout(NEMO, ConstantAgent(), env_settings={"url": server.url, "rows": [row("a")]})
    assert rollout.env_digest == digest(NEMO, server, rows=[row("a")])


def test_the_source_of_another_suite_s_package_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlvr.envs.tasks import digests

    class Bridged(Task[int]):
        packages = ("another_suite",)

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "another_suite").mkdir()
    found = set()
    for text in ("A = 1", "A = 2"):
        (tmp_path / "another_suite" / "__init__.py").write_text(text)
        digests._source.cache_clear()  # read once in a process
        found.add(env_digest(TextEnv(Bridged())))
    assert len(found) == 2


def test_an_environment_of_gymnasium_s_counts_with_the_package_that_makes_it() -> None:
    actions = ["left", "down", "right", "up"]
    task = GymnasiumText(env="FrozenLake-v1", actions=actions, success=1.0)
    assert task.packages == ("gymnasium",)
    assert "unknown" not in env_digest(TextEnv(task))
