"""Renderers of the contents of entry logs and of the steps that free space: text, CSV and JSON."""

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from typing import TypeVar

from auditor.model.amounts import and_more, duration, percent, plural, size
from auditor.model.space import FULL, DiskTotal, FillForecast, RefusedSpace, SpaceStep, SpaceView
from auditor.model.states import SpaceClass
from auditor.reports.layout import NameTable, table_lines
from auditor.reports.plain_text import fold_text, printable

_BookieRow = TypeVar("_BookieRow", SpaceStep, RefusedSpace)

BOOKIES_SHOWN = 20
"""Largest number of bookies whose steps a text shows. Bookies with most bytes to free come first."""

DISK_COLUMNS = ("beside the logs", "journals", "indexes", "RocksDB", "other", "free")
"""Headings of the table of bytes on disks other than entry logs."""


def text(view: SpaceView, width: int | None = None) -> str:
    """Return the page: the sum, and a line for each bookie, ledger, application or age.

    A view by bookie also has the bytes of other files, and the steps that free most bytes.

    Args:
        view: The figures.
        width: Columns of a line. Commands are never folded. None: any width.
    """
    lines = _folded_lines(_totals_sentence(view), width)
    if view.totals:
        classes = list(view.classes)
        column_titles = (view.by, "bytes", "share", *classes)
        lines += ["", *table_lines(NameTable(column_titles, [*_table_rows(view, classes)]), width)]
    if view.disks:
        lines += ["", *table_lines(NameTable(DISK_COLUMNS, [*map(_disk_row, view.disks)]), width)]
        for forecast in view.forecasts:
            lines += _folded_lines(f"{forecast.name}: {forecast_words(forecast)}", width)
    if view.by == "bookie":
        lines += _step_lines(view, width)
    return "\n".join(lines)


def _totals_sentence(view: SpaceView) -> str:
    files = f"{plural(view.files, 'file')} of {view.file_bytes:,} bytes"
    if view.bytes == view.file_bytes:
        return f"{files}: every byte is in one class"
    difference = abs(view.file_bytes - view.bytes)
    return f"{files}, and {view.bytes:,} bytes in classes: {difference:,} bytes do NOT add up"


def _table_rows(view: SpaceView, classes: list[str]) -> Iterator[tuple[str, ...]]:
    for total in view.totals:
        yield _table_row(printable(total.name), total.classes, view.bytes, classes)
    if view.others_count:
        yield _table_row(f"({view.others_count:,} others)", view.others, view.bytes, classes)
    if len(view.totals) + bool(view.others_count) > 1:
        yield _table_row("(all)", view.classes, view.bytes, classes)


def _table_row(name: str, sizes: dict[str, int], total_bytes: int, classes: list[str]) -> tuple[str, ...]:
    bytes = sum(sizes.values())
    cells = [size(sizes[space_class]) if sizes.get(space_class) else "-" for space_class in classes]
    return name, size(bytes), percent(bytes, total_bytes), *cells


def forecast_words(forecast: FillForecast) -> str:
    """Return a sentence on when a bookie's disk will be full.

    >>> forecast_words(FillForecast("bk1", 12.4, 3_400_000_000, 4))
    '95 % of a disk is in use in 12 days at 3.4 GB a day, as 4 runs agree'
    """
    day_text = f"in {duration(forecast.days * 86_400)}" if forecast.days else "now"
    rate_text = size(round(forecast.rate))
    return (
        f"{FULL * 100:g} % of a disk is in use {day_text} at {rate_text} a day, as {forecast.runs} runs agree"
    )


def _disk_row(disk: DiskTotal) -> tuple[str, ...]:
    sizes = disk.by_kind.values()
    return (
        printable(disk.name),
        *(size(byte_count) if byte_count else "-" for byte_count in sizes),
        free_words(disk),
    )


def free_words(disk: DiskTotal) -> str:
    """Return the free space of the fullest file system of a bookie.

    >>> from auditor.model.space import FileSystem
    >>> free_words(DiskTotal("bk1", 0, 0, 0, 0, (FileSystem(1, 50_000_000_000, 2_000_000_000, 0),)))
    '2.0 GB of 50.0 GB (4.0 %)'
    """
    fullest_directory = disk.fullest
    if fullest_directory is None:
        return "not seen"
    share = percent(fullest_directory.free, fullest_directory.capacity)
    free_text = f"{size(fullest_directory.free)} of {size(fullest_directory.capacity)} ({share})"
    count = len(disk.file_systems)
    return free_text if count == 1 else f"{free_text}, the fullest of {count}"


def _step_lines(view: SpaceView, width: int | None) -> Iterator[str]:
    by_bookie = _rows_by_bookie(view.steps)
    if not by_bookie:
        yield "\nnothing to free was found" if not view.refused else "\nnothing may be freed"
    for bookie, steps in list(by_bookie.items())[:BOOKIES_SHOWN]:
        yield ""
        yield from _folded_lines(f"{bookie}: steps that free most", width)
        for number, step in enumerate(steps, 1):
            yield from _folded_lines(
                f"{number}. {size(step.bytes)} ({step.bytes:,} bytes): {step.what}", width, "  "
            )
            if step.command is not None:
                yield f"     {printable(step.command)}"
            yield from _folded_lines(f"risk: {step.risk}", width, "     ")
    yield from and_more(len(by_bookie) - BOOKIES_SHOWN, " bookies: --format json has all", "\n")
    refused = _rows_by_bookie(view.refused)
    for bookie, rows in list(refused.items())[:BOOKIES_SHOWN]:
        yield ""
        yield from _folded_lines(f"{bookie}: do not free", width)
        for row in rows:
            yield from _folded_lines(f"{size(row.bytes)} ({row.bytes:,} bytes): {row.what}", width, "  ")
            yield from _folded_lines(f"why not: {row.why}", width, "     ")
            yield from _folded_lines(f"until: {row.way_out}", width, "     ")
    yield from and_more(len(refused) - BOOKIES_SHOWN, " bookies: --format json has all", "\n")


def _folded_lines(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return a sentence in lines of at most ``width`` columns. None: do not fold."""
    return [indent + printable(text)] if width is None else fold_text(text, width, indent, f"{indent}  ")


def _rows_by_bookie(steps: tuple[_BookieRow, ...]) -> dict[str, list[_BookieRow]]:
    """Return the steps by bookie. The bookie whose steps free most bytes comes first."""
    steps_by_bookie: dict[str, list[_BookieRow]] = {}
    for step in steps:
        steps_by_bookie.setdefault(step.bookie_id, []).append(step)
    sorted_names = sorted(
        steps_by_bookie, key=lambda name: (-sum(step.bytes for step in steps_by_bookie[name]), name)
    )
    return {name: steps_by_bookie[name] for name in sorted_names}


def to_csv(view: SpaceView) -> str:
    """Return one CSV row for each bookie, ledger, application or age, with one column for each class.

    If the view has only the largest of them, the last row has the sum of all others.
    """
    csv_buffer = StringIO()
    writer = csv.writer(csv_buffer, lineterminator="\n")
    names = [str(space_class) for space_class in SpaceClass]
    writer.writerow([view.by, "bytes", *names])
    for total in view.totals:
        writer.writerow([total.name, total.bytes, *(total.classes.get(name, 0) for name in names)])
    if view.others_count:
        other_sizes = [view.others.get(name, 0) for name in names]
        writer.writerow([f"({view.others_count} others)", sum(other_sizes), *other_sizes])
    return csv_buffer.getvalue().rstrip("\n")


def to_json(view: SpaceView) -> str:
    """Return one JSON object with the figures and every step."""
    return json.dumps(
        {
            "by": view.by,
            "files": view.files,
            "file_bytes": view.file_bytes,
            "bytes": view.bytes,
            "classes": view.classes,
            "totals": [asdict(total) | {"bytes": total.bytes} for total in view.totals],
            "others": {"count": view.others_count, "classes": view.others},
            "steps": [asdict(step) for step in view.steps],
            "refused": [asdict(row) for row in view.refused],
            "disks": [asdict(disk) for disk in view.disks],
            "forecasts": [asdict(forecast) for forecast in view.forecasts],
        },
        indent=2,
    )
