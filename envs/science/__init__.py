"""Science: quantities computed from laws; and tables of multiple choice."""

from rlvr.envs.core.registry import register

register("rlvr/Motion-v0", "rlvr.envs.science.mechanics:Motion")
register("rlvr/Forces-v0", "rlvr.envs.science.mechanics:Forces")
register("rlvr/Energy-v0", "rlvr.envs.science.mechanics:Energy")
register("rlvr/IdealGas-v0", "rlvr.envs.science.mechanics:IdealGas")
register("rlvr/Calorimetry-v0", "rlvr.envs.science.mechanics:Calorimetry")
register("rlvr/Circuits-v0", "rlvr.envs.science.substances:Circuits")
register("rlvr/Solutions-v0", "rlvr.envs.science.substances:Solutions")
register("rlvr/GPQA-v0", "rlvr.envs.science.datasets:GPQA", split="test")
register("rlvr/MMLU-v0", "rlvr.envs.science.datasets:MMLU", split="test")
register("rlvr/MMLUPro-v0", "rlvr.envs.science.datasets:MMLUPro", split="test")
register("rlvr/ARC-v0", "rlvr.envs.science.datasets:ARC")
