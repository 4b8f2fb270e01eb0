"""Running what a model wrote: one interface, four tiers, and a refusal where none of them holds."""

from rlvr.envs.sandbox.limits import (
    Limits,
    Result,
    SandboxDied,
    SandboxError,
    SandboxStarved,
    SandboxUnavailable,
    Tier,
)
from rlvr.envs.sandbox.probes import Report, TierReport, doctor, probe
from rlvr.envs.sandbox.sandbox import Daemon, PseudoTerminal, Sandbox, Session, Typed, Workspace, shared

__all__ = [
    "Daemon",
    "Limits",
    "PseudoTerminal",
    "Report",
    "Result",
    "Sandbox",
    "SandboxDied",
    "SandboxError",
    "SandboxStarved",
    "SandboxUnavailable",
    "Session",
    "Tier",
    "TierReport",
    "Typed",
    "Workspace",
    "doctor",
    "probe",
    "shared",
]
