"""Contents of the entry logs of a run, summed batch by batch, for ``bkaudit space`` and for metrics.

    by bookie                     one pass over the table space
    by ledger, application, age   several passes, one for every 1 to 2 million rows of the tables

If there are several passes, a pass processes the ledgers with one residue of their id modulo the number of
passes. It joins the bytes of these ledgers with their metadata. Memory holds one row for each bookie or
label, or the largest ledgers. During a pass, it also holds the ledgers of the pass.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.errors import RunUsageError
from auditor.model.ledger_id import LedgerId
from auditor.model.space import (
    NO_APPLICATION_NAME,
    NO_BOOKIE_NAME,
    NO_LEDGER_NAME,
    OTHER_APPLICATIONS_NAME,
    UNLISTED_LEDGERS_NAME,
    SpaceGauges,
    SpaceGrouping,
    SpaceTotal,
    SpaceView,
)
from auditor.model.states import LISTED, GcAction, LogFileKind
from auditor.runs.disk_forecasts import disk_totals, fill_forecasts
from auditor.runs.figures import AGE_EDGES_MS, AGE_LABELS, UNKNOWN_AGE, creation_time_column
from auditor.runs.reader import RunReader
from auditor.runs.space_steps import GroupedBytes, space_steps

MAX_NAME_LENGTH = 120
"""Largest length of an application's name. Longer names are cut, because custom metadata may be anything."""


def _application_batches(run: RunReader) -> Iterator[pa.RecordBatch]:
    """Yield the application of each ledger from its custom metadata, such as ``pulsar/managed-ledger``.

    The label has the value of ``application``. If the metadata has a ``component``, the label has this
    value too.
    """
    for batch in _listed_ledgers(run, ["custom_metadata"]):
        metadata_maps = batch["custom_metadata"]
        application_columns = pa.table(
            {
                name: pc.map_lookup(metadata_maps, query_key=pa.scalar(name), occurrence="first")
                for name in ("application", "component")
            }
        ).to_pydict()
        labels = [
            _label_name(*label_parts)
            for label_parts in zip(
                application_columns["application"], application_columns["component"], strict=True
            )
        ]
        yield _label_batch(batch, pa.array(labels, pa.string()))


def _label_name(application: bytes | None, component: bytes | None) -> str:
    if not application:
        return NO_APPLICATION_NAME
    label_texts = (
        label_part.decode("utf-8", "backslashreplace")
        for label_part in (application, component)
        if label_part
    )
    return "/".join(label_texts)[:MAX_NAME_LENGTH]


def _age_batches(run: RunReader) -> Iterator[pa.RecordBatch]:
    """Yield the age of each ledger at the scan, as one of `auditor.runs.figures.AGE_LABELS`."""
    labels = pa.array([*AGE_LABELS, UNKNOWN_AGE])
    for batch in _listed_ledgers(run, ["metadata_ctime", "ctime"]):
        ages_ms = pc.subtract(run.report.run.scan_time, creation_time_column(batch))
        ages_without_nulls = pc.fill_null(ages_ms, 0).to_numpy(zero_copy_only=False)
        label_positions = np.where(
            pc.is_null(ages_ms).to_numpy(zero_copy_only=False),
            len(AGE_LABELS),
            np.searchsorted(AGE_EDGES_MS, ages_without_nulls, side="right"),
        )
        yield _label_batch(batch, labels.take(pa.array(label_positions)))


def _listed_ledgers(run: RunReader, columns: list[str]) -> Iterator[pa.RecordBatch]:
    is_listed = ds.field("status").isin(list(LISTED)) & ds.field("ledger_id").is_valid()
    return run.batches("tables/ledgers", ["scope_id", "ledger_id", *columns], is_listed)


def _label_batch(batch: pa.RecordBatch, labels: pa.Array) -> pa.RecordBatch:
    columns = [batch["scope_id"], batch["ledger_id"], labels]
    return pa.RecordBatch.from_arrays(columns, ["scope_id", "ledger_id", "label"])


LABEL_READERS = {"application": _application_batches, "age": _age_batches}
"""Functions that read ``ledgers`` and yield batches of ``scope_id``, ``ledger_id`` and ``label``."""


MAX_PASS_ROWS = 2_000_000
"""Approximate number of rows of the tables ``space`` and ``ledgers`` that one pass takes into memory."""

MAX_NAMES = 10_000
"""Largest number of distinct applications. Custom metadata may name a different one for every ledger."""

MAX_TOTALS = 20
"""Default number of ledgers or applications in a view."""

_SumsByName = dict[str, Counter[str]]
_LEDGER_COLUMNS = ["scope_id", "ledger_id"]


def space_view(run: RunReader, grouping: SpaceGrouping, max_totals: int = MAX_TOTALS) -> SpaceView:
    """Return the bytes in entry logs by class, for each bookie, ledger, application or age.

    Only the ``max_totals`` largest ledgers or applications have a row of their own.

    Raises:
        RunError: the run did not read entry logs (RunUsageError), or a table is broken.
    """
    if "space" not in run.table_names():
        raise RunUsageError(f"{run.path}: entry logs were not read; audit with --entry-logs")
    file_count, file_bytes = _count_files(run)
    if grouping == "bookie":
        totals = _space_totals(_sums_by_bookie(run))
        steps, refused_steps = space_steps(run, {total.name: total.classes for total in totals})
        disks = disk_totals(run)
        forecasts = fill_forecasts(run, disks)
        return SpaceView(
            grouping,
            totals,
            file_count,
            file_bytes,
            steps=steps,
            refused=refused_steps,
            disks=disks,
            forecasts=forecasts,
        )
    if grouping == "ledger":
        totals, remaining_bytes, remaining_count = _totals_by_ledger(run, max_totals)
    else:
        totals, remaining_bytes, remaining_count = _largest_totals(
            _space_totals(_sums_by_label(run, grouping)),
            len(AGE_LABELS) + 3 if grouping == "age" else max_totals,
        )
        if grouping == "age":
            label_positions = {label: label_position for label_position, label in enumerate(AGE_LABELS)}
            totals = tuple(
                sorted(
                    totals,
                    key=lambda total: (label_positions.get(total.name, len(label_positions)), total.name),
                )
            )
    return SpaceView(grouping, totals, file_count, file_bytes, remaining_bytes, remaining_count)


def bookies_space(run: RunReader) -> tuple[SpaceTotal, ...]:
    """Return the bytes in each bookie's entry logs, the fullest bookie first. Empty if no logs were read.

    Raises:
        RunError: the table ``space`` is broken.
    """
    return _space_totals(_sums_by_bookie(run)) if "space" in run.table_names() else ()


def _sums_by_bookie(run: RunReader) -> _SumsByName:
    byte_sums = GroupedBytes(["bookie_id", "class"])
    for batch in run.batches("tables/space", ["bookie_id", "class", "bytes"]):
        byte_sums.add(batch)
    sums_by_bookie: _SumsByName = {}
    for row in byte_sums.table().to_pylist():
        name = row["bookie_id"] if row["bookie_id"] is not None else NO_BOOKIE_NAME
        sums_by_bookie.setdefault(name, Counter())[row["class"]] += row["bytes"]
    return sums_by_bookie


def _totals_by_ledger(run: RunReader, max_totals: int) -> tuple[tuple[SpaceTotal, ...], dict[str, int], int]:
    """Return the ``max_totals`` largest ledgers, then the bytes of all others by class, then their number."""
    largest_totals: tuple[SpaceTotal, ...] = ()
    remaining_bytes: Counter[str] = Counter()
    remaining_count = 0
    pass_count = _count_passes(run, "space")
    for ledger_id_residue in range(pass_count):
        # Those of a ledger follow each other: so they are one total without a lookup.
        byte_sums = _ledger_class_sums(run, pass_count, ledger_id_residue).sort_by(
            [(name, "ascending") for name in (*_LEDGER_COLUMNS, "class")]
        )
        pass_totals: list[SpaceTotal] = []
        previous_ledger_key: tuple[Any, ...] | None = None
        for batch in byte_sums.to_batches(max_chunksize=65_536):
            for row in batch.to_pylist():
                ledger_key = (row["scope_id"], row["ledger_id"])
                if ledger_key != previous_ledger_key:
                    remaining_count += _trim_totals(pass_totals, remaining_bytes, max_totals)
                    pass_totals.append(SpaceTotal(_ledger_name(*ledger_key), {}))
                    previous_ledger_key = ledger_key
                pass_totals[-1].classes[row["class"]] = row["bytes"]
        largest_totals, dropped_bytes, dropped_count = _largest_totals(
            [*largest_totals, *pass_totals], max_totals
        )
        remaining_bytes.update(dropped_bytes)
        remaining_count += dropped_count
    return largest_totals, dict(remaining_bytes), remaining_count


def _trim_totals(totals: list[SpaceTotal], remaining_bytes: Counter[str], max_totals: int) -> int:
    """Drop all but the ``max_totals`` largest totals if there are far more. Return how many were dropped.

    The bytes of dropped totals are added to ``remaining_bytes``.
    """
    if len(totals) < 2 * max_totals + 10_000:
        return 0
    largest_totals, dropped_bytes, dropped_count = _largest_totals(totals, max_totals)
    totals[:] = largest_totals
    remaining_bytes.update(dropped_bytes)
    return dropped_count


def _ledger_name(scope_id: int | None, ledger_id: int | None) -> str:
    if ledger_id is None:
        return NO_LEDGER_NAME
    return LedgerId(ledger_id, scope_id).qualified_name if scope_id else str(ledger_id)


def _sums_by_label(run: RunReader, grouping: SpaceGrouping) -> _SumsByName:
    """Return the bytes by class for each label, such as an application or an age (`LABEL_READERS`).

    All ledgers that the metadata does not list share one label. All bytes without a ledger share another.
    """
    sums_by_label: _SumsByName = {}
    pass_count = _count_passes(run, "space", "ledgers")
    for ledger_id_residue in range(pass_count):
        label_batches = list(_residue_batches(LABEL_READERS[grouping](run), pass_count, ledger_id_residue))
        byte_sums = _ledger_class_sums(run, pass_count, ledger_id_residue)
        if not byte_sums.num_rows:
            continue  # columns without a row have no type to join by
        if label_batches:
            # Two records may say that they are one ledger: the first counts.
            grouped_ledgers = pa.Table.from_batches(label_batches).group_by(
                _LEDGER_COLUMNS, use_threads=False
            )
            label_by_ledger = grouped_ledgers.aggregate([("label", "first")])
            byte_sums = byte_sums.join(
                label_by_ledger.rename_columns({"label_first": "label"}),
                _LEDGER_COLUMNS,
                join_type="left outer",
            )
        else:
            byte_sums = byte_sums.append_column("label", pa.nulls(byte_sums.num_rows, pa.string()))
        grouped_bytes = GroupedBytes(["of_none", "label", "class"])
        grouped_bytes.add(byte_sums.append_column("of_none", byte_sums["ledger_id"].is_null()))
        for row in grouped_bytes.table().to_pylist():
            name = NO_LEDGER_NAME if row["of_none"] else row["label"] or UNLISTED_LEDGERS_NAME
            name = (
                name if name in sums_by_label or len(sums_by_label) < MAX_NAMES else OTHER_APPLICATIONS_NAME
            )
            sums_by_label.setdefault(name, Counter())[row["class"]] += row["bytes"]
    return sums_by_label


def _ledger_class_sums(run: RunReader, pass_count: int, ledger_id_residue: int) -> pa.Table:
    """Return the bytes by ledger and class.

    Only ledgers whose ids have the residue ``ledger_id_residue`` modulo ``pass_count`` are counted.
    """
    byte_sums = GroupedBytes([*_LEDGER_COLUMNS, "class"])
    for batch in _residue_batches(
        run.batches("tables/space", [*_LEDGER_COLUMNS, "class", "bytes"]), pass_count, ledger_id_residue
    ):
        byte_sums.add(batch)
    return byte_sums.table()


def _residue_batches(
    batches: Iterator[pa.RecordBatch], pass_count: int, ledger_id_residue: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose ledger id has the residue ``ledger_id_residue`` modulo ``pass_count``.

    A row without a ledger id has the residue 0.
    """
    for batch in batches:
        if pass_count > 1:
            residues = pc.bit_wise_and(
                pc.fill_null(batch["ledger_id"], 0), pa.scalar(pass_count - 1, pa.int64())
            )
            batch = batch.filter(pc.equal(residues, ledger_id_residue))
        if len(batch):
            yield batch


def _count_passes(run: RunReader, *tables: str) -> int:
    """Return the number of passes, a power of two."""
    row_count: int = sum(run.directory.dataset(f"tables/{name}").count_rows() for name in tables)
    return 1 << max(0, (max(row_count, 1) - 1) // MAX_PASS_ROWS).bit_length()


def _count_files(run: RunReader) -> tuple[int, int]:
    """Return the number and the bytes of the entry log files.

    A compacted file that is a second name of an entry log does not count.
    """
    columns = ["directory", "log_id", "kind", "bytes"]
    is_file_row = ds.field("ledger_id").is_null() & ds.field("bytes").is_valid()
    is_compacted = ds.field("kind") == LogFileKind.COMPACTED
    compacted_files = run.table("entry_logs", columns, is_file_row & is_compacted).to_pylist()
    compacted_logs = {(row["directory"], row["log_id"]) for row in compacted_files}
    paired_logs: set[tuple[str, int]] = set()
    file_count = total_bytes = 0
    for batch in run.batches("tables/entry_logs", columns, is_file_row & ~is_compacted):
        file_count += len(batch)
        total_bytes += sum(batch["bytes"].to_pylist())
        if compacted_logs:
            rows = batch.to_pylist()
            batch_logs = {(row["directory"], row["log_id"]) for row in rows if row["kind"] == LogFileKind.LOG}
            paired_logs |= compacted_logs & batch_logs
    sizes_of_unpaired_files = [
        row["bytes"] for row in compacted_files if (row["directory"], row["log_id"]) not in paired_logs
    ]
    return file_count + len(sizes_of_unpaired_files), total_bytes + sum(sizes_of_unpaired_files)


def _space_totals(byte_sums: _SumsByName) -> tuple[SpaceTotal, ...]:
    """Return a total for each name in ``byte_sums``, the largest first. Equal totals are sorted by name."""
    return _largest_totals(
        [SpaceTotal(name, dict(bytes_by_class)) for name, bytes_by_class in byte_sums.items()], len(byte_sums)
    )[0]


def _largest_totals(
    totals: list[SpaceTotal] | tuple[SpaceTotal, ...], max_totals: int
) -> tuple[tuple[SpaceTotal, ...], dict[str, int], int]:
    """Return the ``max_totals`` largest totals, then the bytes of all others by class, then their number."""
    sorted_totals = sorted(totals, key=lambda total: (-total.bytes, total.name))
    remaining_bytes: Counter[str] = Counter()
    for other_total in sorted_totals[max_totals:]:
        remaining_bytes.update(other_total.classes)
    return tuple(sorted_totals[:max_totals]), dict(remaining_bytes), len(sorted_totals[max_totals:])


FREEING_ACTIONS = (GcAction.DELETE, GcAction.MINOR, GcAction.MAJOR)
"""Actions of garbage collection that free space."""


def space_gauges(run: RunReader) -> SpaceGauges:
    """Return the space metrics. Empty if entry logs were not read.

    Raises:
        RunError: a table is broken, or the directory of the run cannot be listed.
    """
    totals, disks = bookies_space(run), disk_totals(run)
    if not totals and not disks:
        return SpaceGauges()
    return SpaceGauges(totals, disks, _reclaimable_bytes(run), fill_forecasts(run, disks))


def _reclaimable_bytes(run: RunReader) -> dict[str, dict[str, int]]:
    """Return the bytes that each action frees, by bookie.

    Every bookie has all actions, including those that free 0 bytes. The time series of a metric therefore
    falls to 0 instead of ending.
    """
    if "log_foresight" not in run.table_names():
        return {}
    byte_sums = GroupedBytes(["bookie_id", "action"])
    for batch in run.batches("tables/log_foresight", ["bookie_id", "action", "frees"]):
        byte_sums.add(batch.rename_columns({"frees": "bytes"}))
    bytes_by_bookie: dict[str, dict[str, int]] = {}
    for row in byte_sums.table().to_pylist():
        action_bytes = bytes_by_bookie.setdefault(
            row["bookie_id"], dict.fromkeys(map(str, FREEING_ACTIONS), 0)
        )
        if row["action"] in action_bytes:
            action_bytes[row["action"]] += row["bytes"]
    return bytes_by_bookie
