"""Topics, subscriptions and schemas that name a ledger which is gone."""

from auditor.checks.check import (
    ERASES,
    ActionKind,
    Basis,
    DataFrame,
    F,
    HoldRule,
    HoldTarget,
    Severity,
    Tables,
    Urgency,
    check,
)
from auditor.checks.finding_rows import (
    finding_rows,
    if_known,
    owner_evidence,
    owner_name,
    suspect_if,
    with_fault,
    words,
)


@check(
    Severity.ERROR,
    rests_on=Basis.OWNERS,
    asks="ownership",
    urgency=Urgency.LOST,
    do_now="restore the metadata of {ledgers}; let no bookie that has them collect garbage or compact before",
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),
        HoldRule(HoldTarget.HOLDERS, (*ERASES, ActionKind.START)),
    ),
)
def owner_dangling(tables: Tables) -> DataFrame:
    """A topic, subscription or schema names a ledger that the metadata store does not have.

    What it finds:
        References to ledgers that neither scan lists: of a topic's list, of a subscription (its positions,
        delayed messages, compacted ledger), of a schema. One finding per ledger and owner. Not reported where
        the ledger was offloaded and given up for the copy. A warning where the copy is whole and the ledger
        was not given up: the object store has its data, and a trim broke off.

    Why it matters:
        Readers of a topic fail at a missing ledger in the first or middle place of its list. If it is the
        last, or a subscription's, the topic does not load or the subscription restarts from an older
        position. Without its schema, producers and consumers are refused.

    How sure:
        Confirmed where the owner was read between two scans that both lack the ledger, or all at one time,
        and did not change meanwhile. Suspect where the owner changed, where the listing of ledgers has gaps
        that could hold the id, and where owners and ledgers were saved apart (`doubt` says which).

    What to do:
        Look for the ledger on the bookies' disks before they collect it (orphan-ledger): while it is there,
        its metadata can be put back. Then see whether any subscription still needs it (`bkaudit explain
        topic`): nobody needs what every mark-delete position has passed. Never delete the topic to get rid of
        the error before that.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          It confirms that the ledger is gone.
        - `bookkeeper shell ledgermetadata -l ID -restorefromfile FILE`.

    Limits:
        A schema that is being deleted looks the same: its ledgers go before its znode. A compacted ledger
        that only a cursor's own ledger names is seen only with saved metadata and the bookies' directories.
    """
    is_offloaded = F.col("offload") == "complete"
    place = words(" ({place + 1} of {list_size} in its list)")
    copy = F.when(is_offloaded, "; its copy in the object store is complete")
    return finding_rows(
        with_fault(tables, "owner-dangling"),
        ledger_id="ledger_id",
        severity=F.when(is_offloaded, Severity.WARNING.value),
        confidence=suspect_if(F.col("why").isNotNull()),
        message=words(
            "ledger {ledger} is not in the store, but {owner_name} names it{place}{copy}{doubt}",
            owner_name=owner_name(),
            place=if_known(place),
            copy=if_known(copy),
            doubt=if_known(words("; not sure: {why}")),
        ),
        evidence=owner_evidence("place", "list_size", "entries", "size", "offload", "why AS doubt"),
    )
