"""One turn of calls: the budget, the order, and what the policy sees next, whoever carries the calls out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.tools.calls import Call, Reading
from rlvr.envs.tools.tool import ToolError, ToolFault, shown

CALLED = Verdict(0.0, "partial", reason="called a tool")
MISCALLED = Verdict(0.0, "unparsable", reason="a call that cannot be carried out")
SPENT = Verdict(0.0, "partial", reason="called a tool with no calls left")
ANSWER_NOW = "No calls are left: answer now."


class TurnResult(NamedTuple):
    """What the policy sees next, how many calls it has made by now, and the verdict on the turn."""

    output: str
    calls: int
    verdict: Verdict


def carry_out(reading: Reading, calls: int, budget: int, use: Callable[[Call], str], max_output: int) -> TurnResult:
    """Carry out the calls of a reply, in order, as far as the budget goes.

    Args:
        calls: how many were made before.
        use: carries one call out; raises ``ToolError`` for one that makes no sense. That counts as a call. What else it
            raises is told to the policy, too.

    Raises:
        ToolFault: a tool cannot be had; the message names it.
    """
    if reading.problem:
        return TurnResult(f"error: {reading.problem}", calls, MISCALLED)
    outputs: list[str] = []
    verdict = CALLED
    for call in reading.calls:
        if calls >= budget:
            outputs.append(ANSWER_NOW)
            return TurnResult("\n".join(outputs), calls, SPENT)
        calls += 1
        try:
            outputs.append(shown(use(call), max_output))
        except ToolError as error:
            outputs.append(shown(f"error: {error}", max_output))
            verdict = MISCALLED
        except ToolFault as fault:
            raise fault.of(call.name) from fault
        except Exception as error:  # of the tool's own code, on these arguments
            outputs.append(shown(f"error: {call.name}: {type(error).__name__}: {error}", max_output))
            verdict = MISCALLED
    if calls >= budget:
        outputs.append(ANSWER_NOW)
    return TurnResult("\n".join(outputs), calls, verdict)
