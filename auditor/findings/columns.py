"""Columns of a run's tables as numpy arrays, so that millions of findings are compared as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.errors import RunError

Batches = Callable[[str, Sequence[str]], Iterable[Any]]
"""Record batches of a part of a run by its path there, always in the same order; the columns to read."""

_DIGITS = 16


def fingerprint_numbers(column: pa.Array) -> NDArray[np.uint64]:
    """Fingerprints of 16 hexadecimal digits as the numbers that they write.

    >>> import pyarrow
    >>> fingerprint_numbers(pyarrow.array(["00000000000000ff", "a000000000000000"])).tolist()
    [255, 11529215046068469760]

    Raises:
        RunError: something that is not a fingerprint.
    """
    try:
        fixed = column.cast(pa.binary()).cast(pa.binary(_DIGITS))
    except pa.ArrowException as error:
        raise RunError(f"not every fingerprint has {_DIGITS} digits: {error}") from error
    if fixed.null_count:
        raise RunError("a finding has no fingerprint")
    if not len(fixed):
        return np.empty(0, np.uint64)
    data = np.frombuffer(fixed.buffers()[1], np.uint8, _DIGITS * len(fixed), _DIGITS * fixed.offset)
    digits = data.reshape(-1, _DIGITS)
    if not np.all(((digits >= 48) & (digits < 58)) | ((digits >= 97) & (digits < 103))):
        raise RunError("a fingerprint has other digits than 0-9 and a-f")
    halves = np.where(digits < 58, digits - 48, digits - 87).astype(np.uint8)
    joined = np.ascontiguousarray(halves[:, 0::2] << 4 | halves[:, 1::2])
    return joined.view(">u8").ravel().astype(np.uint64)


def among(column: pa.Array, wanted: Sequence[str]) -> NDArray[np.bool_]:
    """Which values are among a few texts; null is not."""
    import pyarrow.compute as pc

    found: NDArray[np.bool_] = pc.is_in(column, pa.array(wanted, pa.string())).to_numpy(zero_copy_only=False)
    return found


def to_codes(column: pa.Array, codes: Mapping[str, int]) -> NDArray[np.int8]:
    """Texts as the small numbers that stand for them.

    Raises:
        RunError: a text that none stands for.
    """
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if encoded.null_count or not codes.keys() >= set(values):
        raise RunError(f"one of {values} is not among {', '.join(codes)}")
    numbers = np.array([codes[value] for value in values], np.int8)
    taken: NDArray[np.int8] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return taken


def whole(column: pa.Array) -> NDArray[np.int64]:
    """64-bit numbers; 0 for null."""
    numbers: NDArray[np.int64] = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def keys(*columns: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """One value of several numbers, to be sorted and found as one."""
    packed = np.ascontiguousarray(np.stack(columns, axis=1).astype(">i8"))
    return packed.view(f"S{8 * len(columns)}").ravel()


def find(ascending: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Where each value stands in a sorted array; -1 where it is not there.

    >>> find(np.array([3, 5, 9]), np.array([9, 4, 3])).tolist()
    [2, -1, 0]
    """
    if not len(ascending):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[place] == wanted, place, -1)
