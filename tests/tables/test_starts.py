"""What each bookie's next start would say, from the directories that were found."""

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


def _lay(root: Path, **versions: bytes | None) -> None:
    """Directories of the place bk1; None is one with an empty current."""
    for name, version in versions.items():
        current = root / "bk1" / name / "current"
        current.mkdir(parents=True)
        if version is not None:
            (current / "VERSION").write_bytes(version)


def _starts(root: Path, stored: list[StoreCookie]) -> list[dict[str, Any]]:
    found = attribute_directories(find_places([str(root)]), {"bk1"}, {}, CLUSTER).found_directories
    return starts(found, stored, CLUSTER)


def test_a_bookie_whose_cookies_agree_would_start(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _lay(tmp_path, journal=cookie, l0=cookie)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["bookie_id"], row["error"], row["expansion_error"]) == ("bk1", None, None)
    assert (row["source"], row["agreed"], row["store_differs"]) == ("versions", True, [])


def test_a_journal_that_cannot_be_replayed_refuses_what_cookies_let_start(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0", "l1")
    _lay(tmp_path / "good", journal=cookie, l0=cookie, l1=cookie)
    _lay(tmp_path / "wiped", journal=cookie, l0=cookie, l1=None)
    replays = {"bk1": missing_journals_refusal([("/j", "1a.txn")], certain=False)}
    for place, fault, certain in (("good", "journal-gone", False), ("wiped", "version-missing", True)):
        found = attribute_directories(
            find_places([str(tmp_path / place)]), {"bk1"}, {}, CLUSTER
        ).found_directories
        [row] = starts(found, _stored(bk1=cookie), CLUSTER, replays)
        assert (row["fault"], row["certain"]) == (fault, certain)
    assert row["expansion_fault"] == "wiped"


def test_a_wiped_disk_refuses_the_start_whatever_is_allowed(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0", "l1")
    _lay(tmp_path, journal=cookie, l0=cookie, l1=None)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["fault"], row["paths"]) == ("version-missing", ["/data/bk1/l1"])
    assert (row["expansion_fault"], row["expansion_paths"]) == ("wiped", ["/data/bk1/l1"])


def test_a_directory_that_was_not_given_to_the_audit_refuses_nothing(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _lay(tmp_path, l0=cookie)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["error"] is None


def test_directories_that_were_added_are_taken_with_expansion_only(tmp_path: Path) -> None:
    new, old = _cookie("bk1", "l0", "l1"), _cookie("bk1", "l0")
    _lay(tmp_path, journal=new, l0=new, l1=new)
    [row] = _starts(tmp_path, _stored(bk1=old))
    assert (row["fault"], row["expansion_error"]) == ("store-differs", None)
    assert (row["store_differs"], row["store_grows"]) == (["ledgerDirs"], True)


def test_other_directories_in_the_store_are_taken_by_nothing(tmp_path: Path) -> None:
    here = _cookie("bk1", "l0")
    _lay(tmp_path, journal=here, l0=here)
    [row] = _starts(tmp_path, _stored(bk1=_cookie("bk1", "elsewhere")))
    assert row["store_grows"] is False
    assert row["expansion_fault"] == "store-differs"


def test_a_store_that_agrees_with_one_of_two_disks_differs_from_none(tmp_path: Path) -> None:
    new, old = _cookie("bk1", "l0", "l1"), _cookie("bk1", "l0")
    _lay(tmp_path, journal=new, l0=old, l1=new)
    [row] = _starts(tmp_path, _stored(bk1=old))
    assert row["store_differs"] == []


def test_a_damaged_cookie_refuses_and_a_place_without_any_says_nothing(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _lay(tmp_path, journal=cookie, l0=b"five\n")
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["fault"] == "version-unreadable"
    assert starts([], _stored(bk1=cookie), CLUSTER) == []


def _lay_upgrade(root: Path, *extra: str, layout: int = 4, name: str = "bk1") -> bytes:
    """A bookie of 4.14 with a directory beside those that its cookie names, with these files."""
    cookie = _cookie("bk1", "l0").replace(b"5", b"%d" % layout, 1)
    other = cookie.replace(b"bk1", name.encode())
    _lay(root, journal=cookie, l0=cookie, i0=other)
    (root / "bk1/l0/current/lastMark").write_bytes(bytes(16))
    for path in extra:
        (root / "bk1" / path).mkdir(parents=True)
    return cookie


def test_an_index_directory_that_cookies_of_before_4_16_leave_out_refuses_the_upgrade(tmp_path: Path) -> None:
    cookie = _lay_upgrade(tmp_path, "l0/current/locations")
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["fault"], row["certain"]) == ("index-not-in-cookie", False)
    assert row["expansion_fault"] == "index-not-in-cookie"
    assert row["paths"] == [str(tmp_path / "bk1/i0")]
    assert row["way_out"].startswith("without the setting indexDirectories, the bookie starts")


def test_an_index_that_lies_in_such_a_directory_is_not_taken_out_of_the_configuration(tmp_path: Path) -> None:
    cookie = _lay_upgrade(tmp_path, "i0/current/0/0")
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["fault"] == "index-not-in-cookie"
    assert row["way_out"].startswith("write the bookie's index directories as indexDirs")


def test_other_directories_that_no_cookie_names_refuse_nothing(tmp_path: Path) -> None:
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


def _configured(
    root: Path, stored: list[StoreCookie], *bookies: str, **properties: str
) -> list[dict[str, Any]]:
    conf = parse_bookie_conf(properties)
    found = attribute_directories(find_places([str(root)]), {*bookies}, {}, CLUSTER).found_directories
    return starts(found, stored, CLUSTER, configuration_file=conf)


JOURNAL = {"journalDirectories": "/data/bk1/journal"}


def test_a_configuration_with_other_directories_than_the_cookies_refuses_the_start(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _lay(tmp_path, journal=cookie, l0=cookie)
    stored = _stored(bk1=cookie)
    same = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0"}
    [row] = _configured(tmp_path, stored, "bk1", bookieId="bk1", **same)
    assert (row["error"], row["source"], row["agreed"]) == (None, "configuration", True)
    more = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0,/data/bk1/l1"}
    [row] = _configured(tmp_path, stored, "bk1", bookieId="bk1", **more)
    assert (row["fault"], row["certain"], row["expansion_fault"]) == ("store-differs", True, None)
    assert row["ledger_dirs"] == ["/data/bk1/l0", "/data/bk1/l1"]
    assert (row["store_differs"], row["store_grows"]) == ([], None)  # disks and store agree
    [row] = _configured(tmp_path, stored, "bk1", bookieId="bk1", allowStorageExpansion="true", **more)
    assert row["error"] is None


def test_a_configuration_without_an_id_is_that_of_bookies_with_its_directories_and_not_sure(
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
    one, other = _configured(tmp_path, stored, "bk1", "bk2", **lists)
    assert (one["fault"], one["certain"], one["source"]) == ("store-differs", False, "configuration")
    assert (other["error"], other["source"]) == (None, "versions")
    apart = _configured(tmp_path, stored, "bk1", "bk2", ledgerDirectories="/mnt/x", journalDirectory="/mnt/y")
    assert [row["source"] for row in apart] == ["versions", "versions"]


def test_an_index_directory_in_the_configuration_that_old_cookies_leave_out_refuses_the_upgrade(
    tmp_path: Path,
) -> None:
    cookie = _cookie("bk1", "l0").replace(b"5", b"4", 1)
    _lay(tmp_path, journal=cookie, l0=cookie)
    lists = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0", "indexDirectories": "/data/bk1/i0"}
    [row] = _configured(tmp_path, _stored(bk1=cookie), "bk1", bookieId="bk1", **lists)
    assert (row["fault"], row["certain"], row["paths"]) == ("index-not-in-cookie", False, ["/data/bk1/i0"])


def test_a_bookie_with_data_and_without_any_cookie_refuses_to_start(tmp_path: Path) -> None:
    """Half of a change of its address: the old cookies are gone, and nothing was written under the new id."""
    _lay(tmp_path, journal=None, l0=None)
    (tmp_path / "bk1/journal/current/1a.txn").touch()
    assert _starts(tmp_path, _stored(bk1=_cookie("bk1", "l0")))[0]["source"] == "store"
    (tmp_path / "bk1/l0/current/0.log").touch()
    [row] = _starts(tmp_path, [])
    assert (row["fault"], row["source"], row["certain"]) == ("not-empty", "nothing", True)
    assert row["paths"] == [str(tmp_path / "bk1" / name) for name in ("journal", "l0")]
    lists = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0"}
    [row] = _configured(tmp_path, [], "bk1", bookieId="bk1", **lists)
    assert (row["fault"], row["source"]) == ("not-empty", "configuration")
    assert row["paths"] == ["/data/bk1/journal", "/data/bk1/l0"]


def test_an_empty_place_without_cookies_is_a_new_bookie(tmp_path: Path) -> None:
    _lay(tmp_path, journal=None, l0=None)
    assert _starts(tmp_path, []) == []


def test_a_configuration_with_an_id_that_nothing_knows_is_half_of_a_change_of_address(tmp_path: Path) -> None:
    cookie = _cookie("bk1", "l0")
    _lay(tmp_path, journal=cookie, l0=cookie)
    lists = {**JOURNAL, "ledgerDirectories": "/data/bk1/l0"}
    [row] = _configured(tmp_path, _stored(bk1=cookie), "bk1", bookieId="new", **lists)
    assert (row["fault"], row["paths"]) == ("version-differs", ["/data/bk1/journal"])
    assert "bookieHost bk1, expected new" in row["reason"]
    [row] = _configured(tmp_path, _stored(bk1=cookie, new=cookie), "bk1", bookieId="new", **lists)
    assert (row["error"], row["source"]) == (None, "versions")  # the file of another bookie


def test_dbledgerstorage_takes_as_many_index_directories_as_ledger_directories(tmp_path: Path) -> None:
    index = b'indexDirs: "1\\t/data/bk1/i0"\n'
    cookie = _cookie("bk1", "l0", "l1") + index
    _lay(tmp_path, journal=cookie, l0=cookie, l1=cookie, i0=cookie)
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert row["error"] is None  # index files: any number will do
    (tmp_path / "bk1/i0/current/locations").mkdir()
    [row] = _starts(tmp_path, _stored(bk1=cookie))
    assert (row["fault"], row["error"], row["certain"]) == ("index-count", "java.io.IOException", True)
