"""A report as Markdown, as a page of HTML, and in the form of OpenEnv's RFC 008."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from rlvr.envs.core.terminal import printable
from rlvr.envs.validation.report import CheckResult, ValidationReport, summary


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def as_markdown(report: ValidationReport) -> str:
    """A page of Markdown: the verdict, a table of the checks, and the findings with their commands."""
    lines = [f"# Validation of `{report.target}`", "", f"**{report.verdict}**: {summary(report)}.", ""]
    lines += [f"- assumed: {name} {value}" for name, value in report.assumed.items()]
    lines += ["", "| group | check | RFC 008 | status | tries | what holds |", "|---|---|---|---|---|---|"]
    for result in report.results:
        check = result.check
        note = f" ({result.why})" if result.why else ""
        cells = (check.group, f"`{check.id}`", check.number or "", result.status + note, result.tries, check.sentence)
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    findings = list(report.findings)
    lines += ["", "## Findings", ""] if findings else ["", "Nothing was found."]
    for check, finding in findings:
        lines += [f"- **{finding.severity}**, `{check.id}`: {_cell(finding.text)} {check.remedy}"]
        if finding.replay:
            lines += [
                "",
                "      " + printable(finding.replay.command(report.target, report.flags)).replace("\n", " "),
                "",
            ]
    return "\n".join(lines) + "\n"


STYLE: Final = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #ddd;padding:.3rem .5rem;text-align:left;
vertical-align:top}.fail,.error,.unfinished,.high{color:#b00020}.pass{color:#17692f}.skip,.note{color:#777}.medium,.low{color:#8a5a00}
pre{background:#f5f5f5;padding:.5rem;overflow-x:auto;white-space:pre-wrap;word-break:break-all}"""


def as_html(report: ValidationReport) -> str:
    """One page without scripts; every text of the environment is escaped."""
    rows = "".join(_row(result) for result in report.results)
    findings = "".join(
        f"<h3 class={finding.severity}>{finding.severity}: {escape(check.id)}</h3>"
        f"<p>{escape(printable(finding.text))}</p>"
        f"<p>{escape(check.remedy)}</p>"
        + (
            f"<pre>{escape(printable(finding.replay.command(report.target, report.flags)))}</pre>"
            if finding.replay
            else ""
        )
        for check, finding in report.findings
    )
    assumed = "".join(f"<li>assumed: {escape(name)} {escape(value)}</li>" for name, value in report.assumed.items())
    title = f"Validation of {escape(printable(report.target))}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1><p class={report.verdict}><b>{report.verdict}</b>: {escape(summary(report))}</p>"
        f"<ul>{assumed}</ul>{'<h2>Findings</h2>' + findings if findings else ''}<h2>Checks</h2><table><tr><th>group"
        f"<th>check<th>RFC 008<th>status<th>tries<th>what holds</tr>{rows}</table></html>\n"
    )


def _row(result: CheckResult) -> str:
    status = f"{result.status}{': ' + result.why if result.why else ''}"
    cells = (
        result.check.group,
        result.check.id,
        result.check.number or "",
        status,
        result.tries,
        result.check.sentence,
    )
    inner = "".join(f"<td>{escape(printable(str(cell)))}" for cell in cells)
    return f"<tr class={result.status}>{inner}</tr>"


PREFIXES: Final = {"static": 1, "runtime": 2, "semantic": 3}  # of local checks, with their levels


def as_openenv(report: ValidationReport) -> dict[str, Any]:
    """The JSON of RFC 008: local checks alone; what an author cannot run there, an operator's lane, is left out.

    A target that is no package of theirs has no manifest, and the served environment's signature stands for it.
    """
    results = [result for result in report.results if result.check.id.partition(".")[0] in PREFIXES]
    return {
        "report_schema_version": "1",
        "target": report.target,
        "source_digest": report.source_digest,
        "signature": "openenv.yaml",
        "manifest": None,
        "policy_version": "v1",
        "lane": "local",
        "levels_run": sorted({PREFIXES[result.check.id.partition(".")[0]] for result in results}),
        "results": [
            {
                "check_id": result.check.id,
                "status": "skip" if result.status == "unfinished" else result.status,
                "measured": result.measured,
                "evidence": [finding.text for finding in result.findings] + ([result.why] if result.why else []),
                "remediation": result.check.remedy if result.status == "fail" else None,
                "duration_s": round(result.seconds, 3),
            }
            for result in results
        ],
        "verdict": report.verdict,
    }
