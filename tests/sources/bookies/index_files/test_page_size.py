from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.tables.index_counts import derive_facts, find_page_sizes


@pytest.mark.parametrize(
    ("counts", "size"),
    [
        pytest.param({}, 8192, id="no files"),
        pytest.param({0: 100, 28: 3}, 8192, id="lengths that say nothing"),
        pytest.param({8192: 7, 4096: 1}, 8192, id="one cut file of eight"),
        pytest.param({8192: 6, 4096: 2}, 4096, id="two of eight are no accident"),
        pytest.param({8192: 6, 4096: 1}, 4096, id="too few files to call one cut"),
        pytest.param({8192: 98, 512: 1, 2560: 1}, 8192, id="two of a hundred"),
        pytest.param({8192: 97, 512: 1, 2560: 2}, 512, id="three of a hundred"),
        pytest.param({65536: 20}, 8192, id="larger pages"),
        pytest.param({1024: 5, 3072: 9, 8192: 1}, 1024, id="small pages"),
    ],
)
def test_page_size_is_the_largest_that_divides_nearly_all_file_lengths(
    counts: dict[int, int], size: int
) -> None:
    assert find_page_sizes({"bk": counts}) == {"bk": size}


@given(st.dictionaries(st.integers(0, 50).map(lambda pages: pages * 8192), st.integers(1, 1000)))
def test_files_of_default_pages_are_never_counted_as_cut(counts: dict[int, int]) -> None:
    (size,) = find_page_sizes({"bk": counts}).values()
    assert not any(length % size for length in counts)


@given(st.dictionaries(st.integers(0, 40_000), st.integers(1, 100)))
def test_page_size_leaves_at_most_a_few_files_cut(counts: dict[int, int]) -> None:
    (size,) = find_page_sizes({"bk": counts}).values()
    whole = {length: count for length, count in counts.items() if length and length % 512 == 0}
    cut = sum(count for length, count in whole.items() if length % size)
    assert size in (512, 1024, 2048, 4096, 8192)
    assert cut <= max(1, sum(whole.values()) // 50)


@pytest.mark.parametrize(
    ("lengths", "cut"),
    [
        pytest.param({8192: 40, None: 3, 0: 2}, False, id="whole pages, header alone, no file"),
        pytest.param({8192: 40, 512: 1}, True, id="a file that ends inside a page"),
        pytest.param({1024: 40, 4: 1}, True, id="a file that ends inside a sector"),
        pytest.param({4: 1}, True, id="no other file to tell the page by"),
        pytest.param({None: 1}, False, id="no file at all"),
    ],
)
def test_bookie_has_a_cut_file_if_its_length_is_no_multiple_of_the_page(
    lengths: dict[int | None, int], cut: bool
) -> None:
    shapes = derive_facts(("bk", "ok", length, count) for length, count in lengths.items())
    whole = {length: count for length, count in lengths.items() if length and length % 512 == 0}
    assert shapes.page_size_by_bookie == (find_page_sizes({"bk": whole}) if whole else {})
    assert shapes.bookies_with_cut_files == ({"bk"} if cut else set())


def test_files_that_are_not_ok_have_no_page_size_and_are_not_cut() -> None:
    shapes = derive_facts([("bk", "cut", 4, 1), ("bk", "unreadable", 512, 9)])
    assert (shapes.page_size_by_bookie, shapes.bookies_with_cut_files) == ({}, frozenset())
    assert shapes.states == {"cut", "unreadable"}
