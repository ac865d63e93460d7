"""Comparison of a ledger's expected entries on one bookie with the entries that the bookie has."""

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import GROUP, Groups
from auditor.codecs.availability.wire import missing_entries
from auditor.model.ledger_id import LedgerId
from auditor.model.views import LedgerView, ReplicaView
from auditor.reports.finding_text import entries_text
from auditor.reports.plain_text import printable, wrap_words

_LABEL_COLUMNS = 14


def replica_text(ledger: LedgerView, bookie_id: str, listed_groups: Groups | None, width: int) -> str:
    """Return the expected entries of a ledger on one bookie, the bookie's entries, and the differences.

    Args:
        ledger: The ledger, as a run saw it.
        bookie_id: A bookie, which need not be in one of the ledger's ensembles.
        listed_groups: Entries that the bookie itself listed, as BP-34 sequence groups of dtype `GROUP`.
            None: use the entries that the run read.
        width: Columns of a line.
    """
    replica_view = next((replica for replica in ledger.replicas if replica.bookie_id == bookie_id), None)
    name = LedgerId(ledger.ledger_id, ledger.scope_id).display_name
    is_member = replica_view is not None and replica_view.is_member
    lines = [
        (
            "should hold",
            _entries_text(
                _unpack_groups(replica_view.expected_entries) if replica_view else _unpack_groups(b"")
            ),
        )
    ]
    if not is_member:
        lines.append(("note", f"{printable(bookie_id)} is in no ensemble of the ledger"))
    if replica_view is not None:
        lines.append(("in this run", _entries_in_run_text(replica_view)))
    held_groups = (
        _unpack_groups(replica_view.held_entries)
        if listed_groups is None and replica_view is not None
        else listed_groups
    )
    if held_groups is not None:
        expected_groups = (
            _unpack_groups(replica_view.expected_entries) if replica_view else _unpack_groups(b"")
        )
        if listed_groups is not None:
            lines.append(("listed", _entries_text(held_groups)))
        is_known = listed_groups is not None or (replica_view is not None and replica_view.known)
        lines.append(
            (
                "missing" if is_known else "unknown",
                _entries_text(missing_entries(held_groups, expected_groups)),
            )
        )
        lines.append(("not expected", _entries_text(missing_entries(expected_groups, held_groups))))
    if ledger.state is not None and ledger.state != "CLOSED":
        lines.append(("note", "the ledger is not closed, so newer entries may exist"))
    replica_head = f"{name} on {printable(bookie_id)}"
    body_lines = [
        line
        for label, line_text in lines
        for line in wrap_words(line_text, width, f"  {label:<{_LABEL_COLUMNS}}", " " * (_LABEL_COLUMNS + 2))
    ]
    return "\n".join([replica_head, *body_lines])


def _entries_in_run_text(replica_view: ReplicaView) -> str:
    entry_text = _entries_text(_unpack_groups(replica_view.held_entries))
    return (
        entry_text
        if replica_view.known
        else f"{entry_text}; the rest is unknown: {replica_view.reason or replica_view.state}"
    )


def _entries_text(groups: Groups) -> str:
    return entries_text(groups.tolist(), coverage.count(groups)) if len(groups) else "nothing"


def _unpack_groups(packed_groups: bytes) -> Groups:
    return np.frombuffer(packed_groups, GROUP)
