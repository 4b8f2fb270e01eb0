"""What a validation says: findings, the checks that made them, and a report for people and for programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rlvr.envs.core.terminal import printable
from rlvr.envs.tasks.wording import counted

Severity = Literal["note", "low", "medium", "high"]
SEVERITIES: Final[tuple[Severity, ...]] = ("note", "low", "medium", "high")
Status = Literal["pass", "fail", "skip", "unfinished", "error"]
GROUPS: Final = ("Sound", "Clear", "Hard to game", "Learnable", "Healthy rollouts")
MAX_TEXT: Final = 300  # characters of a finding
MAX_COMMAND: Final = 2_000  # characters of actions in a command; longer ones stand in the JSON report alone


@dataclass(frozen=True, slots=True)
class Replay:
    """What shows a finding: a reset and the actions after it, on a new environment."""

    seed: int | None
    options: Mapping[str, Any] = field(default_factory=dict)
    actions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; ``from_dict`` reads it back."""
        return {"seed": self.seed, "options": dict(self.options), "actions": list(self.actions)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Replay:
        """The replay that ``to_dict`` wrote.

        Raises:
            ValueError: the record is of another form.
        """
        try:
            return cls(record["seed"], dict(record.get("options") or {}), tuple(map(str, record["actions"])))
        except (KeyError, TypeError) as error:
            raise ValueError(f'a replay is {{"seed": …, "options": {{…}}, "actions": […]}}: {error!r}') from None

    def command(self, target: str, flags: Sequence[str] = ()) -> str:
        """The command that plays it; ``flags`` are those by which the target was made."""
        words = shlex.join(["rlvr", "validate", target, *flags, "--replay"])
        record = json.dumps(self.to_dict())
        if len(record) > MAX_COMMAND:
            return f"{words} FILE  # the replay in the JSON report, as a file"
        return f"{words} {shlex.quote(record)}"


@dataclass(frozen=True, slots=True)
class Check:
    """One property of an environment.

    Attributes:
        id: OpenEnv's id where RFC 008 has the check, else ours.
        group: one of ``GROUPS``.
        sentence: what holds where nothing is found.
        number: RFC 008's number of the test; None where it has none.
        severity: of its findings, unless one says otherwise.
        remedy: what the author changes.
    """

    id: str
    group: str
    sentence: str
    number: int | None
    severity: Severity
    remedy: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, with figures and what shows it.

    Attributes:
        name: which attack or property of the check, in words.
        text: one sentence.
        measured: figures by name.
        replay: what shows it; None where more than one episode is compared, which ``text`` then says.
    """

    name: str
    severity: Severity
    text: str
    measured: Mapping[str, Any] = field(default_factory=dict)
    replay: Replay | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; ``from_dict`` reads it back."""
        return {
            "name": self.name,
            "severity": self.severity,
            "text": self.text,
            "measured": dict(self.measured),
            "replay": self.replay.to_dict() if self.replay else None,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Finding:
        """The finding that ``to_dict`` wrote."""
        replay = Replay.from_dict(record["replay"]) if record["replay"] else None
        return cls(record["name"], record["severity"], record["text"], record["measured"], replay)


@dataclass(slots=True)
class CheckResult:
    """A check's outcome: how often it tried, what it measured and what it found.

    Attributes:
        tries: attacks, or comparisons, of which each may be of several episodes.
        actions: that were played.
        skipped: why it does not apply.
        unfinished: why it did not run to its end, although it applies; it may have missed something.
        error: what the check itself raised.
    """

    check: Check
    tries: int = 0
    actions: int = 0
    measured: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    skipped: str = ""
    unfinished: str = ""
    error: str = ""
    seconds: float = 0.0

    @property
    def status(self) -> Status:
        """RFC 008's word, or ``unfinished``: a finding that is a note fails nothing."""
        if self.error:
            return "error"
        if any(finding.severity != "note" for finding in self.findings):
            return "fail"
        return "unfinished" if self.unfinished else "skip" if self.skipped else "pass"

    @property
    def why(self) -> str:
        """Why it was skipped, did not end or raised; "" where it ran to its end."""
        return self.error or self.unfinished or self.skipped

    def add(
        self,
        name: str,
        text: str,
        *,
        severity: Severity | None = None,
        replay: Replay | None = None,
        **measured: Any,
    ) -> None:
        """Note a finding, its text cut at 300 characters."""
        text = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
        self.findings.append(Finding(name, severity or self.check.severity, text, measured, replay))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "check": self.check.id,
            "rfc_008": self.check.number,
            "group": self.check.group,
            "sentence": self.check.sentence,
            "status": self.status,
            "tries": self.tries,
            "actions": self.actions,
            "measured": self.measured,
            "skipped": self.skipped,
            "unfinished": self.unfinished,
            "error": self.error,
            "seconds": round(self.seconds, 3),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @classmethod
    def from_dict(cls, check: Check, record: Mapping[str, Any]) -> CheckResult:
        """The result that ``to_dict`` wrote of this check."""
        findings = [Finding.from_dict(each) for each in record["findings"]]
        names = ("tries", "actions", "measured", "skipped", "unfinished", "error", "seconds")
        values = {name: record[name] for name in names}
        return cls(check, findings=findings, **values)


@dataclass(slots=True)
class ValidationReport:
    """All checks of one environment.

    Attributes:
        target: what was validated, as it was named.
        results: one for each check.
        assumed: what had to be assumed, such as the range of rewards.
        source_digest: of the environment's code and settings, where it is known.
        flags: of the command line, by which the target was made.
        played: replays of a few episodes, to be played again elsewhere.
    """

    target: str
    results: list[CheckResult]
    assumed: dict[str, str] = field(default_factory=dict)
    source_digest: str = ""
    seconds: float = 0.0
    flags: tuple[str, ...] = ()
    played: list[dict[str, Any]] = field(default_factory=list)

    @property
    def findings(self) -> Iterator[tuple[Check, Finding]]:
        """Every finding with its check, the gravest first."""
        pairs = [(result.check, finding) for result in self.results for finding in result.findings]
        return iter(sorted(pairs, key=lambda pair: -SEVERITIES.index(pair[1].severity)))

    @property
    def clean(self) -> bool:
        """Whether nothing was found but notes, and every check ran to its end."""
        return all(result.status in ("pass", "skip") and not result.unfinished for result in self.results)

    def at_least(self, severity: Severity) -> list[Finding]:
        """The findings of at least this severity."""
        return [each for _, each in self.findings if SEVERITIES.index(each.severity) >= SEVERITIES.index(severity)]

    @property
    def verdict(self) -> Literal["pass", "warn", "fail"]:
        """RFC 008's word: ``fail`` from severity high on, and where a check could not be run to its end."""
        if self.at_least("high") or any(result.error for result in self.results):
            return "fail"
        return "pass" if self.clean else "warn"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "format": "rlvr.validation/1",
            "target": self.target,
            "verdict": self.verdict,
            "source_digest": self.source_digest,
            "assumed": self.assumed,
            "seconds": round(self.seconds, 2),
            "checks": [result.to_dict() for result in self.results],
        }

    def __str__(self) -> str:
        return as_text(self)


SHOWN: Final = 3  # findings of a check that a terminal shows
_MARK: Final = {"pass": "ok", "fail": "FOUND", "skip": "skipped", "unfinished": "NO END", "error": "ERROR"}


def as_text(report: ValidationReport, verbose: bool = False) -> str:
    """For a terminal: a line for each check, its gravest findings and the command that shows each."""
    lines = [f"{report.target}: {summary(report)}"]
    lines += [f"  assumed: {name} {value}" for name, value in report.assumed.items()]
    for group in GROUPS:
        results = [result for result in report.results if result.check.group == group]
        if results:
            lines.append(f"{group}")
        for result in results:
            line = f"  {_MARK[result.status]:<8}{result.check.id:<36}{result.tries:>6} tries  {result.why}"
            lines.append(line.rstrip())
            for finding in result.findings[: None if verbose else SHOWN]:
                lines.append(f"      {finding.severity}: {finding.text}")
                if finding.replay:
                    lines.append(f"      show it: {finding.replay.command(report.target, report.flags)}")
            if len(result.findings) > SHOWN and not verbose:
                lines.append(f"      and {len(result.findings) - SHOWN} more")
    return printable("\n".join(lines))


def summary(report: ValidationReport) -> str:
    """How many findings of which severity."""
    counts = {"high": 0, "medium": 0, "low": 0, "note": 0}
    for _, finding in report.findings:
        counts[finding.severity] += 1
    words = [f"{count} {severity}" for severity, count in counts.items() if count]
    for count, verb in (
        (sum(bool(result.error) for result in report.results), "raised"),
        (sum(bool(result.unfinished) for result in report.results), "did not end"),
    ):
        words += [f"{counted(count, 'check')} that {verb}"] if count else []
    if report.clean:
        return f"clean{' (' + ', '.join(words) + ')' if words else ''}"
    found = any(finding.severity != "note" for _, finding in report.findings)
    return f"{'FINDINGS' if found else 'NOT CLEAN'}: {', '.join(words)}"
