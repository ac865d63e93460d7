"""Reasons why a plan refuses to copy the entries of a ledger to another bookie, each with advice."""

from auditor.model.ledger_metadata import LedgerState
from auditor.model.plan import (
    RefusalReason,
)
from auditor.plan.parts import (
    LedgerRow,
)
from auditor.plan.plan_facts import PlanFacts

REFUSAL_TEXTS = {
    RefusalReason.NO_COPY: (
        "for some entry, no copy could be read",
        "read or start the bookies that should have the entry, or find others that have it (bkaudit "
        "explain ledger ID)",
    ),
    RefusalReason.WORKER_LOCK: (
        "a replication worker has locked the ledger, and the command recover does not take the lock",
        "wait for the worker, and audit again",
    ),
    RefusalReason.UNPROVED: ("the finding is not confirmed", "audit again with --since last"),
    RefusalReason.DISKS_EXCHANGED: (
        "a bookie that should have the entries has another bookie's disks, or its own disks are swapped",
        "put the disks back with the step in this plan, then audit again; copying may be unnecessary",
    ),
    RefusalReason.NOT_BY_SHELL: (
        "no released bookkeeper shell accepts a ledger id below 0, or a ledger in an id scope other than 0",
        "wait for a bookkeeper shell release that can copy such a ledger",
    ),
}


def find_copy_refusal(
    plan_facts: PlanFacts, bookie: str, ledger_row: LedgerRow | None
) -> tuple[RefusalReason, str, str] | None:
    """Return why another bookie cannot or must not replace ``bookie`` in a ledger. None if one can.

    The result has the code of the reason, the reason in words, and the way out.
    """
    if ledger_row is None or bookie not in ledger_row.members:
        return RefusalReason.UNPROVED, f"no segment of the ledger names {bookie} any more", "audit again"
    if ledger_row.state != LedgerState.CLOSED:
        return (
            RefusalReason.LIVE_WRITER,
            f"the ledger is not closed ({ledger_row.state}): recover would close it while its writer uses it",
            "let the application close the ledger, and plan again",
        )
    if ledger_row.digest_type is None:
        return (
            RefusalReason.NOT_BY_SHELL,
            "the ledger's metadata has no digest type and no password, so recover would use those in the "
            "shell's configuration",
            "have the application read the ledger and write it to a new one. Or, for this ledger only, set "
            "digestType and passwd in the shell's configuration to those of the application",
        )
    ensembles = [ensemble for ensemble in ledger_row.ensembles if bookie in ensemble]
    if not all(plan_facts.writable_bookies - {*ensemble} for ensemble in ensembles):
        way_out = "add a bookie, or make a read-only bookie writable again"
        return RefusalReason.NO_SPARE, "there is no writable bookie outside the ledger's ensemble", way_out
    return None
