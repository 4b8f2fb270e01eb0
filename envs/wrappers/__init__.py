"""Wrappers of text environments: ``gymnasium.Wrapper`` classes that keep exact restore, forks, experts and seeds.

How a policy samples (its temperature, its stop words) is the agent's affair and no wrapper's.
"""

from __future__ import annotations

from rlvr.envs.wrappers.base import TextWrapper, WrapperState
from rlvr.envs.wrappers.confidence import ConfidenceReward
from rlvr.envs.wrappers.difficulty import DifficultySchedule
from rlvr.envs.wrappers.history import History, Scratchpad, SummaryHistory
from rlvr.envs.wrappers.limits import LengthLimit, TurnLimit
from rlvr.envs.wrappers.prompts import LAYOUTS, Layout, PromptFormat, RandomPromptFormat, SystemPrompt
from rlvr.envs.wrappers.records import EpisodeRecorder, EpisodeStatistics, read_records, replay_record
from rlvr.envs.wrappers.repair import ActionRepair
from rlvr.envs.wrappers.rewards import OwnVerdict, PotentialShaping, RubricReward, SpuriousReward

__all__ = [
    "LAYOUTS",
    "ActionRepair",
    "ConfidenceReward",
    "DifficultySchedule",
    "EpisodeRecorder",
    "EpisodeStatistics",
    "History",
    "Layout",
    "LengthLimit",
    "OwnVerdict",
    "PotentialShaping",
    "PromptFormat",
    "RandomPromptFormat",
    "RubricReward",
    "Scratchpad",
    "SpuriousReward",
    "SummaryHistory",
    "SystemPrompt",
    "TextWrapper",
    "TurnLimit",
    "WrapperState",
    "read_records",
    "replay_record",
]
