"""Comparison of the inventory of a bucket (``--offload-listing``) with the offloaded ledgers of topics.

An inventory has one of these forms:

    name,size                                     CSV with a header: name or key, and size or bytes
    "bucket","pulsar/UUID-ledger-7","1048576"     CSV without a header, as S3 Inventory writes it
    Parquet with the same columns as CSV

Other columns are ignored. The user creates the inventory. The program itself does not access the bucket.
"""

from pathlib import Path

from auditor.audit.owner_scan import Owners
from auditor.audit.table_cache import TableCache
from auditor.errors import UsageError
from auditor.model.amounts import plural
from auditor.model.options import AuditOptions
from auditor.model.run_facts import Remark, RemarkKind, remark
from auditor.spark import functions as F
from auditor.spark.table_queries import aggregate_tables
from auditor.spark.types import DataFrame, SparkSession
from auditor.tables import Tables
from auditor.tables.offload_objects import offload_objects

NAME_HEADERS, SIZE_HEADERS = ("name", "key", "object"), ("size", "bytes")
"""Accepted headers of the columns for names and for sizes, in upper or lower case."""

_CSV_SUFFIXES = (".csv", ".csv.gz", ".txt")
_INVENTORY_COLUMNS = 3
"""Number of columns of S3 Inventory: bucket, key, size. A file with two columns has name and size."""


def check_inventory(path: str | None) -> None:
    """Check the path of ``--offload-listing`` before anything is read.

    ``path`` is None if the option was not given.

    Raises:
        UsageError: there is no such file or directory.
    """
    if (
        path
        and "://" not in path
        and not any(wildcard in path for wildcard in "*?[")
        and not Path(path).exists()
    ):
        raise UsageError(f"--offload-listing {path}: there is no such file")


def inventory_rows(spark: SparkSession, path: str) -> DataFrame:
    """Return the object names and sizes in an inventory, as the columns ``name`` and ``bytes``.

    ``bytes`` is null if the size is not a number.

    Raises:
        UsageError: no column has the names of objects.
    """
    inventory_path = path if "://" in path else str(Path(path).absolute())
    if inventory_path.lower().endswith(_CSV_SUFFIXES):
        rows = spark.read.option("header", True).csv(inventory_path)
        if _find_column(rows, NAME_HEADERS) is None:
            rows = spark.read.csv(inventory_path)
            if len(rows.columns) < _INVENTORY_COLUMNS - 1:
                raise UsageError(
                    f"--offload-listing {path}: the file has only one column; it must contain the names and "
                    "sizes of objects"
                )
            first_column = 1 if len(rows.columns) >= _INVENTORY_COLUMNS else 0
            rows = rows.toDF(*(f"_{column_number}" for column_number in range(len(rows.columns))))
            rows = rows.withColumnsRenamed({f"_{first_column}": "name", f"_{first_column + 1}": "size"})
    else:
        rows = spark.read.parquet(inventory_path)
    name_column, size_header = _find_column(rows, NAME_HEADERS), _find_column(rows, SIZE_HEADERS)
    if name_column is None:
        raise UsageError(
            f"--offload-listing {path}: no column is named {' or '.join(NAME_HEADERS)}; the columns "
            f"are {', '.join(rows.columns)}"
        )
    size_column = F.lit(None) if size_header is None else F.expr(f"try_cast(`{size_header}` as bigint)")
    return rows.select(
        F.col(f"`{name_column}`").cast("string").alias("name"), size_column.cast("bigint").alias("bytes")
    )


def _find_column(rows: DataFrame, names: tuple[str, ...]) -> str | None:
    return next((name for name in rows.columns if name.strip().lower() in names), None)


def with_offloads(cache: TableCache, owners: Owners, tables: Tables, options: AuditOptions) -> Tables:
    """Return ``tables`` with the table of offloaded objects, or unchanged if there is no inventory.

    ``owners`` are the objects of applications (such as topics) that refer to ledgers.

    Raises:
        UsageError: no owners were read, or the inventory has no object names.
    """
    inventory, rows = options.offload_listing, owners.rows
    if inventory is None:
        return tables
    if rows is None:
        raise UsageError(
            f"--offload-listing {inventory}: no owners were found; pass the URI of their store with --owners"
        )
    grace_ms = round(options.owner_grace * 1000)
    objects = cache.write_table(
        "offload_objects", lambda: offload_objects(inventory_rows(cache.spark, inventory), rows, grace_ms)
    )
    return tables.add(offload_objects=objects)


def offload_remarks(tables: Tables) -> list[Remark]:
    """Return one remark if topics have offloaded ledgers but no inventory was given, else an empty list."""
    if "offload_objects" in tables.frames:
        return []
    offloaded_sql = "offload in ('complete', 'deleted') and not borrowed"
    [offloaded_count] = aggregate_tables({"owners": (tables.ownership, [f"count_if({offloaded_sql})"])})[
        "owners"
    ]
    if not offloaded_count:
        return []
    ledgers_text = plural(offloaded_count, "offloaded ledger")
    text = f"{ledgers_text}: their objects were not checked; pass --offload-listing"
    return [remark(RemarkKind.OFFLOADED, text)]
