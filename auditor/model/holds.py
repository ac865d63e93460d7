"""Kinds of action, and holds. A hold forbids some actions on an object until a condition is met.

Each hold has a reason. A check declares which holds its findings cause (`HoldRule`). Other holds come from
facts instead of findings (`FactReason`). A run stores its holds as rows of the table ``holds``
(`auditor.tables.holds`). `auditor.actions.gate` refuses every action that a hold forbids. docs/safety.md
lists the kinds of action and the conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.model.stored_word import StoredWord


class ActionKind(StoredWord):
    """Kind of action that a person can take on a cluster.

    Code, plan files and documents use the same words. The members are in the order in which a person takes
    these actions on the same object. Copies come before stops, repairs of disks and metadata come before
    starts, and deletions come last.
    """

    RECOVER = "recover"  # copy a ledger's entries to other bookies; closes a ledger that is open
    STOP = "stop"  # stop a bookie
    RESTORE_METADATA = "restore-metadata"  # put a ledger's metadata back
    MAKE_COOKIE = "make-cookie"  # write a bookie's cookie into the metadata store
    REBUILD_INDEX = "rebuild-index"  # write a bookie's index again from its entry logs; the bookie is stopped
    START = "start"  # start a bookie; its garbage collector then runs
    WAIT = "wait"  # leave it to the servers
    COLLECT = "collect"  # have a bookie collect garbage
    COMPACT = "compact"  # have a bookie rewrite entry logs; it collects garbage first
    DECOMMISSION = "decommission"  # take a bookie out for good: its disks may be wiped afterwards
    DELETE_COOKIE = "delete-cookie"  # delete a bookie's cookie: its data does not come back after that
    DELETE_LEDGER = "delete-ledger"  # delete a ledger's metadata: its data is then collected


DANGEROUS_ACTIONS = frozenset(
    {
        ActionKind.COLLECT,
        ActionKind.COMPACT,
        ActionKind.DELETE_LEDGER,
        ActionKind.DELETE_COOKIE,
        ActionKind.DECOMMISSION,
        ActionKind.RECOVER,
        ActionKind.REBUILD_INDEX,
    }
)
"""Kinds of action that can destroy data; each needs proof, and doubt is enough to refuse it."""

ACTIONS_NEEDING_TWO_RUNS = frozenset(
    {ActionKind.DELETE_LEDGER, ActionKind.DELETE_COOKIE, ActionKind.DECOMMISSION}
)
"""Kinds of action that also need the holds of earlier runs, and are refused if no earlier run has holds."""

ERASING_ACTIONS = (ActionKind.COLLECT, ActionKind.COMPACT, ActionKind.DECOMMISSION, ActionKind.DELETE_COOKIE)
"""Kinds of action that erase bytes on a bookie's disks, or make the cluster forget the data on them."""


class HoldObject(StoredWord):
    """Kind of object on which a hold forbids actions: column ``object`` of the table holds."""

    BOOKIE = "bookie"
    LEDGER = "ledger"
    ENTRY_LOG = "entry-log"
    SOURCE = "source"


METADATA_SOURCE = "metadata"
"""Key of a hold on the metadata store. Such a hold forbids each action that relies on a ledger's absence."""
OWNERS_SOURCE = "owners"
"""Key of a hold on the owner stores. Such a hold forbids each action that relies on an owner's absence."""


def bookie_source(bookie_id: str) -> str:
    """Return the key of the data read from a bookie, for holds (rules that forbid actions) on this data.

    >>> bookie_source("bk1:3181")
    'bookie bk1:3181'
    """
    return f"bookie {bookie_id}"


HOLDS_TABLE_PATH = "tables/holds"
"""Path of the table of a run's holds, below the run's directory."""


class HoldTarget(StoredWord):
    """The objects on which a finding places a hold (a rule that forbids actions)."""

    BOOKIE = "bookie"  # the finding's bookie
    LEDGER = "ledger"  # the finding's ledger
    BOOKIES_LACKING_ENTRIES = (
        "lacking"  # each bookie that lacks, or may lack, entries of the finding's ledger
    )
    NON_MEMBER_HOLDERS = "holders"  # each bookie that has the finding's ledger and is in no ensemble of it
    ALIAS_IDS = "identity"  # each id in the evidence, under which the finding's bookie goes
    UNEQUAL_COPIES = (
        "copies"  # each bookie in the evidence whose copy of an entry is one of those that differ
    )
    METADATA_STORE = "metadata"  # the metadata store as a source
    OWNER_STORES = "owners"  # the owner stores as a source


class LiftCondition(StoredWord):
    """Condition for a later run to lift a hold (a ban of actions): column ``lift`` of the table holds."""

    FINDING_GONE = "finding-gone"
    FACT_GONE = "fact-gone"
    DATA_ELSEWHERE = "data-elsewhere"

    def describe(self, reasons: Sequence[str]) -> str:
        """Return the condition as a sentence, for holds (rules that forbid actions) with these ``reasons``.

        >>> LiftCondition.FINDING_GONE.describe(["start-refused"])
        'an audit looks for start-refused again and does not find it'
        """
        return _LIFT_CONDITIONS[self].format(reasons=", ".join(reasons))


_LIFT_CONDITIONS = {
    LiftCondition.FINDING_GONE: "an audit looks for {reasons} again and does not find it",
    LiftCondition.FACT_GONE: "an audit reads everything that {reasons} depends on, "
    "and the reason no longer applies",
    LiftCondition.DATA_ELSEWHERE: "an audit reads all directories of the bookie, "
    "and every ledger on them has all its copies elsewhere",
}


class FactReason(StoredWord):
    """Fact, not a finding, for which a hold forbids actions: column ``reason`` of the table holds."""

    LAST_KNOWN_COPY = "last-known-copy"
    LAST_SERVED_COPY = "last-served-copy"
    NON_MEMBER_COPY = "foreign-copy"
    UNREAD_DISK = "unread-disk"
    INDEX_DAMAGED = "index-damaged"
    UNINDEXED_BYTES = "unindexed-bytes"
    COPIES_DIFFER = "copies-differ"
    NO_MEMBER_REGISTERED = "no-member-registered"
    COPIES_ON_DOWN_BOOKIES = "copies-on-down-bookies"
    OPEN_LEDGERS = "open-ledgers"
    SOURCE_TOO_OLD = "source-too-old"
    OWNERS_NOT_READ = "owners-not-read"


@dataclass(frozen=True, slots=True)
class HoldRule:
    """Rule for the holds that a finding causes. A hold forbids actions on an object.

    ``forbids`` are the forbidden actions, ``target`` are the objects, and ``lift`` is the condition that
    lifts the holds. ``lift`` differs from the default if the hold must stay after its finding is gone.
    Example: a bookie has live data under an old id. The finding is gone as soon as the bookie is stopped, but
    the bookie's cookie still must not be deleted.
    """

    target: HoldTarget
    forbids: tuple[ActionKind, ...]
    lift: LiftCondition = LiftCondition.FINDING_GONE


@dataclass(frozen=True, slots=True)
class Hold:
    """A rule that forbids actions (table holds). ``certain`` is False if its reason is only a doubt."""

    object: HoldObject
    key: str
    forbids: tuple[ActionKind, ...]
    reason: str
    certain: bool
    first_seen: int
    lift: LiftCondition
    message: str
    urgency: str = "rest"
    accepted: bool = False
    carried: bool = False


@dataclass(frozen=True, slots=True)
class HoldNotice:
    """A hold (a rule that forbids actions) in the form that reports show.

    All runs since ``first_seen`` (ms since 1970) have the hold. ``lift`` is the word of `LiftCondition` for
    the condition that lifts the hold. ``lifted_when`` is this condition as a sentence.
    """

    object: HoldObject
    key: str
    forbids: tuple[ActionKind, ...]
    reason: str
    certain: bool
    urgency: str
    accepted: bool
    carried: bool
    first_seen: int
    message: str
    lift: LiftCondition
    lifted_when: str


def hold_notice(hold: Hold) -> HoldNotice:
    """Convert a hold (a rule that forbids actions) to the form that reports show."""
    return HoldNotice(
        hold.object,
        hold.key,
        hold.forbids,
        hold.reason,
        hold.certain,
        hold.urgency,
        hold.accepted,
        hold.carried,
        hold.first_seen,
        hold.message,
        hold.lift,
        hold.lift.describe([hold.reason]),
    )


def ledger_key(scope_id: int, ledger_id: int) -> str:
    """Return the key (scope/id) of a hold on a ledger. A hold forbids actions.

    >>> ledger_key(0, 42)
    '0/42'
    """
    return f"{scope_id}/{ledger_id}"
