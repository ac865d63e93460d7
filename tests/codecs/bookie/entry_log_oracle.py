"""The content that a real server's collector finds in damaged entry logs, as golden data.

    python -m tests.codecs.bookie.entry_log_oracle

writes ``tests/data/entry-log-headers`` anew. BookKeeper 4.17.2's entry loggers wrote and closed its few logs.
``cases.jsonl.gz`` has one line per case. A line has the damage to a log, and the result of the same logger's
``getEntryLogMetadata`` afterwards. The program needs mvn and javac.
"""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from auditor.spark.java import find_java
from tests.codecs.entry_logs import ledgers_map
from tests.servers.bookies.jars import DIRECTORY, compiled_classpath

DATA = Path(__file__).parents[2] / "data" / "entry-log-headers"
MAIN = "org.apache.bookkeeper.bookie.EntryLogOracle"
SOURCE = Path(__file__).parent / "java" / "EntryLogOracle.java"

SHORT = ["5:0:2", "5:1:2", "9:2:2"]
EQUAL_SIZES = [f"{3 + entry % 2}:{entry}:40" for entry in range(120)]
"""Records of one length: a scan that begins at a wrong one meets true ones all the same."""
MIXED = [f"{(3, 5, 9)[entry % 3]}:{entry}:{60 + 37 * entry % 211}" for entry in range(60)]
DIRECT, DEFAULT_BUFFER, LARGER_BUFFER_BYTES = "direct", "512", "4096"
"""The direct logger, and the other by the bytes that it reads at once: the server's default and Pulsar's."""
LOG_SPECS = {
    "short": (DEFAULT_BUFFER, SHORT),
    "alike": (DEFAULT_BUFFER, EQUAL_SIZES),
    "mixed": (DEFAULT_BUFFER, MIXED),
    "direct-short": (DIRECT, SHORT),
    "direct-mixed": (DIRECT, MIXED),
}
"""Each log: its logger, and its entries: ledger, entry, bytes of payload."""

Edit = tuple[int, str]
"""An offset, and the hex of what is written there."""


class Case(NamedTuple):
    """A damaged log, and the ``logger`` that read it.

    The ``edits`` were made first. Then the file got this ``length``, with zeros where it grew.
    """

    log: str
    edits: Sequence[Edit]
    length: int
    logger: str
    map: Any = None
    collector: Any = None
    """Pairs of ledger and bytes, or the name of an exception; ``map`` is what the map alone gives."""

    def data(self, sound: bytes) -> bytes:
        """Return the bytes of the damaged file."""
        spoiled = bytearray(sound.ljust(self.length, b"\0"))
        for offset, text in self.edits:
            new = bytes.fromhex(text)
            spoiled[offset : offset + len(new)] = new
        return bytes(spoiled[: self.length])


def sound_log(log: str) -> bytes:
    """Return the bytes of an entry log as its logger wrote them, undamaged."""
    return gzip.decompress((DATA / f"{log}.log.gz").read_bytes())


def golden() -> list[Case]:
    """Return every case with the stored answers of the real BookKeeper classes."""
    lines = gzip.decompress((DATA / "cases.jsonl.gz").read_bytes()).decode().splitlines()
    return [Case(**json.loads(line)) for line in lines]


def _cases(log: str, data: bytes, logger: str) -> Iterator[Case]:
    size = len(data)
    _, _, map_at, count = struct.unpack_from(">4siqi", data)

    def case(*edits: tuple[int, bytes], length: int = size) -> Case:
        return Case(log, [(place, new.hex()) for place, new in edits], length, logger)

    def header(version: int = 1, offset: int = map_at, ledgers: int = count) -> tuple[int, bytes]:
        return 4, struct.pack(">iqi", version, offset, ledgers)

    negative = [
        *range(1, 33),
        44,
        60,
        64,
        120,
        128,
        500,
        1000,
        1024,
        2000,
        3000,
        3071,
        3072,
        3073,
        4096,
        5000,
    ]
    yield from (case(header(offset=-value)) for value in [*negative, 2**31, 2**63])
    yield from (case(header(offset=-5, ledgers=value)) for value in (0, -1, 1))
    yield from (case(header(offset=-5), length=value) for value in (1023, 1030, 1046, map_at - 7))
    start = 4096 if logger == DIRECT else 1024
    yield from (
        case((start, struct.pack(">i", value)), header(offset=-5)) for value in (-1, 0, 5, 30, 1 << 24)
    )
    if logger == LARGER_BUFFER_BYTES:
        return
    yield case()
    yield from (case((place, b"x")) for place in range(4))
    yield from (case(header(version=value)) for value in (-(2**31), -1, 0, 2, 3, 2**31 - 1))
    inside = [1, 2, 4, 8, 12, 16, 20, 100, 512, 1000, 1020, 1022, 1023, 1024, 1025, 1028, 1036, 1044, 1046]
    beyond = [2**31 - 1, 2**31, 2**32 + map_at, 2**63 - 1]
    around = [map_at + value for value in (-40, -22, -8, -4, -1, 1, 4, 8, 20, 24)]
    ends = [size + value for value in (-4, -3, -2, -1, 0, 1, 5)]
    yield from (case(header(offset=value)) for value in [*inside, *around, *ends, *beyond])
    counts = (-(2**31), -1, 0, 1, count - 1, count + 1, 100, 2**31 - 1)
    yield from (case(header(ledgers=value)) for value in counts)
    (length,) = struct.unpack_from(">i", data, map_at)
    ints = (
        -(2**31),
        -1,
        0,
        1,
        4,
        19,
        20,
        36,
        length - 16,
        length - 1,
        length + 1,
        length + 16,
        200_000,
        1 << 24,
    )
    yield from (case((map_at, struct.pack(">i", value))) for value in ints)
    yield from (case((map_at, struct.pack(">i", value)), length=map_at + 4 + length) for value in ints)
    yield from (case((map_at + 4, struct.pack(">q", value))) for value in (0, -2, 5))
    yield from (case((map_at + 12, struct.pack(">q", value))) for value in (0, -1, -3))
    yield from (case((map_at + 20, struct.pack(">i", value))) for value in (-1, 0, 1, count + 1, 2**31 - 1))
    yield case((map_at, struct.pack(">iqqi", 20, -1, -2, -7)), header(ledgers=0))
    yield case((map_at, ledgers_map([])), header(ledgers=0), length=map_at + 24)
    yield from (case((map_at + 24, struct.pack(">q", value))) for value in (-1, -2, 5, 77, 2**63 - 1))
    yield from (case((map_at + 32, struct.pack(">q", value))) for value in (-1, 0, 1, 2**63 - 1))
    yield case((map_at + 24, data[map_at + 40 : map_at + 56]))
    first, second = struct.unpack_from(">qq", data, map_at + 24)
    twice = ledgers_map([(first, second + 9), (first, -9), (4711, 5)])
    yield from (case((map_at, twice), header(ledgers=value), length=map_at + len(twice)) for value in (2, 3))
    two = ledgers_map([(first, 1)]) + ledgers_map([(4711, 2)])
    yield from (case((map_at, two), header(ledgers=value), length=map_at + len(two)) for value in (1, 2))
    cuts = [
        0,
        3,
        10,
        19,
        20,
        1000,
        1023,
        1024,
        1030,
        1040,
        map_at - 7,
        map_at,
        map_at + 2,
        map_at + 4,
        map_at + 10,
        map_at + 24,
        map_at + 30,
    ]
    yield from (case(length=value) for value in [*cuts, size - 16, size - 8, size - 1])
    grown = (b"\0", b"\0\0\0\1", b"\xf0" * 30, ledgers_map([(first, 1)]), ledgers_map([(4711, 2)]))
    yield from (case((size, value), length=size + len(value)) for value in grown)
    for value in (-1, 0, 5, 30, 1 << 24):
        yield case((start, struct.pack(">i", value)), header(offset=0, ledgers=0))


def _main() -> None:
    classes = compiled_classpath("entry-log-oracle", DIRECTORY / "pom.xml", [SOURCE])
    DATA.mkdir(exist_ok=True)
    cases: list[Case] = []
    for log, (logger, entries) in LOG_SPECS.items():
        with tempfile.TemporaryDirectory() as folder:
            current = Path(folder, "current")
            current.mkdir()
            _ask(classes, "write", logger, folder, *entries)
            data = (current / "0.log").read_bytes()
        (DATA / f"{log}.log.gz").write_bytes(gzip.compress(data, mtime=0))
        for reader in (logger,) if logger == DIRECT else (logger, LARGER_BUFFER_BYTES):
            cases += answered(classes, list(_cases(log, data, reader)), data)
    text = "".join(json.dumps(case._asdict()) + "\n" for case in cases)
    (DATA / "cases.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(cases)} cases of {len(LOG_SPECS)} logs: {DATA}")


def answered(classes: str, cases: Sequence[Case], data: bytes) -> list[Case]:
    """Return the cases of one logger with the answers of the Java classes in ``classes``."""
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder, "current")
        current.mkdir()
        for number, case in enumerate(cases):
            for copy in (0, 1):
                (current / f"{2 * number + copy:x}.log").write_bytes(case.data(data))
        lines = _ask(classes, "ask", cases[0].logger, folder).splitlines()
    answers = [json.loads(line) for line in lines if line.startswith('{"map"')]
    return [case._replace(**answer) for case, answer in zip(cases, answers, strict=True)]


def _ask(classes: str, *words: str) -> str:
    # Where Java collects garbage in between, a reader is made anew, and what led it astray is gone.
    command = [
        *(
            str(find_java().executable),
            "-Xms1g",
            "-Xmn900m",
            "-Xmx1g",
            "-XX:MaxDirectMemorySize=8g",
            "-Dlog4j2.level=ERROR",
        ),
        *("-cp", classes, MAIN, *words),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


if __name__ == "__main__":
    _main()
