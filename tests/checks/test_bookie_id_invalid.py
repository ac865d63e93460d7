"""Bookie ids that the server refuses, and ids that only BP-41 would refuse."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.checks.tables_builder import find, ledger, tables

ACCEPTED_PATTERN = ["127.0.0.1:3181", "a_b-c.d", "readonly1", "this.is.an.hostname:1234"]
NOT_PORTABLE = [f"bk{character}1" for character in ";<=>?@[\\]^"]
REFUSED = ["", "non valid", "non$valid", "a/b", "readOnly", "READONLY", "b\u00e9", "a\n", "a|b", "a~b", "`a"]


def test_invalid_bookie_ids_are_errors_and_unportable_ids_are_notes(spark: SparkSession) -> None:
    unseen = {"has_cookie": False, "registered": None}
    cluster_tables = tables(
        spark,
        bookies=[{"bookie_id": name} for name in [*ACCEPTED_PATTERN, *NOT_PORTABLE, *REFUSED]]
        + [
            {"bookie_id": "only in ensembles", **unseen},
            {"bookie_id": "user@ensembles", **unseen, "named": True},
            {"bookie_id": "user@marks", **unseen, "named": False, "marked": True},
            {"bookie_id": "a cookie", **unseen, "has_cookie": True},
        ],
        ledgers=[
            ledger(
                7,
                "non valid",
                status="broken",
                rules=[("bookie-id-invalid", "'non valid' is not a bookie id")],
            ),
            ledger(8, "bk1", status="broken", rules=[("ensemble-size", "1 for 3")]),
        ],
    )
    findings = find("bookie-id-invalid", cluster_tables)
    by_severity = {
        severity: {
            finding.bookie_id
            for finding in findings
            if finding.ledger_id is None and finding.severity == severity
        }
        for severity in ("error", "note")
    }
    assert by_severity == {
        "error": {*REFUSED, "a cookie"},
        "note": {*NOT_PORTABLE, "user@ensembles"},
    }
    [note] = [finding for finding in findings if finding.bookie_id == "bk@1"]
    assert note.message == "'bk@1' is a bookie id that BookKeeper accepts, but BP-41 does not allow"
    [ledger_finding] = [finding for finding in findings if finding.ledger_id is not None]
    assert (ledger_finding.where, ledger_finding.severity) == ((7, None), "error")
    assert ledger_finding.message == "ledger 7: 'non valid' is not a bookie id"
