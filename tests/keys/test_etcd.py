"""Keys of the etcd metadata driver, in both directions, as the driver itself makes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys import etcd
from auditor.model.ledger_id import LedgerId

ORACLE: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "etcd" / "oracle.json.gz").read_bytes())
)
longs = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 300))
ledgers = st.builds(LedgerId, longs, longs)
hexes = st.text("0123456789abcdefABCDEF+", max_size=18)
names = st.one_of(
    st.builds("-".join, st.lists(hexes, min_size=3, max_size=6)),
    st.text("0123456789abcdef-", min_size=30, max_size=38),
    st.text(max_size=20),
)


@pytest.mark.parametrize("vector", ORACLE["keyVectors"], ids=lambda vector: str(vector["key"]))
def test_ledger_keys_are_those_of_the_driver(vector: dict[str, Any]) -> None:
    ledger = LedgerId(vector["ledgerId"], vector["scopeId"])
    rel = etcd.to_path(ledger)
    assert f"{vector['scope']}/{rel}" == vector["key"]
    parsed = LedgerId(vector["parsedLedgerId"], vector["parsedScopeId"])
    assert etcd.from_path(rel) == etcd.java_read_ledger(rel) == parsed


@pytest.mark.parametrize("vector", ORACLE["names"], ids=lambda vector: str(vector["bookie"]))
def test_the_clusters_own_keys_are_those_of_the_driver(vector: dict[str, Any]) -> None:
    zookeeper = {
        "layout": "LAYOUT",
        "instanceId": "INSTANCEID",
        "cookie": f"cookies/{vector['bookie']}",
        "writable": f"available/{vector['bookie']}",
        "readOnly": f"available/readonly/{vector['bookie']}",
        "ledgers": "ledgers",
        "underreplication": "underreplication",
    }
    for what, name in zookeeper.items():
        assert etcd.node_name(vector[what].removeprefix(f"{vector['scope']}/")) == name


def test_listed_ids_equal_the_drivers_listing() -> None:
    rels = [ledger["key"].removeprefix("/bk/cluster1/") for ledger in ORACLE["ledgers"].values()]
    deleted = {fault["ledger"] for fault in ORACLE["faults"] if fault["kind"] == "deleted-ledger-on-bookies"}
    listed = {etcd.java_listed_id(rel) for rel in rels}
    assert listed - {None} - deleted == set(ORACLE["ledgersListed"])
    assert None in listed  # the largest id, which is there and which the driver's listing leaves out


@given(ledgers)
def test_ledger_key_round_trips(ledger: LedgerId) -> None:
    assert etcd.from_path(etcd.to_path(ledger)) == etcd.java_read_ledger(etcd.to_path(ledger)) == ledger


@given(st.builds("ledgers/{}".format, names))
def test_only_keys_in_canonical_form_are_read(rel: str) -> None:
    ledger = etcd.from_path(rel)
    assert ledger is None or etcd.to_path(ledger) == rel
    assert ledger is None or etcd.java_read_ledger(rel) == ledger


@given(ledgers, ledgers)
def test_keys_sort_in_the_order_of_unsigned_ids(one: LedgerId, other: LedgerId) -> None:
    assert (etcd.to_path(one) < etcd.to_path(other)) == (one.qualified_name < other.qualified_name)


@pytest.mark.parametrize(
    "rel",
    [
        "ledgers/00000000-0000-0000-0000-00000000000A",
        "ledgers/00000000-0000-0000-0000-00000000001",
        "ledgers/x/00000000-0000-0000-0000-000000000001",
        "ledgers/00000000-0000-0000-0000-000000000001\n",
        "ledgers",
        "other/00000000-0000-0000-0000-000000000001",
    ],
)
def test_malformed_ledger_keys_have_no_ledger_id(rel: str) -> None:
    assert etcd.from_path(rel) is None


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("0-0-0-0-1", LedgerId(1)),
        ("0-0-0-7f00-A", LedgerId((0x7F00 << 48) + 10)),
        ("1ffffffff-0-0-0-0", LedgerId(0, -(2**32))),  # what does not fit its group is dropped
        ("+1-0-0-0-0", LedgerId(0, 1 << 32)),
        ("7fffffffffffffff-0-0-0-1", LedgerId(1, -(2**32))),
        ("8000000000000000-0-0-0-1", None),  # beyond Java's long
        ("0-0-0--1", None),
        ("0-0-0-1", None),
        ("0-0-0-0-0-1", None),
        ("00000000-0000-0000-0000-0000000000001", None),  # 37 characters
        ("0-0-0-0-0x1", None),
        ("0-0-0-0-1_0", None),
    ],
)
def test_short_groups_are_read_as_java_reads_them(name: str, read: LedgerId | None) -> None:
    assert etcd.java_read_ledger(f"ledgers/{name}") == read


def test_key_range_of_children_excludes_neighbouring_keys() -> None:
    start, end = etcd.children("/ledgers", "ledgers")
    inside = [b"/ledgers/ledgers/", etcd.key_bytes("/ledgers/" + etcd.to_path(LedgerId(-1, -1)))]
    outside = [
        b"/ledgers/ledgers",
        b"/ledgers/ledgers-other/x",
        b"/ledgers/ledgers0",
        b"/ledgers-other/ledgers/x",
    ]
    assert all(start <= key < end for key in inside)
    assert not any(start <= key < end for key in outside)


@pytest.mark.parametrize(
    "rel", ["bookies/writable/readonly", "cookies/", "cookies/a/b", "layout/x", "other", ""]
)
def test_unknown_keys_have_no_node_name(rel: str) -> None:
    assert etcd.node_name(rel) is None
