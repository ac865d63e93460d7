"""BP-41: a bookie's id is a name, and its address is looked up."""

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
    """Znodes by their path below the root, "/" written as "__"."""
    found: Mapping[str, Znode] = {
        path: Znode(f"/ledgers/{path}", data, 1, 1, 5, 5, 0, 1)
        for path, data in ((name.replace("__", "/"), data) for name, data in values.items())
    }
    return ClusterNodes(found, 5, "0x1")


def registered(host: str) -> bytes:
    info = BookieServiceInfoFormat()
    info.endpoints.add(id="bookie", host=host, port=3181, protocol="bookie-rpc")
    data: bytes = info.SerializeToString()
    return data


def members(*bookies: str) -> tuple[str, ...]:
    """The ensemble of a ledger whose metadata names these bookies."""
    data = metadata_bytes(PlainLedger("CLOSED", len(bookies), 1, 1, 0, ((0, bookies),)))
    return ledger_metadata.parse(data, None).segments[0].ensemble


@sentence("41-01")
def test_an_id_is_a_text_that_is_kept_as_it_is_written() -> None:
    assert members("Bookie-7", "bookie-7") == ("Bookie-7", "bookie-7")


@sentence("41-02")
def test_metadata_and_registrations_keep_their_text_form() -> None:
    assert members("bk1:3181") == ("bk1:3181",)
    [row] = registrations(nodes(**{"available__bk1:3181": b""}))
    assert row["bookie_id"] == "bk1:3181"


@sentence("41-03")
def test_an_id_maps_to_the_endpoint_that_the_bookie_registered() -> None:
    assert resolve_address("bookie-7", Registration([HTTP, RPC])) == Address(
        "10.0.0.1", 3181, is_from_id=False
    )


@sentence("41-04")
def test_an_address_makes_an_id_of_host_and_port() -> None:
    assert legacy_address("bk1:3181") == ("bk1", 3181)
    assert str(Address("bk1", 3181, is_from_id=True)) == "bk1:3181"


@sentence("41-05")
def test_bookies_are_told_apart_by_id_and_not_by_address() -> None:
    rows = registrations(nodes(available__a=registered("h"), available__b=registered("h")))
    # One address for two ids: neither answer can be told from the other's, so nobody is asked.
    assert {name: type(found) for name, found in find_endpoints(rows, ["a", "b"]).items()} == {
        "a": str,
        "b": str,
    }


@sentence("41-06")
def test_an_id_is_not_empty() -> None:
    assert not is_accepted("")
    assert not re.fullmatch(PORTABLE_PATTERN, "")


@sentence("41-07")
def test_an_id_has_letters_digits_colons_dashes_and_dots_alone() -> None:
    assert is_accepted("Az09:-.")
    assert [character for character in " /,é\n" if is_accepted(f"bk{character}1")] == []
    # The server lets these pass by a slip of its pattern; the program reports such ids.
    assert [
        character for character in ";<=>?@[\\]^" if re.fullmatch(PORTABLE_PATTERN, f"bk{character}1")
    ] == []


@sentence("41-08")
def test_without_the_resolver_an_id_is_read_as_host_and_port() -> None:
    found = resolve_address("bk1:3181", Registration([RPC]), reads_registrations=False)
    assert found == Address("bk1", 3181, is_from_id=True)


@sentence("41-09")
def test_without_the_resolver_a_custom_id_cannot_be_reached() -> None:
    found = resolve_address("bookie-7", Registration([RPC]), reads_registrations=False)
    assert isinstance(found, UnresolvedBookie)
    assert found.reason_kind is NoAddressReason.NO_ADDRESS


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
def test_checks_look_for_a_bookie_where_clients_with_this_flag_do(
    resolves: bool, address: Mapping[str, str]
) -> None:
    rows = registrations(
        nodes(
            **{"available__bookie-7": registered("10.0.0.1"), "available__bk1:3181": registered("10.0.0.2")}
        )
    )
    cluster = ClusterFacts("x", 5, live=False, layout="flat", two_scans=False, resolves_ids=resolves)
    roster = Roster.read(lambda name: rows if name == "registrations" else [], cluster)
    found = {row["bookie_id"]: roster.client_address(row) for row in rows}
    assert {name: at[0] for name, at in found.items() if at is not None} == address
    missing = [finding["bookie_id"] for finding in endpoint_missing(roster)]
    assert missing == ([] if resolves else ["bookie-7"])
    [drift] = endpoint_drift(roster)
    assert (drift["bookie_id"], drift["severity"]) == ("bk1:3181", "note" if resolves else "warning")


@sentence("41-10")
def test_the_resolver_is_on_by_default() -> None:
    [row] = registrations(nodes(**{"available__bookie-7": registered("10.0.0.1")}))
    assert (row["host"], row["port"], row["unresolved"]) == ("10.0.0.1", 3181, None)


@sentence("41-11")
def test_the_stand_in_of_the_local_host_needs_no_registration() -> None:
    assert resolve_address("bk1:0", None) == Address("bk1", 0, is_from_id=True)


@sentence("41-12")
def test_a_configured_id_is_the_bookies_id() -> None:
    said = {"journalDirectory": "/j", "ledgerDirectories": "/l", "advertisedAddress": "bk1"}
    found = parse_bookie_conf({**said, "bookieId": "bookie-7"})
    assert found is not None
    assert found.bookie_id == "bookie-7"


@sentence("41-13")
def test_a_bookie_with_a_custom_id_publishes_its_address_as_endpoint() -> None:
    [row] = registrations(nodes(**{"available__bookie-7": registered("advertised.example")}))
    assert (row["bookie_id"], row["host"]) == ("bookie-7", "advertised.example")


@sentence("41-14")
def test_the_id_is_the_key_of_the_cookie() -> None:
    [cookie] = store_cookies(nodes(**{"cookies__bookie-7": cookie_bytes("bookie-7", "b", ["ledgers0"], "x")}))
    assert cookie.bookie_id == "bookie-7"


@sentence("41-15")
def test_a_bookie_whose_id_was_changed_does_not_start() -> None:
    stamped = Cookie(5, "bk1:3181", "/j", ("/l",), None, "x")
    renamed = Cookie(5, "bookie-7", "/j", ("/l",), None, "x")
    there = [BookieDirectory("/j", "journal", stamped), BookieDirectory("/l", "ledger", stamped)]
    refusal = legacy_refusal(renamed, [], there)
    assert refusal is not None
    assert refusal.error == INVALID_COOKIE
    assert legacy_refusal(stamped, [("bk1:3181", stamped)], there) is None
    empty = [
        BookieDirectory(path, role, MissingVersion(empty=True))
        for path, role in (("/j", "journal"), ("/l", "ledger"))
    ]
    assert legacy_refusal(renamed, [], empty) is None


@sentence("41-16")
def test_whoever_must_reach_a_bookie_asks_where_it_is_now() -> None:
    rows = registrations(nodes(**{"available__bk1:3181": registered("10.0.0.9")}))
    assert find_endpoints(rows, ["bk1:3181"]) == {"bk1:3181": ("10.0.0.9", 3181)}


@sentence("41-17")
def test_tools_take_ids_of_any_form(tmp_path: Path) -> None:
    (tmp_path / "info").write_bytes(registered("10.0.0.1"))
    outcome = bkaudit("decode", "service-info", str(tmp_path / "info"), "--bookie-id", "bookie-7")
    assert outcome.exit_code == 0, outcome.output


@sentence("41-18")
def test_ids_of_before_are_addresses_still() -> None:
    assert resolve_address("bk1:3181", Registration(None)) == Address("bk1", 3181, is_from_id=True)


@sentence("41-19")
def test_racks_are_looked_up_by_host_and_not_by_id() -> None:
    assert locate("bookie-7", "10.0.0.1", {"10.0.0.1": Location("/r1")}) == Location("/r1")


@pytest.mark.parametrize("bookie_id", ["bookie-7", "bk1:3181"])
@sentence("41-20")
def test_bookies_and_their_address_may_differ(bookie_id: str) -> None:
    [row] = registrations(nodes(**{f"available__{bookie_id}": registered("10.9.9.9")}))
    assert (row["bookie_id"], row["host"]) == (bookie_id, "10.9.9.9")
