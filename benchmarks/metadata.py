"""Speed of reading ledger metadata to columns: from a snapshot, from values of each format, and into Spark.

All ledgers come from one random seed (`benchmarks.ledger_records`). They are closed, are on 3 of 500
bookies each, and have Pulsar's custom metadata. Half of them have two segments. Work in this process is
measured in processor time, because other work on the machine changes it less. Before the measurement, the
benchmark compares this program's rows with those of the rival.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import text_format

from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.wire import expand
from auditor.codecs.ledger_metadata.batch import decode_batch
from auditor.codecs.ledger_metadata.one import MAGIC
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.zookeeper.snapshot import find_nodes, find_record_offsets
from auditor.sources.metadata.ledger_rows import ledger_rows, metadata_arrays
from auditor.sources.metadata.store import BATCH_ZNODES, Tree, ZnodeBatch
from auditor.sources.metadata.stores import open_store
from auditor.sources.metadata.zookeeper.files import map_file
from benchmarks import ledger_records as made
from benchmarks import metadata_port as port
from benchmarks import metadata_spark
from benchmarks.measure import Line, alternate

LEDGERS = 60_000
ROUNDS = 9
"""Number of rounds for work of a few hundredths of a second, because other work disturbs most rounds."""

TEXT_RECORD_COUNT = 20_000
TEXT_SAMPLE_FRACTION = 20  # the library's text parser gets one ledger in twenty, because it is far slower
CHECKED_LEDGERS = 200
"""Number of ledgers whose expected entries are compared with the plain formula, entry by entry."""

HEADER_BYTES = len(MAGIC) + 2


def lines() -> Iterator[Line]:
    """Yield lines for the snapshot, for format 3, for formats 1 and 2, and for Spark."""
    messages = made.make_messages(LEDGERS)
    encoded_records = [made.encode_binary(message) for message in messages]
    with tempfile.TemporaryDirectory() as folder:
        file = made.write_snapshot(Path(folder, "version-2"), encoded_records)
        _check_rows(file)
        yield from _measure_snapshot(file)
    yield from _measure_binary_format(encoded_records)
    yield from _measure_text_formats(messages[:TEXT_RECORD_COUNT])
    yield from metadata_spark.lines()


def _measure_snapshot(file: Path) -> Iterator[Line]:
    file_bytes = file.stat().st_size
    own_seconds, rival_seconds = alternate(
        lambda: _read_snapshot(file), lambda: _cat_file(file), rounds=ROUNDS
    )
    yield Line(
        "snapshot, boundary pass",
        file_bytes,
        "B",
        own_seconds,
        "cat | wc -c",
        file_bytes,
        rival_seconds,
        goal=0.4,
        note="where each record lies; cat also makes a process, about a millisecond",
    )
    own_seconds, rival_seconds = alternate(
        lambda: sum(len(batch.paths) for batch in _read_batches(file)),
        lambda: sum(1 for _ in port.read_records(file)),
        clock=time.process_time,
    )
    yield Line(
        "snapshot to columns of znodes",
        LEDGERS,
        "znodes",
        own_seconds,
        "one method a field",
        LEDGERS,
        rival_seconds,
        goal=3,
        note="ours also verifies the file's checksum and finds the slices that tasks read",
    )
    own_seconds, rival_seconds = alternate(
        lambda: sum(len(rows) for rows in _read_ledger_rows(file)),
        lambda: len(port.read_ledgers(file, made.ROOT)),
        clock=time.process_time,
    )
    yield Line(
        "snapshot to ledgers and expected entries",
        LEDGERS,
        "ledgers",
        own_seconds,
        "one method a field, FromString",
        LEDGERS,
        rival_seconds,
        target=4,
        note="ours: the whole table ledgers, every replica's entries included; the rival stops at objects, "
        "without any expected entries",
    )


def _measure_binary_format(encoded_records: list[bytes]) -> Iterator[Line]:
    bodies = [message.SerializeToString() for message in map(port.parse_message, encoded_records)]
    function_by_rival: dict[str, Callable[[], object]] = {
        "FromString, kept": lambda: [LedgerMetadataFormat.FromString(body) for body in bodies],
        "FromString, discarded": lambda: _parse_and_discard(bodies),
    }
    notes = (
        "the rival keeps its messages in a list, as who reads a batch must; it looks at none of their fields",
        "the rival drops each message at once: the least that the library can cost, and good for nothing",
    )
    own_seconds, *rival_seconds = alternate(
        lambda: _decode_to_arrays(encoded_records), *function_by_rival.values(), clock=time.process_time
    )
    for rival, note, seconds in zip(function_by_rival, notes, rival_seconds, strict=True):
        yield Line(
            "format 3 to Arrow",
            len(encoded_records),
            "ledgers",
            own_seconds,
            rival,
            len(encoded_records),
            seconds,
            goal=0.25,
            target=0.33,
            note=note,
        )


def _measure_text_formats(messages: list[LedgerMetadataFormat]) -> Iterator[Line]:
    encoded_records = [made.encode_text(message) for message in messages]
    sample_texts = [value[HEADER_BYTES:].decode() for value in encoded_records[::TEXT_SAMPLE_FRACTION]]
    one_line_records = [
        MAGIC + b"2\n" + text_format.MessageToString(message, as_one_line=True).encode()
        for message in messages[::TEXT_SAMPLE_FRACTION]
    ]
    records_by_stage = {
        "format 2 to Arrow": (encoded_records, "as the server writes it"),
        "format 1 to Arrow": (
            lines := [made.encode_lines(message) for message in messages[::TEXT_SAMPLE_FRACTION]],
            "the same ledgers without what is attached, read one by one; the rival reads format 2",
        ),
        "format 2 in an odd layout": (
            one_line_records,
            "all in one line, as no server writes it: read one by one",
        ),
    }
    *own_seconds, rival_seconds = alternate(
        *(lambda values=values: _decode_to_arrays(values) for values, _ in records_by_stage.values()),
        lambda: [text_format.Parse(text, LedgerMetadataFormat()) for text in sample_texts],
        clock=time.process_time,
    )
    for (stage, (values, note)), seconds in zip(records_by_stage.items(), own_seconds, strict=True):
        has_unusual_format = values is one_line_records or values is lines
        yield Line(
            stage,
            len(values),
            "ledgers",
            seconds,
            "text_format",
            len(sample_texts),
            rival_seconds,
            goal=None if has_unusual_format else 12,
            target=None if has_unusual_format else 20,
            note=note,
        )


def _read_snapshot(file: Path) -> int:
    with map_file(file) as data:
        return len(find_record_offsets(data, find_nodes(data), sys.maxsize, sys.maxsize).data_starts)


def _cat_file(file: Path) -> None:
    subprocess.run(["sh", "-c", 'cat "$0" | wc -c', file], check=True, stdout=subprocess.DEVNULL)


def _read_batches(file: Path) -> Iterator[ZnodeBatch]:
    store = open_store(f"zk-snapshot://{file.parent}?root={made.ROOT}")
    store.cluster()
    for snapshot_part in store.parts(Tree.LEDGERS, made.LAYOUT, 1):
        yield from store.read(snapshot_part)


def _read_ledger_rows(file: Path) -> Iterator[pa.RecordBatch]:
    for batch in _read_batches(file):
        yield ledger_rows(batch, made.ROOT, made.LAYOUT)


def _decode_to_arrays(values: Sequence[bytes]) -> int:
    """Decode the metadata to Arrow arrays for Spark, in batches of a store's size; count the arrays."""
    return sum(
        len(metadata_arrays(decode_batch(values[first_entry : first_entry + BATCH_ZNODES])))
        for first_entry in range(0, len(values), BATCH_ZNODES)
    )


def _parse_and_discard(bodies: list[bytes]) -> None:
    for body in bodies:
        LedgerMetadataFormat.FromString(body)


def _check_rows(file: Path) -> None:
    """End the benchmark if this program's rows differ from the rival's ledgers or `_expected_entries`."""
    rows = [row for batch in _read_ledger_rows(file) for row in batch.to_pylist()]
    port_ledgers = port.read_ledgers(file, made.ROOT)
    if [_comparable_fields(row) for row in rows] != [
        (
            ledger.id,
            ledger.version,
            ledger.length,
            ledger.last_entry_id,
            ledger.segments,
            ledger.custom_metadata,
        )
        for ledger in port_ledgers
    ]:
        sys.exit("the table and the port disagree")
    for row, ledger in list(zip(rows, port_ledgers, strict=True))[:CHECKED_LEDGERS]:
        expected = {
            replica["bookie_id"]: set(expand(np.frombuffer(replica["groups"], GROUP)).tolist())
            for replica in row["replicas"]
        }
        if expected != _expected_entries(ledger):
            sys.exit(f"ledger {ledger.id}: not what the formula expects")


def _comparable_fields(row: dict[str, Any]) -> tuple[object, ...]:
    segments = [(segment["first_entry_id"], segment["ensemble"]) for segment in row["segments"]]
    ledger_numbers = [row[name] for name in ("ledger_id", "version", "length", "last_entry_id")]
    return (*ledger_numbers, segments, dict(row["custom_metadata"]))


def _expected_entries(ledger: port.Ledger) -> dict[str, set[int]]:
    """Return the expected entries of each bookie, computed entry by entry.

    Entry e belongs on the bookies (e + w) mod E of its segment, for each w below the write quorum.
    """
    entries: dict[str, set[int]] = {}
    segment_ends = [first for first, _ in ledger.segments[1:]] + [ledger.last_entry_id + 1]
    for (first_entry, members), segment_end in zip(ledger.segments, segment_ends, strict=True):
        for index, member in enumerate(members):
            entries.setdefault(member, set()).update(
                entry
                for entry in range(first_entry, segment_end)
                if (index - entry) % ledger.ensemble_size < ledger.write_quorum
            )
    return entries
