"""Whose data a directory holds, and when a bookie counts as read."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.model.cookie import Cookie
from auditor.sources.bookies.owners import AttributedBookie, Attribution, attribute_directories
from auditor.sources.bookies.places import find_places
from tests.sources.bookie_corpora import cookie, make_directory, unpack_bookies

A, B = "bk-a:3181", "bk-b:3181"
TWO = ["/data/ledgers0", "/data/ledgers1"]


def attributed(
    root: Path, known: set[str], instance: str | None = "cluster", store: dict[str, Cookie] | None = None
) -> Attribution:
    return attribute_directories(find_places([str(root)]), known, store or {}, instance)


def read_of(bookie: AttributedBookie, root: Path) -> tuple[str, list[str]]:
    return bookie.read, [each.path.removeprefix(f"{root}/") for each in bookie.index_directories]


def test_real_bookies_are_read_whole(tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    known = {f"127.0.101.{n}:3181" for n in (1, 2, 3, 4, 99)}
    result = attributed(root, known, "a77a8e0d-9cb6-4361-8771-ab58ad015219")
    assert set(result.bookies) == known - {"127.0.101.99:3181"}
    for bookie in result.bookies.values():
        assert (bookie.read, bookie.reason) == ("read", None)
        assert (bookie.suspect, bookie.foreign_instance, bookie.has_directory) == (False, False, True)
        assert bookie.index_time is not None
    assert read_of(result.bookies["127.0.101.3:3181"], root)[1] == [
        "127.0.101.3_3181/ledgers0",
        "127.0.101.3_3181/ledgers1",
    ]
    assert read_of(result.bookies["127.0.101.4:3181"], root)[1] == ["127.0.101.4_3181/index0"]
    roles = {row.path.removeprefix(f"{root}/127.0.101.4_3181/"): row.role for row in result.directories}
    assert {roles[name] for name in ("index0", "journal", "ledgers0")} == {"index", "journal", "ledger"}
    assert attributed(root, known, "another").bookies["127.0.101.1:3181"].foreign_instance
    assert not attributed(root, known, None).bookies["127.0.101.1:3181"].foreign_instance


def test_the_configured_order_is_the_cookies(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, TWO[::-1]))
    result = attributed(tmp_path, {A})
    assert read_of(result.bookies[A], tmp_path) == ("read", ["bk-a_3181/ledgers1", "bk-a_3181/ledgers0"])


def test_swapped_disks_are_attributed_to_the_bookies_that_wrote_them(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, TWO))
    make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(B, TWO))
    make_directory(tmp_path / "bk-b_3181/ledgers0", cookie(B, TWO))
    make_directory(tmp_path / "bk-b_3181/ledgers1", cookie(A, TWO))
    result = attributed(tmp_path, {A, B})
    assert read_of(result.bookies[A], tmp_path) == ("read", ["bk-a_3181/ledgers0", "bk-b_3181/ledgers1"])
    assert read_of(result.bookies[B], tmp_path) == ("read", ["bk-b_3181/ledgers0", "bk-a_3181/ledgers1"])
    assert result.bookies[A].suspect
    assert result.bookies[B].suspect
    swapped = result.directories[1]
    assert (swapped.place, swapped.owner, swapped.cookie_bookie_id) == (A, B, B)


def test_a_swapped_journal_makes_nothing_suspect(tmp_path: Path) -> None:
    for bookie, other in ((A, B), (B, A)):
        make_directory(tmp_path / bookie.replace(":", "_") / "ledgers0", cookie(bookie, TWO[:1]))
        make_directory(tmp_path / other.replace(":", "_") / "journal", cookie(bookie, TWO[:1]))
    result = attributed(tmp_path, {A, B})
    assert [(each.read, each.suspect) for each in result.bookies.values()] == [("read", False)] * 2


@pytest.mark.parametrize(
    ("names", "read"), [(["ledgers0"], "partial"), (["journal"], "unread"), ([], "unread")]
)
def test_a_bookie_is_read_only_if_every_index_directory_is_there(
    tmp_path: Path, names: list[str], read: str
) -> None:
    (tmp_path / "bk-a_3181").mkdir()
    for name in names:
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, TWO))
    bookie = attributed(tmp_path, {A}).bookies[A]
    assert bookie.read == read
    assert bookie.reason is not None
    assert ("/data/ledgers1: no such directory was found" in bookie.reason) == bool(names)
    assert bookie.absent_directories == {"ledgers0": (TWO[1],), "journal": (*TWO,)}.get("".join(names), ())
    assert bookie.index_time is None
    assert bookie.has_directory == bool(names)


def test_journals_never_decide(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, TWO[:1]))
    make_directory(tmp_path / "bk-a_3181/journal", cookie(A, ["/data/another"]))
    assert attributed(tmp_path, {A}).bookies[A].read == "read"
    (tmp_path / "bk-a_3181/journal/current/VERSION").write_bytes(b"?")
    result = attributed(tmp_path, {A})
    assert result.bookies[A].read == "read"
    assert result.directories[0].damage is not None


@pytest.mark.parametrize("spoil", [None, b"", b"nonsense", b"5\nbookieHost: ", b"2\n"])
def test_a_directory_without_a_version_that_parses_leaves_its_bookie_partial(
    tmp_path: Path, spoil: bytes | None
) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, TWO))
    make_directory(tmp_path / "bk-a_3181/ledgers1", spoil)
    result = attributed(tmp_path, {A})
    bookie = result.bookies[A]
    assert read_of(bookie, tmp_path) == ("partial", ["bk-a_3181/ledgers0", "bk-a_3181/ledgers1"])
    assert bookie.reason is not None
    assert "ledgers1 has no readable VERSION file" in bookie.reason
    assert bookie.absent_directories == ()  # a mark lies in it: it is there
    assert (result.directories[1].role, result.directories[1].owner) == ("ledger", A)
    assert result.directories[1].damage is not None


def test_a_wiped_disk_is_seen_where_a_cookie_names_it(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, TWO))
    (tmp_path / "bk-a_3181/ledgers1/lost+found").mkdir(parents=True)
    (tmp_path / "bk-a_3181/unrelated").mkdir()
    result = attributed(tmp_path, {A})
    assert read_of(result.bookies[A], tmp_path) == ("partial", ["bk-a_3181/ledgers0"])
    assert [row.path.rpartition("/")[2] for row in result.directories] == ["ledgers0", "ledgers1"]
    assert result.bookies[A].absent_directories == (TWO[1],)
    # its cookie is damaged besides: nobody knows what the disk alone would hide
    (tmp_path / "bk-a_3181/ledgers0/current/VERSION").write_bytes(b"?")
    known = {A: Cookie(5, A, "/data/journal", tuple(TWO))}
    assert attributed(tmp_path, {A}, store=known).bookies[A].absent_directories == ()


def test_an_index_apart_from_the_ledgers_is_what_counts(tmp_path: Path) -> None:
    version = cookie(A, TWO, index=["/data/index0", "/data/index1"])
    for name in ("ledgers0", "ledgers1", "index0", "index1"):
        make_directory(tmp_path / "bk-a_3181" / name, version, marked=None if "index" in name else 9.0)
    bookie = attributed(tmp_path, {A}).bookies[A]
    assert read_of(bookie, tmp_path) == ("read", ["bk-a_3181/index0", "bk-a_3181/index1"])
    assert bookie.index_time == 9000


def test_several_matches_leave_a_bookie_unread_and_named(tmp_path: Path) -> None:
    for name in ("copy1", "copy2"):
        make_directory(tmp_path / "bk-a_3181" / name / "ledgers0", cookie(A, TWO[:1]))
    bookie = attributed(tmp_path, {A}).bookies[A]
    assert read_of(bookie, tmp_path) == ("unread", [])
    assert bookie.reason == (
        "index directory /data/ledgers0: "
        "bk-a_3181/copy1/ledgers0 and bk-a_3181/copy2/ledgers0 could both be this directory"
    )


def test_cookies_that_disagree_are_all_asked(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, TWO))
    make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(A, [*TWO, "/data/ledgers2"]))
    bookie = attributed(tmp_path, {A}).bookies[A]
    assert bookie.read == "partial"
    assert bookie.reason == "index directory /data/ledgers2: no such directory was found"
    assert bookie.absent_directories == ()


def test_an_unknown_id_leaves_the_data_to_the_bookie_of_the_place(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie("renamed:3181", TWO))
    result = attributed(tmp_path, {A})
    assert set(result.bookies) == {A}
    assert (result.bookies[A].read, result.bookies[A].suspect) == ("read", True)
    assert {row.cookie_bookie_id for row in result.directories} == {"renamed:3181"}


def test_of_two_ids_with_one_name_the_cookie_decides(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk_1/ledgers0", cookie("bk_1", TWO))
    make_directory(tmp_path / "bk_1/ledgers1", None)
    result = attributed(tmp_path, {"bk:1", "bk_1"})
    assert set(result.bookies) == {"bk_1"}
    assert [row.owner for row in result.directories] == ["bk_1", "bk_1"]
    (tmp_path / "bk_1/ledgers0/current/VERSION").unlink()
    undecided = attributed(tmp_path, {"bk:1", "bk_1"})
    assert undecided.bookies == {}
    assert [row.owner for row in undecided.directories] == [None, None]


def test_a_place_of_a_forgotten_bookie_belongs_to_its_cookie(tmp_path: Path) -> None:
    make_directory(tmp_path / "gone_3181/ledgers0", cookie("gone:3181", TWO[:1]))
    make_directory(tmp_path / "backup/ledgers0", cookie("gone:3182", TWO[:1]))
    result = attributed(tmp_path, {A})
    assert {name: (each.read, each.suspect) for name, each in result.bookies.items()} == {
        "gone:3181": ("read", False),
        "gone:3182": ("read", False),
    }


def test_each_rocksdb_index_knows_its_place_in_the_configured_order(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, TWO[::-1]))
        (tmp_path / "bk-a_3181" / name / "current/locations").mkdir()
    bookie = attributed(tmp_path, {A}).bookies[A]
    assert (bookie.read, bookie.reason) == ("read", None)
    assert [
        (each.path[-1], each.storage, each.position, each.directory_count)
        for each in bookie.index_directories
    ] == [
        ("1", "rocksdb", 0, 2),
        ("0", "rocksdb", 1, 2),
    ]


def test_a_disk_without_rocksdb_beside_one_that_has_it_is_not_read(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, TWO))
    (tmp_path / "bk-a_3181/ledgers1/current/ledgers").mkdir()
    bookie = attributed(tmp_path, {A}).bookies[A]
    assert read_of(bookie, tmp_path) == ("partial", ["bk-a_3181/ledgers1"])
    assert bookie.reason is not None
    assert "has no DbLedgerStorage index, but other directories of this bookie have one" in bookie.reason
    assert bookie.index_directories[0].position == 1


def test_an_instance_is_foreign_only_if_all_directories_say_so(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, TWO, instance="other"))
    last = make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(A, TWO, instance="cluster"))
    assert not attributed(tmp_path, {A}).bookies[A].foreign_instance
    for instance, foreign in (("third", True), (None, False)):
        (last / "current/VERSION").write_bytes(cookie(A, TWO, instance=instance))
        assert attributed(tmp_path, {A}).bookies[A].foreign_instance is foreign


def test_the_index_time_is_that_of_the_oldest_disk_and_unknown_if_one_has_none(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, TWO), marked=70.0)
    last = make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(A, TWO), marked=50.0)
    assert attributed(tmp_path, {A}).bookies[A].index_time == 50_000
    (last / "current/lastMark").unlink()
    assert attributed(tmp_path, {A}).bookies[A].index_time is None


def test_an_inventory_matches_by_position_where_names_say_nothing(tmp_path: Path) -> None:
    for disk in ("x", "y"):
        make_directory(tmp_path / disk, cookie(A, TWO))
    inventory = tmp_path / "bookies.toml"
    inventory.write_text(f'[bookies."{A}"]\nledgers = ["y", "x"]\n')
    result = attributed(inventory, {A})
    assert read_of(result.bookies[A], tmp_path) == ("read", ["y", "x"])
    inventory.write_text(f'[bookies."{A}"]\nledgers = ["y", "gone"]\n')
    gone = attributed(inventory, {A}).bookies[A]
    assert (*read_of(gone, tmp_path), gone.absent_directories) == ("partial", ["y"], (TWO[1],))


def test_the_stores_cookie_tells_directories_apart_where_no_version_parses(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", None)
    make_directory(tmp_path / "bk-a_3181/journal", None)
    bare = attributed(tmp_path, {A}).bookies[A]
    assert (bare.read, bare.reason) == (
        "unread",
        "none of the bookie's directories has a readable VERSION file",
    )
    known = {A: Cookie(5, A, "/data/journal", ("/data/ledgers0",))}
    result = attributed(tmp_path, {A}, store=known)
    assert read_of(result.bookies[A], tmp_path) == ("partial", ["bk-a_3181/ledgers0"])
    assert [row.role for row in result.directories] == ["journal", "ledger"]


def test_directories_of_one_bookie_may_come_from_several_sources(tmp_path: Path) -> None:
    for disk, name in (("disk1", "ledgers0"), ("disk2", "ledgers1")):
        make_directory(tmp_path / disk / "bk-a_3181" / name, cookie(A, TWO))
    sources = [str(tmp_path / "disk1"), str(tmp_path / "disk2"), str(tmp_path / "disk1")]
    result = attribute_directories(find_places(sources), {A}, {}, None)
    assert result.bookies[A].read == "read"
    assert len(result.directories) == 2
