"""Time to simulate failures of 500 bookies in 25 racks.

The benchmark asks three questions: the effect of each possible failure, the effect of losing one rack, and
the data that is one failure from loss.

The run has a million ledgers. A larger run has ten million, and must not take more time per ledger. The
time is this process's processor time, which other work on the machine hardly changes.

The run's tables are generated. The ensembles are random and have three or five bookies. A quarter of the
ledgers has a second ensemble. One ledger in a thousand has a copy that its bookie lacks completely. The
rival simulates the loss of the rack ledger by ledger and entry by entry, but only for the first ledgers.
For these ledgers, rival and program must find the same lost entries. A third run has a twentieth of the
bookies, so that many ledgers have the same ensembles.

``BKAUDIT_LOSS_LEDGERS`` sets the number of ledgers of the large run.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from auditor.codecs.availability.groups import GroupBatch
from auditor.model.placement import Level, Location, Locations
from auditor.model.simulation import Simulation
from auditor.runs.reader import RunReader
from auditor.simulate.near_loss import find_near_losses
from auditor.simulate.simulation import simulate_all, simulate_failure
from auditor.tables.run_tables import TABLES
from benchmarks.measure import Line, alternate
from tests.made_runs import made_run

LARGE_LEDGER_COUNT = int(os.environ.get("BKAUDIT_LOSS_LEDGERS", "10_000_000"))
LEDGERS = LARGE_LEDGER_COUNT // 10
BOOKIES = 500
RACK_COUNT = 25
ENTRIES_PER_LEDGER = 50
LEDGER_BYTES = 5_000
RIVAL_LEDGERS = 20_000
QUORUM_SHAPES = ((3, 3, 2), (3, 2, 2), (5, 3, 2))
FAILED_RACK = "/r7"
BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class GeneratedRun:
    """A generated run: its path and its numbers of ledgers and bookies."""

    path: Path
    ledgers: int
    bookies: int

    @property
    def names(self) -> list[str]:
        """The bookie ids."""
        return [f"bk{number:04}:3181" for number in range(self.bookies)]

    @property
    def locations(self) -> Locations:
        """The bookies' racks. Bookie n is in rack n mod `RACK_COUNT`."""
        return Locations(
            {name: Location(f"/r{number % RACK_COUNT}") for number, name in enumerate(self.names)}, "made"
        )


def make_run(directory: Path, ledgers: int, bookies: int) -> GeneratedRun:
    """Write a run of ``ledgers`` ledgers on ``bookies`` bookies."""
    run = GeneratedRun(directory, ledgers, bookies)
    made_run(directory)
    _write_table(
        run,
        "ledgers",
        (_make_ledger_rows(run, first_ledger) for first_ledger in range(0, ledgers, BATCH_ROWS)),
    )
    _write_table(
        run,
        "judged",
        (_make_judged_rows(run, first_ledger) for first_ledger in range(0, ledgers, BATCH_ROWS)),
    )
    bookie_rows = [
        {"bookie_id": name, "named": True, "registered": "writable", "read": "read"} for name in run.names
    ]
    _write_table(run, "bookies", [pa.Table.from_pylist(bookie_rows, TABLES["bookies"].columns)])
    return run


def lines() -> Iterator[Line]:
    """Yield lines for the rival, and for each question of the large run and of the run with few bookies."""
    with tempfile.TemporaryDirectory(prefix="bkaudit-benchmark-") as folder:
        main_run = make_run(Path(folder, "many"), LEDGERS, BOOKIES)
        few_bookies_run = make_run(Path(folder, "few"), LEDGERS, BOOKIES // 20)
        large_run = make_run(Path(folder, "large"), LARGE_LEDGER_COUNT, BOOKIES)
        small_run = make_run(Path(folder, "small"), RIVAL_LEDGERS, BOOKIES)
        _require_same_loss(small_run)
        questions = [
            partial(ask, ledgers_run)
            for ledgers_run in (main_run, few_bookies_run)
            for ask in (_ask_near_loss, _ask_every_failure, _ask_rack_failure)
        ]
        question_seconds = _measure_seconds(*questions, partial(_ask_by_entry, small_run), rounds=1)
        main_run_times, few_bookies_times, entry_seconds = (
            question_seconds[:3],
            question_seconds[3:6],
            question_seconds[6],
        )
        large_times = _measure_seconds(
            *(partial(ask, large_run) for ask in (_ask_near_loss, _ask_every_failure, _ask_rack_failure)),
            rounds=1,
        )
        rack_seconds = main_run_times[2]
        yield Line(
            f"loss, one rack of {LEDGERS:,} ledgers", LEDGERS, "ledgers", rack_seconds, "by entry",
            RIVAL_LEDGERS, entry_seconds, note=f"{rack_seconds:.1f} s on {BOOKIES} bookies",
        )  # fmt: skip
        question_texts = ("one failure from loss", "all bookies, racks and pairs", "one rack")
        for question, seconds_of_run, seconds_with_few_bookies, seconds_of_large_run in zip(
            question_texts, main_run_times, few_bookies_times, large_times, strict=True
        ):
            yield Line(
                f"  {question}, {LARGE_LEDGER_COUNT:,} ledgers", LARGE_LEDGER_COUNT, "ledgers",
                seconds_of_large_run, f"{LEDGERS:,}", LEDGERS, seconds_of_run,
                most=True, goal=1.2, note=f"{seconds_of_large_run:.1f} and {seconds_of_run:.1f} s",
            )  # fmt: skip
            yield Line(
                "    ledgers that are alike", LEDGERS, "ledgers", seconds_with_few_bookies,
                f"{BOOKIES} bookies", LEDGERS,
                seconds_of_run, most=True,
                note=f"{seconds_with_few_bookies:.1f} s on {BOOKIES // 20} bookies",
            )  # fmt: skip
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"loss: this process took {peak_mib:,} MiB at most")


_measure_seconds = partial(alternate, clock=time.process_time)


def _ask_near_loss(run: GeneratedRun) -> object:
    return find_near_losses(RunReader(run.path).directory, run.locations)


def _ask_every_failure(run: GeneratedRun) -> object:
    return simulate_all(RunReader(run.path), run.locations)


def _ask_rack_failure(run: GeneratedRun) -> Simulation:
    return simulate_failure(RunReader(run.path), [(Level.RACK, [FAILED_RACK])], run.locations)


def _make_ledger_rows(run: GeneratedRun, first_ledger: int) -> pa.Table:
    """Return `BATCH_ROWS` rows of the ledgers table, from the ledger id ``first_ledger``."""
    ledger_ids = np.arange(first_ledger, min(first_ledger + BATCH_ROWS, run.ledgers))
    quorum_shapes = np.array(QUORUM_SHAPES)[ledger_ids % len(QUORUM_SHAPES)]
    has_changed = ledger_ids % 4 == 0
    ensemble_sizes = np.repeat(quorum_shapes[:, 0], 1 + has_changed)
    ledger_of_segment = np.repeat(np.arange(len(ledger_ids)), 1 + has_changed)
    is_second_segment = np.append(False, ledger_of_segment[1:] == ledger_of_segment[:-1])
    members = _choose_members(run, ledger_ids, quorum_shapes[:, 0].max())
    # The second ensemble replaces the first bookie.
    segment_members = members[ledger_of_segment]
    segment_members[is_second_segment, 0] = (
        segment_members[is_second_segment].max(axis=1) + 1 + segment_members[is_second_segment].sum(axis=1)
    ) % run.bookies
    is_duplicate = (segment_members[:, 1:] == segment_members[:, :1]).any(axis=1) & is_second_segment
    segment_members[is_duplicate, 0] = members[ledger_of_segment[is_duplicate], 0]
    is_member = np.arange(segment_members.shape[1]) < ensemble_sizes[:, None]
    member_offsets = np.append(0, np.cumsum(ensemble_sizes)).astype(np.int32)
    member_names = pa.DictionaryArray.from_arrays(
        pa.array(segment_members[is_member].astype(np.int32)), pa.array(run.names)
    )
    ensembles = pa.ListArray.from_arrays(member_offsets, member_names.cast(pa.string()))
    segments = pa.StructArray.from_arrays(
        [pa.array(np.where(is_second_segment, ENTRIES_PER_LEDGER // 2, 0)), ensembles],
        ["first_entry_id", "ensemble"],
    )
    list_bounds = np.append(0, np.cumsum(1 + has_changed)).astype(np.int32)
    columns = {
        "scope_id": np.zeros(len(ledger_ids), np.int64), "ledger_id": ledger_ids,
        "status": ["ok"] * len(ledger_ids),
        "undecidable": np.zeros(len(ledger_ids), bool), "state": ["CLOSED"] * len(ledger_ids),
        "ensemble_size": quorum_shapes[:, 0], "write_quorum": quorum_shapes[:, 1],
        "ack_quorum": quorum_shapes[:, 2], "last_entry_id": np.full(len(ledger_ids), ENTRIES_PER_LEDGER - 1),
        "length": np.full(len(ledger_ids), LEDGER_BYTES),
    }  # fmt: skip
    return _make_table(
        "ledgers", columns | {"segments": pa.ListArray.from_arrays(list_bounds, segments)}, len(ledger_ids)
    )


def _make_judged_rows(run: GeneratedRun, first_ledger: int) -> pa.Table:
    """Return the rows of the judged table for `BATCH_ROWS` ledgers, from the ledger id ``first_ledger``.

    In one ledger in a thousand, the first member lacks all its copies, unless that member was replaced.
    """
    ledger_ids = np.arange(first_ledger, min(first_ledger + BATCH_ROWS, run.ledgers))
    ledger_ids = ledger_ids[(ledger_ids % 1000 == 1) & (ledger_ids % len(QUORUM_SHAPES) == 0)]
    all_entries = GroupBatch.from_tuples([[(0, 0, ENTRIES_PER_LEDGER, 0)]]).tobytes()
    missing_copies = [
        [{"bookie_id": run.names[member], "groups": all_entries, "count": ENTRIES_PER_LEDGER}]
        for member in _choose_members(run, ledger_ids, 5)[:, 0].tolist()
    ]
    columns = {
        "scope_id": np.zeros(len(ledger_ids), np.int64),
        "ledger_id": ledger_ids,
        "missing": missing_copies,
    }
    return _make_table(
        "judged",
        columns | {"unknown": [[]] * len(ledger_ids), "doubts": [[]] * len(ledger_ids)},
        len(ledger_ids),
    )


def _choose_members(
    run: GeneratedRun, ledger_ids: NDArray[np.int64], ensemble_width: int
) -> NDArray[np.int64]:
    """Return ``ensemble_width`` different bookies for each ledger, computed from its id by a hash."""
    # Fibonacci hashing: 2**64 divided by the golden ratio spreads consecutive ids over all bits.
    hashes = (ledger_ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    hash_bytes = hashes[:, None] >> np.arange(0, 8 * ensemble_width, 8, dtype=np.uint64)
    # Each member has its own range of bookies, so the members of a ledger differ.
    bookies_per_range = run.bookies // ensemble_width
    return (
        np.arange(ensemble_width) * bookies_per_range
        + (hash_bytes % np.uint64(bookies_per_range)).astype(np.int64)
    ) % run.bookies


def _make_table(name: str, columns: dict[str, object], row_count: int) -> pa.Table:
    arrays = []
    for column in TABLES[name].columns:
        list_array = columns.get(column.name)
        if list_array is None:
            list_array = pa.nulls(row_count, column.type)
        arrays.append(
            list_array.cast(column.type)
            if isinstance(list_array, pa.Array)
            else pa.array(list_array, column.type)
        )
    return pa.table(arrays, schema=TABLES[name].columns)


def _write_table(run: GeneratedRun, name: str, tables: Iterable[pa.Table]) -> None:
    path = run.path / "tables" / name
    for number, table in enumerate(tables):
        pq.write_table(table, path / f"part-{number:05}.parquet", write_page_checksum=True)


def _ask_by_entry(run: GeneratedRun) -> int:
    """Count the entries that are lost together with a rack, entry by entry and ledger by ledger."""
    failed_bookies = {
        name for number, name in enumerate(run.names) if f"/r{number % RACK_COUNT}" == FAILED_RACK
    }
    bookie_by_ledger = {}
    for row in pq.read_table(run.path / "tables/judged", columns=["ledger_id", "missing"]).to_pylist():
        bookie_by_ledger[row["ledger_id"]] = row["missing"][0]["bookie_id"]
    lost_entries = 0
    columns = ["ledger_id", "ensemble_size", "write_quorum", "last_entry_id", "segments"]
    for batch in pq.ParquetFile(run.path / "tables/ledgers/part-00000.parquet").iter_batches(columns=columns):
        for row in batch.to_pylist():
            absent_bookie = bookie_by_ledger.get(row["ledger_id"])
            ensemble_size, write_quorum = row["ensemble_size"], row["write_quorum"]
            for entry in range(row["last_entry_id"] + 1):
                ensemble = [
                    segment["ensemble"] for segment in row["segments"] if segment["first_entry_id"] <= entry
                ][-1]
                copies = {
                    ensemble[(entry + copy_number) % ensemble_size] for copy_number in range(write_quorum)
                } - {absent_bookie}
                lost_entries += bool(copies) and copies <= failed_bookies
    return lost_entries


def _require_same_loss(run: GeneratedRun) -> None:
    failure = _ask_rack_failure(run).failure
    if failure is None or failure.today.sure.lost.entries != _ask_by_entry(run):
        sys.exit("loss: not the entries that are lost one by one")
