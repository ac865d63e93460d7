"""Different master keys for the same ledger."""

from auditor.checks.check import ActionKind, Basis, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers
from auditor.model.columns import LEDGER


@check(
    Severity.WARNING,
    rests_on=Basis.DIGESTS,
    asks="digests",
    do_now="read {ledgers}, and copy them to another bookie",
    action=ActionKind.RECOVER,
)
def master_key_mismatch(tables: Tables) -> DataFrame:
    """A bookie's master key for a ledger does not match the other bookies' key or the ledger's password.

    What it finds:
        Needs `--deep`. Reports master keys in `.idx` files or RocksDB that differ from the key on most of the
        ledger's bookies. Also reports keys that do not match the password in the credentials file.

    Why it matters:
        A DbLedgerStorage bookie refuses the right key (EIO: "masterKey in db can only be set once"). So
        recovery may find no quorum. A bookie with `.idx` files refuses the right key (EUA) only after a
        start from a journal without the key. Plain reads work.

    How sure:
        Confirmed if most bookies have the same key, or if the password matches one key. Suspect if nothing
        shows which key is right. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        If the ledger is closed, have it copied to another bookie. If it is open, check before its writer ends
        that its other bookies can be fenced. Then have the copies on this bookie made again: the first write
        sets the key.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        Ignores absent keys (rebuilt indexes), ledgers without a password in the metadata, and ledgers
        outside the sample.
    """
    wrong_keys = tables.digests.where(F.col("master_key") == "wrong").select("bookie_id", *LEDGER).distinct()
    differing_ledgers = tables.digests.where(F.col("master_key") == "differs").groupBy(*LEDGER)
    bookie_findings = finding_rows(
        with_attribution(with_ledgers(wrong_keys, "bookie_id"), tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message="{bookie_id} has a wrong master key for {total:ledger|ledgers}, such as ledger {sample:,}",
        evidence="total AS ledgers, sample, 'tables/digests' AS rows",
    )
    ledger_findings = finding_rows(
        differing_ledgers.agg(F.array_sort(F.collect_set("bookie_id")).alias("bookies")),
        ledger_id="ledger_id",
        confidence=Confidence.SUSPECT,
        message="ledger {ledger}: the master keys in the indexes of {bookies:,} differ, and it is "
        "unknown which is right",
        evidence="bookies, 'tables/digests' AS rows",
    )
    return bookie_findings.unionByName(ledger_findings)
