"""OpenEnv's own server and clients over our adapter, and its servers through our bridge; refusals without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.adapters import rows, versions
from rlvr.adapters import testing as kit
from rlvr.adapters.export.openenv import write_package
from rlvr.adapters.spec import TaskSpec
from rlvr.adapters.suites import openenv as adapter
from rlvr.agents import Episode, ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.episode import Turn
from rlvr.cli import main
from rlvr.envs import Verdict
from rlvr.envs.tools.calls import Call, write_call

from .loopback_app import free_socket, serving
from .plugin_site import export_plugin, install_plugin

MULTI, REMOTE = "rlvr/GuessNumber-v0", "rlvr/openenv.Remote-v0"
TURNS = 6
foreign = pytest.mark.foreign


# without it


@pytest.mark.parametrize(
    ("found", "complaint"), [(None, "openenv is not installed"), ("0.9.1", r"openenv 0\.9\.1 is too old")]
)
def test_a_missing_or_older_openenv_is_named(monkeypatch, found, complaint):
    def version(package):
        if found is None:
            raise versions.metadata.PackageNotFoundError(package)
        return found

    monkeypatch.setattr(versions.metadata, "version", version)
    with pytest.raises(ImportError, match=complaint + ".*openenv>=0.10,<0.11"):
        adapter.server_app(MULTI)


def exported(folder, *words):
    return main(["export", "--openenv", "GuessNumber", "--level", "2", "--out", str(folder), *words])


def test_a_package_has_what_openenv_looks_for(tmp_path):
    assert exported(tmp_path) == 0
    assert all(
        (tmp_path / name).is_file()
        for name in ("openenv.yaml", "client.py", "server/Dockerfile", "validation/runtime.json")
    )
    assert '"max_turns"' not in (tmp_path / "server" / "app.py").read_text()
    write_package("rlvr/Chess-v0", tmp_path / "chess")
    assert 'tags: ["players"]' in (tmp_path / "chess" / "openenv.yaml").read_text()


class Seeded(gym.Env):
    """Text without a `Task`: it knows seeds alone."""

    action_space = observation_space = gym.spaces.Text(20, charset="seed 0123456789")

    def reset(self, *, seed=None, options=None):
        return f"seed {seed}", {}


def test_listed_tasks_of_an_environment_without_indices_differ():
    gym.register("rlvr-testing/Seeded-v0", Seeded)
    try:
        server = adapter.TextEnvironment(TaskSpec("rlvr-testing/Seeded-v0", 0), tasks=3)
        specs = [TaskSpec.parse(task["spec"]) for task in server.list_tasks("train")]
        texts = [spec.start()[1] for spec in specs]
        assert len(set(texts)) == 3
        assert [spec.start()[1] for spec in specs] == texts
    finally:
        del gym.registry["rlvr-testing/Seeded-v0"]
    ours = adapter.TextEnvironment(TaskSpec(MULTI, 0))
    spec = TaskSpec.parse(ours.get_task("test", 12)["spec"])
    assert (spec.seed, spec.options) == (0, {"split": "test", "index": 12})


# with it


def connect(url):
    from openenv.core import GenericEnvClient

    return GenericEnvClient(base_url=url).sync()


def say(message):
    return {"message": message}


@foreign
def test_the_adapter_conforms_over_a_real_server_with_concurrent_sessions():
    pytest.importorskip("openenv")

    def play(specs, engine):
        with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
            urls = {}
            for spec in specs:
                if (key := served(spec)) not in urls:
                    app = adapter.server_app(f"{kit.MODULE}:{spec.env_id}", spec.kwargs, max_sessions=8)
                    urls[key] = stack.enter_context(serving(app))
            return list(pool.map(lambda spec: play_one(urls[served(spec)], spec, engine), specs))

    print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False, groups=4)))


def served(spec):
    return spec.env_id, json.dumps(spec.kwargs)


def play_one(url, spec, engine) -> kit.PlayedEpisode:
    client = connect(url)
    try:
        client.connect()
        try:
            told = client.reset(spec=spec.to_json())
        except RuntimeError as error:
            said = str(error)
            return kit.PlayedEpisode(spec, None) if "on purpose" in said else pytest.fail(said)
        begins = [told.observation[name] for name in ("system", "tools", "text") if told.observation[name]]
        said, rewards, actions = "\n".join(map(str, begins)), [], []
        while not told.done:
            actions.append(engine.reply(said))
            told = client.step(say(actions[-1]))
            said += told.observation["text"]
            rewards.append(told.reward)
        seen = told.observation
        assert seen["turn"] == len(actions)
        assert seen["valid"] == (None not in rewards)
        reward = sum(rewards) if seen["valid"] else None
        return kit.PlayedEpisode(spec, reward, None, actions, Verdict.from_dict(seen["verdict"]))
    finally:
        client.close()


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("openenv")
    with serving(adapter.server_app(MULTI, {"level": 2, "max_turns": TURNS}, max_sessions=2)) as url:
        yield url


@foreign
def test_tasks_are_named_by_seed_split_index_and_spec(server):
    direct = gym.make(MULTI, level=2, max_turns=TURNS)
    client = connect(server)
    with client:
        for seed in (0, 7):
            assert client.reset(seed=seed).observation["text"] == direct.reset(seed=seed)[0]
        options = {"split": "test", "index": 5, "level": 1}
        expected = direct.reset(seed=0, options=options)[0]
        assert {client.reset(**options).observation["text"] for _ in range(3)} == {expected}
        (row,) = rows(MULTI, 1, seed=11, kwargs={"level": 2, "max_turns": TURNS})
        first = client.reset(spec=row["spec"], episode_id="mine").observation
        assert first["text"] == row["prompt"][-1]["content"]
        assert first["system"] == row["prompt"][0]["content"]
        state = client.state()
        assert (state["episode_id"], state["spec"], state["step_count"]) == ("mine", row["spec"], 0)
        assert "secret" not in json.dumps(state)
        for complaint, asked in {
            "no option 'indexx'": {"indexx": 1},
            "no seed and no options beside": {"spec": row["spec"], "seed": 3},
            "this server plays": {"spec": row["spec"].replace("rlvr/GuessNumber", "rlvr/Terminal")},
            "is a JSON object": {"spec": "not json"},
        }.items():
            with pytest.raises(RuntimeError, match=complaint):
                client.reset(**asked)
            with pytest.raises(RuntimeError, match="no episode is under way"):
                client.step(say("5"))


@foreign
def test_a_limit_is_truncated_and_says_so_in_a_field_of_its_own(server):
    with connect(server) as client:
        client.reset(seed=0)
        told = [client.step(say("no number")) for _ in range(TURNS)]
        assert [each.done for each in told] == [False] * (TURNS - 1) + [True]
        assert told[-1].observation["truncated"]
        assert told[-1].reward == 0.0
        with pytest.raises(RuntimeError, match="no episode is under way"):
            client.step(say("5"))
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            client.step({"message": "5", "extra": 1})


@foreign
def test_http_has_no_sessions_and_is_refused_with_a_sentence(server):
    body = json.dumps({"action": say("5")}).encode()
    request = urllib.request.Request(f"{server}/step", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert caught.value.code >= 400


@foreign
def test_rewards_of_all_turns_at_the_end_for_a_harness_that_takes_the_last():
    pytest.importorskip("openenv")
    spec = kit.say_specs(1)[0]
    app = adapter.server_app(f"{kit.MODULE}:{kit.SAY}", reward_at_end=True)
    with serving(app) as url, connect(url) as client:
        told = client.reset(spec=spec.to_json())
        rewards = []
        while not told.done:
            told = client.step(say(kit.obey(told.observation["text"])))
            rewards.append(told.reward)
    assert rewards[:2] == [None, None]
    assert rewards[2] == pytest.approx(1.0)


@foreign
def test_openenvs_own_validation_of_a_running_server_passes(server):
    from openenv.cli.__main__ import app
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["validate", "--url", server, "--json"])
    assert done.exit_code == 0, done.output


def get(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request, timeout=60).read())


@foreign
def test_tasks_are_listed_and_each_is_what_reset_plays(server):
    from openenv.core.env_server.interfaces import TaskProvider

    assert all(hasattr(adapter.TextEnvironment, name) for name in vars(TaskProvider) if name[0] != "_")
    (name,) = get(f"{server}/list_environments")
    at = f"{server}/{name}"
    assert get(f"{at}/splits") == [{"name": split, "type": split} for split in ("train", "validation", "test")]
    assert get(f"{at}/num_tasks", {"split": "test"}) == {"num_tasks": 1000}
    listed = get(f"{at}/tasks", {"split": "test"})["tasks"]
    assert [task["index"] for task in listed] == list(range(1000))
    assert get(f"{at}/task_range", {"split": "test", "start": -2})["tasks"] == listed[-2:]
    task = get(f"{at}/task", {"split": "test", "index": 12})["task"]
    assert task == listed[12]
    for path, body in {"task": {"split": "test", "index": 1000}, "num_tasks": {"split": "hidden"}}.items():
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(f"{at}/{path}", body)
        assert caught.value.code == 400
    with connect(server) as client:
        by_index = client.reset(split="test", index=12).observation["text"]
        assert client.reset(spec=task["spec"]).observation["text"] == by_index
    with gym.make(MULTI, level=2, max_turns=TURNS) as direct:
        assert direct.reset(seed=0, options={"split": "test", "index": 12})[0] == by_index


class LocalSubject:
    """OpenEnv's validation starts images with docker; here the package's own server runs as a process."""

    name, capabilities = "process", frozenset()
    supported_network_modes = frozenset({"public"})

    def __init__(self, capabilities):
        self.capabilities = capabilities

    def build(self, root, execution):
        assert (root / execution.dockerfile).is_file()
        self.root = root
        return "sha256:" + "0" * 64

    def start(self, spec):
        with free_socket() as at:
            port = at.getsockname()[1]
        command = [sys.executable, "-m", "server.app", "--port", str(port)]
        variables = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
        self.process = subprocess.Popen(command, cwd=self.root, env=variables | {"PYTHONDONTWRITEBYTECODE": "1"})
        self.base_url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < until:
            with suppress(OSError):
                urllib.request.urlopen(f"{self.base_url}/health", timeout=5)
                return self
            time.sleep(0.2)
        raise RuntimeError("the package's server did not start")

    def inspect(self):
        return {}

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


@foreign
@pytest.mark.parametrize("plugin", [False, True], ids=["ours", "a plug-in's"])
def test_openenvs_own_validation_of_a_package_passes_and_plays_it(plugin, tmp_path, monkeypatch):
    pytest.importorskip("openenv")
    from openenv.cli.__main__ import app
    from openenv.cli._cli_utils import validate_env_structure
    from openenv.validation import Level, run_validation
    from openenv.validation.types import ProviderCapability
    from typer.testing import CliRunner

    package = tmp_path / "package"
    if plugin:
        variables = install_plugin(tmp_path / "site")
        export_plugin(variables, "--openenv", package)
        monkeypatch.setenv("PYTHONPATH", variables["PYTHONPATH"])
    else:
        assert exported(package) == 0
    done = CliRunner().invoke(app, ["validate", str(package), "--level", "static", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["verdict"] == "pass"
    assert validate_env_structure(package) == ["Recommended directory missing: outputs/"]  # written by its own runs
    provider = LocalSubject(frozenset({ProviderCapability.IMAGE_BUILD}))
    report = run_validation(package, max_level=Level.RUNTIME, provider=provider)
    outcomes = {result.check_id: (result.status.value, result.evidence) for result in report.results}
    played = ["static.manifest", "runtime.startup", "runtime.reward_well_formed", "runtime.observation_schema"]
    for check in [*played, "runtime.state_contract"]:
        assert outcomes[check][0] == "pass", outcomes
    assert not [check for check, (status, _) in outcomes.items() if status not in ("pass", "skip")]


@foreign
def test_tokens_of_an_episode_are_a_training_trace_that_openenv_checks():
    pytest.importorskip("openenv")
    episode = Episode("rlvr/GuessNumber-v0", "train", 3, verdict=Verdict(1.0, "correct"))
    tokens = episode.tokens
    for number in range(2):
        tokens.append_context([1, 2, 3])
        tokens.append_sampled([7, 8], [-0.5, -1.5])
        episode.turns.append(Turn("?", "user", "50", "stop", float(number), end=len(tokens)))
    first, second = adapter.training_trace(episode).turns
    assert (first.prompt_token_ids, first.completion_token_ids) == ([1, 2, 3], [7, 8])
    assert second.prompt_token_ids == [1, 2, 3, 7, 8, 1, 2, 3]
    assert second.loss_mask == [0] * 8 + [1, 1]
    assert (second.per_token_logps, second.metadata) == ([-0.5, -1.5], {"reward": 1.0})
    episode.verdict = Verdict(0.0, "env_error", reason="broken")
    assert not any(mask for turn in adapter.training_trace(episode).turns for mask in turn.loss_mask)
    forced = Episode("rlvr/GuessNumber-v0", "train", 3, verdict=Verdict(1.0, "correct"))
    forced.tokens.append_context([1])
    forced.tokens.append_sampled([7], [-0.5])
    forced.tokens.append_context([9])  # the end of a thought that grew too long
    forced.tokens.append_sampled([8], [-1.5])
    forced.turns.append(Turn("?", "user", "50", "stop", 0.0, end=4))
    (turn,) = adapter.training_trace(forced).turns
    assert (turn.completion_token_ids, turn.loss_mask) == ([7, 9, 8], [0, 1, 0, 1])
    episode.turns[0].end = 0
    with pytest.raises(ValueError, match="has no sampled tokens"):
        adapter.training_trace(episode)


@foreign
def test_pages_of_a_browser_do_not_play(server):
    from .test_guard import ATTACKS, PROGRAMS, ask, upgrade

    for headers in ATTACKS.values():
        assert ask(server, headers)[0] == 403
        assert b" 403 " in upgrade(server, headers)
    for headers in PROGRAMS.values():
        assert ask(server, headers | {"Content-Type": "application/json"})[0] == 200
        assert b" 101 " in upgrade(server, headers)


@foreign
def test_the_example_serves():
    pytest.importorskip("openenv")
    example = Path(__file__).parents[2] / "examples" / "openenv_server.py"
    with free_socket() as at:
        port = str(at.getsockname()[1])
    command = [sys.executable, example, MULTI, "--set", "level=3", "--port", port]
    server = subprocess.Popen(command, env=os.environ | {"PYTHONSAFEPATH": "1"})
    try:
        client, until = connect(f"http://127.0.0.1:{port}"), time.monotonic() + 120
        while server.poll() is None and time.monotonic() < until:
            with suppress(ConnectionError):
                told = client.reset(seed=1).observation
                break
            time.sleep(0.2)
        assert told["text"] == gym.make(MULTI, level=3).reset(seed=1)[0]
        client.close()
    finally:
        server.terminate()
        server.wait(30)


# the other direction


@foreign
def test_a_full_server_is_waited_for():
    pytest.importorskip("openenv")
    with serving(adapter.server_app(MULTI, max_sessions=1)) as url, ExitStack() as stack:
        first, late, never = (
            gym.make(REMOTE, url=url, to_action="message", to_text="text", check_seed=False, timeout=timeout)
            for timeout in (60, 60, 1)
        )
        for env in (first, late, never):
            stack.callback(env.close)
        begun = first.reset(seed=1)[0]
        with pytest.raises(TimeoutError):
            never.reset(seed=1)
        threading.Timer(0.5, first.close).start()
        assert late.reset(seed=1)[0] == begun


@foreign
def test_our_server_through_our_bridge_is_what_direct_stepping_is(server):
    direct, remote = gym.make(MULTI, level=2, max_turns=TURNS), gym.make(REMOTE, url=server, to_text="text")
    for seed in range(3):
        assert direct.reset(seed=seed)[0] == remote.reset(seed=seed)[0]
        over = False
        while not over:
            action = direct.unwrapped.solve() if seed else "no number"
            here, there = direct.step(action), remote.step(action)
            assert here[:4] == there[:4]
            over = here[2] or here[3]
        assert here[4]["verdict"].status == there[4]["verdict"].status
        assert there[4]["success"] == bool(seed)
    remote.close()


def guessing(**flags):
    """A server in OpenEnv's own way: two required fields, one reward at the end, and what is asked to be wrong."""
    from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

    class Guess(Action):
        number: int
        why: str

    class Hint(Observation):
        hint: str = ""
        tries: int = 0

    class Guessing(Environment[Guess, Hint, State]):
        SUPPORTS_CONCURRENT_SESSIONS = True
        seen = ""
        count = 0

        def reset(self, seed=None, episode_id=None, **options):
            self.count, self.secret = self.count + 1, (seed or 0) % 10
            if flags.get("ignores_seeds"):
                self.secret = self.count
            self.seen = self.seen * bool(flags.get("remembers")) + f"a number near {self.secret + 1}; "
            self.tries = 0
            return Hint(hint=self.seen, metadata={"answer": self.secret})

        def step(self, action, timeout_s=None):
            self.tries += 1
            if action.number == 99:
                raise RuntimeError("ninety-nine is too much")
            done = action.number == self.secret
            reward = {True: flags.get("pays", 1.0), False: None}[done]
            return Hint(hint="yes" if done else "no", tries=self.tries, done=done, reward=reward)

        @property
        def state(self):
            return State(step_count=self.tries)

    return create_fastapi_app(Guessing, Guess, Hint, max_concurrent_envs=16)


@foreign
def test_a_server_of_theirs_is_played_by_json_and_tells_the_policy_what_was_wrong():
    pytest.importorskip("openenv")
    with serving(guessing()) as url:
        env = gym.make(REMOTE, url=url)
        observation, info = env.reset(seed=4)
        assert observation == '{"hint": "a number near 5; ", "tries": 0}'
        assert '"number"' in info["system"]
        assert '"answer"' not in str((observation, info))
        for text, complaint in {
            "four": "JSON",
            "[4]": "JSON object",
            '{"number": "x", "why": ""}': "does not take this action",
            '{"number": 4}': "why",
        }.items():
            observation, reward, terminated, truncated, info = env.step(text)
            assert (reward, terminated, truncated, info["verdict"].status) == (0.0, False, False, "unparsable")
            assert complaint in observation
        observation, reward, terminated, _, info = env.step('<think>4?</think>```json\n{"number": 4, "why": "so"}\n```')
        assert (reward, terminated, info["success"], info["verdict"].status) == (1.0, True, True, "correct")
        with pytest.raises(gym.error.ResetNeeded):
            env.step("again")
        env.reset(seed=5)
        *_, truncated, info = env.step('{"number": 99, "why": ""}')
        assert truncated
        assert info["verdict"].status == "env_error"
        assert "ninety-nine" in info["verdict"].reason
        env.reset(seed=5)
        env.close()


@foreign
def test_an_environment_of_tools_is_played_by_calls():
    pytest.importorskip("openenv")
    from fastmcp import FastMCP
    from openenv.core.env_server import Observation, State, create_fastapi_app
    from openenv.core.env_server.mcp_environment import MCPEnvironment
    from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

    class Shop(MCPEnvironment):
        def __init__(self):
            tools = FastMCP("shop")

            @tools.tool
            def price(of: str) -> int:
                """What a thing costs."""
                return len(of)

            super().__init__(tools)

        def reset(self, seed=None, episode_id=None, **options):
            return Observation(metadata={"message": "Ask for prices."})

        def _step_impl(self, action, timeout_s=None, **options):
            raise NotImplementedError

        @property
        def state(self):
            return State()

    def call(name):
        return write_call(Call(name, {"of": "pear"}), "hermes")

    with serving(create_fastapi_app(Shop, CallToolAction, CallToolObservation)) as url:
        env = gym.make(REMOTE, url=url, system="Shop.", max_turns=4)
        _, info = env.reset(seed=1)
        assert [tool["function"]["name"] for tool in info["tools"]] == ["price"]
        assert info["tools"][0]["function"]["parameters"]["properties"] == {"of": {"type": "string"}}
        told = [env.step(text) for text in (call("price"), call("rice"), "pear?", call("price") * 2)]
        assert [each[0] for each in told[:2]] == ["4", "Error: Unknown tool: 'rice'"]
        assert [each[4]["role"] for each in told] == ["tool", "tool", "user", "user"]
        assert "one call of a tool: price" in told[2][0]
        assert told[3][4]["verdict"].status == "unparsable"
        assert told[3][3]
        env.close()


@foreign
@pytest.mark.parametrize("flag", ["ignores_seeds", "remembers"])
def test_a_server_that_ignores_seeds_or_remembers_episodes_is_refused(flag):
    pytest.importorskip("openenv")
    with serving(guessing(**{flag: True})) as url:
        env = gym.make(REMOTE, url=url)
        with pytest.raises(RuntimeError, match="begins differently"):
            env.reset(seed=1)
        env.close()
        fresh = gym.make(REMOTE, url=url, new_session=True, to_text="hint")
        assert fresh.reset(seed=1)[0].count("near") == 1
        assert fresh.reset(seed=1)[0].count("near") == 1
        fresh.close()


@foreign
def test_an_end_that_nobody_scored_is_not_a_zero():
    pytest.importorskip("openenv")
    with serving(guessing(pays=None)) as url:
        env = gym.make(REMOTE, url=url)
        env.reset(seed=3)
        *_, info = env.step('{"number": 3, "why": ""}')
        assert info["verdict"].status == "verifier_error"
        env.close()


@foreign
def test_rollouts_over_many_sessions_at_once_and_a_server_that_goes_away():
    pytest.importorskip("openenv")

    class Solver(ExpertAgent):
        def act(self, conversations):
            from rlvr.agents import Reply

            texts = [c.messages[-1]["content"] for c in conversations]
            return [Reply(json.dumps({"number": int(t.split()[-1].strip(";")) - 1, "why": ""})) for t in texts]

    with serving(guessing()) as url:
        rollout = Rollout(REMOTE, Solver(), workers=8, batch_size=8, env_settings={"url": url, "to_text": "hint"})
        episodes = rollout([RolloutRequest(seed=seed) for seed in range(24)])
        assert all(episode.success for episode in episodes), [e.verdict for e in episodes if not e.success]
        env = gym.make(REMOTE, url=url, timeout=5)
        env.reset(seed=1)
    *_, truncated, info = env.step('{"number": 1, "why": ""}')
    assert truncated
    assert info["verdict"].status == "env_error"
    with pytest.raises(ConnectionError, match="no OpenEnv server"):
        env.reset(seed=1)
