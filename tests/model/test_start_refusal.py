"""The directories of a bookie, and the messages about directories that prevent its start."""

from __future__ import annotations

from auditor.model.cookie import Cookie
from auditor.model.start_refusal import (
    INVALID_COOKIE,
    Fault,
    configured_paths,
    directories_refusal,
    file_path,
    unequal_cookie_refusal,
)
from tests.model.cookie_cases import vectors


def test_configured_paths_have_the_servers_order() -> None:
    for case in vectors():
        expected_paths = tuple((directory.role, directory.path) for directory in case.directories)
        assert configured_paths(case.expected) == expected_paths


def test_directory_of_two_roles_is_listed_once() -> None:
    cookie = Cookie(5, "bk1", "/a,/j", ("/a/", "/l"), ("/l", "//i"))
    assert configured_paths(cookie) == (
        ("journal", "/a"),
        ("journal", "/j"),
        ("ledger", "/l"),
        ("index", "//i"),
    )


def test_file_path_is_normalised_as_in_java() -> None:
    assert [file_path(path) for path in ("/a//b/", "/", "a/", "/a/./b")] == ["/a/b", "/", "a", "/a/./b"]


def test_refusal_names_unequal_fields_and_expected_values() -> None:
    expected, stored = (
        Cookie(5, "bk1", "/j", ("/l",), None, "x"),
        Cookie(5, "bk2", "/j", ("/l",), ("/i",), None),
    )
    refusal = unequal_cookie_refusal(
        expected, stored, ["bookieHost", "indexDirs"], Fault.VERSION_DIFFERS, "/l", None
    )
    assert refusal.error == INVALID_COOKIE
    assert refusal.reason == (
        "the VERSION of /l says bookieHost bk2, expected bk1; indexDirs /i, expected (the ledger directories)"
    )
    assert unequal_cookie_refusal(
        expected, stored, ["instanceId"], Fault.STORE_INSTANCE, None, "bk1"
    ).reason == ("the store's cookie of bk1 says instanceId (none), expected x")


def test_refusal_names_every_directory() -> None:
    refusal = directories_refusal(Fault.VERSION_MISSING, ["/l0", "/l1"], "has no VERSION")
    assert refusal.reason == "each of /l0, /l1 has no VERSION"
    assert refusal.paths == ("/l0", "/l1")
