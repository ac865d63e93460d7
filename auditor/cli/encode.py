"""``bkaudit encode``: entry ids as a BP-34 value, in the form that bookies send.

The code of the format is loaded when a command needs it.
"""

import re
import sys
from typing import Any, BinaryIO

import click

from auditor.cli.decode import input_name
from auditor.errors import FileSystemError, UsageError
from auditor.runs.whole_file import write_whole

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Largest size of a file of entry ids, in bytes. It has room for 30 million ids."""

_MAX_ENTRY = 2**63 - 2
_ID_OR_RANGE = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


@click.group()
def encode() -> None:
    """Encode entry ids as bookies list them (BP-34)."""


@encode.command()
@click.argument("file", type=click.File("rb"))
@click.option("--out", type=click.Path(), help="The file to write.  [default: standard output]")
@click.option("--unfolded", is_flag=True, help="Write one group for each run of entries, as the server does.")
def availability(file: BinaryIO, out: str | None, unfolded: bool) -> None:
    """Encode the entry ids of FILE as a BP-34 value; - reads standard input.

    FILE has ids and ranges (0-9), separated by blanks, commas or line ends, in any order. The value has the
    64-byte header. Equal sets of entries give equal bytes. `bkaudit decode availability` reads it back.
    """
    from auditor.codecs.availability import wire

    try:
        data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:  # of a read, which knows no path
        raise FileSystemError(f"{input_name(file)}: {error.strerror or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{input_name(file)}: entry ids: more than {MAX_FILE_BYTES} bytes")
    groups = _parse_groups(data, input_name(file))
    value = wire.encode_unfolded(groups) if unfolded else wire.encode(groups)
    if out in (None, "-"):
        if sys.stdout.isatty():
            raise UsageError(
                "standard output: it is a terminal, and the value is binary. Pass a file with --out"
            )
        sys.stdout.buffer.write(value)
        return
    write_whole(out, lambda target_file: target_file.write(value))


def _parse_groups(data: bytes, name: str) -> Any:
    """Return the entry ids in a text as ascending groups that do not overlap.

    ``name`` is the name of the input, for error messages.
    """
    from auditor.codecs.availability.fold import fold
    from auditor.codecs.availability.groups import GroupBatch

    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name}: entry ids: byte {error.start} is neither a digit nor a separator"
        ) from None
    ranges: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        ranges += [
            _parse_range(range_text, f"{name}: entry ids: line {number}")
            for range_text in line.replace(",", " ").split()
        ]
    merged_ranges: list[tuple[int, int]] = []
    for first_entry, last_entry in sorted(ranges):
        if merged_ranges and first_entry <= merged_ranges[-1][1] + 1:
            merged_ranges[-1] = (merged_ranges[-1][0], max(last_entry, merged_ranges[-1][1]))
        else:
            merged_ranges.append((first_entry, last_entry))
    return fold(
        GroupBatch.from_tuples([[(start, start, end - start + 1, 0) for start, end in merged_ranges]])
    ).groups()


def _parse_range(range_text: str, place_text: str) -> tuple[int, int]:
    """Return the first and the last entry of a word: of one id, or of a range such as 0-9.

    ``place_text`` names the input and the line, for error messages.
    """
    match = _ID_OR_RANGE.fullmatch(range_text)
    if match is None:
        raise UsageError(f"{place_text}: {range_text[:40]!r} is neither an entry id nor a range such as 0-9")
    first_entry, last_entry = int(match[1]), int(match[2] or match[1])
    if not first_entry <= last_entry <= _MAX_ENTRY:
        raise UsageError(
            f"{place_text}: {range_text!r}: invalid range. It must ascend, "
            f"and the largest entry id is {_MAX_ENTRY}"
        )
    return first_entry, last_entry
