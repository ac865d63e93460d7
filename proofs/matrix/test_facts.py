"""All report formats of one run are parsed back to the same facts."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from click.testing import CliRunner

from auditor.cli import main
from auditor.model.finding import Finding
from proofs.matrix.facts import PARSERS, Facts, of_notebook, of_parquet, of_text
from proofs.matrix.rules import forms_agree
from tests.made_runs import change_row, made_run, numbered
from tests.reports.samples import BELOW, LOST, ORPHAN, report, tally

FIRST = replace(LOST, id="gc-would-delete-live", missing=())  # else the page draws its copies
SECOND = replace(BELOW, id="quorum-invalid", missing=())
STATED_FACTS = {
    "text": {"verdict", "complete", "by_id", "unsure", "shares", "gaps"},
    "json": {"verdict", "samples", "full", "by_id", "shares", "gaps"},
    "jsonl": {"findings", "full"},
    "csv": {"findings", "full"},
    "markdown": {"verdict", "complete", "by_check", "unsure", "shares", "gaps"},
    "html": {"verdict", "complete", "samples", "by_check", "unsure", "shares"},
    "sarif": {"verdict", "complete", "findings", "full", "by_id", "gaps"},
    "junit": {"verdict", "full", "shares"},
    "openmetrics": {"verdict", "complete", "full", "shares", "gaps"},
    "parquet": {"findings", "full"},
    "notebook": {"verdict", "complete", "findings", "full", "shares"},
}
"""The facts that each parser must find. A parser that finds nothing would agree with everything."""


def facts_of_all(path: Path, findings: list[Finding]) -> dict[str, Facts]:
    tallies = [
        tally(FIRST.id, "critical"),
        tally(SECOND.id, "error", 1, "suspect"),
        tally("orphan-ledger", "note", 2),
    ]
    run = made_run(
        path / "run",
        findings,
        report(tallies, (FIRST, findings[1]), gaps=["/ledgers/00: no"], changes=None),
        changes=[change_row(finding, 1_795_237_689_000, "new") for finding in findings],
    )
    facts = {}
    for form, parse in PARSERS.items():
        outcome = CliRunner().invoke(main, ["report", run.path, "--format", form])
        assert outcome.exit_code == 0, outcome.output
        facts[form] = parse(outcome.stdout)
    file = path / "report.parquet"
    run.write("parquet", file)
    return {**facts, "parquet": of_parquet(file.read_bytes()), "notebook": of_notebook(run)}


def test_every_report_format_parses_to_the_same_facts(tmp_path: Path) -> None:
    findings = [FIRST, numbered(SECOND, 7), numbered(ORPHAN, 8), numbered(ORPHAN, 9)]
    facts_by_form = facts_of_all(tmp_path, findings)
    stated_fields = {
        form: {field.name for field in fields(Facts) if getattr(facts, field.name) is not None}
        for form, facts in facts_by_form.items()
    }
    assert stated_fields == STATED_FACTS
    rows = [{"fingerprint": finding.fingerprint} for finding in findings]
    assert not [*forms_agree(facts_by_form, rows)]
    assert facts_by_form["markdown"].by_check == {
        ("critical", FIRST.id): 1,
        ("error", SECOND.id): 1,
        ("note", "orphan-ledger"): 2,
    }
    assert facts_by_form["html"].shares == {"ledgers": (118, 120), "replicas": (340, 360), "bookies": (2, 3)}
    assert facts_by_form["text"].gaps == 1


def test_text_report_of_a_metadata_audit_states_zero_read_bookies() -> None:
    screen = "bookies    1,203, none read: without --bookies\n\nHEALTHY: no finding\n"
    assert of_text(screen).shares == {"bookies": (0, 1203)}
