"""The findings that an audit should give for every fault in the corpora, according to their READMEs.

Each row is a fault: its findings, or why it gives none (also where it gives some). The rows are handwritten.
The tests compare them with the list of faults, the brute force, and the audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.corpora.audited import FindingKey

SEVERITY = {
    "entry-lost": "critical",
    "below-ack-quorum": "error",
    "below-write-quorum": "warning",
    "replication-undecided": "note",
    "bookie-unread": "note",
    "on-unregistered-bookie": "warning",
    "copy-lagging": "note",
    "entries-past-end": "error",
    "mark-stale": "note",
    "mark-missing": "note",
    "mark-of-deleted-ledger": "note",
    "orphan-ledger": "note",
    "over-replicated-ledger": "note",
    "surplus-entries": "note",
    "index-unreadable": "error",
    "stray-file": "note",
    "ghost-bookie": "error",
    "bookie-down": "warning",
    "ledger-not-indexed": "error",
    "cookie-key-mismatch": "error",
    "cookie-missing": "error",
    "disk-id-mismatch": "error",
    "bookie-alias": "critical",
    "alias-gc-danger": "critical",
    "instance-mismatch": "critical",
    "start-refused": "error",
}
UNKNOWN = ("replication-undecided", "bookie-unread")

Subject = int | str | tuple[int, ...] | tuple[str, ...]


SWAPPED = ("bk-a.rack1", "bk-b.rack1")
"""Each has a disk of the other: whatever rests on what they hold is no more than suspect."""


OF_CLUSTER = {
    # The bookies of all three ran without AutoRecovery. Of the first one's four, one is read-only.
    "interleaved-hier": (
        FindingKey("no-auditor", None, None, "warning", "confirmed"),
        FindingKey("too-few-writable-bookies", None, None, "warning", "confirmed"),
    ),
    "flat-v1": (FindingKey("no-auditor", None, None, "warning", "confirmed"),),
    "dbledger-long": (FindingKey("no-auditor", None, None, "warning", "confirmed"),),
    # Two of three bookies are writable, and the bookie of three ledgers is gone.
    "etcd": (
        FindingKey("too-few-writable-bookies", None, None, "error", "confirmed"),
        *(
            FindingKey("ledger-unavailable", ledger, None, "error", "confirmed")
            for ledger in (1001, 1002, 1003)
        ),
    ),
}
"""What is true of each corpus's cluster, though nobody made it a fault."""


@dataclass(frozen=True)
class Fault:
    """A fault: its kind, its subject, its findings, and an explanation where one is needed."""

    kind: str
    subject: Subject
    finds: tuple[FindingKey, ...] = ()
    why: str = ""


def subject_of(fault: dict[str, Any]) -> Subject:
    if "ledger" in fault:
        return int(fault["ledger"])
    several = fault.get("ledgers", fault.get("between"))
    return str(fault.get("bookie", fault.get("registeredAs"))) if several is None else tuple(several)


def _find(id: str, ledger: int | None = None, bookie: str | None = None, confidence: str = "") -> FindingKey:
    usual = "unknown" if id in UNKNOWN else "confirmed"
    return FindingKey(id, ledger, bookie, SEVERITY[id], confidence or usual)


def _ghost(bookie: str) -> tuple[FindingKey, ...]:
    """Return the findings of a bookie in ensembles that has neither cookie nor registration nor disk."""
    ids = ("ghost-bookie", "bookie-unread", "on-unregistered-bookie", "mark-missing")
    return tuple(_find(id, bookie=bookie) for id in ids)


def _orphans(ledger: int, *bookies: str) -> tuple[FindingKey, ...]:
    return tuple(
        _find("orphan-ledger", ledger, bookie, "suspect" if bookie in SWAPPED else "") for bookie in bookies
    )


def _past_end(ledger: int, *bookies: str) -> tuple[FindingKey, ...]:
    """Return a finding for the entry after the end (in an ack quorum), and one per bookie for the rest."""
    surplus_findings = tuple(_find("surplus-entries", bookie=bookie) for bookie in bookies)
    return (_find("entries-past-end", ledger, confidence="suspect"), *surplus_findings)


def _missing(ledger: int, id: str, confidence: str = "") -> Fault:
    return Fault("entries-missing", ledger, (_find(id, ledger, confidence=confidence),))


def _unreadable(ledger: int, bookie: str, why: str) -> Fault:
    finds = (_find("index-unreadable", ledger, bookie), _find("replication-undecided", ledger))
    return Fault("index-file-spoiled", ledger, finds, why)


def _lost_index(kind: str, ledger: int, id: str, why: str) -> Fault:
    return Fault(kind, ledger, (_find(id, ledger),), why)


NOTHING_WRONG = "the bookies came back with all they had; ensemble changes are not findings"
NOT_CLOSED = "open and in-recovery ledgers are not findings as such"
AS_MADE = "nothing was left out"
EMPTY = "nothing is striped there"
PER_BOOKIE = "the bookie is one fact, one finding of each kind; its ledgers are counted in them"
RIGHT = "a rightly set mark is not a finding; the ledger's class does not change with it"

# 127.0.101.n is bn; b99 is the bookie that never was.
B1, B2, B3, B4, B99 = (f"127.0.101.{n}:3181" for n in (1, 2, 3, 4, 99))

INTERLEAVED = [
    Fault("ensemble-change", (28, 29, 30), why=NOTHING_WRONG),
    Fault("open", 31, why=NOT_CLOSED),
    Fault("open", 32, why=NOT_CLOSED),
    Fault("open", 33, why=NOT_CLOSED),
    Fault("in-recovery", 34, why=NOT_CLOSED),
    Fault("in-recovery", 35, why=NOT_CLOSED),
    Fault("deleted-ledger-on-bookies", 36, _orphans(36, B1)),
    Fault("deleted-ledger-on-bookies", 37, _orphans(37, B1, B4)),
    Fault("deleted-ledger-on-bookies", 38, _orphans(38, B2, B3, B4)),
    Fault("deleted-ledger-on-bookies", 39, _orphans(39, B1, B2, B4)),
    Fault("deleted-ledger-on-bookies", 40, _orphans(40, B4)),
    _missing(41, "below-write-quorum"),
    _missing(42, "below-ack-quorum"),
    _missing(43, "entry-lost"),
    _missing(44, "below-write-quorum"),
    _missing(45, "below-write-quorum"),
    _missing(46, "below-ack-quorum"),
    _missing(47, "below-ack-quorum"),
    _missing(48, "below-ack-quorum"),
    _missing(49, "entry-lost"),
    _missing(50, "below-write-quorum"),
    _missing(51, "entry-lost"),
    _missing(52, "entry-lost"),
    Fault("entries-missing", 53, why=AS_MADE),
    _missing(54, "entry-lost"),
    _missing(55, "below-write-quorum"),
    Fault("entries-missing", 56, why=AS_MADE),
    _missing(57, "entry-lost"),
    _missing(58, "below-ack-quorum"),
    Fault("empty-last-segment", 59, why=EMPTY),
    Fault("empty-closed-ledger", 60, why=EMPTY),
    Fault("unknown-bookie-in-ensemble", 61, _ghost(B99), PER_BOOKIE),
    Fault("unknown-bookie-in-ensemble", 62, (_find("below-ack-quorum", 62), *_ghost(B99)), PER_BOOKIE),
    Fault("entries-missing", 63, (_find("copy-lagging", 63, confidence="suspect"),), "the ledger is open"),
    Fault("over-replicated", 64, (_find("over-replicated-ledger", 64, B4),)),
    Fault("over-replicated", 65, (_find("over-replicated-ledger", 65, B2), _find("below-ack-quorum", 65))),
    Fault("over-replicated-open", 66, (_find("over-replicated-ledger", 66, B4, "suspect"),)),
    Fault("entries-past-last", 67, _past_end(67, B3, B4)),
    Fault("entries-not-striped-here", 68, (_find("surplus-entries", bookie=B4),)),
    Fault("ledger-never-in-metadata", 69, _orphans(69, B3)),
    _unreadable(0, B3, "bad magic"),
    _unreadable(1, B2, "no byte of it"),
    _unreadable(2, B2, "half a header"),
    _lost_index("index-file-spoiled", 3, "below-ack-quorum", "only a header: readable, holds nothing"),
    _unreadable(4, B1, "cut in its page: what is there is held, the rest unknown"),
    _unreadable(5, B1, "a version from the future"),
    _lost_index("index-file-spoiled", 6, "below-write-quorum", "a zero slot is an absent entry"),
    _lost_index("index-file-removed", 7, "entry-lost", "no file on a bookie that was read"),
    _lost_index("index-file-removed", 8, "below-write-quorum", "no file on a bookie that was read"),
    Fault("stray-files", B1, (_find("stray-file", bookie=B1),), "an empty directory is nothing"),
    Fault("bookie-read-only", B4, why="read-only bookies are not findings"),
    Fault("mark", 43, why=RIGHT),
    Fault("mark", 48, why=RIGHT),
    Fault("stale-mark", 15, (_find("mark-stale", bookie=B4),)),
    Fault("stale-mark", 36, (_find("mark-of-deleted-ledger", bookie=B1),)),
    Fault("mark-locked", 48, why="a rightly held lock is not a finding"),
]

F1, F2, F3, F4, F9 = (f"bookie{n}.dc1.example:3181" for n in (1, 2, 3, 4, 9))

FLAT = [
    Fault("ensemble-change", (43, 45), why=NOTHING_WRONG),
    Fault("open", 47, why=NOT_CLOSED),
    Fault("open", 49, why=NOT_CLOSED),
    Fault("open", 51, why=NOT_CLOSED),
    Fault("in-recovery", 53, why=NOT_CLOSED),
    Fault("in-recovery", 55, why=NOT_CLOSED),
    Fault("deleted-ledger-on-bookies", 57, _orphans(57, F2)),
    Fault("deleted-ledger-on-bookies", 59, _orphans(59, F2, F3)),
    Fault("deleted-ledger-on-bookies", 61, _orphans(61, F2, F3, F4)),
    # The ack quorum of format 1 is its write quorum, so whatever is missing there is below it.
    _missing(63, "below-ack-quorum"),
    _missing(65, "below-ack-quorum"),
    _missing(67, "entry-lost"),
    _missing(69, "below-ack-quorum"),
    _missing(71, "below-ack-quorum"),
    _missing(73, "below-ack-quorum"),
    _missing(75, "below-ack-quorum"),
    _missing(77, "below-ack-quorum"),
    _missing(79, "entry-lost"),
    _missing(81, "below-ack-quorum"),
    _missing(83, "entry-lost"),
    _missing(85, "entry-lost"),
    Fault("entries-missing", 87, why=AS_MADE),
    _missing(89, "below-ack-quorum"),
    _missing(91, "entry-lost"),
    _missing(93, "below-ack-quorum"),
    _missing(95, "entry-lost"),
    _missing(97, "below-ack-quorum"),
    Fault("empty-last-segment", 99, why=EMPTY),
    Fault("empty-closed-ledger", 101, why=EMPTY),
    Fault("unknown-bookie-in-ensemble", 103, _ghost(F9), PER_BOOKIE),
    Fault("unknown-bookie-in-ensemble", 105, (_find("below-ack-quorum", 105), *_ghost(F9)), PER_BOOKIE),
    Fault("entries-missing", 107, (_find("copy-lagging", 107, confidence="suspect"),), "the ledger is open"),
    Fault("over-replicated", 109, (_find("over-replicated-ledger", 109, F4),)),
    Fault("over-replicated", 111, (_find("over-replicated-ledger", 111, F2), _find("below-ack-quorum", 111))),
    Fault("over-replicated-open", 113, (_find("over-replicated-ledger", 113, F4, "suspect"),)),
    Fault("entries-past-last", 115, _past_end(115, F3, F4)),
    Fault("entries-not-striped-here", 117, (_find("surplus-entries", bookie=F4),)),
    Fault("ledger-never-in-metadata", 119, _orphans(119, F3)),
    Fault("mark", 67, why=RIGHT),
    Fault("mark", 77, why=RIGHT),
    Fault("stale-mark", 21, (_find("mark-stale", bookie=F4),)),
    Fault("stale-mark", 57, (_find("mark-of-deleted-ledger", bookie=F1),)),
    Fault("mark-locked", 77, why="a rightly held lock is not a finding"),
]

DA, DB = SWAPPED
DC, D4 = "bk-c.rack2", "127.0.103.4:3181"
DZ, GHOST, RENAMED = "bk-z.rack9", "bk-ghost.rack9", "127.0.103.1:3181"
FIRST = 9223372036854770000  # the longest ids


def _long(number: int, id: str, confidence: str = "") -> Fault:
    return _missing(FIRST + number, id, confidence)


def _removed(entry_of: int) -> Fault:
    finding = _find("below-ack-quorum", entry_of, confidence="suspect")
    return Fault("entry-location-removed", entry_of, (finding,), "what has no location is not there")


def _unserved(ledger: int, bookie: str, confidence: str = "") -> Fault:
    finds = (_find("ledger-not-indexed", ledger, bookie, confidence), _find("replication-undecided", ledger))
    return Fault("ledger-removed-from-ledgers-index", ledger, finds, "its copies there are unknown, not lost")


DBLEDGER = [
    Fault("ensemble-change", (99999999990, 99999999991, 99999999992), why=NOTHING_WRONG),
    Fault("open", 1234567890123456, why=NOT_CLOSED),
    Fault("open", 1234567890123457, why=NOT_CLOSED),
    Fault("open", 1234567890123458, why=NOT_CLOSED),
    Fault("in-recovery", 1234567890123459, why=NOT_CLOSED),
    Fault("in-recovery", 1234567890123460, why=NOT_CLOSED),
    Fault("deleted-ledger-on-bookies", 4611686018427387900, _orphans(4611686018427387900, DB)),
    Fault("deleted-ledger-on-bookies", 4611686018427387901, _orphans(4611686018427387901, DA, DB)),
    Fault("deleted-ledger-on-bookies", 4611686018427387902, _orphans(4611686018427387902, D4, DB, DC)),
    Fault("deleted-ledger-on-bookies", 4611686018427387903, _orphans(4611686018427387903, D4, DB, DC)),
    _long(0, "below-write-quorum"),
    _long(1, "below-ack-quorum"),
    _long(2, "entry-lost", "suspect"),
    _long(3, "below-write-quorum", "suspect"),
    _long(4, "below-write-quorum"),
    _long(5, "below-ack-quorum", "suspect"),
    _long(6, "below-ack-quorum"),
    _long(7, "below-ack-quorum"),
    _long(8, "entry-lost"),
    _long(9, "below-write-quorum", "suspect"),
    _long(10, "entry-lost"),
    _long(11, "entry-lost", "suspect"),
    Fault("entries-missing", FIRST + 12, why=AS_MADE),
    _long(13, "below-write-quorum"),
    _long(14, "entry-lost", "suspect"),
    _long(15, "below-ack-quorum", "suspect"),
    _long(16, "entry-lost", "suspect"),
    _missing(2147483640, "below-ack-quorum"),
    Fault("empty-last-segment", 2147483641, why=EMPTY),
    Fault("empty-closed-ledger", 2147483642, why=EMPTY),
    Fault("unknown-bookie-in-ensemble", 2147483643, _ghost(DZ), PER_BOOKIE),
    Fault(
        "unknown-bookie-in-ensemble",
        2147483644,
        (_find("below-ack-quorum", 2147483644), *_ghost(DZ)),
        PER_BOOKIE,
    ),
    Fault(
        "entries-missing",
        2147483645,
        (_find("copy-lagging", 2147483645, confidence="suspect"),),
        "the ledger is open",
    ),
    Fault("over-replicated", 5000000000000, (_find("over-replicated-ledger", 5000000000000, D4),)),
    Fault(
        "over-replicated",
        5000000000001,
        (
            _find("over-replicated-ledger", 5000000000001, DB, "suspect"),
            _find("below-ack-quorum", 5000000000001, confidence="suspect"),
        ),
    ),
    Fault(
        "over-replicated-open",
        5000000000002,
        (_find("over-replicated-ledger", 5000000000002, D4, "suspect"),),
    ),
    Fault(
        "entries-past-last",
        5000000000003,
        _past_end(5000000000003, DC, D4),
    ),
    Fault("entries-not-striped-here", 5000000000004, (_find("surplus-entries", bookie=D4),)),
    Fault("ledger-never-in-metadata", 5000000000005, _orphans(5000000000005, DC)),
    Fault(
        "bookie-renamed",
        5000000000006,
        (
            _find("over-replicated-ledger", 5000000000006, DA, "suspect"),
            _find("alias-gc-danger", bookie=DA, confidence="suspect"),
            _find("bookie-alias", bookie=RENAMED, confidence="suspect"),
            *(
                _find(id, bookie=RENAMED)
                for id in ("bookie-down", "bookie-unread", "on-unregistered-bookie", "mark-missing")
            ),
        ),
        "the entries are there under the new id, and the ledger names the old one",
    ),
    _removed(10000000009),
    _removed(10000000009),
    _removed(10000000009),
    _unserved(2, DC),
    _unserved(3, DB, "suspect"),
    Fault(
        "cookie-id-disagrees",
        DC,
        (_find("cookie-key-mismatch", bookie=DC), _find("start-refused", bookie=DC)),
    ),
    Fault("registered-without-cookie", GHOST, (_find("cookie-missing", bookie=GHOST),)),
    Fault("mark", FIRST + 2, why=RIGHT),
    Fault("mark", FIRST + 7, why=RIGHT),
    Fault("stale-mark", 0, (_find("mark-stale", bookie=D4),)),
    Fault("stale-mark", 5000000000005, (_find("mark-of-deleted-ledger", bookie=DA),)),
    Fault("mark-locked", FIRST + 7, why="a rightly held lock is not a finding"),
    Fault(
        "disks-swapped",
        (f"{DA} ledgers1", f"{DB} ledgers1"),
        tuple(_find(id, bookie=bookie) for id in ("disk-id-mismatch", "start-refused") for bookie in SWAPPED),
        "nothing is lost by it",
    ),
    Fault(
        "instance-id-disagrees",
        D4,
        (_find("instance-mismatch", bookie=D4), _find("start-refused", bookie=D4)),
    ),
]

E1, E2, E3 = (f"127.0.107.{n}:3181" for n in (1, 2, 3))
NOWHERE = (
    _find("ghost-bookie", bookie=DZ),
    _find("bookie-unread", bookie=DZ),
    _find("on-unregistered-bookie", bookie=DZ),
)  # and no mark is missing: etcd keeps none

ETCD = [
    Fault("deleted-ledger-on-bookies", 792633534417207297, _orphans(792633534417207297, E1, E2)),
    Fault("deleted-ledger-on-bookies", 1369094286720630785, _orphans(1369094286720630785, E1, E2, E3)),
    *(
        Fault("ledger-on-no-bookie", ledger, (_find("entry-lost", ledger), *NOWHERE), PER_BOOKIE)
        for ledger in (1001, 1002, 1003)
    ),
    Fault("bookie-read-only", E3, why="read-only bookies are not findings"),
]

FAULTS = {"interleaved-hier": INTERLEAVED, "flat-v1": FLAT, "dbledger-long": DBLEDGER, "etcd": ETCD}
