"""Marks, locks, votes and check times as 4.17.2 servers write them, and damage."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.protobuf.pb.underreplication_pb2 import UnderreplicatedLedgerFormat
from auditor.codecs.store import underreplication as codec
from auditor.codecs.store.underreplication import Mark, ReplicationLayout
from auditor.errors import DecodeError
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import int64s, mutations

MARK = b'replica: "bk_custom"\nreplica: "127.0.0.1:3182"\nctime: 1795237164694\n'
LAYOUT = bytes.fromhex("747970653a20224241534943220a76657273696f6e3a20310a")
TIME = bytes.fromhex("088080babbc82e")
TEXTS: list[Callable[[bytes], object]] = [
    codec.decode_mark,
    codec.decode_lock,
    codec.decode_vote,
    codec.decode_layout,
]
TIMES: list[Callable[[bytes], int | None]] = [
    codec.decode_check_all_ledgers_time,
    codec.decode_placement_policy_check_time,
    codec.decode_replicas_check_time,
]


def test_marks_of_servers_are_decoded() -> None:
    mark = b'replica: "127.0.0.1:3181"\nctime: 1795237164639\n'
    assert codec.decode_mark(mark) == Mark(("127.0.0.1:3181",), 1795237164639)
    assert codec.decode_mark(MARK) == Mark(("bk_custom", "127.0.0.1:3182"), 1795237164694)


def test_empty_mark_has_no_replica_and_no_time() -> None:
    assert codec.decode_mark(b"") == Mark((), None)


def test_empty_lock_or_vote_names_no_bookie() -> None:
    assert codec.decode_lock(b'bookieId: "localhost"\n') == "localhost"
    assert codec.decode_lock(b"") is None
    assert codec.decode_vote(b"") is None


def test_layout_of_marks_is_decoded() -> None:
    assert codec.decode_layout(LAYOUT) == ReplicationLayout("BASIC", 1)


def test_znodes_of_an_auditor_are_decoded_as_the_server_decodes_them() -> None:
    home = Path(__file__).parents[2] / "data" / "auditor-4.17.2"
    oracle = json.loads(gzip.decompress((home / "oracle.json.gz").read_bytes()))
    lines = map(json.loads, gzip.decompress((home / "znodes.jsonl.gz").read_bytes()).splitlines())
    znodes = {
        node["path"].removeprefix("/ledgers/underreplication/"): b64decode(node["data"]) for node in lines
    }
    for path, data in znodes.items():
        if path.startswith("ledgers/0") and data:
            mark = oracle["marks"][path.rpartition("/urL")[2].lstrip("0")]
            assert codec.decode_mark(data) == Mark((*mark["replicas"],), mark["ctime"])
    assert codec.decode_lock(znodes["locks/urL0000000005"]) == oracle["worker"]
    assert codec.decode_vote(znodes["auditorelection"]) == oracle["auditor"]
    votes = [codec.decode_vote(data) for path, data in sorted(znodes.items()) if "/V_" in path]
    assert votes == [oracle["auditor"], "bk-2.rack"]
    assert codec.decode_layout(znodes["LAYOUT"]) == ReplicationLayout("BASIC", 1)
    names = ("checkallledgersctime", "placementpolicycheckctime", "replicascheckctime")
    assert [decode(znodes[name]) for decode, name in zip(TIMES, names, strict=True)] == oracle["times"]


@pytest.mark.parametrize("decode", TIMES)
def test_check_times_are_decoded_and_an_empty_value_is_none(decode: Callable[[bytes], int | None]) -> None:
    assert decode(TIME) == 1600000000000
    assert decode(b"") is None


@given(st.lists(st.text()), st.one_of(st.none(), int64s))
def test_written_mark_is_read_back(replicas: list[str], ctime: int | None) -> None:
    text = text_format.MessageToString(UnderreplicatedLedgerFormat(replica=replicas, ctime=ctime))
    assert codec.decode_mark(text.encode()) == Mark(tuple(replicas), ctime)


@pytest.mark.parametrize(
    ("decode", "damaged", "offset"),
    [
        pytest.param(codec.decode_mark, MARK[:12], 9, id="a mark cut in a string"),
        pytest.param(codec.decode_mark, TIME, 0, id="a mark that is binary"),
        pytest.param(codec.decode_lock, b"host-a", 0, id="a lock that is a bare name"),
        pytest.param(codec.decode_layout, b'type: "BASIC"', 13, id="a layout without a version"),
        pytest.param(codec.decode_replicas_check_time, TIME[:4], 0, id="a time cut short"),
        pytest.param(codec.decode_replicas_check_time, b"1600000", 0, id="a time that is text"),
    ],
)
def test_underreplication_damage_is_refused_with_its_offset(
    decode: Callable[[bytes], object], damaged: bytes, offset: int
) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged)
    assert damage.value.offset == offset


@given(
    st.sampled_from([*TEXTS, *TIMES]),
    st.one_of(st.binary(max_size=40), st.sampled_from([MARK, LAYOUT, TIME]).flatmap(mutations)),
)
def test_damaged_underreplication_values_raise_only_typed_errors(
    decode: Callable[[bytes], object], damaged: bytes
) -> None:
    assert points_within(refusal(decode, damaged), damaged)
