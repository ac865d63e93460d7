"""How the entry logs of a cluster are cut into tasks: each reads some logs of one ledger directory.

The driver lists nothing: a task lists its directory and takes every ``of``-th log, so that a directory of
thousands of logs is read by several.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from auditor.model.columns import column
from auditor.model.states import LogFileKind
from auditor.sources.bookies.entry_logs.metadata_cache import NOT_CACHED, MetadataCache, open_cache
from auditor.sources.bookies.entry_logs.rows import (
    SCHEMA,
    LogFile,
    ledger_batches,
    list_logs,
    read_log,
    unlisted_row,
)
from auditor.sources.bookies.index_files.listing import check_versions
from auditor.sources.bookies.parts import IndexDirectory

VERIFIED = 64
"""Of so many logs with a map one is read by its entries too, unless all are."""

VERIFIED_BYTES = 4 << 30
"""Bytes of such logs that one part reads at most, about: 100,000 logs of a gigabyte are not to take hours."""

WHOSE = (
    column("bookie_id", pa.string(), "the bookie whose data it is; null: nobody's"),
    column(
        "logger",
        pa.int32(),
        "whose numbering its log ids are of: on DbLedgerStorage the place of the ledger directory, else 0; "
        "null where the position is not known",
    ),
)
ENTRY_LOGS = pa.schema([*WHOSE, *SCHEMA])
"""The table ``entry_logs`` of a run."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Every ``of``-th log of a directory, from number ``number`` on; ``version_sha256`` as the driver saw it.

    ``verify``: maps are held to the entries of all logs, not only of one in `VERIFIED`. ``cache`` is the
    directory with the collector's metadata cache; None: this one.
    """

    bookie_id: str | None
    logger: int | None
    directory: str
    version_sha256: str | None
    number: int = 0
    of: int = 1
    verify: bool = False
    cache: str | None = None


def slice_parts(parts: Sequence[LogPart], wanted: int) -> list[LogPart]:
    """Cut parts, one a directory, into about ``wanted``.

    >>> [part.number for part in slice_parts([LogPart("bk1", 0, "/l0", None)], 3)]
    [0, 1, 2]
    """
    of = max(1, -(-wanted // max(1, len(parts))))
    return [replace(part, number=number, of=of) for part in parts for number in range(of)]


def to_json(parts: Sequence[LogPart]) -> str:
    """Write parts as one option of a data source.

    >>> from_json(to_json([LogPart("bk1", 0, "/l0", None)]))[0].directory
    '/l0'
    """
    return json.dumps([asdict(part) for part in parts])


def from_json(text: str) -> list[LogPart]:
    """Read back what `to_json` wrote."""
    return [LogPart(**part) for part in json.loads(text)]


def read_logs_of(part: LogPart) -> Iterator[pa.RecordBatch]:
    """Rows of `ENTRY_LOGS` of one part: of each log its own row, then its ledgers'. Needs no Spark."""
    directory = IndexDirectory(part.directory, part.version_sha256)
    try:
        logs = list_logs(part.directory)
    except OSError as error:
        yield _whose(_batch(unlisted_row(part.directory, error)), part)
        return
    for changed in check_versions([directory]):
        row = unlisted_row(part.directory, OSError(changed.reason))
        yield _whose(_batch(row), part)
        return
    with open_cache(part.cache or part.directory) as cache:
        yield from _read(part, logs[part.number :: part.of], cache)


def _read(part: LogPart, logs: Sequence[LogFile], cache: MetadataCache) -> Iterator[pa.RecordBatch]:
    left = VERIFIED_BYTES
    for log in logs:
        sampled = log.log_id % VERIFIED == 0 and left > 0
        verify = part.verify or sampled
        row, found = read_log(
            part.directory, f"{part.directory}/current/{log.name}", log, scan=True, verify=verify
        )
        left -= found.size if sampled else 0
        cached = cache.of(log.log_id, found) if log.kind == LogFileKind.LOG else NOT_CACHED
        yield _whose(_batch(row | {"cache": cached.state, "cache_reason": cached.reason}), part)
        if log.kind == LogFileKind.LOG:
            for batch in ledger_batches(row, found, cached.ledgers):
                yield _whose(batch, part)


def _batch(row: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def _whose(batch: pa.RecordBatch, part: LogPart) -> pa.RecordBatch:
    whose = [
        pa.repeat(pa.scalar(value, field.type), batch.num_rows)
        for value, field in zip((part.bookie_id, part.logger), WHOSE, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*whose, *batch.columns], schema=ENTRY_LOGS)
