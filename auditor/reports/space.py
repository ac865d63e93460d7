"""Renderers of the contents of entry logs and of the steps that free space: text, CSV and JSON."""

import csv
import json
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from typing import TypeVar

from auditor.model.amounts import and_more, duration, percent, plural, size
from auditor.model.space import FULL_DISK_SHARE, DiskTotal, FillForecast, RefusedSpace, SpaceStep, SpaceView
from auditor.model.states import SpaceClass
from auditor.reports.layout import NameTable, name_table_lines
from auditor.reports.plain_text import fold_text, printable

_BookieStep = TypeVar("_BookieStep", SpaceStep, RefusedSpace)

MAX_BOOKIES_SHOWN = 20
"""Largest number of bookies whose steps a text shows. Bookies with most bytes to free come first."""

DISK_COLUMN_TITLES = ("outside the logs", "journals", "indexes", "RocksDB", "other", "free")
"""Headings of the table of bytes on disks other than entry logs."""


def text(space_view: SpaceView, width: int | None = None) -> str:
    """Return the page: the total bytes, and a line for each bookie, ledger, application or age.

    If the lines are for bookies, the page also has the bytes of other files, and the steps that free the most
    bytes.

    Args:
        space_view: The figures.
        width: Columns of a line. Commands are never folded. None: lines may have any width.
    """
    lines = _folded_lines(_totals_sentence(space_view), width)
    if space_view.totals:
        classes = list(space_view.classes)
        column_titles = (space_view.grouping, "bytes", "share", *classes)
        lines += ["", *name_table_lines(NameTable(column_titles, [*_table_rows(space_view, classes)]), width)]
    if space_view.disks:
        lines += [
            "",
            *name_table_lines(NameTable(DISK_COLUMN_TITLES, [*map(_disk_row, space_view.disks)]), width),
        ]
        for forecast in space_view.forecasts:
            lines += _folded_lines(f"{forecast.name}: {forecast_text(forecast)}", width)
    if space_view.grouping == "bookie":
        lines += _step_lines(space_view, width)
    return "\n".join(lines)


def _totals_sentence(space_view: SpaceView) -> str:
    files_text = f"{plural(space_view.files, 'file')} of {space_view.file_bytes:,} bytes"
    if space_view.bytes == space_view.file_bytes:
        return f"{files_text}: every byte belongs to one class"
    byte_difference = abs(space_view.file_bytes - space_view.bytes)
    classes_text = f"{space_view.bytes:,} bytes in classes"
    return f"{files_text}, and {classes_text}; the sums differ by {byte_difference:,} bytes"


def _table_rows(space_view: SpaceView, classes: list[str]) -> Iterator[tuple[str, ...]]:
    for total in space_view.totals:
        yield _table_row(printable(total.name), total.classes, space_view.bytes, classes)
    if space_view.remaining_count:
        yield _table_row(
            f"({space_view.remaining_count:,} others)", space_view.remaining_bytes, space_view.bytes, classes
        )
    if len(space_view.totals) + bool(space_view.remaining_count) > 1:
        yield _table_row("(all)", space_view.classes, space_view.bytes, classes)


def _table_row(
    name: str, sizes_by_class: dict[str, int], total_bytes: int, classes: list[str]
) -> tuple[str, ...]:
    row_bytes = sum(sizes_by_class.values())
    cells = [
        size(sizes_by_class[space_class]) if sizes_by_class.get(space_class) else "-"
        for space_class in classes
    ]
    return name, size(row_bytes), percent(row_bytes, total_bytes), *cells


def forecast_text(forecast: FillForecast) -> str:
    """Return a sentence on when a bookie's disk will be full.

    >>> forecast_text(FillForecast("bk1", 12.4, 3_400_000_000, 4))
    'a disk reaches 95 % in 12 days if it grows by 3.4 GB a day (4 runs agree)'
    """
    day_text = f"in {duration(forecast.days * 86_400)}" if forecast.days else "now"
    growth_text = f"it grows by {size(round(forecast.rate))} a day ({forecast.runs} runs agree)"
    return f"a disk reaches {FULL_DISK_SHARE * 100:g} % {day_text} if {growth_text}"


def _disk_row(disk: DiskTotal) -> tuple[str, ...]:
    sizes_by_class = disk.bytes_by_kind.values()
    return (
        printable(disk.name),
        *(size(byte_count) if byte_count else "-" for byte_count in sizes_by_class),
        free_space_text(disk),
    )


def free_space_text(disk: DiskTotal) -> str:
    """Return the free space of the fullest file system of a bookie.

    >>> from auditor.model.space import FileSystem
    >>> free_space_text(DiskTotal("bk1", 0, 0, 0, 0, (FileSystem(1, 50_000_000_000, 2_000_000_000, 0),)))
    '2.0 GB of 50.0 GB (4.0 %)'
    """
    fullest_file_system = disk.fullest
    if fullest_file_system is None:
        return "not seen"
    share_text = percent(fullest_file_system.free, fullest_file_system.capacity)
    free_text = f"{size(fullest_file_system.free)} of {size(fullest_file_system.capacity)} ({share_text})"
    count = len(disk.file_systems)
    return free_text if count == 1 else f"{free_text}, the fullest of {count}"


def _step_lines(space_view: SpaceView, width: int | None) -> Iterator[str]:
    steps_by_bookie = _group_by_bookie(space_view.steps)
    if not steps_by_bookie:
        yield (
            "\nno step that frees space is permitted"
            if space_view.refused
            else "\nno space to free was found"
        )
    for bookie, steps in list(steps_by_bookie.items())[:MAX_BOOKIES_SHOWN]:
        yield ""
        yield from _folded_lines(f"{bookie}: steps that free the most space", width)
        for number, step in enumerate(steps, 1):
            yield from _folded_lines(
                f"{number}. {size(step.bytes)} ({step.bytes:,} bytes): {step.what}", width, "  "
            )
            if step.command is not None:
                yield f"     {printable(step.command)}"
            yield from _folded_lines(f"risk: {step.risk}", width, "     ")
    yield from and_more(len(steps_by_bookie) - MAX_BOOKIES_SHOWN, " bookies; --format json lists all", "\n")
    refused_by_bookie = _group_by_bookie(space_view.refused)
    for bookie, refused_steps in list(refused_by_bookie.items())[:MAX_BOOKIES_SHOWN]:
        yield ""
        yield from _folded_lines(f"{bookie}: do not free", width)
        for refused_step in refused_steps:
            yield from _folded_lines(
                f"{size(refused_step.bytes)} ({refused_step.bytes:,} bytes): {refused_step.what}", width, "  "
            )
            yield from _folded_lines(f"why not: {refused_step.why}", width, "     ")
            yield from _folded_lines(f"until: {refused_step.way_out}", width, "     ")
    yield from and_more(len(refused_by_bookie) - MAX_BOOKIES_SHOWN, " bookies; --format json lists all", "\n")


def _folded_lines(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return a sentence in lines of at most ``width`` columns. None: do not fold."""
    return [indent + printable(text)] if width is None else fold_text(text, width, indent, f"{indent}  ")


def _group_by_bookie(steps: tuple[_BookieStep, ...]) -> dict[str, list[_BookieStep]]:
    """Return the steps by bookie. The bookie whose steps free the most bytes comes first."""
    steps_by_bookie: dict[str, list[_BookieStep]] = {}
    for step in steps:
        steps_by_bookie.setdefault(step.bookie_id, []).append(step)
    sorted_names = sorted(
        steps_by_bookie, key=lambda name: (-sum(step.bytes for step in steps_by_bookie[name]), name)
    )
    return {name: steps_by_bookie[name] for name in sorted_names}


def to_csv(space_view: SpaceView) -> str:
    """Return one CSV row for each bookie, ledger, application or age, with one column for each class.

    If only the largest ledgers or applications have rows, the last row has the sum of all other ledgers or
    applications.
    """
    csv_buffer = StringIO()
    writer = csv.writer(csv_buffer, lineterminator="\n")
    class_names = [str(space_class) for space_class in SpaceClass]
    writer.writerow([space_view.grouping, "bytes", *class_names])
    for total in space_view.totals:
        writer.writerow([total.name, total.bytes, *(total.classes.get(name, 0) for name in class_names)])
    if space_view.remaining_count:
        other_sizes = [space_view.remaining_bytes.get(name, 0) for name in class_names]
        writer.writerow([f"({space_view.remaining_count} others)", sum(other_sizes), *other_sizes])
    return csv_buffer.getvalue().rstrip("\n")


def to_json(space_view: SpaceView) -> str:
    """Return one JSON object with the figures and every step."""
    return json.dumps(
        {
            "by": space_view.grouping,
            "files": space_view.files,
            "file_bytes": space_view.file_bytes,
            "bytes": space_view.bytes,
            "classes": space_view.classes,
            "totals": [asdict(total) | {"bytes": total.bytes} for total in space_view.totals],
            "others": {"count": space_view.remaining_count, "classes": space_view.remaining_bytes},
            "steps": [asdict(step) for step in space_view.steps],
            "refused": [asdict(refused_step) for refused_step in space_view.refused],
            "disks": [asdict(disk) for disk in space_view.disks],
            "forecasts": [asdict(forecast) for forecast in space_view.forecasts],
        },
        indent=2,
    )
