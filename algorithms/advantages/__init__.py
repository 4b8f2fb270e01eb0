"""Advantages: how much better than expected a sequence or a token was."""

from rlvr.algorithms.advantages import (
    distillation,
    group_baselines,
    monte_carlo,
    roles,
    semantic,
    token_returns,
    turn_baselines,
    turn_returns,
)
from rlvr.algorithms.advantages.compute import compute_advantages, critic_targets
from rlvr.algorithms.advantages.distillation import teacher_advantages
from rlvr.algorithms.advantages.group_baselines import (
    batch_std,
    gdpo,
    gfpo,
    gfpo_keep,
    group_mean,
    group_z,
    maxrl,
    opo,
    passk,
    passk_max,
    rloo,
    scalerl,
)
from rlvr.algorithms.advantages.monte_carlo import brpo, budget_probs, split_steps, vine
from rlvr.algorithms.advantages.roles import RoleBaselines, role_turn_returns
from rlvr.algorithms.advantages.semantic import seed_grpo, semantic_entropy
from rlvr.algorithms.advantages.token_returns import gae, raw, reinforce_pp, reinforce_pp_baseline, return_to_go, whiten
from rlvr.algorithms.advantages.turn_baselines import gigpo, turn_rloo
from rlvr.algorithms.advantages.turn_returns import Turns, process_supervision, rebn, turn_gae
from rlvr.algorithms.recipe.advantage import ADVANTAGES, Advantage, Played, Sources, register_advantage

__all__ = [
    "ADVANTAGES",
    "Advantage",
    "Played",
    "RoleBaselines",
    "Sources",
    "Turns",
    "batch_std",
    "brpo",
    "budget_probs",
    "compute_advantages",
    "critic_targets",
    "gae",
    "gdpo",
    "gfpo",
    "gfpo_keep",
    "gigpo",
    "group_mean",
    "group_z",
    "maxrl",
    "opo",
    "passk",
    "passk_max",
    "process_supervision",
    "raw",
    "rebn",
    "register_advantage",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "return_to_go",
    "rloo",
    "role_turn_returns",
    "scalerl",
    "seed_grpo",
    "semantic_entropy",
    "split_steps",
    "teacher_advantages",
    "turn_gae",
    "turn_rloo",
    "vine",
    "whiten",
]

for _file in (group_baselines, token_returns, turn_returns, turn_baselines, monte_carlo, roles, semantic, distillation):
    for _value in tuple(vars(_file).values()):
        if isinstance(_value, Advantage):
            register_advantage(_value)
