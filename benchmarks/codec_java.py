"""Speed of the BP-34 encoder, compared with the server's `AvailabilityOfEntriesOfLedger`.

The Java class of BookKeeper 4.17.2 comes from Maven Central. It runs in one Java process, which is warmed
up once for all rounds. Java and this program run in turns and read their input from the same files. The
measured time is from an array of entry ids to the encoded bytes. This program's result is an array that
Arrow can use. It has no header, because no table keeps the header.

The least time of several rounds counts. This favours Java, whose rounds vary with garbage collection. This
program folds a whole batch of ledgers at once. Java makes one object per ledger, as the bookie does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.availability import wire as availability
from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import offsets_of
from auditor.spark.java import find_java
from benchmarks.codec import ENTRY_COUNT, entries_with_holes, striped_entries
from benchmarks.measure import Line
from tests.servers.bookies.jars import classpath

ROUNDS, WARMUP_ROUNDS = 7, 5
MANY_LEDGERS, LEDGER_ENTRIES = 100_000, 50
STRIPED_SIZES = {"ours": 88, "Java": 36_000_064}
RIVAL_NAME = "Java"


class Case(NamedTuple):
    """One case: the entries of a ledger, the number of ledgers with these entries, and the ratios to reach.

    ``required_ratio`` is the required ratio. ``desired_ratio`` is the desired ratio, or None if there is
    none.
    """

    name: str
    entries: NDArray[np.int64]
    ledger_count: int
    required_ratio: float
    desired_ratio: float | None


class Encoder:
    """The Java process that encodes. It runs for the duration of the ``with`` block."""

    def __init__(self) -> None:
        source = Path(__file__).parent / "java" / "Encoder.java"
        memory_options = ("-Xms2g", "-Xmx2g")
        self._command = [
            str(find_java().executable),
            *memory_options,
            "-cp",
            classpath(java_files=[source]),
            "Encoder",
        ]

    def __enter__(self) -> Encoder:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()  # the end of its standard input ends the process

    def encode(self, file: Path, ledgers: int) -> float:
        """Encode the entries in a file once per ledger, and return the time that this took, in seconds."""
        return int(self._send_command("encode", file, ledgers)[0]) / 1e9

    def encode_once(self, file: Path) -> bytes:
        """Return the bytes that Java encodes for one ledger with the entries in a file."""
        encoded_file = file.with_suffix(".bp34")
        self._send_command("write", file, encoded_file)
        return encoded_file.read_bytes()

    def _send_command(self, *command_fields: object) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, command_fields)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit("the Java encoder ended")
        return answer.split()


def lines() -> Iterator[Line]:
    """Yield one line per case. The unit is entry ids, or ledgers if the case has several."""
    dense_entries, striped_set = np.arange(3 * ENTRY_COUNT), striped_entries(3 * ENTRY_COUNT)
    cases = (
        Case("3M striped, E3 Qw2", striped_set, 1, required_ratio=15, desired_ratio=25),
        Case(
            "3M with 10 % holes", entries_with_holes(3 * ENTRY_COUNT), 1, required_ratio=2.5, desired_ratio=4
        ),
        Case("3M dense", dense_entries, 1, required_ratio=1.3, desired_ratio=2),
        Case(
            f"{MANY_LEDGERS:,} ledgers of {LEDGER_ENTRIES} striped",
            striped_entries(LEDGER_ENTRIES),
            MANY_LEDGERS,
            required_ratio=2,
            desired_ratio=3,
        ),
        Case(
            f"{MANY_LEDGERS:,} ledgers of {LEDGER_ENTRIES} dense",
            np.arange(LEDGER_ENTRIES),
            MANY_LEDGERS,
            required_ratio=0.5,
            desired_ratio=None,
        ),
    )
    with tempfile.TemporaryDirectory() as folder, Encoder() as java_command:
        for case_number, case in enumerate(cases):
            yield _measure_case(case, Path(folder, f"{case_number}.entries"), java_command)


def _measure_case(case: Case, file: Path, java_command: Encoder) -> Line:
    case.entries.astype("<i8").tofile(file)
    encoded_sizes = _check_encodings(case, java_command.encode_once(file))
    entries = np.tile(case.entries, case.ledger_count)
    offsets = offsets_of(np.full(case.ledger_count, len(case.entries)))
    own_seconds, java_seconds = [], []
    for round_number in range(WARMUP_ROUNDS + ROUNDS):
        start_time = time.perf_counter()
        fold_entries(entries, offsets).groups()
        round_seconds = time.perf_counter() - start_time, java_command.encode(file, case.ledger_count)
        if round_number >= WARMUP_ROUNDS:
            own_seconds.append(round_seconds[0])
            java_seconds.append(round_seconds[1])
    item_count, unit = (case.ledger_count, "ledgers") if case.ledger_count > 1 else (len(entries), "ids")
    return Line(
        f"encode {case.name}",
        item_count,
        unit,
        min(own_seconds),
        RIVAL_NAME,
        item_count,
        min(java_seconds),
        goal=case.required_ratio,
        target=case.desired_ratio,
        note=f"bytes a ledger with its header: {encoded_sizes['ours']:,}, of Java {encoded_sizes['Java']:,}",
    )


def _check_encodings(case: Case, java_value: bytes) -> dict[str, int]:
    """Return the sizes of this program's and Java's encodings, in bytes.

    End the benchmark if one of the encodings does not decode to the original entries.
    """
    batch = fold_entries(case.entries, np.array([0, len(case.entries)]))
    own_value = availability.encode(batch.groups())
    encoded_sizes = {"ours": len(own_value), RIVAL_NAME: len(java_value)}
    for name, encoded_value in (("ours", own_value), (RIVAL_NAME, java_value)):
        if not np.array_equal(availability.expand(availability.decode(encoded_value)), case.entries):
            sys.exit(f"{case.name}: the bytes of {name} stand for other entries")
    if case.name.startswith("3M striped") and encoded_sizes != STRIPED_SIZES:
        sys.exit(f"{case.name}: {encoded_sizes} bytes, not {STRIPED_SIZES}")
    return encoded_sizes
