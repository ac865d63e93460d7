"""What DataIntegrityCookieValidation says to a bookie's start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditor.model.cookie import Cookie
from auditor.model.start_refusal import (
    BookieDirectory,
    Fault,
    NoVersion,
    Refusal,
    Unreadable,
    configured_paths,
)
from auditor.model.start_validation import data_integrity_refusal
from tests.model.cookie_cases import vectors

COOKIE = Cookie(5, "bk1:3181", "/j", ("/l",), None, "the-instance")
EMPTY, FULL = NoVersion(empty=True), NoVersion(empty=False)
Version = Cookie | Unreadable | NoVersion | None


def start(
    stored: Cookie | Unreadable | None, *versions: Version, stamp: bool = False, expected: Cookie = COOKIE
) -> Refusal | None:
    paths = configured_paths(expected)
    there = [
        BookieDirectory(path, role, version) for (role, path), version in zip(paths, versions, strict=True)
    ]
    return data_integrity_refusal(expected, stored, there, stamp_missing=stamp)


def fault(refusal: Refusal | None) -> Fault | None:
    return None if refusal is None else refusal.fault


@pytest.mark.parametrize(("mode", "stamp"), [("integrity", False), ("stamping", True)])
def test_every_bookie_is_refused_as_the_server_refuses_it(mode: str, stamp: bool) -> None:
    for case in vectors():
        refusal = data_integrity_refusal(case.expected, case.stored, case.directories, stamp_missing=stamp)
        said = case.answers[mode]
        assert (refusal and refusal.error) == (said and said["error"])


@pytest.mark.parametrize("stamp", [False, True])
def test_without_a_cookie_in_the_store_no_directory_may_have_one(stamp: bool) -> None:
    assert start(None, EMPTY, FULL, stamp=stamp) is None
    assert fault(start(None, COOKIE, EMPTY, stamp=stamp)) == Fault.NOT_IN_STORE
    assert fault(start(None, COOKIE, COOKIE, stamp=stamp)) == Fault.NOT_IN_STORE


def test_what_is_missing_or_differs_is_refused_unless_it_is_healed() -> None:
    other = replace(COOKIE, bookie_id="bk2:3181")
    for stored, versions, why in (
        (COOKIE, (COOKIE, EMPTY), Fault.VERSION_MISSING),
        (COOKIE, (COOKIE, other), Fault.VERSION_DIFFERS),
        (COOKIE, (COOKIE, replace(COOKIE, layout=4)), Fault.VERSION_DIFFERS),
        (replace(COOKIE, index_dirs=("/l",)), (COOKIE, COOKIE), Fault.STORE_DIFFERS),
        (replace(COOKIE, instance_id=None), (COOKIE, COOKIE), Fault.STORE_DIFFERS),
    ):
        assert fault(start(stored, *versions)) == why
        assert start(stored, *versions, stamp=True) is None


@pytest.mark.parametrize("stamp", [False, True])
def test_damage_is_never_healed(stamp: bool) -> None:
    assert fault(start(COOKIE, COOKIE, Unreadable("cut"), stamp=stamp)) == Fault.VERSION_UNREADABLE
    assert fault(start(Unreadable("cut"), COOKIE, COOKIE, stamp=stamp)) == Fault.STORE_UNREADABLE


def test_a_cookie_that_is_too_old_is_healed() -> None:
    old = Unreadable("layout 2", too_old=True)
    assert fault(start(COOKIE, old, COOKIE)) == Fault.VERSION_UNREADABLE
    assert start(COOKIE, old, COOKIE, stamp=True) is None
    assert start(old, COOKIE, COOKIE, stamp=True) is None


def test_a_cluster_must_have_an_instance_id() -> None:
    nameless = replace(COOKIE, instance_id=None)
    refusal = start(nameless, nameless, nameless, stamp=True, expected=nameless)
    assert fault(refusal) == Fault.NO_INSTANCE_ID


def test_a_healthy_bookie_starts() -> None:
    assert start(COOKIE, COOKIE, COOKIE) is None


def test_of_a_directory_that_was_not_looked_at_nothing_is_guessed() -> None:
    assert start(COOKIE, COOKIE, None) is None
    assert start(None, EMPTY, None) is None
    assert fault(start(None, COOKIE, None)) == Fault.NOT_IN_STORE
    assert fault(start(COOKIE, EMPTY, None)) == Fault.VERSION_MISSING


def test_old_data_comes_before_everything() -> None:
    refusal = start(Unreadable("cut"), Unreadable("cut"), NoVersion(empty=True, old_data=True))
    assert fault(refusal) == Fault.OLD_DATA
