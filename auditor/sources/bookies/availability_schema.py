"""The columns of the table ``availability``, whatever the index is read from."""

from __future__ import annotations

import pyarrow as pa

from auditor.model.columns import schema_of

ROWS = 65_536
MAX_BATCH_BYTES = 256 << 20
"""Groups in one record batch; Arrow's offsets end at 2 GiB."""

SCHEMA = schema_of(
    ("bookie_id", pa.string(), "the bookie that the index belongs to"),
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; null where ledger_id is"),
    ("ledger_id", pa.int64(), "the ledger; null for stray, gap and damaged"),
    ("groups", pa.binary(), "the entries it holds: BP-34 groups of 24 bytes, folded, no header"),
    (
        "state",
        pa.string(),
        "ok, cut, unreadable, limbo, not-indexed, misplaced (a file outside its place), wrong-directory "
        "(RocksDB: of another index directory), stray, gap or damaged, as this file alone shows it; a file "
        "that ends inside a page of the bookie's page_size is cut too",
    ),
    ("reason", pa.string(), "why the state is not ok"),
    ("offset", pa.int64(), "the byte of the file at fault, where it is known"),
    ("path", pa.string(), "the file or directory that was read"),
    (
        "page_bytes",
        pa.int64(),
        "bytes of the file after its header: a whole number of pages, unless cut",
    ),
    ("mtime", pa.int64(), "when the file last changed, in ms; null where it could not be asked"),
    ("storage", pa.string(), "where it was read: idx (files), rocksdb, or rpc (the bookie answered)"),
    ("answered", pa.int64(), "rpc: when the bookie answered, in ms"),
    (
        "stamp",
        pa.int64(),
        "64 bits of inode, size and times of the file, or of all files of the database; null where a change "
        "would not show in them",
    ),
    ("reused", pa.bool_(), "taken from an earlier run (--since), which read it"),
)
