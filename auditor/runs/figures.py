"""Figures of a finished run for its report, and its ledgers by day of creation, without Spark.

The module reads only a few narrow columns of the large tables (ledgers, verdicts, judged), one batch at a
time. It keeps one small row for each bookie in memory, and the bars of the histograms. Ledgers are counted
by day because a fault often starts on one day, for example with a swapped disk. For these counts, two
numbers are in memory for each ledger that is not healthy.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from auditor.model.arrow import ds, pa, pc
from auditor.model.ledger_metadata import LedgerState
from auditor.model.report_source import Bar, BookieFigure, Figures, Histogram
from auditor.model.states import LISTED, LedgerClass
from auditor.runs.reader import RunReader

MAX_BOOKIES = 5_000
MAX_LABELS = 12
_MAX_QUORUM_LABELS = (
    1_000  # of others they are counted together: a damaged cluster can have as many kinds as ledgers
)

_HOUR_MS = 60 * 60 * 1000
_DAY_MS = 24 * _HOUR_MS
_KB, _MB, _GB = 10**3, 10**6, 10**9
# The least value of each bar but the first, and the bars' labels.
_SIZE_EDGES = (1, _KB, 50 * _KB, _MB, 10 * _MB, 100 * _MB, _GB, 5 * _GB, 50 * _GB)
_SIZE_LABELS = (
    "no bytes", "under 1 kB", "1 to 50 kB", "50 kB to 1 MB", "1 to 10 MB", "10 to 100 MB", "100 MB to 1 GB",
    "1 to 5 GB", "5 to 50 GB", "50 GB or more",
)  # fmt: skip
AGE_EDGES_MS = (_HOUR_MS, *(days * _DAY_MS for days in (1, 7, 30, 90, 365, 3 * 365)))
"""Least age of each label in `AGE_LABELS` except the first, in ms."""
AGE_LABELS = (
    "under an hour", "under a day", "1 to 7 days", "7 to 30 days", "30 to 90 days", "90 days to 1 year",
    "1 to 3 years", "3 years or more",
)  # fmt: skip
_METADATA_STATES = ("ok", "broken", "unreadable")
# What a bookie holds and the metadata does not ask of it, entries that its writer may have been told of too.
_SURPLUS_COLUMNS = ("stale", "surplus", "past_end", "foreign")
_SHARE_LABELS = (
    ("100 %", 1.0),
    ("99.9 to 100 %", 0.999),
    ("99 to 99.9 %", 0.99),
    ("90 to 99 %", 0.9),
    ("50 to 90 %", 0.5),
    ("under 50 %", 0.0),
)


def figures_of(run: RunReader) -> Figures:
    """Return the numbers that the figures of a report show.

    Memory is bounded, and the time is linear in the size of the tables. Only the worst `MAX_BOOKIES` bookies
    are named. They are sorted by their numbers of missing replicas, unknown replicas and unexpected ledgers,
    the largest first. There are histograms of ledgers by class, size, age and quorum, and of bookies by
    availability.

    Raises:
        RunError: a table is missing or broken.
    """
    bookies = _bookie_figures(run)
    histograms = (_class_histogram(run), *_ledger_histograms(run), _availability_histogram(bookies))
    bookies.sort(
        key=lambda bookie: (
            -bookie.missing,
            -bookie.unknown,
            -bookie.surplus - bookie.orphans,
            bookie.bookie_id,
        )
    )
    return Figures(tuple(bookies[:MAX_BOOKIES]), len(bookies), histograms)


def _bookie_figures(run: RunReader) -> list[BookieFigure]:
    """Return every bookie that is in an ensemble or has directories, in the order of table ``bookies``."""
    missing_copies, unknown_copies, surplus_copies = (_BookieCounts() for _ in range(3))
    for batch in run.batches("tables/judged", ["missing", "unknown", *_SURPLUS_COLUMNS]):
        missing_copies.add([batch["missing"]])
        unknown_copies.add([batch["unknown"]])
        surplus_copies.add([batch[name] for name in _SURPLUS_COLUMNS])
    orphan_counts = {row["bookie_id"]: row["orphans"] for row in run.table("holdings").to_pylist()}
    columns = ["bookie_id", "read", "reason", "registered", "replicas", "named", "found"]
    return [
        BookieFigure(
            bookie_id=row["bookie_id"],
            read=row["read"],
            reason=row["reason"],
            registered=row["registered"],
            replicas=row["replicas"] or 0,
            missing=missing_copies.ledgers[row["bookie_id"]],
            missing_entries=missing_copies.entries[row["bookie_id"]],
            unknown=unknown_copies.ledgers[row["bookie_id"]],
            surplus=surplus_copies.ledgers[row["bookie_id"]],
            surplus_entries=surplus_copies.entries[row["bookie_id"]],
            orphans=orphan_counts.get(row["bookie_id"], 0),
        )
        for batch in run.batches("tables/bookies", columns)
        for row in batch.to_pylist()
        if row["named"] or row["found"]
    ]


class _BookieCounts:
    """Numbers of ledgers and of entries by bookie.

    They are summed over columns that have lists of (bookie_id, count).
    """

    def __init__(self) -> None:
        self.ledgers: Counter[str] = Counter()
        self.entries: Counter[str] = Counter()

    def add(self, columns: Sequence[Any]) -> None:
        """Add the columns of one batch.

        A row counts as one ledger of a bookie, even if several of its columns name the bookie.
        """
        tables = []
        for copies_by_ledger in columns:
            copy_rows = pc.list_flatten(copies_by_ledger)
            pair_columns = {name: pc.struct_field(copy_rows, name) for name in ("bookie_id", "count")}
            tables.append(pa.table({"row": pc.list_parent_indices(copies_by_ledger), **pair_columns}))
        counts_by_ledger = (
            pa.concat_tables(tables).group_by(["row", "bookie_id"]).aggregate([("count", "sum")])
        )
        counts_by_bookie = counts_by_ledger.group_by("bookie_id").aggregate(
            [("row", "count"), ("count_sum", "sum")]
        )
        for row in counts_by_bookie.to_pylist():
            self.ledgers[row["bookie_id"]] += row["row_count"]
            self.entries[row["bookie_id"]] += row["count_sum_sum"]


def _ledger_histograms(run: RunReader) -> Iterator[Histogram]:
    """Yield the histograms of ledgers by size, age and quorum, from one pass over the table ``ledgers``."""
    columns = ["state", "length", "ctime", "metadata_ctime", "ensemble_size", "write_quorum", "ack_quorum"]
    sizes: Counter[str] = Counter()
    ages: Counter[str] = Counter()
    quorums: Counter[str] = Counter()
    for batch in run.batches("tables/ledgers", columns, ds.field("status").isin(_METADATA_STATES)):
        _count_sizes(sizes, batch)
        ages_ms = pc.subtract(run.report.run.scan_time, creation_time_column(batch))
        _count_ranges(ages, ages_ms, AGE_EDGES_MS, AGE_LABELS, UNKNOWN_AGE)
        _count_quorums(quorums, batch)
    size_note = "Bytes of one copy, from the metadata of closed ledgers."
    yield _range_bars(
        "Ledgers by size", sizes, _SIZE_LABELS, (_NOT_CLOSED_LABEL, _UNREADABLE_LABEL), size_note
    )
    yield _range_bars("Ledgers by age", ages, AGE_LABELS, (UNKNOWN_AGE,), "From creation to the scan.")
    yield _frequent_values("Ledgers by quorum", quorums, "Ensemble / write quorum / ack quorum.")


_NOT_CLOSED_LABEL = "not closed"
_UNREADABLE_LABEL = "unreadable"
UNKNOWN_AGE = "unknown"
_OTHER_LABELS = "others"


def _count_sizes(sizes: Counter[str], batch: Any) -> None:
    is_closed = pc.fill_null(pc.equal(batch["state"], LedgerState.CLOSED), False)
    is_unreadable = batch["state"].null_count
    sizes[_UNREADABLE_LABEL] += is_unreadable
    sizes[_NOT_CLOSED_LABEL] += len(batch) - is_unreadable - (pc.sum(is_closed).as_py() or 0)
    _count_ranges(sizes, batch["length"].filter(is_closed), _SIZE_EDGES, _SIZE_LABELS, _UNREADABLE_LABEL)


def creation_time_column(batch: Any) -> Any:
    """Return the creation time of each ledger of a batch, in ms. Null if the time is unknown.

    The batch has the columns ``metadata_ctime`` and ``ctime`` of the table ``ledgers``. The time is unknown
    if both columns are null.
    """
    # Metadata of old formats says no time, and etcd keeps none.
    creation_times = batch["metadata_ctime"]
    return pc.coalesce(pc.if_else(pc.greater(creation_times, 0), creation_times, None), batch["ctime"])


def _count_ranges(
    label_counts: Counter[str],
    column_values: Any,
    bin_edges: Sequence[int],
    labels: Sequence[str],
    missing_value_label: str,
) -> None:
    range_values = column_values.drop_null().to_numpy(zero_copy_only=False)
    range_counts = np.bincount(np.searchsorted(bin_edges, range_values, side="right"), minlength=len(labels))
    label_counts.update(dict(zip(labels, range_counts.tolist(), strict=True)))
    label_counts[missing_value_label] += column_values.null_count


def _count_quorums(quorums: Counter[str], batch: Any) -> None:
    quorum_columns = ["ensemble_size", "write_quorum", "ack_quorum"]
    table = pa.Table.from_batches([batch]).select(quorum_columns)
    for row in table.group_by(quorum_columns).aggregate([([], "count_all")]).to_pylist():
        quorum_sizes = [row[name] for name in quorum_columns]
        label = _UNREADABLE_LABEL if None in quorum_sizes else " / ".join(map(str, quorum_sizes))
        quorums[label if label in quorums or len(quorums) < _MAX_QUORUM_LABELS else _OTHER_LABELS] += row[
            "count_all"
        ]


def _class_histogram(run: RunReader) -> Histogram:
    """Return the histogram of ledgers by class.

    The label of a bar names the certain class of its ledgers. It also names their possible class, if that is
    different.
    """
    counts_by_label: Counter[str] = Counter()
    for batch in run.batches("tables/verdicts", ["class", "potential_class"]):
        class_groups = pa.Table.from_batches([batch]).group_by(["class", "potential_class"])
        for row in class_groups.aggregate([([], "count_all")]).to_pylist():
            ledger_class, potential_class = row["class"], row["potential_class"]
            label = (
                ledger_class
                if potential_class in (ledger_class, None)
                else f"{ledger_class}, could be {potential_class}"
            )
            counts_by_label[label] += row["count_all"]
    return _frequent_values(
        "Ledgers by class",
        counts_by_label,
        "Certain class of a ledger, and its possible class if that differs.",
    )


def _availability_histogram(bookies: Iterable[BookieFigure]) -> Histogram:
    counts_by_label: Counter[str] = Counter()
    no_entries_label = "nothing expected"
    for bookie in bookies:
        availability = bookie.availability
        counts_by_label[
            no_entries_label
            if availability is None
            else next(label for label, min_share in _SHARE_LABELS if availability >= min_share)
        ] += 1
    note = "Share of a bookie's replicas that are certainly complete. Unread replicas count as not complete."
    labels = [label for label, _ in _SHARE_LABELS]
    return _range_bars(
        "Bookies by availability", counts_by_label, labels, (no_entries_label,), note, "bookies"
    )


def _range_bars(
    title: str,
    counts_by_label: Mapping[str, int],
    range_labels: Sequence[str],
    extra_labels: Sequence[str],
    note: str,
    unit: str = "ledgers",
) -> Histogram:
    """Return a histogram with one bar for each label: first the ranges in order, then ``extra_labels``.

    Empty ranges at either end are left out.
    """
    nonempty_positions = [
        position for position, label in enumerate(range_labels) if counts_by_label.get(label)
    ]
    shown_labels = [
        *(range_labels[nonempty_positions[0] : nonempty_positions[-1] + 1] if nonempty_positions else ()),
        *filter(counts_by_label.get, extra_labels),
    ]
    return Histogram(
        title, unit, tuple(Bar(label, counts_by_label.get(label, 0)) for label in shown_labels), note
    )


def _frequent_values(title: str, counts_by_label: Mapping[str, int], note: str) -> Histogram:
    """Return a histogram with the most frequent labels first, and one bar for all other labels."""
    sorted_labels = sorted(
        counts_by_label.items(), key=lambda label_and_count: (-label_and_count[1], label_and_count[0])
    )
    frequent_labels = [
        label_and_count for label_and_count in sorted_labels if label_and_count[0] != _OTHER_LABELS
    ][:MAX_LABELS]
    other_count = sum(counts_by_label.values()) - sum(count for _, count in frequent_labels)
    bars = [Bar(label, count) for label, count in frequent_labels] + (
        [Bar(_OTHER_LABELS, other_count)] if other_count else []
    )
    return Histogram(title, "ledgers", tuple(bars), note)


IntArray = npt.NDArray[np.int64]

LEDGER_CLASSES = tuple(LedgerClass)
"""Ledger classes in the order of the columns and of the drawing of ledgers by day."""

MAX_DAY = 106_751
"""Last day that a pandas timestamp can represent, in days since 1970. It also bounds the number of days."""

UNKNOWN_DAY = -1
"""Day number of ledgers whose day of creation is unknown."""


def days_of(run: RunReader) -> dict[int, Counter[str]]:
    """Return the number of ledgers of each class for each day on which they were created.

    A day is given in days since 1970, UTC. It is `UNKNOWN_DAY` if neither a ledger's metadata nor the
    metadata store has the creation time. For example, both lack it for ledgers on etcd whose metadata has
    an old format.

    Raises:
        RunError: a table is missing or broken.
    """
    ledger_classes = _LedgerClasses(run)
    counts_by_day: dict[int, Counter[str]] = {}
    columns = ["scope_id", "ledger_id", "ctime", "metadata_ctime"]
    is_listed_ledger = ds.field("status").isin(LISTED)
    for batch in run.batches("tables/ledgers", columns, is_listed_ledger):
        day_class_groups = pa.table(
            {
                "day": days_since_1970(creation_time_column(batch)),
                "class": ledger_classes.class_numbers_of(batch),
            }
        ).group_by(["day", "class"])
        for row in day_class_groups.aggregate([([], "count_all")]).to_pylist():
            counts_by_day.setdefault(row["day"], Counter())[LEDGER_CLASSES[row["class"]]] += row["count_all"]
    return counts_by_day


def days_since_1970(column: Any) -> IntArray:
    """Return the UTC day of each time in a column, in days since 1970. The times are in ms.

    The day is `UNKNOWN_DAY` if the time is null, or if the day is before 1970 or after `MAX_DAY`.
    """
    days: IntArray = np.floor_divide(column.fill_null(UNKNOWN_DAY).to_numpy(zero_copy_only=False), _DAY_MS)
    return np.where((days < 0) | (days > MAX_DAY), UNKNOWN_DAY, days)


class _LedgerClasses:
    """The class of every ledger of a run. Only ledgers that are not healthy are kept in memory."""

    def __init__(self, run: RunReader) -> None:
        empty_array = np.empty(0, np.int64)
        number_columns: list[tuple[IntArray, IntArray, IntArray]] = [(empty_array, empty_array, empty_array)]
        columns = ["scope_id", "ledger_id", "class"]
        for batch in run.batches("tables/verdicts", columns, ds.field("class") != LedgerClass.HEALTHY):
            class_numbers = pc.index_in(batch["class"], pa.array(LEDGER_CLASSES)).cast(pa.int64())
            number_columns.append(
                (
                    _to_int_array(batch["scope_id"]),
                    _to_int_array(batch["ledger_id"]),
                    _to_int_array(class_numbers),
                )
            )
        scope_ids, ledgers, class_numbers = (
            np.concatenate(column) for column in zip(*number_columns, strict=True)
        )
        self._scope_ids, self._ledger_ids = np.unique(scope_ids), np.unique(ledgers)
        pair_keys = self._pair_keys(scope_ids, ledgers)
        key_order = np.argsort(pair_keys)
        self._sorted_keys, self._class_numbers = pair_keys[key_order], class_numbers[key_order]

    def class_numbers_of(self, batch: Any) -> IntArray:
        """Return the class of each ledger of a batch, as its index in `LEDGER_CLASSES`."""
        class_numbers = np.zeros(len(batch), np.int64)
        if not len(self._sorted_keys):
            return class_numbers
        scope_ids, ledgers = _to_int_array(batch["scope_id"]), _to_int_array(batch["ledger_id"])
        pair_keys = self._pair_keys(scope_ids, ledgers)
        key_positions = np.minimum(np.searchsorted(self._sorted_keys, pair_keys), len(self._sorted_keys) - 1)
        has_stored_class = (
            (self._sorted_keys[key_positions] == pair_keys)
            & np.isin(scope_ids, self._scope_ids)
            & np.isin(ledgers, self._ledger_ids)
        )
        class_numbers[has_stored_class] = self._class_numbers[key_positions[has_stored_class]]
        return class_numbers

    def _pair_keys(self, scope_ids: IntArray, ledgers: IntArray) -> IntArray:
        """Return a 64-bit key for each pair of a scope (upper half of the 128-bit id) and a ledger.

        The key combines the positions of the two ids in two sorted arrays. These arrays have the scopes and
        the ledger ids of the ledgers that are not healthy.
        """
        key_positions: IntArray = np.searchsorted(self._scope_ids, scope_ids) * (len(self._ledger_ids) + 1)
        return key_positions + np.searchsorted(self._ledger_ids, ledgers)


def _to_int_array(column: Any) -> IntArray:
    integers: IntArray = column.fill_null(-1).to_numpy(zero_copy_only=False)
    return integers
