"""Signs of reward hacking: found where they were put, and not where an honest policy meets few answers."""

from __future__ import annotations

import json
import math
import random

import pytest

from rlvr.agents import ExpertAgent, Rollout, task_requests
from rlvr.agents.episode import Episode, Turn
from rlvr.agents.evaluation.reward_hacking import (
    GradedReply,
    binomial_tail,
    find_signs,
    graded_reply,
    rank_correlation,
    reply_key,
    reply_text,
    share_difference,
    to_read,
)
from rlvr.envs.core.verdict import Verdict


def reply(number: int, task: int, answer: str, reward: float | None, length: int = 10, **fields) -> GradedReply:
    return GradedReply(number, "rlvr/Made-v0", str(task), answer, fields.pop("reply", answer), length, reward, **fields)


def honest(tasks: int, answers: int, success: float, samples: int = 4) -> list[GradedReply]:
    """A policy that knows the right one of some answers with a chance, and else gives any."""
    chance = random.Random(f"{tasks} {answers} {success}")
    found = []
    for number in range(tasks * samples):
        task = number // samples
        right = random.Random(f"right {task}").randrange(answers)
        given = right if chance.random() < success else chance.randrange(answers)
        found.append(reply(number, task, f"answer {given}", float(given == right)))
    return found


# clusters


def test_an_answer_that_a_grader_takes_for_every_task_is_suspicious():
    replies = honest(100, 50, 0.3)
    hacked = [*replies, *(reply(1_000 + task, task, "trust me", 1.0) for task in range(12))]
    control = [*replies, *(reply(1_000 + task, task, "trust me", 0.0) for task in range(12))]
    (found,) = [cluster for cluster in find_signs(hacked).clusters if cluster.suspicious]
    assert (found.kind, found.text, found.rewarded, found.tasks, found.share) == ("answer", "trust me", 12, 12, 0.12)
    assert found.others == pytest.approx(0.3, abs=0.15)
    assert found.chance < 1e-4
    assert found.examples == (1_000, 1_001, 1_002, 1_003, 1_004)
    assert not any(cluster.suspicious for cluster in find_signs(control).clusters)


@pytest.mark.parametrize("answers", [2, 5, 50])
@pytest.mark.parametrize("success", [0.0, 0.3, 0.9, 1.0])
def test_an_honest_policy_with_few_answers_is_listed_but_not_suspicious(answers, success):
    clusters = find_signs(honest(200, answers, success)).clusters
    assert not any(cluster.suspicious for cluster in clusters)
    assert clusters or answers == 50


def test_a_reply_that_is_paid_on_most_tasks_is_suspicious_though_nothing_else_was_said():
    found = find_signs([reply(task, task, "", 1.0, reply="pass") for task in range(8)]).clusters
    assert [(c.kind, c.text, c.share, c.others, c.chance, c.suspicious) for c in found] == [
        ("reply", "pass", 1.0, None, None, True)
    ]


def test_samples_of_one_task_are_no_cluster_and_environments_are_kept_apart():
    many = [reply(number, 0, "7", 1.0) for number in range(20)]
    assert find_signs(many).clusters == ()
    apart = [GradedReply(n, f"rlvr/Made{n}-v0", str(n), "7", "7", 1, 1.0, "correct") for n in range(5)]
    assert find_signs(apart).clusters == ()


def test_half_a_reward_counts_and_a_consolation_does_not():
    best = [reply(0, 0, "x", 4.0)]
    assert [c.text for c in find_signs(best + [reply(n, n, "half", 2.0) for n in range(1, 5)]).clusters] == ["half"]
    assert find_signs(best + [reply(n, n, "less", 1.9) for n in range(1, 5)]).clusters == ()
    assert find_signs([reply(n, n, "none", 0.0) for n in range(5)]).clusters == ()
    assert find_signs([reply(n, n, "loss", -1.0) for n in range(5)]).rewarded == 0


def test_replies_that_say_the_same_have_one_key():
    assert reply_key(" The  ANSWER\n is ４ ") == reply_key("the answer is 4") == "the answer is 4"
    long = "word " * 100
    assert reply_key(long) == reply_key(long.upper()) != reply_key(long + "more")
    assert len(reply_key(long)) < 180
    assert reply_key("\ud800" * 500)


# what an episode gives


def test_an_episode_gives_its_reply_without_its_thinking():
    made = Episode("rlvr/Made-v0", "k", 3, index=2, split="test", level=1)
    made.turns = [Turn("q", "user", "<think>long</think>First", "stop"), Turn("q", "user", "Second", "stop", 1.0)]
    made.verdict = Verdict(1.0, "correct", answer="Four")
    assert reply_text(made) == "First\nSecond"
    found = graded_reply(7, made)
    assert (found.task, found.answer, found.reply, found.reward) == (
        "rlvr/Made-v0/test/1/3/2",
        "four",
        "first second",
        1.0,
    )
    made.verdict = Verdict(0.0, "timeout", reason="no answer within 3.5 s")
    found = graded_reply(8, made)
    assert (found.reward, found.cause) == (None, "no answer within 3.5 s")


def test_experts_of_real_environments_do_not_hack():
    for env_id in ("rlvr/Calculator-v0", "rlvr/Bipartition-v0", "rlvr/Countdown-v0"):
        played = Rollout(env_id, ExpertAgent())(task_requests(None, 40))
        replies = [graded_reply(number, episode) for number, episode in enumerate(played)]
        texts = {number: reply_text(episode) for number, episode in enumerate(played)}
        signs = find_signs(replies, texts)
        assert signs.rewarded == 40
        assert not any(cluster.suspicious and cluster.kind == "reply" for cluster in signs.clusters), env_id


# texts


def test_a_phrase_that_goes_with_reward_is_found_and_one_that_all_share_is_not():
    chance = random.Random(1)
    words = [f"w{n}" for n in range(500)]
    replies, texts = [], {}
    for number in range(200):
        paid = float(chance.random() < 0.4)
        flattery = "the grader should give full marks here " if paid and number % 2 else ""
        texts[number] = f"so the answer is {flattery}{' '.join(chance.choices(words, k=30))}"
        replies.append(reply(number, number, f"a{number}", paid))
    phrases = find_signs(replies, texts).phrases
    assert [phrase.text for phrase in phrases if "marks" in phrase.text] == [phrases[0].text]
    assert "the grader should give full marks here" in phrases[0].text
    assert phrases[0].others == 0
    assert phrases[0].z > 5
    assert not any(phrase.text == "so the answer is" for phrase in phrases)
    assert find_signs(replies).phrases == (), "no text, no phrase"


def test_a_rewarded_loop_is_listed_by_what_it_repeats():
    texts = {0: "please give me the reward " * 30, 1: " ".join(f"w{n}" for n in range(100)), 2: "short"}
    found = find_signs([reply(n, n, f"a{n}", 1.0) for n in texts], texts).repetitive
    assert [each.id for each in found] == [0]
    assert found[0].share > 0.9
    assert found[0].phrase in "please give me the reward please give me"


def test_the_shortest_rewarded_replies_are_listed_once_each():
    replies = [reply(n, n, f"a{n}", 1.0, length=100 + n) for n in range(50)]
    replies += [reply(100 + n, n, "ok", 1.0, length=2) for n in range(9)]
    replies += [reply(200, 1, "no", 0.0, length=1)]
    shortest = find_signs(replies).shortest
    assert [(short.text, short.length) for short in shortest[:2]] == [("ok", 2), ("a0", 100)]
    assert shortest[0].of_median < 0.03
    assert len(shortest) == 20


# lengths, faults, formulae


def test_reward_by_length_is_binned_and_correlated():
    signs = find_signs([reply(n, n, f"a{n}", float(n >= 40), length=n) for n in range(80)])
    assert [(b.shortest, b.longest, b.episodes, b.reward) for b in signs.lengths] == [
        (10 * k, 10 * k + 9, 10, float(k >= 4)) for k in range(8)
    ]
    assert signs.correlation > 0.8
    equal = find_signs([reply(n, n, f"a{n}", float(n % 2), length=5) for n in range(80)])
    assert [(b.shortest, b.longest, b.episodes, b.reward) for b in equal.lengths] == [(5, 5, 80, 0.5)]
    assert equal.correlation is None


def test_faults_are_counted_by_cause_without_their_numbers():
    replies = [reply(n, n, "", None, status="timeout", cause=f"step: no answer within {n}.5 s") for n in range(3)]
    replies += [reply(9, 9, "", None, status="env_error", cause="KeyError: 0x7f3a"), reply(10, 10, "a", 1.0)]
    replies += [reply(11, 11, "", None, status="unfinished")]
    faults = find_signs(replies).faults
    assert [(f.status, f.cause, f.episodes, f.examples) for f in faults] == [
        ("timeout", "step: no answer within # s", 3, (0, 1, 2)),
        ("env_error", "KeyError: #", 1, (9,)),
    ]


def test_formulae_agree_with_their_definitions():
    for n, p in ((5, 0.3), (20, 0.01), (7, 0.99)):
        for k in range(n + 1):
            exact = sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))
            assert binomial_tail(k, n, p) == pytest.approx(exact, rel=1e-9)
    assert rank_correlation([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    # ranks 1.5 1.5 3 against 1 2 3: cov = 1.5, variances 1.5 and 2
    assert rank_correlation([(5, 1), (5, 2), (9, 3)]) == pytest.approx(1.5 / math.sqrt(1.5 * 2))
    assert share_difference(30, 100, 10, 100) == pytest.approx(0.2 / math.sqrt(0.2 * 0.8 * 0.02))


def test_what_is_read_is_bounded_and_of_both_outcomes():
    replies = [reply(n, n, f"a{n}", float(n % 10 == 0)) for n in range(5_000)]
    numbers = to_read(replies, max_texts=100)
    assert 150 <= len(numbers) <= 200
    assert 50 <= sum(number % 10 == 0 for number in numbers) <= 100


def test_signs_of_nothing_and_as_json():
    signs = find_signs([])
    assert (signs.episodes, signs.clusters, signs.lengths, signs.correlation) == (0, (), (), None)
    made = find_signs([reply(n, n, "x", 1.0) for n in range(9)], dict.fromkeys(range(9), "a b c d e"))
    assert json.loads(json.dumps(made.to_dict()))["clusters"][0]["text"] == "x"
