"""Service info as a 4.17.2 bookie registers it, empty service info, and damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.codecs.store.service_info import Endpoint, ServiceInfo, decode
from auditor.errors import DecodeError, RuleError
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import mutations

GOLDEN = bytes.fromhex(
    "322d0a06626f6f6b696510ed181a096c6f63616c686f7374220a626f6f6b69652d7270632a03746c73320178320179"
    "321f0a0b687474702d73657276657210903f1a07302e302e302e302204687474703a0d0a0474657374120576616c75"
    "65"
)
BOOKIE = Endpoint("bookie", "localhost", 3181, "bookie-rpc", ("tls",), ("x", "y"))


def test_service_info_of_a_server_is_decoded() -> None:
    info = decode(GOLDEN, "bk1:3181")
    assert info == ServiceInfo((BOOKIE, Endpoint("http-server", "0.0.0.0", 8080, "http")), {"test": "value"})


def test_empty_service_info_takes_the_address_from_the_bookie_id() -> None:
    assert decode(b"", "bk1:3181").endpoints == (Endpoint("bk1:3181", "bk1", 3181, "bookie-rpc"),)


def test_empty_service_info_with_a_custom_id_has_no_endpoint() -> None:
    with pytest.raises(RuleError) as refused:
        decode(b"", "bookie-7")
    assert refused.value.rule == "endpoint-missing"


endpoints = st.builds(
    Endpoint,
    st.text(),
    st.text(),
    st.integers(-(2**31), 2**31 - 1),
    st.text(),
    st.lists(st.text(), max_size=2).map(tuple),
    st.lists(st.text(), max_size=2).map(tuple),
)


@given(st.lists(endpoints, min_size=1, max_size=3), st.dictionaries(st.text(), st.text(), max_size=3))
def test_written_service_info_is_read_back(offered: list[Endpoint], properties: dict[str, str]) -> None:
    message = BookieServiceInfoFormat(properties=properties)
    for endpoint in offered:
        message.endpoints.add(
            id=endpoint.id,
            port=endpoint.port,
            host=endpoint.host,
            protocol=endpoint.protocol,
            auth=endpoint.auth,
            extensions=endpoint.extensions,
        )
    assert decode(message.SerializeToString(), "b") == ServiceInfo(tuple(offered), properties)


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(GOLDEN[:30], 0, id="an endpoint cut short"),
        pytest.param(GOLDEN[:90], 80, id="a property cut short"),
        pytest.param(GOLDEN + b"\x07", 95, id="a field that is none"),
        pytest.param(bytes.fromhex("3203 0a0161"), 5, id="an endpoint without a port"),
        # The server's Java refuses these two as well, and takes such a text everywhere but in a map.
        pytest.param(bytes.fromhex("3a06 0a01f4 120162"), 2, id="a property's name that is not UTF-8"),
        pytest.param(bytes.fromhex("3a06 0a0161 1201f4"), 5, id="a property's value that is not UTF-8"),
    ],
)
def test_service_info_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged, "bk1:3181")
    assert damage.value.offset == offset


@given(st.one_of(st.binary(min_size=1, max_size=40), mutations(GOLDEN).filter(bool)))
def test_damaged_service_info_raises_only_typed_errors(damaged: bytes) -> None:
    refused = refusal(lambda data: decode(data, "bookie-7"), damaged)
    assert points_within(refused, damaged)
    if refused is None:
        properties = decode(damaged, "bookie-7").properties
        assert all(isinstance(text, str) for pair in properties.items() for text in pair)


def test_invalid_utf8_text_is_reported_before_a_later_cut() -> None:
    with pytest.raises(DecodeError, match="a text in a map is not UTF-8") as damage:
        decode(bytes.fromhex("3a06 0a01f4 120162 07"), "bk1:3181")
    assert damage.value.offset == 2
