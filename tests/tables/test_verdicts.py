"""The class of every ledger: judged ledgers, and ledgers in which tasks found nothing missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.ledger_rows import LEDGERS, ledger_rows
from auditor.sources.metadata.store import Znode, ZnodeBatch
from auditor.spark.batches import join_batches
from auditor.tables.judged import JUDGED
from auditor.tables.verdicts import IS_WITHOUT_ENTRIES, VERDICTS, verdicts, verdicts_of_judged
from tests.tables.files import write_table_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = {"scope_id": 0, "write_quorum": 2, "ack_quorum": 2, "state": "CLOSED", "doubts": [], "unknown": []}
UNREAD = [{"bookie_id": "a:1", "count": 1, "why": "unread"}]
JUDGEMENTS: list[tuple[dict[str, Any], tuple[str, str, list[str], str]]] = [
    ({"m": 1, "mu": 1}, ("below-ack-quorum", "below-ack-quorum", [], "confirmed")),
    ({"m": 1, "mu": 1, "ack_quorum": 1}, ("below-write-quorum", "below-write-quorum", [], "confirmed")),
    ({"m": 1, "mu": 1, "doubts": ["late"]}, ("below-ack-quorum", "below-ack-quorum", [], "suspect")),
    ({"m": 2, "mu": 2}, ("entry-lost", "entry-lost", [], "confirmed")),
    ({"m": 2, "mu": 2, "state": "OPEN"}, ("below-ack-quorum", "below-ack-quorum", [], "confirmed")),
    ({"m": 0, "mu": 2, "unknown": UNREAD}, ("healthy", "entry-lost", ["a:1"], "unknown")),
    ({"m": 0, "mu": 0}, ("healthy", "healthy", [], "confirmed")),
    ({"m": 0, "mu": 0, "state": "OPEN"}, ("not-closed", "not-closed", [], "confirmed")),
]


def ledgers() -> list[dict[str, Any]]:
    """Return ledgers of every status and state, decided or not, with ids in two scopes or two znodes."""
    rows = [
        {"status": status, "state": state, "undecidable": undecidable}
        for status in ("ok", "broken", "unreadable", "misplaced", "gap")
        for state in ("CLOSED", "OPEN", "IN_RECOVERY", None)
        for undecidable in (False, True, None)
    ]
    numbered = [{**row, "ledger_id": number // 3, "scope_id": number % 2} for number, row in enumerate(rows)]
    return [*numbered, {**rows[0], "ledger_id": None, "scope_id": None}]


def healthy(row: dict[str, Any]) -> tuple[Any, ...]:
    class_name = "healthy" if row["state"] == "CLOSED" else "not-closed"
    if row["undecidable"]:
        return row["scope_id"], row["ledger_id"], row["state"], "undecided", "undecided", 0, 0, [], "unknown"
    return row["scope_id"], row["ledger_id"], row["state"], class_name, class_name, 0, 0, [], "confirmed"


def test_judgement_gives_ledger_its_class(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{**PARTS, **row, "ledger_id": number} for number, (row, _) in enumerate(JUDGEMENTS)]
    write_table_files(rows, JUDGED, tmp_path / "judged")
    verdict_table = (
        verdicts_of_judged(spark.read.parquet(str(tmp_path / "judged"))).toArrow().sort_by("ledger_id")
    )
    names = ("class", "potential_class", "unread_bookies", "confidence")
    assert verdict_table.column_names == VERDICTS.names
    assert list(zip(*(verdict_table[name].to_pylist() for name in names), strict=True)) == [
        (class_name, potential, unread, sure) for _, (class_name, potential, unread, sure) in JUDGEMENTS
    ]


def test_every_ledger_has_a_class(spark: SparkSession, tmp_path: Path) -> None:
    judged = [
        {**PARTS, "ledger_id": 0, "m": 1, "mu": 1},
        {**PARTS, "scope_id": 1, "ledger_id": 2, "m": 2, "mu": 2},
    ]
    judged += [{**PARTS, "scope_id": 7, "ledger_id": 1, "m": 2, "mu": 2}]
    sure = write_table_files(judged, JUDGED, tmp_path / "judged")
    of_judged = verdicts_of_judged(spark.read.parquet(str(tmp_path / "judged"))).toArrow().to_pylist()
    judged_verdicts = write_table_files(of_judged, VERDICTS, tmp_path / "others")
    table = verdicts(
        spark, write_table_files(ledgers(), LEDGERS, tmp_path / "ledgers"), sure, judged_verdicts
    )
    table.write(fs.LocalFileSystem(), str(tmp_path / "verdicts"))
    task_rows = spark.read.parquet(str(tmp_path / "verdicts"))
    driver_rows = join_batches((batch for read, part in table.parts for batch in read(part)), table.schema)
    assert sorted(map(str, task_rows.toArrow().to_pylist())) == sorted(map(str, driver_rows.to_pylist()))
    judged_ids = {(row["scope_id"], row["ledger_id"]) for row in judged}
    plain = [
        healthy(row)
        for row in ledgers()
        if row["ledger_id"] is not None
        and row["status"] in ("ok", "broken", "unreadable")
        and (row["scope_id"], row["ledger_id"]) not in judged_ids
    ]
    verdict_rows = [tuple(row.values()) for row in driver_rows.to_pylist()]
    assert sorted(map(str, (row for row in verdict_rows if row[:2] not in judged_ids))) == sorted(
        map(str, plain)
    )
    assert sum(row[:2] in judged_ids for row in verdict_rows) == len(judged)


FIRST_ENTRIES: list[tuple[int, ...]] = [
    (0,),
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 4),
    (0, 1, 2),
    (0, 1, 2, 3, 4),
    (5, 7),
    (5, 8),
]


def test_ledgers_without_entries_are_those_that_expect_no_entry_on_any_bookie(
    spark: SparkSession,
) -> None:
    """For any ledger that is not closed, this follows from the ends of its segments and its write quorum."""
    states = ("", "-102\tCLOSED\n", "9\tCLOSED\n", "-1\tCLOSED\n")
    values = [
        f"BookieMetadataFormatVersion\t1\n{quorum}\n3\n0\n"
        + "".join(f"{first}\ta:1\tb:1\tc:1\n" for first in firsts)
        + state
        for firsts in FIRST_ENTRIES
        for quorum in (1, 2, 3)
        for state in states
    ]
    znodes = [
        Znode(f"/ledgers/L{number:010}", value.encode(), 1, 2, 3, 4, 5, 0)
        for number, value in enumerate(values)
    ]
    batch = ledger_rows(ZnodeBatch.from_znodes(znodes), "/ledgers", LayoutKind.FLAT)
    rows = batch.to_pylist()
    asks = {row["ledger_id"] for row in rows if any(replica["groups"] for replica in row["replicas"])}
    closed = {row["ledger_id"] for row in rows if row["state"] == "CLOSED"}
    table = spark.createDataFrame(pa.Table.from_batches([batch]))
    ledger_ids = {row["ledger_id"] for row in table.where(IS_WITHOUT_ENTRIES).select("ledger_id").collect()}
    assert ledger_ids
    assert ledger_ids == {*range(len(values))} - asks - closed
