"""A report as JUnit XML for build servers: one test case for each check, checks with findings first.

A test case fails if its check has unsuppressed findings of `warning` or worse. The same findings make a
verdict "not healthy". A check without such findings is a skipped test case if it lacked some of its input
(`auditor.reports.blind_spots`). Possible causes are gaps in the metadata, an unread bookie, or a store
that has no under-replication marks.
"""

from datetime import UTC, datetime
from itertools import islice
from xml.etree import ElementTree as ET

from auditor.checks import ALL_CHECKS, CHECK_BY_ID, GROUP_BY_ID
from auditor.checks.check import Check
from auditor.model.amounts import plural
from auditor.model.finding import ChangeStatus, Finding, Severity, StatusLookup, no_change_status
from auditor.model.report import Report
from auditor.model.run_facts import Tally
from auditor.reports.blind_spots import BlindSpot, find_blind_spots, skip_sentence
from auditor.reports.coverage import checked_extents, count_by_check
from auditor.reports.finding_text import MAX_BOOKIES_SHOWN, entry_texts, message_texts
from auditor.reports.plain_text import printable

MAX_FINDINGS_SHOWN = 20
"""Largest number of findings in a test case. Counts include those that are not shown."""


def render(report: Report, change_statuses: StatusLookup = no_change_status) -> str:
    """Return the whole document. Its size grows with the number of checks, not of findings."""
    run = report.run
    duration_text = f"{max(0, run.finished - run.started) / 1000:.3f}"
    blind_spots_by_check = find_blind_spots(report)
    reported_checks = list(
        dict.fromkeys(
            CHECK_BY_ID[check_count.id]
            for check_count in count_by_check(report)
            if check_count.id in CHECK_BY_ID
        )
    )
    checks = [*reported_checks, *(check for check in ALL_CHECKS if check not in reported_checks)]
    test_cases = [
        _check_case(report, check, blind_spots_by_check.get(check.id), change_statuses) for check in checks
    ]
    suite_totals = {
        "tests": str(len(test_cases)),
        "failures": str(sum(test_case.find("failure") is not None for test_case in test_cases)),
        "errors": "0",
        "skipped": str(sum(test_case.find("skipped") is not None for test_case in test_cases)),
        "time": duration_text,
    }
    suites_element = ET.Element("testsuites", {"name": "bookkeeper-auditor", **suite_totals})
    start_text = datetime.fromtimestamp(run.started / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    suite_element = ET.SubElement(
        suites_element, "testsuite", {"name": "bookkeeper-auditor", "timestamp": start_text, **suite_totals}
    )
    properties_element = ET.SubElement(suite_element, "properties")
    for name, property_text in _run_properties(report).items():
        ET.SubElement(properties_element, "property", name=name, value=printable(property_text))
    suite_element.extend(test_cases)
    ET.indent(suites_element)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites_element, encoding="unicode") + "\n"


def _run_properties(report: Report) -> dict[str, str]:
    properties_of_run = {
        f"{extent.name} {extent.label}": f"{extent.covered_count} of {extent.total}"
        for extent in checked_extents(report)
    }
    return {
        "cluster": report.cluster.instance_id or "",
        "metadata": report.cluster.metadata_uri,
        "verdict": report.verdict,
        **properties_of_run,
    }


def _check_case(
    report: Report, check: Check, blind_spot: BlindSpot | None, change_statuses: StatusLookup
) -> ET.Element:
    test_case = ET.Element("testcase", classname=f"bookkeeper.{GROUP_BY_ID[check.id]}", name=check.id)
    tallies = [tally for tally in report.run.tally if CHECK_BY_ID.get(tally["id"]) is check]
    failing_count = sum(
        tally["count"] - tally["suppressed"]
        for tally in tallies
        if Severity(tally["severity"]).at_least(Severity.WARNING)
    )
    if failing_count:
        worst_severity = min(
            (Severity(tally["severity"]) for tally in tallies), key=lambda severity: severity.rank
        )
        summary_text = f"{plural(failing_count, 'finding')}: {check.title}"
        failure_element = ET.SubElement(test_case, "failure", message=summary_text, type=str(worst_severity))
        failure_element.text = _failure_text(report, check, tallies, change_statuses)
    elif blind_spot is not None:
        ET.SubElement(test_case, "skipped", message=printable(skip_sentence(blind_spot)))
    if tallies and not failing_count:
        ET.SubElement(test_case, "system-out").text = _failure_text(report, check, tallies, change_statuses)
    return test_case


def _failure_text(report: Report, check: Check, tallies: list[Tally], change_statuses: StatusLookup) -> str:
    """Return the text of a test case: counts by severity and confidence, then findings in the report."""
    lines = [
        f"{tally['count']:,} {tally['severity']}, {tally['confidence']}"
        + (f"; {tally['suppressed']:,} suppressed" if tally["suppressed"] else "")
        for tally in tallies
    ]
    sampled_findings = (finding for finding in report.findings if CHECK_BY_ID.get(finding.id) is check)
    lines += [
        _finding_line(finding, change_statuses(finding.fingerprint))
        for finding in islice(sampled_findings, MAX_FINDINGS_SHOWN)
    ]
    lines.append(f"More: bkaudit explain check {check.id}")
    # XML cannot carry control characters.
    return "\n".join(printable(line) for line in lines)


def _finding_line(finding: Finding, change_status: ChangeStatus | None) -> str:
    subject_text, message, tags_text = message_texts(finding, change_status)
    parts = [
        f"{f'{subject_text}: ' if subject_text else ''}{message}{tags_text}",
        *entry_texts(finding, MAX_BOOKIES_SHOWN),
    ]
    return "; ".join(parts)
