"""Complete answers as tables for other programs: CSV, JSON lines and Parquet, written batch by batch.

Texts that a spreadsheet would take for formulas get an apostrophe in CSV. Ids of ledgers and scopes are
decimal strings in JSON, as everywhere, and numbers in CSV and Parquet.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from auditor.model.arrow import pa, pq
from auditor.reports.csv import escape_formula

BATCH_ROWS = 20_000
"""Rows that are turned into text at once, and rows of one Parquet row group."""

_IDS = ("scope_id", "ledger_id")


def write_csv(table: Any, out: BinaryIO) -> None:
    """Write a head and a row for each row of an Arrow table; null is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(table.column_names)
    for rows in _batches(table):
        writer.writerows([_cell(value) for value in row.values()] for row in rows)
        out.write(buffer.getvalue().encode())
        buffer.seek(0)
        buffer.truncate()
    out.write(buffer.getvalue().encode())


def _cell(value: Any) -> Any:
    return escape_formula(value) if isinstance(value, str) else "" if value is None else value


def write_jsonl(table: Any, out: BinaryIO) -> None:
    """Write one JSON object a row."""
    for rows in _batches(table):
        for row in rows:
            row |= {name: str(row[name]) for name in _IDS if name in row}
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            out.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def write_parquet(table: Any, out: BinaryIO) -> None:
    """Write one Parquet file."""
    columns = {name: _plain(table[name]) for name in table.column_names}
    pq.write_table(pa.table(columns), out, row_group_size=BATCH_ROWS, compression="zstd")


def _plain(column: Any) -> Any:
    """A column without the dictionary that it was kept with in memory."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _batches(table: Any) -> Iterator[list[dict[str, Any]]]:
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        yield batch.to_pylist()


TABLE_FORMS: dict[str, Callable[[Any, BinaryIO], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}
"""By the name that ``--format`` takes."""
