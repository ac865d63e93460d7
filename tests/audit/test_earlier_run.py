"""The choice of an earlier run and of its reusable data, from the facts that it recorded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.audit.earlier_run import (
    EarlierRun,
    ReusePlan,
    check_since,
    find_earlier_run,
    save_file_sizes,
    save_index_facts,
    save_ledger_facts,
)
from auditor.audit.run_store import RunStore
from auditor.errors import RunError, UsageError
from auditor.model.report import Cluster, Report
from auditor.runs.directory import RunDirectory
from auditor.sources.bookies.availability import SCHEMA
from auditor.sources.bookies.earlier_rows import EarlierTable
from auditor.sources.bookies.owners import AttributedBookie
from auditor.sources.bookies.parts import IndexDirectory, plan_parts
from auditor.sources.metadata.ledger_rows import LEDGERS
from auditor.sources.metadata.store import History
from tests.made_runs import write
from tests.reports.samples import coverage, report

A, B = "bk-a:3181", "bk-b:3181"
CLUSTER = report().cluster
WHOLE = report([], (), coverage(True), suppressions=[], impact=[])


def bookie(name: str, index_time: int | None = 1_000, version: bytes = b"5\n") -> AttributedBookie:
    directory = IndexDirectory.from_version(f"/mnt/{name}/ledgers0", version)
    return AttributedBookie(name, (directory,), "read", None, index_time, False, False, True)


BOOKIES = {A: bookie(A), B: bookie(B)}


def run_store(path: Path) -> RunStore:
    return RunStore(RunDirectory(str(path)))


def make_run(path: Path, made_report: Report = WHOLE) -> Path:
    """Return a finished run with a file of rows for each of two bookies."""
    path.mkdir(parents=True)
    save_index_facts(run_store(path), BOOKIES)
    for number, name in enumerate((A, B)):
        write(path / "tables/availability", [{"bookie_id": name, "state": "ok"}], SCHEMA, number)
    save_file_sizes(run_store(path))
    (path / "report.json").write_text(made_report.to_json())
    return path


def find_since(path: Path, cluster: Cluster = CLUSTER) -> EarlierRun:
    return find_earlier_run(str(path), run_store(path.parent / "new"), cluster)


def index_plan(run: EarlierRun, bookies: dict[str, AttributedBookie] = BOOKIES) -> ReusePlan:
    parts = plan_parts([(name, attributed.index_directories) for name, attributed in bookies.items()], 1)
    return run.plan(parts, bookies)


def old_tables(run: EarlierRun, bookies: dict[str, AttributedBookie] = BOOKIES) -> dict[str, EarlierTable]:
    """Return the earlier rows of each bookie with reusable parts."""
    return {part.index_part.bookie_id: part.earlier_table for part in index_plan(run, bookies).reusable_parts}


def test_reuse_plan_gives_each_bookie_the_files_with_its_rows(tmp_path: Path) -> None:
    earlier_run = find_since(make_run(tmp_path / "1"))
    tables = old_tables(earlier_run)
    assert {name: earlier.files for name, earlier in tables.items()} == {
        A: ("part-00000.parquet",),
        B: ("part-00001.parquet",),
    }
    assert {earlier.table for earlier in tables.values()} == {f"{tmp_path}/1/tables/availability"}
    assert (earlier_run.name, earlier_run.notes, index_plan(earlier_run).notes) == ("1", (), ())


@pytest.mark.parametrize(
    ("changed_bookie", "why"),
    [
        (bookie(A, version=b"another"), "the bookie's index directories or their VERSION files changed"),
        (bookie(A, index_time=999), "the bookie's index is older than in that run: a disk was restored"),
        (bookie(A, index_time=None), "the bookie's index is older than in that run: a disk was restored"),
    ],
)
def test_bookie_with_changed_or_restored_disks_is_read_again(
    tmp_path: Path, changed_bookie: AttributedBookie, why: str
) -> None:
    earlier_run = find_since(make_run(tmp_path / "1"))
    bookies = {A: changed_bookie, B: bookie(B, index_time=2_000)}
    plan = index_plan(earlier_run, bookies)
    assert {part.bookie_id for part in plan.parts} == {A}
    assert old_tables(earlier_run, bookies).keys() == {B}
    assert plan.notes == (f"{A} was read again: {why}",)


def test_bookie_that_the_earlier_run_did_not_read_is_read(tmp_path: Path) -> None:
    earlier_run = find_since(make_run(tmp_path / "1"))
    new = {name: bookie(name) for name in (A, *(f"bk-{number}:3181" for number in range(7)))}
    assert old_tables(earlier_run, new).keys() == {A}
    notes = index_plan(earlier_run, new).notes
    assert notes[0] == "bk-0:3181 was read again: that run did not read this bookie"
    assert notes[-1] == "2 more bookies were read again for similar reasons"


def edit_manifest(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    change(manifest["reusable"])
    (run / "manifest.json").write_text(json.dumps(manifest))


def lost_file(run: Path) -> None:
    (run / "tables/availability/part-00001.parquet").unlink()


def cut_file(run: Path) -> None:
    file = run / "tables/availability/part-00001.parquet"
    os.truncate(file, file.stat().st_size - 1)


def one_more_file(run: Path) -> None:
    write(run / "tables/availability", [], SCHEMA, 7)


def no_parquet(run: Path) -> None:
    file = run / "tables/availability/part-00001.parquet"
    file.write_bytes(bytes(file.stat().st_size))


def no_tables(run: Path) -> None:
    for file in (run / "tables/availability").iterdir():
        file.unlink()
    (run / "tables/availability").rmdir()


def another_version(run: Path) -> None:
    edit_manifest(run, lambda noted: noted.update(version="0.0.1"))


def other_columns(run: Path) -> None:
    edit_manifest(run, lambda noted: noted.update(schemas="0"))


def no_bookies(run: Path) -> None:
    edit_manifest(run, lambda noted: noted["availability"].pop("bookies"))


def a_list_of_bookies(run: Path) -> None:
    edit_manifest(run, lambda noted: noted["availability"].update(bookies=[]))


def no_json(run: Path) -> None:
    (run / "manifest.json").write_text("{")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lost_file, "its files changed after the run wrote them"),
        (cut_file, "its files changed after the run wrote them"),
        (one_more_file, "its files changed after the run wrote them"),
        (no_parquet, "part-00001.parquet: "),
        (no_tables, "tables/availability: "),
        (another_version, "another version of this program wrote it"),
        (other_columns, "another version of this program wrote it"),
        (no_bookies, "the manifest of that run does not say what the run read: KeyError"),
        (a_list_of_bookies, "the manifest of that run does not say what the run read: AttributeError"),
        (no_json, "the manifest of that run cannot be read: "),
    ],
)
def test_damaged_or_incompatible_run_is_not_reused_and_a_note_says_why(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(make_run(tmp_path / "1"))
    earlier_run = find_since(tmp_path / "1")
    assert not old_tables(earlier_run)
    notes = index_plan(earlier_run).notes
    (note,) = (*earlier_run.notes, *notes)
    assert note.startswith(("nothing was reused from run 1: ", "no index was reused from run 1: "))
    assert why in note
    reused = earlier_run.report_reuse({"reused": 0, "read": 2}, {"reused": 0, "read": 5}, notes)
    assert reused is not None
    assert reused["notes"] == [note]


def test_a_run_of_another_cluster_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "1")
    with pytest.raises(UsageError, match="that is a run of another cluster, 6c1a2a5e"):
        find_since(tmp_path / "1", replace(CLUSTER, instance_id="another"))


def test_since_refuses_a_directory_without_a_finished_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"contains no finished run \(no report\.json\)"):
        check_since(str(tmp_path))
    check_since("last")
    check_since(None)


def test_last_is_the_newest_sibling_run_of_the_cluster_with_whole_tables(tmp_path: Path) -> None:
    def end_at(finished: int, base: Report = WHOLE, instance_id: str | None = CLUSTER.instance_id) -> Report:
        run = replace(base.run, finished=finished)
        return replace(base, run=run, cluster=replace(base.cluster, instance_id=instance_id))

    make_run(tmp_path / "runs/1", end_at(1))
    make_run(tmp_path / "runs/2", end_at(2))
    make_run(tmp_path / "runs/3-incomplete", end_at(3, report([], (), coverage(False))))
    broken = make_run(tmp_path / "runs/3-torn", end_at(3))
    next((broken / "tables/availability").iterdir()).unlink()
    make_run(tmp_path / "runs/3-without", end_at(3))
    (tmp_path / "runs/3-without/manifest.json").write_text("[]")
    make_run(tmp_path / "runs/4-another", end_at(4, instance_id="another"))
    (tmp_path / "runs/5-at-work").mkdir()
    new = run_store(tmp_path / "runs/new")
    assert find_earlier_run("last", new, CLUSTER).path == str(tmp_path / "runs/3-incomplete")
    make_run(tmp_path / "runs/6", end_at(6))
    assert find_earlier_run("last", new, CLUSTER).path == str(tmp_path / "runs/3-incomplete"), (
        "a resumed run has chosen"
    )


def test_without_an_earlier_run_all_data_is_read(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    earlier = find_earlier_run("last", run_store(tmp_path / "runs/new"), CLUSTER)
    assert earlier.notes == ("all data was read: the parent directory has no complete run of this cluster",)
    assert earlier.report_reuse({"reused": 0, "read": 2}, {"reused": 0, "read": 5}, ()) is None
    assert not old_tables(earlier)
    assert find_earlier_run(None, run_store(tmp_path / "runs/new"), CLUSTER).notes == ()


ETCD_HISTORY = History(7, 5_000, (200, 203))


def read_from_etcd(path: Path) -> Path:
    """Return a finished run that read two ledgers of a running etcd."""
    run = make_run(path)
    save_ledger_facts(run_store(run), "/bk", ETCD_HISTORY, [])
    rows = [{"path": f"/bk/ledgers/{number}", "status": "ok"} for number in range(2)]
    write(run / "tables/ledgers", rows, LEDGERS)
    save_file_sizes(run_store(run), "ledgers")
    return run


def test_ledgers_of_the_same_etcd_history_are_reusable(tmp_path: Path) -> None:
    earlier_run = find_since(read_from_etcd(tmp_path / "1"))
    for history in (ETCD_HISTORY, History(7, 5_000, (201, 201)), History(7, 9_000, (150, 200))):
        earlier = earlier_run.ledgers("/bk", history)
        assert earlier is not None
        assert (earlier.table, earlier.whole) == (f"{tmp_path}/1/tables/ledgers", True)
        assert earlier.files == (("part-00000.parquet", "/bk/ledgers/0"),)
    assert A in old_tables(earlier_run)
    assert (earlier_run.notes, index_plan(earlier_run).notes) == ((), ())


@pytest.mark.parametrize(
    ("scope", "history", "why"),
    [
        ("/other", ETCD_HISTORY, "that run read another etcd, or another root in this etcd"),
        ("/bk", History(8, 5_000, (200, 203)), "that run read another etcd, or another root in this etcd"),
        ("/bk", History(7, 4_999, (200, 203)), "etcd was restored after that run read it at revision 5000"),
        (
            "/bk",
            History(7, 9_000, (-4_000, 199)),
            "etcd was restored after that run read it at revision 5000",
        ),
    ],
)
def test_other_etcd_history_ends_ledger_reuse(tmp_path: Path, scope: str, history: History, why: str) -> None:
    with pytest.raises(RunError, match=why):
        find_since(read_from_etcd(tmp_path / "1")).ledgers(scope, history)


def lost_ledgers(run: Path) -> None:
    (run / "tables/ledgers/part-00000.parquet").unlink()


def spoil_history(run: Path) -> None:
    edit_manifest(run, lambda noted: noted["ledgers"].update(history=[7, None, [1]]))


def no_etcd(run: Path) -> None:
    edit_manifest(run, lambda noted: noted.pop("ledgers"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lost_ledgers, "its files changed after the run wrote them"),
        (spoil_history, "the manifest of that run does not say when ledgers were read: TypeError"),
        (no_etcd, "the manifest of that run does not say when ledgers were read: TypeError"),
    ],
)
def test_damaged_ledger_rows_are_not_reused_but_indexes_of_the_run_are(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(read_from_etcd(tmp_path / "1"))
    earlier_run = find_since(tmp_path / "1")
    with pytest.raises(RunError, match=why):
        earlier_run.ledgers("/bk", ETCD_HISTORY)
    assert A in old_tables(earlier_run)


def test_absent_or_unusable_earlier_run_gives_no_ledgers(tmp_path: Path) -> None:
    assert EarlierRun(None).ledgers("/bk", ETCD_HISTORY) is None
    another_version(read_from_etcd(tmp_path / "1"))
    assert find_since(tmp_path / "1").ledgers("/bk", ETCD_HISTORY) is None


def test_cut_index_file_prevents_reuse_of_indexes_but_not_of_ledgers(tmp_path: Path) -> None:
    cut_file(read_from_etcd(tmp_path / "1"))
    earlier_run = find_since(tmp_path / "1")
    assert earlier_run.ledgers("/bk", ETCD_HISTORY) is not None
    (note,) = index_plan(earlier_run).notes
    assert note.startswith("no index was reused from run 1: ")


def test_damaged_parquet_footer_does_not_end_the_process(tmp_path: Path) -> None:
    """Arrow ends the process if it reads a column whose type in the footer differs from the schema."""
    earlier_run = find_since(make_run(tmp_path / "1"))
    file = tmp_path / "1/tables/availability/part-00001.parquet"
    content = file.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    refused = 0
    for offset in range(len(content) - 8 - size, len(content) - 8, 3):
        file.write_bytes(content[:offset] + bytes([content[offset] ^ 4]) + content[offset + 1 :])
        refused += any("availability" in note for note in index_plan(earlier_run).notes)
    assert 0 < refused < size
