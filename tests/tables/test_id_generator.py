"""How far id generators have advanced, in states that real servers left and in other possible states."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.model.ledger_id import LayoutKind
from auditor.sources.metadata.store import UNKNOWN_COUNT, ClusterNodes, Znode
from auditor.sources.metadata.stores import open_store
from auditor.tables.cluster_state import IdRange, find_id_ranges, find_unissued_ids, is_unused_store

DATA = Path(__file__).parents[1] / "data"
LARGEST = 2**63 - 1


def nodes(**counts: int) -> ClusterNodes:
    paths = {name.replace("__", "/").replace("_", "-"): count for name, count in counts.items()}
    return ClusterNodes(
        {p: Znode(f"/l/{p}", b"", 1, 1, 5, 5, 0, 0, count) for p, count in paths.items()}, 5, ""
    )


@pytest.mark.parametrize(("corpus", "drawn"), [("interleaved-hier", 70), ("dbledger-long", 9)])
def test_dump_and_snapshot_give_number_of_issued_ids(corpus: str, drawn: int, tmp_path: Path) -> None:
    dump = tmp_path / "metadata.jsonl"
    dump.write_bytes(gzip.decompress((DATA / corpus / "metadata.jsonl.gz").read_bytes()))
    shutil.copytree(DATA / corpus / "zookeeper", tmp_path / "zookeeper")
    for uri in (f"dump://{dump}", f"zk-snapshot://{tmp_path}/zookeeper"):
        cluster = open_store(uri).cluster()
        assert find_id_ranges(cluster, LayoutKind.HIERARCHICAL) == (IdRange(0, LARGEST, drawn),)
        assert not is_unused_store(cluster)


def test_old_snapshot_with_log_gives_at_least_the_issued_ids(tmp_path: Path) -> None:
    shutil.copytree(DATA / "interleaved-hier" / "zookeeper", tmp_path / "zookeeper")
    newest = max(tmp_path.glob("**/snapshot.*"), key=lambda path: int(path.name.split(".")[1], 16))
    newest.unlink()
    [ids] = find_id_ranges(
        open_store(f"zk-snapshot://{tmp_path}/zookeeper").cluster(), LayoutKind.HIERARCHICAL
    )
    assert ids.next >= 70


@pytest.mark.parametrize(
    ("cluster", "layout", "expected"),
    [
        (nodes(idgen=7), LayoutKind.LEGACY_HIERARCHICAL, (IdRange(0, LARGEST, 7),)),
        (nodes(idgen=7), LayoutKind.FLAT, ()),  # which counts by its root
        (nodes(idgen=UNKNOWN_COUNT), LayoutKind.HIERARCHICAL, ()),
        (nodes(LAYOUT=0), LayoutKind.HIERARCHICAL, ()),
        (nodes(idgen=2**31, idgen_long=2), LayoutKind.LONG_HIERARCHICAL, ()),  # no HOB is there
        (
            nodes(idgen=2**31, idgen_long=2, idgen_long__HOB_0000000001=9, idgen_long__HOB_0000000002=3),
            LayoutKind.LONG_HIERARCHICAL,
            (IdRange(0, LARGEST, 2 << 32 | 3),),
        ),
    ],
)
def test_id_ranges_follow_generator_znodes_of_layout(
    cluster: ClusterNodes, layout: LayoutKind, expected: tuple[IdRange, ...]
) -> None:
    assert find_id_ranges(cluster, layout) == expected


def test_scan_with_gap_gives_no_id_range() -> None:
    whole = nodes(idgen=7)
    cut = ClusterNodes(whole.nodes, 5, "", (("/l", "a cut line"),))
    assert find_id_ranges(cut, LayoutKind.HIERARCHICAL) == ()
    assert not is_unused_store(ClusterNodes({}, 5, "", cut.gaps))


def test_buckets_of_etcd_count_from_one() -> None:
    ids = find_id_ranges(nodes(buckets__000=0, buckets__003=2), LayoutKind.ETCD)
    assert len(ids) == 128
    assert ids[0] == IdRange(0, 2**56 - 1, 1)
    assert ids[3] == IdRange(3 << 56, (4 << 56) - 1, (3 << 56) + 3)
    assert ids[127] == IdRange(127 << 56, LARGEST, (127 << 56) + 1)
    assert find_id_ranges(nodes(buckets__003=UNKNOWN_COUNT), LayoutKind.ETCD) == ()


def test_store_without_cluster_znodes_is_unused() -> None:
    assert is_unused_store(nodes(cookies=0, available=1))
    for name in ("LAYOUT", "idgen", "idgen_long", "buckets"):
        assert not is_unused_store(nodes(**{name: 1}))


LEDGER = "scope_id long, ledger_id long, status string"
ORPHAN = "bookie_id string, scope_id long, ledger_id long, in_m0 boolean, newer_than_scan boolean"
DRAWN = (IdRange(0, LARGEST, 70),)


def undrawn_rows(spark: SparkSession, listed: list[Any], orphans: list[Any], ids: Any = DRAWN) -> list[Any]:
    rows = find_unissued_ids(
        spark.createDataFrame(orphans, ORPHAN), spark.createDataFrame(listed, LEDGER), ids
    )
    return sorted(tuple(row) for row in rows.collect())


def test_orphans_with_ids_not_yet_issued_are_counted_by_bookie(spark: SparkSession) -> None:
    orphans = [
        ("a", 0, 69, False, False),
        ("a", 0, 70, False, False),
        ("a", 0, 99, False, False),
        ("b", 0, 70, False, True),  # made after the scan, perhaps
        ("b", 0, 71, True, False),  # the first scan listed it
        ("b", 1, 72, False, False),  # of a scope without a generator
        ("c", 0, 2**62, False, False),
    ]
    listed = [(0, 3, "ok"), (1, 500, "ok"), (0, 69, "unreadable")]
    assert undrawn_rows(spark, listed, orphans) == [("a", 2, 70, 99), ("c", 1, 2**62, 2**62)]


@pytest.mark.parametrize("spoiled", [[(0, 70, "ok")], [(None, None, "gap")], None])
def test_manually_chosen_or_unlisted_ids_give_no_undrawn_orphans(spark: SparkSession, spoiled: Any) -> None:
    listed = [] if spoiled is None else [(0, 3, "ok"), *spoiled]
    assert undrawn_rows(spark, listed, [("a", 0, 71, False, False)]) == []


def test_each_bucket_of_etcd_has_a_generator(spark: SparkSession) -> None:
    ids = find_id_ranges(nodes(buckets__003=2), LayoutKind.ETCD)
    orphans = [("a", 0, (3 << 56) + 2, False, False), ("a", 0, (3 << 56) + 3, False, False)]
    orphans += [("a", 0, (127 << 56) + 1, False, False)]
    listed = [(0, (3 << 56) + 1, "ok")]
    assert undrawn_rows(spark, listed, orphans, ids) == [("a", 2, (3 << 56) + 3, (127 << 56) + 1)]
