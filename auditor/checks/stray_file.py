"""Files in index directories that no bookie writes."""

from auditor.checks.check import Basis, DataFrame, Severity, Tables, check
from auditor.checks.finding_rows import finding_rows, with_samples
from auditor.tables.parts import filter_table_part


@check(Severity.NOTE, rests_on=Basis.DISKS, asks="stray_files")
def stray_file(tables: Tables) -> DataFrame:
    """A bookie's index directories hold files that no bookie writes.

    What it finds:
        Reports files whose name or directory does not fit an index file.

    Why it matters:
        BookKeeper ignores these files. But if such a file is a moved index file, the bookie lacks that
        index.

    How sure:
        Confirmed: the paths were listed.

    What to do:
        Stop the bookie before you move any of these files away.

    Commands:
        - `bookkeeper shell listfilesondisc -idx`
          lists the files that the bookie treats as indexes. Run it on the bookie. Risk: none; it only reads
          files of the bookie.

    Limits:
        Only index directories are searched.
    """
    rows = with_samples(filter_table_part("stray_files", tables.availability), "bookie_id", "path")
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message="{bookie_id}: {total:file|files} among its indexes that no bookie writes: {sample:,}",
        evidence="total AS count, sample AS paths",
    )
