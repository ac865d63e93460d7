"""Master keys of one ledger that differ."""

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
    """A bookie's index has another master key for a ledger than its other copies, or than its password.

    What it finds:
        Ledgers whose master key in an index (header of the `.idx`, or RocksDB of ledgers) is not that of the
        password in the credentials file, or not that of most of the ledger's bookies. One finding per bookie,
        with the number of ledgers and a few of them. Where nothing says which key is right, one finding per
        ledger, which names the bookies. Only with `--deep`.

    Why it matters:
        Clients show the right key to add entries, fence or copy. A DbLedgerStorage bookie with another key
        refuses (EIO: "masterKey in db can only be set once"), so a recovery may not find a quorum. With
        `.idx` files it refuses (EUA) only where its start replays entries whose journal no longer has the
        key. Plain reads are served.

    How sure:
        Confirmed where most of the ledger's bookies have one key, or the password fits some key or HMAC of
        the ledger. Suspect where nothing says which is right, and where a directory's cookie and place name
        two bookies. Not counted are an absent key, which rebuilt indexes have, bookies outside of all
        ensembles, and ledgers without a password in the metadata (format 1, and 2 without one), which are
        copied under another.

    What to do:
        Of a closed ledger nothing is lost: have it read and copied to another bookie. Of an open one, see
        that its other bookies can be fenced before its writer ends. Then have the bookie's copies made anew:
        the key is taken from whoever writes first.

    Commands:
        - `bookkeeper shell ledgermetadata -l ID`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        Only ledgers with an entry of the bookie in the sample are looked at. Keys are compared by a hash
        under a random key that ends with the audit: none of it goes into a table, a report or a log.
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
