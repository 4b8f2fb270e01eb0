"""What is known after an episode, put before its task: feedback without the answer in it, and what is learned so."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.agents.episode import Episode
from rlvr.algorithms.advantages.hindsight import behind_condition, feedback_of, hints, reference_answer, solution_of
from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.losses.policy import policy_loss
from rlvr.algorithms.train.run import Trainer
from rlvr.cli.eval_agents import DEFAULTS, config_of, take_sampling
from rlvr.envs import Verdict

from .runs import CALCULATOR, Callback, small

POSITIVE = "Feedback: correct"
QUICK = {"warm_start": {"steps": 2, "batch_size": 4}, "prompts": 2, "overrides": {}, "steps": 1}


@pytest.fixture
def begun(tmp_path: Path):
    """A run of two groups on a game of several turns, before its first step."""
    trainers = []

    def begin(algorithm: str, **changes) -> Trainer:
        trainer = Trainer(small(tmp_path / str(len(trainers)), algorithm=algorithm, **QUICK | changes), Callback())
        trainers.append(trainer)
        trainer.prepare()
        return trainer

    yield begin
    for trainer in trainers:
        trainer.close()


def logprob(trainer: Trainer, ids: list[int], mask: list[int]) -> torch.Tensor:
    """Sum of log pi over the sampled tokens by the model's own logits, one sequence at a time."""
    with torch.no_grad():
        logs = trainer.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return sum(logs[t - 1, ids[t]] for t in range(1, len(ids)) if mask[t])


# feedback


def test_the_words_of_the_answer_are_hidden():
    verdict = Verdict(0.0, "wrong", "d", "d has the value 38, c has more")
    assert feedback_of(verdict, r"\boxed{name c}") == "wrong: d has the value 38, [answer] has more"
    assert feedback_of(verdict, "") == "wrong: d has the value 38, c has more"
    assert feedback_of(Verdict(1.0, "correct", "c", "c is the best"), "c") == "correct"
    assert feedback_of(Verdict(0.0, "unparsable", reason=r"no number in \boxed{}"), r"\boxed{7}").endswith(r"\boxed{}")


def test_where_nobody_knows_the_answer_the_status_stands_alone():
    assert feedback_of(Verdict(0.0, "wrong", None, "the answer is 12"), None) == "wrong"
    assert reference_answer(gym.Env(), Episode("served", "k", 0)) is None


@given(st.text(), st.text())
def test_no_word_of_the_answer_stays(answer: str, reason: str):
    feedback = feedback_of(Verdict(0.0, "wrong", None, reason), answer)
    rest = feedback.removeprefix("wrong").replace("[answer]", "")
    words = {word.casefold() for word in re.findall(r"\w+", answer.replace("\\boxed", ""))}
    assert not words & {word.casefold() for word in re.findall(r"\w+", rest)}


def test_the_answer_is_that_of_the_task():
    env = gym.make("rlvr/Sums-v0", level=2).unwrapped
    env.reset(seed=5)
    answer = env.direct_answer()
    env.reset(seed=6)
    assert reference_answer(env, Episode("rlvr/Sums-v0", "k", 5, index=0, level=2)) == answer
    state = env.get_state()
    assert env.get_state() == state  # asked of a twin


# FCP


def test_responses_are_sampled_and_evaluated_behind_a_positive_condition(begun):
    trainer = begun("fcp", env={"system": True})
    episodes = trainer.collect().collected.episodes
    assert len(episodes) == 8
    for episode in episodes:
        assert not episode.turns[0].observation.startswith("Feedback")
        assert POSITIVE in trainer.tokenizer.decode(episode.tokens.ids[: episode.tokens.mask.index(1)])
        again = behind_condition(trainer.renderer, episode, POSITIVE)
        assert (again.ids, again.mask) == (episode.tokens.ids, episode.tokens.mask)
    held_out = trainer.rollout_of(trainer.play_agent(greedy=True), "test")
    assert held_out.agent.renderer.condition == POSITIVE
    assert held_out.agent.description["sampling"]["condition"] == POSITIVE
    (demonstration,) = trainer._demonstrations([trainer.collector.pool.draw(group=0, salt="")])
    assert POSITIVE in trainer.tokenizer.decode(demonstration.ids)


def test_the_loss_is_the_likelihood_behind_each_ones_own_feedback(begun):
    long = {"max_new_tokens": 16, "max_length": 400}  # for replies and feedback
    trainer = begun("fcp", learner={"micro_batch_tokens": 500}, sampling=long)
    collected = trainer.collect().collected
    assert max(len(episode.turns) for episode in collected.episodes) > 1
    collected.episodes[0].verdict = Verdict(1.0, "correct")
    nll, tokens = 0.0, 0
    for episode in collected.episodes:
        secret = re.search(r"\d+", reference_answer(trainer.rollout.env.unwrapped, episode))[0]
        reason = re.sub(rf"\b{secret}\b", "[answer]", episode.verdict.reason)  # "it was 47"
        words = "correct" if episode.verdict.success else f"{episode.verdict.status}: {reason}"
        question = f"Feedback: {words}\n\n{episode.turns[0].observation}"
        start = trainer.tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False)
        prompt = trainer.tokenizer.encode(f"{start}<|assistant|>", add_special_tokens=False)
        begin = episode.tokens.mask.index(1)
        ids, mask = prompt + episode.tokens.ids[begin:], [0] * len(prompt) + episode.tokens.mask[begin:]
        nll -= float(logprob(trainer, ids, mask))
        tokens += sum(mask)
    metrics = trainer.method.update(collected, trainer.optimiser)
    assert metrics["loss"] == pytest.approx(nll / tokens, rel=1e-6)
    assert metrics["denominators"] == {"tokens": tokens, "sequences": 8}


def test_a_sequence_that_is_too_long_behind_its_feedback_is_left_out(begun):
    trainer = begun("fcp", env={"id": CALCULATOR})
    collected = trainer.collect().collected
    collected.episodes[0].verdict = Verdict(0.0, "wrong", reason="so " * 100)
    with pytest.warns(UserWarning, match="longer than sampling.max_length 128 behind their feedback are left out"):
        metrics = trainer.method.update(collected, trainer.optimiser)
    assert (metrics["sequences_left_out"], metrics["denominators"]["sequences"]) == (1, 7)


def test_a_policy_is_evaluated_as_it_was_trained(begun):
    trainer = begun("fcp")
    (trainer.folder.path / "policy").mkdir()
    options = argparse.Namespace(
        **{"agent": None, "vllm": None, "endpoint": None, **dict.fromkeys(DEFAULTS), "model": str(trainer.folder.path)}
    )
    assert f"condition {POSITIVE}" in take_sampling(options, config_of(options))
    assert options.condition == POSITIVE


# self-distillation


LONG = {"max_new_tokens": 16, "max_length": 1600}


def told(trainer: Trainer, episodes: list[Episode]) -> list[str]:
    """What each teacher reads, from the episodes alone: sibling, then feedback."""
    env, texts = trainer.rollout.env.unwrapped, []
    for episode in episodes:
        others = [other for other in episodes if other.group == episode.group and other is not episode]
        parts = [f"A solution:\n{solution_of(other)}" for other in others if other.success][:1]
        if not episode.success:
            parts.append(f"Feedback: {feedback_of(episode.verdict, reference_answer(env, episode))}")
        texts.append("\n\n".join(parts))
    return texts


def test_the_advantage_is_the_log_ratio_of_the_policy_behind_hints(begun):
    trainer = begun("sdpo", sampling=LONG, learner={"micro_batch_tokens": 3000})
    collected = trainer.collect().collected
    for index in (1, 5):  # a success in each group
        collected.episodes[index].verdict = Verdict(1.0, "correct")
    batch, stats = trainer.method.credit(collected)
    texts = told(trainer, collected.episodes)
    assert [not text for text in texts] == [index in (1, 5) for index in range(8)]
    assert stats["sequences_left_out"] == 2
    sampled = loss = 0.0
    for index, (episode, text) in enumerate(zip(collected.episodes, texts, strict=True)):
        tokens = episode.tokens
        row = batch.inputs.advantages[index]
        if not text:
            assert not row.any()
            assert not batch.inputs.mask[index].any()
            continue
        question = f"{text}\n\n{episode.turns[0].observation}"
        start = trainer.tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False)
        prompt = trainer.tokenizer.encode(f"{start}<|assistant|>", add_special_tokens=False)
        begin = tokens.mask.index(1)
        with torch.no_grad():
            logs = trainer.model(torch.tensor([prompt + tokens.ids[begin:]])).logits[0].log_softmax(-1)
        for t in range(begin, len(tokens)):
            at = len(prompt) + t - begin
            expected = float(logs[at - 1, tokens.ids[t]]) - tokens.logprobs[t] if tokens.mask[t] else 0.0
            assert float(row[t]) == pytest.approx(expected, abs=2e-6)
            loss -= expected  # at a ratio of 1
            sampled += tokens.mask[t]
    behaviour = batch.inputs.behaviour_logprobs
    given, _ = policy_loss(behaviour.clone(), batch.inputs, trainer.learner.preset, count_denominators(batch.inputs))
    assert float(given) == pytest.approx(loss / sampled, abs=1e-6)


def test_the_expert_demonstrates_each_task_once(begun):
    trainer = begun("sdpo", sampling=LONG)
    episodes = trainer.collect().collected.episodes
    texts = hints(episodes, trainer.rollout.env.unwrapped, ("demonstration",))
    assert len(set(texts)) == 2
    env = trainer.rollout.env.unwrapped.spawn()
    env.reset(seed=episodes[0].seed, options={"index": episodes[0].index, "level": 1})
    assert texts[0].startswith(f"A solution:\n{env.solve()}")
    assert hints(episodes, trainer.rollout.env.unwrapped, ()) == [""] * 8


def test_a_teacher_is_the_average_where_there_is_one_and_a_model_where_one_is_named(begun):
    live = begun("sdpo", sampling=LONG)
    slow = begun("sdpo", sampling=LONG, learner={"ema": 0.9})
    collected = live.collect().collected
    same = [trainer.method.credit(collected)[0].inputs.advantages for trainer in (live, slow)]
    torch.testing.assert_close(*same)
    for trainer in (live, slow):
        with torch.no_grad():
            next(trainer.model.parameters()).add_(0.1)
    moved = [trainer.method.credit(collected)[0].inputs.advantages for trainer in (live, slow)]
    torch.testing.assert_close(moved[1], same[1])
    assert not torch.equal(moved[0], same[0])


def test_a_hint_that_is_too_long_leaves_its_sequence_out(begun):
    trainer = begun("sdpo", env={"id": CALCULATOR})
    collected = trainer.collect().collected
    for episode in collected.episodes:
        episode.verdict = Verdict(0.0, "wrong", reason="so " * (100 * (episode.sample == 0)))
    with pytest.warns(UserWarning, match="longer than sampling.max_length 128 behind their hints are left out"):
        batch, stats = trainer.method.credit(collected)
    assert stats["sequences_left_out"] == 2
    assert batch.inputs.mask.any(1).tolist() == [episode.sample != 0 for episode in collected.episodes]
    assert trainer.method.update(trainer.method.score(batch), trainer.optimiser)["grad_norm"] > 0
