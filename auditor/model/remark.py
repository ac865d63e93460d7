"""Remarks of a report: sentences about a run, and which of them change what one does.

The first screen has those that do, a line each; `bkaudit explain run` has all, with their details.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypedDict

from auditor.model.json_shape import Facet, about


class RemarkKind(StrEnum):
    """What a remark is about; what changes more of what one does goes before."""

    NEAR_LOSS = "near-loss"
    NOT_COMPARED = "not-compared"  # with an earlier run, which was there
    END_UNKNOWN = "end-unknown"  # of a dump
    SAVED_FILE = "saved-file"  # a snapshot or log that is damaged, cut, or alone
    LAYOUT_ASSUMED = "layout-assumed"
    COLLECTION_UNUSED = "collection-unused"
    JOURNAL_INCOMPLETE = "journal-incomplete"
    WITNESS_BOUND = "witness-bound"
    WITNESS_SILENT = "witness-silent"
    OWNERS_UNREAD = "owners-unread"
    LOCATIONS_UNREAD = "locations-unread"
    SPACE_UNREAD = "space-unread"
    COLLECTOR_DEFAULTS = "collector-defaults"
    EARLIER_VERSION = "earlier-version"  # its kind is not known
    SAVED = "saved"
    STORE_LIMIT = "store-limit"  # what its kind of store does not keep
    SCAN_RESTARTED = "scan-restarted"
    SECOND_SCAN_WHOLE = "second-scan-whole"
    RESUMED = "resumed"
    COLLECTION_CHOICE = "collection-choice"
    MARK_UNREADABLE = "mark-unreadable"
    OWNERS = "owners"
    OFFLOADED = "offloaded"
    PLACEMENT = "placement"
    SPACE = "space"
    DIGESTS = "digests"
    COLLECTOR_SETTINGS = "collector-settings"
    REUSE = "reuse"

    @property
    def acts(self) -> bool:
        """Whether it changes what one does.

        It does where findings are less sure, or may be too few, for a reason that somebody can mend.
        """
        return self in _ACTING


_ACTING = frozenset(
    {
        RemarkKind.NEAR_LOSS,
        RemarkKind.NOT_COMPARED,
        RemarkKind.END_UNKNOWN,
        RemarkKind.SAVED_FILE,
        RemarkKind.LAYOUT_ASSUMED,
        RemarkKind.COLLECTION_UNUSED,
        RemarkKind.JOURNAL_INCOMPLETE,
        RemarkKind.WITNESS_BOUND,
        RemarkKind.WITNESS_SILENT,
        RemarkKind.OWNERS_UNREAD,
        RemarkKind.LOCATIONS_UNREAD,
        RemarkKind.SPACE_UNREAD,
        RemarkKind.COLLECTOR_DEFAULTS,
        RemarkKind.EARLIER_VERSION,
    }
)


class Remark(TypedDict):
    """A sentence about the run, of a line beside its label, but for names; and what more is to be said."""

    kind: Annotated[str, Facet("enum", (*RemarkKind,))]
    text: str
    details: Annotated[list[str], about("names and reasons, a bounded sample")]


def remark(kind: RemarkKind, text: str, *details: str) -> Remark:
    """A remark with its details."""
    return Remark(kind=str(kind), text=text, details=list(details))


def remark_with_reason(kind: RemarkKind, sentence: str) -> Remark:
    """A remark of a sentence that ends with its reason, behind a colon.

    >>> remark_with_reason(RemarkKind.SAVED_FILE, "snapshot.7 was passed over: cut off")
    {'kind': 'saved-file', 'text': 'snapshot.7 was passed over', 'details': ['cut off']}
    """
    text, _, reason = sentence.partition(": ")
    return remark(kind, text, *([reason] if reason else []))


def sentence_of(of: Remark) -> str:
    """All of a remark.

    >>> sentence_of(remark(RemarkKind.NEAR_LOSS, "one failure from loss", "3 ledgers", "1 ledger"))
    'one failure from loss: 3 ledgers; 1 ledger'
    """
    return ": ".join([of["text"], *(["; ".join(of["details"])] if of["details"] else [])])
