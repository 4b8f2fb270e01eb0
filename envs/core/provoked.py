"""Faults that a policy's own words provoke: a valid verdict of 0, and loud, as they show a bug of the environment.

The law (docs/verification.md): whatever the policy's action provokes gets a valid verdict. So code that raises on an
action is not believed at once: the same call is made with a control in its place, something that the policy did not
write. Where the control goes through, the action was to blame.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from rlvr.envs.core.verdict import MAX_REASON, Verdict, wrong

PROVOKED: Final = "failed on what the policy wrote: "
_LOG = logging.getLogger("rlvr.envs")
_logged: set[tuple[str, str, str]] = set()
MAX_LOGGED: Final = 100  # causes that are logged, each once


def provoked_verdict(where: str, error: BaseException | str, answer: str | None = None) -> Verdict:
    """``wrong``, with the reason that something failed on what the policy wrote; logged once for each cause.

    Args:
        where: what failed, such as "the environment Sums".
        error: how.
    """
    reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    _log(where, reason, error)
    return wrong(answer, f"{where} {PROVOKED}{reason}"[:MAX_REASON])


def _log(where: str, reason: str, error: BaseException | str) -> None:
    line = ""
    if isinstance(error, BaseException):
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        line = f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame is not None else ""
    cause = (where, type(error).__name__, line)
    if cause in _logged or len(_logged) >= MAX_LOGGED:
        return
    _logged.add(cause)
    at = f" ({line})" if line else ""
    _LOG.warning("%s %s%s%s: a bug that a policy can reach; its episodes get 0", where, PROVOKED, reason[:300], at)


def goes_through(control: Callable[[], object]) -> bool:
    """Whether a call with a control in place of the policy's words raises nothing."""
    try:
        control()
    except Exception:
        return False
    return True
