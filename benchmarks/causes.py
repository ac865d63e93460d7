"""Processor time to assign causes to findings, sort, write and count them, compared with no causes.

There is one finding for each of a million ledgers: its copy on a bookie is missing or unknown. Each finding
is compared with the largest number of causes that a run reports: unread bookies, and fifty bookies that
lost their data. The variants with and without causes read the same rows in one session with a driver of 2
GB. Before the measurement, the session is warmed up with a part of the rows. The time is the processor time
of this process, Java and the Python workers. Other work on the machine hardly changes it.
``BKAUDIT_FINDINGS`` sets the number of findings.
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

from auditor.audit.check_stage import count_causes, find_cause_claims
from auditor.findings.causes import MAX_CLAIMS
from auditor.findings.table import CHECK_RESULT_SCHEMA, add_fingerprints
from auditor.spark.session import build_session
from benchmarks.cluster import Longs
from benchmarks.large_tables import processor_seconds
from benchmarks.measure import Line, alternate
from benchmarks.memory import PeakMemory
from tests.checks.tables_builder import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FINDING_COUNT = int(os.environ.get("BKAUDIT_FINDINGS", "1_000_000"))
BOOKIE_COUNT, EMPTY_BOOKIE_COUNT = 500, 50
UNREAD_BOOKIE_COUNT = MAX_CLAIMS - 1
DRIVER_MEMORY = "2g"
_BATCH_ROWS = 500_000
_BOOKIE_NAMES = [f"10.0.{number // 250}.{number % 250 + 1}:3181" for number in range(BOOKIE_COUNT)]
_ENTRY_GROUPS = np.array([0, 0], ">i8").tobytes() + np.array([1, 0], ">i4").tobytes()


def lines() -> Iterator[Line]:
    """Yield one line that compares findings with causes and findings without causes."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder, PeakMemory() as peak_memory:
        work_directory = Path(folder)
        _write_run(work_directory / "found")
        spark = build_session("local[2]", driver_memory=DRIVER_MEMORY, log_path=work_directory / "spark.log")
        try:
            writers = _TableWriters(spark, work_directory)
            writers.warm_up()
            seconds_without_causes, seconds_with_causes = alternate(
                writers.without_causes, writers.with_causes, rounds=1, clock=processor_seconds
            )
        finally:
            spark.stop()
    expected_count = (
        FINDING_COUNT // BOOKIE_COUNT * (UNREAD_BOOKIE_COUNT + EMPTY_BOOKIE_COUNT) + UNREAD_BOOKIE_COUNT
    )
    if writers.caused_count != expected_count:
        sys.exit(f"causes: {writers.caused_count:,} findings have one, and {expected_count:,} should")
    driver_memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Line(
        f"{MAX_CLAIMS} causes of {FINDING_COUNT:,} findings, {DRIVER_MEMORY} driver, processor time",
        FINDING_COUNT,
        "findings", seconds_with_causes, "without causes", FINDING_COUNT, seconds_without_causes,
        most=True, java_mib=peak_memory.peaks["java"], python_mib=driver_memory_mib,
        note=f"{seconds_with_causes:.1f} and {seconds_without_causes:.1f} s; {writers.caused_count:,} have a "
        "cause; Python: the driver",
    )  # fmt: skip


class _TableWriters:
    """The two variants of writing the findings table from the rows of all checks."""

    def __init__(self, spark: SparkSession, work_directory: Path) -> None:
        self._spark, self._work_directory = spark, work_directory
        findings_per_bookie = FINDING_COUNT // BOOKIE_COUNT
        empty_bookies = range(UNREAD_BOOKIE_COUNT, UNREAD_BOOKIE_COUNT + EMPTY_BOOKIE_COUNT)
        rows: list[dict[str, Any]] = [
            {
                "bookie_id": name, "read": "unread" if row_number < UNREAD_BOOKIE_COUNT else "read",
                "absent_directories": [],
                "replicas": findings_per_bookie if row_number in empty_bookies else 100 * findings_per_bookie,
            }
            for row_number, name in enumerate(_BOOKIE_NAMES)
        ]  # fmt: skip
        self._tables = tables(spark, bookies=rows)
        self.caused_count = 0

    def warm_up(self) -> None:
        """Run both variants on a part of the rows, so that Spark compiles its code before the measurement."""
        warmup_rows = self._spark.read.parquet(
            *(str(self._work_directory / "found" / name) for name in ("part-0.parquet", "unread.parquet"))
        )
        add_fingerprints(warmup_rows, "x", find_cause_claims(warmup_rows, self._tables)).write.parquet(
            str(self._work_directory / "warm")
        )

    def with_causes(self) -> None:
        findings = self._spark.read.parquet(str(self._work_directory / "found"))
        claimed_causes = find_cause_claims(findings, self._tables)
        add_fingerprints(findings, "x", claimed_causes).write.mode("overwrite").parquet(
            str(self._work_directory / "with")
        )
        causes = count_causes(self._spark.read.parquet(str(self._work_directory / "with")), claimed_causes)
        self.caused_count = sum(cause["count"] for cause in causes)

    def without_causes(self) -> None:
        findings = self._spark.read.parquet(str(self._work_directory / "found"))
        add_fingerprints(findings, "x").write.mode("overwrite").parquet(str(self._work_directory / "without"))


def _write_run(directory: Path) -> None:
    """Write the rows of the checks: one finding for each ledger and one for each unread bookie.

    Consecutive ledgers have their finding on consecutive bookies.
    """
    directory.mkdir()
    for first_row in range(0, FINDING_COUNT, _BATCH_ROWS):
        ledgers = np.arange(first_row, min(first_row + _BATCH_ROWS, FINDING_COUNT))
        pq.write_table(_make_findings(ledgers), directory / f"part-{first_row}.parquet")
    unread_bookies = {
        "id": "bookie-unread", "urgency": "unseen", "severity": "note", "confidence": "unknown",
        "evidence": '{"read": "unread", "reason": "no --bookies source has a directory of this bookie"}',
    }  # fmt: skip
    rows = [
        {**unread_bookies, "bookie_id": name, "missing": [], "unknown": []}
        for name in _BOOKIE_NAMES[:UNREAD_BOOKIE_COUNT]
    ]
    pq.write_table(pa.Table.from_pylist(rows, CHECK_RESULT_SCHEMA), directory / "unread.parquet")


def _make_findings(ledgers: Longs) -> pa.Table:
    bookies = ledgers % BOOKIE_COUNT
    unread_bookies, ids = bookies < UNREAD_BOOKIE_COUNT, pa.array(ledgers)
    names = pa.array(_BOOKIE_NAMES).take(pa.array(bookies))
    missing_type = CHECK_RESULT_SCHEMA.field("missing").type.value_type
    missing_columns = [
        names,
        pa.repeat(_ENTRY_GROUPS, len(ids)),
        pa.repeat(pa.scalar(1, pa.int64()), len(ids)),
    ]
    columns = {
        "id": pc.if_else(unread_bookies, "replication-undecided", "below-ack-quorum"),
        "urgency": pc.if_else(unread_bookies, "unseen", "below-ack-quorum"),
        "severity": pa.repeat("error", len(ids)),
        "confidence": pa.repeat("confirmed", len(ids)),
        "scope_id": pa.repeat(pa.scalar(0, pa.int64()), len(ids)),
        "ledger_id": ids,
        "missing": _optional_lists(
            pa.StructArray.from_arrays(missing_columns, fields=list(missing_type)), ~unread_bookies
        ),
        "unknown": _optional_lists(names, unread_bookies),
        "message": pc.binary_join_element_wise(
            "ledger", ids.cast(pa.string()), ": 1 entry has too few copies", " "
        ),
        "evidence": pa.repeat('{"worst": 1, "marked": false}', len(ids)),
    }
    return pa.table(
        [columns.get(name, pa.nulls(len(ids))) for name in CHECK_RESULT_SCHEMA.names],
        CHECK_RESULT_SCHEMA.names,
    ).cast(CHECK_RESULT_SCHEMA)


def _optional_lists(values: pa.Array, is_present: NDArray[np.bool_]) -> pa.Array:
    """Return a list array: a list of one value where ``is_present`` is true, and an empty list elsewhere."""
    list_ends = np.append(0, np.cumsum(is_present)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(list_ends), values.filter(pa.array(is_present)))
