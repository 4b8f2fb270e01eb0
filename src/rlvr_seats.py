"""What verifiers and prime-rl import for the id ``rlvr-seats``: games of several seats, an agent for each."""

from rlvr.adapters.suites.verifiers import InProcessHarness, SeatsEnv, SeatsTaskset

__all__ = ["InProcessHarness", "SeatsEnv", "SeatsTaskset"]
