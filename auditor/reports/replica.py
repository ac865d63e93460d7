"""Comparison of the entries of a ledger that one bookie should hold with those that it holds."""

import numpy as np

from auditor.codecs.availability import coverage
from auditor.codecs.availability.groups import GROUP, Groups
from auditor.codecs.availability.wire import missing_entries
from auditor.model.ledger_id import LedgerId
from auditor.model.views import LedgerView, ReplicaView
from auditor.reports.finding_text import entries
from auditor.reports.plain_text import printable, wrap_words

_LABEL = 14


def replica_text(ledger: LedgerView, bookie_id: str, listed: Groups | None, width: int) -> str:
    """Return the entries of a ledger that a bookie should hold, those that it holds, and the difference.

    Args:
        ledger: The ledger, as a run saw it.
        bookie_id: A bookie, which need not be in one of the ledger's ensembles.
        listed: Entries that the bookie holds, as groups of dtype `GROUP`. None: use the entries that the run
            read.
        width: Columns of a line.
    """
    view = next((replica for replica in ledger.replicas if replica.bookie_id == bookie_id), None)
    name = LedgerId(ledger.ledger_id, ledger.scope_id).in_words
    member = view is not None and view.member
    lines = [("should hold", _entries(_groups(view.expected) if view else _groups(b"")))]
    if not member:
        lines.append(("note", f"no ensemble of the ledger names {printable(bookie_id)}"))
    if view is not None:
        lines.append(("in this run", _known(view)))
    held_groups = _groups(view.held) if listed is None and view is not None else listed
    if held_groups is not None:
        expected = _groups(view.expected) if view else _groups(b"")
        if listed is not None:
            lines.append(("listed", _entries(held_groups)))
        is_known = listed is not None or (view is not None and view.known)
        lines.append(("missing" if is_known else "unknown", _entries(missing_entries(held_groups, expected))))
        lines.append(("not expected", _entries(missing_entries(expected, held_groups))))
    if ledger.state is not None and ledger.state != "CLOSED":
        lines.append(
            ("note", "the ledger is not closed: entries after the newest one that was seen may exist")
        )
    head = f"{name} on {printable(bookie_id)}"
    body = [
        line
        for label, words in lines
        for line in wrap_words(words, width, f"  {label:<{_LABEL}}", " " * (_LABEL + 2))
    ]
    return "\n".join([head, *body])


def _known(view: ReplicaView) -> str:
    entry_text = _entries(_groups(view.held))
    return entry_text if view.known else f"{entry_text}; the rest is unknown: {view.reason or view.state}"


def _entries(groups: Groups) -> str:
    return entries(groups.tolist(), coverage.count(groups)) if len(groups) else "nothing"


def _groups(packed: bytes) -> Groups:
    return np.frombuffer(packed, GROUP)
