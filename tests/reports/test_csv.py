"""Tests of findings as CSV, for spreadsheets and scripts."""

from __future__ import annotations

import csv as plain_csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace

from auditor.model.finding import ChangeStatus, Finding, Missing
from auditor.reports import csv
from tests.reports.hostile import HOSTILE
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD


def rows(*findings: Finding) -> list[dict[str, str]]:
    text = "".join(csv.render(findings))
    return list(plain_csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_a_finding_is_a_row_with_every_column() -> None:
    [row] = rows(LOST)
    assert list(row) == list(csv.COLUMN_MEANINGS)
    assert row["ledger_id"] == "9223372036854770002"
    assert row["ledger_qualified_name"] == "00000000000000007fffffffffffe952"
    assert row["missing_entries"] == "2002"
    assert row["missing"] == (
        "bk-a:3181 lacks 4; 10-11, 13-14, ... 2998-2999 (1,995 entries); bk-b:3181 lacks 1,2,4-8 (7 entries)"
    )
    assert json.loads(row["evidence"]) == {"write_quorum": 2}
    assert (row["bookie_id"], row["change"], row["first_seen"], row["suppressed"]) == ("", "", "", "")


def test_csv_row_has_change_first_seen_and_suppression() -> None:
    change_status = ChangeStatus("worse", 1_795_237_669_000, "=known")
    [head, row] = csv.render([LOST], {LOST.fingerprint: change_status}.get)
    [shown] = plain_csv.DictReader(io.StringIO(head + row))
    assert shown["change"] == "worse"
    assert shown["first_seen"] == "2026-11-21T05:07:49.000+00:00"
    assert shown["suppressed"] == "'=known"


def test_no_cell_is_a_formula_a_second_line_or_a_second_cell() -> None:
    lines = list(csv.render([HOSTILE]))
    [row] = rows(HOSTILE)
    assert None not in row
    assert all(line.count("\n") == 1 for line in lines)
    texts = {name: value for name, value in row.items() if name not in ("scope_id", "ledger_id")}
    assert not any(value.startswith(("=", "+", "-", "@", "\t", "\r")) for value in texts.values())
    assert row["bookie_id"].startswith("'=cmd|")
    assert (row["scope_id"], row["ledger_id"]) == ("-1", "-7")


def test_csv_row_is_short_for_a_huge_finding() -> None:
    names = tuple(f"bookie-{number}:3181" for number in range(5_000))
    holes = tuple((7 * number, 7 * number, 1, 0) for number in range(1_000))
    [row] = rows(replace(BELOW, unknown=names, missing=tuple(Missing(name, holes, 1_000) for name in names)))
    assert len(row["missing"]) < 4_000
    assert "4,980 more bookies" in row["missing"]
    assert row["missing_entries"] == "5000000"
    assert row["unknown"].endswith("and 4,980 more")


def test_csv_rows_are_rendered_one_by_one() -> None:
    rendered = []

    def many() -> Iterator[Finding]:
        for finding in (LOST, BELOW, ORPHAN, UNREAD):
            rendered.append(finding)
            yield finding

    lines = csv.render(many())
    next(lines)
    next(lines)
    assert rendered == [LOST]
