"""The Parquet of a finished run, read with pyarrow: whole tables by choice, or batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from auditor.errors import RunError
from auditor.sources.file_systems import require_file, run_files

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


WAY_OUT = "put a whole copy of it back, or audit again"


def damaged(path: str, why: object) -> RunError:
    """A part of a run that cannot be used: what it is, why, and the way out, in one sentence.

    >>> print(damaged("runs/1/report.json", "report has no verdict"))
    runs/1/report.json is damaged (report has no verdict): put a whole copy of it back, or audit again
    """
    if isinstance(why, FileNotFoundError):
        reason = "it is not there"
    elif isinstance(why, KeyError):
        reason = f"it has no {why}"
    else:
        reason = (str(why).strip().splitlines() or [type(why).__name__])[0]
    return RunError(f"{path} is damaged ({reason}): {WAY_OUT}")


class RunTables:
    """The files of one run directory; ``below`` is ``findings``, or ``tables/`` and a table's name.

    Raises:
        RunError: from any method, where a part of the run is missing or broken; the message names it.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def files(self) -> tuple[Any, str]:
        """The file system that the run lies on, and its path there."""
        return run_files(self.path)

    def names(self, below: str) -> list[str]:
        """The names of what is in a directory of the run, sorted."""
        import pyarrow as pa
        from pyarrow import fs

        files, base = self.files
        try:
            infos = files.get_file_info(fs.FileSelector(f"{base}/{below}"))
        except (OSError, pa.ArrowException) as error:
            raise damaged(f"{self.path}/{below}", error) from error
        return sorted(info.base_name for info in infos)

    def read(
        self, below: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> pa.Table:
        """What is chosen as one pyarrow Table, all of it in memory."""
        import pyarrow as pa

        try:
            return self.dataset(below).to_table(columns=list(columns) if columns else None, filter=filter)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise damaged(f"{self.path}/{below}", error) from error

    def batches(
        self, below: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch, in the order of the files; no more than one is in memory."""
        import pyarrow as pa

        chosen = list(columns) if columns else None
        try:
            yield from self.dataset(below).to_batches(
                columns=chosen, filter=filter, batch_readahead=1, fragment_readahead=1
            )
        except (OSError, pa.ArrowException, KeyError) as error:
            raise damaged(f"{self.path}/{below}", error) from error

    def sizes(self, below: str) -> dict[str, int]:
        """The files of a table by name, and their bytes; none where there is no such table."""
        from pyarrow import fs

        files, base = self.files
        selected = fs.FileSelector(f"{base}/{below}", allow_not_found=True)
        return {info.base_name: info.size or 0 for info in files.get_file_info(selected)}

    def require_columns(self, below: str, names: Sequence[str]) -> None:
        """Refuse a table of which a file lacks a column: it is another table's."""
        import pyarrow as pa

        try:
            for part in self.dataset(below).get_fragments():
                if missing := [name for name in names if name not in part.physical_schema.names]:
                    name = part.path.rpartition("/")[2]
                    why = f"it has no column {missing[0]}; it is another table's, or of another version"
                    raise damaged(f"{self.path}/{below}/{name}", why)
        except (OSError, pa.ArrowException) as error:
            raise damaged(f"{self.path}/{below}", error) from error

    def dataset(self, below: str) -> ds.Dataset:
        """The files of one table as a pyarrow Dataset."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        files, base = self.files
        parts = [part for part in self.names(below) if part.endswith(".parquet")]
        if not parts:
            raise damaged(f"{self.path}/{below}", "no Parquet file is here")
        try:
            for part in parts:
                require_file(files, f"{base}/{below}/{part}")
            # Named one by one: the order of the files is the order of the rows.
            return ds.dataset(
                [f"{base}/{below}/{part}" for part in parts], filesystem=files, format=_held_to_checksums()
            )
        except (OSError, pa.ArrowException) as error:
            raise damaged(f"{self.path}/{below}", error) from error


def _held_to_checksums() -> ds.ParquetFileFormat:
    """Parquet of which each page is held to its checksum, as Spark and this program write them."""
    import pyarrow.dataset as ds

    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)
