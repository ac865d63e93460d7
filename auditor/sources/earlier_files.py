"""Files of a table that an earlier run wrote, opened as they were written, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from auditor.errors import RunError
from auditor.sources.file_systems import require_file, run_files


@contextmanager
def open_earlier_file(table: str, name: str, schema: pa.Schema) -> Iterator[pq.ParquetFile]:
    """A file of ``table``, which must have the columns of ``schema``; pages are checked as they are read.

    Raises:
        RunError: it is missing, cut, damaged, or of another schema, also where that shows only while it is
            used; the message names the file.
    """
    files, base = run_files(table)
    try:
        require_file(files, f"{base}/{name}")
        with (
            files.open_input_file(f"{base}/{name}") as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as file,
        ):
            check_columns(file.schema_arrow, schema)
            yield file
    except (OSError, pa.ArrowException, UnicodeDecodeError, RunError) as error:
        raise RunError(f"{table}/{name}: {error}") from error


def extremes(file: pq.ParquetFile, column: str) -> list[tuple[str, str] | None]:
    """The least and the greatest value of a column in each row group; None of those where they are not known.

    ``column`` is one of texts, before any that is a struct: those are several columns in Parquet.
    """
    at = file.schema_arrow.get_field_index(column)
    known = [file.metadata.row_group(number).column(at).statistics for number in range(file.num_row_groups)]
    return [(each.min, each.max) if each is not None and each.has_min_max else None for each in known]


def check_columns(found: pa.Schema, schema: pa.Schema) -> None:
    """Refuse a table that is not as this program writes it.

    Raises:
        RunError: columns that are missing, more, or of another type.
    """
    if [(field.name, field.type) for field in found] != [(field.name, field.type) for field in schema]:
        raise RunError("its columns are not those of this version's table")
