"""Balance: the data on each bookie and disk, and the bookies that new ledgers use or do not use."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from auditor.model.arrow import pa, pc
from auditor.model.placement import DEFAULT_RACK, Level, Locations
from auditor.model.simulation import Balance, BookieLoad, DiskLoad
from auditor.model.states import LogFileKind
from auditor.runs.reader import RunReader
from auditor.simulate.domains import pad_sums
from auditor.simulate.windows import NO_BOOKIE, BookieNumbers, Longs, Windows, distinct_values

_LEDGERS, _ENTRIES, _BYTES, _OPEN_ENSEMBLES = range(4)
_MAX_IDLE_CHANCE = 0.01

_DISK_COLUMNS = ("bookie_id", "directory")
_HASH_PRIME = 1_000_003


class LoadSums:
    """Sums of ledgers, entries, bytes and open ensembles by bookie.

    An entry counts on each bookie of its window (`auditor.simulate.windows`).
    """

    def __init__(self) -> None:
        self._sums = np.zeros((0, 4), np.int64)

    def add(self, windows: Windows, numbers: BookieNumbers) -> None:
        """Add windows. All windows of a ledger must be in the same call."""
        self._sums = pad_sums(self._sums, len(numbers), axis=0)
        row, place_in_window = np.nonzero(windows.bookies != NO_BOOKIE)
        bookie_numbers = windows.bookies[row, place_in_window]
        np.add.at(self._sums[:, _ENTRIES], bookie_numbers, windows.entries[row])
        np.add.at(self._sums[:, _BYTES], bookie_numbers, windows.bytes[row])
        for column, row_selection in ((_LEDGERS, slice(None)), (_OPEN_ENSEMBLES, windows.open_end[row])):
            ledger_bookie_pairs = distinct_values(
                windows.ledger[row][row_selection] * len(numbers) + bookie_numbers[row_selection]
            )
            np.add.at(
                self._sums[:, column],
                ledger_bookie_pairs % len(numbers),
                windows.times[ledger_bookie_pairs // len(numbers)],
            )

    def result(
        self,
        run: RunReader,
        numbers: BookieNumbers,
        modes: Mapping[str, str | None],
        locations: Locations,
        levels: list[Level],
    ) -> Balance:
        """Return the loads of all bookies, domains and disks, the largest load first."""
        sums = pad_sums(self._sums, len(numbers), axis=0)
        disks = disk_loads(run)
        log_bytes: Counter[str] = Counter()
        for disk in disks or ():
            log_bytes[disk.bookie] += disk.bytes
        # With few open ledgers some bookies are in none of their ensembles by chance.
        writable_count = sum(mode == "writable" for mode in modes.values())
        is_idle_by_choice = (
            writable_count > 0
            and (1 - 1 / writable_count) ** int(sums[:, _OPEN_ENSEMBLES].sum()) < _MAX_IDLE_CHANCE
        )
        loads = []
        for name, row in zip(numbers.names, sums.tolist(), strict=True):
            ledgers, entries, bytes, open_ledgers = row
            load = BookieLoad(name, ledgers, entries, bytes, open_ledgers, log_bytes.get(name))
            is_bookie = load.ledgers or name in modes
            idle_reason = (
                _idle_reason(name, modes, locations, is_idle_by_choice)
                if is_bookie and not load.open_ensembles
                else None
            )
            loads.append(replace(load, idle=idle_reason))
        domains = {
            str(level): _domain_loads(loads, locations, level)
            for level in levels
            if level is not Level.BOOKIE
        }
        return Balance(tuple(sorted(loads, key=_largest_first)), domains, disks)


def _idle_reason(
    name: str, modes: Mapping[str, str | None], locations: Locations, is_idle_by_choice: bool
) -> str | None:
    """Return a possible reason why the bookie is in no open ensemble. None if it may be chance."""
    mode = modes.get(name)
    if mode is None:
        return "it is not registered" if any(modes.values()) else None
    if mode == "readonly":
        return "it is registered as read-only"
    if not is_idle_by_choice:
        return None
    depths = Counter(
        path.count("/") for bookie in locations.by_bookie if (path := locations.path(bookie)) is not None
    )
    path = locations.path(name) or DEFAULT_RACK
    if depths and path.count("/") != max(depths, key=lambda depth: depths[depth]):
        return f"its location {path} has another depth than most: the server leaves it out of its topology"
    if locations.groups(name):
        return f"it is in group {', '.join(locations.groups(name))}: open ledgers may use other groups"
    return "no open ledger uses it, and this run shows no reason"


def _domain_loads(loads: list[BookieLoad], locations: Locations, level: Level) -> tuple[BookieLoad, ...]:
    """Return the loads by domain. A ledger counts once for each of its bookies in the domain."""
    names = sorted({domain for load in loads if (domain := locations.domain(load.name, level)) is not None})
    domain_loads = []
    for name in names:
        members = [load for load in loads if locations.domain(load.name, level) == name]
        disks = [load.disk for load in members]
        known_disk_bytes = [member_bytes for member_bytes in disks if member_bytes is not None]
        domain_loads.append(
            BookieLoad(
                name,
                sum(load.ledgers for load in members),
                sum(load.entries for load in members),
                sum(load.bytes for load in members),
                sum(load.open_ensembles for load in members),
                sum(known_disk_bytes) if len(known_disk_bytes) == len(disks) else None,
            )
        )
    return tuple(sorted(domain_loads, key=_largest_first))


def _largest_first(load: BookieLoad) -> tuple[int, int, int, str]:
    return -load.bytes, -load.entries, -load.ledgers, load.name


def disk_loads(run: RunReader) -> tuple[DiskLoad, ...] | None:
    """Return the loads of all disks, the largest first. None if entry logs were not read.

    The function keeps 8 bytes in memory per ledger and disk.

    Raises:
        RunError: a table of the run is broken.
    """
    if not {"entry_logs", "disks"} <= {*run.table_names()}:
        return None
    loads_by_disk: dict[tuple[str, str], DiskLoad] = {}
    keys_by_disk: dict[tuple[str, str], Longs] = {}
    used_shares = _used_shares(run)
    columns = ["bookie_id", "directory", "kind", "scope_id", "ledger_id", "bytes", "entries"]
    for batch in run.batches("tables/entry_logs", columns):
        # A log that compaction left under two names is there once.
        is_compacted = pc.equal(batch["kind"], LogFileKind.COMPACTED.value).fill_null(False)
        log_rows = pa.table(batch.filter(pc.and_(batch["bookie_id"].is_valid(), pc.invert(is_compacted))))
        ledger_keys_column = pc.add(pc.multiply(log_rows["ledger_id"], _HASH_PRIME), log_rows["scope_id"])
        has_unknown_entries = pc.and_(log_rows["ledger_id"].is_valid(), log_rows["entries"].is_null()).cast(
            "int64"
        )
        logs_by_disk = (
            log_rows.append_column("id", ledger_keys_column)
            .append_column("blank", has_unknown_entries)
            .group_by([*_DISK_COLUMNS])
        )
        sums = [("bytes", "sum"), ("entries", "sum"), ("blank", "sum"), ("id", "distinct")]
        for row in logs_by_disk.aggregate(sums).to_pylist():
            disk_key = row["bookie_id"], row["directory"]
            previous_load = loads_by_disk.get(
                disk_key, DiskLoad(*disk_key, 0, 0, 0, used_shares.get(disk_key[1]))
            )
            ledger_keys = np.array([key for key in row["id_distinct"] if key is not None], np.int64)
            keys_by_disk[disk_key] = distinct_values(
                np.append(keys_by_disk.get(disk_key, ledger_keys[:0]), ledger_keys)
            )
            has_entries = previous_load.entries is not None and not row["blank_sum"]
            loads_by_disk[disk_key] = replace(
                previous_load,
                ledgers=len(keys_by_disk[disk_key]),
                entries=(previous_load.entries or 0) + (row["entries_sum"] or 0) if has_entries else None,
                bytes=previous_load.bytes + (row["bytes_sum"] or 0),
            )
    return tuple(sorted(loads_by_disk.values(), key=lambda load: (-load.bytes, load.bookie, load.directory)))


def _used_shares(run: RunReader) -> dict[str, float]:
    """Return the used share of the file system of each directory.

    Directories of unknown share are left out.
    """
    rows = run.table("disks", ["directory", "capacity_bytes", "free_bytes"]).to_pylist()
    return {
        row["directory"]: 1 - row["free_bytes"] / row["capacity_bytes"]
        for row in rows
        if row["capacity_bytes"] and row["free_bytes"] is not None
    }
