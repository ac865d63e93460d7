"""Topics, subscriptions and schemas that name a missing ledger."""

from auditor.checks.check import (
    ERASING_ACTIONS,
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
    empty_if_null,
    finding_rows,
    owner_evidence,
    owner_name,
    ownership_with_fault,
    suspect_if,
    words,
)


@check(
    Severity.ERROR,
    rests_on=Basis.OWNERS,
    asks="ownership",
    urgency=Urgency.LOST,
    do_now=(
        "restore the metadata of {ledgers}; until then, let no bookie that has them collect garbage or "
        "compact"
    ),
    holds=(
        HoldRule(HoldTarget.LEDGER, (ActionKind.DELETE_LEDGER,)),
        HoldRule(HoldTarget.NON_MEMBER_HOLDERS, (*ERASING_ACTIONS, ActionKind.START)),
    ),
)
def owner_dangling(tables: Tables) -> DataFrame:
    """A topic, subscription or schema names a ledger that the metadata store does not have.

    What it finds:
        Reports ledgers that are in no metadata scan. A topic's ledger list, a subscription (positions,
        delayed messages, compacted ledger) or a schema names them. The severity is `warning` if the
        ledger's offload is complete, because the object store has the data. Nothing is reported if the
        topic's ledger list also says that BookKeeper's copy was deleted.

    Why it matters:
        Readers fail at the missing ledger. Without the ledger, a subscription restarts from an older
        position, and a topic may not load. A schema then refuses producers and consumers.

    How sure:
        Confirmed if owner and ledgers were read at the same time. Also confirmed if the owner was read
        between two metadata scans that both lack the ledger. Suspect if the owner changed, or if gaps in
        the scans could hide the ledger. Suspect if owners and ledgers were saved at different times
        (`doubt`).

    What to do:
        Look for the ledger on the bookies' disks (`orphan-ledger`) before garbage collection deletes it,
        and put its metadata back. A subscription needs the ledger unless every mark-delete position is past
        it (`bkaudit explain topic`). Never delete the topic before you have checked that.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell ledgermetadata -l ID -restorefromfile FILE`.

    Limits:
        A schema that is being deleted is reported too. Some compacted ledgers are named only in the
        cursor's own ledger. Their absence is noticed only with saved metadata and the bookies'
        directories.
    """
    is_offloaded = F.col("offload") == "complete"
    list_position_text = words(" (place {place + 1} of {list_size} in its list)")
    copy_text = F.when(is_offloaded, "; its copy in the object store is complete")
    return finding_rows(
        ownership_with_fault(tables, "owner-dangling"),
        ledger_id="ledger_id",
        severity=F.when(is_offloaded, Severity.WARNING.value),
        confidence=suspect_if(F.col("why").isNotNull()),
        message=words(
            "ledger {ledger} is not in the store, but {owner_name} names it{place}{copy}{doubt}",
            owner_name=owner_name(),
            place=empty_if_null(list_position_text),
            copy=empty_if_null(copy_text),
            doubt=empty_if_null(words("; unconfirmed: {why}")),
        ),
        evidence=owner_evidence("place", "list_size", "entries", "size", "offload", "why AS doubt"),
    )
