"""An inventory of a bucket as a table: names and sizes of objects, from CSV or Parquet.

name,size                                     CSV with a header: name or key, and size or bytes
"bucket","pulsar/UUID-ledger-7","1048576"     CSV without one, as S3 Inventory writes it
Parquet with such columns

Other columns are ignored. Nobody asks the bucket: whoever may list it makes the inventory.
"""

from __future__ import annotations

from pathlib import Path

from auditor.errors import UsageError
from auditor.spark import functions as F
from auditor.spark.types import DataFrame, SparkSession

NAMES, SIZES = ("name", "key", "object"), ("size", "bytes")
"""What the two columns may be called, in any case."""

_CSV = (".csv", ".csv.gz", ".txt")
_INVENTORY = 3
"""S3 Inventory has bucket and key first, then the size; a list of two columns has name and size."""


def check_listing(path: str) -> None:
    """Say that a listing is invalid, before anything is read.

    Raises:
        UsageError: there is no such file or directory.
    """
    if "://" not in path and not any(mark in path for mark in "*?[") and not Path(path).exists():
        raise UsageError(f"--offload-listing {path}: there is no such file")


def listing_rows(spark: SparkSession, path: str) -> DataFrame:
    """Columns ``name`` and ``bytes`` of an inventory; ``bytes`` is null where it is no number.

    Raises:
        UsageError: no column has the names of objects.
    """
    where = path if "://" in path else str(Path(path).absolute())
    if where.lower().endswith(_CSV):
        rows = spark.read.option("header", True).csv(where)
        if _column_of(rows, NAMES) is None:
            rows = spark.read.csv(where)
            if len(rows.columns) < _INVENTORY - 1:
                raise UsageError(
                    f"--offload-listing {path}: names and sizes are wanted, and it has one column"
                )
            first = 1 if len(rows.columns) >= _INVENTORY else 0
            rows = rows.toDF(*(f"_{at}" for at in range(len(rows.columns))))
            rows = rows.withColumnsRenamed({f"_{first}": "name", f"_{first + 1}": "size"})
    else:
        rows = spark.read.parquet(where)
    name, size = _column_of(rows, NAMES), _column_of(rows, SIZES)
    if name is None:
        raise UsageError(
            f"--offload-listing {path}: no column is called {', '.join(NAMES)}; there are "
            f"{', '.join(rows.columns)}"
        )
    number = F.lit(None) if size is None else F.expr(f"try_cast(`{size}` as bigint)")
    return rows.select(F.col(f"`{name}`").cast("string").alias("name"), number.cast("bigint").alias("bytes"))


def _column_of(rows: DataFrame, wanted: tuple[str, ...]) -> str | None:
    return next((name for name in rows.columns if name.strip().lower() in wanted), None)
