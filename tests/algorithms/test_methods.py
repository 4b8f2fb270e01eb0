"""Objectives that are no policy loss, and runs of every algorithm from its example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode, Turn
from rlvr.algorithms.config import ConfigError, load_config
from rlvr.algorithms.learner.scoring import sequence_logprobs
from rlvr.algorithms.recipe.all_algorithms import ALGORITHMS
from rlvr.algorithms.sampling.collect import Collected
from rlvr.algorithms.train.methods import best_sequences, correct_sequences
from rlvr.algorithms.train.run import Trainer
from rlvr.algorithms.train.state import begin_reinforcement
from rlvr.envs import Verdict

from .runs import Callback, small

EXAMPLES = Path(__file__).parents[2] / "examples" / "algorithms"
NAMES = sorted(ALGORITHMS)
CALCULATOR = {"id": "rlvr/Calculator-v0", "system": False}


def made(trainer: Trainer, text: str, reward: float, group: int = 0, sample: int = 0) -> Episode:
    """An episode of one turn in which the policy says ``text``."""
    renderer = trainer.renderer
    ids, mask = renderer.render_demonstration(
        [{"role": "user", "content": "What is 1+1?"}, {"role": "assistant", "content": text}]
    )
    status = "correct" if reward > 0 else "wrong"
    episode = Episode("rlvr/Calculator-v0", f"{group}/{sample}", 0, group, sample, index=group)
    episode.split, episode.level = "train", 1
    episode.tokens = TokenSequence(ids, mask, [-1.0 * m for m in mask])
    episode.turns = [Turn("What is 1+1?", "user", text, "stop", reward, None, len(ids))]
    episode.verdict = Verdict(reward, status, text)
    return episode


def collected(episodes: list[Episode]) -> Collected:
    return Collected(episodes, episodes, [e.reward for e in episodes], [False] * len(episodes))


@pytest.fixture
def trainer(tmp_path):
    made = []

    def make(algorithm: str, **changes) -> Trainer:
        config = small(tmp_path / str(len(made)), algorithm=algorithm, env=CALCULATOR, overrides={}, **changes)
        made.append(Trainer(config, Callback()))
        begin_reinforcement(made[-1])
        return made[-1]

    yield make
    for one in made:
        one.folder.close()


def likelihood(trainer: Trainer, episode: Episode) -> float:
    ids = torch.tensor([episode.tokens.ids])
    mask = torch.tensor([episode.tokens.mask])
    with torch.no_grad():
        return sequence_logprobs(trainer.model, ids, mask).sum().item()


PAIR = [("\\boxed{2}", 1.0), ("\\boxed{3}", 0.0)]


@pytest.mark.parametrize("name", ["rft", "best_of_n", "online_dpo", "online_ln_dpo", "online_simpo"])
def test_the_better_row_becomes_likelier(trainer, name: str):
    one = trainer(name, learner={"lr": 1e-3, "warmup_steps": 0})
    episodes = [made(one, text, reward, sample=n) for n, (text, reward) in enumerate(PAIR)]
    before = [likelihood(one, episode) for episode in episodes]
    for _ in range(3):
        metrics = one.method.update(collected(episodes), one.optimiser)
    after = [likelihood(one, episode) for episode in episodes]
    assert metrics["denominators"]
    assert after[0] - before[0] > after[1] - before[1]


@pytest.mark.parametrize("name", ["rft", "best_of_n", "online_dpo"])
def test_nothing_is_learned_from_failures_alone(trainer, name: str):
    one = trainer(name)
    episodes = [made(one, text, 0.0, sample=n) for n, (text, _) in enumerate(PAIR)]
    before = [parameter.clone() for parameter in one.model.parameters()]
    one.method.update(collected(episodes), one.optimiser)
    assert all(torch.equal(a, b) for a, b in zip(before, one.model.parameters(), strict=True))
    assert one.optimiser.steps == 0


def test_rows_are_chosen_as_named(trainer):
    one = trainer("rft")
    said = [("a", 1.0), ("a", 1.0), ("bbb", 1.0), ("c", 0.0)]
    episodes = [made(one, text, reward, sample=n) for n, (text, reward) in enumerate(said)]
    assert correct_sequences(collected(episodes)).tolist() == [True, False, True, False]
    assert best_sequences(collected(episodes)).tolist() == [True, False, False, False]
    failures = [made(one, text, 0.0, sample=n) for n, text in enumerate("ab")]
    assert best_sequences(collected(failures)).tolist() == [False, False]


def test_pairs_add_up_over_micro_batches(trainer):
    weights = []
    for tokens in (1, 10**6):
        one = trainer("online_dpo", learner={"micro_batch_tokens": tokens, "lr": 1e-3})
        episodes = [made(one, f"\\boxed{{{n}}}", float(n % 2), group=n // 2, sample=n % 2) for n in range(6)]
        one.method.update(collected(episodes), one.optimiser)
        weights.append(torch.cat([parameter.detach().flatten() for parameter in one.model.parameters()]))
    torch.testing.assert_close(*weights, atol=1e-5, rtol=0)


def test_verifree_knows_the_border_and_the_right_answer(trainer):
    one = trainer("verifree")
    episode = made(one, "hm \\boxed{3}", 0.0)
    env = one.rollout.env.unwrapped.spawn()
    env.reset(seed=0, options={"index": 0, "split": "train", "level": 1})
    row, begin = one.method._thought_and_answer(episode)
    right = one.tokenizer.encode(env.direct_answer(), add_special_tokens=False)
    assert row.ids[begin:] == [*right, one.renderer.end_id]
    assert row.ids[:begin] == episode.tokens.ids[:begin]
    assert one.tokenizer.decode(row.ids[:begin]).endswith("hm ")
    assert one.method._thought_and_answer(made(one, "no box", 0.0)) is None


def test_verifree_makes_the_right_answer_likelier(trainer):
    one = trainer("verifree", learner={"lr": 1e-3, "warmup_steps": 0})
    env = one.rollout.env.unwrapped.spawn()

    def length(index: int) -> int:
        env.reset(seed=0, options={"index": index, "split": "train", "level": 1})
        return len(env.direct_answer())

    # A long answer has so small a probability under a new policy that its gradient is lost beside AdamW's epsilon.
    short = min(range(100), key=length)
    episodes = [made(one, f"{'x' * n} \\boxed{{3}}", 0.0, group=short, sample=n) for n in range(4)]
    seen = [one.method.update(collected(episodes), one.optimiser) for _ in range(30)]
    assert seen[-1]["reward_mean"] > seen[0]["reward_mean"]


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_has_an_example(name: str):
    path = EXAMPLES / f"{name}.yaml"
    lines = path.read_text().splitlines()
    assert lines[0].startswith(f"# {name} ({ALGORITHMS[name].arxiv})")
    config = load_config(path)
    assert config.algorithm == name
    assert config.env.id == "rlvr/Calculator-v0"
    assert (config.steps, config.prompts, config.group_size) == (20, 8, 8)


def test_no_example_is_of_another_algorithm():
    assert sorted(path.stem for path in EXAMPLES.glob("*.yaml")) == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_example_runs_and_goes_on_exactly(name: str, tmp_path: Path):
    """Two steps of each example on a smaller policy; stopped after the first, the second is the same."""

    def config(out: str, **changes):
        given = load_config(EXAMPLES / f"{name}.yaml").model_dump()
        given |= {
            "model": {"hidden": 32, "layers": 1},
            "steps": 2,
            "prompts": 2,
            "group_size": 4,
            "checkpoint_every": 1,
        }
        given["warm_start"] = {"steps": 15, "mixed_steps": 2, "batch_size": 8, "lr": 1e-2, "warmup_steps": 2}
        given["evaluation"] = {"episodes": 2}
        return load_config({**given, **changes, "out": str(tmp_path / out)})

    Trainer(config("whole"), Callback()).run()
    records = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert sum(record["phase"] == "train" for record in records) == 2

    stopped = Trainer(config("stopped"), Callback())
    after_step = stopped.after_step

    def stop() -> None:
        stopped.stop.signum = 2
        after_step()

    stopped.after_step = stop
    with pytest.raises(Exception, match="--resume"):
        stopped.run()
    Trainer(config("stopped"), Callback(), resume=True).run()
    for part in ("metrics.jsonl", "policy/model.safetensors"):
        assert (tmp_path / "stopped" / part).read_bytes() == (tmp_path / "whole" / part).read_bytes()


def test_distillation_wants_a_teacher():
    with pytest.raises(ConfigError, match="teacher"):
        load_config({"algorithm": "on_policy_distillation"})


def test_unknown_algorithms_are_named_with_a_near_one():
    with pytest.raises(ConfigError, match="did you mean 'online_dpo'"):
        load_config({"algorithm": "online_dp"})
