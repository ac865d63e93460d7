"""What actions are taken on: bookies, ledgers and entry logs; and the sources that each kind rests on."""

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

__all__ = ["ActionObject", "bookie", "ledger", "rests_on", "source"]


def bookie(bookie_id: str) -> ActionObject:
    """A bookie."""
    return ActionObject(HoldObject.BOOKIE, bookie_id)


def ledger(ledger_id: int, scope_id: int = 0) -> ActionObject:
    """A ledger.

    >>> ledger(42).key
    '0/42'
    """
    return ActionObject(HoldObject.LEDGER, ledger_key(scope_id, ledger_id))


def source(key: str) -> ActionObject:
    """A source, by one of the keys of `auditor.model.holds`."""
    return ActionObject(HoldObject.SOURCE, key)


_RESTS_ON = {
    ActionKind.COLLECT: (METADATA_SOURCE,),
    ActionKind.COMPACT: (METADATA_SOURCE,),
    ActionKind.DECOMMISSION: (METADATA_SOURCE,),
    ActionKind.DELETE_COOKIE: (METADATA_SOURCE,),
    ActionKind.RECOVER: (METADATA_SOURCE,),
    ActionKind.REBUILD_INDEX: (METADATA_SOURCE,),
    ActionKind.MAKE_COOKIE: (METADATA_SOURCE,),
    ActionKind.DELETE_LEDGER: (METADATA_SOURCE, OWNERS_SOURCE),
}
"""The sources besides bookies whose completeness an action takes for granted."""


def rests_on(kind: ActionKind, objects: Sequence[ActionObject]) -> Iterator[ActionObject]:
    """The sources that an action on some objects rests on."""
    for key in _RESTS_ON.get(kind, ()):
        yield source(key)
    for object in objects:
        if object.kind is HoldObject.BOOKIE:
            yield source(bookie_source(object.key))
