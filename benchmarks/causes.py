"""Processor time to assign causes to findings, sort, write and count them, against the same without causes.

There is one finding for each of a million ledgers: its copy on a bookie is missing or unknown. Each finding
is compared with the largest number of causes that a run reports: unread bookies, and fifty bookies that lost
their data. The variants with and without causes read the same rows in one session with a driver of 2 GB. Part
of the rows warms the session up first. The time is the processor time of this process, Java and the Python
workers. Other work on the machine hardly changes it. ``BKAUDIT_FINDINGS`` sets the number of findings.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from auditor.audit.check_stage import claim_causes, count_causes
from auditor.findings.causes import MOST
from auditor.findings.table import FOUND, add_fingerprints
from auditor.spark.session import build_session
from benchmarks.cluster import Longs
from benchmarks.large_tables import processor_seconds
from benchmarks.measure import Line, alternate
from benchmarks.memory import PeakMemory
from tests.checks.tables_builder import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FINDINGS = int(os.environ.get("BKAUDIT_FINDINGS", "1_000_000"))
BOOKIES, EMPTY_BOOKIES = 500, 50
UNREAD = MOST - 1
MEMORY = "2g"
_ROWS = 500_000
_NAMES = [f"10.0.{number // 250}.{number % 250 + 1}:3181" for number in range(BOOKIES)]
_GROUPS = np.array([0, 0], ">i8").tobytes() + np.array([1, 0], ">i4").tobytes()


def lines() -> Iterator[Line]:
    """Yield one line: findings with causes against findings without."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder, PeakMemory() as used:
        work = Path(folder)
        _write(work / "found")
        spark = build_session("local[2]", driver_memory=MEMORY, log=work / "spark.log")
        try:
            ways = _Ways(spark, work)
            ways.warm()
            without, with_causes = alternate(
                ways.without, ways.with_causes, rounds=1, clock=processor_seconds
            )
        finally:
            spark.stop()
    explained = FINDINGS // BOOKIES * (UNREAD + EMPTY_BOOKIES) + UNREAD
    if ways.counted != explained:
        sys.exit(f"causes: {ways.counted:,} findings have one, and {explained:,} should")
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Line(
        f"{MOST} causes of {FINDINGS:,} findings, {MEMORY} driver, processor time", FINDINGS, "findings",
        with_causes, "without causes", FINDINGS, without,
        most=True, java_mib=used.peaks["java"], python_mib=driver,
        note=f"{with_causes:.1f} and {without:.1f} s; {ways.counted:,} have a cause; Python: the driver",
    )  # fmt: skip


class _Ways:
    """The two variants of writing the findings table from the rows of all checks."""

    def __init__(self, spark: SparkSession, work: Path) -> None:
        self._spark, self._work = spark, work
        bookie_findings = FINDINGS // BOOKIES
        empty_bookies = range(UNREAD, UNREAD + EMPTY_BOOKIES)
        rows: list[dict[str, Any]] = [
            {
                "bookie_id": name, "read": "unread" if place < UNREAD else "read", "absent_directories": [],
                "replicas": bookie_findings if place in empty_bookies else 100 * bookie_findings,
            }
            for place, name in enumerate(_NAMES)
        ]  # fmt: skip
        self._tables = tables(spark, bookies=rows)
        self.counted = 0

    def warm(self) -> None:
        """Run both variants on a part of the rows, so that Spark compiles its code before the measurement."""
        few = self._spark.read.parquet(
            *(str(self._work / "found" / name) for name in ("part-0.parquet", "unread.parquet"))
        )
        add_fingerprints(few, "x", claim_causes(few, self._tables)).write.parquet(str(self._work / "warm"))

    def with_causes(self) -> None:
        findings = self._spark.read.parquet(str(self._work / "found"))
        claims = claim_causes(findings, self._tables)
        add_fingerprints(findings, "x", claims).write.mode("overwrite").parquet(str(self._work / "with"))
        causes = count_causes(self._spark.read.parquet(str(self._work / "with")), claims)
        self.counted = sum(cause["count"] for cause in causes)

    def without(self) -> None:
        findings = self._spark.read.parquet(str(self._work / "found"))
        add_fingerprints(findings, "x").write.mode("overwrite").parquet(str(self._work / "without"))


def _write(place: Path) -> None:
    """Write the rows of the checks: one finding for each ledger and one for each unread bookie.

    The ledgers' findings go round the bookies in turn.
    """
    place.mkdir()
    for start in range(0, FINDINGS, _ROWS):
        ledgers = np.arange(start, min(start + _ROWS, FINDINGS))
        pq.write_table(_findings(ledgers), place / f"part-{start}.parquet")
    unread = {
        "id": "bookie-unread", "urgency": "unseen", "severity": "note", "confidence": "unknown",
        "evidence": '{"read": "unread", "reason": "no --bookies source has a place for it"}',
    }  # fmt: skip
    rows = [{**unread, "bookie_id": name, "missing": [], "unknown": []} for name in _NAMES[:UNREAD]]
    pq.write_table(pa.Table.from_pylist(rows, FOUND), place / "unread.parquet")


def _findings(ledgers: Longs) -> pa.Table:
    bookies = ledgers % BOOKIES
    unread, ids = bookies < UNREAD, pa.array(ledgers)
    names = pa.array(_NAMES).take(pa.array(bookies))
    part = FOUND.field("missing").type.value_type
    lacks = [names, pa.repeat(_GROUPS, len(ids)), pa.repeat(pa.scalar(1, pa.int64()), len(ids))]
    columns = {
        "id": pc.if_else(unread, "replication-undecided", "below-ack-quorum"),
        "urgency": pc.if_else(unread, "unseen", "below-ack-quorum"),
        "severity": pa.repeat("error", len(ids)),
        "confidence": pa.repeat("confirmed", len(ids)),
        "scope_id": pa.repeat(pa.scalar(0, pa.int64()), len(ids)),
        "ledger_id": ids,
        "missing": _one_each(pa.StructArray.from_arrays(lacks, fields=list(part)), ~unread),
        "unknown": _one_each(names, unread),
        "message": pc.binary_join_element_wise(
            "ledger", ids.cast(pa.string()), ": 1 entry has too few copies", " "
        ),
        "evidence": pa.repeat('{"worst": 1, "marked": false}', len(ids)),
    }
    return pa.table([columns.get(name, pa.nulls(len(ids))) for name in FOUND.names], FOUND.names).cast(FOUND)


def _one_each(values: pa.Array, is_present: NDArray[np.bool_]) -> pa.Array:
    """Return a list array: a list of one value where ``is_present`` is true, and an empty list elsewhere."""
    ends = np.append(0, np.cumsum(is_present)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values.filter(pa.array(is_present)))
