"""What each bookie's next start would say, from the directories that were found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.model.start_refusal import unreplayable
from auditor.sources.bookies.owners import attribute
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
    found = attribute(find_places([str(root)]), {"bk1"}, {}, CLUSTER).found
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
    replays = {"bk1": unreplayable([("/j", "1a.txn")], certain=False)}
    for place, fault, certain in (("good", "journal-gone", False), ("wiped", "version-missing", True)):
        found = attribute(find_places([str(tmp_path / place)]), {"bk1"}, {}, CLUSTER).found
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
