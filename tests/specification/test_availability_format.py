"""BP-34: the condensed encoding of the entries of a ledger that a bookie has."""

from __future__ import annotations

import struct

import numpy as np

from auditor.codecs.availability.fold import fold
from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.striping import stripe
from auditor.codecs.availability.wire import (
    decode,
    encode,
    encode_unfolded,
    expand,
    groups_of_entries,
    holds_entries,
    missing_entries,
)
from auditor.codecs.bookie.wire import list_answer
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from tests.specification.sentences import sentence

EXAMPLE_1 = [1, 2, 4, 5, 7, 8, 10, 11]
EXAMPLE_2 = [1, 2, 3, 6, 7, 8, 11, 13, 16, 17, 18, 21, 22]


def groups(entries: list[int]) -> list[tuple[int, int, int, int]]:
    decoded_groups: list[tuple[int, int, int, int]] = decode(encode(groups_of_entries(entries))).tolist()
    return decoded_groups


@sentence("34-01")
def test_list_response_has_status_ledger_and_encoded_entries() -> None:
    value = encode(groups_of_entries(EXAMPLE_1))
    body = pb.GetListOfEntriesOfLedgerResponse(status=0, ledgerId=7, availabilityOfEntriesOfLedger=value)
    header = pb.ResponseHeader(version=pb.VERSION_THREE, operation=pb.GET_LIST_OF_ENTRIES_OF_LEDGER, txnId=1)
    message = pb.ListResponse(header=header, status=0, getListOfEntriesOfLedgerResponse=body)
    answer = list_answer(message.SerializeToString())
    assert (answer.status, answer.ledger_id, answer.availability) == (0, 7, value)


@sentence("34-02")
def test_consecutive_entries_are_one_sequence() -> None:
    assert groups([5, 6, 7]) == [(5, 5, 3, 0)]


@sentence("34-03")
def test_the_size_is_the_number_of_entries_of_a_sequence() -> None:
    assert [group[2] for group in groups([1, 10, 11, 20, 21, 22])] == [1, 2, 3]


@sentence("34-04")
def test_the_period_is_the_distance_between_starts_of_sequences() -> None:
    assert groups([0, 1, 7, 8])[0][3] == 7


@sentence("34-05")
def test_sequences_of_one_size_and_one_period_are_one_group() -> None:
    assert len(groups([0, 1, 5, 6, 10, 11])) == 1
    assert len(groups([0, 1, 5, 6, 11, 12])) == 2
    assert len(groups([0, 1, 5, 10, 11])) == 3


@sentence("34-06")
def test_the_first_number_is_the_first_entry_of_the_first_sequence() -> None:
    assert groups([3, 4, 8, 9, 13, 14])[0][0] == 3


@sentence("34-07")
def test_the_second_number_is_the_first_entry_of_the_last_sequence() -> None:
    assert groups([3, 4, 8, 9, 13, 14])[0][1] == 13


@sentence("34-08")
def test_groups_are_sorted_and_cover_exactly_the_entries() -> None:
    entries = [40, 0, 7, 6, 3, 100, 41]
    value = decode(encode(groups_of_entries(entries)))
    assert value["first_start"].tolist() == sorted(value["first_start"].tolist())
    assert expand(value).tolist() == sorted(entries)


@sentence("34-09")
def test_healthy_replica_is_one_group_of_write_quorum_per_ensemble_size() -> None:
    batch = stripe(*(np.array([number]) for number in (0, 299_999, 2, 5, 3)))
    assert fold(batch).groups().tolist() == [(0, 299_995, 3, 5)]


@sentence("34-10")
def test_the_first_example_is_one_group() -> None:
    assert groups(EXAMPLE_1) == [(1, 10, 2, 3)]


@sentence("34-11")
def test_the_second_example_is_four_groups() -> None:
    assert groups(EXAMPLE_2) == [(1, 6, 3, 5), (11, 13, 1, 2), (16, 16, 3, 0), (21, 21, 2, 0)]
    assert expand(missing_entries(groups_of_entries(EXAMPLE_2), groups_of_entries([11, 12, 13]))) == [12]


@sentence("34-12")
def test_a_group_is_two_longs_and_two_ints() -> None:
    value = encode(groups_of_entries(EXAMPLE_1))
    assert GROUP.itemsize == 24
    assert struct.unpack(">qqii", value[64:]) == (1, 10, 2, 3)


@sentence("34-13")
def test_groups_begin_after_64_bytes() -> None:
    for count, entries in enumerate(([], [1], [1, 3, 4])):
        assert len(encode(groups_of_entries(entries))) == 64 + 24 * count


@sentence("34-14")
def test_the_first_four_bytes_are_the_version() -> None:
    assert encode(groups_of_entries(EXAMPLE_1))[:4] == struct.pack(">i", 0)


@sentence("34-15")
def test_the_next_four_bytes_are_the_number_of_groups() -> None:
    assert encode(groups_of_entries(EXAMPLE_2))[4:8] == struct.pack(">i", 4)
    assert encode_unfolded(groups_of_entries(EXAMPLE_2))[4:8] == struct.pack(">i", 6)


@sentence("34-16")
def test_remaining_reserved_header_bytes_are_zero() -> None:
    assert encode(groups_of_entries(EXAMPLE_2))[8:64] == bytes(56)


@sentence("34-17")
def test_thousands_of_entries_need_fewer_bytes_than_an_array_of_bits() -> None:
    batch = stripe(*(np.array([number]) for number in (0, 9_999, 0, 3, 2)))
    folded = fold(batch).groups()
    assert len(encode(folded)) - 64 <= 48 < 10_000 // 8


@sentence("34-18")
def test_encoding_and_decoding_are_inverse() -> None:
    for entries in (EXAMPLE_1, EXAMPLE_2):
        expected_groups = groups_of_entries(entries)
        assert decode(encode(expected_groups)).tolist() == expected_groups.tolist()
        assert encode(decode(encode_unfolded(expected_groups))) == encode(expected_groups)


@sentence("34-19")
def test_encoding_cost_depends_on_groups_not_entries() -> None:
    trillion = np.array([(0, 3 * 10**12, 2, 3)], GROUP)
    # A loop over a trillion entries would not end.
    value = encode(trillion)
    lacking = missing_entries(decode(value), np.array([(0, 0, 2**31 - 1, 0)], GROUP))
    assert holds_entries(decode(value), [3 * 10**12, 3 * 10**12 + 2]).tolist() == [True, False]
    assert lacking.tolist() == [(2, 2**31 - 3, 1, 3)]
    assert len(value) == 64 + 24
