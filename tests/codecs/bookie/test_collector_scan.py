"""Garbage collector scans of damaged records, compared with the answers of the real classes."""

from __future__ import annotations

import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.collector_scan import MAX_SAFE_LEDGER_BYTES, scan_log
from auditor.codecs.bookie.entry_log import decode_unchecked_header
from auditor.codecs.bookie.entry_log_records import extract_ledgers
from tests.codecs.bookie.collector_scan_oracle import damaged_records
from tests.codecs.bookie.entry_log_oracle import DIRECT, Case, sound_log
from tests.codecs.entry_logs import Entry, header, log, record

ORACLE_BUFFER = 1 << 20
"""What the oracle's direct logger reads at once."""
CASES = damaged_records()
LOGS = {name: sound_log(name) for name in {case.log for case in CASES}}


def collected(case: Case) -> tuple[dict[int, int] | None, str]:
    """Return the ledgers that a case's collector finds in its log, or None if it fails; and the method."""
    data, direct = case.data(LOGS[case.log]), case.logger == DIRECT

    def read_at(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    by_map = extract_ledgers(read_at, len(data), decode_unchecked_header(data), direct, 512)
    if by_map is not None:
        return by_map, "map"
    scan = scan_log(read_at, len(data), direct, ORACLE_BUFFER)
    return (None, "scan") if scan is None else (scan.ledger_sums(), "may fail" if scan.may_fail else "scan")


def test_model_matches_the_real_collector_on_1000_damaged_logs() -> None:
    outcomes: Counter[tuple[str, str]] = Counter()
    for case in CASES:
        sums, source = collected(case)
        failed = isinstance(case.collector, str)
        if failed:
            assert sums is None or source == "may fail", case
        else:
            assert sums == dict(case.collector), case
        outcomes[case.logger, "fails" if failed else source] += 1
    assert sum(outcomes.values()) >= 1000
    assert min(outcomes.values()) >= 50, outcomes


SIZES = {"negative": -1, "zero": 0, "beyond the file": 500, "far beyond the file": MAX_SAFE_LEDGER_BYTES + 1}


@pytest.mark.parametrize("size", list(SIZES))
def test_record_with_a_wrong_size_is_not_collected(size: str) -> None:
    entries: list[Entry] = [(5, 0, 0), (7, 0, 0), (9, 0, 0)]
    data = bytearray(log(entries, closed=False))
    data[1044:1048] = struct.pack(">i", SIZES[size])
    scan = scan_log(lambda offset, length: bytes(data[offset : offset + length]), len(data), is_direct=False)
    assert scan is not None
    # Behind a size that is negative or 0 each byte is looked at, and the next record is met again.
    assert scan.contains(np.array([1024, 1044, 1064])).tolist() == [True, False, SIZES[size] <= 0]
    assert 7 not in scan.ledger_sums()
    assert scan.may_fail == (size == "far beyond the file")


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 99), st.integers(0, 300)), max_size=20),
    st.integers(0, 40),
)
def test_scan_finds_all_whole_records_of_a_sound_or_truncated_log(entries: list[Entry], cut: int) -> None:
    full_log = header() + b"".join(record(*entry) for entry in entries)
    data = full_log[: max(1024, len(full_log) - cut)]
    scan = scan_log(lambda offset, length: data[offset : offset + length], len(data), is_direct=False)
    assert scan is not None
    ends, offset = [], 1024
    for _, _, payload in entries:
        offset += 20 + payload
        ends.append(offset)
    assert (scan.offsets + scan.sizes).tolist() == [end for end in ends if end <= len(data)]
