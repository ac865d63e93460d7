"""Ledgers whose metadata cannot be decoded."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.finding_rows import empty_if_null, finding_rows, words
from auditor.tables.parts import filter_table_part


@check(
    Severity.ERROR,
    rests_on=Basis.METADATA,
    asks="unreadable_ledgers",
    do_now="restore the metadata of {ledgers} from a backup",
    action=ActionKind.RESTORE_METADATA,
    holds=(HoldRule(HoldTarget.LEDGER, (ActionKind.RECOVER, ActionKind.DELETE_LEDGER)),),
)
def metadata_unreadable(tables: Tables) -> DataFrame:
    """The metadata of a ledger cannot be decoded.

    What it finds:
        Reports records whose bytes follow no format of ledger metadata.

    Why it matters:
        No client can open the ledger, and BookKeeper's auditor stops its check at this ledger. Bookies keep
        the data.

    How sure:
        Confirmed: the bytes do not follow the format. Suspect if the ledger changed between the two
        metadata scans.

    What to do:
        Keep the damaged bytes. Restore the record from a backup with the store's own client: BookKeeper's
        shell cannot overwrite it.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bkaudit decode ledger-metadata FILE`
          shows how far the bytes can be read. Risk: none; it reads the file.

    Limits:
        Other checks report metadata that can be decoded but breaks a rule.
    """
    return finding_rows(
        filter_table_part("unreadable_ledgers", tables.ledgers),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger}: metadata cannot be decoded: {damage}{at}",
            at=empty_if_null(words(" (at byte {damage_offset})")),
        ),
        evidence="path, damage_offset AS offset, damage AS reason, version",
    )
