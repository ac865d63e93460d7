"""Tests of findings as one Parquet file."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from auditor.model.finding import ChangeStatus, Finding
from auditor.reports import csv
from tests.reports.hostile import HOSTILE
from tests.reports.samples import LOST, UNREAD


def test_finding_is_read_back_as_written() -> None:
    out = io.BytesIO()
    change_status = ChangeStatus("new", 1_795_237_669_000, "known")
    csv.write_findings_parquet([LOST, UNREAD], out, {LOST.fingerprint: change_status}.get)
    lost, unread = pq.read_table(out).to_pylist()
    assert lost["ledger_id"] == 9223372036854770002
    assert lost["missing"][0]["groups"][1] == {
        "first_start": 10,
        "last_start": 2998,
        "size": 2,
        "period": 3,
    }
    assert json.loads(lost["evidence"]) == LOST.evidence
    assert lost["first_seen"] == datetime(2026, 11, 21, 5, 7, 49, tzinfo=UTC)
    assert (lost["change"], lost["suppressed"]) == ("new", "known")
    assert (unread["ledger_id"], unread["bookie_id"], unread["change"]) == (None, "bk-c:3181", None)


def test_finding_with_hostile_text_is_written() -> None:
    out = io.BytesIO()
    csv.write_findings_parquet([HOSTILE], out)
    [row] = pq.read_table(out).to_pylist()
    assert row["bookie_id"] == HOSTILE.bookie_id
    assert json.loads(row["evidence"]) == HOSTILE.evidence


def test_findings_are_written_in_batches_as_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "MAX_BATCH_ROWS", 100)
    out = io.BytesIO()
    before = []

    def many() -> Iterator[Finding]:
        for number in range(1_000):
            if number % 100 == 0:
                before.append(out.tell())
            yield replace(LOST, ledger_id=number)

    csv.write_findings_parquet(many(), out)
    assert before == sorted(before)
    assert before[5] > before[1]
    assert pq.ParquetFile(out).metadata.num_row_groups == 10


def test_no_findings_write_a_table_without_rows() -> None:
    out = io.BytesIO()
    csv.write_findings_parquet([], out)
    assert pq.read_table(out).num_rows == 0
