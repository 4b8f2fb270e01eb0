"""The learner on real episodes of a real policy, with tool calls and their output in between."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from rlvr.agents import Rollout, RolloutRequest
from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Episode
from rlvr.agents.models.tiny import load_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.learner.batch import TrainingBatch
from rlvr.algorithms.learner.learner import Learner, merge_steps
from rlvr.algorithms.learner.optimiser import Optimiser
from rlvr.algorithms.recipe.presets import PRESETS, Preset

from .runs import CALCULATOR

PLAIN = PRESETS["grpo"].replace(kl_coef=0.0)


@dataclass
class Rows:
    """What a batch is made of, to be changed by a test."""

    sequences: list[TokenSequence]
    advantages: torch.Tensor
    group: torch.Tensor
    old: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.sequences)

    def batch(self) -> TrainingBatch:
        made = TrainingBatch.of(self.sequences, self.group.tolist(), 96)
        return made.replace(advantages=self.advantages, old_logprobs=self.old)


@pytest.fixture(scope="module")
def episodes(caller: Path) -> list[Episode]:
    """6 groups of 4 on the calculator, sampled at temperature 0.8; some call it and read what it says."""
    model, tokenizer = load_policy(caller)
    agent = TransformersAgent(model, tokenizer, max_new_tokens=16, max_length=96, temperature=0.8, seed=3)
    requests = [RolloutRequest(seed=5, index=group, group=group, sample=s) for group in range(6) for s in range(4)]
    played = Rollout(CALCULATOR, agent, use_system=False)(requests)
    assert sum(any(turn.role == "tool" for turn in episode.turns) for episode in played) >= 4
    return played


@pytest.fixture
def rows(episodes: list[Episode]) -> Rows:
    """All episodes, with made-up advantages; group 2 has nothing to teach."""
    advantages = torch.randn(len(episodes), generator=torch.Generator().manual_seed(0))
    group = torch.tensor([episode.group for episode in episodes])
    advantages[group == 2] = 0.0
    return Rows([copy.deepcopy(episode.tokens) for episode in episodes], advantages, group)


@pytest.fixture
def learner(caller: Path):
    def make(preset: Preset = PLAIN, lora: int = 0, **settings) -> Learner:
        model, tokenizer = load_policy(caller)
        if lora:
            from peft import LoraConfig, get_peft_model

            torch.manual_seed(0)
            model = get_peft_model(model, LoraConfig(r=lora, lora_alpha=2 * lora, target_modules="all-linear"))
        settings = {"pad_id": tokenizer.pad_token_id, "temperature": 0.8, "max_length": 96} | settings
        return Learner(model, preset, **settings)

    return make


def sgd(learner: Learner, lr: float = 0.0) -> Optimiser:
    return Optimiser(learner.model.parameters(), lambda step: lr, betas=(0.9, 0.95), max_grad_norm=math.inf)


def weights(learner: Learner) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in learner.model.parameters() if p.requires_grad])


def gradient(learner: Learner, rows: Rows) -> torch.Tensor:
    """What the optimiser is given in one update."""
    taken: list[torch.Tensor] = []
    optimiser = sgd(learner)
    inner = optimiser.step

    def step():
        taken.append(torch.cat([p.grad.flatten().double() for p in optimiser.parameters if p.grad is not None]))
        return inner()

    optimiser.step = step
    batch = rows.batch()
    learner.update(batch.replace(max_length=learner.max_length), optimiser)
    assert len(taken) == 1
    return taken[0]


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


# what was sampled is what is trained


def test_the_learner_computes_what_the_sampler_recorded(learner, rows: Rows):
    columns = learner().logprobs(rows.sequences)
    for padded, sequence in zip(columns, rows.sequences, strict=True):
        column = padded[: len(sequence)]
        mask = torch.tensor(sequence.mask, dtype=torch.bool)
        assert not padded[len(sequence) :].any()
        assert column.shape == mask.shape
        torch.testing.assert_close(column[mask], torch.tensor(sequence.logprobs)[mask], rtol=0, atol=1e-4)
        assert not column[~mask].any()
        assert (column[mask] < 0).all()


# Of a token in the on-policy gradient, beside its row's advantage: B rows, n sampled tokens in this one, N in all.
WEIGHTS = {
    "grpo": lambda B, n, N: 1 / (B * n),
    "dr_grpo": lambda B, n, N: 1 / (B * 96),
    "dapo": lambda B, n, N: 1 / N,
    "reinforce_baseline": lambda B, n, N: 1 / B,
    "importance_sampling": lambda B, n, N: 1.0,
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_gradient_is_that_of_the_formula_on_sampled_tokens_alone(learner, rows: Rows, name: str, caller: Path):
    """Computed anew in float64 from the model's own logits, row by row, without any of the learner's code."""
    model = load_policy(caller)[0].double()
    total = sum(sequence.sampled for sequence in rows.sequences)
    loss = torch.zeros((), dtype=torch.float64)
    for sequence, advantage in zip(rows.sequences, rows.advantages.tolist(), strict=True):
        weight = WEIGHTS[name](len(rows), sequence.sampled, total)
        logprobs = (model(torch.tensor([sequence.ids])).logits[0] / 0.8).log_softmax(-1)
        for place, (token, sampled) in enumerate(zip(sequence.ids, sequence.mask, strict=True)):
            if sampled:
                loss = loss - weight * advantage * logprobs[place - 1, token]
    wanted = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
    agent = learner(PRESETS[name].replace(kl_coef=0.0), micro_batch_tokens=300)
    assert distance(gradient(agent, rows), wanted) < 1e-4


# sizes that must not matter


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grpo", "dapo", "dr_grpo", "rloo", "gspo", "dapo_prompt_mean", "cispo", "olmorl"])
def test_micro_batches_do_not_change_the_gradient(learner, rows: Rows, name: str):
    preset = PRESETS[name]
    whole = learner(preset, micro_batch_tokens=10**6)
    whole.freeze_reference()
    wanted = gradient(whole, rows)
    assert wanted.norm() > 0
    for tokens in (1, 100, 333):
        parts = learner(preset, micro_batch_tokens=tokens)
        parts.freeze_reference()
        assert distance(gradient(parts, rows), wanted) < 1e-5


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if not preset.critic])
def test_rows_without_advantage_are_left_out_only_where_they_have_no_gradient(
    learner, rows: Rows, name: str, monkeypatch
):
    agent = learner(PRESETS[name])
    agent.freeze_reference()
    lean = gradient(agent, rows)
    monkeypatch.setattr(Learner, "_live", lambda self, batch: list(range(len(batch))))
    assert distance(lean, gradient(agent, rows)) < 1e-5


@pytest.mark.parametrize(
    ("name", "tau", "live"), [("prime", 0.0, 20), ("prime", 0.1, 24), ("kimi", 0.0, 20), ("kimi", 0.1, 24)]
)
def test_the_rule_that_acts_without_advantage_keeps_its_sequences(
    learner, rows: Rows, name: str, tau: float, live: int
):
    """With tau the log-ratio itself has a gradient: sequences of advantage zero must not be dropped."""
    agent = learner(PRESETS[name].replace(tau=tau))
    with torch.no_grad():
        for parameter in agent.model.parameters():
            parameter.mul_(1.05)  # the policy has left the behaviour policy
    old = agent.logprobs(rows.sequences)
    rows.old = old + 0.1 * torch.randn(old.shape, generator=torch.Generator().manual_seed(0))
    stats = agent.update(rows.batch(), sgd(agent))
    assert stats["live_sequences"] == live
    rows.advantages = torch.zeros(len(rows))
    assert (agent.update(rows.batch(), sgd(agent))["grad_norm"] > 0) == (tau > 0)


def test_rows_are_left_out_of_the_work(learner, rows: Rows):
    seen = []
    agent = learner()
    inputs = agent._loss_inputs
    agent._loss_inputs = lambda micro, logprob_grads: (
        seen.extend(micro.padded.ids[:, 0].tolist()) or inputs(micro, logprob_grads)
    )
    for index, sequence in enumerate(rows.sequences):
        sequence.ids[0] = index  # the first token of a prompt: it is read, and never trained on
    stats = agent.update(rows.batch(), sgd(agent))
    assert sorted(seen) == [i for i in range(24) if int(rows.group[i]) != 2]
    assert stats["live_sequences"] == 20


def test_advantages_may_differ_from_token_to_token(learner, rows: Rows):
    width = max(len(sequence) for sequence in rows.sequences)
    agent = learner(micro_batch_tokens=200)
    wanted = gradient(agent, rows)
    rows.advantages = rows.advantages[:, None].expand(-1, width).clone()
    assert distance(gradient(agent, rows), wanted) < 1e-6


# old, reference and the like


def test_one_step_needs_no_second_pass_for_old(learner, rows: Rows):
    agent = learner(PRESETS["dapo"])
    passes = []
    agent.logprobs = lambda *given: passes.append(given) or Learner.logprobs(agent, *given)
    implied = gradient(agent, rows)
    assert not passes
    rows.old = agent.logprobs(rows.sequences)
    assert distance(gradient(agent, rows), implied) < 1e-4


def test_several_steps_keep_the_old_policy(learner, rows: Rows):
    agent = learner(PRESETS["dapo"], epochs=3, minibatches=2)
    for index, sequence in enumerate(rows.sequences):
        sequence.ids[0] = index
    before = agent.logprobs(rows.sequences)
    start = weights(agent)
    used = []
    step = agent._step
    agent._step = lambda part, optimiser: used.append(part) or step(part, optimiser)
    stats = agent.update(rows.batch(), sgd(agent, lr=1e-2))
    assert len(used) == 6
    for part in used:
        for line, index in enumerate(part.padded.ids[:, 0].tolist()):
            width = part.padded.lengths[line]
            assert torch.equal(part.inputs.old_logprobs[line, :width], before[index, :width])
    assert not torch.equal(weights(agent), start)
    assert stats["ratio_min"] < 1 < stats["ratio_max"], "the policy has left the old one"
    assert stats["clip_frac_high"] > 0


def test_each_pass_takes_its_optimiser_steps(learner, rows: Rows):
    agent = learner(epochs=2, minibatches=3)
    optimiser = sgd(agent)
    agent.update(rows.batch(), optimiser)
    assert optimiser.steps == 2 * 3  # also of the part with the group without variance: another group is there


def test_no_group_is_in_two_minibatches(learner, rows: Rows):
    agent = learner(minibatches=4)
    groups = []
    step = agent._step
    agent._step = lambda part, optimiser: groups.append(set(part.inputs.group.tolist())) or step(part, optimiser)
    agent.update(rows.batch(), sgd(agent))
    assert len(groups) == 4
    assert set.union(*groups) == set(range(6))
    assert sum(map(len, groups)) == 6


def test_a_part_without_anything_to_learn_can_come_first_or_last(learner, rows: Rows):
    for empty in (0, 5):
        rows.advantages = torch.where(rows.group == empty, 0.0, 1.0)
        agent = learner(minibatches=6)
        optimiser = sgd(agent, lr=1e-3)
        stats = agent.update(rows.batch(), optimiser)
        assert optimiser.steps == 5
        assert stats["live_sequences"] == pytest.approx(20 / 6)
        assert math.isfinite(stats["loss"])


def test_stats_of_steps_are_merged_by_what_they_mean():
    one = {"loss": 1.0, "ratio_min": 0.5, "ratio_max": 2.0, "refused": 1.0}
    two = {"loss": 3.0, "ratio_min": 0.7, "ratio_max": 3.0, "refused": 1.0, "entropy": 4.0}
    merged = {"loss": 2.0, "ratio_min": 0.5, "ratio_max": 3.0, "refused": 2.0, "entropy": 4.0}
    assert merge_steps([one, two]) == merged
    assert merge_steps([one]) == one


@pytest.mark.parametrize("lora", [0, 2])
def test_the_reference_is_the_policy_where_it_was_frozen(learner, rows: Rows, lora: int):
    agent = learner(PRESETS["grpo"], lora=lora)
    agent.imitate(rows.sequences[:4], sgd(agent, lr=1e-2))  # with LoRA, adapters off would not be the start
    agent.freeze_reference()
    start = agent.logprobs(rows.sequences)
    first = agent.update(rows.batch(), sgd(agent, lr=1e-2))
    assert first["ref_kl_k3"] == pytest.approx(0, abs=1e-9)
    second = agent.update(rows.batch(), sgd(agent, lr=1e-2))
    assert second["ref_kl_k3"] > 1e-5
    torch.testing.assert_close(agent.reference_logprobs(rows.sequences), start, rtol=0, atol=1e-6)
    moved = [float((a - b).abs().max()) for a, b in zip(agent.logprobs(rows.sequences), start, strict=True)]
    assert max(moved) > 1e-3, "asking the reference has put the policy back"


def test_adapters_begin_as_the_model_without_them(learner, rows: Rows):
    agent = learner(PRESETS["grpo"], lora=2)
    agent.freeze_reference()
    agent.update(rows.batch(), sgd(agent, lr=1e-2))
    with agent.model.disable_adapter():
        off = agent.logprobs(rows.sequences)
    for reference, column in zip(agent.reference_logprobs(rows.sequences), off, strict=True):
        torch.testing.assert_close(reference, column, rtol=0, atol=1e-6)


def test_the_kl_term_pulls_back_to_the_reference(learner, rows: Rows):
    agent = learner(PRESETS["grpo"].replace(kl_coef=10.0))
    agent.freeze_reference()
    with torch.no_grad():
        for parameter in agent.model.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    rows.advantages = torch.zeros(len(rows))
    kls = []
    for _ in range(5):
        kls.append(agent.update(rows.batch(), sgd(agent, lr=5e-4))["ref_kl_k3"])
    assert kls[0] > 1e-3
    assert kls[-1] < 0.8 * kls[0]


def test_without_a_reference_the_learner_says_when_to_take_it(learner, rows: Rows):
    with pytest.raises(RuntimeError, match="freeze_reference"):
        learner(PRESETS["grpo"]).update(rows.batch(), sgd(learner()))


def test_the_constant_of_dr_grpo_is_the_budget(learner, rows: Rows):
    """And not the width that happens to be padded to: twice the budget, half the gradient."""
    one = gradient(learner(PRESETS["dr_grpo"], max_length=96), rows)
    two = gradient(learner(PRESETS["dr_grpo"], max_length=192), rows)
    assert distance(two, one / 2) < 1e-6
    assert distance(gradient(learner(PRESETS["dapo"], max_length=192), rows), one) > 0.1


def test_temperature_is_that_of_sampling(learner, rows: Rows):
    cold, warm = learner(temperature=0.8), learner(temperature=1.0)
    differences = [a - b for a, b in zip(cold.logprobs(rows.sequences), warm.logprobs(rows.sequences), strict=True)]
    assert max(float(d.abs().max()) for d in differences) > 0.01


# what must not be learned from


def test_a_batch_without_advantages_takes_no_step(learner, rows: Rows):
    agent = learner()
    optimiser = sgd(agent, lr=1e-2)
    agent.update(rows.batch(), optimiser)  # now there is momentum
    before, steps = weights(agent), optimiser.steps
    rows.advantages = torch.zeros(len(rows))
    stats = agent.update(rows.batch(), optimiser)
    assert torch.equal(weights(agent), before)
    assert (optimiser.steps, stats["live_sequences"], stats["loss"]) == (steps, 0.0, 0.0)


@pytest.mark.parametrize("micro_batch_tokens", [100, 10**6])
def test_a_gradient_that_is_not_finite_is_refused(learner, rows: Rows, micro_batch_tokens: int):
    agent = learner(micro_batch_tokens=micro_batch_tokens)
    optimiser = sgd(agent, lr=1e-2)
    agent.update(rows.batch(), optimiser)
    before = weights(agent)
    hook = next(agent.model.parameters()).register_hook(lambda gradient: gradient * math.nan)
    stats = agent.update(rows.batch(), optimiser)
    hook.remove()
    assert stats["refused"] == 1.0
    assert torch.equal(weights(agent), before)
    assert agent.update(rows.batch(), optimiser)["refused"] == 0.0
    assert weights(agent).isfinite().all()
    assert not torch.equal(weights(agent), before)


def poisoned(agent: Learner, length: int):
    """From now on the model says NaN for rows of at least this padded length."""

    def spoil(module, inputs, output):
        if output.last_hidden_state.shape[1] >= length - 1:
            output.last_hidden_state = output.last_hidden_state * math.nan
        return output

    return agent.model.base_model.register_forward_hook(spoil)


def test_a_loss_that_is_not_finite_throws_the_whole_step_away(learner, rows: Rows):
    """Also the gradients of micro-batches that came before it."""
    agent = learner(micro_batch_tokens=1)
    longest = max(range(len(rows)), key=lambda i: len(rows.sequences[i]))
    rows.sequences.append(rows.sequences.pop(longest))
    optimiser = sgd(agent, lr=1e-2)
    before = weights(agent)
    hook = poisoned(agent, min(len(sequence) for sequence in rows.sequences))
    assert agent.update(rows.batch(), optimiser)["refused"] == 1.0
    hook.remove()
    assert torch.equal(weights(agent), before)
    assert all(p.grad is None for p in agent.model.parameters())


def test_a_ratio_that_overflows_is_refused(learner, rows: Rows):
    agent = learner(PRESETS["importance_sampling"])
    for sequence in rows.sequences:
        sequence.logprobs = [-1e4 * mask for mask in sequence.mask]
    before = weights(agent)
    assert agent.update(rows.batch(), sgd(agent, lr=1e-2))["refused"] == 1.0
    assert torch.equal(weights(agent), before)


def test_after_five_refusals_it_gives_up(learner, rows: Rows):
    agent = learner()
    optimiser = sgd(agent)
    next(agent.model.parameters()).register_hook(lambda gradient: gradient * math.inf)
    for _ in range(4):
        agent.update(rows.batch(), optimiser)
    with pytest.raises(FloatingPointError, match="in a row"):
        agent.update(rows.batch(), optimiser)


# memory


def running_out(agent: Learner, tokens: int, where: str):
    """From now on passes of more padded tokens than this fail to allocate, in the forward or in the backward pass."""

    def fail(*_):
        torch.empty(2**60, dtype=torch.uint8)  # the allocator's own error

    def forward(module, inputs, kwargs, output):
        if kwargs["input_ids"].numel() > tokens and torch.is_grad_enabled():
            if where == "forward":
                fail()
            output.last_hidden_state.register_hook(fail)

    return agent.model.base_model.register_forward_hook(forward, with_kwargs=True)


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_out_of_memory_halves_the_micro_batch_and_keeps_the_gradient(learner, rows: Rows, where: str):
    expected = gradient(learner(micro_batch_tokens=250), rows)
    agent = learner(micro_batch_tokens=1000)
    running_out(agent, 300, where)
    assert torch.equal(gradient(agent, rows), expected), "as if it had begun with the smaller ones"
    assert agent.micro_batch_tokens == 250
    assert distance(expected, gradient(learner(micro_batch_tokens=10**6), rows)) < 1e-5


def test_out_of_memory_in_imitation_keeps_the_gradient(learner, rows: Rows):
    small, large = learner(micro_batch_tokens=250), learner(micro_batch_tokens=1000)
    running_out(large, 300, "backward")
    stats = [agent.imitate(rows.sequences, sgd(agent, lr=1e-3)) for agent in (small, large)]
    assert stats[0] == stats[1]
    assert torch.equal(weights(small), weights(large))


def test_out_of_memory_without_gradient_is_gone_on_from(learner, rows: Rows):
    agent = learner(micro_batch_tokens=1000)
    expected = agent.logprobs(rows.sequences)

    def forward(module, inputs, kwargs, output):
        if kwargs["input_ids"].numel() > 300:
            raise torch.OutOfMemoryError("CUDA out of memory")

    agent.model.base_model.register_forward_hook(forward, with_kwargs=True)
    torch.testing.assert_close(agent.logprobs(rows.sequences), expected, rtol=0, atol=1e-5)
    assert agent.micro_batch_tokens == 250


def test_a_sequence_that_does_not_fit_by_itself_is_one_sentence(learner, rows: Rows):
    agent = learner(micro_batch_tokens=1000)
    running_out(agent, 10, "forward")
    before = weights(agent)
    with pytest.raises(ConfigError, match=r"a sequence of \d+ tokens does not fit.*recompute_layers"):
        agent.update(rows.batch(), sgd(agent, lr=1e-2))
    assert torch.equal(weights(agent), before)


def test_another_error_is_not_taken_for_one_of_memory(learner, rows: Rows):
    agent = learner()

    def forward(*_):
        raise RuntimeError("shapes do not match")

    agent.model.base_model.register_forward_hook(forward)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        agent.update(rows.batch(), sgd(agent))
    assert agent.micro_batch_tokens == 8192


@pytest.mark.parametrize("lora", [0, 2])
def test_recomputed_layers_give_the_same_gradient(learner, rows: Rows, lora: int):
    calls, gradients = [], []
    for recompute in (True, False):
        agent = learner(lora=lora, recompute_layers=recompute)
        gradients.append(gradient(agent, rows))
        layer = (agent.model.get_base_model() if lora else agent.model).model.layers[0]
        passes: list[bool] = []
        layer.self_attn.register_forward_hook(lambda *_, passes=passes: passes.append(True))
        gradient(agent, rows)
        calls.append(len(passes))
        assert not agent.model.training
    assert distance(*gradients) < 1e-6
    assert calls == [2, 1], "the backward pass has computed the layers again"


# float16


def test_small_gradients_are_kept_in_float16(learner, rows: Rows):
    """Advantages of 1e-5 have gradients that float16 cannot hold; scaled they are those of float32."""
    rows.advantages *= 1e-5
    exact = gradient(learner(), rows)
    agent = learner()
    agent.model.half()
    optimiser = sgd(agent)
    taken = []
    adamw = optimiser.adamw.step
    optimiser.adamw.step = lambda: (taken.append([p.grad.clone() for p in optimiser.masters]), adamw())[1]
    stats = agent.update(rows.batch().replace(max_length=agent.max_length), optimiser)
    assert stats["refused"] == 0.0
    given = torch.cat([g.flatten().double() for g in taken[0]])
    assert all(g.dtype == torch.float32 for g in taken[0])
    assert distance(given, exact) < 0.02
    optimiser.scale = 1.0
    taken.clear()
    agent.update(rows.batch().replace(max_length=agent.max_length), optimiser)
    unscaled = torch.cat([g.flatten().double() for g in taken[0]])
    assert distance(unscaled, exact) > 0.1, "without the scale they are lost"


@pytest.mark.slow
def test_float16_learns_as_float32_does(learner, rows: Rows):
    full, half = learner(), learner()
    half.model.half()
    optimisers = [Optimiser(agent.model.parameters(), lambda _: 3e-3, betas=(0.9, 0.95)) for agent in (full, half)]
    losses = [
        [agent.imitate(rows.sequences, optimiser)["loss"] for _ in range(12)]
        for agent, optimiser in zip((full, half), optimisers, strict=True)
    ]
    assert losses[0][-1] < losses[0][0] - 0.1
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
    assert all(parameter.isfinite().all() for parameter in half.model.parameters())


# adapters and imitation


def test_only_adapters_are_trained(learner, rows: Rows):
    agent = learner(lora=2)
    names = [name for name, p in agent.model.named_parameters() if p.requires_grad]
    assert names
    assert all("lora_" in name for name in names)
    frozen = {name: p.detach().clone() for name, p in agent.model.named_parameters() if not p.requires_grad}
    before = weights(agent)
    stats = agent.update(rows.batch(), sgd(agent, lr=1e-2))
    assert stats["grad_norm"] > 0
    assert not torch.equal(weights(agent), before)
    for name, parameter in agent.model.named_parameters():
        assert name not in frozen or torch.equal(parameter, frozen[name])


@pytest.mark.parametrize("micro_batch_tokens", [50, 10**6])
def test_imitation_is_the_mean_loss_of_all_masked_tokens(learner, rows: Rows, micro_batch_tokens: int):
    agent = learner(temperature=1.0, micro_batch_tokens=micro_batch_tokens)
    columns = agent.logprobs(rows.sequences)
    tokens = sum(sequence.sampled for sequence in rows.sequences)
    stats = agent.imitate(rows.sequences, sgd(agent, lr=3e-4))
    assert stats["tokens"] == tokens
    assert stats["loss"] == pytest.approx(-sum(float(column.sum()) for column in columns) / tokens, rel=1e-5)
    assert agent.imitate(rows.sequences, sgd(agent))["loss"] < stats["loss"]


def test_nothing_to_imitate_is_an_error(learner):
    with pytest.raises(ValueError, match="no token to learn from"):
        learner().imitate([TokenSequence([1, 2], [0, 0], [0.0, 0.0])], sgd(learner()))
