"""Which directories a bookie is configured with, as its cookies tell."""

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
OTHER = Cookie(5, "bk2:3181", "/k", ("/m0",), None, "x")


def inferred(
    versions: list[Cookie], stored: Cookie | None
) -> tuple[tuple[str, ...], ConfigSource, bool] | None:
    found = infer_configuration("bk1:3181", versions, stored)
    return None if found is None else (found.ledger_dirs, found.source, found.do_cookies_agree)


def test_where_all_agree_there_is_no_doubt() -> None:
    assert inferred([COOKIE, COOKIE], COOKIE) == (("/l0",), ConfigSource.OWN_VERSION_FILES, True)
    assert inferred([], COOKIE) == (("/l0",), ConfigSource.STORE_COOKIE, True)
    assert inferred([COOKIE, COOKIE], None) == (("/l0",), ConfigSource.OWN_VERSION_FILES, True)


def test_most_of_its_own_versions_come_before_the_store() -> None:
    assert inferred([GROWN, GROWN, COOKIE], COOKIE) == (("/l0", "/l1"), ConfigSource.OWN_VERSION_FILES, False)


def test_a_disk_of_another_bookie_has_no_say() -> None:
    assert inferred([OTHER, OTHER, COOKIE], COOKIE) == (("/l0",), ConfigSource.OWN_VERSION_FILES, False)
    assert inferred([OTHER, OTHER], COOKIE) == (("/l0",), ConfigSource.STORE_COOKIE, False)


def test_a_renamed_bookie_kept_its_directories() -> None:
    assert inferred([OTHER, OTHER], None) == (("/m0",), ConfigSource.OTHER_VERSION_FILES, False)


def test_between_equals_the_store_decides_and_then_the_longer_list() -> None:
    assert inferred([COOKIE, GROWN], COOKIE) == (("/l0",), ConfigSource.OWN_VERSION_FILES, False)
    assert inferred([COOKIE, GROWN], GROWN) == (("/l0", "/l1"), ConfigSource.OWN_VERSION_FILES, False)
    assert inferred([COOKIE, GROWN], None) == (("/l0", "/l1"), ConfigSource.OWN_VERSION_FILES, False)


def test_a_cookie_under_the_wrong_key_still_tells_the_directories() -> None:
    assert inferred([], OTHER) == (("/m0",), ConfigSource.STORE_COOKIE, False)


def test_without_a_cookie_nothing_is_known() -> None:
    assert inferred([], None) is None


def test_an_interrupted_expansion_is_refused_only_without_expansion() -> None:
    # The directories had been written, the store not yet.
    found = infer_configuration("bk1:3181", [GROWN, GROWN, GROWN], COOKIE)
    assert found is not None
    expected = found.expected_cookie("bk1:3181", "x")
    there = [BookieDirectory(path, role, GROWN) for role, path in configured_paths(expected)]
    assert legacy_refusal(expected, [("bk1:3181", COOKIE)], there) is not None
    assert legacy_refusal(expected, [("bk1:3181", COOKIE)], there, allow_expansion=True) is None


@pytest.mark.parametrize("corpus", CORPORA)
def test_every_bookie_of_the_corpora_has_the_configuration_it_was_given(corpus: str) -> None:
    for number, (_, case) in enumerate(sorted(corpus_cases(corpus).items(), key=_directory), 1):
        assert case.expected.journal_dirs == f"/data/bookkeeper/bk{number}/journal"
        assert case.expected.ledger_dirs[0] == f"/data/bookkeeper/bk{number}/ledgers0"


def _directory(item: tuple[str, object]) -> int:
    id = item[0]
    custom = {"bk-a.rack1": 1, "bk-b.rack1": 2, "bk-c.rack2": 3}
    return custom.get(id) or int(id.partition(".dc1")[0].removesuffix(":3181")[-1])


@given(st.lists(st.sampled_from([COOKIE, GROWN, OTHER]), max_size=6), st.sampled_from([None, COOKIE, OTHER]))
def test_the_order_of_the_directories_does_not_matter(versions: list[Cookie], stored: Cookie | None) -> None:
    inferred = infer_configuration("bk1:3181", versions, stored)
    assert inferred == infer_configuration("bk1:3181", versions[::-1], stored)
