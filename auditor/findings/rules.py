"""The rules for changes of findings, shared by both ways to compare two runs.

An audit gathers the facts in Spark, and a comparison of two finished runs gathers them in NumPy. A fact is
therefore a Spark `Column` or a NumPy array. These rules use only operators that both have: ``&``, ``|``,
``~`` and comparisons. No column of booleans may be null, because these operators do not treat null as
false.

A finding is covered if the later run looked at the facts that the finding depends on. Only a covered finding
can get *better* or be *fixed*. The ``data_kind`` of its `Basis` names the rule:

``records``
    The metadata alone shows the finding. It is covered if the ledger is listed, or if the listing has no
    holes.
``copies``
    The finding is about copies of a ledger. It is covered if the ledger's class (by its worst entry) is
    certain, even if a bookie could not be read. It is also covered if the ledger is absent from a listing
    without holes. A finding that counts ledgers is covered if every bookie was read and the listing has no
    holes.
``disks``
    The finding is about data on a bookie's disks. It is covered if three conditions are met. (1) The
    bookie's directories were found and read to the end. (2) The ledger could be judged. (3) The ledger's
    index on the bookie could be read. It is also covered if neither the metadata nor a source knows the
    bookie.
``owners``
    The finding is about references to ledgers. It is covered if the owners' trees were read with every
    value in them, and if the listing of ledgers has no holes.

A hole is a part of the metadata that could not be read. Ids that may or may not exist are holes too. The
cause is an unread part or a misplaced record. Findings from under-replication marks are covered only by a
listing without holes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.checks.check import DataKind
from auditor.model.states import Change

CHANGE_IF_NOT_COVERED: Mapping[Change, Change] = {Change.BETTER: Change.SAME, Change.FIXED: Change.UNCHECKED}
"""Change that replaces another one if the later run did not look at the facts of the finding."""


@dataclass(frozen=True)
class FindingState:
    """The state of findings in one run. ``severity_rank`` is the rank of the severity, 0 for the worst."""

    severity_rank: Any
    missing_count: Any
    is_confirmed: Any


def is_worse(current_state: FindingState, earlier_state: FindingState) -> Any:
    """Return for each finding whether it is worse: in severity or missing entries, or newly confirmed.

    An unconfirmed finding raises no alarm. A newly confirmed finding is therefore worse, even if its severity
    is lower now.
    """
    has_more_missing_entries = (current_state.severity_rank == earlier_state.severity_rank) & (
        current_state.missing_count > earlier_state.missing_count
    )
    return (
        (current_state.severity_rank < earlier_state.severity_rank)
        | has_more_missing_entries
        | (current_state.is_confirmed & ~earlier_state.is_confirmed)
    )


def is_milder(current_state: FindingState, earlier_state: FindingState) -> Any:
    """Return for each finding whether it is milder: in severity, or, if that is equal, in missing entries."""
    has_fewer_missing_entries = (current_state.severity_rank == earlier_state.severity_rank) & (
        current_state.missing_count < earlier_state.missing_count
    )
    return (current_state.severity_rank > earlier_state.severity_rank) | has_fewer_missing_entries


@dataclass(frozen=True)
class FindingFacts:
    """The facts that the later run knows about the objects of findings. Each is a boolean per finding.

    Attributes:
        flags_by_kind: by rule (``data_kind`` of a `Basis`), whether the rule applies to the finding. One rule
            applies to each finding, or none if the table of the finding's basis is not in the run.
        has_ledger: whether the finding is about a ledger.
        is_listed_ledger: whether the run lists this ledger.
        is_judged_ledger: whether the run could judge the listed ledger.
        is_decided_ledger: whether the listed ledger's class (by its worst entry) is certain.
        has_bookie: whether the finding is about a bookie.
        is_known_bookie: whether the run knows this bookie.
        is_read_bookie: whether the run read the known bookie to the end.
        is_index_unreadable: whether the run could not read the ledger's index on the bookie.
        rests_on_marks: whether the finding depends on under-replication marks.
        is_unchecked: whether the finding's check did not run, or had fewer inputs than before.
        unread_data_flags: pairs of flags, each for one kind of data. The first flag is whether the finding
            depends on this data. The second is whether the run could not read all such data of the bookie.
        has_all_metadata: whether the listings have no holes, for all findings.
        has_all_bookies: whether every bookie was read.
        has_all_owners: whether all owners of ledgers (such as topics) were read.
    """

    flags_by_kind: Mapping[DataKind, Any]
    has_ledger: Any
    is_listed_ledger: Any
    is_judged_ledger: Any
    is_decided_ledger: Any
    has_bookie: Any
    is_known_bookie: Any
    is_read_bookie: Any
    is_index_unreadable: Any
    rests_on_marks: Any
    is_unchecked: Any
    unread_data_flags: Sequence[tuple[Any, Any]]
    has_all_metadata: Any
    has_all_bookies: Any
    has_all_owners: Any


def was_covered(facts: FindingFacts) -> Any:
    """Return for each finding whether it is covered: the run looked at the facts that it depends on."""
    is_deleted = ~facts.is_listed_ledger & facts.has_all_metadata
    is_ledger_judged = ~facts.has_ledger | (facts.is_listed_ledger & facts.is_judged_ledger) | is_deleted
    is_ledger_decided = (facts.is_listed_ledger & facts.is_decided_ledger) | is_deleted
    # A finding that counts ledgers of a bookie depends on all their copies, and so on all bookies.
    is_copy_count_known = facts.has_all_metadata & facts.has_all_bookies
    are_disks_read = (
        (~facts.has_bookie & facts.has_all_bookies)
        | (facts.has_bookie & ~facts.is_known_bookie & facts.has_all_metadata)
        | (facts.is_known_bookie & facts.is_read_bookie)
    )
    is_covered = (
        (facts.flags_by_kind["records"] & (facts.is_listed_ledger | facts.has_all_metadata))
        | (facts.flags_by_kind["copies"] & facts.has_ledger & is_ledger_decided)
        | (facts.flags_by_kind["copies"] & ~facts.has_ledger & is_copy_count_known)
        | (facts.flags_by_kind["disks"] & are_disks_read & is_ledger_judged & ~facts.is_index_unreadable)
        | (facts.flags_by_kind["owners"] & facts.has_all_metadata & facts.has_all_owners)
    )
    is_covered = is_covered & ~(facts.rests_on_marks & ~facts.has_all_metadata) & ~facts.is_unchecked
    for rests_on_data, is_data_unread in facts.unread_data_flags:
        is_covered = is_covered & ~(rests_on_data & is_data_unread)
    return is_covered
