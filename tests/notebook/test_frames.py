"""Parts of a run as small pandas frames."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from auditor.model.finding import Confidence, Finding, Severity
from auditor.notebook.run import Run
from tests.made_runs import change_row, made_run, numbered
from tests.reports.hostile import BOOKIE, HOSTILE
from tests.reports.samples import BELOW, LOST, ORPHAN, UNREAD, report, tally
from tests.runs.test_owner_totals import FINDINGS, ROWS
from tests.tables.rows import pack

DAY = 24 * 60 * 60 * 1000
MAY_3 = 1_777_766_400_000  # 2026-05-03, midnight in UTC
HUGE = 2**62 + 1


def ledger(ledger_id: int, created: int | None, scope_id: int = 0, **columns: Any) -> dict[str, Any]:
    row = {"scope_id": scope_id, "ledger_id": ledger_id, "status": "ok", "metadata_ctime": created}
    return row | {"undecidable": False} | columns


def verdict(ledger_id: int, judged: str, scope_id: int = 0) -> dict[str, Any]:
    return {"scope_id": scope_id, "ledger_id": ledger_id, "class": judged, "potential_class": judged}


def test_frame_by_id_has_the_counts_of_the_report(tmp_path: Path) -> None:
    tallies = [
        tally("orphan-ledger", "note", 12, suppressed=4),
        tally("below-ack-quorum", "error", 2, new=1),
        tally("below-ack-quorum", "error", 1, "suspect", worse=1),
        tally("entry-lost", "critical"),
    ]
    frame = made_run(tmp_path, report=report(tallies)).frames.by_id()
    assert list(frame.index) == ["entry-lost", "below-ack-quorum", "orphan-ledger"]
    assert frame.loc["below-ack-quorum"].to_dict() == {
        "urgency": "below-ack-quorum", "severity": "error", "count": 3, "confirmed": 2, "suspect": 1,
        "unknown": 0, "new": 1, "worse": 1,
        "suppressed": 0,
    }  # fmt: skip
    assert frame["severity"].min() == "critical"
    assert frame[frame["severity"] <= "error"]["count"].sum() == 4


def test_findings_frame_has_the_day_first_seen(tmp_path: Path) -> None:
    changes = [
        change_row(LOST, MAY_3, "same", suppressed="known"),
        change_row(replace(BELOW, fingerprint="gone"), MAY_3, "fixed"),
    ]
    run = made_run(tmp_path, [LOST, BELOW, UNREAD, ORPHAN], changes=changes)
    frame = run.frames.findings()
    assert list(frame["id"]) == [LOST.id, BELOW.id, UNREAD.id, ORPHAN.id]
    assert frame.loc[0, ["change", "suppressed"]].to_list() == ["same", "known"]
    assert frame.loc[0, "first_seen"] == pd.Timestamp("2026-05-03", tz="UTC")
    assert frame.loc[1:, "first_seen"].isna().all()
    assert frame["missing"].to_list() == [2002, 1, 0, 0]
    assert frame["bookies"].to_list() == [2, 2, 0, 0]
    # Beside a null, a float would round it.
    assert frame["ledger_id"].to_list() == [9223372036854770002, 7, pd.NA, 36]


def test_findings_frame_is_limited_by_check_severity_and_count(tmp_path: Path) -> None:
    run = made_run(tmp_path, [LOST, BELOW, *(numbered(ORPHAN, number) for number in range(5))])
    frames = run.frames
    assert frames.findings("orphan-ledger", limit=3)["ledger_id"].to_list() == [0, 1, 2]
    assert frames.findings(severity="error")["id"].to_list() == [BELOW.id]
    assert len(frames.findings("orphan-ledger", "critical")) == 0
    assert len(frames.findings(limit=0)) == 0


def test_findings_of_a_bookie_count_its_missing_entries(tmp_path: Path) -> None:
    frames = made_run(tmp_path, [LOST, BELOW, UNREAD, ORPHAN, HOSTILE]).frames
    frame = frames.findings_of("bk-a:3181")
    assert frame[["id", "missing"]].to_numpy().tolist() == [[LOST.id, 1995], [BELOW.id, 1]]
    assert frames.findings_of("bk-c:3181")["missing"].to_list() == [0, 0]
    assert len(frames.findings_of("bk-a:3181", limit=1)) == 1
    assert frames.findings_of(BOOKIE)["ledger_id"].to_list() == [-7]
    assert len(frames.findings_of("nobody")) == 0


def test_findings_are_counted_by_day_first_seen(tmp_path: Path) -> None:
    changes = [
        change_row(LOST, MAY_3),
        change_row(LOST, MAY_3 + DAY - 1),
        change_row(ORPHAN, MAY_3 + DAY, "new"),
        change_row(BELOW, MAY_3, "fixed"),
        change_row(BELOW, MAY_3, "unseen"),
    ]
    frame = made_run(tmp_path, changes=changes).frames.by_day()
    assert [str(day.date()) for day in frame.index] == ["2026-05-03", "2026-05-04"]
    assert frame["critical"].to_list() == [2, 0]
    assert frame["note"].to_list() == [0, 1]
    assert frame["error"].sum() == 0


def test_ledgers_are_counted_by_the_day_of_their_creation_and_by_class(tmp_path: Path) -> None:
    ledgers = [
        ledger(1, MAY_3), ledger(2, MAY_3 + 5), ledger(1, MAY_3 + DAY, scope_id=1), ledger(HUGE, MAY_3 + DAY),
        ledger(4, None, ctime=MAY_3), ledger(5, 0, ctime=None), ledger(6, HUGE), ledger(7, -HUGE),
        ledger(8, MAY_3, status="gap"),
    ]  # fmt: skip
    verdicts = [
        verdict(1, "healthy"), verdict(2, "entry-lost"), verdict(1, "below-ack-quorum", scope_id=1),
        verdict(HUGE, "undecided"), verdict(4, "healthy"), verdict(5, "not-closed"),
    ]  # fmt: skip
    frame = made_run(tmp_path, ledgers=ledgers, verdicts=verdicts).frames.ledgers_by_day()
    assert [None if pd.isna(day) else str(day.date()) for day in frame.index] == [
        "2026-05-03",
        "2026-05-04",
        None,
    ]
    assert frame["healthy"].to_list() == [2, 0, 2]
    assert frame["entry-lost"].to_list() == [1, 0, 0]
    assert frame["below-ack-quorum"].to_list() == [0, 1, 0]
    assert frame["undecided"].to_list() == [0, 1, 0]
    assert frame["not-closed"].to_list() == [0, 0, 1]


def test_stripes_frame_has_bookies_as_rows_and_entries_as_columns(tmp_path: Path) -> None:
    frame = striped(tmp_path).frames.stripes(42)
    assert list(frame.index) == ["bk-a", "bk-b"]
    assert (frame.index.name, frame.columns.name) == ("bookie_id", "first_entry")
    assert frame.loc["bk-b"].to_list() == ["held", "missing", "held"]
    assert frame.loc["bk-a"].to_list() == ["held", "held", "held"]


def test_stripes_have_no_more_columns_than_asked_for(tmp_path: Path) -> None:
    frame = striped(tmp_path).frames.stripes(42, columns=2)
    assert list(frame.columns) == [0, 1]
    assert frame.loc["bk-b"].to_list() == ["held", "some missing"]


def striped(path: Path) -> Run:
    """Return a run with ledger 42: three entries on two bookies. One bookie lost entry 1."""
    whole, holed = pack({0, 1, 2}), pack({0, 2})
    replicas = [{"bookie_id": name, "groups": whole, "depends": True} for name in ("bk-a", "bk-b")]
    metadata = ledger(
        42, MAY_3, state="CLOSED", ensemble_size=2, write_quorum=2, ack_quorum=2, last_entry_id=2,
        segments=[{"first_entry_id": 0, "ensemble": ["bk-a", "bk-b"]}], replicas=replicas,
    )  # fmt: skip
    return made_run(
        path,
        ledgers=[metadata],
        availability=[
            {
                "scope_id": 0,
                "ledger_id": 42,
                "bookie_id": name,
                "groups": groups,
                "state": "ok",
                "storage": "idx",
            }
            for name, groups in (("bk-a", whole), ("bk-b", holed))
        ],
        bookies=[{"bookie_id": name, "read": "read", "foreign_instance": False} for name in ("bk-a", "bk-b")],
    )


def test_bookies_frame_has_counts_and_availability(tmp_path: Path) -> None:
    run = made_run(
        tmp_path,
        bookies=[
            {"bookie_id": name, "read": "read", "named": True, "replicas": replicas}
            for name, replicas in (("bk-a", 4), ("bk-b", 4), ("bk-c", 0))
        ],
        judged=[{"missing": [{"bookie_id": "bk-b", "count": 9}]}],
    )
    frame = run.frames.bookies()
    assert list(frame.index) == ["bk-b", "bk-a", "bk-c"]
    assert frame.loc["bk-b", ["missing", "missing_entries", "availability"]].to_list() == [1, 9, 0.75]
    assert frame["availability"].isna().to_list() == [False, False, True]


def test_space_frame_sums_bytes_by_class(tmp_path: Path) -> None:
    rows = [
        {"bookie_id": "bk-a", "scope_id": 0, "ledger_id": 7, "class": "live", "bytes": 5},
        {"bookie_id": "bk-b", "scope_id": 0, "ledger_id": 7, "class": "orphan", "bytes": 9},
        {"bookie_id": "bk-a", "scope_id": 0, "ledger_id": 8, "class": "orphan", "bytes": 1},
    ]
    run = made_run(tmp_path, space=rows)
    frame = run.frames.space()
    assert frame["bytes"].to_dict() == {"bk-b": 9, "bk-a": 6}
    assert frame.loc["bk-a", ["live", "orphan", "surplus"]].to_list() == [5, 1, 0]
    assert run.frames.space("ledger", 1)["bytes"].to_dict() == {"7": 14}


def test_disks_frame_has_sizes_beside_entry_logs_and_the_fullest_disk(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"bookie_id": "bk-a", "journal_bytes": 7, "device": 1, "capacity_bytes": 100, "free_bytes": 50},
        {"bookie_id": "bk-a", "rocksdb_bytes": 9, "device": 2, "capacity_bytes": 100, "free_bytes": 10},
        {"bookie_id": "bk-b", "reason": "No such file or directory"},
    ]
    frame = made_run(tmp_path, disks=rows).frames.disks()
    sizes = {"journals": 7, "indexes": 0, "rocksdb": 9, "other": 0}
    assert frame.loc["bk-a"].to_dict() == {**sizes, "capacity": 100, "free": 10, "unread": 0}
    assert frame["free"].isna().to_list() == [False, True]
    assert frame["unread"].to_list() == [0, 1]


def test_owners_and_leaks_frames_match_the_tables(tmp_path: Path) -> None:
    evidence = {
        "claim": "/managed-ledgers/a/x/persistent/gone",
        "made": MAY_3,
        "state": "CLOSED",
        "length": 7,
    }
    leak = Finding("ledger-unowned", Severity.NOTE, Confidence.CONFIRMED, 0, 2**60, evidence=evidence)
    run = made_run(tmp_path, [*FINDINGS, leak], ownership=ROWS)
    frame = run.frames.owners("tenant")
    assert frame.index.to_list() == ["b", "a", "", "c"]
    assert frame.loc["a", ["ledgers", "bytes", "entries", "dangling", "note"]].to_list() == [2, 150, 10, 1, 2]
    assert frame.loc["", ["unowned", "leaked_bytes", "leaked_entries"]].to_list() == [1, 7, 3]
    assert run.frames.owners("topic", 1).index.to_list() == ["b/y/one"]
    leaks = run.frames.leaks()
    assert leaks.index.to_list() == [2**60]
    assert leaks.loc[2**60, "owner"] == "topic a/x/gone"
    assert leaks.loc[2**60, "bytes"] == 7
    assert leaks.loc[2**60, "entries"] is pd.NA
    assert leaks["made"].to_list() == [pd.Timestamp(MAY_3, unit="ms", tz="UTC")]
    assert [row.ledger_id for row in run.leaks] == [2**60]
    assert run.leaks.totals().bytes == 7
    assert [row.name for row in run.namespaces() or []] == ["b/y", "a/x", "", "c/z"]


def test_history_frame_has_sibling_runs_of_the_same_cluster(tmp_path: Path) -> None:
    begun = report([tally("entry-lost", "critical", 2)], changes=None)
    begun = replace(begun, run=replace(begun.run, finished=MAY_3))
    other_report = replace(report(), cluster=replace(report().cluster, instance_id="another"))
    made_run(tmp_path / "begun", report=begun)
    made_run(tmp_path / "other", report=other_report)
    run = made_run(tmp_path / "now", report=report([tally("orphan-ledger", "note", 3)]))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "report.json").write_text("{")
    frame = run.frames.history()
    assert frame["run"].to_list() == ["begun", "now"]
    assert frame.index[0] == pd.Timestamp("2026-05-03", tz="UTC")
    assert frame["critical"].to_list() == [2, 0]
    assert frame["new"].to_list() == [pd.NA, 1]
    assert run.frames.history(1)["run"].to_list() == ["now"]


def test_empty_run_gives_empty_frames_of_the_same_dtypes(tmp_path: Path) -> None:
    empty = made_run(tmp_path / "empty", report=report([], ()))
    full = made_run(
        tmp_path / "full",
        [LOST, Finding("ledger-unowned", Severity.NOTE, Confidence.CONFIRMED, 0, 5)],
        changes=[change_row(LOST, MAY_3)],
        ownership=ROWS,
        ledgers=[ledger(1, MAY_3)],
        bookies=[{"bookie_id": "bk-a", "read": "read", "named": True}],
    )
    for name in ("by_id", "by_day", "ledgers_by_day", "findings", "bookies", "owners", "leaks"):
        empty_frame, full_frame = (getattr(run.frames, name)() for run in (empty, full))
        assert len(empty_frame) == 0
        assert len(full_frame) > 0
        assert list(empty_frame.dtypes.items()) == list(full_frame.dtypes.items()), name
        assert (empty_frame.index.name, empty_frame.index.dtype) == (
            full_frame.index.name,
            full_frame.index.dtype,
        ), name


def test_hostile_text_is_kept_in_frames_and_escaped_in_html(tmp_path: Path) -> None:
    frame = made_run(tmp_path, [HOSTILE]).frames.findings()
    assert frame.loc[0, "bookie_id"] == BOOKIE
    assert "<script" not in frame._repr_html_()


def test_a_large_run_gives_small_frames(tmp_path: Path) -> None:
    """The run has 300,000 ledgers on as many days, and as many findings. Python reads none singly."""
    count = 300_000
    run = made_run(tmp_path)
    numbers = np.arange(count)
    created = pa.array(numbers * DAY + 1)
    zeros = pa.array(np.zeros(count, np.int64))
    fill(tmp_path / "tables/ledgers", scope_id=zeros, ledger_id=pa.array(numbers), metadata_ctime=created,
         status=pa.repeat("ok", count))  # fmt: skip
    fill(tmp_path / "tables/verdicts", scope_id=zeros, ledger_id=pa.array(numbers),
         **{"class": pa.repeat("entry-lost", count)})  # fmt: skip
    days = run.frames.ledgers_by_day()
    assert days["entry-lost"].sum() == count
    # No calendar of pandas reaches the rest.
    assert days["entry-lost"].iloc[-1] == count - (len(days) - 1)
    assert days.index[-2].year == 2262

    fill(tmp_path / "findings", ledger_id=pa.array(numbers), id=pa.repeat("entry-lost", count),
         severity=pa.repeat("critical", count), confidence=pa.repeat("confirmed", count),
         bookie_id=pa.repeat("bk-a", count), fingerprint=pa.array(numbers.astype(str)),
         missing=pa.array([[]] * count), unknown=pa.array([[]] * count))  # fmt: skip
    assert len(run.frames.findings()) == 1_000
    assert len(run.frames.findings_of("bk-a")) == 1_000
    fill(tmp_path / "tables/changes", first_seen=created, severity=pa.repeat("note", count),
         change=pa.repeat("same", count))  # fmt: skip
    assert len(run.frames.by_day()) == len(days)


def fill(directory: Path, **columns: pa.Array) -> None:
    """Append rows to a table, given by column. Columns that are not given are null."""
    [part] = directory.glob("*.parquet")
    schema = pq.read_schema(part)
    count = len(next(iter(columns.values())))
    arrays = [columns.get(name, pa.nulls(count)).cast(schema.field(name).type) for name in schema.names]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), directory / "part-00001.parquet")
