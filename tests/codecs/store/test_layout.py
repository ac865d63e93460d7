"""LAYOUT as 4.17.2 servers write it, and everything that their parser accepts or refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.store.layout import Layout, decode
from auditor.errors import DecodeError, RuleError
from auditor.model.ledger_id import LayoutKind
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import mutations
from tests.codecs.metadata_vectors import Vector, vectors

PACKAGE = "org.apache.bookkeeper.meta."
HIERARCHICAL = bytes.fromhex(
    "320a6f72672e6170616368652e626f6f6b6b65657065722e6d6574612e48696572617263686963616c4c6564676572"
    "4d616e61676572466163746f72793a31"
)


@pytest.mark.parametrize("shade", ["", "dlshade."])
def test_etcd_layout_is_recognised_by_its_own_version(shade: str) -> None:
    layout = decode(f"2\n{shade}org.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:0".encode())
    assert layout.kind is LayoutKind.ETCD


@pytest.mark.parametrize(
    ("factory", "kind"),
    [
        ("FlatLedgerManagerFactory", LayoutKind.FLAT),
        ("LegacyHierarchicalLedgerManagerFactory", LayoutKind.LEGACY_HIERARCHICAL),
        ("HierarchicalLedgerManagerFactory", LayoutKind.HIERARCHICAL),
        ("LongHierarchicalLedgerManagerFactory", LayoutKind.LONG_HIERARCHICAL),
        ("LongLongHierarchicalLedgerManagerFactory", LayoutKind.LONG_HIERARCHICAL),
    ],
)
@pytest.mark.parametrize("shade", ["", "dlshade."])
def test_factory_class_determines_the_layout_kind(factory: str, kind: LayoutKind, shade: str) -> None:
    assert decode(f"2\n{shade}{PACKAGE}{factory}:1".encode()).kind is kind


def test_layout_written_by_a_server_is_decoded() -> None:
    assert decode(HIERARCHICAL) == Layout(2, f"{PACKAGE}HierarchicalLedgerManagerFactory", 1)


@pytest.mark.parametrize(
    ("text", "kind"),
    [(b"1\nflat:1", LayoutKind.FLAT), (b"1\nhierarchical:1", LayoutKind.HIERARCHICAL)],
)
def test_oldest_layouts_name_their_type(text: bytes, kind: LayoutKind) -> None:
    assert decode(text).kind is kind


@pytest.mark.parametrize(
    "text",
    [
        f"2\n{PACKAGE}MSLedgerManagerFactory:1",
        "2\norg.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:1",
        "2\nEtcdLedgerManagerFactory:0",
        f"2\n{PACKAGE}FlatLedgerManagerFactory:2",
        "2\nFlatLedgerManagerFactory:1",
        "2\nflat:1",
        "1\nlonghierarchical:1",
    ],
)
def test_unknown_layout_breaks_a_rule(text: str) -> None:
    layout = decode(text.encode())
    with pytest.raises(RuleError) as refused:
        _ = layout.kind
    assert refused.value.value == layout


@pytest.mark.parametrize("vector", vectors("layouts"), ids=lambda vector: repr(vector["text"]))
def test_layout_is_decoded_as_java_decodes_it(vector: Vector) -> None:
    if "error" in vector:
        with pytest.raises(DecodeError):
            decode(vector["text"].encode())
    else:
        layout = decode(vector["text"].encode())
        assert layout.format_version == vector["layoutFormatVersion"]
        assert (layout.manager, layout.manager_version) == (
            vector["managerFactoryClass"],
            vector["managerVersion"],
        )


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        (b"", 0),
        (b"3\nflat:1", 0),
        (b"2", 1),
        (b"2\n", 2),
        (b"2\nflat", 2),
        (b"2\nflat:1:2", 2),
        (b"2\nflat:x", 7),
        (b"9" * 100_000, 0),
    ],
)
def test_layout_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged)
    assert damage.value.offset == offset


@given(st.one_of(st.binary(max_size=40), mutations(HIERARCHICAL)))
def test_damaged_layout_raises_only_typed_errors(damaged: bytes) -> None:
    assert points_within(refusal(lambda data: decode(data).kind, damaged), damaged)
