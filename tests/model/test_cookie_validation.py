"""Answers of LegacyCookieValidation to a bookie's start."""

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
OTHER_COOKIE = replace(COOKIE, bookie_id="bk2:3181")
EMPTY, FULL, UNSEEN = MissingVersion(empty=True), MissingVersion(empty=False), None
Version = Cookie | UnreadableCookie | MissingVersion | None


def directories(*versions: Version, cookie: Cookie = COOKIE) -> list[BookieDirectory]:
    """Return the directories of ``cookie``: /j0, /j1, /l0 and /l1."""
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
    stored_cookies = [] if stored is None else [(COOKIE.bookie_id, stored)]
    return legacy_refusal(
        expected, stored_cookies, directories(*versions, cookie=expected), allow_expansion=expansion
    )


def test_every_vector_is_refused_as_by_the_server() -> None:
    observed_faults = set()
    for case in vectors():
        for mode, expansion in MODES.items():
            refusal = legacy_refusal(
                case.expected, case.candidates, case.directories, allow_expansion=expansion
            )
            answer = case.answers[mode]
            assert (refusal and refusal.error) == (answer and answer["error"])
            if refusal is not None and answer is not None:
                assert_fault_matches_server(case, refusal, answer["message"])
            observed_faults.add(refusal and refusal.fault)
    # Journals and storages are no matter of cookies, and releases before 4.16 wrote none of these cookies.
    journals = {Fault.JOURNAL_GONE, Fault.JOURNAL_INVALID_RECORD, Fault.JOURNAL_UNREADABLE}
    assert observed_faults == {None, *Fault} - journals - {Fault.INDEX_NOT_IN_COOKIE, Fault.INDEX_COUNT}


def assert_fault_matches_server(case: Case, refusal: Refusal, message: str | None) -> None:
    blamed = case.stored
    if refusal.fault in (Fault.VERSION_DIFFERS, Fault.VERSION_INSTANCE, Fault.VERSION_UNREADABLE):
        [path] = refusal.paths
        [version] = [directory.version for directory in case.directories if directory.path == path]
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
def test_every_corpus_bookie_is_refused_as_by_the_server(corpus: str) -> None:
    for case in corpus_cases(corpus).values():
        for mode, expansion in MODES.items():
            refusal = legacy_refusal(
                case.expected, case.candidates, case.directories, allow_expansion=expansion
            )
            answer = case.answers[mode]
            assert (refusal and refusal.error) == (answer and answer["error"])
            if refusal is not None and answer is not None:
                assert_fault_matches_server(case, refusal, answer["message"])


def test_injected_faults_of_a_corpus_are_found() -> None:
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
        (OTHER_COOKIE, {"bookieHost"}, {"bookieHost"}),
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
def test_cookie_fields_differ_as_for_the_server(
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


@pytest.mark.parametrize(("expected_id", "stored_id"), [("a", "b"), ("a", None), (None, "b")])
def test_unequal_or_missing_instance_id_is_refused(expected_id: str | None, stored_id: str | None) -> None:
    expected, cookie = replace(COOKIE, instance_id=expected_id), replace(COOKIE, instance_id=stored_id)
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
def test_new_directory_allows_old_ones_when_the_store_has_no_cookie(expansion: bool) -> None:
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


def test_wiped_ledger_or_index_directory_is_refused_with_expansion() -> None:
    assert faults(start(COOKIE, COOKIE, COOKIE, COOKIE, EMPTY, expansion=True)) == (
        Fault.DISK_WIPED,
        ("/l1",),
    )
    indexed = replace(COOKIE, index_dirs=("/i/",))
    refusal = start(indexed, *[indexed] * 4, EMPTY, expansion=True, expected=indexed)
    assert faults(refusal) == (Fault.DISK_WIPED, ("/i/",))


def test_wiped_journal_is_accepted_as_new_with_expansion() -> None:
    assert start(COOKIE, COOKIE, EMPTY, COOKIE, COOKIE, expansion=True) is None
    assert faults(start(COOKIE, COOKIE, FULL, COOKIE, COOKIE, expansion=True)) == (
        Fault.NOT_EMPTY,
        ("/j1",),
    )


@pytest.mark.parametrize("stored", [None, COOKIE])
@pytest.mark.parametrize("expansion", [False, True])
def test_unequal_or_unreadable_version_refuses_every_start(stored: Cookie | None, expansion: bool) -> None:
    refusal = start(stored, COOKIE, COOKIE, OTHER_COOKIE, EMPTY, expansion=expansion)
    assert faults(refusal) == (Fault.VERSION_DIFFERS, ("/l0",))
    refusal = start(stored, COOKIE, COOKIE, EMPTY, UnreadableCookie("cut"), expansion=expansion)
    assert faults(refusal) == (Fault.VERSION_UNREADABLE, ("/l1",))
    assert refusal is not None
    assert "cut" in refusal.reason


def test_cookies_of_every_possible_id_are_checked() -> None:
    cookie_dirs = directories(*[COOKIE] * 4)
    stored: list[tuple[str, Cookie | UnreadableCookie]] = [
        ("10.0.0.1:3181", OTHER_COOKIE),
        ("bk1:3181", COOKIE),
    ]
    refusal = legacy_refusal(COOKIE, stored, cookie_dirs)
    assert refusal is not None
    assert (refusal.fault, refusal.stored_id) == (Fault.STORE_DIFFERS, "10.0.0.1:3181")


# In which order.


def test_first_fault_in_server_order_is_reported() -> None:
    old = MissingVersion(empty=True, old_data=True)
    damage = UnreadableCookie("cut")
    assert faults(start(damage, OTHER_COOKIE, damage, old, EMPTY)) == (Fault.OLD_DATA, ("/l0",))
    assert faults(start(damage, OTHER_COOKIE, damage, FULL, EMPTY)) == (Fault.STORE_UNREADABLE, ())
    assert faults(start(OTHER_COOKIE, OTHER_COOKIE, damage, FULL, EMPTY)) == (Fault.STORE_DIFFERS, ())
    assert faults(start(COOKIE, OTHER_COOKIE, damage, FULL, EMPTY)) == (Fault.VERSION_DIFFERS, ("/j0",))
    assert faults(start(COOKIE, COOKIE, damage, FULL, EMPTY)) == (Fault.VERSION_UNREADABLE, ("/j1",))
    assert faults(start(COOKIE, COOKIE, COOKIE, FULL, EMPTY)) == (Fault.VERSION_MISSING, ("/l0", "/l1"))
    refusal = start(COOKIE, COOKIE, COOKIE, FULL, old)
    assert refusal is not None
    assert refusal.error == IO_EXCEPTION


# Of directories that could not be looked at, nothing is guessed.


def test_unread_directory_refuses_no_start() -> None:
    assert start(COOKIE, COOKIE, COOKIE, COOKIE, UNSEEN) is None
    assert start(None, COOKIE, COOKIE, COOKIE, UNSEEN) is None
    assert start(None, *[UNSEEN] * 4) is None


def test_visible_fault_refuses_the_start_despite_unread_directories() -> None:
    assert faults(start(COOKIE, UNSEEN, UNSEEN, OTHER_COOKIE, UNSEEN)) == (Fault.VERSION_DIFFERS, ("/l0",))
    assert faults(start(COOKIE, UNSEEN, UNSEEN, EMPTY, UNSEEN)) == (Fault.VERSION_MISSING, ("/l0",))
    assert faults(start(OTHER_COOKIE, *[UNSEEN] * 4)) == (Fault.STORE_DIFFERS, ())


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
VERSIONS = st.sampled_from([COOKIE, OTHER_COOKIE, EMPTY, FULL, UnreadableCookie("cut"), UNSEEN])
ANY_FOUR = st.tuples(VERSIONS, VERSIONS, VERSIONS, VERSIONS)
STORED = st.sampled_from([None, COOKIE, OTHER_COOKIE, UnreadableCookie("cut")])


@given(COOKIES, st.booleans())
def test_a_healthy_bookie_is_never_refused(cookie: Cookie, expansion: bool) -> None:
    cookie_dirs = directories(*[cookie] * len(configured_paths(cookie)), cookie=cookie)
    assert (
        legacy_refusal(cookie, [(cookie.bookie_id, cookie)], cookie_dirs, allow_expansion=expansion) is None
    )


@given(STORED, ANY_FOUR)
def test_expansion_changes_only_refusals_of_missing_versions(
    stored: Cookie | UnreadableCookie | None, versions: tuple[Version, ...]
) -> None:
    refusal = start(stored, *versions)
    if refusal is None:
        assert start(stored, *versions, expansion=True) is None
    elif refusal.fault is not Fault.VERSION_MISSING:
        assert start(stored, *versions, expansion=True) == refusal


@given(STORED, ANY_FOUR, ANY_FOUR, st.booleans())
def test_refusal_with_unread_directories_persists_once_they_are_read(
    stored: Cookie | UnreadableCookie | None,
    versions: tuple[Version, ...],
    behind: tuple[Version, ...],
    expansion: bool,
) -> None:
    read_versions = [
        after if before is None else before for before, after in zip(versions, behind, strict=True)
    ]
    if start(stored, *versions, expansion=expansion) is not None:
        assert start(stored, *read_versions, expansion=expansion) is not None


@given(STORED, ANY_FOUR, st.booleans())
def test_refusal_names_the_faulty_paths_or_stored_id(
    stored: Cookie | UnreadableCookie | None, versions: tuple[Version, ...], expansion: bool
) -> None:
    refusal = start(stored, *versions, expansion=expansion)
    if refusal is not None:
        assert refusal.paths or refusal.stored_id
        assert set(refusal.paths) <= {"/j0", "/j1", "/l0", "/l1"}
        assert all(path in refusal.reason for path in refusal.paths)
