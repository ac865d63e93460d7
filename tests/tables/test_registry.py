"""Rows of the registrations, with the address at which clients look for each bookie."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.codecs.protobuf.pb.service_info_pb2 import BookieServiceInfoFormat
from auditor.sources.metadata.store import OWNER_UNKNOWN, ClusterNodes, Znode
from auditor.tables.registry import find_registered_modes, instance_id_missing, registrations


def _cluster(nodes: Mapping[str, bytes], *gaps: tuple[str, str]) -> ClusterNodes:
    znodes = {path: Znode(path, data, 0, 0, 0, 0, 0, 1) for path, data in nodes.items()}
    return ClusterNodes(znodes, 0, "0", gaps)


def _info(protocol: str) -> bytes:
    message = BookieServiceInfoFormat()
    message.endpoints.add(id="bookie", host="10.0.0.1", port=3181, protocol=protocol)
    return bytes(message.SerializeToString())


def test_registration_gives_client_address_of_bookie() -> None:
    nodes = {"available/rpc": _info("bookie-rpc"), "available/web": _info("http")}
    rpc, web = registrations(_cluster(nodes))
    assert (rpc["host"], rpc["port"], rpc["unresolved"], rpc["empty"]) == ("10.0.0.1", 3181, None, False)
    assert (web["host"], web["port"]) == (None, None)
    assert "no bookie-rpc endpoint" in web["unresolved"]


def test_empty_registration_uses_id_as_address() -> None:
    address, custom = registrations(_cluster({"available/bk1:3181": b"", "available/bookie-7": b""}))
    assert (address["host"], address["port"], address["empty"]) == ("bk1", 3181, True)
    assert custom["empty"]
    assert "bookie-7 is not an address" in custom["unresolved"]


def test_damaged_service_info_gives_no_address() -> None:
    [row] = registrations(_cluster({"available/bk1": b"\xff\xff"}))
    assert row["damage"]
    assert "cannot be read" in row["unresolved"]


def test_writable_registration_is_preferred_over_readonly() -> None:
    nodes = {"available/bk1": _info("bookie-rpc"), "available/readonly/bk1": _info("http")}
    rows = registrations(_cluster({**nodes, "available/readonly/bk2": _info("http")}))
    assert [(row["bookie_id"], row["mode"], row["used"]) for row in rows] == [
        ("bk1", "readonly", False),
        ("bk1", "writable", True),
        ("bk2", "readonly", True),
    ]


def test_persistent_registration_znode_registers_no_bookie() -> None:
    owners = {"session": 7, "negative": -2, "persistent": 0, "untold": OWNER_UNKNOWN}
    nodes = {f"available/{name}": Znode(name, b"", 0, 0, 0, 0, 0, owner) for name, owner in owners.items()}
    # It turned read-only where the other one is a leftover.
    nodes["available/readonly/persistent"] = Znode("r", b"", 0, 0, 0, 0, 0, 7)
    rows = registrations(ClusterNodes(nodes, 0, "0"))
    is_ephemeral = {(row["bookie_id"], row["mode"]): row["ephemeral"] for row in rows}
    assert is_ephemeral == {
        ("negative", "writable"): True,
        ("persistent", "readonly"): True,
        ("persistent", "writable"): False,
        ("session", "writable"): True,
        ("untold", "writable"): None,
    }
    modes = find_registered_modes(rows)
    assert modes == {
        "negative": "writable",
        "persistent": "readonly",
        "session": "writable",
        "untold": "writable",
    }


def test_clients_without_registrations_use_bookie_ids() -> None:
    [row] = registrations(_cluster({"available/bk1": _info("bookie-rpc")}), reads_registrations=False)
    assert row["host"] is None
    assert "know the bookie only by its id" in row["unresolved"]


def test_instance_id_is_missing_only_if_scan_is_complete() -> None:
    assert instance_id_missing(_cluster({}))
    assert instance_id_missing(_cluster({"INSTANCEID": b" \n"}))
    assert not instance_id_missing(_cluster({"INSTANCEID": b"x"}))
    assert not instance_id_missing(_cluster({}, ("/ledgers", "a line cannot be read")))
