"""Fast parsing of many ledger paths at once, if the paths have the form that the server itself writes.

    hierarchical          dd/dddd/Ldddd               ids below 2^31 - 1
                          ddd/dddd/dddd/dddd/Ldddd    ids from 2^31 - 1 on
    legacy hierarchical   dd/dddd/Ldddd
    long hierarchical     ddd/dddd/dddd/dddd/Ldddd
    flat                  Ldddddddddd
    etcd                  ledgers/00000000-0000-0000-hhhh-hhhhhhhhhhhh

Each ``d`` is a decimal digit, each ``h`` a lower-case hexadecimal digit.
`auditor.keys.ledger_tree.classify` handles all other paths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.byte_column import TextColumn, have_prefix, read_windows
from auditor.keys.ledger_path import FIRST_LONG_ID
from auditor.model.ledger_id import LayoutKind

_SHORT_TEMPLATE, _LONG_TEMPLATE, _FLAT_TEMPLATE = "00/0000/L0000", "000/0000/0000/0000/L0000", "L0000000000"
_TEN_DIGIT_LIMIT = 10**10
_ID_LIMIT = 2**63 // _TEN_DIGIT_LIMIT * _TEN_DIGIT_LIMIT
"""Smallest id that this module leaves to `classify`.

An id with the same upper digits could exceed a Java long.
"""

_KEY_PREFIX = b"ledgers/00000000-0000-0000-"
_UUID_ENDING_LENGTH, _HYPHEN_POSITION = len("0000-000000000000"), 4
_HEX_DIGIT_VALUES = np.full(256, 0xFF, np.uint8)
_HEX_DIGIT_VALUES[list(b"0123456789abcdef")] = np.arange(16)

_TEMPLATES_BY_LAYOUT: dict[LayoutKind, tuple[tuple[str, int, int], ...]] = {
    LayoutKind.FLAT: ((_FLAT_TEMPLATE, 0, _TEN_DIGIT_LIMIT),),
    LayoutKind.LEGACY_HIERARCHICAL: ((_SHORT_TEMPLATE, 0, _TEN_DIGIT_LIMIT),),
    LayoutKind.HIERARCHICAL: (
        (_SHORT_TEMPLATE, 0, FIRST_LONG_ID),
        (_LONG_TEMPLATE, FIRST_LONG_ID, _ID_LIMIT),
    ),
    LayoutKind.LONG_HIERARCHICAL: ((_LONG_TEMPLATE, 0, _ID_LIMIT),),
}


def ledger_ids(layout_kind: LayoutKind, paths: Sequence[str], root_length: int) -> NDArray[np.int64]:
    """Return the ids of the ledgers at ``paths``; -1 for a path that has none of this module's forms.

    All these ledgers are in scope 0 (the upper half of their 128-bit ids is 0).

    Args:
        layout_kind: layout of the ledgers.
        paths: paths of znodes or keys.
        root_length: number of UTF-8 bytes to skip at the beginning of each path.

    >>> ledger_ids(LayoutKind.HIERARCHICAL, ["/bk/00/0000/L0042", "/bk/00/0000"], 4).tolist()
    [42, -1]
    """
    path_octets = TextColumn.from_values(paths).octets
    path_ids = np.full(len(path_octets), -1, np.int64)
    path_lengths = path_octets.ends - path_octets.starts - root_length
    if layout_kind is LayoutKind.ETCD:
        rows = np.flatnonzero(path_lengths == len(_KEY_PREFIX) + _UUID_ENDING_LENGTH)
        id_starts = path_octets.starts[rows] + root_length
        rows, id_starts = (
            row_array[have_prefix(path_octets.octets, id_starts, _KEY_PREFIX)]
            for row_array in (rows, id_starts)
        )
        path_ids[rows] = _numbers_of_hexadecimal(
            read_windows(path_octets.octets, id_starts + len(_KEY_PREFIX), _UUID_ENDING_LENGTH)
        )
        return path_ids
    for path_template, minimum_id, maximum_id in _TEMPLATES_BY_LAYOUT.get(layout_kind, ()):
        rows = np.flatnonzero(path_lengths == len(path_template))
        path_characters = read_windows(
            path_octets.octets, path_octets.starts[rows] + root_length, len(path_template)
        ).view(np.uint8)
        path_characters = path_characters.reshape(-1, len(path_template))
        is_digit = np.frombuffer(path_template.encode(), np.uint8) == ord("0")
        digits = path_characters[:, is_digit] - np.uint8(ord("0"))
        is_id = (digits <= 9).all(axis=1)
        is_id &= (
            path_characters[:, ~is_digit] == np.frombuffer(path_template.encode(), np.uint8)[~is_digit]
        ).all(axis=1)
        high_digits, low_digits = _numbers_of_digits(digits[:, :-10]), _numbers_of_digits(digits[:, -10:])
        is_id &= high_digits < _ID_LIMIT // _TEN_DIGIT_LIMIT
        ids = np.where(is_id, high_digits, 0) * _TEN_DIGIT_LIMIT + low_digits
        is_id &= (ids >= minimum_id) & (ids < maximum_id)
        path_ids[rows[is_id]] = ids[is_id]
    return path_ids


def _numbers_of_hexadecimal(uuid_endings: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the number that the last two groups of each UUID form.

    The number is -1 if a character is not a lower-case hexadecimal digit, or if the number exceeds a Java
    long.
    """
    path_characters = uuid_endings.view(np.uint8).reshape(-1, _UUID_ENDING_LENGTH)
    digits = _HEX_DIGIT_VALUES[np.delete(path_characters, _HYPHEN_POSITION, axis=1)]
    is_id = (
        (digits < 16).all(axis=1) & (digits[:, 0] < 8) & (path_characters[:, _HYPHEN_POSITION] == ord("-"))
    )
    ledger_id = np.zeros(len(digits), np.int64)
    for digit_column in np.where(is_id[:, None], digits, 0).T:
        ledger_id = ledger_id << 4 | digit_column
    return np.where(is_id, ledger_id, -1)


def _numbers_of_digits(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the number that the decimal digits in each row form. A row has at most ten digits."""
    decoded_numbers: NDArray[np.int64] = digits @ 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    return decoded_numbers
