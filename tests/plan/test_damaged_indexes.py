"""Tests that rebuild indexes on real 4.17.2 bookies: one procedure per kind of damage, typed as printed.

One bookie is on SortedLedgerStorage, the other on DbLedgerStorage. Each ledger has one copy.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.model.holds import ActionKind
from auditor.model.plan import CommandRole, PlanStep
from auditor.plan.plan_file import make_plan
from auditor.runs.reader import RunReader
from tests.clusters.idle import IdleClusterRun, audit
from tests.plan.cluster import OperatedBookies, operated_cluster
from tests.servers.bookies.driver import StoredEntries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK, SAVE, HAND, DO, _ = CommandRole
EMPTY, WRONG_MAGIC, CUT, NO_FILE, IN_NO_DATABASE, WITHOUT_LOCATIONS = range(1, 7)
IN_FILES, IN_DATABASES = (EMPTY, WRONG_MAGIC, CUT, NO_FILE), (IN_NO_DATABASE, WITHOUT_LOCATIONS)
REGENERATE = "regenerate-interleaved-storage-index-file"
PAGE_CUT = 1024 + 20
"""The header of an index file, and two and a half locations."""


class Rebuilt:
    """Two bookies with damaged indexes, the audit and plan of them, and their entries after the repair."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        with operated_cluster(root, 2) as (bookies, store):
            self.files, self.databases = bookies.ids
            _use_index_files(bookies, self.files)
            for ledger in (*IN_FILES, *IN_DATABASES):
                bookie = self.files if ledger in IN_FILES else self.databases
                bookies.write(ledger, [bookie], 1, 1, 10)
            bookies.flush()
            self.refused_by_shell = self._damage(bookies)
            sources = [str(bookies.directory)]
            self.run: IdleClusterRun = audit(spark, store, sources, root / "runs" / "1", entry_logs=True)
            plan = make_plan(RunReader(str(self.run.out)))
            self.steps = [step for step in plan.steps if step.kind is ActionKind.REBUILD_INDEX]
            for step in self.steps:
                bookies.do(step, LOOK, SAVE, HAND, DO)
            self.held_after: StoredEntries = bookies.stored_entries()

    def _damage(self, bookies: OperatedBookies) -> list[int]:
        """Damage the indexes of both bookies; return ledgers the shell refuses to rewrite in place."""
        refused = []
        bookies.stop(self.files)
        place = bookies.place(self.files)
        index = {ledger: next(place.rglob(f"{ledger:x}.idx")) for ledger in IN_FILES}
        index[EMPTY].write_bytes(b"")
        index[WRONG_MAGIC].write_bytes(b"none" + index[WRONG_MAGIC].read_bytes()[4:])
        index[CUT].write_bytes(index[CUT].read_bytes()[:PAGE_CUT])
        index[NO_FILE].unlink()
        for ledger in (EMPTY, WRONG_MAGIC):
            try:
                bookies.shell([REGENERATE, "-l", str(ledger), "-password", "PASSWORD"], self.files)
            except AssertionError:
                refused.append(ledger)
        bookies.start(self.files)
        bookies.stop(self.databases)
        bookies.forget_entries(self.databases, IN_NO_DATABASE, range(10))
        bookies.forget_ledger(self.databases, IN_NO_DATABASE)
        bookies.forget_entries(self.databases, WITHOUT_LOCATIONS, (3, 4))
        bookies.start(self.databases)
        return refused

    def step(self, bookie: str) -> PlanStep:
        [step] = [step for step in self.steps if step.bookie_id == bookie]
        return step


def _use_index_files(bookies: OperatedBookies, bookie: str) -> None:
    bookies.stop(bookie)
    bookies.configure(bookie, "ledgerStorageClass", "org.apache.bookkeeper.bookie.SortedLedgerStorage")
    for name in ("ledgers", "locations"):
        shutil.rmtree(bookies.place(bookie) / "ledgers0" / "current" / name)
    bookies.start(bookie)
    (bookies.place(bookie) / "sorted").touch()


@pytest.fixture(scope="module")
def rebuilt(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rebuilt:
    return Rebuilt(tmp_path_factory.mktemp("rebuilt"), spark)


def test_lost_entries_in_entry_logs_are_confirmed_and_not_reclaimable(rebuilt: Rebuilt) -> None:
    lost = {
        row["ledger_id"]: (row["message"], row["confidence"]) for row in rebuilt.run.findings_of("entry-lost")
    }
    assert {*lost} == {NO_FILE, *IN_DATABASES}
    for message, confidence in lost.values():
        assert "no index has" in message
        assert confidence == "confirmed"
    assert {row["bookie_id"] for row in rebuilt.run.findings_of("entry-log-reclaimable")} == set()


def test_the_shell_refuses_an_index_file_with_a_damaged_header(rebuilt: Rebuilt) -> None:
    assert rebuilt.refused_by_shell == [EMPTY, WRONG_MAGIC]


def test_file_with_damaged_header_is_moved_and_all_files_are_regenerated(rebuilt: Rebuilt) -> None:
    step = rebuilt.step(rebuilt.files)
    [moved] = [part.text for part in step.commands if part.text.startswith("move to")]
    names = [word.rpartition("/")[2].rstrip(",") for word in moved.split(": ")[1].split()]
    assert sorted(names) == [f"{ledger:x}.idx" for ledger in (EMPTY, WRONG_MAGIC)]
    assert sorted(int(part.ledger_id) for part in step.ledgers) == sorted(IN_FILES)
    roles = [part.text.split()[0] for part in step.commands]
    assert roles == ["stop", "move", "bookkeeper", "bookkeeper", "start"]


def test_databases_without_the_ledger_get_both_rebuild_commands(rebuilt: Rebuilt) -> None:
    step = rebuilt.step(rebuilt.databases)
    assert [command.text.split()[-1] for command in step.commands if command.role is DO] == [
        "rebuild-db-ledgers-index", "rebuild-db-ledger-locations-index"
    ]  # fmt: skip


def test_the_bookies_serve_all_entries_again(rebuilt: Rebuilt) -> None:
    whole = frozenset(range(10))
    unreadable = {row["ledger_id"] for row in rebuilt.run.findings_of("index-unreadable")}
    assert unreadable == {EMPTY, WRONG_MAGIC, CUT}
    for ledger in (*IN_FILES, *IN_DATABASES):
        bookie = rebuilt.files if ledger in IN_FILES else rebuilt.databases
        assert rebuilt.held_after[bookie][ledger] == whole, ledger
