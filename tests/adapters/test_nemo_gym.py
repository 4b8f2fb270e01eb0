"""NeMo Gym's own agent and command over our resources server, and their servers through our bridge."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.adapters import rows, versions
from rlvr.adapters import testing as kit
from rlvr.adapters.serving.loopback import LoopbackServer
from rlvr.adapters.spec import require_tools_in_prompt
from rlvr.adapters.suites import nemo_gym as adapter
from rlvr.envs import Verdict
from rlvr.envs.tools import Call, write_call

from .loopback_app import free_socket, serving
from .plugin_site import ID, export_plugin, install_plugin

MULTI, REMOTE = "rlvr/GuessNumber-v0", "rlvr/nemo_gym.Remote-v0"
MODULES = ["rlvr", kit.MODULE]
foreign = pytest.mark.foreign


# without it


@pytest.mark.parametrize(
    ("found", "complaint"), [(None, "nemo-gym is not installed"), ("0.3.1", r"nemo-gym 0\.3\.1 is too old")]
)
def test_a_missing_or_older_nemo_gym_is_named(monkeypatch, found, complaint):
    def version(package):
        if found is None:
            raise versions.metadata.PackageNotFoundError(package)
        return found

    if adapter.BaseResourcesServerConfig is not object:
        pytest.skip("it is installed")
    monkeypatch.setattr(versions.metadata, "version", version)
    for ask in (adapter.RlvrServer, adapter.RlvrServer.run_webserver):
        with pytest.raises(ImportError, match=complaint + ".*nemo-gym>=0.4,<0.8"):
            ask()


def test_a_project_has_what_their_command_looks_for(tmp_path):
    yaml = pytest.importorskip("yaml")
    config = adapter.write_project(tmp_path, MULTI, 3, kwargs={"level": 2}, requirement="rlvr @ file:///here")
    home = tmp_path / "resources_servers" / "rlvr"
    written = yaml.safe_load(config.read_text())
    agent = written["rlvr_agent"]["responses_api_agents"]["gymnasium_agent"]
    turns = gym.make(MULTI, level=2).unwrapped.task.turns(2)
    assert agent["max_steps"] == turns > 1
    assert agent["resources_server"]["name"] in written
    table = [json.loads(line) for line in (tmp_path / agent["datasets"][0]["jsonl_fpath"]).read_text().splitlines()]
    assert len(table) == 3
    assert table[0]["agent_ref"]["name"] in written
    assert (home / "requirements.txt").read_text() == "rlvr @ file:///here\n"
    compile((home / "app.py").read_text(), "app.py", "exec")


# with it


def server(**settings):
    """Our resources server, as their command would make it."""
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf

    config = adapter.RlvrServerConfig(
        host="127.0.0.1", port=1, entrypoint="app.py", name="rlvr", domain="other", modules=MODULES, **settings
    )
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create({})
    )
    return adapter.RlvrServer(config=config, server_client=client)


def application(made):
    app = made.setup_webserver()
    made.setup_exception_middleware(app)
    return app


def agent(ports, max_steps=8):
    """Their gymnasium_agent between the servers at these ports."""
    from nemo_gym.config_types import BaseServerConfig, ModelServerRef, ResourcesServerRef
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf
    from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig

    kinds = {"rlvr": "resources_servers", "policy_model": "responses_api_models"}
    tree = {
        name: {kind: {name: {"entrypoint": "app.py", "host": "127.0.0.1", "port": ports[name], "domain": "other"}}}
        for name, kind in kinds.items()
    }
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create(tree)
    )
    config = GymnasiumAgentConfig(
        host="127.0.0.1",
        port=1,
        entrypoint="app.py",
        name="rlvr_agent",
        resources_server=ResourcesServerRef(type="resources_servers", name="rlvr"),
        model_server=ModelServerRef(type="responses_api_models", name="policy_model"),
        max_steps=max_steps,
    )
    return GymnasiumAgent(config=config, server_client=client)


def answer_of(text):
    """A policy's words as the Responses API has them."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    head = {"id": "r", "created_at": 0.0, "model": "m", "object": "response"}
    return {**head, "output": [message], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def text_of(item):
    content = item.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@contextmanager
def policy(reply):
    """A model behind ``/v1/responses``; ``reply`` makes the next words of the conversation so far."""

    def answer(request):
        return answer_of(reply("\n".join(text_of(item) for item in request.body["input"])))

    running = LoopbackServer(answer, key=None)
    try:
        yield int(running.url.rpartition(":")[2])
    finally:
        running.close()


@contextmanager
def stack(reply, **settings):
    """The three servers of an episode; the agent's address, and our resources server."""
    from nemo_gym import server_utils

    made = server(**settings)
    with ExitStack() as running:
        model = running.enter_context(policy(reply))
        resources = running.enter_context(serving(application(made)))
        ports = {"rlvr": int(resources.rpartition(":")[2]), "policy_model": model}
        app = application(agent(ports))

        @app.middleware("http")
        async def client_of_this_loop(request, call_next):
            # Theirs is made by their command, once in a process; here each agent has a loop of its own.
            if server_utils._GLOBAL_AIOHTTP_CLIENT is None:
                server_utils.set_global_aiohttp_client(server_utils.GlobalAIOHTTPAsyncClientConfig())
            return await call_next(request)

        try:
            yield running.enter_context(serving(app)), resources, made
        finally:
            server_utils._GLOBAL_AIOHTTP_CLIENT = None


def post(url, body, cookie=""):
    headers = {"Content-Type": "application/json"} | ({"Cookie": cookie} if cookie else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read()), (reply.headers["Set-Cookie"] or "").partition(";")[0]


def row_of(spec):
    session = kit.TaskSpec.parse(spec)
    try:
        _, observation, info = session.start()
    except OSError:
        observation, info = "?", {}
    require_tools_in_prompt(session.env_id, info)  # as `rows` does
    messages = [{"role": "system", "content": info.get("system", "?")}, {"role": "user", "content": observation}]
    return {"responses_create_params": {"input": messages}, "spec": session.to_json()}


@foreign
def test_the_adapter_conforms_under_their_agent_with_concurrent_episodes():
    pytest.importorskip("nemo_gym")

    def play(specs, engine):
        failed = []

        def reply(text):
            try:
                return engine.reply(text)
            except kit.EngineFault as error:
                failed.append(error)
                raise

        with stack(reply) as (url, _, made), ThreadPoolExecutor(8) as pool:
            episodes = list(pool.map(lambda spec: play_one(url, spec, failed), specs))
            assert made.session_state == {}
        return episodes

    print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False, groups=4)))


def play_one(url, spec, failed) -> kit.PlayedEpisode:
    try:
        told, _ = post(f"{url}/run", row_of(spec))
    except urllib.error.HTTPError as error:
        said = error.read().decode()
        if failed:
            raise failed[0] from None
        return kit.PlayedEpisode(spec, None) if "on purpose" in said else pytest.fail(said)
    said = [text_of(item) for item in told["response"]["output"] if item.get("role") == "assistant"]
    assert told["terminated"] != told["truncated"]
    return kit.PlayedEpisode(spec, told["reward"], None, said, Verdict.from_dict(told["info"]["verdict"]))


@foreign
def test_rows_are_played_from_their_own_beginning_and_a_limit_is_truncated():
    pytest.importorskip("nemo_gym")
    with stack(lambda text: "no number") as (url, _, _):
        for row in rows(MULTI, 2, "nemo_gym", kwargs={"level": 2}):
            told, _ = post(f"{url}/run", row)
            assert told["truncated"]
            assert not told["terminated"]
            assert told["reward"] == 0.0
            said = told["responses_create_params"]["input"]
            assert [message["content"] for message in said] == [
                message["content"] for message in row["responses_create_params"]["input"]
            ]


@foreign
def test_what_the_resources_server_refuses():
    pytest.importorskip("nemo_gym")
    made = server()
    row = rows(MULTI, 1, "nemo_gym")[0]
    with serving(application(made)) as url:
        for wrong, status in [
            (row | {"spec": ""}, 400),
            (row | {"spec": "{"}, 400),
            (row | {"spec": row["spec"].replace('"rlvr"', '"antigravity"')}, 400),
            (row | {"spec": row["spec"].replace("GuessNumber", "NoSuch")}, 500),
        ]:
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(f"{url}/reset", wrong)
            assert caught.value.code == status
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(f"{url}/step", row | {"response": answer_of("5")})
        assert caught.value.code == 409
        assert "antigravity" not in sys.modules
    assert made.session_state == {}


@foreign
def test_pages_of_a_browser_do_not_play():
    pytest.importorskip("nemo_gym")
    from .test_guard import ATTACKS, PROGRAMS, ask

    made = server()
    body = json.dumps(rows(MULTI, 1, "nemo_gym")[0]).encode()
    with serving(application(made)) as url:
        for headers in ATTACKS.values():
            assert ask(url, headers, body)[0] == 403
        assert made.session_state == {}
        for headers in PROGRAMS.values():
            assert ask(url, headers | {"Content-Type": "application/json"}, body)[0] == 200


@foreign
def test_a_step_that_arrives_twice_is_played_once():
    pytest.importorskip("nemo_gym")
    made = server()
    row = rows(MULTI, 1, "nemo_gym")[0]
    with serving(application(made)) as url:
        info, cookie = post(f"{url}/reset", row)
        assert info["info"]["supports_step_idempotency"]
        body = row | {"response": answer_of("no number"), "_ng_step_request_id": "one"}
        first, _ = post(f"{url}/step", body, cookie)
        assert post(f"{url}/step", body, cookie)[0] == first
        assert first["info"]["turn"] == 1
        assert post(f"{url}/step", body | {"_ng_step_request_id": "two"}, cookie)[0]["info"]["turn"] == 2
        post(f"{url}/close", {}, cookie)
        assert made.session_state == {}


@foreign
def test_episodes_that_nobody_steps_are_dropped():
    pytest.importorskip("nemo_gym")
    made = server(idle_seconds=0.0)
    row = rows(MULTI, 1, "nemo_gym")[0]
    with serving(application(made)) as url:
        for _ in range(3):
            post(f"{url}/reset", row)
        assert len(made.session_state) == 1


SERVERS = (
    "resources_servers/rlvr",
    "responses_api_agents/gymnasium_agent",
    "responses_api_models/openai_model",
    "environment_servers/legacy_agent",  # from 0.7 on
)


def bisect(text):
    """Finds the number of GuessNumber from what was said so far."""
    if not (bounds := re.findall(r"from (\d+) to (\d+)", text)):
        return kit.obey(text)
    low, high = map(int, bounds[-1])
    for guess, answer in re.findall(r"^(\d+)\n(higher|lower)$", text, re.MULTILINE):
        low, high = (int(guess) + 1, high) if answer == "higher" else (low, int(guess) - 1)
    return str((low + high) // 2)


@foreign
def test_a_written_project_under_their_own_command_and_rollout_collection(tmp_path):
    pytest.importorskip("nemo_gym")
    bin_of = Path(sys.prefix) / "bin"
    config = adapter.write_project(tmp_path, MULTI, 4, kwargs={"level": 2}).relative_to(tmp_path)
    data = tmp_path / "resources_servers" / "rlvr" / "data" / "example.jsonl"
    splits_failures = versions.numbers(versions.metadata.version("nemo-gym")) >= (0, 7)
    if splits_failures:
        agent_ref = {"type": "responses_api_agents", "name": "rlvr_agent"}
        broken = [row_of(kit.say_specs(1, fault=fault)[0]) | {"agent_ref": agent_ref} for fault in kit.FAULTS]
        data.write_text(data.read_text() + "".join(json.dumps(row) + "\n" for row in broken))
        listed = (tmp_path / config).read_text()
        (tmp_path / config).write_text(listed.replace('["rlvr"]', json.dumps(MODULES)))
    for name in SERVERS:  # each has an environment of its own, which uv would fill: here all have this one
        (tmp_path / "venvs" / name).mkdir(parents=True)
        (tmp_path / "venvs" / name / ".venv").symlink_to(sys.prefix)
    with free_socket() as at:
        head = ["+head_server.host=127.0.0.1", f"+head_server.port={at.getsockname()[1]}"]
    model = "responses_api_models/openai_model/configs/openai_model.yaml"
    common = {"cwd": tmp_path, "env": os.environ | {"PATH": f"{bin_of}:{os.environ['PATH']}", "WANDB_MODE": "offline"}}
    with policy(bisect) as port, (tmp_path / "run.log").open("w") as log:
        start = [bin_of / "ng_run", f"+config_paths=[{config},{model}]", *head, "+skip_venv_if_present=true"]
        start += [f"+policy_base_url=http://127.0.0.1:{port}/v1", "+policy_api_key=x", "+policy_model_name=m"]
        start += [f"+uv_venv_dir={tmp_path}/venvs"]
        launch = partial(
            subprocess.Popen, start, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, **common
        )
        running, again = launch(), 3
        try:
            until = time.monotonic() + 400
            while not re.search(r"All \d+ / \d+ servers ready", told := (tmp_path / "run.log").read_text()):
                if running.poll() is not None and again and "timed out during startup" in told:
                    running, again = launch(), again - 1  # Ray gives its node 30 seconds, however busy the machine
                assert running.poll() is None, told[-3000:]
                assert time.monotonic() < until, told[-3000:]
                time.sleep(1)
            collect = [bin_of / "ng_collect_rollouts", "+agent_name=rlvr_agent", f"+input_jsonl_fpath={data}", *head]
            collect += [f"+output_jsonl_fpath={tmp_path}/rollouts.jsonl"]
            collect += ["+route_failures_to_sidecar=true"] * splits_failures
            done = subprocess.run(collect, capture_output=True, text=True, timeout=200, **common)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        finally:
            os.killpg(running.pid, signal.SIGINT)
            try:
                running.wait(30)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
    episodes = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    assert [(e["reward"], e["terminated"], e["info"]["success"]) for e in episodes] == [(1.0, True, True)] * 4
    if splits_failures:
        failures = (tmp_path / "rollouts_failures.jsonl").read_text()
        assert failures.count("agent_run_error") == failures.count("on purpose") == len(kit.FAULTS)


@foreign
def test_their_own_checks_of_an_exported_plug_in_pass_and_fail_where_it_is_broken(tmp_path):
    pytest.importorskip("nemo_gym")
    project = tmp_path / "project"
    variables = install_plugin(tmp_path / "site")
    export_plugin(variables, "--nemo-gym", project, "--episodes", "3")
    config = "resources_servers/rlvr/configs/rlvr.yaml"

    def checked(*words):
        command = [Path(sys.executable).with_name("gym"), *words, "--config", config]
        return subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, timeout=200)

    collate = ("dataset", "collate", "--mode", "example_validation", "--output-dir", "collated")
    for words in (("env", "validate"), collate):
        done = checked(*words)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rows = (project / "collated" / "example.jsonl").read_text().splitlines()
    assert [json.loads(json.loads(row)["spec"])["env_id"] for row in rows] == [ID] * 3
    written = (project / config).read_text()
    (project / config).write_text(written.replace("name: rlvr\n", "name: another\n"))
    assert checked("env", "validate").returncode != 0


# the other direction


@foreign
def test_our_server_through_our_bridge_is_what_direct_stepping_is():
    pytest.importorskip("nemo_gym")
    table = rows(MULTI, 4, "nemo_gym", kwargs={"level": 2})
    made = server()
    with serving(application(made)) as url:
        env = gym.make(REMOTE, url=url, rows=table)
        for index, row in enumerate(table):
            spec = kit.TaskSpec.parse(row["spec"])
            direct, expected, facts = spec.start()
            observation, info = env.reset(seed=0, options={"index": index})
            assert (observation, info["system"]) == (expected, facts["system"])
            over = False
            while not over:
                action = direct.unwrapped.solve()
                here, there = direct.step(action), env.step(action)
                assert here[1:4] == there[1:4]
                over = here[2] or here[3]
                assert over or here[0] == there[0]
            assert here[4]["success"] == there[4]["success"]
        env.close()
    assert made.session_state == {}


@foreign
def test_a_server_of_theirs_that_scores_answers_is_played():
    """Calls go to its tools, in one session; a text without a call is scored, with all that was said before it."""
    pytest.importorskip("nemo_gym")
    import resources_servers.example_session_state_mgmt.app as theirs
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf

    config = theirs.StatefulCounterResourcesServerConfig(
        host="127.0.0.1", port=1, entrypoint="app.py", name="theirs", domain="other"
    )
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create({})
    )
    made = theirs.StatefulCounterResourcesServer(config=config, server_client=client)
    table = [json.loads(line) for line in (Path(theirs.__file__).parent / "data" / "example.jsonl").open()]
    with serving(application(made)) as url:
        env = gym.make(REMOTE, url=url, rows=table)
        for index, row in enumerate(table):
            for right in (True, False):
                _, info = env.reset(seed=0, options={"index": index})
                assert [tool["function"]["name"] for tool in info["tools"]] == [
                    "increment_counter",
                    "get_counter_value",
                ]
                missing = row["expected_count"] - row["initial_count"] + (0 if right else 1)
                told, reward, over, _, info = env.step(
                    write_call(Call("increment_counter", {"count": missing}), "hermes")
                )
                assert (reward, over, info["role"]) == (0.0, False, "tool")
                assert "success" in told
                told, *_ = env.step(write_call(Call("get_counter_value", {}), "hermes"))
                assert str(row["initial_count"] + missing) in told
                assert not env.step(write_call(Call("verify", {}), "hermes"))[2]
                *_, reward, over, _, info = env.step("That is all.")
                assert (reward, over, info["success"]) == (float(right), True, right)
        env.close()


@foreign
def test_a_server_of_theirs_is_played():
    pytest.importorskip("nemo_gym")
    import resources_servers.example_multi_turn_gymnasium.app as theirs
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf

    config = adapter.RlvrServerConfig(host="127.0.0.1", port=1, entrypoint="app.py", name="theirs", domain="other")
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=OmegaConf.create({})
    )
    made = theirs.ExampleMultiTurnEnv(config=config, server_client=client)
    table = Path(theirs.__file__).parent / "data" / "example.jsonl"
    with serving(application(made)) as url:
        env = gym.make(REMOTE, url=url, rows=str(table))
        assert env.reset(seed=0, options={"index": 0})[0] == "What is the capital of France?"
        assert "population" in env.step("Paris")[0]
        assert "landmark" in env.step("Two million")[0]
        *_, terminated, _, info = env.step("The Eiffel Tower")
        assert terminated
        assert info["success"]
        env.reset(options={"index": 1})
        *_, info = [env.step("forty") for _ in range(2)][-1]
        assert not info["success"]
        env.close()
