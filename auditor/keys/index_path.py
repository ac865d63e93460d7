"""Paths of index files below ``current``, and their conversion from ledger ids and back.

    12/34/1234.idx                                  scope 0: the two lowest bytes, then the whole id
    00000000/00000001/00000000/00000002/2.idx       scope 1, ledger 2

A ledger's scope (BP-35) is the upper half of its 128-bit id. Paths in scope 0 follow BookKeeper's
IndexPersistenceMgr: lower-case hexadecimal digits without padding. For other scopes, BP-35 specifies four
directories: the two halves of the scope, then the two halves of the ledger id. This program itself chose the
padding to eight digits and the file name. Directories of scope 0 have names of one or two digits, so they
cannot be confused with padded directories. The server scans only two levels of directories, so it finds no
file in the padded ones. This module also reads directories without the padding (``0/1/0/2/2.idx``). A
directory such as ``0/1`` can therefore contain indexes of scope 0 as well as directories of scope 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from auditor.model.ledger_id import MAX_LEDGER_ID, LedgerId

SCOPED_DIRECTORY_COUNT = 4
"""Number of nested directories below ``current`` that lead to an index file outside scope 0."""

_UINT64_MASK = 2**64 - 1
_FILE_NAME_PATTERN = re.compile(r"(0|[1-9a-f][0-9a-f]{0,15})\.idx")
_PADDED_NAME_PATTERN = re.compile(r"[0-9a-f]{8}")
_DIRECTORY_NAME_PATTERN = re.compile(r"0|[1-9a-f][0-9a-f]{0,7}|[0-9a-f]{8}")

_MAX_HEX_DIGITS = 16
_SLASH_VALUE, _NO_DIGIT_VALUE = 254, 255
_FILE_SUFFIX_BYTES = np.frombuffer(b".idx", np.uint8)
_VALUE_OF_BYTE = np.full(256, _NO_DIGIT_VALUE, np.uint8)
_VALUE_OF_BYTE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(_MAX_HEX_DIGITS)
_VALUE_OF_BYTE[ord("/")] = _SLASH_VALUE


def to_path(ledger_id: int) -> str:
    """Return the path of a ledger's index, relative to ``current``.

    Sorted and Interleaved ledger storage use such index files.

    >>> to_path(1), to_path(0x1234)
    ('0/1/1.idx', '12/34/1234.idx')
    """
    unsigned_id = ledger_id & _UINT64_MASK
    return f"{unsigned_id >> 8 & 0xFF:x}/{unsigned_id & 0xFF:x}/{unsigned_id:x}.idx"


def from_name(name: str) -> int | None:
    """Return the ledger id in the name of an index file, or None for any other name.

    Like the server, this function ignores the directories. To check them, compare the path with `to_path`.

    >>> from_name("1234.idx"), from_name("0001.idx"), from_name("notes.txt")
    (4660, None, None)
    """
    file_name_match = _FILE_NAME_PATTERN.fullmatch(name)
    if file_name_match is None:
        return None
    ledger_id = int(file_name_match[1], 16)
    return ledger_id if ledger_id <= MAX_LEDGER_ID else None


def ledger_ids(paths: list[bytes]) -> NDArray[np.int64]:
    """Return the ledger ids in the names of many index files; -1 for each name that `from_name` rejects.

    Every path must contain a "/" and have at least five bytes.

    >>> ledger_ids([b"/l0/12/34/1234.idx", b"/l0/0/1/0001.idx", b"/l0/0/notes"]).tolist()
    [4660, -1, -1]
    """
    path_bytes = np.frombuffer(b"".join(paths), np.uint8)
    path_ends = np.cumsum(np.fromiter(map(len, paths), np.int64, len(paths)))
    is_index = (path_bytes[path_ends[:, None] + np.arange(-4, 0)] == _FILE_SUFFIX_BYTES).all(axis=1)
    byte_values = _VALUE_OF_BYTE[path_bytes]
    digit_positions = path_ends - 5  # the last digit; the loop moves it to the byte before the first digit
    ids = np.zeros(len(paths), np.uint64)
    first_digits = np.full(len(paths), _NO_DIGIT_VALUE, np.uint8)
    digit_counts = np.zeros(len(paths), np.int64)
    for digit_number in range(_MAX_HEX_DIGITS):
        digit_values = byte_values[digit_positions]
        is_hex_digit = digit_values < _MAX_HEX_DIGITS
        if not is_hex_digit.any():
            break
        ids |= np.where(is_hex_digit, digit_values, 0).astype(np.uint64) << np.uint64(4 * digit_number)
        first_digits = np.where(is_hex_digit, digit_values, first_digits)
        digit_counts += is_hex_digit
        digit_positions -= is_hex_digit
    is_index &= (
        (byte_values[digit_positions] == _SLASH_VALUE)
        & (digit_counts > 0)
        & ((first_digits > 0) | (digit_counts == 1))
        & (ids <= MAX_LEDGER_ID)
    )
    return np.where(is_index, ids.view(np.int64), -1)


def scoped_ledger_to_path(ledger: LedgerId) -> str:
    """Return the index path of a ledger whose scope (upper half of the 128-bit id) is not 0.

    The path is relative to ``current``.

    >>> scoped_ledger_to_path(LedgerId(-2, scope=1))
    '00000000/00000001/ffffffff/fffffffe/fffffffffffffffe.idx'
    """
    name = ledger.qualified_name
    hex_groups = [name[group_start : group_start + 8] for group_start in range(0, 32, 8)]
    return "/".join([*hex_groups, f"{int(name[16:], 16):x}.idx"])


def scoped_ledger_paths(ledger: LedgerId) -> Iterator[str]:
    """Yield every path that the index of a ledger may have.

    The ledger's scope (upper half of the 128-bit id) is not 0. The path whose names are all padded with zeros
    comes first.

    >>> list(scoped_ledger_paths(LedgerId(2, scope=1)))[-1]
    '0/1/0/2/2.idx'
    """
    *directory_names, file_name = scoped_ledger_to_path(ledger).split("/")
    return (
        f"{directory}/{file_name}"
        for directory in directory_paths([int(directory, 16) for directory in directory_names])
    )


def directory_paths(directory_numbers: Sequence[int]) -> Iterator[str]:
    """Yield every way to write some numbers as a path of nested directories.

    Each number can be written with or without padding. The path with full padding comes first.

    >>> list(directory_paths([0xdeadbeef, 2]))
    ['deadbeef/00000002', 'deadbeef/2']
    """
    # A dict keeps the order and removes duplicates: a step of eight digits needs no padding.
    return map(
        "/".join, product(*(dict.fromkeys((f"{number:08x}", f"{number:x}")) for number in directory_numbers))
    )


def path_numbers(directory: str, name: str) -> tuple[int, ...] | None:
    """Return the numbers in the names of three nested directories.

    ``directory`` is the path of the first two directories. ``name`` is the name of the third. The result is
    None if a name is not a number. It is also None if the first two numbers are 0. They mean scope 0 (the
    upper half of the ledger's 128-bit id is 0). Indexes of scope 0 have no third directory.

    >>> path_numbers("0/1", "0"), path_numbers("0/0", "0"), path_numbers("0/1", "notes")
    ((0, 1, 0), None, None)
    """
    parsed_numbers = [number_of_directory(directory_name) for directory_name in (*directory.split("/"), name)]
    directory_numbers = tuple(number for number in parsed_numbers if number is not None)
    return (
        directory_numbers
        if len(directory_numbers) == len(parsed_numbers) and any(directory_numbers[:2])
        else None
    )


def is_scope_id_directory(name: str) -> bool:
    """Return whether ``name``, the name of a directory directly below ``current``, is padded.

    A directory with such a name contains only indexes of ledgers whose scope (upper half of a 128-bit id) is
    not 0.

    >>> is_scope_id_directory("00000000"), is_scope_id_directory("0"), is_scope_id_directory("locations")
    (True, False, False)
    """
    return _PADDED_NAME_PATTERN.fullmatch(name) is not None


def number_of_directory(name: str) -> int | None:
    """Return the number in a directory's name, or None if the name is not a number.

    The name may be padded to eight digits or not padded at all.

    >>> number_of_directory("0000001f"), number_of_directory("1f"), number_of_directory("01f")
    (31, 31, None)
    """
    return int(name, 16) if _DIRECTORY_NAME_PATTERN.fullmatch(name) else None


def ledger_of_directories(directory_numbers: Sequence[int]) -> LedgerId:
    """Return the ledger whose index path contains directories with these numbers.

    The first two numbers form the scope (upper half of the 128-bit id), the others the ledger id. If there
    are fewer than four numbers, 0 is used for each number that is absent at the end.

    >>> ledger_of_directories([0, 1, 0, 2])
    LedgerId(id=2, scope=1)
    >>> ledger_of_directories([0, 1])
    LedgerId(id=0, scope=1)
    """
    return LedgerId.parse("".join(f"{number:08x}" for number in directory_numbers).ljust(32, "0"))


def scoped_ledger_from_name(name: str) -> int | None:
    """Return the signed ledger id in the name of an index file, or None for any other name.

    The ledger may have any scope (upper half of a 128-bit id).

    >>> scoped_ledger_from_name("fffffffffffffffe.idx"), scoped_ledger_from_name("0002.idx")
    (-2, None)
    """
    file_name_match = _FILE_NAME_PATTERN.fullmatch(name)
    return None if file_name_match is None else LedgerId.parse(file_name_match[1].zfill(32)).id
