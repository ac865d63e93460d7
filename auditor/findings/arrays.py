"""Columns of a run's tables as NumPy arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.errors import RunError

_DIGEST_DIGITS = 16


def fingerprint_numbers(column: pa.Array) -> NDArray[np.uint64]:
    """Return fingerprints, which have 16 hexadecimal digits, as numbers.

    >>> import pyarrow
    >>> fingerprint_numbers(pyarrow.array(["00000000000000ff", "a000000000000000"])).tolist()
    [255, 11529215046068469760]

    Raises:
        RunError: A value is not a fingerprint.
    """
    try:
        digit_bytes = column.cast(pa.binary()).cast(pa.binary(_DIGEST_DIGITS))
    except pa.ArrowException as error:
        raise RunError(f"not every fingerprint has {_DIGEST_DIGITS} digits: {error}") from error
    if digit_bytes.null_count:
        raise RunError("a finding has no fingerprint")
    if not len(digit_bytes):
        return np.empty(0, np.uint64)
    byte_values = np.frombuffer(
        digit_bytes.buffers()[1],
        np.uint8,
        _DIGEST_DIGITS * len(digit_bytes),
        _DIGEST_DIGITS * digit_bytes.offset,
    )
    digits = byte_values.reshape(-1, _DIGEST_DIGITS)
    if not np.all(((digits >= 48) & (digits < 58)) | ((digits >= 97) & (digits < 103))):
        raise RunError("a fingerprint has characters other than 0-9 and a-f")
    digit_values = np.where(digits < 58, digits - 48, digits - 87).astype(np.uint8)
    digest_bytes = np.ascontiguousarray(digit_values[:, 0::2] << 4 | digit_values[:, 1::2])
    return digest_bytes.view(">u8").ravel().astype(np.uint64)


def is_among_texts(column: pa.Array, texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return, for each value of a column, whether it is in ``texts``. The result is False for null."""
    is_among: NDArray[np.bool_] = pc.is_in(column, pa.array(texts, pa.string())).to_numpy(
        zero_copy_only=False
    )
    return is_among


def to_codes(column: pa.Array, codes: Mapping[str, int]) -> NDArray[np.int8]:
    """Return, for each text of a column, the text's code in ``codes``.

    Raises:
        RunError: A text has no code.
    """
    dictionary_column = column.dictionary_encode()
    values = dictionary_column.dictionary.to_pylist()
    if dictionary_column.null_count or not codes.keys() >= set(values):
        raise RunError(f"the column has {values}, but only {', '.join(codes)} are allowed")
    code_numbers = np.array([codes[value] for value in values], np.int8)
    row_codes: NDArray[np.int8] = code_numbers[dictionary_column.indices.to_numpy(zero_copy_only=False)]
    return row_codes


def to_whole_numbers(column: pa.Array) -> NDArray[np.int64]:
    """Return a column of whole numbers as 64-bit numbers; null becomes 0."""
    whole_numbers: NDArray[np.int64] = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return whole_numbers


def to_flags(column: pa.Array) -> NDArray[np.bool_]:
    """Return a column as booleans; null becomes False."""
    values: NDArray[np.bool_] = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return values


def pack_row_keys(*columns: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """Pack the numbers of each row into one value, so that `find_positions` can search for whole rows."""
    byte_rows = np.ascontiguousarray(np.stack(columns, axis=1).astype(">i8"))
    return byte_rows.view(f"S{8 * len(columns)}").ravel()


def find_positions(sorted_values: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each value in a sorted array; -1 if it is absent.

    >>> find_positions(np.array([3, 5, 9]), np.array([9, 4, 3])).tolist()
    [2, -1, 0]
    """
    if not len(sorted_values):
        return np.full(len(values), -1, np.int64)
    found_positions = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.where(sorted_values[found_positions] == values, found_positions, -1)
