"""Conversion of owner paths to names: every kind, names of all letters, and all paths of a real broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys.pulsar import Names, NodeKind, names_of
from tests.codecs.pulsar.pulsar_values import oracle, topic_path


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("managed-ledgers", Names(NodeKind.INNER)),
        ("managed-ledgers/t", Names(NodeKind.INNER)),
        ("managed-ledgers/t/ns", Names(NodeKind.INNER)),
        ("managed-ledgers/t/ns/persistent", Names(NodeKind.INNER, "t", "ns")),
        ("managed-ledgers/t/ns/persistent/a-partition-3", Names(NodeKind.TOPIC, "t", "ns", "a-partition-3")),
        ("managed-ledgers/t/ns/persistent/a%2Fb", Names(NodeKind.TOPIC, "t", "ns", "a/b")),
        ("managed-ledgers/t/ns/persistent/a/c+d", Names(NodeKind.CURSOR, "t", "ns", "a", "c d")),
        ("managed-ledgers/t/ns/persistent/a/c/d", Names(NodeKind.UNKNOWN, "t", "ns", "a", "c")),
        ("managed-ledgers/t/east/ns/persistent", Names(NodeKind.INNER, "t", "ns", None, None, "east")),
        ("managed-ledgers/t/east/ns/persistent/a", Names(NodeKind.TOPIC, "t", "ns", "a", None, "east")),
        ("managed-ledgers/t/east/ns/persistent/a/c", Names(NodeKind.CURSOR, "t", "ns", "a", "c", "east")),
        ("managed-ledgers/t/ns/segment/a", Names(NodeKind.INNER, "t", "ns")),
        ("managed-ledgers/t/ns/segment/a/0000-7fff-1", Names(NodeKind.TOPIC, "t", "ns", "a/0000-7fff-1")),
        (
            "managed-ledgers/t/ns/segment/a/0000-7fff-1/c",
            Names(NodeKind.CURSOR, "t", "ns", "a/0000-7fff-1", "c"),
        ),
        ("managed-ledgers/t/ns/elsewhere/a", Names(NodeKind.UNKNOWN)),
        ("schemas/t/ns", Names(NodeKind.INNER)),
        ("schemas/t/ns/a+b", Names(NodeKind.SCHEMA, "t", "ns", "a b")),
        ("schemas/t/ns/a/b", Names(NodeKind.UNKNOWN, "t", "ns", "a")),
        ("pulsar/functions/log/<default>/ledgers", Names(NodeKind.INNER, topic="log")),
        ("pulsar/functions/log/<default>/ledgers/s_1", Names(NodeKind.LOG_SEGMENT, topic="log")),
        ("pulsar/functions/log/<default>/allocation", Names(NodeKind.LOG_ALLOCATION, topic="log")),
        ("pulsar/functions/log/<default>/maxtxid", Names(NodeKind.INNER, topic="log")),
        ("managed-ledgers2/t", Names(NodeKind.UNKNOWN)),
    ],
)
def test_owner_path_has_expected_names(path: str, names: Names) -> None:
    assert names_of(path) == names


def test_every_broker_path_has_the_owner_in_the_oracle() -> None:
    expected = oracle()
    kinds = {"data": NodeKind.TOPIC, "shadow": NodeKind.TOPIC, "schema": NodeKind.SCHEMA}
    for path, znode in expected["znodes"].items():
        for owner in znode["names"] if znode["names"] != "unreadable" else []:
            assert names_of(path[1:]).kind is kinds.get(owner["owner"], NodeKind.CURSOR)
    for ledger in expected["ledgers"].values():
        if "topic" in ledger:
            names = names_of(ledger["path"][1:])
            assert ledger["topic"] == f"persistent://{names.tenant}/{names.namespace}/{names.topic}"
            assert ledger["path"].startswith(f"/{topic_path(ledger['topic'])}")


@given(st.text(min_size=1, max_size=20))
def test_topic_name_of_any_letters_is_read_back(name: str) -> None:
    assert names_of(topic_path(f"persistent://t/ns/{name}")) == Names(NodeKind.TOPIC, "t", "ns", name)


@given(st.text(max_size=60))
def test_every_path_has_a_node_kind(path: str) -> None:
    for top in ("managed-ledgers", "schemas", "pulsar/functions"):
        assert names_of(f"{top}/{path}").kind in NodeKind
