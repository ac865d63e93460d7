"""Entries that are not what their digests say."""

from auditor.checks.check import Basis, DataFrame, F, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, suspect_if, with_attribution, with_ledgers, words
from auditor.model.states import DigestState


@check(Severity.ERROR, rests_on=Basis.DIGESTS, asks="digests", do_now="inspect the disks of {bookies}")
def entry_digest_wrong(tables: Tables) -> DataFrame:
    """A bookie holds entries that are not what their digests say.

    What it finds:
        Sampled entries that do not match their own digest: CRC32 and CRC32C, and HMAC where the credentials
        file has the password. One finding per bookie, with the number of entries and ledgers, and a few of
        them. Only with `--deep`; the report's notes say how many were checked, and how many not and why.

    Why it matters:
        No client accepts such a copy: it reads the next one, and fails where there is none. Bookies do not
        check digests, so nobody notices before; and a disk that turned one bit has turned others.

    How sure:
        Confirmed: entries do not change once they are written. Suspect where a directory's cookie and place
        name two bookies. Entries without a digest type in the metadata, or with an HMAC of another password,
        are not checked.

    What to do:
        Look at the disk (SMART, kernel log). See that the ledgers have good copies elsewhere, then replace
        the disk, and have the bookie's ledgers copied from the others.

    Commands:
        - `bookkeeper shell readledger -l ID -fe FIRST -le NEXT -b BOOKIE`.
        - `bookkeeper shell decommissionbookie -bookieid BOOKIE`.

    Limits:
        Only a sample is checked: the first entries of each ledger, and a share of the others
        (`--digest-entries`, `--digest-percent`), until `--digest-budget` is used up.
    """
    wrong = tables.digests.where(F.col("state") == DigestState.WRONG.value)
    of_ledgers = wrong.groupBy("bookie_id", "scope_id", "ledger_id").agg(
        F.count("*").alias("wrong"), F.min(F.struct("entry_id", "log_id", "entry_offset")).alias("first")
    )
    rows = with_ledgers(
        of_ledgers,
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
