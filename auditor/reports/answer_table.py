"""Writers of whole Arrow tables as CSV, JSON lines and Parquet, batch by batch.

In CSV, a text gets an apostrophe in front if a spreadsheet would treat it as a formula. Ledger ids are
decimal strings in JSON, and numbers in CSV and Parquet. The same is true of scope ids, the upper halves of
128-bit ledger ids.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from auditor.model.arrow import pa, pq
from auditor.reports.csv import escape_formula

MAX_BATCH_ROWS = 20_000
"""Number of rows that are converted to text at once. Parquet row groups have the same number of rows."""

_ID_COLUMNS = ("scope_id", "ledger_id")


def write_csv(table: Any, output_stream: BinaryIO) -> None:
    """Write an Arrow table as CSV: a header, then one line for each row. Null becomes an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(table.column_names)
    for rows in _row_batches(table):
        writer.writerows([_cell_text(value) for value in row.values()] for row in rows)
        output_stream.write(buffer.getvalue().encode())
        buffer.seek(0)
        buffer.truncate()
    output_stream.write(buffer.getvalue().encode())


def _cell_text(value: Any) -> Any:
    return escape_formula(value) if isinstance(value, str) else "" if value is None else value


def write_jsonl(table: Any, output_stream: BinaryIO) -> None:
    """Write an Arrow table as JSON lines, one object for each row."""
    for rows in _row_batches(table):
        for row in rows:
            row |= {name: str(row[name]) for name in _ID_COLUMNS if name in row}
            text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
            output_stream.write(f"{text}\n".encode("utf-8", "backslashreplace"))


def write_parquet(table: Any, output_stream: BinaryIO) -> None:
    """Write an Arrow table as one Parquet file."""
    columns = {name: _decoded_column(table[name]) for name in table.column_names}
    pq.write_table(pa.table(columns), output_stream, row_group_size=MAX_BATCH_ROWS, compression="zstd")


def _decoded_column(column: Any) -> Any:
    """Return a dictionary-encoded column as a plain column. Any other column is returned unchanged."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _row_batches(table: Any) -> Iterator[list[dict[str, Any]]]:
    for batch in table.to_batches(max_chunksize=MAX_BATCH_ROWS):
        yield batch.to_pylist()


TABLE_FORMS: dict[str, Callable[[Any, BinaryIO], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
}
"""Writers of tables by the values of ``--format`` that stand for a table."""
