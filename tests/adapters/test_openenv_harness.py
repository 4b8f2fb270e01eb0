"""OpenEnv's harness over our environments: its own server, clients, loops and capture server, with real programs."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import queue
import random
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.adapters import rows
from rlvr.adapters import testing as kit
from rlvr.adapters.export.foreign import read_file
from rlvr.adapters.serving.policy_endpoint import PolicyEndpoint
from rlvr.adapters.spec import EpisodeSession, TaskSpec
from rlvr.adapters.suites import openenv_harness as adapter
from rlvr.adapters.suites import openenv_sessions as sessions
from rlvr.adapters.suites.openreward import OpenRewardServer
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.core.verdict import correct, wrong
from rlvr.envs.tools.with_tools import with_native_tools

from .loopback_app import free_socket, serving

AGENT = Path(__file__).parents[2] / "examples" / "openenv_agent.py"
GUESS, SQL = "rlvr/GuessNumber-v0", "rlvr/SQL-v0"
foreign = pytest.mark.foreign


# without it


def test_tools_are_left_to_a_surface_that_has_its_own():
    for env_id, kwargs, expected in (
        (GUESS, {}, {}),
        (SQL, {}, {"tools_in": "template"}),
        (SQL, {"tools_in": "system"}, {"tools_in": "system"}),
        ("rlvr/Sums-v0", {"tools": ["python"]}, {"tools": {"tools": ["python"], "tools_in": "template"}}),
        ("rlvr/Sums-v0", {"tools": {"tools": ["python"], "max_calls": 2}}, None),
    ):
        env = gym.make(env_id, **kwargs)
        found = with_native_tools(env, kwargs)
        expected = expected if expected is not None else {"tools": {**kwargs["tools"], "tools_in": "template"}}
        assert found == expected
        _, info = gym.make(env_id, **found).reset(seed=0)
        assert bool(info.get("tools")) == ("template" in str(found))
    with OpenRewardServer(["rlvr/Sums-v0"], {"tools": ["python"]}):
        pass  # a TypeError before: tools_in was given to the task beside its tools


def test_without_openenv_a_session_says_what_is_missing(monkeypatch):
    from rlvr.adapters import versions

    def version(package):
        raise versions.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(versions.metadata, "version", version)
    with pytest.raises(ImportError, match="openenv is not installed"):
        sessions.EnvironmentSessionFactory(GUESS)
    with pytest.raises(ImportError, match="openenv is not installed"):
        adapter.harness_app(GUESS, adapter=None)


# programs


def config(command, **settings):
    from openenv.core.harness import HarnessConfig

    fields = {"name": "test", "command": command, "working_directory": os.getcwd(), **settings}
    fields["env_vars"] = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1", **settings.get("env_vars", {})}
    return HarnessConfig(**fields)


def program(source, **settings):
    """A program that is told the messages one by one as ``told``, and answers with ``say``."""
    head = (
        "import json, sys, time\n"
        "def say(text, **more): print(json.dumps({'type': 'turn_complete', 'data': {'response': text, **more}}), "
        "flush=True)\n"
        "for line in sys.stdin:\n    told = json.loads(line)['content']\n"
    )
    body = "\n".join(f"    {line}" for line in source.splitlines())
    return config([sys.executable, "-c", head + body], **settings)


def runs(settings):
    return partial(adapter.ProgramAdapter, settings)


@contextmanager
def answering(policy):
    """A policy behind an endpoint of ours, which is given each request."""
    with PolicyEndpoint() as endpoint:
        session, asked = endpoint.session(), []

        def answer():
            while (request := session.events.get()) is not None:
                asked.append(request)
                policy(request)

        thread = threading.Thread(target=answer)
        thread.start()
        variables = {"OPENAI_BASE_URL": session.base_url, "OPENAI_API_KEY": session.api_key}
        try:
            yield variables | {"OPENAI_MODEL": session.model}, asked
        finally:
            session.events.put(None)
            thread.join(30)


def direct(spec, texts):
    """The return and the verdict of the same words in direct stepping."""
    session = EpisodeSession(TaskSpec.parse(spec), tools=True)
    for text in texts:
        session.step(text)
    return session


# played by a program


@foreign
def test_a_program_plays_by_tools_over_mcp_and_gets_the_environments_own_reward():
    pytest.importorskip("openenv")
    (row,) = rows(SQL, 1, seed=4)
    played = {}
    with answering(lambda request: request.reply(played["env"].unwrapped.solve())) as (variables, asked):
        harness = adapter.EpisodeHarness(
            TaskSpec(SQL, 0), runs(config([sys.executable, str(AGENT)], env_vars=variables)), use_system=False
        )
        seen = harness.reset(spec=row["spec"], episode_id="mine")
        assert [tool["function"]["name"] for tool in seen.tools] == ["list_tables", "describe_table", "run_query"]
        played["env"] = harness.episode.session.env
        assert (harness.state.episode_id, harness.state.spec) == ("mine", row["spec"])
        seen = harness.step(adapter.HarnessAction(message=""))
        calls = [event["data"] for event in seen.events if event["type"] == "tool_call"]
        assert calls, "the expert of SQL asks before it answers"
        assert {call["tool_name"] for call in calls} == {"list_tables", "describe_table", "run_query"}
        assert asked[0].tools[0]["function"]["name"] == "list_tables"
        assert (seen.done, seen.reward, seen.verdict["status"], seen.turn) == (True, 1.0, "correct", len(calls) + 1)
        with pytest.raises(ValueError, match="no episode is under way"):
            harness.step(adapter.HarnessAction(message=""))
        harness.close()


@foreign
def test_a_conversation_over_openenvs_server_is_what_direct_stepping_is():
    pytest.importorskip("openenv")
    from openenv.core import GenericEnvClient

    guesses = "low, high = globals().get('low', 1), globals().get('high', 100)\nsay(f'I guess {50 - len(told) % 9}')"
    app = adapter.harness_app(GUESS, {"level": 2, "max_turns": 4}, adapter=runs(program(guesses)), max_sessions=2)
    for_rows = rows(GUESS, 3, seed=5, kwargs={"level": 2, "max_turns": 4})
    with serving(app) as url, GenericEnvClient(base_url=url).sync() as client:
        for row in for_rows:
            seen, said, rewards = client.reset(spec=row["spec"]), [], []
            assert seen.observation["text"] == row["prompt"][-1]["content"]
            while not seen.done:
                seen = client.step({"message": ""})
                said.append(seen.observation["response"])
                rewards.append(seen.reward)
            here = direct(row["spec"], said)
            assert (sum(rewards), here.done) == (here.reward, True)
            assert seen.observation["verdict"] == here.verdict.to_dict()
            assert seen.observation["truncated"] == here.truncated
        with pytest.raises(RuntimeError, match="this server plays"):
            client.reset(spec=for_rows[0]["spec"].replace("GuessNumber", "Terminal"))


@foreign
@pytest.mark.parametrize(
    ("source", "settings", "status"),
    [
        ("sys.exit(3)", {}, "env_error"),
        ("time.sleep(60)", {"session_timeout_s": 0.5}, "timeout"),
        (
            "print('no event', flush=True); sys.stderr.write('lost its key'); sys.stderr.flush(); sys.exit(1)",
            {},
            "lost",
        ),
    ],
)
def test_a_program_that_fails_is_no_zero(source, settings, status):
    pytest.importorskip("openenv")
    harness = adapter.EpisodeHarness(TaskSpec(GUESS, 0), runs(program(source, **settings)))
    harness.reset(seed=1)
    seen = harness.step(adapter.HarnessAction(message=""))
    assert (seen.done, seen.reward, seen.valid, seen.truncated) == (True, None, False, True)
    assert status in (seen.verdict["status"], *seen.verdict["reason"].split())
    harness.reset(seed=1)  # and the next episode has a program of its own
    harness.close()
    with pytest.raises(Exception, match="spawn"):
        adapter.EpisodeHarness(TaskSpec(GUESS, 0), runs(config(["/nowhere"]))).reset(seed=1)


@foreign
def test_a_program_that_gives_up_ends_its_episode_early():
    pytest.importorskip("openenv")
    harness = adapter.EpisodeHarness(TaskSpec(GUESS, 0), runs(program("say('I guess 1', done=True)")))
    harness.reset(seed=1)
    seen = harness.step(adapter.HarnessAction(message="Begin."))
    assert (seen.done, seen.truncated, seen.valid, seen.reward) == (True, True, True, 0.0)
    harness.close()


ASKS = """
import os, urllib.request
history = globals().setdefault('history', [])
history.append({'role': 'user', 'content': told})
async def listed():
    from fastmcp import Client
    async with Client(os.environ['MCP_URL']) as client:
        return [{'type': 'function', 'function': {'name': tool.name}} for tool in await client.list_tools()]
if 'MCP_URL' in os.environ and len(history) == 1:
    import asyncio
    tools = asyncio.run(listed())
body = {'model': os.environ['OPENAI_MODEL'], 'messages': history, 'tools': globals().get('tools', [])}
body['max_completion_tokens'] = int(os.environ.get('MAX_TOKENS', '64'))
body = json.dumps(body).encode()
headers = {'Authorization': 'Bearer ' + os.environ['OPENAI_API_KEY'], 'Content-Type': 'application/json'}
request = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions', body, headers)
message = json.loads(urllib.request.urlopen(request).read())['choices'][0]['message']
history.append(message)
say(message['content'])
"""


@foreign
def test_the_harness_conforms_with_a_program_that_asks_its_model_over_http():
    pytest.importorskip("openenv")

    def play(specs, engine):
        return [play_one(spec, engine) for spec in specs]

    def play_one(spec, engine):
        actions, failed = [], []

        def answer(request):
            try:
                read = [*map(str, request.tools), *(message["content"] for message in request.messages)]
                actions.append(engine.reply("\n".join(read)))
                request.reply(actions[-1])
            except kit.EngineFault as fault:
                failed.append(fault)
                request.refuse(500, str(fault))

        with answering(answer) as (variables, _):
            settings = program(ASKS, env_vars=variables)
            harness = adapter.EpisodeHarness(TaskSpec(spec.env_id, 0, spec.module, spec.kwargs), runs(settings))
            try:
                try:
                    seen = harness.reset(spec=spec.to_json())
                except RuntimeError as error:
                    return kit.PlayedEpisode(spec, None) if "on purpose" in str(error) else pytest.fail(str(error))
                rewards = []
                while not seen.done:
                    seen = harness.step(adapter.HarnessAction(message=""))
                    rewards.append(seen.reward)
                if failed:
                    raise failed[0]
                assert seen.valid == (None not in rewards)
                reward = sum(rewards) if seen.valid else None
                return kit.PlayedEpisode(spec, reward, None, actions, harness.verdict)
            finally:
                harness.close()

    print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False, groups=2)))


# sessions for trainers


def replies(texts):
    """OpenEnv's ``ModelStep``: says each text by the tool ``reply``, the last as plain words."""
    from openenv.core.harness import ModelStepResult
    from openenv.core.llm_client import LLMResponse, ToolCall

    waiting = list(texts)

    def step(messages, tools, sampling):
        text = waiting.pop(0)
        call = ToolCall(id="c", name="reply", args={"message": text})
        response = LLMResponse(content="", tool_calls=[call]) if waiting else LLMResponse(content=text, tool_calls=[])
        return ModelStepResult(response=response, prompt_ids=[1], completion_ids=[2, 3], logprobs=[-0.1, -0.2])

    return step


@foreign
def test_openenvs_own_loops_get_the_reward_of_direct_stepping(tmp_path):
    pytest.importorskip("openenv")
    from openenv.core.harness import HarnessRunLimits, MCPHarnessAdapter, build_harness_rollout_func
    from openenv.core.harness.collect import CollectRunner, RolloutSerializer

    env = gym.make(GUESS, level=1)
    env.reset(seed=3)
    texts = []
    while True:
        texts.append(env.unwrapped.solve())
        if env.step(texts[-1])[2]:
            break
    spec = TaskSpec(GUESS, 3, kwargs={"level": 1})
    factory = sessions.EnvironmentSessionFactory(GUESS, {"level": 1})
    rollout = build_harness_rollout_func(
        session_factory=factory,
        harness_adapter=MCPHarnessAdapter(),
        model_step_builder=lambda trainer, session: replies(texts),
        limits=HarnessRunLimits(max_turns=50),
    )
    found = rollout([spec.to_json(), {"spec": spec.to_json()}, [{"role": "user", "content": spec.to_json()}]], None)
    assert found["env_reward"] == [direct(spec, texts).reward] * 3 == [1.0] * 3
    assert found["completion_ids"] == [[2, 3] * len(texts)] * 3
    wrong = sessions.EnvironmentSessionFactory(GUESS, {"level": 1}).create(seed=3)
    assert wrong.initial_messages()[-1]["content"] == gym.make(GUESS, level=1).reset(seed=3)[0]
    for _ in range(2):  # asked twice, it plays once
        result = wrong.verify([{"role": "assistant", "content": "no number"}])
        assert (result.env_reward, result.done, result.metrics["turns"]) == (0.0, False, 1)
    wrong.close()
    runner = CollectRunner(
        session_factory=factory,
        harness_adapter=MCPHarnessAdapter(),
        serializer=RolloutSerializer(tmp_path),
        tasks=[spec.to_json()],
        limits=HarnessRunLimits(max_turns=50),
    )
    done = runner.run(model_step=replies(texts), num_episodes=1)
    assert (done.num_collected, done.avg_reward, done.num_failed) == (1, 1.0, 0)
    (collected,) = read_file(tmp_path / "results.jsonl", [])
    assert (collected.env_id, collected.key, collected.reward) == ("openenv", "ep-000000", 1.0)
    assert collected.turns[0].observation == env.reset(seed=3)[0]
    assert collected.turns[-1].action == texts[-1]
    faulty = {"fault": "verdict"}
    fault = TaskSpec(kit.SAY, 1, kit.MODULE, faulty).to_json()
    broken = sessions.EnvironmentSessionFactory(f"{kit.MODULE}:{kit.SAY}", faulty)
    options = {"session_factory": broken, "harness_adapter": MCPHarnessAdapter()}
    runner = CollectRunner(serializer=RolloutSerializer(tmp_path / "faults"), tasks=[fault], **options)
    done = runner.run(model_step=replies(["x", "y", "z"]), num_episodes=1)
    assert (done.num_collected, done.num_failed) == (0, 1)
    rollout = build_harness_rollout_func(model_step_builder=lambda *_: replies(["x", "y", "z"]), **options)
    with pytest.raises(ValueError, match="did not produce an environment reward"):
        rollout([fault], None)
    for task, complaint in ((3, "a task is None"), ({"split": "test", "colour": 1}, "a task is None"), ("no", "JSON")):
        with pytest.raises(ValueError, match=complaint):
            factory.create(task)
    by_index = factory.create({"split": "test", "index": 5, "id": "test-5"})
    expected = gym.make(GUESS, level=1).reset(seed=0, options={"split": "test", "index": 5})[0]
    assert by_index.initial_messages()[-1]["content"] == expected
    assert by_index.call_tool("reply", {}).error == "reply takes a message, a text"
    with pytest.raises(KeyError, match="no tool 'guess'; there are reply"):
        by_index.call_tool("guess", {})
    by_index.close()


# tokens


@pytest.fixture(scope="module")
def engine():
    """A model of ours behind our server, OpenEnv's capture server before it."""
    pytest.importorskip("openenv")
    pytest.importorskip("torch")
    from openenv.core.harness.capture import CaptureServer

    from rlvr.adapters.serving.generate_server import ChatServer
    from rlvr.agents.models.tiny import tiny_policy

    model, tokenizer = tiny_policy(hidden=32, layers=1)
    with free_socket() as at:
        port = at.getsockname()[1]
    with ChatServer(model, tokenizer, max_length=2048) as server:
        capture = CaptureServer(
            llm_url=f"{server.url}/v1", model=server.name, port=port, api_key=server.api_key, max_output_tokens=64
        )
        capture.start()
        yield model, adapter.TokenCapture(f"http://127.0.0.1:{port}", server.name, sampling={"temperature": 1.0})
        capture.stop()


@foreign
def test_a_programs_tokens_are_the_engines_and_the_reward_is_ours(engine):
    from openenv.core.harness import LoopOwningSession, TrainableSession

    from rlvr.adapters.testing import score

    model, capture = engine
    factory = sessions.AgentSessionFactory(
        GUESS,
        {"max_turns": 3},
        program=config([sys.executable, str(AGENT)], env_vars={"MAX_TOKENS": "12"}),
        capture=capture,
        sampling={"temperature": 1.0},
    )
    (row,) = rows(GUESS, 1, seed=2, kwargs={"max_turns": 3})
    session = factory.create(row["spec"], episode_id="one")
    assert isinstance(session, TrainableSession)
    assert isinstance(session, LoopOwningSession)
    assert session.wait_for_completion(120) == 0
    trace, entries = session.fetch_training_trace(), session.fetch_proxy_trace()
    result = session.verify([])
    said = [entry["response"]["choices"][0]["message"]["content"] for entry in entries]
    here = direct(row["spec"], said)
    assert (result.env_reward, result.done, len(said)) == (here.reward, True, 3)
    assert result.artifacts["verdict"] == here.verdict.to_dict()
    assert entries[0]["reward"] == result.env_reward
    assert [message["content"] for message in entries[-1]["request"]["messages"] if message["role"] == "user"][1:] == [
        message["content"] for message in here.conversation.messages if message["role"] == "user"
    ][1:3]
    for turn in trace.turns:
        ids, start = turn.prompt_token_ids + turn.completion_token_ids, len(turn.prompt_token_ids)
        assert turn.per_token_logps == pytest.approx(score(model, ids)[start:], abs=1e-4)
        assert turn.loss_mask == [0] * start + [1] * len(turn.completion_token_ids)
    first, second, _ = trace.turns
    assert second.prompt_token_ids[: len(first.prompt_token_ids)] == first.prompt_token_ids
    session.close()


@foreign
def test_an_episode_that_is_not_valid_has_no_reward_and_masks_every_token(engine):
    _, capture = engine
    source = (
        "import os; from openai import OpenAI\n"
        "OpenAI().chat.completions.create(model=os.environ['OPENAI_MODEL'], max_completion_tokens=4, "
        "messages=[{'role': 'user', 'content': told}])\n"
        "time.sleep(60)"
    )
    factory = sessions.AgentSessionFactory(GUESS, program=program(source), capture=capture)
    session = factory.create(seed=2)
    with pytest.raises(TimeoutError, match="did not end within"):
        session.wait_for_completion(8)
    result = session.verify([])
    assert (result.env_reward, result.metrics["valid"]) == (None, False)
    (turn,) = session.fetch_training_trace().turns
    assert set(turn.loss_mask) == {0}
    session.close()
    with pytest.raises(RuntimeError, match="no capture server"):
        sessions.AgentSessionFactory(
            GUESS, program=program("say('x')"), capture=adapter.TokenCapture("http://127.0.0.1:9")
        ).create(seed=1)


class OddTask(Task[int]):
    """Pays for an answer of an odd number of characters: a policy that draws at random gets both."""

    def start(self, rng: random.Random, level: int) -> int:
        return rng.randrange(10**6)

    def content(self, state: int) -> str:
        return str(state)

    def observe(self, state: int) -> str:
        return f"Say something to {state}."

    def apply(self, state: int, action: str) -> Transition:
        return Transition(state, correct() if len(action) % 2 else wrong(), terminated=True)


@foreign
def test_trls_harness_worker_scores_a_programs_episodes_by_our_reward(engine):
    """The loop of its asynchronous trainer runs the sessions; an episode that is not valid is left out, and no zero."""
    pytest.importorskip("trl")
    import datasets
    from accelerate import PartialState
    from trl.experimental.async_grpo.openenv_harness import _HarnessRolloutLoop

    from rlvr.agents.models.tiny import tiny_policy

    PartialState(cpu=True)
    _, capture = engine
    _, tokenizer = tiny_policy(hidden=32, layers=1)
    tokenizer.response_template = {}  # for calls of tools that TRL samples; here the program owns the loop
    context, samples = multiprocessing.get_context("spawn"), queue.Queue()

    def loop(env_id, kwargs=None):
        settings = program(ASKS, env_vars={"MAX_TOKENS": "8"})
        factory = partial(sessions.AgentSessionFactory, env_id, kwargs, program=settings, capture=capture)
        return _HarnessRolloutLoop(
            harness_session_factory=pickle.loads(pickle.dumps(factory)),  # it is sent to a spawned process
            model_name="tiny",
            dataset=datasets.Dataset.from_list([{"prompt": "unused"}]),
            reward_funcs=[],
            processing_class=tokenizer,
            eos_token_ids=[tokenizer.eos_token_id],
            rollout_buffer=samples,
            model_version_value=context.Value("i", 0),
            heartbeat_value=context.Value("d", 0.0),
            failed_event=context.Event(),
            exception_info_queue=queue.Queue(),
            metrics_queue=queue.Queue(),
            max_inflight_tasks=2,
        )

    def play(worker, spec, group=0):
        worker._stop_event = asyncio.Event()
        return worker._run_session([{"role": "user", "content": spec}], group)

    gym.register("rlvr-testing/Odd-v0", lambda: TextEnv(OddTask(), split=None))
    try:
        worker, rewards = loop("rlvr-testing/Odd-v0"), []
        while set(rewards) != {0.0, 1.0} and len(rewards) < 60:  # 2^-60 that chance gives one of them alone
            seed = len(rewards)
            (completion, ids, sequences, _, _, reward), metrics = play(
                worker, TaskSpec("rlvr-testing/Odd-v0", seed).to_json()
            )
            assert reward == float(len(completion[-1]["content"]) % 2)
            rewards.append(reward)
            (sequence,) = sequences
            assert sum(sequence.completion_mask) == len(ids) > 0
            assert metrics["turns"] == 1
    finally:
        del gym.registry["rlvr-testing/Odd-v0"]
    assert set(rewards) == {0.0, 1.0}
    fault = TaskSpec(kit.SAY, 1, kit.MODULE, {"fault": "verdict"})
    (_, ids, sequences, _, _, reward), _ = play(loop(f"{kit.MODULE}:{kit.SAY}", {"fault": "verdict"}), fault.to_json())
    assert (reward, sequences) == (None, [])
    assert ids
