"""Replies that were cut, or in whose place something else came: a reason of their own, and a count of their own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rlvr.agents import Episode, Rollout, RolloutRequest, summarise
from rlvr.agents.conversation import FLAWS, Conversation, Reply
from rlvr.agents.evaluation.journal import Journal
from rlvr.agents.evaluation.regrade import regrade
from rlvr.agents.evaluation.suites import score_suite
from rlvr.agents.models.openai import OpenAIAgent
from rlvr.cli import main
from rlvr.envs.endpoint import Endpoint

WORDS = "rlvr/WordProblems-v0"
CUT = Reply("so the answer is", "length", 24, limit="max_new_tokens 24")


class Giving:
    """Gives one reply after another, to whoever asks."""

    in_any_thread = True

    def __init__(self, *replies):
        self.replies = list(replies)

    def act(self, conversations):
        return [self.replies.pop(0) if len(self.replies) > 1 else self.replies[0] for _ in conversations]


def play(*replies, env_id=WORDS, **settings):
    count = len(replies)
    return Rollout(env_id, Giving(*replies), env_settings=settings)([RolloutRequest(0, index=i) for i in range(count)])


def answer(finish="stop", **message):
    return {"choices": [{"message": {"content": None, **message}, "finish_reason": finish}], "usage": {}}


def read(finish="stop", request=None, **message):
    endpoint = Endpoint("http://localhost:1/v1", "m", "", max_tokens=77)
    return OpenAIAgent(endpoint, request=request)._read(answer(finish, **message))


def call(arguments):
    return [{"function": {"name": "f", "arguments": arguments}}]


@pytest.mark.parametrize(
    ("message", "flaw"),
    [
        ({"content": "four"}, ""),
        ({"content": "four", "reasoning_content": "2 and 2"}, ""),
        ({"content": "", "reasoning_content": "2 and 2"}, "thought_only"),
        ({"reasoning": "2 and 2"}, "thought_only"),
        ({"content": ""}, "empty"),
        ({"refusal": "I cannot help with that."}, "refused"),
        ({"content": "four", "refusal": None}, ""),
        ({"finish": "content_filter", "content": "half a"}, "filtered"),
        ({"finish": "content_filter"}, "filtered"),
        ({"finish": "length", "reasoning_content": "2 and"}, ""),  # it was cut, which has a count already
        ({"tool_calls": call('{"a": 1}')}, ""),
        ({"tool_calls": call("")}, ""),
        ({"tool_calls": call('{"a": ')}, "bad_call"),
        ({"tool_calls": call("[1]")}, "bad_call"),
        ({"content": "let me", "tool_calls": call("{'a': 1}")}, "bad_call"),
    ],
)
def test_what_an_endpoint_gives_in_the_place_of_a_reply_is_told_apart(message, flaw):
    reply = read(**message)
    assert (reply.flaw, reply.stop) == (flaw, "length" if message.get("finish") == "length" else "stop")


def test_the_limit_that_cut_a_reply_is_named_as_it_was_sent():
    assert read("length", content="so").limit == "max_tokens 77"
    other = {"max_tokens": None, "max_completion_tokens": 9}
    assert read("length", other, content="so").limit == "max_completion_tokens 9"


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_a_valid_zero_with_a_reason_and_a_count(flaw):
    (episode,) = play(Reply("", flaw=flaw))
    assert (episode.reward, episode.valid, episode.turns[0].flaw) == (0.0, True, flaw)
    assert episode.verdict.status == "unparsable"
    assert episode.verdict.reason.startswith(FLAWS[flaw])
    assert episode.turns[-1].verdict == episode.verdict
    result = summarise([episode])
    assert (result.flaws, result.replies, result.cut) == ({flaw: 1}, 1, 0)
    assert f"of 1 replies: {flaw.replace('_', ' ')} 1" in str(result)
    assert Episode.from_dict(json.loads(json.dumps(episode.to_dict()))) == episode


def test_a_refusal_is_no_wrong_answer():
    (refused,) = play(Reply("I cannot tell: \\boxed{1}", flaw="refused"))
    assert refused.verdict.status == "unparsable"


def test_a_cut_reply_names_the_limit_and_is_counted():
    cut, full, right = play(CUT, Reply("", "context", limit="max_length 96"), Reply("\\boxed{1}"))
    assert cut.verdict.reason.startswith("the reply was cut at max_new_tokens 24: ")
    assert full.verdict.reason == "the context was full before the reply (max_length 96)"
    assert "cut" not in right.verdict.reason
    result = summarise([cut, full, right])
    assert (result.replies, result.cut) == (3, 2)
    assert result.to_dict()["cut_share"] == pytest.approx(2 / 3)
    assert "of 3 replies: cut 2" in str(result)
    assert type(result).from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_an_answer_before_the_cut_stays_right():
    env = Rollout(WORDS, Giving(CUT)).env
    env.reset(seed=0, options={"index": 0})
    (episode,) = play(replace(CUT, text=env.unwrapped.solve()))
    assert episode.success
    assert "cut" not in episode.verdict.reason


@pytest.mark.parametrize(("cut", "warned"), [(0, False), (2, False), (3, True), (10, True)])
def test_more_than_a_fifth_is_a_warning_that_names_the_flag(cut, warned):
    result = summarise(play(*[CUT] * cut, *[Reply("\\boxed{1}")] * (10 - cut)))
    texts = [text for text in result.warnings if "--max-new-tokens" in text]
    assert bool(texts) == warned
    if warned:
        assert f"{cut * 10}.0% of the replies were cut" in texts[0]


def test_a_suite_counts_them():
    score = score_suite([summarise(play(CUT, Reply("\\boxed{1}"))), summarise(play(Reply("", flaw="refused"), CUT))])
    assert (score.cut_share, score.flaws) == (0.5, {"refused": 1})
    assert "50.0% of the replies cut" in str(score)


def test_a_journal_and_a_second_grading_keep_them(tmp_path):
    journal, asked = Journal(tmp_path / "j.jsonl"), Conversation("k", [{"role": "user", "content": "?"}])
    for reply in (CUT, Reply("", flaw="refused")):
        journal.write(asked, reply)
        journal.close(())
        journal = Journal(tmp_path / "j.jsonl")
        assert journal.reply_to(asked) == reply
    played = play(CUT, Reply("", flaw="thought_only"))
    for again in regrade(Rollout(WORDS, Giving(CUT)), played):
        assert (again.changed, again.after.verdict) == (False, again.before.verdict)


def test_the_command_counts_them_and_warns(capsys):
    command = ["eval", "--env", WORDS, "--model", "rlvr/tiny", "--max-new-tokens", "3", "--episodes", "4"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "of 4 replies: cut 4" in printed.out
    assert "100.0% of the replies were cut" in printed.err
    assert "--max-new-tokens" in printed.err
    assert main([*command, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["replies"], result["cut"], result["cut_share"], result["flaws"]) == (4, 4, 1.0, {})
