"""What a bookie took and did not write to its index yet, and what it says where it is asked for entries.

What is in a journal is held. What a bookie serves is held, what it lacks is lost, and nothing is fenced. Of
each kind there is one cluster, and one audit of its indexes alone with a witness and one without.
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
from auditor.model.options import AuditOptions, YesNo
from auditor.model.report import exit_code
from auditor.model.run_facts import sentence_of
from auditor.sources.bookies.rpc import reads
from auditor.sources.bookies.rpc import reads as bookie_reads
from auditor.sources.bookies.rpc.connection import Wire, endpoints
from auditor.sources.bookies.rpc.listings import DB_LEDGER_STORAGE, rpc_rows
from auditor.sources.bookies.rpc.reads import Entry, Reading
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import open_store
from auditor.tables.registry import registrations
from tests.codecs.scalar import greedy, packed, runs_of_entries
from tests.corpora.audited import Audited, Row, entries, missing
from tests.live.metadata import ETCD, metadata_store
from tests.live.scenario import KINDS, Kind, LiveCluster
from tests.live.traces import Traces, traces
from tests.live.ways import BOTH, DISK, RPC, without_journals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.codecs.bookie.wire import ReadAnswer

FLUSHED, UNFLUSHED, LARGE, OPEN, LOST, ABSENT, MOVED = range(2**20, 2**20 + 7)
IDLE = {2**20 + 10 + number: 1 + 5 * number for number in range(7)} | {2**20 + 17: 1025}
"""More ledgers that are in memory alone, and their entries."""

CLASSES = ("entry-lost", "below-ack-quorum", "below-write-quorum")
LEFT_OUT = (min(IDLE), max(IDLE))
"""Their last entry is the first slot of a page in memory (8 KiB), which 4.17.2 leaves out of a listing."""

IN_MEMORY = {UNFLUSHED: 10, LARGE: 100, **IDLE}
SAMPLED = {LARGE, max(IDLE)}
"""Of so many entries a sample is asked for."""

DAMAGED = {2**20 + 20: 1, 2**20 + 21: 1025}
"""Ledgers whose last entry one bookie never got, and their entries."""

LISTINGS = {"InterleavedLedgerStorage": RPC, "SortedLedgerStorage": BOTH}
"""Bookies that say what they hold, and how they are asked; DbLedgerStorage lists no entries."""

WITH_TIMES = [kind for kind in KINDS if kind.layout != ETCD]
every_kind = pytest.mark.parametrize(
    "cluster", WITH_TIMES, ids=[kind.name for kind in WITH_TIMES], indirect=True
)


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveCluster]:
    """Three bookies: one ledger on their disks, others in memory alone, one that is open."""
    kind: Kind = request.param
    root = tmp_path_factory.mktemp("witness")
    with (
        metadata_store(kind.layout, root) as metadata,
        kind.bookies(metadata.uri, root, (None, None, None)) as bookies,
    ):
        running = LiveCluster(kind, metadata, bookies)
        # Acknowledged by all: a last copy that is still on its way would be missing.
        bookies.write(FLUSHED, bookies.ids, 3, 3, entries=10)
        bookies.flush()
        for ledger, number in IN_MEMORY.items():
            bookies.write(ledger, bookies.ids, 3, 3, number)
        bookies.create(OPEN, bookies.ids, 3, 3)
        bookies.append(OPEN, 5)
        yield running


def audited(
    cluster: LiveCluster,
    spark: SparkSession,
    out: Path,
    witness: YesNo = "yes",
    reads: int = 10_000,
    journals: bool = True,
) -> Audited:
    """Audit by disk; without ``journals`` what is in memory alone is on no disk that the audit sees."""
    options = AuditOptions(grace=0, timeout=5, witness=witness, witness_reads=reads)
    where = cluster.bookies.directory
    disks = [str(where if journals else without_journals(where, out.with_suffix(".toml")))]
    return Audited(Audit(cluster.metadata.uri, disks, str(out), options).run(spark), out)


def about_ledgers(run: Audited) -> dict[int, tuple[str, str]]:
    return {
        row["ledger_id"]: (row["id"], row["confidence"])
        for row in run.findings()
        if row["ledger_id"] is not None
    }


class Looked(NamedTuple):
    """An audit of what is on the disks without their journals, and the cluster's traces around it."""

    run: Audited
    before: Traces
    after: Traces


@pytest.fixture(scope="module")
def asked(cluster: LiveCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Looked:
    """With a witness."""
    before = traces(cluster)
    run = audited(cluster, spark, tmp_path_factory.mktemp("asked") / "run", journals=False)
    return Looked(run, before, traces(cluster))


@pytest.fixture(scope="module")
def unasked(cluster: LiveCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Without one."""
    out = tmp_path_factory.mktemp("unasked") / "run"
    return audited(cluster, spark, out, witness="no", journals=False)


@pytest.fixture(scope="module")
def by_disk(cluster: LiveCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """Of the disks with their journals, without a witness."""
    return DISK.audit(cluster, spark, tmp_path_factory.mktemp("disk"), "no")


@every_kind
def test_an_idle_cluster_is_healthy_by_its_disks_alone(by_disk: Audited) -> None:
    assert [row["id"] for row in by_disk.findings()] == []
    assert by_disk.report.verdict == "healthy"
    assert exit_code(by_disk.report, AuditOptions().fail_on) == 0


def collected_of(cluster: LiveCluster, out: Path) -> dict[tuple[int, str], set[int]]:
    """What a collection of the running bookies' disks has of each ledger, in indexes and journals."""
    collect([str(cluster.bookies.directory)], str(out))
    held: dict[tuple[int, str], set[int]] = {}
    for name in ("availability", "journal_tails"):
        for row in pq.read_table(out / name).to_pylist():
            if row["ledger_id"] is not None:
                held.setdefault((row["ledger_id"], row["bookie_id"]), set()).update(
                    entries(row["groups"] or b"")
                )
    return held


@every_kind
def test_what_is_not_flushed_is_held_by_the_journal_and_suspect_at_most_without_it(
    cluster: LiveCluster, asked: Looked, unasked: Audited, spark: SparkSession, tmp_path: Path
) -> None:
    in_memory = {ledger: set(range(number)) for ledger, number in IN_MEMORY.items() if ledger not in LEFT_OUT}
    for held in cluster.bookies.held().values():
        assert {ledger: set(held[ledger]) for ledger in in_memory} == in_memory
    # By the disks as they are: the test above. A collection has all that they show: nothing is missing there.
    collected = collected_of(cluster, tmp_path / "collected")
    for ledger, number in {**IN_MEMORY, FLUSHED: 10, OPEN: 5}.items():
        for bookie in cluster.bookies.ids:
            assert collected[ledger, bookie] >= set(range(number)), (ledger, bookie)
    found = {
        (row["ledger_id"], row["confidence"]) for row in unasked.findings() if row["ledger_id"] is not None
    }
    assert found == {(ledger, "suspect") for ledger in IN_MEMORY}
    # Of the large ones a sample was asked for: the rest is unknown, and said to be.
    assert about_ledgers(asked.run).keys() <= SAMPLED


@every_kind
def test_what_is_in_memory_alone_is_held_and_small_ledgers_are_decided(
    cluster: LiveCluster, asked: Looked
) -> None:
    run = asked.run
    assert about_ledgers(run).keys() <= SAMPLED
    assert {*about_ledgers(run).values()} <= {("replication-undecided", "unknown")}
    said = run.table("witness")
    assert {row["answer"] for row in said} == {"served"}
    assert {row["ledger_id"] for row in said} <= IN_MEMORY.keys()
    sent = sum(row["requests"] for row in said)
    assert run.report.run.operations["entries read from bookies"] == sent == len(said)
    assert asked.after.files == asked.before.files
    assert cluster.metadata.writes_after(asked.before.position) == []
    cluster.bookies.append(OPEN, 1)  # its writer is not fenced


@every_kind
def test_without_a_witness_it_is_suspect(cluster: LiveCluster, unasked: Audited) -> None:
    assert about_ledgers(unasked) == dict.fromkeys(IN_MEMORY, ("entry-lost", "suspect"))
    assert not (unasked.out / "tables" / "witness").exists()
    assert "entries read from bookies" not in unasked.report.run.operations


@every_kind
def test_suspects_alone_end_with_3(unasked: Audited) -> None:
    """Without journals, as many clusters are saved: nothing says what came after the mark."""
    copies = [row for id in CLASSES for row in unasked.of(id)]
    assert {(row["id"], row["confidence"]) for row in copies} == {("entry-lost", "suspect")}
    assert len(copies) == len(IN_MEMORY)
    assert exit_code(unasked.report, AuditOptions().fail_on) == 3


@pytest.mark.parametrize("cluster", WITH_TIMES[:1], ids=[kind.name for kind in WITH_TIMES[:1]], indirect=True)
def test_a_bound_is_kept_and_said(cluster: LiveCluster, spark: SparkSession, tmp_path: Path) -> None:
    run = audited(cluster, spark, tmp_path / "run", reads=2, journals=False)
    assert len(run.table("witness")) <= 2
    assert {confidence for _, confidence in about_ledgers(run).values()} <= {"suspect", "unknown"}
    assert any("--witness-reads" in note for note in map(sentence_of, run.report.run.remarks))
    doubts = [doubt for row in run.table("judged") for doubt in row["doubts"]]
    assert any("--witness-reads" in doubt for doubt in doubts)


@every_kind
@pytest.mark.parametrize("version", [2, 3])
def test_a_read_in_either_version_fences_nothing(
    cluster: LiveCluster, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only(self: bookie_reads.ReadClient) -> tuple[Wire[Entry, ReadAnswer], ...]:
        return (Reading(version),)

    monkeypatch.setattr(bookie_reads.ReadClient, "wires", only)
    before = traces(cluster)
    wanted = {(OPEN, 0): "served", (OPEN, 10**6): "no-such-entry", (ABSENT, 0): "no-such-ledger"}
    said = ask(cluster, [*wanted])
    assert said == {
        (bookie, *entry): answer for entry, answer in wanted.items() for bookie in cluster.bookies.ids
    }
    assert traces(cluster).files == before.files
    cluster.bookies.append(OPEN, 2)


def ask(cluster: LiveCluster, wanted: list[tuple[int, int]]) -> dict[tuple[str, int, int], str]:
    store = open_store(cluster.metadata.uri)
    where = endpoints(registrations(store.cluster()), cluster.bookies.ids)
    store.close()
    rows = [
        {"bookie_id": bookie, "scope_id": 0, "ledger_id": ledger, "entry_id": entry}
        for bookie in sorted(cluster.bookies.ids)
        for ledger, entry in wanted
    ]
    found: list[Row] = []
    for batch in reads.read_rows([pa.RecordBatch.from_pylist(rows)], where, StoreOptions(timeout_s=10.0)):
        found += batch.to_pylist()
    return {(row["bookie_id"], row["ledger_id"], row["entry_id"]): row["answer"] for row in found}


LISTED = [kind for kind in WITH_TIMES if kind.storage in LISTINGS]


@pytest.mark.parametrize("cluster", LISTED, ids=[kind.name for kind in LISTED], indirect=True)
def test_what_a_listing_leaves_out_is_missing_only_where_the_bookie_does_not_serve_it(
    cluster: LiveCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """A listing proves presence, not absence: it leaves out a page that is only in memory."""
    a, b, c = cluster.bookies.ids
    for ledger, number in DAMAGED.items():
        cluster.bookies.record(ledger, [a, b, c], 3, 2, number - 1)
        for bookie in (a, b):
            cluster.bookies.add(ledger, bookie, range(number))
    cluster.bookies.add(max(DAMAGED), c, range(1024))
    run = LISTINGS[cluster.kind.storage].audit(cluster, spark, tmp_path / "listed")
    copies = [(row["id"], row["ledger_id"], row["confidence"]) for id in CLASSES for row in run.of(id)]
    assert copies == [("below-write-quorum", ledger, "confirmed") for ledger in DAMAGED]


@every_kind
def test_what_is_gone_is_confirmed_by_its_bookies(
    cluster: LiveCluster, spark: SparkSession, tmp_path: Path
) -> None:
    a, bookies = cluster.bookies.ids[0], cluster.bookies
    bookies.write(LOST, [a], 1, 1, entries=10)
    bookies.flush()
    bookies.stop(a)
    if cluster.has_rocksdb:
        bookies.forget_entries(a, LOST, range(4))
    else:
        with cluster.index_file(a, LOST).open("r+b") as file:
            file.seek(1024)
            file.write(bytes(4 * 8))
    bookies.start(a)
    errors = logged_errors(cluster)
    run = audited(cluster, spark, tmp_path / "run")
    [lost] = [row for row in run.of("entry-lost") if row["ledger_id"] == LOST]
    assert (lost["confidence"], missing(lost)) == ("confirmed", {a: frozenset(range(4))})
    assert '"answer":"no-such-entry"' in lost["evidence"]
    assert a in lost["evidence"]
    told = repr(open_run(tmp_path / "run").ledger(LOST))
    assert f"{a} does not have 0-3 (4 entries)" in told
    assert logged_errors(cluster) == errors  # of a read that finds nothing, no bookie logs an error


def logged_errors(cluster: LiveCluster) -> int:
    return (cluster.bookies.root / "bookies.log").read_text().count("ERROR")


INTERLEAVED = [kind for kind in WITH_TIMES if kind.storage == "InterleavedLedgerStorage"]


@pytest.mark.parametrize("cluster", INTERLEAVED, ids=[kind.name for kind in INTERLEAVED], indirect=True)
def test_an_index_that_went_beneath_a_running_bookie_is_a_finding_on_the_bookie(
    cluster: LiveCluster, spark: SparkSession, tmp_path: Path
) -> None:
    a, bookies = cluster.bookies.ids[0], cluster.bookies
    bookies.write(MOVED, [a], 1, 1, entries=10)
    time.sleep(0.01)
    bookies.append(OPEN, 1)
    bookies.flush()  # the marks are newer than the ledger now
    bookies.stop(a)
    moved = cluster.index_file(a, MOVED)
    elsewhere = moved.parent.with_name("ff")  # where no ledger of these ids belongs
    elsewhere.mkdir()
    moved.rename(elsewhere / moved.name)
    bookies.start(a)
    served = ask(cluster, [(FLUSHED, 3)])  # so that the bookie has its file open
    assert set(served.values()) == {"served"}
    cluster.index_file(a, FLUSHED).unlink()
    # A listing shows what the disk lacks; it hides nothing.
    for run in (audited(cluster, spark, tmp_path / "run"), BOTH.audit(cluster, spark, tmp_path / "both")):
        assert FLUSHED not in about_ledgers(run)
        [found] = run.of("index-incomplete")
        assert (found["bookie_id"], found["severity"], found["confidence"]) == (a, "warning", "confirmed")
        assert found["message"] == f"{a} serves 10 entries of 1 ledger that its index on disk lacks"
        # The bookie does not look where the file lies, and says that it has no such ledger.
        [lost] = [row for row in run.of("entry-lost") if row["ledger_id"] == MOVED]
        assert (lost["confidence"], missing(lost)) == ("confirmed", {a: frozenset(range(10))})
        assert [row["ledger_id"] for row in run.of("index-unreadable")] == [MOVED]


LACKED = 4242
HELD: dict[int, range | list[int]] = {
    1: range(30),
    2: range(0, 300, 3),
    3: [0, 1, 2, 7, 8, 9, 40],
    2**63 - 1: [5],
}
"""Entries of ledgers that are on bookies alone."""


@every_kind
def test_a_running_bookie_says_what_it_holds_before_it_is_flushed(cluster: LiveCluster) -> None:
    """Asked over the wire; of DbLedgerStorage a bookie's silence is known for what it is."""
    ids = cluster.bookies.ids
    held: dict[tuple[str, int], bytes] = {}
    for number, (ledger, numbers) in enumerate(HELD.items()):
        for bookie in ids[number % 2 :]:
            cluster.bookies.add(ledger, bookie, numbers)
            held[bookie, ledger] = packed(greedy(runs_of_entries(numbers)))
    store = open_store(cluster.metadata.uri)
    found = endpoints(registrations(store.cluster()), ids)
    store.close()
    addresses = {name: each for name, each in found.items() if not isinstance(each, str)}
    assert addresses.keys() == {*ids}
    pairs = [
        {"bookie_id": bookie, "scope_id": 0, "ledger_id": ledger}
        for bookie in sorted(ids)
        for ledger in sorted((*HELD, LACKED))
    ]
    asking = rpc_rows(iter([pa.RecordBatch.from_pylist(pairs)]), addresses, StoreOptions(timeout_s=3.0))
    rows = [row for batch in asking for row in batch.to_pylist()]
    listed = {(row["bookie_id"], row["ledger_id"]): row["groups"] for row in rows if row["state"] == "ok"}
    truth = {(pair["bookie_id"], pair["ledger_id"]): b"" for pair in pairs} | held
    if cluster.has_rocksdb:
        gaps = {row["bookie_id"]: row["reason"] for row in rows if row["state"] == "gap"}
        assert gaps.keys() == {*ids[1:]}  # of the first, two silent ledgers are not enough to tell
        assert all(reason.startswith(DB_LEDGER_STORAGE) for reason in gaps.values())
        assert listed == {pair: groups for pair, groups in truth.items() if not groups}
    else:
        assert {row["state"] for row in rows} == {"ok"}
        assert listed == truth
