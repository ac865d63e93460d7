"""Whether a run looked at what a finding rests on: the rules of `auditor.findings.basis`, over columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.checks import Basis
from auditor.errors import RunError
from auditor.findings.basis import UNREADABLE, basis, of_marks
from auditor.findings.columns import Batches, among, find, keys, whole
from auditor.model.states import GONE, BookieRead, LedgerClass
from auditor.tables.changes import CHANGED

Flags = NDArray[np.bool_]
OWNERS = "tables/owners"


@dataclass(frozen=True)
class Subjects:
    """What some findings are about, as columns; bookies are numbered as in ``names``, -1 is none."""

    of_store: Flags
    of_copies: Flags
    of_marks: Flags
    of_owners: Flags
    of_logs: Flags
    of_digests: Flags
    of_objects: Flags
    has_ledger: Flags
    ledger: NDArray[np.bytes_]
    scope_id: NDArray[np.int64]
    ledger_id: NDArray[np.int64]
    bookie: NDArray[np.int64]
    names: Sequence[str]


def subjects(batches: Batches, rows: NDArray[np.int64]) -> Subjects:
    """What the findings at these rows of a run's table changes are about; ``rows`` are ascending."""
    numbers: dict[str, int] = {}
    parts: list[tuple[Any, ...]] = []
    for batch in pick_rows(batches, rows, ["id", "scope_id", "ledger_id", "bookie_id"]):
        kinds = batch["id"].to_pylist()
        parts.append(
            (
                np.array([_basis(id) == Basis.METADATA for id in kinds], np.bool_),
                np.array([_basis(id) == Basis.COPIES for id in kinds], np.bool_),
                np.array([of_marks(id) for id in kinds], np.bool_),
                np.array([_basis(id) in (Basis.OWNERS, Basis.OBJECTS) for id in kinds], np.bool_),
                np.array([_basis(id) == Basis.ENTRY_LOGS for id in kinds], np.bool_),
                np.array([_basis(id) == Basis.DIGESTS for id in kinds], np.bool_),
                np.array([_basis(id) == Basis.OBJECTS for id in kinds], np.bool_),
                batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False),
                whole(batch["scope_id"]),
                whole(batch["ledger_id"]),
                _to_numbers(batch["bookie_id"], numbers),
            )
        )
    kinds = (*[np.bool_] * 8, *[np.int64] * 3)
    columns = zip(*parts, strict=True) if parts else ([] for _ in kinds)
    store, copies, marks, owners, logs, digests, objects, has, scope, ledger, bookie = (
        np.concatenate([np.empty(0, kind), *column]) for kind, column in zip(kinds, columns, strict=True)
    )
    flags = (store, copies, marks, owners, logs, digests, objects, has)
    return Subjects(*flags, keys(scope, ledger), scope, ledger, bookie, list(numbers))


def pick_rows(batches: Batches, rows: NDArray[np.int64], columns: Sequence[str]) -> Iterator[Any]:
    """The rows at these places of a run's table changes, ascending; read only as far as there are any."""
    import pyarrow as pa

    start = taken = 0
    if not len(rows):
        return
    for batch in batches(CHANGED, columns):
        end = int(np.searchsorted(rows, start + batch.num_rows))
        if end > taken:
            yield batch.take(pa.array(rows[taken:end] - start))
        start, taken = start + batch.num_rows, end
        if taken == len(rows):
            return


def covers(run: Batches, holes: bool, found: Subjects) -> Flags:
    """Of each finding, whether ``run`` would have shown it; ``holes``: its listings of metadata had some."""
    if not len(found.bookie):
        return np.empty(0, np.bool_)
    listed, judged, decided = _ledgers(run, found)
    known, read, some_unread = _bookies(run, found.names)
    listed &= found.has_ledger
    gone = ~listed & (not holes)
    # No bookie is meant, or one: -1 takes the last place, which stands for none.
    here = np.append(known, True)[found.bookie]
    disks = np.where(here, np.append(read, not some_unread)[found.bookie], not holes)
    ledger = np.where(found.has_ledger, np.where(listed, judged, not holes), True)
    on_disks = disks & ledger & ~_unreadable(run, found)
    # Where a bookie's ledgers are counted, all their copies are looked at only with all bookies.
    counts = found.of_copies & ~found.has_ledger
    answer = np.select(
        [found.of_store, counts, found.of_copies],
        [
            listed | (not holes),
            np.full_like(listed, not holes and not some_unread),
            (listed & decided) | gone,
        ],
        on_disks,
    )
    answer[found.of_marks & holes] = False
    if found.of_owners.any():
        answer[found.of_owners] = not holes and _owners_read(run)
    for rows, table, column in (
        (found.of_logs, "entry_logs", "bookie_id"),
        (found.of_digests, "digests", "bookie_id"),
        (found.of_objects, "offload_objects", "uid"),
    ):
        if rows.any() and not _has_table(run, table, column):
            answer[rows] = False
    return answer.astype(np.bool_)


def _has_table(run: Batches, name: str, column: str) -> bool:
    """Whether the run has a table that is made only where it was asked to."""
    try:
        return next(iter(run(f"tables/{name}", [column])), None) is not None
    except RunError:
        return False


def _ledgers(run: Batches, found: Subjects) -> tuple[Flags, Flags, Flags]:
    """Of each finding's ledger: whether the run lists it, whether it could judge it, and whether its class is
    decided."""
    import pyarrow.compute as pc

    wanted, place = np.unique(found.ledger[found.has_ledger], return_inverse=True)
    listed, judged, decided = (np.full(len(wanted), start) for start in (False, True, True))
    if len(wanted):
        for batch in run("tables/verdicts", ["scope_id", "ledger_id", "class", "potential_class"]):
            at = find(wanted, keys(whole(batch["scope_id"]), whole(batch["ledger_id"])))
            rows = np.flatnonzero(at >= 0)
            known = ~among(batch["class"], [LedgerClass.UNDECIDED])[rows]
            same = pc.equal(batch["class"], batch["potential_class"]).fill_null(False)
            listed[at[rows]] = True
            # Two records may say that they are one ledger: what both allow is known.
            np.logical_and.at(judged, at[rows], known)
            np.logical_and.at(decided, at[rows], known & same.to_numpy(zero_copy_only=False)[rows])
    every = np.zeros((3, len(found.has_ledger)), np.bool_)
    every[:, found.has_ledger] = np.stack([listed, judged, decided])[:, place]
    return every[0], every[1], every[2]


def _owners_read(run: Batches) -> bool:
    """Whether the run read the owners' trees, all of them and every value."""
    seen = False
    for batch in run(OWNERS, ["status"]):
        if not among(batch["status"], ["ok"]).all():
            return False
        seen = seen or batch.num_rows > 0
    return seen


def _bookies(run: Batches, names: Sequence[str]) -> tuple[Flags, Flags, bool]:
    """Whether each is known to the run, whether it was read whole, and whether any was not."""
    rows = [
        row
        for batch in run("tables/bookies", ["bookie_id", "named", "found", "read"])
        for row in batch.to_pylist()
    ]
    complete = {row["bookie_id"]: row["found"] and row["read"] == BookieRead.READ for row in rows}
    some_unread = any((row["named"] or row["found"]) and row["read"] != BookieRead.READ for row in rows)
    known = np.array([name in complete for name in names], np.bool_)
    return known, np.array([complete.get(name, False) for name in names], np.bool_), some_unread


def _unreadable(run: Batches, found: Subjects) -> Flags:
    """Whether the run could not read the index of that very ledger on that very bookie."""
    import pyarrow as pa

    numbers = {name: number for number, name in enumerate(found.names)}
    parts = [np.empty(0, "S24")]
    for batch in run(CHANGED, ["id", "change", "scope_id", "ledger_id", "bookie_id"]):
        rows = among(batch["id"], [UNREADABLE]) & ~among(batch["change"], GONE)
        rows &= batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False)
        if rows.any():
            some = batch.filter(pa.array(rows))
            bookies = np.array([numbers.get(name, -2) for name in some["bookie_id"].to_pylist()], np.int64)
            parts.append(keys(whole(some["scope_id"]), whole(some["ledger_id"]), bookies))
    hit = find(np.unique(np.concatenate(parts)), keys(found.scope_id, found.ledger_id, found.bookie)) >= 0
    return hit & found.has_ledger


def _to_numbers(column: Any, numbers: dict[str, int]) -> NDArray[np.int64]:
    encoded = column.dictionary_encode()
    codes = [numbers.setdefault(name, len(numbers)) for name in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    # The last place is for null, which is -1.
    taken: NDArray[np.int64] = np.array([*codes, -1], np.int64)[indices]
    return taken


@cache
def _basis(id: str) -> str:
    return basis(id)
