"""tinker-cookbook's own rollouts, advantages and data over our adapter; its trainer against SkyRL's server."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import pickle
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlvr.adapters import testing as kit
from rlvr.agents import TokenSequence

EXAMPLE = Path(__file__).parents[2] / "examples" / "tinker_cookbook_train.py"
MODEL = "rlvr/test-tiny"


def load_example():
    found = importlib.util.spec_from_file_location("tinker_cookbook_train", EXAMPLE)
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    return example


# without tinker-cookbook


@pytest.mark.skipif(importlib.util.find_spec("tinker_cookbook") is not None, reason="it is here")
def test_a_missing_framework_is_named_with_the_tested_version():
    with pytest.raises(ImportError, match=r"tinker-cookbook is not installed.*tinker-cookbook>=0\.5\.0"):
        importlib.import_module("rlvr.adapters.trainers.tinker_cookbook")


def test_the_example_refuses_a_folder_that_holds_a_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "checkpoints.jsonl").write_text("{}")
    monkeypatch.setattr("sys.argv", ["train", "--policy", "x", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        load_example().main()
    assert "holds a run already" in capsys.readouterr().err


# with it

foreign = pytest.mark.foreign


@pytest.fixture(scope="module")
def ours():
    pytest.importorskip("tinker_cookbook")
    from rlvr.adapters.trainers import tinker_cookbook

    return tinker_cookbook


@pytest.fixture(scope="module")
def policy(ours):
    """A tiny model whose tokenizer also has the tokens of Qwen's chat format, for the cookbook's renderers."""
    from tinker_cookbook import tokenizer_utils

    from rlvr.agents.models.tiny import tiny_policy

    model, tokenizer = tiny_policy(hidden=32, layers=1)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    model.resize_token_embeddings(len(tokenizer))
    tokenizer_utils.register_tokenizer(MODEL, lambda: tokenizer)
    ours.shared_tokenizer.cache_clear()
    return model, tokenizer


def completer(engine, max_tokens=None):
    """The cookbook's policy over the kit's engine."""
    from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs

    class Completer(TokenCompleter):
        async def __call__(self, model_input, stop, *, max_tokens=max_tokens):
            call = await asyncio.to_thread(engine.generate, model_input.to_ints(), max_tokens)
            reason = "stop" if call.sampled[-1] in stop else "length"
            return TokensWithLogprobs(list(call.sampled), list(call.logprobs), reason)

    return Completer()


def roll_out(builders, policy):
    from tinker_cookbook.rl.rollouts import do_group_rollout

    async def gather():
        return await asyncio.gather(*[do_group_rollout(builder, policy) for builder in builders])

    return asyncio.run(gather())


def groups_of(specs):
    return [(spec, len(list(members))) for spec, members in itertools.groupby(specs)]


def sequence_of(datum) -> TokenSequence:
    """What the loss is computed from, as one sequence again."""
    inputs = {name: value.tolist() for name, value in datum.loss_fn_inputs.items()}
    ids = [*datum.model_input.to_ints(), inputs["target_tokens"][-1]]
    return TokenSequence(ids, [0, *map(int, inputs["mask"])], [0.0, *inputs["logprobs"]])


@foreign
def test_tokens_conform_under_the_cookbooks_rollouts(ours, policy):
    from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages

    def play(specs, engine):
        builders = [ours.GroupBuilder(spec.to_json(), MODEL, size) for spec, size in groups_of(specs)]
        groups = roll_out(builders, completer(engine))
        data, places = assemble_training_data(groups, compute_advantages(groups))
        assert len(data) == len(specs), "an episode is one datum"
        episodes = []
        for spec, datum, place in zip(specs, data, places, strict=True):
            tokens = sequence_of(datum)
            if not tokens.sampled:
                assert not any(datum.loss_fn_inputs["advantages"].tolist())
            reward = groups[place["group_idx"]].get_total_rewards()[place["traj_idx"]]
            episodes.append(kit.PlayedEpisode(spec, reward, tokens))
        return episodes

    print("\n".join(kit.conform(play, kit.RecordingEngine(*policy), tokens=True)))


@foreign
def test_messages_conform_with_a_renderer_of_the_cookbooks(ours, policy):
    model, tokenizer = policy
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")

    def play(specs, engine):
        class Ended(kit.RecordingEngine):
            """Its replies end as the renderer wants them."""

            def generate(self, prompt, max_tokens=None):
                call = engine.generate(prompt, max_tokens)
                return call._replace(sampled=[*call.sampled[:-1], end])

        builders = [
            ours.GroupBuilder(spec.to_json(), MODEL, size, renderer_name="qwen3_instruct")
            for spec, size in groups_of(specs)
        ]
        groups = roll_out(builders, completer(Ended(model, tokenizer)))
        episodes = []
        places = [(group, place) for group in groups for place in range(len(group.trajectories_G))]
        for spec, (group, place) in zip(specs, places, strict=True):
            turns = group.trajectories_G[place].transitions
            masked = any(turn.metrics.get("parse_error_masked") for turn in turns)
            actions = [tokenizer.decode(turn.ac.tokens, skip_special_tokens=True) for turn in turns]
            reward = group.get_total_rewards()[place]
            episodes.append(kit.PlayedEpisode(spec, reward, actions=actions, weight=0.0 if masked else 1.0))
        return episodes

    print("\n".join(kit.conform(play, kit.RecordingEngine(model, tokenizer), tokens=False)))


@foreign
@pytest.mark.parametrize("renderer_name", [None, "qwen3_instruct"])
def test_an_invalid_episode_moves_nobody_elses_advantage(ours, policy, monkeypatch, renderer_name):
    from tinker_cookbook.rl.data_processing import compute_advantages

    builder = ours.GroupBuilder(kit.say_specs(1)[0].to_json(), MODEL, 3, renderer_name=renderer_name)
    trajectories = [
        SimpleNamespace(transitions=[SimpleNamespace(reward=r, metrics={}) for r in rewards])
        for rewards in ([0.25, 0.25], [1.0], [0.0, 0.0])
    ]
    envs = asyncio.run(builder.make_envs())
    sessions = iter([SimpleNamespace(valid=valid, close=lambda: None) for valid in (True, False, True)])
    monkeypatch.setattr(ours, "_session_of", lambda env: next(sessions))
    added = asyncio.run(builder.compute_group_rewards(trajectories, envs))
    totals = [
        sum(t.reward for t in each.transitions) + more for each, (more, _) in zip(trajectories, added, strict=True)
    ]
    assert totals == [0.5, 0.25, 0.0]
    (advantages,) = compute_advantages([SimpleNamespace(get_total_rewards=lambda: totals)])
    assert advantages.tolist() == [0.25, 0.0, -0.25]
    assert [each.transitions[0].metrics for each in trajectories] == [{}, {"parse_error_masked": 1.0}, {}]


@foreign
def test_nothing_but_the_environment_gives_a_reward(ours, policy):
    """A reply that is cut off, or that no renderer can read, costs nothing of the cookbook's own."""
    engine = kit.RecordingEngine(*policy, script=lambda text: "no such word " * 50, max_new_tokens=6)
    builder = ours.GroupBuilder(kit.say_specs(1)[0].to_json(), MODEL, 2, renderer_name="qwen3_instruct")
    (group,) = roll_out([builder], completer(engine, 6))
    assert group.get_total_rewards() == [0.0, 0.0]
    (env,) = asyncio.run(ours.GroupBuilder(kit.say_specs(1)[0].to_json(), MODEL, 1, "qwen3_instruct").make_envs())
    assert (env.failed_parse_reward, env.context_overflow_reward) == (0.0, 0.0)


@foreign
def test_a_conversation_that_grows_too_long_keeps_what_it_earned(ours, policy):
    engine = kit.RecordingEngine(*policy, wrong_every=1000)
    spec = kit.say_specs(1)[0].to_json()
    (whole,) = roll_out([ours.GroupBuilder(spec, MODEL, 1)], completer(engine))
    assert whole.get_total_rewards() == pytest.approx([1.0])
    second = whole.trajectories_G[0].transitions[1].ob.length
    (cut,) = roll_out([ours.GroupBuilder(spec, MODEL, 1, max_trajectory_tokens=second)], completer(engine))
    assert cut.get_total_rewards() == pytest.approx([1 / 7])
    assert cut.trajectories_G[0].stop_reason == "max_tokens"


@foreign
def test_a_builder_pickles_and_closes_its_environments(ours, policy, monkeypatch):
    closed = []
    monkeypatch.setattr(ours.EpisodeSession, "close", lambda session: closed.append(session))
    builder = pickle.loads(pickle.dumps(ours.GroupBuilder(kit.say_specs(1)[0].to_json(), MODEL, 2)))
    roll_out([builder], completer(kit.RecordingEngine(*policy)))
    assert len(set(closed)) == 2
    assert builder.logging_tags() == [kit.SAY]


@foreign
def test_the_data_set(ours, policy):
    options = {"model_name": MODEL, "batch_size": 2, "group_size": 3}
    build = ours.TaskDatasetBuilder(env_id="rlvr/GuessNumber-v0", batches=3, test_tasks=4, seed=5, **options)
    train, test = asyncio.run(build())
    assert (len(train), len(test)) == (3, 1)
    specs = [builder.spec for index in range(3) for builder in train.get_batch(index)]
    assert len(set(specs)) == 6
    assert {builder.group_size for builder in train.get_batch(1)} == {3}
    assert [builder.group_size for builder in test.get_batch(0)] == [1] * 4
    assert all('"split": "test"' in builder.spec for builder in test.get_batch(0))
    few, nothing = asyncio.run(ours.TaskDatasetBuilder(env_id="rlvr/Countdown-v0", batches=2, n=3, **options)())
    assert nothing is None
    assert few.get_batch(1)[1] == few.get_batch(0)[0]
    with pytest.raises(ValueError, match="batches must be at least 1"):
        asyncio.run(ours.TaskDatasetBuilder(env_id="rlvr/Countdown-v0", batches=0, **options)())


@foreign
def test_calls_of_tools_reach_the_environment(ours, policy):
    from tinker_cookbook import renderers

    _, tokenizer = policy
    qwen = renderers.get_renderer("qwen3_instruct", tokenizer)
    written = 'Look.\n<tool_call>\n{"name": "act", "arguments": {"x": "7"}}\n</tool_call>'
    for text in (written, "plain", 'Look.\n<tool_call>\n{"name": broken}\n</tool_call>'):
        message, _ = qwen.parse_response(tokenizer.encode(text + "<|im_end|>"))
        assert "".join(ours.text_of(message).split()) == "".join(text.split())


@foreign
def test_threads_share_a_tokenizer(ours, policy):
    shared, faults = ours.shared_tokenizer(MODEL), []
    assert shared.eos_token_id == policy[1].eos_token_id
    assert shared._tokenizer is not policy[1]

    def work(number):
        try:
            for place in range(200):
                text = f"{number} {place} " * 20
                assert shared.decode(shared.encode(text, split_special_tokens=place % 2 == 0)) == text
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@foreign
def test_a_tokenizer_without_a_chat_template_is_refused(ours, policy):
    import copy

    from tinker_cookbook import tokenizer_utils

    bare = copy.deepcopy(policy[1])
    bare.chat_template = None
    tokenizer_utils.register_tokenizer("rlvr/bare", lambda: bare)
    with pytest.raises(ValueError, match="no chat template"):
        asyncio.run(ours.GroupBuilder(kit.say_specs(1)[0].to_json(), "rlvr/bare", 1).make_envs())


@foreign
@pytest.mark.skipif(importlib.util.find_spec("skyrl") is None, reason="SkyRL has the server")
def test_the_example_trains_against_skyrls_server(ours, tmp_path):
    from rlvr.agents.models.tiny import build_tiny

    example = load_example()
    build_tiny(tmp_path / "policy", hidden=32, layers=1)
    settings = {"steps": 2, "prompts": 2, "group_size": 2, "learning_rate": 1e-3, "seed": 0}
    before = set(kit._children())
    with example.serve(tmp_path / "policy", tmp_path / "server", 4) as address:
        assert set(kit._children()) > before
        record = example.train(tmp_path / "policy", tmp_path / "out", address, settings)
    assert set(kit._children()) <= before, "the server is there still"
    assert len(record["reward"]) == 2
    assert max(record["kl_sample_train"]) < 1e-6


@foreign
def test_another_version_is_named(ours, monkeypatch):
    from rlvr.adapters import versions

    monkeypatch.setattr(versions.metadata, "version", lambda package: "0.4.3")
    with pytest.raises(ImportError, match=r"tinker-cookbook 0\.4\.3 is too old"):
        versions.require(*ours.TESTED)
