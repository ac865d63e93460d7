"""BP-41: a bookie id is a name, and the bookie's address is looked up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from auditor.checks.endpoint_drift import endpoint_drift
from auditor.checks.endpoint_missing import endpoint_missing
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.codecs.store.service_info import Endpoint
from auditor.model.bookie_conf import ADDRESS_RESOLVER_KEYS, parse_bookie_conf, uses_registrations
from auditor.model.bookie_id import (
    PORTABLE_PATTERN,
    Address,
    NoAddressReason,
    Registration,
    UnresolvedBookie,
    is_accepted,
    legacy_address,
    resolve_address,
)
from auditor.model.cookie import Cookie
from auditor.model.placement import Location
from auditor.model.start_refusal import INVALID_COOKIE, BookieDirectory, MissingVersion, legacy_refusal
from auditor.sources.bookies.rpc.connection import find_endpoints
from auditor.sources.metadata.store import ClusterNodes, Znode
from auditor.sources.racks import locate
from auditor.tables import ClusterFacts, Roster
from auditor.tables.registry import registrations, store_cookies
from tests.cli.test_doors import bkaudit
from tests.corpora.cluster import cookie_bytes, metadata_bytes
from tests.corpora.plain_readers import PlainLedger
from tests.specification.sentences import sentence

RPC = Endpoint("bookie", "10.0.0.1", 3181, "bookie-rpc")
HTTP = Endpoint("http", "10.0.0.1", 8080, "http")


def nodes(**values: bytes) -> ClusterNodes:
    """Return znodes by their path below the root; keywords have "__" in place of "/"."""
    znodes: Mapping[str, Znode] = {
        path: Znode(f"/ledgers/{path}", data, 1, 1, 5, 5, 0, 1)
        for path, data in ((name.replace("__", "/"), data) for name, data in values.items())
    }
    return ClusterNodes(znodes, 5, "0x1")


def registration_bytes(host: str) -> bytes:
    info = BookieServiceInfoFormat()
    info.endpoints.add(id="bookie", host=host, port=3181, protocol="bookie-rpc")
    data: bytes = info.SerializeToString()
    return data


def members(*bookies: str) -> tuple[str, ...]:
    """Return the ensemble of a ledger whose metadata names these bookies."""
    data = metadata_bytes(PlainLedger("CLOSED", len(bookies), 1, 1, 0, ((0, bookies),)))
    return ledger_metadata.parse(data, None).segments[0].ensemble


@sentence("41-01")
def test_bookie_id_text_is_preserved() -> None:
    assert members("Bookie-7", "bookie-7") == ("Bookie-7", "bookie-7")


@sentence("41-02")
def test_metadata_and_registrations_preserve_host_port_ids() -> None:
    assert members("bk1:3181") == ("bk1:3181",)
    [row] = registrations(nodes(**{"available__bk1:3181": b""}))
    assert row["bookie_id"] == "bk1:3181"


@sentence("41-03")
def test_an_id_maps_to_the_endpoint_that_the_bookie_registered() -> None:
    assert resolve_address("bookie-7", Registration([HTTP, RPC])) == Address(
        "10.0.0.1", 3181, is_from_id=False
    )


@sentence("41-04")
def test_address_is_converted_to_id_of_host_and_port() -> None:
    assert legacy_address("bk1:3181") == ("bk1", 3181)
    assert str(Address("bk1", 3181, is_from_id=True)) == "bk1:3181"


@sentence("41-05")
def test_bookies_are_distinguished_by_id_not_by_address() -> None:
    rows = registrations(nodes(available__a=registration_bytes("h"), available__b=registration_bytes("h")))
    # One address for two ids: neither answer can be told from the other's, so nobody is asked.
    assert {name: type(endpoint) for name, endpoint in find_endpoints(rows, ["a", "b"]).items()} == {
        "a": str,
        "b": str,
    }


@sentence("41-06")
def test_empty_bookie_id_is_rejected() -> None:
    assert not is_accepted("")
    assert not re.fullmatch(PORTABLE_PATTERN, "")


@sentence("41-07")
def test_bookie_id_allows_only_letters_digits_colons_dashes_and_dots() -> None:
    assert is_accepted("Az09:-.")
    assert [character for character in " /,é\n" if is_accepted(f"bk{character}1")] == []
    # The server lets these pass by a slip of its pattern; the program reports such ids.
    assert [
        character for character in ";<=>?@[\\]^" if re.fullmatch(PORTABLE_PATTERN, f"bk{character}1")
    ] == []


@sentence("41-08")
def test_without_the_resolver_an_id_is_read_as_host_and_port() -> None:
    address = resolve_address("bk1:3181", Registration([RPC]), reads_registrations=False)
    assert address == Address("bk1", 3181, is_from_id=True)


@sentence("41-09")
def test_without_the_resolver_custom_id_has_no_address() -> None:
    resolution = resolve_address("bookie-7", Registration([RPC]), reads_registrations=False)
    assert isinstance(resolution, UnresolvedBookie)
    assert resolution.reason_kind is NoAddressReason.NO_ADDRESS


@pytest.mark.parametrize("key", ADDRESS_RESOLVER_KEYS)
@sentence("41-21")
def test_a_configuration_file_switches_the_resolver_off(key: str) -> None:
    assert not uses_registrations({key: "false"})
    assert uses_registrations({key: "true"})
    assert uses_registrations({})
    with pytest.raises(ValueError, match="neither true nor false"):
        uses_registrations({key: "maybe"})


@pytest.mark.parametrize(
    ("resolves", "address"),
    [(True, {"bookie-7": "10.0.0.1", "bk1:3181": "10.0.0.2"}), (False, {"bk1:3181": "bk1"})],
)
@sentence("41-22")
def test_checks_follow_client_address_resolver_setting(resolves: bool, address: Mapping[str, str]) -> None:
    rows = registrations(
        nodes(
            **{
                "available__bookie-7": registration_bytes("10.0.0.1"),
                "available__bk1:3181": registration_bytes("10.0.0.2"),
            }
        )
    )
    cluster = ClusterFacts("x", 5, live=False, layout="flat", two_scans=False, resolves_ids=resolves)
    roster = Roster.read(lambda name: rows if name == "registrations" else [], cluster)
    addresses = {row["bookie_id"]: roster.client_address(row) for row in rows}
    assert {name: host_port[0] for name, host_port in addresses.items() if host_port is not None} == address
    missing = [finding["bookie_id"] for finding in endpoint_missing(roster)]
    assert missing == ([] if resolves else ["bookie-7"])
    [drift] = endpoint_drift(roster)
    assert (drift["bookie_id"], drift["severity"]) == ("bk1:3181", "note" if resolves else "warning")


@sentence("41-10")
def test_the_resolver_is_on_by_default() -> None:
    [row] = registrations(nodes(**{"available__bookie-7": registration_bytes("10.0.0.1")}))
    assert (row["host"], row["port"], row["unresolved"]) == ("10.0.0.1", 3181, None)


@sentence("41-11")
def test_bookie_id_with_port_0_resolves_without_registration() -> None:
    assert resolve_address("bk1:0", None) == Address("bk1", 0, is_from_id=True)


@sentence("41-12")
def test_configured_bookie_id_is_used() -> None:
    conf_values = {"journalDirectory": "/j", "ledgerDirectories": "/l", "advertisedAddress": "bk1"}
    conf = parse_bookie_conf({**conf_values, "bookieId": "bookie-7"})
    assert conf is not None
    assert conf.bookie_id == "bookie-7"


@sentence("41-13")
def test_address_of_custom_id_bookie_is_its_registered_endpoint() -> None:
    [row] = registrations(nodes(**{"available__bookie-7": registration_bytes("advertised.example")}))
    assert (row["bookie_id"], row["host"]) == ("bookie-7", "advertised.example")


@sentence("41-14")
def test_bookie_id_is_key_of_cookie() -> None:
    [cookie] = store_cookies(nodes(**{"cookies__bookie-7": cookie_bytes("bookie-7", "b", ["ledgers0"], "x")}))
    assert cookie.bookie_id == "bookie-7"


@sentence("41-15")
def test_bookie_with_changed_id_is_refused_at_start() -> None:
    stamped = Cookie(5, "bk1:3181", "/j", ("/l",), None, "x")
    renamed = Cookie(5, "bookie-7", "/j", ("/l",), None, "x")
    directories = [BookieDirectory("/j", "journal", stamped), BookieDirectory("/l", "ledger", stamped)]
    refusal = legacy_refusal(renamed, [], directories)
    assert refusal is not None
    assert refusal.error == INVALID_COOKIE
    assert legacy_refusal(stamped, [("bk1:3181", stamped)], directories) is None
    empty = [
        BookieDirectory(path, role, MissingVersion(empty=True))
        for path, role in (("/j", "journal"), ("/l", "ledger"))
    ]
    assert legacy_refusal(renamed, [], empty) is None


@sentence("41-16")
def test_bookie_is_contacted_at_its_registered_address() -> None:
    rows = registrations(nodes(**{"available__bk1:3181": registration_bytes("10.0.0.9")}))
    assert find_endpoints(rows, ["bk1:3181"]) == {"bk1:3181": ("10.0.0.9", 3181)}


@sentence("41-17")
def test_decode_command_accepts_custom_bookie_id(tmp_path: Path) -> None:
    (tmp_path / "info").write_bytes(registration_bytes("10.0.0.1"))
    outcome = bkaudit("decode", "service-info", str(tmp_path / "info"), "--bookie-id", "bookie-7")
    assert outcome.exit_code == 0, outcome.output


@sentence("41-18")
def test_host_port_id_without_registration_is_an_address() -> None:
    assert resolve_address("bk1:3181", Registration(None)) == Address("bk1", 3181, is_from_id=True)


@sentence("41-19")
def test_racks_are_looked_up_by_host_and_not_by_id() -> None:
    assert locate("bookie-7", "10.0.0.1", {"10.0.0.1": Location("/r1")}) == Location("/r1")


@pytest.mark.parametrize("bookie_id", ["bookie-7", "bk1:3181"])
@sentence("41-20")
def test_bookie_id_may_differ_from_registered_address(bookie_id: str) -> None:
    [row] = registrations(nodes(**{f"available__{bookie_id}": registration_bytes("10.9.9.9")}))
    assert (row["bookie_id"], row["host"]) == (bookie_id, "10.9.9.9")
