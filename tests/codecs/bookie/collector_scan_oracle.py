"""The content that a real server's collector finds in logs with damaged records, as golden data.

    python -m tests.codecs.bookie.collector_scan_oracle

writes ``tests/data/entry-log-headers/records.jsonl.gz`` anew. The logs are those of `entry_log_oracle`. Their
records are damaged: sizes (negative, 0, too small, too large or huge), single bits, ends of the file.
The program needs mvn and javac.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
from collections.abc import Iterator

from auditor.codecs.bookie.entry_log_records import EntryLogRecords
from tests.codecs.bookie.entry_log_oracle import (
    DATA,
    DEFAULT_BUFFER,
    DIRECT,
    MAIN,
    SOURCE,
    Case,
    Edit,
    answered,
    sound_log,
)
from tests.servers.bookies.jars import DIRECTORY, compiled_classpath

FILE = DATA / "records.jsonl.gz"
LOGS = {"short": 80, "alike": 260, "mixed": 420, "direct-short": 60, "direct-mixed": 330}
"""Each log, and how many cases there are of it."""
SEED = 4711
NO_MAP: Edit = (8, bytes(12).hex())
"""A header that says nothing of a map: the log was not closed, and its entries are read."""


def damaged_records() -> list[Case]:
    """Return every case with the answer of the real class."""
    return [Case(**json.loads(line)) for line in gzip.decompress(FILE.read_bytes()).decode().splitlines()]


def _starts(data: bytes) -> list[int]:
    records = EntryLogRecords(lambda offset, length: data[offset : offset + length], len(data))
    return [start for block in records.entries() for start in block.offsets.tolist()]


def _edits(chance: random.Random, data: bytes, starts: list[int]) -> Iterator[Edit]:
    """Yield the damage of one case, mostly to the size of a record."""
    offset = chance.choice(starts)
    (size,) = struct.unpack_from(">i", data, offset)
    kind = chance.randrange(7)
    if kind == 0:
        yield offset, struct.pack(">i", size ^ -(1 << 31)).hex()
    elif kind == 1:
        yield offset, struct.pack(">I", (size ^ 1 << chance.randrange(32)) & 0xFFFFFFFF).hex()
    elif kind == 2:
        sizes = (0, -1, 1, 3, 7, 8, 15, size - 1, size + 1, size + 4, len(data), 1 << 20, 1 << 24)
        yield offset, struct.pack(">i", chance.choice(sizes)).hex()
    elif kind == 3:
        yield offset, struct.pack(">i", chance.choice((1 << 28, 1 << 30, 2**31 - 1, -(2**31)))).hex()
    elif kind == 4:
        begin = chance.randrange(1024, len(data))
        yield begin, chance.randbytes(min(chance.choice((1, 4, 40)), len(data) - begin)).hex()
    elif kind == 5:
        begin = chance.choice(starts)
        yield begin, bytes(min(chance.choice((4, 12, 512)), len(data) - begin)).hex()
    else:
        yield offset + 4, struct.pack(">q", chance.choice((-1, -2, 0, 77, 2**62, -(2**63)))).hex()


def _cases(log: str) -> Iterator[Case]:
    chance = random.Random(f"{SEED}-{log}")
    data = sound_log(log)
    starts = _starts(data)
    logger = DIRECT if log.startswith("direct") else DEFAULT_BUFFER
    for number in range(LOGS[log]):
        edits = [edit for _ in range(chance.choice((1, 1, 1, 2))) for edit in _edits(chance, data, starts)]
        length = chance.randrange(1024, len(data) + 1) if chance.randrange(5) == 0 else len(data)
        # One in eight keeps its map, which is all that the collector looks at then.
        yield Case(log, edits if number % 8 == 0 else [*edits, NO_MAP], length, logger)


def _main() -> None:
    classes = compiled_classpath("entry-log-oracle", DIRECTORY / "pom.xml", [SOURCE])
    cases = [case for log in LOGS for case in answered(classes, list(_cases(log)), sound_log(log))]
    text = "".join(json.dumps(case._asdict()) + "\n" for case in cases)
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(cases)} cases of {len(LOGS)} logs by {MAIN}: {FILE}")


if __name__ == "__main__":
    _main()
