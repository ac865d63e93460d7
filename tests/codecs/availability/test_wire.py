"""BP-34 values: the proposal's examples, values that a 4.17.2 server wrote, and every kind of damage."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GROUP, HEADER_STRUCT, GroupBatch, Groups
from auditor.codecs.availability.wire import (
    decode,
    encode,
    encode_unfolded,
    expand,
    groups_of_entries,
    holds_entries,
    missing_entries,
)
from auditor.errors import CoverageLimitError, DecodeError
from tests.codecs.bp34_vectors import bytes_of, entries_of, vectors
from tests.codecs.scalar import Group, greedy, packed, runs_of_entries
from tests.codecs.strategies import entry_sets, ragged_groups

ZEROS = "00" * 56
GOLDEN = {
    "nothing": ([], f"00000000 00000000 {ZEROS}"),
    "the proposal's first example": (
        [1, 2, 4, 5, 7, 8, 10, 11],
        f"00000000 00000001 {ZEROS} 0000000000000001 000000000000000a 00000002 00000003",
    ),
    "the proposal's second example": (
        [1, 2, 3, 6, 7, 8, 11, 13, 16, 17, 18, 21, 22],
        f"00000000 00000004 {ZEROS} 0000000000000001 0000000000000006 00000003 00000005"
        "000000000000000b 000000000000000d 00000001 00000002"
        "0000000000000010 0000000000000010 00000003 00000000"
        "0000000000000015 0000000000000015 00000002 00000000",
    ),
}
SERVER_SETS = vectors("availability")
DECODED = vectors("availabilityDecode")
# With one group alone, "same-first" and "overlapping" have nothing to collide with and are good values.
ACCEPTED = {"good", "reserved-set", "same-first", "overlapping"}
REFUSED_ONLY_BY_US = {
    "version-negative",
    "count-negative",
    "count-too-small",
    "trailing-bytes",
    "period-negative",
    "size-0",
    "size-negative",
    "overlapping",
    "same-first",
    "last-before-first",
    "last-not-on-period",
    "random-bytes",
}


def record(*groups: Group) -> bytes:
    return HEADER_STRUCT.pack(0, len(groups)) + packed(groups)


@pytest.mark.parametrize(("entries", "golden"), GOLDEN.values(), ids=GOLDEN.keys())
def test_encoder_writes_the_bytes_of_the_proposal(entries: list[int], golden: str) -> None:
    assert encode(groups_of_entries(entries)) == bytes.fromhex(golden)
    assert decode(bytes.fromhex(golden), mode="java").total == len(entries)


def test_unfolded_encoding_matches_the_server_byte_for_byte() -> None:
    """Only sets are compared; tests of the server's class cover order, repetition and -1 in its writer."""
    compared: Counter[str] = Counter()
    for vector in SERVER_SETS:
        entries = entries_of(vector)
        if -1 in entries or vector["kind"] in ("unsorted", "descending"):
            continue
        assert encode_unfolded(groups_of_entries(sorted(set(entries)))) == bytes_of(vector), vector["kind"]
        compared[vector["kind"]] += 1
    assert set(compared) == {vector["kind"] for vector in SERVER_SETS} - {"unsorted", "descending"}


def test_strict_decoding_reads_server_values_and_refuses_negative_entries() -> None:
    for vector in SERVER_SETS:
        if -1 in entries_of(vector):
            continue
        entries = sorted(set(entries_of(vector)))
        if entries and entries[0] < 0:
            # The server's writer takes any number; no entry has one below 0.
            with pytest.raises(DecodeError, match="begins below entry 0") as refused:
                decode(bytes_of(vector))
            assert refused.value.offset == HEADER_STRUCT.size
            continue
        groups = decode(bytes_of(vector))
        assert expand(groups).tolist() == entries
        assert encode(groups) == HEADER_STRUCT.pack(0, len(greedy(runs_of_entries(entries)))) + packed(
            greedy(runs_of_entries(entries))
        )


def test_strict_decoding_matches_the_server_or_refuses_damage() -> None:
    verdicts: Counter[tuple[str, str]] = Counter()
    for vector in DECODED:
        try:
            groups = decode(bytes_of(vector))
        except DecodeError:
            verdicts[vector["kind"], "both refuse" if "error" in vector else "only we refuse"] += 1
            continue
        entries = expand(groups).tolist()
        assert len(entries) == vector["total"]
        assert [entry for entry in entries if entry < 160] == vector["availableBelow160"]
        assert all((entry in entries) == answer for entry, answer in vector["isEntryAvailable"])
        if "query" in vector:
            query = vector["query"]["wanted"]
            assert [entry for entry in query if entry not in entries] == vector["query"]["unavailableExact"]
        verdicts[vector["kind"], "both accept"] += 1
    assert {kind for kind, verdict in verdicts if verdict == "both accept"} == ACCEPTED
    assert {kind for kind, verdict in verdicts if verdict == "only we refuse"} == REFUSED_ONLY_BY_US


def folded(groups: list[Group]) -> Groups:
    return fold(GroupBatch.from_tuples([groups])).groups()


@given(st.one_of(entry_sets.map(groups_of_entries), ragged_groups().map(folded)))
def test_decoding_and_encoding_again_gives_the_same_bytes(groups: Groups) -> None:
    value = encode(groups)
    assert encode(decode(value)) == value


@given(entry_sets)
def test_entries_are_read_back_from_folded_and_unfolded_values(entries: list[int]) -> None:
    for value in (encode(groups_of_entries(entries)), encode_unfolded(groups_of_entries(entries))):
        assert expand(decode(value)).tolist() == entries
        assert decode(value, mode="java").total == len(entries)


@given(entry_sets.filter(bool), st.data())
def test_truncated_record_is_refused_with_an_offset_inside(entries: list[int], data: st.DataObject) -> None:
    value = encode(groups_of_entries(entries))
    with pytest.raises(DecodeError) as damage:
        decode(value[: data.draw(st.integers(0, len(value) - 1))])
    assert 0 <= damage.value.offset < len(value)


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(b"", 0, id="nothing at all"),
        pytest.param(bytes(63), 63, id="a short header"),
        pytest.param(HEADER_STRUCT.pack(1, 0), 0, id="a newer version"),
        pytest.param(HEADER_STRUCT.pack(-1, 0), 0, id="a negative version"),
        pytest.param(HEADER_STRUCT.pack(0, -1), 4, id="a negative count"),
        pytest.param(HEADER_STRUCT.pack(0, 0) + b"\0", 4, id="bytes after the last group"),
        pytest.param(HEADER_STRUCT.pack(0, 2) + packed([(0, 0, 1, 0)]), 4, id="fewer groups than promised"),
        pytest.param(record((9, 1, 2, 3)), 64, id="ends before it starts"),
        pytest.param(record((-1, -1, 1, 0)), 64, id="begins below entry 0"),
        pytest.param(record((-6, 0, 1, 3), (4, 4, 1, 0)), 64, id="begins below entry 0 and repeats"),
        pytest.param(record((1, 9, 2, 0)), 64, id="repeats without a period"),
        pytest.param(record((1, 9, 2, -4)), 64, id="repeats backwards"),
        pytest.param(record((1, 9, 5, 4)), 64, id="overlaps itself"),
        pytest.param(record((1, 9, 2, 3)), 64, id="does not end on a run"),
        pytest.param(record((1, 1, 2, 3)), 64, id="a period for one run"),
        pytest.param(record((1, 1, 0, 0)), 64, id="holds nothing"),
        pytest.param(record((1, 1, -1, 0)), 64, id="holds less than nothing"),
        pytest.param(record((2**63 - 1, 2**63 - 1, 2, 0)), 64, id="beyond the largest entry id"),
        pytest.param(record((-(2**63), 2**63 - 2, 1, 2)), 64, id="a span beyond 64 bits"),
        pytest.param(record((1, 1, 2, 0), (2, 2, 5, 0)), 88, id="groups overlap"),
        pytest.param(record((0, 8, 1, 4), (2, 10, 1, 4)), 88, id="groups interleave"),
        pytest.param(record((5, 5, 1, 0), (9, 9, 1, 0), (1, 1, 1, 0)), 112, id="groups out of order"),
    ],
)
def test_record_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged)
    assert (damage.value.what, damage.value.offset) == ("availability", offset)


def test_reserved_bytes_are_ignored() -> None:
    assert decode(HEADER_STRUCT.pack(0, 1)[:8] + bytes(range(56)) + packed([(3, 3, 1, 0)])).tolist() == [
        (3, 3, 1, 0)
    ]


def test_expanding_a_value_with_too_many_entries_is_refused() -> None:
    endless = np.array([(0, 2**40, 1, 2)], GROUP)
    for write_out in (expand, encode_unfolded):
        with pytest.raises(CoverageLimitError):
            write_out(endless)
    with pytest.raises(CoverageLimitError):
        expand(np.array([(0, 0, 2**31 - 1, 0)], GROUP))


@given(entry_sets.map(groups_of_entries), st.lists(st.integers(0, 400)))
def test_membership_and_missing_entries_agree_with_the_listed_entries(
    groups: Groups, wanted: list[int]
) -> None:
    entries = set(expand(groups).tolist())
    assert holds_entries(groups, wanted).tolist() == [entry in entries for entry in wanted]
    missing = expand(missing_entries(groups, groups_of_entries(wanted))).tolist()
    assert missing == sorted({*wanted} - entries)


LONGEST = 2**31 - 1


@pytest.mark.parametrize("length", [LONGEST, LONGEST + 1, 2 * LONGEST, 2 * LONGEST + 5])
def test_only_runs_longer_than_an_int32_are_split_into_touching_groups(length: int) -> None:
    groups = folded([(7, 7, length, 0), (10 + length, 10 + length, 4, 0)])
    starts = range(7, 7 + length, LONGEST)
    pieces = [(start, start, min(LONGEST, 7 + length - start), 0) for start in starts]
    assert decode(encode(groups)).tolist() == [*pieces, (10 + length, 10 + length, 4, 0)]
    assert encode_unfolded(groups) == encode(groups)
    assert holds_entries(groups, [6, 7, 6 + length, 7 + length, 10 + length]).tolist() == [
        *(False, True, True, False, True)
    ]
