"""verdicts: the class of every ledger, its potential class, and the bookies whose copies are unknown.

A class depends on the number of copies that the ledger's worst entry lacks. The class counts only missing
copies. The potential class counts unknown copies as missing too.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.model.columns import LEDGER, make_schema
from auditor.model.finding import Confidence
from auditor.model.ledger_metadata import LedgerState
from auditor.model.states import LISTED, LedgerClass
from auditor.spark import functions as F
from auditor.spark.batches import estimate_cost, from_files, split_reader_parts
from auditor.spark.part_tables import PartTable
from auditor.spark.table_files import TableFiles
from auditor.spark.types import Column, DataFrame, SparkSession

_DICTIONARY_COLUMNS = ("status", "state")
_CLASSES = [LedgerClass.HEALTHY, LedgerClass.NOT_CLOSED, LedgerClass.UNDECIDED]
_CONFIDENCES = [Confidence.CONFIRMED, Confidence.UNKNOWN]
_ROWS_PER_BATCH = 1 << 17

VERDICTS = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("ledger_id", pa.int64(), "the ledger"),
    ("state", pa.string(), "OPEN, IN_RECOVERY or CLOSED; null if unreadable"),
    (
        "class",
        pa.string(),
        "healthy, below-write-quorum, below-ack-quorum or entry-lost; not-closed: an open ledger "
        "without a missing copy; undecided: the metadata cannot be judged",
    ),
    ("potential_class", pa.string(), "the class if all unknown copies were missing"),
    ("m", pa.int32(), "largest number of confirmed missing copies of any single entry"),
    ("mu", pa.int32(), "largest number of missing or unknown copies of any single entry"),
    ("unread_bookies", pa.list_(pa.string()), "bookies with unknown copies"),
    ("confidence", pa.string(), "confirmed, suspect or unknown, based on this run alone"),
)


IS_WITHOUT_ENTRIES = (
    "state != 'CLOSED' and undecidable = false"
    " and try_element_at(segments.first_entry_id, -1) - write_quorum <= get(segments.first_entry_id, 0)"
)
"""SQL condition for ledgers that are not closed, and of which a writer may still be sending every entry.

No entry of such a ledger is judged: `auditor.sources.metadata.ledger_replicas` gives it no group at all.
"""


def verdicts_of_judged(judged_ledgers: DataFrame) -> DataFrame:
    """Return the rows of the ledgers in ``judged_ledgers``, which have a replica that is not as expected."""
    unread_bookies = F.transform("unknown", lambda bookie_entry: bookie_entry.bookie_id)
    return judged_ledgers.select(
        *LEDGER,
        "state",
        class_column("m").alias("class"),
        class_column("mu").alias("potential_class"),
        F.col("m").cast("int").alias("m"),
        F.col("mu").cast("int").alias("mu"),
        F.coalesce(unread_bookies, F.array().cast("array<string>")).alias("unread_bookies"),
        _confidence_column().alias("confidence"),
    )


def class_column(copies_column: str) -> Column:
    """Return a ledger's class by the number of copies that its worst entry lacks.

    ``copies_column`` is the column with this number. Only a closed ledger can have the class entry-lost.
    """
    # Each entry should have as many copies as the write quorum, in any ensemble.
    copy_count = F.col("write_quorum") - F.col(copies_column)
    is_closed = F.col("state") == LedgerState.CLOSED
    return (
        F.when(
            F.col(copies_column) == 0,
            F.when(is_closed, LedgerClass.HEALTHY).otherwise(LedgerClass.NOT_CLOSED),
        )
        .when(is_closed & (copy_count <= 0), LedgerClass.ENTRY_LOST)
        .when(copy_count < F.col("ack_quorum"), LedgerClass.BELOW_ACK_QUORUM)
        .otherwise(LedgerClass.BELOW_WRITE_QUORUM)
    )


def _confidence_column() -> Column:
    return (
        # Unknown copies do not matter if the class is the same without them.
        F.when(class_column("m") != class_column("mu"), Confidence.UNKNOWN)
        .when(F.size(F.coalesce("doubts", F.array().cast("array<string>"))) > 0, Confidence.SUSPECT)
        .otherwise(Confidence.CONFIRMED)
    )


def verdicts(
    spark: SparkSession, ledgers: TableFiles, judged_files: TableFiles, judged_verdict_files: TableFiles
) -> PartTable:
    """Return the table ``verdicts``, made from the files of other tables of the run.

    ``judged_verdict_files`` has the rows for the ledgers in ``judged_files``. Nearly all ledgers are not in
    ``judged_files``. Their verdicts need no computation, because none of their replicas differs.
    """

    make_healthy_rows = partial(healthy_verdicts, judged=judged_files)
    healthy_table = from_files(spark, VERDICTS, ledgers, make_healthy_rows)
    return healthy_table.with_parts(
        split_reader_parts(spark, judged_verdict_files, _read_verdicts), estimate_cost(judged_verdict_files)
    )


def healthy_verdicts(files: TableFiles, judged: TableFiles) -> Iterator[pa.RecordBatch]:
    """Return the rows of `VERDICTS` for the ledgers in some files that are not in the table ``judged``."""
    judged_ledgers = _LedgerSet(judged.read(LEDGER))
    listed_statuses = pa.array([status.value for status in LISTED])
    for rows in files.row_groups(
        (*LEDGER, *_DICTIONARY_COLUMNS, "undecidable"), _DICTIONARY_COLUMNS, _ROWS_PER_BATCH
    ):
        is_listed = pc.and_(
            rows[LEDGER[-1]].is_valid(), pc.is_in(rows["status"].cast(pa.string()), listed_statuses)
        )
        is_healthy = is_listed.to_numpy() & ~judged_ledgers.contains(rows)
        yield from _healthy_rows(rows.filter(pa.array(is_healthy))).to_batches()


class _LedgerSet:
    """The scopes and ids of a table's ledgers, as a set. Each ledger takes 8 bytes."""

    def __init__(self, rows: pa.Table) -> None:
        self._ids_by_scope = {}
        ledger_scopes, ledger_ids = (rows[name].to_numpy() for name in LEDGER)
        for unique_scope in np.unique(ledger_scopes).tolist():
            self._ids_by_scope[unique_scope] = np.unique(ledger_ids[ledger_scopes == unique_scope])

    def contains(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return for each row whether its ledger is in the set."""
        ledger_scopes, ledger_ids = (rows[name].fill_null(0).to_numpy() for name in LEDGER)
        is_member = np.zeros(rows.num_rows, bool)
        for unique_scope, scope_ids in self._ids_by_scope.items():
            row_numbers = np.minimum(np.searchsorted(scope_ids, ledger_ids), len(scope_ids) - 1)
            is_member |= (scope_ids[row_numbers] == ledger_ids) & (ledger_scopes == unique_scope)
        return is_member


def _healthy_rows(rows: pa.Table) -> pa.Table:
    is_undecided = rows["undecidable"].fill_null(False).to_numpy()
    is_closed = pc.equal(rows["state"].cast(pa.string()), LedgerState.CLOSED).fill_null(False).to_numpy()
    ledger_classes = _dictionary_array(np.where(is_undecided, 2, np.where(is_closed, 0, 1)), _CLASSES)
    zero_column = pa.array(np.zeros(rows.num_rows, np.int32))
    no_bookies = pa.ListArray.from_arrays(np.zeros(rows.num_rows + 1, np.int32), pa.array([], pa.string()))
    columns = {
        **{name: rows[name] for name in (*LEDGER, "state")},
        "class": ledger_classes,
        "potential_class": ledger_classes,
        "m": zero_column,
        "mu": zero_column,
        "unread_bookies": no_bookies,
        # Without unknown copies and doubts, the class is certain.
        "confidence": _dictionary_array(is_undecided.astype(np.int64), _CONFIDENCES),
    }
    return pa.table([columns[name] for name in VERDICTS.names], VERDICTS.names)


def _dictionary_array(class_numbers: NDArray[np.int64], names: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(class_numbers.astype(np.int32)), pa.array(names))


def _read_verdicts(files: TableFiles) -> Iterator[pa.RecordBatch]:
    for rows in files.row_groups(VERDICTS.names, (), _ROWS_PER_BATCH):
        yield from rows.to_batches()
