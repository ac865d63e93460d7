"""The ledgers of many index files by their names, at once: what `auditor.keys.index_path.from_name` says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from auditor.keys.index_path import MAX_LEDGER_ID

_DIGITS = 16
_SLASH, _OTHER = 254, 255
_SUFFIX = np.frombuffer(b".idx", np.uint8)

_VALUES = np.full(256, _OTHER, np.uint8)
_VALUES[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(_DIGITS)
_VALUES[ord("/")] = _SLASH


def ledger_ids(paths: list[bytes]) -> NDArray[np.int64]:
    """The ledger of each file by the last step of its path, -1 where that is not an index file's name.

    Every path has at least one "/", and five bytes.

    >>> ledger_ids([b"/l0/12/34/1234.idx", b"/l0/0/1/0001.idx", b"/l0/0/notes"]).tolist()
    [4660, -1, -1]
    """
    octets = np.frombuffer(b"".join(paths), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, paths), np.int64, len(paths)))
    named = (octets[ends[:, None] + np.arange(-4, 0)] == _SUFFIX).all(axis=1)
    values = _VALUES[octets]
    at = ends - 5  # the last digit; it moves to the byte before the first
    ids = np.zeros(len(paths), np.uint64)
    leading = np.full(len(paths), _OTHER, np.uint8)
    digits = np.zeros(len(paths), np.int64)
    for step in range(_DIGITS):
        value = values[at]
        more = value < _DIGITS
        if not more.any():
            break
        ids |= np.where(more, value, 0).astype(np.uint64) << np.uint64(4 * step)
        leading = np.where(more, value, leading)
        digits += more
        at -= more
    named &= (values[at] == _SLASH) & (digits > 0) & ((leading > 0) | (digits == 1)) & (ids <= MAX_LEDGER_ID)
    return np.where(named, ids.view(np.int64), -1)
