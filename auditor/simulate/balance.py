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
from auditor.simulate.domains import grown
from auditor.simulate.windows import NO_BOOKIE, BookieNumbers, Longs, Windows, distinct_values

_LEDGERS, _ENTRIES, _BYTES, _OPEN = range(4)
_MAX_CHANCE = 0.01

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
        self._sums = grown(self._sums, len(numbers), axis=0)
        row, place_in_window = np.nonzero(windows.bookies != NO_BOOKIE)
        bookie = windows.bookies[row, place_in_window]
        np.add.at(self._sums[:, _ENTRIES], bookie, windows.entries[row])
        np.add.at(self._sums[:, _BYTES], bookie, windows.bytes[row])
        for column, selection in ((_LEDGERS, slice(None)), (_OPEN, windows.open_end[row])):
            pairs = distinct_values(windows.ledger[row][selection] * len(numbers) + bookie[selection])
            np.add.at(self._sums[:, column], pairs % len(numbers), windows.times[pairs // len(numbers)])

    def result(
        self,
        run: RunReader,
        numbers: BookieNumbers,
        registered: Mapping[str, str | None],
        locations: Locations,
        levels: list[Level],
    ) -> Balance:
        """Return the loads of all bookies, domains and disks, the largest load first."""
        sums = grown(self._sums, len(numbers), axis=0)
        disks = disk_loads(run)
        logs: Counter[str] = Counter()
        for disk in disks or ():
            logs[disk.bookie] += disk.bytes
        # With few open ledgers some bookies are in none of their ensembles by chance.
        writable = sum(mode == "writable" for mode in registered.values())
        is_chance_excluded = writable > 0 and (1 - 1 / writable) ** int(sums[:, _OPEN].sum()) < _MAX_CHANCE
        loads = []
        for name, row in zip(numbers.names, sums.tolist(), strict=True):
            ledgers, entries, bytes, open_ledgers = row
            load = BookieLoad(name, ledgers, entries, bytes, open_ledgers, logs.get(name))
            is_bookie = load.ledgers or name in registered
            idle_reason = (
                _idle_reason(name, registered, locations, is_chance_excluded)
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
    name: str, registered: Mapping[str, str | None], locations: Locations, is_chance_excluded: bool
) -> str | None:
    """Return a possible reason why no open ensemble has the bookie. None if chance may be the reason."""
    mode = registered.get(name)
    if mode is None:
        return "it is not registered" if any(registered.values()) else None
    if mode == "readonly":
        return "it is registered as read-only"
    if not is_chance_excluded:
        return None
    depths = Counter(
        path.count("/") for bookie in locations.of if (path := locations.path(bookie)) is not None
    )
    path = locations.path(name) or DEFAULT_RACK
    if depths and path.count("/") != max(depths, key=lambda depth_of_path: depths[depth_of_path]):
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
        disk_bytes = [disk for disk in disks if disk is not None]
        domain_loads.append(
            BookieLoad(
                name,
                sum(load.ledgers for load in members),
                sum(load.entries for load in members),
                sum(load.bytes for load in members),
                sum(load.open_ensembles for load in members),
                sum(disk_bytes) if len(disk_bytes) == len(disks) else None,
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
    loads: dict[tuple[str, str], DiskLoad] = {}
    ledgers: dict[tuple[str, str], Longs] = {}
    used_shares = _used_by_directory(run)
    columns = ["bookie_id", "directory", "kind", "scope_id", "ledger_id", "bytes", "entries"]
    for batch in run.batches("tables/entry_logs", columns):
        # A log that compaction left under two names is there once.
        is_compacted = pc.equal(batch["kind"], LogFileKind.COMPACTED.value).fill_null(False)
        logs = pa.table(batch.filter(pc.and_(batch["bookie_id"].is_valid(), pc.invert(is_compacted))))
        ids = pc.add(pc.multiply(logs["ledger_id"], _HASH_PRIME), logs["scope_id"])
        blank = pc.and_(logs["ledger_id"].is_valid(), logs["entries"].is_null()).cast("int64")
        logs_by_disk = logs.append_column("id", ids).append_column("blank", blank).group_by([*_DISK_COLUMNS])
        sums = [("bytes", "sum"), ("entries", "sum"), ("blank", "sum"), ("id", "distinct")]
        for row in logs_by_disk.aggregate(sums).to_pylist():
            disk = row["bookie_id"], row["directory"]
            previous_load = loads.get(disk, DiskLoad(*disk, 0, 0, 0, used_shares.get(disk[1])))
            bookie_numbers = np.array([id for id in row["id_distinct"] if id is not None], np.int64)
            ledgers[disk] = distinct_values(np.append(ledgers.get(disk, bookie_numbers[:0]), bookie_numbers))
            has_entries = previous_load.entries is not None and not row["blank_sum"]
            loads[disk] = replace(
                previous_load,
                ledgers=len(ledgers[disk]),
                entries=(previous_load.entries or 0) + (row["entries_sum"] or 0) if has_entries else None,
                bytes=previous_load.bytes + (row["bytes_sum"] or 0),
            )
    return tuple(sorted(loads.values(), key=lambda load: (-load.bytes, load.bookie, load.directory)))


def _used_by_directory(run: RunReader) -> dict[str, float]:
    """Return the used share of each directory's file system, without directories of unknown share."""
    rows = run.table("disks", ["directory", "capacity_bytes", "free_bytes"]).to_pylist()
    return {
        row["directory"]: 1 - row["free_bytes"] / row["capacity_bytes"]
        for row in rows
        if row["capacity_bytes"] and row["free_bytes"] is not None
    }
