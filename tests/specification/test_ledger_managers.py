"""The internals page: how ZooKeeper stores ledgers, and which ledgers a bookie collects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from auditor.codecs.store import layout
from auditor.keys.ledger_path import FLAT, LEGACY_HIERARCHICAL
from auditor.keys.ledger_tree import classify
from auditor.model.ledger_id import LayoutKind
from auditor.sources.metadata.store import ClusterNodes, Znode
from auditor.tables.cluster_state import IdRange, find_id_ranges
from auditor.tables.gc_listing import find_reached_ranges
from auditor.tables.orphans import orphans
from auditor.tables.scans import doubtful_ids
from tests.specification.sentences import sentence
from tests.tables.files import pairs_of
from tests.tables.rows import availability, index, ledger, ledgers
from tests.tables.test_scopes_and_states import SCAN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@sentence("IN-10")
def test_a_flat_layout_keeps_all_ledgers_as_children_of_one_znode() -> None:
    assert {"/" in FLAT.to_path(ledger_id) for ledger_id in (0, 1, 2**31, 2**63 - 1)} == {False}


@sentence("IN-11")
def test_a_hierarchical_layout_keeps_ledgers_below_two_levels() -> None:
    assert {LEGACY_HIERARCHICAL.to_path(ledger_id).count("/") for ledger_id in (0, 9_999_999_999)} == {2}


@sentence("IN-12")
def test_layout_data_names_layout_kind() -> None:
    kinds = [layout.decode(f"1\n{name}:1".encode()).kind for name in ("flat", "hierarchical")]
    assert kinds == [LayoutKind.FLAT, LayoutKind.HIERARCHICAL]


@sentence("IN-13")
def test_flat_ledger_name_begins_with_l() -> None:
    assert FLAT.to_path(1) == "L0000000001"
    assert classify(LayoutKind.FLAT, "X0000000001").ledger_id is None


@sentence("IN-14")
def test_index_ledger_without_metadata_is_orphan(spark: SparkSession) -> None:
    metadata = [ledger(2, {"bk1": {0}})]
    indexes = [index(2, "bk1", {0}), index(3, "bk1", {0})]
    first, rows = ledgers(spark, *metadata), availability(spark, *indexes)
    pairs = pairs_of(spark, metadata, indexes)
    orphan_rows = orphans(pairs, rows, first, None, None, SCAN, {"bk1": SCAN}, doubtful_ids(first, None))
    assert [row["ledger_id"] for row in orphan_rows.collect()] == [3]


@sentence("IN-15")
def test_idgen_znode_gives_one_id_range() -> None:
    idgen = Znode("/ledgers/idgen", b"", 1, 1, 5, 5, 0, 0, made=70)
    [ids] = find_id_ranges(ClusterNodes({"idgen": idgen}, 5, "0x1"), LayoutKind.HIERARCHICAL)
    assert ids == IdRange(0, 2**63 - 1, 70)


@sentence("IN-16")
def test_hierarchical_path_of_id_has_ten_digits() -> None:
    assert LEGACY_HIERARCHICAL.to_path(1).replace("/", "").replace("L", "") == "0000000001"


@sentence("IN-17")
def test_an_id_is_split_into_two_four_and_four_digits() -> None:
    assert LEGACY_HIERARCHICAL.to_path(1234567890) == "12/3456/L7890"


@sentence("IN-18")
def test_three_path_parts_give_ledger_id() -> None:
    place = classify(LayoutKind.HIERARCHICAL, "12/3456/L7890".replace("12/", "01/"))
    assert (place.kind, place.ledger_id) == ("ledger", 134567890)


@sentence("IN-19")
def test_ledger_1_has_path_of_the_example() -> None:
    assert LEGACY_HIERARCHICAL.to_path(1) == "00/0000/L0001"
    assert LEGACY_HIERARCHICAL.from_path("00/0000/L0001") == 1


@sentence("IN-20")
def test_a_znode_has_at_most_ten_thousand_ledgers() -> None:
    parents = [LEGACY_HIERARCHICAL.to_path(ledger_id).rpartition("/")[0] for ledger_id in (0, 9_999, 10_000)]
    assert parents == ["00/0000", "00/0000", "00/0001"]
    place = classify(LayoutKind.HIERARCHICAL, "00/0001")
    assert (place.low, place.high) == (10_000, 19_999)


@sentence("IN-21")
def test_collection_stops_at_range_that_ends_below_previous() -> None:
    # Ranges that ascend are all compared; one that ends below the one before it ends the pass.
    ends = np.array([9_999, 19_999, 15_000, 29_999])
    walk = find_reached_ranges(ends, np.zeros(4, np.bool_))
    assert walk.is_reached.tolist() == [True, True, False, False]
