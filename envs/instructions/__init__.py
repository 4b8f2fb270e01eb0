"""Instruction following: texts that are checked by exact rules; IFEval and IFBench."""

from rlvr.envs.core.registry import register

register("rlvr/Instructions-v0", "rlvr.envs.instructions.writing:Instructions")
register("rlvr/IFEval-v0", "rlvr.envs.instructions.published:IFEval", split="test")
register("rlvr/IFBench-v0", "rlvr.envs.instructions.published:IFBench", split="test")
