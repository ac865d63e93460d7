"""Ledgers that Java would list, and ledgers that a znode could stand for, for each path below a root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.keys import etcd, ledger_path
from auditor.keys.ledger_tree import (
    ClassifiedPath,
    LayoutKind,
    classify,
    classify_unread_path,
    from_path,
    to_path,
)
from auditor.model.ledger_id import LedgerId

FLAT, LEGACY, HIERARCHICAL, LONG, ETCD = LayoutKind
TREES = (FLAT, LEGACY, HIERARCHICAL, LONG)
MAX, MIN = 2**63 - 1, -(2**63)
NO_LEDGER = ClassifiedPath("malformed")
ANY_SCOPE = ClassifiedPath("malformed", scope_id=None)
"""They stand for no ledger; the second could be of any scope."""
LONGS = st.integers(MIN, MAX)


@given(st.sampled_from(TREES), st.integers(0, 10**10 - 1))
def test_ledger_path_and_its_parents_are_classified(kind: LayoutKind, ledger_id: int) -> None:
    path = to_path(kind, ledger_id)
    assert from_path(kind, path) == ledger_id
    assert classify(kind, path) == ClassifiedPath("ledger", ledger_id, ledger_id, ledger_id)
    parts = path.split("/")
    for depth in range(1, len(parts)):
        inner = classify(kind, "/".join(parts[:depth]))
        assert inner.kind == "inner"
        assert inner.low is not None
        assert inner.high is not None
        assert inner.low <= ledger_id <= inner.high


@pytest.mark.parametrize(
    "rel",
    [
        "",
        "LAYOUT",
        "INSTANCEID",
        "available",
        "available/readonly/bk1:3181",
        "cookies/bk1:3181",
        "idgen/ID-0000000001",
        "idgen-long/HOB-0000000001/ID-0000000000",
        "ID-0000000012",
        "ms-idgen",
        "disableHealthCheck",
        "underreplication/ledgers/0000/0000/0000/0001/urL0000000001",
        "foo",
        "0a",
    ],
)
@pytest.mark.parametrize("kind", list(LayoutKind))
def test_path_outside_the_ledger_tree_is_other(kind: LayoutKind, rel: str) -> None:
    assert classify(kind, rel) == ClassifiedPath("other")


@pytest.mark.parametrize(
    ("rel", "listed", "stands"),
    [
        # Long.parseLong takes what is not a path of ours.
        ("L1", 1, 1),
        ("L00000000005", 5, 5),
        ("L-5", -5, -5),
        ("L+5", 5, 5),
        # Skipped with a warning: no ledger can have such a name.
        ("Lx", None, None),
        ("Lnotanumber", None, None),
        ("L9223372036854775808", None, None),
        ("L" + "9" * 1_000_000, None, None),
        # Below a ledger Java does not look.
        ("L0000000007/copy", None, 7),
    ],
)
def test_malformed_flat_name_has_the_id_that_java_parses(
    rel: str, listed: int | None, stands: int | None
) -> None:
    assert classify(FLAT, rel) == ClassifiedPath("malformed", listed, stands, stands)


def test_flat_name_with_more_than_ten_digits_is_a_ledger() -> None:
    assert classify(FLAT, "L99999999999").kind == "ledger"


@pytest.mark.parametrize("kind", [LEGACY, HIERARCHICAL])
@pytest.mark.parametrize(
    ("rel", "listed", "stands"),
    [
        ("00/0000/L00077", 77, 77),
        ("00/0000/L5", 5, 5),
        # No ledger has such a name, whatever Java's listing makes of it: the bare prefix, if it lies within.
        ("00/0000/X12", 12, None),
        ("00/0000/notes", 0, None),
        ("00/0000/Labc", 0, None),
        ("12/3456/Labc", None, None),
        # Java keeps only what lies within the parent.
        ("00/0000/L12345", None, None),
        # A level that is not a number makes its listing fail; one of another width does not.
        ("00/foo", None, None),
        ("00/foo/L0001", None, None),
        ("00/1", None, None),
        ("00/1/L0005", 10_005, 10_005),
        ("05/0000/L0001/more", None, 500_000_001),
        ("05/0000/Labc/more", None, None),
    ],
)
def test_malformed_short_path_has_listed_and_possible_ids(
    kind: LayoutKind, rel: str, listed: int | None, stands: int | None
) -> None:
    assert classify(kind, rel) == ClassifiedPath("malformed", listed, stands, stands)


@pytest.mark.parametrize("kind", [HIERARCHICAL, LONG])
@pytest.mark.parametrize(
    ("rel", "listed", "stands"),
    [
        ("000/zz/0002/0003/L0004", 200_030_004, 200_030_004),
        ("000/zz", None, None),
        ("001/0002/zz", None, None),
        ("001/0002/0003/0004/Labc", 1_0002_0003_0004, None),
        ("001/0002/0003/0004/X12", 1_0002_0003_0004_12, None),
        # Java's long overflows in silence.
        ("999/9999/9999/9999/L9999", -8446744073709551617, -8446744073709551617),
        ("999/zz", None, None),
        ("001/0002/0003/0004/L0005/more", None, 1_0002_0003_0004_0005),
    ],
)
def test_malformed_long_path_has_listed_and_possible_ids(
    kind: LayoutKind, rel: str, listed: int | None, stands: int | None
) -> None:
    assert classify(kind, rel) == ClassifiedPath("malformed", listed, stands, stands)


@pytest.mark.parametrize(
    ("rel", "ledger_id", "layout"),
    [
        ("21/4748/L3647", 2147483647, LEGACY),
        ("99/9999/L9999", 9999999999, LEGACY),
        ("000/0000/0021/4748/L3646", 2147483646, LONG),
        ("000/0000/0000/0000/L0001", 1, LONG),
    ],
)
def test_ledger_in_the_wrong_hierarchical_tree_is_malformed_with_its_own_id(
    rel: str, ledger_id: int, layout: LayoutKind
) -> None:
    place = ClassifiedPath("malformed", ledger_id, ledger_id, ledger_id, layout=layout)
    assert classify(HIERARCHICAL, rel) == place


PATHS = {
    FLAT: "L0000000042",
    HIERARCHICAL: "00/0000/L0042",
    LONG: "000/0000/0000/0000/L0042",
    ETCD: "ledgers/00000000-0000-0000-0000-00000000002a",
}


@pytest.mark.parametrize("kind", list(LayoutKind))
@pytest.mark.parametrize("path_layout", PATHS)
def test_path_of_another_layout_has_its_ledger_id_and_layout(
    kind: LayoutKind, path_layout: LayoutKind
) -> None:
    rel = PATHS[path_layout]
    place = classify(kind, rel)
    if from_path(kind, rel) is not None:
        assert place == ClassifiedPath("ledger", 42, 42, 42)
        return
    listed = 42 if (kind, path_layout) == (HIERARCHICAL, LONG) else None  # it lists both trees
    assert place == ClassifiedPath("malformed", listed, 42, 42, layout=path_layout)
    # What is nearly such a path is an operator's own, and leads nowhere.
    assert {classify(kind, f"{rel}/x").layout, classify(kind, f"own/{rel}").layout} == {None}


@pytest.mark.parametrize(
    ("kind", "rel"),
    [
        *(
            (kind, rel)
            for kind in (FLAT, LONG)
            for rel in ("00/0000/notes", "00/0000/L7", "00/x", "7", "42/x/y")
        ),
        *((kind, rel) for kind in (FLAT, LEGACY) for rel in ("000/0000/x", "000/0000/0000/0000/0000/L0001")),
        *(
            (kind, rel)
            for kind in (LEGACY, HIERARCHICAL, LONG)
            for rel in ("L1", "Lost+found", "L00000000005")
        ),
    ],
)
def test_path_of_no_layout_is_other(kind: LayoutKind, rel: str) -> None:
    assert classify(kind, rel) == ClassifiedPath("other")


@pytest.mark.parametrize(
    ("kind", "rel"), [(FLAT, "00/0001"), (LONG, "00/0001"), (LEGACY, "000/0000/0000/0001")]
)
def test_unread_path_of_another_layout_covers_its_ledger_ids(kind: LayoutKind, rel: str) -> None:
    assert classify_unread_path(kind, rel) == ClassifiedPath("inner", None, 10_000, 19_999)


@pytest.mark.parametrize("name", ["underreplication", "idgen", "ID-0000000001"])
def test_special_name_among_leaves_is_other(name: str) -> None:
    assert classify(HIERARCHICAL, f"00/0000/{name}") == ClassifiedPath("other")
    assert classify(LONG, f"000/0000/0000/0000/{name}") == ClassifiedPath("other")


@given(
    st.sampled_from(LayoutKind),
    st.lists(
        st.one_of(
            st.sampled_from(["00", "000", "0000", "9999", "L0001", "scopes", "ff00"]), st.text(max_size=24)
        ),
        max_size=10,
    ),
)
def test_every_path_is_classified_with_64_bit_ids(kind: LayoutKind, names: list[str]) -> None:
    place = classify(kind, "/".join(names))
    ids = [place.ledger_id, place.low, place.high]
    assert all(-(2**63) <= id <= MAX for id in ids if id is not None)
    assert (place.low is None) == (place.high is None)
    assert place.low is None or place.kind != "other"
    assert place.low is not None or place.kind in ("other", "malformed")
    if place.low is not None and place.high is not None:
        assert place.low <= place.high


@given(st.sampled_from(TREES), LONGS.filter(bool), LONGS)
def test_scoped_ledger_path_is_classified_in_every_layout(
    kind: LayoutKind, scope: int, ledger_id: int
) -> None:
    path = ledger_path.to_scope_id_path(LedgerId(ledger_id, scope))
    assert from_path(kind, path) is None
    assert classify(kind, path) == ClassifiedPath("ledger", ledger_id, ledger_id, ledger_id, scope)
    assert classify(kind, f"{path}/x") == ClassifiedPath("malformed", None, ledger_id, ledger_id, scope)
    steps = path.split("/")
    for depth in range(1, 9):
        inner = classify(kind, "/".join(steps[:depth]))
        assert inner.kind == "inner"
        assert inner.scope_id == (scope if depth > 4 else None)
        assert inner.low is not None
        assert inner.high is not None
        assert inner.low <= ledger_id <= inner.high
        broken = classify(kind, "/".join([*steps[:depth], "X", *steps[depth + 1 :]]))
        assert broken == ClassifiedPath("malformed", scope_id=inner.scope_id)


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize(
    ("rel", "place"),
    [
        # What spells no ledger in full stands for none.
        ("scopes/x", ANY_SCOPE),
        ("scopes/0000/0000/0000/001", ANY_SCOPE),
        ("scopes/0000/0000/0000/000A/0000/0000/0000/L0002", ANY_SCOPE),
        ("scopes/0000/0000/0000/0001/L0002", ClassifiedPath("malformed", scope_id=1)),
        ("scopes/0000/0000/0000/0001/ffff/x", ClassifiedPath("malformed", scope_id=1)),
        ("scopes/ffff/ffff/ffff/ffff/0000/0000/0000/L2", ClassifiedPath("malformed", scope_id=-1)),
        ("scopes/ffff/ffff/ffff/ffff/8000/0000/0000/0002", ClassifiedPath("malformed", scope_id=-1)),
        # Scope 0 is at home elsewhere, and its server looks for none of its ledgers here.
        ("scopes/0000/0000/0000/0000/0000/0000/0000/L0002", ClassifiedPath("malformed", None, 2, 2, 0)),
        ("scopes/" + "7" * 1_000_000, ANY_SCOPE),
    ],
)
def test_malformed_scope_path_has_only_fully_spelled_ids(
    kind: LayoutKind, rel: str, place: ClassifiedPath
) -> None:
    assert classify(kind, rel) == place


@given(LONGS, LONGS)
def test_etcd_key_is_classified_as_ledger_in_its_scope(scope: int, ledger_id: int) -> None:
    rel = etcd.to_path(LedgerId(ledger_id, scope))
    place = ClassifiedPath("ledger", ledger_id, ledger_id, ledger_id, scope)
    assert classify(ETCD, rel) == (place if scope or ledger_id >= 0 else NO_LEDGER)
    assert from_path(ETCD, rel) == (ledger_id if scope == 0 and ledger_id >= 0 else None)
    assert to_path(ETCD, ledger_id) == etcd.to_path(LedgerId(ledger_id))


@given(LONGS)
def test_no_ledger_of_scope_0_has_an_id_below_0(ledger_id: int) -> None:
    """LedgerMetadataBuilder refuses such an id, and the driver's listing ends before its key."""
    place = classify(ETCD, etcd.to_path(LedgerId(ledger_id)))
    assert place == (
        ClassifiedPath("ledger", ledger_id, ledger_id, ledger_id) if ledger_id >= 0 else NO_LEDGER
    )


@pytest.mark.parametrize(
    ("rel", "place"),
    [
        # Java's UUID reader takes short groups, and others that no driver writes.
        ("ledgers/00000000-0000-0000-1-5", ClassifiedPath("malformed", 2**48 + 5, 2**48 + 5, 2**48 + 5)),
        # Outside of the range that Java lists: it is nobody's to collect, and could still be the ledger.
        ("ledgers/0-0-0-0-5", ClassifiedPath("malformed", None, 5, 5)),
        ("ledgers/0-0-7-0-5", ClassifiedPath("malformed", None, 5, 5, 7)),
        ("ledgers/00000000-0000-0000-0000-00000000000A", ClassifiedPath("malformed", 10, 10, 10)),
        ("ledgers/00000000-0000-0000-1/0-0-9-0-5", ClassifiedPath("malformed", 5, 5, 5)),
        # What lies below the key of a ledger belongs to it; no other name says which ledger it is.
        ("ledgers/00000000-0000-0001-0000-000000000005/x", ClassifiedPath("malformed", None, 5, 5, 1)),
        ("ledgers/L0001", ANY_SCOPE),
        ("ledgers/", ANY_SCOPE),
        ("ledgers/0-0-0-0-5/x", ANY_SCOPE),
        ("ledgers/0-0-0-ffff-5", NO_LEDGER),  # below 0, in scope 0
    ],
)
def test_malformed_etcd_key_has_the_id_that_java_reads(rel: str, place: ClassifiedPath) -> None:
    assert classify(ETCD, rel) == place


@pytest.mark.parametrize(
    "rel",
    [
        "",
        "ledgers",
        "layout",
        "cookies/bk1:3181",
        "bookies/writable/bk1:3181",
        "buckets/007",
        "ledgers2/0-0-0-0-1",
        "scopes/0000/0000/0000/0001/0000/0000/0000/L0002",
    ],
)
def test_etcd_key_outside_the_ledgers_is_other(rel: str) -> None:
    assert classify(ETCD, rel) == ClassifiedPath("other")


def test_name_of_a_million_digits_is_malformed() -> None:
    digits = "7" * 1_000_000
    assert classify(LONG, f"000/0000/0000/0000/L{digits}").kind == "malformed"
    assert classify(HIERARCHICAL, f"00/{digits}/L{digits}").kind == "malformed"


@pytest.mark.parametrize("kind", list(LayoutKind))
def test_unread_path_covers_every_id_that_could_be_below(kind: LayoutKind) -> None:
    full_range = (MIN, MAX, None)
    top = classify_unread_path(kind, "")
    assert (top.low, top.high, top.scope_id) == full_range
    assert classify_unread_path(kind, "an-operators-own").low is None
    if kind is ETCD:
        assert classify_unread_path(kind, "ledgers") == top == classify_unread_path(kind, "ledgers/")
        assert classify_unread_path(kind, "ledgers/notes").low is None
    elif kind is not FLAT:
        inner = to_path(kind, 12_345).rpartition("/")[0]
        assert (classify_unread_path(kind, inner).low, classify_unread_path(kind, inner).high) == (
            10_000,
            19_999,
        )
        assert classify_unread_path(kind, f"{inner}x").low is None
    ledger = classify_unread_path(kind, to_path(kind, 12_345))
    assert (ledger.low, ledger.high, ledger.scope_id) == (12_345, 12_345, 0)
