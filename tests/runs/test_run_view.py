"""Tests of the inputs for explaining a run, read from its directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.errors import RunError
from auditor.model.finding import Severity
from auditor.model.views import UnreadBookie
from auditor.notebook.run import open_run
from auditor.runs.load_bookie import MAX_SHOWN_UNREAD_BOOKIES, run_view
from tests.reports.samples import report

BOOKIE = {
    "bookie_id": "bk-a:3181",
    "named": True,
    "found": True,
    "read": "read",
    "reason": None,
    "replicas": 5,
}
KINDS = {"named": pa.bool_(), "found": pa.bool_(), "replicas": pa.int64()}


def write(below: Path, rows: list[dict[str, Any]], columns: list[str]) -> None:
    below.mkdir(parents=True)
    schema = pa.schema([(name, KINDS.get(name, pa.string())) for name in columns])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), below / "part-0.parquet")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    unread = [
        BOOKIE | {"bookie_id": f"bk-{n:03}:3181", "read": "unread", "reason": "gone", "replicas": n % 50}
        for n in range(100)
    ]
    elsewhere = BOOKIE | {"bookie_id": "x", "named": False, "found": False, "read": "unread", "replicas": 99}
    write(tmp_path / "tables" / "bookies", [BOOKIE, elsewhere, *unread], list(BOOKIE))
    write(tmp_path / "tables" / "directories", [{"path": "/a"}, {"path": "/b"}], ["path"])
    (tmp_path / "report.json").write_text(report().to_json())
    (tmp_path / "manifest.json").write_text(json.dumps({"identity": {"options": {"fail_on": "warning"}}}))
    return tmp_path


def test_unread_bookies_with_the_most_replicas_are_listed(out: Path) -> None:
    view = run_view(open_run(out))
    assert len(view.unread_bookies) == MAX_SHOWN_UNREAD_BOOKIES
    assert view.unread_bookies[:3] == (
        UnreadBookie("bk-049:3181", "unread", "gone", 49),
        UnreadBookie("bk-099:3181", "unread", "gone", 49),
        UnreadBookie("bk-048:3181", "unread", "gone", 48),
    )
    assert (view.directories, view.fail_on) == (2, Severity.WARNING)
    # A run of a version that had no such option.
    assert not view.fail_on_suspect
    assert view.statuses == {}


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"identity": {"options": {"fail_on": "x"}}}'])
def test_run_without_a_valid_manifest_is_refused(out: Path, manifest: str | None) -> None:
    (out / "manifest.json").unlink()
    if manifest is not None:
        (out / "manifest.json").write_text(manifest)
    with pytest.raises(RunError, match=r"manifest\.json is damaged \(.*\): restore a complete copy of it"):
        run_view(open_run(out))
