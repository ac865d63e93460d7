"""Vectorised parsing of ledger paths in their canonical form, as columns of digits.

    hierarchical   dd/dddd/Ldddd              legacy-hierarchical the same, hierarchical below 2^31 - 1
    long           ddd/dddd/dddd/dddd/Ldddd   hierarchical from 2^31 - 1 on
    flat           Ldddddddddd
    etcd           ledgers/00000000-0000-0000-hhhh-hhhhhhhhhhhh, lower-case hexadecimal digits

`auditor.keys.ledger_tree.classify` handles all other paths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.byte_column import TextColumn, have_prefix, windows
from auditor.keys.ledger_path import FIRST_LONG_ID
from auditor.model.ledger_id import LayoutKind

_SHORT_TEMPLATE, _LONG_TEMPLATE, _FLAT_TEMPLATE = "00/0000/L0000", "000/0000/0000/0000/L0000", "L0000000000"
_TEN_DIGITS = 10**10
_MAX_ID = 2**63 // _TEN_DIGITS * _TEN_DIGITS
"""Smallest id that this module leaves to `classify`. An id with the same upper digits could exceed a long."""

_KEY = b"ledgers/00000000-0000-0000-"
_HEX_LENGTH, _HYPHEN = len("0000-000000000000"), 4
_HEX_DIGITS = np.full(256, 0xFF, np.uint8)
_HEX_DIGITS[list(b"0123456789abcdef")] = np.arange(16)

_TEMPLATES: dict[LayoutKind, tuple[tuple[str, int, int], ...]] = {
    LayoutKind.FLAT: ((_FLAT_TEMPLATE, 0, _TEN_DIGITS),),
    LayoutKind.LEGACY_HIERARCHICAL: ((_SHORT_TEMPLATE, 0, _TEN_DIGITS),),
    LayoutKind.HIERARCHICAL: ((_SHORT_TEMPLATE, 0, FIRST_LONG_ID), (_LONG_TEMPLATE, FIRST_LONG_ID, _MAX_ID)),
    LayoutKind.LONG_HIERARCHICAL: ((_LONG_TEMPLATE, 0, _MAX_ID),),
}


def ledger_ids(layout_kind: LayoutKind, paths: Sequence[str], start: int) -> NDArray[np.int64]:
    """Return the ids of the ledgers of scope 0 at ``paths``; -1 for a path that is not in canonical form.

    Args:
        layout_kind: layout of the ledgers.
        paths: paths of znodes or keys.
        start: number of UTF-8 bytes to skip at the beginning of each path.

    >>> ledger_ids(LayoutKind.HIERARCHICAL, ["/bk/00/0000/L0042", "/bk/00/0000"], 4).tolist()
    [42, -1]
    """
    column = TextColumn.from_values(paths).octets
    path_ids = np.full(len(column), -1, np.int64)
    lengths = column.ends - column.starts - start
    if layout_kind is LayoutKind.ETCD:
        rows = np.flatnonzero(lengths == len(_KEY) + _HEX_LENGTH)
        starts = column.starts[rows] + start
        rows, starts = (array[have_prefix(column.octets, starts, _KEY)] for array in (rows, starts))
        path_ids[rows] = _hexadecimal(windows(column.octets, starts + len(_KEY), _HEX_LENGTH))
        return path_ids
    for template, minimum_id, end in _TEMPLATES.get(layout_kind, ()):
        rows = np.flatnonzero(lengths == len(template))
        characters = windows(column.octets, column.starts[rows] + start, len(template)).view(np.uint8)
        characters = characters.reshape(-1, len(template))
        is_digit = np.frombuffer(template.encode(), np.uint8) == ord("0")
        digits = characters[:, is_digit] - np.uint8(ord("0"))
        is_id = (digits <= 9).all(axis=1)
        is_id &= (characters[:, ~is_digit] == np.frombuffer(template.encode(), np.uint8)[~is_digit]).all(
            axis=1
        )
        high_digits, low_digits = _number(digits[:, :-10]), _number(digits[:, -10:])
        is_id &= high_digits < _MAX_ID // _TEN_DIGITS
        ids = np.where(is_id, high_digits, 0) * _TEN_DIGITS + low_digits
        is_id &= (ids >= minimum_id) & (ids < end)
        path_ids[rows[is_id]] = ids[is_id]
    return path_ids


def _hexadecimal(texts: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the numbers in the last two groups of UUIDs.

    A number is -1 if its groups have other characters than lower-case hexadecimal digits, or if it exceeds
    a long.
    """
    characters = texts.view(np.uint8).reshape(-1, _HEX_LENGTH)
    digits = _HEX_DIGITS[np.delete(characters, _HYPHEN, axis=1)]
    is_id = (digits < 16).all(axis=1) & (digits[:, 0] < 8) & (characters[:, _HYPHEN] == ord("-"))
    number = np.zeros(len(digits), np.int64)
    for digit in np.where(is_id[:, None], digits, 0).T:
        number = number << 4 | digit
    return np.where(is_id, number, -1)


def _number(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the number that the decimal digits in each row form. A row has at most ten digits."""
    number: NDArray[np.int64] = digits @ 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    return number
