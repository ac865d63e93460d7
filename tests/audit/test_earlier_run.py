"""Which earlier run is meant, and what of it may be taken: decided from what it noted of itself."""

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


def made(path: Path, made_report: Report = WHOLE) -> Path:
    """A finished run, with a file of rows for each of two bookies."""
    path.mkdir(parents=True)
    save_index_facts(run_store(path), BOOKIES)
    for number, name in enumerate((A, B)):
        write(path / "tables/availability", [{"bookie_id": name, "state": "ok"}], SCHEMA, number)
    save_file_sizes(run_store(path))
    (path / "report.json").write_text(made_report.to_json())
    return path


def since(path: Path, cluster: Cluster = CLUSTER) -> EarlierRun:
    return find_earlier_run(str(path), run_store(path.parent / "new"), cluster)


def index_plan(of: EarlierRun, bookies: dict[str, AttributedBookie] = BOOKIES) -> ReusePlan:
    wanted = plan_parts([(name, each.index_directories) for name, each in bookies.items()], 1)
    return of.plan(wanted, bookies)


def planned(of: EarlierRun, bookies: dict[str, AttributedBookie] = BOOKIES) -> dict[str, EarlierTable]:
    """The earlier rows of each bookie with reusable parts."""
    return {each.index_part.bookie_id: each.earlier_table for each in index_plan(of, bookies).reusable_parts}


def test_each_bookie_is_told_the_files_that_may_have_its_rows(tmp_path: Path) -> None:
    found = since(made(tmp_path / "1"))
    told = planned(found)
    assert {name: earlier.files for name, earlier in told.items()} == {
        A: ("part-00000.parquet",),
        B: ("part-00001.parquet",),
    }
    assert {earlier.table for earlier in told.values()} == {f"{tmp_path}/1/tables/availability"}
    assert (found.name, found.notes, index_plan(found).notes) == ("1", (), ())


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (bookie(A, version=b"another"), "the bookie's index directories or their VERSION files changed"),
        (bookie(A, index_time=999), "the bookie's index is older than in that run: a disk was restored"),
        (bookie(A, index_time=None), "the bookie's index is older than in that run: a disk was restored"),
    ],
)
def test_a_bookie_whose_disks_are_others_is_read_anew(
    tmp_path: Path, now: AttributedBookie, why: str
) -> None:
    found = since(made(tmp_path / "1"))
    bookies = {A: now, B: bookie(B, index_time=2_000)}
    plan = index_plan(found, bookies)
    assert {part.bookie_id for part in plan.parts} == {A}
    assert planned(found, bookies).keys() == {B}
    assert plan.notes == (f"{A} was read again: {why}",)


def test_a_bookie_that_was_not_read_then_is_read(tmp_path: Path) -> None:
    found = since(made(tmp_path / "1"))
    new = {name: bookie(name) for name in (A, *(f"bk-{number}:3181" for number in range(7)))}
    assert planned(found, new).keys() == {A}
    notes = index_plan(found, new).notes
    assert notes[0] == "bk-0:3181 was read again: that run did not read this bookie"
    assert notes[-1] == "2 more bookies were read again for similar reasons"


def spoiled_manifest(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
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
    spoiled_manifest(run, lambda noted: noted.update(version="0.0.1"))


def other_columns(run: Path) -> None:
    spoiled_manifest(run, lambda noted: noted.update(schemas="0"))


def no_bookies(run: Path) -> None:
    spoiled_manifest(run, lambda noted: noted["availability"].pop("bookies"))


def a_list_of_bookies(run: Path) -> None:
    spoiled_manifest(run, lambda noted: noted["availability"].update(bookies=[]))


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
def test_a_run_that_is_not_whole_is_not_used_and_says_why(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(made(tmp_path / "1"))
    found = since(tmp_path / "1")
    assert not planned(found)
    notes = index_plan(found).notes
    (note,) = (*found.notes, *notes)
    assert note.startswith(("nothing was reused from run 1: ", "no index was reused from run 1: "))
    assert why in note
    reused = found.report_reuse({"reused": 0, "read": 2}, {"reused": 0, "read": 5}, notes)
    assert reused is not None
    assert reused["notes"] == [note]


def test_a_run_of_another_cluster_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "1")
    with pytest.raises(UsageError, match="that is a run of another cluster, 6c1a2a5e"):
        since(tmp_path / "1", replace(CLUSTER, instance_id="another"))


def test_what_is_no_finished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"contains no finished run \(no report\.json\)"):
        check_since(str(tmp_path))
    check_since("last")
    check_since(None)


def test_last_is_the_newest_run_of_the_cluster_beside_whose_tables_are_whole(tmp_path: Path) -> None:
    def at(finished: int, of: Report = WHOLE, instance_id: str | None = CLUSTER.instance_id) -> Report:
        run = replace(of.run, finished=finished)
        return replace(of, run=run, cluster=replace(of.cluster, instance_id=instance_id))

    made(tmp_path / "runs/1", at(1))
    made(tmp_path / "runs/2", at(2))
    made(tmp_path / "runs/3-incomplete", at(3, report([], (), coverage(False))))
    broken = made(tmp_path / "runs/3-torn", at(3))
    next((broken / "tables/availability").iterdir()).unlink()
    made(tmp_path / "runs/3-without", at(3))
    (tmp_path / "runs/3-without/manifest.json").write_text("[]")
    made(tmp_path / "runs/4-another", at(4, instance_id="another"))
    (tmp_path / "runs/5-at-work").mkdir()
    new = run_store(tmp_path / "runs/new")
    assert find_earlier_run("last", new, CLUSTER).path == str(tmp_path / "runs/3-incomplete")
    made(tmp_path / "runs/6", at(6))
    assert find_earlier_run("last", new, CLUSTER).path == str(tmp_path / "runs/3-incomplete"), (
        "a resumed run has chosen"
    )


def test_with_no_run_to_begin_with_all_is_read(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    found = find_earlier_run("last", run_store(tmp_path / "runs/new"), CLUSTER)
    assert found.notes == ("all data was read: the parent directory has no complete run of this cluster",)
    assert found.report_reuse({"reused": 0, "read": 2}, {"reused": 0, "read": 5}, ()) is None
    assert not planned(found)
    assert find_earlier_run(None, run_store(tmp_path / "runs/new"), CLUSTER).notes == ()


THEN = History(7, 5_000, (200, 203))


def read_from_etcd(path: Path) -> Path:
    """A finished run that read two ledgers of a running etcd."""
    run = made(path)
    save_ledger_facts(run_store(run), "/bk", THEN, [])
    rows = [{"path": f"/bk/ledgers/{number}", "status": "ok"} for number in range(2)]
    write(run / "tables/ledgers", rows, LEDGERS)
    save_file_sizes(run_store(run), "ledgers")
    return run


def test_ledgers_of_the_same_etcd_may_be_taken(tmp_path: Path) -> None:
    found = since(read_from_etcd(tmp_path / "1"))
    for now in (THEN, History(7, 5_000, (201, 201)), History(7, 9_000, (150, 200))):
        earlier = found.ledgers("/bk", now)
        assert earlier is not None
        assert (earlier.table, earlier.whole) == (f"{tmp_path}/1/tables/ledgers", True)
        assert earlier.files == (("part-00000.parquet", "/bk/ledgers/0"),)
    assert A in planned(found)
    assert (found.notes, index_plan(found).notes) == ((), ())


@pytest.mark.parametrize(
    ("scope", "now", "why"),
    [
        ("/other", THEN, "that run read another etcd, or another root in this etcd"),
        ("/bk", History(8, 5_000, (200, 203)), "that run read another etcd, or another root in this etcd"),
        ("/bk", History(7, 4_999, (200, 203)), "etcd was restored after that run read it at revision 5000"),
        (
            "/bk",
            History(7, 9_000, (-4_000, 199)),
            "etcd was restored after that run read it at revision 5000",
        ),
    ],
)
def test_ledgers_of_another_history_are_not_taken(tmp_path: Path, scope: str, now: History, why: str) -> None:
    with pytest.raises(RunError, match=why):
        since(read_from_etcd(tmp_path / "1")).ledgers(scope, now)


def lost_ledgers(run: Path) -> None:
    (run / "tables/ledgers/part-00000.parquet").unlink()


def ledgers_of_no_moment(run: Path) -> None:
    spoiled_manifest(run, lambda noted: noted["ledgers"].update(history=[7, None, [1]]))


def no_etcd(run: Path) -> None:
    spoiled_manifest(run, lambda noted: noted.pop("ledgers"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lost_ledgers, "its files changed after the run wrote them"),
        (ledgers_of_no_moment, "the manifest of that run does not say when ledgers were read: TypeError"),
        (no_etcd, "the manifest of that run does not say when ledgers were read: TypeError"),
    ],
)
def test_ledgers_of_a_run_that_is_not_whole_are_not_taken_but_its_indexes_are(
    tmp_path: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(read_from_etcd(tmp_path / "1"))
    found = since(tmp_path / "1")
    with pytest.raises(RunError, match=why):
        found.ledgers("/bk", THEN)
    assert A in planned(found)


def test_where_all_is_read_there_are_no_ledgers_to_take(tmp_path: Path) -> None:
    assert EarlierRun(None).ledgers("/bk", THEN) is None
    another_version(read_from_etcd(tmp_path / "1"))
    assert since(tmp_path / "1").ledgers("/bk", THEN) is None


def test_where_ledgers_were_taken_it_is_the_indexes_that_were_not(tmp_path: Path) -> None:
    cut_file(read_from_etcd(tmp_path / "1"))
    found = since(tmp_path / "1")
    assert found.ledgers("/bk", THEN) is not None
    (note,) = index_plan(found).notes
    assert note.startswith("no index was reused from run 1: ")


def test_no_damage_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """Arrow ends it when asked for a column whose type in the footer is not the schema's."""
    found = since(made(tmp_path / "1"))
    file = tmp_path / "1/tables/availability/part-00001.parquet"
    content = file.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    refused = 0
    for at in range(len(content) - 8 - size, len(content) - 8, 3):
        file.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        refused += any("availability" in note for note in index_plan(found).notes)
    assert 0 < refused < size
