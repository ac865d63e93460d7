"""Bytes that may be the last of an entry: an index lacks them, or an owner still references their ledger.

h11 and h2 are artificial clusters (tests/data/hazards). The databases of dbledger-long lack the index of one
ledger completely, and some locations of another.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from auditor import Audit
from auditor.actions.gate import Refused, permit
from auditor.actions.objects import bookie as bookie_object
from auditor.model.holds import ERASING_ACTIONS, ActionKind
from auditor.model.options import AuditOptions
from auditor.model.plan import RefusalReason
from auditor.model.states import SpaceClass
from auditor.plan.plan_file import make_plan
from auditor.reports.ledger import render
from auditor.runs.load_ledger import ledger_view
from auditor.runs.load_space import space_gauges, space_view
from auditor.runs.reader import RunReader
from tests.codecs.bookie.test_entry_log_records import scan_one_by_one
from tests.corpora.audited import FinishedRun, audit, entries
from tests.corpora.corpora import Corpus
from tests.corpora.test_space import with_logs
from tests.hazards.cases import Hazards, open_after_scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_OFFERED = ("entry-log-reclaimable", "entry-log-pinned")


@pytest.fixture(scope="module")
def h11(hazards: Hazards) -> FinishedRun:
    """Return h11's run: both members lack ledger 30's .idx file, and their logs have its bytes."""
    return audited(hazards.run("h11"))


@pytest.fixture(scope="module")
def h2(hazards: Hazards) -> FinishedRun:
    """Return h2's run: eight ledgers lack metadata, a topic names them, and their logs have nothing else."""
    return audited(hazards.run("h2"))


def audited(run: RunReader) -> FinishedRun:
    return FinishedRun(run.report, Path(run.path))


def bytes_of(run: FinishedRun, ledger: int) -> dict[tuple[str, str], int]:
    """Return a ledger's bytes by bookie and class."""
    sizes: dict[tuple[str, str], int] = {}
    for row in run.table("space"):
        if row["ledger_id"] == ledger:
            key = (row["bookie_id"], row["class"])
            sizes[key] = sizes.get(key, 0) + row["bytes"]
    return sizes


def assert_nothing_reclaimable(run: FinishedRun, bookies: set[str]) -> None:
    """Assert that no finding, step or gauge counts a byte of these bookies' logs as reclaimable."""
    assert [
        row["bookie_id"] for id in NOT_OFFERED for row in run.findings_of(id) if row["bookie_id"] in bookies
    ] == []
    reader = RunReader(run.out)
    assert {step.bookie_id for step in space_view(reader, "bookie").steps} & bookies == set()
    gauges = space_gauges(reader).reclaimable
    assert {bookie: sum(gauges[bookie].values()) for bookie in bookies} == dict.fromkeys(bookies, 0)


def test_bytes_of_a_ledger_without_an_index_file_are_needed_and_not_reclaimable(h11: FinishedRun) -> None:
    bookies = {"bk1:3181", "bk2:3181"}
    assert bytes_of(h11, 30) == {(bookie, SpaceClass.NOT_INDEXED): 480 for bookie in bookies}
    assert_nothing_reclaimable(h11, bookies)


def test_gc_would_delete_live_is_found_for_bytes_that_no_index_lists(h11: FinishedRun) -> None:
    findings = {row["bookie_id"]: row for row in h11.findings_of("gc-would-delete-live")}
    assert {*findings} == {"bk1:3181", "bk2:3181"}
    for row in findings.values():
        evidence = json.loads(row["evidence"])
        assert (row["confidence"], evidence["reasons"], evidence["sample"]) == (
            "confirmed", ["not-indexed"], ["30"]
        )  # fmt: skip


def test_a_lost_entry_is_recoverable_from_the_log_that_has_it(h11: FinishedRun) -> None:
    [lost] = h11.findings_of("entry-lost")
    assert (lost["ledger_id"], lost["severity"], lost["confidence"]) == (30, "critical", "confirmed")
    assert "no index has 10 of 10 entries" in lost["message"]
    for bookie in ("bk1:3181", "bk2:3181"):
        assert f"entry log 1 of {bookie} has the bytes of these entries" in lost["message"]
    logs = json.loads(lost["evidence"])["in_entry_logs"]
    assert [(log["bookie_id"], log["log_id"], log["groups"], log["lost_entries"]) for log in logs] == [
        (bookie, 1, [[0, 0, 10, 0]], 10) for bookie in ("bk1:3181", "bk2:3181")
    ]
    drawn = render(ledger_view(RunReader(h11.out), 30))
    assert "entry log 1 of bk1:3181: 0-9 (10 entries), 480 bytes, 10 of them in no index" in drawn


def test_bytes_of_owner_named_ledgers_are_not_reclaimable(h2: FinishedRun) -> None:
    dangling = {row["ledger_id"] for row in h2.findings_of("owner-dangling")}
    assert dangling == set(range(10, 18))
    for ledger in dangling:
        assert {name for _, name in bytes_of(h2, ledger)} == {SpaceClass.OWNER_NAMED}
    holders = {row["bookie_id"] for row in h2.table("space") if row["class"] == SpaceClass.OWNER_NAMED}
    assert_nothing_reclaimable(h2, holders)
    deletions = [row for row in h2.table("log_foresight") if row["needed"]]
    assert {(row["action"], row["frees"]) for row in deletions} == {("delete", 0)}


def copy_without_index(hazards: Hazards, place: Path) -> str:
    """Copy h2 without the index files of all ledgers that only the topic names. The logs get new mtimes."""
    case = hazards.case("h2")
    shutil.copytree(Path(case.bookies).parent, place / "h2", copy_function=shutil.copyfile)
    for file in (place / "h2" / "bookies").rglob("*.idx"):
        if int(file.stem, 16) in range(10, 18):
            file.unlink()
    return str(place / "h2")


def test_erasing_bookies_with_bytes_only_in_entry_logs_is_refused(
    hazards: Hazards, spark: SparkSession, tmp_path: Path
) -> None:
    place = copy_without_index(hazards, tmp_path)
    runs = {}
    for number, logs in enumerate((False, True, False), 1):
        out = tmp_path / "runs" / str(number)
        options = AuditOptions(entry_logs=logs)
        Audit(f"dump://{place}/metadata.jsonl", [f"{place}/bookies"], str(out), options).run(spark)
        runs[number] = open_after_scan(out)
    for number, reason in ((1, "unread-disk"), (2, "unindexed-bytes"), (3, "unindexed-bytes")):
        for name in ("bk1:3181", "bk2:3181", "bk3:3181"):
            for kind in ERASING_ACTIONS:
                answer = permit(runs[number], kind, [bookie_object(name)])
                assert isinstance(answer, Refused), (number, kind)
                assert reason in {hold.reason for hold in answer.holds}, (number, kind)


LOST_LEDGER, PARTLY_GONE, LACKING = 0, 1, (3, 4, 5)
"""Ledgers of dbledger-long: one that loses all of its index, one that loses locations of three entries."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    corpus = with_logs("dbledger-long", tmp_path_factory.mktemp("unlocated"))
    for database in corpus.bookies.glob("*/*/current/locations"):
        with Rdict(str(database), Options(raw_mode=True)) as locations:
            for ledger, lacking in ((LOST_LEDGER, range(100)), (PARTLY_GONE, LACKING)):
                for entry in lacking:
                    key = ledger.to_bytes(8, "big") + entry.to_bytes(8, "big")
                    if key in locations:
                        del locations[key]
        with Rdict(str(database.with_name("ledgers")), Options(raw_mode=True)) as ledgers:
            key = LOST_LEDGER.to_bytes(8, "big")
            if key in ledgers:
                del ledgers[key]
    return corpus


@pytest.fixture(scope="module")
def databases(real: Corpus, spark: SparkSession) -> FinishedRun:
    return audit(spark, f"dump://{real.dump}", real.bookies, real.root / "runs" / "1", entry_logs=True)


def in_logs(corpus: Corpus, ledger: int, entry_ids: range | tuple[int, ...]) -> dict[tuple[str, int], int]:
    """Return the bytes of these entries by log and entry, by a plain read of all logs."""
    return {
        (str(log), entry): size
        for log in corpus.bookies.glob("*/*/current/*.log")
        for _, size, _, ledger_id, entry in scan_one_by_one(log.read_bytes())
        if ledger_id == ledger and entry in entry_ids
    }


def test_bytes_that_a_database_lacks_are_counted_as_needed(real: Corpus, databases: FinishedRun) -> None:
    rows = databases.table("log_entries")
    for ledger, lacking in ((LOST_LEDGER, range(100)), (PARTLY_GONE, LACKING)):
        plain = in_logs(real, ledger, lacking)
        assert plain
        entry_keys = {
            (row["path"], entry)
            for row in rows
            if row["ledger_id"] == ledger
            for entry in entries(row["lost"])
        }
        assert entry_keys == {*plain}
        needed = sum(
            size for (_, name), size in bytes_of(databases, ledger).items() if name == SpaceClass.NOT_INDEXED
        )
        assert needed == sum(plain.values())
    offered = {
        log["path"]
        for id in NOT_OFFERED
        for row in databases.findings_of(id)
        for log in json.loads(row["evidence"])["sample"]
    }
    assert offered.isdisjoint(row["path"] for row in rows)


def test_entries_that_databases_lack_are_lost_and_recoverable(databases: FinishedRun) -> None:
    lost = {row["ledger_id"]: row for row in databases.findings_of("entry-lost")}
    assert "no index has" in lost[LOST_LEDGER]["message"]
    assert "no index has 3 of 21 entries" in lost[PARTLY_GONE]["message"]
    for ledger in (LOST_LEDGER, PARTLY_GONE):
        assert " of bk-b.rack1 has " in lost[ledger]["message"]


def test_the_plan_rebuilds_the_index_while_the_bookie_is_stopped(h11: FinishedRun) -> None:
    """For databases see `tests.plan.test_damaged_indexes`.

    Both bookies need a rebuild, and they alone serve some other ledgers. So the second waits for the first.
    """
    plan = make_plan(open_after_scan(h11.out))
    steps = [step for step in plan.steps if step.kind is ActionKind.REBUILD_INDEX]
    assert [step.bookie_id for step in steps] == ["bk1:3181"]
    [waiting] = [refused for refused in plan.refused if refused.kind is ActionKind.REBUILD_INDEX]
    assert waiting.reason == RefusalReason.LAST_COPY
    assert "only bk1:3181, bk2:3181 serve some entries" in waiting.why
    command = "bookkeeper shell regenerate-interleaved-storage-index-file -l 30 -password PASSWORD"
    for step in steps:
        texts = [step_command.text for step_command in step.commands]
        assert texts[0] == f"stop the bookie {step.bookie_id}"
        assert command in texts
        # Its collector would delete the bytes: it starts once an audit has seen the new index.
        assert f"start {step.bookie_id}" not in texts
        assert any(need.startswith(f"{step.bookie_id} stays stopped") for need in step.needs)
