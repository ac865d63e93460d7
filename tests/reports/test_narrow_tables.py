"""Tests of report tables and sentences at a terminal of 60 columns, and of unwrapped lines for programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.report_source import Leak, LeakTotals, OwnerTotal
from auditor.model.space import DiskTotal, FileSystem, SpaceTotal, SpaceView
from auditor.model.states import SpaceClass
from auditor.model.views import Backlog, OtherReference, TopicCursor, TopicLedger, TopicView
from auditor.reports import space
from auditor.reports.layout import NameTable, name_table_lines
from auditor.reports.owners import leaks_text, topic_text, totals_text
from auditor.reports.plain_text import columns_of

WIDTH = 60
LONG = "broker-17.messaging.eu-central-1.example.com:3181"
ROOM = FileSystem(1, 270_600_000_000, 80_600_000_000, 0)
SPACE = SpaceView(
    "bookie",
    (SpaceTotal(LONG, {str(space_class): 10**12 for space_class in SpaceClass}),),
    3,
    len(SpaceClass) * 10**12,
    disks=(DiskTotal(LONG, 10**9, 10**9, 10**9, 10**9, (ROOM,)),),
)
LEDGER = TopicLedger(
    2**62, "dangling", None, "below-write-quorum", "CLOSED", 10**9, 10**12, "s3", True, Backlog.IN_BACKLOG
)
TOPIC = TopicView(
    f"shop/orders/{'returns-' * 8}",
    f"/managed-ledgers/shop/orders/persistent/{'returns-' * 8}",
    [replace(LEDGER, reachability="unavailable")],
    [TopicCursor("audit-of-" + "subscriptions" * 4, (2**62, 7), 2**61, None)],
    [OtherReference("schema", 2**60, "of " + "a long name " * 6, "owned", None)],
    unlisted_reason="the znode of the subscriptions could not be read: no permission",
)
LEAKS = [
    Leak(2**62, "confirmed", f"topic {LONG}", "/managed-ledgers/x", 1, 10**12, 10**9, "CLOSED", LONG, None)
]


def texts(width: int | None) -> dict[str, str]:
    total = OwnerTotal("shop/" + "orders" * 9, 10**6, 10**12, 7, 10**9, findings={"error": 10**6})
    return {
        "space": space.text(SPACE, width),
        "topic": topic_text(TOPIC, width),
        "totals": totals_text([total], "namespace", width),
        "leaks": "".join(leaks_text(LeakTotals(2, 1, 6, 6, 31), LEAKS, 2, width)),
    }


@pytest.mark.parametrize("name", texts(WIDTH))
def test_text_fits_the_terminal_and_keeps_its_numbers(name: str) -> None:
    narrow, whole = texts(WIDTH)[name], texts(None)[name]
    assert max(map(columns_of, narrow.splitlines())) <= WIDTH
    assert max(map(columns_of, whole.splitlines())) > WIDTH
    for number in ("4611686018427387904", "1,000,000,000", "1.0 TB", "80.6 GB"):
        assert (number in whole) == (number in narrow), number


def test_wide_cells_become_sentences_below_the_name() -> None:
    table = NameTable(("bookie", "bytes", "free"), [("bk-1:3181", "12 TB", "80.6 GB of 270.6 GB")])
    assert name_table_lines(table, 27) == ["bookie bk-1:3181", "  bytes 12 TB,", "  free 80.6 GB of 270.6 GB"]
    assert name_table_lines(table, 28)[0] == "bookie"
    assert name_table_lines(table, None)[1] == "bk-1:3181  12 TB  80.6 GB of 270.6 GB"
