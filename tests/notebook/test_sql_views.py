"""A run as SQL views."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.errors import UsageError
from auditor.notebook.sql_views import views
from auditor.tables.run_tables import TABLES
from tests.made_runs import change_row, made_run
from tests.reports.hostile import BOOKIE, HOSTILE
from tests.reports.samples import LOST, ORPHAN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAY_3 = 1_777_766_400_000  # 2026-05-03, midnight in UTC


def test_every_table_is_a_view_with_commented_columns(tmp_path: Path, spark: SparkSession) -> None:
    created_views = made_run(tmp_path).views(spark)
    assert created_views == views()
    assert {*TABLES, "findings"} < set(created_views)
    for view in created_views:
        columns = spark.sql(f"DESCRIBE {view}").collect()
        assert columns, view
        assert all(column["comment"] for column in columns), view


def test_two_runs_are_open_at_once_by_prefix(tmp_path: Path, spark: SparkSession) -> None:
    made_run(tmp_path / "old", [LOST, ORPHAN]).views(spark, "old_")
    created_views = made_run(tmp_path / "new", [ORPHAN], changes=[change_row(ORPHAN, MAY_3)]).views(
        spark, "new_"
    )
    assert "new_findings_since" in created_views
    fixed = spark.sql("SELECT o.id FROM old_findings o LEFT ANTI JOIN new_findings n USING (fingerprint, id)")
    assert [row["id"] for row in fixed.collect()] == [LOST.id]
    [same_row] = spark.sql("SELECT * FROM new_findings_since").collect()
    assert (same_row["first_seen"], same_row["change"]) == (datetime(2026, 5, 3), "same")


def test_ledger_classes_and_missing_views_have_expected_rows(tmp_path: Path, spark: SparkSession) -> None:
    key = {"scope_id": 0, "ledger_id": 42}
    replicas = [{"bookie_id": name, "groups": b"", "depends": True} for name in ("bk-a", "bk-b")]
    made_run(
        tmp_path,
        ledgers=[
            key | {"status": "ok", "ctime": MAY_3, "mtime": 2**62, "replicas": replicas},
            key | {"status": "misplaced", "ctime": MAY_3},
        ],
        verdicts=[key | {"class": "entry-lost"}],
        judged=[
            key | {"m": 2, "missing": [{"bookie_id": "bk-a", "count": 3}, {"bookie_id": "bk-b", "count": 1}]}
        ],
    ).views(spark, "one_")
    [ledger] = spark.sql("SELECT * FROM one_ledger_classes").collect()
    assert (ledger["class"], ledger["created"]) == ("entry-lost", datetime(2026, 5, 3))
    assert ledger["changed"] is None  # no calendar reaches it
    assert ledger["bookies"] == ["bk-a", "bk-b"]
    missing = spark.sql("SELECT bookie_id, entries, copies FROM one_missing ORDER BY entries DESC").collect()
    assert [tuple(row) for row in missing] == [("bk-a", 3, 2), ("bk-b", 1, 2)]


def test_hostile_text_is_a_plain_value_in_views(tmp_path: Path, spark: SparkSession) -> None:
    made_run(tmp_path, [HOSTILE]).views(spark, "hostile_")
    [row] = spark.sql("SELECT bookie_id, entries FROM hostile_findings_since").collect()
    assert (row["bookie_id"], row["entries"]) == (BOOKIE, 1)


def test_run_has_views_only_of_its_written_tables(tmp_path: Path, spark: SparkSession) -> None:
    run = made_run(tmp_path)
    for part in (tmp_path / "tables" / "judged").iterdir():
        part.unlink()
    (tmp_path / "tables" / "judged").rmdir()
    (tmp_path / "tables" / "of_a_later_version").mkdir()
    assert set(run.views(spark)) == set(views()) - {"judged", "missing"}


@pytest.mark.parametrize("prefix", ["a b", "1st_", "x; DROP", "`", "a.", "é_"])
def test_invalid_view_prefix_is_refused(tmp_path: Path, spark: SparkSession, prefix: str) -> None:
    with pytest.raises(UsageError, match="prefix"):
        made_run(tmp_path).views(spark, prefix)
