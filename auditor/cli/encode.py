"""``bkaudit encode``: encodes entry ids as a BP-34 value, the form in which bookies send them.

The code of the format is imported only when a command needs it.
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

_MAX_ENTRY_ID = 2**63 - 2
_ID_OR_RANGE_PATTERN = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


@click.group()
def encode() -> None:
    """Encode entry ids in the form in which bookies list them (BP-34)."""


@encode.command()
@click.argument("file", type=click.File("rb"))
@click.option("--out", type=click.Path(), help="The file to write.  [default: standard output]")
@click.option(
    "--unfolded",
    is_flag=True,
    help="Write one group for each run of consecutive entries, as the server does.",
)
def availability(file: BinaryIO, out: str | None, unfolded: bool) -> None:
    """Encode the entry ids in FILE as a BP-34 value. If FILE is -, standard input is read.

    FILE contains ids, and ranges such as 0-9, in any order. They are separated by blanks, commas or line
    ends. The value begins with the header of 64 bytes. Equal sets of entries give equal bytes. `bkaudit
    decode availability` decodes the value.
    """
    from auditor.codecs.availability import wire

    try:
        file_content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:  # an error of reading, which has no path
        raise FileSystemError(f"{input_name(file)}: {error.strerror or error}") from None
    if len(file_content) > MAX_FILE_BYTES:
        raise UsageError(f"{input_name(file)}: entry ids: more than {MAX_FILE_BYTES} bytes")
    entry_groups = _parse_groups(file_content, input_name(file))
    encoded_groups = wire.encode_unfolded(entry_groups) if unfolded else wire.encode(entry_groups)
    if out in (None, "-"):
        if sys.stdout.isatty():
            raise UsageError(
                "standard output: is a terminal, but the output is binary. Pass a file with --out"
            )
        sys.stdout.buffer.write(encoded_groups)
        return
    write_whole(out, lambda target_file: target_file.write(encoded_groups))


def _parse_groups(file_content: bytes, input_title: str) -> Any:
    """Return the entry ids in a text as ascending groups that do not overlap.

    ``input_title`` is the name of the input, for error messages.
    """
    from auditor.codecs.availability.fold import fold
    from auditor.codecs.availability.groups import GroupBatch

    try:
        text = file_content.decode("ascii")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{input_title}: entry ids: byte {error.start} is neither a digit nor a separator"
        ) from None
    ranges: list[tuple[int, int]] = []
    for line_number, line in enumerate(text.splitlines(), 1):
        ranges += [
            _parse_range(range_text, f"{input_title}: entry ids: line {line_number}")
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


def _parse_range(range_text: str, position_text: str) -> tuple[int, int]:
    """Parse an entry id, or a range such as 0-9, and return the first and the last entry id.

    ``position_text`` names the input and the line, for error messages.
    """
    range_match = _ID_OR_RANGE_PATTERN.fullmatch(range_text)
    if range_match is None:
        raise UsageError(
            f"{position_text}: {range_text[:40]!r} is neither an entry id nor a range such as 0-9"
        )
    first_entry, last_entry = int(range_match[1]), int(range_match[2] or range_match[1])
    if not first_entry <= last_entry <= _MAX_ENTRY_ID:
        raise UsageError(
            f"{position_text}: {range_text!r}: invalid range. It must ascend, "
            f"and the largest entry id is {_MAX_ENTRY_ID}"
        )
    return first_entry, last_entry
