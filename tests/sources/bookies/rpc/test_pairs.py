"""Tests of the addresses at which bookies can be asked, and of the ledgers to ask for."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.sources.bookies.rpc.connection import (
    NOT_REGISTERED_REASON,
    SHARED_ADDRESS_REASON,
    find_endpoints,
    possible_replicas,
)
from auditor.sources.metadata.store import ClusterNodes, Znode
from auditor.tables.registry import registrations


def info(*offered: tuple[str, int, str]) -> bytes:
    message = BookieServiceInfoFormat()
    for host, port, protocol in offered:
        message.endpoints.add(id="bookie", host=host, port=port, protocol=protocol)
    return message.SerializeToString()


def registration_rows(*bookies: tuple[str, bytes]) -> list[dict[str, Any]]:
    """Return registration rows in the form that the audit has."""
    nodes = {f"available/{name}": Znode(f"/l/{name}", data, 1, 1, 1, 1, 0, 9) for name, data in bookies}
    return registrations(ClusterNodes(nodes, 0, "0"))


RPC = "bookie-rpc"


@pytest.mark.parametrize(
    ("bookie_id", "data", "endpoint"),
    [
        pytest.param("bk-7", info(("h", 3181, RPC)), ("h", 3181), id="its own address"),
        pytest.param("bk1:3181", info(("h", 1, RPC)), ("h", 1), id="an address that the id does not say"),
        pytest.param("b", info(("x", 80, "http"), ("h", 2, RPC)), ("h", 2), id="the one for clients"),
        pytest.param("bk1:3181", b"", ("bk1", 3181), id="none registered, the id is one"),
    ],
)
def test_endpoint_of_a_bookie_is_its_registered_address_or_its_id(
    bookie_id: str, data: bytes, endpoint: tuple[str, int]
) -> None:
    assert find_endpoints(registration_rows((bookie_id, data)), [bookie_id]) == {bookie_id: endpoint}


@pytest.mark.parametrize(
    ("bookie_id", "data", "reason"),
    [
        pytest.param("bookie-7", b"", "its id is not an address", id="a custom id, and nothing registered"),
        pytest.param("bk1:3181", b"\x07", "cut off or invalid", id="damaged"),
        pytest.param("bk1:3181", info(("x", 80, "http")), "without an endpoint", id="none for clients"),
        pytest.param("b", info(("h", 0, RPC)), "port 0", id="a port that is none"),
        pytest.param("b", info(("h", 65_536, RPC)), "port 65536", id="a port beyond them all"),
        pytest.param("b", info(("", 3181, RPC)), "''", id="no host"),
    ],
)
def test_bookie_without_a_valid_address_has_a_reason(bookie_id: str, data: bytes, reason: str) -> None:
    endpoint_error = find_endpoints(registration_rows((bookie_id, data)), [bookie_id])[bookie_id]
    assert isinstance(endpoint_error, str)
    assert reason in endpoint_error


def test_unregistered_bookie_is_not_asked_even_if_its_id_is_an_address() -> None:
    assert find_endpoints(registration_rows(("bk2:3181", b"")), ["bk1:3181"]) == {
        "bk1:3181": NOT_REGISTERED_REASON
    }


def test_bookie_registered_twice_is_asked_at_its_only_valid_address() -> None:
    nodes = {
        "available/b": Znode("/l/b", b"\x07", 1, 1, 1, 1, 0, 9),
        "available/readonly/b": Znode("/l/r/b", info(("h", 3181, RPC)), 1, 1, 1, 1, 0, 9),
    }
    rows = registrations(ClusterNodes(nodes, 0, "0"))
    assert len(rows) == 2
    assert find_endpoints(rows, ["b"]) == find_endpoints(rows[::-1], ["b"]) == {"b": ("h", 3181)}


def test_address_shared_by_two_bookies_is_used_for_neither() -> None:
    rows = registration_rows(
        ("a", info(("h", 3181, RPC))), ("b", info(("h", 3181, RPC))), ("c", info(("h", 1, RPC)))
    )
    assert find_endpoints(rows, ["a", "c"]) == {"a": SHARED_ADDRESS_REASON, "c": ("h", 1)}


LEDGERS = (
    "scope_id long, ledger_id long, state string, replicas array<struct<bookie_id: string, groups: binary>>"
)


def test_bookie_is_asked_for_ledgers_of_which_it_may_hold_entries(spark: SparkSession) -> None:
    ledgers = spark.createDataFrame(
        [
            (0, 1, "CLOSED", [("a", b"x"), ("b", b"x")]),
            (0, 2, "CLOSED", [("b", b"x")]),
            (0, 3, "CLOSED", [("a", b""), ("b", b"x")]),  # striped to others, or without entries
            (0, 4, "OPEN", [("a", b""), ("b", b"")]),  # nobody knows its end
            (0, 5, "IN_RECOVERY", [("a", b""), ("b", b"")]),
            (7, 1, "OPEN", [("a", b"x")]),
            (None, None, None, None),
        ],
        LEDGERS,
    )
    replicas = possible_replicas(ledgers, ["a"])
    assert replicas.columns == ["scope_id", "ledger_id", "bookie_id"]
    assert sorted(map(tuple, replicas.collect())) == [(0, 1, "a"), (0, 4, "a"), (0, 5, "a"), (7, 1, "a")]
    assert possible_replicas(ledgers, []).collect() == []


def test_registration_without_a_session_gives_no_address() -> None:
    service_info = info(("h", 3181, RPC))
    stale_rows = registrations(
        ClusterNodes({"available/old": Znode("/l/old", service_info, 1, 1, 1, 1, 0, 0)}, 0, "0")
    )
    assert find_endpoints([*stale_rows, *registration_rows(("new", service_info))], ["old", "new"]) == {
        "old": NOT_REGISTERED_REASON,
        "new": ("h", 3181),
    }
