"""Audits of running clusters, by each way to their indexes, agree with a brute force over bookie reports."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.corpora.audited import FinishedRun, Row, assert_extra, entries, missing
from tests.corpora.brute_force import (
    World,
    assert_classes,
    foreign,
    judge,
    members,
    orphans,
    stale,
    surplus,
    undecided,
)
from tests.live.metadata import ETCD
from tests.live.requests import READS
from tests.live.scenario import Kind, LiveCluster, live_cluster
from tests.live.traces import Traces, traces
from tests.live.ways import COMBINATIONS, DISK, Recorded, Way, by_commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASSES = ("entry-lost", "below-ack-quorum", "below-write-quorum")
OVER_THE_WIRE = (*CLASSES, "copy-lagging", "stale-segment", "surplus-entries")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    ids = [f"{kind.name}-{way.name}" for kind, way in COMBINATIONS]
    metafunc.parametrize(("cluster", "way"), COMBINATIONS, indirect=True, scope="module", ids=ids)


@pytest.fixture(scope="module")
def way(request: pytest.FixtureRequest) -> Way:
    requested_way: Way = request.param
    return requested_way


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Kind, LiveCluster]]:
    """Yield one cluster of each kind, all started at the same time."""
    kinds = list(dict.fromkeys(kind for kind, _ in COMBINATIONS))
    with ExitStack() as running:
        managers = [live_cluster(kind, tmp_path_factory.mktemp("live")) for kind in kinds]
        with ThreadPoolExecutor(len(kinds)) as pool:
            started_clusters = list(pool.map(running.enter_context, managers))
        yield dict(zip(kinds, started_clusters, strict=True))


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, clusters: dict[Kind, LiveCluster]) -> LiveCluster:
    return clusters[request.param]


@pytest.fixture(scope="module")
def at_first(clusters: dict[Kind, LiveCluster]) -> dict[Kind, Traces]:
    return {kind: traces(cluster) for kind, cluster in clusters.items()}


@pytest.fixture(scope="module")
def before(cluster: LiveCluster, at_first: dict[Kind, Traces]) -> Traces:
    return at_first[cluster.kind]


@pytest.fixture(scope="module")
def by_disk(
    cluster: LiveCluster, before: Traces, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> FinishedRun:
    return DISK.audit(cluster, spark, tmp_path_factory.mktemp("disk"))


@pytest.fixture(scope="module")
def recorded(
    clusters: dict[Kind, LiveCluster],
    at_first: dict[Kind, Traces],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[Kind, Recorded]:
    cluster_ways = [(clusters[kind], way) for kind, way in COMBINATIONS if way.by_commands]
    return by_commands(cluster_ways, tmp_path_factory.mktemp("commands"))


@pytest.fixture(scope="module")
def audited(
    request: pytest.FixtureRequest,
    cluster: LiveCluster,
    by_disk: FinishedRun,
    way: Way,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> FinishedRun:
    if way.by_commands:
        recorded: dict[Kind, Recorded] = request.getfixturevalue("recorded")
        return recorded[cluster.kind]
    return by_disk if way is DISK else way.audit(cluster, spark, tmp_path_factory.mktemp(way.name))


@pytest.fixture(scope="module")
def world(cluster: LiveCluster, way: Way) -> World:
    """Return the part of the true state that this way shows."""
    return way.sees(cluster, cluster.world())


def pairs(rows: list[Row]) -> set[tuple[int, str]]:
    return {(row["ledger_id"], row["bookie_id"]) for row in rows}


def test_availability_rows_match_the_entries_that_bookies_served(
    audited: FinishedRun, world: World, way: Way
) -> None:
    rows = [row for row in audited.table(way.table) if row["ledger_id"] is not None]
    # What RocksDB's locations have of a ledger that its ledger index lacks is held by nobody.
    served = [row for row in rows if row["state"] != "not-indexed"]
    read = {(row["ledger_id"], row["bookie_id"]): entries(row["groups"] or b"") for row in served}
    assert len({(row["ledger_id"], row["bookie_id"]) for row in rows}) == len(rows)
    expected = {pair: index.entries for pair, index in world.indexes.items()}
    assert {pair: entry_ids for pair, entry_ids in read.items() if entry_ids} == {
        pair: entry_ids for pair, entry_ids in expected.items() if entry_ids
    }
    unread = {(row["ledger_id"], row["bookie_id"]) for row in rows if row["state"] != "ok"}
    assert unread == {pair for pair, index in world.indexes.items() if not index.readable}


def test_every_ledger_has_the_class_of_the_brute_force(audited: FinishedRun, world: World) -> None:
    assert_classes(world, audited.verdicts())


def test_copy_findings_name_every_missing_entry(
    audited: FinishedRun, world: World, cluster: LiveCluster
) -> None:
    expected = {}
    for ledger in world.ledgers:
        verdict = judge(world, ledger)
        if verdict.name in CLASSES:
            expected[ledger] = (verdict.name, verdict.missing)
    findings = {
        row["ledger_id"]: (row["id"], missing(row)) for id in CLASSES for row in audited.findings_of(id)
    }
    assert findings == expected
    if cluster.kind.layout != ETCD:
        # etcd keeps no times: any ledger may have changed after its index was written.
        assert {row["confidence"] for id in CLASSES for row in audited.findings_of(id)} == {"confirmed"}
    undecideds = {row["ledger_id"] for row in audited.findings_of("replication-undecided")}
    assert undecideds == {ledger for ledger in world.ledgers if undecided(world, ledger)}


def test_missing_copies_of_open_ledgers_are_lagging(audited: FinishedRun, world: World) -> None:
    lagging = {ledger for ledger in world.ledgers if judge(world, ledger).lagging}
    assert {row["ledger_id"] for row in audited.findings_of("copy-lagging")} == lagging


def test_stale_and_surplus_entries_are_reported_on_their_bookie(audited: FinishedRun, world: World) -> None:
    assert_extra(audited, "stale-segment", "stale", stale(world))
    assert_extra(audited, "surplus-entries", "surplus", surplus(world))
    assert not audited.findings_of("entries-past-end")


def test_extra_ledgers_are_reported_where_bookies_list_their_ledgers(
    audited: FinishedRun, world: World, way: Way
) -> None:
    assert pairs(audited.findings_of("orphan-ledger")) == (orphans(world) if way.lists_ledgers else set())
    assert pairs(audited.findings_of("over-replicated-ledger")) == (
        foreign(world) if way.lists_ledgers else set()
    )


def test_damaged_index_is_reported_where_bookies_list_their_ledgers(
    audited: FinishedRun, cluster: LiveCluster, way: Way
) -> None:
    id = "ledger-not-indexed" if cluster.has_rocksdb else "index-unreadable"
    assert pairs(audited.findings_of(id)) == (set(cluster.damaged) if way.lists_ledgers else set())


def test_stopped_bookie_is_reported_as_down(audited: FinishedRun, cluster: LiveCluster) -> None:
    assert [row["bookie_id"] for row in audited.findings_of("bookie-down")] == [cluster.stopped]
    assert not audited.findings_of("ghost-bookie")


def test_audit_reports_no_unexpected_findings(audited: FinishedRun, way: Way) -> None:
    expected = {
        *CLASSES,
        "replication-undecided",
        "copy-lagging",
        "stale-segment",
        "surplus-entries",
        "orphan-ledger",
        "over-replicated-ledger",
        "index-unreadable",
        "ledger-not-indexed",
        "bookie-down",
        "mark-missing",
        "no-auditor",
        "too-few-writable-bookies",
        "on-unregistered-bookie",
        *(() if way.lists_ledgers else ("bookie-unread",)),  # the one that was stopped
    }
    assert {finding.id for finding in audited.finding_keys()} <= expected


def test_findings_equal_those_of_the_audit_by_disk(
    audited: FinishedRun, by_disk: FinishedRun, cluster: LiveCluster, way: Way
) -> None:
    """Over the wire only findings of copies and excess entries count, if all the ledger's bookies run."""
    ledgers = cluster.world().ledgers
    shown = {ledger for ledger, plain in ledgers.items() if cluster.stopped not in members(plain)}

    def comparable_rows(rows: list[Row]) -> list[str]:
        names = ["id", "severity", "scope_id", "ledger_id", "bookie_id", "missing", "fingerprint"]
        # etcd keeps no times, so that what is seen by disk is suspect; an answer has a time of its own.
        names += [] if cluster.kind.layout == ETCD else ["confidence"]
        if not way.lists_ledgers:
            rows = [row for row in rows if row["id"] in OVER_THE_WIRE and row["ledger_id"] in shown]
        return sorted(repr([row[name] for name in names]) for row in rows)

    assert comparable_rows(audited.findings()) == comparable_rows(by_disk.findings())


def test_the_audit_wrote_nothing(audited: FinishedRun, cluster: LiveCluster, before: Traces) -> None:
    assert traces(cluster).files == before.files
    assert cluster.metadata.writes_after(before.position) == []
    if isinstance(audited, Recorded):  # by its processes' system calls, all commands beside it
        requests_by_kind = audited.requests(cluster)
        print(requests_by_kind, len(audited.record.written), "paths written")
        assert requests_by_kind.keys() == {"bookies", "etcd" if cluster.kind.layout == ETCD else "ZooKeeper"}
        assert not {
            (kind, operation)
            for kind, requests in requests_by_kind.items()
            for operation in requests.keys() - READS[kind]
        }
        assert audited.record.outside(str(audited.own)) == {}
