"""The address at which a client looks for a bookie."""

from __future__ import annotations

import gzip
import json

import pytest

from auditor.codecs.store import service_info
from auditor.codecs.store.service_info import Endpoint
from auditor.model.bookie_id import Address, NoAddressReason, Registration, UnresolvedBookie, resolve_address
from tests.codecs.metadata_vectors import Vector, vectors
from tests.model.cookie_cases import CORPORA, DATA, store_of

RPC = Endpoint("bookie", "10.0.0.1", 3181, "bookie-rpc")
HTTP = Endpoint("httpserver", "0.0.0.0", 8080, "http")


def no_address_reason(address: Address | UnresolvedBookie) -> NoAddressReason:
    assert isinstance(address, UnresolvedBookie)
    return address.reason_kind


@pytest.mark.parametrize("id", ["bookie-7", "bk1:3181"])
def test_registered_bookie_has_the_address_of_its_endpoint(id: str) -> None:
    assert resolve_address(id, Registration([HTTP, RPC])) == Address("10.0.0.1", 3181, is_from_id=False)


def test_first_bookie_rpc_endpoint_is_the_address() -> None:
    second = Endpoint("b", "10.0.0.2", 3182, "bookie-rpc")
    assert str(resolve_address("bk", Registration([second, RPC]))) == "10.0.0.2:3182"


def test_registration_without_data_has_the_address_in_the_id() -> None:
    assert resolve_address("bk1:3181", Registration(None)) == Address("bk1", 3181, is_from_id=True)
    assert no_address_reason(resolve_address("bookie-7", Registration(None))) == NoAddressReason.NO_ADDRESS


def test_registration_without_rpc_endpoint_has_no_address() -> None:
    assert no_address_reason(resolve_address("bk1:3181", Registration([]))) == NoAddressReason.NO_RPC_ENDPOINT
    address = resolve_address("bk1:3181", Registration([HTTP]))
    assert isinstance(address, UnresolvedBookie)
    assert address.reason == "bk1:3181 registered no bookie-rpc endpoint (endpoints: http)"


def test_unregistered_bookie_has_no_address_even_if_its_id_is_one() -> None:
    assert no_address_reason(resolve_address("bk1:3181", None)) == NoAddressReason.NOT_REGISTERED
    assert no_address_reason(resolve_address("bookie-7", None)) == NoAddressReason.NOT_REGISTERED


def test_id_with_port_zero_is_its_own_address() -> None:
    assert resolve_address("bk1:0", None) == Address("bk1", 0, is_from_id=True)
    assert resolve_address("bk1:0", Registration(None, damage="cut")) == Address("bk1", 0, is_from_id=True)
    assert no_address_reason(resolve_address("a:b:0", None)) == NoAddressReason.NO_ADDRESS
    assert str(resolve_address("bk1:0", Registration([RPC]))) == "10.0.0.1:3181"


def test_unreadable_registration_has_no_address() -> None:
    address = resolve_address("bk1:3181", Registration(None, damage="cut at byte 3"))
    assert no_address_reason(address) == NoAddressReason.UNREADABLE
    assert isinstance(address, UnresolvedBookie)
    assert "cut at byte 3" in address.reason


@pytest.mark.parametrize(
    "registered", [None, Registration(None), Registration([RPC]), Registration([], "cut")]
)
def test_client_without_registrations_takes_the_address_from_the_id(registered: Registration | None) -> None:
    address = resolve_address("bk1:3181", registered, reads_registrations=False)
    assert address == Address("bk1", 3181, is_from_id=True)
    assert (
        no_address_reason(resolve_address("bookie-7", registered, reads_registrations=False))
        == NoAddressReason.NO_ADDRESS
    )


@pytest.mark.parametrize("vector", vectors("socketAddresses"), ids=lambda vector: repr(vector["text"]))
def test_id_is_parsed_as_an_address_as_in_java(vector: Vector) -> None:
    address = resolve_address(vector["text"], None, reads_registrations=False)
    if "host" in vector:
        assert address == Address(vector["host"], vector["port"], is_from_id=True)
    else:
        assert no_address_reason(address) == NoAddressReason.NO_ADDRESS


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_corpus_bookie_has_the_address_that_the_server_reported(corpus: str) -> None:
    oracle = json.loads(gzip.decompress((DATA / corpus / "oracle.json.gz").read_bytes()))
    for id, bookie_info in oracle["registration"]["bookieServiceInfo"].items():
        data = store_of(corpus)[2][id]
        address = resolve_address(id, Registration(service_info.decode(data, id).endpoints if data else None))
        [rpc] = [end for end in bookie_info["endpoints"] if end["protocol"] == "bookie-rpc"]
        assert address == Address(rpc["host"], rpc["port"], is_from_id=not data)
