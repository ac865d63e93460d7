"""Data lost or about to be deleted is accepted for one finding, for a week, and for its exact entries."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from auditor.errors import UsageError
from auditor.findings.suppress import (
    SuppressionEntry,
    apply_suppressions,
    digests_by_fingerprint,
    find_refusals,
    read_suppressions,
    refusal_sentences,
)
from auditor.model.acceptance import missing_digest
from auditor.model.finding import Missing
from auditor.tables.run_tables import TABLES
from tests.findings.changed_runs import Row, row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TODAY = date(2026, 11, 26)
WEEK = date(2026, 12, 3)
LATER = date(2026, 12, 4)
DIGEST = "3be5380e0dd667e5"
FINDINGS = "fingerprint string, missing array<struct<bookie_id:string,groups:binary,count:bigint>>"

LOST = row("entry-lost", 1, missing=1, urgency="lost")
DANGLING = row("owner-dangling", 2, severity="error", known_severity="error", urgency="lost")
DESTROYS = row(
    "metadata-suspect",
    bookie="bk-a:3181",
    severity="critical",
    known_severity="critical",
    urgency="destroys-data",
)
UNSURE = row("entry-lost", 3, missing=1, urgency="lost", confidence="suspect")
STUCK = row("mark-stuck", 4)
FIXED = row("entry-lost", 5, missing=1, urgency="lost", change="fixed")
ROWS = (LOST, DANGLING, DESTROYS, UNSURE, STUCK, FIXED)
TOO_LATE = "until 2026-12-04 is too late: the latest day allowed is 2026-12-03"
ABSENT = f'the key "missing" is absent; for the entries missing now, its value is "{DIGEST}"'
OTHER_ENTRIES = f'{"0" * 16} is not the digest of the entries missing now, which is "{DIGEST}"'
DIGESTS = {
    LOST["fingerprint"]: DIGEST,
    DANGLING["fingerprint"]: None,
    DESTROYS["fingerprint"]: None,
    STUCK["fingerprint"]: None,
}


def by_fingerprint(finding: Row, until: date = WEEK, missing: str | None = None) -> SuppressionEntry:
    return SuppressionEntry("known", until, {"fingerprint": finding["fingerprint"]}, missing_digest=missing)


@pytest.fixture(scope="module")
def changes(spark: SparkSession) -> DataFrame:
    table = pa.Table.from_pylist(list(ROWS), schema=TABLES["changes"].columns)
    return spark.createDataFrame(table).drop("suppression", "suppressed")


def accepted_and_refused(
    changes: DataFrame, *entries: SuppressionEntry, baselines: dict[str, DataFrame] | None = None
) -> tuple[set[str], dict[int, int], list[str]]:
    """Return the fingerprints that the entries accept, and the counts and sentences of their refusals."""
    frames = baselines or {}
    rows = apply_suppressions(changes, entries, frames, DIGESTS, TODAY)
    accepted = {finding["fingerprint"] for finding in rows.collect() if finding["suppression"] is not None}
    counts = find_refusals(rows, entries, frames, DIGESTS, TODAY).collect()
    refused = {row["place"]: row["count"] for row in counts}
    return accepted, refused, refusal_sentences(entries, refused, DIGESTS, TODAY)


@pytest.mark.parametrize(
    "names",
    [
        {"id": "*"},
        {"id": "*", "ledger_id": 1, "scope_id": 0},
        {"id": "entry-lost"},
        {"scope_id": 0},
        {"bookie_id": "bk-a:3181"},
    ],
)
def test_suppression_without_a_fingerprint_accepts_no_data_loss(
    changes: DataFrame, names: dict[str, str | int]
) -> None:
    accepted, refused, sentences = accepted_and_refused(changes, SuppressionEntry("old", WEEK, names))
    assert accepted <= {STUCK["fingerprint"]}
    assert sum(refused.values()) >= 1
    assert sentences[0].endswith("; a finding of data loss can be accepted only by its fingerprint")


def test_wildcard_suppression_accepts_other_findings_and_counts_refused_losses(changes: DataFrame) -> None:
    accepted, refused, sentences = accepted_and_refused(changes, SuppressionEntry("old", WEEK, {"id": "*"}))
    assert accepted == {STUCK["fingerprint"]}
    # What is fixed needs no acceptance, and is not counted.
    assert refused == {1: 4}
    assert sentences == [
        "entry 1 (old): 4 findings; a finding of data loss can be accepted only by its fingerprint"
    ]


def test_a_baseline_accepts_no_loss(changes: DataFrame) -> None:
    entry = SuppressionEntry("known", WEEK, {}, "there")
    accepted, refused, _ = accepted_and_refused(changes, entry, baselines={"there": changes})
    assert (accepted, refused) == ({STUCK["fingerprint"]}, {1: 4})


@pytest.mark.parametrize(
    ("finding", "entry", "reason"),
    [
        (LOST, by_fingerprint(LOST, WEEK, DIGEST), None),
        (LOST, by_fingerprint(LOST, LATER, DIGEST), TOO_LATE),
        (LOST, by_fingerprint(LOST), ABSENT),
        (
            LOST,
            by_fingerprint(LOST, WEEK, "0" * 16),
            OTHER_ENTRIES,
        ),
        (DANGLING, by_fingerprint(DANGLING), None),
        (DESTROYS, by_fingerprint(DESTROYS), None),
        (DESTROYS, by_fingerprint(DESTROYS, LATER), TOO_LATE),
        (STUCK, by_fingerprint(STUCK, date(2999, 12, 31)), None),
    ],
)
def test_a_loss_is_accepted_by_fingerprint_for_a_week_with_its_exact_entries(
    changes: DataFrame, finding: Row, entry: SuppressionEntry, reason: str | None
) -> None:
    accepted, refused, sentences = accepted_and_refused(changes, entry)
    if reason is None:
        assert (accepted, refused, sentences) == ({finding["fingerprint"]}, {}, [])
    else:
        assert (accepted, refused) == (set(), {1: 1})
        assert sentences == [f"entry 1 (known): 1 finding; {reason}"]


def test_refused_finding_counts_only_for_the_entry_with_its_fingerprint(
    changes: DataFrame,
) -> None:
    wild, late = SuppressionEntry("old", WEEK, {"id": "entry-lost"}), by_fingerprint(LOST, LATER, DIGEST)
    _, refused, _ = accepted_and_refused(changes, wild, late)
    assert refused == {1: 1, 2: 1}
    accepted, refused, _ = accepted_and_refused(changes, wild, by_fingerprint(LOST, WEEK, DIGEST))
    assert (accepted, refused) == ({LOST["fingerprint"]}, {1: 1})


def test_an_expired_entry_refuses_nothing(changes: DataFrame) -> None:
    assert accepted_and_refused(changes, SuppressionEntry("over", date(2026, 11, 25), {"id": "*"}))[1] == {}


def test_spark_and_python_give_the_same_digest(spark: SparkSession) -> None:
    parts: list[tuple[str, bytes, int]] = [
        ("bk-b:3181", bytes.fromhex("000000000000000a0000000000000bb60000000200000003"), 1994),
        ("bk-a:3181", bytes.fromhex("000000000000000400000000000000040000000100000000"), 1),
    ]
    rows: list[tuple[Any, ...]] = [("a" * 16, parts), ("b" * 16, [])]
    entries = [by_fingerprint({"fingerprint": name}) for name in ("a" * 16, "b" * 16, "c" * 16)]
    digests = digests_by_fingerprint(spark.createDataFrame(rows, FINDINGS), entries)
    assert digests is not None
    spark_digests = {row["fingerprint"]: row["digest"] for row in digests.collect()}
    missing = (
        Missing("bk-a:3181", ((4, 4, 1, 0),), 1),
        Missing("bk-b:3181", ((10, 2998, 2, 3),), 1994),
    )
    assert spark_digests == {"a" * 16: missing_digest(missing), "b" * 16: None}
    assert missing_digest(missing[:1]) != missing_digest(missing)


def test_missing_key_of_a_suppression_needs_a_single_finding_and_a_valid_digest(tmp_path: Path) -> None:
    file = tmp_path / "suppressions.toml"
    suffix = '\nreason = "r"\nuntil = 2026-12-03\n'
    file.write_text(f'[[suppress]]\nid = "entry-lost"\nmissing = "{DIGEST}"{suffix}')
    with pytest.raises(
        UsageError,
        match="entry 1: missing: valid only for a single finding; add the fingerprint of the finding",
    ):
        read_suppressions(file)
    file.write_text(f'[[suppress]]\nfingerprint = "{"a" * 16}"\nmissing = "x"{suffix}')
    with pytest.raises(UsageError, match="missing: 'x' is not a digest of missing entries"):
        read_suppressions(file)
    file.write_text(f'[[suppress]]\nfingerprint = "{"a" * 16}"\nmissing = "{DIGEST}"{suffix}')
    assert read_suppressions(file) == (SuppressionEntry("r", WEEK, {"fingerprint": "a" * 16}, None, DIGEST),)
