"""What verifiers and prime-rl import for the id ``rlvr-gym``: their loader knows modules of the top level alone."""

from rlvr.adapters.suites.verifiers import InProcessHarness, RlvrEnv, RlvrTaskset

__all__ = ["InProcessHarness", "RlvrEnv", "RlvrTaskset"]
