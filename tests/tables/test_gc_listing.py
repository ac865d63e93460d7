"""Ledger trees that make the server list another thing than what is there: each fault, and none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from auditor.keys.ledger_tree import MAX_LEDGER_ID, classify, to_path
from auditor.model.layout import LayoutKind
from auditor.tables.gc_listing import listed_ids, odd, outcome, places, ranges
from tests.checks.tables_builder import frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLAT, LEGACY, HIERARCHICAL, LONG, ETCD = LayoutKind


def row(layout: LayoutKind, path: str) -> dict[str, object]:
    """What a scan says of a path below the root."""
    place = classify(layout, path)
    assert place.kind in ("ledger", "malformed"), path
    status = "ok" if place.kind == "ledger" else "misplaced"
    return {"scope_id": place.scope_id, "ledger_id": place.ledger_id, "path": f"/l/{path}", "status": status}


@pytest.mark.parametrize(
    ("layout", "ledgers", "others", "wanted", "reach", "overflows"),
    [
        (FLAT, [3, 7], [], [3, 7], None, False),
        (FLAT, [3, 7], ["L12"], [3, 7, 12], None, False),
        (FLAT, [], ["L-5"], [], -1, False),
        (FLAT, [3, MAX_LEDGER_ID], [], [3, MAX_LEDGER_ID], None, True),
        (HIERARCHICAL, [1, 70_000, 2**40], ["00/0000/X12"], [1, 12, 70_000, 2**40], None, False),
        # In the long tree, and below the last of the short one: judged by then, and not there.
        (HIERARCHICAL, [1, 70_000], ["000/0000/0000/0000/L0005"], [1, 70_000], 70_000, False),
        # The directory ends above the short tree, so the pass goes on; what of it lies below is too late.
        (
            HIERARCHICAL,
            [1, 15_000],
            ["000/0000/0000/0001/L2000", "000/0000/0000/0001/L9000"],
            [1, 15_000, 19_000],
            None,
            False,
        ),
        # A directory that is no number ends the listing of the short tree.
        (HIERARCHICAL, [1, 20_000, 2**40], ["00/0001x/L0001"], [1], 1, False),
        (LONG, [2**40], ["999/9999/9999/9999/L9999"], [2**40], 2**40, False),
        (LONG, [5, 2**62, MAX_LEDGER_ID], [], [5, 2**62, MAX_LEDGER_ID], None, True),
        (ETCD, [5, 2**62, MAX_LEDGER_ID], [], [5, 2**62], None, False),
        (ETCD, [*range(150)], ["ledgers/00000000-0000-0000-0000-00000000007x"], [*range(100)], 99, False),
        (ETCD, [1, 2], ["ledgers/zzz"], [1, 2], None, False),
    ],
)
def test_what_a_pass_takes_for_listed(
    spark: SparkSession,
    layout: LayoutKind,
    ledgers: list[int],
    others: list[str],
    wanted: list[int],
    reach: int | None,
    overflows: bool,
) -> None:
    rows = [row(layout, path) for path in [*(to_path(layout, each) for each in ledgers), *others]]
    scan = frame(spark, "ledgers", rows)
    assert odd(scan).isEmpty() == (not others and MAX_LEDGER_ID not in ledgers)
    found = places(scan, layout, "/l")
    made = ranges(found)
    assert sorted(each["ledger_id"] for each in listed_ids(found, made).collect()) == wanted
    [end] = outcome(made).collect()
    assert (end["reach"], end["overflows"]) == (reach, overflows)


MOVED = [3, 4, 10_007, 20_000, 123_456_789]
STAYED = [5, 15_000]


@pytest.mark.parametrize(
    ("layout", "tree", "stayed", "deleted"),
    [
        # Of seven ledgers these lay in the tree of another layout when bookies 4.17.2 collected, with
        # verifyMetadataOnGC and without, on SortedLedgerStorage and (the last) on DbLedgerStorage.
        *((layout, tree, stayed, MOVED) for layout, tree in (
            (FLAT, HIERARCHICAL), (FLAT, LONG), (LEGACY, FLAT), (LEGACY, LONG), (HIERARCHICAL, FLAT),
            (LONG, FLAT), (LONG, HIERARCHICAL),
        ) for stayed in ([], STAYED)),
        # It lists the long tree behind the short one, and breaks off at a range that ends too low.
        (HIERARCHICAL, LONG, [], []),
        (HIERARCHICAL, LONG, STAYED, [3, 4, 10_007]),
    ],
)  # fmt: skip
def test_what_real_bookies_deleted_of_a_tree_that_layout_does_not_name_is_what_is_foretold(
    spark: SparkSession, layout: LayoutKind, tree: LayoutKind, stayed: list[int], deleted: list[int]
) -> None:
    moved = sorted({*MOVED, *STAYED} - set(stayed))
    paths = [*(to_path(layout, each) for each in stayed), *(to_path(tree, each) for each in moved)]
    found = places(frame(spark, "ledgers", [row(layout, path) for path in paths]), layout, "/l")
    made = ranges(found)
    seen = {each["ledger_id"] for each in listed_ids(found, made).collect()}
    [end] = outcome(made).collect()
    reach = MAX_LEDGER_ID if end["reach"] is None else end["reach"]
    gone = [each for each in (*MOVED, *STAYED) if each not in seen and each <= reach]
    assert gone == ([*deleted, *STAYED] if deleted and not stayed else deleted)
