"""Ledgers of several scopes in one cluster: the faults of each are found as if the others were not there.

The same faults exist three times: in scope 0 of the twin cluster, and in two of the mixed cluster.
In the mixed one, every id with a fault in one scope belongs to a healthy ledger in all others. The faults of
one scope have negative ids. So the tests fail if a join confuses two ledgers of one id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest

from auditor.collect.collect import collect
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.ledgers import list_ledgers
from tests.cli.test_doors import bkaudit
from tests.corpora.audited import FinishedRun, audit, entries
from tests.corpora.cluster import Cluster, Ledger, index_bytes
from tests.corpora.generator import on_disk, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOKIES = A, B, C, D = tuple(f"bk{letter}.example:3181" for letter in "abcd")
IDS = range(1, 14)
STOCK = range(1000, 1004)  # ledgers of scope 0 in both clusters
FIRST, SECOND, HEALTHY = 1, -3, 2**63 - 1
SCOPES = (0, FIRST, SECOND, HEALTHY)
UNREADABLE = b"BookieMetadataFormatVersion\t3\n\x05x"
IN_ETCD = ("etcd-live", "etcd-snapshot", "etcd-dump")
# Every ledger of a live etcd may have changed up to the moment at which it is read.
AFTER_ANY_READING = "2200-01-01T00:00:00Z"


def faults(cluster: Cluster, ledger_of: Callable[[int], Ledger]) -> None:
    """Add one ledger of each kind; ``ledger_of`` returns the ledger of a number."""
    three, two = {0: [A, B, C]}, {0: [A, B, C], 10: [A, B, D]}
    cluster.ledger(ledger_of(1), three, (3, 2), 9)
    cluster.ledger(ledger_of(2), three, (3, 2), 9, without={B: [4]})
    cluster.ledger(ledger_of(3), three, (3, 2), 9, without={A: [4], B: [4, 5]})
    cluster.ledger(ledger_of(4), three, (2, 2), 9, without={A: range(10), B: range(10), C: range(10)})
    cluster.ledger(ledger_of(5), three, (3, 2), 9, extra={D: range(10)})
    cluster.hold(ledger_of(6), A, range(3))
    cluster.ledger(ledger_of(7), two, (3, 2), 19, extra={C: [12, 13]})
    cluster.record(ledger_of(8), UNREADABLE)
    cluster.hold(ledger_of(8), A, range(10))
    cluster.ledger(ledger_of(9), two, (3, 2), None, state="OPEN", written=20, without={A: [2]})
    cluster.ledger(ledger_of(10), three, (2, 3), 9)
    cluster.ledger(ledger_of(11), two, (3, 2), 19, extra={A: [30]})


def spoiled_files(cluster: Cluster, ledger_of: Callable[[int], Ledger]) -> None:
    """Add the faults that only index files can have."""
    for number, data in ((12, b"spoiled"), (13, index_bytes(range(10))[:1029])):
        cluster.ledger(ledger_of(number), {0: [A, B, C]}, (3, 2), 9)
        cluster.index(ledger_of(number), C, data)


def misled_rows(cluster: Cluster, ledger_of: Callable[[int], Ledger]) -> None:
    """Add a fault of DbLedgerStorage: ledgers in a directory in which their bookie does not look."""
    for number in (12, 13):
        cluster.ledger(ledger_of(number), {0: [A, B, C]}, (3, 2), 9)
        cluster.misled.add((ledger_of(number), C))


Fault = Callable[[Cluster, Callable[[int], Ledger]], None]


def clusters(*fault_makers: Fault) -> tuple[Cluster, Cluster]:
    """Return the twin and the mixed cluster."""
    twin, mixed = base_cluster(), base_cluster()
    for fault in fault_makers:
        fault(twin, lambda number: number)
        fault(mixed, lambda number: LedgerId(number, FIRST))
        fault(mixed, lambda number: LedgerId(-number, SECOND))
    for number in IDS:
        healthy: list[Ledger] = [number, *(LedgerId(number, scope) for scope in (SECOND, HEALTHY))]
        healthy += [LedgerId(-number, scope) for scope in (FIRST, HEALTHY)]
        for ledger in healthy:
            mixed.ledger(ledger, {0: [D, C, B]}, (2, 2), 30)
    return twin, mixed


def base_cluster() -> Cluster:
    cluster = Cluster(layout="longhierarchical", ledger_dirs=("ledgers0", "ledgers1"))
    for bookie in BOOKIES:
        cluster.bookie(bookie)
    for ledger in STOCK:
        cluster.ledger(ledger, {0: BOOKIES}, (4, 2), 9)
    return cluster


class ScopelessFinding(NamedTuple):
    """A finding without the name of its ledger's scope, and with the ledger's number."""

    id: str
    number: int
    bookie: str | None
    severity: str
    confidence: str
    missing: tuple[tuple[str, frozenset[int]], ...]
    unknown: tuple[str, ...]


def scope_findings(run: FinishedRun, scope: int, sign: int = 1) -> list[ScopelessFinding]:
    rows = [row for row in run.findings() if row["ledger_id"] is not None and row["scope_id"] == scope]
    return sorted(
        ScopelessFinding(
            row["id"],
            sign * row["ledger_id"],
            row["bookie_id"],
            row["severity"],
            row["confidence"],
            tuple((replica["bookie_id"], entries(replica["groups"])) for replica in row["missing"]),
            tuple(row["unknown"]),
        )
        for row in rows
    )


class Pair(NamedTuple):
    """The runs over both clusters, and the mixed cluster's metadata in each store."""

    twin: FinishedRun
    mixed: FinishedRun
    cluster: Cluster
    uris: dict[str, str]


@pytest.fixture(scope="module")
def in_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Audit ZooKeeper's dump and index files. Ledger 5 of scope 0 is locked: a copy may be in progress."""
    twin, mixed = clusters(faults, spoiled_files)
    mixed.lock(5)
    runs = []
    for cluster in (twin, mixed):
        root = cluster.write(tmp_path_factory.mktemp("cluster"))
        runs.append(audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", root / "run"))
    return Pair(runs[0], runs[1], mixed, {})


@pytest.fixture(scope="module")
def in_databases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Yield audits on etcd and RocksDB: the twin saved and on disks, the mixed one live and collected."""
    twin, mixed = clusters(faults, misled_rows)
    work = tmp_path_factory.mktemp("databases")
    collect([str(on_disk(mixed, work / "mixed", "rocksdb"))], str(work / "collected"))
    with stored(mixed, work / "many", *IN_ETCD) as uris, stored(twin, work / "one", "etcd-snapshot") as twins:
        runs = [
            audit(spark, metadata, bookies, work / name, index_time=AFTER_ANY_READING, witness="no")
            for name, metadata, bookies in (
                ("run-of-twin", twins["etcd-snapshot"], on_disk(twin, work / "twin", "rocksdb")),
                ("run-of-mixed", uris["etcd-live"], work / "collected"),
            )
        ]
        yield Pair(runs[0], runs[1], mixed, uris)


@pytest.fixture(
    params=[
        pytest.param("in_files", marks=pytest.mark.spark),
        pytest.param("in_databases", marks=pytest.mark.server),
    ]
)
def pair(request: pytest.FixtureRequest) -> Pair:
    result: Pair = request.getfixturevalue(request.param)
    return result


def test_each_scope_has_the_findings_of_its_twin_in_scope_0(
    pair: Pair, request: pytest.FixtureRequest
) -> None:
    expected = scope_findings(pair.twin, 0)
    in_files = "in_files" in request.node.name
    assert {finding.id for finding in expected} >= {
        "below-ack-quorum",
        "below-write-quorum",
        "entry-lost",
        "metadata-unreadable",
        "orphan-ledger",
        "over-replicated-ledger",
        "quorum-invalid",
        *(("index-unreadable", "replication-undecided") if in_files else ()),
    }
    # Of two there is nothing but what is left behind, which is counted by bookie; so are ledgers that lie in
    # another directory of their bookie.
    by_bookie = {1, 7, 11} if in_files else {1, 7, 11, 12, 13}
    assert {finding.number for finding in expected} == set(IDS) - by_bookie
    assert in_files == (not pair.twin.findings_of("ledgers-in-wrong-directory"))
    assert {7, 11} <= {number for _, number, _ in extra(pair.twin, 0)}
    assert scope_findings(pair.mixed, FIRST) == expected
    assert scope_findings(pair.mixed, SECOND, -1) == expected
    scopes = {row["scope_id"] for row in pair.mixed.findings() if row["ledger_id"] is not None}
    assert scopes == {FIRST, SECOND}


def extra(run: FinishedRun, scope: int, sign: int = 1) -> dict[tuple[str, int, str], frozenset[int]]:
    """Return the extra entries of a scope's ledgers on bookies, by column of judged, ledger and bookie."""
    return {
        (column, sign * row["ledger_id"], replica["bookie_id"]): entries(replica["groups"])
        for row in run.table("judged")
        if row["scope_id"] == scope
        for column in ("stale", "surplus", "past_end")
        for replica in row[column]
    }


def test_each_scope_has_the_leftover_entries_of_its_twin_in_scope_0(pair: Pair) -> None:
    expected = extra(pair.twin, 0)
    assert {column for column, _, _ in expected} >= {"stale", "surplus"}
    assert extra(pair.mixed, FIRST) == expected
    assert extra(pair.mixed, SECOND, -1) == expected


def test_bookie_findings_are_the_same_in_twin_and_mixed_cluster(pair: Pair) -> None:
    def of_bookies(run: FinishedRun) -> list[tuple[str, str | None]]:
        rows = (row for row in run.findings() if row["ledger_id"] is None)
        # The mixed cluster alone has a replication queue, and so can lack an auditor.
        return [(row["id"], row["bookie_id"]) for row in rows if row["id"] != "no-auditor"]

    assert of_bookies(pair.mixed) == of_bookies(pair.twin)


def test_each_ledger_of_each_scope_has_its_own_verdict(pair: Pair) -> None:
    classes = {number: row["class"] for number, row in pair.twin.verdicts().items() if number in IDS}
    verdicts = {(row["scope_id"], row["ledger_id"]): row["class"] for row in pair.mixed.table("verdicts")}
    expected = {(FIRST, number): name for number, name in classes.items()}
    expected |= {(SECOND, -number): name for number, name in classes.items()}
    healthy = {(0, number) for number in (*IDS, *STOCK)} | {(FIRST, -number) for number in IDS}
    healthy |= {(SECOND, number) for number in IDS}
    healthy |= {(HEALTHY, sign * number) for number in IDS for sign in (1, -1)}
    assert verdicts == expected | dict.fromkeys(healthy, "healthy")


def test_report_findings_and_explain_show_the_scope_of_a_ledger(pair: Pair) -> None:
    run = str(pair.mixed.out)
    report = json.loads((pair.mixed.out / "report.json").read_text())
    lines = bkaudit("report", run, "--format", "jsonl").stdout.splitlines()
    for shown in (report["findings"], list(map(json.loads, lines))):
        id_pairs = {(finding["scope_id"], finding["ledger_id"]) for finding in shown}
        assert {("1", "3"), ("-3", "-3")} <= id_pairs
    columns = {row["ledger_qualified_name"] for row in pair.mixed.findings() if row["ledger_id"] is not None}
    assert {"fffffffffffffffdfffffffffffffffd", "00000000000000010000000000000003"} <= columns
    for ledger in (LedgerId(3, FIRST), LedgerId(-3, SECOND)):
        by_numbers = ("--ledger-id", str(ledger.id), "--ledger-scope-id", str(ledger.scope))
        for name in (("--ledger-qualified-name", ledger.qualified_name), by_numbers):
            outcome = bkaudit("explain", "ledger", *name, "--run", run)
            assert outcome.exit_code == 0, outcome.output
            assert f"ledger {ledger.id} of scope {ledger.scope}: below-ack-quorum" in outcome.stdout
            assert ledger.qualified_name in outcome.stdout


@pytest.mark.parametrize("kind", IN_ETCD)
def test_etcd_listing_of_a_scope_has_only_its_ledgers(in_databases: Pair, kind: str) -> None:
    uri = in_databases.uris[kind]
    expected = {
        ledger if isinstance(ledger, LedgerId) else LedgerId(ledger)
        for ledger in in_databases.cluster.ledgers.values()
    }
    ledgers = []
    for scope in (*SCOPES, 77):
        listed = list(list_ledgers(uri, scope))
        assert {stored.ledger.scope for stored in listed if not isinstance(stored, tuple)} <= {scope}
        ledgers += [stored.ledger for stored in listed if not isinstance(stored, tuple)]
        assert len(ledgers) == len(set(ledgers))
    assert set(ledgers) == expected
