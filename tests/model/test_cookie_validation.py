"""What LegacyCookieValidation says to a bookie's start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model.cookie import Cookie
from auditor.model.start_refusal import (
    INVALID_COOKIE,
    IO_EXCEPTION,
    BookieDirectory,
    Fault,
    MissingVersion,
    Refusal,
    UnreadableCookie,
    configured_paths,
    legacy_refusal,
    unequal_cookie_fields,
)
from tests.model.cookie_cases import CORPORA, Case, corpus_cases, read, vectors

MODES = {"legacy": False, "expansion": True}
COOKIE = Cookie(5, "bk1:3181", "/j0,/j1", ("/l0", "/l1"), None, "the-instance")
OTHER = replace(COOKIE, bookie_id="bk2:3181")
EMPTY, FULL, UNSEEN = MissingVersion(empty=True), MissingVersion(empty=False), None
Version = Cookie | UnreadableCookie | MissingVersion | None


def directories(*versions: Version, cookie: Cookie = COOKIE) -> list[BookieDirectory]:
    """Those of ``cookie``: /j0, /j1, /l0 and /l1."""
    paths = configured_paths(cookie)
    return [
        BookieDirectory(path, role, version) for (role, path), version in zip(paths, versions, strict=True)
    ]


def start(
    stored: Cookie | UnreadableCookie | None,
    *versions: Version,
    expansion: bool = False,
    expected: Cookie = COOKIE,
) -> Refusal | None:
    there = [] if stored is None else [(COOKIE.bookie_id, stored)]
    return legacy_refusal(expected, there, directories(*versions, cookie=expected), allow_expansion=expansion)


def test_every_bookie_is_refused_as_the_server_refuses_it() -> None:
    seen = set()
    for case in vectors():
        for mode, expansion in MODES.items():
            refusal = legacy_refusal(
                case.expected, case.candidates, case.directories, allow_expansion=expansion
            )
            said = case.answers[mode]
            assert (refusal and refusal.error) == (said and said["error"])
            if refusal is not None and said is not None:
                blames_what_the_server_blames(case, refusal, said["message"])
            seen.add(refusal and refusal.fault)
    # Journals and storages are no matter of cookies, and releases before 4.16 wrote none of these cookies.
    journals = {Fault.JOURNAL_GONE, Fault.JOURNAL_INVALID_RECORD, Fault.JOURNAL_UNREADABLE}
    assert seen == {None, *Fault} - journals - {Fault.INDEX_NOT_IN_COOKIE, Fault.INDEX_COUNT}


def blames_what_the_server_blames(case: Case, refusal: Refusal, message: str | None) -> None:
    blamed = case.stored
    if refusal.fault in (Fault.VERSION_DIFFERS, Fault.VERSION_INSTANCE, Fault.VERSION_UNREADABLE):
        [path] = refusal.paths
        [version] = [each.version for each in case.directories if each.path == path]
        assert isinstance(version, Cookie | UnreadableCookie)
        blamed = version
    if message is not None and "is not matching with [" in message:
        assert refusal.fault in (Fault.STORE_DIFFERS, Fault.VERSION_DIFFERS)
        assert isinstance(blamed, Cookie)
        if blamed.layout > 3:  # an older one is printed so that nobody can read it back
            printed = read(message.partition("is not matching with [")[2].removesuffix("]").encode())
            assert printed == replace(blamed, layout=5)
    elif message is not None and message.startswith("instanceId"):
        assert refusal.fault in (Fault.STORE_INSTANCE, Fault.VERSION_INSTANCE)
        assert isinstance(blamed, Cookie)
        assert message.endswith(f"is not matching with {blamed.instance_id or 'null'}")
    elif message is not None and "too old version" in message:
        assert isinstance(blamed, UnreadableCookie)
        assert "does not contain" in blamed.reason
    elif message is not None:
        unreadable = (Fault.VERSION_UNREADABLE, Fault.STORE_UNREADABLE, Fault.OLD_DATA)
        assert refusal.fault in unreadable


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_bookie_of_the_corpora_is_refused_as_the_server_refuses_it(corpus: str) -> None:
    for case in corpus_cases(corpus).values():
        for mode, expansion in MODES.items():
            refusal = legacy_refusal(
                case.expected, case.candidates, case.directories, allow_expansion=expansion
            )
            said = case.answers[mode]
            assert (refusal and refusal.error) == (said and said["error"])
            if refusal is not None and said is not None:
                blames_what_the_server_blames(case, refusal, said["message"])


def test_the_faults_of_a_corpus_are_where_they_were_made() -> None:
    refusals = {
        id: legacy_refusal(case.expected, case.candidates, case.directories)
        for id, case in corpus_cases("dbledger-long").items()
    }
    assert {
        id: refusal and (refusal.fault, refusal.paths, refusal.stored_id) for id, refusal in refusals.items()
    } == {
        "127.0.103.4:3181": (Fault.VERSION_INSTANCE, ("/data/bookkeeper/bk4/ledgers0",), None),
        "bk-a.rack1": (Fault.VERSION_DIFFERS, ("/data/bookkeeper/bk1/ledgers1",), None),
        "bk-b.rack1": (Fault.VERSION_DIFFERS, ("/data/bookkeeper/bk2/ledgers1",), None),
        "bk-c.rack2": (Fault.STORE_DIFFERS, (), "bk-c.rack2"),
    }


# What a cookie may differ in, in the order of comparison.


@pytest.mark.parametrize(
    ("cookie", "fields", "fields_expanding"),
    [
        (OTHER, {"bookieHost"}, {"bookieHost"}),
        (replace(COOKIE, bookie_id="BK1:3181"), {"bookieHost"}, {"bookieHost"}),
        (replace(COOKIE, journal_dirs="/j1,/j0"), {"journalDir"}, {"journalDir"}),
        (replace(COOKIE, journal_dirs="/j0"), {"journalDir"}, {"journalDir"}),
        (replace(COOKIE, ledger_dirs=("/l1", "/l0")), {"ledgerDirs"}, set()),
        (replace(COOKIE, ledger_dirs=("/l0",)), {"ledgerDirs"}, set()),
        (
            replace(COOKIE, ledger_dirs=("/l0", "/l1", "/l2")),
            {"ledgerDirs"},
            {"ledgerDirs"},
        ),
        (
            replace(COOKIE, ledger_dirs=("/l0",), index_dirs=("/i0",)),
            {"ledgerDirs", "indexDirs"},
            {"indexDirs"},
        ),
        (replace(COOKIE, index_dirs=("/l0", "/l1")), set(), set()),
        (replace(COOKIE, index_dirs=("/l1",)), {"indexDirs"}, set()),
        (replace(COOKIE, index_dirs=("/i0", "/i1")), {"indexDirs"}, {"indexDirs"}),
        (replace(COOKIE, layout=4), set(), set()),
        (replace(COOKIE, layout=6), set(), set()),
    ],
)
def test_a_cookie_differs_where_the_server_says_so(
    cookie: Cookie, fields: set[str], fields_expanding: set[str]
) -> None:
    assert set(unequal_cookie_fields(COOKIE, cookie)) == fields
    assert set(unequal_cookie_fields(COOKIE, cookie, allow_expansion=True)) == fields_expanding
    for expansion, wrong in ((False, fields), (True, fields_expanding)):
        in_store = start(cookie, *[COOKIE] * 4, expansion=expansion)
        on_disk = start(COOKIE, COOKIE, COOKIE, cookie, COOKIE, expansion=expansion)
        assert (in_store and in_store.fault) == (Fault.STORE_DIFFERS if wrong else None)
        assert (on_disk and on_disk.fault) == (Fault.VERSION_DIFFERS if wrong else None)
        assert not wrong or (on_disk and on_disk.paths) == ("/l0",)
        for field in wrong:
            assert in_store is not None
            assert field in in_store.reason


@pytest.mark.parametrize(("mine", "its"), [("a", "b"), ("a", None), (None, "b")])
def test_both_have_the_instance_id_or_neither(mine: str | None, its: str | None) -> None:
    expected, cookie = replace(COOKIE, instance_id=mine), replace(COOKIE, instance_id=its)
    assert faults(start(cookie, *[expected] * 4, expected=expected)) == (Fault.STORE_INSTANCE, ())
    refusal = start(expected, expected, expected, expected, cookie, expected=expected)
    assert faults(refusal) == (Fault.VERSION_INSTANCE, ("/l1",))
    assert start(expected, *[expected] * 4, expected=expected) is None


def faults(refusal: Refusal | None) -> tuple[Fault, tuple[str, ...]] | None:
    return None if refusal is None else (refusal.fault, refusal.paths)


# What cookie and directories together mean.


@pytest.mark.parametrize("expansion", [False, True])
def test_a_new_bookie_starts_on_empty_directories(expansion: bool) -> None:
    assert start(None, *[EMPTY] * 4, expansion=expansion) is None
    refused = start(None, EMPTY, EMPTY, FULL, EMPTY, expansion=expansion)
    assert faults(refused) == (Fault.NOT_EMPTY, ("/l0",))
    assert start(None, EMPTY, EMPTY, MissingVersion(empty=None), EMPTY, expansion=expansion) is None


@pytest.mark.parametrize("expansion", [False, True])
def test_without_a_cookie_in_the_store_one_new_directory_lets_old_ones_pass(expansion: bool) -> None:
    # Only the directories without VERSION are tested for what lies in them.
    assert start(None, COOKIE, COOKIE, COOKIE, EMPTY, expansion=expansion) is None
    assert faults(start(None, COOKIE, COOKIE, COOKIE, FULL, expansion=expansion)) == (
        Fault.NOT_EMPTY,
        ("/l1",),
    )


@pytest.mark.parametrize("expansion", [False, True])
def test_a_bookie_whose_cookie_the_store_lost_is_refused(expansion: bool) -> None:
    refusal = start(None, *[COOKIE] * 4, expansion=expansion)
    assert refusal is not None
    assert (refusal.fault, refusal.error) == (Fault.NOT_IN_STORE, INVALID_COOKIE)
    assert refusal.stored_id == "bk1:3181"


def test_a_missing_version_is_refused_unless_storage_may_be_added() -> None:
    grown = replace(COOKIE, ledger_dirs=("/l0", "/l1", "/l2"))
    assert faults(start(COOKIE, COOKIE, COOKIE, EMPTY, EMPTY)) == (Fault.VERSION_MISSING, ("/l0", "/l1"))
    new: list[Version] = [COOKIE, COOKIE, COOKIE, COOKIE, EMPTY]
    assert start(COOKIE, *new, expansion=True, expected=grown) is None
    assert faults(start(COOKIE, *new[:4], FULL, expansion=True, expected=grown)) == (
        Fault.NOT_EMPTY,
        ("/l2",),
    )
    assert faults(start(COOKIE, *new, expected=grown)) == (Fault.STORE_DIFFERS, ())


def test_a_wiped_ledger_directory_is_no_new_one() -> None:
    assert faults(start(COOKIE, COOKIE, COOKIE, COOKIE, EMPTY, expansion=True)) == (
        Fault.DISK_WIPED,
        ("/l1",),
    )
    indexed = replace(COOKIE, index_dirs=("/i/",))
    refusal = start(indexed, *[indexed] * 4, EMPTY, expansion=True, expected=indexed)
    assert faults(refusal) == (Fault.DISK_WIPED, ("/i/",))


def test_a_wiped_journal_passes_for_a_new_one() -> None:
    assert start(COOKIE, COOKIE, EMPTY, COOKIE, COOKIE, expansion=True) is None
    assert faults(start(COOKIE, COOKIE, FULL, COOKIE, COOKIE, expansion=True)) == (
        Fault.NOT_EMPTY,
        ("/j1",),
    )


@pytest.mark.parametrize("stored", [None, COOKIE])
@pytest.mark.parametrize("expansion", [False, True])
def test_a_version_that_differs_or_cannot_be_read_refuses_every_start(
    stored: Cookie | None, expansion: bool
) -> None:
    refusal = start(stored, COOKIE, COOKIE, OTHER, EMPTY, expansion=expansion)
    assert faults(refusal) == (Fault.VERSION_DIFFERS, ("/l0",))
    refusal = start(stored, COOKIE, COOKIE, EMPTY, UnreadableCookie("cut"), expansion=expansion)
    assert faults(refusal) == (Fault.VERSION_UNREADABLE, ("/l1",))
    assert refusal is not None
    assert "cut" in refusal.reason


def test_every_id_that_could_be_the_bookies_is_asked_for() -> None:
    there = directories(*[COOKIE] * 4)
    both: list[tuple[str, Cookie | UnreadableCookie]] = [("10.0.0.1:3181", OTHER), ("bk1:3181", COOKIE)]
    refusal = legacy_refusal(COOKIE, both, there)
    assert refusal is not None
    assert (refusal.fault, refusal.stored_id) == (Fault.STORE_DIFFERS, "10.0.0.1:3181")


# In which order.


def test_the_first_fault_is_the_one_that_is_reported() -> None:
    old = MissingVersion(empty=True, old_data=True)
    damage = UnreadableCookie("cut")
    assert faults(start(damage, OTHER, damage, old, EMPTY)) == (Fault.OLD_DATA, ("/l0",))
    assert faults(start(damage, OTHER, damage, FULL, EMPTY)) == (Fault.STORE_UNREADABLE, ())
    assert faults(start(OTHER, OTHER, damage, FULL, EMPTY)) == (Fault.STORE_DIFFERS, ())
    assert faults(start(COOKIE, OTHER, damage, FULL, EMPTY)) == (Fault.VERSION_DIFFERS, ("/j0",))
    assert faults(start(COOKIE, COOKIE, damage, FULL, EMPTY)) == (Fault.VERSION_UNREADABLE, ("/j1",))
    assert faults(start(COOKIE, COOKIE, COOKIE, FULL, EMPTY)) == (Fault.VERSION_MISSING, ("/l0", "/l1"))
    refusal = start(COOKIE, COOKIE, COOKIE, FULL, old)
    assert refusal is not None
    assert refusal.error == IO_EXCEPTION


# Of directories that could not be looked at, nothing is guessed.


def test_a_directory_that_was_not_looked_at_refuses_nothing() -> None:
    assert start(COOKIE, COOKIE, COOKIE, COOKIE, UNSEEN) is None
    assert start(None, COOKIE, COOKIE, COOKIE, UNSEEN) is None
    assert start(None, *[UNSEEN] * 4) is None


def test_a_fault_that_is_in_sight_refuses_whatever_is_not() -> None:
    assert faults(start(COOKIE, UNSEEN, UNSEEN, OTHER, UNSEEN)) == (Fault.VERSION_DIFFERS, ("/l0",))
    assert faults(start(COOKIE, UNSEEN, UNSEEN, EMPTY, UNSEEN)) == (Fault.VERSION_MISSING, ("/l0",))
    assert faults(start(OTHER, *[UNSEEN] * 4)) == (Fault.STORE_DIFFERS, ())


NAMES = st.text("abcdefgh/", min_size=1, max_size=5)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(tuple)
COOKIES = st.builds(
    Cookie,
    st.just(5),
    NAMES,
    PATHS.map(",".join),
    PATHS,
    st.none() | PATHS,
    st.none() | NAMES,
)
VERSIONS = st.sampled_from([COOKIE, OTHER, EMPTY, FULL, UnreadableCookie("cut"), UNSEEN])
ANY_FOUR = st.tuples(VERSIONS, VERSIONS, VERSIONS, VERSIONS)
STORED = st.sampled_from([None, COOKIE, OTHER, UnreadableCookie("cut")])


@given(COOKIES, st.booleans())
def test_a_healthy_bookie_is_never_refused(cookie: Cookie, expansion: bool) -> None:
    there = directories(*[cookie] * len(configured_paths(cookie)), cookie=cookie)
    assert legacy_refusal(cookie, [(cookie.bookie_id, cookie)], there, allow_expansion=expansion) is None


@given(STORED, ANY_FOUR)
def test_only_a_missing_version_is_refused_without_expansion_and_not_with_it(
    stored: Cookie | UnreadableCookie | None, versions: tuple[Version, ...]
) -> None:
    refusal = start(stored, *versions)
    if refusal is None:
        assert start(stored, *versions, expansion=True) is None
    elif refusal.fault is not Fault.VERSION_MISSING:
        assert start(stored, *versions, expansion=True) == refusal


@given(STORED, ANY_FOUR, ANY_FOUR, st.booleans())
def test_what_is_refused_unseen_is_refused_when_seen(
    stored: Cookie | UnreadableCookie | None,
    versions: tuple[Version, ...],
    behind: tuple[Version, ...],
    expansion: bool,
) -> None:
    seen = [after if before is None else before for before, after in zip(versions, behind, strict=True)]
    if start(stored, *versions, expansion=expansion) is not None:
        assert start(stored, *seen, expansion=expansion) is not None


@given(STORED, ANY_FOUR, st.booleans())
def test_a_refusal_names_what_is_at_fault(
    stored: Cookie | UnreadableCookie | None, versions: tuple[Version, ...], expansion: bool
) -> None:
    refusal = start(stored, *versions, expansion=expansion)
    if refusal is not None:
        assert refusal.paths or refusal.stored_id
        assert set(refusal.paths) <= {"/j0", "/j1", "/l0", "/l1"}
        assert all(path in refusal.reason for path in refusal.paths)
