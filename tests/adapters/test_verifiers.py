"""verifiers' own evaluation, environment server and training client over our plug-in, and back."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rlvr.adapters import TaskSpec, versions
from rlvr.adapters import testing as kit
from rlvr.adapters.serving.loopback import LoopbackServer
from rlvr.adapters.spec import require_tools_in_prompt
from rlvr.agents import TokenSequence
from rlvr.cli import main
from rlvr.envs import Verdict

from .plugin_site import export_plugin, install_plugin, seeing

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "examples" / "verifiers").glob("*.toml"))
SAY = f"{kit.MODULE}:{kit.SAY}"
RENDERER = "rlvr.adapters.trainers.renderers.AppendingRenderer"
HERE = importlib.util.find_spec("verifiers") is not None

# without verifiers


@pytest.mark.skipif(HERE, reason="verifiers is installed")
@pytest.mark.parametrize("module", ["rlvr.adapters.suites.verifiers", "rlvr.adapters.trainers.renderers", "rlvr_gym"])
def test_the_error_names_the_versions(module):
    with pytest.raises(ImportError, match=r"pip install '(verifiers>=0\.4,<0\.5|renderers>=0\.1\.12,<0\.2)'"):
        importlib.import_module(module)


@pytest.mark.skipif(HERE, reason="verifiers is installed")
def test_an_older_version_is_refused(monkeypatch):
    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.3.1")
    with pytest.raises(ImportError, match=r"verifiers 0\.3\.1 is too old"):
        importlib.import_module("rlvr.adapters.suites.verifiers")


def seats(value) -> list[dict]:
    """Every table of a recipe that seats an agent or says what an environment is."""
    if isinstance(value, list):
        return [seat for each in value for seat in seats(each)]
    if not isinstance(value, dict):
        return []
    own = [value["env"]] if isinstance(value.get("env"), dict) else []
    return own + [seat for each in value.values() for seat in seats(each)]


@pytest.mark.parametrize("path", RECIPES, ids=[path.name for path in RECIPES])
def test_no_recipe_leaves_this_machine(path):
    recipe = tomllib.loads(path.read_text(encoding="utf-8"))
    found = seats(recipe)
    assert found
    for seat in found:
        assert seat["taskset"]["id"] == "rlvr-gym"
        assert seat["agent"]["runtime"]["type"] == "subprocess"
    assert recipe.get("push", False) is False


# with it

foreign = pytest.mark.foreign


@pytest.fixture(scope="module")
def vf():
    return pytest.importorskip("verifiers.v1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from rlvr.agents.models.tiny import build_tiny

    path = tmp_path_factory.mktemp("policy") / "tiny"
    build_tiny(path, hidden=32, layers=1)
    return path


@pytest.fixture(scope="module")
def policy(vf, folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(folder, dtype="float32"), AutoTokenizer.from_pretrained(folder)


def recorded(engine):
    """Our generate server, whose sampler is the kit's engine."""
    from rlvr.adapters.serving.generate_server import GenerateServer

    class Recorded(GenerateServer):
        def _sample(self, jobs, ends, sampling):
            for job in jobs:
                try:
                    call = engine.generate(job.prompt, job.limit)
                    job.done.set_result((call.sampled, call.logprobs, self.version))
                except Exception as error:
                    job.done.set_exception(error)

    return Recorded(engine.model, end_ids=[engine.tokenizer.eos_token_id], max_length=1024, api_key=None)


def make_env(vf, **settings):
    taskset = {"id": "rlvr-gym", "env": SAY, **settings.pop("taskset", {})}
    return vf.load_environment(vf.resolve_env_config({"taskset": taskset, **settings}))


def task_of(spec):
    """The task as the taskset makes it; where the environment cannot begin, as it was when it could."""
    from rlvr.adapters.suites.verifiers import RlvrTask, RlvrTaskData

    try:
        _, prompt, info = spec.start()
    except OSError:
        prompt, info = "Say: anchor", {}
    require_tools_in_prompt(spec.env_id, info)
    return RlvrTask(RlvrTaskData(prompt=prompt, system_prompt=info.get("system"), spec=spec.to_json()))


def training(vf, url, folder, renderer=RENDERER):
    client = {"base_url": url, "renderer_model_name": str(folder)}
    named = {"name": "custom", "import_path": renderer} if "." in renderer else {"name": renderer}
    sampling = vf.SamplingConfig(temperature=1.0, max_tokens=12)
    return vf.ModelContext(model="rlvr", client=vf.TrainClientConfig(**client, renderer=named), sampling=sampling)


def run_all(env, tasks, context):
    """Every task once, all together."""

    async def run():
        async with env.serving():
            return await asyncio.gather(*(env.run_slot(slot, context) for task in tasks for slot in env.slots(task)))

    return asyncio.run(run())


def tokens_of(trace):
    (branch,) = trace.branches  # one training sample
    return TokenSequence(branch.token_ids, [int(mask) for mask in branch.sampled_mask], branch.logprobs)


@foreign
def test_the_adapter_conforms_under_the_training_client(vf, folder, policy):
    def play(specs, engine):
        with recorded(engine) as server:
            episodes = run_all(make_env(vf), [task_of(spec) for spec in specs], training(vf, server.url, folder))
        for episode in episodes:
            for error in [error for trace in episode.traces for error in trace.errors]:
                if error.type == "ProviderError":
                    raise RuntimeError(error.message)
        return [
            kit.PlayedEpisode(
                spec,
                trace.reward,
                tokens_of(trace),
                verdict=Verdict.from_dict(trace.info["verdict"]),
            )
            for spec, episode in zip(specs, episodes, strict=True)
            if episode.ok  # what prime-rl trains on
            for trace in episode.traces
        ]

    print("\n".join(kit.conform(play, kit.RecordingEngine(*policy), tokens=True)))


@foreign
def test_broken_episodes_are_errors_and_have_no_reward(vf, folder, policy):
    engine = kit.RecordingEngine(*policy)
    tasks = [task_of(kit.say_specs(1, fault=fault)[0]) for fault in kit.FAULTS]
    with recorded(engine) as server:
        episodes = run_all(make_env(vf), tasks, training(vf, server.url, folder))
    for episode, fault in zip(episodes, ("no verdict", "fails in step", "fails in reset"), strict=True):
        assert not episode.ok
        assert f"{fault}, on purpose" in episode.errors[0].message
        assert [trace.rewards for trace in episode.traces] in ([], [{}])


@foreign
def test_our_own_sampler_serves_their_training_client(vf, folder, policy):
    """The real server and sampler; replies are cut by their length and end in the middle of characters."""
    import torch

    from rlvr.adapters.serving.generate_server import GenerateServer

    model, tokenizer = policy
    tasks = [task_of(spec) for spec in kit.say_specs(3)]
    with GenerateServer(model, end_ids=[tokenizer.eos_token_id], max_length=1024, api_key=None) as server:
        context = training(vf, server.url, folder)
        for _ in range(2):
            episodes = run_all(make_env(vf), tasks, context)
            assert all(episode.ok for episode in episodes)
            for task, episode in zip(tasks, episodes, strict=True):
                played = kit.PlayedEpisode(TaskSpec.parse(task.data.spec), 0.0, tokens_of(episode.traces[0]))
                assert len(kit.segments(played.tokens.mask)) == 3
                assert kit.check_logprobs(played, model) < 1e-5
            with server.paused(), torch.no_grad():  # other weights, and the next round fits them
                for weight in model.parameters():
                    weight.mul_(1.01)


@foreign
def test_the_example_trains(folder, policy):
    path = ROOT / "examples" / "verifiers" / "train.py"
    found = importlib.util.spec_from_file_location("verifiers_train", path)
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    records = list(example.train(folder, steps=2, prompts=2, group_size=2, lr=1e-3))
    assert [record["step"] for record in records] == [1, 2]
    assert all(0.0 <= record["reward"] <= 1.0 for record in records)


@foreign
@pytest.mark.parametrize("kept", [False, True])
def test_a_tools_output_under_its_role(vf, folder, policy, kept):
    """The tokens are those of our own rollouts when the role is kept, and a user's when it is not."""
    model, tokenizer = policy
    env = make_env(vf, taskset={"env": "rlvr/Calculator-v0", "n": 1, "use_system": False}, tool_role=kept)
    (task,) = env.taskset
    expert, _, _ = TaskSpec.parse(task.data.spec).start()
    engine = kit.RecordingEngine(model, tokenizer, script=lambda text: expert.unwrapped.solve(), max_new_tokens=60)

    def say(text):
        action = expert.unwrapped.solve()
        expert.step(action)
        return action

    engine.script = say
    with recorded(engine) as server:
        context = training(vf, server.url, folder)
        context.sampling.max_tokens = 60
        (episode,) = run_all(env, [task], context)
    assert episode.traces[0].reward == 1.0
    text = tokenizer.decode(tokens_of(episode.traces[0]).ids)
    assert ("<|tool|>" in text, text.count("<|user|>")) == ((True, 1) if kept else (False, 2))


@foreign
def test_their_own_renderer_splits_what_ours_keeps_together(vf, folder, policy):
    """Why the renderer is there: what was cut by its length comes back otherwise when it is rendered anew."""
    from rlvr.adapters.serving.generate_server import GenerateServer

    model, tokenizer = policy
    tasks = [task_of(spec) for spec in kit.say_specs(3)]
    with GenerateServer(model, end_ids=[tokenizer.eos_token_id], max_length=1024, api_key=None) as server:
        episodes = run_all(make_env(vf), tasks, training(vf, server.url, folder, "default"))
    assert any(len(episode.traces[0].branches) > 1 for episode in episodes)


@foreign
def test_limits_of_theirs_end_an_episode_with_what_it_earned(vf, folder, policy):
    engine = kit.RecordingEngine(*policy, wrong_every=1000)
    with recorded(engine) as server:
        env = make_env(vf, agent={"max_turns": 1})
        assert env.config.agent.runtime.type == "subprocess"
        (episode,) = run_all(env, [task_of(kit.say_specs(1)[0])], training(vf, server.url, folder))
    (trace,) = episode.traces
    assert episode.ok
    assert trace.reward == pytest.approx(1 / 7)
    assert (trace.metrics["turns"], trace.metrics["truncated"], trace.metrics["success"]) == (1, 1, 0)


@foreign
def test_where_it_runs_and_where_nothing_goes(vf, monkeypatch):
    from rlvr.adapters.suites import verifiers as adapter

    monkeypatch.delenv(adapter.UPLOADS, raising=False)
    env = make_env(vf)
    (seat,) = env.config.agent_harnesses().values()
    assert (env.config.agent.runtime.type, seat.id) == ("subprocess", "rlvr-gym")
    assert os.environ[adapter.UPLOADS] == "disabled"
    monkeypatch.setenv(adapter.UPLOADS, "online")
    make_env(vf)
    assert os.environ[adapter.UPLOADS] == "online"


@foreign
def test_tasksets(vf):
    endless, three = make_env(vf).taskset, make_env(vf, taskset={"n": 3, "use_system": False}).taskset
    assert (endless.bounded, three.bounded) == (False, True)
    assert (type(endless).INFINITE, type(three).INFINITE) == (True, False)  # prime-rl lists what says it ends
    first = list(endless.take(3))
    assert [task.data.spec for task in first] == [task.data.spec for task in three]
    assert len({task.key for task in first}) == 3
    assert first[0].data.system_prompt
    assert all(task.data.system_prompt is None for task in three)
    table = make_env(vf, taskset={"env": "rlvr/GSM8K-v0", "kwargs": {"split": "test"}}).taskset
    assert table.bounded
    assert len(list(table)) == TaskSpec("rlvr/GSM8K-v0", 0, kwargs={"split": "test"}).make().unwrapped.size
    assert asyncio.run(first[0].validate(None)) is True
    for settings, said in (
        ({"env": ""}, "say which environment"),
        ({"n": 0}, "n must be at least 1"),
        ({"env": "rlvr/ServiceDesk-v0", "kwargs": {"tools_in": "template"}}, "tools_in='system'"),
        ({"env": "rlvr/NoSuch-v0"}, "NoSuch"),
    ):
        with pytest.raises(Exception, match=said):
            make_env(vf, taskset=settings)


def chat(engine):
    """An OpenAI-compatible server for text, as a loopback address."""

    def answer(request):
        if request.path == "/v1/models":
            return {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
        said = engine.reply("\n".join(message["content"] for message in request.body["messages"]))
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}

    return LoopbackServer(answer, key=None)


@foreign
@pytest.mark.parametrize("uploads", [None, "online"])
def test_vf_eval_as_it_is_installed(vf, tmp_path, uploads):
    """The command in a process of its own, on the machine of somebody who is logged in to the platform."""
    platform: list[str] = []
    elsewhere = LoopbackServer(lambda request: platform.append(request.path) or {}, key=None)
    server = chat(kit.RecordingEngine(wrong_every=1000))
    variables = {"HOME": str(tmp_path), "PRIME_API_KEY": "secret", "PRIME_API_BASE_URL": elsewhere.url, "KEY": "none"}
    variables |= {"PRIME_RUNS_MODE": uploads} if uploads else {}
    command = [Path(sys.executable).with_name("vf-eval"), "rlvr-gym", "--env.taskset.env", SAY, "-n", "3", "-r", "2"]
    command += ["--env.taskset.kwargs", '{"max_turns": 3}', "-m", "scripted", "--client.base-url", f"{server.url}/v1"]
    command += ["--client.api-key-var", "KEY", "--no-rich", "--output-dir", "out", "--run.name", "trial"]
    kept = {name: value for name, value in os.environ.items() if name != "PRIME_RUNS_MODE"}
    try:
        done = subprocess.run(command, cwd=tmp_path, env=kept | variables, capture_output=True, text=True, timeout=300)
    finally:
        server.close()
        elsewhere.close()
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (tmp_path / "out" / "trial" / "traces.jsonl").read_text().splitlines()
    traces = [trace for line in lines for trace in json.loads(line)["traces"]]
    assert [trace["rewards"]["return"]["score"] for trace in traces] == pytest.approx([1.0] * 6)
    assert all(trace["metrics"]["success"] == 1 for trace in traces)
    assert bool(platform) == (uploads == "online")


@foreign
def test_the_recipe_is_read_by_the_command(vf, tmp_path):
    recipe = next(path for path in RECIPES if path.stem == "eval")
    command = [Path(sys.executable).with_name("vf-eval"), "@", recipe, "-m", "any", "--dry-run", "--output-dir", "out"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, check=True, timeout=300)
    (path,) = tmp_path.glob("out/*/configs/resolved/eval.json")
    resolved = json.loads(path.read_text())
    assert (resolved["push"], resolved["env"]["agent"]["runtime"]["type"]) == (False, "subprocess")
    assert resolved["env"]["taskset"]["kwargs"] == {"level": 2, "split": "test"}


@foreign
def test_their_validation_of_an_exported_plug_in_lets_its_expert_play(vf, tmp_path):
    package = tmp_path / "package"
    export_plugin(install_plugin(tmp_path / "site"), "--verifiers", package)
    command = [Path(sys.executable).with_name("vf-validate"), "rlvr-made-up-env", "-n", "3", "--only-gold"]
    command += ["--runtime.type", "subprocess", "--rich", "false", "--output-dir", "out", "--run.dir", "run"]
    variables = seeing(tmp_path / "site", package) | {"HOME": str(tmp_path)}
    subprocess.run(command, cwd=tmp_path, env=variables, check=True, capture_output=True, timeout=300)
    outcomes = json.loads((tmp_path / "out" / "run" / "summary.json").read_text())["outcomes"]
    assert {reason: count for reason, count in outcomes.items() if count} == {"valid": 3}


@foreign
def test_an_exported_package_is_our_plug_in_with_its_environment_named(vf, tmp_path, monkeypatch):
    from verifiers.v1.utils.loaders import default_harness_id

    assert main(["export", "--verifiers", "GuessNumber", "--level", "2", "--out", str(tmp_path / "package")]) == 0
    monkeypatch.syspath_prepend(str(tmp_path / "package"))
    env = vf.load_environment(vf.resolve_env_config({"taskset": {"id": "rlvr-guess-number", "n": 2}}))
    ours = make_env(vf, taskset={"env": "rlvr/GuessNumber-v0", "kwargs": {"level": 2}, "n": 2})
    assert type(env) is type(ours)
    assert default_harness_id("rlvr-guess-number") == "rlvr-guess-number"
    assert [task.data for task in env.taskset.load()] == [task.data for task in ours.taskset.load()]


@foreign
def test_rewards_of_text_are_those_of_direct_stepping(vf, monkeypatch):
    monkeypatch.setenv("NO_KEY", "none")
    engine = kit.RecordingEngine()

    def play(specs, asked):
        server = chat(asked)
        client = vf.EvalClientConfig(base_url=f"{server.url}/v1", api_key_var="NO_KEY")
        try:
            context = vf.ModelContext(model="scripted", client=client)
            episodes = run_all(make_env(vf), [task_of(spec) for spec in specs], context)
        finally:
            server.close()
        for error in [error for episode in episodes for trace in episode.traces for error in trace.errors]:
            if error.type == "ProviderError":
                raise RuntimeError(error.message)
        return [
            kit.PlayedEpisode(spec, trace.reward, actions=[message.content for message in trace.assistant_messages])
            for spec, episode in zip(specs, episodes, strict=True)
            if episode.ok
            for trace in episode.traces
        ]

    kit.conform(play, engine, tokens=False)


@foreign
def test_the_environment_server_that_prime_rl_runs(vf, folder, policy):
    """Its orchestrator loads tasks, and sends each to a server in another process, which samples from the engine."""
    from verifiers.v1.serve import EnvClient, env_config_data

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    code = "import json, sys; from verifiers.v1.serve import serve_env\n"
    code += "serve_env(max_workers=1, address=sys.argv[1], config_data=json.loads(sys.argv[2]))"
    env = make_env(vf, taskset={"n": 4})
    command = [sys.executable, "-c", code, address, json.dumps(env_config_data(env.config))]
    engine = kit.RecordingEngine(*policy)

    async def rollouts(url):
        client, context = EnvClient(address), training(vf, url, folder)
        try:
            await client.wait_for_server_startup(timeout=300)
            return await asyncio.gather(
                *(
                    client.run(context.client, context.model, context.sampling, task.data.model_dump(mode="json"))
                    for task in env.taskset
                )
            )
        finally:
            await client.close()

    server = subprocess.Popen(command)
    try:
        with recorded(engine) as generating:
            episodes = asyncio.run(rollouts(generating.url))
    finally:
        server.terminate()
        server.wait(60)
    for episode in episodes:
        (trace,) = episode.traces
        assert episode.ok
        spec = TaskSpec.parse(trace.task.data.spec)
        played = kit.PlayedEpisode(
            spec, trace.reward, tokens_of(trace), verdict=Verdict.from_dict(trace.info["verdict"])
        )
        kit.check_rewards(played, engine.tokenizer)
        kit.check_masks(played, engine.calls)
        kit.check_logprobs(played, engine.model)


# the renderer


@foreign
def test_the_renderer_appends(vf, policy):
    from renderers.configs import CustomRendererConfig

    from rlvr.adapters.trainers.renderers import AppendingRenderer, AppendingRendererConfig

    _, tokenizer = policy
    renderer = AppendingRenderer(tokenizer)
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "<|end|> Ünd?"}
    more = {"role": "user", "content": [{"type": "text", "text": "More"}]}
    first = renderer.render([system, user], add_generation_prompt=True)
    said = [*tokenizer.encode("Yes. ", add_special_tokens=False), tokenizer.eos_token_id]
    for reply in (said, said[:-1], list(b"\xc3")):
        bridged = renderer.bridge_to_next_turn(first.token_ids, reply, [more])
        assert bridged.token_ids[: len(first.token_ids) + len(reply)] == first.token_ids + reply
        assert set(bridged.message_indices[len(first.token_ids) + len(reply) :]) == {0}
    whole = renderer.render([system, user, {"role": "assistant", "content": "Yes. "}, more], add_generation_prompt=True)
    assert whole.token_ids == renderer.bridge_to_next_turn(first.token_ids, said, [more]).token_ids
    assert len(whole.message_indices) == len(whole.token_ids)
    assert renderer.parse_response(said).content == renderer.parse_response(said[:-1]).content == "Yes. "
    assert renderer.get_stop_token_ids() == [tokenizer.eos_token_id]
    assert renderer.bridge_to_next_turn(first.token_ids, said, [{"role": "assistant", "content": "?"}]) is None
    with pytest.raises(ValueError, match="text alone"):
        renderer.render([{"role": "user", "content": [{"type": "image_url"}]}], add_generation_prompt=True)
    with pytest.raises(ValueError, match="keeps all"):
        AppendingRenderer(tokenizer, AppendingRendererConfig(thinking_retention="tool_cycle"))
    CustomRendererConfig(import_path=RENDERER, template_options={"enable_thinking": False})
    with pytest.raises(ValueError, match="temperature"):
        CustomRendererConfig(import_path=RENDERER, temperature=1)
