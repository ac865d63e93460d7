"""Cookies of 4.17.2 servers, cookies of older layouts, and malformed cookies as Java reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.bookie.cookie import MAX_COOKIE_BYTES, decode, directories
from auditor.errors import DecodeError
from auditor.model.cookie import Cookie
from tests.codecs.damage import points_within, refusal
from tests.codecs.ledger_strategies import mutations
from tests.codecs.metadata_vectors import Vector, vectors

GOLDEN = {
    "with an instance id": (
        b'5\nbookieHost: "127.0.0.1:3181"\njournalDir: "/j1,/j2"\nledgerDirs: "2\\t/l1\\t/l2"\n'
        b'instanceId: "0926c64b-c6df-420f-83ad-817cb951922a"\n',
        Cookie(
            5,
            "127.0.0.1:3181",
            "/j1,/j2",
            ("/l1", "/l2"),
            instance_id="0926c64b-c6df-420f-83ad-817cb951922a",
        ),
    ),
    "with index directories": (
        bytes.fromhex(
            "350a626f6f6b6965486f73743a2022626b5f637573746f6d220a6a6f75726e616c4469723a20222f6a312c2f6a32"
            "220a6c6564676572446972733a2022325c742f6c315c742f6c32220a696e646578446972733a2022325c742f6931"
            "5c742f6932220a"
        ),
        Cookie(5, "bk_custom", "/j1,/j2", ("/l1", "/l2"), ("/i1", "/i2")),
    ),
    "layout 3": (b"3\n10.0.0.1:3181\n/j\n1\t/l\n", Cookie(3, "10.0.0.1:3181", "/j", ("/l",))),
}


@pytest.mark.parametrize(("golden", "cookie"), GOLDEN.values(), ids=GOLDEN.keys())
def test_cookie_of_a_server_is_decoded(golden: bytes, cookie: Cookie) -> None:
    assert decode(golden) == cookie


@pytest.mark.parametrize("vector", vectors("cookies"), ids=lambda vector: repr(vector["text"])[:60])
def test_cookie_decoding_matches_java_and_refuses_unverifiable_cookies(vector: Vector) -> None:
    decoded = vector.get("decoded")
    # Java hands out cookies without a bookie or directories, and only refuses them when it verifies.
    if decoded is None or decoded["bookieId"] is None or decoded["ledgerDirs"] is None:
        with pytest.raises(DecodeError):
            decode(vector["text"].encode())
        return
    index_dirs = decoded["indexDirs"]
    assert decode(vector["text"].encode()) == Cookie(
        decoded["layoutVersion"],
        decoded["bookieId"],
        decoded["journalDirs"],
        directories(decoded["ledgerDirs"]),
        directories(index_dirs) if index_dirs else None,
        decoded["instanceId"],
    )


paths = st.lists(st.text(st.characters(codec="ascii", exclude_characters="\t"), min_size=1), min_size=1)


@given(paths)
def test_directories_are_read_back_from_their_list(listed: list[str]) -> None:
    assert directories("\t".join([str(len(listed)), *listed])) == tuple(listed)


@pytest.mark.parametrize(
    ("damaged", "offset"),
    [
        pytest.param(b"", 0, id="nothing"),
        pytest.param(b"\n", 0, id="no number"),
        pytest.param(b"five\n", 0, id="a word"),
        pytest.param(b"2\nbk1:3181\n", 0, id="too old"),
        pytest.param(b"9" * 1_000_000, 0, id="a number of a million digits"),
        pytest.param(b"3\nbk1:3181\n", 11, id="lines that end early"),
        pytest.param(b"5\nbk1:3181\n/j\n1\t/l\n", 2, id="the lines of layout 3 below a 5"),
        pytest.param(b'5\nbookieHost: "a"\n', 18, id="no directories"),
        pytest.param(b"5\n" + b" " * MAX_COOKIE_BYTES, MAX_COOKIE_BYTES, id="too long"),
    ],
)
def test_cookie_damage_is_refused_with_its_offset(damaged: bytes, offset: int) -> None:
    with pytest.raises(DecodeError) as damage:
        decode(damaged)
    assert damage.value.offset == offset


@given(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([golden for golden, _ in GOLDEN.values()]).flatmap(mutations),
    )
)
def test_damaged_cookie_raises_only_typed_errors(damaged: bytes) -> None:
    assert points_within(refusal(decode, damaged), damaged)
