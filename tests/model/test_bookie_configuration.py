"""The directories that a bookie is configured with, as inferred from its cookies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model.cookie import ConfigSource, Cookie, infer_configuration
from auditor.model.start_refusal import BookieDirectory, configured_paths, legacy_refusal
from tests.model.cookie_cases import CORPORA, corpus_cases

COOKIE = Cookie(5, "bk1:3181", "/j", ("/l0",), None, "x")
GROWN = replace(COOKIE, ledger_dirs=("/l0", "/l1"))
OTHER_COOKIE = Cookie(5, "bk2:3181", "/k", ("/m0",), None, "x")


def inferred(
    versions: list[Cookie], stored: Cookie | None
) -> tuple[tuple[str, ...], ConfigSource, bool] | None:
    configuration = infer_configuration("bk1:3181", versions, stored)
    return (
        None
        if configuration is None
        else (configuration.ledger_dirs, configuration.source, configuration.do_cookies_agree)
    )


def test_agreeing_cookies_give_the_configuration_without_doubt() -> None:
    assert inferred([COOKIE, COOKIE], COOKIE) == (("/l0",), ConfigSource.OWN_VERSION_FILES, True)
    assert inferred([], COOKIE) == (("/l0",), ConfigSource.STORE_COOKIE, True)
    assert inferred([COOKIE, COOKIE], None) == (("/l0",), ConfigSource.OWN_VERSION_FILES, True)


def test_majority_of_versions_wins_over_the_store_cookie() -> None:
    assert inferred([GROWN, GROWN, COOKIE], COOKIE) == (("/l0", "/l1"), ConfigSource.OWN_VERSION_FILES, False)


def test_version_of_another_bookie_is_ignored() -> None:
    assert inferred([OTHER_COOKIE, OTHER_COOKIE, COOKIE], COOKIE) == (
        ("/l0",),
        ConfigSource.OWN_VERSION_FILES,
        False,
    )
    assert inferred([OTHER_COOKIE, OTHER_COOKIE], COOKIE) == (("/l0",), ConfigSource.STORE_COOKIE, False)


def test_renamed_bookie_has_the_directories_of_its_old_versions() -> None:
    assert inferred([OTHER_COOKIE, OTHER_COOKIE], None) == (("/m0",), ConfigSource.OTHER_VERSION_FILES, False)


def test_tied_versions_are_decided_by_the_store_and_then_by_length() -> None:
    assert inferred([COOKIE, GROWN], COOKIE) == (("/l0",), ConfigSource.OWN_VERSION_FILES, False)
    assert inferred([COOKIE, GROWN], GROWN) == (("/l0", "/l1"), ConfigSource.OWN_VERSION_FILES, False)
    assert inferred([COOKIE, GROWN], None) == (("/l0", "/l1"), ConfigSource.OWN_VERSION_FILES, False)


def test_store_cookie_of_another_id_gives_the_directories() -> None:
    assert inferred([], OTHER_COOKIE) == (("/m0",), ConfigSource.STORE_COOKIE, False)


def test_no_cookie_gives_no_configuration() -> None:
    assert inferred([], None) is None


def test_interrupted_expansion_is_refused_unless_expansion_is_allowed() -> None:
    # The directories had been written, the store not yet.
    configuration = infer_configuration("bk1:3181", [GROWN, GROWN, GROWN], COOKIE)
    assert configuration is not None
    expected = configuration.expected_cookie("bk1:3181", "x")
    directories = [BookieDirectory(path, role, GROWN) for role, path in configured_paths(expected)]
    assert legacy_refusal(expected, [("bk1:3181", COOKIE)], directories) is not None
    assert legacy_refusal(expected, [("bk1:3181", COOKIE)], directories, allow_expansion=True) is None


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_corpus_bookie_has_its_configured_directories(corpus: str) -> None:
    for number, (_, case) in enumerate(sorted(corpus_cases(corpus).items(), key=_directory), 1):
        assert case.expected.journal_dirs == f"/data/bookkeeper/bk{number}/journal"
        assert case.expected.ledger_dirs[0] == f"/data/bookkeeper/bk{number}/ledgers0"


def _directory(id_and_case: tuple[str, object]) -> int:
    id = id_and_case[0]
    custom = {"bk-a.rack1": 1, "bk-b.rack1": 2, "bk-c.rack2": 3}
    return custom.get(id) or int(id.partition(".dc1")[0].removesuffix(":3181")[-1])


@given(
    st.lists(st.sampled_from([COOKIE, GROWN, OTHER_COOKIE]), max_size=6),
    st.sampled_from([None, COOKIE, OTHER_COOKIE]),
)
def test_order_of_directories_does_not_change_the_configuration(
    versions: list[Cookie], stored: Cookie | None
) -> None:
    inferred = infer_configuration("bk1:3181", versions, stored)
    assert inferred == infer_configuration("bk1:3181", versions[::-1], stored)
