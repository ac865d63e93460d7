"""Coverage: whether a run looked at the facts that a finding depends on.

A run that could not read a bookie finds no faults on its disks. This does not mean that a fault was repaired.
If a run lacks an earlier finding, the finding is *fixed* only if the run looked for it. Otherwise the finding
is *unseen*, and stays known until a run looks for it. `auditor.findings.rules` has the exact rule. The
`Basis` of a finding is the kind of facts that it depends on. This module returns the basis of each check, and
gathers the facts from a finished run.

Findings whose basis has a ``table`` are covered only by a run that has this table. Findings from entry logs
are covered only if every log of the bookie was read to its end.

The columns of a run's tables are NumPy arrays here (`auditor.findings.arrays`), so that millions of
findings can be compared.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.checks import CHECK_BY_ID, Basis
from auditor.checks.check import DataKind
from auditor.errors import RunError
from auditor.findings.arrays import find_positions, is_among_texts, pack_row_keys, to_flags, to_whole_numbers
from auditor.findings.rules import FindingFacts, was_covered
from auditor.model.states import OLD_ONLY, PARTIAL_LOGS, BookieRead, LedgerClass
from auditor.tables.changes import CHANGED
from auditor.tables.roster import is_unread
from auditor.tables.run_tables import TABLES

Batches = Callable[[str, Sequence[str]], Iterable[Any]]
"""Function of (path, columns) that returns columns of a run's table as batches, always in the same order."""

LOSS_CHECKS = ("below-write-quorum", "below-ack-quorum", "entry-lost")
"""Ids of the checks that are stages of one trouble, from the mildest to the worst."""

UNREADABLE_ID = "index-unreadable"


@cache
def basis(check_id: str) -> Basis:
    """Return the facts that a check's findings depend on (`Basis`). For a former check: `Basis.DISKS`.

    >>> print(basis("entry-lost"), basis("orphan-ledger"), basis("bookie-down"), basis("segment-gap"))
    copies disks metadata metadata
    """
    check = CHECK_BY_ID.get(check_id)
    return Basis.DISKS if check is None else check.rests_on


def ids_resting_on(*bases: Basis) -> list[str]:
    """Return the ids of the checks whose findings depend on one of ``bases`` (kinds of facts)."""
    return [check_id for check_id in CHECK_BY_ID if basis(check_id) in bases]


def ids_without_check(skipped_checks: Collection[str]) -> list[str]:
    """Return the ids of the checks whose findings a run cannot find if it leaves out ``skipped_checks``.

    Former ids of these checks are included. If one check of `LOSS_CHECKS` was left out, all of them are
    included. The reason: a fault of another stage may now be at the left-out stage.

    >>> ids_without_check(["entry-lost"])
    ['entry-lost', 'below-ack-quorum', 'below-write-quorum']
    """
    stage_checks = [] if {*LOSS_CHECKS}.isdisjoint(skipped_checks) else [*LOSS_CHECKS]
    return [
        check_id
        for check_id, check in CHECK_BY_ID.items()
        if check.id in skipped_checks or check.id in stage_checks
    ]


def rests_on_logs(check_id: str) -> bool:
    """Return whether findings of the check depend on entry logs or on the ledgers maps in them.

    >>> rests_on_logs("entry-log-missing"), rests_on_logs("replica-mismatch"), rests_on_logs("disk-shared")
    (True, True, False)
    """
    return basis(check_id).table in (ENTRY_LOGS, "digests") or check_id == "gc-would-delete-live"


def rests_on_copies(check_id: str) -> bool:
    """Return whether the check needs every copy on a bookie. An unreadable index may hide copies."""
    return check_id in (
        "gc-would-delete-live",
        "metadata-suspect",
        "disk-content-mismatch",
        "alias-gc-danger",
    )


def rests_on_ensembles(check_id: str) -> bool:
    """Return whether the check needs the ensembles of all ledgers. An unreadable record hides an ensemble."""
    return check_id == "gc-would-delete-live"


def rests_on_marks(check_id: str) -> bool:
    """Return whether findings of the check depend on under-replication marks.

    >>> rests_on_marks("mark-stale"), rests_on_marks("lock-without-mark"), rests_on_marks("entry-lost")
    (True, True, False)
    """
    return check_id.startswith(("mark-", "lock-"))


Flags = NDArray[np.bool_]
ENTRY_LOGS = "entry_logs"
_BASIS_ORDER = tuple(Basis)
_CHECK_NUMBERS = {check_id: check_position for check_position, check_id in enumerate(CHECK_BY_ID)}
OWNERS = "tables/owners"


@dataclass(frozen=True)
class FindingObjects:
    """The objects that findings are about, as columns with one element for each finding.

    ``basis_no`` has the position of the finding's `Basis` among all bases. ``check_no`` has the position of
    its check among all checks, or -1 if the check no longer exists. ``bookie_no`` has the position of its
    bookie in ``names``, or -1 if the finding has no bookie.
    """

    basis_no: NDArray[np.int8]
    check_no: NDArray[np.int16]
    rests_on_marks: Flags
    has_ledger: Flags
    ledger_key: NDArray[np.bytes_]
    scope_id: NDArray[np.int64]
    ledger_id: NDArray[np.int64]
    bookie_no: NDArray[np.int64]
    names: Sequence[str]


def finding_objects(batches: Batches, rows: NDArray[np.int64]) -> FindingObjects:
    """Return the objects of the findings in some rows of a run's table ``changes``.

    ``rows`` has the row numbers, ascending.
    """
    position_by_name: dict[str, int] = {}
    column_parts: list[tuple[Any, ...]] = []
    for batch in pick_rows(batches, rows, ["id", "scope_id", "ledger_id", "bookie_id"]):
        check_ids = batch["id"].to_pylist()
        column_parts.append(
            (
                np.array([_BASIS_ORDER.index(basis(check_id)) for check_id in check_ids], np.int8),
                np.array([_CHECK_NUMBERS.get(check_id, -1) for check_id in check_ids], np.int16),
                np.array([rests_on_marks(check_id) for check_id in check_ids], np.bool_),
                batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False),
                to_whole_numbers(batch["scope_id"]),
                to_whole_numbers(batch["ledger_id"]),
                _number_column(batch["bookie_id"], position_by_name),
            )
        )
    column_types = (np.int8, np.int16, np.bool_, np.bool_, np.int64, np.int64, np.int64)
    columns = zip(*column_parts, strict=True) if column_parts else ([] for _ in column_types)
    basis_codes, check, rests_on_marks_flags, has_ledger, scope_ids, ledger_ids, bookie = (
        np.concatenate([np.empty(0, dtype), *column])
        for dtype, column in zip(column_types, columns, strict=True)
    )
    return FindingObjects(
        basis_codes,
        check,
        rests_on_marks_flags,
        has_ledger,
        pack_row_keys(scope_ids, ledger_ids),
        scope_ids,
        ledger_ids,
        bookie,
        list(position_by_name),
    )


def pick_rows(batches: Batches, rows: NDArray[np.int64], columns: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of a run's table ``changes`` that have the given row numbers.

    ``rows`` has the row numbers, ascending. Batches after the last of these rows are not read.
    """
    batch_start = first_row = 0
    if not len(rows):
        return
    for batch in batches(CHANGED, columns):
        rows_end = int(np.searchsorted(rows, batch_start + batch.num_rows))
        if rows_end > first_row:
            yield batch.take(pa.array(rows[first_row:rows_end] - batch_start))
        batch_start, first_row = batch_start + batch.num_rows, rows_end
        if first_row == len(rows):
            return


def is_covered_by_run(run: Batches, has_gaps: bool, findings: FindingObjects, is_unchecked: Flags) -> Flags:
    """Return for each finding whether ``run`` would have found it.

    ``has_gaps`` is whether a part of the metadata could not be listed. ``is_unchecked`` flags findings whose
    check did not run, or had fewer inputs than before.
    """
    if not len(findings.bookie_no):
        return np.empty(0, np.bool_)
    is_listed, is_judged, is_decided = _ledger_flags(run, findings)
    is_known, is_read, has_unread_bookie = _name_flags(run, findings.names)
    no_findings = np.zeros_like(is_listed)
    flags_by_kind: dict[DataKind, Flags] = dict.fromkeys(get_args(DataKind), no_findings)
    for basis_position, finding_basis in enumerate(_BASIS_ORDER):
        rows = findings.basis_no == basis_position
        if rows.any() and (finding_basis.table is None or _has_table(run, finding_basis.table)):
            flags_by_kind[finding_basis.data_kind] = flags_by_kind[finding_basis.data_kind] | rows
    unread_bookie_rows = []
    for rests_on_data, unread_bookies in (
        (rests_on_logs, _bookies_with_unread_logs),
        (rests_on_copies, _bookies_with_unreadable_index),
        (rests_on_ensembles, _holders_of_unread_records),
    ):
        is_of_data_kind = np.isin(
            findings.check_no,
            [_CHECK_NUMBERS[check_id] for check_id in CHECK_BY_ID if rests_on_data(check_id)],
        )
        if is_of_data_kind.any():  # otherwise the tables need not be read
            names = unread_bookies(run)
            # The last position is for findings without a bookie: any unread bookie counts.
            is_unread = np.array([*(name in names for name in findings.names), bool(names)], np.bool_)
            unread_bookie_rows.append((is_of_data_kind, is_unread[findings.bookie_no]))
    facts = FindingFacts(
        flags_by_kind=flags_by_kind,
        has_ledger=findings.has_ledger,
        is_listed_ledger=is_listed & findings.has_ledger,
        is_judged_ledger=is_judged,
        is_decided_ledger=is_decided,
        # -1, which means no bookie, selects the last position.
        has_bookie=findings.bookie_no >= 0,
        is_known_bookie=np.append(is_known, False)[findings.bookie_no],
        is_read_bookie=np.append(is_read, False)[findings.bookie_no],
        is_index_unreadable=_unreadable_flags(run, findings) if flags_by_kind["disks"].any() else no_findings,
        rests_on_marks=findings.rests_on_marks,
        is_unchecked=is_unchecked,
        unread_data_flags=unread_bookie_rows,
        has_all_metadata=np.bool_(not has_gaps),
        has_all_bookies=np.bool_(not has_unread_bookie),
        has_all_owners=np.bool_(flags_by_kind["owners"].any() and _were_owners_read(run)),
    )
    is_covered: Flags = was_covered(facts)
    return is_covered


def _bookies_with_unreadable_index(run: Batches) -> set[str]:
    """Return the bookies on which the index of some ledger could not be read."""
    names: set[str] = set()
    for batch in run(CHANGED, ["id", "change", "ledger_id", "bookie_id"]):
        rows = is_among_texts(batch["id"], [UNREADABLE_ID]) & ~is_among_texts(batch["change"], OLD_ONLY)
        rows &= batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False)
        names.update(batch["bookie_id"].filter(pa.array(rows)).drop_null().unique().to_pylist())
    return names


def _holders_of_unread_records(run: Batches) -> set[str]:
    """Return the bookies with copies of ledgers whose metadata could not be decoded."""
    unread_keys = [
        pack_row_keys(to_whole_numbers(batch["scope_id"]), to_whole_numbers(batch["ledger_id"]))[
            to_flags(batch["undecidable"]) & batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False)
        ]
        for batch in run("tables/ledgers", ["scope_id", "ledger_id", "undecidable"])
    ]
    sorted_keys = np.unique(
        np.concatenate([*unread_keys, pack_row_keys(np.empty(0, np.int64), np.empty(0, np.int64))])
    )
    names: set[str] = set()
    if len(sorted_keys):
        for batch in run("tables/availability", ["scope_id", "ledger_id", "bookie_id"]):
            rows = (
                find_positions(
                    sorted_keys,
                    pack_row_keys(to_whole_numbers(batch["scope_id"]), to_whole_numbers(batch["ledger_id"])),
                )
                >= 0
            )
            rows &= batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False)
            names.update(batch["bookie_id"].filter(pa.array(rows)).drop_null().unique().to_pylist())
    return names


def is_of_checks(findings: FindingObjects, checks: Collection[str]) -> Flags:
    """Return a flag for each finding: True if a run that leaves out ``checks`` cannot find it."""
    is_of_data_kind: Flags = np.isin(
        findings.check_no, [_CHECK_NUMBERS[check_id] for check_id in ids_without_check(checks)]
    )
    return is_of_data_kind


def _bookies_with_unread_logs(run: Batches) -> set[str]:
    """Return the bookies with an entry log, or a directory of logs, that was not read to its end."""
    if not _has_table(run, ENTRY_LOGS):
        return set()
    names: set[str] = set()
    for batch in run(f"tables/{ENTRY_LOGS}", ["bookie_id", "ledger_id", "state"]):
        rows = is_among_texts(batch["state"], PARTIAL_LOGS) & ~batch["ledger_id"].is_valid().to_numpy(
            zero_copy_only=False
        )
        names.update(batch["bookie_id"].filter(pa.array(rows)).drop_null().to_pylist())
    return names


def _has_table(run: Batches, name: str) -> bool:
    """Return whether the run wrote the optional table ``name``."""
    try:
        return next(iter(run(f"tables/{name}", TABLES[name].columns.names[:1])), None) is not None
    except RunError:
        return False


def _ledger_flags(run: Batches, findings: FindingObjects) -> tuple[Flags, Flags, Flags]:
    """Return 3 flags for each finding: its ledger is listed, the ledger's class is known, and is certain."""
    ledger_keys, key_numbers = np.unique(findings.ledger_key[findings.has_ledger], return_inverse=True)
    is_listed, is_judged, is_decided = (
        np.full(len(ledger_keys), default_flag) for default_flag in (False, True, True)
    )
    if len(ledger_keys):
        for batch in run("tables/verdicts", ["scope_id", "ledger_id", "class", "potential_class"]):
            positions = find_positions(
                ledger_keys,
                pack_row_keys(to_whole_numbers(batch["scope_id"]), to_whole_numbers(batch["ledger_id"])),
            )
            rows = np.flatnonzero(positions >= 0)
            has_decided_class = ~is_among_texts(batch["class"], [LedgerClass.UNDECIDED])[rows]
            is_same_class = pc.equal(batch["class"], batch["potential_class"]).fill_null(False)
            is_listed[positions[rows]] = True
            # Two metadata records may claim the same ledger. A flag is true only if it holds for both.
            np.logical_and.at(is_judged, positions[rows], has_decided_class)
            np.logical_and.at(
                is_decided,
                positions[rows],
                has_decided_class & is_same_class.to_numpy(zero_copy_only=False)[rows],
            )
    flags_by_finding = np.zeros((3, len(findings.has_ledger)), np.bool_)
    flags_by_finding[:, findings.has_ledger] = np.stack([is_listed, is_judged, is_decided])[:, key_numbers]
    return flags_by_finding[0], flags_by_finding[1], flags_by_finding[2]


def _were_owners_read(run: Batches) -> bool:
    """Return whether the run read all lists of ledgers of all owners (such as topics), with every value."""
    has_rows = False
    for batch in run(OWNERS, ["status"]):
        if not is_among_texts(batch["status"], ["ok"]).all():
            return False
        has_rows = has_rows or batch.num_rows > 0
    return has_rows


def _name_flags(run: Batches, names: Sequence[str]) -> tuple[Flags, Flags, bool]:
    """Return for each name whether the run knows the bookie, and whether it read the bookie completely.

    The third result is whether the run has a bookie that was not read completely.
    """
    rows = [
        row
        for batch in run("tables/bookies", ["bookie_id", "named", "found", "read"])
        for row in batch.to_pylist()
    ]
    completeness = {row["bookie_id"]: row["found"] and row["read"] == BookieRead.READ for row in rows}
    has_unread_bookie = any(map(is_unread, rows))
    is_known = np.array([name in completeness for name in names], np.bool_)
    return is_known, np.array([completeness.get(name, False) for name in names], np.bool_), has_unread_bookie


def _unreadable_flags(run: Batches, findings: FindingObjects) -> Flags:
    """Return a flag for each finding: True if its ledger's index on its bookie could not be read."""
    position_by_name = {name: name_position for name_position, name in enumerate(findings.names)}
    key_parts = [np.empty(0, "S24")]
    for batch in run(CHANGED, ["id", "change", "scope_id", "ledger_id", "bookie_id"]):
        rows = is_among_texts(batch["id"], [UNREADABLE_ID]) & ~is_among_texts(batch["change"], OLD_ONLY)
        rows &= batch["ledger_id"].is_valid().to_numpy(zero_copy_only=False)
        if rows.any():
            unreadable_rows = batch.filter(pa.array(rows))
            bookies = np.array(
                [position_by_name.get(name, -2) for name in unreadable_rows["bookie_id"].to_pylist()],
                np.int64,
            )
            key_parts.append(
                pack_row_keys(
                    to_whole_numbers(unreadable_rows["scope_id"]),
                    to_whole_numbers(unreadable_rows["ledger_id"]),
                    bookies,
                )
            )
    finding_keys = pack_row_keys(findings.scope_id, findings.ledger_id, findings.bookie_no)
    has_matching_row = find_positions(np.unique(np.concatenate(key_parts)), finding_keys) >= 0
    return has_matching_row & findings.has_ledger


def _number_column(column: Any, position_by_name: dict[str, int]) -> NDArray[np.int64]:
    dictionary_column = column.dictionary_encode()
    codes = [
        position_by_name.setdefault(name, len(position_by_name))
        for name in dictionary_column.dictionary.to_pylist()
    ]
    indices = dictionary_column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    # The last position is for null, which is -1.
    row_numbers: NDArray[np.int64] = np.array([*codes, -1], np.int64)[indices]
    return row_numbers
