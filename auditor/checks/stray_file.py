"""Files among a bookie's indexes that are none of its own."""

from auditor.checks.check import Basis, DataFrame, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, with_samples
from auditor.tables.parts import filter_part


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="stray_files")
def stray_file(tables: Tables) -> DataFrame:
    """A bookie's directories hold files that are none of the bookie's.

    What it finds:
        Files between the index files whose name or place is not that of an index. One finding per bookie,
        with their number and the first ten paths.

    Why it matters:
        BookKeeper ignores them. They are a person's notes or copies, or moved indexes, which are missing
        where they belong.

    How sure:
        Confirmed: it was read as it is reported.

    What to do:
        Look at them, and move what is not needed elsewhere while the bookie is stopped.

    Commands:
        - `bookkeeper shell listfilesondisc -idx`
          on the bookie, lists the files that it takes for indexes. Risk: none; it only reads files of the
          bookie.

    Limits:
        Empty directories are not reported. Only directories of indexes are looked at.
    """
    rows = with_samples(filter_part("stray_files", tables.availability), "bookie_id", "path")
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message="{bookie_id}: {total:file|files} among its indexes that no bookie writes: {sample:,}",
        evidence="total AS count, sample AS paths",
    )
