"""Ledgers whose metadata cannot be decoded."""

from auditor.checks.check import ActionKind, Basis, DataFrame, HoldRule, HoldTarget, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, if_known, words
from auditor.tables.parts import filter_part


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
        Znodes of ledgers whose bytes do not follow any format of ledger metadata. The evidence has the path,
        the byte and the reason.

    Why it matters:
        No client can open the ledger, and nobody knows where its entries are. One such ledger also ends whole
        passes of BookKeeper's auditor. Bookies keep its data: the record exists, so it is not an orphan.

    How sure:
        Confirmed: the bytes are there and do not follow the format. Suspect where the ledger changed between
        the two scans.

    What to do:
        Restore the record from a backup of the metadata store. The server's shell cannot write over a record
        that it cannot read: put the bytes back with the store's own client, and keep the old ones.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`
          This is what the server makes of it.
        - `bkaudit decode ledger-metadata FILE`
          shows how far the bytes can be read. Risk: none; it reads the file.

    Limits:
        Metadata that parses and says what may not be has findings of its own.
    """
    return finding_rows(
        filter_part("unreadable_ledgers", tables.ledgers),
        ledger_id="ledger_id",
        message=words(
            "ledger {ledger}: metadata cannot be decoded: {damage}{at}",
            at=if_known(words(" (at byte {damage_offset})")),
        ),
        evidence="path, damage_offset AS offset, damage AS reason, version",
    )
