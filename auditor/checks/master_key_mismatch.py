"""Differing master keys of one ledger."""

from auditor.checks.check import ActionKind, Basis, Confidence, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers
from auditor.model.columns import LEDGER


@check(
    Severity.WARNING,
    rests_on=Basis.DIGESTS,
    asks="digests",
    do_now="have {ledgers} read, and copied to another bookie",
    action=ActionKind.RECOVER,
)
def master_key_mismatch(tables: Tables) -> DataFrame:
    """A bookie's index has another master key for a ledger than its other copies, or than its password.

    What it finds:
        Ledgers whose master key in an index (header of the `.idx`, or RocksDB of ledgers) differs from
        the credentials file's password, or from most of its bookies. One finding per bookie; per ledger
        if nothing says which key is right. Only with `--deep`.

    Why it matters:
        Clients show the key to add entries, fence or copy. A DbLedgerStorage bookie refuses another key
        (EIO: "masterKey in db can only be set once"), so recovery may find no quorum. A bookie with
        `.idx` files refuses it (EUA) only if it starts and replays entries without the key in the
        journal. Plain reads work.

    How sure:
        Confirmed if most of the ledger's bookies have one key, or the password fits a key or HMAC of the
        ledger. Suspect otherwise, and if a directory's cookie names another bookie.

    What to do:
        A closed ledger loses nothing: have it read and copied to another bookie. For an open one, check
        that its other bookies can be fenced before its writer ends. Then have the bookie's copies made
        anew: the first writer sets the key.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        Not compared: absent keys (rebuilt indexes), bookies outside of all ensembles, ledgers without a
        password in the metadata (format 1; some of format 2), ledgers outside of the sample. The audit
        compares hashes under a random key and writes no key anywhere.
    """
    wrong = tables.digests.where(F.col("master_key") == "wrong").select("bookie_id", *LEDGER).distinct()
    differ = tables.digests.where(F.col("master_key") == "differs").groupBy(*LEDGER)
    of_bookies = finding_rows(
        with_attribution(with_ledgers(wrong, "bookie_id"), tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message="{bookie_id} has another master key than the right one for {total:ledger|ledgers}; such "
        "as ledger {sample:,}",
        evidence="total AS ledgers, sample, 'tables/digests' AS rows",
    )
    of_ledgers = finding_rows(
        differ.agg(F.array_sort(F.collect_set("bookie_id")).alias("bookies")),
        ledger_id="ledger_id",
        confidence=Confidence.SUSPECT,
        message="ledger {ledger}: the master keys in the indexes of {bookies:,} differ, and nothing says "
        "which is right",
        evidence="bookies, 'tables/digests' AS rows",
    )
    return of_bookies.unionByName(of_ledgers)
