"""Small inputs that would decompress, expand or nest to an enormous size: ``python -m proofs.fuzz.bombs``.

A reader refuses each input at a named limit before the input takes memory. Each output line has the message,
the growth of the process's memory in MB, and the time.
"""

from __future__ import annotations

import gc
import json
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet as pq

from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarCompressedMetadata
from auditor.codecs.pulsar import bookie_racks, managed_ledger
from auditor.codecs.zookeeper import encodings, txnlog
from auditor.errors import AuditorError
from auditor.runs.damage import translate_damage
from auditor.runs.load_bookie import run_view
from auditor.runs.reader import RunReader
from auditor.sources.bookies.collections.collection import MANIFEST, Collection
from auditor.sources.bookies.entry_logs.reader import contents_of
from auditor.sources.bookies.places import read_inventory
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.metadata.zookeeper.files import map_file
from auditor.sources.regular_file import read_toml
from proofs.fuzz.readers import read_store
from tests.made_runs import made_run

DEPTH = 100_000
NESTED = b"[" * DEPTH
HUGE = 4 << 30


def value(kind: int, packed: bytes, size: int = 1000) -> None:
    """Decode a compressed managed-ledger value of Pulsar."""
    head = PulsarCompressedMetadata(compressionType=kind, uncompressedSize=size).SerializeToString()
    managed_ledger.decode(managed_ledger.MAGIC + len(head).to_bytes(4, "big") + head + packed)


def zstd(blocks: int, window: int = 13) -> bytes:
    """Return a zstd frame whose blocks repeat one byte to 128 KiB each."""
    # A block header of RFC 8878: the size, the type 1 (RLE, one byte repeated), and the last-block bit.
    block = ((128 << 10) << 3 | 2).to_bytes(3, "little") + b"{"
    return bytes.fromhex("28b52ffd00") + bytes([window << 3]) + block * blocks + b"\1\0\0"


def deflated(mebibytes: int) -> bytes:
    """Return a gzip stream of ``mebibytes`` MiB of zeros, compressed to a thousandth of that size."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = pack.compress(bytes(1 << 20)) + pack.flush(zlib.Z_FULL_FLUSH)
    return bytes.fromhex("1f8b0800000000000003") + piece * mebibytes


def write_file(path: Path, data: bytes, size: int = 0) -> Path:
    """Write a file and return its path. If ``size`` is not 0, extend it to a sparse file of that size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if size:
        os.truncate(path, size)
    return path


def run(home: Path, name: str, data: bytes, size: int = 0) -> None:
    """Read a finished run in which one file is replaced by ``data``."""
    made_run(home / "run")
    write_file(home / "run" / name, data, size)
    with translate_damage(str(home / "run")):
        run_view(RunReader(home / "run"))


def collection(home: Path, rows: int) -> None:
    """Read a collection with one table whose rows have only nulls."""
    path = write_file(home / "directories/part-00000.parquet", b"")
    table = pa.table({"path": pa.nulls(rows // 4, pa.string())})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(table, row_group_size=rows)
    files = [{"path": "directories/part-00000.parquet", "rows": rows, "bytes": path.stat().st_size}]
    empty = {"rows": 0, "files": []}
    tables = dict.fromkeys(("places", "cookies", "availability", "entry_logs"), empty)
    manifest = {
        "schema": "bookkeeper-auditor/collection/1",
        "id": "c",
        "version": "0",
        "made": 0,
        "finished": 0,
        "sources": [],
        "tables": tables | {"directories": {"rows": rows, "files": files}},
    }
    write_file(home / MANIFEST, json.dumps(manifest).encode())
    opened = Collection(str(home))
    list(opened.read_rows("directories", opened.manifest()))


def manifest(home: Path) -> None:
    """Read a collection with a deeply nested manifest."""
    write_file(home / MANIFEST, NESTED)
    Collection(str(home)).manifest()


def read_huge_header(_: Path) -> None:
    """Read an entry log whose header claims more ledgers than fit in memory."""
    head = struct.pack(">4siqi", b"BKLO", 1, 1024, 2**31 - 1).ljust(1024, b"\0")
    contents = contents_of(lambda offset, length: head[offset:] or bytes(length), HUGE, scan=False)
    assert contents.map_damage is not None
    raise contents.map_damage


def transactions(home: Path) -> None:
    """Read a ZooKeeper log with 128 MiB of zeros between a damaged record and its last byte."""
    head = b"ZKLG" + struct.pack(">iq", 2, 0) + struct.pack(">qi", 5, 1) + b"aa"
    path = write_file(home / "version-2/log.1", head, 128 << 20)
    with path.open("ab") as file:
        file.write(b"a")
    with map_file(path) as data:
        list(txnlog.read_log(data))


BOMBS: dict[str, Callable[[Path], object]] = {
    "pulsar-size": lambda home: value(2, b"", 2**31 - 1),
    "pulsar-lz4": lambda home: value(1, b"\x1f{\1\0" + b"\xff" * 4000 + b"\0"),
    "pulsar-zlib": lambda home: value(2, zlib.compress(bytes(64 << 20))),
    "pulsar-zstd": lambda home: value(3, zstd(1000)),
    "pulsar-zstd-window": lambda home: value(3, zstd(1, window=21)),
    "pulsar-snappy": lambda home: value(4, b"\xff\xff\xff\xff\x0f" + b"\xfe\1\0" * 300),
    "protobuf-groups": lambda home: managed_ledger.decode(b"\x7b" * DEPTH),
    "snappy-stream": lambda home: list(
        encodings.decompress(
            write_file(home / "s", encodings.MAGIC + bytes(8) + b"\0\0\0\5\xff\xff\xff\xff\x0f").open("rb")
        )
    ),
    "dump-zstd": lambda home: read_store(f"dump://{write_file(home / 'd', zstd(HUGE >> 17))}"),
    "snapshot-gzip": lambda home: read_store(
        f"zk-snapshot://{write_file(home / 'version-2/snapshot.0.gz', deflated(128)).parents[1]}"
    ),
    "dump-nested": lambda home: read_store(f"dump://{write_file(home / 'd', NESTED)}"),
    "racks-nested": lambda home: bookie_racks.decode(NESTED),
    "toml-nested": lambda home: read_toml(write_file(home / "a", b"a=" + NESTED)),
    "toml-tables": lambda home: read_toml(write_file(home / "a", b"a=" + b"{a=" * DEPTH)),
    "toml-dotted": lambda home: read_toml(write_file(home / "a", b"a" + b'. "b"' * DEPTH + b"=1")),
    "toml-number": lambda home: read_toml(write_file(home / "a", b"a=" + b"9" * 5000)),
    "toml-sparse": lambda home: read_toml(write_file(home / "a", b"", HUGE)),
    "inventory-nested": lambda home: read_inventory(write_file(home / "a", b"a=" + NESTED)),
    "credentials-nested": lambda home: read_credentials(str(write_file(home / "a", b"a=" + NESTED))),
    "report-nested": lambda home: run(home, "report.json", NESTED),
    "report-sparse": lambda home: run(home, "report.json", b"", HUGE),
    "manifest-nested": lambda home: run(home, "manifest.json", NESTED),
    "collection-nested": manifest,
    "collection-rows": lambda home: collection(home, 2_000_000),
    "collection-row-group": lambda home: collection(home, 40_000_000),
    "entry-log-map": read_huge_header,
    "zookeeper-log-tail": transactions,
}


def peak() -> int:
    """Return the peak memory of this process in MB, without mapped files."""
    state = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return (int(state["VmHWM"].split()[0]) - int(state["RssFile"].split()[0])) >> 10


def main() -> None:
    """Read each input and print its line."""
    for name, bomb in BOMBS.items():
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current memory
        before, begun = peak(), time.monotonic()
        with tempfile.TemporaryDirectory() as home:
            try:
                bomb(Path(home))
                outcome = "nothing was refused"
            except AuditorError as error:
                outcome = f"{type(error).__name__}: {str(error).replace(home, '.')[:120]}"
        print(f"{name:22} {peak() - before:5} MB {time.monotonic() - begun:6.2f} s  {outcome}", flush=True)


if __name__ == "__main__":
    main()
