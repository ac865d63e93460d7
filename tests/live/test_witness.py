"""Entries that a bookie has not written to its index yet, and its answers when it is asked for them.

An entry in a journal is held. So is an entry that a bookie serves. An entry that it lacks is lost, and
nothing is fenced. One cluster has three bookies of each storage (`tests.live.trios`), and one audit has all
of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor import Audit, open_run
from auditor.collect.collect import collect
from auditor.model.option_values import YesNo
from auditor.model.options import AuditOptions
from auditor.model.report import exit_code
from auditor.model.run_facts import sentence_of
from auditor.sources.bookies.rpc import reads
from auditor.sources.bookies.rpc import reads as bookie_reads
from auditor.sources.bookies.rpc.connection import Codec, find_endpoints
from auditor.sources.bookies.rpc.listings import DB_LEDGER_STORAGE, rpc_rows
from auditor.sources.bookies.rpc.reads import Entry, ReadRequest
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import open_store
from auditor.tables.registry import registrations
from tests.codecs.scalar import greedy, packed, runs_of_entries
from tests.corpora.audited import FinishedRun, Row, entries, missing
from tests.live.traces import Traces, traces
from tests.live.trios import FIRST, LISTED, STEP, TRIOS, TriosCluster, for_all_trios, trios_cluster
from tests.live.ways import DISK, DISK_AND_RPC, RPC, without_journals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.codecs.bookie.wire import ReadAnswer

FLUSHED, UNFLUSHED, LARGE, OPEN, LOST, ABSENT, MOVED = range(FIRST, FIRST + 7)
"""Ledgers of the first trio, as all that are named here: `everywhere` has the like ones of the others."""

IDLE = {FIRST + 10 + number: 1 + 5 * number for number in range(7)} | {FIRST + 17: 1025}
"""More ledgers that are in memory alone, and their entries."""

CLASSES = ("entry-lost", "below-ack-quorum", "below-write-quorum")
UNLISTED_LEDGERS = for_all_trios({min(IDLE): 1, max(IDLE): 1025}).keys()
"""Their last entry is the first slot of a page in memory (8 KiB), which 4.17.2 leaves out of a listing."""

IN_MEMORY = for_all_trios({UNFLUSHED: 10, LARGE: 100, **IDLE})
SAMPLED = for_all_trios({LARGE: 100, max(IDLE): 1025}).keys()
"""Of so many entries a sample is asked for."""

OPENED = for_all_trios({OPEN: 5})
DAMAGED = for_all_trios({FIRST + 20: 1, FIRST + 21: 1025}, LISTED)
DAMAGED_LATER = for_all_trios({FIRST + 22: 1, FIRST + 23: 1025}, LISTED)
"""Ledgers whose last entry one bookie never got, and their entries."""

every_trio = pytest.mark.parametrize("trio", range(len(TRIOS)), ids=[kind.storage for kind in TRIOS])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TriosCluster]:
    """Yield a cluster. Each trio has a ledger on disk, others only in memory, and an open one."""
    with trios_cluster(tmp_path_factory.mktemp("witness")) as running:
        bookies = running.bookies
        # Acknowledged by all: a last copy that is still on its way would be missing.
        for ledger, number in for_all_trios({FLUSHED: 10}).items():
            bookies.write(ledger, bookies.trio_of(ledger), 3, 3, number)
        bookies.flush()
        bookies.hold(IN_MEMORY)
        for ledger, number in OPENED.items():
            bookies.create(ledger, bookies.trio_of(ledger), 3, 3)
            bookies.append(ledger, number)
        yield running


def run_audit(
    cluster: TriosCluster,
    spark: SparkSession,
    out: Path,
    witness: YesNo = "yes",
    reads: int = 10_000,
    journals: bool = True,
) -> FinishedRun:
    """Audit by disk. Without ``journals``, entries that are only in memory are on no disk the audit sees."""
    return FinishedRun(audit_of(cluster, out, witness, reads, journals).run(spark), out)


def audit_of(
    cluster: TriosCluster, out: Path, witness: YesNo = "yes", reads: int = 10_000, journals: bool = True
) -> Audit:
    """Return the audit that `run_audit` runs."""
    options = AuditOptions(grace=0, timeout=5, witness=witness, witness_reads=reads)
    where = cluster.bookies.directory
    disks = [str(where if journals else without_journals(where, out.with_suffix(".toml")))]
    return Audit(cluster.metadata.uri, disks, str(out), options)


def ledger_findings(run: FinishedRun) -> dict[int, tuple[str, str]]:
    return {
        row["ledger_id"]: (row["id"], row["confidence"])
        for row in run.findings()
        if row["ledger_id"] is not None
    }


class WitnessRun(NamedTuple):
    """An audit of the disks without their journals, and the cluster's traces before and after it."""

    run: FinishedRun
    before: Traces
    after: Traces


@pytest.fixture(scope="module")
def asked(cluster: TriosCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> WitnessRun:
    """Run an audit of the disks without journals, with a witness."""
    before = traces(cluster)
    run = run_audit(cluster, spark, tmp_path_factory.mktemp("asked") / "run", journals=False)
    return WitnessRun(run, before, traces(cluster))


@pytest.fixture(scope="module")
def unasked(
    cluster: TriosCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> FinishedRun:
    """Run an audit of the disks without journals, and without a witness."""
    out = tmp_path_factory.mktemp("unasked") / "run"
    return run_audit(cluster, spark, out, witness="no", journals=False)


@pytest.fixture(scope="module")
def by_disk(
    cluster: TriosCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> FinishedRun:
    """Run an audit of the disks with their journals, without a witness."""
    return DISK.audit(cluster, spark, tmp_path_factory.mktemp("disk"), "no")


def test_idle_cluster_is_healthy_by_disk_without_witness(by_disk: FinishedRun) -> None:
    assert [row["id"] for row in by_disk.findings()] == []
    assert by_disk.report.verdict == "healthy"
    assert exit_code(by_disk.report, AuditOptions().fail_on) == 0


def test_run_stopped_before_and_after_the_witness_has_the_same_findings(
    cluster: TriosCluster, spark: SparkSession, asked: WitnessRun, tmp_path: Path
) -> None:
    stopped, tables = audit_of(cluster, tmp_path / "run", journals=False), tmp_path / "run" / "tables"
    stopped.run_until("judge", spark)
    assert (tables / "judged_by_index").exists()
    assert not (tables / "judged").exists()
    stopped.run_until("witness", spark)
    assert (tables / "witness").exists()
    assert (tables / "judged").exists()
    assert not (tables / "judged_by_index").exists()
    run = FinishedRun(stopped.run(spark), tmp_path / "run")
    assert ledger_findings(run) == ledger_findings(asked.run)
    assert len(run.table("witness")) == len(asked.run.table("witness")) > 0


def collected_of(cluster: TriosCluster, out: Path) -> dict[tuple[int, str], set[int]]:
    """Collect the running bookies' disks; return each copy's entries in indexes and journals."""
    collect([str(cluster.bookies.directory)], str(out))
    entries_by_copy: dict[tuple[int, str], set[int]] = {}
    for name in ("availability", "journal_tails"):
        for row in pq.read_table(out / name).to_pylist():
            if row["ledger_id"] is not None:
                entries_by_copy.setdefault((row["ledger_id"], row["bookie_id"]), set()).update(
                    entries(row["groups"] or b"")
                )
    return entries_by_copy


def test_unflushed_entries_are_in_the_journal_and_suspect_without_it(
    cluster: TriosCluster, asked: WitnessRun, unasked: FinishedRun, spark: SparkSession, tmp_path: Path
) -> None:
    copies = cluster.bookies.stored_entries()
    for ledger, number in IN_MEMORY.items():
        if ledger not in UNLISTED_LEDGERS:
            assert all(
                copies[bookie][ledger] == {*range(number)} for bookie in cluster.bookies.trio_of(ledger)
            ), ledger
    # By the disks as they are: the test above. A collection has all that they show: nothing is missing there.
    collected = collected_of(cluster, tmp_path / "collected")
    for ledger, number in {**IN_MEMORY, **OPENED, **for_all_trios({FLUSHED: 10})}.items():
        for bookie in cluster.bookies.trio_of(ledger):
            assert collected[ledger, bookie] >= set(range(number)), (ledger, bookie)
    ledger_confidences = {
        (row["ledger_id"], row["confidence"]) for row in unasked.findings() if row["ledger_id"] is not None
    }
    assert ledger_confidences == {(ledger, "suspect") for ledger in IN_MEMORY}
    # Of the large ones a sample was asked for: the rest is unknown, and said to be.
    assert ledger_findings(asked.run).keys() <= SAMPLED


def test_witness_finds_unflushed_entries_and_decides_small_ledgers(
    cluster: TriosCluster, asked: WitnessRun
) -> None:
    run = asked.run
    assert ledger_findings(run).keys() <= SAMPLED
    assert {*ledger_findings(run).values()} <= {("replication-undecided", "unknown")}
    rows = run.table("witness")
    assert {row["answer"] for row in rows} == {"served"}
    assert {row["ledger_id"] for row in rows} <= IN_MEMORY.keys()
    sent = sum(row["requests"] for row in rows)
    assert run.report.run.operations["entries read from bookies"] == sent == len(rows)
    assert asked.after.files == asked.before.files
    assert cluster.metadata.writes_after(asked.before.position) == []
    for ledger in OPENED:
        cluster.bookies.append(ledger, 1)  # its writer is not fenced


def test_unflushed_ledgers_are_suspect_without_a_witness(cluster: TriosCluster, unasked: FinishedRun) -> None:
    assert ledger_findings(unasked) == dict.fromkeys(IN_MEMORY, ("entry-lost", "suspect"))
    assert not (unasked.out / "tables" / "witness").exists()
    assert "entries read from bookies" not in unasked.report.run.operations


def test_suspect_findings_exit_with_3(unasked: FinishedRun) -> None:
    """Many clusters are saved without journals. Nothing then shows which entries came after the mark."""
    copies = [row for id in CLASSES for row in unasked.findings_of(id)]
    assert {(row["id"], row["confidence"]) for row in copies} == {("entry-lost", "suspect")}
    assert len(copies) == len(IN_MEMORY)
    assert exit_code(unasked.report, AuditOptions().fail_on) == 3


def test_witness_read_limit_is_kept_and_reported(
    cluster: TriosCluster, spark: SparkSession, tmp_path: Path
) -> None:
    run = run_audit(cluster, spark, tmp_path / "run", reads=2, journals=False)
    assert len(run.table("witness")) <= 2
    assert {confidence for _, confidence in ledger_findings(run).values()} <= {"suspect", "unknown"}
    assert any("--witness-reads" in note for note in map(sentence_of, run.report.run.remarks))
    doubts = [doubt for row in run.table("judged") for doubt in row["doubts"]]
    assert any("--witness-reads" in doubt for doubt in doubts)


@pytest.mark.parametrize("version", [2, 3])
def test_read_in_either_protocol_version_fences_no_ledger(
    cluster: TriosCluster, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def requested_version(self: bookie_reads.ReadClient) -> tuple[Codec[Entry, ReadAnswer], ...]:
        return (ReadRequest(version),)

    monkeypatch.setattr(bookie_reads.ReadClient, "wire_protocols", requested_version)
    before = traces(cluster)
    expected = {
        **dict.fromkeys(((ledger, 0) for ledger in OPENED), "served"),
        **dict.fromkeys(((ledger, 10**6) for ledger in OPENED), "no-such-entry"),
        **dict.fromkeys(((ledger, 0) for ledger in for_all_trios({ABSENT: 0})), "no-such-ledger"),
    }
    answers = ask(cluster, [*expected])
    assert answers == {
        (bookie, *entry): answer
        for entry, answer in expected.items()
        for bookie in cluster.bookies.trio_of(entry[0])
    }
    assert traces(cluster).files == before.files
    for ledger in OPENED:
        cluster.bookies.append(ledger, 2)


def ask(cluster: TriosCluster, questions: list[tuple[int, int]]) -> dict[tuple[str, int, int], str]:
    store = open_store(cluster.metadata.uri)
    where = find_endpoints(registrations(store.cluster()), cluster.bookies.ids)
    store.close()
    rows = [
        {"bookie_id": bookie, "scope_id": 0, "ledger_id": ledger, "entry_id": entry}
        for ledger, entry in questions
        for bookie in cluster.bookies.trio_of(ledger)
    ]
    rows.sort(key=lambda row: str(row["bookie_id"]))
    answer_rows: list[Row] = []
    for batch in reads.read_rows([pa.RecordBatch.from_pylist(rows)], where, StoreOptions(timeout_s=10.0)):
        answer_rows += batch.to_pylist()
    return {(row["bookie_id"], row["ledger_id"], row["entry_id"]): row["answer"] for row in answer_rows}


def missing_copies(run: FinishedRun) -> set[tuple[str, int, str]]:
    return {(row["id"], row["ledger_id"], row["confidence"]) for id in CLASSES for row in run.findings_of(id)}


def test_unlisted_entries_are_missing_only_if_the_bookie_does_not_serve_them(
    cluster: TriosCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """A listing proves presence, not absence: it omits a page that is only in memory."""
    cluster.bookies.hold(DAMAGED, lacking=True)
    run = RPC.audit(cluster, spark, tmp_path / "listed")
    assert missing_copies(run) == {("below-write-quorum", ledger, "confirmed") for ledger in DAMAGED}


class DamagedRuns(NamedTuple):
    """Audits after running bookies lost entries, and the number of errors logged during the first."""

    by_disk: FinishedRun
    both: FinishedRun
    errors: int


[INTERLEAVED] = [at for at, kind in enumerate(TRIOS) if kind.storage == "InterleavedLedgerStorage"]


@pytest.fixture(scope="module")
def spoiled(
    cluster: TriosCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> DamagedRuns:
    """Audit after each trio's first bookie lost entries 0 to 3, and the first an index file as it ran."""
    bookies = cluster.bookies
    firsts = bookies.ids[::3]
    bookies.write(MOVED + STEP * INTERLEAVED, [firsts[INTERLEAVED]], 1, 1, entries=10)
    for ledger in for_all_trios({LOST: 10}):
        bookies.write(ledger, bookies.trio_of(ledger)[:1], 1, 1, entries=10)
    time.sleep(0.01)
    for ledger in OPENED:
        bookies.append(ledger, 1)
    bookies.flush()  # the marks are newer than the ledgers now
    for trio, bookie in enumerate(firsts):
        bookies.stop(bookie)
        lost = LOST + STEP * trio
        if TRIOS[trio].storage == "DbLedgerStorage":
            bookies.forget_entries(bookie, lost, range(4))
        else:
            with cluster.index_file(bookie, lost).open("r+b") as file:
                file.seek(1024)
                file.write(bytes(4 * 8))
        if trio == INTERLEAVED:
            moved = cluster.index_file(bookie, MOVED + STEP * trio)
            wrong_directory = moved.parent.with_name("ff")  # where no ledger of these ids belongs
            wrong_directory.mkdir()
            moved.rename(wrong_directory / moved.name)
        bookies.start(bookie)
    flushed = FLUSHED + STEP * INTERLEAVED
    served = ask(cluster, [(flushed, 3)])  # so that the bookie has its file open
    assert set(served.values()) == {"served"}
    cluster.index_file(firsts[INTERLEAVED], flushed).unlink()
    bookies.hold(DAMAGED_LATER, lacking=True)
    root = tmp_path_factory.mktemp("spoiled")
    errors = logged_errors(cluster)
    by_disk = run_audit(cluster, spark, root / "disk")
    errors = logged_errors(cluster) - errors
    return DamagedRuns(by_disk, DISK_AND_RPC.audit(cluster, spark, root / "both"), errors)


def logged_errors(cluster: TriosCluster) -> int:
    return (cluster.bookies.root / "bookies.log").read_text().count("ERROR")


@every_trio
def test_lost_entries_are_confirmed_by_their_bookie(
    cluster: TriosCluster, spoiled: DamagedRuns, trio: int
) -> None:
    run, a = spoiled.by_disk, cluster.bookies.trio(trio)[0]
    [lost] = [row for row in run.findings_of("entry-lost") if row["ledger_id"] == LOST + STEP * trio]
    assert (lost["confidence"], missing(lost)) == ("confirmed", {a: frozenset(range(4))})
    assert '"answer":"no-such-entry"' in lost["evidence"]
    assert a in lost["evidence"]
    ledger_text = repr(open_run(run.out).ledger(LOST + STEP * trio))
    assert f"{a} does not have 0-3 (4 entries)" in ledger_text
    assert spoiled.errors == 0  # of a read that finds nothing, no bookie logs an error


@pytest.mark.parametrize("way", ["by_disk", "both"])
def test_index_removed_under_a_running_bookie_is_reported_on_the_bookie(
    cluster: TriosCluster, spoiled: DamagedRuns, way: str
) -> None:
    """A listing shows the entries that the disk's index lacks. It hides nothing."""
    run: FinishedRun = getattr(spoiled, way)
    a = cluster.bookies.trio(INTERLEAVED)[0]
    assert FLUSHED + STEP * INTERLEAVED not in ledger_findings(run)
    [finding] = run.findings_of("index-incomplete")
    assert (finding["bookie_id"], finding["severity"], finding["confidence"]) == (a, "warning", "confirmed")
    assert finding["message"] == f"{a} serves 10 entries of 1 ledger that are missing from its index on disk"
    # The bookie does not look where the file lies, and says that it has no such ledger.
    moved = MOVED + STEP * INTERLEAVED
    [lost] = [row for row in run.findings_of("entry-lost") if row["ledger_id"] == moved]
    assert (lost["confidence"], missing(lost)) == ("confirmed", {a: frozenset(range(10))})
    assert [row["ledger_id"] for row in run.findings_of("index-unreadable")] == [moved]


@pytest.mark.parametrize("way", ["by_disk", "both"])
def test_only_the_damaged_ledgers_have_missing_copies(spoiled: DamagedRuns, way: str) -> None:
    lost = {*for_all_trios({LOST: 10}), MOVED + STEP * INTERLEAVED}
    assert missing_copies(getattr(spoiled, way)) == {
        *(("entry-lost", ledger, "confirmed") for ledger in lost),
        *(("below-write-quorum", ledger, "confirmed") for ledger in (*DAMAGED, *DAMAGED_LATER)),
    }


LACKED = 4242
BOOKIE_ENTRIES: dict[int, range | list[int]] = {
    1: range(30),
    2: range(0, 300, 3),
    3: [0, 1, 2, 7, 8, 9, 40],
    2**63 - 1: [5],
}
"""Entries of ledgers that are on bookies alone."""


@every_trio
def test_bookie_lists_unflushed_entries_and_db_ledger_storage_is_a_gap(
    cluster: TriosCluster, trio: int
) -> None:
    """Requests go over the wire. The silence of a bookie on DbLedgerStorage is recognised as a gap."""
    ids = cluster.bookies.trio(trio)
    groups_by_copy: dict[tuple[str, int], bytes] = {}
    for number, (ledger, numbers) in enumerate(BOOKIE_ENTRIES.items()):
        for bookie in ids[number % 2 :]:
            cluster.bookies.add(ledger, bookie, numbers)
            groups_by_copy[bookie, ledger] = packed(greedy(runs_of_entries(numbers)))
    store = open_store(cluster.metadata.uri)
    resolved = find_endpoints(registrations(store.cluster()), ids)
    store.close()
    addresses = {name: address for name, address in resolved.items() if not isinstance(address, str)}
    assert addresses.keys() == {*ids}
    pairs = [
        {"bookie_id": bookie, "scope_id": 0, "ledger_id": ledger}
        for bookie in sorted(ids)
        for ledger in sorted((*BOOKIE_ENTRIES, LACKED))
    ]
    asking = rpc_rows(iter([pa.RecordBatch.from_pylist(pairs)]), addresses, StoreOptions(timeout_s=3.0))
    rows = [row for batch in asking for row in batch.to_pylist()]
    listed = {(row["bookie_id"], row["ledger_id"]): row["groups"] for row in rows if row["state"] == "ok"}
    truth = {(pair["bookie_id"], pair["ledger_id"]): b"" for pair in pairs} | groups_by_copy
    if trio not in LISTED:
        gaps = {row["bookie_id"]: row["reason"] for row in rows if row["state"] == "gap"}
        assert gaps.keys() == {*ids[1:]}  # of the first, two silent ledgers are not enough to tell
        assert all(reason.startswith(DB_LEDGER_STORAGE) for reason in gaps.values())
        assert listed == {pair: groups for pair, groups in truth.items() if not groups}
    else:
        assert {row["state"] for row in rows} == {"ok"}
        assert listed == truth
