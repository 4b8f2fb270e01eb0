"""The warm start: the expert's words are imitated, and nothing else; first all of its work, then shortcuts among it."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from rlvr.agents import ConstantAgent, ExpertAgent, Rollout, RolloutRequest
from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import load_policy, tiny_tokenizer
from rlvr.agents.rendering import Renderer
from rlvr.algorithms.config import WarmStartSection
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.recipe.presets import PRESETS
from rlvr.algorithms.train.methods import Imitation
from rlvr.algorithms.train.warm_start import demonstrations, next_demonstrations, phases, warm_start

from .runs import CALCULATOR, GUESS

SETTINGS = WarmStartSection(steps=12, mixed_steps=4, batch_size=8, lr=1e-2, mixed_lr=1e-3, warmup_steps=2)


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(tiny_tokenizer())


def requests(number: int) -> list[RolloutRequest]:
    return [RolloutRequest(seed=0, index=index) for index in range(number)]


def test_the_mask_is_on_the_experts_words_and_their_ends(renderer: Renderer):
    play = Rollout(CALCULATOR, ExpertAgent(), use_system=False)
    episodes = play(requests(6))
    for episode, sequence in zip(episodes, demonstrations(play, renderer, requests(6)), strict=True):
        assert [turn.role for turn in episode.turns] == ["user", "tool"]
        trained = [i for i, m in zip(sequence.ids, sequence.mask, strict=True) if m]
        said = renderer.tokenizer.decode(trained)
        assert said == "".join(turn.action + "<|end|>" for turn in episode.turns)
        context = renderer.tokenizer.decode([i for i, m in zip(sequence.ids, sequence.mask, strict=True) if not m])
        assert all(turn.observation in context for turn in episode.turns), "the question and the tool's output"
        assert len(sequence.ids) == len(sequence.mask) == len(sequence.logprobs)


def test_worked_examples_are_not_imitated(renderer: Renderer):
    play = Rollout("rlvr/GSM8K-v0", ExpertAgent(), env_settings={"few_shot": 2})
    episodes = play(requests(3))
    for episode, sequence in zip(episodes, demonstrations(play, renderer, requests(3)), strict=True):
        learned = [token for token, on in zip(sequence.ids, sequence.mask, strict=True) if on]
        assert renderer.tokenizer.decode(learned) == episode.turns[0].action + "<|end|>"
        assert all(turn["content"] in renderer.tokenizer.decode(sequence.ids) for turn in episode.examples)


class FallibleExpert(ExpertAgent):
    """Is wrong on every third task."""

    def _action(self, conversation):
        wrong = int(conversation.key.split("/")[5]) % 3 == 0
        return "\\boxed{no}" if wrong else super()._action(conversation)


def test_only_successes_are_imitated(renderer: Renderer):
    play = Rollout(CALCULATOR, FallibleExpert(), use_system=False)
    assert [episode.success for episode in play(requests(6))] == [False, True, True] * 2
    assert len(demonstrations(play, renderer, requests(6))) == 4


def test_a_step_without_a_success_asks_for_more(renderer: Renderer):
    play, tasks = Rollout(CALCULATOR, FallibleExpert(), use_system=False), iter(requests(4))
    second = demonstrations(play, renderer, requests(2)[1:])
    assert next_demonstrations(play, renderer, tasks, 1) == second, "the first task is lost"
    assert [task.index for task in tasks] == [2, 3]


def test_an_expert_that_never_succeeds_is_an_error(renderer: Renderer):
    play = Rollout(CALCULATOR, ConstantAgent("no"))
    assert demonstrations(play, renderer, requests(3)) == []
    with pytest.raises(ValueError, match=f"no demonstration of {CALCULATOR} succeeded"):
        next_demonstrations(play, renderer, iter(requests(100)), 3)


def test_fine_tuning_waits_for_a_success_but_not_for_ever(renderer: Renderer):
    model, tokenizer = load_policy("rlvr/tiny", tiny={"hidden": 32, "layers": 1})
    learner = Learner(model, PRESETS["grpo"], pad_id=tokenizer.pad_token_id, max_length=96)
    optimiser = learner.new_optimiser(lambda _: 1e-3, betas=(0.9, 0.95))
    players = [ConstantAgent("no"), ExpertAgent(), *[ConstantAgent("no")] * 8]

    def demonstrate(asked: list[RolloutRequest]) -> list[TokenSequence]:
        return demonstrations(Rollout(CALCULATOR, players.pop(0), use_system=False), renderer, asked)

    method = Imitation(learner, demonstrate)
    step = SimpleNamespace(episodes=Rollout(CALCULATOR, ConstantAgent("no"))(requests(8)))
    assert method.update(step, optimiser) == {}
    assert method.update(step, optimiser)["loss"] > 0
    for _ in range(7):
        assert method.update(step, optimiser) == {}
    with pytest.raises(ValueError, match="none of 64 demonstrations in a row succeeded"):
        method.update(step, optimiser)


def test_the_mixed_phase_jumps_to_the_answer_as_often_as_asked(renderer: Renderer):
    expert, mixed, _ = phases(SETTINGS.model_copy(update={"direct_answer_share": 0.5}))
    assert (expert.shortcut_share, mixed.shortcut_share) == (0.0, 0.5)
    turns = {
        phase.name: [
            len(episode.turns)
            for episode in Rollout(CALCULATOR, ExpertAgent(phase.shortcut_share), use_system=False)(requests(400))
        ]
        for phase in (expert, mixed)
    }
    assert set(turns["expert"]) == {2}
    assert 150 <= turns["mixed"].count(1) <= 250
    assert turns["mixed"].count(1) + turns["mixed"].count(2) == 400


def test_both_phases_are_run_and_their_loss_falls(renderer: Renderer):
    model, tokenizer = load_policy("rlvr/tiny", tiny={"hidden": 32, "layers": 1})
    learner = Learner(model, PRESETS["grpo"], pad_id=tokenizer.pad_token_id, max_length=96)
    seen: list[tuple[str, int, dict[str, float]]] = []
    asked: list[int] = []

    def endless():
        for index in count():
            asked.append(index)
            yield RolloutRequest(seed=0, index=index)

    warm_start(
        learner,
        renderer,
        lambda expert: Rollout(GUESS, expert, use_system=False),
        endless(),
        SETTINGS,
        lambda *told: seen.append(told),
    )
    assert [(name, step) for name, step, _ in seen] == [
        ("expert" if step < 12 else "mixed", step) for step in range(16)
    ]
    assert asked == list(range(16 * 8)), "no task twice"
    rates = [metrics["lr"] for _, _, metrics in seen]
    assert rates[:3] == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2])
    assert rates[11] == pytest.approx(1e-3)
    assert max(rates[12:]) == pytest.approx(1e-3)
    losses = [metrics["loss"] for _, _, metrics in seen]
    assert losses[15] < 0.8 * losses[0]


@pytest.mark.parametrize(("steps", "mixed", "names"), [(2, 0, {"expert"}), (0, 2, {"mixed"}), (0, 0, set())])
def test_a_phase_of_no_steps_is_left_out(renderer: Renderer, steps: int, mixed: int, names: set[str]):
    model, tokenizer = load_policy("rlvr/tiny", tiny={"hidden": 32, "layers": 1})
    learner = Learner(model, PRESETS["grpo"], pad_id=tokenizer.pad_token_id, max_length=96)
    seen: list[str] = []
    settings = SETTINGS.model_copy(update={"steps": steps, "mixed_steps": mixed})
    endless = (RolloutRequest(seed=0, index=index) for index in count())
    rollout = lambda expert: Rollout(GUESS, expert, use_system=False)  # noqa: E731
    warm_start(learner, renderer, rollout, endless, settings, lambda name, *_: seen.append(name))
    assert (set(seen), len(seen)) == (names, steps + mixed)
