"""Disk usage of a run's bookies, summed by bookie, and forecasts of when the disks are full.

A forecast uses the free bytes of a disk in the run and in earlier runs of the cluster. A run is skipped if it
is less than an hour older than the next newer run that the forecast uses. A forecast needs at least the three
newest runs to agree. Runs agree if the free bytes fell from each run to the next, at similar rates. No two
rates may differ by more than a factor of `MAX_RATE_RATIO`. A forecast is more certain if more runs agree.
If a disk's size or device number changed, runs before this change are not used.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from auditor.model.space import (
    DISK_BYTES,
    FULL_DISK_SHARE,
    NO_BOOKIE_NAME,
    DiskTotal,
    FileSystem,
    FillForecast,
)
from auditor.runs.reader import RunReader
from auditor.runs.siblings import summarize_siblings

_FILE_SYSTEM_COLUMNS = ("device", "capacity_bytes", "free_bytes", "seen")


def disk_totals(run: RunReader) -> tuple[DiskTotal, ...]:
    """Return the disk usage of each bookie, sorted by bookie id.

    Empty if the run did not read entry logs. One row for each directory is in memory.

    Raises:
        RunError: the table ``disks`` is broken.
    """
    if "disks" not in run.table_names():
        return ()
    bytes_by_bookie: dict[str, Counter[str]] = {}
    unread_directory_counts: Counter[str] = Counter()
    file_systems: dict[str, dict[int, FileSystem]] = {}
    columns = [
        "bookie_id",
        *(bytes_kind.column for bytes_kind in DISK_BYTES),
        *_FILE_SYSTEM_COLUMNS,
        "reason",
    ]
    for batch in run.batches("tables/disks", columns):
        for row in batch.to_pylist():
            bookie_name = row["bookie_id"] if row["bookie_id"] is not None else NO_BOOKIE_NAME
            bytes_by_category = bytes_by_bookie.setdefault(bookie_name, Counter())
            bytes_by_category.update(
                {byte_count.name: row[byte_count.column] or 0 for byte_count in DISK_BYTES}
            )
            unread_directory_counts[bookie_name] += row["reason"] is not None
            if row["capacity_bytes"] is not None:
                file_systems.setdefault(bookie_name, {})[row["device"]] = FileSystem(
                    *(row[column] for column in _FILE_SYSTEM_COLUMNS)
                )
    return tuple(
        DiskTotal(
            name,
            **{byte_count.name: bytes_by_bookie[name][byte_count.name] for byte_count in DISK_BYTES},
            file_systems=tuple(
                sorted(file_systems.get(name, {}).values(), key=lambda file_system: -file_system.used)
            ),
            unread=unread_directory_counts[name],
        )
        for name in sorted(bytes_by_bookie)
    )


MIN_RUNS = 3
MAX_RUNS = 10
"""Largest number of runs that a forecast uses. They are the newest ones."""

MIN_RUN_GAP_MS = 3_600_000
MAX_RATE_RATIO = 2.0
_DAY_MS = 86_400_000


def fill_forecasts(run: RunReader, disks: Sequence[DiskTotal]) -> tuple[FillForecast, ...]:
    """Return a forecast for each bookie that has a disk on which enough runs agree.

    If a bookie has several such disks, its forecast is for the disk that is full first. Forecasts are
    sorted by the time until the disk is full, the shortest first. ``disks`` has the totals of ``run``
    itself (`disk_totals`).

    Raises:
        RunError: the directory of runs cannot be listed, or a table ``disks`` is broken.
    """
    samples_by_disk = {
        (newest_total.name, newest_file_system.device): [newest_file_system]
        for newest_total in disks
        for newest_file_system in newest_total.file_systems
    }
    for earlier_totals in islice(_runs_before(run), MAX_RUNS - 1) if samples_by_disk else ():
        for disk_total in earlier_totals:
            for older_sample in disk_total.file_systems:
                if (samples := samples_by_disk.get((disk_total.name, older_sample.device))) is not None:
                    samples.append(older_sample)  # what is not there any more has no series
    earliest_forecasts: dict[str, FillForecast] = {}
    for (name, _), samples in samples_by_disk.items():
        fill_forecast = make_forecast(name, samples)
        if fill_forecast is not None and (
            name not in earliest_forecasts or fill_forecast.days < earliest_forecasts[name].days
        ):
            earliest_forecasts[name] = fill_forecast
    return tuple(
        sorted(
            earliest_forecasts.values(),
            key=lambda forecast_of_disk: (forecast_of_disk.days, forecast_of_disk.name),
        )
    )


def make_forecast(name: str, samples: Sequence[FileSystem]) -> FillForecast | None:
    """Return the forecast of when a file system is full. None if fewer than three runs agree.

    ``samples`` has the file system as each run saw it, the newest run first.

    >>> day, size = 86_400_000, 1000
    >>> falling = [FileSystem(1, size, free, when * day) for when, free in ((3, 200), (2, 300), (1, 400))]
    >>> make_forecast("bk1", falling)
    FillForecast(name='bk1', days=1.5, rate=100.0, runs=3)
    >>> make_forecast("bk1", falling[:2]) is None
    True
    """
    spaced_samples = _spaced_samples(samples)
    daily_rates: list[float] = []
    for newer_sample, older_sample in pairwise(spaced_samples):
        bytes_per_day = (
            (older_sample.free - newer_sample.free) / (newer_sample.seen - older_sample.seen) * _DAY_MS
        )
        if (
            bytes_per_day <= 0
            or newer_sample.capacity != older_sample.capacity
            or max([*daily_rates, bytes_per_day]) > MAX_RATE_RATIO * min([*daily_rates, bytes_per_day])
        ):
            break
        daily_rates.append(bytes_per_day)
    run_count = len(daily_rates) + 1
    if run_count < MIN_RUNS:
        return None
    newest_sample, oldest_used_sample = spaced_samples[0], spaced_samples[run_count - 1]
    bytes_per_day = (
        (oldest_used_sample.free - newest_sample.free)
        / (newest_sample.seen - oldest_used_sample.seen)
        * _DAY_MS
    )
    bytes_left = newest_sample.free - round((1 - FULL_DISK_SHARE) * newest_sample.capacity)
    return FillForecast(name, max(bytes_left / bytes_per_day, 0.0), bytes_per_day, run_count)


def _spaced_samples(samples: Sequence[FileSystem]) -> list[FileSystem]:
    """Return ``samples`` without those that are too close in time, the newest first.

    A sample is a file system as one run saw it. It is left out if it is less than an hour older than the
    sample before it in the result.
    """
    spaced_samples: list[FileSystem] = []
    for file_system in samples:
        if not spaced_samples or spaced_samples[-1].seen - file_system.seen >= MIN_RUN_GAP_MS:
            spaced_samples.append(file_system)
    return spaced_samples


def _runs_before(run: RunReader) -> Iterator[tuple[DiskTotal, ...]]:
    """Yield the disk totals of earlier runs of the cluster, the newest first."""
    summaries = summarize_siblings(run.path, run.report.cluster)
    run_finish_time = run.report.run.finished
    for summary in reversed(
        [earlier_run for earlier_run in summaries if earlier_run.finished < run_finish_time]
    ):
        if totals := disk_totals(RunReader(summary.path)):
            yield totals
