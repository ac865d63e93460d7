"""Program that records the answers of 4.17.2 bookies, byte by byte: ``python -m tests.truth.frames``.

``tests/data/frames-4.17.2`` has listings, and plain reads of versions 3 and 2, from each kind of storage.
They ask for stored entries, absent entries, and a ledger that no bookie has. The data also has the entries
that the bookie had acknowledged.
"""

from __future__ import annotations

import gzip
import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from auditor.codecs.bookie.wire import LENGTH, list_request, read_request
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from tests.servers.bookies.driver import HOST, Bookies

TARGET = Path(__file__).parents[1] / "data" / "frames-4.17.2"
STORAGES = ("InterleavedLedgerStorage", "SortedLedgerStorage", "DbLedgerStorage")
ENTRIES = {1: range(30), 2: range(0, 60, 3), 3: [0, 1, 2, 7, 8, 9, 40], 2**63 - 1: [5]}
ABSENT_LEDGER = 4242
_README = """\
# frames-4.17.2

`frames.json.gz`: what bookies of BookKeeper 4.17.2 answered, each storage, byte for byte, beside the
question, and which entries of the ledger the bookie had acknowledged.
`python -m tests.truth.frames` makes it again.
"""


def questions() -> Iterator[tuple[str, int, int, int, bytes]]:
    """Yield each request: kind, version, ledger, entry, frame."""
    for ledger in (*ENTRIES, ABSENT_LEDGER):
        yield "list", 3, ledger, -1, list_request(7, ledger)
        for entry in (0, 1, 5, 40, 1 << 40):
            for version in (3, 2):
                yield "read", version, ledger, entry, read_request(7, ledger, entry, version=version)


def ask_bookie(port: int, frame: bytes) -> str | None:
    """Return the answer in hex, or None: DbLedgerStorage answers no listing of a ledger that it has."""
    with socket.create_connection((HOST, port), timeout=3) as connection:
        connection.sendall(frame)
        answer = b""
        try:
            while len(answer) < LENGTH.size or len(answer) < LENGTH.size + LENGTH.unpack_from(answer)[0]:
                answer += connection.recv(65_536)
        except TimeoutError:
            return None
    return answer.hex()


def record(storage: str) -> Iterator[dict[str, object]]:
    """Send every request to a bookie on this storage, and yield the answers."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        with EmbeddedZooKeeper(root / "zookeeper") as server:
            uri = f"zk+longhierarchical://{server.hosts}/ledgers"
            with Bookies(uri, root, storage, [None]) as cluster:
                (bookie,) = cluster.ids
                for ledger, entries in ENTRIES.items():
                    cluster.add(ledger, bookie, entries)
                for kind, version, ledger, entry, frame in questions():
                    yield {
                        "storage": storage,
                        "kind": kind,
                        "version": version,
                        "ledger": ledger,
                        "entry": entry,
                        "held": sorted(ENTRIES.get(ledger, ())),
                        "request": frame.hex(),
                        "response": ask_bookie(int(bookie.rpartition(":")[2]), frame),
                    }


if __name__ == "__main__":
    frames = [frame for storage in STORAGES for frame in record(storage)]
    TARGET.mkdir(exist_ok=True)
    lines = "[" + ",\n".join(map(json.dumps, frames)) + "]\n"
    (TARGET / "frames.json.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    (TARGET / "README.md").write_text(_README)
