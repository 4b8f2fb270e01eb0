"""What is asked next, for any trainer: controllers of difficulty, samplers of prompts, mixtures of environments.

Pure Python; whatever has state gives it as plain JSON for a checkpoint.
"""

from __future__ import annotations

from rlvr.envs.curriculum.controllers import EasyToHard, LevelController, RateSampler, SignalSampler
from rlvr.envs.curriculum.mixture import Mixture, MixtureEnv, MixturePart
from rlvr.envs.curriculum.rates import PassRates, Retirement, difficulty_filter, easy_to_hard

__all__ = [
    "EasyToHard",
    "LevelController",
    "Mixture",
    "MixtureEnv",
    "MixturePart",
    "PassRates",
    "RateSampler",
    "Retirement",
    "SignalSampler",
    "difficulty_filter",
    "easy_to_hard",
]
