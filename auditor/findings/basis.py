"""Whether a run looked at what a finding rests on: unless that was looked at, nothing is fixed.

A run that could not read a bookie finds nothing on its disks, and that is not a repair. So a finding of an
earlier run that is not found now is *fixed* only where what would show it was looked at and did not; else
it is *unseen*, and stays known until a run can tell. How that is decided is the ``way`` of its `Basis`:

``records``
    The store alone shows it. Looked at where the ledger is listed, or where the listing has no holes.
``copies``
    Whether a ledger has its copies. Looked at where the class of the ledger is decided, whatever could not be
    read; or where the ledger is gone from a listing without holes. Where a finding counts ledgers: with every
    bookie read, and a listing without holes.
``disks``
    What lies on a bookie's disks. Looked at where its directories were found and read to the end, the ledger
    could be judged, and its index there be read; or where neither the metadata nor a source knows the bookie.
``owners``
    Who refers to ledgers. Looked at where the owners' trees were read, with every value in them, and the
    listing of ledgers has no holes.

A basis with a ``table`` was looked at only by a run that has it. What entry logs show was looked at only
where every log of the bookie was read to its end. Holes are parts of the metadata that could
not be read, and ids that these or a misplaced record leave in doubt. What marks show needs a listing without
them. `auditor.findings.changes` asks the same in Spark.

Columns of a run's tables come as numpy arrays, so that millions of findings are compared as numbers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.checks import BY_ID, Basis
from auditor.checks.check import Way
from auditor.errors import RunError
from auditor.model.states import GONE, LOGS_NOT_WHOLE, BookieRead, LedgerClass
from auditor.tables.changes import CHANGED
from auditor.tables.run_tables import TABLES

Batches = Callable[[str, Sequence[str]], Iterable[Any]]
"""Record batches of a part of a run by its path there, always in the same order; the columns to read."""

_DIGITS = 16


def fingerprint_numbers(column: pa.Array) -> NDArray[np.uint64]:
    """Fingerprints of 16 hexadecimal digits as the numbers that they write.

    >>> import pyarrow
    >>> fingerprint_numbers(pyarrow.array(["00000000000000ff", "a000000000000000"])).tolist()
    [255, 11529215046068469760]

    Raises:
        RunError: something that is not a fingerprint.
    """
    try:
        fixed = column.cast(pa.binary()).cast(pa.binary(_DIGITS))
    except pa.ArrowException as error:
        raise RunError(f"not every fingerprint has {_DIGITS} digits: {error}") from error
    if fixed.null_count:
        raise RunError("a finding has no fingerprint")
    if not len(fixed):
        return np.empty(0, np.uint64)
    data = np.frombuffer(fixed.buffers()[1], np.uint8, _DIGITS * len(fixed), _DIGITS * fixed.offset)
    digits = data.reshape(-1, _DIGITS)
    if not np.all(((digits >= 48) & (digits < 58)) | ((digits >= 97) & (digits < 103))):
        raise RunError("a fingerprint has other digits than 0-9 and a-f")
    halves = np.where(digits < 58, digits - 48, digits - 87).astype(np.uint8)
    joined = np.ascontiguousarray(halves[:, 0::2] << 4 | halves[:, 1::2])
    return joined.view(">u8").ravel().astype(np.uint64)


def among(column: pa.Array, texts: Sequence[str]) -> NDArray[np.bool_]:
    """Which values are among a few texts; null is not."""
    is_among: NDArray[np.bool_] = pc.is_in(column, pa.array(texts, pa.string())).to_numpy(
        zero_copy_only=False
    )
    return is_among


def to_codes(column: pa.Array, codes: Mapping[str, int]) -> NDArray[np.int8]:
    """Texts as the small numbers that stand for them.

    Raises:
        RunError: a text that none stands for.
    """
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if encoded.null_count or not codes.keys() >= set(values):
        raise RunError(f"one of {values} is not among {', '.join(codes)}")
    numbers = np.array([codes[value] for value in values], np.int8)
    row_codes: NDArray[np.int8] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return row_codes


def whole(column: pa.Array) -> NDArray[np.int64]:
    """64-bit numbers; 0 for null."""
    numbers: NDArray[np.int64] = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def to_flags(column: pa.Array) -> NDArray[np.bool_]:
    """Booleans; False for null."""
    values: NDArray[np.bool_] = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return values


def keys(*columns: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """One value of several numbers, to be sorted and found as one."""
    packed = np.ascontiguousarray(np.stack(columns, axis=1).astype(">i8"))
    return packed.view(f"S{8 * len(columns)}").ravel()


def find(ascending: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Where each value stands in a sorted array; -1 where it is not there.

    >>> find(np.array([3, 5, 9]), np.array([9, 4, 3])).tolist()
    [2, -1, 0]
    """
    if not len(ascending):
        return np.full(len(values), -1, np.int64)
    place = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[place] == values, place, -1)


STAGES = ("below-write-quorum", "below-ack-quorum", "entry-lost")
"""Ids that are stages of one trouble, the mildest first: a ledger that goes to the next got worse."""

UNREADABLE = "index-unreadable"


@cache
def basis(id: str) -> Basis:
    """What the absence of a finding with this id rests on; of an id that no check has now, on disks.

    >>> print(basis("entry-lost"), basis("orphan-ledger"), basis("bookie-down"), basis("segment-gap"))
    copies disks metadata metadata
    """
    check = BY_ID.get(id)
    return Basis.DISKS if check is None else check.rests_on


def ids_resting_on(*bases: Basis) -> list[str]:
    """The ids of the checks that rest on any of these."""
    return [id for id in BY_ID if basis(id) in bases]


def ids_without_check(not_run: Collection[str]) -> list[str]:
    """The ids of findings that a run could not find, as some checks did not run; earlier ids of these too.

    Without one stage of a trouble no stage counts as looked at: the trouble may have gone on to that one.

    >>> ids_without_check(["entry-lost"])
    ['entry-lost', 'below-ack-quorum', 'below-write-quorum']
    """
    stages = [] if {*STAGES}.isdisjoint(not_run) else [*STAGES]
    return [id for id, check in BY_ID.items() if check.id in not_run or check.id in stages]


def of_logs(id: str) -> bool:
    """Whether entry logs show it, or a part of it: the copy of their maps that a collector keeps.

    >>> of_logs("entry-log-missing"), of_logs("replica-mismatch"), of_logs("disk-shared")
    (True, True, False)
    """
    return basis(id).table in (ENTRY_LOGS, "digests") or id == "gc-would-delete-live"


def of_copies(id: str) -> bool:
    """Return whether the check weighs all copies on a bookie: an unreadable index may hide one of them."""
    return id in ("gc-would-delete-live", "metadata-suspect", "disk-content-mismatch", "alias-gc-danger")


def of_marks(id: str) -> bool:
    """Whether under-replication marks show it.

    >>> of_marks("mark-stale"), of_marks("lock-without-mark"), of_marks("entry-lost")
    (True, True, False)
    """
    return id.startswith(("mark-", "lock-"))


Flags = NDArray[np.bool_]
ENTRY_LOGS = "entry_logs"
_BASES = tuple(Basis)
_KINDS = {id: place for place, id in enumerate(BY_ID)}
OWNERS = "tables/owners"


@dataclass(frozen=True)
class Subjects:
    """What some findings are about, as columns; bookies are numbered as in ``names``, -1 is none.

    ``basis`` is the place of each one's `Basis` among them, ``kind`` that of its id among those of
    checks; -1: no check has it now.
    """

    basis: NDArray[np.int8]
    kind: NDArray[np.int16]
    of_marks: Flags
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
                np.array([_BASES.index(basis(id)) for id in kinds], np.int8),
                np.array([_KINDS.get(id, -1) for id in kinds], np.int16),
                np.array([of_marks(id) for id in kinds], np.bool_),
                batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False),
                whole(batch["scope_id"]),
                whole(batch["ledger_id"]),
                _to_numbers(batch["bookie_id"], numbers),
            )
        )
    kinds = (np.int8, np.int16, np.bool_, np.bool_, np.int64, np.int64, np.int64)
    columns = zip(*parts, strict=True) if parts else ([] for _ in kinds)
    on, kind, marks, has, scope, ledger, bookie = (
        np.concatenate([np.empty(0, dtype), *column]) for dtype, column in zip(kinds, columns, strict=True)
    )
    return Subjects(on, kind, marks, has, keys(scope, ledger), scope, ledger, bookie, list(numbers))


def pick_rows(batches: Batches, rows: NDArray[np.int64], columns: Sequence[str]) -> Iterator[Any]:
    """The rows at these places of a run's table changes, ascending; read only as far as there are any."""
    start = first = 0
    if not len(rows):
        return
    for batch in batches(CHANGED, columns):
        end = int(np.searchsorted(rows, start + batch.num_rows))
        if end > first:
            yield batch.take(pa.array(rows[first:end] - start))
        start, first = start + batch.num_rows, end
        if first == len(rows):
            return


def covers(run: Batches, holes: bool, findings: Subjects, not_run: Collection[str] = ()) -> Flags:
    """Of each finding, whether ``run`` would have shown it.

    ``holes``: its listings of metadata had some. ``not_run``: the checks that it left out.
    """
    if not len(findings.bookie):
        return np.empty(0, np.bool_)
    listed, judged, decided = _ledgers(run, findings)
    is_known, read, some_unread = _bookies(run, findings.names)
    listed &= findings.has_ledger
    is_deleted = ~listed & (not holes)
    # No bookie is meant, or one: -1 takes the last place, which stands for none.
    bookie_is_known = np.append(is_known, True)[findings.bookie]
    disks = np.where(bookie_is_known, np.append(read, not some_unread)[findings.bookie], not holes)
    ledger = np.where(findings.has_ledger, np.where(listed, judged, not holes), True)
    # Where a bookie's ledgers are counted, all their copies are looked at only with all bookies.
    counted = not holes and not some_unread
    rules: dict[Way, Callable[[], Flags]] = {
        "records": lambda: listed | (not holes),
        "copies": lambda: np.where(findings.has_ledger, (listed & decided) | is_deleted, counted),
        "disks": lambda: disks & ledger & ~_unreadable(run, findings),
        "owners": lambda: np.full_like(listed, not holes and _owners_read(run)),
    }
    answer = np.zeros_like(listed)
    for place, finding_basis in enumerate(_BASES):
        rows = findings.basis == place
        if rows.any() and (finding_basis.table is None or _has_table(run, finding_basis.table)):
            answer[rows] = rules[finding_basis.way]()[rows]
    answer &= ~of_checks(findings, not_run)
    for is_shown, unread_bookies in (
        (of_logs, _bookies_with_unread_logs),
        (of_copies, _bookies_with_unreadable_index),
    ):
        shown = np.isin(findings.kind, [_KINDS[id] for id in BY_ID if is_shown(id)])
        if shown.any():
            names = unread_bookies(run)
            # The last place stands for no bookie: then any of them counts.
            is_unread = np.array([*(name in names for name in findings.names), bool(names)], np.bool_)
            answer &= ~(shown & is_unread[findings.bookie])
    return answer & ~(findings.of_marks & holes)


def _bookies_with_unreadable_index(run: Batches) -> set[str]:
    """The bookies with a ledger whose index could not be read."""
    names: set[str] = set()
    for batch in run(CHANGED, ["id", "change", "ledger_id", "bookie_id"]):
        rows = among(batch["id"], [UNREADABLE]) & ~among(batch["change"], GONE)
        rows &= batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False)
        names.update(batch["bookie_id"].filter(pa.array(rows)).drop_null().unique().to_pylist())
    return names


def of_checks(findings: Subjects, checks: Collection[str]) -> Flags:
    """Of each finding, whether one of these checks would show it (`ids_without_check`)."""
    shown: Flags = np.isin(findings.kind, [_KINDS[id] for id in ids_without_check(checks)])
    return shown


def _bookies_with_unread_logs(run: Batches) -> set[str]:
    """The bookies with an entry log, or a directory of them, that was not read to its end."""
    if not _has_table(run, ENTRY_LOGS):
        return set()
    names: set[str] = set()
    for batch in run(f"tables/{ENTRY_LOGS}", ["bookie_id", "ledger_id", "state"]):
        rows = among(batch["state"], LOGS_NOT_WHOLE) & ~batch["ledger_id"].is_valid().to_numpy(
            zero_copy_only=False
        )
        names.update(batch["bookie_id"].filter(pa.array(rows)).drop_null().to_pylist())
    return names


def _has_table(run: Batches, name: str) -> bool:
    """Whether the run has a table that is made only where it was asked to."""
    try:
        return next(iter(run(f"tables/{name}", TABLES[name].columns.names[:1])), None) is not None
    except RunError:
        return False


def _ledgers(run: Batches, findings: Subjects) -> tuple[Flags, Flags, Flags]:
    """Of each finding's ledger: whether the run lists it, whether it could judge it, and whether its class is
    decided."""
    ledger_keys, place = np.unique(findings.ledger[findings.has_ledger], return_inverse=True)
    listed, judged, decided = (np.full(len(ledger_keys), start) for start in (False, True, True))
    if len(ledger_keys):
        for batch in run("tables/verdicts", ["scope_id", "ledger_id", "class", "potential_class"]):
            positions = find(ledger_keys, keys(whole(batch["scope_id"]), whole(batch["ledger_id"])))
            rows = np.flatnonzero(positions >= 0)
            has_class = ~among(batch["class"], [LedgerClass.UNDECIDED])[rows]
            same = pc.equal(batch["class"], batch["potential_class"]).fill_null(False)
            listed[positions[rows]] = True
            # Two records may say that they are one ledger: what both allow is known.
            np.logical_and.at(judged, positions[rows], has_class)
            np.logical_and.at(decided, positions[rows], has_class & same.to_numpy(zero_copy_only=False)[rows])
    by_finding = np.zeros((3, len(findings.has_ledger)), np.bool_)
    by_finding[:, findings.has_ledger] = np.stack([listed, judged, decided])[:, place]
    return by_finding[0], by_finding[1], by_finding[2]


def _owners_read(run: Batches) -> bool:
    """Whether the run read the owners' trees, all of them and every value."""
    has_rows = False
    for batch in run(OWNERS, ["status"]):
        if not among(batch["status"], ["ok"]).all():
            return False
        has_rows = has_rows or batch.num_rows > 0
    return has_rows


def _bookies(run: Batches, names: Sequence[str]) -> tuple[Flags, Flags, bool]:
    """Whether each is known to the run, whether it was read completely, and whether any was not."""
    rows = [
        row
        for batch in run("tables/bookies", ["bookie_id", "named", "found", "read"])
        for row in batch.to_pylist()
    ]
    complete = {row["bookie_id"]: row["found"] and row["read"] == BookieRead.READ for row in rows}
    some_unread = any((row["named"] or row["found"]) and row["read"] != BookieRead.READ for row in rows)
    is_known = np.array([name in complete for name in names], np.bool_)
    return is_known, np.array([complete.get(name, False) for name in names], np.bool_), some_unread


def _unreadable(run: Batches, findings: Subjects) -> Flags:
    """Whether the run could not read the index of that very ledger on that very bookie."""
    numbers = {name: number for number, name in enumerate(findings.names)}
    parts = [np.empty(0, "S24")]
    for batch in run(CHANGED, ["id", "change", "scope_id", "ledger_id", "bookie_id"]):
        rows = among(batch["id"], [UNREADABLE]) & ~among(batch["change"], GONE)
        rows &= batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False)
        if rows.any():
            part = batch.filter(pa.array(rows))
            bookies = np.array([numbers.get(name, -2) for name in part["bookie_id"].to_pylist()], np.int64)
            parts.append(keys(whole(part["scope_id"]), whole(part["ledger_id"]), bookies))
    places = keys(findings.scope_id, findings.ledger_id, findings.bookie)
    hit = find(np.unique(np.concatenate(parts)), places) >= 0
    return hit & findings.has_ledger


def _to_numbers(column: Any, numbers: dict[str, int]) -> NDArray[np.int64]:
    encoded = column.dictionary_encode()
    codes = [numbers.setdefault(name, len(numbers)) for name in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    # The last place is for null, which is -1.
    row_numbers: NDArray[np.int64] = np.array([*codes, -1], np.int64)[indices]
    return row_numbers
