"""Speed of reading the entry ids in a journal, compared with ``cat`` of the same file.

The file is a bookie's journal of version 6. It has 2,000,000 records of 1 kB, in which fifty ledgers take
turns. A flush has a hundred records and is padded to a multiple of 512 bytes. Both sides read from the page
cache.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from auditor.codecs.bookie.journal import HEADER, MAGIC, NEWEST_VERSION
from auditor.sources.bookies.journal.files import read_entries
from benchmarks.measure import Line, alternate, cat

RECORD_COUNT = 2_000_000
RECORD_BYTES = 1000
FLUSH_RECORDS = 100
LEDGER_COUNT = 50

_RECORD_HEADER = struct.Struct(">iqq")


def lines() -> Iterator[Line]:
    """Yield one line that compares a walk over the file's record headers with ``cat``."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        path = write_journal(Path(folder, "1.txn"), RECORD_COUNT)
        file_bytes = path.stat().st_size
        own_seconds, cat_seconds = alternate(lambda: _read_journal(path), lambda: cat(path))
        note = f"{file_bytes / 1e9:.1f} GB in {own_seconds:.1f} s; cat takes {cat_seconds:.1f} s"
        stage = "journal of 1 kB records, to ledgers and entries"
        yield Line(
            stage,
            RECORD_COUNT,
            "records",
            own_seconds,
            "cat",
            RECORD_COUNT,
            cat_seconds,
            target=0.1,
            note=note,
        )


def write_journal(path: Path, records: int) -> Path:
    """Write a journal of ``records`` records, flush by flush."""
    payload = bytes(RECORD_BYTES - 16)
    with path.open("wb") as file:
        file.write(HEADER.pack(MAGIC, NEWEST_VERSION).ljust(512, b"\0"))
        for flush_number in range(records // FLUSH_RECORDS):
            first_entry = flush_number // LEDGER_COUNT * FLUSH_RECORDS
            record_headers = (
                _RECORD_HEADER.pack(RECORD_BYTES, flush_number % LEDGER_COUNT, first_entry + number)
                for number in range(FLUSH_RECORDS)
            )
            flush_bytes = b"".join(record_header + payload for record_header in record_headers)
            # A padding record has the length -256 and the number of zeros up to a multiple of 512 bytes.
            padding_bytes = -(len(flush_bytes) + 8) % 512
            file.write(flush_bytes + struct.pack(">ii", -256, padding_bytes) + bytes(padding_bytes))
    return path


def _read_journal(path: Path) -> None:
    entries = read_entries(str(path), 0)
    if len(entries.entry_ids) != RECORD_COUNT or set(entries.ledger_ids.tolist()) != set(range(LEDGER_COUNT)):
        sys.exit("journal: ours are not the records that were written")
