"""Skewed clusters compared with even clusters of the same size.

No stage may take more than twice as long on a skewed cluster. Two cases are whole audits: one bookie is in
every ensemble, or in half of them. Further cases are a task's work on one unusual ledger: decode its
metadata to rows with the expected entries, read its index to groups, or judge it with a missing copy. The
even case has as many segments, index slots, entries or missing entries, spread over many ledgers.
``BKAUDIT_LEDGERS`` sets the number of ledgers of the audits.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from auditor.codecs.availability.fold import fold_entries
from auditor.codecs.availability.groups import GROUP
from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.keys.ledger_tree import LayoutKind, to_path
from auditor.sources.bookies.availability import IndexFiles
from auditor.sources.bookies.index_files.reader import IndexReader
from auditor.sources.metadata.ledger_rows import ledger_rows
from auditor.sources.metadata.store import ZnodeBatch
from auditor.tables.judge_replicas import BookieState, Groups, LedgerFacts, Pair, entries_striped_to
from auditor.tables.ledger_class import judge
from benchmarks.audited import AuditCosts, audit_in_process
from benchmarks.cluster import Cluster
from benchmarks.ledger_records import encode_binary
from benchmarks.measure import Line, alternate

LEDGERS = int(os.environ.get("BKAUDIT_LEDGERS", "300_000"))
BOOKIES = 50
MIN_STAGE_SECONDS = 1.0
"""Shortest stage in seconds that counts. Shorter stages mostly show Spark's fixed cost of a job."""

SEGMENT_COUNT, ENTRIES, HOLE_COUNT = 100_000, 1_000_000_000, 100_000
SLOT_COUNT = 150 * HOLE_COUNT
"""Number of slots in the index: one for each entry of the ledger. Two in three have an entry.

An index of 15 million slots belongs to a bookie that stores ten million entries. One in a hundred is
missing.
"""
INDEX_HEADER = b"BKLE".ljust(1024, b"\0")
MEMBER_IDS = [f"bookie-{number}:3181" for number in range(7)]
READ_STATES = {member: BookieState("read") for member in MEMBER_IDS}
MAX_RATIO = 2


def lines() -> Iterator[Line]:
    """Yield a line for each skewed case.

    A line compares the time per ledger, segment or hole with the even case.
    """
    even_audit = audit_in_process(Cluster(LEDGERS, BOOKIES))
    for name, busy_bookie_percent in (
        ("one bookie in every ensemble", 100),
        ("one bookie with half of all ledgers", 50),
    ):
        yield _measure_audits(
            name, audit_in_process(Cluster(LEDGERS, BOOKIES, busy_bookie_percent)), even_audit
        )
    one_ledger, many_ledgers = _make_ledgers(1, SEGMENT_COUNT), _make_ledgers(SEGMENT_COUNT // 4, 4)
    yield _measure_cases(
        "metadata of one ledger of 100,000 segments",
        SEGMENT_COUNT,
        "segments",
        _decode_rows(one_ledger),
        _decode_rows(many_ledgers),
    )
    yield _measure_cases(
        "judging one ledger of 100,000 segments",
        SEGMENT_COUNT,
        "segments",
        _judge_all([_lossy_ledger(SEGMENT_COUNT, 10 * SEGMENT_COUNT)]),
        _judge_all([_lossy_ledger(4, 40)] * (SEGMENT_COUNT // 4)),
    )
    yield _measure_cases(
        "judging a ledger of a billion entries",
        1,
        "ledgers",
        _judge_all([_lossy_ledger(1, ENTRIES)]),
        _judge_all([_lossy_ledger(1, 1_000)]),
    )
    yield _measure_cases(
        "judging one ledger of 100,000 holes on a bookie",
        HOLE_COUNT,
        "holes",
        _judge_all([_ledger_with_holes(HOLE_COUNT)]),
        _judge_all([_ledger_with_holes(100)] * (HOLE_COUNT // 100)),
    )
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        single_file, many_files = _index_files(Path(folder), 1), _index_files(Path(folder), 1_000)
        yield _measure_cases(
            "reading an index of 100,000 holes",
            SLOT_COUNT,
            "slots",
            _read_all(single_file),
            _read_all(many_files),
        )


def _measure_audits(name: str, skewed_audit: AuditCosts, even_audit: AuditCosts) -> Line:
    seconds_by_stage = {
        stage: (skewed_audit.stages[stage].seconds, even_audit.stages[stage].seconds)
        for stage in even_audit.stages
    }
    worst_stage = max(
        (
            stage
            for stage, stage_seconds in seconds_by_stage.items()
            if max(stage_seconds) >= MIN_STAGE_SECONDS
        ),
        key=lambda stage: seconds_by_stage[stage][0] / seconds_by_stage[stage][1],
    )
    skewed_seconds, even_seconds = seconds_by_stage[worst_stage]
    return Line(
        f"audit, {name}",
        LEDGERS,
        "ledgers",
        skewed_audit.seconds,
        "even",
        LEDGERS,
        even_audit.seconds,
        target=MAX_RATIO,
        most=True,
        java_mib=skewed_audit.java_mib,
        python_mib=skewed_audit.python_mib,
        shuffle_bytes=skewed_audit.shuffle_bytes,
        spill_bytes=skewed_audit.spill_bytes,
        note=f"largest ratio: {worst_stage}, {skewed_seconds / even_seconds:.2f} times the even case",
    )


def _measure_cases(
    name: str,
    item_count: int,
    item_unit: str,
    run_skewed: Callable[[], object],
    run_even: Callable[[], object],
) -> Line:
    own_seconds, even_seconds = alternate(run_skewed, run_even)
    tracemalloc.start()
    run_skewed()
    peak_mib = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return Line(
        name,
        item_count,
        item_unit,
        own_seconds,
        "even",
        item_count,
        even_seconds,
        target=MAX_RATIO,
        most=True,
        python_mib=peak_mib,
    )


def _make_ledgers(count: int, segment_count: int) -> ZnodeBatch:
    """Return closed ledgers with ten entries per segment. Every segment has a different ensemble."""
    message = LedgerMetadataFormat(
        quorumSize=2,
        ensembleSize=3,
        ackQuorumSize=2,
        length=1,
        lastEntryId=10 * segment_count - 1,
        state=LedgerMetadataFormat.CLOSED,
    )
    for segment_number in range(segment_count):
        message.segment.add(firstEntryId=10 * segment_number, ensembleMember=_make_ensemble(segment_number))
    encoded_record = encode_binary(message)
    zero_numbers = np.zeros(count, np.int64)
    paths = [f"/ledgers/{to_path(LayoutKind.HIERARCHICAL, ledger)}" for ledger in range(count)]
    return ZnodeBatch(paths, [encoded_record] * count, *(zero_numbers,) * 5)


def _make_ensemble(number: int) -> list[str]:
    return [MEMBER_IDS[(number + ensemble_position) % len(MEMBER_IDS)] for ensemble_position in range(3)]


def _decode_rows(batch: ZnodeBatch) -> Callable[[], object]:
    def run() -> None:
        rows = ledger_rows(batch, "/ledgers", LayoutKind.HIERARCHICAL)
        if rows.column("status").to_pylist() != ["ok"] * len(batch.paths):
            sys.exit("ledgers of the skew benchmark cannot be read")

    return run


def _ledger_facts(segment_count: int, entry_count: int) -> LedgerFacts:
    segment_entries = entry_count // segment_count
    segment_list = [(segment_entries * number, _make_ensemble(number)) for number in range(segment_count)]
    return LedgerFacts(1, True, 3, 2, 2, entry_count - 1, None, segment_list)


def _lossy_ledger(segment_count: int, entry_count: int) -> tuple[LedgerFacts, Pair]:
    """Return a ledger, and a bookie that lost the last run of the entries expected on it."""
    ledger = _ledger_facts(segment_count, entry_count)
    expected_groups = entries_striped_to(ledger, MEMBER_IDS[0], entry_count - 1)
    return ledger, Pair(
        MEMBER_IDS[0],
        expected_groups,
        expected_groups[:-1] if len(expected_groups) > 1 else expected_groups[:0],
        "ok",
    )


def _ledger_with_holes(count: int) -> tuple[LedgerFacts, Pair]:
    """Return a ledger, and a bookie that lacks a random tenth of the entries expected on it."""
    ledger = _ledger_facts(1, 15 * count)
    expected_groups = entries_striped_to(ledger, MEMBER_IDS[0], 15 * count - 1)
    entries = np.arange(15 * count)
    striped = entries[entries % 3 != 1]
    lost_positions = np.random.default_rng(34).choice(len(striped), count, replace=False)
    return ledger, Pair(
        MEMBER_IDS[0], expected_groups, _fold_entries(np.delete(striped, lost_positions)), "ok"
    )


def _fold_entries(entries: np.ndarray) -> Groups:
    data = fold_entries(entries, np.array([0, len(entries)])).tobytes()
    return np.frombuffer(data, GROUP)


def _index_files(folder: Path, count: int) -> list[bytes]:
    """Write `SLOT_COUNT` slots into ``count`` index files; return their paths.

    The slots are always the same: striped entries, with a hole in place of one entry in a hundred.
    """
    entries = np.arange(SLOT_COUNT)
    striped = entries[entries % 3 != 1]
    slots = np.zeros(SLOT_COUNT, ">i8")
    slots[striped] = 1_000 * striped + 1_028
    slots[np.random.default_rng(34).choice(striped, HOLE_COUNT, replace=False)] = 0
    paths = [folder / f"{number}-of-{count}" for number in range(count)]
    for path, part in zip(paths, np.split(slots, count), strict=True):
        path.write_bytes(INDEX_HEADER + part.tobytes())
    return [os.fsencode(path) for path in paths]


def _read_all(paths: list[bytes]) -> Callable[[], object]:
    reader, files = IndexReader(), IndexFiles(np.arange(len(paths)), paths)

    def run() -> None:
        entry_count = sum(int(batch.groups.entries().sum()) for batch in reader.read([files]))
        if entry_count != SLOT_COUNT * 2 // 3 - HOLE_COUNT:
            sys.exit("an index of the skew benchmark was misread")

    return run


def _judge_all(cases: Sequence[tuple[LedgerFacts, Pair]]) -> Callable[[], object]:
    def run() -> None:
        for ledger, pair in cases:
            if judge(ledger, [pair], READ_STATES, 0).m != 1:
                sys.exit("a planted loss was not found")

    return run
