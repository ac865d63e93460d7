"""Things that actions operate on (bookies, ledgers, entry logs), and the sources that actions depend on."""

from collections.abc import Iterator, Sequence

from auditor.model.holds import (
    METADATA_SOURCE,
    OWNERS_SOURCE,
    ActionKind,
    HoldObject,
    bookie_source,
    ledger_key,
)
from auditor.model.permission import ActionObject

__all__ = ["ActionObject", "bookie", "ledger", "objects_with_needed_data", "source"]


def bookie(bookie_id: str) -> ActionObject:
    """Return a bookie as the object of an action."""
    return ActionObject(HoldObject.BOOKIE, bookie_id)


def ledger(ledger_id: int, scope_id: int = 0) -> ActionObject:
    """Return a ledger as the object of an action. ``scope_id`` is the upper half of its 128-bit id.

    >>> ledger(42).key
    '0/42'
    """
    return ActionObject(HoldObject.LEDGER, ledger_key(scope_id, ledger_id))


def source(source_key: str) -> ActionObject:
    """Return a source of data (e.g. the metadata store) as an object. `auditor.model.holds` has the keys."""
    return ActionObject(HoldObject.SOURCE, source_key)


_SOURCES_BY_KIND = {
    ActionKind.COLLECT: (METADATA_SOURCE,),
    ActionKind.COMPACT: (METADATA_SOURCE,),
    ActionKind.DECOMMISSION: (METADATA_SOURCE,),
    ActionKind.DELETE_COOKIE: (METADATA_SOURCE,),
    ActionKind.RECOVER: (METADATA_SOURCE,),
    ActionKind.REBUILD_INDEX: (METADATA_SOURCE,),
    ActionKind.MAKE_COOKIE: (METADATA_SOURCE,),
    ActionKind.DELETE_LEDGER: (METADATA_SOURCE, OWNERS_SOURCE),
}
"""Sources, besides the bookies, whose data must be complete for a kind of action."""


def objects_with_needed_data(
    action_kind: ActionKind, action_objects: Sequence[ActionObject]
) -> Iterator[ActionObject]:
    """Yield the sources whose data must be complete and new enough for an action on these objects."""
    for source_key in _SOURCES_BY_KIND.get(action_kind, ()):
        yield source(source_key)
    for action_object in action_objects:
        if action_object.kind is HoldObject.BOOKIE:
            yield source(bookie_source(action_object.key))
