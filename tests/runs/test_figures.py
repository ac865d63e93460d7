"""Tests of the figures of a run with handwritten tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.errors import RunError
from auditor.model.report_source import BookieFigure, Figures
from auditor.notebook.run import open_run
from auditor.runs import figures
from auditor.runs.figures import figures_of
from auditor.tables.run_tables import TABLES
from tests.reports.samples import report

Rows = list[dict[str, Any]]

SCAN_TIME = report().run.scan_time
DAY = 24 * 60 * 60 * 1000


def pair(bookie_id: str, count: int) -> dict[str, Any]:
    return {"bookie_id": bookie_id, "count": count}


def bookie(bookie_id: str, replicas: int, read: str = "read", is_named: bool = True) -> dict[str, Any]:
    return {"bookie_id": bookie_id, "replicas": replicas, "read": read, "named": is_named, "found": False}


def ledger(length: int | None = 100, age: int = DAY, state: str | None = "CLOSED", **fields: Any) -> Any:
    sizes = {"ensemble_size": 3, "write_quorum": 2, "ack_quorum": 2} if state else {}
    return {"status": "ok", "state": state, "length": length, "ctime": SCAN_TIME - age, **sizes, **fields}


def write_tables(run: Path, tables: dict[str, Rows], names: Iterable[str]) -> None:
    """Write the tables of a run in files of one row, so that every count spans several batches."""
    for name in names:
        (run / "tables" / name).mkdir(parents=True)
        for number, rows in enumerate([[], *([row] for row in tables.get(name, []))]):
            table = pa.Table.from_pylist(rows, schema=TABLES[name].columns)
            pq.write_table(table, run / "tables" / name / f"part-{number:05}.parquet")


def figures_from(tmp_path: Path, **tables: Rows) -> Figures:
    (tmp_path / "report.json").write_text(report().to_json())
    write_tables(tmp_path, tables, ("judged", "bookies", "holdings", "ledgers", "verdicts"))
    return figures_of(open_run(tmp_path))


def bars(run_figures: Figures, title: str) -> dict[str, int]:
    [histogram] = [chart for chart in run_figures.histograms if chart.title == title]
    return {bar.label: bar.count for bar in histogram.bars}


def test_bookie_counts_its_missing_unknown_and_surplus_entries(tmp_path: Path) -> None:
    run_figures = figures_from(
        tmp_path,
        bookies=[bookie("bk-a", 10), bookie("bk-b", 5, "unread"), bookie("bk-c", 0, is_named=False)],
        judged=[
            {"missing": [pair("bk-a", 3)], "unknown": [pair("bk-b", 7)], "stale": [pair("bk-a", 2)]},
            {"missing": [pair("bk-a", 4), pair("bk-b", 1)], "surplus": [pair("bk-b", 6)]},
        ],
        holdings=[{"bookie_id": "bk-b", "ledgers": 9, "orphans": 8}],
    )
    a, b = run_figures.bookies
    assert a == BookieFigure("bk-a", replicas=10, missing=2, missing_entries=7, surplus=1, surplus_entries=2)
    assert (b.missing, b.missing_entries, b.unknown, b.surplus_entries, b.orphans) == (1, 1, 1, 6, 8)
    assert run_figures.bookies_total == 2  # the third is named by a cookie only


def test_ledger_with_two_kinds_of_surplus_counts_once_per_bookie(tmp_path: Path) -> None:
    run_figures = figures_from(
        tmp_path,
        bookies=[bookie("bk-a", 1)],
        judged=[{"stale": [pair("bk-a", 2)], "surplus": [pair("bk-a", 3)], "foreign": []}],
    )
    [a] = run_figures.bookies
    assert (a.surplus, a.surplus_entries) == (1, 5)


def test_entries_past_the_end_count_as_surplus(tmp_path: Path) -> None:
    judged = [
        {"past_end": [pair("bk-a", 4)], "surplus": [pair("bk-a", 1)]},
        {"past_end": [pair("bk-a", 2)], "foreign": []},
    ]
    run_figures = figures_from(tmp_path, bookies=[bookie("bk-a", 1)], judged=judged)
    [a] = run_figures.bookies
    assert (a.surplus, a.surplus_entries) == (2, 7)


def test_worst_bookies_come_first_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "MAX_BOOKIES", 2)
    judged: Rows = [{"missing": [pair("bk-c", 1)], "unknown": [pair("bk-b", 1)]}]
    run_figures = figures_from(tmp_path, bookies=[bookie(f"bk-{name}", 1) for name in "abc"], judged=judged)
    assert [figure.bookie_id for figure in run_figures.bookies] == ["bk-c", "bk-b"]
    assert run_figures.bookies_total == 3
    assert bars(run_figures, "Bookies by availability") == {
        "100 %": 1,
        **dict.fromkeys(("99.9 to 100 %", "99 to 99.9 %", "90 to 99 %", "50 to 90 %"), 0),
        "under 50 %": 2,
    }


def test_sizes_are_those_of_closed_ledgers(tmp_path: Path) -> None:
    lengths = [0, 1, 999, 1000, 10**12]
    rows = [ledger(length) for length in lengths]
    rows += [ledger(0, state="OPEN"), ledger(None, state=None, status="unreadable")]
    counts = bars(figures_from(tmp_path, ledgers=rows), "Ledgers by size")
    assert {label: count for label, count in counts.items() if count} == {
        "no bytes": 1,
        "under 1 kB": 2,
        "1 to 50 kB": 1,
        "50 GB or more": 1,
        "not closed": 1,
        "unreadable": 1,
    }


def test_ages_use_the_metadata_time_or_else_that_of_the_store(tmp_path: Path) -> None:
    rows = [
        ledger(age=DAY // 2),
        ledger(metadata_ctime=SCAN_TIME - 2 * DAY),
        ledger(metadata_ctime=-1, age=10 * DAY),
        ledger() | {"ctime": None},
        ledger(status="gap"),
    ]
    counts = bars(figures_from(tmp_path, ledgers=rows), "Ledgers by age")
    assert counts == {"under a day": 1, "1 to 7 days": 1, "7 to 30 days": 1, "unknown": 1}


def test_quorums_beyond_the_limit_are_counted_as_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MAX_LABELS", 2)
    monkeypatch.setattr(figures, "_MAX_QUORUM_LABELS", 3)
    rows = [ledger(), ledger(), *(ledger(ensemble_size=size) for size in range(4, 9))]
    counts = bars(figures_from(tmp_path, ledgers=rows), "Ledgers by quorum")
    assert counts == {"3 / 2 / 2": 2, "4 / 2 / 2": 1, "others": 4}


def test_class_histogram_names_the_potential_class(tmp_path: Path) -> None:
    rows: Rows = [
        {"class": "healthy", "potential_class": "healthy"},
        {"class": "healthy", "potential_class": "entry-lost"},
        {"class": "healthy", "potential_class": "healthy"},
    ]
    counts = bars(figures_from(tmp_path, verdicts=rows), "Ledgers by class")
    assert counts == {"healthy": 2, "healthy, could be entry-lost": 1}


def test_run_without_a_table_names_it(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(report().to_json())
    with pytest.raises(RunError, match="tables/judged"):
        figures_of(open_run(tmp_path))
