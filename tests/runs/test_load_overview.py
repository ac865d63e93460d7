"""What explaining a run needs, read from its directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.errors import RunError
from auditor.model.finding import Severity
from auditor.model.run_view import UnreadBookie
from auditor.notebook.run import open_run
from auditor.reports import json as whole
from auditor.runs.load_overview import UNREAD_SHOWN, run_view
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


FACTS = ["fact", "value", "path", "damage"]


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
    write(tmp_path / "tables" / "marks", [{"kind": "mark"}], ["kind"])
    write(tmp_path / "tables" / "cluster", [{"fact": "layout", "value": "flat"}], FACTS)
    (tmp_path / "report.json").write_text(whole.render(report()))
    (tmp_path / "manifest.json").write_text(json.dumps({"identity": {"options": {"fail_on": "warning"}}}))
    return tmp_path


def test_the_most_needed_of_the_unread_bookies_are_named(out: Path) -> None:
    view = run_view(open_run(out))
    assert len(view.unread) == UNREAD_SHOWN
    assert view.unread[:3] == (
        UnreadBookie("bk-049:3181", "unread", "gone", 49),
        UnreadBookie("bk-099:3181", "unread", "gone", 49),
        UnreadBookie("bk-048:3181", "unread", "gone", 48),
    )
    assert (view.directories, view.marks_listed, view.fail_on) == (2, True, Severity.WARNING)
    # A run of a version that had no such options.
    assert (view.fail_on_suspect, view.witness) == (False, False)
    assert view.standings == {}


@pytest.mark.parametrize(("live", "option"), [(True, "yes"), (True, "no"), (False, "yes")])
def test_bookies_of_a_live_store_could_be_asked_where_the_options_let_them(
    live: bool, option: str, out: Path
) -> None:
    said = report()
    (out / "report.json").write_text(whole.render(replace(said, run=replace(said.run, live=live))))
    options = {"fail_on": "warning", "witness": option}
    (out / "manifest.json").write_text(json.dumps({"identity": {"options": options}}))
    assert run_view(open_run(out)).witness is (live and option == "yes")


def test_a_gap_among_the_marks_is_known(out: Path) -> None:
    pq.write_table(pa.table({"kind": ["mark", "gap"]}), out / "tables" / "marks" / "part-0.parquet")
    assert not run_view(open_run(out)).marks_listed


def test_bookies_that_could_not_be_listed_are_known_with_the_reason(out: Path) -> None:
    view = run_view(open_run(out))
    assert (view.bookies_hidden, view.unclear_bookies) == (None, ())
    one = {"fact": "unlisted-bookies", "value": "bk-a:3181", "path": "/ledgers/available/bk-a:3181"}
    anyone = {"fact": "unlisted-bookies", "path": "/ledgers/cookies", "damage": "no right to read it"}
    (out / "tables" / "cluster" / "part-0.parquet").unlink()
    (out / "tables" / "cluster").rmdir()
    write(out / "tables" / "cluster", [one, anyone], FACTS)
    view = run_view(open_run(out))
    assert view.bookies_hidden == "/ledgers/cookies: no right to read it"
    assert view.unclear_bookies == ("bk-a:3181",)


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"identity": {"options": {"fail_on": "x"}}}'])
def test_a_run_without_its_manifest_is_no_whole_run(out: Path, manifest: str | None) -> None:
    (out / "manifest.json").unlink()
    if manifest is not None:
        (out / "manifest.json").write_text(manifest)
    with pytest.raises(RunError, match=r"manifest\.json: "):
        run_view(open_run(out))
