"""The laws by name, and what a gateway does with each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rlvr.adapters.conformance import laws_replies, laws_tokens
from rlvr.adapters.conformance.evidence import Evidence, LawFinding, Outcome


class TokenLaw(NamedTuple):
    """One law: its name, one sentence, and what looks at the evidence."""

    id: str
    sentence: str
    check: Callable[[Evidence], Iterator[LawFinding]]


def _law(name: str, check: Callable[[Evidence], Iterator[LawFinding]]) -> TokenLaw:
    return TokenLaw(name, " ".join((check.__doc__ or "").split()), check)


LAWS: tuple[TokenLaw, ...] = (
    _law("prefix", laws_tokens.check_prefix),
    _law("kept", laws_tokens.check_kept),
    _law("turns", laws_tokens.check_turns),
    _law("roles", laws_tokens.check_roles),
    _law("mask", laws_tokens.check_mask),
    _law("decoding", laws_tokens.check_decoding),
    _law("tools", laws_tokens.check_tools),
    _law("logprobs", laws_replies.check_logprobs),
    _law("scored", laws_replies.check_scored),
    _law("usage", laws_replies.check_usage),
    _law("finish", laws_replies.check_finish),
    _law("stop", laws_replies.check_stop),
    _law("choices", laws_replies.check_choices),
    _law("stream", laws_replies.check_stream),
    _law("unicode", laws_replies.check_unicode),
    _law("greedy", laws_replies.check_greedy),
    _law("seed", laws_replies.check_seed),
    _law("together", laws_replies.check_together),
)


@dataclass(frozen=True, slots=True)
class LawReport:
    """What a gateway does with one law.

    Attributes:
        law, sentence: which.
        outcome: broken where any finding is; else holds where any is; else unknown.
        findings: all of them.
    """

    law: str
    sentence: str
    outcome: Outcome
    findings: tuple[LawFinding, ...]

    @property
    def breaks(self) -> list[LawFinding]:
        """The findings that break it."""
        return [finding for finding in self.findings if finding.outcome == "broken"]


def judge(evidence: Evidence, laws: Sequence[TokenLaw] = LAWS) -> list[LawReport]:
    """What the evidence says of each law."""
    reports = []
    for law in laws:
        findings = tuple(law.check(evidence))
        outcomes = {finding.outcome for finding in findings}
        outcome: Outcome = "broken" if "broken" in outcomes else "holds" if "holds" in outcomes else "unknown"
        reports.append(LawReport(law.id, law.sentence, outcome, findings))
    return reports


def to_json(target: Mapping[str, Any], reports: Sequence[LawReport]) -> str:
    """The reports as JSON, with what was judged."""
    counts = {
        outcome: sum(report.outcome == outcome for report in reports) for outcome in ("holds", "broken", "unknown")
    }
    laws = [asdict(report) for report in reports]
    return json.dumps({"format": "rlvr.conform/1", **target, "counts": counts, "laws": laws}, default=list, indent=1)


def to_text(reports: Sequence[LawReport], shown: int = 3) -> str:
    """The reports as lines: the outcome of each law, then its breaks, or why it cannot be told."""
    width = max(len(report.law) for report in reports)
    lines = []
    for report in reports:
        lines.append(f"{report.outcome:8} {report.law:{width}}  {report.sentence}")
        breaks = report.breaks
        lines += [f"{'':9}{'':{width}}    {_line(finding)}" for finding in breaks[:shown]]
        if len(breaks) > shown:
            lines.append(f"{'':9}{'':{width}}    and {len(breaks) - shown} more: --json has them")
        reasons = dict.fromkeys(finding.detail for finding in report.findings if finding.outcome == "unknown")
        if report.outcome == "unknown" and not reasons:
            reasons = {"no probe of it was answered": None}
        if report.outcome != "broken":
            lines += [f"{'':9}{'':{width}}    unknown: {reason}" for reason in list(reasons)[:shown]]
    counts = [
        f"{sum(report.outcome == outcome for report in reports)} {outcome}"
        for outcome in ("holds", "broken", "unknown")
    ]
    return "\n".join([*lines, ", ".join(counts)])


def _line(finding: LawFinding) -> str:
    token = "" if finding.token is None else f", token {finding.token}"
    text = f"{finding.where}{token}: {finding.detail}"
    if finding.expected is not None or finding.got is not None:
        text += f" (expected {_short(finding.expected)}, got {_short(finding.got)})"
    return text


def _short(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."
