"""Returns, GAE, turns and steps: against the definitions, with tools in the middle of a row."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr.algorithms import advantages as returns
from rlvr.algorithms.advantages import compute_advantages, critic_targets, roles
from rlvr.algorithms.advantages.token_rewards import at_last_token
from rlvr.algorithms.recipe.presets import PRESETS

from . import reference as ref

numbers = st.floats(-2, 2, allow_nan=False, width=32)


def tensor(x) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


@given(
    row=st.lists(st.tuples(numbers, numbers, st.booleans()), min_size=1, max_size=9),
    gamma=st.sampled_from([1.0, 0.9, 0.0]),
    lam=st.sampled_from([1.0, 0.95, 0.0]),
    bootstrap=numbers,
)
def test_gae_is_the_definition(row, gamma: float, lam: float, bootstrap: float):
    rewards, values, mask = (list(x) for x in zip(*row, strict=True))
    given = returns.gae(
        tensor([rewards]), tensor([values]), torch.tensor([mask]), gamma=gamma, lam=lam, bootstrap=tensor([bootstrap])
    )
    expected = ref.gae(rewards, values, mask, gamma, lam, bootstrap)
    torch.testing.assert_close(given, tensor([expected]))


@given(tools=st.lists(st.integers(0, 3), min_size=3, max_size=3), lam=st.sampled_from([1.0, 0.9]))
def test_tool_tokens_are_not_steps(tools: list[int], lam: float):
    """Inserting any number of masked tokens, with garbage as value, leaves the policy's tokens as they were."""
    mask, values, positions = [], [], []
    for n, value in zip(tools, (0.3, -0.1, 0.5), strict=True):
        mask += [False] * n + [True]
        values += [float("nan")] * n + [value]
        positions.append(len(mask) - 1)
    mask = torch.tensor([mask])
    rewards = at_last_token(tensor([1.0]), mask)
    given = returns.gae(rewards, tensor([values]), mask, gamma=0.9, lam=lam)[0, positions]
    expected = ref.gae([0.0, 0.0, 1.0], [0.3, -0.1, 0.5], [True] * 3, 0.9, lam)
    torch.testing.assert_close(given, tensor(expected))


def test_what_stands_before_a_tool_call_is_credited():
    """REINFORCE++ with a tool in the middle: every trained token has the same return before whitening."""
    mask = torch.tensor([[True, True, False, False, True], [True, False, False, False, False]])
    to_go = returns.return_to_go(at_last_token(tensor([1.0, -1.0]), mask), mask)
    torch.testing.assert_close(to_go, tensor([[1.0, 1.0, 0.0, 0.0, 1.0], [-1.0, 0, 0, 0, 0]]))
    given = compute_advantages([1.0, -1.0], [0, 1], PRESETS["reinforce_pp"].replace(kl_coef=0.0), {"mask": mask})
    torch.testing.assert_close(given, tensor(ref.whiten_tokens(to_go.tolist(), mask.tolist())))


def test_reinforce_pp_subtracts_the_kl_still_to_come():
    mask = torch.tensor([[True, False, True, True]])
    old, reference = tensor([[-1.0, 5.0, -1.0, -2.0]]), tensor([[-1.5, 0.0, -0.5, -2.25]])
    preset = PRESETS["reinforce_pp"].replace(kl_coef=0.1)
    batch = {"mask": mask, "old_logprobs": old, "ref_logprobs": reference}
    given = compute_advantages([1.0], [0], preset, batch)
    k1 = [0.5, 0.0, -0.5, 0.25]
    to_go = [[1.0 - 0.1 * sum(k1[t:]) for t in range(4)]]
    torch.testing.assert_close(given, tensor(ref.whiten_tokens(to_go, mask.tolist())))


def test_ppo_advantages_and_targets_of_the_critic():
    gen = torch.Generator().manual_seed(0)
    mask = torch.rand(5, 6, generator=gen) > 0.3
    mask[:, 1] = True
    values = torch.randn(5, 6, generator=gen, dtype=torch.float64)
    rewards = [1.0, 0.0, 0.5, -1.0, 2.0]
    preset = PRESETS["ppo"].replace(gamma=0.9, lam=0.8)
    batch = {"mask": mask, "values": values}
    outcome = at_last_token(tensor(rewards), mask).tolist()
    rows = [ref.gae(r, v, m, 0.9, 0.8) for r, v, m in zip(outcome, values.tolist(), mask.tolist(), strict=True)]
    given = compute_advantages(rewards, None, preset, batch)
    torch.testing.assert_close(given, tensor(ref.whiten_tokens(rows, mask.tolist())))
    targets, where = critic_targets(rewards, preset, batch)
    assert torch.equal(where, mask)
    torch.testing.assert_close(targets, torch.where(mask, tensor(rows) + values, 0))
    with pytest.raises(KeyError, match="needs 'values'"):
        compute_advantages(rewards, None, preset, {"mask": mask})
    with pytest.raises(ValueError, match="has no critic"):
        critic_targets(rewards, PRESETS["grpo"], batch)


def test_token_rewards_say_where_a_reward_was_earned():
    mask = torch.tensor([[True, True, False, True]])
    batch = {"mask": mask, "token_rewards": tensor([[0.0, 0.0, 0.5, 0.5]])}  # the tool's reward belongs to token 1
    given = compute_advantages([1.0], [0], PRESETS["reinforce"].replace(gamma=0.5), batch)
    torch.testing.assert_close(given, tensor([[0.25 + 0.5 * 0.25 + 0.0, 0.5 + 0.25, 0.0, 0.5]]))
    with pytest.raises(ValueError, match="must add up"):
        compute_advantages([2.0], [0], PRESETS["reinforce"], batch)


def turns_case():
    mask = torch.tensor([[True, True, False, True, False, True], [True, False, True, True, True, False]])
    turn = torch.tensor([[0, 0, 9, 1, 9, 2], [0, 9, 1, 1, 1, 9]])  # what stands at masked tokens is not read
    return mask, turn, tensor([[0.2, 0.0, 1.0], [0.0, -1.0, 0.0]])


def test_turn_gae_takes_a_turn_as_one_step():
    mask, turn, turn_rewards = turns_case()
    values = tensor([[0.1, 7, 7, 0.4, 7, -0.2], [0.3, 7, -0.5, 7, 7, 7]])
    batch = {
        "mask": mask,
        "turn": turn,
        "turn_rewards": turn_rewards,
        "values": values,
        "bootstrap": tensor([0.0, 0.25]),
    }
    preset = PRESETS["gem_ppo"].replace(gamma=0.9, lam=0.8)
    first = ref.gae([0.2, 0.0, 1.0], [0.1, 0.4, -0.2], [True] * 3, 0.9, 0.8)
    second = ref.gae([0.0, -1.0], [0.3, -0.5], [True] * 2, 0.9, 0.8, bootstrap=0.25)
    given = compute_advantages([1.2, -1.0], None, preset, batch)
    expected = [[first[0], first[0], 0, first[1], 0, first[2]], [second[0], 0, second[1], second[1], second[1], 0]]
    torch.testing.assert_close(given, tensor(expected))
    targets, where = critic_targets([1.2, -1.0], preset, batch)
    assert where.tolist() == [[True, False, False, True, False, True], [True, False, True, False, False, False]]
    assert targets[0, 3].item() == pytest.approx(first[1] + 0.4)


def test_a_turn_without_tokens_gives_its_reward_to_the_one_before():
    mask = torch.tensor([[True, True]])
    turn = torch.tensor([[0, 2]])
    given = returns.turn_gae([[0.0, 1.0, 0.5]], tensor([[0.0, 0.0]]), turn, mask)
    torch.testing.assert_close(given, tensor([[1.5, 0.5]]))


def test_rebn_counts_a_turn_once():
    mask, turn, turn_rewards = turns_case()
    batch = {"mask": mask, "turn": turn, "turn_rewards": turn_rewards}
    given = compute_advantages([1.2, -1.0], None, PRESETS["gem_rebn"], batch)
    g = [0.2 + 0.81, 0.9, 1.0, -0.9, -1.0]
    a = [x / (ref.std(g) + 1e-9) for x in ref.centred(g)]
    torch.testing.assert_close(given, tensor([[a[0], a[0], 0, a[1], 0, a[2]], [a[3], 0, a[4], a[4], a[4], 0]]))
    flat = returns.rebn([[0.1], [0.1], [0.1]], torch.zeros(3, 2, dtype=torch.long), torch.ones(3, 2, dtype=torch.bool))
    assert (flat == 0).all()


def test_turns_are_compared_with_those_of_their_role():
    mask, turn, turn_rewards = turns_case()
    given = roles.role_turn_returns(turn_rewards, turn, ["seat 0", "seat 1"], mask, gamma=0.9)
    first, second = ref.centred([0.2 + 0.81, 0.9, 1.0]), ref.centred([-0.9, -1.0])
    expected = [
        [first[0], first[0], 0, first[1], 0, first[2]],
        [second[0], 0, second[1], second[1], second[1], 0],
    ]
    torch.testing.assert_close(given, tensor(expected))
    together = roles.role_turn_returns(turn_rewards, turn, ["seat 0", "seat 0"], mask, gamma=0.9)
    g = ref.centred([0.2 + 0.81, 0.9, 1.0, -0.9, -1.0])
    torch.testing.assert_close(together, tensor([[g[0], g[0], 0, g[1], 0, g[2]], [g[3], 0, g[4], g[4], g[4], 0]]))
    batch = {"mask": mask, "turn": turn, "turn_rewards": turn_rewards, "roles": ["seat 0", "seat 1"]}
    plain = PRESETS["marshal"].replace(whiten=False, gamma=0.9)
    torch.testing.assert_close(compute_advantages([1.2, -1.0], None, plain, batch), tensor(expected))
    with pytest.raises(ValueError, match="1 roles for 2 sequences"):
        roles.role_turn_returns(turn_rewards, turn, ["seat 0"], mask)


def test_process_supervision_normalises_all_steps_of_a_group():
    mask = torch.tensor([[True, True, True, False], [True, False, True, True], [True, True, True, True]])
    step = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 2, 2]])
    rewards = tensor([[1.0, 0.0, 99.0], [0.5, 0.2, 99.0], [0.0, 0.1, 0.9]])  # 99: steps that did not happen
    group = [0, 0, 0]
    z = ref.z_score([1.0, 0.0, 0.5, 0.2, 0.0, 0.1, 0.9])
    batch = {"mask": mask, "step": step, "step_rewards": rewards}
    given = compute_advantages([0.0] * 3, group, PRESETS["grpo_process"], batch)
    expected = [
        [z[0] + z[1], z[0] + z[1], z[1], 0.0],
        [z[2] + z[3], 0.0, z[2] + z[3], z[3]],
        [z[4] + z[5] + z[6], z[5] + z[6], z[6], z[6]],
    ]
    torch.testing.assert_close(given, tensor(expected))


def test_vine_is_the_change_of_value():
    mask = torch.tensor([[True, True, True, False, True], [True, True, False, False, False]])
    step = torch.tensor([[0, 1, 1, 0, 2], [0, 0, 0, 0, 0]])
    values = tensor([[0.25, 0.5, 0.75], [0.4, 0.0, 0.0]])
    given = returns.vine(tensor([1.0, 0.0]), values, step, mask)
    torch.testing.assert_close(given, tensor([[0.25, 0.25, 0.25, 0.0, 0.25], [-0.4, -0.4, 0.0, 0.0, 0.0]]))
    whitened = compute_advantages(
        [1.0, 0.0], None, PRESETS["vineppo"], {"mask": mask, "step": step, "step_values": values}
    )
    torch.testing.assert_close(whitened, tensor(ref.whiten_tokens(given.tolist(), mask.tolist())))


def test_steps_end_where_their_separator_is_complete():
    pieces = ["a", "\n", "b", " c", "\n\n", "d"]
    assert returns.split_steps(pieces) == [0, 0, 1, 1, 1, 2]
    assert returns.split_steps(["x\n"] * 5, max_steps=3) == [0, 1, 2, 2, 2]
    assert returns.split_steps(["x\n", "\ny"], separator="\n\n") == [0, 0]


def test_budget_slices_reach_their_tokens():
    mask = torch.tensor([[True, True, False, True], [True, True, True, False]])
    scores = tensor([[1.0, 0.0], [0.0, 1.0]])
    batch = {"mask": mask, "budget_scores": scores, "budget_slice": torch.tensor([[0, 0, 0, 1], [0, 1, 1, 0]])}
    given = compute_advantages([0.0, 0.0], [0, 0], PRESETS["brpo"], batch)
    a = returns.brpo(scores, [0, 0])
    torch.testing.assert_close(given[0], tensor([a[0, 0], a[0, 0], 0.0, a[0, 1]]))
    torch.testing.assert_close(given[1], tensor([a[1, 0], a[1, 1], a[1, 1], 0.0]))


def test_distillation_follows_the_teacher():
    mask = torch.tensor([[True, True, False]])
    teacher, behaviour = tensor([[-1.0, -3.0, 0.0]]), tensor([[-2.0, -1.0, 0.0]])
    batch = {"mask": mask, "teacher_logprobs": teacher, "behaviour_logprobs": behaviour}
    given = compute_advantages([0.0], [0], PRESETS["on_policy_distillation"], batch)
    torch.testing.assert_close(given, tensor([[1.0, -2.0, 0.0]]))


def test_bad_turns_are_refused():
    mask, turn, turn_rewards = turns_case()
    with pytest.raises(ValueError, match="count from 0"):
        returns.Turns(turn - 1, mask)
    with pytest.raises(ValueError, match="there are 3 turns, but only 2"):
        returns.rebn(turn_rewards[:, :2], turn, mask)
    with pytest.raises(ValueError, match="pad the turns"):
        returns.rebn(turn_rewards * float("nan"), turn, mask)
    with pytest.raises(ValueError, match="before packing"):
        compute_advantages(
            [1.0], [0], PRESETS["gem_rebn"], {"sequence_id": mask, "turn": turn, "turn_rewards": turn_rewards}
        )


def test_whitening_equal_advantages_gives_zeros():
    mask = torch.tensor([[True, False], [True, True]])
    assert (returns.whiten(torch.full((2, 2), 0.1), mask) == 0).all()
    assert (returns.whiten(torch.full((2, 2), 0.1), torch.zeros_like(mask)) == 0).all()
