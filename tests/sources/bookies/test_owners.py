"""Tests of which bookie owns the data of a directory, and of when a bookie counts as read."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.model.cookie import Cookie
from auditor.sources.bookies.owners import AttributedBookie, Attribution, attribute_directories
from auditor.sources.bookies.places import find_places
from tests.sources.bookie_corpora import cookie, make_directory, unpack_bookies

A, B = "bk-a:3181", "bk-b:3181"
DISKS = ["/data/ledgers0", "/data/ledgers1"]


def attribute(
    root: Path, ids: set[str], instance: str | None = "cluster", store: dict[str, Cookie] | None = None
) -> Attribution:
    return attribute_directories(find_places([str(root)]), ids, store or {}, instance)


def read_state(bookie: AttributedBookie, root: Path) -> tuple[str, list[str]]:
    return bookie.read, [directory.path.removeprefix(f"{root}/") for directory in bookie.index_directories]


def test_bookies_of_a_real_cluster_are_read_completely(tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    bookie_ids = {f"127.0.101.{n}:3181" for n in (1, 2, 3, 4, 99)}
    result = attribute(root, bookie_ids, "a77a8e0d-9cb6-4361-8771-ab58ad015219")
    assert set(result.bookies) == bookie_ids - {"127.0.101.99:3181"}
    for bookie in result.bookies.values():
        assert (bookie.read, bookie.reason) == ("read", None)
        assert (bookie.suspect, bookie.foreign_instance, bookie.has_directory) == (False, False, True)
        assert bookie.index_time is not None
    assert read_state(result.bookies["127.0.101.3:3181"], root)[1] == [
        "127.0.101.3_3181/ledgers0",
        "127.0.101.3_3181/ledgers1",
    ]
    assert read_state(result.bookies["127.0.101.4:3181"], root)[1] == ["127.0.101.4_3181/index0"]
    roles = {row.path.removeprefix(f"{root}/127.0.101.4_3181/"): row.role for row in result.directories}
    assert {roles[name] for name in ("index0", "journal", "ledgers0")} == {"index", "journal", "ledger"}
    assert attribute(root, bookie_ids, "another").bookies["127.0.101.1:3181"].foreign_instance
    assert not attribute(root, bookie_ids, None).bookies["127.0.101.1:3181"].foreign_instance


def test_configured_order_of_directories_comes_from_the_cookie(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, DISKS[::-1]))
    result = attribute(tmp_path, {A})
    assert read_state(result.bookies[A], tmp_path) == ("read", ["bk-a_3181/ledgers1", "bk-a_3181/ledgers0"])


def test_swapped_disks_are_attributed_to_the_bookies_that_wrote_them(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, DISKS))
    make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(B, DISKS))
    make_directory(tmp_path / "bk-b_3181/ledgers0", cookie(B, DISKS))
    make_directory(tmp_path / "bk-b_3181/ledgers1", cookie(A, DISKS))
    result = attribute(tmp_path, {A, B})
    assert read_state(result.bookies[A], tmp_path) == ("read", ["bk-a_3181/ledgers0", "bk-b_3181/ledgers1"])
    assert read_state(result.bookies[B], tmp_path) == ("read", ["bk-b_3181/ledgers0", "bk-a_3181/ledgers1"])
    assert result.bookies[A].suspect
    assert result.bookies[B].suspect
    swapped = result.directories[1]
    assert (swapped.place, swapped.owner, swapped.cookie_bookie_id) == (A, B, B)


def test_swapped_journals_do_not_make_bookies_suspect(tmp_path: Path) -> None:
    for bookie, journal_place in ((A, B), (B, A)):
        make_directory(tmp_path / bookie.replace(":", "_") / "ledgers0", cookie(bookie, DISKS[:1]))
        make_directory(tmp_path / journal_place.replace(":", "_") / "journal", cookie(bookie, DISKS[:1]))
    result = attribute(tmp_path, {A, B})
    assert [(owner.read, owner.suspect) for owner in result.bookies.values()] == [("read", False)] * 2


@pytest.mark.parametrize(
    ("names", "read"), [(["ledgers0"], "partial"), (["journal"], "unread"), ([], "unread")]
)
def test_bookie_is_read_only_if_every_index_directory_exists(
    tmp_path: Path, names: list[str], read: str
) -> None:
    (tmp_path / "bk-a_3181").mkdir()
    for name in names:
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, DISKS))
    bookie = attribute(tmp_path, {A}).bookies[A]
    assert bookie.read == read
    assert bookie.reason is not None
    assert ("/data/ledgers1: no such directory was found" in bookie.reason) == bool(names)
    assert bookie.absent_directories == {"ledgers0": (DISKS[1],), "journal": (*DISKS,)}.get(
        "".join(names), ()
    )
    assert bookie.index_time is None
    assert bookie.has_directory == bool(names)


def test_journal_cookies_do_not_affect_the_read_state(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, DISKS[:1]))
    make_directory(tmp_path / "bk-a_3181/journal", cookie(A, ["/data/another"]))
    assert attribute(tmp_path, {A}).bookies[A].read == "read"
    (tmp_path / "bk-a_3181/journal/current/VERSION").write_bytes(b"?")
    result = attribute(tmp_path, {A})
    assert result.bookies[A].read == "read"
    assert result.directories[0].damage is not None


@pytest.mark.parametrize("spoil", [None, b"", b"nonsense", b"5\nbookieHost: ", b"2\n"])
def test_directory_without_a_valid_version_file_leaves_its_bookie_partial(
    tmp_path: Path, spoil: bytes | None
) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, DISKS))
    make_directory(tmp_path / "bk-a_3181/ledgers1", spoil)
    result = attribute(tmp_path, {A})
    bookie = result.bookies[A]
    assert read_state(bookie, tmp_path) == ("partial", ["bk-a_3181/ledgers0", "bk-a_3181/ledgers1"])
    assert bookie.reason is not None
    assert "ledgers1 has no readable VERSION file" in bookie.reason
    assert bookie.absent_directories == ()  # a mark lies in it: it is there
    assert (result.directories[1].role, result.directories[1].owner) == ("ledger", A)
    assert result.directories[1].damage is not None


def test_wiped_disk_is_reported_if_a_cookie_names_it(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, DISKS))
    (tmp_path / "bk-a_3181/ledgers1/lost+found").mkdir(parents=True)
    (tmp_path / "bk-a_3181/unrelated").mkdir()
    result = attribute(tmp_path, {A})
    assert read_state(result.bookies[A], tmp_path) == ("partial", ["bk-a_3181/ledgers0"])
    assert [row.path.rpartition("/")[2] for row in result.directories] == ["ledgers0", "ledgers1"]
    assert result.bookies[A].absent_directories == (DISKS[1],)
    # its cookie is damaged besides: nobody knows what the disk alone would hide
    (tmp_path / "bk-a_3181/ledgers0/current/VERSION").write_bytes(b"?")
    store_cookies = {A: Cookie(5, A, "/data/journal", tuple(DISKS))}
    assert attribute(tmp_path, {A}, store=store_cookies).bookies[A].absent_directories == ()


def test_separate_index_directories_decide_the_read_state(tmp_path: Path) -> None:
    version = cookie(A, DISKS, index=["/data/index0", "/data/index1"])
    for name in ("ledgers0", "ledgers1", "index0", "index1"):
        make_directory(tmp_path / "bk-a_3181" / name, version, marked=None if "index" in name else 9.0)
    bookie = attribute(tmp_path, {A}).bookies[A]
    assert read_state(bookie, tmp_path) == ("read", ["bk-a_3181/index0", "bk-a_3181/index1"])
    assert bookie.index_time == 9000


def test_ambiguous_directories_leave_their_bookie_unread(tmp_path: Path) -> None:
    for name in ("copy1", "copy2"):
        make_directory(tmp_path / "bk-a_3181" / name / "ledgers0", cookie(A, DISKS[:1]))
    bookie = attribute(tmp_path, {A}).bookies[A]
    assert read_state(bookie, tmp_path) == ("unread", [])
    assert bookie.reason == (
        "index directory /data/ledgers0: "
        "bk-a_3181/copy1/ledgers0 and bk-a_3181/copy2/ledgers0 could both be this directory"
    )


def test_directories_of_all_differing_cookies_are_required(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, DISKS))
    make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(A, [*DISKS, "/data/ledgers2"]))
    bookie = attribute(tmp_path, {A}).bookies[A]
    assert bookie.read == "partial"
    assert bookie.reason == "index directory /data/ledgers2: no such directory was found"
    assert bookie.absent_directories == ()


def test_data_with_an_unknown_bookie_id_belongs_to_the_bookie_of_its_place(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie("renamed:3181", DISKS))
    result = attribute(tmp_path, {A})
    assert set(result.bookies) == {A}
    assert (result.bookies[A].read, result.bookies[A].suspect) == ("read", True)
    assert {row.cookie_bookie_id for row in result.directories} == {"renamed:3181"}


def test_cookie_decides_between_two_bookie_ids_with_one_directory_name(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk_1/ledgers0", cookie("bk_1", DISKS))
    make_directory(tmp_path / "bk_1/ledgers1", None)
    result = attribute(tmp_path, {"bk:1", "bk_1"})
    assert set(result.bookies) == {"bk_1"}
    assert [row.owner for row in result.directories] == ["bk_1", "bk_1"]
    (tmp_path / "bk_1/ledgers0/current/VERSION").unlink()
    undecided = attribute(tmp_path, {"bk:1", "bk_1"})
    assert undecided.bookies == {}
    assert [row.owner for row in undecided.directories] == [None, None]


def test_directories_of_an_unregistered_bookie_belong_to_the_bookie_in_the_cookie(tmp_path: Path) -> None:
    make_directory(tmp_path / "gone_3181/ledgers0", cookie("gone:3181", DISKS[:1]))
    make_directory(tmp_path / "backup/ledgers0", cookie("gone:3182", DISKS[:1]))
    result = attribute(tmp_path, {A})
    assert {name: (bookie.read, bookie.suspect) for name, bookie in result.bookies.items()} == {
        "gone:3181": ("read", False),
        "gone:3182": ("read", False),
    }


def test_rocksdb_indexes_have_their_position_in_the_configured_order(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, DISKS[::-1]))
        (tmp_path / "bk-a_3181" / name / "current/locations").mkdir()
    bookie = attribute(tmp_path, {A}).bookies[A]
    assert (bookie.read, bookie.reason) == ("read", None)
    assert [
        (directory.path[-1], directory.storage, directory.position, directory.directory_count)
        for directory in bookie.index_directories
    ] == [
        ("1", "rocksdb", 0, 2),
        ("0", "rocksdb", 1, 2),
    ]


def test_disk_without_rocksdb_is_not_read_if_another_disk_has_rocksdb(tmp_path: Path) -> None:
    for name in ("ledgers0", "ledgers1"):
        make_directory(tmp_path / "bk-a_3181" / name, cookie(A, DISKS))
    (tmp_path / "bk-a_3181/ledgers1/current/ledgers").mkdir()
    bookie = attribute(tmp_path, {A}).bookies[A]
    assert read_state(bookie, tmp_path) == ("partial", ["bk-a_3181/ledgers1"])
    assert bookie.reason is not None
    assert "has no DbLedgerStorage index, but other directories of this bookie have one" in bookie.reason
    assert bookie.index_directories[0].position == 1


def test_instance_is_foreign_only_if_all_cookies_name_another_instance(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, DISKS, instance="other"))
    last = make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(A, DISKS, instance="cluster"))
    assert not attribute(tmp_path, {A}).bookies[A].foreign_instance
    for instance, foreign in (("third", True), (None, False)):
        (last / "current/VERSION").write_bytes(cookie(A, DISKS, instance=instance))
        assert attribute(tmp_path, {A}).bookies[A].foreign_instance is foreign


def test_index_time_is_the_oldest_mark_and_unknown_if_one_disk_has_no_mark(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", cookie(A, DISKS), marked=70.0)
    last = make_directory(tmp_path / "bk-a_3181/ledgers1", cookie(A, DISKS), marked=50.0)
    assert attribute(tmp_path, {A}).bookies[A].index_time == 50_000
    (last / "current/lastMark").unlink()
    assert attribute(tmp_path, {A}).bookies[A].index_time is None


def test_inventory_order_matches_directories_that_names_do_not_identify(tmp_path: Path) -> None:
    for disk in ("x", "y"):
        make_directory(tmp_path / disk, cookie(A, DISKS))
    inventory = tmp_path / "bookies.toml"
    inventory.write_text(f'[bookies."{A}"]\nledgers = ["y", "x"]\n')
    result = attribute(inventory, {A})
    assert read_state(result.bookies[A], tmp_path) == ("read", ["y", "x"])
    inventory.write_text(f'[bookies."{A}"]\nledgers = ["y", "gone"]\n')
    partial_bookie = attribute(inventory, {A}).bookies[A]
    assert (*read_state(partial_bookie, tmp_path), partial_bookie.absent_directories) == (
        "partial",
        ["y"],
        (DISKS[1],),
    )


def test_cookie_in_the_store_assigns_roles_if_no_version_file_is_readable(tmp_path: Path) -> None:
    make_directory(tmp_path / "bk-a_3181/ledgers0", None)
    make_directory(tmp_path / "bk-a_3181/journal", None)
    bare = attribute(tmp_path, {A}).bookies[A]
    assert (bare.read, bare.reason) == (
        "unread",
        "none of the bookie's directories has a readable VERSION file",
    )
    store_cookies = {A: Cookie(5, A, "/data/journal", ("/data/ledgers0",))}
    result = attribute(tmp_path, {A}, store=store_cookies)
    assert read_state(result.bookies[A], tmp_path) == ("partial", ["bk-a_3181/ledgers0"])
    assert [row.role for row in result.directories] == ["journal", "ledger"]


def test_directories_of_one_bookie_may_come_from_several_sources(tmp_path: Path) -> None:
    for disk, name in (("disk1", "ledgers0"), ("disk2", "ledgers1")):
        make_directory(tmp_path / disk / "bk-a_3181" / name, cookie(A, DISKS))
    sources = [str(tmp_path / "disk1"), str(tmp_path / "disk2"), str(tmp_path / "disk1")]
    result = attribute_directories(find_places(sources), {A}, {}, None)
    assert result.bookies[A].read == "read"
    assert len(result.directories) == 2
