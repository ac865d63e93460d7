"""Balance of a cluster: the data on each bookie and disk, and the bookies that open ledgers do not use."""

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

_LEDGERS_COLUMN, _ENTRIES_COLUMN, _BYTES_COLUMN, _OPEN_ENSEMBLES_COLUMN = range(4)
_MAX_IDLE_CHANCE = 0.01

_DISK_COLUMNS = ("bookie_id", "directory")
_HASH_PRIME = 1_000_003


class LoadSums:
    """Sums of ledgers, entries, bytes and open ensembles by bookie.

    An entry counts on each bookie of its window. A window consists of the entries on the same set of bookies
    (`auditor.simulate.windows`).
    """

    def __init__(self) -> None:
        self._sums = np.zeros((0, 4), np.int64)

    def add(self, windows: Windows, bookie_numbering: BookieNumbers) -> None:
        """Add windows (entries on the same bookies). All windows of a ledger must be in the same call."""
        self._sums = pad_sums(self._sums, len(bookie_numbering), padded_axis=0)
        window_rows, copy_columns = np.nonzero(windows.bookies != NO_BOOKIE)
        bookie_numbers = windows.bookies[window_rows, copy_columns]
        np.add.at(self._sums[:, _ENTRIES_COLUMN], bookie_numbers, windows.entries[window_rows])
        np.add.at(self._sums[:, _BYTES_COLUMN], bookie_numbers, windows.bytes[window_rows])
        for sum_column, copy_selection in (
            (_LEDGERS_COLUMN, slice(None)),
            (_OPEN_ENSEMBLES_COLUMN, windows.is_open_end[window_rows]),
        ):
            ledger_bookie_pairs = distinct_values(
                windows.ledger[window_rows][copy_selection] * len(bookie_numbering)
                + bookie_numbers[copy_selection]
            )
            np.add.at(
                self._sums[:, sum_column],
                ledger_bookie_pairs % len(bookie_numbering),
                windows.equal_ledger_counts[ledger_bookie_pairs // len(bookie_numbering)],
            )

    def result(
        self,
        run: RunReader,
        bookie_numbering: BookieNumbers,
        mode_by_bookie: Mapping[str, str | None],
        locations: Locations,
        levels: list[Level],
    ) -> Balance:
        """Return the loads of all bookies, domains and disks. Each list has the largest load first.

        ``mode_by_bookie`` is how each bookie is registered: writable, readonly, or None if not registered.
        """
        load_sums = pad_sums(self._sums, len(bookie_numbering), padded_axis=0)
        disks = disk_loads(run)
        log_bytes_by_bookie: Counter[str] = Counter()
        for disk in disks or ():
            log_bytes_by_bookie[disk.bookie] += disk.bytes
        # With few open ledgers some bookies are in none of their ensembles by chance.
        writable_count = sum(mode == "writable" for mode in mode_by_bookie.values())
        is_idle_unlikely_by_chance = (
            writable_count > 0
            and (1 - 1 / writable_count) ** int(load_sums[:, _OPEN_ENSEMBLES_COLUMN].sum()) < _MAX_IDLE_CHANCE
        )
        loads = []
        for bookie, sums_of_bookie in zip(bookie_numbering.names, load_sums.tolist(), strict=True):
            ledgers, entries, stored_bytes, open_ledgers = sums_of_bookie
            load = BookieLoad(
                bookie, ledgers, entries, stored_bytes, open_ledgers, log_bytes_by_bookie.get(bookie)
            )
            is_listed_bookie = load.ledgers or bookie in mode_by_bookie
            idle_reason = (
                _idle_reason(bookie, mode_by_bookie, locations, is_idle_unlikely_by_chance)
                if is_listed_bookie and not load.open_ensembles
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
    name: str,
    mode_by_bookie: Mapping[str, str | None],
    locations: Locations,
    is_idle_unlikely_by_chance: bool,
) -> str | None:
    """Return a possible reason why a bookie is in no ensemble of an open ledger.

    Returns None if this may be a coincidence, which ``is_idle_unlikely_by_chance`` rules out.
    """
    mode = mode_by_bookie.get(name)
    if mode is None:
        return "the bookie is not registered" if any(mode_by_bookie.values()) else None
    if mode == "readonly":
        return "the bookie is registered as read-only"
    if not is_idle_unlikely_by_chance:
        return None
    bookie_counts_by_depth = Counter(
        location_path.count("/")
        for located_bookie in locations.by_bookie
        if (location_path := locations.path(located_bookie)) is not None
    )
    location_path = locations.path(name) or DEFAULT_RACK
    if bookie_counts_by_depth and location_path.count("/") != max(
        bookie_counts_by_depth, key=lambda depth: bookie_counts_by_depth[depth]
    ):
        return (
            f"the location {location_path} has a different depth from most locations, so the server "
            "leaves it out of its topology"
        )
    if locations.groups(name):
        group_names = ", ".join(locations.groups(name))
        return f"the bookie is in group {group_names}: open ledgers may use other groups"
    return "no open ledger uses the bookie, for a reason that this run does not show"


def _domain_loads(loads: list[BookieLoad], locations: Locations, level: Level) -> tuple[BookieLoad, ...]:
    """Return the loads of the domains of one level. A ledger counts once per bookie in a domain."""
    domain_names = sorted(
        {domain for load in loads if (domain := locations.domain(load.name, level)) is not None}
    )
    domain_loads = []
    for name in domain_names:
        loads_of_domain = [load for load in loads if locations.domain(load.name, level) == name]
        disk_bytes_of_bookies = [load.disk for load in loads_of_domain]
        known_disk_bytes = [
            disk_byte_count for disk_byte_count in disk_bytes_of_bookies if disk_byte_count is not None
        ]
        domain_loads.append(
            BookieLoad(
                name,
                sum(load.ledgers for load in loads_of_domain),
                sum(load.entries for load in loads_of_domain),
                sum(load.bytes for load in loads_of_domain),
                sum(load.open_ensembles for load in loads_of_domain),
                sum(known_disk_bytes) if len(known_disk_bytes) == len(disk_bytes_of_bookies) else None,
            )
        )
    return tuple(sorted(domain_loads, key=_largest_first))


def _largest_first(load: BookieLoad) -> tuple[int, int, int, str]:
    return -load.bytes, -load.entries, -load.ledgers, load.name


def disk_loads(run: RunReader) -> tuple[DiskLoad, ...] | None:
    """Return the loads of all disks, the largest first. None if the run did not read entry logs.

    The function needs 8 bytes of memory for each ledger on each disk.

    Raises:
        RunError: a table of the run is broken.
    """
    if not {"entry_logs", "disks"} <= {*run.table_names()}:
        return None
    loads_by_disk: dict[tuple[str, str], DiskLoad] = {}
    keys_by_disk: dict[tuple[str, str], Longs] = {}
    used_shares = _used_shares(run)
    log_columns = ["bookie_id", "directory", "kind", "scope_id", "ledger_id", "bytes", "entries"]
    for batch in run.batches("tables/entry_logs", log_columns):
        # Compaction can leave one log under two names. It counts once.
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
        sums_and_distinct_ids = [("bytes", "sum"), ("entries", "sum"), ("blank", "sum"), ("id", "distinct")]
        for row in logs_by_disk.aggregate(sums_and_distinct_ids).to_pylist():
            disk_key = row["bookie_id"], row["directory"]
            load_so_far = loads_by_disk.get(
                disk_key, DiskLoad(*disk_key, 0, 0, 0, used_shares.get(disk_key[1]))
            )
            ledger_keys = np.array(
                [ledger_key for ledger_key in row["id_distinct"] if ledger_key is not None], np.int64
            )
            keys_by_disk[disk_key] = distinct_values(
                np.append(keys_by_disk.get(disk_key, ledger_keys[:0]), ledger_keys)
            )
            has_entries = load_so_far.entries is not None and not row["blank_sum"]
            loads_by_disk[disk_key] = replace(
                load_so_far,
                ledgers=len(keys_by_disk[disk_key]),
                entries=(load_so_far.entries or 0) + (row["entries_sum"] or 0) if has_entries else None,
                bytes=load_so_far.bytes + (row["bytes_sum"] or 0),
            )
    return tuple(sorted(loads_by_disk.values(), key=lambda load: (-load.bytes, load.bookie, load.directory)))


def _used_shares(run: RunReader) -> dict[str, float]:
    """Return the used share of each directory's file system.

    Directories with an unknown share are left out.
    """
    disk_rows = run.table("disks", ["directory", "capacity_bytes", "free_bytes"]).to_pylist()
    return {
        row["directory"]: 1 - row["free_bytes"] / row["capacity_bytes"]
        for row in disk_rows
        if row["capacity_bytes"] and row["free_bytes"] is not None
    }
