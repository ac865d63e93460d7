"""Entries that do not match their digests."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers, words
from auditor.model.states import DigestState


@check(Severity.ERROR, rests_on=Basis.DIGESTS, asks="digests", do_now="inspect the disks of {bookies}")
def entry_digest_wrong(tables: Tables) -> DataFrame:
    """A bookie holds entries that do not match their digests.

    What it finds:
        Reports sampled entries that do not match their CRC32, CRC32C or HMAC. Needs `--deep`, and for an
        HMAC the password in the credentials file.

    Why it matters:
        No client accepts such a copy, and the disk may have damaged other data too.

    How sure:
        Confirmed: written entries never change. Suspect if the bookie also has `disk-id-mismatch`.

    What to do:
        Check the disk (SMART, kernel log). Check that the ledgers have good copies elsewhere. Then replace
        the disk and have its ledgers copied.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        The check reads only a sample (`--digest-entries`, `--digest-percent`, `--digest-budget`). It skips
        entries whose digest type or password is unknown.
    """
    wrong_digests = tables.digests.where(F.col("state") == DigestState.WRONG.value)
    ledger_rows = wrong_digests.groupBy("bookie_id", "scope_id", "ledger_id").agg(
        F.count("*").alias("wrong"), F.min(F.struct("entry_id", "log_id", "entry_offset")).alias("first")
    )
    rows = with_ledgers(
        ledger_rows,
        "bookie_id",
        F.sum("wrong").alias("entries"),
        F.min(F.struct("ledger_id", "scope_id", "first")).alias("place"),
    )
    return finding_rows(
        with_attribution(rows, tables),
        bookie_id="bookie_id",
        confidence=suspect_if(F.col("attribution_suspect")),
        message=words(
            "{bookie_id} holds {entries:sampled entry|sampled entries} of {total:ledger|ledgers} that"
            " {which}; for example ledger {sample:,}",
            which=F.when(F.col("entries") == 1, "does not match its digest").otherwise(
                "do not match their digests"
            ),
        ),
        evidence="entries, total AS ledgers, sample, place.first.entry_id AS entry_id, place.first.log_id "
        "AS log_id, place.first.entry_offset AS entry_offset, 'tables/digests' AS rows",
    )
