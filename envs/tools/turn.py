"""One turn of calls: the budget, the order, and what the policy sees next, whoever carries the calls out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.tools.calls import STYLES, Call, Reading
from rlvr.envs.tools.tool import ToolError, ToolFault, shown

CALLED = Verdict(0.0, "partial", reason="called a tool")
MISCALLED = Verdict(0.0, "unparsable", reason="a call that cannot be carried out")
SPENT = Verdict(0.0, "partial", reason="called a tool with no calls left")
ANSWER_NOW = "No calls are left: answer now."


class CallOutputs(str):
    """What several native calls of one action gave, as one text.

    Attributes:
        each: the output of each call, in order.
    """

    each: tuple[str, ...]

    def __new__(cls, each: Sequence[str]) -> CallOutputs:
        """The outputs, one a line."""
        outputs = super().__new__(cls, "\n".join(each))
        outputs.each = tuple(each)
        return outputs

    def __getnewargs__(self) -> tuple[tuple[str, ...]]:  # type: ignore[override]  # str's has the text
        return (self.each,)


class TurnResult(NamedTuple):
    """What the policy sees next, how many calls it has made by now, and the verdict on the turn."""

    output: str
    calls: int
    verdict: Verdict


def require_call_settings(style: str, tools_in: str) -> None:
    """Check how calls are written, and where the tools are shown.

    Raises:
        ValueError: there is no such style, or no such way.
    """
    if style not in STYLES:
        raise ValueError(f"tool_style {style!r} is none of {', '.join(STYLES)}")
    if tools_in not in ("system", "template"):
        raise ValueError(f"tools_in {tools_in!r} is neither system nor template")


def carry_out(reading: Reading, calls: int, budget: int, use: Callable[[Call], str], max_output: int) -> TurnResult:
    """Carry out the calls of a reply, in order, as far as the budget goes.

    Of calls in the text none is carried out where one cannot be read. Native ones are answered one by one: one that
    cannot be read keeps no other from being carried out.

    Args:
        calls: how many were made before.
        use: carries one call out; raises ``ToolError`` for one that makes no sense. That counts as a call. What else it
            raises is told to the policy, too.

    Raises:
        ToolFault: a tool cannot be had; the message names it.
    """
    if reading.problem and not reading.native:
        return TurnResult(f"error: {reading.problem}", calls, MISCALLED)
    made = reading.native or reading.calls
    outputs: list[str] = []
    verdict = CALLED
    for index, call in enumerate(made):
        if calls >= budget:
            left = len(made) - index if reading.native else 1  # each native call wants an answer
            return TurnResult(_joined([*outputs, *[ANSWER_NOW] * left], reading), calls, SPENT)
        if isinstance(call, str):
            output, is_right = f"error: {call}", False
        else:
            output, is_right = _output(call, use)
            calls += 1
        outputs.append(shown(output, max_output))
        verdict = verdict if is_right else MISCALLED
    if calls >= budget:
        outputs[-1] += f"\n{ANSWER_NOW}"
    return TurnResult(_joined(outputs, reading), calls, verdict)


def _joined(outputs: list[str], reading: Reading) -> str:
    return CallOutputs(outputs) if reading.native else "\n".join(outputs)


def _output(call: Call, use: Callable[[Call], str]) -> tuple[str, bool]:
    """What a call gives, and whether it could be carried out.

    Raises:
        ToolFault: the tool cannot be had; the message names it.
    """
    try:
        return use(call), True
    except ToolError as error:
        return f"error: {error}", False
    except ToolFault as fault:
        raise fault.of(call.name) from fault
    except Exception as error:  # of the tool's own code, on these arguments
        return f"error: {call.name}: {type(error).__name__}: {error}", False
