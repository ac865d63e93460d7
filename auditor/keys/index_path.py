"""Paths of index files below ``current``: from a ledger's id to its path, and back.

    12/34/1234.idx                                  scope 0: the two lowest bytes, then the whole id
    00000000/00000001/00000000/00000002/2.idx       scope 1, ledger 2

Scope 0 follows BookKeeper's IndexPersistenceMgr, with unpadded lower-case hexadecimal digits. For other
scopes, BP-35 names four directories: the halves of the scope and those of the ledger. The padding to
eight digits and the file name are this program's choice. A padded directory cannot be one of scope 0,
which have one or two digits. The server's scan looks only two levels down, so it finds no file in the
padded directories. This module also reads directories without the padding (``0/1/0/2/2.idx``). So a
directory ``0/1`` can hold both indexes of scope 0 and directories of scope 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from auditor.model.ledger_id import MAX_LEDGER_ID, LedgerId

STEPS = 4
"""Number of directories between ``current`` and the index file of a ledger outside scope 0."""

_MASK = 2**64 - 1
_NAME = re.compile(r"(0|[1-9a-f][0-9a-f]{0,15})\.idx")
_TOP_DIRECTORY = re.compile(r"[0-9a-f]{8}")
_STEP_NAME = re.compile(r"0|[1-9a-f][0-9a-f]{0,7}|[0-9a-f]{8}")

_DIGITS = 16
_SLASH, _NO_DIGIT = 254, 255
_SUFFIX = np.frombuffer(b".idx", np.uint8)
_VALUE_OF_BYTE = np.full(256, _NO_DIGIT, np.uint8)
_VALUE_OF_BYTE[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(_DIGITS)
_VALUE_OF_BYTE[ord("/")] = _SLASH


def to_path(ledger_id: int) -> str:
    """Return the path of a ledger's index in Sorted and Interleaved storage, relative to ``current``.

    >>> to_path(1), to_path(0x1234)
    ('0/1/1.idx', '12/34/1234.idx')
    """
    unsigned_id = ledger_id & _MASK
    return f"{unsigned_id >> 8 & 0xFF:x}/{unsigned_id & 0xFF:x}/{unsigned_id:x}.idx"


def from_name(name: str) -> int | None:
    """Return the ledger of an index file by its name; None if the name cannot be that of an index file.

    Like the server, this function ignores the directories. To check them, compare the path with `to_path`.

    >>> from_name("1234.idx"), from_name("0001.idx"), from_name("notes.txt")
    (4660, None, None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    ledger_id = int(match[1], 16)
    return ledger_id if ledger_id <= MAX_LEDGER_ID else None


def ledger_ids(paths: list[bytes]) -> NDArray[np.int64]:
    """Return the ledgers of many index files by their names; -1 for a name that `from_name` rejects.

    Every path needs at least one "/" and five bytes.

    >>> ledger_ids([b"/l0/12/34/1234.idx", b"/l0/0/1/0001.idx", b"/l0/0/notes"]).tolist()
    [4660, -1, -1]
    """
    path_bytes = np.frombuffer(b"".join(paths), np.uint8)
    path_ends = np.cumsum(np.fromiter(map(len, paths), np.int64, len(paths)))
    is_index = (path_bytes[path_ends[:, None] + np.arange(-4, 0)] == _SUFFIX).all(axis=1)
    values = _VALUE_OF_BYTE[path_bytes]
    digit_positions = path_ends - 5  # the last digit; the loop moves it to the byte before the first digit
    ids = np.zeros(len(paths), np.uint64)
    first_digit = np.full(len(paths), _NO_DIGIT, np.uint8)
    digits = np.zeros(len(paths), np.int64)
    for step in range(_DIGITS):
        digit_values = values[digit_positions]
        is_digit = digit_values < _DIGITS
        if not is_digit.any():
            break
        ids |= np.where(is_digit, digit_values, 0).astype(np.uint64) << np.uint64(4 * step)
        first_digit = np.where(is_digit, digit_values, first_digit)
        digits += is_digit
        digit_positions -= is_digit
    is_index &= (
        (values[digit_positions] == _SLASH)
        & (digits > 0)
        & ((first_digit > 0) | (digits == 1))
        & (ids <= MAX_LEDGER_ID)
    )
    return np.where(is_index, ids.view(np.int64), -1)


def scoped_ledger_to_path(ledger: LedgerId) -> str:
    """Return the index path of a ledger outside scope 0, relative to ``current``.

    >>> scoped_ledger_to_path(LedgerId(-2, scope=1))
    '00000000/00000001/ffffffff/fffffffe/fffffffffffffffe.idx'
    """
    name = ledger.qualified_name
    hex_groups = [name[start : start + 8] for start in range(0, 32, 8)]
    return "/".join([*hex_groups, f"{int(name[16:], 16):x}.idx"])


def scoped_ledger_paths(ledger: LedgerId) -> Iterator[str]:
    """Yield every path of a ledger's index that this program reads, the fully padded one first.

    The ledger is outside scope 0.

    >>> list(scoped_ledger_paths(LedgerId(2, scope=1)))[-1]
    '0/1/0/2/2.idx'
    """
    *steps, file = scoped_ledger_to_path(ledger).split("/")
    return (f"{directory}/{file}" for directory in spellings([int(directory, 16) for directory in steps]))


def spellings(steps: Sequence[int]) -> Iterator[str]:
    """Yield all directory paths for some numbers, with and without padding, the fully padded one first.

    >>> list(spellings([0xdeadbeef, 2]))
    ['deadbeef/00000002', 'deadbeef/2']
    """
    # A dict keeps the order and removes duplicates: a step of eight digits needs no padding.
    return map("/".join, product(*(dict.fromkeys((f"{step:08x}", f"{step:x}")) for step in steps)))


def third_step(directory: str, name: str) -> tuple[int, ...] | None:
    """Return the numbers of three nested directories: the two in the path ``directory``, and ``name``.

    Return None if a name is not a number, or if the directories belong to scope 0.

    >>> third_step("0/1", "0"), third_step("0/0", "0"), third_step("0/1", "notes")
    ((0, 1, 0), None, None)
    """
    steps = [step(step_name) for step_name in (*directory.split("/"), name)]
    step_numbers = tuple(number for number in steps if number is not None)
    return step_numbers if len(step_numbers) == len(steps) and any(step_numbers[:2]) else None


def is_scope_id_directory(name: str) -> bool:
    """Return whether a directory in ``current`` has a padded name, and so leads to indexes outside scope 0.

    >>> is_scope_id_directory("00000000"), is_scope_id_directory("0"), is_scope_id_directory("locations")
    (True, False, False)
    """
    return _TOP_DIRECTORY.fullmatch(name) is not None


def step(name: str) -> int | None:
    """Return the number that a directory's name stands for, padded or not; None for any other name.

    >>> step("0000001f"), step("1f"), step("01f")
    (31, 31, None)
    """
    return int(name, 16) if _STEP_NAME.fullmatch(name) else None


def ledger_spelt(steps: Sequence[int]) -> LedgerId:
    """Return the ledger whose directories stand for these numbers. Missing directories count as 0.

    >>> ledger_spelt([0, 1, 0, 2])
    LedgerId(id=2, scope=1)
    >>> ledger_spelt([0, 1])
    LedgerId(id=0, scope=1)
    """
    return LedgerId.parse("".join(f"{number:08x}" for number in steps).ljust(32, "0"))


def scoped_ledger_from_name(name: str) -> int | None:
    """Return the signed ledger id in an index file's name, for any scope; None if it is no index file's name.

    >>> scoped_ledger_from_name("fffffffffffffffe.idx"), scoped_ledger_from_name("0002.idx")
    (-2, None)
    """
    match = _NAME.fullmatch(name)
    return None if match is None else LedgerId.parse(match[1].zfill(32)).id
