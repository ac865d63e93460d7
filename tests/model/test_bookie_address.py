"""Where a client looks for a bookie."""

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


def why(found: Address | UnresolvedBookie) -> NoAddressReason:
    assert isinstance(found, UnresolvedBookie)
    return found.reason_kind


@pytest.mark.parametrize("id", ["bookie-7", "bk1:3181"])
def test_a_registered_bookie_is_at_its_endpoint(id: str) -> None:
    assert resolve_address(id, Registration([HTTP, RPC])) == Address("10.0.0.1", 3181, is_from_id=False)


def test_the_first_endpoint_of_the_protocol_counts() -> None:
    second = Endpoint("b", "10.0.0.2", 3182, "bookie-rpc")
    assert str(resolve_address("bk", Registration([second, RPC]))) == "10.0.0.2:3182"


def test_without_data_the_id_is_the_address() -> None:
    assert resolve_address("bk1:3181", Registration(None)) == Address("bk1", 3181, is_from_id=True)
    assert why(resolve_address("bookie-7", Registration(None))) == NoAddressReason.NO_ADDRESS


def test_without_an_endpoint_of_the_protocol_it_is_nowhere() -> None:
    assert why(resolve_address("bk1:3181", Registration([]))) == NoAddressReason.NO_RPC_ENDPOINT
    found = resolve_address("bk1:3181", Registration([HTTP]))
    assert isinstance(found, UnresolvedBookie)
    assert found.reason == "bk1:3181 registered no bookie-rpc endpoint (endpoints: http)"


def test_what_is_not_registered_is_nowhere_even_if_its_id_is_an_address() -> None:
    assert why(resolve_address("bk1:3181", None)) == NoAddressReason.NOT_REGISTERED
    assert why(resolve_address("bookie-7", None)) == NoAddressReason.NOT_REGISTERED


def test_the_stand_in_of_a_host_is_its_own_address() -> None:
    assert resolve_address("bk1:0", None) == Address("bk1", 0, is_from_id=True)
    assert resolve_address("bk1:0", Registration(None, damage="cut")) == Address("bk1", 0, is_from_id=True)
    assert why(resolve_address("a:b:0", None)) == NoAddressReason.NO_ADDRESS
    assert str(resolve_address("bk1:0", Registration([RPC]))) == "10.0.0.1:3181"


def test_data_that_cannot_be_read_is_as_good_as_none_registered() -> None:
    found = resolve_address("bk1:3181", Registration(None, damage="cut at byte 3"))
    assert why(found) == NoAddressReason.UNREADABLE
    assert isinstance(found, UnresolvedBookie)
    assert "cut at byte 3" in found.reason


@pytest.mark.parametrize(
    "registered", [None, Registration(None), Registration([RPC]), Registration([], "cut")]
)
def test_a_client_that_reads_no_registrations_goes_by_the_id(registered: Registration | None) -> None:
    found = resolve_address("bk1:3181", registered, reads_registrations=False)
    assert found == Address("bk1", 3181, is_from_id=True)
    assert (
        why(resolve_address("bookie-7", registered, reads_registrations=False)) == NoAddressReason.NO_ADDRESS
    )


@pytest.mark.parametrize("vector", vectors("socketAddresses"), ids=lambda vector: repr(vector["text"]))
def test_an_id_is_read_as_java_reads_it(vector: Vector) -> None:
    found = resolve_address(vector["text"], None, reads_registrations=False)
    if "host" in vector:
        assert found == Address(vector["host"], vector["port"], is_from_id=True)
    else:
        assert why(found) == NoAddressReason.NO_ADDRESS


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_bookie_of_the_corpora_is_where_the_server_said(corpus: str) -> None:
    oracle = json.loads(gzip.decompress((DATA / corpus / "oracle.json.gz").read_bytes()))
    for id, said in oracle["registration"]["bookieServiceInfo"].items():
        data = store_of(corpus)[2][id]
        found = resolve_address(id, Registration(service_info.decode(data, id).endpoints if data else None))
        [rpc] = [end for end in said["endpoints"] if end["protocol"] == "bookie-rpc"]
        assert found == Address(rpc["host"], rpc["port"], is_from_id=not data)
