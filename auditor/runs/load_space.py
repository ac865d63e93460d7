"""What a run's entry logs are full of, added up batch by batch with pyarrow: ``bkaudit space``.

    by bookie                     one pass over the table space
    by ledger, application, age   as many passes as the table has millions of rows: each takes the ledgers of
                                  one residue of their ids, and joins what the metadata says of them

What is kept is one row per bookie or label, or the largest ledgers; and in a pass the ledgers of its residue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from auditor.errors import RunUsageError
from auditor.model.ledger_id import LedgerId
from auditor.model.space_total import NO_BOOKIE, NO_LEDGER, OTHER_NAMES, SpaceBy, SpaceTotal, SpaceView
from auditor.model.states import LogFileKind
from auditor.runs.figures import AGE_LABELS
from auditor.runs.fill_forecasts import fill_forecasts
from auditor.runs.grouped_bytes import GroupedBytes
from auditor.runs.ledger_labels import LABELS
from auditor.runs.load_disks import disk_totals
from auditor.runs.space_steps import space_steps
from auditor.runs.tables import RunTables

if TYPE_CHECKING:
    import pyarrow as pa

    from auditor.runs.reader import RunReader

PASS_ROWS = 2_000_000
"""Rows of the tables space and ledgers that one pass takes, about."""

NAMES_KEPT = 10_000
"""So many applications are told apart: custom metadata can have a name of its own for every ledger."""

TOP = 20
"""So many ledgers, or applications, are named unless more are asked for."""

_Sums = dict[str, Counter[str]]
_LEDGER = ["scope_id", "ledger_id"]


def space_view(run: RunReader, by: SpaceBy, top: int = TOP) -> SpaceView:
    """Bytes by class of each bookie, or of the ``top`` largest ledgers or applications, or of each age.

    Raises:
        RunError: the run did not read entry logs (RunUsageError), or a table is broken.
    """
    if "space" not in run.table_names():
        raise RunUsageError(f"{run.path}: it has no table space: audit with --entry-logs")
    files, file_bytes = _files(run)
    steps: tuple[Any, ...] = ()
    if by == "bookie":
        totals = _totals(_by_bookie(run))
        steps = space_steps(run, {each.name: each.classes for each in totals})
        disks = disk_totals(run)
        forecasts = fill_forecasts(run, disks)
        return SpaceView(by, totals, files, file_bytes, steps=steps, disks=disks, forecasts=forecasts)
    if by == "ledger":
        totals, others, left = _by_ledger(run, top)
    else:
        totals, others, left = _largest(
            _totals(_by_label(run, by)), len(AGE_LABELS) + 3 if by == "age" else top
        )
        if by == "age":
            totals = tuple(sorted(totals, key=_age_order))
    return SpaceView(by, totals, files, file_bytes, others, left)


def bookies_space(run: RunReader) -> tuple[SpaceTotal, ...]:
    """What each bookie's entry logs are full of, the fullest first; none where they were not read.

    Raises:
        RunError: the table space is broken.
    """
    return _totals(_by_bookie(run)) if "space" in run.table_names() else ()


def _by_bookie(run: RunReader) -> _Sums:
    sums = GroupedBytes(["bookie_id", "class"])
    for batch in run.batches("tables/space", ["bookie_id", "class", "bytes"]):
        sums.add(_table(batch))
    found: _Sums = {}
    for row in sums.table().to_pylist():
        name = row["bookie_id"] if row["bookie_id"] is not None else NO_BOOKIE
        found.setdefault(name, Counter())[row["class"]] += row["bytes"]
    return found


def _by_ledger(run: RunReader, top: int) -> tuple[tuple[SpaceTotal, ...], dict[str, int], int]:
    """The largest, what all others have by class, and how many these are."""
    kept: tuple[SpaceTotal, ...] = ()
    others: Counter[str] = Counter()
    left = 0
    passes = _passes(run, "space")
    for residue in range(passes):
        # Those of a ledger follow each other: so they are one total without a lookup.
        sums = _ledgers(run, passes, residue).sort_by([(name, "ascending") for name in (*_LEDGER, "class")])
        found: list[SpaceTotal] = []
        previous: tuple[Any, ...] | None = None
        for batch in sums.to_batches(max_chunksize=65_536):
            for row in batch.to_pylist():
                ledger = (row["scope_id"], row["ledger_id"])
                if ledger != previous:
                    left += _trim(found, others, top)
                    found.append(SpaceTotal(_ledger_name(*ledger), {}))
                    previous = ledger
                found[-1].classes[row["class"]] = row["bytes"]
        kept, gone, count = _largest([*kept, *found], top)
        others.update(gone)
        left += count
    return kept, dict(others), left


def _trim(found: list[SpaceTotal], others: Counter[str], top: int) -> int:
    """Now and then keep the largest of a pass alone; how many went."""
    if len(found) < 2 * top + 10_000:
        return 0
    kept, gone, count = _largest(found, top)
    found[:] = kept
    others.update(gone)
    return count


def _ledger_name(scope_id: int | None, ledger_id: int | None) -> str:
    if ledger_id is None:
        return NO_LEDGER
    return LedgerId(ledger_id, scope_id).qualified_name if scope_id else str(ledger_id)


def _by_label(run: RunReader, by: SpaceBy) -> _Sums:
    """Bytes by what the metadata says of each ledger."""
    import pyarrow as pa

    label = LABELS[by]
    found: _Sums = {}
    passes = _passes(run, "space", "ledgers")
    for residue in range(passes):
        named = [_table(each) for each in _residue(label(run), passes, residue)]
        sums = _ledgers(run, passes, residue)
        if not sums.num_rows:
            continue  # columns without a row have no type to join by
        if named:
            # Two records may say that they are one ledger: the first counts.
            names = (
                pa.concat_tables(named).group_by(_LEDGER, use_threads=False).aggregate([("label", "first")])
            )
            sums = sums.join(names.rename_columns({"label_first": "label"}), _LEDGER, join_type="left outer")
        else:
            sums = sums.append_column("label", pa.nulls(sums.num_rows, pa.string()))
        grouped = GroupedBytes(["of_none", "label", "class"])
        grouped.add(sums.append_column("of_none", sums["ledger_id"].is_null()))
        for row in grouped.table().to_pylist():
            name = NO_LEDGER if row["of_none"] else row["label"] or label.absent
            name = name if name in found or len(found) < NAMES_KEPT else OTHER_NAMES
            found.setdefault(name, Counter())[row["class"]] += row["bytes"]
    return found


def _ledgers(run: RunReader, passes: int, residue: int) -> pa.Table:
    """Bytes by ledger and class, of those of a residue."""
    sums = GroupedBytes([*_LEDGER, "class"])
    for batch in _residue(run.batches("tables/space", [*_LEDGER, "class", "bytes"]), passes, residue):
        sums.add(_table(batch))
    return sums.table()


def _residue(batches: Iterator[pa.RecordBatch], passes: int, residue: int) -> Iterator[pa.RecordBatch]:
    """The rows whose ledger id has it; bytes of no ledger are of residue 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        if passes > 1:
            low = pc.bit_wise_and(pc.fill_null(batch["ledger_id"], 0), pa.scalar(passes - 1, pa.int64()))
            batch = batch.filter(pc.equal(low, residue))
        if len(batch):
            yield batch


def _passes(run: RunReader, *tables: str) -> int:
    """A power of two."""
    rows: int = sum(RunTables(run.path).dataset(f"tables/{name}").count_rows() for name in tables)
    return 1 << max(0, (max(rows, 1) - 1) // PASS_ROWS).bit_length()


def _files(run: RunReader) -> tuple[int, int]:
    """How many files the entry logs are, and their bytes; a second name of a log that is there counts not."""
    import pyarrow.dataset as ds

    columns = ["directory", "log_id", "kind", "bytes"]
    of_files = ds.field("ledger_id").is_null() & ds.field("bytes").is_valid()
    second = ds.field("kind") == LogFileKind.COMPACTED
    again = run.table("entry_logs", columns, of_files & second).to_pylist()
    ids = {(row["directory"], row["log_id"]) for row in again}
    there: set[tuple[str, int]] = set()
    count = total = 0
    for batch in run.batches("tables/entry_logs", columns, of_files & ~second):
        count += len(batch)
        total += sum(batch["bytes"].to_pylist())
        if ids:
            rows = batch.to_pylist()
            logs = {(row["directory"], row["log_id"]) for row in rows if row["kind"] == LogFileKind.LOG}
            there |= ids & logs
    alone = [row["bytes"] for row in again if (row["directory"], row["log_id"]) not in there]
    return count + len(alone), total + sum(alone)


def _table(batch: pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _totals(sums: _Sums) -> tuple[SpaceTotal, ...]:
    """The largest first, then by name."""
    return _largest([SpaceTotal(name, dict(classes)) for name, classes in sums.items()], len(sums))[0]


def _largest(
    totals: list[SpaceTotal] | tuple[SpaceTotal, ...], top: int
) -> tuple[tuple[SpaceTotal, ...], dict[str, int], int]:
    """The ``top`` largest, what the others have by class, and how many these are."""
    ordered = sorted(totals, key=lambda each: (-each.bytes, each.name))
    others: Counter[str] = Counter()
    for each in ordered[top:]:
        others.update(each.classes)
    return tuple(ordered[:top]), dict(others), len(ordered[top:])


def _age_order(total: SpaceTotal) -> tuple[bool, int | str]:
    known = total.name in AGE_LABELS
    return (False, AGE_LABELS.index(total.name)) if known else (True, total.name)
