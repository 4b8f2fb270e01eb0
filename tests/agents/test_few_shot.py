"""Worked examples reach a policy as turns before the question, are kept in the record, and carry no loss."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from rlvr.agents import ConstantAgent, Conversation, ExpertAgent, Reply, Rollout, RolloutRequest, task_requests
from rlvr.agents.continuation import branch_points
from rlvr.agents.conversation import as_one_text, opening_messages
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.records import read_episodes
from rlvr.agents.evaluation.regrade import regrade
from rlvr.agents.fork import OneAction, fork, go_on
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.agents.scripted import HumanAgent
from rlvr.cli import main
from rlvr.envs.core.task import EXAMPLE_SEED
from rlvr.envs.endpoint import Endpoint
from rlvr.envs.wrappers import EpisodeRecorder

GSM8K = "rlvr/GSM8K-v0"
SETTINGS = {"few_shot": 2, "prompt_style": "r1"}
ROLES = ["system", *["user", "assistant"] * 2, "user"]


def info_of(**settings):
    return gym.make(GSM8K, **settings).reset(seed=0, options={"index": 0})


class Seen(ConstantAgent):
    """Remembers the conversations that it was asked to answer."""

    def __init__(self, text=""):
        super().__init__(text)
        self.messages, self.openings = [], []

    def act(self, conversations):
        self.messages += [[*each.messages] for each in conversations]
        self.openings += [each.opening for each in conversations]
        return super().act(conversations)


@pytest.mark.parametrize("use_system", [True, False])
def test_an_agent_is_asked_behind_the_turns_of_examples(use_system):
    observation, info = info_of(**SETTINGS)
    agent = Seen()
    (episode,) = Rollout(GSM8K, agent, use_system=use_system, env_settings=SETTINGS)([RolloutRequest(0, index=0)])
    (messages,) = agent.messages
    assert [message["role"] for message in messages] == ROLES[not use_system :]
    assert messages == [*opening_messages(info["system"] if use_system else None, info["examples"]), messages[-1]]
    assert messages[-1] == {"role": "user", "content": observation}
    assert agent.openings == [len(messages) - 1] == [len(episode.opening())]
    assert episode.messages() == [*messages, {"role": "assistant", "content": ""}]
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode


def test_without_examples_a_record_knows_nothing_of_them():
    (episode,) = Rollout(GSM8K, ExpertAgent())([RolloutRequest(0, index=0)])
    assert "examples" not in episode.to_dict()
    assert [message["role"] for message in episode.messages()] == ["system", "user", "assistant"]


def test_one_text_has_the_examples_and_the_question_in_one_form():
    messages = opening_messages("Rule.", [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}])
    question = {"role": "user", "content": "c?"}
    assert as_one_text([*messages, question]) == "Rule.\n\nQuestion: a?\nAnswer: b\n\nQuestion: c?\nAnswer:"
    assert as_one_text([*messages[1:], question]) == "Question: a?\nAnswer: b\n\nQuestion: c?\nAnswer:"
    assert as_one_text([messages[0], question]) == "Rule.\n\nc?"
    assert as_one_text([question]) == "c?"


@pytest.mark.parametrize("examples", [3, [3], [{"role": "user"}], [{"role": "user", "content": "a"}], "ab"])
def test_what_is_no_turns_ends_the_episode_with_what_was_wrong(examples):
    class Wrong(gym.Wrapper):
        def reset(self, **given):
            observation, info = super().reset(**given)
            return observation, info | {"examples": examples}

    rollout = Rollout(lambda: Wrong(gym.make(GSM8K)), ConstantAgent())
    (episode,) = rollout([RolloutRequest(0, index=0)])
    assert episode.verdict.status == "env_error"
    assert "a user's and an assistant's in turn; got " in episode.verdict.reason


def test_an_endpoint_gets_the_turns_with_the_thoughts_that_they_show():
    observation, info = info_of(**SETTINGS)
    opening = opening_messages(info["system"], info["examples"])
    messages = [*opening, {"role": "user", "content": observation}]
    assert "<think>" in opening[2]["content"]
    agent = OpenAIAgent(Endpoint("http://127.0.0.1:9/v1", "m", api_key=""))
    conversation = Conversation("k", [*messages], opening=len(opening))
    assert agent.body(conversation)["messages"] == messages
    conversation.append_reply(Reply("<think>\nown\n</think>\n\n4"))
    assert agent.body(conversation)["messages"][-1]["content"] == "4", "the policy's own thoughts are not sent back"


def test_a_person_is_shown_them():
    shown = []
    agent = HumanAgent(lambda prompt: "4", lambda role, text: shown.append(role))
    Rollout(GSM8K, agent, env_settings=SETTINGS)([RolloutRequest(0, index=0)])
    assert shown == ROLES


def test_the_expert_still_takes_its_shortcut_in_the_first_turn():
    def actions(**settings):
        agent = ExpertAgent(shortcut_share=1.0)
        return Rollout(GSM8K, agent, env_settings=settings)([RolloutRequest(0, index=0)])[0].turns[0].action

    assert actions(**SETTINGS) == actions(prompt_style="r1") == gym_direct_answer()


def gym_direct_answer():
    env = gym.make(GSM8K).unwrapped
    env.reset(seed=0, options={"index": 0})
    return env.direct_answer()


def test_records_are_regraded_forked_and_gone_on_with():
    tools = {**SETTINGS, "tools": ["calculator"]}
    rollout = Rollout(GSM8K, ExpertAgent(), env_settings=tools)
    call = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "1+1"}}\n</tool_call>'
    agent = OneAction(call)
    (paused,) = rollout.with_agent(agent)([RolloutRequest(0, index=0)])
    assert [len(paused.turns), len(paused.examples)] == [2, 4]
    (whole,) = rollout([Episode.from_dict(json.loads(json.dumps(paused.to_dict())))])
    assert whole.success
    assert [message["role"] for message in whole.messages()] == [*ROLES, "assistant", "tool", "assistant"]
    assert all(not each.changed for each in regrade(rollout, [whole]))
    after = go_on(rollout, fork(whole, 1), OneAction(whole.turns[1].action))
    assert (after.messages(), after.success) == (whole.messages(), True)


def test_the_recorder_writes_what_evaluation_writes(tmp_path):
    (played,) = Rollout(GSM8K, ExpertAgent(), env_settings=SETTINGS)([RolloutRequest(0, index=0)])
    env = EpisodeRecorder(gym.make(GSM8K, **SETTINGS), tmp_path / "episodes.jsonl")
    env.reset(seed=0, options={"index": played.index})
    env.step(env.unwrapped.solve())
    (recorded,) = read_episodes(tmp_path / "episodes.jsonl")
    assert (recorded.messages(), recorded.examples) == (played.messages(), played.examples)


def test_eval_asks_with_turns_and_resumes(tmp_path, capsys):
    out = tmp_path / "episodes.jsonl"
    words = ["eval", "--env", GSM8K, "--agent", "expert", "--set", "few_shot=2", "--out", str(out), "--split", "test"]
    assert main([*words, "--episodes", "2"]) == 0
    before = out.read_bytes()
    assert [[m["role"] for m in each.messages()] for each in read_episodes(out)] == [[*ROLES, "assistant"]] * 2
    assert main([*words, "--episodes", "2"]) == 0
    assert out.read_bytes() == before
    capsys.readouterr()


# tokens

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tokenizers import Tokenizer  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

from rlvr.agents.models.tiny import tiny_policy  # noqa: E402
from rlvr.agents.models.transformers import TransformersAgent  # noqa: E402
from rlvr.agents.rendering import Renderer  # noqa: E402

from ..templates import TEMPLATES, byte_level_bpe  # noqa: E402


@pytest.fixture(scope="module", params=TEMPLATES)
def renderer(request):
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(byte_level_bpe().to_str()), eos_token="<|endoftext|>"
    )
    tokenizer.chat_template = TEMPLATES[request.param]
    return Renderer(tokenizer)


def decoded(renderer, ids):
    return renderer.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("style", ["boxed", "none", "r1"])
def test_every_template_shows_them_as_its_own_turns(renderer, style):
    observation, info = info_of(few_shot=2, prompt_style=style)
    opening = opening_messages(info.get("system"), info["examples"])
    messages = [*opening, {"role": "user", "content": observation}]
    adapted = [*messages]
    if renderer.tokenizer.chat_template == TEMPLATES["gemma"] and style != "none":  # it has no system role
        system, first, *others = messages
        adapted = [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *others]
    expected = renderer.tokenizer.apply_chat_template(
        adapted, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    ids = renderer.render(Conversation("k", messages, opening=len(opening)))
    if style == "r1":  # the tags that its system prompt spells are text, and no tokens of the model's
        assert decoded(renderer, ids) == decoded(renderer, expected)
    else:
        assert ids == expected
    reply = {"role": "assistant", "content": "\\boxed{4}"}
    whole, mask = renderer.render_demonstration([*messages, reply], opening=len(opening))
    assert (whole[: len(ids)], sum(mask[: len(ids)])) == (ids, 0)
    assert renderer.decode([token for token, on in zip(whole, mask, strict=True) if on]) == "\\boxed{4}"


def test_what_is_sampled_behind_examples_is_all_that_is_trained():
    model, tokenizer = tiny_policy(hidden=32, layers=1)
    agent = TransformersAgent(model, tokenizer, max_new_tokens=6)
    (episode,) = Rollout(GSM8K, agent, env_settings=SETTINGS)([RolloutRequest(0, index=0)])
    tokens, (turn,) = episode.tokens, episode.turns
    prompt = agent.renderer.render(Conversation("k", episode.messages()[:-1]))
    assert tokens.ids[: len(prompt)] == prompt
    assert tokens.mask == [0] * len(prompt) + [1] * (turn.end - len(prompt))
    env = gym.make(GSM8K, **SETTINGS).unwrapped
    (point,) = branch_points(env, episode, [len(prompt) + 2])
    start = point.start("again")
    assert start.conversation.messages == episode.messages()[:-1]
    assert start.conversation.opening == len(episode.opening())
    assert start.conversation.partial_completion.ids == tokens.ids[len(prompt) : len(prompt) + 2]


def test_the_tasks_are_those_without_examples():
    plain = Rollout(GSM8K, ExpertAgent())(task_requests(None, 4))
    worked = Rollout(GSM8K, ExpertAgent(), env_settings={"few_shot": 2})(task_requests(None, 4))
    assert [each.turns for each in plain] == [each.turns for each in worked]


def test_a_generated_task_has_episodes_of_the_expert_for_examples():
    """Whole episodes, of training tasks of its level, the same before every task, and never the task itself."""
    env = gym.make("rlvr/GuessNumber-v0", few_shot=2, split="test", level=2)
    firsts = {env.reset(seed=seed)[1]["examples"][0]["content"] for seed in range(4)}
    examples = env.reset(seed=7)[1]["examples"]
    assert len(firsts) == 1
    assert [turn["role"] for turn in examples] == ["user", "assistant"] * (len(examples) // 2)
    starts = [number for number, turn in enumerate(examples) if turn["content"].startswith("Guess my number")]
    assert len(starts) == 2
    for begin, end in zip(starts, [*starts[1:], len(examples)], strict=True):
        assert examples[end - 1]["content"].endswith("}")  # the guess that was right ends it
        assert end - begin >= 2
    assert env.unwrapped.fork().reset(seed=7)[1]["examples"] == examples
    small = gym.make("rlvr/Sums-v0", few_shot=1, numbers=2, digits=2)
    question = small.reset(seed=0)[1]["examples"][0]["content"]
    twin = gym.make("rlvr/Sums-v0", numbers=2, digits=2).unwrapped
    assert twin.reset(seed=EXAMPLE_SEED, options={"index": 0})[0] == question
    asked, info = small.reset(seed=EXAMPLE_SEED, options={"index": 0})
    assert asked == question != info["examples"][0]["content"]


def test_a_demonstration_behind_examples_of_the_expert_is_learned_alone():
    renderer = Renderer(tiny_policy(hidden=32, layers=1)[1])
    env_settings = {"few_shot": 2, "numbers": 2, "digits": 2}
    (episode,) = Rollout("rlvr/Sums-v0", ExpertAgent(), env_settings=env_settings)([RolloutRequest(0)])
    assert episode.success
    assert len(episode.opening()) == 5
    ids, mask = renderer.render_demonstration(episode.messages(), "", len(episode.opening()))
    learned = [token for token, on in zip(ids, mask, strict=True) if on]
    assert renderer.decode(learned) == episode.turns[0].action


@pytest.mark.parametrize(
    ("env_id", "few_shot", "message"),
    [
        ("rlvr/Sums-v0", 33, "few_shot must be a whole number from 0 to 32, got 33"),
        ("rlvr/Sums-v0", "2", "few_shot must be a whole number"),
        ("rlvr/VisualClocks-v0", 1, "shows images"),
        ("rlvr/GSM8K-v0", -1, "few_shot must be a whole number"),
    ],
)
def test_few_shot_that_cannot_be_is_refused(env_id, few_shot, message):
    with pytest.raises(ValueError, match=message):
        gym.make(env_id, few_shot=few_shot)
