"""The result of each bookie's next start, predicted from the directories found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.model.bookie_conf import parse_bookie_conf
from auditor.model.replay_refusal import missing_journals_refusal
from auditor.sources.bookies.owners import attribute_directories
from auditor.sources.bookies.places import find_places
from auditor.sources.metadata.store import ClusterNodes, Znode
from auditor.tables.registry import StoreCookie, store_cookies
from auditor.tables.starts import starts

CLUSTER = "a77a8e0d"


def _cookie(name: str, *ledgers: str, instance: str = CLUSTER) -> bytes:
    paths = "\\t".join(f"/data/{name}/{directory}" for directory in ledgers)
    return (
        f'5\nbookieHost: "{name}"\njournalDir: "/data/{name}/journal"\n'
        f'ledgerDirs: "{len(ledgers)}\\t{paths}"\ninstanceId: "{instance}"\n'
    ).encode()


def _stored(**cookies: bytes) -> list[StoreCookie]:
    nodes = {f"cookies/{name}": Znode(name, data, 0, 0, 0, 0, 0, 0) for name, data in cookies.items()}
    return store_cookies(ClusterNodes(nodes, 0, "0"))


def _make_dirs(root: Path, **versions: bytes | None) -> None:
    """Make directories of the place bk1; None makes one with an empty current."""
    for name, version in versions.items():
        current = root / "bk1" / name / "current"
        current.mkdir(parents=True)
        if version is not None:
            (current / "VERSION").write_bytes(version)


def _starts(root: Path, stored: list[StoreCookie]) -> list[dict[str, Any]]:
    directories = attribute_directories(find_places([str(root)]), {"bk1"}, {}, CLUSTER).found_directories
    return starts(directories, stored, CLUSTER)


def test_bookie_with_agreeing_cookies_would_start(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _make_dirs(tmp_path, journal=cookie, l0=cookie)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["bookie_id"], row["error"], row["expansion_error"]) == ("bk1", None, None)
    assert (row["source"], row["agreed"], row["store_differs"]) == ("versions", True, [])


def test_unreplayable_journal_refuses_start_that_cookies_allow(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0", "l1")
    _make_dirs(tmp_path / "good", journal=cookie, l0=cookie, l1=cookie)
    _make_dirs(tmp_path / "wiped", journal=cookie, l0=cookie, l1=None)
    replays = {"bk1": missing_journals_refusal([("/j", "1a.txn")], certain=False)}
    for place, fault, certain in (("good", "journal-gone", False), ("wiped", "version-missing", True)):
        directories = attribute_directories(
            find_places([str(tmp_path / place)]), {"bk1"}, {}, CLUSTER
        ).found_directories
        [row] = starts(directories, _stored(bk1=cookie), CLUSTER, replays)
        assert (row["fault"], row["certain"]) == (fault, certain)
    assert row["expansion_fault"] == "wiped"


def test_wiped_disk_refuses_start_with_and_without_expansion(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0", "l1")
    _make_dirs(tmp_path, journal=cookie, l0=cookie, l1=None)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["fault"], row["paths"]) == ("version-missing", ["/data/bk1/l1"])
    assert (row["expansion_fault"], row["expansion_paths"]) == ("wiped", ["/data/bk1/l1"])


def test_directory_not_given_to_audit_causes_no_refusal(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _make_dirs(tmp_path, l0=cookie)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["error"] is None


def test_added_directories_are_accepted_only_with_expansion(tmp_path: Path) -> None:
    new, old = _cookie("bk1", "l0", "l1"), _cookie("bk1", "l0")
    _make_dirs(tmp_path, journal=new, l0=new, l1=new)
    [row] = _starts(tmp_path, _stored(bk1=old))
    assert (row["fault"], row["expansion_error"]) == ("store-differs", None)
    assert (row["store_differs"], row["store_grows"]) == (["ledgerDirs"], True)


def test_other_directories_in_store_cookie_are_refused(tmp_path: Path) -> None:
    disk_cookie = _cookie("bk1", "l0")
    _make_dirs(tmp_path, journal=disk_cookie, l0=disk_cookie)
    [row] = _starts(tmp_path, _stored(bk1=_cookie("bk1", "elsewhere")))
    assert row["store_grows"] is False
    assert row["expansion_fault"] == "store-differs"


def test_store_cookie_equal_to_one_of_two_disks_does_not_differ(tmp_path: Path) -> None:
    new, old = _cookie("bk1", "l0", "l1"), _cookie("bk1", "l0")
    _make_dirs(tmp_path, journal=new, l0=old, l1=new)
    [row] = _starts(tmp_path, _stored(bk1=old))
    assert row["store_differs"] == []


def test_damaged_cookie_refuses_start_and_place_without_cookie_has_no_row(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _make_dirs(tmp_path, journal=cookie, l0=b"five\n")
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["fault"] == "version-unreadable"
    assert starts([], _stored(bk1=cookie), CLUSTER) == []


def _lay_upgrade(root: Path, *extra: str, layout: int = 4, name: str = "bk1") -> bytes:
    """Write a 4.14 bookie with these paths, and a directory that its cookie does not name."""
    cookie = _cookie("bk1", "l0").replace(b"5", b"%d" % layout, 1)
    index_cookie = cookie.replace(b"bk1", name.encode())
    _make_dirs(root, journal=cookie, l0=cookie, i0=index_cookie)
    (root / "bk1/l0/current/lastMark").write_bytes(bytes(16))
    for path in extra:
        (root / "bk1" / path).mkdir(parents=True)
    return cookie


def test_index_directory_absent_from_cookies_before_4_16_refuses_upgrade(tmp_path: Path) -> None:
    cookie = _lay_upgrade(tmp_path, "l0/current/locations")
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["fault"], row["certain"]) == ("index-not-in-cookie", False)
    assert row["expansion_fault"] == "index-not-in-cookie"
    assert row["paths"] == [str(tmp_path / "bk1/i0")]
    assert row["way_out"].startswith("without the setting indexDirectories, the bookie starts")


def test_unlisted_directory_with_index_files_must_be_written_as_index_dirs(tmp_path: Path) -> None:
    cookie = _lay_upgrade(tmp_path, "i0/current/0/0")
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["fault"] == "index-not-in-cookie"
    assert row["way_out"].startswith("write the bookie's index directories as indexDirs")


def test_other_directories_absent_from_cookie_cause_no_refusal(tmp_path: Path) -> None:
    cases: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((), {"layout": 5}),
        ((), {"name": "bk9"}),
        (("i0/current/locations",), {}),
        (("i0/current/lastMark",), {}),
        (("i0/current/0.log",), {}),
        (("i0/current/1a.txn",), {}),
    ]
    for number, (extra, options) in enumerate(cases):
        cookie = _lay_upgrade(tmp_path / str(number), *extra, **options)
        [row] = _starts(tmp_path / str(number), _stored(bk1=cookie))
        assert row["fault"] is None, (extra, options)


def _starts_with_conf(
    root: Path, stored: list[StoreCookie], *bookies: str, **properties: str
) -> list[dict[str, Any]]:
    conf = parse_bookie_conf(properties)
    directories = attribute_directories(find_places([str(root)]), {*bookies}, {}, CLUSTER).found_directories
    return starts(directories, stored, CLUSTER, configuration_file=conf)


JOURNAL = {"journalDirectories": "/data/bk1/journal"}


def test_configuration_with_other_directories_than_cookies_refuses_start(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _make_dirs(tmp_path, journal=cookie, l0=cookie)
    stored = _stored(bk1=cookie)
    same = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0"}
    [row] = _starts_with_conf(tmp_path, stored, "bk1", bookieId="bk1", **same)
    assert (row["error"], row["source"], row["agreed"]) == (None, "configuration", True)
    two_dirs = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0,/data/bk1/l1"}
    [row] = _starts_with_conf(tmp_path, stored, "bk1", bookieId="bk1", **two_dirs)
    assert (row["fault"], row["certain"], row["expansion_fault"]) == ("store-differs", True, None)
    assert row["ledger_dirs"] == ["/data/bk1/l0", "/data/bk1/l1"]
    assert (row["store_differs"], row["store_grows"]) == ([], None)  # disks and store agree
    [row] = _starts_with_conf(
        tmp_path, stored, "bk1", bookieId="bk1", allowStorageExpansion="true", **two_dirs
    )
    assert row["error"] is None


def test_configuration_without_id_refuses_bookies_with_its_directories_uncertainly(
    tmp_path: Path,
) -> None:
    for name in ("bk1", "bk2"):
        cookie = _cookie(name, "l0")
        for directory in ("journal", "l0"):
            current = tmp_path / name / directory / "current"
            current.mkdir(parents=True)
            (current / "VERSION").write_bytes(cookie)
    stored = _stored(bk1=_cookie("bk1", "l0"), bk2=_cookie("bk2", "l0"))
    lists = {**JOURNAL, "ledgerDirectories": "/data/bk1/elsewhere"}
    first_row, second_row = _starts_with_conf(tmp_path, stored, "bk1", "bk2", **lists)
    assert (first_row["fault"], first_row["certain"], first_row["source"]) == (
        "store-differs",
        False,
        "configuration",
    )
    assert (second_row["error"], second_row["source"]) == (None, "versions")
    unmatched_rows = _starts_with_conf(
        tmp_path, stored, "bk1", "bk2", ledgerDirectories="/mnt/x", journalDirectory="/mnt/y"
    )
    assert [row["source"] for row in unmatched_rows] == ["versions", "versions"]


def test_configured_index_directory_absent_from_old_cookies_refuses_upgrade(
    tmp_path: Path,
) -> None:
    cookie = _cookie("bk1", "l0").replace(b"5", b"4", 1)
    _make_dirs(tmp_path, journal=cookie, l0=cookie)
    lists = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0", "indexDirectories": "/data/bk1/i0"}
    [row] = _starts_with_conf(tmp_path, _stored(bk1=cookie), "bk1", bookieId="bk1", **lists)
    assert (row["fault"], row["certain"], row["paths"]) == ("index-not-in-cookie", False, ["/data/bk1/i0"])


def test_bookie_with_data_and_no_cookies_refuses_start(tmp_path: Path) -> None:
    """Its address change was half done: the old cookies are gone, and none exist under the new id."""
    _make_dirs(tmp_path, journal=None, l0=None)
    (tmp_path / "bk1/journal/current/1a.txn").touch()
    assert _starts(tmp_path, _stored(bk1=_cookie("bk1", "l0")))[0]["source"] == "store"
    (tmp_path / "bk1/l0/current/0.log").touch()
    [row] = _starts(tmp_path, [])
    assert (row["fault"], row["source"], row["certain"]) == ("not-empty", "nothing", True)
    assert row["paths"] == [str(tmp_path / "bk1" / name) for name in ("journal", "l0")]
    lists = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0"}
    [row] = _starts_with_conf(tmp_path, [], "bk1", bookieId="bk1", **lists)
    assert (row["fault"], row["source"]) == ("not-empty", "configuration")
    assert row["paths"] == ["/data/bk1/journal", "/data/bk1/l0"]


def test_an_empty_place_without_cookies_is_a_new_bookie(tmp_path: Path) -> None:
    _make_dirs(tmp_path, journal=None, l0=None)
    assert _starts(tmp_path, []) == []


def test_configuration_with_unknown_id_refuses_start(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _make_dirs(tmp_path, journal=cookie, l0=cookie)
    lists = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0"}
    [row] = _starts_with_conf(tmp_path, _stored(bk1=cookie), "bk1", bookieId="new", **lists)
    assert (row["fault"], row["paths"]) == ("version-differs", ["/data/bk1/journal"])
    assert "bookieHost bk1, expected new" in row["reason"]
    [row] = _starts_with_conf(tmp_path, _stored(bk1=cookie, new=cookie), "bk1", bookieId="new", **lists)
    assert (row["error"], row["source"]) == (None, "versions")  # the file of another bookie


def test_dbledgerstorage_requires_as_many_index_as_ledger_directories(tmp_path: Path) -> None:
    index = b'indexDirs: "1\\t/data/bk1/i0"\n'
    cookie = _cookie("bk1", "l0", "l1") + index
    _make_dirs(tmp_path, journal=cookie, l0=cookie, l1=cookie, i0=cookie)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["error"] is None  # index files: any number will do
    (tmp_path / "bk1/i0/current/locations").mkdir()
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["fault"], row["error"], row["certain"]) == ("index-count", "java.io.IOException", True)
